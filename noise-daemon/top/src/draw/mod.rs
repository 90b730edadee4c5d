//! PURE: the state of the view on the screen.

pub mod grid;
pub mod header;
mod heatmap;
mod help;
pub mod page;
pub mod theme;

use grid::Grid;
use noise_text::bars::roughly;
use noise_text::clean::{clean, is_harmful};
use noise_text::columns::{cut, pad, width};
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget as _, Wrap};
use theme::Theme;

use super::app::{App, SeenRows};
use super::typing::Purpose;
use super::{Screen, TableRow, Tone};

/// Smaller terminals get a notice only.
const LEAST: (u16, u16) = (60, 16);

/// Lines that are put one below the other.
struct Sheet<'a, 'b> {
    frame: &'a mut Frame<'b>,
    /// What is still free.
    rest: Rect,
}

impl Sheet<'_, '_> {
    fn columns(&self) -> usize {
        usize::from(self.rest.width)
    }

    fn height(&self) -> usize {
        usize::from(self.rest.height)
    }

    fn put(&mut self, line: Line<'_>) {
        if self.rest.height > 0 {
            let area = Rect { height: 1, ..self.rest };
            line.render(area, self.frame.buffer_mut());
            self.rest.y += 1;
            self.rest.height -= 1;
        }
    }
}

/// Draws the state. What was seen is noted in it, as paging and scrolling depend on it.
pub fn draw(frame: &mut Frame<'_>, app: &mut App, theme: Theme) {
    draw_all(frame, app, theme);
    scrub(frame.buffer_mut());
}

/// Replaces what would act on the terminal, in every cell: the last check before the screen.
fn scrub(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if cell.symbol().contains(is_harmful) {
            cell.set_char(char::REPLACEMENT_CHARACTER);
        }
    }
}

fn draw_all(frame: &mut Frame<'_>, app: &mut App, theme: Theme) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        notice(frame, area);
        return;
    }
    let (rest, footer) = (area.height.saturating_sub(1), area.bottom().saturating_sub(1));
    let mut sheet = Sheet { frame, rest: Rect { height: rest, ..area } };
    let columns = sheet.columns();
    sheet.put(header::header(app, columns, theme));
    header::bars(app, columns, theme).into_iter().for_each(|line| sheet.put(line));
    if let Some(at) = app.help {
        let lines = help::lines(app, columns, theme);
        let title = Line::styled("Help", theme.title());
        app.help = Some(scrolled(&mut sheet, app, (title, lines), at, theme));
    } else if let Some(opened) = &app.page {
        let title = pages_title(&opened.page.title, opened.gone, columns, theme);
        let lines = page::lines(&opened.page, columns, theme);
        let scroll = opened.scroll;
        let scroll = scrolled(&mut sheet, app, (title, lines), scroll, theme);
        if let Some(opened) = &mut app.page {
            opened.scroll = scroll;
        }
    } else {
        if app.screen() == Screen::Victims {
            let others = (Screen::Incidents.index() + 1).to_string();
            let strip = header::strip(app, &others, columns, theme);
            strip.into_iter().for_each(|line| sheet.put(line));
            panes(&mut sheet, app, theme);
        } else {
            table(&mut sheet, app, theme);
        }
    }
    sheet.rest = Rect { y: footer, height: 1, ..area };
    foot(&mut sheet, app, theme);
}

fn notice(frame: &mut Frame<'_>, area: Rect) {
    let text = format!(
        "This terminal has {}x{} characters; noised top needs {}x{}. q quits.",
        area.width, area.height, LEAST.0, LEAST.1
    );
    Paragraph::new(text).wrap(Wrap { trim: true }).render(area, frame.buffer_mut());
}

fn pages_title(title: &str, gone: bool, columns: usize, theme: Theme) -> Line<'static> {
    let gone = if gone { "  (gone; as it was last)" } else { "" };
    let title = cut(title, columns.saturating_sub(width(gone) + 20));
    Line::from(vec![Span::styled(title, theme.title()), Span::styled(gone, theme.tone(Tone::Dim))])
}

