//! The arithmetic, against a CPU whose every nanosecond has a known owner.

use super::*;
use crate::hooks::Vector;
use crate::nesting::Nesting;
use proptest::array::uniform4;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::Index;
use std::boxed::Box;
use std::collections::BTreeMap;
use std::vec::Vec;

/// Who owns a nanosecond: a cause, and its culprit (the pid of a turn).
type Owner = (Cause, u64);

/// Parts summed up by owner.
#[derive(Default, Debug)]
struct Sums(BTreeMap<Owner, u64>, Walk);

impl Parts for Sums {
    fn walk(&mut self) -> &mut Walk {
        &mut self.1
    }
}

impl Takes for Sums {
    fn turn(&mut self, turn: &Turn, ns: u64) {
        self.other(Cause::Foreign, u64::from(turn.pid), ns);
    }
    fn other(&mut self, cause: Cause, culprit: u64, ns: u64) {
        assert!(ns > 0, "an empty part of {cause:?}");
        *self.0.entry((cause, culprit)).or_default() += ns;
    }
}

/// A CPU whose every nanosecond has a known owner.
struct Cpu {
    nesting: Nesting,
    ledger: Box<Ledger>,
    now_ns: u64,
    owners: Vec<Owner>,
}

const BEGIN_NS: u64 = 1_000;

impl Cpu {
    fn new() -> Self {
        // SAFETY: all fields are valid when zero.
        let ledger = unsafe { Box::<Ledger>::new_zeroed().assume_init() };
        let nesting = Nesting::default();
        let mut cpu = Self { nesting, ledger, now_ns: BEGIN_NS, owners: Vec::new() };
        cpu.switch(1);
        cpu
    }

    fn pass(&mut self, owner: Owner, ns: u64) {
        self.now_ns += ns;
        self.owners.extend((0..ns).map(|_| owner));
    }

    fn switch(&mut self, pid: u32) {
        let taken_ns = self.nesting.taken.all_ns();
        let (start_ns, runner, comm) = (self.now_ns, Runner::Task as u32, [0; COMM_WORDS]);
        self.ledger.begin_turn(Turn { start_ns, taken_ns, cgroup: 0, pid, runner, comm });
    }

    /// An interrupt of `level` with what it is interrupted by; `look` is called
    /// before and after each step.
    fn interrupt(&mut self, level: &Level, look: &mut impl FnMut(&Self)) {
        match level {
            Level::Nmi { ns } => {
                self.pass((Cause::Nmi, 0), *ns);
                self.nesting.handled_nmi(*ns);
            }
            Level::Hardirq { source, ns, inside } => {
                let owner = (Cause::Hardirq, u64::from(*source));
                self.nesting.enter_vector(Vector::LocalTimer, self.now_ns);
                self.pass(owner, *ns);
                look(self);
                inside.iter().for_each(|level| self.interrupt(level, look));
                self.pass(owner, *ns);
                self.nesting.exit_vector(self.now_ns).unwrap();
                let total = self.nesting.taken.hardirq_ns;
                self.ledger.hardirqs.note(u64::from(*source), total);
            }
            Level::Softirq { source, ns, inside } => {
                let owner = (Cause::Softirq, u64::from(*source));
                self.nesting.enter_softirq((*source).into(), self.now_ns);
                self.pass(owner, *ns);
                look(self);
                inside.iter().for_each(|level| self.interrupt(level, look));
                self.pass(owner, *ns);
                self.nesting.exit_softirq((*source).into(), self.now_ns).unwrap();
                let total = self.nesting.taken.softirq_ns;
                self.ledger.softirqs.note(u64::from(*source), total);
            }
        }
        look(self);
    }

    fn waiting(&self) -> Waiting {
        let taken = self.nesting.taken_by(self.now_ns);
        Waiting { pid: 9, cpu: 0, since_ns: self.now_ns, taken, throttled_ns: 0 }
    }

    fn divided(&self, wait: &Waiting, throttled_ns: u64) -> Sums {
        let mut sums = Sums::default();
        let taken = self.nesting.taken_by(self.now_ns);
        self.ledger.divide_wait(wait, self.now_ns, &taken, throttled_ns, &mut sums);
        sums
    }

    /// The parts of a wait that needs no steps.
    fn divided_simply(&self, wait: &Waiting) -> Option<Sums> {
        let mut sums = Sums::default();
        let taken = self.nesting.taken_by(self.now_ns);
        self.ledger.divide_simple_wait(wait, self.now_ns, &taken, &mut sums).then_some(sums)
    }

    fn owned(&self, since_ns: u64) -> Sums {
        let mut sums = Sums::default();
        for owner in &self.owners[(since_ns - BEGIN_NS) as usize..] {
            *sums.0.entry(*owner).or_default() += 1;
        }
        sums
    }
}

