//! The kernel's own description of a trace event: `events/<system>/<event>/format`.
//!
//! Field offsets and sizes come from there, never from this program, so that a kernel with another
//! layout is read correctly. The symbolic names that the kernel prints for a number
//! (`{ 3, "NET_RX" }`) are taken from the same file.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

/// One field of an event record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Offset from the start of the record, in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// The four bytes at `offset` say where in the record the text is and how long it is.
    pub data_loc: bool,
    signed: bool,
}

impl Field {
    /// The field as an unsigned number; a short record reads `None`.
    pub fn unsigned(&self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset..self.offset + self.size)?;
        let mut value = [0_u8; 8];
        value.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(value))
    }

    /// The first of the field's numbers, where it has several of 64 bits.
    pub fn first(self) -> Self {
        Self { size: self.size.min(8), ..self }
    }

    /// The field as a number with its sign extended where the kernel declares it signed.
    pub fn number(&self, record: &[u8]) -> Option<i64> {
        let raw = self.unsigned(record)?;
        let unused_bits = 64 - 8 * self.size.min(8) as u32;
        let shifted = raw.checked_shl(unused_bits)?;
        Some(if self.signed { shifted.cast_signed() >> unused_bits } else { raw.cast_signed() })
    }

    /// The field as text up to its first NUL.
    pub fn text<'a>(&self, record: &'a [u8]) -> Option<&'a str> {
        let bytes = if self.data_loc {
            let location = self.unsigned(record)?;
            let start = usize::try_from(location & 0xffff).ok()?;
            let length = usize::try_from(location >> 16).ok()?;
            record.get(start..start + length)?
        } else if self.size == 0 {
            // A trailing array without a length: it runs to the end of the record.
            record.get(self.offset..)?
        } else {
            record.get(self.offset..self.offset + self.size)?
        };
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        std::str::from_utf8(bytes.get(..end)?).ok()
    }
}

/// A parsed `format` file.
#[derive(Clone, Debug)]
pub struct Format {
    /// The event's number in the ring buffer.
    pub id: u16,
    fields: BTreeMap<String, Field>,
    /// Numbers that the kernel prints by name.
    pub symbols: BTreeMap<u64, String>,
}

impl Format {
    /// Parses the text of a `format` file.
    pub fn parse(text: &str) -> Result<Self> {
        let id = text
            .lines()
            .find_map(|line| line.strip_prefix("ID:"))
            .context("a format file without an ID line")?
            .trim()
            .parse()?;
        let fields = text.lines().filter_map(parse_field).collect();
        let symbols = text
            .lines()
            .find(|line| line.starts_with("print fmt:"))
            .map(parse_symbols)
            .unwrap_or_default();
        Ok(Self { id, fields, symbols })
    }

    /// A field by its name.
    pub fn field(&self, name: &str) -> Result<Field> {
        self.fields
            .get(name)
            .copied()
            .with_context(|| format!("this kernel's event has no field {name}"))
    }
}

/// Reads `field:<type> <name>;\toffset:<n>;\tsize:<n>;\tsigned:<n>;`, also as `header_page` has it.
pub(crate) fn parse_field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declaration = parts.next()?.strip_prefix("field:")?.trim();
    let mut offset = None;
    let mut size = None;
    let mut signed = false;
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => offset = value.parse().ok(),
            Some(("size", value)) => size = value.parse().ok(),
            Some(("signed", value)) => signed = value == "1",
            _ => {}
        }
    }
    let name = declaration.rsplit(char::is_whitespace).next()?;
    let name = name.split('[').next()?.trim_start_matches('*').to_owned();
    let data_loc = declaration.starts_with("__data_loc");
    Some((name, Field { offset: offset?, size: size?, data_loc, signed }))
}

/// Every `{ <number>, "<name>" }` of a print format.
fn parse_symbols(print: &str) -> BTreeMap<u64, String> {
    let mut symbols = BTreeMap::new();
    for entry in print.split('{').skip(1) {
        let Some((number, rest)) = entry.split_once(',') else { continue };
        let Some(name) = rest.split('"').nth(1) else { continue };
        let number = number.trim();
        let number = number
            .strip_prefix("0x")
            .map_or_else(|| number.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok());
        if let Some(number) = number {
            symbols.insert(number, name.to_owned());
        }
    }
    symbols
}

#[cfg(test)]
mod tests {
    use super::{Field, Format};

    const SOFTIRQ: &str = "name: softirq_entry\nID: 223\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"vec=%u [action=%s]\", REC->vec, __print_symbolic(REC->vec, { 0, \"HI\" }, { 0x3, \"NET_RX\" })\n";

    #[test]
    fn reads_fields_and_symbols() {
        let format = Format::parse(SOFTIRQ).unwrap();
        assert_eq!(format.id, 223);
        let vector = format.field("vec").unwrap();
        assert_eq!(vector, Field { offset: 8, size: 4, data_loc: false, signed: false });
        assert!(format.field("name").unwrap().data_loc);
        assert!(format.field("absent").is_err());
        assert_eq!(format.symbols.get(&3).map(String::as_str), Some("NET_RX"));
        assert_eq!(format.symbols.len(), 2);
    }

    #[test]
    fn numbers_keep_their_sign_and_short_records_are_refused() {
        let format = Format::parse(SOFTIRQ).unwrap();
        let pid = format.field("common_pid").unwrap();
        let record = [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 9, 0, 0, 0];
        assert_eq!(pid.number(&record), Some(-1));
        assert_eq!(format.field("vec").unwrap().number(&record), Some(9));
        assert_eq!(format.field("name").unwrap().unsigned(&record), None);
    }

    #[test]
    fn located_text_ends_at_its_nul() {
        let format = Format::parse(SOFTIRQ).unwrap();
        let name = format.field("name").unwrap();
        let mut record = vec![0_u8; 12];
        record.extend((16_u32 | 5 << 16).to_le_bytes());
        record.extend(b"lo\0xx");
        assert_eq!(name.text(&record), Some("lo"));
        record.truncate(18);
        assert_eq!(name.text(&record), None);
    }
}
