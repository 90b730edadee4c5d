//! PURE: a family of metrics as text: Prometheus' format 0.0.4, or OpenMetrics 1.0.
//!
//! Both have series of the same names and labels. In OpenMetrics, the name of a family of counters is
//! without its end, and counters and histograms say when they began.
//!
//! The library's encoder writes the same text of the format 0.0.4, which tests hold this one against. It makes a
//! string of each number and escapes the labels of a histogram once for each bucket: a fifth of a scrape.

use std::io::Write as _;
use std::time::Duration;

use prometheus::proto::{Metric, MetricFamily, MetricType};

use super::text::Text;

/// What the whole ends with in OpenMetrics.
pub const END: &str = "# EOF\n";

/// The units that end names here.
const UNITS: [&str; 2] = ["seconds", "bytes"];

/// From here on, not every whole number is an `f64`.
const MOST_WHOLE: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;

/// Which text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// Prometheus' format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics {
        /// When the counters began, since 1970.
        began: Duration,
    },
}

/// The unit of a family, by its name without `_total`.
pub fn unit_of(name: &str) -> Option<&'static str> {
    UNITS.into_iter().find(|unit| name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_')))
}

/// The name of a family: that of a counter is without its end.
pub fn family_name(family: &MetricFamily) -> &str {
    let name = family.name();
    match family.get_field_type() {
        MetricType::COUNTER => name.strip_suffix("_total").unwrap_or(name),
        _ => name,
    }
}

/// Writes a family.
pub fn write(text: &mut Text, family: &MetricFamily, syntax: Syntax) {
    head(text, family, syntax);
    let (name, counted) = match syntax {
        Syntax::Prometheus => (family.name(), ""),
        Syntax::OpenMetrics { .. } => (family_name(family), "_total"),
    };
    let mut samples = Samples { text, name, labels: String::new() };
    let mut bounds = Bounds::default();
    for metric in family.get_metric() {
        samples.take_labels(metric);
        match family.get_field_type() {
            MetricType::COUNTER => samples.add(counted, None, metric.get_counter().get_value()),
            MetricType::GAUGE => samples.add("", None, metric.get_gauge().get_value()),
            MetricType::HISTOGRAM => {
                let histogram = metric.get_histogram();
                let count = histogram.get_sample_count() as f64;
                for (place, bucket) in histogram.get_bucket().iter().enumerate() {
                    let le = bounds.written(place, bucket.upper_bound());
                    samples.add("_bucket", Some(le), bucket.cumulative_count() as f64);
                }
                samples.add("_bucket", Some("+Inf"), count);
                samples.add("_sum", None, histogram.get_sample_sum());
                samples.add("_count", None, count);
            }
            _ => {}
        }
        let counts = matches!(family.get_field_type(), MetricType::COUNTER | MetricType::HISTOGRAM);
        if let (true, Syntax::OpenMetrics { began }) = (counts, syntax) {
            samples.add("_created", None, began.as_secs_f64());
        }
    }
}

/// What the family is.
fn head(text: &mut Text, family: &MetricFamily, syntax: Syntax) {
    let kind = match family.get_field_type() {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM => "histogram",
        _ => "unknown",
    };
    match syntax {
        Syntax::Prometheus => {
            let name = family.name();
            text.extend(["# HELP ", name, " "]);
            // A quotation mark ends nothing there.
            escape(family.help(), &['\\', '\n'], |piece| text.push(piece));
            text.extend(["\n# TYPE ", name, " ", kind, "\n"]);
        }
        Syntax::OpenMetrics { .. } => {
            let name = family_name(family);
            text.extend(["# TYPE ", name, " ", kind, "\n"]);
            if let Some(unit) = unit_of(name) {
                text.extend(["# UNIT ", name, " ", unit, "\n"]);
            }
            text.extend(["# HELP ", name, " "]);
            escape(family.help(), &ENDING, |piece| text.push(piece));
            text.push("\n");
        }
    }
}

/// Lines of one family.
struct Samples<'a> {
    text: &'a mut Text,
    name: &'a str,
    /// Those of the metric whose turn it is, as they are written between braces.
    labels: String,
}

impl Samples<'_> {
    fn take_labels(&mut self, metric: &Metric) {
        self.labels.clear();
        for pair in metric.get_label() {
            if !self.labels.is_empty() {
                self.labels.push(',');
            }
            self.labels.push_str(pair.name());
            self.labels.push_str("=\"");
            escape(pair.value(), &ENDING, |piece| self.labels.push_str(piece));
            self.labels.push('"');
        }
    }

    /// Adds a line: the family's name with that end, the labels, and the bound of a bucket.
    fn add(&mut self, end: &str, le: Option<&str>, value: f64) {
        let Self { text, name, labels } = self;
        text.extend([*name, end]);
        match (labels.as_str(), le) {
            ("", None) => {}
            ("", Some(le)) => text.extend(["{le=\"", le, "\"}"]),
            (labels, None) => text.extend(["{", labels, "}"]),
            (labels, Some(le)) => text.extend(["{", labels, ",le=\"", le, "\"}"]),
        }
        text.push(" ");
        number(text, value);
        text.push("\n");
    }
}

