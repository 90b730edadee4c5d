//! PURE: when requests of a device were waited for, and by whom, from the events as the recorder has them: what an
//! incident of that device is about.
//!
//! A request is its inserter's, else its issuer's: an insertion often leaves the issue to another thread. What a kernel
//! thread writes back is that thread's, which does not sleep for it: whoever waits for the data sleeps while any request
//! is under way.

use std::collections::{BTreeMap, HashMap};

use noise_analysis::Watched;
use noise_common::signals::{OPERATIONS, Signal, operation_of};
use noise_common::store::{EventKind, StoredEvent};
use noise_trace::follow::Processor;
use noise_wire::events::ItemPlace;

use super::newest::Newest;
use super::unseen::Gaps;

/// Most steps of requests that are looked at, the latest.
const MOST_STEPS: usize = 1 << 17;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestWaitStage {
    /// From the insertion to the issue.
    Queue,
    /// From the issue to the end.
    Device,
}

/// A step with its time, some bits of the request's address, the thread that runs there, and the bytes.
type RequestStep = (u64, u16, EventKind, u32, u32);

#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    tid: u32,
    queued_ns: Option<u64>,
    issued_ns: Option<u64>,
    left: u32,
}

/// Disjoint spans in order of time, ns on CLOCK_MONOTONIC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans(Vec<(u64, u64)>);

impl Spans {
    /// The union of some.
    fn of(mut spans: Vec<(u64, u64)>) -> Self {
        spans.sort_unstable();
        let mut union: Vec<(u64, u64)> = Vec::new();
        for (from_ns, to_ns) in spans {
            match union.last_mut() {
                Some((_, end_ns)) if *end_ns >= from_ns => *end_ns = (*end_ns).max(to_ns),
                _ => union.push((from_ns, to_ns)),
            }
        }
        Self(union)
    }

    /// How much of a span they cover, ns.
    pub fn within(&self, from_ns: u64, to_ns: u64) -> u64 {
        let first = self.0.partition_point(|(_, end_ns)| *end_ns <= from_ns);
        let meanwhile = self.0.iter().skip(first).take_while(|(begin_ns, _)| *begin_ns < to_ns);
        let covered = meanwhile.map(|(begin_ns, end_ns)| {
            (*end_ns).min(to_ns).saturating_sub((*begin_ns).max(from_ns))
        });
        covered.fold(0, u64::saturating_add)
    }
}

/// When requests were waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// By thread, those that are its own.
    own: BTreeMap<u32, Spans>,
    all: Spans,
}

impl Waited {
    /// How much of a thread's sleep requests of its own were waited for, ns.
    pub fn own_ns(&self, tid: u32, from_ns: u64, to_ns: u64) -> u64 {
        self.own.get(&tid).map_or(0, |spans| spans.within(from_ns, to_ns))
    }

    /// How much of a sleep any were waited for, ns.
    pub fn any_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        self.all.within(from_ns, to_ns)
    }
}

pub struct KeptRequests {
    device: u32,
    operation: usize,
    stage: RequestWaitStage,
    /// Who runs, by the events of each part.
    running: BTreeMap<ItemPlace, Processor<u32>>,
    steps: Newest<RequestStep>,
}

impl KeptRequests {
    /// Those of an incident's subject, `DEVICE OPERATION`; `None` where an incident is about something else, or of a
    /// device that is not known. `device` says its number.
    pub fn of(
        watched: Watched,
        subject: &str,
        device: impl FnOnce(&str) -> Option<u32>,
    ) -> Option<Self> {
        let stage = match watched {
            Watched::Signal(Signal::BlockQueueWait) => RequestWaitStage::Queue,
            Watched::Signal(Signal::BlockDeviceWait) => RequestWaitStage::Device,
            _ => return None,
        };
        let (name, operation) = subject.rsplit_once(' ')?;
        let operation = OPERATIONS.iter().position(|known| *known == operation)?;
        let device = device(name)?;
        let steps = Newest::new(MOST_STEPS, |(at_ns, ..): &RequestStep| *at_ns);
        Some(Self { device, operation, stage, running: BTreeMap::new(), steps })
    }

    /// Takes an event of a part of the store.
    pub fn note(&mut self, place: ItemPlace, event: &StoredEvent) {
        match event.kind() {
            Some(EventKind::Switch) => {
                let [_, next, ..] = event.numbers();
                self.running.entry(place).or_default().goes_to(Some(next), event.time_ns);
            }
            Some(
                step @ (EventKind::BlockInsert
                | EventKind::BlockIssue
                | EventKind::BlockRequeue
                | EventKind::BlockMerge
                | EventKind::BlockComplete),
            ) => {
                let request = event.request();
                let operation = operation_of(request.operation.into());
                if request.device != self.device || operation != self.operation as u64 {
                    return;
                }
                let tid = self.running.get(&place).and_then(Processor::current).unwrap_or(0);
                self.steps.add((event.time_ns, request.tag, step, tid, request.bytes));
            }
            _ => {}
        }
    }

