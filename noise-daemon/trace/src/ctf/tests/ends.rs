//! What would cost time or memory without end.

use super::written::{Header, Order, Trace, Written};
use super::{COUNTED, CtfReader, Shown, StreamFile, TraceLayout, packet, set_sizes};
use crate::record::Source as _;

#[test]
fn what_chooses_among_many_options_has_an_end() {
    let with = |labels: &str, variants: &str| {
        COUNTED.replace(
            "uint32_t _number;",
            &format!("enum : uint32_t {{ {labels} }} tag; {variants}"),
        )
    };
    // Options of one name, of which each had all the numbers of that name.
    let many = 20_000;
    let option = "uint32_t A; ".repeat(many);
    let metadata = with(&"A, ".repeat(many), &format!("variant <tag> {{ {option} }} value;"));
    let layout = TraceLayout::parse(&metadata).unwrap();
    let mut bytes = packet(10, 20, 0, 0, &[10]);
    let last = bytes.len() - 4;
    bytes.splice(last.., [many as u32 - 1, 7].iter().flat_map(|number| number.to_le_bytes()));
    set_sizes(&mut bytes);
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", &bytes)]);
    let mut shown = Shown::default();
    reader.read().unwrap().visit(&mut shown);
    assert_eq!(shown.0[3..], ["begin Option", "A", "7/10", "end Option"]);
    // Variants of one tag, whose name has numbers that are far apart.
    let labels: String = (0..1_000).map(|number| format!("A = {}, ", 2 * number)).collect();
    let variants = |count: usize| -> String {
        (0..count).map(|number| format!("variant <tag> {{ uint32_t A; }} v{number}; ")).collect()
    };
    assert!(TraceLayout::parse(&with(&labels, &variants(100))).is_ok());
    let error = TraceLayout::parse(&with(&labels, &variants(1_000))).unwrap_err().to_string();
    assert!(error.contains("too many"), "{error}");
}

#[test]
fn begins_that_lead_nowhere_have_an_end() {
    let trace = Trace { order: Order::Little, header: Header::Plain, per_packet: 1 };
    let events = [(Vec::new(), 1, false), (Vec::new(), 1, false)];
    let Written { metadata, stream, events } = trace.write(&events);
    let layout = TraceLayout::parse(&metadata).unwrap();
    // Magic, number of the trace, and a stream that it does not have.
    let mut begin = stream[..20].to_vec();
    begin.extend([0xff; 12]);
    let read = |stream: &[u8]| {
        let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", stream)]);
        let mut times = Vec::new();
        while let Some(record) = reader.read() {
            times.extend(record.loss().is_none().then_some(record.time_ns));
        }
        (times, reader.damage())
    };
    let (times, damage) = read(&begin.repeat(10_000));
    assert_eq!((times.len(), damage.unread_bytes), (0, 320_000));
    assert!(damage.sentences.len() as u64 + damage.more < 100, "{damage}");
    // A few between whole packets are passed over, again and again.
    let (one, other) = stream.split_at(stream.len() / 2);
    let few = begin.repeat(40);
    let (times, damage) = read(&[one, &few, other, &few].concat());
    assert_eq!(times, [events[0].0, events[1].0]);
    assert_eq!(damage.unread_bytes, 2 * few.len() as u64);
}
