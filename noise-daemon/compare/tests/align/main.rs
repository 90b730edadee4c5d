//! Alignments held against those of others: Debian's `muscle3` and `mafft`, on generated families and on the critical
//! paths of a real trace (`../shared/traces` beside the repository, or the folder that `NOISED_TRACES` names), and
//! against the optimum of three sequences, by exact dynamic programming.
//!
//! All families take the others minutes: they are for `--ignored`, and every ninth one is for every run.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of this is a test, which fails by panicking"
)]

mod exact;
mod families;
#[expect(dead_code, reason = "the tests of the reader use all of it")]
#[path = "../../../trace/tests/traces/files.rs"]
mod files;
mod judge;
mod others;
mod real;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Trial};

fn trial(name: &str, run: impl FnOnce() -> Result<String, String> + Send + 'static) -> Trial {
    Trial::ignorable_test(name, move || match run() {
        Ok(found) => {
            println!("{found}");
            Ok(Completion::Completed)
        }
        Err(reason) => Ok(Completion::ignored_with(reason)),
    })
}

fn main() -> ExitCode {
    let trials = vec![
        trial("exact::two_sequences", || Ok(exact::pairs())),
        trial("exact::three_sequences", || Ok(exact::triples())),
        trial("families::every_ninth", || families::compared(9)),
        trial("families::all", || families::compared(1)).with_ignored_flag(true),
        trial("real::paths_of_many_threads", real::compared),
        trial("real::long_paths", real::compared_long).with_ignored_flag(true),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
