//! Paths of the same work in two recordings beside each other: how much time each state has in the one and in the
//! other, and for whom. Sums and nothing else: whether a difference means something is not decided here.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::document::{PathsDocument, Segment, Traced, whole};

/// The cause of time in which a CPU was idle.
const IDLE: &str = "idle";

/// A sum over all executions of a recording, and over those of the one that it is held against, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Both {
    pub ns: u64,
    /// Of the other one.
    pub against_ns: u64,
}

impl Both {
    fn add(&mut self, is_against: bool, ns: u64) {
        let sum = if is_against { &mut self.against_ns } else { &mut self.ns };
        *sum = sum.saturating_add(ns);
    }
}

/// The executions of one name in both recordings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Beside {
    /// As they were asked for.
    pub name: String,
    /// How many the recording has of which it has begin and end, or of others where it has none such; never 0.
    pub executions: u64,
    /// How many the other one has; never 0.
    pub against_executions: u64,
    /// Those that each has beside them, and that are left out: their begin or their end is not known.
    pub left_out: u64,
    pub against_left_out: u64,
    /// How long they took, all together.
    #[serde(flatten)]
    pub span: Both,
    /// Time by state, that with the longest time in either first; sums to the spans.
    pub states: Vec<OfState>,
    /// For whom they waited, in the same order; of each state that has any, they sum to the time of those parts of it
    /// that say for whom they are.
    pub whom: Vec<ForWhom>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OfState {
    /// Its name, as [`State::name`](crate::state::State::name) has it.
    pub state: &'static str,
    #[serde(flatten)]
    pub time: Both,
}

/// Waiting for threads of one name, or for something that is no thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ForWhom {
    pub state: &'static str,
    /// The threads' name, or that of an interrupt; empty where the cause says it all. Threads have other ids in
    /// another recording, so that their names are what they have in common.
    pub comm: String,
    /// As a [`Culprit`](noise_trace::delays::document::Culprit) has it.
    pub cause: &'static str,
    /// How many threads of that name in the recording; 0 of what is no thread.
    pub threads: u64,
    /// The same of the other one.
    pub against_threads: u64,
    #[serde(flatten)]
    pub time: Both,
}

/// Who somebody is, whatever the recording: state, cause, name, whether it is a thread.
type PartyKey = (&'static str, &'static str, String, bool);

#[derive(Default)]
struct ComparedTime {
    time: Both,
    threads: BTreeSet<i32>,
    against_threads: BTreeSet<i32>,
}

/// The executions of a document beside those of another one: of each name that both have, in the order in which the
/// first one has them.
pub fn beside(document: &PathsDocument, against: &PathsDocument) -> Vec<Beside> {
    let mut names: Vec<&str> = Vec::new();
    for traced in &document.executions {
        if !names.contains(&traced.name.as_str()) {
            names.push(&traced.name);
        }
    }
    let both = |name| Some((of(document, name)?, of(against, name)?));
    let count = |document: &PathsDocument, name: &str| {
        document.executions.iter().filter(|traced| traced.name == name).count()
    };
    let one = |name| {
        let (these, those) = both(name)?;
        let left_out =
            |document, shown: &[_]| count(document, name).saturating_sub(shown.len()) as u64;
        Some(Beside {
            left_out: left_out(document, &these),
            against_left_out: left_out(against, &those),
            ..summed(name, &these, &those)
        })
    };
    names.into_iter().filter_map(one).collect()
}

/// The executions of a name, if there are any, the [`whole`] ones.
fn of<'d>(document: &'d PathsDocument, name: &str) -> Option<Vec<&'d Traced>> {
    let all = whole(document.executions.iter().filter(|traced| traced.name == name));
    (!all.is_empty()).then_some(all)
}

/// Of several executions that with the span in the middle, and of two such the shorter one.
pub fn median<'d>(document: &'d PathsDocument, name: &str) -> Option<&'d Traced> {
    let mut all = of(document, name)?;
    all.sort_by_key(|traced| (traced.span_ns, traced.from_ns));
    all.get((all.len() - 1) / 2).copied()
}

fn summed(name: &str, these: &[&Traced], those: &[&Traced]) -> Beside {
    let mut found = Beside {
        name: name.to_owned(),
        executions: these.len() as u64,
        against_executions: those.len() as u64,
        ..Beside::default()
    };
    let mut states: BTreeMap<&'static str, Both> = BTreeMap::new();
    let mut whom: BTreeMap<PartyKey, ComparedTime> = BTreeMap::new();
    for (traced, is_against) in
        these.iter().map(|it| (it, false)).chain(those.iter().map(|it| (it, true)))
    {
        found.span.add(is_against, traced.span_ns);
        for part in &traced.path {
            states.entry(part.state).or_default().add(is_against, length(part));
            for culprit in &part.culprits {
                // Each CPU has an idle task with a name of its own.
                let comm = if culprit.cause == IDLE { "" } else { culprit.comm.as_str() };
                let key = (part.state, culprit.cause, comm.to_owned(), culprit.tid > 0);
                let sum = whom.entry(key).or_default();
                sum.time.add(is_against, culprit.ns);
                if culprit.tid > 0 {
                    let threads =
                        if is_against { &mut sum.against_threads } else { &mut sum.threads };
                    threads.insert(culprit.tid);
                }
            }
        }
    }
    let longest = |time: &Both| {
        let of = |ns: u64, count: u64| ns / count.max(1);
        Reverse(of(time.ns, found.executions).max(of(time.against_ns, found.against_executions)))
    };
    found.states = states.into_iter().map(|(state, time)| OfState { state, time }).collect();
    found.states.sort_by_key(|row| longest(&row.time));
    let row = |((state, cause, comm, _), sum): (PartyKey, ComparedTime)| ForWhom {
        state,
        comm,
        cause,
        threads: sum.threads.len() as u64,
        against_threads: sum.against_threads.len() as u64,
        time: sum.time,
    };
    found.whom = whom.into_iter().map(row).collect();
    found.whom.sort_by_key(|row| longest(&row.time));
    found
}