    /// Events of a part are missing: who runs there is not known.
    pub fn missing(&mut self, place: ItemPlace) {
        self.running.entry(place).or_default().lose();
    }

    /// When they were waited for, up to a time: until then what is still under way. One that is under way while some
    /// CPU is not seen may have ended there, and what comes behind may be another one's: it counts for nothing.
    pub fn waited(self, end_ns: u64, gaps: &Gaps) -> Waited {
        let mut steps = self.steps.finish();
        steps.sort_unstable();
        let mut open: HashMap<u16, PendingRequest> = HashMap::new();
        let mut own: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        let stage = self.stage;
        let mut add = |request: &PendingRequest, to_ns: u64| {
            let from_ns = match stage {
                RequestWaitStage::Queue => {
                    request.queued_ns.filter(|_| request.issued_ns.is_none())
                }
                RequestWaitStage::Device => request.issued_ns,
            };
            let is_seen = |from_ns: &u64| gaps.end_within(*from_ns, to_ns).is_none();
            if let Some(from_ns) = from_ns.filter(|from_ns| *from_ns < to_ns).filter(is_seen) {
                own.entry(request.tid).or_default().push((from_ns, to_ns));
            }
        };
        for (at_ns, tag, step, tid, bytes) in steps {
            match step {
                EventKind::BlockInsert => {
                    let queued_ns = Some(at_ns);
                    open.insert(
                        tag,
                        PendingRequest { tid, queued_ns, issued_ns: None, left: bytes },
                    );
                }
                EventKind::BlockIssue => {
                    let new = PendingRequest { tid, queued_ns: None, issued_ns: None, left: bytes };
                    let request = open.entry(tag).or_insert(new);
                    if stage == RequestWaitStage::Queue {
                        add(request, at_ns);
                    }
                    (request.issued_ns, request.left) = (Some(at_ns), bytes);
                }
                EventKind::BlockRequeue => {
                    if let Some(request) = open.get_mut(&tag) {
                        (request.queued_ns, request.issued_ns) = (Some(at_ns), None);
                    }
                }
                EventKind::BlockMerge => {
                    open.remove(&tag);
                }
                _ => {
                    let Some(request) = open.get_mut(&tag) else { continue };
                    request.left = request.left.saturating_sub(bytes);
                    if request.left > 0 && bytes > 0 {
                        continue;
                    }
                    if stage == RequestWaitStage::Device {
                        add(request, at_ns);
                    }
                    open.remove(&tag);
                }
            }
        }
        open.values().for_each(|request| add(request, end_ns));
        let all = own.values().flatten().copied().collect();
        own.remove(&0);
        let own = own.into_iter().map(|(tid, spans)| (tid, Spans::of(spans))).collect();
        Waited { own, all: Spans::of(all) }
    }
}

#[cfg(test)]
mod tests {
    use noise_common::store::event::Body;
    use noise_wire::events::AnswerItem;

    use super::*;
    use crate::unseen::Unseen;

    const SDA: u32 = 8 << 20;

    fn requests(signal: Signal, subject: &str) -> Option<KeptRequests> {
        let device = |name: &str| (name == "sda").then_some(SDA);
        KeptRequests::of(signal.into(), subject, device)
    }

    fn block(kind: EventKind, address: u64, bytes: u32, at_ns: u64) -> Body {
        Body::block(kind, (address, 100), (SDA, bytes), 0, 0, at_ns)
    }

    /// On CPU 0: 7 inserts one that 9 issues on CPU 1, which issues one of its own.
    fn noted(signal: Signal) -> KeptRequests {
        let mut requests = requests(signal, "sda read").unwrap();
        let (one, other) = (0x8d15_0000_1100, 0x8d15_0000_2200);
        let place = |cpu| ItemPlace { cpu, part: 0 };
        let cpus = [
            vec![
                Body::switch((0, 120), 0, false, (7, 120), 100),
                block(EventKind::BlockInsert, one, 8192, 110),
                block(EventKind::BlockComplete, one, 4096, 300),
                block(EventKind::BlockComplete, one, 4096, 400),
                Body::block(EventKind::BlockIssue, (other, 5), (8 << 20 | 16, 512), 0, 0, 410),
                Body::block(EventKind::BlockIssue, (other, 5), (SDA, 512), 1, 0, 420),
            ],
            vec![
                Body::switch((0, 120), 0, false, (9, 120), 150),
                block(EventKind::BlockIssue, one, 8192, 200),
                block(EventKind::BlockIssue, other, 4096, 210),
            ],
        ];
        for (cpu, bodies) in (0..).zip(&cpus) {
            bodies.iter().for_each(|body| requests.note(place(cpu), &body.stored(0)));
        }
        requests
    }

