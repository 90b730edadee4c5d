//! IO: looks for what no event says of a victim's sleeps, where they are worth it: whether threads are stopped, what those sleep at
//! that nothing wakes, whether threads wait for locks, who asks whom, and whether an answer does not come.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use noise_paths::link::ThreadLink;
use noise_paths::via::ViaKind;
use noise_record::DumpedHost;
use noise_system::variables::Variables;

use super::awaited;
use super::findings::Findings;
use super::locks::{self, Locks};
use super::moment::{self, Freezers};
use super::peers::{Open, Peers};
use super::places::{MOST_THREADS, Places, SleepPlace};
use super::translated;
use super::unwoken::{OpenSleep, Unwoken, slept_all_along};
use super::writeback;
use super::writers::{self, MainWriter, WritingThread};

/// For so long it is seen who writes, at least: the kernel holds writers back for up to 200 ms at a time.
const LEAST_WATCHED: Duration = Duration::from_millis(300);
/// So many times that, at most.
const MOST_TIMES: u32 = 4;
/// Less than this, bytes, says nothing of who writes most.
const LEAST_WRITTEN: u64 = 256 << 10;

/// Looks, and notes it.
pub fn look(found: &mut Findings, host: &DumpedHost) {
    at_unwoken(found, host);
    at_locks(found);
    at_writeback(found);
    let least_ns = found.least_sleep_ns();
    at_answers(found, host, least_ns);
    let mut others = found.others(least_ns);
    others.extend(found.had_the_cpu(least_ns));
    let has_packets = found.ns("network") >= least_ns;
    if others.is_empty() && !has_packets {
        return;
    }
    let victims = found.processes();
    let looked = victims.iter().chain(&others).copied().filter(|pid| *pid > 0).collect();
    let open = Open {
        sockets_of: &host.sockets_of(&looked),
        pipes_of: &host.pipes_of(&looked),
        internet: &host.sockets(),
        translated: &translated::read(),
        unix: &host.unix_sockets(&looked),
    };
    found.peers = Peers::of(&victims, open);
}

/// The process of a thread; 0 where that is not known.
fn pid(found: &Findings, tid: i32) -> i32 {
    found.threads.iter().find(|one| one.tid == tid).map_or(0, |one| one.pid)
}

/// Of all threads of a host, nothing is said.
fn at_unwoken(found: &mut Findings, host: &DumpedHost) {
    let is_host = found.target.pid.is_none() && found.target.cgroup.as_deref() == Some("/");
    let least_ns = found.least_sleep_ns();
    let open = found.open.iter().filter(|(_, sleep)| sleep.ns >= least_ns);
    let open: BTreeMap<i32, OpenSleep> = open.map(|(tid, sleep)| (*tid, *sleep)).collect();
    if is_host || open.is_empty() {
        return;
    }
    let states = moment::states(found.threads.iter().map(|one| one.tid));
    let mut freezers = Freezers::of_host();
    let mut unwoken = Unwoken::of(&states, &open, |tid| freezers.hold(tid));
    let asleep = found.threads.iter().filter(|one| slept_all_along(one));
    let asleep = asleep.filter(|one| !unwoken.is_halted(one.tid));
    let threads: BTreeSet<_> = asleep.map(|one| (one.tid, one.pid)).collect();
    let mut is_denied = false;
    if !threads.is_empty() {
        let places = moment::places(&threads, host);
        (unwoken.at, is_denied) = (places.of, places.is_denied);
    }
    found.note_unwoken(unwoken);
    if is_denied && found.has_slept_all_along() {
        let sentence = "what its threads sleep at is known to root alone: run this as root";
        found.notes.push(sentence.to_owned());
    }
}

fn at_writeback(found: &mut Findings) {
    let least_ns = found.least_sleep_ns();
    let mut slept = found.open_in_kernel();
    for (tid, ns) in found.held_back.iter().chain(&found.until_kernel) {
        let sum: &mut u64 = slept.entry(*tid).or_default();
        *sum = sum.saturating_add(*ns);
    }
    let mut slept: Vec<_> = slept.into_iter().filter(|(_, ns)| *ns >= least_ns).collect();
    slept.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let longest = slept.into_iter().take(MOST_THREADS);
    let threads: BTreeSet<_> = longest.map(|(tid, _)| (tid, pid(found, tid))).collect();
    if threads.is_empty() {
        return;
    }
    found.writeback = writeback::look(&threads);
    if found.writeback.is_denied {
        let sentence = "whether its uninterruptible sleeps were for writeback is known to root alone: run this as root";
        found.notes.push(sentence.to_owned());
    }
    let writeback::Writeback { ever, at_file_locks, .. } = &found.writeback;
    let is_seen = !ever.is_empty() || !at_file_locks.is_empty();
    if is_seen && found.main_writer.is_none() {
        found.main_writer = main_writer(found);
    }
}

