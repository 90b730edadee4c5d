//! PURE: what differs between a sample and the one before it.

use std::cmp::Ordering;

use super::amount::Amount;

/// Each of `now` with its counterpart of `before`, and those of `before` that are gone. Both are in
/// order.
pub fn changes<'a, T: 'a>(
    before: impl IntoIterator<Item = &'a T>,
    now: impl IntoIterator<Item = &'a T>,
    compare: impl Fn(&T, &T) -> Ordering,
) -> (Vec<(Option<&'a T>, &'a T)>, Vec<&'a T>) {
    let mut before = before.into_iter().peekable();
    let now = now.into_iter();
    let (mut both, mut gone) = (Vec::with_capacity(now.size_hint().0), Vec::new());
    for one in now {
        while let Some(past) = before.next_if(|past| compare(past, one).is_lt()) {
            gone.push(past);
        }
        both.push((before.next_if(|past| compare(past, one).is_eq()), one));
    }
    gone.extend(before);
    (both, gone)
}

/// What came since a reading; where something of it is less, counting began anew.
pub fn grown<V: Amount>(now: &V, before: Option<&V>) -> V {
    match before {
        Some(before) if now.reaches(before) => now.since(before),
        _ => now.clone(),
    }
}
