//! Nesting, against a CPU whose every nanosecond has a known owner.

use super::*;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use std::vec::Vec;

/// What a CPU does next: for how long by itself, twice, and each time before what interrupts it.
#[derive(Clone, Debug)]
enum Level {
    Nmi { ns: u64 },
    Irq { number: u32, ns: u64, inside: Vec<Level> },
    Vector { ns: u64, inside: Vec<Level> },
    Softirq { vector: u32, ns: u64, inside: Vec<Level> },
}

fn nmi() -> impl Strategy<Value = Level> {
    (1u64..50).prop_map(|ns| Level::Nmi { ns })
}

fn vector() -> impl Strategy<Value = Level> {
    (1u64..50, proptest::collection::vec(nmi(), 0..3))
        .prop_map(|(ns, inside)| Level::Vector { ns, inside })
}

/// Handlers, one inside the other as deep as is followed.
fn irq() -> impl Strategy<Value = Level> {
    let innermost = nmi();
    innermost.prop_recursive(IRQ_DEPTH as u32, 12, 3, |inside| {
        let inside = proptest::collection::vec(inside, 0..3);
        (any::<u32>(), 1u64..50, inside).prop_map(|(number, ns, inside)| Level::Irq {
            number,
            ns,
            inside,
        })
    })
}

fn any_level() -> impl Strategy<Value = Level> {
    let softirq =
        (0u32..10, 1u64..50, proptest::collection::vec(prop_oneof![irq(), vector()], 0..4))
            .prop_map(|(vector, ns, inside)| Level::Softirq { vector, ns, inside });
    prop_oneof![softirq, irq(), vector()]
}

/// A CPU, and what really took its time.
#[derive(Default)]
struct Cpu {
    nesting: Nesting,
    now_ns: u64,
    owned: Taken,
}

impl Cpu {
    fn look(&self) {
        assert_eq!(self.nesting.taken_by(self.now_ns), self.owned);
    }

    /// Runs a level and what interrupts it; `take` says whose time its own is.
    fn around(&mut self, ns: u64, inside: &[Level], take: fn(&mut Taken) -> &mut u64) {
        for _ in 0..2 {
            self.now_ns += ns;
            *take(&mut self.owned) += ns;
            self.look();
            inside.iter().for_each(|level| self.run(level));
        }
    }

    fn run(&mut self, level: &Level) {
        let start_ns = self.now_ns;
        match level {
            Level::Nmi { ns } => {
                self.now_ns += ns;
                self.owned.nmi_ns += ns;
                self.nesting.handled_nmi(*ns);
            }
            Level::Irq { number, ns, inside } => {
                self.nesting.enter_irq(*number, start_ns).unwrap();
                self.around(*ns, inside, |taken| &mut taken.hardirq_ns);
                assert!(self.nesting.in_hardirq());
                let ended = self.nesting.exit_irq(*number, self.now_ns);
                assert_eq!(ended, Ok(Ended { start_ns, net_ns: 2 * ns }));
            }
            Level::Vector { ns, inside } => {
                self.nesting.enter_vector(Vector::LocalTimer, start_ns);
                self.around(*ns, inside, |taken| &mut taken.hardirq_ns);
                assert!(self.nesting.in_hardirq());
                let ended = self.nesting.exit_vector(self.now_ns);
                assert_eq!(ended, Ok(Ended { start_ns, net_ns: 2 * ns }));
            }
            Level::Softirq { vector, ns, inside } => {
                self.nesting.enter_softirq(*vector, start_ns);
                self.around(*ns, inside, |taken| &mut taken.softirq_ns);
                assert!(self.nesting.in_softirq(*vector));
                let ended = self.nesting.exit_softirq(*vector, self.now_ns);
                assert_eq!(ended, Ok(Ended { start_ns, net_ns: 2 * ns }));
                assert!(!self.nesting.in_softirq(*vector));
            }
        }
        self.look();
    }
}

/// An event as the kernel may send it, whatever went before.
#[derive(Clone, Debug)]
enum Event {
    EnterIrq(u32),
    ExitIrq(u32),
    EnterVector,
    ExitVector,
    EnterSoftirq(u32),
    ExitSoftirq(u32),
    Nmi,
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0u32..3).prop_map(Event::EnterIrq),
        (0u32..3).prop_map(Event::ExitIrq),
        proptest::strategy::Just(Event::EnterVector),
        proptest::strategy::Just(Event::ExitVector),
        (0u32..3).prop_map(Event::EnterSoftirq),
        (0u32..3).prop_map(Event::ExitSoftirq),
        proptest::strategy::Just(Event::Nmi),
    ]
}

