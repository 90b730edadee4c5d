//! Which threads are behind victims and their culprits: those of the long waits that are reported individually, each of which
//! says who waited and who had the CPU meanwhile, by thread. Nothing is said of shorter waits, nor of other resources.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::name::Name;
use super::process::{Command, Process, Side};
use super::report::{Outlier, Report};

/// Threads that are named of each victim, and of each culprit.
const THREADS: usize = 5;
/// Culprits whose threads are named, and victims.
const PARTIES: usize = 3;
/// Commands that are remembered.
const MOST_COMMANDS: usize = 1024;

/// A thread by its side, its cgroup, its number and its name.
type Thread<'a> = (Side, &'a Name, u32, &'a Name);

/// The threads of these victims' long waits: of each culprit, those that had the CPU longest, then those that waited
/// longest.
pub fn processes<'a>(
    outliers: impl IntoIterator<Item = &'a Outlier>,
    victims: &[&str],
    commands: &[Command],
) -> Vec<Process> {
    let mut sums: BTreeMap<Thread<'_>, (u64, u64)> = BTreeMap::new();
    let mut add = |thread: Thread<'a>, ns: u64| {
        let (waits, sum_ns) = sums.entry(thread).or_default();
        *waits += 1;
        *sum_ns = sum_ns.saturating_add(ns);
    };
    let is_theirs = |one: &&Outlier| victims.contains(&&*one.wait.victim);
    for Outlier { wait, .. } in outliers.into_iter().filter(is_theirs) {
        add((Side::Victim, &wait.victim, wait.pid, &wait.comm), wait.wait_ns);
        for part in wait.parts.iter().filter(|part| part.pid > 0) {
            add((Side::Culprit, &part.culprit, part.pid, &part.comm), part.ns);
        }
    }
    let mut threads: Vec<_> = sums.into_iter().collect();
    threads.sort_by_key(|(thread, (_, ns))| (Reverse(*ns), *thread));
    let mut by_party: Vec<((Side, &Name), u64, Vec<Process>)> = Vec::new();
    for ((side, of, pid, comm), (waits, ns)) in threads {
        let place = by_party.iter().position(|(party, ..)| *party == (side, of));
        let place = place.unwrap_or(by_party.len());
        if place == by_party.len() {
            by_party.push(((side, of), 0, Vec::new()));
        }
        let Some((_, sum_ns, own)) = by_party.get_mut(place) else { continue };
        *sum_ns = sum_ns.saturating_add(ns);
        if own.len() < THREADS {
            let command = command(commands, pid, comm);
            let (of, comm) = (Arc::clone(of), Arc::clone(comm));
            own.push(Process { side, of, pid, comm, command, waits, ns });
        }
    }
    by_party.sort_by_key(|((side, of), ns, _)| (*side, Reverse(*ns), *of));
    let (culprits, victims): (Vec<_>, Vec<_>) =
        by_party.into_iter().partition(|((side, _), ..)| *side == Side::Culprit);
    let named = culprits.into_iter().take(PARTIES).chain(victims.into_iter().take(PARTIES));
    named.flat_map(|(_, _, own)| own).collect()
}

/// What a thread was started as, where that is known.
fn command(commands: &[Command], pid: u32, comm: &str) -> Option<Name> {
    let found = commands.iter().find(|one| one.pid == pid && *one.comm == *comm)?;
    Some(Arc::clone(&found.command))
}

impl Report {
    /// The threads behind all that it is about, of the long waits while it was disturbed: the root cgroup may come
    /// first, and a service beside it.
    pub(super) fn processes_of(
        &self,
        outliers: &VecDeque<Arc<Outlier>>,
        commands: &[Command],
    ) -> Vec<Process> {
        let is_meanwhile = |one: &&Outlier| {
            one.time >= self.main.start && (self.open || one.time <= self.main.end)
        };
        let meanwhile = outliers.iter().map(|one| &**one).filter(is_meanwhile);
        let subjects: Vec<&str> = self.episodes().map(|episode| &*episode.subject).collect();
        processes(meanwhile, &subjects, commands)
    }

