//! What `noised trace sketch --json` prints. Slices are serialised one by one, so that it needs no memory of its own.

use std::collections::BTreeMap;

use noise_trace::ftrace::UnreadLines;
use noise_trace::reach::Reach;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::slices::{Edge, NONE, Slice, SliceId};
use crate::system::System;
use crate::tallies::UNKNOWN;
use crate::tiers::{SliceShare, Tier};
use crate::whole::{Near, Sketch};

#[derive(Clone, Debug)]
pub struct SketchesDocument<'s> {
    pub system: &'s System,
    /// The time that the slices are of: in nanoseconds since the epoch.
    pub span: (u64, u64),
    /// The slices that are shown, in the order of their numbers.
    pub shown: Vec<SliceId>,
    pub tiers: Vec<Tier>,
    /// Whether these are only slices that fulfil a condition.
    pub has_condition: bool,
    /// The answer to a question, where one was asked.
    pub answer: Option<Answer>,
    /// What is like the sketch that was asked for.
    pub nearest: Option<Nearest>,
    /// Events that were lost while it was recorded.
    pub discarded: u64,
    /// CPUs that are not known from its begin to its end.
    pub reach: Reach,
    /// Lines of a text that could not be read, where they are more than 1 %.
    pub unread_lines: Option<UnreadLines>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub given: Option<String>,
    /// The probability of what.
    pub of: String,
    #[serde(flatten)]
    pub all: SliceShare,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<SliceShare>>,
}

/// Which sketches are like one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Nearest {
    /// The number of the sketch that they are like.
    pub to: SliceId,
    /// The nearest first.
    pub sketches: Vec<Near>,
}

impl<'s> SketchesDocument<'s> {
    /// The edges between slices that are shown.
    pub fn edges(&self) -> impl Iterator<Item = &'s Edge> {
        let is_shown = |edge: &&Edge| self.is_shown(edge.from) && self.is_shown(edge.to);
        self.system.edges.iter().filter(is_shown)
    }

    /// The sketches with slices that are shown, in the order of their numbers.
    pub fn sketches(&self) -> Vec<&Sketch> {
        let system = self.system;
        let number = |id: &SliceId| system.sketches.get(*id as usize).copied();
        let mut numbers: Vec<SliceId> = self.shown.iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().filter_map(|number| system.wholes.get(number)).collect()
    }

    fn is_shown(&self, id: SliceId) -> bool {
        self.shown.len() == self.system.slices.len() || self.shown.binary_search(&id).is_ok()
    }
}

impl Serialize for SketchesDocument<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (from_ns, to_ns) = self.span;
        let mut all = serializer.serialize_struct("Document", 14)?;
        all.serialize_field("from_ns", &from_ns)?;
        all.serialize_field("to_ns", &to_ns)?;
        all.serialize_field("discarded", &self.discarded)?;
        for (name, cpus) in self.reach.lists() {
            all.serialize_field(name, cpus)?;
        }
        if let Some(unread_lines) = &self.unread_lines {
            all.serialize_field("unread_lines", unread_lines)?;
        }
        all.serialize_field("counts", &self.system.counts)?;
        all.serialize_field("tiers", &self.tiers)?;
        if let Some(answer) = &self.answer {
            all.serialize_field("probability", answer)?;
        }
        if let Some(nearest) = &self.nearest {
            all.serialize_field("nearest", nearest)?;
        }
        all.serialize_field("slices", &Slices(self))?;
        all.serialize_field("edges", &Edges(self))?;
        all.serialize_field("sketches", &Sketches(self))?;
        // Who did not look for clusters did not sum them up.
        if self.system.slices.is_empty() || !self.system.wholes.all.is_empty() {
            all.serialize_field("wholes", &WholeSketches(self))?;
        }
        all.end()
    }
}

struct Slices<'d>(&'d SketchesDocument<'d>);

impl Serialize for Slices<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let system = self.0.system;
        let shown = self.0.shown.iter();
        serializer.collect_seq(
            shown.filter_map(|id| Some(SliceDocument::new(system, *id, system.slice(*id)?))),
        )
    }
}

