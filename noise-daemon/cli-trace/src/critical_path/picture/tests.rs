//! What a file has, read by other code.

use std::fs;

use noise_paths::made;
use noise_trace::ftrace::FtraceReader;

use super::*;
use crate::sampled::unpacked;
use crate::wire::Message;

const TEXT: &[u8] = b"\
 a-11 [001] d.... 0.000000: sched_wakeup: comm=t7 pid=7 prio=120 target_cpu=001
 a-11 [001] d.... 0.000001: sched_wakeup: comm=t7 pid=7 prio=120 target_cpu=001
 a-11 [001] d.... 0.000002: sched_wakeup: comm=a pid=12 prio=120 target_cpu=001
 a-11 [001] d.... 0.000003: sched_switch: prev_comm=a prev_pid=11 prev_prio=120 prev_state=R ==> next_comm=b next_pid=12 next_prio=120
 b-12 [001] d.... 0.000004: sched_switch: prev_comm=b prev_pid=12 prev_prio=120 prev_state=R ==> next_comm=t9 next_pid=9 next_prio=120
 t9-9 [001] d.... 0.000005: sched_wakeup: comm=a pid=12 prio=120 target_cpu=001
 a-11 [001] d.... 0.000101: sched_wakeup: comm=t7 pid=7 prio=120 target_cpu=001
";

/// A path that goes from one thread to another, to a third and back.
fn traced() -> Traced {
    let segment = |tid: i32, state, from_ns, to_ns| Segment {
        cpu: Some(3),
        ..made::segment((tid, &format!("t{tid}")), state, (from_ns, to_ns))
    };
    let path = vec![
        segment(7, "running", 10, 20),
        segment(7, "disk", 20, 30),
        segment(8, "running", 30, 50),
        segment(9, "running", 50, 60),
        segment(7, "waiting_cpu", 60, 100_000),
    ];
    Traced { key: Some("17".to_owned()), ..made::traced("mark:q", (7, "t7"), path) }
}

#[test]
fn what_is_in_the_file_is_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("path");
    let picture = Picture::begin(Path::new("none"), &to).unwrap();
    let document = PathsDocument { executions: vec![traced()], ..PathsDocument::default() };
    picture.finish(&document, FtraceReader::new(TEXT)).unwrap();
    let bytes = unpacked(&fs::read(&to).unwrap());
    let (mut names, mut open) = (BTreeMap::new(), BTreeMap::new());
    let (mut found, mut flows, mut events) = (Vec::new(), Vec::new(), Vec::new());
    for packet in Message::read(&bytes).messages(1) {
        let bundle = packet.message(1);
        let of = bundle.iter().flat_map(|bundle| bundle.messages(2));
        events.extend(of.map(|event| event.number(1).unwrap()));
        if let Some(track) = packet.message(60) {
            let whole = track.number(5).map(|parent| format!("{}/", names[&parent]));
            let name = format!("{}{}", whole.unwrap_or_default(), track.text(2).unwrap());
            assert!(names.insert(track.number(1).unwrap(), name).is_none());
        }
        let Some(event) = packet.message(11) else { continue };
        let (track, stamp) = (event.number(11).unwrap(), packet.number(8).unwrap());
        if event.number(9) == Some(1) {
            let name = event.text(23).unwrap().to_owned();
            assert!(open.insert(track, (stamp, name)).is_none());
            flows.push((event.number(48), event.number(47)));
        } else {
            let (since, name) = open.remove(&track).unwrap();
            found.push((names[&track].clone(), name, since, stamp));
        }
    }
    // Those of the paths' threads in the execution's time, and the switches of others.
    assert_eq!(events, [1_000, 3_000, 4_000, 5_000]);
    let whole = "Critical path of mark:q=17 (t7 7)/";
    let expected = traced().path.into_iter().map(|part| {
        let name = format!("{whole}{} {}", part.comm, part.tid);
        (name, part.state.to_owned(), part.from_ns, part.to_ns)
    });
    assert_eq!(found, expected.collect::<Vec<_>>());
    // An arrow from the end of one thread's part to the begin of the next one's.
    let arrows =
        [(None, None), (None, Some(1)), (Some(1), Some(2)), (Some(2), Some(3)), (Some(3), None)];
    assert_eq!(flows, arrows);
}

#[test]
fn a_recording_is_not_written_into() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("metadata"), "").unwrap();
    let error = Picture::begin(folder.path(), &folder.path().join("p")).unwrap_err().to_string();
    assert!(error.contains("is the folder of a recording"), "{error}");
}
