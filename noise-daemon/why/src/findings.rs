//! What a stretch of events and a daemon's frames say of one victim, as one document.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use noise_common::charge::Cause;
use noise_compare::comparison::Comparison;
use noise_model::pressure::Pressure;
use noise_paths::account::{Accountant, Enders, Interruption, Member};
use noise_paths::blame::Blame;
use noise_paths::build::Waker;
use noise_paths::delayed_ack::DelayedNs;
use noise_paths::document::{Delimiters, PathsDocument, Traced};
use noise_paths::execution::{Finder, Wanted};
use noise_paths::held::Held;
use noise_paths::walk::Walks;
use noise_text::clean::clean;
use noise_trace::analysis::Analysis as _;
use noise_trace::delays::Delays;
use noise_trace::delays::document::Spread;
use noise_trace::follow::Begin;
use noise_trace::record::Source as _;
use noise_trace::states::StatesOfThreads;
use noise_trace::threads::Threads;
use noise_verdict::{Accounts, Advice, Verdict};
use serde::Serialize;

use super::around::{Around, Stops};
use super::awaited::{Silent, Unanswered, unanswered};
use super::beside::{Known, path_of};
use super::counted::Counted;
use super::cpu_time::CpuTime;
use super::culprits::{Blamed, culprits, occupants};
use super::executions::{KeyedExecutions, longest};
use super::journal::is_journal;
use super::locks::Locks;
use super::peers::Peers;
use super::processes::{Process, by_process};
use super::pushed::{Pushed, pushed};
use super::sends::Sends;
use super::stretch::{EventStretch, is_short};
use super::target::Target;
use super::unwoken::{OpenSleep, Unwoken, open_sleeps};
use super::writeback::Writeback;
use super::writers::{self, DiskWrites, MainWriter, WritingThread};

/// Processes of a victim whose sockets are looked at.
const MOST_PROCESSES: usize = 64;
/// Least part of the waits of a cgroup whose settings are looked at.
const LEAST_CULPRIT: f64 = 0.1;

/// Whose a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Own,
    Kernel,
    Other,
}

/// A thread that ended sleeps of the victim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ender {
    pub tid: i32,
    /// Its process; 0 where that is not known.
    pub pid: i32,
    pub comm: String,
    /// The label of its cgroup, where that is known.
    pub cgroup: Option<String>,
    pub whose: Whose,
    /// Whether it sent a packet; else it woke the sleeper.
    pub is_packet: bool,
    /// How long the victim had slept until then, ns.
    pub ns: u64,
}

