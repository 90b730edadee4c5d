//! A host on which no thread can be created, from the start on or later.

use std::fs::File;
use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use noise_tests::bpf;
use noise_tests::daemon::{
    Daemon, FIXED_RECORDER, SOCKET_PATH, STATE_DIRECTORY, binary, free_address, run,
};
use noise_tests::group::{Group, Hierarchy};
use noise_tests::http::get;
use noise_tests::load::{Place, Worker};
use noise_tests::scratch::Folder;
use serde_json::Value;

use crate::lifecycle::ensure_refused_in_a_line;
use crate::web_config::{basic, user};
use crate::{INCONCLUSIVE, Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("no_thread_at_the_start", no_thread_at_the_start), ("no_thread_left", no_thread_left)];

/// A baseline in seconds instead of minutes.
const CONFIGURATION: &str = "[incidents]\nwarmup-windows = 8\n\
    recent-windows = 4\nclosing-windows = 4\n";
/// Warm-up, and what is held against it.
const QUIET: Duration = Duration::from_secs(7);
/// Time in which an incident must open, and in which it must end once its cause is gone.
const TIMEOUT: Duration = Duration::from_secs(20);
const CPU: &str = "0";

/// A daemon's files: users, and where it keeps its state.
struct Site {
    folder: Folder,
    state: Folder,
    group: Group,
}

impl Site {
    /// `None` where this host does not limit the tasks of a group.
    fn prepare() -> Result<Option<Self>> {
        if !Group::is_possible(Hierarchy::Pids)? {
            return Ok(None);
        }
        let site = Self {
            folder: Folder::new("site")?,
            state: Folder::new("state")?,
            group: Group::new("threads", &[Hierarchy::Pids])?,
        };
        site.folder.write("noised.toml", CONFIGURATION)?;
        site.folder.write("web.yml", &format!("basic_auth_users:\n{}", user("alice", "right")?))?;
        Ok(site.group.limit_tasks(1000)?.then_some(site))
    }

    fn command(&self) -> Result<(Command, SocketAddr)> {
        let address = free_address()?;
        let file = |name: &str| self.folder.path().join(name);
        let mut command = Command::new(binary()?);
        command.args(["run", "--web.listen-address", &address.to_string(), SOCKET_PATH, ""]);
        command.args([STATE_DIRECTORY, self.state.argument()?]).args(FIXED_RECORDER);
        command.arg("--config.file").arg(file("noised.toml"));
        command.arg("--web.config.file").arg(file("web.yml"));
        self.group.admit(&mut command)?;
        Ok((command, address))
    }
}

const IMPOSSIBLE: &str = "this host does not limit the number of tasks of a cgroup";

fn status(address: SocketAddr, path: &str, password: &str) -> Result<u16> {
    let header = basic("alice", password);
    Ok(get(address, path, &[("Authorization", &header)])?.status)
}

fn is_right(address: SocketAddr) -> bool {
    status(address, "/-/ready", "right").is_ok_and(|status| status == 200)
}

/// With too few threads a start is refused before anything is loaded.
fn no_thread_at_the_start() -> Result<()> {
    let site = Site::prepare()?.ok_or_else(|| Impossible(IMPOSSIBLE.into()))?;
    let before = bpf::program_ids()?;
    // One of them is the daemon's first; it writes state, keeps events of incidents, verifies passwords and reads
    // command lines in one more each, and sends such events in four: in two to root and to its own user.
    for threads in [1, 8] {
        site.group.limit_tasks(threads)?;
        let (command, _) = site.command()?;
        println!("{threads} threads:");
        ensure_refused_in_a_line(&run(command)?, 1, &["8 more threads", "TasksMax="])?;
        bpf::ensure_none_left(&before)?;
        ensure!(site.state.path().read_dir()?.next().is_none(), "something was begun");
    }
    site.group.limit_tasks(9)?;
    let (command, address) = site.command()?;
    let daemon = Daemon::start_command_until(command, address, is_right)?;
    ensure!(daemon.stop(libc::SIGTERM)?.0.success(), "did not end well");
    Ok(())
}

