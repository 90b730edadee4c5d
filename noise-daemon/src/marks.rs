//! Marks: begins and ends that programs state themselves, each in a datagram to a socket of ours.
//!
//! Who sends is taken from the socket's credentials, when from the kernel's stamp of the datagram. The latest are
//! kept, up to bounds of their bytes and of their rate; what is beyond, or is no mark, is counted.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, UnixCredentials, recvmsg, setsockopt, sockopt,
};
use nix::sys::time::{TimeSpec, TimeValLike as _};
use noise_host::kernel::monotonic_ns;
use noise_serve::{EventSource, LocalSocket, MarkCounts, SocketOptions};
use noise_system::procfs;
use noise_trace::capture::Marked;
use noise_wire::events::Item;
use noise_wire::marks::{MOST_BYTES, Mark, Message};
use tokio::io::Interest;
use tokio::net::UnixDatagram;

/// Where the daemon takes marks by default.
pub const DEFAULT_MARKS: &str = "/run/noised/noised.marks";
/// The variable that names another socket to the commands below `noised record`.
pub const MARKS_VARIABLE: &str = "NOISED_MARKS";

/// What the marks that are kept may have in memory.
const MOST_KEPT_BYTES: usize = 2 << 20;
/// Marks a second that are taken, and how many at once.
const RATE: u64 = 10_000;
/// Datagrams that are read in one turn.
const TURN: usize = 256;
/// Turns before an answer: what comes later may be older than the next stretch that is asked for.
const TURNS: usize = 4;
/// How long the socket is left alone when there is more to read than that, or than may be taken.
const PAUSE: Duration = Duration::from_millis(10);
/// How much older than its datagram a mark may be.
const OLDEST_NS: u64 = 10_000_000_000;
/// How often it is said that marks are refused.
const SAY_EVERY_NS: u64 = 60_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// In what time one more may be taken.
const TOKEN_NS: u64 = SECOND_NS / RATE;
/// Least time from one turn of [`Marks::wait`] to the next.
const TURN_PAUSE: Duration = Duration::from_millis(1);

/// The mark socket that belongs to a local socket: beside it, `noised.marks` for `noised.sock`.
pub fn beside(socket: &Path) -> PathBuf {
    let path = socket.with_extension("marks");
    match path == socket {
        true => socket.with_extension("marks.marks"),
        false => path,
    }
}

/// How many datagrams became what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Marks.
    pub taken: u64,
    /// Nothing: they are no marks, or their sender is not known.
    pub refused: u64,
    /// Nothing: they are more than are taken in a second.
    pub dropped: u64,
}

impl Counts {
    /// What to say of those that became nothing, beyond what was said before.
    pub fn left_out(self, said: Self) -> Option<String> {
        let refused = self.refused.saturating_sub(said.refused);
        let dropped = self.dropped.saturating_sub(said.dropped);
        (refused > 0 || dropped > 0).then(|| {
            format!(
                "left out of the marks: {refused} datagrams that are no marks or not their senders' to set, \
                 {dropped} that came beyond {RATE} a second"
            )
        })
    }
}

/// What came with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sender {
    pid: i32,
    uid: u32,
    sent_ns: u64,
}

/// The latest marks, and how many there were.
#[derive(Debug, Default)]
struct Kept {
    marks: VecDeque<Mark>,
    bytes: usize,
    next: u64,
    counts: Counts,
    /// Marks that may be taken now, and since when.
    tokens: u64,
    refilled_ns: u64,
    /// When it was last said that some were refused, and what was counted then.
    said_ns: u64,
    said: Counts,
}

/// A mark socket, and what came there.
#[derive(Debug)]
pub struct Marks {
    socket: net::UnixDatagram,
    /// Its file.
    place: LocalSocket,
    kept: Kept,
    /// Where its counts are shown.
    shown: Option<Arc<MarkCounts>>,
}

/// Marks that several look at.
pub type SharedMarks = Arc<Mutex<Marks>>;

/// Takes the marks for oneself.
pub fn lock(marks: &SharedMarks) -> MutexGuard<'_, Marks> {
    marks.lock().unwrap_or_else(PoisonError::into_inner)
}

const fn bytes(mark: &Mark) -> usize {
    size_of::<Mark>() + mark.name.len() + mark.key.len()
}

