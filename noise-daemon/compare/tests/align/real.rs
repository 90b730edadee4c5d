//! Critical paths of a real trace: one process starts 8,000 short threads, one after another.

use std::cmp::Reverse;
use std::ops::Range;

use noise_compare::align::Symbol;
use noise_paths::build::{Builder, Waker};
use noise_paths::feed;
use noise_paths::graph::{Graph, Who, WorkerId};
use noise_paths::path::{Path, Step};
use noise_paths::state::STATES;
use noise_paths::walk::{Bounds, walk};
use noise_trace::record::Source as _;

use crate::files::Trace;
use crate::judge::Tallies;
use crate::others;

/// The thread that starts the others.
const PARENT: i32 = 2673;

fn path(graph: &Graph, id: WorkerId) -> Option<Path> {
    let (from_ns, to_ns) = graph.get(id)?.life()?;
    walk(graph, id, from_ns, to_ns, Bounds::default())
}

/// A state of the thread itself or of another, for each stretch of time; equal neighbours are one.
fn symbols<'a>(steps: impl IntoIterator<Item = &'a Step>, own: WorkerId) -> Vec<Symbol> {
    let symbol = |step: &Step| {
        let state = STATES.iter().position(|state| *state == step.state()).unwrap();
        (2 * state + usize::from(step.first() != own)) as Symbol
    };
    let steps = steps.into_iter().filter(|step| step.ns() > 0);
    let mut symbols: Vec<Symbol> = steps.map(symbol).collect();
    symbols.dedup();
    symbols
}

/// The parent's path in pieces, each of so many threads that it started and waited for.
fn pieces(path: &Path, own: WorkerId, threads: usize) -> Vec<Vec<Symbol>> {
    let mut pieces = Vec::new();
    let (mut begin, mut returns) = (0, 0);
    for (number, step) in path.steps.iter().enumerate() {
        returns += usize::from(matches!(step, Step::Go { to, .. } if *to == own));
        if returns == threads {
            pieces.push(symbols(&path.steps[begin..=number], own));
            (begin, returns) = (number + 1, 0);
        }
    }
    pieces
}

fn graph() -> Result<Graph, String> {
    let trace = Trace::read("many-threads")?;
    let mut builder = Builder::new(Waker::Waking);
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        feed::follow(&mut builder, 0, &record, &record.event());
    }
    Ok(builder.finish())
}

/// The paths of all threads that have so many symbols, the longest first.
fn paths(graph: &Graph, lengths: Range<usize>) -> Vec<Vec<Symbol>> {
    let mut paths: Vec<Vec<Symbol>> = graph
        .workers()
        .filter(|(_, worker)| matches!(worker.who, Who::Thread { .. }))
        .filter_map(|(id, _)| Some(symbols(&path(graph, id)?.steps, id)))
        .filter(|symbols| lengths.contains(&symbols.len()))
        .collect();
    paths.sort_by_key(|symbols| Reverse(symbols.len()));
    paths
}

/// Compares the longest paths, of about 9,000 symbols.
pub fn compared_long() -> Result<String, String> {
    if let Some(reason) = others::missing() {
        return Err(reason);
    }
    let paths = paths(&graph()?, 8500..9600);
    println!("{:?}", paths.iter().map(Vec::len).collect::<Vec<_>>());
    let mut tallies = Tallies::new(&others::ALL);
    tallies.compare("long-paths", &paths);
    Ok(tallies.judged())
}

/// Compares families of its paths with the others', or says why that cannot be done.
pub fn compared() -> Result<String, String> {
    if let Some(reason) = others::missing() {
        return Err(reason);
    }
    let graph = graph()?;
    let is_parent = |who: Who| matches!(who, Who::Thread { tid: PARENT, .. });
    let (parent, _) = graph.workers().find(|(_, worker)| is_parent(worker.who)).unwrap();
    let whole = path(&graph, parent).unwrap();
    let mut tallies = Tallies::new(&others::ALL);
    for threads in [5, 10, 20, 40] {
        let pieces = pieces(&whole, parent, threads);
        for part in pieces.chunks(24).step_by(4).take(3) {
            let first = part.as_ptr() as usize - pieces.as_ptr() as usize;
            tallies.compare(&format!("pieces-of-{threads}-from-{first}"), part);
        }
    }
    // The short threads whose paths have the most to them.
    let mut paths = paths(&graph, 2..20);
    paths.truncate(100);
    assert_eq!(paths.len(), 100);
    tallies.compare("a-hundred-threads", &paths);
    Ok(tallies.judged())
}
