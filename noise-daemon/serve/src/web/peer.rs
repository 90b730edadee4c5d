//! Who a client is, as far as limits are concerned.

use std::net::{IpAddr, Ipv6Addr};

use nix::unistd::geteuid;

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

    /// Whether it is root, or the user of the daemon: whatever others do, these look at what goes on.
    pub fn is_trusted(self) -> bool {
        matches!(self, Self::User(Some(user)) if user == 0 || user == geteuid().as_raw())
    }
}
