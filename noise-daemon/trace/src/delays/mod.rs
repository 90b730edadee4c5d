//! Delays of a recording: the signals that are measured live, computed from events afterwards, by the same
//! arithmetic of [`noise_common`]: [`Nesting`] for interrupts, [`Ledger`] for what ran during a wait.
//!
//! A wait for a CPU begins with the first wake-up of a thread that does not run (see [`Begin`]), or with a switch that leaves
//! it runnable, and ends with the next switch to it; a switch that puts it to sleep drops it. The idle task
//! never waits. It is divided in three ways, each of which sums to the wait:
//!
//! - among the threads that ran on the CPU where the thread ran in the end, interrupts included;
//! - the same, over the CPUs that it waited on;
//! - as live: over the CPUs that it waited on, what interrupts took apart from what threads did.
//!
//! Where events of a CPU are lost, waits there have the time up to its next switch as untracked, interrupts that
//! run are forgotten, and the wait of a thread that is woken afterwards begins anew. A wait that begins meanwhile on any
//! CPU is known from the end of the loss on (see [`Sight`]): the thread may have run where it was not seen. One that
//! ends meanwhile is left out.
//!
//! Not known here: the hypervisor, and quotas but for those of our own recordings; delays are charged to threads, not to cgroups. What a recording lacks is in [`DelaysDocument::missing`].
//!
//! [`Sight`]: crate::sight::Sight
//! [`Nesting`]: noise_common::nesting::Nesting
//! [`Ledger`]: noise_common::ledger::Ledger
//! [`DelaysDocument::missing`]: document::DelaysDocument::missing

mod ahead;
mod cpu;
pub mod document;
mod interrupts;
mod older;
mod packets;
mod portion;
mod requests;
mod sums;
mod waits;
pub mod watch;

use std::borrow::Cow;
use std::collections::BTreeMap;

use noise_common::charge::{Cause, UNKNOWN, VECTOR_SOURCE};
use noise_common::hooks::VECTORS;
use noise_common::signals::SOFTIRQ_VECTORS;

use self::cpu::{Cpu, Cpus};
use self::document::{Culprit, DelaysDocument};
use self::interrupts::Interrupts;
use self::packets::PacketDelays;
pub use self::portion::Portion;
use self::requests::RequestDelays;
use self::sums::{Party, Sums};
pub use self::waits::Begin;
use self::waits::Waits;
use self::watch::Watch;
use crate::analysis::Analysis;
use crate::event::{Comm, Event, TraceKind};
use crate::ftrace::UnreadLines;
use crate::reach::Reach;
use crate::sight::Sight;

/// Device interrupts whose names are kept.
const MAX_LINES: usize = 65_536;
/// What is kept of a device's name; the kernel's own have less than 100 bytes.
const NAME_BYTES: usize = 255;

/// The name of a device, as far as it is kept.
fn name_of(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes.get(..NAME_BYTES).unwrap_or(bytes))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Only {
    #[default]
    All,
    /// Who ran where, and what disks did.
    Turns,
    Interrupts,
}

/// Computes delays while events come in, in the order of time.
#[derive(Default)]
pub struct Delays {
    cpus: Cpus,
    waits: Waits,
    interrupts: Interrupts,
    requests: RequestDelays,
    packets: PacketDelays,
    /// The bits of the kinds of events that came: see [`needed`].
    seen: u32,
    from_ns: Option<u64>,
    to_ns: u64,
    reach: Reach,
    sight: Sight,
    only: Only,
    /// Names of device interrupts, where only turns are followed.
    lines: BTreeMap<u32, String>,
}

impl Delays {
    /// Those that follow no more than [`Self::culprits`], [`Self::disk_culprits`] and [`Self::running`] need, which is
    /// much less work. There is nothing in their document.
    pub fn of_turns() -> Self {
        Self { only: Only::Turns, ..Self::default() }
    }

    /// Those that show interrupts alone: in a storm of short threads, who waited for whom is a pair for each two of them.
    pub fn of_interrupts() -> Self {
        Self { only: Only::Interrupts, ..Self::default() }
    }

    /// From now on it is noted who was ahead of whom at disks: see [`Self::disk_culprits`].
    pub fn note_ahead(&mut self) {
        self.requests.note_ahead();
    }

