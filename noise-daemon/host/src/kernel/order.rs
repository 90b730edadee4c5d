//! The order in which hooks are attached.
//!
//! That is done one after the other, and the programs run meanwhile. What is stored for a hook that
//! comes later would be mistaken for what it finds then: a task that was woken, ran and fell asleep again
//! unseen would have waited for all of its sleep.

use noise_common::hooks::Hook;

/// These hooks, each behind all of them that it awaits: an interval is either seen from its begin to
/// its end, or not begun. Otherwise from the last to the first.
pub fn ends_first(hooks: &[Hook]) -> Vec<Hook> {
    let mut waiting: Vec<Hook> = hooks.iter().rev().copied().collect();
    let mut order = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let before = order.len();
        let mut later = Vec::new();
        for hook in &waiting {
            let is_early = |end: &Hook| hooks.contains(end) && !order.contains(end);
            if hook.awaits().iter().any(is_early) {
                later.push(*hook);
            } else {
                order.push(*hook);
            }
        }
        if order.len() == before {
            // Hooks that await each other; a test of the table rules that out.
            order.append(&mut later);
        }
        waiting = later;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use noise_common::hooks::HOOKS;
    use std::collections::BTreeSet;

    #[test]
    fn every_end_comes_before_its_begin() {
        let watched: Vec<Hook> = HOOKS.into_iter().filter(|hook| hook.is_watched()).collect();
        for hooks in [HOOKS.as_slice(), &watched] {
            let order = ends_first(hooks);
            let place = |hook: Hook| order.iter().position(|other| *other == hook);
            assert_eq!(order.len(), hooks.len());
            assert_eq!(order.iter().collect::<BTreeSet<_>>(), hooks.iter().collect());
            for hook in hooks {
                for end in hook.awaits().iter().filter(|end| hooks.contains(end)) {
                    assert!(place(*end) < place(*hook), "{hook:?} before {end:?}");
                }
            }
        }
        let order = ends_first(&HOOKS);
        let place = |hook| order.iter().position(|other| *other == hook).unwrap();
        // The pairs that were wrong once.
        assert!(place(Hook::SchedSwitch) < place(Hook::SchedWakeup));
        assert!(place(Hook::SchedSwitch) < place(Hook::SchedWakeupNew));
        assert!(place(Hook::SchedWaking) < place(Hook::NetReceive));
    }
}
