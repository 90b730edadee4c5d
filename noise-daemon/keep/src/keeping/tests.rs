//! What is kept, and of which incidents.

use std::path::Path;
use std::time::Duration;

use noise_analysis::Episode;
use noise_analysis::made::blank;
use noise_common::signals::Signal;
use noise_serve::{Peer, Turns};

use super::*;
use crate::file::made;

fn clock(second: i64) -> Clock {
    Clock { at_ns: 70_000_000, suspended_ns: 0, now: Timestamp::from_second(second).unwrap() }
}

fn report(id: u64) -> Report {
    // Of a cgroup, waits are shown where its threads are known: here they are numbers alone.
    let main = Episode { signal: Signal::RunqueueWait.into(), ..blank("no such.service") };
    Report::new(id, true, main, Vec::new())
}

const BOUNDS: Bounds = Bounds { incidents: 3, bytes: 1 << 20 };

fn keeping(folder: &Path, bounds: Bounds, is_known: impl Fn(u64) -> bool) -> Keeping {
    let folder = Arc::new(Folder::take(folder).unwrap());
    let known = (1..100).filter(|id| is_known(*id)).map(|id| (id, 0.0)).collect();
    Keeping::start(&folder, Some(Arc::new(|_| made::pieces())), bounds, known)
}

fn settle(keeping: &mut Keeping) {
    let begin = Instant::now();
    loop {
        keeping.tick();
        if keeping.work.is_none() && keeping.waiting.is_empty() && keeping.gone.is_empty() {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(1));
    }
}

fn ids(keeping: &Keeping) -> Vec<u64> {
    let list = keeping.list();
    list.iter().filter(|one| one.is_kept()).map(|one| one.incident).collect()
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count() - 1
}

