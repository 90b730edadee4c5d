//! The distribution of a delay, and the largest of many that are drawn from it.
//!
//! The expected largest of N independent draws is the integral over x of P(any exceeds x), which is
//! 1 - F(x)^N (David & Nagaraja, *Order Statistics*, 3rd edition, section 3.1). F is known exactly:
//! it steps at delays that many starts have, and is linear where starts lie in a detour. The
//! integral is done piece by piece in closed form. All is kept as the share of draws that exceed x,
//! summed from the largest delay down, because 1 - F is lost in the rounding of F where N matters.

/// How often a delay is how long. Delays are in ns.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    /// Stretches between delays at which something changes, the largest first, down to 0.
    stretches: Vec<SurvivalSegment>,
}

/// Between two delays, the share of draws that exceed x is linear in x.
#[derive(Clone, Copy, Debug)]
struct SurvivalSegment {
    width: f64,
    /// Share of draws that exceed its upper end (or reach it).
    above: f64,
    /// Share of draws that exceed its lower end.
    below: f64,
}

/// What a [`Spread`] is made of.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// (delay, how long starts have it).
    points: Vec<(f64, f64)>,
    /// (smallest, largest): starts have all delays between, each equally long.
    ramps: Vec<(f64, f64)>,
    weight: f64,
}

impl Observed {
    /// Starts over `weight` ns all have this delay.
    pub fn point(&mut self, delay: f64, weight: f64) {
        self.weight += weight;
        if delay > 0.0 && weight > 0.0 {
            self.points.push((delay, weight));
        }
    }

    /// Starts over `largest - smallest` ns have delays from the largest down to the smallest.
    pub fn ramp(&mut self, smallest: f64, largest: f64) {
        if largest > smallest {
            self.weight += largest - smallest;
            self.ramps.push((smallest, largest));
        }
    }

    /// For how long starts were observed, ns.
    pub const fn weight(&self) -> f64 {
        self.weight
    }

    /// The distribution; None where nothing was observed.
    pub fn spread(self) -> Option<Spread> {
        if self.weight <= 0.0 {
            return None;
        }
        let weight = self.weight;
        // (delay, weight that exceeds anything below it, ramps that go on below it).
        let mut changes: Vec<(f64, f64, i64)> = Vec::new();
        changes.extend(self.points.into_iter().map(|(delay, weight)| (delay, weight, 0)));
        for (smallest, largest) in self.ramps {
            changes.push((largest, 0.0, 1));
            changes.push((smallest.max(0.0), 0.0, -1));
        }
        changes.sort_unstable_by(|one, other| other.0.total_cmp(&one.0));
        changes.push((0.0, 0.0, 0));
        let mut stretches = Vec::new();
        let (mut at, mut exceeding, mut slope) = (f64::INFINITY, 0.0, 0);
        for (delay, more, ramps) in changes {
            if delay < at && at.is_finite() {
                let width = at - delay;
                let above = exceeding;
                exceeding += slope as f64 * width;
                let share = |weighed: f64| (weighed / weight).clamp(0.0, 1.0);
                stretches.push(SurvivalSegment {
                    width,
                    above: share(above),
                    below: share(exceeding),
                });
            }
            at = delay;
            exceeding += more;
            slope += ramps;
        }
        Some(Spread { stretches })
    }
}

impl Spread {
    /// Probability that there is a delay at all, 0..=1.
    pub fn hit(&self) -> f64 {
        self.stretches.last().map_or(0.0, |stretch| stretch.below)
    }

    /// The largest delay, ns.
    pub fn largest(&self) -> f64 {
        self.stretches.iter().map(|stretch| stretch.width).sum()
    }

    /// The expected largest of `draws` independent delays, ns; of one, the mean.
    pub fn expected_largest(&self, draws: u64) -> f64 {
        let draws = draws as f64;
        self.stretches.iter().map(|stretch| stretch.width * stretch.mean_any(draws)).sum()
    }
}

/// Probability that what happens to one with probability `one` happens to any of `count`:
/// 1 - (1 - p)^N without loss of digits where p is tiny.
pub fn any(one: f64, count: f64) -> f64 {
    -(count * (-one).ln_1p()).exp_m1()
}

/// Places and weights of Gauss-Legendre quadrature on [-1, 1] with five points (Abramowitz &
/// Stegun, table 25.4), those of positive places; it is symmetric.
const MIDDLE_WEIGHT: f64 = 128.0 / 225.0;
const PLACES: [(f64, f64); 2] = [
    (0.538_469_310_105_683, 0.478_628_670_499_366),
    (0.906_179_845_938_664, 0.236_926_885_056_189),
];

