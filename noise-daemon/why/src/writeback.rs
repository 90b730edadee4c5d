//! IO: which threads the kernel holds back because they write to files faster than a disk takes it, or until it has written
//! their pages or a journal, as `/proc` says it while a page is made. It says so to root alone.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use noise_system::procfs;

use super::places::see;
use super::who::state;

/// Functions of the kernel in which a thread waits until data are written back: until a disk takes what is written,
/// for pages on their way to it, for a journal. What is called inside of them is part of them. None is one in which
/// it waits for what is read.
const OF_WRITEBACK: [&str; 10] = [
    "balance_dirty_pages",
    "folio_wait_writeback",
    "folio_wait_stable",
    "wait_on_page_writeback",
    "wait_transaction_locked",
    "add_transaction_credits",
    "start_this_handle",
    // Of XFS: the log is on its way to the disk, or has no room until it was there.
    "xlog_wait",
    "xlog_force_lsn",
    "xlog_grant_head_wait",
];

const MOST_LOOKS: u32 = 3;
const BETWEEN_LOOKS: Duration = Duration::from_millis(40);

/// How the names of functions end in which a thread waits for the lock of a file.
const OF_FILE_LOCKS: [&str; 4] =
    ["_write_iter", "_buffered_write", "btrfs_inode_lock", "xfs_ilock"];

/// Where an uninterruptible sleep is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SleepsIn {
    Writeback,
    FileLock,
    Other,
}

/// What is seen of writeback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writeback {
    /// Threads that waited for it in most looks that found them in an uninterruptible sleep.
    pub seen: BTreeSet<i32>,
    /// Threads that waited for it in any look, with their processes.
    pub ever: BTreeSet<(i32, i32)>,
    /// Threads that waited for a lock of a file in most looks, with their processes.
    pub at_file_locks: BTreeSet<(i32, i32)>,
    /// Whether the kernel does not say it to this user.
    pub is_denied: bool,
}

/// Whether that is where the kernel waits for writeback, by a thread's file `wchan`.
fn of_writeback(text: &str) -> bool {
    OF_WRITEBACK.iter().any(|function| text.starts_with(function))
}

/// Whether that is where it waits for the lock of a file.
fn of_file_lock(text: &str) -> bool {
    OF_FILE_LOCKS.iter().any(|name| text.trim_end().ends_with(name))
}

/// What each of these processes has written so far, bytes: to the page cache, or past it to a disk.
pub fn written(pids: &BTreeSet<i32>) -> BTreeMap<i32, u64> {
    let bytes = |pid: &i32| {
        let text = procfs::text(format!("/proc/{pid}/io")).ok()?;
        let bytes = text.lines().find_map(|line| line.strip_prefix("write_bytes: "))?;
        Some((*pid, bytes.parse().ok()?))
    };
    pids.iter().filter_map(bytes).collect()
}

/// Looks at threads that slept uninterruptibly for what is not known, which come with their processes: again where none of
/// them is in writeback at that moment.
pub fn look(threads: &BTreeSet<(i32, i32)>) -> Writeback {
    let mut found = look_once(threads);
    for _ in 1..MOST_LOOKS {
        if found.is_denied || !found.ever.is_empty() {
            break;
        }
        thread::sleep(BETWEEN_LOOKS);
        let again = look_once(threads);
        // A thread that sleeps for a short time may be in two places.
        found.at_file_locks.extend(again.at_file_locks);
        found = Writeback { at_file_locks: found.at_file_locks, ..again };
    }
    found
}

fn look_once(threads: &BTreeSet<(i32, i32)>) -> Writeback {
    let ever = RefCell::new(BTreeSet::new());
    // Where a thread sleeps otherwise is not where it slept uninterruptibly. Where it is seen as often in one as in the other,
    // it counts as the other.
    let place = |text: &str, (tid, pid)| {
        if of_writeback(text) {
            ever.borrow_mut().insert((tid, pid));
            return Some(SleepsIn::Writeback);
        }
        let place = if of_file_lock(text) { SleepsIn::FileLock } else { SleepsIn::Other };
        (state(tid) == Some(b'D')).then_some(place)
    };
    let seen = see("wchan", threads, place);
    // To others the kernel says 0 of every thread, and no error.
    let is_denied = !nix::unistd::geteuid().is_root();
    let at = |place| {
        let seen = &seen.of;
        threads.iter().filter(move |(tid, _)| seen.get(tid) == Some(place)).copied()
    };
    Writeback {
        seen: at(&SleepsIn::Writeback).map(|(tid, _)| tid).collect(),
        at_file_locks: at(&SleepsIn::FileLock).collect(),
        ever: ever.take(),
        is_denied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_kernel_say_what_is_waited_for() {
        for text in
            ["balance_dirty_pages", "balance_dirty_pages_ratelimited_flags", "xlog_wait_on_iclog"]
        {
            assert!(of_writeback(text), "{text}");
        }
        for text in ["0", "", "do_epoll_wait", "folio_wait_bit_common", "blk_mq_get_tag"] {
            assert!(!of_writeback(text) && !of_file_lock(text), "{text}");
        }
        for text in ["ext4_buffered_write_iter", "xfs_ilock", "btrfs_inode_lock"] {
            assert!(of_file_lock(text) && !of_writeback(text), "{text}");
        }
    }

    #[test]
    fn threads_that_sleep_elsewhere_are_not_held_back() {
        let own = nix::unistd::gettid().as_raw();
        let found = look(&[(own, own)].into());
        assert!(found.seen.is_empty() && found.ever.is_empty() && found.at_file_locks.is_empty());
    }
}
