//! PURE: a family of metrics as a message of Prometheus' protocol buffers (io.prometheus.client.MetricFamily,
//! proto2, of prometheus/client_model), with its length in front.
//!
//! A histogram is there twice, as agreed by those who read them: with classic buckets, and native. A reader
//! of native histograms leaves the classic ones out, unless it is set to take both.

use std::time::Duration;

use noise_common::signals::Buckets;
use noise_model::Series;
use noise_protobuf::Message;

use super::exposition::{family_name, unit_of};
use super::family::{Family, Metrics, Origin, bounds, cumulative, seconds};
use super::native::{Native, SCHEMA, ZERO_THRESHOLD_S};

macro_rules! messages {
    ($($message:ident { $($field:ident = $number:literal),* })*) => {
        $(mod $message {
            $(pub const $field: u32 = $number;)*
        })*
    };
}

// Numbers of fields, by message.
messages! {
    family { NAME = 1, HELP = 2, TYPE = 3, METRIC = 4, UNIT = 5 }
    metric { LABEL = 1, GAUGE = 2, COUNTER = 3, HISTOGRAM = 7 }
    label { NAME = 1, VALUE = 2 }
    number { VALUE = 1, CREATED = 3 }
    histogram {
        COUNT = 1, SUM = 2, BUCKET = 3, SCHEMA = 5, ZERO_THRESHOLD = 6, ZERO_COUNT = 7, POSITIVE_SPAN = 12,
        POSITIVE_DELTA = 13, CREATED = 15
    }
    bucket { CUMULATIVE_COUNT = 1, UPPER_BOUND = 2 }
    span { OFFSET = 1, LENGTH = 2 }
    timestamp { SECONDS = 1, NANOS = 2 }
}

pub fn write(message: &mut Message, family: &Family<'_>, origin: Origin) {
    message.delimited(|message| {
        message.text(family::NAME, family.name);
        message.text(family::HELP, family.help);
        let kind: u32 = match family.metrics {
            Metrics::Counters(_) => 0,
            Metrics::Gauges(_) => 1,
            Metrics::Histograms(..) => 4,
        };
        message.unsigned(family::TYPE, kind);
        match &family.metrics {
            Metrics::Counters(points) => {
                for point in points {
                    add(message, family, point.labels(), metric::COUNTER, |message| {
                        message.double(number::VALUE, point.value);
                        created(message, number::CREATED, origin.of(point.from_ns));
                    });
                }
            }
            Metrics::Gauges(points) => {
                for point in points {
                    add(message, family, point.labels(), metric::GAUGE, |message| {
                        message.double(number::VALUE, point.value);
                    });
                }
            }
            Metrics::Histograms(buckets, all) => {
                let mut native = Native::default();
                for delays in all {
                    let series = delays.series;
                    add(message, family, delays.labels(), metric::HISTOGRAM, |message| {
                        classic(message, series, *buckets);
                        native.fill(&series.totals);
                        self::native(message, &native);
                        created(message, histogram::CREATED, origin.of(delays.from_ns));
                    });
                }
            }
        }
        if let Some(unit) = unit_of(family_name(family)) {
            message.text(family::UNIT, unit);
        }
    });
}

/// Adds a metric of a family: its labels, and the message of its kind.
fn add<'a>(
    message: &mut Message,
    family: &Family<'_>,
    labels: impl Iterator<Item = &'a str>,
    kind: u32,
    fill: impl FnOnce(&mut Message),
) {
    message.message(family::METRIC, |message| {
        for (name, value) in family.named(labels) {
            message.message(metric::LABEL, |message| {
                message.text(label::NAME, name);
                message.text(label::VALUE, &value);
            });
        }
        message.message(kind, fill);
    });
}

fn classic(message: &mut Message, series: &Series, buckets: Buckets) {
    message.unsigned(histogram::COUNT, series.totals.count());
    message.double(histogram::SUM, seconds(series.totals.sum_ns));
    for (bound, count) in bounds(buckets).zip(cumulative(series, buckets)) {
        message.message(histogram::BUCKET, |message| {
            message.unsigned(bucket::CUMULATIVE_COUNT, count);
            message.double(bucket::UPPER_BOUND, bound);
        });
    }
}

fn native(message: &mut Message, native: &Native) {
    message.zigzag(histogram::SCHEMA, SCHEMA);
    message.double(histogram::ZERO_THRESHOLD, ZERO_THRESHOLD_S);
    message.unsigned(histogram::ZERO_COUNT, native.zero);
    for (offset, length) in native.spans() {
        message.message(histogram::POSITIVE_SPAN, |message| {
            message.zigzag(span::OFFSET, i64::from(offset));
            message.unsigned(span::LENGTH, length);
        });
    }
    message.zigzags(histogram::POSITIVE_DELTA, native.deltas());
}

fn created(message: &mut Message, field: u32, began: Duration) {
    message.message(field, |message| {
        message.unsigned(timestamp::SECONDS, began.as_secs());
        message.unsigned(timestamp::NANOS, began.subsec_nanos());
    });
}
