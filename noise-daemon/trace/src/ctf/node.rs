//! Types as they lie in a packet: every name looked up, every length known or in a slot.

use std::sync::Arc;

use super::bits;
use super::ranges::Ranges;

/// Lengths and tags that one walk over a packet or an event may need later.
pub const SLOTS: usize = 32;

/// Fields without a size that an event may have beside one for each of its bits: they take time, but no bytes of the file.
pub const MOST_EMPTY: u64 = 256;

/// What one walk over fields has to remember.
#[derive(Debug)]
pub struct Slots<'k> {
    /// Values of fields that say how long another one is, or which option it has: [`SLOTS`] of them, or none.
    kept: &'k mut [u64],
    /// Where the walk began, in bits.
    begin: u64,
    /// Fields without a size so far.
    empty: u64,
}

impl<'k> Slots<'k> {
    #[inline(always)]
    pub const fn new(kept: &'k mut [u64], begin: u64) -> Self {
        Self { kept, begin, empty: 0 }
    }

    #[inline(always)]
    pub fn get(&self, slot: u8) -> u64 {
        self.kept.get(usize::from(slot)).copied().unwrap_or_default()
    }

    #[inline(always)]
    pub fn keep(&mut self, slot: u8, value: u64) {
        if let Some(place) = self.kept.get_mut(usize::from(slot)) {
            *place = value;
        }
    }

    /// Passes so many fields without a size on the way to `at`; whether they are few enough.
    pub const fn pass(&mut self, fields: u64, at: u64) -> bool {
        self.empty = self.empty.saturating_add(fields);
        self.empty <= MOST_EMPTY.saturating_add(at.saturating_sub(self.begin))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Int {
    /// Bits, 1 to 64.
    pub size: u32,
    /// Bits, a power of two.
    pub align: u64,
    pub signed: bool,
    /// Whether its most significant byte comes first.
    pub big: bool,
    /// How people write it: 2, 8, 10 or 16.
    pub base: u8,
    /// Whether it is a character.
    pub is_text: bool,
    /// Number of the clock that it is a reading of.
    pub clock: Option<u8>,
    /// Where its value is kept for another field.
    pub slot: Option<u8>,
}

impl Int {
    /// Its value, sign-extended where it has a sign, and the place behind it.
    #[inline(always)]
    pub fn read(&self, bytes: &[u8], at: u64, end: u64) -> Option<(u64, u64)> {
        let at = bits::aligned(at, self.align);
        let behind = at + u64::from(self.size);
        if behind > end {
            return None;
        }
        let value = bits::read(bytes, at, self.size, self.big)?;
        let value = if self.signed { bits::signed(value, self.size) as u64 } else { value };
        Some((value, behind))
    }
}

#[derive(Debug, Default)]
pub struct EnumLabels {
    /// Each with the numbers it stands for, first and last.
    all: Vec<(Box<str>, i128, i128)>,
    /// Their places above, by number and by name.
    by_number: Ranges,
    by_name: Vec<u32>,
}

impl EnumLabels {
    /// Labels with the first and the last number of each.
    pub fn new(all: Vec<(Box<str>, i128, i128)>) -> Self {
        let numbered = (0..).zip(&all).map(|(place, (_, first, last))| (*first, *last, place));
        let by_number = Ranges::new(numbered.collect());
        let mut by_name: Vec<u32> = (0..).zip(&all).map(|(place, _)| place).collect();
        by_name.sort_by_key(|place| all.get(*place as usize).map(|(name, ..)| name));
        Self { all, by_number, by_name }
    }

    pub fn name(&self, number: i128) -> Option<&str> {
        self.all.get(self.by_number.find(number)?).map(|(name, ..)| &**name)
    }

    pub fn ranges(&self, name: &str) -> impl Iterator<Item = (i128, i128)> {
        let label = |place: &u32| self.all.get(*place as usize);
        let is_before = |place: &u32| label(place).is_some_and(|(found, ..)| **found < *name);
        let from = self.by_name.partition_point(is_before);
        let those = self.by_name.iter().skip(from).filter_map(label);
        those
            .take_while(move |(found, ..)| **found == *name)
            .map(|(_, first, last)| (*first, *last))
    }
}

#[derive(Clone, Debug)]
pub struct Struct {
    /// Bits, a power of two.
    pub align: u64,
    pub fields: Vec<(Box<str>, Node)>,
    /// Bits from its aligned begin to its end, where that is always the same.
    pub fixed: Option<u64>,
    /// Fields without a size among those whose size is always the same, and in them.
    pub empty: u64,
}

impl Default for Struct {
    fn default() -> Self {
        Self { align: 1, fields: Vec::new(), fixed: Some(0), empty: 0 }
    }
}

/// One of several options, by what a tag says.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Where the tag's value is.
    pub slot: u8,
    pub signed: bool,
    pub options: Vec<(Box<str>, Node)>,
    /// Which of them the tag chooses.
    pub by_tag: Ranges,
}

impl Variant {
    pub fn chosen(&self, slots: &Slots<'_>) -> Option<(&str, &Node)> {
        let raw = slots.get(self.slot);
        let tag = if self.signed { i128::from(raw as i64) } else { i128::from(raw) };
        let (name, node) = self.options.get(self.by_tag.find(tag)?)?;
        Some((name, node))
    }
}

#[derive(Clone, Debug)]
pub enum Node {
    Int(Int),
    Enum(Int, Arc<EnumLabels>),
    /// A floating-point number of 32 or 64 bits, as the integer that has the same bits.
    Float(Int),
    /// Bytes up to a zero.
    Text,
    Struct(Box<Struct>),
    Variant(Box<Variant>),
    Array(Box<Node>, u64),
    /// As many as a slot says.
    Sequence(Box<Node>, u8),
}

impl Node {
    /// Its alignment in bits. A variant has that of its option.
    pub fn align(&self) -> u64 {
        match self {
            Self::Int(int) | Self::Enum(int, _) | Self::Float(int) => int.align,
            Self::Text => 8,
            Self::Struct(structure) => structure.align,
            Self::Variant(_) => 1,
            Self::Array(node, _) | Self::Sequence(node, _) => node.align(),
        }
    }

