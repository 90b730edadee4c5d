//! Consecutive samples become windows and charges of every watched signal and subject.
//!
//! A subject is what a signal's labels say, joined with blanks: `vda read`, `eth0`, a cgroup; or
//! `host` where a signal has none, `host preempt` where they only name kinds of delay.
//! `~other`, `~gone` and `~unknown` are no subjects: who is counted under them changes, and with
//! them the mean, though no work is disturbed. The root cgroup `/` is one like any other; on most
//! hosts it holds the kernel's threads. Its uninterruptible sleeps alone are left out: a task that a
//! kernel thread keeps waiting sleeps itself, in its own cgroup.
//!
//! What is taken from a cgroup while it runs is watched as well ([`Watched::Interruption`]).
//!
//! Where delays are measured by a further subject, as waits for a CPU are by cgroup, the same delays
//! of the whole host are left out: one disturbance would be reported twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use noise_common::signals::{SIGNAL_COUNT, SIGNALS, Signal};
use noise_common::subject::SubjectKind;
use noise_model::{Sample, Step, StepDelays};

use super::baseline::Baseline;
use super::charges::{Pool, StepCharges};
use super::incident::{Change, Incident};
use super::interruption::{Interruption, interruptions, most_taken};
use super::monitor::{Monitor, UnanalysedCounts};
use super::name::{Name, ROOT, is_catch_all};
use super::settings::{Settings, SettingsError};
use super::track::Memory;
use super::watched::Watched;
use super::window::Window;

/// Subject of signals that have no labels.
const HOST: &str = "host";

/// Finds incidents in consecutive samples.
pub struct Feed {
    monitor: Monitor,
    watched: [bool; SIGNAL_COUNT],
    /// Whether what is taken from running work is watched.
    interruption: bool,
    /// Signals whose delays are known, and watched, by the subjects of a part of them.
    seen_by_part: BTreeSet<Signal>,
    previous: Option<Arc<Sample>>,
}

/// What came of a subject, and what its charges are looked for in.
struct SubjectDelays<'a> {
    delays: StepDelays<'a>,
    pool: Option<Pool>,
}

