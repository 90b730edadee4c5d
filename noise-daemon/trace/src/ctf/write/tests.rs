//! What is written is read again.

mod every;
mod ipc;

use noise_common::hooks::{Hook, VECTOR_HOOKS};
use proptest::prelude::*;

use super::*;
use crate::ctf::{CtfReader, StreamFile, TraceLayout};
use crate::event::{Comm, Dumped, LostEvents, Packet, ProgramMark, Request, Task, Woken};
use crate::event::{Event, TraceKind};
use crate::record::Source as _;
use crate::state::LeftIn;

const UUID: Uuid = [0xc1, 0x1f, 0xfc, 0xc1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
const OFFSET_NS: u64 = 1_700_000_000_123_456_789;

fn origin() -> Origin {
    Origin {
        hostname: "a \"host\"\n".to_owned(),
        kernel_release: "6.1.0".to_owned(),
        kernel_version: "#1 SMP".to_owned(),
        recorder: "noised 0.1.0".to_owned(),
        offset_ns: OFFSET_NS,
        offset_at_end_ns: Some(OFFSET_NS + 5),
        has_calls: true,
        buffer_bytes: Some(8 << 20),
    }
}

/// Texts that live as long as the tests.
const TEXTS: [&[u8]; 4] = [b"", b"eth0", b"virtio1-req.0", b"\xff\xfe \x1b[2J"];

fn text() -> impl Strategy<Value = &'static [u8]> {
    proptest::sample::select(TEXTS.to_vec())
}

fn task() -> impl Strategy<Value = Task> {
    let name = proptest::sample::select(TEXTS.to_vec());
    (name, any::<i32>(), any::<i32>()).prop_map(|(comm, tid, prio)| Task {
        comm: Comm::new(comm),
        tid,
        prio,
    })
}

fn request() -> impl Strategy<Value = Request<'static>> {
    let numbers = (any::<u32>(), any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>());
    (numbers, any::<i32>(), text(), any::<i32>()).prop_map(
        |((dev, sector, sectors, bytes, rwbs), tid, comm, error)| Request {
            dev,
            sector,
            sectors,
            bytes,
            rwbs,
            tid,
            comm,
            error,
        },
    )
}

fn packet() -> impl Strategy<Value = Packet<'static>> {
    (any::<u64>(), any::<u32>(), text()).prop_map(|(skb, len, name)| Packet { skb, len, name })
}

fn sched() -> impl Strategy<Value = TraceKind<'static>> {
    let woken = || (task(), any::<u32>()).prop_map(|(task, target_cpu)| Woken { task, target_cpu });
    prop_oneof![
        (task(), any::<i64>(), task()).prop_map(|(prev, prev_state, next)| {
            TraceKind::SchedSwitch { prev, prev_state: LeftIn::of(prev_state), next }
        }),
        woken().prop_map(TraceKind::SchedWaking),
        woken().prop_map(TraceKind::SchedWakeupNew),
        (task(), any::<u32>(), any::<u32>()).prop_map(|(task, orig_cpu, dest_cpu)| {
            TraceKind::SchedMigrateTask { task, orig_cpu, dest_cpu }
        }),
        (any::<u32>(), text()).prop_map(|(irq, name)| TraceKind::IrqHandlerEntry { irq, name }),
        (any::<u32>(), any::<i32>()).prop_map(|(irq, ret)| TraceKind::IrqHandlerExit { irq, ret }),
        any::<u32>().prop_map(|vec| TraceKind::SoftirqRaise { vec }),
        any::<u32>().prop_map(|vec| TraceKind::SoftirqEntry { vec }),
        any::<u32>().prop_map(|vec| TraceKind::SoftirqExit { vec }),
        any::<i64>().prop_map(|delta_ns| TraceKind::NmiHandler { delta_ns, handled: 0 }),
        (any::<u64>(), any::<u64>(), any::<i64>()).prop_map(|(hrtimer, function, now)| {
            TraceKind::HrtimerExpireEntry { hrtimer, function, now }
        }),
        any::<u64>().prop_map(|hrtimer| TraceKind::HrtimerExpireExit { hrtimer }),
        (proptest::sample::select(VECTOR_HOOKS), any::<u32>(), any::<bool>()).prop_map(
            |(hook, vector, entry)| match hook {
                Hook::Vector(which, _) if entry => TraceKind::VectorEntry { which, vector },
                Hook::Vector(which, _) => TraceKind::VectorExit { which, vector },
                _ => TraceKind::StatedumpEnd,
            }
        ),
    ]
}

