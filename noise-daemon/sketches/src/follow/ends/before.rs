//! Connections that were there before a recording: which side serves.

use super::Role;
use crate::follow::Follower;
use crate::input::{End, Protocol};

/// Ports from this one on are given to those who connect, unless `ip_local_port_range` says otherwise.
const FIRST_GIVEN: u16 = 32_768;

impl Follower {
    /// What an end is of a connection that was there before. Of TCP, the side whose port someone listens on serves; where that
    /// is not recorded, the one whose port is not of those that the kernel gives to those who connect. Of unix sockets, the one
    /// that is bound.
    pub(super) fn role_before(&self, end: &End) -> Option<Role> {
        let side = |one: bool, other: bool| match (one, other) {
            (true, false) => Some(Role::Serves),
            (false, true) => Some(Role::Asks),
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
}
