//! What a pair of symbols in one column counts, and what a gap costs.

use std::collections::BTreeMap;

use super::Symbol;

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
}

/// What alignments are judged by: one score of each symbol with itself, one of all others.
#[derive(Clone, Debug, PartialEq)]
pub struct Scoring {
    symbols: Vec<Symbol>,
    /// Of each symbol with itself.
    same: Vec<f64>,
    other: f64,
    /// Of a symbol that was not seen with itself.
    unseen: f64,
    per_nat: f64,
    gaps: Gaps,
}

impl Scoring {
    /// Log odds from the symbols' own frequencies, in nats: a symbol stayed as it was with probability p = 0.75, and
    /// else was drawn anew (the model of Felsenstein, Journal of Molecular Evolution 17:368, 1981). Two equal symbols
    /// of frequency f so count ln(p / f + 1 - p), two others ln(1 - p). One more than there are is counted of each.
    pub fn by_identity(sequences: &[Vec<Symbol>], gaps: Gaps) -> Self {
        let mut counts: BTreeMap<Symbol, f64> = BTreeMap::new();
        for symbol in sequences.iter().flatten() {
            *counts.entry(*symbol).or_insert(1.0) += 1.0;
        }
        let total = counts.values().sum::<f64>() + 1.0;
        let score = |count: f64| (KEPT * total / count + 1.0 - KEPT).ln();
        let same = counts.values().map(|count| score(*count)).collect();
        let (other, unseen) = ((1.0 - KEPT).ln(), score(1.0));
        Self { symbols: counts.into_keys().collect(), same, other, unseen, per_nat: 1.0, gaps }
    }

    /// Equal symbols count the same, whichever they are, with so many units for each nat.
    #[cfg(test)]
    pub fn plain(same: f64, other: f64, per_nat: f64, gaps: Gaps) -> Self {
        Self { symbols: Vec::new(), same: Vec::new(), other, unseen: same, per_nat, gaps }
    }

    pub const fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    /// Two symbols in one column of a pair. One that identity was not derived from counts as the rarest.
    pub fn score(&self, a: Symbol, b: Symbol) -> f64 {
        if a != b {
            return self.other;
        }
        let place = self.symbols.binary_search(&a).ok();
        place.and_then(|place| self.same.get(place)).copied().unwrap_or(self.unseen)
    }
}

/// Scores of the symbols that some sequences have, numbered from 0 on.
pub struct Dense {
    scores: IdentityScores,
    /// What the scores are the logarithm of.
    odds: IdentityScores,
    /// Units of the scores for each nat.
    pub per_nat: f64,
    pub gaps: Gaps,
}

/// Of each symbol with itself, and of all others.
struct IdentityScores {
    same: Vec<f64>,
    other: f64,
}

impl Dense {
    /// Scores of the symbols of some sequences, and those sequences in numbers.
    pub fn of(scoring: &Scoring, sequences: &[Vec<Symbol>]) -> (Self, Vec<Vec<u32>>) {
        let mut numbers: BTreeMap<Symbol, u32> =
            sequences.iter().flatten().map(|symbol| (*symbol, 0)).collect();
        for (number, slot) in (0..).zip(numbers.values_mut()) {
            *slot = number;
        }
        let code = |sequence: &Vec<Symbol>| {
            sequence.iter().filter_map(|symbol| numbers.get(symbol).copied()).collect()
        };
        let coded = sequences.iter().map(code).collect();
        let same: Vec<f64> = numbers.keys().map(|symbol| scoring.score(*symbol, *symbol)).collect();
        let odds = |score: &f64| (score / scoring.per_nat).exp();
        let dense = Self {
            odds: IdentityScores {
                same: same.iter().map(odds).collect(),
                other: odds(&scoring.other),
            },
            scores: IdentityScores { same, other: scoring.other },
            per_nat: scoring.per_nat,
            gaps: scoring.gaps,
        };
        (dense, coded)
    }

    /// How many symbols there are.
    pub const fn symbols(&self) -> usize {
        self.scores.same.len()
    }

    /// Two symbols in one column of a pair.
    pub fn score(&self, a: u32, b: u32) -> f64 {
        if a == b { self.scores.same[a as usize] } else { self.scores.other }
    }

    /// For each symbol, the sum of its scores with those of a column, each times its count; `sums` is as long as
    /// there are symbols. With `odds`, of the odds that the scores are the logarithm of.
    pub fn sums(&self, column: &[(u32, f64)], odds: bool, sums: &mut [f64]) {
        let IdentityScores { same, other } = if odds { &self.odds } else { &self.scores };
        sums.fill(other * column.iter().map(|(_, count)| count).sum::<f64>());
        for (symbol, count) in column {
            let symbol = *symbol as usize;
            sums[symbol] += (same[symbol] - other) * count;
        }
    }
}