/// Something that can be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advised {
    /// Where it is set.
    pub setting: &'static str,
    pub effect: &'static str,
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
    pub from_ns: u64,
    pub to_ns: u64,
    /// How long that is.
    pub span_ns: u64,
    /// How long it would be if there were events of all that is asked for.
    pub asked_ns: u64,
    /// Events that were lost meanwhile.
    pub discarded: u64,
    /// What to know of it.
    pub notes: Vec<String>,
    /// Whether it ended before all was looked at.
    pub has_ended: bool,
    /// Time of all threads by state.
    pub totals_ns: BTreeMap<&'static str, u64>,
    /// The same by what it was spent on: sums to the time that the threads were there.
    pub accounts_ns: Accounts,
    /// What held it up, and what to do; `None` until that is judged.
    pub verdict: Option<Verdict>,
    /// Waits for a CPU.
    pub waits: Spread,
    /// Uninterruptible sleeps: part of the sleeps.
    pub uninterruptible: Spread,
    /// What interrupts took while the threads ran: part of their running.
    pub interrupted: Vec<Interruption>,
    /// For whom they waited, the longest first.
    pub culprits: Vec<Blamed>,
    /// Who ran, the victim's threads among them, the longest first.
    #[serde(skip)]
    pub occupants: Vec<Blamed>,
    /// The threads, those that waited longest for a CPU first.
    pub threads: Vec<Member>,
    /// The same by process, of the root cgroup; else empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Process>,
    /// What the daemon knows beside the events.
    #[serde(flatten)]
    pub around: Around,
    /// Pressure of its cgroup; `None` where it has none.
    pub pressure: Option<Pressure>,
    /// What can be done.
    pub remedies: Vec<Advised>,
    /// The critical paths of the longest waits, or of the executions that are asked for.
    pub executions: Vec<Traced>,
    /// Executions that are asked for and left out, because there are too many, or they are too long.
    pub left_out: u64,
    /// Of executions between two delimiters: those of the delimiters that make none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delimiters: Vec<Delimiters>,
    /// The same held against executions of a recording that was kept as normal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Comparison>,
    /// Whether executions are asked for.
    #[serde(skip)]
    pub is_asked: bool,
    /// Who ended its sleeps.
    #[serde(skip)]
    pub enders: Vec<Ender>,
    /// How long the kernel held its threads back until a timer, ns, by the thread: see
    /// [`noise_paths::account::Enders::held_back`].
    #[serde(skip)]
    pub held_back: BTreeMap<i32, u64>,
    /// How long its threads slept uninterruptibly until threads of the kernel woke them that write no journal, ns.
    #[serde(skip)]
    pub until_kernel: BTreeMap<i32, u64>,
    /// Which of these were seen in writeback when the page was made; empty before that look.
    #[serde(skip)]
    pub writeback: Writeback,
    /// The writer of more than half of what was written to disks; `None` if there is none, or if events do not show it.
    #[serde(skip)]
    pub main_writer: Option<MainWriter>,
    /// How long threads have slept uninterruptibly that nothing has woken yet, ns.
    #[serde(skip)]
    pub unwoken_in_kernel: BTreeMap<i32, u64>,
    /// Locks of the kernel that its threads waited for and other threads of their process held.
    #[serde(skip)]
    pub kernel_locks: Locks,
    /// Threads of others that slept uninterruptibly, those first that did so longest: they may be behind writeback.
    #[serde(skip)]
    pub also_uninterruptible: Vec<WritingThread>,
    /// What of its sleeps was waiting for packets that were held back until a late acknowledgement.
    #[serde(skip)]
    pub delayed: DelayedNs,
    /// What those sleeps were spent on that threads of its own ended, by the sleeper.
    #[serde(skip)]
    pub held: BTreeMap<i32, Held>,
    /// What of that was waiting for locks; empty until it is looked for.
    #[serde(skip)]
    pub locks: Locks,
    /// Which processes ask the victim for answers, and which it asks; empty until its connections are looked at.
    #[serde(skip)]
    pub peers: Peers,
    /// How long its threads slept behind a packet that they sent, and no answer came.
    #[serde(skip)]
    pub unanswered: BTreeMap<i32, Unanswered>,
    /// Servers that they waited for then; empty until it is looked where they sleep.
    #[serde(skip)]
    pub silent: Vec<Silent>,
    /// How long they slept until packets came that they had not asked for.
    #[serde(skip)]
    pub pushed: Pushed,
    /// Their sleeps that nothing has ended yet.
    #[serde(skip)]
    pub open: BTreeMap<i32, OpenSleep>,
    /// What they do at the moment; empty until it is looked.
    #[serde(skip)]
    pub unwoken: Unwoken,
    /// How much of the time each CPU was idle.
    #[serde(skip)]
    pub idle: Vec<(u32, f64)>,
}

