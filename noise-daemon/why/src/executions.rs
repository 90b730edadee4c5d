//! The executions whose paths are shown: those that are asked for, or the longest waits.

use noise_paths::account::{PathAccount, Pause};
use noise_paths::document::{Delimiters, Segment, Traced, traced};
use noise_paths::execution::{Execution, Finder, Wanted, find};
use noise_paths::graph::{Graph, Who};
use noise_paths::walk::Walks;

/// Waits whose paths are shown where no execution is named.
const LONGEST: usize = 3;
/// The longest waits, among which these are looked for.
const LOOKED_AT: usize = 32;
/// Executions whose paths are looked for.
const MOST_EXECUTIONS: usize = 1000;

/// The paths of the longest times that a thread did not run. One that another's path has already, because that one
/// waited for it, is left out.
pub fn longest(account: &PathAccount) -> Vec<Traced> {
    let (mut paths, mut walks) = (Vec::<Traced>::new(), Walks::default());
    for pause in account.longest(LOOKED_AT) {
        let Some(traced) = path(account, &pause, &mut walks) else { continue };
        let on_path = |other: &Traced| {
            let own = other.path.iter().filter(|part| part.tid == traced.tid);
            let both = |part: &Segment| {
                part.to_ns.min(traced.to_ns).saturating_sub(part.from_ns.max(traced.from_ns))
            };
            own.fold(0_u64, |sum, part| sum.saturating_add(both(part)))
        };
        if paths.iter().all(|other| on_path(other) <= traced.span_ns / 2) {
            paths.push(traced);
        }
        if paths.len() == LONGEST {
            break;
        }
    }
    paths
}

/// The path of a time that a thread did not run.
fn path(account: &PathAccount, pause: &Pause, walks: &mut Walks) -> Option<Traced> {
    let (from_ns, to_ns) = (pause.from_ns, pause.to_ns);
    let worker = account.graph.get(pause.worker)?;
    let Who::Thread { tid, .. } = worker.who else { return None };
    let path = walks.walk(&account.graph, pause.worker, from_ns, to_ns)?;
    let execution =
        Execution { worker: pause.worker, from_ns, to_ns, has_begin: true, has_end: true };
    let name = format!("thread:{tid}@{from_ns}..{to_ns}");
    Some(traced(&account.graph, &name, &execution, &path))
}

/// Executions of one kind, each with the key that marks gave it.
#[derive(Debug)]
pub struct KeyedExecutions<'a> {
    name: &'a str,
    pub executions: Vec<(Execution, Option<String>)>,
    /// Those beyond the ones that are looked at.
    pub left_out: u64,
    /// Of those between two delimiters: the delimiters that make none.
    pub delimiters: Option<Delimiters>,
}

