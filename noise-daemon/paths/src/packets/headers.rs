//! Headers of packets in a recording: LTTng has them, since its version 2.8, in events of the queues of interfaces and
//! of what arrives there.

use noise_trace::record::{Record, Stored};
use noise_trace::value::{Shape, Value, Visit};

use super::{Segment, flow};

/// Most elements of an address.
const ELEMENTS: usize = 16;

/// An address: one number, or elements of one or two bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PacketAddress {
    elements: [u64; ELEMENTS],
    length: usize,
}

impl PacketAddress {
    fn push(&mut self, value: u64) {
        if let Some(place) = self.elements.get_mut(self.length) {
            *place = value;
            self.length += 1;
        }
    }

    /// The address's bytes, the same however it is recorded.
    fn bytes(&self) -> Vec<u8> {
        // One number of 4 bytes, eight of 2, or bytes.
        let width = match self.length {
            1 => 4,
            8 => 2,
            _ => 1,
        };
        let elements = self.elements.iter().take(self.length);
        let bytes = |element: &u64| element.to_be_bytes().into_iter().skip(8 - width);
        elements.flat_map(bytes).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketField {
    SourceAddress,
    Address,
    SourcePort,
    Port,
    Sequence,
    Acknowledged,
    Flags,
    /// Of the header, 4 bytes each.
    HeaderWords,
    InternetWords,
    /// Of the packet from the Internet header on.
    WholeBytes,
    /// Of what follows the Internet header.
    PayloadBytes,
}

impl PacketField {
    fn named(name: &str) -> Option<Self> {
        Some(match name.strip_prefix('_').unwrap_or(name) {
            "saddr" => Self::SourceAddress,
            "daddr" => Self::Address,
            "source_port" | "source" => Self::SourcePort,
            "dest_port" | "dest" => Self::Port,
            "seq" => Self::Sequence,
            "ack_seq" => Self::Acknowledged,
            "flags" => Self::Flags,
            "data_offset" => Self::HeaderWords,
            "ihl" => Self::InternetWords,
            "tot_len" => Self::WholeBytes,
            "payload_len" => Self::PayloadBytes,
            _ => return None,
        })
    }
}

/// Reads headers as their fields come.
#[derive(Debug, Default)]
struct Headers {
    field: Option<PacketField>,
    source: PacketAddress,
    target: PacketAddress,
    ports: (u16, u16),
    sequence: Option<u32>,
    acknowledged: u32,
    flags: u16,
    header_words: u64,
    internet_words: u64,
    whole_bytes: u64,
    payload_bytes: u64,
}

impl Visit for Headers {
    fn name(&mut self, name: &str) {
        self.field = PacketField::named(name);
    }

    fn value(&mut self, value: Value<'_>) {
        let (Some(field), Some(value)) = (self.field, value.bits()) else { return };
        match field {
            PacketField::SourceAddress => self.source.push(value),
            PacketField::Address => self.target.push(value),
            PacketField::SourcePort => self.ports.0 = value as u16,
            PacketField::Port => self.ports.1 = value as u16,
            PacketField::Sequence => self.sequence = Some(value as u32),
            PacketField::Acknowledged => self.acknowledged = value as u32,
            PacketField::Flags => self.flags = value as u16,
            PacketField::HeaderWords => self.header_words = value,
            PacketField::InternetWords => self.internet_words = value,
            PacketField::WholeBytes => self.whole_bytes = value,
            PacketField::PayloadBytes => self.payload_bytes = value,
        }
    }

    fn end(&mut self, _: Shape) {
        self.field = None;
    }
}

impl Headers {
    fn segment(&self) -> Option<Segment> {
        let sequence = self.sequence?;
        let inside =
            self.whole_bytes.saturating_sub(4 * self.internet_words).max(self.payload_bytes);
        let bytes = inside.saturating_sub(self.header_words.saturating_mul(4));
        Some(Segment {
            flow: flow((&self.source.bytes(), &self.target.bytes()), self.ports),
            sequence,
            acknowledged: self.acknowledged,
            flags: self.flags,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        })
    }
}

/// Whose segment it is: of which connection, in which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    pub from_port: u16,
    pub to_port: u16,
    /// The direction: see [`flow`]; and the other one of the same connection.
    pub flow: u64,
    pub back: u64,
    /// SYN, FIN …
    pub flags: u16,
    /// Number of its first byte.
    pub sequence: u32,
    /// Its length without headers, bytes.
    pub bytes: u32,
}

/// The ends of the segment of TCP that an event is about, where the recording has its headers.
pub fn ends<'t>(record: &Record<impl Stored<'t>>) -> Option<Ends> {
    let mut headers = Headers::default();
    record.visit(&mut headers);
    let Segment { flow: direction, flags, sequence, bytes, .. } = headers.segment()?;
    let (from_port, to_port) = headers.ports;
    let back = flow((&headers.target.bytes(), &headers.source.bytes()), (to_port, from_port));
    Some(Ends { from_port, to_port, flow: direction, back, flags, sequence, bytes })
}