fn length(part: &Segment) -> u64 {
    part.to_ns.saturating_sub(part.from_ns)
}

#[cfg(test)]
mod tests {
    use noise_trace::delays::document::Culprit;
    use proptest::prelude::*;

    use super::*;
    use crate::made;

    fn culprit(tid: i32, comm: &str, cause: &'static str, ns: u64) -> Culprit {
        Culprit { tid, comm: comm.to_owned(), cause, ns }
    }

    fn part(state: &'static str, from_ns: u64, culprits: Vec<Culprit>) -> Segment {
        let ns: u64 = culprits.iter().map(|culprit| culprit.ns).sum();
        let to_ns = from_ns + if culprits.is_empty() { 10 } else { ns };
        Segment { culprits, ..made::segment((7, "job"), state, (from_ns, to_ns)) }
    }

    fn traced(name: &str, path: Vec<Segment>) -> Traced {
        made::traced(name, (7, "job"), path)
    }

    fn document(executions: Vec<Traced>) -> PathsDocument {
        PathsDocument { executions, ..PathsDocument::default() }
    }

    #[test]
    fn threads_of_one_name_are_one_row() {
        let quiet = traced("mark:job", vec![part("running", 0, Vec::new())]);
        let waits = vec![culprit(20, "burn", "thread", 5), culprit(21, "burn", "thread", 6)];
        let more = vec![culprit(21, "burn", "thread", 2), culprit(0, "swapper/1", "idle", 1)];
        let path = vec![
            part("running", 100, Vec::new()),
            part("waiting_cpu", 110, waits),
            part("waiting_cpu", 121, more),
        ];
        let found = beside(
            &document(vec![
                traced("mark:job", path),
                traced("mark:x", vec![part("disk", 0, Vec::new())]),
            ]),
            &document(vec![quiet.clone(), quiet]),
        );
        // A name that only one of them has is not shown.
        let [found] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((found.executions, found.against_executions), (1, 2));
        assert_eq!(found.span, Both { ns: 24, against_ns: 20 });
        let time = |state: &str| found.states.iter().find(|row| row.state == state).unwrap().time;
        assert_eq!(time("waiting_cpu"), Both { ns: 14, against_ns: 0 });
        assert_eq!(time("running"), Both { ns: 10, against_ns: 20 });
        assert_eq!(found.states[0].state, "waiting_cpu");
        let burn = &found.whom[0];
        assert_eq!((burn.comm.as_str(), burn.threads, burn.against_threads), ("burn", 2, 0));
        assert_eq!(burn.time, Both { ns: 13, against_ns: 0 });
        assert_eq!((found.whom[1].cause, found.whom[1].threads), ("idle", 0));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        let one =
            |ns: u64| Traced { span_ns: ns, ..traced("job", vec![part("disk", 0, Vec::new())]) };
        let of = |spans: &[u64]| {
            let document = document(spans.iter().copied().map(one).collect());
            median(&document, "job").map(|traced| traced.span_ns)
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[9, 1]), Some(1));
        assert_eq!(of(&[9, 1, 100]), Some(9));
        // A cut one says nothing where there are whole ones.
        let cut = Traced { has_end: false, ..one(1) };
        let median = |executions| median(&document(executions), "job").map(|it| it.span_ns);
        assert_eq!(median(vec![one(9), cut.clone(), one(12)]), Some(9));
        assert_eq!(median(vec![cut]), Some(1));
    }

    proptest! {
        #[test]
        fn states_sum_to_spans_and_whom_to_states(
            lengths in prop::collection::vec(prop::collection::vec((0usize..3, 1u64..1000, 0i32..4), 1..9), 1..6)
        ) {
            let mut all = Vec::new();
            for parts in &lengths {
                let mut from_ns = 0;
                let path = parts.iter().map(|(state, ns, tid)| {
                    let who = vec![culprit(*tid, "burn", "thread", *ns)];
                    let part = part(["waiting_cpu", "disk", "network"][*state], from_ns, who);
                    from_ns = part.to_ns;
                    part
                });
                all.push(traced("job", path.collect()));
            }
            let those = document(all.split_off(all.len() / 2));
            let these = document(all);
            for found in beside(&these, &those) {
                let of = |document: &PathsDocument| document.executions.iter().map(|it| it.span_ns).sum::<u64>();
                prop_assert_eq!(found.span, Both { ns: of(&these), against_ns: of(&those) });
                let sum = |times: Vec<Both>| times.iter().fold((0, 0), |sum, time| (sum.0 + time.ns, sum.1 + time.against_ns));
                let spans = (found.span.ns, found.span.against_ns);
                prop_assert_eq!(sum(found.states.iter().map(|row| row.time).collect()), spans);
                prop_assert_eq!(sum(found.whom.iter().map(|row| row.time).collect()), spans);
            }
        }
    }
}