#[test]
fn a_softirq_whose_task_is_switched_away_from_is_charged_its_own_turns() {
    let (mut nesting, mut suspended) = (Nesting::default(), Suspended::default());
    nesting.enter_softirq(3, 100);
    nesting.enter_irq(7, 110).unwrap();
    nesting.exit_irq(7, 115).unwrap();
    assert_eq!(nesting.suspend_softirq(&mut suspended, 9, 120), Some(3));
    assert_eq!((nesting.running(), nesting.in_softirq(3)), (None, false));
    assert_eq!(nesting.taken_by(500).softirq_ns, 15);
    nesting.enter_irq(7, 600).unwrap();
    nesting.exit_irq(7, 650).unwrap();
    nesting.resume_softirq(&mut suspended, 8, 700);
    assert!(!nesting.in_softirq(3));
    nesting.resume_softirq(&mut suspended, 9, 1_000);
    assert!(nesting.in_softirq(3));
    assert_eq!(nesting.suspend_softirq(&mut suspended, 9, 1_010), Some(3));
    nesting.resume_softirq(&mut suspended, 9, 2_000);
    assert_eq!(nesting.exit_softirq(3, 2_005).map(|ended| ended.net_ns), Ok(5));
    assert_eq!((suspended.before_ns(), suspended.before_ns()), (25, 0));
    assert_eq!((nesting.taken.softirq_ns, nesting.taken.hardirq_ns), (30, 55));
    assert_eq!(nesting.suspend_softirq(&mut suspended, 9, 2_010), None);
}

/// Where two are suspended, the one before is not found again.
#[test]
fn one_softirq_is_suspended_at_a_time() {
    let (mut nesting, mut suspended) = (Nesting::default(), Suspended::default());
    for (vector, pid) in [(1, 8), (3, 9)] {
        nesting.enter_softirq(vector, 100);
        assert_eq!(nesting.suspend_softirq(&mut suspended, pid, 110), Some(vector));
    }
    nesting.resume_softirq(&mut suspended, 8, 200);
    assert_eq!(nesting.exit_softirq(1, 210), Err(Loss::NoStart));
    nesting.resume_softirq(&mut suspended, 9, 300);
    assert_eq!(nesting.exit_softirq(3, 307).map(|ended| ended.net_ns), Ok(7));
    assert_eq!(suspended.before_ns(), 10);
}

#[test]
fn an_irq_inside_a_softirq_is_charged_once() {
    let mut nesting = Nesting::default();
    nesting.enter_softirq(3, 100);
    nesting.enter_irq(7, 150).unwrap();
    nesting.handled_nmi(5);
    assert_eq!(nesting.exit_irq(7, 180), Ok(Ended { start_ns: 150, net_ns: 25 }));
    assert_eq!(nesting.exit_softirq(3, 200), Ok(Ended { start_ns: 100, net_ns: 70 }));
}

#[test]
fn what_begins_and_ends_at_the_same_instant_took_nothing() {
    let mut nesting = Nesting::default();
    nesting.enter_irq(1, 100).unwrap();
    assert_eq!(nesting.exit_irq(1, 100), Ok(Ended { start_ns: 100, net_ns: 0 }));
    assert_eq!(nesting.taken, Taken::default());
}

#[test]
fn a_clock_that_runs_backwards_is_refused() {
    assert_eq!(Frame::open(100, &Taken::default()).net_ns(99, &Taken::default()), None);
    let mut nesting = Nesting::default();
    nesting.enter_irq(1, 100).unwrap();
    nesting.enter_vector(Vector::LocalTimer, 100);
    nesting.enter_softirq(1, 100);
    assert_eq!(nesting.exit_irq(1, 99), Err(Loss::ClockBackwards));
    assert_eq!(nesting.exit_vector(99), Err(Loss::ClockBackwards));
    assert_eq!(nesting.exit_softirq(1, 99), Err(Loss::ClockBackwards));
    assert_eq!(nesting.taken, Taken::default());
}

#[test]
fn an_end_without_its_begin_is_refused() {
    let mut nesting = Nesting::default();
    assert_eq!(nesting.exit_irq(1, 5), Err(Loss::NoStart));
    assert_eq!(nesting.exit_vector(5), Err(Loss::NoStart));
    assert_eq!(nesting.exit_softirq(0, 5), Err(Loss::NoStart));
    nesting.enter_irq(1, 10).unwrap();
    assert_eq!(nesting.exit_irq(2, 11), Err(Loss::NoStart));
    nesting.enter_softirq(1, 20);
    assert_eq!(nesting.exit_softirq(2, 21), Err(Loss::NoStart));
    assert!(is_idle(&nesting));
    assert_eq!(nesting.taken, Taken::default());
}

