//! Two groups of rows side by side: dynamic programming with affine gaps (Gotoh, Journal of Molecular Biology
//! 162:705, 1982).
//!
//! What two columns count together is either the sum of all pairs between the groups, or their log-expectation
//! (Edgar, Nucleic Acids Research 32:1792, 2004): the logarithm of the mean odds of the pairs, times their
//! number. Gaps are the same in both: those of each pair of rows, with the quasi-natural count of openings (Altschul,
//! Journal of Theoretical Biology 138:297, 1989), which takes two neighbouring columns and what is between
//! them. So the best path is not always the best alignment by [`super::sum_of_pairs`], which knows all
//! columns.

use super::band::Band;
use super::group::{Op, Ops};
use super::profile::Profile;
use super::scoring::Dense;

/// What two columns count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The logarithm of the mean odds of the symbols, for each pair.
    LogExpectation,
    /// The scores of all pairs.
    SumOfPairs,
}

/// The best way to put two groups side by side within a band.
pub struct Found {
    /// That way.
    pub ops: Ops,
    /// Whether it goes along the band's edge, so that a wider one may have a better way.
    pub is_at_edge: bool,
}

const BOTH: u8 = 0;
const FIRST: u8 = 1;
const SECOND: u8 = 2;

/// The best scores of ways that end with a column of both, of the first, of the second, cell by cell.
struct Row {
    both: Vec<f64>,
    first: Vec<f64>,
    second: Vec<f64>,
}

impl Row {
    fn new(cells: usize) -> Self {
        let none = || vec![f64::NEG_INFINITY; cells];
        Self { both: none(), first: none(), second: none() }
    }

    fn forget(&mut self, cell: usize) {
        for part in [&mut self.both, &mut self.first, &mut self.second] {
            part[cell] = f64::NEG_INFINITY;
        }
    }
}

/// What a column of the first group brings along.
struct Column {
    filled: f64,
    empty: f64,
    going_on: f64,
    gaps: f64,
    long_gaps: f64,
}

/// A table, row by row.
struct Table<'a> {
    a: &'a Profile,
    b: &'a Profile,
    dense: &'a Dense,
    function: Function,
    band: &'a Band,
    /// Per cell of the band, where the best ways that end there with a column of both, the first, the second came
    /// from: two bits each.
    from: Vec<u8>,
    begins: Vec<usize>,
}

/// Finds the best way to put two groups side by side, neither of which has a column of gaps alone.
pub fn best(a: &Profile, b: &Profile, dense: &Dense, function: Function, band: &Band) -> Found {
    let mut begins = Vec::with_capacity(band.lows.len());
    let mut cells = 0;
    for (low, high) in band.lows.iter().zip(&band.highs) {
        begins.push(cells);
        cells += high - low;
    }
    let mut table = Table { a, b, dense, function, band, from: vec![0; cells], begins };
    let last = table.fill();
    table.trace(&last)
}

/// The better of three, the first of equals, and which that is.
fn best_of(both: f64, first: f64, second: f64) -> (f64, u8) {
    let (score, from) = if first > both { (first, FIRST) } else { (both, BOTH) };
    if second > score { (second, SECOND) } else { (score, from) }
}

