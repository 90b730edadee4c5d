//! Begins and ends of system calls.

use super::calls::{Does, is_wait};
use super::descriptors::Descriptors;
use super::fields::Fields;
use super::sockets::{kind, of_descriptor};
use super::{CallReader, CallSink, EventStamp, PendingCall, note};
use crate::input::{Act, Bytes, ChannelObject, Endpoint, Local, Much, Protocol, What};

/// A connection is under way.
const IN_PROGRESS: i64 = -115;
/// What the kernel returns inside for a call that a signal interrupted.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;
/// Received bytes stay there; errors are received.
const PEEK: u64 = 0x2;
const ERRORS: u64 = 0x2000;
/// Both directions of a connection are shut down.
const BOTH: u64 = 2;
/// Commands that duplicate a descriptor (`F_DUPFD`, `F_DUPFD_CLOEXEC`).
const DUPLICATES: [u64; 2] = [0, 1030];
/// Messages of one call.
const MAX_MESSAGES: i64 = 1024;

/// What a call is about, in a trace that says so by descriptors.
fn by_descriptor(
    descriptors: &Descriptors,
    pid: i32,
    does: Does,
    call: &str,
    fields: &Fields,
) -> [Option<ChannelObject>; 2] {
    let fd = fields.fd;
    let is_socket = ["recv", "send", "accept", "connect", "shutdown"];
    let is_socket = is_socket.iter().any(|prefix| call.starts_with(prefix));
    let file = || {
        let found = descriptors.get(pid, fd);
        found.or_else(|| is_socket.then(|| ChannelObject::End(of_descriptor(pid, fd))))
    };
    match does {
        Does::Receive | Does::ReceiveMany => [file(), None],
        Does::Send | Does::SendMany | Does::Connect | Does::Close | Does::Shutdown => {
            [None, file()]
        }
        Does::Accept => [file(), None],
        Does::Move => [descriptors.get(pid, fd), descriptors.get(pid, fields.other_fd)],
        Does::Futex | Does::FutexWait | Does::FutexWake => {
            let space = u64::from(pid.cast_unsigned());
            [None, Some(ChannelObject::Local(Local::Futex { space, address: fields.uaddr }))]
        }
        Does::QueueSend | Does::QueueReceive if fields.queue >= 0 => {
            [None, Some(ChannelObject::Local(Local::Queue(fields.queue.cast_unsigned())))]
        }
        Does::Semaphore if fields.queue >= 0 => {
            [None, Some(ChannelObject::Local(Local::Semaphore(fields.queue.cast_unsigned())))]
        }
        _ => [None, None],
    }
}

impl<S: CallSink> CallReader<S> {
    pub(super) fn enters(&mut self, at: EventStamp, tid: i32, call: &str, fields: &Fields) {
        let machine = at.machine;
        let does = Does::named(call);
        if does == Does::Unfollowed {
            self.sink.not_followed(call);
        }
        let pid = self.pid(machine, tid);
        let [mut from, mut to] = match fields.is_ours {
            true => {
                let object = self.sockets.object(machine, &fields.noised, [None; 2]);
                let receives = matches!(does, Does::Receive | Does::ReceiveMany | Does::Accept)
                    || call == "splice";
                if receives { [object, None] } else { [None, object] }
            }
            false => {
                let descriptors = &self.machine(machine).descriptors;
                by_descriptor(descriptors, pid, does, call, fields)
            }
        };
        let before = (does == Does::Restart)
            .then(|| self.machine(machine).interrupted.remove(&tid))
            .flatten();
        if does == Does::Wait {
            from = Some(ChannelObject::Local(Local::Child));
        }
        // Files without communication are left out.
        if let (Does::Close, Some(ChannelObject::Local(_))) = (does, to) {
            to = None;
        }
        let noised = fields.is_ours.then_some(fields.noised);
        let new = PendingCall {
            does,
            from,
            to,
            noised,
            addresses: [None; 2],
            fd: fields.fd,
            op: fields.op,
            family: fields.family,
            kind: fields.kind,
            peeks: fields.flags & (PEEK | ERRORS) != 0 && call.starts_with("recv"),
        };
        let call_in = before.unwrap_or(new);
        let object = call_in.object().filter(|_| does != Does::Accept);
        let purpose = call_in.does.purpose(call_in.op, object.is_some());
        self.emit(at, tid, What::Enters { call, purpose, object });
        for object in [call_in.from, call_in.to].into_iter().flatten() {
            self.first_seen(at, tid, &object);
        }
        // Who takes it may be back before the one who posts.
        let posts = match (call_in.does, call_in.to) {
            (Does::Send, Some(ChannelObject::Local(local @ Local::Eventfd(_))))
            | (Does::QueueSend, Some(ChannelObject::Local(local))) => Some(local),
            _ => None,
        };
        note(&mut self.machine(machine).calls, tid, call_in);
        if let Some(local) = posts {
            self.emit(at, tid, What::Act(Act::Posted(local)));
        }
    }

