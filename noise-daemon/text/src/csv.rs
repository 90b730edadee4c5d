//! PURE: texts of others as cells of a table (CSV), for programs and for spreadsheets.
//!
//! A spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula and computes it, whether it is quoted or
//! not: a thread that names itself `=HYPERLINK(…)` would run on the computer of who opens the table. Such a text gets an
//! apostrophe before it, with which spreadsheets show it as it is. Numbers are written without this: they are not texts.

use std::borrow::Cow;

use super::clean::clean;

/// A text that no terminal and no spreadsheet acts on.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let text = clean(text);
    // Some leave out white space before, and some read the wide forms of the same characters alike.
    let first = text.trim_start().chars().next();
    let is_formula = |c: char| matches!(c, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠');
    match first.is_some_and(is_formula) {
        true => Cow::Owned(format!("'{text}")),
        false => text,
    }
}

/// A cell with a text, made harmless: one that may not stand bare is quoted, with quotation marks doubled (RFC 4180).
pub fn cell(text: &str) -> String {
    let text = harmless(text);
    match text.contains([',', '"']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn what_a_spreadsheet_would_compute_is_a_text() {
        for (text, expected) in [
            ("=1+2", "'=1+2"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("  =1", "'  =1"),
            ("＝1", "'＝1"),
            ("\t=1", "\\x09=1"),
            ("\r=1", "\\x0d=1"),
            ("=a,\"b\"", "\"'=a,\"\"b\"\"\""),
            ("a=1", "a=1"),
            ("kworker/0:1-events", "kworker/0:1-events"),
            ("", ""),
        ] {
            assert_eq!(cell(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_cell_begins_as_a_formula_or_ends_a_line(text in ".*") {
            let cell = cell(&text);
            let read = cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"'));
            let read = read.map_or_else(|| cell.clone(), |quoted| quoted.replace("\"\"", "\""));
            prop_assert!(!read.trim_start().starts_with(['=', '+', '-', '@', '\t', '\r', '\n']), "{cell}");
            prop_assert!(!cell.contains(['\n', '\r']));
            prop_assert_eq!(cell.matches('"').count() % 2, 0);
        }
    }
}
