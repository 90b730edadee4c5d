//! A reader of protocol buffers' wire format, by other code than what writes it.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, in their order.
pub struct Message<'a>(pub Vec<(u64, Field<'a>)>);

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if *first < 0x80 {
            return value;
        }
    }
    panic!("a number has more than 64 bits");
}

impl<'a> Message<'a> {
    pub fn read(mut bytes: &'a [u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = match key & 7 {
                0 => Field::Number(varint(&mut bytes)),
                1 => {
                    let (value, rest) = bytes.split_first_chunk().unwrap();
                    bytes = rest;
                    Field::Number(u64::from_le_bytes(*value))
                }
                2 => {
                    let length = usize::try_from(varint(&mut bytes)).unwrap();
                    let (value, rest) = bytes.split_at(length);
                    bytes = rest;
                    Field::Bytes(value)
                }
                other => panic!("there is no wire type {other} here"),
            };
            fields.push((key >> 3, value));
        }
        Self(fields)
    }

    pub fn all(&self, number: u64) -> impl Iterator<Item = Field<'a>> + '_ {
        self.0.iter().filter(move |(field, _)| *field == number).map(|(_, value)| *value)
    }

    pub fn messages(&self, number: u64) -> impl Iterator<Item = Message<'a>> + '_ {
        self.all(number).map(move |value| match value {
            Field::Bytes(bytes) => Message::read(bytes),
            Field::Number(_) => panic!("field {number} is a number"),
        })
    }

    pub fn message(&self, number: u64) -> Option<Message<'a>> {
        self.messages(number).next()
    }

    pub fn number(&self, number: u64) -> Option<u64> {
        self.all(number).next().map(|value| match value {
            Field::Number(value) => value,
            Field::Bytes(_) => panic!("field {number} is no number"),
        })
    }

    pub fn text(&self, number: u64) -> Option<&'a str> {
        self.all(number).next().map(|value| match value {
            Field::Bytes(bytes) => str::from_utf8(bytes).unwrap(),
            Field::Number(_) => panic!("field {number} is no text"),
        })
    }
}
