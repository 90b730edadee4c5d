//! PURE: how much an answer of a daemon may have. One that lies could send without end, and all of it is kept until it is
//! written.

use anyhow::ensure;
use noise_common::store::StoredEvent;
use noise_wire::events::AnswerItem;

use crate::marks;

/// Bytes of one answer: more than a store has.
const MOST_BYTES: usize = 256 << 20;
/// Bytes of its marks: what a daemon keeps, and as much that others may keep.
const MOST_MARK_BYTES: usize = 2 * marks::MOST_KEPT_BYTES;

/// What an answer had so far, bytes.
#[derive(Debug, Default)]
pub struct AnswerBounds {
    all: usize,
    of_marks: usize,
}

impl AnswerBounds {
    /// Notes what comes at a time, ns.
    /// Errors: where it is more than a daemon has, or of a time that has not come: then it would be kept for long.
    pub fn take(&mut self, item: &AnswerItem, now_ns: u64) -> anyhow::Result<()> {
        self.all += size_of::<AnswerItem>();
        match item {
            AnswerItem::Events { events, .. } => {
                self.all += size_of::<StoredEvent>() * events.len();
                let is_past = events.iter().all(|event| event.time_ns <= now_ns);
                ensure!(is_past, "the daemon's answer has events that have not happened yet");
            }
            AnswerItem::Mark(mark) => {
                self.of_marks += marks::bytes(mark);
                ensure!(mark.time_ns <= now_ns, "the daemon's answer has marks of the future");
            }
            _ => {}
        }
        let is_bounded = self.all <= MOST_BYTES && self.of_marks <= MOST_MARK_BYTES;
        ensure!(is_bounded, "the daemon's answer has more than a daemon keeps");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use noise_wire::events::ItemPlace;
    use noise_wire::marks::Mark;

    use super::*;

    /// How many of these there may be, if not all.
    fn most(item: &AnswerItem, all: usize) -> Option<usize> {
        let mut bounds = AnswerBounds::default();
        (0..all).position(|_| bounds.take(item, 100).is_err())
    }

    #[test]
    fn an_answer_has_what_a_daemon_keeps() {
        let mark = |time_ns| AnswerItem::Mark(Mark { time_ns, ..Mark::default() });
        let event = |time_ns| StoredEvent { time_ns, ..StoredEvent::default() };
        let place = ItemPlace::default();
        let events =
            |time_ns| AnswerItem::Events { place, first: 0, events: vec![event(time_ns); 2_048] };
        // A whole store of 128 MiB, and all marks that fit beside it.
        assert_eq!(most(&events(100), 2_048), None);
        assert_eq!(most(&mark(100), marks::MOST_KEPT_BYTES / size_of::<Mark>()), None);
        for (item, all) in [
            (events(100), 5_000),
            (mark(100), 200_000),
            (AnswerItem::Missing { place, first: 0, count: 1 }, 10_000_000),
        ] {
            assert!(most(&item, all).is_some());
        }
        assert_eq!((most(&events(101), 1), most(&mark(101), 1)), (Some(0), Some(0)));
    }
}
