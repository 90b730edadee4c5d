//! Switches, wake-ups, creation and end of threads, and lost events.

use super::persons::{ThreadId, WakeInCall};
use super::{Follower, MAX_CHAIN};
use crate::channels::Way;
use crate::counts::Missing;
use crate::input::{ChannelObject, Input, Local, Purpose};
use crate::marker::{Marker, MarkerRule};
use crate::slices::{Edge, Ended, NONE, SliceId};

impl Follower {
    pub(super) fn switch(&mut self, input: &Input<'_>, prev: i32, sleeps: bool, next: i32) {
        let &Input { time_ns: now_ns, machine, .. } = input;
        if let Some(thread) = self.persons.place(machine, prev) {
            if let Some(missing) = self.persons.leaves(input, thread) {
                self.give_up(thread, missing);
            }
            if let Some(person) = self.persons.get_mut(thread) {
                person.off_ns = Some(now_ns);
            }
            if sleeps {
                self.sleeps(thread, now_ns);
            }
        }
        let next = self.persons.place(machine, next);
        let missing = self.persons.comes(input, next);
        let Some(thread) = next else { return };
        if let Some(missing) = missing {
            self.give_up(thread, missing);
        }
        let Some(person) = self.persons.get_mut(thread) else { return };
        if let Some(off_ns) = person.off_ns.take() {
            person.idle.add(now_ns.saturating_sub(off_ns));
        }
        if person.is_kernel
            && person.wakeup.is_none()
            && let Some(woken) = person.woken.take()
        {
            let mark = person.mark(now_ns, true);
            let tid = person.tid;
            let key = self.store.thread(tid);
            let id = self.store.open(Marker::Wakeup, thread, key, now_ns);
            if let Some(person) = self.persons.get_mut(thread) {
                person.wakeup = Some((id, mark));
                person.current = Some(id);
            }
            self.store.edge(Edge {
                opens: true,
                woke: true,
                ..Edge::new(MarkerRule::Waking, (woken.slice, woken.at_ns), (id, now_ns), key)
            });
        }
    }

    /// A thread sleeps: what it did last before a call in which it waits for others bounds its slices.
    fn sleeps(&mut self, thread: ThreadId, now_ns: u64) {
        let Some(person) = self.persons.get_mut(thread) else { return };
        if let Some((id, from)) = person.wakeup.take() {
            let to = person.mark(now_ns, true);
            person.current = None;
            self.close(thread, id, Ended::Explicit, &from, &to);
            return;
        }
        let machine = person.machine;
        let Some(call) = &mut person.call else { return };
        call.slept = true;
        if !call.purpose.is_boundary() {
            return;
        }
        let (purpose, object) = (call.purpose, call.object);
        if matches!(purpose, Purpose::Poll | Purpose::Loop) {
            self.rests(thread);
        }
        let Some(person) = self.persons.get_mut(thread) else { return };
        if let (Purpose::Receive, Some(ChannelObject::Local(local)), Some(begins)) =
            (purpose, object, person.begins)
            && self.store.local(machine, local) == begins
        {
            self.stint_ends(thread);
        }
        let Some(person) = self.persons.get_mut(thread) else { return };
        let mark = person.mark_entry(now_ns);
        let fresh = std::mem::take(&mut person.fresh);
        for place in fresh {
            self.ends.bound(place, thread, &mark);
        }
        let Some(person) = self.persons.get_mut(thread) else { return };
        for implicit in &mut person.implicit {
            implicit.bound.get_or_insert_with(|| mark.clone());
        }
        // What was under way when events were lost is over, as far as that can be known.
        person.is_unsure &= purpose != Purpose::Loop && person.begins.is_some();
        let is_over = match self.current(thread) {
            None => true,
            // Of connections alone it goes on with what is not answered.
            Some(slice) => {
                self.store.is_answered(slice)
                    || self.store.get(slice).is_none_or(|slice| {
                        !matches!(slice.marker, Marker::Receive(_) | Marker::Send(_))
                    })
            }
        };
        if (is_over || purpose == Purpose::Loop)
            && let Some(person) = self.persons.get_mut(thread)
        {
            person.current = None;
        }
        if purpose == Purpose::Receive {
            let way = match object {
                Some(ChannelObject::End(end)) if end.into != 0 => Some(Way::Flow(end.into)),
                Some(ChannelObject::Local(local @ Local::Pipe { .. })) => {
                    Some(Way::Local(machine, local))
                }
                _ => None,
            };
            if let Some(way) = way {
                self.channels.is_empty_now(way, self.losses);
            }
        }
    }

