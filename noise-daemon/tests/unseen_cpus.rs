//! A recording in which the events of one CPU end before those of others: each command says so.

#![expect(clippy::unwrap_used, reason = "helpers of tests outside of test functions")]

use std::fs;
use std::process::Command;

use noise_trace::ctf::write::{Origin, StreamWriter, metadata};
use noise_trace::event::{Comm, Task, TraceKind};
use noise_trace::state::LeftIn;
use tempfile::TempDir;

const MS: u64 = 1_000_000;

/// Two CPUs with a switch each millisecond, of which the second one ends that early.
fn recording(end_ns: u64) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin { recorder: "noised".to_owned(), ..Origin::default() };
    fs::write(folder.path().join("metadata"), metadata([1; 16], &origin)).unwrap();
    for (cpu, end_ns) in [(0, 100 * MS), (1, end_ns)] {
        let mut writer = StreamWriter::new([1; 16], cpu, 1 << 16, MS);
        let task = |tid| Task { comm: Comm::new(b"t"), tid, prio: 20 };
        let tid = 11 + cpu.cast_signed();
        for at_ns in (MS..end_ns).step_by(MS as usize) {
            let (prev, next) = if (at_ns / MS).is_multiple_of(2) { (tid, 0) } else { (0, tid) };
            let (prev, next) = (task(prev), task(next));
            writer.event(at_ns, &TraceKind::SchedSwitch { prev, prev_state: LeftIn::of(1), next });
        }
        writer.end(end_ns);
        fs::write(folder.path().join(format!("channel0_{cpu}")), writer.take().bytes()).unwrap();
    }
    folder
}

/// What a command prints, and what it complains of.
fn said(recording: &TempDir, arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_noised"));
    let output = command.arg("trace").args(arguments).arg(recording.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

#[test]
fn how_much_earlier_a_cpu_ends_is_said_once() {
    let sentence = "CPU 1 is known up to +0.039000s only, 0.059000s before the recording ends: what ran there afterwards \
                    is not seen, as its later events are missing or in another file";
    let (cut, snapshot) = (recording(40 * MS), recording(99 * MS - MS / 2));
    for arguments in [
        &["events", "--summary"][..],
        &["delays"],
        &["critical-path", "--execution", "thread:11"],
        &["events"],
        &["events", "--json"],
    ] {
        let (printed, complained) = said(&cut, arguments);
        let (all, rest) = match arguments {
            ["events"] | ["events", "--json"] => (complained, printed),
            _ => (printed, complained),
        };
        assert_eq!(
            (all.matches(sentence).count(), rest.matches(sentence).count()),
            (1, 0),
            "{arguments:?}: {all}"
        );
        // As any snapshot has it, whose buffers are read one after the other.
        let (printed, complained) = said(&snapshot, arguments);
        assert!(
            !printed.contains("is known up to") && complained.is_empty(),
            "{printed}{complained}"
        );
    }
    // What is missing comes before why nothing can be compared.
    let mut command = Command::new(env!("CARGO_BIN_EXE_noised"));
    command.args(["trace", "compare", "--split", "+1h", "--execution", "thread:11"]);
    let failed = command.arg(cut.path()).output().unwrap();
    let complained = String::from_utf8(failed.stderr).unwrap();
    let (before, why) = complained.split_once("noised: there is no sample execution").unwrap();
    assert_eq!((failed.status.code(), before.matches(sentence).count()), (Some(1), 1), "{why}");
    let (printed, _) = said(&cut, &["delays", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(document.pointer("/known_to_ns/1"), Some(&(40 * MS).into()));
}
