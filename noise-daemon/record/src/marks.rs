//! Marks: begins and ends that programs state themselves, each in a datagram to a socket of ours.
//!
//! Who sends is taken from the socket's credentials, when from the kernel's stamp of the datagram. The latest are
//! kept, up to bounds of their bytes and of their rate; what is beyond, or is no mark, is counted.

mod shares;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::MetadataExt as _;
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
use noise_host::kernel::{both_clocks, monotonic_ns};
use noise_serve::{EventSource, LocalSocket, MarkCounts, SocketOptions};
use noise_system::procfs::ThreadStatus;
use noise_trace::capture::Marked;
use noise_trace::event::OLDEST_MARK_NS;
use noise_wire::events::AnswerItem;
use noise_wire::marks::{MOST_DATAGRAM_BYTES, Mark, Message};
use tokio::io::Interest;
use tokio::net::UnixDatagram;

use shares::{RATE, Sharer, Shares};

/// Where the daemon takes marks by default.
pub const DEFAULT_MARKS: &str = "/run/noised/noised.marks";
/// The variable that names another socket to the commands below `noised record`.
pub const MARKS_VARIABLE: &str = "NOISED_MARKS";

/// What the marks that are kept may have in memory.
pub const MOST_KEPT_BYTES: usize = 2 << 20;
/// Datagrams that are read in one turn.
const TURN: usize = 256;
/// Turns before an answer: what comes later may be older than the next stretch that is asked for.
const TURNS: usize = 4;
/// How long the socket is left alone when there is more to read than that, or than may be taken.
const PAUSE: Duration = Duration::from_millis(10);
/// How often it is said that marks are refused.
const SAY_EVERY_NS: u64 = 60_000_000_000;
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
pub struct DatagramCounts {
    pub taken: u64,
    /// Nothing: they are no marks, or their sender is not known.
    pub refused: u64,
    /// Nothing: they are more than are taken in a second.
    pub dropped: u64,
}

impl DatagramCounts {
    /// What to say of those that became nothing, beyond what was said before.
    pub fn left_out(self, said: Self) -> Option<String> {
        let refused = self.refused.saturating_sub(said.refused);
        let dropped = self.dropped.saturating_sub(said.dropped);
        (refused > 0 || dropped > 0).then(|| {
            format!(
                "marks left out: {refused} refused (no mark, or of no thread of their sender's), {dropped} dropped \
                 (more than {RATE} a second, or than their user's share of it)"
            )
        })
    }
}

/// What came with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DatagramSender {
    pid: i32,
    uid: u32,
    sent_ns: u64,
}

/// The latest marks of a user or of a range of them, the oldest first.
#[derive(Debug, Default)]
struct OfUser {
    marks: VecDeque<Mark>,
    bytes: usize,
}

/// The latest marks, and how many there were.
#[derive(Debug, Default)]
struct LatestMarks {
    /// The pid namespace that this process is in.
    namespace: Option<u64>,
    marks: BTreeMap<Sharer, OfUser>,
    /// Those that have marks, by the bytes of these.
    by_bytes: BTreeSet<(usize, Sharer)>,
    bytes: usize,
    next: u64,
    counts: DatagramCounts,
    shares: Shares,
    /// When it was last said that some were refused, and what was counted then.
    said_ns: u64,
    said: DatagramCounts,
}

/// A mark socket, and what came there.
#[derive(Debug)]
pub struct Marks {
    socket: net::UnixDatagram,
    place: LocalSocket,
    kept: LatestMarks,
    /// Where its counts are shown.
    shown: Option<Arc<MarkCounts>>,
}

/// Marks that several look at.
pub type SharedMarks = Arc<Mutex<Marks>>;

/// Takes the marks for oneself.
pub fn lock(marks: &SharedMarks) -> MutexGuard<'_, Marks> {
    marks.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a mark has in memory.
pub const fn bytes(mark: &Mark) -> usize {
    size_of::<Mark>() + mark.name.len() + mark.key.len()
}

