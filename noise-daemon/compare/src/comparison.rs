//! A sample of executions held against normal ones: all of it, as commands print it.

use std::collections::{BTreeMap, BTreeSet};

use noise_cluster::{ClusterError, Points};
use serde::{Serialize, Serializer};

use crate::align::Symbol;
use crate::drift::Drift;
use crate::kinds::{Kinds, MAX_EXECUTIONS, STANDARDISED, kinds, points};
use crate::localised::{Localised, Place, Slow, localise};
use crate::outliers::{SlowExecution, outliers};
use crate::pairing::{Pairing, apartness, pair};
use crate::rules::{Flag, OutlierVerdict, Times, judge};
pub use crate::settings::Settings;
use crate::side::{Execution, Run, Side};
use crate::stretches::{STATES, state_name};
use crate::vectors::path_state;

/// Executions whose paths are put beside normal ones: those that lost the most.
pub const MAX_LOCALISED: usize = 20;
/// Places of one execution in one state that are kept.
const MAX_PLACES: usize = 50;

/// Why two sets cannot be compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CompareError {
    /// One of them is empty.
    #[error("there is no {0} execution to compare")]
    Empty(&'static str),
    /// One of them is too large.
    #[error(
        "{count} {set} executions are more than the {MAX_EXECUTIONS} that can be compared: take a part of the time with --from and --to"
    )]
    TooMany {
        /// How many there are.
        count: usize,
        set: &'static str,
    },
    /// They cannot be clustered.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// One of something for each set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Both<T> {
    /// Of the normal executions.
    pub normal: T,
    pub sample: T,
}

impl<T> Both<T> {
    fn of<S>([normal, sample]: &[S; 2], of: impl Fn(&S) -> T) -> Self {
        Self { normal: of(normal), sample: of(sample) }
    }
}

/// Clusters of both sets.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Clusters {
    /// The cluster of each normal execution; -1 between clusters.
    #[serde(serialize_with = "labels")]
    pub normal: Vec<Option<usize>>,
    /// Likewise of the sample.
    #[serde(serialize_with = "labels")]
    pub sample: Vec<Option<usize>>,
    /// The kind that each counts with.
    pub kinds: Both<Vec<usize>>,
    /// The order of OPTICS.
    pub order: Both<Vec<usize>>,
    /// The distance at which each execution was reached, by its number; null of the first one.
    pub reachability: Both<Vec<Option<f64>>>,
    /// What the vectors are.
    pub standardised: &'static str,
    pub points: Both<Vec<Vec<f64>>>,
    /// What is not as usual.
    pub notes: Vec<String>,
}

