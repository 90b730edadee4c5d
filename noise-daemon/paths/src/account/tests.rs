//! Accounts of made stretches.

use noise_trace::event::{Comm, Dumped, LostEvents, Woken};
use noise_trace::select::ThreadOrProcess;

use super::*;
use crate::blame::Blame;
use crate::document::{PathsDocument, Segment};
use noise_trace::fixtures::{ASLEEP, switch, task, waking};

const DISK_STATE: i64 = 2;

fn dumped(tid: i32, pid: i32) -> TraceKind<'static> {
    let comm = Comm::new(format!("t{tid}").as_bytes());
    TraceKind::StatedumpProcess(Dumped { tid, pid, ppid: 1, comm })
}

/// The process 4 has the threads 4, 5 and 6; 9 is another one.
fn dump() -> Vec<(u64, u32, TraceKind<'static>)> {
    [dumped(4, 4), dumped(5, 4), dumped(6, 4), dumped(9, 9)].map(|kind| (1, 0, kind)).to_vec()
}

fn process() -> Select {
    Select { process: Some(ThreadOrProcess::Id(4)), ..Select::default() }
}

fn account(
    select: Select,
    span_ns: (u64, u64),
    events: &[(u64, u32, TraceKind<'static>)],
    runs: impl Fn(i32) -> bool,
) -> PathAccount {
    let (from_ns, to_ns) = span_ns;
    let mut accountant = Accountant::new(select, Waker::Waking, from_ns, to_ns);
    for (time_ns, cpu, kind) in events {
        accountant.follow(&Event { time_ns: *time_ns, cpu: *cpu, kind: *kind });
    }
    accountant.finish(&[], runs)
}

/// Its waits, divided.
fn blamed(account: &PathAccount, events: &[(u64, u32, TraceKind<'static>)]) -> Vec<Segment> {
    let executions = account.waits.clone();
    let mut document = PathsDocument { executions, ..PathsDocument::default() };
    let mut blame = Blame::new(&document, Delays::of_turns());
    for (time_ns, cpu, kind) in events {
        blame.follow(&Event { time_ns: *time_ns, cpu: *cpu, kind: *kind }, &mut document);
    }
    blame.finish(&mut document);
    document.executions.into_iter().flat_map(|traced| traced.path).collect()
}

fn totals(account: &PathAccount, tid: i32) -> Vec<(&'static str, u64)> {
    let member = account.members.iter().find(|member| member.tid == tid).unwrap();
    member.totals_ns.iter().map(|(state, ns)| (*state, *ns)).collect()
}

/// 4 runs, is preempted by 9, runs, sleeps on a disk, and sleeps on at the end.
fn busy() -> Vec<(u64, u32, TraceKind<'static>)> {
    let mut events = dump();
    events.extend([
        (50, 0, switch(0, 0, 4)),
        (200, 0, switch(4, 0, 9)),
        (300, 0, switch(9, 0, 4)),
        (310, 0, TraceKind::IrqHandlerEntry { irq: 7, name: b"eth0" }),
        (315, 0, TraceKind::IrqHandlerExit { irq: 7, ret: 1 }),
        (320, 0, TraceKind::SoftirqEntry { vec: 3 }),
        (322, 0, TraceKind::NmiHandler { delta_ns: 1, handled: 1 }),
        (330, 0, TraceKind::SoftirqExit { vec: 3 }),
        (400, 0, switch(4, DISK_STATE, 9)),
        (450, 0, TraceKind::SoftirqEntry { vec: 4 }),
        (460, 0, waking(4)),
        (470, 0, TraceKind::SoftirqExit { vec: 4 }),
        (500, 0, switch(9, 0, 4)),
        (600, 0, switch(4, ASLEEP, 9)),
    ]);
    events
}

#[test]
fn uninterruptible_sleeps_that_threads_end_are_kept_by_both() {
    let mut events = dump();
    events.extend([
        (50, 0, switch(0, 0, 4)),
        (200, 0, switch(4, DISK_STATE, 9)),
        (260, 0, waking(4)),
        (300, 0, switch(9, 0, 4)),
        // One that a signal may end.
        (400, 0, switch(4, ASLEEP, 9)),
        (450, 0, waking(4)),
    ]);
    let account = account(process(), (100, 1000), &events, |_| false);
    assert_eq!(account.enders.uninterruptible, [((4, 9), 60)].into());
}

#[test]
fn time_is_divided_by_what_threads_did() {
    let account = account(process(), (100, 1000), &busy(), |_| false);
    assert_eq!(
        totals(&account, 4),
        [("asleep", 400), ("disk", 60), ("running", 300), ("waiting_cpu", 140)]
    );
    let first = &account.members[0];
    assert_eq!((first.tid, first.pid, first.comm.as_str()), (4, 4, "t4"));
    assert_eq!(first.span_ns(), 900);
    assert_eq!(first.waits, Spread { count: 2, sum_ns: 140, max_ns: 100 });
    assert_eq!(first.uninterruptible, Spread { count: 1, sum_ns: 60, max_ns: 60 });
    // The others had no event.
    assert_eq!(totals(&account, 5), [("asleep", 900)]);
    assert_eq!(account.members.len(), 3);
    assert!(account.is_member(5) && !account.is_member(9));
    assert_eq!(account.totals_ns()["asleep"], 400 + 2 * 900);
}

#[test]
fn an_uninterruptible_sleep_that_nothing_has_ended_is_not_idle() {
    let open = |state| {
        let mut events = dump();
        events.extend([(50, 0, switch(0, 0, 4)), (200, 0, switch(4, state, 9))]);
        account(process(), (100, 1000), &events, |_| false)
    };
    let waits = open(DISK_STATE);
    assert_eq!(totals(&waits, 4), [("running", 100), ("unknown", 800)]);
    let member = waits.members.iter().find(|member| member.tid == 4).unwrap();
    assert_eq!(member.uninterruptible, Spread { count: 1, sum_ns: 800, max_ns: 800 });
    assert!(waits.enders.alone.iter().all(|alone| alone.tid != 4));
    assert_eq!(totals(&open(ASLEEP), 4), [("asleep", 800), ("running", 100)]);
}

#[test]
fn a_kernel_thread_that_has_nothing_to_do_waits_for_nothing() {
    let mut events = dump();
    events.extend([
        (100, 0, switch(0, 0, 4)),
        (200, 0, switch(4, 0x402, 9)),
        (300, 0, waking(4)),
        (310, 0, switch(9, 0, 4)),
        (400, 0, switch(4, ASLEEP, 9)),
    ]);
    let account = account(process(), (100, 1000), &events, |_| false);
    assert_eq!(account.members[0].uninterruptible, Spread::default());
}

#[test]
fn a_thread_that_never_leaves_its_cpu_runs() {
    let account = account(process(), (100, 1000), &dump(), |tid| tid == 5);
    assert_eq!(totals(&account, 5), [("running", 900)]);
    assert_eq!(totals(&account, 6), [("asleep", 900)]);
}

#[test]
fn the_first_event_says_what_came_before() {
    let before = |kind| {
        let mut events = dump();
        events.push((300, 0, kind));
        let account = account(process(), (100, 1000), &events, |_| false);
        totals(&account, 4)
    };
    assert_eq!(before(switch(4, 1, 0)), [("asleep", 700), ("running", 200)]);
    assert_eq!(before(switch(4, 0, 9)), [("running", 200), ("waiting_cpu", 700)]);
    assert_eq!(before(waking(4)), [("asleep", 200), ("waiting_cpu", 700)]);
    assert_eq!(before(switch(0, 0, 4)), [("running", 700), ("unknown", 200)]);
}

#[test]
fn what_a_thread_did_where_not_all_cpus_are_seen_is_not_known() {
    let before = |kind: Option<TraceKind<'static>>| {
        let mut events = dump();
        // Ring 1 does not reach as far back as ring 0: it is known from 250 on.
        let unseen = LostEvents { events: 0, packets: 0, from_ns: 20, to_ns: 250 };
        events.push((20, 1, TraceKind::Lost(unseen)));
        events.push((260, 1, switch(9, 1, 0)));
        events.extend(kind.map(|kind| (300, 0, kind)));
        let account = account(process(), (100, 1000), &events, |_| false);
        (totals(&account, 4), totals(&account, 6))
    };
    let (woken, silent) = before(Some(waking(4)));
    assert_eq!(woken, [("asleep", 50), ("unknown", 150), ("waiting_cpu", 700)]);
    assert_eq!(silent, [("asleep", 750), ("unknown", 150)]);
}

#[test]
fn interrupts_are_charged_to_who_ran() {
    let account = account(process(), (100, 1000), &busy(), |_| false);
    let taken: Vec<_> = account
        .interrupted
        .iter()
        .map(|one| (one.cause, one.source.as_str(), one.taken.count))
        .collect();
    // Not what completed the request while another one ran.
    assert_eq!(taken, [("softirq", "net_rx", 1), ("hardirq", "eth0", 1), ("nmi", "", 1)]);
    assert_eq!(account.interrupted[1].taken.sum_ns, 5);
}

#[test]
fn waits_are_blamed_whole_though_they_begin_before_the_time() {
    let events = busy();
    let account = account(process(), (250, 1000), &events, |_| false);
    assert_eq!(totals(&account, 4)[3], ("waiting_cpu", 90));
    let waits = blamed(&account, &events);
    let culprits = waits.iter().filter(|segment| segment.state == "waiting_cpu");
    let culprits: Vec<_> = culprits.flat_map(|segment| &segment.culprits).collect();
    assert!(culprits.iter().all(|culprit| culprit.tid == 9 || culprit.cause != "thread"));
    assert_eq!(culprits.iter().map(|culprit| culprit.ns).sum::<u64>(), 90);
}

#[test]
fn a_wait_that_nothing_has_ended_is_blamed_where_the_thread_waits() {
    let mut events = dump();
    let moved = TraceKind::SchedMigrateTask { task: task(4), orig_cpu: 0, dest_cpu: 1 };
    events.extend([
        (10, 1, switch(0, 0, 5)),
        (50, 0, switch(0, 0, 4)),
        (200, 0, switch(4, ASLEEP, 9)),
        (300, 2, waking(4)),
        (300, 2, moved),
    ]);
    let account = account(process(), (100, 1000), &events, |_| false);
    let [wait] = blamed(&account, &events).try_into().unwrap();
    let culprits: Vec<_> = wait.culprits.iter().map(|one| (one.tid, one.ns)).collect();
    assert_eq!((wait.cpu, culprits), (Some(1), vec![(5, 700)]));
}

#[test]
fn the_longest_pauses_are_those_that_others_have_a_part_in() {
    let mut events = busy();
    // It is woken by a timer after a long sleep.
    events.extend([
        (900, 0, TraceKind::SoftirqEntry { vec: 1 }),
        (901, 0, waking(4)),
        (902, 0, TraceKind::SoftirqExit { vec: 1 }),
        (905, 0, switch(9, 0, 4)),
    ]);
    let account = account(process(), (100, 1000), &events, |_| false);
    let pauses: Vec<_> = account
        .longest(2)
        .iter()
        .map(|pause| (pause.from_ns, pause.to_ns, pause.held_ns))
        .collect();
    // Of 100 ns each, of which the disk had all.
    assert_eq!(pauses, [(200, 300, 100), (400, 500, 100)]);
    assert_eq!(account.longest(9).len(), 3);
    assert_eq!(totals(&account, 4).iter().find(|(state, _)| *state == "timer").unwrap().1, 301);
}

#[test]
fn who_waits_all_the_time_is_among_the_longest() {
    let mut events = dump();
    events.extend([(50, 0, switch(0, 0, 4)), (80, 0, switch(4, 0, 9))]);
    let account = account(process(), (100, 1000), &events, |_| false);
    assert_eq!(totals(&account, 4), [("waiting_cpu", 900)]);
    let longest = account.longest(3);
    assert_eq!((longest[0].from_ns, longest[0].to_ns), (100, 1000));
}

#[test]
fn threads_of_a_cgroup_are_its_own_and_those_that_they_create() {
    let select =
        Select { cgroup: Some(noise_trace::select::Cgroup::parse("/a")), ..Select::default() };
    let attach = |tid, path| (1, 0, TraceKind::CgroupAttach { tid, path });
    let mut events = vec![attach(4, b"/a".as_slice()), attach(9, b"/b".as_slice())];
    events.extend(dump());
    events.extend([
        (50, 0, switch(0, 0, 4)),
        (
            300,
            0,
            TraceKind::SchedProcessFork {
                parent: task(4),
                parent_pid: 4,
                child: task(20),
                child_pid: 20,
            },
        ),
        (310, 0, TraceKind::SchedWakeupNew(Woken { task: task(20), target_cpu: 1 })),
        (400, 1, switch(0, 0, 20)),
        (500, 0, switch(4, ASLEEP, 9)),
        (600, 1, TraceKind::SchedProcessExit(task(20))),
        (601, 1, switch(20, 0x10, 0)),
    ]);
    let account = account(select, (100, 1000), &events, |_| false);
    assert!(account.is_member(20) && account.is_member(4) && account.is_member(5));
    assert!(!account.is_member(9));
    let child = totals(&account, 20);
    assert!(child.contains(&("waiting_cpu", 90)) && child.contains(&("running", 201)), "{child:?}");
    assert_eq!(totals(&account, 4), [("asleep", 500), ("running", 400)]);
}

#[test]
fn one_that_ended_before_is_not_there() {
    let mut events = dump();
    events.extend([
        (50, 0, switch(0, 0, 5)),
        (60, 0, TraceKind::SchedProcessExit(task(5))),
        (61, 0, switch(5, 0x10, 4)),
    ]);
    let account = account(process(), (100, 1000), &events, |_| false);
    // Of 6 there is no event at all.
    let tids: Vec<i32> = account.members.iter().map(|member| member.tid).collect();
    assert_eq!(tids, [4, 6]);
    assert_eq!(totals(&account, 6), [("asleep", 900)]);
}

#[test]
fn losses_are_counted_in_the_time_alone() {
    let mut events = dump();
    let lost =
        |to_ns| TraceKind::Lost(LostEvents { events: 3, packets: 0, from_ns: to_ns - 1, to_ns });
    events.extend([(50, 0, lost(50)), (500, 0, lost(500))]);
    assert_eq!(account(process(), (100, 1000), &events, |_| false).discarded, 3);
}

proptest::proptest! {
    /// Whatever the events, the time of a thread that was there all along is divided without a rest, and
    /// nothing panics.
    #[test]
    fn time_sums_to_the_span(
        steps in proptest::collection::vec((0u8..5, 0usize..4, 0usize..4, 0i64..4, 1u64..50), 0..200),
        from_ns in 0u64..2000, span_ns in 1u64..2000,
    ) {
        let tids = [0, 4, 5, 9];
        let mut now_ns = 10;
        let mut events = dump();
        for (what, one, other, state, later_ns) in steps {
            now_ns += later_ns;
            let (one, other) = (tids[one], tids[other]);
            let kind = match what {
                0 | 1 => switch(one, state, other),
                2 => waking(one),
                3 => TraceKind::SoftirqEntry { vec: state as u32 },
                _ => TraceKind::SoftirqExit { vec: state as u32 },
            };
            events.push((now_ns, (what % 2).into(), kind));
        }
        let account = account(process(), (from_ns, from_ns + span_ns), &events, |_| false);
        for member in &account.members {
            proptest::prop_assert!(member.span_ns() <= span_ns, "{member:?}");
            proptest::prop_assert_eq!(member.waits.sum_ns, member.ns("waiting_cpu"));
        }
        for pause in account.longest(3) {
            proptest::prop_assert!(pause.from_ns < pause.to_ns && pause.to_ns <= from_ns + span_ns);
            proptest::prop_assert!(pause.held_ns <= pause.to_ns - pause.from_ns);
        }
    }
}

#[test]
fn an_uninterruptible_sleep_that_a_timer_ends_is_no_timer_of_its_own() {
    let sleep = |state| {
        let mut events = dump();
        events.extend([
            (50, 0, switch(0, 0, 4)),
            (200, 0, switch(4, state, 0)),
            (300, 0, TraceKind::SoftirqEntry { vec: 1 }),
            (310, 0, waking(4)),
            (320, 0, TraceKind::SoftirqExit { vec: 1 }),
            (330, 0, switch(0, 0, 4)),
            (900, 0, switch(4, ASLEEP, 0)),
        ]);
        let account = account(process(), (100, 1_000), &events, |_| false);
        assert_eq!(account.totals_ns().get("timer"), Some(&110), "the states of paths stay");
        account.enders.held_back
    };
    assert_eq!(sleep(DISK_STATE), [(4, 110)].into());
    assert_eq!(sleep(ASLEEP), BTreeMap::new());
}

#[test]
fn who_waits_for_one_that_waits_for_a_disk_waits_for_the_disk() {
    let mut events = dump();
    events.extend([
        (50, 0, switch(0, 0, 4)),
        // 4 sleeps until 9 wakes it, which sleeps on a disk before and meanwhile.
        (120, 1, switch(9, DISK_STATE, 0)),
        (200, 0, switch(4, DISK_STATE, 0)),
        (300, 1, TraceKind::SoftirqEntry { vec: 4 }),
        (310, 1, waking(9)),
        (320, 1, TraceKind::SoftirqExit { vec: 4 }),
        (330, 1, switch(0, 0, 9)),
        (400, 1, waking(4)),
        (410, 0, switch(0, 0, 4)),
        (420, 1, switch(9, ASLEEP, 0)),
        (900, 0, switch(4, ASLEEP, 0)),
    ]);
    let account = account(process(), (100, 1_000), &events, |_| false);
    assert_eq!(account.enders.wakers, [(9, 200)].into());
    assert!(account.disk_waits_of(|tid| tid == 5).is_empty());
    let [waited] = account.disk_waits_of(|tid| tid == 9).try_into().unwrap();
    let path: Vec<_> = waited.path.iter().map(|one| (one.tid, one.from_ns, one.to_ns)).collect();
    assert_eq!(path, [(9, 200, 310)]);
}

#[test]
fn a_lock_of_the_kernel_is_let_go_by_a_thread_of_the_same_process() {
    let of = |state, waker: i32| {
        let mut events = dump();
        events.extend([
            (50, 0, switch(0, 0, 4)),
            (60, 1, switch(0, 0, waker)),
            (200, 0, switch(4, state, 0)),
            (400, 1, waking(4)),
            (410, 0, switch(0, 0, 4)),
            (420, 1, switch(waker, ASLEEP, 0)),
            (600, 0, switch(4, state, 0)),
        ]);
        let account = account(process(), (100, 1_000), &events, |_| false);
        let ns = |held: &BTreeMap<i32, Held>| held.get(&4).map(|held| held.ns);
        (ns(&account.held), ns(&account.held_in_kernel), account.enders.unwoken.get(&4).copied())
    };
    assert_eq!(of(DISK_STATE, 5), (None, Some(200), Some(400)));
    assert_eq!(of(ASLEEP, 5), (Some(200), None, None));
    assert_eq!(of(DISK_STATE, 9), (None, None, Some(400)));
}

#[test]
fn sleeps_without_a_waker_keep_when_they_began() {
    let mut events = dump();
    events.extend([
        (10, 0, switch(0, 0, 4)),
        (20, 0, switch(4, ASLEEP, 0)),
        (60, 0, TraceKind::SoftirqEntry { vec: 1 }),
        (61, 0, waking(4)),
        (62, 0, TraceKind::SoftirqExit { vec: 1 }),
        (65, 0, switch(0, 0, 4)),
        (70, 0, switch(4, ASLEEP, 9)),
        // Another thread ends this one.
        (75, 0, waking(4)),
        (76, 0, switch(9, 0, 4)),
        (80, 0, switch(4, ASLEEP, 0)),
    ]);
    let account = account(process(), (40, 200), &events, |_| false);
    let of = account.enders.alone.iter().filter(|alone| alone.tid == 4);
    let found: Vec<_> = of.map(|one| (one.since_ns, one.from_ns, one.to_ns, one.is_over)).collect();
    assert_eq!(found, [(20, 40, 61, true), (80, 80, 200, false)]);
}
