//! Lines as kernels and trace-cmd print them.

mod misread;
mod windows;

use noise_common::hooks::Vector;

use super::*;
use crate::analysis::Analysis as _;
use crate::delays::{Begin, Delays};
use crate::event::{Comm, Packet, Request, Woken};
use crate::fixtures::named as task;
use crate::state::LeftIn;

/// Lines as kernel 6.1 and trace-cmd 3.1 print them.
const TEXT: &[u8] = br#"# tracer: nop
#
# entries-in-buffer/entries-written: 22/25   #P:4
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
           rustc-31660   [001] d..2. 40715.823550: sched_switch: prev_comm=a [b] c=1 prev_pid=31660 prev_prio=125 prev_state=R+ ==> next_comm=memfd:sealed-91 next_pid=7203 next_prio=120
 memfd:sealed-91-7203    [001] d.h2. 40715.823600: sched_waking: comm=x y pid=12 prio=120 target_cpu=003
          <idle>-0       [002] dNh3. 40715.823600: irq_handler_entry: irq=36 name=virtio1-req.0
          <idle>-0       [002] dNh3. 40715.823601: irq_handler_exit: irq=36 ret=handled
          <idle>-0       [002] d.h1. 40715.824320: softirq_raise: vec=9 [action=RCU]
            bash-31683   (  31683) [002] ...1. 40715.919552: block_rq_insert: 254,1 RA 4096 () 7864832 + 8 be,0,4 [ba sh]
            bash-31683   [002] ..... 40715.919559: block_rq_issue: 8,16 WS 4096 () 7864832 + 8 [bash]
          <idle>-0       [003] ..s.. 40715.920157: block_rq_complete: 254,1 RA () 7864832 + 8 be,0,4 [-5]
CPU:2 [LOST 17 EVENTS]
            curl-31688   [003] b.... 40715.990360: net_dev_queue: dev=lo skbaddr=00000000c99d279b len=74
            curl-31688   [003] b.... 40715.990366: net_dev_xmit: dev=lo skbaddr=0xffff8881c99d279b len=74 rc=-1
            bash-31683   [002] d.h1. 40715.990366: local_timer_entry: vector=236
          <idle>-0       [003] d.h.. 40715.990367: hrtimer_expire_entry: hrtimer=00000000c32acb0e function=tick_nohz_handler now=40715844010898
            bash-31683   [002] d.Z.. 40715.990368: nmi_handler: perf_event_nmi_handler() delta_ns: 4125 handled: 1
            bash-31683   [002] ..... 40715.990369: sched_process_fork: comm=bash pid=31683 child_comm=bash child_pid=31685
           sleep-31685   [000] ..... 40715.990370: sched_process_exec: filename=/usr/bin/sleep pid=31685 old_pid=31685
            bash-12      [001] ..... 40715.990370: sched_process_wait: comm=bash pid=0 prio=120
            bash-31683   [002] ..... 40715.990371: sys_enter: NR 33 (b, 1, 55e3129e59bc, 0, 7, b)
            bash-31683   [002] ..... 40715.990372: cgroup_attach_task: dst_root=0 dst_id=7012 dst_level=2 dst_path=/a b/c pid=31685 comm=ba sh
            bash-31683   [002] ..... 40715.990373: cgroup_attach_task: dst_root=4 dst_id=12 dst_level=1 dst_path=/memory pid=31685 comm=bash
this is no event
"#;

/// The same event, in the text itself.
fn again<'t>(text: &'t [u8], event: EventLine<'_>) -> EventLine<'t> {
    let EventLine { comm, tid, cpu, time_ns, name, rest, is_sound } = event;
    let parsed = Parsed { comm, tid, cpu, time_ns, name: name.as_bytes(), rest, input: b"" };
    LineLayout::of(text, &parsed, is_sound).line(text)
}

fn all(text: &[u8]) -> (Vec<FtraceRecord<'_>>, Damage) {
    let mut reader = FtraceReader::new(text);
    let mut records = Vec::new();
    while let Some(record) = reader.read() {
        records.push(record.map(|event| again(text, event)));
    }
    (records, reader.damage())
}

