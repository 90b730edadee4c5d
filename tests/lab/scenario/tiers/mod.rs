//! Requests through three tiers of real servers: how `noised` joins them, which tier it names where one is slow, and what
//! following them costs, beside `strace` and `perf trace`.

mod clients;
mod cost;
mod page;
mod servers;
mod stack;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

pub use self::clients::{Clients, END};
pub use self::cost::{Cost, costs};
pub use self::page::{render, said};
pub use self::servers::Servers;
pub use self::stack::{Planted, Stack};
use crate::daemon::run_noised;
use crate::load::Worker;
use crate::recorded::{start_recording, stop_recording};
use crate::scratch::{Folder, argument};
use crate::tiers::{Joined, Tiers, first_whole, is_whole, joined};

/// Clients at once, and requests of each.
const LOADS: [(usize, u64); 3] = [(1, 200), (8, 60), (64, 12)];
/// What is planted: how long the application sleeps, milliseconds.
const SLEEP_MS: f64 = 5.0;
/// The CPU that the application shares with what is planted, and how much of that there is.
const CPU: usize = 1;
const HOGS: usize = 2;
/// What the hogs are called.
pub const HOG: &str = "hog";
/// Clients while a tier is looked for, and how long.
const CLIENTS: usize = 4;
const NEXT: &str = "2s";
/// What both ends of the requests know of them.
const TIERS: Tiers = Tiers {
    logged: &[("client", "tcp_send"), ("app", "tcp_receive")],
    below: Some(("redis-server", "tcp_receive")),
};

/// Requests that were recorded.
#[derive(Debug, Serialize)]
pub struct Recorded {
    /// At once.
    pub clients: usize,
    /// How long the application slept for each, milliseconds.
    pub sleep_ms: f64,
    /// How many.
    pub requests: usize,
    /// Those that are joined rightly.
    pub right: usize,
    /// The median of the application's own time, by itself and by its slices, nanoseconds.
    pub own_ns: u64,
    /// See there.
    pub true_ns: u64,
}

/// A tier, as `noised why --request --json` has it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Tier {
    /// Its name.
    pub service: String,
    /// Its share of the time of all requests.
    pub share: f64,
    /// That time, nanoseconds.
    pub spent_ns: u64,
    /// What it was spent on.
    pub states_ns: BTreeMap<String, u64>,
    /// For whom it waited, thread by thread.
    pub culprits: Vec<Culprit>,
}

/// For whom a tier waited.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Culprit {
    /// What the tier did meanwhile.
    pub state: String,
    /// The thread's name.
    pub comm: String,
    /// In the words of the ledger.
    pub cause: String,
    /// For how long, nanoseconds.
    pub ns: u64,
}

/// The answer of that command.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Answer {
    /// How many were answered.
    pub requests: u64,
    /// Events that were lost.
    pub discarded: u64,
    /// Those with most time first.
    pub tiers: Vec<Tier>,
}

impl Answer {
    /// Asks for the requests on a port that is busy.
    /// Errors: if there is no answer.
    pub fn ask(port: u16, next: &str) -> Result<Self> {
        let port = port.to_string();
        run_noised(&["why", "--request", &port, "--next", next, "--json"])?.json()
    }

    /// The tier with most of the time.
    /// Errors: where there is none.
    pub fn first(&self) -> Result<&Tier> {
        self.tiers.first().context("no tier")
    }
}

impl Tier {
    /// What it spent most of its time on.
    pub fn state(&self) -> &str {
        self.states_ns.iter().max_by_key(|(_, ns)| **ns).map_or("", |(state, _)| state)
    }

    /// The share of its time in a state.
    pub fn part(&self, state: &str) -> f64 {
        let ns = self.states_ns.get(state).copied().unwrap_or(0);
        ns as f64 / self.spent_ns.max(1) as f64
    }

    /// For whom it waited longest in a state: threads of one name, as one.
    pub fn culprit(&self, state: &str) -> Option<Culprit> {
        let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for culprit in self.culprits.iter().filter(|culprit| culprit.state == state) {
            *sums.entry((&culprit.comm, &culprit.cause)).or_default() += culprit.ns;
        }
        let ((comm, cause), ns) = sums.into_iter().max_by_key(|(_, ns)| *ns)?;
        let [state, comm, cause] = [state, comm, cause].map(str::to_owned);
        Some(Culprit { state, comm, cause, ns })
    }
}

