//! Events that writers put into a store come out of the recording.

mod held;
mod ipc;

use std::collections::BTreeMap;

use noise_common::hooks::Vector;
use noise_common::store::event::Body;
use noise_common::store::reading::PartStretch;
use noise_common::store::{EventKind, StoredEvent as Stored};
use proptest::prelude::*;

use super::*;
use crate::ctf::write::{Origin, metadata};
use crate::ctf::{CtfReader, StreamFile, TraceLayout};
use crate::event::{Event, LostEvents, Packet, Request, TraceKind, Woken};
use crate::fixtures::named as task;
use crate::record::Source as _;
use crate::state::LeftIn;
use crate::summary::{Loss, TraceSummary};

const UUID: Uuid = [3; 16];

/// Threads that can be looked up.
#[derive(Default)]
struct Threads {
    names: BTreeMap<u32, &'static str>,
    looks: u32,
}

impl Look for Threads {
    fn thread(&mut self, tid: u32) -> Option<Comm> {
        self.looks += 1;
        self.names.get(&tid).map(|name| Comm::new(name.as_bytes()))
    }
    fn interrupt(&mut self, irq: u32) -> Option<Vec<u8>> {
        (irq == 36).then(|| b"virtio1".to_vec())
    }
    fn interface(&mut self, index: u32) -> Option<Vec<u8>> {
        (index == 2).then(|| b"eth0".to_vec())
    }
}

/// A stretch that begins with that number and is all that its part holds.
fn add(capture: &mut Capture, part: usize, wanted: u64, first: u64, bodies: &[Body]) -> u64 {
    let events: Vec<_> = (first..).zip(bodies).map(|(number, body)| body.stored(number)).collect();
    let next = first + events.len() as u64;
    let capacity = 1 << 20;
    capture.add(1, part, PartStretch { wanted, first, events: &events, capacity, next })
}

fn read(capture: &mut Capture) -> Vec<(u64, String)> {
    read_of(1, capture)
}

fn read_of(cpu: u32, capture: &mut Capture) -> Vec<(u64, String)> {
    let origin = Origin { has_calls: true, ..Origin::default() };
    let layout = TraceLayout::parse(&metadata(UUID, &origin)).unwrap();
    let packets = capture.packets(cpu);
    let bytes = packets.bytes();
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", bytes)]);
    let mut read = Vec::new();
    while let Some(record) = reader.read() {
        read.push((record.time_ns, format!("{:?}", record.kind())));
    }
    let others = ["Lost", "Statedump"];
    let is_event = |kind: &str| !others.iter().any(|other| kind.starts_with(other));
    let events = read.iter().filter(|(_, kind)| is_event(kind)).count();
    assert_eq!(packets.events(), events as u64);
    assert!(reader.damage().is_none());
    read
}

fn dump() -> Dump {
    let thread = |tid, comm: &[u8]| Dumped { tid, pid: tid, ppid: 1, comm: Comm::new(comm) };
    Dump {
        threads: vec![thread(7, b"bash"), thread(8, b"fio")],
        interfaces: vec![(1, b"lo".to_vec())],
        namespace: 0x1_0009,
        ..Dump::default()
    }
}

