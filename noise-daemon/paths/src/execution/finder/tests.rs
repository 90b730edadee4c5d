//! Delimiters of all kinds, and executions that are made of them.

use noise_trace::event::{Comm, Dumped, LostEvents, Packet, Woken};
use noise_trace::fixtures::{MadeEvent, switch, task};
use noise_trace::record::Source as _;
use proptest::prelude::*;

use super::*;
use crate::graph::Who;

mod sockets;

fn runs(prev: i32, next: i32) -> MadeEvent {
    MadeEvent::new("sched_switch", switch(prev, 0, next))
}

fn lost() -> MadeEvent {
    MadeEvent::new("lost", TraceKind::Lost(LostEvents::default()))
}

fn mark(begins: bool, key: &'static [u8], tid: i32) -> MadeEvent {
    let kind = TraceKind::Mark(ProgramMark {
        begins,
        name: b"q",
        key,
        pid: tid,
        tid,
        uid: 1,
        before_ns: 0,
    });
    MadeEvent::new("noised_mark", kind)
}

/// Thread, begin, end and key of an execution.
type Found = (i32, u64, u64, Option<String>);

/// What is found: thread, begin, end and key of each, and what is none. Events are at 1, 2, 3 …
fn found(
    wanted: &str,
    events: &[(u32, MadeEvent)],
) -> (Vec<Found>, DelimiterTally, Option<String>) {
    found_within(wanted, (0, u64::MAX), events)
}

/// The same between two times.
fn found_within(
    wanted: &str,
    (from_ns, to_ns): (u64, u64),
    events: &[(u32, MadeEvent)],
) -> (Vec<Found>, DelimiterTally, Option<String>) {
    let mut builder = Builder::default();
    let mut finder = Finder::new(&wanted.parse().unwrap(), 0).unwrap().within(from_ns, to_ns);
    for (time_ns, (cpu, fake)) in (1..).zip(events) {
        let record = match fake.kind {
            TraceKind::Lost(loss) => Record::lost(time_ns, *cpu, loss),
            _ => Record::new(time_ns, *cpu, *fake),
        };
        let event = record.event();
        builder.follow(&event);
        finder.follow(&record, &event, &builder);
    }
    let lacks = finder.lacks();
    let (found, tally) = finder.finish(builder.graph());
    let one = |found: Delimited| {
        let Execution { worker, from_ns, to_ns, .. } = found.execution;
        let Some(Who::Thread { tid, .. }) = builder.graph().get(worker).map(|worker| worker.who)
        else {
            panic!("no thread");
        };
        (tid, from_ns, to_ns, found.key)
    };
    (found.into_iter().map(one).collect(), tally, lacks)
}

#[test]
fn events_of_a_thread_begin_and_end_executions() {
    let begin = MadeEvent::other("in", &[("fd", 3)]);
    let other = MadeEvent::other("in", &[("fd", 4)]);
    let end = MadeEvent::other("out", &[("ret", 1)]);
    let events = [
        (0, runs(0, 7)),
        (0, begin),
        (0, runs(7, 8)),
        (0, begin),
        (0, end),
        (0, other),
        (0, end),
        (1, runs(0, 7)),
        (1, end),
    ];
    let (all, tally, lacks) = found("event:in/fd=3/..out/ret>0/", &events);
    assert_eq!(all, [(8, 4, 5, None), (7, 2, 9, None)]);
    assert_eq!(tally, DelimiterTally { unbegun: 1, ..DelimiterTally::default() });
    assert_eq!(lacks, None);
    let (all, _, _) = found("event:in..out", &events);
    assert_eq!(all, [(8, 4, 5, None), (8, 6, 7, None), (7, 2, 9, None)]);
    let (_, _, lacks) = found("event:in..none", &events);
    assert!(lacks.unwrap().contains("has no event none"));
    let (_, _, lacks) = found("event:none..out", &events);
    assert!(lacks.unwrap().contains("has no event none"));
    // From one to the next.
    let (all, tally, _) = found("event:in..in", &events);
    assert_eq!(all, [(8, 4, 6, None)]);
    assert_eq!(tally, DelimiterTally { unfinished: 2, ..DelimiterTally::default() });
}

