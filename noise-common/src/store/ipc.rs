//! Events of communication, as they lie in the store: system calls and what they are about.

use super::calls::{EXTRA_BITS, NUMBER_BITS, ObjectKind};
use super::kind::EventKind;
use super::raw::{Body, StoredEvent, high, low, pair};

/// What is received stays there: a bit above the object's kind.
const PEEKS: u8 = 0x80;
const KIND_MASK: u8 = 0x0f;

/// Whose and which call an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    pub tid: u32,
    pub number: u16,
}

/// What a call is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredObject {
    pub kind: ObjectKind,
    /// Which one: see [`ObjectKind`].
    pub key: u64,
}

impl StoredObject {
    /// The number by which it is known.
    pub const fn id(self) -> u64 {
        if self.kind.is_wide() { self.key } else { low(self.key) as u64 }
    }

    /// What is kept beside that number: ports, a peer, a device, a position.
    pub const fn beside(self) -> u32 {
        if self.kind.is_wide() { 0 } else { high(self.key) }
    }
}

/// The addresses of a socket. Those of IPv6 are in two events before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredEnds {
    /// Low bits of its inode's number; 0 where it has none.
    pub inode: u32,
    /// Its address of IPv4, in the order of the network.
    pub local: [u8; 4],
    /// That of the other end.
    pub remote: [u8; 4],
    pub local_port: u16,
    /// The port of the other end.
    pub remote_port: u16,
    /// Low bits of the inode number of its network namespace.
    pub namespace: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredSignal {
    pub number: u8,
    /// Where it comes from, as `si_code` says.
    pub code: i32,
    /// The thread that gets it.
    pub tid: u32,
    pub pid: u32,
    /// Whether it is for the whole process.
    pub to_group: bool,
    /// What became of it: 0 it is delivered, 1 ignored, 2 pending already, 3 and 4 there was no room.
    pub result: u8,
}

/// The operation of a futex in few bits: the command, whether it is private, and whether its timeout is in real time.
#[inline(always)]
pub const fn futex_extra(operation: u32) -> u8 {
    (operation & 0xf | (operation >> 7 & 3) << 4) as u8
}

/// The operation that was put in.
pub const fn futex_operation(extra: u8) -> u32 {
    extra as u32 & 0xf | (extra as u32 >> 4 & 3) << 7
}

impl Body {
    #[inline(always)]
    const fn about(
        kind: EventKind,
        caller: Caller,
        object: StoredObject,
        (flags, extra): (u8, u8),
        first: u32,
        time_ns: u64,
    ) -> Self {
        let small = object.kind as u8 | flags;
        let detail = caller.number | (extra as u16) << NUMBER_BITS;
        Self::new(kind, small, detail, [pair(first, caller.tid), object.key], time_ns)
    }

    #[inline(always)]
    pub const fn call(
        caller: Caller,
        object: StoredObject,
        first: u32,
        extra: u8,
        time_ns: u64,
    ) -> Self {
        Self::about(EventKind::CallEntry, caller, object, (0, extra), first, time_ns)
    }

    #[inline(always)]
    pub const fn call_exit(
        caller: Caller,
        object: StoredObject,
        result: u32,
        peeks: bool,
        time_ns: u64,
    ) -> Self {
        let flags = if peeks { PEEKS } else { 0 };
        Self::about(EventKind::CallExit, caller, object, (flags, 0), result, time_ns)
    }

    #[inline(always)]
    pub const fn call_other(
        caller: Caller,
        object: StoredObject,
        first: u32,
        at_end: bool,
        time_ns: u64,
    ) -> Self {
        Self::about(EventKind::CallOther, caller, object, (0, at_end as u8), first, time_ns)
    }
}

impl Body {
    /// `connection` or `inet_sock_set_state`; `small` is a protocol there, and the states here.
    #[inline(always)]
    pub const fn ends(kind: EventKind, small: u8, ends: &StoredEnds, time_ns: u64) -> Self {
        let (local, remote) = (u32::from_le_bytes(ends.local), u32::from_le_bytes(ends.remote));
        let ports = (ends.local_port as u32) << 16 | ends.remote_port as u32;
        let words = [pair(local, remote), pair(ends.inode, ports)];
        Self::new(kind, small, ends.namespace, words, time_ns)
    }

    /// An address of IPv6.
    #[inline(always)]
    pub const fn address(address: [u64; 2], is_remote: bool, time_ns: u64) -> Self {
        Self::new(EventKind::Address, is_remote as u8, 0, address, time_ns)
    }

    /// `sock_send_length`, `sock_recv_length` or `sk_data_ready`.
    #[inline(always)]
    pub const fn transfer(
        kind: EventKind,
        object: StoredObject,
        result: u32,
        position: u32,
        time_ns: u64,
    ) -> Self {
        Self::new(kind, object.kind as u8, 0, [pair(result, position), object.key], time_ns)
    }

    #[inline(always)]
    pub const fn signal(kind: EventKind, signal: &StoredSignal, time_ns: u64) -> Self {
        let detail = signal.to_group as u16 | (signal.result as u16) << 8;
        let words = [pair(signal.tid, signal.code as u32), signal.pid as u64];
        Self::new(kind, signal.number, detail, words, time_ns)
    }
}

