//! Generated layouts, written by code of the tests and read again; and what layouts may say.

mod apart;
mod empty;
mod ends;
mod losses;
mod named;
mod rotated;
mod windows;
mod written;

use proptest::prelude::*;

use self::written::{Field, Header, Order, Trace, Written};
use super::*;
use crate::damage::Damage;
use crate::event::{Comm, LostEvents, Task, TraceKind};
use crate::record::Source as _;
use crate::state::LeftIn;
use crate::value::{Shape, Value, Visit};

/// All that is shown of an event, as words.
#[derive(Default)]
struct Shown(Vec<String>);

impl Visit for Shown {
    fn name(&mut self, name: &str) {
        self.0.push(name.strip_prefix('_').unwrap_or(name).to_owned());
    }
    fn element(&mut self, number: u64) {
        self.0.push(format!("[{number}]"));
    }
    fn value(&mut self, value: Value<'_>) {
        self.0.push(match value {
            Value::Unsigned { value, base } => format!("{value}/{base}"),
            Value::Signed { value, base, bits } => format!("{value}/{base}/{bits}"),
            Value::Float(value) => format!("{value:?}"),
            Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
            Value::Label { label, .. } => format!("{label:?}"),
        });
    }
    fn begin(&mut self, shape: Shape) {
        self.0.push(format!("begin {shape:?}"));
    }
    fn end(&mut self, shape: Shape) {
        self.0.push(format!("end {shape:?}"));
    }
}

fn field() -> impl Strategy<Value = Field> {
    let align = prop_oneof![Just(1_u32), Just(8), Just(16), Just(32), Just(64)];
    let integer = (1..=64_u32, align, any::<bool>(), any::<u64>(), any::<bool>());
    let leaf = prop_oneof![
        4 => integer.prop_map(|(size, align, signed, value, other)| {
            Field::Int { size, align, signed, value, other }
        }),
        1 => any::<f64>().prop_map(Field::Double),
        1 => any::<f32>().prop_map(Field::Single),
        2 => "[a-z ]{0,12}".prop_map(Field::Text),
        1 => "[a-z]{0,15}".prop_map(Field::Characters),
        1 => (1..=40_u32, proptest::collection::vec(any::<u64>(), 0..5))
            .prop_map(|(size, values)| Field::Array { size, values }),
        2 => (1..=40_u32, proptest::collection::vec(any::<u64>(), 0..5))
            .prop_map(|(size, values)| Field::Sequence { size, values }),
        1 => (0..5_u64).prop_map(Field::Enum),
    ];
    leaf.prop_recursive(2, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Field::Struct),
            (0..3_u64, proptest::collection::vec(inner.clone(), 3..4))
                .prop_map(|(tag, options)| Field::Variant { tag, options }),
            proptest::collection::vec("[a-z]{0,5}", 0..4).prop_map(Field::Texts),
        ]
    })
}

/// A trace in some layout, and the events that are written to it.
fn traces() -> impl Strategy<Value = (Trace, Vec<(Vec<Field>, u64, bool)>)> {
    let order = prop_oneof![Just(Order::Little), Just(Order::Big)];
    let header = prop_oneof![Just(Header::Compact), Just(Header::Large), Just(Header::Plain)];
    let trace = (order, header, 1..6_usize).prop_map(|(order, header, per_packet)| Trace {
        order,
        header,
        per_packet,
    });
    let event = (proptest::collection::vec(field(), 0..6), 0..1_u64 << 34, any::<bool>());
    (trace, proptest::collection::vec(event, 1..20))
}

