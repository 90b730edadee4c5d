//! The memory that the programs write and this process has mapped: one [`CpuState`] for each CPU.

use std::os::fd::BorrowedFd;

use memmap2::{MmapOptions, MmapRaw};
use noise_common::charge::{CHARGE_SLOTS, ChargeKey, ChargeSlot, Charged, charge_slot};
use noise_common::charge::{CHARGE_WAYS, Cause, Resource, UNKNOWN};
use noise_common::event::{Cell, CellKey, CpuState, Hash};
use noise_common::ledger::{TURNS, Turn};
use noise_common::loss::Loss;
use noise_common::signals::{CELLS_PER_CPU, Signal};

use super::used::CellMark;

/// Attempts at reading a cell that is being reset.
const READ_ATTEMPTS: usize = 3;

/// What all CPUs charged.
pub fn sum(by_cpu: impl Iterator<Item = Charged>) -> Charged {
    by_cpu.fold(Charged::default(), |sum, one| Charged {
        ns: sum.ns.wrapping_add(one.ns),
        count: sum.count.wrapping_add(one.count),
    })
}

/// The states of all possible CPUs.
pub struct CpuStates {
    map: MmapRaw,
    cpus: usize,
}

impl CpuStates {
    /// Maps the states of that many CPUs.
    /// Errors: where the kernel refuses.
    pub fn map(array: BorrowedFd<'_>, cpus: usize) -> std::io::Result<Self> {
        let map = MmapOptions::new().len(size_of::<CpuState>() * cpus).map_raw(&array)?;
        Ok(Self { map, cpus })
    }

    pub fn len(&self) -> usize {
        self.cpus
    }

    fn state(&self, cpu: usize) -> Option<*mut CpuState> {
        let first = self.map.as_mut_ptr().cast::<CpuState>();
        // SAFETY: the mapping holds this many states.
        (cpu < self.cpus).then(|| unsafe { first.add(cpu) })
    }

    fn states(&self) -> impl Iterator<Item = *mut CpuState> {
        (0..self.cpus).filter_map(|cpu| self.state(cpu))
    }

    fn cell(&self, cpu: usize, index: usize) -> Option<*mut Cell> {
        let state = self.state(cpu).filter(|_| index < CELLS_PER_CPU)?;
        // SAFETY: the index is below the number of cells.
        Some(unsafe { (&raw mut (*state).cells).cast::<Cell>().add(index) })
    }

    /// How many cells of a CPU were taken into use.
    pub fn claims(&self, cpu: usize) -> u64 {
        // SAFETY: the pointer lies in the mapping.
        self.state(cpu).map_or(0, |state| unsafe { (&raw const (*state).claims).read_volatile() })
    }

    /// Whether a cell is in use, or was since it was freed last.
    pub fn is_used(&self, cpu: usize, index: usize) -> bool {
        let closes = |cell: *mut Cell| {
            // SAFETY: the pointer lies in the mapping.
            unsafe { (&raw const (*cell).closes_ns).read_volatile() }
        };
        self.cell(cpu, index).is_some_and(|cell| closes(cell) != 0)
    }

    /// The mark of a cell that is not being reset.
    pub fn mark(&self, cpu: usize, index: usize) -> Option<CellMark> {
        let cell = self.cell(cpu, index)?;
        // SAFETY: the pointer lies in the mapping.
        unsafe {
            let window = (&raw const (*cell).head).read_volatile();
            let sum_ns = (&raw const (*cell).sum_ns).read_volatile();
            let shortest = (&raw const (*cell).buckets).cast::<u32>().read_volatile();
            (window != 0).then_some(CellMark { window, sum_ns, shortest })
        }
    }

    /// Copies a cell that a program may be writing; `None` where it is unused or being reset. A
    /// window that was reset meanwhile has been pushed before and is found in the ring.
    pub fn read_cell(&self, cpu: usize, index: usize) -> Option<Cell> {
        let cell = self.cell(cpu, index)?;
        for _ in 0..READ_ATTEMPTS {
            // SAFETY: the pointer lies in the mapping. The copy may be torn by a program's writes;
            // `head` and `tail` show that, and any bytes are a valid cell.
            let (head, copy, tail) = unsafe {
                let head = (&raw const (*cell).head).read_volatile();
                if head == 0 {
                    return None;
                }
                let copy = cell.read_volatile();
                (head, copy, (&raw const (*cell).tail).read_volatile())
            };
            if head == tail && copy.head == head {
                return Some(copy);
            }
        }
        None
    }

