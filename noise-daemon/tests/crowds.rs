//! Recordings of many threads: those of a large host are analysed, and one that was made to fill the memory ends in a sentence.

#![expect(clippy::unwrap_used, reason = "helpers of tests outside of test functions")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use noise_trace::crowd::MOST_THREADS;
use noise_trace::ctf::write::{Origin, StreamWriter, metadata};
use noise_trace::event::{Comm, Task, TraceKind, Woken};
use noise_trace::state::LeftIn;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// A recording of one CPU with these events, some at a time, a microsecond apart.
fn written<'t, const N: usize>(events: impl Iterator<Item = [TraceKind<'t>; N]>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin { recorder: "noised".to_owned(), ..Origin::default() };
    fs::write(folder.path().join("metadata"), metadata([1; 16], &origin)).unwrap();
    let mut writer = StreamWriter::new([1; 16], 0, 1 << 16, 1_000);
    let (mut bytes, mut now_ns) = (Vec::new(), 1_000);
    for (number, kinds) in events.enumerate() {
        for kind in kinds {
            now_ns += 1_000;
            writer.event(now_ns, &kind);
        }
        if number % 1024 == 0 {
            bytes.extend_from_slice(writer.take().bytes());
        }
    }
    writer.end(now_ns + 1_000);
    bytes.extend_from_slice(writer.take().bytes());
    fs::write(folder.path().join("channel0_0"), bytes).unwrap();
    folder
}

/// One CPU, on which so many threads are woken, run and sleep, one after the other.
fn recording(threads: u32) -> TempDir {
    let task = |tid: u32| Task { comm: Comm::new(b"t"), tid: tid.cast_signed(), prio: 20 };
    written((1..=threads).map(|tid| {
        let woken = Woken { task: task(tid), target_cpu: 0 };
        let prev_state = LeftIn::of(1);
        let runs = TraceKind::SchedSwitch { prev: task(tid - 1), prev_state, next: task(tid) };
        [TraceKind::SchedWaking(woken), runs]
    }))
}

/// One CPU, on which so many processes are created, run and end, one after the other.
fn short_processes(count: i32) -> TempDir {
    let task = |tid| Task { comm: Comm::new(b"sh"), tid, prio: 20 };
    let switch = |prev, prev_state, next| TraceKind::SchedSwitch {
        prev: task(prev),
        prev_state: LeftIn::of(prev_state),
        next: task(next),
    };
    written((6..6 + count).map(|tid| {
        let fork = TraceKind::SchedProcessFork {
            parent: task(5),
            parent_pid: 5,
            child: task(tid),
            child_pid: tid,
        };
        let woken = Woken { task: task(tid), target_cpu: 0 };
        let waker = Woken { task: task(5), target_cpu: 0 };
        [
            fork,
            TraceKind::SchedWakeupNew(woken),
            switch(5, 1, tid),
            TraceKind::SchedProcessExit(task(tid)),
            TraceKind::SchedWaking(waker),
            switch(tid, 0x20, 5),
            TraceKind::SchedProcessFree(task(tid)),
        ]
    }))
}

/// What an analysis of it said, with no more memory than so many bytes.
fn analysed(arguments: &[&str], recording: &Path, most_bytes: u64) -> Output {
    let limited = format!("ulimit -v {}; exec \"$0\" trace \"$@\"", most_bytes / 1024);
    let elsewhere = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", &limited, env!("CARGO_BIN_EXE_noised")]);
    command.args(arguments).arg(recording).current_dir(elsewhere.path()).output().unwrap()
}

#[test]
fn too_many_threads_end_an_analysis_in_a_sentence() {
    let folder = recording(MOST_THREADS + 1000);
    let commands: [&[&str]; 7] = [
        &["delays"],
        &["states"],
        &["sketch"],
        &["critical-path", "--execution", "thread:5"],
        &["export", "--perfetto", "out"],
        &["export", "--csv", "tables"],
        &["events", "--thread", "5"],
    ];
    for arguments in commands {
        let output = analysed(arguments, folder.path(), 700 * MIB);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        let words = format!("names more than {MOST_THREADS} threads");
        assert!(said.contains(&words) && said.contains("--to=+"), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
    }
    // What it advises is right.
    let output = analysed(&["delays"], folder.path(), 700 * MIB);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let to = said.split(' ').find(|word| word.starts_with("--to=")).unwrap().trim_end_matches(',');
    let output = analysed(&["states", to], folder.path(), 700 * MIB);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_threads_of_a_large_host_are_all_there() {
    let folder = recording(100_000);
    let output = analysed(&["states", "--json"], folder.path(), 700 * MIB);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["threads"].as_array().unwrap().len(), 100_000);
}

#[test]
fn a_part_of_a_recording_of_very_many_short_processes_is_analysed() {
    // Each takes 7 us.
    let folder = short_processes(MOST_THREADS.cast_signed() + 20_000);
    let commands: [&[&str]; 6] = [
        &["delays", "--from=+1.9s"],
        &["states", "--from=+1.9s"],
        &["critical-path", "--execution", "thread:5", "--from=+1.9s"],
        &["export", "--perfetto", "out"],
        &["export", "--csv", "tables"],
        &["events", "--thread", "5", "--from=+1.9s", "--summary"],
    ];
    for arguments in commands {
        let output = analysed(arguments, folder.path(), 300 * MIB);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    }
    // All of it at once has too many, and it is said in which parts it can be analysed.
    let output = analysed(&["delays"], folder.path(), 700 * MIB);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    for option in ["--to=", "--from="] {
        let part = said.split(' ').find(|word| word.starts_with(option)).unwrap();
        let part = part.trim_end_matches([',', '\n']);
        let output = analysed(&["states", part], folder.path(), 700 * MIB);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{part}: {said}");
    }
}
