//! Packets, and the interfaces that they go through.

use noise_common::charge::UNKNOWN;

use super::{
    Access, Address, CGROUP_KN, DEV_IFINDEX, DEV_NET, DST_DEV, HOST_NETNS, KN_ID, NET_INUM,
    Pointer, SKB_DEV, SKB_LEN, SKB_SK, SOCK_CGROUP, SOCK_DST, SOCK_STATE, present,
};

/// States of the kernel's `net/tcp_states.h` that have no whole socket.
const TCP_TIME_WAIT: u8 = 6;
const TCP_NEW_SYN_RECV: u8 = 12;

#[derive(Clone, Copy)]
pub struct Device<A> {
    access: A,
    at: Pointer,
}

impl<A: Access> Device<A> {
    /// The device that is the `index`th argument.
    #[inline(always)]
    pub fn argument(access: A, index: usize) -> Self {
        Self { access, at: access.pointer(index) }
    }

    /// The device on the route of the socket that is the `index`th argument, if it has one.
    #[inline(always)]
    pub fn of_socket(access: A, index: usize) -> Self {
        let route: Address = access.load(access.pointer(index), SOCK_DST.load());
        let at: Address = access.follow(route, DST_DEV.load());
        Self { access, at: at.0 }
    }

    /// The interface, as its numbers.
    #[inline(always)]
    pub fn interface(self) -> Interface {
        let (access, device) = (self.access, Address(self.at));
        let net: Address = access.follow(device, DEV_NET.load());
        let netns = access.follow(net, NET_INUM.load());
        Interface { index: access.follow(device, DEV_IFINDEX.load()), netns }
    }
}

/// An interface, as far as events and signals know it: read once for both.
#[derive(Clone, Copy)]
pub struct Interface {
    pub index: u32,
    /// The number of its namespace.
    pub netns: u32,
}

impl Interface {
    /// The interface as the subject of a signal.
    #[inline(always)]
    pub fn subject(self) -> u64 {
        noise_common::signals::interface_subject(self.index, self.netns, HOST_NETNS.load())
    }

    /// A number that no other interface of this host has, in whatever namespace.
    #[inline(always)]
    pub fn identity(self) -> u64 {
        u64::from(self.netns) << 32 | u64::from(self.index)
    }
}

#[derive(Clone, Copy)]
pub struct Skb<A> {
    access: A,
    at: Pointer,
}

impl<A: Access> Skb<A> {
    /// The buffer that is the first argument.
    #[inline(always)]
    pub fn argument(access: A) -> Self {
        Self { access, at: access.pointer(0) }
    }

    /// Address, which identifies the buffer while it is under way: to keep and to compare, but not to calculate with.
    #[inline(always)]
    pub fn pointer(self) -> u64 {
        self.at as u64
    }

    /// The same as a number.
    #[inline(always)]
    pub fn address(self) -> u64 {
        self.access.address(0)
    }

    /// Length in bytes.
    #[inline(always)]
    pub fn len(self) -> u64 {
        u64::from(self.access.load::<u32>(self.at, SKB_LEN.load()))
    }

    /// Id of the cgroup of its socket; [`UNKNOWN`] where it has none.
    #[inline(always)]
    pub fn cgroup(self) -> u64 {
        let access = self.access;
        if !present(SOCK_CGROUP.load()) || !present(SOCK_STATE.load()) {
            return UNKNOWN;
        }
        let sock: Address = access.load(self.at, SKB_SK.load());
        // The verifier insists on the look.
        if sock.0.is_null() {
            return UNKNOWN;
        }
        // What stands for a connection that is not open yet, or not any more, is no whole socket.
        let state: u8 = access.load(sock.0, SOCK_STATE.load());
        if state == TCP_NEW_SYN_RECV || state == TCP_TIME_WAIT {
            return UNKNOWN;
        }
        let cgroup: Address = access.follow(sock, SOCK_CGROUP.load());
        let kn: Address = access.follow(cgroup, CGROUP_KN.load());
        let id: u64 = access.follow(kn, KN_ID.load());
        if id == 0 { UNKNOWN } else { id }
    }

    /// The device that it came from or goes to.
    #[inline(always)]
    pub fn device(self) -> Device<A> {
        let at: Address = self.access.load(self.at, SKB_DEV.load());
        Device { access: self.access, at: at.0 }
    }
}
