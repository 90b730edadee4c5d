//! Packets: a queue of known slowness, drops, retransmissions, other network namespaces.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_common::queue::queue_entry;
use noise_tests::compare::observe;
use noise_tests::daemon::Daemon;
use noise_tests::ftrace::all_events;
use noise_tests::ftrace::event::{Event, Kind};
use noise_tests::group::{Group, Hierarchy};
use noise_tests::load::{Place, Worker, figure};
use noise_tests::namespace::{VethPair, configure};
use noise_tests::pairing::counts::{packet_drops, tcp_retransmits};
use noise_tests::pairing::net::{net_rx_wait, net_tx_wait};
use noise_tests::prom::{LabelSet, label_set};
use noise_tests::task::{cpus, pollers};

use crate::{INCONCLUSIVE, Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("slow_queue_is_read_back", slow_queue_is_read_back),
    ("queues_that_meet_are_both_charged", queues_that_meet_are_both_charged),
    ("transmitted_by_another_cpu", transmitted_by_another_cpu),
    ("drops_and_retransmissions", drops_and_retransmissions),
    ("other_namespaces_are_folded", other_namespaces_are_folded),
    ("packets_that_a_thread_receives_are_counted", packets_that_a_thread_receives_are_counted),
];

const TX: &str = "noised_net_tx_wait_seconds";
const RX: &str = "noised_net_rx_wait_seconds";

/// 1,000 bytes at 80 kbit/s take 100 ms; the bucket lets two through at once.
fn slow_down(pair: &VethPair) -> Result<()> {
    let shape = ["root", "tbf", "rate", "80kbit", "burst", "2100", "limit", "100000"];
    configure("tc", &[&["qdisc", "add", "dev", &pair.near], &shape[..]].concat())
}

fn slow_queue_is_read_back() -> Result<()> {
    let daemon = Daemon::start()?;
    // After the daemon: an interface that it has not seen at its start.
    let pair = VethPair::new()?;
    slow_down(&pair)?;
    let (seen, ()) = observe(&daemon, &all_events(), 32, || {
        let mut sender = Worker::start("broadcasts", &["0", &pair.near, "1000", "10"])?;
        ensure!(figure(&sender.figures()?, "sent")? == 10, "not all datagrams were sent");
        thread::sleep(Duration::from_secs(2));
        Ok(())
    })?;
    let labels = label_set(&[("interface", &pair.near)]);
    let found = seen.histograms(TX)?.get(&labels).cloned().unwrap_or_default();
    let long = found.above(1 << 26)?;
    println!(
        "{} packets waited {} s, {long} of them longer than 67 ms",
        found.count, found.sum_seconds
    );
    // From the third packet on, each waits for all before it.
    ensure!(found.count >= 10.0 && long >= 6.0, "the queue's delay is not there");
    let mut table = seen.table();
    table.histogram(TX, &["interface"], &net_tx_wait(&seen.trace.events))?;
    table.verdict()?;
    Ok(())
}