/// The numbers of all incidents that name a culprit, and of those that are open.
fn incidents(address: SocketAddr, of: &Group) -> Result<[Vec<u64>; 2]> {
    let header = basic("alice", "right");
    let answer = get(address, "/api/v1/incidents", &[("Authorization", &header)])?;
    let document: Value = serde_json::from_slice(&answer.body)?;
    let all = document["incidents"].as_array().context("no list of incidents")?;
    let all = all.iter().filter(|incident| incident.to_string().contains(&of.label()));
    let all: Vec<&Value> = all.collect();
    let number = |incident: &Value| incident["id"].as_u64();
    let open = all.iter().filter(|incident| incident["ending"].is_null());
    let open = open.copied().filter_map(number).collect();
    Ok([all.iter().copied().filter_map(number).collect(), open])
}

/// Asks until the answer is as wanted; fails when that takes too long.
fn until(what: &str, wanted: impl Fn() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while !wanted()? {
        if Instant::now() >= deadline {
            bail!("{INCONCLUSIVE}: {what} within {TIMEOUT:?}");
        }
        thread::sleep(Duration::from_millis(250));
    }
    Ok(())
}

/// The passwords that a daemon has to verify: one that fits, and one that does not, never seen before.
fn ensure_verified(address: SocketAddr, when: &str) -> Result<()> {
    for (password, expected) in [(when, 401), ("right", 200)] {
        let begin = Instant::now();
        let found = status(address, "/-/ready", password);
        let found = found.with_context(|| format!("{when}: {expected} was expected"))?;
        ensure!(found == expected, "{when}: {found}, not {expected}");
        ensure!(begin.elapsed() < Duration::from_secs(10), "{when}: after {:?}", begin.elapsed());
    }
    Ok(())
}

/// Passwords are verified, incidents open and close and are kept, and nothing has to recover.
fn no_thread_left() -> Result<()> {
    let site = Site::prepare()?.ok_or_else(|| Impossible(IMPOSSIBLE.into()))?;
    let (command, address) = site.command()?;
    // Only that it answers: it must not have verified a password before.
    let mut daemon = Daemon::start_command_until(command, address, |address| {
        get(address, "/-/ready", &[]).is_ok_and(|answer| answer.status == 401)
    })?;
    let victim = Group::new("victim", &[Hierarchy::Cpu])?;
    let hog = Group::new("hog", &[Hierarchy::Cpu])?;
    hog.weigh(24)?;
    let quiet = Worker::start_at(Place::group(&victim), "sleep", &[CPU, "2000"])?;
    let threads = site.group.threads()?.len();
    site.group.limit_tasks(u32::try_from(threads)?)?;
    println!("{threads} threads, and no more");
    ensure_verified(address, "without threads")?;
    thread::sleep(QUIET);
    let state = site.state.path().join("incidents.json");
    if state.exists() {
        let early: Value = serde_json::from_reader(File::open(&state)?)?;
        let is_without = early["incidents"].as_array().is_none_or(Vec::is_empty);
        ensure!(!is_without, "written without a reason");
        bail!(
            "{INCONCLUSIVE}: the machine is not quiet, an incident opened before the planted one"
        );
    }
    let burning = (0..4)
        .map(|_| Worker::start_at(Place::group(&hog), "burn", &[CPU]))
        .collect::<Result<Vec<_>>>()?;
    until("no incident opens", || Ok(!incidents(address, &hog)?[0].is_empty()))?;
    until("no state is written", || Ok(state.exists()))?;
    for worker in burning {
        worker.stop()?;
    }
    until("none closes", || {
        let [all, open] = incidents(address, &hog)?;
        Ok(all.iter().any(|number| !open.contains(number)))
    })?;
    ensure_verified(address, "still without threads")?;
    ensure!(daemon.ended()?.is_none(), "it ended: {}", daemon.process().stderr()?);
    site.group.limit_tasks(1000)?;
    ensure_verified(address, "with threads again")?;
    quiet.stop()?;
    let (status, log) = daemon.stop(libc::SIGTERM)?;
    ensure!(status.success() && !log.contains("panicked"), "ended with {status}: {log}");
    let kept: Value = serde_json::from_reader(File::open(&state)?)?;
    ensure!(kept["incidents"].as_array().is_some_and(|kept| !kept.is_empty()), "none was kept");
    Ok(())
}
