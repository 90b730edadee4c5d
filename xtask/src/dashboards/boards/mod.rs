//! The dashboards, one file each.

use crate::dashboards::promql::{lost, of_hosts, sum_rate};
use crate::dashboards::table::{Board, Variable};
use noise_common::signals::Signal;

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
/// Everything that is charged to somebody or something that can be named and moved.
const OTHERS: &str = r#"cause!~"self|idle|untracked""#;

const JOB: Variable = Variable {
    name: "job",
    label: "Job",
    query: "label_values(noised_build_info, job)",
    many: false,
};
const INSTANCE: Variable = Variable {
    name: "instance",
    label: "Host",
    query: r#"label_values(noised_build_info{job=~"$job"}, instance)"#,
    many: false,
};
const INSTANCES: Variable = Variable { many: true, ..INSTANCE };

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
