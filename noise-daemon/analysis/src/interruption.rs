//! What interrupts and the hypervisor took from each cgroup's running tasks between two samples: a
//! window of as many events as it has milliseconds, so that their mean does not depend on its length.
//!
//! Every cgroup that works loses a little, on as many CPUs as it works on. That is no storm, however
//! much it adds up to: no incident opens where no CPU lost a large part of its time.

use noise_common::hist::bucket_of;
use noise_model::{Cpu, Histogram, Step};

use super::charges::StepCharges;
use super::culprits::Charge;
use super::name::{Name, is_catch_all};
use super::window::Window;

/// Time of which what is taken is one event.
const EVENT_NS: u64 = 1_000_000;

/// What one cgroup lost.
pub(super) struct Interruption<'a> {
    pub victim: &'a Name,
    pub window: Window,
    pub charged: &'a [Charge],
}

/// The losses of every cgroup that lost something.
pub(super) fn interruptions<'a>(
    step: &Step,
    charges: &'a StepCharges,
) -> impl Iterator<Item = Interruption<'a>> {
    let (start_ns, end_ns) = (step.start_ns, step.end_ns);
    charges.taken_from_running().filter(|(victim, _)| !is_catch_all(victim)).map(
        move |(victim, charged)| {
            let sum_ns =
                charged.iter().fold(0u64, |sum, charge| sum.saturating_add(charge.charged_ns));
            let delays = taken(sum_ns, end_ns.saturating_sub(start_ns));
            Interruption { victim, window: Window { start_ns, end_ns, delays }, charged }
        },
    )
}

/// What was taken in a window of that length.
fn taken(sum_ns: u64, length_ns: u64) -> Histogram {
    let events = (length_ns / EVENT_NS).max(1);
    // Rounded up, so that the sum is one that the bucket allows.
    Histogram::new(sum_ns, [(bucket_of(sum_ns.div_ceil(events)), events)])
}

/// The part of its time that interrupts and the hypervisor took from the CPU that lost most, 0 to 1.
pub(super) fn most_taken(step: &Step) -> f64 {
    let taken_ns = step.cpus.iter().map(Cpu::all_taken_ns).max().unwrap_or_default();
    taken_ns as f64 / step.end_ns.saturating_sub(step.start_ns).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use noise_common::charge::{Cause, Charged, Resource};
    use noise_model::{Interference, Sample};
    use proptest::prelude::{any, prop_assert, proptest};

    const WINDOW_NS: u64 = 500_000_000;

    fn sample(at_ns: u64, taken: &[(&str, &str, u64)], cpus: &[u64]) -> Sample {
        let pair = |(victim, culprit, ns): &(&str, &str, u64)| Interference {
            resource: Resource::Running,
            cause: Cause::Hardirq,
            place: "".into(),
            victim: (*victim).into(),
            culprit: (*culprit).into(),
            charged: Charged { ns: *ns, count: 1 },
        };
        Sample {
            at_ns,
            interference: taken.iter().map(pair).collect(),
            interrupted: (0..).zip(cpus).map(|(cpu, ns)| (cpu, "hardirq".into(), *ns)).collect(),
            ..Sample::default()
        }
    }

    /// What each lost in a window.
    fn lost(taken: &[(&str, &str, u64)]) -> Vec<(String, u64)> {
        let (before, after) = (sample(0, &[], &[]), sample(WINDOW_NS, taken, &[]));
        let step = Step::between(&before, &after);
        interruptions(&step, &StepCharges::of_step(&step))
            .map(|lost| {
                assert!(lost.window.is_plausible());
                (lost.victim.to_string(), lost.window.delays.sum_ns)
            })
            .collect()
    }

    #[test]
    fn each_loses_what_all_culprits_took() {
        let taken = [("/a", "eth0", 30), ("/a", "timer", 40_000_000), ("/b", "timer", 7)];
        assert_eq!(lost(&taken), [("/a".to_owned(), 40_000_030), ("/b".to_owned(), 7)]);
    }

    #[test]
    fn a_window_of_twice_the_length_that_loses_twice_as_much_has_the_same_mean() {
        let mean_ns = |sum_ns, length_ns| {
            let delays = taken(sum_ns, length_ns);
            delays.sum_ns as f64 / delays.count() as f64
        };
        assert_eq!(mean_ns(20_000_300, WINDOW_NS), 40_000.6);
        assert_eq!(mean_ns(40_000_600, 2 * WINDOW_NS), 40_000.6);
        // Nothing is shorter than an event.
        assert_eq!(mean_ns(7, 10), 7.0);
    }

    #[test]
    fn the_hypervisor_counts_and_those_without_a_name_do_not() {
        let taken = [("/a", "steal", 90_000_000), ("~other", "timer", 9)];
        assert_eq!(lost(&taken), [("/a".to_owned(), 90_000_000)]);
        let (mut before, mut after) =
            (sample(0, &[], &[]), sample(WINDOW_NS, &[], &[5_000_000; 64]));
        before.stolen = vec![(64, 7)];
        for (stolen, expected) in [(0, 0.01), (25_000_000, 0.05)] {
            after.stolen = vec![(64, 7 + stolen)];
            assert_eq!(most_taken(&Step::between(&before, &after)), expected);
        }
    }

    proptest! {
        #[test]
        fn any_readings_make_plausible_windows(
            values in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..20),
        ) {
            let names: Vec<String> = (0..values.len()).map(|number| format!("/{number:02}")).collect();
            let reading = |at_ns, of: fn(&(u64, u64)) -> u64| {
                let taken: Vec<_> =
                    names.iter().zip(&values).map(|(name, both)| (&**name, "x", of(both))).collect();
                let cpus: Vec<_> = values.iter().map(of).collect();
                sample(at_ns, &taken, &cpus)
            };
            let (before, after) = (reading(7, |both| both.0), reading(7 + WINDOW_NS, |both| both.1));
            let step = Step::between(&before, &after);
            for lost in interruptions(&step, &StepCharges::of_step(&step)) {
                prop_assert!(lost.window.is_plausible());
                prop_assert!(lost.window.delays.sum_ns <= lost.charged[0].charged_ns);
            }
        }
    }
}
