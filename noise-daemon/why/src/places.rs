//! Where threads sleep at the moment, by the system calls that they are in: what tells a lock from a worker that has nothing
//! to do, which no event of the scheduler does. The kernel says it to root, and to who may debug the threads.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use noise_paths::via::ViaKind;
use noise_system::procfs;

/// How often, and how far apart, it is looked: a lock that is held for 100 ms is seen with one and with another waiter.
const LOOKS: u32 = 15;
const BETWEEN: Duration = Duration::from_millis(8);
/// It is looked so often at least, so that a wait that is short is not taken for the usual one.
const LEAST_LOOKS: u32 = 3;
/// Threads that are looked at.
pub const MOST_THREADS: usize = 64;

/// Futex operations, without their flags.
const FUTEX_WAIT: u64 = 0;
const FUTEX_LOCK_PI: u64 = 6;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_WAIT_REQUEUE_PI: u64 = 11;
const FUTEX_LOCK_PI2: u64 = 13;
const FUTEX_COMMAND: u64 = 0x7f;
/// What a lock's word holds while it is taken and others wait for it: of glibc, Go and all that follow Drepper's *Futexes Are
/// Tricky*, mutex2. Rust's has it as well, but waits with a bitset, as glibc's conditions do.
const CONTENDED: u64 = 2;
/// A word so near above the stack pointer is on the stack of the thread that waits: no lock, but what another thread wakes it
/// by. A condition of musl has 2 in such a word.
const STACK_BYTES: u64 = 64 << 10;

/// What a thread sleeps at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SleepPlace {
    /// Whether it is a lock for certain. Else it may be a lock, a semaphore, or the condition of a queue.
    pub is_lock: bool,
    pub kind: ViaKind,
    /// Which one: the process, and the address there or the file.
    pub key: (i32, u64),
}

impl SleepPlace {
    /// From a thread's file `syscall`: the number of the call and its arguments. `None` of what is neither a lock nor can
    /// be one, and of a thread that runs.
    pub(super) fn parse(text: &str, pid: i32) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let call: i64 = words.next()?.parse().ok()?;
        let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let (first, second, third) = (argument()?, argument()?, argument()?);
        let is_on_own_stack = argument().and(argument()).and(argument()).and(argument());
        let is_on_own_stack = is_on_own_stack
            .is_some_and(|stack| (stack..stack.saturating_add(STACK_BYTES)).contains(&first));
        let of_kind = |is_lock, kind| Some(Self { is_lock, kind, key: (pid, first) });
        let place = |is_lock| of_kind(is_lock, ViaKind::Futex);
        match call {
            libc::SYS_futex => match second & FUTEX_COMMAND {
                FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => place(true),
                FUTEX_WAIT | FUTEX_WAIT_BITSET => {
                    let is_contended = second & FUTEX_COMMAND == FUTEX_WAIT && third == CONTENDED;
                    place(is_contended && !is_on_own_stack)
                }
                FUTEX_WAIT_REQUEUE_PI => place(false),
                _ => None,
            },
            libc::SYS_flock => of_kind(true, ViaKind::File),
            libc::SYS_fcntl => {
                let waits = [libc::F_SETLKW, libc::F_OFD_SETLKW].map(|of| of.cast_unsigned());
                let is_wait = waits.iter().any(|of| u64::from(*of) == second);
                of_kind(true, ViaKind::File).filter(|_| is_wait)
            }
            libc::SYS_semop | libc::SYS_semtimedop => {
                Some(Self { is_lock: false, kind: ViaKind::Semaphore, key: (0, first) })
            }
            _ => None,
        }
    }
}

/// Where threads slept mostly, as far as that can be a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    pub of: BTreeMap<i32, SleepPlace>,
    /// Whether the kernel does not say it to this user.
    pub is_denied: bool,
}

/// What each of some threads was seen at most often.
pub struct Seen<T> {
    pub of: BTreeMap<i32, T>,
    /// Whether the kernel does not say it to this user.
    pub is_denied: bool,
}

