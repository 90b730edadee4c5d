//! Delays paired from ftrace events, one file per signal family.
//!
//! Pure functions over a merged, ordered list of events. They are written from the definitions of
//! the signals and share nothing with the daemon: they are what it is judged by.

pub mod ahead;
pub mod block;
pub mod charges;
pub mod counts;
pub mod interrupts;
pub mod memory;
pub mod net;
pub mod raise;
pub mod runqueue;
pub mod runs;
pub mod uninterruptible;

use std::sync::Arc;

use crate::ftrace::event::Event;

/// The values of a signal's labels; the second is empty for a signal with one label.
pub type Labels = (Arc<str>, Arc<str>);

/// One delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Label values, in the order of the metric contract.
    pub labels: Labels,
    /// The thread that waited, where there is one; else 0.
    pub pid: i32,
    /// The CPU that it ended on.
    pub cpu: u32,
    /// When it ended, `CLOCK_MONOTONIC`.
    pub end_ns: u64,
    /// How long it was, less what is charged elsewhere.
    pub value_ns: u64,
    /// What was taken off because something else ran meanwhile.
    pub nested_ns: u64,
}

/// A signal's delays, and the ends whose start is not in the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paired {
    /// Complete delays, in order of their end.
    pub samples: Vec<Sample>,
    /// Ends of which something is not known: the start (work under way when recording began) or the
    /// very moment (a switch that the recording lacks; the value is then the longest it may be, or
    /// 0). The daemon may have seen what is missing here, so it may count these, under any label.
    pub orphans: Vec<Sample>,
}

impl Paired {
    /// Adds the end of a delay, at `event`, that nothing is taken off of.
    fn end(&mut self, labels: Labels, pid: i32, event: &Event, start_ns: Option<u64>) {
        let sample = Sample {
            labels,
            pid,
            cpu: event.cpu,
            end_ns: event.time_ns,
            value_ns: start_ns.map_or(0, |start| event.time_ns.saturating_sub(start)),
            nested_ns: 0,
        };
        match start_ns {
            Some(_) => self.samples.push(sample),
            None => self.orphans.push(sample),
        }
    }
}

/// Labels of a signal that has one.
pub fn label(value: &str) -> Labels {
    (value.into(), "".into())
}

/// Labels of a signal that has two.
pub fn labels(first: &str, second: &str) -> Labels {
    (first.into(), second.into())
}

#[cfg(test)]
pub(crate) mod testing {
    //! Hand-made events.

    use super::Sample;
    use crate::ftrace::event::{Event, Kind, Left};

    /// A switch from a task that stays runnable or goes to sleep.
    pub(crate) fn switch_at(time_ns: u64, cpu: u32, prev: i32, runnable: bool, next: i32) -> Event {
        let left = if runnable { Left::Runnable } else { Left::Asleep };
        at(time_ns, cpu, Kind::Switch { prev, left, next })
    }

    pub(crate) fn at(time_ns: u64, cpu: u32, kind: Kind) -> Event {
        Event { time_ns, cpu, pid: 0, kind }
    }

    /// (first label, second label, value, nested) of each sample.
    pub(crate) fn brief(samples: &[Sample]) -> Vec<(&str, &str, u64, u64)> {
        samples
            .iter()
            .map(|sample| (&*sample.labels.0, &*sample.labels.1, sample.value_ns, sample.nested_ns))
            .collect()
    }
}
