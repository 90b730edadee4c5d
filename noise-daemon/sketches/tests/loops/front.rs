//! A front that serves many clients in one thread: a loop of events, whose handlers call a backend over connections of a
//! pool and go on when the answer comes. Who waits for a connection gets the next one that is free.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use noise_sketches::input::{Act, Bytes, ChannelObject, Purpose, What};

use super::chance::Chance;
use super::seen::{BEGIN_NS, Line, Seen};

/// When a handler goes on with what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// At once, as in node.
    AtOnce,
    /// When all that is ready was read.
    Batch,
    /// In one of the next turns of the loop, as in asyncio: in the next one where it is 1.
    Later(u32),
}

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub clients: usize,
    /// Of each client.
    pub requests: usize,
    pub dispatch: Dispatch,
    /// Connections to the backend.
    pub pool: usize,
    /// Calls on one of them at once.
    pub depth: usize,
    /// Calls of a request, one after the other: from, to.
    pub calls: (u64, u64),
    /// One in so many messages comes in two parts; none where it is 0.
    pub parts: u64,
    /// Who waits for a connection gets it before the answer is sent of the request that had it, where things go on at once.
    pub hands_on_first: bool,
    /// Each call of a request is two at once, where there are connections.
    pub fans: bool,
    /// A handler sleeps for a time before one in so many of its steps; never where it is 0.
    pub naps: u64,
    /// What is sent goes in two calls.
    pub heads: bool,
    /// A call of no request is made from time to time.
    pub background: bool,
    /// Requests that a client has under way at once.
    pub ahead: usize,
    /// Of those of one client, each is begun when the one before is answered.
    pub serial: bool,
    /// One in so many calls is not answered: its request goes on after a time, with a new connection in the pool.
    pub unanswered: u64,
    /// One in so many calls has no answer, and its connection is free at once.
    pub forgets: u64,
    /// In one of so many turns begins work of no request, with calls over the pool.
    pub chores: u64,
    /// In one of so many turns, a client is sent what it did not ask for.
    pub pushes: u64,
    /// One in so many answers of the backend is followed by what was not asked for.
    pub backend_pushes: u64,
    /// A handler sleeps before one in so many answers.
    pub late: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seed: 1,
            clients: 1,
            requests: 20,
            dispatch: Dispatch::AtOnce,
            pool: 128,
            depth: 1,
            calls: (1, 1),
            parts: 0,
            hands_on_first: false,
            fans: false,
            naps: 0,
            heads: false,
            background: false,
            ahead: 1,
            serial: false,
            unanswered: 0,
            forgets: 0,
            chores: 0,
            pushes: 0,
            backend_pushes: 0,
            late: 0,
        }
    }
}

/// What comes on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Comes {
    Part,
    Last,
    /// What was not asked for.
    Push,
}

#[derive(Clone, Copy, Debug)]
enum Task {
    /// A request goes on, with the answer on a connection.
    Go(usize, Option<usize>),
    /// It got a connection.
    Got(usize, usize),
    Background,
    Push,
}

#[derive(Clone, Copy, Debug)]
struct Handler {
    /// None of work of no request.
    client: Option<usize>,
    calls: u64,
    /// Calls that are under way.
    waits: u64,
    has_slept: bool,
    is_done: bool,
}

pub struct Front {
    plan: Plan,
    chance: Chance,
    seen: Seen,
    now_ns: u64,
    /// When what comes on which connection, and whether that is all of it.
    comes: BinaryHeap<Reverse<(u64, u64, usize, Comes)>>,
    number: u64,
    naps: BinaryHeap<Reverse<(u64, usize, Option<usize>)>>,
    ready: VecDeque<(u32, Task)>,
    ticks: VecDeque<Task>,
    handlers: Vec<Handler>,
    /// By connection: the requests that are under way, and when the last answer comes.
    of: Vec<VecDeque<usize>>,
    answered: Vec<u64>,
    free: Vec<usize>,
    waiting: VecDeque<usize>,
    left: Vec<usize>,
    lines: Vec<Line>,
    background: Option<usize>,
    /// A part of a client's request came.
    in_part: Vec<bool>,
    /// Connections that were made later.
    made: u64,
    /// Work of no request that is under way.
    chores: u64,
}

