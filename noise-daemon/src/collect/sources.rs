//! The maps of the programs, and the sample that they add up to.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use aya::maps::{HashMap, Map, MapData, PerCpuHashMap, RingBuf};
use memmap2::{MmapOptions, MmapRaw};
use noise_common::MARKER_MAP;
use noise_common::event::{Cell, CellKey, CpuState, DROPS, PacketTimes, RequestTimes};
use noise_common::signals::{CELLS_PER_CPU, SIGNALS, Signal, Storage};

use super::steal;
use super::totals::WindowTotals;
use crate::kernel::{Engine, SignalState, monotonic_ns, signal_state};
use crate::model::{Count, HookSample, Sample, Series, Totals};
use crate::resolve::{Names, OTHER};

/// The ring buffer of closed windows; its descriptor can be polled.
pub type Ring = RingBuf<MapData>;

/// How often subjects are checked for being gone.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Requests and packets that are under way longer than this are taken for lost, when their map
/// was found full, ns.
const STALE_NS: u64 = 300_000_000_000;
/// Attempts at reading a cell that is being reset.
const READ_ATTEMPTS: usize = 3;

/// Reads everything that the programs collect.
pub struct Collector {
    engine: Engine,
    ring: Ring,
    cpus: MmapRaw,
    cells: PerCpuHashMap<MapData, CellKey, Cell>,
    counts: PerCpuHashMap<MapData, CellKey, u64>,
    requests: HashMap<MapData, u64, RequestTimes>,
    spilled: HashMap<MapData, u64, PacketTimes>,
    totals: WindowTotals,
    names: Names,
    absent: Vec<(Signal, String)>,
    swept: Instant,
    full_seen: u64,
}

fn take(engine: &mut Engine, name: &str) -> anyhow::Result<Map> {
    engine.take_map(name).with_context(|| format!("the BPF object has no map {name}"))
}

impl Collector {
    /// Takes over an engine and its maps.
    ///
    /// # Errors
    /// Where a map is missing or cannot be mapped into memory.
    pub fn new(mut engine: Engine) -> anyhow::Result<Self> {
        let Map::Array(cpus) = take(&mut engine, MARKER_MAP)? else {
            bail!("{MARKER_MAP} is not an array");
        };
        let length = size_of::<CpuState>() * engine.sizes().cpus as usize;
        let cpus = MmapOptions::new()
            .len(length)
            .map_raw(&cpus.fd().as_fd())
            .with_context(|| format!("cannot map {MARKER_MAP} into memory"))?;
        let facts = engine.facts().clone();
        let absent = SIGNALS
            .iter()
            .filter_map(|info| match signal_state(info, &facts, engine.hooks()) {
                SignalState::Active => None,
                SignalState::Absent(reason) => Some((info.signal, reason)),
            })
            .collect();
        Ok(Self {
            ring: take(&mut engine, "NOISE_RING")?.try_into()?,
            cells: take(&mut engine, "NOISE_CELLS")?.try_into()?,
            counts: take(&mut engine, "NOISE_COUNTS")?.try_into()?,
            requests: take(&mut engine, "NOISE_REQUESTS")?.try_into()?,
            spilled: take(&mut engine, "NOISE_SPILLED")?.try_into()?,
            cpus,
            totals: WindowTotals::default(),
            names: Names::new(Path::new("/proc"), Path::new("/sys"), facts.drop_reasons),
            absent,
            swept: Instant::now(),
            full_seen: 0,
            engine,
        })
    }

    /// The engine, to attach, detach and ask for the hooks.
    pub fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Signals that are not measured here, and why.
    pub fn absent(&self) -> &[(Signal, String)] {
        &self.absent
    }

    /// Moves all closed windows from the ring into the totals.
    pub fn drain(&mut self) {
        while let Some(record) = self.ring.next() {
            // A record that is no cell cannot come from our programs.
            if let Ok(cell) = bytemuck::try_pod_read_unaligned::<Cell>(&record) {
                self.totals.close(&cell);
            }
        }
    }

    /// Everything up to now.
    pub fn sample(&mut self) -> Sample {
        let mut sample = self.glance();
        self.add_hooks(&mut sample);
        sample.stolen = steal::stolen(Path::new("/proc"));
        sample
    }

