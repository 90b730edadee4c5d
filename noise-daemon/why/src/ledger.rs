//! PURE: who had the CPUs in the part of the waits for which events name no cgroup, by the daemon's ledger of the same time.
//!
//! A process that ended is in no cgroup by the time the page is made, and where its begin is not in the events it is not known
//! in which one it was. Nor is it known who ran where events were lost. The kernel programs charge each wait to the cgroup that
//! a thread is in when it runs. So what the ledger charges a cgroup with beyond what events say of it is its part of what
//! they do not name; where the ledger has more than that in all, each gets as much less.

use std::collections::BTreeMap;

use noise_common::charge::{Cause, Resource};
use noise_model::labels::is_one;
use noise_text::clean::clean;

use super::around::Around;
use super::culprits::Blamed;
use super::findings::Findings;
use super::judging::cause_of;

/// Who had a CPU: why, and of other cgroups which one.
type CpuOccupant = (Cause, Option<String>);

/// What the ledger charges a victim's waits for a CPU to.
struct WaitCharges {
    span_ns: u64,
    charges: Vec<(CpuOccupant, u64)>,
}

impl Around {
    /// That of two frames, else what the daemon remembers of the last minute.
    fn ledger_of_cpus(&self) -> Option<WaitCharges> {
        let who = |cause, culprit: &str| {
            let is_own = cause == Cause::Foreign && self.labels.contains(culprit);
            match cause {
                Cause::Foreign if is_own => (Cause::Own, None),
                Cause::Foreign => (cause, Some(clean(culprit).into_owned())),
                _ => (cause, None),
            }
        };
        if let Some(ledger) = &self.ledger {
            let cpu = ledger.charges.iter().filter(|one| one.resource == Resource::Cpu.name());
            let charges = cpu.map(|one| (who(cause_of(one.cause), &one.culprit), one.ns));
            return Some(WaitCharges { span_ns: ledger.span_ns, charges: charges.collect() });
        }
        let counted = self.counted.as_ref()?;
        let cpu = counted.charges.iter().filter(|one| one.resource == Resource::Cpu);
        let charges = cpu.map(|one| (who(one.cause, &one.culprit), one.ns));
        Some(WaitCharges { span_ns: counted.span_ns, charges: charges.collect() })
    }
}

impl Blamed {
    fn is_cpu(&self) -> bool {
        self.state == "waiting_cpu"
    }

    /// Whether events do not say in which cgroup it was.
    fn is_unnamed(&self) -> bool {
        let is_foreign = self.cause == Cause::Foreign.name();
        self.cause == Cause::Untracked.name() || is_foreign && self.cgroup.is_none()
    }
}

impl Findings {
    /// Who had the CPUs as far as events say it, and how much of the waits they do not.
    fn named(&self) -> (BTreeMap<CpuOccupant, u64>, u64) {
        let mut named: BTreeMap<CpuOccupant, u64> = BTreeMap::new();
        for one in self.culprits.iter().filter(|one| one.is_cpu() && !one.is_unnamed()) {
            let cause = cause_of(one.cause);
            let cgroup = one.cgroup.clone().filter(|_| cause == Cause::Foreign);
            let sum = named.entry((cause, cgroup)).or_default();
            *sum = sum.saturating_add(one.ns);
        }
        let named_ns = named.values().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
        let rest_ns = self.ns("waiting_cpu").saturating_sub(named_ns);
        (named, rest_ns)
    }

