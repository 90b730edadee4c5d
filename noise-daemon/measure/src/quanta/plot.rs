//! PURE: quanta as plots: each CPU's samples over time, and their spectrum.

use std::collections::BTreeSet;

use noise_text::units::{duration, frequency};
use plotters::chart::ChartBuilder;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::element::{Circle, PathElement, Text};
use plotters::prelude::IntoLogRange as _;
use plotters::series::LineSeries;
use plotters::style::{BLACK, Color as _, RGBColor};

use super::summary::spectrum;
use super::{CpuQuanta, QuantaReport, Quantum};
use crate::plot::{Area, HEADING, LEFT, PlotError, SMALL, WIDTH, decades, font, heading, page};
use crate::spectrum::Spectrum;

const SAMPLES_HEIGHT: u32 = 220;
const SPECTRUM_HEIGHT: u32 = 250;
/// Samples within so many pixels are drawn as one.
const GRAIN: i32 = 2;
/// A spectrum is drawn from this part of its largest power on.
const DEEPEST: f64 = 1e-8;

const SAMPLES: RGBColor = RGBColor(0, 114, 178);
const POWER: RGBColor = RGBColor(90, 90, 90);
const TICK: RGBColor = RGBColor(213, 94, 0);

/// A page with all plots, as SVG.
/// Errors: where the numbers have no place on a page.
pub fn svg(report: &QuantaReport) -> Result<String, PlotError> {
    let each = SAMPLES_HEIGHT + SPECTRUM_HEIGHT;
    page(HEADING + each * report.cpus.len() as u32, |area| {
        let (head, rest) = area.split_vertically(HEADING);
        let line = match report.quantum {
            Quantum::TimeNs(ns) => {
                format!(
                    "units of work finished in each {}, and their spectrum",
                    duration(ns as f64)
                )
            }
            Quantum::WorkUnits(units) => {
                format!("time for each {units} units of work, and their spectrum")
            }
        };
        let legend = [("a quantum", SAMPLES), ("power", POWER), ("tick, and its harmonics", TICK)];
        heading(&head, &title(report), &line, &legend)?;
        for (area, cpu) in rest.split_evenly((report.cpus.len().max(1), 1)).iter().zip(&report.cpus)
        {
            let (above, below) = area.split_vertically(SAMPLES_HEIGHT);
            samples(&above, report, cpu)?;
            if let Some(spectrum) = spectrum(report, cpu) {
                power(&below, report, cpu, &spectrum)?;
            }
        }
        Ok(())
    })
}

fn title(report: &QuantaReport) -> String {
    let bench = if report.is_of_time() { "FTQ" } else { "FWQ" };
    let started = report.started.strftime("%Y-%m-%d %H:%M:%S UTC");
    format!("{bench} of {}, kernel {}, {started}", report.host, report.kernel)
}

fn samples(area: &Area<'_>, report: &QuantaReport, cpu: &CpuQuanta) -> Result<(), PlotError> {
    let starts = cpu.starts_ns(report.quantum).map(|at| (at - cpu.start_ns) as f64 / 1e9);
    let points: Vec<(f64, f64)> =
        starts.zip(cpu.samples.iter().map(|value| *value as f64)).collect();
    let name = format!("CPU {}", cpu.cpu);
    if report.is_of_time() {
        let high = points.iter().map(|(_, value)| *value).fold(1.0, f64::max);
        return dots(area, &name, &points, 0.0..high * 1.05, "units of work", |it| {
            format!("{it:.0}")
        });
    }
    // One quantum can take a thousand times as long as another.
    let (low, high) = decades(points.iter().map(|(_, value)| *value)).unwrap_or((1.0, 10.0));
    dots(area, &name, &points, (low..high).log_scale(), "time", duration)
}

fn dots<Y>(
    area: &Area<'_>,
    name: &str,
    points: &[(f64, f64)],
    range: Y,
    what: &str,
    text: fn(f64) -> String,
) -> Result<(), PlotError>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let seconds = points.last().map_or(1e-9, |(at, _)| at.max(1e-9));
    let mut chart = ChartBuilder::on(area)
        .caption(name, font(SMALL))
        .margin_left(12)
        .margin_right(24)
        .x_label_area_size(44)
        .y_label_area_size(LEFT - 12)
        .build_cartesian_2d(0.0..seconds, range)?;
    chart
        .configure_mesh()
        .x_desc("time, s")
        .y_desc(what)
        .y_labels(5)
        .y_label_formatter(&|value| text(*value))
        .label_style(font(SMALL - 2))
        .axis_desc_style(font(SMALL - 2))
        .light_line_style(BLACK.mix(0.03))
        .draw()?;
    let mut seen = BTreeSet::new();
    // What would cover what is there already only makes the file larger.
    let mut is_new = |at: &(f64, f64)| {
        let (x, y) = chart.backend_coord(at);
        seen.insert((x / GRAIN, y / GRAIN))
    };
    let shown: Vec<(f64, f64)> = points.iter().copied().filter(|at| is_new(at)).collect();
    chart.draw_series(shown.into_iter().map(|at| Circle::new(at, 1, SAMPLES.filled())))?;
    Ok(())
}

