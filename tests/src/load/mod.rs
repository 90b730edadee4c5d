//! Load generators, each a process of its own.
//!
//! The test binary starts itself again with [`FLAG`] and the name of a load: `main` hands such a
//! start to [`run`]. A load prints `ready`, works until its standard input ends, then prints what it
//! did as `name number` lines. A worker is killed when its handle is dropped, and by the kernel if
//! the test itself dies.

pub mod churn;
pub mod compute;
pub mod crowd;
pub mod disk;
pub mod far;
pub mod files;
pub mod indexer;
pub mod marks;
pub mod net;
pub mod noise;
pub mod packets;
pub(crate) mod pool;
pub mod relay;
pub mod service;
pub mod storm;
pub mod task;
pub mod tides;

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::group::Group;
use crate::namespace::Namespace;
use crate::task::{Policy, ended, set_policy};

/// The argument that turns the test binary into a worker.
const FLAG: &str = "--noise-load";

/// How long a load may take to start: some make thousands of cgroups first.
const LONGEST_START: Duration = Duration::from_secs(120);

/// What a worker did, by name.
pub type Figures = BTreeMap<String, u64>;

/// A running load.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    output: BufReader<ChildStdout>,
}

/// Where a load runs; by default, where its starter does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place<'a> {
    /// Its cgroup.
    pub group: Option<&'a Group>,
    /// Its network namespace.
    pub namespace: Option<&'a Namespace>,
}

impl<'a> Place<'a> {
    /// In this cgroup.
    pub fn group(group: &'a Group) -> Self {
        Self { group: Some(group), namespace: None }
    }

    /// Lets the process that `command` starts go there before it becomes the program.
    fn lead(self, command: &mut Command) -> Result<()> {
        if let Some(group) = self.group {
            group.admit(command)?;
        }
        if let Some(namespace) = self.namespace {
            let door = namespace.door()?;
            // SAFETY: setns is async-signal-safe; the file was opened before the fork.
            unsafe { command.pre_exec(move || enter(door.as_raw_fd())) };
        }
        Ok(())
    }
}

fn enter(namespace: RawFd) -> std::io::Result<()> {
    // SAFETY: no memory argument.
    let result = unsafe { libc::setns(namespace, libc::CLONE_NEWNET) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn command(name: &str, arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.arg(FLAG).arg(name).args(arguments);
    // SAFETY: prctl is async-signal-safe and touches no memory.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    Ok(command)
}

impl Worker {
    /// Starts a load and waits until it works.
    pub fn start(name: &str, arguments: &[&str]) -> Result<Self> {
        Self::start_at(Place::default(), name, arguments)
    }

    /// Starts a load in a place of its own and waits until it works.
    pub fn start_at(place: Place<'_>, name: &str, arguments: &[&str]) -> Result<Self> {
        let mut command = command(name, arguments)?;
        place.lead(&mut command)?;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting the load {name}"))?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        let mut worker = Self { child, output };
        ensure!(
            worker.speaks_within(LONGEST_START)?,
            "the load {name} had no turn in its first {} s",
            LONGEST_START.as_secs()
        );
        let mut line = String::new();
        worker.output.read_line(&mut line)?;
        ensure!(line == "ready\n", "the load {name} did not start");
        Ok(worker)
    }

    /// Whether it has printed something by the end of a time.
    fn speaks_within(&self, time: Duration) -> Result<bool> {
        let mut asked = libc::pollfd {
            fd: self.output.get_ref().as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, which outlives the call.
        let ready = unsafe { libc::poll(&raw mut asked, 1, time.as_millis().try_into()?) };
        ensure!(ready >= 0, "poll: {}", std::io::Error::last_os_error());
        Ok(ready > 0)
    }

    /// Its process id; of its first thread, too.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Its threads.
    pub fn threads(&self) -> Result<Vec<i32>> {
        let mut threads = Vec::new();
        for entry in std::fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            threads.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
        }
        Ok(threads)
    }

    /// Lets the load end its work, and returns what it did.
    pub fn stop(mut self) -> Result<Figures> {
        self.ask_to_stop();
        self.figures()
    }

    /// Lets the load end its work, without waiting.
    pub fn ask_to_stop(&mut self) {
        drop(self.child.stdin.take());
        self.hurry();
    }

    /// Waits for a load that ends by itself.
    pub fn figures(&mut self) -> Result<Figures> {
        let mut text = String::new();
        self.output.read_to_string(&mut text)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "a load ended with {status}");
        text.lines()
            .map(|line| {
                let (name, number) = line.split_once(' ').context("a figure without a number")?;
                Ok((name.to_owned(), number.parse()?))
            })
            .collect()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: i32) -> Result<()> {
        // SAFETY: no memory argument; the child is not reaped yet, so the id is still its own.
        let result = unsafe { libc::kill(self.pid(), signal) };
        ensure!(result == 0, "kill: {}", std::io::Error::last_os_error());
        Ok(())
    }

    /// Kills the load with SIGKILL and does not wait: it may not get to run for a while.
    pub fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill()?)
    }

    /// Lets it end at once: one that runs when nothing else wants to may have no turn for minutes beside others (seen: 570 s without one, on
    /// Linux 6.18), not even to end.
    fn hurry(&self) {
        // SAFETY: no memory argument.
        if unsafe { libc::sched_getscheduler(self.pid()) } != libc::SCHED_IDLE {
            return;
        }
        for thread in self.threads().unwrap_or_default() {
            // An error means that it has ended already.
            let _ = set_policy(thread, Policy::Fifo);
        }
    }

    /// Waits for the end of a killed load.
    pub fn wait_killed(&mut self) -> Result<()> {
        let status = self.child.wait()?;
        ensure!(status.signal() == Some(libc::SIGKILL), "the load ended with {status}");
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        let _ = self.child.kill();
        self.hurry();
        let _ = self.child.wait();
    }
}

