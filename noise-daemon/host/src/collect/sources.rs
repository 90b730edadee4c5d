//! The maps of the programs, and the sample that they add up to.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use aya::maps::{HashMap, Map, MapData, RingBuf};
use noise_common::MARKER_MAP;
use noise_common::event::{Cell, CellKey, Hash, PacketTimes, RequestTimes};
use noise_common::header::Header;
use noise_common::loss::{LOSSES, Loss};
use noise_common::record::RingRecord;
use noise_common::signals::{CELLS_PER_CPU, SIGNALS, Signal, Storage};
use noise_model::{Count, INTERFERENCE_METRIC, Label, Sample};
use noise_system::procfs::Reader;
use tokio::io::unix::AsyncFd;
use tokio::sync::broadcast;

use super::bearers::Bearers;
use super::charges::{Asked, Charges};
use super::faults::PageFaults;
use super::hashed::Hashed;
use super::old_parts::OldParts;
use super::outliers::{MOST_WAITING, Outliers};
use super::programs::Programs;
use super::series::Histograms;
use super::states::CpuStates;
use super::steal;
use super::used::UsedCells;
use crate::kernel::{Engine, EventStore, HookStatus, Measured, PidLimit, monotonic_ns};
use crate::resolve::cgroup::Hierarchies;
use crate::resolve::{SubjectNames, task};

/// The ring buffer of closed windows; its descriptor can be polled.
pub type Ring = RingBuf<MapData>;

/// How often subjects are checked for being gone, and how often where room runs short.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
const SWEEP_EVERY_CROWDED: Duration = Duration::from_secs(5);
/// How often interfaces are checked for new names.
const NAMES_EVERY: Duration = Duration::from_secs(2);
/// The hash of charges that found no entry in their CPU's table.
const CHARGES_MAP: &str = "NOISE_CHARGES";
/// Requests and packets that are under way longer than this count as lost, when their map
/// was found full, ns.
const STALE_NS: u64 = 300_000_000_000;
/// Attempts at reading the cells of a key of which one is being reset.
const READ_ATTEMPTS: usize = 3;

/// Records of the ring of a kind that is not known here, by the signal that they name.
#[derive(Debug, Default)]
struct UnknownRecords(BTreeMap<u16, u64>);

impl UnknownRecords {
    fn add(&mut self, header: Header) {
        // None comes from the programs that are part of this executable.
        if self.0.is_empty() {
            let Header { kind, length, signal, .. } = header;
            tracing::warn!(
                kind,
                length,
                signal,
                "the programs sent a record of an unknown kind, which is not counted: load the programs of \
                 this version by starting noised again"
            );
        }
        *self.0.entry(header.signal).or_default() += 1;
    }

    fn of(&self, signal: Signal) -> u64 {
        self.0.get(&(signal as u16)).copied().unwrap_or_default()
    }
}

/// Reads everything that the programs collect.
pub struct Collector {
    engine: Engine,
    ring: Ring,
    pub(super) states: CpuStates,
    used: Vec<UsedCells>,
    cells: Hashed<CellKey, Cell>,
    counts: Hashed<CellKey, u64>,
    requests: HashMap<MapData, u64, RequestTimes>,
    spilled: HashMap<MapData, u64, PacketTimes>,
    histograms: Histograms,
    bearers: Bearers<u64>,
    charges: Charges,
    old_parts: OldParts,
    records: broadcast::Sender<Arc<RingRecord>>,
    outliers: Outliers,
    unknown: UnknownRecords,
    names: SubjectNames,
    hierarchies: Hierarchies,
    /// Whether samples say what others call cgroups.
    describes_cgroups: bool,
    reader: Reader,
    page_faults: PageFaults,
    pids: PidLimit,
    programs: Programs,
    absent: Vec<(Signal, String)>,
    events: Option<Arc<Mutex<EventStore>>>,
    swept: Instant,
    asked_names: Instant,
    full_seen: u64,
    /// Whether the sweep for those found nothing to give back.
    futile: bool,
}

fn take(engine: &mut Engine, name: &str) -> anyhow::Result<Map> {
    engine.take_map(name).with_context(|| format!("the BPF object has no map {name}"))
}

