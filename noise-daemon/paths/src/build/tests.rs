//! Single rules of how a graph is made.

use noise_trace::event::{Dumped, LostEvents};
use noise_trace::ipc::read::edge;
use noise_trace::ipc::{Call, Object, Return};

use super::*;
use crate::path::{Step, Why};
use crate::walk::{Bounds, walk};
use noise_trace::fixtures::{ASLEEP, switch, task, waking};

mod children;
mod links;
mod packets;
mod unseen;

fn built(events: &[(u64, u32, TraceKind<'_>)]) -> Builder {
    let mut builder = Builder::default();
    for (time_ns, cpu, kind) in events {
        builder.follow(&Event { time_ns: *time_ns, cpu: *cpu, kind: *kind });
    }
    builder
}

/// A thread's states, each with its end.
fn states(builder: &Builder, tid: i32) -> Vec<(u64, Option<State>)> {
    let worker = builder.graph().get(builder.thread(0, tid).unwrap()).unwrap();
    worker.points().map(|point| (point.time_ns, point.state)).collect()
}

#[test]
fn what_a_switch_leaves_behind() {
    let after = |state| {
        let builder = built(&[
            (10, 0, switch(0, 0, 1)),
            (20, 0, switch(1, state, 0)),
            (30, 0, switch(0, 0, 1)),
        ]);
        states(&builder, 1)[2].1
    };
    for (prev_state, state) in [
        (0, State::WaitingCpu),
        (0x100, State::WaitingCpu),
        // Asleep, on a disk, stopped, traced, parked.
        (1, State::Blocked),
        (2, State::Blocked),
        (4, State::Blocked),
        (8, State::Blocked),
        (64, State::Blocked),
        (2049, State::Blocked),
    ] {
        assert_eq!(after(prev_state), Some(state), "{prev_state}");
    }
}

#[test]
fn an_exit_without_entry_leaves_the_context_as_it_was() {
    let woken = |events: &[TraceKind<'static>]| {
        let mut all =
            vec![(10, 0, switch(0, 0, 1)), (11, 1, switch(0, 0, 2)), (12, 1, switch(2, 1, 0))];
        all.extend(events.iter().map(|kind| (20, 0, *kind)));
        all.push((30, 0, waking(2)));
        let builder = built(&all);
        let id = builder.thread(0, 2).unwrap();
        let point = *builder.graph().get(id).unwrap().points().last().unwrap();
        (point.state, point.link.is_some())
    };
    let by_task = (Some(State::Blocked), true);
    assert_eq!(woken(&[]), by_task);
    assert_eq!(woken(&[TraceKind::IrqHandlerExit { irq: 3, ret: 1 }]), by_task);
    assert_eq!(woken(&[TraceKind::SoftirqExit { vec: 4 }]), by_task);
    let entry = TraceKind::SoftirqEntry { vec: 4 };
    assert_eq!(woken(&[entry]), (Some(State::Disk), false));
    // The exit was lost; no interrupt lasts over a switch.
    assert_eq!(woken(&[entry, switch(1, 0, 3)]), by_task);
    assert_eq!(
        woken(&[entry, TraceKind::Lost(LostEvents::default())]),
        (Some(State::Blocked), false)
    );
}

#[test]
fn an_interrupt_in_which_requests_complete_is_a_disks() {
    let irq = |completes: bool| {
        let entry = TraceKind::IrqHandlerEntry { irq: 5, name: b"device" };
        let exit = TraceKind::IrqHandlerExit { irq: 5, ret: 1 };
        let mut all = vec![(10, 0, switch(0, 0, 1)), (11, 0, switch(1, 2, 0)), (20, 0, entry)];
        if completes {
            all.push((21, 0, TraceKind::BlockRqComplete(noise_trace::event::Request::default())));
        }
        all.extend([(22, 0, waking(1)), (23, 0, exit)]);
        states(&built(&all), 1)[2].1
    };
    assert_eq!(irq(true), Some(State::Disk));
    assert_eq!(irq(false), Some(State::Interrupt));
}

/// The begin or the end of a system call, as readers have it.
fn call(name: &'static str) -> TraceKind<'static> {
    let object = Object::default();
    match edge(name) {
        Some((info, true)) => {
            TraceKind::SyscallEntry(Call { info, tid: 0, arguments: [0; 3], object })
        }
        Some((info, false)) => {
            TraceKind::SyscallExit(Return { info, tid: 0, ret: 0, object, peeks: false })
        }
        None => TraceKind::Other(name),
    }
}

#[test]
fn a_sleep_in_the_system_call_of_locks_is_one() {
    let asleep = |calls: &[(u64, &'static str)], slept_ns| {
        let mut all = vec![(10, 0, switch(0, 0, 1))];
        all.extend(calls.iter().map(|(time_ns, name)| (*time_ns, 0, call(name))));
        // It is preempted meanwhile, and goes on elsewhere.
        all.extend([(50, 0, switch(1, 0, 0)), (60, 1, switch(0, 0, 1))]);
        all.extend([(slept_ns, 1, switch(1, 1, 0)), (90, 1, switch(0, 0, 1))]);
        states(&built(&all), 1).last().unwrap().1
    };
    let futex = Some(State::Futex);
    assert_eq!(asleep(&[(20, "syscall_entry_futex")], 70), futex);
    assert_eq!(asleep(&[(20, "compat_sys_futex")], 70), futex);
    let other = Some(State::Blocked);
    assert_eq!(asleep(&[(20, "syscall_entry_futex"), (30, "syscall_exit_futex")], 70), other);
    assert_eq!(asleep(&[(20, "sys_futex"), (30, "exit_syscall")], 70), other);
    assert_eq!(asleep(&[(20, "syscall_entry_read")], 70), other);
}

#[test]
fn what_is_lost_is_unknown_and_not_guessed() {
    // The switch away from 1 was lost.
    let builder =
        built(&[(10, 0, switch(0, 0, 1)), (20, 0, switch(5, 1, 0)), (30, 1, switch(0, 0, 1))]);
    assert_eq!(states(&builder, 1), [(10, None), (30, Some(State::Unknown))]);
    // All of a CPU, for a while.
    let lost = TraceKind::Lost(LostEvents::default());
    let builder = built(&[(10, 0, switch(0, 0, 1)), (20, 0, lost), (30, 0, switch(1, 1, 0))]);
    assert_eq!(states(&builder, 1), [(10, None), (30, Some(State::Unknown))]);
}

#[test]
fn a_thread_that_waits_and_is_woken_after_a_loss_ran_meanwhile() {
    let lost = TraceKind::Lost(LostEvents::default());
    let states = |lost: &[(u64, u32, TraceKind<'static>)]| {
        let mut events = vec![(5, 1, switch(0, 0, 2)), (10, 0, switch(0, 0, 1))];
        events.extend([(20, 0, switch(1, 1, 3)), (30, 1, waking(1))]);
        events.extend_from_slice(lost);
        events.extend([(80, 1, waking(1)), (90, 0, switch(3, 0, 1))]);
        states(&built(&events), 1)
    };
    let woken = (30, Some(State::Blocked));
    let whole = [(10, None), (20, Some(State::Running)), woken, (90, Some(State::WaitingCpu))];
    assert_eq!(states(&[]), whole);
    // It ran and slept again, which was lost.
    let (unknown, waits) = ((80, Some(State::Unknown)), (90, Some(State::WaitingCpu)));
    let rest = [(10, None), (20, Some(State::Running)), woken, unknown, waits];
    for cpu in [0, 1, 7] {
        assert_eq!(states(&[(50, cpu, lost)]), rest, "{cpu}");
    }
}

#[test]
fn what_a_thread_that_does_not_run_did_between_and_behind_gaps_is_unknown() {
    let lost =
        |at, cpu, to_ns| (at, cpu, TraceKind::Lost(LostEvents { to_ns, ..LostEvents::default() }));
    let asleep = [(10, 0, switch(0, 0, 1)), (20, 0, switch(1, 1, 0)), lost(30, 1, 35)];
    let asleep_until = (30, Some(State::Blocked));
    // It may have been woken in the first gap, have waited, and have run and slept again in the second.
    let events = [&asleep[..], &[(36, 0, waking(2)), lost(40, 2, 45), (50, 0, waking(1))]].concat();
    let unknown = [asleep_until, (45, Some(State::Unknown)), (50, Some(State::Blocked))];
    assert_eq!(states(&built(&events), 1)[2..], unknown);
    // Nothing says that it sleeps, or waits, at the end.
    let mut builder = built(&asleep);
    let id = builder.thread(0, 1).unwrap();
    builder.until(id, 50);
    assert_eq!(states(&builder, 1)[2..], [asleep_until, (50, Some(State::Unknown))]);
}

#[test]
fn a_thread_that_runs_elsewhere_since_wakes_no_one_here() {
    // The switch from 1 to another one on CPU 0 is not there.
    let builder = built(&[
        (10, 0, switch(0, 0, 1)),
        (20, 2, switch(0, 0, 9)),
        (30, 2, switch(9, 1, 0)),
        (40, 1, switch(0, 0, 1)),
        (50, 0, waking(9)),
    ]);
    let worker = builder.graph().get(builder.thread(0, 9).unwrap()).unwrap();
    assert_eq!(worker.points().last().unwrap().link, None);
}

#[test]
fn a_thread_id_that_is_given_again_is_another_worker() {
    let fork = TraceKind::SchedProcessFork {
        parent: task(1),
        parent_pid: 1,
        child: task(2),
        child_pid: 2,
    };
    let builder = built(&[
        (10, 0, switch(0, 0, 1)),
        (20, 0, fork),
        (30, 0, switch(1, 0, 2)),
        (40, 0, switch(2, 64, 1)),
        (50, 0, fork),
        (60, 0, switch(1, 0, 2)),
    ]);
    let who = Who::Thread { machine: 0, tid: 2 };
    assert_eq!(builder.graph().workers().filter(|(_, worker)| worker.who == who).count(), 2);
    assert_eq!(states(&builder, 2), [(50, None), (60, Some(State::Created))]);
}

#[test]
fn ids_that_no_kernel_gives_name_no_worker() {
    let builder = built(&[
        (10, 0, switch(-5, 0, i32::MAX)),
        (20, u32::MAX, switch(0, 0, 1)),
        (30, 0, waking(-1)),
    ]);
    assert_eq!(builder.graph().workers().count(), 2);
}

#[test]
fn a_thread_of_the_state_dump_lives_from_its_first_run_on() {
    let dumped = TraceKind::StatedumpProcess(Dumped { tid: 1, pid: 1, ..Dumped::default() });
    let life = |events: &[(u64, u32, TraceKind<'_>)]| {
        let builder = built(events);
        builder.graph().get(builder.thread(0, 1).unwrap()).unwrap().life()
    };
    let rest = [(10, 0, waking(1)), (20, 0, switch(0, 0, 1)), (30, 0, switch(1, 1, 0))];
    assert_eq!(life(&rest), Some((10, 30)));
    assert_eq!(life(&[&[(5, 0, dumped)], &rest[..]].concat()), Some((20, 30)));
    // It ran before, and waits for a CPU until it runs again.
    let preempted = [(5, 0, dumped), (10, 0, switch(1, 0, 2)), (20, 0, switch(2, 1, 1))];
    assert_eq!(life(&preempted), Some((10, 20)));
}

#[test]
fn the_end_of_the_asked_time_is_a_point() {
    let mut builder = built(&[(10, 0, switch(0, 0, 1)), (20, 0, switch(1, 1, 0))]);
    let id = builder.thread(0, 1).unwrap();
    builder.until(id, 50);
    assert_eq!(states(&builder, 1).last(), Some(&(50, Some(State::Blocked))));
}

#[test]
fn a_thread_that_exits_has_its_time_until_it_leaves_its_cpu() {
    let mut events = vec![
        (10, 0, switch(0, 0, 1)),
        (20, 0, TraceKind::SchedProcessExit(task(1))),
        (30, 0, switch(1, 0, 2)),
        (40, 0, switch(2, 1, 1)),
        (50, 0, switch(1, 64, 0)),
    ];
    let mut last = Vec::new();
    while events.len() > 1 {
        let mut builder = built(&events);
        builder.until(builder.thread(0, 1).unwrap(), 60);
        last.extend(states(&builder, 1).last().copied());
        events.pop();
    }
    let (running, waiting) = (Some(State::Running), Some(State::WaitingCpu));
    assert_eq!(last, [(50, running), (60, running), (60, waiting), (60, running)]);
}

/// Threads that wait for each other in a chain: 1 for 2, 2 for 3 …
fn chain(length: i32) -> Builder {
    let mut builder = Builder::default();
    let mut event = |time_ns: i32, cpu: i32, kind| {
        let (time_ns, cpu) = (u64::try_from(time_ns).unwrap(), u32::try_from(cpu).unwrap());
        builder.follow(&Event { time_ns, cpu, kind });
    };
    for tid in 1..=length {
        event(tid, tid, switch(0, 0, tid));
    }
    for tid in 1..length {
        event(1000 + tid, tid, switch(tid, 1, 0));
    }
    for tid in (1..length).rev() {
        let time = 5000 - 2 * tid;
        event(time, tid + 1, waking(tid));
        event(time + 1, tid, switch(0, 0, tid));
    }
    builder
}

#[test]
fn a_bound_that_cuts_is_named_and_the_path_stays_whole() {
    let builder = chain(20);
    let id = builder.thread(0, 1).unwrap();
    let (from_ns, to_ns) = builder.graph().get(id).unwrap().life().unwrap();
    let path = |bounds| walk(builder.graph(), id, from_ns, to_ns, bounds).unwrap();
    let cut_ns = |bounds| {
        let path = path(bounds);
        assert_eq!(path.fault(id, from_ns, to_ns), None);
        let cuts =
            path.steps.iter().filter(|step| matches!(step, Step::Stay { why: Some(Why::Cut), .. }));
        (path.cut, cuts.map(Step::ns).sum::<u64>(), path.workers().len())
    };
    assert_eq!(cut_ns(Bounds::default()), (0, 0, 20));
    let (cut, ns, workers) = cut_ns(Bounds { depth: 5, ..Bounds::default() });
    assert_eq!((cut, workers), (1, 6));
    assert!(ns > 3000, "{ns}");
    let (cut, ns, _) = cut_ns(Bounds { points: 3, ..Bounds::default() });
    assert!(cut > 0 && ns > 3000, "{cut} {ns}");
}

#[test]
fn memory_does_not_grow_with_events_before_the_asked_time() {
    let mut builder = Builder::default();
    let mut most = 0;
    for round in 0..20_000u64 {
        let time_ns = round * 100;
        for (after, kind) in [
            (0, switch(0, 0, 1)),
            (10, waking(2)),
            (20, switch(1, 1, 2)),
            (30, waking(1)),
            (40, switch(2, 1, 0)),
        ] {
            builder.follow(&Event { time_ns: time_ns + after, cpu: 0, kind });
        }
        if round % 100 == 0 {
            builder.forget_before(time_ns);
            most = most.max(builder.graph().points());
        }
    }
    assert!(most < 20, "{most}");
}

#[test]
fn memory_does_not_grow_with_ids_that_are_given_again() {
    let mut builder = Builder::default();
    let mut most = 0;
    for round in 0..20_000u64 {
        let (time_ns, tid) = (round * 100, 2 + (round % 3) as i32);
        let fork = TraceKind::SchedProcessFork {
            parent: task(1),
            parent_pid: 1,
            child: task(tid),
            child_pid: tid,
        };
        // No event says that the child ends.
        for (after, kind) in [(0, fork), (10, switch(1, 0, tid)), (20, switch(tid, 1, 1))] {
            builder.follow(&Event { time_ns: time_ns + after, cpu: 0, kind });
        }
        if round % 10 == 0 {
            builder.forget_before(time_ns);
            most = most.max(builder.graph().held());
        }
    }
    assert!(most < 200, "{most}");
}

#[test]
fn threads_on_paths_are_known_and_leave_room() {
    let mut builder = Builder::default();
    for number in 0..1_000u64 {
        let (time_ns, tid) = (number * 100, 2 + number as i32);
        let kinds = [(0, switch(1, 1, tid)), (10, waking(1)), (20, switch(tid, 0x20, 1))];
        for (after, kind) in kinds {
            builder.follow(&Event { time_ns: time_ns + after, cpu: 0, kind });
        }
        let id = builder.thread(0, tid).unwrap();
        builder.keep(std::iter::once(id));
        builder.forget_before(time_ns);
        assert!(builder.graph().held() < 100, "{number}");
        assert!(builder.graph().get(id).is_some());
    }
    let first = builder.thread(0, 2).unwrap();
    let worker = builder.graph().get(first).unwrap();
    assert_eq!((worker.who, worker.span()), (Who::Thread { machine: 0, tid: 2 }, None));
}

#[test]
fn a_thread_that_is_woken_on_its_way_to_sleep_waits() {
    let after = |waker_cpu: u32, between: &[(u64, u32, TraceKind<'static>)]| {
        let mut all = vec![
            (10, 0, switch(0, 0, 1)),
            (11, 1, switch(0, 0, 2)),
            (20, waker_cpu, waking(1)),
            (21, 0, switch(1, 1, 0)),
        ];
        all.extend_from_slice(between);
        all.push((40, 3, switch(0, 0, 1)));
        states(&built(&all), 1)[2..].to_vec()
    };
    assert_eq!(after(1, &[]), [(40, Some(State::WaitingCpu))]);
    // It was another sleep that was ended then.
    let asleep = [(30, Some(State::Blocked)), (40, Some(State::WaitingCpu))];
    assert_eq!(after(1, &[(30, 1, waking(1))]), asleep);
    // An interrupt on its own CPU sees it awake; so nothing is known of what wakes it.
    assert_eq!(after(0, &[]), [(40, Some(State::Blocked))]);
    // The wake-up may be among what was lost.
    let lost = TraceKind::Lost(LostEvents::default());
    assert_eq!(after(1, &[(30, 5, lost)]), [(40, Some(State::Blocked))]);
}

#[test]
fn where_wake_ups_are_recorded_late_there_is_no_such_doubt() {
    let mut builder = Builder::new(Waker::Wakeup);
    let woken = TraceKind::SchedWakeup(Woken { task: task(1), target_cpu: 0 });
    for (time_ns, cpu, kind) in [
        (10, 0, switch(0, 0, 1)),
        (20, 1, woken),
        (21, 0, switch(1, 1, 0)),
        (40, 0, switch(0, 0, 1)),
    ] {
        builder.follow(&Event { time_ns, cpu, kind });
    }
    assert_eq!(states(&builder, 1).last(), Some(&(40, Some(State::Blocked))));
}

#[test]
fn repeated_wakings_count_once() {
    let builder = built(&[
        (10, 0, switch(0, 0, 1)),
        (20, 0, switch(1, 1, 0)),
        (30, 1, waking(1)),
        (35, 2, waking(1)),
        (40, 0, switch(0, 0, 1)),
    ]);
    let waits = (40, Some(State::WaitingCpu));
    assert_eq!(states(&builder, 1)[2..], [(30, Some(State::Blocked)), waits]);
}

#[test]
fn an_interrupt_of_another_cpu_is_what_that_cpu_did() {
    let which = noise_common::hooks::Vector::Reschedule;
    let sleep = |send: &dyn Fn(&mut Builder)| {
        let mut builder = built(&[
            (10, 0, switch(0, 0, 1)),
            (11, 1, switch(0, 0, 2)),
            (20, 0, switch(1, 1, 0)),
            (21, 1, TraceKind::SoftirqEntry { vec: 4 }),
        ]);
        send(&mut builder);
        for (time_ns, kind) in [(30, TraceKind::VectorEntry { which, vector: 1 }), (31, waking(1))]
        {
            builder.follow(&Event { time_ns, cpu: 0, kind });
        }
        let id = builder.thread(0, 1).unwrap();
        let point = *builder.graph().get(id).unwrap().points().last().unwrap();
        (point.state, point.link.map(|link| link.time_ns))
    };
    assert_eq!(sleep(&|_| {}), (Some(State::Ipi), None));
    assert_eq!(sleep(&|builder| builder.interrupts(0, 1, 25, 0)), (Some(State::Disk), None));
    assert_eq!(sleep(&|builder| builder.interrupts(0, 1, 25, 7)), (Some(State::Ipi), None));
    // Which of two it was is unknown.
    let twice = |builder: &mut Builder| {
        builder.interrupts(0, 1, 25, 0);
        builder.interrupts(0, 1, 26, 0);
    };
    assert_eq!(sleep(&twice), (Some(State::Ipi), None));
    let by_task = |builder: &mut Builder| {
        builder.follow(&Event { time_ns: 24, cpu: 1, kind: TraceKind::SoftirqExit { vec: 4 } });
        builder.interrupts(0, 1, 25, 0);
    };
    assert_eq!(sleep(&by_task), (Some(State::Blocked), Some(25)));
}

#[test]
fn a_new_thread_without_its_creation_is_not_the_one_that_had_its_id() {
    let new = TraceKind::SchedWakeupNew(Woken { task: task(2), target_cpu: 1 });
    let builder = built(&[
        (5, 1, switch(0, 0, 2)),
        (8, 1, switch(2, 1, 0)),
        (10, 0, switch(0, 0, 1)),
        (20, 0, new),
        (30, 1, switch(0, 0, 2)),
    ]);
    let who = Who::Thread { machine: 0, tid: 2 };
    assert_eq!(builder.graph().workers().filter(|(_, worker)| worker.who == who).count(), 2);
    assert_eq!(states(&builder, 2), [(20, None), (30, Some(State::WaitingCpu))]);
    let id = builder.thread(0, 2).unwrap();
    let first = *builder.graph().get(id).unwrap().points().next().unwrap();
    assert_eq!(first.link.map(|link| link.action), Some(Action::Creates));
}

#[test]
fn who_has_the_id_of_a_dead_thread_is_another_one() {
    let exit = TraceKind::SchedProcessExit(task(1));
    let count = |state, exits: bool| {
        let mut all = vec![(10, 0, switch(0, 0, 1))];
        if exits {
            all.push((15, 0, exit));
        }
        all.extend([(20, 0, switch(1, state, 0)), (50, 0, switch(0, 0, 1))]);
        let builder = built(&all);
        let who = Who::Thread { machine: 0, tid: 1 };
        builder.graph().workers().filter(|(_, worker)| worker.who == who).count()
    };
    // Dead, by the kernel's version; asleep at its end; parked; a sleep that a deadly signal ends.
    for (state, exits, workers) in [
        (64, true, 2),
        (128, true, 2),
        (16, false, 2),
        (2, true, 1),
        (64, false, 1),
        (130, false, 1),
        (130, true, 1),
    ] {
        assert_eq!(count(state, exits), workers, "{state} {exits}");
    }
}

#[test]
fn a_thread_that_runs_another_program_is_the_first_of_its_process() {
    let exec = TraceKind::SchedProcessExec { filename: b"/bin/x", tid: 5, old_tid: 7 };
    let builder = built(&[(10, 0, switch(0, 0, 7)), (20, 0, exec), (30, 0, switch(5, 1, 0))]);
    assert_eq!(states(&builder, 5), [(10, None), (30, Some(State::Running))]);
    assert_eq!(builder.thread(0, 7), None);
}

#[test]
fn whole_blocks_of_threads_that_ended_are_forgotten() {
    let mut builder = built(&[(1, 0, switch(0, 0, 1))]);
    for round in 0..10_000u64 {
        let (time_ns, tid) = (round * 100, 1000 + (round % 5000) as i32);
        let fork = TraceKind::SchedProcessFork {
            parent: task(1),
            parent_pid: 1,
            child: task(tid),
            child_pid: 1,
        };
        for (after, cpu, kind) in
            [(10, 0, fork), (20, 1, switch(0, 0, tid)), (30, 1, switch(tid, 16, 0))]
        {
            builder.follow(&Event { time_ns: time_ns + after, cpu, kind });
        }
        if round % 100 == 0 {
            builder.forget_before(time_ns);
        }
    }
    let there = builder.graph().workers().count();
    assert!(there < 500, "{there}");
    assert!(builder.graph().points() < 1000);
}

#[test]
fn each_recording_has_its_own_event_that_says_who_wakes() {
    let mut builder = Builder::new(Waker::Waking).with_waker(1, Waker::Wakeup);
    let wakeup = |tid| TraceKind::SchedWakeup(Woken { task: task(tid), target_cpu: 0 });
    for (machine, woken) in [(0, waking(9)), (1, wakeup(9))] {
        for (time_ns, cpu, kind) in [
            (10, 1, switch(0, 0, 2)),
            (20, 0, switch(0, 0, 9)),
            (30, 0, switch(9, 1, 0)),
            (40, 1, woken),
        ] {
            builder.follow_on(machine, &Event { time_ns, cpu, kind });
        }
        let worker = builder.graph().get(builder.thread(machine, 9).unwrap()).unwrap();
        let last = worker.points().last().unwrap();
        assert!(last.time_ns == 40 && last.link.is_some(), "{machine}: {last:?}");
    }
}
