//! What is exported, read again by other code: it equals the recording, and its sums are those of the delays.

use std::collections::BTreeMap;

use noise_common::hooks::Vector;
use noise_protobuf::Message as Packets;
use noise_trace::delays::Begin;
use noise_trace::delays::document::{DelaysDocument, Spread};
use noise_trace::event::TraceKind;
use noise_trace::events::What;
use noise_trace::export::Export;
use noise_trace::export::perfetto::{Perfetto, packed};
use noise_trace::export::tables::Tables;
use noise_trace::record::Source as _;
use noise_trace::select::Select;

use crate::figures::delays_of;
use crate::files::Trace;
use crate::wire::{Field, Message};

/// Fields of `FtraceEvent` in Perfetto's `perfetto_trace.proto`.
const TYPES: [(u64, What); 25] = [
    (4, What::SchedSwitch),
    (17, What::SchedWakeup),
    (20, What::SchedWaking),
    (24, What::SoftirqEntry),
    (25, What::SoftirqExit),
    (26, What::SoftirqRaise),
    (36, What::IrqHandlerEntry),
    (37, What::IrqHandlerExit),
    (45, What::BlockRqIssue),
    (114, What::SchedWakeupNew),
    (125, What::BlockRqComplete),
    (126, What::BlockRqInsert),
    (129, What::BlockRqRequeue),
    (237, What::SchedProcessExec),
    (238, What::SchedProcessExit),
    (239, What::SchedProcessFork),
    (240, What::SchedProcessFree),
    (242, What::SchedProcessWait),
    (360, What::NetifReceiveSkb),
    (361, What::NetDevXmit),
    (365, What::NapiGroReceive),
    (553, What::HrtimerExpireEntry),
    (554, What::HrtimerExpireExit),
    (559, What::VectorEntry(Vector::LocalTimer)),
    (560, What::VectorExit(Vector::LocalTimer)),
];
const GENERIC: u64 = 327;
const MIGRATE: (u64, What) = (491, What::SchedMigrateTask);

fn packets(trace: &Trace) -> Vec<u8> {
    let mut all = Vec::new();
    pieces(trace, 1, |ready| all.extend_from_slice(ready.bytes()));
    all
}

/// A file as it is written.
pub fn written(trace: &Trace) -> Vec<u8> {
    let mut all = Vec::new();
    pieces(trace, 512 << 10, |ready| all.extend(packed(ready).unwrap()));
    all
}

/// Packets in pieces of at least so many bytes.
fn pieces(trace: &Trace, least_bytes: usize, mut write: impl FnMut(&Packets)) {
    let perfetto = Perfetto::new(&trace.layout.clocks[0], &trace.layout.env);
    let mut export = Export::new(Select::default(), Begin::default(), Some(perfetto), None, false);
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        export.add(&record).unwrap();
        let ready = export.perfetto.as_mut().unwrap().packets();
        if ready.bytes().len() >= least_bytes {
            write(ready);
            ready.clear();
        }
    }
    export.finish();
    write(export.perfetto.as_mut().unwrap().packets());
}

/// An event: time, CPU, and its name where it is a generic one, else its field's number.
type Seen = (u64, u64, String);

fn name(name: &str) -> String {
    let what = What::named(name);
    let number = TYPES.iter().chain([&MIGRATE]).find(|(_, known)| *known == what);
    number.map_or_else(|| name.to_owned(), |(number, _)| number.to_string())
}

