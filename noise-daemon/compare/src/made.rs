//! Executions for tests.

use std::collections::BTreeMap;

use noise_paths::document::{Segment, Traced};
use noise_trace::delays::document::Culprit;

use crate::side::Side;

/// The thread of all executions.
const TID: i32 = 7;
/// When they begin, nanoseconds.
const BEGIN_NS: u64 = 1000;

/// A part of a path.
#[derive(Clone, Debug)]
pub struct Made {
    state: &'static str,
    ns: u64,
    tid: i32,
    culprit: Option<&'static str>,
}

impl Made {
    /// Of the execution's own thread.
    pub fn own(state: &'static str, ns: u64) -> Self {
        Self::of(state, ns, TID)
    }

    pub fn of(state: &'static str, ns: u64, tid: i32) -> Self {
        Self { state, ns, tid, culprit: None }
    }

    /// For whom all of it is.
    pub fn behind(self, culprit: &'static str) -> Self {
        Self { culprit: Some(culprit), ..self }
    }
}

/// An execution with that path.
pub fn path(parts: &[Made]) -> Traced {
    let mut totals_ns: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut from_ns = BEGIN_NS;
    let part = |made: &Made| {
        *totals_ns.entry(made.state).or_default() += made.ns;
        let to_ns = from_ns + made.ns;
        let culprit = |comm: &&str| Culprit {
            tid: 99,
            comm: (*comm).to_owned(),
            cause: "thread",
            ns: made.ns,
        };
        let segment = Segment {
            tid: made.tid,
            comm: if made.tid == TID { "job".to_owned() } else { format!("other-{}", made.tid) },
            state: made.state,
            from_ns,
            to_ns,
            culprits: made.culprit.iter().map(culprit).collect(),
            ..Segment::default()
        };
        from_ns = to_ns;
        segment
    };
    let path: Vec<Segment> = parts.iter().map(part).collect();
    let to_ns = path.last().map_or(BEGIN_NS, |last| last.to_ns);
    Traced {
        name: "mark:job".to_owned(),
        tid: TID,
        comm: "job".to_owned(),
        from_ns: BEGIN_NS,
        to_ns,
        span_ns: to_ns - BEGIN_NS,
        has_begin: true,
        has_end: true,
        totals_ns,
        path,
        ..Traced::default()
    }
}

/// Executions of one recording.
pub fn side(executions: &[Traced]) -> Side {
    let mut side = Side::default();
    side.add(0, executions.iter().cloned());
    side
}

/// Numbers by chance, always the same ones of a seed.
pub struct Numbers(crate::chance::Numbers);

impl Numbers {
    /// From a seed on.
    pub fn new(seed: u64) -> Self {
        Self(crate::chance::Numbers(seed))
    }

    /// One below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    /// Between 0.7 and 1.5 times as much, seldom 4 times.
    pub fn about(&mut self, ns: u64) -> u64 {
        match self.below(50) {
            0 => 4 * ns,
            _ => ns * (700 + self.below(800) as u64) / 1000,
        }
    }
}
