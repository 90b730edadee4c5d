//! Who ran on a CPU, and how a wait is divided among them.
//!
//! Each CPU remembers its latest turns: which task ran from when on, and how much time interrupts had
//! taken by then. Interrupts are remembered by class (hardirq, softirq) on a scale of their own, the
//! time that the class has taken so far, so that any stretch of that scale can be divided among its
//! sources. A wait is divided exactly: first what interrupts took during it, by class and source,
//! then the rest among the turns that it overlaps, net of interrupts. What is no longer remembered
//! is told as such. All parts sum to the wait, always.

use crate::charge::{Cause, UNKNOWN};
use crate::event::COMM_BYTES;
use crate::nesting::Taken;

/// Turns that each CPU remembers, a power of two.
pub const TURNS: usize = 256;

/// Changes of the source of interrupts that each CPU remembers for each class, a power of two.
pub const STRETCHES: usize = 32;

/// What kind of task had a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Runner {
    /// The idle task.
    Idle,
    /// A task of a cgroup.
    Task,
    /// A kernel thread.
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
    /// The task's cgroup.
    pub cgroup: u64,
    /// The task's thread id.
    pub pid: u32,
    /// Number of the [`Runner`].
    pub runner: u32,
    /// The task's name.
    pub comm: [u8; COMM_BYTES],
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

/// The latest sources of one class of interrupts on one CPU.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Stretches {
    /// Number of the newest entry, counted on for ever.
    pub newest: u64,
    /// The entries.
    pub ring: [Stretch; STRETCHES],
}

impl Default for Stretches {
    fn default() -> Self {
        Self { newest: 0, ring: [Stretch::default(); STRETCHES] }
    }
}

impl Stretches {
    /// Notes that the class, having taken `total_ns` so far, was taken by `source` since the last
    /// note.
    #[inline(always)]
    pub fn note(&mut self, source: u64, total_ns: u64) {
        let newest = &mut self.ring[(self.newest % STRETCHES as u64) as usize];
        if newest.source == source {
            newest.until_ns = total_ns;
            return;
        }
        self.newest += 1;
        self.ring[(self.newest % STRETCHES as u64) as usize] =
            Stretch { source, until_ns: total_ns };
    }

    /// Charges the part that entry number `back`, counted back from the newest, has in what is still
    /// to divide of a class. Whether that was the last one.
    #[inline(always)]
    pub fn step(&self, back: u64, class: Cause, parts: &mut impl Parts) -> bool {
        let number = self.newest.wrapping_sub(back);
        let own = &self.ring[(number % STRETCHES as u64) as usize];
        let before = &self.ring[(number.wrapping_sub(1) % STRETCHES as u64) as usize];
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
    /// What is left to divide.
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
    /// End of it.
    class_to_ns: u64,
}

impl Walk {
    /// As much of `wanted_ns` as is left, which is taken away.
    #[inline(always)]
    fn take(&mut self, wanted_ns: u64) -> u64 {
        let taken_ns = if wanted_ns < self.left_ns { wanted_ns } else { self.left_ns };
        self.left_ns -= taken_ns;
        taken_ns
    }
}

/// What one CPU remembers.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Ledger {
    /// Number of the newest turn, counted on for ever.
    pub newest: u64,
    /// The turns.
    pub turns: [Turn; TURNS],
    /// Sources of hardirq time.
    pub hardirqs: Stretches,
    /// Sources of softirq time.
    pub softirqs: Stretches,
}

/// A task that waits for a CPU since it became runnable there, or came there from another CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct Waiting {
    /// The task; 0 in a free entry.
    pub pid: u32,
    /// The CPU.
    pub cpu: u32,
    /// Since when.
    pub since_ns: u64,
    /// What had been taken from that CPU by then.
    pub taken: Taken,
    /// How long the task's group had been throttled on that CPU by then; [`UNKNOWN`] where that
    /// cannot be told.
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

/// Number of the [`Context`]s.
pub const CONTEXTS: usize = Context::Delivery as usize + 1;

