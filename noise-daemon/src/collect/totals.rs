//! Totals from windows: closed ones are added once, open ones replace their last reading.

use std::collections::{BTreeMap, BTreeSet};

use noise_common::event::{Cell, CellKey};

use crate::model::Totals;

/// One cell: a signal and subject on one CPU.
type CellId = (CellKey, u32);

#[derive(Debug, Default)]
struct Counted {
    closed: Totals,
    open: Option<(u64, Totals)>,
    last_closed: u64,
    recent_max_ns: u64,
}

/// Sums of all windows of all cells.
#[derive(Debug, Default)]
pub struct WindowTotals {
    cells: BTreeMap<CellId, Counted>,
}

fn totals_of(cell: &Cell) -> Totals {
    let mut totals = Totals { sum_ns: cell.sum_ns, ..Totals::default() };
    for (total, count) in totals.buckets.iter_mut().zip(cell.buckets) {
        *total = u64::from(count);
    }
    totals
}

fn key_of(cell: &Cell) -> CellId {
    (CellKey { signal: cell.signal, padding: 0, subject: cell.subject }, cell.cpu)
}

impl WindowTotals {
    /// Takes a window that is still open, or a reading that is none (unused, being reset).
    pub fn read_open(&mut self, cell: &Cell) {
        if cell.head == 0 || cell.head != cell.tail {
            return;
        }
        let counted = self.cells.entry(key_of(cell)).or_default();
        if cell.head > counted.last_closed {
            counted.open = Some((cell.head, totals_of(cell)));
            counted.recent_max_ns = counted.recent_max_ns.max(cell.max_ns);
        }
    }

    /// Takes a closed window.
    pub fn close(&mut self, cell: &Cell) {
        let counted = self.cells.entry(key_of(cell)).or_default();
        counted.closed.add(&totals_of(cell));
        counted.last_closed = cell.head;
        counted.recent_max_ns = counted.recent_max_ns.max(cell.max_ns);
        if counted.open.as_ref().is_some_and(|(window, _)| *window <= cell.head) {
            counted.open = None;
        }
    }

    /// Every cell's totals, and the longest value since the last call.
    pub fn take(&mut self) -> Vec<(CellKey, u32, Totals, u64)> {
        self.cells
            .iter_mut()
            .map(|((key, cpu), counted)| {
                let mut totals = counted.closed.clone();
                if let Some((_, open)) = &counted.open {
                    totals.add(open);
                }
                let max_ns = std::mem::take(&mut counted.recent_max_ns);
                (*key, *cpu, totals, max_ns)
            })
            .collect()
    }

    /// What there are totals of.
    pub fn keys(&self) -> BTreeSet<CellKey> {
        self.cells.keys().map(|(key, _)| *key).collect()
    }

    /// Forgets a subject that is gone.
    pub fn forget(&mut self, key: CellKey) {
        self.cells.retain(|(other, _), _| *other != key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use noise_common::hist::bucket_of;

    fn cell(window: u64, values: &[u64]) -> Cell {
        let mut cell = Cell { head: window, tail: window, ..Cell::EMPTY };
        for value in values {
            cell.buckets[bucket_of(*value)] += 1;
            cell.sum_ns += value;
            cell.max_ns = cell.max_ns.max(*value);
        }
        cell
    }

    fn count(totals: &mut WindowTotals) -> (u64, u64) {
        totals
            .take()
            .iter()
            .fold((0, 0), |sum, (_, _, totals, _)| (sum.0 + totals.count(), sum.1 + totals.sum_ns))
    }

    #[test]
    fn a_closed_window_replaces_its_open_reading() {
        let mut totals = WindowTotals::default();
        totals.read_open(&cell(5, &[100, 200]));
        assert_eq!(count(&mut totals), (2, 300));
        totals.close(&cell(5, &[100, 200, 300]));
        assert_eq!(count(&mut totals), (3, 600));
        totals.read_open(&cell(6, &[50]));
        assert_eq!(count(&mut totals), (4, 650));
    }

    #[test]
    fn a_stale_or_torn_reading_counts_nothing() {
        let mut totals = WindowTotals::default();
        totals.close(&cell(5, &[100]));
        totals.read_open(&cell(5, &[100]));
        totals.read_open(&Cell { tail: 0, ..cell(6, &[7]) });
        totals.read_open(&Cell::EMPTY);
        assert_eq!(count(&mut totals), (1, 100));
    }

    #[test]
    fn the_maximum_is_that_since_the_last_look() {
        let mut totals = WindowTotals::default();
        totals.close(&cell(5, &[100, 900]));
        assert_eq!(totals.take()[0].3, 900);
        assert_eq!(totals.take()[0].3, 0);
    }
}
