//! Where the time of some threads went between two times: what each did by the execution graph, what
//! interrupts took while it ran, and how long it slept uninterruptibly. And which of its waits were the
//! longest, for which a path is worth a look.
//!
//! Not known here: quotas, the hypervisor and memory reclaim, of which there is no event.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use noise_common::charge::Cause;
use noise_common::signals::Signal;
use noise_trace::delays::Delays;
use noise_trace::delays::document::Spread;
use noise_trace::delays::watch::{Delay, Run, RunQueueWait, Watch};
use noise_trace::event::{Event, TraceKind};
use noise_trace::follow::{Begin, ThreadStep, steps};
use noise_trace::select::Select;
use noise_trace::threads::Threads;

use crate::build::{Builder, Waker};
use crate::delayed_ack::DelayedAcks;
use crate::document::Traced;
use crate::graph::{Graph, NO_CPU, Who, Worker, WorkerId};
use crate::held::{Held, held};
use crate::state::State;

mod enders;
mod waits;

use enders::Slept;
pub use enders::{Alone, Enders};
use waits::{disk_waits, execution, segment};

/// Sources of interrupts that are kept apart.
const MAX_SOURCES: usize = 4096;

/// What a thread does, for accounts: the states of paths, but sleeps by what ended them.
pub const ASLEEP: &str = "asleep";

/// What an interrupt took while one of the threads ran.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Interruption {
    /// `hardirq`, `softirq` or `nmi`.
    pub cause: &'static str,
    /// The interrupt's handler, the vector, the softirq; empty of an NMI.
    pub source: String,
    /// How often, and how long, without what nested inside.
    #[serde(flatten)]
    pub taken: Spread,
}

/// One of the threads.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Member {
    pub tid: i32,
    /// Its process; 0 where that is not known.
    pub pid: i32,
    pub comm: String,
    /// Time by state, nanoseconds; sums to the time that it was there. See [`ASLEEP`].
    pub totals_ns: BTreeMap<&'static str, u64>,
    /// Its waits for a CPU, as far as they lie between the two times.
    pub waits: Spread,
    /// Its uninterruptible sleeps, likewise; they are part of its sleeps.
    pub uninterruptible: Spread,
}

impl Member {
    pub fn span_ns(&self) -> u64 {
        self.totals_ns.values().fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    pub fn ns(&self, state: &str) -> u64 {
        self.totals_ns.get(state).copied().unwrap_or(0)
    }
}

/// A time that one of the threads did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    pub worker: WorkerId,
    /// From then on, nanoseconds.
    pub from_ns: u64,
    /// Until it ran again, or the later of the two times.
    pub to_ns: u64,
    /// Without what it slept for a timer or a packet, or without a known reason: what others on this host
    /// had a part in.
    pub held_ns: u64,
}

#[derive(Debug)]
pub struct PathAccount {
    pub graph: Graph,
    /// Who is who, at the end.
    pub threads: Threads,
    /// The threads, those that waited longest for a CPU first.
    pub members: Vec<Member>,
    /// What interrupts took from them, most first.
    pub interrupted: Vec<Interruption>,
    /// Events that were lost between the two times.
    pub discarded: u64,
    /// Waits and sleeps that have culprits, one execution for each thread, for [`Blame`](crate::blame::Blame).
    pub waits: Vec<Traced>,
    pub enders: Enders,
    /// What those of their sleeps were spent on that others of them ended, by the sleeper.
    pub held: BTreeMap<i32, Held>,
    /// The same of sleeps until a lock of the kernel was let go by another thread of their process.
    pub held_in_kernel: BTreeMap<i32, Held>,
    pauses: Vec<Pause>,
    ids: BTreeSet<i32>,
}

impl PathAccount {
    /// Waits for disks of threads that ended sleeps, while these lasted: who was ahead of them was in the way of who slept.
    /// One execution for each sleep.
    pub fn disk_waits_of(&self, is_one: impl Fn(i32) -> bool) -> Vec<Traced> {
        disk_waits(&self.graph, self.enders.sleeps.iter().filter(|sleep| is_one(sleep.waker)))
    }

    pub fn is_member(&self, tid: i32) -> bool {
        self.ids.contains(&tid)
    }

