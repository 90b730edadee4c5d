//! What is known of one recording's threads and CPUs at the moment.

use std::collections::HashMap;

use noise_common::hooks::Vector;
use noise_trace::contexts::{Contexts, CpuContext};
use noise_trace::event::{Event, TraceKind};
use noise_trace::follow::{PerCpu, Processor};
use noise_trace::sight::{Sight, UnseenGap};
use noise_trace::threads::MAX_TID;

use crate::graph::{LinkOrigin, WorkerId};
use crate::state::State;
use crate::via::Via;

/// Interrupts whose kind is kept.
const MAX_LINES: usize = 65_536;
/// Threads whose workers lie beside each other.
const PAGE: usize = 256;
const NONE: WorkerId = WorkerId(u32::MAX);

/// What a device interrupt is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InterruptLine {
    Disk,
    Timer,
    Other,
}

impl InterruptLine {
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
    Task(LinkOrigin),
    /// An interrupt of that kind.
    Interrupt(State),
    Unclear,
}

/// A packet that a CPU handles.
#[derive(Clone, Copy, Debug)]
pub struct Handled {
    /// What it is known by.
    pub key: u64,
    pub link: LinkOrigin,
}

#[derive(Clone, Debug, Default)]
pub struct Cpu {
    pub runs: Processor<WorkerId>,
    pub idle: Option<WorkerId>,
    /// The kernel's own worker there.
    pub kernel: Option<WorkerId>,
    /// Whether a thread hands packets up.
    pub receives: bool,
    /// Whether the latest event of the thread that runs, interrupts apart, was that it handed a packet up: it writes to a tun
    /// or tap device, polls a device, or is a kernel thread that receives. The next wake-up there is the packet's.
    pub handed_up: bool,
    /// What the thread that runs is in a system call for.
    pub in_call: Option<Via>,
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
        (self.packet, self.receives, self.handed_up) = (None, false, false);
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

#[derive(Debug, Default)]
pub struct Machine {
    /// Processes of the threads that were there when the recording began, by the threads' ids.
    pub(super) dumped: HashMap<i32, i32>,
    workers: Workers,
    cpus: PerCpu<Cpu>,
    /// What is known of a CPU beyond those that are followed: nothing.
    other: Cpu,
    lines: HashMap<u32, InterruptLine>,
    /// When events of all its CPUs are there.
    pub(super) sight: Sight,
}

impl Machine {
    /// Where events of some CPU were lost between two times: from the begin of the first gap to the end of the last one.
    pub fn gap(&self, from_ns: u64, to_ns: u64) -> Option<UnseenGap> {
        let gaps = self.sight.gaps(from_ns, to_ns);
        Some((gaps.first()?.0, gaps.last()?.1))
    }

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

    pub fn cpu(&mut self, cpu: u32) -> &mut Cpu {
        self.cpus.of(cpu).unwrap_or_else(|| {
            self.other = Cpu::default();
            &mut self.other
        })
    }

    pub fn contexts(&mut self, cpu: u32) -> &Contexts {
        &self.cpu(cpu).contexts
    }

    /// What a sleep was that ends in an interrupt which is no other CPU's; `None` where a task ends it.
    pub fn ended_by(&mut self, cpu: u32, context: CpuContext) -> Option<State> {
        if context != CpuContext::Task && self.cpu(cpu).completes {
            return Some(State::Disk);
        }
        Some(match context {
            CpuContext::Task if self.cpu(cpu).receives => State::Network,
            CpuContext::Task => return None,
            CpuContext::Hrtimer | CpuContext::Vector(Vector::LocalTimer) => State::Timer,
            CpuContext::Vector(vector) if is_from_another_cpu(vector) => State::Ipi,
            CpuContext::Vector(_) => State::Interrupt,
            CpuContext::Irq(irq) => match self.lines.get(&irq) {
                Some(InterruptLine::Disk) => State::Disk,
                Some(InterruptLine::Timer) => State::Timer,
                Some(InterruptLine::Other) | None => State::Interrupt,
            },
            CpuContext::Softirq(TIMER | HRTIMER) => State::Timer,
            CpuContext::Softirq(NET_TX | NET_RX) => State::Network,
            CpuContext::Softirq(BLOCK | IRQ_POLL) => State::Disk,
            CpuContext::Softirq(_) => State::Interrupt,
        })
    }

