//! Marks of programs: into the daemon, from there into recordings, and the executions that they are.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::{Socketed, binary, run, run_noised};
use noise_tests::load::Worker;
use noise_tests::recorded::recorded;
use noise_tests::scratch::{Folder, argument};
use serde_json::Value;

use crate::Test;
use crate::incidents::until;
use crate::lifecycle::PublicCopy;
use crate::record::{Recorder, ensure_babeltrace};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("marks_of_a_program_are_executions", marks_of_a_program_are_executions),
    ("marks_of_a_script_are_executions", marks_of_a_script_are_executions),
];

/// Executions that the program marks.
const QUERIES: usize = 5;
/// Memory that a flood may cost the daemon, bytes.
const FLOOD_BYTES: u64 = 32 << 20;
/// How long it is tried to send more than are taken: a machine may be too slow for that.
const FLOOD: Duration = Duration::from_secs(5);
/// Marks that are taken in a second, and at once.
const RATE: u64 = 10_000;

/// The lines that both babeltraces print of marks, and that they say nothing else.
fn printed(folder: &Path, name: &str) -> Result<usize> {
    let mut found = None;
    for command in ["babeltrace", "babeltrace2"] {
        let Ok(output) = Command::new(command).arg(folder).output() else { continue };
        ensure!(output.status.success(), "{command} fails");
        let text = String::from_utf8_lossy(&output.stdout);
        let name = format!("name = \"{name}\"");
        let is_mark = |line: &&str| line.contains("noised_mark") && line.contains(&name);
        let count = text.lines().filter(is_mark).count();
        ensure!(found.is_none_or(|before| before == count), "{command} prints {count} marks");
        found = Some(count);
    }
    found.context("neither babeltrace is there: apt-get install babeltrace babeltrace2")
}

fn marks(folder: &Path, name: &str) -> Result<Vec<Value>> {
    let outcome = run_noised(&["trace", "events", "--json", argument(folder)?])?;
    ensure!(outcome.code == 0 && outcome.stderr.is_empty(), "{}", outcome.stderr);
    let of = |line: &str| serde_json::from_str::<Value>(line).context("a line");
    let lines = outcome.stdout.lines().filter(|line| line.contains("\"noised_mark\"")).map(of);
    let mut all = lines.collect::<Result<Vec<_>>>()?;
    all.retain(|mark| mark["fields"]["name"] == name);
    Ok(all)
}

/// The executions that a recording has.
fn executions(folder: &Path, execution: &str) -> Result<Vec<Value>> {
    let path = argument(folder)?;
    let options = ["trace", "critical-path", "--json", "--execution", execution, path];
    let mut document: Value = run_noised(&options)?.json()?;
    let all = document["executions"].take();
    let all: Vec<Value> = serde_json::from_value(all)?;
    for one in &all {
        let totals = one["totals_ns"].as_object().context("no totals")?;
        let sum: u64 = totals.values().filter_map(Value::as_u64).sum();
        ensure!(Some(sum) == one["span_ns"].as_u64(), "{sum} of {one}");
    }
    Ok(all)
}

fn offset_ns(folder: &Path) -> Result<u64> {
    let outcome = run_noised(&["trace", "events", "--summary", "--json", argument(folder)?])?;
    let summary: Value = serde_json::from_str(&outcome.stdout)?;
    summary["clock"]["offset_ns"].as_u64().context("no offset")
}

fn marks_of_a_program_are_executions() -> Result<()> {
    let daemon = Socketed::start(&[])?;
    let socket = daemon.socket.with_extension("marks");
    ensure!(fs::metadata(&socket)?.permissions().mode() & 0o777 == 0o660, "another mode");
    let mut recorder = Recorder::start(&["--connect", argument(&daemon.socket)?])?;
    let mut program = Worker::start("marks", &[argument(&socket)?, &QUERIES.to_string()])?;
    let (pid, marked) = (program.pid(), program.figures()?);
    refuse_a_stranger(&daemon, &socket)?;
    flood(&daemon, &socket)?;
    recorder.stop(libc::SIGINT)?;
    println!("{}", recorder.process.stderr()?);
    let folder = recorder.folder.path();

    let queries = marks(folder, "query")?;
    ensure!(queries.len() == 2 * QUERIES, "{} marks", queries.len());
    // SAFETY: no argument.
    let uid = unsafe { libc::geteuid() };
    for mark in queries.iter().chain(&marks(folder, "plain")?) {
        let fields = &mark["fields"];
        let is_its = fields["pid"] == pid && fields["uid"] == uid;
        // Where it is not said, nor seen at that moment, it is what the process has.
        let is_thread = fields["tid"] == pid || (fields["name"] == "plain" && fields["tid"] == 0);
        ensure!(is_its && is_thread, "{mark}");
    }
    ensure!(marks(folder, "stranger")?.is_empty(), "a stranger's mark was taken");
    ensure!(printed(folder, "query")? == queries.len(), "babeltrace prints others");
    ensure_babeltrace(folder, &recorded(folder)?)?;

    let offset_ns = offset_ns(folder)?;
    let found = executions(folder, "mark:query")?;
    ensure!(found.len() == QUERIES, "{} executions", found.len());
    for (key, one) in found.iter().enumerate() {
        let is_its = one["key"].as_str() == Some(&key.to_string()) && one["tid"] == pid;
        let stated = |edge: &str| marked.get(&format!("{edge}-{key}")).map(|ns| ns + offset_ns);
        let expected = ["from", "to"].map(stated);
        let spans = ["from_ns", "to_ns"].map(|field| one[field].as_u64());
        ensure!(is_its && spans == expected, "{one} is not {expected:?}");
        // Not every machine has its timers at a vector of their own.
        let slept = ["timer", "interrupt"].map(|state| one["totals_ns"][state].as_u64());
        ensure!(slept.iter().flatten().sum::<u64>() >= 2_000_000, "{one}");
    }
    let one = executions(folder, "mark:query=3")?;
    ensure!(one.len() == 1 && one[0]["key"] == "3", "{one:?}");
    let plain = executions(folder, "mark:plain")?;
    let is_its = |one: &Value| one["tid"] == pid && one["span_ns"].as_u64() >= Some(3_000_000);
    ensure!(plain.len() == 1 && plain.iter().all(is_its), "{plain:?}");
    let picture = daemon.socket.with_extension("perfetto");
    let page = run_noised(&[
        "trace",
        "critical-path",
        "--execution",
        "mark:query",
        "--perfetto",
        argument(&picture)?,
        argument(folder)?,
    ])?;
    println!("{}", page.stdout);
    ensure!(page.code == 0 && page.stdout.contains("5 executions took"), "{page:?}");
    ensure!(fs::metadata(&picture)?.len() > 500, "an empty file");
    Ok(())
}

