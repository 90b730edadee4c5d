//! The delays of a recording, against /metrics of the same seconds.

use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use noise_tests::attribution::INTERFERENCE;
use noise_tests::compare::{Observation, Observer};
use noise_tests::daemon::{Daemon, Socketed};
use noise_tests::delays::raced::Raced;
use noise_tests::delays::{Apart, Bounds, Delays, Figure, Table, clock_and_losses};
use noise_tests::ftrace::event::Kind;
use noise_tests::group::{Group, Hierarchy};
use noise_tests::load::{Place, Worker};
use noise_tests::namespace::{VethPair, configure};
use noise_tests::pairing::runqueue::{runqueue_wait, ways_to_queues};
use noise_tests::prom::label_set;
use noise_tests::task::{cpus, set_nice};

use crate::differential::MixedLoad;
use crate::record::Recorder;
use crate::{INCONCLUSIVE, Test};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("delays_of_a_recording_are_the_metrics", delays_of_a_recording_are_the_metrics)];

/// How long the daemon may take to learn the name of a cgroup.
const NAMED_WITHIN: Duration = Duration::from_secs(30);
/// Between the scrapes.
const LENGTH: Duration = Duration::from_millis(1500);
const BUFFER_MIB: usize = 64;
const CGROUP_WAITS: &str = "noised_cgroup_runqueue_wait_seconds";

/// The ways to run queues, which a recording has in its waits, and those between them.
const EVENTS: [&str; 4] =
    ["sched:sched_switch", "sched:sched_waking", "sched:sched_wakeup", "sched:sched_wakeup_new"];

