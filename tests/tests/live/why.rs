//! `noised why`: a request that passes three processes beside a hog, and reads from a disk that is slow and that
//! another reads from, too, against ftrace and the ledger.

use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::attribution::INTERFERENCE;
use noise_tests::daemon::{Daemon, Socketed, run_noised};
use noise_tests::disk::{LoopDevice, ScratchFile, device_name};
use noise_tests::ftrace::blind::{ensure_sight, keep_sight};
use noise_tests::ftrace::event::{Event, Kind, Left};
use noise_tests::ftrace::{BLOCK_EVENTS, Recording, Trace};
use noise_tests::group::{Group, Hierarchy};
use noise_tests::load::relay::NAMES;
use noise_tests::load::{Place, Worker};
use noise_tests::pairing::ahead::{block_device, block_device_doubt, block_queue};
use noise_tests::pairing::block::{Life, block_waits};
use noise_tests::pairing::charges::Holder;
use noise_tests::scratch::Folder;
use noise_tests::task::{cpus, monotonic_ns, set_nice};
use serde_json::Value;

use crate::lifecycle::ensure_refused;
use crate::{INCONCLUSIVE, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a_request_through_three_processes", a_request_through_three_processes),
    ("why_says_what_it_cannot", why_says_what_it_cannot),
];

const EVENTS: [&str; 4] =
    ["sched:sched_switch", "sched:sched_waking", "sched:sched_wakeup", "sched:sched_wakeup_new"];
const BUFFER_MIB: usize = 64;
/// How much is looked at.
const LAST: Duration = Duration::from_millis(1500);
/// What every process works for each request, ms.
const WORK_MS: &str = "12";
/// How often each of the two may read from their disk, a second.
const READS_PER_SECOND: u32 = 100;
/// Bytes of the other's reads: as those of the request.
const OTHERS_BYTES: &str = "131072";
/// How far a figure may be off.
const TOLERANCE: f64 = 0.05;
/// What wake-ups on the way between two processes and the edges may take, of all that is looked at.
const FLOOR_NS: f64 = 3e6;
/// What may lie between the end of requests and the wake-ups, of all that is looked at.
const DISK_FLOOR_NS: f64 = 1e6;
/// Requests that end closer together may have done so in either order.
const STAMPS_APART_NS: u64 = 5_000;
/// With more of the time that ftrace does not know of, nothing is judged.
const MOST_UNSURE: f64 = 0.1;

/// What a thread did in some time by ftrace, ns.
#[derive(Clone, Debug, Default)]
struct Did {
    ran: f64,
    waited: f64,
    /// Sleeps that no signal ends, from when to when.
    blocked: Vec<(u64, u64)>,
    /// Other sleeps likewise.
    slept: Vec<(u64, u64)>,
    /// Time before switches that are missing, in which it may have done something else.
    unsure: f64,
}

impl Did {
    /// For how long it slept and no signal could end that, ns.
    fn uninterruptible(&self) -> f64 {
        self.blocked.iter().map(|(from_ns, to_ns)| (to_ns - from_ns) as f64).sum()
    }
}

/// What two lists of spans have in common, ns.
fn common(some: &[(u64, u64)], others: &[(u64, u64)]) -> f64 {
    let common = |one: &(u64, u64), other: &(u64, u64)| {
        one.1.min(other.1).saturating_sub(one.0.max(other.0)) as f64
    };
    some.iter().flat_map(|own| others.iter().map(move |theirs| common(own, theirs))).sum()
}

