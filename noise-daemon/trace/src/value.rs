//! Fields of events of any origin, as they are shown one by one.

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'t> {
    Unsigned {
        value: u64,
        /// How people write it: 2, 8, 10 or 16.
        base: u8,
    },
    Signed {
        value: i64,
        /// How people write it: 2, 8, 10 or 16.
        base: u8,
        /// Bits that it was recorded in.
        bits: u32,
    },
    Float(f64),
    /// A text, of any bytes.
    Text(&'t [u8]),
    Label {
        label: Option<&'t str>,
        value: &'t Value<'t>,
    },
}

impl Value<'_> {
    /// The number that it is or has a label for, in two's complement.
    pub fn bits(self) -> Option<u64> {
        match self {
            Self::Unsigned { value, .. } => Some(value),
            Self::Signed { value, .. } => Some(value.cast_unsigned()),
            Self::Label { value, .. } => value.bits(),
            Self::Float(_) | Self::Text(_) => None,
        }
    }
}

/// What several values are together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Fields,
    /// One option of several, by its name.
    Option,
    /// Elements, by their numbers.
    Elements,
}

/// Sees fields in their order. Each value follows its name or its number.
pub trait Visit {
    /// The name of what follows.
    fn name(&mut self, name: &str);
    /// The number of the element that follows.
    fn element(&mut self, _: u64) {}
    fn value(&mut self, value: Value<'_>);
    fn begin(&mut self, _: Shape) {}
    /// That was the last of them.
    fn end(&mut self, _: Shape) {}
}
