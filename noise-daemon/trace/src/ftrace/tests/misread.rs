//! Texts that say less than they seem to, or in another form.

use super::{LostEvents, all, task};
use crate::analysis::Analysis as _;
use crate::delays::document::DelaysDocument;
use crate::delays::{Begin, Delays};
use crate::event::TraceKind;
use crate::ftrace::{FtraceReader, FtraceRecord, Survey, UnreadLines};
use crate::record::Source as _;
use crate::state::LeftIn;
use crate::window::Content;

fn survey(text: &str) -> Survey {
    Survey::of(Content::Held(text.as_bytes()))
}

fn refusal(text: &str) -> String {
    survey(text).refusal().unwrap_or_default()
}

fn delays(text: &str) -> DelaysDocument {
    let mut delays = Delays::new(Begin::Wakeup);
    let mut reader = FtraceReader::new(text.as_bytes());
    while let Some(record) = reader.read() {
        delays.follow(&record.event());
    }
    delays.finish(|_| true, None)
}

fn losses(text: &str) -> Vec<(u32, u64, u64, u64)> {
    let (records, _) = all(text.as_bytes());
    let loss = |record: &FtraceRecord<'_>| {
        let LostEvents { events, from_ns, to_ns, .. } = record.loss()?;
        Some((record.cpu, events, from_ns / 1_000_000, to_ns / 1_000_000))
    };
    records.iter().filter_map(loss).collect()
}

/// A switch on a CPU at so many milliseconds.
fn switch(cpu: u32, ms: u32, prev: &str, next: &str) -> String {
    format!(
        "a-1 [{cpu:03}] d..2. {}.{:03}: sched_switch: prev_comm=a prev_pid={prev} prev_prio=120 prev_state=S ==> next_comm=b next_pid={next} next_prio=120\n",
        ms / 1000,
        ms % 1000
    )
}

fn wakeup(cpu: u32, ms: u32, tid: &str) -> String {
    let (s, ms) = (ms / 1000, ms % 1000);
    format!(
        "a-1 [{cpu:03}] d..2. {s}.{ms:03}: sched_wakeup: comm=c pid={tid} prio=120 target_cpu=000\n"
    )
}

/// Who thread 93 waited for, and how many milliseconds.
fn culprits(text: &str) -> Vec<(i32, &'static str, u64)> {
    let document = delays(text);
    let waits = document.threads.iter().filter(|thread| thread.tid == 93);
    let mut culprits: Vec<_> = waits
        .flat_map(|thread| &thread.culprits)
        .map(|culprit| (culprit.tid, culprit.cause, culprit.ns / 1_000_000))
        .collect();
    culprits.sort_unstable();
    culprits
}

#[test]
fn every_event_is_looked_at() {
    let wakeups = wakeup(0, 1000, "92").repeat(100);
    let text = format!("{wakeups}{}{}", wakeup(0, 1001, "ninety"), switch(0, 1002, "1", "2"));
    assert_eq!(survey(&text).unread_lines(), None);
    let text = format!("{text}{}", wakeup(0, 1003, "4294967296"));
    assert_eq!(survey(&text).unread_lines(), Some(UnreadLines { unread: 2, of: 103 }));
    let (records, damage) = all(text.as_bytes());
    assert_eq!(damage.unread_lines, 2);
    assert_eq!(
        records.iter().filter(|it| it.kind() == TraceKind::Other("sched_wakeup")).count(),
        2
    );
    let said = refusal(&wakeup(0, 1000, "#92").repeat(100));
    assert!(said.starts_with("has events whose numbers noised cannot read: 100 lines"), "{said}");
}

