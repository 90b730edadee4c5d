//! PURE: how long the server's certificate lasts. A monitor whose certificate has expired is blind: no
//! scraper that verifies it connects, and nothing on this side fails.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

/// From this time before its end on, its end is near.
const SOON_S: i64 = 7 * DAY_S;
const DAY_S: i64 = 24 * 60 * 60;
/// From one warning to the next, as long as it lasts.
const AGAIN: Duration = Duration::from_secs(24 * 60 * 60);

/// When all certificates of a chain are valid, seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub from_s: i64,
    pub until_s: i64,
}

impl Validity {
    /// That of a chain; `None` where it cannot be read.
    pub fn of(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let seconds =
            |time: x509_cert::time::Time| i64::try_from(time.to_unix_duration().as_secs()).ok();
        let mut all = chain.iter().filter_map(|certificate| {
            let certificate = Certificate::from_der(certificate).ok()?;
            let validity = certificate.tbs_certificate().validity();
            Some(Self {
                from_s: seconds(validity.not_before)?,
                until_s: seconds(validity.not_after)?,
            })
        });
        let first = all.next()?;
        Some(all.fold(first, |all, one| Self {
            from_s: all.from_s.max(one.from_s),
            until_s: all.until_s.min(one.until_s),
        }))
    }

    /// How it stands at a time.
    pub fn standing(&self, now_s: i64) -> Standing {
        match self.until_s.saturating_sub(now_s) {
            ..0 => Standing::Expired,
            _ if now_s < self.from_s => Standing::Early,
            0..SOON_S => Standing::Near,
            _ => Standing::Fine,
        }
    }

    /// What an operator should know, if anything.
    pub fn warning(&self, now_s: i64) -> Option<String> {
        let date = |seconds| Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
        let days = |seconds: i64| match seconds / DAY_S {
            0 => "less than a day".to_owned(),
            1 => "1 day".to_owned(),
            days => format!("{days} days"),
        };
        let (from, until) = (date(self.from_s), date(self.until_s));
        let left = days((self.until_s - now_s).abs());
        match self.standing(now_s) {
            Standing::Fine => None,
            Standing::Early => Some(format!(
                "the server certificate is valid from {from} on only: clients that verify it refuse to connect \
                 until then; check the clock of this host"
            )),
            Standing::Near => Some(format!(
                "the server certificate expires in {left} ({until}): clients that verify it will refuse to connect \
                 from then on; renew it, and the new one is used without a restart"
            )),
            Standing::Expired => Some(format!(
                "the server certificate expired {left} ago ({until}): clients that verify it refuse to connect; \
                 renew it, and the new one is used without a restart"
            )),
        }
    }
}

/// How a certificate stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Fine,
    Early,
    /// Its end is near.
    Near,
    Expired,
}

/// What was said of a certificate last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reminder(Option<(Standing, Instant)>);

impl Reminder {
    /// What is to be said now: once when it comes to stand so, and once a day while it does.
    pub fn due(&mut self, validity: &Validity, now_s: i64, now: Instant) -> Option<String> {
        let standing = validity.standing(now_s);
        let is_said = self.0.is_some_and(|(said, at)| {
            said == standing && now.saturating_duration_since(at) < AGAIN
        });
        if is_said {
            return None;
        }
        self.0 = Some((standing, now));
        validity.warning(now_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALIDITY: Validity = Validity { from_s: 100 * DAY_S, until_s: 200 * DAY_S };

    #[test]
    fn what_is_near_its_end_or_beyond_is_warned_of() {
        for (day, words) in [
            (99, Some("valid from 1970-04-11T00:00:00Z on only")),
            (100, None),
            (193, None),
            (194, Some("expires in 6 days (1970-07-20T00:00:00Z)")),
            (199, Some("expires in 1 day (")),
            (201, Some("expired 1 day ago")),
            (230, Some("expired 30 days ago")),
        ] {
            let warning = VALIDITY.warning(day * DAY_S);
            assert_eq!(warning.is_some(), words.is_some(), "day {day}: {warning:?}");
            assert!(warning.unwrap_or_default().contains(words.unwrap_or_default()), "day {day}");
        }
    }

    #[test]
    fn warnings_come_once_a_day() {
        let mut reminder = Reminder::default();
        let begin = Instant::now();
        let hour = Duration::from_secs(60 * 60);
        // From a day before the week in which it ends until three days behind its end, every hour.
        let first = 192 * 24;
        let said: Vec<u32> = (0..12 * 24)
            .filter(|hours| {
                let now_s = (first + i64::from(*hours)) * 60 * 60;
                reminder.due(&VALIDITY, now_s, begin + hour * *hours).is_some()
            })
            .collect();
        // 200 days are its last moment: then it has not ended.
        let expected: Vec<u32> =
            (0..7).map(|day| 25 + 24 * day).chain([193, 217, 241, 265]).collect();
        assert_eq!(said, expected);
    }
}
