//! What reads data of others, each as a function of bytes that panics where something is wrong.
//!
//! libFuzzer drives them (`cargo xtask fuzz`), and so does a test of the daemon, which changes the seeds
//! at random: the same functions find the same faults in both.

use std::fs::File;
use std::future::pending;
use std::io::{self, Cursor, Read, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use noise_host::kernel::{Facts, KernelBtf};
use noise_host::resolve::cgroup::{Identity, MAX_LABEL_BYTES, Mounts};
use noise_measure::DetourReport;
use noise_measure::detours::{CpuSummary, SourceShares, csv, text};
use noise_measure::osnoise::kernel::read_line;
use noise_measure::scale::{Noise, Trace};
use noise_model::Host;
use noise_paths::blame::Blame;
use noise_paths::build::{Builder, Waker};
use noise_paths::document::{PathsDocument as Paths, Traced, traced};
use noise_paths::execution::{Execution, Finder, Wanted, find as executions};
use noise_paths::feed;
use noise_paths::walk::{Bounds, walk};
use noise_serve::{
    Costs, Hosts, Listener, Peer, Refresh, ShownPages, Viewer, Web, WebFile, router, serve,
};
use noise_text::cpulist::CpuList;
use noise_trace::analysis::Analysis as _;
use noise_trace::ctf::{CtfReader, StreamFile, TraceLayout, metadata};
use noise_trace::delays::Delays;
use noise_trace::json;
use noise_trace::record::Source;
use noise_trace::text::TextLines;
use noise_wire::marks::Message;
use noise_wire::{Recording, decode, encode};

use noise_daemon::config::{Cpus, parse};
use noise_keep::file::read as read_kept;
use noise_keep::path::find as find_paths;
use noise_keep::replay::replay;
use noise_keep::state::Document;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc;

/// A target: its name, which is that of its folder of seeds, too, and what it does.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: &[Target] = &[
    ("http", http),
    ("config", config),
    ("web_file", web_file),
    ("frame", frame),
    ("recording", recording),
    ("state", state),
    ("btf", btf),
    ("tracer_line", tracer_line),
    ("cgroup", cgroup),
    ("report", report),
    ("cpu_list", cpu_list),
    ("tsdl", tsdl),
    ("packets", packets),
    ("ftrace", ftrace),
    ("mark", mark),
    ("execution", execution),
    ("paths", paths),
    ("kept", kept),
];

/// Most that the server may answer to a request of a few hundred bytes.
const MOST_ANSWERED: usize = 4 << 20;
/// The server hangs where an answer takes longer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A listener with one connection.
struct Once(Mutex<Option<DuplexStream>>);

impl Listener for Once {
    type Stream = DuplexStream;

    async fn next(&self) -> io::Result<(DuplexStream, Peer)> {
        let stream = self.0.lock().ok().and_then(|mut stream| stream.take());
        match stream {
            Some(stream) => Ok((stream, Peer::User(None))),
            None => pending().await,
        }
    }
}

/// A collector that has measured nothing.
async fn collect(mut asked: mpsc::Receiver<Viewer>) {
    while let Some(viewer) = asked.recv().await {
        let _ = viewer.reply.send(Arc::new(ShownPages::default()));
    }
}

/// Bytes on a connection to the server: it answers in HTTP or not at all, and ends.
pub fn http(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let answer = runtime.block_on(async {
        let (client, server) = tokio::io::duplex(64 * 1024);
        let (refresh, asked) = mpsc::channel(4);
        let (web, costs) = (Web::plain(), Costs::default());
        // As on loopback.
        web.set_hosts(Hosts::Known(Vec::new()));
        let router = router(Refresh(refresh), Host::default(), web.clone(), costs.clone(), 0, None);
        let (mut reader, mut writer) = tokio::io::split(client);
        let exchange = async {
            let send = async {
                // The server may hang up before everything is sent.
                let _ = writer.write_all(bytes).await;
                let _ = writer.shutdown().await;
            };
            let mut answer = Vec::new();
            let receive = async {
                let _ = (&mut reader).take(MOST_ANSWERED as u64 + 1).read_to_end(&mut answer).await;
            };
            tokio::join!(send, receive);
            answer
        };
        tokio::select! {
            answer = tokio::time::timeout(TIMEOUT, exchange) => answer.expect("the server hangs"),
            () = serve(Once(Mutex::new(Some(server))), router, web, costs) => {
                unreachable!("it serves for ever")
            }
            () = collect(asked) => unreachable!("the router holds the other end"),
        }
    });
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "no HTTP: {answer:?}");
    // Every request of a pipeline is answered, so that many bytes may be asked for many pages.
    assert!(answer.len() <= MOST_ANSWERED, "{} bytes", answer.len());
}

