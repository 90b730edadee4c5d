//! PURE: detours as plots: length over time on each CPU, how often each length, share per source.

use std::collections::{BTreeMap, BTreeSet};

use noise_text::units::{duration, share};
use plotters::chart::ChartBuilder;
use plotters::coord::ranged1d::IntoSegmentedCoord as _;
use plotters::element::{Circle, Polygon, Rectangle, Text};
use plotters::prelude::IntoLogRange as _;
use plotters::series::LineSeries;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{BLACK, Color as _, RGBColor};

use super::{SourceShare, SourceShares};
use crate::plot::{
    Area, HEADING, LEFT, PlotError, SMALL, WIDTH, colour, decades, font, heading, label, page,
};
use crate::{CLASSES, Class, CpuDetours, Detour, DetourReport};

const CPU_HEIGHT: u32 = 200;
const HISTOGRAM_HEIGHT: u32 = 340;
/// Height of one source's bars, pixels.
const SOURCE_HEIGHT: u32 = 38;
/// Sources that are shown; the others are summed up.
const SOURCES: usize = 14;
/// Classes of lengths within a factor of ten.
const PER_DECADE: f64 = 12.0;
/// Detours within so many pixels are drawn as one.
const GRAIN: f64 = 2.0;

const DETOURS: RGBColor = RGBColor(86, 180, 233);
const TIME: RGBColor = RGBColor(213, 94, 0);

/// A page with all plots, as SVG.
/// Errors: where the numbers have no place on a page.
pub fn svg(report: &DetourReport) -> Result<String, PlotError> {
    let sources = largest(SourceShares::of(report).sources);
    let lengths = decades(all(report).map(|(_, detour)| detour.duration_ns as f64));
    let Some(lengths) = lengths else {
        return page(HEADING, |area| heading(area, &title(report), "no detours", &[]));
    };
    let timelines = CPU_HEIGHT * report.cpus.len() as u32;
    let bars = 110 + SOURCE_HEIGHT * sources.len() as u32;
    page(HEADING + timelines + HISTOGRAM_HEIGHT + bars, |area| {
        let (head, rest) = area.split_vertically(HEADING);
        let classes: BTreeSet<Class> =
            all(report).map(|(_, detour)| main_class(report, detour)).collect();
        let legend: Vec<_> = classes.iter().map(|class| (class.name(), colour(*class))).collect();
        let line = "a dot is a detour, in the colour of its largest part";
        heading(&head, &title(report), line, &legend)?;
        let (over_time, rest) = rest.split_vertically(timelines);
        for (area, cpu) in over_time.split_evenly((report.cpus.len(), 1)).iter().zip(&report.cpus) {
            timeline(area, report, cpu, lengths)?;
        }
        let (often, made_by) = rest.split_vertically(HISTOGRAM_HEIGHT);
        histogram(&often, report, lengths)?;
        shares(&made_by, &sources)
    })
}

fn title(report: &DetourReport) -> String {
    let started = report.started.strftime("%Y-%m-%d %H:%M:%S UTC");
    format!("Detours of {}, kernel {}, {started}", report.host, report.kernel)
}

fn all(report: &DetourReport) -> impl Iterator<Item = (&CpuDetours, &Detour)> {
    report.cpus.iter().flat_map(|cpu| cpu.detours.iter().map(move |detour| (cpu, detour)))
}

/// The kind of a detour's largest part.
fn main_class(report: &DetourReport, detour: &Detour) -> Class {
    let largest = detour.parts.iter().max_by_key(|part| part.duration_ns);
    let source = largest.and_then(|part| report.sources.get(part.source));
    source.map_or(Class::Hardware, |source| source.class)
}

