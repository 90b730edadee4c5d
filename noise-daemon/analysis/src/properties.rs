//! Tests of the whole analysis on streams of windows, and what other tests make windows with.

use noise_common::signals::Signal;
use noise_model::Histogram;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::test_runner::Config;

use super::culprits::Charge;
use super::track::{ADOPT_NS, FORGET_NS};
use super::window::Window;
use super::{Change, Ending, Incident, Memory, Monitor, Name, Rule, Settings, UnanalysedCounts};
use crate::chance::same_draws;
use noise_common::charge::Cause;

pub const LENGTH_NS: u64 = 500_000_000;
const SIGNAL: Signal = Signal::RunqueueWait;

/// The window of the default length with that number and those delays.
pub fn window(number: u64, delays_ns: &[u64]) -> Window {
    let delays = Histogram::of(delays_ns);
    Window { start_ns: number * LENGTH_NS, end_ns: (number + 1) * LENGTH_NS, delays }
}

/// A small generator (Steele's splitmix64), so that long streams need no stored randomness.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// In (0, 1].
    fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// A window of exponentially distributed delays: as skewed as waits are.
    fn window(&mut self, number: u64, mean_ns: f64, events: usize) -> Window {
        let delays: Vec<u64> =
            (0..events).map(|_| (-self.uniform().ln() * mean_ns) as u64 + 1).collect();
        window(number, &delays)
    }
}

/// A subject or culprit of that number.
pub fn name(number: u64) -> Name {
    number.to_string().into()
}

type Changes = Vec<Change>;

fn monitor(settings: Settings) -> Monitor {
    Monitor::new(settings).unwrap()
}

/// No size is too small, so that the rules alone decide.
fn any_size() -> Settings {
    Settings { minimum_lost: 0.0, ..Settings::default() }
}

fn closed(changes: Changes) -> Vec<Incident> {
    changes
        .into_iter()
        .filter_map(|change| match change {
            Change::Closed(incident) => Some(incident),
            Change::Opened(_) => None,
        })
        .collect()
}

/// Feeds windows whose delays are all `mean_ns(number)` ± 10 %, ten in a window.
fn feed(
    monitor: &mut Monitor,
    numbers: std::ops::Range<u64>,
    mean_ns: impl Fn(u64) -> u64,
) -> Changes {
    numbers
        .flat_map(|number| {
            let mean = mean_ns(number);
            let mean = if number % 2 == 0 { mean * 9 / 10 } else { mean * 11 / 10 };
            monitor.observe(SIGNAL, &name(0), &window(number, &[mean; 10]), &[])
        })
        .collect()
}

const USUAL_NS: u64 = 100_000;
const SLOW_NS: u64 = 10_000_000;
/// Warm-up and the latest windows are behind.
const WARM: u64 = 200;

#[test]
fn a_step_opens_and_closes_one_incident() {
    let mut monitor = monitor(Settings::default());
    let step = |number| if (WARM..WARM + 40).contains(&number) { SLOW_NS } else { USUAL_NS };
    let changes = feed(&mut monitor, 0..WARM + 100, step);
    assert_eq!(changes.len(), 2, "{changes:?}");
    assert!(matches!(&changes[0], Change::Opened(incident) if incident.ending.is_none()));
    let incident = &closed(changes)[0];
    assert_eq!((incident.start_ns, incident.end_ns), (WARM * LENGTH_NS, (WARM + 40) * LENGTH_NS));
    assert_eq!((incident.ending, incident.rule), (Some(Ending::Over), Rule::Mean));
    assert_eq!((incident.before.rate, incident.after.rate), (20.0, 20.0));
    assert!(incident.before.p99_ns < incident.after.p50_ns);
    assert!((incident.lost_seconds - 400.0 * 0.0099).abs() < 1e-3, "{}", incident.lost_seconds);
    assert_eq!(incident.untracked.share, 1.0);
    assert_eq!(monitor.active().count(), 0);
    // The disturbed windows have taught nothing.
    let baseline = monitor.baseline(SIGNAL, &name(0)).unwrap();
    assert!((baseline.mean_ns() / USUAL_NS as f64 - 1.0).abs() < 0.01, "{}", baseline.mean_ns());
}

