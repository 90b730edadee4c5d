//! Waits for a CPU, by thread. They are no stretches of [`crate::follow`]: one of which events may be missing is in doubt, CPU by
//! CPU, and goes on or begins anew with the next wake-up.

use foldhash::{HashMap, HashSet};
use noise_common::charge::Cause;
use noise_common::ledger::Waiting;

use super::cpu::Cpus;
use super::document::{Charge, Culprit, ThreadDocument, WaitsByStart as WaitsDocument};
use super::sums::{MOST_PARTIES, Party, Spread, Sums};
use super::watch::{Run, RunQueueWait, Watch, charge};
use crate::event::{Comm, Event, Task, TraceKind};
pub use crate::follow::Begin;
use crate::state::{Left, LeftIn};
use crate::threads::MAX_TID;

noise_common::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum WaitReason {
        Wakeup = "wakeup",
        Preempt = "preempt",
    }
}

#[derive(Clone, Copy, Debug)]
struct WaitStart {
    /// While events of some CPU were lost.
    is_unseen: bool,
    /// With an event of that CPU.
    by_cpu: u32,
}

#[derive(Debug)]
struct PendingWait {
    why: WaitReason,
    /// The thread went to sleep while it was being woken, or events were lost: it waits since then, unless woken later.
    is_in_doubt: bool,
    /// [`Cpus::losses`] of the CPU where it waits when it came there: since then, they put it in doubt, too.
    losses: u32,
    began: WaitStart,
    since_ns: u64,
    /// The stretch of it on the CPU where the thread waits now.
    here: Waiting,
    /// What came before that stretch, divided; `None` where the thread was not moved.
    before: Option<Box<WaitParts>>,
}

/// Waits, divided among what ran on the CPUs that the thread waited on.
#[derive(Debug, Default)]
struct WaitParts {
    /// Among threads, with the interrupts in their turns.
    following: Sums,
    /// As live: what interrupts took apart.
    charges: Sums,
}

#[derive(Debug, Default)]
struct ThreadAccounting {
    comm: Comm,
    /// Since when it runs, and where.
    runs_since_ns: Option<u64>,
    cpu: u32,
    run_ns: u64,
    open: Option<PendingWait>,
    wakeup: Spread,
    preempt: Spread,
    culprits: Sums,
    parts: WaitParts,
}

/// Waits that begin at one time and are known to: no machine begins as many.
const MAX_NEWEST: usize = 1024;

/// How much room there is for parties in the sums of all threads.
#[derive(Debug, Default)]
struct PartyCapacity {
    /// At most as many are there.
    parties: usize,
    is_full: bool,
}

#[derive(Debug, Default)]
pub struct Waits {
    threads: HashMap<i32, ThreadAccounting>,
    room: PartyCapacity,
    begin: Begin,
    /// Events of some CPU are lost at the moment.
    is_unseen: bool,
    /// Threads some of whose waits began while that was so.
    unseen: HashSet<i32>,
    /// Threads some of whose waits began at that time, the first [`MAX_NEWEST`].
    newest: Vec<i32>,
    newest_ns: u64,
    /// The parts of the latest wait, where a [`Watch`] wants each: their memory is used again.
    latest: (Sums, WaitParts),
}

impl Waits {
    /// Those that begin with that event.
    pub fn new(begin: Begin) -> Self {
        Self { begin, ..Self::default() }
    }

