//! PURE: what a daemon's counters say of a victim, for a time of which there are few events or none.
//!
//! They say how long its threads waited, and for whom, but not when, nor how long they ran or what they slept for. An
//! uninterruptible sleep was for a disk where who ended it completes requests; who was ahead there is known of the requests,
//! which may wait at the same time, so their parts are those of the sleeps.

use std::collections::{BTreeMap, BTreeSet};

use noise_analysis::{StopCharges, Stopped, Watched};
use noise_common::charge::{Cause, Resource};
use noise_model::labels::is_one;
use noise_text::clean::clean;
use noise_verdict::{Account, Accounts, Culprit, CulpritKind, CulpritLoss, Evidence, called};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// How long, ns: whole steps of the daemon's counters.
    pub span_ns: u64,
    /// Who was charged with what.
    pub charges: Vec<StopCharges>,
    /// How many delays of a signal there were; none where the daemon does not say.
    pub delays: Vec<(Watched, u64)>,
}

/// What was lacking, why, and who had it.
type ShortageKey = (Account, Cause, String);

impl Counted {
    /// What a daemon answers.
    pub fn of(stopped: &Stopped) -> Self {
        Self {
            span_ns: stopped.to_ns.saturating_sub(stopped.from_ns),
            charges: stopped.charges.clone(),
            delays: stopped.delays.clone(),
        }
    }

    /// How many delays of a signal there were, where that is known.
    pub fn count(&self, watched: Watched) -> Option<u64> {
        let own = self.delays.iter().find(|(own, _)| *own == watched);
        own.map(|(_, count)| *count)
    }

    /// Time by what it was spent on, of so many threads: what is not counted is not known.
    pub fn accounts(&self, threads: usize) -> Accounts {
        let mut accounts = Accounts::default();
        for (account, ns) in self.charges.iter().filter_map(held_up) {
            accounts.add(account, ns);
        }
        let threads = u64::try_from(threads).unwrap_or(u64::MAX);
        let all_ns = self.span_ns.saturating_mul(threads);
        accounts.add(Account::Unknown, all_ns.saturating_sub(accounts.total_ns()));
        accounts
    }

    /// All uninterruptible sleeps, ns.
    pub fn uninterruptible_ns(&self) -> u64 {
        let own = self.charges.iter().filter(|one| one.resource == Resource::Uninterruptible);
        own.fold(0, |sum, one| sum.saturating_add(one.ns))
    }

    /// Who had what was lacking, of a victim with this name, whose own cgroups are these.
    pub fn losses(&self, victim: &str, own: &BTreeSet<String>) -> Vec<CulpritLoss> {
        let mut sums: BTreeMap<ShortageKey, u64> = BTreeMap::new();
        let mut add = |account, charged: &StopCharges, ns: u64| {
            let is_other = matches!(charged.cause, Cause::Foreign | Cause::Writeback);
            let is_own = is_other && own.contains(&*charged.culprit);
            let cause = if is_own { Cause::Own } else { charged.cause };
            let name = match cause {
                Cause::Own => victim.to_owned(),
                _ => charged.culprit.to_string(),
            };
            let sum = sums.entry((account, cause, name)).or_default();
            *sum = sum.saturating_add(ns);
        };
        let (named, of_disks): (Vec<_>, Vec<_>) =
            self.charges.iter().filter_map(|one| Some((one, held_up(one)?))).partition(
                |(one, (account, _))| *account != Account::Disk || one.cause == Cause::Writeback,
            );
        for (one, (account, ns)) in named {
            add(account, one, ns);
        }
        let disk_ns = of_disks.iter().fold(0_u64, |sum, (_, (_, ns))| sum.saturating_add(*ns));
        let is_request = |one: &&StopCharges| {
            matches!(one.resource, Resource::BlockQueue | Resource::BlockDevice)
        };
        let requests = self.charges.iter().filter(is_request);
        let all_ns = requests.clone().fold(0_u64, |sum, one| sum.saturating_add(one.ns));
        for one in requests {
            let part = one.ns as f64 / all_ns.max(1) as f64;
            add(Account::Disk, one, (disk_ns as f64 * part) as u64);
        }
        sums.into_iter().filter(|(_, ns)| *ns > 0).map(|(key, ns)| loss(key, ns)).collect()
    }
}

/// What time of threads a charge is, ns; `None` of what is not theirs, or of which it is not known what it was for.
fn held_up(one: &StopCharges) -> Option<(Account, u64)> {
    match one.resource {
        Resource::Cpu | Resource::Running | Resource::Uninterruptible => {
            let account = Account::of_charge(one.resource, one.cause, &one.culprit);
            Some((account, one.ns)).filter(|_| account != Account::Unknown)
        }
        // Requests and packets wait side by side, and threads need not wait for them. Preemptions have no time.
        Resource::BlockQueue
        | Resource::BlockDevice
        | Resource::NetTx
        | Resource::NetRx
        | Resource::Preemption => None,
    }
}

