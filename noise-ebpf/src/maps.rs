//! The maps, and the one way in which a value enters a histogram.

use core::ptr;

use aya_ebpf::bindings::{BPF_ANY, BPF_NOEXIST, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP};
use aya_ebpf::bindings::{BPF_F_MMAPABLE, BPF_RB_AVAIL_DATA, BPF_RB_RING_SIZE};
use aya_ebpf::helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, PerCpuHashMap, RingBuf};
use aya_log_ebpf::macro_support::{Level, level_enabled};
use aya_log_ebpf::{debug, trace};
use noise_common::WINDOW_NS;
use noise_common::charge::{ChargeKey, Charged, UNKNOWN};
use noise_common::event::{
    Cell, CellKey, CpuState, Hash, Outlier, PACKET_SLOTS, PacketTimes, RequestTimes, TASKS,
};
use noise_common::header::Header;
use noise_common::held_back::{HELD_BACK, HeldBack};
use noise_common::hist::{BUCKETS, bucket_of};
use noise_common::ledger::Waiting;
use noise_common::loss::Loss;
use noise_common::queue::{QUEUES, Served};
use noise_common::record::{OldPart, RecordKind};
use noise_common::signals::{ROTATING_CELLS, ROTATING_WAYS, Signal, keyed_slot, rotating_slot};
use noise_common::store::StoredEvent;
use noise_common::store::calls::CallSlot;

/// State of each CPU, memory-mapped by the daemon. Sized at load to the possible CPUs.
#[map]
pub static NOISE_CPUS: Array<CpuState> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// What each thread that does not run waits for, by pid: above 0 a CPU, 0 nothing that is measured.
/// Signals that begin with a sleep may put something below 0 there: whoever is woken waits for a CPU
/// from then on, so no thread needs two entries. Sized at load to `pid_max`.
#[map]
pub static NOISE_WAITING: Array<i64> = Array::with_max_entries(1, 0);

/// Tasks that wait for a CPU, direct-mapped by pid. Sized at load, a power of two.
#[map]
pub static NOISE_WAITS: Array<Waiting> = Array::with_max_entries(1, 0);

/// What queues of devices and interfaces served, direct-mapped.
#[map]
pub static NOISE_QUEUES: Array<Served> = Array::with_max_entries(QUEUES as u32, 0);

/// Charges for which a CPU's own table has no room.
#[map]
pub static NOISE_CHARGES: PerCpuHashMap<ChargeKey, Charged> =
    PerCpuHashMap::with_max_entries(2048, 0);

/// Histograms whose subjects come and go, where another subject has the direct-mapped cell.
#[map]
static NOISE_CELLS: PerCpuHashMap<CellKey, Cell> = PerCpuHashMap::with_max_entries(256, 0);

/// Counters whose subjects come and go.
#[map]
static NOISE_COUNTS: PerCpuHashMap<CellKey, u64> = PerCpuHashMap::with_max_entries(512, 0);

/// Block requests under way, by address. Entries stay and are updated in place: the addresses
/// come from the devices' tag sets, and an update is cheaper than an insertion and a deletion.
#[map]
pub static NOISE_REQUESTS: HashMap<u64, RequestTimes> = HashMap::with_max_entries(8192, 0);

/// Packets between queueing and transmission that are not their CPU's last one, direct-mapped by address.
#[map]
pub static NOISE_PACKETS: Array<PacketTimes> = Array::with_max_entries(PACKET_SLOTS as u32, 0);

/// Packets that another one pushed out of their slot.
#[map]
pub static NOISE_SPILLED: HashMap<u64, PacketTimes> = HashMap::with_max_entries(1024, 0);

/// When a task began what it does in the kernel for itself, by signal and pid.
#[map]
pub static NOISE_TASKS: HashMap<u64, u64> = HashMap::with_max_entries(TASKS as u32, 0);

/// Threads that the kernel holds back because they write too fast, direct-mapped by pid.
#[map]
pub static NOISE_HELD_BACK: Array<HeldBack> = Array::with_max_entries(HELD_BACK as u32, 0);

/// The parts of the event store, see `noise_common::store`. Memory-mapped by the daemon; sized at load.
#[map]
pub static NOISE_EVENTS: Array<StoredEvent> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// What threads do that are in system calls, direct-mapped by pid. Sized at load, where calls are recorded.
#[map]
pub static NOISE_CALLS: Array<CallSlot> = Array::with_max_entries(1, 0);

