//! Random systems of tiers that know their own slices, edges and true latencies: a simulation of threads that send,
//! receive, wait and compute, each on a CPU of its own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use noise_sketches::input::{
    Act, Bytes, ChannelObject, Endpoint, Input, Local, Much, Protocol, Purpose, What,
};

use super::chance::Chance;
use super::truth::Truth;

mod acts;
mod parts;

use parts::{Conn, Message, Op, Pipe, Thread};

/// How a tier works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A thread for each connection.
    Blocking,
    /// A loop of events for all of them.
    Loop,
    /// A loop of events that hands each request to a thread of a pool, which answers it.
    Pool,
}

/// What one request makes a tier do.
#[derive(Clone, Debug)]
pub enum Step {
    Compute(u64),
    /// Asks the next tier.
    Ask(Vec<Step>),
    /// Asks a helper by two pipes.
    Pipe(u64),
    /// Forks a process and waits for it.
    Fork(u64),
    /// A line for the log, which nothing comes back of.
    Log,
}

/// What the world is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub tiers: Vec<(Style, Protocol)>,
    pub clients: usize,
    pub requests: usize,
    /// The last tier is on another machine, whose times are wrong by so much.
    pub skew_ns: Option<i64>,
    /// Without pipes, processes and logs, which take tiers of their own.
    pub plain: bool,
}

pub struct World {
    plan: Plan,
    pub chance: Chance,
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    number: u64,
    threads: Vec<Thread>,
    conns: Vec<Conn>,
    pipes: Vec<Pipe>,
    /// Free connections of a thread to the next tier.
    free: HashMap<usize, Vec<usize>>,
    pub events: Vec<(u64, u64, i32, u32, Input<'static>)>,
    pub truth: Truth,
    left: BTreeMap<usize, usize>,
}

const BEGIN_NS: u64 = 1_700_000_000_000_000_000;

impl World {
    /// Plays it to its end.
    pub fn play(plan: Plan) -> Self {
        let chance = Chance::new(plan.seed);
        let mut world = Self {
            plan,
            chance,
            queue: BinaryHeap::new(),
            number: 0,
            threads: Vec::new(),
            conns: Vec::new(),
            pipes: Vec::new(),
            free: HashMap::new(),
            events: Vec::new(),
            truth: Truth::default(),
            left: BTreeMap::new(),
        };
        for _ in 0..world.plan.clients {
            let client = world.thread(0, None);
            world.threads[client].is_client = true;
            world.left.insert(client, world.plan.requests);
            world.threads[client].ops.push_back(Op::Next);
            let at = world.chance.below(300_000);
            world.run_at(client, BEGIN_NS + at);
        }
        while let Some(Reverse((now, _, thread))) = world.queue.pop() {
            world.step(thread, now);
        }
        world.events.sort_by_key(|(at, number, ..)| (*at, *number));
        world
    }

    fn run_at(&mut self, thread: usize, at: u64) {
        self.number += 1;
        self.queue.push(Reverse((at, self.number, thread)));
    }

    fn thread(&mut self, tier: usize, pid: Option<i32>) -> usize {
        let id = self.threads.len();
        let tid = 1000 + id as i32;
        let is_away = self.plan.skew_ns.is_some() && tier == self.plan.tiers.len();
        let machine = u16::from(is_away && tier > 0);
        let pid = pid.unwrap_or(tid);
        self.threads.push(Thread { tid, pid, machine, tier, asleep: true, ..Thread::default() });
        let known = noise_sketches::input::Known {
            tid,
            pid,
            comm: noise_trace::event::Comm::new(format!("tier{tier}").as_bytes()),
            is_kernel: false,
        };
        self.emit(id, BEGIN_NS - 1_000_000, What::Known(known));
        self.emit(id, BEGIN_NS - 1_000_000, What::Switch { prev: 0, sleeps: false, next: tid });
        id
    }