    /// Takes the next event, and shows the delays that end with it.
    pub fn follow_each(&mut self, event: &Event<'_>, watch: &mut impl Watch) {
        if self.only == Only::Interrupts {
            self.interrupts.follow(event, &mut self.cpus, watch);
            if matches!(event.kind, TraceKind::Lost(_)) {
                self.cpus.miss(event.cpu, event.time_ns);
            }
            return;
        }
        self.seen |= needed(&event.kind);
        if let TraceKind::Lost(loss) = &event.kind {
            self.reach.follow(event.time_ns, event.cpu, Some(loss));
        } else {
            self.from_ns.get_or_insert(event.time_ns);
            self.to_ns = event.time_ns;
            self.reach.follow(event.time_ns, event.cpu, None);
        }
        self.interrupts.follow(event, &mut self.cpus, watch);
        self.requests.follow(event, &self.cpus, watch);
        self.packets.follow(event, &self.cpus, watch);
        let is_seen_again = self.sight.follow(event).is_some();
        if !self.sight.is_whole() {
            self.requests.lose();
            self.packets.lose();
        }
        self.waits.follow(event, (is_seen_again, self.sight.is_whole()), &mut self.cpus, watch);
    }

    /// Who ran on a CPU between two times, interrupts included, the longest first; the parts sum to that time.
    /// What lies so far back that newer turns took its place is untracked, so ask when the end is just over.
    pub fn culprits(&self, cpu: u32, from_ns: u64, to_ns: u64) -> Vec<Culprit> {
        let mut sums = Sums::default();
        self.cpus.divide_whole(cpu, from_ns, to_ns, &mut sums);
        self.waits.culprits(&sums)
    }

    /// Who was ahead of a thread at the disk, between two times, while it waited for the request that ended last on a CPU:
    /// `foreign` are requests of other threads, `self` its own; the longest first. The parts sum to that time. So ask
    /// when the thread is woken, and see [`Self::note_ahead`].
    pub fn disk_culprits(&self, cpu: u32, tid: i32, from_ns: u64, to_ns: u64) -> Vec<Culprit> {
        let ahead = self.requests.ahead();
        ahead.map(|ahead| ahead.divide(cpu, tid, from_ns, to_ns)).unwrap_or_default()
    }

    /// What runs on a CPU at the moment, as the culprit of so long a time: the innermost interrupt with its name, else
    /// the thread.
    pub fn running(&self, cpu: u32, ns: u64) -> Culprit {
        let known = self.cpus.known(cpu);
        let Some((cause, source)) = known.and_then(|cpu| cpu.nesting.running()) else {
            let (tid, comm) = known.and_then(Cpu::runner).unwrap_or((-1, Comm::default()));
            let cause = match tid {
                0 => "idle",
                tid if tid < 0 => "untracked",
                _ => "thread",
            };
            return Culprit { tid, comm: comm.to_string(), cause, ns };
        };
        let name = self.interrupt_name(Party::Other { cause, source });
        let comm = name.unwrap_or_default();
        Culprit { tid: -1, comm, cause: cause.name(), ns }
    }

    /// The name of an interrupt, else its number; `None` of what is none.
    fn interrupt_name(&self, party: Party) -> Option<String> {
        let Party::Other { cause: cause @ (Cause::Hardirq | Cause::Softirq), source } = party
        else {
            return None;
        };
        let named = |names: &[&'static str]| names.get((source & !VECTOR_SOURCE) as usize).copied();
        let name = match cause {
            _ if source == UNKNOWN => Some(""),
            Cause::Softirq => named(&SOFTIRQ_VECTORS),
            _ if source & VECTOR_SOURCE != 0 => named(&VECTORS),
            _ => {
                let irq = u32::try_from(source).ok();
                irq.and_then(|irq| self.lines.get(&irq)).map(String::as_str)
            }
        };
        Some(name.map_or_else(|| source.to_string(), str::to_owned))
    }

    fn follow_turns(&mut self, event: &Event<'_>) {
        self.sight.follow(event);
        match &event.kind {
            TraceKind::SchedSwitch { next, .. } => {
                self.cpus.end_interrupts(event.cpu);
                self.cpus.begin_turn(event.cpu, next, event.time_ns);
            }
            TraceKind::SchedProcessExec { tid, old_tid, .. } if *old_tid > 0 && old_tid != tid => {
                self.cpus.rename(event.cpu, *old_tid, *tid, event.time_ns);
            }
            TraceKind::Lost(_) => {
                self.cpus.miss(event.cpu, event.time_ns);
                self.requests.follow(event, &self.cpus, &mut ());
            }
            TraceKind::BlockRqInsert(_)
            | TraceKind::BlockRqIssue(_)
            | TraceKind::BlockRqComplete(_)
            | TraceKind::BlockRqRequeue(_)
            | TraceKind::BlockRqMerge(_) => {
                self.requests.follow(event, &self.cpus, &mut ());
                if !self.sight.is_whole() {
                    self.requests.lose();
                }
            }
            TraceKind::IrqHandlerEntry { irq, name } if self.lines.len() < MAX_LINES => {
                let name = || name_of(name).into_owned();
                self.lines.entry(*irq).or_insert_with(name);
                self.interrupt(event);
            }
            TraceKind::IrqHandlerEntry { .. }
            | TraceKind::IrqHandlerExit { .. }
            | TraceKind::VectorEntry { .. }
            | TraceKind::VectorExit { .. }
            | TraceKind::SoftirqEntry { .. }
            | TraceKind::SoftirqExit { .. }
            | TraceKind::NmiHandler { .. } => self.interrupt(event),
            _ => {}
        }
    }

    fn interrupt(&mut self, event: &Event<'_>) {
        if let Some(cpu) = self.cpus.get(event.cpu) {
            cpu.interrupt(event);
        }
    }
}

impl Analysis for Delays {
    type Document = DelaysDocument;

