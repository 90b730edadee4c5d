//! Multiple sequence alignment: paths of executions side by side, column by column.
//!
//! In three stages, as MUSCLE has them (Edgar, Nucleic Acids Research 32:1792, 2004; BMC Bioinformatics 5:113, 2004):
//! a draft along a tree of distances by common words ([`words`]), the same along a better tree of distances
//! in the draft itself ([`identity`]), and refinement, which cuts the tree at each of its edges and aligns both
//! sides anew ([`refine`]). Groups of rows are aligned by log-expectation in the first two stages, and by
//! the sum of pairs, which is what is refined, in the third ([`dynamic`]).
//!
//! Here, unlike there: any number of symbols; each pair of sequences counts the same, however many there are
//! of a kind, so equal sequences are aligned once and count as often as they occur; two gaps that face each other
//! between the same two matches cost as two gaps.
//!
//! The result depends on nothing but the sequences, and not on their order. It is no proven optimum: that is not
//! to be had for more than a few sequences.

mod band;
mod dynamic;
mod family;
pub mod fasta;
mod group;
mod identity;
mod pairs;
mod profile;
mod progressive;
mod refine;
mod scoring;
mod tree;
mod words;

#[cfg(test)]
mod properties;

use std::collections::BTreeMap;

use group::{GAP, Group};
use progressive::Aligner;
use scoring::Dense;

pub use family::AlignedFamily;
pub use pairs::sum_of_pairs;
pub use scoring::{Gaps, Scoring};

/// A state, or a kind of thread in a state: whatever the caller numbers. Any 32 bits.
pub type Symbol = u32;

/// Sequences that are aligned at most: their distances are kept for each pair.
pub const MAX_SEQUENCES: usize = 512;
/// Symbols of the longest sequence.
pub const MAX_LENGTH: usize = 100_000;
/// Symbols of all sequences together.
pub const MAX_SYMBOLS: usize = 1 << 22;
/// Rows times columns of the result, which takes 16 bytes for each.
pub const MAX_PLACES: usize = 1 << 23;

/// How sequences are aligned.
#[derive(Clone, Debug, PartialEq)]
pub struct AlignSettings {
    /// What a pair of symbols and a gap count; `None`: [`Scoring::by_identity`] of the sequences themselves.
    pub scoring: Option<Scoring>,
    /// How often refinement goes over the tree at most. It ends where a round changes nothing.
    pub rounds: u32,
    /// Cells of dynamic programming in all, of about ten nanoseconds each: what bounds the work. Each of the first two
    /// stages takes at most a quarter, with narrower bands where that is not enough, and refinement
    /// ends where all are used up. Up to four short sequences, which take next to nothing, are aligned several
    /// times, with that much for each.
    pub max_cells: u64,
}

impl Default for AlignSettings {
    /// At most some 40 seconds; sixteen rounds are more than families of a hundred paths need.
    fn default() -> Self {
        Self { scoring: None, rounds: 16, max_cells: 1 << 32 }
    }
}

/// Sequences side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alignment {
    /// Per sequence, per column: the index into that sequence, `None` where it has a gap. All rows are equally
    /// long, and no column is of gaps alone.
    pub rows: Vec<Vec<Option<usize>>>,
}

impl Alignment {
    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.rows.first().map_or(0, Vec::len)
    }
}

/// Why sequences cannot be aligned.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AlignError {
    #[error("{count} sequences are too many to align: choose {MAX_SEQUENCES} or fewer")]
    TooManySequences {
        /// How many there are.
        count: usize,
    },
    #[error(
        "sequence {} has {length} symbols, and {MAX_LENGTH} can be aligned: merge equal neighbours, or choose a shorter part",
        index + 1
    )]
    TooLong { index: usize, length: usize },
    #[error(
        "the sequences have {symbols} symbols in all, and {MAX_SYMBOLS} can be aligned: choose fewer or shorter ones"
    )]
    TooManySymbols { symbols: usize },
    #[error(
        "the sequences have too little in common: side by side they take more than {columns} columns; choose fewer or shorter ones"
    )]
    TooManyColumns {
        /// The columns at which it was given up.
        columns: usize,
    },
}

/// Aligns sequences. None, empty ones and a single one are aligned, too.
///
/// Memory: 20 bytes for each row and column of the result, at most 64 MiB for a table of dynamic programming, and
/// what the sequences take; below half a gigabyte at the bounds of this module.
/// Errors: more than the bounds of this module.
pub fn align(sequences: &[Vec<Symbol>], settings: &AlignSettings) -> Result<Alignment, AlignError> {
    within_bounds(sequences)?;
    let derived;
    let scoring = match &settings.scoring {
        Some(scoring) => scoring,
        None => {
            derived = Scoring::by_identity(sequences, Gaps::default());
            &derived
        }
    };
    let (dense, coded) = Dense::of(scoring, sequences);
    let max_columns = MAX_PLACES / sequences.len().max(1);
    let (group, _, numbers) = grouped(&coded, &dense, settings, max_columns)?;
    Ok(spread(&coded, &numbers, &group))
}

/// Rows of the sequences that differ, how often each of them occurs, and the number of each.
type GroupedSymbols<'s> = (Group, Vec<f64>, BTreeMap<&'s [u32], usize>);

fn grouped<'s>(
    coded: &'s [Vec<u32>],
    dense: &Dense,
    settings: &AlignSettings,
    max_columns: usize,
) -> Result<GroupedSymbols<'s>, AlignError> {
    let mut kinds: BTreeMap<&[u32], f64> = BTreeMap::new();
    for sequence in coded.iter().filter(|sequence| !sequence.is_empty()) {
        *kinds.entry(sequence).or_default() += 1.0;
    }
    let numbers = kinds.keys().enumerate().map(|(number, sequence)| (*sequence, number)).collect();
    let group = Aligner::new(&kinds, dense, settings, max_columns).align()?;
    Ok((group, kinds.into_values().collect(), numbers))
}

fn within_bounds(sequences: &[Vec<Symbol>]) -> Result<(), AlignError> {
    if sequences.len() > MAX_SEQUENCES {
        return Err(AlignError::TooManySequences { count: sequences.len() });
    }
    let long = sequences.iter().position(|sequence| sequence.len() > MAX_LENGTH);
    if let Some(index) = long {
        return Err(AlignError::TooLong { index, length: sequences[index].len() });
    }
    let symbols = sequences.iter().map(Vec::len).sum();
    if symbols > MAX_SYMBOLS {
        return Err(AlignError::TooManySymbols { symbols });
    }
    Ok(())
}

/// The rows of all sequences, from those of each kind.
fn spread(coded: &[Vec<u32>], numbers: &BTreeMap<&[u32], usize>, group: &Group) -> Alignment {
    let row = |sequence: &Vec<u32>| {
        let number = numbers.get(sequence.as_slice());
        let row = number.and_then(|number| group.row(*number));
        let Some(row) = row else { return vec![None; group.columns()] };
        cells(row)
    };
    Alignment { rows: coded.iter().map(row).collect() }
}

/// Which symbol of a row's sequence is in which column.
fn cells(row: &[u32]) -> Vec<Option<usize>> {
    let mut index = 0;
    let place = |symbol: &u32| {
        let is_symbol = *symbol != GAP;
        let place = is_symbol.then_some(index);
        index += usize::from(is_symbol);
        place
    };
    row.iter().map(place).collect()
}
