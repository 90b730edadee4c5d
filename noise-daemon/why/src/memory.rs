//! PURE: what a victim waited for memory, as a verdict is made of it: by the pressure of its cgroup, and the limits that
//! were hit meanwhile.

use noise_model::pressure::Pressure;
use noise_verdict::{Account, Accounts, CulpritLoss, Evidence, Reply, Shortage};

use super::counted::Counted;
use super::findings::Findings;

/// The pressure of a cgroup that belongs to a victim, as the victim has it: a limit is its own where it is that of the cgroup
/// with this label.
pub fn of_victim(mut pressure: Pressure, label: &str) -> Pressure {
    for limit in pressure.limits.iter_mut().flatten() {
        limit.is_own = limit.of == label;
    }
    pressure
}

impl Findings {
    /// Of what memory was short; `None` where it was not, or that is not known.
    pub fn short(&self) -> Option<Shortage> {
        self.pressure.as_ref().and_then(Shortage::of)
    }

    /// Where memory was short, what it waited for disks was for that.
    pub fn take_memory(&self, accounts: &mut Accounts) {
        if self.short().is_some() {
            accounts.take(Account::Disk, Account::Memory, accounts.ns(Account::Disk));
        }
    }

    /// The same by counters. The kernel slows down by sleeps whose end no disk has a part in, so that where memory was short
    /// all that was slept uninterruptibly was for that, as incidents have it.
    pub fn take_counted_memory(&self, counted: &Counted, accounts: &mut Accounts) {
        self.take_memory(accounts);
        if self.short().is_some() {
            let rest_ns = counted.uninterruptible_ns().saturating_sub(accounts.ns(Account::Memory));
            accounts.take(Account::Unknown, Account::Memory, rest_ns);
        }
    }

    /// What it lost to that.
    pub fn of_memory(&self, accounts: &Accounts) -> Option<CulpritLoss> {
        let (short, ns) = (self.short()?, accounts.ns(Account::Memory));
        let span_ns = self.pressure.as_ref().and_then(|pressure| pressure.span_ns);
        // What was read of a part of the time says nothing of the rest.
        let is_whole = span_ns.is_some_and(|span_ns| span_ns >= self.span_ns);
        (ns > 0).then(|| CulpritLoss {
            resource: Account::Memory,
            culprit: short.culprit(),
            ns,
            who: Some((short.words(), ns)),
            evidence: if is_whole { self.evidence() } else { Evidence::Part },
            works_with_victim: false,
            is_set_up: false,
            reply: Reply::Comes,
        })
    }
}
