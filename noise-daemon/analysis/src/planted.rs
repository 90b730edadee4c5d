//! Tests of the whole way from samples to reports: hosts that are quiet, and planted disturbances.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use noise_common::charge::{Cause, Charged, Resource};
use noise_common::hist::bucket_of;
use noise_common::signals::Signal;
use noise_model::{Histogram, Interference, Label, OutlierRecord, Sample, Series, Step};
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

use super::{Board, Clock, GroupChange, Name, Report, Settings, Watched};
use crate::chance::same_draws;

const WINDOW_NS: u64 = 500_000_000;
/// Warm-up and the latest windows are behind.
pub(super) const WARM: u64 = 200;

type PlantedChargeKey = (Resource, Cause, Name, Name, Name);

/// A host whose totals grow, sampled once per window.
#[derive(Default)]
pub(super) struct PlantedHost {
    at_ns: u64,
    series: BTreeMap<Label, Histogram>,
    charged: BTreeMap<PlantedChargeKey, Charged>,
    /// What interrupts took from each CPU.
    interrupted: BTreeMap<u32, u64>,
    /// What is not measured any more.
    pub absent: Vec<Signal>,
}

impl PlantedHost {
    pub fn delay(&mut self, signal: Signal, labels: &[&str], values_ns: &[u64]) {
        let labels = labels.iter().map(ToString::to_string).collect();
        let totals = self.series.entry((signal, labels)).or_default();
        for value in values_ns {
            totals.record(*value, 1);
        }
    }

    pub fn charge(
        &mut self,
        resource: Resource,
        at: [&str; 2],
        culprit: &str,
        cause: Cause,
        ns: u64,
    ) {
        let [place, victim] = at;
        let key = (resource, cause, place.into(), victim.into(), culprit.into());
        let charged = self.charged.entry(key).or_default();
        charged.ns += ns;
        charged.count += 1;
    }

    /// Ten waits of a cgroup for a CPU, all of one culprit's making.
    pub fn wait(&mut self, victim: &str, culprit: &str, cause: Cause, mean_ns: u64) {
        self.delay(Signal::CgroupRunqueueWait, &[victim], &[mean_ns; 10]);
        self.charge(Resource::Cpu, ["", victim], culprit, cause, 10 * mean_ns);
    }

    /// Time taken from a cgroup that runs on one CPU.
    pub fn take(&mut self, cpu: u32, victim: &str, culprit: &str, cause: Cause, ns: u64) {
        self.charge(Resource::Running, ["", victim], culprit, cause, ns);
        *self.interrupted.entry(cpu).or_default() += ns;
    }

    pub fn sample(&mut self) -> Arc<Sample> {
        self.at_ns += WINDOW_NS;
        let series = self.series.iter().map(|((signal, labels), totals)| Series {
            signal: *signal,
            labels: labels.clone(),
            totals: totals.clone(),
            recent_max_ns: 0,
        });
        let interference =
            self.charged.iter().map(|((resource, cause, place, victim, by), charged)| {
                Interference {
                    resource: *resource,
                    cause: *cause,
                    place: Arc::clone(place),
                    victim: Arc::clone(victim),
                    culprit: Arc::clone(by),
                    charged: *charged,
                }
            });
        Arc::new(Sample {
            at_ns: self.at_ns,
            series: series.collect(),
            interference: interference.collect(),
            interrupted: self
                .interrupted
                .iter()
                .map(|(cpu, ns)| (*cpu, "hardirq".into(), *ns))
                .collect(),
            absent: self.absent.iter().map(|signal| (*signal, "off".to_owned())).collect(),
            ..Sample::default()
        })
    }
}

pub(super) fn clock(sample: &Sample) -> Clock {
    let now = Timestamp::from_nanosecond(i128::from(sample.at_ns)).unwrap();
    Clock { at_ns: sample.at_ns, suspended_ns: 0, now }
}

pub(super) fn board() -> Board {
    Board::new(Settings::default()).unwrap()
}

