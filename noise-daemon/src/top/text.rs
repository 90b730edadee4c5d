//! PURE: a screen as plain text, for those who do not look at a terminal: no escape codes.

use std::fmt::Write as _;

use super::arrange::{Filter, Sort, arrange};
use super::draw::grid::Grid;
use super::draw::page;
use super::draw::theme::Theme;
use super::{Page, Row, Table};
use crate::clean::clean;

const PLAIN: Theme = Theme { colour: false };

/// A table's rows that a filter keeps, in its own order unless another is given, at most so many
/// columns wide.
pub fn table(table: &Table, filter: &Filter, sort: Option<Sort>, columns: usize) -> String {
    let sort = sort.unwrap_or(Sort { column: table.sorted_by, reversed: false });
    let order = arrange(table, filter, sort);
    let rows: Vec<&Row> = order.iter().filter_map(|index| table.rows.get(*index)).collect();
    let mut text = String::new();
    let mut put = |line: &dyn std::fmt::Display| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", line.to_string().trim_end());
    };
    if !table.title.is_empty() {
        put(&clean(&table.title));
    }
    if rows.is_empty() {
        put(&clean(table.empty));
        return text;
    }
    let grid = Grid::fit(table, &rows, None, 0, columns);
    put(&grid.heading(table, PLAIN));
    rows.iter().for_each(|row| put(&grid.row(table, row, PLAIN)));
    text
}

/// A page, at most so many columns wide.
pub fn page(opened: &Page, columns: usize) -> String {
    let mut text = format!("{}\n", clean(&opened.title));
    for line in page::lines(opened, columns, PLAIN) {
        let _ = writeln!(text, "{}", line.to_string().trim_end());
    }
    text
}
