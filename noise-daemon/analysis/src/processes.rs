//! Which threads are behind victims and their culprits: those of the long waits that are reported individually, each of which
//! says who waited and who had the CPU meanwhile, by thread. Nothing is said of shorter waits, nor of other resources.
//!
//! The root cgroup is no service: what is in it is in no other, and each thread stands for itself. Of those, threads of the
//! kernel are one, and so are all that are not named.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::name::{Name, ROOT};
use super::process::{Process, Side, StartCommand};
use super::report::{Report, ReportedOutlier};

/// Threads that are named of each victim, and of each culprit.
const THREADS: usize = 5;
/// Culprits whose threads are named, of each victim; and victims.
const PARTIES: usize = 3;
/// Commands that are remembered.
const MOST_COMMANDS: usize = 1024;
/// What is together in the root cgroup.
const KERNEL: &str = "kernel threads";
const REST: &str = "others in no cgroup";

/// A thread by its side, its cgroup, its number and its name.
type SideThreadKey<'a> = (Side, &'a Name, u32, &'a Name);

/// The threads of a party, those that did most first.
#[derive(Debug, Default)]
struct PartyThreads {
    ns: u64,
    named: Vec<Process>,
    /// What is not named one by one, of the root cgroup.
    kernel: Option<Process>,
    rest: Option<Process>,
}

impl PartyThreads {
    fn add(&mut self, one: Process, is_kernel: bool) {
        self.ns = self.ns.saturating_add(one.ns);
        let is_root = &*one.of == ROOT;
        let (together, name) = match (is_root && is_kernel, self.named.len() < THREADS) {
            (true, _) => (&mut self.kernel, KERNEL),
            (false, true) => return self.named.push(one),
            (false, false) if is_root => (&mut self.rest, REST),
            (false, false) => return,
        };
        match together {
            Some(sum) => {
                sum.waits = sum.waits.saturating_add(one.waits);
                sum.ns = sum.ns.saturating_add(one.ns);
            }
            None => {
                let comm = name.into();
                *together = Some(Process { pid: 0, comm, process: None, command: None, ..one });
            }
        }
    }

    /// All of them; what is not one thread has no place before one that did more.
    fn all(self) -> impl Iterator<Item = Process> {
        let mut all = self.named;
        all.extend(self.kernel);
        all.sort_by_key(|one| Reverse(one.ns));
        all.into_iter().chain(self.rest)
    }
}

/// The threads of a victim's long waits: of each culprit, those that had the CPU longest, then those that waited longest.
pub fn processes<'a>(
    outliers: impl IntoIterator<Item = &'a ReportedOutlier>,
    victim: &str,
    commands: &[StartCommand],
) -> Vec<Process> {
    let mut sums: BTreeMap<SideThreadKey<'_>, (u64, u64)> = BTreeMap::new();
    let mut add = |thread: SideThreadKey<'a>, ns: u64| {
        let (waits, sum_ns) = sums.entry(thread).or_default();
        *waits += 1;
        *sum_ns = sum_ns.saturating_add(ns);
    };
    let is_its_own = |one: &&ReportedOutlier| *one.wait.victim == *victim;
    for ReportedOutlier { wait, .. } in outliers.into_iter().filter(is_its_own) {
        add((Side::Victim, &wait.victim, wait.pid, &wait.comm), wait.wait_ns);
        for part in wait.parts.iter().filter(|part| part.pid > 0) {
            add((Side::Culprit, &part.culprit, part.pid, &part.comm), part.ns);
        }
    }
    let mut threads: Vec<_> = sums.into_iter().collect();
    threads.sort_by_key(|(thread, (_, ns))| (Reverse(*ns), *thread));
    let whose: Name = victim.into();
    let mut by_party: Vec<((Side, &Name), PartyThreads)> = Vec::new();
    for ((side, of, pid, comm), (waits, ns)) in threads {
        let place = by_party.iter().position(|(party, ..)| *party == (side, of));
        let place = place.unwrap_or(by_party.len());
        if place == by_party.len() {
            by_party.push(((side, of), PartyThreads::default()));
        }
        let Some((_, party)) = by_party.get_mut(place) else { continue };
        let known = command(commands, pid, comm);
        let shown = known.filter(|known| !known.command.is_empty());
        let one = Process {
            side,
            of: Arc::clone(of),
            victim: Some(Arc::clone(&whose)),
            pid,
            comm: Arc::clone(comm),
            process: known.and_then(|known| known.process),
            command: shown.map(|known| Arc::clone(&known.command)),
            waits,
            ns,
        };
        party.add(one, known.is_some_and(|known| known.is_kernel));
    }
    by_party.sort_by_key(|((side, of), party)| (*side, Reverse(party.ns), *of));
    let (culprits, own): (Vec<_>, Vec<_>) =
        by_party.into_iter().partition(|((side, _), ..)| *side == Side::Culprit);
    let named = culprits.into_iter().take(PARTIES).chain(own);
    named.flat_map(|(_, party)| party.all()).collect()
}

