//! One side of a comparison: executions as they are compared, and the recording and process that each is of.
//!
//! A path as it is read takes a few hundred bytes for each part. What is compared of it takes less than a hundred: its
//! stretches, and for each of these who had it and for whom it waited, with threads as numbers of one table. So a side
//! takes its executions over recording by recording, and the paths of one can go before the next one is read.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use noise_paths::document::{Segment, Traced};
use noise_trace::delays::document::Culprit;
use serde::Serialize;

use crate::stretches::{PathStretch, runs};
use crate::vectors::Vectors;

/// An execution, without its path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Run {
    /// As it was asked for.
    pub name: String,
    /// The key that its marks have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The number of its recording among all that are compared.
    pub recording: usize,
    /// Its process; where the recording does not say, its thread.
    pub pid: i32,
    pub tid: i32,
    pub comm: String,
    /// From then on, nanoseconds since the epoch of the trace's clock.
    pub from_ns: u64,
    pub to_ns: u64,
    pub span_ns: u64,
}

/// Someone, by a number in the side's table, and for how long, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Charge {
    whom: u32,
    ns: u64,
}

/// An execution as it is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Execution {
    pub run: Run,
    pub vectors: Vectors,
    pub stretches: Vec<PathStretch>,
    /// Whether the recording has its begin and its end, or no more was asked for.
    is_whole: bool,
    /// Of each stretch, the longest part with the thread that had it.
    longest: Vec<Charge>,
    /// For whom stretches wait, one after another, and where in that the culprits of each end.
    culprits: Vec<Charge>,
    ends: Vec<u32>,
}

impl Execution {
    /// For whom a stretch waits.
    fn culprits_of(&self, stretch: usize) -> &[Charge] {
        let end = |stretch: usize| self.ends.get(stretch).map_or(0, |end| *end as usize);
        let begin = stretch.checked_sub(1).map_or(0, end);
        self.culprits.get(begin..end(stretch)).unwrap_or_default()
    }
}

/// A thread, or what else has time: its id, name and how it took it.
type Whom = (i32, String, &'static str);

/// Who had a part of an execution, and for whom it waited there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartOwner {
    /// The thread that had the longest piece.
    pub tid: i32,
    pub comm: String,
    /// The longest first.
    pub culprits: Vec<Culprit>,
}

/// Executions of one side.
#[derive(Clone, Debug, Default)]
pub struct Side {
    executions: Vec<Execution>,
    people: Vec<Whom>,
    numbers: HashMap<Whom, u32>,
}

/// What [`Side::keep_whole`] did with the executions of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Incomplete {
    /// How many were left out.
    pub cut_off: usize,
    /// How many are compared as far as they are known.
    pub clipped: usize,
}

impl Side {
    pub fn executions(&self) -> &[Execution] {
        &self.executions
    }

    /// Whether all executions say how much of their running time was in system calls.
    pub fn knows_calls(&self) -> bool {
        self.executions.iter().all(|execution| execution.vectors.calls.is_some())
    }

    /// Takes executions of a recording, by its number among all that are compared.
    pub fn add(&mut self, recording: usize, executions: impl IntoIterator<Item = Traced>) {
        for traced in executions {
            let execution = self.execution(recording, traced);
            self.executions.push(execution);
        }
    }

    fn execution(&mut self, recording: usize, traced: Traced) -> Execution {
        let mut execution = Execution { is_whole: traced.is_whole(), ..Execution::default() };
        for parts in runs(&traced) {
            let Some(stretch) = PathStretch::of(&traced, parts) else { continue };
            let longest = parts.iter().rev().max_by_key(|part| ns_of(part));
            let longest = longest.map(|part| Charge {
                whom: self.number((part.tid, part.comm.clone(), "")),
                ns: ns_of(part),
            });
            execution.longest.push(longest.unwrap_or_default());
            for culprit in parts.iter().flat_map(|part| &part.culprits) {
                let whom = self.number((culprit.tid, culprit.comm.clone(), culprit.cause));
                execution.culprits.push(Charge { whom, ns: culprit.ns });
            }
            execution.ends.push(u32::try_from(execution.culprits.len()).unwrap_or(u32::MAX));
            execution.stretches.push(stretch);
        }
        execution.vectors = Vectors::of(&execution.stretches);
        execution.vectors.note_calls(&traced);
        let Traced { name, key, pid, tid, comm, from_ns, to_ns, span_ns, .. } = traced;
        let pid = if pid > 0 { pid } else { tid };
        execution.run = Run { name, key, recording, pid, tid, comm, from_ns, to_ns, span_ns };
        for large in [&mut execution.longest, &mut execution.culprits] {
            large.shrink_to_fit();
        }
        execution.ends.shrink_to_fit();
        execution.stretches.shrink_to_fit();
        execution
    }

    fn number(&mut self, whom: Whom) -> u32 {
        if let Some(number) = self.numbers.get(&whom) {
            return *number;
        }
        let number = u32::try_from(self.people.len()).unwrap_or(u32::MAX);
        self.people.push(whom.clone());
        self.numbers.insert(whom, number);
        number
    }

