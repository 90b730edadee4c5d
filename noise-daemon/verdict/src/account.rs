//! What the time of a victim's threads was spent on.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use noise_common::charge::{Cause, Resource};
use noise_common::signals::{BLOCK as BLOCK_VECTOR, SOFTIRQ_VECTORS, VECTORS};
use serde::Serialize;

/// The softirq that completes requests of block devices.
const BLOCK: &str = SOFTIRQ_VECTORS[BLOCK_VECTOR as usize];

noise_common::named! {
    /// What time is accounted to, in the order in which it is shown. A sleep is accounted to what ended it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Account all ACCOUNTS {
        /// It had a CPU, and used it.
        Running = "running",
        /// It was runnable, and others had the CPU, or the CPU was not given yet.
        Cpu = "cpu",
        /// It was runnable, and its own CPU quota was used up.
        Quota = "quota",
        /// It had a CPU or waited for one, and an interrupt had it.
        Interrupt = "interrupt",
        /// The same, and the hypervisor had it.
        Hypervisor = "hypervisor",
        /// It slept until a disk was done.
        Disk = "disk",
        /// It had to free or move memory before it got some, or slept until memory came back from a disk.
        Memory = "memory",
        /// It waited for a lock or a full queue that a thread of its own held.
        Lock = "lock",
        /// It waited for another process of this host that it had asked.
        Tier = "tier",
        /// It waited for another host that it had asked, or for packets to be sent or handled.
        Network = "network",
        /// It slept until a timer expired.
        Timer = "timer",
        /// Nothing was asked of it: it slept until somebody asked, or nothing has woken it yet.
        Idle = "idle",
        /// It is not known what it did, or what it slept for.
        Unknown = "unknown",
    }
}

impl Account {
    /// Whether a thread that is at this had something to do. One that sleeps on a timer may have, or not.
    pub const fn is_active(self) -> bool {
        matches!(
            self,
            Self::Running
                | Self::Cpu
                | Self::Quota
                | Self::Interrupt
                | Self::Hypervisor
                | Self::Disk
                | Self::Memory
                | Self::Lock
                | Self::Tier
                | Self::Network
        )
    }

    /// Whether it is a sleep for what its own program or somebody it asked does. Nothing counts these all the time, so what
    /// is usual of them is not known.
    pub const fn is_slept(self) -> bool {
        matches!(self, Self::Lock | Self::Tier | Self::Network | Self::Timer)
    }

    /// What a wait for a CPU is accounted to, by what kept the CPU away.
    pub const fn of_cpu_wait(cause: Cause) -> Self {
        match cause {
            Cause::Foreign | Cause::Own | Cause::Kthread | Cause::Idle | Cause::Untracked => {
                Self::Cpu
            }
            // Only sleeps are charged to these.
            Cause::Iowait | Cause::Writeback => Self::Disk,
            Cause::Hardirq | Cause::Softirq | Cause::Nmi => Self::Interrupt,
            Cause::Throttle => Self::Quota,
            Cause::Steal => Self::Hypervisor,
        }
    }

    /// What a charge of the ledger is accounted to, by who is charged, and how.
    ///
    /// An uninterruptible sleep is charged to who ends it: it was for a disk where that completes requests of one. Else
    /// the kernel does not say what it was for, unless pages had to be written first.
    pub fn of_charge(resource: Resource, cause: Cause, culprit: &str) -> Self {
        match (resource, cause) {
            (Resource::Cpu | Resource::Preemption, _) => Self::of_cpu_wait(cause),
            (Resource::Running, Cause::Steal) => Self::Hypervisor,
            (Resource::Running, _) => Self::Interrupt,
            (Resource::BlockQueue | Resource::BlockDevice, _) => Self::Disk,
            (Resource::NetTx | Resource::NetRx, _) => Self::Network,
            (Resource::Uninterruptible, Cause::Writeback) => Self::Disk,
            (Resource::Uninterruptible, _) if completes_requests(cause, culprit) => Self::Disk,
            (Resource::Uninterruptible, _) => Self::Unknown,
        }
    }
}

