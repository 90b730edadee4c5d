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

/// Cells of one table of dynamic programming, each a byte.
pub const TABLE_CELLS: usize = 1 << 26;

/// What two columns count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The logarithm of the mean odds of the symbols, for each pair.
    LogExpectation,
    /// The scores of all pairs.
    SumOfPairs,
}

/// The best way to put two groups side by side within a band.
pub struct FoundAlignment {
    pub ops: Ops,
    /// Whether it goes along the band's edge, so that a wider one may have a better way.
    pub is_at_edge: bool,
}

const BOTH: u8 = 0;
const FIRST: u8 = 1;
const SECOND: u8 = 2;

/// The best scores of ways that end with a column of both, of the first, of the second, cell by cell.
struct ScoreRow {
    both: Vec<f64>,
    first: Vec<f64>,
    second: Vec<f64>,
}

impl ScoreRow {
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

/// The second group's columns, of which number `n` is at cell `n + 1`, so that the cells of all rows have the same
/// numbers; at cell 0 there is nothing.
struct AlignmentColumns {
    filled: Vec<f64>,
    empty: Vec<f64>,
    going_on: Vec<f64>,
    gaps: Vec<f64>,
    long_gaps: Vec<f64>,
}

impl AlignmentColumns {
    fn of(profile: &Profile) -> Self {
        let shifted = |values: &[f64]| [&[0.0], values].concat();
        let empty = profile.filled.iter().map(|filled| profile.rows - filled);
        Self {
            filled: shifted(&profile.filled),
            empty: shifted(&empty.collect::<Vec<_>>()),
            going_on: shifted(&profile.going_on),
            gaps: shifted(&profile.gaps),
            long_gaps: shifted(&profile.long_gaps),
        }
    }
}

/// A table, row by row.
struct AlignmentTable<'a> {
    a: &'a Profile,
    b: &'a Profile,
    columns: AlignmentColumns,
    dense: &'a Dense,
    function: Function,
    band: &'a Band,
    /// Per cell of the band, where the best ways that end there with a column of both, the first, the second came
    /// from: two bits each.
    from: Vec<u8>,
    begins: Vec<usize>,
    /// Of a row, the best ways that end with one column of the second, not more.
    shorter: Vec<f64>,
}

/// Finds the best way to put two groups side by side, neither of which has a column of gaps alone.
pub fn best(
    a: &Profile,
    b: &Profile,
    dense: &Dense,
    function: Function,
    band: &Band,
) -> FoundAlignment {
    let mut begins = Vec::with_capacity(band.lows.len());
    let mut cells = 0;
    for (low, high) in band.lows.iter().zip(&band.highs) {
        begins.push(cells);
        cells += high - low;
    }
    let (columns, from) = (AlignmentColumns::of(b), vec![0; cells]);
    let shorter = vec![0.0; b.columns() + 1];
    let mut table = AlignmentTable { a, b, columns, dense, function, band, from, begins, shorter };
    let last = table.fill();
    table.trace(&last)
}

/// The better of three, the first of equals, and which that is.
fn best_of(both: f64, first: f64, second: f64) -> (f64, u8) {
    let (score, from) = if first > both { (first, FIRST) } else { (both, BOTH) };
    if second > score { (second, SECOND) } else { (score, from) }
}

