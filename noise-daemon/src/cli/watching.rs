//! The subscriber that looks for incidents: samples in, log lines and state file out.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use jiff::Timestamp;
use noise_analysis::{Board, Clock, Event, Name, Overview, Report, Settings, Usual, Watched};
use noise_host::kernel::monotonic_ns;
use noise_serve::log_event;
use noise_system::procfs;

use crate::cli::looking::{Find, Looking};
use crate::commands::Commands;
use crate::kept::{Bounds, Keeping, Latest};
use crate::pipeline::{Occasion, Published, Subscriber};
use crate::state::{Baselines, Document, Keeper};

/// Time after which baselines are written though nothing else changed, ns: ten minutes.
const BASELINES_EVERY_NS: u64 = 600_000_000_000;

/// Looks for incidents, and keeps them.
pub struct Watching {
    board: Board,
    keeper: Option<Keeper>,
    /// Keeps the kernel events of those that open, where there is a folder for them.
    keeping: Option<Keeping>,
    boot: String,
    /// When baselines were written though nothing else had changed, or the start.
    baselines_ns: u64,
    commands: Commands,
    /// Looks at the host beside incidents.
    looking: Looking,
    /// Whether incidents opened since it looked last.
    is_fresh: bool,
    /// Those that closed since.
    closed: Vec<u64>,
}

/// The wall clock is read here alone.
fn clock() -> Clock {
    Clock { at_ns: monotonic_ns(), now: Timestamp::now() }
}

impl Watching {
    /// Begins with what an earlier daemon left in the directory; an empty path keeps nothing.
    ///
    /// # Errors
    /// Where the settings cannot work.
    pub fn start(settings: Settings, directory: &Path) -> anyhow::Result<Self> {
        let mut board = Board::new(settings).context("incidents")?;
        let beginning = |board, keeper, boot| Self {
            board,
            keeper,
            keeping: None,
            boot,
            baselines_ns: monotonic_ns(),
            commands: Commands::default(),
            looking: Looking::start(),
            is_fresh: false,
            closed: Vec::new(),
        };
        if directory.as_os_str().is_empty() {
            return Ok(beginning(board, None, String::new()));
        }
        let boot = boot_id();
        let (keeper, left) = Keeper::open(directory);
        let Document { incidents, outliers, baselines, .. } = left;
        let incidents = incidents.into_iter().map(Arc::unwrap_or_clone).collect();
        let outliers = outliers.into_iter().map(Arc::unwrap_or_clone).collect();
        board.restore(incidents, outliers);
        if baselines.boot == boot && !boot.is_empty() {
            board.recall(baselines.learnt);
        }
        Ok(beginning(board, keeper, boot))
    }

    /// Keeps the latest kernel events of incidents from now on, where there are any, in the folder of the state;
    /// without one, nothing is kept.
    pub fn keep(&mut self, latest: Option<Latest>, bounds: Bounds) -> Option<&Keeping> {
        let folder = self.keeper.as_ref()?.folder();
        let board = &self.board;
        Some(self.keeping.insert(Keeping::start(folder, latest, bounds, |id| board.has(id))))
    }

    /// Goes on with other settings.
    ///
    /// # Errors
    /// Where the settings cannot work; nothing has changed then.
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
        let found = self.commands.look_up(&sample.outliers);
        found.into_iter().for_each(|command| self.board.learn(command));
        let events = self.board.analyse(sample, step, clock);
        events.iter().for_each(log_event);
        self.is_fresh |= events.iter().any(|event| matches!(event, Event::Opened(_)));
        self.closed.extend(events.iter().filter_map(|event| match event {
            Event::Closed(report) => Some(report.id),
            _ => None,
        }));
        // What joins changes what is open, which a crash may lose.
        let lasting = |event: &Event| !matches!(event, Event::Joined { .. });
        let changed = events.iter().any(lasting);
        self.keep_events(&events, clock);
        let waited = self.board.keep_outliers(sample, clock);
        let is_due = clock.at_ns.saturating_sub(self.baselines_ns) >= BASELINES_EVERY_NS;
        if is_due {
            self.baselines_ns = clock.at_ns;
        }
        let Some(keeper) = &mut self.keeper else { return };
        if changed || waited || is_due {
            keeper.changed(changed);
        }
        let (board, boot) = (&mut self.board, &self.boot);
        keeper.tick(|| document(board, boot, clock));
    }

    /// Keeps the kernel events of what opened, and no longer those of what is forgotten.
    fn keep_events(&mut self, events: &[Event], clock: Clock) {
        let Some(keeping) = &mut self.keeping else { return };
        for event in events {
            if let Event::Opened(report) = event {
                keeping.opened(report, clock);
            }
        }
        // It may have joined another one at once.
        if events.iter().any(|event| !matches!(event, Event::Joined { .. })) {
            keeping.forget(|id| self.board.has(id));
        }
        keeping.tick();
    }

    /// Whether the host is calm; see [`Board::is_calm`].
    pub fn is_calm(&self) -> bool {
        self.board.is_calm()
    }

    /// Looks at the host beside what opened, is open for long, or closed; `find` knows the paths of cgroups.
    pub fn look(&mut self, find: &mut Find<'_>) {
        let clock = clock();
        for id in std::mem::take(&mut self.closed) {
            let Some(beside) = self.looking.close(id, clock.at_ns) else { continue };
            self.board.set_beside(id, beside);
            if let Some(keeper) = &mut self.keeper {
                keeper.changed(true);
            }
        }
        if !self.is_fresh && !self.looking.is_due(clock.at_ns) {
            return;
        }
        self.is_fresh = false;
        let open = self.board.open(clock);
        let open: Vec<&Report> = open.iter().map(|report| &**report).collect();
        for (id, beside) in self.looking.look(&open, clock.at_ns, find) {
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
        let of = |subject: &Name| {
            let usual = |signal| {
                let baseline = self.board.baseline(signal, subject)?;
                let (windows, level) = (baseline.learnt(), baseline.level());
                Some(Usual { signal, subject: Name::clone(subject), windows, level })
            };
            Watched::all().filter_map(usual).collect::<Vec<_>>()
        };
        cgroups.iter().flat_map(of).collect()
    }

    /// Keeps what there is.
    pub fn stop(&mut self) {
        if let Some(keeping) = &mut self.keeping {
            keeping.finish();
        }
        if let Some(keeper) = self.keeper.take() {
            keeper.finish(document(&mut self.board, &self.boot, clock()));
        }
    }
}

impl Subscriber for Watching {
    fn advance(&mut self, published: &Published) {
        match published.occasion {
            Occasion::Beat => self.analyse(published),
            // Incidents need steps of whole windows, but each long wait is in one sample alone.
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

fn document(board: &mut Board, boot: &str, clock: Clock) -> Document {
    let Overview { incidents, outliers, .. } = board.overview(clock);
    let baselines = Baselines { boot: boot.to_owned(), learnt: board.memories() };
    Document::new(incidents, outliers, baselines)
}