#[test]
fn nanoseconds_never_open_an_incident() {
    let mut small = monitor(Settings::default());
    let step = |number| if number >= WARM { 40_000 } else { 400 };
    assert!(feed(&mut small, 0..WARM + 200, step).is_empty());
    let mut all = monitor(any_size());
    assert!(!feed(&mut all, 0..WARM + 200, step).is_empty());
}

#[test]
fn one_spike_is_no_incident_and_two_are() {
    for (spikes, expected) in [(1, 0), (2, 1)] {
        let mut monitor = monitor(Settings::default());
        let step =
            |number| if (WARM..WARM + spikes).contains(&number) { 1 << 30 } else { USUAL_NS };
        let incidents = closed(feed(&mut monitor, 0..WARM + 100, step));
        assert_eq!(incidents.len(), expected);
        for incident in incidents {
            assert_eq!(incident.start_ns, WARM * LENGTH_NS);
            assert_eq!(incident.end_ns, (WARM + 2) * LENGTH_NS);
        }
    }
}

#[test]
fn nothing_opens_during_the_warm_up() {
    let mut monitor = monitor(Settings::default());
    assert!(
        feed(&mut monitor, 0..149, |number| if number > 60 { SLOW_NS } else { USUAL_NS })
            .is_empty()
    );
}

#[test]
fn short_calm_does_not_close_an_incident() {
    let mut monitor = monitor(Settings::default());
    let step = |number| match number {
        WARM..240 if number % 8 < 5 => SLOW_NS,
        _ => USUAL_NS,
    };
    assert_eq!(closed(feed(&mut monitor, 0..300, step)).len(), 1);
}

#[test]
fn a_change_becomes_the_baseline_after_hours_and_says_since_when_it_is_so() {
    let mut monitor = monitor(Settings::default());
    let step = |number| if number >= WARM { SLOW_NS } else { USUAL_NS };
    let last = WARM + ADOPT_NS / LENGTH_NS;
    let usual = |monitor: &Monitor| {
        let baseline = monitor.baseline(SIGNAL, &name(0)).unwrap();
        (baseline.mean_ns().round(), baseline.adopted_since_ns())
    };
    // While it is open, none of it is learnt.
    assert!(closed(feed(&mut monitor, 0..last - 1, step)).is_empty());
    assert_eq!(usual(&monitor), (USUAL_NS as f64, None));
    let incidents = closed(feed(&mut monitor, last - 1..last, step));
    assert_eq!((incidents.len(), incidents[0].ending), (1, Some(Ending::Adopted)));
    assert_eq!(incidents[0].end_ns - incidents[0].start_ns, ADOPT_NS);
    assert!((usual(&monitor).0 / 1e7 - 1.0).abs() < 0.05);
    // From there on it is what others are held against.
    let worse = |number| if (last..last + 20).contains(&number) { 3 * SLOW_NS } else { SLOW_NS };
    assert_eq!(closed(feed(&mut monitor, last..last + 100, worse)).len(), 1);
    assert_eq!(usual(&monitor).1, Some(WARM * LENGTH_NS));
    // Once it is over, it is so no longer.
    feed(&mut monitor, last + 100..last + 20_000, |_| USUAL_NS);
    assert_eq!(usual(&monitor).1, None);
}

