//! What is known of one recording's threads and CPUs at the moment.

use std::collections::{BTreeSet, HashMap};

use noise_trace::contexts::{Context, Contexts};
use noise_trace::event::{Event, Kind};
use noise_trace::threads::{MAX_CPUS, Threads};

use crate::graph::{Link, NO_CPU, WorkerId};

/// Interrupts of block devices that are kept.
const MAX_DISKS: usize = 65_536;

/// What a worker does from its latest event on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// It is not known.
    #[default]
    Unknown,
    /// It runs.
    Running,
    /// It waits for a CPU.
    Waiting,
    /// It sleeps.
    Blocked,
    /// It sleeps in the system call of locks.
    Locked,
    /// It was created, and no event says since when it wants a CPU.
    Created,
    /// The idle task while others run: it does not wait for them.
    Aside,
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
    /// The sender of the packet that is handled.
    pub sender: Option<Link>,
    contexts: Contexts,
}

/// One recording.
#[derive(Debug, Default)]
pub struct Machine {
    /// Who is who, by all events so far.
    pub threads: Threads,
    workers: HashMap<i32, WorkerId>,
    statuses: HashMap<WorkerId, (Status, u32)>,
    cpus: Vec<Cpu>,
    /// What is known of a CPU beyond those that are followed: nothing.
    other: Cpu,
    /// Threads that do not run, and are in the system call of locks.
    pub in_futex: BTreeSet<WorkerId>,
    /// Interrupts in which block requests completed.
    disks: BTreeSet<u32>,
}

impl Machine {
    /// The thread of that id.
    pub fn thread(&self, tid: i32) -> Option<WorkerId> {
        self.workers.get(&tid).copied()
    }

    /// A thread has this id from now on.
    pub fn born(&mut self, tid: i32, id: WorkerId) {
        if let Some(before) = self.workers.insert(tid, id) {
            self.statuses.remove(&before);
        }
    }

    /// What a worker does, and on which CPU it ran.
    pub fn status(&self, id: WorkerId) -> (Status, u32) {
        self.statuses.get(&id).copied().unwrap_or((Status::Unknown, NO_CPU))
    }

    /// Notes what a worker does from now on.
    pub fn set(&mut self, id: WorkerId, status: Status, cpu: u32) {
        self.statuses.insert(id, (status, cpu));
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

    /// Whether an interrupt is a block device's.
    pub fn is_disk(&self, irq: u32) -> bool {
        self.disks.contains(&irq)
    }

    /// Follows an event, after all else was made of it.
    pub fn follow(&mut self, event: &Event<'_>) {
        if let Kind::BlockRqComplete(_) = event.kind
            && self.disks.len() < MAX_DISKS
            && let Context::Irq(irq) = self.contexts(event.cpu).running()
        {
            self.disks.insert(irq);
        }
        let cpu = self.cpu(event.cpu);
        if matches!(event.kind, Kind::SoftirqEntry { .. } | Kind::SoftirqExit { .. }) {
            cpu.sender = None;
        }
        cpu.contexts.follow(event);
        self.threads.follow(event);
    }
}