/// The segment of TCP that an event is about, where the recording has its headers.
pub fn segment<'t>(record: &Record<impl Stored<'t>>) -> Option<Segment> {
    let mut headers = Headers::default();
    record.visit(&mut headers);
    headers.segment()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields of an event as LTTng 2.13 has them, the addresses in elements or as numbers.
    fn headers(fields: &[(&str, &[u64])]) -> Option<Segment> {
        let mut headers = Headers::default();
        for (name, values) in fields {
            headers.name(name);
            if values.len() > 1 {
                headers.begin(Shape::Elements);
            }
            for (number, value) in (0..).zip(*values) {
                headers.element(number);
                headers.value(Value::Unsigned { value: *value, base: 10 });
            }
            if values.len() > 1 {
                headers.end(Shape::Elements);
            }
        }
        headers.segment()
    }

    const TCP: [(&str, &[u64]); 6] = [
        ("_source_port", &[40_000]),
        ("_dest_port", &[80]),
        ("_seq", &[17]),
        ("_ack_seq", &[99]),
        ("_data_offset", &[8]),
        ("_flags", &[0x18]),
    ];

    #[test]
    fn segments_of_both_versions_of_the_protocol_are_read() {
        let four: [(&str, &[u64]); 4] = [
            ("_ihl", &[5]),
            ("_tot_len", &[152]),
            ("_saddr", &[10, 0, 0, 1]),
            ("_daddr", &[10, 0, 0, 2]),
        ];
        let found = headers(&[&four[..], &TCP[..]].concat()).unwrap();
        assert_eq!((found.sequence, found.acknowledged, found.flags), (17, 99, 0x18));
        assert_eq!(found.bytes, 100);
        assert_eq!(found.flow, flow((&[10, 0, 0, 1], &[10, 0, 0, 2]), (40_000, 80)));
        let number: [(&str, &[u64]); 4] = [
            ("_ihl", &[5]),
            ("_tot_len", &[152]),
            ("_saddr", &[0x0a00_0001]),
            ("_daddr", &[0x0a00_0002]),
        ];
        assert_eq!(headers(&[&number[..], &TCP[..]].concat()), Some(found));
        let six: [(&str, &[u64]); 3] = [
            ("_payload_len", &[132]),
            ("_saddr", &[0xfe80, 0, 0, 0, 0, 0, 0, 1]),
            ("_daddr", &[0xfe80, 0, 0, 0, 0, 0, 0, 2]),
        ];
        let found = headers(&[&six[..], &TCP[..]].concat()).unwrap();
        assert_eq!(found.bytes, 100);
        // Other protocols, and events without headers.
        assert_eq!(headers(&four), None);
        assert_eq!(headers(&[("_skbaddr", &[1]), ("_len", &[100])]), None);
    }
}
