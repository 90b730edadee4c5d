//! Who ran on a CPU, and how a wait is divided among them.
//!
//! Each CPU remembers its latest turns: which task ran from when on, and how much time interrupts had
//! taken by then. Interrupts are remembered by class (hardirq, softirq) on a scale of their own, the
//! time that the class has taken so far, so that any stretch of that scale can be divided among its
//! sources. A wait is divided exactly: first what interrupts took during it, by class and source,
//! then the rest among the turns that it overlaps, net of interrupts. What is no longer remembered
//! becomes a part of its own. All parts sum to the wait, always.

use crate::charge::{Cause, UNKNOWN};
use crate::nesting::Taken;

/// Turns that each CPU remembers, a power of two.
pub const TURNS: usize = 1024;

/// Changes of the source of interrupts that each CPU remembers for each class, a power of two.
pub const STRETCHES: usize = 256;

/// Length of a task's name in words, the terminating zero included (the kernel's `TASK_COMM_LEN`).
/// Programs move words faster than bytes.
pub const COMM_WORDS: usize = 2;

/// What kind of task had a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Runner {
    Idle,
    /// A task of a cgroup.
    Task,
    Kthread,
}

/// A task's turn on a CPU; it lasts until the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Turn {
    /// Its begin; 0 in an entry that was never used.
    pub start_ns: u64,
    /// What interrupts and the hypervisor had taken from the CPU by then ([`Taken::all_ns`]).
    pub taken_ns: u64,
    pub cgroup: u64,
    /// The task's thread id.
    pub pid: u32,
    /// Number of the [`Runner`].
    pub runner: u32,
    /// The task's name, as it lies in memory.
    pub comm: [u64; COMM_WORDS],
}

/// Time of one class of interrupts that came from one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Stretch {
    /// The source, as the culprit of a charge.
    pub source: u64,
    /// Time that the class had taken at its end; it began where the previous one ended.
    pub until_ns: u64,
}

/// The latest sources of what is added up on one scale: of one class of interrupts on one CPU, or of
/// what a queue served. `N` is a power of two.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Stretches<const N: usize> {
    /// Number of the newest entry, counted on for ever.
    pub newest: u64,
    pub ring: [Stretch; N],
}

impl<const N: usize> Default for Stretches<N> {
    fn default() -> Self {
        Self { newest: 0, ring: [Stretch::default(); N] }
    }
}

impl<const N: usize> Stretches<N> {
    /// Notes that the class, having taken `total_ns` so far, was taken by `source` since the last note.
    #[inline(always)]
    pub fn note(&mut self, source: u64, total_ns: u64) {
        let newest = &mut self.ring[(self.newest % N as u64) as usize];
        if newest.source == source {
            newest.until_ns = total_ns;
            return;
        }
        self.newest += 1;
        self.ring[(self.newest % N as u64) as usize] = Stretch { source, until_ns: total_ns };
    }

    /// Entry number `back`, counted back from the newest.
    #[inline(always)]
    pub fn latest(&self, back: u64) -> &Stretch {
        &self.ring[(self.newest.wrapping_sub(back) % N as u64) as usize]
    }

    /// Whether the last `ns` of the class, up to `to_ns` of its scale, all came from the newest source.
    #[inline(always)]
    fn latest_covers(&self, ns: u64, to_ns: u64) -> bool {
        ns == 0 || self.latest(1).until_ns <= to_ns - ns
    }

    /// Charges the part that entry number `back`, counted back from the newest, has in what is still
    /// to divide of a class. Whether that was the last one.
    #[inline(always)]
    pub fn step(&self, back: u64, class: Cause, parts: &mut impl Parts) -> bool {
        let (own, before) = (self.latest(back), self.latest(back.wrapping_add(1)));
        let walk = *parts.walk();
        let begin_ns = later(before.until_ns, walk.class_from_ns);
        if begin_ns < walk.class_to_ns {
            parts.other(class, own.source, walk.class_to_ns - begin_ns);
            parts.walk().class_to_ns = begin_ns;
        }
        begin_ns <= walk.class_from_ns
    }
}