    /// Follows an event, after all else was made of it.
    pub fn follow(&mut self, event: &Event<'_>) {
        match &event.kind {
            TraceKind::StatedumpProcess(dumped) if (1..MAX_TID).contains(&dumped.tid) => {
                self.dumped.insert(dumped.tid, dumped.pid);
                return;
            }
            TraceKind::SchedProcessFree(task) => {
                self.dumped.remove(&task.tid);
                return;
            }
            TraceKind::IrqHandlerEntry { irq, name } => {
                self.line(*irq, || InterruptLine::named(name))
            }
            TraceKind::BlockRqComplete(_) => {
                let cpu = self.cpu(event.cpu);
                let context = cpu.contexts.running();
                cpu.completes = context != CpuContext::Task;
                if let CpuContext::Irq(irq) = context {
                    self.line(irq, || InterruptLine::Disk);
                    self.lines.entry(irq).and_modify(|line| *line = InterruptLine::Disk);
                }
                return;
            }
            _ => {}
        }
        let cpu = self.cpu(event.cpu);
        let arrives = matches!(event.kind, TraceKind::NetifReceiveSkb(_));
        if (arrives || cpu.handed_up)
            && cpu.contexts.running() == CpuContext::Task
            && !is_interrupt(&event.kind)
        {
            cpu.handed_up = arrives;
        }
        match &event.kind {
            TraceKind::SoftirqEntry { .. } | TraceKind::SoftirqExit { .. } => {
                (cpu.packet, cpu.completes) = (None, false);
            }
            TraceKind::IrqHandlerEntry { .. }
            | TraceKind::IrqHandlerExit { .. }
            | TraceKind::VectorEntry { .. }
            | TraceKind::SchedSwitch { .. }
            | TraceKind::Lost(_) => cpu.completes = false,
            TraceKind::VectorExit { which, .. } => {
                cpu.completes = false;
                if is_from_another_cpu(*which) {
                    cpu.interrupted_by = None;
                }
            }
            TraceKind::Other("ipi_exit") => cpu.interrupted_by = None,
            _ => {}
        }
        cpu.contexts.follow(event);
    }

    fn line(&mut self, irq: u32, line: impl FnOnce() -> InterruptLine) {
        if self.lines.len() < MAX_LINES || self.lines.contains_key(&irq) {
            self.lines.entry(irq).or_insert_with(line);
        }
    }
}

/// Whether an event is the begin or the end of an interrupt: the thread below it goes on.
const fn is_interrupt(kind: &TraceKind<'_>) -> bool {
    matches!(
        kind,
        TraceKind::SoftirqEntry { .. }
            | TraceKind::SoftirqExit { .. }
            | TraceKind::IrqHandlerEntry { .. }
            | TraceKind::IrqHandlerExit { .. }
            | TraceKind::VectorEntry { .. }
            | TraceKind::VectorExit { .. }
    )
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
            ("nvme0q3", InterruptLine::Disk),
            ("ahci[0000:00:1f.2]", InterruptLine::Disk),
            ("virtio0-req.2", InterruptLine::Disk),
            ("virtio1-request", InterruptLine::Disk),
            ("mmc0", InterruptLine::Disk),
            ("virtio0-input.0", InterruptLine::Other),
            ("eth0-TxRx-1", InterruptLine::Other),
            ("arch_timer", InterruptLine::Timer),
            ("timer", InterruptLine::Timer),
            ("timer-x", InterruptLine::Other),
            ("", InterruptLine::Other),
        ] {
            assert_eq!(InterruptLine::named(name.as_bytes()), line, "{name}");
        }
    }
}
