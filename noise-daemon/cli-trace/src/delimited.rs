//! Executions between two delimiters. They are walked once they are over, so that what all threads did before those that are
//! under way need not be held.

use noise_paths::build::Builder;
use noise_paths::document::Delimiters;
use noise_paths::execution::{Execution, Finder};
use noise_paths::graph::{Graph, Worker, WorkerId};
use noise_paths::path::{Path, Step};
use noise_paths::walk::Walks;

use super::asked::Sought;

/// Up to so many parts, and points that were looked at, executions are walked before the end: half of what there may be in all,
/// since those behind must not be worse off.
const MAX_PARTS: usize = if cfg!(test) { 500 } else { 1 << 21 };
const MAX_POINTS: u64 = 1 << 25;

/// An execution with its key, and what its path is where that was walked before.
pub type FoundExecution = (Execution, Option<String>, Option<Option<Path>>);

/// The executions between two delimiters, and the delimiters that make none. `walked` are the paths of those that were over
/// first.
pub fn delimited(
    builder: &mut Builder,
    sought: &Sought<'_>,
    finder: Finder,
    mut walked: Vec<Option<Path>>,
) -> (Vec<FoundExecution>, Option<Delimiters>) {
    let (found, tally) = finder.finish(builder.graph());
    let mut all = Vec::new();
    for found in found {
        if let Some(path) = found.number.and_then(|number| walked.get_mut(number)) {
            all.push((found.execution, found.key, Some(path.take())));
            continue;
        }
        let Execution { worker, to_ns, .. } = found.execution;
        // It runs on, and no event of it may follow.
        let last_ns = builder.graph().get(worker).and_then(Worker::span).map_or(0, |(_, ns)| ns);
        if last_ns < to_ns {
            builder.until(worker, to_ns);
        }
        all.push((found.execution, found.key, None));
    }
    (all, Some(Delimiters { name: sought.name.to_owned(), tally }))
}

/// Paths of executions between two delimiters.
#[derive(Debug, Default)]
pub struct WalkedExecutions {
    /// Of the first ones that are over.
    paths: Vec<Option<Path>>,
    parts: usize,
    points: u64,
    /// See [`Finder::is_by_packets`].
    is_by_packets: bool,
    /// Workers on these paths: who they are is asked in the end.
    new: Vec<WorkerId>,
}

impl WalkedExecutions {
    /// Walks those that are over. Since when the graph is still needed; `None`: all of it is.
    pub fn walk(
        &mut self,
        graph: &Graph,
        finder: &mut Finder,
        now_ns: u64,
        walks: &mut Walks,
    ) -> Option<u64> {
        // What calls say counts for nothing once there are packets, which are later.
        if std::mem::replace(&mut self.is_by_packets, finder.is_by_packets())
            != finder.is_by_packets()
        {
            self.paths.clear();
        }
        let needed_ns = finder.needed_ns(now_ns);
        let over = finder.over(graph);
        while let Some(of) = over.get(self.paths.len()) {
            let Execution { worker, from_ns, to_ns, .. } = of.execution;
            if self.parts >= MAX_PARTS || self.points >= MAX_POINTS {
                return None;
            }
            // What its thread does at the end of it is known behind that.
            let last_ns = graph.get(worker).and_then(Worker::span).map_or(0, |(_, ns)| ns);
            if last_ns <= to_ns {
                break;
            }
            let path = walks.walk(graph, worker, from_ns, to_ns);
            self.new.push(worker);
            if let Some(path) = &path {
                let through = path.steps.iter().filter_map(Step::through);
                self.new.extend(path.workers().into_iter().chain(through));
                self.parts = self.parts.saturating_add(path.steps.len());
                self.points = self.points.saturating_add(path.looked_at);
            }
            self.paths.push(path);
        }
        let left = over.get(self.paths.len()..).unwrap_or_default();
        let left = left.iter().map(|of| of.execution.from_ns).min().unwrap_or(u64::MAX);
        Some(left.min(needed_ns))
    }

    /// Workers that are on the paths since this was asked last.
    pub fn new_workers(&mut self) -> impl Iterator<Item = WorkerId> {
        self.new.drain(..)
    }

    /// The paths of the first executions, in their order; none of one that has none.
    pub fn into_paths(self) -> Vec<Option<Path>> {
        self.paths
    }
}

#[cfg(test)]
mod tests {
    use noise_paths::execution::Wanted;
    use noise_paths::feed;
    use noise_trace::event::TraceKind;
    use noise_trace::fixtures::{ASLEEP, MadeEvent, switch, waking};
    use noise_trace::record::Record;

    use super::*;

