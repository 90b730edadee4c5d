//! What commands print of critical paths, as one document.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use noise_trace::delays::document::Culprit;
use noise_trace::ftrace::UnreadLines;
use noise_trace::reach::Reach;
use noise_trace::summary::UnreadDocument;
use serde::{Serialize, Serializer};

use crate::execution::{DelimiterTally, Execution};
use crate::graph::{Graph, NO_CPU, WorkerId};
use crate::link::{PathThread, ThreadLink, named};
use crate::path::{Awaited, Path, Step, Why};
use crate::state::{Action, STATES, State};
use crate::via::{ViaId, ViaKind};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PathsDocument {
    /// Each with its path.
    pub executions: Vec<Traced>,
    /// Executions whose paths are left out, because all together have more parts than can be held.
    pub left_out: u64,
    /// Events that were lost while the trace was recorded.
    pub discarded: u64,
    /// CPUs that are not known from its begin to its end.
    #[serde(flatten)]
    pub reach: Reach,
    /// Of executions between two delimiters: those of the delimiters that make none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delimiters: Vec<Delimiters>,
    /// Lines of a text that could not be read, where they are more than 1 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread_lines: Option<UnreadLines>,
    /// What of it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<UnreadDocument>,
}

/// Begins and ends that make no execution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Delimiters {
    /// The executions, as they were asked for.
    pub name: String,
    /// How many of each kind.
    #[serde(flatten)]
    pub tally: DelimiterTally,
}

impl Delimiters {
    /// Why there is no execution, and what to do; `lacks` as [`Finder::lacks`](crate::execution::Finder::lacks) says it.
    pub fn nothing(&self, lacks: Option<&str>) -> String {
        let name = &self.name;
        if let Some(lacks) = lacks {
            return format!("{name}: {lacks}");
        }
        let rows = self.tally.rows().into_iter().filter(|(count, _)| *count > 0);
        let counted: Vec<String> = rows.map(|(count, what)| format!("{count} {what}")).collect();
        match counted.is_empty() {
            true => format!(
                "{name}: no execution has its begin and its end in the time that is asked for"
            ),
            false => {
                format!("{name}: no execution has its begin and its end ({})", counted.join("; "))
            }
        }
    }
}

/// An execution and its path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traced {
    /// As it was asked for.
    pub name: String,
    /// The key that its marks have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its thread's process; 0 where the trace does not say.
    #[serde(skip)]
    pub pid: i32,
    pub tid: i32,
    pub comm: String,
    /// From then on, nanoseconds since the epoch of the trace's clock.
    pub from_ns: u64,
    pub to_ns: u64,
    pub span_ns: u64,
    /// Whether the trace has its begin and its end, in the time that is asked for; otherwise it is as long as is known.
    pub has_begin: bool,
    pub has_end: bool,
    /// Sleeps that were not replaced because a bound of depth or work was reached.
    pub cut: u64,
    /// Time by state; sums to the span.
    pub totals_ns: BTreeMap<&'static str, u64>,
    /// How much of `running` was spent in system calls, where that is known of any part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_calls_ns: Option<u64>,
    /// What it was spent on, in order, without a gap.
    pub path: Vec<Segment>,
}

impl Traced {
    /// Whether it took as long as is said. What is asked for of a thread is all that there is of it.
    pub fn is_whole(&self) -> bool {
        (self.has_begin && self.has_end) || self.name.starts_with("thread:")
    }
}

/// What to know of so many executions whose paths are left out: see [`PathsDocument::left_out`].
pub fn not_traced(left_out: u64) -> String {
    format!(
        "{left_out} more executions are left out, evenly from the first to the last: there are too many, or they are too long; \
         ask for a shorter time"
    )
}

/// What to know of so many sleeps that were not replaced: see [`Traced::cut`].
pub fn not_followed(cut: u64) -> String {
    format!(
        "sleeps not followed to their end, because the chain of wakers is too long, or takes too long to follow: {cut}"
    )
}

/// Names of executions of which some are [whole](Traced::is_whole).
pub fn whole_names<'d>(all: impl Iterator<Item = &'d Traced>) -> BTreeSet<String> {
    all.filter(|traced| traced.is_whole()).map(|traced| traced.name.clone()).collect()
}