#[test]
fn events_have_names_and_fields_of_lttng() {
    let mut capture = Capture::new(UUID, 2, 1 << 16, 10, &dump());
    let mut threads = Threads { names: BTreeMap::from([(9, "ls")]), looks: 0 };
    let flags = 1 | 1 << 11;
    let bodies = [
        Body::switch((0, 120), 0, false, (7, 120), 100),
        Body::task(EventKind::WakeupNew, 9, 120, 0, 0, 200),
        Body::task(EventKind::Waking, 9, 120, 1, 0, 2_000_200),
        Body::block(EventKind::BlockIssue, (0, 64), (8 << 20, 4096), flags, 0, 2_000_300),
        Body::block(EventKind::BlockComplete, (0, u64::MAX), (8 << 20, 0), 2, 10, 2_000_310),
        Body::net(EventKind::NetQueue, 5, 60, (1, 9), 2_000_400),
        Body::net(EventKind::NetXmit, 5, 60, (2, 9), 2_000_401),
        Body::net(EventKind::NetReceive, 5, 60, (1, 10), 2_000_402),
        Body::irq(EventKind::IrqEntry, 36, 0, 2_000_500),
        Body::hrtimer(0xffff_8881_0000_0040, 0xffff_ffff_8100_0010, 12_345, 2_000_510),
        Body::hrtimer_exit(0xffff_8881_0000_0040, 2_000_520),
        Body::vector(EventKind::VectorExit, Vector::LocalTimer, 236, 2_000_600),
        Body::switch((7, 120), 0x80, false, (0, 120), 2_000_700),
        Body::throttled(9, 33, 2_000_700),
        Body::task(EventKind::Waking, 7, 0xff, 0, 0, 2_000_800),
    ];
    assert_eq!(add(&mut capture, 0, 0, 0, &bodies), bodies.len() as u64);
    capture.finish(3_000_000, &mut threads);
    let woken = |task, target_cpu| Woken { task, target_cpu };
    let packet = |name: &'static [u8]| Packet { skb: 5, len: 60, name };
    let request = Request {
        dev: 8 << 20,
        sector: 64,
        sectors: 8,
        bytes: 4096,
        rwbs: 1 | 1 << 5,
        tid: 7,
        comm: b"bash",
        error: 0,
    };
    let done =
        Request { dev: 8 << 20, sector: u64::MAX, rwbs: 1 << 8, error: -10, ..Request::default() };
    let expected = [
        TraceKind::SchedSwitch {
            prev: task("swapper/1", 0, 20),
            prev_state: LeftIn::of(0),
            next: task("bash", 7, 20),
        },
        // Its maker's name, until it is looked up.
        TraceKind::SchedWakeupNew(woken(task("bash", 9, 20), 0)),
        TraceKind::SchedWaking(woken(task("ls", 9, 20), 1)),
        TraceKind::BlockRqIssue(request),
        TraceKind::BlockRqComplete(done),
        TraceKind::NetDevQueue(packet(b"lo")),
        TraceKind::NetDevStartXmit(packet(b"eth0")),
        TraceKind::NetifReceiveSkb(packet(b"if1@10")),
        TraceKind::IrqHandlerEntry { irq: 36, name: b"virtio1" },
        TraceKind::HrtimerExpireEntry {
            hrtimer: 0xffff_8881_0000_0040,
            function: 0xffff_ffff_8100_0010,
            now: 12_345,
        },
        TraceKind::HrtimerExpireExit { hrtimer: 0xffff_8881_0000_0040 },
        TraceKind::VectorExit { which: Vector::LocalTimer, vector: 236 },
        // It is of a wait that the switch behind it ends.
        TraceKind::Throttled { task: task("ls", 9, 0), throttled_ns: 33 },
        TraceKind::SchedSwitch {
            prev: task("bash", 7, 20),
            prev_state: LeftIn::of(0x10),
            next: task("swapper/1", 0, 20),
        },
        // It is gone, and so is its name.
        TraceKind::SchedWaking(woken(task("<...>", 7, -101), 0)),
    ];
    let kinds: Vec<_> = read(&mut capture).into_iter().map(|(_, kind)| kind).collect();
    let expected: Vec<_> = expected.iter().map(|kind| format!("{kind:?}")).collect();
    assert_eq!(kinds, expected);
    assert_eq!((capture.discarded(), capture.late()), (0, 0));
    assert_eq!(threads.looks, 2);
}

