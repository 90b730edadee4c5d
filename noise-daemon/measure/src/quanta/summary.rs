//! PURE: quanta in a few numbers, and their spectrum.

use super::{CpuQuanta, QuantaReport, Quantum};
use crate::spectrum::{Peak, Spectrum};

#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Moments {
    /// How many values there are.
    pub count: u64,
    pub min: u64,
    /// At least one in a hundred is at most this (nearest rank).
    pub p1: u64,
    /// At least half are at most this.
    pub median: u64,
    /// At least 99 in a hundred are at most this.
    pub p99: u64,
    pub max: u64,
    pub mean: f64,
    /// Standard deviation, of all values.
    pub deviation: f64,
    /// Third standardised moment; `None` where all values are the same.
    pub skewness: Option<f64>,
    /// Fourth standardised moment less 3, which is 0 for a normal distribution.
    pub excess_kurtosis: Option<f64>,
}

/// The quanta of one CPU.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct QuantaSummary {
    /// Number of the CPU.
    pub cpu: u32,
    /// The samples: units of work, or ns.
    pub samples: Moments,
    /// Noise: of time, the part of the work that was not done, 1 - mean / max (FTQ); of work, the
    /// time beyond the shortest as a part of it, (mean - min) / min (FWQ).
    pub noise: f64,
    /// The frequency at which the noise comes, if it comes at one.
    pub tick: Option<Peak>,
}

impl Moments {
    /// Of these; `None` of none.
    pub fn of(values: &[u64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let rank = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).max(1);
            sorted.get(rank - 1).copied().unwrap_or(max)
        };
        let count = values.len() as f64;
        let mean = values.iter().map(|value| *value as f64).sum::<f64>() / count;
        let moment = |power: i32| {
            values.iter().map(|value| (*value as f64 - mean).powi(power)).sum::<f64>() / count
        };
        let deviation = moment(2).sqrt();
        let standardised = |power: i32| {
            (max > min && deviation > 0.0).then(|| moment(power) / deviation.powi(power))
        };
        Some(Self {
            count: values.len() as u64,
            min,
            p1: rank(1),
            median: rank(50),
            p99: rank(99),
            max,
            mean,
            deviation,
            skewness: standardised(3),
            excess_kurtosis: standardised(4).map(|kurtosis| kurtosis - 3.0),
        })
    }
}

impl QuantaSummary {
    /// Of one CPU of a report; `None` where it has no sample.
    pub fn of(report: &QuantaReport, cpu: &CpuQuanta) -> Option<Self> {
        let samples = Moments::of(&cpu.samples)?;
        let (min, max) = (samples.min as f64, samples.max as f64);
        let noise = match report.quantum {
            Quantum::TimeNs(_) if max > 0.0 => 1.0 - samples.mean / max,
            Quantum::WorkUnits(_) if min > 0.0 => (samples.mean - min) / min,
            _ => 0.0,
        };
        let tick = spectrum(report, cpu).and_then(|spectrum| spectrum.tick());
        Some(Self { cpu: cpu.cpu, samples, noise, tick })
    }
}

/// The spectrum of one CPU's samples; `None` where there are too few.
///
/// A few long interruptions have more power than thousands of ticks, spread over all frequencies.
/// So each sample counts with its distance from the median up to a limit only, above which it is
/// disturbed, however much. Quanta of work are not equally long: each counts in that slice of
/// time, as long as the median quantum, in which it began, so that no noise shifts what follows.
pub fn spectrum(report: &QuantaReport, cpu: &CpuQuanta) -> Option<Spectrum> {
    let distances = limited(&cpu.samples);
    let rate = rate(report, cpu);
    if report.is_of_time() {
        return Spectrum::of(&distances, rate);
    }
    let slice = |start_ns: u64| ((start_ns - cpu.start_ns) as f64 * rate / 1e9) as usize;
    let slices: Vec<usize> = cpu.starts_ns(report.quantum).map(slice).collect();
    // A quantum that takes no time has no rate, and no place.
    let count = slices.last().map_or(0, |last| last + 1).min(2 * slices.len());
    let mut series = vec![0.0; count];
    for (slice, distance) in slices.into_iter().zip(distances) {
        if let Some(value) = series.get_mut(slice) {
            *value += distance;
        }
    }
    Spectrum::of(&series, rate)
}

