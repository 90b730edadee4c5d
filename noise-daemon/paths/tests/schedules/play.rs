//! What threads do, and the events of it.
//!
//! Each thread has two CPUs of its own and moves between them; who preempts it, and idle tasks, take its place. What a
//! thread waits for is made up from inside: the time of a sleep that another thread ends is that other thread's
//! time, which is made up in the same way. So the true path grows with the events.

use noise_common::hooks::Vector;
use noise_paths::state::State;
use noise_trace::event::{Comm, Packet, Request, Task, TraceKind, Woken};
use noise_trace::state::LeftIn;

use super::acts::{Act, Device, Schedule};

/// The thread whose path is looked for.
pub const FIRST: i32 = 100;
pub const HOG: i32 = 50_000;
/// Who asks for requests beside them.
pub const OTHER: i32 = 90_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub tid: i32,
    pub from_ns: u64,
    pub to_ns: u64,
    pub state: State,
}

/// Appends a part; what goes on as before makes the last one longer.
pub fn push(parts: &mut Vec<Part>, part: Part) {
    match parts.last_mut() {
        _ if part.from_ns == part.to_ns => {}
        Some(last) if (last.tid, last.state) == (part.tid, part.state) => last.to_ns = part.to_ns,
        _ => parts.push(part),
    }
}

/// An event, or what stands for one that the model does not have.
#[derive(Clone, Copy, Debug)]
pub enum What {
    Event(TraceKind<'static>),
    Sent(u64),
    Received(u64),
    /// Another CPU is interrupted.
    Interrupts(u32),
}

/// A schedule that was played.
#[derive(Debug)]
pub struct Played {
    /// Time, CPU and event, in order.
    pub events: Vec<(u64, u32, What)>,
    /// The path of the first thread.
    pub truth: Vec<Part>,
    /// How long who preempts others had the CPU on that path, nanoseconds.
    pub preempted_ns: u64,
}

pub fn play(schedule: &Schedule) -> Played {
    let mut stage = Stage::default();
    let first = stage.hire();
    let begin_ns = 1_000;
    stage.switch_in(first, begin_ns);
    let (end_ns, truth) = stage.acts(first, begin_ns, schedule);
    stage.switch_out(first, end_ns, 1);
    stage.events.sort_by_key(|(time_ns, ..)| *time_ns);
    let preempted = stage.preempted.iter().map(|(from_ns, to_ns, tid)| {
        let waits = truth.iter().filter(|part| part.tid == *tid && part.state == State::WaitingCpu);
        let inside =
            |part: &Part| part.to_ns.min(*to_ns).saturating_sub(part.from_ns.max(*from_ns));
        waits.map(inside).sum::<u64>()
    });
    Played { preempted_ns: preempted.sum(), events: stage.events, truth }
}

#[derive(Default)]
struct Stage {
    events: Vec<(u64, u32, What)>,
    /// The CPU of each thread, by its number from [`FIRST`] on.
    cpus: Vec<u32>,
    packets: u64,
    requests: u64,
    /// From when until when which thread was preempted.
    preempted: Vec<(u64, u64, i32)>,
}

fn task(tid: i32) -> Task {
    Task { comm: Comm::default(), tid, prio: 120 }
}

/// Every other packet is known by its buffer.
fn in_buffer(key: u64) -> Option<Packet<'static>> {
    key.is_multiple_of(2).then_some(Packet { skb: key, len: 100, name: b"lo" })
}

/// The parts of a path that lie in a span.
fn clipped(parts: &[Part], from_ns: u64, to_ns: u64) -> Vec<Part> {
    let mut clipped = Vec::new();
    for part in parts {
        let (from_ns, to_ns) = (part.from_ns.max(from_ns), part.to_ns.min(to_ns));
        if from_ns < to_ns {
            push(&mut clipped, Part { from_ns, to_ns, ..*part });
        }
    }
    clipped
}

