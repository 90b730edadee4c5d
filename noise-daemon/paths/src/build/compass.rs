//! What Trace Compass makes of three kinds of moments, to compare paths with its own.
//!
//! The events say otherwise, so it is done on request alone:
//!
//! - A thread that is woken on its way to sleep runs next without another wake-up. It waits for a CPU from the switch away
//!   from it on (a `sched_wakeup` behind that switch says so, too); Trace Compass has it asleep until it runs.
//! - Where such a thread, which runs again, is woken once more before it sleeps: Trace Compass takes it for asleep up to
//!   then, so the path leads through who woke it, for a time in which it had the CPU itself.
//! - LTTng's state dump says of every thread that runs or waits for a CPU that it was created and did not run yet. Trace
//!   Compass has one that runs waiting for a CPU then.

use noise_trace::event::TraceKind;
use noise_trace::record::{Record, Stored};
use noise_trace::value::{Value, Visit};

use super::known::{Known, Status};
use super::{Builder, EventPlace};
use crate::graph::WorkerId;

/// LTTng's number for a thread that was created and did not run yet.
const WAITS_AFTER_FORK: i64 = 1;

impl Builder {
    /// Takes these moments as Trace Compass does.
    #[must_use]
    pub const fn like_trace_compass(mut self) -> Self {
        self.is_compass = true;
        self
    }

    /// Takes a thread's state in a state dump.
    pub(crate) fn dumped<'t>(
        &mut self,
        machine: u16,
        record: &Record<impl Stored<'t>>,
        kind: &TraceKind<'_>,
    ) {
        let TraceKind::StatedumpProcess(dumped) = kind else { return };
        let Some(id) = self.thread(machine, dumped.tid).filter(|_| self.is_compass) else { return };
        let mut status = StatusField::default();
        record.visit(&mut status);
        let known = self.known(id);
        if status.value == Some(WAITS_AFTER_FORK) && known.status == Status::Running {
            self.know(id, Known { is_dumped: true, ..known });
        }
    }

    /// Whether a wake-up of a thread that runs ends a sleep as Trace Compass sees it.
    pub(super) fn ends_unseen_sleep(&mut self, target: WorkerId) -> bool {
        let known = self.known(target);
        let is_unseen = self.is_compass && known.is_unseen;
        self.know(target, Known { is_unseen: false, ..known });
        is_unseen
    }

    /// The end of such a sleep: the thread runs on.
    pub(super) fn end_unseen_sleep(&mut self, at: EventPlace, target: WorkerId) {
        let known = self.known(target);
        self.know(target, Known { status: Status::Blocked, ..known });
        self.end_sleep(at, target);
        self.know(target, known);
    }
}

/// The field `status` of an event.
#[derive(Default)]
struct StatusField {
    is_next: bool,
    value: Option<i64>,
}

impl Visit for StatusField {
    fn name(&mut self, name: &str) {
        self.is_next = matches!(name, "status" | "_status");
    }

    fn value(&mut self, value: Value<'_>) {
        match value {
            Value::Label { value, .. } => self.value(*value),
            Value::Unsigned { value, .. } if self.is_next => self.value = i64::try_from(value).ok(),
            Value::Signed { value, .. } if self.is_next => self.value = Some(value),
            _ => {}
        }
    }
}
