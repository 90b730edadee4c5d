//! What interrupts a CPU that is measured, event by event.
//!
//! The state of one CPU between its kernel events, without maps and helpers, so that it is tested on the
//! host. Times are net, as in [`crate::nesting`]: what interrupts an interval is not part of it. An
//! interval is reported when it ends, inner ones before outer ones.

use crate::loss::Loss;
use crate::nesting::{Ended, Nesting};

/// What a [`NoiseEvent`] was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum NoiseKind {
    Nmi,
    /// A device interrupt's handler; `id` = the irq.
    Hardirq,
    /// An interrupt vector without a handler; `id` = [`crate::hooks::Vector`].
    Vector,
    /// A softirq vector; `id` = its number.
    Softirq,
    /// A thread; `id` = its pid.
    Thread,
    /// A thread whose end was not seen: `end_ns` is when another one was seen to be running.
    EndlessThread,
    /// A page fault; it has no end.
    PageFault,
}

/// All kinds, in order of their discriminants.
pub const KINDS: [NoiseKind; 7] = [
    NoiseKind::Nmi,
    NoiseKind::Hardirq,
    NoiseKind::Vector,
    NoiseKind::Softirq,
    NoiseKind::Thread,
    NoiseKind::EndlessThread,
    NoiseKind::PageFault,
];

/// One event that took time from the CPU. Also the record of the ring buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct NoiseEvent {
    /// When it began, CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    pub end_ns: u64,
    /// How long it ran itself, without what interrupted it, ns.
    pub net_ns: u64,
    /// The thread's name, else zeros.
    pub comm: [u64; 2],
    pub cpu: u32,
    pub kind: u32,
    /// What it was, by kind.
    pub id: u32,
    /// The interrupt vector's number as the kernel has it, else 0.
    pub number: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamedThread {
    pub pid: u32,
    pub comm: [u64; 2],
}

/// The thread that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Running {
    /// Since when; 0 = not known.
    pub start_ns: u64,
    /// What interrupts and softirqs had taken by then.
    pub taken_ns: u64,
    pub comm: [u64; 2],
    pub pid: u32,
    pub padding: u32,
}

/// Where the programs of one level write their events. Those of another level may interrupt them at
/// any moment, also between writing an event and sending it, so each level has an outbox of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Outbox {
    /// The event that is sent next, or was sent last.
    pub event: NoiseEvent,
    pub sent: u64,
    /// Events that found the ring full.
    pub lost: u64,
}

/// One CPU. Memory-mapped by the process that measures, which writes `workload` alone.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct WatchedCpu {
    /// Pid of the thread that measures there now; 0 = nothing is sent for this CPU.
    pub workload: u32,
    pub padding: u32,
    /// The interrupts that run, and what those before them took.
    pub nesting: Nesting,
    pub running: Running,
    /// Events that end while interrupts are off: interrupts, switches and page faults.
    pub main: Outbox,
    /// Events that end while interrupts are on: softirqs.
    pub softirqs: Outbox,
    pub nmis: Outbox,
}

impl WatchedCpu {
    /// Events that were sent so far.
    pub const fn sent(&self) -> u64 {
        self.main.sent + self.softirqs.sent + self.nmis.sent
    }

    /// Events that found the ring full so far.
    pub const fn lost(&self) -> u64 {
        self.main.lost + self.softirqs.lost + self.nmis.lost
    }

    /// A handler of a device interrupt ends. True where [`WatchedCpu::main`] is to be sent.
    #[inline(always)]
    pub fn exit_irq(&mut self, irq: u32, now_ns: u64) -> bool {
        let ended = self.nesting.exit_irq(irq, now_ns);
        self.main.put_ended(NoiseKind::Hardirq, irq, ended, now_ns) && self.workload != 0
    }

    /// A vector ends. True where [`WatchedCpu::main`] is to be sent.
    #[inline(always)]
    pub fn exit_vector(&mut self, vector: u32, number: u32, now_ns: u64) -> bool {
        let ended = self.nesting.exit_vector(now_ns);
        if !self.main.put_ended(NoiseKind::Vector, vector, ended, now_ns) {
            return false;
        }
        self.main.event.number = number;
        self.workload != 0
    }

