//! Sources against daemons, good and bad.

use std::fs::Permissions;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use noise_common::signals::Signal;
use noise_serve::{
    Costs, Listeners, LocalSocket, Refresh, ShownPages, SocketOptions, Viewer, Web, router, serve,
};
use noise_wire::{CONTENT_TYPE, MAX_FRAME_BYTES, WebClient, encode, sampled};
use tokio::sync::{mpsc, oneshot};

use super::fake::{Fake, Reply, as_unprivileged};
use super::remote::{ANSWER_TIMEOUT, Link as _};
use super::socket::SocketLink;
use super::{Fault, MAX_SMALL_BYTES, ask_socket, frame, over_http, over_socket, probe};
use crate::{FrameSource, News};

const INTERVAL: Duration = Duration::from_millis(20);
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// The daemon of that name.
fn open(name: &str) -> Box<dyn FrameSource> {
    match name.starts_with("http") {
        true => Box::new(over_http(name, INTERVAL, WebClient::default()).unwrap()),
        false => Box::new(over_socket(name.as_ref(), INTERVAL).unwrap()),
    }
}

#[test]
fn an_answer_that_is_read_as_it_comes_may_be_longer_than_a_frame() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let body = vec![7; MAX_FRAME_BYTES + 1];
    let daemon = Fake::local(&path, Reply::of(200, "x/x", &body));
    let mut link = SocketLink::with_timeout(path, TEST_TIMEOUT);
    let error = link.ask("/x").unwrap_err();
    assert!(matches!(error, Fault::TooLong { most: MAX_FRAME_BYTES, .. }), "{error}");
    assert!(error.to_string().ends_with("longer than 64 MiB, and noised sends no more than that"));
    let (status, mut read) = link.read("/x").unwrap();
    assert_eq!(
        (status, std::io::copy(&mut read, &mut std::io::sink()).unwrap()),
        (200, body.len() as u64)
    );
    // What is left of an answer is none of the next one.
    let (_, mut read) = link.read("/x").unwrap();
    std::io::Read::read_exact(&mut read, &mut [0; 5]).unwrap();
    drop(read);
    daemon.answer(Reply::of(404, "x/x", b"no"));
    assert_eq!(link.ask("/x").unwrap().body, b"no");
}

#[test]
fn what_is_too_long_is_refused_before_it_comes_where_it_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let endless = b"HTTP/1.1 200 X\r\ncontent-length: 5000000\r\n\r\n{".to_vec();
    let daemon = Fake::local(&path, Reply::Raw(endless.clone()));
    let begin = Instant::now();
    let error = ask_socket(&path, "/x", TEST_TIMEOUT).unwrap_err();
    assert!(matches!(error, Fault::TooLong { most: MAX_SMALL_BYTES, .. }), "{error}");
    let mut link = SocketLink::with_timeout(path.clone(), TEST_TIMEOUT);
    let (_, answer) = link.read("/x").unwrap();
    assert_eq!(answer.whole(4 << 20).unwrap_err().kind(), ErrorKind::FileTooLarge);
    assert!(begin.elapsed() < TEST_TIMEOUT, "{:?}", begin.elapsed());
    // One that does not say it.
    let chunk = [b"10\r\n".as_slice(), &[b'x'; 16], b"\r\n"].concat();
    let head = b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n";
    daemon.answer(Reply::Raw([head.as_slice(), &chunk.repeat(9), b"0\r\n\r\n"].concat()));
    for (most, is_taken) in [(144, true), (143, false)] {
        let (_, answer) = link.read("/x").unwrap();
        assert_eq!(answer.whole(most).is_ok(), is_taken, "{most}");
        let mut link = SocketLink::with_timeout(path.clone(), TEST_TIMEOUT).at_most(most as usize);
        assert_eq!(link.ask("/x").is_ok(), is_taken, "{most}");
    }
}