/// Lines from one on, below a title; gives the line from which they are seen.
fn scrolled(
    sheet: &mut Sheet<'_, '_>,
    app: &mut App,
    (title, lines): (Line<'static>, Vec<Line<'static>>),
    at: usize,
    theme: Theme,
) -> usize {
    let columns = sheet.columns();
    let height = sheet.height().saturating_sub(1);
    let at = at.min(lines.len().saturating_sub(height));
    let last = (at + height).min(lines.len());
    let place = match lines.len() > height {
        true => format!("{}-{last} of {}", at + 1, lines.len()),
        false => String::new(),
    };
    sheet.put(header::ends(title, Line::styled(place, theme.tone(Tone::Dim)), columns));
    app.seen = SeenRows { height, lines: lines.len() };
    lines.into_iter().skip(at).take(height).for_each(|line| sheet.put(line));
    at
}

/// What the rates and sums cover, behind a comma; nothing where nothing is known yet.
fn span_of(app: &App) -> String {
    let seconds = app.screen().covered(app.history(), app.look());
    let is_reset = app.look().since_ns > 0 && app.screen() != Screen::Services;
    let since = if is_reset { " since the reset" } else { "" };
    match seconds > 0.0 {
        true => format!(", over {}{since}", roughly(seconds)),
        false => String::new(),
    }
}

fn table(sheet: &mut Sheet<'_, '_>, app: &mut App, theme: Theme) {
    let columns = sheet.columns();
    let shown = std::mem::take(&mut app.shown);
    let rows: Vec<&TableRow> = shown.rows().collect();
    let (seen, all) = (rows.len(), shown.table.rows.len());
    let filter = app.view().filter.clone();
    let count = match filter.is_empty() {
        true => format!("{all} rows"),
        false => format!("{seen} of {all} rows: {}", cut(&filter, 20)),
    };
    let right = format!("{count}{}", span_of(app));
    let title = cut(&shown.table.title, columns.saturating_sub(width(&right) + 2));
    let right = Line::styled(right, theme.tone(Tone::Dim));
    sheet.put(header::ends(Line::styled(title, theme.title()), right, columns));
    // Two columns are left for the marks of columns that have no room.
    let grid = Grid::fit(&shown.table, &rows, Some(shown.sort), app.view().pan, columns - 2);
    let heading = grid.heading(&shown.table, theme);
    let mark = match grid.cut {
        (true, true) => "‹›",
        (true, false) => "‹",
        (false, true) => "›",
        (false, false) => "",
    };
    sheet.put(header::ends(heading, Line::styled(mark, theme.key()), columns));
    let height = sheet.height();
    app.seen = SeenRows { height, lines: rows.len() };
    app.view_mut().scroll(height, &shown);
    let offset = app.view().offset;
    let selected = app.view().selected(&shown);
    for (index, row) in rows.iter().enumerate().skip(offset).take(height) {
        let mut line = grid.row(&shown.table, row, theme);
        if selected == Some(index) {
            let blanks = columns.saturating_sub(line.width());
            line.push_span(" ".repeat(blanks));
            // Colours of cells would be bars of colour in reverse.
            for span in &mut line.spans {
                span.style.fg = None;
            }
            line.style = line.style.patch(theme.selected());
        }
        sheet.put(line);
    }
    if rows.is_empty() {
        let text = match (app.history().latest(), all) {
            (None, _) => format!("waiting for the first frame of {}", app.status.source),
            (Some(_), 0) => shown.table.empty.clone().into_owned(),
            (Some(_), _) => format!("no row has {filter}; Esc drops the filter"),
        };
        sheet.put(Line::styled(cut(&text, columns), theme.tone(Tone::Dim)));
    }
    drop(rows);
    app.shown = shown;
}

/// From so many columns on, the first screen has the page of the selected row beside the table.
const BESIDE: usize = 160;
/// Rows that the table of the first screen keeps before what stands below it.
const LEAST_ROWS: usize = 8;