    /// Their longest pauses: those first in which others had the longest part. At most so many.
    pub fn longest(&self, most: usize) -> Vec<Pause> {
        let mut all = self.pauses.clone();
        let length = |pause: &Pause| pause.to_ns.saturating_sub(pause.from_ns);
        all.sort_by_key(|pause| {
            (std::cmp::Reverse((pause.held_ns, length(pause))), pause.from_ns, pause.worker)
        });
        all.truncate(most);
        all
    }

    /// Time of all of them by state, nanoseconds.
    pub fn totals_ns(&self) -> BTreeMap<&'static str, u64> {
        let mut totals: BTreeMap<&'static str, u64> = BTreeMap::new();
        for (state, ns) in self.members.iter().flat_map(|member| &member.totals_ns) {
            let total = totals.entry(state).or_default();
            *total = total.saturating_add(*ns);
        }
        totals
    }

    /// Waits for a CPU, or uninterruptible sleeps, of all of them.
    pub fn spread(&self, of: impl Fn(&Member) -> &Spread) -> Spread {
        let mut all = Spread::default();
        self.members.iter().for_each(|member| all.add_all(of(member)));
        all
    }
}

/// What interrupts took from whoever of the threads ran.
#[derive(Debug, Default)]
struct InterruptTime {
    /// Whether one of them runs on the CPU of the event at hand.
    is_theirs: bool,
    from_ns: u64,
    to_ns: u64,
    by: HashMap<(&'static str, String), Spread>,
}

impl InterruptTime {
    fn add(&mut self, cause: Cause, source: String, end_ns: u64, ns: u64) {
        if !self.is_theirs || !(self.from_ns..=self.to_ns).contains(&end_ns) {
            return;
        }
        let key = (cause.name(), source);
        if self.by.len() < MAX_SOURCES || self.by.contains_key(&key) {
            self.by.entry(key).or_default().add(ns);
        }
    }
}

impl Watch for InterruptTime {
    const EACH: bool = false;

    fn ran(&mut self, _: &Run) {}

    fn waited(&mut self, _: &RunQueueWait<'_>) {}

    fn delayed(&mut self, delay: &Delay<'_>) {
        let cause = match delay.signal {
            Signal::Hardirq | Signal::Vector => Cause::Hardirq,
            Signal::Softirq => Cause::Softirq,
            _ => return,
        };
        let whole_ns = delay.to_ns.saturating_sub(delay.from_ns);
        let source = delay.subject.to_string();
        self.add(cause, source, delay.to_ns, delay.net_ns.unwrap_or(whole_ns));
    }
}

/// An uninterruptible sleep, and all of them so far.
#[derive(Clone, Debug, Default)]
struct Sleeps {
    since_ns: Option<u64>,
    all: Spread,
    /// When each of them began.
    begins: BTreeSet<u64>,
}

/// Makes an account while events come in, in the order of time. It is to see those before the first of the two
/// times, too, as far as there are any: who does what then is known from them alone.
pub struct Accountant {
    select: Select,
    wanted: BTreeSet<i32>,
    builder: Builder,
    delays: Delays,
    taken: InterruptTime,
    acks: DelayedAcks,
    sleeps: HashMap<i32, Sleeps>,
    /// The first step of each thread, which says what it did before.
    first: HashMap<i32, ThreadStep>,
    from_ns: u64,
    to_ns: u64,
    discarded: u64,
    /// Sleeps that begin before that time may have ended where it was not seen.
    seen_since_ns: u64,
}

impl Accountant {
    /// For the threads that are selected, between two times.
    pub fn new(select: Select, waker: Waker, from_ns: u64, to_ns: u64) -> Self {
        Self {
            select,
            wanted: BTreeSet::new(),
            builder: Builder::new(waker),
            delays: Delays::of_interrupts(),
            taken: InterruptTime { from_ns, to_ns, ..InterruptTime::default() },
            acks: DelayedAcks::default(),
            sleeps: HashMap::new(),
            first: HashMap::new(),
            from_ns,
            to_ns,
            discarded: 0,
            seen_since_ns: 0,
        }
    }

    pub const fn builder(&self) -> &Builder {
        &self.builder
    }