#[test]
fn a_thread_that_is_created_on_one_cpu_is_known_on_the_others() {
    let mut capture = Capture::new(UUID, 3, 1 << 16, 10, &dump());
    let mut threads = Threads::default();
    // On the CPU that comes before its maker's, and gone before anything was read.
    let runs = [
        Body::switch((0, 120), 0, false, (9, 120), 300),
        Body::switch((9, 120), 0x80, false, (0, 120), 400),
    ];
    let makes = [
        Body::switch((0, 120), 0, false, (8, 120), 100),
        Body::task(EventKind::WakeupNew, 9, 120, 1, 0, 200),
    ];
    add(&mut capture, 0, 0, 0, &runs);
    let events: Vec<_> = (0..).zip(&makes).map(|(number, body)| body.stored(number)).collect();
    capture.add(2, 0, PartStretch { wanted: 0, first: 0, events: &events, capacity: 8, next: 2 });
    capture.finish(500, &mut threads);
    assert_eq!(threads.looks, 0);
    let switches = read(&mut capture);
    assert_eq!(switches.len(), 2);
    assert!(switches.iter().all(|(_, kind)| kind.contains("\"fio\"")), "{switches:?}");
}

#[test]
fn all_streams_end_with_the_latest_event_of_any() {
    let mut capture = Capture::new(UUID, 2, 1 << 16, 10, &Dump::default());
    let late = Body::softirq(EventKind::SoftirqRaise, 3, 700);
    add(&mut capture, 0, 0, 0, &[late]);
    capture.finish(500, &mut Threads::default());
    for cpu in [0, 1] {
        let packets = capture.packets(cpu);
        let number = |at: usize| u64::from_le_bytes(*packets.bytes()[at..].first_chunk().unwrap());
        assert_eq!((number(32), number(40)), (10, 700), "CPU {cpu}");
    }
}

#[test]
fn threads_come_run_other_programs_and_go() {
    let mut capture = Capture::new(UUID, 2, 1 << 16, 10, &dump());
    let mut threads = Threads::default();
    let name = |name: &[u8; 16]| {
        let (halves, _) = name.as_chunks();
        [0, 1].map(|half| u64::from_le_bytes(halves[half]))
    };
    let fork = |ids, time_ns| Body::process(EventKind::Fork, ids, time_ns);
    let exec = |ids, time_ns| Body::process(EventKind::Exec, ids, time_ns);
    let exit = |ids, time_ns| Body::process(EventKind::Exit, ids, time_ns);
    let bodies = [
        Body::switch((0, 120), 0, false, (8, 130), 100),
        fork([8, 20, 20], 200),
        Body::task(EventKind::WakeupNew, 20, 120, 0, 0, 300),
        fork([20, 21, 20], 400),
        // Its first thread is another one: it takes that one's id.
        Body::switch((8, 130), 1, false, (21, 125), 500),
        exec([20, 21, 0], 600),
        Body::name(name(b"python3\0\0\0\0\0\0\0\0\0"), 600),
        Body::task(EventKind::Waking, 20, 120, 0, 0, 700),
        Body::process(EventKind::Wait, [20, 0, 0], 750),
        exit([20, 20, 0], 800),
        exit([8, 8, 0], 900),
        // The name of this one is lost.
        exec([7, 7, 0], 1000),
    ];
    add(&mut capture, 0, 0, 0, &bodies);
    capture.finish(3_000, &mut threads);
    let (parent, child) = (task("fio", 8, 0), task("fio", 20, 0));
    let exec = |filename: &'static [u8], tid, old_tid| TraceKind::SchedProcessExec {
        filename,
        tid,
        old_tid,
    };
    let expected = [
        TraceKind::SchedSwitch {
            prev: task("swapper/1", 0, 20),
            prev_state: LeftIn::of(0),
            next: task("fio", 8, 30),
        },
        TraceKind::SchedProcessFork { parent, parent_pid: 8, child, child_pid: 20 },
        TraceKind::SchedWakeupNew(Woken { task: task("fio", 20, 20), target_cpu: 0 }),
        TraceKind::SchedProcessFork {
            parent: child,
            parent_pid: 20,
            child: task("fio", 21, 0),
            child_pid: 20,
        },
        TraceKind::SchedSwitch {
            prev: task("fio", 8, 30),
            prev_state: LeftIn::of(1),
            next: task("fio", 21, 25),
        },
        exec(b"python3", 20, 21),
        TraceKind::SchedWaking(Woken { task: task("python3", 20, 20), target_cpu: 0 }),
        TraceKind::SchedProcessWait { comm: Comm::new(b"python3"), child: 0, prio: 25 },
        TraceKind::SchedProcessExit(task("python3", 20, 25)),
        // It does not run here as far as known: its priority is the usual one.
        TraceKind::SchedProcessExit(task("fio", 8, 20)),
        exec(b"bash", 7, 7),
    ];
    let kinds: Vec<_> = read(&mut capture).into_iter().map(|(_, kind)| kind).collect();
    let expected: Vec<_> = expected.iter().map(|kind| format!("{kind:?}")).collect();
    assert_eq!(kinds, expected);
    assert_eq!(threads.looks, 0);
}

