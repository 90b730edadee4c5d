//! Starts that are cut short, and starts without what they need: nothing stays attached.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use noise_tests::bpf;
use noise_tests::cgroup::MemoryLimit;
use noise_tests::daemon::{
    Daemon, FIXED_RECORDER, Outcome, Process, SOCKET_PATH, STATE_DIRECTORY, binary, free_address,
};
use noise_tests::http::get;
use noise_tests::toll::Footprint;

use super::asked_for;
use crate::lifecycle::ensure_refused_in_a_line;
use crate::{INCONCLUSIVE, Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("killed_while_starting", killed_while_starting),
    ("too_few_descriptors", too_few_descriptors),
    ("too_little_address_space", too_little_address_space),
    ("too_little_data", too_little_data),
    ("too_little_memory", too_little_memory),
];

const TIMEOUT: Duration = Duration::from_secs(60);

/// How a start ended.
pub(crate) enum Start {
    /// By itself.
    Ended(Outcome),
    /// It serves.
    Ready(Process, SocketAddr),
}

/// Starts the daemon with what `prepare` does to its process, and waits until it is ready or ends.
///
/// With these options: without one of the flight recorder, its size is measured first.
pub(crate) fn start(
    options: &[&str],
    prepare: impl FnMut() -> std::io::Result<()> + Send + Sync + 'static,
) -> Result<Start> {
    use std::os::unix::process::ExitStatusExt as _;
    let address = free_address()?;
    let mut command = Command::new(binary()?);
    command.args(["run", "--web.listen-address", &address.to_string()]);
    command.args([STATE_DIRECTORY, "", SOCKET_PATH, ""]).args(options);
    // SAFETY: callers do nothing but async-signal-safe calls.
    unsafe { command.pre_exec(prepare) };
    let mut process = Process::start(command)?;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(status) = process.ended()? {
            let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
            let (stdout, stderr) = (process.stdout()?, process.stderr()?);
            return Ok(Start::Ended(Outcome { code, stdout, stderr }));
        }
        if get(address, "/-/ready", &[]).is_ok_and(|answer| answer.status == 200) {
            return Ok(Start::Ready(process, address));
        }
        ensure!(Instant::now() < deadline, "neither ready nor ended: {}", process.stderr()?);
        thread::sleep(Duration::from_millis(20));
    }
}

fn killed_while_starting() -> Result<()> {
    let times = if asked_for("large") { 20 } else { 6 };
    let before = bpf::program_ids()?;
    let begin = Instant::now();
    let daemon = Daemon::start()?;
    let length = begin.elapsed();
    daemon.stop(libc::SIGTERM)?;
    let mut loaded = 0;
    for time in 0..times {
        let mut command = Command::new(binary()?);
        command.args(["run", "--web.listen-address", &free_address()?.to_string()]);
        command.args([STATE_DIRECTORY, "", SOCKET_PATH, ""]);
        let mut process = Process::start(command)?;
        // Every moment of a start is somebody's turn.
        thread::sleep(length.mul_f64((f64::from(time) + 0.5) / f64::from(times)));
        loaded += usize::from(!bpf::programs_of(process.pid())?.is_empty());
        process.signal(libc::SIGKILL)?;
        process.wait()?;
    }
    println!("killed {times} times within {length:?}, {loaded} times with programs loaded");
    bpf::ensure_none_left(&before)?;
    ensure!(loaded > 0, "{INCONCLUSIVE}: no start had come as far as a program when it was killed");
    let successor = Daemon::start()?;
    println!("the next start: {:?}", Footprint::of(successor.process().pid())?);
    ensure!(successor.scrape()?.total("noised_context_switches_total") > 0.0, "nothing counted");
    Ok(())
}

/// Tries limits, the smallest first: each start is refused in words, or works.
fn tried(
    resource: &str,
    limits: &[u64],
    words: &[&str],
    set: fn(u64) -> std::io::Result<()>,
) -> Result<()> {
    let before = bpf::program_ids()?;
    let (mut refused, mut worked) = (0, 0);
    for &limit in limits {
        match start(&FIXED_RECORDER, move || set(limit))? {
            Start::Ended(outcome) => {
                println!("{resource} {limit}:");
                ensure_refused_in_a_line(&outcome, 1, words)?;
                refused += 1;
            }
            Start::Ready(process, _) => {
                let footprint = Footprint::of(process.pid())?;
                println!("{resource} {limit}: works, {footprint:?}");
                process.signal(libc::SIGTERM)?;
                let mut process = process;
                let status = process.wait()?;
                ensure!(status.success(), "ended with {status}: {}", process.stderr()?);
                worked += 1;
            }
        }
        bpf::ensure_none_left(&before)?;
    }
    println!("{refused} limits refused, {worked} worked");
    ensure!(refused > 0 && worked > 0, "the limits do not separate the one from the other");
    Ok(())
}

pub(crate) fn limit(resource: u32, limit: u64) -> std::io::Result<()> {
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: the limit is read during the call only; setrlimit is async-signal-safe.
    let result = unsafe { libc::setrlimit(resource, &raw const limit) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn too_few_descriptors() -> Result<()> {
    let limits = [8, 24, 80, 160, 256];
    tried("descriptors", &limits, &["descriptors", "LimitNOFILE"], |most| {
        limit(libc::RLIMIT_NOFILE, most)
    })
}

fn too_little_data() -> Result<()> {
    const MIB: u64 = 1 << 20;
    let limits = [8, 16, 24, 28, 32, 40, 64].map(|mebibytes| mebibytes * MIB);
    tried("bytes of data", &limits, &["data", "LimitDATA"], |most| limit(libc::RLIMIT_DATA, most))
}

fn too_little_address_space() -> Result<()> {
    const MIB: u64 = 1 << 20;
    // With less, the kernel does not even load the program.
    let limits = [64 * MIB, 512 * MIB];
    tried("bytes of address space", &limits, &["memory", "LimitAS"], |most| {
        limit(libc::RLIMIT_AS, most)
    })
}

/// Cgroups that are too small, and larger ones: a start is refused in a sentence, or serves. None is
/// killed by the kernel.
fn too_little_memory() -> Result<()> {
    let before = bpf::program_ids()?;
    let mut worked = Vec::new();
    for mebibytes in [4_u64, 16, 32, 38, 40, 42, 44, 48, 52, 64, 256] {
        let group = MemoryLimit::new(mebibytes << 20)?
            .ok_or_else(|| Impossible("this host gives no cgroup a memory limit".into()))?;
        let door = group.door()?;
        let start = start(&[], move || {
            use std::io::Write as _;
            (&door).write_all(b"0")
        })?;
        match start {
            Start::Ended(outcome) => {
                let stderr = outcome.stderr.trim();
                println!("{mebibytes} MiB: exit code {}: {stderr}", outcome.code);
                ensure!(mebibytes < 64, "{mebibytes} MiB are not enough");
                ensure!(worked.is_empty(), "{worked:?} MiB were enough");
                ensure_refused_in_a_line(&outcome, 1, &["memory", "MemoryMax"])?;
            }
            Start::Ready(mut process, address) => {
                println!("{mebibytes} MiB: works, {:?}", Footprint::of(process.pid())?);
                let page = get(address, "/metrics", &[])?;
                ensure!(page.status == 200, "{mebibytes} MiB: {}", page.status);
                worked.push(mebibytes);
                process.signal(libc::SIGTERM)?;
                ensure!(process.wait()?.success(), "{}", process.stderr()?);
            }
        }
        bpf::ensure_none_left(&before)?;
    }
    Ok(())
}