/// What `/proc/ID/status` says of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Status {
    process: i32,
    parent: i32,
    uid: Option<u32>,
    /// Its ids in the pid namespaces that it is in, from that of the daemon on.
    ids: Vec<i32>,
}

impl Status {
    /// `None` where there is no such thread any more.
    fn of(tid: i32) -> Option<Self> {
        procfs::text(format!("/proc/{tid}/status")).ok().map(|text| Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_ascii_whitespace()
        };
        let id = |name: &str| field(name).next().and_then(|id| id.parse().ok()).unwrap_or(0);
        Self {
            process: id("Tgid:"),
            parent: id("PPid:"),
            uid: field("Uid:").next().and_then(|uid| uid.parse().ok()),
            ids: field("NSpid:").filter_map(|id| id.parse().ok()).collect(),
        }
    }

    /// Whether its own ids are others than the daemon's.
    fn is_inside(&self) -> bool {
        self.ids.len() > 1
    }

    fn is(&self, tid: i32) -> bool {
        self.ids.last() == Some(&tid)
    }
}

/// The thread that a sender names as its own: one of its process, or of a process of the same user; `None` where it
/// may not. One that has ended since is believed. Of a sender in a pid namespace of its own, which has other ids
/// inside, only its first thread and its parent's are found: 0 where the thread is not known.
fn named(tid: i32, sender: Sender, status: impl Fn(i32) -> Option<Status>) -> Option<i32> {
    let found = status(tid);
    if found.as_ref().is_some_and(|found| found.process == sender.pid) {
        return Some(tid);
    }
    if let Some(own) = status(sender.pid).filter(Status::is_inside) {
        if own.is(tid) {
            return Some(sender.pid);
        }
        let is_its = |parent: &Status| {
            parent.ids.len() == own.ids.len() && parent.is(tid) && parent.uid == Some(sender.uid)
        };
        return Some(status(own.parent).filter(is_its).map_or(0, |_| own.parent));
    }
    found.is_none_or(|found| found.uid == Some(sender.uid)).then_some(tid)
}

impl Kept {
    /// Takes a datagram; whether there is room for it in this second.
    fn take(&mut self, text: &[u8], sender: Option<Sender>, now_ns: u64) {
        let (Ok(message), Some(sender)) = (Message::parse(text), sender) else {
            self.counts.refused += 1;
            return;
        };
        let passed_ns = now_ns.saturating_sub(self.refilled_ns);
        let refill = (passed_ns / TOKEN_NS).min(RATE);
        if refill == RATE {
            (self.tokens, self.refilled_ns) = (RATE, now_ns);
        } else {
            self.tokens = self.tokens.saturating_add(refill).min(RATE);
            // What is left of a token's time counts for the next one.
            self.refilled_ns += refill * TOKEN_NS;
        }
        let Some(tokens) = self.tokens.checked_sub(1) else {
            self.counts.dropped += 1;
            return;
        };
        self.tokens = tokens;
        let tid = message.tid.map_or(Some(0), |tid| named(tid, sender, Status::of));
        let Some(tid) = tid else {
            self.counts.refused += 1;
            return;
        };
        let oldest_ns = sender.sent_ns.saturating_sub(OLDEST_NS);
        let sane = |ns: &u64| (oldest_ns..=now_ns).contains(ns);
        let mark = Mark {
            number: self.next,
            sent_ns: sender.sent_ns,
            time_ns: message.monotonic_ns.filter(sane).unwrap_or(sender.sent_ns),
            begins: message.begins,
            pid: sender.pid,
            tid,
            uid: sender.uid,
            name: message.name.into(),
            key: message.key.into(),
        };
        self.next += 1;
        self.counts.taken += 1;
        self.bytes += bytes(&mark);
        self.marks.push_back(mark);
        while self.bytes > MOST_KEPT_BYTES
            && let Some(oldest) = self.marks.pop_front()
        {
            self.bytes -= bytes(&oldest);
        }
    }

    /// What to say of datagrams that became nothing, from time to time.
    fn complaint(&mut self, now_ns: u64) -> Option<String> {
        let is_due = self.said_ns == 0 || now_ns.saturating_sub(self.said_ns) >= SAY_EVERY_NS;
        let left_out = self.counts.left_out(self.said).filter(|_| is_due)?;
        (self.said_ns, self.said) = (now_ns, self.counts);
        Some(left_out)
    }
}

