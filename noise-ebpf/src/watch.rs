//! Programs that report, event by event, what takes time from CPUs that are measured: for `noised
//! osnoise` and `noised bench`, loaded only while they run.
//!
//! The logic is in noise-common's `watch`; here are its hooks, its state of each CPU, and the ring.
#![no_std]
#![no_main]

#[expect(dead_code, reason = "what the measuring programs read beside")]
mod kernel;
mod object;
mod programs;

use core::ffi::c_void;

use aya_ebpf::bindings::{BPF_F_MMAPABLE, BPF_RB_NO_WAKEUP};
use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_get_smp_processor_id, bpf_ktime_get_ns};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, RingBuf};
use noise_common::for_each_hook;
use noise_common::hooks::{Edge, Hook, Vector};
use noise_common::signals::SOFTIRQ_VECTORS;
use noise_common::watch::{NamedThread, NoiseEvent, Outbox, WatchedCpu};

use crate::kernel::{Access, Raw, TaskStruct, Typed};
use crate::programs::define_programs;

/// State of each CPU. Sized at load to the possible CPUs.
#[map]
static WATCH_CPUS: Array<WatchedCpu> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// The events. Sized at load.
#[map]
static WATCH_RING: RingBuf = RingBuf::with_byte_size(256 * 1024, 0);

for_each_hook!(define_programs);

/// What each hook does; the match is resolved at compile time in every program. Hooks at which no
/// time is taken have empty programs here, which are not loaded.
#[inline(always)]
fn handle<A: Access>(hook: Hook, access: A) -> Option<()> {
    match hook {
        Hook::SchedSwitch => switch(access),
        Hook::IrqHandlerEntry => {
            // SAFETY: the state is this CPU's.
            unsafe {
                let _ = (*state()?).nesting.enter_irq(access.argument(0) as u32, clock_ns());
            };
            Some(())
        }
        Hook::IrqHandlerExit => {
            let state = state()?;
            // SAFETY: as above.
            unsafe {
                let is_due = (*state).exit_irq(access.argument(0) as u32, clock_ns());
                send(is_due, &raw mut (*state).main)
            }
        }
        Hook::SoftirqEntry => {
            let vector = softirq_vector(access)?;
            // SAFETY: as above.
            unsafe { (*state()?).nesting.enter_softirq(vector, clock_ns()) };
            Some(())
        }
        Hook::SoftirqExit => {
            let (vector, state) = (softirq_vector(access)?, state()?);
            // SAFETY: as above.
            unsafe {
                let is_due = (*state).exit_softirq(vector, clock_ns());
                send(is_due, &raw mut (*state).softirqs)
            }
        }
        Hook::NmiHandler => nmi(access),
        Hook::PageFault => page_fault(),
        Hook::Vector(vector, Edge::Entry) => {
            // SAFETY: as above.
            unsafe { (*state()?).nesting.enter_vector(vector, clock_ns()) };
            Some(())
        }
        Hook::Vector(vector, Edge::Exit) => vector_exit(access, vector),
        _ => None,
    }
}

#[inline(always)]
fn this_cpu() -> u32 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_get_smp_processor_id() }
}

#[inline(always)]
fn state() -> Option<*mut WatchedCpu> {
    WATCH_CPUS.get_ptr_mut(this_cpu())
}

/// CLOCK_MONOTONIC, ns.
#[inline(always)]
fn clock_ns() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_ktime_get_ns() }
}

/// Sends the event of an outbox, if it is to be sent.
#[inline(always)]
fn send(is_due: bool, outbox: *mut Outbox) -> Option<()> {
    if is_due {
        // SAFETY: the outbox is of this CPU and of the level of this program.
        unsafe {
            (*outbox).event.cpu = this_cpu();
            let event = &raw const (*outbox).event;
            let flags = u64::from(BPF_RB_NO_WAKEUP);
            if WATCH_RING.output::<NoiseEvent>(&*event, flags).is_err() {
                (*outbox).lost += 1;
            } else {
                (*outbox).sent += 1;
            }
        }
    }
    Some(())
}

/// `sched_switch(preempt, prev, next[, prev_state])`.
#[inline(always)]
fn switch<A: Access>(access: A) -> Option<()> {
    let named = |task: TaskStruct<A>| NamedThread { pid: task.pid(), comm: task.comm() };
    let (previous, next) =
        (named(TaskStruct::argument(access, 1)), named(TaskStruct::argument(access, 2)));
    let state = state()?;
    // SAFETY: the state is this CPU's, and interrupts are off.
    unsafe {
        let is_due = (*state).switch(previous, next, clock_ns());
        send(is_due, &raw mut (*state).main)
    }
}

/// `nmi_handler(handler, delta_ns, handled)`.
#[inline(always)]
fn nmi<A: Access>(access: A) -> Option<()> {
    let delta_ns = access.argument(1) as i64;
    if delta_ns < 0 {
        return None;
    }
    let state = state()?;
    // SAFETY: the state is this CPU's, and NMIs do not nest.
    unsafe {
        let is_due = (*state).handled_nmi(delta_ns as u64, clock_ns());
        send(is_due, &raw mut (*state).nmis)
    }
}

/// `page_fault_user(address, registers, error)`.
#[inline(always)]
fn page_fault() -> Option<()> {
    let state = state()?;
    // SAFETY: the state is this CPU's.
    unsafe {
        let workload = (*state).workload;
        if workload == 0 || workload != bpf_get_current_pid_tgid() as u32 {
            return None;
        }
        let is_due = (*state).faulted(clock_ns());
        send(is_due, &raw mut (*state).main)
    }
}

#[inline(always)]
fn softirq_vector<A: Access>(access: A) -> Option<u32> {
    let vector = access.argument(0) as u32;
    ((vector as usize) < SOFTIRQ_VECTORS.len()).then_some(vector)
}

#[inline(always)]
fn vector_exit<A: Access>(access: A, vector: Vector) -> Option<()> {
    let (state, number) = (state()?, access.argument(0) as u32);
    // SAFETY: the state is this CPU's, and interrupts are off.
    unsafe {
        let is_due = (*state).exit_vector(vector as u32, number, clock_ns());
        send(is_due, &raw mut (*state).main)
    }
}
