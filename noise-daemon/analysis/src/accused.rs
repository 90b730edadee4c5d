//! Who is accountable for an incident, and whether two incidents are the same culprits' doing.
//!
//! A main culprit did at least a quarter of what is beyond the usual. Who is kept waiting queues
//! behind himself as well: a cgroup's own tasks are left out of account when the quarter is taken.
//! At a device or an interface they are not: who floods it waits for himself most.
//!
//! Two incidents differ only where the culprits of both are known for certain: what did a quarter
//! of one did less than a tenth of the other. In between, and where no main culprit stands out,
//! they neither differ nor have a culprit in common.

use noise_common::charge::Cause;
use noise_common::subject::SubjectKind;

use super::culprits::{Culprit, nothing_beyond};
use super::name::{Name, is_catch_all};
use super::watched::Watched;

/// Least part in an incident of a main culprit.
pub(super) const MAIN_SHARE: f64 = 0.25;

/// The same where a cgroup's own tasks are left out of account: part of all that it must have.
const LEAST_SHARE: f64 = 0.1;

/// Part from which on the first of those that are not the victim's own threads is suspected.
const SUSPECTED_SHARE: f64 = 0.02;

/// Part below which a culprit had nothing to do with an incident.
const MINOR_SHARE: f64 = 0.1;

/// Whether the subjects of a signal are cgroups, which are no culprits of their own delays.
fn is_of_cgroup(watched: Watched) -> bool {
    match watched {
        Watched::Signal(signal) => signal.info().subject == SubjectKind::Cgroup,
        Watched::Interruption => true,
    }
}

/// The ranked culprits of an incident.
pub(super) struct Accused<'a> {
    culprits: &'a [Culprit<Name>],
    of_cgroup: bool,
    nothing_beyond: bool,
    /// Part that is not the doing of a cgroup's own tasks.
    by_others: f64,
}

impl<'a> Accused<'a> {
    pub fn new(watched: Watched, culprits: &'a [Culprit<Name>]) -> Self {
        let of_cgroup = is_of_cgroup(watched);
        let nothing_beyond = nothing_beyond(culprits);
        let own = culprits.iter().filter(|one| of_cgroup && one.cause == Cause::Own);
        let own: f64 = own.map(|one| one.part(nothing_beyond)).sum();
        Self { culprits, of_cgroup, nothing_beyond, by_others: 1.0 - own }
    }

    /// Part that a culprit has.
    pub fn part(&self, culprit: &Culprit<Name>) -> f64 {
        culprit.part(self.nothing_beyond)
    }