proptest! {
    #[test]
    fn what_was_written_is_read(
        (trace, events) in traces(),
        packets_in_metadata: bool,
    ) {
        let Written { metadata, stream, events } = trace.write(&events);
        let metadata = match packets_in_metadata {
            true => trace.in_packets(&metadata),
            false => metadata.into_bytes(),
        };
        let text = metadata::text(&metadata).unwrap();
        let layout = TraceLayout::parse(&text).map_err(|error| {
            TestCaseError::fail(format!("{error}\n{text}"))
        })?;
        let files = [StreamFile::held("channel0_3", &stream)];
        let mut reader = CtfReader::new(&layout, &files);
        for (number, (time_ns, words)) in events.iter().enumerate() {
            let damage = reader.damage();
            let record = reader.read();
            let record = record.ok_or_else(|| {
                TestCaseError::fail(format!("no event {number}: {damage:?}\n{text}"))
            })?;
            let mut shown = Shown::default();
            record.visit(&mut shown);
            prop_assert_eq!(record.time_ns, *time_ns, "event {} of\n{}", number, text);
            prop_assert_eq!(record.cpu, 3);
            prop_assert_eq!(&shown.0, words, "event {} of\n{}", number, text);
        }
        prop_assert!(reader.read().is_none());
        let damage = reader.damage();
        prop_assert_eq!(damage.without_cpu, events.len() as u64);
        let all = Damage { without_cpu: damage.without_cpu, sentences: damage.sentences.clone(), ..Damage::default() };
        prop_assert_eq!((&damage, damage.sentences.len()), (&all, 1));
    }

    #[test]
    fn changed_bytes_do_no_harm(
        events in proptest::collection::vec(
            (proptest::collection::vec(field(), 0..6), 0..1_u64 << 28, any::<bool>()),
            1..10,
        ),
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..8),
        end in any::<u16>(),
    ) {
        let trace = Trace { order: Order::Little, header: Header::Compact, per_packet: 3 };
        let Written { metadata, mut stream, .. } = trace.write(&events);
        for (at, byte) in changes {
            let at = usize::from(at) % stream.len();
            stream[at] = byte;
        }
        stream.truncate(usize::from(end) % (2 * stream.len()));
        let layout = TraceLayout::parse(&metadata).unwrap();
        let files = [StreamFile::held("x", &stream)];
        let mut reader = CtfReader::new(&layout, &files);
        let most = 8 * stream.len();
        let mut read = 0;
        while let Some(record) = reader.read() {
            record.visit(&mut Shown::default());
            read += usize::from(record.loss().is_none());
            prop_assert!(read <= most);
        }
    }
}

/// A trace with counters of what was lost and numbers of packets.
const COUNTED: &str = r#"/* CTF 1.8 */
    typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
    typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
    trace { major = 1; minor = 8; byte_order = le; packet.header := struct { uint32_t magic; }; };
    clock { name = "monotonic"; freq = 1000000000; offset_s = 1; offset = 5; };
    stream {
        packet.context := struct {
            uint64_t timestamp_begin; uint64_t timestamp_end; uint64_t content_size;
            uint64_t packet_size; uint64_t packet_seq_num; uint32_t events_discarded; uint32_t cpu_id;
        };
        event.header := struct {
            integer { size = 64; align = 8; map = clock.monotonic.value; } timestamp;
        };
    };
    event { name = "tick"; fields := struct { uint32_t _number; }; };
"#;