fn status(tid: i32) -> Option<ThreadStatus> {
    ThreadStatus::read(Path::new(&format!("/proc/{tid}"))).ok()
}

/// The number of the pid namespace that this process is in; `None` where that cannot be read.
pub fn own_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid").ok().map(|found| found.ino())
}

/// The thread that a sender names as its own: one of its process, or of a process of the same user; `None` where it
/// may not, or where there is none: a sender that is there would know. Where it has ended, too, or nothing of it can be
/// seen, the thread is not known: 0. Its own first thread is believed, as the kernel says that it sent. Of a sender in another pid namespace than the daemon, which has
/// other ids, only its first thread and its parent's are found, and these as long as it lives: 0 where the thread is
/// not known. `is_here` is what the sender says of that, if anything.
fn named(
    tid: i32,
    is_here: Option<bool>,
    sender: DatagramSender,
    status: impl Fn(i32) -> Option<ThreadStatus>,
) -> Option<i32> {
    if is_here != Some(true) {
        let own = status(sender.pid).filter(|own| own.ids.len() > 1);
        if is_here == Some(false) || own.is_some() {
            return Some(own.map_or(0, |own| inside(tid, &own, sender, status)));
        }
    }
    if tid == sender.pid {
        return Some(tid);
    }
    let Some(found) = status(tid) else {
        return status(sender.pid).is_none().then_some(0);
    };
    (found.process == sender.pid || found.uid == Some(sender.uid)).then_some(tid)
}

/// The daemon's id of a thread that has another one where its sender is; 0 where that is not known.
fn inside(
    tid: i32,
    own: &ThreadStatus,
    sender: DatagramSender,
    status: impl Fn(i32) -> Option<ThreadStatus>,
) -> i32 {
    let is_it = |one: &ThreadStatus| one.ids.len() == own.ids.len() && one.ids.last() == Some(&tid);
    if is_it(own) {
        return sender.pid;
    }
    let is_its = |parent: &ThreadStatus| is_it(parent) && parent.uid == Some(sender.uid);
    status(own.parent).filter(is_its).map_or(0, |_| own.parent)
}

impl LatestMarks {
    /// Takes a datagram; whether there is room for it in this second.
    fn take(&mut self, text: &[u8], sender: Option<DatagramSender>, now_ns: u64) {
        // What is no mark costs as much.
        let sharer = Sharer::of(sender.map(|sender| sender.uid));
        if !self.shares.take(sharer, now_ns) {
            self.counts.dropped += 1;
            return;
        }
        let (Ok(message), Some(sender)) = (Message::parse(text), sender) else {
            self.counts.refused += 1;
            return;
        };
        let is_here = message.namespace.map(|of| Some(of) == self.namespace);
        let tid = message.tid.map_or(Some(0), |tid| named(tid, is_here, sender, status));
        let Some(tid) = tid else {
            self.counts.refused += 1;
            return;
        };
        let oldest_ns = sender.sent_ns.saturating_sub(OLDEST_MARK_NS);
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
        let of_user = self.marks.entry(sharer).or_default();
        self.by_bytes.remove(&(of_user.bytes, sharer));
        of_user.bytes += bytes(&mark);
        self.bytes += bytes(&mark);
        self.by_bytes.insert((of_user.bytes, sharer));
        of_user.marks.push_back(mark);
        while self.bytes > MOST_KEPT_BYTES && self.forget() {}
    }

    /// Forgets the oldest mark of the user who has most: those of others are not lost for it.
    fn forget(&mut self) -> bool {
        let Some((_, sharer)) = self.by_bytes.pop_last() else { return false };
        let Some(of_user) = self.marks.get_mut(&sharer) else { return true };
        if let Some(oldest) = of_user.marks.pop_front() {
            of_user.bytes -= bytes(&oldest);
            self.bytes -= bytes(&oldest);
        }
        if of_user.marks.is_empty() {
            self.marks.remove(&sharer);
        } else {
            self.by_bytes.insert((of_user.bytes, sharer));
        }
        true
    }

