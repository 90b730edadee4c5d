//! What a recording would have of a front, and what the front knows of itself.

use noise_sketches::input::{Act, ChannelObject, Endpoint, Input, Known, Protocol, Purpose, What};

pub const BEGIN_NS: u64 = 1_700_000_000_000_000_000;

/// A connection of the front.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub end: Endpoint,
    /// A client asks there.
    pub serves: bool,
    pub sent: u32,
    pub received: u32,
}

impl Line {
    pub fn new(id: u64, serves: bool) -> Self {
        let (out, into) = (2 * id + 2, 2 * id + 3);
        let end =
            Endpoint { protocol: Protocol::Tcp, id: id + 1, out, into, local: None, remote: None };
        Self { end, serves, sent: 7, received: 9 }
    }
}

#[derive(Debug, Default)]
pub struct Seen {
    pub events: Vec<(u64, Input<'static>)>,
    /// The connection of each request, and when the first of it was received.
    pub requests: Vec<(u64, u64)>,
    /// The connection of each call, when it was sent, and for which request.
    pub calls: Vec<(u64, u64, Option<usize>)>,
}

impl Seen {
    pub const fn tid(thread: usize) -> i32 {
        1000 + thread as i32
    }

    /// A thread of a process.
    pub fn thread(&mut self, thread: usize, pid: i32) {
        let (tid, at) = (Self::tid(thread), BEGIN_NS - 1_000_000);
        let known = Known { tid, pid, comm: Default::default(), is_kernel: false };
        self.emit(thread, at, What::Known(known));
        self.emit(thread, at, What::Switch { prev: 0, sleeps: false, next: tid });
    }

    /// Each thread has a CPU of its own.
    pub fn emit(&mut self, thread: usize, at: u64, what: What<'static>) {
        self.events.push((at, Input { time_ns: at, machine: 0, cpu: thread as u32, tid: 0, what }));
    }

    pub fn sleeps(&mut self, thread: usize, from_ns: u64, to_ns: u64) {
        let tid = Self::tid(thread);
        self.emit(thread, from_ns, What::Switch { prev: tid, sleeps: true, next: 0 });
        self.emit(thread, to_ns, What::Switch { prev: 0, sleeps: false, next: tid });
    }

    /// A call from its begin to its end; when what it did was done.
    pub fn call(
        &mut self,
        thread: usize,
        now_ns: &mut u64,
        (call, purpose, object): (&'static str, Purpose, Option<ChannelObject>),
        act: Act,
    ) -> u64 {
        self.emit(thread, *now_ns, What::Enters { call, purpose, object });
        let at = *now_ns + 700;
        self.emit(thread, at, What::Act(act));
        self.emit(thread, at + 100, What::Leaves);
        *now_ns = at + 200;
        at
    }
}
