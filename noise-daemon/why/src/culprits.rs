//! PURE: who was in the way of a victim, of all waits together.

use std::collections::BTreeMap;
use std::path::PathBuf;

use foldhash::HashMap;
use noise_common::charge::{CHARGE_CAUSES, Cause};
use noise_paths::document::Traced;
use noise_text::clean::clean;
use noise_trace::delays::document::Culprit;
use noise_trace::threads::Threads;
use serde::Serialize;

use super::beside::{Known, path_of};

/// Culprits that are kept.
const MOST_CULPRITS: usize = 1000;

/// Who had what the victim waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blamed {
    /// What the victim did meanwhile: `waiting_cpu`, `disk` …
    pub state: &'static str,
    /// The thread, where it was one; 0 of an idle task, -1 of something else.
    pub tid: i32,
    /// Its process, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    pub comm: String,
    /// The name of its process; that of the thread where it is not known.
    #[serde(skip)]
    pub program: String,
    /// The label of its cgroup, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// In the words of `noised_interference_seconds_total`.
    pub cause: &'static str,
    pub ns: u64,
    /// Whether the daemon's ledger says so, where no event does: then it is all of a cgroup.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_counters: bool,
    /// The path of its cgroup.
    #[serde(skip)]
    pub path: Option<PathBuf>,
}

/// Why a culprit was in the way, in the words of the ledger.
fn cause((name, tid): (&str, i32), is_own: &dyn Fn(i32) -> bool, known: &Known<'_>) -> Cause {
    match name {
        "thread" if is_own(tid) => Cause::Own,
        "thread" if known.kernel.contains(&tid) => Cause::Kthread,
        "thread" => Cause::Foreign,
        name => {
            let cause = CHARGE_CAUSES.into_iter().find(|cause| cause.name() == name);
            cause.unwrap_or(Cause::Untracked)
        }
    }
}

/// A culprit, and what its victim did meanwhile. Threads that ended are one, by their name and cgroup, and by their process if
/// that has not ended: in a storm of short ones each has next to nothing, and their ids say nothing any more.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct InTheWay {
    state: &'static str,
    tid: i32,
    pid: Option<i32>,
    path: Option<PathBuf>,
    comm: String,
    cause: Cause,
}

/// All culprits of waits, the longest first. `is_own` says which threads are the victim's.
pub fn culprits<'w>(
    waits: impl IntoIterator<Item = &'w Traced>,
    is_own: &dyn Fn(i32) -> bool,
    threads: &Threads,
    known: &Known<'_>,
) -> Vec<Blamed> {
    let mut of_threads: BTreeMap<(&'static str, i32, &'w str, &'static str), u64> = BTreeMap::new();
    for segment in waits.into_iter().flat_map(|traced| &traced.path) {
        for Culprit { tid, comm, cause, ns } in &segment.culprits {
            let sum = of_threads.entry((segment.state, *tid, comm, cause)).or_default();
            *sum = sum.saturating_add(*ns);
        }
    }
    let of_threads = of_threads
        .into_iter()
        .map(|((state, tid, comm, name), ns)| ((state, tid, comm.to_owned(), name), ns));
    named(of_threads, is_own, threads, known)
}

/// Who ran, for so many ns each, the longest first.
pub fn occupants(
    ran: &HashMap<i32, u64>,
    is_own: &dyn Fn(i32) -> bool,
    threads: &Threads,
    known: &Known<'_>,
) -> Vec<Blamed> {
    let thread = |(tid, ns): (&i32, &u64)| {
        let comm = threads.get(*tid).map_or_else(String::new, |thread| thread.comm.to_string());
        (("running", *tid, comm, "thread"), *ns)
    };
    named(ran.iter().map(thread), is_own, threads, known)
}

fn named(
    of_threads: impl Iterator<Item = ((&'static str, i32, String, &'static str), u64)>,
    is_own: &dyn Fn(i32) -> bool,
    threads: &Threads,
    known: &Known<'_>,
) -> Vec<Blamed> {
    let mut sums: BTreeMap<InTheWay, u64> = BTreeMap::new();
    for ((state, tid, comm, name), ns) in of_threads {
        let cause = cause((name, tid), is_own, known);
        let path = path_of(known, threads, tid).filter(|_| tid > 0);
        let thread = threads.get(tid);
        let has_ended = thread.is_some_and(|thread| thread.has_ended) && cause != Cause::Kthread;
        let pid = thread.map(|thread| thread.pid).filter(|pid| tid > 0 && *pid > 0);
        let is_there = |pid: &i32| threads.get(*pid).is_some_and(|process| !process.has_ended);
        let (tid, pid) = if has_ended { (-1, pid.filter(is_there)) } else { (tid, pid) };
        let sum = sums.entry(InTheWay { state, tid, pid, path, comm, cause }).or_default();
        *sum = sum.saturating_add(ns);
    }
    let mut sums: Vec<(InTheWay, u64)> = sums.into_iter().collect();
    sums.sort_by(|(one, ns), (other, other_ns)| other_ns.cmp(ns).then(one.tid.cmp(&other.tid)));
    sums.truncate(MOST_CULPRITS);
    let blamed = |(InTheWay { state, tid, pid, path, comm, cause }, ns)| {
        let cgroup = path.as_ref().map(|path| clean(&(known.label)(path)).into_owned());
        let process = pid.and_then(|pid| threads.get(pid));
        let program = process.map_or_else(|| comm.clone(), |process| process.comm.to_string());
        let (cause, by_counters) = (cause.name(), false);
        Blamed { state, tid, pid, comm, program, cgroup, cause, ns, by_counters, path }
    };
    sums.into_iter().map(blamed).collect()
}

#[cfg(test)]
mod tests;
