//! Tests of what becomes usual over hours: disturbances that come back, and small ones that add up.

use noise_common::signals::Signal;

use super::properties::{LENGTH_NS, name, window};
use super::track::ADOPT_NS;
use super::{Change, Incident, Monitor, Settings};

const SIGNAL: Signal = Signal::CgroupRunqueueWait;
const USUAL_NS: u64 = 100_000;
const MINUTE: u64 = 60_000_000_000 / LENGTH_NS;
/// As long as a disturbance that lasts is an incident.
const HOURS: u64 = ADOPT_NS / LENGTH_NS;

fn monitor() -> Monitor {
    Monitor::new(Settings::default()).unwrap()
}

/// Ten delays in each window, a little to either side of the mean of that window. The incidents that are told, and those that end.
fn live(
    monitor: &mut Monitor,
    windows: std::ops::Range<u64>,
    mean_ns: impl Fn(u64) -> u64,
) -> (Vec<Incident>, usize) {
    let (before, mut opened, mut closed) = (monitor.active().count(), Vec::new(), 0);
    for number in windows {
        let mean_ns = mean_ns(number);
        let mean_ns = if number % 2 == 0 { mean_ns * 9 / 10 } else { mean_ns * 11 / 10 };
        let window = window(number, &[mean_ns; 10]);
        let mut changes = monitor.observe(SIGNAL, &name(0), &window, &[]);
        changes.extend(monitor.settle(window.end_ns));
        for change in changes {
            match change {
                Change::Opened(incident) => opened.push(incident),
                Change::Closed(_) => closed += 1,
            }
        }
        assert_eq!(before + opened.len() - closed, monitor.active().count(), "window {number}");
    }
    (opened, closed)
}

/// When the jobs begin: what is there from the beginning is learnt as usual.
const FIRST: u64 = 4 * MINUTE;

/// A job of every minute that takes so many windows or some more, in which waits are 100 times as long as usual.
fn job(windows: u64) -> impl Fn(u64) -> u64 {
    move |number| {
        let length = windows + number / MINUTE % 3;
        let runs = number >= FIRST && number % MINUTE >= MINUTE - length;
        if runs { 100 * USUAL_NS } else { USUAL_NS }
    }
}

#[test]
fn a_job_of_every_minute_is_usual_after_hours() {
    // One second, five, and twenty.
    for windows in [2, 10, 40] {
        let mut monitor = monitor();
        let job = job(windows);
        let (opened, closed) = live(&mut monitor, 0..HOURS, &job);
        assert!(opened.len() > 340 && closed >= opened.len() - 1, "{windows}: {}", opened.len());
        let begin = HOURS + FIRST + 2 * MINUTE;
        live(&mut monitor, HOURS..begin, &job);
        let (opened, _) = live(&mut monitor, begin..begin + 3 * HOURS, &job);
        assert!(opened.is_empty(), "{windows}: {opened:?}");
        // What is usual while it does not run is what it was.
        let usual_ns = monitor.baseline(SIGNAL, &name(0)).unwrap().mean_ns();
        assert!((usual_ns / USUAL_NS as f64 - 1.0).abs() < 0.05, "{usual_ns}");
    }
}

/// One whose job of five seconds is usual, and the next window.
fn used_to_it() -> (Monitor, u64) {
    let mut monitor = monitor();
    let end = HOURS + 10 * MINUTE;
    live(&mut monitor, 0..end, job(10));
    (monitor, end)
}

#[test]
fn what_is_worse_or_longer_than_a_usual_job_is_told() {
    let (usual, end) = used_to_it();
    let worse = |number| match job(10)(number) {
        slow_ns if slow_ns > USUAL_NS && number < end + MINUTE => 10 * slow_ns,
        mean_ns => mean_ns,
    };
    let longer = |number| match number - end {
        0..40 => 100 * USUAL_NS,
        _ => job(10)(number),
    };
    let by: [&dyn Fn(u64) -> u64; 2] = [&worse, &longer];
    for (number, mean_ns) in by.into_iter().enumerate() {
        let mut monitor = usual.clone();
        let (opened, closed) = live(&mut monitor, end..end + 2 * MINUTE, mean_ns);
        assert_eq!((opened.len(), closed), (1, 1), "{number}");
        // Once does not make it usual, nor the job unusual.
        let (opened, _) = live(&mut monitor, end + 2 * MINUTE..end + 30 * MINUTE, job(10));
        assert!(opened.is_empty(), "{number}: {opened:?}");
        let again = |at: u64| mean_ns(at - 30 * MINUTE);
        let (opened, _) = live(&mut monitor, end + 30 * MINUTE..end + 32 * MINUTE, again);
        assert_eq!(opened.len(), 1, "{number}");
    }
}