/// Records on their way to the daemon: closed windows and long waits (see `noise_common::record`).
#[map]
static NOISE_RING: RingBuf = RingBuf::with_byte_size(256 * 1024, 0);

/// The CPU that runs this program.
#[inline(always)]
pub fn this_cpu() -> u32 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_get_smp_processor_id() }
}

#[inline(always)]
pub fn cpu_state() -> Option<*mut CpuState> {
    NOISE_CPUS.get_ptr_mut(this_cpu())
}

/// The clock of all measurements: CLOCK_MONOTONIC, ns.
#[inline(always)]
pub fn clock_ns() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_ktime_get_ns() }
}

/// The time of an event, read when it is first asked for.
pub struct EventClock(u64);

impl EventClock {
    #[inline(always)]
    pub fn unread() -> Self {
        Self(0)
    }

    /// The time, which is the same from then on.
    #[inline(always)]
    pub fn now_ns(&mut self) -> u64 {
        if self.0 == 0 {
            self.0 = clock_ns();
        }
        self.0
    }
}

/// Whether a signal is switched on.
#[inline(always)]
pub fn measures(state: *mut CpuState, signal: Signal) -> bool {
    // SAFETY: `state` points to a whole CpuState.
    unsafe { (*state).measures(signal) }
}

/// Whether a start may be that of an interval which ends now: one from before the signal was
/// switched off is not.
#[inline(always)]
pub fn trusts(state: *mut CpuState, signal: Signal, start_ns: u64) -> bool {
    // SAFETY: as above.
    unsafe { (*state).trusts(signal, start_ns) }
}

/// Counts something that could not be counted properly.
#[inline(always)]
pub fn drop_event(state: *mut CpuState, signal: Signal, reason: Loss) {
    count_drop(state, signal, reason);
    if level_enabled(Level::Debug) && measures(state, signal) {
        log_drop(signal.info().name, reason.name());
    }
}

/// The same without a debug record: in the midst of a program that multiplies the paths
/// which the verifier follows.
#[inline(always)]
fn count_drop(state: *mut CpuState, signal: Signal, reason: Loss) {
    if !measures(state, signal) {
        return;
    }
    // SAFETY: `state` points to a whole CpuState, and both indices are discriminants of the enums
    // that give the arrays their lengths.
    unsafe {
        let counter = &raw mut (*state).drops[signal as usize][reason as usize];
        ptr::write_volatile(counter, ptr::read_volatile(counter) + 1);
    }
}

/// Tells of a drop. While the level is off, the verifier removes the call: the level is a constant
/// of the loaded program.
#[inline(never)]
fn log_drop(signal: &'static str, reason: &'static str) {
    debug!((), "{} not counted: {}", signal, reason);
}

/// Adds the time from `start_ns` to `now_ns` to a fixed cell; `index` counts within the signal.
#[inline(always)]
pub fn record_interval(
    state: *mut CpuState,
    signal: Signal,
    index: usize,
    start_ns: u64,
    now_ns: u64,
) {
    if now_ns < start_ns {
        drop_event(state, signal, Loss::ClockBackwards);
    } else {
        record_fixed(state, signal, index, now_ns - start_ns, now_ns);
    }
}

/// Adds a value to a fixed cell. `index` must be below the signal's number of subjects.
#[inline(always)]
pub fn record_fixed(
    state: *mut CpuState,
    signal: Signal,
    index: usize,
    value_ns: u64,
    now_ns: u64,
) {
    if !measures(state, signal) {
        return;
    }
    // SAFETY: callers keep `index` below the signal's number of subjects; the verifier checks.
    let cell = unsafe { &raw mut (*state).cells }.cast::<Cell>();
    // SAFETY: as above.
    let cell = unsafe { cell.add(signal.first_cell() + index) };
    record(state, cell, signal, index as u64, value_ns, now_ns);
}