    /// Bits that it takes from an aligned place on, where that is always the same and nothing in it is
    /// kept for another field.
    pub fn fixed(&self) -> Option<u64> {
        match self {
            Self::Int(int) | Self::Enum(int, _) | Self::Float(int) => {
                int.slot.is_none().then_some(u64::from(int.size))
            }
            Self::Text | Self::Variant(_) | Self::Sequence(..) => None,
            Self::Struct(structure) => structure.fixed,
            Self::Array(_, 0) => Some(0),
            Self::Array(node, count) => {
                let one = node.fixed()?;
                let step = one.checked_add(node.align())?;
                let step = bits::aligned(step - node.align(), node.align());
                step.checked_mul(count - 1)?.checked_add(one)
            }
        }
    }

    /// Fields without a size in it, where its own is always the same.
    pub fn empty(&self) -> u64 {
        match self {
            Self::Struct(structure) => structure.empty,
            Self::Array(node, count) => count.saturating_mul(node.empty()),
            Self::Int(_)
            | Self::Enum(..)
            | Self::Float(_)
            | Self::Text
            | Self::Variant(_)
            | Self::Sequence(..) => 0,
        }
    }

    /// Whether it is an array or a sequence of characters, which is read as one text.
    pub fn is_characters(&self) -> bool {
        matches!(self, Self::Int(int) if int.is_text && int.size == 8 && int.align == 8)
    }
}

impl Struct {
    /// Computes what follows from the fields.
    pub fn finish(&mut self) {
        self.align = self.fields.iter().map(|(_, node)| node.align()).fold(self.align, u64::max);
        let place = |at: u64, (_, node): &(Box<str>, Node)| {
            bits::claimed(at, node.align())?.checked_add(node.fixed()?)
        };
        self.fixed = self.fields.iter().try_fold(0, place);
        let empty = |(_, node): &(Box<str>, Node)| {
            node.fixed().map_or(0, |bits| node.empty().saturating_add(u64::from(bits == 0)))
        };
        self.empty = self.fields.iter().map(empty).fold(0, u64::saturating_add);
    }

    /// Whether so many of its fields have no size that no event of it is read.
    pub fn is_too_empty(&self) -> bool {
        let bits = self.fields.iter().filter_map(|(_, node)| node.fixed());
        self.empty > bits.fold(MOST_EMPTY, u64::saturating_add)
    }
}