/// What is known of a thread.
fn command<'c>(commands: &'c [StartCommand], pid: u32, comm: &str) -> Option<&'c StartCommand> {
    commands.iter().find(|one| one.pid == pid && *one.comm == *comm)
}

impl Report {
    /// The threads behind what its victims suffer from, of the long waits while it was disturbed: victim by victim,
    /// because a thread that delayed one of them may not have delayed another.
    pub(super) fn processes_of(
        &self,
        outliers: &VecDeque<Arc<ReportedOutlier>>,
        commands: &[StartCommand],
    ) -> Vec<Process> {
        let meanwhile = outliers.iter().map(|one| &**one).filter(|one| self.is_during(one.time));
        let victims = self.victims().into_iter();
        let by_victim =
            victims.map(|(_, one)| processes(meanwhile.clone(), &one.subject, commands));
        by_victim.filter(|threads| !threads.is_empty()).take(PARTIES).flatten().collect()
    }

    /// The threads of a party in a victim's waits, the one that did most first.
    pub fn threads_of(
        &self,
        side: Side,
        (victim, of): (&str, &str),
    ) -> impl Iterator<Item = &Process> {
        let is_its_own = move |one: &&Process| {
            let is_of_victim = one.victim.as_deref().is_none_or(|whose| whose == victim);
            is_of_victim && one.side == side && *one.of == *of
        };
        self.processes.iter().filter(is_its_own)
    }
}

/// Commands of the latest threads.
#[derive(Debug, Default)]
pub(super) struct Commands(VecDeque<StartCommand>);

impl Commands {
    /// Remembers one, and forgets the oldest where there are too many.
    pub fn learn(&mut self, command: StartCommand) {
        self.0.retain(|one| one.pid != command.pid);
        self.0.push_back(command);
        let many = self.0.len().saturating_sub(MOST_COMMANDS);
        self.0.drain(..many);
    }

    /// Those of threads in long waits.
    pub fn of(&self, outliers: &VecDeque<Arc<ReportedOutlier>>) -> Vec<StartCommand> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut pids: Vec<u32> = Vec::with_capacity(2 * outliers.len());
        for one in outliers {
            pids.push(one.wait.pid);
            pids.extend(one.wait.parts.iter().map(|part| part.pid));
        }
        pids.sort_unstable();
        let is_one = |one: &&StartCommand| pids.binary_search(&one.pid).is_ok();
        self.0.iter().filter(is_one).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use noise_common::charge::Cause;
    use noise_model::{OutlierPart, OutlierRecord};
    use proptest::prelude::{prop_assert, proptest};

    use super::*;
    use crate::Episode;

    fn command_of(pid: u32, comm: &str, command: &str) -> StartCommand {
        StartCommand {
            pid,
            comm: comm.into(),
            command: command.into(),
            process: Some(pid),
            is_kernel: command.is_empty(),
        }
    }

