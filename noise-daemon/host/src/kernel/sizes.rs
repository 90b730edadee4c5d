//! How large the maps are on this host.

use std::path::Path;

use anyhow::Context as _;
use noise_common::charge::{ChargeKey, Charged};
use noise_common::event::{
    Cell, CellKey, CpuState, PACKET_SLOTS, PacketTimes, RequestTimes, TASKS,
};
use noise_common::held_back::{HELD_BACK, HeldBack};
use noise_common::ledger::Waiting;
use noise_common::queue::{QUEUES, Served};
use noise_common::signals::OPERATIONS;
use noise_common::store::calls::CALL_SLOTS;
use noise_common::store::{Layout, StoredEvent};
use noise_common::watch::WatchedCpu;
use noise_system::procfs;

/// The host's dimensions, from which map sizes follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Possible CPUs: numbers that a CPU can ever have, hot-plugged ones included.
    pub cpus: u32,
    /// Possible pids: the kernel's `pid_max`.
    pub pids: u32,
    /// Histograms of disks, interfaces and interrupts on one CPU that find no place in its own table.
    pub cells: u32,
}

/// Bytes of the flight recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderSize {
    /// For each possible CPU at most; 0 = none.
    pub per_cpu: u64,
    /// For all at most.
    pub all: u64,
}

impl RecorderSize {
    /// What each of so many CPUs gets.
    pub fn share(self, cpus: u32) -> u64 {
        self.per_cpu.min(self.all / u64::from(cpus.max(1)))
    }

    /// The next smaller size; none at last.
    #[must_use]
    pub fn halved(self, cpus: u32) -> Self {
        Self { per_cpu: self.share(cpus) / 2, ..self }
    }
}

/// One map and the memory that it takes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct MapSize {
    pub name: &'static str,
    /// Its number of entries (bytes for the ring buffers).
    pub max_entries: u32,
    /// What it takes, bytes, by the kernel's layout of that map type.
    pub bytes: u64,
}

/// What a hash element takes beside key and value, bytes.
const HASH_ELEMENT_BYTES: u64 = 48;
/// Ring buffer for each CPU: four windows of sixty signals.
const RING_BYTES_PER_CPU: u32 = 128 * 1024;
/// Waiting tasks for each CPU, the fewest and the most of all.
const WAITS_PER_CPU: u32 = 512;
const WAITS: (u32, u32) = (2048, 65_536);
/// Packets under way that others pushed out of their slot.
const SPILLED: u32 = 1024;
/// Histograms of what comes and goes, on each CPU: the fewest and the most, and what all may take, bytes.
const CELLS: (u32, u32) = (256, 4096);
const CELL_BYTES: u64 = 64 << 20;
/// Those of a disk: of each operation in two signals.
const CELLS_OF_DISK: u32 = 2 * OPERATIONS.len() as u32;
/// Those of an interface: of both ways.
const CELLS_OF_INTERFACE: u32 = 2;
/// Charges that find no room in the CPUs' own tables.
const CHARGES: u32 = 1024;
/// Ring for each CPU that is watched: 50 ms of 300,000 events a second.
const WATCH_RING_BYTES_PER_CPU: u32 = 1024 * 1024;
/// The smallest and the largest ring.
const RING_BYTES: (u32, u32) = (256 * 1024, 16 * 1024 * 1024);
/// Ring of the programs' debug records, where they are on; the smallest one where they are off.
const DEBUG_RING_BYTES: (u32, u32) = (4096, 128 * 1024);

/// Reads the kernel's `pid_max` below a procfs root.
fn pid_max(procfs: &Path) -> anyhow::Result<u32> {
    let path = procfs.join("sys/kernel/pid_max");
    let text = procfs::text(&path).with_context(|| format!("cannot read {}", path.display()))?;
    text.trim().parse().with_context(|| format!("{} does not hold a number", path.display()))
}

/// Histograms that the disks and interfaces below a sysfs root may need beside the fewest, on a host with so many CPUs.
fn cells(sysfs: &Path, cpus: u32) -> u32 {
    let entries = |folder: &str| std::fs::read_dir(sysfs.join(folder)).map_or(0, Iterator::count);
    let of = |folder, each| u32::try_from(entries(folder)).unwrap_or(u32::MAX).saturating_mul(each);
    let all = of("block", CELLS_OF_DISK).saturating_add(of("class/net", CELLS_OF_INTERFACE));
    let affordable = CELL_BYTES / size_of::<Cell>() as u64 / u64::from(cpus.max(1));
    let most = CELLS.1.min(u32::try_from(affordable).unwrap_or(u32::MAX));
    CELLS.0.saturating_add(all).min(most).max(CELLS.0)
}

