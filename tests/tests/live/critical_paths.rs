//! Critical paths of recordings of ours.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::run_noised;
use noise_tests::scratch::argument;
use serde_json::Value;

use crate::record::Recorder;
use crate::{Test, Verdict};

pub(crate) const TESTS: &[(&str, Test)] = &[(
    "a_clients_wait_for_an_answer_is_its_servers_work",
    a_clients_wait_for_an_answer_is_its_servers_work,
)];

/// Requests over TCP, and what the server works for each.
const REQUESTS: u32 = 20;
const WORK: Duration = Duration::from_millis(5);

/// The thread's own CPU time.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it is written during the call only.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn tid() -> i32 {
    // SAFETY: no argument.
    unsafe { libc::gettid() }
}

/// The server's thread.
fn serve(listener: &TcpListener) -> Result<i32> {
    let (mut client, _) = listener.accept()?;
    client.set_nodelay(true)?;
    let mut byte = [0];
    while client.read(&mut byte)? > 0 {
        let end = cpu_time() + WORK;
        while cpu_time() < end {}
        client.write_all(&byte)?;
    }
    Ok(tid())
}

fn ask(address: std::net::SocketAddr) -> Result<i32> {
    let mut server = TcpStream::connect(address)?;
    server.set_nodelay(true)?;
    let mut byte = [1];
    for _ in 0..REQUESTS {
        server.write_all(&byte)?;
        server.read_exact(&mut byte)?;
    }
    Ok(tid())
}

fn a_clients_wait_for_an_answer_is_its_servers_work() -> Result<Verdict> {
    let mut recorder = Recorder::start(&["--events", "sched,io"])?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let server = thread::spawn(move || serve(&listener));
    let client = thread::spawn(move || ask(address)).join().ok().context("the client failed")??;
    let server = server.join().ok().context("the server failed")??;
    recorder.stop(libc::SIGINT)?;

    let execution = format!("thread:{client}");
    let path = argument(recorder.folder.path())?;
    let options = ["trace", "critical-path", "--json", "--execution", &execution, path];
    let outcome = run_noised(&options)?;
    ensure!(outcome.code == 0, "{outcome:?}");
    let document: Value = serde_json::from_str(&outcome.stdout)?;
    let traced = &document["executions"][0];
    let totals = traced["totals_ns"].as_object().context("no totals")?;
    let sum: u64 = totals.values().filter_map(Value::as_u64).sum();
    ensure!(Some(sum) == traced["span_ns"].as_u64(), "totals sum to {sum}: {traced}");

    let (mut worked_ns, mut sent_ns) = (0, 0);
    for part in traced["path"].as_array().context("no path")? {
        let ns = part["to_ns"].as_u64().zip(part["from_ns"].as_u64());
        let ns = ns.map(|(to_ns, from_ns)| to_ns - from_ns).context("no span")?;
        let none = Vec::new();
        let culprits = part["culprits"].as_array().unwrap_or(&none);
        let divided: u64 = culprits.iter().filter_map(|culprit| culprit["ns"].as_u64()).sum();
        ensure!(divided == ns || culprits.is_empty(), "culprits have {divided} of {part}");
        ensure!(part["state"] != "waiting_cpu" || divided == ns, "no culprits: {part}");
        if part["tid"] == server && part["state"] == "running" {
            worked_ns += ns;
        }
        if culprits.iter().any(|of| of["cause"] == "sender" && of["tid"] == server) {
            sent_ns += ns;
        }
    }
    println!("the server works {worked_ns} ns of the client's path; its packets take {sent_ns} ns");
    if document["discarded"] == 0 {
        let planted_ns = u64::try_from((WORK * REQUESTS).as_nanos())?;
        ensure!(worked_ns >= planted_ns * 95 / 100, "{worked_ns} of {planted_ns} ns of work");
        ensure!(sent_ns > 0, "no packet of the server");
    }
    Ok(Verdict::Passed)
}
