//! Which cells of a table of dynamic programming are looked at: all where they are few, else a band.
//!
//! The band goes along a path that is known, or along words that both groups have once, in the longest chain of them
//! that is in order in both (as patience diff does with lines). What lies outside is not found: an
//! alignment within a band is not always the best one.

use std::collections::HashMap;

use super::group::{Op, Ops};
use super::profile::Profile;

/// Words whose chains are tried.
const WORDS: [usize; 4] = [32, 16, 8, 4];
/// The narrowest band, on either side.
const MIN_MARGIN: usize = 32;

/// Per row, from which column on and up to which.
pub struct Band {
    /// Of row `i`, first of which none has a column, cells `lows[i]..highs[i]`; both never fall.
    pub lows: Vec<usize>,
    pub highs: Vec<usize>,
}

impl Band {
    /// All of a table of that many rows and columns, not counting those for nothing.
    pub fn all(rows: usize, columns: usize) -> Self {
        Self { lows: vec![0; rows + 1], highs: vec![columns + 1; rows + 1] }
    }

    /// How many cells it has.
    pub fn cells(&self) -> usize {
        self.lows.iter().zip(&self.highs).map(|(low, high)| high - low).sum()
    }

    /// Around a path, with about so many cells.
    fn around(path: &[(usize, usize)], columns: usize, cells: usize) -> Self {
        let margin = (cells / path.len().max(1) / 2).max(MIN_MARGIN);
        Self {
            lows: path.iter().map(|(low, _)| low.saturating_sub(margin)).collect(),
            highs: path.iter().map(|(_, high)| (high + margin).min(columns) + 1).collect(),
        }
    }
}

/// What a band goes along.
pub struct Guide {
    rows: usize,
    columns: usize,
    /// Per row the first and the last cell; nothing where all cells are few enough.
    path: Vec<(usize, usize)>,
}

impl Guide {
    /// For bands of `cells` cells and more: along the common words of two groups.
    pub fn of_profiles(a: &Profile, b: &Profile, cells: usize) -> Self {
        let mut guide = Self { rows: a.columns(), columns: b.columns(), path: Vec::new() };
        if !guide.is_within(cells) {
            let chain = chain(&consensus(a), &consensus(b));
            guide.path = line(&chain, guide.rows, guide.columns);
        }
        guide
    }

    /// The same along how both are put side by side already.
    pub fn of_ops(ops: &Ops, rows: usize, columns: usize, cells: usize) -> Self {
        let mut guide = Self { rows, columns, path: Vec::new() };
        if guide.is_within(cells) {
            return guide;
        }
        let (mut low, mut column) = (0, 0);
        for op in ops {
            if *op != Op::Second {
                guide.path.push((low, column));
                low = column + usize::from(*op == Op::Both);
            }
            column += usize::from(*op != Op::First);
        }
        guide.path.push((low, column));
        guide
    }

    fn is_within(&self, cells: usize) -> bool {
        (self.rows + 1).saturating_mul(self.columns + 1) <= cells
    }

    /// A band of about so many cells.
    pub fn band(&self, cells: usize) -> Band {
        if self.is_within(cells) {
            return Band::all(self.rows, self.columns);
        }
        Band::around(&self.path, self.columns, cells)
    }
}

/// The most common symbol of each column that more than half of the rows have, and the column.
fn consensus(profile: &Profile) -> (Vec<u32>, Vec<usize>) {
    let columns = (0..profile.columns()).filter_map(|column| {
        let most = |best: (u32, f64), next: &(u32, f64)| if next.1 > best.1 { *next } else { best };
        let (symbol, _) = profile.column(column).iter().fold((0, 0.0), most);
        (profile.filled[column] * 2.0 > profile.rows).then_some((symbol, column))
    });
    columns.unzip()
}

/// Places of a word that is there once; `None` where it is there more often.
fn once(symbols: &[u32], word: usize) -> HashMap<&[u32], Option<usize>> {
    let mut places = HashMap::new();
    for (place, word) in symbols.windows(word).enumerate() {
        places.entry(word).and_modify(|place| *place = None).or_insert(Some(place));
    }
    places
}

/// The longest chain of columns of both that begin the same word.
fn chain(a: &(Vec<u32>, Vec<usize>), b: &(Vec<u32>, Vec<usize>)) -> Vec<(usize, usize)> {
    let mut longest = Vec::new();
    for word in WORDS {
        let (in_a, in_b) = (once(&a.0, word), once(&b.0, word));
        let pair = |(place, word): (usize, &[u32])| {
            in_a.get(word).copied().flatten()?;
            let other = in_b.get(word).copied().flatten()?;
            Some((a.1[place], b.1[other]))
        };
        let pairs: Vec<_> = a.0.windows(word).enumerate().filter_map(pair).collect();
        let chain = rising(&pairs);
        if chain.len() > longest.len() {
            longest = chain;
        }
    }
    longest
}