    /// The cgroups to which the ledger charges what events do not name, with their time, ns.
    fn by_ledger(&self) -> Vec<(String, u64)> {
        // It counts whole cgroups. Where figures are its own, they need no such thing.
        let is_counted = self.target.pid.is_some() || self.counted().is_some();
        let ledger = self.around.ledger_of_cpus().filter(|_| !is_counted);
        let Some(WaitCharges { span_ns, charges }) = ledger else { return Vec::new() };
        let (named, rest_ns) = self.named();
        // Both are of about the same time: what is small may be of the difference.
        if named.values().any(|ns| *ns >= rest_ns) {
            return Vec::new();
        }
        let part = (self.span_ns as f64 / span_ns.max(1) as f64).min(1.0);
        let mut beyond: BTreeMap<CpuOccupant, u64> = BTreeMap::new();
        for (who, ns) in charges {
            let sum = beyond.entry(who).or_default();
            *sum = sum.saturating_add(ns);
        }
        for (who, ns) in &mut beyond {
            let by_events_ns = named.get(who).copied().unwrap_or(0);
            *ns = ((*ns as f64 * part) as u64).saturating_sub(by_events_ns);
        }
        let beyond_ns = beyond.values().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
        let of = |((_, cgroup), ns): (CpuOccupant, u64)| {
            let most_ns = u128::from(ns) * u128::from(rest_ns) / u128::from(beyond_ns.max(1));
            let ns = u64::try_from(most_ns).map_or(ns, |most_ns| ns.min(most_ns));
            Some((cgroup.filter(|name| is_one(name))?, ns))
        };
        beyond.into_iter().filter_map(of).filter(|(_, ns)| *ns > 0).collect()
    }

    /// Charges cgroups with the waits for a CPU that events do not name a cgroup for, where these are longer than those behind any
    /// one that events name. All waits together stay as long.
    pub fn name_by_ledger(&mut self) {
        let found = self.by_ledger();
        let listed = self.culprits.iter().filter(|one| one.is_cpu());
        let listed_ns = listed.fold(0_u64, |sum, one| sum.saturating_add(one.ns));
        // Of many culprits, the smallest are not listed.
        let unlisted_ns = self.ns("waiting_cpu").saturating_sub(listed_ns);
        let found_ns = found.iter().fold(0_u64, |sum, (_, ns)| sum.saturating_add(*ns));
        let mut left_ns = found_ns.saturating_sub(unlisted_ns);
        for cause in [Cause::Foreign, Cause::Untracked] {
            let is_its =
                |one: &Blamed| one.is_cpu() && one.is_unnamed() && one.cause == cause.name();
            for one in self.culprits.iter_mut().filter(|one| is_its(one)) {
                let taken_ns = one.ns.min(left_ns);
                (one.ns, left_ns) = (one.ns - taken_ns, left_ns - taken_ns);
            }
        }
        self.culprits.retain(|one| one.ns > 0);
        self.culprits.extend(found.into_iter().map(|(cgroup, ns)| Blamed {
            state: "waiting_cpu",
            tid: -1,
            pid: None,
            comm: String::new(),
            program: String::new(),
            cgroup: Some(cgroup),
            cause: Cause::Foreign.name(),
            ns,
            by_counters: true,
            path: None,
        }));
        self.culprits.sort_by(|one, other| other.ns.cmp(&one.ns).then(one.tid.cmp(&other.tid)));
    }
}

#[cfg(test)]
mod tests {
    use noise_analysis::StopCharges;
    use noise_verdict::{Account, Evidence};

    use super::*;
    use crate::counted::Counted;
    use crate::made::{MS, blamed, found, setup};

    /// A victim that waited 812 ms for CPUs, while so much was charged in 2 s.
    fn stormed(culprits: Vec<Blamed>, charges: &[(Cause, &str, u64)]) -> Findings {
        let mut found = found();
        (found.culprits, found.around.usual) = (culprits, Vec::new());
        let charged = |(cause, culprit, ms): &(Cause, &str, u64)| StopCharges {
            resource: Resource::Cpu,
            cause: *cause,
            culprit: (*culprit).into(),
            ns: ms * MS,
        };
        let charges = charges.iter().map(charged).collect();
        found.around.counted = Some(Counted { span_ns: 2_000 * MS, charges, delays: Vec::new() });
        found
    }

    fn had(found: &Findings) -> Vec<(&str, &str, u64)> {
        let cpu = found.culprits.iter().filter(|one| one.is_cpu());
        cpu.map(|one| (one.cause, one.cgroup.as_deref().unwrap_or_default(), one.ns / MS)).collect()
    }

