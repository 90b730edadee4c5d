//! Along a tree: groups of rows are put side by side, the nearest first, until all are one group.

use std::collections::{BTreeMap, HashMap};

use super::band::Guide;
use super::dynamic::{Function, TABLE_CELLS, best};
use super::group::{Group, Ops};
use super::profile::Profile;
use super::refine::{Refinement, total};
use super::scoring::Dense;
use super::tree::{Distances, Tree};
use super::{AlignError, AlignSettings, identity, words};

/// A table whose best way goes along the edge of its band is made anew, twice as wide, so often.
const WIDENED: usize = 2;

/// So many sequences, of so many symbols in all, are aligned along further trees in no time.
const FEW: usize = 4;
const FEW_SYMBOLS: usize = 1024;

/// Different sequences, and how they are aligned.
pub struct Aligner<'a> {
    sequences: Vec<&'a [u32]>,
    counts: Vec<f64>,
    dense: &'a Dense,
    settings: &'a AlignSettings,
    max_columns: usize,
}

impl<'a> Aligner<'a> {
    /// For sequences that differ, none of them empty, with how often each occurs.
    pub fn new(
        kinds: &BTreeMap<&'a [u32], f64>,
        dense: &'a Dense,
        settings: &'a AlignSettings,
        max_columns: usize,
    ) -> Self {
        let sequences = kinds.keys().copied().collect();
        let counts = kinds.values().copied().collect();
        Self { sequences, counts, dense, settings, max_columns }
    }

    pub fn align(&self) -> Result<Group, AlignError> {
        if self.sequences.len() < 2 {
            let all = self.sequences.iter().enumerate();
            return Ok(all
                .map(|(member, one)| Group::single(member, one))
                .next()
                .unwrap_or_default());
        }
        let mut known = HashMap::new();
        let mut made: HashMap<usize, Ops> = HashMap::new();
        let tree = Tree::upgma(self.word_distances());
        let draft = self.along(&tree, &mut known, &mut made)?;
        let distances = self.distances_in(&draft);
        let better = Tree::upgma(distances.clone());
        let improved = self.along(&better, &mut known, &mut made)?;
        let group = self.better(draft, improved);
        let mut best = self.refined(&better, group)?;
        for (x, y) in self.other_beginnings() {
            let tree = Tree::upgma(distances.clone().with_nearest(x, y));
            let group = self.along(&tree, &mut known, &mut made)?;
            best = self.better(best, self.refined(&tree, group)?);
        }
        Ok(best)
    }

    /// The pairs that further trees join first: all where there is little to do, for refinement goes but one step at a
    /// time, and comes to another end from another begin.
    fn other_beginnings(&self) -> Vec<(usize, usize)> {
        let of = self.sequences.len();
        let symbols: usize = self.sequences.iter().map(|sequence| sequence.len()).sum();
        if of > FEW || symbols > FEW_SYMBOLS {
            return Vec::new();
        }
        (0..of).flat_map(|x| (0..x).map(move |y| (x, y))).collect()
    }

    /// The one with the higher score, the first of equals.
    fn better(&self, a: Group, b: Group) -> Group {
        let score = |group| total(group, &self.counts, self.dense);
        if score(&b) > score(&a) { b } else { a }
    }

    fn refined(&self, tree: &Tree, group: Group) -> Result<Group, AlignError> {
        let refinement = Refinement {
            tree,
            counts: &self.counts,
            dense: self.dense,
            max_columns: self.max_columns,
            rounds: self.settings.rounds,
            // What the first two stages leave at least.
            cells: self.settings.max_cells / 2,
        };
        refinement.refine(group)
    }

    fn word_distances(&self) -> Distances {
        let symbols = self.dense.symbols();
        let length = words::length(&self.sequences, symbols);
        let sorted = |sequence: &&[u32]| words::sorted(sequence, symbols, length);
        let words: Vec<_> = self.sequences.iter().map(sorted).collect();
        Distances::new(words.len(), |x, y| words::distance(&words[x], &words[y]))
    }

    fn distances_in(&self, group: &Group) -> Distances {
        let mut symbols = vec![0.0; self.dense.symbols()];
        for (sequence, count) in self.sequences.iter().zip(&self.counts) {
            for symbol in *sequence {
                symbols[*symbol as usize] += count;
            }
        }
        let unrelated = identity::unrelated(&symbols);
        let rows: Vec<&[u32]> =
            (0..self.sequences.len()).filter_map(|member| group.row(member)).collect();
        Distances::new(rows.len(), |x, y| identity::distance(rows[x], rows[y], unrelated))
    }

    /// Puts groups together along a tree. What `made` has for a shape of the tree is taken from there.
    fn along(
        &self,
        tree: &Tree,
        known: &mut HashMap<(usize, usize), usize>,
        made: &mut HashMap<usize, Ops>,
    ) -> Result<Group, AlignError> {
        let shapes = tree.shapes(known);
        let single = |(member, sequence): (usize, &&[u32])| Group::single(member, sequence);
        let mut groups: Vec<Group> = self.sequences.iter().enumerate().map(single).collect();
        for (a, b) in &tree.joins {
            let shape = shapes[groups.len()];
            let (a, b) = (std::mem::take(&mut groups[*a]), std::mem::take(&mut groups[*b]));
            let ops = made.entry(shape).or_insert_with(|| self.put(&a, &b));
            groups.push(Group::join(&a, &b, ops, self.max_columns)?);
        }
        Ok(groups.pop().unwrap_or_default())
    }

    /// How two groups are put side by side best.
    fn put(&self, a: &Group, b: &Group) -> Ops {
        let gaps = &self.dense.gaps;
        let (a, b) = (Profile::of(a, &self.counts, gaps), Profile::of(b, &self.counts, gaps));
        let joins = self.sequences.len() as u64;
        // Seven of these at most, where it is widened twice, for each join: less than a quarter.
        let cells = usize::try_from(self.settings.max_cells / (32 * joins)).unwrap_or(TABLE_CELLS);
        let mut cells = cells.min(TABLE_CELLS >> WIDENED);
        let guide = Guide::of_profiles(&a, &b, cells);
        let mut widened = 0;
        loop {
            let band = guide.band(cells);
            let found = best(&a, &b, self.dense, Function::LogExpectation, &band);
            if !found.is_at_edge || widened == WIDENED {
                return found.ops;
            }
            cells *= 2;
            widened += 1;
        }
    }
}