fn packet(begin: u64, end: u64, sequence: u64, discarded: u32, times: &[u64]) -> Vec<u8> {
    let bits = 8 * (4 + 5 * 8 + 8 + 12 * times.len() as u64);
    let mut bytes = 0xc1fc_1fc1_u32.to_le_bytes().to_vec();
    for number in [begin, end, bits, bits, sequence] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(discarded.to_le_bytes());
    bytes.extend(7_u32.to_le_bytes());
    for time in times {
        bytes.extend(time.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
    }
    bytes
}

/// Says in the head of a packet how long it is now.
fn set_sizes(packet: &mut [u8]) {
    let bits = 8 * packet.len() as u64;
    for at in [20, 28] {
        packet[at..at + 8].copy_from_slice(&bits.to_le_bytes());
    }
}

#[test]
fn names_of_events_make_no_lines() {
    let metadata = COUNTED.replace("\"tick\"", "\"ti\x1b\\nck\"");
    let layout = TraceLayout::parse(&metadata).unwrap();
    let stream = packet(10, 20, 0, 0, &[10]);
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", &stream)]);
    assert_eq!(reader.read().unwrap().name(), "ti\\x1b\\x0ack");
}

#[test]
fn what_does_not_begin_as_packets_do_is_no_stream() {
    let layout = TraceLayout::parse(COUNTED).unwrap();
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", b"some text")]);
    assert!(reader.read().is_none());
    let damage = reader.damage().to_string();
    let expected = "9 bytes are not read (x of CPU 0 is not read from its begin on: no packet at byte 0: its \
                    magic number is missing; 9 bytes are not read)";
    assert_eq!(damage, expected);
}

#[test]
fn metadata_that_makes_no_sense_is_refused_in_a_sentence() {
    for (change, to, sentence) in [
        ("minor = 8", "minor = 9", "only version 1.8"),
        ("uint32_t _number", "uint32_t _number[0]; struct {} _x[4]", "have no size"),
        ("uint32_t _number", "nothing_t _number", "`nothing_t` is not defined"),
        ("uint32_t _number", "uint32_t _number[ _later ]", "no integer that comes before it"),
        ("uint32_t _number", "integer { size = 65; } _number", "1 to 64 bits"),
        ("uint32_t _number", "integer { size = 8; align = 3; } _number", "no alignment"),
        (
            "uint32_t _number",
            "variant <_x> { uint32_t a; } _number",
            "no integer that comes before",
        ),
        ("freq = 1000000000", "freq = 0", "frequency of 0"),
        ("clock.monotonic.value", "clock.other.value", "`other` is not defined"),
        ("name = \"tick\"", "id = 1", "an event has no name"),
        ("name = \"tick\"", "name = \"tick\"; stream_id = 4", "its stream is not defined"),
        ("_number; }; };", "_number; };", "cannot be understood from line"),
    ] {
        assert!(COUNTED.contains(change));
        let error = TraceLayout::parse(&COUNTED.replace(change, to)).unwrap_err().to_string();
        assert!(error.contains(sentence), "{to}: {error}");
    }
    assert!(TraceLayout::parse("").is_err());
    let deep = "struct {".repeat(100_000);
    assert!(matches!(TraceLayout::parse(&deep), Err(CtfError::Syntax(1, _))));
}

#[test]
fn types_that_name_one_another_without_end_are_refused() {
    let mut text = "struct s0 { integer { size = 8; } a; };\n".to_owned();
    for number in 1..40 {
        let before = number - 1;
        text.push_str(&format!(
            "struct s{number} {{ struct s{before} a; struct s{before} b; }};\n"
        ));
    }
    text.push_str(&COUNTED.replace("uint32_t _number", "struct s39 _all"));
    let error = TraceLayout::parse(&text).unwrap_err().to_string();
    assert!(error.contains("nested too deep"), "{error}");
    let round = COUNTED.replace("uint32_t _number", "struct a { struct a b; } _x");
    assert!(TraceLayout::parse(&round).unwrap_err().to_string().contains("nested too deep"));
}

#[test]
fn a_type_with_several_names_is_kept_once() {
    let levels = 35;
    let (open, close) = ("struct { ".repeat(levels), " } _a, _b; ".repeat(levels - 1));
    let fields = format!("{open}uint32_t _c, _d;{close}}} _number");
    let error = TraceLayout::parse(&COUNTED.replace("uint32_t _number", &fields)).unwrap_err();
    assert!(error.to_string().contains("nested too deep"), "{error}");
}

#[test]
fn long_names_and_lists_of_labels_are_not_repeated_without_end() {
    let long = "x".repeat(60_000);
    let names: String = (0..2_000).map(|number| format!("uint32_t _{number}; ")).collect();
    let of_long_name = format!("struct {{ {names} }} {long}");
    let labels: String = (0..2_000).map(|number| format!("L{number}, ")).collect();
    let names: String = (0..2_000).map(|number| format!("enum e _{number}; ")).collect();
    let of_labels = format!("enum e : uint32_t {{ {labels} }} _e; {names} uint32_t _f");
    for fields in [of_long_name, of_labels] {
        let error = TraceLayout::parse(&COUNTED.replace("uint32_t _number", &fields)).unwrap_err();
        assert!(error.to_string().contains("too many"), "{error}");
    }
}

#[test]
fn metadata_without_end_is_refused_before_it_is_parsed() {
    for part in ["a b; ", "a,", "a ", "a.", "*", "* "] {
        let text = part.repeat((16 << 20) / part.len());
        let error = TraceLayout::parse(&text).unwrap_err().to_string();
        assert!(error.contains("more than any tracer"), "{error}");
    }
}

#[test]
fn a_variant_may_have_many_options() {
    let options = 100_000_u64;
    let (mut labels, mut fields) = (String::new(), String::new());
    for option in 0..options {
        labels.push_str(&format!("L{option}, "));
        fields.push_str(&format!("uint8_t L{option}; "));
    }
    let metadata = COUNTED.replace(
        "uint32_t _number;",
        &format!("enum : uint32_t {{ {labels} }} tag; variant <tag> {{ {fields} }} value;"),
    );
    let metadata = metadata.replace(
        "typealias integer { size = 32;",
        "typealias integer { size = 8; align = 8; } := uint8_t; typealias integer { size = 32;",
    );
    let layout = TraceLayout::parse(&metadata).unwrap();
    let events = 50_000;
    let mut bytes = packet(10, 20, 0, 0, &[]);
    for event in 0..events {
        bytes.extend(10_u64.to_le_bytes());
        bytes.extend((options as u32 - 1 - event % 3).to_le_bytes());
        bytes.push(7);
    }
    set_sizes(&mut bytes);
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", &bytes)]);
    let mut shown = Shown::default();
    while let Some(record) = reader.read() {
        shown = Shown::default();
        record.visit(&mut shown);
    }
    let name = format!("L{}", options - 1 - u64::from((events - 1) % 3));
    assert_eq!(shown.0[1], format!("Some({name:?})"));
    assert_eq!(shown.0[3..], ["begin Option", &name, "7/10", "end Option"]);
}

#[test]
fn an_event_has_an_end() {
    for fields in ["string _text;", "uint32_t _n; integer { size = 1; } _all[ _n ];"] {
        let layout = TraceLayout::parse(&COUNTED.replace("uint32_t _number;", fields)).unwrap();
        let mut bytes = packet(10, 20, 0, 0, &[10]);
        bytes.extend(vec![1; 2 << 20]);
        bytes.push(0);
        let at = bytes.len() - 5 - (2 << 20);
        let count = if fields.starts_with("string") { 0x0101_0101 } else { 8_u32 << 21 };
        bytes[at..at + 4].copy_from_slice(&count.to_le_bytes());
        set_sizes(&mut bytes);
        bytes.extend(packet(30, 40, 1, 0, &[]));
        let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", &bytes)]);
        assert!(reader.read().is_some_and(|record| record.loss().is_some()));
        assert!(reader.read().is_none());
        let damage = reader.damage();
        assert!(
            damage.to_string().contains("its begin on: an event is longer than 1 MiB, at byte 52"),
            "{damage}"
        );
        assert!(damage.unread_bytes > 2 << 20);
    }
}

#[test]
fn what_was_read_of_a_packet_is_not_needed_again() {
    let bytes = packet(10, 20, 0, 0, &(10..1010).collect::<Vec<u64>>());
    let layout = TraceLayout::parse(COUNTED).unwrap();
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", &bytes)]);
    assert_eq!((0..500).filter(|_| reader.read().is_some()).count(), 500);
    assert_eq!(reader.read_bytes(), 52 + 500 * 12);
}

#[test]
fn lengths_of_lengths_have_an_end() {
    let lengths = "[1]".repeat(200_000);
    let metadata = COUNTED.replace("uint32_t _number", &format!("uint32_t _number{lengths}"));
    assert!(matches!(TraceLayout::parse(&metadata), Err(CtfError::Syntax(..))));
}

#[test]
fn fields_that_are_longer_than_64_bits_can_count_are_no_event() {
    let metadata = COUNTED.replace("name = \"tick\"", "name = \"softirq_raise\"").replace(
        "uint32_t _number",
        "integer { size = 8; } _all[2305843009213693951]; integer { size = 8; } _vec; \
         integer { size = 8; } _last",
    );
    let layout = TraceLayout::parse(&metadata).unwrap();
    let bytes = packet(10, 20, 0, 0, &[10]);
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", &bytes)]);
    assert!(reader.read().is_none());
    assert_eq!(reader.damage().unread_bytes, 12);
}

#[test]
fn perfs_own_fields_are_those_of_the_model() {
    let metadata = COUNTED.replace(
        "name = \"tick\"; fields := struct { uint32_t _number; };",
        "name = \"sched:sched_switch\"; fields := struct {
            uint32_t perf_tid; string prev_comm; uint32_t prev_pid; uint32_t prev_prio; uint64_t prev_state;
            string next_comm; uint32_t next_pid; uint32_t next_prio;
        };",
    );
    let layout = TraceLayout::parse(&metadata).unwrap();
    let number = |number: u32| number.to_le_bytes().to_vec();
    let fields = [
        number(9),
        b"bash\0".to_vec(),
        number(7),
        number(120),
        2_u64.to_le_bytes().to_vec(),
        b"a longer name than tasks have\0".to_vec(),
        number(8),
        number(98),
    ]
    .concat();
    let mut bytes = packet(10, 20, 0, 0, &[10]);
    bytes.truncate(bytes.len() - 4);
    bytes.extend(fields);
    set_sizes(&mut bytes);
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", &bytes)]);
    let task = |name: &[u8], tid, prio| Task { comm: Comm::new(name), tid, prio };
    let expected = TraceKind::SchedSwitch {
        prev: task(b"bash", 7, 120),
        prev_state: LeftIn::of(2),
        next: task(b"a longer name th", 8, 98),
    };
    assert_eq!(reader.read().map(|record| record.kind()), Some(expected));
    assert!(reader.read().is_none() && reader.damage().is_none());
}

