//! PURE: who a client is, as far as limits are concerned.

use std::net::{IpAddr, Ipv6Addr};

/// A client, as far as limits are concerned: an address, or the network that one host may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    Address(IpAddr),
    /// On the local socket: the user, where that is known.
    User(Option<u32>),
}

impl Peer {
    pub fn at(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
            }
            address => address,
        })
    }

    /// Whether it is on the local socket.
    pub fn is_local(self) -> bool {
        matches!(self, Self::User(_))
    }
}
