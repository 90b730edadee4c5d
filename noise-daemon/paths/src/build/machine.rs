//! What is known of one recording's threads and CPUs at the moment.

use std::collections::HashMap;

use noise_common::hooks::Vector;
use noise_trace::contexts::{Context, Contexts};
use noise_trace::event::{Event, Kind};
use noise_trace::sight::{Gap, Sight};
use noise_trace::threads::{MAX_CPUS, MAX_TID};

use crate::graph::{Link, WorkerId};
use crate::state::State;

/// Interrupts whose kind is kept.
const MAX_LINES: usize = 65_536;
/// Threads whose workers lie beside each other.
const PAGE: usize = 256;
/// Gaps within one sleep that are kept apart.
const MOST_GAPS: usize = 64;
/// No worker.
const NONE: WorkerId = WorkerId(u32::MAX);

/// What a device interrupt is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Disk,
    Timer,
    Other,
}

impl Line {
    /// By the name that its driver gave: interrupts of disks and of timers are known where a trace has no events of
    /// block requests or timers.
    fn named(name: &[u8]) -> Self {
        const DISKS: [&[u8]; 10] = [
            b"nvme", b"ahci", b"ata_", b"mmc", b"sdhci", b"megasas", b"mpt2sas", b"mpt3sas",
            b"hpsa", b"ufshcd",
        ];
        const TIMERS: [&[u8]; 4] = [b"arch_timer", b"arch_sys_timer", b"hpet", b"timer"];
        let is_disk_of_virtio =
            || name.starts_with(b"virtio") && name.windows(4).any(|part| part == b"-req");
        if DISKS.iter().any(|disk| name.starts_with(disk)) || is_disk_of_virtio() {
            Self::Disk
        } else if TIMERS.contains(&name) {
            Self::Timer
        } else {
            Self::Other
        }
    }
}

/// Who sent an interrupt to a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A thread.
    Task(Link),
    /// An interrupt of that kind.
    Interrupt(State),
    /// One of several.
    Unclear,
}

/// A packet that a CPU handles.
#[derive(Clone, Copy, Debug)]
pub struct Handled {
    /// What it is known by.
    pub key: u64,
    /// Who sent it.
    pub link: Link,
}

/// What is known of a CPU.
#[derive(Clone, Debug, Default)]
pub struct Cpu {
    /// Who runs, by the latest switch.
    pub current: Option<WorkerId>,
    /// Its idle task.
    pub idle: Option<WorkerId>,
    /// The kernel's own worker there.
    pub kernel: Option<WorkerId>,
    /// Whether a thread hands packets up.
    pub receives: bool,
    /// Whether the thread that runs is in the system call of locks.
    pub in_futex: bool,
    /// The packet that is handled, where its sender is known.
    pub packet: Option<Handled>,
    /// Who sent the interrupt that it handles, or will handle next.
    pub interrupted_by: Option<Sender>,
    /// Whether a block request has completed in the interrupt that runs.
    completes: bool,
    contexts: Contexts,
}

impl Cpu {
    /// Another thread runs from now on, or it is not known which.
    pub fn leave(&mut self) {
        (self.packet, self.receives) = (None, false);
    }
}

/// Workers by the ids of their threads.
#[derive(Debug, Default)]
struct Workers(Vec<Option<Box<[WorkerId; PAGE]>>>);

impl Workers {
    fn get(&self, tid: i32) -> Option<WorkerId> {
        let tid = usize::try_from(tid).ok()?;
        let page = self.0.get(tid / PAGE)?.as_deref()?;
        page.get(tid % PAGE).copied().filter(|id| *id != NONE)
    }

    fn set(&mut self, tid: i32, id: WorkerId) {
        let Some(tid) = usize::try_from(tid).ok().filter(|tid| *tid < MAX_TID as usize) else {
            return;
        };
        if tid / PAGE >= self.0.len() {
            self.0.resize_with(tid / PAGE + 1, || None);
        }
        let page = self
            .0
            .get_mut(tid / PAGE)
            .map(|page| page.get_or_insert_with(|| Box::new([NONE; PAGE])));
        if let Some(place) = page.and_then(|page| page.get_mut(tid % PAGE)) {
            *place = id;
        }
    }
}

/// One recording.
#[derive(Debug, Default)]
pub struct Machine {
    /// Processes of the threads that were there when the recording began, by the threads' ids.
    dumped: HashMap<i32, i32>,
    workers: Workers,
    cpus: Vec<Cpu>,
    /// What is known of a CPU beyond those that are followed: nothing.
    other: Cpu,
    lines: HashMap<u32, Line>,
    /// How often events were lost, or were there again.
    pub losses: u32,
    /// When events of all its CPUs are there.
    sight: Sight,
}

impl Machine {
    /// Notes of an event, before all else, which CPUs are seen.
    pub fn see(&mut self, event: &Event<'_>) {
        if self.sight.follow(event).is_some() {
            self.losses = self.losses.wrapping_add(1);
        }
    }

    /// Times between two in which events of some CPU were lost; one from the first to the last where these are many.
    pub fn gaps(&self, from_ns: u64, to_ns: u64) -> Vec<Gap> {
        let gaps = self.sight.gaps(from_ns, to_ns);
        match gaps.as_slice() {
            [first, .., last] if gaps.len() > MOST_GAPS => vec![(first.0, last.1)],
            _ => gaps,
        }
    }

