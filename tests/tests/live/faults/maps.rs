//! More subjects than the maps of the programs have room for: what does not fit is counted.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_host::kernel::Sizes;
use noise_tests::daemon::{Daemon, nameless};
use noise_tests::ftrace::blind::hidden_threads;
use noise_tests::group::{Group, Hierarchy};
use noise_tests::load::{Place, Worker, figure};
use noise_tests::namespace::{Namespace, configure};
use noise_tests::prom::Scrape;
use noise_tests::toll::{Bill, Toll};

use super::crowds::{charged_to, settled, waits_of};
use crate::Test;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("more_interfaces_than_cells", more_interfaces_than_cells),
    ("more_packets_than_slots", more_packets_than_slots),
    ("more_pairs_than_charges", more_pairs_than_charges),
];

const GROWTH_BYTES: u64 = 16 << 20;

/// Pairs of interfaces of this host, gone when dropped.
struct Pairs(usize);

impl Pairs {
    /// Makes so many, and switches them on.
    fn new(count: usize) -> Result<Self> {
        let pairs = Self(count);
        let lines: String = (0..count)
            .map(|pair| {
                // Without addresses, the kernel sends nothing of its own: that would come from timers, of which
                // some kernels show programs nothing while process 1 runs.
                let end =
                    |name: &str| format!("link set {name} addrgenmode none\nlink set {name} up\n");
                format!("link add nt{pair}a type veth peer name nt{pair}b\n")
                    + &end(&format!("nt{pair}a"))
                    + &end(&format!("nt{pair}b"))
            })
            .collect();
        batch(&lines)?;
        Ok(pairs)
    }

    fn names(&self) -> impl Iterator<Item = String> {
        (0..self.0).flat_map(|pair| [format!("nt{pair}a"), format!("nt{pair}b")])
    }

    /// Packets that the kernel says it sent through them.
    fn sent(&self) -> Result<u64> {
        self.names()
            .map(|name| {
                let path = format!("/sys/class/net/{name}/statistics/tx_packets");
                Ok(fs::read_to_string(&path).context(path)?.trim().parse::<u64>()?)
            })
            .sum()
    }
}

fn batch(lines: &str) -> Result<()> {
    let (_file, path) = nameless(lines.as_bytes())?;
    configure("ip", &["-batch", &path])
}

impl Drop for Pairs {
    fn drop(&mut self) {
        let lines: String = (0..self.0).map(|pair| format!("link delete nt{pair}a\n")).collect();
        // A failure shows as a leftover interface.
        let _ = batch(&lines);
    }
}

/// Packets that were counted as sent, of the interfaces that the test holds for.
fn transmitted(scrape: &Scrape, wanted: impl Fn(&str) -> bool) -> Result<f64> {
    let found = scrape.histograms("noised_net_tx_wait_seconds")?.into_iter();
    let found =
        found.filter(|(labels, _)| labels.get("interface").is_some_and(|name| wanted(name)));
    Ok(found.map(|(_, waits)| waits.count).sum())
}

