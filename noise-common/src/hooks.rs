//! The table of hooks: one kernel tracepoint, one program.
//!
//! Every program exists as `tp_btf` (typed arguments, direct loads) and as `raw_tp` (untyped,
//! probe reads), under names of at most 15 characters, the kernel's limit.

/// How a program of a hook is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// `tp_btf`: the verifier knows the argument types, fields are loaded directly.
    TpBtf,
    /// `raw_tp`: cheaper to call, but each kernel field costs a probe read.
    RawTp,
}

impl Attach {
    /// The name that kernel documentation uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TpBtf => "tp_btf",
            Self::RawTp => "raw_tp",
        }
    }
}

/// Calls `$then!` with the table: variant, tracepoint, `tp_btf` program, `raw_tp` program and
/// the kind of program that is tried first.
///
/// Measured, calling either kind costs the same, and typed loads are cheaper than probe reads, so
/// `tp_btf` goes first everywhere.
#[macro_export]
macro_rules! for_each_hook {
    ($then:ident) => {
        $then! {
            SchedSwitch "sched_switch" n_sched_switch r_sched_switch TpBtf;
            SchedWakeup "sched_wakeup" n_sched_wakeup r_sched_wakeup TpBtf;
            SchedWakeupNew "sched_wakeup_new" n_sched_wakenew r_sched_wakenew TpBtf;
            SchedMigrate "sched_migrate_task" n_sched_migrate r_sched_migrate TpBtf;
            SchedWaking "sched_waking" n_sched_waking r_sched_waking TpBtf;
            IrqHandlerEntry "irq_handler_entry" n_irq_in r_irq_in TpBtf;
            IrqHandlerExit "irq_handler_exit" n_irq_out r_irq_out TpBtf;
            SoftirqRaise "softirq_raise" n_softirq_raise r_softirq_raise TpBtf;
            SoftirqEntry "softirq_entry" n_softirq_in r_softirq_in TpBtf;
            SoftirqExit "softirq_exit" n_softirq_out r_softirq_out TpBtf;
            NmiHandler "nmi_handler" n_nmi r_nmi TpBtf;
            LocalTimerEntry "local_timer_entry" n_timer_in r_timer_in TpBtf;
            LocalTimerExit "local_timer_exit" n_timer_out r_timer_out TpBtf;
            RescheduleEntry "reschedule_entry" n_resched_in r_resched_in TpBtf;
            RescheduleExit "reschedule_exit" n_resched_out r_resched_out TpBtf;
            CallFunctionEntry "call_function_entry" n_callfn_in r_callfn_in TpBtf;
            CallFunctionExit "call_function_exit" n_callfn_out r_callfn_out TpBtf;
            CallSingleEntry "call_function_single_entry" n_callone_in r_callone_in TpBtf;
            CallSingleExit "call_function_single_exit" n_callone_out r_callone_out TpBtf;
            IrqWorkEntry "irq_work_entry" n_irqwork_in r_irqwork_in TpBtf;
            IrqWorkExit "irq_work_exit" n_irqwork_out r_irqwork_out TpBtf;
            PlatformIpiEntry "x86_platform_ipi_entry" n_platipi_in r_platipi_in TpBtf;
            PlatformIpiExit "x86_platform_ipi_exit" n_platipi_out r_platipi_out TpBtf;
            SpuriousEntry "spurious_apic_entry" n_spurious_in r_spurious_in TpBtf;
            SpuriousExit "spurious_apic_exit" n_spurious_out r_spurious_out TpBtf;
            ApicErrorEntry "error_apic_entry" n_apicerr_in r_apicerr_in TpBtf;
            ApicErrorExit "error_apic_exit" n_apicerr_out r_apicerr_out TpBtf;
            ThermalEntry "thermal_apic_entry" n_thermal_in r_thermal_in TpBtf;
            ThermalExit "thermal_apic_exit" n_thermal_out r_thermal_out TpBtf;
            ThresholdEntry "threshold_apic_entry" n_thresh_in r_thresh_in TpBtf;
            ThresholdExit "threshold_apic_exit" n_thresh_out r_thresh_out TpBtf;
            DeferredErrorEntry "deferred_error_apic_entry" n_deferr_in r_deferr_in TpBtf;
            DeferredErrorExit "deferred_error_apic_exit" n_deferr_out r_deferr_out TpBtf;
            BlockInsert "block_rq_insert" n_block_insert r_block_insert TpBtf;
            BlockIssue "block_rq_issue" n_block_issue r_block_issue TpBtf;
            BlockRequeue "block_rq_requeue" n_block_requeue r_block_requeue TpBtf;
            BlockMerge "block_rq_merge" n_block_merge r_block_merge TpBtf;
            BlockComplete "block_rq_complete" n_block_done r_block_done TpBtf;
            NetQueue "net_dev_queue" n_net_queue r_net_queue TpBtf;
            NetXmit "net_dev_start_xmit" n_net_xmit r_net_xmit TpBtf;
            NetReceive "netif_receive_skb" n_net_receive r_net_receive TpBtf;
            TcpRetransmit "tcp_retransmit_skb" n_tcp_retrans r_tcp_retrans TpBtf;
            FreeSkb "kfree_skb" n_kfree_skb r_kfree_skb TpBtf;
            ReclaimBegin "mm_vmscan_direct_reclaim_begin" n_reclaim_in r_reclaim_in TpBtf;
            ReclaimEnd "mm_vmscan_direct_reclaim_end" n_reclaim_out r_reclaim_out TpBtf;
            MemcgBegin "mm_vmscan_memcg_reclaim_begin" n_memcg_in r_memcg_in TpBtf;
            MemcgEnd "mm_vmscan_memcg_reclaim_end" n_memcg_out r_memcg_out TpBtf;
            CompactionBegin "mm_compaction_begin" n_compact_in r_compact_in TpBtf;
            CompactionEnd "mm_compaction_end" n_compact_out r_compact_out TpBtf;
            PageFault "page_fault_user" n_page_fault r_page_fault TpBtf;
        }
    };
}

