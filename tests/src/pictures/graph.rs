//! Graphs as SVG.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use plotters::backend::SVGBackend;
use plotters::chart::ChartBuilder;
use plotters::drawing::IntoDrawingArea as _;
use plotters::element::{Polygon, Rectangle};
use plotters::series::LineSeries;
use plotters::style::{Color as _, RGBColor};

use super::unit::shown;
use crate::prometheus::Series;

/// Grafana's classic colours.
pub const COLOURS: [RGBColor; 12] = [
    RGBColor(115, 191, 105),
    RGBColor(242, 204, 12),
    RGBColor(87, 148, 242),
    RGBColor(255, 152, 48),
    RGBColor(242, 73, 92),
    RGBColor(184, 119, 217),
    RGBColor(112, 219, 237),
    RGBColor(249, 186, 143),
    RGBColor(250, 100, 0),
    RGBColor(31, 96, 196),
    RGBColor(255, 249, 177),
    RGBColor(222, 182, 242),
];
const TEXT: RGBColor = RGBColor(204, 204, 220);
const GRID: RGBColor = RGBColor(52, 55, 62);

/// The colour of a series by its place.
pub fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

/// How a graph looks.
pub struct Look<'a> {
    /// Pixels.
    pub size: (u32, u32),
    /// Of its values.
    pub unit: &'a str,
    /// Whether values are drawn by their magnitude.
    pub logarithmic: bool,
    /// Whether series are added up.
    pub stacked: bool,
    /// Whether there are axes.
    pub axes: bool,
}

fn clock(at: f64) -> String {
    let seconds = at as u64 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Each series laid on top of those before it.
fn laid(series: &[Series], stacked: bool) -> Vec<Vec<(f64, f64, f64)>> {
    let mut below: BTreeMap<u64, f64> = BTreeMap::new();
    let mut all = Vec::new();
    for one in series {
        let mut points = Vec::new();
        for (at, value) in one.points.iter().filter(|(_, value)| value.is_finite()) {
            let base = below.entry(*at as u64).or_default();
            points.push((*at, *base, *base + value));
            if stacked {
                *base += value;
            }
        }
        all.push(points);
    }
    all
}

/// Lines, or areas, over time.
pub fn lines(series: &[Series], look: &Look<'_>) -> Result<String> {
    let all = laid(series, look.stacked);
    let place = |value: f64| if look.logarithmic { value.max(1e-9).log10() } else { value };
    let points = || all.iter().flatten();
    let times = points().map(|point| point.0);
    let (first, last) =
        times.fold((f64::MAX, f64::MIN), |(low, high), at| (low.min(at), high.max(at)));
    let highest = points().map(|point| place(point.2)).fold(f64::MIN, f64::max);
    let lowest = points().map(|point| place(point.2)).fold(f64::MAX, f64::min);
    let heights = if look.logarithmic {
        lowest.floor()..highest.ceil().max(lowest.floor() + 1.0)
    } else {
        lowest.min(0.0)..if highest > 0.0 { highest * 1.1 } else { 1.0 }
    };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, look.size).into_drawing_area();
        let mut builder = ChartBuilder::on(&area);
        if look.axes {
            builder.margin(6).x_label_area_size(22).y_label_area_size(76);
        }
        let failed = |error| anyhow!("drawing: {error}");
        let mut chart = builder
            .build_cartesian_2d(first..last.max(first + 1.0), heights)
            .map_err(|error| failed(error.to_string()))?;
        if look.axes {
            chart
                .configure_mesh()
                .light_line_style(RGBColor(24, 27, 31))
                .bold_line_style(GRID)
                .axis_style(GRID)
                .label_style(("sans-serif", 12, &TEXT))
                .x_labels(6)
                .y_labels(5)
                .x_label_formatter(&|at| clock(*at))
                .y_label_formatter(&|value| {
                    shown(look.unit, if look.logarithmic { 10_f64.powf(*value) } else { *value })
                })
                .draw()
                .map_err(|error| failed(error.to_string()))?;
        }
        for (index, points) in all.iter().enumerate() {
            let colour = colour(index);
            let upper: Vec<_> = points.iter().map(|point| (point.0, place(point.2))).collect();
            if look.stacked && points.len() > 1 {
                let lower = points.iter().rev().map(|point| (point.0, place(point.1)));
                let outline: Vec<_> = upper.iter().copied().chain(lower).collect();
                chart
                    .draw_series([Polygon::new(outline, colour.mix(0.4).filled())])
                    .map_err(|error| failed(error.to_string()))?;
            }
            chart
                .draw_series(LineSeries::new(upper, colour.stroke_width(1)))
                .map_err(|error| failed(error.to_string()))?;
        }
    }
    Ok(svg)
}

