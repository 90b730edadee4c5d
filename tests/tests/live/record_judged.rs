//! A recording of ours, judged by lttng-analyses and by babeltrace.
//!
//! lttng-analyses reads the time that all streams have in common, as is usual: all of ours begin and end
//! with the recording.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::run_noised;
use noise_tests::ftrace::blind::hidden_threads;
use noise_tests::scratch::Folder;
use serde_json::Value;

use crate::{Impossible, python};

use self::lttng::{ALL, Row, Tables, spread, tid, value};

#[path = "../../../noise-daemon/trace/tests/traces/lttng.rs"]
#[expect(clippy::unwrap_used, reason = "a judge that prints nonsense fails the test by panicking")]
mod lttng;
#[path = "../../../noise-daemon/trace/tests/traces/packages.rs"]
mod packages;
#[path = "../../../noise-daemon/trace/tests/traces/printed.rs"]
#[expect(clippy::unwrap_used, reason = "see there")]
mod printed;

const NONE: Row = Row { count: 0, sum_ns: 0, max_ns: 0 };

/// What the judges have to say of a recording that has lost nothing.
pub(crate) fn judge(folder: &Path) -> Result<()> {
    let lines = text(&["events"], folder)?;
    let lines: Vec<String> = lines.lines().map(str::to_owned).collect();
    for command in ["babeltrace", "babeltrace2"] {
        let (theirs, complaints) = printed::run(command, folder).map_err(Impossible)?;
        ensure_printed(command, &lines, &theirs, &complaints)?;
    }
    ensure_analysed(folder, &lines)
}

/// What a reader of ours prints.
fn text(command: &[&str], folder: &Path) -> Result<String> {
    let path = folder.to_str().context("a path that is not UTF-8")?;
    let outcome = run_noised(&[&["trace"], command, &[path]].concat())?;
    ensure!(outcome.code == 0 && outcome.stderr.is_empty(), "{command:?}: {outcome:?}");
    Ok(outcome.stdout)
}

/// All fields of all events.
fn ensure_printed(
    command: &str,
    ours: &[String],
    theirs: &[String],
    complaints: &str,
) -> Result<()> {
    ensure!(complaints.trim().is_empty(), "{command}: {complaints}");
    let theirs: Vec<_> = theirs.iter().filter(|line| line.starts_with('[')).cloned().collect();
    ensure!(ours.len() == theirs.len(), "{command}: {} lines of {}", theirs.len(), ours.len());
    let mut differences = printed::differences(ours, &theirs);
    // Where a text is empty, version 2.0.4 repeats that of the event before.
    differences.retain(|(line, _)| !line.contains("= \"\""));
    ensure!(differences.is_empty(), "{command}: {differences:#?}");
    Ok(())
}

/// The figures of lttng-analyses.
fn ensure_analysed(folder: &Path, lines: &[String]) -> Result<()> {
    let kernel = folder.join("kernel");
    let mut all = Vec::new();
    for analysis in ["sched.runtop_mi", "irq.runstats_mi", "io.runlatencytop_mi", "io.runstats_mi"]
    {
        let options: &[&str] = if analysis == "sched.runtop_mi" { &[ALL] } else { &[] };
        all.push(Tables::of(&kernel, analysis, options).map_err(Impossible)?);
    }
    let delays: Value = serde_json::from_str(&text(&["delays", "--json"], folder)?)?;
    let [sched, irq, calls, disks] = all.as_slice() else { return Ok(()) };
    ensure_waits(folder, sched, &delays)?;
    let (theirs, ours) = (by_irq(irq), listed(&delays, "hardirq", "irq")?);
    println!("irqs: {ours:?}");
    ensure!(theirs == ours, "irqs: {ours:?}, lttng-irqstats: {theirs:?}");
    let flushes = lines
        .iter()
        .filter(|line| line.contains(" block_rq_issue: ") && line.contains(" nr_sector = 0,"));
    ensure_requests(disks, &listed(&delays, "block_device_wait", "name")?, flushes.count() as u64)?;
    // Of system calls there are no events.
    ensure!(calls.rows("top-syscall").next().is_none(), "system calls");
    Ok(())
}