fn kind() -> impl Strategy<Value = TraceKind<'static>> {
    // What LTTng's event does not have is not in ours either.
    let done = |request: Request<'static>| Request { bytes: 0, tid: 0, comm: b"", ..request };
    prop_oneof![
        4 => sched(),
        4 => ipc::kind(),
        1 => request().prop_map(|it| TraceKind::BlockRqInsert(Request { error: 0, ..it })),
        1 => request().prop_map(|it| TraceKind::BlockRqIssue(Request { error: 0, ..it })),
        1 => request().prop_map(|it| TraceKind::BlockRqMerge(Request { error: 0, bytes: 0, ..it })),
        1 => request().prop_map(move |it| TraceKind::BlockRqRequeue(done(it))),
        1 => request().prop_map(move |it| TraceKind::BlockRqComplete(done(it))),
        1 => packet().prop_map(TraceKind::NetDevQueue),
        1 => packet().prop_map(TraceKind::NetDevStartXmit),
        1 => packet().prop_map(TraceKind::NetifReceiveSkb),
        1 => packet().prop_map(|it| TraceKind::TcpRetransmitSkb(Packet { len: 0, ..it })),
        1 => (any::<u64>(), any::<u32>())
            .prop_map(|(skb, reason)| TraceKind::SkbKfree { skb, reason }),
        1 => (any::<i32>(), any::<i32>(), any::<i32>(), text()).prop_map(
            |(tid, pid, ppid, comm)| {
                TraceKind::StatedumpProcess(Dumped { tid, pid, ppid, comm: Comm::new(comm) })
            }
        ),
        1 => (any::<u32>(), text(), text())
            .prop_map(|(irq, name, action)| TraceKind::StatedumpInterrupt { irq, name, action }),
        1 => (any::<u32>(), text())
            .prop_map(|(dev, name)| TraceKind::StatedumpBlockDevice { dev, name }),
        1 => text().prop_map(|name| TraceKind::StatedumpInterface { name }),
        1 => (any::<i32>(), text()).prop_map(|(tid, path)| TraceKind::CgroupAttach { tid, path }),
        1 => (any::<bool>(), text(), text(), any::<i32>(), any::<i32>(), any::<u32>()).prop_map(
            |(begins, name, key, pid, tid, uid)| {
                let before_ns = u64::from(uid);
                TraceKind::Mark(ProgramMark { begins, name, key, pid, tid, uid, before_ns })
            }
        ),
        1 => (task(), any::<u64>()).prop_map(|(task, throttled_ns)| {
            let task = Task { prio: 0, ..task };
            TraceKind::Throttled { task, throttled_ns }
        }),
        1 => Just(TraceKind::StatedumpStart),
        1 => Just(TraceKind::StatedumpEnd),
    ]
}

/// An event so much later than the one before, and how many were lost right behind it, for so long.
type Step = (u64, u32, TraceKind<'static>, Option<(u64, u64)>);

fn step() -> impl Strategy<Value = Step> {
    // No two packets begin at once, and here a packet may have one event only.
    let later = prop_oneof![4 => 1..5_000_u64, 1 => (1_u64 << 26)..(1 << 28), 1 => 1..1_u64 << 40];
    let loss = proptest::option::weighted(0.1, (1..1_000_u64, 1..1_000_000_u64));
    (later, 0..3_u32, kind(), loss)
}

/// When the recordings begin, and by how much they end behind their last event.
const BEGIN_NS: u64 = 1_000;
const REST_NS: u64 = 7;

fn bounds(packets: &Packets) -> Vec<(u64, u64)> {
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().unwrap());
    let (mut rest, mut bounds) = (packets.bytes(), Vec::new());
    while !rest.is_empty() {
        bounds.push((number(rest, 32), number(rest, 40)));
        rest = &rest[number(rest, 56) as usize / 8..];
    }
    bounds
}