impl Feed {
    /// One that has learnt nothing.
    /// Errors: where the settings cannot work.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        let mut feed = Self {
            monitor: Monitor::new(settings.clone())?,
            watched: [false; SIGNAL_COUNT],
            interruption: false,
            seen_by_part: BTreeSet::new(),
            previous: None,
        };
        feed.set(settings)?;
        Ok(feed)
    }

    /// Goes on with other settings. What is not watched any more is forgotten with the next sample.
    /// Errors: where the settings cannot work; nothing has changed then.
    pub fn set(&mut self, settings: Settings) -> Result<(), SettingsError> {
        settings.check()?;
        let mut watched = [false; SIGNAL_COUNT];
        let mut interruption = false;
        for one in &settings.watch {
            match one {
                Watched::Signal(signal) => {
                    if let Some(watched) = watched.get_mut(*signal as usize) {
                        *watched = true;
                    }
                }
                Watched::Interruption => interruption = true,
            }
        }
        (self.watched, self.interruption) = (watched, interruption);
        self.monitor.set(settings);
        Ok(())
    }

    /// Takes the next sample, about one window's length after the one before or, while it is calm, two, and the
    /// step that led to it, if from that one.
    ///
    /// Signals of subjects that did not change cost a comparison. A subject's first appearance is
    /// where its windows begin: what it counted before may be old.
    pub fn take(&mut self, sample: &Arc<Sample>, step: &Step) -> Vec<Change> {
        match self.previous.replace(Arc::clone(sample)) {
            Some(previous) if sample.at_ns > previous.at_ns => {
                self.advance(&step.or_between(&previous, sample), sample)
            }
            Some(_) => Vec::new(),
            None => {
                self.monitor.begin(sample.at_ns);
                Vec::new()
            }
        }
    }

    /// Takes what came up to a sample.
    fn advance(&mut self, step: &Step, sample: &Sample) -> Vec<Change> {
        self.find_parts(sample);
        let is_watched: Vec<Watched> = Watched::all().filter(|one| self.looks_at(*one)).collect();
        let mut changes = self.monitor.watch_only(|one| is_watched.contains(&one));
        let came: Vec<SubjectDelays<'_>> = self.watched_of(step).collect();
        let mut delays_ns: BTreeMap<(Signal, &Pool), u64> = BTreeMap::new();
        for one in &came {
            if let Some(pool) = &one.pool {
                let sum_ns = delays_ns.entry((one.delays.signal, pool)).or_default();
                *sum_ns = sum_ns.saturating_add(one.delays.histogram.sum_ns);
            }
        }
        let charges = match delays_ns.is_empty() && !self.interruption {
            true => StepCharges::default(),
            false => StepCharges::of_step(step),
        };
        for SubjectDelays { delays, pool } in &came {
            let signal = delays.signal;
            let charged = pool.as_ref().map_or_else(Vec::new, |pool| {
                let whole_ns = delays_ns.get(&(signal, pool)).copied().unwrap_or_default();
                charges.of(pool, delays.histogram.sum_ns, whole_ns)
            });
            let (start_ns, end_ns) = (step.start_ns, step.end_ns);
            let window = Window { start_ns, end_ns, delays: delays.histogram.owned() };
            changes.extend(self.monitor.observe(signal, &subject(delays), &window, &charged));
        }
        if self.interruption {
            self.monitor.note_taken(most_taken(step));
            for lost in interruptions(step, &charges) {
                let Interruption { victim, window, charged } = lost;
                let watched = Watched::Interruption;
                changes.extend(self.monitor.observe(watched, victim, &window, charged));
            }
        }
        changes.extend(self.monitor.settle(sample.at_ns));
        changes
    }

    /// These cgroups are short of memory; see [`Monitor::note_short`].
    pub fn note_short(&mut self, cgroups: BTreeSet<Name>) {
        self.monitor.note_short(cgroups);
    }

    /// What is usual for a signal of a subject.
    pub fn baseline(&self, watched: Watched, subject: &Name) -> Option<&Baseline> {
        self.monitor.baseline(watched, subject)
    }

    /// Every baseline, by signal and subject.
    pub fn baselines(&self) -> impl Iterator<Item = (Watched, &Name, &Baseline)> {
        self.monitor.baselines()
    }

    /// Every baseline, as it outlives the daemon.
    pub fn memories(&self) -> impl Iterator<Item = Memory> {
        self.monitor.memories()
    }

    /// Goes on with a baseline that was learnt since the same boot, if it is of what is watched.
    pub fn recall(&mut self, memory: Memory) {
        if self.looks_at(memory.signal) {
            self.monitor.recall(memory);
        }
    }

    pub fn is_calm(&self) -> bool {
        self.monitor.is_calm()
    }

    /// What was not analysed.
    pub fn counts(&self) -> UnanalysedCounts {
        self.monitor.counts()
    }

    /// Incidents that are open, by signal and subject.
    pub fn active(&self) -> impl Iterator<Item = Incident> {
        self.monitor.active()
    }

    /// Whether incidents of a signal are looked for.
    pub fn is_watched(&self, signal: Signal) -> bool {
        self.watched.get(signal as usize).copied().unwrap_or(false)
    }

    /// Whether incidents of that are looked for, and not of a part of it.
    fn looks_at(&self, watched: Watched) -> bool {
        match watched {
            Watched::Signal(signal) => {
                self.is_watched(signal) && !self.seen_by_part.contains(&signal)
            }
            Watched::Interruption => self.interruption,
        }
    }

    /// Parts come with their first subject, and what was measured stays in the sample.
    fn find_parts(&mut self, sample: &Sample) {
        let is_known = |part: Signal, whole: &Signal| {
            self.is_watched(part)
                && !sample.absent.iter().any(|(absent, _)| *absent == part)
                && (self.seen_by_part.contains(whole)
                    || sample.series.iter().any(|series| series.signal == part))
        };
        let wholes = SIGNALS.iter().filter_map(|info| {
            let part = info.signal;
            info.part_of.filter(|whole| is_known(part, whole))
        });
        self.seen_by_part = wholes.collect();
    }

    fn watched_of<'a>(&self, step: &'a Step) -> impl Iterator<Item = SubjectDelays<'a>> {
        let watched = step.delays().filter(|delays| {
            // Where counting began anew, the next window starts from here.
            self.looks_at(delays.signal.into()) && !delays.began
        });
        watched
            .filter(|delays| !delays.labels.iter().any(|label| is_catch_all(label)))
            .filter(|delays| !sleeps_in_root(delays))
            .map(|delays| SubjectDelays { delays, pool: Pool::new(delays.signal, delays.labels) })
    }
}

/// Whether these are uninterruptible sleeps in the root cgroup: on most hosts those of kernel threads.
fn sleeps_in_root(delays: &StepDelays<'_>) -> bool {
    delays.signal == Signal::UninterruptibleWait && delays.labels.iter().eq([ROOT])
}

fn subject(delays: &StepDelays<'_>) -> Name {
    match (delays.signal.info().subject, &**delays.labels) {
        (_, []) => HOST.into(),
        (SubjectKind::Kinds(_), labels) => format!("{HOST} {}", labels.join(" ")).into(),
        (_, [label]) => label.as_str().into(),
        (_, labels) => labels.join(" ").into(),
    }
}
