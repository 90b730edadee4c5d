//! The slowdown for each granularity and number of nodes.

use super::node::{Node, Start};
use super::periodic::Periodic;
use super::play::{Game, Played, drawn, in_time};
use super::spread::any;

/// Most delays that are drawn for one line that is played: seconds of computing.
const AFFORDABLE: u64 = 20_000_000;

#[derive(Clone, Debug)]
pub struct Question {
    /// Lengths of phases, ns, above 0.
    pub granularities_ns: Vec<f64>,
    /// Numbers of nodes, above 0.
    pub nodes: Vec<u64>,
    /// Phases to play where that is affordable; 0 = none.
    pub phases: u32,
    /// Where chance begins in playing.
    pub seed: u64,
}

/// What phases of one length come to.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Forecast {
    /// Length of a phase, ns.
    pub granularity_ns: f64,
    /// Windows of this length that the measurement has, without overlap; beyond that many nodes its
    /// largest delay is too small. None = any number, of noise that was not measured.
    pub windows: Option<u64>,
    /// Slowdown that nodes without number approach; of periodic noise only.
    pub limit: Option<f64>,
    /// One for each number of nodes; none where the measurement is shorter than two phases.
    pub rows: Vec<ForecastRow>,
}

/// What one number of nodes comes to.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ForecastRow {
    pub nodes: u64,
    /// Nodes are hit independently, and phases begin while their node computes. None where its
    /// CPUs never computed all at once.
    pub running: Option<Scaled>,
    /// Nodes are hit independently, and phases begin at any time.
    pub anytime: Scaled,
    /// Slowdown where all nodes are hit at once, phases beginning while they compute.
    pub co_scheduled: Option<f64>,
    /// There are more nodes than windows: the independent slowdowns are lower bounds.
    pub lower_bound: bool,
    /// Phases that were played.
    pub played: Option<PlayedRow>,
}

/// Of nodes that are hit independently.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Scaled {
    /// Probability that a phase is delayed on any node.
    pub hit: f64,
    /// Expected delay of a phase over its length.
    pub slowdown: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct PlayedRow {
    pub running: Option<Played>,
    pub anytime: Option<Played>,
    /// Phases that follow one another on nodes whose noise goes on meanwhile.
    pub in_time: Option<Played>,
}

pub fn of_noise(node: &Node, question: &Question) -> Vec<Forecast> {
    let works = question.granularities_ns.iter();
    works.map(|&work_ns| of_granularity(node, work_ns, question)).collect()
}

/// Windows of this length that fit into the time at which a node's CPUs compute all at once, or
/// where there is none, into all of the time.
pub(super) fn windows(node: &Node, work_ns: f64) -> u64 {
    let running_ns = node.delays(work_ns, Start::Running).map(|delays| delays.observed_ns);
    (running_ns.unwrap_or(node.length()) / work_ns) as u64
}

fn of_granularity(node: &Node, work_ns: f64, question: &Question) -> Forecast {
    let running = node.delays(work_ns, Start::Running).map(|delays| delays.spread);
    let anytime = node.delays(work_ns, Start::Anytime).map(|delays| delays.spread);
    let windows = windows(node, work_ns);
    let mut forecast =
        Forecast { granularity_ns: work_ns, windows: Some(windows), limit: None, rows: Vec::new() };
    let Some(anytime) = anytime.filter(|_| windows >= 2) else { return forecast };
    let row = |&nodes: &u64| {
        let scaled = |spread: &super::spread::Spread| Scaled {
            hit: any(spread.hit(), nodes as f64),
            slowdown: spread.expected_largest(nodes) / work_ns,
        };
        ForecastRow {
            nodes,
            running: running.as_ref().map(scaled),
            anytime: scaled(&anytime),
            co_scheduled: running.as_ref().map(|spread| spread.expected_largest(1) / work_ns),
            lower_bound: nodes > windows,
            played: played(node, work_ns, nodes, question),
        }
    };
    forecast.rows = question.nodes.iter().map(row).collect();
    forecast
}

/// Of periodic noise; nothing where it leaves no time to compute.
pub fn of_periodic(periodic: &Periodic, question: &Question) -> Vec<Forecast> {
    let node = periodic.node();
    let forecast = |&work_ns: &f64| {
        let row = |&nodes: &u64| {
            let scaled = |start| Scaled {
                hit: any(periodic.hit(work_ns, start), nodes as f64),
                slowdown: periodic.slowdown(work_ns, nodes, start),
            };
            ForecastRow {
                nodes,
                running: Some(scaled(Start::Running)),
                anytime: scaled(Start::Anytime),
                co_scheduled: Some(periodic.co_scheduled()),
                lower_bound: false,
                played: node.as_ref().and_then(|node| played(node, work_ns, nodes, question)),
            }
        };
        Forecast {
            granularity_ns: work_ns,
            windows: None,
            limit: Some(periodic.limit(work_ns)),
            rows: question.nodes.iter().map(row).collect(),
        }
    };
    question.granularities_ns.iter().map(forecast).collect()
}

fn played(node: &Node, work_ns: f64, nodes: u64, question: &Question) -> Option<PlayedRow> {
    let cost = nodes.saturating_mul(node.cpus() as u64).saturating_mul(question.phases.into());
    if question.phases == 0 || cost > AFFORDABLE {
        return None;
    }
    let nodes = u32::try_from(nodes).ok()?;
    let game = Game { work_ns, nodes, phases: question.phases, seed: question.seed };
    Some(PlayedRow {
        running: drawn(node, Start::Running, game),
        anytime: drawn(node, Start::Anytime, game),
        in_time: in_time(node, game),
    })
}
