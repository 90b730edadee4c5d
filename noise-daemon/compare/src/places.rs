//! Where in an execution its time was lost: its path beside those of normal executions, column by column.
//!
//! Paths are strings of stretches ([`stretches`](crate::stretches)), put side by side by multiple alignment. In each column
//! in which the execution has a stretch, what the normal executions have there in the same state is what is expected:
//! their mean, where one that has something else or nothing there counts with no time. The time beyond that is lost. Over all
//! columns of a state, lost time less the normal ones' time in columns where the execution has no such stretch is the
//! difference of the whole times in that state, exactly.
//!
//! A column is odd where few normal executions have that state, or where they are not so long in it. Odd ones
//! of a state, all of the own thread or all of others, are one place where all between them is odd, too, or next to
//! nothing. One that lost next to nothing beside the worst is none.

mod counted;

use self::counted::{Row, counted};
use crate::align::Alignment;
use crate::moments::Moments;
use crate::side::Execution;
use crate::stretches::PathStretch;

/// Part of the normal executions up to which a state is improbable in a column.
pub const IMPROBABLE: f64 = 0.1;
/// Time between odd neighbours, as a part of what is lost in both, up to which they are one place.
const BETWEEN: f64 = 0.1;
/// Part of what is lost in the worst column from which on another one is worth mention. Without it, what varies a little
/// more than usual blurs the edges of a place beside it.
const LEAST: f64 = 0.05;

/// An execution and normal ones side by side. The first row is that of the execution.
pub struct Beside<'a> {
    pub executions: Vec<&'a Execution>,
    /// Which stretch of each is in which column.
    pub alignment: Alignment,
}

/// A column in which the execution has a stretch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    pub number: usize,
    pub stretch: usize,
    /// Part of the normal executions that have the same state there, of their own thread or of others alike.
    pub probability: f64,
    /// Their time there, nanoseconds; nothing counts as 0.
    pub expected: Moments,
    /// The execution's time beyond the expected, nanoseconds.
    pub lost_ns: f64,
    /// Whether it is improbable or too long.
    pub is_odd: bool,
}

/// Odd columns of one state that belong together, all of the own thread or all of others.
#[derive(Clone, Debug, PartialEq)]
pub struct OddColumns {
    /// The columns, in order.
    pub columns: Vec<Column>,
    /// The state: its place among all.
    pub state: usize,
    /// Whether they are the own thread's.
    pub is_own: bool,
    /// From the first column's begin on, nanoseconds.
    pub from_ns: u64,
    /// To the last one's end.
    pub to_ns: u64,
    /// Time of the odd columns, nanoseconds.
    pub duration_ns: u64,
    /// What is expected of that, nanoseconds.
    pub expected_ns: f64,
    pub times: usize,
    /// Normal executions that have the state in one of these columns.
    pub normal_with: usize,
    /// The standard deviation of the normal executions' time in these columns, nanoseconds.
    pub deviation_ns: f64,
}

impl OddColumns {
    /// Time beyond the expected, nanoseconds.
    pub fn lost_ns(&self) -> f64 {
        self.duration_ns as f64 - self.expected_ns
    }
}

/// What a normal execution has of a stretch.
fn ns_of(counted: &[Option<u64>], stretch: usize) -> Option<u64> {
    counted.get(stretch).copied().flatten()
}

/// A column's stretch of a row.
fn stretch<'b>(beside: &'b Beside<'_>, row: usize, column: usize) -> Option<&'b PathStretch> {
    let place = (*beside.alignment.rows.get(row)?.get(column)?)?;
    beside.executions.get(row)?.stretches.get(place)
}