#[test]
fn lines_become_the_events_of_the_model() {
    let (records, damage) = all(TEXT);
    let second = 40_715_000_000_000;
    let kinds: Vec<_> = records.iter().map(FtraceRecord::kind).collect();
    let request = Request {
        dev: 254 << 20 | 1,
        sector: 7_864_832,
        sectors: 8,
        bytes: 4096,
        rwbs: 1 << 2 | 1 << 3,
        tid: 0,
        comm: b"ba sh",
        error: 0,
    };
    let lost = |events, from_ns: u64, to_ns: u64| {
        let time = |ns: u64| if ns == 0 { 0 } else { second + ns };
        TraceKind::Lost(LostEvents {
            events,
            packets: 0,
            from_ns: time(from_ns),
            to_ns: time(to_ns),
        })
    };
    let expected = [
        // The buffers of other CPUs may start later.
        lost(0, 823_550_000, 990_370_000),
        lost(0, 823_550_000, 823_600_000),
        lost(0, 823_550_000, 920_157_000),
        lost(3, 0, 823_550_000),
        TraceKind::SchedSwitch {
            prev: task("a [b] c=1", 31660, 125),
            prev_state: LeftIn::of(0x100),
            next: task("memfd:sealed-91", 7203, 120),
        },
        TraceKind::SchedWaking(Woken { task: task("x y", 12, 120), target_cpu: 3 }),
        TraceKind::IrqHandlerEntry { irq: 36, name: b"virtio1-req.0" },
        TraceKind::IrqHandlerExit { irq: 36, ret: 1 },
        TraceKind::SoftirqRaise { vec: 9 },
        TraceKind::BlockRqInsert(request),
        TraceKind::BlockRqIssue(Request {
            dev: 8 << 20 | 16,
            rwbs: 1 | 1 << 5,
            comm: b"bash",
            ..request
        }),
        lost(17, 919_559_000, 990_366_000),
        TraceKind::BlockRqComplete(Request { bytes: 0, comm: b"", error: -5, ..request }),
        TraceKind::NetDevQueue(Packet { skb: 0xc99d_279b, len: 74, name: b"lo" }),
        TraceKind::NetDevXmit {
            packet: Packet { skb: 0xffff_8881_c99d_279b, len: 74, name: b"lo" },
            rc: -1,
        },
        TraceKind::VectorEntry { which: Vector::LocalTimer, vector: 236 },
        TraceKind::HrtimerExpireEntry {
            hrtimer: 0xc32a_cb0e,
            function: 0,
            now: 40_715_844_010_898,
        },
        TraceKind::NmiHandler { delta_ns: 4125, handled: 1 },
        TraceKind::SchedProcessFork {
            parent: task("bash", 31683, 0),
            parent_pid: 0,
            child: task("bash", 31685, 0),
            child_pid: 0,
        },
        TraceKind::SchedProcessExec { filename: b"/usr/bin/sleep", tid: 31685, old_tid: 31685 },
        TraceKind::SchedProcessWait { comm: Comm::new(b"bash"), child: 0, prio: 120 },
        TraceKind::Other("sys_enter"),
        TraceKind::CgroupAttach { tid: 31685, path: b"/a b/c" },
        TraceKind::Other("cgroup_attach_task"),
    ];
    for (found, expected) in kinds.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(kinds.len(), expected.len());
    assert_eq!((records[4].time_ns, records[4].cpu), (second + 823_550_000, 1));
    assert_eq!(records[11].cpu, 2);
    assert_eq!((damage.unread_lines, damage.backwards), (1, 0));
    assert_eq!(damage.to_string(), "1 lines are no events (line 27 is no event)");
}