/// The first screen: victims, below them the signals that have events, and beside them, on a wide terminal, what the
/// selected one lost and to whom.
fn panes(sheet: &mut Sheet<'_, '_>, app: &mut App, theme: Theme) {
    let whole = sheet.rest;
    let columns = usize::from(whole.width);
    if columns >= BESIDE
        && let Some(page) = app.preview()
    {
        let left = whole.width * 5 / 8;
        let right = Rect { x: whole.x + left + 2, width: whole.width - left - 2, ..whole };
        sheet.rest = right;
        let width = sheet.columns();
        sheet.put(Line::styled(cut(&page.title, width), theme.title()));
        page::lines(&page, width, theme).into_iter().for_each(|line| sheet.put(line));
        sheet.rest = Rect { width: left, ..whole };
    }
    let rows = app.shown.order.len().max(1) + 2;
    let below = page::table(&app.signals(), sheet.columns(), theme);
    let height = sheet.height();
    // A line is left between the two.
    let least = rows.min((LEAST_ROWS + 2).max(height / 2));
    let room = height.saturating_sub(least + 1).min(below.len());
    if room > 2 {
        let top = u16::try_from(height - room - 1).unwrap_or(0);
        let area = sheet.rest;
        sheet.rest = Rect { y: area.y + top + 1, height: area.height - top - 1, ..area };
        below.into_iter().take(room).for_each(|line| sheet.put(line));
        sheet.rest = Rect { height: top, ..area };
    }
    table(sheet, app, theme);
    sheet.rest = whole;
}

const TABLE_KEYS: [(&str, &str); 9] = [
    ("q", "quit"),
    ("?", "help"),
    ("Tab", "screen"),
    ("Enter", "open"),
    ("/", "filter"),
    ("s", "sort"),
    ("Space", "pause"),
    ("+-", "interval"),
    ("e", "export"),
];
const PAGE_KEYS: [(&str, &str); 6] = [
    ("Esc", "back"),
    ("↑↓", "scroll"),
    ("Tab", "screen"),
    ("Space", "pause"),
    ("e", "export"),
    ("q", "quit"),
];
/// On a page of a victim.
const VICTIM_KEYS: [(&str, &str); 7] = [
    ("Esc", "back"),
    ("Enter", "why slow"),
    ("↑↓", "scroll"),
    ("Tab", "screen"),
    ("Space", "pause"),
    ("e", "export"),
    ("q", "quit"),
];
const HELP_KEYS: [(&str, &str); 3] = [("Esc", "back"), ("↑↓", "scroll"), ("q", "quit")];

fn foot(sheet: &mut Sheet<'_, '_>, app: &App, theme: Theme) {
    let columns = sheet.columns();
    if let Some(typing) = &app.typing {
        let (mark, hint) = match typing.purpose {
            Purpose::Filter => ("/", "Enter keeps, Esc drops"),
            Purpose::Time { .. } => ("@", "Enter goes there, Esc does not"),
        };
        let room = columns.saturating_sub(width(hint) + 4);
        // The end is what is being typed.
        let over = width(&typing.text).saturating_sub(room);
        let text: String = clean(&typing.text).chars().skip(over).collect();
        let left = Line::from(vec![Span::styled(mark, theme.key()), Span::raw(text)]);
        let x = sheet.rest.x + u16::try_from(left.width()).unwrap_or(0);
        sheet.frame.set_cursor_position(Position { x, y: sheet.rest.y });
        sheet.put(header::ends(left, Line::styled(hint, theme.tone(Tone::Dim)), columns));
        return;
    }
    if let Some((text, tone)) = &app.message {
        let style = theme.tone(*tone);
        sheet.put(Line::styled(pad(&cut(text, columns), columns, false), style));
        return;
    }
    let keys: &[(&str, &str)] = match (app.help, &app.page) {
        (Some(_), _) => &HELP_KEYS,
        (None, Some(_)) if app.victim().is_some() => &VICTIM_KEYS,
        (None, Some(_)) => &PAGE_KEYS,
        (None, None) => &TABLE_KEYS,
    };
    let mut spans = Vec::new();
    let mut used = 0;
    for (key, what) in keys {
        used += width(key) + width(what) + 3;
        if used > columns + 2 {
            break;
        }
        spans.push(Span::styled(*key, theme.key()));
        spans.push(Span::raw(format!(" {what}  ")));
    }
    sheet.put(Line::from(spans));
}

#[cfg(test)]
mod tests {
    use noise_text::clean::corpus::NAMES;

    use super::*;

    #[test]
    fn no_cell_acts_on_the_terminal() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 80, 4));
        for (cell, name) in buffer.content.iter_mut().zip(NAMES) {
            cell.set_symbol(name);
        }
        scrub(&mut buffer);
        let usual = |symbol: &str| symbol == " " || symbol == "\u{fffd}";
        assert!(buffer.content.iter().all(|cell| usual(cell.symbol())));
    }
}
