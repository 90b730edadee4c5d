//! One signal of one subject: its baseline, its latest windows, and its incident if it has one.
//!
//! Where another culprit takes over while the signal stays disturbed, one incident ends and the
//! next begins (`takeover`).
//!
//! A window teaches the baseline only when newer windows have pushed it out of the latest ones, so
//! that the begin of an incident is not learnt before it is noticed. While an incident is open,
//! its windows teach a second baseline, which takes over if the change lasts.
//!
//! Only windows with events are taken; all other time is silence. To an open incident it is windows
//! without events, each as long as the last one with some; behind the incident, and where there is
//! none, it counts for the rate.

mod takeover;

use std::collections::VecDeque;

use noise_model::Histogram;

use super::baseline::Baseline;
use super::culprits::{ChargeSums, Usual};
use super::incident::{Change, Ending, Incident};
use super::level::Level;
use super::name::Name;
use super::remedy::recommended;
use super::rules::{self, CLOSING_FRACTION, Rule};
use super::settings::Settings;
use super::watched::Watched;
use super::window::{Slice, Window};

/// Weight of one window in the cost of a subject.
const COST_WEIGHT: f64 = 0.1;

/// Time after which a disturbance is adopted as baseline: longer than a nightly job, and than it takes until somebody looks.
pub(super) const ADOPT_NS: u64 = 6 * 3_600_000_000_000;

/// Silence after which a subject counts as gone: a cgroup of that name is most likely another one by then.
pub(super) const FORGET_NS: u64 = 600_000_000_000;

/// What a track belongs to.
pub(super) type Key = (Watched, Name);

/// What is usual for a signal of a subject, as it outlives the daemon.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Memory {
    /// What was unusual, written as its name.
    pub signal: Watched,
    pub subject: Name,
    /// End of the last window with events, ns on the clock of the windows, which begins anew with each boot.
    pub end_ns: u64,
    /// Length of the last window with events, ns.
    pub length_ns: u64,
    pub baseline: Baseline,
    /// `None` where an older noised wrote it.
    #[serde(default)]
    pub(super) charges: Option<Usual>,
}

/// What is usual: the delays, and who is charged with them.
#[derive(Clone, Debug)]
struct Normal {
    baseline: Baseline,
    charges: Usual,
}

impl Normal {
    fn new(baseline: Baseline) -> Self {
        Self { baseline, charges: Usual::default() }
    }

    fn learn(&mut self, slice: &Slice) {
        self.baseline.learn(slice);
        self.charges.learn(
            &slice.charged,
            slice.window.delays.sum_ns,
            slice.length_ns(),
            self.baseline.half_life(),
        );
    }

    fn learn_quiet(&mut self, length_ns: u64) {
        self.baseline.learn_quiet(length_ns);
        self.charges.learn_quiet(length_ns);
    }
}

#[derive(Clone, Debug)]
pub(super) struct Track {
    normal: Normal,
    recent: VecDeque<Slice>,
    open: Option<Box<OngoingIncident>>,
    /// End and length of the last window with events.
    heard_ns: u64,
    length_ns: u64,
    /// Until when time is accounted for: after `heard_ns` by the silence that went into an incident.
    accounted_ns: u64,
    cost: f64,
}

/// An incident that goes on.
#[derive(Clone, Debug)]
struct OngoingIncident {
    rule: Rule,
    start_ns: u64,
    /// Since when the signal is disturbed, maybe by others at first.
    since_ns: u64,
    before: Level,
    /// The windows that belong to it for certain.
    settled: Settled,
    /// The latest windows, among which it may have ended.
    tail: VecDeque<Slice>,
    next: Normal,
}

#[derive(Clone, Debug, Default)]
struct Settled {
    windows: usize,
    end_ns: Option<u64>,
    delays: Histogram,
    charged: ChargeSums,
}

impl Settled {
    fn add(&mut self, slice: &Slice) {
        self.windows += 1;
        self.end_ns = Some(slice.window.end_ns);
        self.delays.add(&slice.window.delays);
        self.charged.add(&slice.charged);
    }
}