/// Packets cover all the time up to an end, and begin one after the other.
fn ensure_covered(bounds: &[(u64, u64)], begin_ns: u64, end_ns: u64) {
    let (Some(first), Some(last)) = (bounds.first(), bounds.last()) else { return };
    assert_eq!((first.0, last.1), (begin_ns, end_ns));
    for pair in bounds.windows(2) {
        let [(begin, end), (next, _)] = pair else { continue };
        assert!(next == end || (begin == end && *next == end + 1), "{bounds:?}");
    }
}

/// Streams, and what a reader must find in each: a loss is as long as the packet that counts it.
fn written(steps: &[Step], most_bytes: usize) -> (Vec<Packets>, Vec<Vec<Event<'static>>>) {
    let writer = |cpu| StreamWriter::new(UUID, cpu, most_bytes, BEGIN_NS);
    let mut writers: Vec<_> = (0..3).map(writer).collect();
    let mut expected = vec![Vec::new(); 3];
    let mut now = BEGIN_NS;
    for (later, cpu, kind, loss) in steps {
        now += later;
        let (writer, expected) = (&mut writers[*cpu as usize], &mut expected[*cpu as usize]);
        assert!(writer.event(now, kind));
        expected.push(Event { time_ns: OFFSET_NS + now, cpu: *cpu, kind: *kind });
        if let Some((events, length)) = loss {
            let (from, to) = (now, now + length);
            writer.lost(*events, from, to);
            now = to;
            let (from_ns, to_ns) = (OFFSET_NS + from, OFFSET_NS + to);
            let loss = LostEvents { events: *events, packets: 0, from_ns, to_ns };
            expected.push(Event { time_ns: from_ns, cpu: *cpu, kind: TraceKind::Lost(loss) });
        }
    }
    let streams = writers.iter_mut().map(|writer| {
        writer.end(now + REST_NS);
        let packets = writer.take();
        ensure_covered(&bounds(&packets), BEGIN_NS, now + REST_NS);
        packets
    });
    (streams.collect(), expected)
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        steps in proptest::collection::vec(step(), 0..60),
        most_bytes in prop_oneof![Just(1_usize), 100..1000_usize, Just(1 << 18)],
    ) {
        let text = metadata(UUID, &origin());
        let layout = TraceLayout::parse(&text).unwrap();
        let (streams, expected) = written(&steps, most_bytes);
        for (cpu, (packets, expected)) in streams.iter().zip(expected).enumerate() {
            prop_assert_eq!(packets.is_empty(), expected.is_empty());
            let files = [StreamFile::held("channel0_9", packets.bytes())];
            let mut reader = CtfReader::new(&layout, &files);
            for expected in expected {
                let found = reader.read().map(|record| record.event());
                prop_assert_eq!(found, Some(expected), "CPU {}", cpu);
            }
            prop_assert!(reader.read().is_none());
            prop_assert!(reader.damage().is_none(), "{:?}", reader.damage());
        }
    }
}

#[test]
fn the_environment_names_layout_and_recorder() {
    let layout = TraceLayout::parse(&metadata(UUID, &origin())).unwrap();
    let of = |name: &str| layout.env.get(name).map_or("", String::as_str);
    assert_eq!(of("domain"), "kernel");
    assert_eq!((of("tracer_name"), of("tracer_major")), ("lttng-modules", "2"));
    assert_eq!((of("hostname"), of("recorded_by")), ("a _host__", "noised 0.1.0"));
    assert_eq!(of("offset_at_end"), "1700000000123456794");
    assert_eq!(of(BUFFER_BYTES), "8388608");
    let without = Origin { buffer_bytes: None, ..origin() };
    assert!(!metadata(UUID, &without).contains(BUFFER_BYTES));
    assert_eq!(layout.clocks[0].offset_ns(), OFFSET_NS);
}

/// Times and CPUs of what was written, and how many events each record says were lost.
fn read_back(writer: &mut StreamWriter) -> Vec<(u64, u32, u64)> {
    let layout = TraceLayout::parse(&metadata(UUID, &Origin::default())).unwrap();
    let packets = writer.take();
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", packets.bytes())]);
    let mut found = Vec::new();
    while let Some(record) = reader.read() {
        found.push((record.time_ns, record.cpu, record.loss().map_or(0, |loss| loss.events)));
    }
    found
}

