//! The noise paper's four test cases: the planted culprit comes first, its charges are the referee's,
//! and without it no other is blamed in its place. Incidents take longer: `incidents` has them.

use std::time::Duration;

use anyhow::{Result, ensure};
use noise_tests::attribution::{Account, Blame, Cast};
use noise_tests::compare::{Observation, observe};
use noise_tests::daemon::Daemon;
use noise_tests::ftrace::{BLOCK_EVENTS, all_events, charge_events};
use noise_tests::namespace::INTERFACE;
use noise_tests::pairing::ahead::{block_device, block_queue, block_queue_doubt, net_tx};
use noise_tests::pairing::block::{Life, block_waits};
use noise_tests::pairing::charges::overlay;
use noise_tests::pairing::net::{net_rx_backlogs, net_rx_wait};
use noise_tests::scenario::{
    CpuStage, DiskStage, IrqLoad, IrqStage, NetworkStage, Report, Stage, play, render,
};
use noise_tests::task::pollers;

use crate::{INCONCLUSIVE, Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("cpu", cpu), ("disk", disk), ("network", network), ("timers", timers), ("irqs", irqs)];

/// How far charges for a CPU may be from the referee's.
const CPU_SHARE: f64 = 0.05;
/// How far charges for a place in a queue may be.
const QUEUE_SHARE: f64 = 0.15;
/// From this wait for its softirq on, a packet's delivery is charged with that wait, too, ns.
const BACKLOG_NS: u64 = 10_000;
/// The part of the waits for a disk that others on this machine may cause by what is written back later.
const MOST_WRITTEN_BACK: f64 = 0.01;
const LENGTH: Duration = Duration::from_secs(3);
const FILE_MIB: usize = 8;

/// A scenario that was played: what both saw of its noisy phase.
struct Played {
    seen: Observation,
    cast: Cast,
    account: Account,
}

/// Plays both phases, the noisy one before the referee.
fn both(daemon: &Daemon, stage: &dyn Stage, events: &[&str], buffer_mib: usize) -> Result<Played> {
    let quiet = play(daemon, stage, false, LENGTH, |_| {}, || Ok(()))?;
    // Groups that have no process yet.
    let idle: Vec<String> = stage.groups().iter().map(|group| group.label()).collect();
    let idle =
        |blame: &Blame| blame.culprit != stage.victim().label() && idle.contains(&blame.culprit);
    let blamed: Vec<_> = quiet.charged(&stage.victim().label())?.into_iter().collect();
    ensure!(!blamed.is_empty(), "the victim was charged for nothing in the quiet phase");
    let wrong: Vec<_> = blamed.iter().filter(|(blame, _)| idle(blame)).collect();
    ensure!(wrong.is_empty(), "who was not there yet is blamed: {wrong:?}");
    let mut cast = Cast::default();
    let (seen, noisy) = observe(daemon, events, buffer_mib, || {
        play(
            daemon,
            stage,
            true,
            LENGTH,
            |_| {},
            || {
                cast = Cast::look(&stage.groups())?;
                Ok(())
            },
        )
    })?;
    println!("{}", render(&Report::new(stage, &quiet, &noisy)?));
    let account = Account::of(&seen, stage.victim(), &cast)?;
    Ok(Played { seen, cast, account })
}

/// Requires that the charges are the referee's and that a planted culprit comes first.
fn judge(stage: &dyn Stage, account: &Account, share: f64) -> Result<()> {
    account.verdict(stage.resources(), share)?;
    account.ensure_first(&stage.planted(), stage.resources())
}

fn cpu() -> Result<()> {
    let daemon = Daemon::start_unfolded()?;
    let stage = CpuStage::prepare()?;
    let played = both(&daemon, &stage, &charge_events(), 64)?;
    judge(&stage, &played.account, CPU_SHARE)?;
    Ok(())
}

fn disk() -> Result<()> {
    let daemon = Daemon::start_unfolded()?;
    let stage = DiskStage::prepare(FILE_MIB)?
        .ok_or_else(|| Impossible("the temporary directory is on no block device".into()))?;
    let events = [BLOCK_EVENTS, &charge_events()].concat();
    let mut played = both(&daemon, &stage, &events, 128)?;
    let disk = stage.disk().to_owned();
    let on_disk = |life: &Life| *noise_tests::disk::device_name(life.device) == *disk;
    let waits = block_waits(&played.seen.trace.events, noise_tests::disk::device_name);
    let lives: Vec<Life> = waits.lives.into_iter().filter(on_disk).collect();
    let Played { seen, cast, account } = &mut played;
    let victims = cast.threads(stage.victim());
    for (resource, charges) in [
        ("block_queue", block_queue(&lives, &victims)),
        ("block_device", block_device(&lives, &victims)),
    ] {
        account.expect_queued(seen, resource, stage.victim(), cast, &charges);
        // Noised knows whose data a kernel thread writes back, ftrace the thread alone.
        let by_cause = |cause| account.expected_of(resource, cause);
        let all: f64 = ["self", "foreign", "idle", "kthread"].into_iter().map(by_cause).sum();
        let written_back = by_cause("kthread");
        ensure!(
            written_back <= MOST_WRITTEN_BACK * all,
            "{INCONCLUSIVE}: of {all} s, {written_back} s were behind what others have written"
        );
    }
    let resolution_ns = seen.resolution_ns as u64;
    account.doubt("block_queue", block_queue_doubt(&lives, &victims, resolution_ns) as f64 / 1e9);
    judge(&stage, account, QUEUE_SHARE)?;
    Ok(())
}

fn network() -> Result<()> {
    let daemon = Daemon::start_unfolded()?;
    let stage = NetworkStage::prepare()?;
    let mut played = both(&daemon, &stage, &all_events(), 128)?;
    let Played { seen, cast, account } = &mut played;
    let charges = net_tx(&seen.trace.events, INTERFACE, &cast.threads(stage.victim()));
    account.expect_queued(seen, "net_tx", stage.victim(), cast, &charges);
    let mut deliveries = net_rx_wait(&seen.trace.events, &pollers()?).samples;
    deliveries.extend(net_rx_backlogs(&seen.trace.events, &deliveries, BACKLOG_NS));
    let charges = overlay(&seen.trace.events, &deliveries, &cast.threads(stage.victim()));
    account.expect_queued(seen, "net_rx", stage.victim(), cast, &charges);
    judge(&stage, account, QUEUE_SHARE)?;
    Ok(())
}

/// One source of interrupts, or several in turns.
fn interrupted(load: IrqLoad) -> Result<()> {
    let daemon = Daemon::start_unfolded()?;
    let stage = IrqStage::prepare(load)?;
    let played = both(&daemon, &stage, &charge_events(), 256)?;
    judge(&stage, &played.account, CPU_SHARE)?;
    Ok(())
}

fn timers() -> Result<()> {
    interrupted(IrqLoad::Timers)
}

fn irqs() -> Result<()> {
    interrupted(IrqLoad::Everything)
}