/// Of executions that are taken together: of each name those that are whole, or all where none is.
pub fn whole<'d>(all: impl Iterator<Item = &'d Traced> + Clone) -> Vec<&'d Traced> {
    let names = whole_names(all.clone());
    all.filter(|traced| traced.is_whole() || !names.contains(&traced.name)).collect()
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// The number of the recording that it is in; documents leave out that of the first one, 0.
    #[serde(skip_serializing_if = "is_first")]
    pub recording: u16,
    /// Whose time it is: a thread, or an idle task or the kernel itself, which have the id 0.
    pub tid: i32,
    pub comm: String,
    /// Where it ran, or got the CPU that it waited for.
    pub cpu: Option<u32>,
    pub state: &'static str,
    /// From then on, nanoseconds since the epoch of the trace's clock.
    pub from_ns: u64,
    pub to_ns: u64,
    /// Why nothing better is known: `no_waker`, `no_history`, `created`, `cut`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
    /// How much of a running part was spent in system calls, nanoseconds; known where the recording has their begins
    /// and ends. See [`calls`](crate::calls).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_calls_ns: Option<u64>,
    /// The thread that handled the interrupt which ended a sleep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// The thread that waits meanwhile for this one, its child, to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<PathThread>,
    /// Who waits meanwhile for this worker, and what links the two; `None` of the time of the execution itself, but of a sleep
    /// until a timer.
    #[serde(serialize_with = "shared")]
    pub via: Option<Arc<ThreadLink>>,
    /// For whom it waits, the longest first. They sum to the segment where there are any: of a wait for a CPU, who had it
    /// meanwhile; at a disk, who was ahead; of a packet, its sender; of a sleep that no signal ends and that no other
    /// segment explains, what ended it. See [`blame`](crate::blame).
    pub culprits: Vec<Culprit>,
}

fn shared<S: Serializer>(via: &Option<Arc<ThreadLink>>, serializer: S) -> Result<S::Ok, S::Error> {
    via.as_deref().serialize(serializer)
}

