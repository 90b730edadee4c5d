//! All that is known of incidents and long waits: those that are open, and a bounded number of the
//! past.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use noise_common::signals::Signal;
use noise_model::{Sample, Step};
use noise_verdict::Account;

use super::baseline::{self, Baseline};
use super::beside::Beside;
use super::feed::Feed;
use super::group::{GroupChange, Groups};
use super::kept::KeptTrace;
use super::name::Name;
use super::process::StartCommand;
use super::processes::Commands;
use super::report::{Clock, Episode, Report, ReportedOutlier};
use super::settings::{Settings, SettingsError};
use super::track::Memory;
use super::usual::Usual;
use super::watched::Watched;

/// Most incidents that are kept after their end: a day's of a host that has one every six minutes. Who needs more scrapes
/// the metrics or follows incidents.
const PAST_INCIDENTS: usize = 256;
/// Most long waits that are kept: what a page shows, and some minutes of a host that has several a second.
const PAST_OUTLIERS: usize = 256;

/// Windows with events that a baseline has learnt from, before it is shown as what is usual.
pub const LEAST_WINDOWS: u64 = 10;

/// What there is to see at one time.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Overview {
    /// Incidents, in the order in which they ended; those that are open last.
    pub incidents: Vec<Arc<Report>>,
    /// Long waits, the oldest first.
    pub outliers: Vec<Arc<ReportedOutlier>>,
    /// Incidents that opened since the start, by what is watched.
    pub opened: Vec<(Watched, u64)>,
    /// Windows of subjects that are not watched, because as many have a baseline as may have one.
    pub no_room: u64,
    /// What is disturbed now, each signal of a subject once.
    pub active: Vec<(Watched, Name)>,
    /// Kernel events that are kept of incidents, in the order of their numbers; a board knows of none.
    pub traces: Vec<Arc<KeptTrace>>,
    /// How long cgroups usually wait for a CPU, by their label.
    pub usual: Vec<Usual>,
    /// What the threads of the long waits were started as, where that is known.
    pub commands: Vec<StartCommand>,
}

impl Overview {
    /// What is kept of an incident.
    pub fn trace(&self, incident: u64) -> Option<&KeptTrace> {
        self.traces.iter().find(|trace| trace.incident == incident).map(|trace| &**trace)
    }

    /// The same with the names of threads alone, without what they were started as.
    pub fn without_command_lines(mut self) -> Self {
        self.commands.clear();
        for report in &mut self.incidents {
            if report.processes.iter().any(|process| process.command.is_some()) {
                let processes = &mut Arc::make_mut(report).processes;
                processes.iter_mut().for_each(|process| process.command = None);
            }
        }
        self
    }

    /// What goes on now, each with its incident.
    fn active(&self) -> impl Iterator<Item = (&Report, &Episode)> {
        let open = self.incidents.iter().filter(|report| report.open);
        let all = open.flat_map(|report| report.episodes().map(|episode| (&**report, episode)));
        all.filter(|(_, episode)| episode.is_active())
    }

    /// What a subject suffers from now, each with its incident.
    pub fn suffers<'a>(&'a self, subject: &str) -> impl Iterator<Item = (&'a Report, &'a Episode)> {
        self.active().filter(move |(_, episode)| *episode.subject == *subject)
    }

    /// The cgroups that suffer from something now.
    pub fn victims(&self) -> BTreeSet<&Name> {
        let cgroups = self.active().filter(|(_, episode)| episode.signal.is_of_cgroup());
        cgroups.map(|(_, episode)| &episode.subject).collect()
    }

    /// Why a subject is short of memory, where that is what its open incident is about. No charge says so: who completes
    /// requests of a disk ends its sleeps.
    pub fn short_of_memory(&self, subject: &str) -> Option<Cow<'_, str>> {
        let mut open =
            self.incidents.iter().filter(|report| report.open && *report.main.subject == *subject);
        open.find(|report| report.resource() == Account::Memory).map(|report| report.by_whom())
    }
}

