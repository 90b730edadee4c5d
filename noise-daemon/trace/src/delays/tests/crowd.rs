//! So many threads that delay each other that not all pairs of them can be kept.

use super::super::document::DelaysDocument;
use super::super::sums::MOST_PARTIES;
use super::{culprits, document, switch, wakeup};
use crate::event::{LostEvents, TraceKind};

/// Each thread waits while all the others run, 1 ns each, so many times; three sums hold each pair.
fn crowd(threads: i32, times: i32) -> DelaysDocument {
    let turns = 0..threads * times;
    let turn = |turn: i32| (turn % threads + 1, (turn + 1) % threads + 1);
    let events = turns.map(|at| {
        let (prev, next) = turn(at);
        (u64::from(at.unsigned_abs()), 0, switch(prev, 0, next))
    });
    document(&events.collect::<Vec<_>>())
}

/// It takes minutes if each loss looks at all threads.
#[test]
fn losses_are_cheap_however_many_threads_wait() {
    let many = 50_000;
    let wakeups = (1..=many).map(|at| (at, 0, wakeup(at as i32, 0)));
    let losses = (0..many).map(|number| {
        let at = 2 * (many + number);
        let lost = LostEvents { events: 1, packets: 0, from_ns: at, to_ns: at + 1 };
        (at, number as u32 % 3, TraceKind::Lost(lost))
    });
    let end = (4 * many, 0, switch(0, 0, 9));
    let document = document(&wakeups.chain(losses).chain([end]).collect::<Vec<_>>());
    assert_eq!(document.discarded, many);
}

#[test]
fn culprits_have_a_bound_and_no_time_is_lost_by_it() {
    let document = crowd(900, 2);
    const { assert!(900 * 899 * 3 > MOST_PARTIES) };
    let parties = document.threads.iter().map(|thread| {
        let of_both = thread.culprits.len() + thread.culprits_following_migrations.len();
        of_both + thread.charges.len()
    });
    let parties: usize = parties.sum();
    // A wait that is counted when there is room may bring its own.
    assert!((MOST_PARTIES / 4 * 3..=MOST_PARTIES + 4 * 900).contains(&parties), "{parties}");
    for thread in &document.threads {
        let waited_ns = thread.waits.preempt.sum_ns;
        let of_culprits: u64 = thread.culprits.iter().map(|one| one.ns).sum();
        let of_charges: u64 = thread.charges.iter().map(|one| one.ns).sum();
        assert_eq!((of_culprits, of_charges), (waited_ns, waited_ns), "{}", thread.tid);
    }
    assert!(document.untracked_ns > 0);
    // Waits that are short of it are counted as before.
    let few = crowd(90, 3);
    assert_eq!(culprits(&few, 50).len(), 89);
    assert!(few.untracked_ns <= 90 * 90, "what came before the first switch");
}
