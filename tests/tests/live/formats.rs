//! Metrics in their other formats, read by those whom they are for: native histograms by a real Prometheus,
//! beside one that reads classic ones, and OpenMetrics by the parser of Prometheus' client for Python.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail, ensure};
use noise_common::signals::Signal;
use noise_model::Histogram;
use noise_tests::daemon::Daemon;
use noise_tests::disk::{LoopDevice, ScratchFile};
use noise_tests::http::get;
use noise_tests::load::Worker;
use noise_tests::needed::needs;
use noise_tests::prom::{LabelSet, Scrape, label_set};
use noise_tests::prometheus::{Series, Server};
use noise_tests::wait::wait_until;

use crate::differential::MixedLoad;
use crate::{INCONCLUSIVE, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("prometheus_reads_native_histograms", prometheus_reads_native_histograms),
    ("openmetrics_is_understood", openmetrics_is_understood),
];

const METRIC: &str = "noised_block_device_wait_seconds";
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
/// Between two bounds of schema 2.
const NATIVE_WIDTH: f64 = 1.189_207_115;
/// Between two bounds of the daemon's own buckets, at most.
const OWN_WIDTH: f64 = 1.25;
/// In which a server has scraped what there is.
const TIMEOUT: Duration = Duration::from_secs(20);

const OPENMETRICS: &str = "application/openmetrics-text;version=1.0.0";
const PARSER: &str = "/usr/lib/python3/dist-packages/prometheus_client/openmetrics/parser.py";
/// Families with their samples, as the parser has them.
const PARSE: &str = "import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
print(json.dumps({f.name: {'kind': f.type, 'unit': f.unit,
                           'samples': [[s.name, s.labels, s.value] for s in f.samples]}
                  for f in parse(sys.stdin.read())}))";

/// The value of an expression that has one series.
fn one(server: &Server, expr: &str) -> Result<f64> {
    match server.query(expr)?.as_slice() {
        [Series { points, .. }] => Ok(points.last().context("no value")?.1),
        other => bail!("{expr} is {} series, not one", other.len()),
    }
}

