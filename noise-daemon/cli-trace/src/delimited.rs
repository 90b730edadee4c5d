//! Executions between two delimiters. They are walked once they are over, so that what all threads did before those that are
//! under way need not be held. Which calls make a request is known only in the end.

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

/// The executions between two delimiters, and the delimiters that make none. `walked` are the paths of the first ones.
pub fn delimited(
    builder: &mut Builder,
    sought: &Sought<'_>,
    finder: Finder,
    walked: Vec<Option<Path>>,
) -> (Vec<FoundExecution>, Option<Delimiters>) {
    let (found, tally) = finder.finish(builder.graph());
    let mut all = Vec::new();
    let mut walked = walked.into_iter();
    for found in found {
        if let Some(path) = walked.next() {
            all.push((found.execution, found.key, Some(path)));
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
    /// Workers on these paths: who they are is asked in the end.
    new: Vec<WorkerId>,
}

impl WalkedExecutions {
    /// Walks those that are over, if that can be known before the end. Since when the graph is still needed; `None`: all
    /// of it is.
    pub fn walk(
        &mut self,
        graph: &Graph,
        finder: &Finder,
        now_ns: u64,
        walks: &mut Walks,
    ) -> Option<u64> {
        let over = finder.over()?;
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
        Some(left.min(finder.needed_ns(now_ns)))
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

    /// Thread 5 asks thread 6 for each of so many executions, while threads 7 and 8 take turns on another CPU.
    fn recording(count: u64) -> Vec<Record<MadeEvent>> {
        let mut events = Vec::new();
        for number in 0..count {
            let at = 1_000_000 + 1_000 * number;
            let of = |cpu, kind: TraceKind<'static>| (cpu, MadeEvent::new("", kind));
            let other = |name| (0, MadeEvent::other(name, &[]));
            for (more, (cpu, event)) in [
                (0, of(0, switch(0, 0, 5))),
                (10, other("begin")),
                (20, of(0, waking(6))),
                (30, of(0, switch(5, ASLEEP, 6))),
                (40, of(1, switch(8, ASLEEP, 7))),
                (50, of(1, waking(8))),
                (60, of(1, switch(7, ASLEEP, 8))),
                (65, of(1, waking(7))),
                (70, of(0, waking(5))),
                (80, of(0, switch(6, ASLEEP, 5))),
                (90, other("end")),
                (99, of(0, switch(5, ASLEEP, 0))),
            ] {
                events.push(Record::new(at + more, cpu, event));
            }
        }
        events
    }

    /// The paths of the executions, and how many points are held at most.
    fn walked(count: u64, forgets: bool) -> (Vec<Option<Path>>, usize) {
        let wanted: Wanted = "event:begin..end".parse().unwrap();
        let mut finder = Finder::new(&wanted, 0).unwrap();
        let (mut builder, mut walks) = (Builder::default(), Walks::default());
        let (mut walked, mut most) = (WalkedExecutions::default(), 0);
        for (number, record) in recording(count).iter().enumerate() {
            let event = record.event();
            feed::follow(&mut builder, 0, record, &event);
            finder.follow(record, &event, &builder);
            if number % 16 == 15 && forgets {
                let needed_ns =
                    walked.walk(builder.graph(), &finder, event.time_ns, &mut walks).unwrap();
                builder.keep(walked.new_workers());
                builder.forget_before(needed_ns);
            }
            most = most.max(builder.graph().points());
        }
        walked.walk(builder.graph(), &finder, u64::MAX, &mut walks);
        (walked.into_paths(), most)
    }

    #[test]
    fn memory_does_not_grow_with_executions_that_are_over() {
        let (all, most_of_all) = walked(60, false);
        let (paths, most) = walked(60, true);
        assert_eq!(paths, all);
        assert_eq!(paths.len(), 60);
        assert!(paths.iter().flatten().all(|path| path.workers().len() == 2));
        let (_, most_of_few) = walked(20, true);
        assert!(most <= most_of_few + 4, "{most} of 60, {most_of_few} of 20");
        assert!(most_of_all > 5 * most, "{most_of_all} if none are forgotten, {most}");
    }
}