impl Marks {
    /// Makes the socket. What comes from then on is kept once it is [drained](Self::drain).
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn bind(options: &SocketOptions) -> io::Result<Self> {
        let (place, socket) = LocalSocket::bind_datagrams(options)?;
        socket.set_nonblocking(true)?;
        setsockopt(&socket, sockopt::PassCred, &true)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        Ok(Self { socket, place, kept: Kept::default(), shown: None })
    }

    /// Shows its counts there from now on.
    pub fn show(&mut self, counts: Arc<MarkCounts>) {
        self.shown = Some(counts);
    }

    /// Reads what has come, but no more than a turn's share; whether there may be more.
    pub fn drain(&mut self) -> bool {
        let is_flood = self.read();
        if let Some(shown) = &self.shown {
            let Counts { taken, refused, dropped } = self.kept.counts;
            shown.taken.store(taken, Ordering::Relaxed);
            shown.refused.store(refused, Ordering::Relaxed);
            shown.dropped.store(dropped, Ordering::Relaxed);
        }
        if let Some(complaint) = self.kept.complaint(monotonic_ns()) {
            tracing::warn!("{complaint}");
        }
        is_flood
    }

    fn read(&mut self) -> bool {
        let before = self.kept.counts;
        for _ in 0..TURN {
            let mut text = [0; MOST_BYTES + 1];
            match receive(&self.socket, &mut text) {
                Ok((length, sender)) => {
                    let text = text.get(..length).unwrap_or_default();
                    self.kept.take(text, sender, monotonic_ns());
                }
                // Nothing is there, or nothing can be had.
                Err(_) => return self.kept.counts.dropped > before.dropped,
            }
        }
        true
    }

    /// Waits so long, and calls `taken` when some came: who sends without pause waits for a turn, not for the end.
    pub fn wait(&mut self, length: Duration, mut taken: impl FnMut(&mut Self)) {
        let begin = Instant::now();
        let left = || length.saturating_sub(begin.elapsed());
        while !left().is_zero() && self.is_ready(left()) {
            let pause = if self.drain() { PAUSE } else { TURN_PAUSE };
            taken(self);
            thread::sleep(pause.min(left()));
        }
    }

    /// Whether something is there to be read within a time.
    fn is_ready(&self, within: Duration) -> bool {
        let mut wanted = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut wanted, Some(within.into()), None) {
            Ok(0) => false,
            Ok(_) => true,
            // A signal ends the wait, as the end of the recording does.
            Err(_) => false,
        }
    }

    /// The marks from that number on that are still there.
    pub fn from(&self, number: u64) -> impl Iterator<Item = &Mark> {
        let after = self.kept.marks.partition_point(|mark| mark.number < number);
        self.kept.marks.range(after..)
    }

    /// The marks that were sent, or happened, between two times.
    fn between(&self, since_ns: u64, until_ns: u64) -> impl Iterator<Item = &Mark> {
        let stretch = since_ns..=until_ns;
        let is_in =
            move |mark: &&Mark| [mark.sent_ns, mark.time_ns].iter().any(|ns| stretch.contains(ns));
        self.kept.marks.iter().filter(is_in)
    }

    /// What became of datagrams.
    pub fn counts(&self) -> Counts {
        self.kept.counts
    }

    /// The socket to wait for, known to the runtime that this is called in.
    ///
    /// # Errors
    /// Where that cannot be.
    pub fn readiness(&self) -> io::Result<UnixDatagram> {
        UnixDatagram::from_std(self.socket.try_clone()?)
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        self.place.path()
    }
}

/// CLOCK_MONOTONIC and real time at one moment, ns: a mark is set right behind a switch, and is not to come before it.
fn both_clocks() -> (u64, u64) {
    let read = || {
        let before_ns = monotonic_ns();
        let real_ns = u64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(0);
        let after_ns = monotonic_ns();
        (after_ns.saturating_sub(before_ns), (before_ns.midpoint(after_ns), real_ns))
    };
    // One that was interrupted in between took longer.
    let readings = [read(), read(), read()];
    readings.into_iter().min().map_or((0, 0), |(_, both)| both)
}

