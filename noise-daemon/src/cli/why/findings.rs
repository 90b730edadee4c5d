//! What a stretch of events and a daemon's frames say of one victim, as one document.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use noise_analysis::{Advice, Culprit as Accused, Remedy, Time, Watched, advise, recommended};
use noise_common::charge::{CHARGE_CAUSES, Cause};
use noise_common::signals::Signal;
use noise_compare::comparison::Comparison;
use noise_model::clean::{as_text, clean};
use noise_model::pressure::Pressure;
use noise_model::setup::Setup;
use noise_paths::account::{Account, Accountant, Interruption, Member, Pause};
use noise_paths::blame::Blame;
use noise_paths::build::Waker;
use noise_paths::document::{Document, Segment, Traced, traced};
use noise_paths::execution::{Execution, Finder, Wanted, find};
use noise_paths::graph::{Graph, Who};
use noise_paths::walk::{Bounds, walk};
use noise_trace::delays::document::Culprit;
use noise_trace::delays::document::Spread;
use noise_trace::delays::{Begin, Delays};
use noise_trace::threads::Threads;
use serde::Serialize;

use super::around::Around;
use super::idle::Idle;
use super::stretch::Stretch;
use super::target::Target;

/// Waits whose paths are shown where no execution is named.
const LONGEST: usize = 3;
/// The longest waits, among which these are looked for.
const LOOKED_AT: usize = 32;
/// Executions whose paths are looked for, and culprits that are kept.
const MOST_EXECUTIONS: usize = 1000;
const MOST_CULPRITS: usize = 1000;
/// Least part of the time that is worth a remedy.
const LEAST_PART: f64 = 0.01;
/// Least part of the waits of a cgroup whose settings are looked at.
const LEAST_CULPRIT: f64 = 0.1;

/// Who had what the victim waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blamed {
    /// What the victim did meanwhile: `waiting_cpu`, `disk` …
    pub state: &'static str,
    /// The thread, where it was one; 0 of an idle task, -1 of something else.
    pub tid: i32,
    /// Its name.
    pub comm: String,
    /// The label of its cgroup, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// In the words of `noised_interference_seconds_total`.
    pub cause: &'static str,
    /// For how long.
    pub ns: u64,
    /// The path of its cgroup.
    #[serde(skip)]
    pub path: Option<PathBuf>,
}

/// Something that can be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advised {
    /// Where it is set.
    pub setting: &'static str,
    /// What it does.
    pub effect: &'static str,
    /// What it costs.
    pub cost: &'static str,
    /// How the host is set up now, and commands that do it.
    #[serde(flatten)]
    pub advice: Advice,
}

/// Whom it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Victim {
    /// `process`, `thread`, `service`, `container`, `pod` or `cgroup`.
    pub kind: &'static str,
    /// Its name, as labels have it.
    pub name: String,
    /// Its id, where it is a process or thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The path of its cgroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
}

/// All that is said. Times are nanoseconds since 1970, as recordings have them.
#[derive(Debug, Serialize)]
pub struct Findings {
    /// Whom it is about.
    pub target: Victim,
    /// Where events come from: `flight_recorder`, or `programs` of this process.
    pub source: &'static str,
    /// By how much they are ahead of CLOCK_MONOTONIC.
    pub clock_offset_ns: u64,
    /// From then on.
    pub from_ns: u64,
    /// Until then.
    pub to_ns: u64,
    /// How long that is.
    pub span_ns: u64,
    /// Events that were lost meanwhile.
    pub discarded: u64,
    /// What to know of it.
    pub notes: Vec<String>,
    /// Time of all threads by state.
    pub totals_ns: BTreeMap<&'static str, u64>,
    /// Waits for a CPU.
    pub waits: Spread,
    /// Uninterruptible sleeps: part of the sleeps.
    pub uninterruptible: Spread,
    /// What interrupts took while the threads ran: part of their running.
    pub interrupted: Vec<Interruption>,
    /// For whom they waited, the longest first.
    pub culprits: Vec<Blamed>,
    /// The threads, those that waited longest for a CPU first.
    pub threads: Vec<Member>,
    /// What the daemon knows beside the events.
    #[serde(flatten)]
    pub around: Around,
    /// Pressure of its cgroup; `None` where it has none.
    pub pressure: Option<Pressure>,
    /// What can be done.
    pub remedies: Vec<Advised>,
    /// The critical paths of the longest waits, or of the executions that are asked for.
    pub executions: Vec<Traced>,
    /// The same held against executions of a recording that was kept as normal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Comparison>,
    /// Whether executions are asked for.
    #[serde(skip)]
    pub is_asked: bool,
    /// How much of the time each CPU was idle.
    #[serde(skip)]
    pub idle: Vec<(u32, f64)>,
}

