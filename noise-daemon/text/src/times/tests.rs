//! Moments as they are written, and back from what is printed.

use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

use super::*;
use jiff::tz::Offset;

/// Central Europe, with its summers.
fn europe() -> TimeZone {
    TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
}

fn now() -> Zoned {
    // 13:00 there.
    "2026-11-21T12:00:00Z".parse::<Timestamp>().unwrap().to_zoned(europe())
}

fn past(text: &str) -> Option<String> {
    let moment = Moment::of_past(text).ok()?;
    moment.before(&now()).map(|time| time.to_string())
}

#[test]
fn moments_of_the_past_are_read() {
    for (text, expected) in [
        ("90s", "2026-11-21T11:58:30Z"),
        ("90", "2026-11-21T11:58:30Z"),
        ("1.5", "2026-11-21T11:59:58.5Z"),
        ("10m", "2026-11-21T11:50:00Z"),
        ("1h30m", "2026-11-21T10:30:00Z"),
        ("2 days", "2026-11-19T12:00:00Z"),
        ("PT1H", "2026-11-21T11:00:00Z"),
        ("2026-11-21T09:00:00+01:00", "2026-11-21T08:00:00Z"),
        ("2026-11-21 09:00:00.5 +01:00", "2026-11-21T08:00:00.5Z"),
        ("2026-11-21 09:00:00 UTC", "2026-11-21T09:00:00Z"),
        ("2026-11-21 09:00 -03:30", "2026-11-21T12:30:00Z"),
        ("2026-11-21T09:00:00", "2026-11-21T08:00:00Z"),
        ("2026-07-21 09:00", "2026-07-21T07:00:00Z"),
        ("2026-11-21", "2026-11-20T23:00:00Z"),
        ("12:59", "2026-11-21T11:59:00Z"),
        ("13:00:00", "2026-11-21T12:00:00Z"),
        ("13:00:01", "2026-11-20T12:00:01Z"),
        ("14:03", "2026-11-20T13:03:00Z"),
        ("11:59 UTC", "2026-11-21T11:59:00Z"),
        ("12:01 UTC", "2026-11-20T12:01:00Z"),
        ("23:30 +12:00", "2026-11-21T11:30:00Z"),
        ("1795251600", "2026-11-21T09:00:00Z"),
        ("1795251600.25", "2026-11-21T09:00:00.25Z"),
        ("1795251600250", "2026-11-21T09:00:00.25Z"),
        ("1795251600250000", "2026-11-21T09:00:00.25Z"),
        ("1795251600250000000", "2026-11-21T09:00:00.25Z"),
    ] {
        assert_eq!(past(text).as_deref(), Some(expected), "{text}");
    }
    for text in
        ["", "soon", "-10m", "10m ago", "+1s", "24:01", "14:3x", "2026-13-01T00:00:00Z", "1."]
    {
        assert!(Moment::of_past(text).unwrap_err().contains("such as"), "{text}");
    }
    assert_eq!(past("19000y"), None);
}