impl AlignmentTable<'_> {
    fn fill(&mut self) -> ScoreRow {
        let cells = self.b.columns() + 1;
        let (mut before, mut row) = (ScoreRow::new(cells), ScoreRow::new(cells));
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

    /// The loops here and in [`Self::seconds`] are without branches and go over slices of one length, so that the compiler
    /// makes them vector instructions; they take nearly all the time of an alignment.
    fn boths_and_firsts(
        &mut self,
        number: usize,
        before: &ScoreRow,
        row: &mut ScoreRow,
        pairs: &[f64],
    ) {
        let (low, high) = (self.band.lows[number], self.band.highs[number]);
        let begin = self.begins[number];
        let from = &mut self.from[begin..begin + high - low];
        let (a, b) = (self.a, &self.columns);
        let (filled, going_on) = (a.filled[number - 1], a.going_on[number - 1]);
        let (empty, extend) = (a.rows - filled, self.dense.gaps.extend);
        let (gaps, long_gaps) = (a.gaps[number - 1], a.long_gaps[number - 1]);

        let further = extend * filled * self.b.rows;
        let cells = low..high;
        let count = cells.len();
        let edges = &self.b.edges[cells.clone()][..count];
        let gaps_of_b = &b.gaps[cells.clone()][..count];
        let was_both = &before.both[cells.clone()][..count];
        let was_first = &before.first[cells.clone()][..count];
        let was_second = &before.second[cells.clone()][..count];
        let first = &mut row.first[cells][..count];
        let from_first = &mut from[..count];
        for n in 0..count {
            let opened = filled * edges[n];
            let (score, came) = best_of(
                was_both[n] - opened + going_on * gaps_of_b[n],
                was_first[n] - opened + going_on * edges[n],
                was_second[n] - opened,
            );
            first[n] = score - further;
            from_first[n] = came << 2;
        }

        if low == 0 {
            row.both[0] = f64::NEG_INFINITY;
        }
        let cells = low.max(1)..high;
        let left = cells.start - 1..high - 1;
        let count = cells.len();
        let from = &mut from[cells.start - low..][..count];
        let (b_filled, b_empty) =
            (&b.filled[cells.clone()][..count], &b.empty[cells.clone()][..count]);
        let b_going_on = &b.going_on[cells.clone()][..count];
        let (b_gaps, b_long) =
            (&b.gaps[cells.clone()][..count], &b.long_gaps[cells.clone()][..count]);
        let was_both = &before.both[left.clone()][..count];
        let was_first = &before.first[left.clone()][..count];
        let was_second = &before.second[left][..count];
        let pairs = &pairs[cells.clone()][..count];
        let both = &mut row.both[cells][..count];
        for n in 0..count {
            let opened = filled * b_gaps[n] + gaps * b_filled[n];
            let (score, came) = best_of(
                was_both[n] - opened + going_on * b_long[n] + long_gaps * b_going_on[n],
                was_first[n] - opened + going_on * b_gaps[n],
                was_second[n] - opened + gaps * b_going_on[n],
            );
            let further = filled * b_empty[n] + empty * b_filled[n];
            both[n] = score + pairs[n] - extend * further;
            from[n] |= came;
        }
    }

    fn seconds(&mut self, number: usize, row: &mut ScoreRow) {
        let (low, high) = (self.band.lows[number], self.band.highs[number]);
        let begin = self.begins[number];
        let from = &mut self.from[begin + 1..begin + high - low];
        let edge = self.a.edges[number];
        let gaps = number.checked_sub(1).map_or(0.0, |column| self.a.gaps[column]);
        let extend = self.dense.gaps.extend * self.a.rows;
        let (cells, left) = (low + 1..high, low..high - 1);
        let count = cells.len();
        let filled = &self.columns.filled[cells.clone()][..count];
        let going_on = &self.columns.going_on[cells.clone()][..count];
        let was_both = &row.both[left.clone()][..count];
        let was_first = &row.first[left][..count];
        let shorter = &mut self.shorter[cells.clone()][..count];
        let from = &mut from[..count];
        for n in 0..count {
            let further = (edge + extend) * filled[n];
            let both = was_both[n] + gaps * going_on[n];
            let is_first = was_first[n] > both;
            shorter[n] = if is_first { was_first[n] } else { both } - further;
            from[n] |= u8::from(is_first) << 4;
        }
        row.second[low] = f64::NEG_INFINITY;
        let second = &mut row.second[cells][..count];
        // Each cell needs the one before: as little as possible is in this loop.
        let mut score = f64::NEG_INFINITY;
        for n in 0..count {
            let longer = score + (edge * going_on[n] - (edge + extend) * filled[n]);
            score = if longer > shorter[n] { longer } else { shorter[n] };
            second[n] = score;
        }
        for n in 0..count {
            let is_longer = second[n] > shorter[n];
            from[n] = if is_longer { from[n] & 0xf | SECOND << 4 } else { from[n] };
        }
    }

    fn trace(&self, last: &ScoreRow) -> FoundAlignment {
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
        FoundAlignment { ops, is_at_edge }
    }
}

#[cfg(test)]
mod tests {
    use super::{AlignmentColumns, AlignmentTable, Band, Function, Op, best};
    use crate::align::group::{GAP, Group};
    use crate::align::profile::Profile;
    use crate::align::scoring::{Dense, Gaps, Scoring};

    const GAPS: Gaps = Gaps { open: 5.0, extend: 1.0, end_open: 3.0 };

    /// Equal symbols count 2, others -1; two units for each nat.
    fn dense(gaps: Gaps) -> Dense {
        Dense::of(&Scoring::plain(2.0, -1.0, 2.0, gaps), &[vec![0, 1, 2]]).0
    }

