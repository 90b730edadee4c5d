//! A line on standard error that says how far a measurement is, where a person looks at it.

#![allow(clippy::disallowed_methods, reason = "it draws in place, its own words alone")]

use std::io::Write as _;
use std::time::Duration;

use super::terminal::Terminal;

/// A line that is drawn in place. Dropping it takes it away.
#[derive(Debug)]
pub struct ProgressLine {
    is_seen: bool,
    drawn: bool,
}

impl ProgressLine {
    /// Nothing is shown where standard error is no terminal, or one that cannot redraw a line.
    pub fn begin() -> Self {
        Self { is_seen: Terminal::of_errors().can_redraw, drawn: false }
    }

    /// Whether anything is shown.
    pub fn is_seen(&self) -> bool {
        self.is_seen
    }

    /// Draws it, in words of this program alone.
    pub fn draw(&mut self, text: &str) {
        if self.is_seen {
            self.drawn = true;
            // Where standard error is closed, there is nowhere to report that.
            let _ = std::io::stderr().write_all(format!("\r{text} \x1b[K").as_bytes());
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.drawn {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

/// How much of a time has passed.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    whole: Duration,
    shown: Option<u64>,
    line: ProgressLine,
}

impl Progress {
    /// Nothing is shown before the first second; see [`ProgressLine::new`].
    pub fn new(what: &'static str, whole: Duration) -> Self {
        Self { what, whole, shown: None, line: ProgressLine::begin() }
    }

    /// So much has passed.
    pub fn at(&mut self, passed: Duration) {
        let second = passed.min(self.whole).as_secs();
        if !self.line.is_seen() || second == 0 || self.shown == Some(second) {
            return;
        }
        self.shown = Some(second);
        self.line.draw(&format!("{}: {second} of {} s", self.what, self.whole.as_secs()));
    }
}