/// Each event of the recording is there, at its time and on its CPU; switches and wake-ups with their fields.
pub fn perfetto(trace: &Trace) -> Result<(), String> {
    let bytes = packets(trace);
    let file = Message::read(&bytes);
    let (mut found, mut switches): (Vec<Seen>, Vec<[u64; 4]>) = Default::default();
    let mut threads = 0;
    let mut offset_ns = None;
    for packet in file.messages(1) {
        assert_eq!(packet.number(10), Some(1));
        if let Some(snapshot) = packet.message(6) {
            let clocks: BTreeMap<_, _> = snapshot
                .messages(1)
                .map(|clock| (clock.number(1).unwrap(), clock.number(2).unwrap()))
                .collect();
            assert_eq!(clocks[&6], clocks[&3]);
            assert!(offset_ns.replace(clocks[&1] - clocks[&6]).is_none());
            assert_eq!(packet.number(13), Some(1));
        }
        threads += packet.messages(2).map(|tree| tree.messages(2).count()).sum::<usize>();
        let Some(bundle) = packet.message(1) else { continue };
        let cpu = bundle.number(1).unwrap();
        for event in bundle.messages(2) {
            let (time, pid) = (event.number(1).unwrap(), event.number(2).unwrap());
            let (number, body) = event.0.last().unwrap();
            let Field::Bytes(body) = body else { panic!("an event has no type") };
            let body = Message::read(body);
            let name = match *number {
                GENERIC => body.text(1).unwrap().to_owned(),
                other => other.to_string(),
            };
            if *number == 4 {
                assert_eq!(body.number(2), Some(pid));
                let fields = [2, 4, 6].map(|field| body.number(field).unwrap());
                switches.push([time, fields[0], fields[1], fields[2]]);
            }
            found.push((time, cpu, name));
        }
    }
    let offset_ns = offset_ns.unwrap();
    assert_eq!(offset_ns, trace.layout.clocks[0].offset_ns());
    let (mut expected, mut expected_switches): (Vec<Seen>, Vec<[u64; 4]>) = Default::default();
    let mut described = 0;
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        let time = record.time_ns - offset_ns;
        expected.push((time, record.cpu.into(), name(record.name())));
        match record.kind() {
            TraceKind::SchedSwitch { prev, prev_state, next } => {
                let number = |number: i32| i64::from(number).cast_unsigned();
                let state = prev_state.bits().cast_unsigned();
                expected_switches.push([time, number(prev.tid), state, number(next.tid)]);
            }
            TraceKind::StatedumpProcess(dumped) if dumped.tid > 0 && dumped.pid > 0 => {
                described += 1
            }
            TraceKind::SchedProcessFork { child_pid, .. } if child_pid > 0 => described += 1,
            // It has another name from then on.
            TraceKind::SchedProcessExec { .. } => described += 1,
            _ => {}
        }
    }
    for all in [&mut found, &mut expected] {
        all.sort();
    }
    assert!(found == expected, "{} and {} events", found.len(), expected.len());
    for all in [&mut switches, &mut expected_switches] {
        all.sort();
    }
    assert!(switches == expected_switches);
    assert_eq!(threads, described);
    slices(&file, trace);
    Ok(())
}

/// Waits on our own tracks sum to those of the delays.
fn slices(file: &Message<'_>, trace: &Trace) {
    let mut open: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut count, mut sum_ns) = (0, 0);
    for packet in file.messages(1) {
        let Some(event) = packet.message(11) else { continue };
        let (track, time) = (event.number(11).unwrap(), packet.number(8).unwrap());
        if track >> 32 != 1 {
            continue;
        }
        match event.number(9) {
            Some(1) => assert!(open.insert(track, time).is_none()),
            _ => {
                count += 1;
                sum_ns += time - open.remove(&track).unwrap();
            }
        }
    }
    let waits = all_waits(&delays_of(trace));
    assert_eq!((count, sum_ns), (waits.count, waits.sum_ns));
}

fn add(sum: &mut Spread, more: &Spread) {
    sum.count += more.count;
    sum.sum_ns += more.sum_ns;
    sum.max_ns = sum.max_ns.max(more.max_ns);
}

pub fn all_waits(document: &DelaysDocument) -> Spread {
    let mut all = Spread::default();
    for thread in &document.threads {
        add(&mut all, &thread.waits.wakeup);
        add(&mut all, &thread.waits.preempt);
    }
    all
}

/// Rows of a table by the names of its columns.
fn rows(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = text.lines().map(cells);
    let names = lines.next().unwrap();
    let row = |cells: Vec<String>| {
        assert_eq!(cells.len(), names.len());
        names.iter().cloned().zip(cells).collect()
    };
    lines.map(row).collect()
}

fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let (mut is_quoted, mut chars) = (false, line.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                cells.last_mut().unwrap().extend(chars.next());
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            other => cells.last_mut().unwrap().push(other),
        }
    }
    assert!(!is_quoted, "{line}");
    cells
}

