//! *Fleet*: all hosts, from recorded series only, so that it stays quick with a thousand of them.

use noise_common::signals::{SIGNALS, Signal};

use super::JOB;
use crate::dashboards::promql::{metric, ranked, top};
use crate::dashboards::rules::{
    HOST_INTERRUPTED, HOST_STEAL, HOST_TAKEN, OPEN_INCIDENTS, fleet_quantile, host_quantile,
    host_rate,
};
use crate::dashboards::table::{Board, Panel, Shape, Unit};

const CHOSEN: &str = r#"job=~"$job""#;

pub(super) fn board() -> Board {
    let mut panels = at_a_glance();
    panels.extend(over_time());
    panels.extend(who());
    Board {
        name: "fleet",
        title: "Fleet noise",
        description: "All hosts together: which are noisy, what delays work on them, and who. Needs the \
                      recording rules of deploy/prometheus.",
        variables: vec![JOB],
        panels,
    }
}

fn at_a_glance() -> Vec<Panel> {
    let up = format!("up{{{CHOSEN}}}");
    vec![
        Shape::Number.panel("Hosts that answer", Unit::Count, "Hosts whose noised Prometheus can scrape. Unusual is fewer than there should be.").ask("hosts", format!("sum({up})")),
        Shape::Number.panel(
            "Hosts that do not answer",
            Unit::Count,
            "Hosts that Prometheus should scrape and whose noised does not answer. 0 is usual.",
        )
        .ask("hosts", format!("count({up} == 0) or vector(0)"))
        .limits(1.0, 5.0),
        Shape::Number.panel(
            "Hosts with an incident",
            Unit::Count,
            "Hosts on which a signal has left its own baseline now. Few is usual; many at once is \
             something that they share: a roll-out, storage, a hypervisor.",
        )
        .ask(
            "hosts",
            format!("count(count by (instance) (noised_incident_active{{{CHOSEN}}})) or vector(0)"),
        )
        .limits(1.0, 10.0),
        Shape::Number.panel(
            "CPU time taken",
            Unit::Share,
            "Part of all hosts' CPU time that interrupts and hypervisors took. 1-3 % is usual under load.",
        )
        .ask("taken", format!("avg(job:noised_cpu_taken:ratio_rate5m{{{CHOSEN}}})"))
        .limits(0.05, 0.15),
        Shape::Number.panel(
            "Wait for a CPU, p99",
            Unit::Seconds,
            "99 of 100 times a task of the fleet got a CPU at least this fast.",
        )
        .ask("p99", fleet_quantile(Signal::RunqueueWait, "0.99", CHOSEN))
        .limits(0.01, 0.05),
        Shape::Number.panel(
            "Disk, p99",
            Unit::Seconds,
            "99 of 100 block requests of the fleet were served at least this fast by their device.",
        )
        .ask("p99", fleet_quantile(Signal::BlockDeviceWait, "0.99", CHOSEN))
        .limits(0.05, 0.2),
    ]
}

