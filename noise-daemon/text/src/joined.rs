//! PURE: two lists in the same order, side by side.

use std::cmp::Ordering;

/// The same things of two lists, and what only one of them has. Both are in that order; where one is
/// not, counterparts are missed, never mistaken.
pub fn side_by_side<A, B>(
    before: impl IntoIterator<Item = A>,
    now: impl IntoIterator<Item = B>,
    order: impl Fn(&A, &B) -> Ordering,
) -> impl Iterator<Item = (Option<A>, Option<B>)> {
    let mut before = before.into_iter().peekable();
    let mut now = now.into_iter().peekable();
    std::iter::from_fn(move || {
        let next = match (before.peek(), now.peek()) {
            (Some(one), Some(other)) => order(one, other),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        let one = if next.is_le() { before.next() } else { None };
        Some((one, if next.is_ge() { now.next() } else { None }))
    })
}

/// Each of the newer with what it was before, if it was there.
pub fn joined<A, B>(
    before: impl IntoIterator<Item = A>,
    now: impl IntoIterator<Item = B>,
    order: impl Fn(&A, &B) -> Ordering,
) -> impl Iterator<Item = (Option<A>, B)> {
    side_by_side(before, now, order).filter_map(|(before, now)| Some((before, now?)))
}

/// The elements in order. Those of samples are in order already, unless a peer or a file broke that rule.
pub fn in_order<T>(all: &[T], order: impl Fn(&T, &T) -> Ordering) -> Vec<&T> {
    let mut all: Vec<&T> = all.iter().collect();
    all.sort_by(|a, b| order(a, b));
    all
}
