//! Recordings of one program, which drift: each state takes longer or shorter in the whole of one. And such with a fault.

use super::*;
use crate::made::Numbers;

/// Executions of a recording.
const EXECUTIONS: usize = 15;
/// Comparisons of each kind.
const COMPARISONS: usize = 210;

/// How recordings drift, as a part of a time.
#[derive(Clone, Copy, Debug)]
enum Drifting {
    /// All states by one factor.
    Together,
    /// Each state by its own.
    Apart,
    /// Not at all, or by this much, as beside other work.
    Sometimes,
}

const DRIFTS: [Drifting; 3] = [Drifting::Together, Drifting::Apart, Drifting::Sometimes];

/// A number of a bell-shaped distribution, of mean 0 and deviation 1.
fn bell(numbers: &mut Numbers) -> f64 {
    (0..12).map(|_| numbers.below(1000) as f64 / 1000.0).sum::<f64>() - 6.0
}

/// A recording, with a fault of so many nanoseconds of disk in each execution.
fn recording(drifting: Drifting, size: f64, fault_ns: u64, numbers: &mut Numbers) -> Vec<Traced> {
    let together = bell(numbers);
    let is_off = numbers.below(6) == 0;
    let factors: [f64; 4] = std::array::from_fn(|_| {
        let by = match drifting {
            Drifting::Together => together,
            Drifting::Apart => bell(numbers),
            Drifting::Sometimes if is_off => 2.0 + 0.3 * bell(numbers),
            Drifting::Sometimes => 0.3 * bell(numbers),
        };
        (size * by).exp()
    });
    let one = |_| {
        let mut about =
            |state: usize, ns: u64| numbers.about((ns as f64 * factors[state]) as u64).max(1);
        let mut parts = Vec::new();
        for _ in 0..6 {
            parts.extend([
                Made::own("running", about(0, 1_000_000)),
                Made::own("waiting_cpu", about(1, 200_000)),
                Made::own("running", about(0, 100_000)),
                Made::own("disk", about(2, 300_000)),
                Made::own("futex", about(3, 50_000)),
            ]);
        }
        if fault_ns > 0 {
            parts.push(Made::own("disk", about(2, fault_ns)));
        }
        path(&parts)
    };
    (0..EXECUTIONS).map(one).collect()
}

fn recordings(count: usize, of: impl FnMut(usize) -> Vec<Traced>) -> Vec<Vec<Traced>> {
    (0..count).map(of).collect()
}

#[test]
fn drift_of_recordings_flags_nothing() {
    for drifting in DRIFTS {
        for size in [0.1, 0.4] {
            for (normal, sample) in [(2, 2), (3, 3), (2, 1), (1, 3), (5, 5)] {
                let (mut flagged, mut named, mut alone) = (0, 0, 0);
                for seed in 0..COMPARISONS {
                    let mut numbers = Numbers::new(seed as u64);
                    let mut of = |_| recording(drifting, size, 0, &mut numbers);
                    let [normal, sample] = [normal, sample].map(|count| recordings(count, &mut of));
                    let how = Thresholds::default();
                    let found = of_recordings(&normal, &sample, &how);
                    flagged += usize::from(!found.flagged.is_empty());
                    named += usize::from(!found.effects.is_empty());
                    let found = of_recordings(&normal[..1], &sample[..1], &how);
                    assert!(found.flagged.is_empty());
                    alone += usize::from(!found.effects.is_empty());
                }
                println!(
                    "{drifting:?} {size}, {normal} + {sample}: {flagged} flagged and {named} with effects; \
                     {alone} with effects of one recording a side"
                );
                assert!(
                    30 * flagged <= COMPARISONS,
                    "{drifting:?} {size} {normal} {sample}: {flagged}"
                );
                // What there is to be guarded against.
                assert!(size < 0.4 || 10 * alone > COMPARISONS, "{drifting:?} {size}: {alone}");
            }
        }
    }
}

#[test]
fn a_fault_is_flagged_by_several_recordings_and_an_effect_by_one() {
    for drifting in [Drifting::Together, Drifting::Apart] {
        for (size, fault_ns) in [(0.05, 3_000_000), (0.2, 8_000_000)] {
            let (mut flagged, mut named, mut first) = (0, 0, 0);
            for seed in 0..COMPARISONS {
                let mut numbers = Numbers::new(1000 + seed as u64);
                let mut of =
                    |fault_ns| recordings(3, |_| recording(drifting, size, fault_ns, &mut numbers));
                let (normal, sample) = (of(0), of(fault_ns));
                let found = of_recordings(&normal, &sample, &Thresholds::default());
                flagged += usize::from(found.flagged.iter().any(|flag| flag.times.state == "disk"));
                let found = of_recordings(&normal[..1], &sample[..1], &Thresholds::default());
                named += usize::from(found.effects.iter().any(|flag| flag.times.state == "disk"));
                first += usize::from(
                    found.effects.first().is_some_and(|flag| flag.times.state == "disk"),
                );
            }
            println!(
                "{drifting:?} {size}: {flagged} flagged; {named} named by one recording a side, {first} as the first"
            );
            assert!(20 * flagged.min(named) >= 19 * COMPARISONS, "{drifting:?}: {flagged} {named}");
            // What else drifts may be as certain.
            assert!(10 * first >= 9 * COMPARISONS, "{drifting:?} {size}: {first}");
        }
    }
}