/// Two interfaces whose queues would be in the same entry: all waits in both are charged.
fn queues_that_meet_are_both_charged() -> Result<()> {
    ensure!(
        Group::is_possible(Hierarchy::Sockets)?,
        Impossible("this host has no cgroups of sockets".into())
    );
    let netns = fs::metadata("/proc/self/ns/net")?.ino();
    let entry = |index: u32| queue_entry(netns << 32 | u64::from(index));
    let (first, mut others) = (5_000, 5_001..10_000);
    let second = others.find(|index| entry(*index) == entry(first)).context("no two meet")?;
    let daemon = Daemon::start()?;
    let group = Group::new("sender", &[Hierarchy::Sockets])?;
    let pairs = [VethPair::numbered(first, ["a", "b"])?, VethPair::numbered(second, ["c", "d"])?];
    pairs.iter().try_for_each(slow_down)?;
    let start = |pair: &VethPair| {
        let broadcasts = ["0", &pair.near, "1000", "10"];
        Worker::start_at(Place::group(&group), "broadcasts", &broadcasts)
    };
    let senders = pairs.iter().map(start).collect::<Result<Vec<_>>>()?;
    for mut sender in senders {
        ensure!(figure(&sender.figures()?, "sent")? == 10, "not all datagrams were sent");
    }
    thread::sleep(Duration::from_secs(2));
    let scrape = daemon.scrape()?;
    let waits = scrape.histograms(TX)?;
    let waited: f64 = waits.values().map(|waits| waits.sum_seconds).sum();
    let charges = scrape.series("noised_interference_seconds_total");
    let of_queues = |labels: &LabelSet| labels.get("resource").is_some_and(|name| name == "net_tx");
    let charged: f64 =
        charges.iter().filter(|(labels, _)| of_queues(labels)).map(|(_, seconds)| seconds).sum();
    println!("packets waited {waited} s, of which {charged} s are charged");
    for pair in &pairs {
        let labels = label_set(&[("interface", &pair.near)]);
        let seconds = waits.get(&labels).map_or(0.0, |waits| waits.sum_seconds);
        ensure!(seconds > 2.0, "packets waited {seconds} s in the queue of {}", pair.near);
    }
    // The first that waits in a queue has nothing ahead of it but the rate, 100 ms at most: that has no culprit.
    // The host's own few packets may be such ones, too.
    let uncharged = waited - charged;
    ensure!((-0.001..0.5).contains(&uncharged), "{charged} of {waited} s are charged");
    Ok(())
}

/// Packets that start to be transmitted on another CPU than queued them.
fn crossings(events: &[Event]) -> usize {
    let mut queued: HashMap<u64, u32> = HashMap::new();
    let mut found = 0;
    for event in events {
        match &event.kind {
            Kind::TxQueue { skb, .. } => {
                queued.insert(*skb, event.cpu);
            }
            Kind::TxStart { skb, .. } => {
                found += usize::from(queued.remove(skb).is_some_and(|cpu| cpu != event.cpu));
            }
            _ => {}
        }
    }
    found
}

fn transmitted_by_another_cpu() -> Result<()> {
    ensure!(cpus() >= 2, Impossible("needs two CPUs".into()));
    let daemon = Daemon::start()?;
    let pair = VethPair::new()?;
    // 1,000 bytes at 8 Mbit/s take 1 ms. Whichever CPU comes by sends what may be sent.
    let shape = ["root", "tbf", "rate", "8mbit", "burst", "2100", "limit", "1000000"];
    configure("tc", &[&["qdisc", "add", "dev", &pair.near], &shape[..]].concat())?;
    let (seen, ()) = observe(&daemon, &all_events(), 64, || {
        let senders =
            ["0", "1"].map(|cpu| Worker::start("broadcasts", &[cpu, &pair.near, "1000", "500"]));
        for sender in senders {
            figure(&sender?.figures()?, "sent")?;
        }
        Ok(())
    })?;
    let found = crossings(&seen.trace.events);
    println!("{found} packets were transmitted by another CPU");
    ensure!(found > 0, "{INCONCLUSIVE}: no packet was transmitted by another CPU");
    let mut table = seen.table();
    table.histogram(TX, &["interface"], &net_tx_wait(&seen.trace.events))?;
    table.verdict()?;
    Ok(())
}

