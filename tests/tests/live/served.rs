//! Requests and connections by port, in recordings of ours: a server that knows when it got and answered each of them.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use noise_tests::daemon::run_noised;
use noise_tests::delays::clock_and_losses;
use noise_tests::recorded::counted;
use noise_tests::scratch::argument;
use noise_tests::task::monotonic_ns;
use serde_json::Value;

use crate::record::Recorder;
use crate::{INCONCLUSIVE, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("requests_on_a_port_are_those_of_its_server", requests_on_a_port_are_those_of_its_server),
    (
        "two_versions_of_a_server_are_compared_by_port",
        two_versions_of_a_server_are_compared_by_port,
    ),
    ("requests_that_overlap_are_counted", requests_that_overlap_are_counted),
];

/// Clients, each with a connection, and requests of each.
const CLIENTS: usize = 4;
const REQUESTS: usize = 25;
/// Threads that answer.
const WORKERS: usize = 3;
/// How long a worker sleeps for a request, in either version of the server.
const FAST: Duration = Duration::from_millis(1);
const SLOW: Duration = Duration::from_millis(4);
/// Bytes of a request and of an answer.
const BYTES: usize = 16;
/// Longer than a packet takes over the loopback.
const PAUSE: Duration = Duration::from_millis(1);

/// What a server knows of a request, ns.
#[derive(Clone, Copy, Debug)]
struct Answered {
    /// The thread that answered it.
    tid: i32,
    /// When its client began to send it, and when the server had read it.
    sent_ns: u64,
    read_ns: u64,
    /// When the server began to answer, and had done it.
    answers_ns: u64,
    answered_ns: u64,
}

/// A request on its way from the thread that read it to one that answers it.
struct Work {
    stream: TcpStream,
    sent_ns: u64,
    read_ns: u64,
    is_done: mpsc::Sender<()>,
}

fn tid() -> i32 {
    // SAFETY: no argument.
    unsafe { libc::gettid() }
}

/// Reads the requests of a connection in turn, and closes it.
fn read_all(mut stream: TcpStream, workers: &mpsc::Sender<Work>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut request = [0; BYTES];
    while stream.read_exact(&mut request).is_ok() {
        let read_ns = monotonic_ns()?;
        let sent_ns = u64::from_le_bytes(request[..8].try_into()?);
        let (is_done, done) = mpsc::channel();
        workers.send(Work { stream: stream.try_clone()?, sent_ns, read_ns, is_done })?;
        done.recv()?;
    }
    Ok(())
}

/// Answers what others read. An answer has two parts.
fn answer_all(works: &Mutex<mpsc::Receiver<Work>>, sleep: Duration) -> Result<Vec<Answered>> {
    let mut all = Vec::new();
    loop {
        let next = works.lock().map_err(|_| anyhow::anyhow!("a worker failed"))?.recv();
        let Ok(Work { mut stream, sent_ns, read_ns, is_done }) = next else { return Ok(all) };
        thread::sleep(sleep);
        stream.write_all(&[1; BYTES / 2])?;
        let answers_ns = monotonic_ns()?;
        stream.write_all(&[2; BYTES / 2])?;
        let answered_ns = monotonic_ns()?;
        all.push(Answered { tid: tid(), sent_ns, read_ns, answers_ns, answered_ns });
        drop(stream);
        is_done.send(())?;
    }
}

/// Serves so many connections.
fn serve(listener: &TcpListener, sleep: Duration, connections: usize) -> Result<Vec<Answered>> {
    let (sender, receiver) = mpsc::channel();
    let works = Arc::new(Mutex::new(receiver));
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let works = Arc::clone(&works);
            thread::spawn(move || answer_all(&works, sleep))
        })
        .collect();
    let mut readers = Vec::new();
    for _ in 0..connections {
        let (stream, _) = listener.accept()?;
        let sender = sender.clone();
        readers.push(thread::spawn(move || read_all(stream, &sender)));
    }
    drop(sender);
    for reader in readers {
        reader.join().ok().context("a reader failed")??;
    }
    let mut all = Vec::new();
    for worker in workers {
        all.extend(worker.join().ok().context("a worker failed")??);
    }
    all.sort_by_key(|one| (one.tid, one.answered_ns));
    Ok(all)
}

