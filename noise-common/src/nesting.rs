//! Interrupts that nest on one CPU, and their net time: nothing is charged twice.
//!
//! An NMI inside a hardirq inside a softirq is subtracted outward, as the kernel's osnoise tracer
//! does. Instead of pushing start times forward, each CPU keeps one running total of net time per
//! level; whatever the deeper totals grew by between entry and exit ran inside. Each total has one
//! writer level, so an interrupt between load and store of an outer level's program loses nothing.
//!
//! The programs that measure and those of [`crate::watch`] keep the same [`Nesting`], without maps and
//! helpers, so that it is tested on the host.

use crate::charge::{Cause, UNKNOWN, VECTOR_SOURCE};
use crate::hooks::Vector;
use crate::loss::Loss;

/// Net nanoseconds that interrupts took on one CPU since the programs were attached, by level, and
/// what the hypervisor took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct Taken {
    pub nmi_ns: u64,
    /// By hardirq handlers and vectors, net of NMIs.
    pub hardirq_ns: u64,
    /// By softirq vectors, net of both.
    pub softirq_ns: u64,
    /// By the hypervisor, up to the last switch: the kernel's own total since boot.
    pub stolen_ns: u64,
}

impl Taken {
    /// What all took together.
    #[inline(always)]
    pub const fn all_ns(&self) -> u64 {
        self.interrupts_ns().wrapping_add(self.softirq_ns).wrapping_add(self.stolen_ns)
    }

    /// What NMIs and hardirqs took together.
    #[inline(always)]
    pub const fn interrupts_ns(&self) -> u64 {
        self.nmi_ns.wrapping_add(self.hardirq_ns)
    }
}

/// An interval that is still open: when it began and what interrupts had taken by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Frame {
    /// Time of entry; 0 where no interval is open.
    pub start_ns: u64,
    /// [`Taken::interrupts_ns`] at entry.
    pub taken_ns: u64,
}

impl Frame {
    /// Opens an interval at `now_ns`.
    #[inline(always)]
    pub const fn open(now_ns: u64, taken: &Taken) -> Self {
        Self { start_ns: now_ns, taken_ns: taken.interrupts_ns() }
    }

    /// Net duration up to `now_ns`, or `None` where the clock ran backwards.
    #[inline(always)]
    pub const fn net_ns(&self, now_ns: u64, taken: &Taken) -> Option<u64> {
        if now_ns < self.start_ns {
            return None;
        }
        let gross = now_ns - self.start_ns;
        let nested = taken.interrupts_ns().wrapping_sub(self.taken_ns);
        // An NMI reports its own duration by another clock, so it can exceed the gap by a little.
        if nested >= gross { Some(0) } else { Some(gross - nested) }
    }

    /// The interval, which ends at `now_ns`.
    #[inline(always)]
    const fn close(&self, now_ns: u64, taken: &Taken) -> Result<Ended, Loss> {
        match self.net_ns(now_ns, taken) {
            Some(net_ns) => Ok(Ended { start_ns: self.start_ns, net_ns }),
            None => Err(Loss::ClockBackwards),
        }
    }
}

/// Deepest nesting of `irq_handler_entry` that is followed. Handlers run with interrupts off, so
/// anything above 1 is a driver that enables them.
pub const IRQ_DEPTH: usize = 4;

/// A handler of NMIs that took longer by an event is none, ns; a sum of such stays in range.
pub const MAX_NMI_NS: u64 = 1_000_000_000;

/// A softirq whose task was switched away from: with PREEMPT_RT they run in threads, which others may preempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Suspended {
    pid: u32,
    /// Vector number plus one; 0 = none is suspended.
    running: u32,
    /// What it took so far; once it goes on, what it took before.
    net_ns: u64,
}

impl Suspended {
    /// What the softirq that ends took before its task went on last.
    #[inline(always)]
    pub const fn before_ns(&mut self) -> u64 {
        if self.running == 0 { core::mem::replace(&mut self.net_ns, 0) } else { 0 }
    }
}

/// The interrupts that run on one CPU, and what those before them took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Nesting {
    // In the order in which other CPUs read it when they wake a task up here.
    /// Net interrupt time so far.
    pub taken: Taken,
    /// The vector that runs (vectors do not nest: interrupts are off).
    vector: Frame,
    /// The softirq that runs (they do not nest either).
    softirq: Frame,
    /// Vector number of the running softirq plus one; 0 = none runs.
    softirq_running: u32,
    /// Number of irq handlers that run.
    irq_depth: u32,
    /// Their irq numbers, outermost first.
    irqs: [u32; IRQ_DEPTH],
    irq_frames: [Frame; IRQ_DEPTH],
    /// Number of the vector that runs.
    vector_running: u32,
    padding: u32,
}

/// An interrupt that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub start_ns: u64,
    /// How long it ran itself, without what interrupted it.
    pub net_ns: u64,
}

impl Nesting {
    /// A handler of a device interrupt begins. One that nests deeper than [`IRQ_DEPTH`] counts as its
    /// outer handlers' time.
    /// Errors: [`Loss::OutOfRange`] where it nests too deep.
    #[inline(always)]
    pub fn enter_irq(&mut self, irq: u32, now_ns: u64) -> Result<(), Loss> {
        let depth = core::hint::black_box(self.irq_depth) as usize;
        if depth >= IRQ_DEPTH {
            return Err(Loss::OutOfRange);
        }
        self.irqs[depth] = irq;
        self.irq_frames[depth] = Frame::open(now_ns, &self.taken);
        self.irq_depth = depth as u32 + 1;
        Ok(())
    }

