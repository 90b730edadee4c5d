//! Critical paths of recordings of ours.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Error, Result, ensure};
use noise_tests::daemon::run_noised;
use noise_tests::ftrace::blind::hidden_threads;
use noise_tests::load::figure;
use noise_tests::load::indexer::NAMES;
use noise_tests::recorded::recorded;
use noise_tests::scenario::critical_path::{BURNER, PathStage, Recorded};
use noise_tests::scratch::argument;
use noise_tests::seen::path::{Judged, Part, Ran};
use noise_tests::seen::{Does, Seen};
use serde_json::Value;

use crate::record::Recorder;
use crate::{INCONCLUSIVE, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "a_clients_wait_for_an_answer_is_its_servers_work",
        a_clients_wait_for_an_answer_is_its_servers_work,
    ),
    (
        "a_parents_wait_for_a_child_is_the_childs_work",
        a_parents_wait_for_a_child_is_the_childs_work,
    ),
    ("a_program_beside_nine_burners", a_program_beside_nine_burners),
];

/// Requests over TCP, and what the server works for each.
const REQUESTS: u32 = 20;
const WORK: Duration = Duration::from_millis(5);
/// What a child works while its parent waits for it.
const CHILDS_WORK: Duration = Duration::from_millis(200);

/// Executions of the program beside burners, and of how many primes it searches in each step.
const EXECUTIONS: u64 = 3;
const PRIMES: u64 = 6000;
/// How far what its paths wait for a CPU may be from what the kernel, and its own clock, say.
const TOLERANCE: f64 = 0.1;
/// The same of each execution: waits at its ends, of which its marks and its accounts have different parts, and a disk that
/// takes its time.
const EDGE_NS: f64 = 10e6;
/// The part of what grew that the burners have, of the part that is theirs of the CPUs.
const BURNED: f64 = 0.9;
/// The most that others, noised among them, may have of the CPUs for that to be said.
const MOST_OTHERS: f64 = 0.08;
/// How many times as long the program may run, with the same work, for its recordings to be compared.
const MOST_SLOWER: f64 = 1.25;

/// The thread's own CPU time.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it is written during the call only.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn tid() -> i32 {
    // SAFETY: no argument.
    unsafe { libc::gettid() }
}

/// Takes so much CPU time.
fn work(time: Duration) {
    let end = cpu_time() + time;
    while cpu_time() < end {}
}

/// The server's thread.
fn serve(listener: &TcpListener) -> Result<i32> {
    let (mut client, _) = listener.accept()?;
    client.set_nodelay(true)?;
    let mut byte = [0];
    while client.read(&mut byte)? > 0 {
        work(WORK);
        client.write_all(&byte)?;
    }
    Ok(tid())
}

fn ask(address: std::net::SocketAddr) -> Result<i32> {
    let mut server = TcpStream::connect(address)?;
    server.set_nodelay(true)?;
    let mut byte = [1];
    for _ in 0..REQUESTS {
        server.write_all(&byte)?;
        server.read_exact(&mut byte)?;
    }
    Ok(tid())
}

fn a_clients_wait_for_an_answer_is_its_servers_work() -> Result<()> {
    let mut recorder = Recorder::start(&["--events", "sched,io"])?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let server = thread::spawn(move || serve(&listener));
    let client = thread::spawn(move || ask(address)).join().ok().context("the client failed")??;
    let server = server.join().ok().context("the server failed")??;
    recorder.stop(libc::SIGINT)?;

    let document = path_of(&recorder, client)?;
    let traced = &document["executions"][0];
    let (mut worked_ns, mut sent_ns) = (0, 0);
    for part in traced["path"].as_array().context("no path")? {
        let ns = part["to_ns"].as_u64().zip(part["from_ns"].as_u64());
        let ns = ns.map(|(to_ns, from_ns)| to_ns - from_ns).context("no span")?;
        let none = Vec::new();
        let culprits = part["culprits"].as_array().unwrap_or(&none);
        let divided: u64 = culprits.iter().filter_map(|culprit| culprit["ns"].as_u64()).sum();
        ensure!(divided == ns || culprits.is_empty(), "culprits have {divided} of {part}");
        ensure!(part["state"] != "waiting_cpu" || divided == ns, "no culprits: {part}");
        if part["tid"] == server && part["state"] == "running" {
            worked_ns += ns;
        }
        if culprits.iter().any(|of| of["cause"] == "sender" && of["tid"] == server) {
            sent_ns += ns;
        }
    }
    println!("the server works {worked_ns} ns of the client's path; its packets take {sent_ns} ns");
    if document["discarded"] == 0 {
        ensure_worked(&recorder, traced, server, worked_ns, WORK * REQUESTS)?;
        ensure!(sent_ns > 0, "no packet of the server");
    }
    Ok(())
}

