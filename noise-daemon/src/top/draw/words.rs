//! PURE: words and numbers that fit into a place on the screen.

use ratatui::text::Span;

use crate::clean::clean;

/// Stands for what was cut off.
const CUT: char = '…';
/// Parts of a block, the smallest first.
const LOW_BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const LEFT_BLOCKS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// Columns of the screen that a text takes.
pub fn width(text: &str) -> usize {
    // Nearly all texts are of these, and a table has thousands.
    let is_plain = |c| matches!(c, ' '..='~' | 'µ' | '–' | '…');
    if text.chars().all(is_plain) { text.chars().count() } else { Span::raw(clean(text)).width() }
}

fn char_width(c: char) -> usize {
    if c.is_ascii() { 1 } else { Span::raw(c.encode_utf8(&mut [0; 4]) as &str).width() }
}

/// The longest beginning that takes at most so many columns.
fn beginning<'a>(chars: impl Iterator<Item = &'a char>, columns: usize) -> Vec<char> {
    let mut left = columns;
    let fits = |c: &&char| {
        let width = char_width(**c);
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    };
    chars.take_while(fits).copied().collect()
}

/// A name in at most so many columns. A path that is longer loses its begin, as its end says most;
/// another name its middle.
pub fn shorten(text: &str, columns: usize) -> String {
    let text = clean(text);
    if width(&text) <= columns {
        return text.into_owned();
    }
    let Some(rest) = columns.checked_sub(1) else { return String::new() };
    let leaf = text.rsplit('/').next().unwrap_or_default();
    let is_path = text.starts_with('/') && !leaf.is_empty();
    if is_path && width(leaf) == columns {
        return leaf.to_owned();
    }
    let is_whole = is_path && width(leaf) < columns;
    let chars: Vec<char> = if is_path { leaf } else { &text }.chars().collect();
    let (chars, head) = match is_whole {
        true => (text.chars().collect(), 0),
        false => (chars, rest.div_ceil(2)),
    };
    let head = beginning(chars.iter(), head);
    let tail = rest - if is_whole { 0 } else { rest.div_ceil(2) };
    let mut tail = beginning(chars.iter().rev(), tail);
    tail.reverse();
    head.into_iter().chain([CUT]).chain(tail).collect()
}

/// A sentence in at most so many columns, without its end where it is longer.
pub fn cut(text: &str, columns: usize) -> String {
    let text = clean(text);
    if width(&text) <= columns {
        return text.into_owned();
    }
    let Some(rest) = columns.checked_sub(1) else { return String::new() };
    let chars: Vec<char> = text.chars().collect();
    beginning(chars.iter(), rest).into_iter().chain([CUT]).collect()
}

/// A text with blanks behind it, or before it.
pub fn pad(text: &str, columns: usize, right: bool) -> String {
    let blanks = " ".repeat(columns.saturating_sub(width(text)));
    if right { blanks + text } else { text.to_owned() + &blanks }
}

/// A sentence in lines of at most so many columns, broken at blanks.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let text = clean(text);
    let indent: String = text.chars().take_while(|c| *c == ' ').collect();
    let columns = columns.max(indent.len() + 8);
    let mut lines = Vec::new();
    let mut line = indent.clone();
    for word in text.split_whitespace() {
        let blank = usize::from(line.len() > indent.len());
        if blank > 0 && width(&line) + blank + width(word) > columns {
            lines.push(std::mem::replace(&mut line, indent.clone()));
        } else if blank > 0 {
            line.push(' ');
        }
        let mut word: Vec<char> = word.chars().collect();
        // A word that is longer than a line is broken anywhere.
        while width(&line) + word.iter().copied().map(char_width).sum::<usize>() > columns {
            let part = beginning(word.iter(), columns.saturating_sub(width(&line)));
            if part.is_empty() {
                break;
            }
            word.drain(..part.len());
            line.extend(part);
            lines.push(std::mem::replace(&mut line, indent.clone()));
        }
        line.extend(word);
    }
    lines.push(line);
    lines
}

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

/// The largest of each of so many parts of the values, the newest last; fewer where there are
/// fewer values.
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
    fn long_names_keep_what_says_most_and_harmful_characters_are_replaced() {
        assert_eq!(shorten("irq 36 virtio1-req.0", 12), "irq 36…req.0");
        assert_eq!(shorten("/system.slice/web.service", 16), "…ice/web.service");
        assert_eq!(shorten("/system.slice/web.service", 11), "web.service");
        assert_eq!(shorten("/system.slice/backup.service", 12), "backup…rvice");
        assert_eq!(shorten("web", 12), "web");
        assert_eq!(shorten("web", 1), "…");
        assert_eq!(shorten("web", 0), "");
        assert_eq!(shorten("a\x1b[31m\u{202e}b", 18), r"a\x1b[31m\u{202e}b");
        assert_eq!(width(&shorten("日本語日本語", 6)), 5);
        assert_eq!(cut("a long sentence", 7), "a long…");
    }

    #[test]
    fn lines_break_at_blanks_and_keep_their_indent() {
        assert_eq!(wrap("  who did this to me", 12), ["  who did", "  this to me"]);
        assert_eq!(wrap("abcdefghijkl", 8), ["abcdefgh", "ijkl"]);
        assert_eq!(wrap("", 8), [""]);
    }

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
