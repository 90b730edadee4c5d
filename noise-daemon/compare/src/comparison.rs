//! A sample of executions held against normal ones: all of it, as commands print it.

use std::collections::BTreeSet;

use noise_cluster::{ClusterError, Points};
use noise_paths::document::Traced;
use noise_trace::delays::document::Culprit;
use serde::{Serialize, Serializer};

use crate::align::{AlignError, AlignSettings, Symbol, align};
use crate::kinds::{Clustering, Kinds, MAX_EXECUTIONS, STANDARDISED, kinds, points};
use crate::outliers::{SlowExecution, outliers};
use crate::pairing::{Pairing, apartness, pair};
use crate::places::{Beside, OddColumns, chosen};
use crate::rules::{Flag, OutlierVerdict, Thresholds, Times, judge};
use crate::stretches::{PathStretch, STATES, state_name, stretches};
use crate::vectors::Vectors;

/// Executions whose paths are put beside normal ones: those that lost the most.
pub const MAX_LOCALISED: usize = 20;
/// Normal executions beside which one is put.
pub const MAX_PEERS: usize = 30;
/// Places of one execution in one state that are kept.
const MAX_PLACES: usize = 50;
/// Stretches of all paths that are put side by side: beside a long one there are fewer normal ones, but some.
const MAX_STRETCHES: usize = 1 << 19;
const LEAST_PEERS: usize = 3;
/// Culprits of a place that are kept.
const MAX_CULPRITS: usize = 10;
/// Work of one alignment: a few seconds at most.
const MAX_CELLS: u64 = 1 << 28;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Settings {
    #[serde(flatten)]
    pub thresholds: Thresholds,
    /// How kinds are found.
    #[serde(flatten)]
    pub clustering: Clustering,
    /// Whether to go on where no state is flagged.
    pub force: bool,
    /// Whether [`Localised::alignment`] is kept: the alignments of long paths are large.
    #[serde(skip)]
    pub keeps_alignments: bool,
}

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

/// An execution, without its path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Run {
    /// As it was asked for.
    pub name: String,
    /// The key that its marks have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub tid: i32,
    pub comm: String,
    /// From then on, nanoseconds since the epoch of the trace's clock.
    pub from_ns: u64,
    pub to_ns: u64,
    pub span_ns: u64,
}

impl Run {
    fn of(traced: &Traced) -> Self {
        let Traced { name, key, tid, comm, from_ns, to_ns, span_ns, .. } = traced.clone();
        Self { name, key, tid, comm, from_ns, to_ns, span_ns }
    }
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

/// A place where an execution lost time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Place {
    pub from_ns: u64,
    pub to_ns: u64,
    /// The same place in a normal execution, the one in the middle of those that it was held against: from then on.
    pub normal_from_ns: u64,
    /// Until then; the same where it passes in no time.
    pub normal_to_ns: u64,
    /// Which normal execution that is.
    pub normal_execution: usize,
    /// The thread that has most of it.
    pub tid: i32,
    pub comm: String,
    /// Whether that is the execution's own thread.
    pub is_own: bool,
    pub state: &'static str,
    /// How often it is in that state here.
    pub times: usize,
    /// Part of the normal executions that are in that state here.
    pub probability: f64,
    /// How many those are.
    pub normal_with: usize,
    /// Time of what is odd here.
    pub duration_ns: u64,
    /// That of the normal executions.
    pub mean_ns: f64,
    pub deviation_ns: f64,
    pub lost_ns: f64,
    /// For whom it waits here, the longest first.
    pub culprits: Vec<Culprit>,
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
    /// Where the time was lost: places in this state, the most first. Of executions that were not held against normal
    /// ones there are none.
    pub places: Vec<Place>,
}

/// An execution beside normal ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Localised {
    /// Its number in the sample.
    pub execution: usize,
    pub beside: Vec<usize>,
    /// How many normal ones of its kind there are.
    pub of: usize,
    /// Columns of the alignment.
    pub columns: usize,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Where it lost time, by state; anomalies have them.
    #[serde(skip)]
    pub places: Vec<Place>,
    /// What stands in which column, if it is [kept](Settings::keeps_alignments).
    #[serde(skip)]
    pub alignment: Aligned,
}

/// An alignment with what it aligns: the execution, then the normal ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aligned {
    pub stretches: Vec<Vec<PathStretch>>,
    /// Which of them is in which column.
    pub alignment: crate::align::Alignment,
    /// The columns that places have.
    pub odd: Vec<usize>,
    /// Those of the worst one.
    pub worst: Vec<usize>,
}

