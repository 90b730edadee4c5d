//! What one row opens: blocks of text, tables and pictures as data, drawn one below the other.

use super::table::{Table, Tone};

/// A distribution over time: a column for each window, the newest last; a row for each bucket.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heatmap {
    pub title: String,
    /// Upper bounds of the rows, ns, ascending; `None` = beyond the last.
    pub bounds_ns: Vec<Option<u64>>,
    /// Counts by window, then by row.
    pub windows: Vec<Vec<u64>>,
    /// Seconds from one window to the next.
    pub window_seconds: f64,
}

/// A part of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    Text(Vec<(String, Tone)>),
    /// Lines as they are; what is beyond the right edge is not seen.
    Lines(Vec<String>),
    Table(Table),
    /// A distribution over time.
    Heatmap(Heatmap),
    /// Values over time, the newest last, with their heading and how the largest reads.
    Graph {
        title: String,
        values: Vec<f64>,
        /// The largest, with its unit.
        largest: String,
    },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    pub title: String,
    /// Its parts, from the top.
    pub blocks: Vec<Block>,
}
