//! The execution graph from events, as they come.
//!
//! A thread's state between two events that name it comes from switches and wake-ups; what a sleep was, from
//! the context that ended it. A wake-up by a task links that task to the one that it wakes. One in an interrupt
//! says only what kind of thing ended the sleep, but where a packet that is handled there was seen when it was
//! sent: then its sender is linked. A new thread is linked to its maker.
//!
//! Not known here: what ended a sleep whose wake-up was lost, and the state of a thread whose switch was lost,
//! until the next event that names it; those are unknown, never guessed.

mod machine;
mod packets;

use noise_common::hooks::Vector;
use noise_trace::contexts::Context;
use noise_trace::event::{Comm, Event, Kind, Task, Woken, stays_runnable};
use noise_trace::threads::MAX_TID;

use self::machine::{Machine, Status};
use self::packets::Packets;
use crate::graph::{Graph, Link, NO_CPU, Place, Who, Worker, WorkerId};
use crate::state::{Action, State};

/// Which event says who wakes a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waker {
    /// `sched_waking`: it is recorded where the waker runs.
    #[default]
    Waking,
    /// `sched_wakeup`, for traces that have no other. It may be recorded on the CPU of the thread that is woken.
    Wakeup,
}

/// Makes a graph while events come in, in the order of time.
#[derive(Default)]
pub struct Builder {
    graph: Graph,
    waker: Waker,
    machines: Vec<Machine>,
    packets: Packets,
}

/// A place where something happens.
#[derive(Clone, Copy)]
struct At {
    machine: u16,
    cpu: u32,
    time_ns: u64,
}

impl Builder {
    /// One that links who wakes to who is woken by those events.
    pub fn new(waker: Waker) -> Self {
        Self { waker, ..Self::default() }
    }

    /// The graph so far.
    pub const fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The graph.
    pub fn finish(self) -> Graph {
        self.graph
    }

    /// Forgets what is not needed for executions that begin then or later.
    pub fn forget_before(&mut self, time_ns: u64) {
        self.graph.forget_before(time_ns);
    }

    /// The worker that is the thread of that id now, or was the last of that id.
    pub fn thread(&self, machine: u16, tid: i32) -> Option<WorkerId> {
        self.machines.get(usize::from(machine))?.thread(tid)
    }

    /// Adds a point to a worker at the end of the time that is asked for: what it did since its last one lasts
    /// until then.
    pub fn until(&mut self, id: WorkerId, time_ns: u64) {
        let Some(who) = self.graph.get(id).map(|worker| worker.who) else { return };
        let (Who::Thread { machine, .. } | Who::Idle { machine, .. } | Who::Kernel { machine, .. }) =
            who;
        let is_over = self.graph.get(id).is_some_and(|worker| worker.exit_ns.is_some());
        if !is_over {
            self.append(At { machine, cpu: NO_CPU, time_ns }, id);
        }
    }

    /// Takes the next event of the only recording.
    pub fn follow(&mut self, event: &Event<'_>) {
        self.follow_on(0, event);
    }

    /// Takes the next event of one of several recordings.
    pub fn follow_on(&mut self, machine: u16, event: &Event<'_>) {
        let at = At { machine, cpu: event.cpu, time_ns: event.time_ns };
        match &event.kind {
            kind if !names_threads(kind) => {}
            Kind::SchedSwitch { prev, prev_state, next } => {
                self.switch(at, prev, *prev_state, next);
            }
            Kind::SchedWaking(woken) if self.waker == Waker::Waking => self.wake(at, woken),
            Kind::SchedWakeup(woken) if self.waker == Waker::Wakeup => self.wake(at, woken),
            Kind::SchedWakeupNew(woken) => self.wake(at, woken),
            Kind::SchedProcessFork { parent, child, child_pid, .. } => {
                self.fork(at, parent, child, *child_pid);
            }
            Kind::SchedProcessExec { tid, .. } => self.note(at, *tid, |worker| {
                (worker.exec_ns, worker.pid) = (Some(at.time_ns), *tid);
            }),
            Kind::SchedProcessExit(task) => {
                self.note(at, task.tid, |worker| worker.exit_ns = Some(at.time_ns));
            }
            Kind::Lost(_) => self.lose(at),
            Kind::Other(name) if is_system_call(name) => {
                self.machine(machine).cpu(event.cpu).in_futex = is_entry_of_futex(name);
            }
            Kind::Other(name) if is_reception(name) => {
                let is_begin = name.ends_with("_entry");
                self.machine(machine).cpu(event.cpu).receives = is_begin;
            }
            _ => {}
        }
        self.machine(machine).follow(event);
    }

