//! Streams in several files, and packets that are passed over.

use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

use super::{COUNTED, CtfReader, LostEvents, StreamFile, TraceKind, TraceLayout, packet};
use crate::record::Source as _;

/// Half a millisecond in cycles, and when the clock has its zero.
const UNIT: u64 = 500_000;
const BASE: u64 = 1_000_000_005;

/// What a reader of files that are named and lie so gives, from then on.
fn read(files: &[(String, Vec<u8>)], from_ns: u64) -> Vec<(u64, u32, TraceKind<'static>)> {
    let layout = TraceLayout::parse(COUNTED).unwrap();
    let files: Vec<_> = files.iter().map(|(name, bytes)| StreamFile::held(name, bytes)).collect();
    let mut reader = CtfReader::from(&layout, &files, from_ns);
    let mut all = Vec::new();
    while let Some(record) = reader.read() {
        let kind = record.loss().map_or(TraceKind::Other("tick"), TraceKind::Lost);
        all.push((record.time_ns, record.cpu, kind));
    }
    assert!(reader.damage().is_none(), "{}", reader.damage());
    let length: u64 = files.iter().map(|file| file.content.length()).sum();
    assert!(from_ns > 0 || reader.read_bytes() == length);
    all
}

/// A packet: how many events it lost, and how many it has.
fn packets() -> impl Strategy<Value = Vec<(u32, u64)>> {
    proptest::collection::vec((prop_oneof![2 => Just(0_u32), 1 => 1..9_u32], 1..4_u64), 1..12)
}