/// Lets a host live through some windows; `act` says what happens in each.
pub(super) fn live(
    board: &mut Board,
    host: &mut PlantedHost,
    windows: std::ops::Range<u64>,
    mut act: impl FnMut(&mut PlantedHost, u64),
) -> Vec<GroupChange> {
    windows
        .flat_map(|number| {
            act(host, number);
            let sample = host.sample();
            board.analyse(&sample, &Step::default(), clock(&sample))
        })
        .collect()
}

/// What came of a host with a disturbance in `WARM..WARM + 30` of `WARM + 80` windows.
pub(super) fn planted(act: impl FnMut(&mut PlantedHost, u64)) -> (Board, Vec<GroupChange>) {
    let (mut board, mut host) = (board(), PlantedHost::default());
    let events = live(&mut board, &mut host, 0..WARM + 80, act);
    (board, events)
}

pub(super) fn is_planted(number: u64) -> bool {
    (WARM..WARM + 30).contains(&number)
}

/// A little to either side, so that there is a deviation.
pub(super) fn around(mean_ns: u64, number: u64) -> u64 {
    if number.is_multiple_of(2) { mean_ns * 9 / 10 } else { mean_ns * 11 / 10 }
}

pub(super) fn closed(events: &[GroupChange]) -> Vec<&Report> {
    let closed = events.iter().filter_map(|event| match event {
        GroupChange::Closed(report) => Some(&**report),
        _ => None,
    });
    closed.collect()
}

#[test]
fn a_planted_hog_is_one_incident_that_names_it() {
    let (mut board, events) = planted(|host, number| {
        if is_planted(number) {
            // Three victims, a hog that waits for them in turn, and the host's own sums.
            for victim in ["/a", "/b", "/c"] {
                host.wait(victim, "/hog", Cause::Foreign, around(8_000_000, number));
            }
            host.wait("/hog", "/a", Cause::Foreign, around(6_000_000, number));
            host.delay(Signal::RunqueueWait, &["preempt"], &[8_000_000; 40]);
        } else {
            for victim in ["/a", "/b", "/c", "/hog"] {
                host.wait(victim, "/", Cause::Foreign, around(50_000, number));
            }
            host.delay(Signal::RunqueueWait, &["preempt"], &[around(50_000, number); 40]);
        }
    });
    let opened = events.iter().filter(|event| matches!(event, GroupChange::Opened(_))).count();
    assert_eq!(opened, 1, "{events:#?}");
    let [report] = closed(&events)[..] else { panic!("{events:#?}") };
    let first = &report.main.culprits[0];
    assert_eq!((&*first.culprit, first.cause), ("/hog", Cause::Foreign));
    assert!((first.time.share - 1.0).abs() < 1e-9, "{report:#?}");
    // The very first charge of the hog is there as well.
    assert!((first.time.seconds - 30.0 * 0.08).abs() < 0.01, "{}", first.time.seconds);
    assert_eq!(report.main.before.rate, 20.0);
    let mut touched: Vec<_> =
        report.also.iter().map(|episode| (episode.signal, &*episode.subject)).collect();
    touched.sort_unstable();
    let cpu = Watched::Signal(Signal::CgroupRunqueueWait);
    assert_eq!(touched, [(cpu, "/b"), (cpu, "/c"), (cpu, "/hog")]);
    assert_eq!(
        report.main.start,
        clock(&Sample { at_ns: WARM * WINDOW_NS, ..Sample::default() }).now
    );
    let overview = board.overview(clock(&Sample::default()));
    assert_eq!(overview.incidents.len(), 1);
    assert_eq!(overview.active, []);
    let open: Vec<_> = overview.opened.iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(open, [&(cpu, 1)]);
    assert!(overview.opened.len() > 5, "signals without incidents are listed as well");
}

