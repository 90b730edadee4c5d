//! Whether a soak went well.

use std::fmt;

use anyhow::{Context as _, Result, ensure};

use super::Reading;

/// The part of a soak in which caches may fill.
const WARM_UP: f64 = 0.2;
/// Connections that may be open when it is looked at, beyond those before.
const MORE_DESCRIPTORS: usize = 8;

/// How long a soak has to be for its slopes to say something, seconds: half an hour, less the time to
/// the next look.
const LONG_SECONDS: f64 = 27.0 * 60.0;
/// How fast resident memory may grow for certain, MiB per hour.
const STEEP_MIB_PER_HOUR: f64 = 1.0;
/// By which part of their mean map entries and series may grow for certain, behind the warm-up.
const MORE_ENTRIES: f64 = 0.2;
/// Parts of a soak whose means a line is laid through: two readings next to each other tell little more
/// than one.
const PARTS: usize = 8;
/// Beyond so many standard errors a slope is certain.
const ERRORS: f64 = 3.0;

/// A line through readings behind the warm-up, by least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slope {
    /// Per hour.
    pub per_hour: f64,
    /// Its standard error; infinite where there are too few readings to tell.
    pub error: f64,
}

impl Slope {
    /// Through points of seconds and values, in parts where they are many; flat where there are fewer
    /// than two.
    pub fn of(points: &[(f64, f64)]) -> Self {
        if points.len() >= 2 * PARTS {
            let bound = |part: usize| part * points.len() / PARTS;
            let parts = (0..PARTS).filter_map(|part| points.get(bound(part)..bound(part + 1)));
            return Self::through(&parts.map(middle).collect::<Vec<_>>());
        }
        Self::through(points)
    }

    fn through(points: &[(f64, f64)]) -> Self {
        let (middle, level) = middle(points);
        let spread: f64 = points.iter().map(|point| (point.0 - middle).powi(2)).sum();
        let rise: f64 = points.iter().map(|point| (point.0 - middle) * (point.1 - level)).sum();
        let slope = if spread > 0.0 { rise / spread } else { 0.0 };
        let away = |point: &(f64, f64)| point.1 - level - slope * (point.0 - middle);
        let rest: f64 = points.iter().map(|point| away(point).powi(2)).sum();
        let free = points.len() as f64 - 2.0;
        let error =
            if free > 0.0 && spread > 0.0 { (rest / free / spread).sqrt() } else { f64::INFINITY };
        Self { per_hour: slope * 3600.0, error: error * 3600.0 }
    }

    /// What it rises by at least, per hour.
    pub fn at_least(&self) -> f64 {
        (self.per_hour - ERRORS * self.error).max(0.0)
    }
}

/// The mean time and the mean value.
fn middle(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let sum = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    (sum(|point| point.0) / count, sum(|point| point.1) / count)
}

/// How a soak went.
#[derive(Clone, Debug)]
pub struct Verdict {
    slopes: Vec<(&'static str, Slope)>,
    grown_mib: f64,
    cpu_per_second: f64,
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "behind the warm-up, per hour:")?;
        for (what, slope) in &self.slopes {
            write!(formatter, " {what} {:+.2} (error {:.2})", slope.per_hour, slope.error)?;
        }
        write!(
            formatter,
            "; the mean RSS of the last fifth is {:+.2} MiB beside that of the first behind it; \
             {:.2} ms of CPU per second",
            self.grown_mib,
            self.cpu_per_second * 1000.0
        )
    }
}

fn points(readings: &[Reading], value: fn(&Reading) -> f64) -> Vec<(f64, f64)> {
    readings.iter().map(|reading| (reading.at_seconds, value(reading))).collect()
}

/// Judges the readings behind the warm-up.
/// Errors: where memory grew beyond the bound, descriptors by more than a few, or threads at all; in a long soak
/// where memory, map entries or series go on growing for certain; or where there is too little to judge.
pub fn judge(readings: &[Reading], growth_bytes: u64) -> Result<Verdict> {
    let end = readings.last().context("nothing was read")?.at_seconds;
    let warm: Vec<Reading> =
        readings.iter().filter(|reading| reading.at_seconds >= end * WARM_UP).cloned().collect();
    let (Some(first), Some(last)) = (warm.first(), warm.last()) else {
        anyhow::bail!("nothing was read behind the warm-up")
    };
    ensure!(warm.len() >= 4, "{} readings behind the warm-up are too few to judge", warm.len());
    let part = warm.len() / 4;
    let mean = |readings: &[Reading]| {
        let sum: f64 = readings.iter().map(|r| r.footprint.resident_bytes as f64).sum();
        sum / readings.len() as f64
    };
    let (early, late) =
        (warm.get(..part).unwrap_or_default(), warm.get(warm.len() - part..).unwrap_or_default());
    let grown = mean(late) - mean(early);
    let resident = Slope::of(&points(&warm, |r| r.footprint.resident_bytes as f64 / 1_048_576.0));
    let slopes = vec![
        ("RSS MiB", resident),
        ("descriptors", Slope::of(&points(&warm, |r| r.footprint.descriptors as f64))),
        ("threads", Slope::of(&points(&warm, |r| r.footprint.threads as f64))),
        ("map entries", Slope::of(&points(&warm, |r| r.entries as f64))),
        ("series", Slope::of(&points(&warm, |r| r.series as f64))),
    ];
    let verdict = Verdict {
        slopes,
        grown_mib: grown / 1_048_576.0,
        cpu_per_second: (last.footprint.cpu_seconds - first.footprint.cpu_seconds)
            / (last.at_seconds - first.at_seconds),
    };
    ensure!(grown <= growth_bytes as f64, "resident memory keeps growing: {verdict}");
    if end >= LONG_SECONDS {
        ensure!(
            resident.at_least() <= STEEP_MIB_PER_HOUR,
            "resident memory grows all the time: {verdict}"
        );
        ensure_bounded("map entries", &warm, |r| r.entries as f64)?;
        ensure_bounded("series", &warm, |r| r.series as f64)?;
    }
    let (before, after) = (first.footprint.descriptors, last.footprint.descriptors);
    ensure!(after <= before + MORE_DESCRIPTORS, "{before} descriptors became {after}");
    let (before, after) = (first.footprint.threads, last.footprint.threads);
    ensure!(after <= before, "{before} threads became {after}");
    Ok(verdict)
}

