//! Recordings of ours, read by babeltrace.

use std::fs;

use noise_common::hooks::{Hook, VECTOR_HOOKS};
use noise_common::store::calls::{CALLS, ObjectKind};
use noise_trace::ctf::write::{Origin, StreamWriter, Uuid, metadata};
use noise_trace::event::{Comm, Dumped, Packet, ProgramMark, Request, Task, TraceKind, Woken};
use noise_trace::ipc::{Call, Connection, Object, Return, Second, Signal, Transfer};
use noise_trace::state::LeftIn;

use crate::babeltrace::ours;
use crate::files::Trace;
use crate::printed::{differences, run};

const UUID: Uuid = [7; 16];
const CPUS: u32 = 3;

fn ipc(number: u32) -> Vec<TraceKind<'static>> {
    let (tid, id) = (number as i32, u64::from(number) << 33 | 5);
    let object = Object { kind: ObjectKind::Tcp, id, peer: 80 << 16 | 5000, position: number };
    let connection = Connection {
        inode: number,
        protocol: 6,
        local: "[fe80::1]:80".parse().unwrap(),
        remote: "10.0.0.1:5000".parse().unwrap(),
        namespace: 9,
    };
    let task = Task { comm: Comm::new(b"a task"), tid, prio: 0 };
    let signal = Signal { sig: 10, code: -6, task, group: true, result: 2 };
    let calls = CALLS.iter().flat_map(|info| {
        let call = Call { info, tid, arguments: [tid, -1, 7], object };
        let end = Return { info, tid, ret: -11, object, peeks: true };
        [TraceKind::SyscallEntry(call), TraceKind::SyscallExit(end)]
    });
    let others = [
        TraceKind::CallOther(Second { tid, fd: -1, object }),
        TraceKind::Connection(connection),
        TraceKind::StatedumpSocket(connection),
        TraceKind::InetSockSetState { connection, from: 2, to: 1 },
        TraceKind::SockSendLength(Transfer { ret: -32, object }),
        TraceKind::SockRecvLength(Transfer { ret: tid, object }),
        TraceKind::SkDataReady(object),
        TraceKind::SignalGenerate(signal),
        TraceKind::SignalDeliver(signal),
        TraceKind::StatedumpFile { pid: tid, fd: 3, flags: 2, filename: b"pipe:[9]", object },
    ];
    calls.chain(others).collect()
}

/// Events of every kind, with numbers that differ.
fn kinds(number: u32) -> Vec<TraceKind<'static>> {
    let (tid, long) = (number as i32, u64::from(number) << 33 | 5);
    let task = Task { comm: Comm::new(b"kworker/u16:0-events"), tid, prio: -tid };
    let woken = Woken { task, target_cpu: number % CPUS };
    let request = Request {
        dev: 254 << 20 | 1,
        sector: long,
        sectors: number,
        bytes: 4096,
        rwbs: 1,
        tid,
        comm: b"fio",
        error: -5,
    };
    let packet = Packet { skb: long, len: number, name: b"eth0" };
    let mut kinds = vec![
        TraceKind::StatedumpStart,
        TraceKind::StatedumpProcess(Dumped { tid, pid: tid, ppid: 2, comm: task.comm }),
        TraceKind::StatedumpInterrupt { irq: 9, name: b"IO-APIC", action: b"acpi" },
        TraceKind::StatedumpBlockDevice { dev: 8 << 20, name: b"sda" },
        TraceKind::StatedumpInterface { name: b"lo" },
        TraceKind::CgroupAttach { tid, path: b"/system.slice/nginx.service" },
        TraceKind::StatedumpEnd,
        TraceKind::Mark(ProgramMark {
            begins: true,
            name: b"query",
            key: "17 \u{e4}".as_bytes(),
            pid: tid,
            tid,
            uid: 1000,
            before_ns: 5,
        }),
        TraceKind::SchedSwitch {
            prev: task,
            prev_state: LeftIn::of(0x100),
            next: Task { tid: 0, ..task },
        },
        TraceKind::SchedWaking(woken),
        TraceKind::SchedWakeupNew(woken),
        TraceKind::SchedMigrateTask { task, orig_cpu: 1, dest_cpu: 2 },
        TraceKind::SchedProcessFork { parent: task, parent_pid: 1, child: task, child_pid: tid },
        TraceKind::SchedProcessExec { filename: b"cc1", tid, old_tid: tid },
        TraceKind::SchedProcessExit(task),
        TraceKind::SchedProcessWait { comm: task.comm, child: tid, prio: task.prio },
        TraceKind::IrqHandlerEntry { irq: 36, name: b"virtio1-req.0" },
        TraceKind::IrqHandlerExit { irq: 36, ret: 1 },
        TraceKind::SoftirqRaise { vec: 3 },
        TraceKind::SoftirqEntry { vec: 3 },
        TraceKind::SoftirqExit { vec: 3 },
        TraceKind::NmiHandler { delta_ns: 4125, handled: 1 },
        TraceKind::BlockRqInsert(request),
        TraceKind::BlockRqIssue(request),
        TraceKind::BlockRqRequeue(request),
        TraceKind::BlockRqComplete(Request { sector: u64::MAX, ..request }),
        TraceKind::BlockRqMerge(request),
        TraceKind::NetDevQueue(packet),
        TraceKind::NetDevStartXmit(packet),
        TraceKind::NetifReceiveSkb(packet),
        TraceKind::SkbKfree { skb: u64::MAX, reason: u32::MAX },
        TraceKind::HrtimerExpireEntry { hrtimer: u64::MAX - 7, function: long, now: -1 },
        TraceKind::HrtimerExpireExit { hrtimer: u64::MAX - 7 },
        TraceKind::TcpRetransmitSkb(packet),
    ];
    kinds.extend(ipc(number));
    kinds.extend(VECTOR_HOOKS.iter().enumerate().filter_map(|(index, hook)| {
        let Hook::Vector(which, _) = *hook else { return None };
        let vector = 236;
        Some(match index % 2 {
            0 => TraceKind::VectorEntry { which, vector },
            _ => TraceKind::VectorExit { which, vector },
        })
    }));
    kinds
}

