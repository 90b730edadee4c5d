//! For whom a path waits: who had the CPU that a worker waited for, who was ahead of it at a disk, who ended a sleep that
//! no signal ends. The parts of a wait are those of the delays of a recording: a CPU's by the ledger of
//! `noise_common` over the CPUs that the worker waited on, what interrupts took apart, as it is done live; a disk's by its
//! queues. A wait that a path has in part is divided in that part.
//!
//! It takes the events once more, after the paths are known: when a wait begins on the path, and what ends a sleep, is
//! known at the end only.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::HashMap;
use noise_trace::analysis::Analysis as _;
use noise_trace::delays::document::Culprit;
use noise_trace::delays::{Delays, Portion};
use noise_trace::event::{Event, TraceKind};
use noise_trace::follow::{Begin, ThreadState, ThreadStep, ThreadStretch, steps};

use crate::document::{PathsDocument, Segment};
use crate::state::State;

/// The number of an execution, and of a segment of its path.
type PathSegmentIndex = (usize, usize);

/// A wait for a CPU on a path.
#[derive(Clone, Copy, Debug)]
struct PathCpuWait {
    tid: i32,
    from_ns: u64,
    to_ns: u64,
    place: PathSegmentIndex,
}

/// A thread that waits on a path. What matters of its wait is the queue, which each event that names a CPU may change: a stretch
/// of `follow` keeps the first.
#[derive(Debug, Default)]
struct Waiter {
    /// The CPU whose queue it is in, by the latest event that said so.
    cpu: Option<u32>,
    /// Since when it is in that queue; `None` where it runs or sleeps.
    since_ns: Option<u64>,
    /// Whether that event says where it waits, and not where it was before it woke up.
    is_certain: bool,
    /// Its waits that are under way, by their ends.
    open: BTreeSet<(u64, PathSegmentIndex)>,
}

/// A sleep on a path, or a part of one.
#[derive(Clone, Copy, Debug)]
struct PathSleep {
    from_ns: u64,
    to_ns: u64,
    place: PathSegmentIndex,
    is_disk: bool,
}

#[derive(Debug, Default)]
struct Sleeper {
    /// The one that ends last comes first.
    sleeps: Vec<PathSleep>,
    stretch: ThreadStretch,
}

/// Divides the waits in a document while events come in, in the order of time.
pub struct Blame {
    delays: Delays,
    /// Waits that have not begun yet; the one that begins last comes first.
    waits: Vec<PathCpuWait>,
    waiters: HashMap<i32, Waiter>,
    /// Waits that are under way, by their ends; the portion of one whose CPU is known.
    open: BTreeMap<(u64, PathSegmentIndex), (i32, Option<Portion>)>,
    sleepers: HashMap<i32, Sleeper>,
    /// Whether the recording says where threads that wait are moved to.
    has_moves: bool,
    /// When the last wait or sleep ends.
    end_ns: u64,
    /// Events beyond that which are looked at to find out what ended a sleep.
    left: u64,
}

/// See [`Blame::left`]: as many as are read to find the path itself.
const BEYOND_EVENTS: u64 = 1 << 20;

impl Blame {
    /// For all waits of a document in its only recording. [`Delays::of_turns`] are enough, and the fastest.
    pub fn new(document: &PathsDocument, delays: Delays) -> Self {
        Self::of(document, 0, delays)
    }

    /// For those in one of several recordings, whose events alone it takes.
    pub fn of(document: &PathsDocument, recording: u16, mut delays: Delays) -> Self {
        let mut waits = Vec::new();
        let mut waiters: HashMap<i32, Waiter> = HashMap::default();
        let mut sleepers: HashMap<i32, Sleeper> = HashMap::default();
        for (execution, traced) in document.executions.iter().enumerate() {
            for (number, segment) in traced.path.iter().enumerate() {
                let place = (execution, number);
                match kind(segment).filter(|_| segment.recording == recording) {
                    Some(BlamedTime::Cpu) => {
                        let Segment { tid, from_ns, to_ns, .. } = *segment;
                        waiters.entry(tid).or_default();
                        waits.push(PathCpuWait { tid, from_ns, to_ns, place });
                    }
                    Some(BlamedTime::Sleep { is_disk }) => {
                        let Segment { from_ns, to_ns, .. } = *segment;
                        let sleep = PathSleep { from_ns, to_ns, place, is_disk };
                        sleepers.entry(segment.tid).or_default().sleeps.push(sleep);
                    }
                    None => {}
                }
            }
        }
        waits.sort_by_key(|wait: &PathCpuWait| (std::cmp::Reverse(wait.from_ns), wait.place));
        for sleeper in sleepers.values_mut() {
            sleeper.sleeps.sort_by_key(|sleep| (std::cmp::Reverse(sleep.to_ns), sleep.place));
        }
        let has_disks = |sleeper: &Sleeper| sleeper.sleeps.iter().any(|sleep| sleep.is_disk);
        if sleepers.values().any(has_disks) {
            delays.note_ahead();
        }
        let ends = document.executions.iter().flat_map(|traced| &traced.path);
        let end_ns = ends.map(|segment| segment.to_ns).max().unwrap_or(0);
        let open = BTreeMap::new();
        let (has_moves, left) = (false, BEYOND_EVENTS);
        Self { delays, waits, waiters, open, sleepers, has_moves, end_ns, left }
    }

