//! What the programs of the hooks do.

mod block;
mod call;
mod irq;
mod memory;
mod net;
mod sched;
mod signal;
mod sock;
mod softirq;
mod timer;

use core::ffi::c_void;

use noise_common::for_each_hook;
use noise_common::hooks::{Edge, Hook, Vector};

use crate::kernel::{Access, Raw, Typed};
use crate::programs::define_programs;

for_each_hook!(define_programs);

/// What each hook does; the match is resolved at compile time in every program.
#[inline(always)]
fn handle<A: Access>(hook: Hook, access: A) -> Option<()> {
    match hook {
        Hook::SchedSwitch => sched::switch(access),
        Hook::SchedWakeup => sched::wakeup::<A, false>(access),
        Hook::SchedWakeupNew => sched::wakeup::<A, true>(access),
        Hook::SchedMigrate => sched::migrate(access),
        Hook::SchedWaking => sched::waking(access),
        Hook::SchedFork => sched::fork(access),
        Hook::SchedExec => sched::exec(access),
        Hook::SchedExit => sched::exit(access),
        Hook::SchedWait => sched::wait(access),
        Hook::IrqHandlerEntry => irq::handler_entry(access),
        Hook::IrqHandlerExit => irq::handler_exit(access),
        Hook::NmiHandler => irq::nmi(access),
        Hook::HrtimerEntry => timer::expire_entry(access),
        Hook::HrtimerExit => timer::expire_exit(access),
        Hook::SignalGenerate => signal::generate(access),
        Hook::SignalDeliver => signal::deliver(access),
        Hook::SockSend => sock::sent(access),
        Hook::SockReceive => sock::received(access),
        Hook::SockState => sock::state(access),
        Hook::DataReady => sock::ready(access),
        Hook::CallEntry => call::enter(access),
        Hook::CallExit => call::exit(access),
        Hook::SoftirqRaise => softirq::raise(access),
        Hook::SoftirqEntry => softirq::entry(access),
        Hook::SoftirqExit => softirq::exit(access),
        Hook::Vector(vector, Edge::Entry) => irq::vector_entry(access, vector),
        Hook::Vector(vector, Edge::Exit) => irq::vector_exit(access, vector),
        Hook::BlockInsert => block::insert(access),
        Hook::BlockIssue => block::issue(access),
        Hook::BlockRequeue => block::requeue(access),
        Hook::BlockMerge => block::merge(access),
        Hook::BlockComplete => block::complete(access),
        Hook::NetQueue => net::queue(access),
        Hook::NetXmit => net::start_xmit(access),
        Hook::NetReceive => net::receive(access),
        Hook::TcpRetransmit => net::retransmit(access),
        Hook::FreeSkb => net::free(access),
        Hook::ReclaimBegin | Hook::MemcgBegin => memory::reclaim_begin(access),
        Hook::ReclaimEnd | Hook::MemcgEnd => memory::reclaim_end(access),
        Hook::CompactionBegin => memory::compaction_begin(access),
        Hook::CompactionEnd => memory::compaction_end(access),
        Hook::DirtyBalance => memory::balance_dirty(access),
        // Counted from /proc: a program for each fault would cost too much. Not loaded here.
        Hook::PageFault => None,
    }
}
