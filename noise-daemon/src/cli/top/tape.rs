//! Where `noised top` records to.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use noise_model::Trends;
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

    fn take(&mut self, frame: &Frame, known: &Trends) -> anyhow::Result<()> {
        let Some(path) = &self.target else { return Ok(()) };
        if let Some(recorder) = &mut self.recorder {
            return Ok(recorder.append(frame)?);
        }
        match Recorder::open(path, &frame.host) {
            Ok(opened) => {
                let first = Frame { trends: Some(Arc::new(known.clone())), ..frame.clone() };
                Ok(self.recorder.insert(opened).append(&first)?)
            }
            Err(error) => {
                // It would fail with every frame.
                self.target = None;
                Err(error.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use noise_model::{Sample, Step};
    use noise_wire::{Recording, sampled};

    /// A second of nothing.
    fn known() -> Trends {
        let at = |at_ns| Sample { at_ns, ..Sample::default() };
        let mut trends = Trends::default();
        trends.push(&Step::between(&at(1_000_000_000), &at(2_000_000_000)));
        assert_eq!(trends.seconds(), 1.0);
        trends
    }

    #[test]
    fn a_tape_goes_on_where_it_was_stopped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("it");
        let mut tape = FileTape::new(Some(path.clone()));
        tape.take(&sampled::small(1), &Trends::default()).unwrap();
        assert_eq!(tape.toggle().unwrap(), None);
        tape.take(&sampled::small(2), &Trends::default()).unwrap();
        assert_eq!(tape.toggle().unwrap(), Some(path.display().to_string()));
        let known = known();
        [3, 4].iter().for_each(|second| tape.take(&sampled::small(*second), &known).unwrap());
        drop(tape);
        let recording = Recording::open(&path).unwrap();
        assert_eq!(recording.len(), 3);
        // What was known when it began again, once.
        let trends = [1, 2].map(|index| recording.frame(index).unwrap().trends);
        assert_eq!(trends, [Some(Arc::new(known)), None]);
    }

    #[test]
    fn what_cannot_be_written_is_reported_once() {
        let mut tape = FileTape::new(Some("/nonexistent/it".into()));
        let error = tape.take(&sampled::small(1), &Trends::default()).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/it"), "{error}");
        assert!(tape.take(&sampled::small(2), &Trends::default()).is_ok());
        assert_eq!(tape.target(), None);
    }
}
