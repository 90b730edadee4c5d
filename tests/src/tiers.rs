//! What tiers know of their requests, and what a document of sketches says of them; a program of three tiers and a helper
//! (`tiers.py`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// The program: how many clients, requests of each, a folder, and how long the helper sleeps, seconds.
pub const PROGRAM: &str = include_str!("tiers.py");

/// Tiers.
#[derive(Clone, Copy, Debug)]
pub struct Tiers {
    /// Those that write what they know, and what their slices begin with, from the client on.
    pub logged: &'static [(&'static str, &'static str)],
    /// The process that the last of them asks, and what its slices begin with, where there is one.
    pub below: Option<(&'static str, &'static str)>,
}

/// Those of the program.
pub const TIERS: Tiers = Tiers {
    logged: &[
        ("client", "tcp_send"),
        ("app", "tcp_receive"),
        ("worker", "unix_receive"),
        ("helper", "pipe"),
    ],
    below: None,
};

/// A request, as a tier saw it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    number: u64,
    ns: u64,
}

/// The requests of each tier and thread, in their order.
type Log = BTreeMap<(usize, u64), Vec<Seen>>;

fn log(folder: &Path, tiers: &Tiers) -> Result<Log> {
    let mut log = Log::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let tier = tiers.logged.iter().position(|(tier, _)| {
            name.to_str().is_some_and(|name| name.starts_with(&format!("{tier}.")))
        });
        let Some(tier) = tier else { continue };
        let rows: Vec<(String, u64, u64, u64)> = serde_json::from_slice(&fs::read(entry.path())?)?;
        for (_, number, ns, tid) in rows {
            log.entry((tier, tid)).or_default().push(Seen { number, ns });
        }
    }
    Ok(log)
}

/// How requests were joined.
#[derive(Clone, Debug, Default)]
pub struct Joined {
    /// Requests of the program.
    pub all: usize,
    /// Those whose slices of all tiers are one below the other, in a sketch with no other request.
    pub right: usize,
    /// Of each tier: the median length of what the program says, and of its slices, and their median true latency, ns.
    pub tiers: Vec<[u64; 3]>,
}

/// Whether no event of a thread is missing. Some kernels call no program while process 1 runs: then its switches are in no
/// recording, and what a thread was in that comes next is given up.
/// Errors: if the document does not say.
pub fn is_whole(document: &Value) -> Result<bool> {
    let number =
        |path: &str| document.pointer(path).and_then(Value::as_u64).context(path.to_owned());
    Ok(number("/discarded")? == 0 && number("/counts/lost")? == 0)
}

/// How often requests are recorded of which events are missing.
const ATTEMPTS: usize = 3;

/// The first recording of some that misses no event of a thread, as [`is_whole`] has it; `None` where each does.
/// Errors: the first of a recording.
pub fn first_whole<T>(record: impl Fn() -> Result<Option<T>>) -> Result<Option<T>> {
    (0..ATTEMPTS).map(|_| record()).find_map(Result::transpose).transpose()
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// Holds a document against what tiers wrote into a folder. A thread's slices are its requests in their order.
/// Errors: where a thread has not as many slices as requests.
pub fn joined(document: &Value, folder: &Path, tiers: &Tiers) -> Result<Joined> {
    let logged = tiers.logged;
    let array = |name: &str| document.get(name).and_then(Value::as_array).context("no list");
    let mut slices: BTreeMap<(u64, &str), Vec<(u64, u64)>> = BTreeMap::new();
    let mut by_id: BTreeMap<u64, &Value> = BTreeMap::new();
    for slice in array("slices")? {
        let number = |name: &str| slice.get(name).and_then(Value::as_u64).context("no number");
        let marker = slice.get("marker").and_then(Value::as_str).context("no marker")?;
        let id = number("id")?;
        slices.entry((number("tid")?, marker)).or_default().push((number("from_ns")?, id));
        by_id.insert(id, slice);
    }
    slices.values_mut().for_each(|slices| slices.sort_unstable());
    let mut sketches: BTreeMap<u64, usize> = BTreeMap::new();
    for (number, sketch) in array("sketches")?.iter().enumerate() {
        let ids = sketch.as_array().context("no sketch")?.iter().filter_map(Value::as_u64);
        sketches.extend(ids.map(|id| (id, number)));
    }
    // The slices of each request, by tier.
    let mut requests: BTreeMap<u64, BTreeMap<usize, u64>> = BTreeMap::new();
    let mut sums: Vec<[Vec<u64>; 3]> = vec![Default::default(); logged.len()];
    for ((tier, tid), seen) in log(folder, tiers)? {
        let (name, marker) = logged.get(tier).copied().context("no tier")?;
        let own = slices.get(&(tid, marker)).map_or(&[][..], Vec::as_slice);
        ensure!(own.len() == seen.len(), "{name} {tid}: {} of {}", own.len(), seen.len());
        for (seen, (_, id)) in seen.iter().zip(own) {
            requests.entry(seen.number).or_default().insert(tier, *id);
            let slice = by_id.get(id).context("no slice")?;
            let number = |name: &str| slice.get(name).and_then(Value::as_u64).context("no number");
            let sums = sums.get_mut(tier).context("no tier")?;
            sums[0].push(seen.ns);
            sums[1].push(number("to_ns")?.saturating_sub(number("from_ns")?));
            sums[2].push(number("true_latency_ns")?);
        }
    }
    let mut clients: BTreeMap<usize, usize> = BTreeMap::new();
    for id in requests.values().filter_map(|tiers| tiers.get(&0)) {
        *clients.entry(*sketches.get(id).context("in no sketch")?).or_default() += 1;
    }
    let chain = |of: Option<u64>| {
        let (mut chain, mut next) = (Vec::new(), of);
        while let Some(id) = next.filter(|_| chain.len() < 16) {
            chain.push(id);
            next = by_id.get(&id).and_then(|slice| slice.get("cause")).and_then(Value::as_u64);
        }
        chain
    };
    // The slices that have one of the last tier that is asked below them.
    let is_below = |slice: &&Value| {
        let of = |name: &str| slice.get(name).and_then(Value::as_str);
        tiers
            .below
            .is_some_and(|below| (of("process"), of("marker")) == (Some(below.0), Some(below.1)))
    };
    let ids = by_id.iter().filter(|(_, slice)| is_below(slice)).map(|(id, _)| *id);
    let asked: BTreeSet<u64> = ids.flat_map(|id| chain(Some(id))).collect();
    let is_right = |own: &BTreeMap<usize, u64>| {
        let sketch = |tier: usize| own.get(&tier).and_then(|id| sketches.get(id));
        let is_one =
            (0..logged.len()).all(|tier| sketch(tier).is_some() && sketch(tier) == sketch(0));
        let is_alone = sketch(0).and_then(|sketch| clients.get(sketch)) == Some(&1);
        let last = own.get(&(logged.len() - 1)).copied();
        let has_below = tiers.below.is_none() || last.is_some_and(|id| asked.contains(&id));
        let chain = chain(last);
        is_one && is_alone && has_below && own.values().all(|id| chain.contains(id))
    };
    Ok(Joined {
        all: requests.len(),
        right: requests.values().filter(|tiers| is_right(tiers)).count(),
        tiers: sums.into_iter().map(|sums| sums.map(median)).collect(),
    })
}