#[derive(Serialize)]
struct IdleStatistics {
    count: u32,
    mean_ns: f64,
    variance: f64,
}

#[derive(Serialize)]
struct SliceDocument<'s> {
    id: SliceId,
    #[serde(skip_serializing_if = "is_first")]
    recording: u16,
    tid: i32,
    pid: i32,
    comm: String,
    process: String,
    marker: &'static str,
    ended: &'static str,
    key: String,
    from_ns: u64,
    to_ns: u64,
    true_latency_ns: u64,
    idle: IdleStatistics,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<SliceId>,
    features: Option<BTreeMap<&'s str, u32>>,
}

fn is_first(recording: &u16) -> bool {
    *recording == 0
}

impl<'s> SliceDocument<'s> {
    fn new(system: &'s System, id: SliceId, slice: &Slice) -> Self {
        let thread = system.thread(slice);
        let some = |id: u32| (id != NONE).then_some(id);
        Self {
            id,
            recording: thread.map_or(0, |thread| thread.machine),
            tid: thread.map_or(0, |thread| thread.tid),
            pid: thread.map_or(0, |thread| thread.pid),
            comm: thread.map_or_else(String::new, |thread| thread.comm.to_string()),
            process: thread.map_or_else(String::new, |thread| thread.process.to_string()),
            marker: slice.marker.name(),
            ended: slice.ended.name(),
            key: system.key(slice).to_string(),
            from_ns: slice.from_ns,
            to_ns: slice.to_ns,
            true_latency_ns: slice.true_latency_ns,
            idle: IdleStatistics {
                count: slice.idle_count,
                mean_ns: slice.idle_mean_ns(),
                variance: slice.idle_variance,
            },
            cluster: some(slice.cluster),
            cause: some(slice.cause),
            features: (slice.profile != UNKNOWN)
                .then(|| system.profiles.calls(slice.profile).collect()),
        }
    }
}

struct Edges<'d>(&'d SketchesDocument<'d>);

#[derive(Serialize)]
struct EdgeEvidence {
    key: String,
    sent_ns: u64,
    received_ns: u64,
    #[serde(skip_serializing_if = "is_none")]
    bytes: u32,
    /// The other slice began with it.
    opens: bool,
    /// It woke the other one's thread.
    woke: bool,
    /// Both are of one sketch.
    joins: bool,
}

fn is_none(bytes: &u32) -> bool {
    *bytes == 0
}

impl Serialize for Edges<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(document) = self;
        let keys = &document.system.keys;
        let edges = document.edges().map(|edge| {
            let key = keys.get(edge.key as usize).map_or_else(String::new, ToString::to_string);
            let Edge { sent_ns, received_ns, bytes, opens, woke, joins, .. } = *edge;
            let evidence = EdgeEvidence { key, sent_ns, received_ns, bytes, opens, woke, joins };
            (edge.from, edge.to, edge.rule.name(), evidence)
        });
        serializer.collect_seq(edges)
    }
}

struct WholeSketches<'d>(&'d SketchesDocument<'d>);

#[derive(Serialize)]
struct SketchDocument {
    sketch: SliceId,
    slices: u32,
    from_ns: u64,
    to_ns: u64,
    idle: IdleStatistics,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<u32>,
}

impl Serialize for WholeSketches<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.sketches().into_iter().map(|sketch| SketchDocument {
            sketch: sketch.first,
            slices: sketch.slices,
            from_ns: sketch.from_ns,
            to_ns: sketch.to_ns,
            idle: IdleStatistics {
                count: sketch.idle_count,
                mean_ns: sketch.idle_mean_ns(),
                variance: sketch.idle_variance,
            },
            cluster: (sketch.cluster != NONE).then_some(sketch.cluster),
        }))
    }
}

struct Sketches<'d>(&'d SketchesDocument<'d>);

impl Serialize for Sketches<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(document) = self;
        let sketch = |id: SliceId| document.system.sketches.get(id as usize).copied();
        let mut all = document.shown.clone();
        all.sort_unstable_by_key(|id| (sketch(*id), *id));
        serializer.collect_seq(all.chunk_by(|one, other| sketch(*one) == sketch(*other)))
    }
}
