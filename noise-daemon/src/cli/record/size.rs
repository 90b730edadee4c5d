//! Sizes on the command line: `500M`, `2G`.

/// Units, by the letter that they begin with.
const UNITS: [(char, u32); 4] = [('k', 10), ('m', 20), ('g', 30), ('t', 40)];

/// Bytes: a number, and a unit of 1024 bytes, of 1024 such …
/// Errors say what is expected.
pub fn parse(text: &str) -> Result<u64, String> {
    let expected =
        || "expected a size of at least 1M, such as 500M, 2G or a number of bytes".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default().to_ascii_lowercase();
    let mut letters = unit.chars();
    let shift = match letters.next() {
        None | Some('b') if letters.as_str().is_empty() => 0,
        Some(letter) if matches!(letters.as_str(), "" | "b" | "ib") => {
            UNITS.iter().find(|(of, _)| *of == letter).ok_or_else(expected)?.1
        }
        _ => return Err(expected()),
    };
    let number: u64 = digits.parse().map_err(|_| expected())?;
    let bytes = number.checked_mul(1 << shift).ok_or_else(expected)?;
    if bytes < 1 << 20 { Err(expected()) } else { Ok(bytes) }
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
    }
}
