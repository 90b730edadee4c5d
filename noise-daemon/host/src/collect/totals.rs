//! Totals from windows: closed ones are added once, open ones replace their last reading.
//!
//! Closed windows are added up by subject over all CPUs; readings of open ones are kept for each
//! CPU, in few bytes, as long as they are open. Subjects that come and go without end (cgroups) are
//! bounded: beyond [`SUBJECTS`] of all signals, the others of each count as [`UNKNOWN`] together.

use std::collections::BTreeMap;

use noise_common::charge::UNKNOWN;
use noise_common::event::{Cell, CellKey};
use noise_common::signals::{Signal, SignalInfo};
use noise_model::{Bounded, Foldable, Histogram};

/// Most subjects of rotating signals that are kept; the others count for [`UNKNOWN`].
pub const SUBJECTS: usize = 2_048;

/// How many windows later the number of a closed one is forgotten. It serves to recognise a reading
/// that was taken between a window's way into the ring and its reset, which is over at once unless
/// the CPU itself was stopped.
const REMEMBERED_WINDOWS: u64 = 20;

/// What was read of a window that is open.
#[derive(Debug, Default)]
struct OpenWindowReading {
    window: u64,
    delays: Histogram,
}

/// A cell: a subject on one CPU.
#[derive(Debug, Default)]
struct Windows {
    open: Option<OpenWindowReading>,
    last_closed: u64,
    /// The last window was counted when its subject was forgotten, though it has not arrived.
    counted_early: bool,
    /// Counted for [`UNKNOWN`] as long as the window is the same.
    folded: bool,
}

#[derive(Debug, Default)]
struct SubjectTotals {
    closed: Histogram,
    /// Sums by CPU, of signals that interrupt and of waits for CPUs.
    by_cpu: BTreeMap<u32, u64>,
    recent_max_ns: u64,
    /// Number of values at the last look, and the newest window in which it was another.
    count: u64,
    changed: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// The signal and its subject.
    pub key: CellKey,
    pub totals: Histogram,
    /// The longest value since the last look, ns.
    pub recent_max_ns: u64,
    /// Sums by CPU, of signals that interrupt and of waits for CPUs.
    pub by_cpu: BTreeMap<u32, u64>,
}

/// The subjects of a signal. A crowd of one signal's takes no room from another's.
#[derive(Debug)]
struct SignalSubjects {
    /// Those of a rotating signal are bounded.
    known: Bounded<CellKey, Box<SubjectTotals>>,
    /// Windows' subjects that had no room.
    folded: u64,
}

impl Default for SignalSubjects {
    fn default() -> Self {
        Self { known: Bounded::new(SUBJECTS), folded: 0 }
    }
}

/// Sums of all windows of all cells.
#[derive(Debug, Default)]
pub struct WindowTotals {
    /// By the signal's number.
    signals: BTreeMap<u32, SignalSubjects>,
    cells: BTreeMap<(CellKey, u32), Windows>,
    /// Number of the newest window.
    newest: u64,
}

fn key_of(cell: &Cell) -> CellKey {
    CellKey { signal: cell.header.signal.into(), padding: 0, subject: cell.subject }
}

fn signal_of(key: CellKey) -> Option<Signal> {
    Signal::from_number(key.signal)
}

/// Whether sums are kept for each CPU.
fn by_cpu(key: CellKey) -> bool {
    let is_by_cpu = |info: &SignalInfo| info.interrupts.is_some() || info.is_wait_for_cpu();
    signal_of(key).is_some_and(|signal| is_by_cpu(signal.info()))
}

/// Buckets with their counts, where there are any.
fn used_buckets(cell: &Cell) -> impl Iterator<Item = (usize, u64)> + '_ {
    // Most are 0, and eight at a time are found so.
    let octets = cell.buckets.chunks(8).enumerate();
    octets.filter(|(_, counts)| counts.iter().fold(0, |any, count| any | count) != 0).flat_map(
        |(octet, counts)| {
            let used = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            used.map(move |(index, count)| (octet * 8 + index, u64::from(*count)))
        },
    )
}