/// A division under way on the kernel side.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Division {
    /// The wait.
    pub wait: Waiting,
    /// When it ended.
    pub now_ns: u64,
    /// What had been taken from the CPU by then.
    pub taken: Taken,
    /// How much of the wait the task's group was throttled.
    pub throttled_ns: u64,
    /// The cgroup that waited.
    pub victim: u64,
    /// The scheduler's: number of the resource. Of a delivery: the interface, as keys of charges
    /// have it.
    pub resource: u32,
    /// 1 where the parts go into a record, 0 where they are charged.
    pub recording: u32,
    /// How far it has come.
    pub walk: Walk,
}

/// Takes the parts of a wait.
///
/// The kernel side keeps the state of the division in memory that the verifier does not follow, and
/// takes each step in a function that is verified by itself; otherwise the paths through the loops
/// would multiply.
pub trait Parts: Sized {
    /// How far the division has come.
    fn walk(&mut self) -> &mut Walk;
    /// A part that a turn took.
    fn turn(&mut self, turn: &Turn, ns: u64);
    /// A part of another cause.
    fn other(&mut self, cause: Cause, culprit: u64, ns: u64);

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

/// How much a total grew; 0 where it went back, as a reading from another CPU may.
#[inline(always)]
fn grown(from_ns: u64, to_ns: u64) -> u64 {
    if to_ns > from_ns { to_ns - from_ns } else { 0 }
}

impl Ledger {
    /// The sources of a class of interrupts.
    #[inline(always)]
    pub fn stretches(&self, class: Cause) -> &Stretches {
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

    /// Tells who took what was taken from `from` to `to`, as far as there is something left to
    /// divide.
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

    /// Divides what was taken from `from` to `to`, within a time of `length_ns`.
    #[inline(always)]
    pub fn divide_running(&self, from: &Taken, to: &Taken, length_ns: u64, parts: &mut impl Parts) {
        parts.walk().left_ns = length_ns;
        self.divide_taken(from, to, parts);
    }

    /// Divides a wait on this CPU that ends at `now_ns`, when `now` has been taken from the CPU.
    /// `throttled_ns` of it the task's group had used up its quota: that counts before all else,
    /// from the begin of the wait on. Interrupts in the rest of such a wait count for those whom
    /// they interrupted.
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
        if parts.walk().left_ns == 0 {
            return;
        }
        for back in 0..TURNS as u64 {
            if parts.step_turn(self, back) {
                break;
            }
        }
        let left_ns = parts.walk().left_ns;
        if left_ns > 0 {
            parts.other(Cause::Untracked, 0, left_ns);
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
mod tests {
    use super::*;
    use crate::event::CpuState;
    use crate::nesting::Frame;
    use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
    use std::boxed::Box;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    /// Who owns a nanosecond: a cause, and its culprit (the pid of a turn).
    type Owner = (Cause, u64);

    /// Parts summed up by owner.
    #[derive(Default, Debug)]
    struct Sums(BTreeMap<Owner, u64>, Walk);

    impl Parts for Sums {
        fn walk(&mut self) -> &mut Walk {
            &mut self.1
        }
        fn turn(&mut self, turn: &Turn, ns: u64) {
            self.other(Cause::Foreign, u64::from(turn.pid), ns);
        }
        fn other(&mut self, cause: Cause, culprit: u64, ns: u64) {
            assert!(ns > 0, "an empty part of {cause:?}");
            *self.0.entry((cause, culprit)).or_default() += ns;
        }
    }

    /// A CPU whose every nanosecond has a known owner.
    struct Cpu {
        state: Box<CpuState>,
        now_ns: u64,
        owners: Vec<Owner>,
    }

    const BEGIN_NS: u64 = 1_000;

    impl Cpu {
        fn new() -> Self {
            // SAFETY: all fields are valid when zero.
            let state = unsafe { Box::<CpuState>::new_zeroed().assume_init() };
            let mut cpu = Self { state, now_ns: BEGIN_NS, owners: Vec::new() };
            cpu.switch(1);
            cpu
        }

        fn pass(&mut self, owner: Owner, ns: u64) {
            self.now_ns += ns;
            self.owners.extend((0..ns).map(|_| owner));
        }

        fn switch(&mut self, pid: u32) {
            let taken_ns = self.state.taken.all_ns();
            let (start_ns, runner, comm) = (self.now_ns, Runner::Task as u32, [0; COMM_BYTES]);
            self.state.ledger.begin_turn(Turn { start_ns, taken_ns, cgroup: 0, pid, runner, comm });
        }

        /// An interrupt of `level` with what it is interrupted by; `looks` are told the moment
        /// before and after each step.
        fn interrupt(&mut self, level: &Level, look: &mut impl FnMut(&Self)) {
            match level {
                Level::Nmi { ns } => {
                    self.pass((Cause::Nmi, 0), *ns);
                    self.state.taken.nmi_ns += ns;
                }
                Level::Hardirq { source, ns, inside } => {
                    let owner = (Cause::Hardirq, u64::from(*source));
                    self.state.vector = Frame::open(self.now_ns, &self.state.taken);
                    self.pass(owner, *ns);
                    look(self);
                    inside.iter().for_each(|level| self.interrupt(level, look));
                    self.pass(owner, *ns);
                    let net = self.state.vector.net_ns(self.now_ns, &self.state.taken).unwrap();
                    self.state.vector.start_ns = 0;
                    self.state.taken.hardirq_ns += net;
                    let total = self.state.taken.hardirq_ns;
                    self.state.ledger.hardirqs.note(u64::from(*source), total);
                }
                Level::Softirq { source, ns, inside } => {
                    let owner = (Cause::Softirq, u64::from(*source));
                    self.state.softirq = Frame::open(self.now_ns, &self.state.taken);
                    self.state.softirq_running = u32::from(*source) + 1;
                    self.pass(owner, *ns);
                    look(self);
                    inside.iter().for_each(|level| self.interrupt(level, look));
                    self.pass(owner, *ns);
                    let net = self.state.softirq.net_ns(self.now_ns, &self.state.taken).unwrap();
                    self.state.softirq_running = 0;
                    self.state.taken.softirq_ns += net;
                    let total = self.state.taken.softirq_ns;
                    self.state.ledger.softirqs.note(u64::from(*source), total);
                }
            }
            look(self);
        }

        fn waiting(&self) -> Waiting {
            let taken = self.state.taken_by(self.now_ns);
            Waiting { pid: 9, cpu: 0, since_ns: self.now_ns, taken, throttled_ns: 0 }
        }

        fn divided(&self, wait: &Waiting, throttled_ns: u64) -> Sums {
            let mut sums = Sums::default();
            let taken = self.state.taken_by(self.now_ns);
            let ledger = &self.state.ledger;
            ledger.divide_wait(wait, self.now_ns, &taken, throttled_ns, &mut sums);
            sums
        }

        fn owned(&self, since_ns: u64) -> Sums {
            let mut sums = Sums::default();
            for owner in &self.owners[(since_ns - BEGIN_NS) as usize..] {
                *sums.0.entry(*owner).or_default() += 1;
            }
            sums
        }
    }

    #[derive(Clone, Debug)]
    enum Level {
        Nmi { ns: u64 },
        Hardirq { source: u8, ns: u64, inside: Vec<Level> },
        Softirq { source: u8, ns: u64, inside: Vec<Level> },
    }

    #[derive(Clone, Debug)]
    enum Step {
        Run { ns: u64 },
        Switch { pid: u32 },
        Interrupt(Level),
    }

    fn nmi() -> impl Strategy<Value = Level> {
        (1u64..20).prop_map(|ns| Level::Nmi { ns })
    }

    fn hardirq() -> impl Strategy<Value = Level> {
        (0u8..3, 1u64..20, proptest::collection::vec(nmi(), 0..2))
            .prop_map(|(source, ns, inside)| Level::Hardirq { source, ns, inside })
    }

    fn softirq() -> impl Strategy<Value = Level> {
        let inside = proptest::collection::vec(prop_oneof![nmi(), hardirq()], 0..3);
        (0u8..3, 1u64..20, inside).prop_map(|(source, ns, inside)| Level::Softirq {
            source,
            ns,
            inside,
        })
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0u64..60).prop_map(|ns| Step::Run { ns }),
            3 => (1u32..6).prop_map(|pid| Step::Switch { pid }),
            2 => prop_oneof![nmi(), hardirq(), softirq()].prop_map(Step::Interrupt),
        ]
    }

    /// Plays the steps, with waits that begin at every possible moment.
    fn play(steps: &[Step]) -> (Cpu, Vec<Waiting>) {
        let mut cpu = Cpu::new();
        let mut pid = 1;
        let mut waits = Vec::new();
        for step in steps {
            match step {
                Step::Run { ns } => cpu.pass((Cause::Foreign, u64::from(pid)), *ns),
                Step::Switch { pid: next } => {
                    pid = *next;
                    cpu.switch(pid);
                }
                Step::Interrupt(level) => {
                    cpu.interrupt(level, &mut |cpu| waits.push(cpu.waiting()));
                }
            }
            waits.push(cpu.waiting());
        }
        (cpu, waits)
    }

    proptest! {
        /// As long as all is remembered, each owner gets exactly its nanoseconds.
        #[test]
        fn every_nanosecond_is_charged_to_its_owner(
            steps in proptest::collection::vec(step(), 1..40)
        ) {
            let (cpu, waits) = play(&steps);
            for wait in &waits {
                prop_assert_eq!(cpu.divided(wait, 0).0, cpu.owned(wait.since_ns).0);
            }
        }

        /// Whatever is forgotten, and however much was throttled: the parts sum to the wait.
        #[test]
        fn parts_sum_to_the_wait(
            steps in proptest::collection::vec(step(), 1..300),
            throttled_ns in 0u64..10_000,
            throttles in any::<bool>(),
        ) {
            let (cpu, waits) = play(&steps);
            for wait in &waits {
                let throttled_ns = if throttles { throttled_ns } else { 0 };
                let sums = cpu.divided(wait, throttled_ns);
                prop_assert_eq!(sums.0.values().sum::<u64>(), cpu.now_ns - wait.since_ns);
                let throttled = sums.0.get(&(Cause::Throttle, 0)).copied().unwrap_or(0);
                prop_assert_eq!(throttled, throttled_ns.min(cpu.now_ns - wait.since_ns));
            }
        }

        /// Totals that another CPU read at a bad moment cost exactness, never the sum.
        #[test]
        fn torn_readings_keep_the_sum(
            steps in proptest::collection::vec(step(), 1..60),
            taken in any::<[u16; 4]>(),
            since_ns in 0u64..5_000,
        ) {
            let (cpu, _) = play(&steps);
            let [nmi_ns, hardirq_ns, softirq_ns, stolen_ns] = taken.map(u64::from);
            let taken = Taken { nmi_ns, hardirq_ns, softirq_ns, stolen_ns };
            let wait = Waiting { since_ns, taken, ..Waiting::default() };
            let sums = cpu.divided(&wait, 0);
            let length_ns = cpu.now_ns.saturating_sub(since_ns);
            prop_assert_eq!(sums.0.values().sum::<u64>(), length_ns);
            prop_assert!(sums.0.values().all(|ns| *ns <= length_ns));
        }
    }

    #[test]
    fn what_scrolled_out_is_untracked() {
        let mut cpu = Cpu::new();
        let wait = cpu.waiting();
        for pid in 0..2 * TURNS as u32 {
            cpu.pass((Cause::Foreign, 0), 10);
            cpu.switch(pid);
        }
        let sums = cpu.divided(&wait, 0);
        assert_eq!(sums.0[&(Cause::Untracked, 0)], 10 * (TURNS as u64 + 1));
    }

    #[test]
    fn a_class_whose_sources_scrolled_out_keeps_its_time() {
        let mut cpu = Cpu::new();
        let wait = cpu.waiting();
        for number in 0..2 * STRETCHES as u8 {
            let level = Level::Hardirq { source: number % 2, ns: 5, inside: Vec::new() };
            cpu.interrupt(&level, &mut |_| {});
        }
        let sums = cpu.divided(&wait, 0);
        let hardirq = |source| sums.0.get(&(Cause::Hardirq, source)).copied().unwrap_or(0);
        assert_eq!(hardirq(0) + hardirq(1), 10 * (STRETCHES as u64 - 1));
        assert_eq!(hardirq(UNKNOWN), 10 * (STRETCHES as u64 + 1));
    }
}
