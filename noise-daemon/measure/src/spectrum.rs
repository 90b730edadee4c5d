//! PURE: how the power of an evenly sampled series spreads over frequencies, and the period that
//! stands out.
//!
//! The series' mean is taken off first, and a Hann window laid over it: a period that is no whole
//! number of samples, or a slow drift, would otherwise leak into all frequencies and hide the
//! floor that a peak is compared with. The price is that a peak is four steps of frequency wide.
//!
//! Where a series has no period, the power at each frequency is distributed exponentially around
//! the floor: a peak of z times the floor comes by chance with the probability e^-z, at any of m
//! frequencies with 1 - (1 - e^-z)^m (Scargle 1982, "Studies in astronomical time series
//! analysis II"). A peak that chance would bring once in a thousand million series is a period.

use realfft::RealFftPlanner;

/// A period has to come so often in a series to be called one: below lie drifts.
const LEAST_PERIODS: usize = 8;
/// Frequencies that share a floor, at most and at least.
const WIDEST_BLOCK: usize = 64;
const NARROWEST_BLOCK: usize = 16;
/// Probability of a peak by chance, below which it is none.
const BY_CHANCE: f64 = 1e-9;
/// Power of the harmonics below the strongest one, in the mean at least, as a part of its power.
const BELOW_STRONGEST: f64 = 0.25;
/// A fundamental, where a harmonic stands out already, is so many times the floor: chance brings
/// that to one place in a thousand.
const FUNDAMENTAL: f64 = 7.0;
/// A floor is at least this part of the largest power: rounding is no noise.
const ROUNDING: f64 = 1e-12;

/// One-sided power spectral density of a series.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Spectrum {
    /// From one frequency to the next, Hz; the first is 0.
    pub step_hz: f64,
    /// Power at each frequency, in the square of the series' unit per Hz.
    pub power: Vec<f64>,
}

/// A period that stands out.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Peak {
    pub hz: f64,
    /// Power of its strongest harmonic, as a multiple of the floor around that.
    pub above_floor: f64,
    /// Probability that a series without period has such a peak anywhere.
    pub by_chance: f64,
}

impl Spectrum {
    /// The periodogram of a series of so many samples a second; `None` where it is too short, or a
    /// sample is not finite.
    pub fn of(series: &[f64], sample_hz: f64) -> Option<Self> {
        let is_usable = sample_hz.is_finite() && sample_hz > 0.0;
        if series.len() < 4 * LEAST_PERIODS || !is_usable {
            return None;
        }
        let count = series.len() as f64;
        let mean = series.iter().sum::<f64>() / count;
        if !mean.is_finite() {
            return None;
        }
        let turn = std::f64::consts::TAU / count;
        // The periodic form, whose values are symmetric around the middle sample.
        let weight = |index: usize| 0.5 - 0.5 * (turn * index as f64).cos();
        let weighted =
            series.iter().enumerate().map(|(index, value)| (value - mean) * weight(index));
        let mut input: Vec<f64> = weighted.collect();
        let transform = RealFftPlanner::<f64>::new().plan_fft_forward(input.len());
        let mut output = transform.make_output_vec();
        transform.process(&mut input, &mut output).ok()?;
        let weights: f64 = (0..series.len()).map(|index| weight(index).powi(2)).sum();
        let scale = 2.0 / (sample_hz * weights);
        let power = output.iter().map(|value| value.norm_sqr() * scale).collect();
        Some(Self { step_hz: sample_hz / count, power })
    }

    /// Frequency at a place, Hz.
    pub fn hz(&self, place: usize) -> f64 {
        place as f64 * self.step_hz
    }

    /// The floor at each frequency: the mean of noise, derived from the median of the frequencies around, which peaks
    /// do not lift. Where the floor is steep, the higher side counts: its edge is no peak.
    pub fn floor(&self) -> Vec<f64> {
        let least = self.power.iter().copied().fold(0.0, f64::max) * ROUNDING;
        let mut blocks = Vec::new();
        let mut rest = self.power.as_slice();
        let (mut begin, mut width) = (0, LEAST_PERIODS);
        while !rest.is_empty() {
            // A remainder that is shorter than a block belongs to the last one.
            let taken = if rest.len() < 2 * width { rest.len() } else { width };
            let (block, behind) = rest.split_at(taken);
            let mut sorted = block.to_vec();
            let (_, median, _) = sorted.select_nth_unstable_by(taken / 2, f64::total_cmp);
            // The median of an exponential distribution is ln 2 of its mean.
            blocks.push((taken, (*median / std::f64::consts::LN_2).max(least)));
            rest = behind;
            begin += taken;
            width = begin.clamp(NARROWEST_BLOCK, WIDEST_BLOCK);
        }
        let highest = |place: usize| {
            let around = blocks.iter().take(place + 2).skip(place.saturating_sub(1));
            around.map(|(_, mean)| *mean).fold(0.0, f64::max)
        };
        let each = blocks.iter().enumerate();
        each.flat_map(|(place, (taken, _))| std::iter::repeat_n(highest(place), *taken)).collect()
    }