    /// Culprits that incidents of two subjects can have in common, the first first. A victim's own tasks and its own
    /// quota are nothing to another victim, and those without a name may be different ones.
    pub fn main(&self) -> impl Iterator<Item = &'a Culprit<Name>> {
        self.known().filter(|one| one.cause != Cause::Throttle)
    }

    /// The main culprits, the victim's own quota among them.
    pub fn known(&self) -> impl Iterator<Item = &'a Culprit<Name>> {
        let (of_cgroup, nothing_beyond) = (self.of_cgroup, self.nothing_beyond);
        let least = (MAIN_SHARE * self.by_others).max(LEAST_SHARE);
        self.culprits.iter().filter(move |one| {
            let is_nameless = match one.cause {
                Cause::Idle | Cause::Untracked => true,
                Cause::Own => of_cgroup,
                _ => false,
            };
            !is_nameless && !is_catch_all(&one.culprit) && one.part(nothing_beyond) >= least
        })
    }

    /// Who did it, where that is another cgroup, though it may have a small part: a victim that gets less CPU time queues behind
    /// its own threads, and of a storm of short processes it is not known who had the CPU all the time. It did half of what
    /// others are known to have done.
    pub fn suspect(&self) -> Option<&'a Name> {
        let nothing = [Cause::Own, Cause::Idle, Cause::Untracked];
        let mut others = self.culprits.iter().filter(|one| !nothing.contains(&one.cause));
        let part = |one: &Culprit<Name>| self.part(one);
        let all: f64 = others.clone().map(part).sum();
        let first = others.next().filter(|one| one.cause == Cause::Foreign)?;
        let is_suspected = part(first) >= SUSPECTED_SHARE.max(all / 2.0);
        (is_suspected && !is_catch_all(&first.culprit)).then_some(&first.culprit)
    }

    /// Whether a main culprit of one is a main culprit of the other.
    pub fn shares(&self, other: &Self) -> bool {
        self.main().any(|one| other.main().any(|with| one.is_same(with)))
    }

    /// Whether the culprits of both are known, and are others. Of two incidents of one subject, its
    /// own quota is one of them.
    pub fn differs(&self, other: &Self, of_one_subject: bool) -> bool {
        let is_clear = |one: &Self| {
            let mut known = one.known();
            !one.nothing_beyond
                && known.any(|culprit| of_one_subject || culprit.cause != Cause::Throttle)
        };
        is_clear(self) && is_clear(other) && self.is_clear_of(other) && other.is_clear_of(self)
    }

    /// Whether no main culprit of the other had a part worth mentioning.
    fn is_clear_of(&self, other: &Self) -> bool {
        other.known().all(|culprit| {
            let same = self.culprits.iter().filter(|one| one.is_same(culprit));
            same.map(|one| self.part(one)).sum::<f64>() <= MINOR_SHARE * self.by_others
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use noise_common::signals::Signal;
    use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

    const CPU: Watched = Watched::Signal(Signal::CgroupRunqueueWait);
    const DISK: Watched = Watched::Signal(Signal::BlockDeviceWait);

    fn culprits(parts: &[(&str, Cause, f64)]) -> Vec<Culprit<Name>> {
        let whole: f64 = parts.iter().map(|(.., part)| part).sum::<f64>().max(1e-9);
        let one = |(culprit, cause, part): &(&str, Cause, f64)| {
            let time = Time { seconds: *part, share: part / whole };
            Culprit { culprit: (*culprit).into(), cause: *cause, time, beyond: time }
        };
        parts.iter().map(one).collect()
    }

    fn differ(watched: Watched, one: &[Culprit<Name>], other: &[Culprit<Name>]) -> bool {
        Accused::new(watched, one).differs(&Accused::new(watched, other), true)
    }

    #[test]
    fn culprits_differ_where_both_are_known() {
        let hog = culprits(&[("/hog", Cause::Foreign, 0.9), ("/b", Cause::Foreign, 0.1)]);
        let other = culprits(&[("/other", Cause::Foreign, 0.95), ("/hog", Cause::Foreign, 0.05)]);
        let both = culprits(&[("/other", Cause::Foreign, 0.8), ("/hog", Cause::Foreign, 0.2)]);
        let idle = culprits(&[("idle", Cause::Idle, 1.0)]);
        let folded = culprits(&[("~other", Cause::Foreign, 1.0)]);
        let own = culprits(&[("/a", Cause::Own, 1.0)]);
        assert!(differ(CPU, &hog, &other) && differ(CPU, &other, &hog));
        for unclear in [&both, &idle, &folded, &own, &Vec::new(), &hog] {
            assert!(!differ(CPU, &hog, unclear) && !differ(CPU, unclear, &hog), "{unclear:?}");
        }
        // At a device, who waits for himself is a culprit like any other.
        assert!(differ(DISK, &hog, &own));
        let quota = culprits(&[("throttle", Cause::Throttle, 1.0)]);
        assert!(differ(CPU, &hog, &quota));
        let [hog, quota] = [&hog, &quota].map(|one| Accused::new(CPU, one));
        assert!(!hog.differs(&quota, false), "another victim's quota says nothing");
    }

    #[test]
    fn own_tasks_are_left_out_of_account() {
        let [one, other] = ["/hog", "/other"]
            .map(|name| culprits(&[("/a", Cause::Own, 0.85), (name, Cause::Foreign, 0.15)]));
        assert!(differ(CPU, &one, &other));
        assert!(!Accused::new(CPU, &one).shares(&Accused::new(CPU, &other)));
    }

    #[test]
    fn who_did_most_of_what_others_did_is_suspected_though_it_is_little() {
        let suspect = |parts: &[(&str, Cause, f64)]| {
            let all = culprits(parts);
            Accused::new(CPU, &all).suspect().map(ToString::to_string)
        };
        let (own, idle) = (("/a", Cause::Own, 90.0), ("idle", Cause::Idle, 5.0));
        let hog = |part| ("/hog", Cause::Foreign, part);
        assert_eq!(suspect(&[own, idle, hog(5.0)]).as_deref(), Some("/hog"));
        assert_eq!(suspect(&[own, idle, hog(1.0)]), None, "next to nothing");
        assert_eq!(
            suspect(&[own, hog(4.0), ("/b", Cause::Foreign, 3.0), ("/c", Cause::Foreign, 2.0)]),
            None
        );
        assert_eq!(suspect(&[own, ("eth0", Cause::Hardirq, 6.0), hog(4.0)]), None);
        assert_eq!(suspect(&[own, ("~other", Cause::Foreign, 10.0)]), None);
    }

    fn any_culprits() -> impl Strategy<Value = Vec<Culprit<Name>>> {
        let causes = [Cause::Foreign, Cause::Own, Cause::Hardirq, Cause::Throttle, Cause::Idle];
        let one = (0usize..5, 0usize..causes.len(), 0.0..1.0f64);
        proptest::collection::vec(one, 0..6).prop_map(move |parts| {
            let names = ["/a", "/b", "/c", "eth0", "~other"];
            let parts: Vec<_> = parts
                .into_iter()
                .map(|(name, how, part)| (names[name], causes[how], part))
                .collect();
            culprits(&parts)
        })
    }

    proptest! {
        #[test]
        fn none_differs_from_itself_and_those_who_differ_share_nothing(
            one in any_culprits(), other in any_culprits(), disk in any::<bool>(),
        ) {
            let watched = if disk { DISK } else { CPU };
            prop_assert!(!differ(watched, &one, &one));
            prop_assert_eq!(differ(watched, &one, &other), differ(watched, &other, &one));
            let shared = Accused::new(watched, &one).shares(&Accused::new(watched, &other));
            prop_assert!(!(shared && differ(watched, &one, &other)), "{:?} {:?}", one, other);
        }
    }
}
