//! The HTTP server: what it serves, and clients that mean no good.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use noise_tests::daemon::{Daemon, FIXED_RECORDER, SOCKET_PATH, STATE_DIRECTORY, binary};
use noise_tests::http::get;
use noise_tests::needed::needs;
use noise_tests::prom::Scrape;
use noise_tests::scratch::Folder;

use crate::Test;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("routes", routes),
    ("status_page_names_every_signal", status_page_names_every_signal),
    ("what_the_page_needs", what_the_page_needs),
    ("head_and_other_methods", head_and_other_methods),
    ("a_connection_waits_for_the_next_scrape", a_connection_waits_for_the_next_scrape),
    ("compression", compression),
    ("hosts_of_strangers", hosts_of_strangers),
    ("a_client_without_pause", a_client_without_pause),
    ("idle_connections", idle_connections),
    ("half_a_request", half_a_request),
    ("huge_header", huge_header),
    ("not_http", not_http),
];

/// What hostile clients may cost.
const GROWTH_BYTES: u64 = 32 << 20;

fn routes() -> Result<()> {
    let daemon = Daemon::start()?;
    for (path, status) in [
        ("/", 200),
        ("/metrics", 200),
        ("/-/healthy", 200),
        ("/-/ready", 200),
        ("/api/v1/incidents", 200),
        ("/api/v1/outliers", 200),
        ("/api/v2/incidents", 404),
        ("/metrics/", 404),
        ("/-/", 404),
        ("/../etc/passwd", 404),
        ("/favicon.ico", 404),
    ] {
        let answer = get(daemon.address, path, &[])?;
        ensure!(answer.status == status, "{path} answers {}, expected {status}", answer.status);
    }
    let metrics = get(daemon.address, "/metrics", &[])?;
    let kind = metrics.header("content-type").unwrap_or_default();
    ensure!(kind.starts_with("text/plain; version=0.0.4"), "/metrics is {kind:?}");
    ensure!(metrics.header("content-encoding").is_none(), "compressed without being asked");
    Ok(())
}

fn status_page_names_every_signal() -> Result<()> {
    let daemon = Daemon::start()?;
    let page = get(daemon.address, "/", &[])?;
    let kind = page.header("content-type").unwrap_or_default();
    ensure!(kind.starts_with("text/html"), "/ is {kind:?}");
    for signal in [
        "runqueue_wait",
        "context_switch",
        "hardirq",
        "softirq",
        "softirq_raise_wait",
        "nmi",
        "block_queue_wait",
        "block_device_wait",
        "net_tx_wait",
        "net_rx_wait",
        "tcp_retransmit",
        "packet_drop",
    ] {
        ensure!(page.text()?.contains(signal), "the page does not name {signal}");
    }
    ensure!(page.text()?.contains("href=\"/metrics\""), "no link to /metrics");
    Ok(())
}

/// With `Content-Security-Policy: default-src 'self'` a browser takes style and script from elsewhere
/// on this server, and from nowhere within the page.
fn what_the_page_needs() -> Result<()> {
    let daemon = Daemon::start()?;
    let page = get(daemon.address, "/", &[])?;
    let page = page.text()?;
    for inline in ["<style", "<script>", " style=", " onload="] {
        ensure!(!page.contains(inline), "the page has {inline:?}");
    }
    for (path, named, kind) in [
        ("/status.css", "href=\"/status.css\"", "text/css"),
        ("/status.js", "src=\"/status.js\"", "text/javascript"),
    ] {
        ensure!(page.contains(named), "the page does not name {path}");
        let answer = get(daemon.address, path, &[])?;
        let found = answer.header("content-type").unwrap_or_default();
        ensure!(answer.status == 200 && found.starts_with(kind), "{path}: {answer:?}");
        ensure!(!answer.body.is_empty(), "{path} is empty");
        let tag = answer.header("etag").context("no tag")?;
        let again = get(daemon.address, path, &[("If-None-Match", tag)])?;
        ensure!(again.status == 304 && again.body.is_empty(), "{path}, again: {again:?}");
        let other = get(daemon.address, path, &[("If-None-Match", "\"0\"")])?;
        ensure!(other.status == 200, "{path}, of another version: {other:?}");
    }
    Ok(())
}

