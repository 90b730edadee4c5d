//! Which part of a recording is wanted.

use jiff::Zoned;
use noise_text::times::Moment;
use noise_trace::select::{Cgroup, Select, ThreadOrProcess};

/// Options that all commands about recordings have.
#[derive(Debug, Default, clap::Args)]
pub struct RecordingOptions {
    /// Only from then on: +1.5s after the first event, a time (17:46:22.79, 2016-03-04 17:46:22,
    /// 2016-03-04T17:46:22.79Z), how long ago (10m), or seconds or nanoseconds since the epoch.
    #[arg(long, value_name = "TIME", value_parser = Moment::of_recording)]
    from: Option<Moment>,
    /// Only up to then.
    #[arg(long, value_name = "TIME", value_parser = Moment::of_recording)]
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

impl RecordingOptions {
    /// The same for a recording whose first event is at the time that `begin_ns` finds out.
    pub fn select(&self, begin_ns: impl FnOnce() -> u64) -> Select {
        let needs_begin = [&self.from, &self.to].into_iter().flatten().any(Moment::needs_begin);
        let begin_ns = if needs_begin { begin_ns() } else { 0 };
        let now = Zoned::now();
        let time_ns =
            |moment: &Option<Moment>| moment.as_ref().map(|it| it.in_recording(begin_ns, &now));
        let who = |text: &Option<String>| text.as_deref().map(ThreadOrProcess::parse);
        Select {
            from_ns: time_ns(&self.from),
            to_ns: time_ns(&self.to),
            thread: who(&self.thread),
            process: who(&self.process),
            cgroup: self.cgroup.as_deref().map(Cgroup::parse),
            ..Select::default()
        }
    }
}