    /// Frees the direct-mapped cells of a signal's subject that is gone, so that no program writes them any more.
    pub fn free_cells(&self, signal: Signal, key: CellKey) {
        let first = signal.first_cell();
        for cpu in 0..self.cpus {
            let cells = first..first + signal.info().storage.cells();
            for cell in cells.filter_map(|index| self.cell(cpu, index)) {
                // SAFETY: the pointer lies in the mapping, which is writable; the order is the
                // programs' own.
                unsafe {
                    let header = (&raw const (*cell).header).read_volatile();
                    let of_key = u32::from(header.signal) == key.signal
                        && (&raw const (*cell).subject).read_volatile() == key.subject;
                    if of_key && (&raw const (*cell).closes_ns).read_volatile() != 0 {
                        (&raw mut (*cell).tail).write_volatile(0);
                        (&raw mut (*cell).head).write_volatile(0);
                        // 0 is a subject, too: what is counted of it may have a window elsewhere.
                        cell.write_volatile(Cell { subject: UNKNOWN, ..Cell::EMPTY });
                    }
                }
            }
        }
    }

    /// Context switches of one kind, of all CPUs.
    pub fn switches(&self, kind: usize) -> u64 {
        self.states()
            // SAFETY: the pointer lies in the mapping.
            .map(|state| unsafe { (&raw const (*state).switches).read_volatile() })
            .filter_map(|switches| switches.get(kind).copied())
            .sum()
    }

    /// What a signal did not count for one reason, of all CPUs.
    pub fn drops(&self, signal: Signal, reason: Loss) -> u64 {
        let of = |state: *mut CpuState| {
            // SAFETY: the pointer lies in the mapping; the indices are discriminants.
            unsafe {
                let drops = &raw const (*state).drops[signal as usize][reason as usize];
                drops.read_volatile()
            }
        };
        self.states().map(of).sum()
    }

    /// Whether any CPU put something into a hash.
    pub fn uses(&self, hash: Hash) -> bool {
        // SAFETY: the pointer lies in the mapping; the index is a discriminant.
        let of = |state: *mut CpuState| unsafe {
            (&raw const (*state).hashed[hash as usize]).read_volatile()
        };
        self.states().any(|state| of(state) != 0)
    }

    /// The turns that a CPU remembers, the newest and the oldest apart, which may be being written.
    pub fn turns(&self, cpu: usize) -> Vec<Turn> {
        let Some(state) = self.state(cpu) else { return Vec::new() };
        // SAFETY: the pointer lies in the mapping. What a program wrote meanwhile is left out below, and any
        // bytes are a valid turn.
        let (before, turns, newest) = unsafe {
            let ledger = &raw const (*state).ledger;
            let before = (&raw const (*ledger).newest).read_volatile();
            let turns = (&raw const (*ledger).turns).read_volatile();
            std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
            (before, turns, (&raw const (*ledger).newest).read_volatile())
        };
        // A program counts a turn before it writes it.
        let whole = newest.saturating_sub(TURNS as u64 - 1)..before;
        let whole = whole.filter_map(|number| turns.get((number % TURNS as u64) as usize));
        whole.filter(|turn| turn.start_ns != 0).copied().collect()
    }

    fn slot(&self, cpu: usize, index: usize) -> Option<*mut ChargeSlot> {
        let state = self.state(cpu).filter(|_| index < CHARGE_SLOTS)?;
        // SAFETY: the index is below the number of entries.
        Some(unsafe { (&raw mut (*state).charges).cast::<ChargeSlot>().add(index) })
    }

    /// What an entry of a CPU's table has, if it is used.
    pub fn charged(&self, cpu: usize, index: usize) -> Option<Charged> {
        let slot = self.slot(cpu, index)?;
        // SAFETY: the pointer lies in the mapping.
        unsafe {
            if (&raw const (*slot).key.used).read_volatile() == 0 {
                return None;
            }
            Some((&raw const (*slot).charged).read_volatile())
        }
    }

    /// Whose a used entry is; `None` where the key is not whole yet.
    pub fn charge_key(&self, cpu: usize, index: usize) -> Option<ChargeKey> {
        let slot = self.slot(cpu, index)?;
        // SAFETY: the pointer lies in the mapping; any bytes are a valid key.
        let key = unsafe { (&raw const (*slot).key).read_volatile() };
        let kind = ChargeKey::kind(key.place, key.cause()?, key.resource()?);
        let home = charge_slot(key.victim, key.culprit, kind);
        (key.used == 1 && home ^ index < CHARGE_WAYS).then_some(key)
    }

    /// Frees an entry that holds no more than `last`, for another key to take. What a program adds at that very
    /// moment is lost, so that is for those who can add nothing: a victim or culprit that is gone.
    pub fn free_charge(&self, cpu: usize, index: usize, last: Charged) -> bool {
        if self.charged(cpu, index) != Some(last) {
            return false;
        }
        let Some(slot) = self.slot(cpu, index) else { return false };
        // SAFETY: the pointer lies in the mapping, which is writable. The key goes last: the
        // program that takes the entry then finds it empty.
        unsafe {
            (&raw mut (*slot).charged).write_volatile(Charged::default());
            std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
            let key: ChargeKey = bytemuck::Zeroable::zeroed();
            (&raw mut (*slot).key).write_volatile(key);
        }
        true
    }

