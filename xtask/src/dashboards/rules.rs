//! Recording rules: what the fleet's view is made of, from the table of signals.
//!
//! Named `level:metric:operations`, as Prometheus recommends: the level is the labels that are left.

use noise_common::signals::{ExportKind, SIGNALS, Signal, SignalInfo};

use crate::dashboards::promql::metric;

/// The number of a host's CPUs.
const HOST_CPUS: &str = "instance:noised_cpus:count";
/// Part of a host's CPU time that interrupts took, by source.
pub const HOST_INTERRUPTED: &str = "instance_source:noised_cpu_interrupted:ratio_rate5m";
/// Part of a host's CPU time that the hypervisor took.
pub const HOST_STEAL: &str = "instance:noised_steal:ratio_rate5m";
/// Part of a host's CPU time that interrupts and the hypervisor took.
pub const HOST_TAKEN: &str = "instance:noised_cpu_taken:ratio_rate5m";

/// Each open incident, with what it is, by its severity.
pub const OPEN_INCIDENTS: &str = "instance_incident:noised_incident_severity:named";

/// Quantiles that are recorded of the whole fleet, and of each host.
const FLEET_QUANTILES: [&str; 3] = ["0.5", "0.99", "0.999"];
const HOST_QUANTILES: [&str; 1] = ["0.99"];

