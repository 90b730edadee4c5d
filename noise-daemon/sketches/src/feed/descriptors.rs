//! Which file a descriptor is, in traces that do not say so with each call: by the calls that make descriptors.

use foldhash::HashMap;

use crate::input::{ChannelObject, Endpoint, Local, Protocol};

/// Descriptors that are known at once.
const MAX_DESCRIPTORS: usize = 1 << 20;
/// Descriptors that may be copied for processes that inherit them, beside [`COPIED_OF_EVENT`] for each event: without
/// a limit, a recording of processes that fork in turn would take far longer than its events.
const COPIED: usize = 1 << 22;
const COPIED_OF_EVENT: usize = 64;
/// Numbers that are given to files begin here, above all inodes.
const FIRST: u64 = 1 << 48;

const STREAM: u64 = 1;
const DATAGRAM: u64 = 2;

/// Descriptors of all processes of a recording.
#[derive(Clone, Debug)]
pub struct Descriptors {
    /// By process and number.
    known: HashMap<i32, HashMap<i64, ChannelObject>>,
    /// How many there are in all.
    held: usize,
    /// How many more may be copied.
    room: usize,
    /// Files that have a number.
    count: u64,
}

impl Default for Descriptors {
    fn default() -> Self {
        Self { known: HashMap::default(), held: 0, room: COPIED, count: 0 }
    }
}

impl Descriptors {
    /// One more event has come.
    pub fn pass(&mut self) {
        self.room = (self.room + COPIED_OF_EVENT).min(COPIED);
    }

    /// The file of a descriptor.
    pub fn get(&self, pid: i32, fd: i64) -> Option<ChannelObject> {
        self.known.get(&pid)?.get(&fd).copied()
    }

    /// A descriptor is of that file.
    pub fn set(&mut self, pid: i32, fd: i64, object: ChannelObject) {
        if fd < 0 || self.held >= MAX_DESCRIPTORS {
            return;
        }
        let other = self.known.entry(pid).or_default().insert(fd, object);
        self.held += usize::from(other.is_none());
    }

    pub fn close(&mut self, pid: i32, fd: i64) {
        let Some(own) = self.known.get_mut(&pid) else { return };
        self.held -= usize::from(own.remove(&fd).is_some());
        if own.is_empty() {
            self.known.remove(&pid);
        }
    }

    /// A process inherits those of its maker, where there is room for all of them.
    pub fn fork(&mut self, parent: i32, child: i32) {
        self.forget(child);
        let Some(inherited) = self.known.get(&parent) else { return };
        let count = inherited.len();
        if count > self.room || count > MAX_DESCRIPTORS - self.held {
            return;
        }
        self.room -= count;
        let inherited = inherited.clone();
        self.held += count;
        self.known.insert(child, inherited);
    }

    /// A process is gone.
    pub fn forget(&mut self, pid: i32) {
        self.held -= self.known.remove(&pid).map_or(0, |all| all.len());
    }

    /// Events were lost: any of them may be another file by now.
    pub fn forget_all(&mut self) {
        self.known.clear();
        self.held = 0;
    }

    fn number(&mut self) -> u64 {
        self.count += 1;
        FIRST + self.count
    }

    pub fn socket(&mut self, family: u64, kind: u64) -> Endpoint {
        let protocol = match (family, kind & 0xf) {
            (1, STREAM) => Protocol::UnixStream,
            (1, _) => Protocol::UnixMessages,
            (2 | 10, STREAM) => Protocol::Tcp,
            (2 | 10, DATAGRAM) => Protocol::Udp,
            _ => Protocol::Unknown,
        };
        self.end(protocol)
    }

    pub fn end(&mut self, protocol: Protocol) -> Endpoint {
        Endpoint { protocol, id: self.number(), out: 0, into: 0, local: None, remote: None }
    }

    pub fn pair(&mut self, family: u64, kind: u64) -> [Endpoint; 2] {
        let (one, other) = (self.socket(family, kind), self.socket(family, kind));
        [
            Endpoint { out: one.id, into: other.id, ..one },
            Endpoint { out: other.id, into: one.id, ..other },
        ]
    }

    pub fn pipe(&mut self) -> Local {
        Local::Pipe { inode: self.number(), superblock: 0 }
    }

    pub fn eventfd(&mut self) -> Local {
        Local::Eventfd(self.number())
    }
}

/// The file of that name in a state dump, where it is one to communicate over.
pub fn dumped(name: &[u8]) -> Option<ChannelObject> {
    let name = std::str::from_utf8(name).ok()?;
    let inode = |prefix| name.strip_prefix(prefix)?.strip_suffix(']')?.parse::<u64>().ok();
    if let Some(inode) = inode("pipe:[") {
        return Some(ChannelObject::Local(Local::Pipe { inode, superblock: 0 }));
    }
    Some(ChannelObject::End(super::sockets::unknown(inode("socket:[")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_inherited_and_closed() {
        let mut all = Descriptors::default();
        let pipe = ChannelObject::Local(all.pipe());
        all.set(1, 3, pipe);
        all.set(1, 3, pipe);
        all.fork(1, 2);
        assert_eq!(all.held, 2);
        all.close(1, 3);
        all.close(1, 4);
        assert_eq!(all.held, 1);
        assert_eq!((all.get(1, 3), all.get(2, 3)), (None, Some(pipe)));
        all.forget(2);
        assert_eq!((all.get(2, 3), all.held), (None, 0));
        let [one, other] = all.pair(1, 1);
        assert_eq!((one.out, one.into), (other.into, other.out));
    }

    #[test]
    fn what_forks_in_turn_takes_no_time_without_end() {
        let mut all = Descriptors::default();
        let pipe = ChannelObject::Local(all.pipe());
        for fd in 0..MAX_DESCRIPTORS as i64 / 2 {
            all.set(1, fd, pipe);
        }
        let mut inherited = 0;
        for _ in 0..1_000_000 {
            all.pass();
            all.fork(1, 2);
            inherited += all.known.get(&2).map_or(0, HashMap::len);
            all.forget(2);
        }
        assert!(inherited <= COPIED + 1_000_000 * COPIED_OF_EVENT, "{inherited}");
        // Once less is copied, processes inherit again.
        (0..1_000).for_each(|_| all.pass());
        all.set(3, 7, pipe);
        all.fork(3, 4);
        assert_eq!(all.get(4, 7), Some(pipe));
        // What forks itself has nothing of its own twice.
        all.fork(4, 4);
        assert_eq!((all.get(4, 7), all.held), (None, MAX_DESCRIPTORS / 2 + 1));
    }

    #[test]
    fn state_dumps_name_files() {
        let pipe = Local::Pipe { inode: 45, superblock: 0 };
        assert_eq!(dumped(b"pipe:[45]"), Some(ChannelObject::Local(pipe)));
        assert!(matches!(dumped(b"socket:[7]"), Some(ChannelObject::End(Endpoint { id: 7, .. }))));
        assert_eq!(dumped(b"/dev/null"), None);
        assert_eq!(dumped(b"pipe:[x]"), None);
    }
}