const LOOP: usize = 0;

impl Front {
    pub fn play(plan: Plan) -> Seen {
        let mut seen = Seen::default();
        seen.thread(LOOP, 1);
        let pooled = plan.clients + plan.pool;
        let count = pooled + usize::from(plan.background);
        let lines: Vec<Line> =
            (0..count).map(|id| Line::new(id as u64, id < plan.clients)).collect();
        let mut front = Self {
            plan,
            chance: Chance::new(plan.seed),
            seen,
            now_ns: BEGIN_NS,
            comes: BinaryHeap::new(),
            number: 0,
            naps: BinaryHeap::new(),
            ready: VecDeque::new(),
            ticks: VecDeque::new(),
            handlers: Vec::new(),
            of: vec![VecDeque::new(); count],
            answered: vec![0; count],
            free: (0..plan.depth).flat_map(|_| (plan.clients..pooled).rev()).collect(),
            waiting: VecDeque::new(),
            left: vec![plan.requests; plan.clients],
            lines,
            background: plan.background.then_some(pooled),
            in_part: vec![false; plan.clients],
            made: 0,
            chores: 0,
        };
        for line in &front.lines {
            let act = if line.serves { Act::Accepted(line.end) } else { Act::Connected(line.end) };
            front.seen.call(LOOP, &mut front.now_ns, ("connect", Purpose::Connect, None), act);
        }
        for client in 0..plan.clients {
            for _ in 0..plan.ahead {
                let at = front.now_ns + 1000 + front.chance.below(400_000);
                front.message(client, at);
            }
        }
        while !(front.comes.is_empty() && front.ready.is_empty() && front.naps.is_empty()) {
            front.turn();
        }
        front.seen
    }

    fn message(&mut self, line: usize, at: u64) {
        let in_parts = self.plan.parts > 0 && self.chance.one_in(self.plan.parts);
        let later = at + 1000 + self.chance.below(60_000);
        if in_parts {
            self.comes_at(at, line, Comes::Part);
        }
        self.comes_at(if in_parts { later } else { at }, line, Comes::Last);
    }

    fn comes_at(&mut self, at: u64, line: usize, what: Comes) {
        self.number += 1;
        self.comes.push(Reverse((at, self.number, line, what)));
    }

    /// Whether something happens that does so once in so many times; never where that is 0.
    fn once_in(&mut self, count: u64) -> bool {
        count > 0 && self.chance.one_in(count)
    }

    fn works(&mut self, most_ns: u64) {
        self.now_ns += 300 + self.chance.below(most_ns);
    }