    /// The thread that did most, of the first culprit.
    pub fn first_process(&self) -> Option<&Process> {
        let first = self.main.culprits.first()?;
        self.processes.iter().find(|one| one.side == Side::Culprit && one.of == first.culprit)
    }
}

/// Commands of the latest threads.
#[derive(Debug, Default)]
pub(super) struct Commands(VecDeque<Command>);

impl Commands {
    /// Remembers one, and forgets the oldest where there are too many.
    pub fn learn(&mut self, command: Command) {
        self.0.retain(|one| one.pid != command.pid);
        self.0.push_back(command);
        let many = self.0.len().saturating_sub(MOST_COMMANDS);
        self.0.drain(..many);
    }

    /// Those of threads in long waits.
    pub fn of(&self, outliers: &VecDeque<Arc<Outlier>>) -> Vec<Command> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut pids: Vec<u32> = Vec::with_capacity(2 * outliers.len());
        for one in outliers {
            pids.push(one.wait.pid);
            pids.extend(one.wait.parts.iter().map(|part| part.pid));
        }
        pids.sort_unstable();
        let is_one = |one: &&Command| pids.binary_search(&one.pid).is_ok();
        self.0.iter().filter(is_one).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use noise_common::charge::Cause;
    use noise_model::{OutlierPart, OutlierRecord};
    use proptest::prelude::{prop_assert, proptest};

    use super::*;

    /// `web 7` waited for these threads of `/hog`.
    fn outlier(victim: &str, second: i64, parts: &[(&str, u32, u64)]) -> Outlier {
        let part = |(culprit, pid, ns): &(&str, u32, u64)| OutlierPart {
            culprit: (*culprit).into(),
            cause: Cause::Foreign,
            pid: *pid,
            comm: format!("t{pid}").into(),
            ns: *ns,
        };
        Outlier {
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
        let command = Command { pid: 9, comm: "t9".into(), command: "hog --all".into() };
        let other = Command { pid: 10, comm: "earlier".into(), command: "no".into() };
        let found = processes(&outliers, &["/web"], &[command, other]);
        let shown: Vec<_> =
            found.iter().map(|one| (&*one.of, one.words(), one.waits, one.ns)).collect();
        let expected = [
            ("/hog", "t9 9: hog --all".to_owned(), 2, 55),
            ("/hog", "t10 10".to_owned(), 1, 6),
            ("/b", "t3 3".to_owned(), 1, 30),
            ("/web", "web 7".to_owned(), 2, 1_091),
        ];
        assert_eq!(shown, expected);
        assert!(processes(&outliers, &["/none"], &[]).is_empty());
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
        assert_eq!(report.first_process(), None);
        report.processes = report.processes_of(&all.iter().cloned().collect(), &[]);
        assert_eq!(report.first_process().map(|one| one.pid), Some(2));
        // Those who wait with it are its own as well.
        report.also.push(report.main.clone());
        report.main.subject = "/".into();
        assert_eq!(pids(&report), [2]);
    }

    #[test]
    fn commands_are_those_of_the_latest_threads() {
        let mut commands = Commands::default();
        let command =
            |pid: u32, text: &str| Command { pid, comm: "x".into(), command: text.into() };
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
            let outliers: Vec<Outlier> = waits
                .iter()
                .map(|(pid, culprit, ns)| outlier("/web", 0, &[(&format!("/{culprit}"), *pid, *ns)]))
                .collect();
            let found = processes(&outliers, &["/web"], &[]);
            prop_assert!(found.len() <= (PARTIES + 1) * THREADS);
            let sum = |side| found.iter().filter(|one| one.side == side).map(|one| one.ns).sum::<u64>();
            let all: u64 = waits.iter().map(|(_, _, ns)| ns).sum();
            prop_assert!(sum(Side::Culprit) <= all && sum(Side::Victim) == all);
        }
    }
}
