//! PURE: what a victim waited for disks for without a request of its own, as a verdict is made of it: the journal of a file
//! system, and the kernel that held it back because it writes to files faster than a disk takes it.

use noise_common::charge::Cause;
use noise_model::clean::clean;
use noise_verdict::{Account, Accounts, Culprit, CulpritKind, Loss, Reply};

use super::findings::{Ender, Findings, Whose};
use super::journal::is_journal;

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
    pub fn held_back_ns(&self) -> u64 {
        self.held_back.values().fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// What that was for. Both of them make the cgroup stall, in the kernel's own count: drivers that sleep do not.
    pub fn held_back_for(&self) -> Account {
        if self.short().is_some() {
            return Account::Memory;
        }
        let io = self.pressure.as_ref().and_then(|pressure| pressure.io.as_ref());
        let stalled_ms = io.and_then(|io| io.some.stalled_ms).unwrap_or(0.0);
        // Threads that are held back at a time stall the cgroup once.
        let all_ns = self.held_back_ns().saturating_add(self.ns("disk"));
        let each_ms = all_ns as f64 / self.held_back.len().max(1) as f64 / 1e6;
        match stalled_ms > 0.0 && stalled_ms >= LEAST_STALLED * each_ms {
            true => Account::Disk,
            false => Account::Unknown,
        }
    }

    /// What it lost to the journal, beside what that waited for others, and to writeback.
    pub fn of_storage(&self, accounts: &Accounts) -> Vec<Loss> {
        let loss = |ns, culprit, who: String| Loss {
            resource: Account::Disk,
            culprit,
            ns,
            who: Some((who, ns)),
            evidence: self.evidence(),
            works_with_victim: false,
            is_set_up: false,
            reply: Reply::Comes,
        };
        let mut losses = Vec::new();
        let back_ns = match self.held_back_for() {
            Account::Disk => self.held_back_ns(),
            _ => 0,
        };
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
                kind: CulpritKind::Thread,
                name: name.clone(),
                cgroup: None,
                pid: None,
                tid: Some(journal.tid),
                cause: Cause::Kthread,
            };
            losses.push(loss(ns, culprit, format!("the journal ({name})")));
        }
        if back_ns > 0 {
            let culprit = Culprit {
                kind: CulpritKind::None,
                name: "writeback".to_owned(),
                cgroup: None,
                pid: None,
                tid: None,
                cause: Cause::Untracked,
            };
            let who = "writeback (it is not known whose)".to_owned();
            losses.push(loss(back_ns, culprit, who));
        }
        losses.retain(|loss| loss.ns > 0);
        losses
    }
}
