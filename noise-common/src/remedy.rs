//! What is known to help against delays, where it is set and what it costs; and what helps against
//! a cause of delays, whatever is delayed. What helps against one signal is in that signal's row of
//! [`crate::signals::SIGNALS`].
//!
//! It names what to try, not what is wrong: only the operator knows which of two services matters.

use crate::charge::Cause;
use crate::hooks::VECTORS;

/// What helps, by cause, the least costly first.
pub type Remedies = &'static [(Cause, &'static [Remedy])];

macro_rules! define_remedies {
    ($($variant:ident { $setting:literal, $effect:literal, $cost:literal })*) => {
        /// Something that an operator can do.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
        pub enum Remedy {
            $(#[doc = $effect] $variant,)*
        }

        impl Remedy {
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            pub const fn advice(self) -> Advice {
                match self {
                    $(Self::$variant => Advice { setting: $setting, effect: $effect, cost: $cost },)*
                }
            }
        }
    };
}

impl Remedy {
    /// Whether it can help against a kernel thread or an interrupt of this name; it is not asked of other culprits.
    pub fn is_against(self, name: &str) -> bool {
        match self {
            Self::WorkqueueCpus => name.starts_with("kworker"),
            Self::HugePages => ["khugepaged", "kcompactd"].iter().any(|one| name.starts_with(one)),
            // No device sends these.
            Self::IrqAffinity | Self::InterruptCoalescing => !VECTORS.contains(&name),
            _ => true,
        }
    }
}

/// What a remedy is, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Advice {
    /// Where it is set.
    pub setting: &'static str,
    pub effect: &'static str,
    /// What it costs, or when it does not help.
    pub cost: &'static str,
}

define_remedies! {
    CpuAffinity {
        "cpuset.cpus of the cgroups (systemd: AllowedCPUs=), or taskset(1)",
        "Gives victim and culprit CPUs of their own.",
        "CPUs that one leaves idle are lost to the other."
    }
    CpuWeight {
        "cpu.weight of the cgroups (systemd: CPUWeight=)",
        "Gives the victim a larger part of a contended CPU.",
        "Weighs siblings of the same parent only; the next wait gets shorter, not nil."
    }
    SchedulingPolicy {
        "the policy of the culprit's thread: chrt(1) (systemd: CPUSchedulingPolicy=)",
        "Takes the culprit's thread off its real-time policy, so that it shares the CPU with others.",
        "Whatever the thread has to do in time may come late from then on."
    }
    CpuQuota {
        "cpu.max of the culprit's cgroup (systemd: CPUQuota=)",
        "Caps the CPU time that the culprit may take.",
        "Holds even while CPUs are idle, and throttles the culprit in bursts."
    }
    RaiseQuota {
        "cpu.max or cpu.max.burst of the victim's own cgroup (systemd: CPUQuota=)",
        "Lets the victim run longer before its own quota stops it.",
        "Takes CPU time from others; fewer runnable threads at a time help as well."
    }
    FewerThreads {
        "the number of worker threads of the victim",
        "Has the victim's own tasks wait less for each other.",
        "Too few leave CPUs idle."
    }
    IsolatedCpus {
        "isolcpus=, nohz_full= and rcu_nocbs= on the kernel's command line, or cpuset.cpus.partition",
        "Keeps tasks, the tick and RCU callbacks off some CPUs.",
        "For one busy thread a CPU only: entering the kernel gets slower, the other CPUs do the work."
    }
    WorkqueueCpus {
        "/sys/devices/virtual/workqueue/cpumask, and taskset(1) for kernel threads that allow it",
        "Keeps unbound kernel work off the victim's CPUs.",
        "Kernel threads bound to one CPU stay there."
    }
    HugePages {
        "/sys/kernel/mm/transparent_hugepage/{enabled,defrag} and khugepaged/",
        "Lets khugepaged and kcompactd work less.",
        "Only where these are the culprits; large heaps lose their huge pages."
    }
    IrqAffinity {
        "/proc/irq/*/smp_affinity_list (and irqbalance off, or it sets it back)",
        "Moves the device's interrupts to CPUs that the victim does not use.",
        "The managed queues of some devices cannot be moved; other CPUs get the load."
    }
    InterruptCoalescing {
        "rx-usecs and rx-frames of ethtool -C",
        "Has the network device interrupt less often.",
        "Packets wait longer; only some devices can."
    }
    PacketSteering {
        "rps_cpus in /sys/class/net/*/queues/rx-*/",
        "Spreads the work on received packets over further CPUs.",
        "Adds an inter-processor interrupt; of no use where the device has a queue for each CPU."
    }
    NmiSources {
        "kernel.nmi_watchdog=0; stop perf sessions",
        "Ends the periodic interrupts of the watchdog and of profilers.",
        "Hard lockups are no longer noticed."
    }
    DedicatedHost {
        "the virtual machine's size, class or pinning, at its provider",
        "Gives the guest CPUs that the hypervisor does not share.",
        "Nothing inside the guest helps against it."
    }
    IdleStates {
        "/dev/cpu_dma_latency, or idle states deeper than C1 off with cpupower idle-set",
        "Has idle CPUs wake up sooner.",
        "Needs more power, and leaves less of it to the busy CPUs."
    }
    IoWeight {
        "io.weight of the cgroups (systemd: IOWeight=)",
        "Gives the victim a larger part of a contended device.",
        "Only with the bfq scheduler or io.cost enabled."
    }
    IoMax {
        "io.max of the culprit's cgroup (systemd: IOReadBandwidthMax= and its kin)",
        "Caps the bytes or requests that the culprit may issue.",
        "Holds even while the device is idle."
    }
    IoScheduler {
        "/sys/block/*/queue/scheduler",
        "Orders requests, so that reads are not stuck behind writes.",
        "Fast devices are slower with one than with none."
    }
    FasterDevice {
        "where the victim's files are",
        "Takes the load to a device that can carry it.",
        "The time is spent in the device or behind it; scheduling on this host does not change it."
    }
    MemoryLimits {
        "memory.high and memory.max of the victim's cgroup (systemd: MemoryHigh=, MemoryMax=)",
        "Has the victim reclaim its own memory less often.",
        "Only where the victim is at its limit; others have less memory then."
    }
    EarlierReclaim {
        "vm.watermark_scale_factor",
        "Has kswapd begin earlier, so that fewer tasks reclaim memory themselves.",
        "Leaves more memory free; of no use against a cgroup's own limit."
    }
    ProactiveCompaction {
        "vm.compaction_proactiveness",
        "Has kcompactd compact memory before it is asked for.",
        "Needs CPU time even when no large page is asked for."
    }
    TrafficShaping {
        "tc-htb(8) or tc-fq_codel(8) on the interface",
        "Shares out the interface, and keeps its queue short.",
        "Shapes what is sent; what is received can only be policed."
    }
}

