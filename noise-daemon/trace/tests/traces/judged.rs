//! Exports, read by the programs that they are for: DuckDB, and Perfetto's published schema.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use noise_trace::clock::TraceClock;
use noise_trace::delays::Begin;
use noise_trace::delays::document::{DelaysDocument, Spread};
use noise_trace::event::{Event, ProgramMark, TraceKind};
use noise_trace::export::Export;
use noise_trace::export::perfetto::{PathPart, Perfetto};
use noise_trace::export::tables::Tables;
use noise_trace::record::Source as _;
use noise_trace::select::Select;
use serde_json::{Value, json};

use crate::export::{all_waits, written};
use crate::figures::{delays_of, number};
use crate::files::Trace;
use crate::packages::PACKAGES;
use crate::python;

fn place(trace: &Trace, what: &str) -> PathBuf {
    let name = trace.folder.file_name().unwrap().to_str().unwrap();
    python::folder().join(format!("{what}-{name}"))
}

/// Rows of a thread's id and its time.
fn by_thread(rows: &Value) -> BTreeMap<i64, u64> {
    let row = |row: &Value| (row[0].as_i64().unwrap(), number(&row[1]));
    rows.as_array().unwrap().iter().map(row).filter(|(_, ns)| *ns > 0).collect()
}

fn runs(document: &DelaysDocument) -> BTreeMap<i64, u64> {
    let threads = document.threads.iter().filter(|thread| thread.run_ns > 0);
    threads.map(|thread| (thread.tid.into(), thread.run_ns)).collect()
}

/// DuckDB reads the tables without a hint, and their sums are those of `trace delays`.
pub fn tables(trace: &Trace) -> Result<(), String> {
    let mut export =
        Export::new(Select::default(), Begin::default(), None, Some(Tables::default()), false);
    let (mut events, mut switches, mut next_tids) = (0, 0, 0);
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        export.add(&record).unwrap();
        events += 1;
        if let TraceKind::SchedSwitch { next, .. } = record.kind() {
            switches += 1;
            next_tids += u64::from(next.tid.cast_unsigned());
        }
    }
    export.finish();
    let folder = place(trace, "tables");
    fs::create_dir_all(&folder).unwrap();
    for table in export.tables.unwrap().all() {
        fs::write(folder.join(format!("{}.csv", table.name)), &table.rows).unwrap();
    }
    let found = PACKAGES.run(include_str!("python/tables.py"), &[folder.to_str().unwrap()]);
    fs::remove_dir_all(&folder).unwrap();
    let found = found?;
    assert_eq!([&found["events"], &found["invalid"]].map(number), [events, 0]);
    assert_eq!([0, 1].map(|column| number(&found["switches"][0][column])), [switches, next_tids]);
    let document = delays_of(trace);
    assert_eq!(by_thread(&found["run_ns"]), runs(&document));
    let mut delays: BTreeMap<(String, i64), Spread> = BTreeMap::new();
    for row in found["delays"].as_array().unwrap() {
        let of = row[1].as_i64().or(row[2].as_i64()).unwrap_or(-1);
        let [count, sum_ns, max_ns] = [3, 4, 5].map(|column| number(&row[column]));
        delays.insert((row[0].as_str().unwrap().to_owned(), of), Spread { count, sum_ns, max_ns });
    }
    assert_eq!(delays, expected_delays(&document));
    let mut charges = BTreeMap::new();
    for row in found["charges"].as_array().unwrap() {
        charges.insert((row[0].as_str().unwrap(), row[1].as_i64().unwrap()), number(&row[2]));
    }
    let waited = document.threads.iter().flat_map(|thread| {
        let waits_ns = thread.waits.wakeup.sum_ns + thread.waits.preempt.sum_ns;
        ["culprits", "culprits_following_migrations", "charges"]
            .map(|list| ((list, i64::from(thread.tid)), waits_ns))
    });
    charges.retain(|_, ns| *ns > 0);
    assert_eq!(charges, waited.filter(|(_, ns)| *ns > 0).collect());
    Ok(())
}