    /// A softirq vector ends. True where [`WatchedCpu::softirqs`] is to be sent.
    #[inline(always)]
    pub fn exit_softirq(&mut self, vector: u32, now_ns: u64) -> bool {
        let ended = self.nesting.exit_softirq(vector, now_ns);
        self.softirqs.put_ended(NoiseKind::Softirq, vector, ended, now_ns) && self.workload != 0
    }

    /// NMI handlers ran for `delta_ns`, by their own clock. True where [`WatchedCpu::nmis`] is to be sent.
    #[inline(always)]
    pub fn handled_nmi(&mut self, delta_ns: u64, now_ns: u64) -> bool {
        self.nesting.handled_nmi(delta_ns);
        self.nmis.put(NoiseKind::Nmi, 0, now_ns.saturating_sub(delta_ns), now_ns, delta_ns);
        self.workload != 0
    }

    /// A page fault of the thread that measures. True where [`WatchedCpu::main`] is to be sent.
    #[inline(always)]
    pub fn faulted(&mut self, now_ns: u64) -> bool {
        self.main.put(NoiseKind::PageFault, 0, now_ns, now_ns, 0);
        self.workload != 0
    }

    /// The CPU goes from one thread to another. The thread that measures is not reported; the idle task is: it runs
    /// where the kernel holds real-time threads up. A thread has the name that it leaves with, since it may have
    /// become another program while it ran. True where [`WatchedCpu::main`] is to be sent.
    #[inline(always)]
    pub fn switch(&mut self, previous: NamedThread, next: NamedThread, now_ns: u64) -> bool {
        let before = self.running;
        let taken = &self.nesting.taken;
        let taken_ns = taken.interrupts_ns().wrapping_add(taken.softirq_ns);
        self.running =
            Running { start_ns: now_ns, taken_ns, comm: next.comm, pid: next.pid, padding: 0 };
        if before.start_ns == 0 || before.pid == self.workload || now_ns < before.start_ns {
            return false;
        }
        let (kind, comm) = if before.pid == previous.pid {
            (NoiseKind::Thread, previous.comm)
        } else {
            (NoiseKind::EndlessThread, before.comm)
        };
        let gross_ns = now_ns - before.start_ns;
        let net_ns = gross_ns.saturating_sub(taken_ns.wrapping_sub(before.taken_ns));
        self.main.put(kind, before.pid, before.start_ns, now_ns, net_ns);
        self.main.event.comm = comm;
        self.workload != 0
    }
}

impl Outbox {
    /// An interrupt that ended, if its begin was seen. Whether it was.
    #[inline(always)]
    fn put_ended(
        &mut self,
        kind: NoiseKind,
        id: u32,
        ended: Result<Ended, Loss>,
        now_ns: u64,
    ) -> bool {
        let Ok(Ended { start_ns, net_ns }) = ended else { return false };
        self.put(kind, id, start_ns, now_ns, net_ns);
        true
    }

