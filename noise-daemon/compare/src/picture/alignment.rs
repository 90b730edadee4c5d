//! Paths side by side, as strings of states, with the columns marked in which the execution is odd.

use plotters::element::{Polygon, Rectangle};
use plotters::style::{BLACK, Color as _, RGBColor};

use super::{HEADING, PictureError, WIDTH, heading, page, small};
use crate::comparison::Comparison;
use crate::localised::Localised;
use crate::stretches::{STATE_COUNT, state_name};

/// Columns that have room; of more, those around the worst place are shown.
const MOST_COLUMNS: usize = 400;
/// Width of a column, pixels, at most and at least, and height of a row.
const COLUMN: std::ops::RangeInclusive<i32> = 2..=18;
const ROW: i32 = 16;
/// Width of the names of rows, and what is free between the execution and the normal ones.
const NAMES: i32 = 170;
const GAP: i32 = 8;
const MARK: i32 = 12;

/// The mark of the worst place.
const WORST: RGBColor = RGBColor(204, 0, 0);

/// The colours of states: as those of kinds, they can be distinguished by all.
const STATES: [RGBColor; STATE_COUNT] = [
    RGBColor(0, 158, 115),
    RGBColor(230, 159, 0),
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(170, 170, 170),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(120, 94, 240),
    RGBColor(146, 106, 40),
    RGBColor(70, 70, 70),
];

fn colour(state: usize, is_own: bool) -> RGBColor {
    let RGBColor(red, green, blue) = STATES.get(state).copied().unwrap_or(BLACK);
    let light = |part: u8| if is_own { part } else { part / 2 + 127 };
    RGBColor(light(red), light(green), light(blue))
}

/// An execution above the normal ones that it was put beside. None where it was not.
/// Errors: where it cannot be drawn.
pub fn alignment(
    comparison: &Comparison,
    localised: &Localised,
) -> Result<Option<String>, PictureError> {
    let aligned = &localised.alignment;
    let all = aligned.alignment.columns();
    if all == 0 {
        return Ok(None);
    }
    let shown = window(all, aligned.worst.first().copied().unwrap_or(0));
    let width =
        ((WIDTH as i32 - NAMES - 40) / shown.len() as i32).clamp(*COLUMN.start(), *COLUMN.end());
    let rows = aligned.alignment.rows.len() as i32;
    let top = HEADING as i32 + MARK + 8;
    let size = (WIDTH, (top + rows * ROW + GAP + 24) as u32);
    let key = |execution: usize, is_sample: bool| {
        let runs = &comparison.executions;
        let run = if is_sample { &runs.sample } else { &runs.normal }.get(execution);
        let key = run.and_then(|run| run.key.clone());
        let set = if is_sample { "sample" } else { "normal" };
        key.map_or_else(|| format!("{set} {execution}"), |key| format!("{set} {execution}: {key}"))
    };
    page(size, |area| {
        let part = match shown.len() == all {
            true => format!("{all} columns"),
            false => format!("columns {} to {} of {all}", shown.start + 1, shown.end),
        };
        let line = format!(
            "{} above {} of {} normal executions of its kind; {part}; lighter: what others do in its stead; triangles: where \
             it lost time, the worst in red",
            key(localised.execution, true),
            localised.beside.len(),
            localised.of
        );
        heading(area, "Paths side by side", &line, &legend(localised))?;
        let left = |column: usize| NAMES + (column - shown.start) as i32 * width;
        for column in aligned.odd.iter().filter(|column| shown.contains(column)) {
            let (x, y) = (left(*column), top - 4);
            let half = width.max(8) / 2;
            let middle = x + width / 2;
            let corners = vec![(middle - half, y - MARK), (middle + half, y - MARK), (middle, y)];
            let mark = if aligned.worst.contains(column) { WORST } else { BLACK };
            area.draw(&Polygon::new(corners, mark.filled()))?;
            let high = top + rows * ROW + GAP;
            area.draw(&Rectangle::new([(x, top), (x + width, high)], RGBColor(253, 236, 200).filled()))?;
        }
        let names = [key(localised.execution, true)].into_iter();
        let names = names.chain(localised.beside.iter().map(|place| key(*place, false)));
        for (number, ((row, stretches), name)) in
            (0..).zip(aligned.alignment.rows.iter().zip(&aligned.stretches).zip(names))
        {
            let y = top + number * ROW + if number > 0 { GAP } else { 0 };
            area.draw(&small(&noise_text::columns::shorten(&name, 20), (8, y)))?;
            for (column, cell) in row.iter().enumerate().filter(|(column, _)| shown.contains(column)) {
                let Some(stretch) = cell.and_then(|place| stretches.get(place)) else { continue };
                let (x, inside) = (left(column), width - i32::from(width > 4));
                let style = colour(stretch.state, stretch.is_own).filled();
                area.draw(&Rectangle::new([(x, y + 1), (x + inside, y + ROW - 2)], style))?;
            }
        }
        Ok(())
    })
    .map(Some)
}

/// The columns that are shown: around one of them, where there are too many.
fn window(all: usize, around: usize) -> std::ops::Range<usize> {
    let length = all.min(MOST_COLUMNS);
    let begin = around.saturating_sub(length / 2).min(all - length);
    begin..begin + length
}

/// The states that occur, each with its colour.
fn legend(localised: &Localised) -> Vec<(String, RGBColor)> {
    let has = |state: &usize| {
        let mut all = localised.alignment.stretches.iter().flatten();
        all.any(|stretch| stretch.state == *state)
    };
    let named = |state: usize| (state_name(state).to_owned(), colour(state, true));
    (0..STATE_COUNT).filter(has).map(named).collect()
}
