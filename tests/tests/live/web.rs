//! The HTTP server: what it serves, and clients that mean no good.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::Daemon;
use noise_tests::http::get;
use noise_tests::needed::missing;
use noise_tests::prom::Scrape;

use crate::{Test, Verdict};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("routes", routes),
    ("status_page_names_every_signal", status_page_names_every_signal),
    ("what_the_page_needs", what_the_page_needs),
    ("head_and_other_methods", head_and_other_methods),
    ("a_connection_waits_for_the_next_scrape", a_connection_waits_for_the_next_scrape),
    ("compression", compression),
    ("idle_connections", idle_connections),
    ("half_a_request", half_a_request),
    ("huge_header", huge_header),
    ("not_http", not_http),
];

/// What hostile clients may cost.
const GROWTH_BYTES: u64 = 32 << 20;

fn routes() -> Result<Verdict> {
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
    Ok(Verdict::Passed)
}

fn status_page_names_every_signal() -> Result<Verdict> {
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
    Ok(Verdict::Passed)
}

/// With `Content-Security-Policy: default-src 'self'` a browser takes style and script from elsewhere
/// on this server, and from nowhere within the page.
fn what_the_page_needs() -> Result<Verdict> {
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
    Ok(Verdict::Passed)
}

/// What is answered to a request line, until the connection ends.
fn answer_to(daemon: &Daemon, line: &str) -> Result<String> {
    let mut stream = connect(daemon)?;
    write!(stream, "{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).with_context(|| format!("the answer to {line}"))?;
    Ok(answer.to_ascii_lowercase())
}

fn head_and_other_methods() -> Result<Verdict> {
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
    Ok(Verdict::Passed)
}

/// Asks whether the daemon is healthy, and leaves the connection open.
fn ask_health(stream: &mut TcpStream) -> Result<()> {
    stream.write_all(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")?;
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
fn a_connection_waits_for_the_next_scrape() -> Result<Verdict> {
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
    Ok(Verdict::Passed)
}

fn compression() -> Result<Verdict> {
    let daemon = Daemon::start()?;
    let answer = get(daemon.address, "/metrics", &[("Accept-Encoding", "gzip")])?;
    ensure!(answer.header("content-encoding") == Some("gzip"), "not compressed when asked");
    if let Some(reason) = missing(&["gzip"]) {
        return Ok(Verdict::Impossible(reason));
    }
    let mut gzip =
        Command::new("gzip").arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    gzip.stdin.take().context("no pipe")?.write_all(&answer.body)?;
    let output = gzip.wait_with_output()?;
    ensure!(output.status.success(), "gzip ended with {}", output.status);
    let scrape = Scrape::parse(std::str::from_utf8(&output.stdout)?)?;
    ensure!(scrape.total("noised_context_switches_total") > 0.0, "an empty page");
    Ok(Verdict::Passed)
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
    let patience = Duration::from_secs(10);
    let stream = TcpStream::connect_timeout(&daemon.address, patience)?;
    stream.set_write_timeout(Some(patience))?;
    stream.set_read_timeout(Some(patience))?;
    Ok(stream)
}

fn idle_connections() -> Result<Verdict> {
    let daemon = Daemon::start()?;
    still_serves(&daemon, || {
        // A server that refuses or closes some of them is within its rights.
        let connections: Vec<_> = (0..2000).filter_map(|_| connect(&daemon).ok()).collect();
        println!("{} connections of 2000", connections.len());
        ensure!(!connections.is_empty(), "no connection at all");
        Ok(connections)
    })?;
    Ok(Verdict::Passed)
}

fn half_a_request() -> Result<Verdict> {
    let daemon = Daemon::start()?;
    still_serves(&daemon, || {
        (0..100)
            .map(|_| {
                let mut stream = connect(&daemon)?;
                stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: ")?;
                Ok(stream)
            })
            .collect::<Result<Vec<_>>>()
    })?;
    Ok(Verdict::Passed)
}

fn huge_header() -> Result<Verdict> {
    let daemon = Daemon::start()?;
    still_serves(&daemon, || {
        for _ in 0..20 {
            let mut stream = connect(&daemon)?;
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Huge: ")?;
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
    Ok(Verdict::Passed)
}

fn not_http() -> Result<Verdict> {
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
    Ok(Verdict::Passed)
}