#[test]
fn what_is_no_execution_is_counted() {
    let (begin, end) = (MadeEvent::other("in", &[]), MadeEvent::other("out", &[]));
    let run = |events: &[MadeEvent]| {
        let events: Vec<_> = events.iter().map(|event| (0, *event)).collect();
        let (all, tally, _) = found("event:in..out", &events);
        (all.len(), tally)
    };
    let none = DelimiterTally::default();
    let on = runs(0, 7);
    assert_eq!(
        run(&[on, begin, begin, end, end]),
        (0, DelimiterTally { overlapping: 2, unbegun: 1, ..none })
    );
    assert_eq!(run(&[on, begin, begin]), (0, DelimiterTally { overlapping: 2, ..none }));
    assert_eq!(run(&[on, begin, end, begin]), (1, DelimiterTally { unfinished: 1, ..none }));
    // Who runs behind a loss is known from the next switch on.
    assert_eq!(
        run(&[on, begin, lost(), end]),
        (0, DelimiterTally { lost: 1, strangers: 1, ..none })
    );
    assert_eq!(
        run(&[on, begin, lost(), runs(0, 7), end, begin, end]),
        (1, DelimiterTally { lost: 1, ..none })
    );
    assert_eq!(run(&[begin, end]), (0, DelimiterTally { strangers: 2, ..none }));
}

#[test]
fn what_begins_while_events_are_lost_may_have_ended_unseen() {
    let (begin, end) = (MadeEvent::other("in", &[]), MadeEvent::other("out", &[]));
    // Events of CPU 1 are there from 4 on.
    let loss = LostEvents { events: 0, packets: 0, from_ns: 2, to_ns: 4 };
    let unseen = MadeEvent::new("lost", TraceKind::Lost(loss));
    let events = [(0, runs(0, 7)), (1, unseen), (0, begin), (0, end), (0, begin), (0, end)];
    let (all, tally, _) = found("event:in..out", &events);
    assert_eq!(all, [(7, 5, 6, None)]);
    assert_eq!(tally, DelimiterTally { lost: 1, ..DelimiterTally::default() });
}

#[test]
fn marks_belong_together_by_key_or_by_thread() {
    let dumped = |tid, pid| {
        let dumped = Dumped { tid, pid, ppid: 1, comm: Comm::new(b"t") };
        MadeEvent::new("dump", TraceKind::StatedumpProcess(dumped))
    };
    let (on7, on8) = ((0, runs(0, 7)), (1, runs(0, 8)));
    let events = [
        on7,
        on8,
        (0, mark(true, b"", 7)),
        (1, mark(true, b"", 8)),
        (1, mark(false, b"", 8)),
        (0, mark(false, b"", 7)),
        (0, mark(true, b"k", 7)),
        (1, mark(true, b"l", 8)),
        (1, mark(false, b"k", 8)),
        (0, lost()),
        (0, mark(false, b"l", 7)),
    ];
    let key = |key: &str| Some(key.to_owned());
    let (all, tally, lacks) = found("mark:q", &events);
    assert_eq!(all, [(8, 4, 5, None), (7, 3, 6, None), (8, 7, 9, key("k")), (7, 8, 11, key("l"))]);
    assert_eq!((tally, lacks), (DelimiterTally::default(), None));
    let (all, _, _) = found("mark:q=l", &events);
    assert_eq!(all, [(7, 8, 11, key("l"))]);
    let (_, _, lacks) = found("mark:other", &events);
    assert!(lacks.unwrap().contains("no such mark"));
    // Of a process of one thread it is that thread's, of another one it is not known.
    let of = |begins, pid| {
        let TraceKind::Mark(known) = mark(begins, b"", pid).kind else { panic!("no mark") };
        MadeEvent {
            kind: TraceKind::Mark(ProgramMark { tid: 0, ..known }),
            ..mark(begins, b"", pid)
        }
    };
    let events = [
        (0, dumped(7, 7)),
        (0, dumped(8, 8)),
        (0, dumped(9, 8)),
        on7,
        on8,
        (0, of(true, 7)),
        (1, of(true, 8)),
        (0, of(false, 7)),
    ];
    let (all, tally, _) = found("mark:q", &events);
    assert_eq!(all, [(7, 6, 8, None)]);
    assert_eq!(tally, DelimiterTally { strangers: 1, ..DelimiterTally::default() });
}

