//! What is in the files, read by other code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use noise_command::fixtures::parsed;

use super::super::{SketchArgs, document, input};
use super::*;
use crate::sampled::unpacked;
use crate::wire::Message;

/// A process creates another one, which creates a third one; all end.
const PROCESSES: &str = "\
 a-1 [000] d.... 10.000000: sched_process_fork: comm=a pid=1 child_comm=a child_pid=7
 a-1 [000] d.... 10.000010: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=a next_pid=7 next_prio=120
 a-7 [000] d.... 10.000012: sched_process_fork: comm=a pid=7 child_comm=a child_pid=8
 a-7 [000] d.... 10.000020: sched_process_exit: comm=a pid=7 prio=120
 a-7 [000] d.... 10.000030: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=X ==> next_comm=a next_pid=8 next_prio=120
 a-8 [000] d.... 10.000040: sched_process_exit: comm=a pid=8 prio=120
 a-8 [000] d.... 10.000050: sched_switch: prev_comm=a prev_pid=8 prev_prio=120 prev_state=X ==> next_comm=a next_pid=1 next_prio=120
";

#[test]
fn files_have_what_the_document_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    fs::write(&path, PROCESSES).unwrap();
    let args: SketchArgs = parsed([&path]).unwrap();
    let recording = Recording::open(&path).unwrap();
    let mut found = input(&args, &recording).unwrap();
    noise_sketches::cluster::cluster(&mut found.system).unwrap();
    let document = document(&args, &found).unwrap();
    let json = serde_json::to_value(&document).unwrap();
    let count = |field: &str| json[field].as_array().unwrap().len();
    assert_eq!((count("slices"), count("edges"), count("wholes")), (2, 1, 1), "{json}");

    let tables = folder.path().join("tables");
    write(&path, &tables, &document).unwrap();
    let table = |name: &str| -> Vec<BTreeMap<String, String>> {
        let text = fs::read_to_string(tables.join(format!("{name}.csv"))).unwrap();
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
        let columns: Vec<String> = lines.next().unwrap().collect();
        lines
            .map(|cells| {
                let cells: Vec<String> = cells.collect();
                assert_eq!(cells.len(), columns.len(), "{name}");
                columns.iter().cloned().zip(cells).collect()
            })
            .collect()
    };
    for (row, slice) in table("slices").iter().zip(json["slices"].as_array().unwrap()) {
        for (column, field) in [
            ("slice", "id"),
            ("tid", "tid"),
            ("comm", "comm"),
            ("marker", "marker"),
            ("ended", "ended"),
            ("key", "key"),
            ("from_ns", "from_ns"),
            ("to_ns", "to_ns"),
            ("true_latency_ns", "true_latency_ns"),
        ] {
            let value = &slice[field];
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            assert_eq!(row[column], value, "{column}");
        }
    }
    let [edge] = &table("edges")[..] else { panic!("not one edge") };
    assert_eq!((edge["rule"].as_str(), edge["opens"].as_str()), ("clone", "true"));
    let [sketch] = &table("sketches")[..] else { panic!("not one sketch") };
    assert_eq!((sketch["slices"].as_str(), sketch["marker"].as_str()), ("2", "process"));
    assert_eq!(table("calls"), []);

    let to = folder.path().join("perfetto");
    draw(&path, &to, &recording, &document).unwrap();
    let bytes = unpacked(&fs::read(&to).unwrap());
    let (mut names, mut flows) = (BTreeMap::new(), Vec::new());
    let mut slices = BTreeSet::new();
    for packet in Message::read(&bytes).messages(1) {
        if let Some(track) = packet.message(60) {
            let above = track.number(5).map(|parent| format!("{}/", names[&parent]));
            let name = format!("{}{}", above.unwrap_or_default(), track.text(2).unwrap());
            assert!(names.insert(track.number(1).unwrap(), name).is_none());
        }
        let Some(event) = packet.message(11) else { continue };
        if event.number(9) == Some(1) {
            flows.push((event.number(48), event.number(47)));
            let (track, name) = (event.number(11).unwrap(), event.text(23).unwrap());
            slices.insert((names[&track].clone(), name.to_owned(), packet.number(8).unwrap()));
        }
    }
    let expected = [("a 7", 10_000_000_000), ("a 8", 10_000_012_000)]
        .map(|(who, at)| (format!("Sketches of {who}/{who}"), "process".to_owned(), at));
    assert_eq!(slices, BTreeSet::from(expected));
    assert_eq!(flows, [(None, Some(1)), (Some(1), None)]);
}