impl Collector {
    /// Takes over an engine and its maps.
    /// Errors: where a map is missing or cannot be mapped into memory.
    pub fn new(mut engine: Engine) -> anyhow::Result<Self> {
        let Map::Array(cpus) = take(&mut engine, MARKER_MAP)? else {
            bail!("{MARKER_MAP} is not an array");
        };
        let count = engine.sizes().cpus as usize;
        let states = CpuStates::map(cpus.fd().as_fd(), count)
            .with_context(|| format!("cannot map {MARKER_MAP} into memory"))?;
        let hashed = engine
            .take_map(CHARGES_MAP)
            .map(|map| Hashed::new(map, count))
            .transpose()
            .with_context(|| format!("cannot use {CHARGES_MAP}"))?;
        let facts = engine.facts();
        let hierarchies = facts.hierarchies.clone();
        let names = SubjectNames::new(
            Path::new("/proc"),
            Path::new("/sys"),
            facts.drop_reasons.clone(),
            &hierarchies,
        )
        .with_nodes(Path::new("/"), &hierarchies);
        let events = engine.event_store()?.map(|store| Arc::new(Mutex::new(store)));
        let (records, receiver) = broadcast::channel(MOST_WAITING);
        Ok(Self {
            ring: take(&mut engine, "NOISE_RING")?.try_into()?,
            cells: Hashed::new(take(&mut engine, "NOISE_CELLS")?, count)?,
            counts: Hashed::new(take(&mut engine, "NOISE_COUNTS")?, count)?,
            requests: take(&mut engine, "NOISE_REQUESTS")?.try_into()?,
            spilled: take(&mut engine, "NOISE_SPILLED")?.try_into()?,
            states,
            used: (0..count).map(|_| UsedCells::default()).collect(),
            histograms: Histograms::default(),
            bearers: Bearers::default(),
            charges: Charges::new(hashed),
            old_parts: OldParts::new(events.clone()),
            outliers: Outliers::new(receiver),
            records,
            unknown: UnknownRecords::default(),
            names,
            hierarchies,
            describes_cgroups: true,
            reader: Reader::default(),
            page_faults: PageFaults::default(),
            pids: PidLimit::new(engine.sizes()),
            programs: Programs::default(),
            absent: engine.absent(),
            events,
            swept: Instant::now(),
            asked_names: Instant::now(),
            full_seen: 0,
            futile: false,
            engine,
        })
    }

    /// Switches signals on and off, and sets thresholds, while the programs run.
    pub fn measure(&mut self, measured: Measured) {
        self.engine.measure(measured);
        self.old_parts.begin_anew(monotonic_ns());
        self.absent = self.engine.absent();
    }

    /// Whether samples say from now on what a cluster, the service manager and container engines call cgroups.
    pub fn describe_cgroups(&mut self, describes: bool) {
        self.describes_cgroups = describes;
    }

    /// The engine, to attach and detach hooks and to see how they fare.
    pub fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    pub fn hooks(&self) -> &[HookStatus] {
        self.engine.hooks()
    }

    pub fn hierarchies(&self) -> &Hierarchies {
        &self.hierarchies
    }

    /// The path of the cgroup with a label, from the root of its hierarchy, where it is known and there.
    pub fn cgroup_path(&mut self, label: &str) -> Option<PathBuf> {
        self.names.cgroup_path(label)
    }

    pub fn event_store(&self) -> Option<Arc<Mutex<EventStore>>> {
        self.events.clone()
    }

    /// Signals that are not measured here, and why.
    pub fn absent(&self) -> &[(Signal, String)] {
        &self.absent
    }

