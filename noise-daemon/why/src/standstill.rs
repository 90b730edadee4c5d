//! PURE: what a verdict says of sleeps that nothing has ended yet.
//!
//! A server without work sleeps all the time, and so does one that hangs. A thread that is stopped, frozen or in an uninterruptible
//! sleep is not idle, and neither is one of several that wait for one lock. A thread that sleeps where programs wait for work is
//! idle. Of all others it is not known; that is said only if no thread of the victim did anything. A pool without work beside
//! threads that do all of it is usual.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use noise_common::charge::Cause;
use noise_paths::account::{ASLEEP, Member};
use noise_paths::state::State;
use noise_verdict::{
    Account, Accounts, Culprit, CulpritKind, CulpritLoss, Evidence, Reply, Standstill,
};

use super::findings::Findings;
use super::places::MOST_THREADS;
use super::unwoken::{Unwoken, slept_all_along};

/// A lock that others wait for is let go earlier by a program that goes on.
const LEAST_LOCKED_NS: u64 = 1_000_000_000;

/// Counts a sleep as unknown instead of idle.
fn take_asleep(totals: &mut BTreeMap<&'static str, u64>, ns: u64) {
    let Some(asleep) = totals.get_mut(ASLEEP) else { return };
    let taken = ns.min(*asleep);
    *asleep -= taken;
    let unknown = totals.entry(State::Unknown.name()).or_default();
    *unknown = unknown.saturating_add(taken);
    totals.retain(|_, ns| *ns > 0);
}

impl Findings {
    /// Notes what its threads do at the moment: once, before it is judged.
    pub fn note_unwoken(&mut self, unwoken: Unwoken) {
        for tid in &unwoken.uninterruptible {
            self.note_uninterruptible(*tid);
        }
        self.unwoken = unwoken;
    }

    /// A sleep that nothing has ended yet counts as those uninterruptible ones that ended.
    fn note_uninterruptible(&mut self, tid: i32) {
        let Some(ns) = self.open.get(&tid).map(|sleep| sleep.ns) else { return };
        let Some(member) = self.threads.iter_mut().find(|one| one.tid == tid) else { return };
        take_asleep(&mut member.totals_ns, ns);
        take_asleep(&mut self.totals_ns, ns);
        member.uninterruptible.add(ns);
        self.uninterruptible.add(ns);
    }

