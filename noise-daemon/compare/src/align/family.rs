//! A family of sequences that are aligned once, and others that are put beside it, one at a time.
//!
//! Executions that are held against the same normal ones need these aligned once, and not anew with each of them. The
//! other sequence is put beside the family by the sum of pairs, as refinement would put it: what it has more stands in
//! columns of its own, and changes nothing among the family.

use super::band::Guide;
use super::dynamic::{Function, TABLE_CELLS, best};
use super::group::{Group, Op};
use super::profile::Profile;
use super::scoring::Dense;
use super::{
    AlignError, AlignSettings, Alignment, Gaps, MAX_PLACES, Scoring, Symbol, cells, grouped,
    spread, within_bounds,
};

/// Cells of the table for one other sequence: a sixth of a second.
const CELLS: usize = 1 << 24;
/// The table is made anew, twice as wide, so often where its best way goes along the edge of its band.
const WIDENED: usize = 1;

/// Sequences that are aligned, and others that may be put beside them.
pub struct AlignedFamily {
    dense: Dense,
    /// Rows of the sequences that differ, with how often each occurs.
    group: Group,
    counts: Vec<f64>,
    /// Of all sequences, which place of each is in which column.
    rows: Vec<Vec<Option<usize>>>,
    others: Vec<Result<Vec<u32>, AlignError>>,
    max_columns: usize,
}

impl AlignedFamily {
    /// Errors: more than the bounds of [`super`].
    pub fn new(
        sequences: &[Vec<Symbol>],
        others: &[Vec<Symbol>],
        settings: &AlignSettings,
    ) -> Result<Self, AlignError> {
        within_bounds(sequences)?;
        let all = [sequences, others].concat();
        let derived;
        let scoring = match &settings.scoring {
            Some(scoring) => scoring,
            None => {
                derived = Scoring::by_identity(&all, Gaps::default());
                &derived
            }
        };
        let (dense, mut coded) = Dense::of(scoring, &all);
        let coded_others = coded.split_off(sequences.len());
        let max_columns = MAX_PLACES / (sequences.len() + 1);
        let (group, counts, numbers) = grouped(&coded, &dense, settings, max_columns)?;
        let rows = spread(&coded, &numbers, &group).rows;
        let other = |(sequence, coded): (&Vec<Symbol>, Vec<u32>)| {
            within_bounds(std::slice::from_ref(sequence)).map(|()| coded)
        };
        let others = others.iter().zip(coded_others).map(other).collect();
        Ok(Self { dense, group, counts, rows, others, max_columns })
    }

