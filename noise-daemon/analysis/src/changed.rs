//! Tests of settings that change while the daemon runs.

use noise_common::charge::Cause;
use noise_common::signals::Signal;

use super::planted::{PlantedHost, WARM, around, board, clock, is_planted, live};
use super::{Board, Ending, GroupChange, Settings, Watched};

#[test]
fn settings_change_while_baselines_stay() {
    let (mut board, mut host) = (board(), PlantedHost::default());
    let act = |host: &mut PlantedHost, number| {
        let mean_ns = around(if is_planted(number) { 8_000_000 } else { 50_000 }, number);
        host.wait("/a", "/hog", Cause::Foreign, mean_ns);
    };
    let with = |change: fn(&mut Settings)| {
        let mut settings = Settings::default();
        change(&mut settings);
        settings
    };
    live(&mut board, &mut host, 0..WARM, act);
    assert!(board.set(with(|settings| settings.minimum_lost = -1.0)).is_err());
    // More than can be lost.
    board.set(with(|settings| settings.minimum_lost = 1e9)).unwrap();
    assert!(live(&mut board, &mut host, WARM..WARM + 15, act).is_empty());
    board.set(Settings::default()).unwrap();
    let events = live(&mut board, &mut host, WARM + 15..WARM + 30, act);
    assert!(matches!(events[..], [GroupChange::Opened(_)]), "{events:#?}");
    // What is open is dropped with the search for it.
    board.set(with(|settings| settings.enabled = false)).unwrap();
    let clock = clock(&host.sample());
    assert!(board.overview(clock).incidents.is_empty());
    assert!(live(&mut board, &mut host, WARM + 30..WARM + 40, act).is_empty());
}

#[test]
fn what_is_not_watched_any_more_ends_as_that() {
    let (mut board, mut host) = (board(), PlantedHost::default());
    let act = |host: &mut PlantedHost, number| {
        let mean_ns = around(if number >= WARM { 8_000_000 } else { 50_000 }, number);
        host.wait("/a", "/hog", Cause::Foreign, mean_ns);
    };
    assert_eq!(live(&mut board, &mut host, 0..WARM + 20, act).len(), 1);
    let watch = vec![Signal::NetTxWait.into()];
    board.set(Settings { watch, ..Settings::default() }).unwrap();
    let events = live(&mut board, &mut host, WARM + 20..WARM + 60, act);
    let [GroupChange::Closed(report)] = &events[..] else { panic!("{events:#?}") };
    assert_eq!(report.main.ending, Some(Ending::Unwatched));
    assert_eq!(report.standing(), "open when noised stopped watching it");
    assert_eq!(board.memories(), []);
}

#[test]
fn what_has_no_room_is_counted() {
    let settings = Settings { subjects: 1, ..Settings::default() };
    let (mut board, mut host) = (Board::new(settings).unwrap(), PlantedHost::default());
    live(&mut board, &mut host, 0..10, |host, number| {
        host.wait("/a", "/hog", Cause::Foreign, around(50_000, number));
        host.wait("/b", "/hog", Cause::Foreign, around(1_000, number));
    });
    // The first sample ends no window.
    assert_eq!(board.overview(clock(&host.sample())).no_room, 9);
}

/// What opens when both the waits of a cgroup and those of the whole host get long, after `change`.
fn watched_after(change: impl FnOnce(&mut Board, &mut PlantedHost)) -> Vec<Watched> {
    let (mut board, mut host) = (board(), PlantedHost::default());
    let act = |host: &mut PlantedHost, number| {
        let mean_ns = around(if number >= 2 * WARM { 8_000_000 } else { 50_000 }, number);
        host.delay(Signal::RunqueueWait, &["preempt"], &[mean_ns; 10]);
        if host.absent.is_empty() {
            host.wait("/a", "/hog", Cause::Foreign, mean_ns);
        }
    };
    live(&mut board, &mut host, 0..5, act);
    change(&mut board, &mut host);
    let events = live(&mut board, &mut host, 5..2 * WARM + 30, act);
    let opened = events.iter().filter_map(|event| match event {
        GroupChange::Opened(report) => Some(report.main.signal),
        _ => None,
    });
    opened.collect()
}

#[test]
fn the_whole_host_is_watched_once_cgroups_are_not_any_more() {
    let (host, cgroup) =
        (Watched::Signal(Signal::RunqueueWait), Watched::Signal(Signal::CgroupRunqueueWait));
    assert_eq!(watched_after(|_, _| {}), [cgroup]);
    assert_eq!(watched_after(|_, host| host.absent.push(Signal::CgroupRunqueueWait)), [host]);
    let unwatched = |board: &mut Board, _: &mut PlantedHost| {
        let watch = vec![Signal::RunqueueWait.into()];
        board.set(Settings { watch, ..Settings::default() }).unwrap();
    };
    assert_eq!(watched_after(unwatched), [host]);
}

#[test]
fn a_storm_that_comes_and_goes_is_an_incident() {
    let (mut board, mut host) = (board(), PlantedHost::default());
    let events = live(&mut board, &mut host, 0..WARM + 60, |host, number| {
        let is_storm = is_planted(number) && number % 6 == 0;
        let storm_ns = if is_storm { 450_000_000 } else { 5_000_000 };
        host.take(3, "/web", "eth0-rx", Cause::Hardirq, around(storm_ns, number));
    });
    assert!(matches!(events[..], [GroupChange::Opened(_), ..]), "{events:#?}");
}
