//! Threads whose every nanosecond is known.

use proptest::prelude::*;

use super::*;
use crate::event::{LostEvents, Woken};
use crate::fixtures::{task, wakeup, waking};
use crate::state::LeftIn;

fn switch(prev: i32, state: &str, next: i32) -> TraceKind<'static> {
    let prev_state = LeftIn::printed(state.as_bytes());
    TraceKind::SchedSwitch { prev: task(prev), prev_state, next: task(next) }
}

fn created(tid: i32) -> TraceKind<'static> {
    TraceKind::SchedWakeupNew(Woken { task: task(tid), target_cpu: 0 })
}

fn lost(from_ns: u64, to_ns: u64) -> TraceKind<'static> {
    TraceKind::Lost(LostEvents { events: 3, packets: 0, from_ns, to_ns })
}

#[test]
fn losses_are_no_begin_and_no_end() {
    let events = [
        (90, 1, lost(90, 95)),
        (100, 0, switch(0, "R", 1)),
        (150, 0, switch(1, "S", 0)),
        (160, 0, switch(0, "R", 1)),
        (170, 1, wakeup(3, 1)),
        (180, 0, lost(180, 190)),
    ];
    let document = document(Begin::Wakeup, 0, &events);
    assert_eq!((document.from_ns, document.to_ns, document.discarded), (100, 170, 6));
    assert_eq!(times(&document, 1), [60, 0, 10, 0, 0, 0]);
}

