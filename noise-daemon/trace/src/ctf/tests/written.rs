//! Traces, written bit by bit.

use std::fmt::Write as _;

#[derive(Clone, Debug)]
pub enum Field {
    Int { size: u32, align: u32, signed: bool, value: u64, other: bool },
    Double(f64),
    Single(f32),
    Text(String),
    Characters(String),
    Array { size: u32, values: Vec<u64> },
    Sequence { size: u32, values: Vec<u64> },
    Texts(Vec<String>),
    Enum(u64),
    Struct(Vec<Field>),
    Variant { tag: u64, options: Vec<Field> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Little,
    Big,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    Compact,
    Large,
    Plain,
}

#[derive(Clone, Copy, Debug)]
pub struct Trace {
    pub order: Order,
    pub header: Header,
    pub per_packet: usize,
}

/// What came out: metadata, a stream, and for each event its time and the words that it is shown as.
pub struct Written {
    pub metadata: String,
    pub stream: Vec<u8>,
    pub events: Vec<(u64, Vec<String>)>,
}

/// Bits of one packet.
struct Bits {
    bytes: Vec<u8>,
    at: usize,
    big: bool,
}

fn mask(value: u64, size: u32) -> u64 {
    if size == 64 { value } else { value & ((1 << size) - 1) }
}

impl Bits {
    fn align(&mut self, align: u32) {
        self.at = self.at.div_ceil(align as usize) * align as usize;
        self.bytes.resize(self.bytes.len().max(self.at.div_ceil(8)), 0);
    }

    fn put(&mut self, value: u64, size: u32, align: u32, big: bool) {
        self.align(align);
        for number in 0..size {
            let at = self.at + number as usize;
            let (weight, place) = match big {
                true => (size - 1 - number, 7 - at % 8),
                false => (number, at % 8),
            };
            self.bytes.resize(self.bytes.len().max(at / 8 + 1), 0);
            self.bytes[at / 8] |= ((value >> weight & 1) as u8) << place;
        }
        self.at += size as usize;
    }

    fn text(&mut self, text: &str) {
        for byte in text.bytes().chain([0]) {
            self.put(byte.into(), 8, 8, self.big);
        }
    }
}

const LABELS: &str = "A, B, \"see\" = 2 ... 3";

fn label(value: u64) -> Option<&'static str> {
    ["A", "B", "see", "see"].get(value as usize).copied()
}

impl Field {
    /// The field's declarations, and its part of the words.
    fn declare(&self, name: &str, text: &mut String) {
        let unsigned = |size: u32| format!("integer {{ size = {size}; align = 1; signed = 0; }}");
        let _ = match self {
            Self::Int { size, align, signed, other, .. } => {
                let order = if self.is_other(*other) { "byte_order = ORDER;" } else { "" };
                write!(
                    text,
                    "integer {{ size = {size}; align = {align}; signed = {signed}; base = 16; {order} }} _{name};"
                )
            }
            Self::Double(_) => write!(
                text,
                "floating_point {{ exp_dig = 11; mant_dig = 53; align = 8; }} _{name};"
            ),
            Self::Single(_) => write!(
                text,
                "floating_point {{ exp_dig = 8; mant_dig = 24; align = 32; }} _{name};"
            ),
            Self::Text(_) => write!(text, "string _{name};"),
            Self::Characters(_) => write!(
                text,
                "integer {{ size = 8; align = 8; signed = 0; encoding = UTF8; }} _{name}[16];"
            ),
            Self::Array { size, values } => {
                write!(text, "{} _{name}[{}];", unsigned(*size), values.len())
            }
            Self::Sequence { size, .. } => {
                write!(text, "uint8_t n_{name}; {} _{name}[ n_{name} ];", unsigned(*size))
            }
            Self::Texts(_) => write!(text, "uint8_t n_{name}; string _{name}[ n_{name} ];"),
            Self::Enum(_) => write!(text, "enum : uint5_t {{ {LABELS} }} _{name};"),
            Self::Struct(fields) => {
                text.push_str("struct { ");
                for (number, field) in fields.iter().enumerate() {
                    field.declare(&format!("{name}_{number}"), text);
                }
                write!(text, " }} _{name};")
            }
            Self::Variant { options, .. } => {
                let _ = write!(text, "enum : uint8_t {{ o0 = 0, o1 = 1, o2 = 2 }} t_{name}; ");
                let _ = write!(text, "variant <t_{name}> {{ ");
                for (number, option) in options.iter().enumerate() {
                    // Options are one field each, whatever else they need.
                    let _ = write!(text, "struct {{ ");
                    option.declare(&format!("{name}_{number}"), text);
                    let _ = write!(text, " }} o{number};");
                }
                write!(text, " }} _{name};")
            }
        };
    }

    fn is_other(&self, other: bool) -> bool {
        matches!(self, Self::Int { size, align, .. } if other && size % 8 == 0 && align % 8 == 0)
    }

