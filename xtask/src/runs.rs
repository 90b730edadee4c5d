//! `cargo xtask test --runs N`: whole runs of the live tests, each a row of `tests/runs.md`.
//!
//! What fails by chance shows in many runs, half of them beside something that keeps the CPUs busy.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};

use crate::cargo::Workspace;
use crate::libtest::Tally;
use crate::live;
use crate::package::{output_of, revision};
use crate::suite;

/// The table, below the workspace.
const TABLE: &str = "tests/runs.md";
/// How the reason of a test begins that could not be judged.
const INCONCLUSIVE: &str = "the recording is inconclusive";
/// As much of a commit's name as people read.
const SHORT: usize = 10;

/// Runs all live tests that often, and notes each run once it has ended.
pub fn run(workspace: &Workspace, runs: u32, beside: Option<&str>) -> Result<Tally> {
    let mut all = Tally::default();
    // Before a row makes it differ.
    let commit = revision(&workspace.root)?;
    let programs = suite::programs(workspace, &[])?.live;
    for number in 1..=runs {
        eprintln!("     Run {number} of {runs}");
        let date = output_of(Command::new("date").args(["--utc", "+%F %H:%M"]))?;
        let mut tally = Tally::default();
        let ended =
            while_repeated(workspace, beside, || live::run(workspace, &programs, None, &mut tally));
        tally.failed.extend(ended.err().map(|error| format!("live tests: {error:#}")));
        let row = row(String::from_utf8_lossy(&date).trim(), &commit, beside, &tally);
        let table = OpenOptions::new().append(true).open(workspace.root.join(TABLE));
        table
            .and_then(|mut table| table.write_all(row.as_bytes()))
            .with_context(|| format!("cannot append to {TABLE}"))?;
        all.add(tally);
    }
    Ok(all)
}

/// Does something while a command of the shell is started again and again; its last start is waited for.
fn while_repeated(
    workspace: &Workspace,
    command: Option<&str>,
    what: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let Some(command) = command else { return what() };
    let is_over = AtomicBool::new(false);
    let repeat = || -> Result<()> {
        while !is_over.load(Ordering::Relaxed) {
            let mut shell = Command::new("sh");
            shell.args(["-c", command]).current_dir(&workspace.root).stdin(Stdio::null());
            let output = shell.output().context("cannot start sh")?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "`{command}` ended with {}: {said}", output.status);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let repeated = scope.spawn(repeat);
        let done = what();
        is_over.store(true, Ordering::Relaxed);
        // It cannot panic.
        let repeated = repeated.join().unwrap_or(Ok(()));
        done.and(repeated)
    })
}

fn row(date: &str, commit: &str, beside: Option<&str>, tally: &Tally) -> String {
    let dirty = if commit.ends_with("-dirty") { "-dirty" } else { "" };
    let commit = commit.get(..SHORT).unwrap_or(commit);
    let beside = beside.map_or("nothing".to_owned(), |command| format!("`{command}`"));
    let names = |tests: &[&str]| match tests {
        [] => "0".to_owned(),
        tests => format!("{}: {}", tests.len(), tests.join(", ")),
    };
    let failed: Vec<&str> = tally.failed.iter().map(String::as_str).collect();
    let flaky: Vec<&str> = tally.flaky.iter().map(|flaky| flaky.test.as_str()).collect();
    let doubtful = tally.skipped.iter().filter(|test| test.reason.starts_with(INCONCLUSIVE));
    let doubtful: Vec<&str> = doubtful.map(|skipped| skipped.test.as_str()).collect();
    let cells = [
        date,
        &format!("{commit}{dirty}"),
        &beside,
        &tally.passed.to_string(),
        &names(&failed),
        &names(&flaky),
        &tally.skipped.len().to_string(),
        &names(&doubtful),
    ];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|").replace('\n', " ")).join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libtest::Remark;

    #[test]
    fn a_row_names_what_failed_and_what_could_not_be_judged() {
        let skipped =
            |test: &str, reason: &str| Remark { test: test.to_owned(), reason: reason.to_owned() };
        let tally = Tally {
            passed: 240,
            failed: vec!["web::a".to_owned()],
            skipped: vec![
                skipped("top::b", "there is no tmux"),
                skipped("sched::c", "the recording is inconclusive: it slept"),
            ],
            flaky: vec![skipped("top::d", "too late")],
        };
        let commit = "0123456789abcdef0123456789abcdef01234567-dirty";
        assert_eq!(
            row("2026-11-27 03:00", commit, Some("a | b"), &tally),
            "| 2026-11-27 03:00 | 0123456789-dirty | `a \\| b` | 240 | 1: web::a | 1: top::d | 2 | 1: sched::c |\n"
        );
        let whole = row("d", "0123456789abcdef", None, &Tally { passed: 1, ..Tally::default() });
        assert_eq!(whole, "| d | 0123456789 | nothing | 1 | 0 | 0 | 0 | 0 |\n");
    }

    #[test]
    fn a_row_has_the_columns_of_the_table_and_its_reason_is_that_of_the_tests() -> Result<()> {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
        let table = std::fs::read_to_string(format!("{root}{TABLE}"))?;
        let bars = |line: &str| line.matches('|').count();
        let columns = bars(&row("d", "c", None, &Tally::default()));
        let mut lines = table.lines().filter(|line| line.starts_with('|'));
        assert!(lines.all(|line| bars(&line.replace("\\|", "")) == columns));
        assert!(table.ends_with("|\n"));
        let tests = std::fs::read_to_string(format!("{root}tests/tests/live/main.rs"))?;
        assert!(tests.contains(&format!("\"{INCONCLUSIVE}\"")));
        Ok(())
    }

    #[test]
    fn a_command_is_repeated_until_the_tests_have_ended() -> Result<()> {
        let workspace = Workspace { root: std::env::temp_dir(), target: std::env::temp_dir() };
        let folder = std::env::temp_dir().join(format!("xtask-runs-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let count = folder.join("count");
        let command = format!("echo x >>{}", count.display());
        let lines = || std::fs::read_to_string(&count).map_or(0, |text| text.lines().count());
        while_repeated(&workspace, Some(&command), || {
            while lines() < 3 {
                thread::yield_now();
            }
            Ok(())
        })?;
        let after = lines();
        assert!(after >= 3);
        std::fs::remove_dir_all(&folder)?;
        let failed = while_repeated(&workspace, Some("exit 3"), || Ok(()));
        assert!(
            failed.is_ok() || failed.is_err_and(|error| error.to_string().contains("`exit 3`"))
        );
        Ok(())
    }
}