/// What is answered to a request line, until the connection ends.
fn answer_to(daemon: &Daemon, line: &str) -> Result<String> {
    let mut stream = connect(daemon)?;
    write!(stream, "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).with_context(|| format!("the answer to {line}"))?;
    Ok(answer.to_ascii_lowercase())
}

fn head_and_other_methods() -> Result<()> {
    let daemon = Daemon::start()?;
    for path in ["/", "/metrics", "/api/v1/frame", "/api/v1/incidents", "/-/ready", "/status.css"] {
        let head = answer_to(&daemon, &format!("HEAD {path}"))?;
        ensure!(head.starts_with("http/1.1 200 "), "HEAD {path}: {head}");
        ensure!(head.contains("\r\ncontent-type: "), "HEAD {path}: {head}");
        ensure!(head.ends_with("\r\n\r\n"), "HEAD {path} has a body: {head}");
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            let answer = answer_to(&daemon, &format!("{method} {path}"))?;
            ensure!(answer.starts_with("http/1.1 405 "), "{method} {path}: {answer}");
            let allowed = answer.lines().find_map(|line| line.strip_prefix("allow: "));
            let mut allowed: Vec<_> = allowed.unwrap_or_default().split(',').collect();
            allowed.sort_unstable();
            ensure!(allowed == ["get", "head"], "{method} {path}: {answer}");
        }
    }
    let nothing = answer_to(&daemon, "HEAD /nothing")?;
    ensure!(nothing.starts_with("http/1.1 404 ") && nothing.ends_with("\r\n\r\n"), "{nothing}");
    Ok(())
}

/// Asks whether the daemon is healthy, and leaves the connection open.
fn ask_health(stream: &mut TcpStream) -> Result<()> {
    stream.write_all(b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"noised is healthy\n") {
        let mut byte = [0];
        stream
            .read_exact(&mut byte)
            .with_context(|| String::from_utf8_lossy(&answer).into_owned())?;
        answer.extend(byte);
    }
    Ok(())
}

/// A scraper's connection is there when it asks the next time; a request that is begun ends with its
/// connection when it does not go on.
fn a_connection_waits_for_the_next_scrape() -> Result<()> {
    let daemon = Daemon::start()?;
    let (mut kept, mut begun) = (connect(&daemon)?, connect(&daemon)?);
    ask_health(&mut kept)?;
    ask_health(&mut begun)?;
    begun.write_all(b"GET /-/healthy HTTP/1.1\r\nX-Slow: ")?;
    sleep(Duration::from_secs(15));
    ask_health(&mut kept).context("after the usual time between two scrapes")?;
    begun.set_nonblocking(true)?;
    let rest = begun.read(&mut [0; 100]);
    let is_ended = match &rest {
        Ok(bytes) => *bytes == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    };
    ensure!(is_ended, "half a request is waited for: {rest:?}");
    Ok(())
}

fn compression() -> Result<()> {
    let daemon = Daemon::start()?;
    let answer = get(daemon.address, "/metrics", &[("Accept-Encoding", "gzip")])?;
    ensure!(answer.header("content-encoding") == Some("gzip"), "not compressed when asked");
    needs(&["gzip"])?;
    let mut gzip =
        Command::new("gzip").arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    gzip.stdin.take().context("no pipe")?.write_all(&answer.body)?;
    let output = gzip.wait_with_output()?;
    ensure!(output.status.success(), "gzip ended with {}", output.status);
    let scrape = Scrape::parse(std::str::from_utf8(&output.stdout)?)?;
    ensure!(scrape.total("noised_context_switches_total") > 0.0, "an empty page");
    for refusal in
        ["gzip;q=0", "gzip;Q=0.000", "gzip ; q=0.0", "*;q=0", "gzip;q=0, *;q=1", "identity"]
    {
        let answer = get(daemon.address, "/-/healthy", &[("Accept-Encoding", refusal)])?;
        ensure!(answer.status == 200, "{refusal}: {}", answer.status);
        let answer = get(daemon.address, "/metrics", &[("Accept-Encoding", refusal)])?;
        ensure!(answer.header("content-encoding").is_none(), "packed in spite of {refusal}");
    }
    Ok(())
}

