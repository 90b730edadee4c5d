//! What the traces of others do not have: requests, vectors, loss.

use std::collections::BTreeMap;

use super::super::Export;
use super::wire::Message;
use super::*;
use crate::delays::Begin;
use crate::ftrace::FtraceReader;
use crate::record::Source as _;
use crate::select::{Select, ThreadOrProcess};

const TEXT: &[u8] = b"\
 a-11 [001] d.... 10.000000: sched_switch: prev_comm=a prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=b next_pid=12 next_prio=120
 b-12 [001] ..... 10.000001: block_rq_issue: 8,16 WS 4096 () 100 + 8 [b]
 b-12 [001] ..... 10.000002: block_rq_issue: 8,16 R 4096 () 200 + 8 [b]
 b-12 [001] d.h.. 10.000003: local_timer_entry: vector=236
 b-12 [001] d.h.. 10.000004: local_timer_exit: vector=236
 b-12 [001] d.h.. 10.000005: reschedule_entry: vector=253
 b-12 [001] d.h.. 10.000006: reschedule_exit: vector=253
 b-12 [001] d.h.. 10.000010: block_rq_complete: 8,16 R () 200 + 8 [0]
 b-12 [001] d.h.. 10.000020: block_rq_complete: 8,16 WS () 100 + 8 [0]
CPU:1 [LOST 17 EVENTS]
 b-12 [001] ..... 10.000030: block_rq_issue: 8,16 R 4096 () 300 + 8 [b]
 b-12 [001] d.h.. 10.000040: block_rq_complete: 8,16 R () 300 + 8 [0]
 b-12 [2000] ..... 10.000050: sched_wakeup: comm=a pid=11 prio=120 target_cpu=001
";

fn packets(text: &[u8], select: Select) -> (Vec<u8>, u64) {
    let perfetto = Perfetto::new(&TraceClock::trace(), &BTreeMap::new());
    let mut export = Export::new(select, Begin::default(), Some(perfetto), None, false);
    let mut reader = FtraceReader::new(text);
    while let Some(record) = reader.read() {
        export.add(&record).unwrap();
    }
    export.finish();
    let mut perfetto = export.perfetto.unwrap();
    (perfetto.packets().bytes().to_vec(), perfetto.left_out())
}

/// Slices: their track's name, own name, begin and end in microseconds after second 10.
fn slices(file: &Message<'_>) -> Vec<(String, String, u64, u64)> {
    let mut names = BTreeMap::new();
    let mut open = BTreeMap::new();
    let mut slices = Vec::new();
    for packet in file.messages(1) {
        if let Some(track) = packet.message(60) {
            let name = track.text(2).unwrap().to_owned();
            assert!(names.insert(track.number(1).unwrap(), name).is_none());
        }
        let Some(event) = packet.message(11) else { continue };
        let track = event.number(11).unwrap();
        let micros = packet.number(8).unwrap() / 1000 - 10_000_000;
        match event.number(9).unwrap() {
            1 => assert!(open.insert(track, (event.text(23).unwrap(), micros)).is_none()),
            2 => {
                let (name, since) = open.remove(&track).unwrap();
                slices.push((
                    format!("{track:x} {}", names[&track]),
                    name.to_owned(),
                    since,
                    micros,
                ));
            }
            _ => slices.push((names[&track].clone(), "lost".to_owned(), micros, micros)),
        }
    }
    slices
}

#[test]
fn requests_that_overlap_are_on_tracks_of_their_own() {
    let (bytes, left_out) = packets(TEXT, Select::default());
    let found = slices(&Message::read(&bytes));
    let expected = [
        ("200000000 Vectors of CPU 1", "reschedule", 5, 6),
        ("200000001 8:16 requests", "on the device", 2, 10),
        ("200000002 8:16 requests", "on the device", 1, 20),
        // From the last event of their CPU on.
        ("Lost events", "lost", 20, 20),
        ("200000001 8:16 requests", "on the device", 30, 40),
    ];
    let expected =
        expected.map(|(track, name, from, to)| (track.to_owned(), name.to_owned(), from, to));
    assert_eq!(found, expected);
    assert_eq!(left_out, 1);
}

#[test]
fn lost_events_are_said_where_they_are_missing() {
    let (bytes, _) = packets(TEXT, Select::default());
    let file = Message::read(&bytes);
    let bundles: Vec<_> = file
        .messages(1)
        .filter_map(|packet| Some((packet.message(1)?, packet.number(42))))
        .map(|(bundle, dropped)| (bundle.messages(2).count(), bundle.number(3), dropped))
        .collect();
    assert_eq!(bundles, [(9, None, None), (2, Some(1), Some(1))]);
    let stats = file.messages(1).find_map(|packet| packet.message(34)).unwrap();
    let cpu = stats.message(2).unwrap();
    assert_eq!((stats.number(1), cpu.number(1), cpu.number(3)), (Some(2), Some(1), Some(17)));
    assert_eq!(file.messages(1).filter(|packet| packet.message(6).is_some()).count(), 1);
}