/// The largest power of each pixel: a peak is never left out.
fn outline(spectrum: &Spectrum) -> Vec<(f64, f64)> {
    let places = spectrum.power.len().div_ceil((WIDTH - LEFT) as usize).max(1);
    let largest = |(block, powers): (usize, &[f64])| {
        let powers = powers.iter().enumerate();
        let (place, power) = powers.max_by(|a, b| a.1.total_cmp(b.1))?;
        Some((spectrum.hz(block * places + place), *power))
    };
    spectrum.power.chunks(places).enumerate().filter_map(largest).collect()
}

fn power(
    area: &Area<'_>,
    report: &QuantaReport,
    cpu: &CpuQuanta,
    spectrum: &Spectrum,
) -> Result<(), PlotError> {
    // The mean was taken off, so that the first frequency says nothing.
    let points: Vec<_> = outline(spectrum).into_iter().filter(|(hz, _)| *hz > 0.0).collect();
    let most = points.iter().map(|(_, power)| *power).fold(0.0, f64::max);
    let powers = points.iter().map(|(_, power)| *power).filter(|power| *power > most * DEEPEST);
    let Some((low, high)) = decades(powers) else { return Ok(()) };
    let highest = spectrum.hz(spectrum.power.len().saturating_sub(1));
    // Power spectral density.
    let unit = if report.is_of_time() { "units²/Hz" } else { "ns²/Hz" };
    let mut chart = ChartBuilder::on(area)
        .margin_left(12)
        .margin_right(24)
        .margin_top(28)
        .margin_bottom(16)
        .x_label_area_size(44)
        .y_label_area_size(LEFT - 12)
        .build_cartesian_2d(0.0..highest, (low..high).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("frequency, Hz")
        .y_desc(unit)
        .y_label_formatter(&|power| format!("{power:.0e}"))
        .x_label_formatter(&|hz| format!("{hz:.0}"))
        .label_style(font(SMALL - 2))
        .axis_desc_style(font(SMALL - 2))
        .light_line_style(BLACK.mix(0.03))
        .draw()?;
    let tick = spectrum.tick();
    if let Some(peak) = tick {
        let harmonics = (1..).map(|number| f64::from(number) * peak.hz);
        for hz in harmonics.take_while(|hz| *hz <= highest).take(64) {
            let line = PathElement::new(vec![(hz, low), (hz, high)], TICK.mix(0.35));
            chart.draw_series([line])?;
        }
    }
    let points = points.into_iter().map(|(hz, power)| (hz, power.max(low)));
    chart.draw_series(LineSeries::new(points, POWER.stroke_width(1)))?;
    let text = match tick {
        Some(peak) => {
            let above = peak.above_floor;
            format!("CPU {}: {}, {above:.0} times the floor", cpu.cpu, frequency(peak.hz))
        }
        None => format!("CPU {}: no frequency stands out", cpu.cpu),
    };
    area.draw(&Text::new(text, (LEFT as i32 + 12, 8), font(SMALL)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::generated::{ftq_of, fwq_of, report};
    use super::*;
    use crate::random::Random;
    use proptest::collection::vec;
    use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};

    #[test]
    fn the_tick_is_marked() {
        let mut random = Random::new(9);
        for report in [
            ftq_of(250.0, 20.0, 2.0, 200_000, &mut random),
            fwq_of(250.0, 20.0, 2.0, 200_000, &mut random),
        ] {
            let svg = svg(&report).unwrap();
            assert!(svg.contains("CPU 0: 250."), "{svg}");
        }
    }

    #[test]
    fn an_outline_keeps_every_peak() {
        let mut power = vec![1.0; 50_001];
        power[12_345] = 7.0;
        let outline = outline(&Spectrum { step_hz: 0.1, power });
        assert!(outline.len() <= WIDTH as usize, "{}", outline.len());
        assert!(outline.contains(&(1_234.5, 7.0)), "{outline:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn any_report_can_be_drawn(
            ftq in vec(vec(any::<u32>(), 0..200), 0..4),
            fwq in vec(vec(any::<u32>(), 0..200), 0..4),
        ) {
            let wide = |samples: Vec<Vec<u32>>| {
                samples.into_iter().map(|samples| samples.into_iter().map(u64::from).collect())
            };
            let ftq = report(Quantum::TimeNs(200_000), wide(ftq).collect());
            let fwq = report(Quantum::WorkUnits(4_000), wide(fwq).collect());
            for report in [ftq, fwq] {
                prop_assert!(svg(&report).unwrap().ends_with("</svg>\n"));
            }
        }
    }
}
