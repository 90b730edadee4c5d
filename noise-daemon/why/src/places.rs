//! Where threads sleep at the moment, by the system calls that they are in: what tells a lock from a worker that has nothing
//! to do, which no event of the scheduler does. The kernel says it to root, and to who may debug the threads.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use noise_system::procfs;

/// How often, and how far apart, it is looked: a lock that is held for 100 ms is seen with one and with another waiter.
const LOOKS: u32 = 15;
const BETWEEN: Duration = Duration::from_millis(8);
/// It is looked so often at least, so that a wait that is short is not taken for the usual one.
const LEAST_LOOKS: u32 = 3;
/// Threads that are looked at.
pub const MOST_THREADS: usize = 64;
/// The same where a look is for timers: many threads sleep on those.
const MOST_ON_TIMERS: usize = 256;

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
/// A condition of glibc has two words beside each other, which take turns.
const CONDITION_WORDS: u64 = 7;
/// Calls that receive, whose limit of time is a setting of the socket.
const RECEIVES: [i64; 4] =
    [libc::SYS_read, libc::SYS_recvfrom, libc::SYS_recvmsg, libc::SYS_recvmmsg];

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

/// Whether in a call a program waits for work, or for a time.
pub fn is_for_work(call: i64) -> bool {
    FOR_WORK.contains(&call) || FOR_WORK_TOO.contains(&call)
}

/// What a thread sleeps at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SleepPlace {
    /// Whether it is a lock for certain. Else it may be a lock, a semaphore, or the condition of a queue.
    pub is_lock: bool,
    /// Which one: the process, and the address there or the file.
    pub key: (i32, u64),
}

impl SleepPlace {
    /// From a thread's file `syscall`: the number of the call and its arguments. `None` of what is neither a lock nor can
    /// be one, and of a thread that runs.
    pub(super) fn parse(text: &str, pid: i32) -> Option<Self> {
        match SleepKind::parse(text, pid)? {
            SleepKind::At { place, .. } => Some(place),
            SleepKind::ForTime => None,
        }
    }
}

/// What a thread sleeps for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SleepKind {
    /// Another thread, at that place; a timer ends the sleep where it has a limit of time.
    At { place: SleepPlace, has_limit: bool },
    /// Work from outside, or a time: a timer that ends it is its own.
    ForTime,
}

impl SleepKind {
    /// From a thread's file `syscall`; `None` of all else, and of a thread that runs.
    fn parse(text: &str, pid: i32) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let call: i64 = words.next()?.parse().ok()?;
        // Behind a stop, a wait with a limit of time goes on in a call that does not say what it is for.
        let is_for_time = call != libc::SYS_restart_syscall && is_for_work(call);
        if is_for_time || RECEIVES.contains(&call) {
            return Some(Self::ForTime);
        }
        let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let (first, second, third) = (argument()?, argument()?, argument()?);
        let has_limit = argument().is_some_and(|timeout| timeout != 0);
        let is_on_own_stack = argument().and(argument()).and(argument());
        let is_on_own_stack = is_on_own_stack
            .is_some_and(|stack| (stack..stack.saturating_add(STACK_BYTES)).contains(&first));
        let at = |is_lock, first, has_limit| {
            let place = SleepPlace { is_lock, key: (pid, first) };
            Some(Self::At { place, has_limit })
        };
        match call {
            libc::SYS_futex => match second & FUTEX_COMMAND {
                FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => at(true, first, has_limit),
                FUTEX_WAIT => at(third == CONTENDED && !is_on_own_stack, first, has_limit),
                FUTEX_WAIT_BITSET => at(false, first & !CONDITION_WORDS, has_limit),
                FUTEX_WAIT_REQUEUE_PI => at(false, first, has_limit),
                _ => None,
            },
            libc::SYS_flock => at(true, first, false),
            libc::SYS_fcntl => {
                let waits = [libc::F_SETLKW, libc::F_OFD_SETLKW].map(|of| of.cast_unsigned());
                let is_wait = waits.iter().any(|of| u64::from(*of) == second);
                if is_wait { at(true, first, false) } else { None }
            }
            libc::SYS_semop | libc::SYS_semtimedop => {
                let place = SleepPlace { is_lock: false, key: (0, first) };
                Some(Self::At { place, has_limit: has_limit && call == libc::SYS_semtimedop })
            }
            _ => None,
        }
    }
}

/// Where threads slept mostly, as far as that can be a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    pub of: BTreeMap<i32, SleepPlace>,
    /// Where those wait for another thread that do so with a limit of time, were it in one look alone.
    pub limited: BTreeMap<i32, (i32, u64)>,
    /// Those that were seen asleep for a time, or for work from outside.
    pub for_time: BTreeSet<i32>,
    /// Whether the kernel does not say it to this user.
    pub is_denied: bool,
}

/// What each of some threads was seen at, and how often.
struct Looks<T> {
    of: BTreeMap<i32, BTreeMap<T, u32>>,
    is_denied: bool,
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
    let threads = threads.iter().copied().take(MOST_THREADS);
    let Looks { of, is_denied } = looks(file, threads, parse, |_, _| true);
    Seen {
        of: of.into_iter().filter_map(|(tid, seen)| Some((tid, mostly(seen)?))).collect(),
        is_denied,
    }
}

/// The same, with all that is seen: until it is enough of each thread.
fn looks<T: Ord>(
    file: &str,
    threads: impl Iterator<Item = (i32, i32)>,
    parse: impl Fn(&str, (i32, i32)) -> Option<T>,
    is_enough: impl Fn(i32, &BTreeMap<T, u32>) -> bool,
) -> Looks<T> {
    let threads: Vec<_> = threads.collect();
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
            return Looks { of: BTreeMap::new(), is_denied };
        }
        let is_seen = |(tid, _): &(i32, i32)| seen.get(tid).is_some_and(|of| is_enough(*tid, of));
        if number + 1 >= LEAST_LOOKS && threads.iter().all(is_seen) {
            break;
        }
        thread::sleep(BETWEEN);
    }
    Looks { of: seen, is_denied: false }
}

