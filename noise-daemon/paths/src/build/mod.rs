//! The execution graph from events, as they come.
//!
//! A thread's state between two events that name it comes from switches and wake-ups; what a sleep was, from
//! the context that ended it. A wake-up by a task links that task to the one that it wakes. One in an interrupt
//! says only what kind of thing ended the sleep, but where who sent the packet that is handled there, or sent that
//! interrupt, was seen: then that one is linked. A new thread is linked to its maker.
//!
//! Not known here: what ended a sleep whose wake-up was lost, and the state of a thread whose switch was lost,
//! until the next event that names it; those are unknown, never guessed. So is what a thread that does not run did
//! while events of any CPU were lost ([`Sight`](noise_trace::sight::Sight)): it may have run there.

mod compass;
pub(crate) mod known;
mod machine;
mod names;
mod packets;
mod points;

use std::collections::BTreeMap;

use noise_trace::contexts::CpuContext;
use noise_trace::event::{Comm, Event, Task, TraceKind, Woken};
use noise_trace::sight::Sight;
use noise_trace::state::{Left, LeftIn};
use noise_trace::threads::MAX_TID;

use self::known::{Known, Status, can_be, is_end};
use self::machine::{Handled, Machine, Sender};
use self::names::{is_entry_of_futex, is_reception, is_system_call};
use crate::graph::{Graph, LinkOrigin, NO_CPU, PointPlace, Who, Worker, WorkerId};
use crate::packets::{Packets, Segment};
use crate::state::{Action, State};
use crate::via::{Via, ViaKind};

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
    /// Those of recordings that differ in that.
    wakers: BTreeMap<u16, Waker>,
    machines: Vec<Machine>,
    packets: Packets<PointPlace>,
    is_compass: bool,
    /// Names, ids and programs are those that threads have then.
    names_to_ns: Option<u64>,
}

#[derive(Clone, Copy)]
struct EventPlace {
    machine: u16,
    cpu: u32,
    time_ns: u64,
}

impl Builder {
    /// One that links who wakes to who is woken by those events.
    pub fn new(waker: Waker) -> Self {
        Self { waker, ..Self::default() }
    }

    /// In that one of several recordings it is those events.
    #[must_use]
    pub fn with_waker(mut self, machine: u16, waker: Waker) -> Self {
        if waker != self.waker {
            self.wakers.insert(machine, waker);
        }
        self
    }

    /// Threads have the names, ids and programs that they have then: later events change none of them.
    #[must_use]
    pub const fn names_until(mut self, time_ns: Option<u64>) -> Self {
        self.names_to_ns = time_ns;
        self
    }

    fn waker(&self, machine: u16) -> Waker {
        match self.wakers.is_empty() {
            true => self.waker,
            false => self.wakers.get(&machine).copied().unwrap_or(self.waker),
        }
    }

    pub const fn graph(&self) -> &Graph {
        &self.graph
    }

    pub fn finish(self) -> Graph {
        self.graph
    }

    /// Forgets what is not needed for executions that begin then or later.
    pub fn forget_before(&mut self, time_ns: u64) {
        self.graph.forget_before(time_ns);
    }

    /// Does not forget who workers are.
    pub fn keep(&mut self, workers: impl Iterator<Item = WorkerId>) {
        self.graph.keep(workers);
    }

    /// The worker that is the thread of that id now, or was the last of that id.
    pub fn thread(&self, machine: u16, tid: i32) -> Option<WorkerId> {
        self.machines.get(usize::from(machine))?.thread(tid)
    }

    /// Whether the latest thread of that id has ended.
    pub(crate) fn has_ended(&self, machine: u16, tid: i32) -> bool {
        self.thread(machine, tid).is_some_and(|id| self.known(id).status == Status::Gone)
    }

    /// When events of all CPUs of a recording were there; `None` where it had no event.
    pub(crate) fn sight(&self, machine: u16) -> Option<&Sight> {
        Some(&self.machines.get(usize::from(machine))?.sight)
    }

    /// Takes the next event of the only recording.
    pub fn follow(&mut self, event: &Event<'_>) {
        self.follow_on(0, event);
    }