    /// Takes the next event, with whether events of all CPUs are there again, and whether they are there.
    pub fn follow<W: Watch>(
        &mut self,
        event: &Event<'_>,
        (is_seen_again, is_whole): (bool, bool),
        cpus: &mut Cpus,
        watch: &mut W,
    ) {
        let now_ns = event.time_ns;
        self.is_unseen = !is_whole;
        if is_seen_again {
            self.see(now_ns, cpus);
        }
        match &event.kind {
            TraceKind::SchedSwitch { prev, prev_state, next } => {
                let unseen = cpus.known(event.cpu).and_then(|cpu| cpu.runs.unseen(prev.tid));
                if let Some(tid) = unseen {
                    self.lose(tid, event.cpu);
                }
                self.leave(prev, *prev_state, event.cpu, now_ns, cpus, watch);
                // It ends before the turn of the one that waited begins.
                self.run(next, event.cpu, now_ns, cpus, watch);
                cpus.begin_turn(event.cpu, next, now_ns);
            }
            TraceKind::SchedWaking(_) if self.begin == Begin::Wakeup => {}
            TraceKind::SchedWaking(woken) | TraceKind::SchedWakeup(woken)
                if woken.task.tid != 0 =>
            {
                let (tid, cpu) = (woken.task.tid, woken.target_cpu);
                let began = self.began_by(tid, event.cpu, now_ns);
                let Some(thread) = self.thread(&woken.task) else { return };
                // One that still runs is dealt with at the next switch away from it.
                if thread.open.as_ref().is_none_or(|open| open.is_in_doubt(cpus)) {
                    thread.open = Some(open(WaitReason::Wakeup, tid, cpu, began, now_ns, cpus));
                }
            }
            // A new thread has not waited yet: what is known is of another one, whose end was not seen.
            TraceKind::SchedWakeupNew(woken) if woken.task.tid != 0 => {
                let (tid, cpu) = (woken.task.tid, woken.target_cpu);
                let began = self.began_by(tid, event.cpu, now_ns);
                let Some(thread) = self.thread(&woken.task) else { return };
                thread.runs_since_ns = None;
                thread.open = Some(open(WaitReason::Wakeup, tid, cpu, began, now_ns, cpus));
            }
            TraceKind::SchedMigrateTask { task, dest_cpu, .. } => {
                let is_full = self.room.is_full;
                let Some(thread) = self.thread(task) else { return };
                let Some(open) = &mut thread.open else { return };
                let before = open.parties();
                open.end_stretch(now_ns, cpus, is_full);
                open.is_in_doubt = open.is_in_doubt(cpus);
                open.here = stretch(task.tid, *dest_cpu, now_ns, cpus);
                open.losses = cpus.losses(*dest_cpu);
                let more = open.parties() - before;
                self.take_room(more);
            }
            TraceKind::SchedProcessExec { tid, old_tid, .. } if *old_tid > 0 && old_tid != tid => {
                self.rename(*old_tid, *tid, event.cpu, now_ns, watch);
                cpus.rename(event.cpu, *old_tid, *tid, now_ns);
            }
            TraceKind::Throttled { task, throttled_ns } => {
                let open = self.thread(task).and_then(|thread| thread.open.as_mut());
                if let Some(open) = open {
                    open.here.throttled_ns = *throttled_ns;
                }
            }
            TraceKind::Lost(_) => {
                if let Some(tid) = cpus.miss(event.cpu, now_ns) {
                    self.lose(tid, event.cpu);
                }
                if self.is_unseen {
                    self.lose_sight(event.cpu, now_ns);
                }
            }
            _ => {}
        }
    }

    /// A thread has ended, and what it waited is not asked for.
    pub fn forget(&mut self, tid: i32) {
        self.threads.remove(&tid);
        self.unseen.remove(&tid);
    }

    /// Forgets what was counted.
    pub fn begin(&mut self, from_ns: u64) {
        for thread in self.threads.values_mut() {
            let before = std::mem::take(thread);
            thread.comm = before.comm;
            thread.open = before.open;
            thread.runs_since_ns = before.runs_since_ns.map(|since_ns| since_ns.max(from_ns));
            thread.cpu = before.cpu;
        }
        self.room = PartyCapacity::default();
        self.take_room(self.parties());
    }

    fn parties(&self) -> usize {
        self.threads.values().map(ThreadAccounting::parties).sum()
    }

    /// So many parties more are there. Those of waits that ended are counted out where it matters.
    fn take_room(&mut self, more: usize) {
        self.room.parties += more;
        if self.room.parties > MOST_PARTIES && !self.room.is_full {
            let parties = self.parties();
            self.room = PartyCapacity { parties, is_full: parties > MOST_PARTIES / 4 * 3 };
        }
    }

    fn thread(&mut self, task: &Task) -> Option<&mut ThreadAccounting> {
        thread(&mut self.threads, task)
    }

    /// A thread stopped running, and the switch away from it is lost: the length of its run is unknown.
    fn lose(&mut self, tid: i32, cpu: u32) {
        if let Some(thread) = self.threads.get_mut(&tid).filter(|thread| thread.cpu == cpu) {
            thread.runs_since_ns = None;
        }
    }