proptest! {
    #[test]
    fn what_is_lost_does_not_depend_on_where_files_end(
        packets in packets(),
        dropped in proptest::collection::vec(any::<bool>(), 12),
        ends in proptest::collection::vec(any::<bool>(), 12),
        first_name in 0..4_usize,
        numbered: bool,
        from in 0..140_u64,
    ) {
        let mut discarded = 0;
        let mut files = vec![Vec::new()];
        for (number, (lost, events)) in packets.iter().enumerate() {
            discarded += lost;
            let begin = 10 * number as u64 + 10;
            let times: Vec<u64> = (0..*events).map(|event| begin + event).collect();
            let sequence = if numbered { number as u64 } else { 0 };
            if !dropped[number] {
                let bytes = packet(begin, begin + 5, sequence, discarded, &times);
                files.last_mut().unwrap().extend(bytes);
            }
            if ends[number] && !files.last().unwrap().is_empty() {
                files.push(Vec::new());
            }
        }
        // Files that are used again have lower numbers than older ones.
        let count = files.len();
        let name = |number: usize| format!("channel_7_{}", (number + first_name) % count);
        let mut split: Vec<_> =
            files.iter().enumerate().map(|(number, bytes)| (name(number), bytes.clone())).collect();
        split.sort();
        let whole = vec![("channel_7".to_owned(), files.concat())];
        prop_assert_eq!(read(&split, 0), read(&whole, 0));
        prop_assert_eq!(read(&split, 1_000_000_005 + from), read(&whole, 1_000_000_005 + from));
    }

    #[test]
    fn whatever_packets_say_of_their_end_no_event_of_the_wanted_time_is_left_out(
        ends in proptest::collection::vec(prop_oneof![Just(0_u64), 0..150_u64], 1..12),
        from in 0..140_u64,
    ) {
        let mut stream = Vec::new();
        for (number, end) in (0..).zip(&ends) {
            let begin = 10 * number + 10;
            stream.extend(packet(begin, *end, number, 0, &[begin, begin + 9]));
        }
        let files = [("channel_7".to_owned(), stream)];
        let from_ns = 1_000_000_005 + from;
        let wanted = |(time_ns, ..): &(u64, u32, TraceKind<'_>)| *time_ns >= from_ns;
        let part: Vec<_> = read(&files, from_ns).into_iter().filter(wanted).collect();
        let all: Vec<_> = read(&files, 0).into_iter().filter(wanted).collect();
        prop_assert_eq!(part, all);
    }
}

#[test]
fn two_ring_buffers_of_one_name_are_no_rotation() {
    let one = [packet(10, 20, 0, 0, &[10]), packet(30, 40, 1, 0, &[30])].concat();
    let other = [packet(15, 25, 5, 90, &[15]), packet(35, 45, 6, 90, &[35])].concat();
    let files = [("channel_7_0".to_owned(), one), ("channel_7_1".to_owned(), other)];
    let times: Vec<u64> =
        read(&files, 0).iter().map(|(time_ns, ..)| time_ns - 1_000_000_005).collect();
    // First comes what was overwritten of the second one.
    assert_eq!(times, [10, 10, 15, 30, 35]);
}

/// What is not seen before the first event of all, of CPUs whose first packets here begin and are numbered so.
fn unseen(layout: &str, firsts: &[(u64, u64)], is_chunk: bool) -> Vec<(u32, u64, u64)> {
    let mut layout = TraceLayout::parse(layout).unwrap();
    layout.is_chunk = is_chunk;
    let streams: Vec<Vec<u8>> = (0_u32..)
        .zip(firsts)
        .map(|(cpu, (begin, sequence))| {
            let mut bytes = packet(*begin, begin + 50, *sequence, 0, &[begin + 10, begin + 40]);
            bytes[48..52].copy_from_slice(&cpu.to_le_bytes());
            bytes
        })
        .collect();
    unknown(&layout, &streams, true)
}

/// What is lost without a number, in front of all events or behind the first one.
fn unknown(layout: &TraceLayout, streams: &[Vec<u8>], is_begin: bool) -> Vec<(u32, u64, u64)> {
    let files: Vec<_> = streams.iter().map(|bytes| StreamFile::held("channel", bytes)).collect();
    let mut reader = CtfReader::new(layout, &files);
    let (mut losses, mut last_ns, mut has_begun) = (Vec::new(), 0, false);
    while let Some(next_ns) = reader.next_ns() {
        let record = reader.read().unwrap();
        assert_eq!(record.time_ns, next_ns);
        assert!(record.time_ns >= last_ns);
        last_ns = record.time_ns;
        has_begun |= record.loss().is_none();
        losses
            .extend(record.loss().filter(|_| is_begin != has_begun).map(|loss| (record.cpu, loss)));
    }
    assert!(reader.read().is_none());
    let unknown = losses.iter().filter(|(_, loss)| (loss.events, loss.packets) == (0, 0));
    unknown.map(|(cpu, loss)| (*cpu, loss.from_ns - BASE, loss.to_ns - BASE)).collect()
}

#[test]
fn a_cpu_whose_older_packets_were_overwritten_is_unseen_until_its_first_one() {
    let snapshot = [(100, 7), (180, 4), (150, 0), (105, 1), (130, 90)];
    assert_eq!(unseen(COUNTED, &snapshot, false), [(1, 110, 180), (4, 110, 130)]);
    assert_eq!(unseen(COUNTED, &[(100, 7), (103, 4), (104, 1)], false), []);
    // A chunk of a session begins on all CPUs at once, whenever the first event of each comes.
    assert_eq!(unseen(COUNTED, &snapshot, true), []);
    // Old tracers of LTTng do not number packets, others do not either.
    let unnumbered = COUNTED.replace("packet_seq_num", "other");
    assert_eq!(unseen(&unnumbered, &snapshot, false), []);
    assert_eq!(unseen(&by("lttng-modules"), &[(100, 7), (180, 4)], false), [(1, 110, 180)]);
}

/// Packets without numbers, and who recorded them.
fn by(tracer: &str) -> String {
    let env = format!("env {{ tracer_name = \"{tracer}\"; }};\n clock {{");
    COUNTED.replace("packet_seq_num", "other").replace("clock {", &env)
}

/// One stream for each CPU: packets from one unit to another, each with an event at its begin.
fn streams(cpus: &[&[(u64, u64)]]) -> Vec<Vec<u8>> {
    let of_cpu = |(cpu, packets): (u32, &&[(u64, u64)])| {
        let packets = (0..).zip(packets.iter()).map(|(number, (begin, end))| {
            let mut bytes = packet(begin * UNIT, end * UNIT, number, 0, &[begin * UNIT]);
            bytes[48..52].copy_from_slice(&cpu.to_le_bytes());
            bytes
        });
        packets.flatten().collect()
    };
    (0_u32..).zip(cpus).map(of_cpu).collect()
}

/// CPUs of which nothing is seen from a unit on, up to another.
fn unseen_behind(layout: &str, streams: &[Vec<u8>]) -> Vec<(u32, u64, u64)> {
    let layout = TraceLayout::parse(layout).unwrap();
    let all = unknown(&layout, streams, false).into_iter();
    all.map(|(cpu, from, to)| (cpu, from / UNIT, to / UNIT)).collect()
}

#[test]
fn a_cpu_whose_packets_end_long_before_those_of_others_is_unseen_from_there_on() {
    let cut = streams(&[
        &[(0, 10), (10, 20), (20, 25), (25, 31)],
        &[(0, 10)],
        &[(0, 10), (10, 20)],
        &[(0, 10), (10, 20), (20, 30)],
    ]);
    assert_eq!(unseen_behind(COUNTED, &cut), [(1, 10, 25), (2, 20, 25)]);
    assert_eq!(unseen_behind(&by("lttng-modules"), &cut), [(1, 10, 25), (2, 20, 25)]);
    // There packets end with their last events.
    assert_eq!(unseen_behind(&by("perf"), &cut), []);
    let is_perfs = |layout| TraceLayout::parse(layout).unwrap().is_perfs();
    assert_eq!([&by("perf"), &by("lttng-modules"), COUNTED].map(is_perfs), [true, false, false]);
}

#[test]
fn an_idle_cpu_is_seen_up_to_the_end_of_its_last_packet() {
    let idle = streams(&[&[(0, 10), (10, 61), (61, 90)], &[(0, 61)], &[(0, 63), (63, 90)]]);
    assert_eq!(unseen_behind(COUNTED, &idle[..2]), []);
    assert_eq!(unseen_behind(COUNTED, &idle), [(1, 61, 63)]);
    // Buffers of a crashed tracer have no ends.
    let crashed = streams(&[&[(0, 10), (10, 20), (20, 0)], &[(0, 10), (10, 0)]]);
    assert_eq!(unseen_behind(COUNTED, &crashed), []);
    // Where a timer closes packets, there are none while a CPU is idle.
    let timed =
        |last| streams(&[&[(0, 10), (10, 20), (20, last), (last, 90)], &[(0, 2), (12, 14)]]);
    assert_eq!(unseen_behind(COUNTED, &timed(34)), []);
    assert_eq!(unseen_behind(COUNTED, &timed(35)), [(1, 14, 35)]);
}

#[test]
fn a_cpu_whose_file_was_cut_is_unseen_behind_its_last_event() {
    let whole = streams(&[&[(0, 10), (10, 11), (11, 12)], &[(0, 10), (10, 12)]]);
    let length = whole[1].len();
    for (left, from) in [(length - 1, 10), (length - 12, 10), (length / 2 + 1, 0)] {
        let mut cut = whole.clone();
        cut[1].truncate(left);
        for layout in [COUNTED, &by("perf")] {
            assert_eq!(unseen_behind(layout, &cut), [(1, from, 11)], "{left} of {length} bytes");
        }
    }
    // What is left out of a packet on the way is unseen up to the next one.
    let mut damaged = whole;
    damaged[1][20..28].copy_from_slice(&(8 * 63_u64).to_le_bytes());
    assert_eq!(unseen_behind(COUNTED, &damaged), [(1, 0, 10)]);
}

#[test]
fn a_cpu_without_a_single_event_is_unseen_from_the_first_of_others_on() {
    let whole = streams(&[&[(2, 10), (10, 12)], &[(0, 1)], &[(0, 1)]]);
    let mut cut = whole.clone();
    for stream in &mut cut[1..] {
        stream.truncate(stream.len() - 1);
    }
    assert_eq!(unseen_behind(COUNTED, &cut), [(1, 2, 10), (2, 2, 10)]);
    // It is no begin that was overwritten.
    let layout = TraceLayout::parse(COUNTED).unwrap();
    assert_eq!(unknown(&layout, &cut, true), []);
}

#[test]
fn what_is_unseen_lasts_up_to_the_last_event_that_can_be_read() {
    // The last packet of the first CPU has no more than its begin.
    let mut cut = streams(&[&[(0, 10), (10, 20), (20, 30)], &[(0, 5)]]);
    let length = cut[0].len();
    cut[0].truncate(length - 1);
    let layout = TraceLayout::parse(COUNTED).unwrap();
    assert_eq!(unknown(&layout, &cut, false), [(1, 5 * UNIT, 10 * UNIT + 1)]);
}

#[test]
fn packets_before_the_wanted_time_are_passed_over() {
    let stream = [
        packet(10, 20, 0, 0, &[10]),
        packet(22, 28, 1, 0, &[22]),
        packet(30, 40, 2, 3, &[30]),
        packet(50, 60, 3, 5, &[50]),
    ];
    let files = [("x".to_owned(), stream.concat())];
    let kinds: Vec<_> =
        read(&files, 1_000_000_005 + 45).into_iter().map(|(.., kind)| kind).collect();
    let lost = |events, from: u64, to: u64| {
        let (from_ns, to_ns) = (1_000_000_005 + from, 1_000_000_005 + to);
        TraceKind::Lost(LostEvents { events, packets: 0, from_ns, to_ns })
    };
    let tick = TraceKind::Other("tick");
    assert_eq!(kinds, [lost(3, 28, 40), tick, lost(2, 40, 60), tick]);
}

#[test]
fn a_loss_behind_a_packet_without_an_end_begins_with_its_last_event() {
    let stream =
        [packet(10, 0, 0, 0, &[10, 17]), packet(30, 0, 1, 4, &[30]), packet(50, 60, 2, 4, &[50])];
    let all = read(&[("x".to_owned(), stream.concat())], 0);
    let loss = LostEvents { events: 4, packets: 0, from_ns: 1_000_000_022, to_ns: 1_000_000_055 };
    assert_eq!(all[2], (1_000_000_022, 7, TraceKind::Lost(loss)));
    assert_eq!(all.len(), 5);
}