impl Aligned {
    /// The strings as symbols.
    pub fn symbols(&self) -> Vec<Vec<Symbol>> {
        self.stretches.iter().map(|all| all.iter().map(PathStretch::symbol).collect()).collect()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// How it was compared.
    pub settings: Settings,
    pub executions: Both<Vec<Run>>,
    /// Algorithm 1: rules that hold.
    pub flagged: Vec<Flag>,
    /// Rules that hold, but not beyond chance or not so that it matters.
    pub not_counted: Vec<Flag>,
    /// Both sets in all states that occur.
    pub states: Vec<Times>,
    /// Whether the executions are too few to tell from chance.
    pub is_too_few: bool,
    /// Whether it went on: a state was flagged, or it was forced to.
    pub went_on: bool,
    /// Clusters of vectors of counts.
    pub clusters: Clusters,
    /// Each kind of the sample, its normal one or null, and the silhouette of both merged, or null where there is no other.
    pub pairs: Vec<(usize, Option<usize>, Option<f64>)>,
    /// Executions of the sample that are paired by themselves, because they lie nearer to another kind than their cluster.
    pub paired_alone: Vec<usize>,
    /// The normal kind of each execution of the sample, or null: then it is held against all normal ones.
    pub paired: Vec<Option<usize>>,
    /// What is too long: in flagged states first, and of these what lost the most.
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
    normal: &[Traced],
    sample: &[Traced],
    settings: &Settings,
    progress: &mut dyn FnMut(CompareProgress),
) -> Result<Comparison, CompareError> {
    for (set, executions) in [("normal", normal), ("sample", sample)] {
        match executions.len() {
            0 => return Err(CompareError::Empty(set)),
            count if count > MAX_EXECUTIONS => return Err(CompareError::TooMany { count, set }),
            _ => {}
        }
    }
    let vectors = |set: &[Traced]| set.iter().map(Vectors::of).collect::<Vec<_>>();
    let (of_normal, of_sample) = (vectors(normal), vectors(sample));
    let OutlierVerdict { flagged, not_counted, times, is_too_few } =
        judge((normal, &of_normal), &of_sample, &settings.thresholds);
    let mut found = Comparison {
        settings: *settings,
        executions: Both::of(&[normal, sample], |set| set.iter().map(Run::of).collect()),
        went_on: settings.force || !flagged.is_empty(),
        flagged,
        not_counted,
        states: times,
        is_too_few,
        ..Comparison::default()
    };
    if !found.went_on {
        return Ok(found);
    }
    progress(CompareProgress::Kinds);
    let (normal_points, sample_points) = (points(&of_normal)?, points(&of_sample)?);
    let mut normal_kinds = kinds(&normal_points, &settings.clustering, false)?;
    join_overlapping(&normal_points, &mut normal_kinds);
    let sample_kinds = kinds(&sample_points, &settings.clustering, true)?;
    let pairing = pair((&normal_points, &normal_kinds), (&sample_points, &sample_kinds))?;
    // What has no pair is held against all, the last group.
    let last = normal_kinds.count;
    let kinds = (0..last).map(|kind| normal_kinds.members(kind));
    let groups: Vec<Vec<usize>> = kinds.chain([(0..normal.len()).collect()]).collect();
    let of: Vec<usize> = pairing.kinds.iter().map(|kind| kind.unwrap_or(last)).collect();
    let mut outliers = outliers(&of_normal, &of_sample, (&groups, &of), settings.thresholds.t1);
    // What is different in the sample as a whole comes before what is odd in one execution.
    outliers.sort_by_key(|outlier| !found.is_flagged(state_name(outlier.state)));
    let sets = [(&normal_points, normal_kinds), (&sample_points, sample_kinds)];
    found.note_kinds(sets, &pairing);
    found.localise((normal, sample), &outliers, (&groups, &of), progress);
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
    /// Whether any rule of a state counts.
    fn is_flagged(&self, state: &str) -> bool {
        self.flagged.iter().any(|flag| flag.times.state == state)
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
        (normal, sample): (&[Traced], &[Traced]),
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
        let count = executions.len();
        for (done, execution) in executions.into_iter().enumerate() {
            progress(CompareProgress::Paths { done, of: count });
            let states: Vec<usize> = outliers
                .iter()
                .filter(|outlier| outlier.execution == execution)
                .map(|outlier| outlier.state)
                .collect();
            let of_kind = of.get(execution).and_then(|group| groups.get(*group));
            let (Some(odd), Some(of_kind)) = (sample.get(execution), of_kind) else { continue };
            let lengths = of_kind.iter().filter_map(|peer| normal.get(*peer));
            let longest = lengths.chain([odd]).map(|traced| traced.path.len()).max();
            let most = MAX_STRETCHES / longest.unwrap_or(1).max(1);
            let mut localised = Localised {
                execution,
                beside: chosen(normal, of_kind, most.clamp(LEAST_PEERS, MAX_PEERS)),
                of: of_kind.len(),
                ..Localised::default()
            };
            localised.find(odd, normal, &states, &self.settings);
            self.localised.push(localised);
        }
        for outlier in outliers {
            let state = state_name(outlier.state);
            let localised = self.localised.iter().find(|of| of.execution == outlier.execution);
            let places = localised.map_or(&[][..], |localised| localised.places.as_slice()).iter();
            let own = places.filter(|place| place.state == state).take(MAX_PLACES);
            self.anomalies.push(Anomaly {
                execution: outlier.execution,
                state,
                duration_ns: outlier.ns,
                expected_ns: outlier.normal.mean,
                deviation_ns: outlier.normal.deviation,
                lost_ns: outlier.lost_ns(),
                is_flagged: self.is_flagged(state),
                places: own.cloned().collect(),
            });
        }
    }
}

impl Localised {
    /// Puts the execution beside the normal ones, and finds its places in some states.
    fn find(&mut self, odd: &Traced, normal: &[Traced], states: &[usize], how: &Settings) {
        let peers = self.beside.iter().filter_map(|place| normal.get(*place));
        let executions: Vec<&Traced> = [odd].into_iter().chain(peers).collect();
        let stretches = executions.iter().map(|traced| stretches(traced)).collect();
        let mut aligned = Aligned { stretches, ..Aligned::default() };
        let settings = AlignSettings { max_cells: MAX_CELLS, ..AlignSettings::default() };
        let alignment = match align(&aligned.symbols(), &settings) {
            Ok(alignment) => alignment,
            Err(error) => {
                self.failed = Some(failed(&error));
                return;
            }
        };
        self.columns = alignment.columns();
        let beside = Beside { stretches: aligned.stretches, executions, alignment };
        let counted = beside.counted();
        let columns = beside.columns(&counted, how.thresholds.t1);
        // The one in the middle of the normal ones, which are in the order of their spans.
        let row = self.beside.len().div_ceil(2);
        let normal_execution = self.beside.get(row.saturating_sub(1)).copied().unwrap_or_default();
        for state in states {
            let found = beside.places(&columns, &counted, *state);
            let places = found.iter().map(|place| shown(&beside, place, row, normal_execution));
            self.places.extend(places);
            for place in &found {
                let columns = place.columns.iter().map(|column| column.number);
                if aligned.worst.is_empty() {
                    aligned.worst.extend(columns.clone());
                }
                aligned.odd.extend(columns);
            }
        }
        if how.keeps_alignments {
            (aligned.stretches, aligned.alignment) = (beside.stretches, beside.alignment);
            self.alignment = aligned;
        }
    }
}

fn failed(error: &AlignError) -> String {
    format!("its path cannot be put beside normal ones: {error}")
}

/// A place as documents have it.
fn shown(beside: &Beside<'_>, place: &OddColumns, row: usize, normal_execution: usize) -> Place {
    let mut culprits: Vec<Culprit> = Vec::new();
    let (mut main, mut main_ns) = ((0, ""), 0);
    let own = beside.stretches.first().map_or(&[][..], Vec::as_slice);
    let path = beside.executions.first().map_or(&[][..], |odd| odd.path.as_slice());
    for column in &place.columns {
        let Some(stretch) = own.get(column.stretch) else { continue };
        for part in path.get(stretch.first..stretch.end).unwrap_or_default() {
            let ns = part.to_ns.saturating_sub(part.from_ns);
            if ns > main_ns {
                (main, main_ns) = ((part.tid, part.comm.as_str()), ns);
            }
            for culprit in &part.culprits {
                let is_same = |known: &&mut Culprit| {
                    (known.tid, known.cause, &known.comm)
                        == (culprit.tid, culprit.cause, &culprit.comm)
                };
                match culprits.iter_mut().find(is_same) {
                    Some(known) => known.ns = known.ns.saturating_add(culprit.ns),
                    None => culprits.push(culprit.clone()),
                }
            }
        }
    }
    culprits.sort_by_key(|culprit| std::cmp::Reverse(culprit.ns));
    culprits.truncate(MAX_CULPRITS);
    let normal = beside.stretches.len().saturating_sub(1);
    let (normal_from_ns, normal_to_ns) = beside.normal_time(place, row).unwrap_or_default();
    Place {
        from_ns: place.from_ns,
        to_ns: place.to_ns,
        normal_from_ns,
        normal_to_ns,
        normal_execution,
        tid: main.0,
        comm: main.1.to_owned(),
        is_own: place.is_own,
        state: state_name(place.state),
        times: place.times,
        probability: place.normal_with as f64 / normal.max(1) as f64,
        normal_with: place.normal_with,
        duration_ns: place.duration_ns,
        mean_ns: place.expected_ns,
        deviation_ns: place.deviation_ns,
        lost_ns: place.lost_ns(),
        culprits,
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
