//! What is looked at of a file: a window, which is read into one buffer from place to place.
//!
//! Readers go through a file from its begin to its end, and hold one event of it. So they need few bytes at a time,
//! and a file of any length costs the memory of its window. A file that another program cuts meanwhile is a read
//! that brings less. What a reader hands out lies in its window, until it is asked for the next one.

#[cfg(test)]
pub mod cut;

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bytes that a window has, and those that all windows of a recording have together: it may have 65,536 files, and a
/// text as many stretches.
const WINDOW_BYTES: usize = 64 << 10;
const ALL_WINDOWS_BYTES: usize = 64 << 20;
pub const LEAST_WINDOW_BYTES: usize = 4 << 10;

/// Bytes of each of so many windows.
pub fn bytes_of_each(windows: usize) -> usize {
    (ALL_WINDOWS_BYTES / windows.max(1)).clamp(LEAST_WINDOW_BYTES, WINDOW_BYTES)
}

/// A file, as windows read it.
pub trait ReadAt {
    /// Its length in bytes, when it was opened.
    fn length(&self) -> u64;
    /// Reads what lies at that byte; how many bytes, none at its end.
    /// Errors: where it cannot be read.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;
    /// The byte of the file on the disk that lies at that one.
    fn place(&self, at: u64) -> u64 {
        at
    }
}

/// An open file, and the length that it had then.
#[derive(Debug)]
pub struct Opened<F> {
    pub file: F,
    pub length: u64,
}

impl<F: FileExt> ReadAt for Opened<F> {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(into, at)
    }
}

/// Where the bytes of a file are.
#[derive(Clone, Copy)]
pub enum Content<'t> {
    /// In memory, all of them.
    Held(&'t [u8]),
    Read(&'t dyn ReadAt),
}

impl Content<'_> {
    pub fn length(&self) -> u64 {
        match self {
            Self::Held(bytes) => bytes.len() as u64,
            Self::Read(file) => file.length(),
        }
    }
}

/// A file that ended, or could be read no longer, before its end.
#[derive(Debug)]
pub struct Short {
    pub at: u64,
    /// Bytes of it that are missing.
    pub missing: u64,
    /// Why it cannot be read; it became shorter otherwise.
    pub error: Option<io::Error>,
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            None => f.write_str("the file became shorter while it was read"),
            Some(error) => write!(f, "it cannot be read from byte {} on ({error})", self.at),
        }
    }
}

/// What is looked at of a file.
pub struct Window<'t> {
    content: Content<'t>,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are read.
    filled: usize,
    /// Of the file, where they begin.
    begin: u64,
    /// Where the latest view lies in the buffer, or in what is held.
    seen: Range<usize>,
    /// Bytes that are read at once.
    usual: usize,
    /// Bytes that the file had at first, and those that it turned out to have.
    announced: u64,
    length: u64,
    short: Option<Short>,
}

impl<'t> Window<'t> {
    /// One that reads so many bytes at once.
    pub fn new(content: Content<'t>, usual: usize) -> Self {
        let length = content.length();
        Self {
            content,
            buffer: Vec::new(),
            filled: 0,
            begin: 0,
            seen: 0..0,
            usual: usual.max(1),
            announced: length,
            length,
            short: None,
        }
    }

    /// Goes to the begin of another file.
    pub fn turn_to(&mut self, content: Content<'t>) {
        let (buffer, usual) = (std::mem::take(&mut self.buffer), self.usual);
        *self = Self { buffer, ..Self::new(content, usual) };
    }

    /// Gives its memory back.
    pub fn close(&mut self) {
        (self.buffer, self.filled, self.seen) = (Vec::new(), 0, 0..0);
    }

    pub const fn usual(&self) -> usize {
        self.usual
    }

    /// Whether it holds more than that.
    pub const fn is_wide(&self) -> bool {
        self.buffer.len() > self.usual
    }

    /// The length of the file, as far as it can be read.
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// The length that the file had at first.
    pub const fn announced(&self) -> u64 {
        self.announced
    }

    /// The byte of the file on the disk that lies at that one.
    pub fn place(&self, at: u64) -> u64 {
        match self.content {
            Content::Held(_) => at,
            Content::Read(file) => file.place(at),
        }
    }

    /// Whether the file ended too early.
    pub const fn is_short(&self) -> bool {
        self.length < self.announced
    }

    /// Where the file ended too early, said once.
    pub const fn short(&mut self) -> Option<Short> {
        self.short.take()
    }

    #[inline(always)]
    pub fn seen(&self) -> &[u8] {
        let all = match self.content {
            Content::Held(bytes) => bytes,
            Content::Read(_) => self.buffer.as_slice(),
        };
        all.get(self.seen.clone()).unwrap_or_default()
    }

    /// What lies from that byte of the file on: so many bytes at least, as far as the file has them.
    #[inline]
    pub fn view(&mut self, from: u64, least: usize) -> &[u8] {
        let behind = self.begin.saturating_add(self.filled as u64);
        match self.content {
            Content::Held(bytes) => {
                let begin = usize::try_from(from).unwrap_or(usize::MAX);
                self.seen = begin.min(bytes.len())..bytes.len();
            }
            Content::Read(file) => {
                let left = self.length.saturating_sub(from);
                let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(least);
                let inside = from.checked_sub(self.begin).filter(|_| from <= behind);
                let begin = match inside.and_then(|inside| usize::try_from(inside).ok()) {
                    Some(inside) if self.filled - inside >= wanted => inside,
                    inside => {
                        let kept = inside.unwrap_or(self.filled);
                        self.buffer.copy_within(kept..self.filled, 0);
                        self.filled -= kept;
                        self.begin = from;
                        self.fill(file, wanted);
                        0
                    }
                };
                self.seen = begin..self.filled;
            }
        }
        self.seen()
    }

    /// Reads until there are so many bytes.
    #[cold]
    fn fill(&mut self, file: &dyn ReadAt, wanted: usize) {
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        while let Some(room) =
            self.buffer.get_mut(self.filled..wanted).filter(|room| !room.is_empty())
        {
            let (at, most) = (self.begin.saturating_add(self.filled as u64), room.len());
            let error = match file.read_at(room, at) {
                Ok(0) => None,
                Ok(count) => {
                    self.filled += count.min(most);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Some(error),
            };
            let missing = self.length.saturating_sub(at);
            self.length = at;
            self.short = Some(Short { at, missing, error });
            return;
        }
    }
}
