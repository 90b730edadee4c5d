//! PURE: the last minutes, as what came between one frame and the next, and for longer in few figures, which begin with what
//! a daemon knows.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use noise_common::signals::Signal;
use noise_model::{Labels, SeriesNames, Step, Trends, run};
use noise_wire::Frame;

use super::pairs::Pairs;
use super::services::Services;

#[cfg(test)]
mod tests;

/// Steps that are kept.
const STEPS: usize = 1_200;
/// How far back steps are kept, ns.
const HORIZON_NS: u64 = 120_000_000_000;

#[derive(Clone, Debug, Default)]
pub struct History {
    latest: Option<Arc<Frame>>,
    steps: VecDeque<Step>,
    trends: Trends,
    pairs: Pairs,
    /// The series and counters of the newest frame.
    names: SeriesNames,
    /// Which service waits for which, as it was watched last.
    services: Services,
}

impl History {
    /// Takes the next frame. One that is older than the last, or of another host, begins anew.
    pub fn push(&mut self, frame: Arc<Frame>) {
        let known = frame.trends.clone();
        let next = self.names.next(&frame.sample);
        let names = mem::replace(&mut self.names, next);
        let newest_ns = frame.sample.at_ns;
        if let Some(before) = self.latest.replace(frame)
            && let Some(frame) = &self.latest
        {
            let then_ns = before.sample.at_ns;
            if newest_ns < then_ns || before.host.name != frame.host.name {
                self.steps.clear();
                self.pairs = Pairs::default();
                self.trends = Trends::default();
            } else if newest_ns > then_ns {
                let step = Step::named((&before.sample, &names), (&frame.sample, &self.names));
                self.pairs.push(&step.charges);
                self.trends.push(&step);
                self.steps.push_back(step);
            }
        }
        while self.steps.len() > STEPS
            || self
                .steps
                .front()
                .is_some_and(|step| step.end_ns.saturating_add(HORIZON_NS) < newest_ns)
        {
            self.steps.pop_front();
            self.pairs.forget_oldest();
        }
        if let Some(known) = known {
            self.trends = Arc::unwrap_or_clone(known);
        }
    }

    /// What the last 15 minutes were like.
    pub fn trends(&self) -> &Trends {
        &self.trends
    }

    /// Takes what was watched of services.
    pub fn watched(&mut self, services: Services) {
        self.services = services;
    }

    /// What was watched of services last.
    pub fn services(&self) -> &Services {
        &self.services
    }

    pub fn latest(&self) -> Option<&Arc<Frame>> {
        self.latest.as_ref()
    }

    /// The series of a signal that the newest frame has, with all that was lost so far, ns; by
    /// label values, in their order.
    pub fn series_of(&self, signal: Signal) -> impl Iterator<Item = (&Labels, u64)> {
        let own = run(&self.names.series, |entry| entry.key.0, signal);
        own.iter().map(|entry| (&entry.key.1, entry.total))
    }

    /// The counters of a signal that the newest frame has, by label values, in their order.
    pub fn counters_of(&self, signal: Signal) -> impl Iterator<Item = &Labels> {
        let own = run(&self.names.counts, |entry| entry.key.0, signal);
        own.iter().map(|entry| &entry.key.1)
    }

    /// What came from one frame to the next, the newest last.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = &Step> {
        self.steps.iter()
    }

    /// The steps since a time on the clock of the samples, ns, the newest first; but that one at least.
    pub fn steps_since(&self, from_ns: u64) -> impl Iterator<Item = &Step> {
        let steps = self.steps.iter().rev().enumerate();
        steps
            .take_while(move |(index, step)| *index == 0 || step.end_ns > from_ns)
            .map(|(_, step)| step)
    }

    /// What victims and culprits had with each other in the steps.
    pub fn pairs(&self) -> &Pairs {
        &self.pairs
    }

    /// A number of each step, the newest last.
    pub fn over_time(&self, number: impl Fn(&Step) -> f64) -> Vec<f64> {
        self.steps.iter().map(number).collect()
    }
}