    /// Whether a thread is one of those that are selected, as far as that is known by now.
    pub fn wants(&self, tid: i32) -> bool {
        self.wanted.contains(&tid)
    }

    pub fn follow(&mut self, event: &Event<'_>) {
        if event.time_ns > self.to_ns {
            return;
        }
        self.builder.follow(event);
        self.acks.follow(event);
        let current = self.select.threads.current(event.cpu);
        self.taken.is_theirs = current.is_some_and(|tid| self.wanted.contains(&tid));
        self.delays.follow_each(event, &mut self.taken);
        self.select.note(event, &mut self.wanted);
        match &event.kind {
            TraceKind::NmiHandler { delta_ns, .. } => {
                let ns = u64::try_from(*delta_ns).unwrap_or(0);
                self.taken.add(Cause::Nmi, String::new(), event.time_ns, ns);
            }
            TraceKind::Lost(loss) => {
                self.seen_since_ns = self.seen_since_ns.max(loss.to_ns);
                if loss.to_ns > self.from_ns || event.time_ns >= self.from_ns {
                    self.discarded = self.discarded.saturating_add(loss.events.max(loss.packets));
                }
            }
            _ => {}
        }
        for (task, step, _) in steps(event, Begin::Waking) {
            self.step(task.tid, step, event.time_ns);
        }
    }

    fn step(&mut self, tid: i32, step: ThreadStep, now_ns: u64) {
        if self.wanted.contains(&tid) {
            self.first.entry(tid).or_insert(step);
        }
        match step {
            ThreadStep::Leaves(left_in)
                if left_in.waits_uninterruptibly() && self.wanted.contains(&tid) =>
            {
                let sleeps = self.sleeps.entry(tid).or_default();
                sleeps.since_ns = Some(now_ns);
                sleeps.begins.insert(now_ns);
            }
            ThreadStep::Runs | ThreadStep::Wakes => self.wake(tid, now_ns),
            _ => {}
        }
    }

    /// An uninterruptible sleep ends, if there was one.
    fn wake(&mut self, tid: i32, now_ns: u64) {
        let Some(sleeps) = self.sleeps.get_mut(&tid) else { return };
        let Some(since_ns) = sleeps.since_ns.take() else { return };
        let ns = now_ns.saturating_sub(since_ns.max(self.from_ns));
        if now_ns > self.from_ns && ns > 0 && since_ns >= self.seen_since_ns {
            sleeps.all.add(ns);
        }
    }

