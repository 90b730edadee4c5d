//! Who was ahead of whom in a queue, and how a wait in it is divided.
//!
//! A queue (of a block device, of a network interface) remembers on whose behalf it served what, on a
//! scale of its own: the amount that it has served so far. What it served between two marks on that
//! scale was ahead of those who waited meanwhile, and the wait is divided in proportion to it. The
//! parts sum to the wait, always.

use crate::charge::{Cause, Resource};
use crate::ledger::{Stretch, Stretches};

/// Changes of whom a queue serves that it remembers, a power of two.
pub const SERVICES: usize = 32;

/// Queues that are followed at once, a power of two.
pub const QUEUES: usize = 128;

/// Entries that may hold a queue, a power of two.
pub const QUEUE_WAYS: u32 = 4;

/// A queue that was not used for this long may be forgotten in favour of another, ns.
pub const QUEUE_IDLE_NS: u64 = 10_000_000_000;

/// Set in the number of a device where it stands for the pages that are to be written to it.
pub const DIRTY_PAGES: u64 = 1 << 41;

/// Set beside that in the number of a file system that is on no disk.
pub const NO_DISK: u64 = 1 << 42;

/// What one queue served.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Served {
    /// The queue; 0 in a free entry.
    pub queue: u64,
    /// When it was used last, ns.
    pub used_ns: u64,
    /// Amount served so far.
    pub total: u64,
    /// For whom, latest.
    pub sources: Stretches<SERVICES>,
}

/// Waits that are divided among those who were ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum QueueWait {
    /// For a block device, in its queue.
    Queue,
    /// At a block device.
    Device,
    /// For an interface, in its queue.
    Transmit,
    /// For pages of a device to be written, behind those who dirtied them. What is served here is dirtied; where it is not
    /// known by whom, it is waited for the device all the same.
    Writeback,
}

/// Number of the kinds of [`QueueWait`].
pub const QUEUE_WAITS: usize = QueueWait::Writeback as usize + 1;

impl QueueWait {
    #[inline(always)]
    pub const fn resource(self) -> Resource {
        match self {
            Self::Queue => Resource::BlockQueue,
            Self::Device => Resource::BlockDevice,
            Self::Transmit => Resource::NetTx,
            Self::Writeback => Resource::Uninterruptible,
        }
    }

    /// The cause that a part of such a wait is charged with.
    #[inline(always)]
    pub const fn cause(self, of_queue: Cause) -> Cause {
        match (self, of_queue) {
            (Self::Writeback, Cause::Foreign | Cause::Own) => Cause::Writeback,
            (Self::Writeback, _) => Cause::Iowait,
            _ => of_queue,
        }
    }
}

/// A wait that is divided.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Share {
    /// Begin of what is left, on the scale of the queue.
    pub from: u64,
    pub to: u64,
    pub left_ns: u64,
    pub victim: u64,
    /// Place, cause (none yet) and resource: see [`crate::charge::ChargeKey::kind`].
    pub kind: u64,
    /// Number of the queue's entry.
    pub entry: u64,
}

/// Waits longer than this, and amounts beyond [`MOST`], are not divided: products must fit 64 bits.
const LONGEST_NS: u64 = 1 << 36;
/// Largest amount between two marks that is divided.
const MOST: u64 = 1 << 27;

/// The first of the entries that may hold a queue (Fibonacci hashing); the others differ in the lowest bits.
#[inline(always)]
pub const fn queue_entry(queue: u64) -> u32 {
    (queue.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - QUEUES.trailing_zeros())) as u32
}

/// Takes the parts of a wait in a queue.
pub trait Ahead {
    fn share(&mut self) -> &mut Share;
    fn charge(&mut self, cause: Cause, culprit: u64, ns: u64);
    /// One step: see [`Served::step`].
    #[inline(always)]
    fn step(&mut self, served: &Served, back: u64) -> bool
    where
        Self: Sized,
    {
        served.step(back, self)
    }
}

impl Served {
    /// Begins anew with another queue. Marks of the one before lie beyond the new scale, or count as idle.
    #[inline(always)]
    pub fn begin(&mut self, queue: u64) {
        self.queue = queue;
        self.total = 0;
        self.sources.newest = 0;
        // Nothing is served for the source 0.
        self.sources.ring[0] = Stretch::default();
    }

