//! Answers that do not come: a thread sent something by a UDP socket that is connected to a server, and waits to receive from
//! there until a timer ends that, or still does.
//!
//! Two things have to be seen: the sleep began behind a packet that the thread sent ([`Sends`](super::sends::Sends)) and no
//! packet ended it; and where the thread sleeps at the moment is a call that receives from that socket, or polls it alone. A
//! program that sends and then sleeps on a timer of its own does the first, and not the second. Of calls that wait for many
//! files (`epoll_wait`, `select`) it is not known. Where a thread slept all of the time, nothing of what it sent is seen: then
//! it has to wait for a name server, of which nothing else comes than answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::IoSliceMut;
use std::net::SocketAddr;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use noise_paths::account::{ASLEEP, Alone, Member};
use noise_trace::ipc::Connection;

use super::places::{Seen, see};

/// The protocol of UDP.
const UDP: u32 = 17;
/// The port of name servers.
const NAMES: u16 = 53;
/// Who gives up earlier looks again soon: the answer may come then. What is waited for less long may come at any time.
const LEAST_OVER_NS: u64 = 200_000_000;
const LEAST_OPEN_NS: u64 = 1_000_000_000;
/// Calls that wait for files; newer architectures have one of them.
#[cfg(target_arch = "x86_64")]
const POLLS: [i64; 2] = [libc::SYS_poll, libc::SYS_ppoll];
#[cfg(not(target_arch = "x86_64"))]
const POLLS: [i64; 1] = [libc::SYS_ppoll];
/// Files of one poll that are looked at, and the bytes of each: descriptor, and events.
const MOST_POLLED: u64 = 4;
const POLLED_BYTES: usize = 8;

/// A sleep that began behind a packet that was sent, and that no packet and no thread ended, ns by how it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unanswered {
    /// A timer ended it.
    pub over_ns: u64,
    pub open_ns: u64,
}

/// What threads slept behind a packet that they sent, by their ids: `is_behind` says of which sleeps that is so.
pub fn unanswered(
    alone: &[Alone],
    is_behind: impl Fn(i32, u64) -> bool,
) -> BTreeMap<i32, Unanswered> {
    let mut all: BTreeMap<i32, Unanswered> = BTreeMap::new();
    for sleep in alone.iter().filter(|sleep| is_behind(sleep.tid, sleep.since_ns)) {
        let (slept_ns, ns) =
            (sleep.to_ns.saturating_sub(sleep.since_ns), sleep.to_ns.saturating_sub(sleep.from_ns));
        let waited = match sleep.is_over {
            true if slept_ns >= LEAST_OVER_NS => Unanswered { over_ns: ns, open_ns: 0 },
            false if slept_ns >= LEAST_OPEN_NS => Unanswered { over_ns: 0, open_ns: ns },
            _ => continue,
        };
        all.entry(sleep.tid).or_default().add(waited);
    }
    all
}

/// Threads that slept for all of a time, ns, that is as long as an answer is waited for in vain.
pub fn asleep_throughout(threads: &[Member], span_ns: u64) -> BTreeMap<i32, u64> {
    let is_long = span_ns >= LEAST_OPEN_NS;
    let slept = threads.iter().filter(|one| is_long && one.ns(ASLEEP) >= span_ns);
    slept.map(|one| (one.tid, span_ns)).collect()
}

impl Unanswered {
    pub const fn ns(self) -> u64 {
        self.over_ns.saturating_add(self.open_ns)
    }

    /// Adds such a sleep.
    pub const fn add(&mut self, other: Self) {
        self.over_ns = self.over_ns.saturating_add(other.over_ns);
        self.open_ns = self.open_ns.saturating_add(other.open_ns);
    }
}

/// A server that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silent {
    /// Where it was asked.
    pub address: SocketAddr,
    /// Whether that is on this host.
    pub is_here: bool,
    /// How long threads waited.
    pub waited: Unanswered,
}

/// What a call waits for, by the file `syscall` of a thread: descriptors of files that it receives from, the addresses of
/// those that it polls are read by `polled`.
fn received(text: &str, polled: impl Fn(u64, u64) -> Option<Vec<i32>>) -> Option<Vec<i32>> {
    let mut words = text.split_ascii_whitespace();
    let call: i64 = words.next()?.parse().ok()?;
    let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (first, second) = (argument()?, argument()?);
    match call {
        libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_recvmmsg | libc::SYS_read => {
            Some(vec![i32::try_from(first).ok()?])
        }
        call if POLLS.contains(&call) && (1..=MOST_POLLED).contains(&second) => {
            polled(first, second)
        }
        _ => None,
    }
}