/// Goes over a stretch: once for the account and the graph, once for who had the CPUs.
/// Errors: where an execution that is asked for did not run.
pub fn find_out(
    stretch: &EventStretch,
    target: &Target,
    wanted: &[(String, Wanted)],
    known: &Known<'_>,
) -> anyhow::Result<Findings> {
    let (from_ns, to_ns) = (stretch.from_ns, stretch.to_ns);
    let select = target.select.clone();
    let mut accountant = Accountant::new(select, Waker::Waking, from_ns, to_ns);
    let finder = |wanted| Some(Finder::new(wanted, 0)?.within(from_ns, to_ns));
    let mut finders: Vec<Option<Finder>> =
        wanted.iter().map(|(_, wanted)| finder(wanted)).collect();
    let mut times = CpuTime::new(from_ns, to_ns);
    let mut sends = Sends::default();
    let mut writes = DiskWrites::default();
    let mut states = StatesOfThreads::new(Begin::Waking);
    let mut is_before = true;
    let mut reader = stretch.reader();
    while let Some(record) = reader.read() {
        let event = record.event();
        if event.time_ns > to_ns {
            break;
        }
        times.follow(&event);
        accountant.follow(&event);
        sends.follow(&event, |tid| accountant.wants(tid));
        writes.follow(&event);
        if is_before && event.time_ns >= from_ns {
            is_before = false;
            states.begin(from_ns);
        }
        states.follow(&event);
        for finder in finders.iter_mut().flatten() {
            finder.follow(&record, &event, accountant.builder());
        }
    }
    let graph = accountant.builder().graph();
    let mut sought = Vec::new();
    for ((name, wanted), finder) in wanted.iter().zip(finders) {
        let asked = (name.as_str(), wanted);
        sought.push(KeyedExecutions::find(asked, finder, graph, (from_ns, to_ns), known.runs)?);
    }
    let workers = sought.iter().flat_map(|sought| &sought.executions);
    let workers: Vec<_> = workers.map(|(execution, _)| execution.worker).collect();
    let mut account = accountant.finish(&workers, known.runs);
    let paths: Vec<Traced> = match wanted.is_empty() {
        true => longest(&account),
        false => {
            let mut walks = Walks::default();
            sought.iter_mut().flat_map(|sought| sought.paths(&account.graph, &mut walks)).collect()
        }
    };
    let mut waits = std::mem::take(&mut account.waits);
    let is_journal = |tid| {
        let thread = account.threads.get(tid).filter(|_| known.kernel.contains(&tid));
        thread.is_some_and(|thread| is_journal(&thread.comm.to_string()))
    };
    waits.extend(account.disk_waits_of(is_journal));
    let count = waits.len();
    let mut document = PathsDocument { executions: waits, ..PathsDocument::default() };
    document.executions.extend(paths);
    blame(stretch, &mut document);
    let paths = document.executions.split_off(count);
    let is_own = |tid| account.is_member(tid);
    // Where one thread is looked at, it is not seen what the others of its process send.
    let pushed = match target.select.thread {
        Some(_) => Pushed::default(),
        None => pushed(&account.graph, &sends, is_own, (from_ns, to_ns)),
    };
    let culprits = culprits(&document.executions, &is_own, &account.threads, known);
    let occupants = occupants(&times.by_thread(), &is_own, &account.threads, known);
    let enders = enders(&account.enders, &is_own, &account.threads, known);
    let other = |tid| other(tid, &is_own, &account.threads, known);
    let main_writer = writes.main(other);
    let also_uninterruptible = writers::longest(states.finish(|_| true, None), other);
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
        asked_ns: stretch.asked_ns,
        discarded: account.discarded,
        notes: stretch.notes.clone(),
        has_ended: false,
        totals_ns: account.totals_ns(),
        accounts_ns: Accounts::default(),
        verdict: None,
        enders,
        held_back: std::mem::take(&mut account.enders.held_back),
        until_kernel: until_kernel(&account.enders, known, &is_journal),
        writeback: Writeback::default(),
        main_writer,
        unwoken_in_kernel: std::mem::take(&mut account.enders.unwoken),
        kernel_locks: Locks::in_kernel(&account.held_in_kernel),
        also_uninterruptible,
        delayed: std::mem::take(&mut account.enders.delayed),
        held: std::mem::take(&mut account.held),
        locks: Locks::default(),
        peers: Peers::default(),
        unanswered: unanswered(&account.enders.alone, |tid, ns| sends.are_before(tid, ns)),
        silent: Vec::new(),
        pushed,
        open: open_sleeps(&account.enders.alone, &account.members),
        unwoken: Unwoken::default(),
        waits: account.spread(|member| &member.waits),
        uninterruptible: account.spread(|member| &member.uninterruptible),
        interrupted: account.interrupted,
        culprits,
        occupants,
        processes: match target.is_root() {
            true => by_process(&account.members, known.kernel),
            false => Vec::new(),
        },
        threads: account.members,
        around: Around::default(),
        pressure: None,
        remedies: Vec::new(),
        executions: paths,
        left_out: sought.iter().map(|sought| sought.left_out).sum(),
        delimiters: sought.into_iter().filter_map(|sought| sought.delimiters).collect(),
        against: None,
        is_asked: !wanted.is_empty(),
        idle: times.idle(),
    })
}

/// Who had what was waited for: the events once more, up to the last of these waits.
pub fn blame(stretch: &EventStretch, document: &mut PathsDocument) {
    let mut blame = Blame::new(document, Delays::of_turns());
    let mut reader = stretch.reader();
    while let Some(record) = reader.read() {
        if blame.is_over() {
            break;
        }
        blame.follow(&record.event(), document);
    }
    blame.finish(document);
}

/// Uninterruptible sleeps of each thread that threads of the kernel ended, without those of a journal, ns.
fn until_kernel(
    found: &Enders,
    known: &Known<'_>,
    is_journal: &dyn Fn(i32) -> bool,
) -> BTreeMap<i32, u64> {
    let mut sums: BTreeMap<i32, u64> = BTreeMap::new();
    for ((tid, ender), ns) in &found.uninterruptible {
        if known.kernel.contains(ender) && !is_journal(*ender) {
            let sum = sums.entry(*tid).or_default();
            *sum = sum.saturating_add(*ns);
        }
    }
    sums
}