/// What is known of the host beside the events.
pub struct Known<'a> {
    /// Kernel threads.
    pub kernel: &'a BTreeSet<i32>,
    /// Whether a thread runs at the moment.
    pub runs: &'a dyn Fn(i32) -> bool,
    /// The path of the cgroup that a thread is in.
    pub cgroup: &'a dyn Fn(i32) -> Option<&'a [u8]>,
    /// The label of a cgroup's path.
    pub label: &'a dyn Fn(&Path) -> String,
}

/// Goes over a stretch: once for the account and the graph, once for who had the CPUs.
///
/// # Errors
/// Where an execution that is asked for did not run.
pub fn find_out(
    stretch: &Stretch,
    target: &Target,
    wanted: &[(String, Wanted)],
    known: &Known<'_>,
) -> anyhow::Result<Findings> {
    let (from_ns, to_ns) = (stretch.from_ns, stretch.to_ns);
    let select = target.select.clone();
    let mut accountant = Accountant::new(select, Waker::Waking, Begin::Waking, from_ns, to_ns);
    let mut finders: Vec<Option<Finder>> =
        wanted.iter().map(|(_, wanted)| Finder::new(wanted, 0)).collect();
    let mut idle = Idle::new(from_ns, to_ns);
    for record in stretch.reader() {
        let event = record.event();
        if event.time_ns > to_ns {
            break;
        }
        idle.follow(&event);
        accountant.follow(&event);
        for finder in finders.iter_mut().flatten() {
            finder.follow(&record, &event, accountant.builder());
        }
    }
    let graph = accountant.builder().graph();
    let mut sought = Vec::new();
    for ((name, wanted), finder) in wanted.iter().zip(finders) {
        sought.push(Sought::find(name, wanted, finder, graph, (from_ns, to_ns))?);
    }
    let workers = sought.iter().flat_map(|sought| &sought.executions);
    let workers: Vec<_> = workers.map(|(execution, _)| execution.worker).collect();
    let mut account = accountant.finish(&workers, known.runs);
    let paths: Vec<Traced> = match wanted.is_empty() {
        true => longest(&account),
        false => sought.iter().flat_map(|sought| sought.paths(&account)).collect(),
    };
    let waits = std::mem::take(&mut account.waits);
    let count = waits.len();
    let mut document = Document { executions: waits, ..Document::default() };
    document.executions.extend(paths);
    blame(stretch, &mut document);
    let paths = document.executions.split_off(count);
    let is_own = |tid| account.is_member(tid);
    let culprits = culprits(&document.executions, &is_own, &account.threads, known);
    Ok(Findings {
        target: Victim {
            kind: target.kind,
            name: target.name.clone(),
            pid: target.pid,
            cgroup: target.cgroup.clone(),
        },
        source: stretch.source,
        clock_offset_ns: stretch.offset_ns,
        from_ns,
        to_ns,
        span_ns: to_ns.saturating_sub(from_ns),
        discarded: account.discarded,
        notes: stretch.notes.clone(),
        totals_ns: account.totals_ns(),
        waits: account.spread(|member| &member.waits),
        uninterruptible: account.spread(|member| &member.uninterruptible),
        interrupted: account.interrupted,
        culprits,
        threads: account.members,
        around: Around::default(),
        pressure: None,
        remedies: Vec::new(),
        executions: paths,
        against: None,
        is_asked: !wanted.is_empty(),
        idle: idle.parts(),
    })
}

