//! IO: frames in a file that only grows.
//!
//! ```text
//! magic (8 bytes), version (u16), then records; the first is the host, the others are frames:
//! length (u32), CRC-32 of what follows (u32), the bytes
//! ```
//!
//! Numbers are little-endian. A file that was cut off is read up to the last whole record.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::codec::{MOST_BYTES, WireError, decode, encode};
use super::{Frame, Host};

/// The version that is written, and the only one that is read.
pub const FILE_VERSION: u16 = 1;

const MAGIC: &[u8; 8] = b"NOISEDre";
const HEAD: u64 = 10;
const RECORD_HEAD: u64 = 8;

/// Why a recording cannot be read or written. Each message names the file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system's words.
    #[error("cannot use {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
    /// Something else.
    #[error("{} is not a recording of noised", .0.display())]
    NotARecording(PathBuf),
    /// Another version.
    #[error(
        "{} is a recording of version {theirs}, this noised knows {FILE_VERSION}: use the noised \
         that recorded it", path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        theirs: u16,
    },
    /// The head itself, or a record.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where, and how.
        what: String,
    },
    /// Another host's.
    #[error("{} records {theirs}, this is {ours}: choose another file", path.display())]
    OtherHost {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        theirs: String,
        /// Where we are.
        ours: String,
    },
    /// Somebody writes to it.
    #[error("another noised records to {}: choose another file", .0.display())]
    Busy(PathBuf),
    /// The frame.
    #[error("frame {} of {}: {error}", index + 1, path.display())]
    Frame {
        /// The file.
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

/// A recording that is read. Only where the records are is held in memory.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    file: File,
    host: Host,
    /// Where each frame's record begins.
    frames: Vec<u64>,
    scanned: Scanned,
}

/// How far a file can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scanned {
    /// End of the last whole record.
    end: u64,
    /// What follows.
    rest: Rest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Nothing,
    /// The begin of one more record.
    Torn,
    /// What no writer leaves behind.
    Damaged,
}

fn open_regular(options: &OpenOptions, path: &Path) -> Result<File, FileError> {
    // A pipe would block until somebody writes.
    let file = options.clone().custom_flags(libc::O_NONBLOCK).open(path);
    let file = file.map_err(FileError::io(path))?;
    if !file.metadata().map_err(FileError::io(path))?.is_file() {
        let error = io::Error::other("it is no regular file");
        return Err(FileError::Io { path: path.to_owned(), error });
    }
    Ok(file)
}

/// Whether a recording was cut off before its first frame.
fn has_only_begun(file: &File) -> io::Result<bool> {
    let size = file.metadata()?.len();
    let mut head = vec![0; size.min(MAGIC.len() as u64) as usize];
    file.read_exact_at(&mut head, 0)?;
    let is_ours = MAGIC.starts_with(&head);
    Ok(is_ours
        && (size < HEAD
            || matches!(record_head(file, HEAD, size)?, Err(Rest::Nothing | Rest::Torn))))
}

/// One record: its bytes, and where the next one begins. Nothing where the file ends before it
/// does.
fn record(file: &File, at: u64, size: u64) -> io::Result<Result<(Vec<u8>, u64), Rest>> {
    let (length, crc) = match record_head(file, at, size)? {
        Ok(head) => head,
        Err(rest) => return Ok(Err(rest)),
    };
    let from = at + RECORD_HEAD;
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, from)?;
    let whole = crc32fast::hash(&bytes) == crc;
    Ok(if whole { Ok((bytes, from + u64::from(length))) } else { Err(Rest::Damaged) })
}

/// Length and check sum of the record that begins there and is not cut off.
fn record_head(file: &File, at: u64, size: u64) -> io::Result<Result<(u32, u32), Rest>> {
    match size.saturating_sub(at) {
        0 => return Ok(Err(Rest::Nothing)),
        1..RECORD_HEAD => return Ok(Err(Rest::Torn)),
        _ => {}
    }
    let mut head = [0; RECORD_HEAD as usize];
    file.read_exact_at(&mut head, at)?;
    let [a, b, c, d, crc @ ..] = head;
    let (length, crc) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(crc));
    if length == 0 || length as usize > MOST_BYTES {
        return Ok(Err(Rest::Damaged));
    }
    let is_whole = at + RECORD_HEAD + u64::from(length) <= size;
    Ok(if is_whole { Ok((length, crc)) } else { Err(Rest::Torn) })
}

/// The bytes of one record.
fn framed(bytes: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(bytes.len()).ok().filter(|length| *length as usize <= MOST_BYTES)?;
    let mut record = Vec::with_capacity(RECORD_HEAD as usize + bytes.len());
    record.extend_from_slice(&length.to_le_bytes());
    record.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    record.extend_from_slice(bytes);
    Some(record)
}

