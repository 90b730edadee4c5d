//! PURE but for the process metrics: a model as metrics, in the [`Format`] that a client takes.

#[cfg(test)]
pub(crate) mod decoded;
mod exposition;
mod format;
mod incidents;
mod native;
mod own;
mod process;
mod protobuf;
mod recorder;
#[cfg(test)]
mod tests;
mod text;

use std::time::Duration;

use noise_analysis::Overview;
use noise_common::hist::buckets_within;
use noise_common::signals::{Buckets, Kind, SIGNALS, SignalInfo};
use noise_model::clean::clean;
use noise_model::{INTERFERENCE_METRIC, Model, PREEMPTIONS_METRIC, Series};
use noise_protobuf::Message;
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};

use self::exposition::Syntax;
use self::text::Text;

pub use self::format::Format;
pub use self::process::Process;

/// Room for the text of most hosts. From 128 KiB on, musl would map memory anew for each page.
const USUAL_BYTES: usize = 96 << 10;

fn labels(names: &[&str], values: &[&str]) -> Vec<LabelPair> {
    names
        .iter()
        .zip(values)
        .map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value(clean(value).into_owned());
            pair
        })
        .collect()
}

fn family(name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

fn counter(names: &[&str], values: &[&str], value: f64) -> Metric {
    let mut counter = Counter::default();
    counter.set_value(value);
    let mut metric = Metric::default();
    metric.set_label(labels(names, values));
    metric.set_counter(counter);
    metric
}

fn gauge(names: &[&str], values: &[&str], value: f64) -> Metric {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    let mut metric = Metric::default();
    metric.set_label(labels(names, values));
    metric.set_gauge(gauge);
    metric
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn histogram(names: &[&str], series: &Series, buckets: Buckets) -> Metric {
    let mut histogram = Histogram::default();
    histogram.set_sample_count(series.totals.count());
    histogram.set_sample_sum(seconds(series.totals.sum_ns));
    let (mut counts, mut seen) = (series.totals.buckets().peekable(), 0_u64);
    let buckets = buckets.exponents().map(|exponent| {
        while let Some((_, count)) = counts.next_if(|(at, _)| *at < buckets_within(exponent)) {
            seen = seen.saturating_add(count);
        }
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(seconds(1 << exponent));
        bucket.set_cumulative_count(seen);
        bucket
    });
    histogram.set_bucket(buckets.collect());
    let values: Vec<&str> = series.labels.iter().map(String::as_str).collect();
    let mut metric = Metric::default();
    metric.set_label(labels(names, &values));
    metric.set_histogram(histogram);
    metric
}

/// The series and folded series of all signals.
type AllSeries<'a> = [Vec<&'a Series>; 2];

/// The series of one signal.
fn series_of<'a>([series, folded]: &AllSeries<'a>, info: &SignalInfo) -> Vec<&'a Series> {
    let from = if info.is_folded() { folded } else { series };
    from.iter().copied().filter(|series| series.signal == info.signal).collect()
}

/// The family of one signal, of its series.
fn signal_family(model: &Model, series: &[&Series], info: &SignalInfo) -> MetricFamily {
    let (kind, metrics): (_, Vec<Metric>) = match info.kind {
        Kind::Histogram(buckets) => {
            let metrics = series.iter().map(|series| histogram(info.labels, series, buckets));
            (MetricType::HISTOGRAM, metrics.collect())
        }
        Kind::Counter => {
            let own = model.counts().filter(|count| count.signal == info.signal);
            let metrics = own.map(|count| {
                let values: Vec<&str> = count.labels.iter().map(String::as_str).collect();
                counter(info.labels, &values, count.total as f64)
            });
            (MetricType::COUNTER, metrics.collect())
        }
    };
    family(info.metric, info.help, kind, metrics)
}