/// A figure by its name.
pub fn figure(figures: &Figures, name: &str) -> Result<u64> {
    figures.get(name).copied().with_context(|| format!("the load did not report {name}"))
}

/// A load's arguments, taken one after the other.
struct Arguments(std::vec::IntoIter<String>);

impl Arguments {
    fn text(&mut self) -> Result<String> {
        self.0.next().context("an argument of the load is missing")
    }

    fn number<T: FromStr>(&mut self) -> Result<T>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let text = self.text()?;
        text.parse().with_context(|| format!("{text:?} is not a number for this load"))
    }
}

/// Whether the parent wants more.
#[derive(Clone)]
struct Session(Arc<AtomicBool>);

impl Session {
    /// Says `ready` and starts to watch standard input for its end.
    fn begin() -> Result<Self> {
        let going = Arc::new(AtomicBool::new(true));
        let watched = Arc::clone(&going);
        thread::spawn(move || {
            // Its end, or an error: either way the other side is gone.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            watched.store(false, Ordering::Relaxed);
        });
        report("ready")?;
        Ok(Self(going))
    }

    fn going(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The same for a load that counts what it does: none stops before there is something to count,
    /// however seldom it gets to run.
    fn going_after(&self, done: u64) -> bool {
        done == 0 || self.going()
    }
}

fn report(line: &str) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}")?;
    Ok(output.flush()?)
}

/// What the program that a [`Worker`] started does instead of its own work; `None` in others.
pub fn instead() -> Option<ExitCode> {
    let mut arguments = env::args().skip(1);
    if arguments.next().as_deref() != Some(FLAG) {
        return None;
    }
    Some(ended("load", run(arguments.collect())))
}

/// Runs the load that the arguments after [`FLAG`] name.
/// Errors: if there is no such load, or it fails.
fn run(arguments: Vec<String>) -> Result<()> {
    let mut arguments = Arguments(arguments.into_iter());
    let name = arguments.text()?;
    match name.as_str() {
        "pipe" => task::pipe(&mut arguments),
        "pipe-peer" => task::pipe_peer(&mut arguments),
        "timer" => task::timer(&mut arguments),
        "sleep" => task::sleep(&mut arguments),
        "soak" => task::soak(&mut arguments),
        "burn" => task::burn(&mut arguments),
        "bursts" => task::bursts(&mut arguments),
        "short-sleeps" => task::short_sleeps(&mut arguments),
        "nap" => task::nap(&mut arguments),
        "exec-chain" => task::exec_chain(&mut arguments),
        "thread-exec" => task::thread_exec(&mut arguments),
        "sleepers" => churn::sleepers(&mut arguments),
        "forks" => churn::forks(&mut arguments),
        "suspensions" => churn::suspensions(&mut arguments),
        "group-churn" => churn::group_churn(&mut arguments),
        "group-tides" => tides::group_tides(&mut arguments),
        "device-churn" => churn::device_churn(&mut arguments),
        "crew" => compute::crew(&mut arguments),
        "crowd" => crowd::crowd(&mut arguments),
        "primes" => compute::primes(&mut arguments),
        "pool" => pool::pool(&mut arguments),
        "download" => compute::download(&mut arguments),
        "download-server" => compute::download_server(&mut arguments),
        "indexer" => indexer::indexer(&mut arguments),
        "indexer-sums" => indexer::indexer_sums(),
        "named-burn" => task::named_burn(&mut arguments),
        "file-readers" => files::file_readers(&mut arguments),
        "marks" => marks::marks(&mut arguments),
        "grep" => files::grep(&mut arguments),
        "relay" => relay::relay(&mut arguments),
        "relay-middle" => relay::relay_middle(&mut arguments),
        "relay-store" => relay::relay_store(&mut arguments),
        "sink" => packets::sink(&mut arguments),
        "datagrams" => packets::datagrams(&mut arguments),
        "frames" => packets::frames(&mut arguments),
        "frames-in" => packets::frames_in(&mut arguments),
        "clock-storm" => storm::clock_storm(&mut arguments),
        "service" => service::service(&mut arguments),
        "far-host" => far::far_host(&mut arguments),
        "names" => service::names(&mut arguments),
        "client" => service::client(&mut arguments),
        "planter" => noise::planter(&mut arguments),
        "ipi-storm" => storm::ipi_storm(&mut arguments),
        "direct-reads" => disk::direct_reads(&mut arguments),
        "shuffled-reads" => disk::shuffled_reads(&mut arguments),
        "synced-writes" => disk::synced_writes(&mut arguments),
        "first-writes" => disk::first_writes(&mut arguments),
        "stream" => disk::stream(&mut arguments),
        "new-pages" => disk::new_pages(&mut arguments),
        "tcp" => net::tcp(&mut arguments),
        "tcp-peer" => net::tcp_peer(&mut arguments),
        "udp-flood" => net::udp_flood(&mut arguments),
        "udp-drops" => net::udp_drops(&mut arguments),
        "broadcasts" => packets::broadcasts(&mut arguments),
        "broadcast-each" => packets::broadcast_each(&mut arguments),
        "namespace-drops" => net::namespace_drops(&mut arguments),
        "syn-retransmits" => net::syn_retransmits(&mut arguments),
        _ => bail!("no load {name:?}"),
    }
}
