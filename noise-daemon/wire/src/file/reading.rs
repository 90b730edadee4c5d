//! Recordings that are read.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use noise_model::Host;
use noise_text::clean::excerpt;
use noise_text::clean::reading::{Budget, Cleaned};
use serde::Deserialize as _;

use super::{
    FILE_VERSION, FileError, HEAD, MAGIC, RECORD_HEAD, Scanned, TailState, is_followed,
    open_regular, record, record_head,
};
use crate::Frame;
use crate::codec::{MOST_MEMORY_BYTES, MOST_QUOTED, WireError, decode_measured};

/// A recording that is read. Only where the records are is held in memory.
#[derive(Debug)]
pub struct Recording {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) host: Host,
    /// Where each frame's record begins.
    pub(super) frames: Vec<u64>,
    pub(super) scanned: Scanned,
}

impl Recording {
    /// Opens a recording and finds its frames.
    /// Errors: where it is none, or of another version, or so damaged that there is nothing to read.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        Self::of(open_regular(OpenOptions::new().read(true), path)?, path)
    }

    pub(super) fn of(file: File, path: &Path) -> Result<Self, FileError> {
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
            Err(TailState::Damaged) => {
                return Err(FileError::damaged(path, "its host cannot be read"));
            }
            Err(_) => return Err(FileError::damaged(path, "it was cut off at its begin")),
        };
        let mut reader = rmp_serde::Deserializer::from_read_ref(&host);
        let budget = Budget::of(MOST_MEMORY_BYTES);
        let host = Host::deserialize(Cleaned(&mut reader, &budget)).map_err(|error| {
            let error = excerpt(&error.to_string(), MOST_QUOTED);
            FileError::damaged(path, format!("its host: {error}"))
        })?;
        let mut frames = Vec::new();
        let mut rest = loop {
            match record_head(&file, at, size).map_err(failed)? {
                Ok((length, _)) => {
                    frames.push(at);
                    at += RECORD_HEAD + u64::from(length);
                }
                Err(rest) => break rest,
            }
        };
        // What is torn is the last one: before others, it is its length that is wrong.
        if rest == TailState::Torn && is_followed(&file, at, size).map_err(failed)? {
            rest = TailState::Damaged;
        }
        let mut scanned = Scanned { end: at, rest };
        // After a power cut a file may be as long as it was, with nothing in its last blocks.
        if rest == TailState::Nothing
            && let Some(last) = frames.last().copied()
            && record(&file, last, size).map_err(failed)?.is_err()
        {
            frames.pop();
            scanned = Scanned { end: last, rest: TailState::Torn };
        }
        Ok(Self { path: path.to_owned(), file, host, frames, scanned })
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
            TailState::Nothing => None,
            TailState::Torn => {
                Some(format!("{path} was cut off: it is shown up to frame {frames}"))
            }
            TailState::Damaged => {
                Some(format!("{path} is damaged after frame {frames}, and ends there"))
            }
        }
    }

    /// Errors: where there is none of that index, or it is damaged.
    pub fn frame(&self, index: usize) -> Result<Frame, FileError> {
        self.measured(index).map(|(frame, _)| frame)
    }

    /// Reads a frame; also returns how much memory it takes, bytes.
    /// Errors: those of [`Recording::frame`].
    pub fn measured(&self, index: usize) -> Result<(Frame, usize), FileError> {
        let of_frame = |error| FileError::Frame { path: self.path.clone(), index, error };
        let damaged = |what: &str| of_frame(WireError::Damaged(what.to_owned()));
        let at = *self.frames.get(index).ok_or_else(|| damaged("there is no such frame"))?;
        match record(&self.file, at, self.scanned.end).map_err(FileError::io(&self.path))? {
            Ok((bytes, _)) => decode_measured(&bytes).map_err(of_frame),
            Err(_) => Err(damaged("its check sum is wrong")),
        }
    }
}
