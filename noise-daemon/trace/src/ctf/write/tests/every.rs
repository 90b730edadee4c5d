//! The bytes of every event, and what the metadata say of them: recordings stay as they are.

use core::fmt::Write as _;

use noise_common::hooks::{Hook, VECTOR_HOOKS};
use noise_common::store::calls::{CALLS, ObjectKind};

use super::{OFFSET_NS, UUID, origin};
use crate::ctf::write::{HEAD_BYTES, StreamWriter, metadata};
use crate::ctf::{CtfReader, StreamFile, TraceLayout};
use crate::event::{Comm, Dumped, Packet, ProgramMark, Request, Task, TraceKind, Woken};
use crate::ipc::{Call, Connection, Object, Return, Second, Signal, Transfer};
use crate::record::Source as _;
use crate::state::LeftIn;

const TASK: Task = Task { comm: Comm(*b"kworker/u16:0-ev"), tid: 0x11121314, prio: -20 };
const OTHER: Task =
    Task { comm: Comm(*b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0"), tid: 0x21222324, prio: 7 };
const OBJECT: Object =
    Object { kind: ObjectKind::Tcp, id: 0x4142_4344_4546_4748, peer: 80 << 16 | 5000, position: 9 };

fn sched() -> Vec<TraceKind<'static>> {
    let woken = Woken { task: TASK, target_cpu: 3 };
    vec![
        TraceKind::SchedSwitch { prev: TASK, prev_state: LeftIn::of(0x100), next: OTHER },
        TraceKind::SchedWaking(woken),
        TraceKind::SchedWakeupNew(woken),
        TraceKind::SchedMigrateTask { task: TASK, orig_cpu: 1, dest_cpu: 2 },
        TraceKind::SchedProcessFork { parent: TASK, parent_pid: 5, child: OTHER, child_pid: 6 },
        TraceKind::SchedProcessExec { filename: b"cc1\0and more", tid: 7, old_tid: 8 },
        TraceKind::SchedProcessExit(TASK),
        TraceKind::Throttled { task: TASK, throttled_ns: 0x3132_3334_3536_3738 },
        TraceKind::SchedProcessWait { comm: OTHER.comm, child: OTHER.tid, prio: OTHER.prio },
    ]
}

fn interrupts() -> Vec<TraceKind<'static>> {
    let mut kinds = vec![
        TraceKind::IrqHandlerEntry { irq: 36, name: b"virtio1-req.0" },
        TraceKind::IrqHandlerExit { irq: 36, ret: 1 },
        TraceKind::SoftirqRaise { vec: 1 },
        TraceKind::SoftirqEntry { vec: 2 },
        TraceKind::SoftirqExit { vec: 3 },
        TraceKind::NmiHandler { delta_ns: 4125, handled: 1 },
        TraceKind::HrtimerExpireEntry { hrtimer: u64::MAX - 7, function: 0x5152_5354, now: -1 },
        TraceKind::HrtimerExpireExit { hrtimer: u64::MAX - 7 },
    ];
    kinds.extend(VECTOR_HOOKS.iter().enumerate().filter_map(|(index, hook)| {
        let Hook::Vector(which, _) = *hook else { return None };
        Some(match index % 2 {
            0 => TraceKind::VectorEntry { which, vector: 236 },
            _ => TraceKind::VectorExit { which, vector: 237 },
        })
    }));
    kinds
}

fn io() -> Vec<TraceKind<'static>> {
    let request = Request {
        dev: 254 << 20 | 1,
        sector: 0x6162_6364_6566_6768,
        sectors: 8,
        bytes: 4096,
        rwbs: 0x7172,
        tid: 12,
        comm: b"fio",
        error: -5,
    };
    let packet = Packet { skb: 0x8182_8384_8586_8788, len: 1500, name: b"eth0" };
    vec![
        TraceKind::BlockRqInsert(request),
        TraceKind::BlockRqIssue(request),
        TraceKind::BlockRqRequeue(request),
        TraceKind::BlockRqComplete(request),
        TraceKind::BlockRqMerge(request),
        TraceKind::NetDevQueue(packet),
        TraceKind::NetDevStartXmit(packet),
        TraceKind::NetifReceiveSkb(packet),
        TraceKind::SkbKfree { skb: packet.skb, reason: 2 },
        TraceKind::TcpRetransmitSkb(packet),
    ]
}

fn connection() -> Connection {
    Connection {
        inode: 0x9192_9394,
        protocol: 6,
        local: "[fe80::1]:80".parse().unwrap(),
        remote: "10.0.0.1:5000".parse().unwrap(),
        namespace: 9,
    }
}

