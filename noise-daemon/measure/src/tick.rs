//! PURE: the frequency at which events come, from when each began.
//!
//! The events are counted in slices of 100 us, and the period that stands out in the spectrum of
//! the counts is theirs: up to 5 kHz, whatever jitters (by less than a third of the period or so),
//! is missing now and then, or comes in between.

use super::spectrum::{Peak, Spectrum};

const SLICES_HZ: f64 = 10_000.0;
const SLICE_NS: u64 = 100_000;
/// Slices that are looked at, at most: the first 104 s.
const SLICES: u64 = 1 << 20;

/// The frequency of events within so much time, by their begins from its begin on, ns; `None`
/// where they come at no fixed frequency, or too seldom to find one.
pub fn of_starts(starts_ns: impl IntoIterator<Item = u64>, duration_ns: u64) -> Option<Peak> {
    let slices = (duration_ns / SLICE_NS).min(SLICES);
    let mut counts = vec![0.0; usize::try_from(slices).ok()?];
    for start_ns in starts_ns {
        let slice = usize::try_from(start_ns / SLICE_NS).ok()?;
        if let Some(count) = counts.get_mut(slice) {
            *count += 1.0;
        }
    }
    Spectrum::of(&counts, SLICES_HZ)?.tick()
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;
    use crate::chance::same_draws;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use proptest::sample::select;

    const SECONDS: f64 = 4.0;

    /// A tick of so many Hz, with jitter (a part of the period), of which a part is missing, and
    /// other events at a mean rate; seconds.
    fn events(hz: f64, jitter: f64, missing: f64, others_hz: f64, random: &mut Random) -> Vec<f64> {
        let first = random.uniform();
        let mut starts = Vec::new();
        for number in 0..(SECONDS * hz) as u32 {
            let start = (first + f64::from(number) + jitter * random.normal()) / hz;
            if random.uniform() >= missing {
                starts.push(start);
            }
        }
        if others_hz > 0.0 {
            let mut at = random.exponential() / others_hz;
            while at < SECONDS {
                starts.push(at);
                at += random.exponential() / others_hz;
            }
        }
        starts
    }

    fn found(starts: &[f64]) -> Option<Peak> {
        let starts_ns = starts.iter().filter(|at| **at >= 0.0).map(|at| (at * 1e9) as u64);
        of_starts(starts_ns, (SECONDS * 1e9) as u64)
    }

    proptest! {
        #![proptest_config(same_draws(32))]

        #[test]
        fn a_tick_is_found_among_others(
            seed in any::<u64>(),
            hz in select(vec![100.0, 250.0, 300.0, 1_000.0]),
            jitter in 0.0f64..0.1,
            missing in 0.0f64..0.3,
            others in 0.0f64..1.0,
        ) {
            let mut random = Random::new(seed);
            let peak = found(&events(hz, jitter, missing, others * hz, &mut random));
            match peak {
                Some(peak) => prop_assert!((peak.hz - hz).abs() < 0.5 / SECONDS, "{peak:?}"),
                // In seconds, the weakest cannot be distinguished from chance.
                None => prop_assert!(jitter >= 0.08 || missing >= 0.2),
            }
        }

        #[test]
        fn bursts_have_no_tick(seed in any::<u64>()) {
            let mut random = Random::new(seed);
            let mut starts = Vec::new();
            let mut at = 0.0;
            while at < SECONDS {
                at += random.exponential() * 0.05;
                starts.extend((0..8).map(|number| at + f64::from(number) * 2e-4));
            }
            prop_assert_eq!(found(&starts), None);
        }

        #[test]
        fn what_comes_by_chance_has_no_tick(
            seed in any::<u64>(),
            others_hz in select(vec![0.0, 1.0, 30.0, 250.0, 1_000.0, 20_000.0]),
        ) {
            let mut random = Random::new(seed);
            prop_assert_eq!(found(&events(250.0, 0.0, 1.0, others_hz, &mut random)), None);
        }
    }

    #[test]
    fn what_is_behind_the_end_is_left_out() {
        assert_eq!(of_starts([u64::MAX, 5], 1_000_000_000), None);
        assert_eq!(of_starts([], 0), None);
    }
}