    /// How a thread's wait begins with an event of that CPU.
    fn began_by(&mut self, tid: i32, by_cpu: u32, now_ns: u64) -> WaitStart {
        if !(0..MAX_TID).contains(&tid) {
            // It has no waits.
        } else if self.is_unseen {
            self.unseen.insert(tid);
        } else {
            self.note_newest(tid, now_ns);
        }
        WaitStart { is_unseen: self.is_unseen, by_cpu }
    }

    fn note_newest(&mut self, tid: i32, now_ns: u64) {
        if self.newest_ns != now_ns {
            self.newest.clear();
            self.newest_ns = now_ns;
        }
        if self.newest.len() < MAX_NEWEST {
            self.newest.push(tid);
        }
    }

    /// Events of a CPU are lost from now on. What other CPUs had at this moment is of that time, too; its own came before.
    fn lose_sight(&mut self, cpu: u32, now_ns: u64) {
        let Self { threads, newest, unseen, .. } = self;
        newest.retain(|tid| {
            let wait = threads.get_mut(tid).and_then(|thread| thread.open.as_mut());
            let Some(wait) = wait.filter(|wait| wait.since_ns >= now_ns) else { return false };
            let is_other = wait.began.by_cpu != cpu;
            if is_other {
                (wait.began.is_unseen, wait.is_in_doubt) = (true, true);
                unseen.insert(*tid);
            }
            !is_other
        });
    }

    /// Events of all CPUs are there again. A thread that waits since a time when they were not may have run and slept
    /// where it was not seen: its wait is known from now on, or begins with the wake-up that comes.
    fn see(&mut self, now_ns: u64, cpus: &Cpus) {
        for tid in std::mem::take(&mut self.unseen) {
            let wait = self.threads.get_mut(&tid).and_then(|thread| thread.open.as_mut());
            if let Some(wait) = wait.filter(|wait| wait.began.is_unseen) {
                let began = WaitStart { is_unseen: false, ..wait.began };
                let seen = open(wait.why, tid, wait.here.cpu, began, now_ns, cpus);
                *wait = PendingWait { is_in_doubt: true, ..seen };
                self.note_newest(tid, now_ns);
            }
        }
    }

    /// A thread stops running.
    fn leave(
        &mut self,
        prev: &Task,
        state: LeftIn,
        cpu: u32,
        now_ns: u64,
        cpus: &Cpus,
        watch: &mut impl Watch,
    ) {
        let (begin, began) = (self.begin, self.began_by(prev.tid, cpu, now_ns));
        let Some(thread) = self.thread(prev) else { return };
        thread.end_run(prev.tid, cpu, now_ns, watch);
        let was_woken = thread.open.take().is_some();
        if prev.tid == 0 {
            return;
        }
        match state.left() {
            Left::Runnable => {
                thread.open = Some(open(WaitReason::Preempt, prev.tid, cpu, began, now_ns, cpus));
            }
            Left::Asleep if was_woken && begin == Begin::Waking => {
                // Its waker may have seen it asleep already, and goes on once it is.
                let in_doubt = open(WaitReason::Wakeup, prev.tid, cpu, began, now_ns, cpus);
                thread.open = Some(PendingWait { is_in_doubt: true, ..in_doubt });
            }
            // It may sleep as well as wait: its wait begins when it is woken.
            Left::Unknown | Left::Asleep => {}
        }
    }

    /// After an exec, a thread has the id of its process's first thread. What it ran before is that of the other id.
    fn rename(&mut self, old_tid: i32, tid: i32, cpu: u32, now_ns: u64, watch: &mut impl Watch) {
        let Some(old) = self.threads.get_mut(&old_tid) else { return };
        let runs_since_ns = old.end_run(old_tid, cpu, now_ns, watch).then_some(now_ns);
        let (open, comm) = (old.open.take(), old.comm);
        // Losses that come find its wait.
        self.began_by(tid, cpu, now_ns);
        if let Some(thread) = self.thread(&Task { tid, comm, prio: 0 }) {
            (thread.runs_since_ns, thread.cpu, thread.open) = (runs_since_ns, cpu, open);
        }
    }

