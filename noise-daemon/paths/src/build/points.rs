//! What a worker did up to a moment, by what is known of it since the moment before.

use noise_trace::sight::UnseenGap;

use super::known::Status;
use super::{Builder, EventPlace};
use crate::graph::{NO_CPU, PointPlace, Worker, WorkerId};
use crate::state::State;
use crate::via::ViaKind;

impl Builder {
    /// Adds a point to a worker at the end of the time that is asked for: what it did since its last one lasts
    /// until then. Behind a gap no event says what one does that did not run before.
    pub fn until(&mut self, id: WorkerId, time_ns: u64) {
        let Some(who) = self.graph.get(id).map(|worker| worker.who) else { return };
        let machine = who.machine();
        let has_exited = self.graph.get(id).is_some_and(|worker| worker.exit_ns.is_some());
        // The kernel takes a thread apart before it leaves its CPU for good.
        if has_exited && !matches!(self.known(id).status, Status::Running | Status::Waiting) {
            return;
        }
        let at = EventPlace { machine, cpu: NO_CPU, time_ns };
        match self.gap(at, id).filter(|_| self.known(id).status.is_off_cpu()) {
            None => {
                self.append(at, id);
            }
            Some((begin_ns, _)) => {
                if self.last_ns(id) < begin_ns {
                    self.append(EventPlace { time_ns: begin_ns, ..at }, id);
                }
                self.graph.append(id, time_ns, Some(State::Unknown), NO_CPU);
            }
        }
    }

    /// Adds a point to a worker, with what its status says of the time up to then.
    pub(super) fn append(&mut self, at: EventPlace, id: WorkerId) -> PointPlace {
        let known = self.known(id);
        let (state, cpu) = match known.status {
            Status::Unknown => (Some(State::Unknown), NO_CPU),
            Status::Running if known.is_dumped => (Some(State::WaitingCpu), known.cpu),
            Status::Running => (Some(State::Running), known.cpu),
            Status::Waiting => (Some(State::WaitingCpu), known.cpu),
            Status::Blocked if known.is_in(ViaKind::Futex) => (Some(State::Futex), NO_CPU),
            Status::Blocked => (Some(State::Blocked), NO_CPU),
            Status::Created => (Some(State::Created), NO_CPU),
            Status::Aside | Status::Gone => (None, NO_CPU),
        };
        if known.status.is_off_cpu() {
            self.pass_gap(at, id, state, cpu);
        }
        self.graph.append(id, at.time_ns, state, cpu)
    }

    /// The time in which events of some CPU were lost since the latest point of a worker that does not run.
    pub(super) fn gap(&mut self, at: EventPlace, id: WorkerId) -> Option<UnseenGap> {
        let from_ns = self.last_ns(id);
        self.machine(at.machine).gap(from_ns, at.time_ns)
    }

    fn last_ns(&self, id: WorkerId) -> u64 {
        self.graph.get(id).and_then(Worker::span).map_or(u64::MAX, |(_, last_ns)| last_ns)
    }

    /// What it did in that time is unknown: it may have run where it was not seen, so that what it does between two gaps
    /// is not known either.
    fn pass_gap(&mut self, at: EventPlace, id: WorkerId, state: Option<State>, cpu: u32) {
        let Some((begin_ns, end_ns)) = self.gap(at, id) else { return };
        if self.last_ns(id) < begin_ns {
            self.graph.append(id, begin_ns, state, cpu);
        }
        self.graph.append(id, end_ns.min(at.time_ns), Some(State::Unknown), NO_CPU);
    }
}
