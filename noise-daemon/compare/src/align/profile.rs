//! Columns of a group of rows: how many have which symbol, and what a gap in the others' rows costs beside them.
//!
//! Rows count as often as their sequences occur ("counts" below). Gaps have their weight: what opening them costs
//! beyond a further symbol, which is another at a row's ends than within it.

use super::group::{GAP, Group};
use super::scoring::Gaps;

/// Per column, and for the places between columns.
#[derive(Default)]
pub struct Profile {
    pub rows: f64,
    /// The symbols of all columns, with their counts.
    symbols: Vec<(u32, f64)>,
    /// Where each column's begin, and where the last one's end.
    begins: Vec<usize>,
    /// Rows that have a symbol.
    pub filled: Vec<f64>,
    /// Of these, those whose gap, if they had one in the column before, is not taken to have ended a gap of the
    /// other side: see [`UNSURE`].
    pub going_on: Vec<f64>,
    /// Weights of rows that have a gap.
    pub gaps: Vec<f64>,
    /// Of these, those that have one in the column before as well.
    pub long_gaps: Vec<f64>,
    /// Weights of all rows, were they to have a gap before the column; of one more place than there are columns.
    pub edges: Vec<f64>,
}

/// Where a row has a gap and then a symbol, while a row of the other side has gaps in both columns, the latter row's
/// gap is one with an earlier one or not, which columns do not say: it is taken to be with this probability.
const UNSURE: f64 = 0.5;

impl Profile {
    /// Of some rows, each of which counts as `counts` says of its member.
    pub fn of(group: &Group, counts: &[f64], gaps: &Gaps) -> Self {
        let columns = group.columns();
        let mut profile = Self {
            filled: vec![0.0; columns],
            going_on: vec![0.0; columns],
            gaps: vec![0.0; columns],
            long_gaps: vec![0.0; columns],
            edges: vec![0.0; columns + 1],
            ..Self::default()
        };
        for (member, row) in group.members.iter().zip(&group.rows) {
            let count = counts.get(*member).copied().unwrap_or(1.0);
            profile.add(row, count, gaps);
        }
        profile.begins.push(0);
        for column in 0..columns {
            profile.count_symbols(group, counts, column);
            profile.begins.push(profile.symbols.len());
        }
        profile
    }

    fn add(&mut self, row: &[u32], count: f64, gaps: &Gaps) {
        let first = row.iter().position(|symbol| *symbol != GAP).unwrap_or(row.len());
        let behind = row.iter().rposition(|symbol| *symbol != GAP).map_or(0, |last| last + 1);
        let weight = |place: usize| {
            let open = if place <= first || place >= behind { gaps.end_open } else { gaps.open };
            (open - gaps.extend) * count
        };
        self.rows += count;
        let mut was_gap = None;
        for (place, symbol) in row.iter().enumerate() {
            let is_gap = *symbol == GAP;
            // A gap is at the begin with all its columns, or with none.
            if is_gap {
                let weight = weight(if place < first { 0 } else { place });
                self.gaps[place] += weight;
                self.long_gaps[place] += if was_gap == Some(true) { weight } else { 0.0 };
            } else {
                self.filled[place] += count;
                self.going_on[place] += match was_gap {
                    None => 0.0,
                    Some(false) => count,
                    Some(true) => UNSURE * count,
                };
            }
            self.edges[place] += weight(place);
            was_gap = Some(is_gap);
        }
        self.edges[row.len()] += weight(row.len());
    }

    fn count_symbols(&mut self, group: &Group, counts: &[f64], column: usize) {
        let begin = self.symbols.len();
        for (member, row) in group.members.iter().zip(&group.rows) {
            let count = counts.get(*member).copied().unwrap_or(1.0);
            let symbol = row[column];
            if symbol == GAP {
                continue;
            }
            match self.symbols[begin..].iter_mut().find(|(other, _)| *other == symbol) {
                Some((_, sum)) => *sum += count,
                None => self.symbols.push((symbol, count)),
            }
        }
        self.symbols[begin..].sort_unstable_by_key(|(symbol, _)| *symbol);
    }

    /// How many columns there are.
    pub const fn columns(&self) -> usize {
        self.filled.len()
    }

    /// The symbols of a column in order, each with its count.
    pub fn column(&self, column: usize) -> &[(u32, f64)] {
        &self.symbols[self.begins[column]..self.begins[column + 1]]
    }
}

#[cfg(test)]
mod tests {
    use super::Profile;
    use crate::align::group::{GAP, Group};
    use crate::align::scoring::Gaps;

    #[test]
    fn columns_by_hand() {
        let gaps = Gaps { open: 5.0, extend: 1.0, end_open: 3.0 };
        let rows =
            vec![vec![7, GAP, GAP, 8], vec![7, 8, 7, GAP], vec![GAP, GAP, 9, 8], vec![8, 8, 8, 8]];
        let group = Group { members: vec![0, 1, 2, 3], rows };
        let profile = Profile::of(&group, &[1.0, 2.0, 1.0, 1.0], &gaps);
        assert_eq!(profile.rows.to_bits(), 5.0_f64.to_bits());
        assert_eq!(profile.column(0), [(7, 3.0), (8, 1.0)]);
        assert_eq!(profile.column(2), [(7, 2.0), (8, 1.0), (9, 1.0)]);
        assert_eq!(profile.filled, [4.0, 3.0, 4.0, 3.0]);
        // Behind a gap half of it, in the first column none.
        assert_eq!(profile.going_on, [0.0, 3.0, 3.5, 2.5]);
        // Inside a row a gap is 4 dearer than a further symbol, at its ends 2.
        assert_eq!(profile.gaps, [2.0, 4.0 + 2.0, 4.0, 2.0 * 2.0]);
        assert_eq!(profile.long_gaps, [0.0, 2.0, 4.0, 0.0]);
        let inside = 4.0 + 2.0 * 4.0 + 4.0;
        assert_eq!(profile.edges, [10.0, inside + 2.0, inside + 2.0, 4.0 + 4.0 + 4.0 + 4.0, 10.0]);
    }
}