/// Watches whether threads may get ids for which the maps have no room.
#[derive(Debug)]
pub struct PidLimit {
    pids: u32,
    reported: bool,
}

impl PidLimit {
    /// As it was when the maps were made.
    pub fn new(sizes: Sizes) -> Self {
        Self { pids: sizes.pids, reported: false }
    }

    /// The limit below a procfs root, when it is found to be larger for the first time.
    pub fn outgrown(&mut self, procfs: &Path) -> Option<u32> {
        if self.reported {
            return None;
        }
        let pids = pid_max(procfs).ok().filter(|pids| *pids > self.pids)?;
        self.reported = true;
        Some(pids)
    }
}

impl Sizes {
    /// Reads the host's dimensions.
    /// Errors: where sysfs or procfs cannot be read.
    pub fn of_host() -> anyhow::Result<Self> {
        let cpus = aya::util::nr_cpus()
            .map_err(|(path, error)| anyhow::anyhow!("cannot read {path}: {error}"))?;
        let pids = pid_max("/proc".as_ref())?;
        let cpus = u32::try_from(cpus)?;
        Ok(Self { cpus, pids, cells: cells("/sys".as_ref(), cpus) })
    }

    /// Bytes of the ring buffer of closed windows: a power of two.
    fn ring_bytes(self) -> u32 {
        let wanted = self.cpus.saturating_mul(RING_BYTES_PER_CPU).clamp(RING_BYTES.0, RING_BYTES.1);
        wanted.next_power_of_two()
    }

    /// Tasks that may wait for a CPU at once before they share entries: a power of two.
    pub fn waits(self) -> u32 {
        self.cpus.saturating_mul(WAITS_PER_CPU).clamp(WAITS.0, WAITS.1).next_power_of_two()
    }

    /// Threads in system calls that have a slot of their own, where calls are recorded: a power of two.
    pub fn calls(self) -> u32 {
        self.pids.clamp(1, CALL_SLOTS).next_power_of_two()
    }

    /// Where the event store's parts lie: as much of a size as makes a power of two for each CPU. The
    /// parts of interrupters, 24 KiB for each CPU, come on top.
    pub fn store(self, size: RecorderSize) -> Layout {
        let events = size.share(self.cpus) / size_of::<StoredEvent>() as u64;
        Layout::new(self.cpus, u32::try_from(events).unwrap_or(u32::MAX))
    }

    /// Every map but the event store with its size. `debug` where the programs write debug records.
    pub fn maps(self, debug: bool) -> Vec<MapSize> {
        let cpus = u64::from(self.cpus);
        let size = |name, max_entries: u32, bytes: u64| MapSize { name, max_entries, bytes };
        let of = |bytes: usize| bytes as u64;
        let hash = |entries: u32, key: usize, value: u64| {
            u64::from(entries) * (HASH_ELEMENT_BYTES + key as u64 + value + 16)
        };
        let requests = (self.cpus.saturating_mul(1024)).clamp(2048, 131_072);
        let waits = self.waits();
        let ring = self.ring_bytes();
        let debug_ring = if debug { DEBUG_RING_BYTES.1 } else { DEBUG_RING_BYTES.0 };
        vec![
            size("NOISE_CPUS", self.cpus, cpus * of(size_of::<CpuState>())),
            size("NOISE_WAITING", self.pids, u64::from(self.pids) * 8),
            size("NOISE_WAITS", waits, u64::from(waits) * of(size_of::<Waiting>())),
            size(
                "NOISE_CHARGES",
                CHARGES,
                hash(CHARGES, size_of::<ChargeKey>(), cpus * of(size_of::<Charged>())),
            ),
            size("NOISE_QUEUES", QUEUES as u32, of(QUEUES * size_of::<Served>())),
            size(
                "NOISE_CELLS",
                self.cells,
                hash(self.cells, size_of::<CellKey>(), cpus * of(size_of::<Cell>())),
            ),
            size("NOISE_COUNTS", 512, hash(512, size_of::<CellKey>(), cpus * 8)),
            size("NOISE_REQUESTS", requests, hash(requests, 8, of(size_of::<RequestTimes>()))),
            size("NOISE_PACKETS", PACKET_SLOTS as u32, of(PACKET_SLOTS * size_of::<PacketTimes>())),
            size("NOISE_SPILLED", SPILLED, hash(SPILLED, 8, of(size_of::<PacketTimes>()))),
            size("NOISE_HELD_BACK", HELD_BACK as u32, of(HELD_BACK * size_of::<HeldBack>())),
            size("NOISE_TASKS", TASKS as u32, hash(TASKS as u32, 8, 8)),
            size("NOISE_RING", ring, u64::from(ring)),
            size("AYA_LOGS", debug_ring, u64::from(debug_ring)),
        ]
    }

