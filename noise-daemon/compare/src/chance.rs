//! How easily chance makes the sample's executions longer: exact and permutation tests of two sets of which no
//! distribution is known.
//!
//! Where there are few divisions of all into two such sets, each is looked at. Else the permutations come from a fixed sequence of numbers, so the same executions always give the same answer.

/// Permutations of one test; with fewer the least chance that it can find is larger than what is asked for.
pub const PERMUTATIONS: u32 = 9_999;
/// So many permutations as extreme are enough to know the chance well.
const ENOUGH: u32 = 200;

/// As many divisions as are counted.
const MOST_DIVISIONS: f64 = 1e15;

/// How many ways there are to divide so many into two such sets, up to [`MOST_DIVISIONS`].
pub fn divisions(normal: usize, sample: usize) -> f64 {
    let divisions = ln_choose((normal + sample) as u64, sample as u64).exp().min(MOST_DIVISIONS);
    // Counts that a double has exactly are whole.
    if divisions < 1e9 { divisions.round() } else { divisions }
}

/// The least chance that any test of so many executions can find: that of one division among all, or among those that
/// are drawn.
pub fn least(normal: usize, sample: usize) -> f64 {
    divisions(normal, sample).recip().max(f64::from(PERMUTATIONS + 1).recip())
}

/// How often a random division of all executions into sets of these sizes gives the sample a mean as large as it has.
pub fn of_mean(normal: &[u64], sample: &[u64]) -> f64 {
    if normal.is_empty() || sample.is_empty() {
        return 1.0;
    }
    let mut all = [normal, sample].concat();
    let is_sample_less = sample.len() <= normal.len();
    let drawn = if is_sample_less { sample } else { normal };
    let observed = sum(drawn);
    let is_extreme =
        |found: u128| if is_sample_less { found >= observed } else { found <= observed };
    if divisions(normal.len(), sample.len()) <= f64::from(PERMUTATIONS) {
        return of_all_divisions(&all, drawn.len(), is_extreme);
    }
    // What is above all normal ones is reached by no other division.
    if normal.iter().max() < sample.iter().min() {
        return f64::from(PERMUTATIONS + 1).recip();
    }
    let mut numbers = Numbers(0);
    let (mut tried, mut extreme) = (0, 0);
    while tried < PERMUTATIONS && extreme < ENOUGH {
        for place in 0..drawn.len() {
            let other = place + numbers.below(all.len() - place);
            all.swap(place, other);
        }
        let found = sum(all.get(..drawn.len()).unwrap_or_default());
        extreme += u32::from(is_extreme(found));
        tried += 1;
    }
    f64::from(extreme + 1) / f64::from(tried + 1)
}

fn sum(values: &[u64]) -> u128 {
    values.iter().map(|value| u128::from(*value)).sum()
}

/// The part of all ways to draw so many of some values that have an extreme sum.
fn of_all_divisions(all: &[u64], drawn: usize, is_extreme: impl Fn(u128) -> bool) -> f64 {
    let mut places: Vec<usize> = (0..drawn).collect();
    let (mut tried, mut extreme) = (0_u32, 0_u32);
    loop {
        let values = places.iter().filter_map(|place| all.get(*place));
        extreme += u32::from(is_extreme(values.map(|value| u128::from(*value)).sum()));
        tried += 1;
        // The last place that can go on does, and those behind it follow.
        let last = all.len() - drawn;
        let movable = places.iter().enumerate().rposition(|(number, place)| *place < last + number);
        let Some(from) = movable else { break };
        let next = places.get(from).map_or(0, |place| place + 1);
        for (place, value) in places.iter_mut().skip(from).zip(next..) {
            *place = value;
        }
    }
    f64::from(extreme) / f64::from(tried)
}

/// How often so large a quotient of a difference of means and its error comes about by chance, or a larger one, where what
/// varies does so by a normal distribution of unknown width, known from so many degrees of freedom: the upper tail
/// of Student's distribution (Abramowitz and Stegun 26.7.3 and 26.7.4).
pub fn of_quotient(quotient: f64, freedom: usize) -> f64 {
    let angle = (quotient / (freedom.max(1) as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    // Terms of cosine to the powers from 0 on, or from 1 on, in steps of two, up to two less than the freedom.
    let first = freedom % 2;
    let (mut term, mut terms) = (if first == 1 { cosine } else { 1.0 }, 0.0);
    for power in (first..freedom.saturating_sub(1)).step_by(2) {
        terms += term;
        term *= cosine * cosine * (power + 1) as f64 / (power + 2) as f64;
    }
    let within = match first {
        1 => std::f64::consts::FRAC_2_PI * (angle + sine * terms),
        _ => sine * terms,
    };
    ((1.0 - within) / 2.0).clamp(0.0, 1.0)
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
    fn few_divisions_are_all_looked_at() {
        // The largest 2 of 12 are the sample: 1 of 66 divisions. The other way round, and with sets that differ in nothing.
        let normal: Vec<u64> = (0..10).collect();
        assert!(is_near(of_mean(&normal, &[10, 11]), 1.0 / 66.0));
        assert!(is_near(of_mean(&[0, 1], &(2..12).collect::<Vec<_>>()), 1.0 / 66.0));
        // Of the sums of two of 1, 2, 3 and 4, two are 6 or more.
        assert!(is_near(of_mean(&[1, 3], &[2, 4]), 2.0 / 6.0));
        assert!(is_near(of_mean(&[1, 2], &[3, 4]), 1.0 / 6.0));
        assert!(is_near(of_mean(&[5, 5], &[5, 5]), 1.0));
        assert!(is_near(of_mean(&[3], &[9]), 0.5));
        assert_eq!([divisions(2, 2), divisions(3, 3), divisions(20, 3)], [6.0, 20.0, 1771.0]);
    }

    #[test]
    fn quotients_have_the_chance_of_tables() {
        // Quantiles of Student's distribution, as in the tables of Abramowitz and Stegun (26.10).
        for (quotient, freedom, chance) in [
            (6.314, 1, 0.05),
            (63.657, 1, 0.005),
            (2.920, 2, 0.05),
            (9.925, 2, 0.005),
            (2.353, 3, 0.05),
            (4.604, 4, 0.005),
            (2.571, 5, 0.025),
            (1.812, 10, 0.05),
            (2.787, 25, 0.005),
            (0.0, 7, 0.5),
        ] {
            let found = of_quotient(quotient, freedom);
            assert!((found / chance - 1.0).abs() < 2e-3, "{quotient} {freedom}: {found}");
        }
        assert!((of_quotient(-2.920, 2) - 0.95).abs() < 1e-4);
        assert!(of_quotient(f64::INFINITY, 4) < 1e-12);
    }

    #[test]
    fn permutations_find_about_what_all_divisions_give() {
        // The largest 3 of 60: 1 of 34,220 divisions, and of 40 and 20 about half, where they differ in nothing.
        let found = of_mean(&(0..57).collect::<Vec<_>>(), &[57, 58, 59]);
        assert!(found <= 3e-4, "{found}");
        let odd: Vec<u64> = (0..60).filter(|number| number % 3 == 1).collect();
        let rest: Vec<u64> = (0..60).filter(|number| number % 3 != 1).collect();
        let found = of_mean(&rest, &odd);
        assert!((0.4..0.6).contains(&found), "{found}");
        assert!(is_near(of_mean(&[4; 30], &[4; 5]), 1.0));
        assert!(is_near(of_mean(&[], &[4]), 1.0));
        // What no permutation reaches is still not impossible.
        assert!(is_near(of_mean(&(0..100).collect::<Vec<_>>(), &[1000; 10]), 1e-4));
    }
}
