//! A moment of a recording, on the command line.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Nanoseconds since the epoch of the recording's clock.
    At(u64),
    /// Nanoseconds after the first event.
    After(u64),
}

impl Moment {
    /// Reads a moment.
    ///
    /// # Errors
    /// Says what would do.
    pub fn parse(text: &str) -> Result<Self, String> {
        let read = match text.strip_prefix('+') {
            Some(length) => after(length).map(Self::After),
            None => at(text).map(Self::At),
        };
        read.ok_or_else(|| {
            "expected a distance from the first event such as +1.5s, nanoseconds since the epoch such as \
             1457113582794565804, seconds with a point such as 1457113582.79, or a time such as \
             2016-03-04T17:46:22.79Z"
                .to_owned()
        })
    }

    /// In nanoseconds since the epoch, where the first event is at `begin_ns`.
    pub fn time_ns(self, begin_ns: u64) -> u64 {
        match self {
            Self::At(time_ns) => time_ns,
            Self::After(after_ns) => begin_ns.saturating_add(after_ns),
        }
    }
}

fn after(text: &str) -> Option<u64> {
    let length: SignedDuration = match text.parse::<f64>() {
        Ok(seconds) => SignedDuration::try_from_secs_f64(seconds).ok()?,
        Err(_) => text.parse().ok()?,
    };
    u64::try_from(length.as_nanos()).ok()
}

fn at(text: &str) -> Option<u64> {
    if let Ok(time_ns) = text.parse() {
        return Some(time_ns);
    }
    if let Some((seconds, digits)) = text.split_once('.')
        && let Ok(seconds) = seconds.parse::<u64>()
    {
        let is_plain =
            (1..=9).contains(&digits.len()) && digits.bytes().all(|c| c.is_ascii_digit());
        let fraction_ns: u64 = format!("{digits:0<9}").parse().ok().filter(|_| is_plain)?;
        return seconds.checked_mul(SECOND_NS)?.checked_add(fraction_ns);
    }
    let time = match text.parse::<Timestamp>() {
        Ok(time) => time,
        Err(_) => TimeZone::UTC.to_timestamp(text.parse::<DateTime>().ok()?).ok()?,
    };
    u64::try_from(time.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read() {
        for (text, moment) in [
            ("+1.5s", Moment::After(1_500_000_000)),
            ("+20ms", Moment::After(20_000_000)),
            ("+0", Moment::After(0)),
            ("+1.5", Moment::After(1_500_000_000)),
            ("1457113582794565804", Moment::At(1_457_113_582_794_565_804)),
            ("1457113582.79", Moment::At(1_457_113_582_790_000_000)),
            ("2016-03-04T17:46:22.79Z", Moment::At(1_457_113_582_790_000_000)),
            ("2016-03-04T17:46:22.79", Moment::At(1_457_113_582_790_000_000)),
        ] {
            assert_eq!(Moment::parse(text), Ok(moment), "{text}");
        }
        for text in ["", "+", "+x", "-1", "1.", "1.1234567891", "soon", "+-1s", "1.5x"] {
            assert!(Moment::parse(text).unwrap_err().contains("+1.5s"), "{text}");
        }
        assert_eq!(Moment::After(u64::MAX).time_ns(1), u64::MAX);
    }
}