/// A configuration file, and what it says put to use.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match parse(text, Path::new("noised.toml")) {
        Ok(config) => {
            let _ = config.osnoise.duty();
            let _ = config.limits.limits();
            let _ = config.socket.options();
            let _ = config.measured();
        }
        Err(error) => {
            let message = format!("{error:#}");
            assert!(message.contains("noised.toml"), "does not name the file: {message}");
            // A line is quoted, and no more than a line.
            assert!(message.len() <= 4096 + bytes.len() * 8, "{} bytes of words", message.len());
        }
    }
}

/// A web file: TLS, users and headers.
pub fn web_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = WebFile::parse(text, Path::new("web.yml")) {
        let message = format!("{error:#}");
        assert!(message.contains("web.yml"), "does not name the file: {message}");
        assert!(!message.contains('\n'), "more than a sentence: {message}");
    }
}

/// How frames begin: which kind of thing it is, and its version.
const FRAME_HEAD: &[u8] = b"NOISEDfr\x01\0";
/// How recordings begin.
const RECORDING_HEAD: &[u8] = b"NOISEDre\x01\0";

/// A frame from a daemon or a file: as it comes, and as what unpacks to these bytes.
pub fn frame(bytes: &[u8]) {
    read_frame(bytes);
    let mut packed = FRAME_HEAD.to_vec();
    packed.extend(zstd::encode_all(bytes, 1).expect("memory"));
    read_frame(&packed);
}

fn read_frame(bytes: &[u8]) {
    if let Ok(frame) = decode(bytes) {
        let again = encode(&frame).expect("what was read can be written");
        let again = decode(&again).expect("what was written can be read");
        // Not-a-number is not equal to itself.
        assert_eq!(format!("{frame:?}"), format!("{again:?}"));
    }
}

/// A nameless file with these bytes.
fn memory_file(bytes: &[u8]) -> File {
    // SAFETY: the name is NUL-terminated and read during the call only.
    let descriptor = unsafe { libc::memfd_create(c"noised-fuzz".as_ptr(), 0) };
    assert!(descriptor >= 0, "memfd_create: {}", io::Error::last_os_error());
    // SAFETY: a descriptor that was just opened and that nothing else owns.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all(bytes).expect("a file in memory");
    file
}

/// A recording and all its frames: as it comes, and with records around two parts of these bytes.
pub fn recording(bytes: &[u8]) {
    read_recording(bytes);
    let (host, frame) = bytes.split_at(bytes.len() / 2);
    let mut file = RECORDING_HEAD.to_vec();
    for record in [host, frame] {
        file.extend(u32::try_from(record.len()).unwrap_or(u32::MAX).to_le_bytes());
        file.extend(crc32fast::hash(record).to_le_bytes());
        file.extend(record);
    }
    read_recording(&file);
}

fn read_recording(bytes: &[u8]) {
    let file = memory_file(bytes);
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    if let Ok(recording) = Recording::open(Path::new(&path)) {
        assert!(recording.len() <= bytes.len(), "more frames than bytes");
        let _ = recording.warning();
        for index in 0..recording.len() {
            let _ = recording.frame(index);
        }
    }
}

/// A state file.
pub fn state(bytes: &[u8]) {
    if let Ok(document) = Document::parse(bytes) {
        let text = document.text().expect("what was read can be written");
        Document::parse(&text).expect("what was written can be read");
    }
}

/// The kernel's type information.
pub fn btf(bytes: &[u8]) {
    let file = memory_file(bytes);
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    if let Ok(btf) = KernelBtf::read(Path::new(&path)) {
        let _ = Facts::learn(&btf);
        let _ = btf.offset("task_struct", "cgroups.dfl_cgrp.kn.id");
        let _ = btf.tracepoint_arguments("sched_switch");
    }
}

/// Lines of the kernel's osnoise tracer.
pub fn tracer_line(bytes: &[u8]) {
    for line in bytes.split(|&byte| byte == b'\n') {
        let _ = read_line(line);
    }
}

