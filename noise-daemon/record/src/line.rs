//! The line that says how far a recording is, where a person looks at it.

use std::time::{Duration, Instant};

use noise_command::progress::ProgressLine;
use noise_text::units;

use crate::summary::{Limits, RecordSummary, megabytes};

/// How often it is drawn.
const EVERY: Duration = Duration::from_secs(1);

/// The line. Dropping it takes it away.
pub struct RecordingLine {
    limits: Limits,
    drawn: Option<(Instant, RecordSummary)>,
    line: ProgressLine,
}

impl RecordingLine {
    /// Nothing is shown before the first second.
    pub fn new(limits: Limits) -> Self {
        Self { limits, drawn: None, line: ProgressLine::begin() }
    }

    /// So much is recorded.
    pub fn at(&mut self, summary: RecordSummary) {
        if !self.line.is_seen() {
            return;
        }
        let now = Instant::now();
        let Some((drawn, before)) = self.drawn else {
            self.drawn = Some((now, summary));
            return;
        };
        let passed = now.duration_since(drawn);
        if passed >= EVERY {
            self.line.draw(&text(self.limits, before, summary, passed));
            self.drawn = Some((now, summary));
        }
    }
}

fn text(limits: Limits, before: RecordSummary, now: RecordSummary, passed: Duration) -> String {
    let seconds = passed.as_secs_f64().max(1e-9);
    let events = now.events.saturating_sub(before.events) as f64 / seconds;
    let growth = now.bytes.saturating_sub(before.bytes) as f64 / seconds;
    let length = now.length.as_secs();
    let whole =
        limits.duration.map_or_else(String::new, |whole| format!(" of {}", whole.as_secs()));
    let mut text = format!(
        "recording: {length}{whole} s, {} events/s, {}, {} lost",
        units::count(events as u64),
        megabytes(now.bytes),
        units::count(now.lost)
    );
    if let (Some(most), Some(_)) = (limits.bytes, limits.files) {
        text.push_str(&format!("; the latest {} are kept", megabytes(most)));
    } else if let Some(most) = limits.bytes.filter(|_| growth > 0.0) {
        let left_ns = most.saturating_sub(now.bytes) as f64 / growth * 1e9;
        let left = units::duration(left_ns);
        text.push_str(&format!("; {} in {left} at this rate", megabytes(most)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_and_how_fast() {
        let summary = |seconds, events, bytes, lost| RecordSummary {
            length: Duration::from_secs(seconds),
            events,
            bytes,
            lost,
            ..RecordSummary::default()
        };
        let (before, now) = (summary(4, 1_000, 1_000_000, 0), summary(5, 801_000, 34_100_000, 7));
        let limits = Limits { bytes: Some(1_000_000_000), ..Limits::default() };
        assert_eq!(
            text(limits, before, now, Duration::from_secs(1)),
            "recording: 5 s, 800 k events/s, 34.1 MB, 7 lost; 1000.0 MB in 29.2 s at this rate"
        );
        let kept = Limits { files: Some(4), ..limits };
        assert_eq!(
            text(kept, before, now, Duration::from_secs(1)),
            "recording: 5 s, 800 k events/s, 34.1 MB, 7 lost; the latest 1000.0 MB are kept"
        );
        let limits = Limits { duration: Some(Duration::from_secs(60)), ..Limits::default() };
        let text = text(limits, before, before, Duration::from_secs(1));
        assert_eq!(text, "recording: 4 of 60 s, 0 events/s, 1.0 MB, 0 lost");
    }
}
