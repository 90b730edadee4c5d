//! Clients that ask one request after the other, each on a connection of its own, and write what they know.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, ensure};

/// What answers end with.
pub const END: &[u8] = b"ok\n";
/// Longer than an answer is.
const MOST_BYTES: usize = 4096;
/// Numbers of one client's requests.
const EACH: u64 = 1_000_000;

/// A request, as a client saw it: the tier, its number, how long it took, nanoseconds, and the thread.
type Row = (&'static str, u64, u64, i32);

/// Clients at work.
pub struct Clients {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Vec<Row>>>>,
}

fn client(address: SocketAddr, first: u64, count: u64, over: &AtomicBool) -> Result<Vec<Row>> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_nodelay(true)?;
    // SAFETY: no arguments.
    let tid = unsafe { libc::gettid() };
    let mut rows = Vec::new();
    let mut buffer = vec![0; MOST_BYTES];
    for number in first..first + count {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let begin = Instant::now();
        connection.write_all(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes())?;
        let mut length = 0;
        while !buffer.get(..length).is_some_and(|answer| answer.ends_with(END)) {
            let rest = buffer.get_mut(length..).context("too long an answer")?;
            let read = connection.read(rest)?;
            ensure!(read > 0, "request {number} has no answer");
            length += read;
        }
        ensure!(buffer.starts_with(b"HTTP/1.1 200"), "request {number} failed");
        rows.push(("client", number, u64::try_from(begin.elapsed().as_nanos())?, tid));
    }
    Ok(rows)
}

impl Clients {
    /// So many, each with so many requests at most.
    pub fn start(address: SocketAddr, clients: usize, requests: u64) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let begin = |number: usize| {
            let over = Arc::clone(&over);
            let first = (number as u64 + 1) * EACH;
            thread::spawn(move || client(address, first, requests.min(EACH), &over))
        };
        let threads = (0..clients).map(begin).collect();
        Self { over, threads }
    }

    /// Waits for all of them, and writes what they know into a folder, if one is named; how many requests they had answered.
    /// Errors: if a request fails.
    pub fn finish(self, folder: Option<&Path>) -> Result<u64> {
        let mut answered = 0;
        for (number, thread) in self.threads.into_iter().enumerate() {
            let rows = thread.join().map_err(|_| anyhow!("a client panicked"))??;
            answered += rows.len() as u64;
            if let Some(folder) = folder {
                fs::write(folder.join(format!("client.{number}")), serde_json::to_vec(&rows)?)?;
            }
        }
        Ok(answered)
    }

    /// Ends them; how many requests they had answered.
    /// Errors: if a request failed.
    pub fn stop(self) -> Result<u64> {
        self.over.store(true, Ordering::Relaxed);
        self.finish(None)
    }
}
