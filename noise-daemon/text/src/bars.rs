//! PURE: bars, curves of blocks, and numbers that stand beside them.

use crate::columns::pad;

/// Parts of a block, the smallest first.
const LOW_BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const LEFT_BLOCKS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

fn block(blocks: [char; 8], eighths: usize) -> Option<char> {
    eighths.checked_sub(1).and_then(|index| blocks.get(index)).copied()
}

/// The block of so many eighths of a row's height, a blank for none.
pub fn low_block(eighths: usize) -> char {
    block(LOW_BLOCKS, eighths).unwrap_or(' ')
}

/// A bar for a part of a whole.
pub fn bar(share: f64, columns: usize) -> String {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let all = share * columns as f64 * 8.0;
    // What is there at all is seen.
    let eighths = if all > 0.0 { (all.round() as usize).max(1) } else { 0 };
    let mut bar = "█".repeat(eighths / 8);
    bar.extend(block(LEFT_BLOCKS, eighths % 8));
    pad(&bar, columns, false)
}

/// A share as people read it, in at most six columns.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if !percent.is_finite() {
        String::new()
    } else if percent == 0.0 {
        "0 %".to_owned()
    } else if percent.abs() < 0.1 {
        "<0.1 %".to_owned()
    } else if percent.abs() < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// The largest of each of so many parts of the values, the newest last; fewer where there are fewer values.
pub fn folded(values: &[f64], columns: usize) -> Vec<f64> {
    let part = values.len().div_ceil(columns.max(1)).max(1);
    let largest = |part: &[f64]| part.iter().copied().fold(0.0, f64::max);
    let mut parts: Vec<f64> = values.rchunks(part).take(columns).map(largest).collect();
    parts.reverse();
    parts
}

/// Values over time in one row, the newest at the right.
pub fn spark(values: &[f64], columns: usize) -> String {
    let values = folded(values, columns);
    let most = values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
    let eighths = |value: f64| match value > 0.0 && most > 0.0 {
        true => ((value / most * 8.0).ceil() as usize).clamp(1, 8),
        false => 0,
    };
    let line: String = values.iter().map(|value| low_block(eighths(*value))).collect();
    pad(&line, columns, true)
}

/// Seconds as people say them, roughly: `12 s`, `3 min`, `2 h`.
pub fn roughly(seconds: f64) -> String {
    let seconds = seconds.max(0.0);
    match seconds {
        ..1.95 => format!("{seconds:.1} s"),
        ..119.5 => format!("{seconds:.0} s"),
        ..7_170.0 => format!("{:.0} min", seconds / 60.0),
        ..172_800.0 => format!("{:.0} h", seconds / 3_600.0),
        _ => format!("{:.0} d", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_whatever_is_there() {
        assert_eq!(bar(0.5, 4), "██  ");
        assert_eq!(bar(1e-9, 2), "▏ ");
        assert_eq!(bar(f64::NAN, 2), "  ");
        assert_eq!(bar(7.0, 2), "██");
    }

    #[test]
    fn shares_take_six_columns() {
        let shares = [0.0, 1e-5, 0.034, 0.0999, 0.55, 1.0];
        let texts: Vec<String> = shares.iter().map(|share| percent(*share)).collect();
        assert_eq!(texts, ["0 %", "<0.1 %", "3.4 %", "10 %", "55 %", "100 %"]);
    }

    #[test]
    fn a_spark_has_the_newest_at_the_right_and_the_largest_of_what_it_folds() {
        assert_eq!(spark(&[0.0, 4.0, 8.0], 5), "   ▄█");
        assert_eq!(spark(&[1.0, 0.0, 8.0, 8.0, 0.0], 3), "▁██");
        assert_eq!(spark(&[], 3), "   ");
        assert_eq!(spark(&[f64::NAN, 1.0], 2), " █");
    }
}
