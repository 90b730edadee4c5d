//! PURE: a distribution over time, and values over time, as lines.

use noise_model::total;
use noise_text::bars::{folded, low_block, roughly};
use noise_text::clean::clean;
use noise_text::columns::{cut, pad, width};
use noise_text::units::bound;
use ratatui::text::{Line, Span};

use super::theme::Theme;
use crate::page::Heatmap;

/// Columns of the labels of the y axis, with the axis.
const LABEL: usize = 10;
/// Rows of a heatmap at most.
const ROWS: usize = 14;
/// Rows of a graph.
const GRAPH_ROWS: usize = 6;
/// Columns of one window at most.
const WIDEST: usize = 3;

/// Rows of the picture: what is its upper bound, and its counts, the newest last.
struct BucketBand {
    bound_ns: Option<u64>,
    counts: Vec<u64>,
}

fn bands(map: &Heatmap, columns: usize) -> Vec<BucketBand> {
    let of = |window: &Vec<u64>, row: usize| window.get(row).copied().unwrap_or(0);
    let is_used = |row: &usize| map.windows.iter().any(|window| of(window, *row) > 0);
    let mut rows = 0..map.bounds_ns.len();
    let (Some(first), Some(last)) = (rows.find(is_used), (0..map.bounds_ns.len()).rfind(is_used))
    else {
        return Vec::new();
    };
    let together = (last + 1 - first).div_ceil(ROWS);
    let windows = map.windows.len().div_ceil(columns.max(1)).max(1);
    let rows: Vec<usize> = (first..=last).collect();
    let band = |rows: &[usize]| BucketBand {
        bound_ns: rows.last().and_then(|row| map.bounds_ns.get(*row)).copied().flatten(),
        counts: {
            let parts = map.windows.rchunks(windows);
            let sum = |part: &[Vec<u64>]| {
                total(part.iter().flat_map(|window| rows.iter().map(|row| of(window, *row))))
            };
            let mut counts: Vec<u64> = parts.map(sum).collect();
            counts.reverse();
            counts
        },
    };
    rows.chunks(together).map(band).collect()
}

/// A heatmap in so many columns.
pub fn heatmap(map: &Heatmap, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let title = Line::styled(cut(&map.title, columns), theme.title());
    let room = columns.saturating_sub(LABEL + 1).max(1);
    let bands = bands(map, room);
    let most = bands.iter().flat_map(|band| &band.counts).copied().max().unwrap_or(0);
    if most == 0 {
        return vec![title, Line::styled("  nothing happened", theme.tone(crate::Tone::Dim))];
    }
    let heat = |count: u64| match most {
        1 => 1.0,
        _ => (count as f64).ln() / (most as f64).ln(),
    };
    let drawn = bands.first().map_or(1, |band| band.counts.len()).max(1);
    let wide = (room / drawn).clamp(1, WIDEST);
    let mut lines = vec![title];
    for (index, band) in bands.iter().enumerate().rev() {
        let label = match (band.bound_ns, index.checked_sub(1).and_then(|below| bands.get(below))) {
            (Some(ns), _) => format!("≤ {}", bound(ns)),
            (None, Some(BucketBand { bound_ns: Some(ns), .. })) => format!("> {}", bound(*ns)),
            (None, _) => "longer".to_owned(),
        };
        let label = pad(&label, LABEL - 1, true) + " │";
        let cells = band.counts.iter().map(|count| match count {
            0 => Span::raw(" ".repeat(wide)),
            _ => {
                let (block, style) = theme.heat(heat(*count));
                Span::styled(block.to_string().repeat(wide), style)
            }
        });
        lines.push(Line::from_iter([Span::raw(label)].into_iter().chain(cells)));
    }
    let span = drawn * wide;
    let seconds = map.windows.len() as f64 * map.window_seconds;
    lines.push(Line::raw(pad("└", LABEL + 1, true) + &"─".repeat(span)));
    lines.push(Line::raw(" ".repeat(LABEL + 1) + &time_axis(seconds, span)));
    lines.push(legend(most, seconds / drawn as f64, theme));
    lines
}