    /// Leaves out executions whose begin or end is not known, where the side has whole ones of the same name. What that
    /// is of each recording, by its number.
    pub fn keep_whole(&mut self) -> BTreeMap<usize, Incomplete> {
        let whole = self.executions.iter().filter(|execution| execution.is_whole);
        let names: BTreeSet<String> = whole.map(|execution| execution.run.name.clone()).collect();
        let mut all: BTreeMap<usize, Incomplete> = BTreeMap::new();
        self.executions.retain(|execution| {
            let Execution { run, is_whole, .. } = execution;
            let is_left_out = !is_whole && names.contains(&run.name);
            let of = all.entry(run.recording).or_default();
            of.cut_off += usize::from(is_left_out);
            of.clipped += usize::from(!is_whole && !is_left_out);
            !is_left_out
        });
        all
    }

    /// Keeps so many executions at most: see [`chosen`].
    pub fn keep_chosen(&mut self, most: usize) {
        let all: Vec<usize> = (0..self.executions.len()).collect();
        let chosen: BTreeSet<usize> = chosen(&self.executions, &all, most).into_iter().collect();
        let mut place = 0;
        self.executions.retain(|_| {
            place += 1;
            chosen.contains(&(place - 1))
        });
    }

    /// Who had some stretches of an execution of this side, and for whom these wait.
    pub fn owner_of(
        &self,
        execution: &Execution,
        stretches: impl Iterator<Item = usize> + Clone,
    ) -> PartOwner {
        let named = |whom: u32| self.people.get(whom as usize);
        let mut ns_of: BTreeMap<u32, u64> = BTreeMap::new();
        for charge in stretches.clone().flat_map(|stretch| execution.culprits_of(stretch)) {
            let ns = ns_of.entry(charge.whom).or_default();
            *ns = ns.saturating_add(charge.ns);
        }
        let culprit = |(whom, ns): (&u32, &u64)| {
            let (tid, comm, cause) = named(*whom)?.clone();
            Some(Culprit { tid, comm, cause, ns: *ns })
        };
        let mut culprits: Vec<Culprit> = ns_of.iter().filter_map(culprit).collect();
        culprits.sort_by_key(|culprit| std::cmp::Reverse(culprit.ns));
        let longest = stretches.filter_map(|stretch| execution.longest.get(stretch));
        // Of equals the first.
        let longest = longest.fold(
            Charge::default(),
            |most, next| {
                if next.ns > most.ns { *next } else { most }
            },
        );
        let owner = named(longest.whom).filter(|_| longest.ns > 0).cloned();
        let (tid, comm, _) = owner.unwrap_or_default();
        PartOwner { tid, comm, culprits }
    }
}

const fn ns_of(part: &Segment) -> u64 {
    part.to_ns.saturating_sub(part.from_ns)
}

/// So many of some executions, evenly over those in the order of their spans, so that long and short ones are there as
/// they are among all.
pub fn chosen(executions: &[Execution], among: &[usize], most: usize) -> Vec<usize> {
    let mut all: Vec<usize> = among.to_vec();
    all.sort_by_key(|place| {
        executions.get(*place).map(|one| (one.run.span_ns, one.run.from_ns, *place))
    });
    let (count, most) = (all.len(), most.max(1));
    if count <= most {
        return all;
    }
    (0..most).filter_map(|number| all.get((2 * number + 1) * count / (2 * most)).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{Made, path};

    #[test]
    fn who_has_a_part_and_for_whom_it_waits() {
        let mut side = Side::default();
        side.add(
            3,
            [path(&[
                Made::own("running", 5),
                Made::own("disk", 7).behind("backup"),
                Made::own("disk", 9).behind("other"),
                Made::of("running", 4, 8),
                Made::of("running", 6, 9),
                Made::own("disk", 3).behind("backup"),
            ])],
        );
        let one = &side.executions()[0];
        assert_eq!((one.run.recording, one.run.pid, one.stretches.len()), (3, 7, 4));
        let owner = side.owner_of(one, [1, 3].into_iter());
        assert_eq!((owner.tid, &*owner.comm), (7, "job"));
        let culprits: Vec<_> = owner.culprits.iter().map(|it| (&*it.comm, it.ns)).collect();
        assert_eq!(culprits, [("backup", 10), ("other", 9)]);
        let owner = side.owner_of(one, [2].into_iter());
        assert_eq!((owner.tid, &*owner.comm, owner.culprits.len()), (9, "other-9", 0));
        assert_eq!(side.owner_of(one, [].into_iter()), PartOwner::default());
    }

    #[test]
    fn of_too_many_executions_some_of_all_lengths_are_kept_in_their_order() {
        let spans = |count: u64| {
            let mut side = Side::default();
            side.add(0, (0..count).map(|span_ns| Traced { span_ns, ..Traced::default() }));
            side.keep_chosen(10_000);
            side.executions().iter().map(|one| one.run.span_ns).collect::<Vec<_>>()
        };
        assert!(spans(20_000).into_iter().eq((0..10_000).map(|number| 2 * number + 1)));
        assert!(spans(10_000).into_iter().eq(0..10_000));
    }

    #[test]
    fn whole_executions_of_any_recording_of_the_side_leave_others_out() {
        let whole = path(&[Made::own("running", 5)]);
        let half = |name: &str| Traced { name: name.to_owned(), has_end: false, ..whole.clone() };
        let mut side = Side::default();
        side.add(0, [whole.clone(), half("mark:job")]);
        side.add(1, [half("mark:job"), half("process:x")]);
        let found = side.keep_whole();
        assert_eq!(found[&0], Incomplete { cut_off: 1, clipped: 0 });
        assert_eq!(found[&1], Incomplete { cut_off: 1, clipped: 1 });
        assert_eq!(side.executions().len(), 2);
    }
}
