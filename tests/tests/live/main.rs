//! Live tests: root, this kernel, the real daemon.
//!
//! One at a time, because the daemon and its referee see the whole machine. The daemon is the one
//! that `NOISED_BIN` names, else the workspace's release build. A test that this machine cannot run
//! says why; it never passes for that reason. After each test the machine has to look as before.

mod attacks;
mod attribution;
mod block;
mod cgroups;
mod command_line;
mod compared;
mod configuration;
mod counters;
mod critical_paths;
mod detour;
mod differential;
mod drills;
mod faults;
mod follow;
mod formats;
mod hang;
mod hostile;
mod https;
mod incidents;
mod inside;
mod interrupts;
mod ipc;
mod kept;
mod known_counts;
mod lifecycle;
mod locked_memory;
mod marks;
mod memory;
mod metrics;
mod namespaces;
mod network;
mod osnoise;
mod osnoise_ends;
mod osnoise_log;
mod osnoise_tenant;
mod packages;
mod privileges;
mod prometheus;
#[path = "../../../noise-daemon/trace/tests/traces/python.rs"]
#[expect(clippy::unwrap_used, reason = "a judge that prints nonsense fails the test by panicking")]
mod python;
mod record;
mod record_delays;
mod record_ends;
mod record_judged;
mod recorder;
mod referee;
mod scenario;
mod sched;
mod scraping;
mod served;
mod sketches;
mod starved;
mod state;
mod successors;
mod systemd;
mod top;
mod uninterruptible;
mod web;
mod web_abuse;
mod web_config;
mod why;
mod why_against;
mod why_known;
mod why_request;
mod why_verdict;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::Result;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use noise_tests::load;
use noise_tests::needed::Impossible;
use noise_tests::surroundings::Surroundings;
use noise_tests::task::is_root;

use hang::Watch;

/// An error of [`Impossible`] says that this machine cannot run it.
type Test = fn() -> Result<()>;

/// How an error begins by which the referee says that its own record has holes.
const INCONCLUSIVE: &str = "the recording is inconclusive";

/// How often a test is run whose recording had holes.
const ATTEMPTS: usize = 2;

/// How a line begins that names a test, and how it failed before it passed.
const FLAKY: &str = "failed first: ";

/// Tests of a run that are tried once more when they failed. What fails by chance does not hide what else there is; what
/// is wrong fails again, and so does a run in which much fails.
static CHANCES: AtomicUsize = AtomicUsize::new(3);

/// Runs a test once more that failed, if one of the chances is left.
fn once_more(title: &str, test: Test, error: &anyhow::Error) -> Option<Result<()>> {
    let take = |left: usize| left.checked_sub(1);
    CHANCES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
    println!("tried once more, because it failed: {error:#}");
    let verdict = test();
    if verdict.is_ok() || impossible(&verdict).is_some() {
        // On a line of its own, where the task that counts finds it.
        println!("\n{FLAKY}{title}: {}", format!("{error:#}").replace('\n', " "));
    }
    Some(verdict)
}

/// Why a verdict says nothing, if it does not.
fn inconclusive(verdict: &Result<()>) -> Option<String> {
    let error = verdict.as_ref().err()?;
    error.to_string().starts_with(INCONCLUSIVE).then(|| format!("{error:#}"))
}

/// Why this machine cannot run the test, if it cannot.
fn impossible(verdict: &Result<()>) -> Option<String> {
    verdict.as_ref().err()?.downcast_ref().map(|Impossible(reason)| reason.clone())
}

