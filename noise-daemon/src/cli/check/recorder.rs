//! The flight recorder of the daemon that runs here, and the one that a start would make.

use std::fmt::Write as _;

use noise_client::Fault;
use noise_common::store::{Layout, StoredEvent};
use noise_model::Recorder;
use noise_wire::Frame;

/// What there is to say of flight recorders.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Recorders {
    /// What the running daemon says of its own.
    now: Option<Now>,
    /// Why that is not known.
    #[serde(skip)]
    unknown: String,
    /// Of one that a start with the usual configuration would make.
    start_bytes: u64,
    start_events_per_cpu: u32,
    /// Whether that follows from what the state directory remembers; else the first seconds are measured.
    is_remembered: bool,
}

/// What a running daemon holds.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
struct Now {
    bytes: u64,
    /// How far back it goes on the CPU where it holds least, and on the median one.
    least_seconds: f64,
    median_seconds: f64,
    /// Its memory after a restart; 0 = it does not say.
    restart_bytes: u64,
}

impl From<Recorder> for Now {
    fn from(recorder: Recorder) -> Self {
        let seconds = |ns: u64| ns as f64 / 1e9;
        Self {
            bytes: recorder.bytes,
            least_seconds: seconds(recorder.held_ns),
            median_seconds: seconds(recorder.held_median_ns),
            restart_bytes: recorder.next_bytes,
        }
    }
}

impl Recorders {
    /// What a daemon answers, and what a start would make.
    pub fn of(asked: &Result<Frame, Fault>, start: Layout, is_remembered: bool) -> Self {
        let recorder = asked.as_ref().map(|frame| frame.sample.recorder);
        let (now, unknown) = match recorder {
            Ok(Some(recorder)) => (Some(recorder.into()), String::new()),
            Ok(None) => (None, "the daemon that runs here has none".to_owned()),
            Err(reason) => (None, format!("what a daemon here holds is not known: {reason}")),
        };
        let (start_bytes, start_events_per_cpu) = (start.bytes(), start.events());
        Self { now, unknown, start_bytes, start_events_per_cpu, is_remembered }
    }

    /// Some lines, the first without a title.
    pub fn page(&self) -> String {
        let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / (1024.0 * 1024.0));
        let mut page = match self.now {
            None => format!("{}\n", self.unknown),
            Some(now) => format!(
                "{}, back {:.1} s on the CPU where it holds least, {:.1} s on the median one\n",
                mib(now.bytes),
                now.least_seconds,
                now.median_seconds
            ),
        };
        // Writing to a string does not fail.
        let _ = match self.now.map(|now| (now.bytes, now.restart_bytes)) {
            Some((bytes, next)) if next == bytes => {
                writeln!(page, "a restart would not change its size")
            }
            Some((_, next)) if next > 0 => {
                writeln!(
                    page,
                    "after a restart {}, by what is remembered of the last days",
                    mib(next)
                )
            }
            _ => {
                let kib =
                    u64::from(self.start_events_per_cpu) * size_of::<StoredEvent>() as u64 / 1024;
                let why = match self.is_remembered {
                    true => "by the busiest 10 s that the state directory remembers",
                    false => "more where the first 2 s after a start show that it is needed",
                };
                writeln!(
                    page,
                    "a start makes it {} ({kib} KiB for each CPU), {why}, unless [recorder] says otherwise",
                    mib(self.start_bytes)
                )
            }
        };
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(now: Option<Recorder>, is_remembered: bool) -> Recorders {
        Recorders {
            now: now.map(Now::from),
            unknown: "there is no such socket".to_owned(),
            start_bytes: 2 << 20,
            start_events_per_cpu: 32_768,
            is_remembered,
        }
    }

    #[test]
    fn what_is_held_and_what_a_restart_gives_is_said() {
        let held = Recorder {
            bytes: 2 << 20,
            held_ns: 40_000_000,
            held_median_ns: 3_600_000_000,
            next_bytes: 32 << 20,
            ..Recorder::default()
        };
        assert_eq!(
            with(Some(held), false).page(),
            "2.0 MiB, back 0.0 s on the CPU where it holds least, 3.6 s on the median one\n\
             after a restart 32.0 MiB, by what is remembered of the last days\n"
        );
        let same = Recorder { next_bytes: 2 << 20, ..held };
        assert!(with(Some(same), false).page().ends_with("a restart would not change its size\n"));
        // A daemon of before does not say.
        let old = Recorder { next_bytes: 0, ..held };
        assert!(
            with(Some(old), true)
                .page()
                .contains("a start makes it 2.0 MiB (1024 KiB for each CPU), by")
        );
    }

    #[test]
    fn without_a_daemon_there_is_what_a_start_would_make() {
        let page = with(None, false).page();
        assert!(page.starts_with("there is no such socket\na start makes it 2.0 MiB"), "{page}");
        let folder = tempfile::tempdir().unwrap();
        let asked = noise_client::frame(&folder.path().join("none.sock"));
        let found = Recorders::of(&asked, Layout::new(2, 32_768), true).page();
        assert!(found.starts_with("what a daemon here holds is not known: "), "{found}");
    }
}
