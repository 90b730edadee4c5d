//! Which part of a recording is wanted.

use noise_trace::select::{Select, Who};

use super::moment::Moment;

/// Options of commands that take a part of a recording.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// Only events from then on: +1.5s after the first event, nanoseconds since the epoch, or a time
    /// (2016-03-04T17:46:22.79Z; UTC where it names no offset).
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    from: Option<Moment>,
    /// Only events up to then.
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    to: Option<Moment>,
    /// Only events of this thread: what happens while it runs, and what names it (wake-ups, creation …).
    #[arg(long, value_name = "TID|NAME")]
    thread: Option<String>,
    /// Only events of the threads of this process.
    #[arg(long, value_name = "PID|NAME")]
    process: Option<String>,
}

impl Which {
    /// What is wanted, where the first event of the recording is at a time that `begin_ns` finds out.
    pub fn select(&self, begin_ns: impl FnOnce() -> u64) -> Select {
        let is_relative = |moment: &Option<Moment>| matches!(moment, Some(Moment::After(_)));
        let begin_ns =
            if is_relative(&self.from) || is_relative(&self.to) { begin_ns() } else { 0 };
        let time_ns = |moment: Option<Moment>| moment.map(|moment| moment.time_ns(begin_ns));
        let who = |text: &Option<String>| text.as_deref().map(Who::parse);
        Select {
            from_ns: time_ns(self.from),
            to_ns: time_ns(self.to),
            thread: who(&self.thread),
            process: who(&self.process),
            ..Select::default()
        }
    }
}