impl SurvivalSegment {
    /// Mean of [`any`] over the stretch.
    fn mean_any(&self, count: f64) -> f64 {
        let change = self.below - self.above;
        if change <= 0.0 {
            return any(self.below, count);
        }
        if count * change > 1.0 {
            // The antiderivative of 1 - (1 - s)^N, whose terms do not cancel here.
            let whole = |share: f64| share - any(share, count + 1.0) / (count + 1.0);
            return (whole(self.below) - whole(self.above)) / change;
        }
        // Smooth enough for five points to have an error below 1e-12.
        let (middle, half) = ((self.below + self.above) / 2.0, change / 2.0);
        let pair = |(place, weight): (f64, f64)| {
            weight * (any(middle - half * place, count) + any(middle + half * place, count))
        };
        let pairs: f64 = PLACES.into_iter().map(pair).sum();
        (MIDDLE_WEIGHT * any(middle, count) + pairs) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() <= 1e-9 * expected.abs(), "{got}, not {expected}");
    }

    fn spread(points: &[(f64, f64)], ramps: &[(f64, f64)]) -> Spread {
        let mut observed = Observed::default();
        points.iter().for_each(|&(delay, weight)| observed.point(delay, weight));
        ramps.iter().for_each(|&(smallest, largest)| observed.ramp(smallest, largest));
        observed.spread().unwrap()
    }

    #[test]
    fn rare_events_hit_somebody() {
        for (nodes, expected) in [(1e4, 0.00995), (1e5, 0.095_163), (1e6, 0.632_121)] {
            assert!((any(1e-6, nodes) - expected).abs() < 5e-7, "{nodes}");
        }
        // The naive form gives 0.
        close(any(1e-18, 10.0), 1e-17);
        assert_eq!((any(0.0, 1e7), any(1.0, 1.0), any(1.0, 1e7)), (0.0, 1.0, 1.0));
    }

    #[test]
    fn the_largest_of_few_values_is_that_of_counting() {
        // Of two draws from {0, 0, 4, 10}: 7 of 16 pairs have a 10, 5 more have a 4.
        let spread = spread(&[(0.0, 2.0), (10.0, 1.0), (4.0, 1.0)], &[]);
        close(spread.expected_largest(1), 3.5);
        close(spread.expected_largest(2), (7.0 * 10.0 + 5.0 * 4.0) / 16.0);
        close(spread.expected_largest(10_000_000), 10.0);
        assert_eq!((spread.hit(), spread.largest()), (0.5, 10.0));
    }

    #[test]
    fn the_largest_of_uniform_values_is_known() {
        let uniform = spread(&[], &[(2.0, 5.0)]);
        for draws in [1, 2, 3, 10, 1_000, 10_000_000] {
            close(uniform.expected_largest(draws), 2.0 + 3.0 * draws as f64 / (draws as f64 + 1.0));
        }
        // A uniform tail of which little is left: E = w (1 - (1 - s)^(N+1) …) by the integral.
        let tail = spread(&[(0.0, 1e9)], &[(0.0, 10.0)]);
        for draws in [1u32, 7, 100_000] {
            let (share, draws) = (10.0 / (1e9 + 10.0), f64::from(draws));
            // Series in N s, which is tiny.
            let series = 10.0 * (draws * share / 2.0 - draws * (draws - 1.0) * share.powi(2) / 6.0);
            let got = tail.expected_largest(draws as u64);
            assert!((got - series).abs() < 1e-5 * series, "{got} {series}");
        }
    }

    #[test]
    fn both_ways_to_integrate_agree() {
        for change in [0.9e-3, 0.999e-3, 1.001e-3, 1.1e-3] {
            let mean = |above: f64| {
                let stretch = SurvivalSegment { width: 1.0, above, below: above + change };
                let whole = |share: f64| share - any(share, 1_001.0) / 1_001.0;
                let exact = (whole(above + change) - whole(above)) / change;
                (stretch.mean_any(1_000.0), exact)
            };
            for above in [0.0, 1e-4, 1e-2, 0.5] {
                let (got, exact) = mean(above);
                assert!((got - exact).abs() < 1e-10, "{change} {above}: {got} {exact}");
            }
        }
    }

    #[test]
    fn nothing_observed_is_no_distribution() {
        assert!(Observed::default().spread().is_none());
        let quiet = spread(&[(0.0, 1.0)], &[]);
        assert_eq!((quiet.hit(), quiet.largest(), quiet.expected_largest(9)), (0.0, 0.0, 0.0));
    }
}