impl Table<'_> {
    fn fill(&mut self) -> Row {
        let cells = self.b.columns() + 1;
        let (mut before, mut row) = (Row::new(cells), Row::new(cells));
        let mut sums = vec![0.0; self.dense.symbols()];
        let mut pairs = vec![0.0; cells];
        row.both[0] = 0.0;
        self.seconds(0, &mut row);
        for number in 1..=self.a.columns() {
            std::mem::swap(&mut before, &mut row);
            if let Some(left) = self.band.lows[number - 1].checked_sub(1) {
                before.forget(left);
            }
            self.pairs(number - 1, &mut sums, &mut pairs);
            self.boths_and_firsts(number, &before, &mut row, &pairs);
            self.seconds(number, &mut row);
        }
        row
    }

    /// What a column of the first group counts with each column of the second.
    fn pairs(&self, column: usize, sums: &mut [f64], pairs: &mut [f64]) {
        let is_expected = self.function == Function::LogExpectation;
        self.dense.sums(self.a.column(column), is_expected, sums);
        let filled = self.a.filled[column];
        let range = self.band.lows[column + 1].max(1)..self.band.highs[column + 1];
        for cell in range {
            let symbols = self.b.column(cell - 1).iter();
            let sum: f64 = symbols.map(|(symbol, count)| sums[*symbol as usize] * count).sum();
            pairs[cell] = if is_expected {
                let number = filled * self.b.filled[cell - 1];
                number * self.dense.per_nat * (sum / number).ln()
            } else {
                sum
            };
        }
    }

    fn boths_and_firsts(&mut self, number: usize, before: &Row, row: &mut Row, pairs: &[f64]) {
        let (low, high) = (self.band.lows[number], self.band.highs[number]);
        let a = Column {
            filled: self.a.filled[number - 1],
            empty: self.a.rows - self.a.filled[number - 1],
            going_on: self.a.going_on[number - 1],
            gaps: self.a.gaps[number - 1],
            long_gaps: self.a.long_gaps[number - 1],
        };
        let b = self.b;
        let extend = self.dense.gaps.extend;
        let begin = self.begins[number];
        let from = &mut self.from[begin..begin + high - low];
        let further = extend * a.filled * b.rows;
        for (from, cell) in from.iter_mut().zip(low..high) {
            let edge = b.edges[cell];
            let opened = a.filled * edge;
            let left_gaps = if cell > 0 { b.gaps[cell - 1] } else { 0.0 };
            let (first, first_from) = best_of(
                before.both[cell] - opened + a.going_on * left_gaps,
                before.first[cell] - opened + a.going_on * edge,
                before.second[cell] - opened,
            );
            row.first[cell] = first - further;
            *from = first_from << 2;
            let Some(column) = cell.checked_sub(1) else {
                row.both[cell] = f64::NEG_INFINITY;
                continue;
            };
            let b_filled = b.filled[column];
            let gaps_of_b = a.filled * b.gaps[column];
            let gaps_of_a = a.gaps * b_filled;
            let further = a.filled * (b.rows - b_filled) + a.empty * b_filled;
            let opened = gaps_of_a + gaps_of_b;
            let (both, both_from) = best_of(
                before.both[column] - opened
                    + a.going_on * b.long_gaps[column]
                    + a.long_gaps * b.going_on[column],
                before.first[column] - opened + a.going_on * b.gaps[column],
                before.second[column] - opened + a.gaps * b.going_on[column],
            );
            row.both[cell] = both + pairs[cell] - extend * further;
            *from |= both_from;
        }
    }

    fn seconds(&mut self, number: usize, row: &mut Row) {
        let (low, high) = (self.band.lows[number], self.band.highs[number]);
        let b = self.b;
        let edge = self.a.edges[number];
        let gaps = if number > 0 { self.a.gaps[number - 1] } else { 0.0 };
        let extend = self.dense.gaps.extend * self.a.rows;
        row.second[low] = f64::NEG_INFINITY;
        let begin = self.begins[number] + 1;
        let from = &mut self.from[begin..begin + high - low - 1];
        for (from, cell) in from.iter_mut().zip(low + 1..high) {
            let (filled, going_on) = (b.filled[cell - 1], b.going_on[cell - 1]);
            let opened = edge * filled;
            let (second, second_from) = best_of(
                row.both[cell - 1] - opened + gaps * going_on,
                row.first[cell - 1] - opened,
                row.second[cell - 1] - opened + edge * going_on,
            );
            row.second[cell] = second - extend * filled;
            *from |= second_from << 4;
        }
    }

    fn trace(&self, last: &Row) -> Found {
        let (mut row, mut cell) = (self.a.columns(), self.b.columns());
        let (_, mut state) = best_of(last.both[cell], last.first[cell], last.second[cell]);
        let mut ops = Vec::with_capacity(row + cell);
        let mut is_at_edge = false;
        while row > 0 || cell > 0 {
            let (low, high) = (self.band.lows[row], self.band.highs[row]);
            is_at_edge |=
                (cell == low && low > 0) || (cell + 1 == high && high <= self.b.columns());
            let from = self.from[self.begins[row] + cell - low];
            // Where nothing of the one is left, all ways are along the other.
            let (op, came) = match state {
                BOTH if row > 0 && cell > 0 => (Op::Both, from & 3),
                FIRST if row > 0 => (Op::First, from >> 2 & 3),
                _ if cell > 0 => (Op::Second, from >> 4 & 3),
                _ => (Op::First, FIRST),
            };
            ops.push(op);
            row -= usize::from(op != Op::Second);
            cell -= usize::from(op != Op::First);
            state = came;
        }
        ops.reverse();
        Found { ops, is_at_edge }
    }
}