    /// The maps of the programs that watch.
    pub fn watching_maps(self) -> Vec<MapSize> {
        let size = |name, max_entries: u32, bytes: u64| MapSize { name, max_entries, bytes };
        let ring = (self.cpus.saturating_mul(WATCH_RING_BYTES_PER_CPU))
            .clamp(RING_BYTES.0, RING_BYTES.1)
            .next_power_of_two();
        let states = u64::from(self.cpus) * size_of::<WatchedCpu>() as u64;
        vec![size("WATCH_CPUS", self.cpus, states), size("WATCH_RING", ring, u64::from(ring))]
    }

    /// Bytes of all maps, and of those the part that grows with possible pids.
    pub fn total_bytes(self, debug: bool) -> (u64, u64) {
        let total = self.maps(debug).iter().map(|map| map.bytes).sum();
        (total, u64::from(self.pids) * 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_holds_on_small_and_large_hosts() {
        for (cpus, pids) in [(1, 32_768), (2, 32_768), (8, 4_194_304), (128, 4_194_304)] {
            let sizes = Sizes { cpus, pids, cells: CELLS.0 };
            let (total, by_pid) = sizes.total_bytes(false);
            // Two MiB for the smallest hosts, then one for each CPU.
            let budget = u64::from(cpus.max(2)) * 1024 * 1024;
            assert!(total - by_pid <= budget, "{cpus} CPUs: {total} - {by_pid} > {budget}");
            let most = CELLS.1.min((CELL_BYTES / 512 / u64::from(cpus)) as u32);
            let (largest, _) = Sizes { cells: most, ..sizes }.total_bytes(false);
            assert!(largest <= total + CELL_BYTES + (1 << 20), "{cpus} CPUs: {largest}");
        }
    }

    #[test]
    fn a_host_with_many_disks_and_interfaces_has_room_for_them() {
        let sysfs = tempfile::tempdir().unwrap();
        assert_eq!(cells(sysfs.path(), 2), 256);
        let make = |folder: &str, many: u32| {
            (0..many).for_each(|number| {
                std::fs::create_dir_all(sysfs.path().join(format!("{folder}/{number}"))).unwrap();
            });
        };
        make("block", 60);
        assert_eq!(cells(sysfs.path(), 2), 856);
        make("class/net", 250);
        assert_eq!(
            [2, 64, 128, 1024].map(|cpus| cells(sysfs.path(), cpus)),
            [1356, 1356, 1024, 256]
        );
        make("block", 1000);
        assert_eq!([2, 32, 64].map(|cpus| cells(sysfs.path(), cpus)), [4096, 4096, 2048]);
    }

    #[test]
    fn a_larger_limit_of_pids_is_reported_once() {
        let procfs = tempfile::tempdir().unwrap();
        let path = procfs.path().join("sys/kernel/pid_max");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut limit = PidLimit::new(Sizes { cpus: 1, pids: 32_768, cells: CELLS.0 });
        assert_eq!(limit.outgrown(procfs.path()), None);
        for (text, expected) in [("32768", None), ("1000", None), ("65536\n", Some(65_536))] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(limit.outgrown(procfs.path()), expected);
        }
        std::fs::write(&path, "131072").unwrap();
        assert_eq!(limit.outgrown(procfs.path()), None);
    }

    #[test]
    fn rings_are_powers_of_two() {
        for cpus in [1, 3, 64, 1000, 8192] {
            assert!(Sizes { cpus, pids: 1, cells: CELLS.0 }.ring_bytes().is_power_of_two());
        }
    }
}
