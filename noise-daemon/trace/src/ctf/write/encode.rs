//! The fields of an event as bytes, in the order in which [`super::classes`] declares them.

use core::net::SocketAddr;

use crate::event::{Comm, Dumped, Kind, Mark, Packet, Request, Task, Woken};
use crate::ipc::{Call, Connection, FUTEX_ADDRESS, Object, Return, Second, Signal, Transfer};
use crate::what::MARK_ACTIONS;

/// The first kernel thread, from which all others come.
const FIRST_KERNEL_THREAD: i32 = 2;
/// LTTng's numbers of a kernel thread, and of a submode that is unknown.
const KERNEL_THREAD: i32 = 1;
const UNKNOWN_SUBMODE: i32 = 1;

/// Appends fields.
struct Out<'b>(&'b mut Vec<u8>);

impl Out<'_> {
    fn signed(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn unsigned(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn long_signed(&mut self, value: i64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn long(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn comm(&mut self, comm: &Comm) {
        self.0.extend_from_slice(&comm.0);
    }

    /// A text ends at its first zero.
    fn text(&mut self, text: &[u8]) {
        self.0.extend(text.iter().take_while(|&&byte| byte != 0));
        self.0.push(0);
    }

    fn task(&mut self, task: &Task) {
        self.comm(&task.comm);
        self.signed(task.tid);
        self.signed(task.prio);
    }

    fn woken(&mut self, woken: &Woken) {
        self.task(&woken.task);
        self.unsigned(woken.target_cpu);
    }

    fn place(&mut self, request: &Request<'_>) {
        self.unsigned(request.dev);
        self.long(request.sector);
        self.unsigned(request.sectors);
    }

    fn request(&mut self, request: &Request<'_>) {
        self.place(request);
        self.unsigned(request.bytes);
        self.signed(request.tid);
        self.unsigned(request.rwbs);
        self.comm(&Comm::new(request.comm));
    }

    fn merged(&mut self, request: &Request<'_>) {
        self.place(request);
        self.unsigned(request.rwbs);
        self.signed(request.tid);
        self.comm(&Comm::new(request.comm));
    }

    fn done(&mut self, request: &Request<'_>) {
        self.place(request);
        self.signed(request.error);
        self.unsigned(request.rwbs);
    }

    fn packet(&mut self, packet: &Packet<'_>) {
        self.long(packet.skb);
        self.unsigned(packet.len);
        self.text(packet.name);
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let [begin, end] = MARK_ACTIONS;
        self.text(if mark.begins { begin } else { end }.as_bytes());
        self.text(mark.name);
        self.text(mark.key);
        self.signed(mark.pid);
        self.signed(mark.tid);
        self.unsigned(mark.uid);
        self.long(mark.before_ns);
    }

    fn object(&mut self, object: &Object) {
        self.0.push(object.kind as u8);
        self.long(object.id);
        self.unsigned(object.peer);
    }

    fn placed(&mut self, object: &Object) {
        self.object(object);
        self.unsigned(object.position);
    }

    fn end(&mut self, end: &SocketAddr) {
        self.text(end.ip().to_string().as_bytes());
        self.unsigned(end.port().into());
    }

    fn connection(&mut self, connection: &Connection) {
        self.unsigned(connection.inode);
        self.unsigned(connection.protocol);
        self.end(&connection.local);
        self.end(&connection.remote);
        self.unsigned(connection.namespace);
    }

    fn state(&mut self, connection: &Connection, from: u32, to: u32) {
        let Connection { local, remote, .. } = connection;
        let ports = [local.port(), remote.port()].map(u32::from);
        for number in [from, to].into_iter().chain(ports).chain([connection.protocol]) {
            self.unsigned(number);
        }
        for end in [local, remote] {
            self.text(end.ip().to_string().as_bytes());
        }
        self.long(connection.inode.into());
        self.unsigned(connection.namespace);
    }

    fn transfer(&mut self, transfer: &Transfer) {
        self.signed(transfer.ret);
        self.placed(&transfer.object);
    }

    fn generated(&mut self, signal: &Signal) {
        self.signed(signal.sig);
        self.signed(signal.code);
        self.comm(&signal.task.comm);
        self.signed(signal.task.tid);
        self.signed(signal.group.into());
        self.signed(signal.result);
    }

    fn call(&mut self, call: &Call) {
        for ((name, _), argument) in call.info.fields.iter().zip(call.arguments) {
            if *name == FUTEX_ADDRESS {
                self.long(call.object.id);
            } else {
                self.signed(argument);
            }
        }
        self.signed(call.tid);
        self.object(&call.object);
    }

    fn call_exit(&mut self, call: &Return) {
        self.long_signed(call.ret);
        self.signed(call.tid);
        self.placed(&call.object);
        self.0.push(call.peeks.into());
    }

    fn second(&mut self, second: &Second) {
        self.signed(second.fd);
        self.signed(second.tid);
        self.placed(&second.object);
    }

    fn process(&mut self, dumped: &Dumped) {
        for id in [dumped.tid, dumped.pid, dumped.ppid] {
            self.signed(id);
            self.signed(id);
        }
        self.comm(&dumped.comm);
        let is_kernel = [dumped.pid, dumped.ppid].contains(&FIRST_KERNEL_THREAD);
        self.signed(if is_kernel { KERNEL_THREAD } else { 0 });
        // Mode, status and namespace are not known.
        for unknown in [0, UNKNOWN_SUBMODE, 0, 0] {
            self.signed(unknown);
        }
        self.unsigned(0);
    }
}

/// Appends what an event says.
#[inline]
pub fn fields(kind: &Kind<'_>, bytes: &mut Vec<u8>) {
    let mut out = Out(bytes);
    match kind {
        Kind::SchedSwitch { prev, prev_state, next } => {
            out.task(prev);
            out.long_signed(prev_state.bits());
            out.task(next);
        }
        Kind::SchedWaking(woken) | Kind::SchedWakeupNew(woken) => out.woken(woken),
        Kind::SchedMigrateTask { task, orig_cpu, dest_cpu } => {
            out.task(task);
            out.unsigned(*orig_cpu);
            out.unsigned(*dest_cpu);
        }
        Kind::SchedProcessFork { parent, parent_pid, child, child_pid } => {
            for (task, pid) in [(parent, parent_pid), (child, child_pid)] {
                out.comm(&task.comm);
                out.signed(task.tid);
                out.signed(*pid);
            }
        }
        Kind::SchedProcessExec { filename, tid, old_tid } => {
            out.text(filename);
            out.signed(*tid);
            out.signed(*old_tid);
        }
        Kind::SchedProcessExit(task) => out.task(task),
        Kind::IrqHandlerEntry { irq, name } => {
            out.unsigned(*irq);
            out.text(name);
        }
        Kind::IrqHandlerExit { irq, ret } => {
            out.unsigned(*irq);
            out.signed(*ret);
        }
        Kind::SoftirqRaise { vec } | Kind::SoftirqEntry { vec } | Kind::SoftirqExit { vec } => {
            out.unsigned(*vec);
        }
        Kind::BlockRqInsert(request) | Kind::BlockRqIssue(request) => out.request(request),
        Kind::BlockRqRequeue(request) | Kind::BlockRqComplete(request) => out.done(request),
        Kind::BlockRqMerge(request) => out.merged(request),
        Kind::NetDevQueue(packet)
        | Kind::NetDevStartXmit(packet)
        | Kind::NetifReceiveSkb(packet) => out.packet(packet),
        Kind::SkbKfree { skb, reason } => {
            out.long(*skb);
            out.unsigned(*reason);
        }
        Kind::HrtimerExpireEntry { hrtimer, function, now } => {
            out.long(*hrtimer);
            out.long_signed(*now);
            out.long(*function);
        }
        Kind::HrtimerExpireExit { hrtimer } => out.long(*hrtimer),
        Kind::VectorEntry { vector, .. } | Kind::VectorExit { vector, .. } => out.unsigned(*vector),
        Kind::NmiHandler { delta_ns, .. } => out.long_signed(*delta_ns),
        Kind::TcpRetransmitSkb(packet) => {
            out.long(packet.skb);
            out.text(packet.name);
        }
        Kind::StatedumpProcess(dumped) => out.process(dumped),
        Kind::StatedumpInterrupt { irq, name, action } => {
            out.unsigned(*irq);
            out.text(name);
            out.text(action);
        }
        Kind::StatedumpBlockDevice { dev, name } => {
            out.unsigned(*dev);
            out.text(name);
        }
        Kind::StatedumpInterface { name } => out.text(name),
        Kind::CgroupAttach { tid, path } => {
            out.signed(*tid);
            out.text(path);
        }
        Kind::Throttled { task, throttled_ns } => {
            out.comm(&task.comm);
            out.signed(task.tid);
            out.long(*throttled_ns);
        }
        Kind::Mark(mark) => out.mark(mark),
        Kind::SyscallEntry(call) => out.call(call),
        Kind::SyscallExit(call) => out.call_exit(call),
        Kind::CallOther(second) => out.second(second),
        Kind::Connection(connection) | Kind::StatedumpSocket(connection) => {
            out.connection(connection);
        }
        Kind::InetSockSetState { connection, from, to } => out.state(connection, *from, *to),
        Kind::SockSendLength(transfer) | Kind::SockRecvLength(transfer) => out.transfer(transfer),
        Kind::SkDataReady(object) => out.placed(object),
        Kind::SignalGenerate(signal) => out.generated(signal),
        Kind::SignalDeliver(signal) => {
            out.signed(signal.sig);
            out.signed(signal.code);
            out.signed(signal.task.tid);
        }
        Kind::StatedumpFile { pid, fd, flags, filename, object } => {
            out.signed(*pid);
            out.signed(*fd);
            out.unsigned(*flags);
            out.text(filename);
            out.object(object);
        }
        // These have no fields, or are not recorded.
        _ => {}
    }
}
