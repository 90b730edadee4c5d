//! Loads of the scheduler: processes that wake each other, sleep, burn CPU time and change shape.

use std::env;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::{Arguments, Session, command, report};
use crate::task::{Policy, pin, set_name, set_policy, settle};

/// The nice level of the autogroup, where the kernel has them.
const AUTOGROUP: &str = "/proc/self/autogroup";

/// Sleeps after this many rounds, so that a recording stays of bounded size.
const BURST: u64 = 32;

fn pause(microseconds: u64) {
    if microseconds > 0 {
        thread::sleep(Duration::from_micros(microseconds));
    }
}

/// `pipe <cpu> <peer's cpu> <pause us>`: a byte to and fro between two processes.
pub(super) fn pipe(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let peer_cpu: usize = arguments.number()?;
    let pause_us = arguments.number()?;
    let mut peer = command("pipe-peer", &[&peer_cpu.to_string()])?
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut to = peer.stdin.take().context("no pipe")?;
    let mut from = peer.stdout.take().context("no pipe")?;
    let session = Session::begin()?;
    let mut rounds = 0_u64;
    let mut byte = [1_u8];
    while session.going_after(rounds) {
        to.write_all(&byte)?;
        from.read_exact(&mut byte)?;
        rounds += 1;
        if rounds.is_multiple_of(BURST) {
            pause(pause_us);
        }
    }
    drop(to);
    peer.wait()?;
    report(&format!("rounds {rounds}"))
}

/// `pipe-peer <cpu>`: returns every byte.
pub(super) fn pipe_peer(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let (mut from, mut to) = (io::stdin().lock(), io::stdout().lock());
    let mut byte = [0_u8];
    while from.read(&mut byte)? == 1 {
        to.write_all(&byte)?;
        to.flush()?;
    }
    Ok(())
}

/// `timer <cpu> <period us>`: wakes by a periodic timer.
pub(super) fn timer(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let mut timer = crate::task::periodic_timer(Duration::from_micros(arguments.number()?))?;
    let session = Session::begin()?;
    let mut wakes = 0_u64;
    let mut expirations = [0_u8; 8];
    while session.going_after(wakes) {
        timer.read_exact(&mut expirations)?;
        wakes += 1;
    }
    report(&format!("wakes {wakes}"))
}

/// `sleep <cpu> <period us>`: sleeps again and again.
pub(super) fn sleep(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let period = Duration::from_micros(arguments.number()?);
    let session = Session::begin()?;
    let mut wakes = 0_u64;
    while session.going_after(wakes) {
        thread::sleep(period);
        wakes += 1;
    }
    report(&format!("wakes {wakes}"))
}

/// `burn <cpu, or any>`: never sleeps.
pub(super) fn burn(arguments: &mut Arguments) -> Result<()> {
    settle(&arguments.text()?)?;
    spin()
}

/// `named-burn <cpu> <name>`: the same under a name of its own, by which recordings know it.
///
/// In a session, and so in an autogroup, of its own with one CPU: see `soak`.
pub(super) fn named_burn(arguments: &mut Arguments) -> Result<()> {
    // SAFETY: no memory argument. A child leads no session yet.
    ensure!(unsafe { libc::setsid() } >= 0, "setsid: {}", io::Error::last_os_error());
    pin(0, arguments.number()?)?;
    set_name(&arguments.text()?)?;
    spin()
}

/// `soak <cpu>`: takes what time a CPU has left, so that it never idles.
///
/// In an autogroup of its own, the least of all: in one that works on other CPUs as well, Linux 6.18 can
/// let it keep a CPU from kernel threads for minutes.
pub(super) fn soak(arguments: &mut Arguments) -> Result<()> {
    // SAFETY: no memory argument. A child leads no session yet.
    ensure!(unsafe { libc::setsid() } >= 0, "setsid: {}", io::Error::last_os_error());
    if Path::new(AUTOGROUP).exists() {
        fs::write(AUTOGROUP, "19").context(AUTOGROUP)?;
    }
    pin(0, arguments.number()?)?;
    set_policy(0, Policy::Idle)?;
    spin()
}

fn spin() -> Result<()> {
    let session = Session::begin()?;
    let mut turns = 0_u64;
    while session.going_after(turns) {
        std::hint::spin_loop();
        turns += 1;
    }
    report(&format!("turns {turns}"))
}

/// `bursts <cpu> <burst ms> <pause ms> <count>`: burns in real-time bursts, then ends.
///
/// Keep a burst well below a second: the kernel takes the CPU from real-time tasks after that.
pub(super) fn bursts(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let burst = Duration::from_millis(arguments.number()?);
    let pause = Duration::from_millis(arguments.number()?);
    let count: u64 = arguments.number()?;
    set_policy(0, Policy::Fifo)?;
    report("ready")?;
    for _ in 0..count {
        thread::sleep(pause);
        let end = Instant::now() + burst;
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    }
    report(&format!("bursts {count}"))
}

/// `short-sleeps <cpu>`: sleeps so short that the timer often fires before the task has left the CPU:
/// the wake-up then finds it running.
pub(super) fn short_sleeps(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    // SAFETY: no memory argument.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let session = Session::begin()?;
    let mut rounds = 0_u64;
    while session.going_after(rounds) {
        thread::sleep(Duration::from_nanos(1 + rounds % 64 * 50));
        rounds += 1;
        if rounds.is_multiple_of(BURST * 8) {
            // A sleep that a start left behind by such a wake-up would be charged with.
            pause(20_000);
        }
    }
    report(&format!("rounds {rounds}"))
}

/// `nap <cpu> <ms> <count>`: sleeps that long, that often, then ends. Bound to its CPU by name only:
/// another process may move it.
pub(super) fn nap(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let length = Duration::from_millis(arguments.number()?);
    let count: u64 = arguments.number()?;
    report("ready")?;
    for _ in 0..count {
        thread::sleep(length);
    }
    report(&format!("naps {count}"))
}

/// `exec-chain <cpu> <ms> <count> <done>`: sleeps, then becomes a new program, that often.
pub(super) fn exec_chain(arguments: &mut Arguments) -> Result<()> {
    let (cpu, length_ms): (usize, u64) = (arguments.number()?, arguments.number()?);
    let (count, done): (u64, u64) = (arguments.number()?, arguments.number()?);
    if done == 0 {
        report("ready")?;
    }
    pin(0, cpu)?;
    thread::sleep(Duration::from_millis(length_ms));
    if done == count {
        return report(&format!("execs {done}"));
    }
    become_next(cpu, length_ms, count, done + 1)
}

/// `thread-exec <cpu> <ms>`: a thread other than the first becomes a new program, and with it takes
/// over the first thread's id.
pub(super) fn thread_exec(arguments: &mut Arguments) -> Result<()> {
    let (cpu, length_ms): (usize, u64) = (arguments.number()?, arguments.number()?);
    report("ready")?;
    let other = thread::spawn(move || -> Result<()> {
        pin(0, cpu)?;
        thread::sleep(Duration::from_millis(length_ms));
        become_next(cpu, length_ms, 1, 1)
    });
    other.join().map_err(|_| anyhow::anyhow!("the thread panicked"))?
}

fn become_next(cpu: usize, length_ms: u64, count: u64, done: u64) -> Result<()> {
    let next = [cpu.to_string(), length_ms.to_string(), count.to_string(), done.to_string()];
    let mut command = Command::new(env::current_exe()?);
    command.arg(super::FLAG).arg("exec-chain").args(next);
    Err(command.exec().into())
}
