//! The metrics of the flight recorder.

use noise_model::{Model, Recorder};

use super::family::{Family, seconds};

/// None where there is no recorder.
pub fn families(model: &Model) -> Vec<Family<'_>> {
    let Some(recorder) = model.sample.recorder else { return Vec::new() };
    let Recorder { bytes, events, overwritten, held_ns, held_median_ns, next_bytes } = recorder;
    let mut families = vec![
        Family::gauge("noised_recorder_bytes", "Memory of the flight recorder.", bytes as f64),
        Family::counter(
            "noised_recorder_events_total",
            "Kernel events that were written to the flight recorder.",
            events as f64,
        ),
        Family::counter(
            "noised_recorder_overwritten_total",
            "Of these, the ones that newer ones replaced before they were read.",
            overwritten as f64,
        ),
        Family::gauge(
            "noised_recorder_seconds_held",
            "How far back the flight recorder goes on every CPU.",
            seconds(held_ns),
        ),
        Family::gauge(
            "noised_recorder_seconds_held_median",
            "How far back the flight recorder goes on half of the CPUs at least.",
            seconds(held_median_ns),
        ),
    ];
    if next_bytes > 0 {
        families.push(Family::gauge(
            "noised_recorder_next_bytes",
            "Memory that the flight recorder would have after a restart, by what is remembered of the last days.",
            next_bytes as f64,
        ));
    }
    families
}
