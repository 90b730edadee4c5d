//! The few forms of PromQL that dashboards and rules are made of.

use noise_common::signals::Signal;

/// What chooses the hosts of a dashboard, inside braces.
pub const HOSTS: &str = r#"job=~"$job",instance=~"$instance""#;

/// The metric of a signal.
pub fn metric(signal: Signal) -> &'static str {
    signal.info().metric
}

/// `metric{chosen hosts, more}`; `more` may be empty.
pub fn of_hosts(metric: &str, more: &str) -> String {
    let comma = if more.is_empty() { "" } else { "," };
    format!("{metric}{{{HOSTS}{comma}{more}}}")
}

/// The rate of a counter of the chosen hosts, over as long as a graph needs.
pub fn rate(metric: &str, more: &str) -> String {
    format!("rate({}[$__rate_interval])", of_hosts(metric, more))
}

/// `sum by (labels) (rate)`; without labels, of all.
pub fn sum_rate(labels: &str, metric: &str, more: &str) -> String {
    if labels.is_empty() {
        format!("sum({})", rate(metric, more))
    } else {
        format!("sum by ({labels}) ({})", rate(metric, more))
    }
}

/// A quantile of a signal's histogram by labels.
pub fn quantile(quantile: &str, labels: &str, signal: Signal, more: &str) -> String {
    let by = if labels.is_empty() { "le".to_owned() } else { format!("{labels}, le") };
    let buckets = sum_rate(&by, &format!("{}_bucket", metric(signal)), more);
    format!("histogram_quantile({quantile}, {buckets})")
}

/// How many delays fell into each bucket per second, which does not depend on how far apart the points of
/// a heatmap are: the rate interval is several of them.
pub fn buckets(signal: Signal, more: &str) -> String {
    let bucket = of_hosts(&format!("{}_bucket", metric(signal)), more);
    format!("sum by (le) (rate({bucket}[$__rate_interval]))")
}

/// Seconds that a signal's delays took, per second, by labels.
pub fn lost(labels: &str, signal: Signal, more: &str) -> String {
    sum_rate(labels, &format!("{}_sum", metric(signal)), more)
}

/// How many delays there were per second, by labels.
pub fn count(labels: &str, signal: Signal, more: &str) -> String {
    sum_rate(labels, &format!("{}_count", metric(signal)), more)
}

/// The few largest.
pub fn top(number: u32, of: &str) -> String {
    format!("topk({number}, {of})")
}

/// The few largest, largest first.
pub fn ranked(number: u32, of: &str) -> String {
    format!("sort_desc(topk({number}, {of}))")
}
