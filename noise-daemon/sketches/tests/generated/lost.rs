//! Lost events.

use std::collections::HashMap;

use noise_sketches::input::{Input, What};

use super::chance::Chance;

/// The events without some, which are lost up to twenty in a row on a CPU.
pub fn lossy<'a>(
    all: impl Iterator<Item = &'a Input<'static>>,
    permille: u64,
    seed: u64,
) -> Vec<Input<'static>> {
    let mut chance = Chance::new(seed ^ 0x1055);
    let mut left: HashMap<u32, u64> = HashMap::new();
    let mut events = Vec::new();
    for input in all {
        // The state dump is not lost.
        if matches!(input.what, What::Known(_)) {
            events.push(*input);
            continue;
        }
        let left = left.entry(input.cpu).or_default();
        if *left == 0 && chance.below(10_500) < permille {
            *left = 1 + chance.below(20);
        }
        if *left == 0 {
            events.push(*input);
            continue;
        }
        *left -= 1;
        if *left == 0 {
            events.push(Input { what: What::Lost { until_ns: 0 }, ..*input });
        }
    }
    events
}
