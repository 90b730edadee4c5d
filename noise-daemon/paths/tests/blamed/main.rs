//! For whom sleeps on a path wait: small machines, event by event, whose parts are known.

#![expect(clippy::unwrap_used, reason = "all of this is a test, which fails by panicking")]

use noise_paths::blame::Blame;
use noise_paths::build::Builder;
use noise_paths::document::{PathsDocument, Segment, traced};
use noise_paths::execution::{Wanted, find};
use noise_paths::walk::{Bounds, walk};
use noise_trace::delays::Delays;
use noise_trace::event::{Event, Packet, Request, TraceKind};
use noise_trace::fixtures::{switch, task, waking};

fn request(tid: i32, sector: u64) -> Request<'static> {
    let comm: &[u8] = if tid == 1 { b"t1" } else { b"other" };
    Request { dev: 8 << 20, sector, sectors: 7, tid, comm, ..Request::default() }
}

/// The path of thread 1, divided.
fn path(events: &[(u64, u32, TraceKind<'static>)]) -> Vec<Segment> {
    path_until(events, 0)
}

/// The same up to a time, which may lie within a wait or behind its last event; 0 for all of it.
fn path_until(events: &[(u64, u32, TraceKind<'static>)], until_ns: u64) -> Vec<Segment> {
    let event = |(time_ns, cpu, kind): &(u64, u32, TraceKind<'static>)| Event {
        time_ns: *time_ns,
        cpu: *cpu,
        kind: *kind,
    };
    let mut builder = Builder::default();
    events.iter().for_each(|of| builder.follow(&event(of)));
    let execution = find(builder.graph(), &Wanted::Thread(1))[0];
    if execution.to_ns < until_ns {
        builder.until(execution.worker, until_ns);
    }
    let graph = builder.finish();
    let from_ns = execution.from_ns;
    let to_ns = if until_ns > 0 { until_ns } else { execution.to_ns };
    let path = walk(&graph, execution.worker, from_ns, to_ns, Bounds::default()).unwrap();
    let executions = vec![traced(&graph, "thread:1", &execution, &path)];
    let mut document = PathsDocument { executions, ..PathsDocument::default() };
    let mut blame = Blame::new(&document, Delays::of_turns());
    events.iter().for_each(|of| blame.follow(&event(of), &mut document));
    blame.finish(&mut document);
    document.executions.remove(0).path
}

/// State, and for whom.
fn divided(segment: &Segment) -> (&str, Vec<(i32, &str, &str, u64)>) {
    let culprits = segment.culprits.iter();
    let culprits = culprits.map(|culprit| (culprit.tid, &*culprit.comm, culprit.cause, culprit.ns));
    (segment.state, culprits.collect())
}

const ENTRY: TraceKind<'static> = TraceKind::IrqHandlerEntry { irq: 9, name: b"disk" };
const EXIT: TraceKind<'static> = TraceKind::IrqHandlerExit { irq: 9, ret: 1 };

#[test]
fn at_a_disk_who_was_ahead() {
    let (own, other) = (request(1, 100), request(2, 5_000));
    let path = path(&[
        (900, 0, switch(0, 0, 1)),
        (950, 1, TraceKind::BlockRqInsert(other)),
        (1_000, 0, TraceKind::BlockRqInsert(own)),
        (1_000, 0, switch(1, 2, 0)),
        (1_500, 1, TraceKind::BlockRqIssue(other)),
        (2_000, 1, TraceKind::BlockRqIssue(own)),
        (2_400, 0, ENTRY),
        (2_500, 0, TraceKind::BlockRqComplete(other)),
        (2_600, 0, EXIT),
        (2_990, 0, ENTRY),
        (3_000, 0, TraceKind::BlockRqComplete(own)),
        (3_010, 0, waking(1)),
        (3_020, 0, EXIT),
        (3_050, 0, switch(0, 0, 1)),
        (3_060, 0, switch(1, 1, 0)),
    ]);
    // A thousand in the queue behind the other one; a thousand at the device, half of it that one's; ten to wake up.
    let ahead =
        vec![(2, "other", "foreign", 1_500), (1, "t1", "self", 500), (-1, "", "untracked", 10)];
    assert_eq!(divided(&path[1]), ("disk", ahead));
    let had = vec![(0, "t0", "idle", 30), (-1, "disk", "hardirq", 10)];
    assert_eq!(divided(&path[2]), ("waiting_cpu", had));
}

#[test]
fn while_its_quota_is_used_up_for_no_one_else() {
    let throttled = |tid: i32, ns| TraceKind::Throttled { task: task(tid), throttled_ns: ns };
    // Thread 1 itself; then thread 2, which is to wake it: of that wait, a part lies within the sleep.
    let path = path(&[
        (100, 0, switch(0, 0, 1)),
        (200, 0, switch(1, 0, 3)),
        (260, 0, switch(3, 1, 0)),
        (300, 0, throttled(1, 90)),
        (300, 0, switch(0, 0, 1)),
        (310, 1, switch(0, 0, 2)),
        (320, 1, switch(2, 0, 4)),
        (350, 0, switch(1, 1, 0)),
        (420, 1, throttled(2, 80)),
        (420, 1, switch(4, 1, 2)),
        (440, 1, waking(1)),
        (445, 0, switch(0, 0, 1)),
        (450, 0, switch(1, 1, 0)),
    ]);
    let waits: Vec<_> =
        path.iter().filter(|part| part.state == "waiting_cpu").map(divided).collect();
    let own = vec![(-1, "", "throttle", 90), (0, "t0", "idle", 10)];
    // It lasted from 320 to 420: the quota took the time until 400, and 350 is where the sleep begins.
    let other = vec![(-1, "", "throttle", 50), (4, "t4", "thread", 20)];
    assert_eq!(waits[..2], [("waiting_cpu", own), ("waiting_cpu", other)]);
}

#[test]
fn a_sleep_that_no_signal_ends_what_woke_it() {
    let woken_by = |prev_state: i64, context: &[TraceKind<'static>]| {
        let mut events = vec![(10, 0, switch(0, 0, 1)), (20, 0, switch(1, prev_state, 0))];
        events.extend(context.iter().map(|kind| (90, 0, *kind)));
        events.extend([(100, 0, waking(1)), (120, 0, switch(0, 0, 1)), (130, 0, switch(1, 1, 0))]);
        let path = path(&events);
        let (state, culprits) = divided(&path[1]);
        let culprits: Vec<_> = culprits
            .into_iter()
            .map(|(tid, comm, cause, ns)| (tid, comm.to_owned(), cause.to_owned(), ns))
            .collect();
        (state.to_owned(), culprits)
    };
    let culprit = |comm: &str, cause: &str| vec![(-1, comm.to_owned(), cause.to_owned(), 80)];
    let in_line = [TraceKind::IrqHandlerEntry { irq: 33, name: b"gpu" }];
    assert_eq!(woken_by(2, &in_line), ("interrupt".to_owned(), culprit("gpu", "hardirq")));
    let in_timer = [TraceKind::SoftirqEntry { vec: 1 }];
    assert_eq!(woken_by(2, &in_timer), ("timer".to_owned(), culprit("timer", "softirq")));
    // One that a signal ends, and a kernel thread that has nothing to do.
    for state in [1, 0x402] {
        assert_eq!(woken_by(state, &in_timer), ("timer".to_owned(), Vec::new()));
    }
    // The exit of an interrupt before was lost; a switch came since.
    let lost = [in_line[0], switch(0, 0, 3), TraceKind::SoftirqEntry { vec: 1 }];
    assert_eq!(woken_by(2, &lost), ("timer".to_owned(), culprit("timer", "softirq")));
}

#[test]
fn for_a_packet_its_sender() {
    let packet = Packet { skb: 7, len: 60, name: b"lo" };
    let receive = |sent: bool| {
        let mut events =
            vec![(10, 0, switch(0, 0, 1)), (11, 1, switch(0, 0, 2)), (20, 0, switch(1, 1, 0))];
        if sent {
            events.push((50, 1, TraceKind::NetDevQueue(packet)));
        }
        events.extend([
            (60, 0, TraceKind::SoftirqEntry { vec: 3 }),
            (61, 0, TraceKind::NetifReceiveSkb(packet)),
            (70, 0, waking(1)),
            (71, 0, TraceKind::SoftirqExit { vec: 3 }),
            (80, 0, switch(0, 0, 1)),
            (90, 0, switch(1, 1, 0)),
        ]);
        path(&events)
    };
    let path = receive(true);
    assert_eq!(divided(&path[1]), ("running", Vec::new()));
    assert_eq!(path[1].tid, 2);
    assert_eq!(divided(&path[2]), ("network", vec![(2, "t2", "sender", 20)]));
    let path = receive(false);
    assert_eq!(divided(&path[1]), ("network", vec![(-1, "", "untracked", 50)]));
}

fn migrate(tid: i32, dest_cpu: u32) -> TraceKind<'static> {
    TraceKind::SchedMigrateTask { task: task(tid), orig_cpu: 0, dest_cpu }
}

#[test]
fn for_a_cpu_who_had_those_that_it_waited_on() {
    let events = |is_moved: bool| {
        let mut events = vec![
            (5, 1, switch(0, 0, 3)),
            (10, 0, switch(0, 0, 1)),
            (20, 0, switch(1, 0, 2)),
            (980, 1, switch(3, 1, 0)),
            (1_000, 0, migrate(1, 1)),
            (1_020, 1, switch(0, 0, 1)),
            (1_030, 1, switch(1, 1, 0)),
        ];
        events
            .retain(|(_, _, kind)| is_moved || !matches!(kind, TraceKind::SchedMigrateTask { .. }));
        path(&events)
    };
    let path = events(true);
    let on_both = vec![(2, "t2", "thread", 980), (0, "t0", "idle", 20)];
    assert_eq!(divided(&path[1]), ("waiting_cpu", on_both));
    // Where that is not recorded, it is taken to have waited where it ran in the end.
    let path = events(false);
    let on_the_last = vec![(3, "t3", "thread", 960), (0, "t0", "idle", 40)];
    assert_eq!(divided(&path[1]), ("waiting_cpu", on_the_last));
}

#[test]
fn a_wait_that_goes_on_for_those_that_it_waited_on_so_far() {
    let mut events = vec![
        (5, 0, switch(0, 0, 1)),
        (6, 1, switch(0, 0, 3)),
        (10, 0, switch(1, 1, 2)),
        (15, 2, switch(0, 0, 4)),
        (20, 2, waking(1)),
        (21, 2, migrate(1, 1)),
        (500, 2, switch(4, 1, 0)),
    ];
    let of = |events: &[_], until_ns| {
        let path = path_until(events, until_ns);
        let last = path.last().unwrap();
        let culprits: Vec<_> = last.culprits.iter().map(|one| (one.tid, one.ns)).collect();
        (last.state, last.cpu, last.to_ns, culprits)
    };
    // Nothing has ended it: the wake-up names the CPU that the thread had before.
    let on_one = ("waiting_cpu", Some(1), 400, vec![(3, 379), (2, 1)]);
    assert_eq!(of(&events, 400), on_one);
    // It ends behind the time that is asked for, on a third CPU.
    events.extend([(600, 2, migrate(1, 2)), (610, 2, switch(0, 0, 1)), (620, 2, switch(1, 1, 0))]);
    assert_eq!(of(&events, 400), ("waiting_cpu", Some(2), 400, on_one.3));
    // Where moves are not recorded, it is taken to have waited where it runs.
    events.retain(|(_, _, kind)| !matches!(kind, TraceKind::SchedMigrateTask { .. }));
    assert_eq!(of(&events, 400), ("waiting_cpu", Some(2), 400, vec![(4, 380)]));
    // One that is preempted waits on the CPU that it left, until it is moved.
    let events = [
        (5, 0, switch(0, 0, 1)),
        (6, 1, switch(0, 0, 3)),
        (100, 0, switch(1, 0, 2)),
        (500, 1, migrate(1, 1)),
        (510, 1, switch(3, 1, 1)),
        (520, 1, switch(1, 1, 0)),
    ];
    assert_eq!(of(&events, 400), ("waiting_cpu", Some(1), 400, vec![(2, 300)]));
}

#[test]
fn for_a_cpu_what_interrupts_took_apart() {
    let path = path(&[
        (10, 0, switch(0, 0, 1)),
        (12, 0, TraceKind::IrqHandlerEntry { irq: 33, name: b"gpu" }),
        (15, 0, TraceKind::IrqHandlerExit { irq: 33, ret: 1 }),
        (20, 0, switch(1, 0, 2)),
        (30, 0, TraceKind::IrqHandlerEntry { irq: 33, name: b"gpu" }),
        (70, 0, TraceKind::IrqHandlerExit { irq: 33, ret: 1 }),
        (80, 0, TraceKind::SoftirqEntry { vec: 3 }),
        (90, 0, TraceKind::SoftirqExit { vec: 3 }),
        (120, 0, switch(2, 0, 1)),
        (130, 0, switch(1, 1, 0)),
    ]);
    let apart =
        vec![(2, "t2", "thread", 50), (-1, "gpu", "hardirq", 40), (-1, "net_rx", "softirq", 10)];
    assert_eq!(divided(&path[1]), ("waiting_cpu", apart));
}
