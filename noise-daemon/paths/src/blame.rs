//! For whom a path waits: who had the CPU that a worker waited for, who was ahead of it at a disk, who ended a sleep that
//! no signal ends. The parts of a wait are those of the delays of a recording: a CPU's by the ledger of
//! `noise_common`, a disk's by its queues. A wait that a path has in part is divided in that part.
//!
//! It takes the events once more, after the paths are known: on which CPU a worker waits, and what ends a sleep, is known
//! at the end only.

use std::collections::HashMap;

use noise_common::signals::is_uninterruptible_wait;
use noise_trace::delays::Delays;
use noise_trace::delays::document::Culprit;
use noise_trace::event::{Event, Kind, Task, stays_runnable};

use crate::document::{Document, Segment};
use crate::state::State;

/// The number of an execution, and of a segment of its path.
type Place = (usize, usize);

/// A wait for a CPU on a path.
#[derive(Clone, Copy, Debug)]
struct Wait {
    to_ns: u64,
    place: Place,
}

/// A sleep on a path, or a part of one.
#[derive(Clone, Copy, Debug)]
struct Sleep {
    from_ns: u64,
    to_ns: u64,
    place: Place,
    is_disk: bool,
}

/// Sleeps of one thread.
#[derive(Debug, Default)]
struct Sleeper {
    /// The one that ends last comes first.
    sleeps: Vec<Sleep>,
    /// Since when it sleeps, and whether a signal may end that.
    since_ns: Option<u64>,
    is_uninterruptible: bool,
}

/// Divides the waits in a document while events come in, in the order of time.
pub struct Blame {
    delays: Delays,
    /// The one that ends last comes first.
    waits: Vec<Wait>,
    sleepers: HashMap<i32, Sleeper>,
    /// When the last wait or sleep ends.
    end_ns: u64,
    /// Events beyond that which are looked at to find out what ended a sleep.
    left: u64,
}

/// See [`Blame::left`]: as many as are read to find the path itself.
const BEYOND_EVENTS: u64 = 1 << 20;

impl Blame {
    /// For all waits of a document in its only recording. [`Delays::of_turns`] are enough, and the fastest.
    pub fn new(document: &Document, delays: Delays) -> Self {
        Self::of(document, 0, delays)
    }

    /// For those in one of several recordings, whose events alone it takes.
    pub fn of(document: &Document, recording: u16, mut delays: Delays) -> Self {
        let mut waits = Vec::new();
        let mut sleepers: HashMap<i32, Sleeper> = HashMap::new();
        for (execution, traced) in document.executions.iter().enumerate() {
            for (number, segment) in traced.path.iter().enumerate() {
                let (place, to_ns) = ((execution, number), segment.to_ns);
                match kind(segment).filter(|_| segment.recording == recording) {
                    Some(Of::Cpu) => waits.push(Wait { to_ns, place }),
                    Some(Of::Sleep { is_disk }) => {
                        let sleep = Sleep { from_ns: segment.from_ns, to_ns, place, is_disk };
                        sleepers.entry(segment.tid).or_default().sleeps.push(sleep);
                    }
                    None => {}
                }
            }
        }
        waits.sort_by_key(|wait| (std::cmp::Reverse(wait.to_ns), wait.place));
        for sleeper in sleepers.values_mut() {
            sleeper.sleeps.sort_by_key(|sleep| (std::cmp::Reverse(sleep.to_ns), sleep.place));
        }
        let has_disks = |sleeper: &Sleeper| sleeper.sleeps.iter().any(|sleep| sleep.is_disk);
        if sleepers.values().any(has_disks) {
            delays.note_ahead();
        }
        let ends = document.executions.iter().flat_map(|traced| &traced.path);
        let end_ns = ends.map(|segment| segment.to_ns).max().unwrap_or(0);
        Self { delays, waits, sleepers, end_ns, left: BEYOND_EVENTS }
    }

    /// Whether all waits are divided.
    pub fn is_over(&self) -> bool {
        self.waits.is_empty() && (self.sleepers.is_empty() || self.left == 0)
    }