fn labels<S: Serializer>(labels: &[Option<usize>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(
        labels.iter().map(|label| label.and_then(|label| i64::try_from(label).ok()).unwrap_or(-1)),
    )
}

/// An execution that is too long in a state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Anomaly {
    /// Its number in the sample.
    pub execution: usize,
    pub state: &'static str,
    /// Its time in it.
    pub duration_ns: u64,
    /// The mean of the normal executions of its kind, without the longest ones: see
    /// [`Moments::trimmed`](crate::rules::Moments::trimmed).
    pub expected_ns: f64,
    pub deviation_ns: f64,
    /// The difference to the mean.
    pub lost_ns: f64,
    /// Whether Algorithm 1 has a rule of this state that counts.
    pub is_flagged: bool,
    /// Whether one is an effect that drift may have made.
    pub is_effect: bool,
    /// Where the time was lost: places in this state, the most first. Of executions that were not held against normal
    /// ones there are none.
    pub places: Vec<Place>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// How it was compared.
    pub settings: Settings,
    pub executions: Both<Vec<Run>>,
    /// What can be known of how recordings differ.
    pub drift: Drift,
    /// Algorithm 1: rules that hold, by more than recordings differ by; what is known the best first.
    pub flagged: Vec<Flag>,
    /// Rules that hold, and that the difference between recordings may have made; likewise.
    pub effects: Vec<Flag>,
    /// Rules that hold, but not beyond chance or not so that it matters.
    pub not_counted: Vec<Flag>,
    /// Both sets in all states that occur.
    pub states: Vec<Times>,
    /// Whether the executions are too few to tell from chance.
    pub is_too_few: bool,
    /// Whether it went on: there is a flagged state or an effect, or it was forced to.
    pub went_on: bool,
    /// Clusters of vectors of counts.
    pub clusters: Clusters,
    /// Each kind of the sample, its normal one or null, and the silhouette of both merged, or null where there is no other.
    pub pairs: Vec<(usize, Option<usize>, Option<f64>)>,
    /// Executions of the sample that are paired by themselves, because they lie nearer to another kind than their cluster.
    pub paired_alone: Vec<usize>,
    /// The normal kind of each execution of the sample, or null: then it is held against all normal ones.
    pub paired: Vec<Option<usize>>,
    /// What is too long: in flagged states first, then where there are effects, what is known the best before others; in
    /// one of these states, and in all others together, what lost the most first.
    pub anomalies: Vec<Anomaly>,
    /// Executions that were held against normal ones.
    pub localised: Vec<Localised>,
    /// Executions with anomalies that were not, because there are more than are.
    pub not_localised: usize,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareProgress {
    /// Kinds of executions are looked for.
    Kinds,
    /// Paths are put side by side.
    Paths { done: usize, of: usize },
}

/// Compares a sample with normal executions.
/// Errors: where there is nothing to compare, or too much.
pub fn compare(
    normal: &Side,
    sample: &Side,
    settings: &Settings,
    progress: &mut dyn FnMut(CompareProgress),
) -> Result<Comparison, CompareError> {
    for (set, side) in [("normal", normal), ("sample", sample)] {
        match side.executions().len() {
            0 => return Err(CompareError::Empty(set)),
            count if count > MAX_EXECUTIONS => return Err(CompareError::TooMany { count, set }),
            _ => {}
        }
    }
    let OutlierVerdict { flagged, effects, not_counted, times, drift, is_too_few } =
        judge(normal, sample, &settings.thresholds);
    let runs = |side: &&Side| side.executions().iter().map(|one| one.run.clone()).collect();
    let mut found = Comparison {
        settings: *settings,
        executions: Both::of(&[normal, sample], runs),
        drift,
        went_on: settings.force || !flagged.is_empty() || !effects.is_empty(),
        flagged,
        effects,
        not_counted,
        states: times,
        is_too_few,
        ..Comparison::default()
    };
    if !found.went_on {
        return Ok(found);
    }
    progress(CompareProgress::Kinds);
    let points = |side: &Side| points(side.executions().iter().map(|one| &one.vectors));
    let (normal_points, sample_points) = (points(normal)?, points(sample)?);
    let mut normal_kinds = kinds(&normal_points, &settings.clustering, false)?;
    join_overlapping(&normal_points, &mut normal_kinds);
    let sample_kinds = kinds(&sample_points, &settings.clustering, true)?;
    let pairing = pair((&normal_points, &normal_kinds), (&sample_points, &sample_kinds))?;
    // What has no pair is held against all, the last group.
    let last = normal_kinds.count;
    let kinds = (0..last).map(|kind| normal_kinds.members(kind));
    let groups: Vec<Vec<usize>> = kinds.chain([(0..normal.executions().len()).collect()]).collect();
    let of: Vec<usize> = pairing.kinds.iter().map(|kind| kind.unwrap_or(last)).collect();
    let (own, these) = (normal.executions(), sample.executions());
    let divides = normal.knows_calls() && sample.knows_calls();
    let mut outliers = outliers(own, these, (&groups, &of), settings.thresholds.t1, divides);
    // What is different in the sample as a whole comes before what is odd in one execution.
    outliers.sort_by_key(|outlier| found.rank(state_name(outlier.state)));
    let sets = [(&normal_points, normal_kinds), (&sample_points, sample_kinds)];
    found.note_kinds(sets, &pairing);
    found.localise((own, sample), &outliers, (&groups, &of), progress);
    Ok(found)
}

/// Normal clusters that lie within each other are no kinds.
fn join_overlapping(points: &Points, kinds: &mut Kinds) {
    if apartness(points, kinds).is_some_and(|silhouette| silhouette < 0.0) {
        kinds.note = Some(format!(
            "the {} clusters lie within each other (their mean silhouette is negative): all are taken for one kind",
            kinds.count
        ));
        kinds.kinds = vec![0; points.len()];
        kinds.count = 1;
    }
}

impl Comparison {
    /// What differs, by evidence: flagged states, then those with effects.
    pub fn ranked(&self) -> impl Iterator<Item = &Flag> {
        self.flagged.iter().chain(&self.effects)
    }

    /// The place of a state among what differs; behind all where it does not.
    fn rank(&self, state: &str) -> usize {
        let place = self.ranked().position(|flag| flag.times.state == state);
        place.unwrap_or(usize::MAX)
    }

    fn note_kinds(&mut self, sets: [(&Points, Kinds); 2], pairing: &Pairing) {
        let notes = ["normal", "sample"].into_iter().zip(&sets);
        let note = |(set, (_, kinds)): (&str, &(&Points, Kinds))| {
            kinds.note.as_ref().map(|note| format!("{set}: {note}"))
        };
        self.clusters = Clusters {
            notes: notes.filter_map(note).collect(),
            standardised: STANDARDISED,
            points: Both::of(&sets, |(points, _)| points.iter().map(<[f64]>::to_vec).collect()),
            kinds: Both::of(&sets, |(_, kinds)| kinds.kinds.clone()),
            order: Both::of(&sets, |(_, kinds)| {
                kinds.ordering.as_ref().map_or_else(Vec::new, |ordering| ordering.order.clone())
            }),
            reachability: Both::of(&sets, |(_, kinds)| {
                let all = kinds.ordering.iter().flat_map(|ordering| &ordering.reachability);
                all.map(|value| Some(*value).filter(|value| value.is_finite())).collect()
            }),
            ..Clusters::default()
        };
        let [normal, sample] = sets;
        (self.clusters.normal, self.clusters.sample) = (normal.1.labels, sample.1.labels);
        self.pairs =
            pairing.pairs.iter().map(|pair| (pair.sample, pair.normal, pair.silhouette)).collect();
        self.paired_alone.clone_from(&pairing.alone);
        self.paired.clone_from(&pairing.kinds);
    }

    fn localise(
        &mut self,
        (normal, sample): (&[Execution], &Side),
        outliers: &[SlowExecution],
        (groups, of): (&[Vec<usize>], &[usize]),
        progress: &mut dyn FnMut(CompareProgress),
    ) {
        // Outliers come with what matters the most first, and so do their executions.
        let mut seen = BTreeSet::new();
        let all = outliers.iter().map(|outlier| outlier.execution);
        let mut executions: Vec<usize> = all.filter(|execution| seen.insert(*execution)).collect();
        self.not_localised = executions.len().saturating_sub(MAX_LOCALISED);
        executions.truncate(MAX_LOCALISED);
        let place_of: BTreeMap<usize, usize> = executions.iter().copied().zip(0..).collect();
        let mut kinds: BTreeMap<usize, Vec<Slow>> = BTreeMap::new();
        for execution in executions {
            let own = outliers.iter().filter(|outlier| outlier.execution == execution);
            let mut states: Vec<usize> = own.map(|outlier| path_state(outlier.state)).collect();
            // The states of running have the same places.
            let mut seen = BTreeSet::new();
            states.retain(|state| seen.insert(*state));
            let kind = of.get(execution).copied().unwrap_or(groups.len());
            kinds.entry(kind).or_default().push((execution, states));
        }
        let (mut done, count) = (0, place_of.len());
        let mut progress = || {
            progress(CompareProgress::Paths { done, of: count });
            done += 1;
        };
        for (kind, slow) in &kinds {
            let of_kind = groups.get(*kind).map_or(&[][..], Vec::as_slice);
            let (slow, normal) = ((sample, slow.as_slice()), (normal, of_kind));
            let found = localise(slow, normal, kinds.len(), &self.settings, &mut progress);
            self.localised.extend(found);
        }
        self.localised.sort_by_key(|localised| place_of.get(&localised.execution).copied());
        for outlier in outliers {
            let state = state_name(outlier.state);
            let localised = self.localised.iter().find(|of| of.execution == outlier.execution);
            let places = localised.map_or(&[][..], |localised| localised.places.as_slice()).iter();
            let of_path = state_name(path_state(outlier.state));
            let own = places.filter(|place| place.state == of_path).take(MAX_PLACES);
            let has = |flags: &[Flag]| flags.iter().any(|flag| flag.times.state == state);
            self.anomalies.push(Anomaly {
                execution: outlier.execution,
                state,
                duration_ns: outlier.ns,
                expected_ns: outlier.normal.mean,
                deviation_ns: outlier.normal.deviation,
                lost_ns: outlier.lost_ns(),
                is_flagged: has(&self.flagged),
                is_effect: has(&self.effects),
                places: own.cloned().collect(),
            });
        }
    }
}

/// Alignments as aligned FASTA, one below the other: the execution first, then its normal ones.
pub fn fasta(comparison: &Comparison) -> String {
    let symbols: Vec<(Symbol, String)> = (0..)
        .zip(STATES)
        .flat_map(|(place, state)| {
            let name = state.name();
            [(2 * place, name.to_owned()), (2 * place + 1, format!("others:{name}"))]
        })
        .collect();
    let one = |localised: &Localised| {
        let named = |set: &str, place: usize, runs: &[Run]| {
            let key = runs.get(place).and_then(|run| run.key.as_deref());
            format!("{set}-{place}{}", key.map_or_else(String::new, |key| format!("-{key}")))
        };
        let executions = &comparison.executions;
        let odd = named("sample", localised.execution, &executions.sample);
        let beside =
            localised.beside.iter().map(|place| named("normal", *place, &executions.normal));
        let names: Vec<String> = [odd].into_iter().chain(beside).collect();
        let aligned = &localised.alignment;
        crate::align::fasta::write(&aligned.symbols(), &aligned.alignment, &names, &symbols)
    };
    comparison.localised.iter().filter(|localised| localised.failed.is_none()).map(one).collect()
}

#[cfg(test)]
mod tests;
