//! Refinement: the tree is cut at each of its edges, and what lies on both sides is aligned anew; that is kept where the
//! sum of pairs does not fall.

use super::AlignError;
use super::band::Guide;
use super::dynamic::{Function, TABLE_CELLS, best};
use super::group::{GAP, Group, Op, Ops};
use super::pairs::PairGaps;
use super::profile::Profile;
use super::scoring::{Dense, Gaps};
use super::tree::Tree;

/// Scores differ where they differ by more than rounding: of their size.
const ROUNDING: f64 = 1e-9;

/// What is refined, by what, and how far.
pub struct Refinement<'a> {
    /// The tree whose edges are cut.
    pub tree: &'a Tree,
    /// How often each sequence occurs.
    pub counts: &'a [f64],
    /// What is scored by.
    pub dense: &'a Dense,
    /// Columns that there may be.
    pub max_columns: usize,
    /// How often all edges are cut at most.
    pub rounds: u32,
    /// Cells of dynamic programming at most.
    pub cells: u64,
}

impl Refinement<'_> {
    /// A group of at least the same score.
    pub fn refine(&self, mut group: Group) -> Result<Group, AlignError> {
        let cuts = self.tree.cuts();
        let mut left = self.cells;
        let mut since_risen = 0;
        for _ in 0..self.rounds {
            for cut in &cuts {
                let (a, b, ops) = group.split(cut);
                let Some((new, has_risen)) = self.better(&a, &b, &ops, &mut left) else {
                    return Ok(group);
                };
                since_risen = if has_risen { 0 } else { since_risen + 1 };
                if let Some(new) = new {
                    group = Group::join(&a, &b, &new, self.max_columns)?;
                }
                if since_risen == cuts.len() {
                    return Ok(group);
                }
            }
        }
        Ok(group)
    }

    /// How both sides are put side by side at least as well, and whether that is better. `None` where the
    /// cells are used up, as which steps count that take as long.
    fn better(
        &self,
        a: &Group,
        b: &Group,
        ops: &Ops,
        left: &mut u64,
    ) -> Option<(Option<Ops>, bool)> {
        let gaps = &self.dense.gaps;
        let sides = [Profile::of(a, self.counts, gaps), Profile::of(b, self.counts, gaps)];
        let [of_a, of_b] = &sides;
        let most = usize::try_from(*left).unwrap_or(TABLE_CELLS).min(TABLE_CELLS);
        let band = Guide::of_ops(ops, of_a.columns(), of_b.columns(), most).band(most);
        let places = (a.rows.len() + b.rows.len()) * ops.len();
        *left = left.checked_sub((band.cells() + places) as u64)?;
        let found = best(of_a, of_b, self.dense, Function::SumOfPairs, &band);
        if found.ops == *ops {
            return Some((None, false));
        }
        let mut score =
            |ops: &Ops| symbols(of_a, of_b, ops, self.dense) - self.gaps_between(a, b, ops, left);
        let (old, new) = (score(ops), score(&found.ops));
        let rounding = ROUNDING * old.abs().max(1.0);
        Some(((new >= old - rounding).then_some(found.ops), new > old + rounding))
    }

    fn gaps_between(&self, a: &Group, b: &Group, ops: &Ops, left: &mut u64) -> f64 {
        let shapes = |group: &Group, gap| {
            group.rows.iter().map(|row| gaps_of(row, ops, gap)).collect::<Vec<_>>()
        };
        let (of_a, of_b) = (shapes(a, Op::Second), shapes(b, Op::First));
        let gaps = |of: &[Vec<(usize, usize)>]| of.iter().map(Vec::len).sum::<usize>();
        let steps = gaps(&of_a) * of_b.len() + gaps(&of_b) * of_a.len();
        *left = left.saturating_sub(steps as u64);
        let mut cost = 0.0;
        for (member, one) in a.members.iter().zip(&of_a) {
            for (other, two) in b.members.iter().zip(&of_b) {
                let pair = cost_of(one, two, ops.len(), &self.dense.gaps);
                cost += pair * self.counts[*member] * self.counts[*other];
            }
        }
        cost
    }
}

/// The sum of pairs of a group, but for what equal sequences count with each other.
pub fn total(group: &Group, counts: &[f64], dense: &Dense) -> f64 {
    let columns = group.columns();
    let all = vec![Op::Both; columns];
    let gaps: Vec<_> = group.rows.iter().map(|row| gaps_of(row, &all, Op::First)).collect();
    let mut sum = 0.0;
    for (x, a) in group.rows.iter().enumerate() {
        for (y, b) in group.rows.iter().enumerate().skip(x + 1) {
            let both = a.iter().zip(b).filter(|(a, b)| **a != GAP && **b != GAP);
            let symbols: f64 = both.map(|(a, b)| dense.score(*a, *b)).sum();
            let pair = symbols - cost_of(&gaps[x], &gaps[y], columns, &dense.gaps);
            sum += pair * counts[group.members[x]] * counts[group.members[y]];
        }
    }
    sum
}

/// What the symbols of both sides count together.
fn symbols(a: &Profile, b: &Profile, ops: &Ops, dense: &Dense) -> f64 {
    let (mut in_a, mut in_b, mut sum) = (0, 0, 0.0);
    for op in ops {
        if *op == Op::Both {
            for (x, count) in a.column(in_a) {
                let pair = |(y, other): &(u32, f64)| dense.score(*x, *y) * other;
                sum += count * b.column(in_b).iter().map(pair).sum::<f64>();
            }
        }
        in_a += usize::from(*op != Op::Second);
        in_b += usize::from(*op != Op::First);
    }
    sum
}

/// From which column up to which a row has gaps, with a gap wherever an op is `gap`.
fn gaps_of(row: &[u32], ops: &Ops, gap: Op) -> Vec<(usize, usize)> {
    let mut symbols = row.iter();
    let mut gaps: Vec<(usize, usize)> = Vec::new();
    for (column, op) in ops.iter().enumerate() {
        let is_gap = *op == gap || symbols.next().is_none_or(|symbol| *symbol == GAP);
        if !is_gap {
            continue;
        }
        match gaps.last_mut() {
            Some((_, end)) if *end == column => *end += 1,
            _ => gaps.push((column, column + 1)),
        }
    }
    gaps
}

/// What the gaps of a pair cost, from where each row has gaps: as [`super::sum_of_pairs`] counts them, in steps of
/// gaps instead of columns.
fn cost_of(a: &[(usize, usize)], b: &[(usize, usize)], columns: usize, gaps: &Gaps) -> f64 {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut open = PairGaps::default();
    let (mut place, mut cost) = (0, 0.0);
    while place < columns {
        while a.next_if(|(_, end)| *end <= place).is_some() {}
        while b.next_if(|(_, end)| *end <= place).is_some() {}
        let part = |gap: Option<&&(usize, usize)>| match gap {
            Some((begin, end)) if *begin <= place => (true, *end),
            Some((begin, _)) => (false, *begin),
            None => (false, columns),
        };
        let ((in_a, a_end), (in_b, b_end)) = (part(a.peek()), part(b.peek()));
        let end = a_end.min(b_end);
        match (in_a, in_b) {
            (false, false) => cost += open.matched(gaps),
            (false, true) => open.alone[0] += (end - place) as u64,
            (true, false) => open.alone[1] += (end - place) as u64,
            (true, true) => {}
        }
        place = end;
    }
    cost + open.ended(gaps)
}
