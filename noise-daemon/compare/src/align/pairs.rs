//! The sum of pairs: what alignments are judged by, ours and those of others.

use super::{Alignment, Gaps, Scoring, Symbol};

/// The score of an alignment: of each pair of rows, the scores of the symbols that share a column, less what the
/// pair's gaps cost. Columns in which both have a gap do not count. Between two columns in which both have a
/// symbol each row has one gap at most, as long as all symbols of the other there. Before the first and behind the last
/// such column one gap is at an end; where both rows have one there, the other lies between symbols of its row.
///
/// Takes time for each pair and column. Indices that a sequence does not have count as gaps.
pub fn sum_of_pairs(sequences: &[Vec<Symbol>], alignment: &Alignment, scoring: &Scoring) -> f64 {
    let symbols = |(row, sequence): (&Vec<Option<usize>>, &Vec<Symbol>)| {
        let symbol = |index: &Option<usize>| index.and_then(|index| sequence.get(index).copied());
        row.iter().map(symbol).collect::<Vec<_>>()
    };
    let rows: Vec<_> = alignment.rows.iter().zip(sequences).map(symbols).collect();
    let mut sum = 0.0;
    for (number, a) in rows.iter().enumerate() {
        for b in rows.iter().skip(number + 1) {
            sum += pair(a, b, scoring);
        }
    }
    sum
}

fn pair(a: &[Option<Symbol>], b: &[Option<Symbol>], scoring: &Scoring) -> f64 {
    let mut sum = 0.0;
    let mut gaps = PairGaps::default();
    for (a, b) in a.iter().zip(b) {
        match (a, b) {
            (Some(a), Some(b)) => {
                sum += scoring.score(*a, *b);
                sum -= gaps.matched(scoring.gaps());
            }
            (Some(_), None) => gaps.alone[0] += 1,
            (None, Some(_)) => gaps.alone[1] += 1,
            (None, None) => {}
        }
    }
    sum - gaps.ended(scoring.gaps())
}

/// The gaps of a pair since the last column in which both have a symbol.
#[derive(Default)]
pub(super) struct PairGaps {
    /// Symbols of each that stand alone.
    pub alone: [u64; 2],
    is_inside: bool,
}

impl PairGaps {
    /// What the gaps cost that end at a column in which both have a symbol.
    pub fn matched(&mut self, gaps: &Gaps) -> f64 {
        let ends = usize::from(!self.is_inside);
        self.is_inside = true;
        match std::mem::take(&mut self.alone) {
            [0, 0] => 0.0,
            alone => cost(alone, gaps, ends),
        }
    }

    /// What those cost that the rows end with.
    pub fn ended(&self, gaps: &Gaps) -> f64 {
        cost(self.alone, gaps, if self.is_inside { 1 } else { 2 })
    }
}

/// What gaps of so many symbols cost between two matches of a pair, of which `ends` are an end of the rows.
fn cost(alone: [u64; 2], gaps: &Gaps, ends: usize) -> f64 {
    let lengths = alone.into_iter().filter(|symbols| *symbols > 0);
    lengths.zip(0..).map(|(symbols, number)| gaps.cost(symbols, number < ends)).sum()
}
