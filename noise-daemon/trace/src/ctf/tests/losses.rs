//! What was lost or cannot be read, where it comes among the events, and of which CPUs it is.

use super::written::{Header, Order, Trace, Written};
use super::{COUNTED, CtfReader, StreamFile, TraceLayout, packet};
use crate::event::{LostEvents, TraceKind};
use crate::record::Source as _;
use crate::summary::UnreadDocument;

fn kinds(stream: &[u8]) -> Vec<(u64, TraceKind<'static>)> {
    let layout = TraceLayout::parse(COUNTED).unwrap();
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", stream)]);
    let mut all = Vec::new();
    while let Some(record) = reader.read() {
        all.push((record.time_ns, record.loss().map_or(TraceKind::Other("tick"), TraceKind::Lost)));
    }
    all
}

#[test]
fn lost_events_come_at_their_place() {
    let base = 1_000_000_005;
    let stream = [
        packet(10, 20, 0, 2, &[10, 20]),
        packet(30, 40, 1, 2, &[30]),
        packet(50, 60, 2, 9, &[50]),
        // Two packets are missing, and the counter of 32 bits began again.
        packet(70, 80, 5, 4, &[70]),
    ]
    .concat();
    let tick = |time: u64| (base + time, TraceKind::Other("tick"));
    let lost = |at: u64, events, packets, from: u64, to: u64| {
        let loss = LostEvents { events, packets, from_ns: base + from, to_ns: base + to };
        (base + at, TraceKind::Lost(loss))
    };
    let expected = [
        lost(10, 2, 0, 10, 20),
        tick(10),
        tick(20),
        tick(30),
        lost(40, 7, 0, 40, 60),
        tick(50),
        lost(60, u64::from(u32::MAX) - 4, 2, 60, 80),
        tick(70),
    ];
    assert_eq!(kinds(&stream), expected);
}

#[test]
fn a_loss_comes_no_later_than_the_packet_that_counts_it() {
    let stream = [packet(10, 1 << 40, 0, 0, &[10]), packet(30, 40, 1, 7, &[30, 35])].concat();
    let times: Vec<_> = kinds(&stream).into_iter().map(|(time_ns, _)| time_ns).collect();
    assert_eq!(times, [10, 30, 30, 35].map(|time| 1_000_000_005 + time));
}

#[test]
fn what_a_snapshot_lost_before_its_first_packet_is_not_its_own() {
    assert_eq!(kinds(&packet(10, 20, 4, 100, &[10])).len(), 1);
}

#[test]
fn a_damaged_packet_does_not_hide_the_next_one() {
    let trace = Trace { order: Order::Little, header: Header::Plain, per_packet: 1 };
    let events = [const { (Vec::new(), 1, false) }; 2];
    let Written { metadata, mut stream, events } = trace.write(&events);
    let whole = stream.clone();
    stream[0] ^= 0xff;
    let layout = TraceLayout::parse(&metadata).unwrap();
    // Behind another one, what is between them is lost.
    let read = [whole, stream.clone()].concat();
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", &read)]);
    let is_loss = [(); 4].map(|()| reader.read().map(|record| record.loss().is_some()));
    assert_eq!(is_loss, [Some(false), Some(false), Some(true), Some(false)]);
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", &stream)]);
    assert_eq!(reader.read().map(|record| record.time_ns), Some(events[1].0));
    assert_eq!(reader.damage().unread_bytes, stream.len() as u64 / 2);
    let said = reader.damage().to_string();
    assert!(said.contains(" is not read from its begin on: no packet at byte 0"), "{said}");
}

