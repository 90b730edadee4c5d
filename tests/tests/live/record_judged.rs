//! A recording of ours, judged by lttng-analyses and by babeltrace.
//!
//! lttng-analyses reads the time that all streams have in common, as is usual: all of ours begin and end
//! with the recording.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::run_noised;
use noise_tests::scratch::Folder;
use serde_json::Value;

use crate::Verdict;

use self::lttng::{ALL, Row, Tables, spread, tid, value};

#[path = "../../../noise-daemon/trace/tests/traces/lttng.rs"]
#[expect(clippy::unwrap_used, reason = "a judge that prints nonsense fails the test by panicking")]
mod lttng;
#[path = "../../../noise-daemon/trace/tests/traces/printed.rs"]
#[expect(clippy::unwrap_used, reason = "see there")]
mod printed;
#[path = "../../../noise-daemon/trace/tests/traces/python.rs"]
#[expect(clippy::unwrap_used, reason = "see there")]
mod python;

const NONE: Row = Row { count: 0, sum_ns: 0, max_ns: 0 };

/// What the judges have to say of a recording that has lost nothing.
pub(crate) fn judge(folder: &Path) -> Result<Verdict> {
    let lines = text(&["events"], folder)?;
    let lines: Vec<String> = lines.lines().map(str::to_owned).collect();
    for command in ["babeltrace", "babeltrace2"] {
        match printed::run(command, folder) {
            Ok((theirs, complaints)) => ensure_printed(command, &lines, &theirs, &complaints)?,
            Err(reason) => return Ok(Verdict::Impossible(reason)),
        }
    }
    match ensure_analysed(folder, &lines)? {
        Ok(()) => Ok(Verdict::Passed),
        Err(reason) => Ok(Verdict::Impossible(reason)),
    }
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

/// The figures of lttng-analyses; or why there are none.
fn ensure_analysed(folder: &Path, lines: &[String]) -> Result<Result<(), String>> {
    let kernel = folder.join("kernel");
    let mut all = Vec::new();
    for analysis in ["sched.runtop_mi", "irq.runstats_mi", "io.runlatencytop_mi", "io.runstats_mi"]
    {
        let options: &[&str] = if analysis == "sched.runtop_mi" { &[ALL] } else { &[] };
        match Tables::of(&kernel, analysis, options) {
            Ok(tables) => all.push(tables),
            Err(reason) => return Ok(Err(reason)),
        }
    }
    let delays: Value = serde_json::from_str(&text(&["delays", "--json"], folder)?)?;
    let [sched, irq, calls, disks] = all.as_slice() else { return Ok(Ok(())) };
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
    Ok(Ok(()))
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
/// thread that runs since before the recording, as if it waited.
fn ensure_waits(folder: &Path, tables: &Tables, delays: &Value) -> Result<()> {
    let place = Folder::new("tables")?;
    text(&["export", "--csv", place.argument()?], folder)?;
    let mut ours = waits(place.path())?;
    let begins = begins(place.path())?;
    let mut sums: BTreeMap<i32, Row> = BTreeMap::new();
    let (mut found, mut preempted) = (0, 0);
    for row in tables.rows("top") {
        let (tid, from_ns, to_ns) = (tid(row, 5), value(row, 0), value(row, 1));
        let wait = ours.remove(&(tid, to_ns)).with_context(|| format!("only there: {row}"))?;
        let ran_before = begins.get(&tid).is_some_and(|begin_ns| from_ns < *begin_ns);
        if !wait.is_wakeup {
            let is_right = from_ns > wait.from_ns || ran_before;
            ensure!(is_right, "preempted at {}: {row}", wait.from_ns);
            preempted += 1;
            continue;
        }
        ensure!(from_ns == wait.from_ns || ran_before, "woken at {}: {row}", wait.from_ns);
        found += 1;
        let sum = sums.entry(tid).or_insert(NONE);
        sum.count += 1;
        sum.sum_ns += to_ns - wait.from_ns;
        sum.max_ns = sum.max_ns.max(to_ns - wait.from_ns);
    }
    println!("{found} waits, and {preempted} of threads that were preempted");
    ours.retain(|_, wait| wait.is_wakeup);
    ensure!(ours.is_empty() && found > 50, "waits that lttng-schedtop does not have: {ours:?}");
    let threads = delays["threads"].as_array().context("no threads")?;
    for thread in threads {
        let wakeup = row(&thread["waits"]["wakeup"])?;
        let tid = i32::try_from(number(thread, "tid")?)?;
        let theirs = sums.remove(&tid).unwrap_or(NONE);
        ensure!(wakeup == theirs, "thread {tid}: {wakeup:?}, lttng-schedtop: {theirs:?}");
    }
    ensure!(sums.is_empty(), "threads that only lttng-schedtop has: {sums:?}");
    Ok(())
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

/// When the first state of each thread begins that the recording shows.
fn begins(tables: &Path) -> Result<BTreeMap<i32, u64>> {
    let mut begins: BTreeMap<i32, u64> = BTreeMap::new();
    for [tid, from] in table(&tables.join("states.csv"), ["tid", "from_ns"])? {
        let from_ns = from.parse()?;
        let begin = begins.entry(tid.parse()?).or_insert(from_ns);
        *begin = from_ns.min(*begin);
    }
    Ok(begins)
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
