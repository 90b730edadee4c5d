//! Threads that the kernel holds back, because they write to files faster than a disk takes it.
//!
//! The kernel says so in the thread itself, just before its pause (`balance_dirty_pages`). A thread that waits meanwhile
//! for a lock which such a thread has waits for that disk as well: a sleep counts as far as the thread that ended it was
//! held back since the sleep began. Who is woken so has been held back itself, for those who wait for it in turn.

/// How many threads are known at a time, a power of two: one replaces another with the same lowest bits of its number.
pub const HELD_BACK: usize = 512;

/// Pauses that are further apart, ns, are counted anew. The kernel's own are up to 200 ms long, and between two of them a
/// thread has a few pages to write.
const APART_NS: u64 = 250_000_000;

/// From what the kernel says until the thread sleeps, at most, ns: what comes later is another sleep.
const SOON_NS: u64 = 1_000_000_000;

/// The time for which pauses are added up, ns: later, those of its older half are forgotten.
const LONGEST_NS: u64 = 1 << 36;

/// What is known of a thread that was held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct HeldBack {
    /// The thread; 0 in a free entry.
    pub pid: u64,
    /// The device whose pages it waits for, as a queue of [`crate::queue`].
    pub queue: u64,
    /// What had been dirtied there before what was dirty then.
    pub mark: u64,
    /// When the call began that holds it back, as the kernel has it: each pause of a call is announced.
    pub call: u64,
    /// When the pause was announced that has not ended yet, ns; 0 = none was.
    pub told_ns: u64,
    /// Since when pauses are added up, and until when, ns.
    pub since_ns: u64,
    pub until_ns: u64,
    /// Their sum, ns.
    pub held_ns: u64,
}

/// What a sleep that ends was for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// See [`HeldBack::queue`].
    pub queue: u64,
    /// See [`HeldBack::mark`].
    pub mark: u64,
    /// How much of it, ns.
    pub held_ns: u64,
}

/// The entry of a thread.
#[inline(always)]
pub const fn held_back_slot(pid: u32) -> u32 {
    pid & (HELD_BACK as u32 - 1)
}

impl HeldBack {
    /// Whether this is the first that is heard of a call: the pages that a thread has dirtied are those of the call.
    #[inline(always)]
    pub fn is_first_of(&self, pid: u32, call: u64) -> bool {
        self.pid != u64::from(pid) || self.call != call
    }

    /// A pause of a thread is announced.
    #[inline(always)]
    pub fn announce(&mut self, pid: u32, queue: u64, mark: u64, call: u64, now_ns: u64) {
        self.take(pid, queue, now_ns);
        self.mark = mark;
        self.call = call;
        self.told_ns = now_ns;
    }

    /// Whether a sleep of a thread, which ends now, is the pause that was announced.
    #[inline(always)]
    pub fn ends_pause(&mut self, pid: u32, since_ns: u64) -> bool {
        if self.pid != u64::from(pid) || self.told_ns == 0 {
            return false;
        }
        let told_ns = self.told_ns;
        self.told_ns = 0;
        since_ns >= told_ns && since_ns - told_ns <= SOON_NS
    }

    /// How long a thread was held back since then, ns.
    #[inline(always)]
    pub fn held_since(&self, pid: u32, since_ns: u64) -> u64 {
        if self.pid != u64::from(pid) || self.until_ns <= since_ns {
            return 0;
        }
        let length_ns = self.until_ns - self.since_ns;
        if self.since_ns >= since_ns || length_ns == 0 {
            return self.held_ns;
        }
        if length_ns > 2 * LONGEST_NS {
            // Products must fit 64 bits.
            return 0;
        }
        // Of pauses that began before, the part that lies after it, as if all were spread evenly.
        let (part, length) = ((self.until_ns - since_ns) >> 12, (length_ns >> 12) + 1);
        self.held_ns * part / length
    }

    /// So much of a sleep, ns, for the pages that this thread waited for last.
    #[inline(always)]
    pub const fn behind(&self, held_ns: u64) -> Behind {
        Behind { queue: self.queue, mark: self.mark, held_ns }
    }

    /// Adds a sleep to a thread's pauses.
    #[inline(always)]
    pub fn add(&mut self, pid: u32, behind: Behind, since_ns: u64, now_ns: u64) {
        let Behind { queue, mark, held_ns } = behind;
        self.take(pid, queue, since_ns);
        self.mark = mark;
        self.until_ns = now_ns;
        self.held_ns += held_ns;
        if now_ns - self.since_ns > LONGEST_NS {
            self.since_ns += (now_ns - self.since_ns) / 2;
            self.held_ns /= 2;
        }
    }

    /// Begins anew for another thread or device, and where the last pause was long ago.
    #[inline(always)]
    fn take(&mut self, pid: u32, queue: u64, now_ns: u64) {
        let is_same = self.pid == u64::from(pid) && self.queue == queue;
        if is_same && now_ns <= self.until_ns.wrapping_add(APART_NS) {
            return;
        }
        self.pid = u64::from(pid);
        self.queue = queue;
        self.call = 0;
        self.told_ns = 0;
        self.since_ns = now_ns;
        self.until_ns = now_ns;
        self.held_ns = 0;
    }
}