    /// What the programs have counted up to now; nothing of the programs themselves.
    pub fn glance(&mut self) -> Sample {
        self.read_open_windows();
        self.drain();
        let at_ns = monotonic_ns();
        let mut sample = Sample { at_ns, absent: self.absent.clone(), ..Sample::default() };
        self.add_series(&mut sample);
        self.add_counts(&mut sample);
        self.add_drops(&mut sample);
        if self.swept.elapsed() >= SWEEP_EVERY {
            self.swept = Instant::now();
            self.sweep(at_ns, &sample);
        }
        sample
    }

    fn add_hooks(&mut self, sample: &mut Sample) {
        let attached: BTreeMap<_, _> =
            self.engine.hooks().iter().map(|status| (status.hook, status.is_attached())).collect();
        let mut stats: BTreeMap<_, _> =
            self.engine.program_stats().into_iter().map(|stats| (stats.hook, stats)).collect();
        sample.hooks = attached
            .into_iter()
            .map(|(hook, attached)| {
                let stats = stats.remove(&hook);
                HookSample {
                    hook,
                    attached,
                    runs: stats.map_or(0, |stats| stats.runs),
                    run_ns: stats.map_or(0, |stats| stats.run_ns),
                    missed: stats.map_or(0, |stats| stats.missed),
                }
            })
            .collect();
    }

    /// The direct-mapped cells of the keyed signals, of all CPUs.
    fn keyed_slots(&self) -> impl Iterator<Item = *mut Cell> + use<> {
        let keyed = SIGNALS.iter().filter(|info| info.storage == Storage::Keyed);
        self.cpu_states().flat_map(move |state| {
            let state = state.cast_mut();
            keyed.clone().flat_map(move |info| {
                let first = info.signal.first_cell();
                // SAFETY: the pointers lie in the mapping.
                (first..first + info.storage.cells()).map(move |index| unsafe {
                    (&raw mut (*state).cells).cast::<Cell>().add(index)
                })
            })
        })
    }

    fn cpu_states(&self) -> impl Iterator<Item = *const CpuState> + use<> {
        let first = self.cpus.as_ptr().cast::<CpuState>();
        // SAFETY: the mapping holds this many states.
        (0..self.engine.sizes().cpus as usize).map(move |cpu| unsafe { first.add(cpu) })
    }

    fn read_open_windows(&mut self) {
        for state in self.cpu_states() {
            for index in 0..CELLS_PER_CPU {
                // SAFETY: the pointer lies in the mapping.
                let cell = unsafe { (&raw const (*state).cells).cast::<Cell>().add(index) };
                if let Some(cell) = read_cell(cell) {
                    self.totals.read_open(&cell);
                }
            }
        }
        let keys: Vec<CellKey> = self.cells.keys().flatten().collect();
        for key in keys {
            for _ in 0..READ_ATTEMPTS {
                let Ok(cells) = self.cells.get(&key, 0) else { break };
                cells.iter().for_each(|cell| self.totals.read_open(cell));
                if cells.iter().all(|cell| cell.head == cell.tail) {
                    break;
                }
            }
        }
    }

