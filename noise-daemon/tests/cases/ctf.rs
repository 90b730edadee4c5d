//! Folders in CTF, and files that are none.

use serde_json::Value;

use super::{Case, Printed};

/// What was expected, where something else came.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?}, not {expected:?}")) }
}

/// A command that refuses its input in a sentence with these words.
fn refused(printed: &Printed, words: &[&str]) -> Result<(), String> {
    same("exit code", printed.code, Some(1))?;
    same("standard output", printed.stdout.as_str(), "")?;
    match words.iter().find(|word| !printed.stderr.contains(**word)) {
        None => Ok(()),
        Some(word) => Err(format!("no `{word}` in: {}", printed.stderr)),
    }
}

/// Numbers at places of a document.
fn numbers(document: &Value, expected: &[(&str, u64)]) -> Result<(), String> {
    expected.iter().try_for_each(|(place, number)| {
        same(place, document.pointer(place).and_then(Value::as_u64), Some(*number))
    })
}

/// The entry of a list that has this value.
fn entry<'a>(
    document: &'a Value,
    list: &str,
    key: &str,
    value: &Value,
) -> Result<&'a Value, String> {
    let entries = document.get(list).and_then(Value::as_array);
    let found = entries.and_then(|all| all.iter().find(|entry| entry.get(key) == Some(value)));
    found.ok_or_else(|| format!("{list} has no {key} {value}: {document}"))
}

pub fn rotation_packet_lost(case: &Case) -> Result<(), String> {
    let summary = case.noised(&["trace", "events", "--summary", "--json", "trace"])?.json()?;
    numbers(&summary, &[("/count", 30), ("/discarded_packets", 1)])?;
    let delays = case.noised(&["trace", "delays", "--json", "trace"])?.json()?;
    numbers(&delays, &[("/discarded", 1)])?;
    let thread = entry(&delays, "threads", "tid", &50.into())?;
    numbers(thread, &[("/waits/wakeup/count", 10), ("/waits/wakeup/sum_ns", 1_940_090_000)])?;
    numbers(entry(thread, "charges", "cause", &"untracked".into())?, &[("/ns", 1_940_010_000)])?;
    numbers(entry(thread, "charges", "cause", &"idle".into())?, &[("/ns", 80_000)])
}

pub fn packet_end_zero(case: &Case) -> Result<(), String> {
    for (from, lines) in [(None, 36), (Some("1000.04"), 24), (Some("1000.08"), 12)] {
        let mut arguments = vec!["trace", "events", "trace"];
        arguments.extend(from.iter().flat_map(|from| ["--from", from]));
        let printed = case.noised(&arguments)?;
        same("lines", printed.stdout.lines().count(), lines)?;
        same("complaints", printed.stderr.as_str(), "")?;
    }
    Ok(())
}

pub fn cpu_in_event_field(case: &Case) -> Result<(), String> {
    let summary = case.noised(&["trace", "events", "--summary", "--json", "trace"])?.json()?;
    numbers(&summary, &[("/cpus/0", 2), ("/cpus/1", 4)])?;
    let delays = case.noised(&["trace", "delays", "--json", "trace"])?.json()?;
    let cook = entry(&delays, "threads", "tid", &40.into())?;
    let wash = entry(&delays, "threads", "tid", &41.into())?;
    numbers(cook, &[("/run_ns", 1_970_000), ("/waits/wakeup/sum_ns", 30_000)])?;
    numbers(wash, &[("/run_ns", 2_000_000)])?;
    let waits = |kind| {
        [cook, wash]
            .map(|thread| thread.pointer(kind).and_then(Value::as_u64).unwrap_or(0))
            .iter()
            .sum()
    };
    same("wake-ups", waits("/waits/wakeup/count"), 1_u64)?;
    same("preemptions", waits("/waits/preempt/count"), 1_u64)?;
    same("time of preemptions", waits("/waits/preempt/sum_ns"), 1_000_000_u64)
}

pub fn ctf2(case: &Case) -> Result<(), String> {
    let printed = case.noised(&["trace", "events", "trace"])?;
    refused(
        &printed,
        &["CTF 2", "lttng create --trace-format=ctf-1.8", "babeltrace2", "ctf-version=\"1\""],
    )
}

pub fn other_files(case: &Case) -> Result<(), String> {
    let printed = case.noised(&["trace", "delays", "trace.dat"])?;
    refused(&printed, &["trace-cmd report trace.dat >"])?;
    let printed = case.noised(&["trace", "delays", "perf.data"])?;
    refused(&printed, &["perf data convert --to-ctf"])
}

pub fn session_chunks(case: &Case) -> Result<(), String> {
    for path in [".", "archives"] {
        let printed = case.noised(&["trace", "events", "--summary", path])?;
        let chunks = [
            "archives/20260101T000000+0000-20260101T000010+0000-1, ",
            "archives/20260101T000010+0000-20260101T000020+0000-2",
            "name one of them",
        ];
        refused(&printed, if path == "." { &chunks } else { &chunks[2..] })?;
    }
    let chunk = "archives/20260101T000010+0000-20260101T000020+0000-2";
    let summary = case.noised(&["trace", "events", "--summary", "--json", chunk])?.json()?;
    numbers(&summary, &[("/count", 1)])
}

pub fn metadata_without_stream(case: &Case) -> Result<(), String> {
    let printed = case.noised(&["trace", "events", "trace"])?;
    same("exit code", printed.code, Some(0))?;
    let values = printed.stdout.lines().filter_map(|line| line.rsplit_once("value = "));
    let values: Vec<&str> = values.map(|(_, value)| value.trim_end_matches(" }")).collect();
    same("values", values, vec!["1", "2", "3"])
}
