//! PURE: texts of others as they may be shown: on a terminal, in a log, on a page, in a metric.
//!
//! Tasks, cgroups, interfaces and hosts bear the names that their makers chose, of nearly any bytes,
//! and a daemon elsewhere answers what it likes. Raw, such a text moves the cursor, changes colours or
//! the clipboard, forges a line of a log, or shows its characters in another order than they have.
//! Texts are cleaned twice: where they enter ([`reading`], and the names of this host where they are
//! looked up), and once more as a whole where they leave (standard output and error, the log, metrics,
//! the screen), so that a name which was missed on its way in harms nothing.
//!
//! What is harmful is shown as an escape: `\x1b`, `\u{202e}`. Cleaning twice is cleaning once.

pub mod reading;

use std::borrow::Cow;
use std::fmt::Write as _;

/// Longest name that is kept of a document, in characters: no path that the kernel takes is longer.
const MOST_CHARS: usize = 4_096;
/// Characters of a file's content that a message shows at once.
const QUOTED_CHARS: usize = 200;
/// Characters of a parser's message.
const MESSAGE_CHARS: usize = 1000;

/// Bytes of a text that are looked at together.
const BLOCK_BYTES: usize = 256;

/// Whether a character acts on a terminal, is invisible, or changes the order of others: control
/// characters (C0, DEL and C1), format characters (bidirectional controls, joiners, tags, soft hyphen),
/// fillers without a shape, separators of lines, and what is no character at all.
pub const fn is_harmful(c: char) -> bool {
    // U+xxFFFE and U+xxFFFF are not characters, in any plane.
    let is_none = c as u32 & 0xfffe == 0xfffe;
    is_none
        || matches!(
            c,
            '\0'..='\x1f'
                | '\x7f'..='\u{9f}'
                | '\u{ad}'
                | '\u{34f}'
                | '\u{600}'..='\u{605}'
                | '\u{61c}'
                | '\u{6dd}'
                | '\u{70f}'
                | '\u{890}'..='\u{891}'
                | '\u{8e2}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fdd0}'..='\u{fdef}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{110bd}'
                | '\u{110cd}'
                | '\u{13430}'..='\u{1343f}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

fn replaced<'a>(
    text: &'a str,
    is_wrong: impl Fn(char) -> bool,
    mut put: impl FnMut(&mut String, char),
) -> Cow<'a, str> {
    // Nearly all texts have these characters only. Blocks are looked at as a whole, in a few instructions.
    let plain_end = if is_wrong('\n') { b' ' } else { b'\n' };
    let is_plain = |byte: u8| byte.wrapping_sub(b' ') <= b'~' - b' ' || byte == plain_end;
    let is_plain_block =
        |block: &[u8]| block.iter().fold(true, |is_all, &byte| is_all & is_plain(byte));
    if text.as_bytes().chunks(BLOCK_BYTES).all(is_plain_block) || !text.contains(&is_wrong) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_wrong(c) {
            put(&mut shown, c);
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

fn escape(shown: &mut String, c: char) {
    // Writing to a string does not fail.
    let _ = if c.is_ascii() {
        write!(shown, "\\x{:02x}", u32::from(c))
    } else {
        write!(shown, "\\u{{{:x}}}", u32::from(c))
    };
}

/// A name, or a sentence of one line.
pub fn clean(text: &str) -> Cow<'_, str> {
    replaced(text, is_harmful, escape)
}

/// A text of several lines: their ends stay.
pub fn clean_lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| c != '\n' && is_harmful(c), escape)
}

/// JSON that says the same: there only strings have such characters, and have an escape for each.
pub fn clean_json(text: &str) -> Cow<'_, str> {
    let put = |shown: &mut String, c: char| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(shown, "\\u{unit:04x}");
        }
    };
    replaced(text, |c| c != '\n' && is_harmful(c), put)
}

/// Bytes of the kernel as text: each byte that is not UTF-8 becomes `\xNN`.
pub fn as_text(bytes: &[u8]) -> Cow<'_, str> {
    str::from_utf8(bytes).map_or_else(|_| text_of(bytes, |_| true).into(), Cow::Borrowed)
}

/// Bytes as labels show them: each byte that is not UTF-8, and those of characters that could garble a
/// terminal or hide in a text, become `\xNN`.
pub fn printable(bytes: &[u8]) -> String {
    text_of(bytes, is_printable)
}

/// Whether labels show a character as it is.
pub fn is_printable(letter: char) -> bool {
    letter.is_alphanumeric() || letter.is_ascii_graphic() || letter == ' '
}

fn text_of(bytes: &[u8], is_shown: impl Fn(char) -> bool) -> String {
    let mut text = String::with_capacity(bytes.len() + 16);
    let escaped =
        |bytes: &[u8]| -> String { bytes.iter().map(|b| format!("\\x{b:02x}")).collect() };
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if is_shown(letter) {
                text.push(letter);
            } else {
                text.push_str(&escaped(letter.encode_utf8(&mut [0; 4]).as_bytes()));
            }
        }
        text.push_str(&escaped(chunk.invalid()));
    }
    text
}

/// The beginning of a text of others, for a sentence that quotes it.
pub fn excerpt(text: &str, most_chars: usize) -> String {
    let text = clean(text);
    match text.char_indices().nth(most_chars) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.into_owned(),
    }
}