/// Divides the last `ns` that a class took, up to `to_ns` of its scale.
#[inline(always)]
fn divide_class(ledger: &Ledger, class: Cause, ns: u64, to_ns: u64, parts: &mut impl Parts) {
    if ns == 0 {
        return;
    }
    parts.walk().class_from_ns = to_ns - ns;
    parts.walk().class_to_ns = to_ns;
    for back in 0..STRETCHES as u64 - 1 {
        if parts.step_stretch(ledger, back, class) {
            return;
        }
    }
    let walk = *parts.walk();
    parts.other(class, UNKNOWN, walk.class_to_ns - walk.class_from_ns);
}

/// How far a division has come.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Walk {
    left_ns: u64,
    /// Begin of the wait, or of what follows a throttle.
    since_ns: u64,
    /// What had been taken by then.
    since_taken_ns: u64,
    /// End of what is left.
    end_ns: u64,
    /// What had been taken by then.
    end_taken_ns: u64,
    /// 1 where turns count without what interrupts took in them.
    net: u64,
    /// Begin of what is left of a class, on its scale.
    class_from_ns: u64,
    class_to_ns: u64,
}

impl Walk {
    #[inline(always)]
    pub const fn left_ns(&self) -> u64 {
        self.left_ns
    }

    /// What is left once the turns are gone through and older ones ended the wait's time: the part that
    /// is no longer remembered. None where interrupts count for those whom they interrupted, or where the
    /// turns go back to the begin of the wait.
    #[inline(always)]
    pub const fn forgotten(&self) -> Option<Forgotten> {
        if self.net == 0 { None } else { self.older() }
    }

    /// The same wherever interrupts count. None where the turns go back to the begin of the wait.
    #[inline(always)]
    pub const fn older(&self) -> Option<Forgotten> {
        if self.left_ns == 0 || self.end_ns <= self.since_ns {
            return None;
        }
        Some(Forgotten { since_ns: self.since_ns, end_ns: self.end_ns, left_ns: self.left_ns })
    }

    /// Whether turns count without what interrupts took in them.
    #[inline(always)]
    pub const fn is_net(&self) -> bool {
        self.net != 0
    }

    /// As much of `wanted_ns` as is left, which is taken away.
    #[inline(always)]
    fn take(&mut self, wanted_ns: u64) -> u64 {
        let taken_ns = if wanted_ns < self.left_ns { wanted_ns } else { self.left_ns };
        self.left_ns -= taken_ns;
        taken_ns
    }
}

/// The part of a wait that is older than the turns which a ledger remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct Forgotten {
    pub since_ns: u64,
    /// When the oldest turn that is remembered began, ns: the end of this part.
    pub end_ns: u64,
    /// How much of that time turns took, ns: what interrupts took is charged already.
    pub left_ns: u64,
}

/// What one CPU remembers.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Ledger {
    /// Number of the newest turn, counted on for ever.
    pub newest: u64,
    pub turns: [Turn; TURNS],
    /// Sources of hardirq time.
    pub hardirqs: Stretches<STRETCHES>,
    /// Sources of softirq time.
    pub softirqs: Stretches<STRETCHES>,
}

/// A task that waits for a CPU since it became runnable there, or came there from another CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct Waiting {
    /// The task; 0 in a free entry.
    pub pid: u32,
    pub cpu: u32,
    pub since_ns: u64,
    /// What had been taken from that CPU by then.
    pub taken: Taken,
    /// How long the task's group had been throttled on that CPU by then; [`UNKNOWN`] where that is not known.
    pub throttled_ns: u64,
}

/// Who divides, each with a state of its own: one may interrupt the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Context {
    /// The scheduler, with interrupts off.
    Scheduler,
    /// The delivery of packets, in a softirq.
    Delivery,
}

