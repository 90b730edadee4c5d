//! A folder that `noised record` wrote, as `noised trace events` reads it, in the words by which it is held
//! against ftrace.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::daemon::{Process, binary, run_noised};
use crate::events::{
    Recorded, SOFTIRQS, Stretch, Words, sock_length, sock_state, timer_entry, timer_exit,
};
use crate::ftrace::event::Left;
use crate::task::is_emulated;

/// Longer than any start should take on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Softirqs and vectors carry these in front in LTTng's names.
const SOFTIRQ: &str = "irq_softirq_";
const VECTOR: &str = "x86_irq_vectors_";

/// Starts `noised record` into a folder, and waits until all is attached.
/// Errors: if it ends, or does not begin in time.
pub fn start_recording(folder: &Path, options: &[&str]) -> Result<Process> {
    let mut command = Command::new(binary()?);
    command.args(["record", "-o"]).arg(folder).args(options);
    let mut process = Process::start(command)?;
    let deadline = Instant::now() + TIMEOUT;
    // The first packets are written once all is attached.
    let first = |name: &str| folder.join("kernel").join(name).exists();
    while !first("channel0_0") && !first("channel0_0_0") {
        let ended = process.ended()?;
        ensure!(ended.is_none(), "it ended with {ended:?}: {}", process.stderr()?);
        ensure!(Instant::now() < deadline, "it does not begin: {}", process.stderr()?);
        thread::sleep(Duration::from_millis(10));
    }
    Ok(process)
}

/// Ends a recording by a signal.
/// Errors: if it did not go well.
pub fn stop_recording(process: &mut Process, signal: i32) -> Result<()> {
    process.signal(signal)?;
    let status = process.wait()?;
    ensure!(status.success(), "it ended with {status}: {}", process.stderr()?);
    Ok(())
}

/// Runs the reader.
fn read(folder: &Path, options: &[&str]) -> Result<String> {
    let path = folder.to_str().context("a path that is not UTF-8")?;
    let outcome = run_noised(&[&["trace", "events", "--json", path], options].concat())?;
    ensure!(outcome.code == 0, "noised trace events ends with {}", outcome.code);
    ensure!(outcome.stderr.is_empty(), "{}", outcome.stderr);
    Ok(outcome.stdout)
}

/// All events of a recording as they are.
/// Errors: if it cannot be read.
pub fn lines(folder: &Path) -> Result<Vec<Value>> {
    read(folder, &[])?.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

pub(crate) fn number(value: &Value, name: &str) -> Result<u64> {
    let number = value.get(name).and_then(Value::as_u64);
    number.with_context(|| format!("{value} has no {name}"))
}

pub(crate) fn signed(value: &Value, name: &str) -> Result<i64> {
    let number = value.get(name).and_then(Value::as_i64);
    number.with_context(|| format!("{value} has no {name}"))
}

pub(crate) fn text<'v>(value: &'v Value, name: &str) -> Result<&'v str> {
    let text = value.get(name).and_then(Value::as_str);
    text.with_context(|| format!("{value} has no {name}"))
}

/// Events that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// On which CPU.
    pub cpu: u32,
    /// How many.
    pub events: u64,
    /// Not before then, `CLOCK_MONOTONIC`, nanoseconds.
    pub from_ns: u64,
    /// Not after then.
    pub to_ns: u64,
}

/// A recording.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Its events, with times as its clock has them.
    pub stretch: Stretch,
    /// What is missing, in the order of time.
    pub losses: Vec<Loss>,
    /// Threads that its state dumps name.
    pub dumped: u64,
    /// How much later its clock is than `CLOCK_MONOTONIC` in what the reader prints, ns.
    pub offset_ns: u64,
}

/// How many events of each name there are, and how many are missing.
/// Errors: if it cannot be read, or not completely.
pub fn counted(folder: &Path) -> Result<(BTreeMap<String, u64>, u64)> {
    let summary: Value = serde_json::from_str(&read(folder, &["--summary"])?)?;
    let events = summary.get("events").cloned().context("no events")?;
    Ok((serde_json::from_value(events)?, number(&summary, "discarded")?))
}

