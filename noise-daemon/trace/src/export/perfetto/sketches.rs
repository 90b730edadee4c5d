//! Slices of sketches: a track for each process, below it those of its threads, and an arrow to each slice that another one
//! caused. Slices of one thread overlap where it works for several at once: each goes on the first of the thread's tracks
//! that is free.

use std::collections::HashMap;

use noise_protobuf::Message;

use super::tracks::{Flows, MAX_LANES, Note, SKETCHES_FROM, describe, joined_slice};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SketchSlice {
    /// Names of its process and of its thread, each with the id.
    pub process: String,
    pub thread: String,
    /// What it begins with.
    pub marker: &'static str,
    /// What it is about.
    pub key: String,
    /// From then on, in nanoseconds since the epoch of the trace's clock.
    pub from_ns: u64,
    pub to_ns: u64,
    /// What else is to be said of it.
    pub numbers: Vec<(&'static str, u64)>,
    /// Numbers of the arrows that go from it, and of those that come to it.
    pub causes: Vec<u64>,
    pub caused_by: Vec<u64>,
}

/// Tracks of one thread, and until when each is taken.
type Lanes = Vec<(u64, u64)>;

#[derive(Debug, Default)]
pub struct SketchTracks {
    /// Of each process its own track, and those of its threads.
    processes: HashMap<String, (u64, HashMap<String, Lanes>)>,
    made: u64,
}

impl SketchTracks {
    /// Adds a slice, in the order of when slices begin.
    pub fn add(&mut self, packets: &mut Message, offset_ns: u64, slice: &SketchSlice) {
        let stamps = [slice.from_ns, slice.to_ns].map(|ns| ns.saturating_sub(offset_ns));
        let track = self.track(packets, stamps, slice);
        let mut notes = vec![Note::Text("key", &slice.key)];
        notes.extend(slice.numbers.iter().map(|(name, number)| Note::Number(name, *number)));
        let flows = Flows { begins: &slice.causes, ends: &slice.caused_by };
        joined_slice(packets, track, stamps, slice.marker, &notes, flows);
    }

    fn track(&mut self, packets: &mut Message, [from, to]: [u64; 2], slice: &SketchSlice) -> u64 {
        let made = &mut self.made;
        let mut describe = |parent: Option<u64>, name: &str| {
            *made += 1;
            describe(packets, from, SKETCHES_FROM + *made, parent, name);
            SKETCHES_FROM + *made
        };
        let (process, threads) = self.processes.entry(slice.process.clone()).or_insert_with(|| {
            (describe(None, &format!("Sketches of {}", slice.process)), HashMap::new())
        });
        let lanes = threads.entry(slice.thread.clone()).or_default();
        let is_full = lanes.len() >= MAX_LANES;
        let free = lanes.iter().position(|(_, until)| *until <= from);
        let place = free.or_else(|| is_full.then_some(MAX_LANES - 1));
        if let Some((track, until)) = place.and_then(|place| lanes.get_mut(place)) {
            *until = to.max(*until);
            return *track;
        }
        let track = describe(Some(*process), &slice.thread);
        lanes.push((track, to));
        track
    }
}