    /// `web 7` waited for these threads of `/hog`.
    fn outlier(victim: &str, second: i64, parts: &[(&str, u32, u64)]) -> ReportedOutlier {
        let part = |(culprit, pid, ns): &(&str, u32, u64)| OutlierPart {
            culprit: (*culprit).into(),
            cause: Cause::Foreign,
            pid: *pid,
            comm: format!("t{pid}").into(),
            ns: *ns,
        };
        ReportedOutlier {
            time: jiff::Timestamp::from_second(second).unwrap(),
            wait: OutlierRecord {
                at_ns: 0,
                wait_ns: parts.iter().map(|(_, _, ns)| ns).sum(),
                victim: victim.into(),
                pid: 7,
                comm: "web".into(),
                cpu: 0,
                made_runnable: "wakeup".into(),
                parts: parts.iter().map(part).collect(),
                rest_ns: 0,
            },
        }
    }

    #[test]
    fn threads_come_by_culprit_with_those_that_did_most_first() {
        let outliers = [
            outlier("/web", 1, &[("/hog", 9, 5), ("/hog", 10, 6), ("/b", 3, 30)]),
            outlier("/web", 2, &[("/hog", 9, 50), ("irq", 0, 1_000)]),
            outlier("/db", 3, &[("/hog", 11, 500)]),
        ];
        let command = command_of(9, "t9", "hog --all");
        let other = command_of(10, "earlier", "no");
        let found = processes(&outliers, "/web", &[command, other]);
        let shown: Vec<_> =
            found.iter().map(|one| (&*one.of, one.words(), one.waits, one.ns)).collect();
        let expected = [
            ("/hog", "t9 9: hog --all".to_owned(), 2, 55),
            ("/hog", "t10 10".to_owned(), 1, 6),
            ("/b", "t3 3".to_owned(), 1, 30),
            ("/web", "web 7".to_owned(), 2, 1_091),
        ];
        assert_eq!(shown, expected);
        assert!(processes(&outliers, "/none", &[]).is_empty());
    }

    #[test]
    fn the_root_cgroup_is_its_processes_and_what_is_left_is_together() {
        let culprits: Vec<(&str, u32, u64)> =
            (1..9).map(|pid| ("/", pid, u64::from(pid))).collect();
        let waits = |pid: u32, ns: u64| {
            let mut one = outlier("/", 1, &[]);
            (one.wait.pid, one.wait.wait_ns) = (pid, ns);
            one.wait.comm = format!("w{pid}").into();
            one
        };
        let mut outliers = vec![waits(40, 5), waits(41, 7), waits(50, 9), waits(50, 1)];
        outliers.push(outlier("/web", 1, &culprits));
        let kernel = [40, 41].map(|pid| command_of(pid, &format!("w{pid}"), ""));
        let shown = |side, victim: &str| -> Vec<_> {
            let found = processes(&outliers, victim, &kernel);
            let own = found.into_iter().filter(|one| (one.side, &*one.of) == (side, "/"));
            own.map(|one| (one.words(), one.waits, one.ns)).collect()
        };
        assert_eq!(
            shown(Side::Victim, "/"),
            [("kernel threads".to_owned(), 2, 12), ("w50 50".to_owned(), 2, 10)]
        );
        let culprits = shown(Side::Culprit, "/web");
        let named: Vec<&str> = culprits.iter().map(|(words, ..)| words.as_str()).collect();
        assert_eq!(named, ["t8 8", "t7 7", "t6 6", "t5 5", "t4 4", "others in no cgroup"]);
        assert_eq!(culprits.iter().map(|(_, _, ns)| ns).sum::<u64>(), (1..9).sum::<u64>());
        // What is not known to be a thread of the kernel is a process like any other.
        let unknown = processes(&outliers, "/", &[]);
        assert!(unknown.iter().all(|one| one.pid > 0), "{unknown:?}");
    }