fn drops_and_retransmissions() -> Result<()> {
    let daemon = Daemon::start()?;
    let (seen, (sent, connections)) = observe(&daemon, &all_events(), 64, || {
        let drops = Worker::start("udp-drops", &["0", "1000"])?;
        let mut retransmits = Worker::start("syn-retransmits", &["20"])?;
        let connections = figure(&retransmits.figures()?, "connections")?;
        Ok((figure(&drops.stop()?, "sent")?, connections))
    })?;
    let found = seen.counters("noised_packet_drops_total")?;
    let unheard = found.get(&label_set(&[("reason", "no_socket")])).copied().unwrap_or_default();
    ensure!(
        unheard >= sent as f64,
        "{sent} datagrams to a closed port, noised has {unheard} drops"
    );
    let retransmits: f64 = seen.counters("noised_tcp_retransmits_total")?.values().sum();
    ensure!(
        retransmits >= connections as f64,
        "{connections} SYNs sent again, noised has {retransmits}"
    );
    let mut table = seen.table();
    table.counter("noised_packet_drops_total", &["reason"], &packet_drops(&seen.trace.events))?;
    table.counter_total("noised_tcp_retransmits_total", &tcp_retransmits(&seen.trace.events))?;
    table.verdict()?;
    Ok(())
}

fn other_namespaces_are_folded() -> Result<()> {
    let daemon = Daemon::start()?;
    let (seen, (inside, outside)) = observe(&daemon, &all_events(), 64, || {
        let inside = Worker::start("namespace-drops", &["0", "1000"])?;
        let outside = Worker::start("udp-drops", &["0", "1000"])?;
        thread::sleep(Duration::from_secs(2));
        Ok((figure(&inside.stop()?, "sent")?, figure(&outside.stop()?, "sent")?))
    })?;
    let found = seen.histograms(TX)?;
    let of = |interface| {
        found.get(&label_set(&[("interface", interface)])).map_or(0.0, |histogram| histogram.count)
    };
    println!("inside {inside}, outside {outside}; noised ~other {}, lo {}", of("~other"), of("lo"));
    ensure!(of("~other") >= inside as f64, "{inside} packets inside, ~other has {}", of("~other"));
    ensure!(of("lo") >= outside as f64, "{outside} packets outside, lo has {}", of("lo"));
    // ftrace calls both `lo`; so does every namespace.
    let inner = net_tx_wait(&seen.trace.events);
    let most = inner.samples.iter().filter(|sample| &*sample.labels.0 == "lo").count();
    ensure!(
        of("~other") + of("lo") <= most as f64,
        "ftrace has {most} packets on lo, noised {} and {}",
        of("~other"),
        of("lo")
    );
    // No task waits for a packet that has no receiver, but an ICMP error wakes its sender.
    println!("{} receive waits", net_rx_wait(&seen.trace.events, &pollers()?).samples.len());
    Ok(())
}

fn packets_that_a_thread_receives_are_counted() -> Result<()> {
    let daemon = Daemon::start()?;
    let pair = VethPair::new()?;
    pair.receive_in_a_thread()
        .map_err(|error| Impossible(format!("no interface receives in a thread: {error:#}")))?;
    let (seen, [sent, received]) = observe(&daemon, &all_events(), 64, || {
        let receiver = Worker::start("frames-in", &[&pair.far])?;
        let sender = Worker::start("frames", &["0", &pair.near, "100", "1", "2000"])?;
        thread::sleep(Duration::from_secs(2));
        let sent = figure(&sender.stop()?, "sent")?;
        thread::sleep(Duration::from_millis(50));
        Ok([sent, figure(&receiver.stop()?, "received")?])
    })?;
    let labels = label_set(&[("interface", &pair.far)]);
    let found = seen.histograms(RX)?.get(&labels).cloned().unwrap_or_default();
    println!("{sent} frames sent, {received} received, noised has {}", found.count);
    ensure!(received >= sent / 2, "{INCONCLUSIVE}: {received} of {sent} frames arrived");
    // One that finds the receiver awake does not wake it, as most do where something else keeps the CPUs busy; the referee
    // knows which.
    ensure!(found.count >= 0.1 * received as f64, "of {received} frames {} count", found.count);
    let mut table = seen.table();
    table.histogram(RX, &["interface"], &net_rx_wait(&seen.trace.events, &pollers()?))?;
    table.verdict()?;
    Ok(())
}
