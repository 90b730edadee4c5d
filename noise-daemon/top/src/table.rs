//! A table as data: what a screen shows, before it is sorted, filtered, drawn or exported.

use std::borrow::Cow;

/// How a row, or a cell of it, is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    #[default]
    Plain,
    /// Less than the others: nothing happened, or it is a rest.
    Dim,
    /// To be looked at.
    Strong,
    Alarm,
}

/// Where a column's cells stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    #[default]
    Left,
    Right,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Text(String),
    /// A name with what is said of it.
    Named {
        /// The name, which may be shortened.
        name: String,
        /// What follows it, each with its blank in front, the most important first: shown whole, or
        /// left out from the end where there is no room.
        notes: Vec<String>,
    },
    /// A number, as people read it, and as it sorts and is exported; nothing where there is none.
    Number {
        text: String,
        /// In seconds, or per second, or as a share.
        value: Option<f64>,
    },
    /// A part of a whole, 0 to 1, drawn as a bar.
    Share(f64),
    /// Values over time, the newest last.
    Spark(Vec<f64>),
}

impl Cell {
    /// A name with all that is said of it.
    pub fn words(name: &str, notes: &[String]) -> String {
        [name, &notes.concat()].concat()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub title: &'static str,
    /// The same for scripts: snake case, with the unit of the number (`wait_seconds_per_second`).
    pub key: &'static str,
    pub align: Align,
    /// Least width; the widest cell is shown whole where there is room.
    pub width: u16,
    /// Whether it takes what room is left.
    pub grows: bool,
    /// What it says, for the help.
    pub help: &'static str,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    /// What it is about, the same from one frame to the next: the selection stays with it.
    pub key: String,
    /// A cell for each column.
    pub cells: Vec<Cell>,
    pub tone: Tone,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub title: String,
    pub columns: Vec<Column>,
    /// The rows, in no particular order.
    pub rows: Vec<TableRow>,
    /// The column by which it is sorted by default; numbers the largest first, names in order.
    pub sorted_by: usize,
    /// What is shown in place of rows where there are none.
    pub empty: Cow<'static, str>,
}
