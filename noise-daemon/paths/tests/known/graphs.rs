//! Small graphs and the paths in them.

use std::collections::BTreeMap;

use noise_paths::graph::{Graph, NO_CPU, PointPlace, WorkerId};
use noise_paths::via::Via;
use noise_paths::walk::{Bounds, walk};
use noise_trace::event::Comm;
use serde_json::Value;

use crate::drawn::{self, Picture, expected_totals, nameless, number, text, totals};

/// The number of cases that the file has.
const CASES: usize = 12;

pub fn all(cases: &Value) {
    let cases = cases["graph_cases"].as_array().unwrap();
    assert_eq!(cases.len(), CASES);
    for case in cases {
        one(case);
    }
}

fn one(case: &Value) {
    let name = &case["name"];
    let (graph, names) = graph(&case["graph"]);
    assert_eq!(
        Picture::of_graph(&graph, &names).intervals,
        Picture::expected(&case["graph"]).intervals
    );
    let (start, _) = names.iter().find(|(_, name)| **name == case["start"]).unwrap();
    let path = walk(&graph, *start, 0, u64::MAX, Bounds::default()).unwrap();
    let (from_ns, to_ns) = graph.get(*start).unwrap().span().unwrap();
    assert_eq!(path.fault(*start, from_ns, to_ns), None, "{name}");
    assert_eq!(Picture::of_path(&path, &graph, &names), Picture::expected(&case["path"]), "{name}");
    assert_eq!(totals(&path), expected_totals(&case["path_totals"]), "{name}");
    assert_eq!(path.cut, 0, "{name}");
}

/// A graph with the names of its workers.
fn graph(drawn: &Value) -> (Graph, BTreeMap<WorkerId, String>) {
    let mut graph = Graph::default();
    let mut ids: BTreeMap<String, WorkerId> = BTreeMap::new();
    let mut places: BTreeMap<(String, u64), PointPlace> = BTreeMap::new();
    let none = Vec::new();
    let list = |list: &str| drawn[list].as_array().unwrap_or(&none).clone();
    let mut worker = |graph: &mut Graph, name: &str| {
        let count = ids.len();
        let new = || graph.add(nameless(count), Comm::new(name.as_bytes()));
        *ids.entry(name.to_owned()).or_insert_with(new)
    };
    let mut point = |graph: &mut Graph, id, name: &str, time_ns, state| {
        let new = || graph.append(id, time_ns, state, NO_CPU);
        *places.entry((name.to_owned(), time_ns)).or_insert_with(new)
    };
    for interval in list("intervals") {
        let (name, state) = (text(&interval[0]), drawn::state(interval[3].as_str().unwrap()));
        let id = worker(&mut graph, &name);
        point(&mut graph, id, &name, number(&interval[1]), None);
        point(&mut graph, id, &name, number(&interval[2]), Some(state));
    }
    for lone in list("lone_points") {
        let name = text(&lone[0]);
        let id = worker(&mut graph, &name);
        point(&mut graph, id, &name, number(&lone[1]), None);
    }
    for link in list("links") {
        let mut end = |at: usize| {
            let name = text(&link[at]);
            let id = worker(&mut graph, &name);
            point(&mut graph, id, &name, number(&link[at + 1]), None)
        };
        let (from, to) = (end(0), end(2));
        graph.link(from, to, drawn::action(link[4].as_str().unwrap()), Via::default());
    }
    let names = ids.into_iter().map(|(name, id)| (id, name)).collect();
    (graph, names)
}