#[test]
fn the_state_dump_comes_first() {
    let mut capture = Capture::new(UUID, 1, 1 << 16, 10, &dump());
    capture.flush();
    let layout = TraceLayout::parse(&metadata(UUID, &Origin::default())).unwrap();
    let packets = capture.packets(0);
    let bytes = packets.bytes();
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", bytes)]);
    let mut names = Vec::new();
    while let Some(record) = reader.read() {
        names.push((record.time_ns, record.name().to_owned()));
    }
    let expected = ["start", "network_interface", "process_state", "process_state", "end"];
    assert_eq!(names, expected.map(|name| (10, format!("lttng_statedump_{name}"))));
}

#[test]
fn gaps_are_counted_where_they_are() {
    let mut capture = Capture::new(UUID, 2, 1 << 16, 10, &Dump::default());
    let at = |time_ns| Body::softirq(EventKind::SoftirqRaise, 3, time_ns);
    let mut look = Threads::default();
    assert_eq!(add(&mut capture, 0, 0, 0, &[at(100), at(200)]), 2);
    // Five were overwritten before they were read; one of an interrupter is from that time.
    assert_eq!(add(&mut capture, 0, 2, 7, &[at(700), at(800)]), 9);
    assert_eq!(add(&mut capture, 1, 0, 0, &[at(450)]), 1);
    capture.lost(1, 3, 800, 900);
    capture.advance(1_000, &mut look);
    // The last of these is still being written: it comes with the next stretch.
    assert_eq!(add(&mut capture, 0, 9, 9, &[at(1_000), Body::default()]), 10);
    assert_eq!(add(&mut capture, 0, 10, 10, &[at(1_100)]), 11);
    capture.finish(2_000, &mut look);
    let raise = |time_ns| (time_ns, format!("{:?}", TraceKind::SoftirqRaise { vec: 3 }));
    let lost = |events, from_ns, to_ns| {
        (
            from_ns,
            format!("{:?}", TraceKind::Lost(LostEvents { events, packets: 0, from_ns, to_ns })),
        )
    };
    let expected = [
        raise(100),
        raise(200),
        lost(5, 200, 700),
        raise(450),
        raise(700),
        raise(800),
        lost(3, 800, 900),
        raise(1_000),
        raise(1_100),
    ];
    assert_eq!(read(&mut capture), expected);
    assert_eq!(capture.discarded(), 8);
}

