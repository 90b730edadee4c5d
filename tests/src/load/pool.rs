//! A pool of worker threads that answer requests.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::{Arguments, Session};
use crate::scenario::tiers::END;
use crate::task::{set_name, settle};

/// `pool <name> <cpu, or any> <port> <workers> <us>`: so many threads, all on that CPU, of which each accepts one connection
/// at a time, and computes so long for each request on it.
///
/// In a session, and so in an autogroup, of its own with one CPU: see `soak`.
pub(super) fn pool(arguments: &mut Arguments) -> Result<()> {
    // SAFETY: no memory argument. A child leads no session yet.
    ensure!(unsafe { libc::setsid() } >= 0, "setsid: {}", std::io::Error::last_os_error());
    set_name(&arguments.text()?)?;
    settle(&arguments.text()?)?;
    let port: u16 = arguments.number()?;
    let workers: u32 = arguments.number()?;
    let length = Duration::from_micros(arguments.number()?);
    let listener = TcpListener::bind(("127.0.0.1", port)).context("binding")?;
    for _ in 0..workers {
        let listener = listener.try_clone()?;
        thread::spawn(move || {
            while let Ok((connection, _)) = listener.accept() {
                // Its client is gone.
                let _ = answer(connection, length);
            }
        });
    }
    let session = Session::begin()?;
    while session.going() {
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn answer(mut connection: std::net::TcpStream, length: Duration) -> Result<()> {
    connection.set_nodelay(true)?;
    let mut buffer = [0; 4096];
    while connection.read(&mut buffer)? > 0 {
        let begin = Instant::now();
        while begin.elapsed() < length {
            std::hint::spin_loop();
        }
        connection.write_all(&[b"HTTP/1.1 200 OK\r\n\r\n", END].concat())?;
    }
    Ok(())
}