    #[test]
    fn a_request_is_its_inserters_else_its_issuers() {
        let queue = noted(Signal::BlockQueueWait).waited(1_000, &Gaps::default());
        assert_eq!(queue.own, [(7, Spans(vec![(110, 200)]))].into());
        let device = noted(Signal::BlockDeviceWait).waited(1_000, &Gaps::default());
        let expected = [(7, Spans(vec![(200, 400)])), (9, Spans(vec![(210, 1_000)]))];
        assert_eq!(device.own, expected.into());
        assert_eq!(device.all, Spans(vec![(200, 1_000)]));
        assert_eq!((device.own_ns(7, 0, 300), device.own_ns(8, 0, 300)), (100, 0));
        assert_eq!(device.any_ns(390, 420), 30);
    }

    #[test]
    fn what_is_given_back_waits_again_and_what_is_merged_is_gone() {
        let steps = |kinds: &[(EventKind, u64)]| {
            let mut requests = requests(Signal::BlockQueueWait, "sda read").unwrap();
            for (kind, at_ns) in kinds {
                requests.note(ItemPlace::default(), &block(*kind, 0x1100, 512, *at_ns).stored(0));
            }
            requests.waited(1_000, &Gaps::default()).all
        };
        let (insert, issue) = ((EventKind::BlockInsert, 10), (EventKind::BlockIssue, 20));
        let back = [insert, issue, (EventKind::BlockRequeue, 30), (EventKind::BlockIssue, 50)];
        assert_eq!(steps(&back), Spans(vec![(10, 20), (30, 50)]));
        assert_eq!(steps(&[insert, (EventKind::BlockMerge, 15)]), Spans::default());
        assert_eq!(steps(&[insert]), Spans(vec![(10, 1_000)]));
    }

    #[test]
    fn who_runs_behind_missing_events_is_not_known() {
        let mut requests = requests(Signal::BlockDeviceWait, "sda read").unwrap();
        let place = ItemPlace::default();
        requests.note(place, &Body::switch((0, 120), 0, false, (7, 120), 100).stored(0));
        requests.missing(place);
        requests.note(place, &block(EventKind::BlockIssue, 0x1100, 512, 200).stored(0));
        let waited = requests.waited(300, &Gaps::default());
        assert_eq!((waited.own.len(), waited.any_ns(0, 1_000)), (0, 100));
    }

    #[test]
    fn a_request_under_way_where_a_cpu_is_not_seen_counts_for_nothing() {
        let mut unseen = Unseen::default();
        let place = ItemPlace::default();
        unseen.note(&AnswerItem::Part { place, complete_from_ns: 205, classes: 0, store: 0 });
        let waited = noted(Signal::BlockDeviceWait).waited(1_000, &unseen.finish());
        // That of 9 began behind the gap, and nothing is known of that of 7.
        assert_eq!(waited.own, [(9, Spans(vec![(210, 1_000)]))].into());
        assert_eq!(waited.all, Spans(vec![(210, 1_000)]));
    }

    #[test]
    fn other_subjects_have_none() {
        for (signal, subject) in [
            (Signal::CgroupRunqueueWait, "sda read"),
            (Signal::BlockDeviceWait, "sdb read"),
            (Signal::BlockDeviceWait, "sda swim"),
            (Signal::BlockDeviceWait, "sda"),
        ] {
            assert!(requests(signal, subject).is_none(), "{subject}");
        }
    }

    #[test]
    fn the_latest_steps_are_looked_at_where_there_are_too_many() {
        let mut requests = requests(Signal::BlockDeviceWait, "sda read").unwrap();
        for at_ns in 0..4 * MOST_STEPS as u64 {
            let body = block(EventKind::BlockIssue, at_ns << 8, 512, at_ns);
            requests.note(ItemPlace::default(), &body.stored(0));
        }
        let steps = requests.steps.finish();
        assert_eq!(steps.len(), MOST_STEPS);
        assert!(steps.iter().all(|(at_ns, ..)| *at_ns >= 3 * MOST_STEPS as u64));
    }
}
