//! Who had the CPU that a worker on a path waited for: the parts of each wait, divided as the delays of a
//! recording are, by the ledger of `noise_common`. A wait that a path has in part is divided in that part.
//!
//! It takes the events once more, after the paths are known: who waits on which CPU is known at the end of a wait only.

use noise_trace::delays::Delays;
use noise_trace::event::Event;

use crate::document::{Document, Segment};
use crate::state::State;

/// A wait on a path.
#[derive(Clone, Copy, Debug)]
struct Wait {
    to_ns: u64,
    /// The number of the execution, and of the segment of its path.
    place: (usize, usize),
}

/// Divides the waits for a CPU in a document while events come in, in the order of time.
pub struct Blame {
    delays: Delays,
    /// The one that ends last comes first.
    waits: Vec<Wait>,
}

impl Blame {
    /// For all waits of a document.
    pub fn new(document: &Document, delays: Delays) -> Self {
        let waits = (0..).zip(&document.executions).flat_map(|(execution, traced)| {
            let waits = (0..).zip(&traced.path).filter(|(_, segment)| is_wait(segment));
            waits.map(move |(number, segment)| Wait {
                to_ns: segment.to_ns,
                place: (execution, number),
            })
        });
        let mut waits: Vec<_> = waits.collect();
        waits.sort_by_key(|wait| (std::cmp::Reverse(wait.to_ns), wait.place));
        Self { delays, waits }
    }

    /// Whether all waits are divided.
    pub fn is_over(&self) -> bool {
        self.waits.is_empty()
    }

    /// Takes the next event.
    pub fn follow(&mut self, event: &Event<'_>, document: &mut Document) {
        // All events at the end of a wait have come.
        self.divide(event.time_ns, document);
        self.delays.follow(event);
    }

    /// No event comes any more.
    pub fn finish(mut self, document: &mut Document) {
        self.divide(u64::MAX, document);
    }

    fn divide(&mut self, now_ns: u64, document: &mut Document) {
        while let Some(wait) = self.waits.pop_if(|wait| wait.to_ns < now_ns) {
            let (execution, number) = wait.place;
            let traced = document.executions.get_mut(execution);
            let Some(segment) = traced.and_then(|traced| traced.path.get_mut(number)) else {
                continue;
            };
            if let Some(cpu) = segment.cpu {
                segment.culprits = self.delays.culprits(cpu, segment.from_ns, segment.to_ns);
            }
        }
    }
}

fn is_wait(segment: &Segment) -> bool {
    segment.state == State::WaitingCpu.name() && segment.cpu.is_some()
}
