//! The subscriber that looks for incidents: samples in, log lines and state file out.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use nix::time::{ClockId, clock_gettime};
use noise_analysis::{Board, Clock, GroupChange, Name, Overview, Report, Settings, Usual, Watched};
use noise_host::kernel::{EventStore, both_clocks, monotonic_ns};
use noise_host::setup::SetupReader;
use noise_keep::demand::{Demand, Meter, PeakRate};
use noise_keep::state::{Baselines, Document, Keeper, StatePlace};
use noise_keep::{Bounds, Keeping, Latest};
use noise_model::pressure::Pressure;
use noise_serve::log_event;
use noise_system::procfs;

use crate::cli::looking::{Find, Looking};
use crate::cli::pressing::Pressing;
use crate::commands::Commands;
use crate::pipeline::{Occasion, Published, Subscriber};

/// Time after which baselines are written though nothing else changed, ns: ten minutes.
const BASELINES_EVERY_NS: u64 = 600_000_000_000;

/// Looks for incidents, and keeps them.
pub struct Watching {
    board: Board,
    keeper: Option<Keeper>,
    /// Keeps the kernel events of those that open, where there is a folder for them.
    keeping: Option<Keeping>,
    boot: String,
    /// How fast the flight recorder is filled, and the rings that say so.
    demand: Demand,
    filling: Option<(Arc<Mutex<EventStore>>, Meter)>,
    /// When baselines were written though nothing else had changed, or the start.
    baselines_ns: u64,
    commands: Commands,
    /// Looks at the host beside incidents.
    looking: Looking,
    /// Keeps the pressure of cgroups that wait.
    pressing: Pressing,
    /// Whether incidents opened, or came together, since it looked last.
    is_fresh: bool,
    /// Those that closed since.
    closed: Vec<u64>,
}

/// The wall clock is read here alone.
fn clock() -> Clock {
    let read = |clock| clock_gettime(clock).map_or(Duration::ZERO, Duration::from);
    let apart = |_| {
        let awake = read(ClockId::CLOCK_MONOTONIC);
        read(ClockId::CLOCK_BOOTTIME).saturating_sub(awake)
    };
    // What came between two readings makes them differ more.
    let suspended = (0..3).map(apart).min().unwrap_or_default();
    let suspended_ns = u64::try_from(suspended.as_nanos()).unwrap_or(u64::MAX);
    let (at_ns, now_ns) = both_clocks();
    let now = Timestamp::from_nanosecond(now_ns.into()).unwrap_or_default();
    Clock { at_ns, suspended_ns, now }
}

impl Watching {
    /// Begins with what an earlier daemon left in that folder; without one, nothing is kept.
    /// Errors: where the settings cannot work.
    pub fn start(settings: Settings, state: Option<StatePlace>) -> anyhow::Result<Self> {
        let mut board = Board::new(settings).context("incidents")?;
        let beginning = |board, keeper, boot, demand| Self {
            board,
            keeper,
            keeping: None,
            boot,
            demand,
            filling: None,
            baselines_ns: monotonic_ns(),
            commands: Commands::default(),
            looking: Looking::start(),
            pressing: Pressing::new(SetupReader::of_host()),
            is_fresh: false,
            closed: Vec::new(),
        };
        let Some(state) = state else {
            return Ok(beginning(board, None, String::new(), Demand::default()));
        };
        let boot = boot_id();
        let (keeper, left) = Keeper::open(state);
        let Document { incidents, outliers, baselines, recorder, .. } = left;
        let incidents = incidents.into_iter().map(Arc::unwrap_or_clone).collect();
        let outliers = outliers.into_iter().map(Arc::unwrap_or_clone).collect();
        board.restore(incidents, outliers);
        if baselines.boot == boot && !boot.is_empty() {
            board.recall(baselines.learnt);
        }
        Ok(beginning(board, keeper, boot, recorder))
    }

    /// Keeps the latest kernel events of incidents from now on, where there are any, in the folder of the state;
    /// without one, nothing is kept.
    pub fn keep(&mut self, latest: Option<Latest>, bounds: Bounds) -> Option<&Keeping> {
        let folder = self.keeper.as_ref()?.folder();
        // What is left of incidents that the state does not know any more keeps its numbers.
        if let Some(highest) = Keeping::highest_unknown(folder) {
            self.board.continue_after(highest);
        }
        let known = self.board.gravities(clock());
        Some(self.keeping.insert(Keeping::start(folder, latest, bounds, known)))
    }

