//! A program that states what it does.

use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::{Arguments, report};
use crate::task::monotonic_ns;

/// `marks <socket> <count>`: so many executions of `query`, each with its number as key, its times and the thread,
/// then one of `plain` without all that; then it ends. It has one thread.
pub(super) fn marks(arguments: &mut Arguments) -> Result<()> {
    let socket = arguments.text()?;
    let count: usize = arguments.number()?;
    let sender = UnixDatagram::unbound()?;
    sender.connect(socket)?;
    report("ready")?;
    let tid = std::process::id();
    for key in 0..count {
        let from_ns = monotonic_ns()?;
        sender.send(format!("begin query {key} {from_ns} {tid}").as_bytes())?;
        thread::sleep(Duration::from_millis(3));
        let to_ns = monotonic_ns()?;
        sender.send(format!("end query {key} {to_ns} {tid}").as_bytes())?;
        thread::sleep(Duration::from_millis(1));
        report(&format!("from-{key} {from_ns}"))?;
        report(&format!("to-{key} {to_ns}"))?;
    }
    sender.send(b"begin plain")?;
    thread::sleep(Duration::from_millis(3));
    sender.send(b"end plain")?;
    // It lives until the recording has seen who it is.
    thread::sleep(Duration::from_millis(50));
    Ok(())
}
