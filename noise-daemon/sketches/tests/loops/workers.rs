//! A front whose reader hands requests over to threads by a queue: a thread that finds another request in the queue
//! takes that without a sleep, and threads hold each other up over a lock of the interpreter.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use noise_sketches::input::{Act, Bytes, ChannelObject, Local, Much, Purpose, What};

use super::chance::Chance;
use super::seen::{BEGIN_NS, Line, Seen};

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub clients: usize,
    pub requests: usize,
    pub workers: usize,
    /// Threads wait for the lock of the interpreter once in so many times; never where it is 0.
    pub locks: u64,
    /// The reader reads all that is ready before it hands any of it over.
    pub batch: bool,
    /// Requests that a client has under way at once; they are answered in any order.
    pub ahead: usize,
    /// A thread sends another client what that did not ask for, once in so many answers, before its own.
    pub pushes: u64,
    /// The reader does so, once in so many requests.
    pub reader_pushes: u64,
    /// One in so many calls is not answered: its thread goes on after a time.
    pub unanswered: u64,
    /// A thread that looks into the queue does work of no request first, once in so many times.
    pub chores: u64,
    /// Threads wait for the lock once in so many times behind the answer of the backend.
    pub late_locks: u64,
    /// And sleep for a time there.
    pub late: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seed: 1,
            clients: 1,
            requests: 20,
            workers: 8,
            locks: 0,
            batch: false,
            ahead: 1,
            pushes: 0,
            reader_pushes: 0,
            unanswered: 0,
            chores: 0,
            late_locks: 0,
            late: 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Read,
    /// A thread looks into the queue; it slept before.
    Take(bool),
    Ask(Option<usize>),
    Answered(Option<usize>),
    Unanswered(Option<usize>),
    Late(usize),
    Answer(usize),
    Locked(usize, bool),
}

pub struct Workers {
    plan: Plan,
    chance: Chance,
    seen: Seen,
    steps: BinaryHeap<Reverse<(u64, u64, usize, Step)>>,
    number: u64,
    /// When a request comes from which client.
    comes: BinaryHeap<Reverse<(u64, usize)>>,
    queue: VecDeque<usize>,
    asleep: Vec<usize>,
    /// Who waits for the lock, and with what it goes on.
    locked: Option<(usize, usize, bool)>,
    /// The client of each request.
    clients: Vec<usize>,
    left: Vec<usize>,
    lines: Vec<Line>,
}

const READER: usize = 0;
const QUEUE: Local = Local::Futex { space: 1, address: 64 };
const LOCK: Local = Local::Futex { space: 1, address: 128 };

impl Workers {
    pub fn play(plan: Plan) -> Seen {
        let mut seen = Seen::default();
        (0..=plan.workers).for_each(|thread| seen.thread(thread, 1000));
        let count = plan.clients + plan.workers;
        let mut front = Self {
            plan,
            chance: Chance::new(plan.seed),
            seen,
            steps: BinaryHeap::new(),
            number: 0,
            comes: BinaryHeap::new(),
            queue: VecDeque::new(),
            asleep: Vec::new(),
            locked: None,
            clients: Vec::new(),
            left: vec![plan.requests; plan.clients],
            lines: (0..count).map(|id| Line::new(id as u64, id < plan.clients)).collect(),
        };
        let mut now_ns = BEGIN_NS;
        for line in front.lines.clone() {
            let act = if line.serves { Act::Accepted(line.end) } else { Act::Connected(line.end) };
            let thread = line.end.id as usize - 1;
            let thread = thread.saturating_sub(plan.clients.saturating_sub(1)).min(plan.workers);
            let thread = if line.serves { READER } else { thread };
            front.seen.call(thread, &mut now_ns, ("connect", Purpose::Connect, None), act);
        }
        for client in 0..plan.clients {
            for _ in 0..plan.ahead {
                let at = now_ns + 1000 + front.chance.below(400_000);
                front.comes.push(Reverse((at, client)));
            }
        }
        for worker in 1..=plan.workers {
            front.step(worker, now_ns + 10, Step::Take(false));
        }
        front.step(READER, now_ns + 20, Step::Read);
        while let Some(Reverse((now_ns, _, thread, step))) = front.steps.pop() {
            front.does(thread, now_ns, step);
        }
        front.seen.events.sort_by_key(|(at, _)| *at);
        front.seen
    }

    fn step(&mut self, thread: usize, at: u64, step: Step) {
        self.number += 1;
        self.steps.push(Reverse((at, self.number, thread, step)));
    }

    fn enters(&mut self, thread: usize, at: u64, purpose: Purpose, local: Local) {
        let object = Some(ChannelObject::Local(local));
        self.seen.emit(thread, at, What::Enters { call: "futex", purpose, object });
    }

