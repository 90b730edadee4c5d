//! PURE: what a victim waited for memory, as a verdict is made of it: by the pressure of its cgroup, and the limits that
//! were hit meanwhile.

use noise_verdict::{Account, Accounts, Evidence, Loss, Reply, Shortage};

use super::findings::Findings;

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

    /// What it lost to that.
    pub fn of_memory(&self, accounts: &Accounts) -> Option<Loss> {
        let (short, ns) = (self.short()?, accounts.ns(Account::Memory));
        let span_ns = self.pressure.as_ref().and_then(|pressure| pressure.span_ns);
        // What was read of a part of the time says nothing of the rest.
        let is_whole = span_ns.is_some_and(|span_ns| span_ns >= self.span_ns);
        (ns > 0).then(|| Loss {
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
