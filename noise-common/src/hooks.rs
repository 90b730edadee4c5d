//! The table of hooks: one kernel tracepoint, one program.
//!
//! Programs are `tp_btf` (typed arguments, direct loads). Where Linux 5.10 does not load one, it exists as `raw_tp`
//! (untyped, probe reads) too. Names have at most 15 characters, the kernel's limit.

/// How a program of a hook is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// `tp_btf`: the verifier knows the argument types, fields are loaded directly.
    TpBtf,
    /// `raw_tp`: each kernel field costs a probe read. Of the kernels tried, from 5.10 to 7.3, one needs
    /// it: 5.10 has no `bpf_get_current_task_btf`, so hooks of what the task that runs does are attached like this there.
    RawTp,
}

impl Attach {
    /// The order in which they are tried. Measured, calling either kind costs the same, and typed loads
    /// are cheaper than probe reads.
    pub const ORDER: [Self; 2] = [Self::TpBtf, Self::RawTp];

    /// The name that kernel documentation uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TpBtf => "tp_btf",
            Self::RawTp => "raw_tp",
        }
    }
}

/// Calls `$then!` with the two tables. Hooks: variant, tracepoint, `tp_btf` program, `raw_tp` program if there is one.
/// Interrupt vectors, each of which is two hooks: variant, name, programs of its entry and of its exit.
#[macro_export]
macro_rules! for_each_hook {
    ($then:ident) => {
        $then! {
            hooks {
                SchedSwitch "sched_switch" n_sched_switch;
                SchedWakeup "sched_wakeup" n_sched_wakeup;
                SchedWakeupNew "sched_wakeup_new" n_sched_wakenew;
                SchedMigrate "sched_migrate_task" n_sched_migrate;
                SchedWaking "sched_waking" n_sched_waking;
                SchedFork "sched_process_fork" n_sched_fork;
                SchedExec "sched_process_exec" n_sched_exec;
                SchedExit "sched_process_exit" n_sched_exit;
                SchedWait "sched_process_wait" n_sched_wait;
                IrqHandlerEntry "irq_handler_entry" n_irq_in;
                IrqHandlerExit "irq_handler_exit" n_irq_out;
                SoftirqRaise "softirq_raise" n_softirq_raise;
                SoftirqEntry "softirq_entry" n_softirq_in;
                SoftirqExit "softirq_exit" n_softirq_out;
                NmiHandler "nmi_handler" n_nmi;
                HrtimerEntry "hrtimer_expire_entry" n_hrtimer_in;
                HrtimerExit "hrtimer_expire_exit" n_hrtimer_out;
                BlockInsert "block_rq_insert" n_block_insert;
                BlockIssue "block_rq_issue" n_block_issue;
                BlockRequeue "block_rq_requeue" n_block_requeue;
                BlockMerge "block_rq_merge" n_block_merge;
                BlockComplete "block_rq_complete" n_block_done;
                NetQueue "net_dev_queue" n_net_queue;
                NetXmit "net_dev_start_xmit" n_net_xmit;
                NetReceive "netif_receive_skb" n_net_receive;
                TcpRetransmit "tcp_retransmit_skb" n_tcp_retrans;
                FreeSkb "kfree_skb" n_kfree_skb;
                ReclaimBegin "mm_vmscan_direct_reclaim_begin" n_reclaim_in r_reclaim_in;
                ReclaimEnd "mm_vmscan_direct_reclaim_end" n_reclaim_out r_reclaim_out;
                MemcgBegin "mm_vmscan_memcg_reclaim_begin" n_memcg_in r_memcg_in;
                MemcgEnd "mm_vmscan_memcg_reclaim_end" n_memcg_out r_memcg_out;
                CompactionBegin "mm_compaction_begin" n_compact_in r_compact_in;
                CompactionEnd "mm_compaction_end" n_compact_out r_compact_out;
                DirtyBalance "balance_dirty_pages" n_balance_dirty r_balance_dirty;
                CallEntry "sys_enter" n_call_in r_call_in;
                CallExit "sys_exit" n_call_out r_call_out;
                SignalGenerate "signal_generate" n_signal_gen;
                SignalDeliver "signal_deliver" n_signal_take r_signal_take;
                SockSend "sock_send_length" n_sock_send;
                SockReceive "sock_recv_length" n_sock_recv;
                SockState "inet_sock_set_state" n_sock_state;
                DataReady "sk_data_ready" n_data_ready;
                PageFault "page_fault_user" n_page_fault;
            }
            vectors {
                LocalTimer "local_timer" n_timer_in n_timer_out;
                Reschedule "reschedule" n_resched_in n_resched_out;
                CallFunction "call_function" n_callfn_in n_callfn_out;
                CallFunctionSingle "call_function_single" n_callone_in n_callone_out;
                IrqWork "irq_work" n_irqwork_in n_irqwork_out;
                PlatformIpi "x86_platform_ipi" n_platipi_in n_platipi_out;
                Spurious "spurious_apic" n_spurious_in n_spurious_out;
                ApicError "error_apic" n_apicerr_in n_apicerr_out;
                Thermal "thermal_apic" n_thermal_in n_thermal_out;
                Threshold "threshold_apic" n_thresh_in n_thresh_out;
                DeferredError "deferred_error_apic" n_deferr_in n_deferr_out;
            }
        }
    };
}