macro_rules! define_hooks {
    ($($variant:ident $tracepoint:literal $typed:ident $raw:ident $first:ident;)*) => {
        /// One kernel attach point. Many signals share one hook; a hook has one program.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum Hook {
            $(#[doc = concat!("The tracepoint `", $tracepoint, "`.")] $variant,)*
        }

        /// All hooks, in table order: `HOOKS[hook as usize] == hook`.
        pub const HOOKS: &[Hook] = &[$(Hook::$variant,)*];

        impl Hook {
            /// Name of the kernel tracepoint, which is also the hook's label in metrics.
            pub const fn tracepoint(self) -> &'static str {
                match self { $(Self::$variant => $tracepoint,)* }
            }

            /// Name of the hook's program for one way of attaching it.
            pub const fn program(self, attach: Attach) -> &'static str {
                match (self, attach) {
                    $((Self::$variant, Attach::TpBtf) => stringify!($typed),
                      (Self::$variant, Attach::RawTp) => stringify!($raw),)*
                }
            }

            /// The two ways of attaching this hook, in the order in which they are tried.
            pub const fn attach_order(self) -> [Attach; 2] {
                let first = match self { $(Self::$variant => Attach::$first,)* };
                match first {
                    Attach::TpBtf => [Attach::TpBtf, Attach::RawTp],
                    Attach::RawTp => [Attach::RawTp, Attach::TpBtf],
                }
            }
        }
    };
}

for_each_hook!(define_hooks);

impl Hook {
    /// Whether the programs that measure signals use it; the others belong to those of
    /// [`crate::watch`] alone.
    pub const fn is_measured(self) -> bool {
        !matches!(self, Self::PageFault)
    }

    /// The hooks that look for what this one stores: they end it, move it or give it up. While one of
    /// them is not attached, what is stored here may stay for good.
    pub const fn awaits(self) -> &'static [Self] {
        match self {
            Self::SchedWakeup | Self::SchedWakeupNew => &[Self::SchedSwitch, Self::SchedMigrate],
            // It ends the waits that it begins itself.
            Self::SchedSwitch => &[Self::SchedMigrate],
            Self::IrqHandlerEntry => &[Self::IrqHandlerExit],
            Self::SoftirqRaise => &[Self::SoftirqEntry],
            Self::SoftirqEntry => &[Self::SoftirqExit],
            Self::LocalTimerEntry => &[Self::LocalTimerExit],
            Self::RescheduleEntry => &[Self::RescheduleExit],
            Self::CallFunctionEntry => &[Self::CallFunctionExit],
            Self::CallSingleEntry => &[Self::CallSingleExit],
            Self::IrqWorkEntry => &[Self::IrqWorkExit],
            Self::PlatformIpiEntry => &[Self::PlatformIpiExit],
            Self::SpuriousEntry => &[Self::SpuriousExit],
            Self::ApicErrorEntry => &[Self::ApicErrorExit],
            Self::ThermalEntry => &[Self::ThermalExit],
            Self::ThresholdEntry => &[Self::ThresholdExit],
            Self::DeferredErrorEntry => &[Self::DeferredErrorExit],
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
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_fit_the_kernels_limit() {
        let mut names = BTreeSet::new();
        for hook in HOOKS {
            assert!(names.insert(hook.tracepoint()));
            for attach in [Attach::TpBtf, Attach::RawTp] {
                let program = hook.program(attach);
                assert!(program.len() <= 15, "{program} is longer than 15 characters");
                assert!(names.insert(program));
            }
        }
    }

    #[test]
    fn what_begins_awaits_its_end() {
        let named = |name: &str| HOOKS.iter().find(|hook| hook.tracepoint() == name);
        for hook in HOOKS {
            let name = hook.tracepoint();
            for (begin, end) in [("_entry", "_exit"), ("_begin", "_end")] {
                let Some(stem) = name.strip_suffix(begin) else { continue };
                let end = named(&std::format!("{stem}{end}")).unwrap();
                assert!(hook.awaits().contains(end), "{name}");
            }
            // Nobody would come first.
            for other in hook.awaits() {
                assert!(!other.awaits().contains(hook), "{name}");
            }
        }
    }

    #[test]
    fn table_order_is_the_discriminant() {
        for (index, hook) in HOOKS.iter().enumerate() {
            assert_eq!(*hook as usize, index);
        }
    }
}
