//! So many threads that delay each other that not all pairs of them can be kept.

use super::super::document::DelaysDocument;
use super::super::sums::MOST_PARTIES;
use super::{culprits, document, switch};

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
