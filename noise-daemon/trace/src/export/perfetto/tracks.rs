//! Tracks of our own: waits for a CPU, block requests, vectors, marks, critical paths, lost events.
//!
//! A track holds what does not overlap. Requests of one device do: each goes on the first of its tracks that
//! is free; those of one name are drawn as one.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use noise_common::hooks::Vector;
use noise_common::signals::Signal;
use noise_protobuf::Message;
use noise_text::clean::as_text;

use super::{field, put_packet};
use crate::delays::watch::{Delay, DelaySubject, RunQueueWait};
use crate::event::{Event, LostEvents, ProgramMark};
use crate::events::MARK_ACTIONS;

/// Kinds of slices and instants.
const SLICE_BEGIN: u32 = 1;
const SLICE_END: u32 = 2;
const INSTANT: u32 = 3;

/// Where an event says of which flows it is, and which end with it.
const FLOW: u32 = 47;
const LAST_OF_FLOW: u32 = 48;

/// Tracks of one device and wait; what overlaps beyond goes on the last one.
pub(super) const MAX_LANES: usize = 256;
/// Groups of such tracks.
const MAX_GROUPS: usize = 4096;
/// Tracks of threads and processes that wait; waits of others are on those of all others. Perfetto shows no more.
const MAX_WAITERS: u64 = if cfg!(test) { 256 } else { 1 << 16 };
/// Names of one thread or process that have tracks of their own.
const MAX_NAMES: usize = 16;
/// What stands for all other names.
const OTHER: &str = "~other";
/// Parts of a wait that are shown.
const SHOWN_PARTS: usize = 8;

/// Numbers of tracks: of the two that hold others, and where the ranges of the rest begin.
const WAITS: u64 = 1;
const LOST: u64 = 2;
const MARKS: u64 = 3;
const WAITERS_FROM: u64 = 1 << 32;
const LANES_FROM: u64 = 2 << 32;
const PATHS_FROM: u64 = 3 << 32;
pub(super) const SKETCHES_FROM: u64 = 4 << 32;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathPart {
    /// Whose time it is: name and id.
    pub who: (String, i32),
    pub state: &'static str,
    /// From then on, in nanoseconds since the epoch of the trace's clock.
    pub from_ns: u64,
    pub to_ns: u64,
    pub cpu: Option<u32>,
    /// Who waits for it meanwhile, and for what; may be empty.
    pub awaited: String,
    /// Who took how much of it, in nanoseconds.
    pub culprits: Vec<(String, u64)>,
}

/// What a group of tracks shows.
type TrackGroup = (Signal, String);

#[derive(Debug, Default)]
pub struct Tracks {
    has_waits: bool,
    has_lost: bool,
    /// Tracks of threads and, below no thread's id, of processes, by the names that each had: another name is another track.
    waiters: HashMap<i32, Vec<(String, u64)>>,
    next_waiter: u64,
    /// By what they show: tracks, and until when each is taken.
    lanes: BTreeMap<TrackGroup, Vec<(u64, u64)>>,
    next_lane: u64,
    has_marks: bool,
    /// Numbers of the next track of a path, and of the next arrow in one.
    next_path: u64,
    next_flow: u64,
}

/// Arrows that a slice begins and ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flows<'a> {
    pub begins: &'a [u64],
    pub ends: &'a [u64],
}

pub(super) enum Note<'a> {
    Number(&'a str, u64),
    Text(&'a str, &'a str),
}

impl Tracks {
    /// A wait for a CPU, on its thread's track below that of its process, which has this id and name.
    pub fn waited(
        &mut self,
        packets: &mut Message,
        offset_ns: u64,
        wait: &RunQueueWait<'_>,
        process: Option<(i32, String)>,
    ) {
        let stamp = wait.from_ns.saturating_sub(offset_ns);
        if !std::mem::replace(&mut self.has_waits, true) {
            describe(packets, stamp, WAITS, None, "Waits for a CPU");
        }
        let stamps = [stamp, wait.to_ns.saturating_sub(offset_ns)];
        let of = process.and_then(|(pid, name)| self.waiter(packets, stamp, WAITS, (-pid, &name)));
        let of = of.map(|(track, _)| track);
        let name = format!("{} {}", as_text(wait.comm.bytes()), wait.tid);
        let track = self.waiter(packets, stamp, of.unwrap_or(WAITS), (wait.tid, &name));
        let Some((track, is_own)) =
            track.or_else(|| Some((self.lane(packets, others(), Some(WAITS), stamps)?, false)))
        else {
            return;
        };
        // The live division, interrupts apart.
        let parts: Vec<_> = wait.parts().filter(|(way, _)| *way == "charges").collect();
        let named: Vec<(String, u64)> = parts
            .iter()
            .map(|(_, part)| {
                (who(part.cause, part.tid, &part.comm, part.source.as_deref()), part.ns)
            })
            .collect();
        let first = named.first().map_or("", |(name, _)| name.as_str());
        let mut notes = vec![Note::Text("wait", wait.signal), Note::Number("cpu", wait.cpu.into())];
        notes.extend((!is_own).then_some(Note::Text("thread", &name)));
        let parts = named.iter().take(SHOWN_PARTS).map(|(name, ns)| Note::Number(name, *ns));
        notes.extend(parts);
        slice(packets, track, stamps, first, &notes);
    }