    fn new(begin: Begin) -> Self {
        Self { waits: Waits::new(begin), ..Self::default() }
    }

    fn follow(&mut self, event: &Event<'_>) {
        match self.only {
            Only::Turns => self.follow_turns(event),
            Only::All | Only::Interrupts => self.follow_each(event, &mut ()),
        }
    }

    fn forget(&mut self, tid: i32) {
        self.waits.forget(tid);
    }

    /// Delays that ended before are left out, those under way are not.
    fn begin(&mut self, from_ns: u64) {
        // A recording has no time before its first event.
        if let Some(first_ns) = &mut self.from_ns {
            *first_ns = from_ns;
            self.to_ns = self.to_ns.max(from_ns);
        }
        self.reach.begin(from_ns);
        self.waits.begin(from_ns);
        self.interrupts.begin();
        self.requests.begin();
        self.packets.begin();
    }

    fn finish(
        self,
        wants: impl Fn(i32) -> bool,
        unread_lines: Option<UnreadLines>,
    ) -> DelaysDocument {
        let mut threads = self.waits.documents();
        threads.retain(|thread| wants(thread.tid));
        let missing = NEEDED.iter().enumerate().filter(|(place, _)| self.seen & 1 << place == 0);
        DelaysDocument {
            from_ns: self.from_ns.unwrap_or(0),
            to_ns: self.to_ns,
            discarded: self.reach.discarded(),
            reach: self.reach,
            untracked_ns: self.waits.untracked_ns(),
            threads,
            hardirq: self.interrupts.hardirq(),
            vector: self.interrupts.vector(),
            softirq: self.interrupts.softirq(),
            softirq_raise_wait: self.interrupts.raise(),
            block_queue_wait: self.requests.block_queue(),
            block_device_wait: self.requests.block_device(),
            packets: self.packets.documents(),
            missing: missing.map(|(_, name)| (*name).to_owned()).collect(),
            unread_lines,
        }
    }
}

macro_rules! needed {
    ($($name:literal: $kind:pat,)*) => {
        /// Events that delays are computed from.
        const NEEDED: &[&str] = &[$($name),*];

        /// The bit of an event's kind, in the order of [`NEEDED`]; 0 of the others.
        #[inline]
        fn needed(kind: &TraceKind<'_>) -> u32 {
            let kinds = [$(matches!(kind, $kind)),*];
            kinds.iter().rev().fold(0, |bits, is_it| bits << 1 | u32::from(*is_it))
        }
    };
}

needed! {
    "sched_switch": TraceKind::SchedSwitch { .. },
    "sched_wakeup": TraceKind::SchedWakeup(_),
    "sched_waking": TraceKind::SchedWaking(_),
    "sched_migrate_task": TraceKind::SchedMigrateTask { .. },
    "irq_handler_entry": TraceKind::IrqHandlerEntry { .. },
    "irq_handler_exit": TraceKind::IrqHandlerExit { .. },
    "vectors": TraceKind::VectorExit { .. },
    "softirq_raise": TraceKind::SoftirqRaise { .. },
    "softirq_entry": TraceKind::SoftirqEntry { .. },
    "softirq_exit": TraceKind::SoftirqExit { .. },
    "nmi_handler": TraceKind::NmiHandler { .. },
    "block_rq_insert": TraceKind::BlockRqInsert(_),
    "block_rq_issue": TraceKind::BlockRqIssue(_),
    "block_rq_complete": TraceKind::BlockRqComplete(_),
    "net_dev_queue": TraceKind::NetDevQueue(_),
    "net_dev_xmit": TraceKind::NetDevStartXmit(_) | TraceKind::NetDevXmit { .. },
    "netif_receive_skb": TraceKind::NetifReceiveSkb(_),
}

#[cfg(test)]
mod tests;