    /// Takes the next event.
    pub fn follow(&mut self, event: &Event<'_>, document: &mut Document) {
        // All events at the end of a wait have come.
        self.divide(event.time_ns, document);
        if !self.sleepers.is_empty() {
            if event.time_ns > self.end_ns {
                self.left = self.left.saturating_sub(1);
            }
            match &event.kind {
                Kind::SchedSwitch { prev, prev_state, next } => {
                    self.sleep(prev, *prev_state, event.time_ns);
                    if let Some(sleeper) = self.sleepers.get_mut(&next.tid) {
                        sleeper.since_ns = None;
                    }
                }
                // Where there are both, the first of them ends the sleep.
                Kind::SchedWaking(woken) | Kind::SchedWakeup(woken) => {
                    self.wake(woken.task.tid, event, document);
                }
                _ => {}
            }
        }
        self.delays.follow(event);
    }

    /// No event comes any more.
    pub fn finish(mut self, document: &mut Document) {
        self.divide(u64::MAX, document);
        // What ended them is not in the recording.
        let all: Vec<Sleep> =
            self.sleepers.into_values().flat_map(|sleeper| sleeper.sleeps).collect();
        for sleep in all.iter().filter(|sleep| sleep.is_disk) {
            if let Some(segment) = segment(document, sleep.place) {
                segment.culprits = untracked(segment);
            }
        }
    }

    fn divide(&mut self, now_ns: u64, document: &mut Document) {
        while let Some(wait) = self.waits.pop_if(|wait| wait.to_ns < now_ns) {
            let Some(segment) = segment(document, wait.place) else { continue };
            segment.culprits = match segment.cpu {
                Some(cpu) => self.delays.culprits(cpu, segment.from_ns, segment.to_ns),
                None => untracked(segment),
            };
        }
    }

    fn sleep(&mut self, prev: &Task, prev_state: i64, now_ns: u64) {
        if let Some(sleeper) = self.sleepers.get_mut(&prev.tid) {
            sleeper.since_ns = (!stays_runnable(prev_state)).then_some(now_ns);
            sleeper.is_uninterruptible = is_uninterruptible_wait(prev_state.cast_unsigned());
        }
    }

    fn wake(&mut self, tid: i32, event: &Event<'_>, document: &mut Document) {
        let Some(sleeper) = self.sleepers.get_mut(&tid) else { return };
        let Some(since_ns) = sleeper.since_ns.take() else { return };
        while let Some(sleep) = sleeper.sleeps.pop_if(|sleep| sleep.to_ns <= event.time_ns) {
            let Some(segment) = segment(document, sleep.place) else { continue };
            let ns = sleep.to_ns.saturating_sub(sleep.from_ns);
            let is_of_it = sleep.from_ns >= since_ns;
            if is_of_it && sleep.is_disk {
                segment.culprits =
                    self.delays.disk_culprits(event.cpu, tid, sleep.from_ns, sleep.to_ns);
            } else if sleep.is_disk {
                segment.culprits = untracked(segment);
            } else if is_of_it && sleeper.is_uninterruptible {
                segment.culprits = vec![self.delays.running(event.cpu, ns)];
            }
        }
        if sleeper.sleeps.is_empty() {
            self.sleepers.remove(&tid);
        }
    }
}

fn segment(document: &mut Document, (execution, number): Place) -> Option<&mut Segment> {
    document.executions.get_mut(execution)?.path.get_mut(number)
}

/// All of a segment as a part that no cause is known for.
fn untracked(segment: &Segment) -> Vec<Culprit> {
    let ns = segment.to_ns.saturating_sub(segment.from_ns);
    vec![Culprit { tid: -1, comm: String::new(), cause: "untracked", ns }]
}

/// What is divided of a segment.
enum Of {
    Cpu,
    Sleep { is_disk: bool },
}

/// A sleep that another worker ended is that one's time, and is none here, unless it could not be followed.
fn kind(segment: &Segment) -> Option<Of> {
    const SLEEPS: [State; 5] =
        [State::Timer, State::Interrupt, State::Ipi, State::Futex, State::Blocked];
    let is = |state: &State| segment.state == state.name();
    if is(&State::WaitingCpu) {
        Some(Of::Cpu)
    } else if is(&State::Disk) {
        Some(Of::Sleep { is_disk: true })
    } else if segment.tid > 0 && segment.culprits.is_empty() && SLEEPS.iter().any(is) {
        Some(Of::Sleep { is_disk: false })
    } else {
        None
    }
}
