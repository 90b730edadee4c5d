//! Who was ahead of a request at a disk: the wait for it is divided as it is live (`noise_common::queue`), in
//! proportion to the work that the disk did meanwhile, by the threads that asked for it.
//!
//! Live, a queue remembers a few changes of whom it serves; here it remembers each service, so that a part of a wait
//! can be divided, too.

use std::collections::{BTreeMap, HashMap, VecDeque};

use noise_common::charge::Cause;

use super::document::Culprit;
use crate::event::Comm;
use crate::follow::PerCpu;

/// Services that each queue remembers.
const MAX_SERVICES: usize = 1 << 15;
const MAX_QUEUES: usize = 128;
/// Threads whose names are kept.
const MAX_NAMES: usize = 65_536;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestStage {
    /// From its insertion to its issue.
    Queue,
    /// From its issue to its end.
    Device,
}

/// A request that a queue is done with.
#[derive(Clone, Copy, Debug)]
struct CompletedRequest {
    time_ns: u64,
    /// Who asked for it, where that is known.
    tid: Option<i32>,
    /// Its sectors, and one for the request itself.
    work: u64,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub dev: u32,
    pub queued_ns: Option<u64>,
    pub issued_ns: u64,
    pub done_ns: u64,
}

/// What disks did for whom.
#[derive(Debug, Default)]
pub struct Ahead {
    queues: BTreeMap<(u32, RequestStage), VecDeque<CompletedRequest>>,
    names: HashMap<i32, Comm>,
    /// The latest request that ended on each CPU.
    done: PerCpu<Option<Done>>,
}

#[derive(Debug, Default)]
struct CauseShares(BTreeMap<(Cause, i32), u64>);

impl CauseShares {
    fn add(&mut self, cause: Cause, tid: i32, ns: u64) {
        if ns > 0 {
            let share = self.0.entry((cause, tid)).or_default();
            *share = share.saturating_add(ns);
        }
    }
}

impl Ahead {
    /// A queue is done with a request of a thread.
    pub fn served(
        &mut self,
        dev: u32,
        stage: RequestStage,
        tid: Option<i32>,
        sectors: u32,
        time_ns: u64,
    ) {
        if self.queues.len() >= MAX_QUEUES && !self.queues.contains_key(&(dev, stage)) {
            return;
        }
        let queue = self.queues.entry((dev, stage)).or_default();
        if queue.len() >= MAX_SERVICES {
            queue.pop_front();
        }
        queue.push_back(CompletedRequest { time_ns, tid, work: u64::from(sectors) + 1 });
    }

    /// A thread asks for a request.
    pub fn named(&mut self, tid: Option<i32>, comm: &[u8]) {
        let Some(tid) = tid else { return };
        if self.names.len() < MAX_NAMES || self.names.contains_key(&tid) {
            self.names.insert(tid, Comm::new(comm));
        }
    }

    pub fn ended(&mut self, cpu: u32, done: Done) {
        if let Some(latest) = self.done.of(cpu) {
            *latest = Some(done);
        }
    }

    /// Divides what a thread slept until the request that ended last on a CPU. The parts sum to it.
    pub fn divide(&self, cpu: u32, tid: i32, from_ns: u64, to_ns: u64) -> Vec<Culprit> {
        let mut shares = CauseShares::default();
        let mut left_ns = to_ns.saturating_sub(from_ns);
        let done = self.done.get(cpu).copied().flatten().filter(|done| done.done_ns >= from_ns);
        if let Some(done) = done {
            // It slept before that request was there, for the disk to have room for one, or for another's.
            let before_ns = done.queued_ns.unwrap_or(done.issued_ns).min(to_ns);
            if self.is_busy(done.dev, from_ns, before_ns) {
                left_ns = left_ns.saturating_sub(before_ns - from_ns);
                self.divide_stage(
                    (done.dev, RequestStage::Device),
                    tid,
                    from_ns,
                    before_ns,
                    &mut shares,
                );
            }
            let queued =
                done.queued_ns.map(|queued_ns| (RequestStage::Queue, queued_ns, done.issued_ns));
            let issued = (RequestStage::Device, done.issued_ns, done.done_ns);
            for (stage, begin_ns, end_ns) in queued.into_iter().chain([issued]) {
                let (begin_ns, end_ns) = (begin_ns.max(from_ns), end_ns.min(to_ns));
                if begin_ns < end_ns {
                    left_ns = left_ns.saturating_sub(end_ns - begin_ns);
                    self.divide_stage((done.dev, stage), tid, begin_ns, end_ns, &mut shares);
                }
            }
        }
        // Before it was queued, where the disk did nothing else, and from its end to the wake-up.
        shares.add(Cause::Untracked, -1, left_ns);
        self.culprits(&shares)
    }