    /// Takes the next event of one of several recordings.
    pub fn follow_on(&mut self, machine: u16, event: &Event<'_>) {
        self.follow_with(machine, event, None);
    }

    /// The same of an event about a packet, with what headers of TCP the recording has in it.
    pub fn follow_with(&mut self, machine: u16, event: &Event<'_>, segment: Option<Segment>) {
        let at = EventPlace { machine, cpu: event.cpu, time_ns: event.time_ns };
        self.machine(machine).sight.follow(event);
        match &event.kind {
            TraceKind::SchedSwitch { prev, prev_state, next } if can_be(prev) && can_be(next) => {
                self.switch(at, prev, *prev_state, next);
            }
            TraceKind::SchedWaking(woken) if self.waker(machine) == Waker::Waking => {
                self.wake(at, woken)
            }
            TraceKind::SchedWakeup(woken) if self.waker(machine) == Waker::Wakeup => {
                self.wake(at, woken)
            }
            TraceKind::SchedWakeupNew(woken) => self.wake_new(at, woken),
            TraceKind::SchedMigrateTask { task, dest_cpu, .. } => self.migrate(at, task, *dest_cpu),
            TraceKind::SchedProcessFork { parent, parent_pid, child, child_pid }
                if can_be(parent) && can_be(child) =>
            {
                self.fork(at, (parent, *parent_pid), (child, *child_pid));
            }
            TraceKind::SchedProcessExec { tid, old_tid, .. } => self.exec(at, *tid, *old_tid),
            TraceKind::SchedProcessExit(task) => {
                self.note(at, task.tid, |worker| worker.exit_ns = Some(at.time_ns));
            }
            TraceKind::NetDevQueue(packet) => self.queued(at, packet, segment),
            TraceKind::NetifReceiveSkb(packet) => self.arrived(at, packet, segment),
            TraceKind::Lost(_) => self.lose(at),
            TraceKind::SyscallEntry(call) => self.calls(at, Via::of_call(call)),
            TraceKind::SchedProcessWait { .. } => self.calls(at, Some(Via::of(ViaKind::Child))),
            TraceKind::Connection(socket) | TraceKind::StatedumpSocket(socket) => {
                self.graph.connected(machine, socket);
            }
            TraceKind::SyscallExit(_) => self.calls(at, None),
            TraceKind::Other(name) => self.other(at, name),
            _ => {}
        }
        self.machine(machine).follow(event);
    }

    /// One CPU interrupts another one. Sleeps that end in that interrupt are ended by what sent it.
    pub fn interrupts(&mut self, machine: u16, cpu: u32, time_ns: u64, target_cpu: u32) {
        let at = EventPlace { machine, cpu, time_ns };
        let context = self.machine(machine).contexts(cpu).running();
        let state = self.machine(machine).ended_by(cpu, context);
        let sender = match (state, self.current(at)) {
            (Some(state), _) => Some(Sender::Interrupt(state)),
            (None, Some(current)) => {
                let from = self.append(at, current);
                let time_ns = self.graph.point(from).map_or(time_ns, |point| point.time_ns);
                let via = self.graph.number(Via::default());
                Some(Sender::Task(LinkOrigin { from, time_ns, action: Action::Wakes, via }))
            }
            (None, None) => None,
        };
        let target = self.machine(machine).cpu(target_cpu);
        target.interrupted_by = match (target.interrupted_by, sender) {
            (None, sender) => sender,
            (Some(_), _) => Some(Sender::Unclear),
        };
    }

    /// The thread that runs on a CPU, unless it was seen to run on another one since, or may have left unseen.
    fn current(&mut self, at: EventPlace) -> Option<WorkerId> {
        let id = self.machine(at.machine).cpu(at.cpu).runs.current()?;
        let known = self.known(id);
        let is_hidden = self.graph.get(id).is_some_and(|worker| worker.leaves_unseen);
        let is_there = known.status == Status::Running && known.cpu == at.cpu;
        (is_there && (self.is_compass || !is_hidden)).then_some(id)
    }

    fn machine(&mut self, number: u16) -> &mut Machine {
        let number = usize::from(number);
        if number >= self.machines.len() {
            self.machines.resize_with(number + 1, Machine::default);
        }
        &mut self.machines[number]
    }