/// What a thread did between two times.
fn did(events: &[Event], tid: i32, from_ns: u64, to_ns: u64) -> Did {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        Unknown,
        Runs,
        Waits,
        Asleep,
        Uninterruptible,
    }
    let mut did = Did::default();
    let (mut state, mut since_ns) = (State::Unknown, from_ns);
    let mut change = |next: State, now_ns: u64| {
        let (from_ns, to_ns) = (since_ns.max(from_ns), now_ns.min(to_ns));
        let ns = to_ns.saturating_sub(from_ns) as f64;
        match state {
            State::Runs => did.ran += ns,
            State::Waits => did.waited += ns,
            State::Uninterruptible if to_ns > from_ns => did.blocked.push((from_ns, to_ns)),
            State::Asleep if to_ns > from_ns => did.slept.push((from_ns, to_ns)),
            State::Unknown | State::Asleep | State::Uninterruptible => {}
        }
        (state, since_ns) = (next, now_ns);
    };
    let mut is_asleep = false;
    let mut unsure = 0.0;
    let mut last_ns = from_ns;
    for event in events {
        let now_ns = event.time_ns;
        match event.kind {
            Kind::LostSwitch { prev, next } if prev == tid || next == tid => {
                is_asleep = false;
                unsure += now_ns.min(to_ns).saturating_sub(last_ns.max(from_ns)) as f64;
                change(if next == tid { State::Runs } else { State::Unknown }, now_ns);
            }
            Kind::Switch { prev, left, .. } if prev == tid => {
                is_asleep = left != Left::Runnable;
                change(
                    match left {
                        Left::Runnable => State::Waits,
                        Left::Asleep => State::Asleep,
                        Left::Uninterruptible => State::Uninterruptible,
                    },
                    now_ns,
                );
            }
            Kind::Switch { next, .. } if next == tid => {
                is_asleep = false;
                change(State::Runs, now_ns);
            }
            Kind::Waking { pid } if pid == tid && is_asleep => {
                is_asleep = false;
                change(State::Waits, now_ns);
            }
            _ => continue,
        }
        last_ns = now_ns;
    }
    change(State::Unknown, u64::MAX);
    did.unsure = unsure;
    did
}

fn number(value: &Value, name: &str) -> Result<u64> {
    value.get(name).and_then(Value::as_u64).with_context(|| format!("no {name} in {value}"))
}

fn list<'a>(value: &'a Value, name: &str) -> Result<&'a Vec<Value>> {
    value.get(name).and_then(Value::as_array).with_context(|| format!("no {name}"))
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The time of a path by thread and state, ns.
fn path_ns(path: &[Value], comm: &str, states: &[&str]) -> Result<f64> {
    let mut sum = 0.0;
    for segment in path {
        if word(segment, "comm") == comm && states.contains(&word(segment, "state")) {
            sum += (number(segment, "to_ns")? - number(segment, "from_ns")?) as f64;
        }
    }
    Ok(sum)
}

/// Two figures that are to be the same.
#[derive(Default)]
struct Judge(Vec<String>);

impl Judge {
    fn compare(&mut self, what: &str, found: f64, expected: f64, floor: f64) {
        let apart = (found - expected).abs();
        let is_far = apart > TOLERANCE * expected.max(found) + floor;
        println!("{what}: {:.3} ms, expected {:.3} ms", found / 1e6, expected / 1e6);
        if is_far {
            self.0.push(format!("{what}: {found} ns, expected {expected} ns"));
        }
    }
}

/// A disk that two groups read from, and that is slow on purpose: a loop device over a file of a disk which these
/// groups may read from so often only. The kernel has the loop device wait for that.
struct SlowDisk {
    device: LoopDevice,
    _file: ScratchFile,
    /// Whether the groups are limited: else it is as fast as the disk below.
    is_slow: bool,
}

impl SlowDisk {
    /// An error says what this host does not have.
    fn new(groups: &[&Group]) -> Result<Self> {
        let file = ScratchFile::new("why", 4)?;
        let disk = file.disk()?.context("the temporary directory is on no block device")?;
        let device = LoopDevice::attach(&file).context("no loop device")?;
        let read = Worker::start("direct-reads", &["0", &device.path(), OTHERS_BYTES, "0", "1"])?;
        read.stop().context("it cannot be read past the page cache")?;
        let mut is_slow = false;
        for group in groups {
            is_slow |= group.limit_reads(&disk, READS_PER_SECOND)?;
        }
        Ok(Self { device, _file: file, is_slow })
    }
}

/// The load at its places: the client beside a hog on the first CPU, the others on the last one, with one that
/// reads from the same disk.
struct Relay {
    worker: Worker,
    hog: Worker,
    reader: Option<Worker>,
    disk: Option<SlowDisk>,
    victim: Group,
    culprit: Group,
    _reader: Group,
    _around: Group,
    _folder: Folder,
}