    /// What came out, with what workers of executions that are looked at do at the end. Of a thread without a single
    /// event `runs` says whether it runs all the time; else it sleeps.
    pub fn finish(mut self, others: &[WorkerId], runs: impl Fn(i32) -> bool) -> PathAccount {
        for id in others {
            let last_ns = self.builder.graph().get(*id).and_then(Worker::span).map(|(_, ns)| ns);
            if last_ns.is_some_and(|last_ns| last_ns < self.to_ns) {
                self.builder.until(*id, self.to_ns);
            }
        }
        for tid in self.sleeps.keys().copied().collect::<Vec<_>>() {
            self.wake(tid, self.to_ns);
        }
        let sight = self.builder.sight(0);
        let gaps = sight.map(|sight| sight.gaps(self.from_ns, self.to_ns)).unwrap_or_default();
        let (mut members, mut waits, mut pauses) = (Vec::new(), Vec::new(), Vec::new());
        let mut enders = Enders::default();
        let ids: BTreeSet<i32> = self.wanted.iter().copied().filter(|tid| *tid > 0).collect();
        let mut seen: BTreeSet<i32> = BTreeSet::new();
        // Those that ended before the first of the two times.
        let mut gone: BTreeSet<i32> = BTreeSet::new();
        let workers = self.builder.graph().workers();
        let workers: Vec<(WorkerId, i32)> = workers
            .filter_map(|(id, worker)| match worker.who {
                Who::Thread { tid, .. } if ids.contains(&tid) => Some((id, tid)),
                _ => None,
            })
            .collect();
        for (id, tid) in workers {
            self.builder.until(id, self.to_ns);
            let graph = self.builder.graph();
            let begins = self.sleeps.get(&tid).map(|sleeps| &sleeps.begins);
            let (from_ns, to_ns) = (self.from_ns, self.to_ns);
            let time = WorkerTime { graph, id, from_ns, to_ns, gaps: &gaps, begins };
            // An id that was given again is that of another thread.
            let first = self.first.remove(&tid);
            let Some((mut member, traced)) = time.account(tid, first, (&mut pauses, &mut enders))
            else {
                let exit_ns = graph.get(id).and_then(|worker| worker.exit_ns);
                gone.extend(exit_ns.filter(|exit_ns| *exit_ns < self.from_ns).map(|_| tid));
                continue;
            };
            if let Some(sleeps) = self.sleeps.get(&tid).filter(|_| !seen.contains(&tid)) {
                member.uninterruptible = sleeps.all;
            }
            seen.insert(tid);
            members.push(member);
            waits.extend(Some(traced).filter(|traced| !traced.path.is_empty()));
        }
        for tid in ids.iter().filter(|tid| !seen.contains(tid) && !gone.contains(tid)) {
            let known = self.select.threads.get(*tid);
            let state = if runs(*tid) { State::Running.name() } else { ASLEEP };
            members.push(Member {
                tid: *tid,
                pid: known.map_or(0, |known| known.pid),
                comm: known.map_or_else(String::new, |known| known.comm.to_string()),
                totals_ns: as_far_as_seen(state, (self.from_ns, self.to_ns), &gaps),
                waits: Spread::default(),
                uninterruptible: Spread::default(),
            });
        }
        let busy = |member: &Member| (member.waits.sum_ns, member.ns("running"));
        members.sort_by_key(|member| (std::cmp::Reverse(busy(member)), member.tid));
        let taken = self.taken.by.into_iter();
        let mut interrupted: Vec<_> =
            taken.map(|((cause, source), taken)| Interruption { cause, source, taken }).collect();
        interrupted.sort_by(|one, other| {
            let key = |of: &Interruption| (of.taken.sum_ns, of.taken.count);
            let name = |of: &Interruption| (of.cause, of.source.clone());
            key(other).cmp(&key(one)).then_with(|| name(one).cmp(&name(other)))
        });
        let graph = self.builder.finish();
        let own = |tid| ids.contains(&tid);
        let between = (self.from_ns, self.to_ns);
        enders.delayed = self.acks.finish(&graph, &enders.sent, own, between);
        let [held, held_in_kernel] = [&enders.sleeps, &enders.in_kernel]
            .map(|sleeps| held(&graph, sleeps.iter().copied(), own));
        PathAccount {
            graph,
            held,
            held_in_kernel,
            threads: self.select.threads,
            members,
            interrupted,
            discarded: self.discarded,
            waits,
            enders,
            pauses,
            ids,
        }
    }
}

/// A time in which no event of a thread says what it did, by state: where not all CPUs are seen, it is not known.
fn as_far_as_seen(
    state: &'static str,
    (from_ns, to_ns): (u64, u64),
    gaps: &[(u64, u64)],
) -> BTreeMap<&'static str, u64> {
    let both = |(begin, end): &(u64, u64)| (*end).min(to_ns).saturating_sub((*begin).max(from_ns));
    let whole_ns = to_ns.saturating_sub(from_ns);
    let unseen_ns = gaps.iter().map(both).fold(0_u64, u64::saturating_add).min(whole_ns);
    let parts = [(state, whole_ns - unseen_ns), (State::Unknown.name(), unseen_ns)];
    let mut totals = BTreeMap::new();
    for (state, ns) in parts.into_iter().filter(|(_, ns)| *ns > 0) {
        let total: &mut u64 = totals.entry(state).or_default();
        *total = total.saturating_add(ns);
    }
    totals
}

struct WorkerTime<'g> {
    graph: &'g Graph,
    id: WorkerId,
    from_ns: u64,
    to_ns: u64,
    /// Times in which not all CPUs are seen, one after the other.
    gaps: &'g [(u64, u64)],
    /// When its uninterruptible sleeps began.
    begins: Option<&'g BTreeSet<u64>>,
}

