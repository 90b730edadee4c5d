//! Sizes on the command line: `500M`, `2G`.

use noise_record::BUFFER_BYTES;

/// Units, by the letter that they begin with.
const UNITS: [(char, u32); 4] = [('k', 10), ('m', 20), ('g', 30), ('t', 40)];

/// The size of all files.
/// Errors say what is expected.
pub fn parse(text: &str) -> Result<u64, String> {
    bytes(text).filter(|bytes| *bytes >= 1 << 20).ok_or_else(|| {
        "expected a size of at least 1M, such as 500M, 2G or a number of bytes".to_owned()
    })
}

/// The size of a buffer.
/// Errors say what is expected.
pub fn buffer(text: &str) -> Result<u64, String> {
    let (least, most) = BUFFER_BYTES;
    bytes(text).filter(|bytes| (least..=most).contains(bytes)).ok_or_else(|| {
        "expected a size for each CPU from 1M to 1G, such as 16M or a number of bytes".to_owned()
    })
}

/// Bytes: a number, and a unit of 1024 bytes, of 1024 such …
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default().to_ascii_lowercase();
    let mut letters = unit.chars();
    let shift = match letters.next() {
        None | Some('b') if letters.as_str().is_empty() => 0,
        Some(letter) if matches!(letters.as_str(), "" | "b" | "ib") => {
            UNITS.iter().find(|(of, _)| *of == letter)?.1
        }
        _ => return None,
    };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("1048576", 1 << 20),
            ("2000000B", 2_000_000),
            ("1024k", 1 << 20),
            ("500M", 500 << 20),
            ("2GiB", 2 << 30),
            ("1tb", 1 << 40),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "1", "1k", "-1M", "1.5G", "1x", "1Mx", "99999999999T", "1 M"] {
            assert!(parse(text).unwrap_err().contains("such as 500M"), "{text}");
        }
        for (text, bytes) in [("1M", 1 << 20), ("3000000", 3_000_000), ("1g", 1 << 30)] {
            assert_eq!(buffer(text), Ok(bytes), "{text}");
        }
        for text in ["", "0", "1023k", "1048575", "1025M", "2G", "64", "x", "99999999999T"] {
            assert!(buffer(text).unwrap_err().contains("from 1M to 1G, such as 16M"), "{text}");
        }
    }
}
