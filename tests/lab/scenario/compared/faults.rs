//! A program against itself with a fault in each execution: what is found, and where.

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;

use super::program::{FIRST, Fault, Program, Recorded};
use super::said::{Said, Span, compare, paths};

/// How much is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Rounds of the normal recording: five executions each.
    pub rounds: u32,
    /// Rounds of each sample.
    pub sample_rounds: u32,
    /// Samples without a fault.
    pub sets: u32,
}

/// What was found of one fault.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// Which.
    pub fault: &'static str,
    /// Executions that have it.
    pub executions: usize,
    /// States that are named: effects, of one recording a side.
    pub flagged: Vec<String>,
    /// Executions that are found to lose time.
    pub found: usize,
    /// Of these, the ones whose first place is where the fault is.
    pub placed: usize,
    /// The state of the first places, with how many times that was it.
    pub states: Vec<(String, usize)>,
    /// The first one that is elsewhere, if any, or not found.
    pub missed: Option<String>,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Findings {
    /// Normal executions.
    pub normal: usize,
    /// Of these, the ones that count with a cluster of their own kind.
    pub with_their_kind: usize,
    /// Of these, the ones that are not between clusters.
    pub in_their_cluster: usize,
    /// Comparisons without a fault.
    pub sets: usize,
    /// Of these, the ones in which something was named: why.
    pub false_alarms: Vec<String>,
    /// Of each fault.
    pub faults: Vec<Found>,
    /// Whether no recording lost an event.
    pub is_whole: bool,
}

/// Records and compares. `progress` is called with what comes next.
/// Errors: if something cannot be recorded or compared.
pub fn findings(
    program: &Program,
    amount: Amount,
    mut progress: impl FnMut(&str),
) -> Result<Findings> {
    let mut record = |name: &str, fault, rounds| {
        progress(name);
        program.record(name, fault, rounds, FIRST, None)
    };
    let normal = record("normal", None, amount.rounds)?;
    let mut is_whole = normal.is_whole;
    let mut faults = Vec::new();
    let mut with_their_kind = None;
    for fault in Fault::ALL {
        let sample = record(fault.name(), Some(fault), amount.sample_rounds)?;
        is_whole &= sample.is_whole;
        let said = compare(&normal.folder, &sample.folder)?;
        // Those of the normal recording are the same, whatever the sample.
        if !said.clusters.normal.is_empty() {
            let of = |labels: &[i64]| said.with_their_kind(labels);
            with_their_kind = Some((of(&said.clusters.kinds.normal), of(&said.clusters.normal)));
        }
        faults.push(found(fault, &sample, &said)?);
    }
    let mut false_alarms = Vec::new();
    for number in 0..amount.sets {
        let sample = record(&format!("normal-{number}"), None, amount.sample_rounds)?;
        is_whole &= sample.is_whole;
        let said = compare(&normal.folder, &sample.folder)?;
        let reasons: Vec<_> = said.named().map(|flag| flag.reason.as_str()).collect();
        if !reasons.is_empty() {
            false_alarms.push(format!("normal-{number}: {}", reasons.join("; ")));
        }
    }
    let (with_their_kind, in_their_cluster) =
        with_their_kind.context("no clusters: nothing was named")?;
    Ok(Findings {
        normal: normal.known.len(),
        with_their_kind,
        in_their_cluster,
        sets: amount.sets as usize,
        false_alarms,
        faults,
        is_whole,
    })
}

fn found(fault: Fault, sample: &Recorded, said: &Said) -> Result<Found> {
    let mut found = Found {
        fault: fault.name(),
        executions: sample.known.len(),
        flagged: said.states().into_iter().map(str::to_owned).collect(),
        found: 0,
        placed: 0,
        states: Vec::new(),
        missed: None,
    };
    ensure!(said.executions.sample.len() == sample.known.len(), "not all executions are there");
    let paths = paths(&sample.folder)?;
    for known in &sample.known {
        let (begin_ns, end_ns) =
            known.fault.with_context(|| format!("{} has no fault", known.key))?;
        let number = said.executions.sample.iter().position(|run| run.key == known.key);
        let number = number.with_context(|| format!("{} is not there", known.key))?;
        let run = said.executions.sample.get(number).context("no such execution")?;
        // Marks say when they were set, so both clocks meet in the begin of an execution.
        let at = |ns: u64| run.from_ns + (ns - known.from_ns);
        let mut miss = |what: String| {
            found.missed.get_or_insert(what);
        };
        let Some((state, place)) = said.first_place(number) else {
            miss(format!("{} is not found", known.key));
            continue;
        };
        let planted = Span { from_ns: at(begin_ns), to_ns: at(end_ns) };
        let path = paths.iter().find(|path| path.key == known.key);
        let parts = path.map_or(&[][..], |path| path.path.as_slice());
        if is_right(place.span(), planted, parts) {
            found.placed += 1;
        } else {
            let from = |ns: u64| (ns as f64 - run.from_ns as f64) / 1e6;
            miss(format!(
                "{}: {state} from {:.3} to {:.3} ms comes first, the fault is from {:.3} to {:.3} ms",
                known.key,
                from(place.from_ns),
                from(place.to_ns),
                from(at(begin_ns)),
                from(at(end_ns)),
            ));
        }
        found.found += 1;
        match found.states.iter_mut().find(|(known, _)| known == state) {
            Some((_, count)) => *count += 1,
            None => found.states.push((state.to_owned(), 1)),
        }
    }
    Ok(found)
}

/// Whether a place is where something was planted: most of the place lies in it. Within one part of the path there is no finer place,
/// so where that has most of what was planted, it is the right place as well.
fn is_right(place: Span, planted: Span, path: &[Span]) -> bool {
    let mut right = path.iter().filter(|part| planted.is_mostly_in(**part));
    place.is_mostly_in(planted) || right.any(|part| place.is_mostly_in(*part))
}

#[cfg(test)]
mod tests {
    use super::{Span, is_right};

    #[test]
    fn a_place_is_right_where_most_of_it_was_planted_or_nothing_is_told_apart() {
        let span = |from_ns, to_ns| Span { from_ns, to_ns };
        let (planted, path) = (span(50, 80), [span(0, 48), span(48, 60), span(60, 90)]);
        assert!(is_right(span(48, 60), planted, &path));
        assert!(is_right(span(60, 90), planted, &path));
        assert!(!is_right(span(0, 60), planted, &path));
        assert!(!is_right(span(0, 90), planted, &path));
        assert!(is_right(span(0, 90), planted, &[span(0, 90)]));
        assert!(!is_right(span(80, 90), planted, &[span(0, 80), span(80, 90)]));
    }
}