/// Looks at a file of each of these threads, which come with their processes, for a tenth of a second at most.
/// `parse` makes something of it.
pub fn see<T: Ord>(
    file: &str,
    threads: &BTreeSet<(i32, i32)>,
    parse: impl Fn(&str, (i32, i32)) -> Option<T>,
) -> Seen<T> {
    let threads: Vec<_> = threads.iter().copied().take(MOST_THREADS).collect();
    let mut seen: BTreeMap<i32, BTreeMap<T, u32>> = BTreeMap::new();
    for number in 0..LOOKS {
        let mut is_denied = false;
        for (tid, pid) in &threads {
            match procfs::text(format!("/proc/{tid}/{file}")) {
                Ok(text) => {
                    if let Some(place) = parse(&text, (*tid, *pid)) {
                        *seen.entry(*tid).or_default().entry(place).or_default() += 1;
                    }
                }
                Err(error) => {
                    is_denied |= error.kind() == std::io::ErrorKind::PermissionDenied;
                }
            }
        }
        if is_denied && seen.is_empty() {
            return Seen { of: BTreeMap::new(), is_denied };
        }
        if seen.len() == threads.len() && number + 1 >= LEAST_LOOKS {
            break;
        }
        thread::sleep(BETWEEN);
    }
    Seen { of: mostly(seen), is_denied: false }
}

impl Places {
    /// Looks at these threads, each with its process.
    pub fn look(threads: &BTreeSet<(i32, i32)>) -> Self {
        let seen = see("syscall", threads, |text, (_, pid)| SleepPlace::parse(text, pid));
        Self { of: seen.of, is_denied: seen.is_denied }
    }
}

/// What each was seen at most often.
fn mostly<T>(seen: BTreeMap<i32, BTreeMap<T, u32>>) -> BTreeMap<i32, T> {
    let most = |(tid, places): (i32, BTreeMap<T, u32>)| {
        let (place, _) = places.into_iter().max_by_key(|(_, times)| *times)?;
        Some((tid, place))
    };
    seen.into_iter().filter_map(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_say_what_a_thread_sleeps_at() {
        let futex = libc::SYS_futex;
        let of = |text: String| SleepPlace::parse(&text, 7).map(|place| (place.is_lock, place.key));
        // A mutex of glibc, a condition, a lock with priority inheritance.
        assert_eq!(
            of(format!("{futex} 0x7f10 0x80 0x2 0x0 0x0 0x0 0x7ffc 0x7f")),
            Some((true, (7, 0x7f10)))
        );
        assert_eq!(
            of(format!("{futex} 0x7f10 0x189 0x0 0x0 0x0 0x0 0x7ffc 0x7f")),
            Some((false, (7, 0x7f10)))
        );
        assert_eq!(
            of(format!("{futex} 0x7f10 0x86 0x0 0x0 0x0 0x0 0x7ffc 0x7f")),
            Some((true, (7, 0x7f10)))
        );
        // A condition of musl: the word lies on the stack of the one that waits.
        assert_eq!(
            of(format!("{futex} 0x7ffc80 0x80 0x2 0x0 0x0 0x0 0x7ffc00 0x7f")),
            Some((false, (7, 0x7ffc80)))
        );
        // One that wakes, sleeps in a file's lock, on a timer, runs, or is outside of a call.
        assert_eq!(of(format!("{futex} 0x7f10 0x81 0x1 0x0 0x0 0x0 0x7ffc 0x7f")), None);
        assert_eq!(
            of(format!("{} 0x3 0x2 0x0 0x0 0x0 0x0 0x7ffc 0x7f", libc::SYS_flock)),
            Some((true, (7, 3)))
        );
        assert_eq!(
            of(format!("{} 0x0 0x0 0x7ffc 0x0 0x0 0x0 0x7ffc 0x7f", libc::SYS_clock_nanosleep)),
            None
        );
        for text in ["running", "-1 0x7ffc 0x7f", "", "202", "202 0x1 x 0x2"] {
            assert_eq!(of(text.to_owned()), None, "{text}");
        }
    }

    #[test]
    fn a_thread_is_where_it_is_seen_most_often() {
        let place = |is_lock, key| SleepPlace { is_lock, kind: ViaKind::Futex, key: (7, key) };
        let seen = [(8, [(place(true, 1), 2), (place(false, 2), 9)].into()), (9, BTreeMap::new())];
        assert_eq!(mostly(seen.into()), [(8, place(false, 2))].into());
    }
}
