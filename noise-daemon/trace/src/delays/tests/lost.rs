//! What is known of delays where events are lost.

use std::collections::BTreeMap;

use noise_common::signals::Signal;

use super::{block, culprits, document, request};
use crate::event::{LostEvents, Packet, TraceKind};
use crate::fixtures::{switch, wakeup};

fn lost(at_ns: u64, to_ns: u64) -> (u64, u32, TraceKind<'static>) {
    (at_ns, 0, TraceKind::Lost(LostEvents { events: 9, packets: 0, from_ns: at_ns, to_ns }))
}

#[test]
fn losses_are_no_begin_and_no_end() {
    let document = document(&[lost(90, 95), (100, 0, switch(0, 0, 1)), lost(180, 190)]);
    assert_eq!((document.from_ns, document.to_ns, document.discarded), (100, 100, 18));
}

#[test]
fn requests_under_way_where_events_are_lost_are_not_measured() {
    let loss = LostEvents { events: 1, packets: 0, from_ns: 14, to_ns: 16 };
    let [queue, device] = block(&[
        (10, TraceKind::BlockRqInsert(request(8, 8))),
        (11, TraceKind::BlockRqIssue(request(8, 8))),
        (12, TraceKind::BlockRqInsert(request(16, 8))),
        (16, TraceKind::Lost(loss)),
        (900, TraceKind::BlockRqIssue(request(16, 8))),
        (950, TraceKind::BlockRqComplete(request(8, 8))),
        (960, TraceKind::BlockRqComplete(request(16, 8))),
    ]);
    assert_eq!((queue, device), ((1, 1), (1, 60)));
}

#[test]
fn what_begins_while_events_of_another_cpu_are_lost_is_not_measured() {
    let packet = Packet { skb: 1, len: 1, name: b"eth0" };
    let unseen = LostEvents { events: 0, packets: 0, from_ns: 10, to_ns: 100 };
    let document = document(&[
        (10, 1, TraceKind::Lost(unseen)),
        (20, 0, TraceKind::BlockRqInsert(request(8, 8))),
        (25, 0, TraceKind::NetDevQueue(packet)),
        (30, 0, TraceKind::BlockRqIssue(request(8, 8))),
        // Between them, another one may have had that place, and that memory.
        (120, 0, TraceKind::BlockRqComplete(request(8, 8))),
        (130, 0, TraceKind::NetDevXmit { packet, rc: 0 }),
        (140, 0, TraceKind::BlockRqIssue(request(8, 8))),
        (144, 0, TraceKind::BlockRqComplete(request(8, 8))),
        (150, 0, TraceKind::NetDevQueue(packet)),
        (155, 0, TraceKind::NetDevXmit { packet, rc: 0 }),
    ]);
    assert!(document.block_queue_wait.is_empty());
    let device = document.block_device_wait[0].whole;
    assert_eq!((device.count, device.sum_ns), (1, 4));
    let sent = document.packets[&Signal::NetTxWait][0].whole;
    assert_eq!((sent.count, sent.sum_ns), (1, 5));
}

#[test]
fn what_ends_where_a_cpu_is_no_longer_seen_is_not_measured() {
    let unseen = LostEvents { events: 0, packets: 0, from_ns: 50, to_ns: 2_000_000 };
    let document = document(&[
        (10, 0, switch(0, 0, 1)),
        (20, 0, wakeup(2, 0)),
        (30, 0, switch(1, 1, 2)),
        (40, 1, switch(0, 0, 4)),
        (50, 1, TraceKind::Lost(unseen)),
        // It may have run on CPU 1 meanwhile.
        (60, 0, wakeup(3, 0)),
        (90, 0, switch(2, 1, 3)),
    ]);
    let waits = document.threads.iter().map(|thread| thread.waits.wakeup);
    let waits: Vec<_> = waits.filter(|waits| waits.count > 0).map(|waits| waits.sum_ns).collect();
    assert_eq!(waits, [10]);
    assert!(
        document
            .reach
            .line()
            .starts_with("CPU 1 is known up to +0.000000s only, 0.002000s before ")
    );
    let json = serde_json::to_value(&document).unwrap();
    assert_eq!((&json["known_to_ns"]["1"], json.get("known_from_ns")), (&50.into(), None));
}

#[test]
fn a_wait_that_ends_while_events_are_lost_is_not_measured() {
    let waits = |to_ns| {
        let loss = LostEvents { events: 1, packets: 0, from_ns: 50, to_ns };
        let document = document(&[
            (10, 0, switch(0, 0, 1)),
            (20, 0, wakeup(2, 0)),
            // It may run on CPU 1, and be back before CPU 0 takes it.
            (50, 1, TraceKind::Lost(loss)),
            (90, 0, switch(1, 1, 2)),
        ]);
        document.threads.iter().map(|thread| thread.waits.wakeup.sum_ns).sum::<u64>()
    };
    assert_eq!((waits(91), waits(60)), (0, 70));
}

#[test]
fn time_whose_events_are_lost_is_untracked() {
    let document = document(&[
        (100, 0, switch(0, 0, 1)),
        (110, 0, wakeup(2, 0)),
        lost(130, 200),
        (300, 0, switch(4, 1, 2)),
    ]);
    assert_eq!(culprits(&document, 2), [((1, "thread"), 20), ((-1, "untracked"), 170)].into());
    assert!(document.threads.iter().all(|thread| thread.tid != 1 || thread.run_ns == 0));
}

#[test]
fn a_wait_whose_end_may_be_lost_begins_with_the_next_wakeup() {
    let document = document(&[
        (100, 0, switch(0, 0, 1)),
        (110, 0, wakeup(2, 0)),
        // It ran, and went to sleep.
        lost(130, 200),
        (500, 0, wakeup(2, 0)),
        (520, 0, switch(1, 1, 2)),
    ]);
    let thread = document.threads.iter().find(|thread| thread.tid == 2).unwrap();
    assert_eq!((thread.waits.wakeup.count, thread.waits.wakeup.sum_ns), (1, 20));
}

#[test]
fn interrupts_whose_end_is_lost_do_not_last() {
    let document = document(&[
        (100, 0, switch(0, 0, 1)),
        (120, 0, TraceKind::IrqHandlerEntry { irq: 11, name: b"x" }),
        (125, 0, TraceKind::SoftirqRaise { vec: 3 }),
        lost(130, 200),
        (300, 0, switch(4, 1, 1)),
        (310, 0, wakeup(2, 0)),
        (320, 0, TraceKind::SoftirqEntry { vec: 3 }),
        (330, 0, TraceKind::NetifReceiveSkb(Packet { skb: 1, len: 1, name: b"eth0" })),
        (331, 0, wakeup(3, 0)),
        (340, 0, TraceKind::SoftirqExit { vec: 3 }),
        (400, 0, switch(1, 1, 2)),
    ]);
    let thread = document.threads.iter().find(|thread| thread.tid == 2).unwrap();
    let charges: BTreeMap<_, _> =
        thread.charges.iter().map(|charge| (charge.cause, charge.ns)).collect();
    assert_eq!(charges, [("thread", 70), ("softirq", 20)].into());
    assert!(document.softirq_raise_wait.is_empty());
}