    /// Whether all waits are divided.
    pub fn is_over(&self) -> bool {
        self.waits.is_empty()
            && self.open.is_empty()
            && (self.sleepers.is_empty() || self.left == 0)
    }

    pub fn follow(&mut self, event: &Event<'_>, document: &mut PathsDocument) {
        // All events at the begin and at the end of a wait have come.
        self.begin(event.time_ns);
        self.divide(event.time_ns, document);
        if !self.waiters.is_empty() {
            self.queue(event);
        }
        if !self.sleepers.is_empty() {
            if event.time_ns > self.end_ns {
                self.left = self.left.saturating_sub(1);
            }
            for (task, step, cpu) in steps(event, Begin::Waking) {
                let Some(sleeper) = self.sleepers.get_mut(&task.tid) else { continue };
                let passed = sleeper.stretch.step(step, cpu, event.time_ns);
                if step == ThreadStep::Wakes
                    && let Some(passed) = passed
                {
                    self.wake(task.tid, &passed, event, document);
                }
            }
        }
        self.delays.follow(event);
    }

    pub fn finish(mut self, document: &mut PathsDocument) {
        self.begin(u64::MAX);
        self.divide(u64::MAX, document);
        // What ended them is not in the recording.
        let all: Vec<PathSleep> =
            self.sleepers.into_values().flat_map(|sleeper| sleeper.sleeps).collect();
        for sleep in all.iter().filter(|sleep| sleep.is_disk) {
            if let Some(segment) = segment(document, sleep.place) {
                segment.culprits = untracked(segment);
            }
        }
    }

    /// Waits that began before an event are under way.
    fn begin(&mut self, now_ns: u64) {
        while let Some(wait) = self.waits.pop_if(|wait| wait.from_ns < now_ns) {
            let PathCpuWait { tid, from_ns, to_ns, place } = wait;
            let Some(waiter) = self.waiters.get_mut(&tid) else { continue };
            let portion = waiter.cpu.map(|cpu| self.delays.begin_portion(tid, cpu, from_ns));
            waiter.open.insert((to_ns, place));
            self.open.insert((to_ns, place), (tid, portion));
        }
    }

    /// Follows on which CPU threads wait, and for how long of that their quotas were used up.
    fn queue(&mut self, event: &Event<'_>) {
        let now_ns = event.time_ns;
        // A thread that is about to wake up is named with the CPU that it had before.
        let mut is_certain = true;
        let (tid, cpu, since_ns) = match &event.kind {
            TraceKind::SchedSwitch { prev, prev_state, next } => {
                if let Some(waiter) = self.waiters.get_mut(&next.tid) {
                    waiter.since_ns = None;
                }
                (prev.tid, event.cpu, prev_state.stays_runnable().then_some(now_ns))
            }
            TraceKind::SchedWaking(woken)
            | TraceKind::SchedWakeup(woken)
            | TraceKind::SchedWakeupNew(woken) => {
                let tid = woken.task.tid;
                let known = self.waiters.get(&tid).and_then(|waiter| waiter.since_ns);
                is_certain = !matches!(event.kind, TraceKind::SchedWaking(_));
                (tid, woken.target_cpu, known.or(Some(now_ns)))
            }
            TraceKind::SchedMigrateTask { task, dest_cpu, .. } => {
                self.has_moves = true;
                (task.tid, *dest_cpu, Some(now_ns))
            }
            TraceKind::Throttled { task, throttled_ns } => {
                let Some(waiter) = self.waiters.get(&task.tid) else { return };
                let Some(since_ns) = waiter.since_ns else { return };
                for place in &waiter.open {
                    if let Some((_, Some(portion))) = self.open.get_mut(place) {
                        portion.throttled(since_ns.saturating_add(*throttled_ns));
                    }
                }
                return;
            }
            _ => return,
        };
        let Some(waiter) = self.waiters.get_mut(&tid) else { return };
        waiter.since_ns = since_ns;
        waiter.is_certain = is_certain;
        if waiter.cpu.replace(cpu) == Some(cpu) {
            return;
        }
        for place in &waiter.open {
            if let Some((_, Some(portion))) = self.open.get_mut(place) {
                self.delays.migrate(portion, cpu, event.time_ns);
            }
        }
    }

