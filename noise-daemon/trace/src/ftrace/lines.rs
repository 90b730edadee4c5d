//! The lines of a text, found in a window of it.

use memchr::memchr;

use crate::window::{Content, Short, Window};

/// Bytes of one line. Kernels print an event into 8 KiB, and trace-cmd one that is no longer than a page of the ring
/// buffer. What is longer is not an event, but costs time and memory where it is shown.
const MAX_LINE_BYTES: usize = 1 << 20;

/// What is next in a text.
pub enum Next<'l> {
    /// A line, without its end.
    Line(&'l [u8]),
    /// One that is longer than 1 MiB.
    Long,
    /// The file ended too early, by so many bytes of the stretch that are missing. A line that it ends in is none: so
    /// many bytes are left out.
    Short(Short, u64),
}

enum ScannedLine {
    /// A line of so many bytes, and of so many with its end.
    Line(usize, usize),
    Long(usize),
    Short(u64),
}

/// Goes over a stretch of a text, line by line.
pub struct Lines<'t> {
    window: Window<'t>,
    /// Where the latest line begins, and the one behind it.
    line: u64,
    at: u64,
    end: u64,
}

impl<'t> Lines<'t> {
    /// Those that begin between two places, of which so many bytes are read at once.
    pub fn new(content: Content<'t>, (begin, end): (u64, u64), window: usize) -> Self {
        Self { window: Window::new(content, window), line: begin, at: begin, end }
    }

    /// Where the next line begins.
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// What lies from the begin of the latest line on.
    #[inline(always)]
    pub fn seen(&self) -> &[u8] {
        self.window.seen()
    }

    /// Makes the latest line the next one again.
    pub const fn go_back(&mut self) {
        self.at = self.line;
    }

    /// Whether a long line made its window wider than others.
    pub const fn is_wide(&self) -> bool {
        self.window.is_wide()
    }

    /// Gives its memory back. What was seen is read again where it is asked for again.
    pub fn close(&mut self) {
        self.window.close();
    }

    #[inline]
    pub fn next(&mut self) -> Option<Next<'_>> {
        self.line = self.at;
        let found = self.find()?;
        match found {
            ScannedLine::Line(length, whole) => {
                self.at += whole as u64;
                Some(Next::Line(self.window.seen().get(..length)?))
            }
            ScannedLine::Long(length) => {
                self.pass(length);
                Some(Next::Long)
            }
            ScannedLine::Short(left) => {
                let cut_at = self.window.length();
                let missing = self.end.saturating_sub(cut_at.max(self.at));
                let error = self.window.short().and_then(|short| short.error);
                self.end = self.at;
                Some(Next::Short(Short { at: cut_at, missing, error }, left))
            }
        }
    }

    #[inline]
    fn find(&mut self) -> Option<ScannedLine> {
        let left = self.end.checked_sub(self.at).filter(|left| *left > 0)?;
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(MAX_LINE_BYTES + 1);
        let mut least = 0;
        loop {
            let seen = self.window.view(self.at, least);
            let seen = seen.get(..most).unwrap_or(seen);
            if let Some(length) = memchr(b'\n', seen) {
                return Some(ScannedLine::Line(length, length + 1));
            }
            let length = seen.len();
            if length > MAX_LINE_BYTES {
                return Some(ScannedLine::Long(length));
            }
            if length == most {
                return Some(ScannedLine::Line(length, length));
            }
            if self.at.saturating_add(length as u64) >= self.window.length() {
                return Some(ScannedLine::Short(length as u64));
            }
            let wanted = self.window.usual().max(2 * length);
            least = usize::try_from(left).unwrap_or(usize::MAX).min(wanted);
        }
    }

    /// Passes over a line of which so many bytes are known.
    #[cold]
    fn pass(&mut self, mut length: usize) {
        loop {
            self.at = self.at.saturating_add(length as u64).min(self.end);
            let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
            let seen = self.window.view(self.at, self.window.usual().min(left));
            let seen = seen.get(..left).unwrap_or(seen);
            length = seen.len();
            if let Some(end) = memchr(b'\n', seen) {
                self.at += end as u64 + 1;
                return;
            }
            if length == 0 {
                return;
            }
        }
    }
}
