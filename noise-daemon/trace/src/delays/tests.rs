//! Schedules whose every nanosecond has a known owner.

mod crowd;
mod foreign;
mod lost;

use std::collections::BTreeMap;

use noise_common::signals::Signal;
use proptest::prelude::*;

use super::document::{DelaysDocument, Device};
use super::watch::{Delay, Run, RunQueueWait, Watch};
use super::{Analysis as _, Begin, Delays};
use crate::event::{Comm, Event, LostEvents, Packet, Request, Task, TraceKind, Woken};
use crate::fixtures::{switch, task, wakeup, waking};
use crate::rwbs::{DISCARD, FLUSH, FUA, PREFLUSH, RAHEAD, READ, SECURE, SYNC, WRITE, parse};
use crate::state::LeftIn;

fn document(events: &[(u64, u32, TraceKind<'_>)]) -> DelaysDocument {
    let mut delays = Delays::default();
    for (time_ns, cpu, kind) in events {
        delays.follow(&Event { time_ns: *time_ns, cpu: *cpu, kind: *kind });
    }
    delays.finish(|_| true, None)
}

fn culprits(document: &DelaysDocument, tid: i32) -> BTreeMap<(i32, &'static str), u64> {
    let thread = document.threads.iter().find(|thread| thread.tid == tid).unwrap();
    thread.culprits.iter().map(|culprit| ((culprit.tid, culprit.cause), culprit.ns)).collect()
}

#[test]
fn waits_begin_with_the_first_wakeup_and_are_charged_to_who_ran() {
    let document = document(&[
        (100, 0, switch(0, 0, 1)),
        (110, 0, wakeup(2, 0)),
        (115, 0, wakeup(2, 0)),
        (120, 0, switch(1, 0x100, 3)),
        (150, 0, switch(3, 1, 2)),
        (170, 0, switch(2, 2, 1)),
        (180, 0, switch(1, 1, 0)),
    ]);
    let thread = |tid: i32| document.threads.iter().find(|thread| thread.tid == tid).unwrap();
    assert_eq!(thread(2).waits.wakeup.sum_ns, 40);
    assert_eq!(culprits(&document, 2), [((1, "thread"), 10), ((3, "thread"), 30)].into());
    assert_eq!(thread(1).waits.preempt.sum_ns, 50);
    assert_eq!(culprits(&document, 1), [((3, "thread"), 30), ((2, "thread"), 20)].into());
    assert_eq!((thread(1).run_ns, thread(2).run_ns), (30, 20));
}

#[test]
fn waits_begin_with_wakings_where_there_is_nothing_else() {
    let events = [(100, 0, switch(0, 0, 1)), (110, 0, waking(2)), (150, 0, switch(1, 1, 2))];
    let waited = |begin| {
        let mut delays = Delays::new(begin);
        for (time_ns, cpu, kind) in &events {
            delays.follow(&Event { time_ns: *time_ns, cpu: *cpu, kind: *kind });
        }
        let document = delays.finish(|_| true, None);
        let is_missing = |name: &str| document.missing.iter().any(|kind| kind == name);
        let is_named = is_missing("sched_wakeup") && !is_missing("sched_waking");
        let threads = document.threads.iter().filter(|thread| thread.tid == 2);
        (threads.map(|thread| thread.waits.wakeup.sum_ns).sum::<u64>(), is_named)
    };
    assert_eq!(waited(Begin::Waking), (40, true));
    assert_eq!(waited(Begin::Wakeup), (0, true));
}

#[test]
fn a_thread_that_falls_asleep_while_it_is_woken_waits() {
    let mut delays = Delays::new(Begin::Waking);
    for (time_ns, cpu, kind) in [
        (100, 0, switch(0, 0, 1)),
        // Its waker goes on once it sleeps.
        (110, 1, waking(1)),
        (113, 0, switch(1, 1, 2)),
        (120, 0, switch(2, 1, 1)),
        // This one found it running, and it was woken again later.
        (125, 1, waking(1)),
        (130, 0, switch(1, 1, 0)),
        (150, 1, waking(1)),
        (155, 0, switch(0, 0, 1)),
    ] {
        delays.follow(&Event { time_ns, cpu, kind });
    }
    let document = delays.finish(|_| true, None);
    let thread = document.threads.iter().find(|thread| thread.tid == 1).unwrap();
    assert_eq!((thread.waits.wakeup.count, thread.waits.wakeup.sum_ns), (2, 7 + 5));
    assert_eq!(culprits(&document, 1), [((2, "thread"), 7), ((0, "idle"), 5)].into());
}

#[test]
fn what_a_quota_took_of_a_wait_comes_first_as_it_does_live() {
    let throttled = |ns| TraceKind::Throttled { task: task(1), throttled_ns: ns };
    let moved = TraceKind::SchedMigrateTask { task: task(1), orig_cpu: 0, dest_cpu: 1 };
    let (entry, exit) = (
        TraceKind::IrqHandlerEntry { irq: 9, name: b"disk" },
        TraceKind::IrqHandlerExit { irq: 9, ret: 1 },
    );
    let document = document(&[
        (90, 1, switch(0, 0, 3)),
        (100, 0, switch(0, 0, 1)),
        (110, 0, switch(1, 0, 0)),
        (160, 0, throttled(45)),
        (160, 0, moved),
        (180, 1, switch(3, 1, 1)),
        // No quota takes part in this one: what an interrupt took comes first.
        (190, 1, switch(1, 0, 3)),
        (192, 1, entry),
        (197, 1, exit),
        (200, 1, switch(3, 0, 1)),
    ]);
    let thread = document.threads.iter().find(|thread| thread.tid == 1).unwrap();
    let charges = thread.charges.iter().map(|charge| (charge.cause, charge.tid, charge.ns));
    let expected = [
        ("throttle", None, 45),
        ("thread", Some(3), 25),
        ("hardirq", None, 5),
        ("idle", Some(0), 5),
    ];
    let charges: Vec<_> = charges.collect();
    assert!(expected.iter().all(|charge| charges.contains(charge)), "{charges:?}");
    assert_eq!(charges.len(), expected.len());
    // Who had the CPU is another question.
    assert_eq!(culprits(&document, 1)[&(3, "thread")], 80);
}

#[test]
fn a_new_thread_waits_since_it_was_created() {
    let new = TraceKind::SchedWakeupNew(Woken { task: task(2), target_cpu: 0 });
    let document = document(&[
        (100, 0, switch(0, 0, 1)),
        // Of another one with that id, whose end was lost.
        (110, 0, wakeup(2, 0)),
        (150, 0, new),
        (160, 0, switch(1, 1, 2)),
    ]);
    let thread = document.threads.iter().find(|thread| thread.tid == 2).unwrap();
    assert_eq!((thread.waits.wakeup.count, thread.waits.wakeup.sum_ns), (1, 10));
}

#[test]
fn waits_are_divided_however_many_turns_they_last() {
    let mut events = vec![(100, 0, switch(0, 0, 1)), (105, 0, switch(1, 0, 2))];
    for number in 0..3000_u64 {
        let (prev, next) = if number % 2 == 0 { (2, 3) } else { (3, 2) };
        events.push((110 + 10 * number, 0, switch(prev, 0, next)));
    }
    events.push((110 + 30_000, 0, switch(2, 0, 1)));
    let document = document(&events);
    assert_eq!(document.untracked_ns, 0);
    let parts: BTreeMap<_, _> = [((2, "thread"), 5 + 15_000), ((3, "thread"), 15_000)].into();
    assert_eq!(culprits(&document, 1), parts);
    let thread = document.threads.iter().find(|thread| thread.tid == 1).unwrap();
    let charges: BTreeMap<_, _> = thread
        .charges
        .iter()
        .map(|charge| ((charge.tid.unwrap(), charge.cause), charge.ns))
        .collect();
    assert_eq!(charges, parts);
}

fn request(sector: u64, sectors: u32) -> Request<'static> {
    Request { dev: 8 << 20, sector, sectors, ..Request::default() }
}

/// Number and sum of waits in the queue, and at the device.
fn block(steps: &[(u64, TraceKind<'_>)]) -> [(u64, u64); 2] {
    let events: Vec<_> = steps.iter().map(|(time_ns, kind)| (*time_ns, 0, *kind)).collect();
    let document = document(&events);
    let of = |devices: &[Device]| {
        devices.iter().fold((0, 0), |(count, ns), device| {
            (count + device.whole.count, ns + device.whole.sum_ns)
        })
    };
    [of(&document.block_queue_wait), of(&document.block_device_wait)]
}

#[test]
fn the_last_part_ends_a_request() {
    let [_, device] = block(&[
        (10, TraceKind::BlockRqIssue(request(8, 16))),
        (20, TraceKind::BlockRqComplete(request(8, 8))),
        (25, TraceKind::BlockRqComplete(request(16, 8))),
    ]);
    assert_eq!(device, (1, 15));
}

#[test]
fn requests_for_one_sector_are_counted_each() {
    let waits = block(&[
        (10, TraceKind::BlockRqInsert(request(8, 8))),
        (12, TraceKind::BlockRqInsert(request(8, 8))),
        (20, TraceKind::BlockRqIssue(request(8, 8))),
        (21, TraceKind::BlockRqIssue(request(8, 8))),
        (30, TraceKind::BlockRqComplete(request(8, 8))),
        (31, TraceKind::BlockRqComplete(request(8, 8))),
    ]);
    assert_eq!(waits, [(2, 19), (2, 20)]);
}

#[test]
fn merged_requests_wait_as_one() {
    let waits = block(&[
        (10, TraceKind::BlockRqInsert(request(16, 8))),
        (11, TraceKind::BlockRqInsert(request(24, 8))),
        (12, TraceKind::BlockRqMerge(request(24, 8))),
        // With a part in front that was no request of its own.
        (15, TraceKind::BlockRqIssue(request(8, 24))),
        (40, TraceKind::BlockRqComplete(request(8, 24))),
        // It was never queued.
        (50, TraceKind::BlockRqIssue(request(24, 8))),
        (55, TraceKind::BlockRqComplete(request(24, 8))),
    ]);
    assert_eq!(waits, [(1, 5), (2, 30)]);
}

#[test]
fn a_flush_is_no_write_to_the_first_sector() {
    let waits = block(&[
        (9, TraceKind::BlockRqInsert(request(0, 8))),
        (10, TraceKind::BlockRqIssue(request(0, 0))),
        (11, TraceKind::BlockRqIssue(request(0, 8))),
        (20, TraceKind::BlockRqComplete(request(u64::MAX, 0))),
        // Another one, and the end of the first one's caller.
        (20, TraceKind::BlockRqIssue(request(0, 0))),
        (21, TraceKind::BlockRqComplete(Request { rwbs: 1, ..request(0, 0) })),
        (23, TraceKind::BlockRqComplete(request(u64::MAX, 0))),
        (25, TraceKind::BlockRqComplete(request(0, 8))),
    ]);
    assert_eq!(waits, [(1, 2), (3, 10 + 3 + 14)]);
}

fn does(rwbs: u32, sector: u64, sectors: u32) -> Request<'static> {
    Request { rwbs, ..request(sector, sectors) }
}

#[test]
fn a_request_of_another_operation_ends_none() {
    let [queue, device] = block(&[
        (10, TraceKind::BlockRqInsert(does(WRITE | SYNC, 8, 8))),
        (12, TraceKind::BlockRqInsert(does(READ, 8, 8))),
        (20, TraceKind::BlockRqIssue(does(READ | RAHEAD, 8, 8))),
        (25, TraceKind::BlockRqComplete(does(DISCARD, 8, 8))),
        (30, TraceKind::BlockRqComplete(does(READ, 8, 8))),
        (40, TraceKind::BlockRqIssue(does(WRITE, 8, 8))),
        (50, TraceKind::BlockRqComplete(does(READ, 8, 8))),
        // Neither a read nor a write, as one that writes zeroes; two erase, and one only discards.
        (55, TraceKind::BlockRqComplete(does(0, 8, 8))),
        (60, TraceKind::BlockRqIssue(does(DISCARD | SECURE, 8, 8))),
        (61, TraceKind::BlockRqComplete(does(DISCARD, 8, 8))),
        (62, TraceKind::BlockRqComplete(does(DISCARD | SECURE, 8, 8))),
        (70, TraceKind::BlockRqIssue(does(parse(b"ZR"), 8, 8))),
        (71, TraceKind::BlockRqComplete(does(parse(b"ZA"), 8, 8))),
        (72, TraceKind::BlockRqComplete(does(READ, 8, 8))),
        (73, TraceKind::BlockRqComplete(does(parse(b"ZR"), 8, 8))),
        (80, TraceKind::BlockRqIssue(does(0, 8, 8))),
        (84, TraceKind::BlockRqComplete(does(0, 8, 8))),
    ]);
    assert_eq!((queue, device), ((2, 8 + 30), (4, 10 + 2 + 3 + 4)));
}

#[test]
fn a_flush_of_old_kernels_is_a_write_too() {
    let [_, device] = block(&[
        (10, TraceKind::BlockRqIssue(does(FLUSH | WRITE | SYNC, u64::MAX, 0))),
        (15, TraceKind::BlockRqComplete(does(FLUSH | WRITE | SYNC, u64::MAX, 0))),
        // Of kernels of today: the end of the flush's caller comes while another flush is under way.
        (20, TraceKind::BlockRqIssue(does(FLUSH | FUA, u64::MAX, 0))),
        (21, TraceKind::BlockRqComplete(does(PREFLUSH | WRITE | SYNC, u64::MAX, 0))),
        (28, TraceKind::BlockRqComplete(does(FLUSH | FUA, u64::MAX, 0))),
    ]);
    assert_eq!(device, (2, 5 + 8));
}

#[test]
fn requests_without_a_disk_are_not_measured() {
    let own = Request { dev: 0, ..request(0, 8) };
    let waits = block(&[
        (10, TraceKind::BlockRqInsert(own)),
        (11, TraceKind::BlockRqIssue(own)),
        (15, TraceKind::BlockRqComplete(own)),
    ]);
    assert_eq!(waits, [(0, 0), (0, 0)]);
}

#[test]
fn what_is_unknown_of_a_thread_begins_no_wait() {
    // It is left in a state of another kernel, and runs again; then it is woken.
    let document = document(&[
        (0, 0, switch(0, 0, 1)),
        (10, 0, switch(1, 0x200, 2)),
        (50, 0, switch(2, 1, 1)),
        (60, 0, switch(1, 0x200, 0)),
        (70, 0, wakeup(1, 0)),
        (75, 0, switch(0, 0, 1)),
    ]);
    let waits = document.threads.iter().find(|thread| thread.tid == 1).unwrap().waits;
    assert_eq!((waits.preempt.count, waits.wakeup.count, waits.wakeup.sum_ns), (0, 1, 5));
}

#[test]
fn a_request_that_comes_back_waits_again() {
    let waits = block(&[
        (10, TraceKind::BlockRqIssue(request(8, 16))),
        (20, TraceKind::BlockRqComplete(request(8, 8))),
        (21, TraceKind::BlockRqRequeue(request(16, 8))),
        (23, TraceKind::BlockRqInsert(request(16, 8))),
        (30, TraceKind::BlockRqIssue(request(16, 8))),
        (37, TraceKind::BlockRqComplete(request(16, 8))),
    ]);
    assert_eq!(waits, [(1, 9), (1, 7)]);
}

#[test]
fn packets_are_followed_to_their_interface() {
    let packet = |skb, len, name| Packet { skb, len, name };
    let document = document(&[
        (10, 0, TraceKind::NetDevQueue(packet(1, 100, b"bond"))),
        (11, 0, TraceKind::NetDevQueue(packet(2, 3000, b"eth0"))),
        (12, 0, TraceKind::NetDevQueue(packet(3, 100, b"eth0"))),
        // With a tag; a segment in the memory of what was split; one that was dropped.
        (15, 0, TraceKind::NetDevStartXmit(packet(1, 104, b"eth0"))),
        (16, 0, TraceKind::NetDevStartXmit(packet(2, 1500, b"eth0"))),
        (17, 0, TraceKind::SkbKfree { skb: 3, reason: 2 }),
        (18, 0, TraceKind::NetDevStartXmit(packet(3, 100, b"eth0"))),
    ]);
    let waits: Vec<_> = document.packets[&Signal::NetTxWait]
        .iter()
        .map(|wait| (wait.interface.as_str(), wait.whole.count, wait.whole.sum_ns))
        .collect();
    assert_eq!(waits, [("eth0", 1, 5)]);
}

#[test]
fn a_thread_that_moves_waits_on_both_cpus() {
    let document = document(&[
        (100, 0, switch(0, 0, 1)),
        (100, 1, switch(0, 0, 4)),
        (110, 0, wakeup(2, 0)),
        (130, 1, TraceKind::SchedMigrateTask { task: task(2), orig_cpu: 0, dest_cpu: 1 }),
        (150, 1, switch(4, 1, 2)),
    ]);
    assert_eq!(culprits(&document, 2), [((4, "thread"), 40)].into());
    let thread = document.threads.iter().find(|thread| thread.tid == 2).unwrap();
    let following: BTreeMap<_, _> = thread
        .culprits_following_migrations
        .iter()
        .map(|culprit| (culprit.tid, culprit.ns))
        .collect();
    assert_eq!(following, [(1, 20), (4, 20)].into());
}

#[test]
fn a_thread_waits_again_after_a_lost_switch() {
    let document = document(&[
        (100, 0, switch(0, 0, 1)),
        (105, 1, switch(0, 0, 2)),
        // Thread 1 went to sleep, thread 2 to the other CPU.
        (150, 0, switch(3, 1, 2)),
        (155, 1, switch(0, 0, 4)),
        (160, 1, wakeup(1, 0)),
        (170, 1, wakeup(2, 0)),
        (190, 0, switch(2, 1, 1)),
    ]);
    let thread = |tid: i32| document.threads.iter().find(|thread| thread.tid == tid).unwrap();
    assert_eq!((thread(1).waits.wakeup.sum_ns, thread(1).run_ns), (30, 0));
    assert_eq!((thread(2).waits.wakeup.count, thread(2).run_ns), (0, 40));
}

#[test]
fn interrupts_are_charged_apart() {
    let document = document(&[
        (100, 0, switch(0, 0, 1)),
        (110, 0, wakeup(2, 0)),
        (120, 0, TraceKind::IrqHandlerEntry { irq: 7, name: b"disk" }),
        (122, 0, TraceKind::SoftirqRaise { vec: 4 }),
        (125, 0, TraceKind::IrqHandlerExit { irq: 7, ret: 1 }),
        (126, 0, TraceKind::SoftirqEntry { vec: 4 }),
        (130, 0, TraceKind::IrqHandlerEntry { irq: 7, name: b"disk" }),
        (133, 0, TraceKind::IrqHandlerExit { irq: 7, ret: 1 }),
        (136, 0, TraceKind::SoftirqExit { vec: 4 }),
        (150, 0, switch(1, 1, 2)),
    ]);
    assert_eq!(culprits(&document, 2), [((1, "thread"), 40)].into());
    let thread = document.threads.iter().find(|thread| thread.tid == 2).unwrap();
    let charges: Vec<_> = thread
        .charges
        .iter()
        .map(|charge| (charge.tid, charge.cause, charge.source.as_deref(), charge.ns))
        .collect();
    let expected = [
        (Some(1), "thread", None, 25),
        (None, "hardirq", Some("7"), 8),
        (None, "softirq", Some("4"), 7),
    ];
    assert_eq!(charges, expected);
    let (hardirq, softirq) = (&document.hardirq[0], &document.softirq[0]);
    assert_eq!((hardirq.whole.count, hardirq.whole.sum_ns, hardirq.net_ns), (2, 8, 8));
    assert_eq!((softirq.whole.sum_ns, softirq.net_ns), (10, 7));
    assert_eq!(document.softirq_raise_wait[0].whole.sum_ns, 4);
}

#[test]
fn what_came_before_a_cpus_first_switch_is_untracked() {
    let document = document(&[(100, 0, wakeup(2, 0)), (130, 0, switch(1, 1, 2))]);
    assert_eq!(culprits(&document, 2), [((-1, "untracked"), 30)].into());
    assert_eq!(document.untracked_ns, 30);
    let is_missing = |name: &str| document.missing.iter().any(|kind| kind == name);
    assert_eq!(
        ["block_rq_issue", "sched_waking", "sched_wakeup"].map(is_missing),
        [true, true, false]
    );
}

#[test]
fn after_an_exec_a_thread_goes_on_under_its_processs_id() {
    let exec = TraceKind::SchedProcessExec { filename: b"/bin/x", tid: 7, old_tid: 8 };
    let document = document(&[
        (100, 0, switch(0, 0, 8)),
        (110, 0, wakeup(2, 0)),
        (130, 0, exec),
        (150, 0, switch(7, 0, 2)),
        (160, 0, switch(2, 1, 7)),
        (170, 0, switch(7, 1, 0)),
    ]);
    let run_ns = |tid: i32| document.threads.iter().find(|it| it.tid == tid).unwrap().run_ns;
    assert_eq!((run_ns(8), run_ns(7)), (30, 20 + 10));
    assert_eq!(culprits(&document, 2), [((8, "thread"), 20), ((7, "thread"), 20)].into());
    assert_eq!(culprits(&document, 7), [((2, "thread"), 10)].into());
}

#[test]
fn a_part_lies_within_its_recording() {
    let span = |begins: [Option<u64>; 2]| {
        let mut delays = Delays::default();
        let [before, behind] = begins;
        before.into_iter().for_each(|from_ns| delays.begin(from_ns));
        delays.follow(&Event { time_ns: 100, cpu: 0, kind: wakeup(1, 0) });
        behind.into_iter().for_each(|from_ns| delays.begin(from_ns));
        let document = delays.finish(|_| true, None);
        (document.from_ns, document.to_ns)
    };
    assert_eq!(span([Some(5), None]), (100, 100));
    assert_eq!(span([None, Some(900)]), (900, 900));
}

#[test]
fn packets_that_a_thread_receives_are_delivered_until_it_gives_way() {
    let poller = |tid| Task { comm: Comm::new(b"napi/eth0-8193"), tid, prio: 120 };
    let waking = |task| TraceKind::SchedWaking(Woken { task, target_cpu: 0 });
    let receive = TraceKind::NetifReceiveSkb(Packet { skb: 1, len: 1, name: b"eth0" });
    let to = |prev, next| TraceKind::SchedSwitch { prev, prev_state: LeftIn::of(1), next };
    let document = document(&[
        (100, 0, to(task(0), task(1))),
        // A program that hands a packet to the stack itself.
        (110, 0, receive),
        (115, 0, waking(task(2))),
        (200, 0, to(task(1), poller(5))),
        (210, 0, receive),
        (211, 0, waking(poller(6))),
        (214, 0, waking(task(2))),
        (215, 0, waking(task(3))),
        (220, 0, receive),
        (221, 0, TraceKind::SoftirqEntry { vec: 3 }),
        (222, 0, TraceKind::SoftirqExit { vec: 3 }),
        (223, 0, waking(task(2))),
        (230, 0, receive),
        (240, 0, to(poller(5), task(1))),
        (250, 0, to(task(1), poller(5))),
        (251, 0, waking(task(2))),
        (260, 0, receive),
        (261, 0, TraceKind::IrqHandlerEntry { irq: 11, name: b"x" }),
        (262, 0, waking(task(4))),
        (263, 0, TraceKind::IrqHandlerExit { irq: 11, ret: 1 }),
        (269, 0, waking(task(2))),
    ]);
    let found = document.packets[&Signal::NetRxWait]
        .iter()
        .map(|it| (&*it.interface, it.whole.count, it.whole.sum_ns));
    assert_eq!(found.collect::<Vec<_>>(), [("eth0", 2, 4 + 9)]);
}

/// Events of four CPUs.
fn happened(steps: Vec<(u8, u32, i32, i32, u64)>) -> Vec<(u64, u32, TraceKind<'static>)> {
    let mut now = 1_000;
    let mut running = [0; 4];
    let mut events = Vec::new();
    for (what, cpu, one, other, later) in steps {
        now += later;
        let kind = match what {
            0..=2 => {
                let prev = std::mem::replace(&mut running[cpu as usize], one);
                switch(prev, i64::from(other % 3), one)
            }
            3 => wakeup(one, cpu),
            4 => {
                let dest_cpu = other.cast_unsigned() % 4;
                TraceKind::SchedMigrateTask { task: task(one), orig_cpu: cpu, dest_cpu }
            }
            5 => TraceKind::IrqHandlerEntry { irq: cpu, name: b"x" },
            6 => TraceKind::IrqHandlerExit { irq: cpu, ret: 0 },
            _ if other == 5 => {
                TraceKind::Lost(LostEvents { events: 1, packets: 0, from_ns: now, to_ns: now })
            }
            _ if other % 2 == 0 => TraceKind::SoftirqEntry { vec: 3 },
            _ => TraceKind::SoftirqExit { vec: 3 },
        };
        events.push((now, cpu, kind));
    }
    events
}

#[derive(Default)]
struct InterruptsTaken(Vec<String>);

impl Watch for InterruptsTaken {
    const EACH: bool = false;

    fn ran(&mut self, _: &Run) {}

    fn waited(&mut self, _: &RunQueueWait<'_>) {}

    fn delayed(&mut self, delay: &Delay<'_>) {
        self.0.push(format!("{delay:?}"));
    }
}

proptest! {
    #[test]
    fn parts_sum_to_waits_whatever_the_events(
        steps in proptest::collection::vec((0..8_u8, 0..4_u32, 0..6_i32, 0..6_i32, 0..50_u64), 0..200),
    ) {
        for thread in &document(&happened(steps)).threads {
            let waited = thread.waits.wakeup.sum_ns + thread.waits.preempt.sum_ns;
            let sum = |ns: &mut dyn Iterator<Item = u64>| ns.sum::<u64>();
            prop_assert_eq!(waited, sum(&mut thread.culprits.iter().map(|part| part.ns)));
            let mut following = thread.culprits_following_migrations.iter().map(|part| part.ns);
            prop_assert_eq!(waited, sum(&mut following));
            prop_assert_eq!(waited, sum(&mut thread.charges.iter().map(|part| part.ns)));
        }
    }
    #[test]
    fn what_interrupts_took_is_the_same_where_waits_are_not_followed(
        steps in proptest::collection::vec((0..8_u8, 0..4_u32, 0..6_i32, 0..6_i32, 0..50_u64), 0..200),
    ) {
        let events = happened(steps);
        let taken = |mut delays: Delays| {
            let mut taken = InterruptsTaken::default();
            for (time_ns, cpu, kind) in &events {
                delays.follow_each(&Event { time_ns: *time_ns, cpu: *cpu, kind: *kind }, &mut taken);
            }
            (taken.0, delays.finish(|_| true, None).threads.len())
        };
        let (alone, threads) = taken(Delays::of_interrupts());
        prop_assert_eq!(threads, 0, "pairs of threads are not kept");
        prop_assert_eq!(alone, taken(Delays::default()).0);
    }
}