    /// An event on a thread's CPU.
    fn emit(&mut self, thread: usize, at: u64, what: What<'static>) {
        let Thread { machine, tid, .. } = self.threads[thread];
        let skew = if machine == 1 { self.plan.skew_ns.unwrap_or(0) } else { 0 };
        let time_ns = at.saturating_add_signed(skew);
        let cpu = thread as u32;
        self.number += 1;
        let input = Input { time_ns, machine, cpu, tid: 0, what };
        self.events.push((time_ns, self.number, tid, cpu, input));
    }

    /// Times of a machine, as its events have them.
    fn seen(&self, thread: usize, at: u64) -> u64 {
        let skew = if self.threads[thread].machine == 1 { self.plan.skew_ns } else { None };
        at.saturating_add_signed(skew.unwrap_or(0))
    }

    fn enters(
        &mut self,
        thread: usize,
        at: u64,
        call: &'static str,
        purpose: Purpose,
        object: Option<ChannelObject>,
    ) {
        self.emit(thread, at, What::Enters { call, purpose, object });
    }

    /// Sleeps in a call, and does the same again when it is woken.
    fn waits(
        &mut self,
        thread: usize,
        at: u64,
        call: &'static str,
        purpose: Purpose,
        object: Option<ChannelObject>,
        op: Op,
    ) {
        self.enters(thread, at, call, purpose, object);
        self.threads[thread].ops.push_front(op);
        self.sleep(thread, at);
    }

    fn conn(&mut self, asks: usize, serves: usize, protocol: Protocol) -> usize {
        let id = self.conns.len();
        let flow = 2 * id as u64 + 2;
        let end = |id: u64, out: u64, into: u64| Endpoint {
            protocol,
            id,
            out,
            into,
            local: None,
            remote: None,
        };
        let start = self.chance.next() as u32;
        self.conns.push(Conn {
            ends: [end(flow, flow, flow + 1), end(flow + 1, flow + 1, flow)],
            threads: [asks, serves],
            inbox: Default::default(),
            position: [start, start.wrapping_mul(7)],
            serves: None,
            asks: None,
        });
        id
    }

    /// A free connection to the next tier, or a new one.
    fn next_after(&mut self, thread: usize) -> usize {
        if let Some(conn) = self.free.entry(thread).or_default().pop() {
            return conn;
        }
        let tier = self.threads[thread].tier + 1;
        let (style, protocol) = self.plan.tiers[tier - 1];
        let shared =
            self.threads.iter().position(|other| other.tier == tier && other.style == Some(style));
        let server = match (style, shared) {
            (Style::Loop | Style::Pool, Some(server)) => server,
            _ => {
                let server = self.thread(tier, None);
                self.threads[server].style = Some(style);
                server
            }
        };
        let conn = self.conn(thread, server, protocol);
        if protocol != Protocol::Tcp {
            // It was made in the time of the recording: nothing is in it.
            let [one, other] = self.conns[conn].ends;
            self.emit(thread, BEGIN_NS - 500_000, What::Act(Act::Paired(one, other)));
        }
        if style == Style::Blocking {
            self.threads[server].ops.push_back(Op::Receive { conn });
            self.run_at(server, BEGIN_NS - 400_000);
        } else if shared.is_none() {
            self.threads[server].ops.push_back(Op::Poll);
            self.run_at(server, BEGIN_NS - 400_000);
        }
        conn
    }