impl OngoingIncident {
    fn new(rule: Rule, start_ns: u64, before: Level, settings: &Settings) -> Self {
        Self {
            rule,
            start_ns,
            since_ns: start_ns,
            before,
            settled: Settled::default(),
            tail: VecDeque::new(),
            next: Normal::new(Baseline::new(settings.half_life())),
        }
    }

    fn push(&mut self, slice: Slice, settings: &Settings) {
        self.tail.push_back(slice);
        while self.tail.len() > settings.closing_windows
            && let Some(slice) = self.tail.pop_front()
        {
            self.settled.add(&slice);
            self.next.learn(&slice);
        }
    }

    /// Whether windows of it lose as much beyond what was usual before, seconds per second.
    fn loses<'a>(&self, slices: impl Iterator<Item = &'a Slice>, least: f64) -> bool {
        rules::loses(slices, self.before.mean_ns.unwrap_or(0.0), least)
    }

    /// The incident, with as many windows of its tail as belong to it.
    fn report(&self, key: &Key, tail: usize, ending: Option<Ending>, usual: &Usual) -> Incident {
        let mut all = self.settled.clone();
        for slice in self.tail.iter().take(tail) {
            all.add(slice);
        }
        let end_ns = all.end_ns.unwrap_or(self.start_ns);
        let length_ns = end_ns.saturating_sub(self.start_ns);
        let usual_ns = self.before.mean_ns.unwrap_or(0.0) * all.delays.count() as f64;
        let ranking = all.charged.ranking(all.delays.sum_ns, &usual.within(length_ns));
        let ranking = ranking.others_first(key.0);
        let remedies = recommended(key.0, &ranking.culprits);
        Incident {
            signal: key.0,
            subject: key.1.clone(),
            start_ns: self.start_ns,
            end_ns,
            disturbed_ns: length_ns,
            ending,
            rule: self.rule,
            before: self.before,
            after: Level::new(&all.delays, length_ns),
            lost_seconds: (all.delays.sum_ns as f64 - usual_ns) / 1e9,
            culprits: ranking.culprits,
            others: ranking.others,
            untracked: ranking.untracked,
            beyond_seconds: ranking.beyond_seconds,
            remedies,
            delays: all.delays,
        }
    }
}

impl Track {
    /// One that begins where its first window does.
    pub fn new(start_ns: u64, settings: &Settings) -> Self {
        Self {
            normal: Normal::new(Baseline::new(settings.half_life())),
            recent: VecDeque::new(),
            open: None,
            heard_ns: start_ns,
            length_ns: 0,
            accounted_ns: start_ns,
            cost: 0.0,
        }
    }

    /// One that goes on with what another knew.
    pub fn recall(memory: Memory, settings: &Settings) -> Self {
        Self {
            normal: Normal {
                baseline: memory.baseline.with_half_life(settings.half_life()),
                charges: memory.charges.unwrap_or_default(),
            },
            length_ns: memory.length_ns,
            ..Self::new(memory.end_ns, settings)
        }
    }

    /// What another can go on with.
    pub fn memory(&self, key: &Key) -> Memory {
        Memory {
            signal: key.0,
            subject: key.1.clone(),
            end_ns: self.heard_ns,
            length_ns: self.length_ns,
            baseline: self.normal.baseline.clone(),
            charges: Some(self.normal.charges.brief()),
        }
    }

    /// Says that nothing was watched up to then: that is no silence.
    pub fn begin(&mut self, at_ns: u64) {
        self.accounted_ns = self.accounted_ns.max(at_ns);
    }

    pub fn baseline(&self) -> &Baseline {
        &self.normal.baseline
    }

    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether the window begins in time that is accounted for.
    pub fn is_behind(&self, window: &Window) -> bool {
        window.start_ns < self.accounted_ns
    }

    /// Whether the two are so far apart, in either direction, that the subject began anew.
    pub fn is_apart(&self, window: &Window) -> bool {
        let behind_ns = self.accounted_ns.saturating_sub(window.end_ns);
        self.is_gone(window.start_ns) || behind_ns >= FORGET_NS
    }

    /// Whether it has been silent for so long that it counts as gone.
    pub fn is_gone(&self, at_ns: u64) -> bool {
        at_ns.saturating_sub(self.heard_ns) >= FORGET_NS
    }