#[test]
fn silence_ends_an_incident_and_is_no_delay() {
    let step = |number| if number >= WARM { SLOW_NS } else { USUAL_NS };
    let mut given = monitor(Settings::default());
    feed(&mut given, 0..WARM + 20, step);
    let mut skipped = given.clone();
    let mut settled = given.clone();
    let mut incidents = Vec::new();
    for number in WARM + 20..WARM + 60 {
        incidents.extend(closed(given.observe(SIGNAL, &name(0), &window(number, &[]), &[])));
    }
    assert_eq!(incidents.len(), 1);
    assert_eq!(incidents[0].end_ns, (WARM + 20) * LENGTH_NS);
    // Windows without events may be left out, and nothing but time need pass.
    let late = window(WARM + 60, &[USUAL_NS]);
    assert_eq!(closed(skipped.observe(SIGNAL, &name(0), &late, &[])), incidents);
    assert!(settled.settle((WARM + 21) * LENGTH_NS).is_empty());
    assert_eq!(closed(settled.settle((WARM + 60) * LENGTH_NS)), incidents);
    assert_eq!(settled.subjects(), 1);
    assert!(closed(settled.observe(SIGNAL, &name(0), &late, &[])).is_empty());
}

#[test]
fn silence_that_ends_an_incident_counts_for_the_rate_once() {
    let mut given = monitor(Settings::default());
    feed(&mut given, 0..WARM + 20, |number| if number >= WARM { SLOW_NS } else { USUAL_NS });
    let (mut left_out, mut settled) = (given.clone(), given.clone());
    for number in WARM + 20..WARM + 60 {
        given.observe(SIGNAL, &name(0), &window(number, &[]), &[]);
        settled.settle((number + 1) * LENGTH_NS);
    }
    for monitor in [&mut given, &mut left_out, &mut settled] {
        feed(monitor, WARM + 60..WARM + 100, |_| USUAL_NS);
        let level = monitor.baseline(SIGNAL, &name(0)).unwrap().level();
        // Ten events in each window, but for forty that were silent; those of the incident and the
        // latest thirty are not learnt.
        let learnt = (WARM + 10) as f64;
        assert_eq!(level.rate, learnt * 10.0 / ((learnt + 40.0) * 0.5));
    }
}

#[test]
fn clocks_and_counters_that_go_back_open_nothing() {
    let mut monitor = monitor(any_size());
    feed(&mut monitor, 0..WARM, |_| USUAL_NS);
    let learnt = monitor.baseline(SIGNAL, &name(0)).unwrap().learnt();
    assert!(feed(&mut monitor, 100..150, |_| SLOW_NS).is_empty());
    let mut reset = window(WARM, &[]);
    reset.delays.sum_ns = u64::MAX;
    assert!(monitor.observe(SIGNAL, &name(0), &reset, &[]).is_empty());
    assert_eq!(monitor.counts().implausible, 51);
    assert_eq!(monitor.baseline(SIGNAL, &name(0)).unwrap().learnt(), learnt);
}

#[test]
fn a_clock_that_went_far_back_begins_anew() {
    let mut monitor = monitor(Settings::default());
    let offset = 10_000;
    let step = |number| if number >= offset + WARM { SLOW_NS } else { USUAL_NS };
    let changes = feed(&mut monitor, offset..offset + WARM + 20, step);
    assert_eq!(changes.len(), 1);
    let incidents = closed(feed(&mut monitor, 0..1, |_| USUAL_NS));
    assert_eq!(incidents[0].ending, Some(Ending::Vanished));
    assert_eq!(monitor.baseline(SIGNAL, &name(0)).unwrap().learnt(), 0);
}

#[test]
fn who_is_gone_is_forgotten() {
    let mut monitor = monitor(Settings::default());
    let step = |number| if number >= WARM { SLOW_NS } else { USUAL_NS };
    feed(&mut monitor, 0..WARM + 20, step);
    let end_ns = (WARM + 20) * LENGTH_NS;
    let silent = closed(monitor.settle(end_ns + 599_999_999_999));
    assert_eq!((silent.len(), silent[0].ending, silent[0].end_ns), (1, Some(Ending::Over), end_ns));
    assert_eq!(monitor.subjects(), 1);
    assert!(monitor.settle(end_ns + 600_000_000_000).is_empty());
    assert_eq!((monitor.subjects(), monitor.counts().forgotten), (0, 1));
}

