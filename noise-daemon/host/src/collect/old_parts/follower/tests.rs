//! What a follower makes of copies that overlap, that have gaps, and that come in any order.

use noise_common::ledger::Forgotten;
use noise_common::store::event::Body;
use proptest::prelude::{any, prop_assert_eq, proptest};

use super::super::culprits::UNKNOWN;
use super::super::tests::switch;
use super::*;

/// A copy of events with numbers from `first` on, of a part of 256, when all before `wanted` had been read.
fn copy(wanted: u64, first: u64, events: &[StoredEvent]) -> Copied {
    let number =
        |(number, event): (u64, &StoredEvent)| StoredEvent { number: number as u32, ..*event };
    let events: Vec<StoredEvent> = (first..).zip(events).map(number).collect();
    Copied { wanted, first, capacity: 256, next: first + events.len() as u64, events }
}

/// Whom a follower takes for having run from 100 to 1,000, with the time that is not known last.
fn ran(follower: &mut Follower, culprits: &mut Culprits) -> (u64, u64) {
    follower.settle(u64::MAX, culprits);
    let mut shares = Vec::new();
    let part = Forgotten { since_ns: 100, end_ns: 1_000, left_ns: 900 };
    follower.history.divide(&part, &mut shares);
    let unknown_ns = shares[UNKNOWN as usize];
    (shares.iter().sum::<u64>() - unknown_ns, unknown_ns)
}

#[test]
fn nothing_is_known_from_where_events_are_missing_on() {
    let mut culprits = Culprits::default();
    let interrupter = Body::nmi(1, 900).stored(0);
    // Events of the first part were overwritten, one that interrupted a writer is still there.
    let mut follower = Follower::default();
    follower.take(0, &copy(0, 0, &[switch(5, 100), switch(6, 300)]), 0);
    follower.take(1, &copy(0, 0, &[interrupter]), 0);
    follower.take(0, &copy(2, 50, &[switch(7, 1_000)]), 0);
    assert_eq!(ran(&mut follower, &mut culprits), (200, 700));
    // The same, when what came before was settled: of that time nothing is missing.
    let mut follower = Follower::default();
    follower.take(0, &copy(0, 0, &[switch(5, 100), switch(6, 300)]), 0);
    follower.take(1, &copy(0, 0, &[Body::nmi(1, 400).stored(0), interrupter]), 0);
    follower.settle(500, &mut culprits);
    follower.take(0, &copy(2, 50, &[switch(7, 1_000)]), 0);
    assert_eq!(ran(&mut follower, &mut culprits), (299, 601));
}

#[test]
fn events_that_are_missing_at_the_end_of_a_copy_are_not_forgotten() {
    let mut culprits = Culprits::default();
    // All of the second copy was overwritten while it was made.
    let mut follower = Follower::default();
    follower.take(0, &copy(0, 0, &[switch(5, 100), switch(6, 300)]), 0);
    let overwritten = Copied { next: 259, ..copy(2, 2, &[switch(8, 400)]) };
    follower.take(0, &overwritten, 0);
    assert_eq!(overwritten.stretch().resume(), 3);
    follower.take(0, &copy(3, 3, &[switch(7, 1_000)]), 0);
    assert_eq!(ran(&mut follower, &mut culprits), (200, 700));
    // An event that is being written is there the next time.
    let mut follower = Follower::default();
    let mut unfinished = copy(0, 0, &[switch(5, 100), switch(6, 300)]);
    unfinished.events[1].number = 77;
    follower.take(0, &unfinished, 0);
    assert_eq!(unfinished.stretch().resume(), 1);
    follower.take(0, &copy(1, 1, &[switch(6, 300), switch(7, 1_000)]), 0);
    assert_eq!(ran(&mut follower, &mut culprits), (900, 0));
}

#[test]
fn a_follower_keeps_no_memory_for_what_was_settled() {
    let (mut follower, mut culprits) = (Follower::default(), Culprits::default());
    let events: Vec<StoredEvent> = (1..8_192).map(|at_ns| switch(5, at_ns)).collect();
    let copied = Copied { capacity: 8_192, ..copy(0, 0, &events) };
    follower.take(0, &copied, 0);
    follower.settle(8_000, &mut culprits);
    let room = follower.carried.capacity();
    assert!(room < 512, "room for {room} events");
    assert_eq!(follower.carried.len(), 192);
}

proptest! {
    /// However events are spread over the parts of a CPU, and whenever they are read: the turns are the same.
    #[test]
    fn events_are_taken_in_the_order_of_time(
        gaps in proptest::collection::vec((1u64..50, 0usize..PARTS, any::<bool>()), 1..200),
    ) {
        let (mut at_ns, mut tid) = (1_000, 0);
        let (mut direct, mut culprits) = (History::default(), Culprits::default());
        let mut follower = Follower::default();
        let mut parts: [Copied; PARTS] = Default::default();
        for (gap_ns, part, settles) in gaps {
            (at_ns, tid) = (at_ns + gap_ns, tid % 7 + 1);
            direct.follow(&switch(tid, at_ns), &mut culprits);
            let copied = &mut parts[part];
            let number = (copied.first + copied.events.len() as u64) as u32;
            copied.events.push(StoredEvent { number, ..switch(tid, at_ns) });
            if settles {
                for (part, copied) in parts.iter_mut().enumerate().rev() {
                    let next = copied.first + copied.events.len() as u64;
                    (copied.capacity, copied.next, copied.wanted) = (256, next, copied.first);
                    follower.take(part, copied, 0);
                    (copied.first, copied.events) = (next, Vec::new());
                }
                follower.settle(at_ns - gap_ns / 2, &mut culprits);
            }
        }
        for (part, copied) in parts.iter_mut().enumerate() {
            let next = copied.first + copied.events.len() as u64;
            (copied.capacity, copied.next, copied.wanted) = (256, next, copied.first);
            follower.take(part, copied, 0);
        }
        follower.settle(u64::MAX, &mut culprits);
        for since_ns in (1_000..at_ns).step_by(97) {
            let part = Forgotten { since_ns, end_ns: at_ns, left_ns: at_ns - since_ns };
            let (mut one, mut other) = (Vec::new(), Vec::new());
            direct.divide(&part, &mut one);
            follower.history.divide(&part, &mut other);
            prop_assert_eq!(one, other);
        }
    }
}
