//! Alignments held against those of others: Debian's `muscle3` and `mafft`, on generated families and on the critical
//! paths of a real trace (`../shared/traces` beside the repository, or the folder that `NOISED_TRACES` names), and
//! against the optimum of three sequences, by exact dynamic programming.
//!
//! All families and the longest paths take the others minutes: they are for `--ignored`, and every run has every ninth
//! family and the shorter paths.

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

/// A trial that is run when ignored ones are asked for, and else says why it is not: the library's own flag has no reason.
fn long_trial(
    name: &str,
    arguments: &Arguments,
    run: impl FnOnce() -> Result<String, String> + Send + 'static,
) -> Trial {
    if arguments.ignored || arguments.include_ignored {
        return trial(name, run).with_ignored_flag(true);
    }
    trial(name, || Err("takes minutes; it is run with --ignored".to_owned()))
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = vec![
        trial("exact::two_sequences", || Ok(exact::pairs())),
        trial("exact::three_sequences", || Ok(exact::triples())),
        trial("families::every_ninth", || families::compared(9)),
        long_trial("families::all", &arguments, || families::compared(1)),
        trial("real::paths_of_many_threads", real::compared),
        long_trial("real::long_paths", &arguments, real::compared_long),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}