fn timeline(
    area: &Area<'_>,
    report: &DetourReport,
    cpu: &CpuDetours,
    (low, high): (f64, f64),
) -> Result<(), PlotError> {
    let seconds = report.cpus.iter().map(|cpu| cpu.duration_ns).max().unwrap_or(1) as f64 / 1e9;
    let mut chart = ChartBuilder::on(area)
        .caption(format!("CPU {}", cpu.cpu), font(SMALL))
        .margin_left(12)
        .margin_right(24)
        .x_label_area_size(44)
        .y_label_area_size(LEFT - 12)
        .build_cartesian_2d(0.0..seconds.max(1e-9), (low..high).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("time, s")
        .y_desc("length")
        .y_labels(4)
        .y_label_formatter(&|ns| duration(*ns))
        .label_style(font(SMALL - 2))
        .axis_desc_style(font(SMALL - 2))
        .light_line_style(BLACK.mix(0.03))
        .draw()?;
    let mut seen = BTreeSet::new();
    let x_grain = seconds / (f64::from(WIDTH - LEFT) / GRAIN);
    let y_grain = (high / low).ln() / (f64::from(CPU_HEIGHT) / GRAIN);
    for detour in &cpu.detours {
        let class = main_class(report, detour);
        let (at, ns) = (detour.start_ns as f64 / 1e9, detour.duration_ns as f64);
        // What would cover what is there already only makes the file larger.
        let place = ((at / x_grain) as u64, (ns.max(1.0).ln() / y_grain) as u64, class);
        if ns > 0.0 && seen.insert(place) {
            chart.draw_series([Circle::new((at, ns), 2, colour(class).filled())])?;
        }
    }
    Ok(())
}

/// How many detours of each class fell between each two bounds.
fn counts(report: &DetourReport) -> BTreeMap<Class, BTreeMap<i32, u64>> {
    let mut counts: BTreeMap<Class, BTreeMap<i32, u64>> = BTreeMap::new();
    for (_, detour) in all(report) {
        let bin = ((detour.duration_ns.max(1) as f64).log10() * PER_DECADE).floor() as i32;
        *counts.entry(main_class(report, detour)).or_default().entry(bin).or_default() += 1;
    }
    counts
}

fn histogram(
    area: &Area<'_>,
    report: &DetourReport,
    (low, high): (f64, f64),
) -> Result<(), PlotError> {
    /// Where the axis begins: one is to be seen above it.
    const FLOOR: f64 = 0.5;
    let counts = counts(report);
    let most = counts.values().flat_map(BTreeMap::values).max().copied().unwrap_or(1) as f64;
    let mut chart = ChartBuilder::on(area)
        .caption("How often each length", font(SMALL + 3))
        .margin(12)
        .margin_right(24)
        .x_label_area_size(44)
        .y_label_area_size(LEFT - 12)
        .build_cartesian_2d((low..high).log_scale(), (FLOOR..most * 2.0).log_scale())?;
    chart
        .configure_mesh()
        .x_desc(format!("length, {PER_DECADE} classes to a factor of ten"))
        .y_desc("detours")
        .x_label_formatter(&|ns| duration(*ns))
        .y_label_formatter(&|count| if *count < 1.0 { String::new() } else { count.to_string() })
        .label_style(font(SMALL - 2))
        .axis_desc_style(font(SMALL - 2))
        .light_line_style(BLACK.mix(0.03))
        .draw()?;
    for class in CLASSES {
        let Some(bins) = counts.get(&class) else { continue };
        let bound = |bin: i32| 10f64.powf(f64::from(bin) / PER_DECADE);
        let mut outline = Vec::new();
        let mut last = None;
        for (bin, count) in bins {
            if let Some(last) = last.filter(|last| last + 1 < *bin) {
                outline.extend([(bound(last + 1), FLOOR), (bound(*bin), FLOOR)]);
            } else if last.is_none() {
                outline.push((bound(*bin), FLOOR));
            }
            outline.extend([(bound(*bin), *count as f64), (bound(bin + 1), *count as f64)]);
            last = Some(*bin);
        }
        outline.extend(last.map(|last| (bound(last + 1), FLOOR)));
        chart.draw_series([Polygon::new(outline.clone(), colour(class).mix(0.25))])?;
        chart.draw_series(LineSeries::new(outline, colour(class).stroke_width(2)))?;
    }
    Ok(())
}

/// The largest sources, and one for all others.
fn largest(mut sources: Vec<SourceShare>) -> Vec<SourceShare> {
    if sources.len() <= SOURCES {
        return sources;
    }
    let others = sources.split_off(SOURCES - 1);
    let sum = |of: fn(&SourceShare) -> f64| others.iter().map(of).sum();
    sources.push(SourceShare {
        class: None,
        name: format!("{} others", others.len()),
        events: others.iter().map(|source| source.events).sum(),
        detours: sum(|source| source.detours),
        detours_share: sum(|source| source.detours_share),
        time_ns: others.iter().map(|source| source.time_ns).sum(),
        time_share: sum(|source| source.time_share),
        max_ns: others.iter().map(|source| source.max_ns).max().unwrap_or(0),
    });
    sources
}

fn shares(area: &Area<'_>, sources: &[SourceShare]) -> Result<(), PlotError> {
    const NAMES: u32 = 260;
    let most = sources.iter().map(|source| source.time_share.max(source.detours_share));
    // Percents stand behind the bars.
    let end = most.fold(0.0, f64::max).clamp(0.01, 1.0) * 1.12;
    let (title, area) = area.split_vertically(56);
    heading_of_shares(&title)?;
    let rows = sources.len() as u32;
    let mut chart = ChartBuilder::on(&area)
        .margin_right(24)
        .x_label_area_size(44)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(0.0..end, (0..rows).into_segmented())?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_max_light_lines(1)
        .x_desc("share of all detours")
        .x_label_formatter(&|value| share(*value))
        .label_style(font(SMALL - 2))
        .axis_desc_style(font(SMALL - 2))
        .draw()?;
    let plain = chart.plotting_area().strip_coord_spec();
    let (width, height) = plain.dim_in_pixel();
    let each = f64::from(height) / f64::from(rows.max(1));
    let behind = font(SMALL - 2).pos(Pos::new(HPos::Left, VPos::Center));
    let before = font(SMALL).pos(Pos::new(HPos::Right, VPos::Center));
    for (row, source) in sources.iter().enumerate() {
        let top = (row as f64 * each) as i32;
        let middle = top + (each / 2.0) as i32;
        area.draw(&Text::new(
            label(&source.to_string()),
            (NAMES as i32 - 10, middle),
            before.clone(),
        ))?;
        for (place, value, colour) in
            [(0.12, source.detours_share, DETOURS), (0.5, source.time_share, TIME)]
        {
            let from = top + (each * place) as i32;
            let to = top + (each * (place + 0.36)) as i32;
            let right = (f64::from(width) * value / end) as i32;
            plain.draw(&Rectangle::new([(0, from), (right, to)], colour.filled()))?;
            let end = (right + 6, i32::midpoint(from, to));
            plain.draw(&Text::new(share(value), end, behind.clone()))?;
        }
    }
    Ok(())
}

fn heading_of_shares(area: &Area<'_>) -> Result<(), PlotError> {
    area.draw(&Text::new(
        "Who made them",
        (i32::try_from(WIDTH / 2).unwrap_or(0) - 60, 8),
        font(SMALL + 3),
    ))?;
    for (x, colour, name) in [(270, DETOURS, "of the count"), (400, TIME, "of the time")] {
        area.draw(&Rectangle::new([(x, 34), (x + 13, 47)], colour.filled()))?;
        area.draw(&Text::new(name, (x + 19, 34), font(SMALL)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::generated::{any_report, report};
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    #[test]
    fn each_detour_is_a_dot() {
        let svg = svg(&report()).unwrap();
        assert_eq!(svg.matches("<circle").count(), 4, "{svg}");
        for text in
            ["CPU 0", "CPU 1", "thread kworker", "kernel entry/exit overhead", "Detours of node1"]
        {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }

    #[test]
    fn others_are_summed_up() {
        let mut report = report();
        let kworker = report.sources[2].clone();
        for number in 0..40u64 {
            report
                .sources
                .push(crate::GapSource { name: format!("task{number}"), ..kworker.clone() });
            let mut detour = report.cpus[0].detours[2].clone();
            detour.start_ns += (number + 1) * 1_000_000;
            detour.parts.truncate(1);
            detour.parts[0].source = report.sources.len() - 1;
            report.cpus[0].detours.push(detour);
        }
        let shown = largest(SourceShares::of(&report).sources);
        assert_eq!(shown.len(), SOURCES);
        let time: f64 = shown.iter().map(|source| source.time_share).sum();
        assert!((time - 1.0).abs() < 1e-9, "{time}");
        assert_eq!(shown[SOURCES - 1].to_string(), "32 others");
    }

    proptest! {
        #[test]
        fn any_report_can_be_drawn(report in any_report()) {
            let svg = svg(&report).unwrap();
            prop_assert!(svg.ends_with("</svg>\n"), "{}", svg);
            let binned: u64 = counts(&report).values().flat_map(BTreeMap::values).sum();
            prop_assert_eq!(binned, all(&report).count() as u64);
        }
    }
}