fn request() -> Result<[u8; BYTES]> {
    let mut request = [0; BYTES];
    request[..8].copy_from_slice(&monotonic_ns()?.to_le_bytes());
    Ok(request)
}

/// Sends requests one by one, each once the one before is answered.
fn ask(address: SocketAddr, requests: usize) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut answer = [0; BYTES];
    for _ in 0..requests {
        stream.write_all(&request()?)?;
        stream.read_exact(&mut answer)?;
    }
    stream.shutdown(Shutdown::Write)?;
    Ok(())
}

/// Records a server and its clients; what the server knows.
fn record(listener: &TcpListener, sleep: Duration) -> Result<(Recorder, Vec<Answered>)> {
    let address = listener.local_addr()?;
    let mut recorder = Recorder::start(&["--own", "--events", "sched,io,ipc"])?;
    let answered = thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CLIENTS).map(|_| scope.spawn(move || ask(address, REQUESTS))).collect();
        let answered = serve(listener, sleep, CLIENTS);
        for client in clients {
            client.join().ok().context("a client failed")??;
        }
        answered
    })?;
    recorder.stop(libc::SIGINT)?;
    ensure!(answered.len() == CLIENTS * REQUESTS, "{} were answered", answered.len());
    Ok((recorder, answered))
}

/// The executions of a recording, as JSON.
fn executions(recorder: &Recorder, execution: &str) -> Result<Value> {
    let path = argument(recorder.folder.path())?;
    let options = ["trace", "critical-path", "--json", "--execution", execution, path];
    let document: Value = run_noised(&options)?.json()?;
    let (discarded, tally) = (number(&document, "discarded")?, &document["delimiters"][0]);
    println!("{execution}: {discarded} events were lost; no executions: {tally}");
    ensure!(
        discarded == 0 && number(tally, "lost")? == 0,
        "{INCONCLUSIVE}: {discarded} events were lost"
    );
    Ok(document)
}

fn number(value: &Value, name: &str) -> Result<u64> {
    value.get(name).and_then(Value::as_u64).with_context(|| format!("no {name} in {value}"))
}

fn list<'v>(value: &'v Value, name: &str) -> Result<&'v Vec<Value>> {
    value.get(name).and_then(Value::as_array).with_context(|| format!("no {name}"))
}

fn requests_on_a_port_are_those_of_its_server() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let (recorder, answered) = record(&listener, FAST)?;
    let document = executions(&recorder, &format!("request:{port}"))?;
    let (offset_ns, _) = clock_and_losses(recorder.folder.path())?;
    let (events, _) = counted(recorder.folder.path())?;
    let has_arrivals = events.contains_key("sk_data_ready");
    let mut found = Vec::new();
    for traced in list(&document, "executions")? {
        let at =
            |name: &str| Ok::<_, anyhow::Error>(number(traced, name)?.saturating_sub(offset_ns));
        found.push((i32::try_from(number(traced, "tid")?)?, at("to_ns")?, at("from_ns")?));
    }
    found.sort_unstable();
    ensure!(found.len() == answered.len(), "{} of {} requests", found.len(), answered.len());
    let (mut early, mut waited_ns) = (0, 0);
    for ((tid, to_ns, from_ns), known) in found.iter().zip(&answered) {
        ensure!(*tid == known.tid, "{tid} answered, and not {known:?}");
        let begins = known.sent_ns..=known.read_ns;
        ensure!(begins.contains(from_ns), "it begins at {from_ns}: {known:?}");
        let ends = known.answers_ns..=known.answered_ns;
        ensure!(ends.contains(to_ns), "it ends at {to_ns}: {known:?}");
        early += usize::from(known.read_ns - from_ns > 0);
        waited_ns += known.read_ns - from_ns;
    }
    let mean_ns = waited_ns / found.len() as u64;
    println!(
        "{early} begin before they are read, {mean_ns} ns on average; arrivals: {has_arrivals}"
    );
    let tally = &document["delimiters"][0];
    for name in ["overlapping", "unfinished", "unbegun", "strangers", "momentary", "beyond"] {
        ensure!(number(tally, name)? == 0, "{name}: {tally}");
    }
    let document = executions(&recorder, &format!("connection:{port}"))?;
    let all = list(&document, "executions")?;
    ensure!(all.len() == CLIENTS, "{} of {CLIENTS} connections", all.len());
    // By conditions alone: each call that reads a request.
    let here = format!("port={port},process={}", std::process::id());
    let reads =
        format!("event:syscall_entry_recvfrom/{here}/..syscall_exit_recvfrom/{here},ret={BYTES}/");
    let document = executions(&recorder, &reads)?;
    let count = list(&document, "executions")?.len();
    // Both ends are of this process: the server's reads, and those of the clients that get all of an answer at once.
    ensure!(count >= answered.len(), "{count} reads of {} requests", answered.len());
    Ok(())
}