#[test]
fn an_answer_that_comes_a_byte_at_a_time_has_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let lie = move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
        let head = "HTTP/1.1 200 X\r\ncontent-length: 1000000\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        while stream.write_all(b" ").is_ok() {
            std::thread::sleep(INTERVAL);
        }
    };
    std::thread::spawn(lie);
    let link = SocketLink::with_timeout(path, TEST_TIMEOUT);
    let mut link = link.for_at_most(Duration::from_millis(300));
    let (_, mut read) = link.read("/x").unwrap();
    let error = std::io::copy(&mut read, &mut std::io::sink()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[test]
fn a_frame_that_is_asked_for_once_may_be_late() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let daemon = Fake::local(&path, Reply::Silence);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(ANSWER_TIMEOUT + Duration::from_millis(200));
            daemon.answer(Reply::frame(7));
        });
        assert_eq!(frame(&path).unwrap().time.as_second(), 7);
    });
}

/// The first frame's time, or trouble, of which this is true.
fn until(source: &mut dyn FrameSource, is_it: impl Fn(Result<i64, &str>) -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    let mut seen = Vec::new();
    while Instant::now() < deadline {
        let Some(news) = source.poll(Duration::from_millis(100)) else { continue };
        let said = match &news {
            News::Frame(frame) => Ok(frame.time.as_second()),
            News::Trouble(trouble) => Err(trouble.as_str()),
        };
        if is_it(said) {
            return;
        }
        seen.push(format!("{said:?}"));
    }
    seen.dedup();
    panic!("it did not come; there was {seen:#?}");
}

fn until_trouble(source: &mut dyn FrameSource, words: &str) {
    until(source, |said| said.is_err_and(|trouble| trouble.contains(words)));
}

fn until_frame(source: &mut dyn FrameSource, seconds: i64) {
    until(source, |said| said == Ok(seconds));
}

/// Whatever a daemon does, the view gets one message, and goes on when the daemon is well again.
fn survives(start: &dyn Fn(Reply) -> Fake) {
    let mut daemon = start(Reply::frame(1));
    let mut source = open(&daemon.name);
    assert_eq!(source.name(), daemon.name);
    until_frame(&mut *source, 1);

    let mut newer = encode(&sampled::small(2)).unwrap();
    newer[8] = 2;
    let damaged = &encode(&sampled::small(2)).unwrap()[..40];
    for (reply, words) in [
        (Reply::Raw(b"\x16\x03garbage\r\n\r\n".to_vec()), "is not noised"),
        (Reply::of(503, "text/plain", b""), "cannot answer now (status 503)"),
        (Reply::of(429, "text/plain", b""), "cannot answer now (status 429)"),
        (Reply::of(404, "text/plain", b"not found"), "is not noised"),
        (Reply::of(403, "text/html", b"no"), "not allowed"),
        (Reply::of(200, "text/html", b"<!doctype html>"), "is not noised"),
        (Reply::of(200, CONTENT_TYPE, &newer), "speaks protocol version 2, this noised speaks 1"),
        (Reply::of(200, CONTENT_TYPE, b"hello"), "is not noised"),
        (Reply::of(200, CONTENT_TYPE, damaged), "damaged"),
    ] {
        daemon.answer(reply);
        until_trouble(&mut *source, words);
    }
    // What was reported is not reported again.
    assert_eq!(source.poll(Duration::from_millis(700)), None);
    daemon.answer(Reply::frame(3));
    until_frame(&mut *source, 3);

    daemon.answer(Reply::Silence);
    until_trouble(&mut *source, "does not answer (waited 3 s)");
    daemon.answer(Reply::frame(4));
    until_frame(&mut *source, 4);

    drop(daemon);
    until_trouble(&mut *source, "no noised answers at");
    daemon = start(Reply::frame(5));
    until_frame(&mut *source, 5);
    source.set_interval(Duration::from_secs(3600));
    drop(daemon);
}

#[test]
fn a_local_daemon_may_do_what_it_likes() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("noised.sock");
    survives(&|reply| Fake::local(&path, reply));
}

#[test]
fn a_daemon_far_away_may_do_what_it_likes() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    survives(&|reply| Fake::web(port, reply));
}

#[test]
fn a_daemon_that_was_replaced_meanwhile_is_no_trouble() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("noised.sock");
    let daemon = Fake::local(&path, Reply::frame(1));
    let mut link = SocketLink::new(path.clone());
    assert_eq!(super::remote::ask(&mut link, 0), Ok(sampled::small(1)));
    drop(daemon);
    let _daemon = Fake::local(&path, Reply::frame(2));
    assert_eq!(super::remote::ask(&mut link, 0), Ok(sampled::small(2)));
}

