//! Recordings of ours, as others read them. And real traces by others, with known answers, beside the
//! repository (`../shared/traces`, or the folder that `NOISED_TRACES` names): what is read of them, and what
//! they say.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of this is a test, which fails by panicking"
)]

mod analyses;
mod babeltrace;
mod damaged;
mod export;
mod figures;
mod files;
mod judged;
mod lttng;
mod medians;
mod packages;
mod printed;
mod python;
mod repeated;
mod schedule;
mod states;
mod wire;
mod written;

use std::env;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Trial};

/// A test, or why it cannot run here.
type Test = fn(&files::Trace) -> Result<(), String>;

const TESTS: [(&str, Test); 17] = [
    ("events_are_those_of_the_expected_file", figures::events),
    ("switches_away_from_a_hidden_thread_are_missed", figures::hidden),
    ("delays_are_those_of_the_expected_file", figures::delays),
    ("medians_are_those_of_the_expected_file", medians::medians),
    ("switches_are_those_of_the_expected_file", schedule::switches),
    ("runs_are_those_of_the_expected_file", schedule::runs),
    ("states_are_those_that_perf_counts", states::perf),
    ("trace_packets_of_perfetto_are_those_events", export::perfetto),
    ("trace_packets_fit_perfettos_schema", judged::perfetto),
    ("tables_are_read_by_duckdb", judged::tables),
    ("scheduling_latencies_are_those_of_lttng_schedtop", analyses::schedtop),
    ("times_on_cpus_are_those_of_lttng_cputop", analyses::cputop),
    ("fields_are_those_of_babeltrace2", babeltrace::second),
    ("fields_are_those_of_babeltrace", babeltrace::first),
    ("a_trace_cut_anywhere_is_read_as_far_as_it_goes", damaged::cut),
    ("a_cpu_whose_later_packets_are_missing_is_named", damaged::shortened),
    ("a_trace_with_flipped_bits_is_read_somehow", damaged::flipped),
];

/// Tests of the smaller trace alone: only of that the file has figures of system calls, and lttng-irqstats knows
/// the names of softirqs; the tables of the larger one are DuckDB's to read, which takes less time.
const SMALLER: [(&str, Test); 4] = [
    ("tables_sum_to_the_delays", export::tables),
    ("system_calls_are_those_of_the_expected_file", schedule::system_calls),
    ("system_calls_are_those_of_lttng_iolatencytop", analyses::iolatencytop),
    ("interrupts_are_those_of_lttng_irqstats", analyses::irqstats),
];

/// Tests of the larger trace alone.
const LARGER: [(&str, Test); 1] = [("repeated_it_is_one_trace", repeated::one_trace)];

fn main() -> ExitCode {
    if let Some(name) = env::var_os(damaged::CUT) {
        damaged::cut_alone(&files::Trace::read(name.to_str().unwrap()).unwrap());
        return ExitCode::SUCCESS;
    }
    let mut trials = Vec::new();
    let tests = files::NAMES.map(|name| TESTS.map(|(test, run)| (name, test, run)));
    let smaller = SMALLER.map(|(test, run)| ("bug446190", test, run));
    let larger = LARGER.map(|(test, run)| ("many-threads", test, run));
    for (name, test, run) in tests.into_iter().flatten().chain(smaller).chain(larger) {
        let run = move || match files::Trace::read(name).and_then(|trace| run(&trace)) {
            Ok(()) => Ok(Completion::Completed),
            Err(reason) => Ok(Completion::ignored_with(reason)),
        };
        trials.push(Trial::ignorable_test(format!("traces::{name}::{test}"), run));
    }
    for command in ["babeltrace", "babeltrace2"] {
        for (test, lossy) in
            [("recordings_are_read_without_a_warning", false), ("losses_are_found", true)]
        {
            let run = move || match written::read_by(command, lossy) {
                Ok(()) => Ok(Completion::Completed),
                Err(reason) => Ok(Completion::ignored_with(reason)),
            };
            trials.push(Trial::ignorable_test(format!("written::{command}::{test}"), run));
        }
    }
    trials.push(Trial::ignorable_test(
        "written::paths_fit_perfettos_schema",
        || match judged::paths() {
            Ok(()) => Ok(Completion::Completed),
            Err(reason) => Ok(Completion::ignored_with(reason)),
        },
    ));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
