//! PURE: the help: the keys, and what the columns of the screen say.

use noise_text::columns::{pad, width, wrap};
use ratatui::text::{Line, Span};

use super::theme::Theme;
use crate::app::App;
use crate::input::{KEYS, REPLAY_KEYS};

fn entries<'a>(
    entries: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    columns: usize,
    theme: Theme,
) -> Vec<Line<'static>> {
    let widest = entries.clone().map(|(name, _)| width(name)).max().unwrap_or(0);
    let room = columns.saturating_sub(widest + 4);
    let lines = entries.flat_map(move |(name, help)| {
        let texts = wrap(help, room).into_iter().enumerate();
        let line = move |(index, text): (usize, String)| {
            let name = if index == 0 { name } else { "" };
            let name = format!("  {}  ", pad(name, widest, false));
            Line::from(vec![Span::styled(name, theme.key()), Span::raw(text)])
        };
        texts.map(line).collect::<Vec<_>>()
    });
    lines.collect()
}

/// The help for the screen that is shown.
pub fn lines(app: &App, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled("Keys", theme.title())];
    lines.extend(entries(KEYS.into_iter(), columns, theme));
    if app.status.replay.is_some() {
        lines.extend([Line::default(), Line::styled("Replay", theme.title())]);
        lines.extend(entries(REPLAY_KEYS.into_iter(), columns, theme));
    }
    let screen = app.screen();
    lines.extend([Line::default(), Line::styled(screen.titles().0, theme.title())]);
    lines.extend(wrap(&format!("  {}", screen.help()), columns).into_iter().map(Line::raw));
    let table = &app.shown.table;
    lines.extend(entries(
        table.columns.iter().map(|column| (column.title, column.help)),
        columns,
        theme,
    ));
    lines
}
