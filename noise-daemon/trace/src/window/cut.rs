//! A file for tests of what is read in windows.

use std::cell::Cell;
use std::io;

use super::ReadAt;

/// A file that another program cuts, or a disk that fails, once so many reads were answered.
pub struct Cut<'b> {
    /// What it has at first.
    pub bytes: &'b [u8],
    /// So many, that one included.
    pub reads: Cell<usize>,
    /// The length that it has from then on.
    pub to: usize,
    /// Whether what lies behind is there, but cannot be read.
    pub is_broken: bool,
}

impl<'b> Cut<'b> {
    /// One that stays as it is.
    pub fn never(bytes: &'b [u8]) -> Self {
        Self { bytes, reads: Cell::new(usize::MAX), to: bytes.len(), is_broken: false }
    }
}

impl ReadAt for Cut<'_> {
    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Now and then fewer bytes than are wanted, as it may be.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let left = self.reads.get().saturating_sub(1);
        self.reads.set(left);
        let there = if left == 0 { &self.bytes[..self.to] } else { self.bytes };
        let rest = there.get(at as usize..).unwrap_or_default();
        if rest.is_empty() && self.is_broken {
            return Err(io::Error::other("the disk fails"));
        }
        let count = rest.len().min(into.len());
        let count = if left % 3 == 1 { count.min(7) } else { count };
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}
