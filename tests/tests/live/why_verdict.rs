//! `noised why`: the resource, the culprit and the command that belong to what is planted: a lock convoy, a slow service
//! that is asked, two hogs; and none of these for workers that wait for work.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::{binary, free_address, run, run_noised};
use noise_tests::group::{Group, Hierarchy};
use noise_tests::load::{Place, Worker};
use noise_tests::needed::needs;
use noise_tests::scratch::Folder;
use serde_json::Value;

use crate::{INCONCLUSIVE, Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a_lock_convoy_has_a_holder", a_lock_convoy_has_a_holder),
    ("workers_that_wait_for_work_are_not_held_up", workers_that_wait_for_work_are_not_held_up),
    ("a_slow_service_that_is_asked_is_named", a_slow_service_that_is_asked_is_named),
    ("packets_that_wait_for_an_acknowledgement", packets_that_wait_for_an_acknowledgement),
    ("what_is_open_is_looked_at", what_is_open_is_looked_at),
    ("two_hogs_are_named", two_hogs_are_named),
    ("a_server_that_is_stopped_is_said_to_be", a_server_that_is_stopped_is_said_to_be),
];

const PYTHON: &str = "/usr/bin/python3";
/// Five threads that each hold the same lock while they sleep. Between, they sleep as long as is asked: not at all, and a
/// thread that lets go has the lock again before one that was woken for it, for seconds.
const CONVOY: &str = "\
import sys, threading, time
lock = threading.Lock()
between = float(sys.argv[1])
def hold():
    while True:
        with lock:
            time.sleep(0.01)
        if between:
            time.sleep(between)
for _ in range(4):
    threading.Thread(target=hold, daemon=True).start()
print('ready', flush=True)
hold()
";
/// Four workers, and a thread that hands out two pieces of work every 5 ms.
const POOL: &str = "\
import queue, threading, time
work = queue.Queue()
def do():
    while True:
        work.get()
        sum(range(2000))
for _ in range(4):
    threading.Thread(target=do, daemon=True).start()
print('ready', flush=True)
while True:
    time.sleep(0.005)
    work.put(1)
    work.put(2)
";
/// A service at a port that asks the one at another port, if there is one, or else sleeps 40 ms; or who asks it.
const TIERS: &str = "\
import socket, sys, time
role, own, other = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def ask(to):
    to.sendall(b'q')
    to.recv(1)
if role == 'client':
    front = socket.create_connection(('127.0.0.1', other))
    print('ready', flush=True)
    while True:
        ask(front)
        time.sleep(0.002)
backend = socket.create_connection(('127.0.0.1', other)) if other else None
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('127.0.0.1', own))
listener.listen()
print('ready', flush=True)
client = listener.accept()[0]
while client.recv(1):
    ask(backend) if backend else time.sleep(0.04)
    client.sendall(b'a')
";
/// A program that asks in two small packets, and the one that answers when it has both.
const PARTS: &str = "\
import socket, sys
role, port = sys.argv[1], int(sys.argv[2])
if role == 'asks':
    to = socket.create_connection(('127.0.0.1', port))
    print('ready', flush=True)
    while True:
        to.sendall(b'a')
        to.sendall(b'b')
        to.recv(1)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('127.0.0.1', port))
listener.listen()
print('ready', flush=True)
one = listener.accept()[0]
while len(one.recv(2, socket.MSG_WAITALL)) == 2:
    one.sendall(b'z')
";
/// A service that takes 20 ms for an answer, beside threads of its own that mostly wait for work; or who asks it.
const OPEN: &str = "\
import queue, socket, sys, threading, time
role, port = sys.argv[1], int(sys.argv[2])
if role == 'asks':
    to = socket.create_connection(('127.0.0.1', port))
    print('ready', flush=True)
    while True:
        to.sendall(b'q')
        to.recv(1)
        time.sleep(0.002)
work = queue.Queue()
def do():
    while True:
        work.get()