    /// A parent in its cgroup, children that ended, and time of which nothing is known.
    fn storm() -> Vec<Blamed> {
        let mut culprits = vec![blamed("waiting_cpu", 9, "make", "/storm", "foreign", 100)];
        culprits.push(blamed("waiting_cpu", -1, "", "", "untracked", 300));
        culprits
            .extend((0..40).map(|tid| blamed("waiting_cpu", 100 + tid, "cc", "", "foreign", 10)));
        culprits
    }

    #[test]
    fn processes_that_ended_are_those_of_the_cgroup_that_the_ledger_charges() {
        let own = (Cause::Own, "nginx.service", 60);
        let mut found = stormed(storm(), &[(Cause::Foreign, "/storm", 700), own]);
        found.judge("nginx", &setup());
        // Of 712 ms that events do not name, the ledger has 600 ms as another cgroup's, and 60 ms as the victim's own.
        let by_ledger = ("foreign", "/storm", 600);
        let expected = [by_ledger, ("untracked", "", 112), ("foreign", "/storm", 100)];
        assert_eq!(had(&found), expected);
        let verdict = found.verdict.as_ref().unwrap();
        let expected = "nginx waited 812 ms for a CPU, 700 ms of it for /storm";
        assert!(verdict.sentence.starts_with(expected), "{}", verdict.sentence);
        let first = &verdict.findings[0];
        assert_eq!((first.resource, &*first.culprit.name), (Account::Cpu, "/storm"));
        assert_eq!((first.ns / MS, first.evidence), (700, Evidence::Counters));
        assert!(first.next.as_deref().unwrap().contains("noised why /storm"));
        // Once is enough.
        let before = found.culprits.clone();
        found.name_by_ledger();
        assert_eq!(found.culprits, before);
        // All of the waits, and no more.
        let all: u64 = found.culprits.iter().filter(|one| one.is_cpu()).map(|one| one.ns).sum();
        assert_eq!(all, 812 * MS);
    }

    #[test]
    fn what_the_ledger_does_not_name_stays_not_known() {
        for charges in [
            &[(Cause::Untracked, "", 700)][..],
            &[(Cause::Foreign, "~gone", 700), (Cause::Foreign, "/", 90)],
            &[(Cause::Foreign, "/storm", 100), (Cause::Own, "nginx.service", 700)],
            &[],
        ] {
            let mut found = stormed(storm(), charges);
            found.judge("nginx", &setup());
            assert_eq!(found.culprits, storm_sorted(), "{charges:?}");
        }
        let mut process = stormed(storm(), &[(Cause::Foreign, "/storm", 700)]);
        process.target.pid = Some(70);
        process.name_by_ledger();
        assert_eq!(process.culprits, storm_sorted(), "it is counted with its cgroup");
    }

    fn storm_sorted() -> Vec<Blamed> {
        let mut all = storm();
        all.sort_by(|one, other| other.ns.cmp(&one.ns).then(one.tid.cmp(&other.tid)));
        all
    }

    #[test]
    fn the_ledger_says_how_much_at_most() {
        let of = |culprits, ms, span_ms: u64| {
            let mut found = stormed(culprits, &[(Cause::Foreign, "/storm", ms)]);
            found.around.counted.as_mut().unwrap().span_ns = span_ms * MS;
            found.name_by_ledger();
            had(&found).iter().filter(|one| one.1 == "/storm").map(|one| one.2).sum::<u64>()
        };
        assert_eq!(of(storm(), 450, 2_000), 450);
        // What events name is its already.
        assert_eq!(of(storm(), 90, 2_000), 100);
        // Of a longer time, the part.
        assert_eq!(of(storm(), 900, 4_000), 450);
        // No more than was waited: 12 ms of the 812 have no culprit at all.
        assert_eq!(of(storm(), 5_000, 2_000), 812);
        // What events name is longer than all that they do not.
        let mut known = storm();
        known[0].ns = 710 * MS;
        assert_eq!(of(known, 1_000, 2_000), 710);
    }
}
