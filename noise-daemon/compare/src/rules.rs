//! Whether the sample is slower at all: Algorithm 1 of the critical-path anomaly paper, on the time of executions in each
//! state, and a guard against chance that the paper has not.
//!
//! Rule 1 (`mean`): the mean of the sample exceeds that of the normal executions by more than `t1` standard deviations of
//! these. Rule 2 (`share`): the part of the sample above the normal mean is more than `t2` times the part of the normal
//! executions above it. The paper's pseudo code has the sample's own mean in rule 2, its text the normal one, which is
//! what both are about.
//!
//! The guard: with a few executions, rule 2 comes about by chance in states that are rare or where a few long times make the
//! mean; rule 1, where normal executions never have a state. A rule that holds is an effect if chance makes it hold less
//! often than it may, and if the mean grew, by a part of the executions' time that matters. Of the state `unknown` none counts:
//! a recording that says less of one set than of the other, as where events were lost, does not say that the set is
//! slower. What does not count is listed, with why.
//!
//! An effect flags its state if it is more than what recordings of one program differ by ([`drift`](crate::drift)). Where
//! that is not known, as of one recording a side, it stays an effect: it is named, and no chance is.

use noise_text::units::duration;
use serde::Serialize;

use crate::chance;
use crate::drift::{Between, Drift, Units};
use crate::guard::{FlagGuard, StateFigures, Unflagged};
pub use crate::moments::Moments;
use crate::side::Side;
use crate::stretches::state_name;
pub use crate::thresholds::{LEAST_CHANCE, Thresholds};
pub use crate::times::Times;
use crate::vectors::VECTOR_STATES;

/// A rule of Algorithm 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutlierRule {
    /// The mean of the sample is far above the normal one.
    Mean,
    /// Many more of the sample than of the normal executions are above the normal mean.
    Share,
}

/// A rule that holds for a state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flag {
    pub rule: OutlierRule,
    #[serde(flatten)]
    pub times: Times,
    /// How often a random division of all executions gives as much. That of recordings is [`Times::chance`].
    pub execution_chance: f64,
    /// `None` where the state is flagged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unflagged: Option<Unflagged>,
    pub reason: String,
}

/// What Algorithm 1 and its guard say of two sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OutlierVerdict {
    /// Rules that hold beyond what units differ by: what is best known first.
    pub flagged: Vec<Flag>,
    /// Rules that hold, and that drift may have made.
    pub effects: Vec<Flag>,
    /// Rules that hold, but not beyond chance or not so that it matters.
    pub not_counted: Vec<Flag>,
    /// All states that occur.
    pub times: Vec<Times>,
    /// What can be known of drift.
    pub drift: Drift,
    /// Whether there are too few executions to tell from chance, whatever they are like: a rule counts where they give the
    /// least chance that they can.
    pub is_too_few: bool,
}

/// Times of a side in one state.
fn times(side: &Side, state: usize, divides: bool) -> Vec<u64> {
    side.executions().iter().map(|execution| execution.vectors.ns_of(state, divides)).collect()
}