#[test]
fn numbers_of_kinds_may_be_far_apart() {
    let header = ("event.header := struct {", "event.header := struct { uint64_t id;");
    let metadata = COUNTED.replace("event {", "event { id = 0;");
    let mut metadata = metadata.replace(header.0, header.1);
    metadata.push_str("event { name = \"far\"; id = 18446744073709551615; };");
    metadata.push_str("event { name = \"near\"; id = 70000; };");
    let layout = TraceLayout::parse(&metadata).unwrap();
    let stream = &layout.streams[&0];
    let name = |id| stream.class(id).map(|class| &*class.name);
    assert_eq!([0, 1, 70_000, u64::MAX].map(name), [Some("tick"), None, Some("near"), Some("far")]);
}

#[test]
fn an_event_may_name_its_cpu_itself() {
    let metadata = COUNTED.replace(" uint32_t cpu_id;", "");
    let bytes = [10, 11].map(|number: u32| {
        let mut bytes = packet(10 * u64::from(number), 200, 0, 0, &[100]);
        let end = bytes.len();
        bytes[end - 4..].copy_from_slice(&number.to_le_bytes());
        bytes.drain(48..52);
        set_sizes(&mut bytes);
        bytes
    });
    let stream = bytes.concat();
    let read = |fields: &str| {
        let layout = TraceLayout::parse(&metadata.replace("uint32_t _number;", fields)).unwrap();
        let mut reader = CtfReader::new(&layout, &[StreamFile::held("stream_3", &stream)]);
        let mut cpus = Vec::new();
        while let Some(record) = reader.read() {
            cpus.push(record.cpu);
        }
        (cpus, reader.damage().to_string())
    };
    for fields in ["uint32_t _cpu_id;", "uint32_t cpu;"] {
        assert_eq!(read(fields), (vec![10, 11], String::new()));
    }
    // Or say it in front of its fields.
    let in_header = metadata.replace(" } timestamp;", " } timestamp; uint32_t cpu_id;");
    let layout = TraceLayout::parse(&in_header.replace("uint32_t _number;", "")).unwrap();
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("stream_3", &stream)]);
    assert_eq!(reader.read().map(|record| record.cpu), Some(10));
    assert_eq!(reader.read().map(|record| record.cpu), Some(11));
    assert!(reader.damage().is_none());
    let (cpus, damage) = read("struct { uint32_t cpu_id; } inside;");
    assert_eq!(cpus, [3, 3]);
    assert!(
        damage.contains("2 events do not say on which CPU") && damage.contains("no CPU is known"),
        "{damage}"
    );
}

