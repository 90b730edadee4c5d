//! PURE: how long delays were, over time.

use noise_common::hist::{BUCKETS, buckets_within, upper_bound_ns};
use noise_common::signals::Signal;
use noise_model::Histogram;

use super::history::History;
use super::page::Heatmap;

/// Where the rows end among the buckets: at each power of two, and behind the last bucket.
fn ends() -> Vec<usize> {
    let mut ends: Vec<usize> = (0..=u64::BITS).map(buckets_within).collect();
    ends.dedup();
    ends.retain(|end| *end > 0);
    ends
}

fn add_rows(rows: &mut [u64], ends: &[usize], delays: Histogram<&[u64]>) {
    for (bucket, count) in delays.buckets() {
        if let Some(row) = rows.get_mut(ends.partition_point(|end| *end <= bucket)) {
            *row = row.saturating_add(count);
        }
    }
}

/// The delays of a signal with the wanted label values, all together: a column for each step, a row
/// for each power of two. Rows beyond the first that stays empty are left out; all of them where
/// there was no delay.
pub fn heatmap(
    history: &History,
    title: &str,
    signal: Signal,
    wanted: impl Fn(&[String]) -> bool,
) -> Heatmap {
    let ends = ends();
    let mut windows = Vec::new();
    let mut seconds = 0.0;
    for step in history.steps() {
        let mut rows = vec![0; ends.len()];
        let delays = step.delays_of(signal).filter(|(labels, _)| wanted(labels));
        delays.for_each(|(_, delays)| add_rows(&mut rows, &ends, delays));
        windows.push(rows);
        seconds += step.seconds();
    }
    let used =
        |row: &usize| windows.iter().any(|rows| rows.get(*row).is_some_and(|count| *count > 0));
    let first = (0..ends.len()).find(used);
    let last = (0..ends.len()).rev().find(used);
    let shown = match first.zip(last) {
        Some((first, last)) => first.saturating_sub(1)..(last + 2).min(ends.len()),
        None => 0..0,
    };
    let cut = |rows: &Vec<u64>| rows.get(shown.clone()).unwrap_or_default().to_vec();
    let bounds = ends.get(shown.clone()).unwrap_or_default().iter();
    Heatmap {
        title: title.to_owned(),
        bounds_ns: bounds
            .map(|end| upper_bound_ns(end.saturating_sub(1)).filter(|_| *end < BUCKETS))
            .collect(),
        window_seconds: if windows.is_empty() { 0.0 } else { seconds / windows.len() as f64 },
        windows: windows.iter().map(cut).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::{Made, history};

    fn all(_: &[String]) -> bool {
        true
    }

    #[test]
    fn a_row_for_each_power_of_two_that_occurs_and_one_beside() {
        let history = history([
            Made::new(1).delays(Signal::Nmi, &[], &[1_000]),
            Made::new(2).delays(Signal::Nmi, &[], &[1_000, 1_024, 1_025, 4_096]),
            Made::new(4).delays(Signal::Nmi, &[], &[1_000, 1_024, 1_025, 4_096, 900]),
        ]);
        let heat = heatmap(&history, "nmi", Signal::Nmi, all);
        assert_eq!(heat.bounds_ns, [512, 1_024, 2_048, 4_096, 8_192].map(Some));
        assert_eq!(heat.windows, [[0, 1, 1, 1, 0], [0, 1, 0, 0, 0]]);
        assert_eq!((heat.title.as_str(), heat.window_seconds), ("nmi", 1.5));
    }

    #[test]
    fn ends_of_the_range() {
        let history = history([
            Made::new(1),
            Made::new(2).delays(Signal::Nmi, &[], &[0, 256]).delays(Signal::Compaction, &[], &[1]),
            Made::new(3).delays(Signal::Nmi, &[], &[0, 256, 1 << 36, u64::MAX >> 8]),
        ]);
        let heat = heatmap(&history, "", Signal::Nmi, all);
        assert_eq!(heat, heatmap(&history, "", Signal::Nmi, <[String]>::is_empty));
        assert_eq!(heat.bounds_ns.len(), 30);
        assert_eq!((heat.bounds_ns[0], heat.bounds_ns[28]), (Some(256), Some(1 << 36)));
        assert_eq!(heat.bounds_ns[29], None);
        assert_eq!((heat.windows[0][0], heat.windows[0][1..].iter().sum::<u64>()), (2, 0));
        assert_eq!((heat.windows[1][0], heat.windows[1][28], heat.windows[1][29]), (0, 1, 1));
        assert_eq!(heat.window_seconds, 1.0);
    }

    #[test]
    fn nothing_is_no_row() {
        assert_eq!(heatmap(&History::default(), "", Signal::Nmi, all), Heatmap::default());
        let quiet = history([Made::new(1), Made::new(2), Made::new(5)]);
        let heat = heatmap(&quiet, "quiet", Signal::Nmi, all);
        assert_eq!((heat.bounds_ns.len(), heat.windows.len()), (0, 2));
        assert_eq!(heat.window_seconds, 2.0);
    }
}
