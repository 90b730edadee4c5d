//! Calls on sockets, as our recordings have them.

use super::*;

/// An event of a call of a thread, which is about a socket of TCP, with its ports.
fn about(
    tid: i64,
    name: &'static str,
    id: i64,
    ports: (i64, i64),
    more: &[(&'static str, i64)],
) -> MadeEvent {
    let (local, remote) = ports;
    let own = [
        ("noised_tid", tid),
        ("noised_object", 1),
        ("noised_id", id),
        ("noised_peer", local << 16 | remote),
    ];
    MadeEvent::other(name, [&own, more].concat().leak())
}

fn enters(tid: i64, name: &'static str, id: i64) -> MadeEvent {
    about(tid, name, id, (80, 4_000 + id), &[("fd", 3)])
}

/// The end of a call does not say the ports.
fn leaves(tid: i64, name: &'static str, id: i64, ret: i64, place: i64) -> MadeEvent {
    about(tid, name, id, (0, 0), &[("ret", ret), ("noised_position", place)])
}

/// A thread reads, and another one answers; their CPUs have their numbers.
fn served(id: i64, place: i64) -> Vec<(u32, MadeEvent)> {
    vec![
        (7, enters(7, "syscall_entry_read", id)),
        (1, about(0, "sk_data_ready", id, (80, 4_000 + id), &[("noised_position", place)])),
        (7, leaves(7, "syscall_exit_read", id, 10, place)),
        (8, enters(8, "syscall_entry_sendto", id)),
        (8, leaves(8, "syscall_exit_sendto", id, 100, 500)),
    ]
}

fn accepted(id: i64) -> Vec<(u32, MadeEvent)> {
    let ends = [("inode", id), ("local_port", 80), ("remote_port", 4_000 + id)];
    let texts = &[("local_address", "10.0.0.1"), ("remote_address", "10.0.0.2")];
    let made = MadeEvent::other("noised_connection", ends.to_vec().leak());
    vec![
        (7, about(7, "syscall_entry_accept4", 1, (80, 0), &[])),
        (7, MadeEvent { texts, ..made }),
        (7, leaves(7, "syscall_exit_accept4", id, 4, 0)),
    ]
}

fn closed(id: i64) -> Vec<(u32, MadeEvent)> {
    vec![(8, enters(8, "syscall_entry_close", id)), (8, leaves(8, "syscall_exit_close", id, 0, 0))]
}

fn run() -> Vec<(u32, MadeEvent)> {
    vec![(7, runs(0, 7)), (8, runs(0, 8))]
}

#[test]
fn requests_and_connections_are_in_calls_where_those_say_ports() {
    // 1 and 2; 3 to 5; 6 to 10; 11 to 15; 16 and 17.
    let events = [run(), accepted(5), served(5, 110), served(5, 120), closed(5)].concat();
    let (all, tally, lacks) = found("request:80", &events);
    assert_eq!(all, [(8, 7, 10, None), (8, 12, 15, None)]);
    assert_eq!((tally, lacks), (DelimiterTally::default(), None));
    let (all, tally, lacks) = found("connection:80", &events);
    assert_eq!(all, [(8, 5, 17, None)]);
    assert_eq!((tally, lacks), (DelimiterTally::default(), None));
    let within = |span| found_within("request:80", span, &events);
    assert_eq!(within((8, u64::MAX)).0, [(8, 12, 15, None)]);
    let unfinished = DelimiterTally { unfinished: 1, ..DelimiterTally::default() };
    assert_eq!((within((0, 14)).0, within((0, 14)).1), (vec![(8, 7, 10, None)], unfinished));
    let (_, _, lacks) = found("request:81", &events);
    assert_eq!(lacks.unwrap(), "this recording has no connection of port 81");
    let io_uring =
        [events, vec![(7, MadeEvent::other("syscall_entry_io_uring_enter", &[]))]].concat();
    assert!(found("request:81", &io_uring).2.unwrap().ends_with("with io_uring is not recorded"));
    let (_, _, lacks) = found("request:80", &run());
    assert!(lacks.unwrap().contains("--own --events sched,io,ipc"));
}

#[test]
fn a_thread_that_got_an_id_later_answered_nothing_before() {
    let fork = |child: i32| {
        let kind = TraceKind::SchedProcessFork {
            parent: task(9),
            parent_pid: 9,
            child: task(child),
            child_pid: child,
        };
        MadeEvent::new("sched_process_fork", kind)
    };
    let gone = MadeEvent::new("sched_switch", switch(8, 0x10, 0));
    let events =
        [run(), accepted(5), served(5, 110), closed(5), vec![(8, gone), (9, fork(8))]].concat();
    let mut builder = Builder::default();
    let mut finder = Finder::new(&"request:80".parse().unwrap(), 0).unwrap();
    for (time_ns, (cpu, fake)) in (1..).zip(&events) {
        let record = Record::new(time_ns, *cpu, *fake);
        let event = record.event();
        builder.follow(&event);
        finder.follow(&record, &event, &builder);
    }
    let (all, _) = finder.finish(builder.graph());
    let worker = builder.graph().get(all[0].execution.worker).unwrap();
    assert_eq!((worker.who, worker.created_ns), (Who::Thread { machine: 0, tid: 8 }, None));
}

#[test]
fn conditions_are_on_processes_and_ports_too() {
    let other = |name: &'static str| about(8, name, 6, (81, 4_006), &[]);
    let events = [
        run(),
        vec![
            (7, enters(7, "syscall_entry_read", 5)),
            (8, other("syscall_entry_read")),
            (8, leaves(8, "syscall_exit_read", 6, 1, 1)),
            (7, leaves(7, "syscall_exit_read", 5, 1, 1)),
            // Of no socket.
            (7, MadeEvent::other("syscall_entry_read", &[("noised_tid", 7), ("fd", 3)])),
            (7, MadeEvent::other("syscall_exit_read", &[("noised_tid", 7), ("ret", 1)])),
        ],
    ]
    .concat();
    let (of_7, of_8, file) = ((7, 3, 6, None), (8, 4, 5, None), (7, 7, 8, None));
    for (begin, end, expected) in [
        ("port=80", "", vec![of_7.clone()]),
        ("port=4005", "port=80", vec![of_7.clone()]),
        ("port!=80", "", vec![of_8.clone()]),
        ("process=t7,fd=3", "", vec![of_7.clone(), file.clone()]),
        ("process=8", "process=t8", vec![of_8.clone()]),
        ("process!=7", "", vec![of_8]),
        ("process=7,port=80", "ret=1,process=7,port=80", vec![of_7.clone()]),
    ] {
        let of = |conditions: &str| match conditions {
            "" => String::new(),
            some => format!("/{some}/"),
        };
        let wanted = format!("event:syscall_entry_read{}..syscall_exit_read{}", of(begin), of(end));
        assert_eq!(found(&wanted, &events).0, expected, "{wanted}");
    }
    // The end of a call is of its begin's port; what comes while a thread is in a call is of that.
    let (all, tally, _) = found("event:syscall_entry_read..syscall_exit_read/port=80/", &events);
    assert_eq!(all, [of_7]);
    assert_eq!(tally.unfinished, 2);
    let inside =
        [run(), vec![(7, enters(7, "syscall_entry_read", 5)), (7, runs(7, 9)), (7, runs(9, 7))]]
            .concat();
    let (all, _, _) = found("event:syscall_entry_read/port=80/..sched_switch/port=80/", &inside);
    assert_eq!(all, [(7, 3, 4, None)]);
    // Packets say their ports as well.
    let packets = [(7, runs(0, 7)), (7, segment(true, 16, 10)), (7, segment(true, 16, 10))];
    let packets = packets.map(|(cpu, event)| (cpu, MadeEvent { name: "net", ..event }));
    assert_eq!(found("event:net/port=4000/..net/port=80/", &packets).0, [(7, 2, 3, None)]);
    let none =
        [run(), vec![(7, MadeEvent::other("in", &[])), (7, MadeEvent::other("out", &[]))]].concat();
    let (_, _, lacks) = found("event:in/port=80/..out", &none);
    assert!(lacks.unwrap().contains("says of no such event which port it is of"));
}
