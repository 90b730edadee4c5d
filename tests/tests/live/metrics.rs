//! The metric contract: names, types, labels, buckets.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::{Daemon, run_noised};
use noise_tests::needed::needs;
use noise_tests::prom::label_set;
use serde_json::Value;

use crate::Test;
use crate::differential::MixedLoad;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("promtool_is_silent", promtool_is_silent),
    ("names_and_types", names_and_types),
    ("totals_never_run_backwards", totals_never_run_backwards),
    ("hooks_are_attached", hooks_are_attached),
];

/// Histograms with 25 buckets, and those with 13.
const FINE: &[&str] = &["noised_runqueue_wait_seconds"];
const WIDE: &[&str] = &[
    "noised_hardirq_seconds",
    "noised_vector_seconds",
    "noised_softirq_seconds",
    "noised_softirq_raise_wait_seconds",
    "noised_block_queue_wait_seconds",
    "noised_block_device_wait_seconds",
    "noised_net_tx_wait_seconds",
    "noised_net_rx_wait_seconds",
    "noised_cgroup_runqueue_wait_seconds",
    "noised_uninterruptible_wait_seconds",
];
const COUNTERS: &[&str] = &[
    "noised_context_switches_total",
    "noised_cpu_interrupted_seconds_total",
    "noised_tcp_retransmits_total",
    "noised_packet_drops_total",
    "noised_steal_seconds_total",
    "noised_dropped_total",
    "noised_interference_seconds_total",
    "noised_preemptions_total",
    "noised_series_folded_total",
    "noised_http_hangups_total",
    "noised_marks_total",
    "noised_http_requests_delayed_total",
    "noised_recorder_events_total",
    "noised_recorder_overwritten_total",
    "process_cpu_seconds_total",
];
const GAUGES: &[&str] = &[
    "noised_build_info",
    "noised_recorder_bytes",
    "noised_recorder_seconds_held",
    "noised_recorder_seconds_held_median",
    "noised_cgroup_hierarchy_found",
    "noised_probe_attached",
    "process_resident_memory_bytes",
    "process_open_fds",
    "process_start_time_seconds",
];

/// A daemon that has seen every signal, and what it says.
fn after_load() -> Result<(Daemon, String)> {
    let daemon = Daemon::start()?;
    let load = MixedLoad::start()?;
    thread::sleep(Duration::from_secs(2));
    load.stop()?;
    let page = daemon.metrics()?;
    Ok((daemon, page))
}

fn promtool_is_silent() -> Result<()> {
    needs(&["promtool"])?;
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let page = after_load().map(|(_, page)| page);
    // Fed and waited for in any case, so that none is left behind.
    let mut input = promtool.stdin.take().context("no pipe")?;
    if let Ok(page) = &page {
        input.write_all(page.as_bytes())?;
    }
    drop(input);
    let output = promtool.wait_with_output()?;
    page?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    ensure!(output.status.success() && said.trim().is_empty(), "promtool: {said}");
    Ok(())
}

fn names_and_types() -> Result<()> {
    let (daemon, _) = after_load()?;
    let scrape = daemon.scrape()?;
    let kinds =
        [("histogram", FINE), ("histogram", WIDE), ("counter", COUNTERS), ("gauge", GAUGES)];
    for (kind, names) in kinds {
        for &name in names {
            let family = scrape.families.get(name).with_context(|| format!("no {name}"))?;
            ensure!(family.kind == kind, "{name} is a {}", family.kind);
            ensure!(!family.help.is_empty(), "{name} has no help");
        }
    }
    let fine: Vec<u64> = (10..=34).map(|power| 1 << power).collect();
    let wide: Vec<u64> = (5..=17).map(|power| 1 << (2 * power)).collect();
    for (names, bounds) in [(FINE, &fine), (WIDE, &wide)] {
        for &name in names {
            let histograms = scrape.histograms(name)?;
            ensure!(!histograms.is_empty(), "{name} has no series after a load that touches it");
            for (labels, histogram) in histograms {
                let found: Vec<u64> = histogram.buckets.iter().map(|bucket| bucket.0).collect();
                ensure!(&found == bounds, "{name} {labels:?} has bounds {found:?}");
            }
        }
    }
    for kind in ["voluntary", "involuntary"] {
        let labels = label_set(&[("kind", kind)]);
        let count = scrape.value("noised_context_switches_total", &labels);
        ensure!(count.is_some_and(|count| count > 0.0), "{kind} switches: {count:?}");
    }
    Ok(())
}

fn totals_never_run_backwards() -> Result<()> {
    let daemon = Daemon::start()?;
    let load = MixedLoad::start()?;
    let mut earlier = daemon.scrape()?;
    // Across several windows, at a pace that is none of theirs.
    for _ in 0..40 {
        thread::sleep(Duration::from_millis(73));
        let scrape = daemon.scrape()?;
        for &name in FINE.iter().chain(WIDE) {
            let before = earlier.histograms(name)?;
            for (labels, histogram) in scrape.histograms(name)? {
                let grown = histogram.since(&before.get(&labels).cloned().unwrap_or_default());
                let forward = grown.count >= 0.0
                    && grown.sum_seconds >= -1e-9
                    && grown.buckets.iter().all(|bucket| bucket.1 >= 0.0);
                ensure!(forward, "{name} {labels:?} ran backwards: {grown:?}");
            }
        }
        for &name in COUNTERS {
            for (labels, before) in earlier.series(name) {
                let now = scrape.value(name, &labels);
                ensure!(
                    now.is_some_and(|now| now >= before),
                    "{name} {labels:?} went from {before} to {now:?}"
                );
            }
        }
        earlier = scrape;
    }
    load.stop()?;
    Ok(())
}

fn hooks_are_attached() -> Result<()> {
    let daemon = Daemon::start()?;
    let attached = daemon.scrape()?.series("noised_probe_attached");
    ensure!(!attached.is_empty(), "no noised_probe_attached");
    for hook in [
        "sched_switch",
        "sched_wakeup",
        "sched_wakeup_new",
        "sched_waking",
        "irq_handler_entry",
        "irq_handler_exit",
        "softirq_raise",
        "softirq_entry",
        "softirq_exit",
        "block_rq_insert",
        "block_rq_issue",
        "block_rq_complete",
        "net_dev_queue",
        "net_dev_start_xmit",
        "netif_receive_skb",
    ] {
        let value = attached.get(&label_set(&[("hook", hook)]));
        ensure!(value == Some(&1.0), "{hook}: {value:?} in {attached:?}");
    }
    let report: Value = serde_json::from_str(&run_noised(&["check", "--json"])?.stdout)?;
    let hooks = report["hooks"].as_array().context("`noised check` names no hooks")?;
    // What this kernel does not have was not to be attached.
    let checked = hooks.iter().filter(|hook| hook["state"] != "absent").map(|hook| {
        let name = hook["hook"].as_str().unwrap_or_default();
        (label_set(&[("hook", name)]), f64::from(u8::from(hook["state"] == "ok")))
    });
    let checked: BTreeMap<_, _> = checked.collect();
    let others = report["recording_hooks"].as_array().context("it names none of recordings")?;
    ensure!(!others.is_empty() && others.iter().all(|hook| hook["state"] == "ok"), "{others:?}");
    ensure!(checked == attached, "`noised check` says {checked:?}, the daemon {attached:?}");
    Ok(())
}
