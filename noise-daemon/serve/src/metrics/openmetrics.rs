//! PURE: a family of metrics as text of OpenMetrics 1.0.
//!
//! Its series have the names and labels that they have in Prometheus' text format 0.0.4; besides, counters
//! and histograms say when they began.

use std::io::{self, Write};
use std::time::Duration;

use prometheus::proto::{LabelPair, MetricFamily, MetricType};

/// What the whole ends with.
pub const END: &[u8] = b"# EOF\n";

/// The units that end names here.
const UNITS: [&str; 2] = ["seconds", "bytes"];

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

/// Writes a family that began at that time since 1970.
///
/// # Errors
/// Those of the writer.
pub fn write(text: &mut impl Write, family: &MetricFamily, began: Duration) -> io::Result<()> {
    let name = family_name(family);
    let kind = match family.get_field_type() {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM => "histogram",
        _ => "unknown",
    };
    writeln!(text, "# TYPE {name} {kind}")?;
    if let Some(unit) = unit_of(name) {
        writeln!(text, "# UNIT {name} {unit}")?;
    }
    write!(text, "# HELP {name} ")?;
    escaped(text, family.help())?;
    text.write_all(b"\n")?;
    for metric in family.get_metric() {
        let mut line = |suffix: &str, le: Option<f64>, value: f64| -> io::Result<()> {
            write!(text, "{name}{suffix}")?;
            labels(text, metric.get_label(), le)?;
            writeln!(text, " {value}")
        };
        match family.get_field_type() {
            MetricType::COUNTER => line("_total", None, metric.get_counter().get_value())?,
            MetricType::GAUGE => line("", None, metric.get_gauge().get_value())?,
            MetricType::HISTOGRAM => {
                let histogram = metric.get_histogram();
                let count = histogram.get_sample_count() as f64;
                for bucket in histogram.get_bucket() {
                    let count = bucket.cumulative_count() as f64;
                    line("_bucket", Some(bucket.upper_bound()), count)?;
                }
                line("_bucket", Some(f64::INFINITY), count)?;
                line("_sum", None, histogram.get_sample_sum())?;
                line("_count", None, count)?;
            }
            _ => {}
        }
        if matches!(family.get_field_type(), MetricType::COUNTER | MetricType::HISTOGRAM) {
            line("_created", None, began.as_secs_f64())?;
        }
    }
    Ok(())
}

fn labels(text: &mut impl Write, pairs: &[LabelPair], le: Option<f64>) -> io::Result<()> {
    let mut before = "{";
    for pair in pairs {
        write!(text, "{before}{}=\"", pair.name())?;
        escaped(text, pair.value())?;
        text.write_all(b"\"")?;
        before = ",";
    }
    match le {
        Some(bound) if bound.is_infinite() => write!(text, "{before}le=\"+Inf\"}}"),
        Some(bound) => write!(text, "{before}le=\"{bound}\"}}"),
        None if pairs.is_empty() => Ok(()),
        None => text.write_all(b"}"),
    }
}

/// A text without what would end it.
fn escaped(text: &mut impl Write, value: &str) -> io::Result<()> {
    for piece in value.split_inclusive(['\\', '"', '\n']) {
        let plain = piece.trim_end_matches(['\\', '"', '\n']);
        text.write_all(plain.as_bytes())?;
        match piece.strip_prefix(plain) {
            Some("\n") => text.write_all(b"\\n")?,
            Some(end @ ("\\" | "\"")) => write!(text, "\\{end}")?,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{counter, family, gauge};

    fn written(family: &MetricFamily) -> String {
        let mut text = Vec::new();
        write(&mut text, family, Duration::from_millis(1_500)).unwrap();
        String::from_utf8(text).unwrap()
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
        let mut text = Vec::new();
        escaped(&mut text, "\n\na\\\"b\n").unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), r#"\n\na\\\"b\n"#);
    }
}