impl Stage {
    fn event(&mut self, time_ns: u64, cpu: u32, kind: TraceKind<'static>) {
        self.events.push((time_ns, cpu, What::Event(kind)));
    }

    /// Another thread, which never runs before it is switched in.
    fn hire(&mut self) -> i32 {
        let number = self.cpus.len() as u32;
        self.cpus.push(2 * number);
        FIRST + number as i32
    }

    fn cpu(&self, tid: i32) -> u32 {
        self.cpus[(tid - FIRST) as usize]
    }

    fn switch(&mut self, time_ns: u64, cpu: u32, prev: i32, prev_state: i64, next: i32) {
        let kind = TraceKind::SchedSwitch {
            prev: task(prev),
            prev_state: LeftIn::of(prev_state),
            next: task(next),
        };
        self.event(time_ns, cpu, kind);
    }

    /// On its other CPU. Of every other thread no event says how it came there.
    fn switch_in(&mut self, tid: i32, time_ns: u64) {
        let orig_cpu = self.cpu(tid);
        self.cpus[(tid - FIRST) as usize] ^= 1;
        let cpu = self.cpu(tid);
        if tid % 2 == 0 {
            let migrated = TraceKind::SchedMigrateTask { task: task(tid), orig_cpu, dest_cpu: cpu };
            self.event(time_ns, orig_cpu, migrated);
        }
        self.switch(time_ns, cpu, 0, 0, tid);
    }

    fn switch_out(&mut self, tid: i32, time_ns: u64, state: i64) {
        let cpu = self.cpu(tid);
        self.switch(time_ns, cpu, tid, state, 0);
    }

    fn waking(&mut self, time_ns: u64, cpu: u32, tid: i32) {
        let woken = Woken { task: task(tid), target_cpu: self.cpu(tid) };
        self.event(time_ns, cpu, TraceKind::SchedWaking(woken));
    }

