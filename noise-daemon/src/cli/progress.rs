//! A line on standard error that says how far a measurement is, where a person looks at it.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

/// The line. Dropping it takes it away.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    whole: Duration,
    shown: Option<u64>,
    terminal: bool,
}

impl Progress {
    /// Nothing is shown before the first second, and nothing at all where standard error is no
    /// terminal.
    pub fn new(what: &'static str, whole: Duration) -> Self {
        Self { what, whole, shown: None, terminal: std::io::stderr().is_terminal() }
    }

    /// So much has passed.
    pub fn at(&mut self, passed: Duration) {
        let second = passed.min(self.whole).as_secs();
        if !self.terminal || second == 0 || self.shown == Some(second) {
            return;
        }
        self.shown = Some(second);
        let line = format!("\r{}: {second} of {} s ", self.what, self.whole.as_secs());
        // Where standard error is closed, there is nowhere to report that.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}
