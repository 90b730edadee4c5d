//! What one condition says of a slice.

use std::cmp::Ordering;

use noise_trace::compare::Compare;
use noise_trace::event::Comm;

use crate::marker::Marker;
use crate::slices::{NONE, Slice, SliceId};
use crate::system::System;
use crate::tallies::UNKNOWN;
use crate::whole::Sketch;

/// A text in which `*` stands for any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(pub String);

impl Pattern {
    fn is(&self, text: &str) -> bool {
        let Some((first, rest)) = self.0.split_once('*') else { return self.0 == text };
        let Some(mut text) = text.strip_prefix(first) else { return false };
        let mut parts: Vec<&str> = rest.split('*').collect();
        let last = parts.pop().unwrap_or_default();
        for part in parts {
            let Some(found) = text.find(part) else { return false };
            text = text.get(found + part.len()..).unwrap_or_default();
        }
        text.ends_with(last)
    }

    fn is_comm(&self, comm: Comm) -> bool {
        let text = comm.to_string();
        // The kernel keeps 15 bytes of a name.
        let is_cut = |pattern: &str| pattern.get(..15).is_some_and(|cut| cut == text);
        self.is(&text) || (!self.0.contains('*') && is_cut(&self.0))
    }
}

/// A thread or a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    Id(i64),
    Named(Pattern),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Number {
    Latency,
    /// The same without that of those it waited for.
    TrueLatency,
    /// Its time without a CPU: all of it.
    Idle,
    IdleCount,
    IdleMean,
    IdleDeviation,
    /// The variance, square nanoseconds.
    IdleVariance,
    /// How often it makes a system call; any where it has no name.
    Calls(Option<String>),
}

/// The same of its sketch as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SketchNumber {
    /// How many slices it has.
    Slices,
    Latency,
    Idle,
    IdleCount,
    IdleMean,
    IdleDeviation,
    IdleVariance,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    Marker(Compare, Marker),
    Process(Compare, Whose),
    Thread(Compare, Whose),
    /// What it is about.
    Key(Compare, Pattern),
    /// A port of either end of its connection.
    Port(Compare, i64),
    /// The slice that caused it; `None` is none.
    Cause(Compare, Option<i64>),
    /// Its cluster; `None` is none.
    Cluster(Compare, Option<i64>),
    Number(Number, Compare, f64),
    /// The number of its sketch.
    Sketch(Compare, i64),
    SketchCluster(Compare, Option<i64>),
    SketchNumber(SketchNumber, Compare, f64),
    /// When it begins (`true`) or ends: nanoseconds since the epoch, or since the first event.
    Time {
        /// It is about the begin.
        begins: bool,
        compare: Compare,
        ns: u64,
        /// It counts from the first event.
        is_relative: bool,
    },
}

impl Condition {
    /// `None`: the calls of the slice are not known.
    pub fn holds(&self, system: &System, id: SliceId, slice: &Slice) -> Option<bool> {
        let sketch = || system.whole(id);
        let equal = |is: bool| is.then_some(Ordering::Equal);
        let thread = system.thread(slice);
        let holds = match self {
            Self::Marker(compare, marker) => compare.holds(equal(slice.marker == *marker)),
            Self::Process(compare, whose) => compare.holds(equal(thread.is_some_and(|thread| {
                let pid = if thread.pid == 0 { thread.tid } else { thread.pid };
                match whose {
                    Whose::Id(id) => i64::from(pid) == *id,
                    Whose::Named(name) => name.is_comm(thread.process),
                }
            }))),
            Self::Thread(compare, whose) => {
                compare.holds(equal(thread.is_some_and(|thread| match whose {
                    Whose::Id(id) => i64::from(thread.tid) == *id,
                    Whose::Named(name) => name.is_comm(thread.comm),
                })))
            }
            Self::Key(compare, pattern) => {
                compare.holds(equal(pattern.is(&system.key(slice).to_string())))
            }
            Self::Port(compare, port) => {
                let ports = system.key(slice).ports();
                let mut order = ports.iter().flatten().map(|own| i64::from(*own).cmp(port));
                match compare {
                    Compare::Unequal => order.all(|order| order != Ordering::Equal),
                    compare => order.any(|order| compare.holds(Some(order))),
                }
            }
            Self::Cause(compare, cause) => compare.holds(numbered(slice.cause, *cause)),
            Self::Cluster(compare, cluster) => compare.holds(numbered(slice.cluster, *cluster)),
            Self::Sketch(compare, number) => {
                compare.holds(sketch().map(|sketch| i64::from(sketch.first).cmp(number)))
            }
            Self::SketchCluster(compare, cluster) => {
                let own = sketch().map_or(NONE, |sketch| sketch.cluster);
                compare.holds(numbered(own, *cluster))
            }
            Self::SketchNumber(number, compare, value) => compare
                .holds(sketch().and_then(|sketch| of_sketch(*number, sketch).partial_cmp(value))),
            Self::Number(Number::Calls(_), ..) if slice.profile == UNKNOWN => return None,
            Self::Number(number, compare, value) => {
                compare.holds(of(number, system, slice).partial_cmp(value))
            }
            Self::Time { begins, compare, ns, is_relative } => {
                let own = if *begins { slice.from_ns } else { slice.to_ns };
                let first = if *is_relative { system.span.0 } else { 0 };
                compare.holds(Some(own.cmp(&first.saturating_add(*ns))))
            }
        };
        Some(holds)
    }
}

/// A number of its own against another one; either may be none.
fn numbered(own: u32, other: Option<i64>) -> Option<Ordering> {
    match ((own != NONE).then_some(i64::from(own)), other) {
        (None, None) => Some(Ordering::Equal),
        (Some(own), Some(other)) => Some(own.cmp(&other)),
        _ => None,
    }
}

fn of_sketch(number: SketchNumber, sketch: &Sketch) -> f64 {
    match number {
        SketchNumber::Slices => f64::from(sketch.slices),
        SketchNumber::Latency => sketch.latency_ns() as f64,
        SketchNumber::Idle => sketch.idle_ns as f64,
        SketchNumber::IdleCount => f64::from(sketch.idle_count),
        SketchNumber::IdleMean => sketch.idle_mean_ns(),
        SketchNumber::IdleDeviation => sketch.idle_variance.sqrt(),
        SketchNumber::IdleVariance => sketch.idle_variance,
    }
}

fn of(number: &Number, system: &System, slice: &Slice) -> f64 {
    match number {
        Number::Latency => slice.latency_ns() as f64,
        Number::TrueLatency => slice.true_latency_ns as f64,
        Number::Idle => slice.idle_ns as f64,
        Number::IdleCount => f64::from(slice.idle_count),
        Number::IdleMean => slice.idle_mean_ns(),
        Number::IdleDeviation => slice.idle_variance.sqrt(),
        Number::IdleVariance => slice.idle_variance,
        Number::Calls(name) => {
            let calls = system.profiles.calls(slice.profile);
            let own = calls.filter(|(call, _)| name.as_ref().is_none_or(|name| name == call));
            own.map(|(_, count)| f64::from(count)).sum()
        }
    }
}
