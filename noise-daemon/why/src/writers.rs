//! PURE: who gave disks what they wrote in a stretch. Of what is written behind the page cache that is a thread of the kernel,
//! and whose it was is not seen.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use noise_common::charge::Cause;
use noise_text::clean::clean;
use noise_text::units::share;
use noise_trace::event::{Event, Request, TraceKind};
use noise_trace::rwbs::WRITE;
use noise_trace::states::StatesDocument;
use noise_verdict::{Culprit, CulpritKind};

use super::places::MOST_THREADS;

/// Requests whose issue is waited for; of further ones, who issues them counts.
const MOST_QUEUED: usize = 65_536;
/// Less than this many sectors, 1 MiB, keep no disk busy.
const LEAST_SECTORS: u64 = 2_048;
/// Part of all that was written that has to go to one disk: which one the victim waits for is not known.
const OF_ONE_DISK: f64 = 0.9;

/// Sectors that were written.
#[derive(Debug, Default)]
pub struct DiskWrites {
    /// Who queued those that are not issued yet, by device and first sector.
    queued: BTreeMap<(u32, u64), i32>,
    /// By device and thread.
    sectors: BTreeMap<(u32, i32), u64>,
}

/// A cgroup, or a process of none, that wrote more than half.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MainWriter {
    pub culprit: Culprit,
    /// It, as the sentence goes on.
    pub words: String,
}

/// A thread that wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritingThread {
    pub tid: i32,
    /// Its process; 0 where that is not known.
    pub pid: i32,
    pub comm: String,
    /// The label of its cgroup, where it is one.
    pub cgroup: Option<String>,
}

impl DiskWrites {
    pub fn follow(&mut self, event: &Event<'_>) {
        let place = |request: &Request<'_>| (request.dev, request.sector);
        match &event.kind {
            TraceKind::BlockRqInsert(request)
                if request.rwbs & WRITE != 0 && self.queued.len() < MOST_QUEUED =>
            {
                self.queued.insert(place(request), request.tid);
            }
            TraceKind::BlockRqIssue(request) if request.rwbs & WRITE != 0 => {
                let tid = self.queued.remove(&place(request)).unwrap_or(request.tid);
                let sum = self.sectors.entry((request.dev, tid)).or_default();
                *sum = sum.saturating_add(request.sectors.into());
            }
            _ => {}
        }
    }

    /// Who wrote more than half of it, where that is one of those that `writer` knows: no thread of the kernel, whose writes
    /// are those of others, and none of the victim's.
    pub fn main(&self, writer: impl Fn(i32) -> Option<WritingThread>) -> Option<MainWriter> {
        let mut disks: BTreeMap<u32, u64> = BTreeMap::new();
        for ((dev, _), sectors) in &self.sectors {
            *disks.entry(*dev).or_default() += sectors;
        }
        let (disk, whole) = disks.iter().max_by_key(|(_, sectors)| **sectors)?;
        let all: u64 = disks.values().sum();
        if (*whole as f64) < OF_ONE_DISK * all as f64 || *whole < LEAST_SECTORS {
            return None;
        }
        let own = self.sectors.iter().filter(|((dev, _), _)| dev == disk);
        let own = own.filter_map(|((_, tid), sum)| Some((*sum, writer(*tid)?)));
        main(own, *whole, |part| format!("wrote {part} of all that was written"))
    }
}

/// Who wrote more than half of all, by what each thread wrote: a cgroup, or else a process. `wrote` says it of a part.
pub fn main(
    each: impl Iterator<Item = (u64, WritingThread)>,
    all: u64,
    wrote: impl Fn(String) -> String,
) -> Option<MainWriter> {
    // The sum, and the thread that wrote most.
    let mut sums = BTreeMap::new();
    for (written, one) in each {
        let key = (one.cgroup.clone(), if one.cgroup.is_some() { 0 } else { one.pid });
        let (sum, most, first) = sums.entry(key).or_insert_with(|| (0, written, one.clone()));
        *sum += written;
        if written > *most {
            (*most, *first) = (written, one);
        }
    }
    let (sum, _, first) = sums.into_values().max_by_key(|(sum, ..)| *sum)?;
    (sum > all / 2).then(|| first.main(&wrote(share(sum as f64 / all as f64))))
}

/// The threads that `writer` knows which slept uninterruptibly longest.
pub fn longest(
    states: StatesDocument,
    writer: impl Fn(i32) -> Option<WritingThread>,
) -> Vec<WritingThread> {
    let mut all = states.threads;
    all.retain(|thread| thread.states.uninterruptible_ns > 0);
    all.sort_by_key(|thread| (Reverse(thread.states.uninterruptible_ns), thread.tid));
    all.into_iter().filter_map(|thread| writer(thread.tid)).take(MOST_THREADS).collect()
}