#[test]
fn a_summary_says_where_events_were_lost() {
    let mut capture = Capture::new(UUID, 2, 1 << 16, 10, &Dump::default());
    let at = |time_ns| Body::softirq(EventKind::SoftirqRaise, 3, time_ns);
    add(&mut capture, 0, 0, 0, &[at(100), at(200)]);
    add(&mut capture, 0, 2, 7, &[at(700), at(800)]);
    capture.lost(1, 3, 800, 900);
    capture.lost(0, 9, 300, 400);
    capture.finish(2_000, &mut Threads::default());
    let layout = TraceLayout::parse(&metadata(UUID, &Origin::default())).unwrap();
    let packets = [0, 1].map(|cpu| capture.packets(cpu));
    let files = packets.each_ref().map(|packets| StreamFile::held("x", packets.bytes()));
    let mut summary = TraceSummary::new(&layout.clocks[0], layout.env.clone());
    let mut reader = CtfReader::new(&layout, &files);
    while let Some(record) = reader.read() {
        summary.add(&record);
    }
    summary.finish(&reader.damage());
    let loss = |cpu, from_ns, to_ns, events| Loss { cpu, from_ns, to_ns, events, packets: 0 };
    let worst = [loss(0, 300, 400, 9), loss(1, 200, 700, 5), loss(1, 800, 900, 3)];
    assert_eq!(summary.losses.worst(10), worst);
    assert_eq!((summary.discarded, capture.discarded()), (17, 17));
}

#[test]
fn steps_end_with_the_loss_that_is_under_way() {
    let mut look = Threads::default();
    let at = |time_ns| Body::softirq(EventKind::SoftirqRaise, 3, time_ns);
    let mut capture = Capture::new(UUID, 2, 1 << 12, 0, &Dump::default());
    add(&mut capture, 0, 0, 0, &[at(100), at(300), at(500)]);
    capture.lost(1, 3, 150, 600);
    capture.advance(200, &mut look);
    // A packet that ended here would end with the loss, and what comes before that would be late.
    assert_eq!(capture.loss_until_ns(), Some(600));
    capture.advance(600, &mut look);
    capture.flush();
    assert_eq!(capture.loss_until_ns(), None);
    capture.finish(1_000, &mut look);
    assert_eq!((capture.late(), capture.discarded()), (0, 3));
    let times: Vec<u64> = read(&mut capture).into_iter().map(|(time_ns, _)| time_ns).collect();
    assert!([100, 300, 500].iter().all(|time_ns| times.contains(time_ns)), "{times:?}");
}

#[test]
fn files_that_follow_begin_with_what_is_known() {
    let mut capture = Capture::new(UUID, 2, 1 << 16, 10, &dump());
    let mut look = Threads::default();
    let bodies = [
        Body::process(EventKind::Fork, [8, 20, 20], 200),
        Body::process(EventKind::Fork, [20, 21, 20], 300),
        Body::switch((7, 120), 0x80, false, (0, 120), 400),
    ];
    add(&mut capture, 0, 0, 0, &bodies);
    capture.advance(500, &mut look);
    capture.flush();
    let before = [0, 1].map(|cpu| capture.packets(cpu));
    assert_eq!(before.each_ref().map(Packets::events), [0, 3]);
    capture.begin_again(500);
    add(&mut capture, 0, 3, 4, &[Body::switch((0, 120), 0, false, (8, 120), 600)]);
    capture.finish(700, &mut look);
    let layout = TraceLayout::parse(&metadata(UUID, &Origin::default())).unwrap();
    let after = [0, 1].map(|cpu| capture.packets(cpu));
    let files = after.each_ref().map(|packets| StreamFile::held("x", packets.bytes()));
    let mut reader = CtfReader::new(&layout, &files);
    let mut read = Vec::new();
    while let Some(record) = reader.read() {
        read.push(format!("{:?}", record.kind()));
    }
    let dumped = |tid, pid, ppid, comm: &str| {
        let comm = Comm::new(comm.as_bytes());
        format!("{:?}", TraceKind::StatedumpProcess(Dumped { tid, pid, ppid, comm }))
    };
    assert_eq!(
        read[3..6],
        [dumped(8, 8, 1, "fio"), dumped(20, 20, 8, "fio"), dumped(21, 20, 8, "fio")]
    );
    // What is lost in between shows in the files that follow, too.
    let loss = LostEvents { events: 1, packets: 0, from_ns: 499, to_ns: 600 };
    assert_eq!(read[0], format!("{:?}", TraceKind::Lost(loss)));
    assert_eq!(read.len(), 8);
    assert!(reader.damage().is_none());
}

