//! A command behind programs that want all CPUs: where root waits long for a CPU itself, it goes before them, for a bounded time.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::{Socketed, binary};
use noise_tests::group::{Group, Hierarchy};
use noise_tests::load::{Place, Worker};
use noise_tests::scratch::argument;
use noise_tests::task::cpus;

use crate::Test;

pub(crate) const TESTS: &[(&str, Test)] =
    &[("a_command_that_waits_long_goes_first", a_command_that_waits_long_goes_first)];

/// How many times the weight of the command's cgroup all others together have.
const AGAINST: u32 = 200;
/// What the command may have as a real-time thread, per cent of a CPU: kernels that share that out among cgroups ask.
const REALTIME: u32 = 50;

/// How a process is scheduled, as its `stat` has it; `None` when it is gone.
fn policy(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_ascii_whitespace().nth(38).map(str::to_owned)
}

fn a_command_that_waits_long_goes_first() -> Result<()> {
    let noised = Socketed::start(&[])?;
    let operator = Group::new("operator", &[Hierarchy::Cpu])?;
    operator.allow_realtime(REALTIME)?;
    let hog = Group::new("hog", &[Hierarchy::Cpu])?;
    hog.weigh(AGAINST)?;
    let burners: Result<Vec<Worker>> =
        (0..2 * cpus()).map(|_| Worker::start_at(Place::group(&hog), "burn", &["any"])).collect();
    let _burners = burners?;
    let mut command = Command::new(binary()?);
    command.args(["why", &hog.label(), "--connect", argument(&noised.socket)?]);
    operator.admit(&mut command)?;
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = started.spawn().context("starting noised why")?;
    let mut is_first = false;
    while child.try_wait()?.is_none() {
        // SCHED_RR.
        is_first |= policy(child.id()).is_some_and(|policy| policy == "2");
        thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output()?;
    let (page, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success() && page.contains(&hog.label()), "{said}\n{page}");
    ensure!(is_first, "it was never before others: {said}\n{page}");
    ensure!(said.contains("goes before other programs now"), "{said}");
    Ok(())
}