/// Seconds ago, below a picture of so many columns.
fn time_axis(seconds: f64, columns: usize) -> String {
    let ago = |seconds: f64| format!("{} ago", roughly(seconds));
    let (left, middle, right) = (ago(seconds), ago(seconds / 2.0), "now");
    let used = width(&left) + width(&middle) + width(right);
    if columns < used + 4 {
        let before = columns.saturating_sub(right.len()).max(width(&left) + 1);
        return pad(&left, before, false) + right;
    }
    let half = columns / 2 + width(&middle) / 2;
    let left = pad(&left, half - width(&middle), false) + &middle;
    pad(&left, columns - right.len(), false) + right
}

fn legend(most: u64, seconds: f64, theme: Theme) -> Line<'static> {
    let (low, low_style) = theme.heat(0.0);
    let mut spans =
        vec![Span::raw(" ".repeat(LABEL + 1)), Span::styled(low.to_string(), low_style)];
    spans.push(Span::raw(" 1"));
    if most > 1 {
        let (high, high_style) = theme.heat(1.0);
        spans.push(Span::raw("  …  "));
        spans.push(Span::styled(high.to_string(), high_style));
        spans.push(Span::raw(format!(" {most}")));
    }
    spans.push(Span::raw(format!(", by the logarithm; a column is {}", roughly(seconds))));
    Line::from(spans)
}

/// Values over time in so many columns, with how the largest reads.
pub fn graph(
    title: &str,
    values: &[f64],
    largest: &str,
    columns: usize,
    theme: Theme,
) -> Vec<Line<'static>> {
    let label = width(largest).clamp(1, LABEL);
    let room = columns.saturating_sub(label + 2).max(1);
    let values = folded(values, room);
    let most = values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
    let all = GRAPH_ROWS * 8;
    let eighths = |value: f64| match value > 0.0 && most > 0.0 {
        true => ((value / most * all as f64).round() as usize).clamp(1, all),
        false => 0,
    };
    let heights: Vec<usize> = values.iter().map(|value| eighths(*value)).collect();
    let mut lines = vec![Line::styled(cut(title, columns), theme.title())];
    for row in (0..GRAPH_ROWS).rev() {
        let text = match row {
            0 => "0",
            row if row + 1 == GRAPH_ROWS => largest,
            _ => "",
        };
        let blocks = heights.iter().map(|height| low_block(height.saturating_sub(row * 8).min(8)));
        let label = pad(&clean(text), label, true) + " │";
        lines.push(Line::from(vec![
            Span::raw(label),
            Span::styled(blocks.collect::<String>(), theme.bar()),
        ]));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &[Line<'_>]) -> String {
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn a_heatmap_shows_the_rows_that_are_used_with_the_longest_on_top() {
        let map = Heatmap {
            title: "runqueue_wait".to_owned(),
            bounds_ns: vec![Some(256), Some(1_280), Some(2_560_000), None],
            windows: vec![vec![0, 1, 0, 0], vec![0, 10, 1, 0], vec![0, 1_000, 0, 1]],
            window_seconds: 0.5,
        };
        let theme = Theme { colour: false };
        insta::assert_snapshot!(text(&heatmap(&map, 60, theme)), @r"
        runqueue_wait
         > 2.6 ms │      ░░░
         ≤ 2.6 ms │   ░░░   
         ≤ 1.3 µs │░░░▒▒▒███
                  └─────────
                   1.5 s ago now
                   ░ 1  …  █ 1000, by the logarithm; a column is 0.5 s
        ");
    }

    #[test]
    fn a_heatmap_without_counts_says_so() {
        let lines = heatmap(&Heatmap::default(), 60, Theme { colour: true });
        assert_eq!(text(&lines), "\n  nothing happened\n");
    }

    #[test]
    fn many_windows_and_rows_are_added_together() {
        let map = Heatmap {
            title: String::new(),
            bounds_ns: (1..=100).map(|row| Some(row * 1_000)).collect(),
            windows: vec![vec![1; 100]; 1_000],
            window_seconds: 0.1,
        };
        let bands = bands(&map, 60);
        assert!(bands.len() <= ROWS && bands.iter().all(|band| band.counts.len() <= 60));
        let sum: u64 = bands.iter().flat_map(|band| &band.counts).sum();
        assert_eq!(sum, 100_000);
        let lines = heatmap(&map, 71, Theme { colour: true });
        assert!(lines.iter().all(|line| line.width() <= 71), "{}", text(&lines));
    }
}
