//! Which live tests run in guests.
//!
//! All do but those that are left out here, each for a reason; so a test that is new runs in guests
//! unless a reason is given. An entry that no test is called by is an error.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::libtest::Remark;

const ABOUT_TIME: &str = "is about time, which means nothing on an emulated processor";
const ANY_KERNEL: &str = "says the same on every kernel; it runs outside of guests";

/// A test, or a module with its `::`, and why guests do not run it.
const LEFT_OUT: &[(&str, &str)] = &[
    ("attribution::", ABOUT_TIME),
    ("cgroups::", ANY_KERNEL),
    ("command_line::", ANY_KERNEL),
    ("configuration::mistakes_are_refused", ANY_KERNEL),
    ("configuration::reload_applies_what_it_can", ABOUT_TIME),
    ("detour::", ABOUT_TIME),
    ("faults::", ABOUT_TIME),
    ("incidents::", ABOUT_TIME),
    ("osnoise::", ABOUT_TIME),
    ("osnoise_ends::", ABOUT_TIME),
    ("osnoise_log::", ABOUT_TIME),
    ("osnoise_tenant::", ABOUT_TIME),
    ("packages::", ANY_KERNEL),
    ("prometheus::", ANY_KERNEL),
    ("record_delays::", ABOUT_TIME),
    ("scenario::", ABOUT_TIME),
    ("scraping::", ANY_KERNEL),
    ("state::", ANY_KERNEL),
    ("systemd::", ANY_KERNEL),
    ("top::", ANY_KERNEL),
    ("web::", ANY_KERNEL),
    ("web_abuse::", ANY_KERNEL),
    ("web_config::", ANY_KERNEL),
];

/// The tests, or modules, that a quick run keeps.
const QUICK: [&str; 5] = [
    "known_counts::",
    "privileges::every_thread_has_dropped_everything",
    "privileges::a_user_with_two_capabilities",
    "block::direct_reads_count_one_by_one",
    "block::partial_and_requeued",
];

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Everything that means something in a guest.
    Whole,
    /// Counts of planted events, and privileges.
    Quick,
}

/// The tests of a program, divided.
pub struct Selection {
    /// Arguments for the program, one a line.
    pub arguments: String,
    /// Names of the tests that run.
    pub chosen: Vec<String>,
    /// The others, with the reasons.
    pub left_out: Vec<Remark>,
}

/// Divides the tests that `program` lists; of those that run, only the ones with `filter` in them.
pub fn select(program: &Path, extent: Extent, filter: Option<&str>) -> Result<Selection> {
    let output = Command::new(program)
        .arg("--list")
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if !output.status.success() {
        bail!("{} cannot list its tests ({})", program.display(), output.status);
    }
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    let tests: Vec<&str> = list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    divide(&tests, extent, filter)
}

fn divide(tests: &[&str], extent: Extent, filter: Option<&str>) -> Result<Selection> {
    let means = |entry: &str, test: &str| {
        if entry.ends_with("::") { test.starts_with(entry) } else { test == entry }
    };
    for (entry, _) in LEFT_OUT {
        if !tests.iter().any(|test| means(entry, test)) {
            bail!("no live test is called {entry}, which guests leave out");
        }
    }
    let reason = |test: &str| {
        let known = LEFT_OUT.iter().find(|(entry, _)| means(entry, test));
        let quick = QUICK.iter().any(|entry| test.starts_with(entry));
        match (known, extent, filter) {
            (Some((_, reason)), _, _) => Some((*reason).to_owned()),
            (None, Extent::Quick, _) if !quick => Some("this run is a quick one".to_owned()),
            (None, _, Some(filter)) if !test.contains(filter) => {
                Some(format!("its name has no {filter}"))
            }
            _ => None,
        }
    };
    let mut selection =
        Selection { arguments: String::new(), chosen: Vec::new(), left_out: Vec::new() };
    let mut arguments = vec!["--color", "never", "--exact"];
    for &test in tests {
        match reason(test) {
            Some(reason) => {
                arguments.extend(["--skip", test]);
                selection.left_out.push(Remark { test: test.to_owned(), reason });
            }
            None => selection.chosen.push(test.to_owned()),
        }
    }
    if selection.chosen.is_empty() {
        bail!("no live test is left to run");
    }
    selection.arguments = arguments.iter().map(|argument| format!("{argument}\n")).collect();
    Ok(selection)
}

#[cfg(test)]
mod tests {
    use super::{Extent, LEFT_OUT, divide};

    fn tests() -> Vec<String> {
        let left_out = LEFT_OUT.iter().map(|(entry, _)| match entry.strip_suffix("::") {
            Some(module) => format!("{module}::any"),
            None => (*entry).to_owned(),
        });
        left_out.chain(["known_counts::a".to_owned(), "sched::b".to_owned()]).collect()
    }

    #[test]
    fn every_test_runs_or_has_a_reason() -> anyhow::Result<()> {
        let tests = tests();
        let names: Vec<&str> = tests.iter().map(String::as_str).collect();
        let whole = divide(&names, Extent::Whole, None)?;
        assert_eq!(whole.chosen, ["known_counts::a", "sched::b"]);
        assert_eq!(whole.left_out.len(), LEFT_OUT.len());
        assert!(whole.arguments.contains("--skip\nweb::any\n"));
        assert_eq!(divide(&names, Extent::Quick, None)?.chosen, ["known_counts::a"]);
        assert_eq!(divide(&names, Extent::Whole, Some("::b"))?.chosen, ["sched::b"]);
        assert!(divide(&names, Extent::Whole, Some("nothing")).is_err());
        Ok(())
    }

    #[test]
    fn an_entry_without_a_test_is_an_error() {
        assert!(divide(&["known_counts::a"], Extent::Whole, None).is_err());
    }
}
