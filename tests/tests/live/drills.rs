//! The short form of the drills: somebody else takes the CPUs, a quota is too low, and a backend
//! is slow. `cargo xtask drill` plays all of them.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::drill::{Ending, Plan, find, play, report};

use crate::{INCONCLUSIVE, Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[("cpu", cpu), ("quota", quota), ("backend", backend)];

/// Short: all of them together stay below two minutes.
const PLAN: Plan = Plan {
    learn: Duration::from_secs(14),
    watch: Duration::from_secs(10),
    quiet: Duration::from_secs(6),
    as_shipped: false,
};

/// Points that are required: a machine that others use may miss the one for what is shown within ten seconds, and no
/// incident opens for what a service waits for another one.
const LEAST_POINTS: u32 = 2;

/// Requires these points, and no command that would do harm.
fn require(name: &str) -> Result<()> {
    let outcome = play(find(name).context("no such drill")?, &PLAN)?;
    let report = report(std::slice::from_ref(&outcome));
    println!("{}", report.trim());
    match outcome.ending {
        Ending::Skipped { reason } => Err(Impossible(reason).into()),
        Ending::Inconclusive { reason } => anyhow::bail!("{INCONCLUSIVE}: {reason}"),
        Ending::Judged { points } => {
            ensure!(outcome.harm.is_empty(), "a command would do harm: {report}");
            ensure!(points >= LEAST_POINTS, "{points} points of 3: {report}");
            Ok(())
        }
    }
}

fn cpu() -> Result<()> {
    require("cpu")
}

fn quota() -> Result<()> {
    require("quota")
}

fn backend() -> Result<()> {
    require("backend")
}
