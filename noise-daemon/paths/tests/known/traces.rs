//! Real traces, and the critical paths that they are known to have.

use std::collections::BTreeMap;

use noise_paths::build::{Builder, Waker};
use noise_paths::graph::{Graph, Who, WorkerId};
use noise_paths::path::{Path, Step};
use noise_paths::state::State;
use noise_paths::walk::{Bounds, walk};
use noise_trace::what::What;

use crate::drawn::number;
use crate::files::Trace;

fn graph(trace: &Trace) -> Graph {
    let waking = trace.layout.has(What::SchedWaking);
    let mut builder = Builder::new(if waking { Waker::Waking } else { Waker::Wakeup });
    for record in trace.reader() {
        builder.follow(&record.event());
    }
    builder.finish()
}

/// As the file calls what a step is.
fn name(step: &Step) -> &'static str {
    match step {
        Step::Go { .. } => "DEFAULT",
        Step::Stay { state, depth, .. } => match state {
            State::Running => "RUNNING",
            State::WaitingCpu => "PREEMPTED",
            State::Disk => "BLOCK_DEVICE",
            State::Timer => "TIMER",
            State::Network => "NETWORK",
            State::Blocked if *depth == 0 => "BLOCKED",
            State::Unknown if *depth <= 1 => "UNKNOWN",
            State::Created|State::Interrupt => "UNKNOWN",
            _ => "DEFAULT",
        },
    }
}

fn totals(path: &Path) -> BTreeMap<&'static str, u64> {
    let mut totals = BTreeMap::new();
    for step in path.steps.iter().filter(|step| step.ns() > 0) {
        *totals.entry(name(step)).or_default() += step.ns();
    }
    totals
}

fn tid(graph: &Graph, id: WorkerId) -> i32 {
    match graph.get(id).unwrap().who {
        Who::Thread { tid, .. } => tid,
        Who::Idle { .. } | Who::Kernel { .. } => 0,
    }
}

/// All paths that the file has.
pub fn paths(trace: &Trace) {
    let graph = graph(trace);
    for (thread, expected) in trace.expected["critical_paths"].as_object().unwrap() {
        let wanted: i32 = thread.parse().unwrap();
        let ids: Vec<_> = graph.workers().map(|(id, _)| id).filter(|id| tid(&graph, *id) == wanted).collect();
        let [id] = ids[..] else { panic!("{} threads have the id {wanted}", ids.len()) };
        let path = {let (a,b)=graph.get(id).unwrap().life().unwrap(); walk(&graph, id, a,b, Bounds::default()).unwrap()};
        let (from_ns, to_ns) = graph.get(id).unwrap().life().unwrap();
        assert_eq!(path.fault(id, from_ns, to_ns), None);
        let stays = path.steps.iter().filter(|step| matches!(step, Step::Stay { .. }));
        println!("{thread}: {:?}", totals(&path));
        println!("   expected {}", expected["ns"]);
        println!(
            "   workers {} of {}, graph {} of {}, segments {} of {} (all {}, nonzero {}), span {} of {}, leave {:?} of {}",
            path.workers().len(), expected["workers"],
            graph.workers().count(), expected["graph_workers"],
            stays.clone().count(), expected["segments"], path.steps.len(),
            stays.filter(|step| step.ns() > 0).count(),
            to_ns - from_ns, expected["span"],
            path.first_leave().map(|step| (tid(&graph, step.last()), step.span())), expected["first_leaves_to"],
        );
        if std::env::var_os("DUMP").is_some() { for step in &path.steps { match step {
            Step::Stay{worker,from_ns,to_ns,state,why,depth,cpu,..} => println!("S {wanted} {} {} {} {} {state:?} {why:?} {depth} {cpu}", tid(&graph,*worker), graph.get(*worker).unwrap().comm, from_ns%10000000000, to_ns-from_ns),
            Step::Go{from,to,from_ns,to_ns,action} => println!("G {wanted} {} {} {} {} {action:?}", tid(&graph,*from), tid(&graph,*to), from_ns%10000000000, to_ns-from_ns),
        }}}
        println!("first {:?}", graph.get(id).unwrap().points().take(3).collect::<Vec<_>>());
        let _ = number(&expected["span"]);
    }
}
