//! Files that are read in windows.

use std::cell::Cell;
use std::io;

use proptest::prelude::{any, prop_assert_eq, proptest};

use super::written::Written;
use super::{COUNTED, CtfReader, Shown, StreamFile, TraceLayout, packet, set_sizes, traces};
use crate::damage::Damage;
use crate::record::Source as _;
use crate::window::cut::Cut;
use crate::window::{Content, ReadAt};

/// All that is shown of a trace.
type All = (Vec<(u64, u32, String, Vec<String>)>, Damage);

fn all(mut reader: CtfReader<'_>) -> All {
    let mut all = Vec::new();
    while let Some(record) = reader.read() {
        let mut shown = Shown::default();
        record.visit_contexts(&mut shown, |_| ());
        record.visit(&mut shown);
        all.push((record.time_ns, record.cpu, format!("{:?}", record.kind()), shown.0));
    }
    (all, reader.damage())
}

fn held(layout: &TraceLayout, bytes: &[u8], from_ns: u64) -> All {
    all(CtfReader::from(layout, &[StreamFile::held("channel0_3", bytes)], from_ns))
}

fn in_windows(layout: &TraceLayout, file: &Cut<'_>, from_ns: u64, window: usize) -> All {
    let file = StreamFile { name: "channel0_3", content: Content::Read(file) };
    all(CtfReader::in_windows(layout, &[file], from_ns, window))
}

proptest! {
    #[test]
    fn all_windows_show_what_the_whole_file_does(
        (trace, events) in traces(),
        window in 1..300_usize,
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4),
        end in any::<u16>(),
        from: u32,
    ) {
        let Written { metadata, mut stream, .. } = trace.write(&events);
        let layout = TraceLayout::parse(&metadata).unwrap();
        let whole = held(&layout, &stream, 0);
        prop_assert_eq!(&in_windows(&layout, &Cut::never(&stream), 0, window), &whole);
        let from_ns = whole.0[from as usize % whole.0.len()].0;
        let part = held(&layout, &stream, from_ns);
        prop_assert_eq!(in_windows(&layout, &Cut::never(&stream), from_ns, window), part);
        for (at, byte) in changes {
            let at = usize::from(at) % stream.len();
            stream[at] = byte;
        }
        stream.truncate(usize::from(end) % (2 * stream.len()));
        let damaged = held(&layout, &stream, 0);
        prop_assert_eq!(in_windows(&layout, &Cut::never(&stream), 0, window), damaged);
    }

    #[test]
    fn what_was_cut_off_meanwhile_is_counted(
        packets in 1..6_u64,
        events in 1..40_u64,
        window in 1..600_usize,
        reads in 1..40_usize,
        to: u16,
        is_broken: bool,
    ) {
        let times = |number: u64| (0..events).map(move |event| 1000 * number + event);
        let packets = (1..=packets).map(|number| {
            packet(1000 * number, 1000 * number + 999, number, 0, &times(number).collect::<Vec<_>>())
        });
        let stream: Vec<u8> = packets.flatten().collect();
        let layout = TraceLayout::parse(COUNTED).unwrap();
        let to = usize::from(to) % stream.len();
        let file = Cut { bytes: &stream, reads: Cell::new(reads), to, is_broken };
        let (read, damage) = in_windows(&layout, &file, 0, window);
        let (whole, _) = held(&layout, &stream, 0);
        prop_assert_eq!(&read, &whole[..read.len()]);
        if read.len() == whole.len() {
            prop_assert_eq!(damage, Damage::default());
            return Ok(());
        }
        // What was read before it was cut may reach further.
        let missing = damage.missing_bytes as usize;
        assert!((1..=stream.len() - to).contains(&missing), "{missing}: {damage}");
        prop_assert_eq!(damage.sentences.len(), 1, "{}", &damage);
        let why = if is_broken { "(the disk fails)" } else { "became shorter while it was read" };
        assert!(damage.to_string().contains(why), "{damage}");
    }
}

#[test]
fn a_file_without_sizes_of_packets_is_one_packet_of_any_length() {
    /// Ends with zeros for ever: events of the time 0.
    struct Long(Cell<u64>);

    impl ReadAt for Long {
        fn length(&self) -> u64 {
            1 << 40
        }

        fn read_at(&self, into: &mut [u8], _: u64) -> io::Result<usize> {
            self.0.set(self.0.get().max(into.len() as u64));
            into.fill(0);
            Ok(into.len())
        }
    }

    let metadata = COUNTED.replace("packet.header := struct { uint32_t magic; };", "");
    let begin = metadata.find("packet.context").unwrap();
    let end = metadata.find("event.header").unwrap();
    let layout = TraceLayout::parse(&(metadata[..begin].to_owned() + &metadata[end..])).unwrap();
    let file = Long(Cell::new(0));
    let files = [StreamFile { name: "x", content: Content::Read(&file) }];
    let mut reader = CtfReader::new(&layout, &files);
    for _ in 0..1_000_000 {
        assert!(reader.read().is_some());
    }
    assert!(reader.read_bytes() >= 12_000_000 - 12);
    assert!(file.0.get() <= 256 << 10, "{} bytes at once", file.0.get());
}

#[test]
fn an_event_that_is_too_long_costs_no_more_than_one_may_have() {
    let layout =
        TraceLayout::parse(&COUNTED.replace("uint32_t _number;", "string _text;")).unwrap();
    let mut bytes = packet(10, 20, 0, 0, &[10]);
    bytes.extend(vec![1; 9 << 20]);
    set_sizes(&mut bytes);
    let expected = held(&layout, &bytes, 0);
    assert!(expected.1.to_string().contains("an event is longer than 1 MiB"), "{}", expected.1);
    for window in [1, 4096, 256 << 10] {
        assert_eq!(in_windows(&layout, &Cut::never(&bytes), 0, window), expected);
    }
}
