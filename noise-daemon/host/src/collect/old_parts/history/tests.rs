//! Parts that a ledger forgot, against a CPU whose every nanosecond has a known owner.

use std::collections::BTreeMap;

use noise_common::charge::Cause;
use noise_common::hooks::Vector;
use noise_common::ledger::{
    COMM_WORDS, Ledger, Parts, Runner, STRETCHES, Stretches, TURNS, Takes, Turn, Waiting, Walk,
};
use noise_common::store::EventKind;
use noise_common::store::event::Body;
use proptest::prelude::{
    ProptestConfig, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use proptest::sample::Index;

use super::super::culprits::TurnOwner;
use super::*;

/// Who owns a nanosecond: the thread that runs, or an interrupt.
type Owner = Option<u32>;
const VICTIM: u64 = 7;
const BEGIN_NS: u64 = 1_000;

fn cgroup(tid: u32) -> u64 {
    100 + u64::from(tid)
}

/// Time of threads, by the ledger, and what it forgot.
#[derive(Default)]
struct Live {
    walk: Walk,
    threads: BTreeMap<u32, u64>,
    forgotten: Option<Forgotten>,
    untracked_ns: u64,
}

impl Takes for Live {
    fn turn(&mut self, turn: &Turn, ns: u64) {
        *self.threads.entry(turn.pid).or_default() += ns;
    }
    fn other(&mut self, cause: Cause, _: u64, ns: u64) {
        if cause == Cause::Untracked {
            self.untracked_ns += ns;
        }
    }
}

impl Parts for Live {
    fn walk(&mut self) -> &mut Walk {
        &mut self.walk
    }
    fn rest(&mut self) {
        self.forgotten = self.walk.forgotten();
        if self.forgotten.is_none() {
            self.untracked_ns += self.walk.left_ns();
        }
    }
}

/// A wait as it is divided live, and the truth, ns by thread.
type Ended = (Live, BTreeMap<u32, u64>);

struct Cpu {
    nesting: Nesting,
    ledger: Box<Ledger>,
    now_ns: u64,
    tid: u32,
    switches: usize,
    owners: Vec<Owner>,
    events: Vec<StoredEvent>,
}

#[derive(Clone, Debug)]
enum Step {
    Run(u64),
    Switch(u32),
    Nmi(u64),
    Vector(u64, Vec<Self>),
    Softirq(u64, Vec<Self>),
}

impl Cpu {
    fn new() -> Self {
        let turn =
            Turn { start_ns: 0, taken_ns: 0, cgroup: 0, pid: 0, runner: 0, comm: [0; COMM_WORDS] };
        let (hardirqs, softirqs) =
            (Stretches::<STRETCHES>::default(), Stretches::<STRETCHES>::default());
        let ledger = Box::new(Ledger { newest: 0, turns: [turn; TURNS], hardirqs, softirqs });
        let nesting = Nesting::default();
        let (owners, events) = (Vec::new(), Vec::new());
        let mut cpu =
            Self { nesting, ledger, now_ns: BEGIN_NS, tid: 1, switches: 0, owners, events };
        cpu.step(&Step::Switch(1));
        cpu
    }

    fn pass(&mut self, owner: Owner, ns: u64) {
        self.now_ns += ns;
        self.owners.extend((0..ns).map(|_| owner));
    }

    fn note(&mut self, body: &Body) {
        self.events.push(body.stored(0));
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Run(ns) => self.pass(Some(self.tid), *ns),
            Step::Switch(tid) => {
                let (start_ns, taken_ns) = (self.now_ns, self.nesting.taken.all_ns());
                let (cgroup, runner) = (cgroup(*tid), Runner::Task as u32);
                let comm = [0; COMM_WORDS];
                let turn = Turn { start_ns, taken_ns, cgroup, pid: *tid, runner, comm };
                self.ledger.begin_turn(turn);
                self.note(&Body::switch((self.tid, 120), 0, true, (*tid, 120), start_ns));
                self.tid = *tid;
                self.switches += 1;
            }
            Step::Nmi(ns) => {
                self.pass(None, *ns);
                self.nesting.handled_nmi(*ns);
                self.note(&Body::nmi(*ns, self.now_ns));
            }
            Step::Vector(ns, inside) => {
                let vector = |kind, now_ns| Body::vector(kind, Vector::LocalTimer, 236, now_ns);
                self.nesting.enter_vector(Vector::LocalTimer, self.now_ns);
                self.note(&vector(EventKind::VectorEntry, self.now_ns));
                self.pass(None, *ns);
                inside.iter().for_each(|step| self.step(step));
                self.nesting.exit_vector(self.now_ns).unwrap();
                self.note(&vector(EventKind::VectorExit, self.now_ns));
            }
            Step::Softirq(ns, inside) => {
                self.nesting.enter_softirq(1, self.now_ns);
                self.note(&Body::softirq(EventKind::SoftirqEntry, 1, self.now_ns));
                self.pass(None, *ns);
                inside.iter().for_each(|step| self.step(step));
                self.nesting.exit_softirq(1, self.now_ns).unwrap();
                self.note(&Body::softirq(EventKind::SoftirqExit, 1, self.now_ns));
            }
        }
    }

    fn waiting(&self) -> Waiting {
        let taken = self.nesting.taken_by(self.now_ns);
        Waiting { pid: 9, cpu: 0, since_ns: self.now_ns, taken, throttled_ns: 0 }
    }

    /// A wait that ends now, as it is divided live, and the truth.
    fn ended(&self, wait: &Waiting) -> Ended {
        let mut live = Live::default();
        let taken = self.nesting.taken_by(self.now_ns);
        self.ledger.divide_wait(wait, self.now_ns, &taken, 0, &mut live);
        let mut truth = BTreeMap::new();
        for tid in self.owners[(wait.since_ns - BEGIN_NS) as usize..].iter().flatten() {
            *truth.entry(*tid).or_default() += 1;
        }
        (live, truth)
    }
}