/// A recorded quantile over the events of all hosts.
pub fn fleet_quantile(signal: Signal, quantile: &str, chosen: &str) -> String {
    let metric = metric(signal);
    format!(r#"job_quantile:{metric}:histogram_quantile_rate5m{{{chosen},quantile="{quantile}"}}"#)
}

/// A recorded quantile of each host.
pub fn host_quantile(signal: Signal, chosen: &str) -> String {
    let metric = metric(signal);
    format!(r#"instance_quantile:{metric}:histogram_quantile_rate5m{{{chosen},quantile="0.99"}}"#)
}

/// The recorded rate of a counter of each host.
pub fn host_rate(counter: &str, chosen: &str) -> String {
    format!("{}{{{chosen}}}", host_rate_name(counter))
}

fn host_rate_name(counter: &str) -> String {
    format!("instance:{}:rate5m", counter.trim_end_matches("_total"))
}

/// A series that Prometheus computes and keeps.
#[derive(Clone)]
struct Rule {
    record: String,
    quantile: Option<&'static str>,
    expr: String,
}

fn rule(record: impl Into<String>, expr: impl Into<String>) -> Rule {
    Rule { record: record.into(), quantile: None, expr: expr.into() }
}

/// Rules that are evaluated one after the other.
struct Group {
    name: String,
    about: &'static str,
    rules: Vec<Rule>,
}

fn of_histogram(info: &SignalInfo) -> Group {
    let metric = info.metric;
    let fleet = format!("job_le:{metric}_bucket:rate5m");
    let quantile = |level: &str, quantile, expr| Rule {
        record: format!("{level}_quantile:{metric}:histogram_quantile_rate5m"),
        quantile: Some(quantile),
        expr,
    };
    let mut rules =
        vec![rule(fleet.clone(), format!("sum by (job, le) (rate({metric}_bucket[5m]))"))];
    rules.extend(
        FLEET_QUANTILES
            .map(|part| quantile("job", part, format!("histogram_quantile({part}, {fleet})"))),
    );
    rules.extend(HOST_QUANTILES.map(|part| {
        let buckets = format!("sum by (job, instance, le) (rate({metric}_bucket[5m]))");
        quantile("instance", part, format!("histogram_quantile({part}, {buckets})"))
    }));
    rules.extend(["sum", "count"].map(|what| {
        let record = format!("instance:{metric}_{what}:rate5m");
        rule(record, format!("sum by (job, instance) (rate({metric}_{what}[5m]))"))
    }));
    // What is slow by nature, a disk's flush or discard, says nothing of the rest.
    if info.labels.contains(&"operation") {
        let by = |what: &str, more: &str| {
            format!("sum by (job, instance, operation{more}) (rate({metric}_{what}[5m]))")
        };
        rules.extend(HOST_QUANTILES.map(|part| {
            let expr = format!("histogram_quantile({part}, {})", by("bucket", ", le"));
            quantile("instance_operation", part, expr)
        }));
        rules.push(rule(format!("instance_operation:{metric}_count:rate5m"), by("count", "")));
    }
    Group {
        name: format!("noised_{}", info.name),
        about: "Quantiles of the fleet and of each host, seconds lost and events per second.",
        rules,
    }
}

fn counters() -> Group {
    let counters = SIGNALS.iter().filter(|info| info.kind == ExportKind::Counter);
    let rules = counters.map(|info| {
        let expr = format!("sum by (job, instance) (rate({}[5m]))", info.metric);
        rule(host_rate_name(info.metric), expr)
    });
    Group {
        name: "noised_counters".to_owned(),
        about: "Events per second.",
        rules: rules.collect(),
    }
}

/// Part of all hosts' CPU time that was taken; large hosts weigh more. `host` is the label that distinguishes hosts.
fn mean_taken(host: &str) -> String {
    format!("sum by (job) ({HOST_TAKEN} * on ({host}) {HOST_CPUS}) / sum by (job) ({HOST_CPUS})")
}

fn cpu() -> Group {
    let cpus = HOST_CPUS;
    let rules = vec![
        rule(cpus, "count by (job, instance) (noised_steal_seconds_total)"),
        rule(
            HOST_INTERRUPTED,
            format!(
                "sum by (job, instance, source) (rate(noised_cpu_interrupted_seconds_total[5m])) \
                 / on (job, instance) group_left () {cpus}"
            ),
        ),
        rule(HOST_STEAL, "avg by (job, instance) (rate(noised_steal_seconds_total[5m]))"),
        rule(
            HOST_TAKEN,
            format!(
                "sum by (job, instance) ({HOST_INTERRUPTED}) + on (job, instance) {HOST_STEAL}"
            ),
        ),
        rule("job:noised_cpu_taken:ratio_rate5m", mean_taken("job, instance")),
        rule(
            "instance:noised_process_cpu:ratio_rate5m",
            "rate(process_cpu_seconds_total[5m]) and on (job, instance) noised_build_info",
        ),
    ];
    Group {
        name: "noised_cpu".to_owned(),
        about: "Parts of CPU time that were taken from tasks, 1 = all of it.",
        rules,
    }
}

fn blame() -> Group {
    let rate = "rate(noised_interference_seconds_total[5m])";
    let of_others = r#"rate(noised_interference_seconds_total{cause!="self"}[5m])"#;
    let foreign =
        r#"rate(noised_interference_seconds_total{resource!="running",cause="foreign"}[5m])"#;
    let waits = r#"rate(noised_interference_seconds_total{resource!="running"}[5m])"#;
    let rules = vec![
        rule(
            "job_culprit_cause:noised_interference_seconds:rate5m",
            format!("sum by (job, culprit, cause) ({rate})"),
        ),
        rule(
            "job_victim:noised_interference_seconds:rate5m",
            format!("sum by (job, victim) ({of_others})"),
        ),
        rule(
            "instance_cause:noised_interference_seconds:rate5m",
            format!("sum by (job, instance, cause) ({rate})"),
        ),
        rule(
            "instance_resource_victim:noised_interference_seconds:rate5m",
            format!("sum by (job, instance, resource, victim) ({waits})"),
        ),
        rule(
            "instance_resource_victim_culprit:noised_foreign_interference_seconds:rate5m",
            format!("sum by (job, instance, resource, victim, culprit) ({foreign})"),
        ),
    ];
    Group {
        name: "noised_blame".to_owned(),
        about: "Seconds of delay per second, by who caused it and who suffered it.",
        rules,
    }
}

/// How severe each open incident is, with all that says what it is: what whom lacks, by whom, and what a victim's cgroup is
/// called besides.
fn open_incidents() -> String {
    let severity = "noised_incident_severity * on (job, instance, incident) group_left (resource, victim, culprit) \
                    max by (job, instance, incident, resource, victim, culprit) (noised_incident_info)";
    let called = "max by (job, instance, victim, namespace, pod, container, unit) (label_replace(noised_cgroup_info, \
                  \"victim\", \"$1\", \"cgroup\", \"(.*)\"))";
    format!(
        "{severity} * on (job, instance, victim) group_left (namespace, pod, container, unit) {called} or on (job, \
         instance, incident) {severity}"
    )
}

fn state() -> Group {
    let rules = vec![
        rule(
            "job_signal:noised_incident_active:sum",
            "sum by (job, signal) (noised_incident_active)",
        ),
        rule(OPEN_INCIDENTS, open_incidents()),
        rule(
            "instance_where_reason:noised_dropped:rate5m",
            "sum by (job, instance, where, reason) (rate(noised_dropped_total[5m]))",
        ),
    ];
    Group {
        name: "noised_state".to_owned(),
        about: "What open incidents disturb, and events that were not counted.",
        rules,
    }
}

/// All groups of a server that scrapes hosts.
fn groups() -> Vec<Group> {
    let mut groups = vec![cpu(), blame(), counters(), state()];
    groups.extend(SIGNALS.iter().filter_map(|info| match info.kind {
        ExportKind::Histogram(_) => Some(of_histogram(info)),
        ExportKind::Counter => None,
    }));
    groups
}

/// What a server above others calls a part of the fleet: `job_shard_le:…` of `job_le:…`.
fn of_shard(record: &str) -> String {
    record.replacen("job_", "job_shard_", 1)
}

/// The rule for the whole fleet on a server above others, whose hosts' series have a label `shard`;
/// none for a rule of single hosts, whose series that server does not fetch.
fn above(rule: &Rule) -> Option<Rule> {
    let (level, _) = rule.record.split_once(':')?;
    let expr = match level {
        "job" => mean_taken("job, instance, shard"),
        // Of what the rules before it have added up.
        "job_quantile" => rule.expr.clone(),
        _ if level.starts_with("job_") => {
            format!("sum by ({}) ({})", level.replace('_', ", "), of_shard(&rule.record))
        }
        _ => return None,
    };
    Some(Rule { expr, ..rule.clone() })
}

/// The file of recording rules.
pub fn file() -> String {
    written(
        "# Recording rules for noised. Written by `cargo xtask dashboards`; change them there.\n\
         # Rates cover five minutes: scrape at least once a minute. They are computed once a minute, because\n\
         # each time reads five minutes of every bucket of every host.\n",
        groups(),
    )
}

/// The file of recording rules for a server above several that share the hosts.
pub fn federation() -> String {
    let mut all = groups();
    for group in &mut all {
        group.rules = group.rules.iter().filter_map(above).collect();
        group.about = "The whole fleet, of what is known of its parts.";
    }
    all.retain(|group| !group.rules.is_empty());
    written(
        "# Recording rules for a server above several that share the hosts: see federation.yml. Written by\n\
         # `cargo xtask dashboards`; change them there. job_shard_…: is what one of those calls job_…:.\n",
        all,
    )
}

fn written(head: &str, groups: Vec<Group>) -> String {
    let mut text = format!("{head}groups:\n");
    for group in groups {
        text += &format!(
            "  # {}\n  - name: {}\n    interval: 1m\n    rules:\n",
            group.about, group.name
        );
        for rule in group.rules {
            text += &format!("      - record: {}\n", rule.record);
            if let Some(quantile) = rule.quantile {
                text += &format!("        labels: {{quantile: \"{quantile}\"}}\n");
            }
            text += &format!("        expr: {}\n", quoted(&rule.expr));
        }
    }
    text
}

/// A YAML scalar in single quotes, in which only the quote itself is special.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