    /// Something wakes a thread on the idle CPU where it slept, in the context of a device.
    fn device(&mut self, device: Device, time_ns: u64, tid: i32) -> State {
        let cpu = self.cpu(tid);
        let irq = |stage: &mut Self, inside: &dyn Fn(&mut Self)| {
            stage.event(time_ns - 5, cpu, TraceKind::IrqHandlerEntry { irq: 9, name: b"irq" });
            inside(stage);
            stage.event(time_ns + 5, cpu, TraceKind::IrqHandlerExit { irq: 9, ret: 1 });
        };
        let vector = |stage: &mut Self, which: Vector| {
            stage.event(time_ns - 5, cpu, TraceKind::VectorEntry { which, vector: 1 });
            stage.waking(time_ns, cpu, tid);
            stage.event(time_ns + 5, cpu, TraceKind::VectorExit { which, vector: 1 });
        };
        let softirq = |stage: &mut Self, vec: u32| {
            stage.event(time_ns - 5, cpu, TraceKind::SoftirqEntry { vec });
            stage.waking(time_ns, cpu, tid);
            stage.event(time_ns + 5, cpu, TraceKind::SoftirqExit { vec });
        };
        match device {
            Device::Hrtimer => {
                irq(self, &|stage| {
                    let (hrtimer, function, now) = (1, 2, 0);
                    let entry = TraceKind::HrtimerExpireEntry { hrtimer, function, now };
                    stage.event(time_ns - 3, cpu, entry);
                    stage.waking(time_ns, cpu, tid);
                    stage.event(time_ns + 3, cpu, TraceKind::HrtimerExpireExit { hrtimer });
                });
                State::Timer
            }
            Device::LocalTimer => {
                vector(self, Vector::LocalTimer);
                State::Timer
            }
            Device::Reschedule => {
                vector(self, Vector::Reschedule);
                State::Ipi
            }
            Device::TimerSoftirq => {
                softirq(self, 1);
                State::Timer
            }
            Device::BlockSoftirq => {
                softirq(self, 4);
                State::Disk
            }
            Device::NetSoftirq => {
                softirq(self, 3);
                State::Network
            }
            Device::Rcu => {
                softirq(self, 9);
                State::Interrupt
            }
            Device::Irq => {
                irq(self, &|stage| stage.waking(time_ns, cpu, tid));
                State::Interrupt
            }
            Device::IrqInSoftirq => {
                self.event(time_ns - 9, cpu, TraceKind::SoftirqEntry { vec: 3 });
                irq(self, &|stage| stage.waking(time_ns, cpu, tid));
                self.event(time_ns + 9, cpu, TraceKind::SoftirqExit { vec: 3 });
                State::Interrupt
            }
            Device::InterruptedSoftirq => {
                self.event(time_ns - 9, cpu, TraceKind::SoftirqEntry { vec: 1 });
                self.event(time_ns - 8, cpu, TraceKind::IrqHandlerEntry { irq: 9, name: b"irq" });
                self.event(time_ns - 7, cpu, TraceKind::IrqHandlerExit { irq: 9, ret: 1 });
                self.waking(time_ns, cpu, tid);
                self.event(time_ns + 9, cpu, TraceKind::SoftirqExit { vec: 1 });
                State::Timer
            }
            Device::CompletionOnAnotherCpu => {
                let which = Vector::CallFunctionSingle;
                self.event(time_ns - 5, cpu, TraceKind::VectorEntry { which, vector: 1 });
                self.event(time_ns - 2, cpu, TraceKind::BlockRqComplete(Request::default()));
                self.waking(time_ns, cpu, tid);
                self.event(time_ns + 5, cpu, TraceKind::VectorExit { which, vector: 1 });
                State::Disk
            }
            Device::SentByBlockSoftirq => {
                let (sender, which) = (6_000, Vector::Reschedule);
                self.event(time_ns - 9, sender, TraceKind::SoftirqEntry { vec: 4 });
                self.events.push((time_ns - 8, sender, What::Interrupts(cpu)));
                self.event(time_ns - 7, sender, TraceKind::SoftirqExit { vec: 4 });
                self.event(time_ns - 5, cpu, TraceKind::VectorEntry { which, vector: 1 });
                self.waking(time_ns, cpu, tid);
                self.event(time_ns + 5, cpu, TraceKind::VectorExit { which, vector: 1 });
                State::Disk
            }
            Device::Nvme => {
                self.event(
                    time_ns - 5,
                    cpu,
                    TraceKind::IrqHandlerEntry { irq: 11, name: b"nvme0q1" },
                );
                self.waking(time_ns, cpu, tid);
                self.event(time_ns + 5, cpu, TraceKind::IrqHandlerExit { irq: 11, ret: 1 });
                State::Disk
            }
            Device::Disk => {
                self.disk(time_ns, cpu, tid);
                State::Disk
            }
            // Its wake-up is not in the trace.
            Device::Unseen => State::Blocked,
        }
    }

    /// The interrupt of a disk that is done with a thread's request, and was with another one's before.
    fn disk(&mut self, time_ns: u64, cpu: u32, tid: i32) {
        self.requests += 1;
        let sector = 1_000 * self.requests;
        let request = |tid: i32, sector| Request {
            dev: 8 << 20,
            sector,
            sectors: 8,
            tid,
            ..Request::default()
        };
        let (own, other) = (request(tid, sector), request(OTHER, sector + 500));
        self.event(time_ns - 60, cpu, TraceKind::BlockRqInsert(other));
        self.event(time_ns - 55, cpu, TraceKind::BlockRqInsert(own));
        self.event(time_ns - 45, cpu, TraceKind::BlockRqIssue(other));
        self.event(time_ns - 35, cpu, TraceKind::BlockRqIssue(own));
        let (entry, exit) = (
            TraceKind::IrqHandlerEntry { irq: 12, name: b"disk" },
            TraceKind::IrqHandlerExit { irq: 12, ret: 1 },
        );
        self.event(time_ns - 25, cpu, entry);
        self.event(time_ns - 22, cpu, TraceKind::BlockRqComplete(other));
        self.event(time_ns - 20, cpu, exit);
        self.event(time_ns - 10, cpu, entry);
        self.event(time_ns - 3, cpu, TraceKind::BlockRqComplete(own));
        self.waking(time_ns, cpu, tid);
        self.event(time_ns + 5, cpu, exit);
    }