    /// Charges of one resource and cause for which there was room nowhere, of all CPUs.
    pub fn unplaced(&self, resource: Resource, cause: Cause) -> Charged {
        let of = |state: *mut CpuState| {
            // SAFETY: the pointer lies in the mapping; the indices are discriminants.
            unsafe {
                (&raw const (*state).unplaced[resource as usize][cause as usize]).read_volatile()
            }
        };
        sum(self.states().map(of))
    }
}

#[cfg(any(test, feature = "live"))]
impl CpuStates {
    /// Writes a cell as a program would; there is none beyond the last.
    pub fn write_cell(&self, cpu: usize, index: usize, content: Cell) {
        if let Some(cell) = self.cell(cpu, index) {
            // SAFETY: the pointer lies in the mapping.
            unsafe { cell.write_volatile(content) };
        }
    }
}

/// Memory of our own in the place of the programs', which tests write as programs would.
#[cfg(test)]
impl CpuStates {
    pub fn unused(cpus: usize) -> Self {
        let map = MmapOptions::new().len(size_of::<CpuState>() * cpus).map_anon().unwrap();
        Self { map: map.into(), cpus }
    }

    pub fn charge(&self, cpu: usize, index: usize, key: ChargeKey, charged: Charged) {
        let slot = self.slot(cpu, index).unwrap();
        // SAFETY: the pointer lies in the mapping.
        unsafe { slot.write_volatile(ChargeSlot { key, charged }) };
    }

    pub fn charge_unplaced(&self, cpu: usize, resource: Resource, cause: Cause, charged: Charged) {
        let state = self.state(cpu).unwrap();
        // SAFETY: the pointer lies in the mapping; the indices are discriminants.
        unsafe {
            let place = &raw mut (*state).unplaced[resource as usize][cause as usize];
            place.write_volatile(charged);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use noise_common::header::Header;
    use noise_common::record::RecordKind;

    fn key(victim: u64) -> (usize, ChargeKey) {
        let kind = ChargeKey::kind(0, Cause::Foreign, Resource::Cpu);
        let key = ChargeKey {
            victim,
            culprit: 2,
            place: 0,
            cause: Cause::Foreign as u8,
            resource: Resource::Cpu as u8,
            used: 1,
        };
        (charge_slot(victim, 2, kind), key)
    }

    #[test]
    fn entries_are_read_and_freed() {
        let states = CpuStates::unused(2);
        let (index, key) = key(1);
        assert_eq!(states.charged(1, index), None);
        let charged = Charged { ns: 5, count: 1 };
        states.charge(1, index ^ 3, key, charged);
        assert_eq!(states.charged(1, index ^ 3), Some(charged));
        assert_eq!(states.charge_key(1, index ^ 3), Some(key));
        assert_eq!(states.charged(0, index ^ 3), None);
        assert!(!states.free_charge(1, index ^ 3, Charged { ns: 4, count: 1 }));
        assert!(states.free_charge(1, index ^ 3, charged));
        assert_eq!(states.charged(1, index ^ 3), None);
        assert_eq!((states.charged(2, 0), states.charged(0, CHARGE_SLOTS)), (None, None));
    }

    #[test]
    fn a_cell_that_was_freed_is_of_no_subject() {
        let states = CpuStates::unused(1);
        let (signal, slot) = (Signal::NetTxWait, Signal::NetTxWait.first_cell());
        let header = Header::new(RecordKind::Window, signal as u32, 0);
        let subject = 13;
        states.write_cell(0, slot, Cell { header, subject, closes_ns: 1, ..Cell::EMPTY });
        states.free_cells(signal, CellKey { signal: signal as u32, padding: 0, subject });
        assert!(!states.is_used(0, slot));
        // SAFETY: the pointer lies in the mapping.
        let freed = unsafe { states.cell(0, slot).unwrap().read_volatile() };
        assert_eq!(freed.subject, UNKNOWN);
    }

    #[test]
    fn a_key_that_is_not_whole_is_not_believed() {
        let states = CpuStates::unused(1);
        let (index, key) = key(1);
        let elsewhere = (index + CHARGE_SLOTS / 2) % CHARGE_SLOTS;
        states.charge(0, elsewhere, key, Charged::default());
        assert_eq!(states.charge_key(0, elsewhere), None);
        states.charge(0, index, ChargeKey { cause: 77, ..key }, Charged::default());
        assert_eq!(states.charge_key(0, index), None);
    }
}