fn is_idle(nesting: &Nesting) -> bool {
    !nesting.in_hardirq() && nesting.softirq_running == 0
}

#[test]
fn handlers_nest_as_deep_as_is_followed() {
    let mut nesting = Nesting::default();
    for irq in 0..IRQ_DEPTH as u32 {
        nesting.enter_irq(irq, 10 * u64::from(irq)).unwrap();
    }
    assert_eq!(nesting.enter_irq(9, 40), Err(Loss::OutOfRange));
    for irq in (0..IRQ_DEPTH as u32).rev() {
        assert!(nesting.in_hardirq());
        nesting.exit_irq(irq, 60 - u64::from(irq)).unwrap();
    }
    assert!(!nesting.in_hardirq());
    assert_eq!(nesting.taken.hardirq_ns, 60);
}

proptest! {
    /// What is taken is known at any moment, whatever is nested how; each level has its own time.
    #[test]
    fn every_nanosecond_has_one_owner(
        levels in proptest::collection::vec((0u64..100, any_level()), 0..20),
    ) {
        let mut cpu = Cpu { now_ns: 1_000, ..Cpu::default() };
        for (idle_ns, level) in &levels {
            cpu.now_ns += idle_ns;
            cpu.run(level);
        }
        prop_assert_eq!(cpu.nesting.taken, cpu.owned);
        prop_assert!(is_idle(&cpu.nesting));
    }

    /// Events that were not seen leave nothing behind for those that are.
    #[test]
    fn what_was_lost_takes_no_more_time_than_there_was(
        events in proptest::collection::vec((1u64..100, any_event()), 0..60),
    ) {
        let mut nesting = Nesting::default();
        let begin_ns = 1_000;
        let mut now_ns = begin_ns;
        for (ns, event) in events {
            now_ns += ns;
            let ended = match event {
                Event::EnterIrq(irq) => {
                    let _ = nesting.enter_irq(irq, now_ns);
                    continue;
                }
                Event::EnterVector => {
                    nesting.enter_vector(Vector::LocalTimer, now_ns);
                    continue;
                }
                Event::EnterSoftirq(vector) => {
                    nesting.enter_softirq(vector, now_ns);
                    continue;
                }
                Event::Nmi => {
                    nesting.handled_nmi(ns);
                    continue;
                }
                Event::ExitIrq(irq) => nesting.exit_irq(irq, now_ns),
                Event::ExitVector => nesting.exit_vector(now_ns),
                Event::ExitSoftirq(vector) => nesting.exit_softirq(vector, now_ns),
            };
            if let Ok(Ended { start_ns, net_ns }) = ended {
                prop_assert!(start_ns >= begin_ns && net_ns <= now_ns - start_ns);
            }
            prop_assert!(nesting.taken.interrupts_ns() <= now_ns - begin_ns);
            prop_assert!(nesting.taken.softirq_ns <= now_ns - begin_ns);
        }
        nesting.enter_vector(Vector::LocalTimer, now_ns);
        prop_assert_eq!(nesting.exit_vector(now_ns + 9), Ok(Ended { start_ns: now_ns, net_ns: 9 }));
        nesting.enter_softirq(4, now_ns + 10);
        prop_assert!(nesting.exit_softirq(4, now_ns + 20).is_ok());
    }
}

#[test]
fn the_innermost_that_runs_is_named() {
    let mut nesting = Nesting::default();
    assert_eq!(nesting.running(), None);
    nesting.enter_softirq(4, 10);
    assert_eq!(nesting.running(), Some((Cause::Softirq, 4)));
    nesting.enter_irq(24, 20).unwrap();
    nesting.enter_irq(25, 21).unwrap();
    assert_eq!(nesting.running(), Some((Cause::Hardirq, 25)));
    nesting.enter_vector(Vector::IrqWork, 22);
    let vector = VECTOR_SOURCE | Vector::IrqWork as u64;
    assert_eq!(nesting.running(), Some((Cause::Hardirq, vector)));
    nesting.exit_vector(23).unwrap();
    nesting.exit_irq(25, 24).unwrap();
    assert_eq!(nesting.running(), Some((Cause::Hardirq, 24)));
    nesting.exit_irq(24, 25).unwrap();
    nesting.exit_softirq(4, 26).unwrap();
    assert_eq!(nesting.running(), None);
}