#[test]
fn a_mark_is_of_the_time_that_its_program_gave() {
    let TraceKind::Mark(known) = mark(true, b"", 7).kind else { panic!("no mark") };
    let early = MadeEvent {
        kind: TraceKind::Mark(ProgramMark { before_ns: 2, ..known }),
        ..mark(true, b"", 7)
    };
    let none = MadeEvent::other("x", &[]);
    let events = [(0, runs(0, 7)), (0, none), (0, none), (0, early), (0, mark(false, b"", 7))];
    assert_eq!(found("mark:q", &events).0, [(7, 2, 5, None)]);
}

proptest! {
    /// Every begin and every end is in an execution or in the tally, executions of a thread do not overlap, and
    /// where no begin follows on another, all is found.
    #[test]
    fn nothing_is_left_out(steps in proptest::collection::vec((0..3_u32, 0..20_u8), 0..200)) {
        let (begin, end) = (MadeEvent::other("in", &[]), MadeEvent::other("out", &[]));
        let mut events: Vec<_> = (0..3_u32).map(|cpu| (cpu, runs(0, 7 + cpu.cast_signed()))).collect();
        let mut expected = Vec::new();
        let mut open = [None; 3];
        let mut has_trouble = false;
        for (cpu, step) in steps {
            let time_ns = events.len() as u64 + 1;
            match (step, open[cpu as usize]) {
                (0, _) => {
                    // Behind a loss, who runs is shown again.
                    events.push((cpu, lost()));
                    events.push((cpu, runs(0, 7 + cpu.cast_signed())));
                    has_trouble = true;
                }
                (1, Some(_)) => {
                    events.push((cpu, begin));
                    has_trouble = true;
                }
                (_, None) => {
                    events.push((cpu, begin));
                    open[cpu as usize] = Some(time_ns);
                }
                (_, Some(from_ns)) => {
                    events.push((cpu, end));
                    expected.push((7 + cpu.cast_signed(), from_ns, time_ns, None));
                    open[cpu as usize] = None;
                }
            }
        }
        let begins = events.iter().filter(|(_, event)| event.name == "in").count() as u64;
        let (all, tally, _) = found("event:in..out", &events);
        let DelimiterTally { overlapping, unfinished, lost, .. } = tally;
        prop_assert_eq!(all.len() as u64 + overlapping + unfinished + lost, begins);
        prop_assert_eq!((tally.strangers, tally.beyond, tally.unbegun), (0, 0, 0));
        if !has_trouble {
            prop_assert_eq!(&all, &expected);
            prop_assert_eq!((overlapping, lost), (0, 0));
        }
        for tid in 7..10 {
            let of: Vec<_> = all.iter().filter(|one| one.0 == tid).collect();
            prop_assert!(of.windows(2).all(|pair| pair[0].2 <= pair[1].1));
        }
    }
}

#[test]
fn keys_that_no_program_sent_are_not_kept() {
    let [short, long] = [1024, 1025].map(|length| &*vec![b'k'; length].leak());
    for (key, expected) in [(short, (1, 0)), (long, (0, 2))] {
        let events = [(0, runs(0, 7)), (0, mark(true, key, 7)), (0, mark(false, key, 7))];
        let (found, tally, _) = found("mark:q", &events);
        assert_eq!((found.len(), tally.strangers), expected);
    }
}

