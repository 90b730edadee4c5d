//! PURE: a page as lines.

use noise_text::columns::{cut, wrap};
use ratatui::text::Line;

use super::grid::Grid;
use super::heatmap::{graph, heatmap};
use super::theme::Theme;
use crate::arrange::{Filter, Sort, arrange};
use crate::{Block, Page, Table, TableRow, Tone};

/// A page in so many columns.
pub fn lines(page: &Page, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for block in &page.blocks {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        match block {
            Block::Text(text) => {
                let wrapped = |(text, tone): &(String, Tone)| {
                    let style = theme.tone(*tone);
                    let line = move |line| Line::styled(line, style);
                    wrap(text, columns).into_iter().map(line).collect::<Vec<_>>()
                };
                lines.extend(text.iter().flat_map(wrapped));
            }
            Block::Lines(plain) => {
                lines.extend(plain.iter().map(|line| Line::raw(cut(line, columns))));
            }
            Block::Table(inner) => lines.extend(table(inner, columns, theme)),
            Block::Heatmap(map) => lines.extend(heatmap(map, columns, theme)),
            Block::Graph { title, values, largest } => {
                lines.extend(graph(title, values, largest, columns, theme));
            }
        }
    }
    lines
}

/// A whole table in its own order.
pub fn table(table: &Table, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let sort = Sort { column: table.sorted_by, reversed: false };
    let order = arrange(table, &Filter::default(), sort);
    let rows: Vec<&TableRow> = order.iter().filter_map(|index| table.rows.get(*index)).collect();
    let mut lines = Vec::with_capacity(rows.len() + 2);
    if !table.title.is_empty() {
        lines.push(Line::styled(cut(&table.title, columns), theme.title()));
    }
    if rows.is_empty() {
        lines.push(Line::styled(cut(&table.empty, columns), theme.tone(Tone::Dim)));
        return lines;
    }
    let grid = Grid::fit(table, &rows, None, 0, columns);
    lines.push(grid.heading(table, theme));
    lines.extend(rows.iter().map(|row| grid.row(table, row, theme)));
    lines
}