#[derive(Clone, Debug)]
enum Level {
    Nmi { ns: u64 },
    Hardirq { source: u8, ns: u64, inside: Vec<Level> },
    Softirq { source: u8, ns: u64, inside: Vec<Level> },
}

#[derive(Clone, Debug)]
enum Step {
    Run { ns: u64 },
    Switch { pid: u32 },
    Interrupt(Level),
}

fn nmi() -> impl Strategy<Value = Level> {
    (1u64..20).prop_map(|ns| Level::Nmi { ns })
}

fn hardirq() -> impl Strategy<Value = Level> {
    (0u8..3, 1u64..20, proptest::collection::vec(nmi(), 0..2))
        .prop_map(|(source, ns, inside)| Level::Hardirq { source, ns, inside })
}

fn softirq() -> impl Strategy<Value = Level> {
    let inside = proptest::collection::vec(prop_oneof![nmi(), hardirq()], 0..3);
    (0u8..3, 1u64..20, inside).prop_map(|(source, ns, inside)| Level::Softirq {
        source,
        ns,
        inside,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0u64..60).prop_map(|ns| Step::Run { ns }),
        3 => (1u32..6).prop_map(|pid| Step::Switch { pid }),
        2 => prop_oneof![nmi(), hardirq(), softirq()].prop_map(Step::Interrupt),
    ]
}

/// Plays the steps, with waits that begin at every possible moment.
fn play(steps: &[Step]) -> (Cpu, Vec<Waiting>) {
    let mut cpu = Cpu::new();
    let mut pid = 1;
    let mut waits = Vec::new();
    for step in steps {
        match step {
            Step::Run { ns } => cpu.pass((Cause::Foreign, u64::from(pid)), *ns),
            Step::Switch { pid: next } => {
                pid = *next;
                cpu.switch(pid);
            }
            Step::Interrupt(level) => {
                cpu.interrupt(level, &mut |cpu| waits.push(cpu.waiting()));
            }
        }
        waits.push(cpu.waiting());
    }
    (cpu, waits)
}

proptest! {
    /// As long as all is remembered, each owner gets exactly its nanoseconds.
    #[test]
    fn every_nanosecond_is_charged_to_its_owner(
        steps in proptest::collection::vec(step(), 1..40)
    ) {
        let (cpu, waits) = play(&steps);
        for wait in &waits {
            prop_assert_eq!(cpu.divided(wait, 0).0, cpu.owned(wait.since_ns).0);
            if let Some(simply) = cpu.divided_simply(wait) {
                prop_assert_eq!(simply.0, cpu.owned(wait.since_ns).0);
            }
        }
    }

    /// What interrupts took from those who ran is charged to its owners, too.
    #[test]
    fn every_interrupted_nanosecond_is_charged_to_its_owner(
        steps in proptest::collection::vec(step(), 1..40)
    ) {
        let (cpu, waits) = play(&steps);
        for wait in &waits {
            let (taken, length_ns) = (cpu.nesting.taken_by(cpu.now_ns), cpu.now_ns - wait.since_ns);
            let mut owned = cpu.owned(wait.since_ns);
            owned.0.retain(|(cause, _), _| *cause != Cause::Foreign);
            let (mut sums, mut simply) = (Sums::default(), Sums::default());
            let ledger = &cpu.ledger;
            ledger.divide_running(&wait.taken, &taken, length_ns, &mut sums);
            prop_assert_eq!(&sums.0, &owned.0);
            if ledger.divide_simple_running(&wait.taken, &taken, length_ns, &mut simply) {
                prop_assert_eq!(&simply.0, &owned.0);
            }
        }
    }

    /// Whatever is forgotten, and however much was throttled: the parts sum to the wait.
    #[test]
    fn parts_sum_to_the_wait(
        steps in proptest::collection::vec(step(), 1..300),
        throttled_ns in 0u64..10_000,
        throttles in any::<bool>(),
    ) {
        let (cpu, waits) = play(&steps);
        for wait in &waits {
            let throttled_ns = if throttles { throttled_ns } else { 0 };
            let sums = cpu.divided(wait, throttled_ns);
            prop_assert_eq!(sums.0.values().sum::<u64>(), cpu.now_ns - wait.since_ns);
            let throttled = sums.0.get(&(Cause::Throttle, 0)).copied().unwrap_or(0);
            prop_assert_eq!(throttled, throttled_ns.min(cpu.now_ns - wait.since_ns));
        }
    }

    /// Totals that another CPU read at a bad moment cost exactness, never the sum.
    #[test]
    fn torn_readings_keep_the_sum(
        steps in proptest::collection::vec(step(), 1..60),
        at in any::<Index>(),
        torn in uniform4(proptest::option::of(0u64..2_000)),
        torn_since_ns in proptest::option::of(0u64..5_000),
    ) {
        let (cpu, waits) = play(&steps);
        let read = at.get(&waits);
        let taken = Taken {
            nmi_ns: torn[0].unwrap_or(read.taken.nmi_ns),
            hardirq_ns: torn[1].unwrap_or(read.taken.hardirq_ns),
            softirq_ns: torn[2].unwrap_or(read.taken.softirq_ns),
            stolen_ns: torn[3].unwrap_or(read.taken.stolen_ns),
        };
        let since_ns = torn_since_ns.unwrap_or(read.since_ns);
        let wait = Waiting { since_ns, taken, ..Waiting::default() };
        let sums = cpu.divided(&wait, 0);
        let length_ns = cpu.now_ns.saturating_sub(since_ns);
        prop_assert_eq!(sums.0.values().sum::<u64>(), length_ns);
        prop_assert!(sums.0.values().all(|ns| *ns <= length_ns));
        if let Some(simply) = cpu.divided_simply(&wait) {
            prop_assert_eq!(simply.0.values().sum::<u64>(), length_ns);
        }
    }
}

