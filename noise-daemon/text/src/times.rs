//! PURE: moments, as people read and write them. Whatever is printed here is read here.

use jiff::civil::{DateTime, Time};
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp, Zoned};

const SECOND_NS: i128 = 1_000_000_000;
/// Plain numbers from here on are no length of time but a moment: 2001 in seconds since the epoch.
const EPOCHAL: u64 = 1_000_000_000;
/// Clocks that are behind 2001 do not know the date: they count from a boot.
const DATED_NS: u64 = EPOCHAL * EPOCHAL;

/// `2026-11-25 06:46:53.973 +01:00`.
pub fn moment(time: Timestamp, zone: &TimeZone) -> String {
    print(time, zone, "%Y-%m-%d %H:%M:%S%.3f", " ", "UTC")
}

/// `2026-11-25 06:46:53 +01:00`.
pub fn second(time: Timestamp, zone: &TimeZone) -> String {
    print(time, zone, "%Y-%m-%d %H:%M:%S", " ", "UTC")
}

/// `2026-11-25 06:46 +01:00`.
pub fn minute(time: Timestamp, zone: &TimeZone) -> String {
    print(time, zone, "%Y-%m-%d %H:%M", " ", "UTC")
}

/// `06:46:53 +01:00`: for what is less than a day old.
pub fn of_day(time: Timestamp, zone: &TimeZone) -> String {
    print(time, zone, "%H:%M:%S", " ", "UTC")
}

/// `2026-11-25T06:46:53+01:00`: one word, for lines that other programs take apart.
pub fn rfc3339(time: Timestamp, zone: &TimeZone) -> String {
    print(time, zone, "%Y-%m-%dT%H:%M:%S", "", "Z")
}

fn print(time: Timestamp, zone: &TimeZone, format: &str, before_zone: &str, utc: &str) -> String {
    let time = time.to_zoned(zone.clone());
    // Abbreviations such as CST mean several zones.
    let zone = match (zone == &TimeZone::UTC || zone.is_unknown(), time.offset().seconds() % 60) {
        (true, _) => utc.to_owned(),
        (false, 0) => time.strftime("%:z").to_string(),
        (false, _) => time.strftime("%::z").to_string(),
    };
    format!("{}{before_zone}{zone}", time.strftime(format))
}

/// The zone in which times of a recording are shown and read that begins so many nanoseconds after the epoch of its
/// clock: the local one, where that clock knows the date.
pub fn zone_of_recording(begin_ns: u64, local: &TimeZone) -> TimeZone {
    if begin_ns < DATED_NS { TimeZone::UTC } else { local.clone() }
}

/// A moment as it was written.
#[derive(Clone, Debug)]
pub enum Moment {
    At(Timestamp),
    /// By a clock on the wall; in the local zone where none is named.
    Civil(DateTime, Option<TimeZone>),
    /// A time of the day; in the local zone where none is named.
    OfDay(Time, Option<TimeZone>),
    Ago(Span),
    /// So long after the first event of a recording.
    After(SignedDuration),
    /// A number without a unit: its whole part, and nanoseconds where it has a point.
    Number(u64, Option<u32>),
}

impl Moment {
    /// Reads a moment of the past.
    /// Errors say what would do.
    pub fn of_past(text: &str) -> Result<Self, String> {
        Self::read(text).filter(|moment| !matches!(moment, Self::After(_))).ok_or_else(|| {
            "expected a time such as 14:03, 2026-11-21 09:00:00 or 2026-11-21T09:00:00Z, or how long ago, such as 90s, \
             10m, 2h or 3d"
                .to_owned()
        })
    }

