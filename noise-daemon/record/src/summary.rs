//! When a recording ends, and what is in it.

use std::path::Path;
use std::time::Duration;

use noise_common::hooks::Hook;

use noise_command::CommandError;

/// Room of the files of all CPUs that begin together, with their part of what is beside them.
const LEAST_SHARE: u64 = 1 << 20;

/// Bytes as people read them.
pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// When a recording ends by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub duration: Option<Duration>,
    /// When the files have so many bytes …
    pub bytes: Option<u64>,
    /// … or, where there are several of each CPU, never: then the oldest go.
    pub files: Option<u32>,
}

impl Limits {
    /// Refuses what leaves files that begin together no room.
    /// Errors: what to change.
    pub fn ensure_sensible(&self) -> Result<(), CommandError> {
        let (Some(bytes), Some(files)) = (self.bytes, self.files) else { return Ok(()) };
        let least = LEAST_SHARE * u64::from(files);
        if bytes < least {
            return Err(CommandError::misused(format!(
                "--max-files {files} needs at least --max-size {}M: 1 MiB for the files of all CPUs that begin together",
                least / LEAST_SHARE
            )));
        }
        Ok(())
    }
}

/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingEnd {
    /// The time is over, the command has ended, or the user wants no more.
    Over,
    /// The files have the size that was given.
    Full,
}

/// What was recorded so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordSummary {
    pub length: Duration,
    /// Events that were written.
    pub events: u64,
    /// Of these, the ones in files that were removed to make room.
    pub removed: u64,
    /// Bytes of the streams.
    pub bytes: u64,
    /// Events that were lost.
    pub lost: u64,
    /// Whether it is not known how many more were lost.
    pub may_lack_more: bool,
    /// Of these, the ones that the files do not count.
    pub uncounted: u64,
    /// Events that came too late for their place, and have the time of the one before.
    pub late: u64,
}

impl RecordSummary {
    pub fn figures(&self) -> String {
        let Self { length, events, lost, uncounted, removed, .. } = self;
        let at_least = if self.may_lack_more { "at least " } else { "" };
        let lost = match lost {
            0 => "none lost".to_owned(),
            lost if *uncounted == 0 => format!("{at_least}{lost} lost"),
            lost => format!("{at_least}{lost} lost, {uncounted} of them not counted in the files"),
        };
        let removed = match removed {
            0 => String::new(),
            removed => format!(" ({removed} of them removed with the oldest files)"),
        };
        let seconds = length.as_secs_f64();
        format!("{events} events{removed} in {seconds:.3} s, {lost}, {}", megabytes(self.bytes))
    }

    /// What to know of the times in it, if there is something.
    pub fn moved(&self) -> Option<String> {
        let late = Some(self.late).filter(|late| *late > 0)?;
        Some(format!(
            "{late} events arrived after later ones of their CPU were written: they have the time of the event \
             before them in the recording"
        ))
    }

    /// In a sentence, with the hooks whose events only programs of its own would have brought.
    pub fn sentence(&self, path: &Path, end: RecordingEnd, lacks: &[Hook]) -> String {
        let why = match end {
            RecordingEnd::Over => "",
            RecordingEnd::Full => "; it ended by --max-size",
        };
        let names: Vec<_> = lacks.iter().map(|hook| hook.tracepoint()).collect();
        let without = match names.join(", ") {
            names if names.is_empty() => names,
            names => format!("; without {names}, which a daemon does not keep: --own records them"),
        };
        format!("recorded {}: {}{why}{without}", path.display(), self.figures())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_recording_lacks_is_named() {
        let summary =
            RecordSummary { length: Duration::from_secs(2), events: 7, ..RecordSummary::default() };
        let (path, lacks) = (Path::new("x"), [Hook::HrtimerEntry, Hook::HrtimerExit]);
        assert_eq!(
            summary.sentence(path, RecordingEnd::Full, &lacks),
            "recorded x: 7 events in 2.000 s, none lost, 0.0 MB; it ended by --max-size; without \
             hrtimer_expire_entry, hrtimer_expire_exit, which a daemon does not keep: --own records them"
        );
        let whole = "recorded x: 7 events in 2.000 s, none lost, 0.0 MB";
        assert_eq!(summary.sentence(path, RecordingEnd::Over, &[]), whole);
    }

    #[test]
    fn times_that_were_moved_are_said() {
        let summary = RecordSummary { events: 10, ..RecordSummary::default() };
        assert_eq!(summary.moved(), None);
        let moved = RecordSummary { late: 3, ..summary }.moved().unwrap();
        assert!(moved.starts_with("3 events arrived after later ones"), "{moved}");
    }
}
