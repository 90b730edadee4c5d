//! Graphs and paths as the file of cases draws them: intervals, links and lone points, in any order.

use std::collections::{BTreeMap, BTreeSet};

use noise_paths::graph::{Graph, Who, WorkerId};
use noise_paths::path::{Path, Step};
use noise_paths::state::{Action, State};
use serde_json::Value;

/// What a worker does, from when until when, and through whom that ended.
pub type Interval = (String, u64, u64, &'static str, Option<String>);
/// From whom and when to whom and when.
pub type Drawn = (String, u64, String, u64, &'static str);

/// A graph or a path as the file has it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// States, in order.
    pub intervals: Vec<Interval>,
    /// Links, in order.
    pub links: Vec<Drawn>,
    /// Points at which no interval begins or ends.
    pub lone: BTreeSet<(String, u64)>,
}

/// As the file calls states.
pub fn state_name(state: State) -> &'static str {
    match state {
        State::WaitingCpu => "preempted",
        State::Blocked | State::Task | State::Futex => "blocked",
        other => other.name(),
    }
}

/// The state that the file calls so.
pub fn state(name: &str) -> State {
    match name {
        "running" => State::Running,
        "preempted" => State::WaitingCpu,
        "blocked" => State::Blocked,
        "network" => State::Network,
        "timer" => State::Timer,
        "unknown" => State::Unknown,
        other => panic!("the file has a state `{other}`"),
    }
}

/// As the file calls links.
pub fn action_name(action: Option<Action>) -> &'static str {
    match action {
        Some(Action::Sends) => "network",
        Some(Action::Times) => "timer",
        Some(Action::Wakes | Action::Ends | Action::Creates) | None => "default",
    }
}

/// The link that the file calls so.
pub fn action(name: &str) -> Action {
    match name {
        "default" => Action::Wakes,
        "network" => Action::Sends,
        "timer" => Action::Times,
        other => panic!("the file has a link `{other}`"),
    }
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

impl Picture {
    /// One of the file.
    pub fn expected(value: &Value) -> Self {
        let interval = |value: &Value| {
            let through = value[4].get("qualifier").map(text);
            let state = state_name(state(value[3].as_str().unwrap()));
            (text(&value[0]), number(&value[1]), number(&value[2]), state, through)
        };
        let link = |value: &Value| {
            let action = action_name(Some(action(value[4].as_str().unwrap())));
            (text(&value[0]), number(&value[1]), text(&value[2]), number(&value[3]), action)
        };
        let lone = |value: &Value| (text(&value[0]), number(&value[1]));
        let picture = Self {
            intervals: list(&value["intervals"]).iter().map(interval).collect(),
            links: list(&value["links"]).iter().map(link).collect(),
            lone: list(&value["lone_points"]).iter().map(lone).collect(),
        };
        picture.sorted()
    }

    pub fn of_graph(graph: &Graph, names: &BTreeMap<WorkerId, String>) -> Self {
        let mut picture = Self::default();
        for (id, worker) in graph.workers() {
            let mut before_ns = 0;
            for point in worker.points() {
                if let Some(state) = point.state {
                    let through = point.through.map(|id| graph.get(id).unwrap().comm.to_string());
                    let name = names[&id].clone();
                    picture.intervals.push((
                        name,
                        before_ns,
                        point.time_ns,
                        state_name(state),
                        through,
                    ));
                }
                if let Some(link) = point.link {
                    let (from, to) = (names[&link.from.worker].clone(), names[&id].clone());
                    let action = action_name(Some(link.action));
                    picture.links.push((from, link.time_ns, to, point.time_ns, action));
                }
                before_ns = point.time_ns;
            }
        }
        picture.sorted()
    }

    pub fn of_path(path: &Path, graph: &Graph, names: &BTreeMap<WorkerId, String>) -> Self {
        let mut picture = Self::default();
        let mut points = BTreeSet::new();
        for step in &path.steps {
            match step {
                Step::Stay { worker, from_ns, to_ns, state, through, .. } => {
                    let through = through.map(|id| graph.get(id).unwrap().comm.to_string());
                    let name = names[worker].clone();
                    picture.intervals.push((name, *from_ns, *to_ns, state_name(*state), through));
                }
                Step::Go { from, to, from_ns, to_ns, action, .. } => {
                    let (from, to) = (names[from].clone(), names[to].clone());
                    points.insert((from.clone(), *from_ns));
                    points.insert((to.clone(), *to_ns));
                    picture.links.push((from, *from_ns, to, *to_ns, action_name(*action)));
                }
            }
        }
        let is_lone = |point: &(String, u64)| {
            !picture.intervals.iter().any(|(name, from_ns, to_ns, ..)| {
                *name == point.0 && [*from_ns, *to_ns].contains(&point.1)
            })
        };
        points.retain(is_lone);
        Self { lone: points, ..picture }.sorted()
    }

    fn sorted(mut self) -> Self {
        self.intervals.sort();
        self.links.sort();
        self
    }
}

/// Time by state, links that take time as such.
pub fn totals(path: &Path) -> BTreeMap<String, u64> {
    let mut totals = BTreeMap::new();
    for step in path.steps.iter().filter(|step| step.ns() > 0) {
        let name = match step {
            Step::Stay { state, .. } => state_name(*state).to_owned(),
            Step::Go { action, .. } => format!("link {}", action_name(*action)),
        };
        *totals.entry(name).or_default() += step.ns();
    }
    totals
}

/// The totals of the file.
pub fn expected_totals(value: &Value) -> BTreeMap<String, u64> {
    value.as_object().unwrap().iter().map(|(name, ns)| (name.clone(), number(ns))).collect()
}

/// A worker of a drawn graph, which is no thread of anything.
pub fn nameless(number: usize) -> Who {
    Who::Thread { machine: 0, tid: i32::try_from(number).unwrap() + 1 }
}
