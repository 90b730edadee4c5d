//! Cells and columns, and what several screens say alike.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use noise_common::charge::Cause;
use noise_model::labels::spoken_briefly;
use noise_model::words::{culprit_briefly, why_briefly};
use noise_text::times;
use noise_text::units;

use crate::{Align, Cell, Column};

/// What stands where there is no number.
const NOTHING: &str = "–";

pub(super) fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

pub(super) fn cgroup(label: &str) -> Cell {
    text(spoken_briefly(label))
}

/// A culprit with its cause and its part.
pub(super) fn culprit(culprit: &str, cause: Cause, share: f64) -> Cell {
    let notes = vec![format!(" ({})", why_briefly(cause)), format!(" {}", units::share(share))];
    Cell::Named { name: culprit_briefly(cause, culprit).to_owned(), notes }
}

/// The cell where there is no number.
pub(super) fn nothing() -> Cell {
    Cell::Number { text: NOTHING.to_owned(), value: None }
}

fn number(text: String, value: f64) -> Cell {
    Cell::Number { text, value: Some(value) }
}

pub(super) fn duration(ns: f64) -> Cell {
    number(units::duration(ns), ns / 1e9)
}

/// Seconds that were lost in a second.
pub(super) fn lost(seconds_per_second: f64) -> Cell {
    number(units::lost(seconds_per_second), seconds_per_second)
}

/// How often in a second.
pub(super) fn rate(per_second: f64) -> Cell {
    number(units::per_second(per_second), per_second)
}

pub(super) fn count(count: u64) -> Cell {
    number(units::count(count), count as f64)
}

/// A part of what there may be nothing of.
pub(super) fn share(part: f64, whole: f64) -> Cell {
    Cell::Share(ratio(part, whole))
}

/// The same as a number.
pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// How long all together took, for each; nothing where there was none.
pub(super) fn mean(ns: u64, count: u64) -> Cell {
    if count > 0 { duration(ns as f64 / count as f64) } else { nothing() }
}

/// The length of the time that sums cover.
pub(super) fn length(seconds: f64) -> String {
    units::duration(seconds * 1e9)
}

/// A moment of the day, and of which, where it is not that of another moment.
pub(super) fn moment(time: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let day = |time| zone.to_datetime(time).date();
    match day(time) == day(now) {
        true => times::of_day(time, zone),
        false => times::minute(time, zone),
    }
}

/// The same for a table, in no more letters than a time of the day has: `Nov 25 06:46`, and of another year the day. The
/// zone is that of the other rows.
pub(super) fn short_moment(time: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let [then, today] = [time, now].map(|time| zone.to_datetime(time));
    match (then.date() == today.date(), then.year() == today.year()) {
        (true, _) => times::of_day(time, zone),
        (false, true) => then.strftime("%b %d %H:%M").to_string(),
        (false, false) => then.date().to_string(),
    }
}

/// A column that does not say yet what it shows.
pub(super) struct Heading(Column);

impl Heading {
    pub(super) fn help(self, help: &'static str) -> Column {
        Column { help, ..self.0 }
    }

    /// It takes what room is left.
    pub(super) fn grows(self) -> Self {
        Self(Column { grows: true, ..self.0 })
    }
}

fn heading(title: &'static str, key: &'static str, width: u16, align: Align) -> Heading {
    Heading(Column { title, key, align, width, grows: false, help: "" })
}

/// A column of names.
pub(super) fn names(title: &'static str, key: &'static str, width: u16) -> Heading {
    heading(title, key, width, Align::Left)
}

/// A column of numbers.
pub(super) fn numbers(title: &'static str, key: &'static str, width: u16) -> Heading {
    heading(title, key, width, Align::Right)
}

/// A column of shares, or of values over time.
pub(super) fn pictures(title: &'static str, key: &'static str, width: u16) -> Heading {
    heading(title, key, width, Align::Left)
}
