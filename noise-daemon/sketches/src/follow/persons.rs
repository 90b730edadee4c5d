//! Threads and CPUs: who runs where, in which call, since when.

use foldhash::{HashMap, HashSet};
use noise_trace::event::Comm;
use noise_trace::follow::{PerCpu, Processor};
use noise_trace::threads::MAX_TID;

use super::evidence::turns::LoopTurns;
use super::taken::Stints;
use crate::counts::Missing;
use crate::input::{ChannelObject, Input, Known, Purpose};
use crate::slices::SliceId;
use crate::tallies::{Calls, Idle, TallyMark};

/// The place of a thread; an id that is given again is another one.
pub type ThreadId = u32;
/// Threads that are followed.
const MAX_THREADS: usize = 1 << 21;

/// A system call that a thread is in.
#[derive(Clone, Copy, Debug)]
pub struct InCall {
    /// Its place among the thread's.
    pub place: u16,
    pub purpose: Purpose,
    pub object: Option<ChannelObject>,
    /// Since then, nanoseconds since the epoch.
    pub since_ns: u64,
    /// It slept in it.
    pub slept: bool,
    /// What the thread had been without a CPU before it.
    idle: Idle,
}

/// Who woke a thread while both were in a call on the same thing.
#[derive(Clone, Copy, Debug)]
pub struct WakeInCall {
    pub thread: ThreadId,
    /// The slice that it worked on.
    pub slice: SliceId,
    /// When, nanoseconds since the epoch.
    pub at_ns: u64,
    pub by_exit: bool,
}

/// A slice with one marker, bounded by sleeps.
#[derive(Clone, Debug)]
pub struct Implicit {
    pub id: SliceId,
    pub from: TallyMark,
    /// What it began with, by the place of that among keys.
    pub key: u32,
    /// It began with something that the thread sent, not with what came.
    pub asks: bool,
    pub has_sent: bool,
    /// The latest that came back.
    pub answered: Option<TallyMark>,
    /// Where it ends, unless something comes back.
    pub bound: Option<TallyMark>,
    /// Connections on which it waits for an answer.
    pub pending: u32,
    /// The connection on which it answered a request that another thread received.
    pub served: Option<u32>,
}

impl Implicit {
    /// Whether all came back that it waited for.
    pub const fn is_answered(&self) -> bool {
        self.asks && self.answered.is_some()
    }

    /// Where it ends, as far as is known.
    pub fn end(&self) -> Option<&TallyMark> {
        self.answered.as_ref().filter(|_| self.asks).or(self.bound.as_ref())
    }
}

#[derive(Clone, Debug, Default)]
pub struct Person {
    /// The recording that it is in.
    pub machine: u16,
    pub tid: i32,
    /// Its process; 0 where that is not known.
    pub pid: i32,
    pub parent: Option<i32>,
    pub comm: Comm,
    pub is_kernel: bool,
    pub call: Option<InCall>,
    /// The slice that it works on.
    pub current: Option<SliceId>,
    pub implicit: Vec<Implicit>,
    /// What it does for requests that other threads receive.
    pub stints: Stints,
    /// Of requests that it received, how many other threads answered, and how many of those more than once.
    pub answered: u32,
    pub answered_twice: u32,
    /// Where it waits for events of many connections.
    pub turns: Option<Box<LoopTurns>>,
    /// From its creation to its exit.
    pub process: Option<(SliceId, TallyMark)>,
    /// Of a kernel thread, from its waking to its sleep.
    pub wakeup: Option<(SliceId, TallyMark)>,
    pub woken: Option<WakeInCall>,
    /// Connections on which it has slices, by their places.
    pub ends: HashSet<u32>,
    /// Those on which it did something since it last slept.
    pub fresh: HashSet<u32>,
    pub calls: Calls,
    pub idle: Idle,
    /// Without a CPU since then.
    pub off_ns: Option<u64>,
    pub has_ended: bool,
    /// Events of it were lost, and it may go on with what is not known.
    pub is_unsure: bool,
    /// What its pieces of work begin with, by the place of that among keys: the latest.
    pub begins: Option<u32>,
    /// Losses by when it was last seen: of its CPU while it runs, else of all.
    seen: u32,
}

