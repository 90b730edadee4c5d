//! PURE: the last minutes, as what came between one frame and the next.
//!
//! Counters run for ever, so a step is the difference of two frames. What is missing in a frame is
//! gone, and begins at 0 if it comes again; the same holds for all where a daemon was started anew.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use noise_common::signals::Signal;

use super::pairs::Pairs;
use crate::wire::Frame;

mod between;
mod cpus;
mod delta;
mod span;
#[cfg(test)]
mod tests;

pub use between::joined;
use between::{Known, between};
pub use cpus::{Cpu, TAKERS, Taker};
pub use delta::{Delays, Delta};
use span::run;
pub use span::{Deed, Labels, Span, by_labels};

/// Steps that are kept.
const STEPS: usize = 1_200;
/// How far back steps are kept, ns.
const HORIZON_NS: u64 = 120_000_000_000;

/// What came between two frames.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// The time of the second, on the wall.
    pub time: Timestamp,
    /// The same on the clock of the samples, ns.
    pub at_ns: u64,
    /// What came.
    pub span: Span,
}

/// The last minutes.
#[derive(Clone, Debug, Default)]
pub struct History {
    latest: Option<Arc<Frame>>,
    steps: VecDeque<Step>,
    pairs: Pairs,
    /// What the newest frame has.
    known: Known,
}

impl History {
    /// Takes the next frame. One that is older than the last, or of another host, begins anew.
    pub fn push(&mut self, frame: Arc<Frame>) {
        let known = self.known.next(&frame.sample);
        if let Some(before) = self.latest.take() {
            let (then_ns, now_ns) = (before.sample.at_ns, frame.sample.at_ns);
            if now_ns < then_ns || before.host.name != frame.host.name {
                self.steps.clear();
                self.pairs = Pairs::default();
            } else if now_ns > then_ns {
                let then = (&*before, &self.known);
                let span = between(then, (&frame, &known), &mut self.pairs);
                self.steps.push_back(Step { time: frame.time, at_ns: now_ns, span });
            }
        }
        let newest_ns = frame.sample.at_ns;
        while self.steps.len() > STEPS
            || self.steps.front().is_some_and(|step| step.at_ns + HORIZON_NS < newest_ns)
        {
            let oldest = self.steps.pop_front();
            self.pairs.forget(oldest.iter().flat_map(|step| &step.span.costs));
        }
        self.known = known;
        self.latest = Some(frame);
    }

    /// The newest frame.
    pub fn latest(&self) -> Option<&Arc<Frame>> {
        self.latest.as_ref()
    }

    /// The series of a signal that the newest frame has, with all that was lost so far, ns; by
    /// label values, in their order.
    pub fn series_of(&self, signal: Signal) -> impl Iterator<Item = (&Labels, u64)> {
        let own = run(&self.known.series, |((own, _), _)| *own, signal);
        own.iter().map(|((_, labels), total_ns)| (labels, *total_ns))
    }

    /// The counters of a signal that the newest frame has, by label values, in their order.
    pub fn counters_of(&self, signal: Signal) -> impl Iterator<Item = &Labels> {
        let own = run(&self.known.counts, |((own, _), _)| *own, signal);
        own.iter().map(|((_, labels), _)| labels)
    }

    /// What came from one frame to the next, the newest last.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = &Step> {
        self.steps.iter()
    }

    /// The steps since a time on the clock of the samples, ns, the newest first; but that one at
    /// least.
    pub fn steps_since(&self, from_ns: u64) -> impl Iterator<Item = &Step> {
        let steps = self.steps.iter().rev().enumerate();
        steps
            .take_while(move |(index, step)| *index == 0 || step.at_ns > from_ns)
            .map(|(_, step)| step)
    }

    /// Who is among the costs of the steps.
    pub fn pairs(&self) -> &Pairs {
        &self.pairs
    }

    /// A number of each step, the newest last.
    pub fn over_time(&self, number: impl Fn(&Span) -> f64) -> Vec<f64> {
        self.steps.iter().map(|step| number(&step.span)).collect()
    }
}
