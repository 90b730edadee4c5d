//! Streams in several files, and packets that are passed over.

use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

use super::{COUNTED, Kind, Layout, Loss, Reader, StreamFile, packet};
use crate::record::Source as _;

/// What a reader of files that are named and lie so gives, from then on.
fn read(files: &[(String, Vec<u8>)], from_ns: u64) -> Vec<(u64, u32, Kind<'static>)> {
    let layout = Layout::parse(COUNTED).unwrap();
    let files: Vec<_> = files.iter().map(|(name, bytes)| StreamFile { name, bytes }).collect();
    let mut reader = Reader::from(&layout, &files, from_ns);
    let all = reader.by_ref().map(|record| {
        let kind = match record.kind() {
            Kind::Lost(loss) => Kind::Lost(loss),
            _ => Kind::Other("tick"),
        };
        (record.time_ns, record.cpu, kind)
    });
    let all = all.collect();
    assert!(reader.damage().is_none(), "{}", reader.damage());
    for (number, file) in files.iter().enumerate() {
        assert!(from_ns > 0 || reader.read_bytes(number) == file.bytes.len());
    }
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
    assert_eq!(times, [10, 15, 30, 35]);
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
