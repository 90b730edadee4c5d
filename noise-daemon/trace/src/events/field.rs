//! The fields of events: how they are asked for, whatever the format, and how a recording holds them.

use core::ffi::CStr;

use noise_common::store::calls::ObjectKind;

use crate::state::LeftIn;
use crate::task::Comm;
use crate::value::{Value, Visit};

#[derive(Clone, Copy, Debug)]
pub struct EventField {
    /// The names that tracers gave it, the best first.
    pub names: &'static [&'static str],
    /// Its type in our recordings, if they have it.
    pub declared: Option<DeclaredType>,
}

impl EventField {
    /// One that recordings hold as a type.
    pub const fn of<W: Declared + ?Sized>(names: &'static [&'static str]) -> Self {
        Self { names, declared: Some(DeclaredType::of::<W>()) }
    }

    /// One that is read alone.
    pub const fn undeclared(names: &'static [&'static str]) -> Self {
        Self { names, declared: None }
    }

    /// Its name and its type in recordings.
    pub fn recorded(&self) -> Option<(&'static str, DeclaredType)> {
        Some((self.names.first()?, self.declared?))
    }
}

/// Fields of an event, by their numbers in [`What::fields`](super::What::fields). One that is not there is 0 or empty.
pub trait Fields<'t> {
    fn has(&self, field: usize) -> bool;
    /// An integer; one with a sign is sign-extended.
    fn int(&self, field: usize) -> u64;
    /// The state that a switch leaves a thread in.
    fn state(&self, field: usize) -> LeftIn {
        LeftIn::of(self.int(field) as i64)
    }
    fn text(&self, field: usize) -> &'t [u8];
}

/// A type of recordings.
pub trait Declared {
    /// Its name in the metadata.
    const DECLARED: &'static str;
    /// The value that bytes of ours begin with, and the bytes behind it. Of what is cut, nothing is left.
    fn split(bytes: &[u8]) -> (Value<'_>, &[u8]);
}

/// A type of recordings that is known at run time.
#[derive(Clone, Copy, Debug)]
pub struct DeclaredType {
    /// Its name in the metadata.
    pub name: &'static str,
    split: fn(&[u8]) -> (Value<'_>, &[u8]),
}

impl DeclaredType {
    pub const fn of<W: Declared + ?Sized>() -> Self {
        Self { name: W::DECLARED, split: W::split }
    }

    /// Shows the value that bytes of ours begin with, as the metadata describe it; the bytes behind it.
    pub fn show<'t>(&self, bytes: &'t [u8], visit: &mut impl Visit) -> &'t [u8] {
        let (value, rest) = (self.split)(bytes);
        match value {
            Value::Unsigned { value: number, .. } if self.name == ObjectKind::DECLARED => {
                let label = ObjectKind::from_number(number).map(ObjectKind::name);
                visit.value(Value::Label { label, value: &value });
            }
            value => visit.value(value),
        }
        rest
    }
}

/// A type of recordings that holds values of a type of the model.
pub trait Holds<'t, T>: Declared {
    /// Sets the place in the model to what the field of that number says.
    fn read(place: &mut T, fields: &impl Fields<'t>, field: usize);
    fn write(value: T, bytes: &mut Vec<u8>);
}

/// Hands out the fields of an event in the order in which recordings have them, with the number to ask each one by.
pub trait FieldSteps<'t>: Sized {
    type Fields: Fields<'t>;
    /// One that recordings hold as a type.
    fn recorded<W: Declared + ?Sized>(self, see: impl FnOnce(&Self::Fields, usize)) -> Self;
    /// One that other tracers alone have.
    fn foreign(self, see: impl FnOnce(&Self::Fields, usize)) -> Self;
}

/// Fields that any of are asked for.
pub struct FieldReader<'f, F> {
    fields: &'f F,
    next: usize,
}

impl<'f, F> FieldReader<'f, F> {
    #[inline(always)]
    pub const fn new(fields: &'f F) -> Self {
        Self { fields, next: 0 }
    }
}

impl<'t, F: Fields<'t>> FieldSteps<'t> for FieldReader<'_, F> {
    type Fields = F;

    #[inline(always)]
    fn recorded<W: Declared + ?Sized>(self, see: impl FnOnce(&F, usize)) -> Self {
        self.foreign(see)
    }

    #[inline(always)]
    fn foreign(self, see: impl FnOnce(&F, usize)) -> Self {
        see(self.fields, self.next);
        Self { next: self.next + 1, ..self }
    }
}

/// Fields as a recording of ours has them: the bytes are what is left of them.
pub struct PackedFields<'t>(pub &'t [u8]);

impl<'t> FieldSteps<'t> for PackedFields<'t> {
    type Fields = Value<'t>;

    #[inline(always)]
    fn recorded<W: Declared + ?Sized>(self, see: impl FnOnce(&Value<'t>, usize)) -> Self {
        let (value, rest) = W::split(self.0);
        see(&value, 1);
        Self(rest)
    }

    #[inline(always)]
    fn foreign(self, _: impl FnOnce(&Value<'t>, usize)) -> Self {
        self
    }
}

impl<'t> PackedFields<'t> {
    /// The next one, as a type of the model.
    #[inline(always)]
    pub fn take<W: Holds<'t, T> + ?Sized, T>(self, place: &mut T) -> Self {
        self.recorded::<W>(|fields, field| W::read(place, fields, field))
    }
}