/// The path of a thread, as JSON.
fn path_of(recorder: &Recorder, tid: i32) -> Result<Value> {
    let execution = format!("thread:{tid}");
    let path = argument(recorder.folder.path())?;
    let options = ["trace", "critical-path", "--json", "--execution", &execution, path];
    let document: Value = run_noised(&options)?.json()?;
    let traced = &document["executions"][0];
    let totals = traced["totals_ns"].as_object().context("no totals")?;
    let sum: u64 = totals.values().filter_map(Value::as_u64).sum();
    ensure!(Some(sum) == traced["span_ns"].as_u64(), "totals sum to {sum}: {traced}");
    Ok(document)
}

/// A path has what a thread worked, but for the time in which ftrace does not see it.
fn ensure_worked(
    recorder: &Recorder,
    traced: &Value,
    tid: i32,
    worked_ns: u64,
    planted: Duration,
) -> Result<()> {
    let planted_ns = u64::try_from(planted.as_nanos())?;
    let recording = recorded(recorder.folder.path())?;
    let seen = Seen::read(&recording.stretch.events, &hidden_threads()?)?;
    let at = |name: &str| Ok::<_, Error>(number(traced, name)?.saturating_sub(recording.offset_ns));
    let span = (at("from_ns")?, at("to_ns")?);
    let unseen_ns = seen.time_ns(tid, span, Does::Unseen);
    ensure!(
        worked_ns + unseen_ns >= planted_ns * 95 / 100,
        "{worked_ns} of {planted_ns} ns of work, {unseen_ns} ns unseen"
    );
    Ok(())
}

/// The thread makes a child that works, and waits for it; both.
fn wait_for_a_child() -> Result<(i32, i32)> {
    // SAFETY: the child only reads its clock and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        work(CHILDS_WORK);
        // SAFETY: it does not return.
        unsafe { libc::_exit(0) };
    }
    ensure!(child > 0, "no child: {}", std::io::Error::last_os_error());
    // SAFETY: no status is asked for.
    let ended = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    ensure!(ended == child, "waitpid says {ended}");
    Ok((tid(), child))
}

fn a_parents_wait_for_a_child_is_the_childs_work() -> Result<()> {
    let mut recorder = Recorder::start(&["--events", "sched"])?;
    let waits = thread::spawn(wait_for_a_child).join().ok().context("the parent failed")?;
    let (parent, child) = waits?;
    recorder.stop(libc::SIGINT)?;

    let document = path_of(&recorder, parent)?;
    let traced = &document["executions"][0];
    let mut worked_ns = 0;
    for part in list(traced, "path")? {
        if part["tid"] == child && part["state"] == "running" {
            ensure!(part["parent"]["tid"] == parent, "no one waits for the child: {part}");
            worked_ns += number(part, "to_ns")? - number(part, "from_ns")?;
        }
    }
    println!("the child works {worked_ns} ns of its parent's path");
    let path = argument(recorder.folder.path())?;
    let execution = format!("thread:{parent}");
    let page = run_noised(&["trace", "critical-path", "--execution", &execution, path])?;
    ensure!(page.stdout.contains("waits for this child"), "{page:?}");
    if document["discarded"] == 0 {
        ensure_worked(&recorder, traced, child, worked_ns, CHILDS_WORK)?;
    }
    Ok(())
}

fn number(value: &Value, name: &str) -> Result<u64> {
    value.get(name).and_then(Value::as_u64).with_context(|| format!("no {name} in {value}"))
}