impl OpenWindowReading {
    fn take(&mut self, cell: &Cell) {
        self.window = cell.head;
        self.delays.clear();
        self.delays.add_counts(cell.sum_ns, used_buckets(cell));
    }
}

impl WindowTotals {
    /// Takes a window that is still open, or a reading that is none (unused, being reset).
    pub fn read_open(&mut self, cell: &Cell) {
        if cell.head == 0 || cell.head != cell.tail {
            return;
        }
        self.newest = self.newest.max(cell.head);
        let key = key_of(cell);
        let subjects = self.signals.entry(key.signal).or_default();
        let windows = self.cells.entry((key, cell.header.cpu.into())).or_default();
        if cell.head <= windows.last_closed {
            return;
        }
        let continues = windows.open.as_ref().is_some_and(|open| open.window == cell.head);
        if !continues {
            windows.folded = !subjects.known.has_room(&key);
            subjects.folded += u64::from(windows.folded);
        }
        windows.open.get_or_insert_default().take(cell);
        let into = if windows.folded { key.rest() } else { key };
        let subject = subjects.known.value(into);
        subject.recent_max_ns = subject.recent_max_ns.max(cell.max_ns);
    }

    /// Takes a closed window.
    pub fn close(&mut self, cell: &Cell) {
        self.newest = self.newest.max(cell.head);
        let key = key_of(cell);
        let subjects = self.signals.entry(key.signal).or_default();
        let windows = self.cells.entry((key, cell.header.cpu.into())).or_default();
        let early = std::mem::take(&mut windows.counted_early);
        if early && cell.head <= windows.last_closed {
            return;
        }
        let continues = windows.open.as_ref().is_some_and(|open| open.window == cell.head);
        if !continues {
            windows.folded = !subjects.known.has_room(&key);
            subjects.folded += u64::from(windows.folded);
        }
        windows.last_closed = windows.last_closed.max(cell.head);
        if windows.open.as_ref().is_some_and(|open| open.window <= cell.head) {
            windows.open = None;
        }
        let into = if windows.folded { key.rest() } else { key };
        let subject = subjects.known.value(into);
        subject.recent_max_ns = subject.recent_max_ns.max(cell.max_ns);
        subject.closed.add_counts(cell.sum_ns, used_buckets(cell));
        if by_cpu(key) {
            *subject.by_cpu.entry(cell.header.cpu.into()).or_default() += cell.sum_ns;
        }
    }

    /// Shows every subject's totals, in order of the keys.
    pub fn visit(&mut self, mut show: impl FnMut(Counted)) {
        // Both maps are in order of the keys, and those who stand for others come last.
        let mut cells = self.cells.iter().peekable();
        let mut folded: BTreeMap<u32, Histogram> = BTreeMap::new();
        for (key, subject) in self.signals.values_mut().flat_map(|own| own.known.iter_mut()) {
            let mut counted = Counted {
                key: *key,
                totals: subject.closed.clone(),
                recent_max_ns: std::mem::take(&mut subject.recent_max_ns),
                by_cpu: subject.by_cpu.clone(),
            };
            while let Some(((of, cpu), windows)) = cells.next_if(|((of, _), _)| of <= key) {
                let Some(open) = &windows.open else { continue };
                if windows.folded {
                    folded.entry(of.signal).or_default().add(&open.delays);
                } else if of == key {
                    counted.totals.add(&open.delays);
                    if by_cpu(*key) {
                        *counted.by_cpu.entry(*cpu).or_default() += open.delays.sum_ns;
                    }
                }
            }
            if key.subject == UNKNOWN
                && let Some(folded) = folded.get(&key.signal)
            {
                counted.totals.add(folded);
            }
            let count = counted.totals.count();
            if count != subject.count {
                subject.count = count;
                subject.changed = self.newest;
            }
            show(counted);
        }
    }

    /// What there are totals of, with the number of windows for which nothing was added.
    pub fn idle(&self) -> Vec<(CellKey, u64)> {
        let newest = self.newest;
        let subjects = self.signals.values().flat_map(|own| own.known.iter());
        subjects.map(|(key, subject)| (*key, newest.saturating_sub(subject.changed))).collect()
    }

