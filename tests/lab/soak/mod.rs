//! The daemon under a mixed load for long: what it holds, looked at again and again.
//!
//! Nothing of the load changes what others of this host see: interfaces are made in a network
//! namespace of its own, disks are in memory, cgroups are ours.

mod table;
mod verdict;

use std::env;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::bpf::hash_entries_of;
use crate::daemon::{Daemon, SOCKET_PATH, binary};
use crate::group::{Group, Hierarchy};
use crate::load::{Figures, Place, Worker};
use crate::recall::Recall;
use crate::toll::Footprint;

pub use table::{heading, row};
pub use verdict::{Slope, judge};

/// How long a soak takes.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// From the first to the last look.
    pub length: Duration,
    /// From one look to the next.
    pub every: Duration,
}

/// The daemon at one time of a soak.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Since the begin, seconds.
    pub at_seconds: f64,
    /// What the kernel says of the process.
    pub footprint: Footprint,
    /// Entries of all its hash maps.
    pub entries: usize,
    /// How many hash maps it has.
    pub maps: usize,
    /// Bytes of the latest page.
    pub page_bytes: usize,
    /// Series of the latest page.
    pub series: usize,
    /// Everything that was not counted, by the daemon's own account.
    pub dropped: f64,
    /// Context switches that it counted.
    pub switches: f64,
    /// Latest disturbance.
    pub disturbance: &'static str,
}

/// From one scrape to the next.
const SCRAPE_EVERY: Duration = Duration::from_secs(1);
/// From one disturbance to the next.
const DISTURB_EVERY: Duration = Duration::from_secs(60);
/// How long the daemon is stopped by one of them.
const STOPPED_FOR: Duration = Duration::from_secs(2);
/// Connections of another.
const CONNECTIONS: usize = 300;

/// A view of the daemon in a terminal that is not looked at; ended when dropped.
struct View(Child);

impl View {
    fn attach(daemon: &Daemon) -> Result<Self> {
        let mut command = Command::new(binary()?);
        command.args(["top", "--batch", "--connect", &format!("http://{}", daemon.address)]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(command.spawn().context("starting noised top")?))
    }

    fn is_attached(&mut self) -> Result<bool> {
        Ok(self.0.try_wait()?.is_none())
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What happens on the host meanwhile.
struct Load {
    workers: Vec<(&'static str, Worker)>,
    _groups: Vec<Group>,
}

impl Load {
    fn start() -> Result<Self> {
        let (first, second) =
            (Group::new("soak-a", &[Hierarchy::Cpu])?, Group::new("soak-b", &[Hierarchy::Cpu])?);
        let churned = Group::new("soak-churn", &[Hierarchy::Cpu])?;
        let directory = churned.directory()?.to_str().context("a path that is not UTF-8")?;
        let start = |name: &'static str, group: Option<&Group>, arguments: &[&str]| -> Result<_> {
            let place = Place { group, namespace: None };
            let worker = Worker::start_at(place, name, arguments);
            Ok((name, worker.with_context(|| format!("the load {name}"))?))
        };
        let workers = vec![
            start("pipe", Some(&first), &["0", "0", "20000"])?,
            start("timer", Some(&second), &["0", "500"])?,
            start("tcp", Some(&second), &["0", "0", "100", "5000"])?,
            start("sleepers", Some(&first), &["50", "20"])?,
            start("group-churn", None, &[directory, "0", "20000"])?,
            start("device-churn", None, &["500"])?,
        ];
        Ok(Self { workers, _groups: vec![first, second, churned] })
    }

    fn stop(self) -> Result<String> {
        let mut parts = Vec::new();
        for (name, worker) in self.workers {
            let figures: Figures = worker.stop().with_context(|| format!("the load {name}"))?;
            let figures = figures.iter().map(|(what, count)| format!("{count} {what}"));
            parts.push(format!("{name}: {}", figures.collect::<Vec<_>>().join(", ")));
        }
        Ok(parts.join("; "))
    }
}

/// What happens to the daemon once in a while.
fn disturb(number: u64, daemon: &Daemon, view: &mut View) -> Result<&'static str> {
    Ok(match number % 3 {
        0 => {
            daemon.process().signal(libc::SIGSTOP)?;
            thread::sleep(STOPPED_FOR);
            daemon.process().signal(libc::SIGCONT)?;
            "stopped"
        }
        1 => {
            // Some may be refused: there are more than it lets be open.
            let open: Vec<_> =
                (0..CONNECTIONS).filter_map(|_| TcpStream::connect(daemon.address).ok()).collect();
            drop(open);
            "connections"
        }
        _ => {
            *view = View::attach(daemon)?;
            "new view"
        }
    })
}

/// Runs a soak, and hands each reading on as it is taken. Also says what the loads did.
/// Errors: where something cannot be started, a counter runs backwards, or the daemon does not answer.
pub fn soak(plan: &Plan, mut show: impl FnMut(&Reading)) -> Result<(Vec<Reading>, String)> {
    let socket = env::temp_dir().join(format!("noised-soak-{}.sock", std::process::id()));
    let socket = socket.to_str().context("a path that is not UTF-8")?;
    let daemon = Daemon::start_with(&[SOCKET_PATH, socket])?;
    let pid = daemon.process().pid();
    let load = Load::start()?;
    let mut view = View::attach(&daemon)?;
    let begin = Instant::now();
    let (mut next_look, mut next_disturbance) = (begin, begin + DISTURB_EVERY);
    let (mut disturbances, mut disturbance) = (0, "");
    let mut readings: Vec<Reading> = Vec::new();
    let mut recall = Recall::default();
    loop {
        thread::sleep(SCRAPE_EVERY);
        let scrape = daemon.scrape_with_begins()?;
        recall.ensure_rising(&scrape)?;
        let now = Instant::now();
        if now >= next_disturbance {
            next_disturbance += DISTURB_EVERY;
            disturbance = disturb(disturbances, &daemon, &mut view)?;
            disturbances += 1;
        }
        if now >= next_look {
            next_look += plan.every;
            let (maps, entries) = hash_entries_of(pid)?;
            let reading = Reading {
                at_seconds: now.duration_since(begin).as_secs_f64(),
                footprint: Footprint::of(pid)?,
                entries,
                maps,
                page_bytes: daemon.metrics()?.len(),
                series: scrape.len(),
                dropped: scrape.total("noised_dropped_total"),
                switches: scrape.total("noised_context_switches_total"),
                disturbance,
            };
            disturbance = "";
            show(&reading);
            readings.push(reading);
            if !view.is_attached()? {
                bail!("noised top ended by itself");
            }
        }
        if now.duration_since(begin) >= plan.length {
            break;
        }
    }
    drop(view);
    let work = load.stop()?;
    let (status, log) = daemon.stop(libc::SIGTERM)?;
    if !status.success() {
        bail!("the daemon ended with {status}: {log}");
    }
    Ok((readings, work))
}