    /// Sleeps in a call that it begins.
    fn waits(&mut self, thread: usize, at: u64, local: Local) {
        self.enters(thread, at, Purpose::Receive, local);
        let prev = Seen::tid(thread);
        self.seen.emit(thread, at + 200, What::Switch { prev, sleeps: true, next: 0 });
    }

    fn runs(&mut self, thread: usize, at: u64) {
        self.seen.emit(
            thread,
            at,
            What::Switch { prev: 0, sleeps: false, next: Seen::tid(thread) },
        );
    }

    fn woken(&mut self, thread: usize, at: u64, local: Local) {
        self.runs(thread, at);
        self.seen.emit(thread, at + 100, What::Act(Act::Taken(local, Much::One)));
        self.seen.emit(thread, at + 150, What::Leaves);
    }

    /// Wakes a thread, if one sleeps.
    fn wakes(&mut self, by: usize, at: u64, local: Local, thread: Option<usize>) {
        self.enters(by, at, Purpose::Send, local);
        if let Some(thread) = thread {
            let tid = Seen::tid(thread);
            self.seen.emit(by, at + 300, What::Waking { tid, in_task: true });
        }
        self.seen.emit(by, at + 400, What::Act(Act::Posted(local)));
        self.seen.emit(by, at + 450, What::Leaves);
    }

    fn sends(&mut self, thread: usize, at: u64, line: usize) {
        let of = &mut self.lines[line];
        let bytes = Bytes { at: Some(of.sent), length: 70 };
        of.sent = of.sent.wrapping_add(70);
        let (end, mut now_ns) = (of.end, at);
        let call = ("sendto", Purpose::Send, Some(ChannelObject::End(end)));
        self.seen.call(thread, &mut now_ns, call, Act::Sent(end, bytes));
    }

    fn received(&mut self, line: usize) -> Act {
        let of = &mut self.lines[line];
        let bytes = Bytes { at: Some(of.received), length: 50 };
        of.received = of.received.wrapping_add(50);
        Act::Received(of.end, bytes)
    }

    fn does(&mut self, thread: usize, now_ns: u64, step: Step) {
        let mut now_ns = now_ns;
        if let Some((waiter, request, is_late)) =
            self.locked.take_if(|(waiter, ..)| *waiter != thread)
        {
            self.wakes(thread, now_ns, LOCK, Some(waiter));
            self.step(waiter, now_ns + 2000, Step::Locked(request, is_late));
            now_ns += 1000;
        }
        match step {
            Step::Read => self.reads(now_ns),
            Step::Take(has_slept) => self.takes(thread, now_ns, has_slept),
            Step::Locked(request, is_late) => {
                self.woken(thread, now_ns, LOCK);
                let next = if is_late { Step::Answer(request) } else { Step::Ask(Some(request)) };
                self.step(thread, now_ns + 1000, next);
            }
            Step::Ask(request) => {
                let line = self.plan.clients + thread - 1;
                let end = self.lines[line].end;
                self.seen.calls.push((end.id, now_ns, request));
                self.sends(thread, now_ns, line);
                let object = Some(ChannelObject::End(end));
                let (call, purpose) = ("recvfrom", Purpose::Receive);
                self.seen.emit(thread, now_ns + 2000, What::Enters { call, purpose, object });
                let prev = Seen::tid(thread);
                self.seen.emit(thread, now_ns + 2200, What::Switch { prev, sleeps: true, next: 0 });
                let at = now_ns + 30_000 + self.chance.below(500_000);
                match self.once_in(self.plan.unanswered) {
                    true => self.step(thread, at + 500_000, Step::Unanswered(request)),
                    false => self.step(thread, at, Step::Answered(request)),
                }
            }
            Step::Unanswered(request) => {
                self.runs(thread, now_ns);
                self.seen.emit(thread, now_ns + 200, What::Leaves);
                self.goes_on(thread, now_ns + 1000, request);
            }
            Step::Answered(request) => {
                self.runs(thread, now_ns);
                let act = self.received(self.plan.clients + thread - 1);
                self.seen.emit(thread, now_ns + 100, What::Act(act));
                self.seen.emit(thread, now_ns + 200, What::Leaves);
                let at = now_ns + 1000 + self.chance.below(20_000);
                self.goes_on(thread, at, request);
            }
            Step::Late(request) => {
                self.runs(thread, now_ns);
                self.seen.emit(thread, now_ns + 200, What::Leaves);
                self.step(thread, now_ns + 1000, Step::Answer(request));
            }
            Step::Answer(request) => {
                let mut now_ns = now_ns;
                let client = self.clients[request];
                if self.once_in(self.plan.pushes) {
                    let other = self.chance.below(self.plan.clients as u64) as usize;
                    if other != client {
                        self.sends(thread, now_ns, other);
                        now_ns += 2000;
                    }
                }
                self.sends(thread, now_ns, client);
                if self.left[client] > self.plan.ahead {
                    let at = now_ns + 30_000 + self.chance.below(300_000);
                    self.comes.push(Reverse((at, client)));
                }
                self.left[client] -= 1;
                self.step(thread, now_ns + 3000, Step::Take(false));
            }
        }
    }