    fn first_seen(&mut self, at: EventStamp, tid: i32, object: &ChannelObject) {
        if !self.is_fresh(at.machine, object) {
            return;
        }
        match object {
            ChannelObject::Local(local) => self.emit(at, tid, What::Act(Act::Made(*local))),
            ChannelObject::End(end) if end.protocol == Protocol::UnixStream => {
                self.emit(at, tid, What::Act(Act::Opened(*end)));
            }
            ChannelObject::End(_) => {}
        }
    }

    pub(super) fn leaves(&mut self, at: EventStamp, tid: i32, call: &str, fields: &Fields) {
        let machine = at.machine;
        let found = self.machine(machine).calls.remove(&tid);
        let does = if call.is_empty() { None } else { Some(Does::named(call)) };
        let is_it = |found: &PendingCall| {
            does.is_none_or(|does| does == found.does)
                || found.does == Does::Restart
                || call == "restart_syscall"
        };
        let found = found.filter(is_it);
        let ret = fields.ret;
        if RESTARTS.contains(&ret)
            && let Some(call) = found
        {
            note(&mut self.machine(machine).interrupted, tid, call);
            self.emit(at, tid, What::Leaves);
            return;
        }
        // It began before the recording.
        let in_call = found.unwrap_or_else(|| PendingCall {
            does: does.unwrap_or(Does::Other),
            from: None,
            to: None,
            noised: None,
            addresses: [None; 2],
            fd: -1,
            op: u64::MAX,
            family: 0,
            kind: 0,
            peeks: false,
        });
        self.acts(at, tid, &in_call, fields);
        self.emit(at, tid, What::Leaves);
    }

    /// What a call is about, by what its begin and its end say of it.
    fn settled(
        &self,
        machine: u16,
        call: &PendingCall,
        fields: &Fields,
    ) -> [Option<ChannelObject>; 2] {
        let (mut from, mut to) = (call.from, call.to);
        if !fields.is_ours {
            return [from, to];
        }
        // The end of a call does not have the ports, its begin has no peer that was not there yet.
        let end = fields.noised;
        let begin = call.noised.unwrap_or(end);
        let noised = match end.kind {
            kind::TCP | kind::UDP => begin,
            kind::UNIX if end.peer == 0 => begin,
            _ => end,
        };
        let noised = super::Noised { kind: end.kind, id: end.id, ..noised };
        if let Some(object @ ChannelObject::End(_)) =
            self.sockets.object(machine, &noised, call.addresses)
        {
            match call.does {
                Does::Receive | Does::ReceiveMany => from = Some(object),
                Does::Send | Does::SendMany | Does::Connect => to = Some(object),
                _ => {}
            }
        } else if call.noised.is_none() {
            let object = self.sockets.object(machine, &end, [None; 2]);
            match call.does {
                Does::Receive => from = object,
                Does::Send => to = object,
                _ => {}
            }
        }
        [from, to]
    }

    fn acts(&mut self, at: EventStamp, tid: i32, call: &PendingCall, fields: &Fields) {
        let (machine, ret) = (at.machine, fields.ret);
        let pid = self.pid(machine, tid);
        let is_connecting = call.does == Does::Connect && ret == IN_PROGRESS;
        if ret < 0 && !is_connecting {
            return;
        }
        let [from, to] = self.settled(machine, call, fields);
        let is_tcp =
            fields.is_ours && fields.noised.kind == kind::TCP && fields.noised.position != 0;
        let length = ret.cast_unsigned();
        let place = is_tcp.then(|| fields.noised.position.wrapping_sub(ret as u32));
        let bytes = Bytes { at: place, length };
        let mut act = |act: Act| self.emit(at, tid, What::Act(act));
        match call.does {
            Does::Receive if ret > 0 && !call.peeks && !fields.peeks => {
                if let Some(received) = from.and_then(|object| received(&object, bytes)) {
                    act(received);
                }
            }
            Does::Send if ret > 0 => {
                if let Some(sent) = to.and_then(|object| sent(&object, bytes)) {
                    act(sent);
                }
            }
            Does::ReceiveMany => {
                if let Some(ChannelObject::End(end)) = from {
                    let one = Bytes { at: None, length: 1 };
                    (0..ret.min(MAX_MESSAGES)).for_each(|_| act(Act::Received(end, one)));
                }
            }
            Does::SendMany => {
                if let Some(ChannelObject::End(end)) = to {
                    let one = Bytes { at: None, length: 1 };
                    (0..ret.min(MAX_MESSAGES)).for_each(|_| act(Act::Sent(end, one)));
                }
            }
            Does::Move if ret > 0 => {
                let plain = Bytes { at: None, length };
                if let Some(received) = from.and_then(|object| received(&object, plain)) {
                    act(received);
                }
                if let Some(sent) = to.and_then(|object| sent(&object, bytes)) {
                    act(sent);
                }
            }
            Does::Accept => self.accepted(at, tid, pid, call, fields),
            Does::Connect => {
                if let Some(ChannelObject::End(end)) = to {
                    act(Act::Connected(end));
                }
            }
            Does::Close => {
                if let Some(ChannelObject::End(end)) = to {
                    act(Act::Closed(end));
                }
                self.machine(machine).descriptors.close(pid, call.fd);
            }
            Does::Shutdown if call.op == BOTH => {
                if let Some(ChannelObject::End(end)) = to {
                    act(Act::Closed(end));
                }
            }
            Does::Futex | Does::FutexWait | Does::FutexWake => {
                if let Some(ChannelObject::Local(local)) = to {
                    let waits = call.does == Does::FutexWait
                        || (call.does == Does::Futex && is_wait(call.op));
                    match waits {
                        true if ret == 0 => act(Act::Taken(local, Much::One)),
                        false if ret > 0 => act(Act::Posted(local)),
                        _ => {}
                    }
                }
            }
            Does::QueueReceive => {
                if let Some(ChannelObject::Local(local)) = to {
                    act(Act::Taken(local, Much::One));
                }
            }
            Does::Semaphore => {
                if let Some(ChannelObject::Local(local)) = to {
                    act(Act::Taken(local, Much::IfWoken));
                }
            }
            Does::Wait => act(Act::Reaped(i32::try_from(ret).unwrap_or(0))),
            _ => self.made(at, tid, pid, call, fields),
        }
    }