    /// Seconds of delay per second of late, less for those that are silent.
    pub fn cost(&self, at_ns: u64) -> f64 {
        let silence_ns = at_ns.saturating_sub(self.heard_ns) as f64;
        self.cost * (1.0 - COST_WEIGHT).powf(silence_ns / self.length_ns.max(1) as f64)
    }

    /// The open incident as it stands.
    pub fn incident(&self, key: &Key) -> Option<Incident> {
        let usual = &self.normal.charges;
        self.open.as_ref().map(|open| open.report(key, open.tail.len(), None, usual))
    }

    /// Takes the next window with events, which is not behind; `is_short` says whether these are waits for memory.
    pub fn observe(
        &mut self,
        key: &Key,
        slice: Slice,
        is_short: bool,
        settings: &Settings,
    ) -> Vec<Change> {
        let window = &slice.window;
        let mut changes = self.be_silent(key, window.start_ns, settings);
        if self.open.is_none() {
            self.normal.learn_quiet(window.start_ns.saturating_sub(self.accounted_ns));
        }
        self.cost = self.cost(window.start_ns) * (1.0 - COST_WEIGHT) + window.lost() * COST_WEIGHT;
        (self.heard_ns, self.accounted_ns) = (window.end_ns, window.end_ns);
        self.length_ns = slice.length_ns();
        match self.is_open() {
            true => changes.extend(self.continue_incident(key, slice, settings)),
            false => changes.extend(self.look_for_incident(key, slice, is_short, settings)),
        }
        changes
    }

    /// Takes it that nothing happened up to `at_ns`, which may end the incident.
    pub fn be_silent(&mut self, key: &Key, at_ns: u64, settings: &Settings) -> Vec<Change> {
        let mut changes = Vec::new();
        // What comes after a subject is gone is not its silence, whenever that is noticed.
        let at_ns = at_ns.min(self.heard_ns.saturating_add(FORGET_NS));
        // However long the silence is: the incident is over when it fills the closing windows.
        while self.is_open()
            && let Some(end_ns) = self.accounted_ns.checked_add(self.length_ns.max(1))
            && end_ns <= at_ns
        {
            let slice = Slice::empty(self.accounted_ns, end_ns);
            self.accounted_ns = end_ns;
            changes.extend(self.continue_incident(key, slice, settings));
        }
        changes
    }

    /// Ends the incident, if there is one, because the subject is gone at `at_ns`, unless the
    /// silence before ended it.
    pub fn vanish(&mut self, key: &Key, at_ns: u64, settings: &Settings) -> Vec<Change> {
        let mut changes = self.be_silent(key, at_ns, settings);
        changes.extend(self.close(key, Ending::Vanished));
        changes
    }

    fn look_for_incident(
        &mut self,
        key: &Key,
        slice: Slice,
        is_short: bool,
        settings: &Settings,
    ) -> Option<Change> {
        self.recent.push_back(slice);
        while self.recent.len() > settings.recent_windows {
            let oldest = self.recent.pop_front()?;
            self.normal.learn(&oldest);
        }
        let (minimum, baseline) = (settings.minimum(key.0), &self.normal.baseline);
        if is_short && rules::lost_to_memory(self.recent.iter(), baseline, minimum, settings) {
            // What was learnt so far is of this; what was before may be long ago.
            self.normal = Normal::new(Baseline::new(settings.half_life()));
            let before = self.recent.len().saturating_sub(rules::least_windows(settings));
            self.recent.drain(..before);
            return self.open(key, Rule::Memory, settings);
        }
        let means: Vec<f64> = self.recent.iter().filter_map(Slice::mean_ns).collect();
        let rule = rules::broken(&means, &self.normal.baseline, settings)?;
        let disturbed = rules::disturbed_suffix(means.iter().rev().copied(), &self.normal.baseline);
        let calm = self.recent.len().saturating_sub(disturbed);
        let usual_ns = self.normal.baseline.level().mean_ns?;
        let latest = || self.recent.iter().skip(calm);
        // One window has no silence between: that before it counts.
        let before = self.recent.iter().rev().skip(1).take(usize::from(disturbed == 1));
        let silence = before.map(|one| Slice::empty(one.window.end_ns, one.window.end_ns));
        let silence: Vec<Slice> = silence.collect();
        let weighed = silence.iter().chain(latest());
        if !rules::opens(weighed, usual_ns, minimum) {
            return None;
        }
        let lasting = rules::lasting_suffix(latest().rev(), &self.normal.baseline);
        let before = self.recent.len().saturating_sub(lasting);
        for slice in self.recent.drain(..before) {
            self.normal.learn(&slice);
        }
        self.open(key, rule, settings)
    }