impl WorkerTime<'_> {
    /// Where it went; `None` where it was not there. Its pauses, and who ended its sleeps, are added to all.
    fn account(
        &self,
        tid: i32,
        first: Option<ThreadStep>,
        (pauses, enders): (&mut Vec<Pause>, &mut Enders),
    ) -> Option<(Member, Traced)> {
        let worker = self.graph.get(self.id)?;
        let comm = worker.comm.to_string();
        let mut member = Member {
            tid,
            pid: worker.pid,
            comm: comm.clone(),
            totals_ns: BTreeMap::new(),
            waits: Spread::default(),
            uninterruptible: Spread::default(),
        };
        let mut path = Vec::new();
        let mut pause: Option<Pause> = None;
        let (first_ns, last_ns) = worker.span()?;
        if worker.exit_ns.is_some_and(|exit_ns| exit_ns < self.from_ns) || first_ns >= self.to_ns {
            return None;
        }
        if worker.created_ns.is_none() && first_ns > self.from_ns {
            let state = match first {
                Some(ThreadStep::Leaves(_) | ThreadStep::Exits) => State::Running.name(),
                Some(ThreadStep::Wakes) => ASLEEP,
                Some(ThreadStep::Runs | ThreadStep::Begins) | None => State::Unknown.name(),
            };
            let until_ns = first_ns.min(self.to_ns);
            member.totals_ns = as_far_as_seen(state, (self.from_ns, until_ns), self.gaps);
        }
        let mut add = |state: &'static str, from_ns: u64, to_ns: u64| {
            let total = member.totals_ns.entry(state).or_default();
            *total = total.saturating_add(to_ns.saturating_sub(from_ns));
        };
        let mut before_ns = first_ns;
        let last = worker.points().len().saturating_sub(1);
        for (number, point) in worker.points().enumerate().skip(1) {
            let since_ns = before_ns;
            let from_ns = since_ns.max(self.from_ns);
            let to_ns = point.time_ns.min(self.to_ns);
            let is_uninterruptible = self.begins.is_some_and(|begins| begins.contains(&before_ns));
            before_ns = point.time_ns;
            let is_over = worker.exit_ns.is_some_and(|exit_ns| from_ns >= exit_ns);
            let Some(state) = point.state.filter(|_| to_ns > from_ns && !is_over) else { continue };
            // Nothing ended it: it is what the time that is asked for ends with.
            let is_open = number == last && point.time_ns >= self.to_ns && point.link.is_none();
            let name = match state {
                // What it waits for is not known, but that it waits is.
                State::Blocked | State::Futex if is_open && is_uninterruptible => {
                    State::Unknown.name()
                }
                State::Blocked | State::Futex if is_open => ASLEEP,
                // A task ended it.
                State::Blocked if point.link.is_some() => State::Task.name(),
                state => state.name(),
            };
            add(name, from_ns, to_ns);
            let slept = Slept {
                worker: self.id,
                tid,
                since_ns,
                from_ns,
                to_ns,
                is_uninterruptible,
                is_open,
            };
            enders.add(self.graph, name, point.link, slept);
            if matches!(state, State::WaitingCpu | State::Disk) {
                let cpu = Some(point.cpu).filter(|cpu| *cpu != NO_CPU);
                path.push(segment(tid, cpu, state.name(), from_ns, to_ns));
            }
            if state == State::WaitingCpu {
                member.waits.add(to_ns - from_ns);
            }
            if state == State::Running {
                pauses.extend(pause.take());
                continue;
            }
            let ns = to_ns - from_ns;
            let is_held = matches!(name, "waiting_cpu" | "disk" | "futex" | "task" | "ipi");
            let held_ns = if is_held { ns } else { 0 };
            match &mut pause {
                Some(pause) => {
                    (pause.to_ns, pause.held_ns) = (to_ns, pause.held_ns.saturating_add(held_ns));
                }
                None => pause = Some(Pause { worker: self.id, from_ns, to_ns, held_ns }),
            }
        }
        // One that goes on is worth a look where something holds it up.
        pauses.extend(pause.filter(|pause| pause.held_ns > 0));
        if last_ns < self.from_ns && member.totals_ns.is_empty() {
            return None;
        }
        Some((member, execution(tid, comm, self.from_ns, self.to_ns, path)))
    }
}

#[cfg(test)]
mod tests;