fn record(folder: &std::path::Path, lossy: bool) {
    let origin = Origin {
        hostname: "host".to_owned(),
        kernel_release: "6.1.0-amd64".to_owned(),
        kernel_version: "#1 SMP".to_owned(),
        recorder: "noised".to_owned(),
        offset_ns: 1_700_000_000_123_456_789,
        offset_at_end_ns: Some(1_700_000_000_123_456_799),
        has_calls: true,
        buffer_bytes: Some(8 << 20),
    };
    fs::write(folder.join("metadata"), metadata(UUID, &origin)).unwrap();
    let mut now = 1_000;
    let mut writers: Vec<_> =
        (0..CPUS).map(|cpu| StreamWriter::new(UUID, cpu, 4096, now)).collect();
    for number in 0..200_u32 {
        for (index, kind) in kinds(number).iter().enumerate() {
            // Some come later than the short head of an event has room for, some at the same time.
            now += [1, 0, 700, 1 << 26, 3, 1 << 28, 90][index % 7];
            let writer = &mut writers[(number + index as u32) as usize % CPUS as usize];
            assert!(writer.event(now, kind));
            if lossy && number % 50 == 49 && index == 7 {
                writer.lost(1_000, now, now + 5_000);
                now += 5_000;
            }
        }
    }
    for (cpu, writer) in writers.iter_mut().enumerate() {
        // The last packet of each has no events.
        writer.flush();
        writer.end(now + 5);
        fs::write(folder.join(format!("channel0_{cpu}")), writer.take().bytes()).unwrap();
    }
}

/// One of the two reads a recording as we do. It complains about losses, and about nothing else.
pub fn read_by(command: &str, lossy: bool) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), lossy);
    let trace = Trace::open(folder.path().to_path_buf());
    let (theirs, complaints) = run(command, &trace.folder)?;
    let complaints: Vec<_> = complaints.lines().filter(|line| !line.is_empty()).collect();
    let losses = complaints.iter().filter(|line| line.contains("iscarded 1000 events")).count();
    assert_eq!(losses, complaints.len(), "{complaints:#?}");
    assert_eq!(losses, if lossy { 4 } else { 0 }, "{complaints:#?}");
    let (lost, ours): (Vec<_>, Vec<_>) =
        ours(&trace).into_iter().partition(|line| line.contains(" lost: "));
    assert_eq!(lost.len(), if lossy { 4 } else { 0 }, "{lost:#?}");
    let theirs: Vec<_> = theirs.into_iter().filter(|line| line.starts_with('[')).collect();
    assert_eq!(ours.len(), theirs.len());
    let differences = differences(&ours, &theirs);
    assert!(differences.is_empty(), "{differences:#?}");
    Ok(())
}
