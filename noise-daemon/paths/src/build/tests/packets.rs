//! Packets from who sent them to who is woken by them.

use noise_trace::event::Packet;

use super::*;

#[test]
fn a_packet_that_is_passed_on_comes_from_who_sent_it() {
    let packet = |skb, name| Packet { skb, len: 100, name };
    let builder = built(&[
        (5, 1, switch(0, 0, 1)),
        (6, 1, switch(1, 1, 0)),
        (10, 0, switch(0, 0, 2)),
        (20, 0, TraceKind::NetDevQueue(packet(9, b"veth1"))),
        (21, 0, TraceKind::SoftirqEntry { vec: 3 }),
        (22, 0, TraceKind::NetifReceiveSkb(packet(9, b"veth2"))),
        (23, 0, TraceKind::NetDevQueue(packet(9, b"veth3"))),
        (24, 0, TraceKind::SoftirqExit { vec: 3 }),
        (30, 1, TraceKind::SoftirqEntry { vec: 3 }),
        (31, 1, TraceKind::NetifReceiveSkb(packet(9, b"veth4"))),
        (32, 1, waking(1)),
    ]);
    let id = builder.thread(0, 1).unwrap();
    let point = *builder.graph().get(id).unwrap().points().last().unwrap();
    assert_eq!(point.state, Some(State::Network));
    let link = point.link.unwrap();
    assert_eq!((link.time_ns, link.action), (20, Action::Sends));
    assert_eq!(Some(link.from.worker), builder.thread(0, 2));
}

#[test]
fn who_writes_a_packet_to_a_tun_device_ends_no_sleep_itself() {
    let fork = |child, pid| TraceKind::SchedProcessFork {
        parent: task(9),
        parent_pid: 9,
        child: task(child),
        child_pid: pid,
    };
    let arrives = || TraceKind::NetifReceiveSkb(Packet { skb: 5, len: 100, name: b"tun0" });
    // 2 is a thread of the process 2, 3 another one of it, 1 of another process.
    let woken = |target, events: &[TraceKind<'static>]| {
        let mut all = vec![
            (1, 1, fork(1, 1)),
            (2, 0, fork(2, 2)),
            (3, 0, fork(3, 2)),
            (5, 1, switch(0, 0, 1)),
            (6, 1, switch(1, 1, 3)),
            (7, 1, switch(3, 1, 0)),
            (10, 0, switch(0, 0, 2)),
        ];
        let at = |(number, kind): (usize, &TraceKind<'static>)| (20 + number as u64, 0, *kind);
        all.extend(events.iter().enumerate().map(at));
        all.push((40, 0, waking(target)));
        let builder = built(&all);
        let id = builder.thread(0, target).unwrap();
        let point = *builder.graph().get(id).unwrap().points().last().unwrap();
        (point.state, point.link.map(|link| link.action))
    };
    let by_packet = (Some(State::Network), None);
    assert_eq!(woken(1, &[arrives()]), by_packet);
    let timer = [TraceKind::SoftirqEntry { vec: 1 }, TraceKind::SoftirqExit { vec: 1 }];
    assert_eq!(woken(1, &[arrives(), timer[0], timer[1]]), by_packet);
    // Its own thread, and what it wakes after something else, it may have woken itself.
    let (state, link) = woken(3, &[arrives()]);
    assert_eq!((state, link), (Some(State::Blocked), Some(Action::Wakes)));
    assert_eq!(woken(1, &[arrives(), waking(3)]).1, Some(Action::Wakes));
    assert_eq!(woken(1, &[]).1, Some(Action::Wakes));
}

#[test]
fn segments_are_matched_in_other_buffers() {
    let packet = |skb| Packet { skb, len: 100, name: b"eth0" };
    let segment = |sequence, bytes| {
        let flow = crate::packets::flow((&[1], &[2]), (3, 4));
        Some(Segment { flow, sequence, acknowledged: 0, flags: 0, bytes })
    };
    let mut builder = Builder::default();
    let mut event = |machine, time_ns, cpu, kind, segment| {
        builder.follow_with(machine, &Event { time_ns, cpu, kind }, segment);
    };
    event(0, 10, 0, switch(0, 0, 1), None);
    event(1, 10, 0, switch(0, 0, 2), None);
    event(1, 12, 0, switch(2, 1, 0), None);
    event(0, 20, 0, TraceKind::NetDevQueue(packet(7)), segment(1000, 3000));
    event(1, 30, 0, TraceKind::SoftirqEntry { vec: 3 }, None);
    event(1, 31, 0, TraceKind::NetifReceiveSkb(packet(8)), segment(2448, 1448));
    event(1, 32, 0, waking(2), None);
    let id = builder.thread(1, 2).unwrap();
    let link = builder.graph().get(id).unwrap().points().last().unwrap().link.unwrap();
    assert_eq!((link.time_ns, Some(link.from.worker)), (20, builder.thread(0, 1)));
}
