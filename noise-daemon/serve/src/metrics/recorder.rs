//! The metrics of the flight recorder.

use noise_model::{Model, Recorder};
use prometheus::proto::{MetricFamily, MetricType};

use super::{counter, family, gauge, seconds};

/// None where there is no recorder.
pub fn families(model: &Model) -> Vec<MetricFamily> {
    let Some(recorder) = model.sample.recorder else { return Vec::new() };
    let Recorder { bytes, events, overwritten, held_ns } = recorder;
    vec![
        family(
            "noised_recorder_bytes",
            "Memory of the flight recorder.",
            MetricType::GAUGE,
            vec![gauge(&[], &[], bytes as f64)],
        ),
        family(
            "noised_recorder_events_total",
            "Kernel events that were written to the flight recorder.",
            MetricType::COUNTER,
            vec![counter(&[], &[], events as f64)],
        ),
        family(
            "noised_recorder_overwritten_total",
            "Of these, the ones that newer ones replaced before they were read.",
            MetricType::COUNTER,
            vec![counter(&[], &[], overwritten as f64)],
        ),
        family(
            "noised_recorder_seconds_held",
            "How far back the flight recorder goes on every CPU.",
            MetricType::GAUGE,
            vec![gauge(&[], &[], seconds(held_ns))],
        ),
    ]
}
