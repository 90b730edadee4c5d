//! Cases of texts of ftrace.

use serde_json::Value;

use super::Case;

/// The entry of a list that has that number in a field.
fn entry<'v>(list: &'v Value, field: &str, number: i64) -> Result<&'v Value, String> {
    let found = list.as_array().and_then(|all| all.iter().find(|entry| entry[field] == number));
    found.ok_or_else(|| format!("no {field} {number} in {list}"))
}

/// Compares the number, the sum and the longest of some waits, so far as they are known.
fn spread(found: &Value, expected: [Option<u64>; 3]) -> Result<(), String> {
    for (field, expected) in ["count", "sum_ns", "max_ns"].into_iter().zip(expected) {
        if expected.is_some_and(|expected| found[field] != expected) {
            return Err(format!("{field} is not {expected:?} in {found}"));
        }
    }
    Ok(())
}

fn waits(document: &Value, tid: i64, kind: &str, expected: [Option<u64>; 3]) -> Result<(), String> {
    spread(&entry(&document["threads"], "tid", tid)?["waits"][kind], expected)
}

/// States in the letters of trace-cmd.
pub fn state_letters_trace_cmd(case: &Case) -> Result<(), String> {
    let document = case.noised(&["trace", "delays", "--json", "report.txt"])?.json()?;
    waits(&document, 21, "wakeup", [Some(2), Some(32_000), Some(25_000)])?;
    waits(&document, 21, "preempt", [Some(0), None, None])?;
    waits(&document, 700, "preempt", [Some(1), Some(100_000), None])?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let target = folder.path().to_string_lossy().into_owned();
    let exported = case.noised(&["trace", "export", "--csv", &target, "report.txt"])?;
    if exported.code != Some(0) {
        return Err(exported.stderr);
    }
    let states = std::fs::read_to_string(folder.path().join("states.csv"));
    let states = states.map_err(|error| error.to_string())?;
    match states.lines().find(|row| row.contains(",preempt,") && row.ends_with(",false")) {
        Some(row) => Err(format!("an invented wait: {row}")),
        None => Ok(()),
    }
}

/// A read does not end a write.
pub fn request_other_operation(case: &Case) -> Result<(), String> {
    let document = case.noised(&["trace", "delays", "--json", "trace.txt"])?.json()?;
    let dev = 8 << 20 | 16;
    let queue = entry(&document["block_queue_wait"], "dev", dev)?;
    spread(queue, [Some(2), Some(14_000), Some(10_000)])?;
    let device = entry(&document["block_device_wait"], "dev", dev)?;
    spread(device, [Some(1), Some(500_000), Some(500_000)])
}

/// Flushes that are writes, too.
pub fn flush_of_old_kernels(case: &Case) -> Result<(), String> {
    let document = case.noised(&["trace", "delays", "--json", "trace.txt"])?.json()?;
    let device = entry(&document["block_device_wait"], "dev", 8 << 20)?;
    spread(device, [Some(2), Some(4_300_000), Some(4_000_000)])
}

/// Numbers as the option `fields` has them printed.
pub fn option_fields(case: &Case) -> Result<(), String> {
    let document = case.noised(&["trace", "delays", "--json", "trace.txt"])?.json()?;
    waits(&document, 91, "wakeup", [Some(1), Some(60_000), None])?;
    match entry(&document["threads"], "tid", 91)?["run_ns"] == 1_000_000 {
        true => Ok(()),
        false => Err(format!("it did not run for 1 ms: {}", document["threads"])),
    }
}

/// Texts of two CPUs one after the other.
pub fn text_per_cpu_files(case: &Case) -> Result<(), String> {
    let document = case.noised(&["trace", "delays", "--json", "trace.txt"])?.json()?;
    waits(&document, 710, "wakeup", [Some(2), Some(30_000), Some(20_000)])
}

/// A refusal in a sentence that has these words.
fn refused(case: &Case, arguments: &[&str], words: &[&str]) -> Result<(), String> {
    let printed = case.noised(arguments)?;
    let is_said = words.iter().all(|word| printed.stderr.contains(word));
    match printed.code == Some(1) && printed.stdout.is_empty() && is_said {
        true => Ok(()),
        false => Err(format!("{:?}: {}{}", printed.code, printed.stdout, printed.stderr)),
    }
}

/// Times that are cycles.
pub fn clock_tsc(case: &Case) -> Result<(), String> {
    refused(case, &["trace", "delays", "trace.txt"], &["without a unit"])?;
    refused(case, &["trace", "delays", "--json", "trace.txt"], &["without a unit"])
}

/// What `perf script` prints.
pub fn perf_script(case: &Case) -> Result<(), String> {
    refused(
        case,
        &["trace", "delays", "script.txt"],
        &["perf script", "perf data convert", "--to-ctf"],
    )
}

pub fn latency_format(case: &Case) -> Result<(), String> {
    let summary = ["trace", "events", "--summary", "--json", "trace.txt"];
    let summary = case.noised(&summary)?.json()?;
    let is_right = summary["count"] == 2
        && summary["cpus"]["0"] == 2
        && summary["from_ns"] == 1_701_852_642_000_u64
        && summary["to_ns"] == 1_701_853_153_000_u64;
    if is_right { Ok(()) } else { Err(summary.to_string()) }
}
