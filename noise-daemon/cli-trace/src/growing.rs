//! Paths that grow while the events pass: what all threads did before the part at hand need not be held.
//!
//! Only of threads and of processes by their ids: which processes will have a name in the end is not known before.

use std::collections::{HashMap, HashSet};

use noise_paths::execution::{Execution, Wanted};
use noise_paths::graph::{Graph, Worker, WorkerId};
use noise_paths::path::{Path, Step};
use noise_paths::walk::{Bounds, Walks};
use noise_trace::select::ThreadOrProcess;

/// An execution's path so far.
#[derive(Debug)]
struct Grown {
    execution: Execution,
    path: Path,
    /// How far it goes.
    done_ns: u64,
}

/// The paths of one kind of executions.
#[derive(Debug, Default)]
pub struct Growing {
    all: HashMap<WorkerId, Grown>,
    /// Workers that came onto them: who they are is asked in the end.
    new: Vec<WorkerId>,
}

impl Growing {
    /// Those of these executions, if they can grow.
    pub fn of(wanted: &Wanted) -> Option<Self> {
        let is_by_id =
            matches!(wanted, Wanted::Thread(_) | Wanted::Process(ThreadOrProcess::Id(_)));
        is_by_id.then(Self::default)
    }

    /// Walks on, to the end of what is known of these executions. Since when the graph is still needed: up to there, all is walked.
    pub fn grow(&mut self, graph: &Graph, executions: &[Execution], walks: &mut Walks) -> u64 {
        let is_there = |id: WorkerId| graph.get(id).and_then(Worker::span).is_some();
        let found: HashSet<WorkerId> =
            executions.iter().map(|execution| execution.worker).collect();
        // What became another one by its end is none of them.
        self.all.retain(|id, _| found.contains(id) || !is_there(*id));
        let mut needed_ns = u64::MAX;
        for execution in executions {
            let done_ns = self.walk(graph, execution, walks);
            if graph.get(execution.worker).is_some_and(|worker| !worker.is_gone()) {
                needed_ns = needed_ns.min(done_ns);
            }
        }
        needed_ns
    }

    /// Walks on to the end of an execution; how far the path goes.
    fn walk(&mut self, graph: &Graph, execution: &Execution, walks: &mut Walks) -> u64 {
        let Execution { worker, from_ns, to_ns, .. } = *execution;
        let new = || Grown { execution: *execution, path: Path::default(), done_ns: from_ns };
        let grown = self.all.entry(worker).or_insert_with(new);
        if grown.execution.from_ns != from_ns {
            *grown = new();
        }
        grown.execution = *execution;
        if to_ns > grown.done_ns {
            let left = Bounds::default().points.saturating_sub(grown.path.looked_at);
            if let Some(more) = walks.walk_within(graph, worker, (grown.done_ns, to_ns), left) {
                let through = more.steps.iter().filter_map(Step::through);
                self.new.extend(more.workers().into_iter().chain(through));
                grown.path.go_on(more);
                grown.done_ns = to_ns;
            }
        }
        grown.done_ns
    }

    /// Workers that are on the paths since this was asked last.
    pub fn new_workers(&mut self) -> impl Iterator<Item = WorkerId> {
        self.new.drain(..)
    }

    /// Executions of which nothing is left in the graph.
    pub fn gone(&self, graph: &Graph) -> Vec<Execution> {
        let is_there = |id: WorkerId| graph.get(id).and_then(Worker::span).is_some();
        let gone = self.all.values().filter(|grown| !is_there(grown.execution.worker));
        gone.map(|grown| grown.execution).collect()
    }

    /// The whole path of an execution, if it is one of them.
    pub fn finish(
        &mut self,
        graph: &Graph,
        execution: &Execution,
        walks: &mut Walks,
    ) -> Option<Path> {
        self.walk(graph, execution, walks);
        let path = self.all.remove(&execution.worker)?.path;
        (!path.steps.is_empty()).then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use noise_paths::graph::Who;
    use noise_trace::event::Comm;

    use super::*;

    #[test]
    fn the_threads_of_a_process_are_found_again_however_many_they_are() {
        let mut graph = Graph::default();
        let execution = |tid| {
            let worker = graph.add(Who::Thread { machine: 0, tid }, Comm::default());
            Execution { worker, from_ns: 1, to_ns: 1, has_begin: true, has_end: true }
        };
        let executions: Vec<Execution> = (1..200_000).map(execution).collect();
        let mut growing = Growing::of(&Wanted::Process(ThreadOrProcess::Id(1))).unwrap();
        let mut walks = Walks::default();
        for _ in 0..3 {
            assert_eq!(growing.grow(&graph, &executions, &mut walks), 1);
            assert_eq!(growing.all.len(), executions.len());
        }
    }
}