impl Places {
    /// Looks at these threads, each with its process: those that may wait for locks, and those that slept until timers.
    pub fn look(candidates: &BTreeSet<(i32, i32)>, on_timers: &BTreeSet<(i32, i32)>) -> Self {
        let others = on_timers.difference(candidates).take(MOST_ON_TIMERS);
        let threads = candidates.iter().take(MOST_THREADS).chain(others).copied();
        let may_wait: BTreeSet<i32> = candidates.iter().map(|(tid, _)| *tid).collect();
        // Who holds a lock while it sleeps for a time is seen at that lock later.
        let is_enough = |tid, kinds: &BTreeMap<SleepKind, u32>| {
            !may_wait.contains(&tid)
                || kinds.keys().any(|kind| matches!(kind, SleepKind::At { .. }))
        };
        let parse = |text: &str, (_, pid)| SleepKind::parse(text, pid);
        let Looks { of, is_denied } = looks("syscall", threads, parse, is_enough);
        Self { is_denied, ..Self::of(of) }
    }

    /// Of what each thread was seen at, and how often.
    fn of(looks: BTreeMap<i32, BTreeMap<SleepKind, u32>>) -> Self {
        let mut places = Self::default();
        for (tid, kinds) in looks {
            let mut at: BTreeMap<SleepPlace, u32> = BTreeMap::new();
            for (kind, times) in kinds {
                match kind {
                    SleepKind::ForTime => {
                        places.for_time.insert(tid);
                    }
                    SleepKind::At { place, has_limit } => {
                        *at.entry(place).or_default() += times;
                        if has_limit {
                            places.limited.insert(tid, place.key);
                        }
                    }
                }
            }
            places.of.extend(mostly(at).map(|place| (tid, place)));
        }
        places
    }
}

/// What was seen most often.
fn mostly<T>(seen: BTreeMap<T, u32>) -> Option<T> {
    seen.into_iter().max_by_key(|(_, times)| *times).map(|(place, _)| place)
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
    fn a_thread_is_where_it_is_seen_most_often_and_has_a_limit_where_one_look_shows_it() {
        let place = |is_lock, key| SleepPlace { is_lock, key: (7, key) };
        let at = |is_lock, key, has_limit| SleepKind::At { place: place(is_lock, key), has_limit };
        let looks = [
            (
                8,
                [(at(true, 1, false), 2), (at(false, 2, false), 5), (at(false, 2, true), 4)].into(),
            ),
            (9, BTreeMap::new()),
            (10, [(SleepKind::ForTime, 9), (at(true, 3, true), 1)].into()),
            (11, [(SleepKind::ForTime, 1)].into()),
        ];
        let expected = Places {
            of: [(8, place(false, 2)), (10, place(true, 3))].into(),
            limited: [(8, (7, 2)), (10, (7, 3))].into(),
            for_time: [10, 11].into(),
            is_denied: false,
        };
        assert_eq!(Places::of(looks.into()), expected);
    }

    #[test]
    fn calls_say_whether_a_wait_has_a_limit_of_time() {
        let of = |call: i64, arguments: &str| {
            let text = format!("{call} {arguments} 0x0 0x0 0x7ffc 0x7f");
            SleepKind::parse(&text, 7).map(|kind| match kind {
                SleepKind::At { place, has_limit } => Some((place.is_lock, place.key.1, has_limit)),
                SleepKind::ForTime => None,
            })
        };
        let futex = libc::SYS_futex;
        // A mutex with priority inheritance, both words of a condition, a semaphore of System V.
        assert_eq!(of(futex, "0x7f14 0x86 0x0 0x7ffd"), Some(Some((true, 0x7f14, true))));
        assert_eq!(of(futex, "0x7f14 0x86 0x0 0x0"), Some(Some((true, 0x7f14, false))));
        assert_eq!(of(futex, "0x7f10 0x189 0x0 0x7ffd"), Some(Some((false, 0x7f10, true))));
        assert_eq!(of(futex, "0x7f14 0x189 0x0 0x7ffd"), Some(Some((false, 0x7f10, true))));
        assert_eq!(of(futex, "0x7f14 0x189 0x0 0x0"), Some(Some((false, 0x7f10, false))));
        let timed = libc::SYS_semtimedop;
        assert_eq!(of(timed, "0x3 0x7f 0x1 0x7ffd"), Some(Some((false, 0x3, true))));
        assert_eq!(of(libc::SYS_semop, "0x3 0x7f 0x1 0x7ffd"), Some(Some((false, 0x3, false))));
        // A time, work, and calls of which a timer says nothing.
        assert_eq!(of(libc::SYS_clock_nanosleep, "0x0 0x0 0x7ffc 0x0"), Some(None));
        assert_eq!(of(libc::SYS_epoll_pwait, "0x5 0x7f10 0x40 0x64"), Some(None));
        assert_eq!(of(libc::SYS_flock, "0x3 0x2 0x0 0x9"), Some(Some((true, 3, false))));
        for (call, arguments) in [
            (libc::SYS_fsync, "0x3 0x0 0x0 0x0"),
            (libc::SYS_restart_syscall, "0x0 0x0 0x0 0x0"),
            (-1, "0x7ffc 0x7f"),
        ] {
            assert_eq!(of(call, arguments), None, "{call}");
        }
    }
}
