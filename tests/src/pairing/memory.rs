//! `direct_reclaim` and `compaction`: from the beginning to the end in one task. Compaction by kernel
//! threads delays no task.

use std::collections::{BTreeSet, HashMap};

use super::{Paired, label};
use crate::ftrace::event::{Event, Kind};

fn task_times(events: &[Event], begins: impl Fn(&Event) -> Option<bool>) -> Paired {
    let mut since: HashMap<i32, u64> = HashMap::new();
    let mut paired = Paired::default();
    for event in events {
        match begins(event) {
            Some(true) => {
                since.insert(event.pid, event.time_ns);
            }
            Some(false) => {
                let start_ns = since.remove(&event.pid);
                paired.end(label(""), event.pid, event, start_ns);
            }
            None => {}
        }
    }
    paired
}

/// Reclaim by tasks themselves, for the host or for their cgroup.
pub fn direct_reclaim(events: &[Event]) -> Paired {
    task_times(events, |event| match event.kind {
        Kind::Reclaim { begins } => Some(begins),
        _ => None,
    })
}

/// Compaction by tasks themselves.
pub fn compaction(events: &[Event], kernel_threads: &BTreeSet<i32>) -> Paired {
    task_times(events, |event| match event.kind {
        Kind::Compaction { begins } if !kernel_threads.contains(&event.pid) => Some(begins),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{compaction, direct_reclaim};
    use crate::ftrace::event::{Event, Kind};
    use crate::pairing::testing::{at, brief};

    fn by(pid: i32, time: u64, kind: Kind) -> Event {
        Event { pid, ..at(time, 0, kind) }
    }

    #[test]
    fn tasks_reclaim_side_by_side() {
        let found = direct_reclaim(&[
            by(1, 10, Kind::Reclaim { begins: true }),
            by(2, 11, Kind::Reclaim { begins: true }),
            by(1, 15, Kind::Reclaim { begins: false }),
            by(2, 31, Kind::Reclaim { begins: false }),
            by(3, 40, Kind::Reclaim { begins: false }),
        ]);
        assert_eq!(brief(&found.samples), [("", "", 5, 0), ("", "", 20, 0)]);
        assert_eq!(found.orphans.len(), 1);
    }

    #[test]
    fn kernel_threads_compact_for_nobody() {
        let events = [
            by(1, 10, Kind::Compaction { begins: true }),
            by(9, 11, Kind::Compaction { begins: true }),
            by(9, 12, Kind::Compaction { begins: false }),
            by(1, 13, Kind::Compaction { begins: false }),
        ];
        let found = compaction(&events, &BTreeSet::from([9]));
        assert_eq!(brief(&found.samples), [("", "", 3, 0)]);
    }
}