    fn step(&mut self, thread: usize, now: u64) {
        self.threads[thread].asleep = false;
        let Some(op) = self.threads[thread].ops.pop_front() else { return };
        let mut t = now;
        match op {
            Op::Compute(ns) => t = self.compute(thread, t, ns),
            Op::Next => {
                let left = self.left.get_mut(&thread).unwrap();
                if *left == 0 {
                    return;
                }
                *left -= 1;
                let steps = self.steps(1);
                let think = self.chance.below(200_000);
                let rest = [Op::Compute(think), Op::Ask(steps), Op::Next];
                self.threads[thread].ops.extend(rest);
            }
            Op::Ask(steps) => {
                let conn = self.next_after(thread);
                let parts = 1 + usize::from(self.chance.one_in(4));
                let is_pool = self.plan.tiers[self.threads[thread].tier].0 == Style::Pool;
                let parts = if is_pool { 1 } else { parts };
                let is_loop = self.threads[thread].style == Some(Style::Loop);
                let send = Op::Send { conn, parts, steps, asks: usize::MAX };
                let ops = &mut self.threads[thread].ops;
                if is_loop {
                    let rest = std::mem::take(ops);
                    let job = self.threads[thread].job;
                    self.threads[thread].parked.insert(conn, (rest, job));
                    self.threads[thread].ops.extend([send, Op::Poll]);
                } else {
                    ops.push_front(Op::Receive { conn });
                    ops.push_front(send);
                }
            }
            Op::Send { conn, parts, steps, asks } => {
                let asks = match asks {
                    usize::MAX => {
                        let asks = self.truth.slice(
                            self.threads[thread].tid,
                            self.marker(conn, "send"),
                            self.seen(thread, t),
                        );
                        self.conns[conn].asks = Some(asks);
                        if let Some(job) = self.threads[thread].job {
                            self.truth.edge(job, asks);
                        }
                        asks
                    }
                    asks => asks,
                };
                let last = parts == 1;
                let message =
                    Message { bytes: 0, last, steps: steps.clone(), of: asks, chain: Vec::new() };
                t = self.send(thread, t, conn, 0, message);
                if !last {
                    let more = Op::Send { conn, parts: parts - 1, steps, asks };
                    self.threads[thread].ops.push_front(more);
                }
            }
            Op::Answer { conn, parts } => {
                let job = self.threads[thread].job.unwrap();
                let chain = [self.threads[thread].chain.clone(), vec![job]].concat();
                let last = parts == 1;
                let message = Message { bytes: 0, last, steps: Vec::new(), of: job, chain };
                t = self.send(thread, t, conn, 1, message);
                if self.truth.slices[job].explicit {
                    self.truth.slices[job].to_ns = self.seen(thread, self.truth.last_act);
                }
                if last {
                    self.conns[conn].serves = None;
                    self.threads[thread].job = None;
                    self.threads[thread].chain.clear();
                } else {
                    self.threads[thread].ops.push_front(Op::Answer { conn, parts: parts - 1 });
                }
            }
            Op::Receive { conn } => {
                let side = usize::from(self.conns[conn].threads[1] == thread);
                let object = ChannelObject::End(self.conns[conn].ends[side]);
                if self.conns[conn].inbox[side].is_empty() {
                    return self.waits(thread, t, "recvfrom", Purpose::Receive, Some(object), op);
                }
                if !self.is_in_call(thread) {
                    self.enters(thread, t, "recvfrom", Purpose::Receive, Some(object));
                }
                t = self.receive(thread, t, conn, side);
            }
            Op::Poll => {
                if self.threads[thread].ready.is_empty() {
                    return self.waits(thread, t, "epoll_wait", Purpose::Loop, None, op);
                }
                if !self.is_in_call(thread) {
                    self.enters(thread, t, "epoll_wait", Purpose::Loop, None);
                    t += 300;
                }
                self.emit(thread, t, What::Leaves);
                self.truth.in_call.remove(&thread);
                t += 500;
                let conn = self.threads[thread].ready.pop_front().unwrap();
                let side = usize::from(self.conns[conn].threads[1] == thread);
                let object = ChannelObject::End(self.conns[conn].ends[side]);
                self.enters(thread, t, "recvfrom", Purpose::Receive, Some(object));
                t += 200;
                t = self.receive(thread, t, conn, side);
            }
            Op::Post { worker, conn, steps } => {
                let local = self.futex(worker);
                let of = self.threads[thread].job.unwrap();
                self.enters(thread, t, "futex", Purpose::Send, Some(ChannelObject::Local(local)));
                t += 400;
                let chain = vec![of];
                self.threads[worker].task = Some((conn, steps, of, chain));
                self.wake(thread, worker, t);
                t += 600;
                self.emit(thread, t, What::Act(Act::Posted(local)));
                self.emit(thread, t, What::Leaves);
                self.threads[thread].job = None;
                t += 300;
            }
            Op::Sleep => {
                // Of a worker of a pool.
                let local = self.futex(thread);
                let Some((conn, steps, of, chain)) = self.threads[thread].task.take() else {
                    let object = Some(ChannelObject::Local(local));
                    return self.waits(thread, t, "futex", Purpose::Receive, object, op);
                };
                self.emit(thread, t, What::Act(Act::Taken(local, Much::One)));
                let slice =
                    self.truth.slice(self.threads[thread].tid, "futex", self.seen(thread, t));
                self.truth.slices[slice].explicit = false;
                self.emit(thread, t, What::Leaves);
                self.truth.in_call.remove(&thread);
                self.truth.edge(of, slice);
                self.threads[thread].job = Some(slice);
                self.threads[thread].chain = chain;
                self.threads[thread].until_sleep.push(slice);
                let mut ops = self.ops(&steps);
                ops.extend([Op::Answer { conn, parts: 1 }, Op::Sleep]);
                self.threads[thread].ops = ops.into();
                t += 300;
            }
            Op::Put { pipe: usize::MAX, steps } => {
                let (pipe, answer) = self.helper(thread);
                self.threads[thread].ops.push_front(Op::Get { pipe: answer });
                self.threads[thread].ops.push_front(Op::Put { pipe, steps });
            }
            Op::Put { pipe, steps } => {
                let Pipe { local, reader, .. } = self.pipes[pipe];
                let bytes = 1 + self.chance.below(4096);
                self.truth.pipe_bytes.entry(pipe).or_default().push_back(bytes);
                self.enters(thread, t, "write", Purpose::Send, Some(ChannelObject::Local(local)));
                t += 300;
                let of = self.threads[thread].job.unwrap();
                self.pipes[pipe].inbox.push_back((of, steps));
                self.wake(thread, reader, t);
                t += 500 + self.chance.below(6000);
                self.emit(thread, t, What::Act(Act::Put(local, bytes)));
                self.emit(thread, t, What::Leaves);
                t += 200;
            }
            Op::Get { pipe } => {
                let local = self.pipes[pipe].local;
                let object = Some(ChannelObject::Local(local));
                let Some((of, steps)) = self.pipes[pipe].inbox.pop_front() else {
                    return self.waits(thread, t, "read", Purpose::Receive, object, op);
                };
                if !self.is_in_call(thread) {
                    self.enters(thread, t, "read", Purpose::Receive, object);
                }
                t += 300;
                let bytes = self.truth.pipe_bytes.get_mut(&pipe).unwrap().pop_front().unwrap();
                self.emit(thread, t, What::Act(Act::Got(local, bytes)));
                let at = self.seen(thread, t);
                self.emit(thread, t, What::Leaves);
                self.truth.in_call.remove(&thread);
                t += 200;
                if let Some(ns) = steps {
                    let slice = self.truth.slice(self.threads[thread].tid, "pipe", at);
                    self.truth.slices[slice].explicit = false;
                    self.truth.edge(of, slice);
                    self.threads[thread].job = Some(slice);
                    self.threads[thread].until_sleep.push(slice);
                    let (request, answer) = self.threads[thread].pipe.unwrap();
                    let rest = [
                        Op::Compute(ns),
                        Op::Put { pipe: answer, steps: None },
                        Op::PipeDone,
                        Op::Get { pipe: request },
                    ];
                    self.threads[thread].ops = rest.into();
                } else {
                    let job = self.threads[thread].job.unwrap();
                    self.truth.edge(of, job);
                    self.truth.slices[job].dependents.push(of);
                }
            }
            Op::PipeDone => self.threads[thread].job = None,
            Op::Fork(ns) => {
                self.enters(thread, t, "clone", Purpose::Other, None);
                t += 20_000;
                let tier = self.threads[thread].tier;
                let child = self.threads.len();
                let tid = 1000 + child as i32;
                let machine = self.threads[thread].machine;
                self.threads.push(Thread { tid, pid: tid, machine, tier, ..Thread::default() });
                let parent = self.threads[thread].tid;
                self.emit(thread, t, What::Created { parent, child: tid, pid: tid });
                let process = self.truth.slice(tid, "process", self.seen(thread, t));
                self.truth.edge(self.threads[thread].job.unwrap(), process);
                t += 1000;
                self.emit(thread, t, What::Leaves);
                let begin = t + 10_000;
                self.emit(child, begin, What::Switch { prev: 0, sleeps: false, next: tid });
                self.threads[child].job = Some(process);
                self.threads[child].parent = thread;
                self.threads[child].ops = [Op::Compute(ns), Op::Exit].into();
                self.run_at(child, begin + 1000);
                t += 1000;
                self.threads[thread].ops.push_front(Op::Reap { child, process });
            }
            Op::Exit => {
                let tid = self.threads[thread].tid;
                self.enters(thread, t, "exit_group", Purpose::Exit, None);
                t += 2000;
                self.emit(thread, t, What::Exited(tid));
                let process = self.threads[thread].job.take().unwrap();
                self.truth.slices[process].to_ns = self.seen(thread, t);
                let parent = self.threads[thread].parent;
                t += 500;
                self.truth.ended.insert(process);
                self.wake(thread, parent, t);
                t += 500;
                self.emit(thread, t, What::Switch { prev: tid, sleeps: true, next: 0 });
                return;
            }
            Op::Reap { child, process } => {
                let object = Some(ChannelObject::Local(Local::Child));
                if !self.truth.ended.contains(&process) {
                    return self.waits(thread, t, "wait4", Purpose::Receive, object, op);
                }
                if !self.is_in_call(thread) {
                    self.enters(thread, t, "wait4", Purpose::Receive, object);
                }
                t += 500;
                let tid = self.threads[child].tid;
                self.emit(thread, t, What::Act(Act::Reaped(tid)));
                self.emit(thread, t, What::Leaves);
                self.truth.in_call.remove(&thread);
                let job = self.threads[thread].job.unwrap();
                self.truth.edge(process, job);
                self.truth.slices[job].dependents.push(process);
                t += 200;
            }
            Op::Log => t = self.log(thread, t),
            Op::LogReceive => {
                let conn = self.threads[thread].log.unwrap();
                let object = ChannelObject::End(self.conns[conn].ends[1]);
                if self.conns[conn].inbox[1].is_empty() {
                    return self.waits(thread, t, "recvfrom", Purpose::Receive, Some(object), op);
                }
                if !self.is_in_call(thread) {
                    self.enters(thread, t, "recvfrom", Purpose::Receive, Some(object));
                }
                t += 300;
                let message = self.conns[conn].inbox[1].pop_front().unwrap();
                let bytes = Bytes { at: None, length: message.bytes };
                let end = self.conns[conn].ends[1];
                self.emit(thread, t, What::Act(Act::Received(end, bytes)));
                let at = self.seen(thread, t);
                self.emit(thread, t, What::Leaves);
                self.truth.in_call.remove(&thread);
                let slice = match self.threads[thread].until_sleep.first() {
                    // More, before it slept.
                    Some(slice) => *slice,
                    None => {
                        let slice = self.truth.slice(self.threads[thread].tid, "unix_receive", at);
                        self.truth.slices[slice].explicit = false;
                        self.threads[thread].until_sleep.push(slice);
                        slice
                    }
                };
                self.truth.edge(message.of, slice);
                let ns = self.chance.below(3000);
                self.threads[thread].ops.extend([Op::Compute(ns), Op::LogReceive]);
                t += 200;
            }
        }
        self.run_at(thread, t);
    }
}
