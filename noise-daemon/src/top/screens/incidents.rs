//! To come.

use crate::top::{History, Look, Page, Table};

/// Its table.
pub fn table(_history: &History, _look: &Look) -> Table {
    Table::default()
}

/// What a row of it opens.
pub fn open(_history: &History, _look: &Look, _key: &str) -> Option<Page> {
    None
}