impl Recording {
    /// Opens a recording and finds its frames.
    ///
    /// # Errors
    /// Where it is none, or of another version, or so damaged that there is nothing to read.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        Self::of(open_regular(OpenOptions::new().read(true), path)?, path)
    }

    fn of(file: File, path: &Path) -> Result<Self, FileError> {
        let failed = FileError::io(path);
        let size = file.metadata().map_err(failed)?.len();
        let mut head = vec![0; size.min(HEAD) as usize];
        file.read_exact_at(&mut head, 0).map_err(failed)?;
        let Some((magic, version)) = head.split_first_chunk::<{ MAGIC.len() }>() else {
            return Err(match !head.is_empty() && MAGIC.starts_with(&head) {
                true => FileError::damaged(path, "it was cut off at its begin"),
                false => FileError::NotARecording(path.to_owned()),
            });
        };
        if magic != MAGIC {
            return Err(FileError::NotARecording(path.to_owned()));
        }
        let Ok(version) = version.try_into() else {
            return Err(FileError::damaged(path, "it was cut off at its begin"));
        };
        match u16::from_le_bytes(version) {
            FILE_VERSION => {}
            theirs => return Err(FileError::Version { path: path.to_owned(), theirs }),
        }
        let (host, mut at) = match record(&file, HEAD, size).map_err(failed)? {
            Ok(found) => found,
            Err(Rest::Damaged) => {
                return Err(FileError::damaged(path, "its host cannot be read"));
            }
            Err(_) => return Err(FileError::damaged(path, "it was cut off at its begin")),
        };
        let host = rmp_serde::from_slice(&host)
            .map_err(|error| FileError::damaged(path, format!("its host: {error}")))?;
        let mut frames = Vec::new();
        let rest = loop {
            match record_head(&file, at, size).map_err(failed)? {
                Ok((length, _)) => {
                    frames.push(at);
                    at += RECORD_HEAD + u64::from(length);
                }
                Err(rest) => break rest,
            }
        };
        let mut scanned = Scanned { end: at, rest };
        // After a power cut a file may be as long as it was, with nothing in its last blocks.
        if rest == Rest::Nothing
            && let Some(last) = frames.last().copied()
            && record(&file, last, size).map_err(failed)?.is_err()
        {
            frames.pop();
            scanned = Scanned { end: last, rest: Rest::Torn };
        }
        Ok(Self { path: path.to_owned(), file, host, frames, scanned })
    }

    /// Whose it is.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// How many frames it has.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// What there is to say of its end, where it is not as it should be.
    pub fn warning(&self) -> Option<String> {
        let (path, frames) = (self.path.display(), self.frames.len());
        match self.scanned.rest {
            Rest::Nothing => None,
            Rest::Torn => Some(format!("{path} was cut off: it is shown up to frame {frames}")),
            Rest::Damaged => {
                Some(format!("{path} is damaged after frame {frames}, and ends there"))
            }
        }
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// Where there is none of that index, or it is damaged.
    pub fn frame(&self, index: usize) -> Result<Frame, FileError> {
        let of_frame = |error| FileError::Frame { path: self.path.clone(), index, error };
        let damaged = |what: &str| of_frame(WireError::Damaged(what.to_owned()));
        let at = *self.frames.get(index).ok_or_else(|| damaged("there is no such frame"))?;
        match record(&self.file, at, self.scanned.end).map_err(FileError::io(&self.path))? {
            Ok((bytes, _)) => decode(&bytes).map_err(of_frame),
            Err(_) => Err(damaged("its check sum is wrong")),
        }
    }
}

/// A recording that is written.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    file: File,
    end: u64,
}

impl Recorder {
    /// Begins a recording, or goes on with one of the same host; what was torn off its end goes.
    ///
    /// # Errors
    /// Where the file cannot be written, or is something that must not be written to.
    pub fn open(path: &Path, host: &Host) -> Result<Self, FileError> {
        let failed = FileError::io(path);
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        let file = open_regular(&options, path)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => FileError::Busy(path.to_owned()),
            TryLockError::Error(error) => failed(error),
        })?;
        match Recording::of(file.try_clone().map_err(failed)?, path) {
            Ok(found) => return Self::after(found, host),
            // One that was cut off before its first frame has nothing to lose.
            Err(error @ (FileError::Damaged { .. } | FileError::NotARecording(_))) => {
                if !has_only_begun(&file).map_err(failed)? {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
        file.set_len(0).map_err(failed)?;
        let mut recorder = Self { path: path.to_owned(), file, end: 0 };
        let host = rmp_serde::to_vec_named(host).ok().and_then(|host| framed(&host));
        let host = host.ok_or_else(|| FileError::damaged(path, "its host cannot be written"))?;
        let head = [MAGIC.as_slice(), &FILE_VERSION.to_le_bytes(), &host].concat();
        recorder.write(&head)?;
        Ok(recorder)
    }

    fn after(found: Recording, host: &Host) -> Result<Self, FileError> {
        let Recording { path, file, host: theirs, frames, scanned } = found;
        if theirs.name != host.name {
            let (theirs, ours) = (theirs.name, host.name.clone());
            return Err(FileError::OtherHost { path, theirs, ours });
        }
        if scanned.rest == Rest::Damaged {
            let what = format!("after frame {}: choose another file", frames.len());
            return Err(FileError::damaged(&path, what));
        }
        file.set_len(scanned.end).map_err(FileError::io(&path))?;
        Ok(Self { path, file, end: scanned.end })
    }

    /// Writes a frame, whole or not at all.
    ///
    /// # Errors
    /// Where it cannot be written; later ones may be.
    pub fn append(&mut self, frame: &Frame) -> Result<(), FileError> {
        let unwritable = |error: WireError| FileError::damaged(&self.path, error.to_string());
        let bytes = encode(frame).map_err(unwritable)?;
        let record = framed(&bytes).ok_or_else(|| unwritable(WireError::TooLarge))?;
        self.write(&record)
    }

    /// Where it goes.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        let written = self.file.write_all_at(bytes, self.end).and_then(|()| self.file.flush());
        if let Err(error) = written {
            // Where not even this works, the next attempt writes over what is there.
            let _ = self.file.set_len(self.end);
            return Err(FileError::Io { path: self.path.clone(), error });
        }
        self.end += bytes.len() as u64;
        Ok(())
    }
}