/// Adds a value to the cell of a subject that comes and goes.
///
/// A subject stays where its window is open: in two places, one window would be mistaken for another
/// reading of the other.
#[inline(always)]
pub fn record_keyed(
    state: *mut CpuState,
    signal: Signal,
    subject: u64,
    value_ns: u64,
    now_ns: u64,
) {
    if !measures(state, signal) {
        return;
    }
    let slot = signal.first_cell() + keyed_slot(subject);
    // SAFETY: the slot is below the number of the signal's cells.
    let direct = unsafe { (&raw mut (*state).cells).cast::<Cell>().add(slot) };
    // SAFETY: as above; one hook alone writes the cells of a signal. A cell that was never used has the
    // subject 0, which then has no window elsewhere; one that was freed has none.
    if unsafe { (*direct).subject == subject } {
        return record(state, direct, signal, subject, value_ns, now_ns);
    }
    let key = CellKey { signal: signal as u32, padding: 0, subject };
    // SAFETY: the pointers are an entry of the hash, and the cell from above; `empty` is never
    // written.
    let cell = unsafe {
        match NOISE_CELLS.get_ptr_mut(key) {
            Some(hashed) if (*hashed).closes_ns != 0 => hashed,
            _ if (*direct).closes_ns == 0 => direct,
            Some(hashed) => hashed,
            None => {
                let empty = &(*state).empty;
                // Another CPU may insert the same key first.
                let _ = NOISE_CELLS.insert(key, empty, u64::from(BPF_NOEXIST));
                note_hashed(state, Hash::Cells);
                match NOISE_CELLS.get_ptr_mut(key) {
                    Some(hashed) => hashed,
                    None => return drop_event(state, signal, Loss::MapFull),
                }
            }
        }
    };
    record(state, cell, signal, subject, value_ns, now_ns);
}

/// Adds a value to the cell of a subject that shares its cells with others.
#[inline(always)]
pub fn record_rotating(
    state: *mut CpuState,
    signal: Signal,
    subject: u64,
    value_ns: u64,
    now_ns: u64,
) {
    if !measures(state, signal) {
        return;
    }
    let first = rotating_slot(subject);
    // SAFETY: all indices are below the number of the signal's cells; one hook alone writes them.
    unsafe {
        let cells = (&raw mut (*state).cells).cast::<Cell>().add(signal.first_cell());
        let mut free = ROTATING_CELLS;
        for way in 0..ROTATING_WAYS {
            let cell = cells.add(first ^ way);
            if (*cell).subject == subject && (*cell).closes_ns != 0 {
                return record(state, cell, signal, subject, value_ns, now_ns);
            }
            if (*cell).closes_ns <= now_ns {
                free = first ^ way;
            }
        }
        // Opening its window sends that of the subject before, and takes the cell over.
        if free != ROTATING_CELLS {
            turn_window(cells.add(free), signal as u32, subject, now_ns);
            if (*cells.add(free)).subject == subject {
                return record(state, cells.add(free), signal, subject, value_ns, now_ns);
            }
            // The ring is full, and the cell still its owner's.
        }
        record(state, cells.add(ROTATING_CELLS), signal, UNKNOWN, value_ns, now_ns);
    }
}

/// Has the daemon look into a hash from now on.
#[inline(always)]
pub fn note_hashed(state: *mut CpuState, hash: Hash) {
    // SAFETY: the index is a discriminant; all programs of the CPU write the same.
    unsafe { (*state).hashed[hash as usize] = 1 };
}

/// Adds one to the counter of a subject that comes and goes.
#[inline(always)]
pub fn count_keyed(state: *mut CpuState, signal: Signal, subject: u64) {
    if !measures(state, signal) {
        return;
    }
    let key = CellKey { signal: signal as u32, padding: 0, subject };
    if let Some(counter) = NOISE_COUNTS.get_ptr_mut(key) {
        // SAFETY: the pointer is this CPU's value; programs of one hook do not nest.
        unsafe { *counter += 1 };
    } else if NOISE_COUNTS.insert(key, 1, u64::from(BPF_NOEXIST)).is_ok() {
        note_hashed(state, Hash::Counts);
    } else {
        // Another CPU inserted the key meanwhile, or there is no room.
        match NOISE_COUNTS.get_ptr_mut(key) {
            // SAFETY: as above.
            Some(counter) => unsafe { *counter += 1 },
            None => drop_event(state, signal, Loss::MapFull),
        }
    }
}

#[inline(always)]
fn record(
    state: *mut CpuState,
    cell: *mut Cell,
    signal: Signal,
    subject: u64,
    value_ns: u64,
    now_ns: u64,
) {
    // SAFETY: `cell` points to a whole cell of this CPU, and one hook alone writes it.
    unsafe {
        if now_ns >= (*cell).closes_ns {
            turn_window(cell, signal as u32, subject, now_ns);
        }
        let bucket = core::hint::black_box(bucket_of(value_ns));
        if bucket >= BUCKETS {
            return;
        }
        let count = (&raw mut (*cell).buckets).cast::<u32>().add(bucket);
        if *count == u32::MAX {
            return count_drop(state, signal, Loss::Saturated);
        }
        *count += 1;
        (*cell).sum_ns += value_ns;
        if value_ns > (*cell).max_ns {
            (*cell).max_ns = value_ns;
        }
    }
}

