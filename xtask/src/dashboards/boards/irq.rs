//! *IRQ and softirq*: what interrupts tasks.

use noise_common::signals::Signal;
use noise_common::subject::Domain;

use super::{INSTANCES, INTERRUPTED, JOB, STEAL, cpus, of_the_rest, taken_share};
use crate::dashboards::promql::{
    buckets, count, lost, of_hosts, quantile, ranked, rate, sum_rate, top,
};
use crate::dashboards::table::{Board, Panel, Shape, Unit};

pub(super) fn board() -> Board {
    let mut panels = overview();
    panels.extend(hard());
    panels.extend(soft());
    panels.extend(of_the_rest(Domain::Interrupts, &panels));
    Board {
        name: "irq",
        title: "IRQ and softirq",
        description: "What takes CPUs from tasks: devices, timers, softirqs, NMIs and the hypervisor.",
        variables: vec![JOB, INSTANCES],
        panels,
    }
}

fn by_cpu() -> String {
    sum_rate("instance, cpu", INTERRUPTED, "")
}

fn overview() -> Vec<Panel> {
    let part = |source: &str| {
        let own = sum_rate("", INTERRUPTED, &format!(r#"source="{source}""#));
        format!("({own} or vector(0)) / {}", cpus())
    };
    let small = |title, says| Shape::Number.panel(title, Unit::Share, says).limits(0.05, 0.15);
    vec![
        small(
            "CPU time taken",
            "Part of all CPU time that interrupts and the hypervisor took. 1-3 % is usual under load.",
        )
        .ask("taken", taken_share()),
        small(
            "Most on one CPU",
            "The same for the CPU that interrupts take most from. Far above the mean: interrupts of one \
             device all go to one CPU (see /proc/irq/*/smp_affinity_list, or run irqbalance).",
        )
        .ask("most", format!("max({})", by_cpu())),
        small(
            "Handlers of devices",
            "Part of CPU time in handlers of devices. Above some percent a device interrupts too often: \
             interrupt coalescing helps.",
        )
        .ask("hardirq", part("hardirq")),
        small(
            "Softirqs",
            "Part of CPU time in softirqs, mostly network and disk work. Much of it is a sign of many \
             small packets.",
        )
        .ask("softirq", part("softirq")),
        small(
            "Vectors",
            "Part of CPU time in the CPU's own interrupts: the local timer, wake-ups and calls from other \
             CPUs. Much of it is many timers, or many tasks that wake each other across CPUs.",
        )
        .ask("vector", part("vector")),
        small(
            "Steal",
            "Part of CPU time that the hypervisor gave to others. 0 on real machines.",
        )
        .ask("steal", format!("avg({})", rate(STEAL, ""))),
        Shape::Stacked.panel(
            "Taken from CPUs, by source",
            Unit::Share,
            "Part of all CPU time by source, each net of what interrupted it, so that they add up.",
        )
        .ask("{{source}}", format!("{} / scalar({})", sum_rate("source", INTERRUPTED, ""), cpus()))
        .ask("steal", format!("sum({}) / {}", rate(STEAL, ""), cpus())),
        Shape::Bars.panel(
            "Taken from each CPU",
            Unit::Share,
            "Part of each CPU's time that interrupts took, the twenty largest. Usual is about the same \
             everywhere, or CPUs that were set apart for interrupts; isolated CPUs should be near 0.",
        )
        .ask("{{instance}} CPU {{cpu}}", ranked(20, &by_cpu()))
        .limits(0.1, 0.3),
    ]
}

fn hard() -> Vec<Panel> {
    vec![
        Shape::Lines.panel(
            "Handlers of devices: time",
            Unit::SecondsPerSecond,
            "Time in the handler of each interrupt line, the ten largest. 10 ms/s is one percent of one CPU.",
        )
        .ask("{{name}} (irq {{irq}})", top(10, &lost("irq, name", Signal::Hardirq, ""))),
        Shape::Lines.panel(
            "Handlers of devices: how often",
            Unit::PerSecond,
            "Interrupts per second of each line, the ten largest. Tens of thousands from one device: look \
             at its interrupt coalescing (ethtool -c).",
        )
        .ask("{{name}} (irq {{irq}})", top(10, &count("irq, name", Signal::Hardirq, ""))),
        Shape::Lines.panel(
            "Handlers of devices: how long, p99",
            Unit::Seconds,
            "The 99th percentile of a handler's length; tasks and all other interrupts of that CPU wait \
             so long. Above 100 us is a slow driver or slow device registers.",
        )
        .ask("{{name}} (irq {{irq}})", top(10, &quantile("0.99", "irq, name", Signal::Hardirq, ""))),
        Shape::Lines.panel(
            "Vectors: time",
            Unit::SecondsPerSecond,
            "Time in interrupts that CPUs send themselves and each other. local_timer is the tick and \
             precise timers; reschedule and call_function are other CPUs that want something.",
        )
        .ask("{{vector}}", lost("vector", Signal::Vector, "")),
    ]
}

fn soft() -> Vec<Panel> {
    vec![
        Shape::Lines.panel(
            "Softirqs: time",
            Unit::SecondsPerSecond,
            "Time in each softirq, net of interrupts: received packets are net_rx, finished disk requests \
             block, the scheduler's balancing sched.",
        )
        .ask("{{vector}}", lost("vector", Signal::Softirq, "")),
        Shape::Lines.panel(
            "Softirqs: how long one turn takes, p99",
            Unit::Seconds,
            "The 99th percentile of a turn; the task below it stands still meanwhile. Several \
             milliseconds are a flood of packets or of expiring timers.",
        )
        .ask("{{vector}}", quantile("0.99", "vector", Signal::Softirq, "")),
        Shape::Heatmap.panel(
            "How long softirqs waited for their turn",
            Unit::Seconds,
            "From the first request to the start, by length; brighter is more. Usual is below 10 us; \
             a band at milliseconds means that softirqs were put off to ksoftirqd, which competes with tasks.",
        )
        .ask("{{le}}", buckets(Signal::SoftirqRaiseWait, "")),
        Shape::Lines.panel(
            "Softirqs: wait for their turn, p99",
            Unit::Seconds,
            "The 99th percentile of that wait by softirq. Packets are late by net_rx's, timers by timer's.",
        )
        .ask("{{vector}}", quantile("0.99", "vector", Signal::SoftirqRaiseWait, "")),
        Shape::Lines.panel(
            "Non-maskable interrupts",
            Unit::PerSecond,
            "NMIs per second: profilers, the hard-lockup watchdog, hardware errors. 0 on most virtual \
             machines; thousands per second are a profiler.",
        )
        .ask("NMIs", format!("{} or vector(0)", count("", Signal::Nmi, ""))),
        Shape::Lines.panel(
            "Steal by CPU",
            Unit::Share,
            "Part of each CPU's time that the hypervisor took, the ten largest. Uneven steal on a small \
             machine is a neighbour on the same core.",
        )
        .ask("{{instance}} CPU {{cpu}}", top(10, &rate(STEAL, "")))
        .limits(0.02, 0.1),
        Shape::Table(&[("instance", "Host"), ("hook", "Hook")]).panel(
            "Hooks that are not attached",
            Unit::Count,
            "Places in the kernel where noised could not attach, although this kernel has them. Unusual is \
             any; `noised check` says why.",
        )
        .ask("", format!("{} == 0", of_hosts("noised_probe_attached", "")))
        .sized(24, 6),
    ]
}