/// Where cgroups are mounted, and how they are named.
pub fn cgroup(bytes: &[u8]) {
    use std::os::unix::ffi::OsStrExt as _;
    let mounts = Mounts::parse(bytes);
    let _ = mounts.layout();
    let identity = Identity::of(Path::new(std::ffi::OsStr::from_bytes(bytes)));
    assert!(!identity.label.is_empty(), "a label without a character");
    assert!(identity.label.len() <= MAX_LABEL_BYTES, "a label of {} bytes", identity.label.len());
    let steers = |character: char| character.is_control();
    assert!(!identity.label.contains(steers), "a label that steers a terminal: {identity:?}");
}

/// A report of a bench, and what is made of it.
pub fn report(bytes: &[u8]) {
    let Ok(document) = std::str::from_utf8(bytes) else { return };
    if let Ok(report) = DetourReport::parse(document) {
        let _ = (report.measured_ns(), text(&report), csv(&report), SourceShares::of(&report));
        let _ = CpuSummary::of_all(&report);
        let _ = Trace::new(&report, None).map(|trace| trace.node(Noise::All));
    }
}

/// A list of CPUs.
pub fn cpu_list(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(list) = text.parse::<CpuList>() {
        let again: CpuList = list.to_string().parse().expect("what was written can be read");
        assert_eq!(list, again);
    }
    let _ = Cpus::try_from(text.to_owned());
}

/// Events that a trace of a few thousand bytes may have: one for each bit of it, and what was lost.
fn most_events(bytes: &[u8]) -> usize {
    16 * bytes.len() + 16
}

/// All events of a trace, their fields in both forms, and what they say of delays.
fn events(mut source: impl Source, most: usize) {
    let (mut text, mut delays) = (TextLines::new("host"), Delays::default());
    let (mut line, mut count, mut last_ns) = (String::new(), 0, 0);
    while let Some(record) = source.read() {
        line.clear();
        text.write(&record, &mut line);
        json::line(&record, &mut line);
        assert!(record.time_ns >= last_ns, "time goes back");
        last_ns = record.time_ns;
        delays.follow(&record.event());
        count += 1;
        assert!(count <= most, "more events than bits");
    }
    let document = delays.finish(|_| true, None);
    for thread in &document.threads {
        let waited = thread.waits.wakeup.sum_ns.saturating_add(thread.waits.preempt.sum_ns);
        let charged =
            thread.charges.iter().fold(0, |sum: u64, charge| sum.saturating_add(charge.ns));
        assert_eq!(waited, charged, "the parts of a wait do not sum to it");
    }
    let damage = source.damage();
    assert_eq!(damage.is_none(), damage.to_string().is_empty());
}

/// Metadata, and behind a zero the bytes of a stream.
pub fn tsdl(bytes: &[u8]) {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (text, stream) = bytes.split_at(end);
    let Ok(text) = metadata::text(text) else { return };
    let Ok(layout) = TraceLayout::parse(&text) else { return };
    let file = StreamFile::held("channel0_0", stream.get(1..).unwrap_or_default());
    events(CtfReader::new(&layout, &[file]), most_events(bytes));
}

/// Bytes of a stream whose layout has a field of each type; as metadata in packets, too.
pub fn packets(bytes: &[u8]) {
    let _ = metadata::text(bytes);
    let layout = TraceLayout::parse(include_str!("../layout.tsdl")).unwrap();
    let (one, other) = bytes.split_at(bytes.len() / 2);
    let files = [("channel0_0", one), ("channel0_1", other), ("channel1_1", bytes)];
    let files = files.map(|(name, bytes)| StreamFile::held(name, bytes));
    events(CtfReader::new(&layout, &files), 2 * most_events(bytes));
}

/// The text of ftrace.
pub fn ftrace(bytes: &[u8]) {
    events(noise_trace::ftrace::FtraceReader::new(bytes), most_events(bytes));
}

/// A datagram to the mark socket.
pub fn mark(bytes: &[u8]) {
    match Message::parse(bytes) {
        Ok(message) => {
            let text = message.to_string();
            let again = Message::parse(text.as_bytes()).expect("what was read can be sent");
            let known = |message: &Message<'_>| message.monotonic_ns.unwrap_or(0);
            assert_eq!(known(&again), known(&message));
            let rest = Message { monotonic_ns: None, ..message };
            assert_eq!(Message { monotonic_ns: None, ..again }, rest);
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "more than a sentence: {error}"),
    }
}

