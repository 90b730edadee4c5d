//! The line that says how far a recording is, where a person looks at it.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use noise_model::units;

use super::session::{Limits, Summary};

/// How often it is drawn.
const EVERY: Duration = Duration::from_secs(1);

/// The line. Dropping it takes it away.
pub struct Line {
    limits: Limits,
    drawn: Option<(Instant, Summary)>,
    shown: bool,
    terminal: bool,
}

/// Bytes as people read them.
pub fn bytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

impl Line {
    /// Nothing is shown before the first second, and nothing at all where standard error is no terminal.
    pub fn new(limits: Limits) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { limits, drawn: None, shown: false, terminal }
    }

    /// So much is recorded.
    pub fn at(&mut self, summary: Summary) {
        if !self.terminal {
            return;
        }
        let now = Instant::now();
        let Some((drawn, before)) = self.drawn else {
            self.drawn = Some((now, summary));
            return;
        };
        let passed = now.duration_since(drawn);
        if passed < EVERY {
            return;
        }
        let text = text(self.limits, before, summary, passed);
        // Where standard error is closed, there is nowhere to report that.
        let _ = std::io::stderr().write_all(format!("\r{text}\x1b[K").as_bytes());
        (self.drawn, self.shown) = (Some((now, summary)), true);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.shown {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

fn text(limits: Limits, before: Summary, now: Summary, passed: Duration) -> String {
    let seconds = passed.as_secs_f64().max(1e-9);
    let events = now.events.saturating_sub(before.events) as f64 / seconds;
    let growth = now.bytes.saturating_sub(before.bytes) as f64 / seconds;
    let length = now.length.as_secs();
    let whole =
        limits.duration.map_or_else(String::new, |whole| format!(" of {}", whole.as_secs()));
    let mut text = format!(
        "recording: {length}{whole} s, {} events/s, {}, {} lost",
        units::count(events as u64),
        bytes(now.bytes),
        units::count(now.lost)
    );
    if let Some(most) = limits.bytes.filter(|_| growth > 0.0) {
        let left_ns = most.saturating_sub(now.bytes) as f64 / growth * 1e9;
        let left = units::duration(left_ns);
        text.push_str(&format!("; {} in {left} at this rate", bytes(most)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_and_how_fast() {
        let summary = |seconds, events, bytes, lost| Summary {
            length: Duration::from_secs(seconds),
            events,
            bytes,
            lost,
        };
        let (before, now) = (summary(4, 1_000, 1_000_000, 0), summary(5, 801_000, 34_100_000, 7));
        let limits = Limits { duration: None, bytes: Some(1_000_000_000) };
        assert_eq!(
            text(limits, before, now, Duration::from_secs(1)),
            "recording: 5 s, 800 k events/s, 34.1 MB, 7 lost; 1000.0 MB in 29.2 s at this rate"
        );
        let limits = Limits { duration: Some(Duration::from_secs(60)), bytes: None };
        let text = text(limits, before, before, Duration::from_secs(1));
        assert_eq!(text, "recording: 4 of 60 s, 0 events/s, 1.0 MB, 0 lost");
    }
}
