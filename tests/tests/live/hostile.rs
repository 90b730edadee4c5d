//! Names that mean harm, borne by what the kernel has: threads, cgroups and interfaces. Whatever shows
//! them, nothing of them acts on the terminal.

use std::ffi::OsStr;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::{Daemon, Process, SOCKET_PATH, run, run_noised};
use noise_tests::group::{Group, Hierarchy};
use noise_tests::hostile::is_raw;
use noise_tests::http::get;
use noise_tests::scratch::Folder;
use noise_tests::task::pin;
use serde_json::Value;

use crate::Test;

pub(crate) const TESTS: &[(&str, Test)] = &[("names_of_real_things", names_of_real_things)];

/// Colours, the order of characters, and a sequence that begins with one character of C1.
const NAME: &str = "\x1b[31m\u{202e}\u{9b}2J";
/// How a cgroup of that name is shown: with what is not plain as bytes, as systemd writes them.
const SHOWN: &str = r"\x1b[31m\xe2\x80\xae\xc2\x9b2J";
/// Names of interfaces: the kernel takes bytes.
const INTERFACES: [&[u8]; 2] = [b"nt7\x1b[31m\x07", b"nt8\x9b31m"];
/// In which what goes on has to show.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A cable whose two ends have these names, gone when dropped.
struct Cable([&'static [u8]; 2]);

fn ip(arguments: &[&OsStr]) -> Result<()> {
    let mut command = Command::new("ip");
    command.args(arguments);
    let outcome = run(command)?;
    ensure!(outcome.code == 0, "ip {arguments:?}: {}", outcome.stderr);
    Ok(())
}

fn words(text: &str) -> Vec<&OsStr> {
    text.split(' ').map(OsStr::new).collect()
}

impl Cable {
    fn new(names: [&'static [u8]; 2]) -> Result<Self> {
        let [one, other] = names.map(OsStr::from_bytes);
        ip(&[&words("link add")[..], &[one], &words("type veth peer name"), &[other]].concat())?;
        let cable = Self(names);
        for (end, address) in [(one, "198.51.100.1/30"), (other, "198.51.100.5/30")] {
            ip(&[&words("addr add")[..], &[OsStr::new(address), OsStr::new("dev"), end]].concat())?;
            ip(&[&words("link set")[..], &[end], &words("arp off up")].concat())?;
        }
        Ok(cable)
    }

    /// Sends something from each end.
    fn send(&self) -> Result<()> {
        for (end, to) in self.0.iter().zip(["198.51.100.2:9", "198.51.100.6:9"]) {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            let length = end.len() as libc::socklen_t;
            // SAFETY: the name is valid for the call, and as long as is said.
            let bound = unsafe {
                libc::setsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_BINDTODEVICE,
                    end.as_ptr().cast(),
                    length,
                )
            };
            ensure!(bound == 0, "SO_BINDTODEVICE: {}", std::io::Error::last_os_error());
            for _ in 0..50 {
                socket.send_to(b"x", to)?;
            }
        }
        Ok(())
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // An error means that it is gone already, and the other end with it.
        let _ = ip(&[&words("link del")[..], &[OsStr::from_bytes(self.0[0])]].concat());
    }
}

/// A shell of that name that computes.
fn shell(group: &Group, name: &str) -> Result<Process> {
    let mut command = Command::new("sh");
    let script = "printf %s \"$1\" > /proc/self/comm; while :; do :; done";
    command.args(["-c", script, "sh", name]);
    group.admit(&mut command)?;
    let process = Process::start(command)?;
    pin(i32::try_from(process.pid())?, 0)?;
    Ok(process)
}

fn ensure_clean(what: &str, text: &str) -> Result<()> {
    let raw = text.char_indices().find(|(_, c)| *c != '\n' && is_raw(*c));
    ensure!(raw.is_none(), "{what}: {raw:?} of {text:?}");
    Ok(())
}

/// Runs a command; what it prints is clean, and is JSON where that is asked for.
fn ask(arguments: &[&str]) -> Result<String> {
    let outcome = run_noised(arguments)?;
    ensure_clean(&format!("{arguments:?}"), &outcome.stdout)?;
    ensure_clean(&format!("{arguments:?}"), &outcome.stderr)?;
    ensure!(outcome.code == 0, "{arguments:?}: {} {}", outcome.code, outcome.stderr);
    if arguments.contains(&"--json") {
        serde_json::from_str::<Value>(&outcome.stdout).context("no JSON")?;
    }
    Ok(outcome.stdout)
}

fn names_of_real_things() -> Result<()> {
    let folder = Folder::new("hostile")?;
    let socket = folder.path().join("noised.sock").display().to_string();
    let daemon = Daemon::start_with(&[SOCKET_PATH, &socket, "--log.level", "debug"])?;
    let group = Group::new(NAME, &[Hierarchy::Cpu])?;
    let cable = Cable::new(INTERFACES)?;
    let mut shells = Vec::new();
    for name in [NAME, "\x1b]0;x\x07", "\u{2066}a\u{2069}"] {
        shells.push(shell(&group, name)?);
    }
    let deadline = Instant::now() + TIMEOUT;
    // A label has another backslash before its own.
    let label = SHOWN.replace('\\', r"\\");
    let has_all = |metrics: &str| {
        [&*label, r#"interface="nt7\\x1b[31m\\x07""#].into_iter().all(|name| metrics.contains(name))
    };
    let metrics = loop {
        cable.send()?;
        thread::sleep(Duration::from_millis(500));
        let metrics = daemon.metrics()?;
        if has_all(&metrics) {
            break metrics;
        }
        let is_named = |line: &&str| line.contains("noised-test") || line.contains("interface=");
        let shown: Vec<&str> = metrics.lines().filter(is_named).take(20).collect();
        ensure!(Instant::now() < deadline, "the names are not in the metrics: {shown:#?}");
    };
    ensure_clean("/metrics", &metrics)?;
    daemon.scrape()?;
    for path in ["/", "/api/v1/incidents", "/api/v1/outliers"] {
        let answer = get(daemon.address, path, &[])?;
        ensure_clean(path, answer.text()?)?;
    }
    for screen in ["victims", "overview", "cpu", "who", "disk-net", "irq", "incidents"] {
        let top =
            ["top", "--once", "--interval", "300ms", "--connect", &socket, "--screen", screen];
        let text = ask(&top)?;
        ensure!(screen != "who" || text.contains(r"\x1b[31m"), "{text}");
        ask(&[&top[..], &["--json"]].concat())?;
    }
    let address = daemon.address.to_string();
    for more in [&[][..], &["--outliers"], &["--outliers", "--json"]] {
        let text = ask(&[&["incidents", "--web.address", &address], more].concat())?;
        ensure!(more.is_empty() || text.contains("x1b[31m"), "{more:?}: {text}");
    }
    let pid = shells.first().context("no shell")?.pid().to_string();
    for subject in [["--task", &pid], ["--cgroup", &group.label()]] {
        for more in [&[][..], &["--json"]] {
            let text = ask(&[&["osnoise", "--duration", "300ms"][..], &subject, more].concat())?;
            ensure!(text.contains("x1b[31m"), "{subject:?}: {text}");
        }
    }
    ask(&["osnoise", "--cpus", "0", "--duration", "300ms"])?;
    drop((shells, cable));
    let (status, log) = daemon.stop(libc::SIGTERM)?;
    ensure!(status.success(), "the daemon ended with {status}");
    ensure_clean("the log", &log)?;
    Ok(())
}