impl Beside<'_> {
    fn normal_rows(&self) -> std::ops::Range<usize> {
        1..self.executions.len()
    }

    /// The stretches of a row.
    pub fn stretches(&self, row: usize) -> &[PathStretch] {
        self.executions.get(row).map_or(&[], |execution| &execution.stretches)
    }

    /// For each normal execution, what it has of each stretch of the execution, nanoseconds; `None` where it has
    /// nothing in that state.
    pub fn counted(&self) -> Vec<Vec<Option<u64>>> {
        let row = |row: usize| {
            let stretches = self.stretches(row);
            let cells = self.alignment.rows.get(row).map_or(&[][..], Vec::as_slice);
            Row { stretches, cells }
        };
        self.normal_rows().map(|normal| counted(row(0), row(normal))).collect()
    }

    /// All columns in which the execution has a stretch, in order. `counted` is what [`counted`](Self::counted) says.
    pub fn columns(&self, counted: &[Vec<Option<u64>>], t1: f64) -> Vec<Column> {
        let row = self.alignment.rows.first().map_or(&[][..], Vec::as_slice);
        let places = row.iter().enumerate().filter_map(|(number, place)| Some((number, (*place)?)));
        let column = |(number, place): (usize, usize)| {
            let own = self.stretches(0).get(place)?;
            let times = counted.iter().map(|normal| ns_of(normal, place).unwrap_or(0) as f64);
            let expected = Moments::of(times.clone());
            let count = counted.iter().filter(|normal| ns_of(normal, place).is_some()).count();
            let probability = count as f64 / counted.len().max(1) as f64;
            let ns = own.ns() as f64;
            let lost_ns = ns - expected.mean;
            let usual = Moments::trimmed(times);
            let is_long = ns > usual.mean + t1 * usual.deviation;
            Some(Column {
                number,
                stretch: place,
                probability,
                expected,
                lost_ns,
                is_odd: lost_ns > 0.0 && (probability <= IMPROBABLE || is_long),
            })
        };
        places.filter_map(column).collect()
    }

    /// The places where the execution lost time in a state, the most first. `columns` are all of its [`columns`](Self::columns),
    /// by what is [`counted`](Self::counted).
    pub fn places(
        &self,
        columns: &[Column],
        counted: &[Vec<Option<u64>>],
        state: usize,
    ) -> Vec<OddColumns> {
        let own = self.stretches(0);
        let is_in = |column: &&Column| {
            column.is_odd && own.get(column.stretch).is_some_and(|stretch| stretch.state == state)
        };
        let mut odd: Vec<Column> = columns.iter().filter(is_in).copied().collect();
        let most_ns = odd.iter().map(|column| column.lost_ns).fold(0.0, f64::max);
        odd.retain(|column| column.lost_ns >= LEAST * most_ns);
        let are_one = |one: &Column, other: &Column| {
            let end = own.get(one.stretch).map_or(0, |stretch| stretch.to_ns);
            let begin = own.get(other.stretch).map_or(u64::MAX, |stretch| stretch.from_ns);
            let is_near =
                begin.saturating_sub(end) as f64 <= BETWEEN * (one.lost_ns + other.lost_ns);
            // There is a column for each stretch.
            let between = columns.get(one.stretch + 1..other.stretch).unwrap_or_default();
            is_near || between.iter().all(|column| column.is_odd)
        };
        let place = |columns: &[Column]| place(own, columns, counted);
        let (own_time, others): (Vec<Column>, Vec<Column>) = odd
            .into_iter()
            .partition(|column| own.get(column.stretch).is_some_and(|stretch| stretch.is_own));
        let mut places: Vec<OddColumns> = [own_time, others]
            .iter()
            .flat_map(|odd| odd.chunk_by(are_one))
            .filter_map(place)
            .collect();
        places.sort_by(|one, other| {
            other.lost_ns().total_cmp(&one.lost_ns()).then(one.from_ns.cmp(&other.from_ns))
        });
        places
    }

    /// When a normal execution, by its row, was where a place is: from the end of what it has before these columns to the
    /// begin of what it has behind them.
    pub fn normal_time(&self, place: &OddColumns, row: usize) -> Option<(u64, u64)> {
        let (first, last) = (place.columns.first()?.number, place.columns.last()?.number);
        let cells = self.alignment.rows.get(row)?;
        let before = (0..first).rev().find_map(|column| stretch(self, row, column));
        let behind = (last + 1..cells.len()).find_map(|column| stretch(self, row, column));
        let normal = &self.executions.get(row)?.run;
        Some((
            before.map_or(normal.from_ns, |stretch| stretch.to_ns),
            behind.map_or(normal.to_ns, |stretch| stretch.from_ns),
        ))
    }
}

/// A place of columns in one state, of which there is one at least.
fn place(
    own: &[PathStretch],
    columns: &[Column],
    counted: &[Vec<Option<u64>>],
) -> Option<OddColumns> {
    let stretch_of = |column: &Column| own.get(column.stretch);
    let (first, last) = (stretch_of(columns.first()?)?, stretch_of(columns.last()?)?);
    let PathStretch { state, is_own, .. } = *first;
    let of = |normal: &[Option<u64>]| {
        columns.iter().filter_map(|column| ns_of(normal, column.stretch)).collect::<Vec<u64>>()
    };
    let normal = Moments::of(counted.iter().map(|normal| of(normal).iter().sum::<u64>() as f64));
    Some(OddColumns {
        state,
        is_own,
        from_ns: first.from_ns,
        to_ns: last.to_ns,
        duration_ns: columns.iter().filter_map(stretch_of).map(PathStretch::ns).sum(),
        expected_ns: normal.mean,
        times: columns.len(),
        normal_with: counted.iter().filter(|normal| !of(normal).is_empty()).count(),
        deviation_ns: normal.deviation,
        columns: columns.to_vec(),
    })
}

#[cfg(test)]
mod tests;