    /// Reads a moment of a recording.
    /// Errors say what would do.
    pub fn of_recording(text: &str) -> Result<Self, String> {
        Self::read(text).ok_or_else(|| {
            "expected a distance from the first event such as +1.5s, a time such as 17:46:22.79, 2016-03-04 17:46:22 or \
             2016-03-04T17:46:22.79Z, how long ago, such as 10m, or seconds or nanoseconds since the epoch such as \
             1457113582.79 or 1457113582794565804"
                .to_owned()
        })
    }

    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(length) = text.strip_prefix('+') {
            return length_of(length).map(Self::After);
        }
        // As events are printed.
        let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let text = inside.unwrap_or(text);
        if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return number(text);
        }
        if let Ok(time) = text.parse() {
            return Some(Self::At(time));
        }
        let (civil, zone) = match text.rsplit_once(' ') {
            Some((civil, name)) => match zone_of(name) {
                Some(zone) => (civil.trim_end(), Some(zone)),
                None => (text, None),
            },
            None => (text, None),
        };
        if let Ok(time) = civil.parse::<DateTime>() {
            return Some(Self::Civil(time, zone));
        }
        if civil.contains(':')
            && let Ok(time) = civil.parse::<Time>()
        {
            return Some(Self::OfDay(time, zone));
        }
        let span = has_unit(text).then(|| text.parse::<Span>().ok()).flatten();
        span.filter(|span| !span.is_negative()).map(Self::Ago)
    }

    /// The moment, seen from now: a time of the day is the most recent one, a small number counts seconds back, and a
    /// large one seconds, milli-, micro- or nanoseconds since the epoch. `None` where it is out of range.
    pub fn before(&self, now: &Zoned) -> Option<Timestamp> {
        let local = || now.time_zone().clone();
        match self {
            Self::At(time) => Some(*time),
            Self::Civil(time, zone) => at(*time, zone.clone().unwrap_or_else(local)),
            Self::OfDay(time, zone) => {
                let zone = zone.clone().unwrap_or_else(local);
                let days = days_around(now.timestamp(), *time, &zone);
                days.into_iter().flatten().filter(|day| *day <= now.timestamp()).max()
            }
            // Days and more are those of a calendar.
            Self::Ago(span) => now.checked_sub(*span).ok().map(|time| time.timestamp()),
            Self::After(_) => None,
            Self::Number(whole, fraction) if *whole < EPOCHAL => {
                let nanoseconds = i32::try_from(fraction.unwrap_or(0)).ok()?;
                let ago = SignedDuration::new(i64::try_from(*whole).ok()?, nanoseconds);
                now.timestamp().checked_sub(ago).ok()
            }
            Self::Number(whole, fraction) => since_epoch(*whole, *fraction),
        }
    }

    /// Whether it may lie before another one of a recording; what depends on the recording may.
    pub fn may_precede(&self, later: &Self) -> bool {
        match (self, later) {
            (Self::At(from), Self::At(to)) => from < to,
            (Self::After(from), Self::After(to)) => from < to,
            (Self::Number(from, fraction), Self::Number(to, other)) => {
                fraction.is_some() != other.is_some() || (from, fraction) < (to, other)
            }
            _ => true,
        }
    }

    /// Whether it depends on when a recording begins.
    pub fn needs_begin(&self) -> bool {
        !matches!(self, Self::At(_) | Self::Ago(_))
    }

    /// The moment in a recording whose first event is at `begin_ns`, ns since the epoch of its clock: a time of the day is
    /// the one next to that. It saturates at both ends of that clock.
    pub fn in_recording(&self, begin_ns: u64, now: &Zoned) -> u64 {
        let zone = || zone_of_recording(begin_ns, now.time_zone());
        let found = match self {
            Self::After(length) => {
                let time_ns = i128::from(begin_ns).saturating_add(length.as_nanos());
                return saturated(time_ns);
            }
            // A clock that does not know the date has no seconds since the epoch.
            Self::Number(whole, None) if begin_ns < DATED_NS => return *whole,
            Self::Number(whole, Some(fraction)) => {
                return saturated(i128::from(*whole) * SECOND_NS + i128::from(*fraction));
            }
            Self::Number(whole, None) => match since_epoch(*whole, None) {
                Some(time) => Some(time),
                None => return *whole,
            },
            Self::Civil(time, None) => at(*time, zone()),
            Self::OfDay(time, given) => {
                let begin = Timestamp::from_nanosecond(i128::from(begin_ns)).unwrap_or_default();
                let days = days_around(begin, *time, &given.clone().unwrap_or_else(zone));
                let distance = |day: &Timestamp| day.duration_since(begin).unsigned_abs();
                days.into_iter().flatten().min_by_key(distance)
            }
            Self::At(_) | Self::Civil(..) | Self::Ago(_) => self.before(now),
        };
        found.map_or(0, |time| saturated(time.as_nanosecond()))
    }
}

fn saturated(time_ns: i128) -> u64 {
    u64::try_from(time_ns.max(0)).unwrap_or(u64::MAX)
}

/// Whether a length of time has a unit: `99:99:99` is none, but a time of the day that there is not.
fn has_unit(text: &str) -> bool {
    text.contains(char::is_alphabetic)
}

/// A length of time; without a unit, seconds.
fn length_of(text: &str) -> Option<SignedDuration> {
    let length = match text.parse::<f64>() {
        Ok(seconds) => SignedDuration::try_from_secs_f64(seconds).ok()?,
        Err(_) => text.parse().ok().filter(|_| has_unit(text))?,
    };
    Some(length).filter(|length| !length.is_negative())
}

fn number(text: &str) -> Option<Moment> {
    let Some((whole, digits)) = text.split_once('.') else {
        return text.parse().ok().map(|whole| Moment::Number(whole, None));
    };
    let is_plain = (1..=9).contains(&digits.len()) && digits.bytes().all(|c| c.is_ascii_digit());
    let fraction = format!("{digits:0<9}").parse().ok().filter(|_| is_plain)?;
    whole.parse().ok().map(|whole| Moment::Number(whole, Some(fraction)))
}

/// The zone of a name that is printed, or of the system's.
fn zone_of(name: &str) -> Option<TimeZone> {
    match name {
        "UTC" | "GMT" | "Z" => Some(TimeZone::UTC),
        _ => DateTimeParser::new().parse_time_zone(name).ok(),
    }
}

fn at(time: DateTime, zone: TimeZone) -> Option<Timestamp> {
    zone.to_timestamp(time).ok()
}

/// A time of the day, the day before, on the day of, and the day after a moment.
fn days_around(moment: Timestamp, time: Time, zone: &TimeZone) -> [Option<Timestamp>; 3] {
    let day = zone.to_datetime(moment).date();
    let days = [day.yesterday().ok(), Some(day), day.tomorrow().ok()];
    days.map(|day| at(day?.to_datetime(time), zone.clone()))
}

/// By its size: seconds, milli-, micro- or nanoseconds.
fn since_epoch(whole: u64, fraction: Option<u32>) -> Option<Timestamp> {
    const THOUSAND: i128 = 1_000;
    let seconds_of = EPOCHAL.saturating_mul(1_000);
    let unit_ns = match whole {
        EPOCHAL.. if whole < seconds_of => SECOND_NS,
        _ if whole < EPOCHAL => return None,
        _ if whole < seconds_of.saturating_mul(1_000) => SECOND_NS / THOUSAND,
        _ if whole < seconds_of.saturating_mul(1_000_000) => THOUSAND,
        _ => 1,
    };
    let fraction_ns = fraction.filter(|_| unit_ns == SECOND_NS).unwrap_or(0);
    Timestamp::from_nanosecond(i128::from(whole) * unit_ns + i128::from(fraction_ns)).ok()
}

#[cfg(test)]
mod tests;
