//! A daemon, or what it measures, in namespaces of its own: users, times; and interfaces that get
//! another name.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use noise_tests::bpf;
use noise_tests::daemon::{
    Daemon, FIXED_RECORDER, SOCKET_PATH, STATE_DIRECTORY, binary, free_address, run, run_noised,
};
use noise_tests::http::get;
use noise_tests::load::{Worker, figure};
use noise_tests::namespace::{VethPair, configure};
use noise_tests::needed::needs;
use noise_tests::prom::label_set;

use crate::lifecycle::{PublicCopy, ensure_refused};
use crate::{Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a_user_namespace_does_not_suffice", a_user_namespace_does_not_suffice),
    ("check_says_what_helps", check_says_what_helps),
    ("a_time_namespace_shifts_no_times", a_time_namespace_shifts_no_times),
    ("a_renamed_interface_has_its_new_name", a_renamed_interface_has_its_new_name),
];

/// Longer than anything that is waited for takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(20);

fn unshare(options: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(options);
    command
}

/// Requires `unshare` to work with these options.
fn ensure_possible(options: &[&str]) -> Result<()> {
    let mut command = unshare(options);
    command.arg("true");
    let outcome = run(command)?;
    let reason = format!("unshare {}: {}", options.join(" "), outcome.stderr.trim());
    ensure!(outcome.code == 0, Impossible(reason));
    Ok(())
}

fn a_user_namespace_does_not_suffice() -> Result<()> {
    let options = ["--user", "--map-root-user"];
    ensure_possible(&options)?;
    let inside = |arguments: &[&str]| {
        let mut command = unshare(&options);
        command.arg(binary()?).args(arguments);
        run(command)
    };
    let address = free_address()?.to_string();
    let quiet = ["--web.listen-address", &address, SOCKET_PATH, "", STATE_DIRECTORY, ""];
    let outcome = inside(&[&["run"], &quiet[..]].concat())?;
    ensure_refused(&outcome, 3, &["user namespace", "outside"])?;
    let outcome = inside(&["osnoise", "--duration", "1"])?;
    ensure_refused(&outcome, 3, &["user namespace"])?;
    let outcome = inside(&["check"])?;
    ensure_refused(&outcome, 3, &["user namespace"])?;
    ensure!(!outcome.stdout.contains("sufficient"), "{}", outcome.stdout);
    let outcome = inside(&["check", "--json"])?;
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout)?;
    ensure!(report["user_namespace"] == true && report["works"] == false, "{report}");
    let missing = report["missing_capabilities"].as_array().context("no capabilities")?;
    ensure!(missing.len() == 2, "{missing:?}");
    Ok(())
}

/// Without privileges `check` says what is missing, why, and what helps; and that does help.
fn check_says_what_helps() -> Result<()> {
    let copy = PublicCopy::new()?;
    let outcome = run(copy.as_unprivileged(&["check"]))?;
    ensure_refused(&outcome, 3, &["CAP_BPF"])?;
    let path = copy.path().display().to_string();
    for words in [
        "missing: CAP_BPF and CAP_PERFMON",
        "CAP_PERFMON lets them read kernel memory",
        "sudo ",
        &format!("setcap cap_bpf,cap_perfmon=ep {path}"),
        "systemctl enable --now noised",
    ] {
        ensure!(outcome.stdout.contains(words), "no {words:?}: {}", outcome.stdout);
    }
    needs(&["setcap"])?;
    let mut setcap = Command::new("setcap");
    setcap.args(["cap_bpf,cap_perfmon=ep", &path]);
    ensure!(
        run(setcap).is_ok_and(|outcome| outcome.code == 0),
        Impossible("files can have no capabilities here".into())
    );
    let outcome = run(copy.as_unprivileged(&["check"]))?;
    ensure!(outcome.code == 0, "setcap does not help: {}", outcome.stderr);
    ensure!(outcome.stdout.contains("privileges   sufficient"), "{}", outcome.stdout);
    Ok(())
}

/// The first child of a process.
fn child_of(pid: u32) -> Result<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    Ok(children.split_whitespace().next().context("no child")?.parse()?)
}

/// When every long wait was, to the second: `2026-11-21T09:41:02`.
fn outliers(address: SocketAddr) -> Result<Vec<String>> {
    let answer = get(address, "/api/v1/outliers", &[])?;
    let document: serde_json::Value = serde_json::from_str(answer.text()?)?;
    let outliers = document["outliers"].as_array().context("no outliers")?;
    let time = |outlier: &serde_json::Value| -> Result<String> {
        let time = outlier["time"].as_str().context("no time")?;
        Ok(time.get(..SECONDS.len()).context("no seconds")?.to_owned())
    };
    outliers.iter().map(time).collect()
}

/// How times to the second look.
const SECONDS: &str = "2026-11-21T09:41:02";