    /// What a thread does that runs since then: until when, and its path.
    fn acts(&mut self, tid: i32, begin_ns: u64, acts: &[Act]) -> (u64, Vec<Part>) {
        let (mut now_ns, mut truth) = (begin_ns, Vec::new());
        for act in acts {
            let part = |from_ns, to_ns, state| Part { tid, from_ns, to_ns, state };
            match act {
                Act::Run(ns) => {
                    push(&mut truth, part(now_ns, now_ns + ns, State::Running));
                    now_ns += ns;
                }
                Act::Interrupted { ns, nested, unmatched } => {
                    self.interrupt(tid, now_ns, *ns, *nested, *unmatched);
                    push(&mut truth, part(now_ns, now_ns + ns, State::Running));
                    now_ns += ns;
                }
                Act::Preempted(ns) => {
                    let cpu = self.cpu(tid);
                    // The lone flag "preempted" is no sleep.
                    self.switch(now_ns, cpu, tid, 0x100, HOG + tid);
                    self.waking(now_ns + ns / 2, cpu, tid);
                    self.switch(now_ns + ns, cpu, HOG + tid, 1, tid);
                    self.preempted.push((now_ns, now_ns + ns, tid));
                    push(&mut truth, part(now_ns, now_ns + ns, State::WaitingCpu));
                    now_ns += ns;
                }
                Act::Migrated(on_ns, there_ns) => {
                    let (cpu, hog) = (self.cpu(tid), HOG + tid);
                    let (moved_ns, in_ns) = (now_ns + on_ns, now_ns + on_ns + there_ns);
                    self.switch(now_ns, cpu, tid, 0, hog);
                    let (task, orig_cpu, dest_cpu) = (task(tid), cpu, cpu ^ 1);
                    self.event(
                        moved_ns,
                        cpu,
                        TraceKind::SchedMigrateTask { task, orig_cpu, dest_cpu },
                    );
                    self.switch_in(tid, in_ns);
                    self.switch(in_ns, cpu, hog, 1, 0);
                    self.preempted.push((now_ns, moved_ns, tid));
                    push(&mut truth, part(now_ns, in_ns, State::WaitingCpu));
                    now_ns = in_ns;
                }
                Act::Raced { ns, wait_ns, device } => {
                    self.waking(now_ns + 2, 4_000, tid);
                    let out_ns = now_ns + 5;
                    push(&mut truth, part(now_ns, out_ns, State::Running));
                    self.switch_out(tid, out_ns, 1);
                    let woken_ns = out_ns + ns;
                    let state = match device {
                        Some(device) => self.device(*device, woken_ns, tid),
                        None => State::WaitingCpu,
                    };
                    now_ns = woken_ns + wait_ns;
                    self.switch_in(tid, now_ns);
                    // Without an event that it is woken by, it is the race.
                    let state = if state == State::Blocked { State::WaitingCpu } else { state };
                    push(&mut truth, part(out_ns, woken_ns, state));
                    push(&mut truth, part(woken_ns, now_ns, State::WaitingCpu));
                }
                Act::Sleep { ns, wait_ns, device, repeated } => {
                    self.switch_out(tid, now_ns, 1);
                    let woken_ns = now_ns + ns;
                    let state = self.device(*device, woken_ns, tid);
                    let in_ns = woken_ns + wait_ns;
                    if *repeated && state != State::Blocked {
                        self.waking(woken_ns + wait_ns / 2, 4_000, tid);
                    }
                    self.switch_in(tid, in_ns);
                    let waits =
                        if state == State::Blocked { State::Blocked } else { State::WaitingCpu };
                    push(&mut truth, part(now_ns, woken_ns, state));
                    push(&mut truth, part(woken_ns, in_ns, waits));
                    now_ns = in_ns;
                }
                Act::Ask { on_ns, wait_ns, back_ns, other } => {
                    let waker_cpu = self.cpu(tid);
                    let helper = self.hire();
                    let sleeps_ns = now_ns + on_ns;
                    self.waking(now_ns, waker_cpu, helper);
                    let run_ns = now_ns + wait_ns;
                    self.switch_in(helper, run_ns);
                    let mut path = vec![Part {
                        tid: helper,
                        from_ns: now_ns,
                        to_ns: run_ns,
                        state: State::WaitingCpu,
                    }];
                    let (done_ns, rest) = self.acts(helper, run_ns, other);
                    rest.into_iter().for_each(|part| push(&mut path, part));
                    push(&mut truth, part(now_ns, sleeps_ns, State::Running));
                    self.switch_out(tid, sleeps_ns, 1);
                    now_ns =
                        self.answer(helper, done_ns, sleeps_ns, tid, *back_ns, path, &mut truth, 1);
                }
                Act::Join { on_ns, new_ns, wait_ns, back_ns, child } => {
                    let parent_cpu = self.cpu(tid);
                    let new = self.hire();
                    let fork = TraceKind::SchedProcessFork {
                        parent: task(tid),
                        parent_pid: FIRST,
                        child: task(new),
                        child_pid: FIRST,
                    };
                    self.event(now_ns, parent_cpu, fork);
                    let run_ns = now_ns + wait_ns;
                    let woken_ns = new_ns.map_or(run_ns, |new_ns| now_ns + new_ns);
                    if new_ns.is_some() {
                        let woken = Woken { task: task(new), target_cpu: 0 };
                        self.event(woken_ns, parent_cpu, TraceKind::SchedWakeupNew(woken));
                    }
                    self.switch_in(new, run_ns);
                    let of_new = |from_ns, to_ns, state| Part { tid: new, from_ns, to_ns, state };
                    let mut path = vec![of_new(now_ns, woken_ns, State::Created)];
                    push(&mut path, of_new(woken_ns, run_ns, State::WaitingCpu));
                    let (done_ns, rest) = self.acts(new, run_ns, child);
                    rest.into_iter().for_each(|part| push(&mut path, part));
                    let sleeps_ns = now_ns + on_ns;
                    push(&mut truth, part(now_ns, sleeps_ns, State::Running));
                    self.switch_out(tid, sleeps_ns, 1);
                    now_ns =
                        self.answer(new, done_ns, sleeps_ns, tid, *back_ns, path, &mut truth, 64);
                }
                Act::Request { on_ns, way_ns, wait_ns, answer_ns, back_ns, server } => {
                    let cpu = self.cpu(tid);
                    let worker = self.hire();
                    let sleeps_ns = now_ns + on_ns;
                    let key = self.send(now_ns, cpu);
                    let arrives_ns = now_ns + way_ns;
                    // Where it slept, so that its CPU is idle.
                    let its_cpu = self.cpu(worker);
                    self.receive(arrives_ns, its_cpu, key, worker);
                    let run_ns = arrives_ns + wait_ns;
                    self.switch_in(worker, run_ns);
                    let of_it = |from_ns, to_ns, state| Part { tid: worker, from_ns, to_ns, state };
                    let mut path = vec![of_it(now_ns, arrives_ns, State::Network)];
                    push(&mut path, of_it(arrives_ns, run_ns, State::WaitingCpu));
                    let (done_ns, rest) = self.acts(worker, run_ns, server);
                    rest.into_iter().for_each(|part| push(&mut path, part));
                    push(&mut truth, part(now_ns, sleeps_ns, State::Running));
                    self.switch_out(tid, sleeps_ns, 1);
                    let sent_ns = done_ns.max(sleeps_ns + 20);
                    push(&mut path, of_it(done_ns, sent_ns, State::Running));
                    let its_cpu = self.cpu(worker);
                    let key = self.send(sent_ns, its_cpu);
                    self.switch_out(worker, sent_ns + 7, 1);
                    let woken_ns = sent_ns + answer_ns;
                    self.receive(woken_ns, cpu, key, tid);
                    let in_ns = woken_ns + back_ns;
                    self.switch_in(tid, in_ns);
                    clipped(&path, sleeps_ns, sent_ns)
                        .into_iter()
                        .for_each(|part| push(&mut truth, part));
                    push(&mut truth, part(sent_ns, woken_ns, State::Network));
                    push(&mut truth, part(woken_ns, in_ns, State::WaitingCpu));
                    now_ns = in_ns;
                }
            }
        }
        (now_ns, truth)
    }