    /// The begin of what is remembered, on the scale of the queue.
    #[inline(always)]
    pub fn oldest(&self) -> u64 {
        let back = SERVICES as u64 - 1;
        // Behind fewer changes, the ring has what another queue left there.
        if self.sources.newest < back { 0 } else { self.sources.latest(back).until_ns }
    }

    /// Charges who is behind entry number `back`, counted back from the newest. Whether that was the last one.
    #[inline(always)]
    pub fn step(&self, back: u64, ahead: &mut impl Ahead) -> bool {
        let own = self.sources.latest(back);
        let before = self.sources.latest(back.wrapping_add(1));
        let share = *ahead.share();
        let begin = if before.until_ns > share.from { before.until_ns } else { share.from };
        if begin >= share.to {
            return begin <= share.from;
        }
        // In proportion to what is left, so that the last part takes exactly the rest.
        let part_ns = share.left_ns * (share.to - begin) / (share.to - share.from);
        let rest = ahead.share();
        rest.to = begin;
        rest.left_ns = share.left_ns - part_ns;
        if part_ns > 0 {
            let own_work = own.source == share.victim;
            let cause = if own_work { Cause::Own } else { Cause::Foreign };
            ahead.charge(cause, own.source, part_ns);
        }
        begin <= share.from
    }

    /// Divides a wait of `wait_ns` that began when the queue had served `mark`.
    ///
    /// Where nothing was served meanwhile, nothing was ahead: that is `idle`.
    #[inline(always)]
    pub fn divide(&self, mark: u64, wait_ns: u64, ahead: &mut impl Ahead) {
        if wait_ns == 0 {
            return;
        }
        if mark >= self.total {
            return ahead.charge(Cause::Idle, 0, wait_ns);
        }
        if wait_ns > LONGEST_NS || self.total - mark > MOST {
            return ahead.charge(Cause::Untracked, 0, wait_ns);
        }
        let share = ahead.share();
        share.from = mark;
        share.to = self.total;
        share.left_ns = wait_ns;
        for back in 0..SERVICES as u64 - 1 {
            if ahead.step(self, back) {
                break;
            }
        }
        let left_ns = ahead.share().left_ns;
        if left_ns > 0 {
            ahead.charge(Cause::Untracked, 0, left_ns);
        }
    }
}

