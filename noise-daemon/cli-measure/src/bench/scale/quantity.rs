//! Durations and numbers of nodes as they are typed.

use std::time::Duration;

use noise_command::durations::{self, Plain};

const MOST_NODES: f64 = 1e9;
/// Shortest and longest duration.
const SHORTEST: Duration = Duration::from_micros(1);
const LONGEST: Duration = Duration::from_secs(3_600);

/// Errors say what would do.
pub fn duration(text: &str) -> Result<f64, String> {
    let parsed = durations::duration(text, Plain::Microseconds, SHORTEST, LONGEST);
    parsed.map(|time| time.as_nanos() as f64)
}

/// A number of nodes, also as `1e6`.
/// Errors say what would do.
pub fn nodes(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.fract() == 0.0 && (1.0..=MOST_NODES).contains(&number) => {
            Ok(number as u64)
        }
        _ => Err("expected a number of nodes from 1 to 1e9, such as 1000 or 1e6".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_or_refused() {
        for (text, ns) in [
            ("100us", 1e5),
            ("2500us", 2.5e6),
            ("1ms", 1e6),
            ("1.5ms", 1.5e6),
            ("2s", 2e9),
            ("5", 5e3),
        ] {
            assert_eq!(duration(text), Ok(ns), "{text}");
        }
        for text in ["", "0.5", "-1ms", "0ms", "10ns", "2h", "1 parsec"] {
            assert!(duration(text).unwrap_err().contains("such as"), "{text}");
        }
        assert_eq!((nodes("1"), nodes("1e7"), nodes("12345")), (Ok(1), Ok(10_000_000), Ok(12_345)));
        for text in ["", "0", "-1", "1.5", "1e10", "inf", "nan", "many"] {
            assert!(nodes(text).unwrap_err().contains("such as"), "{text}");
        }
    }
}