#[test]
fn what_opens_is_kept_and_found_by_the_next_daemon() {
    let root = tempfile::tempdir().unwrap();
    {
        let mut keeping = keeping(root.path(), BOUNDS, |_| true);
        keeping.opened(&report(7), clock(1_000), |_| 0.0);
        settle(&mut keeping);
        let [trace] = &keeping.list()[..] else { panic!("{:?}", keeping.list()) };
        assert!(trace.is_kept() && (trace.events, trace.missing) == (9, 2), "{trace:?}");
        assert!(trace.waits[0].contains("waited 30.0 ms: waiting_cpu 100 %"), "{trace:?}");
        let document = keeping.paths()(7).unwrap();
        assert!(document.contains("\"span_ns\":30000000"), "{document}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let (runtime, turns) = (runtime.unwrap(), Turns::new(2));
        let turn = || runtime.block_on(turns.next(Peer::User(None), None)).unwrap();
        assert!(keeping.paths()(8).is_none() && keeping.traces()(8, turn()).is_err());
        let mut pieces = keeping.traces()(7, turn()).unwrap();
        let mut bytes = Vec::new();
        while let Some(piece) = pieces.blocking_recv() {
            bytes.extend(piece);
        }
        let (_, about) = read(bytes.as_slice(), |_, _| {}).unwrap();
        assert_eq!((about.incident, &*about.subject), (7, "no such.service"));
    }
    let again = keeping(root.path(), BOUNDS, |id| id == 7);
    assert_eq!(ids(&again), [7]);
    drop(again);
    // Without a recorder it stays, and nothing comes.
    let mut off = keeping(root.path(), BOUNDS, |_| true);
    off.latest = None;
    off.opened(&report(8), clock(1_000), |_| 0.0);
    settle(&mut off);
    assert_eq!((ids(&off), off.list().len()), (vec![7], 1));
    drop(off);
    // Without its incident it goes.
    let without = keeping(root.path(), BOUNDS, |_| false);
    assert_eq!((ids(&without), files(root.path())), (Vec::new(), 0));
}

#[test]
fn the_oldest_go_and_those_of_incidents_that_are_forgotten() {
    let root = tempfile::tempdir().unwrap();
    let mut keeping = keeping(root.path(), BOUNDS, |_| true);
    for id in 1..=5 {
        keeping.opened(&report(id), clock(1_000 + 3_600 * id as i64), |_| 0.0);
        settle(&mut keeping);
    }
    assert_eq!((ids(&keeping), files(root.path())), (vec![3, 4, 5], 6));
    keeping.forget(|id| id != 4);
    settle(&mut keeping);
    assert_eq!((ids(&keeping), files(root.path())), (vec![3, 5], 4));
    let none = Bounds { incidents: 0, ..BOUNDS };
    keeping.bounds = none;
    keeping.opened(&report(9), clock(100_000), |_| 0.0);
    assert!(keeping.waiting.is_empty());
    // The files of one are longer than that.
    keeping.bounds = Bounds { incidents: 2, bytes: 200 };
    keeping.shorten();
    settle(&mut keeping);
    assert_eq!((ids(&keeping), files(root.path())), (Vec::new(), 0));
}

#[test]
fn the_worst_stays_for_days_and_not_for_ever() {
    let root = tempfile::tempdir().unwrap();
    let mut keeping = keeping(root.path(), BOUNDS, |_| true);
    let gravity = |id: u64| [0.5, 5.0, 0.1][usize::from(id == 1) + 2 * usize::from(id == 41)];
    let at = |id: u64| clock(1_000 + 3_600 * id as i64);
    for id in 1..=40 {
        keeping.opened(&report(id), at(id), gravity);
        settle(&mut keeping);
        assert!(ids(&keeping).contains(&1), "{id}");
    }
    assert_eq!(ids(&keeping), [1, 39, 40]);
    // One that is less than all of these does not take their place.
    keeping.opened(&report(41), at(41), gravity);
    settle(&mut keeping);
    let list = keeping.list();
    let said = list.iter().find(|one| one.incident == 41).unwrap().sentence();
    assert!(ids(&keeping) == [1, 39, 40] && said.contains("is used by worse ones"), "{said}");
    // Ten days later, it is worth less than others.
    for id in 42..=44 {
        keeping.opened(&report(id), at(240 + id), gravity);
        settle(&mut keeping);
    }
    assert_eq!(ids(&keeping), [42, 43, 44]);
}

#[test]
fn what_an_incident_turns_out_to_be_about_is_looked_for_in_what_is_kept() {
    let root = tempfile::tempdir().unwrap();
    let mut keeping = keeping(root.path(), BOUNDS, |_| true);
    keeping.latest = Some(Arc::new(|_| made::disk_pieces()));
    let requests = Episode { signal: Signal::BlockDeviceWait.into(), ..blank("vda read") };
    let requests = Report::new(7, true, requests, Vec::new());
    let waits = |keeping: &Keeping| keeping.list()[0].waits.clone();
    keeping.opened(&report(7), clock(1_000), |_| 0.0);
    settle(&mut keeping);
    let before = waits(&keeping);
    keeping.follow(&requests);
    settle(&mut keeping);
    assert!(waits(&keeping) != before && ids(&keeping) == [7], "{before:?}");
    // A file says what it is about, as another program reads it.
    let (_, about) = read(open(root.path(), 7).unwrap(), |_, _| {}).unwrap();
    assert_eq!((about.signal, &*about.subject), (requests.main.signal, "vda read"));
    let document = keeping.paths()(7).unwrap();
    // Once is enough; and where that fails, what there is stays.
    keeping.follow(&report(7));
    settle(&mut keeping);
    assert_eq!(keeping.paths()(7).unwrap(), document);
    keeping.opened(&report(8), clock(1_000), |_| 0.0);
    settle(&mut keeping);
    std::fs::create_dir(root.path().join("incident-8.trace.new")).unwrap();
    keeping.follow(&Report { id: 8, ..requests.clone() });
    settle(&mut keeping);
    assert_eq!((ids(&keeping), keeping.failing), (vec![7, 8], false));
    // Where what there was is gone with it, that is said.
    keeping.opened(&report(9), clock(1_000), |_| 0.0);
    settle(&mut keeping);
    std::fs::create_dir(root.path().join("incident-9.path.new")).unwrap();
    keeping.follow(&Report { id: 9, ..requests });
    settle(&mut keeping);
    assert_eq!((ids(&keeping), keeping.failing), (vec![7, 8], true));
    assert!(keeping.paths()(9).is_none() && open(root.path(), 9).is_err());
}

#[test]
fn what_is_looked_at_again_takes_no_room() {
    let root = tempfile::tempdir().unwrap();
    let mut keeping = keeping(root.path(), BOUNDS, |_| true);
    for id in [1, 2] {
        keeping.opened(&report(id), clock(1_000), |_| 1.0);
        settle(&mut keeping);
    }
    let requests = Episode { signal: Signal::BlockDeviceWait.into(), ..blank("vda read") };
    keeping.follow(&Report::new(1, true, requests, Vec::new()));
    keeping.tick();
    assert!(keeping.work.is_some());
    keeping.opened(&report(3), clock(1_001), |id| if id == 3 { 0.5 } else { 1.0 });
    settle(&mut keeping);
    assert_eq!(ids(&keeping), [1, 2, 3]);
}

#[test]
fn what_is_forgotten_before_it_is_kept_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let mut keeping = keeping(root.path(), BOUNDS, |_| true);
    // One is forgotten before the thread has it, one meanwhile.
    keeping.opened(&report(1), clock(1_000), |_| 0.0);
    keeping.forget(|_| false);
    assert!(keeping.waiting.is_empty());
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    keeping.latest = Some(Arc::new(move |_| {
        gone.lock().unwrap().recv().unwrap();
        made::pieces()
    }));
    keeping.opened(&report(2), clock(1_000), |_| 0.0);
    keeping.opened(&report(3), clock(1_000), |_| 0.0);
    keeping.tick();
    keeping.forget(|id| id == 3);
    (0..2).for_each(|_| go.send(()).unwrap());
    settle(&mut keeping);
    assert_eq!((ids(&keeping), files(root.path())), (vec![3], 2));
}