impl Person {
    /// It begins a call.
    pub fn enters(
        &mut self,
        now_ns: u64,
        name: u16,
        purpose: Purpose,
        object: Option<ChannelObject>,
    ) {
        let place = self.calls.add(name);
        let idle = self.idle;
        self.call = Some(InCall { place, purpose, object, since_ns: now_ns, slept: false, idle });
    }

    /// Now, with the call that it is in, or without.
    pub fn mark(&self, now_ns: u64, with_call: bool) -> TallyMark {
        let without = self.call.filter(|_| !with_call).map(|call| call.place);
        TallyMark { at_ns: now_ns, idle: self.idle, calls: self.calls.counts(without) }
    }

    /// When it began the call that it is in, or now.
    pub fn mark_entry(&self, now_ns: u64) -> TallyMark {
        let mut mark = self.mark(now_ns, false);
        if let Some(call) = &self.call {
            (mark.at_ns, mark.idle) = (call.since_ns, call.idle);
        }
        mark
    }

    /// The id of its process, or its own.
    pub const fn process_id(&self) -> i32 {
        if self.pid == 0 { self.tid } else { self.pid }
    }

    /// Since when it is in a call.
    pub fn since_ns(&self, now_ns: u64) -> u64 {
        self.call.map_or(now_ns, |call| call.since_ns)
    }
}

/// Who a thread was, for those who read slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedOwner {
    /// The recording that it is in.
    pub machine: u16,
    pub tid: i32,
    /// Its process; 0 where that is not known.
    pub pid: i32,
    pub comm: Comm,
    /// Its process's name, or its own.
    pub process: Comm,
}

#[derive(Debug, Default)]
pub struct Persons {
    all: Vec<Person>,
    places: HashMap<(u16, i32), ThreadId>,
    cpus: Vec<RecordingCpus>,
}

#[derive(Debug, Default)]
struct RecordingCpus {
    all: PerCpu<Processor<ThreadId>>,
    /// How often events of any of them were lost.
    losses: u32,
}

impl Persons {
    pub fn get(&self, thread: ThreadId) -> Option<&Person> {
        self.all.get(thread as usize)
    }

    pub fn get_mut(&mut self, thread: ThreadId) -> Option<&mut Person> {
        self.all.get_mut(thread as usize)
    }

    /// The recording that it is in.
    pub fn machine(&self, thread: ThreadId) -> u16 {
        self.get(thread).map_or(0, |person| person.machine)
    }

    /// The thread with an id; of the idle tasks there is none.
    pub fn place(&mut self, machine: u16, tid: i32) -> Option<ThreadId> {
        if let Some(place) = self.places.get(&(machine, tid)) {
            return Some(*place);
        }
        self.add(machine, tid)
    }

    /// The thread with an id, where it was seen.
    pub fn find(&self, machine: u16, tid: i32) -> Option<ThreadId> {
        self.places.get(&(machine, tid)).copied()
    }

    fn add(&mut self, machine: u16, tid: i32) -> Option<ThreadId> {
        if !(1..MAX_TID).contains(&tid) || self.all.len() >= MAX_THREADS {
            return None;
        }
        let place = self.all.len() as ThreadId;
        let seen = self.losses(machine);
        let stints = Stints::new(seen > 0);
        self.all.push(Person { machine, tid, seen, stints, ..Person::default() });
        self.places.insert((machine, tid), place);
        Some(place)
    }

    /// A thread that is new: whoever had its id is gone.
    pub fn create(&mut self, machine: u16, tid: i32) -> Option<ThreadId> {
        self.add(machine, tid)
    }

    pub fn known(&mut self, machine: u16, known: &Known) {
        let Some(place) = self.place(machine, known.tid) else { return };
        let Some(person) = self.get_mut(place) else { return };
        if known.pid != 0 {
            person.pid = known.pid;
        }
        if known.comm != Comm::default() {
            person.comm = known.comm;
        }
        person.is_kernel |= known.is_kernel;
    }