#[test]
fn numbers_that_are_missing_are_not_0() {
    for event in [
        "irq_handler_entry: name=foo",
        "irq_handler_exit: ret=handled",
        "softirq_raise: action=RCU",
        "softirq_exit: action=RCU",
        "local_timer_entry: what=1",
        "net_dev_queue: dev=lo len=74",
        "net_dev_queue: dev=lo skbaddr=(____ptrval____) len=74",
        "net_dev_xmit: dev=lo skbaddr=00000000c99d279b len=74",
        "hrtimer_expire_exit: hrtimer=(____ptrval____)",
        "block_rq_issue: 8,0 R 4096 () 1O0 + 8 [job]",
        "block_rq_complete: (8,0) R () 100 + 8 [0]",
        "sched_process_fork: comm=bash pid=31683 child_comm=bash child_pid=abc",
        "sched_process_exit: comm=bash pid=q prio=120",
        "sched_process_exit: comm=bash pid=4294967296 prio=120",
        "sched_wakeup: comm=c pid=5 prio=120",
        "signal_generate: sig=9 errno=0 code=128 comm=x pid=y grp=1 res=0",
        "signal_deliver: sig=x errno=0 code=128 sa_handler=0 sa_flags=0",
    ] {
        let text = format!("a-1 [000] d..2. 1.000160: {event}\n");
        let (records, damage) = all(text.as_bytes());
        let name = event.split_once(':').unwrap().0;
        assert_eq!(records[0].kind(), TraceKind::Other(name), "{event}");
        assert_eq!(damage.unread_lines, 1, "{event}");
    }
    // Older kernels print retransmissions without an address, and no kernel prints all reasons as numbers.
    for event in [
        "tcp_retransmit_skb: sport=22 dport=5 saddr=10.0.0.1 daddr=10.0.0.2",
        "kfree_skb: skbaddr=00000000c99d279b protocol=2048 location=ip_rcv+0x1/0x2 reason: NOT_SPECIFIED",
        "block_rq_issue: dev=0x800010 (8388624) sector=0xffffffffffffffff (18446744073709551615) nr_sector=0x8 (8) bytes=0x1000 (4096) rwbs=WS comm=dd cmd=",
        "block_rq_issue: dev=8388624 sector=18446744073709551615 nr_sector=8 bytes=4096 rwbs=WS comm=dd cmd=",
    ] {
        let text = format!("a-1 [000] d..2. 1.000160: {event}\n");
        let (records, damage) = all(text.as_bytes());
        assert!(damage.is_none() && !matches!(records[0].kind(), TraceKind::Other(_)), "{event}");
        if let TraceKind::BlockRqIssue(request) = records[0].kind() {
            assert_eq!((request.sector, request.sectors), (u64::MAX, 8));
        }
    }
}

#[test]
fn an_event_that_cannot_be_read_is_lost() {
    let text = [
        switch(0, 1000, "91", "92"),
        wakeup(0, 2000, "93"),
        switch(0, 3000, "92", "seven"),
        switch(0, 9000, "7", "93"),
        switch(0, 9500, "93", "0"),
    ]
    .concat();
    assert_eq!(losses(&text), [(0, 0, 3000, 9000)]);
    assert_eq!(culprits(&text), [(-1, "untracked", 6000), (92, "thread", 1000)]);
    // Nothing of that CPU comes behind it, or it comes at the same time.
    let text = [switch(0, 1000, "1", "x"), wakeup(0, 1000, "5"), switch(0, 1005, "1", "x")];
    let text = format!("{}{}", text.concat(), switch(1, 1009, "1", "2"));
    assert_eq!(losses(&text), [(0, 0, 1000, 1000), (0, 0, 1005, 1009)]);
}

#[test]
fn the_name_of_a_file_may_look_like_fields() {
    let text =
        b"a-92 [000] d..2. 1.5: sched_process_exec: filename=/x pid=1 old_pid=8 pid=7 old_pid=92\n";
    let filename = &b"/x pid=1 old_pid=8"[..];
    let kind = TraceKind::SchedProcessExec { filename, tid: 7, old_tid: 92 };
    assert_eq!(all(text).0[0].kind(), kind);
}

#[test]
fn names_of_threads_may_look_like_fields_or_have_brackets() {
    let text = b"calc-700 [000] d..2. 50.0: sched_wakeup: comm=x pid=5 pid=12 prio=120 target_cpu=000\n\
        calc-700 [000] d..2. 50.1: sched_switch: prev_comm=a prio=3 prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=prev_pid=5 ==>  next_pid=12 next_prio=120\n\
        my [app] x-21    [000]    50.2: sched_switch:         my [app] x:21 [120] D|W ==> a ==> [b]:700 [98]\n\
        calc-700    [000]    50.3: sched_wakeup:         my [app] x:21 [120] success=1 CPU:003\n";
    let (records, damage) = all(text);
    assert!(damage.is_none(), "{damage}");
    let kinds: Vec<_> = records.iter().map(FtraceRecord::kind).collect();
    let TraceKind::SchedWakeup(woken) = kinds[0] else { panic!("{kinds:?}") };
    assert_eq!(woken.task, task("x pid=5", 12, 120));
    let TraceKind::SchedSwitch { prev, next, .. } = kinds[1] else { panic!("{kinds:?}") };
    assert_eq!((prev, next), (task("a prio=3", 7, 120), task("prev_pid=5 ==>", 12, 120)));
    let TraceKind::SchedSwitch { prev, prev_state, next } = kinds[2] else { panic!("{kinds:?}") };
    assert_eq!((prev.tid, next.tid, next.prio), (21, 700, 98));
    let _ = prev_state;
    let TraceKind::SchedWakeup(woken) = kinds[3] else { panic!("{kinds:?}") };
    assert_eq!((woken.task, woken.target_cpu), (task("my [app] x", 21, 120), 3));
    let text = b"x-21 [000] 50.2: sched_switch: my [app] x:21 [120] D|W ==> calc:700 [98]\n";
    let prev_state = LeftIn::printed(b"D|W");
    let (prev, next) = (task("my [app] x", 21, 120), task("calc", 700, 98));
    assert_eq!(all(text).0[0].kind(), TraceKind::SchedSwitch { prev, prev_state, next });
}