/// Sums of a column by others.
fn sums(rows: &[BTreeMap<String, String>], by: &[&str]) -> BTreeMap<Vec<String>, Spread> {
    let mut sums: BTreeMap<Vec<String>, Spread> = BTreeMap::new();
    for row in rows {
        let key = by.iter().map(|name| row[*name].clone()).collect();
        let ns = row["ns"].parse().unwrap();
        add(sums.entry(key).or_default(), &Spread { count: 1, sum_ns: ns, max_ns: ns });
    }
    sums
}

/// Sums over tables are those of `trace delays`.
pub fn tables(trace: &Trace) -> Result<(), String> {
    let mut export =
        Export::new(Select::default(), Begin::default(), None, Some(Tables::default()), false);
    let mut events = 0;
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        export.add(&record).unwrap();
        events += 1;
    }
    export.finish();
    let mut tables = export.tables.unwrap();
    let [event_table, others @ ..] = tables.all();
    assert_eq!(event_table.rows.lines().count(), 1 + events);
    // Many, and long: one of a few is taken apart.
    let some = |text: &str| rows(&text.lines().step_by(16).collect::<Vec<_>>().join("\n"));
    assert!(some(&event_table.rows).iter().all(|row| row["fields"].starts_with('{')));
    let tables: BTreeMap<_, _> = others.map(|table| (table.name, rows(&table.rows))).into();
    let document = delays_of(trace);
    let by_thread = sums(&tables["delays"], &["signal", "tid"]);
    let states = sums(&tables["states"], &["state", "tid", "ended"]);
    let charges = sums(&tables["charges"], &["list", "tid", "cause", "by_tid", "source"]);
    let mut parts = 0;
    for thread in &document.threads {
        let tid = thread.tid.to_string();
        for (signal, waits) in
            [("wakeup", &thread.waits.wakeup), ("preempt", &thread.waits.preempt)]
        {
            let key = [signal, &tid].map(str::to_owned).to_vec();
            assert_eq!(by_thread.get(&key).copied().unwrap_or_default(), *waits);
            let key = [signal, &tid, "true"].map(str::to_owned).to_vec();
            assert_eq!(states.get(&key).copied().unwrap_or_default(), *waits);
        }
        let key = ["running", &tid, "true"].map(str::to_owned).to_vec();
        assert_eq!(states.get(&key).map_or(0, |run| run.sum_ns), thread.run_ns);
        let culprits = |list: &'static str| {
            let of = match list {
                "culprits" => &thread.culprits,
                _ => &thread.culprits_following_migrations,
            };
            of.iter().map(move |part| {
                (list, Some(part.tid).filter(|tid| *tid >= 0), part.cause, None, part.ns)
            })
        };
        let live = thread
            .charges
            .iter()
            .map(|part| ("charges", part.tid, part.cause, part.source.clone(), part.ns));
        let all = culprits("culprits").chain(culprits("culprits_following_migrations")).chain(live);
        for (list, by_tid, cause, source, ns) in all {
            let by_tid = by_tid.map_or_else(String::new, |tid| tid.to_string());
            let key = [list, &tid, cause, &by_tid, source.as_deref().unwrap_or("")];
            let key = key.map(str::to_owned).to_vec();
            assert_eq!(charges[&key].sum_ns, ns, "{key:?}");
            parts += 1;
        }
    }
    assert_eq!(charges.len(), parts);
    let by_number = sums(&tables["delays"], &["signal", "number"]);
    let irqs = document.hardirq.iter().map(|irq| ("hardirq", irq.irq.unwrap(), irq.whole));
    let softirqs =
        document.softirq.iter().map(|softirq| ("softirq", softirq.vector, softirq.whole));
    let raise = |raise: &noise_trace::delays::document::Raise| {
        ("softirq_raise_wait", raise.vector, raise.whole)
    };
    for (signal, number, whole) in
        irqs.chain(softirqs).chain(document.softirq_raise_wait.iter().map(raise))
    {
        let key = vec![signal.to_owned(), number.to_string()];
        assert_eq!(by_number[&key], whole, "{key:?}");
    }
    Ok(())
}