/// The families of who delayed whom.
fn blame_families(model: &Model) -> Vec<MetricFamily> {
    let interference = model.interference.iter().map(|(pair, charged)| {
        let values = [pair.resource.name(), &pair.victim, &pair.culprit, pair.cause.name()];
        counter(&["resource", "victim", "culprit", "cause"], &values, seconds(charged.ns))
    });
    let preemptions = model.preemptions.iter().map(|(pair, charged)| {
        let values = [&pair.victim, &*pair.culprit, pair.cause.name()];
        counter(&["victim", "culprit", "relation"], &values, charged.count as f64)
    });
    vec![
        family(
            INTERFERENCE_METRIC,
            "Time that a cgroup was delayed, by what it waited for or what was taken from it, by whom, and why.",
            MetricType::COUNTER,
            interference.collect(),
        ),
        family(
            PREEMPTIONS_METRIC,
            "How often a cgroup lost a CPU that it could have used on, by who took it.",
            MetricType::COUNTER,
            preemptions.collect(),
        ),
    ]
}

/// A family of the page.
enum Family {
    Made(MetricFamily),
    /// The families of signals are most of the page: each is made when it is written, so that the
    /// memory of one serves the next.
    Of(&'static SignalInfo),
}

impl Family {
    fn name(&self) -> &str {
        match self {
            Self::Made(family) => family.name(),
            Self::Of(info) => info.metric,
        }
    }
}

/// A page as it grows.
enum Page {
    Text(Text),
    OpenMetrics(Text),
    Protobuf(Message),
}

impl Page {
    fn new(format: Format) -> Self {
        match format {
            Format::Text => Self::Text(Text::with_capacity(USUAL_BYTES)),
            Format::OpenMetrics => Self::OpenMetrics(Text::with_capacity(USUAL_BYTES)),
            Format::Protobuf => Self::Protobuf(Message::with_capacity(USUAL_BYTES / 4)),
        }
    }

    /// Adds a family that began at that time since 1970, with the series that histograms were made of.
    fn add(&mut self, family: &MetricFamily, began: Duration, series: &[&Series]) {
        match self {
            Self::Text(text) => exposition::write(text, family, Syntax::Prometheus),
            Self::OpenMetrics(text) => {
                exposition::write(text, family, Syntax::OpenMetrics { began });
            }
            Self::Protobuf(message) => protobuf::write(message, family, began, series),
        }
    }

    fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::OpenMetrics(mut text) => {
                text.push(exposition::END);
                text.into_bytes()
            }
            Self::Protobuf(message) => message.into_bytes(),
        }
    }
}

/// Renders a model and the incidents, with the metrics of the process where given; families in order of
/// their names.
pub fn render(
    format: Format,
    model: &Model,
    overview: &Overview,
    process: Option<&Process>,
) -> Vec<u8> {
    // What was counted before a signal was switched off would look like calm.
    let is_absent = |signal| model.sample.absent.iter().any(|(absent, _)| *absent == signal);
    let measured = SIGNALS.iter().filter(|info| !is_absent(info.signal));
    let mut made = blame_families(model);
    made.extend(own::families(model));
    made.extend(own::noise_families(model));
    made.extend(recorder::families(model));
    made.extend(incidents::families(overview));
    made.extend(process.map(Process::collect).into_iter().flatten());
    let mut families: Vec<Family> =
        measured.map(Family::Of).chain(made.into_iter().map(Family::Made)).collect();
    families.sort_by(|one, other| one.name().cmp(other.name()));
    let series = [model.series().collect(), model.folded_series.iter().collect()];
    let began = process.map(Process::began).unwrap_or_default();
    let mut page = Page::new(format);
    for family in families {
        let (family, own) = match family {
            Family::Made(family) => (family, Vec::new()),
            Family::Of(info) => {
                let own = series_of(&series, info);
                (signal_family(model, &own, info), own)
            }
        };
        // One without metrics says nothing.
        if !family.get_metric().is_empty() {
            page.add(&family, began.of(family.name()), &own);
        }
    }
    page.into_bytes()
}