    /// A thread that is done, but not before its asker sleeps, wakes that and sleeps or ends. When the asker
    /// runs again.
    #[expect(clippy::too_many_arguments, reason = "all that two threads need of each other")]
    fn answer(
        &mut self,
        helper: i32,
        done_ns: u64,
        sleeps_ns: u64,
        asker: i32,
        back_ns: u64,
        mut path: Vec<Part>,
        truth: &mut Vec<Part>,
        state: i64,
    ) -> u64 {
        let woken_ns = done_ns.max(sleeps_ns + 20);
        push(
            &mut path,
            Part { tid: helper, from_ns: done_ns, to_ns: woken_ns, state: State::Running },
        );
        let cpu = self.cpu(helper);
        self.waking(woken_ns, cpu, asker);
        self.switch_out(helper, woken_ns + 7, state);
        let in_ns = woken_ns + back_ns;
        self.switch_in(asker, in_ns);
        clipped(&path, sleeps_ns, woken_ns).into_iter().for_each(|part| push(truth, part));
        push(truth, Part { tid: asker, from_ns: woken_ns, to_ns: in_ns, state: State::WaitingCpu });
        in_ns
    }

    fn send(&mut self, time_ns: u64, cpu: u32) -> u64 {
        self.packets += 1;
        match in_buffer(self.packets) {
            Some(packet) => self.event(time_ns, cpu, TraceKind::NetDevQueue(packet)),
            None => self.events.push((time_ns, cpu, What::Sent(self.packets))),
        }
        self.packets
    }

