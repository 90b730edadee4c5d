//! PURE: messages of protocol buffers: the wire format, as far as it is written here. Numbers as varints,
//! texts and messages with their lengths in front. Nothing is read.
//!
//! Events and metrics become bytes as they come, without a structure of them in between, which is what
//! libraries for this format begin with.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
#![cfg_attr(not(test), deny(clippy::disallowed_types))]

/// Wire types, in the lower three bits of what stands before a value.
const VARINT: u32 = 0;
const FIXED: u32 = 1;
const LENGTH: u32 = 2;

/// A message on its way out: its fields, one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Message(Vec<u8>);

impl Message {
    /// An empty one with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// What is in it, on its own.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// What is in it.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Takes what is in it away, and keeps the room.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn push(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u32, wire: u32) {
        self.push(u64::from(field << 3 | wire));
    }

    /// A number without a sign: `uint32`, `uint64`, `bool`, an enumeration.
    pub fn unsigned(&mut self, field: u32, value: impl Into<u64>) {
        self.key(field, VARINT);
        self.push(value.into());
    }

    /// A number with a sign: `int32`, `int64`. Negative ones have all 64 bits.
    pub fn signed(&mut self, field: u32, value: impl Into<i64>) {
        self.key(field, VARINT);
        self.push(value.into().cast_unsigned());
    }

    /// A number of 64 bits as it is: `fixed64`.
    pub fn fixed(&mut self, field: u32, value: u64) {
        self.key(field, FIXED);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A number with a fraction: `double`.
    pub fn double(&mut self, field: u32, value: f64) {
        self.fixed(field, value.to_bits());
    }

    /// A number with a sign that is mostly small: `sint32`, `sint64`.
    pub fn zigzag(&mut self, field: u32, value: i64) {
        self.key(field, VARINT);
        self.push(zigzag(value));
    }

    /// Several of them in one piece (packed), if there are any.
    pub fn zigzags(&mut self, field: u32, values: impl IntoIterator<Item = i64>) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_some() {
            self.message(field, |inner| values.for_each(|value| inner.push(zigzag(value))));
        }
    }

    pub fn text(&mut self, field: u32, text: &str) {
        self.raw(field, text.as_bytes());
    }

    /// A message that is there in bytes.
    pub fn raw(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, LENGTH);
        self.push(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// All fields of another one.
    pub fn append(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    pub fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.key(field, LENGTH);
        self.delimited(write);
    }

    /// A message with nothing but its length in front, as messages stand in a stream.
    pub fn delimited(&mut self, write: impl FnOnce(&mut Self)) {
        let at = self.0.len();
        // Nearly all are shorter than 128 bytes, whose length has one byte.
        self.0.push(0);
        write(self);
        let length = self.0.len().saturating_sub(at + 1);
        if let Some(place) = self.0.get_mut(at)
            && length < 0x80
        {
            *place = length as u8;
            return;
        }
        let mut prefix = Self::default();
        prefix.push(length as u64);
        self.0.splice(at..=at, prefix.0);
    }
}

/// A number with a sign as one without: 0, -1, 1, -2, … are 0, 1, 2, 3, …
const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_lengths_are_as_the_format_says() {
        let mut message = Message::default();
        message.unsigned(1, 150_u32);
        message.signed(2, -1);
        message.fixed(2, 0x0102);
        message.text(16, "ab");
        message.message(3, |inner| inner.text(1, &"x".repeat(200)));
        let mut expected = vec![0x08, 0x96, 0x01, 0x10];
        expected.extend([0xff; 9]);
        expected.extend([0x01, 0x11, 2, 1, 0, 0, 0, 0, 0, 0]);
        expected.extend([0x82, 0x01, 2, b'a', b'b', 0x1a, 0xcb, 0x01, 0x0a, 0xc8, 0x01]);
        expected.extend([b'x'; 200]);
        assert_eq!(message.bytes(), expected);
    }

    #[test]
    fn small_numbers_are_short_whatever_their_sign() {
        let mut message = Message::with_capacity(64);
        message.zigzag(5, 2);
        message.zigzags(13, [0, -1, 1, i64::MIN, i64::MAX]);
        message.zigzags(14, []);
        message.double(6, 0.5);
        message.delimited(|inner| inner.zigzag(1, -300));
        let mut expected = vec![0x28, 4, 0x6a, 23, 0, 1, 2];
        expected.extend([0xff; 9]);
        expected.push(1);
        expected.push(0xfe);
        expected.extend([0xff; 8]);
        expected.push(1);
        expected.extend([0x31, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f]);
        expected.extend([3, 0x08, 0xd7, 0x04]);
        assert_eq!(message.into_bytes(), expected);
    }
}
