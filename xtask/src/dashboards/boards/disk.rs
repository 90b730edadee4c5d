//! *Disk*: block devices.

use noise_common::signals::Signal;
use noise_common::subject::Domain;

use super::{INSTANCES, INTERFERENCE, JOB, mean, of_the_rest};
use crate::dashboards::promql::{buckets, count, lost, quantile, ranked, sum_rate};
use crate::dashboards::table::{Board, Panel, Shape, Unit, Variable};

/// Narrows requests to what was chosen.
const CHOSEN: &str = r#"device=~"$device",operation=~"$operation""#;
const LABELS: &str = "device, operation";
const LEGEND: &str = "{{device}} {{operation}}";
/// Charges for a place in a queue or at a device.
const WAITS: &str = r#"resource=~"block_queue|block_device""#;

const DEVICE: Variable = Variable {
    name: "device",
    label: "Device",
    query: r#"label_values(noised_block_device_wait_seconds_count{job=~"$job",instance=~"$instance"}, device)"#,
    many: true,
    all: ".+",
};
const OPERATION: Variable = Variable {
    name: "operation",
    label: "Operation",
    query: r#"label_values(noised_block_device_wait_seconds_count{job=~"$job",instance=~"$instance"}, operation)"#,
    many: true,
    all: ".+",
};

pub(super) fn board() -> Board {
    let mut panels = at_a_glance();
    panels.extend(over_time());
    panels.extend(who());
    panels.extend(of_the_rest(Domain::Disk, &panels));
    Board {
        name: "disk",
        title: "Disk",
        description: "How long block requests wait, in the queue and at the device, and because of whom.",
        variables: vec![JOB, INSTANCES, DEVICE, OPERATION],
        panels,
    }
}

fn at_a_glance() -> Vec<Panel> {
    let number = |title, unit, says| Shape::Number.panel(title, unit, says).sized(6, 4);
    vec![
        number(
            "At the device, p99",
            Unit::Seconds,
            "99 of 100 requests were served at least this fast once the device had them. Flash: below \
             5 ms; spinning disks: below 50 ms.",
        )
        .ask("p99", quantile("0.99", "", Signal::BlockDeviceWait, CHOSEN))
        .limits(0.05, 0.2),
        number(
            "In the queue, p99",
            Unit::Seconds,
            "99 of 100 requests left the I/O scheduler at least this fast. More than at the device means \
             that requests come faster than it can serve them. Devices without a scheduler have no queue.",
        )
        .ask("p99", quantile("0.99", "", Signal::BlockQueueWait, CHOSEN))
        .limits(0.05, 0.2),
        number("Requests", Unit::PerSecond, "Requests that devices finished per second.")
            .ask("requests", count("", Signal::BlockDeviceWait, CHOSEN)),
        number(
            "At the device at once",
            Unit::Count,
            "How many requests the devices had at a time, on average (Little's law: time spent there per \
             second). Near the depth of a device's queue it is saturated.",
        )
        .ask("requests", lost("", Signal::BlockDeviceWait, CHOSEN)),
    ]
}

fn over_time() -> Vec<Panel> {
    vec![
        Shape::Heatmap.panel(
            "How long requests were at the device",
            Unit::Seconds,
            "Every request by its time at the device; brighter is more. Two bands are usual: hits of the \
             device's cache and the rest. A third, slower one is the device in trouble or throttled.",
        )
        .ask("{{le}}", buckets(Signal::BlockDeviceWait, CHOSEN)),
        Shape::Heatmap.panel(
            "How long requests were in the queue",
            Unit::Seconds,
            "Every request by its time in the I/O scheduler; brighter is more. Usual is below 100 us.",
        )
        .ask("{{le}}", buckets(Signal::BlockQueueWait, CHOSEN)),
        Shape::Lines.panel(
            "At the device, p99",
            Unit::Seconds,
            "The 99th percentile by device and operation. Flushes and discards are slow by nature; reads \
             are what programs wait for.",
        )
        .ask(LEGEND, quantile("0.99", LABELS, Signal::BlockDeviceWait, CHOSEN)),
        Shape::Lines.panel(
            "In the queue, p99",
            Unit::Seconds,
            "The 99th percentile by device and operation. Writes may queue; reads that queue behind writes \
             are what people feel.",
        )
        .ask(LEGEND, quantile("0.99", LABELS, Signal::BlockQueueWait, CHOSEN)),
        Shape::Lines.panel(
            "At the device, mean",
            Unit::Seconds,
            "Mean time at the device. Where the p99 rises and the mean does not, few requests are slow.",
        )
        .ask(LEGEND, mean(LABELS, Signal::BlockDeviceWait, CHOSEN)),
        Shape::Lines.panel(
            "Requests",
            Unit::PerSecond,
            "Requests finished per second. More of them explains longer queues; as many as before that \
             take longer do not come from the load.",
        )
        .ask(LEGEND, count(LABELS, Signal::BlockDeviceWait, CHOSEN)),
        Shape::Stacked.panel(
            "Requests waiting at once",
            Unit::Count,
            "How many requests were in the queue and at the device at a time, on average (time spent there \
             per second).",
        )
        .ask("in the queue", lost("", Signal::BlockQueueWait, CHOSEN))
        .ask("at the device", lost("", Signal::BlockDeviceWait, CHOSEN)),
    ]
}

fn who() -> Vec<Panel> {
    vec![
        Shape::Lines.panel(
            "Delay at disks, by cause",
            Unit::SecondsPerSecond,
            "Why requests waited: for requests of other cgroups (foreign), for those of the same one and \
             the device's own time (self). Much `foreign` is a neighbour.",
        )
        .ask("{{resource}}: {{cause}}", sum_rate("resource, cause", INTERFERENCE, WAITS)),
        Shape::Table(&[
            ("victim", "Whose requests waited"),
            ("culprit", "For whose"),
            ("resource", "Where"),
        ])
        .panel(
            "Who waits for whom at disks",
            Unit::SecondsPerSecond,
            "Delay of requests by who caused them and whose requests were served meanwhile, for all \
             devices. A backup or log shipper above a database is what io.weight or io.max is for.",
        )
        .ask("Time lost", ranked(20, &sum_rate("victim, culprit, resource", INTERFERENCE, WAITS)))
        .sized(24, 8),
    ]
}
