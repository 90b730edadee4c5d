//! Which rule that holds counts: beyond chance, by so much that it matters, and beyond what recordings differ by.

use noise_paths::state::State;
use noise_text::units::{duration, share};
use serde::Serialize;

use crate::chance;
use crate::drift::{Between, Drift};
use crate::moments::Moments;
use crate::side::Side;
use crate::thresholds::Thresholds;
use crate::times::Times;

/// Without [`Thresholds::least`], such a part of an execution is as good as no time where drift is by factors.
const NEXT_TO_NOTHING: f64 = 1e-3;

/// Why a rule that holds flags no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unflagged {
    /// It is about time of which a recording does not say how it was spent.
    Unsaid,
    /// The mean did not grow.
    NotLonger,
    /// The mean grew by less than a part of an execution: [`Thresholds::least`].
    Small,
    /// Chance gives as much too often: [`Thresholds::chance`].
    Chance,
    /// Two units of one side differ as much.
    Drift,
    /// It is more than any difference within a side, but the units are too few, or differ too much, to tell from chance.
    Few,
    /// How much units differ is not known, or chance is not taken into account.
    Untested,
}

impl Unflagged {
    /// Whether it is an effect all the same.
    pub const fn is_effect(self) -> bool {
        matches!(self, Self::Few | Self::Untested)
    }
}

/// The figures of a state for which a rule holds.
pub struct StateFigures {
    pub times: Times,
    /// How often a random division of all executions gives as much.
    pub execution_chance: f64,
    /// None where nothing is known of drift.
    pub between: Option<Between>,
}

/// What counts of rules that hold.
pub struct FlagGuard {
    thresholds: Thresholds,
    /// What can be known of drift.
    pub drift: Drift,
    /// The mean normal execution, nanoseconds.
    span_ns: f64,
    /// How often at most chance may give it, of executions: for each of two rules of each state (Bonferroni's bound).
    of_executions: f64,
    /// The least chance that these executions can give.
    least_chance: f64,
    /// How often at most drift may give it, for each state.
    of_units: f64,
}

impl FlagGuard {
    pub fn new(thresholds: &Thresholds, sides: [&Side; 2], drift: Drift, states: usize) -> Self {
        let [normal, sample] = sides.map(Side::executions);
        let of_units = thresholds.chance / states.max(1) as f64;
        Self {
            thresholds: *thresholds,
            drift,
            span_ns: Moments::of(normal.iter().map(|one| one.run.span_ns as f64)).mean,
            of_executions: of_units / 2.0,
            least_chance: chance::least(normal.len(), sample.len()),
            of_units,
        }
    }

    const fn tells_chance(&self) -> bool {
        self.thresholds.chance < 1.0
    }

    /// Whether the executions are too few to tell from chance, whatever they are like.
    pub fn is_too_few(&self) -> bool {
        self.tells_chance() && self.least_chance > self.of_executions
    }

    /// Least growth of a mean, nanoseconds.
    fn least_ns(&self) -> f64 {
        self.thresholds.least * self.span_ns
    }

    /// Times that are as good as none, nanoseconds.
    pub fn next_to_nothing_ns(&self) -> f64 {
        self.least_ns().max(NEXT_TO_NOTHING * self.span_ns)
    }

    /// Why a rule that holds flags no state; none where it does.
    pub fn unflagged(&self, figures: &StateFigures) -> Option<Unflagged> {
        let more_ns = figures.times.more_ns();
        if self.tells_chance() || self.thresholds.least > 0.0 {
            if figures.times.state == State::Unknown.name() {
                return Some(Unflagged::Unsaid);
            }
            if more_ns <= 0.0 {
                return Some(Unflagged::NotLonger);
            }
            if more_ns < self.least_ns() {
                return Some(Unflagged::Small);
            }
        }
        if !self.tells_chance() {
            return Some(Unflagged::Untested);
        }
        // Executions so few that no chance is small enough count by the least that there is.
        if figures.execution_chance > self.of_executions.max(self.least_chance) {
            return Some(Unflagged::Chance);
        }
        let Some(between) = &figures.between else { return Some(Unflagged::Untested) };
        if between.more_ns <= between.within_ns {
            return Some(Unflagged::Drift);
        }
        (self.too_often(between).is_some()).then_some(Unflagged::Few)
    }

    /// The chance that is too large.
    fn too_often(&self, between: &Between) -> Option<f64> {
        // Of few units no division has less than the least chance; then drift within the sides decides alone.
        let is_reached = between.chance > self.of_units.max(self.drift.least_chance);
        match (is_reached, between.drift_chance > self.of_units) {
            (true, _) => Some(between.chance),
            (false, true) => Some(between.drift_chance),
            (false, false) => None,
        }
    }

    /// The same in words, behind what holds.
    pub fn because(&self, unflagged: Option<Unflagged>, figures: &StateFigures) -> String {
        let units = self.drift.unit.plural();
        let differ = |between: &Between| {
            format!(
                "the sides differ by {}, and {units} of one side by up to {}",
                duration(between.more_ns),
                duration(between.within_ns)
            )
        };
        match (unflagged, &figures.between) {
            (Some(Unflagged::Unsaid), _) => {
                "; but more that a recording does not say is not slower".to_owned()
            }
            (Some(Unflagged::NotLonger), _) => "; but the mean did not grow".to_owned(),
            (Some(Unflagged::Small), _) => format!(
                "; but the mean grew by {}, less than {} of an execution",
                duration(figures.times.more_ns()),
                share(self.thresholds.least)
            ),
            (Some(Unflagged::Chance), _) => format!(
                "; but chance gives as much in {} of divisions into two such sets, and may in {} at most",
                share(figures.execution_chance),
                share(self.of_executions.max(self.least_chance))
            ),
            (Some(Unflagged::Drift), Some(between)) => format!("; but {}", differ(between)),
            (Some(Unflagged::Few), Some(between)) => format!(
                "; {}; but of so few {units}, drift gives as much in {} of cases, and may in {} at most",
                differ(between),
                share(self.too_often(between).unwrap_or(1.0)),
                share(self.of_units)
            ),
            (None, Some(between)) if self.drift.tries_all() => format!(
                "; {}; a difference as large comes up in {:.0} of {:.0} divisions of the {units}",
                differ(between),
                (between.chance * self.drift.divisions).round().max(1.0),
                self.drift.divisions
            ),
            (None, Some(between)) => format!(
                "; {}; random divisions of the {units} give as much in {} of cases",
                differ(between),
                share(between.chance)
            ),
            _ => String::new(),
        }
    }
}
