//! *Host noise*: one host, everything at a glance.

use noise_common::signals::{SIGNALS, Signal};
use noise_common::subject::Domain;

use super::{
    INSTANCE, INTERFERENCE, INTERRUPTED, JOB, NAMESPACE, OTHERS, POD, PODS, STEAL, cpus,
    of_the_rest, taken_share,
};
use crate::dashboards::promql::{
    buckets, lost, metric, of_hosts, quantile, ranked, rate, sum_rate, top,
};
use crate::dashboards::table::{Board, Panel, Shape, Unit};

/// Index of the panel of every signal. It is put there last: a panel about all signals is about none of
/// them in particular, so it must not keep any from panels of its own.
const EVERYTHING: usize = 10;

pub(super) fn board() -> Board {
    let mut panels = at_a_glance();
    panels.extend(over_time());
    panels.extend(what_else());
    for domain in [Domain::Cpu, Domain::Memory] {
        panels.extend(of_the_rest(domain, &panels));
    }
    panels.insert(EVERYTHING, everything());
    Board {
        name: "host",
        title: "Host noise",
        description: "What delays work on one host: how long, how often, and by whom.",
        variables: vec![JOB, INSTANCE, NAMESPACE, POD],
        panels,
    }
}

/// What is disturbed, by whom; and what is disturbed without a known culprit.
fn unusual() -> String {
    let unknown = ["culprit", "cause"]
        .into_iter()
        .fold(format!("{} - 1", of_hosts("noised_incident_active", "")), |of, label| {
            format!(r#"label_replace({of}, "{label}", "untracked", "", "")"#)
        });
    let known = of_hosts("noised_incident_culprit_share", "");
    format!("sort_desc({known} or on (job, instance, signal, subject) {unknown})")
}

/// Open incidents by their severity, each with what it is.
fn incidents() -> String {
    let severity = of_hosts("noised_incident_severity", "");
    let info = of_hosts("noised_incident_info", "");
    let labels = "job, instance, incident, resource, victim, culprit";
    format!(
        "sort_desc({severity} * on (job, instance, incident) group_left (resource, victim, culprit) max by ({labels}) ({info}))"
    )
}

fn at_a_glance() -> Vec<Panel> {
    vec![
        Shape::Number.panel(
            "CPU time taken",
            Unit::Share,
            "Part of all CPU time that interrupts and the hypervisor took. 1-3 % is usual under load; \
             above 10 % something interrupts too much: see IRQ and softirq.",
        )
        .ask("taken", taken_share())
        .limits(0.05, 0.15),
        Shape::Number.panel(
            "Wait for a CPU, p99",
            Unit::Seconds,
            "99 of 100 times a task got a CPU at least this fast. Below 1 ms on a host with room; \
             from 10 ms on tasks queue up for CPUs.",
        )
        .ask("p99", quantile("0.99", "", Signal::RunqueueWait, ""))
        .limits(0.01, 0.05),
        Shape::Number.panel(
            "Disk, p99",
            Unit::Seconds,
            "99 of 100 block requests were served at least this fast once the device had them. Flash: \
             below 5 ms; spinning disks: below 50 ms.",
        )
        .ask("p99", quantile("0.99", "", Signal::BlockDeviceWait, ""))
        .limits(0.05, 0.2),
        Shape::Number.panel(
            "Steal",
            Unit::Share,
            "Part of CPU time that the hypervisor gave to others. More than a few percent lasting \
             minutes means that the machine below is overcommitted.",
        )
        .ask("steal", format!("avg({})", rate(STEAL, "")))
        .limits(0.02, 0.1),
        Shape::Number.panel(
            "Disturbed now",
            Unit::Count,
            "Signals of subjects that have left their own baseline now. 0 is usual. `noised incidents` on the host \
             shows each in full.",
        )
        .ask("open", format!("sum({}) or vector(0)", of_hosts("noised_incident_active", "")))
        .limits(1.0, 3.0),
        Shape::Number.panel(
            "Events not counted",
            Unit::PerSecond,
            "Events that could not be counted, so that the numbers here are too low by so much. 0 is \
             usual; `noised check` says what limits apply.",
        )
        .ask(
            "lost",
            sum_rate("", "noised_dropped_total", r#"reason!~"no_start|rate_limited|refused|ring_full_delayed""#),
        )
        .limits(1.0, 100.0),
    ]
}

fn over_time() -> Vec<Panel> {
    let stolen = format!("sum({}) / {}", rate(STEAL, ""), cpus());
    vec![
        Shape::Heatmap.panel(
            "How long tasks waited for a CPU",
            Unit::Seconds,
            "Every wait for a CPU by its length; brighter is more. Usual is one band below 100 us. A \
             second band at some milliseconds is work that waits for the end of another task's time slice.",
        )
        .ask("{{le}}", buckets(Signal::RunqueueWait, "")),
        Shape::Lines.panel(
            "Wait for a CPU",
            Unit::Seconds,
            "Median, 99th and 99.9th percentile of waits for a CPU. A p99 that rises while the median \
             stays is a task that hogs a CPU now and then; if all rise, the host is full.",
        )
        .ask("median", quantile("0.5", "", Signal::RunqueueWait, ""))
        .ask("p99", quantile("0.99", "", Signal::RunqueueWait, ""))
        .ask("p99.9", quantile("0.999", "", Signal::RunqueueWait, "")),
        Shape::Stacked.panel(
            "Time lost, by what was waited for",
            Unit::SecondsPerSecond,
            "Delay of all cgroups together: 1 s/s is one task, request or packet that waits all the time. `running` is CPU \
             time that interrupts took. Unusual is what differs from the same hour of other days.",
        )
        .ask("{{resource}}", sum_rate("resource", INTERFERENCE, "")),
        Shape::Stacked.panel(
            "CPU time taken, by what",
            Unit::Share,
            "Part of all CPU time by who took it from tasks: handlers of devices (hardirq), vectors such \
             as the local timer, softirqs, NMIs, the hypervisor (steal). Each is net of the others.",
        )
        .ask("{{source}}", format!("{} / scalar({})", sum_rate("source", INTERRUPTED, ""), cpus()))
        .ask("steal", stolen),
        Shape::Lines.panel(
            "Cgroups that wait most for a CPU",
            Unit::SecondsPerSecond,
            "Time that all tasks of a cgroup waited, the eight largest. 1 s/s is one task that waits all \
             the time. A batch job may wait; a service that appears here is delayed. Namespace and pod, chosen above, \
             narrow this graph alone.",
        )
        .ask("{{cgroup}}", top(8, &lost("cgroup", Signal::CgroupRunqueueWait, PODS))),
    ]
}

/// One line for each kind of delay.
fn everything() -> Panel {
    let panel = Shape::Lines.panel(
        "Every signal, p99",
        Unit::Seconds,
        "The 99th percentile of every kind of delay on a logarithmic scale: which one moved when \
         something became slow. Signals without an event have no line.",
    )
    .sized(24, 9);
    let own = SIGNALS.iter().filter(|info| info.is_delay() && info.part_of.is_none());
    own.fold(panel, |panel, info| panel.ask(info.name, quantile("0.99", "", info.signal, "")))
}

fn what_else() -> Vec<Panel> {
    vec![
        Shape::Bars.panel(
            "Who delays others most",
            Unit::SecondsPerSecond,
            "Delay by who caused it, without what cgroups do to themselves. A kernel thread or an \
             interrupt far in front, or a service that should be small, is where to look: see Who did it.",
        )
        .ask("{{culprit}} ({{cause}})", ranked(10, &sum_rate("culprit, cause", INTERFERENCE, OTHERS))),
        Shape::Table(&[
            ("incident", "Incident"),
            ("victim", "Victim"),
            ("resource", "Lacks"),
            ("culprit", "Because of"),
        ])
        .panel(
            "Open incidents",
            Unit::Share,
            "Which victim lacks what, and who did most of it. Severity is the part of the victim's time that is lost beyond the \
             usual. Empty is usual. `noised incidents show NUMBER` on the host says since when, and what can be done.",
        )
        .ask("Severity", incidents()),
        Shape::Table(&[
            ("signal", "What is delayed"),
            ("subject", "Of whom"),
            ("culprit", "By whom"),
            ("cause", "Why"),
        ])
        .panel(
            "What is unusual now",
            Unit::Share,
            "What has left its own baseline and not come back yet, and which part of the excess the first three \
             culprits are charged with; `untracked` where none is known. Empty is usual. `noised incidents` on \
             the host says since when, by how much, and what can be done.",
        )
        .ask("Share", unusual()),
        Shape::Lines.panel(
            "Context switches",
            Unit::PerSecond,
            "How often CPUs changed from one task to another: because it waited (voluntary) or had to \
             give way (involuntary). A jump of involuntary switches is a fight for CPUs.",
        )
        .ask("{{kind}}", sum_rate("kind", metric(Signal::ContextSwitch), "")),
        Shape::Lines.panel(
            "Waiting for memory",
            Unit::SecondsPerSecond,
            "Time that tasks spent freeing or compacting memory themselves before they got some. 0 is \
             usual; anything that lasts means that the host or a cgroup is short of memory.",
        )
        .ask("direct reclaim", lost("", Signal::DirectReclaim, ""))
        .ask("compaction", lost("", Signal::Compaction, ""))
        .sized(8, 8),
        Shape::Lines.panel(
            "Page faults",
            Unit::PerSecond,
            "Faults served from memory (minor) and those that had to wait for a device (major). Major \
             faults in numbers mean that programs are read back from disk: memory is short.",
        )
        .ask("{{kind}}", sum_rate("kind", "noised_page_faults_total", ""))
        .sized(8, 8),
        Shape::Lines.panel(
            "What noised itself takes of a CPU",
            Unit::Share,
            "CPU time of the daemon, 1 = one CPU; its programs in the kernel are counted with whom they \
             interrupt. Below 1 % is usual.",
        )
        .ask("daemon", {
            // It is counted in whole seconds: over less than minutes, its rate jumps.
            format!("sum(rate({}[5m]))", of_hosts("process_cpu_seconds_total", ""))
        })
        .sized(8, 8),
    ]
}