    fn accepted(
        &mut self,
        at: EventStamp,
        tid: i32,
        pid: i32,
        call: &PendingCall,
        fields: &Fields,
    ) {
        let machine = at.machine;
        self.sockets.accepted(machine, &fields.noised);
        let end = match fields.is_ours {
            true => match self.sockets.object(machine, &fields.noised, [None; 2]) {
                Some(ChannelObject::End(end)) => end,
                _ => return,
            },
            false => {
                let protocol = match call.from {
                    Some(ChannelObject::End(Endpoint { protocol, .. })) => protocol,
                    _ => Protocol::Unknown,
                };
                let descriptors = &mut self.machine(machine).descriptors;
                let end = descriptors.end(protocol);
                descriptors.set(pid, fields.ret, ChannelObject::End(end));
                end
            }
        };
        self.first_seen(at, tid, &ChannelObject::End(end));
        self.emit(at, tid, What::Act(Act::Accepted(end)));
    }

    /// Descriptors that were made.
    fn made(&mut self, at: EventStamp, tid: i32, pid: i32, call: &PendingCall, fields: &Fields) {
        if fields.is_ours {
            return;
        }
        let (machine, ret) = (at.machine, fields.ret);
        let descriptors = &mut self.machine(machine).descriptors;
        let [one, other] = fields.made;
        match call.does {
            Does::Socket => {
                let end = descriptors.socket(call.family, call.kind);
                descriptors.set(pid, ret, ChannelObject::End(end));
            }
            Does::SocketPair if one >= 0 => {
                let ends = descriptors.pair(call.family, call.kind);
                for (fd, end) in fields.made.into_iter().zip(ends) {
                    descriptors.set(pid, fd, ChannelObject::End(end));
                }
                let [first, second] = ends;
                self.emit(at, tid, What::Act(Act::Paired(first, second)));
            }
            Does::Pipe if one >= 0 => {
                let pipe = descriptors.pipe();
                descriptors.set(pid, one, ChannelObject::Local(pipe));
                descriptors.set(pid, other, ChannelObject::Local(pipe));
                self.emit(at, tid, What::Act(Act::Made(pipe)));
            }
            Does::Eventfd => {
                let eventfd = descriptors.eventfd();
                descriptors.set(pid, ret, ChannelObject::Local(eventfd));
            }
            Does::Control if !DUPLICATES.contains(&call.op) => {}
            Does::Duplicate | Does::Control => match descriptors.get(pid, call.fd) {
                Some(object) => descriptors.set(pid, ret, object),
                None => descriptors.close(pid, ret),
            },
            // A descriptor of a file takes the place of what had it.
            _ => {}
        }
    }
}

fn received(object: &ChannelObject, bytes: Bytes) -> Option<Act> {
    Some(match object {
        ChannelObject::End(end) => Act::Received(*end, bytes),
        ChannelObject::Local(local @ Local::Pipe { .. }) => Act::Got(*local, bytes.length),
        ChannelObject::Local(local @ Local::Eventfd(_)) => Act::Taken(*local, Much::All),
        ChannelObject::Local(_) => return None,
    })
}

fn sent(object: &ChannelObject, bytes: Bytes) -> Option<Act> {
    Some(match object {
        ChannelObject::End(end) => Act::Sent(*end, bytes),
        ChannelObject::Local(local @ Local::Pipe { .. }) => Act::Put(*local, bytes.length),
        ChannelObject::Local(_) => return None,
    })
}
