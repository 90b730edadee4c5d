//! Waits that have culprits, as executions that [`Blame`](crate::blame::Blame) takes.

use std::collections::BTreeMap;

use crate::document::{Segment, Traced};
use crate::graph::{Graph, Who};
use crate::held::Sleep;
use crate::state::State;

/// A part that has culprits.
pub fn segment(
    tid: i32,
    cpu: Option<u32>,
    state: &'static str,
    from_ns: u64,
    to_ns: u64,
) -> Segment {
    Segment { tid, cpu, state, from_ns, to_ns, ..Segment::default() }
}

/// Such parts of one thread.
pub fn execution(tid: i32, comm: String, from_ns: u64, to_ns: u64, path: Vec<Segment>) -> Traced {
    let span_ns = to_ns.saturating_sub(from_ns);
    Traced { tid, comm, from_ns, to_ns, span_ns, path, ..Traced::default() }
}

/// What threads waited for disks while others slept until they woke them, one execution for each of these sleeps.
pub fn disk_waits<'s>(graph: &Graph, sleeps: impl Iterator<Item = &'s Sleep>) -> Vec<Traced> {
    let mut by_waker: BTreeMap<i32, Vec<&Sleep>> = BTreeMap::new();
    for sleep in sleeps {
        by_waker.entry(sleep.waker).or_default().push(sleep);
    }
    let mut found = Vec::new();
    for (_, worker) in graph.workers().filter(|_| !by_waker.is_empty()) {
        let Who::Thread { tid, .. } = worker.who else { continue };
        let Some(sleeps) = by_waker.get(&tid) else { continue };
        let ends = worker.points().skip(1);
        let waits: Vec<(u64, u64)> = worker
            .points()
            .zip(ends)
            .filter(|(_, end)| end.state == Some(State::Disk))
            .map(|(begin, end)| (begin.time_ns, end.time_ns))
            .collect();
        for sleep in sleeps {
            let first = waits.partition_point(|(_, to_ns)| *to_ns <= sleep.from_ns);
            let meanwhile = waits.iter().skip(first);
            let path: Vec<Segment> = meanwhile
                .take_while(|(from_ns, _)| *from_ns < sleep.to_ns)
                .map(|(from_ns, to_ns)| {
                    let (from_ns, to_ns) =
                        ((*from_ns).max(sleep.from_ns), (*to_ns).min(sleep.to_ns));
                    segment(tid, None, State::Disk.name(), from_ns, to_ns)
                })
                .collect();
            if !path.is_empty() {
                let comm = worker.comm.to_string();
                found.push(execution(tid, comm, sleep.from_ns, sleep.to_ns, path));
            }
        }
    }
    found
}
