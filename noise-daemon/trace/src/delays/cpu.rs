//! What is remembered of each CPU: who ran on it, and what interrupts took from it.

use noise_common::charge::{Cause, VECTOR_SOURCE};
use noise_common::ledger::{
    COMM_WORDS, Ledger, Parts, Runner, STRETCHES, Stretches, TURNS, Takes, Turn, Waiting, Walk,
};
use noise_common::nesting::{Ended, Nesting, Taken};

use super::older::{Older, Over};
use super::sums::{Party, Sums};
use crate::contexts::nest;
use crate::event::{Comm, Event, Task, TraceKind};
use crate::follow::{PerCpu, Processor};

pub struct Cpu {
    ledger: Box<Ledger>,
    /// What the ledger has forgotten.
    older: Older,
    /// What runs of interrupts, and what they took.
    pub nesting: Nesting,
    pub runs: Processor,
}

/// All that had events.
#[derive(Default)]
pub struct Cpus(PerCpu<Option<Cpu>>);

fn empty_ledger() -> Ledger {
    let turn =
        Turn { start_ns: 0, taken_ns: 0, cgroup: 0, pid: 0, runner: 0, comm: [0; COMM_WORDS] };
    Ledger {
        newest: 0,
        turns: [turn; TURNS],
        hardirqs: Stretches::<STRETCHES>::default(),
        softirqs: Stretches::<STRETCHES>::default(),
    }
}

fn words(comm: &Comm) -> [u64; COMM_WORDS] {
    let word = |from: usize| {
        let mut bytes = [0; 8];
        for (place, byte) in bytes.iter_mut().zip(comm.0.iter().skip(from)) {
            *place = *byte;
        }
        u64::from_ne_bytes(bytes)
    };
    [word(0), word(8)]
}

fn comm(words: &[u64; COMM_WORDS]) -> Comm {
    let mut bytes = [0; 16];
    for (place, byte) in bytes.iter_mut().zip(words.iter().flat_map(|word| word.to_ne_bytes())) {
        *place = byte;
    }
    Comm(bytes)
}

/// Takes the parts of one wait.
struct WaitDivision<'a> {
    walk: Walk,
    older: &'a Older,
    sums: &'a mut Sums,
}

/// Runs a turn of which only its begin is known: events are lost from then on.
const UNKNOWN_RUNNER: u32 = u32::MAX;

fn party(turn: &Turn) -> Party {
    if turn.runner == UNKNOWN_RUNNER {
        return Party::Other { cause: Cause::Untracked, source: 0 };
    }
    let tid = turn.pid.cast_signed();
    let cause = if turn.runner == Runner::Idle as u32 { Cause::Idle } else { Cause::Foreign };
    Party::Thread { cause, tid }
}

impl Takes for WaitDivision<'_> {
    fn turn(&mut self, turn: &Turn, ns: u64) {
        self.sums.add(party(turn), comm(&turn.comm), ns);
    }

    fn other(&mut self, cause: Cause, source: u64, ns: u64) {
        self.sums.add(Party::Other { cause, source }, Comm::default(), ns);
    }
}

impl Parts for WaitDivision<'_> {
    fn walk(&mut self) -> &mut Walk {
        &mut self.walk
    }

    fn rest(&mut self) {
        let left_ns = match self.walk.older() {
            Some(old) => self.older.divide(&old, self.walk.is_net(), self.sums),
            None => self.walk.left_ns(),
        };
        untracked(left_ns, self.sums);
    }
}

/// Memory for the turns that the ledgers of all CPUs have forgotten, bytes.
const MOST_TURN_BYTES: usize = 32 << 20;

impl Cpus {
    /// Another thread runs on a CPU from now on.
    pub fn begin_turn(&mut self, cpu: u32, next: &Task, now_ns: u64) {
        let most_bytes = MOST_TURN_BYTES / self.0.all().len().max(1);
        if let Some(cpu) = self.get(cpu) {
            cpu.begin_turn(next, now_ns, most_bytes);
        }
    }

    /// After an exec, the thread that runs has the id of its process's first thread.
    pub fn rename(&mut self, cpu: u32, old_tid: i32, tid: i32, now_ns: u64) {
        let runner = self.known(cpu).and_then(Cpu::runner);
        if let Some((_, comm)) = runner.filter(|(runner, _)| *runner == old_tid) {
            self.begin_turn(cpu, &Task { tid, comm, prio: 0 }, now_ns);
        }
    }

    /// Events of a CPU are lost from now on: up to the next switch it is not known who runs there, and what
    /// runs of interrupts is forgotten. The thread that ran until now.
    pub fn miss(&mut self, cpu: u32, now_ns: u64) -> Option<i32> {
        let most_bytes = MOST_TURN_BYTES / self.0.all().len().max(1);
        self.get(cpu)?.miss(now_ns, most_bytes)
    }

    /// No interrupt lasts over a switch: those whose exit was lost are forgotten, with what they took.
    pub fn end_interrupts(&mut self, cpu: u32) {
        let cpu = self.0.of(cpu).and_then(Option::as_mut);
        if let Some(cpu) = cpu.filter(|cpu| cpu.nesting.running().is_some()) {
            cpu.forget_interrupts();
        }
    }