/// Receives a datagram: its length, and who sent it when. `None` of one that is too long, or whose sender is not
/// known. There is no room for descriptors, which the kernel closes then.
fn receive(socket: &net::UnixDatagram, text: &mut [u8]) -> nix::Result<(usize, Option<Sender>)> {
    let mut parts = [IoSliceMut::new(text)];
    let mut space = cmsg_space!(UnixCredentials, TimeSpec);
    let received =
        recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_DONTWAIT)?;
    let length = received.bytes;
    let (mut credentials, mut stamp) = (None, None);
    match received.cmsgs() {
        Ok(all) => {
            for message in all {
                match message {
                    ControlMessageOwned::ScmCredentials(found) => credentials = Some(found),
                    ControlMessageOwned::ScmTimestampns(found) => stamp = Some(found),
                    _ => {}
                }
            }
        }
        // It came with descriptors.
        Err(Errno::ENOBUFS) => return Ok((0, None)),
        Err(error) => return Err(error),
    }
    let stamp_ns = stamp.and_then(|stamp| u64::try_from(stamp.num_nanoseconds()).ok());
    let (clock_ns, real_ns) = both_clocks();
    // The stamp is of real time, which may have been set since.
    let age_ns = stamp_ns.map_or(0, |stamp_ns| real_ns.saturating_sub(stamp_ns)).min(OLDEST_NS);
    let sender = |found: UnixCredentials| Sender {
        pid: found.pid(),
        uid: found.uid(),
        sent_ns: clock_ns.saturating_sub(age_ns),
    };
    let is_whole = !received.flags.contains(MsgFlags::MSG_TRUNC) && length <= MOST_BYTES;
    let known = credentials.filter(|found| found.pid() > 0 && is_whole);
    Ok((length, known.map(sender)))
}

/// As recordings have it.
pub fn marked(mark: &Mark) -> Marked {
    Marked {
        time_ns: mark.time_ns,
        begins: mark.begins,
        name: mark.name.as_bytes().to_vec(),
        key: mark.key.as_bytes().to_vec(),
        pid: mark.pid,
        tid: mark.tid,
        uid: mark.uid,
    }
}