#[test]
fn culprits_are_those_of_the_disturbed_windows() {
    let mut monitor = monitor(Settings::default());
    let mut incidents = Vec::new();
    for number in 0..WARM + 60 {
        let slow = (WARM..WARM + 20).contains(&number);
        let charges = if slow {
            vec![
                Charge { culprit: name(7), cause: Cause::Foreign, charged_ns: 60_000_000 },
                Charge { culprit: name(8), cause: Cause::Hardirq, charged_ns: 30_000_000 },
            ]
        } else {
            vec![Charge { culprit: name(9), cause: Cause::Own, charged_ns: 1_000_000 }]
        };
        let jitter = number % 2 * 1000;
        let delay = if slow { SLOW_NS } else { USUAL_NS + jitter };
        let changes = monitor.observe(SIGNAL, &name(0), &window(number, &[delay; 10]), &charges);
        incidents.extend(closed(changes));
    }
    let [incident] = incidents.as_slice() else { panic!("{incidents:?}") };
    let ranked: Vec<_> = incident.culprits.iter().map(|who| (&*who.culprit, who.cause)).collect();
    assert_eq!(ranked, [("7", Cause::Foreign), ("8", Cause::Hardirq)]);
    assert!((incident.culprits[0].time.seconds - 1.2).abs() < 1e-9);
    assert!((incident.culprits[0].time.share - 0.6).abs() < 1e-9);
    assert!((incident.untracked.share - 0.1).abs() < 1e-9);
    assert_eq!(incident.remedies.first(), Some(&super::Remedy::CpuWeight));
}

#[test]
fn the_cheapest_subject_gives_way_but_none_with_an_incident() {
    let mut monitor = monitor(Settings { subjects: 2, ..Settings::default() });
    monitor.observe(SIGNAL, &name(1), &window(0, &[1000]), &[]);
    monitor.observe(SIGNAL, &name(2), &window(0, &[9000]), &[]);
    monitor.observe(SIGNAL, &name(3), &window(0, &[150]), &[]);
    assert_eq!((monitor.subjects(), monitor.counts().no_room), (2, 1));
    monitor.observe(SIGNAL, &name(4), &window(0, &[5000]), &[]);
    assert_eq!((monitor.subjects(), monitor.counts().displaced), (2, 1));
    assert!(monitor.baseline(SIGNAL, &name(1)).is_none());
    assert!(monitor.baseline(SIGNAL, &name(2)).is_some());

    let mut full = self::monitor(Settings { subjects: 1, ..Settings::default() });
    feed(&mut full, 0..WARM + 20, |number| if number >= WARM { SLOW_NS } else { USUAL_NS });
    assert_eq!(full.active().count(), 1);
    full.observe(SIGNAL, &name(9), &window(WARM + 20, &[1 << 35]), &[]);
    assert_eq!((full.active().count(), full.counts().no_room), (1, 1));
}

#[test]
fn fewer_subjects_keep_the_most_expensive_and_those_with_an_incident() {
    let mut monitor = monitor(Settings { subjects: 4, ..Settings::default() });
    feed(&mut monitor, 0..WARM + 20, |number| if number >= WARM { SLOW_NS } else { USUAL_NS });
    assert_eq!(monitor.active().count(), 1);
    let at = WARM + 20;
    for (subject, delay) in [(7, 1 << 35), (8, 1 << 20), (9, 1 << 36)] {
        monitor.observe(SIGNAL, &name(subject), &window(at, &[delay]), &[]);
    }
    monitor.set(Settings { subjects: 2, ..Settings::default() });
    monitor.settle((at + 1) * LENGTH_NS);
    assert_eq!((monitor.subjects(), monitor.active().count()), (2, 1));
    assert!(monitor.baseline(SIGNAL, &name(9)).is_some());
    assert_eq!(monitor.counts().displaced, 2);
}