/// A name or a number as text.
fn name(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn by_irq(tables: &Tables) -> BTreeMap<String, Row> {
    tables.rows("hard-stats").map(|row| (name(&row[0]["nr"]), spread(row, 1))).collect()
}

fn number(value: &Value, name: &str) -> Result<u64> {
    value[name].as_u64().with_context(|| format!("{value} has no {name}"))
}

fn row(value: &Value) -> Result<Row> {
    let [count, sum_ns, max_ns] = ["count", "sum_ns", "max_ns"].map(|name| number(value, name));
    Ok(Row { count: count?, sum_ns: sum_ns?, max_ns: max_ns? })
}

/// A list of `noised trace delays`.
fn listed(delays: &Value, list: &str, key: &str) -> Result<BTreeMap<String, Row>> {
    let rows = delays[list].as_array().with_context(|| format!("no {list}"))?;
    rows.iter().map(|entry| Ok((name(&entry[key]), row(entry)?))).collect()
}

/// Requests of each disk. lttng-iolatencystats leaves those out that have no sectors.
fn ensure_requests(tables: &Tables, ours: &BTreeMap<String, Row>, flushes: u64) -> Result<()> {
    let rows = tables.rows("disk-latency-stats");
    let theirs: BTreeMap<_, _> = rows.map(|row| (name(&row[0]["name"]), spread(row, 1))).collect();
    println!("disks: {ours:?}, with {flushes} flushes");
    let said = || format!("disks: {ours:?}, lttng-iolatencystats: {theirs:?}");
    ensure!(theirs.keys().all(|disk| ours.contains_key(disk)), said());
    for (disk, ours) in ours {
        let theirs = theirs.get(disk).copied().unwrap_or(NONE);
        let fewer = ours.count.saturating_sub(theirs.count);
        let is_rest = fewer <= flushes
            && theirs.count <= ours.count
            && theirs.sum_ns < ours.sum_ns
            && theirs.max_ns <= ours.max_ns;
        ensure!(theirs == *ours || (fewer > 0 && is_rest), said());
    }
    Ok(())
}

/// Each scheduling latency, and their sums by thread. A thread that is woken while it waits, preempted, waits
/// since the preemption for us, and since the wake-up for lttng-schedtop. That one also keeps the wake-up of a
/// thread that runs although no switch to it is there, until the thread runs once more: of one that runs since
/// before the recording, and on kernels that hide threads, of one that runs behind such a thread. The wake-up of
/// a thread that is on its way to sleep it ignores; for us, such a thread waits as soon as it is switched away
/// from.
fn ensure_waits(folder: &Path, tables: &Tables, delays: &Value) -> Result<()> {
    let place = Folder::new("tables")?;
    text(&["export", "--csv", place.argument()?], folder)?;
    let (mut ours, ends) = (waits(place.path())?, ends_of_runs(place.path())?);
    let hidden = hidden_threads()?;
    ours.retain(|(tid, _), _| !hidden.contains(tid));
    let mut sums: BTreeMap<i32, Row> = BTreeMap::new();
    let (mut found, mut preempted, mut kept) = (0, 0, 0);
    for row in tables.rows("top") {
        let (tid, from_ns, to_ns) = (tid(row, 5), value(row, 0), value(row, 1));
        if hidden.contains(&tid) {
            continue;
        }
        let wait = ours.remove(&(tid, to_ns));
        let our_from_ns = wait.as_ref().map_or(to_ns, |wait| wait.from_ns);
        if from_ns < our_from_ns {
            let ran = ends.range((tid, from_ns)..=(tid, our_from_ns)).next().is_some();
            ensure!(ran, "{wait:?}: {row}");
            kept += 1;
        }
        // Who woke it may have been hidden.
        let Some(wait) = wait else { continue };
        ensure!(from_ns <= wait.from_ns || !wait.is_wakeup, "{wait:?}: {row}");
        if !wait.is_wakeup {
            preempted += 1;
            continue;
        }
        found += 1;
        add(sums.entry(tid).or_insert(NONE), to_ns - wait.from_ns);
    }
    ours.retain(|_, wait| wait.is_wakeup);
    let mut ignored = 0;
    ours.retain(|(tid, to_ns), wait| {
        let was_on_its_way = ends.contains(&(*tid, wait.from_ns));
        if was_on_its_way {
            ignored += 1;
            add(sums.entry(*tid).or_insert(NONE), to_ns - wait.from_ns);
        }
        !was_on_its_way
    });
    println!(
        "{found} waits, {preempted} of preempted threads; {kept} wake-ups were kept, {ignored} ignored"
    );
    ensure!(ours.is_empty() && found > 50, "waits that lttng-schedtop does not have: {ours:?}");
    ensure!(
        (kept + ignored) * 4 < found,
        "{kept} wake-ups of {found} were kept, {ignored} ignored"
    );
    let threads = delays["threads"].as_array().context("no threads")?;
    for thread in threads {
        let wakeup = row(&thread["waits"]["wakeup"])?;
        let tid = thread["tid"].as_i64().context("no tid")?.try_into()?;
        let theirs = sums.remove(&tid).unwrap_or(NONE);
        let is_same = wakeup == theirs || hidden.contains(&tid);
        ensure!(is_same, "thread {tid}: {wakeup:?}, lttng-schedtop: {theirs:?}");
    }
    ensure!(sums.is_empty(), "threads that only lttng-schedtop has: {sums:?}");
    Ok(())
}

fn add(sum: &mut Row, ns: u64) {
    sum.count += 1;
    sum.sum_ns += ns;
    sum.max_ns = sum.max_ns.max(ns);
}

/// A wait for a CPU.
#[derive(Debug)]
struct Wait {
    is_wakeup: bool,
    from_ns: u64,
}

/// Columns of an exported table, line by line.
fn table<const N: usize>(path: &Path, names: [&str; N]) -> Result<Vec<[String; N]>> {
    let table = fs::read_to_string(path)?;
    let mut lines = table.lines().map(cells);
    let head = lines.next().context("an empty table")?;
    let places = names.map(|name| head.iter().position(|found| found == name));
    ensure!(places.iter().all(Option::is_some), "{head:?} lacks one of {names:?}");
    let row = |line: Vec<String>| {
        places.map(|place| place.and_then(|place| line.get(place).cloned()).unwrap_or_default())
    };
    Ok(lines.map(row).collect())
}

/// Waits for a CPU by thread and end.
fn waits(tables: &Path) -> Result<BTreeMap<(i32, u64), Wait>> {
    let rows = table(&tables.join("delays.csv"), ["signal", "tid", "from_ns", "to_ns"])?;
    let mut waits = BTreeMap::new();
    for [signal, tid, from, to] in rows {
        let is_wakeup = signal == "wakeup";
        if is_wakeup || signal == "preempt" {
            waits.insert((tid.parse()?, to.parse()?), Wait { is_wakeup, from_ns: from.parse()? });
        }
    }
    Ok(waits)
}

/// Threads, and when they are switched away from: a run ends, or a state begins in which they do not run.
fn ends_of_runs(tables: &Path) -> Result<BTreeSet<(i32, u64)>> {
    let rows = table(&tables.join("states.csv"), ["state", "tid", "from_ns", "to_ns"])?;
    let ends = rows.into_iter().filter_map(|[state, tid, from, to]| match state.as_str() {
        "running" => Some((tid, to)),
        "blocked" | "preempt" => Some((tid, from)),
        _ => None,
    });
    ends.map(|(tid, at)| Ok((tid.parse()?, at.parse()?))).collect()
}

/// Cells of a line; those with quotes around them may have commas in them.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut is_quoted) = (Vec::new(), String::new(), false);
    for char in line.chars() {
        match char {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(std::mem::take(&mut cell)),
            other => cell.push(other),
        }
    }
    cells.push(cell);
    cells
}