#[test]
fn marks_lie_at_their_own_times() {
    let late = |begins: bool| {
        let MadeEvent { kind: TraceKind::Mark(known), .. } = mark(begins, b"", 7) else { panic!() };
        MadeEvent::new("noised_mark", TraceKind::Mark(ProgramMark { before_ns: 2, ..known }))
    };
    let events = [runs(0, 7), runs(0, 7), late(true), runs(0, 7), late(false)].map(|of| (0, of));
    let spans = |to_ns| found_within("mark:q", (0, to_ns), &events).0;
    // At 3 and 5, and of 1 and 3.
    assert_eq!(spans(3), [(7, 1, 3, None)]);
    assert_eq!(spans(2), []);
}

#[test]
fn what_lies_outside_of_the_asked_time_is_not_counted() {
    let (begin, end) = (MadeEvent::other("in", &[]), MadeEvent::other("out", &[]));
    let events = [runs(0, 7), begin, end, end, begin, end, begin, end].map(|event| (0, event));
    let within = |from_ns, to_ns| {
        let (all, tally, _) = found_within("event:in..out", (from_ns, to_ns), &events);
        let spans: Vec<_> = all.iter().map(|(_, from_ns, to_ns, _)| (*from_ns, *to_ns)).collect();
        (spans, tally)
    };
    let none = DelimiterTally::default();
    let unbegun = DelimiterTally { unbegun: 1, ..none };
    assert_eq!(within(0, u64::MAX), (vec![(2, 3), (5, 6), (7, 8)], unbegun));
    // An end of the begin before, and a begin whose end is behind.
    assert_eq!(within(3, 7), (vec![(5, 6)], DelimiterTally { unfinished: 1, ..unbegun }));
    assert_eq!(within(5, 8), (vec![(5, 6), (7, 8)], none));
}

#[test]
fn begins_and_ends_at_one_time_are_counted_as_such() {
    let late =
        ProgramMark { begins: false, name: b"q", key: b"", pid: 7, tid: 7, uid: 1, before_ns: 1 };
    let late = MadeEvent::new("noised_mark", TraceKind::Mark(late));
    let events = [runs(0, 7), mark(true, b"", 7), late].map(|event| (0, event));
    let (all, tally, _) = found("mark:q", &events);
    assert_eq!(
        (all, tally),
        (vec![], DelimiterTally { momentary: 1, ..DelimiterTally::default() })
    );
}

/// A segment between a client's port 4000 and a server's port 80.
fn segment(is_sent: bool, flags: i64, bytes: i64) -> MadeEvent {
    numbered(7, is_sent, flags, bytes)
}

/// The same with the number of its first byte.
fn numbered(number: i64, is_sent: bool, flags: i64, bytes: i64) -> MadeEvent {
    // Texts and numbers of a test live as long as it does.
    let (from, to) = if is_sent { (80, 4000) } else { (4000, 80) };
    let (source, target) = if is_sent { (2, 1) } else { (1, 2) };
    let fields = vec![
        ("_ihl", 5),
        ("_tot_len", 40 + bytes),
        ("_saddr", source),
        ("_daddr", target),
        ("_source_port", from),
        ("_dest_port", to),
        ("_seq", number),
        ("_ack_seq", 9),
        ("_data_offset", 5),
        ("_flags", flags),
    ];
    let packet = Packet::default();
    let kind =
        if is_sent { TraceKind::NetDevQueue(packet) } else { TraceKind::NetifReceiveSkb(packet) };
    MadeEvent { numbers: fields.leak(), ..MadeEvent::new("net", kind) }
}

