//! Where `noised top` records to.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use noise_system::output::suffix_in;
use noise_top::live::Tape;
use noise_wire::{Frame, Recorder};

/// A file, opened with the first frame that goes there.
#[derive(Debug, Default)]
pub struct FileTape {
    /// Named by the person; else the time names it.
    named: Option<PathBuf>,
    /// Where it records, if it does.
    target: Option<PathBuf>,
    recorder: Option<Recorder>,
}

impl FileTape {
    /// One that records from the start where a file is named, else on command.
    pub fn new(named: Option<PathBuf>) -> Self {
        Self { target: named.clone(), named, recorder: None }
    }
}

impl Tape for FileTape {
    fn toggle(&mut self) -> anyhow::Result<Option<String>> {
        if self.target.take().is_some() {
            self.recorder = None;
            return Ok(None);
        }
        let by_time = || {
            let time = Timestamp::now().strftime("%Y%m%d-%H%M%S");
            let suffix = suffix_in(Path::new("."))?;
            Ok::<_, io::Error>(PathBuf::from(format!("noised-{time}{suffix}.frames")))
        };
        self.target = Some(self.named.clone().map_or_else(by_time, Ok)?);
        Ok(self.target())
    }

    fn target(&self) -> Option<String> {
        self.target.as_ref().map(|path| path.display().to_string())
    }

    fn take(&mut self, frame: &Frame) -> anyhow::Result<()> {
        let Some(path) = &self.target else { return Ok(()) };
        let recorder = match &mut self.recorder {
            Some(recorder) => recorder,
            None => match Recorder::open(path, &frame.host) {
                Ok(opened) => self.recorder.insert(opened),
                Err(error) => {
                    // It would fail with every frame.
                    self.target = None;
                    return Err(error.into());
                }
            },
        };
        Ok(recorder.append(frame)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use noise_wire::{Recording, sampled};

    #[test]
    fn a_tape_goes_on_where_it_was_stopped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("it");
        let mut tape = FileTape::new(Some(path.clone()));
        tape.take(&sampled::small(1)).unwrap();
        assert_eq!(tape.toggle().unwrap(), None);
        tape.take(&sampled::small(2)).unwrap();
        assert_eq!(tape.toggle().unwrap(), Some(path.display().to_string()));
        tape.take(&sampled::small(3)).unwrap();
        drop(tape);
        assert_eq!(Recording::open(&path).unwrap().len(), 2);
    }

    #[test]
    fn what_cannot_be_written_is_reported_once() {
        let mut tape = FileTape::new(Some("/nonexistent/it".into()));
        let error = tape.take(&sampled::small(1)).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/it"), "{error}");
        assert!(tape.take(&sampled::small(2)).is_ok());
        assert_eq!(tape.target(), None);
    }
}