#[test]
fn who_queues_behind_himself_because_of_another_belongs_to_that() {
    let act = |own_ns: u64| {
        move |host: &mut PlantedHost, number| {
            let mean_ns = around(if is_planted(number) { 8_000_000 } else { 50_000 }, number);
            host.wait("/a", "/hog", Cause::Foreign, mean_ns);
            host.wait("/", "/hog", Cause::Foreign, mean_ns / 10);
            host.delay(Signal::CgroupRunqueueWait, &["/"], &[own_ns * mean_ns / 50_000; 10]);
            host.charge(Resource::Cpu, ["", "/"], "/", Cause::Own, 10 * own_ns * mean_ns / 50_000);
        }
    };
    // 80 % of its delays are its own tasks'; half of the others are the hog's.
    let (_, events) = planted(act(20_000));
    assert_eq!(closed(&events).len(), 1, "{events:#?}");
    // Nearly all of them are: what the hog does is no more than a part of its trouble.
    let (_, events) = planted(act(2_000_000));
    assert_eq!(closed(&events).len(), 2, "{events:#?}");
}

#[test]
fn who_turns_out_to_have_the_same_cause_joins_late() {
    let (_, events) = planted(|host, number| {
        let mean_ns = around(if is_planted(number) { 8_000_000 } else { 50_000 }, number);
        host.wait("/a", "/hog", Cause::Foreign, mean_ns);
        if (WARM + 12..WARM + 30).contains(&number) {
            host.wait("/b", "/hog", Cause::Foreign, mean_ns);
        } else {
            // Five of whom none did a quarter.
            host.delay(Signal::CgroupRunqueueWait, &["/b"], &[mean_ns; 10]);
            for culprit in ["/1", "/2", "/3", "/4", "/5"] {
                host.charge(Resource::Cpu, ["", "/b"], culprit, Cause::Foreign, 2 * mean_ns);
            }
        }
    });
    let opened = events.iter().filter(|event| matches!(event, GroupChange::Opened(_))).count();
    let merged: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            GroupChange::Merged { id, into } => Some((*id, into.id, into.also.len())),
            _ => None,
        })
        .collect();
    assert_eq!((opened, &*merged), (2, &[(2, 1, 1)][..]));
    let [report] = closed(&events)[..] else { panic!("{events:#?}") };
    assert_eq!((report.id, report.also.len()), (1, 1));
}

#[test]
fn what_comes_back_shortly_after_is_the_same_incident() {
    for (rest, by, expected) in [(30, "/hog", 1), (60, "/hog", 2), (30, "/other", 2)] {
        let (mut board, mut host) = (board(), PlantedHost::default());
        let events = live(&mut board, &mut host, 0..WARM + 200, |host, number| {
            let again = WARM + 30 + rest..WARM + 60 + rest;
            let disturbed = is_planted(number) || again.contains(&number);
            let mean_ns = around(if disturbed { 8_000_000 } else { 50_000 }, number);
            let culprit = if again.contains(&number) { by } else { "/hog" };
            host.wait("/a", culprit, Cause::Foreign, mean_ns);
        });
        assert_eq!(closed(&events).len(), expected, "{rest} {by}: {events:#?}");
        assert_eq!(board.overview(clock(&Sample::default())).incidents.len(), expected);
    }
}

#[test]
fn an_interrupt_storm_is_one_incident_of_all_that_it_takes_from() {
    let (_, events) = planted(|host, number| {
        let storm = if is_planted(number) { 60 } else { 1 };
        for (cpu, victim) in [(0, "/a"), (0, "/b"), (1, "/c")] {
            let ns = around(2_000_000, number) * if cpu == 0 { storm } else { 1 };
            host.take(cpu, victim, "eth0-rx", Cause::Hardirq, ns);
            host.take(cpu, victim, "timer", Cause::Softirq, around(300_000, number));
        }
        // One of them waits for a CPU that the same storm takes.
        let mean_ns = if is_planted(number) { 8_000_000 } else { around(50_000, number) };
        host.wait("/a", "eth0-rx", Cause::Hardirq, mean_ns);
    });
    let [report] = closed(&events)[..] else { panic!("{events:#?}") };
    let mut touched: Vec<_> = report.also.iter().chain([&report.main]).collect();
    touched.sort_unstable_by_key(|episode| (episode.signal, Arc::clone(&episode.subject)));
    let of: Vec<_> = touched.iter().map(|one| (one.signal.name(), &*one.subject)).collect();
    let interruption = "interruption";
    assert_eq!(of, [("cgroup_runqueue_wait", "/a"), (interruption, "/a"), (interruption, "/b")]);
    for episode in &touched[1..] {
        assert_eq!(&*episode.culprits[0].culprit, "eth0-rx");
        assert!((episode.after.lost - 0.24).abs() < 0.005, "{}", episode.after.lost);
        assert!((episode.lost_seconds - 30.0 * 0.118).abs() < 0.01, "{}", episode.lost_seconds);
        assert!(!episode.remedies.is_empty());
    }
}

