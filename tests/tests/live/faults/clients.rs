//! Clients that stop, crowd or talk nonsense, and a daemon without descriptors.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::{Daemon, binary};
use noise_tests::http::{exchange, get};
use noise_tests::load::Worker;
use noise_tests::toll::{Footprint, Toll};

use crate::Test;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("readers_that_stop_reading", readers_that_stop_reading),
    ("a_thousand_scrapers", a_thousand_scrapers),
    ("malformed_requests", malformed_requests),
    ("no_descriptors_left", no_descriptors_left),
];

/// What clients may cost in memory, whatever they do.
const GROWTH_BYTES: u64 = 64 << 20;
const TIMEOUT: Duration = Duration::from_secs(10);

fn connect(daemon: &Daemon) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&daemon.address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Clients that ask for page after page and read none, and a view that is stopped.
fn readers_that_stop_reading() -> Result<()> {
    const CLIENTS: usize = 40;
    let daemon = Daemon::start()?;
    let load = Worker::start("timer", &["0", "500"])?;
    let toll = Toll::begin(&daemon)?;
    let url = format!("http://{}", daemon.address);
    let mut view = Command::new(binary()?)
        .args(["top", "--batch", "--interval", "200ms", "--connect", &url])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    thread::sleep(Duration::from_millis(600));
    // SAFETY: no memory argument; the child is not reaped yet, so the id is still its own.
    let stopped = unsafe { libc::kill(view.id().cast_signed(), libc::SIGSTOP) };
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(200);
    let asked = (0..CLIENTS)
        .map(|_| {
            let mut stream = connect(&daemon)?;
            stream.set_nonblocking(true)?;
            // As much as fits into the buffers on the way.
            let _ = stream.write(&request);
            Ok(stream)
        })
        .collect::<Result<Vec<_>>>();
    // Somebody who reads is served meanwhile.
    let served = (0..10).try_for_each(|_| {
        thread::sleep(Duration::from_millis(200));
        daemon.scrape().map(|_| ())
    });
    let held = Footprint::of(daemon.process().pid());
    // Errors mean that it has ended already.
    let _ = view.kill();
    let _ = view.wait();
    ensure!(stopped == 0 && !asked?.is_empty(), "none stopped reading");
    served.context("a scrape beside those who do not read")?;
    println!("{:.1} MiB while they were there", held?.resident_bytes as f64 / 1_048_576.0);
    load.stop()?;
    let bill = toll.end(&daemon)?;
    bill.ensure_bounded(GROWTH_BYTES)?;
    Ok(())
}

/// More scrapers at once than it keeps connections open for.
fn a_thousand_scrapers() -> Result<()> {
    const SCRAPERS: usize = 1000;
    let daemon = Daemon::start()?;
    let toll = Toll::begin(&daemon)?;
    let begin = Instant::now();
    let address = daemon.address;
    let scrapers = (0..SCRAPERS)
        .map(|_| {
            let scraper = thread::Builder::new().stack_size(256 * 1024);
            scraper.spawn(move || get(address, "/metrics", &[]).map(|answer| answer.status))
        })
        .collect::<std::io::Result<Vec<_>>>()?;
    let (mut served, mut turned_away, mut wrong) = (0, 0, Vec::new());
    for scraper in scrapers {
        match scraper.join().map_err(|_| anyhow::anyhow!("a scraper panicked"))? {
            Ok(200) => served += 1,
            Ok(429 | 503) => turned_away += 1,
            Ok(status) => wrong.push(format!("status {status}")),
            Err(error) => wrong.push(format!("{error:#}")),
        }
    }
    println!("{served} of {SCRAPERS} served, {turned_away} turned away, in {:?}", begin.elapsed());
    ensure!(wrong.is_empty(), "{} were neither: {wrong:?}", wrong.len());
    ensure!(served > 0, "no scrape was answered");
    let bill = toll.end(&daemon)?;
    bill.ensure_bounded(GROWTH_BYTES)?;
    Ok(())
}