fn trial(module: &str, name: &str, test: Test) -> Trial {
    let title = format!("{module}::{name}");
    Trial::ignorable_test(title.clone(), move || {
        if !is_root() {
            return Ok(Completion::ignored_with("needs root"));
        }
        // Here as well as at the end: beside what the test printed.
        let around = |error: anyhow::Error| {
            println!("{error:#}");
            Failed::from(format!("{error:#}"))
        };
        let _watch = Watch::begin();
        let before = Surroundings::look().map_err(around)?;
        let begin = Instant::now();
        let mut verdict = test();
        for _ in 1..ATTEMPTS {
            if let Some(reason) = inconclusive(&verdict) {
                println!("once more: {reason}");
                verdict = test();
            }
        }
        if let Err(error) = &verdict
            && inconclusive(&verdict).is_none()
            && impossible(&verdict).is_none()
            && let Some(second) = once_more(&title, test, error)
        {
            verdict = second;
        }
        println!("{title} took {:.1} s", begin.elapsed().as_secs_f64());
        before.ensure_unchanged().map_err(around)?;
        if let Some(reason) = inconclusive(&verdict).or_else(|| impossible(&verdict)) {
            return Ok(Completion::ignored_with(reason));
        }
        verdict.map_err(around)?;
        Ok(Completion::Completed)
    })
}

fn main() -> ExitCode {
    if let Some(code) = load::instead() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let modules: &[(&str, &[(&str, Test)])] = &[
        ("referee", referee::TESTS),
        ("command_line", command_line::TESTS),
        ("inside", inside::TESTS),
        ("lifecycle", lifecycle::TESTS),
        ("locked_memory", locked_memory::TESTS),
        ("configuration", configuration::TESTS),
        ("privileges", privileges::TESTS),
        ("namespaces", namespaces::TESTS),
        ("web", web::TESTS),
        ("web_config", web_config::TESTS),
        ("web_abuse", web_abuse::TESTS),
        ("metrics", metrics::TESTS),
        ("formats", formats::TESTS),
        ("counters", counters::TESTS),
        ("hostile", hostile::TESTS),
        ("known_counts", known_counts::TESTS),
        ("sched", sched::TESTS),
        ("uninterruptible", uninterruptible::TESTS),
        ("interrupts", interrupts::TESTS),
        ("block", block::TESTS),
        ("network", network::TESTS),
        ("memory", memory::TESTS),
        ("cgroups", cgroups::TESTS),
        ("differential", differential::TESTS),
        ("record", record::TESTS),
        ("record_delays", record_delays::TESTS),
        ("record_ends", record_ends::TESTS),
        ("ipc", ipc::TESTS),
        ("recorder", recorder::TESTS),
        ("why", why::TESTS),
        ("why_against", why_against::TESTS),
        ("why_known", why_known::TESTS),
        ("why_request", why_request::TESTS),
        ("why_verdict", why_verdict::TESTS),
        ("marks", marks::TESTS),
        ("critical_paths", critical_paths::TESTS),
        ("compared", compared::TESTS),
        ("sketches", sketches::TESTS),
        ("served", served::TESTS),
        ("starved", starved::TESTS),
        ("attribution", attribution::TESTS),
        ("scenario", scenario::TESTS),
        ("faults", faults::TESTS),
        ("faults::crowds", faults::crowds::TESTS),
        ("faults::maps", faults::maps::TESTS),
        ("faults::devices", faults::devices::TESTS),
        ("faults::files", faults::files::TESTS),
        ("faults::clients", faults::clients::TESTS),
        ("faults::starts", faults::starts::TESTS),
        ("faults::storage", faults::storage::TESTS),
        ("faults::threads", faults::threads::TESTS),
        ("faults::clock", faults::clock::TESTS),
        ("state", state::TESTS),
        ("incidents", incidents::TESTS),
        ("successors", successors::TESTS),
        ("follow", follow::TESTS),
        ("drills", drills::TESTS),
        ("top", top::TESTS),
        ("osnoise", osnoise::TESTS),
        ("osnoise_log", osnoise_log::TESTS),
        ("osnoise_tenant", osnoise_tenant::TESTS),
        ("osnoise_ends", osnoise_ends::TESTS),
        ("detour", detour::TESTS),
        ("scraping", scraping::TESTS),
        ("prometheus", prometheus::TESTS),
        ("packages", packages::TESTS),
        ("systemd", systemd::TESTS),
    ];
    let trials = modules
        .iter()
        .flat_map(|&(module, tests)| {
            tests.iter().map(move |&(name, test)| trial(module, name, test))
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