    fn turn(&mut self) {
        let what = What::Enters { call: "epoll_wait", purpose: Purpose::Loop, object: None };
        self.seen.emit(LOOP, self.now_ns, what);
        let comes = self.comes.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
        let first = self.naps.peek().map_or(comes, |Reverse((at, ..))| comes.min(*at));
        if self.ready.is_empty() && first > self.now_ns {
            self.seen.sleeps(LOOP, self.now_ns + 200, first + 2000);
            self.now_ns = first + 2500;
        }
        self.works(300);
        self.seen.emit(LOOP, self.now_ns, What::Leaves);
        let mut readable = Vec::new();
        while let Some(Reverse((at, _, line, what))) = self.comes.peek().copied()
            && at <= self.now_ns
            && readable.len() < 64
        {
            self.comes.pop();
            readable.push((line, what));
        }
        if self.plan.background && self.handlers.len() > 1 && self.chance.one_in(40) {
            self.ready.push_back((0, Task::Background));
        }
        let may_have_chores = self.chores < 3 && !self.left.iter().all(|left| *left == 0);
        if may_have_chores && self.once_in(self.plan.chores) {
            self.chores += 1;
            let handler =
                Handler { client: None, calls: 1, waits: 0, has_slept: false, is_done: false };
            self.handlers.push(handler);
            self.seen.requests.push((u64::MAX, 0));
            self.ready.push_back((0, Task::Go(self.handlers.len() - 1, None)));
        }
        if self.once_in(self.plan.pushes) {
            self.ready.push_back((0, Task::Push));
        }
        while let Some(Reverse((at, request, without))) = self.naps.peek().copied()
            && at <= self.now_ns
        {
            self.naps.pop();
            if let Some(line) = without {
                self.renews(line);
            }
            self.ready.push_back((0, Task::Go(request, without)));
        }
        for _ in 0..self.ready.len() {
            match self.ready.pop_front() {
                Some((0, task)) => self.run(task),
                Some((turns, task)) => self.ready.push_back((turns - 1, task)),
                None => {}
            }
        }
        let mut batch = Vec::new();
        for (line, what) in readable {
            let Some(task) = self.read(line, what) else { continue };
            match self.plan.dispatch {
                Dispatch::AtOnce => self.run(task),
                Dispatch::Batch => batch.push(task),
                Dispatch::Later(turns) => self.ready.push_back((turns - 1, task)),
            }
        }
        for task in batch {
            self.run(task);
        }
    }

    /// A connection whose call was not answered is closed, and a new one has its place.
    fn renews(&mut self, line: usize) {
        let end = self.lines[line].end;
        let close = ("close", Purpose::Connect, None);
        self.seen.call(LOOP, &mut self.now_ns, close, Act::Closed(end));
        self.made += 1;
        self.lines[line] = Line::new(self.made + 1000, false);
        let end = self.lines[line].end;
        let connect = ("connect", Purpose::Connect, None);
        self.seen.call(LOOP, &mut self.now_ns, connect, Act::Connected(end));
        self.of[line].pop_front();
    }

    /// Reads what came. Returns the handler that goes on with it, once all of it came.
    fn read(&mut self, line: usize, what: Comes) -> Option<Task> {
        self.works(1500);
        let of = &mut self.lines[line];
        let bytes = Bytes { at: Some(of.received), length: 50 };
        of.received = of.received.wrapping_add(50);
        let end = of.end;
        let call = ("recvfrom", Purpose::Receive, Some(ChannelObject::End(end)));
        let at = self.seen.call(LOOP, &mut self.now_ns, call, Act::Received(end, bytes));
        if what == Comes::Push {
            return None;
        }
        let is_call = line >= self.plan.clients;
        let is_last = what == Comes::Last;
        let is_new = || self.of[line].is_empty() || (self.plan.ahead > 1 && !self.in_part[line]);
        if !is_call && is_new() {
            let (from, to) = self.plan.calls;
            let calls = from + self.chance.below(to - from + 1);
            let client = Some(line);
            let (waits, has_slept, is_done) = (0, false, false);
            self.handlers.push(Handler { client, calls, waits, has_slept, is_done });
            self.of[line].push_back(self.handlers.len() - 1);
            self.seen.requests.push((end.id, at));
        }
        if !is_call {
            self.in_part[line] = !is_last;
        }
        let of = &mut self.of[line];
        let request = match is_call {
            true if is_last => of.pop_front(),
            true => of.front().copied(),
            // What comes behind others of a client waits for these.
            false if self.plan.serial && of.len() > 1 => None,
            false => of.back().copied(),
        };
        request
            .filter(|_| is_last && self.background != Some(line))
            .map(|request| Task::Go(request, is_call.then_some(line)))
    }

    fn send(&mut self, line: usize) -> u64 {
        self.works(20_000);
        let of = &mut self.lines[line];
        let bytes = Bytes { at: Some(of.sent), length: 70 };
        of.sent = of.sent.wrapping_add(70);
        let (end, at) = (of.end, self.now_ns);
        let call = ("sendto", Purpose::Send, Some(ChannelObject::End(end)));
        self.seen.call(LOOP, &mut self.now_ns, call, Act::Sent(end, bytes));
        if self.plan.heads {
            let of = &mut self.lines[line];
            let bytes = Bytes { at: Some(of.sent), length: 500 };
            of.sent = of.sent.wrapping_add(500);
            self.seen.call(LOOP, &mut self.now_ns, call, Act::Sent(end, bytes));
        }
        at
    }