pub const CONTEXTS: usize = Context::Delivery as usize + 1;

/// A division under way on the kernel side.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Division {
    pub wait: Waiting,
    pub now_ns: u64,
    /// What had been taken from the CPU by then.
    pub taken: Taken,
    /// How much of the wait the task's group was throttled.
    pub throttled_ns: u64,
    /// The cgroup that waited.
    pub victim: u64,
    /// The scheduler's: number of the resource. Of a delivery: the interface, as keys of charges have it.
    pub resource: u32,
    /// 1 where the parts go into a record, 0 where they are charged.
    pub recording: u32,
    /// How far it has come.
    pub walk: Walk,
}

/// Takes the parts of a wait.
pub trait Takes {
    /// A part that a turn took.
    fn turn(&mut self, turn: &Turn, ns: u64);
    /// A part of another cause.
    fn other(&mut self, cause: Cause, culprit: u64, ns: u64);
}

/// Takes the parts of a wait, step by step.
///
/// The kernel side keeps the state of the division in memory that the verifier does not follow, and takes each step
/// in a function that is verified by itself; otherwise the paths through the loops would multiply.
pub trait Parts: Takes + Sized {
    /// How far the division has come.
    fn walk(&mut self) -> &mut Walk;

    /// The turns that are remembered did not take all of the wait: takes what is left of it.
    #[inline(always)]
    fn rest(&mut self) {
        let left_ns = self.walk().left_ns;
        self.other(Cause::Untracked, 0, left_ns);
    }

    /// One step of the division among turns: see [`Ledger::step`].
    #[inline(always)]
    fn step_turn(&mut self, ledger: &Ledger, back: u64) -> bool {
        ledger.step(back, self)
    }

    /// One step of the division of a class: see [`Stretches::step`].
    #[inline(always)]
    fn step_stretch(&mut self, ledger: &Ledger, back: u64, class: Cause) -> bool {
        ledger.stretches(class).step(back, class, self)
    }
}

#[inline(always)]
fn later(one_ns: u64, other_ns: u64) -> u64 {
    if one_ns > other_ns { one_ns } else { other_ns }
}

/// How much of a wait a task's group was throttled, by [`Waiting::throttled_ns`] at its begin and at its end: 0 where one
/// of them is not known, as of a task that was real-time then.
#[inline(always)]
pub const fn throttled_between(begin_ns: u64, end_ns: u64) -> u64 {
    if begin_ns == UNKNOWN || end_ns == UNKNOWN { 0 } else { grown(begin_ns, end_ns) }
}

/// How much a total grew; 0 where it went back, as a reading from another CPU may.
#[inline(always)]
const fn grown(from_ns: u64, to_ns: u64) -> u64 {
    to_ns.saturating_sub(from_ns)
}

impl Turn {
    /// Why the turn delays a victim, and whose turn it is. `foreign` names the culprit if it is of another cgroup.
    #[inline(always)]
    pub fn blame(&self, victim: u64, foreign: impl FnOnce(&Self) -> u64) -> (Cause, u64) {
        if self.runner == Runner::Idle as u32 {
            (Cause::Idle, 0)
        } else if self.runner == Runner::Kthread as u32 {
            (Cause::Kthread, self.pid as u64)
        } else if self.cgroup == victim {
            (Cause::Own, victim)
        } else {
            (Cause::Foreign, foreign(self))
        }
    }
}

impl Ledger {
    /// The sources of a class of interrupts.
    #[inline(always)]
    pub fn stretches(&self, class: Cause) -> &Stretches<STRETCHES> {
        if class as u8 == Cause::Hardirq as u8 { &self.hardirqs } else { &self.softirqs }
    }