fn two_versions_of_a_server_are_compared_by_port() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let ((fast, _), (slow, _)) = (record(&listener, FAST)?, record(&listener, SLOW)?);
    let [normal, sample] = [&fast, &slow].map(|of| argument(of.folder.path()));
    let execution = format!("request:{port}");
    let options = ["trace", "compare", normal?, sample?, "--execution", &execution];
    println!("{}", run_noised(&options)?.printed()?);
    let document: Value = run_noised(&[&options[..], &["--json"]].concat())?.json()?;
    let lost = number(&document, "discarded")?;
    ensure!(lost == 0, "{INCONCLUSIVE}: {lost} events were lost");
    let both = &document["executions"];
    for side in ["normal", "sample"] {
        let count = list(both, side)?.len();
        ensure!(count == CLIENTS * REQUESTS, "{count} requests are {side}");
    }
    let effects = list(&document, "effects")?;
    let Some(first) = effects.first() else { bail!("no effect: {document}") };
    ensure!(effects.iter().any(|effect| effect["state"] == "timer"), "the first is {first}");
    let mean = |name: &str| first.get(name).and_then(Value::as_f64);
    println!("{:?} instead of {:?} ns", mean("sample_mean_ns"), mean("normal_mean_ns"));
    Ok(())
}

/// A client that asks once more before it has the answer.
fn requests_that_overlap_are_counted() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let mut recorder = Recorder::start(&["--own", "--events", "sched,io,ipc"])?;
    let client = thread::spawn(move || -> Result<()> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut answer = [0; BYTES];
        // One alone, two that overlap, one alone.
        for count in [1, 2, 1] {
            for _ in 0..count {
                stream.write_all(&request()?)?;
                thread::sleep(PAUSE);
            }
            for _ in 0..count {
                stream.read_exact(&mut answer)?;
            }
        }
        stream.shutdown(Shutdown::Write)?;
        Ok(())
    });
    let answered = serve(&listener, SLOW, 1)?;
    client.join().ok().context("the client failed")??;
    recorder.stop(libc::SIGINT)?;
    ensure!(answered.len() == 4, "{answered:?}");
    let (events, _) = counted(recorder.folder.path())?;
    if !events.contains_key("sk_data_ready") {
        println!("this kernel does not say when bytes arrive: overlaps are not seen");
        return Ok(());
    }
    let document = executions(&recorder, &format!("request:{}", address.port()))?;
    let found = list(&document, "executions")?.len();
    let overlapping = number(&document["delimiters"][0], "overlapping")?;
    ensure!((found, overlapping) == (2, 2), "{found} requests, {overlapping} overlap");
    let path = argument(recorder.folder.path())?;
    let execution = format!("request:{}", address.port());
    let page =
        run_noised(&["trace", "critical-path", "--execution", &execution, path])?.printed()?;
    ensure!(page.contains("2 overlapping"), "{page}");
    Ok(())
}
