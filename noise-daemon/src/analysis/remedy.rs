//! From cause to remedy: a small table of what is known to help, where it is set and what it costs.
//!
//! It names what to try, not what is wrong: only the operator knows which of two services matters.
//! A cause that nothing here helps against has no remedy, and `untracked` never has one.

use noise_common::signals::Signal;

use super::culprits::{Culprit, nothing_beyond};
use super::watched::Watched;
use noise_common::charge::Cause;

/// Least part in a disturbance for which a cause's remedies are told.
const LEAST_SHARE: f64 = 0.1;

macro_rules! define_remedies {
    ($($variant:ident { $setting:literal, $effect:literal, $cost:literal })*) => {
        /// Something that an operator can do.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum Remedy {
            $(#[doc = $effect] $variant,)*
        }

        impl Remedy {
            /// Every remedy.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// What it is.
            pub const fn advice(self) -> Advice {
                match self {
                    $(Self::$variant => Advice { setting: $setting, effect: $effect, cost: $cost },)*
                }
            }
        }
    };
}

/// What a remedy is, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Advice {
    /// Where it is set.
    pub setting: &'static str,
    /// What it does.
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

/// What helps against a signal that is a cause itself: the delays are what takes time from others.
const fn inherent(watched: Watched) -> &'static [Remedy] {
    use Remedy::{EarlierReclaim, HugePages, IsolatedCpus, MemoryLimits, ProactiveCompaction};
    let Watched::Signal(signal) = watched else { return &[] };
    match signal {
        Signal::Hardirq => remedies(watched, Cause::Hardirq),
        Signal::Softirq | Signal::SoftirqRaiseWait => remedies(watched, Cause::Softirq),
        Signal::Nmi => remedies(watched, Cause::Nmi),
        Signal::Vector => &[IsolatedCpus],
        Signal::DirectReclaim => &[MemoryLimits, EarlierReclaim],
        Signal::Compaction => &[HugePages, ProactiveCompaction],
        _ => &[],
    }
}

/// What helps against a cause of delays of a signal, the least costly first.
pub const fn remedies(watched: Watched, cause: Cause) -> &'static [Remedy] {
    use Remedy::{
        CpuAffinity, CpuQuota, CpuWeight, DedicatedHost, FasterDevice, FewerThreads, HugePages,
        IdleStates, InterruptCoalescing, IoMax, IoScheduler, IoWeight, IrqAffinity, IsolatedCpus,
        NmiSources, PacketSteering, RaiseQuota, TrafficShaping, WorkqueueCpus,
    };
    match cause {
        Cause::Untracked => return &[],
        Cause::Steal => return &[DedicatedHost],
        Cause::Throttle => return &[RaiseQuota, FewerThreads],
        Cause::Hardirq => return &[IrqAffinity, InterruptCoalescing, IsolatedCpus],
        Cause::Softirq => return &[PacketSteering, IrqAffinity, InterruptCoalescing],
        Cause::Nmi => return &[NmiSources],
        Cause::Foreign | Cause::Own | Cause::Kthread | Cause::Idle => {}
    }
    let Watched::Signal(signal) = watched else { return &[] };
    match (signal, cause) {
        (Signal::BlockQueueWait, Cause::Foreign) => &[IoWeight, IoMax, IoScheduler],
        (Signal::BlockDeviceWait, Cause::Foreign) => &[IoMax, FasterDevice],
        (Signal::BlockQueueWait, Cause::Own) => &[IoScheduler, FasterDevice],
        (Signal::BlockDeviceWait, Cause::Own) => &[FasterDevice],
        (Signal::NetTxWait, Cause::Foreign | Cause::Own) => &[TrafficShaping],
        (Signal::NetRxWait, Cause::Foreign | Cause::Own) => &[PacketSteering, IrqAffinity],
        (Signal::RunqueueWait | Signal::CgroupRunqueueWait, Cause::Foreign) => {
            &[CpuWeight, CpuAffinity, CpuQuota, IsolatedCpus]
        }
        (Signal::RunqueueWait | Signal::CgroupRunqueueWait, Cause::Own) => {
            &[FewerThreads, CpuAffinity]
        }
        (Signal::RunqueueWait | Signal::CgroupRunqueueWait, Cause::Kthread) => {
            &[WorkqueueCpus, HugePages, IsolatedCpus]
        }
        (Signal::RunqueueWait | Signal::CgroupRunqueueWait, Cause::Idle) => &[IdleStates],
        _ => &[],
    }
}

