//! The dashboards, one file each.

use crate::dashboards::promql::{buckets, lost, of_hosts, quantile, sum_rate, top};
use crate::dashboards::table::{Board, Panel, Shape, Unit, Variable};
use noise_common::signals::{SIGNALS, Signal, SignalInfo};
use noise_common::subject::Domain;

mod disk;
mod fleet;
mod host;
mod irq;
mod network;
mod who;

/// All dashboards, from many hosts to the parts of one.
pub fn all() -> Vec<Board> {
    vec![fleet::board(), host::board(), who::board(), irq::board(), disk::board(), network::board()]
}

/// Who delayed whom.
const INTERFERENCE: &str = "noised_interference_seconds_total";
const INTERRUPTED: &str = "noised_cpu_interrupted_seconds_total";
const STEAL: &str = "noised_steal_seconds_total";
/// Everything that is charged to a culprit that can be named and moved.
const OTHERS: &str = r#"cause!~"self|idle|untracked""#;

const JOB: Variable = Variable {
    name: "job",
    label: "Job",
    query: "label_values(noised_build_info, job)",
    many: false,
    all: ".+",
};
const INSTANCE: Variable = Variable {
    name: "instance",
    label: "Host",
    query: r#"label_values(noised_build_info{job=~"$job"}, instance)"#,
    many: false,
    all: ".+",
};
const INSTANCES: Variable = Variable { many: true, ..INSTANCE };

/// What a cgroup is called besides.
const INFO: &str = "noised_cgroup_info";
const NAMESPACE: Variable = Variable {
    name: "namespace",
    label: "Namespace",
    query: r#"label_values(noised_cgroup_info{job=~"$job",instance=~"$instance"}, namespace)"#,
    many: true,
    all: ".*",
};
const POD: Variable = Variable {
    name: "pod",
    label: "Pod",
    query: r#"label_values(noised_cgroup_info{job=~"$job",instance=~"$instance",namespace=~"$namespace"}, pod)"#,
    many: true,
    all: ".*",
};
/// Narrows series of pods to those that were chosen.
const PODS: &str = r#"namespace=~"$namespace",pod=~"$pod""#;

/// Panels of the signals of a domain that none of these is about, from what the table says of them.
fn of_the_rest(domain: Domain, panels: &[Panel]) -> Vec<Panel> {
    let queries = || panels.iter().flat_map(|panel| &panel.queries);
    let is_shown = |info: &SignalInfo| queries().any(|query| query.expr.contains(info.metric));
    let rest = SIGNALS.iter().filter(|info| info.domain == domain && !is_shown(info));
    rest.flat_map(of_signal).collect()
}

/// What there is to see of any signal.
fn of_signal(info: &SignalInfo) -> Vec<Panel> {
    let SignalInfo { name, help, signal, .. } = *info;
    let labels = info.labels.join(", ");
    let legend = match info.labels {
        [] => "all".to_owned(),
        labels => {
            labels.iter().map(|label| format!("{{{{{label}}}}}")).collect::<Vec<_>>().join(" ")
        }
    };
    let panel = |shape: Shape, what: &str, unit, says: &str| {
        shape.panel(format!("{name}: {what}"), unit, format!("{help} {says}"))
    };
    if !info.is_delay() {
        let says = "Per second, the ten largest. Unusual is a rate that differs from other days.";
        let rate = top(10, &sum_rate(&labels, info.metric, ""));
        return vec![panel(Shape::Lines, "how often", Unit::PerSecond, says).ask(legend, rate)];
    }
    let lengths = "Every one by its length; brighter is more.";
    let slowest = "The 99th percentile, the ten largest.";
    let times = "Time lost to it per second, the ten largest.";
    vec![
        panel(Shape::Heatmap, "how long", Unit::Seconds, lengths)
            .ask("{{le}}", buckets(signal, "")),
        panel(Shape::Lines, "p99", Unit::Seconds, slowest)
            .ask(legend.clone(), top(10, &quantile("0.99", &labels, signal, ""))),
        panel(Shape::Lines, "time lost", Unit::SecondsPerSecond, times)
            .ask(legend, top(10, &lost(&labels, signal, ""))),
    ]
}

/// The number of CPUs of the chosen hosts.
fn cpus() -> String {
    format!("count({})", of_hosts(STEAL, ""))
}

/// The part of all CPU time that interrupts and the hypervisor took.
fn taken_share() -> String {
    let (interrupted, stolen) = (sum_rate("", INTERRUPTED, ""), sum_rate("", STEAL, ""));
    format!("(({interrupted} or vector(0)) + {stolen}) / {}", cpus())
}

/// The mean length of a signal's delays by labels.
fn mean(labels: &str, signal: Signal, more: &str) -> String {
    let count = crate::dashboards::promql::count(labels, signal, more);
    format!("{} / {count}", lost(labels, signal, more))
}

#[cfg(test)]
mod tests {
    use super::{Shape, of_signal, of_the_rest};
    use noise_common::signals::SIGNALS;
    use noise_common::subject::Domain;

    #[test]
    fn a_signal_that_no_panel_is_about_gets_panels_from_its_row() {
        for domain in
            [Domain::Cpu, Domain::Interrupts, Domain::Disk, Domain::Network, Domain::Memory]
        {
            let own: Vec<_> = SIGNALS.iter().filter(|info| info.domain == domain).collect();
            let all = of_the_rest(domain, &[]);
            assert!(own.iter().all(|info| all.iter().any(|panel| panel.title.contains(info.name))));
            let [first, rest @ ..] = own.as_slice() else { panic!("{domain:?} has no signal") };
            let of_rest = of_the_rest(domain, &of_signal(first));
            assert!(
                rest.iter()
                    .all(|info| { of_rest.iter().any(|panel| panel.title.starts_with(info.name)) })
            );
            assert!(of_the_rest(domain, &all).is_empty());
            for panel in all {
                assert!(panel.says.len() > 40 && panel.says.ends_with('.'), "{}", panel.says);
                assert_eq!(panel.queries.len(), 1, "{}", panel.title);
                let table = matches!(panel.shape, Shape::Lines | Shape::Heatmap);
                assert!(table, "{}", panel.title);
            }
        }
    }
}
