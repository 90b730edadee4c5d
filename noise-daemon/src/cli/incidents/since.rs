//! The moment from which on something is shown.

use anyhow::Context as _;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

/// A moment, or how long it is ago.
#[derive(Clone, Debug)]
pub enum Since {
    /// So long ago.
    Ago(Span),
    /// Then.
    At(Timestamp),
}

impl Since {
    /// Reads a duration or a time.
    ///
    /// # Errors
    /// Says what would do.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Ok(time) = text.parse() {
            return Ok(Self::At(time));
        }
        if let Ok(time) = text.parse::<DateTime>()
            && let Ok(time) = TimeZone::UTC.to_timestamp(time)
        {
            return Ok(Self::At(time));
        }
        match text.parse::<Span>() {
            Ok(span) if !span.is_negative() => Ok(Self::Ago(span)),
            _ => Err("expected a duration such as 90s, 10m, 2h or 3d, or a time such as \
                      2026-11-21T09:00:00Z"
                .to_owned()),
        }
    }

    /// The moment, seen from now.
    ///
    /// # Errors
    /// Where it lies before the earliest time that can be represented.
    pub fn from(&self, now: Timestamp) -> anyhow::Result<Timestamp> {
        match self {
            Self::At(time) => Ok(*time),
            // Days and more are those of a calendar.
            Self::Ago(span) => now
                .to_zoned(TimeZone::UTC)
                .checked_sub(*span)
                .map(|time| time.timestamp())
                .context("--since goes too far back"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_times_are_read() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        for (text, expected) in [
            ("90s", "2026-11-21T11:58:30Z"),
            ("10m", "2026-11-21T11:50:00Z"),
            ("1h30m", "2026-11-21T10:30:00Z"),
            ("2 days", "2026-11-19T12:00:00Z"),
            ("PT1H", "2026-11-21T11:00:00Z"),
            ("2026-11-21T09:00:00+01:00", "2026-11-21T08:00:00Z"),
            ("2026-11-21T09:00:00", "2026-11-21T09:00:00Z"),
            ("2026-11-21", "2026-11-21T00:00:00Z"),
        ] {
            let since = Since::parse(text).unwrap().from(now).unwrap();
            assert_eq!(since.to_string(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_neither_is_refused() {
        for text in ["", "soon", "10", "-10m", "10m ago", "2026-13-01T00:00:00Z"] {
            assert!(Since::parse(text).unwrap_err().contains("such as"), "{text}");
        }
        assert!(Since::parse("19000y").unwrap().from(Timestamp::UNIX_EPOCH).is_err());
    }
}