    pub(super) fn waking(&mut self, input: &Input<'_>, tid: i32, in_task: bool) {
        let &Input { time_ns: now_ns, machine, cpu, .. } = input;
        let Some(waker) = self.persons.current(machine, cpu) else { return };
        let Some(thread) = self.persons.place(machine, tid) else { return };
        if waker == thread {
            return;
        }
        let (Some(by), Some(of)) = (self.persons.get(waker), self.persons.get(thread)) else {
            return;
        };
        if of.is_kernel {
            // Softirqs that go on in threads are of no one.
            let is_asked =
                in_task && by.call.is_some() && !of.comm.bytes().starts_with(b"ksoftirqd/");
            if let Some(slice) = self.current(waker).filter(|_| is_asked) {
                let woken = WakeInCall { thread: waker, slice, at_ns: now_ns, by_exit: false };
                if let Some(person) = self.persons.get_mut(thread) {
                    person.woken = Some(woken);
                }
            }
            return;
        }
        if let Some((id, _)) = by.wakeup.as_ref().filter(|_| in_task) {
            let (id, key) = (*id, self.store.get(*id).map_or(0, |slice| slice.key));
            if let Some(slice) = self.returns_to(thread, id) {
                self.store.edge(Edge {
                    woke: true,
                    ..Edge::new(MarkerRule::Waking, (id, now_ns), (slice, now_ns), key)
                });
            }
            return;
        }
        let Some(waits) = of.call.as_ref().filter(|call| call.slept) else { return };
        let by_exit = by.has_ended || by.call.is_some_and(|call| call.purpose == Purpose::Exit);
        let of_child =
            matches!(waits.object, Some(ChannelObject::Local(Local::Child | Local::Futex { .. })));
        let same = by.call.as_ref().and_then(|call| {
            let (one, other) = (call.object?, waits.object?);
            is_same(&one, &other).then_some(one)
        });
        let slice = match same {
            Some(ChannelObject::Local(local)) if local_wakes(local) => {
                self.work_on(waker, now_ns, local).unwrap_or(NONE)
            }
            Some(_) => self.current(waker).unwrap_or(NONE),
            None if by_exit && of_child => by.process.as_ref().map_or(NONE, |(id, _)| *id),
            None => return,
        };
        let woken = WakeInCall { thread: waker, slice, at_ns: now_ns, by_exit: same.is_none() };
        if let Some(person) = self.persons.get_mut(thread) {
            person.woken = Some(woken);
        }
    }

    pub(super) fn created(&mut self, input: &Input<'_>, parent: i32, child: i32, pid: i32) {
        let &Input { time_ns: now_ns, machine, .. } = input;
        let maker = self.persons.place(machine, parent);
        let current = maker.and_then(|maker| self.current(maker));
        let is_hired = current.is_some_and(|cause| self.is_for_request(cause));
        let process = || self.persons.get(maker?)?.process.as_ref().map(|(id, _)| *id);
        let cause = current.or_else(|| self.open(process())).unwrap_or(NONE);
        let maker = maker.and_then(|maker| self.persons.get(maker));
        let (comm, of) = (maker.map(|maker| maker.comm), maker.map(|maker| maker.process_id()));
        let Some(thread) = self.persons.create(machine, child) else { return };
        let key = self.store.thread(child);
        let id = self.store.open(Marker::Process, thread, key, now_ns);
        if let Some(person) = self.persons.get_mut(thread) {
            person.comm = comm.unwrap_or_default();
            person.pid = pid;
            person.parent = of;
            // All threads of the kernel are made by one of its first.
            person.is_kernel = parent == KTHREADD;
            person.process = Some((id, person.mark(now_ns, true)));
            person.current = is_hired.then_some(id);
        }
        self.store.edge(Edge {
            opens: true,
            ..Edge::new(MarkerRule::Clone, (cause, now_ns), (id, now_ns), key)
        });
    }