/// The descriptors in a process's memory that a poll is about.
fn polled(pid: i32, address: u64, count: u64) -> Option<Vec<i32>> {
    let mut bytes = vec![0; usize::try_from(count).ok()? * POLLED_BYTES];
    let remote = RemoteIoVec { base: usize::try_from(address).ok()?, len: bytes.len() };
    let length = bytes.len();
    let read = process_vm_readv(Pid::from_raw(pid), &mut [IoSliceMut::new(&mut bytes)], &[remote]);
    if read != Ok(length) {
        return None;
    }
    let descriptor = |one: &[u8]| Some(i32::from_ne_bytes(one.get(..4)?.try_into().ok()?));
    bytes.chunks_exact(POLLED_BYTES).map(descriptor).collect()
}

/// The inode of a socket that a thread has open.
fn inode(tid: i32, descriptor: i32) -> Option<u32> {
    let name = fs::read_link(format!("/proc/{tid}/fd/{descriptor}")).ok()?;
    name.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The sockets that a thread waits to receive from, by its file `syscall`; none where it waits for another file as
/// well, or does something else.
pub fn waits_at(text: &str, (tid, pid): (i32, i32)) -> Vec<u32> {
    let descriptors = received(text, |address, count| polled(pid, address, count));
    let inodes = descriptors.unwrap_or_default().into_iter().map(|one| inode(tid, one));
    inodes.collect::<Option<Vec<u32>>>().unwrap_or_default()
}

/// The sockets that each of these threads, which come with their processes, waits to receive from; of a thread that mostly
/// does something else, none.
pub fn look(threads: &BTreeSet<(i32, i32)>) -> Seen<Vec<u32>> {
    let mut seen = see("syscall", threads, |text, who| {
        (!text.starts_with("running")).then(|| waits_at(text, who))
    });
    seen.of.retain(|_, inodes| !inodes.is_empty());
    seen
}

/// Whether one of these sockets is connected to a name server.
pub fn asks_names(inodes: &BTreeSet<u32>, sockets: &[Connection]) -> bool {
    let is_its = |socket: &Connection| {
        socket.protocol == UDP && socket.remote.port() == NAMES && inodes.contains(&socket.inode)
    };
    sockets.iter().any(is_its)
}

/// The servers that threads wait for, by the sockets that they wait at. Those that slept throughout, for so long, ns, are
/// beside those that are known to have sent something.
pub fn silent(
    (unanswered, throughout): (&BTreeMap<i32, Unanswered>, &BTreeMap<i32, u64>),
    waits_at: &BTreeMap<i32, Vec<u32>>,
    sockets: &[Connection],
) -> Vec<Silent> {
    let udp = || sockets.iter().filter(|socket| socket.protocol == UDP);
    let connected = udp().filter(|socket| socket.remote.port() != 0 && socket.inode != 0);
    let remotes: BTreeMap<u32, SocketAddr> =
        connected.map(|socket| (socket.inode, socket.remote)).collect();
    let is_here = |remote: &SocketAddr| {
        remote.ip().is_loopback() || udp().any(|socket| socket.local.ip() == remote.ip())
    };
    let mut found: BTreeMap<SocketAddr, Unanswered> = BTreeMap::new();
    for (tid, inodes) in waits_at {
        let remotes: Option<Vec<SocketAddr>> =
            inodes.iter().map(|inode| remotes.get(inode).copied()).collect();
        let first = remotes.as_ref().and_then(|remotes| remotes.first());
        let Some(remote) = first else { continue };
        let of_names = throughout.get(tid).filter(|_| remote.port() == NAMES);
        let of_names = of_names.map(|ns| Unanswered { over_ns: 0, open_ns: *ns });
        if let Some(waited) = unanswered.get(tid).copied().or(of_names) {
            found.entry(*remote).or_default().add(waited);
        }
    }
    let silent = |(address, waited)| Silent { address, is_here: is_here(&address), waited };
    let mut found: Vec<Silent> = found.into_iter().map(silent).collect();
    found.sort_by_key(|one| std::cmp::Reverse(one.waited.ns()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_say_what_is_received_from() {
        let of = |call: i64, arguments: &str| {
            received(&format!("{call} {arguments} 0x0 0x7ffc 0x7f"), |address, count| {
                Some(vec![i32::try_from(address).unwrap(); usize::try_from(count).unwrap()])
            })
        };
        assert_eq!(of(libc::SYS_recvfrom, "0x5 0x7f00 0x40"), Some(vec![5]));
        assert_eq!(of(libc::SYS_ppoll, "0x9 0x2 0x1388"), Some(vec![9, 9]));
        for (call, arguments) in [
            (libc::SYS_ppoll, "0x9 0x5 0x1388"),
            (libc::SYS_ppoll, "0x0 0x0 0x1388"),
            (libc::SYS_epoll_pwait, "0x5 0x7f00 0x40"),
            (libc::SYS_clock_nanosleep, "0x0 0x0 0x7f00"),
        ] {
            assert_eq!(of(call, arguments), None, "{call}");
        }
        assert_eq!(received("-1 0x7ffc 0x7f", |_, _| None), None);
        assert_eq!(received("", |_, _| None), None);
    }

    #[test]
    fn memory_of_a_process_says_what_it_polls() {
        let polled = [[5_i32, 1], [6, 1]];
        let own = std::process::id().cast_signed();
        let address = polled.as_ptr() as u64;
        assert_eq!(super::polled(own, address, 2), Some(vec![5, 6]));
        assert_eq!(super::polled(own, 8, 1), None);
    }

    #[test]
    fn short_sleeps_are_not_waited_in_vain() {
        let alone = |tid, since_ms: u64, to_ms: u64, is_over| {
            let (since_ns, to_ns) = (since_ms * 1_000_000, to_ms * 1_000_000);
            Alone { tid, since_ns, from_ns: since_ns.max(2_000_000_000), to_ns, is_over }
        };
        let sleeps = [
            alone(7, 1_500, 2_500, true),
            alone(7, 2_600, 2_650, true),
            alone(7, 3_000, 4_000, false),
            alone(8, 3_500, 4_000, false),
            // It sent nothing before.
            alone(9, 1_500, 2_500, true),
        ];
        let found = unanswered(&sleeps, |tid, _| tid != 9);
        let expected = Unanswered { over_ns: 500_000_000, open_ns: 1_000_000_000 };
        assert_eq!(found, [(7, expected)].into());
    }

    fn udp(inode: u32, local: &str, remote: &str) -> Connection {
        let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
        Connection { inode, protocol: UDP, local, remote, namespace: 1 }
    }

    #[test]
    fn who_waits_at_a_connected_socket_waits_for_its_other_end() {
        let sockets = [
            udp(20, "127.0.0.1:40000", "127.0.0.1:53"),
            udp(21, "10.0.0.1:40001", "192.0.2.7:53"),
            udp(22, "0.0.0.0:53", "0.0.0.0:0"),
            Connection { protocol: 6, ..udp(23, "10.0.0.1:40001", "192.0.2.7:53") },
            udp(24, "10.0.0.1:40002", "192.0.2.7:5004"),
        ];
        let waited = |over_ns, open_ns| Unanswered { over_ns, open_ns };
        let all = [(7, waited(10, 5)), (8, waited(20, 0)), (9, waited(1, 0)), (10, waited(2, 0))];
        let of = |at: &[(i32, Vec<u32>)]| {
            let at = at.iter().cloned().collect();
            let throughout = [(12, 1_000), (13, 1_000)].into();
            let found = silent((&all.into(), &throughout), &at, &sockets);
            let row = |one: Silent| (one.address.to_string(), one.is_here, one.waited);
            found.into_iter().map(row).collect::<Vec<_>>()
        };
        let here = ("127.0.0.1:53".to_owned(), true, waited(30, 5));
        let away = ("192.0.2.7:53".to_owned(), false, waited(1, 0));
        assert_eq!(of(&[(7, vec![20]), (8, vec![20]), (9, vec![21])]), [here, away]);
        // One that slept throughout waits for a name server, or it is not known for what.
        let names = ("192.0.2.7:53".to_owned(), false, waited(0, 1_000));
        assert_eq!(of(&[(12, vec![21])]), [names]);
        assert_eq!(of(&[(13, vec![24])]), []);
        assert!(asks_names(&[20, 23].into(), &sockets) && !asks_names(&[23, 24].into(), &sockets));
        // A server that waits for requests, a TCP connection, and files beside the socket.
        assert_eq!(of(&[(7, vec![22]), (8, vec![23]), (9, vec![20, 22]), (11, vec![20])]), []);
    }
}
