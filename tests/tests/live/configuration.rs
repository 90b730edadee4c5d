//! What is configured: the file, flags, and a reload while the daemon measures.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use noise_tests::compare::observe;
use noise_tests::daemon::{Daemon, run_noised};
use noise_tests::disk::{LoopDevice, ScratchFile, device_name};
use noise_tests::ftrace::all_events;
use noise_tests::http::get;
use noise_tests::load::Worker;
use noise_tests::pairing::block::block_waits;
use noise_tests::pairing::counts::context_switches;
use noise_tests::pairing::net::{net_rx_wait, net_tx_wait};
use noise_tests::scratch::TextFile;
use noise_tests::task::pollers;
use noise_tests::wait::wait_until;

use crate::lifecycle::ensure_refused;
use crate::{INCONCLUSIVE, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("mistakes_are_refused", mistakes_are_refused),
    ("removed_keys_are_ignored", removed_keys_are_ignored),
    ("reload_applies_what_it_can", reload_applies_what_it_can),
    ("a_web_file_holds_nothing_else_up", a_web_file_holds_nothing_else_up),
    ("a_signal_is_switched_off_and_on", a_signal_is_switched_off_and_on),
    ("windows_are_longer_while_it_is_calm", windows_are_longer_while_it_is_calm),
];

/// Longer than a reload takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(20);

fn mistakes_are_refused() -> Result<()> {
    let file = TextFile::new("noised.toml", "[limits]\n\ncgroup = 7\n")?;
    let path = file.argument()?;
    for check in [&["--config.check"][..], &[]] {
        let arguments = [&["run", "--config.file", path][..], check].concat();
        let words = [path, "line 3", "cgroup", "did you mean `cgroups`?"];
        ensure_refused(&run_noised(&arguments)?, 2, &words)?;
    }
    file.write("[limits]\ncgroups = 7\n")?;
    let checked = run_noised(&["run", "--config.check", "--config.file", path])?;
    ensure!(checked.code == 0 && checked.stdout.contains("valid"), "{checked:?}");
    ensure_refused(
        &run_noised(&["run", "--config.file", path, "--limits.cgroups", "0"])?,
        2,
        &["--limits.cgroups", "0 is not between 1 and 10000"],
    )?;
    ensure_refused(
        &run_noised(&["run", "--config.file", "/nowhere/x.toml"])?,
        2,
        &["/nowhere/x.toml"],
    )?;
    Ok(())
}

/// A file of an earlier version is good enough to start and to reload; one warning names the keys that mean nothing now.
fn removed_keys_are_ignored() -> Result<()> {
    const REMOVED: &str = "[incidents]\ndeviations = 2.5\nshare-factor = 2.0\nchance = 1e-9\n\
                           closing-fraction = 0.7\nhalf-life-windows = 200\nadopt-seconds = 60\n\
                           forget-seconds = 60\npast-outliers = 8\nculprits = 4\npast-incidents = 64\n";
    let keys = REMOVED.lines().filter_map(|line| line.split_once(" = "));
    let names: Vec<String> = keys.map(|(key, _)| format!("incidents.{key}")).collect();
    let listed = names.join(", ");
    let warned = |log: &str| log.matches("these keys do not exist any more").count();
    let file = TextFile::new("noised.toml", REMOVED)?;
    let path = file.argument()?;
    let checked = run_noised(&["run", "--config.check", "--config.file", path])?;
    let is_said = checked.stderr.contains(&listed) && warned(&checked.stderr) == 1;
    ensure!(checked.code == 0 && is_said, "{checked:?}");
    let daemon = Daemon::start_configured(path)?;
    let log = daemon.process().stderr()?;
    ensure!(log.contains(&listed) && warned(&log) == 1, "{log}");
    file.write(&format!("{REMOVED}minimum-lost = 0.5\n"))?;
    let log = reload(&daemon, &[&listed, "changed: incidents.minimum-lost"])?;
    ensure!(warned(&log) == 1, "{log}");
    ensure!(is_well(&daemon)?, "keys that are ignored fail a reload");
    Ok(())
}

/// For how long beats are counted: six of a calm host, and twice as many of another one.
const BEATS: Duration = Duration::from_secs(6);

/// How often the daemon's first thread went to sleep in that time: once for each beat, mostly.
fn beats(daemon: &Daemon) -> Result<u64> {
    let pid = daemon.process().pid();
    let sleeps = || -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{pid}/task/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        Ok(line.context("no count of switches")?.trim().parse()?)
    };
    let before = sleeps()?;
    thread::sleep(BEATS);
    Ok(sleeps()? - before)
}

/// A threshold that no subject reaches keeps the host calm; a threshold of 0 keeps it from being calm.
fn windows_are_longer_while_it_is_calm() -> Result<()> {
    let settings = |least: u32| {
        format!(
            "[incidents]\nwarmup-windows = 2\nrecent-windows = 4\nclosing-windows = 2\n\
             minimum-lost = {least}\nminimum-taken = {least}\n"
        )
    };
    let file = TextFile::new("noised.toml", &settings(1_000_000))?;
    let daemon = Daemon::start_configured(file.argument()?)?;
    thread::sleep(Duration::from_secs(5));
    let calm = beats(&daemon)?;
    file.write(&settings(0))?;
    reload(&daemon, &["changed: incidents.minimum-lost, incidents.minimum-taken"])?;
    thread::sleep(Duration::from_secs(2));
    let restless = beats(&daemon)?;
    println!("{calm} beats in {BEATS:?} while it is calm, {restless} otherwise");
    ensure!(calm * 3 / 2 <= restless, "windows are not longer while it is calm");
    Ok(())
}

