//! PURE: a screen as plain text, for those who do not look at a terminal: no escape codes.

use std::fmt::Write as _;

use noise_text::clean::clean;
use noise_text::times;

use super::app::App;
use super::arrange::{Filter, Sort, arrange};
use super::draw::grid::Grid;
use super::draw::header;
use super::draw::theme::Theme;
use super::{Screen, Table, TableRow};

const PLAIN: Theme = Theme { colour: false };

/// A table's rows that a filter keeps, in its own order unless another is given, at most so many columns wide.
pub fn table(table: &Table, filter: &Filter, sort: Option<Sort>, columns: usize) -> String {
    let sort = sort.unwrap_or(Sort { column: table.sorted_by, reversed: false });
    let order = arrange(table, filter, sort);
    let rows: Vec<&TableRow> = order.iter().filter_map(|index| table.rows.get(*index)).collect();
    let mut text = String::new();
    let mut put = |line: &dyn std::fmt::Display| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", line.to_string().trim_end());
    };
    if !table.title.is_empty() {
        put(&clean(&table.title));
    }
    if rows.is_empty() {
        put(&clean(&table.empty));
        return text;
    }
    let grid = Grid::fit(table, &rows, None, 0, columns);
    put(&grid.heading(table, PLAIN));
    rows.iter().for_each(|row| put(&grid.row(table, row, PLAIN)));
    text
}

/// What is shown: when and where, which incidents are open, and the rows that a filter keeps.
pub fn screen(app: &App, filter: &Filter, columns: usize) -> String {
    let mut text = String::new();
    if let Some(frame) = app.history().latest() {
        let time = times::second(frame.time, &app.look().zone);
        let (name, title) = (clean(&frame.host.name), app.screen().titles().0);
        let _ = writeln!(text, "{time}  {name}  {title}");
    }
    // The screen of incidents lists them itself.
    if app.screen() != Screen::Incidents {
        for line in header::strip(app, "--screen incidents", columns, PLAIN) {
            let _ = writeln!(text, "{}", line.to_string().trim_end());
        }
    }
    text += &table(&app.shown.table, filter, app.view().sort, columns);
    if app.screen() == Screen::Victims {
        text += "\n";
        text += &table(&app.signals(), &Filter::default(), None, columns);
    }
    text + "\n"
}
