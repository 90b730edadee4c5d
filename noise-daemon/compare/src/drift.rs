//! Whether a difference is more than what recordings of one program differ by.
//!
//! Executions of one recording are alike in much that another recording has otherwise: what else the machine does, how
//! warm its caches are, where memory lies. So they say how an execution varies, and not how a recording does, and a difference
//! of two recordings may be nothing but drift, however many executions there are. What can be exchanged between the sides
//! is a whole recording; or, where both sides lie in one, a process. These are the units here.
//!
//! A difference of the sides is more than drift where three things hold. It is larger than every difference of two units
//! of one side. Random divisions of all units give as much with a chance of what is asked for at most, or, where the units
//! are so few that no division can, with the least that there is. And drift of the size that is seen within the sides has
//! that chance at most, by Student's test of the logarithms of the units' means: drift is by factors, above what is too
//! small to matter. With one unit a side nothing is seen of drift.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::chance;
use crate::moments::Moments;
use crate::side::{Execution, Side};

/// What is exchanged between the sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    #[default]
    Recording,
    /// A process of the one recording that both sides lie in.
    Process,
}

impl Unit {
    /// As words have several.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Recording => "recordings",
            Self::Process => "processes",
        }
    }
}

/// How many units there are, and what they can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Drift {
    pub unit: Unit,
    pub normal: usize,
    pub sample: usize,
    /// In how many ways they can be divided into two such sides; the least chance that can be reached is one of these.
    pub divisions: f64,
    pub least_chance: f64,
    /// Whether a side has two, so that anything is known of how they differ.
    pub is_known: bool,
}

impl Drift {
    /// Whether each division is tried: else some are drawn.
    pub fn tries_all(&self) -> bool {
        self.divisions <= f64::from(chance::PERMUTATIONS)
    }
}

/// Means of the units of both sides in one state, and what they tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Between {
    /// The largest difference between two units of one side, nanoseconds.
    pub within_ns: f64,
    /// The standard deviation of units of one side, nanoseconds.
    pub deviation_ns: f64,
    /// How much longer the sample is: the difference of the means of its units and of the normal ones.
    pub more_ns: f64,
    /// How often a random division of all units gives as much.
    pub chance: f64,
    /// How often drift of the size that is seen within the sides gives as much.
    pub drift_chance: f64,
}

/// The units of both sides: executions of each, by their place.
#[derive(Clone, Debug)]
pub struct Units {
    pub unit: Unit,
    normal: Vec<Vec<usize>>,
    sample: Vec<Vec<usize>>,
}

impl Units {
    pub fn of(normal: &Side, sample: &Side) -> Self {
        let all = || normal.executions().iter().chain(sample.executions());
        let first = all().next().map(|execution| execution.run.recording);
        let is_one = all().all(|execution| Some(execution.run.recording) == first);
        let unit = if is_one { Unit::Process } else { Unit::Recording };
        let units = |side: &Side| {
            let mut units: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
            for (place, Execution { run, .. }) in side.executions().iter().enumerate() {
                let key = match unit {
                    Unit::Recording => i64::try_from(run.recording).unwrap_or(i64::MAX),
                    Unit::Process => i64::from(run.pid),
                };
                units.entry(key).or_default().push(place);
            }
            units.into_values().collect()
        };
        Self { unit, normal: units(normal), sample: units(sample) }
    }

    pub fn drift(&self) -> Drift {
        let (normal, sample) = (self.normal.len(), self.sample.len());
        Drift {
            unit: self.unit,
            normal,
            sample,
            divisions: chance::divisions(normal, sample),
            least_chance: chance::least(normal, sample),
            is_known: self.is_known(),
        }
    }

    /// Whether anything is known of how units differ. Processes with one execution each are executions, and those of one recording
    /// are not to be exchanged with those of another time.
    fn is_known(&self) -> bool {
        let all = || self.normal.iter().chain(&self.sample);
        let is_more = self.unit == Unit::Recording || all().any(|unit| unit.len() > 1);
        self.normal.len().max(self.sample.len()) > 1 && is_more
    }

    /// What they tell of times of executions, of which so many nanoseconds are as good as none. None where nothing is known
    /// of drift.
    pub fn between(&self, [normal, sample]: [&[u64]; 2], nothing_ns: f64) -> Option<Between> {
        if !self.is_known() {
            return None;
        }
        let means = |units: &[Vec<usize>], times: &[u64]| -> Vec<f64> {
            let mean = |unit: &Vec<usize>| {
                let times = unit.iter().filter_map(|place| times.get(*place));
                Moments::of(times.map(|ns| *ns as f64)).mean
            };
            units.iter().map(mean).collect()
        };
        let sides = [means(&self.normal, normal), means(&self.sample, sample)];
        let freedom =
            sides.iter().map(Vec::len).sum::<usize>().checked_sub(2).filter(|it| *it > 0)?;
        let floor_ns = nothing_ns.max(1.0);
        let logarithms =
            sides.each_ref().map(|side| side.iter().map(|ns| (ns + floor_ns).ln()).collect());
        let (more_ns, deviation_ns) = apart(&sides, freedom);
        let (factor, of_factors) = apart(&logarithms, freedom);
        let error =
            of_factors * sides.iter().map(|side| (side.len() as f64).recip()).sum::<f64>().sqrt();
        let range = |side: &Vec<f64>| {
            let most = side.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            most - side.iter().copied().fold(f64::INFINITY, f64::min)
        };
        // Nanoseconds are fine enough for the sums of units.
        let [normal, sample] = sides
            .each_ref()
            .map(|side| side.iter().map(|ns| ns.round() as u64).collect::<Vec<_>>());
        Some(Between {
            within_ns: sides.iter().map(range).fold(0.0, f64::max),
            deviation_ns,
            more_ns,
            chance: chance::of_mean(&normal, &sample),
            drift_chance: match error > 0.0 {
                true => chance::of_quotient(factor / error, freedom),
                false if factor > 0.0 => 0.0,
                false => 1.0,
            },
        })
    }
}

/// The difference of the means of two sides, and the standard deviation within them.
fn apart([normal, sample]: &[Vec<f64>; 2], freedom: usize) -> (f64, f64) {
    let moments = [normal, sample].map(|side| Moments::of(side.iter().copied()));
    let squares =
        |side: &Vec<f64>, of: Moments| of.deviation.powi(2) * side.len().saturating_sub(1) as f64;
    let [of_normal, of_sample] = moments;
    let sum = squares(normal, of_normal) + squares(sample, of_sample);
    (of_sample.mean - of_normal.mean, (sum / freedom as f64).sqrt())
}

#[cfg(test)]
mod tests;