/// By signal and thread, irq, softirq or device. Interfaces have no number.
fn expected_delays(document: &DelaysDocument) -> BTreeMap<(String, i64), Spread> {
    let mut all = BTreeMap::new();
    let mut add = |signal: &str, of: i64, whole: Spread| {
        let sum: &mut Spread = all.entry((signal.to_owned(), of)).or_default();
        sum.count += whole.count;
        sum.sum_ns += whole.sum_ns;
        sum.max_ns = sum.max_ns.max(whole.max_ns);
    };
    for thread in &document.threads {
        add("wakeup", thread.tid.into(), thread.waits.wakeup);
        add("preempt", thread.tid.into(), thread.waits.preempt);
    }
    for irq in &document.hardirq {
        add("hardirq", irq.irq.unwrap().into(), irq.whole);
    }
    for softirq in &document.softirq {
        add("softirq", softirq.vector.into(), softirq.whole);
    }
    for raise in &document.softirq_raise_wait {
        add("softirq_raise_wait", raise.vector.into(), raise.whole);
    }
    for (signal, devices) in [
        ("block_queue_wait", &document.block_queue_wait),
        ("block_device_wait", &document.block_device_wait),
    ] {
        devices.iter().for_each(|device| add(signal, device.dev.into(), device.whole));
    }
    for (signal, interfaces) in &document.packets {
        interfaces.iter().for_each(|interface| add(signal.info().name, -1, interface.whole));
    }
    for vector in &document.vector {
        add("vector", -1, vector.whole);
    }
    all.retain(|_, whole| whole.count > 0);
    all
}

/// Each field of each packet is one of Perfetto's schema; times on CPUs and waits are those of `trace delays`.
pub fn perfetto(trace: &Trace) -> Result<(), String> {
    let file = place(trace, "packets");
    fs::write(&file, written(trace)).unwrap();
    let found = PACKAGES.run(include_str!("python/packets.py"), &[file.to_str().unwrap()]);
    fs::remove_file(&file).unwrap();
    let found = found?;
    assert_eq!(found["unknown_bytes"], 0);
    let document = delays_of(trace);
    assert_eq!(by_thread(&found["run_ns"]), runs(&document));
    let waits = all_waits(&document);
    assert_eq!([0, 1].map(|place| number(&found["waits"][place])), [waits.count, waits.sum_ns]);
    // Of a wait with many causes the largest are shown.
    let parts_ns = number(&found["parts_ns"]);
    assert!(parts_ns <= waits.sum_ns && parts_ns > waits.sum_ns / 10 * 9, "{parts_ns}");
    let events = found["events"].as_object().unwrap();
    let all = events.values().map(number).sum::<u64>();
    assert_eq!(all, number(&trace.expected["events"]));
    assert_eq!(events["sched_switch"], trace.expected["by_name"]["sched_switch"]);
    Ok(())
}

/// Paths are tracks, slices and arrows of Perfetto's schema, and marks instants.
pub fn paths() -> Result<(), String> {
    let part = |tid: i32, state, from_ns, to_ns| PathPart {
        who: ("t".to_owned(), tid),
        state,
        from_ns,
        to_ns,
        cpu: Some(3),
        awaited: if tid == 8 { "t 7 waits at a pipe".to_owned() } else { String::new() },
        culprits: if tid == 7 { vec![("hog 9".to_owned(), 4)] } else { Vec::new() },
    };
    let path = [
        part(7, "running", 10, 20),
        part(8, "running", 20, 25),
        part(8, "disk", 25, 30),
        part(7, "waiting_cpu", 30, 50),
    ];
    let mut perfetto = Perfetto::new(&TraceClock::trace(), &BTreeMap::new());
    let (name, key) = (b"q".as_slice(), b"17".as_slice());
    let mark = ProgramMark { begins: true, name, key, pid: 6, tid: 7, uid: 5, before_ns: 2 };
    perfetto.pass(&Event { time_ns: 12, cpu: 0, kind: TraceKind::Mark(mark) });
    perfetto.path("mark:q", &path);
    perfetto.path("other", &path[..1]);
    perfetto.finish();
    let file = python::folder().join("paths");
    fs::write(&file, perfetto.packets().bytes()).unwrap();
    let found = PACKAGES.run(include_str!("python/paths.py"), &[file.to_str().unwrap()]);
    fs::remove_file(&file).unwrap();
    let found = found?;
    let slice = |whole: &str, part: &PathPart| {
        let mut notes = json!({"cpu": 3});
        if !part.awaited.is_empty() {
            notes["awaited"] = part.awaited.as_str().into();
        }
        for (who, ns) in &part.culprits {
            notes[who] = (*ns).into();
        }
        let (name, thread) = (format!("Critical path of {whole}"), format!("t {}", part.who.1));
        json!([name, thread, part.state, part.from_ns, part.to_ns, notes])
    };
    let mut slices: Vec<_> = path.iter().map(|part| slice("mark:q", part)).collect();
    slices.push(slice("other", &path[0]));
    let notes = json!({"key": "17", "tid": 7, "pid": 6, "uid": 5});
    let expected = json!({
        "unknown_bytes": 0,
        "slices": slices,
        "arrows": [[0, 1], [2, 3]],
        "marks": [["Marks", "begin q", 10, notes]],
        "open": 0,
    });
    assert_eq!(found, expected);
    Ok(())
}