#[test]
fn most_waits_need_no_steps() {
    let mut cpu = Cpu::new();
    cpu.pass((Cause::Foreign, 1), 10);
    let wait = cpu.waiting();
    assert_eq!(cpu.divided_simply(&wait).unwrap().0, BTreeMap::new());
    let level = Level::Softirq { source: 2, ns: 5, inside: Vec::new() };
    cpu.interrupt(&level, &mut |_| {});
    cpu.pass((Cause::Foreign, 1), 7);
    let expected = [((Cause::Foreign, 1), 7), ((Cause::Softirq, 2), 10)];
    assert_eq!(cpu.divided_simply(&wait).unwrap().0, BTreeMap::from(expected));
    cpu.switch(2);
    assert!(cpu.divided_simply(&wait).is_none());
}

#[test]
fn a_wait_that_is_all_interrupts_needs_no_steps() {
    let hardirq = Level::Hardirq { source: 3, ns: 5, inside: Vec::new() };
    let softirq = Level::Softirq { source: 2, ns: 6, inside: Vec::new() };
    for (level, part) in
        [(hardirq, ((Cause::Hardirq, 3), 10)), (softirq, ((Cause::Softirq, 2), 12))]
    {
        let mut cpu = Cpu::new();
        let wait = cpu.waiting();
        cpu.interrupt(&level, &mut |_| {});
        assert_eq!(cpu.divided_simply(&wait).unwrap().0, BTreeMap::from([part]));
    }
}

#[test]
fn what_nmis_and_the_hypervisor_took_before_takes_no_steps_later() {
    let mut cpu = Cpu::new();
    cpu.interrupt(&Level::Nmi { ns: 3 }, &mut |_| {});
    cpu.nesting.taken.stolen_ns += 4;
    let wait = cpu.waiting();
    let level = Level::Softirq { source: 2, ns: 5, inside: Vec::new() };
    cpu.interrupt(&level, &mut |_| {});
    cpu.pass((Cause::Foreign, 1), 7);
    let expected = [((Cause::Foreign, 1), 7), ((Cause::Softirq, 2), 10)];
    assert_eq!(cpu.divided_simply(&wait).unwrap().0, BTreeMap::from(expected));
    let mut running = Sums::default();
    let taken = cpu.nesting.taken_by(cpu.now_ns);
    assert!(cpu.ledger.divide_simple_running(&wait.taken, &taken, 17, &mut running));
    assert_eq!(running.0, BTreeMap::from([((Cause::Softirq, 2), 10)]));
}

#[test]
fn nmis_and_the_hypervisor_need_steps_even_where_both_take_as_much() {
    for (nmi_ns, stolen_ns) in [(4, 0), (0, 4), (4, 4)] {
        let mut cpu = Cpu::new();
        let wait = cpu.waiting();
        cpu.now_ns += nmi_ns + stolen_ns;
        cpu.nesting.taken.nmi_ns += nmi_ns;
        cpu.nesting.taken.stolen_ns += stolen_ns;
        cpu.pass((Cause::Foreign, 1), 9);
        assert!(cpu.divided_simply(&wait).is_none());
        let (taken, mut running) = (cpu.nesting.taken_by(cpu.now_ns), Sums::default());
        assert!(!cpu.ledger.divide_simple_running(&wait.taken, &taken, 17, &mut running));
        let parts = cpu.divided(&wait, 0).0;
        let of = |cause, culprit| parts.get(&(cause, culprit)).copied().unwrap_or(0);
        assert_eq!((of(Cause::Nmi, 0), of(Cause::Steal, 0)), (nmi_ns, stolen_ns));
        assert_eq!(of(Cause::Foreign, 1), 9);
    }
}