    /// Measures from now on how fast a flight recorder is filled, beginning with what was measured before.
    pub fn measure(&mut self, store: Arc<Mutex<EventStore>>, measured: Option<u64>) {
        if let Some(rate) = measured {
            self.demand.note(now_s(), rate);
        }
        let events = lock(&store).events();
        self.filling = Some((store, Meter::new(monotonic_ns(), events)));
    }

    /// What the busiest CPU wrote into the flight recorder in the last days.
    pub fn busiest(&self) -> Option<PeakRate> {
        self.demand.busiest(now_s())
    }

    /// Notes how fast the flight recorder is filled; whether that is worth remembering at once.
    fn note_filling(&mut self, now_ns: u64) -> bool {
        let Some((store, meter)) = &mut self.filling else { return false };
        let Some(rate) = meter.window(now_ns, || lock(store).events()) else { return false };
        let before = self.busiest();
        self.demand.note(now_s(), rate);
        before.is_none_or(|before| rate / 2 > before.bytes_per_second)
    }

    /// Goes on with other settings.
    /// Errors: where the settings cannot work; nothing has changed then.
    pub fn set(&mut self, settings: Settings) -> anyhow::Result<()> {
        self.board.set(settings).context("incidents")?;
        // There may be fewer of the past now.
        if let Some(keeping) = &mut self.keeping {
            keeping.forget(|id| self.board.has(id));
        }
        Ok(())
    }

    /// Takes the next of the samples that are a beat apart.
    fn analyse(&mut self, published: &Published) {
        let Published { sample, step, .. } = published;
        let clock = clock();
        self.pressing.note(step);
        self.board.note_short(self.pressing.short(clock.at_ns));
        let events = self.board.analyse(sample, step, clock);
        events.iter().for_each(log_event);
        // What joins may be what the incident is about from now on.
        self.is_fresh |= events.iter().any(|event| !matches!(event, GroupChange::Closed(_)));
        self.closed.extend(events.iter().filter_map(|event| match event {
            GroupChange::Closed(report) => Some(report.id),
            _ => None,
        }));
        // What joins changes what is open, which a crash may lose.
        let lasting = |event: &GroupChange| !matches!(event, GroupChange::Joined { .. });
        let changed = events.iter().any(lasting);
        self.keep_events(&events, clock);
        let waited = self.board.keep_outliers(sample, clock);
        let is_due = clock.at_ns.saturating_sub(self.baselines_ns) >= BASELINES_EVERY_NS;
        if is_due {
            self.baselines_ns = clock.at_ns;
        }
        let fills_faster = self.note_filling(clock.at_ns);
        let Some(keeper) = &mut self.keeper else { return };
        if changed || waited || is_due || fills_faster {
            keeper.changed(changed);
        }
        let (board, boot, demand) = (&mut self.board, &self.boot, &self.demand);
        keeper.tick(|| document(board, boot, demand, clock));
    }

    /// Keeps the kernel events of what opened, and no longer those of what is forgotten.
    fn keep_events(&mut self, events: &[GroupChange], clock: Clock) {
        let Some(keeping) = &mut self.keeping else { return };
        let opened = || {
            events.iter().filter_map(|event| match event {
                GroupChange::Opened(report) => Some(report),
                _ => None,
            })
        };
        if opened().next().is_some() {
            let gravities = self.board.gravities(clock);
            let gravity = |id: u64| gravities.get(&id).copied().unwrap_or(0.0);
            opened().for_each(|report| keeping.opened(report, clock, gravity));
        }
        // It may have joined another one at once.
        if events.iter().any(|event| !matches!(event, GroupChange::Joined { .. })) {
            keeping.forget(|id| self.board.has(id));
        }
        keeping.tick();
    }

    /// Whether the host is calm; see [`Board::is_calm`].
    pub fn is_calm(&self) -> bool {
        self.board.is_calm()
    }

    /// Looks at the host beside what opened, is open for long, or closed, and at cgroups that wait; `find` knows the paths of cgroups.
    pub fn look(&mut self, find: &mut Find<'_>) {
        let clock = clock();
        self.pressing.look(clock.at_ns, find);
        for id in std::mem::take(&mut self.closed) {
            let Some(beside) = self.looking.close(id, clock.at_ns) else { continue };
            self.board.set_beside(id, beside);
            if let Some(keeper) = &mut self.keeper {
                keeper.changed(true);
            }
        }
        let may_be_wrong = self.looking.advises();
        if !self.is_fresh && !may_be_wrong && !self.looking.is_due(clock.at_ns) {
            return;
        }
        self.is_fresh = false;
        let open = self.board.open(clock);
        let open: Vec<&Report> = open.iter().map(|report| &**report).collect();
        if let Some(keeping) = &mut self.keeping {
            open.iter().for_each(|report| keeping.follow(report));
        }
        let keeping = self.keeping.as_ref();
        let may_work = |report: &Report, culprit: &Name| {
            let victim = &report.main.subject;
            keeping.is_none_or(|keeping| keeping.may_work_with(report.id, victim, culprit))
        };
        for (id, beside) in self.looking.look(&open, clock.at_ns, find, &may_work) {
            self.board.set_beside(id, beside);
        }
    }