/// The server of the daemon itself, on a socket and an address. The sample of its n-th answer has
/// the time n, and holds since when the longest delays were requested.
struct Server {
    connects: [String; 2],
    _end: oneshot::Sender<()>,
}

fn server(folder: &Path) -> Server {
    let path = folder.join("noised.sock");
    let options = SocketOptions { path: path.clone(), mode: 0o600, group: String::new() };
    let (ready, address) = std::sync::mpsc::channel();
    let (end, ended) = oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (_socket, local) = LocalSocket::bind(&options).await.unwrap();
            let web = Listeners::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
            ready.send(web.addresses().unwrap()[0]).unwrap();
            let (refresh, asked) = mpsc::channel(4);
            let router =
                router(Refresh(refresh), sampled::host(), Web::plain(), Costs::default(), 0, None);
            tokio::select! {
                () = serve(local, router.clone(), Web::plain(), Costs::default()) => {}
                () = serve(web, router, Web::plain(), Costs::default()) => {}
                () = collect(asked) => {}
                _ = ended => {}
            }
        });
    });
    let address = format!("http://{}", address.recv().unwrap());
    Server { connects: [path.display().to_string(), address], _end: end }
}

async fn collect(mut asked: mpsc::Receiver<Viewer>) {
    for at_ns in 1.. {
        let Some(Viewer { reply, since_ns }) = asked.recv().await else { return };
        let mut shown = ShownPages::default();
        let sample = Arc::make_mut(&mut shown.model.sample);
        sample.at_ns = at_ns;
        sample.waited = since_ns.map(|ns| (0, ns)).into_iter().collect();
        shown.overview.opened = vec![(Signal::RunqueueWait.into(), at_ns)];
        let _ = reply.send(Arc::new(shown));
    }
}

#[test]
fn the_daemon_shows_frames_on_both_its_ears() {
    let root = tempfile::tempdir().unwrap();
    let server = server(root.path());
    for connect in &server.connects {
        let mut source = open(connect);
        let mut before = 0;
        for _ in 0..3 {
            let Some(News::Frame(frame)) = source.poll(TEST_TIMEOUT) else { panic!("no frame") };
            assert!(frame.sample.at_ns > before);
            assert_eq!(frame.sample.waited, [(0, before)]);
            before = frame.sample.at_ns;
            assert_eq!(frame.overview.opened[0].1, before);
            assert_eq!(*frame.host, sampled::host());
            assert!(jiff::Timestamp::now().duration_since(frame.time).as_secs().abs() < 60);
        }
    }
}

#[test]
fn frames_are_not_packed_twice() {
    let root = tempfile::tempdir().unwrap();
    let server = server(root.path());
    let address = &server.connects[1];
    let get = |route: &str| {
        let request = ureq::get(format!("{address}{route}")).header("accept-encoding", "gzip");
        request.call().unwrap()
    };
    let frame = get("/api/v1/frame");
    assert_eq!(frame.headers()["content-type"], CONTENT_TYPE);
    assert!(frame.headers().get("content-encoding").is_none());
    let bad = ureq::get(format!("{address}/api/v1/frame?since=now")).call();
    assert!(matches!(bad, Err(ureq::Error::StatusCode(400))));
    assert_eq!(get("/").headers()["content-encoding"], "gzip");
}

#[test]
fn who_may_not_use_the_socket_reads_what_to_do() {
    let root = tempfile::tempdir().unwrap();
    std::fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
    let path = root.path().join("noised.sock");
    let _daemon = Fake::local(&path, Reply::frame(1));
    std::fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
    let denied = {
        let path: PathBuf = path.clone();
        as_unprivileged(move || probe(&path))
    };
    let Err(fault @ Fault::Denied { .. }) = denied else { panic!("{denied:?}") };
    let sentence = fault.to_string();
    assert!(sentence.contains("not allowed to use"), "{sentence}");
    assert!(sentence.contains("sudo"), "{sentence}");
}
