//! Every signal of every subject: bounded, and identified by nothing but signal and subject.

use std::collections::{BTreeMap, BTreeSet};

use noise_common::signals::Signal;

use super::baseline::Baseline;
use super::culprits::Charge;
use super::culprits::ChargeSums;
use super::incident::{Change, Ending, Incident};
use super::name::Name;
use super::rules;
use super::settings::{Settings, SettingsError};
use super::track::{Key, Memory, Track};
use super::watched::Watched;
use super::window::{Slice, Window};

/// How much more than the cheapest a new subject must cost to take its place, so that two of a
/// size do not forget each other's baseline in turn.
const TAKEOVER: f64 = 2.0;

/// How often the cheapest subject is looked for between two settlements, so that a host with
/// thousands of new subjects costs little more than one with a few.
const SEARCHES: u32 = 16;

/// What was not analysed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnanalysedCounts {
    /// Windows that cannot have been measured: the clock went back, or the counters began anew.
    pub implausible: u64,
    /// Windows of subjects for which there was no room.
    pub no_room: u64,
    /// Subjects that gave way to more expensive ones.
    pub displaced: u64,
    /// Subjects that were forgotten because they were gone.
    pub forgotten: u64,
}

/// Finds incidents in the windows of many subjects.
#[derive(Clone, Debug)]
pub struct Monitor {
    settings: Settings,
    tracks: BTreeMap<Key, Track>,
    /// Those that are short of memory.
    short: BTreeSet<Name>,
    most_taken: f64,
    counts: UnanalysedCounts,
    searches: u32,
    /// Windows that must pass without an incident, or a loss as large as one, until it is calm.
    until_calm: u64,
}

