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
        export.add(&record);
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