    /// The thread of that id.
    pub fn thread(&self, tid: i32) -> Option<WorkerId> {
        self.workers.get(tid)
    }

    /// A thread has this id from now on.
    pub fn born(&mut self, tid: i32, id: WorkerId) {
        self.workers.set(tid, id);
    }

    /// No thread has this id from now on.
    pub fn dead(&mut self, tid: i32) {
        self.workers.set(tid, NONE);
    }

    /// The process of a thread that was there when the recording began; 0 where that was not said.
    pub fn dumped(&self, tid: i32) -> Option<i32> {
        self.dumped.get(&tid).copied()
    }

    /// A CPU.
    pub fn cpu(&mut self, cpu: u32) -> &mut Cpu {
        let number = cpu as usize;
        if number >= MAX_CPUS {
            self.other = Cpu::default();
            return &mut self.other;
        }
        if number >= self.cpus.len() {
            self.cpus.resize_with(number + 1, Cpu::default);
        }
        &mut self.cpus[number]
    }

    /// The contexts of a CPU.
    pub fn contexts(&mut self, cpu: u32) -> &Contexts {
        &self.cpu(cpu).contexts
    }

    /// What a sleep was that ends in an interrupt which is no other CPU's; `None` where a task ends it.
    pub fn ended_by(&mut self, cpu: u32, context: Context) -> Option<State> {
        if context != Context::Task && self.cpu(cpu).completes {
            return Some(State::Disk);
        }
        Some(match context {
            Context::Task if self.cpu(cpu).receives => State::Network,
            Context::Task => return None,
            Context::Hrtimer | Context::Vector(Vector::LocalTimer) => State::Timer,
            Context::Vector(vector) if is_from_another_cpu(vector) => State::Ipi,
            Context::Vector(_) => State::Interrupt,
            Context::Irq(irq) => match self.lines.get(&irq) {
                Some(Line::Disk) => State::Disk,
                Some(Line::Timer) => State::Timer,
                Some(Line::Other) | None => State::Interrupt,
            },
            Context::Softirq(TIMER | HRTIMER) => State::Timer,
            Context::Softirq(NET_TX | NET_RX) => State::Network,
            Context::Softirq(BLOCK | IRQ_POLL) => State::Disk,
            Context::Softirq(_) => State::Interrupt,
        })
    }

    /// Follows an event, after all else was made of it.
    pub fn follow(&mut self, event: &Event<'_>) {
        match &event.kind {
            Kind::StatedumpProcess(dumped) if (1..MAX_TID).contains(&dumped.tid) => {
                self.dumped.insert(dumped.tid, dumped.pid);
                return;
            }
            Kind::SchedProcessFree(task) => {
                self.dumped.remove(&task.tid);
                return;
            }
            Kind::IrqHandlerEntry { irq, name } => self.line(*irq, || Line::named(name)),
            Kind::BlockRqComplete(_) => {
                let cpu = self.cpu(event.cpu);
                let context = cpu.contexts.running();
                cpu.completes = context != Context::Task;
                if let Context::Irq(irq) = context {
                    self.line(irq, || Line::Disk);
                    self.lines.entry(irq).and_modify(|line| *line = Line::Disk);
                }
                return;
            }
            Kind::Lost(_) => self.losses = self.losses.wrapping_add(1),
            _ => {}
        }
        let cpu = self.cpu(event.cpu);
        match &event.kind {
            Kind::SoftirqEntry { .. } | Kind::SoftirqExit { .. } => {
                (cpu.packet, cpu.completes) = (None, false);
            }
            Kind::IrqHandlerEntry { .. }
            | Kind::IrqHandlerExit { .. }
            | Kind::VectorEntry { .. }
            | Kind::SchedSwitch { .. }
            | Kind::Lost(_) => cpu.completes = false,
            Kind::VectorExit { which, .. } => {
                cpu.completes = false;
                if is_from_another_cpu(*which) {
                    cpu.interrupted_by = None;
                }
            }
            Kind::Other("ipi_exit") => cpu.interrupted_by = None,
            _ => {}
        }
        cpu.contexts.follow(event);
    }

    fn line(&mut self, irq: u32, line: impl FnOnce() -> Line) {
        if self.lines.len() < MAX_LINES || self.lines.contains_key(&irq) {
            self.lines.entry(irq).or_insert_with(line);
        }
    }
}

/// Whether it is a vector by which one CPU interrupts another.
pub const fn is_from_another_cpu(vector: Vector) -> bool {
    matches!(vector, Vector::Reschedule | Vector::CallFunction | Vector::CallFunctionSingle)
}

const TIMER: u32 = 1;
const NET_TX: u32 = 2;
const NET_RX: u32 = 3;
const BLOCK: u32 = 4;
const IRQ_POLL: u32 = 5;
const HRTIMER: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_apart_by_their_names() {
        for (name, line) in [
            ("nvme0q3", Line::Disk),
            ("ahci[0000:00:1f.2]", Line::Disk),
            ("virtio0-req.2", Line::Disk),
            ("virtio1-request", Line::Disk),
            ("mmc0", Line::Disk),
            ("virtio0-input.0", Line::Other),
            ("eth0-TxRx-1", Line::Other),
            ("arch_timer", Line::Timer),
            ("timer", Line::Timer),
            ("timer-x", Line::Other),
            ("", Line::Other),
        ] {
            assert_eq!(Line::named(name.as_bytes()), line, "{name}");
        }
    }
}
