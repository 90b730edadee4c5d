//! How easily chance makes the sample's executions longer: exact and permutation tests of two sets of which no
//! distribution is known.
//!
//! The permutations come from a fixed sequence of numbers, so the same executions always give the same answer.

/// Permutations of one test; with fewer the least chance that it can find is larger than what is asked for.
pub const PERMUTATIONS: u32 = 9_999;
/// So many permutations as extreme are enough to know the chance well.
const ENOUGH: u32 = 200;

/// The least chance that any test of so many executions can find: that of one division among all.
pub fn least(normal: usize, sample: usize) -> f64 {
    (-ln_choose((normal + sample) as u64, sample as u64)).exp()
}

/// How often a random division of all executions into sets of these sizes gives the sample a mean as large as it has.
pub fn of_mean(normal: &[u64], sample: &[u64]) -> f64 {
    if normal.is_empty() || sample.is_empty() {
        return 1.0;
    }
    let mut all = [normal, sample].concat();
    let is_sample_less = sample.len() <= normal.len();
    let drawn = if is_sample_less { sample } else { normal };
    let sum = |values: &[u64]| values.iter().map(|value| u128::from(*value)).sum::<u128>();
    let observed = sum(drawn);
    let mut numbers = Numbers(0);
    let (mut tried, mut extreme) = (0, 0);
    while tried < PERMUTATIONS && extreme < ENOUGH {
        for place in 0..drawn.len() {
            let other = place + numbers.below(all.len() - place);
            all.swap(place, other);
        }
        let found = sum(all.get(..drawn.len()).unwrap_or_default());
        let is_extreme = if is_sample_less { found >= observed } else { found <= observed };
        extreme += u32::from(is_extreme);
        tried += 1;
    }
    let chance = f64::from(extreme + 1) / f64::from(tried + 1);
    // Where any normal one is as long as any of the sample, another division does as well.
    let least = least(normal.len(), sample.len());
    match normal.iter().max() < sample.iter().min() {
        true => least.max(f64::from(PERMUTATIONS + 1).recip()),
        false => chance.max(2.0 * least),
    }
}

/// How often a random division of all executions gives the sample as many of the long ones as it has (Fisher's exact
/// test, one-sided). Each pair is how many are long, of how many.
pub fn of_share(
    (normal_long, normal): (usize, usize),
    (sample_long, sample): (usize, usize),
) -> f64 {
    let [long, all, drawn] = [normal_long + sample_long, normal + sample, sample].map(|n| n as u64);
    let of = |hits: u64| {
        (ln_choose(long, hits) + ln_choose(all - long, drawn - hits) - ln_choose(all, drawn)).exp()
    };
    // No more of them are drawn than there are, and no fewer than the others leave.
    let most = long.min(drawn);
    let fewest = drawn.saturating_sub(all - long);
    (fewest.max(sample_long as u64)..=most).map(of).sum::<f64>().min(1.0)
}

fn ln_choose(all: u64, some: u64) -> f64 {
    let some = some.min(all - some.min(all));
    (0..some).map(|place| ((all - place) as f64 / (place + 1) as f64).ln()).sum()
}

/// A sequence of numbers without a pattern that matters here (SplitMix64, by Steele, Lea and Flood).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One below a bound, which is above zero.
    pub fn below(&mut self, bound: usize) -> usize {
        // The upper half of the product spreads all numbers evenly over those below the bound.
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(found: f64, known: f64) -> bool {
        (found - known).abs() <= 1e-9 * known.max(1.0)
    }

    #[test]
    fn exact_chances_are_those_that_count_gives() {
        // All 3 long ones of 110 among the 10 of the sample: 120 of 215,820 ways.
        assert!(is_near(of_share((0, 100), (3, 10)), 120.0 / 215_820.0));
        // As many as there are, or as few: certain.
        assert!(is_near(of_share((5, 5), (5, 5)), 1.0));
        assert!(is_near(of_share((7, 100), (0, 10)), 1.0));
        // 4 of 5 against 1 of 5: (25 + 1) of 252 ways.
        assert!(is_near(of_share((1, 5), (4, 5)), 26.0 / 252.0));
        assert!(is_near(least(100, 1), 1.0 / 101.0));
        assert!(is_near(least(3, 3), 1.0 / 20.0));
    }

    #[test]
    fn permutations_find_about_what_all_divisions_give() {
        // The largest 2 of 12 are the sample: 1 of 66 divisions.
        let normal: Vec<u64> = (0..10).collect();
        let found = of_mean(&normal, &[10, 11]);
        assert!((0.012..0.019).contains(&found), "{found}");
        // The other way round, and with sets that differ in nothing.
        let found = of_mean(&[0, 1], &(2..12).collect::<Vec<_>>());
        assert!((0.012..0.019).contains(&found), "{found}");
        assert!(is_near(of_mean(&[4; 30], &[4; 5]), 1.0));
        assert!(is_near(of_mean(&[], &[4]), 1.0));
        // What no permutation reaches is still not impossible.
        assert!(is_near(of_mean(&(0..100).collect::<Vec<_>>(), &[1000; 10]), 1e-4));
    }
}