#[test]
fn a_request_lasts_until_its_answer_and_a_connection_until_it_is_closed() {
    let softirq = |begins: bool| {
        let kind = if begins {
            TraceKind::SoftirqEntry { vec: 3 }
        } else {
            TraceKind::SoftirqExit { vec: 3 }
        };
        MadeEvent::new("softirq", kind)
    };
    let (syn, ack, fin) = (2, 16, 17);
    let events = [
        (0, runs(0, 7)),
        (1, softirq(true)),
        (1, segment(false, syn, 0)),
        (1, segment(true, syn | ack, 0)),
        (1, segment(false, ack, 100)),
        (1, segment(false, ack, 50)),
        (1, softirq(false)),
        (0, segment(true, ack, 10)),
        (0, segment(true, ack, 10)),
        (1, segment(false, ack, 100)),
        (0, softirq(true)),
        (0, segment(true, ack, 10)),
        (0, softirq(false)),
        (0, segment(true, fin, 0)),
        (1, segment(false, ack, 5)),
    ];
    let none = DelimiterTally::default();
    let (all, tally, lacks) = found("request:80", &events);
    assert_eq!(all, [(7, 5, 8, None)]);
    assert_eq!((tally, lacks), (DelimiterTally { strangers: 1, unfinished: 1, ..none }, None));
    let (all, tally, _) = found("connection:80", &events);
    assert_eq!((all, tally), (vec![(7, 3, 14, None)], none));
    let (_, _, lacks) = found("request:81", &events);
    assert!(lacks.unwrap().contains("no packet of port 81"));
    let (_, _, lacks) = found("connection:80", &events[..2]);
    assert!(lacks.unwrap().contains("with headers of TCP"));
    let lossy = [&events[..5], &[(0, lost()), (0, runs(0, 7))], &events[6..8]].concat();
    let (all, tally, _) = found("request:80", &lossy);
    assert_eq!((all, tally), (Vec::new(), DelimiterTally { lost: 1, ..none }));
}

#[test]
fn what_a_client_ends_or_begins_anew_is_not_ended_by_the_next_answer() {
    let (syn, rst, ack, fin) = (2, 4, 16, 17);
    let (data, answer) = (segment(false, ack, 100), segment(true, ack, 10));
    let (reset, closed) = (segment(false, rst, 0), segment(true, fin, 0));
    let (first, next) = (segment(false, syn, 0), numbered(8, false, syn, 0));
    let one = DelimiterTally { unfinished: 1, ..DelimiterTally::default() };
    let spans = |wanted: &str, events: &[MadeEvent]| {
        let events: Vec<_> = [runs(0, 7)].iter().chain(events).map(|event| (0, *event)).collect();
        let (all, tally, _) = found(wanted, &events);
        let spans: Vec<_> = all.iter().map(|(_, from_ns, to_ns, _)| (*from_ns, *to_ns)).collect();
        (spans, tally)
    };
    for ended in [reset, first] {
        assert_eq!(spans("request:80", &[data, ended, data, answer]), (vec![(4, 5)], one));
    }
    assert_eq!(spans("connection:80", &[first, reset, first, closed]), (vec![(4, 5)], one));
    assert_eq!(spans("connection:80", &[first, next, closed]), (vec![(3, 4)], one));
    // The first packet of a connection may have a request in it, and be sent again.
    let [fast, again, new] = [8, 8, 9].map(|number| numbered(number, false, syn, 100));
    let anew = spans("request:80", &[data, fast, again, data, answer]);
    assert_eq!(anew, (vec![(3, 6)], one));
    assert_eq!(spans("request:80", &[fast, data, new, answer]), (vec![(4, 5)], one));
    // The same one is sent again where its answer was lost.
    let again = spans("connection:80", &[first, first, closed]);
    assert_eq!(again, (vec![(2, 4)], DelimiterTally::default()));
}

