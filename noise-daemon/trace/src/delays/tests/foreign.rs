//! Recordings of other tracers, which say less than ours, or more than there can be.

use std::collections::BTreeMap;

use super::{Delays, culprits, document, request};
use crate::analysis::Analysis as _;
use crate::event::{Event, LostEvents, Packet, Request, TraceKind};
use crate::fixtures::{switch, wakeup};

/// Who was ahead of thread 7 at the disk from 100 to 200, when its request ended.
fn ahead(events: &[(u64, TraceKind<'_>)]) -> BTreeMap<(i32, &'static str), u64> {
    let mut delays = Delays::of_turns();
    delays.note_ahead();
    for (time_ns, kind) in events {
        delays.follow(&Event { time_ns: *time_ns, cpu: 0, kind: *kind });
    }
    let parts = delays.disk_culprits(0, 7, 100, 200).into_iter();
    parts.map(|part| ((part.tid, part.cause), part.ns)).collect()
}

#[test]
fn a_request_without_a_thread_is_of_the_one_that_runs() {
    let own = Request { comm: b"dd", ..request(8, 8) };
    let (insert, issue) = (TraceKind::BlockRqInsert(own), TraceKind::BlockRqIssue(own));
    let complete = (200, TraceKind::BlockRqComplete(request(8, 8)));
    let (to_dd, to_idle) = ((50, switch(0, 0, 7)), (130, switch(7, 2, 0)));
    let found = ahead(&[to_dd, (100, insert), (120, issue), to_idle, complete]);
    assert_eq!(found, [((7, "self"), 80), ((-1, "idle"), 20)].into());
    // A thread of the kernel issues it.
    let kworker = (140, switch(0, 0, 9));
    assert_eq!(
        ahead(&[to_dd, (100, insert), to_idle, kworker, (150, issue), complete])[&(7, "self")],
        50
    );
    assert_eq!(ahead(&[to_dd, (100, issue), to_idle, complete]), [((7, "self"), 100)].into());
    // Who runs is not known.
    assert_eq!(ahead(&[(100, issue), complete]), [((-1, "untracked"), 100)].into());
    let lost = LostEvents { events: 1, packets: 0, from_ns: 60, to_ns: 60 };
    let lost = (60, TraceKind::Lost(lost));
    assert_eq!(ahead(&[to_dd, lost, (100, issue), complete]), [((-1, "untracked"), 100)].into());
}

#[test]
fn an_interrupt_whose_end_is_not_recorded_ends_with_the_next_switch() {
    let document = document(&[
        (100, 0, switch(0, 0, 1)),
        (110, 0, TraceKind::IrqHandlerEntry { irq: 7, name: b"disk" }),
        (120, 0, switch(1, 0, 3)),
        (130, 0, wakeup(2, 0)),
        (150, 0, switch(3, 1, 2)),
    ]);
    let thread = document.threads.iter().find(|thread| thread.tid == 2).unwrap();
    let charges: Vec<_> =
        thread.charges.iter().map(|charge| (charge.tid, charge.cause, charge.ns)).collect();
    assert_eq!(charges, [(Some(3), "thread", 20)]);
    assert_eq!(culprits(&document, 2), [((3, "thread"), 20)].into());
    let is_missing = |kind: &str| document.missing.iter().any(|missing| missing == kind);
    assert_eq!(["irq_handler_entry", "irq_handler_exit"].map(is_missing), [false, true]);
}

#[test]
fn of_very_many_requests_behind_a_begin_few_are_looked_at() {
    use crate::rwbs::{READ, WRITE};
    let of = |rwbs, sector, sectors| Request { rwbs, ..request(sector, sectors) };
    let queued = |others: u64| {
        let writes = (1..=others).map(|at| TraceKind::BlockRqInsert(of(WRITE, 8 * at, 8)));
        let own = TraceKind::BlockRqInsert(of(READ, 8 * (others + 1), 8));
        let all = writes.chain([own, TraceKind::BlockRqIssue(of(READ, 0, 1 << 20))]);
        let events: Vec<_> = (10..).zip(all).map(|(time_ns, kind)| (time_ns, 0, kind)).collect();
        document(&events).block_queue_wait.len()
    };
    assert_eq!((queued(50), queued(1000)), (1, 0));
}

#[test]
fn names_that_no_kernel_gives_are_kept_in_part() {
    let name = &*vec![b'n'; 1 << 20].leak();
    let packet = Packet { skb: 5, len: 9, name };
    let request = request(8, 8);
    let document = document(&[
        (90, 0, TraceKind::StatedumpBlockDevice { dev: request.dev, name }),
        (100, 0, TraceKind::IrqHandlerEntry { irq: 7, name }),
        (110, 0, TraceKind::IrqHandlerExit { irq: 7, ret: 1 }),
        (120, 0, TraceKind::NetDevQueue(packet)),
        (130, 0, TraceKind::NetDevStartXmit(packet)),
        (140, 0, TraceKind::BlockRqIssue(request)),
        (150, 0, TraceKind::BlockRqComplete(request)),
    ]);
    let interfaces = document.packets.values().flatten().map(|of| &of.interface);
    let disks = document.block_device_wait.iter().map(|device| &device.name);
    let lines = document.hardirq.iter().map(|handler| &handler.name);
    let lengths: Vec<usize> = interfaces.chain(disks).chain(lines).map(String::len).collect();
    assert_eq!(lengths, [255; 3]);
}