    /// Whether a device was done with requests in a time.
    fn is_busy(&self, dev: u32, from_ns: u64, to_ns: u64) -> bool {
        let Some(queue) = self.queues.get(&(dev, RequestStage::Device)) else { return false };
        let first = queue.partition_point(|service| service.time_ns < from_ns);
        from_ns < to_ns && queue.get(first).is_some_and(|service| service.time_ns <= to_ns)
    }

    /// Divides a stage by what was done in it: the request's own end is work of the device, but its issue is none
    /// that was ahead of it in the queue.
    fn divide_stage(
        &self,
        (dev, stage): (u32, RequestStage),
        victim: i32,
        from_ns: u64,
        to_ns: u64,
        shares: &mut CauseShares,
    ) {
        let none = VecDeque::new();
        let queue = self.queues.get(&(dev, stage)).unwrap_or(&none);
        let oldest_ns = queue.front().map_or(0, |oldest| oldest.time_ns);
        let begin_ns = match queue.len() >= MAX_SERVICES {
            true => from_ns.max(oldest_ns).min(to_ns),
            false => from_ns,
        };
        shares.add(Cause::Untracked, -1, begin_ns - from_ns);
        let first = queue.partition_point(|service| service.time_ns < begin_ns);
        let end = queue.partition_point(|service| match stage {
            RequestStage::Queue => service.time_ns < to_ns,
            RequestStage::Device => service.time_ns <= to_ns,
        });
        let ahead = || queue.range(first..end.max(first));
        let mut work: u64 = ahead().map(|service| service.work).sum();
        let mut left_ns = to_ns - begin_ns;
        let mut services = ahead().rev().peekable();
        while let Some(service) = services.next() {
            let mut own = service.work;
            while let Some(more) = services.next_if(|more| more.tid == service.tid) {
                own += more.work;
            }
            // In proportion to what is left, so that the last part takes exactly the rest.
            let part = u128::from(left_ns) * u128::from(own) / u128::from(work.max(1));
            let part_ns = u64::try_from(part).unwrap_or(left_ns);
            let (cause, tid) = match service.tid {
                Some(tid) if tid == victim => (Cause::Own, tid),
                Some(tid) => (Cause::Foreign, tid),
                None => (Cause::Untracked, -1),
            };
            shares.add(cause, tid, part_ns);
            left_ns -= part_ns;
            work -= own;
        }
        shares.add(Cause::Idle, -1, left_ns);
    }

    fn culprits(&self, shares: &CauseShares) -> Vec<Culprit> {
        let culprit = |(&(cause, tid), &ns): (&(Cause, i32), &u64)| {
            let comm = self.names.get(&tid).map(ToString::to_string).unwrap_or_default();
            Culprit { tid, comm, cause: cause.name(), ns }
        };
        let mut culprits: Vec<_> = shares.0.iter().map(culprit).collect();
        culprits.sort_by_key(|culprit| std::cmp::Reverse(culprit.ns));
        culprits
    }
}

#[cfg(test)]
mod tests {
    use noise_common::queue::{Ahead as Takes, Served, Share};
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::*;

    /// The division that is made live, by the same causes and sources.
    #[derive(Default)]
    struct Live(BTreeMap<(Cause, i32), u64>, Share);

    impl Takes for Live {
        fn share(&mut self) -> &mut Share {
            &mut self.1
        }

