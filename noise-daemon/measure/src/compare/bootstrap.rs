//! The stationary bootstrap: slices of time, drawn again in runs.

use rand::RngExt as _;
use rand::rngs::Xoshiro256PlusPlus;

/// How often each slice is in one draw of as many slices as there are, filled into `times`: runs
/// that begin anywhere, go round at the end, and are of 2 K^(1/3) slices in the mean.
pub fn draw(random: &mut Xoshiro256PlusPlus, times: &mut [f64]) {
    times.fill(0.0);
    let slices = times.len();
    if slices == 0 {
        return;
    }
    let ends = (2.0 * (slices as f64).cbrt()).recip();
    let mut at = random.random_range(0..slices);
    for _ in 0..slices {
        times[at] += 1.0;
        let ended = random.random::<f64>() < ends;
        at = if ended { random.random_range(0..slices) } else { (at + 1) % slices };
    }
}

/// Sum of a series in a draw.
pub fn sum(values: &[f64], times: &[f64]) -> f64 {
    values.iter().zip(times).map(|(value, times)| value * times).sum()
}

/// The middle of `confidence` (0..1) of values, in any order, none of which is NaN: between which
/// two they lie. None without values.
pub fn middle(mut values: Vec<f64>, confidence: f64) -> Option<[f64; 2]> {
    values.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - confidence) / 2.0;
    Some([quantile(&values, tail)?, quantile(&values, 1.0 - tail)?])
}

/// Between the two nearest values in proportion (Hyndman & Fan, *Sample Quantiles in Statistical
/// Packages*, 1996, definition 7).
fn quantile(ascending: &[f64], share: f64) -> Option<f64> {
    let place = share.clamp(0.0, 1.0) * (ascending.len().checked_sub(1)? as f64);
    let below = *ascending.get(place.floor() as usize)?;
    let above = *ascending.get(place.ceil() as usize)?;
    // An infinite value stays one, rather than become no number.
    Some(if below == above { below } else { below + (above - below) * place.fract() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;

    #[test]
    fn a_draw_has_as_many_slices_and_each_as_often() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let (mut times, mut all) = ([0.0; 27], [0.0; 27]);
        let mut neighbours = 0.0;
        for _ in 0..4_000 {
            draw(&mut random, &mut times);
            assert_eq!(sum(&[1.0; 27], &times), 27.0);
            all.iter_mut().zip(times).for_each(|(all, times)| *all += times);
            neighbours += (0..27).map(|at| times[at] * times[(at + 1) % 27]).sum::<f64>();
        }
        assert!(all.iter().all(|times| (times / 4_000.0 - 1.0).abs() < 0.15), "{all:?}");
        // Of slices drawn one by one 26 pairs are neighbours in the mean; in runs of six, 5/6 of
        // the 26 steps are to a neighbour as well, less the 7.8 pairs that runs keep from chance.
        let expected = 26.0 + 26.0 * 5.0 / 6.0 - 7.8;
        assert!((neighbours / 4_000.0 - expected).abs() < 1.0, "{neighbours}");
        draw(&mut random, &mut []);
    }

    #[test]
    fn quantiles_lie_between_values() {
        let values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        let [low, high] = middle(values, 0.95).unwrap();
        assert!((low - 2.5).abs() < 1e-9 && (high - 97.5).abs() < 1e-9, "{low} {high}");
        assert_eq!(middle(vec![1.0], 0.5), Some([1.0, 1.0]));
        assert_eq!(middle(Vec::new(), 0.5), None);
        assert_eq!(middle(vec![f64::INFINITY; 3], 0.9), Some([f64::INFINITY; 2]));
    }
}