#[test]
fn events_without_a_number_are_of_one_kind() {
    let metadata = format!("{COUNTED} event {{ name = \"tock\"; id = 1; }};");
    let error = TraceLayout::parse(&metadata).unwrap_err().to_string();
    assert!(error.contains("stream 0 has 2 kinds of events"), "{error}");
}

#[test]
fn a_trace_may_leave_its_stream_out() {
    let metadata = "trace { major = 1; minor = 8; byte_order = le; };
        event { name = \"tick\"; fields := struct { integer { size = 32; } _value; }; };";
    let layout = TraceLayout::parse(metadata).unwrap();
    let bytes: Vec<u8> = [1_u32, 2, 3].iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", &bytes)]);
    let mut shown = Shown::default();
    while let Some(record) = reader.read() {
        record.visit(&mut shown);
    }
    assert_eq!(shown.0, ["value", "1/10", "value", "2/10", "value", "3/10"]);
    let other = metadata.replace("name =", "stream_id = 4; name =");
    assert!(
        TraceLayout::parse(&other).unwrap_err().to_string().contains("its stream is not defined")
    );
}

#[test]
fn an_event_may_have_no_fields() {
    let metadata = COUNTED.replace("fields := struct { uint32_t _number; };", "");
    let layout = TraceLayout::parse(&metadata).unwrap();
    let bytes = packet(10, 20, 0, 0, &[10]);
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", &bytes)]);
    let record = reader.read().unwrap();
    let mut shown = Shown::default();
    record.visit(&mut shown);
    assert_eq!((record.name(), shown.0.len()), ("tick", 0));
}

#[test]
fn claims_of_many_elements_are_checked_first() {
    let metadata = COUNTED.replace("uint32_t _number;", "uint32_t _n; string _all[ _n ];");
    let layout = TraceLayout::parse(&metadata).unwrap();
    let mut bytes = packet(10, 20, 0, 0, &[10]);
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", &bytes)]);
    assert!(reader.read().is_none());
    assert_eq!(reader.damage().unread_bytes, 12);
}