/// Who writes most, at the moment, among those that wait for writeback as the victim does. Whether for the same disk is not
/// known.
fn main_writer(found: &Findings) -> Option<MainWriter> {
    let victims = found.processes();
    if found.threads.iter().any(|one| one.pid > 0 && !victims.contains(&one.pid)) {
        return None;
    }
    // Of one thread, the others of its process are none of them.
    let others = found.also_uninterruptible.iter().filter(|one| !victims.contains(&one.pid));
    let others: Vec<&WritingThread> = others.collect();
    let mut pids: BTreeSet<i32> = others.iter().map(|one| one.pid).collect();
    pids.extend(&victims);
    let before = writeback::written(&pids);
    let threads = others.iter().map(|one| (one.tid, one.pid)).collect();
    let mut seen: BTreeSet<i32> = victims.iter().copied().collect();
    // A writer that a slow disk holds back for longer writes nothing meanwhile.
    let (mut written, begin) = (BTreeMap::new(), Instant::now());
    for times in 1..=MOST_TIMES {
        seen.extend(writeback::look(&threads).ever.into_iter().map(|(_, pid)| pid));
        thread::sleep((LEAST_WATCHED * times).saturating_sub(begin.elapsed()));
        written = writeback::written(&pids);
        written.retain(|pid, _| seen.contains(pid));
        for (pid, bytes) in &mut written {
            *bytes = before.get(pid).map_or(0, |before| bytes.saturating_sub(*before));
        }
        if sum(&written) >= LEAST_WRITTEN {
            break;
        }
    }
    let all = sum(&written);
    if all < LEAST_WRITTEN {
        return None;
    }
    // What a process wrote counts once, for the thread that waited longest.
    let each = others.into_iter().filter_map(|one| Some((written.remove(&one.pid)?, one.clone())));
    let writes = |part| format!("writes {part} of what all that wait for it write now");
    writers::main(each, all, writes)
}

fn sum(written: &BTreeMap<i32, u64>) -> u64 {
    written.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

fn at_locks(found: &mut Findings) {
    let least_ns = found.least_sleep_ns();
    let candidates = locks::candidates(&found.held, least_ns, |tid| pid(found, tid));
    if candidates.is_empty() {
        return;
    }
    let places = Places::look(&candidates);
    if places.is_denied {
        let sentence =
            "whether its threads waited for locks is known to root alone: run this as root";
        found.notes.push(sentence.to_owned());
    }
    found.locks = Locks::of(&found.held, &places);
    found.locks.words = found.locks.place().and_then(which);
}

/// Which lock it is, as the sentence goes on.
fn which(place: &SleepPlace) -> Option<String> {
    let (pid, id) = place.key;
    let link = match place.kind {
        ViaKind::Futex => ThreadLink {
            process: Some(pid),
            address: Some(format!("{id:#x}")),
            symbol: Variables::default().at(pid, id),
            ..ThreadLink::default()
        },
        _ => ThreadLink::default(),
    };
    ThreadLink { kind: place.kind, ..link }.words()
}

fn at_answers(found: &mut Findings, host: &DumpedHost, least_ns: u64) {
    let waited = found.unanswered.iter().filter(|(_, waited)| waited.ns() >= least_ns);
    let mut tids: BTreeSet<i32> = waited.map(|(tid, _)| *tid).collect();
    let throughout = awaited::asleep_throughout(&found.threads, found.span_ns);
    if tids.is_empty() && throughout.is_empty() {
        return;
    }
    let sockets = host.sockets();
    let own = || host.sockets_of(&found.processes()).into_values().flatten().collect();
    if !throughout.is_empty() && awaited::asks_names(&own(), &sockets) {
        tids.extend(throughout.keys());
    }
    if tids.is_empty() {
        return;
    }
    let threads = tids.into_iter().map(|tid| (tid, pid(found, tid))).collect();
    let seen = awaited::look(&threads);
    found.silent = awaited::silent((&found.unanswered, &throughout), &seen.of, &sockets);
}
