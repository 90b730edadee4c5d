//! Sums over slices: by process and marker, and shares of those that fulfil a condition.

use std::collections::BTreeMap;

use noise_trace::event::Comm;
use serde::Serialize;

use crate::marker::Marker;
use crate::query::Query;
use crate::slices::{NONE, Slice, SliceId};
use crate::system::System;

/// Slices of one process with one marker.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tier {
    pub process: String,
    pub marker: &'static str,
    pub count: u64,
    /// How many a second.
    pub rate: f64,
    /// Their length, nanoseconds: half are not longer.
    pub latency_p50_ns: u64,
    /// 99 % are not longer.
    pub latency_p99_ns: u64,
    pub latency_max_ns: u64,
    /// The same of true latencies.
    pub true_latency_p50_ns: u64,
    pub true_latency_p99_ns: u64,
    /// All true latencies together.
    pub true_latency_sum_ns: u64,
    /// Stretches without a CPU of all.
    pub idle_count: u64,
    pub idle_mean_ns: f64,
    /// Their variance, square nanoseconds.
    pub idle_variance: f64,
}

/// The value that a share of all sorted ones does not exceed.
pub fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

/// Whether slices with a marker last as long as a connection or a thread does, whatever that does meanwhile.
pub const fn is_life(marker: Marker) -> bool {
    matches!(marker, Marker::Accept(_) | Marker::Connect(_) | Marker::Process)
}

/// The sums of slices of a time, those with most true latency first; connections and threads as wholes last.
pub fn tiers(system: &System, slices: &[SliceId], span: (u64, u64)) -> Vec<Tier> {
    let mut groups: BTreeMap<(Comm, Marker), Vec<SliceId>> = BTreeMap::new();
    for id in slices {
        let Some(slice) = system.slice(*id) else { continue };
        let process = system.thread(slice).map_or(Comm::default(), |thread| thread.process);
        groups.entry((process, slice.marker)).or_default().push(*id);
    }
    let mut tiers: Vec<Tier> = groups
        .into_iter()
        .map(|((process, marker), ids)| tier(system, process, marker, &ids, span))
        .collect();
    tiers.sort_by(|one, other| {
        let key = |tier: &Tier| {
            let is_life = Marker::named(tier.marker).is_some_and(is_life);
            (is_life, std::cmp::Reverse(tier.true_latency_sum_ns))
        };
        key(one).cmp(&key(other))
    });
    tiers
}

/// The sums of some slices of one process with one marker, of that time.
pub(crate) fn tier(
    system: &System,
    process: Comm,
    marker: Marker,
    ids: &[SliceId],
    (from_ns, to_ns): (u64, u64),
) -> Tier {
    let seconds = to_ns.saturating_sub(from_ns).max(1) as f64 / 1e9;
    let of = || ids.iter().filter_map(|id| system.slice(*id));
    let mut latencies: Vec<u64> = of().map(Slice::latency_ns).collect();
    let mut own: Vec<u64> = of().map(|slice| slice.true_latency_ns).collect();
    latencies.sort_unstable();
    own.sort_unstable();
    let idle_count: u64 = of().map(|slice| u64::from(slice.idle_count)).sum();
    let idle_ns: f64 = of().map(|slice| slice.idle_ns as f64).sum();
    let mean = idle_ns / idle_count.max(1) as f64;
    // Of all stretches, from the variance within slices and between their means.
    let square = |slice: &Slice| {
        let off = slice.idle_mean_ns() - mean;
        f64::from(slice.idle_count) * (slice.idle_variance + off * off)
    };
    Tier {
        process: process.to_string(),
        marker: marker.name(),
        count: ids.len() as u64,
        rate: ids.len() as f64 / seconds,
        latency_p50_ns: percentile(&latencies, 50),
        latency_p99_ns: percentile(&latencies, 99),
        latency_max_ns: latencies.last().copied().unwrap_or(0),
        true_latency_p50_ns: percentile(&own, 50),
        true_latency_p99_ns: percentile(&own, 99),
        true_latency_sum_ns: own.iter().fold(0, |sum, ns| sum.saturating_add(*ns)),
        idle_count,
        idle_mean_ns: mean,
        idle_variance: of().map(square).sum::<f64>() / idle_count.max(1) as f64,
    }
}

/// What shares are apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Cluster,
    Process,
    Marker,
    SketchCluster,
}

/// Of some slices, how many fulfil a condition.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SliceShare {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Without `unknown`.
    pub count: u64,
    /// How many fulfil it.
    pub holds: u64,
    /// Of how many that is not known, since their calls are not.
    pub unknown: u64,
    /// The share of `count`; `null` of no slices.
    pub probability: Option<f64>,
}

impl SliceShare {
    fn add(&mut self, holds: Option<bool>) {
        let Some(holds) = holds else {
            self.unknown += 1;
            return;
        };
        self.count += 1;
        self.holds += u64::from(holds);
        self.probability = Some(self.holds as f64 / self.count as f64);
    }
}

/// The probability that slices fulfil a condition: of all, and of each group where these are apart, the largest first.
pub fn probability(
    system: &System,
    slices: &[SliceId],
    of: &Query,
    by: Option<By>,
) -> (SliceShare, Option<Vec<SliceShare>>) {
    let mut all = SliceShare::default();
    let mut groups: BTreeMap<String, SliceShare> = BTreeMap::new();
    let of = of.of(system);
    for (id, slice) in slices.iter().filter_map(|id| Some((*id, system.slice(*id)?))) {
        let holds = of.holds(id);
        all.add(holds);
        let group = match by {
            None => continue,
            Some(By::Cluster) if slice.cluster == NONE => "none".to_owned(),
            Some(By::Cluster) => format!("{} {}", slice.cluster, slice.marker.name()),
            Some(By::SketchCluster) => sketch_cluster(system, id),
            Some(By::Marker) => slice.marker.name().to_owned(),
            Some(By::Process) => {
                system.thread(slice).map_or_else(String::new, |thread| thread.process.to_string())
            }
        };
        groups.entry(group).or_default().add(holds);
    }
    let named = |(group, share)| SliceShare { group, ..share };
    let mut groups: Vec<SliceShare> = groups.into_iter().map(named).collect();
    groups.sort_by(|one, other| {
        let key = |share: &SliceShare| share.probability.unwrap_or(0.0);
        key(other).total_cmp(&key(one)).then_with(|| one.group.cmp(&other.group))
    });
    (all, by.map(|_| groups))
}

/// The cluster of the sketch that a slice is of, with the marker of its first slice.
fn sketch_cluster(system: &System, id: SliceId) -> String {
    let of = system.whole(id).filter(|sketch| sketch.cluster != NONE);
    let named = of.and_then(|sketch| Some((sketch.cluster, system.marker_of(sketch)?)));
    named.map_or_else(
        || "none".to_owned(),
        |(cluster, marker)| format!("{cluster} {}", marker.name()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let values: Vec<u64> = (1..=200).collect();
        assert_eq!(
            [0, 50, 99, 100].map(|percent| percentile(&values, percent)),
            [1, 100, 198, 200]
        );
        assert_eq!((percentile(&[], 50), percentile(&[7], 99)), (0, 7));
    }
}
