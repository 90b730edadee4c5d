//! PURE: the threads of the root cgroup by process: all of a host is no answer.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use noise_paths::account::Member;
use serde::Serialize;

/// Processes that stand for themselves: the worst ones.
const SHOWN: usize = 5;

/// One process, or several together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Process {
    /// `NAME PID`, `kernel threads` or `other processes`.
    pub name: String,
    /// Its id, of one process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    pub threads: usize,
    pub running_ns: u64,
    /// How long its threads waited for a CPU.
    pub waiting_cpu_ns: u64,
    /// How long they slept uninterruptibly: for disks and memory.
    pub uninterruptible_ns: u64,
}

impl Process {
    const fn waited_ns(&self) -> u64 {
        self.waiting_cpu_ns.saturating_add(self.uninterruptible_ns)
    }

    fn add(&mut self, member: &Member) {
        self.threads += 1;
        self.running_ns = self.running_ns.saturating_add(member.ns("running"));
        self.waiting_cpu_ns = self.waiting_cpu_ns.saturating_add(member.waits.sum_ns);
        self.uninterruptible_ns =
            self.uninterruptible_ns.saturating_add(member.uninterruptible.sum_ns);
    }

    fn add_all(&mut self, other: &Self) {
        self.threads += other.threads;
        self.running_ns = self.running_ns.saturating_add(other.running_ns);
        self.waiting_cpu_ns = self.waiting_cpu_ns.saturating_add(other.waiting_cpu_ns);
        self.uninterruptible_ns = self.uninterruptible_ns.saturating_add(other.uninterruptible_ns);
    }

    fn is_seen(&self) -> bool {
        self.running_ns > 0 || self.waited_ns() > 0
    }
}

/// The processes that waited longest, then kernel threads together, then all others together; those alone that ran or waited.
pub fn by_process(members: &[Member], kernel: &BTreeSet<i32>) -> Vec<Process> {
    let mut kernel_threads = Process { name: "kernel threads".to_owned(), ..Process::default() };
    let mut processes: BTreeMap<i32, Process> = BTreeMap::new();
    for member in members {
        if kernel.contains(&member.tid) {
            kernel_threads.add(member);
            continue;
        }
        let pid = if member.pid > 0 { member.pid } else { member.tid };
        let process = processes.entry(pid).or_default();
        if process.pid.is_none() || member.tid == pid {
            process.pid = Some(pid);
            process.name = format!("{} {pid}", member.comm);
        }
        process.add(member);
    }
    let mut all: Vec<Process> = processes.into_values().filter(Process::is_seen).collect();
    all.sort_by_key(|one| (Reverse(one.waited_ns()), Reverse(one.running_ns), one.pid));
    let rest = all.split_off(all.len().min(SHOWN));
    let mut others = Process { name: "other processes".to_owned(), ..Process::default() };
    rest.iter().for_each(|one| others.add_all(one));
    all.extend([kernel_threads, others].into_iter().filter(Process::is_seen));
    all
}

#[cfg(test)]
mod tests {
    use super::super::made::{MS, member, spread};
    use super::*;

    #[test]
    fn the_worst_stand_alone_and_the_rest_is_whole() {
        let thread = |tid, pid, ran: u64, waited: u64| Member {
            pid,
            comm: format!("p{tid}"),
            ..member(tid, &[("running", ran)], spread(1, waited, waited))
        };
        let mut members: Vec<Member> =
            (10..17).map(|tid| thread(tid, tid, 100, u64::from(tid.unsigned_abs()))).collect();
        // A second thread of the first one makes it the worst; threads of the kernel are together, and who did nothing is left out.
        members.extend([thread(30, 10, 5, 40), thread(3, 3, 7, 1), thread(4, 4, 8, 2)]);
        members.push(Member { pid: 40, ..member(40, &[("timer", 2_000)], spread(0, 0, 0)) });
        let found = by_process(&members, &[3, 4].into());
        let rows: Vec<_> = found
            .iter()
            .map(|one| (&*one.name, one.threads, one.running_ns / MS, one.waiting_cpu_ns / MS))
            .collect();
        let expected = [
            ("p10 10", 2, 105, 50),
            ("p16 16", 1, 100, 16),
            ("p15 15", 1, 100, 15),
            ("p14 14", 1, 100, 14),
            ("p13 13", 1, 100, 13),
            ("kernel threads", 2, 15, 3),
            ("other processes", 2, 200, 23),
        ];
        assert_eq!(rows, expected);
        let sum = |of: fn(&Process) -> u64| found.iter().map(of).sum::<u64>();
        let waited: u64 = members.iter().map(|member| member.waits.sum_ns).sum();
        assert_eq!(sum(|one| one.waiting_cpu_ns), waited);
        assert!(by_process(&[], &BTreeSet::new()).is_empty());
    }
}