/// Records requests of so many clients, and holds what is said of them against what both ends know. `None` where events are
/// missing.
/// Errors: if a server or the recording fails.
fn record(
    servers: &Servers,
    (clients, requests): (usize, u64),
    planted: Planted,
    keep: Option<&Path>,
) -> Result<Option<Recorded>> {
    let (log, scratch) = (Folder::new("stack")?, Folder::new("requests")?);
    let sleep_ms = planted.sleep_ms;
    let folder = match keep {
        Some(keep) => keep.join(format!("clients-{clients}-sleep-{sleep_ms}")),
        None => scratch.path().join("recording"),
    };
    let stack = Stack::start(servers, log.path(), planted)?;
    let mut recording = start_recording(&folder, &["--own", "--events", "sched,io,ipc"])?;
    Clients::start(stack.address, clients, requests).finish(Some(log.path()))?;
    stop_recording(&mut recording, libc::SIGINT)?;
    stack.stop()?;
    let document: serde_json::Value =
        run_noised(&["trace", "sketch", argument(&folder)?, "--json"])?.json()?;
    if !is_whole(&document)? {
        std::fs::remove_dir_all(&folder)?;
        return Ok(None);
    }
    let Joined { all, right, tiers } = joined(&document, log.path(), &TIERS)?;
    let Some([own_ns, _, true_ns]) = tiers.last().copied() else { anyhow::bail!("no application") };
    Ok(Some(Recorded { clients, sleep_ms, requests: all, right, own_ns, true_ns }))
}

/// Who is named while something is planted.
#[derive(Debug, Serialize)]
pub struct Named {
    /// What is planted.
    pub planted: &'static str,
    /// The answer.
    pub answer: Answer,
}

/// Asks why requests are slow while clients ask them.
/// Errors: if a server fails, or there is no answer.
pub fn named(
    servers: &Servers,
    plan: &'static str,
    planted: Planted,
    hogs: usize,
) -> Result<Named> {
    let log = Folder::new("stack")?;
    let stack = Stack::start(servers, log.path(), planted)?;
    let burners = (0..hogs)
        .map(|_| Worker::start("named-burn", &[&CPU.to_string(), HOG]))
        .collect::<Result<Vec<_>>>()?;
    let clients = Clients::start(stack.address, CLIENTS, u64::MAX);
    let answer = Answer::ask(stack.address.port(), NEXT);
    clients.stop()?;
    drop(burners);
    stack.stop()?;
    Ok(Named { planted: plan, answer: answer? })
}

/// All that is shown.
#[derive(Debug, Serialize)]
pub struct Findings {
    /// Requests held against what both ends know.
    pub recorded: Vec<Recorded>,
    /// Which tier is named.
    pub named: Vec<Named>,
    /// What it costs.
    pub costs: Vec<Cost>,
}

/// Plays all of it.
/// Errors: if a server, a recording or an answer fails.
pub fn findings(
    keep: Option<&Path>,
    rounds: usize,
    mut progress: impl FnMut(&str),
) -> Result<Findings> {
    progress("unpacking nginx and redis");
    let unpacked = Folder::new("servers")?;
    let servers = Servers::unpack(unpacked.path())?;
    let asleep = Planted { sleep_ms: SLEEP_MS, cpu: None };
    let mut recorded = Vec::new();
    for planted in [Planted::default(), asleep] {
        for load in LOADS {
            progress(&format!("recording {} clients, {} ms planted", load.0, planted.sleep_ms));
            let whole = first_whole(|| record(&servers, load, planted, keep))?;
            recorded.push(whole.context("events are missing in each recording; try again")?);
        }
    }
    let beside = Planted { sleep_ms: 0.0, cpu: Some(CPU) };
    let mut answers = Vec::new();
    for (plan, planted, hogs) in [
        ("nothing", Planted::default(), 0),
        ("a sleep in the application", asleep, 0),
        ("hogs on the application's CPU", beside, HOGS),
    ] {
        progress(&format!("asking why: {plan}"));
        answers.push(named(&servers, plan, planted, hogs)?);
    }
    let costs = costs(&servers, rounds, &mut progress)?;
    Ok(Findings { recorded, named: answers, costs })
}
