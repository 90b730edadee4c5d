//! The fields of events: how they are asked for, whatever the format, and how a recording holds them.

use core::ffi::CStr;

use noise_common::store::calls::ObjectKind;

use crate::state::LeftIn;
use crate::task::Comm;

/// A field of an event.
#[derive(Clone, Copy, Debug)]
pub struct EventField {
    /// The names that tracers gave it, the best first.
    pub names: &'static [&'static str],
    /// Its type in the metadata of our recordings, if they have it.
    pub declared: Option<&'static str>,
}

impl EventField {
    /// One that recordings hold as a type.
    pub const fn of<W: Declared + ?Sized>(names: &'static [&'static str]) -> Self {
        Self { names, declared: Some(W::DECLARED) }
    }

    /// One that is read alone.
    pub const fn undeclared(names: &'static [&'static str]) -> Self {
        Self { names, declared: None }
    }

    /// Its name and its type in recordings.
    pub fn recorded(&self) -> Option<(&'static str, &'static str)> {
        Some((self.names.first()?, self.declared?))
    }
}

/// Fields of an event, by their numbers in [`What::fields`](super::What::fields). One that is not there is 0 or empty.
pub trait Fields<'t> {
    /// Whether it is there.
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
}

/// A type of recordings that holds values of a type of the model.
pub trait Holds<'t, T>: Declared {
    /// Sets the place in the model to what the field of that number says.
    fn read(place: &mut T, fields: &impl Fields<'t>, field: usize);
    /// Appends the field.
    fn write(value: T, bytes: &mut Vec<u8>);
}

/// Reads the fields of an event one after the other.
pub struct FieldReader<'f, F> {
    fields: &'f F,
    next: usize,
}

impl<'f, F> FieldReader<'f, F> {
    #[inline(always)]
    pub const fn new(fields: &'f F) -> Self {
        Self { fields, next: 0 }
    }

    #[inline(always)]
    pub fn read<'t, W: Holds<'t, T> + ?Sized, T>(self, place: &mut T) -> Self
    where
        F: Fields<'t>,
    {
        W::read(place, self.fields, self.next);
        self.skip()
    }

    #[inline(always)]
    pub fn read_by<T>(self, place: &mut T, read: impl FnOnce(&'f F, usize) -> T) -> Self {
        *place = read(self.fields, self.next);
        self.skip()
    }

    #[inline(always)]
    pub const fn skip(self) -> Self {
        Self { next: self.next + 1, ..self }
    }
}

/// 64 bits that people read in base 16.
pub struct Hex;

macro_rules! declared {
    ($($type:ty = $declared:literal;)+) => {
        $(impl Declared for $type {
            const DECLARED: &'static str = $declared;
        })+
    };
}

declared! {
    u8 = "uint8_t";
    i32 = "int32_t";
    u32 = "uint32_t";
    i64 = "int64_t";
    u64 = "uint64_t";
    Hex = "address_t";
    Comm = "comm_char_t";
    CStr = "string";
    LeftIn = "int64_t";
    ObjectKind = "enum object_kind";
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
