//! PURE: sleeps that ended with a packet that the victim had not requested: a queue hands out work, a peer has news.
//!
//! A client that waits for work looks like a client that waits for an answer. The difference is what it sent: a packet counts as
//! not requested if no thread of the victim's process sent data since the previous packet from that peer and since the sleeper
//! last woke up. Each packet of data that the process sent accounts for one packet that comes back, so several requests at a time
//! are counted, and so are late answers.
//!
//! Two cases cannot be told apart by packets. A worker that requests its next job before it sleeps looks like a client that waits
//! for an answer. A client that streams data to a slow reader looks like one that requested nothing. So these sleeps are called
//! unknown, never idle.

use std::collections::{BTreeMap, BTreeSet};

use noise_paths::graph::{Graph, Point, Who, Worker};
use noise_paths::state::State;

use super::sends::Sends;

/// How long threads slept until such packets, ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// By the thread that sent them.
    pub by: BTreeMap<i32, u64>,
    /// Until packets from an unknown sender.
    pub of_hosts_ns: u64,
}

/// A packet that ended a sleep.
struct Delivery {
    /// The process of the sleeper.
    pid: i32,
    /// The process that sent it, and its thread; `None` where that is not known.
    sender: Option<(i32, i32)>,
    /// Since when the sleeper was awake before it slept; `None` where that is not known.
    awake_ns: Option<u64>,
    since_ns: u64,
    at_ns: u64,
}

/// Who sent the packet that ended a sleep.
fn sender(graph: &Graph, end: &Point) -> Option<(i32, i32)> {
    let worker = graph.get(end.link?.from.worker)?;
    match worker.who {
        Who::Thread { tid, .. } if worker.pid > 0 => Some((worker.pid, tid)),
        Who::Thread { tid, .. } => Some((tid, tid)),
        _ => None,
    }
}

fn deliveries(graph: &Graph, worker: &Worker) -> Vec<Delivery> {
    let mut found = Vec::new();
    let mut awake_ns = None;
    for (begin, end) in worker.points().zip(worker.points().skip(1)) {
        match end.state {
            Some(State::Running | State::WaitingCpu) => continue,
            None | Some(State::Unknown | State::Created) => {
                awake_ns = None;
                continue;
            }
            Some(State::Network) => found.push(Delivery {
                pid: worker.pid,
                sender: sender(graph, end),
                awake_ns,
                since_ns: begin.time_ns,
                at_ns: end.time_ns,
            }),
            Some(_) => {}
        }
        awake_ns = Some(end.time_ns);
    }
    found
}

/// What threads of a program slept until such packets, between two times. `is_own` says which threads are the program's.
pub fn pushed(
    graph: &Graph,
    sends: &Sends,
    is_own: impl Fn(i32) -> bool,
    (from_ns, to_ns): (u64, u64),
) -> Pushed {
    let mut threads: BTreeMap<i32, BTreeSet<i32>> = BTreeMap::new();
    let mut all = Vec::new();
    for (_, worker) in graph.workers() {
        if let Who::Thread { tid, .. } = worker.who
            && is_own(tid)
        {
            threads.entry(worker.pid).or_default().insert(tid);
            all.extend(deliveries(graph, worker));
        }
    }
    all.sort_by_key(|delivery| delivery.at_ns);
    let mut found = Pushed::default();
    let mut latest: BTreeMap<(i32, Option<i32>), u64> = BTreeMap::new();
    // By process: up to when its data were counted, and for how many of them no packet has come yet.
    let mut open: BTreeMap<i32, (u64, usize)> = BTreeMap::new();
    for delivery in &all {
        let peer = delivery.sender.map(|(pid, _)| pid);
        let before_ns = latest.insert((delivery.pid, peer), delivery.at_ns);
        let (counted_ns, left) = open.entry(delivery.pid).or_default();
        if let Some(own) = threads.get(&delivery.pid) {
            *left += sends.count(own, counted_ns.saturating_add(1), delivery.at_ns);
        }
        *counted_ns = delivery.at_ns;
        let is_answer = *left > 0;
        *left = left.saturating_sub(1);
        let (Some(before_ns), Some(awake_ns)) = (before_ns, delivery.awake_ns) else { continue };
        let slept_ns = delivery.at_ns.min(to_ns).saturating_sub(delivery.since_ns.max(from_ns));
        let Some(own) = threads.get(&delivery.pid).filter(|_| slept_ns > 0) else { continue };
        if is_answer || sends.are_between(own, before_ns.min(awake_ns), delivery.at_ns) {
            continue;
        }
        let sum = match delivery.sender {
            Some((_, tid)) => found.by.entry(tid).or_default(),
            None => &mut found.of_hosts_ns,
        };
        *sum = sum.saturating_add(slept_ns);
    }
    found
}

#[cfg(test)]
mod tests {
    use noise_paths::build::Builder;
    use noise_trace::event::{Event, Packet, TraceKind};
    use noise_trace::fixtures::{ASLEEP, switch, waking};

