//! A command that says who has the CPUs waits for them as all others do. Behind a storm of processes that begin and end, a page
//! that needs 0.1 s of CPU time came after up to 48 s: what the kernel owed to the command's cgroup, it did not get.
//!
//! So a command of root that gives one answer, and that has waited long for a CPU, goes before other programs from then on: as the
//! least of the real-time threads (`SCHED_RR`, priority 1), for a bounded time. It is said. Where the kernel refuses (other users,
//! cgroups without real-time), nothing changes.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use nix::unistd::gettid;
use noise_command::output;
use noise_system::procfs;
use noise_text::units::duration;

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(100);
/// As long as this, a command waits as others do.
const PATIENCE_NS: u64 = 500_000_000;
/// What waited less than so many times as long as it ran has a busy CPU, and gets its part of it.
const STARVED: u64 = 4;
/// CPU time that it has before others. A page takes 0.1 s.
const MOST_FIRST_NS: u64 = 1_000_000_000;

/// The CPU time of a thread, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CpuTime {
    ran_ns: u64,
    waited_ns: u64,
}

impl CpuTime {
    /// As `/proc/PID/task/TID/schedstat` has it.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_ascii_whitespace().map(str::parse);
        let mut next = || fields.next()?.ok();
        Some(Self { ran_ns: next()?, waited_ns: next()? })
    }

    fn is_starved(self) -> bool {
        self.waited_ns >= PATIENCE_NS && self.waited_ns / STARVED >= self.ran_ns
    }
}

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug)]
enum Policy {
    /// Before all programs that are not real-time.
    First,
    /// As others are.
    Usual,
}

impl Policy {
    /// Whether the kernel lets a thread have it. What that starts has the usual one.
    fn give(self, tid: i32) -> bool {
        let (policy, priority) = match self {
            Self::First => (libc::SCHED_RR, 1),
            Self::Usual => (libc::SCHED_OTHER, 0),
        };
        // SAFETY: all bytes of it may be zero; some libraries have more fields than the one that counts.
        let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
        parameters.sched_priority = priority;
        // SAFETY: the kernel reads the parameters during the call, and keeps no address.
        let given = unsafe {
            libc::syscall(
                libc::SYS_sched_setscheduler,
                tid,
                policy | libc::SCHED_RESET_ON_FORK,
                &raw const parameters,
            )
        };
        given == 0
    }
}

/// From now on, the calling thread goes first where it is starved. It is looked after by a thread of its own; where there can be none,
/// and where the kernel keeps no such times, it waits as others do.
pub fn watch() {
    let tid = gettid().as_raw();
    let work = move || look_after(tid);
    let _ = thread::Builder::new().name("starved".to_owned()).spawn(work);
}

fn look_after(tid: i32) {
    let path = PathBuf::from(format!("/proc/self/task/{tid}/schedstat"));
    let now = || procfs::text(&path).ok().and_then(|text| CpuTime::parse(&text));
    let waited = loop {
        thread::sleep(LOOK);
        let Some(now) = now() else { return };
        if now.is_starved() {
            break now;
        }
    };
    // This thread, too: it has to be there to take that back.
    if !Policy::First.give(0) || !Policy::First.give(tid) {
        return;
    }
    output::say(&format!(
        "noised itself waited {} for a CPU, and goes before other programs now, for at most {} of CPU time",
        duration(waited.waited_ns as f64),
        duration(MOST_FIRST_NS as f64),
    ));
    while now().is_some_and(|now| now.ran_ns.saturating_sub(waited.ran_ns) < MOST_FIRST_NS) {
        thread::sleep(LOOK);
    }
    Policy::Usual.give(tid);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_cpu_is_no_starvation() {
        let time = |text| CpuTime::parse(text);
        assert_eq!(time("5 7 1\n"), Some(CpuTime { ran_ns: 5, waited_ns: 7 }));
        assert_eq!([time(""), time("5"), time("a b 1")], [None; 3]);
        let is_starved = |ran_ms: u64, waited_ms: u64| {
            CpuTime { ran_ns: ran_ms * 1_000_000, waited_ns: waited_ms * 1_000_000 }.is_starved()
        };
        assert!(is_starved(60, 500) && is_starved(0, 9_000));
        assert!(!is_starved(0, 499), "it has waited for half a second only");
        assert!(!is_starved(400, 1_500), "it gets a fifth of a CPU and more");
    }
}
