//! Marks: begins and ends that programs state themselves, each in a datagram to a socket of ours.
//!
//! Who sends is taken from the socket's credentials, when from the kernel's stamp of the datagram. The latest are
//! kept, up to bounds of their bytes and of their rate; what is beyond, or is no mark, is counted.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd as _;
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::cmsg_space;
use nix::errno::Errno;
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
/// How long the socket is left alone when there is more to read than that, or than may be taken.
const PAUSE: Duration = Duration::from_millis(10);
/// How much older than its datagram a mark may be.
const OLDEST_NS: u64 = 10_000_000_000;
/// How often it is said that marks are refused.
const SAY_EVERY_NS: u64 = 60_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

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

/// Whether a mark may name that thread as its own: one of the sender's process, or of a process of the same user. One
/// that has ended since is believed.
fn is_allowed(tid: i32, sender: Sender) -> bool {
    let Ok(status) = procfs::text(format!("/proc/{tid}/status")) else { return true };
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let first = |name: &str| field(name)?.split_ascii_whitespace().next()?.parse::<u32>().ok();
    let is_own = first("Tgid:") == u32::try_from(sender.pid).ok();
    is_own || first("Uid:") == Some(sender.uid)
}

impl Kept {
    /// Takes a datagram; whether there is room for it in this second.
    fn take(&mut self, text: &[u8], sender: Option<Sender>, now_ns: u64) {
        let (Ok(message), Some(sender)) = (Message::parse(text), sender) else {
            self.counts.refused += 1;
            return;
        };
        let passed_ns = now_ns.saturating_sub(self.refilled_ns);
        let refill = passed_ns.saturating_mul(RATE) / SECOND_NS;
        if refill > 0 {
            self.tokens = self.tokens.saturating_add(refill).min(RATE);
            self.refilled_ns = now_ns;
        }
        let Some(tokens) = self.tokens.checked_sub(1) else {
            self.counts.dropped += 1;
            return;
        };
        self.tokens = tokens;
        if message.tid.is_some_and(|tid| !is_allowed(tid, sender)) {
            self.counts.refused += 1;
            return;
        }
        let oldest_ns = sender.sent_ns.saturating_sub(OLDEST_NS);
        let sane = |ns: &u64| (oldest_ns..=now_ns).contains(ns);
        let mark = Mark {
            number: self.next,
            sent_ns: sender.sent_ns,
            time_ns: message.monotonic_ns.filter(sane).unwrap_or(sender.sent_ns),
            begins: message.begins,
            pid: sender.pid,
            tid: message.tid.unwrap_or(0),
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
        let refused = self.counts.refused - self.said.refused;
        let dropped = self.counts.dropped - self.said.dropped;
        let is_due = self.said_ns == 0 || now_ns.saturating_sub(self.said_ns) >= SAY_EVERY_NS;
        if refused + dropped == 0 || !is_due {
            return None;
        }
        (self.said_ns, self.said) = (now_ns, self.counts);
        Some(format!(
            "left out of the marks: {refused} datagrams that are no marks or not their senders' to set, {dropped} \
             that came beyond {RATE} a second"
        ))
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
            // What was sent before the request came.
            marks.drain();
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
        std::thread::sleep(Duration::from_millis(2));
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