    /// The track of a thread or a process of that name, which is made where it is new, and whether it is of that name alone.
    /// `None` where there are too many.
    fn waiter(
        &mut self,
        packets: &mut Message,
        stamp: u64,
        parent: u64,
        (id, name): (i32, &str),
    ) -> Option<(u64, bool)> {
        let known = self.waiters.get(&id).map_or(&[][..], Vec::as_slice);
        if let Some((_, track)) = known.iter().find(|(known, _)| known == name) {
            return Some((*track, true));
        }
        let is_own = known.len() < MAX_NAMES;
        if !is_own && let Some((_, track)) = known.get(MAX_NAMES) {
            return Some((*track, false));
        }
        if self.next_waiter >= MAX_WAITERS {
            return None;
        }
        let name = if is_own { name.to_owned() } else { format!("{OTHER} {}", id.abs()) };
        let track = WAITERS_FROM + self.next_waiter;
        self.next_waiter += 1;
        describe(packets, stamp, track, Some(parent), &name);
        self.waiters.entry(id).or_default().push((name, track));
        Some((track, is_own))
    }

    /// A block request on a device's tracks, a vector on its CPU's.
    pub fn delayed(&mut self, packets: &mut Message, offset_ns: u64, delay: &Delay<'_>) {
        let (name, shown) = match (delay.signal, delay.subject) {
            (Signal::BlockQueueWait, subject) => (format!("{subject} queue"), "queued".to_owned()),
            (Signal::BlockDeviceWait, subject) => {
                (format!("{subject} requests"), "on the device".to_owned())
            }
            // Perfetto draws the local timer itself, with the interrupts.
            (Signal::Vector, DelaySubject::Vector(Vector::LocalTimer)) => return,
            (Signal::Vector, subject) => {
                (format!("Vectors of CPU {}", delay.cpu), subject.to_string())
            }
            _ => return,
        };
        let stamps = [delay.from_ns, delay.to_ns].map(|time_ns| time_ns.saturating_sub(offset_ns));
        let Some(track) = self.lane(packets, (delay.signal, name), None, stamps) else { return };
        slice(packets, track, stamps, &shown, &[]);
    }

    /// The first track of a group that is free by then.
    fn lane(
        &mut self,
        packets: &mut Message,
        group: TrackGroup,
        parent: Option<u64>,
        stamps: [u64; 2],
    ) -> Option<u64> {
        let [from, to] = stamps;
        let has_room = self.lanes.len() < MAX_GROUPS || parent.is_some();
        if !has_room && !self.lanes.contains_key(&group) {
            return None;
        }
        let name = group.1.clone();
        let lanes = self.lanes.entry(group).or_default();
        let is_full = lanes.len() >= MAX_LANES;
        let free = lanes.iter().position(|(_, until)| *until <= from);
        let place = free.or_else(|| is_full.then_some(MAX_LANES - 1));
        if let Some((track, until)) = place.and_then(|place| lanes.get_mut(place)) {
            *until = to.max(*until);
            return Some(*track);
        }
        let track = LANES_FROM + self.next_lane;
        self.next_lane += 1;
        lanes.push((track, to));
        describe(packets, from, track, parent, &name);
        Some(track)
    }

    /// A critical path: a track for it, below that one for each thread, and an arrow wherever it goes on with
    /// another thread.
    pub fn path(&mut self, packets: &mut Message, offset_ns: u64, name: &str, parts: &[PathPart]) {
        let Some(first) = parts.first() else { return };
        let stamp = first.from_ns.saturating_sub(offset_ns);
        let mut next = || {
            self.next_path += 1;
            PATHS_FROM + self.next_path
        };
        let whole = next();
        describe(packets, stamp, whole, None, &format!("Critical path of {name}"));
        let mut threads: BTreeMap<&(String, i32), u64> = BTreeMap::new();
        let mut before: Option<u64> = None;
        for (number, part) in parts.iter().enumerate() {
            let track = *threads.entry(&part.who).or_insert_with(|| {
                let (track, (comm, tid)) = (next(), &part.who);
                describe(packets, stamp, track, Some(whole), &format!("{comm} {tid}"));
                track
            });
            let goes_on = parts.get(number + 1).is_some_and(|after| after.who != part.who);
            let begins = goes_on.then(|| {
                self.next_flow += 1;
                self.next_flow
            });
            let ends = std::mem::replace(&mut before, begins);
            let flows = Flows { begins: begins.as_slice(), ends: ends.as_slice() };
            let cpu = part.cpu.map(|cpu| Note::Number("cpu", cpu.into()));
            let culprits = part.culprits.iter().take(SHOWN_PARTS);
            let culprits = culprits.map(|(who, ns)| Note::Number(who, *ns));
            let awaited = Some(part.awaited.as_str()).filter(|awaited| !awaited.is_empty());
            let awaited = awaited.map(|awaited| Note::Text("awaited", awaited));
            let notes: Vec<_> = cpu.into_iter().chain(awaited).chain(culprits).collect();
            let stamps = [part.from_ns, part.to_ns].map(|ns| ns.saturating_sub(offset_ns));
            joined_slice(packets, track, stamps, part.state, &notes, flows);
        }
    }