fn loss((resource, cause, name): ShortageKey, ns: u64) -> CulpritLoss {
    let kind = match cause {
        Cause::Foreign | Cause::Writeback if is_one(&name) => CulpritKind::Cgroup,
        Cause::Kthread => CulpritKind::Thread,
        Cause::Hardirq | Cause::Softirq | Cause::Nmi => CulpritKind::Device,
        Cause::Throttle => CulpritKind::Limit,
        _ => CulpritKind::None,
    };
    let words = clean(called(cause, &name)).into_owned();
    let who = match (resource, cause) {
        (Account::Cpu, Cause::Own) => Some("its own threads".to_owned()),
        (Account::Disk, Cause::Own) => Some("its own requests".to_owned()),
        (Account::Cpu | Account::Disk, Cause::Foreign | Cause::Kthread) => Some(words.clone()),
        (Account::Disk, Cause::Writeback) => Some(format!("what {words} wrote")),
        _ => None,
    };
    let cgroup = (kind == CulpritKind::Cgroup).then(|| clean(&name).into_owned());
    let culprit = Culprit { cgroup, ..Culprit::named(kind, words, cause) };
    // Whether it works with the victim is not known, and so it is never reason enough for a command.
    CulpritLoss::new(resource, culprit, ns, who, Evidence::Counters)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn charged(resource: Resource, cause: Cause, culprit: &str, ms: u64) -> StopCharges {
        StopCharges { resource, cause, culprit: culprit.into(), ns: ms * MS }
    }

    fn counted() -> Counted {
        use Cause::{Foreign, Kthread, Own, Softirq, Throttle, Writeback};
        use Resource::{BlockDevice, BlockQueue, Cpu, NetRx, Running, Uninterruptible};
        Counted {
            span_ns: 2_000 * MS,
            charges: vec![
                charged(Cpu, Foreign, "/hog", 900),
                charged(Cpu, Foreign, "/shop/worker", 100),
                charged(Cpu, Own, "/shop", 50),
                charged(Cpu, Throttle, "throttle", 300),
                charged(Cpu, Softirq, "net_rx", 40),
                charged(Running, Softirq, "net_rx", 60),
                charged(Uninterruptible, Softirq, "block", 200),
                charged(Uninterruptible, Kthread, "jbd2/vda", 500),
                charged(Uninterruptible, Writeback, "/writer", 80),
                charged(Uninterruptible, Writeback, "/shop/worker", 20),
                charged(BlockQueue, Foreign, "/backup", 3_000),
                charged(BlockDevice, Own, "/shop", 1_000),
                charged(NetRx, Own, "/shop", 9_000),
            ],
            delays: Vec::new(),
        }
    }

    #[test]
    fn time_of_threads_alone_is_accounted_to() {
        let accounts = counted().accounts(4);
        let ns = |account| accounts.ns(account) / MS;
        assert_eq!((ns(Account::Cpu), ns(Account::Quota)), (1_050, 300));
        assert_eq!((ns(Account::Interrupt), ns(Account::Disk)), (100, 300));
        assert_eq!((ns(Account::Network), ns(Account::Running)), (0, 0));
        assert_eq!(accounts.total_ns(), 8_000 * MS);
        assert_eq!(counted().uninterruptible_ns(), 800 * MS);
        // More was waited than there are threads left of it.
        assert_eq!(counted().accounts(0).ns(Account::Unknown), 0);
    }

    #[test]
    fn each_loss_has_its_culprit() {
        let own = ["/shop".to_owned(), "/shop/worker".to_owned()].into();
        let losses = counted().losses("shop", &own);
        let ms = |resource, name: &str| {
            let mut found = losses.iter().filter(|one| one.resource == resource);
            found.find(|one| one.culprit.name == name).map(|one| one.ns / MS)
        };
        assert_eq!(ms(Account::Cpu, "/hog"), Some(900));
        assert_eq!(ms(Account::Cpu, "shop"), Some(150), "children are its own");
        assert_eq!(ms(Account::Quota, "its own CPU quota"), Some(300));
        assert_eq!(ms(Account::Interrupt, "net_rx"), Some(100));
        assert_eq!(
            (ms(Account::Disk, "/backup"), ms(Account::Disk, "shop")),
            (Some(150), Some(70))
        );
        assert_eq!(ms(Account::Disk, "/writer"), Some(80), "it is known whose pages they were");
        assert!(losses.iter().all(|one| one.evidence == Evidence::Counters && !one.is_set_up));
        let cgroups: BTreeSet<_> =
            losses.iter().filter_map(|one| one.culprit.cgroup.as_deref()).collect();
        assert_eq!(cgroups, ["/backup", "/hog", "/writer"].into());
    }
}
