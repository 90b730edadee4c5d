//! Vectors of the threads of real traces: what clusters are found in, but for who traced it.

use noise_compare::kinds;
use noise_compare::stretches::stretches;
use noise_compare::vectors::Vectors;
use noise_paths::build::{Builder, Waker};
use noise_paths::document::traced;
use noise_paths::execution::Execution;
use noise_paths::feed;
use noise_paths::graph::{Graph, Who};
use noise_paths::walk::{Bounds, walk};
use noise_trace::record::Source as _;

use crate::files::Trace;
use crate::sets::Set;

/// How many threads of a trace are enough.
const THREADS: usize = 300;

/// The sets of both traces, or why there are none here.
pub fn sets() -> Result<Vec<Set>, String> {
    let traces = [("many-threads", Waker::Waking), ("bug446190", Waker::Wakeup)];
    let sets = traces.map(|(name, waker)| {
        let trace = Trace::read(name)?;
        let mut builder = Builder::new(waker);
        let mut reader = trace.reader();
        while let Some(record) = reader.read() {
            feed::follow(&mut builder, 0, &record, &record.event());
        }
        Ok(of(name, &vectors(&builder.finish())))
    });
    Ok(sets.into_iter().collect::<Result<Vec<_>, String>>()?.concat())
}

/// Those of threads from all over a trace.
fn vectors(graph: &Graph) -> Vec<Vectors> {
    let threads = graph.workers().filter(|(_, worker)| matches!(worker.who, Who::Thread { .. }));
    let executions: Vec<Execution> = threads
        .filter_map(|(id, worker)| {
            let (from_ns, to_ns) = worker.life()?;
            Some(Execution { worker: id, from_ns, to_ns, has_begin: true, has_end: true })
        })
        .collect();
    let path = |execution: &Execution| {
        let Execution { worker, from_ns, to_ns, .. } = *execution;
        let path = walk(graph, worker, from_ns, to_ns, Bounds::default())?;
        Some(Vectors::of(&stretches(&traced(graph, "thread", execution, &path))))
    };
    executions.iter().step_by(executions.len().div_ceil(THREADS)).filter_map(path).collect()
}

/// As executions are clustered, by their bare counts, and by their times in milliseconds.
fn of(name: &str, vectors: &[Vectors]) -> [Set; 3] {
    let points = kinds::points(vectors).unwrap();
    let counts = vectors.iter().flat_map(|vectors| vectors.counts.map(|count| count as f64));
    let times = vectors.iter().flat_map(|vectors| vectors.ns.map(|ns| ns as f64 / 1e6));
    let stretches = vectors.iter().map(|vectors| vectors.counts.iter().sum::<u64>().min(6));
    let labels: Vec<usize> = stretches.map(|stretches| stretches as usize).collect();
    let set = |what: &str, values: Vec<f64>| Set {
        name: format!("{what} of {} threads of {name}", vectors.len()),
        dimensions: points.dimensions(),
        values,
        labels: labels.clone(),
        min_points: 5,
        max_distance: f64::INFINITY,
    };
    [
        set("roots of counts", points.iter().flatten().copied().collect()),
        set("counts", counts.collect()),
        set("times", times.collect()),
    ]
}
