//! PURE: a family of metrics before it is written in a format. It borrows what it shows: copies of the labels
//! were half of the allocations of a scrape.

use std::borrow::Cow;
use std::time::Duration;

use noise_common::hist::buckets_within;
use noise_common::signals::Buckets;
use noise_model::{CgroupInfo, Series};
use noise_text::clean::clean;

/// The most labels of a counter or gauge.
pub const MOST_LABELS: usize = 6;

/// The labels of a histogram by cgroup: the last three only on a host with pods.
pub const OF_CGROUP: &[&str] = &["cgroup", "namespace", "pod", "container"];

/// Metrics of one name.
#[derive(Debug)]
pub struct Family<'a> {
    pub name: &'a str,
    pub help: &'a str,
    /// The names of the labels of each metric.
    pub labels: &'static [&'static str],
    pub metrics: Metrics<'a>,
}

#[derive(Debug)]
pub enum Metrics<'a> {
    Counters(Vec<Point<'a>>),
    Gauges(Vec<Point<'a>>),
    /// Delays, with the classic buckets that they have.
    Histograms(Buckets, Vec<FamilyDelays<'a>>),
}

#[derive(Clone, Copy, Debug)]
pub struct FamilyDelays<'a> {
    pub series: &'a Series,
    /// It counts from that time on, ns; 0 = from the start.
    pub from_ns: u64,
    /// What the cluster calls its cgroup, on a host with pods.
    pub pod: Option<&'a CgroupInfo>,
}

impl<'a> FamilyDelays<'a> {
    /// The values of its labels. On a host with pods, all of [`OF_CGROUP`], as a label that is not written is one that a scrape may
    /// fill in with the name of noised's own container.
    pub fn labels(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let of_pod =
            self.pod.into_iter().flat_map(|pod| [&pod.namespace, &pod.pod, &pod.container]);
        self.series.labels.iter().chain(of_pod).map(String::as_str)
    }
}

/// A counter or gauge.
#[derive(Debug)]
pub struct Point<'a> {
    /// The values of its labels; behind those that its family has, they are empty.
    labels: [Cow<'a, str>; MOST_LABELS],
    pub value: f64,
    /// Of a counter: it counts from that time on, ns; 0 = from the start.
    pub from_ns: u64,
}

impl<'a> Point<'a> {
    /// One with these values of its family's labels.
    pub fn new<T: Into<Cow<'a, str>>>(labels: impl IntoIterator<Item = T>, value: f64) -> Self {
        let mut own = <[Cow<'a, str>; MOST_LABELS]>::default();
        for (own, label) in own.iter_mut().zip(labels) {
            *own = label.into();
        }
        Self { labels: own, value, from_ns: 0 }
    }

    /// The same, counting from that time on.
    pub fn since(self, from_ns: u64) -> Self {
        Self { from_ns, ..self }
    }

    pub fn bare(value: f64) -> Self {
        Self { labels: <[Cow<'a, str>; MOST_LABELS]>::default(), value, from_ns: 0 }
    }

    /// The values of its labels, and maybe empty ones behind them.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.labels.iter().map(|label| &**label)
    }
}

impl<'a> Family<'a> {
    /// Counters of that name, with what they are for people and the names of their labels.
    pub fn counters(
        name: &'a str,
        help: &'a str,
        labels: &'static [&'static str],
        points: impl IntoIterator<Item = Point<'a>>,
    ) -> Self {
        Self { name, help, labels, metrics: Metrics::Counters(points.into_iter().collect()) }
    }

    pub fn gauges(
        name: &'a str,
        help: &'a str,
        labels: &'static [&'static str],
        points: impl IntoIterator<Item = Point<'a>>,
    ) -> Self {
        Self { name, help, labels, metrics: Metrics::Gauges(points.into_iter().collect()) }
    }

    /// A counter without labels.
    pub fn counter(name: &'a str, help: &'a str, value: f64) -> Self {
        Self::counters(name, help, &[], [Point::bare(value)])
    }

    /// A gauge without labels.
    pub fn gauge(name: &'a str, help: &'a str, value: f64) -> Self {
        Self::gauges(name, help, &[], [Point::bare(value)])
    }

    pub fn is_empty(&self) -> bool {
        match &self.metrics {
            Metrics::Counters(points) | Metrics::Gauges(points) => points.is_empty(),
            Metrics::Histograms(_, series) => series.is_empty(),
        }
    }

    /// Labels of one of its metrics, as they are shown.
    pub fn named<'b>(
        &self,
        values: impl Iterator<Item = &'b str>,
    ) -> impl Iterator<Item = (&'static str, Cow<'b, str>)> {
        self.labels.iter().copied().zip(values.map(clean))
    }
}

/// When counters began to count, since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Those of a family that count from the start.
    pub start: Duration,
    /// When the clock of samples was 0.
    pub clock: Duration,
}

impl Origin {
    /// When one began that counts from that time on.
    pub fn of(self, from_ns: u64) -> Duration {
        match from_ns {
            0 => self.start,
            from_ns => self.clock + Duration::from_nanos(from_ns),
        }
    }
}

/// The upper bounds of classic buckets, seconds.
pub fn bounds(buckets: Buckets) -> impl Iterator<Item = f64> {
    buckets.exponents().map(|exponent| seconds(1 << exponent))
}

/// How many delays are up to each of these bounds.
pub fn cumulative(series: &Series, buckets: Buckets) -> impl Iterator<Item = u64> {
    let (mut counts, mut seen) = (series.totals.buckets().peekable(), 0_u64);
    buckets.exponents().map(move |exponent| {
        while let Some((_, count)) = counts.next_if(|(at, _)| *at < buckets_within(exponent)) {
            seen = seen.saturating_add(count);
        }
        seen
    })
}

pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use noise_common::signals::{ExportKind, SIGNALS};

    use super::*;

    #[test]
    fn all_counters_have_room_for_their_labels() {
        let counters = SIGNALS.iter().filter(|info| matches!(info.kind, ExportKind::Counter));
        assert!(counters.into_iter().all(|info| info.labels.len() <= MOST_LABELS));
    }
}
