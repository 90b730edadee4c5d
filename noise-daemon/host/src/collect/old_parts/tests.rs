//! What is charged where there are no events, too few, or too many waits.

use noise_common::header::Header;
use noise_common::ledger::Forgotten;
use noise_common::record::RecordKind;
use noise_common::signals::Signal;
use noise_common::store::StoredEvent;
use noise_common::store::event::Body;

use super::*;

/// Charges by cause and culprit.
#[derive(Default)]
struct Sums(BTreeMap<(u64, u8, u64), u64>);

impl Charging for Sums {
    fn charge(&mut self, key: ChargeKey, ns: u64) {
        assert!(ns > 0 && key.resource == Resource::Cpu as u8 && key.used == 1);
        *self.0.entry((key.victim, key.cause, key.culprit)).or_default() += ns;
    }
}

fn record(cpu: u32, victim: u64, since_ns: u64, end_ns: u64) -> OldPart {
    let header = Header::new(RecordKind::OldPart, Signal::RunqueueWait as u32, cpu);
    let part = Forgotten { since_ns, end_ns, left_ns: end_ns - since_ns };
    OldPart { header, victim, pid: 5, padding: 0, part }
}

pub(super) fn switch(tid: u32, at_ns: u64) -> StoredEvent {
    Body::switch((9, 120), 0, true, (tid, 120), at_ns).stored(0)
}

/// Old parts with the turns of two threads on CPU 1.
fn known() -> OldParts {
    let mut old_parts = OldParts::new(None);
    let mut cpu = Follower::default();
    cpu.wanted_ns = 1_000;
    for (tid, at_ns) in [(5, 100), (6, 200), (5, 300), (7, 400)] {
        cpu.history.follow(&switch(tid, at_ns), &mut old_parts.culprits);
    }
    old_parts.cpus.insert(1, cpu);
    old_parts
}

const UNSEEN: fn(u32) -> Option<TaskSubject> = |_| None;
const UNTRACKED: u8 = Cause::Untracked as u8;

#[test]
fn without_events_all_of_it_is_untracked() {
    let (states, mut sums) = (CpuStates::unused(2), Sums::default());
    let mut old_parts = OldParts::new(None);
    old_parts.take(record(1, 77, 100, 400));
    old_parts.divide(false, &states, 500, UNSEEN, &mut sums);
    old_parts.take(record(9, 77, 100, 150));
    old_parts.divide(true, &states, 500, UNSEEN, &mut sums);
    assert_eq!(sums.0, BTreeMap::from([((77, UNTRACKED, 0), 350)]));
    assert_eq!(old_parts.undivided(), 2);
    // Some time after the last of them there is nothing left.
    old_parts.divide(true, &states, 500 + FOLLOWED_NS, UNSEEN, &mut sums);
    assert!(old_parts.cpus.is_empty());
}

#[test]
fn threads_are_known_by_their_waits_and_by_being_looked_up() {
    let (states, mut sums) = (CpuStates::unused(2), Sums::default());
    let mut old_parts = known();
    old_parts.take(record(1, 77, 100, 400));
    let look_up = |tid| (tid == 6).then_some(TaskSubject::Of(88));
    old_parts.divide(true, &states, 1_000, look_up, &mut sums);
    let expected = [((77, Cause::Own as u8, 77), 200), ((77, Cause::Foreign as u8, 88), 100)];
    assert_eq!((sums.0, old_parts.undivided()), (BTreeMap::from(expected), 0));
}

#[test]
fn a_kernel_thread_is_its_own_culprit_and_an_unknown_one_none() {
    let (states, mut sums) = (CpuStates::unused(2), Sums::default());
    let mut old_parts = known();
    old_parts.take(OldPart { pid: 8, ..record(1, 77, 150, 300) });
    let look_up = |tid| (tid == 6).then_some(TaskSubject::Kernel);
    old_parts.divide(true, &states, 1_000, look_up, &mut sums);
    let expected = [((77, Cause::Kthread as u8, 6), 100), ((77, UNTRACKED, 0), 50)];
    assert_eq!((sums.0, old_parts.undivided()), (BTreeMap::from(expected), 1));
}

#[test]
fn waits_beyond_the_budget_are_untracked_until_the_next_window() {
    let (states, mut sums) = (CpuStates::unused(2), Sums::default());
    let mut old_parts = known();
    let all = MOST_PARTS as u64 + 10;
    for _ in 0..all {
        old_parts.take(record(1, 77, 100, 200));
    }
    let now_ns = WINDOW_NS + 1_000;
    old_parts.divide(true, &states, now_ns, UNSEEN, &mut sums);
    let own = (77, Cause::Own as u8, 77);
    assert_eq!((sums.0[&own], sums.0[&(77, UNTRACKED, 0)]), (100 * (all - 10), 1_000));
    assert_eq!(old_parts.undivided(), 10);
    old_parts.take(record(1, 77, 100, 200));
    old_parts.divide(true, &states, now_ns + 1, UNSEEN, &mut sums);
    assert_eq!(sums.0[&(77, UNTRACKED, 0)], 1_100);
    old_parts.take(record(1, 77, 100, 200));
    old_parts.divide(true, &states, now_ns + WINDOW_NS, UNSEEN, &mut sums);
    assert_eq!(sums.0[&own], 100 * (all - 9));
}

#[test]
fn what_was_read_while_events_were_off_is_not_believed() {
    let (states, mut sums) = (CpuStates::unused(2), Sums::default());
    let mut old_parts = known();
    old_parts.begin_anew(500);
    old_parts.take(record(1, 77, 100, 400));
    old_parts.divide(true, &states, 1_000, UNSEEN, &mut sums);
    assert_eq!(sums.0, BTreeMap::from([((77, UNTRACKED, 0), 300)]));
}

#[test]
fn memory_is_bounded_whatever_a_cpu_has() {
    let mut old_parts = OldParts::new(None);
    // One without turns, one with the oldest of all, and one with many.
    for (cpu, turns) in [(0, 0..0), (1, 1..2), (2, 10..600_000)] {
        let mut follower = Follower::default();
        for at_ns in turns {
            follower.history.follow(&switch(at_ns as u32 % 5, at_ns), &mut old_parts.culprits);
        }
        old_parts.cpus.insert(cpu, follower);
    }
    let bytes = |all: &OldParts| all.cpus.values().map(|cpu| cpu.history.bytes()).sum::<usize>();
    assert!(bytes(&old_parts) > MOST_TURN_BYTES);
    old_parts.forget_oldest();
    assert!(bytes(&old_parts) <= MOST_TURN_BYTES);
    let since_ns = old_parts.cpus[&2].history.since_ns();
    assert!(since_ns > Some(10) && since_ns < Some(400_000), "{since_ns:?}");
}