    fn known(&self, id: WorkerId) -> Known {
        self.graph.get(id).map(|worker| worker.now).unwrap_or_default()
    }

    /// Notes all that is known of a worker from now on.
    fn know(&mut self, id: WorkerId, known: Known) {
        if let Some(worker) = self.graph.get_mut(id) {
            worker.now = known;
        }
    }

    /// Notes what a worker does from now on.
    fn set(&mut self, id: WorkerId, status: Status, cpu: u32) {
        if let Some(worker) = self.graph.get_mut(id) {
            (worker.now.status, worker.now.cpu) = (status, cpu);
        }
    }

    /// The worker of a thread that an event on that CPU names.
    fn worker(&mut self, at: EventPlace, task: &Task) -> WorkerId {
        let is_named = self.is_named(at);
        let found = match task.tid {
            0 => self.machine(at.machine).cpu(at.cpu).idle,
            tid => self.machine(at.machine).thread(tid),
        };
        let worker = found.and_then(|id| Some((id, self.graph.get_mut(id)?)));
        let Some((id, worker)) = worker.filter(|(_, worker)| worker.now.status != Status::Gone)
        else {
            return self.create(at, task);
        };
        if is_named && task.comm != Comm::default() {
            worker.comm = task.comm;
        }
        id
    }

    /// Whether names and programs of that time count.
    fn is_named(&self, at: EventPlace) -> bool {
        self.names_to_ns.is_none_or(|to_ns| at.time_ns <= to_ns)
    }

    fn create(&mut self, at: EventPlace, task: &Task) -> WorkerId {
        let (machine, cpu) = (at.machine, at.cpu);
        if task.tid == 0 {
            let id = self.graph.add(Who::Idle { machine, cpu }, task.comm);
            self.machine(machine).cpu(cpu).idle = Some(id);
            return id;
        }
        let id = self.graph.add(Who::Thread { machine, tid: task.tid }, task.comm);
        let before = self.machine(machine).thread(task.tid);
        let dumped = self.machine(machine).dumped(task.tid).filter(|_| before.is_none());
        if let (Some(pid), Some(worker)) = (dumped, self.graph.get_mut(id)) {
            (worker.was_there, worker.pid) = (true, pid);
        }
        self.graph.replace(before);
        self.machine(machine).born(task.tid, id);
        id
    }

    fn switch(&mut self, at: EventPlace, prev: &Task, prev_state: LeftIn, next: &Task) {
        let prev_id = self.worker(at, prev);
        let cpu = self.machine(at.machine).cpu(at.cpu);
        cpu.leave();
        let (unseen, in_call) = (cpu.runs.unseen(prev_id), cpu.in_call.take());
        // No end of a fault is recorded; what is waited for in one, no signal ends.
        let is_other = |via: &Via| via.kind != ViaKind::Page || prev_state.waits_uninterruptibly();
        let in_call = in_call.filter(is_other);
        if let Some(unseen) = unseen {
            self.lose_run(unseen, at.cpu);
            if let Some(worker) = self.graph.get_mut(unseen) {
                worker.leaves_unseen = true;
            }
        }
        let known = self.known(prev_id);
        if known.status != Status::Running || known.cpu != at.cpu {
            self.set(prev_id, Status::Unknown, at.cpu);
        }
        let place = self.append(at, prev_id);
        if let Some(worker) = self.graph.get_mut(prev_id).filter(|_| place.number == 0) {
            worker.was_there = false;
        }
        let losses = self.machine(at.machine).sight.losses();
        let worker = self.graph.get(prev_id);
        let has_exited = worker.is_some_and(|worker| worker.exit_ns.is_some());
        let status = match (prev.tid, prev_state.left()) {
            (0, _) => Status::Aside,
            (_, Left::Runnable) => Status::Waiting,
            (_, Left::Asleep) if is_end(prev_state.bits(), has_exited) => Status::Gone,
            (_, Left::Asleep) => Status::Blocked,
            (_, Left::Unknown) => Status::Unknown,
        };
        let woken = known.woken.filter(|then| status == Status::Blocked && *then == losses);
        let after = Known {
            status,
            cpu: at.cpu,
            in_call,
            is_uninterruptible: prev_state.waits_uninterruptibly(),
            woken,
            losses,
            ..Known::default()
        };
        self.know(prev_id, after);

        let next_id = self.worker(at, next);
        // The wake-up of one that slept may be among what was lost.
        if self.known(next_id).status == Status::Blocked && self.gap(at, next_id).is_some() {
            self.set(next_id, Status::Unknown, NO_CPU);
        }
        let known = self.known(next_id);
        let (status, on) = match known.status {
            Status::Waiting => (Status::Waiting, at.cpu),
            // Nothing else has woken it.
            Status::Blocked if known.woken == Some(losses) => (Status::Waiting, at.cpu),
            // One that runs elsewhere has left that CPU, and the switch there was lost.
            Status::Running => (Status::Unknown, NO_CPU),
            status => (status, NO_CPU),
        };
        self.set(next_id, status, on);
        self.append(at, next_id);
        let is_unseen = known.status == Status::Blocked;
        let (status, cpu) = (Status::Running, at.cpu);
        let runs = Known { status, cpu, is_unseen, ..Known::default() };
        self.know(next_id, runs);
        let cpu = self.machine(at.machine).cpu(at.cpu);
        cpu.runs.goes_to(Some(next_id), at.time_ns);
        cpu.in_call = known.in_call;
    }

