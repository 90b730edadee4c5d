//! Files of a crate use each other in one direction only. Which crates a crate may use is in its
//! manifest; this is about the files inside.
//!
//! A module may use the modules below it, as a whole uses its parts. An item counts for the file that
//! defines it, whichever module re-exports it.

use std::collections::{BTreeMap, BTreeSet};

use crate::lint::Finding;
use crate::lint::source::Source;

/// Re-exports that are followed from a name to the file that defines it.
const MAX_REEXPORTS: usize = 8;

/// Where a module is: the names from the crate's root on.
type Module<'a> = Vec<&'a str>;

/// The circles among all files, one finding each.
pub fn circles<'a>(sources: &'a [Source<'a>]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Files<'a>> = BTreeMap::new();
    for source in sources {
        if let Some((root, module)) = module(source.path) {
            let names = source.names.iter().map(|name| Used {
                parts: name.parts.iter().map(String::as_str).collect(),
                imported: name.imported,
            });
            let file = File { path: source.path, names: names.collect() };
            crates.entry(root).or_default().insert(module, file);
        }
    }
    crates.values().flat_map(found).collect()
}

/// A file, and what it names outside of tests.
struct File<'a> {
    path: &'a str,
    names: Vec<Used<'a>>,
}

/// A name that it uses.
struct Used<'a> {
    parts: Vec<&'a str>,
    imported: bool,
}

type Files<'a> = BTreeMap<Module<'a>, File<'a>>;

/// The folder of the crate that a file belongs to, and its module; the root of a program has none.
fn module(path: &str) -> Option<(&str, Module<'_>)> {
    let (root, inside) = path.split_once("/src/")?;
    let inside = inside.strip_suffix(".rs")?;
    let mut module: Module<'_> = inside.split('/').collect();
    match module.as_slice() {
        ["main"] | ["bin", ..] => return None,
        ["lib"] | [.., "mod"] => drop(module.pop()),
        _ => {}
    }
    Some((root, module))
}

/// The module that a path of names begins in, and what follows.
fn begin<'a>(files: &Files<'a>, here: &[&'a str], parts: &[&'a str]) -> Option<Module<'a>> {
    let supers = parts.iter().take_while(|part| **part == "super").count();
    let (base, rest) = match parts {
        ["crate", rest @ ..] => (&[][..], rest),
        ["self", rest @ ..] => (here, rest),
        _ if supers > 0 => (here.get(..here.len().checked_sub(supers)?)?, &parts[supers..]),
        [first, ..] if files.contains_key(&[here, &[*first]].concat()) => (here, parts),
        _ => return None,
    };
    Some([base, rest].concat())
}

/// The module whose file defines a name.
fn origin<'a>(files: &Files<'a>, name: &[&'a str], reexports: usize) -> Option<Module<'a>> {
    let depth = (0..=name.len()).rev().find(|depth| files.contains_key(&name[..*depth]))?;
    let (module, rest) = name.split_at(depth);
    let Some((first, rest)) = rest.split_first() else { return Some(module.to_vec()) };
    let reexported = files.get(module)?.names.iter().find_map(|other| {
        let parts = match other.parts.as_slice() {
            [parts @ .., "self"] => parts,
            parts => parts,
        };
        let is_it = other.imported && parts.last() == Some(first);
        is_it.then(|| begin(files, module, parts)).flatten()
    });
    match reexported {
        Some(next) if reexports > 0 => origin(files, &[&next, rest].concat(), reexports - 1),
        _ => Some(module.to_vec()),
    }
}

/// Which modules each module uses, those below it apart.
fn arrows<'a>(files: &Files<'a>) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let uses = |here: &Module<'a>, file: &File<'a>| {
        let there = file.names.iter().filter_map(|name| {
            let there = origin(files, &begin(files, here, &name.parts)?, MAX_REEXPORTS)?;
            let is_below = there.starts_with(here);
            (!is_below).then(|| files.get(&there).map(|file| file.path)).flatten()
        });
        there.collect()
    };
    files.iter().map(|(module, file)| (file.path, uses(module, file))).collect()
}

/// One finding for each set of files that all reach each other.
fn found(files: &Files<'_>) -> Vec<Finding> {
    let arrows = arrows(files);
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|path| (*path, reach(&arrows, path))).collect();
    let meets = |one: &str, other: &str| reached.get(one).is_some_and(|all| all.contains(other));
    let mut reported = BTreeSet::new();
    let mut findings = Vec::new();
    for path in arrows.keys().filter(|path| meets(path, path)) {
        let others: Vec<&str> = arrows
            .keys()
            .filter(|other| meets(path, other) && meets(other, path))
            .copied()
            .collect();
        if reported.insert(others.clone()) {
            let message = format!(
                "these files use each other in a circle: {}; remove one direction, or make them one file",
                others.join(", ")
            );
            findings.push(Finding { path: (*path).to_owned(), line: 1, message });
        }
    }
    findings
}

/// Every file that one leads to.
fn reach<'a>(arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut ahead: Vec<&str> = vec![from];
    while let Some(path) = ahead.pop() {
        for next in arrows.get(path).into_iter().flatten() {
            if reached.insert(*next) {
                ahead.push(next);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::circles;
    use crate::lint::source::Source;

    fn files(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<_> =
            files.iter().map(|(path, text)| Source::new(path, text).unwrap()).collect();
        circles(&sources).into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn two_files_that_use_each_other_are_found_once() {
        let one = ("c/src/one.rs", "use super::other::A;");
        for text in ["use crate::one::B;", "fn f() { super::one::g() }", "use super::one;"] {
            let found =
                files(&[("c/src/lib.rs", "mod one; mod other;"), one, ("c/src/other.rs", text)]);
            assert_eq!(found, ["c/src/one.rs"], "{text}");
        }
        assert!(files(&[one, ("c/src/other.rs", "use crate::third::B;")]).is_empty());
        assert!(files(&[one, ("d/src/other.rs", "use crate::one::B;")]).is_empty());
    }

    #[test]
    fn an_item_counts_for_the_file_that_defines_it() {
        let root = ("c/src/lib.rs", "mod a; mod b; pub use a::A; pub use b::{B, C};");
        let found =
            files(&[root, ("c/src/a.rs", "use crate::B;"), ("c/src/b.rs", "use super::A;")]);
        assert_eq!(found, ["c/src/a.rs"]);
        assert!(files(&[root, ("c/src/a.rs", "use crate::B;"), ("c/src/b.rs", "")]).is_empty());
    }

    #[test]
    fn a_whole_may_use_its_parts_and_they_their_whole() {
        let root = ("c/src/a/mod.rs", "mod part; use part::P; pub struct A;");
        assert!(files(&[root, ("c/src/a/part.rs", "use super::A;")]).is_empty());
        // But not its parts' parts by way of others.
        let part = ("c/src/a/part.rs", "use super::A; use crate::b::B;");
        let found = files(&[
            ("c/src/lib.rs", "mod a; mod b;"),
            root,
            part,
            ("c/src/b.rs", "use crate::a::part::P;"),
        ]);
        assert_eq!(found, ["c/src/a/part.rs"]);
    }

    #[test]
    fn tests_and_programs_are_left_out() {
        let one = ("c/src/one.rs", "use super::other::A;");
        let other = "#[cfg(test)] mod tests { use crate::one::B; }";
        assert!(files(&[one, ("c/src/other.rs", other)]).is_empty());
        assert!(files(&[("c/src/main.rs", "use crate::main;"), ("c/src/bin/x.rs", "")]).is_empty());
    }
}