#[test]
fn few_subjects_give_way_between_two_settlements() {
    let mut monitor = monitor(Settings { subjects: 1, ..Settings::default() });
    for subject in 0..100 {
        monitor.observe(SIGNAL, &name(subject), &window(0, &[1 << (subject / 3)]), &[]);
    }
    let counts = monitor.counts();
    assert!(counts.displaced <= 16, "{counts:?}");
    assert_eq!(counts.displaced + counts.no_room, 99);
    monitor.settle(LENGTH_NS);
    monitor.observe(SIGNAL, &name(100), &window(1, &[1 << 40]), &[]);
    assert!(monitor.baseline(SIGNAL, &name(100)).is_some());
}

/// Half an hour of forty subjects with 3 to 42 events in a window, every size allowed.
#[test]
fn false_alarms_on_independent_windows_stay_within_their_allowance() {
    let (subjects, windows) = (40, 3600);
    let mut opened = 0;
    for seed in 0..subjects {
        let mut random = SplitMix64(seed);
        let mut monitor = monitor(any_size());
        let events = 3 + seed as usize;
        for number in 0..windows {
            let window = random.window(number, 50_000.0, events);
            opened += closed(monitor.observe(SIGNAL, &name(0), &window, &[])).len();
        }
        opened += monitor.active().count();
    }
    // 1e-6 for each of 144 000 windows allows for 0.14; three have a chance of 4e-4.
    assert!(opened < 3, "{opened}");
}

fn streams() -> impl Strategy<Value = (u64, f64, usize)> {
    (any::<u64>(), 5_000.0..5e6f64, 3usize..40)
}

/// By how many windows the incidents of a stream begin and end later than a step in it that is
/// `disturbed` windows long.
fn late(
    (seed, mean_ns, events): (u64, f64, usize),
    calm: u64,
    disturbed: u64,
) -> (Vec<(i64, i64)>, usize) {
    let mut random = SplitMix64(seed);
    let mut monitor = monitor(any_size());
    let mut incidents = Vec::new();
    for number in 0..calm + disturbed + 100 {
        let slow = (calm..calm + disturbed).contains(&number);
        let factor = if slow { 8.0 } else { 1.0 };
        let window = random.window(number, factor * mean_ns, events);
        incidents.extend(closed(monitor.observe(SIGNAL, &name(0), &window, &[])));
    }
    let windows = |at_ns: u64, number: u64| (at_ns / LENGTH_NS) as i64 - number as i64;
    let late = |incident: &Incident| {
        (windows(incident.start_ns, calm), windows(incident.end_ns, calm + disturbed))
    };
    (incidents.iter().map(late).collect(), monitor.active().count())
}

#[test]
fn nearly_all_steps_are_seen_at_their_time() {
    let mut random = SplitMix64(1);
    let (mut exact, mut far) = (0, 0);
    let streams = 300;
    for _ in 0..streams {
        let stream =
            (random.next(), 5_000.0 + random.uniform() * 5e6, 3 + random.next() as usize % 37);
        let (calm, disturbed) = (250 + random.next() % 150, 20 + random.next() % 180);
        let (incidents, open) = late(stream, calm, disturbed);
        let [(start, end)] = incidents.as_slice() else { panic!("{stream:?}: {incidents:?}") };
        assert_eq!(open, 0, "{stream:?}");
        exact += usize::from((*start, *end) == (0, 0));
        far += usize::from(start.abs().max(end.abs()) > 6);
    }
    // Of 36 000 such streams, 92 % were exact and one in 900 was more than six windows off.
    assert!(exact >= streams * 85 / 100 && far <= streams / 100, "{exact} exact, {far} far off");
}