    use super::*;

    /// A segment without content, and one that has some.
    const BARE: u32 = 66;
    const DATA: u32 = 80;
    const WORKER: i32 = 1;
    const QUEUE: i32 = 2;

    fn sent(skb: u64, len: u32) -> TraceKind<'static> {
        TraceKind::NetDevQueue(Packet { skb, len, name: b"lo" })
    }

    /// The queue sends something to the worker, which runs then and sends packets of these lengths.
    fn job(at_ns: u64, lengths: &[u32]) -> Vec<(u64, TraceKind<'static>)> {
        let packet = Packet { skb: at_ns, len: DATA - 14, name: b"lo" };
        let mut events = vec![
            (at_ns, switch(0, ASLEEP, QUEUE)),
            (at_ns + 1, sent(at_ns, DATA)),
            (at_ns + 2, TraceKind::SoftirqEntry { vec: 3 }),
            (at_ns + 3, TraceKind::NetifReceiveSkb(packet)),
            (at_ns + 4, waking(WORKER)),
            (at_ns + 5, TraceKind::SoftirqExit { vec: 3 }),
            (at_ns + 6, switch(QUEUE, ASLEEP, WORKER)),
        ];
        events.extend(
            (7..).zip(lengths).map(|(after, len)| (at_ns + after, sent(at_ns + after, *len))),
        );
        events.push((at_ns + 50, switch(WORKER, ASLEEP, 0)));
        events
    }

    fn found(jobs: &[(u64, &[u32])], more: &[(u64, TraceKind<'static>)]) -> Pushed {
        let mut events: Vec<(u64, TraceKind<'static>)> =
            vec![(10, switch(0, ASLEEP, WORKER)), (20, switch(WORKER, ASLEEP, 0))];
        events.extend(jobs.iter().flat_map(|(at_ns, lengths)| job(*at_ns, lengths)));
        events.extend_from_slice(more);
        events.sort_by_key(|(time_ns, _)| *time_ns);
        let (mut builder, mut sends) = (Builder::default(), Sends::default());
        for (time_ns, kind) in events {
            let event = Event { time_ns, cpu: 0, kind };
            builder.follow(&event);
            sends.follow(&event, |tid| tid == WORKER);
        }
        pushed(builder.graph(), &sends, |tid| tid == WORKER, (500, 10_000))
    }

    #[test]
    fn work_that_comes_by_itself_was_not_asked_for() {
        // The first sleep began before it is known what was sent, and the second one before the time that is looked at.
        let jobs: [(u64, &[u32]); 4] =
            [(100, &[BARE]), (1_100, &[BARE]), (2_100, &[]), (3_100, &[])];
        let sleeps_ns = (1_104 - 500) + 2 * (1_104 - 150);
        let expected = Pushed { by: [(QUEUE, sleeps_ns)].into(), of_hosts_ns: 0 };
        assert_eq!(found(&jobs, &[]), expected);
    }

    #[test]
    fn who_sends_something_before_it_sleeps_may_have_asked() {
        let asks: &[u32] = &[BARE, DATA];
        assert_eq!(found(&[(100, asks), (1_100, asks), (2_100, asks)], &[]), Pushed::default());
        // It did in one of the turns alone: the sleep behind that is asked for.
        let jobs: [(u64, &[u32]); 3] = [(100, &[BARE]), (1_100, asks), (2_100, &[BARE])];
        assert_eq!(found(&jobs, &[]).by, [(QUEUE, 1_104 - 500)].into());
        // It is woken once more before the answer comes, and sends nothing then.
        let timer = [
            (1_500, TraceKind::SoftirqEntry { vec: 1 }),
            (1_501, waking(WORKER)),
            (1_502, TraceKind::SoftirqExit { vec: 1 }),
            (1_503, switch(0, ASLEEP, WORKER)),
            (1_510, switch(WORKER, ASLEEP, 0)),
        ];
        assert_eq!(found(&jobs, &timer).by, [(QUEUE, 1_104 - 500)].into());
    }

    #[test]
    fn each_of_several_requests_counts_for_one_answer() {
        let two: &[u32] = &[DATA, DATA];
        let jobs: [(u64, &[u32]); 4] = [(100, two), (1_100, &[]), (2_100, &[]), (3_100, &[])];
        assert_eq!(found(&jobs, &[]).by, [(QUEUE, 1_104 - 150)].into());
    }

    #[test]
    fn what_is_not_seen_decides_nothing() {
        let jobs: [(u64, &[u32]); 2] = [(100, &[BARE]), (1_100, &[BARE])];
        assert_eq!(found(&jobs, &[]).by, [(QUEUE, 1_104 - 500)].into());
        // Another connection has segments without times: one of the length of a bare one may have content.
        assert_eq!(found(&jobs, &[(60, sent(9, 54))]), Pushed::default());
    }
}
