//! Kinds of sketches, and the sketches that are like one.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use noise_sketches::document::{Nearest, SketchesDocument};
use noise_sketches::slices::NONE;
use noise_sketches::system::System;
use noise_sketches::tiers::percentile;
use noise_sketches::whole::Sketch;
use noise_text::clean::clean;

use super::tree::milli;

/// Kinds that are shown, and processes that are named of each.
const SHOWN_KINDS: usize = 10;
const SHOWN_PROCESSES: usize = 6;

/// A row for each kind of sketches, those with most time first.
pub fn kinds(document: &SketchesDocument<'_>) -> String {
    let mut kinds: BTreeMap<u32, Vec<&Sketch>> = BTreeMap::new();
    for sketch in document.sketches() {
        kinds.entry(sketch.cluster).or_default().push(sketch);
    }
    let all_ns = |sketches: &[&Sketch]| {
        sketches.iter().fold(0u64, |sum, sketch| sum.saturating_add(sketch.latency_ns()))
    };
    if kinds.is_empty() {
        return String::new();
    }
    let mut kinds: Vec<(u32, Vec<&Sketch>)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, sketches)| Reverse(all_ns(sketches)));
    let mut table = format!(
        "\n  {:<14} {:>8} {:>8} {:>10} {:>10} {:>10}  {}\n",
        "kind of sketch", "count", "slices", "p50", "p99", "idle sd", "which goes through"
    );
    for (cluster, sketches) in kinds.iter_mut().take(SHOWN_KINDS) {
        sketches.sort_by_key(|sketch| (sketch.latency_ns(), sketch.first));
        let latencies: Vec<u64> = sketches.iter().map(|sketch| sketch.latency_ns()).collect();
        let Some(middle) = sketches.get((sketches.len() - 1) / 2) else { continue };
        table.push_str(&format!(
            "  {:<14} {:>8} {:>8} {:>10} {:>10} {:>10}  {}\n",
            if *cluster == NONE { "none".to_owned() } else { cluster.to_string() },
            sketches.len(),
            middle.slices,
            milli(percentile(&latencies, 50) as f64),
            milli(percentile(&latencies, 99) as f64),
            milli(middle.idle_variance.sqrt()),
            way(document.system, middle),
        ));
    }
    if kinds.len() > SHOWN_KINDS {
        table.push_str(&format!("  {} more are in --json\n", kinds.len() - SHOWN_KINDS));
    }
    table
}

/// The sketches that are like one, a row each.
pub fn near(system: &System, nearest: &Nearest) -> String {
    let Nearest { to, sketches } = nearest;
    if sketches.is_empty() {
        return format!(
            "\nNo sketch is near to sketch {to}: no other one is selected, or their system calls are not known.\n"
        );
    }
    let mut table = format!(
        "\nNearest to sketch {to}:\n\n  {:>14} {:>10} {:>8} {:>8} {:>10}  {}\n",
        "sketch", "distance", "kind", "slices", "latency", "which goes through"
    );
    for near in sketches {
        let Some(sketch) = system.wholes.get(near.sketch) else { continue };
        let kind = match sketch.cluster {
            NONE => "none".to_owned(),
            cluster => cluster.to_string(),
        };
        table.push_str(&format!(
            "  {:>14} {:>10.3} {kind:>8} {:>8} {:>10}  {}\n",
            near.sketch,
            near.distance,
            sketch.slices,
            milli(sketch.latency_ns() as f64),
            way(system, sketch),
        ));
    }
    table
}

/// The processes of a sketch, in the order in which it comes to them.
fn way(system: &System, sketch: &Sketch) -> String {
    let slices = system.wholes.members(sketch).iter().filter_map(|id| system.slice(*id));
    let mut first: BTreeMap<String, u64> = BTreeMap::new();
    for slice in slices {
        let process = system.thread(slice).map(|thread| thread.process.to_string());
        let from_ns = first.entry(process.unwrap_or_default()).or_insert(slice.from_ns);
        *from_ns = slice.from_ns.min(*from_ns);
    }
    let mut names: Vec<(String, u64)> = first.into_iter().collect();
    names.sort_by_key(|(_, from_ns)| *from_ns);
    let shown = names.iter().take(SHOWN_PROCESSES).map(|(name, _)| clean(name).into_owned());
    let mut shown: Vec<String> = shown.collect();
    if names.len() > SHOWN_PROCESSES {
        shown.push(format!("{} more", names.len() - SHOWN_PROCESSES));
    }
    shown.join(" > ")
}
