//! PURE: what differs between a sample and the one before it.

use std::cmp::Ordering;

use noise_text::joined::side_by_side;

use super::amount::Amount;

/// Each of `now` with its counterpart of `before`, and those of `before` that are gone. Both are in order.
pub fn changes<'a, T: 'a>(
    before: impl IntoIterator<Item = &'a T>,
    now: impl IntoIterator<Item = &'a T>,
    compare: impl Fn(&T, &T) -> Ordering,
) -> (Vec<(Option<&'a T>, &'a T)>, Vec<&'a T>) {
    let (mut both, mut gone) = (Vec::new(), Vec::new());
    for pair in side_by_side(before, now, |a, b| compare(a, b)) {
        match pair {
            (before, Some(now)) => both.push((before, now)),
            (before, None) => gone.extend(before),
        }
    }
    (both, gone)
}

/// What came since a reading; where something of it is less, counting began anew.
pub fn grown<V: Amount>(now: &V, before: Option<&V>) -> V {
    match before {
        Some(before) if now.reaches(before) => now.since(before),
        _ => now.clone(),
    }
}

/// What is new of a counter that runs since boot: one that was not there before, as that of a CPU
/// that came online, or has less than then, says nothing of what is new.
pub fn since_boot(before: Option<u64>, now: u64) -> u64 {
    before.and_then(|before| now.checked_sub(before)).unwrap_or_default()
}