fn step() -> impl Strategy<Value = Step> {
    let nmi = || (1u64..9).prop_map(Step::Nmi);
    let vector = move || {
        (1u64..9, proptest::collection::vec(nmi(), 0..2))
            .prop_map(|(ns, inside)| Step::Vector(ns, inside))
    };
    let inside = proptest::collection::vec(prop_oneof![nmi(), vector()], 0..3);
    let softirq = (1u64..9, inside).prop_map(|(ns, inside)| Step::Softirq(ns, inside));
    prop_oneof![
        4 => (0u64..40).prop_map(Step::Run),
        5 => (0u32..6).prop_map(Step::Switch),
        1 => nmi(),
        1 => vector(),
        1 => softirq,
    ]
}

/// Plays the steps over and over, until there were `switches`; notes waits that begin all the time, and those
/// that end at the end of each round.
fn play(steps: &[Step], switches: usize) -> (Cpu, Vec<Ended>) {
    let mut cpu = Cpu::new();
    let (mut waits, mut ended) = (Vec::new(), Vec::new());
    let mut rounds = 0;
    while cpu.switches < switches {
        for (number, step) in steps.iter().enumerate() {
            cpu.step(step);
            if rounds % 8 == 0 && number % 5 == 0 {
                waits.push(cpu.waiting());
            }
        }
        cpu.step(&Step::Switch(3));
        rounds += 1;
        if rounds % 64 == 0 {
            ended.extend(waits.iter().step_by(3).map(|wait| cpu.ended(wait)));
        }
    }
    ended.extend(waits.iter().map(|wait| cpu.ended(wait)));
    (cpu, ended)
}

fn culprits() -> Culprits {
    let mut culprits = Culprits::default();
    (1..6).for_each(|tid| culprits.seen(tid, TurnOwner::task(cgroup(tid)), 1));
    culprits
}