impl WritingThread {
    fn main(self, wrote: &str) -> MainWriter {
        let tid = self.tid;
        let comm = clean(&self.comm).into_owned();
        let own = format!("{comm} {}", if self.pid > 0 { self.pid } else { tid });
        let of = self.cgroup.as_deref().map(|cgroup| format!(" of {}", clean(cgroup)));
        MainWriter {
            words: format!("writeback behind {own}{}, which {wrote}", of.unwrap_or_default(),),
            culprit: Culprit {
                kind: if self.cgroup.is_some() {
                    CulpritKind::Cgroup
                } else {
                    CulpritKind::Process
                },
                name: self.cgroup.as_deref().map_or(own, |cgroup| clean(cgroup).into_owned()),
                cgroup: self.cgroup,
                pid: Some(self.pid).filter(|pid| *pid > 0),
                tid: Some(tid),
                cause: Cause::Foreign,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use noise_trace::analysis::Analysis as _;
    use noise_trace::fixtures::{ASLEEP, switch};
    use noise_trace::follow::Begin;
    use noise_trace::states::StatesOfThreads;

    use super::*;

    fn written(requests: &[(u32, i32, u32)]) -> DiskWrites {
        let mut writes = DiskWrites::default();
        for (sector, (dev, tid, sectors)) in (0..).zip(requests) {
            let request = Request {
                dev: *dev,
                sector,
                sectors: *sectors,
                rwbs: WRITE,
                tid: *tid,
                ..Request::default()
            };
            let issue = Request { tid: 1, ..request };
            for kind in [TraceKind::BlockRqInsert(request), TraceKind::BlockRqIssue(issue)] {
                writes.follow(&Event { time_ns: 0, cpu: 0, kind });
            }
        }
        writes
    }

    #[test]
    fn threads_that_slept_uninterruptibly_longest_come_first() {
        const UNINTERRUPTIBLE: i64 = 2;
        let mut states = StatesOfThreads::new(Begin::Waking);
        for (time_ns, kind) in [
            (10, switch(7, UNINTERRUPTIBLE, 8)),
            (150, switch(8, UNINTERRUPTIBLE, 7)),
            (160, switch(7, ASLEEP, 9)),
            (300, switch(9, UNINTERRUPTIBLE, 8)),
            (900, switch(8, 0, 7)),
        ] {
            if time_ns == 150 {
                states.begin(100);
            }
            states.follow(&Event { time_ns, cpu: 0, kind });
        }
        let known = |tid| {
            Some(WritingThread { tid, pid: tid, comm: String::new(), cgroup: None })
                .filter(|_| tid != 9)
        };
        // 8 from 150 to 300, 7 from 100 to 150.
        let slept = longest(states.finish(|_| true, None), known);
        assert_eq!(slept.iter().map(|one| one.tid).collect::<Vec<_>>(), [8, 7]);
    }

    #[test]
    fn who_wrote_more_than_half_is_named_and_no_thread_of_the_kernel() {
        let writer = |tid: i32| {
            let cgroup = (tid < 9).then(|| "backup.service".to_owned());
            (tid > 1).then(|| WritingThread { tid, pid: tid, comm: "dd".to_owned(), cgroup })
        };
        let main = |requests: &[(u32, i32, u32)]| written(requests).main(writer);
        let found = main(&[(8, 7, 3_000), (8, 6, 3_000), (8, 1, 4_000)]).unwrap();
        let expected =
            "writeback behind dd 6 of backup.service, which wrote 60.0 % of all that was written";
        assert_eq!((&*found.words, &*found.culprit.name), (expected, "backup.service"));
        assert_eq!(found.culprit.cgroup.as_deref(), Some("backup.service"));
        let alone = main(&[(8, 9, 3_000)]).unwrap().culprit;
        assert_eq!((alone.kind, &*alone.name, alone.cgroup), (CulpritKind::Process, "dd 9", None));
        // Writeback, others together, next to nothing, and another disk.
        for none in [
            &[(8, 7, 3_000), (8, 1, 4_000)][..],
            &[(8, 9, 3_000), (8, 10, 3_000)],
            &[(8, 7, 2_000)],
            &[(8, 7, 3_000), (9, 1, 3_000)],
            &[],
        ] {
            assert_eq!(main(none), None, "{none:?}");
        }
    }
}