fn over_time() -> Vec<Panel> {
    let every = SIGNALS.iter().filter(|info| info.is_delay() && info.part_of.is_none());
    let all = Shape::Lines.panel(
        "Every signal, p99 of the fleet",
        Unit::Seconds,
        "The 99th percentile over all events of all hosts on a logarithmic scale: true quantiles from \
         added-up histograms, not means of hosts' quantiles. A step is a change of the whole fleet.",
    );
    let all = every
        .fold(all, |panel, info| panel.ask(info.name, fleet_quantile(info.signal, "0.99", CHOSEN)));
    let spread = |of: &str| format!("{of}{{{CHOSEN}}}");
    // Columns of one table share rows where they share all labels: the name of the metric would be one.
    let highest = |of: &str| top(30, &format!("max by (instance) ({of})"));
    vec![
        Shape::Lines.panel(
            "Wait for a CPU in the fleet",
            Unit::Seconds,
            "Median, 99th and 99.9th percentile over every wait of every host. A p99.9 that rises alone \
             is few hosts: see the table below.",
        )
        .ask("median", fleet_quantile(Signal::RunqueueWait, "0.5", CHOSEN))
        .ask("p99", fleet_quantile(Signal::RunqueueWait, "0.99", CHOSEN))
        .ask("p99.9", fleet_quantile(Signal::RunqueueWait, "0.999", CHOSEN)),
        Shape::Lines.panel(
            "CPU time taken: spread over hosts",
            Unit::Share,
            "Half of the hosts lose less than the median, 95 of 100 less than p95. Worst far above p95 is \
             a single bad host; all together is the fleet's work.",
        )
        .ask("median host", format!("quantile(0.5, {})", spread(HOST_TAKEN)))
        .ask("p95 host", format!("quantile(0.95, {})", spread(HOST_TAKEN)))
        .ask("worst host", format!("max({})", spread(HOST_TAKEN))),
        all.sized(24, 9),
        Shape::Table(&[("instance", "Host")]).panel(
            "Hosts",
            Unit::Share,
            "The hosts that lose most of their CPU time, the ones with most steal, and those with the \
             longest waits. Click a host for its own dashboard. Unusual is one far above its like.",
        )
        .ask("CPU taken", highest(&spread(HOST_TAKEN)))
        .ask("Steal", highest(&spread(HOST_STEAL)))
        .ask("Wait for a CPU, p99", highest(&host_quantile(Signal::RunqueueWait, CHOSEN)))
        .ask("Disk, p99", highest(&host_quantile(Signal::BlockDeviceWait, CHOSEN)))
        .ask("Disk queue, p99", highest(&host_quantile(Signal::BlockQueueWait, CHOSEN)))
        .units(&[Unit::Share, Unit::Share, Unit::Seconds, Unit::Seconds, Unit::Seconds])
        .sized(24, 8),
        Shape::Table(&[
            ("instance", "Host"),
            ("incident", "Incident"),
            ("victim", "Victim"),
            ("resource", "Lacks"),
            ("culprit", "Because of"),
        ])
        .panel(
            "Open incidents",
            Unit::Share,
            "The most severe incidents of all hosts: which victim lacks what, and who did most of it. Severity is the part of \
             the victim's time that is lost beyond the usual. Empty is usual. Click a host for its own dashboard.",
        )
        .ask("Severity", top(30, &spread(OPEN_INCIDENTS)))
        .sized(24, 8),
        Shape::Lines.panel(
            "Steal: worst hosts",
            Unit::Share,
            "Part of CPU time that hypervisors took, the ten hosts with most. Some percent for minutes: \
             move that machine.",
        )
        .ask("{{instance}}", top(10, &spread(HOST_STEAL))),
        Shape::Stacked.panel(
            "CPU time taken, by what",
            Unit::Share,
            "Mean over hosts of the part of CPU time that each kind of interrupt took.",
        )
        .ask("{{source}}", format!("avg by (source) ({})", spread(HOST_INTERRUPTED))),
        Shape::Stacked.panel(
            "Disturbed in open incidents, by signal",
            Unit::Count,
            "How many subjects open incidents disturb, by the signal that left its baseline. A wall of one \
             signal is something that many hosts share.",
        )
        .ask("{{signal}}", format!("sum by (signal) (job_signal:noised_incident_active:sum{{{CHOSEN}}})")),
    ]
}

fn who() -> Vec<Panel> {
    let culprits = r#"job_culprit_cause:noised_interference_seconds:rate5m{job=~"$job",cause!~"self|idle|untracked"}"#;
    let victims = format!("job_victim:noised_interference_seconds:rate5m{{{CHOSEN}}}");
    vec![
        Shape::Bars.panel(
            "Who delays others most, in the whole fleet",
            Unit::SecondsPerSecond,
            "Delay by who caused it, added up over hosts. An agent that runs everywhere and costs little \
             on each host shows here first.",
        )
        .ask("{{culprit}} ({{cause}})", ranked(10, culprits)),
        Shape::Bars.panel(
            "Who is delayed most, in the whole fleet",
            Unit::SecondsPerSecond,
            "Delay by anything but itself that a service suffers, added up over hosts.",
        )
        .ask("{{victim}}", ranked(10, &victims)),
        Shape::Lines.panel(
            "Losses in the network",
            Unit::PerSecond,
            "Packets dropped and TCP segments sent again per second, of all hosts.",
        )
        .ask("dropped", format!("sum({})", host_rate(metric(Signal::PacketDrop), CHOSEN)))
        .ask("sent again", format!("sum({})", host_rate(metric(Signal::TcpRetransmit), CHOSEN))),
        Shape::Lines.panel(
            "What noised costs",
            Unit::Share,
            "CPU time of the daemon, 1 = one CPU: mean and worst host. Below 1 % is usual.",
        )
        .ask("mean host", format!("avg(instance:noised_process_cpu:ratio_rate5m{{{CHOSEN}}})"))
        .ask("worst host", format!("max(instance:noised_process_cpu:ratio_rate5m{{{CHOSEN}}})"))
        .sized(8, 6),
        Shape::Table(&[("version", "Version"), ("revision", "Revision")]).panel(
            "Versions",
            Unit::Count,
            "How many hosts run which noised. One version is usual, two during a roll-out.",
        )
        .ask("Hosts", format!("count by (version, revision) (noised_build_info{{{CHOSEN}}})"))
        .sized(8, 6),
        Shape::Lines.panel(
            "Samples for each scrape",
            Unit::Count,
            "Series that a host exports: mean and largest. It is bounded by [limits] in noised's \
             configuration.",
        )
        .ask("mean host", format!("avg(scrape_samples_scraped{{{CHOSEN}}})"))
        .ask("largest host", format!("max(scrape_samples_scraped{{{CHOSEN}}})"))
        .sized(8, 6),
    ]
}
