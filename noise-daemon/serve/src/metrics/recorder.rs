//! The metrics of the flight recorder.

use noise_model::{Model, Recorder};

use super::family::{Family, Point, seconds};

/// None where there is no recorder.
pub fn families(model: &Model) -> Vec<Family<'_>> {
    let Some(recorder) = model.sample.recorder else { return Vec::new() };
    let Recorder { bytes, events, overwritten, held_ns, held_median_ns, next_bytes } = recorder;
    vec![
        Family::gauges(
            "noised_recorder_bytes",
            "Memory of the flight recorder.",
            &[],
            [Point::bare(bytes as f64)],
        ),
        Family::counters(
            "noised_recorder_events_total",
            "Kernel events that were written to the flight recorder.",
            &[],
            [Point::bare(events as f64)],
        ),
        Family::counters(
            "noised_recorder_overwritten_total",
            "Of these, the ones that newer ones replaced before they were read.",
            &[],
            [Point::bare(overwritten as f64)],
        ),
        Family::gauges(
            "noised_recorder_seconds_held",
            "How far back the flight recorder goes on every CPU.",
            &[],
            [Point::bare(seconds(held_ns))],
        ),
        Family::gauges(
            "noised_recorder_seconds_held_median",
            "How far back the flight recorder goes on half of the CPUs at least.",
            &[],
            [Point::bare(seconds(held_median_ns))],
        ),
        Family::gauges(
            "noised_recorder_next_bytes",
            "Memory that the flight recorder would have after a restart, by the busiest 10 s of the last day.",
            &[],
            [Point::bare(next_bytes as f64)],
        ),
    ]
}