/// A thread that is neither the victim's nor the kernel's.
fn other(
    tid: i32,
    is_own: &dyn Fn(i32) -> bool,
    threads: &Threads,
    known: &Known<'_>,
) -> Option<WritingThread> {
    let thread = threads.get(tid).filter(|_| !is_own(tid) && !known.kernel.contains(&tid))?;
    let cgroup = path_of(known, threads, tid).filter(|path| path.parent().is_some());
    let cgroup = cgroup.map(|path| clean(&(known.label)(&path)).into_owned());
    Some(WritingThread { tid, pid: thread.pid, comm: thread.comm.to_string(), cgroup })
}

/// Who ended sleeps, with names.
fn enders(
    found: &Enders,
    is_own: &dyn Fn(i32) -> bool,
    threads: &Threads,
    known: &Known<'_>,
) -> Vec<Ender> {
    let label = |path: PathBuf| clean(&(known.label)(&path)).into_owned();
    let wakers = found.wakers.iter().map(|(tid, ns)| (false, *tid, *ns));
    let senders = found.senders.iter().map(|(tid, ns)| (true, *tid, *ns));
    let ender = |(is_packet, tid, ns)| Ender {
        tid,
        pid: threads.get(tid).map_or(0, |thread| thread.pid),
        comm: threads.get(tid).map_or_else(String::new, |thread| thread.comm.to_string()),
        cgroup: path_of(known, threads, tid).map(label),
        whose: match tid {
            tid if is_own(tid) => Whose::Own,
            tid if known.kernel.contains(&tid) => Whose::Kernel,
            _ => Whose::Other,
        },
        is_packet,
        ns,
    };
    wakers.chain(senders).map(ender).collect()
}

impl Findings {
    /// Whether there are events of a small part of the asked time alone.
    pub const fn is_short(&self) -> bool {
        is_short(self.span_ns, self.asked_ns)
    }

    /// What the daemon counted, where that is what figures are of: there are events of a small part of the time alone, and
    /// what is counted is the victim's. Of one process of a cgroup nothing is counted.
    pub fn counted(&self) -> Option<&Counted> {
        let is_whole = self.target.pid.is_none();
        self.around.counted.as_ref().filter(|_| self.is_short() && is_whole)
    }

    /// Its processes whose files are looked at.
    pub fn processes(&self) -> BTreeSet<i32> {
        let all: BTreeSet<i32> = self.threads.iter().map(|thread| thread.pid).collect();
        all.into_iter().filter(|pid| *pid > 0).take(MOST_PROCESSES).collect()
    }

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
        let ns = match by_events_ns {
            0 if self.around.is_quota_untold => self.throttled_by_files_ns(),
            0 => self.stopped_ns(|stopped| stopped.quota_ns.unwrap_or(0)),
            by_events_ns => by_events_ns,
        };
        ns.min(self.waits.sum_ns)
    }

    /// For how long a quota stopped its cgroup by the files of that, ns, scaled to this time. Threads on different CPUs are added up
    /// there, as in waits.
    fn throttled_by_files_ns(&self) -> u64 {
        let pressure = self.pressure.as_ref();
        let throttled_ms = pressure.and_then(|one| one.quota.as_ref()?.throttled_ms);
        let of = throttled_ms.zip(pressure.and_then(|one| one.span_ns));
        of.map_or(0, |(ms, span_ns)| {
            (ms * 1e6 * self.span_ns as f64 / span_ns.max(self.span_ns).max(1) as f64) as u64
        })
    }

    /// What the hypervisor took, ns: no event says it.
    pub fn stolen_ns(&self) -> u64 {
        self.stopped_ns(|stopped| stopped.hypervisor_ns)
    }

    /// What stopped it by the daemon's count, scaled to this time. It counts whole cgroups, not their processes.
    fn stopped_ns(&self, of: impl Fn(&Stops) -> u64) -> u64 {
        let stopped = self.around.stopped.filter(|_| self.target.pid.is_none());
        stopped.map_or(0, |stopped| {
            let part = self.span_ns as f64 / stopped.span_ns.max(self.span_ns).max(1) as f64;
            (of(&stopped) as f64 * part) as u64
        })
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
}
