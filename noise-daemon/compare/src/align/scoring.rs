//! What a pair of symbols in one column counts, and what a gap costs.

use std::collections::BTreeMap;

use super::{AlignError, Symbol};

/// The share of symbols that are taken to have stayed what they were between two executions, where scores are
/// derived from identity.
const KEPT: f64 = 0.75;

/// What gaps cost, in the unit of the scores; none is negative. A gap of `n` symbols costs `open + (n - 1) * extend`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gaps {
    /// The first symbol of a gap between two matches of a pair.
    pub open: f64,
    pub extend: f64,
    /// The first symbol of a gap before the first match of a pair, or behind its last one.
    pub end_open: f64,
}

impl Default for Gaps {
    /// In nats: a gap begins at one of 20 symbols and goes on at three of four. Ends cost the same, for
    /// executions begin and end with the same events.
    fn default() -> Self {
        Self { open: 20.0_f64.ln(), extend: (4.0_f64 / 3.0).ln(), end_open: 20.0_f64.ln() }
    }
}

impl Gaps {
    /// Of a gap of so many symbols.
    pub(super) fn cost(&self, symbols: u64, is_end: bool) -> f64 {
        let open = if is_end { self.end_open } else { self.open };
        match symbols {
            0 => 0.0,
            _ => open + (symbols - 1) as f64 * self.extend,
        }
    }

    fn are_costs(&self) -> bool {
        [self.open, self.extend, self.end_open].iter().all(|cost| cost.is_finite() && *cost >= 0.0)
    }
}

/// What alignments are judged by.
#[derive(Clone, Debug, PartialEq)]
pub struct Scoring {
    symbols: Vec<Symbol>,
    pairs: SubstitutionMatrix,
    per_nat: f64,
    gaps: Gaps,
}

/// Scores of pairs of numbers.
#[derive(Clone, Debug, PartialEq)]
enum SubstitutionMatrix {
    /// One score of each symbol with itself, one of all others; and of a symbol that was not seen with itself.
    Identity {
        same: Vec<f64>,
        other: f64,
        unseen: f64,
    },
    Table(Vec<f64>),
}

impl Scoring {
    /// Log odds from the symbols' own frequencies, in nats: a symbol stayed as it was with probability p = 0.75,
    /// and else was drawn anew (the model of Felsenstein, Journal of Molecular Evolution 17:368, 1981). Two equal
    /// symbols of frequency f so count ln(p / f + 1 - p), two others ln(1 - p). One more than there are is
    /// counted of each.
    pub fn by_identity(sequences: &[Vec<Symbol>], gaps: Gaps) -> Self {
        let mut counts: BTreeMap<Symbol, f64> = BTreeMap::new();
        for symbol in sequences.iter().flatten() {
            *counts.entry(*symbol).or_insert(1.0) += 1.0;
        }
        let total = counts.values().sum::<f64>() + 1.0;
        let score = |count: f64| (KEPT * total / count + 1.0 - KEPT).ln();
        let same = counts.values().map(|count| score(*count)).collect();
        let pairs =
            SubstitutionMatrix::Identity { same, other: (1.0 - KEPT).ln(), unseen: score(1.0) };
        Self { symbols: counts.into_keys().collect(), pairs, per_nat: 1.0, gaps }
    }

    /// A table, row by row, of as many rows and columns as there are symbols. Its scores are log odds with
    /// `per_nat` units for each nat (2.885 where they are in half bits).
    ///
    /// Errors: a table that is not square or not symmetric, a symbol that is there twice, what is no number, and
    /// negative costs.
    pub fn by_table(
        symbols: &[Symbol],
        scores: &[f64],
        per_nat: f64,
        gaps: Gaps,
    ) -> Result<Self, AlignError> {
        let bad = |reason| Err(AlignError::Scoring(reason));
        let n = symbols.len();
        if n.checked_mul(n) != Some(scores.len()) {
            return bad("a table of scores has a row and a column for each symbol");
        }
        if scores.iter().any(|score| !score.is_finite()) || !(per_nat.is_finite() && per_nat > 0.0)
        {
            return bad("scores and their unit are numbers, and the unit is positive");
        }
        if !gaps.are_costs() {
            return bad("what gaps cost is not negative");
        }
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by_key(|number| symbols[*number]);
        let sorted: Vec<Symbol> = order.iter().map(|number| symbols[*number]).collect();
        if sorted.windows(2).any(|two| two[0] == two[1]) {
            return bad("a symbol is twice in the table of scores");
        }
        let row = |x: &usize| order.iter().map(|y| scores[x * n + y]).collect::<Vec<_>>();
        let table: Vec<f64> = order.iter().flat_map(row).collect();
        let is_symmetric = (0..n).all(|x| (0..x).all(|y| table[x * n + y] == table[y * n + x]));
        if !is_symmetric {
            return bad("a table of scores is symmetric");
        }
        Ok(Self { symbols: sorted, pairs: SubstitutionMatrix::Table(table), per_nat, gaps })
    }

