//! What tests of several modules make events of.

use noise_trace::event::{Comm, Task, TraceKind, Woken};
use noise_trace::state::LeftIn;

/// The state in which a thread that sleeps interruptibly leaves its CPU.
pub const ASLEEP: i64 = 1;

/// A thread, which is called t and its number.
pub fn task(tid: i32) -> Task {
    Task { comm: Comm::new(format!("t{tid}").as_bytes()), tid, prio: 0 }
}

pub fn switch(prev: i32, prev_state: i64, next: i32) -> TraceKind<'static> {
    TraceKind::SchedSwitch {
        prev: task(prev),
        prev_state: LeftIn::of(prev_state),
        next: task(next),
    }
}

pub fn waking(tid: i32) -> TraceKind<'static> {
    TraceKind::SchedWaking(Woken { task: task(tid), target_cpu: 0 })
}
