//! How far the reading of a recording is, where a person waits for it.

use std::time::{Duration, Instant};

use noise_command::progress::ProgressLine;
use noise_command::terminal::Terminal;

/// What is read in less time shows nothing.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// A line on standard error. Dropping it takes it away.
#[derive(Debug)]
pub struct Reading {
    line: Option<ProgressLine>,
    began: Instant,
    /// What the line shows, in percent.
    shown: Option<u64>,
}

impl Reading {
    /// Begins now. A command that `prints` while it reads shows nothing on the terminal that it prints to.
    pub fn new(prints: bool) -> Self {
        let line = Some(ProgressLine::begin()).filter(|line| line.is_seen());
        let is_mixed = prints && Terminal::of_output().is_there;
        Self { line: line.filter(|_| !is_mixed), began: Instant::now(), shown: None }
    }

    /// So many of all bytes are read.
    pub fn at(&mut self, read_bytes: impl FnOnce() -> u64, all_bytes: u64) {
        let Some(line) = &mut self.line else { return };
        if self.began.elapsed() < SHOWN_AFTER {
            return;
        }
        let percent = percent(read_bytes(), all_bytes);
        if self.shown != Some(percent) {
            self.shown = Some(percent);
            line.draw(&format!("reading the recording: {percent} %"));
        }
    }
}

/// What is all read before the end of a trace is known stays below 100 %.
fn percent(read_bytes: u64, all_bytes: u64) -> u64 {
    let percent = u128::from(read_bytes) * 100 / u128::from(all_bytes.max(1));
    u64::try_from(percent).unwrap_or(u64::MAX).min(99)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percents_below_the_end() {
        assert_eq!([0, 1, 33, 999, 1000].map(|read| percent(read, 1000)), [0, 0, 3, 99, 99]);
        assert_eq!(percent(5, 0), 99);
        assert_eq!(percent(u64::MAX / 2, u64::MAX), 49);
    }
}
