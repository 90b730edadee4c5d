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

/// Numbers of fields, by message.
mod family {
    pub const NAME: u32 = 1;
    pub const HELP: u32 = 2;
    pub const TYPE: u32 = 3;
    pub const METRIC: u32 = 4;
    pub const UNIT: u32 = 5;
}
mod metric {
    pub const LABEL: u32 = 1;
    pub const GAUGE: u32 = 2;
    pub const COUNTER: u32 = 3;
    pub const HISTOGRAM: u32 = 7;
}
mod label {
    pub const NAME: u32 = 1;
    pub const VALUE: u32 = 2;
}
mod number {
    pub const VALUE: u32 = 1;
    pub const CREATED: u32 = 3;
}
mod histogram {
    pub const COUNT: u32 = 1;
    pub const SUM: u32 = 2;
    pub const BUCKET: u32 = 3;
    pub const SCHEMA: u32 = 5;
    pub const ZERO_THRESHOLD: u32 = 6;
    pub const ZERO_COUNT: u32 = 7;
    pub const POSITIVE_SPAN: u32 = 12;
    pub const POSITIVE_DELTA: u32 = 13;
    pub const CREATED: u32 = 15;
}
mod bucket {
    pub const CUMULATIVE_COUNT: u32 = 1;
    pub const UPPER_BOUND: u32 = 2;
}
mod span {
    pub const OFFSET: u32 = 1;
    pub const LENGTH: u32 = 2;
}
mod timestamp {
    pub const SECONDS: u32 = 1;
    pub const NANOS: u32 = 2;
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