    /// What there is to see now.
    pub fn overview(&mut self) -> Overview {
        let traces = self.keeping.as_ref().map(Keeping::list).unwrap_or_default();
        Overview { traces, ..self.board.overview(clock()) }
    }

    /// What is usual for cgroups, of each signal that is watched.
    pub fn usual(&self, cgroups: &BTreeSet<Name>) -> Vec<Usual> {
        // What came with a disturbance that is there from the begin would pass for usual. Where one of several cgroups has
        // learnt enough, it is known of all: they are added up.
        let is_known = |signal: Watched| {
            let mut all = cgroups.iter().filter_map(|subject| self.board.baseline(signal, subject));
            all.any(|baseline| self.board.is_warm(baseline))
        };
        let of = |subject: &Name| {
            let usual = |signal| {
                let baseline = self.board.baseline(signal, subject).filter(|_| is_known(signal))?;
                Some(Usual::learnt(signal, subject, baseline))
            };
            Watched::all().filter_map(usual).collect::<Vec<_>>()
        };
        cgroups.iter().flat_map(of).collect()
    }

    /// What the pressure of these cgroups grew by from about that time on, ns of the samples' clock; see
    /// [`Pressing::since`].
    pub fn pressure(&self, cgroups: &BTreeSet<Name>, since_ns: u64) -> Option<Pressure> {
        self.pressing.since(cgroups, since_ns, monotonic_ns())
    }

    /// Keeps what there is.
    pub fn stop(&mut self) {
        if let Some(keeping) = &mut self.keeping {
            keeping.finish();
        }
        if let Some(keeper) = self.keeper.take() {
            keeper.finish(document(&mut self.board, &self.boot, &self.demand, clock()));
        }
    }
}

impl Subscriber for Watching {
    fn advance(&mut self, published: &Published) {
        // Incidents need steps of whole windows, but each long wait is in one sample alone.
        let found = self.commands.look_up(&published.sample.outliers);
        found.into_iter().for_each(|command| self.board.learn(command));
        match published.occasion {
            Occasion::Beat => self.analyse(published),
            Occasion::Asked => {
                let waited = self.board.keep_outliers(&published.sample, clock());
                if waited && let Some(keeper) = &mut self.keeper {
                    keeper.changed(false);
                }
            }
        }
    }
}

/// The kernel's boot id; empty where it cannot be read.
fn boot_id() -> String {
    let text = procfs::text("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// Seconds since 1970.
pub fn now_s() -> u64 {
    u64::try_from(Timestamp::now().as_second()).unwrap_or(0)
}

fn lock(store: &Mutex<EventStore>) -> MutexGuard<'_, EventStore> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

fn document(board: &mut Board, boot: &str, demand: &Demand, clock: Clock) -> Document {
    let Overview { incidents, outliers, .. } = board.overview(clock);
    let baselines = Baselines { boot: boot.to_owned(), learnt: board.memories() };
    Document::new(incidents, outliers, baselines, demand.clone())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use noise_model::{OutlierRecord, Sample, Step};

    use super::*;

    #[test]
    fn threads_of_long_waits_are_looked_up_though_a_sample_was_taken_because_a_client_asked() {
        let pid = std::process::id();
        let wait = OutlierRecord {
            at_ns: 0,
            wait_ns: 1,
            victim: "/".into(),
            pid,
            comm: procfs::text("/proc/self/comm").unwrap().trim_end().into(),
            cpu: 0,
            made_runnable: "wakeup".into(),
            parts: Vec::new(),
            rest_ns: 0,
        };
        let mut watching = Watching::start(Settings::default(), None).unwrap();
        let mut take = |outliers: Vec<OutlierRecord>| {
            let sample = Arc::new(Sample { outliers, ..Sample::default() });
            watching.advance(&Published {
                sample,
                step: Step::default(),
                occasion: Occasion::Asked,
            });
            watching.overview().commands.iter().any(|command| command.pid == pid)
        };
        // A thread reads it, which takes a moment.
        let is_known = take(vec![wait])
            || (0..3000).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                take(Vec::new())
            });
        assert!(is_known);
    }
}