/// How many series a server has of the daemon.
fn series(server: &Server) -> Result<f64> {
    one(server, r#"count({job="noised"})"#)
}

/// What the daemon has of the reads of a device, by its own buckets.
fn own(daemon: &Daemon, device: &str) -> Result<Histogram> {
    let answer = get(daemon.address, "/api/v1/frame", &[])?;
    let frame = noise_wire::decode(&answer.body)?;
    let wanted = [device, "read"];
    let found = frame.sample.series.iter().find(|series| {
        series.signal == Signal::BlockDeviceWait && series.labels.iter().eq(&wanted)
    });
    Ok(found.context("the daemon knows nothing of the device")?.totals.clone())
}

/// Waits until a server has scraped that many reads.
fn wait_for(server: &Server, expr: &str, count: f64) -> Result<()> {
    let mut found = None;
    let waited = wait_until(expr, TIMEOUT, || {
        found = one(server, expr).ok();
        Ok(found == Some(count))
    });
    waited.with_context(|| format!("{found:?}, not {count}"))
}

fn prometheus_reads_native_histograms() -> Result<()> {
    needs(&["prometheus"])?;
    let daemon = Daemon::start()?;
    let targets = BTreeMap::from([("here", daemon.address)]);
    let native = Server::start_with(&targets, &["native-histograms"])?;
    let classic = Server::start(&targets)?;
    let backing = ScratchFile::new("loop", 32)?;
    let device = LoopDevice::attach(&backing)?;
    let path = device.path();
    let loads = [["0", &path, "4096", "500", "0"], ["0", &path, "1048576", "2000", "0"]];
    let readers: Vec<Worker> = loads
        .iter()
        .map(|arguments| Worker::start("direct-reads", arguments))
        .collect::<Result<_>>()?;
    let are_many = || Ok(own(&daemon, &device.name).is_ok_and(|waits| waits.count() > 4000));
    wait_until("reads of the device", TIMEOUT, are_many)?;
    for reader in readers {
        reader.stop()?;
    }
    let before = own(&daemon, &device.name)?;
    let labels = label_set(&[("device", &device.name), ("operation", "read")]);
    let text = daemon.scrape()?;
    let said = text.histograms(METRIC)?.remove(&labels).context("no histogram of the device")?;
    ensure!(said.count > 1000.0, "only {} reads", said.count);
    let selector = format!(r#"{METRIC}{{device="{}",operation="read"}}"#, device.name);
    let counted = selector.replace("seconds{", "seconds_count{");
    wait_for(&native, &format!("histogram_count({selector})"), said.count)?;
    wait_for(&classic, &counted, said.count)?;
    if own(&daemon, &device.name)?.count() != before.count() {
        bail!("{INCONCLUSIVE}: others read from the device");
    }

    let sum = one(&native, &format!("histogram_sum({selector})"))?;
    ensure!((sum - said.sum_seconds).abs() < 1e-9, "{sum} s, not {} s", said.sum_seconds);
    for quantile in QUANTILES {
        let bound = before.quantile_ns(quantile).context("a wait of more than 68 s")? as f64;
        let read = 1e9 * one(&native, &format!("histogram_quantile({quantile}, {selector})"))?;
        let old = selector.replace("seconds{", "seconds_bucket{");
        let old = 1e9 * one(&classic, &format!("histogram_quantile({quantile}, {old})"))?;
        println!("{quantile}: up to {bound:.0} ns; native {read:.0}, classic {old:.0}");
        // The daemon says where its bucket ends; in it is the bound between the two native ones.
        let (least, most) = (bound / OWN_WIDTH / NATIVE_WIDTH, bound * NATIVE_WIDTH);
        ensure!(least < read && read <= most, "{quantile} is {read}, not {least} to {most}");
    }

    // Whoever does not ask for native histograms has what there was before, and the other only those.
    for (bound_ns, count) in &said.buckets {
        let le = *bound_ns as f64 / 1e9;
        let bucket = selector
            .replace("seconds{", "seconds_bucket{")
            .replace('}', &format!(r#",le="{le}"}}"#));
        let found = one(&classic, &bucket)?;
        ensure!(found == *count, "{bucket} is {found}, not {count}");
    }
    ensure!(classic.query(&selector)?.is_empty(), "a native histogram that was not asked for");
    let left = native.query(r#"{__name__=~"noised_.*_(bucket|count|sum)"}"#)?;
    ensure!(left.is_empty(), "{} classic series beside native ones", left.len());
    let (many, few) = (series(&classic)?, series(&native)?);
    println!("{many} series classic, {few} native");
    ensure!(few < many / 2.0, "{few} native series, {many} classic ones");
    Ok(())
}

/// A family as the parser has it.
#[derive(serde::Deserialize)]
struct Family {
    kind: String,
    unit: String,
    samples: Vec<(String, LabelSet, f64)>,
}

/// What Prometheus' client for Python makes of a page.
fn parsed(page: &[u8]) -> Result<BTreeMap<String, Family>> {
    let mut python = Command::new("/usr/bin/python3")
        .args(["-c", PARSE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let written = python.stdin.take().context("no pipe")?.write_all(page);
    let output = python.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the parser refuses the page: {said}");
    written?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn openmetrics_is_understood() -> Result<()> {
    needs(&[PARSER])?;
    let daemon = Daemon::start()?;
    let load = MixedLoad::start()?;
    thread::sleep(Duration::from_secs(2));
    load.stop()?;
    let before = daemon.scrape()?;
    let answer = get(daemon.address, "/metrics", &[("Accept", OPENMETRICS)])?;
    let after = daemon.scrape()?;
    let kind = answer.header("content-type").unwrap_or_default();
    ensure!(kind == "application/openmetrics-text; version=1.0.0; charset=utf-8", "it is {kind:?}");
    let depends_on = answer.header("vary").unwrap_or_default();
    ensure!(depends_on == "accept, accept-encoding", "it depends on {depends_on:?} alone");
    let families = parsed(&answer.body)?;
    let mut named: BTreeMap<(&str, &LabelSet), f64> = BTreeMap::new();
    for family in families.values() {
        for (name, labels, value) in &family.samples {
            let is_new = named.insert((name, labels), *value).is_none();
            ensure!(is_new, "{name} {labels:?} is there twice");
        }
    }
    for (name, family) in &before.families {
        let bare = name.strip_suffix("_total").unwrap_or(name);
        let found = families.get(bare).with_context(|| format!("there is no {bare}"))?;
        ensure!(found.kind == family.kind, "{bare} is a {}, not a {}", found.kind, family.kind);
        let unit =
            ["seconds", "bytes"].into_iter().find(|unit| bare.ends_with(&format!("_{unit}")));
        ensure!(found.unit == unit.unwrap_or_default(), "{bare} is in {:?}", found.unit);
    }
    let start = before.value("process_start_time_seconds", &LabelSet::new());
    let start = start.context("no process_start_time_seconds")?;
    // Every series that is there before and after is there, and counters are in between.
    let mut compared = 0;
    for ((name, labels), first) in before.counters() {
        let Some(last) = after.value(name, labels) else { continue };
        let read = named.get(&(name.as_str(), labels));
        let read = *read.with_context(|| format!("there is no {name} {labels:?}"))?;
        ensure!(first <= read && read <= last, "{name} {labels:?}: {first}, {read}, {last}");
        compared += 1;
    }
    let created = named.iter().filter(|((name, _), _)| name.ends_with("_created"));
    let created: Vec<_> = created.collect();
    ensure!(created.iter().any(|(_, since)| **since == start), "nothing began with the process");
    let end = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64();
    for ((name, labels), since) in &created {
        let by_kernel = name.contains("_steal_") || name.contains("_page_faults_");
        let is_right = if by_kernel { **since < start } else { (start..end).contains(*since) };
        ensure!(is_right, "{name} {labels:?} began at {since}; the process did at {start}");
    }
    let expected = begun(&before, &after, &named);
    ensure!(created.len() >= expected, "{} of {expected} say when they began", created.len());
    println!("{} series, {compared} of them counters; {} begins", named.len(), created.len());
    Ok(())
}

/// How many counters and histograms are on all three pages.
fn begun(before: &Scrape, after: &Scrape, named: &BTreeMap<(&str, &LabelSet), f64>) -> usize {
    let is_one = |name: &str| name.ends_with("_total") || name.ends_with("_count");
    let all = before.counters().filter(|((name, labels), _)| {
        is_one(name) && after.value(name, labels).is_some() && named.contains_key(&(name, labels))
    });
    all.count()
}