#[test]
fn late_events_get_the_time_of_the_one_before() {
    let mut writer = StreamWriter::new(UUID, 1, 1 << 16, 0);
    assert!(writer.event(50, &TraceKind::SoftirqEntry { vec: 1 }));
    assert!(writer.event(40, &TraceKind::SoftirqExit { vec: 1 }));
    assert!(!writer.event(60, &TraceKind::Other("x")));
    writer.flush();
    assert_eq!(writer.late(), 1);
    assert_eq!(read_back(&mut writer), [(50, 1, 0), (50, 1, 0)]);
    // A state dump of several packets is not late.
    let mut writer = StreamWriter::new(UUID, 1, 100, 50);
    for tid in 0..10 {
        let dumped = Dumped { tid, pid: tid, ppid: 1, comm: Comm::new(b"x") };
        assert!(writer.event(50, &TraceKind::StatedumpProcess(dumped)));
    }
    assert_eq!((writer.late(), writer.last_ns()), (0, 59));
    assert!(writer.event(58, &TraceKind::SoftirqEntry { vec: 1 }));
    assert_eq!(writer.late(), 1);
}

/// Events of one time keep it as long as their packet does not begin with them.
#[test]
fn events_of_one_time_in_a_packet_keep_it() {
    let mut writer = StreamWriter::new(UUID, 1, 1 << 16, 50);
    for vec in 0..3 {
        assert!(writer.event(50, &TraceKind::SoftirqEntry { vec }));
    }
    writer.flush();
    assert!(writer.event(50, &TraceKind::SoftirqEntry { vec: 3 }));
    writer.flush();
    assert_eq!(read_back(&mut writer), [50, 50, 50, 51].map(|time_ns| (time_ns, 1, 0)));
}

/// babeltrace 2 puts packets into the order of their begins.
#[test]
fn no_two_packets_begin_at_once() {
    let mut writer = StreamWriter::new(UUID, 0, 4096, 100);
    for _ in 0..3 {
        writer.mark(100);
        writer.lost(1, 100, 100);
        writer.event(100, &TraceKind::SoftirqRaise { vec: 1 });
        writer.flush();
    }
    let packets = writer.take();
    let bounds = bounds(&packets);
    assert!(bounds.len() > 6 && bounds.is_sorted_by(|one, next| one.0 < next.0), "{bounds:?}");
    assert_eq!(packets.events(), 3);
}

#[test]
fn the_last_packet_ends_with_the_recording() {
    let mut writer = StreamWriter::new(UUID, 1, 1 << 16, 100);
    writer.end(150);
    assert_eq!(bounds(&writer.take()), [], "a CPU without events");
    writer.event(200, &TraceKind::SoftirqEntry { vec: 1 });
    writer.flush();
    let mut packets = writer.take();
    // What has no room goes, and the loss with it.
    writer.event(300, &TraceKind::SoftirqExit { vec: 1 });
    writer.lost(7, 350, 400);
    writer.flush();
    writer.withdraw();
    writer.end(250);
    assert_eq!(writer.discarded(), 0);
    packets.append(writer.take());
    assert_eq!((bounds(&packets), packets.events()), (vec![(100, 200), (200, 250)], 1));
    // The time before a loss is covered, too.
    writer.lost(7, 350, 400);
    writer.end(450);
    assert_eq!(bounds(&writer.take()), [(250, 350), (350, 400), (400, 450)]);
    writer.end(450);
    assert_eq!(bounds(&writer.take()), []);
}

/// A packet that counts a loss lasts as long as that, though it has its bytes before.
#[test]
fn a_loss_behind_a_whole_packet_is_counted() {
    let mut writer = StreamWriter::new(UUID, 0, 1, 10);
    writer.lost(5, 20, 100);
    writer.event(50, &TraceKind::SoftirqEntry { vec: 1 });
    writer.lost(7, 60, 100);
    writer.event(70, &TraceKind::SoftirqExit { vec: 1 });
    writer.end(100);
    assert_eq!(writer.discarded(), 12);
    let packets = writer.take();
    assert_eq!(bounds(&packets), [(10, 20), (20, 100)]);
    let layout = TraceLayout::parse(&metadata(UUID, &Origin::default())).unwrap();
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", packets.bytes())]);
    let loss = reader.read().and_then(|record| record.loss()).unwrap();
    assert_eq!((loss.events, loss.from_ns, loss.to_ns), (12, 20, 100));
}