proptest! {
    #![proptest_config(same_draws(24))]

    #[test]
    fn a_stationary_stream_has_no_incident((seed, mean_ns, events) in streams()) {
        let mut random = SplitMix64(seed);
        let mut monitor = monitor(Settings::default());
        for number in 0..800 {
            let window = random.window(number, mean_ns, events);
            prop_assert!(monitor.observe(SIGNAL, &name(0), &window, &[]).is_empty());
        }
    }

    #[test]
    fn a_step_is_one_incident_wherever_it_is(
        stream in streams(),
        calm in 250u64..400,
        disturbed in 20u64..200,
    ) {
        let (incidents, open) = late(stream, calm, disturbed);
        prop_assert_eq!((incidents.len(), open), (1, 0));
        let (start, end) = incidents[0];
        // Usually both are exact. But calm windows keep an incident open while their mean happens
        // to be above its threshold, and with few events a begin is blurred: the chance to be off
        // by more than so many windows falls by about a quarter with each. Of 18 000 streams, 23
        // were off by more than six and none by more than ten.
        prop_assert!(start.abs() <= 30 && end.abs() <= 30, "{:?}", incidents);
    }

    #[test]
    fn the_answer_does_not_depend_on_how_windows_arrive(
        seed in any::<u64>(),
        chunk in 1u64..400,
        skip_empty in any::<bool>(),
    ) {
        let stream = |subject: u64| {
            let mut random = SplitMix64(seed ^ subject);
            (0..400).map(move |number| {
                let slow = number > 250 && number < 300 + 20 * subject;
                let events = if random.next().is_multiple_of(4) { 0 } else { 10 };
                random.window(number, if slow { 5e6 } else { 1e5 }, events)
            }).collect::<Vec<_>>()
        };
        let streams = [stream(0), stream(1), stream(2)];
        let run = |chunk: u64, skip_empty: bool| {
            let mut monitor = monitor(Settings::default());
            let mut changes = Vec::new();
            for first in (0..400).step_by(chunk as usize) {
                for (subject, stream) in (0..).zip(&streams) {
                    let windows = stream.iter().skip(first).take(chunk as usize);
                    for window in windows {
                        if !skip_empty || window.delays.sum_ns > 0 {
                            changes.extend(monitor.observe(SIGNAL, &name(subject), window, &[]));
                        }
                    }
                }
            }
            changes.extend(monitor.settle(1_000 * LENGTH_NS));
            let mut incidents = closed(changes);
            incidents.sort_by_key(|incident| (Name::clone(&incident.subject), incident.start_ns));
            incidents
        };
        let expected = run(1, false);
        prop_assert!(expected.len() >= 3);
        prop_assert_eq!(run(chunk, skip_empty), expected);
    }

    #[test]
    fn what_is_kept_is_bounded_and_nothing_panics(
        windows in proptest::collection::vec(
            (0u64..50, any::<u64>(), any::<u64>(), any::<u64>(), 0usize..114, any::<u64>()),
            0..600,
        ),
        plain in any::<bool>(),
    ) {
        let settings = Settings {
            subjects: 5,
            warmup_windows: 2,
            recent_windows: 4,
            closing_windows: 2,
            minimum_lost: 0.0,
            ..Settings::default()
        };
        let mut monitor = monitor(settings);
        for (number, (subject, start, length, count, bucket, sum)) in (0..).zip(windows) {
            let window = if plain {
                window(number, &[1 + (sum >> 36); 3])
            } else {
                let delays = Histogram::new(sum, [(bucket, count)]);
                Window { start_ns: start, end_ns: start.saturating_add(length), delays }
            };
            let charges = [
                Charge { culprit: name(start % 256), cause: Cause::Foreign, charged_ns: sum },
                Charge { culprit: name(length % 256), cause: Cause::Own, charged_ns: count },
            ];
            let subject = if plain { 0 } else { subject };
            monitor.observe(SIGNAL, &name(subject), &window, &charges);
            if number % 50 == 0 {
                monitor.settle(start);
            }
            prop_assert!(monitor.subjects() <= 5);
            prop_assert!(monitor.active().all(|incident| incident.culprits.len() <= 32));
        }
    }
}