impl Relay {
    fn start() -> Result<Self> {
        let hierarchies = [Hierarchy::Sockets, Hierarchy::Io];
        let has_io = Group::is_possible(Hierarchy::Io)?;
        let around = Group::new("why", if has_io { &hierarchies } else { &hierarchies[..1] })?;
        let (victim, culprit) = (around.inner("victim")?, around.inner("culprit")?);
        let readers = around.inner("reader")?;
        let folder = Folder::new("why")?;
        let word = folder.write("word", "")?;
        let word = word.to_str().context("a path that is not UTF-8")?;
        // Version 1 limits each group, version 2 all that are in one.
        let disk = SlowDisk::new(&[&around, &victim, &readers]);
        let disk = disk.inspect_err(|error| println!("no planted disk: {error:#}")).ok();
        let path = disk.as_ref().map(|disk| disk.device.path());
        let last = (cpus() - 1).to_string();
        let reader = |path: &String| {
            let reads = [&*last, path, OTHERS_BYTES, "0", "0"];
            Worker::start_at(Place::group(&readers), "direct-reads", &reads)
        };
        let reader = path.as_ref().map(reader).transpose()?;
        let disk_path = path.as_deref().unwrap_or("-");
        let arguments = ["0", &last, word, disk_path, WORK_MS];
        let worker = Worker::start_at(Place::group(&victim), "relay", &arguments)?;
        let hog = Worker::start_at(Place::group(&culprit), "burn", &["0"])?;
        Ok(Self {
            worker,
            hog,
            reader,
            disk,
            victim,
            culprit,
            _reader: readers,
            _around: around,
            _folder: folder,
        })
    }

    fn stop(self) -> Result<()> {
        self.worker.stop()?;
        self.hog.stop()?;
        self.reader.map(Worker::stop).transpose()?;
        Ok(())
    }
}

/// What the daemon charged one with the delays of another for turns on CPUs, seconds.
fn charged(daemon: &Daemon, victim: &str, culprit: &str) -> Result<f64> {
    let mut sum = 0.0;
    for (labels, seconds) in daemon.scrape()?.series(INTERFERENCE) {
        let is = |name: &str, value: &str| labels.get(name).is_some_and(|own| own == value);
        if is("victim", victim) && is("culprit", culprit) && is("resource", "cpu") {
            sum += seconds;
        }
    }
    Ok(sum)
}

/// The tid of the thread of that name.
fn tid(found: &Value, comm: &str) -> Result<i32> {
    let threads = list(found, "threads")?;
    let thread = threads.iter().find(|thread| word(thread, "comm") == comm);
    let thread = thread.with_context(|| format!("there is no {comm}"))?;
    Ok(i32::try_from(number(thread, "tid")?)?)
}

/// The requests of a device by ftrace.
fn lives(trace: &Trace, device: &str) -> Vec<Life> {
    let mut lives = block_waits(&trace.all(), device_name).lives;
    lives.retain(|life| *device_name(life.device) == *device);
    lives
}

/// The disk's part of a path: from the request to its completion by ftrace, and who was ahead of it.
fn judge_disk(
    judge: &mut Judge,
    path: &[Value],
    lives: &[Life],
    did: &Did,
    (own, other): (i32, i32),
    (from_ns, to_ns): (u64, u64),
) -> Result<()> {
    // Before it sleeps, and when it was not woken in time, it runs or waits for a CPU meanwhile.
    let begin = |life: &Life| life.inserted_ns.unwrap_or(life.issued_ns);
    let requests = lives.iter().filter(|life| life.pid == own);
    let spans: Vec<_> = requests.map(|life| (begin(life), life.completed_ns)).collect();
    ensure!(!spans.is_empty(), "{INCONCLUSIVE}: no request of the load");
    let found = path_ns(path, NAMES[2], &["disk"])?;
    let floor = DISK_FLOOR_NS + did.unsure;
    let expected = common(&spans, &did.blocked);
    judge.compare("from the requests to their completion", found, expected, floor);
    let chosen = [own].into();
    let charges = [block_queue(lives, &chosen), block_device(lives, &chosen)].concat();
    let is_within = |end_ns: u64| (from_ns..=to_ns).contains(&end_ns);
    let ahead = charges
        .iter()
        .filter(|charge| charge.holder == Holder::Task(other) && is_within(charge.end_ns));
    let expected: u64 = ahead.map(|charge| charge.ns).sum();
    let longest = charges.iter().map(|charge| charge.ns).max().unwrap_or(0);
    let mut blamed = 0;
    for segment in path.iter().filter(|segment| word(segment, "state") == "disk") {
        for culprit in list(segment, "culprits")? {
            let is_it = culprit.get("tid").and_then(Value::as_i64) == Some(other.into());
            if is_it && word(culprit, "cause") == "foreign" {
                blamed += number(culprit, "ns")?;
            }
        }
    }
    // The first request and the last may be on the path in part.
    let doubt = block_device_doubt(lives, &chosen, STAMPS_APART_NS);
    println!("{:.3} ms depend on which of two requests ended first", doubt as f64 / 1e6);
    let floor = floor + 2.0 * longest as f64 + doubt as f64;
    judge.compare("who was ahead at the disk", blamed as f64, expected as f64, floor);
    ensure!(expected == 0 || blamed > 0, "no request of another was ahead at the disk");
    Ok(())
}

