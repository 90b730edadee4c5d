//! In which context a CPU is while a trace is read: in a task, or in an interrupt of which kind.
//!
//! The nesting is that of [`noise_common`], which the programs keep live. What never lasts over a switch, a
//! hard interrupt, ends with one, so that an exit that was lost does not leave its context behind.

use noise_common::charge::{Cause, VECTOR_SOURCE};
use noise_common::hooks::{Hook, VECTOR_HOOKS, Vector};
use noise_common::nesting::{Ended, MAX_NMI_NS, Nesting};
use noise_common::signals::SOFTIRQ_VECTORS;

use crate::event::{Event, TraceKind};

/// Follows the start or end of an interrupt on the CPU that has this nesting. Returns what ended, if its start was seen.
pub fn nest(nesting: &mut Nesting, event: &Event<'_>) -> Option<Ended> {
    let now_ns = event.time_ns;
    match &event.kind {
        TraceKind::IrqHandlerEntry { irq, .. } => {
            // One that nests too deep counts as its outer handlers' time.
            let _ = nesting.enter_irq(*irq, now_ns);
            None
        }
        TraceKind::IrqHandlerExit { irq, .. } => nesting.exit_irq(*irq, now_ns).ok(),
        TraceKind::VectorEntry { which, .. } => {
            nesting.enter_vector(*which, now_ns);
            None
        }
        TraceKind::VectorExit { .. } => nesting.exit_vector(now_ns).ok(),
        TraceKind::SoftirqEntry { vec } if is_softirq(*vec) => {
            nesting.enter_softirq(*vec, now_ns);
            None
        }
        TraceKind::SoftirqExit { vec } if is_softirq(*vec) => {
            nesting.exit_softirq(*vec, now_ns).ok()
        }
        TraceKind::NmiHandler { delta_ns, .. } => {
            nesting.handled_nmi(u64::try_from(*delta_ns).unwrap_or(0).min(MAX_NMI_NS));
            None
        }
        _ => None,
    }
}

const fn is_softirq(vec: u32) -> bool {
    (vec as usize) < SOFTIRQ_VECTORS.len()
}

/// What a CPU does, the innermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuContext {
    /// It runs its thread.
    Task,
    /// It handles a device interrupt of that number.
    Irq(u32),
    /// It handles one of its own vectors.
    Vector(Vector),
    /// It is in a softirq of that number.
    Softirq(u32),
    /// It runs the function of a high-resolution timer.
    Hrtimer,
}

/// The contexts of one CPU.
#[derive(Clone, Debug, Default)]
pub struct Contexts {
    nesting: Nesting,
    /// The level at which the function of a timer runs.
    hrtimer: Option<Option<(Cause, u64)>>,
    softirq_since_ns: u64,
    /// Whether the kernel's entry of device interrupts runs, around all handlers of one.
    in_entry: bool,
}

impl Contexts {
    /// Follows an event of this CPU.
    pub fn follow(&mut self, event: &Event<'_>) {
        match &event.kind {
            TraceKind::HrtimerExpireEntry { .. } => self.hrtimer = Some(self.nesting.running()),
            TraceKind::HrtimerExpireExit { .. } => self.hrtimer = None,
            TraceKind::SchedSwitch { .. } | TraceKind::Lost(_) => self.reset(),
            TraceKind::SoftirqEntry { .. } => {
                self.softirq_since_ns = event.time_ns;
                nest(&mut self.nesting, event);
            }
            TraceKind::Other(name) if name.starts_with("do_IRQ_") => {
                self.in_entry = name.ends_with("_entry");
            }
            _ => {
                nest(&mut self.nesting, event);
            }
        }
    }

    /// Interrupts do not last over a switch, and after lost events it is unknown which ones run.
    fn reset(&mut self) {
        if self.nesting.running().is_some() {
            self.nesting = Nesting::default();
        }
        self.hrtimer = None;
        self.in_entry = false;
    }

    pub fn running(&self) -> CpuContext {
        let running = self.nesting.running();
        if self.hrtimer == Some(running) {
            return CpuContext::Hrtimer;
        }
        match running {
            None if self.in_entry => CpuContext::Irq(u32::MAX),
            None => CpuContext::Task,
            Some((Cause::Softirq, vec)) => {
                CpuContext::Softirq(u32::try_from(vec).unwrap_or(u32::MAX))
            }
            Some((_, source)) if source & VECTOR_SOURCE != 0 => {
                vector(source & !VECTOR_SOURCE).map_or(CpuContext::Task, CpuContext::Vector)
            }
            Some((_, irq)) => CpuContext::Irq(u32::try_from(irq).unwrap_or(u32::MAX)),
        }
    }

    /// Since when the latest softirq runs, in nanoseconds since the epoch of the trace's clock.
    pub const fn softirq_since_ns(&self) -> u64 {
        self.softirq_since_ns
    }
}

fn vector(number: u64) -> Option<Vector> {
    VECTOR_HOOKS.iter().find_map(|hook| match hook {
        Hook::Vector(which, _) if u64::from(*which as u32) == number => Some(*which),
        _ => None,
    })
}
