//! `softirq_raise_wait{vector}`: from the first raise of a softirq on a CPU since it was last
//! entered there, to its next entry.
//!
//! A raise while the handler runs belongs to the next entry. An entry without a raise in between
//! waits for nothing: the softirq was raised again after it had been taken, before its handler ran;
//! or the raise is not in the recording.

use std::collections::HashMap;
use std::sync::Arc;

use super::Paired;
use crate::ftrace::event::{Event, Kind};

/// Waits of raised softirqs.
pub fn softirq_raise_wait(events: &[Event]) -> Paired {
    let none: Arc<str> = "".into();
    let mut raised: HashMap<(u32, &str), u64> = HashMap::new();
    let mut paired = Paired::default();
    for event in events {
        match &event.kind {
            Kind::SoftirqRaise { vector } => {
                raised.entry((event.cpu, vector)).or_insert(event.time_ns);
            }
            Kind::SoftirqEntry { vector } => {
                let start_ns = raised.remove(&(event.cpu, &**vector));
                let labels = (Arc::clone(vector), Arc::clone(&none));
                paired.end(labels, 0, event, start_ns);
            }
            _ => {}
        }
    }
    paired
}

#[cfg(test)]
mod tests {
    use super::softirq_raise_wait;
    use crate::ftrace::event::{Event, Kind};
    use crate::pairing::testing::{at, brief};

    fn raise(time: u64, cpu: u32) -> Event {
        at(time, cpu, Kind::SoftirqRaise { vector: "timer".into() })
    }

    fn enter(time: u64, cpu: u32) -> Event {
        at(time, cpu, Kind::SoftirqEntry { vector: "timer".into() })
    }

    #[test]
    fn the_first_raise_counts_on_its_own_cpu() {
        let events = [raise(10, 0), raise(12, 1), raise(15, 0), enter(20, 0), enter(30, 1)];
        assert_eq!(
            brief(&softirq_raise_wait(&events).samples),
            [("timer", "", 10, 0), ("timer", "", 18, 0)]
        );
    }

    #[test]
    fn a_raise_inside_the_handler_belongs_to_the_next_entry() {
        let exit = at(26, 0, Kind::SoftirqExit { vector: "timer".into() });
        let events = [raise(10, 0), enter(20, 0), raise(25, 0), exit, enter(40, 0), enter(50, 0)];
        assert_eq!(
            brief(&softirq_raise_wait(&events).samples),
            [("timer", "", 10, 0), ("timer", "", 15, 0)]
        );
    }
}
