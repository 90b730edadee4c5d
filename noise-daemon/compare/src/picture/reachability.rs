//! The order in which OPTICS passes executions, with how far each was from those before it.

use plotters::chart::ChartBuilder;
use plotters::element::Rectangle;
use plotters::style::{Color as _, RGBColor};

use super::{
    GREY, HEADING, LEFT, PictureError, SMALL, SvgArea, WIDTH, colour, font, heading, kinds, page,
};
use crate::comparison::Comparison;

const HEIGHT: u32 = 640;

/// A bar for each execution, in the order of OPTICS: valleys are dense regions. Normal executions above, the sample below.
/// None where nothing was ordered.
/// Errors: where it cannot be drawn.
pub fn reachability(comparison: &Comparison) -> Result<Option<String>, PictureError> {
    let clusters = &comparison.clusters;
    let sets = [
        (
            "normal executions",
            &clusters.order.normal,
            &clusters.reachability.normal,
            &clusters.normal,
        ),
        ("sample", &clusters.order.sample, &clusters.reachability.sample, &clusters.sample),
    ];
    let drawn: Vec<_> = sets.iter().filter(|set| !set.1.is_empty()).collect();
    if drawn.is_empty() {
        return Ok(None);
    }
    page((WIDTH, HEIGHT), |area| {
        let labels: Vec<usize> = sets.iter().flat_map(|set| set.3.iter().flatten().copied()).collect();
        let mut legend = kinds(&labels);
        for (name, _) in &mut legend {
            *name = name.replace("kind", "cluster");
        }
        legend.push(("in none".to_owned(), GREY));
        heading(
            area,
            "Order of executions by OPTICS",
            "valleys are dense regions; clusters of normal executions and of the sample are numbered apart",
            &legend,
        )?;
        let (_, area) = area.split_vertically(HEADING);
        for (part, (name, order, reachability, labels)) in
            area.split_evenly((drawn.len(), 1)).iter().zip(&drawn)
        {
            one(part, name, order, reachability, labels)?;
        }
        Ok(())
    })
    .map(Some)
}

fn one(
    area: &SvgArea<'_>,
    name: &str,
    order: &[usize],
    reachability: &[Option<f64>],
    labels: &[Option<usize>],
) -> Result<(), PictureError> {
    let height = |place: &usize| reachability.get(*place).copied().flatten();
    let highest = order.iter().filter_map(height).fold(0.0, f64::max);
    let highest = if highest > 0.0 { 1.05 * highest } else { 1.0 };
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .margin_right(36)
        .x_label_area_size(44)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(0.0..order.len().max(1) as f64, 0.0..highest)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(RGBColor(245, 245, 245))
        .label_style(font(SMALL))
        .x_label_formatter(&|place| format!("{place:.0}"))
        .x_desc(format!("{name}, in order"))
        .y_desc("reachability")
        .draw()?;
    let bar = |(number, place): (usize, &usize)| {
        // The first of all is reached from nowhere.
        let high = height(place).unwrap_or(highest);
        let label = labels.get(*place).copied().flatten();
        let style = label.map_or(GREY, colour).filled();
        Rectangle::new([(number as f64 + 0.08, 0.0), (number as f64 + 0.92, high)], style)
    };
    chart.draw_series(order.iter().enumerate().map(bar))?;
    Ok(())
}