    /// Those that are wanted, in the order in which they came.
    fn wanted(&self, is_wanted: impl Fn(&Mark) -> bool) -> Vec<&Mark> {
        let all = self.marks.values().flat_map(|of_user| &of_user.marks);
        let mut wanted: Vec<&Mark> = all.filter(|mark| is_wanted(mark)).collect();
        wanted.sort_unstable_by_key(|mark| mark.number);
        wanted
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
    /// Errors: where it cannot be made.
    pub fn bind(options: &SocketOptions) -> io::Result<Self> {
        let (place, socket) = LocalSocket::bind_datagrams(options)?;
        socket.set_nonblocking(true)?;
        setsockopt(&socket, sockopt::PassCred, &true)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        let kept = LatestMarks { namespace: own_namespace(), ..LatestMarks::default() };
        Ok(Self { socket, place, kept, shown: None })
    }

    /// Shows its counts there from now on.
    pub fn show(&mut self, counts: Arc<MarkCounts>) {
        self.shown = Some(counts);
    }

    /// Reads what has come, but no more than a turn's share; whether there may be more.
    pub fn drain(&mut self) -> bool {
        let is_flood = self.read();
        if let Some(shown) = &self.shown {
            let DatagramCounts { taken, refused, dropped } = self.kept.counts;
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
            let mut text = [0; MOST_DATAGRAM_BYTES + 1];
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
        self.kept.wanted(|mark| mark.number >= number).into_iter()
    }

    /// The marks that were sent, or happened, between two times.
    fn between(&self, since_ns: u64, until_ns: u64) -> impl Iterator<Item = &Mark> {
        let stretch = since_ns..=until_ns;
        let is_in =
            |mark: &Mark| [mark.sent_ns, mark.time_ns].iter().any(|ns| stretch.contains(ns));
        self.kept.wanted(is_in).into_iter()
    }

    /// What became of datagrams.
    pub fn counts(&self) -> DatagramCounts {
        self.kept.counts
    }

    /// The socket to wait for, known to the runtime that this is called in.
    /// Errors: where that cannot be.
    pub fn readiness(&self) -> io::Result<UnixDatagram> {
        UnixDatagram::from_std(self.socket.try_clone()?)
    }

    pub fn path(&self) -> &Path {
        self.place.path()
    }
}

/// Receives a datagram: its length, 0 of one that is too long, and who sent it when; `None` where its sender is not
/// known. There is no room for descriptors, which the kernel closes then.
fn receive(
    socket: &net::UnixDatagram,
    text: &mut [u8],
) -> nix::Result<(usize, Option<DatagramSender>)> {
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
    // A mark is set right behind a switch, and is not to come before it.
    let (clock_ns, real_ns) = both_clocks();
    // The stamp is of real time, which may have been set since.
    let age_ns =
        stamp_ns.map_or(0, |stamp_ns| real_ns.saturating_sub(stamp_ns)).min(OLDEST_MARK_NS);
    let sender = |found: UnixCredentials| DatagramSender {
        pid: found.pid(),
        uid: found.uid(),
        sent_ns: clock_ns.saturating_sub(age_ns),
    };
    let is_whole = !received.flags.contains(MsgFlags::MSG_TRUNC) && length <= MOST_DATAGRAM_BYTES;
    let known = credentials.filter(|found| found.pid() > 0);
    Ok((if is_whole { length } else { 0 }, known.map(sender)))
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
/// Errors: where the runtime cannot wait for it.
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
                AnswerItem::Mark(mark.clone()).write(&mut bytes);
            }
        }
        let mut pieces = source(since_ns, until_ns);
        let head = pieces.next();
        Box::new(head.into_iter().chain([bytes]).chain(pieces))
    })
}

#[cfg(test)]
mod tests;