fn list<'v>(value: &'v Value, name: &str) -> Result<&'v Vec<Value>> {
    value.get(name).and_then(Value::as_array).with_context(|| format!("no {name}"))
}

/// Time of all paths of a document in a state, ns, after a look at each: without a gap, as long as the execution.
fn state_ns(document: &Value, state: &str) -> Result<u64> {
    let mut sum = 0;
    let executions = list(document, "executions")?;
    ensure!(executions.len() as u64 == EXECUTIONS, "{} executions", executions.len());
    for traced in executions {
        let mut last_ns = number(traced, "from_ns")?;
        for part in list(traced, "path")? {
            let (from_ns, to_ns) = (number(part, "from_ns")?, number(part, "to_ns")?);
            ensure!(from_ns == last_ns && to_ns > from_ns, "{part} does not follow on {last_ns}");
            sum += if part["state"] == state { to_ns - from_ns } else { 0 };
            last_ns = to_ns;
        }
        ensure!(last_ns == number(traced, "to_ns")?, "the path ends at {last_ns}");
        let totals = traced["totals_ns"].as_object().context("no totals")?;
        let total: u64 = totals.values().filter_map(Value::as_u64).sum();
        ensure!(total == number(traced, "span_ns")?, "totals sum to {total}");
    }
    Ok(sum)
}

/// Holds the paths of a phase against the events of its recording, and these against what the kernel says of the program.
/// How much of the paths nobody can see, ns.
fn judge(document: &Value, phase: &Recorded) -> Result<u64> {
    let recording = recorded(&phase.folder)?;
    let seen = Seen::read(&recording.stretch.events, &hidden_threads()?)?;
    // A hidden thread may have ended meanwhile; whether recordings are whole, ftrace says in their own tests.
    ensure!(seen.missing == 0, "{INCONCLUSIVE}: {} switches are missing", seen.missing);
    let at = |value: &Value, name: &str| -> Result<u64> {
        number(value, name)?.checked_sub(recording.offset_ns).context("a time of old")
    };
    let (mut parts, mut own, mut spans) = (Vec::new(), BTreeSet::new(), Vec::new());
    for traced in list(document, "executions")? {
        spans.push((at(traced, "from_ns")?, at(traced, "to_ns")?));
        for part in list(traced, "path")? {
            let tid = part["tid"].as_i64().map(i32::try_from).transpose()?;
            if NAMES.iter().any(|name| part["comm"] == *name) {
                own.extend(tid);
            }
            let state = part["state"].as_str().context("no state")?.to_owned();
            let (from_ns, to_ns) = (at(part, "from_ns")?, at(part, "to_ns")?);
            parts.push(Part { from_ns, to_ns, tid, state });
        }
    }
    let time_ns = |does: Does| -> u64 {
        let of = |tid: &i32| spans.iter().map(|span| seen.time_ns(*tid, *span, does)).sum::<u64>();
        own.iter().map(of).sum()
    };
    let (seen_ns, unseen_ns) = (time_ns(Does::Runs), time_ns(Does::Unseen));
    let ran = Ran { seen_ns, unseen_ns, stolen_ns: phase.stolen_ns };
    let kernel_ns = figure(&phase.figures, "ran-ns")?;
    let judged = Judged::of(&parts, &seen, &own);
    println!("{judged:?}; {ran:?}, the kernel says {kernel_ns} ns");
    judged.ensure_right()?;
    ran.ensure_is(kernel_ns)?;
    Ok(judged.unseen_ns)
}