    /// Whether something happens that does so once in so many times; never where that is 0.
    fn once_in(&mut self, count: u64) -> bool {
        count > 0 && self.chance.one_in(count)
    }

    /// A thread goes on behind its call.
    fn goes_on(&mut self, thread: usize, now_ns: u64, request: Option<usize>) {
        let Some(request) = request else {
            self.step(thread, now_ns, Step::Take(false));
            return;
        };
        if self.locked.is_none() && self.once_in(self.plan.late_locks) {
            self.waits(thread, now_ns, LOCK);
            self.locked = Some((thread, request, true));
        } else if self.once_in(self.plan.late) {
            let (call, purpose) = ("clock_nanosleep", Purpose::Other);
            self.seen.emit(thread, now_ns, What::Enters { call, purpose, object: None });
            let prev = Seen::tid(thread);
            self.seen.emit(thread, now_ns + 200, What::Switch { prev, sleeps: true, next: 0 });
            let at = now_ns + 10_000 + self.chance.below(500_000);
            self.step(thread, at, Step::Late(request));
        } else {
            self.step(thread, now_ns, Step::Answer(request));
        }
    }

    fn takes(&mut self, thread: usize, now_ns: u64, has_slept: bool) {
        if has_slept {
            self.woken(thread, now_ns, QUEUE);
        }
        let now_ns = now_ns + 500;
        // One that was woken takes what is there.
        if self.queue.is_empty() && !has_slept && self.once_in(self.plan.chores) {
            self.step(thread, now_ns, Step::Ask(None));
            return;
        }
        let Some(request) = self.queue.pop_front() else {
            self.waits(thread, now_ns, QUEUE);
            self.asleep.push(thread);
            return;
        };
        if self.plan.locks > 0 && self.locked.is_none() && self.chance.one_in(self.plan.locks) {
            self.waits(thread, now_ns, LOCK);
            self.locked = Some((thread, request, false));
            return;
        }
        let at = now_ns + 500 + self.chance.below(20_000);
        self.step(thread, at, Step::Ask(Some(request)));
    }

    fn reads(&mut self, now_ns: u64) {
        if self.left.iter().all(|left| *left == 0) {
            return;
        }
        let mut now_ns = now_ns;
        let first = self.comes.peek().map(|Reverse((at, _))| *at);
        if first.is_none_or(|first| first > now_ns) {
            // Looks again, in a turn of its own.
            self.step(READER, first.unwrap_or(now_ns + 5000).max(now_ns + 3000), Step::Read);
            let what = What::Enters { call: "epoll_wait", purpose: Purpose::Loop, object: None };
            self.seen.emit(READER, now_ns, what);
            self.seen.sleeps(READER, now_ns + 200, now_ns + 2500);
            self.seen.emit(READER, now_ns + 2600, What::Leaves);
            return;
        }
        let what = What::Enters { call: "epoll_wait", purpose: Purpose::Loop, object: None };
        self.seen.emit(READER, now_ns, what);
        self.seen.emit(READER, now_ns + 100, What::Leaves);
        now_ns += 300;
        let mut read = Vec::new();
        while let Some(Reverse((at, client))) = self.comes.peek().copied()
            && at <= now_ns
            && (self.plan.batch || read.is_empty())
        {
            self.comes.pop();
            let (end, act) = (self.lines[client].end, self.received(client));
            let call = ("recvfrom", Purpose::Receive, Some(ChannelObject::End(end)));
            let at = self.seen.call(READER, &mut now_ns, call, act);
            self.seen.requests.push((end.id, at));
            self.clients.push(client);
            read.push(self.clients.len() - 1);
        }
        for request in read {
            if self.once_in(self.plan.reader_pushes) {
                let client = self.chance.below(self.plan.clients as u64) as usize;
                self.sends(READER, now_ns, client);
                now_ns += 1500;
            }
            self.queue.push_back(request);
            let woken = self.asleep.pop();
            self.wakes(READER, now_ns, QUEUE, woken);
            if let Some(woken) = woken {
                let at = now_ns + 2500 + self.chance.below(8000);
                self.step(woken, at, Step::Take(true));
            }
            now_ns += 600;
        }
        self.step(READER, now_ns + 500, Step::Read);
    }
}