    /// Whether a slice was caused by a request that a thread received, or is one. A process that no request made may make
    /// many requests itself, which are apart.
    pub(super) fn is_for_request(&self, slice: SliceId) -> bool {
        let mut slice = slice;
        for _ in 0..MAX_CHAIN {
            match self.store.get(slice) {
                None => return false,
                Some(found) if matches!(found.marker, Marker::Receive(_)) => return true,
                Some(found) => slice = self.store.whole(found.cause),
            }
        }
        false
    }

    /// Whether a thread may go on with a slice.
    pub(super) fn is_work(&self, slice: SliceId) -> bool {
        let is_process = self.store.get(slice).is_some_and(|found| found.marker == Marker::Process);
        !is_process || self.is_for_request(slice)
    }

    pub(super) fn exited(&mut self, input: &Input<'_>, tid: i32) {
        let &Input { time_ns: now_ns, machine, .. } = input;
        let Some(thread) = self.persons.find(machine, tid) else { return };
        let Some(person) = self.persons.get_mut(thread) else { return };
        person.has_ended = true;
        let mark = person.mark(now_ns, true);
        let ends: Vec<u32> = person.ends.drain().collect();
        let process = person.process.clone();
        for place in ends {
            self.leave_end(place, thread, &mark);
        }
        if let Some(person) = self.persons.get_mut(thread) {
            for implicit in &mut person.implicit {
                implicit.bound.get_or_insert_with(|| mark.clone());
            }
        }
        self.end_implicit(thread, |_| true);
        if let Some((id, from)) = process
            && self.store.is_open(id)
        {
            self.close(thread, id, Ended::Explicit, &from, &mark);
        }
    }

    pub(super) fn lost(&mut self, input: &Input<'_>, until_ns: u64) {
        self.losses = self.losses.wrapping_add(1);
        self.persons.lost(input, until_ns);
    }

    /// What waits, and what channels hold, is not known any more; who runs is.
    pub(super) fn unseen(&mut self, input: &Input<'_>) {
        self.losses = self.losses.wrapping_add(1);
        self.persons.unseen(input.machine);
    }

    /// Events of a thread may be missing: what it was in is given up.
    pub(super) fn give_up(&mut self, thread: ThreadId, missing: Missing) {
        self.leaves(thread);
        let Some(person) = self.persons.get_mut(thread) else { return };
        person.current = None;
        person.is_unsure = true;
        person.woken = None;
        person.off_ns = None;
        person.fresh.clear();
        person.stints.lose();
        let implicit = std::mem::take(&mut person.implicit);

        let wakeup = person.wakeup.take().map(|(id, _)| id);
        let ends: Vec<u32> = person.ends.drain().collect();
        for id in implicit.into_iter().map(|implicit| implicit.id).chain(wakeup) {
            self.store.drop(id);
            self.counts.give_up(missing);
        }
        for place in ends {
            self.lose_end(place, thread, missing);
        }
        self.lose_turns(thread);
    }

    /// The recording ends: what has its begin alone is no slice.
    pub(super) fn end_all(&mut self) {
        self.end_ends();
        for thread in self.persons.ids() {
            self.end_implicit(thread, |_| true);
            let Some(person) = self.persons.get_mut(thread) else { continue };
            let others = [person.process.take(), person.wakeup.take()];
            for (id, _) in others.into_iter().flatten() {
                self.drop_unfinished(id);
            }
        }
    }

    pub(super) fn drop_unfinished(&mut self, id: SliceId) {
        if self.store.is_open(id) {
            self.store.drop(id);
            self.counts.unfinished += 1;
        }
    }
}

/// The thread that makes all threads of the kernel.
const KTHREADD: i32 = 2;

/// Whether what wakes others by it is work of its own, also where the thread worked on nothing.
const fn local_wakes(local: Local) -> bool {
    !matches!(local, Local::Child)
}

/// Whether both are the same thing, or both ends of one connection.
fn is_same(one: &ChannelObject, other: &ChannelObject) -> bool {
    match (one, other) {
        (ChannelObject::End(one), ChannelObject::End(other)) => {
            one.out != 0 && one.out == other.into
        }
        (ChannelObject::Local(one), ChannelObject::Local(other)) => one == other,
        _ => false,
    }
}
