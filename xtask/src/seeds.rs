//! `cargo xtask test --seeds N`: the tests that draw their cases, with many seeds.
//!
//! What fails in one of a hundred runs is found here rather than on the next fresh clone. A seed changes
//! what property tests do and nothing else, so the others are left out: they would take most of the time
//! and do the same in every run. A test is run if a file of its program that names the library of property
//! tests has a function of its name; some that draw nothing are run as well, none that draws is missed
//! unless its file leaves that to another. Programs are optimised, with the checks of a debug build.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cargo::{Executable, Workspace};
use crate::libtest::Tally;
use crate::suite::{self, SEED, fresh_seed, seeded, tests_of};

/// The profile of the workspace's manifest in which they are built.
const PROFILE: &str = "seeds";
/// The library of property tests.
const LIBRARY: &str = "proptest";

/// A program and those of its tests that are run.
struct Program {
    executable: Executable,
    tests: Vec<String>,
}

/// Runs them that often.
pub fn run(workspace: &Workspace, filter: Option<&str>, runs: u32) -> Result<Tally> {
    let built = suite::programs(workspace, &["--tests", "--profile", PROFILE])?.ordinary;
    let programs: Vec<Program> = built
        .into_iter()
        .map(|executable| Program::of(executable, filter))
        .collect::<Result<_>>()?;
    let tests: usize = programs.iter().map(|program| program.tests.len()).sum();
    eprintln!(
        "     Running only the {tests} tests whose cases are drawn, or that lie beside such tests"
    );
    let mut all = Tally::default();
    for number in 1..=runs {
        let seed = fresh_seed();
        eprintln!("     Running with {SEED}={seed} ({number} of {runs})");
        for program in programs.iter().filter(|program| !program.tests.is_empty()) {
            all.add(seeded(program.command(), &program.executable.name, seed)?);
        }
    }
    Ok(all)
}

impl Program {
    fn of(executable: Executable, filter: Option<&str>) -> Result<Self> {
        let functions = drawing(executable.source.parent().context("a source has no folder")?)?;
        if functions.is_empty() {
            return Ok(Self { executable, tests: Vec::new() });
        }
        let function = |test: &str| test.rsplit("::").next().unwrap_or(test).to_owned();
        let mut tests = tests_of(&executable, filter)?;
        tests.retain(|test| functions.contains(&function(test)));
        Ok(Self { executable, tests })
    }

    fn command(&self) -> Command {
        let mut command = suite::command(&self.executable);
        command.arg("--exact").args(&self.tests);
        command
    }
}

/// The functions of all files below a folder that name the library.
fn drawing(folder: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
        if path.is_dir() {
            names.append(&mut drawing(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            names.extend(functions(&text).filter(|_| text.contains(LIBRARY)).map(str::to_owned));
        }
    }
    Ok(names)
}

/// The names behind `fn`.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let end = move |rest: &str| rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
    text.split("fn ").skip(1).map(move |rest| &rest[..end(rest)]).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{drawing, functions};

    #[test]
    fn functions_are_found_by_their_names() {
        let text = "fn a() {}\n#[test]\n    fn b_2(one: Fn (u8)) { fn (x) }\nasync fn c<T>() {}";
        assert_eq!(functions(text).collect::<Vec<_>>(), ["a", "b_2", "c"]);
    }

    #[test]
    fn tests_draw_where_their_file_names_the_library() -> anyhow::Result<()> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../noise-common/src");
        let names = drawing(&folder)?;
        assert!(names.contains("parts_sum_to_the_wait"), "{names:?}");
        assert!(!names.contains("buckets_end_where_the_contract_says"), "{names:?}");
        Ok(())
    }
}