    fn losses(&self, machine: u16) -> u32 {
        self.cpus.get(usize::from(machine)).map_or(0, |cpus| cpus.losses)
    }

    fn cpus(&mut self, machine: u16) -> &mut RecordingCpus {
        let machine = usize::from(machine);
        if self.cpus.len() <= machine {
            self.cpus.resize_with(machine + 1, RecordingCpus::default);
        }
        &mut self.cpus[machine]
    }

    fn cpu(&mut self, input: &Input<'_>) -> Option<&mut Processor<ThreadId>> {
        self.cpus(input.machine).all.of(input.cpu)
    }

    pub fn current(&self, machine: u16, cpu: u32) -> Option<ThreadId> {
        self.cpus.get(usize::from(machine))?.all.get(cpu)?.current()
    }

    /// The thread that runs on a CPU, and what may be missing of it since it was last seen. An event that names it by its id
    /// says more than the latest switch.
    pub fn running(&mut self, input: &Input<'_>) -> Option<(ThreadId, Option<Missing>)> {
        let cpu = *self.cpu(input)?;
        if input.tid > 0 {
            let thread = self.place(input.machine, input.tid)?;
            if cpu.current() != Some(thread) {
                return Some((thread, self.comes(input, Some(thread))));
            }
        }
        let thread = cpu.current()?;
        let person = self.get_mut(thread)?;
        let missing = (person.seen != cpu.losses()).then_some(Missing::Events);
        person.seen = cpu.losses();
        Some((thread, missing))
    }

    /// A thread has no CPU any more; what may be missing of it since it got one.
    pub fn leaves(&mut self, input: &Input<'_>, thread: ThreadId) -> Option<Missing> {
        let Some(&mut cpu) = self.cpu(input) else { return Some(Missing::Events) };
        let all = self.losses(input.machine);
        let Some(person) = self.get_mut(thread) else { return Some(Missing::Events) };
        let seen = std::mem::replace(&mut person.seen, all);
        match cpu.current() {
            Some(current) if current == thread => (seen != cpu.losses()).then_some(Missing::Events),
            Some(_) if seen == all && cpu.unpaired(thread).is_some() => Some(Missing::Switch),
            // Its first event: there was nothing to lose.
            None if all == 0 => None,
            _ => Some(Missing::Events),
        }
    }

    /// A CPU goes to a thread; what may be missing of it since it had one.
    pub fn comes(&mut self, input: &Input<'_>, thread: Option<ThreadId>) -> Option<Missing> {
        let all = self.losses(input.machine);
        let cpu = self.cpu(input)?;
        cpu.goes_to(thread, input.time_ns);
        let losses = cpu.losses();
        let person = thread.and_then(|thread| self.get_mut(thread))?;
        let seen = std::mem::replace(&mut person.seen, losses);
        (seen != all).then_some(Missing::Events)
    }

    /// Events of a CPU were lost, up to a time at most.
    pub fn lost(&mut self, input: &Input<'_>, until_ns: u64) {
        self.unseen(input.machine);
        if let Some(cpu) = self.cpu(input) {
            cpu.lose_until(until_ns);
        }
    }

    /// Events of some CPU are missing.
    pub fn unseen(&mut self, machine: u16) {
        let cpus = self.cpus(machine);
        cpus.losses = cpus.losses.wrapping_add(1);
    }

    pub fn ids(&self) -> impl Iterator<Item = ThreadId> + use<> {
        0..self.all.len() as ThreadId
    }

    pub fn finish(self) -> Vec<NamedOwner> {
        let process = |person: &Person| {
            let first = self.places.get(&(person.machine, person.pid));
            let first = first.and_then(|first| self.all.get(*first as usize));
            let comm = first.map(|first| first.comm).filter(|comm| *comm != Comm::default());
            comm.unwrap_or(person.comm)
        };
        let named = |person: &Person| {
            let Person { machine, tid, pid, comm, .. } = *person;
            NamedOwner { machine, tid, pid, comm, process: process(person) }
        };
        self.all.iter().map(named).collect()
    }
}
