//! IO: what threads do at the moment, as `/proc` says it: whether they are stopped, frozen or sleep uninterruptibly, and, to root
//! and to who may debug them, what they sleep at.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use noise_host::resolve::cgroup::Hierarchies;
use noise_record::DumpedHost;
use noise_system::procfs;
use noise_system::unix_sockets::UnixSocket;
use noise_text::clean::clean;
use noise_trace::ipc::Connection;

use super::awaited::waits_at;
use super::places::{Seen, SleepPlace, see};
use super::unwoken::SleepsAt;
use super::who::state;

/// A state lasts if so many looks see it, this far apart: even a slow disk completes a request between two looks.
const LOOKS: u32 = 3;
const BETWEEN: Duration = Duration::from_millis(8);
/// Threads whose states are looked at.
const MOST: usize = 1024;
/// The state of a thread that was in several: none that the kernel has.
const CHANGES: u8 = b'?';
/// Where the freezer of version 1 of cgroups is.
const FREEZER: &str = "/sys/fs/cgroup/freezer";
/// The number of the protocol.
const UDP: u32 = 17;

/// Calls in which a program waits for work, or for a time.
const FOR_WORK: [i64; 13] = [
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_wait4,
    libc::SYS_waitid,
    // One of those above that goes on behind a stop.
    libc::SYS_restart_syscall,
];
/// Those that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const FOR_WORK_TOO: &[i64] =
    &[libc::SYS_epoll_wait, libc::SYS_poll, libc::SYS_select, libc::SYS_pause];
#[cfg(not(target_arch = "x86_64"))]
const FOR_WORK_TOO: &[i64] = &[];

/// Whether it is worth to look whether a state lasts.
const fn lasts(state: u8) -> bool {
    matches!(state, b'D' | b'T' | b't')
}

/// The states of threads that are there. One that is stopped or sleeps uninterruptibly is so in each of several looks.
pub fn states(tids: impl Iterator<Item = i32>) -> BTreeMap<i32, u8> {
    let there = tids.take(MOST).filter_map(|tid| Some((tid, state(tid)?)));
    let mut states: BTreeMap<i32, u8> = there.collect();
    for _ in 1..LOOKS {
        if !states.values().any(|seen| lasts(*seen)) {
            break;
        }
        thread::sleep(BETWEEN);
        for (tid, seen) in states.iter_mut().filter(|(_, seen)| lasts(**seen)) {
            if state(*tid) != Some(*seen) {
                *seen = CHANGES;
            }
        }
    }
    states
}

/// Which cgroups are frozen, themselves or with one above them.
pub struct Freezers {
    /// Where version 2 is mounted.
    unified: Option<PathBuf>,
    known: BTreeMap<PathBuf, bool>,
}

impl Freezers {
    pub fn of_host() -> Self {
        Self { unified: Hierarchies::of_host().sockets, known: BTreeMap::new() }
    }

    /// Whether the cgroup of a thread is.
    pub fn hold(&mut self, tid: i32) -> bool {
        let cgroups = procfs::text(format!("/proc/{tid}/cgroup")).unwrap_or_default();
        cgroups.lines().any(|line| {
            let Some((file, frozen)) = frozen_file(line, self.unified.as_deref()) else {
                return false;
            };
            *self.known.entry(file).or_insert_with_key(|file| says(file, frozen))
        })
    }
}

/// The file that says it, and the line that it says it with, by a line of a thread's file `cgroup`.
fn frozen_file(line: &str, unified: Option<&Path>) -> Option<(PathBuf, &'static str)> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
    if controllers.is_empty() {
        return Some((unified?.join(path).join("cgroup.events"), "frozen 1"));
    }
    let is_freezer = controllers.split(',').any(|controller| controller == "freezer");
    is_freezer.then(|| (Path::new(FREEZER).join(path).join("freezer.state"), "FROZEN"))
}

fn says(file: &Path, frozen: &str) -> bool {
    procfs::text(file).is_ok_and(|text| text.lines().any(|line| line == frozen))
}

/// The call that a thread sleeps in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SleepCall {
    is_for_work: bool,
    lock: Option<(i32, u64)>,
    /// The inodes of the sockets that it receives from.
    sockets: Vec<u32>,
    /// The function of the kernel that it sleeps in; empty where that is not said.
    function: String,
}

