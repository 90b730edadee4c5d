//! Hooks of signals: they write events and measure nothing.

use noise_common::store::ipc::StoredSignal;
use noise_common::store::{Class, EventKind};

use crate::kernel::{Access, TaskStruct, signal_code};
use crate::maps::{clock_ns, cpu_state};
use crate::store::{self, records};

/// `signal_generate(signal, info, task, group, result)`: on the CPU of whoever sends it.
#[inline(always)]
pub fn generate<A: Access>(access: A) -> Option<()> {
    let state = cpu_state()?;
    if !records(state, Class::Ipc) {
        return None;
    }
    let task = TaskStruct::argument(access, 2);
    let signal = StoredSignal {
        number: access.argument(0) as u8,
        code: signal_code(access.address(1)),
        tid: task.pid(),
        pid: task.tgid(),
        to_group: access.argument(3) as u32 != 0,
        result: access.argument(4) as u8,
    };
    store::signal(state, EventKind::SignalGenerate, &signal, clock_ns());
    Some(())
}

/// `signal_deliver(signal, info, action)`: by the task that gets it.
#[inline(always)]
pub fn deliver<A: Access>(access: A) -> Option<()> {
    let state = cpu_state()?;
    if !records(state, Class::Ipc) {
        return None;
    }
    let task = TaskStruct::current(access);
    let signal = StoredSignal {
        number: access.argument(0) as u8,
        code: signal_code(access.address(1)),
        tid: task.pid(),
        pid: task.tgid(),
        to_group: false,
        result: 0,
    };
    store::signal(state, EventKind::SignalDeliver, &signal, clock_ns());
    Some(())
}