    /// Charges the part of turn number `back`, counted back from the newest. Whether there is
    /// nothing left to divide among the turns before it.
    #[inline(always)]
    pub fn step(&self, back: u64, parts: &mut impl Parts) -> bool {
        let turn = &self.turns[(self.newest.wrapping_sub(back) % TURNS as u64) as usize];
        if turn.start_ns == 0 {
            return true;
        }
        let walk = *parts.walk();
        let whole = turn.start_ns > walk.since_ns;
        let begin_ns = if whole { turn.start_ns } else { walk.since_ns };
        let begin_taken_ns =
            if whole && walk.net != 0 { turn.taken_ns } else { walk.since_taken_ns };
        let inside_ns = grown(begin_taken_ns, walk.end_taken_ns);
        let own_ns = parts.walk().take(grown(inside_ns, grown(begin_ns, walk.end_ns)));
        if own_ns > 0 {
            parts.turn(turn, own_ns);
        }
        let walk = parts.walk();
        walk.end_ns = begin_ns;
        walk.end_taken_ns = begin_taken_ns;
        !whole || walk.left_ns == 0
    }

    /// Divides what was taken from `from` to `to` among those who took it, as far as something is left to divide.
    #[inline(always)]
    fn divide_taken(&self, from: &Taken, to: &Taken, parts: &mut impl Parts) {
        let nmi_ns = parts.walk().take(grown(from.nmi_ns, to.nmi_ns));
        if nmi_ns > 0 {
            parts.other(Cause::Nmi, 0, nmi_ns);
        }
        let hardirq_ns = parts.walk().take(grown(from.hardirq_ns, to.hardirq_ns));
        divide_class(self, Cause::Hardirq, hardirq_ns, to.hardirq_ns, parts);
        let softirq_ns = parts.walk().take(grown(from.softirq_ns, to.softirq_ns));
        divide_class(self, Cause::Softirq, softirq_ns, to.softirq_ns, parts);
        let stolen_ns = parts.walk().take(grown(from.stolen_ns, to.stolen_ns));
        if stolen_ns > 0 {
            parts.other(Cause::Steal, 0, stolen_ns);
        }
    }

    /// Divides a wait as [`Self::divide_wait`] does, where that takes no steps: one turn lasted all
    /// the time, and each class of interrupts had one source. Whether that was so.
    #[inline(always)]
    pub fn divide_simple_wait(
        &self,
        wait: &Waiting,
        now_ns: u64,
        now: &Taken,
        parts: &mut impl Takes,
    ) -> bool {
        let turn = &self.turns[(self.newest % TURNS as u64) as usize];
        let rare = (wait.taken.nmi_ns ^ now.nmi_ns) | (wait.taken.stolen_ns ^ now.stolen_ns);
        if turn.start_ns == 0
            || wait.since_ns < turn.start_ns
            || now_ns < wait.since_ns
            || rare != 0
        {
            return false;
        }
        let length_ns = now_ns - wait.since_ns;
        let Some(taken_ns) = self.divide_simply(&wait.taken, now, length_ns, parts) else {
            return false;
        };
        if length_ns > taken_ns {
            parts.turn(turn, length_ns - taken_ns);
        }
        true
    }

    /// Divides what was taken from `from` to `to` as [`Self::divide_running`] does, where that takes
    /// no steps. Whether that was so.
    #[inline(always)]
    pub fn divide_simple_running(
        &self,
        from: &Taken,
        to: &Taken,
        length_ns: u64,
        parts: &mut impl Takes,
    ) -> bool {
        let rare = (from.nmi_ns ^ to.nmi_ns) | (from.stolen_ns ^ to.stolen_ns);
        rare == 0 && self.divide_simply(from, to, length_ns, parts).is_some()
    }