    pub const fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    /// Two symbols in one column of a pair. One that a table does not have counts as the worst that it has; one that
    /// identity was not derived from, as the rarest.
    pub fn score(&self, a: Symbol, b: Symbol) -> f64 {
        let (x, y) = (self.symbols.binary_search(&a), self.symbols.binary_search(&b));
        match &self.pairs {
            SubstitutionMatrix::Identity { same, unseen, .. } if a == b => {
                x.ok().and_then(|x| same.get(x)).copied().unwrap_or(*unseen)
            }
            SubstitutionMatrix::Identity { other, .. } => *other,
            SubstitutionMatrix::Table(scores) => match (x, y) {
                (Ok(x), Ok(y)) => scores[x * self.symbols.len() + y],
                _ => scores.iter().copied().reduce(f64::min).unwrap_or(0.0),
            },
        }
    }
}

/// Scores of the symbols that some sequences have, numbered from 0 on.
pub struct Dense {
    symbols: usize,
    scores: SubstitutionScores,
    /// What the scores are the logarithm of.
    odds: SubstitutionScores,
    /// Units of the scores for each nat.
    pub per_nat: f64,
    pub gaps: Gaps,
}

enum SubstitutionScores {
    Identity { same: Vec<f64>, other: f64 },
    Table(Vec<f64>),
}

impl SubstitutionScores {
    fn map(&self, value: impl Fn(f64) -> f64) -> Self {
        let all = |scores: &[f64]| scores.iter().map(|score| value(*score)).collect();
        match self {
            Self::Identity { same, other } => {
                Self::Identity { same: all(same), other: value(*other) }
            }
            Self::Table(scores) => Self::Table(all(scores)),
        }
    }
}

impl Dense {
    /// Scores of the symbols of some sequences, and those sequences in numbers.
    pub fn of(
        scoring: &Scoring,
        sequences: &[Vec<Symbol>],
    ) -> Result<(Self, Vec<Vec<u32>>), AlignError> {
        let mut numbers: BTreeMap<Symbol, u32> =
            sequences.iter().flatten().map(|symbol| (*symbol, 0)).collect();
        for (number, slot) in (0..).zip(numbers.values_mut()) {
            *slot = number;
        }
        let is_missing = |symbol: &&Symbol| scoring.symbols.binary_search(symbol).is_err();
        if let SubstitutionMatrix::Table(_) = scoring.pairs
            && let Some(symbol) = numbers.keys().find(is_missing)
        {
            let index = sequences.iter().position(|sequence| sequence.contains(symbol));
            return Err(AlignError::NoScore { symbol: *symbol, index: index.unwrap_or(0) });
        }
        let row = |x: &Symbol| numbers.keys().map(|y| scoring.score(*x, *y)).collect::<Vec<_>>();
        let scores = match &scoring.pairs {
            SubstitutionMatrix::Identity { other, .. } => SubstitutionScores::Identity {
                same: numbers.keys().map(|symbol| scoring.score(*symbol, *symbol)).collect(),
                other: *other,
            },
            SubstitutionMatrix::Table(_) => {
                SubstitutionScores::Table(numbers.keys().flat_map(row).collect())
            }
        };
        let code = |sequence: &Vec<Symbol>| {
            sequence.iter().filter_map(|symbol| numbers.get(symbol).copied()).collect()
        };
        let coded = sequences.iter().map(code).collect();
        let per_nat = scoring.per_nat;
        let odds = scores.map(|score| (score / per_nat).exp());
        let dense = Self { symbols: numbers.len(), scores, odds, per_nat, gaps: scoring.gaps };
        Ok((dense, coded))
    }

    /// How many symbols there are.
    pub const fn symbols(&self) -> usize {
        self.symbols
    }

    /// Two symbols in one column of a pair.
    pub fn score(&self, a: u32, b: u32) -> f64 {
        match &self.scores {
            SubstitutionScores::Identity { same, .. } if a == b => same[a as usize],
            SubstitutionScores::Identity { other, .. } => *other,
            SubstitutionScores::Table(scores) => scores[a as usize * self.symbols + b as usize],
        }
    }

    /// For each symbol, the sum of its scores with those of a column, each times its count; `sums` is as long as
    /// there are symbols. With `odds`, of the odds that the scores are the logarithm of.
    pub fn sums(&self, column: &[(u32, f64)], odds: bool, sums: &mut [f64]) {
        match if odds { &self.odds } else { &self.scores } {
            SubstitutionScores::Identity { same, other } => {
                sums.fill(other * column.iter().map(|(_, count)| count).sum::<f64>());
                for (symbol, count) in column {
                    let symbol = *symbol as usize;
                    sums[symbol] += (same[symbol] - other) * count;
                }
            }
            SubstitutionScores::Table(scores) => {
                sums.fill(0.0);
                for (symbol, count) in column {
                    let begin = *symbol as usize * self.symbols;
                    let row = &scores[begin..begin + self.symbols];
                    for (sum, score) in sums.iter_mut().zip(row) {
                        *sum += score * count;
                    }
                }
            }
        }
    }
}
