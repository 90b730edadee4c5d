//! Live tests: root, this kernel, the real daemon.
//!
//! One at a time, because the daemon and its referee see the whole machine. The daemon is the one
//! that `NOISED_BIN` names, else the workspace's release build. A test that this machine cannot run
//! says why; it never passes for that reason. After each test the machine has to look as before.

mod block;
mod command_line;
mod differential;
mod faults;
mod interrupts;
mod lifecycle;
mod metrics;
mod network;
mod referee;
mod sched;
mod web;

use std::env;
use std::process::ExitCode;

use anyhow::Result;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use noise_tests::load;
use noise_tests::surroundings::Surroundings;
use noise_tests::task::is_root;

/// How a test that did not fail ended.
enum Verdict {
    /// It held.
    Passed,
    /// This machine cannot run it.
    Impossible(String),
}

type Test = fn() -> Result<Verdict>;

/// How an error begins by which the referee says that its own record has holes.
const INCONCLUSIVE: &str = "the recording is inconclusive";

/// Runs the tests in [`OPEN`] too.
const RUN_OPEN: &str = "NOISED_TEST_OPEN";

/// Tests whose differences are seen but not explained yet: they are skipped by name, with what
/// was seen, and count as open work, never as passed.
const OPEN: &[(&str, &str)] = &[
    ("sched::woken_while_running", "the load provokes no wake-up of a running task here"),
    ("sched::stopped_and_continued", "6 long waits where the referee has 5"),
    (
        "interrupts::nested_time_is_charged_once",
        "sums of irqs with two or three events lie 2 us apart, beyond the stamps' distance",
    ),
    ("block::without_scheduler", "36 of 5000 device waits missing on loop and disk alike"),
    ("block::flushes", "noised calls flush requests flush, the referee write"),
    ("block::buffered_writes", "noised calls flush requests flush, the referee write"),
    ("differential::mixed_load", "the load raises no timer softirq in its seconds"),
    (
        "faults::stopped_daemon_loses_nothing",
        "46 of 26101 device waits missing, and sums of irqs with few events",
    ),
];

fn trial(module: &str, name: &str, test: Test) -> Trial {
    let full_name = format!("{module}::{name}");
    Trial::ignorable_test(full_name.clone(), move || {
        if !is_root() {
            return Ok(Completion::ignored_with("needs root"));
        }
        if let Some((_, reason)) = OPEN.iter().find(|(open, _)| *open == full_name)
            && env::var_os(RUN_OPEN).is_none()
        {
            return Ok(Completion::ignored_with(format!("open: {reason}")));
        }
        let around = |error: anyhow::Error| Failed::from(format!("{error:#}"));
        let before = Surroundings::look().map_err(around)?;
        let verdict = test();
        let clean = before.ensure_unchanged();
        clean.map_err(around)?;
        let verdict = match verdict {
            Err(error) if error.to_string().starts_with(INCONCLUSIVE) => {
                return Ok(Completion::ignored_with(format!("{error:#}")));
            }
            verdict => verdict.map_err(around)?,
        };
        Ok(match verdict {
            Verdict::Passed => Completion::Completed,
            Verdict::Impossible(reason) => Completion::ignored_with(reason),
        })
    })
}

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    if arguments.next().as_deref() == Some(load::FLAG) {
        return match load::run(arguments.collect()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("load: {error:#}");
                ExitCode::FAILURE
            }
        };
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let modules: [(&str, &[(&str, Test)]); 11] = [
        ("referee", referee::TESTS),
        ("command_line", command_line::TESTS),
        ("lifecycle", lifecycle::TESTS),
        ("web", web::TESTS),
        ("metrics", metrics::TESTS),
        ("sched", sched::TESTS),
        ("interrupts", interrupts::TESTS),
        ("block", block::TESTS),
        ("network", network::TESTS),
        ("differential", differential::TESTS),
        ("faults", faults::TESTS),
    ];
    let trials = modules
        .into_iter()
        .flat_map(|(module, tests)| {
            tests.iter().map(move |&(name, test)| trial(module, name, test))
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