impl StoredEvent {
    pub fn ends(&self) -> StoredEnds {
        let [addresses, rest] = self.words;
        StoredEnds {
            inode: low(rest),
            local: low(addresses).to_le_bytes(),
            remote: high(addresses).to_le_bytes(),
            local_port: (high(rest) >> 16) as u16,
            remote_port: high(rest) as u16,
            namespace: self.detail,
        }
    }

    pub fn signal(&self) -> StoredSignal {
        let [first, second] = self.words;
        StoredSignal {
            number: self.small,
            code: high(first).cast_signed(),
            tid: low(first),
            pid: low(second),
            to_group: self.detail & 1 == 1,
            result: (self.detail >> 8) as u8,
        }
    }

    pub fn caller(&self) -> Caller {
        let [_, tid, ..] = self.numbers();
        Caller { tid, number: self.detail & ((1 << NUMBER_BITS) - 1) }
    }

    /// What a call is about. At the begin of one without an object, the key is its second argument in the low half, and the
    /// third one in the high half.
    pub fn object(&self) -> StoredObject {
        let [_, key] = self.words;
        let kind = ObjectKind::from_number(u64::from(self.small & KIND_MASK));
        StoredObject { kind: kind.unwrap_or(ObjectKind::Unknown), key }
    }

    /// What is kept of a call's second argument. Of a second object: not 0 where it is behind the call's end.
    pub const fn extra(&self) -> u8 {
        (self.detail >> NUMBER_BITS) as u8
    }

    /// What a call received stays there.
    pub const fn peeks(&self) -> bool {
        self.small & PEEKS != 0
    }
}

const _: () = assert!(EXTRA_BITS == 6);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::calls::{CALLS, OBJECT_KINDS};
    use super::*;

    fn caller() -> impl Strategy<Value = Caller> {
        let number = prop::sample::select(CALLS).prop_map(|info| info.number);
        (any::<u32>(), number).prop_map(|(tid, number)| Caller { tid, number })
    }

    fn object() -> impl Strategy<Value = StoredObject> {
        let kind = prop::sample::select(OBJECT_KINDS.to_vec());
        (kind, any::<u64>()).prop_map(|(kind, key)| StoredObject { kind, key })
    }

    proptest! {
        #[test]
        fn calls_say_what_was_put_in(
            caller in caller(), object in object(), first in any::<u32>(), extra in 0_u8..64,
            flag in any::<bool>(), time_ns in any::<u64>(),
        ) {
            let event = Body::call(caller, object, first, extra, time_ns).stored(7);
            prop_assert_eq!(event.time_ns, time_ns);
            let said = |event: &StoredEvent| (event.caller(), event.object(), event.numbers()[0]);
            prop_assert_eq!((said(&event), event.extra()), ((caller, object, first), extra));
            let event = Body::call_exit(caller, object, first, flag, time_ns).stored(7);
            prop_assert_eq!((said(&event), event.peeks()), ((caller, object, first), flag));
            let event = Body::call_other(caller, object, first, flag, time_ns).stored(7);
            prop_assert_eq!((said(&event), event.extra() != 0), ((caller, object, first), flag));
        }

        #[test]
        fn sockets_and_signals_say_what_was_put_in(
            object in object(), numbers in any::<[u32; 4]>(), bytes in any::<[u8; 8]>(),
            words in any::<[u64; 2]>(), flag in any::<bool>(), time_ns in any::<u64>(),
        ) {
            let [one, two, three, four] = numbers;
            let [a, b, c, d, e, f, g, h] = bytes;
            let ends = StoredEnds {
                inode: one, local: [a, b, c, d], remote: [e, f, g, h],
                local_port: two as u16, remote_port: three as u16, namespace: four as u16,
            };
            let event = Body::ends(EventKind::Connection, 6, &ends, time_ns).stored(7);
            prop_assert_eq!((event.ends(), event.small), (ends, 6));
            let event = Body::address(words, flag, time_ns).stored(7);
            let mut address = [0; 16];
            address[..8].copy_from_slice(&words[0].to_le_bytes());
            address[8..].copy_from_slice(&words[1].to_le_bytes());
            prop_assert_eq!((event.text(), event.small != 0), (address, flag));
            let event = Body::transfer(EventKind::DataReady, object, one, two, time_ns).stored(7);
            prop_assert_eq!((event.object(), &event.numbers()[..2]), (object, &[one, two][..]));
            let signal = StoredSignal {
                number: a, code: one.cast_signed(), tid: two, pid: three, to_group: flag, result: b,
            };
            let event = Body::signal(EventKind::SignalGenerate, &signal, time_ns).stored(7);
            prop_assert_eq!(event.signal(), signal);
        }

        #[test]
        fn operations_of_a_futex_fit(command in 0_u32..14, flags in 0_u32..4) {
            let operation = command | flags << 7;
            prop_assert_eq!(futex_operation(futex_extra(operation)), operation);
            prop_assert!(futex_extra(operation) < 1 << EXTRA_BITS);
        }
    }

    #[test]
    fn an_object_is_known_by_its_number_and_what_is_beside() {
        let tcp = StoredObject { kind: ObjectKind::Tcp, key: 5 | 9 << 32 };
        assert_eq!((tcp.id(), tcp.beside()), (5, 9));
        let epoll = StoredObject { kind: ObjectKind::Epoll, key: 0xffff_8880_0000_0040 };
        assert_eq!((epoll.id(), epoll.beside()), (0xffff_8880_0000_0040, 0));
    }
}
