//! *Who did it*: culprits and victims.

use super::{INFO, INSTANCES, INTERFERENCE, JOB, NAMESPACE, OTHERS, POD, PODS};
use crate::dashboards::promql::{of_hosts, ranked, rate, sum_rate, top};
use crate::dashboards::table::{Board, Panel, Shape, Unit, Variable};

/// Narrows charges to what was chosen.
const CHOSEN: &str = r#"victim=~"$victim",resource=~"$resource""#;
const PREEMPTIONS: &str = "noised_preemptions_total";

const VICTIM: Variable = Variable {
    name: "victim",
    label: "Who was delayed",
    query: r#"label_values(noised_interference_seconds_total{job=~"$job",instance=~"$instance"}, victim)"#,
    many: true,
    all: ".+",
};
const RESOURCE: Variable = Variable {
    name: "resource",
    label: "Waiting for",
    query: r#"label_values(noised_interference_seconds_total{job=~"$job",instance=~"$instance"}, resource)"#,
    many: true,
    all: ".+",
};

fn chosen(more: &str) -> String {
    format!("{CHOSEN},{more}")
}

/// `sum by (labels)` of a rate, without victims that belong to other pods than those that were chosen. What has no pod
/// stays as long as all are chosen.
fn charged(labels: &str, metric: &str, more: &str) -> String {
    let by = if labels.is_empty() { String::new() } else { format!(" by ({labels}) ") };
    let others = format!("{} unless {}", of_hosts(INFO, ""), of_hosts(INFO, PODS));
    let rate = rate(metric, more);
    let others = format!(r#"label_join({others}, "victim", "", "cgroup")"#);
    format!("sum{by}({rate} unless on (job, instance, victim) {others})")
}

pub(super) fn board() -> Board {
    let mut panels = tables();
    panels.extend(graphs());
    Board {
        name: "who",
        title: "Who did it",
        description: "Which cgroup, kernel thread, interrupt or hypervisor delayed whom, and by how much.",
        variables: vec![JOB, INSTANCES, NAMESPACE, POD, VICTIM, RESOURCE],
        panels,
    }
}

fn tables() -> Vec<Panel> {
    let pairs = charged("victim, culprit, cause, resource", INTERFERENCE, &chosen(OTHERS));
    // A name that stands for many, or for one that is gone, is no neighbour.
    let named = chosen(r#"cause="foreign",victim!~"~.*",culprit!~"~.*""#);
    let foreign = charged("victim, culprit", INTERFERENCE, &named);
    let all = charged("victim", INTERFERENCE, CHOSEN);
    let largest = format!("on (victim, culprit) {}", top(10, &foreign));
    vec![
        Shape::Table(&[
            ("victim", "Who was delayed"),
            ("culprit", "By whom"),
            ("cause", "Why"),
            ("resource", "Waiting for"),
        ])
        .panel(
            "Who delays whom",
            Unit::SecondsPerSecond,
            "Every second's delay by victim and culprit, largest first, without what cgroups do to themselves. \
             `foreign` is another cgroup, `throttle` the victim's own CPU quota. Look for a foreign culprit near \
             the top whose work is less important than the victim's.",
        )
        .ask("Time lost", ranked(40, &pairs))
        .sized(14, 12),
        Shape::Bars.panel(
            "Part of a victim's delay that one neighbour causes",
            Unit::Share,
            "For the ten pairs of cgroups that lose most time: how much of all of the victim's delay that \
             culprit is charged with. Above half, that neighbour is what makes the victim slow.",
        )
        .ask(
            "{{culprit}} delays {{victim}}",
            format!("sort_desc({foreign} / on (victim) group_left () ({all} > 0) and {largest})"),
        )
        .sized(10, 12)
        .limits(0.25, 0.5),
    ]
}

fn graphs() -> Vec<Panel> {
    let total = charged("", INTERFERENCE, CHOSEN);
    let unnamed = |more: &str| format!("{} / {total}", charged("", INTERFERENCE, &chosen(more)));
    vec![
        Shape::Stacked.panel(
            "Time lost, by cause",
            Unit::SecondsPerSecond,
            "Why work was delayed. Much `self` is work that has too few CPUs for its threads, much \
             `foreign` a neighbour, `steal` the hypervisor, `throttle` a quota that is too small.",
        )
        .ask("{{cause}}", charged("cause", INTERFERENCE, CHOSEN)),
        Shape::Stacked.panel(
            "Time lost, by what was waited for",
            Unit::SecondsPerSecond,
            "Where work was delayed: for a CPU, in a queue of a disk, by the disk itself, sending, \
             receiving, or while it ran (interrupts). Choose one above to see only its culprits.",
        )
        .ask("{{resource}}", charged("resource", INTERFERENCE, CHOSEN)),
        Shape::Lines.panel(
            "Culprits",
            Unit::SecondsPerSecond,
            "Delay that each caused to others, the eight largest. A line that rises when users complain is \
             the suspect.",
        )
        .ask("{{culprit}}", top(8, &charged("culprit", INTERFERENCE, &chosen(OTHERS))))
        .sized(12, 10),
        Shape::Lines.panel(
            "Victims",
            Unit::SecondsPerSecond,
            "Delay that each cgroup suffered from anything but itself, the eight largest. Batch jobs may be \
             here; services that users wait for should not.",
        )
        .ask("{{victim}}", top(8, &charged("victim", INTERFERENCE, &chosen(OTHERS))))
        .sized(12, 10),
        Shape::Table(&[("victim", "Who lost a CPU"), ("culprit", "To whom"), ("relation", "Why")])
        .panel(
            "Preemptions",
            Unit::PerSecond,
            "How often a task that could have run on had to leave its CPU, and to whom. Thousands per \
             second to one culprit cost the victim its caches as well.",
        )
        .ask("Times", ranked(20, &charged("victim, culprit, relation", PREEMPTIONS, r#"victim=~"$victim""#))),
        Shape::Lines.panel(
            "Own CPU quota and hypervisor",
            Unit::SecondsPerSecond,
            "Delay by a cgroup's own CPU quota (throttle) and by the hypervisor (steal). Neither can be \
             mended by moving neighbours: raise the quota, or move the machine. 0 is usual.",
        )
        .ask(
            "{{victim}}: {{cause}}",
            top(10, &charged("victim, cause", INTERFERENCE, &chosen(r#"cause=~"throttle|steal""#))),
        ),
        Shape::Lines.panel(
            "What is not known",
            Unit::Share,
            "Part of all delay whose culprit is not known (untracked), was gone before its name could be \
             read (~gone, ~unknown), or is among the many small ones (~other). Below 10 % is usual.",
        )
        .ask("not known", unnamed(r#"cause="untracked""#))
        .ask("without a name", unnamed(r#"culprit=~"~gone|~unknown""#))
        .ask("many small ones", unnamed(r#"culprit="~other""#)),
        Shape::Lines.panel(
            "Series folded into ~other",
            Unit::PerSecond,
            "How often a small series gave way to a larger one. Steady folding means that more pairs are \
             at work than there is room for: raise [limits] in noised's configuration.",
        )
        .ask("{{metric}}", sum_rate("metric", "noised_series_folded_total", "")),
    ]
}
