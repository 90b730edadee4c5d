//! Types of the product that share their name with another type. A reader has to know the module to tell which one is meant,
//! so their share may only fall.

use std::collections::BTreeMap;

use crate::lint::Finding;

/// Of a thousand types, so many may share their name with another one. Lowered whenever fewer do.
const MOST_SHARED: usize = 201;

/// What is counted here.
const PRODUCT: [&str; 3] = ["noise-common/", "noise-ebpf/", "noise-daemon/"];
/// Files of these names, or in folders of these names, are what tests are made of.
const OF_TESTS: [&str; 5] = ["tests", "tests.rs", "fixtures", "fixtures.rs", "made.rs"];

/// Whether types of a file count.
fn counts(path: &str) -> bool {
    let of_tests = |part: &str| OF_TESTS.contains(&part) || part.ends_with("_tests.rs");
    PRODUCT.iter().any(|begin| path.starts_with(begin)) && !path.split('/').any(of_tests)
}

/// The type that a line begins with.
fn defined(line: &str) -> Option<&str> {
    // Those of `named!` are indented.
    let line = line.strip_prefix("    ").filter(|it| it.starts_with("pub enum ")).unwrap_or(line);
    let line = match line.strip_prefix("pub") {
        Some(rest) => match rest.strip_prefix('(') {
            Some(rest) => rest.split_once(')')?.1.trim_start(),
            None => rest.strip_prefix(' ')?,
        },
        None => line,
    };
    let kinds = ["struct ", "enum ", "trait ", "type "];
    let rest = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    rest.get(..end).filter(|name| !name.is_empty())
}

/// How many types there are, and how many of them share their name.
fn shared<'t>(files: impl Iterator<Item = (&'t str, &'t str)>) -> (usize, usize) {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let texts = files.filter(|(path, _)| counts(path));
    for name in texts.flat_map(|(_, text)| text.lines().filter_map(defined)) {
        *names.entry(name).or_default() += 1;
    }
    let shared = names.values().filter(|times| **times > 1);
    (names.values().sum(), shared.sum())
}

/// What is wrong with the part of shared names.
pub fn findings<'t>(files: impl Iterator<Item = (&'t str, &'t str)>) -> Vec<Finding> {
    let (all, shared) = shared(files);
    if shared * 1000 <= MOST_SHARED * all {
        return Vec::new();
    }
    let message = format!(
        "{shared} of {all} types of the product share their name with another one, more than {MOST_SHARED} of a \
         thousand; name new ones after what they are of"
    );
    vec![Finding { path: "xtask/src/lint/names.rs".to_owned(), line: 1, message }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_define_a_type_are_found() {
        for (line, name) in [
            ("pub struct Open<'a> {", Some("Open")),
            ("struct Line;", Some("Line")),
            ("pub(crate) enum Kind {", Some("Kind")),
            ("pub(in crate::web) type Room = u8;", Some("Room")),
            ("trait Part: Copy {", Some("Part")),
            ("    struct Inside;", None),
            ("    pub enum Cause all CAUSES {", Some("Cause")),
            ("pub fn open() {}", None),
            ("// struct Open", None),
            ("pubstruct X", None),
        ] {
            assert_eq!(defined(line), name, "{line}");
        }
    }

    #[test]
    fn types_of_one_name_are_counted_in_the_product_alone() {
        let files = [
            ("noise-common/src/a.rs", "struct Open;\nstruct Line;\n"),
            ("noise-daemon/top/src/b.rs", "pub enum Open {}\n"),
            ("noise-daemon/top/src/b/tests.rs", "struct Line;\n"),
            ("noise-daemon/why/src/recall_tests.rs", "struct Line;\n"),
            ("xtask/src/c.rs", "struct Line;\n"),
        ];
        assert_eq!(shared(files.into_iter()), (3, 2));
        assert_eq!(findings(files.into_iter()).len(), 1);
    }
}