/// Takes what comes, for ever, whenever the socket is [ready](Marks::readiness).
///
/// # Errors
/// Where the runtime cannot wait for it.
pub async fn take(marks: &SharedMarks, readiness: &UnixDatagram) -> io::Result<()> {
    loop {
        readiness.readable().await?;
        // Nothing is left, as far as the runtime is concerned: what comes meanwhile is seen again.
        let _ = readiness.try_io(Interest::READABLE, || -> io::Result<()> {
            Err(io::ErrorKind::WouldBlock.into())
        });
        while lock(marks).drain() {
            // Who floods waits, not who is measured.
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Answers for stretches of the flight recorder with the marks in them, behind the head.
pub fn with_marks(source: EventSource, marks: Option<SharedMarks>) -> EventSource {
    let Some(marks) = marks else { return source };
    Arc::new(move |since_ns, until_ns| {
        let mut bytes = Vec::new();
        {
            let mut marks = lock(&marks);
            // What was sent before the request came, as much as a socket may have.
            let _ = (0..TURNS).all(|_| marks.drain());
            for mark in marks.between(since_ns, until_ns) {
                Item::Mark(mark.clone()).write(&mut bytes);
            }
        }
        let mut pieces = source(since_ns, until_ns);
        let head = pieces.next();
        Box::new(head.into_iter().chain([bytes]).chain(pieces))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn bound(folder: &Path) -> (Marks, net::UnixDatagram) {
        let path = folder.join("noised.marks");
        let options = SocketOptions { path, mode: 0o660, group: "no such group".to_owned() };
        let marks = Marks::bind(&options).unwrap();
        let mode = std::fs::metadata(marks.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        let sender = net::UnixDatagram::unbound().unwrap();
        sender.connect(marks.path()).unwrap();
        (marks, sender)
    }

    fn own_tid() -> i32 {
        nix::unistd::gettid().as_raw()
    }

    #[test]
    fn marks_are_kept_with_who_sent_them_when() {
        let folder = tempfile::tempdir().unwrap();
        let (mut marks, sender) = bound(folder.path());
        let begin_ns = monotonic_ns();
        sender.send(b"begin query 17").unwrap();
        let between_ns = monotonic_ns();
        sender.send(format!("end query 17 {between_ns} {}", own_tid()).as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(2));
        assert!(!marks.drain());
        let all: Vec<Mark> = marks.from(0).cloned().collect();
        let [begin, end] = all.as_slice() else { panic!("{all:?}") };
        // The kernel's stamp is of another clock, whose distance is taken twice.
        let slack_ns = 1_000_000;
        assert!((begin_ns - slack_ns..=between_ns + slack_ns).contains(&begin.time_ns));
        assert_eq!((begin.begins, &*begin.name, &*begin.key, begin.tid), (true, "query", "17", 0));
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!((begin.pid, begin.uid), (own, nix::unistd::getuid().as_raw()));
        assert_eq!((end.begins, end.time_ns, end.tid), (false, between_ns, own_tid()));
        assert_eq!((begin.number, end.number), (0, 1));
        assert_eq!(marks.from(1).count(), 1);
        assert_eq!(marks.between(end.sent_ns, u64::MAX).count(), 1);
        assert_eq!(marks.counts(), Counts { taken: 2, refused: 0, dropped: 0 });
    }

    #[test]
    fn what_is_no_mark_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (mut marks, sender) = bound(folder.path());
        let now_ns = monotonic_ns();
        let long = "x".repeat(MOST_BYTES + 100);
        // Thread 2 is the kernel's, and so root's.
        let other = if nix::unistd::getuid().is_root() { 0 } else { 1 };
        for text in ["begin", "begin q\n", "", &long, "begin q - 0 2"].iter().take(4 + other) {
            sender.send(text.as_bytes()).unwrap();
        }
        // Not yet, and too long ago: then it is of now.
        for ns in [now_ns + 3_600 * SECOND_NS, 5] {
            sender.send(format!("begin q - {ns}").as_bytes()).unwrap();
        }
        marks.drain();
        assert_eq!(marks.counts(), Counts { taken: 2, refused: 4 + other as u64, dropped: 0 });
        let is_now =
            |mark: &Mark| mark.time_ns == mark.sent_ns && mark.sent_ns + SECOND_NS > now_ns;
        assert!(marks.from(0).all(is_now));
    }

    #[test]
    fn who_sends_without_pause_waits_for_a_turn_only() {
        const MARKS: usize = 300;
        let folder = tempfile::tempdir().unwrap();
        let (mut marks, sender) = bound(folder.path());
        // Ten fit into the socket where the system is not set otherwise; then it blocks.
        let sending = thread::spawn(move || {
            for number in 0..MARKS {
                sender.send(format!("begin query {number}").as_bytes()).unwrap();
            }
        });
        let mut turns = 0;
        let begin = Instant::now();
        while marks.counts().taken < MARKS as u64 && begin.elapsed() < Duration::from_secs(60) {
            marks.wait(Duration::from_millis(20), |_| turns += 1);
        }
        sending.join().unwrap();
        assert_eq!(marks.counts().taken, MARKS as u64);
        assert!(turns > 1);
        let begin = Instant::now();
        marks.wait(Duration::from_millis(5), |_| panic!("nothing came"));
        assert!(begin.elapsed() >= Duration::from_millis(5));
    }

    #[test]
    fn as_many_as_may_come_in_a_second_are_taken() {
        let sender = Some(Sender { pid: 1, uid: 0, sent_ns: 5 });
        let mut kept = Kept::default();
        // A little more often than one for each token, after the first second's were used up.
        for number in 0..4 * RATE {
            kept.take(b"begin query", sender, SECOND_NS + number * (TOKEN_NS - 1_000));
        }
        let Counts { taken, dropped, .. } = kept.counts;
        assert!(dropped <= taken / 50, "{taken} taken, {dropped} dropped");
    }

    #[test]
    fn ids_of_another_pid_namespace_are_not_taken_for_those_of_this_one() {
        let of = |process: i32, parent: i32, uid: u32, ids: &[i32]| {
            let ids: Vec<String> = ids.iter().map(i32::to_string).collect();
            let text = format!(
                "Name:\tx y\nTgid:\t{process}\nPid:\t{process}\nPPid:\t{parent}\nUid:\t{uid}\t0\t0\t0\nNSpid:\t{}\n",
                ids.join("\t")
            );
            Some(Status::parse(&text))
        };
        let status = |tid: i32| match tid {
            1 => of(1, 0, 0, &[1]),
            7 => of(7, 2, 0, &[7]),
            // In a container: its first process, and a script in it with a command.
            500 => of(500, 400, 0, &[500, 1]),
            507 => of(507, 500, 0, &[507, 7]),
            508 => of(508, 507, 0, &[508, 8]),
            // Of another user, outside, with two threads.
            600 | 601 => of(600, 1, 5, &[tid]),
            602 => of(602, 600, 5, &[602]),
            _ => None,
        };
        let named = |tid, pid, uid| named(tid, Sender { pid, uid, sent_ns: 5 }, status);
        assert_eq!((named(8, 508, 0), named(7, 508, 0)), (Some(508), Some(507)));
        // The container's first process is the host's neither by its id nor otherwise its own.
        assert_eq!((named(1, 508, 0), named(3, 508, 0)), (Some(0), Some(0)));
        assert_eq!((named(601, 600, 5), named(600, 602, 5)), (Some(601), Some(600)));
        assert_eq!((named(7, 602, 5), named(7, 1, 0)), (None, Some(7)));
        // Gone: who it was, or who sent it.
        assert_eq!((named(999, 602, 5), named(600, 998, 5)), (Some(999), Some(600)));
    }

    #[test]
    fn a_flood_is_bounded_and_counted() {
        let sender = Some(Sender { pid: 1, uid: 0, sent_ns: 5 });
        let mut kept = Kept::default();
        let key = "k".repeat(100);
        for number in 0..3 * RATE {
            // All of it within a millisecond.
            kept.take(format!("begin query {key}").as_bytes(), sender, SECOND_NS + number * 30);
        }
        assert!((RATE..RATE + 20).contains(&kept.counts.taken), "{:?}", kept.counts);
        assert_eq!(kept.counts.taken + kept.counts.dropped, 3 * RATE);
        for second in 2..20 {
            for _ in 0..RATE {
                kept.take(format!("begin query {key}").as_bytes(), sender, second * SECOND_NS);
            }
            assert!(kept.bytes <= MOST_KEPT_BYTES);
        }
        let held: usize = kept.marks.iter().map(bytes).sum();
        assert_eq!(held, kept.bytes);
        assert!(kept.marks.len() > 5_000, "{}", kept.marks.len());
        let first = kept.complaint(SECOND_NS).unwrap();
        assert!(first.contains("that came beyond 10000 a second"), "{first}");
        kept.counts.refused += 1;
        assert_eq!(kept.complaint(2 * SECOND_NS), None);
        assert!(
            kept.complaint(2 * SAY_EVERY_NS).unwrap().contains(": 1 datagrams that are no marks")
        );
    }

    #[test]
    fn descriptors_are_not_taken() {
        use std::io::{IoSlice, Read as _};

        use nix::sys::socket::{ControlMessage, UnixAddr, sendmsg};

        let folder = tempfile::tempdir().unwrap();
        let (mut marks, sender) = bound(folder.path());
        let (mut reader, writer) = io::pipe().unwrap();
        let fds = [writer.as_raw_fd(); 3];
        let rights = [ControlMessage::ScmRights(&fds)];
        let text = [IoSlice::new(b"begin q")];
        sendmsg::<UnixAddr>(sender.as_raw_fd(), &text, &rights, MsgFlags::empty(), None).unwrap();
        drop(writer);
        marks.drain();
        // No writer is left.
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        assert_eq!(marks.counts(), Counts { taken: 0, refused: 1, dropped: 0 });
    }

    #[test]
    fn the_socket_lies_beside_the_other() {
        let beside = |path: &str| beside(Path::new(path)).display().to_string();
        assert_eq!(beside("/run/noised/noised.sock"), DEFAULT_MARKS);
        assert_eq!(beside("/x/sock"), "/x/sock.marks");
        assert_eq!(beside("/x/a.marks"), "/x/a.marks.marks");
    }
}
