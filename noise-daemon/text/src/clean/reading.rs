//! PURE: documents of others with every text in them cleaned, whatever field it is in.
//!
//! A wrapper around the reader of a format: fields that are added later are cleaned without a word
//! about them, and so are the names in its errors.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

use super::{MOST_CHARS, clean, excerpt};

/// Bytes that a document of JSON may have in memory.
const MOST_JSON_BYTES: usize = 512 << 20;

/// A reader, or a part of one, whose texts are cleaned; and what is left of the memory that the document may have.
pub struct Cleaned<'b, T>(pub T, pub &'b Budget);

/// Memory that a document may still take, bytes: a byte of it may stand for hundreds of bytes of a type.
#[derive(Debug)]
pub struct Budget(Cell<usize>);

impl Budget {
    pub fn of(bytes: usize) -> Self {
        Self(Cell::new(bytes))
    }

    /// What is left of it; nothing where there was not enough.
    pub fn left(&self) -> usize {
        self.0.get()
    }

    fn spend<E: Error>(&self, bytes: usize) -> Result<(), E> {
        self.0.set(self.0.get().saturating_sub(bytes));
        if self.left() == 0 { Err(E::custom("it takes too much memory")) } else { Ok(()) }
    }
}

/// Errors: where it is none, or another document.
pub fn from_json<'de, T: Deserialize<'de>>(text: &'de [u8]) -> serde_json::Result<T> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let budget = Budget::of(MOST_JSON_BYTES);
    let document = T::deserialize(Cleaned(&mut reader, &budget)).and_then(|document| {
        reader.end()?;
        Ok(document)
    });
    // Where a text stands in place of something else, the reader itself quotes it.
    document.map_err(|error| match clean(&error.to_string()) {
        Cow::Borrowed(_) => error,
        Cow::Owned(shown) => Error::custom(excerpt(&shown, MOST_CHARS)),
    })
}

fn cleaned(text: &str) -> Cow<'_, str> {
    let shown = clean(text);
    if shown.len() > MOST_CHARS { excerpt(&shown, MOST_CHARS).into() } else { shown }
}

macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),*))*) => {
        $(fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.1.spend(size_of::<V::Value>())?;
            self.0.$method($($argument,)* Cleaned(visitor, self.1))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Cleaned<'_, D> {
    type Error = D::Error;

    forward! {
        deserialize_any()
        deserialize_bool()
        deserialize_i8()
        deserialize_i16()
        deserialize_i32()
        deserialize_i64()
        deserialize_i128()
        deserialize_u8()
        deserialize_u16()
        deserialize_u32()
        deserialize_u64()
        deserialize_u128()
        deserialize_f32()
        deserialize_f64()
        deserialize_char()
        deserialize_str()
        deserialize_string()
        deserialize_bytes()
        deserialize_byte_buf()
        deserialize_option()
        deserialize_unit()
        deserialize_unit_struct(name: &'static str)
        deserialize_newtype_struct(name: &'static str)
        deserialize_seq()
        deserialize_tuple(length: usize)
        deserialize_tuple_struct(name: &'static str, length: usize)
        deserialize_map()
        deserialize_struct(name: &'static str, fields: &'static [&'static str])
        deserialize_enum(name: &'static str, variants: &'static [&'static str])
        deserialize_identifier()
        deserialize_ignored_any()
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! pass {
    ($($method:ident: $type:ty)*) => {
        $(fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Cleaned<'_, V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(formatter)
    }

    pass! {
        visit_bool: bool
        visit_i8: i8
        visit_i16: i16
        visit_i32: i32
        visit_i64: i64
        visit_i128: i128
        visit_u8: u8
        visit_u16: u16
        visit_u32: u32
        visit_u64: u64
        visit_u128: u128
        visit_f32: f32
        visit_f64: f64
        visit_char: char
        visit_bytes: &[u8]
        visit_borrowed_bytes: &'de [u8]
        visit_byte_buf: Vec<u8>
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
        self.0.visit_str(&cleaned(text))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<V::Value, E> {
        match cleaned(text) {
            Cow::Borrowed(text) => self.0.visit_borrowed_str(text),
            Cow::Owned(text) => self.0.visit_string(text),
        }
    }

    fn visit_string<E: Error>(self, text: String) -> Result<V::Value, E> {
        match cleaned(&text) {
            Cow::Owned(text) => self.0.visit_string(text),
            Cow::Borrowed(_) => self.0.visit_string(text),
        }
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Cleaned(inner, self.1))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Cleaned(inner, self.1))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Cleaned(parts, self.1))
    }

    fn visit_map<A: MapAccess<'de>>(self, parts: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Cleaned(parts, self.1))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(Cleaned(variant, self.1))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Cleaned<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Cleaned(reader, self.1))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Cleaned<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Cleaned(seed, self.1))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Cleaned<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(Cleaned(seed, self.1))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Cleaned(seed, self.1))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, 'b, A: EnumAccess<'de>> EnumAccess<'de> for Cleaned<'b, A> {
    type Error = A::Error;
    type Variant = Cleaned<'b, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let (value, variant) = self.0.variant_seed(Cleaned(seed, self.1))?;
        Ok((value, Cleaned(variant, self.1)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Cleaned<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Cleaned(seed, self.1))
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(length, Cleaned(visitor, self.1))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, Cleaned(visitor, self.1))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::clean::corpus::NAMES;
    use crate::clean::is_harmful;

    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    enum Part {
        Unit,
        New(String),
        Pair(String, u8),
        Named { text: String },
    }

    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Document {
        plain: String,
        maybe: Option<String>,
        pair: (char, String),
        parts: Vec<Part>,
        map: BTreeMap<String, String>,
    }

    fn document(name: &str) -> Document {
        let text = || name.to_owned();
        Document {
            plain: text(),
            maybe: Some(text()),
            pair: ('x', text()),
            parts: vec![
                Part::Unit,
                Part::New(text()),
                Part::Pair(text(), 7),
                Part::Named { text: text() },
            ],
            map: BTreeMap::from([(text(), text())]),
        }
    }

    fn read<T: serde::de::DeserializeOwned>(
        packed: &[u8],
        budget: usize,
    ) -> Result<T, rmp_serde::decode::Error> {
        let mut reader = rmp_serde::Deserializer::from_read_ref(packed);
        T::deserialize(Cleaned(&mut reader, &Budget::of(budget)))
    }

    #[test]
    fn what_is_small_may_not_become_large() {
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(default)]
        struct Large {
            _all: [u64; 32],
        }
        // Each of them is one byte.
        let packed = rmp_serde::to_vec_named(&vec![BTreeMap::<u8, u8>::new(); 1000]).unwrap();
        assert!(packed.len() < 1010);
        assert_eq!(read::<Vec<Large>>(&packed, 300_000).unwrap().len(), 1000);
        let error = read::<Vec<std::sync::Arc<Large>>>(&packed, 100_000).unwrap_err();
        assert!(error.to_string().contains("too much memory"), "{error}");
    }

    #[test]
    fn every_text_is_cleaned_and_all_else_stays() {
        for name in NAMES {
            let expected = document(&clean(name));
            let json = serde_json::to_vec(&document(name)).unwrap();
            assert_eq!(from_json::<Document>(&json).unwrap(), expected);
            let packed = rmp_serde::to_vec_named(&document(name)).unwrap();
            assert_eq!(read::<Document>(&packed, usize::MAX).unwrap(), expected);
        }
    }

    #[test]
    fn errors_quote_nothing_raw() {
        for name in NAMES {
            let json = serde_json::to_vec(&[name]).unwrap();
            for error in [
                from_json::<Vec<Part>>(&json).unwrap_err(),
                from_json::<Vec<u8>>(&json).unwrap_err(),
            ] {
                assert!(!error.to_string().contains(is_harmful), "{error:?}");
            }
        }
        assert!(from_json::<u8>(b"1 2").is_err());
    }

    #[test]
    fn a_name_has_an_end() {
        let json = serde_json::to_vec(&"x".repeat(MOST_CHARS + 1)).unwrap();
        assert_eq!(from_json::<String>(&json).unwrap().chars().count(), MOST_CHARS + 1);
        let json = serde_json::to_vec(&"x".repeat(100 * MOST_CHARS)).unwrap();
        assert_eq!(from_json::<String>(&json).unwrap().chars().count(), MOST_CHARS + 1);
    }
}