    fn add_series(&mut self, sample: &mut Sample) {
        let mut series: BTreeMap<(Signal, Vec<String>), (Totals, u64)> = BTreeMap::new();
        let mut interrupted: BTreeMap<(u32, &'static str), u64> = BTreeMap::new();
        for (key, cpu, totals, max_ns) in self.totals.take() {
            let Some(signal) = Signal::from_number(key.signal) else { continue };
            if let Some(source) = signal.info().interrupts {
                *interrupted.entry((cpu, source)).or_default() += totals.sum_ns;
            }
            let labels = self.names.labels(signal, key.subject);
            let entry = series.entry((signal, labels)).or_default();
            entry.0.add(&totals);
            entry.1 = entry.1.max(max_ns);
        }
        sample.interrupted =
            interrupted.into_iter().map(|((cpu, source), ns)| (cpu, source, ns)).collect();
        sample.series = series
            .into_iter()
            .map(|((signal, labels), (totals, recent_max_ns))| Series {
                signal,
                labels,
                totals,
                recent_max_ns,
            })
            .collect();
        sample.folded = SIGNALS
            .iter()
            .filter_map(|info| {
                let folded = sample.series.iter().find(|series| {
                    series.signal == info.signal
                        && series.labels.first().is_some_and(|l| l == OTHER)
                })?;
                Some((info.metric, folded.totals.count()))
            })
            .collect();
    }

    fn add_counts(&mut self, sample: &mut Sample) {
        let mut counts: BTreeMap<(Signal, Vec<String>), u64> = BTreeMap::new();
        for info in SIGNALS.iter().filter(|info| info.storage == Storage::Switches) {
            for kind in 0..2 {
                let labels = self.names.labels(info.signal, kind as u64);
                let total = self
                    .cpu_states()
                    // SAFETY: the pointer lies in the mapping.
                    .map(|state| unsafe { (&raw const (*state).switches[kind]).read_volatile() })
                    .sum();
                counts.insert((info.signal, labels), total);
            }
        }
        let keys: Vec<CellKey> = self.counts.keys().flatten().collect();
        for key in keys {
            let Some(signal) = Signal::from_number(key.signal) else { continue };
            let Ok(values) = self.counts.get(&key, 0) else { continue };
            let labels = self.names.labels(signal, key.subject);
            *counts.entry((signal, labels)).or_default() += values.iter().sum::<u64>();
        }
        sample.counts = counts
            .into_iter()
            .map(|((signal, labels), total)| Count { signal, labels, total })
            .collect();
    }

    fn add_drops(&mut self, sample: &mut Sample) {
        for info in &SIGNALS {
            for reason in DROPS {
                let total: u64 = self
                    .cpu_states()
                    .map(|state| {
                        // SAFETY: the pointer lies in the mapping; the indices are discriminants.
                        unsafe {
                            let drops = &raw const (*state).drops;
                            let of_signal = drops.cast::<[u64; DROPS.len()]>();
                            let of_signal = of_signal.add(info.signal as usize);
                            of_signal.cast::<u64>().add(reason as usize).read_volatile()
                        }
                    })
                    .sum();
                if total > 0 {
                    sample.drops.push((info.signal, reason, total));
                }
            }
        }
    }

    /// Frees what belongs to devices and interfaces that are gone, and, where a map was found
    /// full, requests and packets that were lost on the way.
    fn sweep(&mut self, now_ns: u64, sample: &Sample) {
        let slots: Vec<*mut Cell> = self.keyed_slots().collect();
        for key in self.totals.keys() {
            let Some(signal) = Signal::from_number(key.signal) else { continue };
            if signal.info().storage != Storage::Keyed || self.names.exists(signal, key.subject) {
                continue;
            }
            let _ = self.cells.remove(&key);
            for slot in &slots {
                free_slot(*slot, key);
            }
            self.totals.forget(key);
            self.names.forget(signal, key.subject);
        }
        let full: u64 = sample
            .drops
            .iter()
            .filter(|(_, reason, _)| *reason == noise_common::event::Drop::MapFull)
            .map(|(_, _, count)| count)
            .sum();
        if full == self.full_seen {
            return;
        }
        self.full_seen = full;
        let old = |at_ns: u64| at_ns.saturating_add(STALE_NS) < now_ns;
        let stale: Vec<u64> = self
            .requests
            .iter()
            .flatten()
            .filter(|(_, times)| old(times.queued_ns.max(times.issued_ns)))
            .map(|(request, _)| request)
            .collect();
        for request in stale {
            let _ = self.requests.remove(&request);
        }
        let stale: Vec<u64> = self
            .spilled
            .iter()
            .flatten()
            .filter(|(_, times)| old(times.queued_ns))
            .map(|(skb, _)| skb)
            .collect();
        for skb in stale {
            let _ = self.spilled.remove(&skb);
        }
    }
}

impl std::os::fd::AsRawFd for Collector {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.ring.as_raw_fd()
    }
}

/// Frees a direct-mapped cell whose subject is gone, so that no program writes it any more.
fn free_slot(slot: *mut Cell, key: CellKey) {
    // SAFETY: the pointer lies in the mapping, which is writable; the order is the programs' own.
    unsafe {
        let of_key = (&raw const (*slot).signal).read_volatile() == key.signal
            && (&raw const (*slot).subject).read_volatile() == key.subject;
        if of_key && (&raw const (*slot).closes_ns).read_volatile() != 0 {
            (&raw mut (*slot).tail).write_volatile(0);
            (&raw mut (*slot).head).write_volatile(0);
            slot.write_volatile(Cell::EMPTY);
        }
    }
}

/// Copies a cell that a program may be writing; `None` where it is unused or being reset. A
/// window that was reset meanwhile has been pushed before and is found in the ring.
fn read_cell(cell: *const Cell) -> Option<Cell> {
    for _ in 0..READ_ATTEMPTS {
        // SAFETY: the pointer lies in the mapping. The copy may be torn by a program's writes;
        // `head` and `tail` tell, and any bytes are a valid cell.
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