/// Waits until the daemon charges one of these with the delays of the other, by their names.
fn await_names(daemon: &Daemon, victim: &Group, culprit: &Group) -> Result<()> {
    let deadline = Instant::now() + NAMED_WITHIN;
    let is_charged = |victim: &Group, culprit: &Group| -> Result<bool> {
        let series = daemon.scrape()?.series(INTERFERENCE);
        Ok(series.keys().any(|labels| {
            let is = |name: &str, value: &str| labels.get(name).is_some_and(|own| own == value);
            is("victim", &victim.label()) && is("culprit", &culprit.label())
        }))
    };
    while !is_charged(victim, culprit)? || !is_charged(culprit, victim)? {
        ensure!(Instant::now() < deadline, "{} is not known", victim.label());
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// What ftrace has of what is different by definition, for some threads.
fn apart(seen: &Observation, raced: &Raced, who: &dyn Fn(i32) -> bool) -> Apart {
    let [inner, outer] = seen.spans();
    let mut ways = ways_to_queues(&seen.trace.events);
    ways.samples.retain(|way| who(way.pid) && outer.contains(&way.end_ns));
    let ways_in = |span: &RangeInclusive<u64>| -> f64 {
        let inside = ways.samples.iter().filter(|way| span.contains(&way.end_ns));
        inside.map(|way| way.value_ns as f64).sum()
    };
    let mut moves: HashMap<i32, Vec<u64>> = HashMap::new();
    for event in &seen.trace.events {
        if let Kind::Migrate { pid, .. } = event.kind {
            moves.entry(pid).or_default().push(event.time_ns);
        }
    }
    let waits = runqueue_wait(&seen.trace.events);
    let across = waits.samples.iter().filter(|wait| {
        let begin_ns = wait.end_ns - wait.value_ns;
        let is_across = |from: &u64, to: &u64| begin_ns <= *to && wait.end_ns >= *from;
        let moved = moves.get(&wait.pid).is_some_and(|moves| {
            moves.iter().any(|moved_ns| (begin_ns..=wait.end_ns).contains(moved_ns))
        });
        moved && (is_across(outer.start(), inner.start()) || is_across(inner.end(), outer.end()))
    });
    Apart {
        ways_inner_ns: ways_in(&inner),
        ways_outer_ns: ways_in(&outer),
        stamps_ns: if ways.samples.is_empty() { 0.0 } else { seen.apart_ns(ways.samples.len()) },
        across_ns: across.map(|wait| wait.value_ns as f64).sum(),
        raced: raced.clone(),
    }
}

/// A group with its threads.
type Cast<'a> = (&'a Group, &'a BTreeSet<i32>);

/// What the threads of a group waited, for whom, and for the threads of another group.
fn compare_group(
    table: &mut Table,
    seen: &Observation,
    bounds: &Bounds,
    raced: &Raced,
    [(group, tids), (other, others)]: [Cast<'_>; 2],
) -> Result<()> {
    let (label, culprit) = (group.label(), other.label());
    let apart = apart(seen, raced, &|tid| tids.contains(&tid));
    let is_its = |tid: i64| i32::try_from(tid).is_ok_and(|tid| tids.contains(&tid));
    table.interference(seen, Some(&label), &is_its, bounds, &apart)?;

    let (mut grown, mut stolen) = (0.0, 0.0);
    for (labels, seconds) in seen.counters(INTERFERENCE)? {
        let is = |name: &str, value: &str| labels.get(name).is_some_and(|own| own == value);
        let ns = (seconds * 1e9).round();
        if !is("victim", &label) || !is("resource", "cpu") {
            continue;
        }
        if is("culprit", &culprit) && is("cause", "foreign") {
            grown += ns;
        } else if is("cause", "steal") {
            stolen += ns;
        }
    }
    let of = |delays: &Delays| delays.between(tids, others);
    let name = format!("{label} for {culprit}");
    // In a recording a thread runs on while the hypervisor has its CPU.
    table.charge(&name, grown, of(&bounds.inner) - stolen, of(&bounds.outer), &apart);

    let all = seen.histograms(CGROUP_WAITS)?;
    let found = all.get(&label_set(&[("cgroup", &label)])).context("no waits")?;
    let found = Figure { count: found.count, ns: (found.sum_seconds * 1e9).round() };
    let of = |delays: &Delays, more_ns: f64| {
        let tids = tids.iter().filter_map(|tid| delays.threads.get(&i64::from(*tid)));
        tids.fold(Figure { count: 0.0, ns: more_ns }, |sum, thread| Figure {
            count: sum.count + thread.wakeup.count + thread.preempt.count,
            ns: sum.ns + thread.wakeup.ns + thread.preempt.ns,
        })
    };
    let (less, more) = apart.ways();
    let name = format!("{CGROUP_WAITS}{{{label}}}");
    table.figure(&name, found, of(&bounds.inner, -less), of(&bounds.outer, more));
    Ok(())
}

fn delays_of_a_recording_are_the_metrics() -> Result<()> {
    let Socketed { daemon, socket, .. } = &Socketed::start(&[
        "--recorder.kibibytes-per-cpu=16384",
        "--recorder.kibibytes-in-all=1048576",
        "--limits.interference=10000",
        "--limits.cgroups=10000",
    ])?;
    let socket = socket.to_str().context("a path that is not UTF-8")?;
    let mut recorder = Recorder::start(&["--connect", socket])?;
    // As services they have shares of their own; here they would be two of many, and late for the events.
    for process in [daemon.process(), &recorder.process] {
        set_nice(process.pid().try_into()?, -15)?;
    }
    // What makes it see has no turn once the CPUs are busy.
    let observer = Observer::start(&EVENTS, BUFFER_MIB)?;
    let pair = VethPair::new()?;
    // 1,000 packets a second of twice as many: some wait, others are dropped.
    let shape = ["root", "tbf", "rate", "8mbit", "burst", "4000", "limit", "20000"];
    configure("tc", &[&["qdisc", "add", "dev", &pair.near], &shape[..]].concat())?;
    let last = (cpus() - 1).to_string();
    let frames = Worker::start("frames", &[&last, &pair.near, "1000", "20", "10000"])?;
    // They share the CPU as if they were one: by groups, Linux 6.18 can keep one waiting for minutes.
    let around = Group::new("delays", &[Hierarchy::Sockets])?;
    let (victim, culprit) = (around.inner("victim")?, around.inner("culprit")?);
    let burners = [
        Worker::start_at(Place::group(&victim), "burn", &["0"])?,
        Worker::start_at(Place::group(&culprit), "burn", &["0"])?,
    ];
    let load = MixedLoad::start()?;
    await_names(daemon, &victim, &culprit)?;
    let (seen, threads) = observer.observe(daemon, || {
        thread::sleep(LENGTH);
        let threads = (victim.threads()?, culprit.threads()?);
        load.stop()?;
        burners.into_iter().chain([frames]).try_for_each(|worker| worker.stop().map(drop))?;
        Ok(threads)
    })?;
    recorder.stop(libc::SIGINT)?;
    println!("{}", recorder.process.stderr()?);

    let path = recorder.folder.path();
    let (offset_ns, lost) = clock_and_losses(path)?;
    ensure!(lost == 0, "{INCONCLUSIVE}: {lost} events were lost");
    let is_moved = recorder.process.stderr()?.contains("arrived after later ones");
    ensure!(!is_moved, "{INCONCLUSIVE}: the times of events were moved");
    for (labels, by) in seen.counters("noised_dropped_total")? {
        let reason = labels.get("reason").map_or("", String::as_str);
        let is_harmless = ["no_start", "rate_limited", "ring_full_delayed"].contains(&reason);
        ensure!(by == 0.0 || is_harmless, "{INCONCLUSIVE}: {by} are lost: {labels:?}");
    }
    let spans = seen.spans().map(|span| span.start() + offset_ns..=span.end() + offset_ns);
    let [inner, outer] = spans.each_ref().map(|span| Delays::of(path, span));
    let bounds = Bounds { inner: inner?, outer: outer? };
    let [_, outer] = &spans;
    let raced = Raced::of(path, outer, seen.longest_ns())?;
    let apart = apart(&seen, &raced, &|_| true);
    println!("{apart:?}; missed {:?}", seen.missed);
    let mut table = Table::default();
    table.histograms(&seen, &bounds, &apart)?;
    table.interference(&seen, None, &|_| true, &bounds, &apart)?;
    let cast = [(&victim, &threads.0), (&culprit, &threads.1)];
    let [first, second] = cast;
    compare_group(&mut table, &seen, &bounds, &raced, [first, second])?;
    compare_group(&mut table, &seen, &bounds, &raced, [second, first])?;
    let present = [
        "noised_runqueue_wait_seconds{wakeup}".to_owned(),
        "noised_runqueue_wait_seconds{preempt}".to_owned(),
        "noised_hardirq_seconds{".to_owned(),
        "noised_vector_seconds{local_timer}".to_owned(),
        "noised_softirq_seconds{net_rx}".to_owned(),
        "noised_softirq_raise_wait_seconds{timer}".to_owned(),
        "noised_block_queue_wait_seconds{".to_owned(),
        "noised_block_device_wait_seconds{".to_owned(),
        "noised_net_tx_wait_seconds{lo}".to_owned(),
        format!("noised_net_tx_wait_seconds{{{}}}", pair.near),
        "noised_net_rx_wait_seconds{lo}".to_owned(),
        "waits of all for thread".to_owned(),
        format!("{} for {}", victim.label(), culprit.label()),
    ];
    let present: Vec<&str> = present.iter().map(String::as_str).collect();
    table.ensure_present(&present)?;
    table.verdict()?;
    Ok(())
}
