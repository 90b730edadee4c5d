//! Rules about files that belong together: a signal has a room of the same name on both sides of
//! the kernel line, and the page about signals names it.

use std::collections::BTreeSet;

use crate::lint::Finding;

const COMMON: &str = "noise-common/src/signals/";
const KERNEL: &str = "noise-ebpf/src/signals/";

/// The page that says what each signal measures.
pub const PAGE: &str = "docs/signals.md";

/// The signals that have a file on each side.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rooms {
    common: BTreeSet<String>,
    kernel: BTreeSet<String>,
}

impl Rooms {
    /// Reads the signals from the paths of all files.
    pub fn among(files: &[String]) -> Self {
        Self { common: stems(files, COMMON), kernel: stems(files, KERNEL) }
    }

    /// What is missing, given the text of the page about signals if there is one.
    pub fn findings(&self, page: Option<&str>) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut find = |path: String, message: String| {
            findings.push(Finding { path, line: 1, message });
        };
        if self.common.is_empty() {
            find(format!("{COMMON}mod.rs"), "no signal has a file beside this one".to_owned());
        }
        for (here, there, from, to) in [
            (&self.common, &self.kernel, COMMON, KERNEL),
            (&self.kernel, &self.common, KERNEL, COMMON),
        ] {
            for signal in here.difference(there) {
                let message = format!(
                    "the signal `{signal}` has no room on the other side; add {to}{signal}.rs"
                );
                find(format!("{from}{signal}.rs"), message);
            }
        }
        match page {
            None => find(PAGE.to_owned(), "is missing or unreadable".to_owned()),
            Some(text) => {
                for signal in self.common.iter().filter(|signal| !has_word(text, signal)) {
                    find(PAGE.to_owned(), format!("does not mention the signal `{signal}`"));
                }
            }
        }
        findings
    }
}

/// Whether `word` stands in `text` with no letter, digit or underscore next to it.
pub fn has_word(text: &str, word: &str) -> bool {
    let joins = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(joins) && !text[at + word.len()..].starts_with(joins))
}

fn stems(files: &[String], folder: &str) -> BTreeSet<String> {
    files
        .iter()
        .filter_map(|path| path.strip_prefix(folder)?.strip_suffix(".rs"))
        .filter(|stem| *stem != "mod" && !stem.contains('/'))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Rooms, has_word};

    fn messages(files: &[&str], page: Option<&str>) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|&path| path.to_owned()).collect();
        Rooms::among(&files).findings(page).iter().map(ToString::to_string).collect()
    }

    const BOTH: [&str; 4] = [
        "noise-common/src/signals/mod.rs",
        "noise-common/src/signals/nmi.rs",
        "noise-ebpf/src/signals/mod.rs",
        "noise-ebpf/src/signals/nmi.rs",
    ];

    #[test]
    fn a_signal_on_both_sides_and_on_its_page_is_fine() {
        assert_eq!(messages(&BOTH, Some("The `nmi` signal.")), [""; 0]);
    }

    #[test]
    fn a_signal_on_one_side_only_is_found() {
        let found = messages(&BOTH[..3], Some("nmi"));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("noise-common/src/signals/nmi.rs:1: "));
        let found = messages(&["noise-common/src/signals/a.rs", BOTH[3]], Some("a"));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_signal_that_the_page_leaves_out_is_found() {
        assert_eq!(
            messages(&BOTH, Some("nmis")),
            ["docs/signals.md:1: does not mention the signal `nmi`"]
        );
        assert_eq!(messages(&BOTH, None), ["docs/signals.md:1: is missing or unreadable"]);
    }

    #[test]
    fn having_no_signal_is_found() {
        assert_eq!(messages(&[], Some("")).len(), 1);
    }

    #[test]
    fn words_stand_alone() {
        assert!(has_word("a `nmi`, b", "nmi"));
        assert!(!has_word("a nmi_b, anmi", "nmi"));
    }
}
