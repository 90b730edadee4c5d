//! Lengths of time on the command line: `10s`, `1m`, `500us`.

use std::time::Duration;

use jiff::SignedDuration;

/// Parses a length of time within bounds.
///
/// # Errors
/// Says what is expected.
pub fn duration(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let expected = || format!("expected a time from {least:?} to {most:?}, such as {least:?}");
    let duration: SignedDuration = text.parse().map_err(|_| expected())?;
    let duration = Duration::try_from(duration).map_err(|_| expected())?;
    if (least..=most).contains(&duration) { Ok(duration) } else { Err(expected()) }
}

/// In nanoseconds; centuries are as long as it gets.
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_bounds() {
        let parse = |text| duration(text, Duration::from_micros(1), Duration::from_secs(60));
        assert_eq!(parse("20us"), Ok(Duration::from_micros(20)));
        assert_eq!(parse("1m"), Ok(Duration::from_secs(60)));
        for wrong in ["", "5", "61s", "999ns", "-1s", "1h"] {
            let error = parse(wrong).unwrap_err();
            assert_eq!(error, "expected a time from 1µs to 60s, such as 1µs", "{wrong}");
        }
    }
}