    /// A packet arrives in a softirq, and wakes who waits for it.
    fn receive(&mut self, time_ns: u64, cpu: u32, key: u64, tid: i32) {
        self.event(time_ns - 6, cpu, TraceKind::SoftirqEntry { vec: 3 });
        match in_buffer(key) {
            Some(packet) => self.event(time_ns - 3, cpu, TraceKind::NetifReceiveSkb(packet)),
            None => self.events.push((time_ns - 3, cpu, What::Received(key))),
        }
        self.waking(time_ns, cpu, tid);
        self.event(time_ns + 1, cpu, TraceKind::SoftirqExit { vec: 3 });
    }

    /// Interrupts while a thread runs.
    fn interrupt(&mut self, tid: i32, now_ns: u64, ns: u64, nested: bool, unmatched: bool) {
        let cpu = self.cpu(tid);
        let at = |tenths: u64| now_ns + ns * tenths / 10;
        self.event(at(2), cpu, TraceKind::SoftirqEntry { vec: 1 });
        if nested {
            self.event(at(3), cpu, TraceKind::IrqHandlerEntry { irq: 7, name: b"irq" });
            self.event(at(4), cpu, TraceKind::IrqHandlerExit { irq: 7, ret: 1 });
        }
        self.event(at(5), cpu, TraceKind::SoftirqExit { vec: 1 });
        if unmatched {
            self.event(at(6), cpu, TraceKind::IrqHandlerExit { irq: 8, ret: 1 });
            self.event(at(7), cpu, TraceKind::SoftirqExit { vec: 1 });
            // It runs already, and stays so.
            self.waking(at(8), cpu, tid);
        }
    }
}
