//! Statistics of interleaved turns: medians, quartiles, and each turn against its neighbours.

/// Median and quartiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Half of the values are below.
    pub median: f64,
    /// A quarter of the values is below.
    pub p25: f64,
    /// A quarter of the values is above.
    pub p75: f64,
}

impl Spread {
    /// Of these values, in any order; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            median: quantile(&sorted, 0.5)?,
            p25: quantile(&sorted, 0.25)?,
            p75: quantile(&sorted, 0.75)?,
        })
    }
}

/// Quantile of sorted values, interpolated linearly between the two nearest (R's type 7).
fn quantile(sorted: &[f64], fraction: f64) -> Option<f64> {
    let position = fraction * sorted.len().checked_sub(1)? as f64;
    let low = *sorted.get(position.floor() as usize)?;
    let high = *sorted.get(position.ceil() as usize)?;
    Some(low + (high - low) * position.fract())
}

/// The median of these values; `None` if there are none.
pub fn median(values: &[f64]) -> Option<f64> {
    Spread::of(values).map(|spread| spread.median)
}

/// What 99 in 100 of these values are not above; `None` if there are none.
pub fn p99(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, 0.99)
}

/// Some bursts of a workload under one set of programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// Number of the set that was attached; `None` = none.
    pub set: Option<usize>,
    /// Median of its bursts, ns per operation.
    pub ns: f64,
}

/// A set against nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Turns compared.
    pub turns: usize,
    /// Time of a turn divided by the mean of its two neighbours.
    pub ratio: Spread,
    /// Median of a turn's time less the mean of its two neighbours, ns per operation.
    pub added_ns: f64,
    /// Median of those means, ns per operation.
    pub without_ns: f64,
}

/// Compares the turns of a set with their neighbours. A turn counts only where nothing was
/// attached in both neighbours; `None` if there is no such turn.
pub fn compare(turns: &[Turn], set: usize) -> Option<Comparison> {
    let (mut ratios, mut added, mut without) = (Vec::new(), Vec::new(), Vec::new());
    for three in turns.windows(3) {
        if let [before @ Turn { set: None, .. }, turn, after @ Turn { set: None, .. }] = three
            && turn.set == Some(set)
        {
            let neighbours = f64::midpoint(before.ns, after.ns);
            ratios.push(turn.ns / neighbours);
            added.push(turn.ns - neighbours);
            without.push(neighbours);
        }
    }
    Some(Comparison {
        turns: ratios.len(),
        ratio: Spread::of(&ratios)?,
        added_ns: median(&added)?,
        without_ns: median(&without)?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Spread, Turn, compare, median};

    fn turns(list: &[(Option<usize>, f64)]) -> Vec<Turn> {
        list.iter().map(|&(set, ns)| Turn { set, ns }).collect()
    }

    #[test]
    fn quartiles_interpolate_as_r_does() {
        // R: quantile(c(1, 2, 3, 4)) gives 1.75, 2.5, 3.25.
        let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(spread, Spread { median: 2.5, p25: 1.75, p75: 3.25 });
        assert_eq!(Spread::of(&[7.0]).unwrap(), Spread { median: 7.0, p25: 7.0, p75: 7.0 });
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_turn_is_compared_with_its_own_neighbours() {
        // The machine slows down by half on the way; the ratio does not see it.
        let list = turns(&[
            (None, 100.0),
            (Some(0), 110.0),
            (None, 100.0),
            (Some(1), 100.0),
            (None, 200.0),
            (Some(0), 220.0),
            (None, 200.0),
        ]);
        let slow = compare(&list, 0).unwrap();
        assert_eq!(slow.turns, 2);
        assert!((slow.ratio.median - 1.1).abs() < 1e-9);
        assert!((slow.added_ns - 15.0).abs() < 1e-9);
        assert!((slow.without_ns - 150.0).abs() < 1e-9);
        assert_eq!(compare(&list, 1).unwrap().without_ns, 150.0);
    }

    #[test]
    fn a_turn_without_two_empty_neighbours_does_not_count() {
        let list = turns(&[(Some(0), 9.0), (None, 1.0), (Some(0), 2.0), (Some(1), 1.0)]);
        assert_eq!(compare(&list, 0), None);
        assert_eq!(compare(&list, 2), None);
        assert_eq!(compare(&[], 0), None);
    }
}
