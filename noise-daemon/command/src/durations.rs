//! Times on the command line: lengths such as `10s`, `1m`, `500us`, and bounds such as `14:03`.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, Zoned};
use noise_text::times::Moment;

use crate::CommandError;

/// What a number without a unit counts, as the options of rtla have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// Seconds: how long a measurement takes.
    Seconds,
    Microseconds,
}

impl Plain {
    /// A number of them.
    fn of(self, number: f64) -> Option<Duration> {
        let seconds = match self {
            Self::Seconds => number,
            Self::Microseconds => number / 1e6,
        };
        Duration::try_from_secs_f64(seconds).ok()
    }

    fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Microseconds => "microseconds",
        }
    }
}

/// Parses a length of time within bounds, with a unit or without.
/// Errors say what is expected.
pub fn duration(
    text: &str,
    plain: Plain,
    least: Duration,
    most: Duration,
) -> Result<Duration, String> {
    let parsed = match text.parse::<f64>() {
        Ok(number) => plain.of(number),
        Err(_) => text.parse::<SignedDuration>().ok().and_then(|time| time.try_into().ok()),
    };
    parsed.filter(|time| (least..=most).contains(time)).ok_or_else(|| {
        let [least, most] = [least, most].map(written);
        format!(
            "expected a duration from {least} to {most}, such as {least}; a number without a unit \
             counts {}",
            plain.name()
        )
    })
}

/// The moment that an option names.
/// Errors: where no clock shows it.
pub fn bound(option: &str, moment: &Moment, now: &Zoned) -> Result<Timestamp, CommandError> {
    let out_of_range =
        || CommandError::misused(format!("{option} goes too far back: give a later time"));
    moment.before(now).ok_or_else(out_of_range)
}

/// As it can be typed: `1h`, `500ms`.
fn written(duration: Duration) -> String {
    SignedDuration::try_from(duration).map_or_else(|_| String::new(), |time| format!("{time:#}"))
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
        let parse = |text| {
            duration(text, Plain::Seconds, Duration::from_micros(1), Duration::from_secs(60))
        };
        assert_eq!(parse("20us"), Ok(Duration::from_micros(20)));
        assert_eq!(parse("1m"), Ok(Duration::from_secs(60)));
        for wrong in ["", "61s", "999ns", "-1s", "1h", "61", "-5", "0", "nan", "inf", "1e300"] {
            let error = parse(wrong).unwrap_err();
            let expected = "expected a duration from 1µs to 1m, such as 1µs; a number without a unit \
                            counts seconds";
            assert_eq!(error, expected, "{wrong}");
        }
    }

    #[test]
    fn numbers_without_a_unit_are_those_of_rtla() {
        let parse = |text, plain| duration(text, plain, Duration::ZERO, Duration::from_secs(60));
        for (text, seconds, microseconds) in [
            ("5", 5_000_000, 5),
            ("0.5", 500_000, 0),
            ("1.5", 1_500_000, 1),
            ("60", 60_000_000, 60),
        ] {
            let parsed = parse(text, Plain::Seconds);
            assert_eq!(parsed, Ok(Duration::from_micros(seconds)), "{text}");
            let parsed = parse(text, Plain::Microseconds).map(|time| time.as_micros());
            assert_eq!(parsed, Ok(microseconds), "{text}");
        }
    }
}
