//! Comparisons of executions: faults that were planted into a program, and a quota.

use anyhow::{Result, ensure};
use noise_tests::scenario::compared::program::Program;
use noise_tests::scenario::compared::{faults, quota};

use crate::why_known::says_quota;
use crate::{INCONCLUSIVE, Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("faults_of_a_program_are_found_and_placed", faults_of_a_program_are_found_and_placed),
    ("a_quota_is_found_and_charged", a_quota_is_found_and_charged),
];

/// What is recorded: sixty normal executions, ten of each fault, three samples without any.
const AMOUNT: faults::Amount = faults::Amount { rounds: 12, sample_rounds: 2, sets: 3 };
/// Samples without a fault in which a state may be flagged.
const MOST_FALSE: usize = 1;
/// The part of the executions that counts with its own kind.
const WITH_THEIR_KIND: f64 = 0.95;
/// The part of the executions with a fault that is found, and whose first place is where it is.
const PLACED: f64 = 0.9;
/// The part of what a quota's waits lose that is charged to it.
const CHARGED: f64 = 0.9;
/// Rounds without the quota, and with it.
const QUOTA_ROUNDS: [u32; 2] = [8, 3];
/// A quota that stopped the group so long was tested, ms.
const LEAST_STOPPED_MS: f64 = 200.0;
/// The part of it, at least and at most, that is on paths: the program itself starts in the group as well, and pauses
/// between executions.
const ON_PATHS: std::ops::Range<f64> = 0.3..1.02;

const NO_DISK: &str = "the temporary directory is on no block device";

fn faults_of_a_program_are_found_and_placed() -> Result<()> {
    let program = Program::prepare(None)?.ok_or_else(|| Impossible(NO_DISK.into()))?;
    let found = faults::findings(&program, AMOUNT, |_| ())?;
    println!("{}", serde_json::to_string_pretty(&found)?);
    ensure!(found.is_whole, "{INCONCLUSIVE}: events were lost");
    let part = found.with_their_kind as f64 / found.normal as f64;
    ensure!(part >= WITH_THEIR_KIND, "{part:.2} of the executions count with their own kind");
    for one in &found.faults {
        let part = one.placed as f64 / one.executions as f64;
        ensure!(part >= PLACED, "{}: {part:.2} are placed right", one.fault);
    }
    let alarms = found.false_alarms;
    ensure!(alarms.len() <= MOST_FALSE, "without a fault: {}", alarms.join("; "));
    Ok(())
}

fn a_quota_is_found_and_charged() -> Result<()> {
    let program = Program::prepare(None)?.ok_or_else(|| Impossible(NO_DISK.into()))?;
    let [rounds, sample_rounds] = QUOTA_ROUNDS;
    let found = quota::findings(&program, rounds, sample_rounds, |_| ())?
        .ok_or_else(|| Impossible("this host limits the CPU time of no group".into()))?;
    println!("{}", serde_json::to_string_pretty(&found)?);
    ensure!(found.is_whole, "{INCONCLUSIVE}: events were lost");
    let kernel_ms = found.kernel_ms;
    ensure!(
        kernel_ms > LEAST_STOPPED_MS,
        "{INCONCLUSIVE}: it stopped the group for {kernel_ms} ms"
    );
    ensure!(found.flagged.iter().any(|state| state == "waiting_cpu"), "waits are not flagged");
    ensure!(found.waited > 0, "no execution lost most in a wait for a CPU");
    if !says_quota()? {
        ensure!(found.charged == 0, "a quota is known from nowhere");
        return Ok(());
    }
    let part = found.charged_ms / found.lost_ms;
    ensure!(part >= CHARGED, "{part:.2} of what was lost is charged to the quota");
    let part = found.throttled_ms / kernel_ms;
    ensure!(ON_PATHS.contains(&part), "paths have {part:.2} of what the quota took");
    Ok(())
}
