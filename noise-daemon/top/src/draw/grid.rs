//! PURE: a table's columns, fitted into the width that there is, and its rows as lines.

use noise_text::bars::{bar, percent, spark};
use noise_text::clean::clean;
use noise_text::columns::{cut, pad, shorten, width};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::theme::Theme;
use crate::arrange::Sort;
use crate::{Align, Cell, Column, Table, TableRow, Tone};

/// Columns that a name keeps before something is said of it.
const NAME: usize = 6;
/// Columns of a share's number, with the blank before it.
const PERCENT: usize = 7;
/// Least width of a bar with a number behind it.
const BAR: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PlacedColumn {
    column: usize,
    width: usize,
}

/// The columns that are seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    places: Vec<PlacedColumn>,
    gap: usize,
    sort: Option<Sort>,
    /// Whether columns are missing at the left, and at the right.
    pub cut: (bool, bool),
}

/// How wide a column would be.
struct Wish {
    natural: usize,
    least: usize,
}

fn cell_width(cell: &Cell) -> usize {
    match cell {
        Cell::Text(text) | Cell::Number { text, .. } => width(text),
        Cell::Named { name, notes } => width(name) + width(&notes.concat()),
        Cell::Share(_) => PERCENT - 1,
        Cell::Spark(_) => 0,
    }
}

fn wish(index: usize, column: &Column, rows: &[&TableRow], sorted: bool) -> Wish {
    let title = width(column.title) + usize::from(sorted);
    let own = usize::from(column.width);
    let cells = rows.iter().filter_map(|row| row.cells.get(index));
    let widest = cells.map(cell_width).max().unwrap_or(0);
    let natural = own.max(title).max(widest);
    let names =
        |row: &&TableRow| matches!(row.cells.get(index), Some(Cell::Text(_) | Cell::Named { .. }));
    let is_name = rows.iter().any(names);
    // A name can be shortened, a number cannot.
    let least = if is_name { own.max(title).min(natural) } else { natural };
    Wish { natural, least }
}

impl Grid {
    /// Fits the columns from one on; those at the right that do not fit are left out.
    pub fn fit(
        table: &Table,
        rows: &[&TableRow],
        sort: Option<Sort>,
        from: usize,
        columns: usize,
    ) -> Self {
        let is_sorted = |index| sort.is_some_and(|sort| sort.column == index);
        // The first column says what a row is about: it stays.
        let wanted = table.columns.iter().enumerate();
        let wanted = wanted.filter(|(index, _)| *index == 0 || *index > from);
        let wishes: Vec<(usize, Wish)> = wanted
            .map(|(index, column)| (index, wish(index, column, rows, is_sorted(index))))
            .collect();
        let gap_for = |gap: usize| {
            let all: usize = wishes.iter().map(|(_, wish)| wish.natural + gap).sum();
            (all <= columns + gap).then_some(gap)
        };
        let gap = gap_for(2).unwrap_or(1);
        let mut used = 0;
        let fits = |(_, wish): &&(usize, Wish)| {
            let before = used;
            used += wish.least + if before > 0 { gap } else { 0 };
            used <= columns || before == 0
        };
        let seen: Vec<&(usize, Wish)> = wishes.iter().take_while(fits).collect();
        let cut = (from > 0, seen.len() < wishes.len());
        let gaps = gap * seen.len().saturating_sub(1);
        let least: usize = seen.iter().map(|(_, wish)| wish.least).sum();
        let mut room = columns.saturating_sub(least + gaps);
        let mut places = Vec::with_capacity(seen.len());
        for (index, wish) in seen {
            let more = (wish.natural - wish.least).min(room);
            room -= more;
            places.push(PlacedColumn { column: *index, width: (wish.least + more).min(columns) });
        }
        let grows =
            |place: &PlacedColumn| table.columns.get(place.column).is_some_and(|one| one.grows);
        let growing = places.iter().filter(|place| grows(place)).count();
        if let Some(each) = room.checked_div(growing) {
            places.iter_mut().filter(|place| grows(place)).for_each(|place| place.width += each);
        }
        Self { places, gap, sort, cut }
    }

