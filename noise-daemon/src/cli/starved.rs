//! A command that says who has the CPUs waits for them as all others do. Behind a storm of processes that begin and end, a page
//! that needs 0.1 s of CPU time came after up to 48 s: what the kernel owed to the command's cgroup, it did not get.
//!
//! So a command of root that gives one answer, and that has waited long for a CPU, goes before other programs from then on: as the
//! least of the real-time threads (`SCHED_RR`, priority 1), for a bounded time. It is said. Where the kernel refuses (other users,
//! cgroups without real-time), nothing changes.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

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
    /// As `/proc/self/task/TID/schedstat` has it.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_ascii_whitespace().map(str::parse);
        let mut next = || fields.next()?.ok();
        Some(Self { ran_ns: next()?, waited_ns: next()? })
    }

    fn is_starved(self) -> bool {
        self.waited_ns >= PATIENCE_NS && self.waited_ns / STARVED >= self.ran_ns
    }
}

/// The threads of this process, and their times; none where the kernel keeps no such times.
fn threads() -> BTreeMap<i32, CpuTime> {
    let Ok(folders) = fs::read_dir("/proc/self/task") else { return BTreeMap::new() };
    let time = |folder: fs::DirEntry| {
        let tid = folder.file_name().to_str()?.parse().ok()?;
        let text = procfs::text(folder.path().join("schedstat")).ok()?;
        Some((tid, CpuTime::parse(&text)?))
    };
    folders.flatten().filter_map(time).collect()
}

/// How long threads ran, together, ns.
fn ran_ns(threads: &BTreeMap<i32, CpuTime>) -> u64 {
    threads.values().fold(0, |sum, time| sum.saturating_add(time.ran_ns))
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

/// From now on, this process goes first where one of its threads is starved. A thread of its own looks after it; where there can be
/// none, and where the kernel keeps no such times, it waits as others do.
pub fn watch() {
    let _ = thread::Builder::new().name("starved".to_owned()).spawn(look_after);
}

fn look_after() {
    let (before_ns, waited_ns) = loop {
        thread::sleep(LOOK);
        let threads = threads();
        if threads.is_empty() {
            return;
        }
        let starved = threads.values().filter(|time| time.is_starved());
        if let Some(longest) = starved.map(|time| time.waited_ns).max() {
            break (ran_ns(&threads), longest);
        }
    };
    // This thread, too: it has to be there to take that back.
    if !Policy::First.give(0) {
        return;
    }
    output::say(&format!(
        "noised itself waited {} for a CPU, and goes before other programs now, for at most {} of CPU time",
        duration(waited_ns as f64),
        duration(MOST_FIRST_NS as f64),
    ));
    loop {
        let threads = threads();
        let is_over = ran_ns(&threads).saturating_sub(before_ns) >= MOST_FIRST_NS;
        let policy = if is_over { Policy::Usual } else { Policy::First };
        // Those that began meanwhile, too.
        for tid in threads.keys() {
            policy.give(*tid);
        }
        if is_over {
            return;
        }
        thread::sleep(LOOK);
    }
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