/// What is answered to a head, until the connection ends.
fn raw(mut stream: impl Read + Write, head: &str) -> Result<String> {
    write!(stream, "{head}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).with_context(|| format!("the answer to {head}"))?;
    Ok(answer)
}

/// A page of a stranger whose name leads to 127.0.0.1 does not read along.
fn hosts_of_strangers() -> Result<()> {
    let folder = Folder::new("strangers")?;
    let socket = folder.path().join("noised.sock");
    let path = socket.display().to_string();
    let allowed = ["--web.allowed-hosts", "box.example,prometheus", SOCKET_PATH, &path];
    let daemon = Daemon::start_with(&allowed)?;
    let port = daemon.address.port();
    for (head, status) in [
        ("GET /metrics HTTP/1.1\r\nHost: evil.example:PORT", 403),
        ("GET / HTTP/1.1\r\nHost: evil.example", 403),
        ("GET /api/v1/frame HTTP/1.1\r\nHost: 127.0.0.1.evil.example:PORT", 403),
        ("GET /nothing HTTP/1.1\r\nHost: localhost.evil.example", 403),
        ("GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost", 403),
        ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example", 403),
        ("GET /metrics HTTP/1.1\r\nHost: other.box.example", 403),
        ("GET /metrics HTTP/1.1\r\nHost: localhost:PORT", 200),
        ("GET /metrics HTTP/1.1\r\nHost: LocalHost.:PORT", 200),
        ("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:PORT", 200),
        ("GET /metrics HTTP/1.1\r\nHost: [::1]:PORT", 200),
        ("GET /metrics HTTP/1.1\r\nHost: BOX.example.:PORT", 200),
        ("GET /metrics HTTP/1.1\r\nHost: prometheus", 200),
        ("GET http://127.0.0.1:PORT/metrics HTTP/1.1\r\nHost: 127.0.0.1:PORT", 200),
        ("GET /metrics HTTP/1.0", 200),
    ] {
        let head = head.replace("PORT", &port.to_string());
        let answer = raw(connect(&daemon)?, &head)?;
        ensure!(answer.contains(&format!(" {status} ")), "{head}: {answer:.100}");
        ensure!(status == 200 || answer.contains("web.allowed-hosts"), "{head}: {answer:.300}");
    }
    // Who may use the socket is known.
    let local = UnixStream::connect(&socket)?;
    local.set_read_timeout(Some(Duration::from_secs(10)))?;
    let answer = raw(local, "GET /metrics HTTP/1.1\r\nHost: evil.example")?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "the socket: {answer:.100}");
    drop(daemon);
    // The rule is for loopback.
    let mut command = Command::new(binary()?);
    command.args(["run", STATE_DIRECTORY, "", SOCKET_PATH, ""]).args(FIXED_RECORDER);
    command.args(["--web.listen-address", &format!("0.0.0.0:{port}")]);
    let wide = Daemon::start_command(command, ([127, 0, 0, 1], port).into())?;
    let answer = raw(connect(&wide)?, "GET /metrics HTTP/1.1\r\nHost: evil.example")?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "of all addresses: {answer:.100}");
    Ok(())
}

/// CPU time of a process so far.
fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').context("no name")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = fields.get(11).context("no utime")?.parse::<u64>()?
        + fields.get(12).context("no stime")?.parse::<u64>()?;
    // USER_HZ is 100 wherever Linux runs.
    Ok(Duration::from_millis(ticks * 10))
}

/// Asks again as soon as it is answered, until it is enough; how often it was.
fn hammer(daemon: &Daemon, done: &AtomicBool) -> Result<u64> {
    let mut stream = connect(daemon)?;
    stream.set_nodelay(true)?;
    let mut some = vec![0; 1 << 20];
    let mut answers = 0;
    while !done.load(Ordering::Relaxed) {
        let path = ["/metrics", "/-/healthy", "/nothing"][answers as usize % 3];
        // At once: the rest of a head would wait until its beginning is confirmed.
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        while !is_whole(&answer) {
            let count = stream.read(&mut some)?;
            ensure!(count > 0, "the connection ended");
            answer.extend_from_slice(&some[..count]);
        }
        answers += 1;
    }
    Ok(answers)
}

/// Whether an answer has come to its end.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length
        .and_then(|length| length.parse().ok())
        .is_some_and(|length: usize| answer.len() >= end + 4 + length)
}

