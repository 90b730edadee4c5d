//! PURE: what a victim waited for disks for without a request of its own, as a verdict is made of it: the journal of a file
//! system, and the kernel that held it back because it writes to files faster than a disk takes it.

use std::collections::{BTreeMap, BTreeSet};

use noise_common::charge::Cause;
use noise_paths::state::State;
use noise_text::clean::clean;
use noise_verdict::{Account, Accounts, Culprit, CulpritKind, CulpritLoss, Evidence};

use super::findings::{Ender, Findings, Whose};
use super::journal::is_journal;
use super::locks::Locks;

/// Least part of a thread's sleeps for which its cgroup has to stall for disks, if that is what they were for.
const LEAST_STALLED: f64 = 0.5;

impl Ender {
    /// Whether it is the kernel's, and writes a journal.
    pub fn is_journal(&self) -> bool {
        self.whose == Whose::Kernel && !self.is_packet && is_journal(&self.comm)
    }
}

impl Findings {
    /// How long the kernel held its threads back, ns.
    fn held_back_ns(&self) -> u64 {
        self.held_back.values().fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// Accounts for it, and for what threads of the kernel ended, or locks of the kernel. A cgroup that waits for disks or for
    /// memory stalls, in the kernel's own count; one whose driver sleeps does not.
    pub fn take_held_back(&self, accounts: &mut Accounts) {
        let all_ns = self.held_back_ns();
        match self.short() {
            Some(_) => {
                accounts.take(Account::Timer, Account::Memory, all_ns);
            }
            None => {
                let by_disks_ns = self.held_back_by_disks_ns();
                accounts.take(Account::Timer, Account::Disk, by_disks_ns);
                accounts.take(Account::Timer, Account::Unknown, all_ns - by_disks_ns);
                accounts.take(Account::Unknown, Account::Disk, self.in_writeback_ns());
            }
        }
        accounts.take(Account::Unknown, Account::Lock, self.kernel_locks_alone().ns);
    }

    /// How long it waited for writeback, ns.
    fn by_writeback_ns(&self) -> u64 {
        match self.short() {
            Some(_) => 0,
            None => self.held_back_by_disks_ns().saturating_add(self.in_writeback_ns()),
        }
    }

    /// What of its other sleeps was waiting for writeback, ns: until the kernel woke it, and behind its own threads.
    fn in_writeback_ns(&self) -> u64 {
        let seen = |tid: &i32| self.writeback.seen.contains(tid);
        let until_kernel = self.until_kernel.iter().filter(|(tid, _)| seen(tid));
        let until_kernel_ns = until_kernel.fold(0_u64, |sum, (_, ns)| sum.saturating_add(*ns));
        let behind = |tid: &i32| {
            let of_thread = self.writeback.at_file_locks.iter().filter(|(at, _)| at == tid);
            let pids: Vec<i32> = of_thread.map(|(_, pid)| *pid).collect();
            self.writeback.ever.iter().any(|(_, pid)| pids.contains(pid))
        };
        let open = self.open_in_kernel();
        let open = open.iter().filter(|(tid, _)| seen(tid) || behind(tid));
        let open_ns = open.fold(0_u64, |sum, (_, ns)| sum.saturating_add(*ns));
        until_kernel_ns.saturating_add(open_ns).saturating_add(self.locks_in_writeback().ns)
    }

    /// Uninterruptible sleeps that nothing has ended yet, by thread, ns.
    pub fn open_in_kernel(&self) -> BTreeMap<i32, u64> {
        let mut open = self.unwoken_in_kernel.clone();
        for tid in &self.unwoken.uninterruptible {
            open.insert(*tid, self.open.get(tid).map_or(0, |sleep| sleep.ns));
        }
        open
    }

    /// Locks of the kernel whose holders the kernel held back.
    fn locks_behind_held_back(&self) -> Locks {
        let is_held_back = |tid| self.held_back.contains_key(&tid);
        self.kernel_locks.part(|tid, state| state == State::Timer.name() && is_held_back(tid))
    }

    /// Those of them that disks held back.
    fn locks_in_writeback(&self) -> Locks {
        match self.short().is_none() && self.held_back_by_disks_ns() > 0 {
            true => self.locks_behind_held_back(),
            false => Locks::default(),
        }
    }

    /// The other locks of the kernel, as far as it is known who held them.
    pub fn kernel_locks_alone(&self) -> Locks {
        let behind = self.locks_behind_held_back();
        self.kernel_locks.part(|tid, state| !behind.by.contains_key(&(tid, state)))
    }

    /// How long it was held back by disks, ns: all where the cgroup stalled for disks meanwhile; else what threads slept of
    /// processes that were seen there, or behind a writer that the kernel held back.
    fn held_back_by_disks_ns(&self) -> u64 {
        if self.is_stalled_by_disks() {
            return self.held_back_ns();
        }
        let of = |tid: i32| self.threads.iter().find(|one| one.tid == tid).map(|one| one.pid);
        let holders = self.locks_behind_held_back();
        let holders: BTreeSet<i32> = holders.by.keys().filter_map(|(tid, _)| of(*tid)).collect();
        let behind = self.writeback.at_file_locks.iter().map(|(_, pid)| *pid);
        let behind = behind.filter(|pid| holders.contains(pid));
        let pids: BTreeSet<i32> =
            self.writeback.ever.iter().map(|(_, pid)| *pid).chain(behind).collect();
        let seen = self
            .held_back
            .iter()
            .filter(|(tid, _)| of(**tid).is_some_and(|pid| pids.contains(&pid)));
        seen.fold(0, |sum, (_, ns)| u64::saturating_add(sum, *ns))
    }

    /// Whether the cgroup stalled for disks while it was held back.
    fn is_stalled_by_disks(&self) -> bool {
        let all_ns = self.held_back_ns();
        let io = self.pressure.as_ref().and_then(|pressure| pressure.io.as_ref());
        let stalled_ms = io.and_then(|io| io.some.stalled_ms).unwrap_or(0.0);
        // Threads that are held back at a time stall the cgroup once.
        let each_ns = all_ns.saturating_add(self.ns("disk")) / self.held_back.len().max(1) as u64;
        stalled_ms > 0.0 && stalled_ms >= LEAST_STALLED * each_ns as f64 / 1e6
    }

    fn disk_loss(&self, ns: u64, culprit: Culprit, who: String) -> CulpritLoss {
        CulpritLoss::new(Account::Disk, culprit, ns, Some(who), self.evidence())
    }

    /// What it lost to the journal, beside what that waited for others, and to writeback.
    pub fn of_storage(&self, accounts: &Accounts) -> Vec<CulpritLoss> {
        let mut losses = Vec::new();
        let back_ns = self.by_writeback_ns().min(accounts.ns(Account::Disk));
        let named = self.culprits.iter().filter(|one| one.state == "disk");
        let named_ns = named.fold(back_ns, |sum, one| sum.saturating_add(one.ns));
        let mut rest_ns = accounts.ns(Account::Disk).saturating_sub(named_ns);
        let journals = self.enders.iter().filter(|ender| ender.is_journal());
        let mut journals: Vec<&Ender> = journals.collect();
        journals.sort_by_key(|journal| std::cmp::Reverse(journal.ns));
        for journal in journals {
            let ns = journal.ns.min(rest_ns);
            rest_ns -= ns;
            let name = clean(&journal.comm).into_owned();
            let culprit = Culprit {
                tid: Some(journal.tid),
                ..Culprit::named(CulpritKind::Thread, &*name, Cause::Kthread)
            };
            losses.push(self.disk_loss(ns, culprit, format!("the journal ({name})")));
        }
        if back_ns > 0 {
            let unknown = || Culprit::named(CulpritKind::None, "writeback", Cause::Untracked);
            let (culprit, who) = match &self.main_writer {
                Some(main) => (main.culprit.clone(), main.words.clone()),
                None => (unknown(), "writeback (it is not known whose)".to_owned()),
            };
            let loss = self.disk_loss(back_ns, culprit, who);
            // What a thread is seen at while the page is made is known of that moment; that it waits for the main writer is
            // likely, and not seen.
            let is_sure = self.is_stalled_by_disks() && self.main_writer.is_none();
            let evidence = if is_sure { loss.evidence } else { Evidence::Part };
            losses.push(CulpritLoss { evidence, ..loss });
        }
        losses.retain(|loss| loss.ns > 0);
        losses
    }
}
