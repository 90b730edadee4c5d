//! Files of a task, by their descriptors, and what they are about.
//!
//! The table of files is a pointer to pointers, which the verifier knows no type of: from there on, probes.

use noise_common::store::calls::ObjectKind;
use noise_common::store::ipc::StoredObject;

use super::sock::Sock;
use super::{
    Access, Address, DENTRY_NAME, DENTRY_NAME_OLD, EVENTFD_ID, FILE_DENTRY, FILE_INODE,
    FILE_PRIVATE, FILES_TABLE, Head, INODE_MODE, INODE_NUMBER, INODE_SB, SB_DEV, SB_MAGIC,
    SOCKET_SOCK, TABLE_FILES, TABLE_SIZE, TASK_FILES, TaskStruct, present, probe,
};

/// Words of a file and of an inode that have, on most kernels, all that is asked for.
const FILE_WORDS: usize = 6;
const INODE_WORDS: usize = 9;
/// Types of files (`S_IFMT` and below, of the kernel's `stat.h`).
const FORMAT: u16 = 0o170_000;
const SOCKET: u16 = 0o140_000;
const FIFO: u16 = 0o010_000;
const REGULAR: u16 = 0o100_000;
/// File systems (`ANON_INODE_FS_MAGIC` of the kernel's `magic.h`, `MQUEUE_MAGIC` of its `mqueue.c`).
const ANONYMOUS: u64 = 0x0904_1934;
const MESSAGE_QUEUES: u64 = 0x1980_0202;
/// First bytes of the names of files without any.
const EVENTFD: u64 = u64::from_le_bytes(*b"[eventfd");
const EPOLL: u64 = u64::from_le_bytes(*b"[eventpo");
const SIGNALFD: u64 = u64::from_le_bytes(*b"[signalf");

/// What a descriptor stands for.
#[derive(Clone, Copy)]
pub struct Found {
    /// The object; of no kind where the file is none of communication.
    pub object: StoredObject,
    /// Address of its `sock`; 0 where it is none.
    pub sock: u64,
}

impl Found {
    pub const NONE: Self = Self::new(ObjectKind::None, 0);

    /// A file that could not be looked up.
    pub const UNKNOWN: Self = Self::new(ObjectKind::Unknown, 0);

    const fn new(kind: ObjectKind, key: u64) -> Self {
        Self { object: StoredObject { kind, key }, sock: 0 }
    }

    /// Whether it is a file of communication.
    #[inline(always)]
    pub fn is_ipc(self) -> bool {
        !matches!(self.object.kind, ObjectKind::None | ObjectKind::Unknown)
    }
}

/// Two numbers in one.
#[inline(always)]
const fn pair(low: u64, high: u32) -> u64 {
    low & 0xffff_ffff | (high as u64) << 32
}

/// What a descriptor of the task stands for.
#[inline(always)]
pub fn look_up<A: Access>(task: TaskStruct<A>, descriptor: u32) -> Found {
    let access = task.access;
    let needed = [TASK_FILES.load(), FILES_TABLE.load(), TABLE_FILES.load(), FILE_INODE.load()];
    if !needed.into_iter().all(present) {
        return Found::UNKNOWN;
    }
    let files: Address = access.load(task.at, TASK_FILES.load());
    let table: Address = access.follow(files, FILES_TABLE.load());
    let size: u32 = access.follow(table, TABLE_SIZE.load());
    if descriptor >= size {
        return Found::UNKNOWN;
    }
    let places: u64 = access.follow(table, TABLE_FILES.load());
    let file: u64 = probe(places + 8 * u64::from(descriptor), 0);
    if file == 0 {
        return Found::UNKNOWN;
    }
    let file = Head::<FILE_WORDS>::at(file);
    let inode = Head::<INODE_WORDS>::at(file.get(FILE_INODE.load()));
    let number = || inode.get::<u64>(INODE_NUMBER.load());
    match inode.get::<u16>(INODE_MODE.load()) & FORMAT {
        SOCKET => {
            let socket: u64 = file.get(FILE_PRIVATE.load());
            let Some(sock) = Sock::at(probe(socket, SOCKET_SOCK.load())) else {
                return Found::UNKNOWN;
            };
            let (kind, beside) = sock.identity();
            let object = StoredObject { kind, key: pair(number(), beside) };
            Found { object, sock: sock.address() }
        }
        FIFO => {
            let device: u32 = probe(inode.get(INODE_SB.load()), SB_DEV.load());
            Found::new(ObjectKind::Pipe, pair(number(), device))
        }
        0 | REGULAR => nameless(&file, &inode),
        _ => Found::NONE,
    }
}

/// A file that is none of a disk.
#[inline(always)]
fn nameless(file: &Head<FILE_WORDS>, inode: &Head<INODE_WORDS>) -> Found {
    let system: u64 = inode.get(INODE_SB.load());
    match probe::<u64>(system, SB_MAGIC.load()) {
        ANONYMOUS => {
            let dentry: u64 = file.get(FILE_DENTRY.load());
            let (name, old) = (DENTRY_NAME.load(), DENTRY_NAME_OLD.load());
            let name: u64 = probe(dentry, if present(name) { name } else { old });
            let context = || file.get::<u64>(FILE_PRIVATE.load());
            match name {
                EVENTFD => {
                    let id: u32 = probe(context(), EVENTFD_ID.load());
                    Found::new(ObjectKind::Eventfd, u64::from(id))
                }
                EPOLL => Found::new(ObjectKind::Epoll, context()),
                SIGNALFD => Found::new(ObjectKind::Signalfd, context()),
                _ => Found::NONE,
            }
        }
        MESSAGE_QUEUES => {
            let device: u32 = probe(system, SB_DEV.load());
            let number: u64 = inode.get(INODE_NUMBER.load());
            Found::new(ObjectKind::Mqueue, pair(number, device))
        }
        _ => Found::NONE,
    }
}
