//! Recordings that are written.

use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use noise_model::Host;
use noise_system::output::{OutputPlace, explained};

use super::{FILE_VERSION, FileError, HEAD, MAGIC, Recording, TailState, framed, record_head};
use crate::Frame;
use crate::codec::{WireError, encode};

/// A recording that is written.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    pub(super) file: File,
    end: u64,
}

impl Recorder {
    /// Begins a recording, or goes on with one of the same host; what was torn off its end goes.
    /// Errors: where the file cannot be written, or is something that must not be written to.
    pub fn open(path: &Path, host: &Host) -> Result<Self, FileError> {
        let failed = FileError::io(path);
        let file = OutputPlace::find(path).and_then(OutputPlace::extend).map_err(failed)?;
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
        if scanned.rest == TailState::Damaged {
            let what = format!("after frame {}: choose another file", frames.len());
            return Err(FileError::damaged(&path, what));
        }
        file.set_len(scanned.end).map_err(FileError::io(&path))?;
        Ok(Self { path, file, end: scanned.end })
    }

    /// Writes a frame, whole or not at all.
    /// Errors: where it cannot be written; later ones may be.
    pub fn append(&mut self, frame: &Frame) -> Result<(), FileError> {
        let unwritable = |error: WireError| FileError::damaged(&self.path, error.to_string());
        let bytes = encode(frame).map_err(unwritable)?;
        let record = framed(&bytes).ok_or_else(|| unwritable(WireError::TooLarge))?;
        self.write(&record)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        let written = self.file.write_all_at(bytes, self.end).and_then(|()| self.file.flush());
        if let Err(error) = written {
            // Where not even this works, the next attempt writes over what is there.
            let _ = self.file.set_len(self.end);
            return Err(FileError::Io { path: self.path.clone(), error: explained(error) });
        }
        self.end += bytes.len() as u64;
        Ok(())
    }
}

/// Whether a recording was cut off before its first frame.
fn has_only_begun(file: &File) -> io::Result<bool> {
    let size = file.metadata()?.len();
    let mut head = vec![0; size.min(MAGIC.len() as u64) as usize];
    file.read_exact_at(&mut head, 0)?;
    let is_ours = MAGIC.starts_with(&head);
    Ok(is_ours
        && (size < HEAD
            || matches!(record_head(file, HEAD, size)?, Err(TailState::Nothing | TailState::Torn))))
}