for _ in range(4):
    threading.Thread(target=do, daemon=True).start()
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('127.0.0.1', port))
listener.listen()
print('ready', flush=True)
one = listener.accept()[0]
while one.recv(1):
    work.put(1)
    time.sleep(0.02)
    one.sendall(b'a')
";
/// Runs a command in a terminal.
const SCRIPT: &str = "/usr/bin/script";
/// The part of the time that is at least lost to what is planted.
const MOSTLY: f64 = 0.5;
/// How long an idle server may wait for a CPU before that is what held it up.
const LITTLE_NS: u64 = 5_000_000;

/// A program that is ended with this.
struct Running(Child);

impl Running {
    /// Starts one, and waits until it says that it is ready. What is left of its start takes less than attaching to it.
    fn start(program: &str, arguments: &[&str]) -> Result<Self> {
        Self::until(&[&[program], arguments].concat(), "ready")
    }

    /// Starts Python, and waits for a line that begins so.
    fn until(arguments: &[&str], ready: &str) -> Result<Self> {
        let mut command = Command::new(PYTHON);
        command.arg("-u").args(arguments).stdout(Stdio::piped());
        let mut running = Self(command.spawn()?);
        let output = running.0.stdout.take().context("no standard output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        ensure!(line.starts_with(ready), "{arguments:?} does not start: {line:?}");
        Ok(running)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What `why` says of a process in the coming second.
fn why(pid: &str) -> Result<Value> {
    let found: Value = run_noised(&["why", pid, "--next", "1s", "--json"])?.json()?;
    println!("{}", found["verdict"]["sentence"]);
    Ok(found)
}

/// The first finding, and all that the page says.
fn first(found: &Value) -> Result<&Value> {
    found["verdict"]["findings"].get(0).with_context(|| format!("no finding: {}", found["verdict"]))
}

/// How much of the time that was, of one thread.
fn part(found: &Value, ns: &Value) -> f64 {
    ns.as_f64().unwrap_or(0.0) / found["span_ns"].as_f64().unwrap_or(f64::MAX)
}

/// No finding has a command.
fn ensure_no_command(found: &Value) -> Result<()> {
    let findings = found["verdict"]["findings"].as_array().context("no findings")?;
    ensure!(findings.iter().all(|one| one["remedy"].is_null()), "{}", found["verdict"]);
    Ok(())
}

fn a_lock_convoy_has_a_holder() -> Result<()> {
    needs(&[PYTHON])?;
    let folder = Folder::new("convoy")?;
    let program = folder.write("convoy.py", CONVOY)?;
    let program = program.to_str().context("a path that is not UTF-8")?;
    let convoy = Running::start(program, &["0.001"])?;
    let found = why(&convoy.pid())?;
    let (first, verdict) = (first(&found)?, &found["verdict"]);
    // Whether that is usual is not known.
    ensure!(verdict["kind"] == "unknown" && first["resource"] == "lock", "{verdict}");
    // Four of five wait at any time.
    let waited = part(&found, &first["ns"]) / 4.0;
    ensure!((MOSTLY..=1.1).contains(&waited), "{waited:.2}: {verdict}");
    let holder = first["culprit"]["tid"].as_i64().context("no holder")?;
    let is_own = |thread: &Value| thread["tid"].as_i64() == Some(holder);
    ensure!(found["threads"].as_array().is_some_and(|all| all.iter().any(is_own)), "{verdict}");
    let sentence = verdict["sentence"].as_str().unwrap_or_default();
    ensure!(sentence.contains("which slept on a timer meanwhile"), "{sentence}");
    ensure_no_command(&found)?;
    drop(convoy);
    // One that is never seen to wait may hand out work as well, but is named.
    let starving = Running::start(program, &["0"])?;
    let found = why(&starving.pid())?;
    let sentence = found["verdict"]["sentence"].as_str().unwrap_or_default();
    let is_named = ["held by thread", "held one after the other", "woke them, mostly thread"];
    ensure!(is_named.iter().any(|words| sentence.contains(words)), "{sentence}");
    ensure!(sentence.contains("which slept on a timer meanwhile"), "{sentence}");
    ensure_no_command(&found)?;
    Ok(())
}

fn workers_that_wait_for_work_are_not_held_up() -> Result<()> {
    needs(&[PYTHON])?;
    let folder = Folder::new("pool")?;
    let program = folder.write("pool.py", POOL)?;
    let pool = Running::start(program.to_str().context("a path that is not UTF-8")?, &[])?;
    let found = why(&pool.pid())?;
    let verdict = &found["verdict"];
    let findings = verdict["findings"].as_array().context("no findings")?;
    let is_wait = |one: &Value| ["lock", "tier", "network"].iter().any(|of| one["resource"] == *of);
    ensure!(!findings.iter().any(is_wait), "{verdict}");
    ensure_no_command(&found)?;
    Ok(())
}

fn a_slow_service_that_is_asked_is_named() -> Result<()> {
    needs(&[PYTHON])?;
    let folder = Folder::new("tier")?;
    let program = folder.write("tier.py", TIERS)?;
    let program = program.to_str().context("a path that is not UTF-8")?;
    let ports = [free_address()?, free_address()?].map(|address| address.port().to_string());
    let start = |role, own, other| Running::start(program, &[role, own, other]);
    let backend = start("service", &ports[0], "0")?;
    let front = start("service", &ports[1], &ports[0])?;
    let _client = start("client", "0", &ports[1])?;
    let found = why(&front.pid())?;
    let (first, verdict) = (first(&found)?, &found["verdict"]);
    ensure!(verdict["kind"] == "unknown" && first["resource"] == "tier", "{verdict}");
    ensure!(first["culprit"]["kind"] == "tier", "{verdict}");
    let expected = format!(": noised why {}", backend.pid());
    ensure!(first["next"].as_str().is_some_and(|next| next.ends_with(&expected)), "{verdict}");
    let waited = part(&found, &first["ns"]);
    ensure!(waited >= MOSTLY, "{waited:.2}: {verdict}");
    ensure_no_command(&found)?;
    // The backend waits for no other service.
    let asked = why(&backend.pid())?;
    let findings = asked["verdict"]["findings"].as_array().context("no findings")?;
    ensure!(!findings.iter().any(|one| one["resource"] == "tier"), "{}", asked["verdict"]);
    ensure_no_command(&asked)?;
    Ok(())
}

/// A program that answers at a port, and one that asks there.
fn answers_and_asks(folder: &Folder, text: &str) -> Result<(Running, Running, String)> {
    let program = folder.write("program.py", text)?;
    let program = program.to_str().context("a path that is not UTF-8")?;
    let port = free_address()?.port().to_string();
    let answers = Running::start(program, &["answers", &port])?;
    let asks = Running::start(program, &["asks", &port])?;
    Ok((answers, asks, port))
}

fn packets_that_wait_for_an_acknowledgement() -> Result<()> {
    needs(&[PYTHON])?;
    let folder = Folder::new("parts")?;
    let (_answers, asks, port) = answers_and_asks(&folder, PARTS)?;
    let found = why(&asks.pid())?;
    let (first, verdict) = (first(&found)?, &found["verdict"]);
    ensure!(verdict["kind"] == "held_up" && first["resource"] == "network", "{verdict}");
    let waited = part(&found, &first["ns"]);
    ensure!((MOSTLY..=1.01).contains(&waited), "{waited:.2}: {verdict}");
    let sentence = verdict["sentence"].as_str().unwrap_or_default();
    let expected = format!("(port {port}) that TCP held back until a late acknowledgement");
    ensure!(sentence.contains(&expected), "{sentence}");
    ensure_no_command(&found)?;
    Ok(())
}

fn what_is_open_is_looked_at() -> Result<()> {
    needs(&[PYTHON, SCRIPT])?;
    let folder = Folder::new("open")?;
    let (answers, _asks, port) = answers_and_asks(&folder, OPEN)?;
    let shown = |more: &str| -> Result<String> {
        let noised = binary()?;
        let noised = noised.to_str().context("a path that is not UTF-8")?;
        let mut command = Command::new(SCRIPT);
        command.args(["--quiet", "--return", "--command"]);
        command.arg(format!("'{noised}' why {} --next 1s{more}", answers.pid()));
        command.arg("/dev/null");
        let outcome = run(command)?;
        println!("{}", outcome.stdout);
        ensure!(outcome.code == 0, "{}", outcome.stderr);
        Ok(outcome.stdout.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let page = shown("")?;
    let looked = format!(" on port {port} in ");
    ensure!(page.contains("whether there was work for them is not known"), "{page}");
    ensure!(page.contains(" answers in 2") && page.contains(&looked), "{page}");
    ensure!(!shown(" --no-look")?.contains(&looked), "it looked in spite of --no-look");
    Ok(())
}

fn two_hogs_are_named() -> Result<()> {
    ensure!(
        Group::is_possible(Hierarchy::Cpu)?,
        Impossible("no cgroup hierarchy groups tasks".into())
    );
    let (victims, hogs) =
        (Group::new("wanted", &[Hierarchy::Cpu])?, Group::new("hogs", &[Hierarchy::Cpu])?);
    let victim = Worker::start_at(Place::group(&victims), "burn", &["0"])?;
    let start = || Worker::start_at(Place::group(&hogs), "burn", &["0"]);
    let (one, other) = (start()?, start()?);
    let found = why(&victim.pid().to_string());
    let label = hogs.label();
    let pids = [one.pid(), other.pid()].map(|pid| format!(" {pid}"));
    for worker in [victim, one, other] {
        worker.stop()?;
    }
    let found = found?;
    let (first, verdict) = (first(&found)?, &found["verdict"]);
    ensure!(verdict["kind"] == "held_up" && first["resource"] == "cpu", "{verdict}");
    let cgroup = first["culprit"]["cgroup"].as_str();
    ensure!(cgroup == Some(&*label), "{cgroup:?} instead of {label}: {verdict}");
    let commands = first["remedy"]["command"].as_array().into_iter().flatten();
    let folder = label.trim_start_matches('/');
    for command in commands {
        let is_against_hogs = command.as_str().is_some_and(|text| {
            text.contains(folder) || pids.iter().any(|pid| text.ends_with(pid))
        });
        ensure!(is_against_hogs, "{verdict}");
    }
    Ok(())
}

fn a_server_that_is_stopped_is_said_to_be() -> Result<()> {
    needs(&[PYTHON])?;
    let port = free_address()?.port().to_string();
    let server = ["-m", "http.server", "--bind", "127.0.0.1", &port];
    let server = Running::until(&server, "Serving HTTP")?;
    let pid = server.pid();
    let idle = why(&pid)?;
    let waited_ns = idle["accounts_ns"]["cpu"].as_u64().unwrap_or_default();
    ensure!(waited_ns < LITTLE_NS, "{INCONCLUSIVE}: it waited {waited_ns} ns for a CPU of others");
    ensure!(idle["verdict"]["kind"] == "nothing", "{}", idle["verdict"]);
    ensure_no_command(&idle)?;
    // SAFETY: no memory argument; the child is not reaped yet, so the id is still its own.
    let sent = unsafe { libc::kill(server.0.id().cast_signed(), libc::SIGSTOP) };
    ensure!(sent == 0, "cannot stop it");
    let stopped = why(&pid)?;
    let verdict = &stopped["verdict"];
    let sentence = verdict["sentence"].as_str().unwrap_or_default();
    ensure!(sentence.contains(" is stopped (SIGSTOP or a debugger)"), "{verdict}");
    ensure_no_command(&stopped)?;
    Ok(())
}