/// The paper's view: what it shows is what the kernel says of the program, and of the burners.
fn a_program_beside_nine_burners() -> Result<()> {
    let stage = PathStage::prepare(None, EXECUTIONS, PRIMES)?;
    let (quiet, noisy) = (stage.record(false)?, stage.record(true)?);
    let execution = PathStage::execution();
    let [this, other] = [&noisy, &quiet].map(|of| argument(&of.folder));
    let options = ["trace", "critical-path", this?, "--against", other?, "--execution", &execution];
    let page = run_noised(&options)?.printed()?;
    println!("{}\n{page}", stage.plot());
    let document: Value = run_noised(&[&options[..], &["--json"]].concat())?.json()?;
    let against = &document["against"];
    let lost = number(&document, "discarded")? + number(against, "discarded")?;
    ensure!(lost == 0, "{INCONCLUSIVE}: {lost} events were lost");

    let unseen_ns = (judge(against, &quiet)? + judge(&document, &noisy)?) as f64;
    let beside = list(&document, "beside")?.first().context("nothing beside each other")?;
    let row = |list: &[Value], state: &str| -> Result<[f64; 2]> {
        let of = |name: &str| -> Result<f64> {
            let own = list.iter().filter(|row| row["state"] == state);
            own.map(|row| Ok(number(row, name)? as f64)).sum()
        };
        Ok([of("against_ns")?, of("ns")?])
    };
    let far = |found: f64, expected: f64| {
        let edges = EDGE_NS * EXECUTIONS as f64 + unseen_ns;
        (found - expected).abs() > TOLERANCE * expected.max(found) + edges
    };
    let mut shown = Vec::new();
    for (state, what) in [("running", "ran-ns"), ("waiting_cpu", "waited-ns")] {
        let both = row(list(beside, "states")?, state)?;
        let sides = [(&quiet, against), (&noisy, &document)];
        for ((phase, document), beside) in sides.into_iter().zip(both) {
            let found = state_ns(document, state)? as f64;
            let kernel = figure(&phase.figures, what)? as f64;
            println!("{state}: {found} ns on the path, the kernel says {kernel} ns");
            ensure!((found - beside).abs() < 1.0, "{found} ns on the path, {beside} ns beside");
        }
        shown.push(both);
    }
    let [[ran_quiet, ran_noisy], [waited_quiet, waited_noisy]] = shown[..] else {
        anyhow::bail!("{shown:?}")
    };
    let burned = judge_others(&noisy, ran_noisy / ran_quiet)?;
    // The work is the same: what its own clock says that it takes longer, it waits for a CPU.
    let longer_ns = number(beside, "ns")? as f64 - number(beside, "against_ns")? as f64;
    let grown_ns = waited_noisy - waited_quiet;
    println!("{longer_ns} ns longer, {grown_ns} ns more of waiting for a CPU");
    ensure!(grown_ns > 0.0 && !far(grown_ns, longer_ns), "{grown_ns} of {longer_ns} ns more");
    let kernel_ns = figure(&noisy.figures, "waited-ns")? as f64;
    ensure!(
        waited_noisy < kernel_ns || !far(waited_noisy, kernel_ns),
        "{waited_noisy} ns of waiting, the kernel says {kernel_ns}"
    );
    let is_burner = |row: &&Value| row["state"] == "waiting_cpu" && row["comm"] == BURNER;
    let whom = list(beside, "whom")?.iter().find(is_burner).context("no burner is blamed")?;
    ensure!(number(whom, "against_ns")? == 0, "blamed before it was there: {whom}");
    let part = number(whom, "ns")? as f64 / grown_ns;
    println!("the burners had {:.1} % of what grew", part * 100.0);
    let most = part + unseen_ns / grown_ns;
    ensure!(most >= BURNED * burned, "the burners had {part} of what grew, {burned} of the CPUs");
    let said = page.lines().nth(1).unwrap_or_default();
    ensure!(said.contains("waits for a CPU") && said.contains("burn had"), "it says: {said}");
    Ok(())
}

/// The part that the burners had of what the program left of its CPUs, where they had them nearly alone.
fn judge_others(noisy: &Recorded, slower: f64) -> Result<f64> {
    let own_ns = figure(&noisy.figures, "ran-ns")?;
    let burned = noisy.burned_ns as f64 / noisy.capacity_ns.saturating_sub(own_ns) as f64;
    let others = 100.0 * (1.0 - burned);
    println!("others had {others:.1} % of the CPUs; it runs {slower:.2}x as long");
    ensure!(1.0 - burned <= MOST_OTHERS, "{INCONCLUSIVE}: others had {others:.1} % of the CPUs");
    ensure!(
        (MOST_SLOWER.recip()..=MOST_SLOWER).contains(&slower),
        "{INCONCLUSIVE}: the same work takes {slower:.2}x as long"
    );
    Ok(burned)
}