/// The path of an execution. Neighbours of one worker that are the same are one segment.
pub fn traced(graph: &Graph, name: &str, execution: &Execution, path: &Path) -> Traced {
    let mut totals_ns: BTreeMap<&'static str, u64> =
        STATES.iter().map(|state| (state.name(), 0)).collect();
    for (state, ns) in path.totals() {
        let total = totals_ns.entry(state.name()).or_default();
        *total = total.saturating_add(ns);
    }
    let mut segments: Vec<(WorkerId, Segment)> = Vec::new();
    let mut links = Links::new();
    for step in path.steps.iter().filter(|step| step.ns() > 0) {
        let (id, next) = (step.last(), segment(graph, step, &mut links));
        match segments.last_mut() {
            Some((last_id, last)) if *last_id == id && is_same(last, &next) => {
                last.to_ns = next.to_ns;
                join(&mut last.culprits, next.culprits);
            }
            _ => segments.push((id, next)),
        }
    }
    let (tid, comm) = named(graph, execution.worker);
    let (from_ns, to_ns) = path.span().unwrap_or((execution.from_ns, execution.from_ns));
    Traced {
        name: name.to_owned(),
        key: None,
        pid: graph.get(execution.worker).map_or(0, |worker| worker.pid),
        tid,
        comm,
        from_ns,
        to_ns,
        span_ns: to_ns.saturating_sub(from_ns),
        has_begin: execution.has_begin,
        has_end: execution.has_end,
        cut: path.cut,
        totals_ns,
        in_calls_ns: None,
        path: segments.into_iter().map(|(_, segment)| segment).collect(),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
const fn is_first(recording: &u16) -> bool {
    *recording == 0
}

fn is_same(one: &Segment, other: &Segment) -> bool {
    (one.state, one.cpu, one.why, &one.through, &one.via)
        == (other.state, other.cpu, other.why, &other.through, &other.via)
}

/// Joins parts of two segments that become one.
fn join(culprits: &mut Vec<Culprit>, more: Vec<Culprit>) {
    for culprit in more {
        let known = culprits.iter_mut().find(|known| {
            (known.tid, known.cause, &known.comm) == (culprit.tid, culprit.cause, &culprit.comm)
        });
        match known {
            Some(known) => known.ns = known.ns.saturating_add(culprit.ns),
            None => culprits.push(culprit),
        }
    }
    culprits.sort_by_key(|culprit| std::cmp::Reverse(culprit.ns));
}

/// Names the variables at the futexes that paths have waits for in the first recording: `variable` says which one lies at an
/// address of a process that was there at a time, ns.
pub fn name_variables(
    executions: &mut [Traced],
    mut variable: impl FnMut(i32, u64, u64) -> Option<String>,
) {
    let mut named: HashMap<(i32, String, PathThread), Option<Arc<ThreadLink>>> = HashMap::new();
    let parts = executions.iter_mut().flat_map(|traced| &mut traced.path);
    for part in parts.filter(|part| part.recording == 0) {
        let from_ns = part.from_ns;
        let Some(via) = part.via.as_mut() else { continue };
        let (ViaKind::Futex, Some(pid), Some(address)) = (via.kind, via.process, &via.address)
        else {
            continue;
        };
        let key = (pid, address.clone(), via.waits.clone());
        let other = named.entry(key).or_insert_with(|| {
            let address =
                u64::from_str_radix(via.address.as_ref()?.strip_prefix("0x")?, 16).ok()?;
            let symbol = Some(variable(pid, address, from_ns)?);
            Some(Arc::new(ThreadLink { symbol, ..ThreadLink::clone(via) }))
        });
        if let Some(other) = other {
            *via = Arc::clone(other);
        }
    }
}

/// What links workers to those that wait for them, each once.
type Links = HashMap<(WorkerId, Awaited), Arc<ThreadLink>>;

fn segment(graph: &Graph, step: &Step, links: &mut Links) -> Segment {
    let (tid, comm) = named(graph, step.last());
    let (from_ns, to_ns) = step.span();
    let (cpu, why, through, worker, awaited) = match *step {
        Step::Stay { worker, cpu, state, why, through, awaited, .. } => {
            let why = match (state, why) {
                (State::Created, _) => Some("created"),
                (_, Some(Why::NoWaker)) => Some("no_waker"),
                (_, Some(Why::NoHistory)) => Some("no_history"),
                (_, Some(Why::Cut)) => Some("cut"),
                (_, None) => None,
            };
            (Some(cpu).filter(|cpu| *cpu != NO_CPU), why, through, worker, awaited)
        }
        Step::Go { from, to, action, via, .. } => {
            let awaited = action.map(|action| Awaited { by: to, action, via });
            (None, None, None, from, awaited)
        }
    };
    let through = through.map(|id| named(graph, id).1);
    // A timer belongs to the thread itself: no other thread waits for it.
    let is_timed = step.state() == State::Timer && matches!(step, Step::Stay { .. });
    let of_timer = || {
        let (action, via) = (Action::Times, ViaId::default());
        is_timed.then_some(Awaited { by: worker, action, via })
    };
    let via = awaited.or_else(of_timer).map(|awaited| {
        let link = || Arc::new(ThreadLink::of(graph, worker, &awaited));
        Arc::clone(links.entry((worker, awaited)).or_insert_with(link))
    });
    let of_child = via.as_ref().filter(|via| via.kind == ViaKind::Child);
    let parent = of_child.map(|via| via.waits.clone());
    let culprits = match step {
        Step::Go { from, action: Some(Action::Sends), .. } => {
            let (tid, comm) = named(graph, *from);
            vec![Culprit { tid, comm, cause: "sender", ns: step.ns() }]
        }
        Step::Stay { state: State::Network, .. } => {
            vec![Culprit { tid: -1, comm: String::new(), cause: "untracked", ns: step.ns() }]
        }
        _ => Vec::new(),
    };
    let state = step.state().name();
    let recording = graph.get(step.last()).map_or(0, |worker| worker.who.machine());
    let in_calls_ns = None;
    Segment {
        recording,
        tid,
        comm,
        cpu,
        state,
        from_ns,
        to_ns,
        why,
        in_calls_ns,
        through,
        parent,
        via,
        culprits,
    }
}