/// Requires that a number of things does not go on growing.
fn ensure_bounded(what: &str, warm: &[Reading], value: fn(&Reading) -> f64) -> Result<()> {
    let points = points(warm, value);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Ok(()) };
    let grown = Slope::of(&points).at_least() * (last.0 - first.0) / 3600.0;
    let (_, mean) = middle(&points);
    ensure!(
        grown <= MORE_ENTRIES * mean,
        "{what} go on growing: by {grown:.0} at least, {mean:.0} in the mean"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Reading, Slope, judge};
    use crate::toll::Footprint;

    fn readings(bytes: fn(u64) -> u64) -> Vec<Reading> {
        let reading = |at: u64| Reading {
            at_seconds: at as f64 * 10.0,
            footprint: Footprint { resident_bytes: bytes(at), ..Footprint::default() },
            ..Reading::default()
        };
        (0..180).map(reading).collect()
    }

    fn holding(entries: fn(usize) -> usize, series: fn(usize) -> usize) -> Vec<Reading> {
        let mut readings = readings(|_| 20 << 20);
        for (at, reading) in readings.iter_mut().enumerate() {
            (reading.entries, reading.series) = (entries(at), series(at));
        }
        readings
    }

    /// Up and down, in no order.
    fn stray(at: u64) -> u64 {
        at * 7919 % 97
    }

    fn fault(readings: &[Reading]) -> String {
        judge(readings, 4 << 20).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn a_line_has_its_slope() {
        let slope = Slope::of(&[(0.0, 1.0), (10.0, 2.0), (20.0, 3.0)]);
        assert!((slope.per_hour - 360.0).abs() < 1e-6 && slope.error < 1e-6);
        assert!((slope.at_least() - 360.0).abs() < 1e-6);
        let alone = Slope::of(&[(5.0, 1.0)]);
        assert!(alone.per_hour.abs() < 1e-6 && alone.at_least() == 0.0);
        // 1.5 and 2.5, then 3.5 and 4.5, …: a line with strays of one half to both sides.
        let strays: Vec<_> = (0..80).map(|at| (f64::from(at), f64::from(at / 2 * 2))).collect();
        let slope = Slope::of(&strays);
        assert!((slope.per_hour - 3600.0).abs() < 40.0, "{slope:?}");
        assert!(slope.error < 40.0 && slope.at_least() > 3500.0, "{slope:?}");
    }

    #[test]
    fn a_slow_leak_is_found_behind_noise() {
        // 2 MiB an hour, which the mean of a quarter hides; a MiB and a half of noise.
        let leak = |at: u64| (20 << 20) + at * 5825 + stray(at) * (16 << 10);
        assert!(fault(&readings(leak)).contains("grows all the time"));
        let noise = |at: u64| (20 << 20) + stray(at) * (16 << 10);
        assert_eq!(fault(&readings(noise)), "");
        // Too short to tell.
        assert!(judge(&readings(leak)[..60], 4 << 20).is_ok());
    }

    #[test]
    fn a_step_is_no_slope() {
        let step = |at: u64| (20 << 20) + if at < 100 { 0 } else { 512 << 10 } + stray(at) * 1024;
        assert_eq!(fault(&readings(step)), "");
        let large = |at: u64| (20 << 20) + if at < 100 { 0 } else { 3 << 20 } + stray(at) * 1024;
        assert_ne!(fault(&readings(large)), "");
    }

    #[test]
    fn entries_and_series_that_go_on_growing_are_found() {
        let steady: fn(usize) -> usize = |at| 1000 + at * 7919 % 97;
        let leak: fn(usize) -> usize = |at| 1000 + at * 10 + at * 7919 % 97;
        assert_eq!(fault(&holding(steady, steady)), "");
        assert!(fault(&holding(leak, steady)).starts_with("map entries go on growing"));
        assert!(fault(&holding(steady, leak)).starts_with("series go on growing"));
    }

    #[test]
    fn growth_is_found_and_a_warm_up_is_none() {
        assert!(judge(&readings(|_| 20 << 20), 4 << 20).is_ok());
        let warming = |at: u64| if at < 30 { at << 20 } else { 30 << 20 };
        assert!(judge(&readings(warming), 4 << 20).is_ok());
        let error = judge(&readings(|at| (20 << 20) + (at << 16)), 4 << 20).unwrap_err();
        assert!(error.to_string().contains("RSS MiB +22"), "{error}");
        assert!(judge(&[], 4 << 20).is_err());
    }
}