    /// The heads of the columns.
    pub fn heading(&self, table: &Table, theme: Theme) -> Line<'static> {
        let mut spans = Vec::new();
        for place in &self.places {
            let Some(column) = table.columns.get(place.column) else { continue };
            let mark = match self.sort.filter(|sort| sort.column == place.column) {
                Some(Sort { reversed: false, .. }) => "▼",
                Some(Sort { reversed: true, .. }) => "▲",
                None => "",
            };
            let title = cut(column.title, place.width.saturating_sub(width(mark))) + mark;
            let right = column.align == Align::Right;
            self.push(
                &mut spans,
                pad(&title, place.width, right),
                theme.heading(),
                theme.heading(),
            );
        }
        Line::from(spans)
    }

    fn push(&self, spans: &mut Vec<Span<'static>>, text: String, style: Style, gap: Style) {
        if !spans.is_empty() {
            spans.push(Span::styled(" ".repeat(self.gap), gap));
        }
        spans.push(Span::styled(text, style));
    }

    pub fn row(&self, table: &Table, row: &TableRow, theme: Theme) -> Line<'static> {
        let style = theme.tone(row.tone);
        let mut spans = Vec::with_capacity(self.places.len() * 2);
        for place in &self.places {
            let align = table.columns.get(place.column).map_or(Align::Left, |column| column.align);
            let cell = row.cells.get(place.column);
            let drawn = match cell {
                Some(Cell::Share(_) | Cell::Spark(_)) if row.tone == Tone::Plain => theme.bar(),
                _ => style,
            };
            let text = cell.map(|cell| fitted(cell, align, place.width)).unwrap_or_default();
            self.push(&mut spans, pad(&text, place.width, false), drawn, Style::new());
        }
        Line::from(spans).style(style)
    }
}

/// A name with as much of what is said of it as leaves room for the name.
fn named(name: &str, notes: &[String], columns: usize) -> String {
    let least = width(name).min(NAME);
    let fitting =
        (0..=notes.len()).rev().filter_map(|count| notes.get(..count)).map(|notes| notes.concat());
    let notes =
        fitting.into_iter().find(|notes| width(notes) + least <= columns).unwrap_or_default();
    shorten(name, columns.saturating_sub(width(&notes))) + &clean(&notes)
}

fn fitted(cell: &Cell, align: Align, columns: usize) -> String {
    match cell {
        Cell::Text(text) => pad(&shorten(text, columns), columns, align == Align::Right),
        Cell::Named { name, notes } => pad(&named(name, notes, columns), columns, false),
        Cell::Number { text, .. } => pad(&clean(text), columns, align == Align::Right),
        Cell::Share(share) => match columns.checked_sub(PERCENT) {
            Some(rest) if rest >= BAR => bar(*share, rest) + &pad(&percent(*share), PERCENT, true),
            _ => pad(&percent(*share), columns, align == Align::Right),
        },
        Cell::Spark(values) => spark(values, columns),
    }
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn what_is_said_of_a_name_is_whole_or_left_out() {
        let notes = |cause: &str| [format!(" ({cause})"), " 94.3 %".to_owned()];
        for (columns, expected) in [
            (40, "/system.slice/web.service (self) 94.3 %"),
            (30, "…ice/web.service (self) 94.3 %"),
            (25, "web.service (self) 94.3 %"),
            (20, "web…ce (self) 94.3 %"),
            (19, "…web.service (self)"),
            (18, "web.service (self)"),
            (14, "web…ice (self)"),
            (13, "web…ce (self)"),
            (12, "…web.service"),
            (5, "we…ce"),
            (0, ""),
        ] {
            assert_eq!(named("/system.slice/web.service", &notes("self"), columns), expected);
        }
        assert_eq!(named("/", &notes("self"), 14), "/ (self)");
        assert_eq!(named("/", &notes("self"), 15), "/ (self) 94.3 %");
        assert_eq!(named("a\u{1b}", &[" \u{9b}1m".to_owned()], 20), "a\\x1b \\u{9b}1m");
    }
}