/// Which of the two hooks of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Edge {
    Entry,
    Exit,
}

macro_rules! define_hooks {
    (
        hooks { $($variant:ident $tracepoint:literal $typed:ident $($raw:ident)?;)* }
        vectors { $($vector:ident $name:literal $typed_in:ident $typed_out:ident;)* }
    ) => {
        /// One kernel attach point. Many signals share one hook; a hook has one program.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Hook {
            $(#[doc = concat!("The tracepoint `", $tracepoint, "`.")] $variant,)*
            /// The tracepoints of an interrupt vector.
            Vector(Vector, Edge),
        }

        /// An x86 interrupt vector that the kernel serves without an irq handler; the discriminant
        /// is its number among the subjects of the signal `vector`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum Vector {
            $(#[doc = concat!("`", $name, "`.")] $vector,)*
        }

        /// Names of the vectors, as the kernel's tracepoints have them.
        pub const VECTORS: [&str; [$(Vector::$vector),*].len()] = [$($name,)*];

        /// The hooks of the vectors, the two of each side by side.
        pub const VECTOR_HOOKS: &[Hook] = &[
            $(Hook::Vector(Vector::$vector, Edge::Entry),
              Hook::Vector(Vector::$vector, Edge::Exit),)*
        ];

        /// The hooks of no vector.
        const OTHER_HOOKS: &[Hook] = &[$(Hook::$variant,)*];

        impl Hook {
            /// Name of the kernel tracepoint, which is also the hook's label in metrics.
            pub const fn tracepoint(self) -> &'static str {
                match self {
                    $(Self::$variant => $tracepoint,)*
                    $(Self::Vector(Vector::$vector, Edge::Entry) => concat!($name, "_entry"),
                      Self::Vector(Vector::$vector, Edge::Exit) => concat!($name, "_exit"),)*
                }
            }

            /// Name of the hook's program for one way of attaching it, if it has one.
            pub const fn program(self, attach: Attach) -> Option<&'static str> {
                let (typed, raw): (_, &[&'static str]) = match self {
                    $(Self::$variant => (stringify!($typed), &[$(stringify!($raw))?]),)*
                    $(Self::Vector(Vector::$vector, Edge::Entry) => (stringify!($typed_in), &[]),
                      Self::Vector(Vector::$vector, Edge::Exit) => (stringify!($typed_out), &[]),)*
                };
                match (attach, raw) {
                    (Attach::TpBtf, _) => Some(typed),
                    (Attach::RawTp, [raw]) => Some(raw),
                    (Attach::RawTp, _) => None,
                }
            }
        }
    };
}

for_each_hook!(define_hooks);

/// All hooks, in table order; the vectors follow the interrupts of other kinds.
pub const HOOKS: [Hook; OTHER_HOOKS.len() + VECTOR_HOOKS.len()] = {
    let mut hooks = [Hook::SchedSwitch; OTHER_HOOKS.len() + VECTOR_HOOKS.len()];
    let (mut other, mut next) = (0, 0);
    while other < OTHER_HOOKS.len() {
        hooks[next] = OTHER_HOOKS[other];
        next += 1;
        if matches!(OTHER_HOOKS[other], Hook::NmiHandler) {
            let mut vector = 0;
            while vector < VECTOR_HOOKS.len() {
                hooks[next] = VECTOR_HOOKS[vector];
                next += 1;
                vector += 1;
            }
        }
        other += 1;
    }
    assert!(next == hooks.len());
    hooks
};

impl Hook {
    /// Whether the programs that measure signals and write events use it; the others belong to those of
    /// [`crate::watch`] alone.
    pub const fn is_measured(self) -> bool {
        !matches!(self, Self::PageFault)
    }

    /// Whether nothing but the event store needs it.
    pub const fn is_for_events(self) -> bool {
        self.is_on_demand()
            || matches!(self, Self::SchedFork | Self::SchedExec | Self::SchedExit | Self::SchedWait)
    }