#[test]
fn where_streams_end_too_early_is_said_with_cpu_and_time() {
    let layout = TraceLayout::parse(COUNTED).unwrap();
    let stream = |cpu: u32, times: &[u64]| {
        let mut bytes = packet(times[0], 9_000_000, 0, 0, times);
        bytes[48..52].copy_from_slice(&cpu.to_le_bytes());
        bytes
    };
    let first = stream(0, &[1_000_000, 2_000_000, 9_000_000]);
    // Cut within its last event, behind an event, and in the head of its second packet.
    let (second, third) = (stream(1, &[2_000_000, 3_000_000]), stream(2, &[4_000_000, 5_000_000]));
    let fourth = [stream(3, &[6_000_000]), stream(3, &[7_000_000])].concat();
    let length = |bytes: &[u8], less: usize| bytes.len() - less;
    let files = [
        StreamFile::held("a_0", &first),
        StreamFile::held("a_1", &second[..length(&second, 5)]),
        StreamFile::held("a_2", &third[..length(&third, 12)]),
        StreamFile::held("a_3", &fourth[..fourth.len() / 2 + 30]),
    ];
    // Also where what lies before was passed over.
    for from_ns in [0, 1_004_000_000] {
        let mut reader = CtfReader::from(&layout, &files, from_ns);
        let mut events = 0;
        while let Some(record) = reader.read() {
            events += usize::from(record.loss().is_none());
        }
        assert_eq!(events, 6);
        let damage = reader.damage();
        let cut: Vec<_> = damage.cuts.iter().map(|cut| (cut.cpu, cut.from_ns)).collect();
        let at = |time: u64| Some(1_000_000_005 + time);
        assert_eq!(cut, [(1, at(2_000_000)), (2, at(4_000_000)), (3, at(6_000_000))]);
        let expected = "37 bytes are not read, 17 bytes are missing (a_1 of CPU 1 is not read from +0.001000s on: the \
                        file ends within the packet at byte 0; 7 bytes are not read, 5 are missing; a_2 of CPU 2 is not \
                        read from +0.003000s on: the file ends within the packet at byte 0; 12 bytes are missing; a_3 \
                        of CPU 3 is not read from +0.005000s on: no packet at byte 64: the file ends within its header; \
                        30 bytes are not read)";
        assert_eq!(damage.to_string(), expected);
        let documented = serde_json::to_value(UnreadDocument::of(&damage)).unwrap();
        assert_eq!(documented["cuts"][0]["stream"], "a_1");
        assert_eq!(documented["cuts"][0]["from_ns"], 1_002_000_005);
    }
    let mut reader = CtfReader::new(&layout, &files);
    assert!(reader.read().is_some() && reader.damage().is_none(), "what is read so far is whole");
}

#[test]
fn a_packet_without_what_fills_it_up_is_whole() {
    let layout = TraceLayout::parse(COUNTED).unwrap();
    let mut full = packet(10, 20, 0, 0, &[10, 15]);
    let content = full.len();
    full.resize(content + 40, 0);
    let bits = 8 * full.len() as u64;
    full[28..36].copy_from_slice(&bits.to_le_bytes());
    let mut other = packet(10, 30, 0, 0, &[10, 30]);
    other[48..52].copy_from_slice(&3_u32.to_le_bytes());
    let read = |left: usize| {
        let files = [StreamFile::held("a_3", &other), StreamFile::held("a_7", &full[..left])];
        let mut reader = CtfReader::new(&layout, &files);
        let mut all = Vec::new();
        while let Some(record) = reader.read() {
            all.push((record.time_ns, record.cpu, record.loss()));
        }
        (all, reader.damage())
    };
    let whole = read(full.len());
    assert!(whole.1.is_none(), "{}", whole.1);
    for left in content..full.len() {
        assert_eq!(read(left), whole, "{left} bytes");
    }
    assert_eq!(read(content - 1).1.missing_bytes, 41);
}

#[test]
fn what_is_lost_may_be_of_any_cpu_that_events_name() {
    let metadata = COUNTED.replace(" uint32_t cpu_id;", "").replace("_number", "cpu_id");
    let packet = |begin: u64, discarded: u32, cpus: &[u32]| {
        let mut bytes = packet(begin, begin + 10, 0, discarded, &vec![begin; cpus.len()]);
        for (number, cpu) in cpus.iter().enumerate() {
            let at = 52 + 12 * number + 8;
            bytes[at..at + 4].copy_from_slice(&cpu.to_le_bytes());
        }
        bytes.drain(48..52);
        let bits = 8 * bytes.len() as u64;
        for at in [20, 28] {
            bytes[at..at + 8].copy_from_slice(&bits.to_le_bytes());
        }
        bytes
    };
    let layout = TraceLayout::parse(&metadata).unwrap();
    let stream = [packet(10, 0, &[1, 0, 5]), packet(20, 3, &[2])].concat();
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", &stream)]);
    let mut losses = Vec::new();
    while let Some(record) = reader.read() {
        losses.extend(record.loss().map(|loss| (record.cpu, loss.events)));
    }
    assert_eq!(losses, [(0, 3), (1, 0), (5, 0)]);
}

#[test]
fn what_cannot_be_read_is_lost() {
    let base = 1_000_000_005;
    let (from_ns, to_ns) = (base + 31, base + 50);
    let lost = (from_ns, TraceKind::Lost(LostEvents { events: 0, packets: 0, from_ns, to_ns }));
    let tick = |time: u64| (base + time, TraceKind::Other("tick"));
    let mut stream = [10, 30, 50].map(|at| packet(at, at + 10, at / 20, 0, &[at + 1, at + 2]));
    // The second event of a packet lies beyond its end.
    stream[1][20] -= 8;
    let read = [tick(11), tick(12), tick(31), lost, tick(51), tick(52)];
    assert_eq!(kinds(&stream.concat()), read);
}