    fn run(&mut self, task: Task) {
        match task {
            Task::Go(request, line) => self.go(request, line),
            Task::Got(request, line) => self.ask(request, line),
            Task::Push => {
                let client = self.chance.below(self.plan.clients as u64) as usize;
                self.send(client);
            }
            Task::Background => {
                let line = self.background.unwrap();
                let at = self.send(line);
                self.seen.calls.push((self.lines[line].end.id, at, None));
                let answered = self.now_ns + 60_000 + self.chance.below(900_000);
                self.message(line, answered);
            }
        }
        while let Some(task) = self.ticks.pop_front() {
            self.run(task);
        }
    }

    fn go(&mut self, request: usize, line: Option<usize>) {
        if let Some(line) = line {
            self.handlers[request].waits -= 1;
            match self.waiting.pop_front() {
                None => self.free.push(line),
                Some(next) => match self.plan.dispatch {
                    Dispatch::Later(_) => self.ready.push_back((0, Task::Got(next, line))),
                    _ if self.plan.hands_on_first => self.ask(next, line),
                    _ => self.ticks.push_back(Task::Got(next, line)),
                },
            }
        }
        if self.handlers[request].waits > 0 {
            return;
        }
        let is_last = self.handlers[request].calls == 0 && !self.handlers[request].has_slept;
        if self.once_in(self.plan.naps) || (is_last && self.once_in(self.plan.late)) {
            self.handlers[request].has_slept = is_last;
            let at = self.now_ns + 10_000 + self.chance.below(500_000);
            self.naps.push(Reverse((at, request, None)));
            return;
        }
        let handler = &mut self.handlers[request];
        if handler.calls > 0 {
            handler.calls -= 1;
            for _ in 0..1 + u64::from(self.plan.fans) {
                self.handlers[request].waits += 1;
                match self.free.pop() {
                    Some(line) => self.ask(request, line),
                    None => self.waiting.push_back(request),
                }
            }
            return;
        }
        handler.is_done = true;
        let Some(client) = handler.client else {
            self.chores -= 1;
            return;
        };
        // Answers go in the order of the requests.
        while let Some(first) = self.of[client].front().copied()
            && self.handlers[first].is_done
        {
            self.send(client);
            self.of[client].pop_front();
            if self.left[client] > self.plan.ahead {
                let at = self.now_ns + 20_000 + self.chance.below(300_000);
                self.message(client, at);
            }
            self.left[client] -= 1;
            if self.plan.serial
                && let Some(next) = self.of[client].front().copied()
                && !self.in_part[client]
            {
                self.ready.push_back((0, Task::Go(next, None)));
            }
        }
    }

    fn ask(&mut self, request: usize, line: usize) {
        let at = self.send(line);
        self.of[line].push_back(request);
        let of = self.handlers[request].client.map(|_| request);
        self.seen.calls.push((self.lines[line].end.id, at, of));
        if self.once_in(self.plan.forgets) {
            self.of[line].pop_back();
            self.ready.push_back((0, Task::Go(request, Some(line))));
            return;
        }
        if self.once_in(self.plan.unanswered) {
            let at = self.now_ns + 500_000 + self.chance.below(500_000);
            self.naps.push(Reverse((at, request, Some(line))));
            return;
        }
        let answered = self.now_ns + 60_000 + self.chance.below(900_000);
        let answered = answered.max(self.answered[line] + 100_000);
        self.answered[line] = answered;
        self.message(line, answered);
        if self.once_in(self.plan.backend_pushes) {
            let at = self.now_ns + self.chance.below(1_500_000);
            self.comes_at(at, line, Comes::Push);
        }
    }
}