    /// A packet leaves whoever runs on a CPU; `key` is the same where it arrives.
    pub fn sent(&mut self, machine: u16, cpu: u32, time_ns: u64, key: u64) {
        let at = At { machine, cpu, time_ns };
        let Some(place) = self.act(at) else { return };
        self.packets.sent(key, place);
    }

    /// A packet with that key arrives on a CPU. The next wake-up there in the same context is linked to its
    /// sender.
    pub fn received(&mut self, machine: u16, cpu: u32, time_ns: u64, key: u64) {
        let at = At { machine, cpu, time_ns };
        if self.act(at).is_none() {
            return;
        }
        let sender = self.packets.received(key).and_then(|from| {
            let time_ns = self.graph.point(from)?.time_ns;
            Some(Link { from, time_ns, action: Action::Sends })
        });
        self.machine(machine).cpu(cpu).sender = sender;
    }

    fn machine(&mut self, number: u16) -> &mut Machine {
        let number = usize::from(number);
        if number >= self.machines.len() {
            self.machines.resize_with(number + 1, Machine::default);
        }
        &mut self.machines[number]
    }

    /// The worker of a thread that an event on that CPU names.
    fn worker(&mut self, at: At, task: &Task) -> WorkerId {
        let found = match task.tid {
            0 => self.machine(at.machine).cpu(at.cpu).idle,
            tid => self.machine(at.machine).thread(tid),
        };
        let Some(id) = found else { return self.create(at, task) };
        if task.comm != Comm::default()
            && let Some(worker) = self.graph.get_mut(id)
        {
            worker.comm = task.comm;
        }
        id
    }

    fn create(&mut self, at: At, task: &Task) -> WorkerId {
        let (machine, cpu) = (at.machine, at.cpu);
        if task.tid == 0 {
            let id = self.graph.add(Who::Idle { machine, cpu }, task.comm);
            self.machine(machine).cpu(cpu).idle = Some(id);
            return id;
        }
        let id = self.graph.add(Who::Thread { machine, tid: task.tid }, task.comm);
        let known = self.machine(machine).threads.get(task.tid).copied();
        if let (Some(known), Some(worker)) = (known, self.graph.get_mut(id)) {
            (worker.was_there, worker.pid) = (true, known.pid);
        }
        self.machine(machine).born(task.tid, id);
        id
    }

    /// Adds a point to a worker, with what its status says of the time up to then.
    fn append(&mut self, at: At, id: WorkerId) -> Place {
        let (status, cpu) = self.machine(at.machine).status(id);
        let state = match status {
            Status::Unknown => State::Unknown,
            Status::Running => State::Running,
            Status::Waiting => State::WaitingCpu,
            Status::Blocked => State::Blocked,
            Status::Locked => State::Futex,
            Status::Created => State::Created,
            Status::Aside => return self.graph.append(id, at.time_ns, None, NO_CPU),
        };
        let is_on_cpu = matches!(state, State::Running | State::WaitingCpu);
        self.graph.append(id, at.time_ns, Some(state), if is_on_cpu { cpu } else { NO_CPU })
    }