    /// How many subjects the rotating signal has that has most.
    pub fn rotating(&self) -> usize {
        self.signals.values().map(|own| own.known.taken()).max().unwrap_or(0)
    }

    /// How often a signal's subject was counted for [`UNKNOWN`] because there was no room for it.
    pub fn folded(&self, signal: Signal) -> u64 {
        self.signals.get(&(signal as u32)).map_or(0, |own| own.folded)
    }

    /// Forgets a subject; what was counted for it, open windows included, is final and handed
    /// back. Those windows are not counted again when they arrive.
    pub fn forget(&mut self, key: CellKey) -> Histogram {
        let own = self.signals.get_mut(&key.signal);
        let Some(subject) = own.and_then(|own| own.known.remove(&key)) else {
            return Histogram::default();
        };
        let mut totals = subject.closed;
        for (_, windows) in self.cells.range_mut((key, 0)..=(key, u32::MAX)) {
            if !windows.folded
                && let Some(open) = windows.open.take()
            {
                totals.add(&open.delays);
                windows.last_closed = windows.last_closed.max(open.window);
                windows.counted_early = true;
            }
        }
        totals
    }

    /// Forgets a subject whose cells were freed: none of its windows will arrive any more.
    pub fn forget_freed(&mut self, key: CellKey) -> Histogram {
        let totals = self.forget(key);
        self.cells.retain(|(other, _), _| *other != key);
        totals
    }