/// Clients that ask as fast as they can have a part of a CPU between them; scrapers are answered, soon.
fn a_client_without_pause() -> Result<()> {
    let daemon = Daemon::start()?;
    let done = AtomicBool::new(false);
    let pid = daemon.process().pid();
    let (share, longest, answers) = thread::scope(|scope| -> Result<_> {
        let clients: Vec<_> = (0..16).map(|_| scope.spawn(|| hammer(&daemon, &done))).collect();
        // What may be had ahead is used up.
        sleep(Duration::from_secs(4));
        let (before, begin) = (cpu_time(pid)?, Instant::now());
        let mut longest = Duration::ZERO;
        let mut scraped = Ok(());
        for _ in 0..5 {
            let asked = Instant::now();
            scraped = scraped.and_then(|()| daemon.scrape().map(drop));
            longest = longest.max(asked.elapsed());
            sleep(Duration::from_secs(1).saturating_sub(asked.elapsed()));
        }
        let spent = cpu_time(pid)?.saturating_sub(before);
        let share = spent.as_secs_f64() / begin.elapsed().as_secs_f64();
        done.store(true, Ordering::Relaxed);
        let mut answers = 0;
        for client in clients {
            answers += client.join().map_err(|_| anyhow!("a client's thread failed"))??;
        }
        scraped?;
        Ok((share, longest, answers))
    })?;
    println!(
        "{answers} answers; {:.0} % of one CPU; a scrape took {longest:?} at most",
        share * 100.0
    );
    // A tenth, what it takes to measure, and what the kernel does for both ends of a connection.
    ensure!(share < 0.3, "{share} of one CPU");
    let delayed = daemon.scrape()?.total("noised_http_requests_delayed_total");
    ensure!(delayed > 0.0, "{delayed} requests had to wait");
    Ok(())
}

/// A client like any other gets its answer while `hostile` is going on, and memory stays bounded.
fn still_serves<T>(daemon: &Daemon, hostile: impl FnOnce() -> Result<T>) -> Result<()> {
    // Two scrapes, so that buffers have the size that they need anyway.
    daemon.scrape()?;
    daemon.scrape()?;
    let before = daemon.resident_bytes()?;
    let held = hostile()?;
    let scrape = daemon.scrape().context("a scrape among hostile clients")?;
    ensure!(scrape.total("noised_context_switches_total") > 0.0, "an empty page");
    let grown = daemon.resident_bytes()?.saturating_sub(before);
    println!("resident memory grew by {grown} bytes");
    ensure!(grown < GROWTH_BYTES, "resident memory grew by {grown} bytes");
    drop(held);
    daemon.scrape().context("a scrape after hostile clients")?;
    Ok(())
}

fn connect(daemon: &Daemon) -> Result<TcpStream> {
    let timeout = Duration::from_secs(10);
    let stream = TcpStream::connect_timeout(&daemon.address, timeout)?;
    stream.set_write_timeout(Some(timeout))?;
    stream.set_read_timeout(Some(timeout))?;
    Ok(stream)
}

fn idle_connections() -> Result<()> {
    let daemon = Daemon::start()?;
    still_serves(&daemon, || {
        // A server that refuses or closes some of them is within its rights.
        let connections: Vec<_> = (0..2000).filter_map(|_| connect(&daemon).ok()).collect();
        println!("{} connections of 2000", connections.len());
        ensure!(!connections.is_empty(), "no connection at all");
        Ok(connections)
    })?;
    Ok(())
}

fn half_a_request() -> Result<()> {
    let daemon = Daemon::start()?;
    still_serves(&daemon, || {
        (0..100)
            .map(|_| {
                let mut stream = connect(&daemon)?;
                stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")?;
                Ok(stream)
            })
            .collect::<Result<Vec<_>>>()
    })?;
    Ok(())
}

fn huge_header() -> Result<()> {
    let daemon = Daemon::start()?;
    still_serves(&daemon, || {
        for _ in 0..20 {
            let mut stream = connect(&daemon)?;
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Huge: ")?;
            // The server may hang up at any point.
            let sent = stream.write_all(&vec![b'a'; 1 << 20]);
            let ended = stream.write_all(b"\r\n\r\n");
            let mut answer = Vec::new();
            let read = stream.read_to_end(&mut answer);
            let text = String::from_utf8_lossy(&answer);
            ensure!(
                !text.starts_with("HTTP/1.1 200"),
                "a header of 1 MiB is accepted ({sent:?}, {ended:?}, {read:?})"
            );
        }
        Ok(())
    })?;
    Ok(())
}

fn not_http() -> Result<()> {
    let daemon = Daemon::start()?;
    still_serves(&daemon, || {
        for bytes in [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"[..], b"\0\0\0\0\r\n\r\n", b"POST"] {
            let mut stream = connect(&daemon)?;
            stream.write_all(bytes)?;
            stream.shutdown(std::net::Shutdown::Write)?;
            let mut answer = Vec::new();
            // An error answer or a closed connection: both will do.
            let _ = stream.read_to_end(&mut answer);
            let text = String::from_utf8_lossy(&answer).into_owned();
            ensure!(!text.starts_with("HTTP/1.1 200"), "{bytes:?} is answered with {text}");
        }
        Ok(())
    })?;
    Ok(())
}
