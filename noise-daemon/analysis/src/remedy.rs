//! From cause to remedy: of what the signals' table knows to help, that which fits an incident.

use noise_common::charge::Cause;
use noise_common::remedy::{Remedy, against};

use super::culprits::{Culprit, nothing_beyond};
use super::watched::Watched;

/// Least part in a disturbance for which a cause's remedies are listed.
const LEAST_SHARE: f64 = 0.1;

/// What helps against a cause of delays of a signal, the least costly first.
fn remedies(watched: Watched, cause: Cause) -> &'static [Remedy] {
    match watched {
        Watched::Signal(signal) => signal.remedies(cause),
        Watched::Interruption => against(cause),
    }
}

/// What helps against a signal that is a cause itself: its delays are what takes time from others.
fn inherent(watched: Watched) -> &'static [Remedy] {
    match watched {
        Watched::Signal(signal) => signal.info().inherent,
        Watched::Interruption => &[],
    }
}

/// Remedies against the main causes, those of the largest culprit first, then against the signal itself; each once.
pub fn recommended<C>(watched: Watched, ranked: &[Culprit<C>]) -> Vec<Remedy> {
    let mut recommended = Vec::new();
    let nothing_beyond = nothing_beyond(ranked);
    let causes = ranked
        .iter()
        .filter(|culprit| culprit.part(nothing_beyond) >= LEAST_SHARE)
        .map(|culprit| remedies(watched, culprit.cause));
    for remedy in causes.chain([inherent(watched)]).flatten() {
        if !recommended.contains(remedy) {
            recommended.push(*remedy);
        }
    }
    recommended
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use noise_common::charge::CHARGE_CAUSES as CAUSES;
    use noise_common::signals::Signal;

    fn culprit(cause: Cause, share: f64) -> Culprit<&'static str> {
        let time = Time { seconds: share, share };
        Culprit { culprit: "who", cause, time, beyond: time }
    }

    #[test]
    fn every_remedy_is_recommended_for_something_and_says_what_it_is() {
        for remedy in Remedy::ALL {
            let used = Watched::all().any(|watched| {
                inherent(watched).contains(remedy)
                    || CAUSES.iter().any(|cause| remedies(watched, *cause).contains(remedy))
            });
            assert!(used, "{remedy:?}");
            let advice = remedy.advice();
            for text in [advice.setting, advice.effect, advice.cost] {
                assert!(text.len() > 10, "{remedy:?}: {text}");
            }
        }
    }

    #[test]
    fn every_cause_of_a_cpu_wait_has_a_remedy_unless_it_is_not_known() {
        // Only sleeps are charged to these.
        let of_sleeps = [Cause::Iowait, Cause::Writeback];
        for cause in CAUSES.into_iter().filter(|cause| !of_sleeps.contains(cause)) {
            for signal in [Signal::RunqueueWait, Signal::CgroupRunqueueWait] {
                let none = remedies(signal.into(), cause).is_empty();
                assert_eq!(none, cause == Cause::Untracked, "{cause:?}");
            }
        }
    }

    #[test]
    fn main_causes_come_first_and_small_ones_not_at_all() {
        let ranked =
            [culprit(Cause::Steal, 0.6), culprit(Cause::Throttle, 0.31), culprit(Cause::Nmi, 0.09)];
        let advised = recommended(Signal::RunqueueWait.into(), &ranked);
        assert_eq!(advised, [Remedy::DedicatedHost, Remedy::RaiseQuota, Remedy::FewerThreads]);
        let twice = [culprit(Cause::Steal, 0.5), culprit(Cause::Steal, 0.5)];
        assert_eq!(recommended(Signal::RunqueueWait.into(), &twice).len(), 1);
        assert!(recommended::<u8>(Signal::RunqueueWait.into(), &[]).is_empty());
    }

    #[test]
    fn against_whatever_interrupts_something_helps() {
        for cause in [Cause::Hardirq, Cause::Softirq, Cause::Nmi, Cause::Steal] {
            assert!(!remedies(Watched::Interruption, cause).is_empty(), "{cause:?}");
        }
    }

    #[test]
    fn a_signal_that_is_a_cause_needs_no_culprit() {
        let advised = recommended::<u8>(Signal::Hardirq.into(), &[]);
        assert_eq!(advised.first(), Some(&Remedy::IrqAffinity));
    }
}