type TimedEvents<'a> = &'a [(u64, u32, TraceKind<'static>)];

fn document(begin: Begin, from_ns: u64, events: TimedEvents<'_>) -> StatesDocument {
    let mut states = StatesOfThreads::new(begin);
    let mut has_begun = from_ns == 0;
    for (time_ns, cpu, kind) in events {
        if !has_begun && *time_ns >= from_ns {
            states.begin(from_ns);
            has_begun = true;
        }
        states.follow(&Event { time_ns: *time_ns, cpu: *cpu, kind: *kind });
    }
    states.finish(|_| true, None)
}

/// Of a thread: running, runnable, sleeping, uninterruptible, stopped, unknown.
fn times(document: &StatesDocument, tid: i32) -> [u64; 6] {
    let thread = document.threads.iter().find(|thread| thread.tid == tid).unwrap();
    let states = thread.states;
    assert_eq!(states.sum_ns() + thread.unknown_ns, thread.span_ns);
    let StateTimes { running_ns, runnable_ns, sleeping_ns, uninterruptible_ns, stopped_ns } =
        states;
    [running_ns, runnable_ns, sleeping_ns, uninterruptible_ns, stopped_ns, thread.unknown_ns]
}

#[test]
fn each_nanosecond_has_one_state() {
    let events = [
        (100, 0, switch(0, "R", 1)),
        (110, 0, wakeup(2, 0)),
        (115, 0, wakeup(2, 0)),
        (130, 0, switch(1, "R", 2)),
        (150, 0, switch(2, "D", 1)),
        (170, 0, wakeup(2, 0)),
        (190, 0, switch(1, "S", 2)),
        (191, 0, switch(2, "T", 0)),
        (195, 0, switch(0, "R", 3)),
        (200, 1, waking(9)),
    ];
    let states = document(Begin::Wakeup, 0, &events);
    assert_eq!((states.from_ns, states.to_ns), (100, 200));
    assert_eq!(times(&states, 1), [70, 20, 10, 0, 0, 0]);
    // What it did before it was woken is not said.
    assert_eq!(times(&states, 2), [21, 40, 0, 20, 9, 10]);
    assert_eq!(times(&states, 3), [5, 0, 0, 0, 0, 95]);
    assert_eq!(states.threads.iter().map(|thread| thread.tid).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(states.missing.is_empty() && states.discarded == 0);
    // From the middle of a run, a wait and a sleep on.
    let states = document(Begin::Wakeup, 140, &events);
    assert_eq!(times(&states, 1), [40, 10, 10, 0, 0, 0]);
    assert_eq!(times(&states, 2), [11, 20, 0, 20, 9, 0]);
}

#[test]
fn threads_count_from_their_creation_to_their_end() {
    let states = document(
        Begin::Wakeup,
        0,
        &[
            (100, 0, switch(0, "R", 1)),
            (110, 0, created(5)),
            (115, 0, switch(1, "S", 5)),
            (120, 0, TraceKind::SchedProcessExit(task(5))),
            (130, 0, switch(5, "R", 1)),
            (132, 0, switch(1, "S", 5)),
            (140, 0, switch(5, "Z", 0)),
            // Another one has its id.
            (150, 1, created(5)),
            (155, 1, switch(0, "R", 5)),
            (160, 1, switch(5, "S", 0)),
            // The end of that one was not seen.
            (180, 1, created(5)),
            (185, 1, switch(0, "R", 5)),
            (200, 1, switch(5, "S", 0)),
        ],
    );
    assert_eq!(times(&states, 5), [23 + 5 + 15, 5 + 2 + 5 + 5, 0, 0, 0, 20]);
}

#[test]
fn after_an_exec_a_thread_goes_on_under_its_processs_id() {
    let exec = TraceKind::SchedProcessExec { filename: b"/bin/x", tid: 7, old_tid: 8 };
    let states = document(
        Begin::Wakeup,
        0,
        &[(100, 0, switch(0, "R", 8)), (130, 0, exec), (150, 0, switch(7, "S", 0))],
    );
    assert_eq!(times(&states, 8), [30, 0, 0, 0, 0, 0]);
    assert_eq!(times(&states, 7), [20, 0, 0, 0, 0, 0]);
}

#[test]
fn what_may_be_missing_is_unknown_until_the_thread_is_seen_again() {
    let states = document(
        Begin::Wakeup,
        0,
        &[
            (100, 0, switch(0, "R", 1)),
            (100, 1, switch(0, "R", 2)),
            (105, 1, switch(2, "S", 3)),
            // CPU 1 is not seen: 3 is lost, 2 may run there; 1 runs elsewhere, and is seen.
            (110, 1, lost(110, 150)),
            (120, 0, switch(1, "S", 4)),
            (160, 0, wakeup(2, 0)),
            (170, 0, switch(4, "S", 2)),
            (180, 1, switch(3, "S", 0)),
            (200, 0, wakeup(1, 0)),
        ],
    );
    assert_eq!(times(&states, 1), [20, 0, 0, 0, 0, 80]);
    assert_eq!(times(&states, 2), [5 + 30, 10, 5, 0, 0, 50]);
    assert_eq!(times(&states, 3), [5, 0, 20, 0, 0, 75]);
    assert_eq!(times(&states, 4), [50, 0, 30, 0, 0, 20]);
    assert_eq!(states.discarded, 3);
}

#[test]
fn a_switch_that_is_missing_ends_no_run() {
    let states = document(
        Begin::Wakeup,
        0,
        &[
            (100, 0, switch(0, "R", 1)),
            // From 1 to 2 between them.
            (150, 0, switch(2, "S", 3)),
            (170, 0, switch(3, "S", 1)),
            (180, 0, switch(1, "S", 0)),
        ],
    );
    assert_eq!(times(&states, 1), [10, 0, 0, 0, 0, 70]);
    assert_eq!(times(&states, 2), [0, 0, 30, 0, 0, 50]);
    assert_eq!(states.missing, ["sched_wakeup"]);
}

#[test]
fn who_is_woken_on_the_way_to_sleep_waits_unless_it_is_woken_again() {
    let events = |again: Option<u64>| {
        let mut events = vec![
            (100, 0, switch(0, "R", 1)),
            (110, 1, waking(1)),
            (120, 0, switch(1, "S", 2)),
            (190, 0, switch(2, "S", 1)),
            (200, 0, switch(1, "S", 0)),
        ];
        events.extend(again.map(|time_ns| (time_ns, 1, waking(1))));
        events.sort_by_key(|(time_ns, ..)| *time_ns);
        events
    };
    let of = |again| times(&document(Begin::Waking, 0, &events(again)), 1);
    assert_eq!(of(None), [30, 70, 0, 0, 0, 0]);
    assert_eq!(of(Some(150)), [30, 40, 30, 0, 0, 0]);
    // At the end it is not known yet.
    let open = &events(None)[..4];
    let [(_, _, first), (_, _, woken), (_, _, sleeps), ..] = open else { panic!("four events") };
    let open = [(100, 0, *first), (110, 1, *woken), (120, 0, *sleeps), (140, 1, waking(9))];
    assert_eq!(times(&document(Begin::Waking, 0, &open), 1), [20, 0, 0, 0, 0, 20]);
}

const CPUS: usize = 3;
const THREADS: usize = 4;

/// A step of a schedule: whether it is a wake-up, where, of which thread, the state that one is left in, and how long
/// after the step before.
type ScheduleStep = (bool, usize, usize, usize, u64);
/// What a thread truly did: its id, a letter for its state, begin and end.
type TrueStretch = (i32, char, u64, u64);

struct PlayedSchedule {
    now_ns: u64,
    threads: [(char, u64); THREADS],
    running: [Option<usize>; CPUS],
    events: Vec<(u64, u32, TraceKind<'static>)>,
    truth: Vec<TrueStretch>,
}

impl PlayedSchedule {
    fn of(steps: &[ScheduleStep]) -> Self {
        let (threads, running) = ([('S', 0); THREADS], [None; CPUS]);
        let (events, truth) = (Vec::new(), Vec::new());
        let mut played = Self { now_ns: 1_000, threads, running, events, truth };
        steps.iter().for_each(|step| played.step(*step));
        for thread in 0..THREADS {
            played.turn(thread, ' ');
        }
        played.events.push((played.now_ns, 0, TraceKind::Other("end")));
        played
    }

    fn turn(&mut self, thread: usize, state: char) {
        let before = std::mem::replace(&mut self.threads[thread], (state, self.now_ns));
        self.truth.push((thread as i32 + 1, before.0, before.1, self.now_ns));
    }

    fn step(&mut self, (is_wake, cpu, thread, left, later_ns): ScheduleStep) {
        self.now_ns += later_ns;
        let tid = |thread: Option<usize>| thread.map_or(0, |thread| thread as i32 + 1);
        let state = self.threads[thread].0;
        if is_wake {
            if "SDT".contains(state) {
                self.events.push((self.now_ns, cpu as u32, wakeup(tid(Some(thread)), 0)));
                self.turn(thread, 'w');
            }
            return;
        }
        let (prev, next) = (self.running[cpu], Some(thread).filter(|_| state == 'w'));
        if prev.is_none() && next.is_none() {
            return;
        }
        let (left, after) = [("R", 'w'), ("S", 'S'), ("D", 'D'), ("T", 'T')][left];
        self.events.push((self.now_ns, cpu as u32, switch(tid(prev), left, tid(next))));
        prev.into_iter().for_each(|prev| self.turn(prev, after));
        next.into_iter().for_each(|next| self.turn(next, 'r'));
        self.running[cpu] = next;
    }

    /// How long a thread truly was in each of the states that are known, since its first event.
    fn true_times(&self, tid: i32, from_ns: u64) -> [u64; 5] {
        ['r', 'w', 'S', 'D', 'T'].map(|state| {
            let own = self.truth.iter().filter(|(of, is, ..)| (*of, *is) == (tid, state));
            own.map(|(_, _, begin_ns, end_ns)| end_ns.saturating_sub(from_ns.max(*begin_ns))).sum()
        })
    }
}

proptest! {
    #[test]
    fn known_times_are_true_whatever_is_lost(
        steps in proptest::collection::vec(
            (any::<bool>(), 0..CPUS, 0..THREADS, 0..4_usize, 1..9_u64),
            10..150,
        ),
        loss in proptest::option::of((0..CPUS as u32, 0.0..1.0_f64, 1..200_u64)),
    ) {
        let played = PlayedSchedule::of(&steps);
        let end_ns = played.now_ns;
        let mut events = played.events.clone();
        if let Some((cpu, at, ns)) = loss {
            let from_ns = 1_000 + ((end_ns - 1_000) as f64 * at) as u64;
            let to_ns = from_ns + ns;
            events.retain(|(at_ns, on, _)| *on != cpu || !(from_ns..to_ns).contains(at_ns));
            let behind = events.partition_point(|(at_ns, ..)| *at_ns < from_ns);
            events.insert(behind, (from_ns, cpu, lost(from_ns, to_ns)));
        }
        let document = document(Begin::Wakeup, 0, &events);
        for thread in &document.threads {
            let [known @ .., unknown_ns] = times(&document, thread.tid);
            let names = |kind: &TraceKind<'_>| {
                let event = Event { time_ns: 0, cpu: 0, kind: *kind };
                steps_of(&event).any(|tid| tid == thread.tid)
            };
            let first = events.iter().find(|(.., kind)| names(kind)).unwrap();
            let truth = played.true_times(thread.tid, first.0);
            let is_true = known.iter().zip(&truth).all(|(known, truth)| known <= truth);
            prop_assert!(is_true, "{}: {known:?} of {truth:?}", thread.tid);
            if loss.is_none() {
                prop_assert_eq!(known, truth);
                prop_assert_eq!(unknown_ns, first.0 - document.from_ns);
            }
        }
    }
}

/// The threads that an event says something of.
fn steps_of(event: &Event<'_>) -> impl Iterator<Item = i32> {
    let all: Vec<i32> = steps(event, Begin::Wakeup).map(|(task, ..)| task.tid).collect();
    all.into_iter()
}
