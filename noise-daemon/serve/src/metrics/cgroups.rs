//! What a cluster, the service manager and container engines call the cgroups of series.

use std::collections::BTreeSet;
use std::sync::Arc;

use noise_model::{CgroupInfo, Labels, Model, Relation};

use super::family::{Family, Point};

/// A cgroup outside of all pods.
static OUTSIDE: CgroupInfo = CgroupInfo {
    namespace: String::new(),
    pod: String::new(),
    container: String::new(),
    unit: String::new(),
    engine: String::new(),
};

/// Whether there are pods here.
pub fn has_pods(model: &Model) -> bool {
    model.sample.cgroups.values().any(|info| !info.pod.is_empty())
}

/// What the cluster calls the cgroup of a series, on a host with pods. Of one outside of them, all names are empty.
pub fn pod<'a>(model: &'a Model, labels: &Labels) -> &'a CgroupInfo {
    let info = labels.first().and_then(|label| model.sample.cgroups.get(label.as_str()));
    info.map(|info| &**info).filter(|info| !info.pod.is_empty()).unwrap_or(&OUTSIDE)
}

/// The cgroups of a pair.
fn parties(pair: &Relation) -> impl Iterator<Item = &Arc<str>> {
    let is_cgroup = pair.cause.is_of_cgroup();
    [Some(&pair.victim), is_cgroup.then_some(&pair.culprit)].into_iter().flatten()
}

/// The cgroups of all pairs, each once. A label without a value is written as well: were it not, a scrape that honors
/// labels would fill in the names of noised's own pod.
pub fn family(model: &Model) -> Family<'_> {
    let pairs = model.interference.iter().chain(&model.preemptions);
    let labels: BTreeSet<&Arc<str>> = pairs.flat_map(|pair| parties(&pair.series.0)).collect();
    let points = labels.into_iter().filter_map(|label| {
        let info = model.sample.cgroups.get(label)?;
        let CgroupInfo { namespace, pod, container, unit, engine } = &**info;
        Some(Point::new([&**label, namespace, pod, container, unit, engine], 1.0))
    });
    Family::gauges(
        "noised_cgroup_info",
        "What the cluster, systemd and the container engine call a cgroup that is a victim or culprit; always 1.",
        &["cgroup", "namespace", "pod", "container", "unit", "engine"],
        points,
    )
}