#[test]
fn moments_of_recordings_are_read() {
    // 18:46:22.794565804 there.
    let begin_ns = 1_457_113_582_794_565_804;
    let read = |text: &str, begin_ns| {
        Moment::of_recording(text).map(|moment| moment.in_recording(begin_ns, &now()))
    };
    for (text, time_ns) in [
        ("+1.5s", begin_ns + 1_500_000_000),
        ("+20ms", begin_ns + 20_000_000),
        ("+0", begin_ns),
        ("+1.5", begin_ns + 1_500_000_000),
        ("1457113582794565804", begin_ns),
        ("1457113582.79", 1_457_113_582_790_000_000),
        ("1457113582", 1_457_113_582_000_000_000),
        ("17", 17),
        ("2016-03-04T17:46:22.79Z", 1_457_113_582_790_000_000),
        ("2016-03-04T18:46:22.79", 1_457_113_582_790_000_000),
        ("2016-03-04 18:46:22.79", 1_457_113_582_790_000_000),
        ("18:46:22.794565804", begin_ns),
        ("[18:46:22.794565804]", begin_ns),
        ("17:46:22.79 UTC", 1_457_113_582_790_000_000),
        ("18:46", 1_457_113_560_000_000_000),
        ("18:50", 1_457_113_800_000_000_000),
        ("00:10", 1_457_133_000_000_000_000),
    ] {
        assert_eq!(read(text, begin_ns), Ok(time_ns), "{text}");
    }
    // A clock that begins with the boot.
    for (text, time_ns) in [
        ("100.5", 100_500_000_000),
        ("1500000000", 1_500_000_000),
        ("00:01:40.5", 100_500_000_000),
        ("1970-01-01 00:01:40.5", 100_500_000_000),
    ] {
        assert_eq!(read(text, 90_000_000_000), Ok(time_ns), "{text}");
    }
    for text in
        ["", "+", "+x", "-1", "1.", "1.1234567891", "soon", "+-1s", "1.5x", "99:99:99", "+99:99:99"]
    {
        assert!(Moment::of_recording(text).unwrap_err().contains("+1.5s"), "{text}");
    }
    assert_eq!(Moment::After(SignedDuration::MAX).in_recording(1, &now()), u64::MAX);
}

fn zones() -> impl Strategy<Value = TimeZone> {
    prop_oneof![
        Just(TimeZone::UTC),
        Just(TimeZone::unknown()),
        Just(europe()),
        Just(TimeZone::posix("<-0330>3:30<-0230>,M3.2.0,M11.1.0").unwrap()),
        (-86_399_i32..86_400)
            .prop_map(|seconds| Offset::from_seconds(seconds).unwrap().to_time_zone()),
    ]
}

proptest! {
    /// What any of the printers makes is read as the same moment, in whatever zone the reader lives.
    #[test]
    fn what_is_printed_is_read(
        zone in zones(),
        reader in zones(),
        second_of in 1_000_000_000_i64..4_000_000_000,
        nanosecond in 0_i32..1_000_000_000,
        later in 0_i64..86_400,
        is_text in any::<bool>(),
    ) {
        let time = Timestamp::new(second_of, nanosecond).unwrap();
        let seen = time.checked_add(SignedDuration::from_secs(later)).unwrap().to_zoned(reader.clone());
        let begin_ns = u64::try_from(time.as_nanosecond()).unwrap();
        let read = |text: &str| match is_text {
            true => Moment::of_past(text).unwrap().before(&seen).unwrap(),
            false => {
                let read_ns = Moment::of_recording(text).unwrap().in_recording(begin_ns, &seen);
                Timestamp::from_nanosecond(i128::from(read_ns)).unwrap()
            }
        };
        let whole = Timestamp::new(second_of, 0).unwrap();
        let milliseconds = Timestamp::from_millisecond(time.as_millisecond()).unwrap();
        prop_assert_eq!(read(&moment(time, &zone)), milliseconds);
        prop_assert_eq!(read(&second(time, &zone)), whole);
        prop_assert_eq!(read(&of_day(time, &zone)), whole);
        prop_assert_eq!(read(&rfc3339(time, &zone)), whole);
        prop_assert_eq!(read(&time.to_string()), time);
        prop_assert_eq!(read(&time.as_nanosecond().to_string()), time);
        // Zones with seconds have none in minutes either.
        let begun = time.to_zoned(zone.clone()).second();
        let begun = whole.checked_sub(SignedDuration::from_secs(begun.into())).unwrap();
        prop_assert_eq!(read(&minute(time, &zone)), begun);
    }

    #[test]
    fn whatever_is_written_is_read_or_refused(text in "[-+\\[\\] 0-9.:TZshm]{0,24}") {
        for moment in [Moment::of_past(&text), Moment::of_recording(&text)].into_iter().flatten() {
            let _ = moment.before(&now());
            for begin_ns in [0, 1, DATED_NS, u64::MAX] {
                moment.in_recording(begin_ns, &now());
            }
        }
    }
}
