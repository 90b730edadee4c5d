//! What each act of communication is.

use super::persons::ThreadId;
use super::{Follower, HalfConnection, MAX_CONNECTS};
use crate::channels::Way;
use crate::input::{Act, Endpoint};
use crate::marker::{Marker, MarkerRule};
use crate::slices::Edge;

impl Follower {
    pub(super) fn act(&mut self, thread: ThreadId, now_ns: u64, act: &Act) {
        match act {
            Act::Connected(end) => self.connected(thread, now_ns, end),
            Act::Accepted(end) => self.accepted(thread, now_ns, end),
            Act::Sent(end, bytes) => self.sent(thread, now_ns, end, *bytes),
            Act::Received(end, bytes) => self.received(thread, now_ns, end, *bytes),
            Act::Closed(end) => self.closed(thread, now_ns, end),
            Act::Made(local) => {
                let machine = self.persons.machine(thread);
                self.channels.begin(Way::Local(machine, *local), self.losses);
            }
            Act::Opened(end) => {
                if end.out != 0 {
                    self.channels.begin(Way::Flow(end.out), self.losses);
                }
            }
            Act::Paired(one, other) => {
                for end in [one, other] {
                    self.fresh(end);
                }
            }
            Act::Put(local, length) => self.put(thread, now_ns, *local, *length),
            Act::Got(local, length) => self.got(thread, now_ns, *local, *length),
            Act::Posted(local) => self.posted(thread, now_ns, *local),
            Act::Taken(local, much) => self.took(thread, now_ns, *local, *much),
            Act::Reaped(child) => self.reaped(thread, now_ns, *child),
        }
    }

    /// Nothing was sent on it yet.
    fn fresh(&mut self, end: &Endpoint) {
        for flow in [end.out, end.into].into_iter().filter(|flow| *flow != 0) {
            self.channels.begin(Way::Flow(flow), self.losses);
        }
    }

    fn connected(&mut self, thread: ThreadId, now_ns: u64, end: &Endpoint) {
        self.fresh(end);
        let Some(person) = self.persons.get(thread) else { return };
        let from = person.mark_entry(now_ns);
        let since_ns = from.at_ns;
        let cause = self.current(thread);
        let marker = Marker::Connect(end.protocol.into());
        let Some((life, key)) = self.begin_life(thread, end, marker, from) else { return };
        if let Some(cause) = cause {
            self.store.edge(Edge::of_thread(cause, life, key, since_ns));
            self.made_for(thread, end, cause);
        }
        self.meet(end.out, HalfConnection { life, at_ns: since_ns, key, connects: true });
    }

    fn accepted(&mut self, thread: ThreadId, now_ns: u64, end: &Endpoint) {
        let Some(person) = self.persons.get(thread) else { return };
        let from = person.mark(now_ns, false);
        let marker = Marker::Accept(end.protocol.into());
        let Some((life, key)) = self.begin_life(thread, end, marker, from) else { return };
        self.meet(end.into, HalfConnection { life, at_ns: now_ns, key, connects: false });
    }

    /// The two sides of a connection, in whatever order they come.
    fn meet(&mut self, flow: u64, side: HalfConnection) {
        if flow == 0 {
            return;
        }
        let other = self.connects.remove(&flow);
        let both = other.map(|other| if side.connects { (side, other) } else { (other, side) });
        // Addresses come again: what is known of a connection before, whose other side was not seen, is not of this one.
        let Some((from, to)) = both.filter(|(from, to)| self.may_meet(from, to)) else {
            self.connects.insert(flow, side);
            if other.is_none() {
                self.connect_order.push_back(flow);
            }
            if self.connect_order.len() > MAX_CONNECTS
                && let Some(oldest) = self.connect_order.pop_front()
            {
                self.connects.remove(&oldest);
            }
            return;
        };
        let [one, other] = [from, to].map(|side| (side.life, side.at_ns));
        self.store
            .edge(Edge { opens: true, ..Edge::new(MarkerRule::Connection, one, other, to.key) });
    }

    fn may_meet(&self, from: &HalfConnection, to: &HalfConnection) -> bool {
        let accepted = self.store.get(to.life);
        let was_over =
            accepted.is_some_and(|life| !self.store.is_open(to.life) && life.to_ns < from.at_ns);
        from.connects && !to.connects && !was_over
    }
}
