//! What is known of a connection before anything is sent on it: which side serves where it was there before the recording,
//! and what it was connected for.

use super::ConnectionRole;
use crate::follow::Follower;
use crate::follow::persons::ThreadId;
use crate::input::{Endpoint, Protocol};
use crate::marker::Marker;
use crate::slices::SliceId;

/// Ports from this one on are given to those who connect, unless `ip_local_port_range` says otherwise.
const FIRST_GIVEN: u16 = 32_768;

impl Follower {
    /// What an end is of a connection that was there before. Of TCP, the side whose port someone listens on serves;
    /// where that is not recorded, the one whose port is not of those that the kernel gives to those who connect. Of
    /// unix sockets, the one that is bound.
    pub(super) fn role_before(&self, end: &Endpoint) -> Option<ConnectionRole> {
        let side = |one: bool, other: bool| match (one, other) {
            (true, false) => Some(ConnectionRole::Serves),
            (false, true) => Some(ConnectionRole::Asks),
            _ => None,
        };
        match end.protocol {
            Protocol::Tcp => {
                let (local, remote) = (end.local?.port(), end.remote?.port());
                let listens = |port| self.listening.contains(&port);
                side(listens(local), listens(remote))
                    .or_else(|| side(local < FIRST_GIVEN, remote < FIRST_GIVEN))
            }
            Protocol::UnixStream => {
                side(self.bound.contains(&end.out), self.bound.contains(&end.into))
            }
            _ => None,
        }
    }

    /// A thread connected for a slice. One that is not of a request may be of anything that came before.
    pub(in crate::follow) fn made_for(&mut self, thread: ThreadId, end: &Endpoint, slice: SliceId) {
        let machine = self.persons.machine(thread);
        let found = self.store.get(self.store.whole(slice));
        if found.is_some_and(|found| matches!(found.marker, Marker::Receive(_)))
            && let Some(place) = self.ends.find(machine, end)
            && let Some(connection) = self.ends.get_mut(place)
        {
            connection.made_for = Some(slice);
        }
    }

    /// What is sent first on a connection belongs to what the thread connected it for, if that goes on.
    pub(super) fn begins_with(&mut self, place: u32, thread: ThreadId) -> Option<SliceId> {
        let made_for = self.ends.get_mut(place).and_then(|connection| connection.made_for.take());
        let slice = self.open(made_for)?;
        let is_its = self.store.get(slice).is_some_and(|found| found.thread == thread);
        let person = self.persons.get_mut(thread).filter(|_| is_its)?;
        person.current = Some(slice);
        Some(slice)
    }
}