        fn charge(&mut self, cause: Cause, culprit: u64, ns: u64) {
            let tid = if cause == Cause::Idle { -1 } else { culprit as i32 };
            *self.0.entry((cause, tid)).or_default() += ns;
        }
    }

    proptest! {
        #[test]
        fn waits_are_divided_as_they_are_live(
            services in prop::collection::vec((1..5i32, 1..2000u32), 1..30),
            issued in any::<prop::sample::Index>(),
            at_device in any::<bool>(),
        ) {
            // One service a microsecond; the request that is waited for is the last one.
            let issued = issued.index(services.len());
            let stage = if at_device { RequestStage::Device } else { RequestStage::Queue };
            let (mut ahead, mut served, mut mark) = (Ahead::default(), Served::default(), 0);
            for (number, (tid, sectors)) in services.iter().enumerate() {
                if number == issued {
                    mark = served.total;
                }
                ahead.served(1, stage, Some(*tid), *sectors, 1000 * (number as u64 + 1));
                if at_device || number + 1 < services.len() {
                    served.total += u64::from(*sectors) + 1;
                    served.sources.note(*tid as u64, served.total);
                }
            }
            let (from_ns, to_ns) = (1000 * issued as u64 + 500, 1000 * services.len() as u64);
            let mut live = Live(BTreeMap::new(), Share { victim: 1, ..Share::default() });
            served.divide(mark, to_ns - from_ns, &mut live);
            let mut shares = CauseShares::default();
            ahead.divide_stage((1, stage), 1, from_ns, to_ns, &mut shares);
            prop_assert_eq!(shares.0, live.0);
        }
    }

    #[test]
    fn a_sleep_is_divided_by_the_stages_of_its_request() {
        let mut ahead = Ahead::default();
        ahead.named(Some(2), b"other");
        ahead.served(1, RequestStage::Queue, Some(2), 7, 1_500);
        ahead.served(1, RequestStage::Queue, Some(1), 7, 2_000);
        ahead.served(1, RequestStage::Device, Some(2), 7, 2_500);
        ahead.served(1, RequestStage::Device, Some(1), 7, 3_000);
        // Another disk is of no interest.
        ahead.served(9, RequestStage::Device, Some(5), 7, 2_600);
        let done = Done { dev: 1, queued_ns: Some(1_000), issued_ns: 2_000, done_ns: 3_000 };
        ahead.ended(0, done);
        let found: Vec<_> = ahead
            .divide(0, 1, 900, 3_010)
            .into_iter()
            .map(|culprit| (culprit.tid, culprit.comm, culprit.cause, culprit.ns))
            .collect();
        let comm = |comm: &str| comm.to_owned();
        assert_eq!(
            found,
            [
                (2, comm("other"), "foreign", 1_500),
                (1, comm(""), "self", 500),
                (-1, comm(""), "untracked", 110)
            ]
        );
        // A part of it: the queue alone.
        let part = ahead.divide(0, 1, 1_200, 1_700);
        assert_eq!((part.len(), part[0].tid, part[0].ns), (1, 2, 500));
        // It sleeps for a while before that request is there: for what the device is done with meanwhile.
        ahead.served(1, RequestStage::Device, Some(4), 7, 4_000);
        ahead.ended(1, Done { dev: 1, queued_ns: None, issued_ns: 4_900, done_ns: 5_000 });
        ahead.served(1, RequestStage::Device, Some(5), 7, 5_000);
        let room: Vec<_> = ahead
            .divide(1, 1, 3_100, 5_000)
            .into_iter()
            .map(|culprit| (culprit.tid, culprit.cause, culprit.ns))
            .collect();
        assert_eq!(room, [(4, "foreign", 1_800), (5, "foreign", 100)]);
        // A request that ended before, and a CPU without one.
        assert_eq!(ahead.divide(0, 1, 3_001, 3_050)[0].cause, "untracked");
        assert_eq!(ahead.divide(3, 1, 900, 3_010)[0].ns, 2_110);
    }
}