    /// A descriptor that is ready when there is something in the ring; it belongs to the runtime that
    /// this is called in.
    /// Errors: where the system has no more descriptors.
    pub fn readiness(&self) -> io::Result<AsyncFd<OwnedFd>> {
        // SAFETY: the descriptor belongs to our ring and is open here.
        let ring = unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) };
        let ring = ring.try_clone_to_owned()?;
        // SAFETY: an `OwnedFd` keeps one open descriptor as long as it lives.
        Ok(unsafe { AsyncFd::register(ring) }?)
    }

    /// Takes all records from the ring: closed windows go into the totals, old parts of waits are divided
    /// and charged, others go to the receivers of [`Collector::records`].
    pub fn drain(&mut self) {
        self.read_records();
        self.divide(false);
    }

    fn read_records(&mut self) {
        while let Some(bytes) = self.ring.next() {
            match RingRecord::read(&bytes) {
                // The totals need every window, and a channel drops records of which a receiver is
                // too slow: so these do not go through it.
                Ok(RingRecord::Window(cell)) => self.histograms.close(&cell),
                Ok(RingRecord::OldPart(old)) => self.old_parts.take(old),
                Ok(record @ RingRecord::Outlier(_)) => {
                    // Our own receiver is always there.
                    let _ = self.records.send(Arc::new(record));
                }
                Err(header) => self.unknown.add(header),
            }
        }
    }

    /// Divides old parts of waits: `all` that were read, or those that are due.
    fn divide(&mut self, all: bool) {
        let look_up = |tid| task(Path::new("/proc"), &self.hierarchies, tid);
        let Self { old_parts, states, charges, .. } = self;
        old_parts.divide(all, states, monotonic_ns(), look_up, charges);
    }

    /// Adds to a sample what costs more to read and is needed less often: the statistics of the
    /// programs themselves, and what the host has counted on its own.
    pub fn complete(&mut self, sample: &mut Sample) {
        sample.hooks = self.programs.read(&self.engine, Instant::now());
        let found = self.hierarchies.found();
        sample.hierarchies = found.map(|(kind, is_found)| (kind.into(), is_found)).into();
        sample.stolen = steal::stolen(Path::new("/proc"), &mut self.reader);
        sample.recorder = self.events.as_ref().map(|events| {
            let mut events = events.lock().unwrap_or_else(PoisonError::into_inner);
            events.figures(sample.at_ns)
        });
        sample.page_faults = self.page_faults.read(Path::new("/proc"), &mut self.reader);
    }

    /// What the programs have counted up to now.
    pub fn sample(&mut self) -> Sample {
        self.read_open_windows();
        self.read_records();
        self.divide(true);
        let (at_ns, now) = (monotonic_ns(), Instant::now());
        let mut sample = Sample { at_ns, absent: self.absent.clone(), ..Sample::default() };
        self.histograms.add_to(&mut sample, &mut self.names, now);
        let mut asked = Asked { names: &mut self.names, at: now, at_ns };
        self.charges.read(&self.states, &mut asked);
        sample.interference = self.charges.totals();
        sample.outliers = self.outliers.named(&mut self.names, now);
        sample.folded.push((INTERFERENCE_METRIC.into(), self.charges.folded()));
        self.add_counts(&mut sample, now);
        self.add_drops(&mut sample);
        let crowded = self.charges.is_crowded()
            || self.histograms.is_crowded()
            || (refused(&sample) != self.full_seen && !self.futile);
        let every = if crowded { SWEEP_EVERY_CROWDED } else { SWEEP_EVERY };
        if now.duration_since(self.swept) >= every {
            self.swept = now;
            self.sweep(at_ns, now, &sample);
        }
        self.rename(now);
        if self.describes_cgroups {
            sample.cgroups = self.names.infos();
        }
        sample
    }

    /// Interfaces that were renamed count under their new names from the next reading on.
    fn rename(&mut self, now: Instant) {
        if now.duration_since(self.asked_names) < NAMES_EVERY {
            return;
        }
        self.asked_names = now;
        let interfaces = self.names.renamed();
        if !interfaces.is_empty() {
            self.charges.rename(&self.states, &interfaces);
        }
    }

    fn read_open_windows(&mut self) {
        let Self { used, states, histograms, .. } = self;
        for (cpu, used) in used.iter_mut().enumerate() {
            let is_used = |index| states.is_used(cpu, index);
            for (index, read) in used.now(states.claims(cpu), CELLS_PER_CPU, is_used) {
                let Some(mark) = states.mark(cpu, *index).filter(|mark| mark != read) else {
                    continue;
                };
                if let Some(cell) = states.read_cell(cpu, *index) {
                    *read = mark;
                    histograms.read_open(&cell);
                }
            }
        }
        if self.states.uses(Hash::Cells) {
            self.read_hashed_windows();
        }
    }

    fn read_hashed_windows(&mut self) {
        let Self { cells, histograms, .. } = self;
        // Whether one is being reset.
        let mut take = |by_cpu: &[Cell]| {
            by_cpu.iter().for_each(|cell| histograms.read_open(cell));
            by_cpu.iter().any(|cell| cell.head != cell.tail)
        };
        let mut torn = Vec::new();
        let read = cells.read(|key, by_cpu| {
            if take(by_cpu) {
                torn.push(key);
            }
        });
        if let Err(error) = read {
            tracing::debug!(%error, "cannot read the hash of cells");
        }
        for _ in 1..READ_ATTEMPTS {
            torn.retain(|key| cells.get(key).is_some_and(|by_cpu| take(&by_cpu)));
        }
    }

    /// Counters by subject, of all CPUs.
    fn read_counts(&mut self) -> Vec<(CellKey, u64)> {
        let mut all = Vec::new();
        if self.states.uses(Hash::Counts)
            && let Err(error) = self.counts.read(|key, by_cpu| all.push((key, by_cpu.iter().sum())))
        {
            tracing::debug!(%error, "cannot read the hash of counters");
        }
        all
    }

    fn add_counts(&mut self, sample: &mut Sample, now: Instant) {
        let mut counts: BTreeMap<Label, u64> = BTreeMap::new();
        for info in SIGNALS.iter().filter(|info| info.storage == Storage::Switches) {
            for kind in 0..2 {
                let labels = self.names.labels(info.signal, kind as u64, now).unwrap_or_default();
                counts.insert((info.signal, labels), self.states.switches(kind));
            }
        }
        for (key, total) in self.read_counts() {
            let Some(signal) = Signal::from_number(key.signal) else { continue };
            let Some(labels) = self.names.labels(signal, key.subject, now) else { continue };
            let is_named = || self.names.is_named(signal, key.subject);
            let (label, part) = self.bearers.bear(key, (signal, labels), total, is_named);
            *counts.entry(label).or_default() += part;
        }
        self.bearers.add_left(|label, left| match counts.get_mut(label) {
            Some(count) => {
                *count += *left;
                true
            }
            None => false,
        });
        sample.counts = counts
            .into_iter()
            .map(|((signal, labels), total)| Count { signal, labels, total })
            .collect();
    }

    fn add_drops(&self, sample: &mut Sample) {
        for info in &SIGNALS {
            for reason in LOSSES {
                let mut total = self.states.drops(info.signal, reason);
                if info.outliers && reason == Loss::RateLimited {
                    total += self.outliers.lost();
                }
                if info.signal == Signal::RunqueueWait && reason == Loss::RateLimited {
                    total += self.old_parts.undivided();
                }
                if reason == Loss::OutOfRange {
                    total += self.unknown.of(info.signal);
                }
                if total > 0 {
                    sample.drops.push((info.signal, reason, total));
                }
            }
        }
    }

    fn warn_of_pids(&mut self) {
        if let Some(largest) = self.pids.outgrown(Path::new("/proc")) {
            let first = self.engine.sizes().pids;
            tracing::warn!(
                "kernel.pid_max was raised to {largest}: threads with ids from {first} on are not \
                 measured before noised is started again"
            );
        }
    }

    /// Frees what belongs to devices, interfaces, cgroups and threads that are gone, and, where a
    /// map was found full, requests and packets that were lost on the way.
    fn sweep(&mut self, now_ns: u64, now: Instant, sample: &Sample) {
        let read = self.read_counts();
        let Self { states, cells, counts, names, histograms, bearers, .. } = self;
        histograms.sweep(names, |signal, key| {
            cells.remove(&key);
            states.free_cells(signal, key);
        });
        for (key, _) in read {
            let Some(signal) = Signal::from_number(key.signal) else { continue };
            // One that has not been sampled has not been counted anywhere.
            if bearers.label(key).is_some() && !names.exists(signal, key.subject) {
                let Some(by_cpu) = counts.get(&key) else { continue };
                bearers.forget(key, by_cpu.iter().sum());
                counts.remove(&key);
                names.forget(signal, key.subject);
            }
        }
        let mut asked = Asked { names: &mut self.names, at: now, at_ns: now_ns };
        self.charges.sweep(&self.states, &mut asked);
        self.names.sweep();
        self.warn_of_pids();
        // What the forgotten took.
        noise_system::memory::give_back();
        let full = refused(sample);
        self.futile = false;
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
        self.futile = stale.is_empty();
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
        self.futile &= stale.is_empty();
        for skb in stale {
            let _ = self.spilled.remove(&skb);
        }
    }
}

/// Events that found no room in a table so far.
fn refused(sample: &Sample) -> u64 {
    let full = sample.drops.iter().filter(|(_, reason, _)| *reason == Loss::MapFull);
    full.map(|(_, _, count)| count).sum()
}