    /// How long some threads have slept up to now, ns.
    fn open_ns<'t>(&self, tids: impl IntoIterator<Item = &'t i32>) -> u64 {
        let sleeps = tids.into_iter().filter_map(|tid| self.open.get(tid));
        sleeps.fold(0_u64, |sum, sleep| sum.saturating_add(sleep.ns))
    }

    /// The threads that wait for a lock together with others of the program, and did all the time.
    fn at_locks(&self) -> Vec<i32> {
        // In a pool whose threads take turns, the thread that waits for work holds the lock that the others wait for.
        if self.unwoken.at.values().any(|at| at.is_idle) {
            return Vec::new();
        }
        let mut by_lock: BTreeMap<(i32, u64), Vec<i32>> = BTreeMap::new();
        for (tid, at) in &self.unwoken.at {
            let is_long = self.open.get(tid).is_some_and(|sleep| sleep.ns >= LEAST_LOCKED_NS);
            if let Some(lock) = at.lock.filter(|_| is_long) {
                by_lock.entry(lock).or_default().push(*tid);
            }
        }
        by_lock.into_values().filter(|tids| tids.len() > 1).flatten().collect()
    }

    /// Whether none of its threads did anything but sleep, and nothing keeps them from going on that is known.
    pub fn has_slept_all_along(&self) -> bool {
        let sleeps = |one: &Member| slept_all_along(one) && !self.unwoken.is_halted(one.tid);
        self.unwoken.there > 0 && self.silent.is_empty() && self.threads.iter().all(sleeps)
    }

    /// Accounts for these sleeps, which counted as idle.
    pub fn take_unwoken(&self, accounts: &mut Accounts) {
        let Unwoken { stopped, frozen, at, .. } = &self.unwoken;
        accounts.take(Account::Idle, Account::Unknown, self.open_ns(stopped.union(frozen)));
        let at_locks = self.at_locks();
        accounts.take(Account::Idle, Account::Lock, self.open_ns(&at_locks));
        if self.has_slept_all_along() {
            // Where there are too many to look at each, the others are taken to be as those.
            let is_part = at.len() >= MOST_THREADS;
            let is_idle = |tid: i32| at.get(&tid).map_or(is_part, |at| at.is_idle);
            let unclear =
                self.open.keys().filter(|tid| !is_idle(**tid) && !at_locks.contains(*tid));
            accounts.take(Account::Idle, Account::Unknown, self.open_ns(unclear));
        }
    }

    /// A lock that is not let go.
    pub fn of_kept_lock(&self) -> Option<CulpritLoss> {
        let ns = self.open_ns(&self.at_locks());
        let lock = Culprit::named(CulpritKind::None, "a lock that was not let go", Cause::Own);
        let who = Some("all the time, by whom is not known".to_owned());
        // Where a thread sleeps is known of the moment.
        let loss = CulpritLoss::new(Account::Lock, lock, ns, who, Evidence::Part);
        (ns > 0).then_some(CulpritLoss { reply: Reply::Never, ..loss })
    }

    /// Where threads sleep, each place with how many, most first.
    fn places<'t>(&self, tids: impl IntoIterator<Item = &'t i32>) -> Vec<(String, usize)> {
        let mut threads: BTreeMap<&str, usize> = BTreeMap::new();
        let at = tids.into_iter().filter_map(|tid| self.unwoken.at.get(tid));
        for at in at.filter(|at| !at.place.is_empty()) {
            *threads.entry(&at.place).or_default() += 1;
        }
        let mut places: Vec<(String, usize)> =
            threads.into_iter().map(|(place, threads)| (place.to_owned(), threads)).collect();
        places.sort_by_key(|(_, threads)| Reverse(*threads));
        places
    }

    /// The same for the verdict.
    pub fn standstill(&self) -> Standstill {
        let Unwoken { there, stopped, frozen, uninterruptible, .. } = &self.unwoken;
        let asleep_at = self.has_slept_all_along().then(|| self.places(self.open.keys()));
        Standstill {
            threads: *there,
            stopped: stopped.len(),
            frozen: frozen.len(),
            uninterruptible_at: self.places(uninterruptible),
            asleep_at,
            next: self.next_of_halt(),
        }
    }

    /// What lets it go on, or where to look why it does not.
    fn next_of_halt(&self) -> Option<String> {
        let Unwoken { stopped, frozen, uninterruptible, .. } = &self.unwoken;
        if !frozen.is_empty() {
            let sentence = "let it go on with what froze it: docker unpause, systemctl thaw, or 0 in its cgroup.freeze";
            return Some(sentence.to_owned());
        }
        if let Some(tid) = stopped.first() {
            let pid = self.threads.iter().find(|one| one.tid == *tid).map(|one| one.pid);
            let pid = pid.filter(|pid| *pid > 0).unwrap_or(*tid);
            return Some(format!(
                "see whether a debugger has it (TracerPid in /proc/{pid}/status); where none has, kill -CONT {pid} lets it \
                 go on"
            ));
        }
        let tid = uninterruptible.first()?;
        Some(format!("see what they wait for: cat /proc/{tid}/stack"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use noise_trace::delays::document::Spread;
    use noise_verdict::{Kind, Verdict};

    use super::*;
    use crate::made::{MS, asleep, member, setup};
    use crate::unwoken::{SleepsAt, open_sleeps};

    /// A victim whose threads slept for 2 s, all the time.
    fn still(tids: &[i32]) -> Findings {
        let mut found = asleep(0, 0);
        let one = |tid: &i32| member(*tid, &[("asleep", 2_000)], Spread::default());
        found.threads = tids.iter().map(one).collect();
        found.totals_ns = [("asleep", 2_000 * MS * tids.len() as u64)].into();
        found.open = open_sleeps(&[], &found.threads);
        found
    }

    fn at(place: &str, is_idle: bool) -> SleepsAt {
        SleepsAt { is_idle, lock: None, place: place.to_owned() }
    }

    /// What is said where so many are there, and what their time is accounted to: idle, lock and unknown, ms.
    fn judged(mut found: Findings, unwoken: Unwoken) -> (Verdict, [u64; 3]) {
        let there = found.threads.len();
        found.note_unwoken(Unwoken { there, ..unwoken });
        found.judge("shop", &setup());
        let all_ns: u64 = found.totals_ns.values().sum();
        assert_eq!(found.accounts_ns.total_ns(), all_ns);
        let ns = [Account::Idle, Account::Lock, Account::Unknown];
        (found.verdict.unwrap(), ns.map(|account| found.accounts_ns.ns(account) / MS))
    }

    #[test]
    fn without_a_look_nothing_is_said() {
        let mut found = still(&[7, 8]);
        found.judge("shop", &setup());
        let verdict = found.verdict.unwrap();
        let expected = "shop: nothing held it up";
        assert_eq!((verdict.kind, &*verdict.sentence), (Kind::Nothing, expected));
    }

    #[test]
    fn a_server_without_work_is_idle() {
        let at = [(7, at("do_epoll_wait", true)), (8, at("do_epoll_wait", true))].into();
        let (verdict, ms) = judged(still(&[7, 8]), Unwoken { at, ..Unwoken::default() });
        let expected =
            "shop: nothing held it up: its 2 threads slept all the time, in do_epoll_wait (2)";
        assert_eq!((verdict.kind, &*verdict.sentence), (Kind::Nothing, expected));
        assert_eq!((ms, verdict.next), ([4_000, 0, 0], None));
    }

    #[test]
    fn what_may_be_a_wait_is_said_with_where_it_is() {
        let at = [
            (7, at("do_epoll_wait", true)),
            (8, at("recv from 127.0.0.1:5432", false)),
            (9, at("recv from 127.0.0.1:5432", false)),
        ];
        let unwoken = Unwoken { at: at.into(), ..Unwoken::default() };
        let (verdict, ms) = judged(still(&[7, 8, 9]), unwoken);
        let expected = "shop: nothing held it up that events show: its 3 threads slept all the time, in recv from \
                        127.0.0.1:5432 (2), do_epoll_wait (1)";
        assert_eq!((verdict.kind, &*verdict.sentence), (Kind::Unknown, expected));
        assert_eq!(ms, [2_000, 0, 4_000]);
        // Beside a thread that works, workers without work are nothing to speak of.
        let mut busy = still(&[7, 8]);
        busy.threads.push(member(9, &[("running", 500), ("timer", 1_500)], Spread::default()));
        busy.totals_ns.extend([("running", 500 * MS), ("timer", 1_500 * MS)]);
        let (verdict, ms) = judged(busy, Unwoken::default());
        let expected = "shop: nothing held it up; it slept 1.50 s on timers of its own";
        assert_eq!((verdict.kind, &*verdict.sentence), (Kind::Nothing, expected));
        assert_eq!(ms, [4_000, 0, 0]);
    }

    #[test]
    fn who_is_stopped_or_frozen_is_not_idle() {
        let of = |stopped: &[i32], frozen: &[i32]| Unwoken {
            stopped: stopped.iter().copied().collect(),
            frozen: frozen.iter().copied().collect(),
            ..Unwoken::default()
        };
        let (verdict, ms) = judged(still(&[7, 8]), of(&[7, 8], &[]));
        let expected = "shop is stopped (SIGSTOP or a debugger)";
        assert_eq!((verdict.kind, &*verdict.sentence), (Kind::HeldUp, expected));
        // Made threads are of the process 70.
        assert!(verdict.next.unwrap().contains("kill -CONT 70 "));
        assert_eq!(ms, [0, 0, 4_000]);
        let (verdict, _) = judged(still(&[7, 8]), of(&[], &[7, 8]));
        let expected = "shop is frozen (docker pause or cgroup.freeze)";
        assert_eq!((verdict.kind, &*verdict.sentence), (Kind::HeldUp, expected));
        assert!(verdict.next.unwrap().contains("docker unpause"));
        let (verdict, ms) = judged(still(&[7, 8]), of(&[8], &[]));
        let expected = "shop has 1 of its 2 threads stopped (SIGSTOP or a debugger)";
        assert_eq!((verdict.kind, &*verdict.sentence), (Kind::Unknown, expected));
        assert_eq!(ms, [2_000, 0, 2_000]);
    }

    #[test]
    fn an_uninterruptible_sleep_that_began_before_all_events_counts() {
        let at = [(8, at("rpc_wait_bit_killable", false)), (7, at("do_epoll_wait", true))].into();
        let uninterruptible: BTreeSet<i32> = [8].into();
        let mut found = still(&[7, 8]);
        found.note_unwoken(Unwoken { there: 2, uninterruptible, at, ..Unwoken::default() });
        let slept = Spread { count: 1, sum_ns: 2_000 * MS, max_ns: 2_000 * MS };
        assert_eq!((found.uninterruptible, found.threads[1].uninterruptible), (slept, slept));
        assert_eq!(found.threads[1].totals_ns, [("unknown", 2_000 * MS)].into());
        found.judge("shop", &setup());
        assert_eq!(found.accounts_ns.ns(Account::Unknown), 2_000 * MS);
        let verdict = found.verdict.unwrap();
        let expected = "shop slept 2.00 s uninterruptibly, in rpc_wait_bit_killable (1)";
        assert_eq!((verdict.kind, &*verdict.sentence), (Kind::Unknown, expected));
        let next = "see what they wait for: cat /proc/8/stack";
        assert_eq!(verdict.next.as_deref(), Some(next));
    }

    #[test]
    fn workers_in_one_lock_that_is_not_let_go_wait_for_it() {
        let lock = |key| SleepsAt { lock: Some((70, key)), ..at("futex_wait_queue", false) };
        let waits = |at: [(i32, SleepsAt); 3]| {
            judged(still(&[7, 8, 9]), Unwoken { at: at.into(), ..Unwoken::default() })
        };
        let (verdict, ms) = waits([(7, lock(5)), (8, lock(5)), (9, at("pipe_read", false))]);
        let expected = "shop: its threads waited 4.00 s for each other; held all the time, by whom is not known";
        assert_eq!((verdict.kind, &*verdict.sentence), (Kind::HeldUp, expected));
        assert_eq!(verdict.findings[0].evidence, Evidence::Part);
        assert_eq!(ms, [0, 4_000, 2_000]);
        // Another one waits for work, maybe with the lock: the next one in turn will.
        let (verdict, ms) = waits([(7, lock(5)), (8, lock(5)), (9, at("do_epoll_wait", true))]);
        assert!(verdict.findings.is_empty(), "{verdict:?}");
        assert_eq!((verdict.kind, ms), (Kind::Unknown, [2_000, 0, 4_000]));
        // Each at a lock of its own: it may be no lock.
        let (verdict, ms) = waits([(7, lock(5)), (8, lock(6)), (9, at("do_epoll_wait", true))]);
        assert!(verdict.findings.is_empty(), "{verdict:?}");
        assert_eq!((verdict.kind, ms), (Kind::Unknown, [2_000, 0, 4_000]));
    }
}