#[test]
fn to_work_more_and_on_more_cpus_is_no_storm() {
    // Ticks take half a percent of each CPU, on one of them at first and on 128 later.
    let (_, events) = planted(|host, number| {
        for cpu in 0..if is_planted(number) { 128 } else { 1 } {
            host.take(cpu, "/batch", "local_timer", Cause::Hardirq, around(2_500_000, number));
        }
    });
    assert_eq!(events, []);
}

#[test]
fn a_storm_elsewhere_opens_nothing_for_who_always_loses_a_little_on_many_cpus() {
    let (_, events) = planted(|host, number| {
        for cpu in 0..60 {
            host.take(cpu, "/batch", "local_timer", Cause::Hardirq, around(5_000_000, number));
        }
        let storm_ns = if is_planted(number) { 60_000_000 } else { 5_000_000 };
        host.take(63, "/web", "eth0-rx", Cause::Hardirq, around(storm_ns, number));
    });
    let [report] = closed(&events)[..] else { panic!("{events:#?}") };
    let of: Vec<_> = report.episodes().map(|episode| &*episode.subject).collect();
    assert_eq!(of, ["/web"]);
    // Half as much again on each of many CPUs, while another loses a tenth of its time for one window.
    let (_, events) = planted(|host, number| {
        let tick_ns = if is_planted(number) { 7_500_000 } else { 5_000_000 };
        for cpu in 0..60 {
            host.take(cpu, "/batch", "local_timer", Cause::Hardirq, around(tick_ns, number));
        }
        let storm_ns = if number == WARM + 20 { 60_000_000 } else { 5_000_000 };
        host.take(63, "/web", "eth0-rx", Cause::Hardirq, around(storm_ns, number));
    });
    assert_eq!(events, []);
    // Work on many more CPUs, and one such window in its begin.
    let (_, events) = planted(|host, number| {
        for cpu in 0..if is_planted(number) { 80 } else { 20 } {
            host.take(cpu, "/batch", "local_timer", Cause::Hardirq, around(5_000_000, number));
        }
        let storm_ns = if number == WARM + 1 { 60_000_000 } else { 5_000_000 };
        host.take(127, "/web", "eth0-rx", Cause::Hardirq, around(storm_ns, number));
    });
    assert_eq!(events, []);
}

#[test]
fn two_disturbances_are_two_incidents() {
    let (_, events) = planted(|host, number| {
        let mean_ns = around(if is_planted(number) { 8_000_000 } else { 50_000 }, number);
        host.wait("/a", "/hog", Cause::Foreign, mean_ns);
        host.wait("/b", "/b", Cause::Throttle, mean_ns);
        host.delay(Signal::NetTxWait, &["eth0"], &[mean_ns; 10]);
    });
    assert_eq!(closed(&events).len(), 3);
}