#[test]
fn threads_are_in_the_cgroup_of_their_maker() {
    let worker = Dumped { tid: 9, pid: 8, ppid: 1, comm: Comm::new(b"worker") };
    let cgroups = [("/a", vec![7]), ("/b", vec![8])];
    let cgroups = cgroups.map(|(path, threads)| (path.as_bytes().to_vec(), threads));
    let mut dump = Dump { cgroups: cgroups.into(), ..dump() };
    dump.threads.push(worker);
    let mut capture = Capture::new(UUID, 2, 1 << 16, 10, &dump);
    let mut look = Threads::default();
    let fork = |ids, time_ns| Body::process(EventKind::Fork, ids, time_ns);
    let bodies = [fork([9, 20, 20], 200), fork([20, 21, 20], 300), fork([7, 22, 22], 400)];
    add(&mut capture, 0, 0, 0, &bodies);
    capture.advance(500, &mut look);
    let layout = TraceLayout::parse(&metadata(UUID, &Origin::default())).unwrap();
    // By the events, and by what is said again where other files begin.
    for _ in 0..2 {
        capture.flush();
        let packets = [0, 1].map(|cpu| capture.packets(cpu));
        let files = packets.each_ref().map(|packets| StreamFile::held("x", packets.bytes()));
        let (mut threads, mut said) = (crate::threads::Threads::default(), 0);
        let mut reader = CtfReader::new(&layout, &files);
        while let Some(record) = reader.read() {
            threads.follow(&record.event());
            said += usize::from(record.name() == "statedump_cgroup");
        }
        let found = [7, 8, 9, 20, 21, 22].map(|tid| threads.cgroup(tid).unwrap().to_vec());
        assert_eq!(
            found,
            ["/a", "/b", "/b", "/b", "/b", "/a"].map(|path| path.as_bytes().to_vec())
        );
        // Of the first threads of processes only.
        assert!(said <= 4, "{said}");
        capture.begin_again(500);
    }
}

#[test]
fn what_cannot_be_written_is_counted_in_its_place() {
    let mut capture = Capture::new(UUID, 2, 300, 10, &Dump::default());
    let mut look = Threads::default();
    let at = |time_ns| Body::softirq(EventKind::SoftirqRaise, 3, time_ns);
    let bodies: Vec<_> = (1..=100).map(|number| at(number * 100)).collect();
    add(&mut capture, 0, 0, 0, &bodies);
    capture.advance(5_001, &mut look);
    capture.flush();
    let written = capture.packets(1);
    assert_eq!(written.events(), 50);
    capture.advance(8_001, &mut look);
    capture.flush();
    let given_up = capture.packets(1);
    let lost = capture.give_up(1, &given_up);
    assert_eq!((given_up.events(), capture.discarded()), (30, 30));
    capture.finish(10_000, &mut look);
    let bytes = [written.bytes(), lost.bytes(), capture.packets(1).bytes()].concat();
    let layout = TraceLayout::parse(&metadata(UUID, &Origin::default())).unwrap();
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", &bytes)]);
    let mut read = Vec::new();
    while let Some(record) = reader.read() {
        read.push((record.time_ns, record.loss().map_or(TraceKind::Other(""), TraceKind::Lost)));
    }
    assert!(reader.damage().is_none());
    assert_eq!(read.len(), 71);
    let loss = LostEvents { events: 30, packets: 0, from_ns: 5_000, to_ns: 8_000 };
    assert_eq!(read[50], (5_000, TraceKind::Lost(loss)));
    assert_eq!(read[51].0, 8_100);
}