#[test]
fn a_part_of_a_recording_knows_what_came_before() {
    let (bytes, _) = packets(TEXT, Select { from_ns: Some(10_000_015_000), ..Select::default() });
    let file = Message::read(&bytes);
    let found = slices(&file);
    assert_eq!(found[0].1, "on the device");
    assert_eq!((found[0].2, found[0].3), (1, 20));
    let bundle = file.messages(1).find_map(|packet| packet.message(1)).unwrap();
    let first = bundle.message(2).unwrap();
    // It runs since before the part.
    assert_eq!((bundle.messages(2).count(), first.number(2)), (1, Some(12)));
}

/// Perfetto ends what runs on a CPU only where the next switch there is one away from it.
#[test]
fn switches_of_all_threads_follow_on_each_other() {
    let order = [(1, 11, 12), (2, 21, 22), (1, 12, 13), (1, 13, 14), (2, 22, 11), (1, 14, 12)];
    let line = |(at, (cpu, prev, next)): (usize, (u32, i32, i32))| {
        format!(
            " a-{prev} [{cpu:03}] d.... 10.00000{at}: sched_switch: prev_comm=a prev_pid={prev} prev_prio=120 \
             prev_state=S ==> next_comm=a next_pid={next} next_prio=120\n"
        )
    };
    let text: String = order.into_iter().enumerate().map(line).collect();
    let (from_ns, thread) = (Some(10_000_000_001), Some(ThreadOrProcess::Id(12)));
    let (bytes, _) = packets(text.as_bytes(), Select { from_ns, thread, ..Select::default() });
    let mut found: Vec<(u64, u64, u64)> = Vec::new();
    for bundle in Message::read(&bytes).messages(1).filter_map(|packet| packet.message(1)) {
        let cpu = bundle.number(1).unwrap();
        for switch in bundle.messages(2).filter_map(|event| event.message(4)) {
            found.push((cpu, switch.number(2).unwrap(), switch.number(6).unwrap()));
        }
    }
    assert_eq!(found, [(1, 12, 13), (1, 13, 14), (1, 14, 12), (2, 21, 22), (2, 22, 11)]);
}

#[test]
fn generic_events_have_all_their_fields() {
    let (bytes, _) = packets(TEXT, Select::default());
    let file = Message::read(&bytes);
    let bundle = file.messages(1).find_map(|packet| packet.message(1)).unwrap();
    let generic = bundle.messages(2).find_map(|event| event.message(327)).unwrap();
    assert_eq!(generic.text(1), Some("reschedule_entry"));
    let fields: Vec<_> = generic
        .messages(2)
        .map(|field| {
            (field.text(1).unwrap().to_owned(), field.number(4), field.text(3).map(str::to_owned))
        })
        .collect();
    let expected = [
        ("vector".to_owned(), Some(253), None),
        ("context.comm".to_owned(), None, Some("b".to_owned())),
        ("context.tid".to_owned(), Some(12), None),
    ];
    assert_eq!(fields, expected);
}

/// Packets are written compressed, and are the same when they are unpacked.
#[test]
fn packets_are_packed() {
    let (bytes, _) = packets(TEXT, Select::default());
    let mut message = noise_protobuf::Message::default();
    for _ in 0..100 {
        message.raw(1, &bytes);
    }
    let file = packed(&message).unwrap();
    assert!(file.len() < message.bytes().len() / 10, "{}", file.len());
    let outer = Message::read(&file);
    let packet = outer.message(1).unwrap();
    let Some(wire::Field::Bytes(compressed)) = packet.all(50).next() else { panic!() };
    let mut unpacked = Vec::new();
    io::copy(&mut flate2::read::ZlibDecoder::new(compressed), &mut unpacked).unwrap();
    assert_eq!(unpacked, message.bytes());
}

