//! Who a client is, as far as limits are concerned.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
            // A user of this host has all of 127.0.0.0/8.
            address if address.is_loopback() => Ipv4Addr::LOCALHOST.into(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_one_host_are_one_client() {
        let at = |address: &str| Peer::at(address.parse().unwrap());
        for own in ["127.0.0.2", "127.255.255.254", "::1", "::ffff:127.0.0.1", "::ffff:127.9.9.9"] {
            assert_eq!(at(own), at("127.0.0.1"), "{own}");
        }
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:2"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
        for (one, other) in [
            ("10.0.0.1", "10.0.0.2"),
            ("128.0.0.1", "127.0.0.1"),
            ("2001:db8::1", "2001:db8:0:1::1"),
            ("::2", "::1"),
        ] {
            assert_ne!(at(one), at(other));
        }
    }
}
