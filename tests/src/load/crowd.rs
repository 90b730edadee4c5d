//! A crowd that talks: groups of threads in which each sender writes to each receiver, as in the kernel's
//! benchmark of messaging. More of them can run than there are CPUs, and turns are short.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use anyhow::Result;

use super::{Arguments, Session, report};
use crate::task::settle;

/// Senders, and receivers, of one group.
const MEMBERS: usize = 20;
/// Length of a message, bytes.
const MESSAGE: usize = 100;
/// Memory of a thread, bytes.
const STACK: usize = 64 << 10;

fn member(work: impl FnOnce() -> u64 + Send + 'static) -> Result<JoinHandle<u64>> {
    Ok(thread::Builder::new().stack_size(STACK).spawn(work)?)
}

/// `crowd <cpus> <groups>`: so many groups on these CPUs.
pub(super) fn crowd(arguments: &mut Arguments) -> Result<()> {
    settle(&arguments.text()?)?;
    let groups: usize = arguments.number()?;
    let session = Session::begin()?;
    let mut members = Vec::new();
    for _ in 0..groups {
        let mut ends = Vec::with_capacity(MEMBERS);
        for _ in 0..MEMBERS {
            let (to, mut from) = UnixStream::pair()?;
            ends.push(to);
            members.push(member(move || {
                let mut message = [0; MESSAGE];
                // The end comes when all senders are gone.
                while from.read_exact(&mut message).is_ok() {}
                0
            })?);
        }
        let ends = Arc::new(ends);
        for _ in 0..MEMBERS {
            let (ends, session) = (Arc::clone(&ends), session.clone());
            members.push(member(move || {
                let mut sent = 0;
                while session.going() {
                    for mut end in ends.iter() {
                        sent += u64::from(end.write_all(&[1; MESSAGE]).is_ok());
                    }
                }
                sent
            })?);
        }
    }
    let sent: u64 = members.into_iter().filter_map(|member| member.join().ok()).sum();
    report(&format!("sent {sent}"))
}
