//! PURE: a family of metrics as text: Prometheus' format 0.0.4, or OpenMetrics 1.0.
//!
//! Both have series of the same names and labels. In OpenMetrics, the name of a family of counters is
//! without its end, and counters and histograms say when they began.
//!
//! The library's encoder writes the same text of the format 0.0.4, which tests hold this one against. It makes a
//! string of each number and escapes the labels of a histogram once for each bucket: a fifth of a scrape.

use std::io::Write as _;
use std::sync::LazyLock;

use noise_common::signals::Buckets;

use super::family::{Family, Metrics, Origin, bounds, cumulative, seconds};
use super::text::Text;

/// What the whole ends with in OpenMetrics.
pub const END: &str = "# EOF\n";

/// Room for the labels of most series.
const USUAL_LABELS: usize = 256;

/// What the names of counters end with.
const COUNTED: &str = "_total";

/// The units that end names here.
const UNITS: [&str; 2] = ["seconds", "bytes"];

/// From here on, not every whole number is an `f64`.
const MOST_WHOLE: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// Prometheus' format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics {
        /// When the counters began.
        origin: Origin,
    },
}

/// The unit of a family, by its name without `_total`.
pub fn unit_of(name: &str) -> Option<&'static str> {
    UNITS.into_iter().find(|unit| name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_')))
}

/// The name of a family: that of counters is without its end.
pub fn family_name<'a>(family: &Family<'a>) -> &'a str {
    match family.metrics {
        Metrics::Counters(_) => family.name.strip_suffix(COUNTED).unwrap_or(family.name),
        Metrics::Gauges(_) | Metrics::Histograms(..) => family.name,
    }
}

/// The bounds of classic buckets as they are written.
type BucketBounds = LazyLock<Vec<String>>;
static FINE: BucketBounds =
    LazyLock::new(|| bounds(Buckets::Fine).map(|own| own.to_string()).collect());
static WIDE: BucketBounds =
    LazyLock::new(|| bounds(Buckets::Wide).map(|own| own.to_string()).collect());

pub fn write(text: &mut Text, family: &Family<'_>, syntax: Syntax) {
    head(text, family, syntax);
    let (name, counted, origin) = match syntax {
        Syntax::Prometheus => (family.name, "", None),
        Syntax::OpenMetrics { origin } => (family_name(family), COUNTED, Some(origin)),
    };
    let mut lines = FamilyLines { text, name, origin, labels: String::with_capacity(USUAL_LABELS) };
    match &family.metrics {
        Metrics::Counters(points) => {
            for point in points {
                lines.take_labels(family, point.labels());
                lines.add(counted, None, point.value);
                lines.add_created(point.from_ns);
            }
        }
        Metrics::Gauges(points) => {
            for point in points {
                lines.take_labels(family, point.labels());
                lines.add("", None, point.value);
            }
        }
        Metrics::Histograms(buckets, all) => {
            let bounds = match buckets {
                Buckets::Fine => &FINE,
                Buckets::Wide => &WIDE,
            };
            for delays in all {
                let series = delays.series;
                lines.take_labels(family, delays.labels());
                for (bound, count) in bounds.iter().zip(cumulative(series, *buckets)) {
                    lines.add("_bucket", Some(bound), count as f64);
                }
                let count = series.totals.count() as f64;
                lines.add("_bucket", Some("+Inf"), count);
                lines.add("_sum", None, seconds(series.totals.sum_ns));
                lines.add("_count", None, count);
                lines.add_created(delays.from_ns);
            }
        }
    }
}