/// Distances from the median, limited to some times the median distance.
fn limited(samples: &[u64]) -> Vec<f64> {
    /// Four standard deviations of a normal distribution.
    const TIMES: f64 = 6.0;
    /// Where most samples are the same, a few units are usual nevertheless.
    const LEAST: f64 = 3.0;
    let middle = median(samples.to_vec());
    let usual = median(samples.iter().map(|sample| sample.abs_diff(middle)).collect());
    let limit = (usual as f64 * TIMES).max(LEAST);
    let distance = |sample: &u64| (*sample as f64 - middle as f64).clamp(-limit, limit);
    samples.iter().map(distance).collect()
}

/// Quanta per second; of work, those without noise.
pub fn rate(report: &QuantaReport, cpu: &CpuQuanta) -> f64 {
    let quantum_ns = match report.quantum {
        Quantum::TimeNs(ns) => ns,
        Quantum::WorkUnits(_) => median(cpu.samples.clone()),
    };
    1e9 / (quantum_ns as f64).max(1.0)
}

fn median(mut values: Vec<u64>) -> u64 {
    let half = values.len() / 2;
    if values.is_empty() { 0 } else { *values.select_nth_unstable(half).1 }
}

#[cfg(test)]
mod tests {
    use super::super::generated::{ftq_of, fwq_of, report};
    use super::*;
    use crate::chance::same_draws;
    use crate::random::Random;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use proptest::sample::select;

    #[test]
    fn a_distribution_in_numbers() {
        let values: Vec<u64> = (1..=200).collect();
        let moments = Moments::of(&values).unwrap();
        assert_eq!((moments.min, moments.p1, moments.median), (1, 2, 100));
        assert_eq!((moments.p99, moments.max, moments.mean), (198, 200, 100.5));
        assert!((moments.deviation - 57.734).abs() < 1e-3, "{moments:?}");
        assert!(moments.skewness.unwrap().abs() < 1e-9, "{moments:?}");
        assert!((moments.excess_kurtosis.unwrap() + 1.2).abs() < 1e-3, "{moments:?}");
        let same = Moments::of(&[5, 5, 5]).unwrap();
        assert_eq!((same.deviation, same.skewness, same.excess_kurtosis), (0.0, None, None));
        assert_eq!(Moments::of(&[]), None);
    }

    #[test]
    fn distances_are_limited() {
        assert_eq!(limited(&[100, 100, 100, 102, 4_000, 0]), [0.0, 0.0, 0.0, 2.0, 12.0, -12.0]);
        assert_eq!(limited(&[7, 7, 7, 9_000]), [0.0, 0.0, 0.0, 3.0]);
        assert_eq!(limited(&[]), [0.0; 0]);
    }

    #[test]
    fn noise_as_it_is_defined() {
        let summary = |report: QuantaReport| QuantaSummary::of(&report, &report.cpus[0]).unwrap();
        let ftq = report(Quantum::TimeNs(1_000), vec![vec![100, 50, 90]]);
        assert!((summary(ftq).noise - 0.2).abs() < 1e-12);
        let fwq = report(Quantum::WorkUnits(9), vec![vec![100, 100, 190]]);
        assert!((summary(fwq).noise - 0.3).abs() < 1e-12);
        let stalled = report(Quantum::TimeNs(1_000), vec![vec![0, 0]]);
        assert_eq!(summary(stalled).noise, 0.0);
    }

    proptest! {
        #![proptest_config(same_draws(16))]

        #[test]
        fn both_benches_see_the_tick(
            seed in any::<u64>(),
            hz in select(vec![100.0, 250.0, 300.0, 1_000.0]),
            others_hz in 0.0f64..200.0,
        ) {
            let mut random = Random::new(seed);
            let ftq = ftq_of(hz, others_hz, 4.0, 200_000, &mut random);
            let fwq = fwq_of(hz, others_hz, 4.0, 200_000, &mut random);
            for report in [ftq, fwq] {
                let summary = QuantaSummary::of(&report, &report.cpus[0]).unwrap();
                let seen = summary.tick.map(|peak| peak.hz).unwrap_or_default();
                prop_assert!((seen - hz).abs() < 0.25, "{:?}", summary.tick);
            }
        }

        #[test]
        fn neither_sees_one_where_there_is_none(seed in any::<u64>(), others_hz in 0.0f64..500.0) {
            let mut random = Random::new(seed);
            let ftq = ftq_of(0.0, others_hz, 4.0, 200_000, &mut random);
            let fwq = fwq_of(0.0, others_hz, 4.0, 200_000, &mut random);
            for report in [ftq, fwq] {
                let tick = QuantaSummary::of(&report, &report.cpus[0]).unwrap().tick;
                prop_assert_eq!(tick, None);
            }
        }
    }
}