/// What something else held a victim up in for longest, of the charges that count as that, with their time, ns;
/// `None` where nothing did.
pub fn mostly(held_up: impl IntoIterator<Item = (Resource, Cause, u64)>) -> Option<Account> {
    let mut sums = Accounts::default();
    for (resource, cause, ns) in held_up {
        // Of such charges, the culprit decides nothing.
        sums.add(Account::of_charge(resource, cause, ""), ns);
    }
    sums.ns.into_iter().max_by_key(|(account, ns)| (*ns, Reverse(*account))).map(|(one, _)| one)
}

/// Whether who ends a sleep completes requests of a block device: in the softirq, or in a device's own interrupt, or by
/// the kernel's mark of the sleep. Which device it is remains unknown.
pub fn completes_requests(cause: Cause, culprit: &str) -> bool {
    match cause {
        Cause::Softirq => culprit == BLOCK,
        Cause::Hardirq => !VECTORS.contains(&culprit),
        Cause::Iowait => true,
        _ => false,
    }
}

/// Nanoseconds by account. They sum to the time that the threads were there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Accounts {
    ns: BTreeMap<Account, u64>,
}

impl Accounts {
    pub fn add(&mut self, account: Account, ns: u64) {
        if ns > 0 {
            let sum = self.ns.entry(account).or_default();
            *sum = sum.saturating_add(ns);
        }
    }

    /// Takes time from one account to another, at most what there is: the sum stays. How much that was.
    pub fn take(&mut self, from: Account, to: Account, ns: u64) -> u64 {
        let Some(sum) = self.ns.get_mut(&from) else { return 0 };
        let taken = ns.min(*sum);
        *sum -= taken;
        if *sum == 0 {
            self.ns.remove(&from);
        }
        self.add(to, taken);
        taken
    }

    /// Time of one account, ns.
    pub fn ns(&self, account: Account) -> u64 {
        self.ns.get(&account).copied().unwrap_or(0)
    }

    pub fn total_ns(&self) -> u64 {
        self.ns.values().fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// Time in which the threads had something to do, ns: see [`Account::is_active`].
    pub fn active_ns(&self) -> u64 {
        let active = self.ns.iter().filter(|(account, _)| account.is_active());
        active.fold(0, |sum, (_, ns)| sum.saturating_add(*ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn what_is_taken_is_neither_lost_nor_made(
            added in proptest::collection::vec((0..13_usize, 0..1_000_u64), 0..20),
            taken in proptest::collection::vec((0..13_usize, 0..13_usize, 0..3_000_u64), 0..20),
        ) {
            let mut accounts = Accounts::default();
            for (account, ns) in &added {
                accounts.add(ACCOUNTS[*account], *ns);
            }
            let sum: u64 = added.iter().map(|(_, ns)| ns).sum();
            for (from, to, ns) in taken {
                let before = accounts.ns(ACCOUNTS[from]);
                let moved = accounts.take(ACCOUNTS[from], ACCOUNTS[to], ns);
                prop_assert_eq!(moved, ns.min(before));
                prop_assert_eq!(accounts.total_ns(), sum);
                prop_assert!(accounts.active_ns() <= sum);
            }
        }
    }

    #[test]
    fn names_are_those_of_documents() {
        for account in ACCOUNTS {
            assert_eq!(serde_json::to_value(account).unwrap(), account.name());
        }
    }

    #[test]
    fn what_held_up_for_longest_is_summed_by_what_an_operator_knows() {
        use Cause::{Foreign, Hardirq, Softirq, Throttle};
        use Resource::{BlockDevice, BlockQueue, Cpu, Running};
        let held_up = [
            (Cpu, Foreign, 5),
            (BlockQueue, Foreign, 3),
            (BlockDevice, Foreign, 3),
            (Cpu, Throttle, 4),
            (Running, Softirq, 2),
            (Cpu, Hardirq, 2),
        ];
        assert_eq!(mostly(held_up), Some(Account::Disk));
        assert_eq!(mostly(held_up[..1].iter().copied()), Some(Account::Cpu));
        assert_eq!(mostly([]), None);
    }

    #[test]
    fn a_document_names_accounts_that_have_time() {
        let mut accounts = Accounts::default();
        accounts.add(Account::Running, 5);
        accounts.add(Account::Cpu, 0);
        accounts.take(Account::Running, Account::Interrupt, 2);
        let document = serde_json::to_value(&accounts).unwrap();
        assert_eq!(document, serde_json::json!({"running": 3, "interrupt": 2}));
    }
}