    pub fn marked(&mut self, packets: &mut Message, stamp: u64, mark: &ProgramMark<'_>) {
        let stamp = stamp.saturating_sub(mark.before_ns);
        if !std::mem::replace(&mut self.has_marks, true) {
            describe(packets, stamp, MARKS, None, "Marks");
        }
        let action = MARK_ACTIONS[usize::from(!mark.begins)];
        let (name, key) = (as_text(mark.name), as_text(mark.key));
        let id = |id: i32| u64::from(id.max(0).cast_unsigned());
        let notes = [
            Note::Text("key", &key),
            Note::Number("tid", id(mark.tid)),
            Note::Number("pid", id(mark.pid)),
            Note::Number("uid", mark.uid.into()),
        ];
        let name = format!("{action} {name}");
        put_packet(packets, stamp, |packet| track_event(packet, MARKS, INSTANT, &name, &notes));
    }

    pub fn lost(
        &mut self,
        packets: &mut Message,
        offset_ns: u64,
        event: &Event<'_>,
        loss: &LostEvents,
    ) {
        // At the end of the stretch: in a text of ftrace it may begin at time zero, far from all other events.
        let stamp = event.time_ns.saturating_sub(offset_ns);
        if !std::mem::replace(&mut self.has_lost, true) {
            describe(packets, stamp, LOST, None, "Lost events");
        }
        let notes = [
            Note::Number("cpu", event.cpu.into()),
            Note::Number("events", loss.events),
            Note::Number("packets", loss.packets),
            Note::Number("from", loss.from_ns.saturating_sub(offset_ns)),
            Note::Number("until", loss.to_ns.saturating_sub(offset_ns)),
        ];
        put_packet(packets, stamp, |packet| track_event(packet, LOST, INSTANT, "lost", &notes));
    }
}

/// The tracks of all threads that have none of their own.
fn others() -> TrackGroup {
    (Signal::RunqueueWait, OTHER.to_owned())
}

/// Who took a part of a wait.
fn who(cause: &str, tid: Option<i32>, comm: &str, source: Option<&str>) -> String {
    let mut who = match tid {
        Some(tid) if cause == "thread" => format!("{comm} {tid}"),
        _ => cause.to_owned(),
    };
    if let Some(source) = source {
        // Writing into a text cannot fail.
        let _ = write!(who, " {source}");
    }
    who
}

pub(super) fn describe(
    packets: &mut Message,
    stamp: u64,
    track: u64,
    parent: Option<u64>,
    name: &str,
) {
    put_packet(packets, stamp, |packet| {
        packet.message(field::TRACK_DESCRIPTOR, |descriptor| {
            descriptor.unsigned(1, track);
            if let Some(parent) = parent {
                descriptor.unsigned(5, parent);
            }
            descriptor.text(2, name);
        });
    });
}

fn slice(packets: &mut Message, track: u64, stamps: [u64; 2], name: &str, notes: &[Note<'_>]) {
    joined_slice(packets, track, stamps, name, notes, Flows::default());
}

pub(super) fn joined_slice(
    packets: &mut Message,
    track: u64,
    stamps: [u64; 2],
    name: &str,
    notes: &[Note<'_>],
    flows: Flows<'_>,
) {
    let [from, to] = stamps;
    put_packet(packets, from, |packet| {
        joined_event(packet, track, SLICE_BEGIN, name, notes, flows);
    });
    put_packet(packets, to, |packet| track_event(packet, track, SLICE_END, "", &[]));
}

fn track_event(packet: &mut Message, track: u64, kind: u32, name: &str, notes: &[Note<'_>]) {
    joined_event(packet, track, kind, name, notes, Flows::default());
}

fn joined_event(
    packet: &mut Message,
    track: u64,
    kind: u32,
    name: &str,
    notes: &[Note<'_>],
    flows: Flows<'_>,
) {
    packet.message(field::TRACK_EVENT, |event| {
        event.unsigned(9, kind);
        event.unsigned(11, track);
        if kind != SLICE_END {
            event.text(23, name);
        }
        for note in notes {
            event.message(4, |annotation| match note {
                Note::Number(name, value) => {
                    annotation.text(10, name);
                    annotation.unsigned(3, *value);
                }
                Note::Text(name, value) => {
                    annotation.text(10, name);
                    annotation.text(6, value);
                }
            });
        }
        for (field, flows) in [(FLOW, flows.begins), (LAST_OF_FLOW, flows.ends)] {
            for flow in flows {
                event.fixed(field, *flow);
            }
        }
    });
}