fn ipc() -> Vec<TraceKind<'static>> {
    let (tid, connection) = (0x11121314, connection());
    let signal = Signal { sig: 10, code: -6, task: TASK, group: true, result: 2 };
    let mut kinds = vec![
        TraceKind::CallOther(Second { tid, fd: -1, object: OBJECT }),
        TraceKind::Connection(connection),
        TraceKind::InetSockSetState { connection, from: 2, to: 1 },
        TraceKind::SockSendLength(Transfer { ret: -32, object: OBJECT }),
        TraceKind::SockRecvLength(Transfer { ret: 33, object: OBJECT }),
        TraceKind::SkDataReady(OBJECT),
        TraceKind::SignalGenerate(signal),
        TraceKind::SignalDeliver(signal),
    ];
    kinds.extend(CALLS.iter().flat_map(|info| {
        let call = Call { info, tid, arguments: [1, -2, 3], object: OBJECT };
        let end = Return { info, tid, ret: -11, object: OBJECT, peeks: true };
        [TraceKind::SyscallEntry(call), TraceKind::SyscallExit(end)]
    }));
    kinds
}

fn dumped() -> Vec<TraceKind<'static>> {
    let process = Dumped { tid: 5, pid: 4, ppid: 2, comm: TASK.comm };
    vec![
        TraceKind::StatedumpStart,
        TraceKind::StatedumpProcess(process),
        TraceKind::StatedumpProcess(Dumped { ppid: 1, ..process }),
        TraceKind::StatedumpInterrupt { irq: 9, name: b"IO-APIC", action: b"acpi" },
        TraceKind::StatedumpBlockDevice { dev: 8 << 20, name: b"sda" },
        TraceKind::StatedumpInterface { name: b"lo" },
        TraceKind::StatedumpEnd,
        TraceKind::CgroupAttach { tid: 5, path: b"/system.slice/nginx.service" },
        TraceKind::StatedumpFile { pid: 4, fd: 3, flags: 2, filename: b"pipe:[9]", object: OBJECT },
        TraceKind::StatedumpSocket(connection()),
    ]
}

fn marks() -> Vec<TraceKind<'static>> {
    let begin = ProgramMark {
        begins: true,
        name: b"query",
        key: b"17",
        pid: 4,
        tid: 5,
        uid: 1000,
        before_ns: 0xa1a2_a3a4_a5a6_a7a8,
    };
    vec![TraceKind::Mark(begin), TraceKind::Mark(ProgramMark { begins: false, ..begin })]
}

/// Its name, and its bytes in a packet without another event, the number of the event among them.
fn line(layout: &TraceLayout, kind: &TraceKind<'_>) -> String {
    let mut writer = StreamWriter::new(UUID, 0, 1 << 16, 5);
    assert!(writer.event(6, kind), "{kind:?}");
    writer.flush();
    let packets = writer.take();
    let files = [StreamFile::held("channel0_0", packets.bytes())];
    let mut reader = CtfReader::new(layout, &files);
    let record = reader.read().unwrap();
    assert_eq!(record.time_ns, OFFSET_NS + 6);
    let of = if packets.events() == 0 { " of a dump" } else { "" };
    let mut line = format!("{}{of}:", record.name());
    for byte in &packets.bytes()[HEAD_BYTES..] {
        let _ = write!(line, " {byte:02x}");
    }
    line
}

#[test]
fn every_event_has_its_bytes() {
    let layout = TraceLayout::parse(&metadata(UUID, &origin())).unwrap();
    let kinds = [sched(), interrupts(), io(), ipc(), dumped(), marks()].concat();
    let lines: Vec<String> = kinds.iter().map(|kind| line(&layout, kind)).collect();
    insta::assert_snapshot!(lines.join("\n"));
    let mut names: Vec<&str> =
        lines.iter().filter_map(|line| line.split([' ', ':']).next()).collect();
    names.sort_unstable();
    names.dedup();
    let declared = metadata(UUID, &origin()).matches("\nevent {").count();
    assert_eq!(names.len(), declared, "an event of the metadata has no sample here");
}

#[test]
fn the_metadata_say_what_events_consist_of() {
    let text = metadata(UUID, &origin());
    let events =
        text.split("\nevent {\n").map(|event| event.split_whitespace().collect::<Vec<_>>());
    let lines: Vec<String> = events.map(|words| words.join(" ")).collect();
    insta::assert_snapshot!(lines.join("\n"));
}
