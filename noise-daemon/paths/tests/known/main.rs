//! Graphs, events and real traces by others whose critical paths are known, beside the repository
//! (`../shared/traces`, or the folder that `NOISED_TRACES` names).

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of this is a test, which fails by panicking"
)]

mod delimited;
mod drawn;
mod events;
#[expect(dead_code, reason = "the tests of the reader use all of it")]
#[path = "../../../trace/tests/traces/files.rs"]
mod files;
mod graphs;
mod traces;

use std::fs;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Trial};
use serde_json::Value;

/// The file of cases, or why it cannot be read here.
fn cases() -> Result<Value, String> {
    let path = files::place().join("critical-path-cases.json");
    let text = fs::read_to_string(&path);
    let text = text.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(serde_json::from_str(&text).unwrap())
}

fn trial(name: String, run: impl FnOnce() -> Result<(), String> + Send + 'static) -> Trial {
    Trial::ignorable_test(name, move || match run() {
        Ok(()) => Ok(Completion::Completed),
        Err(reason) => Ok(Completion::ignored_with(reason)),
    })
}

fn main() -> ExitCode {
    let mut trials = vec![
        trial("cases::graphs".to_owned(), || cases().map(|cases| graphs::all(&cases))),
        trial("cases::events".to_owned(), || cases().map(|cases| events::all(&cases))),
    ];
    for name in files::NAMES {
        let run = move || files::Trace::read(name).map(|trace| traces::paths(&trace));
        trials.push(trial(format!("traces::{name}::paths_are_those_of_the_events"), run));
        let run = move || files::Trace::read(name).map(|trace| traces::compass(&trace));
        trials.push(trial(format!("traces::{name}::paths_are_those_of_the_expected_file"), run));
    }
    trials.push(trial("traces::bug446190::system_calls_are_executions".to_owned(), || {
        files::Trace::read("bug446190").map(|trace| delimited::system_calls(&trace))
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