    #[inline(always)]
    fn put(&mut self, kind: NoiseKind, id: u32, start_ns: u64, end_ns: u64, net_ns: u64) {
        self.event.start_ns = start_ns;
        self.event.end_ns = end_ns;
        self.event.net_ns = net_ns;
        self.event.comm = [0; 2];
        self.event.kind = kind as u32;
        self.event.id = id;
        self.event.number = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::Vector;

    fn cpu() -> WatchedCpu {
        WatchedCpu {
            workload: 7,
            padding: 0,
            nesting: Nesting::default(),
            running: Running::default(),
            main: Outbox::default(),
            softirqs: Outbox::default(),
            nmis: Outbox::default(),
        }
    }

    /// A thread whose name is its pid twice.
    fn thread(pid: u32) -> NamedThread {
        NamedThread { pid, comm: [pid.into(); 2] }
    }

    fn last(outbox: &Outbox) -> (u32, u32, u64, u64, u64) {
        let event = outbox.event;
        (event.kind, event.id, event.start_ns, event.end_ns, event.net_ns)
    }

    #[test]
    fn kinds_are_in_order() {
        for (index, kind) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, index);
        }
    }

    #[test]
    fn everything_nested_is_reported_once() {
        let mut cpu = cpu();
        // The thread that measures gives way to another, in whose time comes a softirq with an irq
        // with an NMI in it.
        assert!(!cpu.switch(thread(7), thread(9), 1_000));
        cpu.nesting.enter_softirq(3, 1_100);
        cpu.nesting.enter_irq(36, 1_200).unwrap();
        assert!(cpu.handled_nmi(20, 1_250));
        assert_eq!(last(&cpu.nmis), (NoiseKind::Nmi as u32, 0, 1_230, 1_250, 20));
        assert!(cpu.exit_irq(36, 1_300));
        assert_eq!(last(&cpu.main), (NoiseKind::Hardirq as u32, 36, 1_200, 1_300, 80));
        assert!(cpu.exit_softirq(3, 1_400));
        assert_eq!(last(&cpu.softirqs), (NoiseKind::Softirq as u32, 3, 1_100, 1_400, 200));
        assert!(cpu.switch(thread(9), thread(7), 1_500));
        assert_eq!(last(&cpu.main), (NoiseKind::Thread as u32, 9, 1_000, 1_500, 200));
        assert_eq!(cpu.main.event.comm, [9, 9]);
        // 20 + 80 + 200 + 200 = 500, the whole time that the measuring thread was away.
    }

    #[test]
    fn what_interrupts_a_program_leaves_its_event_whole() {
        let mut cpu = cpu();
        cpu.nesting.enter_softirq(3, 100);
        assert!(cpu.exit_softirq(3, 200));
        // Its program has not sent it yet.
        cpu.nesting.enter_vector(Vector::LocalTimer, 210);
        assert!(cpu.handled_nmi(5, 218));
        assert!(cpu.exit_vector(0, 236, 220));
        assert_eq!(last(&cpu.softirqs), (NoiseKind::Softirq as u32, 3, 100, 200, 100));
        assert_eq!(last(&cpu.main), (NoiseKind::Vector as u32, 0, 210, 220, 5));
        assert_eq!(last(&cpu.nmis), (NoiseKind::Nmi as u32, 0, 213, 218, 5));
    }

    #[test]
    fn a_thread_has_the_name_that_it_leaves_with() {
        let mut cpu = cpu();
        assert!(!cpu.switch(thread(7), NamedThread { pid: 9, comm: [1, 2] }, 10));
        assert!(cpu.switch(NamedThread { pid: 9, comm: [3, 4] }, thread(7), 20));
        assert_eq!(cpu.main.event.comm, [3, 4]);
    }

    #[test]
    fn all_but_the_measuring_thread_are_reported() {
        let mut cpu = cpu();
        assert!(!cpu.switch(thread(7), thread(0), 10));
        assert!(cpu.switch(thread(0), thread(7), 20));
        assert!(!cpu.switch(thread(7), thread(0), 30));
    }

    #[test]
    fn a_thread_whose_end_was_not_seen_is_reported_as_endless() {
        let mut cpu = cpu();
        assert!(!cpu.switch(thread(7), thread(1), 10));
        // From thread 1 back to the measuring one: not seen.
        assert!(cpu.switch(thread(7), thread(0), 90));
        assert_eq!(last(&cpu.main), (NoiseKind::EndlessThread as u32, 1, 10, 90, 80));
        assert_eq!(cpu.main.event.comm, [1, 1]);
    }

    #[test]
    fn nothing_is_sent_while_no_thread_measures() {
        let mut cpu = cpu();
        cpu.workload = 0;
        cpu.nesting.enter_vector(Vector::LocalTimer, 5);
        assert!(!cpu.exit_vector(0, 236, 6));
        assert!(!cpu.handled_nmi(1, 9));
        assert_eq!(cpu.nesting.taken.hardirq_ns, 1);
    }

    #[test]
    fn intervals_without_begin_or_end_are_not_reported() {
        let mut cpu = cpu();
        assert!(!cpu.exit_irq(1, 5));
        assert!(!cpu.exit_vector(0, 236, 5));
        assert!(!cpu.exit_softirq(0, 5));
        cpu.nesting.enter_irq(1, 10).unwrap();
        assert!(!cpu.exit_irq(2, 11));
    }

    #[test]
    fn a_clock_that_runs_backwards_yields_no_event() {
        let mut cpu = cpu();
        cpu.nesting.enter_irq(1, 10).unwrap();
        assert!(!cpu.exit_irq(1, 9));
        assert!(!cpu.switch(thread(7), thread(8), 10));
        assert!(!cpu.switch(thread(8), thread(7), 9));
    }
}
