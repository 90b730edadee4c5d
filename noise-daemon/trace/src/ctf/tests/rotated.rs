//! Streams in several files, and packets that are passed over.

use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

use super::{COUNTED, Kind, Layout, Loss, Reader, StreamFile, packet};
use crate::record::Source as _;

/// What a reader of files that are named and lie so gives, from then on.
fn read(files: &[(String, Vec<u8>)], from_ns: u64) -> Vec<(u64, u32, Kind<'static>)> {
    let layout = Layout::parse(COUNTED).unwrap();
    let files: Vec<_> = files.iter().map(|(name, bytes)| StreamFile::held(name, bytes)).collect();
    let mut reader = Reader::from(&layout, &files, from_ns);
    let mut all = Vec::new();
    while let Some(record) = reader.read() {
        let kind = record.loss().map_or(Kind::Other("tick"), Kind::Lost);
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
        let wanted = |(time_ns, ..): &(u64, u32, Kind<'_>)| *time_ns >= from_ns;
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
fn unseen(layout: &str, firsts: &[(u64, u64)]) -> Vec<(u32, u64, u64)> {
    let layout = Layout::parse(layout).unwrap();
    let streams: Vec<Vec<u8>> = (0_u32..)
        .zip(firsts)
        .map(|(cpu, (begin, sequence))| {
            let mut bytes = packet(*begin, begin + 50, *sequence, 0, &[begin + 10, begin + 40]);
            bytes[48..52].copy_from_slice(&cpu.to_le_bytes());
            bytes
        })
        .collect();
    let files: Vec<_> = streams.iter().map(|bytes| StreamFile::held("channel", bytes)).collect();
    let mut reader = Reader::new(&layout, &files);
    let (mut losses, mut last_ns, mut is_begin) = (Vec::new(), 0, true);
    while let Some(record) = reader.read() {
        assert!(record.time_ns >= last_ns);
        last_ns = record.time_ns;
        is_begin &= record.loss().is_some();
        losses.extend(record.loss().filter(|_| is_begin).map(|loss| (record.cpu, loss)));
    }
    let base = 1_000_000_005;
    let unknown = losses.iter().filter(|(_, loss)| (loss.events, loss.packets) == (0, 0));
    unknown.map(|(cpu, loss)| (*cpu, loss.from_ns - base, loss.to_ns - base)).collect()
}

#[test]
fn a_cpu_whose_older_packets_were_overwritten_is_unseen_until_its_first_one() {
    let snapshot = [(100, 7), (180, 4), (150, 0), (105, 1), (130, 90)];
    assert_eq!(unseen(COUNTED, &snapshot), [(1, 110, 180), (4, 110, 130)]);
    // A session that is rotated begins on all CPUs at once, whenever the first event of each comes.
    assert_eq!(unseen(COUNTED, &[(100, 7), (103, 4), (104, 1)]), []);
    // Old tracers of LTTng do not number packets, others do not either.
    let unnumbered = COUNTED.replace("packet_seq_num", "other");
    assert_eq!(unseen(&unnumbered, &snapshot), []);
    let old = unnumbered.replace("clock {", "env { tracer_name = \"lttng-modules\"; };\n clock {");
    assert_eq!(unseen(&old, &[(100, 7), (180, 4)]), [(1, 110, 180)]);
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
        Kind::Lost(Loss { events, packets: 0, from_ns, to_ns })
    };
    let tick = Kind::Other("tick");
    assert_eq!(kinds, [lost(3, 28, 40), tick, lost(2, 40, 60), tick]);
}

#[test]
fn a_loss_behind_a_packet_without_an_end_begins_with_its_last_event() {
    let stream =
        [packet(10, 0, 0, 0, &[10, 17]), packet(30, 0, 1, 4, &[30]), packet(50, 60, 2, 4, &[50])];
    let all = read(&[("x".to_owned(), stream.concat())], 0);
    let loss = Loss { events: 4, packets: 0, from_ns: 1_000_000_022, to_ns: 1_000_000_055 };
    assert_eq!(all[2], (1_000_000_022, 7, Kind::Lost(loss)));
    assert_eq!(all.len(), 5);
}
