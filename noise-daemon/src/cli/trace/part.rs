//! Which part of a recording is wanted.

use noise_trace::select::{Cgroup, Select, Who};

use super::moment::Moment;

/// Options that all commands about recordings have.
#[derive(Debug, Default, clap::Args)]
pub struct Part {
    /// Only from then on: +1.5s after the first event, nanoseconds since the epoch, or a time
    /// (2016-03-04T17:46:22.79Z; UTC where it names no offset).
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    from: Option<Moment>,
    /// Only up to then.
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    to: Option<Moment>,
    /// Only this thread: what happens while it runs, and what names it (wake-ups, creation …).
    #[arg(long, value_name = "TID|NAME")]
    thread: Option<String>,
    /// Only the threads of this process.
    #[arg(long, value_name = "PID|NAME")]
    process: Option<String>,
    /// Only the threads of this cgroup and of those below it, by path (/system.slice/nginx.service) or by name.
    #[arg(long, value_name = "CGROUP")]
    cgroup: Option<String>,
}

impl Part {
    /// The same for a recording whose first event is at the time that `begin_ns` finds out.
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
            cgroup: self.cgroup.as_deref().map(Cgroup::parse),
            ..Select::default()
        }
    }
}