#[test]
fn interrupts_that_took_more_than_the_wait_together_need_steps() {
    let mut cpu = Cpu::new();
    let torn = Waiting { since_ns: BEGIN_NS + 7, ..cpu.waiting() };
    cpu.interrupt(&Level::Hardirq { source: 3, ns: 5, inside: Vec::new() }, &mut |_| {});
    cpu.interrupt(&Level::Softirq { source: 2, ns: 6, inside: Vec::new() }, &mut |_| {});
    assert!(cpu.divided_simply(&torn).is_none());
    let expected = [((Cause::Hardirq, 3), 10), ((Cause::Softirq, 2), 5)];
    assert_eq!(cpu.divided(&torn, 0).0, BTreeMap::from(expected));
}

#[test]
fn what_scrolled_out_is_untracked() {
    let mut cpu = Cpu::new();
    let wait = cpu.waiting();
    for pid in 0..2 * TURNS as u32 {
        cpu.pass((Cause::Foreign, 0), 10);
        cpu.switch(pid);
    }
    let sums = cpu.divided(&wait, 0);
    assert_eq!(sums.0[&(Cause::Untracked, 0)], 10 * (TURNS as u64 + 1));
}

#[test]
fn what_scrolled_out_is_known_as_a_part() {
    let mut cpu = Cpu::new();
    let wait = cpu.waiting();
    for pid in 0..2 * TURNS as u32 {
        cpu.pass((Cause::Foreign, 0), 10);
        cpu.switch(pid);
    }
    let end_ns = cpu.now_ns - 10 * (TURNS as u64 - 1);
    let part = Forgotten { since_ns: BEGIN_NS, end_ns, left_ns: end_ns - BEGIN_NS };
    let walk = cpu.divided(&wait, 0).1;
    assert_eq!((walk.older(), walk.forgotten(), walk.is_net()), (Some(part), Some(part), true));
    // Behind a throttle, interrupts count for those whom they interrupted.
    let part = Forgotten { since_ns: BEGIN_NS + 10, left_ns: part.left_ns - 10, ..part };
    let walk = cpu.divided(&wait, 10).1;
    assert_eq!((walk.older(), walk.forgotten(), walk.is_net()), (Some(part), None, false));
    let wait = cpu.waiting();
    cpu.pass((Cause::Foreign, 0), 10);
    let walk = cpu.divided(&wait, 0).1;
    assert_eq!((walk.older(), walk.left_ns()), (None, 0));
}

#[test]
fn turns_alone_have_what_interrupted_them() {
    let mut cpu = Cpu::new();
    cpu.pass((Cause::Foreign, 1), 10);
    let hardirq = Level::Hardirq { source: 3, ns: 5, inside: Vec::new() };
    cpu.interrupt(&hardirq, &mut |_| {});
    cpu.switch(2);
    cpu.pass((Cause::Foreign, 2), 7);
    let mut sums = Sums::default();
    cpu.ledger.divide_among_turns(BEGIN_NS + 4, cpu.now_ns - 2, &mut sums);
    let expected = [((Cause::Foreign, 1), 16), ((Cause::Foreign, 2), 5)];
    assert_eq!(sums.0, BTreeMap::from(expected));
}

#[test]
fn a_class_whose_sources_scrolled_out_keeps_its_time() {
    let mut cpu = Cpu::new();
    let wait = cpu.waiting();
    for number in 0..2 * STRETCHES as u64 {
        let level = Level::Hardirq { source: (number % 2) as u8, ns: 5, inside: Vec::new() };
        cpu.interrupt(&level, &mut |_| {});
    }
    let sums = cpu.divided(&wait, 0);
    let hardirq = |source| sums.0.get(&(Cause::Hardirq, source)).copied().unwrap_or(0);
    assert_eq!(hardirq(0) + hardirq(1), 10 * (STRETCHES as u64 - 1));
    assert_eq!(hardirq(UNKNOWN), 10 * (STRETCHES as u64 + 1));
}

#[test]
fn a_wait_that_begins_or_ends_as_real_time_was_not_throttled() {
    for (begin_ns, end_ns, expected) in
        [(5, 9, 4), (9, 5, 0), (UNKNOWN, 9, 0), (5, UNKNOWN, 0), (0, UNKNOWN, 0)]
    {
        assert_eq!(throttled_between(begin_ns, end_ns), expected);
    }
}