    /// Divides what interrupts took within `length_ns`, if each class had one source; how much it was.
    #[inline(always)]
    fn divide_simply(
        &self,
        from: &Taken,
        to: &Taken,
        length_ns: u64,
        parts: &mut impl Takes,
    ) -> Option<u64> {
        let hardirq_ns = to.hardirq_ns.wrapping_sub(from.hardirq_ns);
        let softirq_ns = to.softirq_ns.wrapping_sub(from.softirq_ns);
        if hardirq_ns | softirq_ns == 0 {
            return Some(0);
        }
        // A total that went back, as a reading from another CPU may, is a huge growth here.
        if hardirq_ns > length_ns
            || softirq_ns > length_ns - hardirq_ns
            || !self.hardirqs.latest_covers(hardirq_ns, to.hardirq_ns)
            || !self.softirqs.latest_covers(softirq_ns, to.softirq_ns)
        {
            return None;
        }
        if hardirq_ns > 0 {
            parts.other(Cause::Hardirq, self.hardirqs.latest(0).source, hardirq_ns);
        }
        if softirq_ns > 0 {
            parts.other(Cause::Softirq, self.softirqs.latest(0).source, softirq_ns);
        }
        Some(hardirq_ns + softirq_ns)
    }

    /// Divides what was taken from `from` to `to`, within a time of `length_ns`.
    #[inline(always)]
    pub fn divide_running(&self, from: &Taken, to: &Taken, length_ns: u64, parts: &mut impl Parts) {
        parts.walk().left_ns = length_ns;
        self.divide_taken(from, to, parts);
    }

    /// Divides a wait on this CPU that ends at `now_ns`, when `now` has been taken from the CPU. `throttled_ns` of it
    /// the task's group had used up its quota: that counts before all else, from the begin of the wait on. Interrupts
    /// in the rest of such a wait count for those whom they interrupted.
    #[inline(always)]
    pub fn divide_wait(
        &self,
        wait: &Waiting,
        now_ns: u64,
        now: &Taken,
        throttled_ns: u64,
        parts: &mut impl Parts,
    ) {
        let walk = parts.walk();
        walk.left_ns = grown(wait.since_ns, now_ns);
        let throttled_ns = walk.take(throttled_ns);
        walk.since_ns = wait.since_ns + throttled_ns;
        walk.end_ns = now_ns;
        if throttled_ns > 0 {
            walk.net = 0;
            walk.since_taken_ns = 0;
            walk.end_taken_ns = 0;
            parts.other(Cause::Throttle, 0, throttled_ns);
        } else {
            walk.net = 1;
            walk.since_taken_ns = wait.taken.all_ns();
            walk.end_taken_ns = now.all_ns();
            if walk.end_taken_ns != walk.since_taken_ns {
                self.divide_taken(&wait.taken, now, parts);
            }
        }
        self.divide_rest(parts);
    }

    /// Divides the time from `since_ns` to `now_ns` among turns alone: what interrupts took counts for
    /// those whom they interrupted.
    pub fn divide_among_turns(&self, since_ns: u64, now_ns: u64, parts: &mut impl Parts) {
        let left_ns = grown(since_ns, now_ns);
        *parts.walk() = Walk { left_ns, since_ns, end_ns: now_ns, ..Walk::default() };
        self.divide_rest(parts);
    }

    /// Divides what is left among turns, the newest first; what no turn had is untracked.
    #[inline(always)]
    fn divide_rest(&self, parts: &mut impl Parts) {
        if parts.walk().left_ns == 0 {
            return;
        }
        for back in 0..TURNS as u64 {
            if parts.step_turn(self, back) {
                break;
            }
        }
        if parts.walk().left_ns > 0 {
            parts.rest();
        }
    }

    /// A task begins to run.
    #[inline(always)]
    pub fn begin_turn(&mut self, turn: Turn) {
        self.newest += 1;
        self.turns[(self.newest % TURNS as u64) as usize] = turn;
    }
}

#[cfg(feature = "user")]
mod user {
    // SAFETY: `repr(C)` without padding and valid for any bytes, as the derived `bytemuck::Pod`
    // proves.
    unsafe impl aya::Pod for super::Waiting {}
}

const _: () = assert!(size_of::<Turn>() == 48);
const _: () = assert!(size_of::<Waiting>() == 56);
const _: () = assert!(TURNS.is_power_of_two() && STRETCHES.is_power_of_two());

#[cfg(test)]
mod tests;