/// One who finds the socket, and may not use it.
fn refuse_a_stranger(daemon: &Socketed, socket: &Path) -> Result<()> {
    let copy = PublicCopy::new()?;
    let way = daemon.socket.parent().context("no folder")?;
    fs::set_permissions(way, fs::Permissions::from_mode(0o755))?;
    let words = ["mark", "begin", "stranger", "--socket", argument(socket)?];
    let outcome = run(copy.as_unprivileged(&words))?;
    ensure!(outcome.code == 3 && outcome.stderr.contains("not allowed to use"), "{outcome:?}");
    Ok(())
}

/// How many datagrams became that.
fn counted(daemon: &Socketed, result: &str) -> Result<u64> {
    let begin = format!("noised_marks_total{{result=\"{result}\"}} ");
    let text = daemon.daemon.metrics()?;
    let count = text.lines().find_map(|line| line.strip_prefix(&begin));
    Ok(count.with_context(|| format!("no {begin}"))?.parse()?)
}

/// As many marks as this machine sends, until some are more than are taken: each is counted, no more are taken than
/// may be, and the daemon goes on and grows by little.
fn flood(daemon: &Socketed, socket: &Path) -> Result<()> {
    let before = daemon.daemon.resident_bytes()?;
    let counts =
        || -> Result<[u64; 2]> { Ok([counted(daemon, "taken")?, counted(daemon, "dropped")?]) };
    // Two for each query, and for the plain one.
    let taken_before = 2 * (QUERIES as u64 + 1);
    ensure!(until(|| Ok(counts()? == [taken_before, 0]))?, "{:?} marks", counts()?);
    let sender = UnixDatagram::unbound()?;
    sender.connect(socket)?;
    sender.set_nonblocking(true)?;
    let text = format!("begin flood {}", "k".repeat(100));
    let (begin, mut sent) = (Instant::now(), 0);
    while begin.elapsed() < FLOOD && counts()?[1] == 0 {
        for _ in 0..10_000 {
            match sender.send(text.as_bytes()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::yield_now(),
                outcome => {
                    outcome?;
                    sent += 1;
                }
            }
        }
    }
    let all_are_counted = || Ok(counts()?.iter().sum::<u64>() >= taken_before + sent);
    ensure!(until(all_are_counted)?, "{:?} of {sent} datagrams", counts()?);
    let most = RATE as f64 * (1.0 + begin.elapsed().as_secs_f64()) + taken_before as f64;
    let [taken, dropped] = counts()?;
    let after = daemon.daemon.resident_bytes()?;
    println!("a flood: {taken} taken, {dropped} dropped; {before} -> {after} bytes");
    ensure!(taken + dropped == taken_before + sent, "{taken} + {dropped}, not {sent}");
    ensure!(taken as f64 <= most, "{taken} were taken, of at most {most}");
    ensure!(after < before + FLOOD_BYTES, "{before} -> {after} bytes");
    let says = || Ok(daemon.daemon.process().stderr()?.contains("more than 10000 a second"));
    ensure!(dropped == 0 || until(says)?, "{}", daemon.daemon.process().stderr()?);
    Ok(())
}

/// A recording with programs of its own takes marks in its folder, and says to its command where.
fn marks_of_a_script_are_executions() -> Result<()> {
    let folder = Folder::new("marks")?;
    let place = folder.path().join("recording");
    let script =
        "\"$1\" mark begin job && sleep 0.05 && \"$1\" mark end job && test -S \"$NOISED_MARKS\"";
    let mut command = Command::new(binary()?);
    command.args(["record", "--own", "--events", "sched", "-o"]).arg(&place);
    command.args(["--", "sh", "-c", script, "sh"]).arg(binary()?);
    let outcome = run(command)?;
    println!("{}", outcome.stderr);
    ensure!(outcome.code == 0, "{outcome:?}");
    ensure!(!place.join("noised.marks").exists(), "the socket is left behind");
    let found = executions(&place, "mark:job")?;
    ensure!(found.len() == 1 && found[0]["comm"] == "sh", "{found:?}");
    ensure!(found[0]["span_ns"].as_u64() >= Some(50_000_000), "{found:?}");
    // It waited for what it ran.
    let path = found[0]["path"].as_array().context("no path")?;
    let is_of = |name: &str| path.iter().any(|part| part["comm"] == name);
    ensure!(is_of("sleep"), "{path:?}");
    let outcome = run_noised(&["mark", "begin", "x", "--socket", argument(&place.join("none"))?])?;
    ensure!(outcome.code == 1 && outcome.stderr.contains("no noised takes marks"), "{outcome:?}");
    Ok(())
}
