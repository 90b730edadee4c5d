//! Daemons for tests: what they answer can be changed while they run.

#![expect(clippy::unwrap_used, reason = "all of this is for tests, which fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "as above")]

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use noise_wire::{CONTENT_TYPE, encode, sampled::small};

/// How often a thread looks whether it shall end, or answer.
const BREATH: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
pub enum Reply {
    /// This, whatever it is.
    Raw(Vec<u8>),
    Silence,
}

impl Reply {
    /// An answer as HTTP has it.
    pub fn of(status: u16, content_type: &str, body: &[u8]) -> Self {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n"
        );
        Self::Raw([head.as_bytes(), body].concat())
    }

    pub fn frame(seconds: i64) -> Self {
        Self::of(200, CONTENT_TYPE, &encode(&small(seconds)).unwrap())
    }
}

struct Shared {
    reply: Mutex<Reply>,
    ends: AtomicBool,
}

/// A daemon; it ends, with all its connections, when it is dropped.
pub struct Fake {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// As `--connect` takes it.
    pub name: String,
    socket: Option<PathBuf>,
}

impl Fake {
    /// One with a local socket.
    pub fn local(path: &Path, reply: Reply) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let accept = move || listener.accept().map(|(stream, _)| stream);
        let prepare = |stream: &UnixStream| {
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(BREATH))
        };
        let mut fake = Self::start(path.display().to_string(), reply, accept, prepare);
        fake.socket = Some(path.to_owned());
        fake
    }

    /// One with an address; port 0 is any.
    pub fn web(port: u16, reply: Reply) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let name = format!("http://{}", listener.local_addr().unwrap());
        let accept = move || listener.accept().map(|(stream, _)| stream);
        let prepare = |stream: &TcpStream| {
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(BREATH))
        };
        Self::start(name, reply, accept, prepare)
    }

    fn start<S: Read + Write + Send + 'static>(
        name: String,
        reply: Reply,
        accept: impl Fn() -> io::Result<S> + Send + 'static,
        prepare: impl Fn(&S) -> io::Result<()> + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared { reply: Mutex::new(reply), ends: AtomicBool::new(false) });
        let own = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let mut connections = Vec::new();
            while !own.ends.load(Ordering::Relaxed) {
                match accept() {
                    Ok(stream) => {
                        prepare(&stream).unwrap();
                        let own = Arc::clone(&own);
                        connections.push(thread::spawn(move || converse(stream, &own)));
                    }
                    Err(_) => thread::sleep(BREATH),
                }
            }
            connections.into_iter().for_each(|thread| thread.join().unwrap());
        });
        Self { shared, thread: Some(thread), name, socket: None }
    }

    /// Answers something else from now on.
    pub fn answer(&self, reply: Reply) {
        *self.shared.reply.lock().unwrap() = reply;
    }
}

fn converse(mut stream: impl Read + Write, shared: &Shared) {
    let mut asked = Vec::new();
    while !shared.ends.load(Ordering::Relaxed) {
        let mut some = [0; 1024];
        match stream.read(&mut some) {
            Ok(0) => return,
            Ok(count) => asked.extend_from_slice(&some[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
        if !asked.ends_with(b"\r\n\r\n") {
            continue;
        }
        let reply = shared.reply.lock().unwrap().clone();
        if let Reply::Raw(bytes) = reply {
            asked.clear();
            if stream.write_all(&bytes).is_err() || !bytes.starts_with(b"HTTP/1.1 ") {
                return;
            }
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        if let Some(path) = &self.socket {
            std::fs::remove_file(path).unwrap();
        }
    }
}

/// Runs as a user to whom file permissions apply.
pub fn as_unprivileged<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = thread::spawn(|| {
        // SAFETY: no memory argument; it holds for this thread only, which ends.
        unsafe { libc::setfsuid(65534) };
        run()
    });
    thread.join().unwrap()
}