#[test]
fn both_directions_of_an_interface_are_one_incident_whoever_fills_them() {
    let (_, events) = planted(|host, number| {
        let mean_ns = around(if is_planted(number) { 8_000_000 } else { 50_000 }, number);
        for (signal, resource, culprit) in [
            (Signal::NetRxWait, Resource::NetRx, "/download"),
            (Signal::NetTxWait, Resource::NetTx, "/upload"),
        ] {
            let culprit = if is_planted(number) { culprit } else { "/" };
            host.delay(signal, &["eth0"], &[mean_ns; 10]);
            host.charge(resource, ["eth0", "/web"], culprit, Cause::Foreign, 10 * mean_ns);
        }
    });
    let [report] = closed(&events)[..] else { panic!("{events:#?}") };
    let mut blamed: Vec<_> =
        report.episodes().map(|one| (one.signal, &*one.culprits[0].culprit)).collect();
    blamed.sort_unstable();
    let [sending, receiving] = [Signal::NetTxWait, Signal::NetRxWait].map(Watched::Signal);
    assert_eq!(blamed, [(sending, "/upload"), (receiving, "/download")]);
}

#[test]
fn interrupts_join_what_they_delay() {
    let settings = Settings {
        watch: vec![Signal::CgroupRunqueueWait.into(), Signal::Softirq.into()],
        ..Settings::default()
    };
    let (mut board, mut host) = (Board::new(settings).unwrap(), PlantedHost::default());
    let events = live(&mut board, &mut host, 0..WARM + 80, |host, number| {
        let mean_ns = around(if is_planted(number) { 8_000_000 } else { 50_000 }, number);
        host.delay(Signal::Softirq, &["net_rx"], &[mean_ns; 10]);
        host.wait("/a", "net_rx", Cause::Softirq, mean_ns);
    });
    assert_eq!(closed(&events).len(), 1);
}

#[test]
fn the_whole_host_is_watched_where_cgroups_are_not_measured() {
    let (_, events) = planted(|host, number| {
        let mean_ns = around(if is_planted(number) { 8_000_000 } else { 50_000 }, number);
        for made_runnable in ["wakeup", "preempt"] {
            host.delay(Signal::RunqueueWait, &[made_runnable], &[mean_ns; 10]);
        }
        host.charge(Resource::Cpu, ["", "/a"], "/hog", Cause::Foreign, 20 * mean_ns);
    });
    let [report] = closed(&events)[..] else { panic!("{events:#?}") };
    assert_eq!(report.main.signal, Signal::RunqueueWait);
    assert_eq!(&*report.main.culprits[0].culprit, "/hog");
    assert!((report.main.culprits[0].time.share - 1.0).abs() < 1e-6);
}

#[test]
fn what_began_anew_or_is_folded_opens_nothing() {
    let (mut board, mut host) = (board(), PlantedHost::default());
    let events = live(&mut board, &mut host, 0..WARM + 200, |host, number| {
        if number == WARM {
            host.series.clear();
            host.charged.clear();
        }
        host.wait("/a", "/b", Cause::Foreign, around(50_000, number));
        // Comes with all that it counted before it had a name.
        if number == WARM + 100 {
            host.delay(Signal::CgroupRunqueueWait, &["/late"], &[1 << 33; 1000]);
        }
        let folded_ns = if number > WARM { 1 << 30 } else { 50_000 };
        host.delay(Signal::CgroupRunqueueWait, &["~other"], &[folded_ns; 10]);
    });
    assert_eq!(events, []);
}

#[test]
fn who_vanishes_with_an_incident_ends_it() {
    let (mut board, mut host) = (board(), PlantedHost::default());
    let hog = |host: &mut PlantedHost, number| {
        let mean_ns = around(if number >= WARM { 8_000_000 } else { 50_000 }, number);
        host.wait("/a", "/hog", Cause::Foreign, mean_ns);
    };
    let opened = live(&mut board, &mut host, 0..WARM + 20, hog);
    assert!(matches!(&opened[..], [GroupChange::Opened(_)]), "{opened:#?}");
    let overview = board.overview(clock(&Sample { at_ns: host.at_ns, ..Sample::default() }));
    assert_eq!(overview.active, [(Signal::CgroupRunqueueWait.into(), "/a".into())]);
    host.series.clear();
    host.charged.clear();
    let events = live(&mut board, &mut host, 0..60, |host, number| {
        host.wait("/b", "/b", Cause::Own, around(50_000, number));
    });
    assert_eq!(closed(&events).len(), 1);
}