    fn run<W: Watch>(&mut self, next: &Task, cpu: u32, now_ns: u64, cpus: &Cpus, watch: &mut W) {
        let (is_unseen, is_full) = (self.is_unseen, self.room.is_full);
        let Some(thread) = thread(&mut self.threads, next) else { return };
        let (culprits, parts) = &mut self.latest;
        // Each CPU has an idle task; all have the same id.
        if next.tid != 0 {
            (thread.runs_since_ns, thread.cpu) = (Some(now_ns), cpu);
        }
        let Some(open) = thread.open.take() else { return };
        let ns = now_ns.saturating_sub(open.since_ns);
        // Where a CPU is not seen, the thread may have run there just before, and wait since.
        if is_unseen || (ns == 0 && open.is_in_doubt(cpus)) {
            return;
        }
        match open.why {
            WaitReason::Wakeup => thread.wakeup.add(ns),
            WaitReason::Preempt => thread.preempt.add(ns),
        }
        if is_full {
            thread.close();
        }
        let before = thread.parties();
        if W::EACH {
            culprits.clear();
            parts.clear();
            cpus.divide_whole(cpu, open.since_ns, now_ns, culprits);
            open.divide(now_ns, cpus, parts);
            thread.culprits.add_all(culprits);
            thread.parts.add_all(parts);
            watch.waited(&RunQueueWait {
                tid: next.tid,
                comm: thread.comm,
                signal: open.why.name(),
                cpu,
                from_ns: open.since_ns,
                to_ns: now_ns,
                culprits,
                following: &parts.following,
                charges: &parts.charges,
            });
        } else {
            cpus.divide_whole(cpu, open.since_ns, now_ns, &mut thread.culprits);
            open.divide(now_ns, cpus, &mut thread.parts);
        }
        let more = thread.parties() - before;
        self.take_room(more);
    }

    /// Parts of a wait with the names that threads have by now.
    pub fn culprits(&self, sums: &Sums) -> Vec<Culprit> {
        culprits(sums, &ThreadNames(&self.threads))
    }

    /// Time of all waits that no cause is known for.
    pub fn untracked_ns(&self) -> u64 {
        self.threads
            .values()
            .fold(0, |sum: u64, thread| sum.saturating_add(thread.culprits.untracked_ns()))
    }

    /// Threads that ran or waited, those that waited longest first.
    pub fn documents(&self) -> Vec<ThreadDocument> {
        let all = self.threads.iter().filter(|(_, thread)| thread.is_of_interest());
        let mut all: Vec<_> =
            all.map(|(tid, thread)| thread.document(*tid, &ThreadNames(&self.threads))).collect();
        let waited = |thread: &ThreadDocument| {
            thread.waits.wakeup.sum_ns.saturating_add(thread.waits.preempt.sum_ns)
        };
        all.sort_by_key(|thread| (std::cmp::Reverse(waited(thread)), thread.tid));
        all
    }
}

/// A thread waits on a CPU from then on; how much of that is its quota's is known at its end.
pub(super) fn stretch(tid: i32, cpu: u32, now_ns: u64, cpus: &Cpus) -> Waiting {
    let taken = cpus.taken(cpu, now_ns);
    let pid = tid.cast_unsigned();
    Waiting { pid, cpu, since_ns: now_ns, taken, throttled_ns: 0 }
}

fn open(
    why: WaitReason,
    tid: i32,
    cpu: u32,
    began: WaitStart,
    now_ns: u64,
    cpus: &Cpus,
) -> PendingWait {
    let here = stretch(tid, cpu, now_ns, cpus);
    let (is_in_doubt, losses) = (began.is_unseen, cpus.losses(cpu));
    PendingWait { why, is_in_doubt, losses, began, since_ns: now_ns, here, before: None }
}

fn thread<'a>(
    threads: &'a mut HashMap<i32, ThreadAccounting>,
    task: &Task,
) -> Option<&'a mut ThreadAccounting> {
    if !(0..MAX_TID).contains(&task.tid) {
        return None;
    }
    let thread = threads.entry(task.tid).or_default();
    if task.comm != Comm::default() {
        thread.comm = task.comm;
    }
    Some(thread)
}

impl PendingWait {
    /// Whether the thread may have run meanwhile, and sleep: then its wait begins anew if it is woken.
    fn is_in_doubt(&self, cpus: &Cpus) -> bool {
        self.is_in_doubt || cpus.losses(self.here.cpu) != self.losses
    }

    fn parties(&self) -> usize {
        self.before.as_ref().map_or(0, |before| before.count())
    }