/// What helps against a cause, the least costly first, whatever is delayed, unless the signal's row has
/// something else; a cause that has none depends on the signal, and [`Cause::Untracked`] never has one.
pub const fn against(cause: Cause) -> &'static [Remedy] {
    use Remedy::{
        DedicatedHost, FewerThreads, InterruptCoalescing, IrqAffinity, IsolatedCpus, NmiSources,
        PacketSteering, RaiseQuota,
    };
    match cause {
        Cause::Steal => &[DedicatedHost],
        Cause::Throttle => &[RaiseQuota, FewerThreads],
        Cause::Hardirq => &[IrqAffinity, InterruptCoalescing, IsolatedCpus],
        Cause::Softirq => &[PacketSteering, IrqAffinity, InterruptCoalescing],
        Cause::Nmi => &[NmiSources],
        Cause::Foreign
        | Cause::Own
        | Cause::Kthread
        | Cause::Idle
        | Cause::Iowait
        | Cause::Writeback
        | Cause::Untracked => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_is_against_what_it_can_change() {
        for (remedy, helps, not) in [
            (Remedy::WorkqueueCpus, "kworker/u8:3", "kswapd0"),
            (Remedy::HugePages, "khugepaged", "kworker/0:1"),
            (Remedy::HugePages, "kcompactd0", "kswapd0"),
            (Remedy::IrqAffinity, "nvme0q1", "local_timer"),
            (Remedy::InterruptCoalescing, "eth0-rx-0", "call_function_single"),
        ] {
            assert!(remedy.is_against(helps) && !remedy.is_against(not), "{remedy:?}");
        }
        assert!(Remedy::IsolatedCpus.is_against("local_timer"));
    }
}