/// A waiting thread is below its process, under the name that it has at that time. The ports in the name of a process distinguish it
/// from others of the same program.
#[test]
fn waits_are_grouped_by_process_with_the_names_of_their_time() {
    use crate::event::{Dumped, Task, Woken};
    use crate::fixtures::{MadeEvent, MadeRecording, switch};
    use crate::ipc::{Connection, Object};

    let task = |name: &str| Task { comm: Comm::new(name.as_bytes()), tid: 7, prio: 0 };
    let dumped = Dumped { tid: 7, pid: 7, ppid: 3, comm: Comm::new(b"pyenv-exec") };
    let socket = Connection {
        inode: 9,
        protocol: 6,
        local: "0.0.0.0:8000".parse().unwrap(),
        ..Connection::default()
    };
    let object = Object { id: 9, ..Object::default() };
    let file =
        TraceKind::StatedumpFile { pid: 7, fd: 3, flags: 0, filename: b"socket:[9]", object };
    let woken = |name| TraceKind::SchedWaking(Woken { task: task(name), target_cpu: 0 });
    let runs = |name| TraceKind::SchedSwitch {
        prev: Task::default(),
        prev_state: crate::state::LeftIn::of(0),
        next: task(name),
    };
    let exec = TraceKind::SchedProcessExec { filename: b"/usr/bin/python3", tid: 7, old_tid: 7 };
    let kinds = [
        TraceKind::StatedumpProcess(dumped),
        TraceKind::StatedumpSocket(socket),
        file,
        woken("pyenv-exec"),
        runs("pyenv-exec"),
        exec,
        switch(7, 1, 0),
        woken("python3"),
        runs("python3"),
    ];
    let events = (1..).zip(kinds).map(|(at, kind)| (at * 1000, MadeEvent::new("", kind)));
    let perfetto = Perfetto::new(&TraceClock::trace(), &BTreeMap::new());
    let mut export = Export::new(Select::default(), Begin::Waking, Some(perfetto), None, false);
    let mut recording = MadeRecording::new(events);
    while let Some(record) = recording.read() {
        export.add(&record).unwrap();
    }
    export.finish();
    let bytes = export.perfetto.unwrap().packets().bytes().to_vec();
    let file = Message::read(&bytes);
    let mut names = BTreeMap::new();
    let mut tracks = Vec::new();
    for track in file.messages(1).filter_map(|packet| packet.message(60)) {
        let parent = track.number(5).map(|parent| format!("{}/", names[&parent]));
        let name = format!("{}{}", parent.unwrap_or_default(), track.text(2).unwrap());
        names.insert(track.number(1).unwrap(), name.clone());
        tracks.push(name);
    }
    let of = |name| format!("Waits for a CPU/{name} 7 :8000");
    let expected = [
        "Waits for a CPU".to_owned(),
        of("pyenv-exec"),
        format!("{}/pyenv-exec 7", of("pyenv-exec")),
        of("python3"),
        format!("{}/python3 7", of("python3")),
    ];
    assert_eq!(tracks, expected);
    // The process itself has its new name, too, and keeps its parent.
    let trees = file.messages(1).filter_map(|packet| packet.message(2));
    let processes: Vec<_> = trees
        .filter_map(|tree| tree.message(1))
        .map(|process| (process.number(1), process.number(2), process.text(3).unwrap().to_owned()))
        .collect();
    let named = |name: &str| (Some(7), Some(3), name.to_owned());
    assert_eq!(processes, [named("pyenv-exec"), named("python3")]);
}

/// Tracks of waits, and slices on them, of threads with these names and ids, one after the other.
fn waits(threads: impl Iterator<Item = (String, i32)>) -> (Vec<String>, Vec<(String, bool)>) {
    let mut text = String::new();
    for (number, (name, tid)) in (10_000_000_u64..).step_by(10).zip(threads) {
        for (at, line) in [
            format!("sched_wakeup: comm={name} pid={tid} prio=120 target_cpu=001"),
            format!(
                "sched_switch: prev_comm=i prev_pid=0 prev_prio=120 prev_state=R ==> next_comm={name} next_pid={tid} next_prio=120"
            ),
            format!(
                "sched_switch: prev_comm={name} prev_pid={tid} prev_prio=120 prev_state=S ==> next_comm=i next_pid=0 next_prio=120"
            ),
        ]
        .into_iter()
        .enumerate()
        {
            let micros = number + at as u64;
            text += &format!(
                " i-0 [001] d.... {}.{:06}: {line}\n",
                micros / 1_000_000,
                micros % 1_000_000
            );
        }
    }
    let (bytes, _) = packets(text.as_bytes(), Select::default());
    let file = Message::read(&bytes);
    let mut names = BTreeMap::new();
    let mut slices = Vec::new();
    for packet in file.messages(1) {
        if let Some(track) = packet.message(60) {
            names.insert(track.number(1).unwrap(), track.text(2).unwrap().to_owned());
        }
        let Some(event) = packet.message(11).filter(|event| event.number(9) == Some(1)) else {
            continue;
        };
        let has_thread = event.messages(4).any(|note| note.text(10) == Some("thread"));
        slices.push((names[&event.number(11).unwrap()].clone(), has_thread));
    }
    (names.into_values().collect(), slices)
}

#[test]
fn names_without_end_make_no_tracks_without_end() {
    let (tracks, slices) = waits((0..99).map(|name| (format!("n{name}"), 7)));
    // Those of all waits, of 16 names, and of all others of the thread.
    assert_eq!((tracks.len(), slices.len()), (18, 99));
    assert_eq!((&*slices[15].0, slices[15].1), ("n15 7", false));
    assert_eq!((&*slices[16].0, slices[98].1), ("~other 7", true));
    // A name that it had before still has its track.
    let again = (0..99).chain([3]).map(|name| (format!("n{name}"), 7));
    assert_eq!(waits(again).1.last(), Some(&("n3 7".to_owned(), false)));
}

#[test]
fn threads_without_end_make_no_tracks_without_end() {
    let (tracks, slices) = waits((1..999).map(|tid| ("a".to_owned(), tid)));
    assert_eq!((tracks.len(), slices.len()), (258, 998));
    assert_eq!(slices[255], ("a 256".to_owned(), false));
    assert!(slices[256..].iter().all(|slice| *slice == ("~other".to_owned(), true)));
}