/// A cell for each interface that sends is a cell of the hash, where another has the direct one.
fn more_interfaces_than_cells() -> Result<()> {
    // Room is made for the interfaces that there are at the start.
    let pairs = Sizes::of_host()?.cells as usize / 2 + 32;
    let daemon = Daemon::start()?;
    let toll = Toll::begin(&daemon)?;
    let pairs = Pairs::new(pairs)?;
    let names: Vec<String> = pairs.names().collect();
    let arguments: Vec<&str> =
        ["60", "5"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut worker = Worker::start("broadcast-each", &arguments)?;
    ensure!(figure(&worker.figures()?, "sent")? == pairs.0 as u64 * 10, "not everything was sent");
    let sent = pairs.sent()? as f64;
    let bill = toll.end(&daemon)?;
    let counted = transmitted(&bill.scrape, |name| names.iter().any(|known| known == name))?;
    let dropped = bill.lost.get("net_tx_wait map_full").copied().unwrap_or_default();
    println!(
        "{sent} packets by the kernel's account, {counted} counted, {dropped} that found no room"
    );
    ensure!(dropped > 0.0, "the map was not full");
    // Those of the host's own interfaces may find no room either.
    ensure!(counted + dropped >= sent, "packets are missing");
    ensure!(counted <= sent, "more packets than there were");
    bill.ensure_bounded(GROWTH_BYTES)?;
    Ok(())
}

/// Packets in a queue that sends slowly take a slot each, then room in the hash, then none.
fn more_packets_than_slots() -> Result<()> {
    const FRAMES: u64 = 9000;
    let namespace = Namespace::new("queue")?;
    namespace.ip(&["link", "add", "qa", "type", "veth", "peer", "name", "qb"])?;
    for end in ["qa", "qb"] {
        namespace.ip(&["link", "set", end, "up"])?;
    }
    let shape = ["rate", "8mbit", "burst", "2000", "limit", "16mb"];
    namespace.tc(&[&["qdisc", "add", "dev", "qa", "root", "tbf"], &shape[..]].concat())?;
    let daemon = Daemon::start()?;
    let toll = Toll::begin(&daemon)?;
    let place = Place { group: None, namespace: Some(&namespace) };
    let arguments = ["200", &FRAMES.to_string(), "qa"];
    let mut worker = Worker::start_at(place, "broadcast-each", &arguments)?;
    ensure!(figure(&worker.figures()?, "sent")? == FRAMES, "not everything was sent");
    // What is transmitted while process 1 is current is not offered to BPF on some kernels: a timer
    // sends a dozen frames at once.
    let hidden = if hidden_threads()?.is_empty() { 0.0 } else { FRAMES as f64 / 20.0 };
    settled(|| {
        let bill = toll.end(&daemon)?;
        let others = |name: &str| name == "~other";
        let counted = transmitted(&bill.scrape, others)? - transmitted(&toll.scrape, others)?;
        let dropped = bill.lost.get("net_tx_wait map_full").copied().unwrap_or_default();
        println!("{FRAMES} frames, {counted} counted, {dropped} that found no room");
        ensure!(dropped > 0.0, "the map was not full");
        let missing = FRAMES as f64 - counted - dropped;
        ensure!(missing <= hidden, "{missing} packets are missing");
        Ok(())
    })?;
    Ok(())
}

/// All waits for a CPU of the host, seconds.
fn host_waits(scrape: &Scrape) -> Result<f64> {
    let waits = scrape.histograms("noised_runqueue_wait_seconds")?;
    Ok(waits.values().map(|waits| waits.sum_seconds).sum())
}

/// What was charged for them to anybody, seconds.
fn host_charges(scrape: &Scrape) -> f64 {
    let charges = scrape.series("noised_interference_seconds_total").into_iter();
    let of_cpus =
        charges.filter(|(labels, _)| labels.get("resource").is_some_and(|of| of == "cpu"));
    of_cpus.map(|(_, seconds)| seconds).sum()
}

/// So many cgroups on so few CPUs that each waits for all the others.
fn more_pairs_than_charges() -> Result<()> {
    const GROUPS: usize = 40;
    let daemon = Daemon::start_unfolded()?;
    let groups = (0..GROUPS)
        .map(|number| Group::new(&format!("pair{number}"), &[Hierarchy::Cpu]))
        .collect::<Result<Vec<_>>>()?;
    let toll = Toll::begin(&daemon)?;
    let workers = groups
        .iter()
        .map(|group| Worker::start_at(Place::group(group), "sleepers", &["4", "5"]))
        .collect::<Result<Vec<_>>>()?;
    thread::sleep(Duration::from_secs(5));
    let figures = workers.into_iter().map(Worker::stop).collect::<Result<Vec<_>>>()?;
    let mut expected = 0;
    for figures in &figures {
        expected += figure(figures, "switches")? + figure(figures, "tasks")?;
    }
    settled(|| ensure_charged(&toll, &toll.end(&daemon)?, &groups, expected))?;
    Ok(())
}

/// Requires that so many waits of these groups were counted, and charged to somebody.
fn ensure_charged(toll: &Toll, bill: &Bill, groups: &[Group], expected: u64) -> Result<()> {
    let (mut count, mut seconds, mut charged) = (0.0, 0.0, 0.0);
    for group in groups {
        let waits = waits_of(&bill.scrape, &group.label())?;
        count += waits.0;
        seconds += waits.1;
        charged += charged_to(&bill.scrape, &group.label());
    }
    let other = charged_to(&bill.scrape, "~other") - charged_to(&toll.scrape, "~other");
    println!(
        "{expected} waits by the kernel's account, {count} counted; {seconds:.3} s waited, \
         {charged:.3} s charged by name, {other:.3} s of the whole host as ~other"
    );
    // Where cgroups share cells, some of their waits count for the others.
    let shared = waits_of(&bill.scrape, "~other")?.0 - waits_of(&toll.scrape, "~other")?.0;
    let dropped = bill.dropped("no_start");
    let hidden = bill.hidden as f64;
    println!(
        "{shared} more counted as ~other; on the whole host {dropped} reported as not counted, {hidden} \
         switches hidden from BPF"
    );
    ensure!(count + shared + dropped + hidden >= expected as f64, "waits are missing");
    ensure!(other > 0.0, "there was room for all of them");
    ensure!(charged <= seconds * 1.01 + 0.01, "more is charged than was waited");
    // Whoever is named, all waits of the host are charged.
    let waits = host_waits(&bill.scrape)? - host_waits(&toll.scrape)?;
    let charges = host_charges(&bill.scrape) - host_charges(&toll.scrape);
    println!("{waits:.3} s of waits on the whole host, {charges:.3} s of charges");
    ensure!((waits - charges).abs() <= 0.01 * waits + 0.05, "charges are missing");
    bill.ensure_bounded(GROWTH_BYTES)
}