    /// Forgets the numbers of windows that were closed long ago.
    pub fn sweep(&mut self) {
        let newest = self.newest;
        self.cells.retain(|_, windows| {
            windows.open.is_some()
                || windows.counted_early
                || windows.last_closed + REMEMBERED_WINDOWS > newest
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use noise_common::header::Header;
    use noise_common::hist::bucket_of;
    use noise_common::record::RecordKind;
    use noise_common::signals::SIGNALS;
    use proptest::prelude::{Strategy, any, prop_assert_eq, proptest};

    fn cell(window: u64, values: &[u64]) -> Cell {
        let mut cell = Cell { head: window, tail: window, ..Cell::EMPTY };
        for value in values {
            cell.buckets[bucket_of(*value)] += 1;
            cell.sum_ns += value;
            cell.max_ns = cell.max_ns.max(*value);
        }
        cell
    }

    fn of_cgroup(subject: u64, cpu: u32, cell: Cell) -> Cell {
        let signal = Signal::CgroupRunqueueWait as u32;
        Cell { header: Header::new(RecordKind::Window, signal, cpu), subject, ..cell }
    }

    impl WindowTotals {
        fn take(&mut self) -> Vec<Counted> {
            let mut all = Vec::new();
            self.visit(|counted| all.push(counted));
            all
        }
    }

    fn count(totals: &mut WindowTotals) -> (u64, u64) {
        totals.take().iter().fold((0, 0), |sum, counted| {
            (sum.0 + counted.totals.count(), sum.1 + counted.totals.sum_ns)
        })
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
        assert_eq!(totals.take()[0].recent_max_ns, 900);
        assert_eq!(totals.take()[0].recent_max_ns, 0);
    }

    #[test]
    fn interrupts_are_reported_by_cpu() {
        let mut totals = WindowTotals::default();
        let header = |cpu| Header::new(RecordKind::Window, Signal::Softirq as u32, cpu);
        let of = |cpu, cell| Cell { header: header(cpu), subject: 1, ..cell };
        totals.close(&of(0, cell(5, &[100])));
        totals.read_open(&of(0, cell(6, &[10])));
        totals.read_open(&of(3, cell(6, &[40])));
        let counted = totals.take();
        assert_eq!(counted.len(), 1);
        assert_eq!(counted[0].by_cpu, BTreeMap::from([(0, 110), (3, 40)]));
        assert_eq!(counted[0].totals.sum_ns, 150);
    }

    #[test]
    fn a_forgotten_subject_is_not_counted_twice() {
        let mut totals = WindowTotals::default();
        totals.close(&of_cgroup(9, 0, cell(5, &[100])));
        totals.read_open(&of_cgroup(9, 0, cell(6, &[10, 20])));
        assert_eq!(count(&mut totals), (3, 130));
        let (key, _) = totals.idle()[0];
        assert_eq!(totals.forget(key).sum_ns, 130);
        // The cell still holds the window, and hands it over when another subject needs it.
        totals.read_open(&of_cgroup(9, 0, cell(6, &[10, 20])));
        totals.close(&of_cgroup(9, 0, cell(6, &[10, 20])));
        assert_eq!(count(&mut totals), (0, 0));
        totals.read_open(&of_cgroup(9, 0, cell(300, &[7])));
        totals.close(&of_cgroup(9, 0, cell(300, &[7, 8])));
        assert_eq!(count(&mut totals), (2, 15));
        assert_eq!(totals.rotating(), 1);
    }

    #[test]
    fn beyond_the_bound_subjects_count_together() {
        let mut totals = WindowTotals::default();
        let all = SUBJECTS as u64 + 100;
        for id in 0..all {
            totals.read_open(&of_cgroup(id, 0, cell(5, &[1])));
            totals.close(&of_cgroup(id, 0, cell(5, &[1, 1])));
        }
        assert_eq!(count(&mut totals), (2 * all, 2 * all));
        assert_eq!((totals.rotating(), totals.take().len()), (SUBJECTS, SUBJECTS + 1));
        assert_eq!(totals.folded(Signal::CgroupRunqueueWait), 100);
        assert_eq!(totals.take().last().unwrap().totals.count(), 200);
        for (key, _) in totals.idle() {
            totals.forget(key);
        }
        totals.close(&of_cgroup(1, 0, cell(5 + REMEMBERED_WINDOWS, &[1])));
        totals.sweep();
        assert_eq!((totals.rotating(), totals.cells.len()), (1, 1));
    }

    #[test]
    fn a_crowd_of_one_signal_takes_no_room_from_another() {
        let folded = || SIGNALS.iter().filter(|info| info.is_folded()).map(|info| info.signal);
        let mut totals = WindowTotals::default();
        for signal in folded() {
            let header = Header::new(RecordKind::Window, signal as u32, 0);
            for id in 0..=SUBJECTS as u64 {
                totals.close(&Cell { header, ..of_cgroup(id, 0, cell(5, &[1])) });
            }
        }
        assert!(folded().all(|signal| totals.folded(signal) == 1));
        assert_eq!(totals.take().len(), (SUBJECTS + 1) * folded().count());
    }

    /// What may happen to one cell.
    #[derive(Clone, Debug)]
    enum Step {
        Record(u64),
        Read,
        Turn,
        Forget,
    }

    fn step() -> impl Strategy<Value = Step> {
        (0u8..8, any::<u16>()).prop_map(|(kind, value)| match kind {
            0..=3 => Step::Record(u64::from(value)),
            4 | 5 => Step::Read,
            6 => Step::Turn,
            _ => Step::Forget,
        })
    }

    proptest! {
        #[test]
        fn every_value_counts_once(steps in proptest::collection::vec(step(), 0..120)) {
            let mut totals = WindowTotals::default();
            let (mut window, mut values, mut forgotten, mut all) = (1, Vec::new(), 0, 0);
            // A window that was forgotten gets no more values: only idle subjects are forgotten.
            let mut over = false;
            for step in steps {
                let now = of_cgroup(3, 1, cell(window, &values));
                match step {
                    Step::Record(value) if !over => {
                        values.push(value);
                        all += value;
                    }
                    Step::Record(_) => {}
                    Step::Read => totals.read_open(&now),
                    Step::Turn => {
                        totals.close(&now);
                        window += 1;
                        values.clear();
                        over = false;
                    }
                    Step::Forget => {
                        totals.read_open(&now);
                        for (key, _) in totals.idle() {
                            forgotten += totals.forget(key).sum_ns;
                        }
                        over = true;
                    }
                }
            }
            totals.read_open(&of_cgroup(3, 1, cell(window, &values)));
            prop_assert_eq!(count(&mut totals).1 + forgotten, all);
        }
    }
}