/// How time without events is given.
#[derive(Clone, Copy, Debug)]
struct Silence {
    /// Windows that each one without events is given as; 0 leaves it out.
    pieces: u64,
    /// Whether it is said at the end of each window that all before have been observed.
    settle: bool,
}

/// Everything that a monitor reports of windows, in order, and what it keeps.
type MonitorOutput = (Changes, Vec<Incident>, Vec<Memory>, UnanalysedCounts);

fn answer(windows: &[Window], silence: Silence, settings: &Settings) -> MonitorOutput {
    let mut monitor = monitor(settings.clone());
    let mut changes = Vec::new();
    for window in windows {
        let turn = 3 + u64::from((window.start_ns / (25 * LENGTH_NS)).is_multiple_of(2));
        let charges = [
            Charge { culprit: name(1), cause: Cause::Own, charged_ns: window.delays.sum_ns / 3 },
            Charge {
                culprit: name(2),
                cause: Cause::Foreign,
                charged_ns: window.delays.sum_ns / 50,
            },
            // Two that take over from each other.
            Charge {
                culprit: name(turn),
                cause: Cause::Foreign,
                charged_ns: window.delays.sum_ns / 2,
            },
        ];
        if !window.is_empty() {
            changes.extend(monitor.observe(SIGNAL, &name(0), window, &charges));
        }
        let length_ns = window.end_ns - window.start_ns;
        for piece in 0..if window.is_empty() { silence.pieces } else { 0 } {
            let at_ns = |piece| window.start_ns + length_ns * piece / silence.pieces;
            let window =
                Window { start_ns: at_ns(piece), end_ns: at_ns(piece + 1), ..window.clone() };
            changes.extend(monitor.observe(SIGNAL, &name(0), &window, &[]));
        }
        if silence.settle {
            changes.extend(monitor.settle(window.end_ns));
        }
    }
    changes.extend(monitor.settle(windows.last().map_or(0, |window| window.end_ns)));
    (changes, monitor.active().collect(), monitor.memories().collect(), monitor.counts())
}

proptest! {
    #![proptest_config(Config { cases: 64, ..Config::default() })]

    #[test]
    fn silence_is_the_same_however_it_is_reported(
        seed in any::<u64>(),
        parts in proptest::collection::vec((0u8..5, 1u64..70), 1..30),
        pieces in 0u64..5,
        settle in any::<bool>(),
        gone_after in 2u64..50,
        learnt in prop_oneof![3 => Just(40), 1 => Just(1_790)],
    ) {
        // A threshold so low, and windows so long, that all that may happen does: subjects are gone, incidents
        // adopted, and what was learnt is halved.
        let settings = Settings {
            minimum_lost: 0.0,
            recent_windows: 8,
            closing_windows: 5,
            warmup_windows: 20,
            ..Settings::default()
        };
        let mut random = SplitMix64(seed);
        let mut windows: Vec<Window> = Vec::new();
        for (kind, length) in std::iter::once((0, learnt)).chain(parts) {
            for _ in 0..length {
                let (mean_ns, events) = match kind {
                    0 => (1e5, 5),
                    1 => (1e6, 5),
                    2 => (1e6, random.next() % 3),
                    3 => (1e5, random.next() % 3),
                    _ => (1e5, 0),
                };
                let start_ns = windows.last().map_or(0, |window| window.end_ns);
                let end_ns = start_ns + FORGET_NS / gone_after * (90 + random.next() % 21) / 100;
                let window = random.window(0, mean_ns, events as usize);
                windows.push(Window { start_ns, end_ns, ..window });
            }
        }
        let given = answer(&windows, Silence { pieces: 1, settle: false }, &settings);
        prop_assert_eq!(answer(&windows, Silence { pieces, settle }, &settings), given);
    }
}