    fn align(&self) -> u32 {
        match self {
            Self::Int { align, .. } => *align,
            Self::Double(_) | Self::Text(_) | Self::Characters(_) => 8,
            Self::Single(_) => 32,
            Self::Sequence { .. } | Self::Texts(_) | Self::Variant { .. } => 8,
            Self::Array { .. } | Self::Enum(_) => 1,
            Self::Struct(fields) => aligns(fields),
        }
    }

    fn write(&self, name: &str, bits: &mut Bits, words: &mut Vec<String>) {
        let big = bits.big;
        match self {
            Self::Int { size, align, signed, value, other } => {
                let value = mask(*value, *size);
                bits.put(value, *size, *align, big ^ self.is_other(*other));
                words.push(name.to_owned());
                words.push(match signed {
                    true => {
                        let unused = 64 - size;
                        format!("{}/16/{size}", ((value << unused) as i64) >> unused)
                    }
                    false => format!("{value}/16"),
                });
            }
            Self::Double(value) => {
                bits.put(value.to_bits(), 64, 8, big);
                words.extend([name.to_owned(), format!("{value:?}")]);
            }
            Self::Single(value) => {
                bits.put(value.to_bits().into(), 32, 32, big);
                words.extend([name.to_owned(), format!("{:?}", f64::from(*value))]);
            }
            Self::Text(text) => {
                bits.text(text);
                words.extend([name.to_owned(), text.clone()]);
            }
            Self::Characters(text) => {
                bits.align(8);
                let end = bits.at + 128;
                bits.text(text);
                bits.at = end;
                bits.bytes.resize(end / 8, 0);
                words.extend([name.to_owned(), text.clone()]);
            }
            Self::Array { size, values } => {
                words.push(name.to_owned());
                elements(*size, values, bits, words);
            }
            Self::Sequence { size, values } => {
                bits.put(values.len() as u64, 8, 8, big);
                words.extend([format!("n_{name}"), format!("{}/10", values.len())]);
                words.push(name.to_owned());
                elements(*size, values, bits, words);
            }
            Self::Texts(texts) => {
                bits.put(texts.len() as u64, 8, 8, big);
                words.extend([format!("n_{name}"), format!("{}/10", texts.len())]);
                words.extend([name.to_owned(), "begin Elements".to_owned()]);
                for (number, text) in texts.iter().enumerate() {
                    bits.text(text);
                    words.extend([format!("[{number}]"), text.clone()]);
                }
                words.push("end Elements".to_owned());
            }
            Self::Enum(value) => {
                bits.put(*value, 5, 1, big);
                words.extend([name.to_owned(), format!("{:?}", label(*value))]);
            }
            Self::Struct(fields) => {
                words.extend([name.to_owned(), "begin Fields".to_owned()]);
                bits.align(aligns(fields));
                for (number, field) in fields.iter().enumerate() {
                    field.write(&format!("{name}_{number}"), bits, words);
                }
                words.push("end Fields".to_owned());
            }
            Self::Variant { tag, options } => {
                bits.put(*tag, 8, 8, big);
                words.extend([format!("t_{name}"), format!("{:?}", Some(format!("o{tag}")))]);
                words.extend([name.to_owned(), "begin Option".to_owned(), format!("o{tag}")]);
                words.push("begin Fields".to_owned());
                let option = &options[*tag as usize];
                bits.align(option.align());
                option.write(&format!("{name}_{tag}"), bits, words);
                words.extend(["end Fields".to_owned(), "end Option".to_owned()]);
            }
        }
    }
}

fn elements(size: u32, values: &[u64], bits: &mut Bits, words: &mut Vec<String>) {
    words.push("begin Elements".to_owned());
    for (number, value) in values.iter().enumerate() {
        let value = mask(*value, size);
        bits.put(value, size, 1, bits.big);
        words.extend([format!("[{number}]"), format!("{value}/10")]);
    }
    words.push("end Elements".to_owned());
}

fn aligns(fields: &[Field]) -> u32 {
    fields.iter().map(Field::align).max().unwrap_or(1)
}

/// Zero of the clock, in nanoseconds since the epoch.
const OFFSET: u64 = 1_457_111_225_177_515_989;

impl Trace {
    fn is_big(self) -> bool {
        self.order == Order::Big
    }