#[test]
fn handlers_of_modules_are_named_with_them() {
    let text =
        b"a-1 [000] d.h1. 1.0: nmi_handler: hpwdt_pretimeout [hpwdt]() delta_ns: 4125 handled: 1\n";
    let (records, damage) = all(text);
    assert!(damage.is_none(), "{damage}");
    assert_eq!(records[0].kind(), TraceKind::NmiHandler { delta_ns: 4125, handled: 1 });
}

#[test]
fn a_loss_without_a_cpu_is_one_of_all() {
    let text = [
        switch(0, 1000, "0", "91"),
        switch(1, 1000, "0", "5"),
        wakeup(1, 1100, "93"),
        "[LOST 5 EVENTS]\n".to_owned(),
        switch(1, 2000, "5", "0"),
        switch(2, 2500, "5", "0"),
        switch(0, 3000, "91", "93"),
    ]
    .concat();
    assert_eq!(losses(&text), [(2, 0, 1000, 2500), (0, 0, 1000, 3000), (1, 5, 1100, 2000)]);
    assert_eq!(culprits(&text), []);
    let end =
        format!("{}{}[EVENTS DROPPED]\n", switch(0, 1000, "1", "2"), switch(1, 1500, "1", "2"));
    assert_eq!(losses(&end), [(0, 1, 1000, 1500), (1, 0, 1500, 1500)]);
    // An instance has its name in front of the CPU.
    let named = text.replace("[LOST 5 EVENTS]", "  sched: CPU:1 [5 EVENTS DROPPED]");
    assert_eq!(losses(&named), [(1, 5, 1100, 2000)]);
    // Their sum has a bound.
    let most = format!("CPU:0 [LOST {} EVENTS]\n[LOST 5 EVENTS]\n", u64::MAX);
    assert_eq!(losses(&(switch(0, 1000, "1", "2") + &most)), [(0, u64::MAX, 1000, 1000)]);
    // There is no such CPU.
    let text = ["[LOST 7 EVENTS]\n".to_owned(), wakeup(9999, 1000, "5"), wakeup(0, 1001, "5")];
    assert_eq!(delays(&text.concat()).discarded, 7);
}

#[test]
fn a_text_of_losses_alone_has_them() {
    for text in ["CPU:3 [LOST 7 EVENTS]\n", "[LOST 7 EVENTS]\n"] {
        assert_eq!(delays(text).discarded, 7, "{text}");
    }
}

#[test]
fn a_header_that_counts_more_than_there_is_makes_later_cpus_unseen() {
    let events = [
        switch(1, 1000, "1", "2"),
        wakeup(1, 1100, "93"),
        switch(0, 1300, "0", "93"),
        switch(0, 1400, "93", "0"),
    ]
    .concat();
    let header =
        |written: u32| format!("# entries-in-buffer/entries-written: 4/{written}   #P:2\n");
    let lossy = format!("{}{events}", header(50));
    assert_eq!(losses(&lossy), [(0, 0, 1000, 1300), (1, 46, 0, 1000)]);
    assert_eq!(culprits(&lossy), []);
    assert_eq!(losses(&format!("{}{events}", header(4))), []);
    // Where buffers start is said: then no other one starts late.
    let said = lossy
        .replace("a-1 [001] d..2. 1.100", "##### CPU 1 buffer started ####\na-1 [001] d..2. 1.100");
    assert_eq!(losses(&said), [(1, 46, 0, 1000), (1, 0, 1000, 1100)]);
}