/// The only field, whatever its number.
impl<'t> Fields<'t> for Value<'t> {
    #[inline(always)]
    fn has(&self, _: usize) -> bool {
        true
    }

    #[inline(always)]
    fn int(&self, _: usize) -> u64 {
        match self {
            Self::Unsigned { value, .. } => *value,
            Self::Signed { value, .. } => value.cast_unsigned(),
            Self::Float(_) | Self::Text(_) | Self::Label { .. } => 0,
        }
    }

    #[inline(always)]
    fn text(&self, _: usize) -> &'t [u8] {
        if let Self::Text(text) = self { text } else { &[] }
    }
}

/// 64 bits that people read in base 16.
pub struct Hex;

macro_rules! declared {
    ($($type:ty = $declared:literal $value:ident $wire:ident { $($how:tt)* };)+) => {
        $(impl Declared for $type {
            const DECLARED: &'static str = $declared;

            #[inline(always)]
            fn split(bytes: &[u8]) -> (Value<'_>, &[u8]) {
                let (number, rest) = match bytes.split_first_chunk() {
                    Some((number, rest)) => ($wire::from_le_bytes(*number), rest),
                    None => (0, [].as_slice()),
                };
                (Value::$value { value: number.into(), $($how)* }, rest)
            }
        })+
    };
}

declared! {
    u8 = "uint8_t" Unsigned u8 { base: 10 };
    i32 = "int32_t" Signed i32 { base: 10, bits: 32 };
    u32 = "uint32_t" Unsigned u32 { base: 10 };
    i64 = "int64_t" Signed i64 { base: 10, bits: 64 };
    u64 = "uint64_t" Unsigned u64 { base: 10 };
    Hex = "address_t" Unsigned u64 { base: 16 };
    LeftIn = "int64_t" Signed i64 { base: 10, bits: 64 };
    ObjectKind = "enum object_kind" Unsigned u8 { base: 10 };
}

impl Declared for Comm {
    const DECLARED: &'static str = "comm_char_t";

    #[inline(always)]
    fn split(bytes: &[u8]) -> (Value<'_>, &[u8]) {
        let (name, rest) = bytes.split_at_checked(size_of::<Self>()).unwrap_or_default();
        let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        (Value::Text(name.get(..length).unwrap_or_default()), rest)
    }
}

impl Declared for CStr {
    const DECLARED: &'static str = "string";

    #[inline(always)]
    fn split(bytes: &[u8]) -> (Value<'_>, &[u8]) {
        let mut parts = bytes.splitn(2, |&byte| byte == 0);
        let mut part = || parts.next().unwrap_or_default();
        (Value::Text(part()), part())
    }
}

macro_rules! integers {
    ($($type:ty as $wire:ident holds $($held:ident)|+;)+) => {
        $($(impl<'t> Holds<'t, $held> for $type {
            #[inline(always)]
            fn read(place: &mut $held, fields: &impl Fields<'t>, field: usize) {
                *place = fields.int(field) as $held;
            }

            #[inline(always)]
            fn write(value: $held, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&(value as $wire).to_le_bytes());
            }
        })+)+
    };
}

integers! {
    i32 as i32 holds i32 | u32;
    u32 as u32 holds u32;
    i64 as i64 holds i64;
    u64 as u64 holds u64 | u32;
    Hex as u64 holds u64;
}

impl<'t> Holds<'t, bool> for i32 {
    #[inline]
    fn read(place: &mut bool, fields: &impl Fields<'t>, field: usize) {
        *place = fields.int(field) != 0;
    }

    fn write(value: bool, bytes: &mut Vec<u8>) {
        <Self as Holds<'_, Self>>::write(value.into(), bytes);
    }
}

impl<'t> Holds<'t, Self> for LeftIn {
    #[inline(always)]
    fn read(place: &mut Self, fields: &impl Fields<'t>, field: usize) {
        *place = fields.state(field);
    }

    #[inline(always)]
    fn write(value: Self, bytes: &mut Vec<u8>) {
        <i64 as Holds<'_, i64>>::write(value.bits(), bytes);
    }
}

impl<'t> Holds<'t, Self> for Comm {
    #[inline(always)]
    fn read(place: &mut Self, fields: &impl Fields<'t>, field: usize) {
        *place = Self::new(fields.text(field));
    }

    #[inline(always)]
    fn write(value: Self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&value.0);
    }
}

impl<'t> Holds<'t, &'t [u8]> for Comm {
    #[inline(always)]
    fn read(place: &mut &'t [u8], fields: &impl Fields<'t>, field: usize) {
        *place = fields.text(field);
    }

    #[inline(always)]
    fn write(value: &'t [u8], bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&Self::new(value).0);
    }
}

/// A text ends at its first zero.
impl<'t> Holds<'t, &'t [u8]> for CStr {
    #[inline(always)]
    fn read(place: &mut &'t [u8], fields: &impl Fields<'t>, field: usize) {
        *place = fields.text(field);
    }

    fn write(value: &'t [u8], bytes: &mut Vec<u8>) {
        bytes.extend(value.iter().take_while(|&&byte| byte != 0));
        bytes.push(0);
    }
}

impl<'t> Holds<'t, Self> for ObjectKind {
    #[inline]
    fn read(place: &mut Self, fields: &impl Fields<'t>, field: usize) {
        *place = Self::from_number(fields.int(field)).unwrap_or(Self::Unknown);
    }

    fn write(value: Self, bytes: &mut Vec<u8>) {
        bytes.push(value as u8);
    }
}
