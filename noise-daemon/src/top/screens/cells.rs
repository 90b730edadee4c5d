//! Cells and columns, and what several screens say alike.

use crate::top::{Align, Cell, Column, units};

/// What stands where there is no number.
const NOTHING: &str = "–";

/// A name.
pub(super) fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

/// Nothing to tell.
pub(super) fn nothing() -> Cell {
    Cell::Number { text: NOTHING.to_owned(), value: None }
}

fn number(text: String, value: f64) -> Cell {
    Cell::Number { text, value: Some(value) }
}

/// Time, from ns.
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

/// How long all together took, for each; nothing where there was none.
pub(super) fn mean(ns: u64, count: u64) -> Cell {
    if count > 0 { duration(ns as f64 / count as f64) } else { nothing() }
}

/// A column of names.
pub(super) fn names(
    title: &'static str,
    key: &'static str,
    width: u16,
    grows: bool,
    help: &'static str,
) -> Column {
    Column { title, key, align: Align::Left, width, grows, help }
}

/// A column of numbers.
pub(super) fn numbers(
    title: &'static str,
    key: &'static str,
    width: u16,
    help: &'static str,
) -> Column {
    Column { title, key, align: Align::Right, width, grows: false, help }
}

/// A column of shares, or of values over time.
pub(super) fn pictures(
    title: &'static str,
    key: &'static str,
    width: u16,
    help: &'static str,
) -> Column {
    Column { title, key, align: Align::Left, width, grows: false, help }
}