    fn wake(&mut self, at: EventPlace, woken: &Woken) {
        if woken.task.tid == 0 || !can_be(&woken.task) {
            return;
        }
        let target = self.worker(at, &woken.task);
        let known = self.known(target);
        match known.status {
            // It has not gone to sleep yet, by the switches; on its own CPU, not at all.
            Status::Running => {
                if self.ends_unseen_sleep(target) {
                    self.end_unseen_sleep(at, target);
                }
                let has_waking = self.waker(at.machine) == Waker::Waking;
                if has_waking && known.cpu != at.cpu && !self.is_compass {
                    let losses = self.machine(at.machine).sight.losses();
                    self.know(target, Known { woken: Some(losses), is_unseen: false, ..known });
                }
                return;
            }
            // It ran and slept again, which was lost: only who sleeps is woken.
            Status::Waiting if known.losses != self.machine(at.machine).sight.losses() => {
                self.set(target, Status::Unknown, NO_CPU);
            }
            // It is on its way already.
            Status::Waiting | Status::Aside | Status::Gone => return,
            Status::Created => {
                self.append(at, target);
                return self.wait(at, target, woken.target_cpu);
            }
            Status::Blocked | Status::Unknown => {}
        }
        self.end_sleep(at, target);
        // What it sleeps for next is not said where the end of a wait for children is not.
        let in_call =
            known.in_call.filter(|via| !matches!(via.kind, ViaKind::Child | ViaKind::Page));
        self.know(target, Known { in_call, ..Known::default() });
        self.wait(at, target, woken.target_cpu);
    }

    /// A thread waits for a CPU from now on.
    fn wait(&mut self, at: EventPlace, id: WorkerId, cpu: u32) {
        let losses = self.machine(at.machine).sight.losses();
        let known = self.known(id);
        self.know(id, Known { status: Status::Waiting, cpu, losses, ..known });
    }

    /// A thread that waits for a CPU waits for another one from now on.
    fn migrate(&mut self, at: EventPlace, task: &Task, cpu: u32) {
        let id = self.machine(at.machine).thread(task.tid);
        if let Some(id) = id.filter(|id| self.known(*id).status == Status::Waiting) {
            self.set(id, Status::Waiting, cpu);
        }
    }