    #[test]
    fn a_report_has_those_of_its_own_time() {
        let mut report = crate::made::report();
        report.main.start = jiff::Timestamp::from_second(2).unwrap();
        let all = [1, 2, 3]
            .map(|second| Arc::new(outlier("/web", second, &[("/backup", second as u32, 5)])));
        let pids = |report: &Report| {
            let own = report.processes_of(&all.iter().cloned().collect(), &[]);
            own.iter()
                .filter(|one| one.side == Side::Culprit)
                .map(|one| one.pid)
                .collect::<Vec<_>>()
        };
        assert_eq!(pids(&report), [2, 3]);
        (report.open, report.main.end) = (false, jiff::Timestamp::from_second(2).unwrap());
        assert_eq!(pids(&report), [2]);
        let of = ("/web", "/backup");
        assert_eq!(report.threads_of(Side::Culprit, of).count(), 0);
        report.processes = report.processes_of(&all.iter().cloned().collect(), &[]);
        let first = report.threads_of(Side::Culprit, of).next();
        assert_eq!(first.map(|one| one.pid), Some(2));
        // Those who wait with it are its own as well.
        report.also.push(report.main.clone());
        report.main.subject = "/".into();
        assert_eq!(pids(&report), [2]);
        // What it is about by now need not have begun it, nor go on the longest.
        let [start, end] = [1, 3].map(|second| jiff::Timestamp::from_second(second).unwrap());
        (report.also[0].start, report.also[0].end) = (start, end);
        assert_eq!(pids(&report), [1, 2, 3]);
        assert_eq!(report.lasted(), 2.0);
    }

    #[test]
    fn who_delays_one_victim_is_not_named_to_another() {
        let mut report = crate::made::report();
        report.also = vec![Episode { subject: "/b".into(), ..crate::made::episode() }];
        let all = [outlier("/web", 0, &[("/", 12, 50)]), outlier("/b", 0, &[("/", 777, 500)])];
        let outliers: VecDeque<_> = all.map(Arc::new).into();
        report.processes = report.processes_of(&outliers, &[]);
        let pids = |report: &Report, victim: &str| -> Vec<u32> {
            let threads = report.threads_of(Side::Culprit, (victim, "/"));
            threads.map(|one| one.pid).collect()
        };
        assert_eq!((pids(&report, "/web"), pids(&report, "/b")), (vec![12], vec![777]));
        // An older noised did not say whose waits they are.
        report.processes.iter_mut().for_each(|one| one.victim = None);
        assert_eq!(pids(&report, "/web"), [12, 777]);
    }

    #[test]
    fn commands_are_those_of_the_latest_threads() {
        let mut commands = Commands::default();
        let command = |pid: u32, text: &str| command_of(pid, "x", text);
        (0..3_000).for_each(|pid| commands.learn(command(pid, "old")));
        commands.learn(command(2_999, "new"));
        assert_eq!(commands.0.len(), MOST_COMMANDS);
        let outliers: VecDeque<_> =
            [Arc::new(outlier("/web", 1, &[("/a", 2_999, 1), ("/b", 5, 1)]))].into();
        assert_eq!(commands.of(&outliers), [command(2_999, "new")]);
    }

    proptest! {
        #[test]
        fn threads_are_bounded_and_never_more_than_was_waited(
            waits in proptest::collection::vec((0_u32..40, 0_u8..9, 1_u64..1_000), 0..200),
        ) {
            let outliers: Vec<ReportedOutlier> = waits
                .iter()
                .map(|(pid, culprit, ns)| outlier("/web", 0, &[(&format!("/{culprit}"), *pid, *ns)]))
                .collect();
            let found = processes(&outliers, "/web", &[]);
            prop_assert!(found.len() <= (PARTIES + 1) * THREADS);
            let sum = |side| found.iter().filter(|one| one.side == side).map(|one| one.ns).sum::<u64>();
            let all: u64 = waits.iter().map(|(_, _, ns)| ns).sum();
            prop_assert!(sum(Side::Culprit) <= all && sum(Side::Victim) == all);
        }
    }
}