/// Counts by bucket over time: the series are cumulative, one for each `le`.
pub fn heatmap(series: &[Series], look: &Look<'_>) -> Result<String> {
    let mut rows: Vec<(f64, &Series)> = series
        .iter()
        .filter_map(|one| {
            let bound = one.labels.get("le")?;
            Some((bound.replace("+Inf", "inf").parse().ok()?, one))
        })
        .collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let times: Vec<f64> = rows
        .last()
        .map(|row| row.1.points.iter().map(|point| point.0).collect())
        .unwrap_or_default();
    let (first, last) =
        (times.first().copied().unwrap_or(0.0), times.last().copied().unwrap_or(1.0));
    let counts: Vec<Vec<f64>> = rows
        .iter()
        .enumerate()
        .map(|(index, (_, own))| {
            let below: BTreeMap<u64, f64> = index
                .checked_sub(1)
                .map(|before| {
                    rows[before].1.points.iter().map(|point| (point.0 as u64, point.1)).collect()
                })
                .unwrap_or_default();
            let own: BTreeMap<u64, f64> =
                own.points.iter().map(|point| (point.0 as u64, point.1)).collect();
            times
                .iter()
                .map(|at| {
                    let at = *at as u64;
                    own.get(&at).copied().unwrap_or(0.0) - below.get(&at).copied().unwrap_or(0.0)
                })
                .collect()
        })
        .collect();
    let most = counts.iter().flatten().copied().fold(1e-9, f64::max);
    let bounds: Vec<f64> = rows.iter().map(|row| row.0).collect();
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, look.size).into_drawing_area();
        let failed = |error: String| anyhow!("drawing: {error}");
        let mut chart = ChartBuilder::on(&area)
            .margin(6)
            .x_label_area_size(22)
            .y_label_area_size(76)
            .build_cartesian_2d(first..last.max(first + 1.0), 0.0..bounds.len().max(1) as f64)
            .map_err(|error| failed(error.to_string()))?;
        chart
            .configure_mesh()
            .disable_mesh()
            .axis_style(GRID)
            .label_style(("sans-serif", 12, &TEXT))
            .x_labels(6)
            .y_labels(14)
            .x_label_formatter(&|at| clock(*at))
            .y_label_formatter(&|row| {
                let bound = (*row as usize).checked_sub(1).and_then(|index| bounds.get(index));
                match bound {
                    None => "0".to_owned(),
                    Some(bound) if bound.is_infinite() => "+Inf".to_owned(),
                    Some(bound) => shown(look.unit, *bound),
                }
            })
            .draw()
            .map_err(|error| failed(error.to_string()))?;
        let cells = counts.iter().enumerate().flat_map(|(row, counts)| {
            times.windows(2).zip(counts.iter().skip(1)).filter(|(_, count)| **count > 0.0).map(
                move |(span, count)| {
                    let heat = (count / most).sqrt();
                    let part = |low: f64, high: f64| (low + (high - low) * heat) as u8;
                    let colour = RGBColor(part(70.0, 255.0), part(35.0, 170.0), part(20.0, 70.0));
                    let corners = [(span[0], row as f64), (span[1], row as f64 + 0.96)];
                    Rectangle::new(corners, colour.filled())
                },
            )
        });
        chart.draw_series(cells).map_err(|error| failed(error.to_string()))?;
    }
    Ok(svg)
}