/// Whether the ring is more than half full.
#[inline(always)]
fn runs_full() -> bool {
    let waiting = NOISE_RING.query(u64::from(BPF_RB_AVAIL_DATA));
    waiting > NOISE_RING.query(u64::from(BPF_RB_RING_SIZE)) / 2
}

/// Closes the window of a cell, if one is open, and opens the next.
///
/// Where the ring is full, the window stays open for another length: nothing is lost, only late.
#[inline(never)]
fn turn_window(cell: *mut Cell, signal: u32, subject: u64, now_ns: u64) {
    // SAFETY: `cell` points to a whole cell of this CPU, and one hook alone writes it.
    unsafe {
        let is_claimed = (*cell).closes_ns == 0;
        if (*cell).head != 0 {
            // The daemon drains by a timer; wake it early only where the ring runs full.
            let wakeup = if runs_full() { BPF_RB_FORCE_WAKEUP } else { BPF_RB_NO_WAKEUP };
            if NOISE_RING.output::<Cell>(&*cell, u64::from(wakeup)).is_err() {
                (*cell).closes_ns = now_ns + WINDOW_NS;
                if let (Some(state), Some(signal)) = (cpu_state(), known_signal(signal)) {
                    let counter = (&raw mut (*state).drops)
                        .cast::<u64>()
                        .add(signal * noise_common::loss::LOSSES.len())
                        .add(Loss::RingFullDelayed as usize);
                    *counter += 1;
                }
                return;
            }
            ptr::write_volatile(&raw mut (*cell).tail, 0);
            ptr::write_volatile(&raw mut (*cell).head, 0);
            ptr::write_volatile(&raw mut (*cell).sum_ns, 0);
            ptr::write_volatile(&raw mut (*cell).max_ns, 0);
            let buckets = (&raw mut (*cell).buckets).cast::<u64>();
            for pair in 0..BUCKETS / 2 {
                ptr::write_volatile(buckets.add(pair), 0);
            }
        }
        let window = now_ns / WINDOW_NS;
        trace!((), "signal {}, subject {:x}: window {} opens", signal, subject, window);
        ptr::write_volatile(&raw mut (*cell).subject, subject);
        let header = Header::new(RecordKind::Window, signal, this_cpu());
        ptr::write_volatile(&raw mut (*cell).header, header);
        ptr::write_volatile(&raw mut (*cell).closes_ns, (window + 1) * WINDOW_NS);
        ptr::write_volatile(&raw mut (*cell).head, window);
        ptr::write_volatile(&raw mut (*cell).tail, window);
        // Only now: the daemon that sees the number finds the cell.
        if is_claimed && let Some(state) = cpu_state() {
            (*state).claims += 1;
        }
    }
}

/// Sends the record of a long wait.
#[inline(always)]
pub fn send_outlier(state: *mut CpuState) {
    // SAFETY: the state is this CPU's.
    let outlier = unsafe { &(*state).outlier };
    if NOISE_RING.output::<Outlier>(outlier, u64::from(BPF_RB_NO_WAKEUP)).is_err() {
        drop_event(state, Signal::CgroupRunqueueWait, Loss::RateLimited);
    }
}

/// Sends an old part of a wait, and wakes the daemon where that `is_due` or the ring runs full. Whether there was room.
#[inline(always)]
pub fn send_old_part(state: *mut CpuState, old: &OldPart, is_due: bool) -> bool {
    let wakeup = if is_due || runs_full() { BPF_RB_FORCE_WAKEUP } else { BPF_RB_NO_WAKEUP };
    let is_sent = NOISE_RING.output::<OldPart>(old, u64::from(wakeup)).is_ok();
    if !is_sent {
        count_drop(state, Signal::RunqueueWait, Loss::RateLimited);
    }
    is_sent
}

#[inline(always)]
fn known_signal(signal: u32) -> Option<usize> {
    let signal = core::hint::black_box(signal) as usize;
    (signal < noise_common::signals::SIGNAL_COUNT).then_some(signal)
}

/// Stores or replaces an entry; counts a refusal.
#[inline(always)]
pub fn insert_or_drop<V: Copy>(
    state: *mut CpuState,
    signal: Signal,
    map: &HashMap<u64, V>,
    key: u64,
    value: &V,
) {
    if map.insert(key, value, u64::from(BPF_ANY)).is_err() {
        drop_event(state, signal, Loss::MapFull);
    }
}
