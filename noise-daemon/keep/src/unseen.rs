//! PURE: times in which events of some CPU are not in a stretch of the recorder.

use std::collections::BTreeMap;

use noise_wire::events::{AnswerItem, ItemPlace};

/// Times that are kept apart.
const MOST_GAPS: usize = 4096;

/// Events of some CPU are missing from the first time on, up to the second, ns on CLOCK_MONOTONIC. Rings of different
/// CPUs go back differently far, and each part's may have lost some later.
#[derive(Clone, Debug, Default)]
pub struct Unseen {
    gaps: Vec<(u64, u64)>,
    parts: BTreeMap<ItemPlace, RecorderPart>,
}

#[derive(Clone, Copy, Debug, Default)]
struct RecorderPart {
    /// Time of its latest event so far.
    last_ns: u64,
    /// Events are missing behind it.
    is_missing: bool,
}

impl Unseen {
    /// Takes the next piece of the stretch.
    pub fn note(&mut self, item: &AnswerItem) {
        match item {
            AnswerItem::Part { complete_from_ns, .. } => self.add(0, *complete_from_ns),
            AnswerItem::Missing { place, .. } => {
                self.parts.entry(*place).or_default().is_missing = true;
            }
            AnswerItem::Events { place, events, .. } => {
                let (Some(first), Some(last)) = (events.first(), events.last()) else { return };
                let part = self.parts.entry(*place).or_default();
                let before = std::mem::replace(
                    part,
                    RecorderPart { last_ns: last.time_ns, is_missing: false },
                );
                if before.is_missing {
                    self.add(before.last_ns, first.time_ns);
                }
            }
            AnswerItem::Mark(_) | AnswerItem::End { .. } => {}
        }
    }

    fn add(&mut self, from_ns: u64, to_ns: u64) {
        if from_ns < to_ns {
            self.gaps.push((from_ns, to_ns));
        }
        if self.gaps.len() >= 2 * MOST_GAPS {
            self.join();
        }
    }

    /// Those that overlap become one, and the oldest where there are too many.
    fn join(&mut self) {
        self.gaps.sort_unstable();
        self.gaps.dedup_by(|next, before| {
            let overlaps = next.0 <= before.1;
            if overlaps {
                before.1 = before.1.max(next.1);
            }
            overlaps
        });
        let more = self.gaps.len().saturating_sub(MOST_GAPS);
        if let (Some(first), Some(last)) = (self.gaps.first(), self.gaps.get(more)) {
            let joined = (first.0, last.1);
            self.gaps.splice(..=more, [joined]);
        }
    }

    /// All of them, once the stretch is over.
    pub fn finish(mut self) -> Gaps {
        let open = std::mem::take(&mut self.parts);
        for part in open.into_values().filter(|part| part.is_missing) {
            self.add(part.last_ns, u64::MAX);
        }
        self.join();
        Gaps(self.gaps)
    }
}

/// Times that lie apart, in their order.
#[derive(Clone, Debug, Default)]
pub struct Gaps(Vec<(u64, u64)>);

impl Gaps {
    /// The end of the latest that a time has a part of.
    pub fn end_within(&self, from_ns: u64, to_ns: u64) -> Option<u64> {
        let before = self.0.partition_point(|(begin_ns, _)| *begin_ns < to_ns);
        let (_, end_ns) = self.0.get(before.checked_sub(1)?)?;
        (*end_ns > from_ns).then_some(*end_ns)
    }
}

#[cfg(test)]
mod tests {
    use noise_common::store::StoredEvent;

    use super::*;

    fn events(part: u8, times: &[u64]) -> AnswerItem {
        let event = |time_ns: &u64| StoredEvent { time_ns: *time_ns, ..StoredEvent::default() };
        let place = ItemPlace { cpu: 0, part };
        AnswerItem::Events { place, first: 0, events: times.iter().map(event).collect() }
    }

    fn missing(part: u8) -> AnswerItem {
        AnswerItem::Missing { place: ItemPlace { cpu: 0, part }, first: 0, count: 1 }
    }

    #[test]
    fn what_lies_before_a_ring_and_within_it_is_unseen() {
        let mut unseen = Unseen::default();
        let part = |complete_from_ns| AnswerItem::Part {
            place: ItemPlace::default(),
            complete_from_ns,
            classes: 0,
            store: 0,
        };
        [part(0), part(100), part(50)].iter().for_each(|item| unseen.note(item));
        [events(0, &[100, 200]), missing(0), events(1, &[150]), events(0, &[300, 400]), missing(1)]
            .iter()
            .for_each(|item| unseen.note(item));
        let gaps = unseen.finish();
        assert_eq!(gaps.0, [(0, 100), (150, u64::MAX)]);
        assert_eq!(gaps.end_within(20, 30), Some(100));
        assert_eq!((gaps.end_within(100, 150), gaps.end_within(120, 500)), (None, Some(u64::MAX)));
    }

    #[test]
    fn of_too_many_the_oldest_are_one() {
        let mut unseen = Unseen::default();
        (0..5 * MOST_GAPS as u64).for_each(|at| unseen.add(10 * at, 10 * at + 5));
        let Gaps(gaps) = unseen.finish();
        assert_eq!(gaps.len(), MOST_GAPS);
        assert_eq!(
            (gaps[0].0, gaps.last()),
            (0, Some(&(50 * MOST_GAPS as u64 - 10, 50 * MOST_GAPS as u64 - 5)))
        );
    }
}