/// Finds incidents, and remembers them.
pub struct Board {
    settings: Settings,
    feed: Feed,
    groups: Groups,
    past: VecDeque<Arc<Report>>,
    outliers: VecDeque<Arc<ReportedOutlier>>,
    opened: BTreeMap<Watched, u64>,
    commands: Commands,
    /// What is known beside incidents that are not over, by their number.
    beside: BTreeMap<u64, Beside>,
}

impl Board {
    /// One that knows nothing yet.
    /// Errors: where the settings cannot work.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        Ok(Self {
            feed: Feed::new(settings.clone())?,
            groups: Groups::new(&settings),
            past: VecDeque::new(),
            outliers: VecDeque::new(),
            opened: BTreeMap::new(),
            commands: Commands::default(),
            beside: BTreeMap::new(),
            settings,
        })
    }

    /// Goes on with other settings; what was learnt of signals that are still watched stays. Where nothing is looked
    /// for any more, what is open is dropped.
    /// Errors: where the settings cannot work; nothing has changed then.
    pub fn set(&mut self, settings: Settings) -> Result<(), SettingsError> {
        self.feed.set(settings.clone())?;
        self.groups.set(&settings);
        if !settings.enabled && self.settings.enabled {
            self.feed = Feed::new(settings.clone())?;
            self.groups.clear();
            self.beside.clear();
        }
        self.settings = settings;
        Ok(())
    }

    /// Takes over what an earlier one knew, the oldest first. Incidents of numbers that none can have are left out.
    pub fn restore(&mut self, incidents: Vec<Report>, outliers: Vec<ReportedOutlier>) {
        for report in incidents.into_iter().filter(|report| report.id <= baseline::MOST) {
            self.groups.continue_after(report.id);
            keep(&mut self.past, Arc::new(report.unwatched()), PAST_INCIDENTS);
        }
        for outlier in outliers {
            keep(&mut self.outliers, Arc::new(outlier), PAST_OUTLIERS);
        }
    }

    /// Incidents get numbers above that one.
    pub fn continue_after(&mut self, id: u64) {
        self.groups.continue_after(id);
    }

    /// Goes on with baselines that were learnt since the same boot.
    pub fn recall(&mut self, memories: Vec<Memory>) {
        memories.into_iter().for_each(|memory| self.feed.recall(memory));
    }

    /// Every baseline, as it outlives the daemon.
    pub fn memories(&self) -> Vec<Memory> {
        self.feed.memories().collect()
    }

    /// What is usual for a signal of a subject.
    pub fn baseline(&self, watched: Watched, subject: &Name) -> Option<&Baseline> {
        self.feed.baseline(watched, subject)
    }

    /// Whether a baseline has learnt from so many windows that others are held against it.
    pub fn is_warm(&self, baseline: &Baseline) -> bool {
        baseline.learnt() >= self.settings.warmup_windows.max(LEAST_WINDOWS)
    }

    /// Whether the host is calm, so that windows of a second are enough; see [`Feed::is_calm`]. It is where incidents are switched off.
    pub fn is_calm(&self) -> bool {
        !self.settings.enabled || self.feed.is_calm()
    }

    /// These cgroups are short of memory; see [`Monitor::note_short`](crate::Monitor::note_short).
    pub fn note_short(&mut self, cgroups: BTreeSet<Name>) {
        self.feed.note_short(cgroups);
    }

    /// Takes the next sample, about one window's length after the one before or, while it is calm, two, and the
    /// step that led to it, if from that one.
    pub fn analyse(&mut self, sample: &Arc<Sample>, step: &Step, clock: Clock) -> Vec<GroupChange> {
        if !self.settings.enabled {
            return Vec::new();
        }
        let changes = self.feed.take(sample, step);
        let mut events = self.groups.take(changes, self.feed.active(), clock);
        let commands = self.known_commands(!events.is_empty());
        for event in &mut events {
            if let GroupChange::Opened(report) | GroupChange::Closed(report) = event {
                name_processes(report, &self.outliers, &commands);
            }
        }
        for event in &events {
            match event {
                GroupChange::Opened(report) => {
                    *self.opened.entry(report.main.signal).or_default() += 1;
                }
                GroupChange::Joined { .. } => {}
                GroupChange::Merged { id, .. } => drop(self.beside.remove(id)),
                GroupChange::Closed(report) => {
                    let mut report = Arc::clone(report);
                    if let Some(beside) = self.beside.remove(&report.id) {
                        Arc::make_mut(&mut report).set_beside(beside);
                    }
                    keep(&mut self.past, report, PAST_INCIDENTS);
                }
            }
        }
        events
    }

    /// Takes the long waits of a sample, whatever it was taken for. Returns whether there were any.
    pub fn keep_outliers(&mut self, sample: &Sample, clock: Clock) -> bool {
        for wait in &sample.outliers {
            let outlier = ReportedOutlier { time: clock.wall(wait.at_ns), wait: wait.clone() };
            keep(&mut self.outliers, Arc::new(outlier), PAST_OUTLIERS);
        }
        !sample.outliers.is_empty()
    }

    /// Whether an incident is open, or among those of the past that are kept.
    pub fn has(&self, id: u64) -> bool {
        self.groups.has(id) || self.past.iter().any(|report| report.id == id)
    }

    /// What is open, as it stands, with what is known beside it and the threads behind it.
    pub fn open(&mut self, clock: Clock) -> Vec<Arc<Report>> {
        let mut open = self.groups.reports(self.feed.active(), clock);
        for report in &mut open {
            if let Some(beside) = self.beside.get(&report.id) {
                Arc::make_mut(report).set_beside(beside.clone());
            }
            name_processes(report, &self.outliers, &[]);
        }
        open
    }

    /// How bad incidents are or were, by number: see [`Report::gravity`].
    pub fn gravities(&mut self, clock: Clock) -> BTreeMap<u64, f64> {
        let open = self.open(clock);
        self.past.iter().chain(&open).map(|report| (report.id, report.gravity())).collect()
    }

    /// Keeps what is known beside an incident: one that is open, or one of the past.
    pub fn set_beside(&mut self, id: u64, beside: Beside) {
        if self.groups.has(id) {
            self.beside.insert(id, beside);
            return;
        }
        self.beside.remove(&id);
        if let Some(report) = self.past.iter_mut().find(|report| report.id == id) {
            Arc::make_mut(report).set_beside(beside);
        }
    }

    /// What there is to see now.
    pub fn overview(&mut self, clock: Clock) -> Overview {
        let mut open = self.open(clock);
        let commands = self.known_commands(true);
        open.iter_mut().for_each(|report| name_processes(report, &self.outliers, &commands));
        let opened = self
            .settings
            .watch
            .iter()
            .map(|watched| (*watched, self.opened.get(watched).copied().unwrap_or_default()));
        Overview {
            incidents: self.past.iter().cloned().chain(open).collect(),
            outliers: self.outliers.iter().cloned().collect(),
            active: self.groups.active().into_iter().collect(),
            no_room: self.feed.counts().no_room,
            opened: if self.settings.enabled { opened.collect() } else { Vec::new() },
            traces: Vec::new(),
            usual: self.usual(),
            commands,
        }
    }

    /// Remembers what a thread was started as.
    pub fn learn(&mut self, command: StartCommand) {
        self.commands.learn(command);
    }

    /// Those of the threads of long waits, where they are needed.
    fn known_commands(&self, is_needed: bool) -> Vec<StartCommand> {
        if is_needed { self.commands.of(&self.outliers) } else { Vec::new() }
    }

    /// How long cgroups usually wait for a CPU. A baseline of few windows says little.
    fn usual(&self) -> Vec<Usual> {
        let waits = self.feed.baselines().filter(|(watched, _, baseline)| {
            *watched == Signal::CgroupRunqueueWait && baseline.learnt() >= LEAST_WINDOWS
        });
        waits.map(|(signal, subject, baseline)| Usual::learnt(signal, subject, baseline)).collect()
    }
}

/// Has a report name the threads that are known to be behind it.
fn name_processes(
    report: &mut Arc<Report>,
    outliers: &VecDeque<Arc<ReportedOutlier>>,
    commands: &[StartCommand],
) {
    let processes = report.processes_of(outliers, commands);
    Arc::make_mut(report).processes = processes;
}

fn keep<T>(ring: &mut VecDeque<T>, item: T, most: usize) {
    ring.push_back(item);
    ring.drain(..ring.len().saturating_sub(most));
}