#[test]
fn several_inputs_are_not_joined() {
    let line = |input: &str, us: u32| {
        format!(
            "{input}            oven-91    [000]   100.{us:06}: sched_wakeup: dish:92 [120] CPU:000\n"
        )
    };
    let said = refusal(&(line("    host.dat: ", 1) + &line("   guest.dat: ", 2)));
    assert!(said.contains("(host.dat, guest.dat)") && said.contains("report -i FILE"), "{said}");
    // Instances are of one machine.
    assert_eq!(refusal(&(line("   sched: ", 1) + &line("     irq: ", 2))), "");
    // One of them alone is one machine.
    let text = line("    host.dat: ", 1) + &line("", 2) + &line("    host.dat: ", 3);
    let (records, damage) = all(text.as_bytes());
    assert!(damage.is_none(), "{damage}");
    assert!(records.iter().all(|record| record.stored().unwrap().comm == b"oven"), "{records:?}");
    assert_eq!(refusal(&text), "");
}

#[test]
fn what_tracers_print_is_not_taken_for_events() {
    let wakeup = "# tracer: wakeup\n#\n# wakeup latency trace v1.1.5 on 5.10.0\n\
        <idle>-0       3dNs3.    2us+:      0:120:R   + [003]  2729: 19:R kworker\n\
        <idle>-0       3d..3.   16us!:      0:120:R ==> [003]  2729: 19:R kworker\n";
    let graph = "# tracer: function_graph\n#\n# CPU  DURATION                  FUNCTION CALLS\n\
        \x200)               |  do_sys_open() {\n\x200)   0.123 us    |    getname();\n";
    let osnoise = "# tracer: osnoise\n <...>-859     [000] ....    81.637220: 1000000        190  99.98100              9     18      0   1007     18      1\n";
    for (text, tracer) in [(wakeup, "wakeup"), (graph, "function_graph"), (osnoise, "osnoise")] {
        let said = refusal(text);
        assert!(said.starts_with(&format!("is what the tracer {tracer} prints")), "{said}");
        assert!(said.contains("echo nop > "), "{said}");
    }
    let event = self::wakeup(0, 1000, "1");
    assert_eq!(
        refusal(&format!("# tracer: function\n{event}a-1 [000] 1.5: schedule <-do_idle\n")),
        ""
    );
    assert_eq!(refusal(&format!("# tracer: nop\n{event}")), "");
    // A protocol's name begins with a digit.
    let (records, _) =
        all(b"a-1 [000] 1.000001: 9p_client_req: client 1 request P9_TREAD tag  1\n");
    assert_eq!(records[0].name(), "9p_client_req");
}

#[test]
fn times_without_a_unit_are_named_whatever_stands_around_them() {
    for line in [
        "a-1   [000] d..2. 4423229746311: (+12) softirq_raise: vec=9 [action=RCU]\n",
        "a-1   [000] d..2. 4423229746311: (+-12) softirq_raise: vec=9 [action=RCU]\n",
        "# nop latency trace v1.1.5 on 6.18.0\na-91     0d..2. 4423229746311: softirq_raise: vec=9 [action=RCU]\n",
    ] {
        let said = refusal(line);
        assert!(said.starts_with("has times without a unit"), "{line}{said}");
    }
    let (records, damage) = all(b"a-1  [000]  1.5: (+-25) softirq_raise: vec=9 [action=RCU]\n");
    assert!(damage.is_none(), "{damage}");
    assert_eq!(records[0].kind(), TraceKind::SoftirqRaise { vec: 9 });
}

#[test]
fn latencies_that_trace_cmd_appends_are_no_fields() {
    let latency = " Latency: 100000.000 usecs\n";
    let short = "a-1 [000] 1.5: sched_switch: a:1 [120] R ==> b:2 [120]\n";
    for text in [switch(0, 1000, "1", "2"), short.to_owned()] {
        let with = text.replace('\n', latency) + "\nAverage wakeup latency: 100000.000 usecs\n";
        let (records, damage) = all(with.as_bytes());
        assert!(damage.is_none(), "{damage}");
        assert_eq!(records[0].kind(), all(text.as_bytes()).0[0].kind());
    }
}

#[test]
fn the_end_of_any_call_is_no_begin_of_exit() {
    let (records, damage) = all(b"a-1 [000] 1.0: sys_exit: NR 0 = 35\n");
    assert!(damage.is_none(), "{damage}");
    assert_eq!(records[0].kind(), TraceKind::Other("sys_exit"));
}