#[test]
fn nothing_is_looked_for_where_nothing_is_watched() {
    for settings in [
        Settings { enabled: false, ..Settings::default() },
        Settings { watch: Vec::new(), ..Settings::default() },
    ] {
        let (mut board, mut host) = (Board::new(settings).unwrap(), PlantedHost::default());
        let events = live(&mut board, &mut host, 0..WARM + 80, |host, number| {
            let mean_ns = around(if is_planted(number) { 8_000_000 } else { 50_000 }, number);
            host.wait("/a", "/hog", Cause::Foreign, mean_ns);
        });
        assert_eq!(events, []);
        assert_eq!(board.overview(clock(&Sample::default())).opened, []);
    }
}

#[test]
fn what_an_earlier_daemon_knew_is_kept_and_numbers_go_on() {
    let act = |host: &mut PlantedHost, number| {
        let mean_ns = around(if number >= WARM { 8_000_000 } else { 50_000 }, number);
        host.wait("/a", "/hog", Cause::Foreign, mean_ns);
    };
    let (mut first, mut host) = (board(), PlantedHost::default());
    live(&mut first, &mut host, 0..WARM + 20, act);
    let left = first.overview(clock(&Sample { at_ns: host.at_ns, ..Sample::default() }));
    let [report] = &left.incidents[..] else { panic!("{left:#?}") };
    assert!(report.open);

    let mut second = board();
    // Numbers behind that one would not go on.
    let wrong = Report { id: u64::MAX, ..Report::clone(report) };
    second.restore(vec![Report::clone(report), wrong], Vec::new());
    let kept = second.overview(clock(&Sample::default()));
    assert_eq!(kept.active, []);
    assert_eq!(kept.incidents.len(), 1);
    assert_eq!(kept.incidents[0].main.ending, Some(super::Ending::Unwatched));
    let mut host = PlantedHost::default();
    let events = live(&mut second, &mut host, 0..WARM + 20, act);
    let [GroupChange::Opened(opened)] = &events[..] else { panic!("{events:#?}") };
    assert_eq!(opened.id, report.id + 1);
}

#[test]
fn a_successor_goes_on_with_what_was_learnt() {
    // It always waits for its own threads, and ten seconds after the restart half as long for another.
    let act = |host: &mut PlantedHost, number| {
        let own_ns = around(20_000_000, number);
        let by_hog_ns = if number >= WARM + 20 { 10_000_000 } else { 0 };
        host.delay(Signal::CgroupRunqueueWait, &["/a"], &[own_ns + by_hog_ns; 10]);
        host.charge(Resource::Cpu, ["", "/a"], "/a", Cause::Own, 10 * own_ns);
        host.charge(Resource::Cpu, ["", "/a"], "/hog", Cause::Foreign, 10 * by_hog_ns);
    };
    let (mut first, mut host) = (board(), PlantedHost::default());
    live(&mut first, &mut host, 0..WARM, act);
    let text = serde_json::to_string(&first.memories()).unwrap();
    for recalled in [true, false] {
        let mut second = board();
        if recalled {
            second.recall(serde_json::from_str(&text).unwrap());
            assert_eq!(second.memories(), first.memories());
        }
        // For 500 s, none was at work.
        let mut host =
            PlantedHost { at_ns: host.at_ns + 1000 * WINDOW_NS, ..PlantedHost::default() };
        let mut events = live(&mut second, &mut host, WARM..WARM + 2, act);
        let waits = Signal::CgroupRunqueueWait.into();
        let baseline = second.baseline(waits, &"/a".into()).filter(|_| recalled);
        assert!(baseline.is_none_or(|baseline| baseline.level().rate == 20.0), "{baseline:?}");
        events.extend(live(&mut second, &mut host, WARM + 2..WARM + 80, act));
        assert_eq!(events.len(), usize::from(recalled), "{events:#?}");
        for event in &events {
            let GroupChange::Opened(report) = event else { panic!("{event:?}") };
            assert_eq!(&*report.main.culprits[0].culprit, "/hog");
        }
    }
}

