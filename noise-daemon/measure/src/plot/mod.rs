//! PURE: what plots have in common: a page of SVG, its heading and legend, colours, axes.

use noise_text::clean::clean;
use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea as _};
use plotters::element::{EmptyElement, Rectangle, Text};
use plotters::style::{BLACK, Color as _, IntoFont as _, RGBColor, TextStyle, WHITE};

use super::source::Class;

/// Width of a page, pixels.
pub const WIDTH: u32 = 1_200;
/// Height of a page's heading, pixels.
pub const HEADING: u32 = 84;
/// Fonts of all plots: whatever sans serif the viewer has.
pub const FONT: &str = "sans-serif";
/// Size of axis labels and legends, pixels.
pub const SMALL: i32 = 15;
/// Width of the labels left of a vertical axis, pixels.
pub const LEFT: u32 = 84;

const TITLE: i32 = 22;
/// Width of a character, at most, as a part of the font's size.
const CHARACTER: f64 = 0.6;

pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A plot could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("the plot could not be drawn: {0}")]
pub struct PlotError(String);

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for PlotError {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        Self(error.to_string())
    }
}

/// A page of so many pixels height, as SVG.
/// Errors: where something was drawn that has no place on the page.
pub fn page(
    height: u32,
    draw: impl FnOnce(&Area<'_>) -> Result<(), PlotError>,
) -> Result<String, PlotError> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE)?;
        draw(&area)?;
        area.present()?;
    }
    Ok(svg)
}

/// Text of a size, black.
pub fn font(size: i32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&BLACK)
}

/// A name as it may stand in XML, which has no place for most control characters, however written.
pub fn label(name: &str) -> String {
    clean(name).into_owned()
}

/// Names and their colours.
pub type Legend<'a> = [(&'a str, RGBColor)];

/// A title, a line below it, and what the colours mean.
/// Errors: those of [`page`].
pub fn heading(
    area: &Area<'_>,
    title: &str,
    line: &str,
    legend: &Legend<'_>,
) -> Result<(), PlotError> {
    area.draw(&Text::new(label(title), (20, 12), font(TITLE)))?;
    area.draw(&Text::new(label(line), (20, 42), font(SMALL)))?;
    let mut x = 20;
    for (name, colour) in legend {
        let mark = Rectangle::new([(0, 0), (13, 13)], colour.filled());
        let name_of = Text::new(label(name), (19, 0), font(SMALL));
        area.draw(&(EmptyElement::at((x, 64)) + mark + name_of))?;
        x += 44 + (name.chars().count() as f64 * f64::from(SMALL) * CHARACTER) as i32;
    }
    Ok(())
}

/// The colours of the kinds of noise: those of Okabe and Ito, which the colour-blind can tell apart.
pub const fn colour(class: Class) -> RGBColor {
    match class {
        Class::Hardware => RGBColor(90, 90, 90),
        Class::Nmi => RGBColor(213, 94, 0),
        Class::Irq => RGBColor(0, 114, 178),
        Class::Softirq => RGBColor(0, 158, 115),
        Class::Thread => RGBColor(230, 159, 0),
        Class::PageFault => RGBColor(204, 121, 167),
    }
}

/// The whole decades around values, for a logarithmic axis; `None` where none is above zero.
pub fn decades(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let is_shown = |value: &f64| value.is_finite() && *value > 0.0;
    let (low, high) = values
        .filter(is_shown)
        .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    let first = 10f64.powf(low.log10().floor());
    let last = 10f64.powf(high.log10().ceil());
    low.is_finite().then_some((first, if last > first { last } else { first * 10.0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_go_over_whole_decades() {
        let known: [(&[f64], _); 5] = [
            (&[], None),
            (&[0.0, f64::NAN, f64::INFINITY], None),
            (&[1_200.0, 0.0, 45_000.0], Some((1_000.0, 100_000.0))),
            (&[1_000.0], Some((1_000.0, 10_000.0))),
            (&[0.5, 10.0], Some((0.1, 10.0))),
        ];
        for (values, range) in known {
            assert_eq!(decades(values.iter().copied()), range, "{values:?}");
        }
    }

    #[test]
    fn names_do_not_break_the_page() {
        let svg =
            page(100, |area| heading(area, "<script>&", "\u{1b}[2J", &[("a<b\u{ffff}", BLACK)]))
                .unwrap();
        assert!(svg.contains("&lt;script&gt;&amp;") && svg.contains("a&lt;b"), "{svg}");
        assert!(!svg.contains(['\u{1b}', '\u{ffff}']), "{svg}");
    }
}