    /// A thread does not sleep any more: what the CPU does where it is woken says what the sleep was.
    fn end_sleep(&mut self, at: EventPlace, target: WorkerId) {
        let context = self.machine(at.machine).contexts(at.cpu).running();
        let ended_by = self.machine(at.machine).ended_by(at.cpu, context);
        let current = self.current(at);
        let is_handed = ended_by.is_none() && self.hands_up_to(at, current, target);
        let state = ended_by.or(is_handed.then_some(State::Network));
        let cpu = self.machine(at.machine).cpu(at.cpu);
        let (packet, sender, waker_in) = (cpu.packet, cpu.interrupted_by, cpu.in_call);
        let known = self.known(target);
        // Signals end waits at futexes; a sleep that none ends is for something else, such as a page or a lock of the kernel.
        let is_its = |via: &Via| via.kind != ViaKind::Futex || !known.is_uninterruptible;
        let slept_in = known.in_call.filter(is_its);
        let in_task = state.is_none();
        let waker = current.filter(|_| in_task).map(|current| self.append(at, current));
        let place = self.append(at, target);
        if let Some(waker) = waker {
            let action =
                if self.ends_for(waker.worker, target) { Action::Ends } else { Action::Wakes };
            self.graph.link(waker, place, action, Via::linking(action, slept_in, waker_in));
        }
        match (state, sender) {
            (Some(State::Ipi), Some(Sender::Task(link))) => {
                let via = self.graph.number(Via::linking(link.action, slept_in, None));
                self.graph.link_at(LinkOrigin { via, ..link }, place);
            }
            (Some(State::Ipi), Some(Sender::Interrupt(state))) => self.graph.explain(place, state),
            (Some(state), _) => self.graph.explain(place, state),
            (None, _) => {}
        }
        if state == Some(State::Network) {
            if let Some(Handled { link, .. }) = packet {
                let via = self.graph.number(Via::linking(link.action, slept_in, None));
                self.graph.link_at(LinkOrigin { via, ..link }, place);
            }
            if let Some(current) = current.filter(|_| context == CpuContext::Task) {
                self.graph.through(place, current);
            }
        }
    }

    /// Whether the thread that runs there handed a packet up to a thread of another process. Threads of its own process do not
    /// count: a network stack in a process, or a virtual machine, also wakes them itself.
    fn hands_up_to(&mut self, at: EventPlace, current: Option<WorkerId>, target: WorkerId) -> bool {
        let own = current.and_then(|current| self.pid(current));
        let (Some(own), Some(other)) = (own, self.pid(target)) else { return false };
        own != other && self.machine(at.machine).cpu(at.cpu).handed_up
    }

    /// Whether a thread that is woken waited for its child, the one that wakes it, to end. Of threads that wait for children, a
    /// thread that has exited wakes only its own parent, unless both are of one process.
    fn ends_for(&self, waker: WorkerId, target: WorkerId) -> bool {
        let has_ended = self.graph.get(waker).is_some_and(|worker| worker.exit_ns.is_some());
        let pids = (self.pid(waker), self.pid(target));
        has_ended
            && self.known(target).is_in(ViaKind::Child)
            && (pids.0.is_none() || pids.0 != pids.1)
    }

    /// The process of a thread, where it is known.
    fn pid(&self, id: WorkerId) -> Option<i32> {
        let worker = self.graph.get(id)?;
        match (worker.pid, worker.who) {
            (0, Who::Thread { machine, tid }) => {
                self.machines.get(usize::from(machine))?.dumped(tid)
            }
            (pid, _) => Some(pid),
        }
    }

    /// The thread that runs on a CPU is in that call from now on.
    fn calls(&mut self, at: EventPlace, call: Option<Via>) {
        self.machine(at.machine).cpu(at.cpu).in_call = call;
    }

    /// The thread that runs on a CPU touches a page that is not there. In a call, it sleeps for what that is about.
    pub fn faults(&mut self, machine: u16, cpu: u32, address: u64) {
        let page = Via { id: address, ..Via::of(ViaKind::Page) };
        let in_call = &mut self.machine(machine).cpu(cpu).in_call;
        // Most pages come without a sleep: the latest one counts.
        if in_call.is_none_or(|via| via.kind == ViaKind::Page) {
            *in_call = Some(page);
        }
    }

    /// A new thread wants a CPU. What is known of one that has its id already, and was not created just now, is of
    /// another thread, whose end was not seen.
    fn wake_new(&mut self, at: EventPlace, woken: &Woken) {
        if woken.task.tid == 0 || !can_be(&woken.task) {
            return;
        }
        let found = self.machine(at.machine).thread(woken.task.tid);
        if found.is_some_and(|id| self.known(id).status == Status::Created) {
            return self.wake(at, woken);
        }
        let id = self.create(at, &woken.task);
        let maker = self.current(at);
        if let Some(worker) = self.graph.get_mut(id) {
            // Whether it is a thread of its maker's process or a process of its own is not said.
            (worker.created_ns, worker.was_there, worker.pid) = (Some(at.time_ns), false, 0);
        }
        let to = self.graph.append(id, at.time_ns, None, NO_CPU);
        let in_task = self.machine(at.machine).contexts(at.cpu).running() == CpuContext::Task;
        if let Some(maker) = maker.filter(|_| in_task) {
            let from = self.append(at, maker);
            self.graph.link(from, to, Action::Creates, Via::of(ViaKind::Creation));
        }
        self.wait(at, id, woken.target_cpu);
    }