    /// A handler of a device interrupt ends.
    /// Errors: where its begin was not seen, or lies in the future.
    #[inline(always)]
    pub fn exit_irq(&mut self, irq: u32, now_ns: u64) -> Result<Ended, Loss> {
        let depth = core::hint::black_box(self.irq_depth.wrapping_sub(1)) as usize;
        if depth >= IRQ_DEPTH {
            return Err(Loss::NoStart);
        }
        self.irq_depth = depth as u32;
        if self.irqs[depth] != irq {
            // The programs were attached in the middle of a handler.
            return Err(Loss::NoStart);
        }
        let ended = self.irq_frames[depth].close(now_ns, &self.taken)?;
        self.taken.hardirq_ns += ended.net_ns;
        Ok(ended)
    }

    #[inline(always)]
    pub fn enter_vector(&mut self, which: Vector, now_ns: u64) {
        self.vector = Frame::open(now_ns, &self.taken);
        self.vector_running = which as u32;
    }

    /// Errors: where its begin was not seen, or lies in the future.
    #[inline(always)]
    pub fn exit_vector(&mut self, now_ns: u64) -> Result<Ended, Loss> {
        let frame = self.vector;
        self.vector.start_ns = 0;
        if frame.start_ns == 0 {
            return Err(Loss::NoStart);
        }
        let ended = frame.close(now_ns, &self.taken)?;
        self.taken.hardirq_ns += ended.net_ns;
        Ok(ended)
    }

    #[inline(always)]
    pub fn enter_softirq(&mut self, vector: u32, now_ns: u64) {
        self.softirq = Frame::open(now_ns, &self.taken);
        self.softirq_running = vector + 1;
    }

    /// A softirq vector ends.
    /// Errors: where its begin was not seen, or lies in the future.
    #[inline(always)]
    pub fn exit_softirq(&mut self, vector: u32, now_ns: u64) -> Result<Ended, Loss> {
        let running = self.softirq_running;
        self.softirq_running = 0;
        if running != vector + 1 {
            return Err(Loss::NoStart);
        }
        let ended = self.softirq.close(now_ns, &self.taken)?;
        self.taken.softirq_ns += ended.net_ns;
        Ok(ended)
    }

    /// The softirq that runs, if one does, is suspended with its task.
    #[inline(always)]
    pub fn suspend_softirq(
        &mut self,
        suspended: &mut Suspended,
        pid: u32,
        now_ns: u64,
    ) -> Option<u32> {
        let running = self.softirq_running;
        if running == 0 {
            return None;
        }
        self.softirq_running = 0;
        let net_ns = self.softirq.net_ns(now_ns, &self.taken).unwrap_or(0);
        self.taken.softirq_ns += net_ns;
        *suspended = Suspended { pid, running, net_ns: net_ns + suspended.before_ns() };
        Some(running - 1)
    }

    /// The softirq that was suspended with this task, if one was, goes on.
    #[inline(always)]
    pub fn resume_softirq(&mut self, suspended: &mut Suspended, pid: u32, now_ns: u64) {
        if suspended.running != 0 && suspended.pid == pid {
            self.softirq = Frame::open(now_ns, &self.taken);
            self.softirq_running = suspended.running;
            suspended.running = 0;
        }
    }

    /// NMI handlers ran for `delta_ns`, by their own clock. NMIs do not nest.
    #[inline(always)]
    pub fn handled_nmi(&mut self, delta_ns: u64) {
        self.taken.nmi_ns += delta_ns;
    }

    /// Whether a handler or a vector runs.
    #[inline(always)]
    pub const fn in_hardirq(&self) -> bool {
        self.irq_depth != 0 || self.vector.start_ns != 0
    }

    /// Whether a softirq vector runs, interrupted or not.
    #[inline(always)]
    pub const fn in_softirq(&self, vector: u32) -> bool {
        self.softirq_running == vector + 1
    }

    /// The innermost handler, vector or softirq that runs, as a cause with its culprit. NMIs are not followed.
    #[inline(always)]
    pub fn running(&self) -> Option<(Cause, u64)> {
        if self.vector.start_ns != 0 {
            // A vector runs with interrupts off.
            return Some((Cause::Hardirq, VECTOR_SOURCE | self.vector_running as u64));
        }
        if self.irq_depth != 0 {
            let innermost = core::hint::black_box(self.irq_depth.wrapping_sub(1)) as usize;
            let irq = if innermost < IRQ_DEPTH { self.irqs[innermost] as u64 } else { UNKNOWN };
            return Some((Cause::Hardirq, irq));
        }
        if self.softirq_running != 0 {
            return Some((Cause::Softirq, self.softirq_running as u64 - 1));
        }
        None
    }

    /// What has been taken from the CPU up to `now_ns`, with what runs at that moment.
    ///
    /// Exact on the CPU itself; a reading from another CPU may miss or double what begins or ends
    /// at that very moment. A vector that interrupts a handler (one that enables interrupts) hides what
    /// the handler took so far until it ends.
    #[inline(always)]
    pub fn taken_by(&self, now_ns: u64) -> Taken {
        let mut taken = self.taken;
        let outermost = if self.vector.start_ns != 0 {
            self.vector
        } else if self.irq_depth != 0 {
            self.irq_frames[0]
        } else {
            Frame { start_ns: u64::MAX, taken_ns: 0 }
        };
        if let Some(net_ns) = outermost.net_ns(now_ns, &taken) {
            taken.hardirq_ns += net_ns;
        }
        if self.softirq_running != 0
            && let Some(net_ns) = self.softirq.net_ns(now_ns, &taken)
        {
            taken.softirq_ns += net_ns;
        }
        taken
    }
}

#[cfg(test)]
mod tests;