impl<'a> KeyedExecutions<'a> {
    /// Those of threads and processes as far as they lie in a time, and those between two delimiters. `runs` says of a
    /// thread without an event whether it runs, or waits for a CPU, now.
    /// Errors: why there is none.
    pub fn find(
        (name, wanted): (&'a str, &Wanted),
        finder: Option<Finder>,
        graph: &Graph,
        (from_ns, to_ns): (u64, u64),
        runs: impl Fn(i32) -> bool,
    ) -> anyhow::Result<Self> {
        let lacks = finder.as_ref().and_then(Finder::lacks);
        let (mut executions, delimiters): (Vec<_>, _) = match finder {
            Some(finder) => {
                let (found, tally) = finder.finish(graph);
                let found = found.into_iter().map(|found| (found.execution, found.key));
                (found.collect(), Some(Delimiters { name: name.to_owned(), tally }))
            }
            None => {
                let clipped = |execution: Execution| Execution {
                    from_ns: execution.from_ns.max(from_ns),
                    // What is under way goes on up to the end.
                    to_ns: if execution.has_end { execution.to_ns.min(to_ns) } else { to_ns },
                    has_begin: execution.has_begin && execution.from_ns >= from_ns,
                    has_end: execution.has_end && execution.to_ns <= to_ns,
                    ..execution
                };
                let found = find(graph, wanted).into_iter().map(clipped);
                let found = found.filter(|one| one.from_ns < one.to_ns).map(|one| (one, None));
                (found.collect(), None)
            }
        };
        match (&delimiters, wanted) {
            _ if !executions.is_empty() => {}
            (Some(delimiters), _) => anyhow::bail!(delimiters.nothing(lacks.as_deref())),
            (None, Wanted::Thread(tid)) if runs(*tid) => {
                anyhow::bail!(
                    "{name} has no event in this time, though it is runnable now: it ran, or waited for a CPU, all \
                     the time"
                )
            }
            (None, _) => anyhow::bail!(
                "{name} did not run in this time: look further back with --last, or watch from now on with --next"
            ),
        }
        let left_out = executions.len().saturating_sub(MOST_EXECUTIONS) as u64;
        executions.truncate(MOST_EXECUTIONS);
        Ok(Self { name, executions, left_out, delimiters })
    }

    /// Their paths; those for which none of the walks is left are left out.
    pub fn paths(&mut self, graph: &Graph, walks: &mut Walks) -> Vec<Traced> {
        let mut paths = Vec::new();
        for (execution, key) in &self.executions {
            if walks.is_spent() {
                self.left_out += 1;
                continue;
            }
            let Execution { worker, from_ns, to_ns, .. } = *execution;
            let Some(path) = walks.walk(graph, worker, from_ns, to_ns) else { continue };
            let traced = traced(graph, self.name, execution, &path);
            paths.push(Traced { key: key.clone(), ..traced });
        }
        paths
    }
}

#[cfg(test)]
mod tests {
    use noise_paths::build::Builder;
    use noise_trace::event::{Event, ProgramMark, TraceKind};
    use noise_trace::fixtures::{MadeEvent, switch};
    use noise_trace::record::Record;

    use super::*;

    /// What is found of marks of thread 7, which runs all the time: each begins or ends.
    fn found<'n>(name: &'n str, marks: &[bool]) -> anyhow::Result<KeyedExecutions<'n>> {
        let wanted: Wanted = name.parse().unwrap();
        let mut finder = Finder::new(&wanted, 0);
        let mut builder = Builder::default();
        builder.follow(&Event { time_ns: 1, cpu: 0, kind: switch(0, 0, 7) });
        for (time_ns, begins) in (2..).zip(marks) {
            let kind = TraceKind::Mark(ProgramMark {
                begins: *begins,
                name: b"q",
                key: b"",
                pid: 7,
                tid: 7,
                uid: 1,
                before_ns: 0,
            });
            let record = Record::new(time_ns, 0, MadeEvent::new("noised_mark", kind));
            let event = record.event();
            builder.follow(&event);
            if let Some(finder) = &mut finder {
                finder.follow(&record, &event, &builder);
            }
        }
        let asked = (name, &wanted);
        KeyedExecutions::find(asked, finder, builder.graph(), (0, 9_000), |tid| tid == 8)
    }

    #[test]
    fn why_there_is_no_execution_is_said() {
        for (name, sentence) in [
            (
                "mark:q",
                "mark:q: no execution has its begin and its end (2 overlapping: begun again before their end)",
            ),
            (
                "thread:8",
                "thread:8 has no event in this time, though it is runnable now: it ran, or waited for a CPU, all the time",
            ),
            (
                "thread:9",
                "thread:9 did not run in this time: look further back with --last, or watch from now on with --next",
            ),
        ] {
            assert_eq!(found(name, &[true, true, false]).unwrap_err().to_string(), sentence);
        }
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let mut marks = [true, false].repeat(MOST_EXECUTIONS + 2);
        marks.push(false);
        let mut found = found("mark:q", &marks).unwrap();
        assert_eq!((found.executions.len(), found.left_out), (MOST_EXECUTIONS, 2));
        assert_eq!(found.delimiters.as_ref().unwrap().tally.unbegun, 1);
        assert_eq!(found.paths(&Graph::default(), &mut Walks::of(0)), []);
        assert_eq!(found.left_out, 2 + MOST_EXECUTIONS as u64);
    }
}
