//! Pictures of a comparison, as SVG: clusters, the order of OPTICS, paths side by side.

mod alignment;
mod clusters;
mod reachability;

pub use self::alignment::alignment;
pub use self::clusters::clusters;
pub use self::reachability::reachability;

use noise_text::clean::clean;
use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea as _};
use plotters::element::{EmptyElement, Rectangle, Text};
use plotters::style::{BLACK, Color as _, IntoFont as _, RGBColor, TextStyle, WHITE};

/// Width of a picture, pixels.
const WIDTH: u32 = 1_200;
/// Height of its heading.
const HEADING: u32 = 96;
const FONT: &str = "sans-serif";
const TITLE: i32 = 22;
const SMALL: i32 = 15;
/// Width of a character, at most, as a part of the font's size.
const CHARACTER: f64 = 0.6;
/// Width of the labels left of a vertical axis, pixels.
const LEFT: u32 = 84;
/// What stands for no kind.
const GREY: RGBColor = RGBColor(150, 150, 150);

/// The colours of kinds: those of Okabe and Ito, which people of all kinds of colour vision can distinguish; from the ninth
/// kind on they begin anew.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(120, 94, 240),
    RGBColor(90, 90, 90),
];

type SvgArea<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A picture could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("the picture could not be drawn: {0}")]
pub struct PictureError(String);

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for PictureError {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        Self(error.to_string())
    }
}

/// A picture of that size.
fn page(
    (width, height): (u32, u32),
    draw: impl FnOnce(&SvgArea<'_>) -> Result<(), PictureError>,
) -> Result<String, PictureError> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        area.fill(&WHITE)?;
        draw(&area)?;
        area.present()?;
    }
    Ok(svg)
}

fn font(size: i32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&BLACK)
}

fn small(text: &str, at: (i32, i32)) -> Text<'static, (i32, i32), String> {
    Text::new(clean(text).into_owned(), at, font(SMALL))
}

/// A title, a line below it, and what the colours mean.
fn heading(
    area: &SvgArea<'_>,
    title: &str,
    line: &str,
    legend: &[(String, RGBColor)],
) -> Result<(), PictureError> {
    area.draw(&Text::new(clean(title).into_owned(), (20, 12), font(TITLE)))?;
    area.draw(&small(line, (20, 42)))?;
    let mut x = 20;
    for (name, colour) in legend {
        let mark = Rectangle::new([(0, 0), (13, 13)], colour.filled());
        area.draw(&(EmptyElement::at((x, 68)) + mark + small(name, (19, 0))))?;
        x += 40 + (name.chars().count() as f64 * f64::from(SMALL) * CHARACTER) as i32;
    }
    Ok(())
}

/// The colour of a kind.
fn colour(kind: usize) -> RGBColor {
    COLOURS.get(kind % COLOURS.len()).copied().unwrap_or(GREY)
}

/// The colours of kinds that occur, as many as have room.
fn kinds(kinds: &[usize]) -> Vec<(String, RGBColor)> {
    let mut all = kinds.to_vec();
    all.sort_unstable();
    all.dedup();
    let named = |kind: usize| (format!("kind {kind}"), colour(kind));
    all.into_iter().take(COLOURS.len()).map(named).collect()
}

#[cfg(test)]
mod tests;