/// The path of the client, and where the threads' time went, against ftrace.
fn judge_path(found: &Value, trace: &Trace, relay: &Relay) -> Result<()> {
    let events = &trace.events;
    let offset_ns = number(found, "clock_offset_ns")?;
    let [from_ns, to_ns] = ["from_ns", "to_ns"].map(|name| number(found, name));
    let (from_ns, to_ns) = (from_ns? - offset_ns, to_ns? - offset_ns);
    let mut judge = Judge::default();
    let executions = list(found, "executions")?;
    let traced = executions.first().context("no path")?;
    let path = list(traced, "path")?;
    let until = |to_ns| {
        let all = NAMES.into_iter().map(|name| Ok(did(events, tid(found, name)?, from_ns, to_ns)));
        all.collect::<Result<Vec<Did>>>()
    };
    // The last request is under way, and its end is not known: the path has nothing of it but a sleep.
    let last = path.last().context("no path")?;
    let is_open = word(last, "comm") == NAMES[0] && word(last, "state") == "unknown";
    let path_to_ns = if is_open { number(last, "from_ns")? - offset_ns } else { to_ns };
    let (all, on_path) = (until(to_ns)?, until(path_to_ns)?);
    // What ftrace did not see may be another's.
    let unsure: f64 = all.iter().map(|did| did.unsure).sum();
    let floor = FLOOR_NS + unsure;
    println!("ftrace does not know {:.3} ms", unsure / 1e6);
    ensure!(
        unsure <= MOST_UNSURE * LAST.as_nanos() as f64,
        "{INCONCLUSIVE}: switches of the load are missing"
    );
    let mut own_ns = 0.0;
    for (name, (did, part)) in NAMES.into_iter().zip(all.iter().zip(&on_path)) {
        let thread = list(found, "threads")?.iter().find(|thread| word(thread, "comm") == name);
        let thread = thread.context("no thread")?;
        let totals = thread.get("totals_ns").context("no totals")?;
        let total = |state: &str| totals.get(state).and_then(Value::as_u64).unwrap_or(0) as f64;
        judge.compare(&format!("{name} ran"), total("running"), did.ran, floor);
        judge.compare(&format!("{name} waited"), total("waiting_cpu"), did.waited, floor);
        let slept = thread.get("uninterruptible").context("no sleeps")?;
        let slept = number(slept, "sum_ns")? as f64;
        let what = format!("{name} slept uninterruptibly");
        judge.compare(&what, slept, did.uninterruptible(), floor);
        // Each works while those before it wait: all of it is on the path.
        let ran = path_ns(path, name, &["running"])?;
        let waited = path_ns(path, name, &["waiting_cpu"])?;
        if name == NAMES[1] {
            // Where the packet's sender is not known, the receiver's sleep stands for it.
            let asleep = path_ns(path, NAMES[2], &["network", "unknown", "task"])?;
            let expected = common(&on_path[0].slept, &on_path[2].slept);
            judge.compare("the second's part of the path", ran + waited + asleep, expected, floor);
        } else {
            judge.compare(&format!("{name} runs on the path"), ran, part.ran, floor);
            judge.compare(&format!("{name} waits on the path"), waited, part.waited, floor);
        }
        if name == NAMES[2] && relay.disk.is_some() {
            let states = ["disk", "interrupt", "ipi", "uninterruptible"];
            let slept = path_ns(path, name, &states)?;
            judge.compare("the disk's part of the path", slept, part.uninterruptible(), floor);
        }
        own_ns += did.waited;
    }
    println!("the path: {}", traced.get("totals_ns").context("no totals")?);
    let whole: u64 = path.iter().try_fold(0, |sum, segment| {
        anyhow::Ok(sum + number(segment, "to_ns")? - number(segment, "from_ns")?)
    })?;
    ensure!(whole == number(traced, "span_ns")?, "the path sums to {whole}");
    let mut blamed = 0.0;
    for culprit in list(found, "culprits")? {
        if word(culprit, "state") == "waiting_cpu" {
            blamed += number(culprit, "ns")? as f64;
        }
    }
    judge.compare("all culprits", blamed, own_ns, 2.0 * floor);
    if let (Some(disk), Some(reader)) = (&relay.disk, &relay.reader) {
        let lives = lives(trace, &disk.device.name);
        let tids = (tid(found, NAMES[2])?, reader.pid());
        judge_disk(&mut judge, path, &lives, &on_path[2], tids, (from_ns, path_to_ns))?;
    }
    // A switch that is missing may be that to the end of a sleep: all of what led to it is not on the path then.
    let unknown = path.iter().filter(|segment| word(segment, "state") == "unknown").count();
    let is_whole = unsure == 0.0 && unknown <= usize::from(is_open);
    let why =
        if is_whole { String::new() } else { format!("{INCONCLUSIVE}: switches are missing: ") };
    ensure!(judge.0.is_empty(), "{why}{}", judge.0.join("\n"));
    Ok(())
}

