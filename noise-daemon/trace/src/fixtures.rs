//! What tests make events and recordings of.

use std::iter::Peekable;
use std::vec::IntoIter;

use crate::damage::Damage;
use crate::event::{Comm, Task, TraceKind, Woken};
use crate::record::{Record, Source, Stored};
use crate::state::LeftIn;
use crate::value::{Shape, Value, Visit};

/// The state in which a thread that sleeps interruptibly leaves its CPU.
pub const ASLEEP: i64 = 1;

/// A thread, which is called t and its number.
pub fn task(tid: i32) -> Task {
    named(&format!("t{tid}"), tid, 0)
}

/// A thread of that name.
pub fn named(comm: &str, tid: i32, prio: i32) -> Task {
    Task { comm: Comm::new(comm.as_bytes()), tid, prio }
}

pub fn switch(prev: i32, prev_state: i64, next: i32) -> TraceKind<'static> {
    let prev_state = LeftIn::of(prev_state);
    TraceKind::SchedSwitch { prev: task(prev), prev_state, next: task(next) }
}

pub fn waking(tid: i32) -> TraceKind<'static> {
    TraceKind::SchedWaking(Woken { task: task(tid), target_cpu: 0 })
}

pub fn wakeup(tid: i32, target_cpu: u32) -> TraceKind<'static> {
    TraceKind::SchedWakeup(Woken { task: task(tid), target_cpu })
}

/// An event in memory, with fields of three kinds.
#[derive(Clone, Copy, Debug)]
pub struct MadeEvent {
    pub name: &'static str,
    pub kind: TraceKind<'static>,
    pub numbers: &'static [(&'static str, i64)],
    pub texts: &'static [(&'static str, &'static str)],
    pub pairs: &'static [(&'static str, [i64; 2])],
}

impl MadeEvent {
    pub const fn new(name: &'static str, kind: TraceKind<'static>) -> Self {
        Self { name, kind, numbers: &[], texts: &[], pairs: &[] }
    }

    /// One that the model has no kind of.
    pub const fn other(name: &'static str, numbers: &'static [(&'static str, i64)]) -> Self {
        Self { numbers, ..Self::new(name, TraceKind::Other(name)) }
    }
}

impl<'t> Stored<'t> for MadeEvent {
    fn name(&self) -> &'t str {
        self.name
    }

    fn kind(&self) -> TraceKind<'t> {
        self.kind
    }

    fn visit(&self, visit: &mut impl Visit) {
        for (name, value) in self.numbers {
            visit.name(name);
            visit.value(Value::Signed { value: *value, base: 10, bits: 64 });
        }
        for (name, text) in self.texts {
            visit.name(name);
            visit.value(Value::Text(text.as_bytes()));
        }
        for (name, pair) in self.pairs {
            visit.name(name);
            visit.begin(Shape::Elements);
            for (number, value) in (0..).zip(pair) {
                visit.element(number);
                visit.value(Value::Signed { value: *value, base: 10, bits: 32 });
            }
            visit.end(Shape::Elements);
        }
    }

    fn visit_contexts<V: Visit>(&self, _: &mut V, _: impl FnMut(&mut V)) {}
}

/// A recording in memory.
pub struct MadeRecording(pub Peekable<IntoIter<Record<MadeEvent>>>);

impl MadeRecording {
    /// Of events with their times, all on CPU 0.
    pub fn new(events: impl IntoIterator<Item = (u64, MadeEvent)>) -> Self {
        let records = events.into_iter().map(|(time_ns, event)| Record::new(time_ns, 0, event));
        Self(records.collect::<Vec<_>>().into_iter().peekable())
    }
}

impl Source for MadeRecording {
    type Stored<'r> = MadeEvent;

    fn read(&mut self) -> Option<Record<MadeEvent>> {
        self.0.next()
    }

    fn next_ns(&mut self) -> Option<u64> {
        self.0.peek().map(|record| record.time_ns)
    }

    fn damage(&self) -> Damage {
        Damage::default()
    }

    fn read_bytes(&self) -> u64 {
        0
    }
}