    /// The period that stands out most, by its fundamental; `None` where none does.
    ///
    /// Of a train of short events every harmonic is about as strong, so that the strongest says little: it is the
    /// longest period that has a peak itself, and whose harmonics below the strongest one have a quarter of its power
    /// in the mean, also those alone that no shorter period would have as well. Weaker lines below, as aliases of
    /// high harmonics draw them, are no fundamentals.
    pub fn tick(&self) -> Option<Peak> {
        let floor = self.floor();
        let places = LEAST_PERIODS..self.power.len().saturating_sub(1);
        let frequencies = places.len() as f64;
        let above = |place: usize| match floor.get(place) {
            Some(floor) if *floor > 0.0 => self.power.get(place).map_or(0.0, |power| power / floor),
            _ => 0.0,
        };
        // For so small a chance, 1 - (1 - e^-z)^m is m e^-z.
        let by_chance = |above: f64| (frequencies * (-above).exp()).min(1.0);
        let power = |place: usize| self.power.get(place).copied().unwrap_or(0.0);
        let strongest = places.clone().filter(|place| by_chance(above(*place)) < BY_CHANCE);
        let strongest = strongest.max_by(|a, b| power(*a).total_cmp(&power(*b)))?;
        let exact = self.between(strongest);
        // The place of a harmonic is known to a part of a step only.
        let around = |at: f64| {
            let place = at.round() as usize;
            let first = place.saturating_sub(1).max(LEAST_PERIODS);
            (first..=place + 1).max_by(|a, b| power(*a).total_cmp(&power(*b))).unwrap_or(place)
        };
        let is_fundamental = |divisor: &usize| {
            let lowest = exact / *divisor as f64;
            // Those that a fundamental of so many times the frequency would not have.
            let is_strong = |shorter: usize| {
                let own = (1..*divisor).filter(|harmonic| harmonic % shorter != 0);
                let count = own.clone().count() as f64;
                let sum: f64 = own.map(|harmonic| power(around(lowest * harmonic as f64))).sum();
                sum / count >= BELOW_STRONGEST * power(strongest)
            };
            *divisor == 1
                || (above(around(lowest)) >= FUNDAMENTAL
                    && (2..=*divisor)
                        .filter(|shorter| divisor.is_multiple_of(*shorter))
                        .all(is_strong))
        };
        let divisor = (1..=strongest / LEAST_PERIODS).rev().find(is_fundamental).unwrap_or(1);
        let fundamental = around(exact / divisor as f64);
        let hz = self.between(fundamental) * self.step_hz;
        let above_floor = above(strongest);
        Some(Peak { hz, above_floor, by_chance: by_chance(above_floor) })
    }

    /// Where the peak at a place really is: the top of the parabola through the logarithms of the
    /// three powers there, as the main lobe of a Hann window nearly has it.
    fn between(&self, place: usize) -> f64 {
        let log = |place: usize| self.power.get(place).map_or(0.0, |power| power.ln());
        let (before, at, behind) = (log(place.saturating_sub(1)), log(place), log(place + 1));
        let offset = 0.5 * (before - behind) / (before - 2.0 * at + behind);
        place as f64 + if offset.is_finite() { offset.clamp(-0.5, 0.5) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;
    use crate::chance::same_draws;
    use proptest::prelude::{any, prop_assert, proptest};

    /// A wave, and noise around it.
    fn wave(hz: f64, height: f64, noise: f64, sample_hz: f64, random: &mut Random) -> Vec<f64> {
        let at = |index: usize| index as f64 / sample_hz;
        (0..4_096)
            .map(|index| {
                100.0
                    + height * (std::f64::consts::TAU * hz * at(index)).sin()
                    + noise * random.normal()
            })
            .collect()
    }

    #[test]
    fn what_is_too_short_or_no_number_has_no_spectrum() {
        assert_eq!(Spectrum::of(&[1.0; 10], 1.0), None);
        assert_eq!(Spectrum::of(&[f64::NAN; 100], 1.0), None);
        assert_eq!(Spectrum::of(&[1.0; 100], 0.0), None);
    }

    #[test]
    fn a_constant_has_no_power_and_no_period() {
        let spectrum = Spectrum::of(&[7.0; 1_000], 1_000.0).unwrap();
        assert_eq!(spectrum.power.iter().sum::<f64>(), 0.0);
        assert_eq!(spectrum.tick(), None);
    }

    #[test]
    fn the_power_is_the_variance() {
        let mut random = Random::new(1);
        let series = wave(125.0, 3.0, 1.0, 1_000.0, &mut random);
        let spectrum = Spectrum::of(&series, 1_000.0).unwrap();
        let power = spectrum.power.iter().sum::<f64>() * spectrum.step_hz;
        // Half the square of the height, and the square of the noise.
        assert!((power - 5.5).abs() < 0.5, "{power}");
    }

    #[test]
    fn a_drift_is_no_period() {
        let mut random = Random::new(2);
        let mut level = 0.0;
        let series: Vec<f64> = (0..20_000)
            .map(|_| {
                level += random.normal();
                level
            })
            .collect();
        assert_eq!(Spectrum::of(&series, 1_000.0).unwrap().tick(), None);
    }

    proptest! {
        #![proptest_config(same_draws(64))]

        #[test]
        fn a_wave_is_found_where_it_is(seed in any::<u64>(), hz in 5.0f64..490.0) {
            let mut random = Random::new(seed);
            let spectrum = Spectrum::of(&wave(hz, 1.0, 1.0, 1_000.0, &mut random), 1_000.0).unwrap();
            let peak = spectrum.tick().unwrap();
            prop_assert!((peak.hz - hz).abs() < spectrum.step_hz / 2.0, "{peak:?}");
            prop_assert!(peak.by_chance < 1e-9 && peak.above_floor > 20.0, "{peak:?}");
        }

        #[test]
        fn noise_has_no_period(seed in any::<u64>()) {
            let mut random = Random::new(seed);
            let series = wave(1.0, 0.0, 1.0, 1_000.0, &mut random);
            prop_assert!(Spectrum::of(&series, 1_000.0).unwrap().tick().is_none());
        }
    }
}
