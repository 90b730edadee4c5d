//! `noised osnoise log`: whether what its lines say holds together.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use noise_tests::daemon::{binary, run_noised};
use noise_tests::load::Worker;
use noise_tests::measuring::Measuring;

use crate::Test;
use crate::osnoise::{CPU, two_cpus};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("samples_hold_their_parts", samples_hold_their_parts),
    ("a_reader_that_leaves_ends_it", a_reader_that_leaves_ends_it),
    ("a_file_gets_whole_lines", a_file_gets_whole_lines),
];

/// A name that would break its line, and look like another field.
const HOSTILE: &str = "a\n start 1.0";
/// The same as it may be printed.
const HARMLESS: &str = r"a\x0a start 1.0";

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    cpu: u32,
    what: String,
    start_ns: u64,
    duration_ns: u64,
    /// Of a sample, how many parts it has.
    interferences: Option<usize>,
}

impl Line {
    fn end_ns(&self) -> u64 {
        self.start_ns + self.duration_ns
    }

    fn parse(text: &str) -> Result<Self> {
        Self::parts(text).with_context(|| format!("not a line of the log: {text:?}"))
    }

    fn parts(text: &str) -> Option<Self> {
        let (_, rest) = text.split_once(" [")?;
        let (cpu, rest) = rest.split_once("] ")?;
        let (_, record) = rest.trim_start().split_once(": ")?;
        let (record, interferences) = match record.split_once(" ns interferences ") {
            Some((record, count)) => (record, Some(count.parse().ok()?)),
            None => (record.strip_suffix(" ns")?, None),
        };
        let (record, duration) = record.rsplit_once(" duration ")?;
        let (what, start) = record.rsplit_once(" start ").or(record.split_once("start "))?;
        let (seconds, nanoseconds) = start.split_once('.')?;
        if nanoseconds.len() != 9 {
            return None;
        }
        let start_ns =
            seconds.parse::<u64>().ok()? * 1_000_000_000 + nanoseconds.parse::<u64>().ok()?;
        Some(Self {
            cpu: cpu.parse().ok()?,
            what: what.to_owned(),
            start_ns,
            duration_ns: duration.parse().ok()?,
            interferences,
        })
    }
}

/// Requires that every sample comes right behind as many parts as it says, that they lie in it and
/// that they are together no longer. Returns how many samples and parts there are.
fn ensure_consistent(log: &[Line]) -> Result<(usize, usize)> {
    let mut waiting: Vec<&Line> = Vec::new();
    let (mut samples, mut parts) = (0, 0);
    for line in log {
        let Some(interferences) = line.interferences else {
            waiting.push(line);
            continue;
        };
        samples += 1;
        parts += waiting.len();
        let where_found = || format!("{line:?} behind {waiting:?}");
        ensure!(waiting.len() == interferences, "not so many parts: {}", where_found());
        let sum: u64 = waiting.iter().map(|part| part.duration_ns).sum();
        ensure!(sum <= line.duration_ns, "parts are longer than their sample: {}", where_found());
        for part in &waiting {
            let inside = part.start_ns >= line.start_ns && part.end_ns() <= line.end_ns();
            ensure!(inside && part.cpu == line.cpu, "a part is outside: {}", where_found());
        }
        ensure!(waiting.is_sorted_by_key(|part| part.end_ns()), "out of order: {}", where_found());
        waiting.clear();
    }
    ensure!(waiting.is_empty(), "parts of no sample: {waiting:?}");
    Ok((samples, parts))
}

fn lines(text: &str) -> Result<Vec<Line>> {
    ensure!(text.ends_with('\n'), "the last line is cut off");
    text.lines().map(Line::parse).collect()
}

fn samples_hold_their_parts() -> Result<()> {
    two_cpus()?;
    let (cpu, other) = (CPU.to_string(), (CPU - 1).to_string());
    // All CPUs, short periods, and every gap.
    let measuring = Measuring::start(
        CPU,
        &["osnoise", "log", "--period", "100ms", "--runtime", "90ms", "--threshold", "500ns"],
    )?;
    let planter = Worker::start("planter", &[&cpu, HOSTILE, "200", "5000", "500"])?;
    let workers = [
        Worker::start("clock-storm", &[&cpu, "50000", "1"])?,
        Worker::start("udp-flood", &[&cpu, "8000", "300"])?,
        Worker::start("timer", &[&other, "500"])?,
    ];
    thread::sleep(Duration::from_secs(3));
    for worker in workers {
        worker.stop()?;
    }
    drop(planter);
    let outcome = measuring.stop()?;
    ensure!(outcome.stderr.is_empty(), "it complains: {}", outcome.stderr);
    let log = lines(&outcome.stdout)?;
    let (samples, parts) = ensure_consistent(&log)?;
    let of = |kind: &str| log.iter().filter(|line| line.what.starts_with(kind)).count();
    let kinds = ["irq_noise", "softirq_noise", "thread_noise", "page_fault_noise", "nmi_noise"];
    println!("{samples} samples, {parts} parts: {:?}", kinds.map(|kind| (kind, of(kind))));
    ensure!(samples > 1_000 && of("softirq_noise") > 100, "too little to tell");
    let hostile = of(&format!("thread_noise: {HARMLESS}:"));
    println!("{hostile} of a thread with a name that would break its line");
    ensure!(hostile > 100, "the thread with the odd name is missing");
    for cpu in [CPU - 1, CPU] {
        ensure!(log.iter().any(|line| line.cpu == cpu), "nothing of CPU {cpu}");
    }
    Ok(())
}

/// A process that does not outlive its handle.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A reader that has seen enough ends it, though it has no end of its own.
fn a_reader_that_leaves_ends_it() -> Result<()> {
    let mut command = Command::new(binary()?);
    command.args(["osnoise", "log", "--threshold", "500ns", "--period", "100ms"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let Reaped(child) = &mut Reaped(child);
    let mut first = String::new();
    let mut reader = BufReader::new(child.stdout.take().context("no standard output")?);
    let read = reader.read_line(&mut first);
    drop(reader);
    let deadline = Instant::now() + Duration::from_secs(20);
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() > deadline => bail!("it goes on though its output is closed"),
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    read?;
    let mut complaint = String::new();
    BufReader::new(child.stderr.take().context("no standard error")?).read_line(&mut complaint)?;
    println!("{status} behind {first:?}, {complaint:?}");
    Line::parse(first.trim_end_matches('\n'))?;
    ensure!(status.code() == Some(0) && complaint.is_empty(), "{status}: {complaint}");
    // The record of a threshold, with its output closed, too.
    let mut command = Command::new(binary()?);
    command.args(["osnoise", "--threshold", "500ns", "--stop-total", "1us"]);
    let (reader, closed) = std::io::pipe()?;
    drop(reader);
    let output = command.stdout(closed).output()?;
    println!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.code() == Some(4), "it ended with {}", output.status);
    Ok(())
}

fn a_file_gets_whole_lines() -> Result<()> {
    for view in ["top", "hist"] {
        let outcome = run_noised(&["osnoise", view, "--duration", "500ms"])?;
        println!("{}", outcome.stdout);
        ensure!(outcome.code == 0 && outcome.stderr.is_empty(), "{view}: {outcome:?}");
        ensure!(
            !outcome.stdout.contains('\u{1b}'),
            "{view}: it steers a terminal that is not there"
        );
        ensure!(outcome.stdout.ends_with('\n'), "{view}: the last line is cut off");
    }
    Ok(())
}