    fn switch(&mut self, at: At, prev: &Task, prev_state: i64, next: &Task) {
        let prev_id = self.worker(at, prev);
        let machine = self.machine(at.machine);
        let cpu = machine.cpu(at.cpu);
        (cpu.sender, cpu.receives) = (None, false);
        if let Some(current) = cpu.current.filter(|current| *current != prev_id) {
            // The switch away from it was lost.
            machine.set(current, Status::Unknown, at.cpu);
        }
        if machine.status(prev_id) != (Status::Running, at.cpu) {
            machine.set(prev_id, Status::Unknown, at.cpu);
        }
        self.append(at, prev_id);
        let machine = self.machine(at.machine);
        let in_futex = std::mem::take(&mut machine.cpu(at.cpu).in_futex);
        if in_futex {
            machine.in_futex.insert(prev_id);
        }
        let status = match (prev.tid, stays_runnable(prev_state)) {
            (0, _) => Status::Aside,
            (_, true) => Status::Waiting,
            (_, false) if in_futex => Status::Locked,
            (_, false) => Status::Blocked,
        };
        machine.set(prev_id, status, at.cpu);

        let next_id = self.worker(at, next);
        let machine = self.machine(at.machine);
        let (status, _) = machine.status(next_id);
        let on = if status == Status::Waiting { at.cpu } else { NO_CPU };
        // One that runs elsewhere has left that CPU, and the switch there was lost.
        let status = if status == Status::Running { Status::Unknown } else { status };
        machine.set(next_id, status, on);
        self.append(at, next_id);
        let machine = self.machine(at.machine);
        machine.set(next_id, Status::Running, at.cpu);
        let in_futex = machine.in_futex.remove(&next_id);
        let cpu = machine.cpu(at.cpu);
        (cpu.current, cpu.in_futex) = (Some(next_id), in_futex);
    }

    fn wake(&mut self, at: At, woken: &Woken) {
        if woken.task.tid == 0 {
            return;
        }
        let target = self.worker(at, &woken.task);
        match self.machine(at.machine).status(target).0 {
            // It is on its way already, or has not gone to sleep yet: the switch that puts it to sleep, if
            // any, comes later.
            Status::Running | Status::Waiting | Status::Aside => return,
            Status::Created => {
                self.append(at, target);
                self.machine(at.machine).set(target, Status::Waiting, woken.target_cpu);
                return;
            }
            Status::Blocked | Status::Locked | Status::Unknown => {}
        }
        let machine = self.machine(at.machine);
        let context = machine.contexts(at.cpu).running();
        let cpu = machine.cpu(at.cpu);
        let (current, receives, sender) = (cpu.current, cpu.receives, cpu.sender);
        let in_task = context == Context::Task && !receives;
        let waker = current.filter(|_| in_task).map(|current| self.append(at, current));
        let place = self.append(at, target);
        if let Some(waker) = waker {
            self.graph.link(waker, place, Action::Wakes);
        }
        if let Some(state) = self.sleep(at, context, receives) {
            self.graph.explain(place, state);
            if state == State::Network {
                if let Some(link) = sender {
                    self.graph.link_at(link, place);
                }
                if let Some(current) = current.filter(|_| context == Context::Task) {
                    self.graph.through(place, current);
                }
            }
        }
        self.machine(at.machine).set(target, Status::Waiting, woken.target_cpu);
    }

    /// What a sleep was that ends in an interrupt; `None` where a task ends it.
    fn sleep(&mut self, at: At, context: Context, receives: bool) -> Option<State> {
        Some(match context {
            Context::Task if receives => State::Network,
            Context::Task => return None,
            Context::Hrtimer | Context::Vector(Vector::LocalTimer) => State::Timer,
            Context::Vector(
                Vector::Reschedule | Vector::CallFunction | Vector::CallFunctionSingle,
            ) => State::Ipi,
            Context::Vector(_) => State::Interrupt,
            Context::Irq(irq) if self.machine(at.machine).is_disk(irq) => State::Disk,
            Context::Irq(_) => State::Interrupt,
            Context::Softirq(TIMER | HRTIMER) => State::Timer,
            Context::Softirq(NET_TX | NET_RX) => State::Network,
            Context::Softirq(BLOCK | IRQ_POLL) => State::Disk,
            Context::Softirq(_) => State::Interrupt,
        })
    }

    /// Notes something of a thread; of the one that runs where the event does not name it.
    fn note(&mut self, at: At, tid: i32, note: impl FnOnce(&mut Worker)) {
        let id = match tid {
            0 => self.machine(at.machine).cpu(at.cpu).current,
            tid => self.machine(at.machine).thread(tid),
        };
        if let Some(worker) = id.and_then(|id| self.graph.get_mut(id)) {
            note(worker);
        }
    }

