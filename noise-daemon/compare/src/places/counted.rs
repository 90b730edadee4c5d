//! Which of a normal execution's time counts for which stretch of an execution that it stands beside.
//!
//! What stands in the same column in the same state counts there. But something that comes in between splits a stretch in
//! two, and the normal one can stand beside one of them only. So what it has more than the stretch beside it counts for
//! others in that state as well, as far as they are not apart by anything of the normal execution: the nearest first, up to
//! their own time each. All of its time counts once.

use crate::stretches::PathStretch;

/// A row of an alignment: which stretch is in which column.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    pub stretches: &'a [PathStretch],
    pub cells: &'a [Option<usize>],
}

impl<'a> Row<'a> {
    fn at(self, column: usize) -> Option<(usize, &'a PathStretch)> {
        let place = (*self.cells.get(column)?)?;
        Some((place, self.stretches.get(place)?))
    }
}

/// For each stretch of the execution, what the normal one has of it, nanoseconds; `None` where it has nothing in that state.
pub fn counted(odd: Row<'_>, normal: Row<'_>) -> Vec<Option<u64>> {
    let mut all = vec![None; odd.stretches.len()];
    let mut add = |place: usize, ns: u64| {
        if let Some(counted) = all.get_mut(place) {
            *counted = Some(counted.unwrap_or(0_u64).saturating_add(ns));
        }
    };
    for column in 0..odd.cells.len() {
        let (Some((place, own)), Some((_, there))) = (odd.at(column), normal.at(column)) else {
            continue;
        };
        if own.symbol() != there.symbol() {
            continue;
        }
        let mut more_ns = there.ns().saturating_sub(own.ns());
        if more_ns > 0 {
            // As far as the normal one has nothing.
            let is_gap = |column: &usize| normal.at(*column).is_none();
            let before = (0..column).rev().take_while(is_gap);
            let behind = (column + 1..odd.cells.len()).take_while(is_gap);
            let mut near: Vec<(usize, usize, u64)> = before
                .chain(behind)
                .filter_map(|other| Some((other, odd.at(other)?)))
                .filter(|(_, (_, stretch))| stretch.symbol() == own.symbol())
                .map(|(other, (place, stretch))| (column.abs_diff(other), place, stretch.ns()))
                .collect();
            near.sort_unstable();
            for (_, other, ns) in near {
                let part_ns = more_ns.min(ns);
                if part_ns > 0 {
                    add(other, part_ns);
                }
                more_ns -= part_ns;
            }
        }
        add(place, there.ns().min(own.ns()).saturating_add(more_ns));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{Made, path};
    use crate::stretches::stretches;

    fn of(parts: &[(&'static str, u64)]) -> Vec<PathStretch> {
        stretches(&path(&parts.iter().map(|(state, ns)| Made::own(state, *ns)).collect::<Vec<_>>()))
    }

    #[test]
    fn a_stretch_that_is_split_in_two_is_still_that_one() {
        let odd = of(&[("running", 60), ("disk", 90), ("waiting_cpu", 1), ("running", 50)]);
        let normal = of(&[("running", 100), ("timer", 5)]);
        let odd = Row { stretches: &odd, cells: &[Some(0), Some(1), Some(2), Some(3), None] };
        let cells = [None, None, None, Some(0), Some(1)];
        let found = counted(odd, Row { stretches: &normal, cells: &cells });
        assert_eq!(found, [Some(50), None, None, Some(50)]);
        let cells = [Some(0), None, None, None, Some(1)];
        let found = counted(odd, Row { stretches: &normal, cells: &cells });
        assert_eq!(found, [Some(60), None, None, Some(40)]);
    }

    #[test]
    fn what_is_longer_than_all_counts_where_it_stands() {
        let (odd, normal) = (of(&[("running", 60), ("disk", 9)]), of(&[("running", 100)]));
        let odd = Row { stretches: &odd, cells: &[Some(0), Some(1)] };
        let found = counted(odd, Row { stretches: &normal, cells: &[Some(0), None] });
        assert_eq!(found, [Some(100), None]);
        let other = of(&[("timer", 100)]);
        let found = counted(odd, Row { stretches: &other, cells: &[Some(0), None] });
        assert_eq!(found, [None, None]);
    }

    #[test]
    fn one_step_more_takes_nothing_from_the_step_beside_it() {
        let step = [("running", 40), ("disk", 9)];
        let odd = of(&[step, step, step].concat());
        let normal = of(&[step, step].concat());
        let odd = Row { stretches: &odd, cells: &[0, 1, 2, 3, 4, 5].map(Some) };
        let cells = [Some(0), Some(1), None, None, Some(2), Some(3)];
        let found = counted(odd, Row { stretches: &normal, cells: &cells });
        assert_eq!(found, [Some(40), Some(9), None, None, Some(40), Some(9)]);
    }
}