/// What an execution is.
pub fn execution(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match text.parse::<Wanted>() {
        Ok(wanted) => drop(Finder::new(&wanted, 0)),
        Err(error) => assert!(error.to_string().len() <= 512 + 4 * text.len(), "{error}"),
    }
}

/// The parts of a path follow on each other and sum to the execution, and those for whom it waits to its parts.
fn ensure_sums(traced: &Traced) {
    let mut at_ns = traced.from_ns;
    for segment in &traced.path {
        assert_eq!(segment.from_ns, at_ns, "a gap: {traced:?}");
        at_ns = segment.to_ns;
        let culprits = segment.culprits.iter().map(|culprit| culprit.ns);
        let sum = culprits.fold(0, u64::saturating_add);
        assert!(
            segment.culprits.is_empty() || sum == segment.to_ns - segment.from_ns,
            "culprits do not sum to their part: {segment:?}"
        );
    }
    assert_eq!(at_ns, traced.to_ns, "it ends early: {traced:?}");
    let totals = traced.totals_ns.values().fold(0, |sum: u64, ns| sum.saturating_add(*ns));
    assert_eq!(totals, traced.span_ns, "totals do not sum to it: {traced:?}");
}

/// What executions are, and behind a zero the text of ftrace, in whose events their paths and those of all its threads
/// are found.
pub fn paths(bytes: &[u8]) {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (wanted, text) = bytes.split_at(end);
    let text = text.get(1..).unwrap_or_default();
    let wanted = std::str::from_utf8(wanted).ok().and_then(|text| text.parse::<Wanted>().ok());
    let reader = || noise_trace::ftrace::FtraceReader::new(text);
    let mut builder = Builder::new(Waker::Waking);
    let mut finder = wanted.as_ref().and_then(|wanted| Finder::new(wanted, 0));
    let mut events = reader();
    while let Some(record) = events.read() {
        let event = record.event();
        feed::follow(&mut builder, 0, &record, &event);
        if let Some(finder) = &mut finder {
            finder.follow(&record, &event, &builder);
        }
    }
    let graph = builder.graph();
    let whole = |(worker, of): (_, &noise_paths::graph::Worker)| {
        let (from_ns, to_ns) = of.span()?;
        Some(Execution { worker, from_ns, to_ns, has_begin: false, has_end: false })
    };
    let mut all: Vec<Execution> = graph.workers().filter_map(whole).take(64).collect();
    all.extend(wanted.iter().flat_map(|wanted| executions(graph, wanted)));
    let found = finder.map(|finder| finder.finish(graph).0).unwrap_or_default();
    all.extend(found.into_iter().map(|one| one.execution));
    let mut document = Paths::default();
    for execution in all {
        let Execution { worker, from_ns, to_ns, .. } = execution;
        let Some(path) = walk(graph, worker, from_ns, to_ns, Bounds::default()) else { continue };
        // It begins and ends with what is known of the worker.
        let (first_ns, last_ns) = graph.get(worker).and_then(|of| of.span()).unwrap_or_default();
        let (from_ns, to_ns) = (from_ns.max(first_ns), to_ns.min(last_ns));
        assert_eq!(path.fault(worker, from_ns, to_ns), None);
        document.executions.push(traced(graph, "any", &execution, &path));
    }
    let mut blame = Blame::new(&document, Delays::of_turns());
    let mut events = reader();
    while let Some(record) = events.read() {
        blame.follow(&record.event(), &mut document);
    }
    blame.finish(&mut document);
    document.executions.iter().for_each(ensure_sums);
}

/// A file of the kernel events that were kept of an incident: as it comes, and as what unpacks to these bytes.
pub fn kept(bytes: &[u8]) {
    find_kept(bytes);
    find_kept(&zstd::encode_all(bytes, 1).expect("memory"));
}

fn find_kept(file: &[u8]) {
    let open = || -> io::Result<Box<dyn Read>> { Ok(Box::new(Cursor::new(file.to_vec()))) };
    let found = match find_paths(&open) {
        Ok(found) => found,
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "more than a sentence: {error}");
            return;
        }
    };
    found.document.executions.iter().for_each(ensure_sums);
    let steers = |character: char| character.is_control();
    assert!(!found.sentences.iter().any(|text| text.contains(steers)), "{:?}", found.sentences);
    let (_, about) = read_kept(file, |_, _| {}).expect("it was read before");
    let replayed = replay(file, &about, 0..=u64::MAX, [0; 16]).expect("it was read before");
    TraceLayout::parse(&replayed.metadata).expect("metadata of ours");
}
