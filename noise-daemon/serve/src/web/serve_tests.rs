//! Many connections at once.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use tokio::task::{JoinSet, spawn_blocking};

use super::connections::MAX_CONNECTIONS;
use super::listen::Listeners;
use super::reload::Web;
use super::serve::{Costs, serve_with};
use super::traffic::Timeouts;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(REQUEST)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn start(tasks: &mut JoinSet<()>) -> SocketAddr {
    start_with(tasks, Timeouts::default())
}

fn start_with(tasks: &mut JoinSet<()>, timeouts: Timeouts) -> SocketAddr {
    let listener = Listeners::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.addresses().unwrap()[0];
    let router = Router::new()
        .route("/", get(async || "x".repeat(200_000)))
        .route("/short", get(async || "short"))
        .route("/long", get(async || "x".repeat(50_000_000)));
    tasks.spawn(serve_with(listener, router, Web::plain(), Costs::default(), timeouts));
    address
}

/// Requests what is short, and leaves the connection open.
fn ask_again(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"GET /short HTTP/1.1\r\nHost: x\r\n\r\n")?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"short") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        answer.extend(byte);
    }
    Ok(())
}

/// Reads until the connection ends, and says how much and when.
fn ending(mut stream: TcpStream) -> (usize, Duration) {
    let began = Instant::now();
    let mut rest = Vec::new();
    // However it ends.
    let _ = stream.read_to_end(&mut rest);
    (rest.len(), began.elapsed())
}

#[tokio::test]
async fn all_are_answered_however_many_they_are() {
    let mut server = JoinSet::new();
    let address = start(&mut server);
    let mut askers = JoinSet::new();
    for _ in 0..400 {
        askers.spawn_blocking(move || ask(address));
    }
    for answer in askers.join_all().await {
        let answer = answer.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.len() > 200_000, "{}", answer.len());
    }
}

#[tokio::test]
async fn root_and_the_daemons_user_wait_for_no_others_on_the_local_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let costs = Costs::default();
    // Others have had so much that all have to wait.
    costs.budget.charge(Duration::from_secs(60));
    costs.events.charge(Duration::from_secs(60));
    let router = Router::new().route("/", get(async || "x"));
    let mut server = JoinSet::new();
    server.spawn(serve_with(listener, router, Web::plain(), costs, Timeouts::default()));
    let asked = spawn_blocking(move || {
        let began = Instant::now();
        let mut stream = std::os::unix::net::UnixStream::connect(path)?;
        stream.write_all(REQUEST)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok::<_, std::io::Error>((answer, began.elapsed()))
    });
    let (answer, took) = asked.await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
async fn those_who_say_nothing_make_room() {
    let mut server = JoinSet::new();
    let address = start(&mut server);
    let asked = spawn_blocking(move || {
        let mut silent = Vec::new();
        for _ in 0..300 {
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(b"GET / HTTP/1.1\r\nX-Slow: ")?;
            silent.push(stream);
        }
        let answer = ask(address)?;
        // The first of them was hung up on.
        let mut rest = Vec::new();
        let ended = silent[0].read_to_end(&mut rest);
        Ok::<_, std::io::Error>((answer, ended.is_err() || rest.is_empty()))
    });
    let (answer, is_ended) = asked.await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && is_ended, "{answer:.100}");
}

#[tokio::test]
async fn a_connection_is_kept_for_longer_than_a_head_that_is_begun() {
    let mut server = JoinSet::new();
    let head = Duration::from_millis(300);
    let idle = Duration::from_secs(3);
    let address = start_with(&mut server, Timeouts { head, idle, ..Timeouts::default() });
    let asked = spawn_blocking(move || {
        let mut kept = TcpStream::connect(address)?;
        ask_again(&mut kept)?;
        sleep(2 * head);
        ask_again(&mut kept)?;
        kept.write_all(b"GET /short HTTP/1.1\r\nX-Slow: ")?;
        let begun = ending(kept);
        let silent = ending(TcpStream::connect(address)?);
        let mut unused = TcpStream::connect(address)?;
        ask_again(&mut unused)?;
        Ok::<_, std::io::Error>((begun, silent, ending(unused)))
    });
    let (begun, silent, unused) = asked.await.unwrap().unwrap();
    for (what, (bytes, after)) in [("begun", begun), ("silent", silent)] {
        assert!(bytes == 0 && after < idle, "{what}: {bytes} bytes, {after:?}");
    }
    assert!(unused.0 == 0 && unused.1 > idle / 2, "{unused:?}");
}

#[tokio::test]
async fn who_takes_nothing_of_an_answer_is_hung_up_on() {
    let mut server = JoinSet::new();
    // Long beside what a loaded machine adds to the pauses below.
    let stuck = Duration::from_secs(2);
    let address = start_with(&mut server, Timeouts { stuck, ..Timeouts::default() });
    let asked = spawn_blocking(move || {
        let ask = || -> std::io::Result<_> {
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(b"GET /long HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
            Ok(stream)
        };
        let slow = ask()?;
        // Who takes some now and then has the time that it needs.
        let mut steady = ask()?;
        for _ in 0..10 {
            sleep(stuck / 8);
            // As much as buffers hold back before they let the next bytes in.
            steady.read_exact(&mut vec![0; 4_000_000])?;
        }
        let steady = ending(steady).0 + 40_000_000;
        sleep(stuck);
        Ok::<_, std::io::Error>((ending(slow).0, steady))
    });
    let (slow, steady) = asked.await.unwrap().unwrap();
    assert!(slow < 50_000_000 && steady > 50_000_000, "{slow} and {steady} bytes");
}

#[tokio::test]
async fn who_reads_is_answered_beside_those_who_do_not() {
    let mut server = JoinSet::new();
    let address = start(&mut server);
    let asked = spawn_blocking(move || {
        let mut silent = Vec::new();
        for _ in 0..40 {
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(200))?;
            silent.push(stream);
        }
        let began = Instant::now();
        let answers = (0..10).map(|_| ask(address)).collect::<Result<Vec<_>, _>>()?;
        Ok::<_, std::io::Error>((answers, began.elapsed(), silent))
    });
    let (answers, took, _silent) = asked.await.unwrap().unwrap();
    assert!(answers.iter().all(|answer| answer.len() > 200_000));
    // No connection had to be hung up on for it.
    assert!(took < Timeouts::default().stuck, "{took:?}");
}

#[tokio::test]
async fn a_scraper_is_answered_where_all_connections_are_taken_by_those_who_do_not_read() {
    let mut server = JoinSet::new();
    // Time-outs do not end them.
    let timeouts = Timeouts { stuck: Duration::from_secs(3_600), ..Timeouts::default() };
    let address = start_with(&mut server, timeouts);
    let asked = spawn_blocking(move || {
        let mut silent = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(200))?;
            silent.push(stream);
        }
        let answer = ask(address)?;
        Ok::<_, std::io::Error>((answer, silent))
    });
    let (answer, _silent) = asked.await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.len() > 200_000, "{}", answer.len());
}