    fn metadata(self, events: &[(Vec<Field>, u64, bool)]) -> String {
        let (order, other) = if self.is_big() { ("be", "le") } else { ("le", "be") };
        let header = match self.header {
            Header::Compact => {
                "struct { enum : uint5_t { compact = 0 ... 30, extended = 31 } id; variant <id> {
                    struct { time27_t timestamp; } compact;
                    struct { uint32_t id; time64_t timestamp; } extended;
                } v; } align(8)"
            }
            Header::Large => {
                "struct { enum : uint16_t { compact = 0 ... 65534, extended = 65535 } id; variant <id> {
                    struct { time32_t timestamp; } compact;
                    struct { uint32_t id; time64_t timestamp; } extended;
                } v; } align(16)"
            }
            Header::Plain => "struct { uint32_t id; time64_t timestamp; }",
        };
        let mut text = format!(
            "/* CTF 1.8 */ // another comment
            typealias integer {{ size = 8; align = 8; signed = false; }} := uint8_t;
            typealias integer {{ size = 16; align = 16; signed = false; }} := uint16_t;
            typealias integer {{ size = 32; align = 32; signed = false; }} := uint32_t;
            typealias integer {{ size = 64; align = 8; signed = false; }} := unsigned long;
            typealias integer {{ size = 5; align = 1; signed = false; }} := uint5_t;
            trace {{ major = 1; minor = 8; byte_order = {order};
                uuid = \"69861fba-fe44-2b41-b75b-39acaf6930ec\";
                packet.header := struct {{ uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; }}; }};
            env {{ hostname = \"a \\\"host\\\"\"; tracer_major = 2; }};
            clock {{ name = monotonic; freq = 1000000000; offset = {OFFSET}; }};
            typealias integer {{ size = 27; align = 1; map = clock.monotonic.value; }} := time27_t;
            typealias integer {{ size = 32; align = 32; map = clock.monotonic.value; }} := time32_t;
            typealias integer {{ size = 64; align = 64; map = clock.monotonic.value; }} := time64_t;
            struct context {{ time64_t timestamp_begin; unsigned long content_size;
                unsigned long packet_size; }};
            stream {{ id = 2; event.header := {header}; packet.context := struct context; }};\n"
        );
        for (id, (fields, ..)) in events.iter().enumerate() {
            let _ = write!(
                text,
                "event {{ name = \"e{id}\"; id = {id}; stream_id = 2; fields := struct {{ "
            );
            for (number, field) in fields.iter().enumerate() {
                field.declare(&format!("f{number}"), &mut text);
            }
            text.push_str(" }; };\n");
        }
        text.replace("ORDER", other)
    }

    /// Writes each event with a kind of its own; each is so much later than the one before, and long
    /// headers are used also where they need not be.
    pub fn write(self, events: &[(Vec<Field>, u64, bool)]) -> Written {
        let metadata = self.metadata(events);
        let (mut stream, mut shown, mut now) = (Vec::new(), Vec::new(), 0);
        let numbered: Vec<_> = events.iter().enumerate().collect();
        for packet in numbered.chunks(self.per_packet) {
            let mut bits = Bits { bytes: Vec::new(), at: 0, big: self.is_big() };
            let big = self.is_big();
            bits.put(0xc1fc_1fc1, 32, 32, big);
            for byte in [
                0x69, 0x86, 0x1f, 0xba, 0xfe, 0x44, 0x2b, 0x41, 0xb7, 0x5b, 0x39, 0xac, 0xaf, 0x69,
                0x30, 0xec,
            ] {
                bits.put(byte, 8, 8, big);
            }
            bits.put(2, 32, 32, big);
            bits.put(now, 64, 64, big);
            let lengths_at = bits.at;
            bits.put(0, 64, 8, big);
            bits.put(0, 64, 8, big);
            for (id, (fields, later, long)) in packet {
                let before = now;
                now += later;
                self.head(&mut bits, *id as u64, before, now, *long);
                let mut words = Vec::new();
                bits.align(aligns(fields));
                for (number, field) in fields.iter().enumerate() {
                    field.write(&format!("f{number}"), &mut bits, &mut words);
                }
                shown.push((OFFSET + now, words));
            }
            let content = bits.at as u64;
            let packet = content.next_multiple_of(64) + 64;
            bits.bytes.resize(packet as usize / 8, 0);
            bits.at = lengths_at;
            bits.put(content, 64, 8, big);
            bits.put(packet, 64, 8, big);
            stream.extend(bits.bytes);
        }
        Written { metadata, stream, events: shown }
    }

    fn head(self, bits: &mut Bits, id: u64, before: u64, now: u64, long: bool) {
        let big = self.is_big();
        let (tag, tag_align, short, short_align) = match self.header {
            Header::Compact => (5, 8, 27, 1),
            Header::Large => (16, 16, 32, 32),
            Header::Plain => {
                bits.align(64);
                bits.put(id, 32, 32, big);
                bits.put(now, 64, 64, big);
                return;
            }
        };
        let most = (1 << tag) - 1;
        bits.align(tag_align);
        if long || id >= most || now - before >= 1 << short {
            bits.put(most, tag, 1, big);
            bits.align(64);
            bits.put(id, 32, 32, big);
            bits.put(now, 64, 64, big);
        } else {
            bits.put(id, tag, 1, big);
            bits.put(mask(now, short), short, short_align, big);
        }
    }

    /// The same text in packets, as LTTng writes it.
    pub fn in_packets(self, text: &str) -> Vec<u8> {
        let number = |value: u32| match self.order {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        };
        let mut bytes = Vec::new();
        for part in text.as_bytes().chunks(100) {
            let content = 37 + part.len();
            let packet = content + 11;
            bytes.extend(number(0x75d1_1d57));
            bytes.extend([7; 16]);
            bytes.extend(number(0));
            bytes.extend(number(8 * content as u32));
            bytes.extend(number(8 * packet as u32));
            bytes.extend([0, 0, 0, 1, 8]);
            bytes.extend(part);
            bytes.extend([0; 11]);
        }
        bytes
    }
}