/// Holds the sample against the normal executions, of which there is one at least in either.
pub fn judge(normal: &Side, sample: &Side, thresholds: &Thresholds) -> OutlierVerdict {
    let divides = normal.knows_calls() && sample.knows_calls();
    let occurs = |state: &usize| {
        let mut all = normal.executions().iter().chain(sample.executions());
        all.any(|execution| execution.vectors.ns_of(*state, divides) > 0)
    };
    let states: Vec<usize> = (0..VECTOR_STATES).filter(occurs).collect();
    let units = Units::of(normal, sample);
    let guard = FlagGuard::new(thresholds, [normal, sample], units.drift(), states.len());
    let mut verdict = OutlierVerdict {
        is_too_few: guard.is_too_few(),
        drift: guard.drift,
        ..OutlierVerdict::default()
    };
    for state in states {
        let (own, these) = (times(normal, state, divides), times(sample, state, divides));
        let between = units.between([&own, &these], guard.next_to_nothing_ns());
        let moments = Moments::of(own.iter().map(|ns| *ns as f64));
        let of_sample = Moments::of(these.iter().map(|ns| *ns as f64));
        let above = |times: &[u64]| times.iter().filter(|ns| **ns as f64 > moments.mean).count();
        let (above_own, above_these) = (above(&own), above(&these));
        let times = Times {
            state: state_name(state),
            normal_mean_ns: moments.mean,
            normal_deviation_ns: moments.deviation,
            sample_mean_ns: of_sample.mean,
            normal_share: above_own as f64 / own.len().max(1) as f64,
            sample_share: above_these as f64 / these.len().max(1) as f64,
            evidence: evidence(moments, of_sample, between.as_ref()),
            within_ns: between.map(|between| between.within_ns),
            chance: between.map(|between| between.chance),
            drift_chance: between.map(|between| between.drift_chance),
        };
        verdict.times.push(times);
        let mut note = |rule: OutlierRule, execution_chance: f64, reason: String| {
            let figures = StateFigures { times, execution_chance, between };
            let unflagged = guard.unflagged(&figures);
            let reason = reason + &guard.because(unflagged, &figures);
            let flags = match unflagged {
                None => &mut verdict.flagged,
                Some(why) if why.is_effect() => &mut verdict.effects,
                Some(_) => &mut verdict.not_counted,
            };
            flags.push(Flag { rule, times, execution_chance, unflagged, reason });
        };
        if times.sample_mean_ns > moments.mean + thresholds.t1 * moments.deviation {
            note(
                OutlierRule::Mean,
                chance::of_mean(&own, &these),
                mean_reason(&times, thresholds.t1),
            );
        }
        if times.sample_share > thresholds.t2 * times.normal_share {
            let counts @ [normal, sample] = [(above_own, own.len()), (above_these, these.len())];
            let chance = chance::of_share(normal, sample);
            note(OutlierRule::Share, chance, share_reason(&times, counts, thresholds.t2));
        }
    }
    for flags in [&mut verdict.flagged, &mut verdict.effects] {
        flags.sort_by(|one, other| by_evidence(&one.times, &other.times));
    }
    verdict
}

/// What is known the best first, and of equals what is the longest.
fn by_evidence(one: &Times, other: &Times) -> std::cmp::Ordering {
    let of = |times: &Times| (times.evidence, times.more_ns());
    let ((evidence, more_ns), (others, others_ns)) = (of(one), of(other));
    others.total_cmp(&evidence).then(others_ns.total_cmp(&more_ns))
}

fn evidence(normal: Moments, sample: Moments, between: Option<&Between>) -> f64 {
    let variance = f64::midpoint(normal.deviation.powi(2), sample.deviation.powi(2));
    let quotient = |more_ns: f64, deviation_ns: f64| match more_ns {
        0.0 => 0.0,
        more_ns => more_ns / deviation_ns,
    };
    let of_executions = quotient(sample.mean - normal.mean, variance.sqrt());
    let of_units = between.map(|between| quotient(between.more_ns, between.deviation_ns));
    of_units.map_or(of_executions, |of_units| of_executions.min(of_units))
}

fn mean_reason(times: &Times, t1: f64) -> String {
    let Times { state, normal_mean_ns, normal_deviation_ns, sample_mean_ns, .. } = *times;
    let (mean, normal) = (duration(sample_mean_ns), duration(normal_mean_ns));
    match normal_deviation_ns > 0.0 {
        true => format!(
            "{state}: the sample's mean, {mean}, is {:.1} standard deviations ({}) above the normal one, {normal}: more \
             than {t1}",
            (sample_mean_ns - normal_mean_ns) / normal_deviation_ns,
            duration(normal_deviation_ns)
        ),
        false => format!(
            "{state}: the sample's mean, {mean}, is above the normal one, {normal}, from which no normal execution differs"
        ),
    }
}

fn share_reason(times: &Times, [normal, sample]: [(usize, usize); 2], t2: f64) -> String {
    let Times { state, normal_mean_ns, .. } = *times;
    let normal_mean = match normal_mean_ns > 0.0 {
        true => format!("longer than the normal mean of {}", duration(normal_mean_ns)),
        false => "longer than the normal ones, which have none".to_owned(),
    };
    let ((of_normal, normal), (of_sample, sample)) = (normal, sample);
    match of_normal {
        0 => format!("{state}: {of_sample} of {sample} of the sample are {normal_mean}"),
        _ => format!(
            "{state}: {of_sample} of {sample} of the sample are {normal_mean}, as {of_normal} of {normal} normal ones are: \
             more than {t2} times as many"
        ),
    }
}

#[cfg(test)]
mod tests;
