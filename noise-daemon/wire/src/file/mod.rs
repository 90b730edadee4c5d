//! IO: frames in a file that only grows.
//!
//! ```text
//! magic (8 bytes), version (u16), then records; the first is the host, the others are frames:
//! length (u32), CRC-32 of what follows (u32), the bytes
//! ```
//!
//! Numbers are little-endian. A file that was cut off is read up to the last whole record.

mod reading;
#[cfg(test)]
mod tests;
mod writing;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use noise_system::files;

pub use self::reading::Recording;
pub use self::writing::Recorder;
use super::codec::{MAGIC as FRAME_MAGIC, MAX_FRAME_BYTES, WireError};

/// The version that is written, and the only one that is read.
pub const FILE_VERSION: u16 = 1;

const MAGIC: &[u8; 8] = b"NOISEDre";
const HEAD: u64 = 10;
const RECORD_HEAD: u64 = 8;
/// Begins of frames behind a torn one that are looked at.
const MOST_BEGINS: usize = 64;

/// Why a recording cannot be read or written. Each message names the file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot use {}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{} is not a recording of noised", .0.display())]
    NotARecording(PathBuf),
    #[error(
        "{} is a recording of version {theirs}, this noised knows {FILE_VERSION}: use the noised \
         that recorded it", path.display()
    )]
    Version { path: PathBuf, theirs: u16 },
    /// The head itself, or a record.
    #[error("{} is damaged: {what}", path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("{} records {theirs}, this is {ours}: choose another file", path.display())]
    OtherHost { path: PathBuf, theirs: String, ours: String },
    /// Another process writes to it.
    #[error("another noised records to {}: choose another file", .0.display())]
    Busy(PathBuf),
    #[error("frame {} of {}: {error}", index + 1, path.display())]
    Frame {
        path: PathBuf,
        /// Which, from 0.
        index: usize,
        /// What is wrong with it.
        error: WireError,
    },
}

impl FileError {
    fn io(path: &Path) -> impl Fn(io::Error) -> Self + Copy + '_ {
        |error| Self::Io { path: path.to_owned(), error }
    }

    fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }
}

/// How far a file can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scanned {
    /// End of the last whole record.
    end: u64,
    rest: TailState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TailState {
    Nothing,
    /// The begin of one more record.
    Torn,
    /// What no writer leaves behind.
    Damaged,
}

fn open_regular(options: &OpenOptions, path: &Path) -> Result<File, FileError> {
    // A pipe would block until its other end is opened.
    files::open_regular(options, path, 0).map_err(FileError::io(path))
}

/// One record: its bytes, and where the next one begins. Nothing where the file ends before it does.
fn record(file: &File, at: u64, size: u64) -> io::Result<Result<(Vec<u8>, u64), TailState>> {
    let (length, crc) = match record_head(file, at, size)? {
        Ok(head) => head,
        Err(rest) => return Ok(Err(rest)),
    };
    let from = at + RECORD_HEAD;
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, from)?;
    let whole = crc32fast::hash(&bytes) == crc;
    Ok(if whole { Ok((bytes, from + u64::from(length))) } else { Err(TailState::Damaged) })
}

/// Length and check sum of the record that begins there and is not cut off.
fn record_head(file: &File, at: u64, size: u64) -> io::Result<Result<(u32, u32), TailState>> {
    match size.saturating_sub(at) {
        0 => return Ok(Err(TailState::Nothing)),
        1..RECORD_HEAD => return Ok(Err(TailState::Torn)),
        _ => {}
    }
    let mut head = [0; RECORD_HEAD as usize];
    file.read_exact_at(&mut head, at)?;
    let [a, b, c, d, crc @ ..] = head;
    let (length, crc) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(crc));
    if length == 0 || length as usize > MAX_FRAME_BYTES {
        return Ok(Err(TailState::Damaged));
    }
    let is_whole = at + RECORD_HEAD + u64::from(length) <= size;
    Ok(if is_whole { Ok((length, crc)) } else { Err(TailState::Torn) })
}

/// Whether a whole record follows the begin of one whose end would be behind the file's.
fn is_followed(file: &File, at: u64, size: u64) -> io::Result<bool> {
    let from = at + RECORD_HEAD;
    let mut bytes = vec![0; size.saturating_sub(from).min(2 * MAX_FRAME_BYTES as u64) as usize];
    file.read_exact_at(&mut bytes, from)?;
    // Each begins as every frame does.
    let begins = bytes.windows(FRAME_MAGIC.len()).enumerate().filter(|(_, at)| at == FRAME_MAGIC);
    for (found, _) in begins.take(MOST_BEGINS) {
        let begin = at + found as u64;
        if begin > at && record(file, begin, size)?.is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The bytes of one record.
fn framed(bytes: &[u8]) -> Option<Vec<u8>> {
    let length =
        u32::try_from(bytes.len()).ok().filter(|length| *length as usize <= MAX_FRAME_BYTES)?;
    let mut record = Vec::with_capacity(RECORD_HEAD as usize + bytes.len());
    record.extend_from_slice(&length.to_le_bytes());
    record.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    record.extend_from_slice(bytes);
    Some(record)
}
