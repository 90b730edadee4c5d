//! Who ended sleeps, and what of them is known beside that.

use std::collections::BTreeMap;

use super::ASLEEP;
use crate::delayed_ack::DelayedNs;
use crate::graph::{Graph, LinkOrigin, Who, WorkerId};
use crate::held::Sleep;
use crate::state::State;

/// How long threads slept until a thread woke them (locks among that), or sent them a packet, ns, by the id of that one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Enders {
    pub wakers: BTreeMap<i32, u64>,
    pub senders: BTreeMap<i32, u64>,
    /// How long a thread slept uninterruptibly until a timer, by its id: the kernel held it back, and its program did not
    /// ask for that. So it does with who writes to files faster than a disk takes it, and with who is above a limit of
    /// memory.
    pub held_back: BTreeMap<i32, u64>,
    /// How long a thread slept uninterruptibly until another one woke it, by both of their ids.
    pub uninterruptible: BTreeMap<(i32, i32), u64>,
    /// How long a thread has slept uninterruptibly that nothing has woken yet, by its id; only of sleeps whose begin was seen.
    pub unwoken: BTreeMap<i32, u64>,
    /// Each sleep without a waker.
    pub alone: Vec<Alone>,
    /// What of this was waiting for packets that were held back until a late acknowledgement.
    pub delayed: DelayedNs,
    /// Each sleep until a thread woke the sleeper.
    pub(super) sleeps: Vec<Sleep>,
    /// The uninterruptible ones until a thread of the same process did: only the kernel's own locks are waited for so.
    pub(super) in_kernel: Vec<Sleep>,
    /// Each until a thread's packet came.
    pub(super) sent: Vec<Sleep>,
}

/// A sleep that a timer ended, or that goes on; no uninterruptible one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alone {
    pub tid: i32,
    /// When it fell asleep, which may be before the first of the two times.
    pub since_ns: u64,
    /// The part between them begins then,
    pub from_ns: u64,
    pub to_ns: u64,
    /// Whether a timer ended it.
    pub is_over: bool,
}

impl Enders {
    pub(super) fn add(
        &mut self,
        graph: &Graph,
        state: &str,
        link: Option<LinkOrigin>,
        slept: Slept,
    ) {
        if state == State::Timer.name() && slept.is_uninterruptible {
            let sum = self.held_back.entry(slept.tid).or_default();
            *sum = sum.saturating_add(slept.to_ns.saturating_sub(slept.from_ns));
            return;
        }
        let Slept { worker, tid, since_ns, from_ns, to_ns, is_uninterruptible, is_open } = slept;
        if is_open && is_uninterruptible {
            let sum = self.unwoken.entry(tid).or_default();
            *sum = sum.saturating_add(to_ns.saturating_sub(from_ns));
        }
        if [State::Timer.name(), ASLEEP].contains(&state) {
            self.alone.push(Alone { tid, since_ns, from_ns, to_ns, is_over: state != ASLEEP });
        }
        let from = link.and_then(|link| graph.get(link.from.worker));
        let Some(Who::Thread { tid: ender, .. }) = from.map(|worker| worker.who) else { return };
        let pid = graph.get(worker).map(|worker| worker.pid).filter(|pid| *pid > 0);
        let is_in_kernel = is_uninterruptible && pid.is_some() && from.map(|from| from.pid) == pid;
        let (sleeps, map) = match state {
            "task" | "futex" if is_in_kernel => (&mut self.in_kernel, &mut self.wakers),
            "task" | "futex" => (&mut self.sleeps, &mut self.wakers),
            "network" => (&mut self.sent, &mut self.senders),
            _ => return,
        };
        sleeps.push(Sleep { worker, tid, from_ns, to_ns, waker: ender });
        if is_uninterruptible && state != State::Network.name() {
            let sum = self.uninterruptible.entry((tid, ender)).or_default();
            *sum = sum.saturating_add(to_ns.saturating_sub(from_ns));
        }
        let sum = map.entry(ender).or_default();
        *sum = sum.saturating_add(to_ns.saturating_sub(from_ns));
    }
}

/// A sleep, and whose it was.
pub(super) struct Slept {
    pub(super) worker: WorkerId,
    pub(super) tid: i32,
    pub(super) since_ns: u64,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) is_uninterruptible: bool,
    /// Whether nothing has ended it yet.
    pub(super) is_open: bool,
}