/// The longest of the chains whose second numbers rise as the first ones do.
fn rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // Of the chains of each length, the index of the pair that the one with the smallest end ends with.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (number, (_, second)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < *second);
        before.push(length.checked_sub(1).map(|length| ends[length]));
        match ends.get_mut(length) {
            Some(end) => *end = number,
            None => ends.push(number),
        }
    }
    let mut chain = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(number) = next {
        chain.push(pairs[number]);
        next = before[number];
    }
    chain.reverse();
    chain
}

/// Straight lines through a chain, from corner to corner: per row the first and the last cell.
fn line(chain: &[(usize, usize)], rows: usize, columns: usize) -> Vec<(usize, usize)> {
    let mut path = Vec::with_capacity(rows + 1);
    let mut from = (0, 0);
    for to in chain.iter().copied().chain([(rows, columns)]) {
        let (wide, high) = (to.1 - from.1, to.0 - from.0);
        for row in from.0..to.0 {
            let at = |row: usize| from.1 + (row - from.0) * wide / high;
            path.push((at(row), at(row + 1)));
        }
        from = to;
    }
    path.push((columns, columns));
    // A chain that begins in the first row does not begin in the corner.
    path[0].0 = 0;
    path
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, proptest};
    use proptest::{prop_assert, prop_assert_eq};

    use super::{Guide, MIN_MARGIN, chain, line, rising};
    use crate::align::group::Op;

    #[test]
    fn chains_rise() {
        assert_eq!(rising(&[]), []);
        assert_eq!(rising(&[(0, 5), (1, 1), (2, 2), (3, 9), (4, 3)]), [(1, 1), (2, 2), (4, 3)]);
    }

    #[test]
    fn common_words_lead_the_band() {
        // The second has 100 symbols more before the same 200 different ones.
        let common: Vec<u32> = (0..200).collect();
        let a = (common.clone(), (0..200).collect());
        let b = ([vec![7; 100], common].concat(), (0..300).collect());
        let chain = chain(&a, &b);
        assert!(chain.len() > 190, "{}", chain.len());
        assert!(chain.iter().all(|(one, other)| one + 100 == *other));
    }

    #[test]
    fn lines_go_from_corner_to_corner() {
        assert_eq!(line(&[], 2, 4), [(0, 2), (2, 4), (4, 4)]);
        assert_eq!(line(&[(1, 4)], 3, 5), [(0, 4), (4, 4), (4, 5), (5, 5)]);
        assert_eq!(line(&[], 0, 3), [(0, 3)]);
        assert_eq!(line(&[(0, 2)], 2, 3), [(0, 2), (2, 3), (3, 3)]);
    }

    proptest! {
        #[test]
        fn lines_are_without_a_break(
            pairs in prop::collection::btree_map(0..40_usize, 0..60_usize, 0..20),
            rows in 40..60_usize,
            columns in 60..70_usize,
        ) {
            let pairs: Vec<_> = pairs.into_iter().collect();
            let path = line(&rising(&pairs), rows, columns);
            prop_assert_eq!(path.len(), rows + 1);
            prop_assert_eq!((path[0].0, path[rows].1), (0, columns));
            for two in path.windows(2) {
                prop_assert!(two[0].0 <= two[1].0 && two[0].1 <= two[1].1, "{:?}", two);
                prop_assert!(two[0].0 <= two[0].1 && two[1].0 <= two[0].1, "{:?}", two);
            }
        }
    }

    #[test]
    fn a_band_holds_its_path() {
        let ops = [[Op::First; 300], [Op::Second; 300], [Op::Both; 300]].concat();
        let band = Guide::of_ops(&ops, 600, 600, 1).band(1);
        assert_eq!((band.lows[0], band.highs[0]), (0, MIN_MARGIN + 1));
        assert_eq!((band.lows[300], band.highs[300]), (0, 300 + MIN_MARGIN + 1));
        assert_eq!((band.lows[301], band.highs[301]), (301 - MIN_MARGIN, 301 + MIN_MARGIN + 1));
        assert_eq!((band.lows[600], band.highs[600]), (600 - MIN_MARGIN, 601));
        assert_eq!(
            band.cells(),
            band.highs.iter().sum::<usize>() - band.lows.iter().sum::<usize>()
        );
        assert_eq!(Guide::of_ops(&ops, 600, 600, 1 << 20).band(1 << 20).cells(), 601 * 601);
    }
}
