//! Tracks of our own: waits for a CPU, block requests, vectors, lost events.
//!
//! A track holds what does not overlap. Requests of one device do: each goes on the first of its tracks that
//! is free; those of one name are drawn as one.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use noise_common::hooks::Vector;
use noise_model::clean::as_text;

use super::super::proto::Message;
use super::{field, put_packet};
use crate::delays::watch::{Delay, Signal, Subject, Wait};
use crate::event::{Event, Loss};

/// Kinds of slices and instants.
const SLICE_BEGIN: u32 = 1;
const SLICE_END: u32 = 2;
const INSTANT: u32 = 3;

/// Tracks of one device and wait; what overlaps beyond goes on the last one.
const MAX_LANES: usize = 256;
/// Groups of such tracks.
const MAX_GROUPS: usize = 4096;
/// Parts of a wait that are shown.
const SHOWN_PARTS: usize = 8;

/// Numbers of tracks: of the two that hold others, and where the ranges of the rest begin.
const WAITS: u64 = 1;
const LOST: u64 = 2;
const THREADS_FROM: u64 = 1 << 32;
const LANES_FROM: u64 = 2 << 32;

/// What a group of tracks shows.
type Group = (Signal, String);

/// All tracks so far.
#[derive(Debug, Default)]
pub struct Tracks {
    has_waits: bool,
    has_lost: bool,
    /// Threads with a track.
    threads: HashSet<i32>,
    /// By what they show: tracks, and until when each is taken.
    lanes: BTreeMap<Group, Vec<(u64, u64)>>,
    next_lane: u64,
}

/// A note of a slice.
enum Note<'a> {
    Number(&'a str, u64),
    Text(&'a str, &'a str),
}

impl Tracks {
    /// A wait for a CPU, on its thread's track.
    pub fn waited(&mut self, packets: &mut Message, offset_ns: u64, wait: &Wait<'_>) {
        let stamp = wait.from_ns.saturating_sub(offset_ns);
        if !std::mem::replace(&mut self.has_waits, true) {
            describe(packets, stamp, WAITS, None, "Waits for a CPU");
        }
        let track = THREADS_FROM + u64::from(wait.tid.cast_unsigned());
        if self.threads.insert(wait.tid) {
            let name = format!("{} {}", as_text(wait.comm.bytes()), wait.tid);
            describe(packets, stamp, track, Some(WAITS), &name);
        }
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
        let parts = named.iter().take(SHOWN_PARTS).map(|(name, ns)| Note::Number(name, *ns));
        notes.extend(parts);
        slice(packets, track, [stamp, wait.to_ns.saturating_sub(offset_ns)], first, &notes);
    }

    /// A block request on a device's tracks, a vector on its CPU's.
    pub fn delayed(&mut self, packets: &mut Message, offset_ns: u64, delay: &Delay<'_>) {
        let (name, shown) = match (delay.signal, delay.subject) {
            (Signal::BlockQueueWait, subject) => (format!("{subject} queue"), "queued".to_owned()),
            (Signal::BlockDeviceWait, subject) => {
                (format!("{subject} requests"), "on the device".to_owned())
            }
            // Perfetto draws the local timer itself, with the interrupts.
            (Signal::Vector, Subject::Vector(Vector::LocalTimer)) => return,
            (Signal::Vector, subject) => {
                (format!("Vectors of CPU {}", delay.cpu), subject.to_string())
            }
            _ => return,
        };
        let stamps = [delay.from_ns, delay.to_ns].map(|time_ns| time_ns.saturating_sub(offset_ns));
        let Some(track) = self.lane(packets, (delay.signal, name), stamps) else { return };
        slice(packets, track, stamps, &shown, &[]);
    }

    /// The first track of a group that is free by then.
    fn lane(&mut self, packets: &mut Message, group: Group, stamps: [u64; 2]) -> Option<u64> {
        let [from, to] = stamps;
        if self.lanes.len() >= MAX_GROUPS && !self.lanes.contains_key(&group) {
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
        describe(packets, from, track, None, &name);
        Some(track)
    }

    /// Events were lost.
    pub fn lost(&mut self, packets: &mut Message, offset_ns: u64, event: &Event<'_>, loss: &Loss) {
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

fn describe(packets: &mut Message, stamp: u64, track: u64, parent: Option<u64>, name: &str) {
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
    let [from, to] = stamps;
    put_packet(packets, from, |packet| track_event(packet, track, SLICE_BEGIN, name, notes));
    put_packet(packets, to, |packet| track_event(packet, track, SLICE_END, "", &[]));
}

fn track_event(packet: &mut Message, track: u64, kind: u32, name: &str, notes: &[Note<'_>]) {
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
    });
}