/// Asks for a reload, and waits until the daemon has said all of `words`; what it said.
pub(crate) fn reload(daemon: &Daemon, words: &[&str]) -> Result<String> {
    let before = daemon.process().stderr()?.len();
    daemon.process().signal(libc::SIGHUP)?;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let log = daemon.process().stderr()?;
        let new = log.get(before..).unwrap_or_default();
        if words.iter().all(|word| new.contains(word)) {
            print!("{new}");
            return Ok(new.to_owned());
        }
        ensure!(Instant::now() < deadline, "the daemon does not say {words:?}: {new}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Whether the last reload succeeded, as Prometheus sees it.
fn is_well(daemon: &Daemon) -> Result<bool> {
    let scrape = daemon.scrape()?;
    let value = scrape.value("noised_config_last_reload_successful", &BTreeMap::new());
    Ok(value.context("no metric of the reload")? == 1.0)
}

fn outliers(daemon: &Daemon) -> Result<usize> {
    let answer = get(daemon.address, "/api/v1/outliers", &[])?;
    let document: serde_json::Value = serde_json::from_str(answer.text()?)?;
    Ok(document["outliers"].as_array().context("no outliers")?.len())
}

fn reload_applies_what_it_can() -> Result<()> {
    let file = TextFile::new("noised.toml", "[outliers]\nthreshold-microseconds = 60000000\n")?;
    let daemon = Daemon::start_configured(file.argument()?)?;
    // Waits of some milliseconds.
    let _hogs = [Worker::start("burn", &["0"])?, Worker::start("burn", &["0"])?];
    thread::sleep(Duration::from_secs(1));
    ensure!(outliers(&daemon)? == 0, "a wait of a minute?");
    ensure!(is_well(&daemon)?, "not well before the first reload");

    file.write("[outliers]\nthreshold-microseconds = 1000\n[socket]\nmode = \"0600\"\n")?;
    reload(
        &daemon,
        &["changed: outliers.threshold-microseconds", "restart required for: socket.mode"],
    )?;
    let are_reported = || Ok(outliers(&daemon)? > 0);
    wait_until("waits above a millisecond beside two that burn on one CPU", TIMEOUT, are_reported)?;
    let before = outliers(&daemon)?;

    // One that is wrong changes nothing, and Prometheus sees that.
    file.write("[outliers]\nthreshold-microseconds = 0\n")?;
    reload(
        &daemon,
        &["reload failed; keeping the previous configuration", "line 2", "between 1 and 60000000"],
    )?;
    ensure!(!is_well(&daemon)?, "a failed reload is not exported");
    fs::remove_file(file.path())?;
    reload(&daemon, &["reload failed; keeping the previous configuration", "cannot read"])?;
    let are_more = || Ok(outliers(&daemon)? > before);
    wait_until("further waits, as a reload that failed changes no threshold", TIMEOUT, are_more)?;

    // Well again, with everything that can be applied; the flag of the start stays before the file.
    file.write(
        "[log]\nlevel = \"debug\"\n[limits]\ninterference = 1\npreemptions = 1\ncgroups = 1\n\
         [incidents]\nenabled = false\n[socket]\nmode = \"0600\"\n",
    )?;
    reload(&daemon, &["changed: log.level, limits.interference"])?;
    ensure!(is_well(&daemon)?, "not well after a reload that succeeded");
    let scrape = daemon.scrape()?;
    let own: Vec<_> = scrape
        .series("noised_interference_seconds_total")
        .into_keys()
        .filter(|labels| labels.get("victim").is_some_and(|victim| victim != "~other"))
        .collect();
    ensure!(own.len() <= 1, "{} pairs with a limit of 1", own.len());
    ensure!(scrape.series("noised_incidents_total").is_empty(), "incidents though switched off");
    reload(&daemon, &["restart required for: socket.mode"])?;
    let (status, _) = daemon.stop(libc::SIGTERM)?;
    ensure!(status.success(), "ended with {status}");
    Ok(())
}

/// A web file that moves, or is wrong, keeps no other key from being applied, and is reported by itself.
fn a_web_file_holds_nothing_else_up() -> Result<()> {
    let web = TextFile::new("web.yml", "rate_limit:\n  interval: 1ms\n  burst: 1000\n")?;
    let name = web.argument()?;
    let configuration = |limit: u32, web: &str| {
        format!("[web]\nconfig.file = \"{web}\"\n[limits]\ncgroups = {limit}\n")
    };
    let file = TextFile::new("noised.toml", &configuration(10, name))?;
    let daemon = Daemon::start_configured(file.argument()?)?;

    file.write(&configuration(11, name))?;
    web.write("rate_limit:\n  interval: nonsense\n")?;
    reload(
        &daemon,
        &[
            "changed: limits.cgroups",
            "reload of the web file failed; keeping the previous one",
            name,
        ],
    )?;
    ensure!(!is_well(&daemon)?, "a web file that cannot be used is not reported");
    web.write("rate_limit:\n  interval: 2ms\n  burst: 1000\n")?;
    reload(&daemon, &["configuration unchanged", "the web file changed, applied"])?;
    ensure!(is_well(&daemon)?, "not well after a web file that can be used");

    // The one in force is gone together with its name.
    fs::remove_file(web.path())?;
    file.write(&configuration(12, "/nowhere/web.yml"))?;
    reload(&daemon, &["changed: limits.cgroups", "restart required for: web.config.file"])?;
    ensure!(is_well(&daemon)?, "a web file that moves is no mistake");
    let (status, _) = daemon.stop(libc::SIGTERM)?;
    ensure!(status.success(), "ended with {status}");
    Ok(())
}

/// What was under way when a signal was switched off is not mistaken for a delay when it is switched
/// on again; from then on every count is the kernel's own.
fn a_signal_is_switched_off_and_on() -> Result<()> {
    const OFF: &str = "[signals]\noff = [\"block_queue_wait\", \"block_device_wait\", \"net_tx_wait\", \
                       \"net_rx_wait\", \"softirq_raise_wait\", \"context_switch\", \"hardirq\"]\n";
    let backing = ScratchFile::new("switched", 32)?;
    let device = LoopDevice::attach(&backing)?;
    let file = TextFile::new("noised.toml", "")?;
    let daemon = Daemon::start_configured(file.argument()?)?;
    let _load = [
        Worker::start("tcp", &["0", "0", "100", "3000"])?,
        Worker::start("pipe", &["0", "0", "2000"])?,
        Worker::start("direct-reads", &["0", &device.path(), "4096", "200", "0"])?,
    ];
    let loaded = Instant::now();
    thread::sleep(Duration::from_secs(1));
    let families = [
        "noised_block_device_wait_seconds_count",
        "noised_net_tx_wait_seconds_count",
        "noised_net_rx_wait_seconds_count",
        "noised_context_switches_total",
    ];
    let before = daemon.scrape()?;
    let (counted_for, scraped) = (loaded.elapsed(), Instant::now());
    for family in families {
        ensure!(before.total(family) > 0.0, "{family}: nothing before");
    }
    file.write(OFF)?;
    reload(&daemon, &["changed: signals.off"])?;
    // Counted for longer than that, at most: until it was off, and from when it may have been on.
    let mut on_for = scraped.elapsed();
    let was_off = Instant::now();
    let off = daemon.scrape()?;
    for family in families {
        ensure!(off.series(family).is_empty(), "{family} is exported though switched off");
    }
    ensure!(off.total("noised_runqueue_wait_seconds_count") > 0.0, "the others suffer");
    let page = get(daemon.address, "/", &[])?;
    ensure!(page.text()?.contains("switched off by the configuration"), "the page does not say so");
    thread::sleep(Duration::from_secs(3));
    file.write("")?;
    let off_for = was_off.elapsed();
    let asked = Instant::now();
    reload(&daemon, &["changed: signals.off"])?;
    let on = daemon.scrape()?;
    on_for += asked.elapsed();
    println!("counted for {counted_for:?}, then {on_for:?} at most; switched off for {off_for:?}");
    ensure!(on_for < off_for, "{INCONCLUSIVE}: the reloads took {on_for:?}");
    for family in families {
        let (earlier, now) = (before.total(family), on.total(family));
        // Half-way between nothing and everything of the time in which it was off.
        let seconds = on_for.as_secs_f64() + off_for.as_secs_f64() / 2.0;
        let most = earlier * (1.0 + seconds / counted_for.as_secs_f64());
        ensure!(
            (earlier..most).contains(&now),
            "{family}: {earlier}, then {now}, not below {most}"
        );
    }
    let (seen, ()) = observe(&daemon, &all_events(), 384, || {
        thread::sleep(Duration::from_secs(3));
        Ok(())
    })?;
    let longest = seen.histograms("noised_block_device_wait_seconds")?;
    for (labels, histogram) in longest {
        let above = histogram.above(1 << 30)?;
        ensure!(above == 0.0, "{above} waits above a second of {labels:?}");
    }
    let events = seen.trace.events.as_slice();
    let block = block_waits(events, device_name);
    let mut table = seen.table();
    let disk = ["device", "operation"];
    table.histogram("noised_block_queue_wait_seconds", &disk, &block.queue)?;
    table.histogram("noised_block_device_wait_seconds", &disk, &block.device)?;
    table.histogram("noised_net_tx_wait_seconds", &["interface"], &net_tx_wait(events))?;
    table.histogram(
        "noised_net_rx_wait_seconds",
        &["interface"],
        &net_rx_wait(events, &pollers()?),
    )?;
    table.counter("noised_context_switches_total", &["kind"], &context_switches(events))?;
    table.verdict()?;
    Ok(())
}