impl SleepCall {
    /// By a thread's file `syscall`; `None` of one that runs.
    fn of(text: &str, (tid, pid): (i32, i32)) -> Option<Self> {
        if text.starts_with("running") {
            return None;
        }
        let number = text.split_ascii_whitespace().next()?.parse::<i64>().ok()?;
        let wchan = procfs::text(format!("/proc/{tid}/wchan")).unwrap_or_default();
        Some(Self {
            is_for_work: FOR_WORK.contains(&number) || FOR_WORK_TOO.contains(&number),
            lock: SleepPlace::parse(text, pid).filter(|place| place.is_lock).map(|place| place.key),
            sockets: waits_at(text, (tid, pid)),
            function: function(&wchan),
        })
    }

    /// Adds the other end of its sockets. A thread that receives from a server may wait for an answer, so it is not idle.
    fn place(self, internet: &[Connection], unix: &[UnixSocket]) -> SleepsAt {
        let Self { is_for_work, lock, sockets, function } = self;
        let asked = connection(&sockets, internet).or_else(|| named_peer(&sockets, unix));
        match asked {
            Some(Peered::Client) => {
                SleepsAt { is_idle: true, lock, place: "recv from clients".to_owned() }
            }
            Some(Peered::Server(name)) => {
                SleepsAt { is_idle: false, lock, place: format!("recv from {}", clean(&name)) }
            }
            None => SleepsAt { is_idle: is_for_work, lock, place: function },
        }
    }
}

/// The name of a function, without what a compiler adds to it.
fn function(wchan: &str) -> String {
    let name = wchan.split('.').next().unwrap_or_default().trim();
    if name == "0" { String::new() } else { name.to_owned() }
}

/// The other end of a connection.
enum Peered {
    /// It has connected to the victim.
    Client,
    /// The victim has connected to it, which is called that.
    Server(String),
}

/// The other end of that of some sockets which is a connection of the internet.
fn connection(inodes: &[u32], sockets: &[Connection]) -> Option<Peered> {
    let takes_from_anyone = |one: &Connection| {
        one.protocol == UDP && one.remote.port() == 0 && inodes.contains(&one.inode)
    };
    if sockets.iter().any(takes_from_anyone) {
        return Some(Peered::Client);
    }
    let own = |one: &&Connection| one.remote.port() != 0 && inodes.contains(&one.inode);
    let own = sockets.iter().find(own)?;
    let is_its_listener = |one: &Connection| {
        let at = |of: &Connection| (of.namespace, of.protocol, of.local.port());
        one.remote.port() == 0 && at(one) == at(own)
    };
    Some(match sockets.iter().any(is_its_listener) {
        true => Peered::Client,
        false => Peered::Server(own.remote.to_string()),
    })
}

/// The same of a unix socket: the end that has connected has no name, and the other one that of its listener.
fn named_peer(inodes: &[u32], sockets: &[UnixSocket]) -> Option<Peered> {
    let own = sockets.iter().find(|one| one.peer != 0 && inodes.contains(&one.inode))?;
    let peer = sockets.iter().find(|other| other.inode == own.peer)?;
    match (own.name.is_empty(), peer.name.is_empty()) {
        (true, false) => Some(Peered::Server(peer.name.clone())),
        (false, true) => Some(Peered::Client),
        _ => None,
    }
}