/// What no client should send.
fn bad_requests() -> Vec<Vec<u8>> {
    let head = |text: &str| format!("{text}\r\nHost: localhost\r\n\r\n").into_bytes();
    let long = "a".repeat(100_000);
    let many: String = (0..5000).map(|number| format!("X-{number}: y\r\n")).collect();
    let mut all = vec![
        b"".to_vec(),
        b"\r\n\r\n\r\n".to_vec(),
        b"\0".repeat(1000),
        b"\xff\xfe\xfd".repeat(1000),
        b"GET".to_vec(),
        b"GET \r\n\r\n".to_vec(),
        b"GET / HTTP/9.9\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\n\n".to_vec(),
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n".to_vec(),
        b"GET /metrics HTTP/1.1\r\nHost x\r\n\r\n".to_vec(),
        b"GET /metrics HTTP/1.1\r\n: x\r\n\r\n".to_vec(),
        b"GET /metrics HTTP/1.1\r\nA: \0\r\n\r\n".to_vec(),
        b"GET /metrics HTTP/1.1\r\n folded: x\r\n\r\n".to_vec(),
        b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n".to_vec(),
        b"GET /metrics HTTP/1.1\r\nContent-Length: -1\r\n\r\n".to_vec(),
        b"GET /metrics HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef".to_vec(),
        b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n".to_vec(),
        b"POST /metrics HTTP/1.1\r\nContent-Length: 9223372036854775807\r\n\r\nabc".to_vec(),
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n".to_vec(),
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n".to_vec(),
        b"CONNECT x:1 HTTP/1.1\r\n\r\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"GET /metrics HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n".to_vec(),
        b"GET /metrics HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n".to_vec(),
    ];
    for target in [
        "/../../etc/passwd",
        "//metrics",
        "/metrics/../metrics",
        "/%00",
        "/%2e%2e/%2e%2e",
        "/\u{fc}",
        "*",
        "metrics",
        "http://x/metrics/y",
        "/api/v1/frame?since=-1",
        "/api/v1/frame?since=99999999999999999999999",
        "/api/v1/frame?since=1&since=2",
        "/api/v1/frame?%ff",
        "/api/v1/incidents?since=\u{1}",
    ] {
        all.push(head(&format!("GET {target} HTTP/1.1")));
    }
    all.push(head(&format!("GET /{long} HTTP/1.1")));
    all.push(head(&format!("GET /api/v1/frame?{long} HTTP/1.1")));
    all.push(head(&format!("{long} / HTTP/1.1")));
    all.push(format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n").into_bytes());
    all.push(format!("GET / HTTP/1.1\r\nHost: localhost\r\nA: {long}\r\n\r\n").into_bytes());
    all
}

fn malformed_requests() -> Result<()> {
    const ROUNDS: usize = 4;
    let daemon = Daemon::start()?;
    let toll = Toll::begin(&daemon)?;
    let requests = bad_requests();
    let mut statuses = std::collections::BTreeMap::<String, usize>::new();
    for round in 0..ROUNDS {
        for request in &requests {
            let mut stream = connect(&daemon)?;
            // The server may hang up at any point.
            let _ = stream.write_all(request);
            let _ = stream.shutdown(Shutdown::Write);
            let mut answer = Vec::new();
            let read = stream.read_to_end(&mut answer);
            let shown = String::from_utf8_lossy(request.get(..60).unwrap_or(request)).into_owned();
            let is_late = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
            ensure!(
                !read.as_ref().is_err_and(is_late),
                "round {round}: {shown:?} is never answered"
            );
            let text = String::from_utf8_lossy(&answer);
            let status = text.get(..12).unwrap_or("none").to_owned();
            ensure!(
                !status.starts_with("HTTP/1.1 5"),
                "round {round}: {shown:?} is answered with {status}"
            );
            *statuses.entry(status).or_default() += 1;
        }
    }
    println!("{} bad requests, {ROUNDS} times each: {statuses:?}", requests.len());
    let bill = toll.end(&daemon)?;
    bill.ensure_bounded(GROWTH_BYTES)?;
    ensure!(bill.descriptors[1] <= bill.descriptors[0] + 2, "descriptors were left open");
    let log = daemon.process().stderr()?;
    ensure!(!log.contains("panicked"), "the daemon panicked: {log}");
    Ok(())
}

/// Sets how many descriptors a process may have, and returns how many it might before.
fn set_descriptor_limit(pid: u32, limit: u64) -> Result<u64> {
    let mut limits = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let pid = pid.cast_signed();
    // SAFETY: the limits are valid for the call.
    let result =
        unsafe { libc::prlimit64(pid, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limits) };
    ensure!(result == 0, "prlimit: {}", std::io::Error::last_os_error());
    let before = std::mem::replace(&mut limits.rlim_cur, limit);
    // SAFETY: as above.
    let result = unsafe {
        libc::prlimit64(pid, libc::RLIMIT_NOFILE, &raw const limits, std::ptr::null_mut())
    };
    ensure!(result == 0, "prlimit: {}", std::io::Error::last_os_error());
    Ok(before)
}

/// A daemon that cannot open anything any more goes on measuring, does not spin, and serves again.
fn no_descriptors_left() -> Result<()> {
    let daemon = Daemon::start()?;
    let load = Worker::start("timer", &["0", "500"])?;
    let toll = Toll::begin(&daemon)?;
    let pid = daemon.process().pid();
    // Not even one to read a file with: what is asked over a connection that is there is answered.
    let mut kept = connect(&daemon)?;
    thread::sleep(Duration::from_millis(200));
    let open = Footprint::of(pid)?.descriptors as u64;
    let before = set_descriptor_limit(pid, open)?;
    let answer = exchange(&mut kept, daemon.address, "/metrics", &[])?;
    ensure!(answer.status == 200, "status {} without descriptors", answer.status);
    noise_tests::prom::Scrape::parse(answer.text()?)?;
    drop(kept);
    set_descriptor_limit(pid, open + 1)?;
    let crowd = (0..50).filter_map(|_| connect(&daemon).ok()).collect::<Vec<_>>();
    let busy = Footprint::of(pid)?.cpu_seconds;
    thread::sleep(Duration::from_secs(3));
    let busy = Footprint::of(pid)?.cpu_seconds - busy;
    println!("{:.0} % of a CPU while nothing can be accepted", busy / 3.0 * 100.0);
    drop(crowd);
    thread::sleep(Duration::from_millis(500));
    // As few are enough for one after the other.
    for _ in 0..5 {
        daemon.scrape().context("a scrape with hardly any descriptors")?;
    }
    set_descriptor_limit(pid, before)?;
    load.stop()?;
    let bill = toll.end(&daemon)?;
    bill.ensure_bounded(GROWTH_BYTES)?;
    ensure!(busy < 1.5, "it spins: {busy} s of CPU in 3 s");
    let counted =
        |scrape: &noise_tests::prom::Scrape| scrape.total("noised_context_switches_total");
    ensure!(counted(&bill.scrape) > counted(&toll.scrape), "nothing was measured");
    let log = daemon.process().stderr()?;
    let warnings = log.lines().filter(|line| line.contains("cannot accept")).count();
    println!("{warnings} lines about it");
    ensure!(!log.contains("panicked"), "the daemon panicked: {log}");
    ensure!((1..=4).contains(&warnings), "{warnings} lines about it: {log}");
    Ok(())
}
