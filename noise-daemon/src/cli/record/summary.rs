//! When a recording ends, and what is in it.

use std::path::Path;
use std::time::Duration;

/// Bytes as people read them.
pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// When a recording ends by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// After this time.
    pub duration: Option<Duration>,
    /// When the files have so many bytes.
    pub bytes: Option<u64>,
}

/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The time is over, the command has ended, or the user wants no more.
    Over,
    /// The files have the size that was given.
    Full,
}

/// What was recorded so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// For so long.
    pub length: Duration,
    /// Events that were written.
    pub events: u64,
    /// Bytes of the streams.
    pub bytes: u64,
    /// Events that were lost.
    pub lost: u64,
}

impl Summary {
    /// In figures.
    pub fn figures(&self) -> String {
        let Self { length, events, lost, .. } = self;
        let lost = match lost {
            0 => "none lost".to_owned(),
            lost => format!("{lost} lost"),
        };
        let seconds = length.as_secs_f64();
        format!("{events} events in {seconds:.3} s, {lost}, {}", megabytes(self.bytes))
    }

    /// In a sentence.
    pub fn sentence(&self, path: &Path, end: End) -> String {
        let why = match end {
            End::Over => "",
            End::Full => "; it ended by --max-size",
        };
        format!("recorded {}: {}{why}", path.display(), self.figures())
    }
}