/// What the events say that the hog took from the victim, against the ledger between two frames.
fn judge_ledger(found: &Value, grown: f64, victim: &str, culprit: &str) -> Result<()> {
    let ledger = found.get("ledger").filter(|ledger| !ledger.is_null()).context("no ledger")?;
    let sum = |list: &[Value], is_it: &dyn Fn(&Value) -> bool| -> Result<f64> {
        let own = list.iter().filter(|one| is_it(one));
        own.map(|one| Ok(number(one, "ns")? as f64)).sum()
    };
    let by_events = sum(list(found, "culprits")?, &|one| {
        word(one, "state") == "waiting_cpu" && word(one, "cgroup") == culprit
    })?;
    let by_ledger = sum(list(ledger, "charges")?, &|one| {
        word(one, "resource") == "cpu" && word(one, "culprit") == culprit
    })?;
    let stolen = sum(list(ledger, "charges")?, &|one| {
        word(one, "resource") == "cpu" && word(one, "cause") == "steal"
    })?;
    let waits = found.get("waits").context("no waits")?;
    // At either edge a wait is under way, and the frames are a moment outside; events have a thread run on while
    // the hypervisor has its CPU.
    let outside_ns = number(ledger, "span_ns")?.abs_diff(number(found, "span_ns")?);
    let edges = 2.0 * number(waits, "max_ns")? as f64 + outside_ns as f64 + stolen;
    println!("{victim} for {culprit}: metrics grow by {grown} s; edges {edges} ns");
    let mut judge = Judge::default();
    judge.compare("the hog's part", by_events, by_ledger, edges);
    ensure!(by_events > 0.0 && by_ledger > 0.0, "the hog took nothing");
    ensure!(judge.0.is_empty(), "{}", judge.0.join("\n"));
    let limit = by_events / 1e9 * (1.0 - TOLERANCE) - edges / 1e9;
    ensure!(grown >= limit, "/metrics grows by {grown} s only");
    Ok(())
}

