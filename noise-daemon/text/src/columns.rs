//! PURE: names and sentences that fit into so many columns of a terminal.

use unicode_width::UnicodeWidthStr as _;

use super::clean::clean;

/// Stands for what was cut off.
const CUT: char = '…';

/// Columns of the screen that a text takes.
pub fn width(text: &str) -> usize {
    // Nearly all texts are of these, and a table has thousands.
    let is_plain = |c| matches!(c, ' '..='~' | 'µ' | '–' | '…');
    if text.chars().all(is_plain) { text.chars().count() } else { clean(text).width() }
}

fn char_width(c: char) -> usize {
    if c.is_ascii() { 1 } else { c.encode_utf8(&mut [0; 4]).width() }
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
}
