//! Real traces by others, with known answers, beside the repository (`../shared/traces`, or the folder that
//! `NOISED_TRACES` names): what is read of them, and what they say.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of this is a test, which fails by panicking"
)]

mod babeltrace;
mod damaged;
mod export;
mod figures;
mod files;
mod medians;
mod schedule;
mod wire;

use std::env;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Trial};

/// A test, or why it cannot run here.
type Test = fn(&files::Trace) -> Result<(), String>;

const TESTS: [(&str, Test); 11] = [
    ("events_are_those_of_the_expected_file", figures::events),
    ("delays_are_those_of_the_expected_file", figures::delays),
    ("medians_are_those_of_the_expected_file", medians::medians),
    ("switches_are_those_of_the_expected_file", schedule::switches),
    ("runs_are_those_of_the_expected_file", schedule::runs),
    ("trace_packets_of_perfetto_are_those_events", export::perfetto),
    ("tables_sum_to_the_delays", export::tables),
    ("fields_are_those_of_babeltrace2", babeltrace::second),
    ("fields_are_those_of_babeltrace", babeltrace::first),
    ("a_trace_cut_anywhere_is_read_as_far_as_it_goes", damaged::cut),
    ("a_trace_with_flipped_bits_is_read_somehow", damaged::flipped),
];

/// The one trace with figures of system calls.
const CALLS: (&str, &str, Test) =
    ("bug446190", "system_calls_are_those_of_the_expected_file", schedule::system_calls);

fn main() -> ExitCode {
    if let Some(name) = env::var_os(damaged::CUT) {
        damaged::cut_alone(&files::Trace::read(name.to_str().unwrap()).unwrap());
        return ExitCode::SUCCESS;
    }
    let mut trials = Vec::new();
    let tests = files::NAMES.map(|name| TESTS.map(|(test, run)| (name, test, run)));
    for (name, test, run) in tests.into_iter().flatten().chain([CALLS]) {
        let run = move || match files::Trace::read(name).and_then(|trace| run(&trace)) {
            Ok(()) => Ok(Completion::Completed),
            Err(reason) => Ok(Completion::ignored_with(reason)),
        };
        trials.push(Trial::ignorable_test(format!("traces::{name}::{test}"), run));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