    /// Opens an incident of the latest windows.
    fn open(&mut self, key: &Key, rule: Rule, settings: &Settings) -> Option<Change> {
        let start_ns = self.recent.front()?.window.start_ns;
        let mut open =
            Box::new(OngoingIncident::new(rule, start_ns, self.normal.baseline.level(), settings));
        for slice in self.recent.drain(..) {
            open.push(slice, settings);
        }
        let incident = open.report(key, open.tail.len(), None, &self.normal.charges);
        self.open = Some(open);
        Some(Change::Opened(incident))
    }

    fn continue_incident(&mut self, key: &Key, slice: Slice, settings: &Settings) -> Vec<Change> {
        let end_ns = slice.window.end_ns;
        if let Some(open) = &mut self.open {
            open.push(slice, settings);
        }
        let Some(open) = &self.open else { return Vec::new() };
        let since_ns = open.since_ns;
        if open.tail.len() >= settings.closing_windows {
            let least = settings.minimum(key.0) * CLOSING_FRACTION;
            if !open.loses(open.tail.iter(), least) || !self.lasts(open, open.tail.iter()) {
                return self.close(key, Ending::Over).into_iter().collect();
            }
        }
        if let Some(both) = self.hand_over(key, settings) {
            return both.into();
        }
        if end_ns.saturating_sub(since_ns) >= ADOPT_NS {
            return self.close(key, Ending::Adopted).into_iter().collect();
        }
        Vec::new()
    }

    /// Whether the rule that opened an incident holds for these windows of it.
    fn lasts<'a>(&self, open: &OngoingIncident, slices: impl Iterator<Item = &'a Slice>) -> bool {
        let means: Vec<f64> = slices.filter_map(Slice::mean_ns).collect();
        rules::lasts(open.rule, &means, &self.normal.baseline)
    }

    /// Ends the incident, if there is one.
    pub fn close(&mut self, key: &Key, ending: Ending) -> Option<Change> {
        let mut open = self.open.take()?;
        let disturbed = match ending {
            Ending::Adopted => open.tail.len(),
            Ending::Over | Ending::Vanished | Ending::Unwatched => {
                let least = usize::from(open.settled.end_ns.is_none());
                self.disturbed_in(&open).max(least)
            }
        };
        let incident = open.report(key, disturbed, Some(ending), &self.normal.charges);
        if ending == Ending::Adopted {
            for slice in &open.tail {
                open.next.learn(slice);
            }
            let mean_ns = open.next.baseline.mean_ns();
            let least_mean_ns = rules::divide_ns(mean_ns, &self.normal.baseline);
            open.next.baseline.adopt(open.since_ns, least_mean_ns);
            self.normal = open.next;
        } else {
            // What is calm behind the end is judged, and learnt, like any other window.
            for slice in open.tail.drain(..).skip(disturbed) {
                if slice.window.is_empty() {
                    self.normal.learn_quiet(slice.length_ns());
                } else {
                    self.recent.push_back(slice);
                }
            }
        }
        Some(Change::Closed(incident))
    }

    /// Windows at the begin of the tail that belong to the incident.
    fn disturbed_in(&self, open: &OngoingIncident) -> usize {
        let mut delays = open.settled.delays.clone();
        if open.settled.end_ns.is_none() {
            open.tail.iter().for_each(|slice| delays.add(&slice.window.delays));
        }
        let Some(mean_ns) = Level::new(&delays, 0).mean_ns else { return 0 };
        let divide_ns = rules::divide_ns(mean_ns, &self.normal.baseline);
        rules::disturbed_prefix(open.tail.iter().map(Slice::mean_ns), divide_ns)
    }
}