impl Monitor {
    /// One that has learnt nothing.
    /// Errors: where the settings cannot work.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        let until_calm = settings.first_judged();
        Ok(Self {
            settings,
            tracks: BTreeMap::new(),
            short: BTreeSet::new(),
            most_taken: 0.0,
            counts: UnanalysedCounts::default(),
            searches: 0,
            until_calm,
        })
    }

    /// Goes on with other settings, which have been checked.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// These subjects are short of memory until the next call: their uninterruptible sleeps are waits for memory.
    pub fn note_short(&mut self, subjects: BTreeSet<Name>) {
        self.short = subjects;
    }

    /// In the windows until the next call, interrupts and the hypervisor took that part of its time, 0 to 1, from the CPU
    /// that lost most. Where that is less than `minimum-taken`, no incident of [`Watched::Interruption`] opens.
    pub fn note_taken(&mut self, most: f64) {
        self.most_taken = most;
    }

    /// Whether a window is one of waits for memory, of a subject that is known long enough to say that it had none before.
    fn is_short(&self, (watched, subject): &Key) -> bool {
        let waits = || (Signal::CgroupRunqueueWait.into(), subject.clone());
        let is_known = |track: &Track| track.baseline().learnt() >= self.settings.warmup_windows;
        *watched == Signal::UninterruptibleWait
            && self.short.contains(subject)
            && self.tracks.get(&waits()).is_some_and(is_known)
    }

    /// Takes the next window of a signal of a subject, and who is charged with its delays.
    ///
    /// Windows without events may be left out, or given in pieces of any length: they say only that
    /// nothing happened until then. The answer depends on the windows of this signal and subject
    /// alone, as long as there is room for all.
    /// Where there is not, few of the new ones replace cheaper ones between two settlements.
    pub fn observe(
        &mut self,
        signal: impl Into<Watched>,
        subject: &Name,
        window: &Window,
        charges: &[Charge],
    ) -> Vec<Change> {
        if !window.is_plausible() {
            self.counts.implausible += 1;
            return Vec::new();
        }
        let key = (signal.into(), subject.clone());
        let mut slice = Slice::new(window, ChargeSums::default());
        slice.most_taken = (key.0 == Watched::Interruption).then_some(self.most_taken);
        if rules::loses([&slice].into_iter(), 0.0, self.settings.minimum(key.0)) {
            self.wake();
        }
        let mut changes = Vec::new();
        let track = self.tracks.get_mut(&key);
        if window.is_empty() {
            // Nothing is known of a subject before its first event.
            let Some(track) = track else { return changes };
            if track.is_behind(window) {
                self.counts.implausible += 1;
            } else if track.is_gone(window.end_ns) {
                changes.extend(track.vanish(&key, window.end_ns, &self.settings));
                self.tracks.remove(&key);
                self.counts.forgotten += 1;
            } else {
                changes.extend(track.be_silent(&key, window.end_ns, &self.settings));
            }
            return changes;
        }
        if let Some(track) = track {
            if track.is_apart(window) {
                changes.extend(track.vanish(&key, window.start_ns, &self.settings));
                *track = Track::new(window.start_ns, &self.settings);
                self.counts.forgotten += 1;
            } else if track.is_behind(window) {
                self.counts.implausible += 1;
                return changes;
            }
        } else if !self.make_room(window) {
            self.counts.no_room += 1;
            return changes;
        }
        slice.charged = ChargeSums::new(charges);
        let is_short = self.is_short(&key);
        let track = self
            .tracks
            .entry(key.clone())
            .or_insert_with(|| Track::new(window.start_ns, &self.settings));
        changes.extend(track.observe(&key, slice, is_short, &self.settings));
        changes
    }

    /// Says that all windows up to `at_ns` have been observed: ends the incidents of those who are
    /// silent, and forgets those who are gone.
    pub fn settle(&mut self, at_ns: u64) -> Vec<Change> {
        let mut changes = Vec::new();
        self.searches = 0;
        self.until_calm = self.until_calm.saturating_sub(1);
        let settings = &self.settings;
        let (before, mut any_open) = (self.tracks.len(), false);
        self.tracks.retain(|key, track| {
            let gone = track.is_gone(at_ns);
            changes.extend(match gone {
                true => track.vanish(key, at_ns, settings),
                false => track.be_silent(key, at_ns, settings),
            });
            any_open |= track.is_open();
            !gone
        });
        if any_open {
            self.wake();
        }
        self.counts.forgotten += (before - self.tracks.len()) as u64;
        self.keep_to_room(at_ns);
        changes
    }

    /// Forgets what is not watched any more, and ends its incidents.
    pub fn watch_only(&mut self, is_watched: impl Fn(Watched) -> bool) -> Vec<Change> {
        let mut changes = Vec::new();
        self.tracks.retain(|key, track| {
            let stays = is_watched(key.0);
            if !stays {
                changes.extend(track.close(key, Ending::Unwatched));
            }
            stays
        });
        changes
    }

    /// Whether nothing is open, and nothing is about to open: in none of the latest `closing_windows` did a subject
    /// lose the least that is an incident. Never before the first subjects are judged, so that they are learnt
    /// at the usual pace.
    pub fn is_calm(&self) -> bool {
        self.until_calm == 0
    }

    fn wake(&mut self) {
        self.until_calm = self.until_calm.max(self.settings.closing_windows as u64);
    }

    /// Forgets the cheapest where there are more than there may be by now, but none whose incident is open.
    fn keep_to_room(&mut self, at_ns: u64) {
        let excess = self.tracks.len().saturating_sub(self.settings.subjects);
        if excess == 0 {
            return;
        }
        let closed = self.tracks.iter().filter(|(_, track)| !track.is_open());
        let mut closed: Vec<_> =
            closed.map(|(key, track)| (track.cost(at_ns), key.clone())).collect();
        closed.sort_by(|one, other| one.0.total_cmp(&other.0));
        for (_, key) in closed.into_iter().take(excess) {
            self.tracks.remove(&key);
            self.counts.displaced += 1;
        }
    }

    /// What outlives the daemon: every baseline.
    pub fn memories(&self) -> impl Iterator<Item = Memory> {
        self.tracks.iter().map(|(key, track)| track.memory(key))
    }

    /// Goes on with what an earlier one knew, on the same clock. What cannot be, or has no room, is left out.
    pub fn recall(&mut self, memory: Memory) {
        // An older noised, which kept no charges, had one event in each window of what is taken.
        let is_other = memory.signal == Watched::Interruption && memory.charges.is_none();
        let has_room = self.tracks.len() < self.settings.subjects;
        if has_room && memory.baseline.is_plausible() && !is_other {
            let key = (memory.signal, memory.subject.clone());
            self.tracks.entry(key).or_insert_with(|| Track::recall(memory, &self.settings));
        }
    }

    /// Says that nothing was watched up to `at_ns`, when the first window begins.
    pub fn begin(&mut self, at_ns: u64) {
        self.tracks.values_mut().for_each(|track| track.begin(at_ns));
    }

    /// Incidents that are open, by signal and subject; their ends are those of the newest windows.
    pub fn active(&self) -> impl Iterator<Item = Incident> {
        self.tracks.iter().filter_map(|(key, track)| track.incident(key))
    }

    /// What is usual for a signal of a subject.
    pub fn baseline(&self, signal: impl Into<Watched>, subject: &Name) -> Option<&Baseline> {
        self.tracks.get(&(signal.into(), subject.clone())).map(Track::baseline)
    }

    /// Every baseline, by signal and subject.
    pub fn baselines(&self) -> impl Iterator<Item = (Watched, &Name, &Baseline)> {
        self.tracks.iter().map(|((watched, subject), track)| (*watched, subject, track.baseline()))
    }

    /// Signals of subjects that have a baseline.
    pub fn subjects(&self) -> usize {
        self.tracks.len()
    }

    /// What was not analysed.
    pub fn counts(&self) -> UnanalysedCounts {
        self.counts
    }

    /// Whether there is room for a subject with that window. The cheapest goes, but none whose incident is open.
    fn make_room(&mut self, window: &Window) -> bool {
        if self.tracks.len() < self.settings.subjects {
            return true;
        }
        if self.searches >= SEARCHES {
            return false;
        }
        self.searches += 1;
        let cost = window.lost();
        let cheapest = self
            .tracks
            .iter()
            .filter(|(_, track)| !track.is_open())
            .map(|(key, track)| (track.cost(window.start_ns), key))
            .min_by(|one, other| one.0.total_cmp(&other.0));
        match cheapest {
            Some((least, key)) if cost > TAKEOVER * least => {
                let key = key.clone();
                self.tracks.remove(&key);
                self.counts.displaced += 1;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rule;
    use crate::properties::{name, window};

    const SIGNAL: Signal = Signal::RunqueueWait;

    fn monitor(subjects: usize) -> Monitor {
        Monitor::new(Settings { subjects, ..Settings::default() }).unwrap()
    }

    #[test]
    fn empty_windows_before_their_turn_are_counted_and_late_ones_end_a_subject() {
        let mut monitor = monitor(1);
        monitor.observe(SIGNAL, &name(1), &window(5, &[1000]), &[]);
        monitor.observe(SIGNAL, &name(1), &window(3, &[]), &[]);
        assert_eq!(
            monitor.counts(),
            UnanalysedCounts { implausible: 1, ..UnanalysedCounts::default() }
        );
        monitor.observe(SIGNAL, &name(1), &window(5 + 1200, &[]), &[]);
        let expected =
            UnanalysedCounts { implausible: 1, forgotten: 1, ..UnanalysedCounts::default() };
        assert_eq!((monitor.subjects(), monitor.counts()), (0, expected));
        // The subject was forgotten, and with it the window that this one would precede.
        monitor.observe(SIGNAL, &name(1), &window(3, &[]), &[]);
        assert_eq!((monitor.subjects(), monitor.counts()), (0, expected));
    }

    #[test]
    fn who_was_expensive_gives_way_once_he_is_silent() {
        let mut monitor = monitor(1);
        monitor.observe(SIGNAL, &name(1), &window(0, &[1 << 20]), &[]);
        monitor.observe(SIGNAL, &name(2), &window(1, &[1 << 10]), &[]);
        assert_eq!((monitor.subjects(), monitor.counts().no_room), (1, 1));
        monitor.observe(SIGNAL, &name(2), &window(100, &[1 << 10]), &[]);
        assert_eq!((monitor.subjects(), monitor.counts().displaced), (1, 1));
        assert!(monitor.baseline(SIGNAL, &name(2)).is_some());
    }

    #[test]
    fn memory_that_is_short_needs_no_baseline_of_its_own() {
        let settings = Settings {
            warmup_windows: 20,
            recent_windows: 9,
            closing_windows: 6,
            ..Settings::default()
        };
        let opened = |known: u64, short_from: u64, sleep_ms: u64| {
            let mut monitor: Monitor = Monitor::new(settings.clone()).unwrap();
            let mut incidents = Vec::new();
            for number in 0..100 {
                let waits = window(number, &[1_000; 10]);
                if number + known >= 60 {
                    monitor.observe(Signal::CgroupRunqueueWait, &name(1), &waits, &[]);
                }
                if (60..75).contains(&number) {
                    let is_short = number >= short_from;
                    monitor.note_short(is_short.then_some(name(1)).into_iter().collect());
                    let sleeps = window(number, &[sleep_ms * 100_000; 10]);
                    incidents.extend(monitor.observe(
                        Signal::UninterruptibleWait,
                        &name(1),
                        &sleeps,
                        &[],
                    ));
                }
                incidents.extend(monitor.settle(waits.end_ns));
            }
            let of = |change: Change| match change {
                Change::Opened(incident) => (incident.rule, incident.start_ns / 500_000_000, None),
                Change::Closed(incident) => {
                    (incident.rule, incident.start_ns / 500_000_000, incident.ending)
                }
            };
            incidents.into_iter().map(of).collect::<Vec<_>>()
        };
        let over = Some(Ending::Over);
        let expected = [(Rule::Memory, 60, None), (Rule::Memory, 60, over)];
        assert_eq!(opened(60, 61, 100), expected);
        assert_eq!(opened(60, 100, 100), [], "it is not short");
        assert_eq!(opened(60, 61, 20), [], "too little");
        assert_eq!(opened(10, 61, 100), [], "it may have been so before");
    }

    #[test]
    fn memory_that_is_short_is_not_so_since_a_sleep_of_long_ago() {
        let mut monitor = Monitor::new(Settings::default()).unwrap();
        let mut incidents = Vec::new();
        // One short sleep in five minutes, and then half of the time for five seconds.
        let rare = (0..20u64).map(|index| (600 * index, 1_000_000));
        for (number, sleep_ns) in rare.chain((12_000..12_010).map(|number| (number, 250_000_000))) {
            for before in number.saturating_sub(150)..=number {
                let waits = window(before, &[1_000; 10]);
                monitor.observe(Signal::CgroupRunqueueWait, &name(1), &waits, &[]);
            }
            monitor.note_short((number >= 12_000).then_some(name(1)).into_iter().collect());
            let sleeps = window(number, &[sleep_ns]);
            let signal = Signal::UninterruptibleWait;
            incidents.extend(monitor.observe(signal, &name(1), &sleeps, &[]));
        }
        let [Change::Opened(incident)] = &incidents[..] else { panic!("{incidents:?}") };
        assert_eq!((incident.rule, incident.start_ns), (Rule::Memory, 6_000_000_000_000));
        assert_eq!((incident.disturbed_ns, incident.lost_seconds), (5_000_000_000, 2.5));
    }

    #[test]
    fn what_is_long_and_rare_loses_little_of_the_time_and_becomes_the_usual() {
        let mut monitor = Monitor::new(Settings::default()).unwrap();
        // One window of thirty has an event; from the 150th on, it takes 20 times as long. One event of ten is much longer.
        let delay_ns = |number: u64| {
            let usual_ns = if number < 150 { 100_000 } else { 2_000_000 };
            usual_ns * (9 + number % 2 * 2) * if number % 10 == 9 { 5 } else { 1 }
        };
        for number in 0..250 {
            let window = window(30 * number, &[delay_ns(number)]);
            assert_eq!(monitor.observe(SIGNAL, &name(0), &window, &[]), []);
            assert_eq!(monitor.settle(window.end_ns), []);
        }
        // All is learnt but for the latest thirty.
        let mean_ns = (0..220).map(delay_ns).sum::<u64>() as f64 / 220.0;
        let baseline = monitor.baseline(SIGNAL, &name(0)).unwrap();
        assert!((baseline.mean_ns() - mean_ns).abs() < 1.0, "{}", baseline.mean_ns());
    }

    #[test]
    fn it_is_calm_after_the_warm_up_until_a_subject_loses_the_least_that_is_an_incident() {
        let settings = Settings {
            warmup_windows: 5,
            recent_windows: 4,
            closing_windows: 3,
            ..Settings::default()
        };
        let mut monitor: Monitor = Monitor::new(settings).unwrap();
        let mut at = 0;
        let mut advance = |monitor: &mut Monitor, lost_ns: u64| {
            let window = window(at, &[lost_ns]);
            at += 1;
            monitor.observe(SIGNAL, &name(1), &window, &[]);
            monitor.settle(window.end_ns);
            monitor.is_calm()
        };
        // 10 ms in a second, in windows of half a second.
        let (less, enough) = (4_999_999, 5_000_000);
        let calm: Vec<bool> = (0..10).map(|_| advance(&mut monitor, less)).collect();
        assert_eq!(calm.iter().filter(|calm| !**calm).count(), 8);
        assert!(calm.is_sorted());
        let calm: Vec<bool> =
            [enough, less, less, less].map(|lost_ns| advance(&mut monitor, lost_ns)).into();
        assert_eq!(calm, [false, false, true, true]);
        let restless = Settings { minimum_lost: 0.0, warmup_windows: 2, ..Settings::default() };
        let mut monitor: Monitor = Monitor::new(restless).unwrap();
        assert!(!(0..200).any(|_| advance(&mut monitor, 1)));
    }

    #[test]
    fn nothing_opens_while_it_is_calm() {
        let mut monitor = monitor(1);
        let mut opened = 0;
        for number in 0..2000u64 {
            // Every now and then, three seconds with longer waits.
            let is_disturbed = number % 400 > 393;
            let lost_ns = if is_disturbed { 20_000_000 } else { 100_000 + number % 7 * 10_000 };
            let was_calm = monitor.is_calm();
            let window = window(number, &[lost_ns]);
            let changes = monitor.observe(SIGNAL, &name(1), &window, &[]);
            monitor.settle(window.end_ns);
            if changes.iter().any(|change| matches!(change, Change::Opened(_))) {
                opened += 1;
                assert!(!was_calm, "window {number}");
            }
            assert!(!monitor.is_calm() || monitor.active().next().is_none(), "window {number}");
        }
        assert!(opened > 0 && !monitor.is_calm());
    }

    #[test]
    fn what_cannot_be_or_has_no_room_is_not_recalled() {
        let mut earlier = monitor(3);
        for subject in 1..=3 {
            for number in 0..50 {
                earlier.observe(SIGNAL, &name(subject), &window(number, &[1000 * number]), &[]);
            }
        }
        let wrong = |memory: &Memory| -> Memory {
            let text = serde_json::to_string(memory).unwrap();
            serde_json::from_str(&text.replace("\"mean_ns\":", "\"mean_ns\":-")).unwrap()
        };
        let memories: Vec<_> = earlier.memories().collect();
        let mut later = monitor(2);
        // As an older noised wrote it, whose windows of what is taken had one event each.
        let older = |signal: &str| -> Memory {
            let mut text = serde_json::to_value(&memories[0]).unwrap();
            text.as_object_mut().unwrap().remove("charges").unwrap();
            text["signal"] = signal.into();
            serde_json::from_value(text).unwrap()
        };
        later.recall(older("interruption"));
        assert_eq!(later.subjects(), 0);
        let mut another = later.clone();
        another.recall(older("runqueue_wait"));
        assert_eq!(another.subjects(), 1);
        later.recall(wrong(&memories[0]));
        assert_eq!(later.subjects(), 0);
        memories.iter().for_each(|memory| later.recall(memory.clone()));
        assert_eq!(later.memories().collect::<Vec<_>>(), memories[..2]);
    }
}