#[test]
fn the_short_forms_of_trace_cmd_are_read() {
    let text = b"cpus=4\n\
        CPU 1 is empty\n\
        trace-cmd-1234  [000]  1234.567890123: sched_switch:         trace-cmd:1234 [120] D|K ==> swapper/1:0 [120]\n\
        trace-cmd-1234  [000]  1234.567890124: sched_wakeup:         a b:12 [-51] success=1 CPU:002\n\
        trace-cmd-1234  [000]  1234.567890124: (+12)    sched:sched_wakeup:         comm=a pid=1 prio=2 target_cpu=3\n";
    let (records, damage) = all(text);
    assert!(damage.unread_lines == 0, "{damage}");
    let kinds: Vec<_> = records.iter().map(FtraceRecord::kind).collect();
    let expected = [
        TraceKind::SchedSwitch {
            prev: task("trace-cmd", 1234, 120),
            prev_state: LeftIn::printed(b"D|K"),
            next: task("swapper/1", 0, 120),
        },
        TraceKind::SchedWakeup(Woken { task: task("a b", 12, -51), target_cpu: 2 }),
        TraceKind::SchedWakeup(Woken { task: task("a", 1, 2), target_cpu: 3 }),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(records[0].time_ns, 1_234_567_890_123);
}

#[test]
fn requests_that_are_merged_and_those_without_a_place_are_read() {
    let text = b"dd-7 [002] ..... 1.000001: block_rq_merge: 254,1 WS 4096 () 16 + 8 none,0,0 [dd]\n\
        <idle>-0 [003] ..s.. 1.000002: block_rq_complete: 254,0 FF () 18446744073709551615 + 0 none,0,0 [0]\n";
    let (records, damage) = all(text);
    assert!(damage.is_none(), "{damage}");
    let requests: Vec<_> = records
        .iter()
        .map(|record| match record.kind() {
            TraceKind::BlockRqMerge(request) => ("merge", request.sector, request.sectors),
            TraceKind::BlockRqComplete(request) => ("complete", request.sector, request.sectors),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(requests, [("merge", 16, 8), ("complete", u64::MAX, 0)]);
}

#[test]
fn numbers_that_are_printed_twice_are_read() {
    let text = b"<idle>-0 [000] d..2. 20.000160: sched_switch: prev_comm=swapper/0 prev_pid=0x0 (0) prev_prio=0x78 (120) prev_state=0x1 (1) next_comm=oven next_pid=0x5b (91) next_prio=0xffffffff (-1)\n\
        dd-7 [002] ..... 20.000170: block_rq_issue: dev=0x800010 (8388624) sector=0x10 (16) nr_sector=0x8 (8) bytes=0x1000 (4096) rwbs=WS comm=dd cmd=\n";
    let (records, damage) = all(text);
    assert!(damage.is_none(), "{damage}");
    let request = Request {
        dev: 8 << 20 | 16,
        sector: 16,
        sectors: 8,
        bytes: 4096,
        rwbs: 1 | 1 << 5,
        comm: b"dd",
        ..Request::default()
    };
    let (prev, next) = (task("swapper/0", 0, 120), task("oven", 91, -1));
    let expected = [
        TraceKind::SchedSwitch { prev, prev_state: LeftIn::of(1), next },
        TraceKind::BlockRqIssue(request),
    ];
    assert_eq!(records.iter().map(FtraceRecord::kind).collect::<Vec<_>>(), expected);
}

#[test]
fn fields_that_are_no_numbers_are_not_made_up() {
    let text = b"a-1 [000] d..2. 1.000160: sched_wakeup: comm=b pid=five prio=120 target_cpu=000\n\
        a-1 [000] d..2. 1.000161: sched_wakeup: gone=1\n";
    let (records, damage) = all(text);
    let events = records.iter().filter(|record| record.loss().is_none());
    assert!(events.map(FtraceRecord::kind).all(|kind| kind == TraceKind::Other("sched_wakeup")));
    assert_eq!(
        damage.to_string(),
        "2 lines are no events (the numbers of sched_wakeup in line 1 cannot be read), and 1 more places"
    );
}

#[test]
fn texts_of_several_cpus_are_merged() {
    let line = |cpu: u32, us: u32| {
        format!("a-{us} [{cpu:03}] d..2. 1.{us:06}: sched_process_exit: comm=a pid={us} prio=120\n")
    };
    let (one, other): (String, String) = (
        [1, 5, 5, 9].iter().map(|us| line(0, *us)).collect(),
        [2, 5, 7].iter().map(|us| line(1, *us)).collect(),
    );
    let head = "# entries-in-buffer/entries-written: 3/8   #P:2\n";
    let text = format!("{one}{head}{other}{}", line(0, 4));
    let (records, damage) = all(text.as_bytes());
    assert!(damage.is_none(), "{damage}");
    let found: Vec<_> = records
        .iter()
        .map(|record| (record.time_ns / 1000 % 1000, record.cpu, record.loss().is_some()))
        .collect();
    let event = |us, cpu| (us, cpu, false);
    assert_eq!(
        found,
        [
            // What the second one begins with was overwritten.
            (1, 1, true),
            event(1, 0),
            (2, 1, true),
            event(2, 1),
            event(4, 0),
            event(5, 0),
            event(5, 0),
            event(5, 1),
            event(7, 1),
            event(9, 0)
        ]
    );
}

#[test]
fn the_latency_format_is_read() {
    let text = b"# nop latency trace v1.1.5 on 6.18.0\n\
        a b-91        0d..2. 1701852642us!: sched_switch: prev_comm=a b prev_pid=91 prev_prio=120 prev_state=R ==> next_comm=dish next_pid=92 next_prio=120\n\
        <idle>-0       12d..2.   53us : softirq_raise: vec=9 [action=RCU]\n\
        trace-cm-12    3d..2  1701.852642123: softirq_raise: vec=1 [action=TIMER]\n\
        dish-92        0d..2. 60us+: schedule <-do_idle\n";
    let (records, damage) = all(text);
    assert!(damage.is_none(), "{damage}");
    let found: Vec<_> =
        records.iter().map(|record| (record.time_ns, record.cpu, record.name())).collect();
    assert_eq!(
        found,
        [
            (53_000, 12, "softirq_raise"),
            (60_000, 0, "function"),
            (1_701_852_642_000, 0, "sched_switch"),
            (1_701_852_642_123, 3, "softirq_raise")
        ]
    );
}

#[test]
fn what_is_no_text_of_ftrace_is_named() {
    let refusal =
        |text: &str| Survey::of(Content::Held(text.as_bytes())).refusal().unwrap_or_default();
    let wakeup = "sched_wakeup: comm=dish pid=92 prio=120 target_cpu=000\n";
    let unit = refusal(&format!("oven-91 [000] d..2. 4423229746311: {wakeup}"));
    assert!(unit.starts_with("has times without a unit") && unit.contains("trace_clock"), "{unit}");
    for perf in [
        format!("oven    91 [000]  1480.852531: sched:{wakeup}"),
        format!("my oven    91/92 [000]  1480.852531: sched:{wakeup}"),
        "bash  1234 12345.678901:     250000 cycles:\n\tffffffff81000000 x ([kernel])\n".to_owned(),
    ] {
        let said = refusal(&perf);
        assert!(said.contains("perf data convert") && said.contains("--to-ctf"), "{said}");
    }
    let event = format!("oven-91 [000] d..2. 1480.852531: {wakeup}");
    assert_eq!(refusal(&event), "");
    assert_eq!(refusal(&format!("{event}what\n")), "");
    let few = refusal(&format!("{event}what\nis\nthis\n"));
    assert!(few.starts_with("cannot be read: only 1 of 4 lines are events, 3 lines"), "{few}");
    assert_eq!(refusal("# tracer: nop\n\n"), "");
}

#[test]
fn the_name_of_a_thread_is_not_the_head_of_its_line() {
    let line = b" a-1[2] 1.5: b: -4711    [001] d..2. 40715.823550: sched_process_exit: comm=a-1[2] 1.5: b:  pid=4711 prio=120\n";
    let (records, damage) = all(line);
    assert_eq!((records.len(), damage.unread_lines), (1, 0));
    assert_eq!((records[0].cpu, records[0].time_ns), (1, 40_715_823_550_000));
    let exit = TraceKind::SchedProcessExit(task("a-1[2] 1.5: b:", 4711, 120));
    assert_eq!(records[0].kind(), exit);
}

#[test]
fn many_unread_lines_are_said() {
    let event = "a-1 [000] d..2. 1.000001: sched_process_exit: comm=a pid=1 prio=120\n";
    let unread = |events: usize| {
        let text = format!("what\n# a comment\n\n => schedule\n{}", event.repeat(events));
        Survey::of(Content::Held(text.as_bytes())).unread_lines()
    };
    assert_eq!(unread(98), Some(UnreadLines { unread: 1, of: 99 }));
    assert_eq!(unread(99), None);
}

#[test]
fn the_cpu_of_a_line_stands_near_its_begin() {
    let brackets = "[0]".repeat(300_000);
    let (records, damage) = all(brackets.as_bytes());
    assert_eq!((records.len(), damage.unread_lines), (0, 1));
    let event = |before: &str, flags: &str| {
        format!("{before} [000] {flags} 1.000001: sched_process_exit: comm=a pid=7 prio=120\n")
    };
    let blanks = |count: usize| format!("a[1]-7{}", " ".repeat(count));
    for (line, is_event) in [
        (event("a[1]-7", "d..2."), true),
        (event("[0] [1]-7", "d..2."), true),
        (event(&blanks(500), "d..2."), true),
        (event(&blanks(506), "d..2."), false),
        (event("a-7", &"d".repeat(64)), true),
        (event("a-7", &"d".repeat(65)), false),
    ] {
        let (records, damage) = all(line.as_bytes());
        assert_eq!(
            (records.len(), damage.unread_lines),
            (is_event.into(), (!is_event).into()),
            "{line}"
        );
        assert!(
            records.iter().all(|record| record.kind() != TraceKind::Other("sched_process_exit"))
        );
    }
}

/// As a kernel prints buffers that go back differently far.
const UNEQUAL: &str = "\
# tracer: nop
#
# entries-in-buffer/entries-written: 5/93   #P:2
#
           <...>-7       [001] d..2. 10.000100: sched_waking: comm=shop pid=30 prio=120 target_cpu=000
           <...>-7       [001] d..2. 10.000200: sched_waking: comm=cook pid=31 prio=120 target_cpu=001
           <...>-7       [001] d..2. 10.000210: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=b next_pid=8 next_prio=120
##### CPU 0 buffer started ####
          <idle>-0       [000] d..2. 15.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=shop next_pid=30 next_prio=120
            shop-30      [000] d..2. 15.000500: sched_waking: comm=oven pid=32 prio=120 target_cpu=000
";

#[test]
fn a_cpu_whose_buffer_starts_later_is_unseen_until_then() {
    let (records, damage) = all(UNEQUAL.as_bytes());
    assert!(damage.is_none(), "{damage}");
    let losses: Vec<_> =
        records.iter().filter_map(|record| Some((record.cpu, record.loss()?))).collect();
    let (from_ns, to_ns) = (10_000_100_000, 15_000_000_000);
    // The kernel has counted them.
    let unseen = LostEvents { events: 0, packets: 0, from_ns, to_ns };
    let counted = LostEvents { events: 88, packets: 0, from_ns: 0, to_ns: from_ns };
    assert_eq!(losses, [(0, unseen), (1, counted)]);
    assert!(records.is_sorted_by_key(|record| record.time_ns));
    // Nor does another one know how many.
    let uncounted = UNEQUAL.replace("# entries", "# other");
    let (records, _) = all(uncounted.as_bytes());
    assert_eq!(records[0].loss(), Some(unseen));
}

#[test]
fn no_wait_is_joined_across_what_was_overwritten() {
    let waits = |text: &str| {
        let mut delays = Delays::new(Begin::Waking);
        all(text.as_bytes()).0.iter().for_each(|record| delays.follow(&record.event()));
        let threads = delays.finish(|_| true, None).threads;
        threads.iter().map(|thread| thread.waits.wakeup.sum_ns).collect::<Vec<_>>()
    };
    assert_eq!(waits(UNEQUAL).iter().sum::<u64>(), 0);
    // Where nothing was overwritten, it is a wait.
    let whole = UNEQUAL.replace("#####", "#").replace("5/93", "5/5");
    assert!(waits(&whole).contains(&4_999_900_000), "{:?}", waits(&whole));
}

#[test]
fn a_loss_lasts_from_the_last_event_of_its_cpu_to_the_next() {
    let text = |note: &str| {
        format!(
            "  b-7 [001] d..2. 10.000100: sched_switch: prev_comm=cook prev_pid=31 prev_prio=120 prev_state=R ==> next_comm=b next_pid=7 next_prio=120\n\
             c-8 [000] d..2. 10.000200: sched_waking: comm=shop pid=30 prio=120 target_cpu=000\n\
             c-8 [000] d..2. 10.000300: sched_switch: prev_comm=c prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=oven next_pid=9 next_prio=120\n\
             {note}b-7 [001] d..2. 12.000000: sched_switch: prev_comm=b prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=shop next_pid=30 next_prio=120\n"
        )
    };
    let waits = |text: &str| {
        let mut delays = Delays::new(Begin::Waking);
        all(text.as_bytes()).0.iter().for_each(|record| delays.follow(&record.event()));
        let document = delays.finish(|_| true, None);
        let waits = document.threads.iter().map(|thread| thread.waits.wakeup.sum_ns);
        (waits.sum::<u64>(), document.discarded)
    };
    assert_eq!(waits(&text("")), (1_999_800_000, 0));
    // It may have run on CPU 1, and slept, and been woken there.
    for (note, events) in [
        ("CPU:1 [LOST 123 EVENTS]\n", 123),
        ("CPU:1 [123 EVENTS DROPPED]\n", 123),
        ("CPU:1 [EVENTS DROPPED]\n", 1),
    ] {
        let text = text(note);
        let (records, damage) = all(text.as_bytes());
        assert!(damage.is_none(), "{damage}");
        let loss =
            LostEvents { events, packets: 0, from_ns: 10_000_100_000, to_ns: 12_000_000_000 };
        assert_eq!((records[1].cpu, records[1].loss()), (1, Some(loss)));
        assert!(records.is_sorted_by_key(|record| record.time_ns));
        assert_eq!(waits(&text), (0, events));
    }
    // Nothing of the CPU comes behind it.
    let end = text("").replace("b-7 [001] d..2. 12", "CPU:1 [LOST 2 EVENTS]\nb-7 [002] d..2. 12");
    let losses: Vec<_> = all(end.as_bytes()).0.iter().filter_map(FtraceRecord::loss).collect();
    let loss = LostEvents { events: 2, packets: 0, from_ns: 10_000_100_000, to_ns: 12_000_000_000 };
    assert_eq!(losses, [loss]);
}

#[test]
fn names_of_threads_may_begin_with_an_equals_sign() {
    let text = b"a-1 [000] d..2. 1.000160: sched_wakeup: comm==b pid=5 prio=120 target_cpu=000\n\
        a-1 [000] d..2. 1.000170: sched_switch: prev_comm==> prev_pid=1 prev_prio=120 prev_state=S ==> next_comm==b= next_pid=5 next_prio=120\n";
    let (records, damage) = all(text);
    assert!(damage.is_none(), "{damage}");
    let kinds: Vec<_> = records.iter().map(FtraceRecord::kind).collect();
    let switch = TraceKind::SchedSwitch {
        prev: task("=>", 1, 120),
        prev_state: LeftIn::printed(b"S"),
        next: task("=b=", 5, 120),
    };
    let wakeup = TraceKind::SchedWakeup(Woken { task: task("=b", 5, 120), target_cpu: 0 });
    assert_eq!(kinds, [wakeup, switch]);
}