/// What the family is.
fn head(text: &mut Text, family: &Family<'_>, syntax: Syntax) {
    let kind = match family.metrics {
        Metrics::Counters(_) => "counter",
        Metrics::Gauges(_) => "gauge",
        Metrics::Histograms(..) => "histogram",
    };
    match syntax {
        Syntax::Prometheus => {
            let name = family.name;
            text.extend(["# HELP ", name, " "]);
            // A quotation mark ends nothing there.
            escape(family.help, &['\\', '\n'], |piece| text.push(piece));
            text.extend(["\n# TYPE ", name, " ", kind, "\n"]);
        }
        Syntax::OpenMetrics { .. } => {
            let name = family_name(family);
            text.extend(["# TYPE ", name, " ", kind, "\n"]);
            if let Some(unit) = unit_of(name) {
                text.extend(["# UNIT ", name, " ", unit, "\n"]);
            }
            text.extend(["# HELP ", name, " "]);
            escape(family.help, &ENDING, |piece| text.push(piece));
            text.push("\n");
        }
    }
}

struct FamilyLines<'a> {
    text: &'a mut Text,
    name: &'a str,
    /// When counters began, where that is written.
    origin: Option<Origin>,
    /// Those of the metric whose turn it is, as they are written between braces.
    labels: String,
}

impl FamilyLines<'_> {
    fn take_labels<'a>(&mut self, family: &Family<'_>, values: impl Iterator<Item = &'a str>) {
        self.labels.clear();
        for (name, value) in family.named(values) {
            if !self.labels.is_empty() {
                self.labels.push(',');
            }
            self.labels.push_str(name);
            self.labels.push_str("=\"");
            escape(&value, &ENDING, |piece| self.labels.push_str(piece));
            self.labels.push('"');
        }
    }

    /// Adds a line: the family's name with that end, the labels, and the bound of a bucket.
    fn add(&mut self, end: &str, le: Option<&str>, value: f64) {
        self.begin(end, le);
        number(self.text, value);
        self.text.push("\n");
    }

    /// Adds the line of when the metric began.
    fn add_created(&mut self, from_ns: u64) {
        if let Some(origin) = self.origin {
            self.add("_created", None, origin.of(from_ns).as_secs_f64());
        }
    }

    /// Begins a line, up to its value.
    fn begin(&mut self, end: &str, le: Option<&str>) {
        let Self { text, name, labels, .. } = self;
        text.extend([*name, end]);
        match (labels.as_str(), le) {
            ("", None) => {}
            ("", Some(le)) => text.extend(["{le=\"", le, "\"}"]),
            (labels, None) => text.extend(["{", labels, "}"]),
            (labels, Some(le)) => text.extend(["{", labels, ",le=\"", le, "\"}"]),
        }
        text.push(" ");
    }
}

/// A number as Rust displays it. Most are whole, and those are written faster as such.
fn number(text: &mut Text, value: f64) {
    let whole = value as u64;
    if value.is_sign_positive() && value < MOST_WHOLE && whole as f64 == value {
        text.push(itoa::Buffer::new().format(whole));
        return;
    }
    // Writing to memory does not fail.
    let _ = write!(text, "{value}");
}

/// What would end a label's value.
const ENDING: [char; 3] = ['\\', '"', '\n'];

