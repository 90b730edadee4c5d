//! Fields without a size: they take time, and no place in the file.

use std::fmt::Write as _;

use super::{COUNTED, CtfReader, Shown, StreamFile, TraceLayout, packet, set_sizes};
use crate::record::Source as _;

/// Many elements, each a byte and so many sequences that have as many elements as that says.
fn layout(sequences: usize) -> TraceLayout {
    let mut fields = String::from("uint32_t _count; struct { uint8_t _none; ");
    for number in 0..sequences {
        let _ = write!(fields, "uint8_t _s{number}[ _none ]; ");
    }
    fields.push_str("} _all[ _count ];");
    let byte = "typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n";
    let types = COUNTED.replace("/* CTF 1.8 */", &format!("/* CTF 1.8 */ {byte}"));
    TraceLayout::parse(&types.replace("uint32_t _number;", &fields)).unwrap()
}

/// A packet with one event of so many elements, and one without any.
fn stream(elements: u32) -> Vec<u8> {
    let mut bytes = packet(10, 30, 0, 0, &[10]);
    let count = bytes.len() - 4;
    bytes.truncate(count);
    bytes.extend(elements.to_le_bytes());
    bytes.resize(bytes.len() + elements as usize, 0);
    bytes.extend(20_u64.to_le_bytes());
    bytes.extend(0_u32.to_le_bytes());
    set_sizes(&mut bytes);
    bytes
}

/// Words that are shown of each event, and what could not be read.
fn read(sequences: usize, elements: u32) -> (Vec<usize>, String) {
    let (layout, stream) = (layout(sequences), stream(elements));
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", &stream)]);
    let mut words = Vec::new();
    while let Some(record) = reader.read() {
        let mut shown = Shown::default();
        record.visit(&mut shown);
        words.push(shown.0.len());
    }
    (words, reader.damage().to_string())
}

#[test]
fn an_event_with_too_many_fields_without_a_size_is_no_event() {
    // For each element its number, begin and end of its structure, a byte, and sequences.
    let shown = |sequences: usize, elements: usize| 5 + elements * (5 + 3 * sequences);
    assert_eq!(read(2, 3000), (vec![shown(2, 3000), shown(2, 0)], String::new()));
    assert_eq!(read(100, 1), (vec![shown(100, 1), shown(100, 0)], String::new()));
    // Thousands of millions of fields.
    let (words, damage) = read(5_000, 1_000_000);
    assert_eq!(words, [0; 0]);
    assert!(damage.contains("an event has too many fields without a size, at byte 52"), "{damage}");
}

#[test]
fn a_layout_with_too_many_fields_without_a_size_is_refused() {
    let parsed =
        |fields: &str| TraceLayout::parse(&COUNTED.replace("uint32_t _number;", fields)).map(drop);
    let empty = |count: usize| {
        (0..count).fold(String::new(), |mut all, number| {
            let _ = write!(all, "struct {{ }} _e{number}; ");
            all
        })
    };
    assert!(parsed(&empty(256)).is_ok());
    assert!(parsed(&format!("uint32_t _number; {}", empty(280))).is_ok());
    for fields in [
        empty(257),
        format!("uint32_t _number; {}", empty(300)),
        format!("struct {{ uint32_t _number; {} }} _many[1000];", empty(40)),
        format!("uint32_t _count; struct {{ struct {{ {} }} _in; }} _many[ _count ];", empty(300)),
    ] {
        let error = parsed(&fields).unwrap_err().to_string();
        assert!(error.contains("have no size"), "{error}");
    }
}
