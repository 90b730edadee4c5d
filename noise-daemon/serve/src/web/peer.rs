//! Who a client is, as far as limits are concerned.

use std::net::{IpAddr, Ipv6Addr};

use nix::unistd::geteuid;

/// A client, as far as limits are concerned: an address, or the network that one host may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    Address(IpAddr),
    /// A user of this host who comes over loopback from that address; each has all addresses of 127.0.0.0/8. Without a
    /// user, one that had gone before it was asked who it was, or all of them where the kernel may not be asked.
    Host(Option<u32>, IpAddr),
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

    /// The address that it comes from; none on the local socket.
    pub const fn address(self) -> Option<IpAddr> {
        match self {
            Self::Address(address) | Self::Host(_, address) => Some(address),
            Self::User(_) => None,
        }
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
