//! What threads of the simulated systems have before them, and what is between them.

use std::collections::{HashMap, VecDeque};

use noise_sketches::input::{Endpoint, Local};

use super::{Step, Style};

#[derive(Clone, Debug)]
pub enum Op {
    Compute(u64),
    Send { conn: usize, parts: usize, steps: Vec<Step>, asks: usize },
    Answer { conn: usize, parts: usize },
    Receive { conn: usize },
    Poll,
    Post { worker: usize, conn: usize, steps: Vec<Step> },
    Sleep,
    Ask(Vec<Step>),
    Put { pipe: usize, steps: Option<u64> },
    Get { pipe: usize },
    PipeDone,
    Fork(u64),
    Reap { child: usize, process: usize },
    Exit,
    Log,
    LogReceive,
    Next,
}

/// What is on its way.
#[derive(Clone, Debug)]
pub struct Message {
    pub bytes: u64,
    pub last: bool,
    pub steps: Vec<Step>,
    /// The slice that it is of.
    pub of: usize,
    /// Those that the answer's receiver waited for.
    pub chain: Vec<usize>,
}

#[derive(Debug, Default)]
pub struct Thread {
    pub tid: i32,
    pub pid: i32,
    pub machine: u16,
    pub ops: VecDeque<Op>,
    /// The truth's slice that it works on.
    pub job: Option<usize>,
    /// Those that stand between its job and the request.
    pub chain: Vec<usize>,
    /// Of a loop, what waits for an answer on a connection.
    pub parked: HashMap<usize, (VecDeque<Op>, Option<usize>)>,
    pub ready: VecDeque<usize>,
    pub asleep: bool,
    /// Slices that end where it sleeps.
    pub until_sleep: Vec<usize>,
    pub slept_ns: u64,
    /// The slice of what it logs, of which job.
    pub logged: Option<(usize, usize)>,
    pub parent: usize,
    pub pipe: Option<(usize, usize)>,
    pub log: Option<usize>,
    pub style: Option<Style>,
    pub pool: Vec<usize>,
    pub task: Option<(usize, Vec<Step>, usize, Vec<usize>)>,
    pub tier: usize,
    pub is_client: bool,
}

#[derive(Debug)]
pub struct Conn {
    pub ends: [Endpoint; 2],
    pub threads: [usize; 2],
    pub inbox: [VecDeque<Message>; 2],
    pub position: [u32; 2],
    /// The server's slice, while a request is under way.
    pub serves: Option<usize>,
    pub asks: Option<usize>,
}

#[derive(Debug)]
pub struct Pipe {
    pub local: Local,
    pub reader: usize,
    pub inbox: VecDeque<(usize, Option<u64>)>,
}