    /// An event of a call of thread 5 about the socket of that number.
    fn call(name: &'static str, id: i64, numbers: &[(&'static str, i64)]) -> MadeEvent {
        let own = [("noised_tid", 5), ("noised_object", 1), ("noised_id", id)];
        MadeEvent::other(name, [&own, numbers].concat().leak())
    }

    fn enters(name: &'static str) -> MadeEvent {
        call(name, 9, &[("noised_peer", 80 << 16 | 4_000), ("fd", 3)])
    }

    fn leaves(name: &'static str, ret: i64, place: i64) -> MadeEvent {
        call(name, 9, &[("noised_peer", 0), ("ret", ret), ("noised_position", place)])
    }

    /// How an execution begins and ends.
    fn delimiters(wanted: &Wanted, number: u64) -> Vec<(u64, MadeEvent)> {
        match wanted {
            Wanted::Request(_) => vec![
                (8, enters("syscall_entry_read")),
                (10, leaves("syscall_exit_read", 10, 10 * number as i64)),
                (88, enters("syscall_entry_sendto")),
                (90, leaves("syscall_exit_sendto", 100, 100 * number as i64)),
            ],
            Wanted::Connection(_) => {
                let numbers = &[("inode", 9), ("local_port", 80), ("remote_port", 4_000)];
                let texts = &[("local_address", "10.0.0.1"), ("remote_address", "10.0.0.2")];
                vec![
                    (8, call("syscall_entry_accept4", 1, &[("noised_peer", 80 << 16)])),
                    (9, MadeEvent { texts, ..MadeEvent::other("noised_connection", numbers) }),
                    (10, leaves("syscall_exit_accept4", 4, 0)),
                    (88, enters("syscall_entry_close")),
                    (90, leaves("syscall_exit_close", 0, 0)),
                ]
            }
            _ => vec![(10, MadeEvent::other("begin", &[])), (90, MadeEvent::other("end", &[]))],
        }
    }

    /// Thread 5 asks thread 6 for each of so many executions, while threads 7 and 8 take turns on another CPU.
    fn recording(wanted: &Wanted, count: u64) -> Vec<Record<MadeEvent>> {
        let mut events = Vec::new();
        for number in 0..count {
            let at = 1_000_000 + 1_000 * number;
            let of = |cpu, kind: TraceKind<'static>| (cpu, MadeEvent::new("", kind));
            let mut all = vec![
                (0, of(0, switch(0, 0, 5))),
                (20, of(0, waking(6))),
                (30, of(0, switch(5, ASLEEP, 6))),
                (40, of(1, switch(8, ASLEEP, 7))),
                (50, of(1, waking(8))),
                (60, of(1, switch(7, ASLEEP, 8))),
                (65, of(1, waking(7))),
                (70, of(0, waking(5))),
                (80, of(0, switch(6, ASLEEP, 5))),
                (99, of(0, switch(5, ASLEEP, 0))),
            ];
            let edges = delimiters(wanted, number).into_iter();
            all.extend(edges.map(|(more, event)| (more, (0, event))));
            all.sort_by_key(|(more, _)| *more);
            let made =
                all.into_iter().map(|(more, (cpu, event))| Record::new(at + more, cpu, event));
            events.extend(made);
        }
        events
    }

    /// The executions, each with its path, and how many points are held at most.
    fn walked(name: &str, count: u64, forgets: bool) -> (Vec<(u64, u64, Option<Path>)>, usize) {
        let wanted: Wanted = name.parse().unwrap();
        let mut finder = Finder::new(&wanted, 0).unwrap();
        let (mut builder, mut walks) = (Builder::default(), Walks::default());
        let (mut walked, mut most) = (WalkedExecutions::default(), 0);
        for (number, record) in recording(&wanted, count).iter().enumerate() {
            let event = record.event();
            feed::follow(&mut builder, 0, record, &event);
            finder.follow(record, &event, &builder);
            if number % 16 == 15 && forgets {
                let needed_ns =
                    walked.walk(builder.graph(), &mut finder, event.time_ns, &mut walks).unwrap();
                builder.keep(walked.new_workers());
                builder.forget_before(needed_ns);
            }
            most = most.max(builder.graph().points());
        }
        let sought = Sought { name, wanted: &wanted, from_ns: None, to_ns: None };
        let (found, _) = delimited(&mut builder, &sought, finder, walked.into_paths());
        let path = |(execution, _, path): FoundExecution| {
            let Execution { worker, from_ns, to_ns, .. } = execution;
            let walk = || walks.walk(builder.graph(), worker, from_ns, to_ns);
            (from_ns, to_ns, path.unwrap_or_else(walk))
        };
        (found.into_iter().map(path).collect(), most)
    }

    #[test]
    fn memory_does_not_grow_with_executions_that_are_over() {
        for name in ["event:begin..end", "request:80", "connection:80"] {
            let (all, most_of_all) = walked(name, 60, false);
            let (found, most) = walked(name, 60, true);
            assert_eq!(found, all, "{name}");
            // Whether more of the answer to the last request comes is not known.
            let count = if name.starts_with("request") { 59 } else { 60 };
            assert_eq!(found.len(), count, "{name}");
            let paths = found.iter().filter_map(|(.., path)| path.as_ref());
            assert_eq!(paths.filter(|path| path.workers().len() == 2).count(), count, "{name}");
            let (_, most_of_few) = walked(name, 20, true);
            assert!(most <= most_of_few + 4, "{name}: {most} of 60, {most_of_few} of 20");
            assert!(most_of_all > 4 * most, "{name}: {most_of_all} if none are forgotten, {most}");
        }
    }
}