/// Writes a text piece by piece, with a backslash before what would end it.
fn escape(value: &str, ending: &[char], mut write: impl FnMut(&str)) {
    let mut rest = value;
    while let Some(at) = rest.find(ending) {
        let (plain, end) = rest.split_at(at);
        write(plain);
        write("\\");
        let mut end = end.chars();
        match end.next() {
            Some('\n') => write("n"),
            Some(character) => write(character.encode_utf8(&mut [0; 4])),
            None => {}
        }
        rest = end.as_str();
    }
    write(rest);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use std::ops::Range;
    use std::slice;

    use noise_common::hist::upper_bound_ns;
    use noise_common::signals::Signal;
    use noise_model::{Histogram, Series};
    use noise_text::clean::clean;
    use prometheus::TextEncoder;
    use prometheus::proto::{self, LabelPair, Metric, MetricFamily, MetricType};
    use proptest::prelude::{Strategy, any, prop_assert_eq, prop_oneof, proptest};

    use super::*;
    use crate::metrics::family::{FamilyDelays, MOST_LABELS, Point};

    const NAMES: &[&str] = &["a", "ab", "b_c", "d", "e", "f"];

    fn text_of(family: &Family<'_>, syntax: Syntax) -> String {
        let mut text = Text::with_capacity(0);
        write(&mut text, family, syntax);
        String::from_utf8(text.into_bytes()).unwrap()
    }

    fn written(family: &Family<'_>) -> String {
        text_of(family, Syntax::OpenMetrics { origin: ORIGIN })
    }

    const ORIGIN: Origin =
        Origin { start: Duration::from_millis(1_500), clock: Duration::from_secs(10) };

    #[test]
    fn counters_say_when_they_began() {
        let later = Point::new([""], 2.0).since(250_000_000);
        let counters = [Point::new(["\\x\n\"\"y\\\\"], 1.5), later];
        assert_eq!(
            written(&Family::counters("x_seconds_total", "A \"b\".", &["a"], counters)),
            "# TYPE x_seconds counter\n# UNIT x_seconds seconds\n# HELP x_seconds A \\\"b\\\".\n\
             x_seconds_total{a=\"\\\\x\\\\x0a\\\"\\\"y\\\\\\\\\"} 1.5\n\
             x_seconds_created{a=\"\\\\x\\\\x0a\\\"\\\"y\\\\\\\\\"} 1.5\n\
             x_seconds_total{a=\"\"} 2\nx_seconds_created{a=\"\"} 10.25\n"
        );
    }

    #[test]
    fn what_counts_nothing_has_no_begin() {
        assert_eq!(
            written(&Family::gauge("x", "Help.", -0.5)),
            "# TYPE x gauge\n# HELP x Help.\nx -0.5\n"
        );
    }

    #[test]
    fn units_end_names() {
        assert_eq!([unit_of("a_seconds"), unit_of("a_bytes")], [Some("seconds"), Some("bytes")]);
        assert_eq!(
            [unit_of("seconds"), unit_of("a_seconds_held"), unit_of("nanoseconds")],
            [None; 3]
        );
    }

    #[test]
    fn texts_are_escaped() {
        let escaped = |value| {
            let mut text = String::new();
            escape(value, &ENDING, |piece| text.push_str(piece));
            text
        };
        assert_eq!(escaped("\n\na\\\"b\n"), r#"\n\na\\\"b\n"#);
        assert_eq!((escaped(""), escaped("ä")), (String::new(), "ä".to_owned()));
    }

    /// Labels as the library has them.
    fn pairs<'a>(family: &Family<'_>, values: impl Iterator<Item = &'a str>) -> Vec<LabelPair> {
        let pair = |(name, value): (&&str, &str)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value(clean(value).into_owned());
            pair
        };
        family.labels.iter().zip(values).map(pair).collect()
    }

    fn metric(labels: Vec<LabelPair>) -> Metric {
        let mut metric = Metric::default();
        metric.set_label(labels);
        metric
    }

    /// A histogram as the library has it, counted anew.
    fn histogram(series: &Series, buckets: Buckets) -> proto::Histogram {
        let mut histogram = proto::Histogram::default();
        histogram.set_sample_count(series.totals.count());
        histogram.set_sample_sum(series.totals.sum_ns as f64 / 1e9);
        let of = |exponent: u32| {
            let counts = series.totals.buckets();
            let up_to = |at: usize| upper_bound_ns(at).is_some_and(|bound| bound <= 1 << exponent);
            let mut bucket = proto::Bucket::default();
            bucket.set_upper_bound((1_u64 << exponent) as f64 / 1e9);
            bucket.set_cumulative_count(
                counts.filter(|(at, _)| up_to(*at)).map(|(_, count)| count).sum(),
            );
            bucket
        };
        histogram.set_bucket(buckets.exponents().map(of).collect());
        histogram
    }

    /// A family as the library has it.
    fn of_library(family: &Family<'_>) -> MetricFamily {
        let (kind, metrics) = match &family.metrics {
            Metrics::Counters(points) => {
                let metrics = points.iter().map(|point| {
                    let mut counter = proto::Counter::default();
                    counter.set_value(point.value);
                    let mut metric = metric(pairs(family, point.labels()));
                    metric.set_counter(counter);
                    metric
                });
                (MetricType::COUNTER, metrics.collect())
            }
            Metrics::Gauges(points) => {
                let metrics = points.iter().map(|point| {
                    let mut gauge = proto::Gauge::default();
                    gauge.set_value(point.value);
                    let mut metric = metric(pairs(family, point.labels()));
                    metric.set_gauge(gauge);
                    metric
                });
                (MetricType::GAUGE, metrics.collect())
            }
            Metrics::Histograms(buckets, all) => {
                let metrics = all.iter().map(|delays| {
                    let mut metric = metric(pairs(family, delays.labels()));
                    metric.set_histogram(histogram(delays.series, *buckets));
                    metric
                });
                (MetricType::HISTOGRAM, metrics.collect::<Vec<_>>())
            }
        };
        let mut of_library = MetricFamily::default();
        of_library.set_name(family.name.to_owned());
        of_library.set_help(family.help.to_owned());
        of_library.set_field_type(kind);
        of_library.set_metric(metrics);
        of_library
    }

    /// Numbers of all lengths, whole ones and others.
    fn any_number() -> impl Strategy<Value = f64> {
        prop_oneof![
            (0_u64..1 << 60).prop_map(|whole| whole as f64),
            (0_u64..100).prop_map(|whole| whole as f64),
            (0_u64..100).prop_map(|seconds| seconds as f64 / 1e9),
            proptest::num::f64::NORMAL | proptest::num::f64::ZERO | proptest::num::f64::SUBNORMAL,
        ]
    }

    /// A text of so many of these characters.
    fn any_text(of: &'static str, length: Range<usize>) -> impl Strategy<Value = String> {
        let character = proptest::sample::select(of.chars().collect::<Vec<_>>());
        proptest::collection::vec(character, length).prop_map(String::from_iter)
    }

    fn any_labels() -> impl Strategy<Value = Vec<String>> {
        proptest::collection::vec(any_text("ab\"\\\n=,{} äß", 0..13), MOST_LABELS)
    }

    fn any_help() -> impl Strategy<Value = String> {
        any_text("ab \"\\\n", 1..13)
    }

    fn held_against_the_library(family: &Family<'_>) -> (String, String) {
        let due = TextEncoder::new().encode_to_string(slice::from_ref(&of_library(family)));
        (text_of(family, Syntax::Prometheus), due.unwrap())
    }

    proptest! {
        #[test]
        fn the_text_of_numbers_is_that_of_the_library(
            help in any_help(),
            named in 0..=MOST_LABELS,
            is_counter in any::<bool>(),
            points in proptest::collection::vec((any_labels(), any_number()), 1..5),
        ) {
            let labels = NAMES.get(..named).unwrap();
            let points = points.iter().map(|(labels, value)| Point::new(labels, *value));
            let make = if is_counter { Family::counters } else { Family::gauges };
            let (text, due) = held_against_the_library(&make("x_total", &help, labels, points));
            prop_assert_eq!(text, due);
        }

        #[test]
        fn the_text_of_histograms_is_that_of_the_library(
            help in any_help(),
            named in 0..=MOST_LABELS,
            is_fine in any::<bool>(),
            all in proptest::collection::vec(
                (any_labels(), proptest::collection::vec(0_u64..1 << 40, 0..20)),
                1..5,
            ),
        ) {
            let all = all.iter().map(|(labels, values)| Series {
                signal: Signal::RunqueueWait,
                labels: labels.as_slice().into(),
                totals: Histogram::of(values),
                recent_max_ns: 0,
            });
            let all: Vec<Series> = all.collect();
            let delays = all.iter().map(|series| FamilyDelays { series, from_ns: 0, pod: None });
            let buckets = if is_fine { Buckets::Fine } else { Buckets::Wide };
            let family = Family {
                name: "x_seconds",
                help: &help,
                labels: NAMES.get(..named).unwrap(),
                metrics: Metrics::Histograms(buckets, delays.collect()),
            };
            let (text, due) = held_against_the_library(&family);
            prop_assert_eq!(text, due);
        }
    }
}