/// The shares of threads in what was forgotten, and what is not known.
fn divided(history: &History, part: &Forgotten, culprits: &Culprits) -> (BTreeMap<u32, u64>, u64) {
    let mut shares = Vec::new();
    history.divide(part, &mut shares);
    assert_eq!(shares.iter().sum::<u64>(), part.left_ns, "{part:?}");
    let (mut threads, mut unknown_ns) = (BTreeMap::new(), 0);
    for (number, ns) in (0..).zip(shares).filter(|(_, ns)| *ns > 0) {
        match culprits.who(number).map(|who| who.blame(VICTIM)) {
            Some((Cause::Idle, _)) => *threads.entry(0).or_default() += ns,
            Some((_, id)) => *threads.entry((id - 100) as u32).or_default() += ns,
            None => unknown_ns += ns,
        }
    }
    (threads, unknown_ns)
}

fn merge(into: &mut BTreeMap<u32, u64>, other: BTreeMap<u32, u64>) {
    for (tid, ns) in other {
        *into.entry(tid).or_default() += ns;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// What the ledger remembers and what the events say make up the truth, to the nanosecond.
    #[test]
    fn what_a_ledger_forgot_is_divided_exactly(
        steps in proptest::collection::vec(step(), 1..40), switches in 1_100usize..3_000,
    ) {
        let (cpu, ended) = play(&steps, switches);
        let (mut history, mut culprits) = (History::default(), culprits());
        for (number, event) in cpu.events.iter().enumerate() {
            if number == cpu.events.len() / 2 {
                // As it comes about where one thread had several numbers.
                (1..4).for_each(|tid| culprits.forked(5, tid, u64::MAX));
                (1..4).for_each(|tid| culprits.seen(tid, TurnOwner::task(cgroup(tid)), u64::MAX));
                history.renumber(&culprits.renumber(history.culprits()));
            }
            history.follow(event, &mut culprits);
        }
        let mut forgotten = 0;
        for (live, truth) in ended {
            let mut threads = live.threads;
            if let Some(part) = live.forgotten {
                forgotten += 1;
                let (shares, unknown_ns) = divided(&history, &part, &culprits);
                prop_assert_eq!(unknown_ns, 0);
                merge(&mut threads, shares);
            }
            prop_assert_eq!(live.untracked_ns, 0);
            prop_assert_eq!(threads, truth);
        }
        let some = steps.iter().any(|step| matches!(step, Step::Run(1..)));
        prop_assert!(forgotten > 0 || !some, "nothing was tested");
    }

    /// What was overwritten, and what was forgotten again, is not known: no thread gets more than the truth,
    /// and the sum is exact.
    #[test]
    fn what_events_lack_is_not_known(
        steps in proptest::collection::vec(step(), 1..40), switches in 1_100usize..2_500,
        gap in proptest::option::of((proptest::prelude::any::<Index>(), 1usize..2_000)),
        blocks in 0usize..6,
    ) {
        let (cpu, ended) = play(&steps, switches);
        let (mut history, mut culprits) = (History::default(), culprits());
        let gap = gap.map_or(0..0, |(first, length)| {
            let first = first.index(cpu.events.len());
            first..first + length
        });
        for (number, event) in cpu.events.iter().enumerate() {
            if gap.contains(&number) {
                continue;
            }
            if number == gap.end && !gap.is_empty() {
                history.miss();
            }
            history.follow(event, &mut culprits);
        }
        let is_long = history.is_long();
        (0..blocks).for_each(|_| history.forget());
        let since_ns = history.since_ns().unwrap();
        for (live, truth) in ended {
            let Some(part) = live.forgotten else { continue };
            let (mut threads, unknown_ns) = divided(&history, &part, &culprits);
            if gap.is_empty() && (blocks == 0 || !is_long || part.since_ns >= since_ns) {
                prop_assert_eq!(unknown_ns, 0);
            }
            merge(&mut threads, live.threads);
            for (tid, ns) in threads {
                let true_ns = truth.get(&tid).copied().unwrap_or(0);
                prop_assert!(ns <= true_ns, "{} ns of {} to {}", ns, true_ns, tid);
            }
        }
    }

    /// Where the hypervisor took some of the time, or what was taken was misread: the sum is exact.
    #[test]
    fn whatever_is_left_is_divided_whole(
        steps in proptest::collection::vec(step(), 1..40),
        since_ns in 0u64..60_000, length_ns in 0u64..60_000, left_ns in 0u64..80_000,
        at in proptest::prelude::any::<Index>(),
    ) {
        let (cpu, _) = play(&steps, 1_100);
        let (mut history, mut culprits) = (History::default(), culprits());
        cpu.events.iter().for_each(|event| history.follow(event, &mut culprits));
        let end_ns = cpu.events[at.index(cpu.events.len())].time_ns;
        for end_ns in [end_ns, since_ns + length_ns] {
            let part = Forgotten { since_ns: since_ns.min(end_ns), end_ns, left_ns };
            divided(&history, &part, &culprits);
        }
        divided(&History::default(), &Forgotten { since_ns, end_ns, left_ns }, &culprits);
    }
}

#[test]
fn the_hypervisors_time_is_that_of_the_oldest_turns() {
    let (mut history, mut culprits) = (History::default(), culprits());
    let switch = |tid, at_ns| Body::switch((9, 120), 0, true, (tid, 120), at_ns).stored(0);
    for (tid, at_ns) in [(1, 100), (2, 200), (3, 300), (4, 400)] {
        history.follow(&switch(tid, at_ns), &mut culprits);
    }
    let part = |left_ns| Forgotten { since_ns: 150, end_ns: 400, left_ns };
    let shares = |left_ns| divided(&history, &part(left_ns), &culprits);
    assert_eq!(shares(250), (BTreeMap::from([(1, 50), (2, 100), (3, 100)]), 0));
    assert_eq!(shares(230), (BTreeMap::from([(1, 30), (2, 100), (3, 100)]), 0));
    assert_eq!(shares(160), (BTreeMap::from([(2, 60), (3, 100)]), 0));
    assert_eq!(shares(40), (BTreeMap::from([(3, 40)]), 0));
    // More than there was time is not known.
    assert_eq!(shares(260), (BTreeMap::from([(1, 50), (2, 100), (3, 100)]), 10));
}

#[test]
fn pauses_of_minutes_are_turns_too() {
    let (mut history, mut culprits) = (History::default(), culprits());
    let minute_ns = 60_000_000_000;
    for (tid, minute) in [(1, 1), (2, 2), (0, 3), (3, 30), (4, 31)] {
        let at_ns = minute * minute_ns;
        let body = Body::switch((9, 120), 0, true, (tid, 120), at_ns);
        history.follow(&body.stored(0), &mut culprits);
    }
    let (since_ns, end_ns) = (minute_ns + minute_ns / 2, 31 * minute_ns);
    let part = Forgotten { since_ns, end_ns, left_ns: end_ns - since_ns };
    let expected = [(0, 27 * minute_ns), (1, minute_ns / 2), (2, minute_ns), (3, minute_ns)];
    assert_eq!(divided(&history, &part, &culprits), (BTreeMap::from(expected), 0));
}

#[test]
fn an_interrupt_whose_end_was_not_written_takes_no_time() {
    let (mut history, mut culprits) = (History::default(), culprits());
    let switch = |tid, at_ns| Body::switch((9, 120), 0, true, (tid, 120), at_ns).stored(0);
    history.follow(&switch(1, 100), &mut culprits);
    history.follow(&Body::irq(EventKind::IrqEntry, 11, 0, 120).stored(0), &mut culprits);
    for (tid, at_ns) in [(2, 200), (3, 300), (4, 400)] {
        history.follow(&switch(tid, at_ns), &mut culprits);
    }
    let part = Forgotten { since_ns: 150, end_ns: 400, left_ns: 250 };
    let expected = BTreeMap::from([(1, 50), (2, 100), (3, 100)]);
    assert_eq!(divided(&history, &part, &culprits), (expected, 0));
}
