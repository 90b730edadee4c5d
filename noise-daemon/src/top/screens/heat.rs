//! Distributions over time.

use noise_common::hist::{BUCKETS, upper_bound_ns};
use noise_common::signals::Signal;

use crate::model::Totals;
use crate::top::{Block, Heatmap, History};

/// The row of a bucket: the power of two at or above its bound; what is beyond all bounds is a row
/// above.
fn row_of(bucket: usize) -> u32 {
    let exponent = |bound_ns: u64| bound_ns.next_power_of_two().trailing_zeros();
    upper_bound_ns(bucket).map_or_else(beyond, exponent)
}

fn beyond() -> u32 {
    upper_bound_ns(BUCKETS - 2).map_or(u64::BITS, |bound_ns| bound_ns.trailing_zeros() + 1)
}

fn bound_ns(row: u32) -> Option<u64> {
    (row < beyond()).then(|| 1 << row)
}

/// The delays of a signal and subject, step by step; nothing where there were none.
pub(super) fn heatmap(
    history: &History,
    title: String,
    signal: Signal,
    labels: &[String],
) -> Option<Block> {
    let key = (signal, labels.to_vec());
    let steps: Vec<Option<&Totals>> = history
        .steps()
        .map(|step| step.span.delays.get(&key).map(|delays| &delays.totals))
        .collect();
    let is_used = |bucket: &usize| {
        steps.iter().flatten().any(|totals| totals.buckets.get(*bucket).is_some_and(|n| *n > 0))
    };
    let first = row_of((0..BUCKETS).find(is_used)?);
    let last = row_of((0..BUCKETS).rfind(is_used)?);
    let window = |totals: &Option<&Totals>| {
        let mut counts = vec![0; (last - first + 1) as usize];
        let buckets = totals.iter().flat_map(|totals| totals.buckets.iter().enumerate());
        for (bucket, count) in buckets.filter(|(_, count)| **count > 0) {
            let row = row_of(bucket).saturating_sub(first) as usize;
            if let Some(own) = counts.get_mut(row) {
                *own += count;
            }
        }
        counts
    };
    let seconds: f64 = history.steps().map(|step| step.span.seconds).sum();
    Some(Block::Heatmap(Heatmap {
        title,
        bounds_ns: (first..=last).map(bound_ns).collect(),
        windows: steps.iter().map(window).collect(),
        window_seconds: seconds / steps.len().max(1) as f64,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::screens::made::Made;

    fn of(made: &Made) -> Option<Heatmap> {
        let labels = ["vda".to_owned(), "read".to_owned()];
        let block = heatmap(&made.history, String::new(), Signal::BlockDeviceWait, &labels)?;
        let Block::Heatmap(heatmap) = block else { panic!("{block:?}") };
        Some(heatmap)
    }

    #[test]
    fn only_the_range_that_occurs_is_told() {
        let mut made = Made::new();
        made.frame();
        assert_eq!(of(&made), None);
        let mut delay = |ns, count| {
            made.delay(Signal::BlockDeviceWait, &["vda", "read"], ns, count);
            made.delay(Signal::BlockDeviceWait, &["vda", "write"], 1 << 30, 1);
        };
        delay(1 << 20, 3);
        delay((1 << 20) - 300_000, 2);
        delay((1 << 20) + 1, 4);
        made.frame();
        made.frame();
        made.delay(Signal::BlockDeviceWait, &["vda", "read"], 1 << 22, 5);
        made.frame();
        let heatmap = of(&made).unwrap();
        assert_eq!(heatmap.bounds_ns, [Some(1 << 20), Some(1 << 21), Some(1 << 22)]);
        assert_eq!(heatmap.windows, [vec![5, 4, 0], vec![0; 3], vec![0, 0, 5]]);
        assert_eq!(heatmap.window_seconds, 1.0);
    }

    #[test]
    fn both_ends_have_a_row() {
        let mut made = Made::new();
        made.frame();
        made.delay(Signal::BlockDeviceWait, &["vda", "read"], 1, 1);
        made.delay(Signal::BlockDeviceWait, &["vda", "read"], u64::MAX >> 8, 1);
        made.frame();
        let heatmap = of(&made).unwrap();
        assert_eq!(heatmap.bounds_ns.len(), 30);
        assert_eq!(heatmap.bounds_ns[0], Some(256));
        assert_eq!(heatmap.bounds_ns[28..], [Some(1 << 36), None]);
        assert_eq!((heatmap.windows[0][0], heatmap.windows[0][29]), (1, 1));
    }
}