/// The bounds of the buckets of a family as text: those of its first histogram mostly serve for all.
#[derive(Default)]
struct Bounds(Vec<(f64, String)>);

impl Bounds {
    /// The bound of the bucket at that place. Places come in order.
    fn written(&mut self, place: usize, bound: f64) -> &str {
        let is_other = |(known, _): &(f64, String)| known.to_bits() != bound.to_bits();
        if self.0.get(place).is_none_or(is_other) {
            self.0.truncate(place);
            self.0.push((bound, bound.to_string()));
        }
        self.0.get(place).map_or("", |(_, text)| text)
    }
}

/// A number as Rust displays it. Most are whole, and those are written faster as such.
fn number(text: &mut Text, value: f64) {
    let whole = value as u64;
    // Writing to memory does not fail.
    let _ = match value.is_sign_positive() && value < MOST_WHOLE && whole as f64 == value {
        true => write!(text, "{whole}"),
        false => write!(text, "{value}"),
    };
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
    use std::ops::Range;
    use std::slice;

    use prometheus::TextEncoder;
    use prometheus::proto::{Bucket, Histogram};
    use proptest::prelude::{Just, Strategy, prop_assert_eq, prop_oneof, proptest};

    use super::*;
    use crate::metrics::{counter, family, gauge};

    fn text_of(family: &MetricFamily, syntax: Syntax) -> String {
        let mut text = Text::with_capacity(0);
        write(&mut text, family, syntax);
        String::from_utf8(text.into_bytes()).unwrap()
    }

    fn written(family: &MetricFamily) -> String {
        text_of(family, Syntax::OpenMetrics { began: Duration::from_millis(1_500) })
    }

    #[test]
    fn counters_say_when_they_began() {
        let counters = vec![counter(&["a"], &["\\x\n\"\"y\\\\"], 1.5), counter(&["a"], &[""], 2.0)];
        assert_eq!(
            written(&family("x_seconds_total", "A \"b\".", MetricType::COUNTER, counters)),
            "# TYPE x_seconds counter\n# UNIT x_seconds seconds\n# HELP x_seconds A \\\"b\\\".\n\
             x_seconds_total{a=\"\\\\x\\\\x0a\\\"\\\"y\\\\\\\\\"} 1.5\n\
             x_seconds_created{a=\"\\\\x\\\\x0a\\\"\\\"y\\\\\\\\\"} 1.5\n\
             x_seconds_total{a=\"\"} 2\nx_seconds_created{a=\"\"} 1.5\n"
        );
    }

    #[test]
    fn what_counts_nothing_has_no_begin() {
        assert_eq!(
            written(&family("x", "Help.", MetricType::GAUGE, vec![gauge(&[], &[], -0.5)])),
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

    /// A metric of a kind with anything in it; histograms have two or three buckets.
    fn metric(kind: MetricType, labels: &[(String, String)], numbers: [f64; 4]) -> Metric {
        let names: Vec<&str> = labels.iter().map(|(name, _)| name.as_str()).collect();
        let values: Vec<&str> = labels.iter().map(|(_, value)| value.as_str()).collect();
        let [value, first, second, count] = numbers;
        let mut metric = match kind {
            MetricType::COUNTER => counter(&names, &values, value),
            _ => gauge(&names, &values, value),
        };
        // As they come, not as they are shown.
        for (pair, value) in metric.mut_label().iter_mut().zip(values) {
            pair.set_value(value.to_owned());
        }
        if kind == MetricType::HISTOGRAM {
            let mut histogram = Histogram::default();
            let bounds = [first, second].into_iter().chain((count > 9.0).then_some(7.5));
            let buckets = bounds.zip(1..).map(|(bound, number)| {
                let mut bucket = Bucket::default();
                bucket.set_upper_bound(bound);
                bucket.set_cumulative_count(number * count as u64);
                bucket
            });
            histogram.set_bucket(buckets.collect());
            histogram.set_sample_sum(value);
            histogram.set_sample_count(count as u64);
            metric.set_histogram(histogram);
        }
        metric
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

    fn any_kind() -> impl Strategy<Value = MetricType> {
        prop_oneof![Just(MetricType::COUNTER), Just(MetricType::GAUGE), Just(MetricType::HISTOGRAM)]
    }

    fn any_labels() -> impl Strategy<Value = Vec<(String, String)>> {
        let label = (any_text("abc", 1..4), any_text("ab\"\\\n=,{} äß", 0..13));
        proptest::collection::vec(label, 0..4)
    }

    proptest! {
        #[test]
        fn the_text_is_that_of_the_library(
            kind in any_kind(),
            help in any_text("ab \"\\\n", 1..13),
            metrics in proptest::collection::vec(
                (any_labels(), any_number(), any_number(), any_number(), 0_u64..1 << 40),
                1..5,
            ),
        ) {
            let metrics = metrics.iter().map(|(labels, value, first, second, count)| {
                metric(kind, labels, [*value, *first, *second, *count as f64])
            });
            let family = family("x_seconds_total", &help, kind, metrics.collect());
            let due = TextEncoder::new().encode_to_string(slice::from_ref(&family)).unwrap();
            prop_assert_eq!(text_of(&family, Syntax::Prometheus), due);
        }
    }
}