#[test]
fn a_job_that_takes_longer_from_now_on_becomes_usual_by_coming_back() {
    let (mut monitor, end) = used_to_it();
    let (opened, _) = live(&mut monitor, end..end + 60 * MINUTE, job(24));
    assert!((1..12).contains(&opened.len()), "{}", opened.len());
    let (opened, _) = live(&mut monitor, end + 60 * MINUTE..end + 120 * MINUTE, job(24));
    assert!(opened.is_empty(), "{opened:?}");
}

#[test]
fn a_job_that_was_away_is_unusual_again() {
    let (mut monitor, end) = used_to_it();
    live(&mut monitor, end..end + 11 * MINUTE, |_| USUAL_NS);
    let begin = end + 11 * MINUTE;
    assert_eq!(live(&mut monitor, begin..begin + 2 * MINUTE, job(10)).0.len(), 2);
}

#[test]
fn a_usual_job_outlives_the_daemon() {
    let (earlier, end) = used_to_it();
    let mut later = monitor();
    for memory in earlier.memories() {
        let text = serde_json::to_string(&memory).unwrap();
        later.recall(serde_json::from_str(&text).unwrap());
    }
    later.begin(end * LENGTH_NS);
    let (opened, _) = live(&mut later, end..end + 5 * MINUTE, job(10));
    assert!(opened.is_empty(), "{opened:?}");
    // A file that cannot be right is not believed.
    let text = serde_json::to_string(&earlier.memories().next().unwrap()).unwrap();
    let wrong = text.replace("\"longest_ns\":", "\"longest_ns\":-");
    assert_ne!(wrong, text);
    let mut later = monitor();
    later.recall(serde_json::from_str(&wrong).unwrap());
    assert_eq!(later.subjects(), 0);
}

/// The time of a second that ten delays of this mean in each half of it take: from 0.2 % to 0.8 % and more.
const SMALL_NS: u64 = 4 * USUAL_NS;

#[test]
fn small_disturbances_add_up_to_an_incident() {
    let (first, second) = (10 * MINUTE, 70 * MINUTE);
    let steps = |number| match number {
        number if number < first => USUAL_NS,
        number if number < second => SMALL_NS,
        _ => 2 * SMALL_NS,
    };
    let mut monitor = monitor();
    // The first takes 0.6 % more of the time, and is learnt; the second as much again.
    assert!(live(&mut monitor, 0..second, steps).0.is_empty());
    let (opened, _) = live(&mut monitor, second..second + MINUTE, steps);
    let [incident] = &opened[..] else { panic!("{opened:?}") };
    assert_eq!(incident.start_ns, second * LENGTH_NS);
    let before_ns = incident.before.mean_ns.unwrap();
    assert!((before_ns / USUAL_NS as f64 - 1.0).abs() < 0.05, "{before_ns}");
    assert!(incident.lost_seconds > 0.0);
}

#[test]
fn a_small_disturbance_that_is_over_or_old_is_not_added() {
    // It is over, and comes back with another one as small: only one is there at a time.
    let pulse = |number| match number / (10 * MINUTE) {
        1 | 3 => SMALL_NS,
        _ => USUAL_NS,
    };
    assert!(live(&mut monitor(), 0..60 * MINUTE, pulse).0.is_empty());
    let mut monitor = monitor();
    let begin = 10 * MINUTE;
    let step = |number| if number < begin { USUAL_NS } else { SMALL_NS };
    assert!(live(&mut monitor, 0..begin + HOURS + MINUTE, step).0.is_empty());
    let since_ns = monitor.baseline(SIGNAL, &name(0)).unwrap().adopted_since_ns().unwrap();
    assert!(since_ns.abs_diff(begin * LENGTH_NS) <= 30 * LENGTH_NS, "{since_ns}");
    let end = begin + HOURS + MINUTE;
    assert!(live(&mut monitor, end..end + 10 * MINUTE, |_| 2 * SMALL_NS).0.is_empty());
}