proptest! {
    /// Whatever the parts, and however they are cut into stretches, all events come, in order.
    #[test]
    fn events_come_in_the_order_of_time(
        steps in proptest::collection::vec((0..3_u64, 0..4_usize, 0..100_000_u64), 1..200),
        cuts in proptest::collection::vec(1..50_usize, 1..10),
    ) {
        let mut capture = Capture::new(UUID, 2, 500, 0, &Dump::default());
        let mut look = Threads::default();
        let (mut now, mut expected) = (0, Vec::new());
        let mut next = [0_u64; PARTS];
        let mut rest = steps.as_slice();
        for cut in cuts.iter().cycle() {
            let (some, others) = rest.split_at((*cut).min(rest.len()));
            rest = others;
            let mut parts: [Vec<Body>; PARTS] = Default::default();
            for (later, part, irq) in some {
                now += later;
                parts[*part].push(Body::irq(EventKind::IrqExit, *irq as u32, 1, now));
                let kind: TraceKind<'_> = TraceKind::IrqHandlerExit { irq: *irq as u32, ret: 1 };
                expected.push(Event { time_ns: now, cpu: 1, kind });
            }
            for (part, bodies) in parts.iter().enumerate() {
                next[part] = add(&mut capture, part, next[part], next[part], bodies);
            }
            capture.advance(now, &mut look);
            if rest.is_empty() {
                break;
            }
        }
        capture.finish(now, &mut look);
        prop_assert_eq!(capture.discarded(), 0);
        let mut found = read(&mut capture);
        prop_assert!(found.is_sorted_by_key(|(time, _)| *time));
        // Those of one time come in the order of their parts.
        found.sort();
        let mut expected: Vec<_> =
            expected.iter().map(|event| (event.time_ns, format!("{:?}", event.kind))).collect();
        expected.sort();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn marks_are_where_their_thread_runs_and_late_ones_say_how_late() {
    let mut capture = Capture::new(UUID, 2, 1 << 16, 10, &dump());
    let mut threads = Threads::default();
    let bodies = [
        Body::switch((0, 120), 0, false, (7, 120), 100),
        Body::switch((7, 120), 0, false, (8, 120), 200),
        Body::irq(EventKind::IrqEntry, 36, 0, 2_000),
    ];
    add(&mut capture, 0, 0, 0, &bodies);
    let set = |time_ns, pid, tid| Marked {
        time_ns,
        begins: true,
        name: b"q".to_vec(),
        key: b"17".to_vec(),
        pid,
        tid,
        uid: 5,
    };
    // Of processes that run at that time, on the other CPU, and nowhere.
    for mark in [set(250, 8, 0), set(150, 7, 0), set(150, 3, 8), set(160, 9, 0)] {
        capture.mark(mark);
    }
    capture.advance(1_000, &mut threads);
    // When it comes, who ran then is not known any more, and some is written.
    capture.mark(set(180, 7, 0));
    capture.mark(set(3_000, 8, 0));
    capture.finish(2_500, &mut threads);
    let mark = |pid, tid, before_ns| {
        let (name, key) = (b"q".as_slice(), b"17".as_slice());
        format!(
            "{:?}",
            TraceKind::Mark(ProgramMark { begins: true, name, key, pid, tid, uid: 5, before_ns })
        )
    };
    let marks = |cpu, capture: &mut Capture| {
        let mut all = read_of(cpu, capture);
        all.retain(|(_, kind)| kind.starts_with("Mark"));
        all
    };
    let there = [(150, mark(7, 7, 0)), (250, mark(8, 8, 0)), (3_000, mark(8, 8, 0))];
    assert_eq!(marks(1, &mut capture), there);
    let elsewhere = [(150, mark(3, 8, 0)), (160, mark(9, 0, 0)), (180, mark(7, 0, 0))];
    assert_eq!(marks(0, &mut capture), elsewhere);
    assert_eq!(capture.late(), 0);
    capture.mark(set(20, 7, 7));
    capture.finish(4_000, &mut threads);
    let late = marks(0, &mut capture);
    let [(time_ns, late)] = late.as_slice() else { panic!("{late:?}") };
    assert_eq!(*late, mark(7, 7, time_ns - 20));
}