/// Remedies against the main causes, those of the largest culprit first, then against the signal
/// itself; each once.
pub(super) fn recommended<C>(watched: Watched, ranked: &[Culprit<C>]) -> Vec<Remedy> {
    let mut recommended = Vec::new();
    let nothing_beyond = nothing_beyond(ranked);
    let causes = ranked
        .iter()
        .filter(|culprit| culprit.part(nothing_beyond) >= LEAST_SHARE)
        .map(|culprit| remedies(watched, culprit.cause));
    for remedy in causes.chain([inherent(watched)]).flatten() {
        if !recommended.contains(remedy) {
            recommended.push(*remedy);
        }
    }
    recommended
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Time;

    const CAUSES: [Cause; 10] = [
        Cause::Foreign,
        Cause::Own,
        Cause::Kthread,
        Cause::Hardirq,
        Cause::Softirq,
        Cause::Nmi,
        Cause::Throttle,
        Cause::Steal,
        Cause::Idle,
        Cause::Untracked,
    ];

    fn culprit(cause: Cause, share: f64) -> Culprit<&'static str> {
        let time = Time { seconds: share, share };
        Culprit { culprit: "who", cause, time, beyond: time }
    }

    #[test]
    fn every_remedy_is_recommended_for_something_and_says_what_it_is() {
        for remedy in Remedy::ALL {
            let used = Watched::all().any(|watched| {
                inherent(watched).contains(remedy)
                    || CAUSES.iter().any(|cause| remedies(watched, *cause).contains(remedy))
            });
            assert!(used, "{remedy:?}");
            let advice = remedy.advice();
            for text in [advice.setting, advice.effect, advice.cost] {
                assert!(text.len() > 10, "{remedy:?}: {text}");
            }
        }
    }

    #[test]
    fn every_cause_of_a_cpu_wait_has_a_remedy_unless_it_is_not_known() {
        for cause in CAUSES {
            for signal in [Signal::RunqueueWait, Signal::CgroupRunqueueWait] {
                let none = remedies(signal.into(), cause).is_empty();
                assert_eq!(none, cause == Cause::Untracked, "{cause:?}");
            }
        }
    }

    #[test]
    fn main_causes_come_first_and_small_ones_not_at_all() {
        let ranked =
            [culprit(Cause::Steal, 0.6), culprit(Cause::Throttle, 0.31), culprit(Cause::Nmi, 0.09)];
        let told = recommended(Signal::RunqueueWait.into(), &ranked);
        assert_eq!(told, [Remedy::DedicatedHost, Remedy::RaiseQuota, Remedy::FewerThreads]);
        let twice = [culprit(Cause::Steal, 0.5), culprit(Cause::Steal, 0.5)];
        assert_eq!(recommended(Signal::RunqueueWait.into(), &twice).len(), 1);
        assert!(recommended::<u8>(Signal::RunqueueWait.into(), &[]).is_empty());
    }

    #[test]
    fn against_whatever_interrupts_something_helps() {
        for cause in [Cause::Hardirq, Cause::Softirq, Cause::Nmi, Cause::Steal] {
            assert!(!remedies(Watched::Interruption, cause).is_empty(), "{cause:?}");
        }
    }

    #[test]
    fn a_signal_that_is_a_cause_needs_no_culprit() {
        let told = recommended::<u8>(Signal::Hardirq.into(), &[]);
        assert_eq!(told.first(), Some(&Remedy::IrqAffinity));
    }
}