/// Some seconds from now, in the same form.
fn seconds_from_now(seconds: i32) -> Result<String> {
    let mut date = Command::new("date");
    date.args(["--utc", "--date", &format!("{seconds} seconds"), "+%Y-%m-%dT%H:%M:%S"]);
    Ok(run(date)?.stdout.trim().to_owned())
}

fn a_time_namespace_shifts_no_times() -> Result<()> {
    let options =
        ["--time", "--monotonic", "100000", "--boottime", "100000", "--fork", "--kill-child"];
    ensure_possible(&options)?;
    let begin = seconds_from_now(-1)?;
    let address = free_address()?;
    let mut command = unshare(&options);
    command.arg(binary()?).args(["run", "--web.listen-address", &address.to_string()]);
    command.args([SOCKET_PATH, "", STATE_DIRECTORY, ""]).args(FIXED_RECORDER);
    let daemon = Daemon::start_command(command, address)?;
    let noised = child_of(daemon.process().pid())?;
    let programs = bpf::programs_of(noised)?;
    {
        let _hogs = [Worker::start("burn", &["0"])?, Worker::start("burn", &["0"])?];
        let deadline = Instant::now() + TIMEOUT;
        while outliers(address)?.is_empty() {
            ensure!(Instant::now() < deadline, "no long wait beside two that burn on one CPU");
            thread::sleep(Duration::from_millis(200));
        }
    }
    let (times, end) = (outliers(address)?, seconds_from_now(1)?);
    println!("{} long waits from {begin} to {end}: {times:?}", times.len());
    let is_meanwhile = |time: &String| (&begin..=&end).contains(&time);
    ensure!(times.iter().all(is_meanwhile), "times are shifted");
    drop(daemon);
    bpf::wait_until_gone(programs.into_keys())?;
    Ok(())
}

/// An interface with another name, which it gives back when dropped.
struct Renamed<'a> {
    pair: &'a VethPair,
    name: String,
}

impl<'a> Renamed<'a> {
    fn new(pair: &'a VethPair) -> Result<Self> {
        let name = format!("ntest{}c", std::process::id());
        rename(&pair.near, &name)?;
        Ok(Self { pair, name })
    }
}

impl Drop for Renamed<'_> {
    fn drop(&mut self) {
        // A failure shows as a leftover interface.
        let _ = rename(&self.name, &self.pair.near);
    }
}

/// Before Linux 6.2 only an interface that is down can be renamed.
fn rename(from: &str, to: &str) -> Result<()> {
    configure("ip", &["link", "set", "dev", from, "down"])?;
    configure("ip", &["link", "set", "dev", from, "name", to])?;
    configure("ip", &["link", "set", "dev", to, "up"])
}

/// When a new name is known: interfaces are asked every two seconds, and counted every half.
const NAMES_KNOWN: Duration = Duration::from_millis(3500);

fn a_renamed_interface_has_its_new_name() -> Result<()> {
    const PACKETS: f64 = 50.0;
    let daemon = Daemon::start()?;
    let pair = VethPair::new()?;
    let sent = |interface: &str| -> Result<f64> {
        let labels = label_set(&[("interface", interface)]);
        let scrape = daemon.scrape()?;
        Ok(scrape.value("noised_net_tx_wait_seconds_count", &labels).unwrap_or_default())
    };
    let send = |interface: &str, expected: f64| -> Result<()> {
        let mut sender = Worker::start("broadcasts", &["0", interface, "100", "50"])?;
        ensure!(
            figure(&sender.figures()?, "sent")? as f64 == PACKETS,
            "not all datagrams were sent"
        );
        let deadline = Instant::now() + TIMEOUT;
        while sent(interface)? < expected {
            ensure!(Instant::now() < deadline, "{interface} has sent {}", sent(interface)?);
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    };
    send(&pair.near, PACKETS)?;
    let before = sent(&pair.near)?;
    let renamed = Renamed::new(&pair)?;
    thread::sleep(NAMES_KNOWN);
    send(&renamed.name, PACKETS)?;
    let (old, new) = (sent(&pair.near)?, sent(&renamed.name)?);
    println!("{}: {before}, then {old}; {}: {new}", pair.near, renamed.name);
    ensure!(old == 0.0, "{} is gone, and has {old}", pair.near);
    ensure!(new < before + PACKETS, "what was sent as {} counts for {}", pair.near, renamed.name);
    let top = run_noised(&[
        "top",
        "--connect",
        &format!("http://{}", daemon.address),
        "--once",
        "--screen",
        "disk-net",
    ])?;
    ensure!(top.stdout.contains(&renamed.name), "{}", top.stdout);
    drop(renamed);
    // The old name counts anew.
    thread::sleep(NAMES_KNOWN);
    send(&pair.near, PACKETS)?;
    let again = sent(&pair.near)?;
    ensure!(again < before + PACKETS, "{} goes on from {before}: {again}", pair.near);
    Ok(())
}
