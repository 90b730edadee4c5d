//! Threads whose switches away are missing.

use super::*;

#[test]
fn who_left_unseen_once_is_not_said_to_wake_others() {
    let waker = |prev: i32| {
        let builder = built(&[
            (11, 1, switch(0, 0, 2)),
            (12, 1, switch(2, 1, 0)),
            (20, 0, switch(0, 0, 75)),
            // That is of 75, or of another one that runs there meanwhile.
            (30, 0, switch(prev, 1, 0)),
            (40, 0, switch(0, 0, 75)),
            (50, 0, waking(2)),
        ]);
        let id = builder.thread(0, 2).unwrap();
        builder.graph().get(id).unwrap().points().last().unwrap().link.is_some()
    };
    assert!(waker(75));
    assert!(!waker(8));
}