/// Reads a recording.
/// Errors: if it cannot be read, or not completely.
pub fn recorded(folder: &Path) -> Result<Recording> {
    let summary: Value = serde_json::from_str(&read(folder, &["--summary"])?)?;
    let offset_ns = number(summary.get("clock").context("no clock")?, "offset_ns")?;
    let mut stretch = Stretch { missing: number(&summary, "discarded")?, ..Stretch::default() };
    let (mut losses, mut dumped, mut first_ns) = (Vec::new(), 0, None);
    for line in read(folder, &[])?.lines() {
        stretch.bytes += line.len();
        let event: Value = serde_json::from_str(line)?;
        let time_ns = number(&event, "time_ns")?.checked_sub(offset_ns).context("a time of old")?;
        let name = text(&event, "name")?;
        // The state dump is as old as the recording.
        first_ns.get_or_insert(time_ns);
        if name.contains("statedump_") {
            dumped += u64::from(name == "lttng_statedump_process_state");
            continue;
        }
        let cpu = u32::try_from(number(&event, "cpu")?)?;
        let fields = event.get("fields").context("no fields")?;
        if name == "lost" {
            let at =
                |name: &str| number(fields, name)?.checked_sub(offset_ns).context("a time of old");
            let events = number(fields, "events")?;
            losses.push(Loss { cpu, events, from_ns: at("from_ns")?, to_ns: at("to_ns")? });
            continue;
        }
        let words = words(name, fields).with_context(|| line.to_owned())?;
        stretch.events.push(Recorded { time_ns, cpu, words });
    }
    stretch.complete_from_ns = first_ns.context("an empty recording")?;
    ensure!(
        stretch.events.is_sorted_by_key(|event| event.time_ns),
        "the events are not in the order of time"
    );
    let lost: u64 = losses.iter().map(|loss| loss.events).sum();
    ensure!(lost == stretch.missing, "{lost} lost at their places, {} in all", stretch.missing);
    let listed = summary.get("losses").and_then(Value::as_array).context("no losses")?;
    let counted = losses.iter().filter(|loss| loss.events > 0).count();
    ensure!(listed.len() == counted, "{counted} losses, and {} in the summary", listed.len());
    for loss in listed {
        let at = |name: &str| number(loss, name)?.checked_sub(offset_ns).context("a time of old");
        let (cpu, events) = (u32::try_from(number(loss, "cpu")?)?, number(loss, "events")?);
        let loss = Loss { cpu, events, from_ns: at("from_ns")?, to_ns: at("to_ns")? };
        ensure!(losses.contains(&loss), "{loss:?} is not among {losses:?}");
    }
    Ok(Recording { stretch, losses, dumped, offset_ns })
}

fn words(name: &str, fields: &Value) -> Result<Words> {
    let of = |name: &str| number(fields, name);
    if let Some(step) = name.strip_prefix(SOFTIRQ) {
        let vector = SOFTIRQS.get(of("vec")? as usize).context("an unknown softirq")?;
        return Ok(format!("softirq {step} {vector}"));
    }
    if let Some(vector) = name.strip_prefix(VECTOR) {
        let (vector, step) = vector.rsplit_once('_').context("neither entry nor exit")?;
        return Ok(format!("vector {step} {vector}"));
    }
    let block = |step: &str| -> Result<Words> {
        let (device, sector, sectors) = (of("dev")?, of("sector")?, of("nr_sector")?);
        Ok(format!("block {step} {device} {sector} {sectors}"))
    };
    Ok(match name {
        // See `switch` of the flight recorder's events.
        "sched_switch" if is_emulated() => {
            format!("switch {} {}", of("prev_tid")?, of("next_tid")?)
        }
        "sched_switch" => {
            let left = match signed(fields, "prev_state")? {
                0 | 0x100 => Left::Runnable,
                2 => Left::Uninterruptible,
                _ => Left::Asleep,
            };
            format!("switch {} {left:?} {}", of("prev_tid")?, of("next_tid")?)
        }
        "sched_waking" => format!("waking {}", of("tid")?),
        "sched_wakeup_new" => format!("wakeup_new {}", of("tid")?),
        "sched_migrate_task" => format!("migrate {} {}", of("tid")?, of("dest_cpu")?),
        "sched_process_fork" => format!("fork {} {}", of("parent_tid")?, of("child_tid")?),
        "sched_process_exec" => format!("exec {} {}", of("tid")?, of("old_tid")?),
        "sched_process_exit" => format!("exit {}", of("tid")?),
        "sched_process_wait" => format!("wait {}", of("tid")?),
        "irq_handler_entry" => format!("irq entry {}", of("irq")?),
        "irq_handler_exit" => format!("irq exit {}", of("irq")?),
        "nmi_handler" => format!("nmi {}", of("delta_ns")?),
        "timer_hrtimer_expire_entry" => {
            timer_entry(of("hrtimer")?, of("function")?, signed(fields, "now")?)
        }
        "timer_hrtimer_expire_exit" => timer_exit(of("hrtimer")?),
        "block_rq_insert" => block("Insert")?,
        "block_rq_issue" => block("Issue")?,
        "block_rq_requeue" => block("Requeue")?,
        "block_rq_merge" => block("Merge")?,
        "block_rq_complete" => block("Complete")?,
        "net_dev_queue" => format!("tx queue {} {}", text(fields, "name")?, of("len")?),
        "net_dev_start_xmit" => format!("tx start {}", text(fields, "name")?),
        "netif_receive_skb" => format!("receive {}", text(fields, "name")?),
        "skb_kfree" => "drop".to_owned(),
        "tcp_retransmit_skb" => "retransmit".to_owned(),
        "sock_send_length" => sock_length(true, signed(fields, "ret")?),
        "sock_recv_length" => sock_length(false, signed(fields, "ret")?),
        "inet_sock_set_state" => {
            let ports = (of("sport")?, of("dport")?);
            sock_state(of("oldstate")?, of("newstate")?, ports)
        }
        "sk_data_ready" => "sock ready".to_owned(),
        "noised_throttled" => format!("throttled {}", of("tid")?),
        "noised_mark" => format!("mark {} {}", text(fields, "action")?, text(fields, "name")?),
        other => bail!("an unknown event: {other}"),
    })
}