    /// A CPU, where it is one.
    pub fn get(&mut self, cpu: u32) -> Option<&mut Cpu> {
        let place = self.0.of(cpu)?;
        Some(place.get_or_insert_with(|| Cpu {
            ledger: Box::new(empty_ledger()),
            older: Older::default(),
            nesting: Nesting::default(),
            runs: Processor::default(),
        }))
    }

    /// A CPU that had events.
    pub fn known(&self, cpu: u32) -> Option<&Cpu> {
        self.0.get(cpu)?.as_ref()
    }

    /// How often events of a CPU were lost.
    pub fn losses(&self, cpu: u32) -> u32 {
        self.known(cpu).map_or(0, |cpu| cpu.runs.losses())
    }

    /// What has been taken from a CPU up to then.
    pub fn taken(&self, cpu: u32, now_ns: u64) -> Taken {
        self.known(cpu).map(|cpu| cpu.nesting.taken_by(now_ns)).unwrap_or_default()
    }

    /// Divides a wait on one CPU among the threads that ran there, interrupts included.
    pub fn divide_whole(&self, cpu: u32, from_ns: u64, to_ns: u64, sums: &mut Sums) {
        match self.known(cpu) {
            Some(cpu) => {
                let mut division = WaitDivision { walk: Walk::default(), older: &cpu.older, sums };
                cpu.ledger.divide_among_turns(from_ns, to_ns, &mut division);
            }
            None => untracked(to_ns.saturating_sub(from_ns), sums),
        }
    }

    /// Divides a wait as it is done live: what its quota took comes first, else what interrupts did. How much of it was
    /// the quota's lies in the wait.
    pub fn divide(&self, wait: &Waiting, to_ns: u64, taken: &Taken, sums: &mut Sums) {
        match self.known(wait.cpu) {
            Some(cpu) => {
                let mut division = WaitDivision { walk: Walk::default(), older: &cpu.older, sums };
                cpu.ledger.divide_wait(wait, to_ns, taken, wait.throttled_ns, &mut division);
            }
            None => untracked(to_ns.saturating_sub(wait.since_ns), sums),
        }
    }
}

fn untracked(ns: u64, sums: &mut Sums) {
    if ns == 0 {
        return;
    }
    sums.add(Party::Other { cause: Cause::Untracked, source: 0 }, Comm::default(), ns);
}

impl Cpu {
    /// The thread that runs, where a switch went to it.
    pub fn runner(&self) -> Option<(i32, Comm)> {
        let turn = self.ledger.turns.get((self.ledger.newest % TURNS as u64) as usize)?;
        Some((self.runs.current()?, comm(&turn.comm)))
    }

    /// Another thread runs from now on. What the ledger forgets takes no more than about so many bytes.
    fn begin_turn(&mut self, next: &Task, now_ns: u64, most_bytes: usize) {
        self.runs.goes_to(Some(next.tid), now_ns);
        let runner = if next.tid == 0 { Runner::Idle } else { Runner::Task };
        self.turn(next, runner as u32, now_ns, most_bytes);
    }

    fn turn(&mut self, task: &Task, runner: u32, now_ns: u64, most_bytes: usize) {
        self.forget_oldest(most_bytes);
        self.ledger.begin_turn(Turn {
            start_ns: now_ns,
            taken_ns: self.nesting.taken_by(now_ns).all_ns(),
            cgroup: 0,
            pid: task.tid.cast_unsigned(),
            runner,
            comm: words(&task.comm),
        });
    }

    fn miss(&mut self, now_ns: u64, most_bytes: usize) -> Option<i32> {
        self.forget_interrupts();
        self.turn(&Task::default(), UNKNOWN_RUNNER, now_ns, most_bytes);
        self.runs.lose()
    }

    /// What runs of interrupts is not known any more, and what it took neither. What others took before stays.
    pub fn forget_interrupts(&mut self) {
        let taken = std::mem::take(&mut self.nesting).taken;
        self.nesting.taken = taken;
    }

    /// Keeps the turn that the ledger is about to forget.
    fn forget_oldest(&mut self, most_bytes: usize) {
        let at = |number: u64| self.ledger.turns.get((number % TURNS as u64) as usize);
        let oldest = self.ledger.newest.wrapping_add(1);
        let (Some(turn), Some(next)) = (at(oldest), at(oldest.wrapping_add(1))) else { return };
        if turn.start_ns == 0 {
            return;
        }
        let over = Over {
            party: party(turn),
            comm: comm(&turn.comm),
            start_ns: turn.start_ns,
            end_ns: next.start_ns,
            taken_ns: next.taken_ns.saturating_sub(turn.taken_ns),
        };
        self.older.push(over, most_bytes);
    }

    /// Follows an interrupt's begin or end. What ended.
    pub fn interrupt(&mut self, event: &Event<'_>) -> Option<Ended> {
        let ended = nest(&mut self.nesting, event)?;
        let taken = &self.nesting.taken;
        match &event.kind {
            TraceKind::IrqHandlerExit { irq, .. } => {
                self.ledger.hardirqs.note((*irq).into(), taken.hardirq_ns);
            }
            TraceKind::VectorExit { which, .. } => {
                let source = VECTOR_SOURCE | *which as u64;
                self.ledger.hardirqs.note(source, taken.hardirq_ns);
            }
            TraceKind::SoftirqExit { vec } => {
                self.ledger.softirqs.note((*vec).into(), taken.softirq_ns)
            }
            _ => {}
        }
        Some(ended)
    }
}
