//! PURE: which direct-mapped cells there is something to read in.
//!
//! A CPU has hundreds of cells, of which few are in use, and all lie in cache lines of their own: to look at each
//! one is most of what a reading costs where little happens. The programs count how often they take a cell into use,
//! so all are looked at only where that changed.

/// What differs whenever a cell's content does, as long as it is used: its window, the sum of its values,
/// and the count of the shortest, which may be 0 and add nothing to the sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellMark {
    pub window: u64,
    pub sum_ns: u64,
    /// How many are in the first bucket.
    pub shortest: u32,
}

/// The cells of one CPU that are in use, with their marks when they were read last.
#[derive(Debug, Default)]
pub struct UsedCells {
    claims: u64,
    /// The number changed at the last reading. It may be seen before the cell that it counts, so the next reading
    /// looks at all cells once more.
    look_again: bool,
    cells: Vec<(usize, CellMark)>,
}

impl UsedCells {
    /// Those that are in use now, in order, with the place of their last mark. `claims` is what the programs have counted;
    /// where it changed, `is_used` says of each cell whether it is.
    pub fn now(
        &mut self,
        claims: u64,
        all: usize,
        is_used: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = &mut (usize, CellMark)> {
        let is_new = claims != std::mem::replace(&mut self.claims, claims);
        if is_new || self.look_again {
            self.look_again = is_new;
            let mut known = std::mem::take(&mut self.cells).into_iter().peekable();
            let used = (0..all).filter(|index| is_used(*index)).map(|index| {
                while known.next_if(|(other, _)| *other < index).is_some() {}
                let mark = known.next_if(|(other, _)| *other == index).map(|(_, mark)| mark);
                (index, mark.unwrap_or_default())
            });
            self.cells = used.collect();
        }
        self.cells.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    const ALL: usize = 12;

    fn indices(cells: &mut UsedCells, claims: u64, used: &BTreeSet<usize>) -> Vec<usize> {
        cells.now(claims, ALL, |index| used.contains(&index)).map(|(index, _)| *index).collect()
    }

    #[test]
    fn cells_are_looked_for_where_the_number_changed_and_once_more() {
        let mut cells = UsedCells::default();
        let used = BTreeSet::from([3]);
        assert!(indices(&mut cells, 0, &used).is_empty());
        assert_eq!(indices(&mut cells, 1, &used), [3]);
        // Seen late, though it was counted before.
        let used = BTreeSet::from([3, 5]);
        assert_eq!(indices(&mut cells, 1, &used), [3, 5]);
        let used = BTreeSet::from([3, 5, 7]);
        assert_eq!(indices(&mut cells, 1, &used), [3, 5]);
        assert_eq!(indices(&mut cells, 2, &used), [3, 5, 7]);
    }

    proptest! {
        #[test]
        fn marks_stay_with_their_cells(rounds in proptest::collection::vec(proptest::collection::btree_set(0..ALL, 0..ALL), 1..20)) {
            let mut cells = UsedCells::default();
            let mut due: Vec<(usize, CellMark)> = Vec::new();
            for (round, used) in (1..).zip(&rounds) {
                let mark = |index: &usize| due.iter().find(|(other, _)| other == index).map(|(_, mark)| *mark);
                let expected: Vec<_> = used.iter().map(|index| (*index, mark(index).unwrap_or_default())).collect();
                let mut seen = Vec::new();
                for one in cells.now(round, ALL, |index| used.contains(&index)) {
                    seen.push(*one);
                    one.1.window = round * 100 + one.0 as u64;
                }
                prop_assert_eq!(&seen, &expected);
                due = seen.into_iter().map(|(index, mark)| (index, CellMark { window: round * 100 + index as u64, ..mark })).collect();
            }
        }
    }
}