const _: () = assert!(HELD_BACK.is_power_of_two());
const _: () = assert!(size_of::<HeldBack>() == 64);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    const MS: u64 = 1_000_000;
    const DISK: u64 = 7 << 20;

    /// A thread that was held back from 1,000 ms on for 100 ms, 3 times in a row.
    fn held() -> HeldBack {
        let mut one = HeldBack::default();
        for turn in 0..3 {
            let (begin_ns, end_ns) = ((1_000 + 101 * turn) * MS, (1_100 + 101 * turn) * MS);
            one.announce(5, DISK, 70, 4_000, begin_ns);
            assert!(one.ends_pause(5, begin_ns + 1));
            one.add(5, one.behind(end_ns - begin_ns), begin_ns, end_ns);
        }
        one
    }

    #[test]
    fn a_pause_is_the_next_sleep_of_its_thread() {
        let mut one = HeldBack::default();
        assert!(!one.ends_pause(0, 0) && one.is_first_of(5, 4_000));
        one.announce(5, DISK, 70, 4_000, 1_000 * MS);
        assert!(
            !one.is_first_of(5, 4_000) && one.is_first_of(5, 4_001) && one.is_first_of(6, 4_000)
        );
        assert!(!one.ends_pause(6, 1_001 * MS));
        assert!(one.ends_pause(5, 1_001 * MS));
        // It has ended.
        assert!(!one.ends_pause(5, 1_001 * MS));
        one.announce(5, DISK, 70, 4_100, 2_000 * MS);
        assert!(!one.ends_pause(5, 3_001 * MS));
        one.announce(5, DISK, 70, 4_200, 4_000 * MS);
        // It slept already when that was said.
        assert!(!one.ends_pause(5, 3_999 * MS));
    }

    #[test]
    fn who_waits_for_it_was_held_back_as_long_as_it_was_meanwhile() {
        let one = held();
        assert_eq!((one.since_ns, one.until_ns, one.held_ns), (1_000 * MS, 1_302 * MS, 300 * MS));
        assert_eq!(one.held_since(5, 900 * MS), 300 * MS);
        assert_eq!(one.held_since(5, 1_302 * MS), 0);
        assert_eq!(one.held_since(6, 900 * MS), 0);
        let part = one.held_since(5, 1_151 * MS);
        assert!(part.abs_diff(150 * MS) < MS, "{part}");
    }

    #[test]
    fn those_behind_it_pass_it_on() {
        let holder = held();
        let mut second = HeldBack::default();
        let behind = holder.behind(holder.held_since(5, 950 * MS));
        second.add(6, behind, 950 * MS, 1_302 * MS);
        second.announce(6, DISK, 90, 4_400, 1_310 * MS);
        assert!(second.ends_pause(6, 1_310 * MS));
        second.add(6, second.behind(100 * MS), 1_310 * MS, 1_410 * MS);
        // Who waits since before the first of them waited for all of them.
        assert_eq!(second.held_since(6, 940 * MS), 400 * MS);
        assert_eq!(second.mark, 90);
    }

    #[test]
    fn another_thread_another_disk_and_a_long_rest_begin_anew() {
        let one = held();
        for (pid, queue, at_ns) in [(517, DISK, 1_310), (5, DISK + 1, 1_310), (5, DISK, 1_553)]
            .map(|(a, b, c)| (a, b, c * MS))
        {
            let mut next = one;
            next.announce(pid, queue, 0, 9_000, at_ns);
            assert_eq!(next.held_since(5, 0), 0, "{next:?}");
            assert_eq!((next.since_ns, next.held_ns), (at_ns, 0));
        }
        let mut goes_on = one;
        goes_on.announce(5, DISK, 0, 9_000, 1_552 * MS);
        assert_eq!(goes_on.held_ns, one.held_ns);
        assert_eq!(held_back_slot(517), held_back_slot(5));
    }

    proptest! {
        #[test]
        fn no_thread_is_held_back_for_longer_than_time_went_by(
            pauses in proptest::collection::vec((0u64..400 * MS, 0u64..40_000 * MS), 1..40),
            asked in 0u64..2_000_000 * MS,
        ) {
            let (mut one, mut now_ns) = (HeldBack::default(), MS);
            for (rest_ns, pause_ns) in pauses {
                now_ns += rest_ns;
                one.announce(5, DISK, 0, now_ns, now_ns);
                one.add(5, one.behind(pause_ns), now_ns, now_ns + pause_ns);
                now_ns += pause_ns;
                for since_ns in [asked % now_ns, 0, one.since_ns] {
                    let held_ns = one.held_since(5, since_ns);
                    prop_assert!(held_ns <= now_ns - since_ns, "{one:?} {since_ns}");
                }
            }
        }
    }
}
