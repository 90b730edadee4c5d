//! *Network*: queues, deliveries, losses.

use noise_common::signals::Signal;
use noise_common::subject::Domain;

use super::{INSTANCES, INTERFERENCE, JOB, mean, of_the_rest};
use crate::dashboards::promql::{buckets, count, lost, metric, quantile, ranked, sum_rate, top};
use crate::dashboards::table::{Board, Panel, Shape, Unit, Variable};

/// Narrows packets to what was chosen.
const CHOSEN: &str = r#"interface=~"$interface""#;
const LABEL: &str = "interface";
const LEGEND: &str = "{{interface}}";
const WAITS: &str = r#"resource=~"net_tx|net_rx""#;

const INTERFACE: Variable = Variable {
    name: "interface",
    label: "Interface",
    query: r#"label_values(noised_net_tx_wait_seconds_count{job=~"$job",instance=~"$instance"}, interface)"#,
    many: true,
    all: ".+",
};

pub(super) fn board() -> Board {
    let mut panels = at_a_glance();
    panels.extend(over_time());
    panels.extend(losses());
    panels.extend(of_the_rest(Domain::Network, &panels));
    Board {
        name: "network",
        title: "Network",
        description: "How long packets wait to be sent and to reach their receiver, and which are lost.",
        variables: vec![JOB, INSTANCES, INTERFACE],
        panels,
    }
}

fn at_a_glance() -> Vec<Panel> {
    let number = |title, unit, says| Shape::Number.panel(title, unit, says).sized(6, 4);
    vec![
        number(
            "To be sent, p99",
            Unit::Seconds,
            "99 of 100 packets left the interface's queue at least this fast. Microseconds are usual; \
             milliseconds mean that more is sent than the link or its shaper lets through.",
        )
        .ask("p99", quantile("0.99", "", Signal::NetTxWait, CHOSEN))
        .limits(0.01, 0.1),
        number(
            "To the receiver, p99",
            Unit::Seconds,
            "99 of 100 packets woke their receiver at least this fast once the kernel had them. Below \
             100 us is usual; more is a flood of packets or of interrupts.",
        )
        .ask("p99", quantile("0.99", "", Signal::NetRxWait, CHOSEN))
        .limits(0.001, 0.01),
        number(
            "Sent again",
            Unit::PerSecond,
            "TCP segments sent again per second, on all interfaces: the network loses packets, or answers \
             come late. Below one in a thousand packets is usual.",
        )
        .ask("segments", sum_rate("", metric(Signal::TcpRetransmit), ""))
        .limits(10.0, 100.0),
        number(
            "Dropped",
            Unit::PerSecond,
            "Packets that the kernel dropped per second, for whatever reason; see below for which.",
        )
        .ask("packets", sum_rate("", metric(Signal::PacketDrop), ""))
        .limits(100.0, 1000.0),
    ]
}

fn over_time() -> Vec<Panel> {
    vec![
        Shape::Heatmap.panel(
            "How long packets waited to be sent",
            Unit::Seconds,
            "Every packet by its time in the interface's queue; brighter is more. A band of milliseconds \
             is a queue that never empties (bufferbloat): a shaper, or a link that is full.",
        )
        .ask("{{le}}", buckets(Signal::NetTxWait, CHOSEN)),
        Shape::Heatmap.panel(
            "How long packets took to their receiver",
            Unit::Seconds,
            "From the kernel's first look at a packet to the wake-up of who reads it; brighter is more.",
        )
        .ask("{{le}}", buckets(Signal::NetRxWait, CHOSEN)),
        Shape::Lines.panel(
            "To be sent, p99",
            Unit::Seconds,
            "The 99th percentile by interface. One interface that is slow has a full queue; if all are, \
             the host is busy.",
        )
        .ask(LEGEND, top(10, &quantile("0.99", LABEL, Signal::NetTxWait, CHOSEN))),
        Shape::Lines.panel(
            "To the receiver, p99",
            Unit::Seconds,
            "The 99th percentile by interface. It rises with packets that are handled in large batches.",
        )
        .ask(LEGEND, top(10, &quantile("0.99", LABEL, Signal::NetRxWait, CHOSEN))),
        Shape::Lines.panel(
            "To be sent, mean",
            Unit::Seconds,
            "Mean time in the interface's queue. Where the p99 rises and the mean does not, bursts meet a \
             full queue; where both do, the link is full.",
        )
        .ask(LEGEND, top(10, &mean(LABEL, Signal::NetTxWait, CHOSEN))),
        Shape::Lines.panel(
            "Packets sent",
            Unit::PerSecond,
            "Packets (large ones before they are cut up) that left each interface's queue per second.",
        )
        .ask(LEGEND, top(10, &count(LABEL, Signal::NetTxWait, CHOSEN))),
        Shape::Lines.panel(
            "Packets in the queue at once",
            Unit::Count,
            "How many packets waited to be sent at a time, on average (time spent waiting per second). \
             Near 0 is usual.",
        )
        .ask(LEGEND, top(10, &lost(LABEL, Signal::NetTxWait, CHOSEN))),
    ]
}

fn losses() -> Vec<Panel> {
    vec![
        Shape::Lines.panel(
            "Dropped packets, by reason",
            Unit::PerSecond,
            "Packets that the kernel dropped, by its own words for why. no_socket is a port that no program listens on, \
             socket_rcvbuff a program that reads too slowly, qdisc_drop a full queue, netfilter_drop a firewall.",
        )
        .ask("{{reason}}", top(10, &sum_rate("reason", metric(Signal::PacketDrop), ""))),
        Shape::Lines.panel(
            "TCP segments sent again",
            Unit::PerSecond,
            "By the interface that the connection goes through. 0 with bursts is usual; a steady rate \
             is loss on the way, and costs a round trip each time, or 200 ms and more where only a \
             timeout notices it.",
        )
        .ask(LEGEND, sum_rate("interface", metric(Signal::TcpRetransmit), "")),
        Shape::Lines.panel(
            "Delay of packets, by cause",
            Unit::SecondsPerSecond,
            "Why packets waited: for those of other cgroups (foreign), of the same one (self), or, when \
             they arrived, for the softirq and what interrupted it.",
        )
        .ask("{{resource}}: {{cause}}", sum_rate("resource, cause", INTERFERENCE, WAITS)),
        Shape::Table(&[
            ("victim", "Whose packets waited"),
            ("culprit", "For whom"),
            ("cause", "Why"),
            ("resource", "Where"),
        ])
        .panel(
            "Who waits for whom in the network",
            Unit::SecondsPerSecond,
            "Delay of packets by whose they are and who was served meanwhile. A bulk transfer above an \
             interactive service is what fq_codel or a class of its own is for.",
        )
        .ask("Time lost", ranked(20, &sum_rate("victim, culprit, cause, resource", INTERFERENCE, WAITS)))
        .sized(24, 8),
    ]
}