    /// Whether it is attached only by a recording with programs of its own that asks for the class of its
    /// events ([`Self::class`]): no daemon has it, and no flight recorder keeps its events.
    pub const fn is_on_demand(self) -> bool {
        matches!(
            self,
            Self::HrtimerEntry
                | Self::HrtimerExit
                | Self::CallEntry
                | Self::CallExit
                | Self::SignalGenerate
                | Self::SignalDeliver
                | Self::SockSend
                | Self::SockReceive
                | Self::SockState
                | Self::DataReady
        )
    }

    /// Whether the programs of [`crate::watch`] use it.
    pub const fn is_watched(self) -> bool {
        matches!(
            self,
            Self::SchedSwitch
                | Self::IrqHandlerEntry
                | Self::IrqHandlerExit
                | Self::SoftirqEntry
                | Self::SoftirqExit
                | Self::NmiHandler
                | Self::Vector(..)
                | Self::PageFault
        )
    }

    /// The hooks that look for what this one stores: they end it, move it or give it up. While one of
    /// them is not attached, what is stored here may stay for good.
    pub const fn awaits(self) -> &'static [Self] {
        match self {
            Self::SchedWakeup | Self::SchedWakeupNew => &[Self::SchedSwitch, Self::SchedMigrate],
            // It ends the waits for a CPU that it begins itself; sleeps end with a wake-up.
            Self::SchedSwitch => &[Self::SchedMigrate, Self::SchedWaking],
            Self::IrqHandlerEntry => &[Self::IrqHandlerExit],
            Self::HrtimerEntry => &[Self::HrtimerExit],
            Self::CallEntry => &[Self::CallExit],
            Self::SoftirqRaise => &[Self::SoftirqEntry],
            Self::SoftirqEntry => &[Self::SoftirqExit],
            Self::Vector(vector, Edge::Entry) => {
                core::slice::from_ref(&VECTOR_HOOKS[2 * vector as usize + 1])
            }
            Self::BlockInsert => &[Self::BlockIssue, Self::BlockMerge, Self::BlockComplete],
            // A request that is put back is known already: a requeue stores nothing new.
            Self::BlockIssue => &[Self::BlockRequeue, Self::BlockComplete],
            Self::NetQueue => &[Self::NetXmit, Self::FreeSkb],
            Self::NetReceive => &[Self::SchedWaking, Self::SoftirqEntry, Self::SoftirqExit],
            Self::ReclaimBegin => &[Self::ReclaimEnd],
            Self::MemcgBegin => &[Self::MemcgEnd],
            Self::CompactionBegin => &[Self::CompactionEnd],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::{SIGNALS, SignalInfo};
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_fit_the_kernels_limit() {
        let mut names = BTreeSet::new();
        for hook in &HOOKS {
            assert!(names.insert(hook.tracepoint()));
            assert!(hook.program(Attach::TpBtf).is_some());
            for program in Attach::ORDER.into_iter().filter_map(|attach| hook.program(attach)) {
                assert!(program.len() <= 15, "{program} is longer than 15 characters");
                assert!(names.insert(program));
            }
        }
    }

    #[test]
    fn what_is_on_demand_writes_events_and_measures_nothing() {
        for hook in HOOKS.iter().filter(|hook| hook.is_on_demand()) {
            assert!(
                hook.class().is_some() && hook.is_for_events() && !hook.is_watched(),
                "{hook:?}"
            );
            let needs = |info: &SignalInfo| {
                info.hooks.iter().chain(info.optional_hooks).any(|needed| needed == hook)
            };
            assert!(!SIGNALS.iter().any(needs), "{hook:?}");
        }
    }

    #[test]
    fn every_hook_is_listed_once() {
        assert_eq!(HOOKS.iter().collect::<BTreeSet<_>>().len(), HOOKS.len());
        for (index, pair) in VECTOR_HOOKS.chunks(2).enumerate() {
            let &[Hook::Vector(vector, Edge::Entry), Hook::Vector(end, Edge::Exit)] = pair else {
                panic!("{pair:?}")
            };
            assert_eq!((vector as usize, end), (index, vector));
            assert!(pair.iter().all(|hook| hook.tracepoint().starts_with(VECTORS[index])));
        }
    }

    #[test]
    fn what_begins_awaits_its_end() {
        let named = |name: &str| HOOKS.iter().find(|hook| hook.tracepoint() == name);
        for hook in &HOOKS {
            let name = hook.tracepoint();
            for (begin, end) in [("_entry", "_exit"), ("_begin", "_end")] {
                let Some(stem) = name.strip_suffix(begin) else { continue };
                let end = named(&std::format!("{stem}{end}")).unwrap();
                assert!(hook.awaits().contains(end), "{name}");
            }
            // There would be no first one.
            for other in hook.awaits() {
                assert!(!other.awaits().contains(hook), "{name}");
            }
        }
    }
}