#[test]
fn what_was_learnt_of_what_is_not_watched_is_left_out() {
    let (mut first, mut host) = (board(), PlantedHost::default());
    live(&mut first, &mut host, 0..10, |host, number| {
        host.wait("/a", "/b", Cause::Foreign, around(50_000, number));
        host.delay(Signal::NetTxWait, &["eth0"], &[around(50_000, number)]);
    });
    assert_eq!(first.memories().len(), 2);
    let settings = Settings { watch: vec![Signal::NetTxWait.into()], ..Settings::default() };
    let mut second = Board::new(settings).unwrap();
    second.recall(first.memories());
    assert_eq!(second.memories().len(), 1);
}

#[test]
fn long_waits_are_kept_on_the_wall_clock_and_bounded() {
    let mut board = board();
    let wait = |at_ns| OutlierRecord {
        at_ns,
        wait_ns: 5_000_000,
        victim: "/a".into(),
        pid: 7,
        comm: "worker".into(),
        cpu: 1,
        made_runnable: "wakeup".into(),
        parts: Vec::new(),
        rest_ns: 5_000_000,
    };
    let outliers = (1..=258).map(|number| wait(number * WINDOW_NS)).collect();
    let sample = Sample { at_ns: 300 * WINDOW_NS, outliers, ..Sample::default() };
    assert!(board.keep_outliers(&sample, clock(&sample)));
    assert!(!board.keep_outliers(&Sample::default(), clock(&sample)));
    let kept = board.overview(clock(&sample)).outliers;
    let times: Vec<_> = kept.iter().map(|outlier| outlier.time.as_millisecond()).collect();
    assert_eq!((times.len(), &times[..2], times[255]), (256, &[1_500, 2_000][..], 129_000));
}

proptest! {
    #![proptest_config(same_draws(256))]

    #[test]
    fn a_quiet_host_has_no_incident(seed in any::<u64>(), subjects in 1usize..6) {
        let mut state = seed;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        };
        let (mut board, mut host) = (board(), PlantedHost::default());
        let events = live(&mut board, &mut host, 0..400, |host, _| {
            for subject in 0..subjects {
                let delays: Vec<u64> = (0..random() % 20).map(|_| 1 + random() % 100_000).collect();
                host.delay(Signal::CgroupRunqueueWait, &[&format!("/{subject}")], &delays);
            }
        });
        prop_assert_eq!(events, []);
    }
}

proptest! {
    #[test]
    fn any_samples_in_any_order_do_not_panic(
        steps in proptest::collection::vec(
            (any::<u64>(), 0usize..4, any::<u64>(), any::<bool>()), 0..80),
    ) {
        let settings =
            Settings { warmup_windows: 2, ..Settings::default() };
        let mut board = Board::new(settings).unwrap();
        for (at_ns, subject, value, twice) in steps {
            let subject = format!("/{subject}");
            let totals = Histogram::new(value, [(bucket_of(value), value)]);
            let signal = Signal::CgroupRunqueueWait;
            let one = Series { signal, labels: [subject.clone()].into(), totals, recent_max_ns: 0 };
            let pair = Interference {
                resource: Resource::Cpu,
                cause: Cause::Foreign,
                place: "".into(),
                victim: subject.as_str().into(),
                culprit: "/x".into(),
                charged: Charged { ns: value, count: 1 },
            };
            let times = if twice { 2 } else { 1 };
            let sample = Arc::new(Sample {
                at_ns,
                series: vec![one; times],
                interference: vec![pair; times],
                ..Sample::default()
            });
            board.analyse(&sample, &Step::default(), clock(&sample));
            board.overview(clock(&sample));
        }
        prop_assert!(board.overview(clock(&Sample::default())).incidents.len() <= 256);
    }
}