    fn fork(&mut self, at: At, parent: &Task, child: &Task, child_pid: i32) {
        if child.tid <= 0 || parent.tid <= 0 {
            return;
        }
        let parent_id = self.worker(at, parent);
        let from = self.append(at, parent_id);
        // An id that is given again is another thread.
        let child_id = self.create(at, child);
        if let Some(worker) = self.graph.get_mut(child_id) {
            (worker.pid, worker.created_ns) = (child_pid, Some(at.time_ns));
            worker.was_there = false;
        }
        let to = self.graph.append(child_id, at.time_ns, None, NO_CPU);
        self.graph.link(from, to, Action::Creates);
        self.machine(at.machine).set(child_id, Status::Created, at.cpu);
    }

    /// Events of this CPU were lost: who runs there now is unknown.
    fn lose(&mut self, at: At) {
        let machine = self.machine(at.machine);
        let cpu = machine.cpu(at.cpu);
        (cpu.sender, cpu.receives, cpu.in_futex) = (None, false, false);
        if let Some(current) = cpu.current.take() {
            machine.set(current, Status::Unknown, at.cpu);
        }
    }

    /// A point for whoever handles a packet on a CPU: the kernel itself in a softirq, else the thread.
    fn act(&mut self, at: At) -> Option<Place> {
        let contexts = self.machine(at.machine).contexts(at.cpu);
        let (context, since_ns) = (contexts.running(), contexts.softirq_since_ns());
        if !matches!(context, Context::Softirq(_)) {
            let id = self.machine(at.machine).cpu(at.cpu).current?;
            return Some(self.append(at, id));
        }
        let kernel = self.machine(at.machine).cpu(at.cpu).kernel;
        let id = kernel.unwrap_or_else(|| {
            let who = Who::Kernel { machine: at.machine, cpu: at.cpu };
            self.graph.add(who, Comm::new(b"kernel"))
        });
        self.machine(at.machine).cpu(at.cpu).kernel = Some(id);
        let last_ns = self.graph.get(id).and_then(Worker::span).map(|(_, last_ns)| last_ns);
        if last_ns.is_none_or(|last_ns| last_ns < since_ns) {
            self.graph.append(id, since_ns, None, NO_CPU);
        }
        Some(self.graph.append(id, at.time_ns, Some(State::Running), at.cpu))
    }
}

/// Whether the threads that an event names can be threads: their ids are those that the kernel gives.
fn names_threads(kind: &Kind<'_>) -> bool {
    let can_be = |task: &Task| (0..MAX_TID).contains(&task.tid);
    match kind {
        Kind::SchedSwitch { prev, next, .. } => can_be(prev) && can_be(next),
        Kind::SchedWaking(woken) | Kind::SchedWakeup(woken) | Kind::SchedWakeupNew(woken) => {
            can_be(&woken.task)
        }
        Kind::SchedProcessFork { parent, child, .. } => can_be(parent) && can_be(child),
        _ => true,
    }
}

const TIMER: u32 = 1;
const NET_TX: u32 = 2;
const NET_RX: u32 = 3;
const BLOCK: u32 = 4;
const IRQ_POLL: u32 = 5;
const HRTIMER: u32 = 8;

/// Whether an event is the begin or end of a system call, by LTTng's names of all versions.
fn is_system_call(name: &str) -> bool {
    let name = name.strip_prefix("compat_").unwrap_or(name);
    ["syscall_", "sys_", "exit_syscall"].iter().any(|begin| name.starts_with(begin))
}

/// Whether it is the begin of the one that locks are made with.
fn is_entry_of_futex(name: &str) -> bool {
    name.ends_with("_futex") && !name.contains("exit")
}

/// LTTng's events around the function that hands packets up, whatever version: its name began with `netif` or
/// `net_if` over the years.
fn is_reception(name: &str) -> bool {
    let rest =
        name.strip_prefix("netif_receive_skb").or_else(|| name.strip_prefix("net_if_receive_skb"));
    rest.is_some_and(|rest| ["_entry", "_exit", "_return"].iter().any(|edge| rest.ends_with(edge)))
}

#[cfg(test)]
mod tests;