const _: () = assert!(QUEUES.is_power_of_two() && QUEUE_WAYS.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use std::collections::{BTreeMap, BTreeSet};

    #[derive(Default)]
    struct Sums(BTreeMap<(Cause, u64), u64>, Share);

    impl Ahead for Sums {
        fn share(&mut self) -> &mut Share {
            &mut self.1
        }
        fn charge(&mut self, cause: Cause, culprit: u64, ns: u64) {
            *self.0.entry((cause, culprit)).or_default() += ns;
        }
    }

    fn divided(served: &Served, mark: u64, wait_ns: u64) -> BTreeMap<(Cause, u64), u64> {
        let mut sums = Sums(BTreeMap::new(), Share { victim: 1, ..Share::default() });
        served.divide(mark, wait_ns, &mut sums);
        sums.0
    }

    fn serve(served: &mut Served, source: u64, amount: u64) {
        served.total += amount;
        served.sources.note(source, served.total);
    }

    #[test]
    fn a_wait_is_divided_by_what_was_ahead() {
        let mut served = Served::default();
        serve(&mut served, 2, 100);
        let mark = served.total;
        assert_eq!(divided(&served, mark, 10), BTreeMap::from([((Cause::Idle, 0), 10)]));
        serve(&mut served, 2, 60);
        serve(&mut served, 1, 20);
        serve(&mut served, 3, 20);
        let expected =
            [((Cause::Foreign, 2), 600), ((Cause::Foreign, 3), 200), ((Cause::Own, 1), 200)];
        assert_eq!(divided(&served, mark, 1000), BTreeMap::from(expected));
    }

    #[test]
    fn pages_are_waited_for_behind_those_who_dirtied_the_latest() {
        let mut served = Served::default();
        // More changes than are remembered: what lies before them has no owner.
        for turn in 0..40 {
            serve(&mut served, 2 + turn % 2, 100);
        }
        assert_eq!((served.total, served.oldest()), (4_000, 900));
        let behind = divided(&served, served.oldest(), 3_100);
        let expected = [((Cause::Foreign, 2), 1_500), ((Cause::Foreign, 3), 1_600)];
        assert_eq!(behind, BTreeMap::from(expected));
        assert_eq!(Served::default().oldest(), 0);
        // Another queue has the entry now: what lies in the ring is of the one before.
        served.begin(9);
        assert_eq!(served.oldest(), 0);
        serve(&mut served, 5, 10);
        assert_eq!((served.total, served.oldest()), (10, 0));
        let of_queue = [Cause::Foreign, Cause::Own, Cause::Idle, Cause::Untracked];
        let causes = of_queue.map(|one| QueueWait::Writeback.cause(one));
        let [wrote, unknown] = [Cause::Writeback, Cause::Iowait];
        assert_eq!(causes, [wrote, wrote, unknown, unknown]);
        assert_eq!(of_queue.map(|one| QueueWait::Device.cause(one)), of_queue);
    }

    #[test]
    fn a_queue_has_no_culprits_of_the_one_before() {
        for source in [1, 7] {
            let mut served = Served::default();
            for turn in 0..70 {
                serve(&mut served, if turn % 2 == 0 { 1 } else { 7 }, 1);
            }
            served.begin(9);
            serve(&mut served, source, 1000);
            let mut sums = Sums(BTreeMap::new(), Share { victim: 5, ..Share::default() });
            served.divide(0, 1000, &mut sums);
            assert_eq!(sums.0, BTreeMap::from([((Cause::Foreign, source), 1000)]));
        }
    }

    #[test]
    fn what_is_too_long_or_too_much_to_be_multiplied_is_not_divided() {
        let mut served = Served::default();
        serve(&mut served, 2, MOST);
        let foreign = |ns| BTreeMap::from([((Cause::Foreign, 2), ns)]);
        let untracked = |ns| BTreeMap::from([((Cause::Untracked, 0), ns)]);
        assert_eq!(divided(&served, 0, LONGEST_NS), foreign(LONGEST_NS));
        assert_eq!(divided(&served, 0, LONGEST_NS + 1), untracked(LONGEST_NS + 1));
        serve(&mut served, 2, 1);
        assert_eq!(divided(&served, 1, LONGEST_NS), foreign(LONGEST_NS));
        assert_eq!(divided(&served, 0, 7), untracked(7));
    }

    #[test]
    fn queues_of_a_host_find_room() {
        let disks = (0..16).map(|disk| 8 << 20 | disk << 4);
        let at_devices = disks.clone().map(|disk| 1 << 40 | disk);
        let dirty = disks.clone().map(|disk| DIRTY_PAGES | disk);
        let interfaces = (1..17).map(|index| 0xf000_0000 << 32 | index);
        let mut entries = BTreeSet::new();
        for queue in disks.chain(at_devices).chain(dirty).chain(interfaces) {
            let first = queue_entry(queue);
            let room =
                (0..QUEUE_WAYS).map(|way| first ^ way).find(|entry| !entries.contains(entry));
            assert!(room.is_some_and(|entry| (entry as usize) < QUEUES), "{queue:x}: {room:?}");
            entries.extend(room);
        }
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_wait_and_keep_the_proportions(
            services in proptest::collection::vec((1u64..5, 1u64..1_000_000), 1..100),
            at in 0usize..100,
            wait_ns in 0u64..100_000_000_000,
        ) {
            let mut served = Served::default();
            let mut mark = 0;
            let mut ahead = BTreeMap::<u64, u64>::new();
            for (index, (source, amount)) in services.iter().enumerate() {
                if index == at {
                    mark = served.total;
                    ahead.clear();
                }
                serve(&mut served, *source, *amount);
                *ahead.entry(*source).or_default() += amount;
            }
            let sums = divided(&served, mark, wait_ns);
            prop_assert_eq!(sums.values().sum::<u64>(), wait_ns);
            if sums.keys().all(|(cause, _)| matches!(cause, Cause::Own | Cause::Foreign)) {
                let whole: u64 = ahead.values().sum();
                for ((_, source), ns) in &sums {
                    let exact = wait_ns as f64 * ahead[source] as f64 / whole as f64;
                    prop_assert!((*ns as f64 - exact).abs() <= 100.0, "{} {}", ns, exact);
                }
            }
        }
    }
}