    fn profile(rows: &[&[u32]], counts: &[f64], gaps: &Gaps) -> Profile {
        let rows: Vec<_> = rows.iter().map(|row| row.to_vec()).collect();
        Profile::of(&Group { members: (0..rows.len()).collect(), rows }, counts, gaps)
    }

    /// What the first column of each counts with the other.
    fn pair(a: &Profile, b: &Profile, function: Function) -> f64 {
        let dense = dense(GAPS);
        let band = Band::all(a.columns(), b.columns());
        let table = AlignmentTable {
            a,
            b,
            columns: AlignmentColumns::of(b),
            dense: &dense,
            function,
            band: &band,
            from: vec![],
            begins: vec![],
            shorter: vec![],
        };
        let mut pairs = vec![0.0; 2];
        table.pairs(0, &mut [0.0; 3], &mut pairs);
        pairs[1]
    }

    #[test]
    fn columns_by_hand() {
        // Once 0, twice 1, once a gap; against once 0, once 2.
        let a = profile(&[&[0], &[1], &[GAP]], &[1.0, 2.0, 1.0], &GAPS);
        let b = profile(&[&[0], &[2]], &[1.0, 1.0], &GAPS);
        // Of six pairs one is of equal symbols.
        let sum = pair(&a, &b, Function::SumOfPairs);
        assert!((sum - (2.0 - 5.0)).abs() < 1e-12, "{sum}");
        let expected = pair(&a, &b, Function::LogExpectation);
        let odds = (1.0_f64.exp() + 5.0 * (-0.5_f64).exp()) / 6.0;
        assert!((expected - 6.0 * 2.0 * odds.ln()).abs() < 1e-12, "{expected}");
        // Of single symbols the expectation is the score.
        let (one, other) = (profile(&[&[0]], &[1.0], &GAPS), profile(&[&[1]], &[1.0], &GAPS));
        assert!((pair(&one, &other, Function::LogExpectation) + 1.0).abs() < 1e-12);
        assert!((pair(&one, &other, Function::SumOfPairs) + 1.0).abs() < 1e-12);
    }

    fn ops(a: &[&[u32]], b: &[&[u32]], gaps: Gaps) -> String {
        let (a, b) = (profile(a, &[1.0; 3], &gaps), profile(b, &[1.0; 3], &gaps));
        let band = Band::all(a.columns(), b.columns());
        let found = best(&a, &b, &dense(gaps), Function::SumOfPairs, &band);
        assert!(!found.is_at_edge);
        let letter = |op: &Op| match op {
            Op::Both => '|',
            Op::First => '1',
            Op::Second => '2',
        };
        found.ops.iter().map(letter).collect()
    }

    #[test]
    fn gaps_by_hand() {
        // One gap of three is 7, and a match 2: it is better than three symbols that differ and a gap at the end.
        let whole: &[u32] = &[0, 1, 1, 2, 2, 2, 1, 0, 0];
        assert_eq!(ops(&[whole], &[&[0, 1, 1, 1, 0, 0]], GAPS), "|||111|||");
        assert_eq!(ops(&[&[0, 1, 1, 1, 0, 0]], &[whole], GAPS), "|||222|||");
        // Two gaps cost 10, and a pair that differs 1: it stays one, unless gaps cost less than half of that.
        assert_eq!(ops(&[&[0, 0, 1, 0, 0]], &[&[0, 0, 2, 0, 0]], GAPS), "|||||");
        let cheap = Gaps { open: 0.4, extend: 0.4, end_open: 0.4 };
        assert_eq!(ops(&[&[0, 0, 1, 0, 0]], &[&[0, 0, 2, 0, 0]], cheap).len(), 6);
        // The same symbol could be either; at an end the gap is cheaper.
        assert_eq!(ops(&[&[0, 0, 0]], &[&[0, 0]], Gaps { end_open: 6.0, ..GAPS }), "|1|");
        let at_end = ops(&[&[0, 0, 0]], &[&[0, 0]], GAPS);
        assert!(["1||", "||1"].contains(&at_end.as_str()), "{at_end}");
    }

    #[test]
    fn gaps_join_those_of_the_group() {
        // The first group has a gap already, which is made longer rather than a second one opened.
        let group: [&[u32]; 2] = [&[0, 1, 2, 2, 0, 1], &[0, 1, GAP, 2, 0, 1]];
        assert_eq!(ops(&group, &[&[0, 1, 2, 0, 1]], GAPS), "||1|||");
    }
}