/// Who had what was waited for: the events once more, up to the last of these waits.
pub fn blame(stretch: &Stretch, document: &mut Document) {
    let mut blame = Blame::new(document, Delays::of_turns());
    for record in stretch.reader() {
        if blame.is_over() {
            break;
        }
        blame.follow(&record.event(), document);
    }
    blame.finish(document);
}

/// The paths of the longest times that a thread did not run. One that another's path has already, because that one
/// waited for it, is left out.
fn longest(account: &Account) -> Vec<Traced> {
    let mut paths: Vec<Traced> = Vec::new();
    for pause in account.longest(LOOKED_AT) {
        let Some(traced) = path(account, &pause) else { continue };
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
fn path(account: &Account, pause: &Pause) -> Option<Traced> {
    let (from_ns, to_ns) = (pause.from_ns, pause.to_ns);
    let worker = account.graph.get(pause.worker)?;
    let Who::Thread { tid, .. } = worker.who else { return None };
    let path = walk(&account.graph, pause.worker, from_ns, to_ns, Bounds::default())?;
    let execution =
        Execution { worker: pause.worker, from_ns, to_ns, has_begin: true, has_end: true };
    let name = format!("thread:{tid}@{from_ns}..{to_ns}");
    Some(traced(&account.graph, &name, &execution, &path))
}

/// Executions of one kind, each with the key that marks gave it.
struct Sought<'a> {
    name: &'a str,
    executions: Vec<(Execution, Option<String>)>,
}

impl<'a> Sought<'a> {
    /// Those of threads and processes as far as they lie in a time, and those between two delimiters in it.
    fn find(
        name: &'a str,
        wanted: &Wanted,
        finder: Option<Finder>,
        graph: &Graph,
        (from_ns, to_ns): (u64, u64),
    ) -> anyhow::Result<Self> {
        let lacks = finder.as_ref().and_then(Finder::lacks);
        let mut executions: Vec<(Execution, Option<String>)> = match finder {
            Some(finder) => {
                let found = finder.finish().0.into_iter();
                let inside = found.filter(|found| found.execution.from_ns >= from_ns);
                inside.map(|found| (found.execution, found.key)).collect()
            }
            None => {
                let clipped = |execution: Execution| Execution {
                    from_ns: execution.from_ns.max(from_ns),
                    // What is under way goes on up to the end.
                    to_ns: if execution.has_end { execution.to_ns.min(to_ns) } else { to_ns },
                    ..execution
                };
                let found = find(graph, wanted).into_iter().map(clipped);
                found.filter(|one| one.from_ns < one.to_ns).map(|one| (one, None)).collect()
            }
        };
        executions.truncate(MOST_EXECUTIONS);
        if executions.is_empty() {
            match lacks {
                Some(lacks) => anyhow::bail!("{name}: {lacks}"),
                None => anyhow::bail!(
                    "{name} did not run in this time: look further back with --last, or watch from now on with \
                     --next"
                ),
            }
        }
        Ok(Self { name, executions })
    }

    fn paths(&self, account: &Account) -> Vec<Traced> {
        let path = |(execution, key): &(Execution, Option<String>)| {
            let Execution { worker, from_ns, to_ns, .. } = *execution;
            let path = walk(&account.graph, worker, from_ns, to_ns, Bounds::default())?;
            let traced = traced(&account.graph, self.name, execution, &path);
            Some(Traced { key: key.clone(), ..traced })
        };
        self.executions.iter().filter_map(path).collect()
    }
}

/// Why a culprit was in the way, in the words of the ledger.
fn cause(culprit: &Culprit, is_own: &dyn Fn(i32) -> bool, known: &Known<'_>) -> Cause {
    match culprit.cause {
        "thread" if is_own(culprit.tid) => Cause::Own,
        "thread" if known.kernel.contains(&culprit.tid) => Cause::Kthread,
        "thread" => Cause::Foreign,
        name => {
            let cause = CHARGE_CAUSES.into_iter().find(|cause| cause.name() == name);
            cause.unwrap_or(Cause::Untracked)
        }
    }
}

/// The path of a thread's cgroup: the one that it is in; of one that has ended, the one that it was created in.
fn path_of(known: &Known<'_>, threads: &Threads, tid: i32) -> Option<PathBuf> {
    let path = (known.cgroup)(tid).or_else(|| threads.cgroup(tid))?;
    Some(PathBuf::from(as_text(path).into_owned()))
}

/// All culprits of waits, the longest first. `is_own` says which threads are the victim's.
pub fn culprits<'w>(
    waits: impl IntoIterator<Item = &'w Traced>,
    is_own: &dyn Fn(i32) -> bool,
    threads: &Threads,
    known: &Known<'_>,
) -> Vec<Blamed> {
    let mut sums: BTreeMap<(&'static str, i32, String, Cause), u64> = BTreeMap::new();
    for segment in waits.into_iter().flat_map(|traced| &traced.path) {
        for culprit in &segment.culprits {
            let cause = cause(culprit, is_own, known);
            let key = (segment.state, culprit.tid, culprit.comm.clone(), cause);
            let sum = sums.entry(key).or_default();
            *sum = sum.saturating_add(culprit.ns);
        }
    }
    let blamed = |((state, tid, comm, cause), ns): ((_, i32, String, Cause), u64)| {
        let path = path_of(known, threads, tid).filter(|_| tid > 0);
        let cgroup = path.as_ref().map(|path| clean(&(known.label)(path)).into_owned());
        Blamed { state, tid, comm, cgroup, cause: cause.name(), ns, path }
    };
    let mut culprits: Vec<_> = sums.into_iter().map(blamed).collect();
    culprits.sort_by(|one, other| other.ns.cmp(&one.ns).then(one.tid.cmp(&other.tid)));
    culprits.truncate(MOST_CULPRITS);
    culprits
}

impl Findings {
    /// Time in a state, ns.
    pub fn ns(&self, state: &str) -> u64 {
        self.totals_ns.get(state).copied().unwrap_or(0)
    }

    /// What interrupts took, ns.
    pub fn interrupted_ns(&self) -> u64 {
        self.interrupted.iter().fold(0, |sum, one| sum.saturating_add(one.taken.sum_ns))
    }

    /// What of its waits for a CPU its own quota caused, ns, by the events of waits that ended.
    fn throttled_by_events_ns(&self) -> u64 {
        let of = |culprit: &&Blamed| culprit.cause == Cause::Throttle.name();
        self.culprits.iter().filter(of).fold(0, |sum, culprit| sum.saturating_add(culprit.ns))
    }

    /// What of its waits for a CPU its own quota caused, ns: by events, or where they do not say it, by the daemon, which
    /// counted it in whole windows, so that it is known for about this time.
    pub fn throttled_ns(&self) -> u64 {
        let by_events_ns = self.throttled_by_events_ns();
        if by_events_ns > 0 {
            return by_events_ns.min(self.waits.sum_ns);
        }
        let Some(stopped) = self.around.stopped else { return 0 };
        let part = self.span_ns as f64 / stopped.span_ns.max(self.span_ns).max(1) as f64;
        let ns = stopped.quota_ns.unwrap_or(0) as f64 * part;
        (ns as u64).min(self.waits.sum_ns)
    }

    /// Whether that is so much of its waits that who had the CPUs meanwhile says little: where events say it, they were
    /// not charged for it.
    pub fn is_throttled(&self) -> bool {
        self.throttled_by_events_ns() == 0 && self.throttled_ns() > self.waits.sum_ns / 10
    }

    /// Of the other cgroups that had the CPUs that it waited for, the one that had them longest: its thread that had
    /// them longest. The root cgroup, which has no settings, is none; nor is one with a small part.
    pub fn foreign(&self) -> Option<&Blamed> {
        let waits = self.culprits.iter().filter(|one| one.state == "waiting_cpu");
        let all_ns = waits.clone().fold(0_u64, |sum, one| sum.saturating_add(one.ns));
        let mut cgroups: BTreeMap<&Path, (u64, &Blamed)> = BTreeMap::new();
        for one in waits.filter(|one| one.cause == Cause::Foreign.name()) {
            let Some(path) = one.path.as_deref().filter(|path| path.parent().is_some()) else {
                continue;
            };
            // The longest comes first.
            let sum = cgroups.entry(path).or_insert((0, one));
            sum.0 = sum.0.saturating_add(one.ns);
        }
        let longest = cgroups.into_values().max_by_key(|(ns, _)| *ns)?;
        (longest.0 as f64 >= LEAST_CULPRIT * all_ns as f64).then_some(longest.1)
    }

    /// Finds what helps: against those that it waited for, against interrupts, and what open incidents say; of it what
    /// applies as the host is set up.
    pub fn advise(&mut self, setup: &Setup) {
        let mut remedies: Vec<Remedy> = Vec::new();
        let span_ns = self.span_ns.max(1);
        let throttled = self.throttled_ns();
        if throttled as f64 / span_ns as f64 >= LEAST_PART {
            let accused = accused([(Cause::Throttle.name(), throttled)].into_iter());
            remedies.extend(recommended(Signal::CgroupRunqueueWait.into(), &accused));
        }
        let waited = self.waits.sum_ns.saturating_sub(throttled);
        if waited as f64 / span_ns as f64 >= LEAST_PART {
            let own = self.culprits.iter().filter(|culprit| culprit.state == "waiting_cpu");
            let accused = accused(own.map(|culprit| (culprit.cause, culprit.ns)));
            remedies.extend(recommended(Signal::CgroupRunqueueWait.into(), &accused));
        }
        let running_ns = self.ns("running").max(1);
        if self.interrupted_ns() as f64 / running_ns as f64 >= LEAST_PART {
            let taken = self.interrupted.iter().map(|one| (one.cause, one.taken.sum_ns));
            remedies.extend(recommended(Watched::Interruption, &accused(taken)));
        }
        for report in self.around.incidents.iter().filter(|report| report.open) {
            remedies.extend(report.main.remedies.iter().copied());
        }
        let mut once = Vec::new();
        for remedy in remedies {
            if !once.contains(&remedy) {
                once.push(remedy);
            }
        }
        let advised = |advice: Advice| {
            let words = advice.remedy.advice();
            Advised { setting: words.setting, effect: words.effect, cost: words.cost, advice }
        };
        self.remedies = advise(&once, setup).into_iter().map(advised).collect();
    }
}

/// Culprits by cause, as remedies are found for them.
fn accused<'a>(parts: impl Iterator<Item = (&'a str, u64)>) -> Vec<Accused<&'static str>> {
    let mut sums: BTreeMap<Cause, u64> = BTreeMap::new();
    for (name, ns) in parts {
        if let Some(cause) = CHARGE_CAUSES.into_iter().find(|cause| cause.name() == name) {
            let sum = sums.entry(cause).or_default();
            *sum = sum.saturating_add(ns);
        }
    }
    let all_ns = sums.values().fold(0_u64, |sum, ns| sum.saturating_add(*ns)).max(1);
    let one = |(cause, ns): (Cause, u64)| {
        let time = Time { seconds: ns as f64 / 1e9, share: ns as f64 / all_ns as f64 };
        Accused { culprit: cause.name(), cause, time, beyond: time }
    };
    let mut accused: Vec<_> = sums.into_iter().map(one).collect();
    accused.sort_by(|one, other| other.time.seconds.total_cmp(&one.time.seconds));
    accused
}