/// Content of a file as a message shows it: in one line, and only its begin where it is long.
pub fn quoted(content: &str) -> String {
    // What is not shown need not be cleaned.
    excerpt(&content.chars().take(QUOTED_CHARS + 1).collect::<String>(), QUOTED_CHARS)
}

/// A parser's message about a file in one line. It may quote what it read at any length: of what
/// stands between quotation marks only the begin is left, and of all of it not much more.
pub fn brief(message: &str) -> String {
    let mut brief = String::new();
    let mut rest = message;
    while let Some(begin) = rest.find(['`', '"']) {
        let (before, mark) = (&rest[..begin], &rest[begin..=begin]);
        let inside = &rest[begin + 1..];
        let end = inside.find(mark).unwrap_or(inside.len());
        brief.push_str(before);
        brief.push_str(mark);
        brief.push_str(&quoted(&inside[..end]));
        brief.push_str(inside.get(end..=end).unwrap_or_default());
        rest = inside.get(end + 1..).unwrap_or_default();
    }
    brief.push_str(rest);
    let lines: Vec<&str> = brief.lines().map(str::trim).collect();
    excerpt(&lines.join(", "), MESSAGE_CHARS)
}

#[cfg(any(test, feature = "fixtures"))]
#[path = "../../../tests/src/hostile.rs"]
pub mod corpus;

#[cfg(test)]
mod tests {
    use super::corpus::NAMES;
    use super::*;

    #[test]
    fn nothing_harmful_is_left_and_what_was_there_can_be_read() {
        for name in NAMES {
            let shown = clean(name);
            assert!(!shown.contains(is_harmful), "{name:?}: {shown:?}");
            assert_ne!(shown, *name);
            assert_eq!(clean(&shown), shown, "{name:?}");
        }
        assert_eq!(
            clean("a\x1b[31m\u{202e}b\n\u{9b}2J\x7f"),
            r"a\x1b[31m\u{202e}b\x0a\u{9b}2J\x7f"
        );
        assert_eq!(clean("tag\u{e0041}\u{1ffff}"), r"tag\u{e0041}\u{1ffff}");
    }

    #[test]
    fn usual_names_stay() {
        for name in [
            "",
            "/system.slice/web.service",
            "a\\x2db",
            "Größe µs – …",
            "日本語",
            "e\u{301}",
            "\u{fffd}",
        ] {
            assert!(matches!(clean(name), Cow::Borrowed(_)), "{name}");
        }
    }

    #[test]
    fn every_control_and_every_noncharacter_is_harmful() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            let is_none = u32::from(c) & 0xfffe == 0xfffe || ('\u{fdd0}'..='\u{fdef}').contains(&c);
            if c.is_control() || is_none {
                assert!(is_harmful(c), "{:x}", u32::from(c));
            }
            let bidirectional = matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            assert!(!bidirectional || is_harmful(c), "{:x}", u32::from(c));
        }
    }

    #[test]
    fn lines_stay_lines_and_json_stays_json() {
        assert_eq!(clean_lines("a\nb\r\n\x1bc"), "a\nb\\x0d\n\\x1bc");
        for name in NAMES {
            let text = serde_json::to_string_pretty(&[name]).unwrap();
            let shown = clean_json(&text);
            assert!(!shown.contains(|c| c != '\n' && is_harmful(c)), "{shown:?}");
            assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), [*name]);
        }
    }

    #[test]
    fn an_excerpt_is_short() {
        assert_eq!(excerpt("abc", 3), "abc");
        assert_eq!(excerpt("abcd\x1b", 3), "abc…");
        assert_eq!(excerpt("µ\x1b", 3), "µ\\x…");
    }

    #[test]
    fn a_message_shows_little_of_a_file() {
        assert_eq!(quoted("level = \"loud\""), "level = \"loud\"");
        let long = quoted(&"x".repeat(100_000));
        assert_eq!(long.chars().count(), QUOTED_CHARS + 1);
        let nothing = quoted(&"\0".repeat(100_000));
        assert!(nothing.starts_with(r"\x00\x00") && nothing.chars().count() <= QUOTED_CHARS + 1);
        assert_eq!(quoted("a\tb\u{9b}\u{202e}"), r"a\x09b\u{9b}\u{202e}");
        let listed = "unknown variant `loud`, expected one of `error`, `warn`";
        assert_eq!(brief(listed), listed);
        for mark in ["`", "\""] {
            let content = "y".repeat(1 << 20);
            let text =
                brief(&format!("there is no {mark}{content}{mark};\n is {mark}z{mark} meant?"));
            assert!(text.ends_with(&format!("…{mark};, is {mark}z{mark} meant?")), "{text}");
            assert!(text.chars().count() < 300, "{text}");
            let marks = brief(&format!("no {mark}{}", mark.repeat(1 << 20)));
            assert!(marks.chars().count() <= MESSAGE_CHARS + 1);
        }
    }

    #[test]
    fn what_labels_do_not_show_is_escaped() {
        assert_eq!(printable(b"a b\n\x1b[2J\xff\"\\"), r#"a b\x0a\x1b[2J\xff"\"#);
        assert_eq!(printable("é\u{202e}x\u{200b}".as_bytes()), r"é\xe2\x80\xaex\xe2\x80\x8b");
    }

    #[test]
    fn text_stays_and_bytes_that_make_none_are_escaped() {
        assert!(matches!(as_text("é\x1b".as_bytes()), Cow::Borrowed("é\x1b")));
        assert_eq!(as_text(b"a\xff\xc3\nb"), "a\\xff\\xc3\nb");
    }
}
