//! Executions by their vectors, seen from where they are the farthest apart.

use noise_cluster::{Points, principal_components};
use plotters::chart::ChartBuilder;
use plotters::element::{Circle, Cross};
use plotters::style::{BLACK, Color as _, RGBColor};

use super::{GREY, HEADING, LEFT, PictureError, SMALL, WIDTH, colour, font, heading, kinds, page};
use crate::comparison::Comparison;

const HEIGHT: u32 = 720;
/// Part of the range that is left free on either side.
const MARGIN: f64 = 0.06;

/// Normal executions as dots, the sample as crosses, in the colours of normal kinds: along the two principal components
/// of the vectors of all. None where there are no vectors.
/// Errors: where it cannot be drawn.
pub fn clusters(comparison: &Comparison) -> Result<Option<String>, PictureError> {
    let points = &comparison.clusters.points;
    let all: Vec<f64> = points.normal.iter().chain(&points.sample).flatten().copied().collect();
    let dimensions = points.normal.first().map_or(0, Vec::len);
    let Ok(all) = Points::new(dimensions, all) else { return Ok(None) };
    if all.is_empty() {
        return Ok(None);
    }
    let found = principal_components(&all, 2);
    let places: Vec<(f64, f64)> = found
        .coordinates
        .iter()
        .map(|place| [0, 1].map(|axis| place.get(axis).copied().unwrap_or(0.0)).into())
        .collect();
    let range = |axis: fn(&(f64, f64)) -> f64| {
        let values = places.iter().map(axis);
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), it| {
            (low.min(it), high.max(it))
        });
        let margin = MARGIN * (high - low).max(1.0);
        low - margin..high + margin
    };
    let explained = |axis: usize| 100.0 * found.explained.get(axis).copied().unwrap_or(0.0);
    let normal_kinds = &comparison.clusters.kinds.normal;
    let (normal, sample) = places.split_at(normal_kinds.len().min(places.len()));
    page((WIDTH, HEIGHT), |area| {
        let line = format!(
            "{} normal executions as dots, {} of the sample as crosses, in the colour of the normal kind that they are held \
             against; {}",
            normal.len(),
            sample.len(),
            comparison.clusters.standardised
        );
        heading(area, "Kinds of executions", &line, &kinds(normal_kinds))?;
        let (_, area) = area.split_vertically(HEADING);
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .margin_right(36)
            .x_label_area_size(48)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(range(|place| place.0), range(|place| place.1))?;
        chart
            .configure_mesh()
            .light_line_style(RGBColor(245, 245, 245))
            .label_style(font(SMALL))
            .x_desc(format!("first principal component, {:.0} % of the variance", explained(0)))
            .y_desc(format!("second one, {:.0} %", explained(1)))
            .draw()?;
        let dot = |(place, kind): (&(f64, f64), &usize)| Circle::new(*place, 5, colour(*kind).mix(0.6).filled());
        chart.draw_series(normal.iter().zip(normal_kinds).map(dot))?;
        let kind_of = |kind: &Option<usize>| kind.map_or(GREY, colour);
        let crosses = || sample.iter().zip(&comparison.paired);
        chart.draw_series(crosses().map(|(place, _)| Cross::new(*place, 7, BLACK.stroke_width(5))))?;
        chart.draw_series(
            crosses().map(|(place, kind)| Cross::new(*place, 7, kind_of(kind).stroke_width(3))),
        )?;
        Ok(())
    })
    .map(Some)
}