/// Texts of ftrace say whose an event is, on CPUs whose switches are not known, too.
#[test]
fn an_event_that_names_its_thread_is_its() {
    let text = "\
 a-11 [001] d.... 10.000000: sched_switch: prev_comm=a prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=b next_pid=12 next_prio=120
 b-12 [001] ..... 10.000010: sys_enter: NR 1 (1, 2, 3)
 c-13 [002] ..... 10.000020: sys_enter: NR 1 (1, 2, 3)
 b-12 [001] ..... 10.000030: sys_exit: NR 1 = 5
 c-13 [002] ..... 10.000040: sys_exit: NR 1 = 5
";
    let mut builder = Builder::default();
    let mut finder = Finder::new(&"event:sys_enter..sys_exit".parse().unwrap(), 0).unwrap();
    let mut reader = noise_trace::ftrace::FtraceReader::new(text.as_bytes());
    while let Some(record) = reader.read() {
        let event = record.event();
        builder.follow(&event);
        finder.follow(&record, &event, &builder);
    }
    let (all, tally) = finder.finish(builder.graph());
    let spans: Vec<_> =
        all.iter().map(|one| (one.execution.from_ns, one.execution.to_ns)).collect();
    assert_eq!(spans, [(10_000_010_000, 10_000_030_000)]);
    // Of the other one the text has no more.
    assert_eq!(tally, DelimiterTally { strangers: 1, ..DelimiterTally::default() });
}

#[test]
fn what_a_thread_began_is_not_ended_by_another_one_that_gets_its_id() {
    let (begin, end) = (MadeEvent::other("in", &[]), MadeEvent::other("out", &[]));
    let (parent, child) = (task(9), task(7));
    let fork = TraceKind::SchedProcessFork { parent, parent_pid: 9, child, child_pid: 7 };
    let fork = MadeEvent::new("sched_process_fork", fork);
    let new = TraceKind::SchedWakeupNew(Woken { task: child, target_cpu: 0 });
    let new = MadeEvent::new("sched_wakeup_new", new);
    for events in [[fork, new], [fork, fork], [new, new]] {
        let [first, second] = events;
        let events = [runs(0, 7), begin, runs(7, 9), first, second, runs(9, 7), end, begin, end];
        let (all, tally, _) = found("event:in..out", &events.map(|event| (0, event)));
        assert_eq!(all, [(7, 8, 9, None)]);
        assert_eq!(
            tally,
            DelimiterTally { unfinished: 1, unbegun: 1, ..DelimiterTally::default() }
        );
    }
}

#[test]
fn what_ended_threads_began_takes_no_place() {
    let (begin, end) = (MadeEvent::other("in", &[]), MadeEvent::other("out", &[]));
    let mut events = Vec::new();
    for tid in 1..=MAX_OPEN as i32 {
        let dead = MadeEvent::new("sched_switch", switch(tid, 0x10, 0));
        events.extend([runs(0, tid), begin, dead]);
    }
    events.extend([runs(0, 70_000), begin, end]);
    let events: Vec<_> = events.into_iter().map(|event| (0, event)).collect();
    let (all, tally, _) = found("event:in..out", &events);
    assert_eq!(all.len(), 1);
    assert_eq!(tally, DelimiterTally { unfinished: MAX_OPEN as u64, ..DelimiterTally::default() });
}

#[test]
fn a_thread_that_becomes_its_process_first_one_goes_on_with_what_it_began() {
    let (begin, end) = (MadeEvent::other("in", &[]), MadeEvent::other("out", &[]));
    let exec = TraceKind::SchedProcessExec { filename: b"p", tid: 7, old_tid: 8 };
    let exec = MadeEvent::new("sched_process_exec", exec);
    let events = [runs(0, 7), begin, runs(7, 8), begin, exec, runs(7, 0), runs(0, 7), end];
    let (all, tally, _) = found("event:in..out", &events.map(|event| (0, event)));
    assert_eq!(all, [(7, 4, 8, None)]);
    assert_eq!(tally, DelimiterTally { unfinished: 1, ..DelimiterTally::default() });
    // Before the next switch it runs by its new id.
    let events = [runs(0, 8), begin, exec, end];
    let (all, tally, _) = found("event:in..out", &events.map(|event| (0, event)));
    assert_eq!((all, tally), (vec![(7, 2, 4, None)], DelimiterTally::default()));
}
