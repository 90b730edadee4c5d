//! Which source costs most here, and which costs most at scale.

use noise_text::units;

use super::forecast::windows;
use super::node::{Node, Start};
use super::trace::{Noise, Trace};
use crate::shares::SourceKey;

/// The sources, those first that cost most at scale.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Ranking {
    /// Length of a phase, ns.
    pub granularity_ns: f64,
    /// Numbers of nodes, one for each slowdown and gain of a source.
    pub nodes: Vec<u64>,
    /// Number of nodes that [`Ranked::rank_at_scale`] is for: the largest one that the measurement
    /// has windows for, or the smallest one.
    pub ranked_at_nodes: u64,
    /// Sources that cost anything.
    pub sources: Vec<Ranked>,
    /// Both winners in a sentence; None where nothing costs anything.
    pub sentence: Option<String>,
}

/// What one source costs. Phases begin while their node computes, and nodes are hit independently.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Ranked {
    #[serde(flatten)]
    pub key: SourceKey,
    /// Share of the CPUs' time that it takes, 0..=1.
    pub overhead: f64,
    /// Slowdown by this source alone, for each number of nodes.
    pub slowdown: Vec<f64>,
    /// By how much the slowdown would be less without this source, for each number of nodes. None
    /// where the CPUs never computed all at once.
    pub gain: Vec<Option<f64>>,
    /// 1 = takes most time here.
    pub rank_local: usize,
    /// 1 = slows most alone on [`Ranking::ranked_at_nodes`] nodes.
    pub rank_at_scale: usize,
}

/// Ranks the sources of a trace for phases of `work_ns`; `nodes` are above 0. None without nodes,
/// or where the measurement is shorter than two phases.
pub fn rank(trace: &Trace, work_ns: f64, nodes: &[u64]) -> Option<Ranking> {
    let all = trace.node(Noise::All)?;
    let windows = windows(&all, work_ns);
    let supported = nodes.iter().filter(|&&nodes| nodes <= windows).max();
    let ranked_at_nodes = *supported.or(nodes.iter().min())?;
    if windows < 2 {
        return None;
    }
    let slowed = |node: Node| -> Option<Vec<f64>> {
        let spread = node.delays(work_ns, Start::Running)?.spread;
        Some(nodes.iter().map(|&nodes| spread.expected_largest(nodes) / work_ns).collect())
    };
    let by_all = slowed(all);
    let mut sources = Vec::new();
    for (place, key) in trace.keys().iter().enumerate() {
        let overhead = trace.overhead(Noise::Alone(place));
        if overhead <= 0.0 {
            continue;
        }
        let slowdown = trace.node(Noise::Alone(place)).and_then(slowed)?;
        let without = trace.node(Noise::Without(place)).and_then(slowed);
        let gain =
            |index: usize| Some(by_all.as_ref()?.get(index)? - without.as_ref()?.get(index)?);
        let gain = (0..nodes.len()).map(gain).collect();
        let (rank_local, rank_at_scale) = (0, 0);
        let key = key.clone();
        sources.push(Ranked { key, overhead, slowdown, gain, rank_local, rank_at_scale });
    }
    let at = nodes.iter().position(|&nodes| nodes == ranked_at_nodes)?;
    sources.sort_by(|one, other| other.overhead.total_cmp(&one.overhead));
    (1..).zip(&mut sources).for_each(|(rank, source)| source.rank_local = rank);
    sources.sort_by(|one, other| other.slowdown[at].total_cmp(&one.slowdown[at]));
    (1..).zip(&mut sources).for_each(|(rank, source)| source.rank_at_scale = rank);
    let nodes = nodes.to_vec();
    let mut ranking =
        Ranking { granularity_ns: work_ns, nodes, ranked_at_nodes, sources, sentence: None };
    ranking.sentence = ranking.conclusion(at);
    Some(ranking)
}

impl Ranking {
    fn conclusion(&self, at: usize) -> Option<String> {
        let (local, scaled) =
            (self.sources.iter().find(|source| source.rank_local == 1)?, self.sources.first()?);
        let nodes = self.ranked_at_nodes;
        let percent = |share: f64| share * 100.0;
        let (taken, slowed) = (percent(local.overhead), units::slowdown(*scaled.slowdown.get(at)?));
        Some(if local.key == scaled.key {
            format!(
                "{} costs most here ({taken:.3} % of the time) and on {nodes} nodes (slowdown \
                 {slowed}).",
                local.key
            )
        } else {
            format!(
                "{} costs most here ({taken:.3} % of the time), but on {nodes} nodes {} does \
                 (slowdown {slowed}).",
                local.key, scaled.key
            )
        })
    }
}