/// What each of these threads, which come with their processes, sleeps at.
pub fn places(threads: &BTreeSet<(i32, i32)>, host: &DumpedHost) -> Seen<SleepsAt> {
    let seen = see("syscall", threads, SleepCall::of);
    let mut tables = (Vec::new(), Vec::new());
    if seen.of.values().any(|call| !call.sockets.is_empty()) {
        let pids = threads.iter().map(|(_, pid)| *pid).filter(|pid| *pid > 0).collect();
        tables = (host.sockets(), host.unix_sockets(&pids));
    }
    let (internet, unix) = tables;
    let calls = seen.of.into_iter();
    let of = calls.map(|(tid, call)| (tid, call.place(&internet, &unix))).collect();
    Seen { of, is_denied: seen.is_denied }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_is_neither_stopped_nor_frozen() {
        let own = nix::unistd::gettid().as_raw();
        let states = states([own, 0].into_iter());
        assert_eq!(states.keys().collect::<Vec<_>>(), [&own]);
        assert!(!lasts(states[&own]) && !Freezers::of_host().hold(own));
    }

    #[test]
    fn both_versions_of_cgroups_say_what_is_frozen() {
        let of = |line| frozen_file(line, Some(Path::new("/cg")));
        let unified = ("/cg/a.slice/b:c/cgroup.events".into(), "frozen 1");
        assert_eq!(of("0::/a.slice/b:c"), Some(unified));
        let first = ("/sys/fs/cgroup/freezer/a/freezer.state".into(), "FROZEN");
        assert_eq!(of("6:freezer:/a"), Some(first));
        assert_eq!((of("4:cpu,cpuacct:/a"), of("")), (None, None));
        assert_eq!(frozen_file("0::/a", None), None);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cgroup.events");
        std::fs::write(&file, "populated 1\nfrozen 1\n").unwrap();
        assert!(says(&file, "frozen 1") && !says(&file, "frozen 10"));
        assert!(!says(&folder.path().join("none"), "frozen 1"));
    }

    #[test]
    fn calls_say_whether_a_thread_waits_for_work() {
        let of = |call: i64, arguments: &str| {
            let text = format!("{call} {arguments} 0x0 0x0 0x0 0x7ffc 0x7f");
            SleepCall::of(&text, (0, 7)).map(|call| (call.is_for_work, call.lock))
        };
        assert_eq!(of(libc::SYS_epoll_pwait, "0x5 0x7f10 0x40"), Some((true, None)));
        assert_eq!(of(libc::SYS_clock_nanosleep, "0x0 0x0 0x7f10"), Some((true, None)));
        assert_eq!(of(libc::SYS_futex, "0x7f10 0x80 0x2"), Some((false, Some((7, 0x7f10)))));
        // A condition, and what no call is.
        assert_eq!(of(libc::SYS_futex, "0x7f10 0x189 0x0"), Some((false, None)));
        assert_eq!(of(-1, "0x7ffc 0x7f"), Some((false, None)));
        assert_eq!(SleepCall::of("running", (0, 7)), None);
        assert_eq!(SleepCall::of("", (0, 7)), None);
    }

    #[test]
    fn functions_are_named_as_in_the_source() {
        for (wchan, expected) in
            [("do_epoll_wait", "do_epoll_wait"), ("sigsuspend.isra.0", "sigsuspend"), ("0", "")]
        {
            assert_eq!(function(wchan), expected);
        }
    }

    fn tcp(inode: u32, local: &str, remote: &str) -> Connection {
        let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
        Connection { inode, protocol: 6, local, remote, namespace: 1 }
    }

    fn unix(inode: u32, peer: u32, name: &str) -> UnixSocket {
        let name = name.to_owned();
        UnixSocket { inode, peer, name, is_listening: false, is_datagram: false }
    }

    #[test]
    fn who_waits_for_what_a_server_sends_is_not_idle_for_certain() {
        let internet = [
            tcp(20, "127.0.0.1:40000", "127.0.0.1:5432"),
            tcp(21, "0.0.0.0:80", "0.0.0.0:0"),
            tcp(22, "10.0.0.1:80", "10.0.0.8:50000"),
        ];
        let unix = [unix(30, 31, ""), unix(31, 30, "/run/db.sock"), unix(32, 33, "")];
        let at = |is_for_work, inode| {
            let sockets = vec![inode];
            let function = "wait_woken".to_owned();
            let call = SleepCall { is_for_work, lock: None, sockets, function };
            let SleepsAt { is_idle, place, .. } = call.place(&internet, &unix);
            (is_idle, place)
        };
        assert_eq!(at(true, 20), (false, "recv from 127.0.0.1:5432".to_owned()));
        assert_eq!(at(false, 22), (true, "recv from clients".to_owned()));
        assert_eq!(at(true, 30), (false, "recv from /run/db.sock".to_owned()));
        assert_eq!(at(false, 31), (true, "recv from clients".to_owned()));
        // One that listens, an end of a pair, and one that is not known.
        for inode in [21, 32, 99] {
            assert_eq!(at(true, inode), (true, "wait_woken".to_owned()), "{inode}");
            assert_eq!(at(false, inode), (false, "wait_woken".to_owned()), "{inode}");
        }
    }
}
