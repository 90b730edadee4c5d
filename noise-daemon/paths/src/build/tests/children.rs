//! Waits for children.

use super::*;

const PARENT: i32 = 1;
const CHILD: i32 = 2;

fn waits() -> TraceKind<'static> {
    TraceKind::SchedProcessWait { comm: task(PARENT).comm, child: 0, prio: 0 }
}

/// A thread makes another one of that process, which runs on CPU 1 when the parent sleeps.
fn made(child_pid: i32) -> Vec<(u64, u32, TraceKind<'static>)> {
    let (parent, child) = (task(PARENT), task(CHILD));
    let fork = TraceKind::SchedProcessFork { parent, parent_pid: PARENT, child, child_pid };
    let new = TraceKind::SchedWakeupNew(Woken { task: child, target_cpu: 1 });
    vec![(10, 0, switch(0, 0, PARENT)), (20, 0, fork), (21, 0, new), (25, 1, switch(0, 0, CHILD))]
}

/// The child ends and wakes its parent.
fn ended() -> Vec<(u64, u32, TraceKind<'static>)> {
    vec![
        (100, 1, TraceKind::SchedProcessExit(task(CHILD))),
        (105, 1, waking(PARENT)),
        (106, 1, switch(CHILD, 0x10, 0)),
        (110, 0, switch(0, 0, PARENT)),
        (150, 0, switch(PARENT, 1, 0)),
    ]
}

/// The parent's path: who, from when until when, in which state, and who waits for it.
fn path(
    events: &[Vec<(u64, u32, TraceKind<'static>)>],
) -> Vec<(i32, u64, u64, State, Option<i32>)> {
    let builder = built(&events.concat());
    let tid = |id| match builder.graph().get(id).unwrap().who {
        Who::Thread { tid, .. } => tid,
        other => panic!("{other:?}"),
    };
    let id = builder.thread(0, PARENT).unwrap();
    let path = walk(builder.graph(), id, 10, 150, Bounds::default()).unwrap();
    assert_eq!(path.fault(id, 10, 150), None);
    let stays = path.steps.iter().filter_map(|step| match *step {
        Step::Stay { worker, from_ns, to_ns, state, awaited, .. } => {
            let child = awaited.filter(|awaited| awaited.action == Action::Ends);
            Some((tid(worker), from_ns, to_ns, state, child.map(|awaited| tid(awaited.by))))
        }
        Step::Go { .. } => None,
    });
    stays.collect()
}

#[test]
fn a_wait_for_a_child_is_what_the_child_does() {
    let asleep = vec![(30, 0, waits()), (40, 0, switch(PARENT, 1, 0))];
    let of = |waits| {
        vec![
            (PARENT, 10, 20, State::Running, None),
            (PARENT, 20, 40, State::Running, None),
            (CHILD, 40, 105, State::Running, waits),
            (PARENT, 105, 110, State::WaitingCpu, None),
            (PARENT, 110, 150, State::Running, None),
        ]
    };
    assert_eq!(path(&[made(CHILD), asleep, ended()]), of(Some(PARENT)));
    // It is preempted before it sleeps.
    let preempted = vec![
        (30, 0, waits()),
        (31, 0, switch(PARENT, 0, 0)),
        (32, 0, switch(0, 0, PARENT)),
        (40, 0, switch(PARENT, 1, 0)),
    ];
    let found = path(&[made(CHILD), preempted, ended()]);
    assert_eq!(found[found.len() - 3], (CHILD, 40, 105, State::Running, Some(PARENT)));
}

#[test]
fn what_is_no_wait_for_a_child_is_not_called_so() {
    let sleeps = (40, 0, switch(PARENT, 1, 0));
    let others = |events: &[Vec<(u64, u32, TraceKind<'static>)>]| {
        path(events).into_iter().filter(|part| part.0 == CHILD).collect::<Vec<_>>()
    };
    let plain = [(CHILD, 40, 105, State::Running, None)];
    // It does not wait, or the child does not end.
    assert_eq!(others(&[made(CHILD), vec![sleeps], ended()]), plain);
    let lives = ended().split_off(1);
    assert_eq!(others(&[made(CHILD), vec![(30, 0, waits()), sleeps], lives]), plain);
    // A thread of its own process ends.
    assert_eq!(others(&[made(PARENT), vec![(30, 0, waits()), sleeps], ended()]), plain);
    // That wait is over: another one woke it, and it sleeps again.
    let woken = vec![
        (26, 0, waits()),
        (30, 0, switch(PARENT, 1, 0)),
        (32, 2, switch(0, 0, 9)),
        (34, 2, waking(PARENT)),
        (36, 0, switch(0, 0, PARENT)),
        sleeps,
    ];
    assert_eq!(others(&[made(CHILD), woken, ended()]), plain);
    // The call is over.
    let called = vec![(28, 0, waits()), (30, 0, call("syscall_exit_wait4")), sleeps];
    assert_eq!(others(&[made(CHILD), called, ended()]), plain);
}
