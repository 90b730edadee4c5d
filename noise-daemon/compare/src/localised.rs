//! An execution of the sample beside normal ones of its kind: where it lost its time.

use noise_trace::delays::document::Culprit;
use serde::Serialize;

use crate::align::{AlignError, AlignSettings, AlignedFamily, Symbol};
use crate::places::{Beside, OddColumns};
use crate::settings::Settings;
use crate::side::{Execution, PartOwner, Side, chosen};
use crate::stretches::{PathStretch, state_name};

/// Normal executions beside which one is put.
pub const MAX_PEERS: usize = 30;
/// Stretches of all paths that are put side by side: beside a long one there are fewer normal ones, but some.
const MAX_STRETCHES: usize = 1 << 19;
const LEAST_PEERS: usize = 3;
/// Culprits of a place that are kept.
const MAX_CULPRITS: usize = 10;
/// Work of aligning the normal executions beside which others are put: a few seconds.
const MAX_CELLS: u64 = 1 << 28;
/// Of more kinds of normal executions than these, each gets what is left to one of so many.
const SHARING: usize = 4;

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

/// An execution of the sample, by its place, and the states in which it is too long.
pub type Slow = (usize, Vec<usize>);

/// Puts executions of the sample, which are held against the same normal ones, beside these, and finds their places. `of_kind`
/// are normal ones among all, and `families` how many such kinds there are.
pub fn localise(
    (sample, slow): (&Side, &[Slow]),
    (normal, of_kind): (&[Execution], &[usize]),
    families: usize,
    how: &Settings,
    progress: &mut dyn FnMut(),
) -> Vec<Localised> {
    let lengths = of_kind.iter().filter_map(|peer| normal.get(*peer));
    let longest = lengths.map(|one| one.stretches.len()).max();
    let most = MAX_STRETCHES / longest.unwrap_or(1).max(1);
    let beside = chosen(normal, of_kind, most.clamp(LEAST_PEERS, MAX_PEERS));
    let peers: Vec<&Execution> = beside.iter().filter_map(|place| normal.get(*place)).collect();
    let symbols = |one: &Execution| one.stretches.iter().map(PathStretch::symbol).collect();
    let family: Vec<Vec<Symbol>> = peers.iter().map(|peer| symbols(peer)).collect();
    let odd = |(execution, _): &Slow| sample.executions().get(*execution);
    let others: Vec<Vec<Symbol>> =
        slow.iter().map(|slow| odd(slow).map_or_else(Vec::new, symbols)).collect();
    let max_cells = MAX_CELLS / families.clamp(1, SHARING) as u64;
    let settings = AlignSettings { max_cells, ..AlignSettings::default() };
    let family = AlignedFamily::new(&family, &others, &settings);
    let mut all = Vec::new();
    for (number, slow) in slow.iter().enumerate() {
        progress();
        let Some(execution) = odd(slow) else { continue };
        let mut localised = Localised {
            execution: slow.0,
            beside: beside.clone(),
            of: of_kind.len(),
            ..Localised::default()
        };
        let alignment = match &family {
            Ok(family) => family.beside(number),
            Err(error) => Err(error.clone()),
        };
        match alignment {
            Ok(alignment) => {
                let executions = [execution].into_iter().chain(peers.iter().copied()).collect();
                localised.compare(sample, &Beside { executions, alignment }, &slow.1, how);
            }
            Err(error) => localised.failed = Some(failed(&error)),
        }
        all.push(localised);
    }
    all
}

impl Localised {
    fn compare(&mut self, sample: &Side, beside: &Beside<'_>, states: &[usize], how: &Settings) {
        self.columns = beside.alignment.columns();
        let counted = beside.counted();
        let columns = beside.columns(&counted, how.thresholds.t1);
        // The one in the middle of the normal ones, which are in the order of their spans.
        let row = self.beside.len().div_ceil(2);
        let normal_execution = self.beside.get(row.saturating_sub(1)).copied().unwrap_or_default();
        let (mut odd, mut worst) = (Vec::new(), Vec::new());
        for state in states {
            let found = beside.places(&columns, &counted, *state);
            for place in &found {
                let columns = place.columns.iter().map(|column| column.number);
                if worst.is_empty() {
                    worst.extend(columns.clone());
                }
                odd.extend(columns);
                self.places.push(shown((sample, beside), place, (row, normal_execution)));
            }
        }
        if how.keeps_alignments {
            let stretches = beside.executions.iter().map(|one| one.stretches.clone()).collect();
            self.alignment = Aligned { stretches, alignment: beside.alignment.clone(), odd, worst };
        }
    }
}

fn failed(error: &AlignError) -> String {
    format!("its path cannot be put beside normal ones: {error}")
}

/// A place as documents have it, of a side's execution in the first row.
fn shown(
    (sample, beside): (&Side, &Beside<'_>),
    place: &OddColumns,
    (row, normal_execution): (usize, usize),
) -> Place {
    let stretches = place.columns.iter().map(|column| column.stretch);
    let owner = beside.executions.first().map(|odd| sample.owner_of(odd, stretches));
    let PartOwner { tid, comm, mut culprits } = owner.unwrap_or_default();
    culprits.truncate(MAX_CULPRITS);
    let normal = beside.executions.len().saturating_sub(1);
    let (normal_from_ns, normal_to_ns) = beside.normal_time(place, row).unwrap_or_default();
    Place {
        from_ns: place.from_ns,
        to_ns: place.to_ns,
        normal_from_ns,
        normal_to_ns,
        normal_execution,
        tid,
        comm,
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