#[test]
fn what_an_earlier_daemon_left_damaged_is_said_at_the_incident() {
    let root = tempfile::tempdir().unwrap();
    {
        let mut keeping = keeping(root.path(), BOUNDS, |_| true);
        keeping.opened(&report(7), clock(1_000), |_| 0.0);
        settle(&mut keeping);
    }
    std::fs::write(root.path().join("incident-7.path"), "garbage").unwrap();
    let keeping = keeping(root.path(), BOUNDS, |id| id == 7);
    assert_eq!((ids(&keeping), files(root.path())), (Vec::new(), 0));
    let said = keeping.list()[0].sentence();
    assert!(said.contains("their file is damaged: it ends early"), "{said}");
}

#[test]
fn a_storm_is_bounded_and_says_so_at_the_incident() {
    let root = tempfile::tempdir().unwrap();
    let bounds = Bounds { incidents: 100, ..BOUNDS };
    let mut keeping = keeping(root.path(), bounds, |_| true);
    for id in 1..=10 {
        keeping.opened(&report(id), clock(1_000), |_| 0.0);
    }
    settle(&mut keeping);
    assert_eq!(ids(&keeping), [1, 2, 3, 4]);
    for id in 11..=20 {
        keeping.opened(&report(id), clock(1_100 + id as i64), |_| 0.0);
        settle(&mut keeping);
    }
    assert_eq!(ids(&keeping), [1, 2, 3, 4, 11, 12]);
    let why = |keeping: &Keeping, id: u64| {
        let list = keeping.list();
        list.iter().find(|one| one.incident == id).unwrap().sentence()
    };
    assert!(why(&keeping, 5).contains("too many incidents opened at once"), "{}", why(&keeping, 5));
    assert!(
        why(&keeping, 13).contains("the limit of 6 an hour was used by worse ones"),
        "{}",
        why(&keeping, 13)
    );
    // A worse one replaces the least.
    keeping.opened(&report(300), clock(1_130), |id| if id == 3 { 0.1 } else { id as f64 });
    settle(&mut keeping);
    assert_eq!(ids(&keeping), [1, 2, 4, 11, 12, 300]);
    assert!(
        why(&keeping, 3).contains("the limit of 6 an hour was used by worse ones"),
        "{}",
        why(&keeping, 3)
    );
    for id in 21..=200 {
        keeping.opened(&report(id), clock(1_200), |_| 0.0);
    }
    assert_eq!(keeping.without.len(), MOST_WITHOUT);
    keeping.opened(&report(201), clock(1_200 + 3_600), |_| 0.0);
    settle(&mut keeping);
    assert!(ids(&keeping).contains(&201));
}

#[test]
fn the_least_of_those_that_wait_gives_way_to_a_worse_one() {
    let root = tempfile::tempdir().unwrap();
    let mut keeping = keeping(root.path(), Bounds { incidents: 100, ..BOUNDS }, |_| true);
    let severity = |id: u64| [0.0, 0.5, 0.2, 0.4, 0.2, 0.3, 0.1, 0.2][id as usize];
    for id in 1..=7 {
        keeping.opened(&report(id), clock(1_000), severity);
    }
    settle(&mut keeping);
    assert_eq!(ids(&keeping), [1, 2, 3, 5]);
    let list = keeping.list();
    let without: Vec<_> = list.iter().filter(|one| !one.is_kept()).collect();
    assert_eq!(without.iter().map(|one| one.incident).collect::<Vec<_>>(), [4, 6, 7]);
    assert!(without.iter().all(|one| one.sentence().contains("too many incidents opened at once")));
    // Those that gave way took no place in the hour, and what is forgotten leaves its own.
    keeping.opened(&report(6), clock(1_001), severity);
    keeping.opened(&report(7), clock(1_001), severity);
    settle(&mut keeping);
    assert_eq!(ids(&keeping), [1, 2, 3, 5, 6, 7]);
    keeping.forget(|id| id != 1);
    keeping.opened(&report(4), clock(1_002), |_| 0.0);
    settle(&mut keeping);
    assert_eq!(ids(&keeping), [2, 3, 4, 5, 6, 7]);
}

#[test]
fn what_cannot_be_kept_is_said_at_the_incident() {
    let root = tempfile::tempdir().unwrap();
    let mut keeping = keeping(root.path(), BOUNDS, |_| true);
    std::fs::create_dir(root.path().join("incident-7.trace.new")).unwrap();
    keeping.opened(&report(7), clock(1_000), |_| 0.0);
    settle(&mut keeping);
    assert_eq!(ids(&keeping), [] as [u64; 0]);
    let said = keeping.list()[0].sentence();
    assert!(keeping.failing && said.contains("the state directory cannot be written"), "{said}");
    keeping.latest = Some(Arc::new(|_| Box::new(made::pieces().take(1))));
    keeping.opened(&report(8), clock(1_000), |_| 0.0);
    settle(&mut keeping);
    assert_eq!((ids(&keeping).len(), files(root.path())), (0, 1));
    keeping.latest = Some(Arc::new(|_| made::pieces()));
    keeping.opened(&report(9), clock(1_000), |_| 0.0);
    settle(&mut keeping);
    assert_eq!((ids(&keeping), keeping.failing), (vec![9], false));
}