    /// One of the others, in the first row, beside the family.
    /// Errors: more than the bounds of [`super`].
    pub fn beside(&self, other: usize) -> Result<Alignment, AlignError> {
        let other = match self.others.get(other) {
            Some(Ok(other)) => other.as_slice(),
            Some(Err(error)) => return Err(error.clone()),
            None => &[],
        };
        let columns = self.group.columns();
        if columns == 0 || other.is_empty() {
            let own = (0..other.len()).map(Some).chain(vec![None; columns]).collect();
            let gaps = vec![None; other.len()];
            let row = |row: &Vec<_>| [gaps.as_slice(), row].concat();
            return Ok(Alignment {
                rows: [own].into_iter().chain(self.rows.iter().map(row)).collect(),
            });
        }
        let single = Group::single(self.counts.len(), other);
        let counts = [self.counts.as_slice(), &[1.0]].concat();
        let gaps = &self.dense.gaps;
        let profiles = [&single, &self.group].map(|group| Profile::of(group, &counts, gaps));
        let [own, family] = &profiles;
        let mut most = CELLS.min(TABLE_CELLS >> WIDENED);
        let guide = Guide::of_profiles(own, family, most);
        let mut widened = 0;
        let ops = loop {
            let band = guide.band(most);
            let found = best(own, family, &self.dense, Function::SumOfPairs, &band);
            if !found.is_at_edge || widened == WIDENED {
                break found.ops;
            }
            most *= 2;
            widened += 1;
        };
        let joined = Group::join(&single, &self.group, &ops, self.max_columns)?;
        let own = joined.rows.first().map(|row| cells(row)).unwrap_or_default();
        // Where the family's columns are now.
        let moved = |row: &Vec<Option<usize>>| {
            let mut cells = row.iter().copied();
            let cell = |op: &Op| match op {
                Op::First => None,
                _ => cells.next().flatten(),
            };
            ops.iter().map(cell).collect()
        };
        Ok(Alignment { rows: [own].into_iter().chain(self.rows.iter().map(moved)).collect() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, proptest};
    use proptest::{prop_assert, prop_assert_eq};

    use super::*;
    use crate::align::{align, sum_of_pairs};

    fn beside(family: &[Vec<Symbol>], other: &[Symbol]) -> Alignment {
        let others = [other.to_vec()];
        AlignedFamily::new(family, &others, &AlignSettings::default()).unwrap().beside(0).unwrap()
    }

    #[test]
    fn what_another_has_more_stands_in_columns_of_its_own() {
        let family = vec![vec![1, 2, 3, 4, 1, 2], vec![1, 2, 3, 4, 1, 2], vec![1, 2, 4, 1, 2]];
        let found = beside(&family, &[1, 2, 3, 9, 9, 4, 1, 2]);
        let shown = |row: &Vec<Option<usize>>| {
            row.iter()
                .map(|place| place.map_or('-', |place| char::from(b'0' + place as u8)))
                .collect::<String>()
        };
        let rows: Vec<String> = found.rows.iter().map(shown).collect();
        assert_eq!(rows, ["01234567", "012--345", "012--345", "01---234"]);
    }

    #[test]
    fn nothing_is_put_beside_something_and_something_beside_nothing() {
        assert_eq!(beside(&[], &[5, 6]).rows, [vec![Some(0), Some(1)]]);
        assert_eq!(beside(&[vec![], vec![]], &[5]).rows, [vec![Some(0)], vec![None], vec![None]]);
        assert_eq!(beside(&[vec![5]], &[]).rows, [vec![None], vec![Some(0)]]);
        let long = vec![7; super::super::MAX_LENGTH + 1];
        let family =
            AlignedFamily::new(&[vec![7]], &[long, vec![7]], &AlignSettings::default()).unwrap();
        assert!(
            family.beside(0).unwrap_err().to_string().starts_with("sequence 1 has 100001 symbols")
        );
        assert_eq!(family.beside(1).unwrap().rows, [[Some(0)], [Some(0)]]);
    }

    fn sequence() -> impl proptest::strategy::Strategy<Value = Vec<Symbol>> {
        prop::collection::vec(0..4_u32, 0..20)
    }

    proptest! {
        #[test]
        fn rows_are_the_sequences_and_the_family_stays_as_it_is(
            family in prop::collection::vec(sequence(), 0..6), other in sequence()
        ) {
            let found = beside(&family, &other);
            let all = [vec![other], family.clone()].concat();
            prop_assert_eq!(found.rows.len(), all.len());
            for (row, sequence) in found.rows.iter().zip(&all) {
                let places: Vec<usize> = row.iter().flatten().copied().collect();
                prop_assert_eq!(places, (0..sequence.len()).collect::<Vec<_>>());
                prop_assert_eq!(row.len(), found.columns());
            }
            let has_family = |column: &usize| found.rows[1..].iter().any(|row| row[*column].is_some());
            let columns: Vec<usize> = (0..found.columns()).filter(has_family).collect();
            let own = |row: &Vec<Option<usize>>| columns.iter().map(|column| row[*column]).collect();
            let own: Vec<Vec<Option<usize>>> = found.rows[1..].iter().map(own).collect();
            let scoring = Some(Scoring::by_identity(&all, Gaps::default()));
            let alone = align(&family, &AlignSettings { scoring, ..AlignSettings::default() }).unwrap();
            prop_assert_eq!(own, alone.rows);
        }

        #[test]
        fn beside_a_single_one_it_stands_as_well_as_can_be(one in sequence(), other in sequence()) {
            let scoring = Scoring::by_identity(&[other.clone(), one.clone()], Gaps::default());
            let all = [other.clone(), one.clone()];
            let score = |alignment| sum_of_pairs(&all, &alignment, &scoring);
            let found = score(beside(&[one], &other));
            let known = score(align(&all, &AlignSettings::default()).unwrap());
            prop_assert!(found >= known - 1e-9, "{} {}", found, known);
        }
    }
}