fn a_request_through_three_processes() -> Result<()> {
    let socketed = Socketed::start(&[
        "--recorder.kibibytes-per-cpu=16384",
        "--recorder.kibibytes-in-all=1048576",
        "--limits.interference=10000",
        "--limits.cgroups=10000",
    ])?;
    let Socketed { daemon, socket, .. } = &socketed;
    let socket = socket.to_str().context("a path that is not UTF-8")?;
    // As a service it has a share of its own.
    set_nice(daemon.process().pid().try_into()?, -15)?;
    let relay = Relay::start()?;
    let is_slow = relay.disk.as_ref().map(|disk| disk.is_slow);
    println!("a planted disk: {}, slow: {is_slow:?}", relay.disk.is_some());
    let (victim, culprit) = (relay.victim.label(), relay.culprit.label());
    let last = format!("{}ms", LAST.as_millis());
    let sight = keep_sight()?;
    let recording = Recording::start(&[&EVENTS[..], BLOCK_EVENTS].concat(), BUFFER_MIB)?;
    let begun_ns = monotonic_ns()?;
    // As long as is looked at and is read before that, and some.
    thread::sleep(LAST + Duration::from_millis(1200));
    let client = relay.worker.pid().to_string();
    let execution = format!("thread:{client}");
    let arguments =
        ["why", &victim, "--last", &last, "--connect", socket, "--execution", &execution];
    let outcome = run_noised(&[&arguments[..], &["--json"]].concat())?;
    let trace = recording.stop()?;
    ensure_sight(&trace.sights)?;
    drop(sight);
    let found: Value = outcome.json()?;
    ensure!(number(&found, "discarded")? == 0, "{INCONCLUSIVE}: events were lost");
    let from_ns = number(&found, "from_ns")? - number(&found, "clock_offset_ns")?;
    ensure!(from_ns > begun_ns, "{INCONCLUSIVE}: the recording began too late");
    judge_path(&found, &trace, &relay)?;

    // The page has the same for people, and the paths of the longest waits.
    let page = run_noised(&["why", &client, "--last", "1s", "--all", "--connect", socket])?;
    println!("{}{}", page.stdout, page.stderr);
    ensure!(page.code == 0, "it exits with {}", page.code);
    for part in
        ["waited for a CPU", "who had the CPUs that it waited for", &culprit, "critical path"]
    {
        ensure!(page.stdout.contains(part), "{part:?} is not on the page");
    }

    // The same seconds by the ledger.
    let before = charged(daemon, &victim, &culprit)?;
    let arguments = ["why", &victim, "--next", "1500ms", "--connect", socket, "--json"];
    let found: Value = run_noised(&arguments)?.json()?;
    let grown = charged(daemon, &victim, &culprit)? - before;
    ensure!(number(&found, "discarded")? == 0, "{INCONCLUSIVE}: events were lost");
    ensure!(word(&found, "source") == "flight_recorder", "from {}", word(&found, "source"));
    ensure!(!list(&found, "executions")?.is_empty(), "no path of the longest waits");
    judge_ledger(&found, grown, &victim, &culprit)?;

    // Further back than the recorder reaches.
    let far = run_noised(&["why", &client, "--last", "1h", "--connect", socket])?;
    ensure!(far.code == 0, "it exits with {}: {}", far.code, far.stderr);
    for part in ["flight recorder holds", "of that part alone"] {
        ensure!(far.stdout.contains(part), "{part:?}: {}", far.stdout);
    }
    // Of a cgroup there are counters.
    let counted = run_noised(&["why", &victim, "--last", "10m", "--connect", socket, "--json"])?;
    let counted: Value = counted.json()?;
    let of_hog = |one: &&Value| {
        let is_its = one["culprit"]["cgroup"].as_str() == Some(&culprit);
        is_its && one["resource"] == "cpu" && one["evidence"] == "counters"
    };
    let findings = list(&counted["verdict"], "findings")?;
    ensure!(findings.iter().any(|one| of_hog(&one)), "{}", counted["verdict"]);
    relay.stop()?;
    Ok(())
}

/// Without a daemon, and of nothing that there is.
fn why_says_what_it_cannot() -> Result<()> {
    let own = std::process::id().to_string();
    ensure_refused(&run_noised(&["why", "no-such-thing"])?, 2, &["no-such-thing", "process id"])?;
    ensure_refused(&run_noised(&["why", "4000000000"])?, 2, &["4000000000", "ps -e"])?;
    ensure_refused(&run_noised(&["why", &own, "--last", "x"])?, 2, &["--last"])?;
    let nowhere = ["why", &own, "--connect", "/nowhere.sock"];
    ensure_refused(&run_noised(&nowhere)?, 1, &["/nowhere.sock", "--connect"])?;
    let off = Socketed::start(&["--recorder.enabled=false"])?;
    let socket = off.socket.to_str().context("a path that is not UTF-8")?;
    let nothing = ["why", &own, "--connect", socket];
    ensure_refused(&run_noised(&nothing)?, 2, &["no flight recorder", "--next"])?;
    drop(off);
    // Alone: programs of its own, for as long as it watches.
    let sleeper = Worker::start("sleep", &["0", "2000"])?;
    let sleeper_id = sleeper.pid().to_string();
    let mut command = Command::new(noise_tests::daemon::binary()?);
    command.args(["why", &sleeper_id, "--next", "400ms", "--json"]);
    let found: Value = noise_tests::daemon::run(command)?.json()?;
    ensure!(word(&found, "source") == "programs", "from {}", word(&found, "source"));
    let totals = found.get("totals_ns").context("no totals")?;
    let timer = totals.get("timer").and_then(Value::as_u64).unwrap_or(0);
    let span = number(&found, "span_ns")?;
    ensure!(timer > span / 2, "of {span} ns it sleeps {timer} ns until a timer: {totals}");
    sleeper.stop()?;
    Ok(())
}
