//! IO: which threads the kernel holds back because they write to files faster than a disk takes it, or until it has written
//! their pages or a journal, as `/proc` says it while a page is made. It says so to root alone.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use noise_system::procfs;

use super::places::see;

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

/// What is seen of writeback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writeback {
    /// Threads that waited for it in most looks that found them in an uninterruptible sleep.
    pub seen: BTreeSet<i32>,
    /// Whether the kernel does not say it to this user.
    pub is_denied: bool,
}

/// Whether that is where the kernel waits for writeback, by a thread's file `wchan`.
fn of_writeback(text: &str) -> bool {
    OF_WRITEBACK.iter().any(|function| text.starts_with(function))
}

/// Whether a thread sleeps uninterruptibly at the moment.
fn is_uninterruptible(tid: i32) -> bool {
    let stat = procfs::text(format!("/proc/{tid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('D'))
}

/// Looks at threads that slept uninterruptibly for what is not known, which come with their processes.
pub fn look(threads: &BTreeSet<(i32, i32)>) -> Writeback {
    // Where a thread sleeps otherwise is not where it slept uninterruptibly. Where it is seen as often in one as in the other,
    // it counts as the other.
    let place = |text: &str, (tid, _)| {
        let is_there = of_writeback(text);
        (is_there || is_uninterruptible(tid)).then_some(Reverse(is_there))
    };
    let seen = see("wchan", threads, place);
    // To others the kernel says 0 of every thread, and no error.
    let is_denied = !nix::unistd::geteuid().is_root();
    let there = seen.of.into_iter().filter(|(_, Reverse(is_there))| *is_there);
    Writeback { seen: there.map(|(tid, _)| tid).collect(), is_denied }
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
            assert!(!of_writeback(text), "{text}");
        }
    }

    #[test]
    fn threads_that_sleep_elsewhere_are_not_held_back() {
        let own = nix::unistd::gettid().as_raw();
        assert_eq!(look(&[(own, own)].into()).seen, BTreeSet::new());
    }
}
