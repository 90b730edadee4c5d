//! What a thread of a generated system does: compute, sleep, wake, send, receive, and note it down.

use std::collections::VecDeque;

use noise_sketches::input::{Act, Bytes, ChannelObject, Local, Protocol, Purpose, What};

use super::{BEGIN_NS, Message, Op, Pipe, Step, Style, World};

impl World {
    pub(super) fn futex(&self, worker: usize) -> Local {
        let space = self.threads[worker].pid as u64;
        Local::Futex { space, address: 8 * worker as u64 }
    }

    pub(super) fn is_in_call(&self, thread: usize) -> bool {
        self.truth.in_call.contains(&thread)
    }

    pub(super) fn marker(&self, conn: usize, action: &str) -> &'static str {
        match (self.conns[conn].ends[0].protocol, action) {
            (Protocol::Tcp, "send") => "tcp_send",
            (Protocol::Tcp, _) => "tcp_receive",
            (_, "send") => "unix_send",
            _ => "unix_receive",
        }
    }

    pub(super) fn compute(&mut self, thread: usize, t: u64, ns: u64) -> u64 {
        let tid = self.threads[thread].tid;
        if ns > 2000 && self.chance.one_in(5) {
            let off = 1000 + self.chance.below(40_000);
            self.emit(thread, t + ns / 2, What::Switch { prev: tid, sleeps: false, next: 0 });
            self.emit(thread, t + ns / 2 + off, What::Switch { prev: 0, sleeps: false, next: tid });
            return t + ns + off;
        }
        t + ns
    }

    pub(super) fn sleep(&mut self, thread: usize, t: u64) {
        let tid = self.threads[thread].tid;
        let at = self.seen(thread, t);
        // What waits for an answer goes on after that.
        let (job, style) = (self.threads[thread].job, self.threads[thread].style);
        let ends: Vec<usize> = self.threads[thread]
            .until_sleep
            .extract_if(.., |slice| job != Some(*slice) || style.is_some())
            .collect();
        for slice in ends {
            self.truth.slices[slice].to_ns = at;
        }
        self.truth.in_call.insert(thread);
        self.threads[thread].logged = None;
        self.threads[thread].slept_ns = t + 400;
        self.emit(thread, t + 400, What::Switch { prev: tid, sleeps: true, next: 0 });
        self.threads[thread].asleep = true;
    }

    /// A thread that sleeps runs again.
    pub(super) fn wake(&mut self, by: usize, thread: usize, t: u64) {
        if !self.threads[thread].asleep {
            return;
        }
        self.threads[thread].asleep = false;
        let tid = self.threads[thread].tid;
        let is_near = self.threads[thread].machine == self.threads[by].machine;
        let t = if is_near { t } else { t + 60_000 };
        let t = t.max(self.threads[thread].slept_ns + 50);
        if is_near {
            self.emit(by, t, What::Waking { tid, in_task: true });
        }
        let at = t + 1500 + self.chance.below(6000);
        self.emit(thread, at, What::Switch { prev: 0, sleeps: false, next: tid });
        self.run_at(thread, at + 600);
    }

    pub(super) fn send(
        &mut self,
        thread: usize,
        t: u64,
        conn: usize,
        side: usize,
        mut message: Message,
    ) -> u64 {
        let end = self.conns[conn].ends[side];
        self.enters(thread, t, "sendto", Purpose::Send, Some(ChannelObject::End(end)));
        let at = t + 800;
        message.bytes = 1 + self.chance.below(20_000);
        let bytes = message.bytes;
        let start = self.conns[conn].position[side];
        self.conns[conn].position[side] = start.wrapping_add(bytes as u32);
        self.conns[conn].inbox[1 - side].push_back(message);
        let to = self.conns[conn].threads[1 - side];
        if matches!(self.threads[to].style, Some(Style::Loop | Style::Pool)) {
            self.threads[to].ready.push_back(conn);
        }
        self.wake(thread, to, at);
        let done = at + 200 + self.chance.below(8000);
        let place = (end.protocol == Protocol::Tcp).then_some(start);
        self.emit(thread, done, What::Act(Act::Sent(end, Bytes { at: place, length: bytes })));
        self.truth.last_act = done;
        self.emit(thread, done + 100, What::Leaves);
        done + 300
    }

    pub(super) fn receive(&mut self, thread: usize, t: u64, conn: usize, side: usize) -> u64 {
        let t = t + 300;
        let message = self.conns[conn].inbox[side].pop_front().unwrap();
        let end = self.conns[conn].ends[side];
        let start = self.conns[conn].position[side ^ 1].wrapping_sub(
            self.conns[conn].inbox[side].iter().map(|message| message.bytes as u32).sum::<u32>(),
        );
        let first = start.wrapping_sub(message.bytes as u32);
        let place = (end.protocol == Protocol::Tcp).then_some(first);
        let bytes = Bytes { at: place, length: message.bytes };
        self.emit(thread, t, What::Act(Act::Received(end, bytes)));
        self.emit(thread, t + 100, What::Leaves);
        self.truth.in_call.remove(&thread);
        let at = self.seen(thread, t);
        let is_loop = self.threads[thread].style == Some(Style::Loop);
        if side == 0 {
            let asks = self.conns[conn].asks.unwrap();
            self.truth.slices[asks].to_ns = at;
            self.truth.edge(message.of, asks);
            self.truth.slices[asks].dependents.extend(message.chain.iter().copied());
            let parked = if is_loop && message.last {
                self.threads[thread].parked.remove(&conn)
            } else {
                None
            };
            if message.last {
                self.conns[conn].asks = None;
                self.free.entry(thread).or_default().push(conn);
                if let Some((ops, job)) = parked {
                    self.threads[thread].job = job;
                    self.threads[thread].ops = ops;
                }
                if let Some(job) = self.threads[thread].job {
                    self.truth.slices[job].dependents.push(asks);
                }
            } else if is_loop {
                self.threads[thread].ops = [Op::Poll].into();
            } else {
                self.threads[thread].ops.push_front(Op::Receive { conn });
            }
            return t + 300;
        }
        let is_pool = self.threads[thread].style == Some(Style::Pool);
        let slice = match self.conns[conn].serves {
            Some(slice) => slice,
            None => {
                let slice =
                    self.truth.slice(self.threads[thread].tid, self.marker(conn, "receive"), at);
                self.conns[conn].serves = (!is_pool).then_some(slice);
                if is_pool {
                    self.truth.slices[slice].explicit = false;
                    self.threads[thread].until_sleep.push(slice);
                }
                slice
            }
        };
        self.truth.edge(message.of, slice);
        if !message.last {
            let more = if is_loop { Op::Poll } else { Op::Receive { conn } };
            self.threads[thread].ops = [more].into();
            return t + 300;
        }
        self.threads[thread].job = Some(slice);
        let ops = match self.threads[thread].style {
            Some(Style::Pool) => {
                let worker = self.worker(thread);
                let ns = self.chance.below(4000);
                vec![Op::Compute(ns), Op::Post { worker, conn, steps: message.steps }, Op::Poll]
            }
            style => {
                let mut ops = self.ops(&message.steps);
                let parts = 1 + usize::from(self.chance.one_in(4));
                ops.push(Op::Answer { conn, parts });
                ops.push(if style == Some(Style::Loop) { Op::Poll } else { Op::Receive { conn } });
                ops
            }
        };
        self.threads[thread].ops = ops.into();
        t + 300
    }

    /// A thread of a pool that has nothing to do, or a new one.
    pub(super) fn worker(&mut self, of: usize) -> usize {
        let is_free = |worker: &&usize| {
            let worker = &self.threads[**worker];
            worker.asleep && worker.task.is_none() && matches!(worker.ops.front(), Some(Op::Sleep))
        };
        if let Some(worker) = self.threads[of].pool.iter().find(is_free) {
            return *worker;
        }
        let (tier, pid) = (self.threads[of].tier, self.threads[of].pid);
        let worker = self.thread(tier, Some(pid));
        let local = self.futex(worker);
        self.threads[of].pool.push(worker);
        self.threads[worker].ops.push_back(Op::Sleep);
        // It sleeps since long.
        let at = BEGIN_NS - 300_000;
        self.enters(worker, at, "futex", Purpose::Receive, Some(ChannelObject::Local(local)));
        self.sleep(worker, at);
        worker
    }

    /// Random steps of a request at a tier.
    pub(super) fn steps(&mut self, tier: usize) -> Vec<Step> {
        let mut steps = vec![Step::Compute(1000 + self.chance.below(60_000))];
        let is_pool_or_blocking = self.plan.tiers[tier - 1].0 != Style::Loop;
        let count = self.chance.below(3);
        for _ in 0..count {
            if tier < self.plan.tiers.len() && !self.chance.one_in(4) {
                let steps_of_next = self.steps(tier + 1);
                steps.push(Step::Ask(steps_of_next));
            } else if is_pool_or_blocking && !self.plan.plain {
                steps.push(match self.chance.below(4) {
                    0 => Step::Pipe(self.chance.below(80_000)),
                    1 => Step::Fork(self.chance.below(300_000)),
                    _ => Step::Log,
                });
            }
            steps.push(Step::Compute(500 + self.chance.below(20_000)));
        }
        steps
    }

    pub(super) fn ops(&mut self, steps: &[Step]) -> Vec<Op> {
        let op = |step: &Step| match step {
            Step::Compute(ns) => Op::Compute(*ns),
            Step::Ask(steps) => Op::Ask(steps.clone()),
            Step::Pipe(ns) => Op::Put { pipe: usize::MAX, steps: Some(*ns) },
            Step::Fork(ns) => Op::Fork(*ns),
            Step::Log => Op::Log,
        };
        steps.iter().map(op).collect()
    }

    /// The pipes to a thread's helper and back.
    pub(super) fn helper(&mut self, thread: usize) -> (usize, usize) {
        if let Some(pipes) = self.threads[thread].pipe {
            return pipes;
        }
        let tier = self.threads[thread].tier;
        let helper = self.thread(tier, None);
        let mut pipe = |reader| {
            let inode = 100 + self.pipes.len() as u64;
            let local = Local::Pipe { inode, superblock: 9 };
            self.pipes.push(Pipe { local, reader, inbox: VecDeque::new() });
            self.pipes.len() - 1
        };
        let pipes = (pipe(helper), pipe(thread));
        self.threads[thread].pipe = Some(pipes);
        self.threads[helper].pipe = Some(pipes);
        let at = BEGIN_NS - 300_000;
        let local = self.pipes[pipes.0].local;
        self.enters(helper, at, "read", Purpose::Receive, Some(ChannelObject::Local(local)));
        self.threads[helper].ops.push_back(Op::Get { pipe: pipes.0 });
        self.sleep(helper, at);
        pipes
    }

    pub(super) fn log(&mut self, thread: usize, t: u64) -> u64 {
        let conn = match self.threads[thread].log {
            Some(conn) => conn,
            None => {
                let logger = self.thread(0, None);
                let conn = self.conn(thread, logger, Protocol::UnixStream);
                self.threads[logger].log = Some(conn);
                self.threads[thread].log = Some(conn);
                let [one, other] = self.conns[conn].ends;
                let at = BEGIN_NS - 300_000;
                self.emit(thread, at, What::Act(Act::Paired(one, other)));
                self.enters(
                    logger,
                    at,
                    "recvfrom",
                    Purpose::Receive,
                    Some(ChannelObject::End(other)),
                );
                self.threads[logger].ops.push_back(Op::LogReceive);
                self.sleep(logger, at);
                conn
            }
        };
        let job = self.threads[thread].job.unwrap();
        let at = self.seen(thread, t);
        let slice = match self.threads[thread].logged {
            Some((of, slice)) if of == job => slice,
            before => {
                // Of another job, and it did not sleep since.
                if let Some((_, slice)) = before {
                    self.truth.slices[slice].to_ns = at;
                    self.threads[thread].until_sleep.retain(|until| *until != slice);
                }
                let slice = self.truth.slice(self.threads[thread].tid, "unix_send", at);
                self.truth.slices[slice].explicit = false;
                self.truth.edge(job, slice);
                self.threads[thread].until_sleep.push(slice);
                self.threads[thread].logged = Some((job, slice));
                slice
            }
        };
        let message =
            Message { bytes: 0, last: true, steps: Vec::new(), of: slice, chain: Vec::new() };
        self.send(thread, t, conn, 0, message)
    }
}