    /// Waits that ended before an event are divided.
    fn divide(&mut self, now_ns: u64, document: &mut PathsDocument) {
        while let Some(entry) = self.open.first_entry().filter(|open| open.key().0 < now_ns) {
            let (key, (tid, portion)) = entry.remove_entry();
            let waiter = self.waiters.get_mut(&tid);
            // The wait goes on beyond the path: the CPU of its segment is where it ends, or began. Where moves are
            // recorded, one that has none waits where it was before.
            let has_moves = self.has_moves;
            let is_queued = waiter.is_some_and(|waiter| {
                waiter.open.remove(&key);
                waiter.since_ns.is_some() && (waiter.is_certain || has_moves)
            });
            let (to_ns, place) = key;
            let Some(segment) = segment(document, place) else { continue };
            segment.culprits = match (segment.cpu, portion) {
                (Some(cpu), Some(portion)) if is_queued || portion.cpu() == cpu => {
                    self.delays.end_portion(portion, to_ns)
                }
                // How it came to its CPU is not recorded.
                (Some(cpu), _) => self.delays.culprits(cpu, segment.from_ns, to_ns),
                (None, _) => untracked(segment),
            };
        }
    }

    /// What a thread did until an event woke it.
    fn wake(
        &mut self,
        tid: i32,
        passed: &ThreadStretch,
        event: &Event<'_>,
        document: &mut PathsDocument,
    ) {
        let ThreadState::Off(left_in) = passed.state else { return };
        let Some(sleeper) = self.sleepers.get_mut(&tid).filter(|_| left_in.is_asleep()) else {
            return;
        };
        while let Some(sleep) = sleeper.sleeps.pop_if(|sleep| sleep.to_ns <= event.time_ns) {
            let Some(segment) = segment(document, sleep.place) else { continue };
            let ns = sleep.to_ns.saturating_sub(sleep.from_ns);
            let is_of_it = sleep.from_ns >= passed.since_ns;
            if is_of_it && sleep.is_disk {
                segment.culprits =
                    self.delays.disk_culprits(event.cpu, tid, sleep.from_ns, sleep.to_ns);
            } else if sleep.is_disk {
                segment.culprits = untracked(segment);
            } else if is_of_it && left_in.waits_uninterruptibly() {
                segment.culprits = vec![self.delays.running(event.cpu, ns)];
            }
        }
        if sleeper.sleeps.is_empty() {
            self.sleepers.remove(&tid);
        }
    }
}

fn segment(
    document: &mut PathsDocument,
    (execution, number): PathSegmentIndex,
) -> Option<&mut Segment> {
    document.executions.get_mut(execution)?.path.get_mut(number)
}

/// All of a segment as a part that no cause is known for.
fn untracked(segment: &Segment) -> Vec<Culprit> {
    let ns = segment.to_ns.saturating_sub(segment.from_ns);
    vec![Culprit { tid: -1, comm: String::new(), cause: "untracked", ns }]
}

/// What is divided of a segment.
enum BlamedTime {
    Cpu,
    Sleep { is_disk: bool },
}

/// A sleep that another worker ended is that one's time, and is none here, unless it could not be followed.
fn kind(segment: &Segment) -> Option<BlamedTime> {
    const SLEEPS: [State; 5] =
        [State::Timer, State::Interrupt, State::Ipi, State::Futex, State::Blocked];
    let is = |state: &State| segment.state == state.name();
    if is(&State::WaitingCpu) {
        Some(BlamedTime::Cpu)
    } else if is(&State::Disk) {
        Some(BlamedTime::Sleep { is_disk: true })
    } else if segment.tid > 0 && segment.culprits.is_empty() && SLEEPS.iter().any(is) {
        Some(BlamedTime::Sleep { is_disk: false })
    } else {
        None
    }
}