    /// Notes something of a thread; of the one that runs where the event does not name it.
    fn note(&mut self, at: EventPlace, tid: i32, note: impl FnOnce(&mut Worker)) {
        let id = match tid {
            0 => self.current(at),
            tid => self.machine(at.machine).thread(tid),
        };
        if let Some(worker) = id.and_then(|id| self.graph.get_mut(id)) {
            note(worker);
        }
    }

    /// A process runs another program. A thread that was not its first one has that one's id from then on.
    fn exec(&mut self, at: EventPlace, tid: i32, old_tid: i32) {
        let is_named = self.is_named(at);
        if (1..MAX_TID).contains(&tid) && old_tid > 0 && old_tid != tid {
            let id = self.machine(at.machine).thread(old_tid);
            let first = self.machine(at.machine).thread(tid).filter(|_| id.is_some());
            self.graph.replace(first);
            if let Some(id) = id
                && let Some(worker) = self.graph.get_mut(id)
            {
                // Who a thread is in the time that is asked for is not decided behind it.
                if is_named {
                    worker.who = Who::Thread { machine: at.machine, tid };
                }
                self.machine(at.machine).born(tid, id);
                self.machine(at.machine).dead(old_tid);
            }
        }
        let exec_ns = Some(at.time_ns).filter(|_| is_named);
        self.note(at, tid, |worker| {
            (worker.exec_ns, worker.pid) = (exec_ns.or(worker.exec_ns), tid);
        });
    }

    fn fork(
        &mut self,
        at: EventPlace,
        (parent, parent_pid): (&Task, i32),
        (child, child_pid): (&Task, i32),
    ) {
        if child.tid <= 0 || parent.tid <= 0 {
            return;
        }
        let parent_id = self.worker(at, parent);
        if let Some(worker) = self.graph.get_mut(parent_id).filter(|worker| worker.pid == 0) {
            worker.pid = parent_pid;
        }
        let from = self.append(at, parent_id);
        // An id that is given again is another thread.
        let child_id = self.create(at, child);
        if let Some(worker) = self.graph.get_mut(child_id) {
            (worker.pid, worker.created_ns) = (child_pid, Some(at.time_ns));
            worker.was_there = false;
        }
        let to = self.graph.append(child_id, at.time_ns, None, NO_CPU);
        self.graph.link(from, to, Action::Creates, Via::of(ViaKind::Creation));
        self.set(child_id, Status::Created, at.cpu);
    }

    /// Events of this CPU were lost: who runs there now is unknown.
    fn lose(&mut self, at: EventPlace) {
        let cpu = self.machine(at.machine).cpu(at.cpu);
        cpu.leave();
        (cpu.in_call, cpu.interrupted_by) = (None, None);
        if let Some(current) = cpu.runs.lose() {
            self.lose_run(current, at.cpu);
        }
    }

    /// The switch away from a thread that ran on a CPU was lost, unless it is known to run elsewhere.
    fn lose_run(&mut self, id: WorkerId, cpu: u32) {
        let known = self.known(id);
        if known.status == Status::Running && known.cpu == cpu {
            self.know(id, Known { cpu, ..Known::default() });
        }
    }

    /// An event that is known by its name alone.
    fn other(&mut self, at: EventPlace, name: &str) {
        if is_system_call(name) {
            self.calls(at, is_entry_of_futex(name).then(|| Via::of(ViaKind::Futex)));
        } else if is_reception(name) {
            let is_begin = name.ends_with("_entry");
            self.machine(at.machine).cpu(at.cpu).receives = is_begin;
        }
    }
}

#[cfg(test)]
mod tests;