    /// Ends the stretch on the CPU where the thread waits. Without room for another culprit, known ones share it.
    fn end_stretch(&mut self, now_ns: u64, cpus: &Cpus, is_full: bool) {
        let before = self.before.get_or_insert_default();
        if is_full {
            before.close();
        }
        before.divide(&self.here, now_ns, cpus);
    }

    /// Divides the whole of it over the CPUs that the thread waited on.
    fn divide(&self, now_ns: u64, cpus: &Cpus, parts: &mut WaitParts) {
        if let Some(before) = &self.before {
            parts.add_all(before);
        }
        parts.divide(&self.here, now_ns, cpus);
    }
}

impl WaitParts {
    fn count(&self) -> usize {
        self.following.count() + self.charges.count()
    }

    fn close(&mut self) {
        self.following.close();
        self.charges.close();
    }

    fn clear(&mut self) {
        self.following.clear();
        self.charges.clear();
    }

    fn add_all(&mut self, other: &Self) {
        self.following.add_all(&other.following);
        self.charges.add_all(&other.charges);
    }

    /// Adds a stretch on one CPU, which ends now.
    fn divide(&mut self, here: &Waiting, now_ns: u64, cpus: &Cpus) {
        if now_ns > here.since_ns {
            cpus.divide_whole(here.cpu, here.since_ns, now_ns, &mut self.following);
            cpus.divide(here, now_ns, &cpus.taken(here.cpu, now_ns), &mut self.charges);
        }
    }
}

/// The latest names of threads: a thread has one, whatever it was called when it ran.
struct ThreadNames<'a>(&'a HashMap<i32, ThreadAccounting>);

impl ThreadNames<'_> {
    fn of(&self, tid: i32) -> Option<Comm> {
        self.0.get(&tid).map(|thread| thread.comm)
    }
}

/// What a part of a wait is called.
fn named(party: Party, comm: Comm, names: &ThreadNames) -> (i32, String, &'static str) {
    match party {
        Party::Thread { cause: Cause::Idle, tid } => (tid, comm.to_string(), "idle"),
        Party::Thread { tid, .. } => (tid, names.of(tid).unwrap_or(comm).to_string(), "thread"),
        Party::Other { cause, .. } => (-1, String::new(), cause.name()),
    }
}

fn culprits(sums: &Sums, names: &ThreadNames) -> Vec<Culprit> {
    let culprit = |(party, comm, ns)| {
        let (tid, comm, cause) = named(party, comm, names);
        Culprit { tid, comm, cause, ns }
    };
    sums.sorted().into_iter().map(culprit).collect()
}

fn charges(sums: &Sums, names: &ThreadNames) -> Vec<Charge> {
    let charge = |(party, comm, ns)| {
        let (_, comm, _) = named(party, comm, names);
        charge(party, comm, ns)
    };
    sums.sorted().into_iter().map(charge).collect()
}

impl ThreadAccounting {
    fn parties(&self) -> usize {
        let open = self.open.as_ref().map_or(0, PendingWait::parties);
        self.culprits.count() + self.parts.count() + open
    }

    fn close(&mut self) {
        self.culprits.close();
        self.parts.close();
    }

    /// Counts its run, which ends; whether it ran.
    fn end_run(&mut self, tid: i32, cpu: u32, now_ns: u64, watch: &mut impl Watch) -> bool {
        let since_ns = self.runs_since_ns.take();
        let Some(from_ns) = since_ns.filter(|_| tid != 0) else { return false };
        self.run_ns = self.run_ns.saturating_add(now_ns.saturating_sub(from_ns));
        watch.ran(&Run { tid, comm: self.comm, cpu, from_ns, to_ns: now_ns });
        true
    }

    fn is_of_interest(&self) -> bool {
        self.run_ns > 0 || self.wakeup.count > 0 || self.preempt.count > 0
    }

    fn document(&self, tid: i32, names: &ThreadNames) -> ThreadDocument {
        ThreadDocument {
            tid,
            comm: self.comm.to_string(),
            run_ns: self.run_ns,
            waits: WaitsDocument { wakeup: self.wakeup, preempt: self.preempt },
            culprits: culprits(&self.culprits, names),
            culprits_following_migrations: culprits(&self.parts.following, names),
            charges: charges(&self.parts.charges, names),
        }
    }
}
