//! Trace events as the pairing functions need them, and how to read each from its record.
//!
//! Every number and name comes out of the record by the kernel's own description of it
//! ([`Format`]); nothing here is shared with the daemon.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context as _, Result};

use super::format::{Field, Format};

/// `sched_switch` prints a preempted task's state with this bit (`R+`): `TASK_REPORT_MAX`.
const PREEMPTED: i64 = 0x100;
/// And one in uninterruptible sleep with this (`D`); an idle kernel thread has another (`I`).
const UNINTERRUPTIBLE: i64 = 2;

/// One event of the merged trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
    /// The CPU that recorded it.
    pub cpu: u32,
    /// The thread that ran there.
    pub pid: i32,
    /// What happened.
    pub kind: Kind,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `sched_switch`, and how the previous task was left.
    Switch { prev: i32, left: Left, next: i32 },
    /// A switch that is missing from the recording, noticed at this time at the latest.
    LostSwitch { prev: i32, next: i32 },
    /// A thread that waited may have had its turn by this time, in a gap of the recording.
    LostTurn { pid: i32 },
    /// `sched_wakeup` and `sched_wakeup_new`.
    Wakeup { pid: i32 },
    /// `sched_waking`.
    Waking { pid: i32 },
    /// `sched_migrate_task`: from here on the thread runs, or waits, on that CPU.
    Migrate { pid: i32, to: u32 },
    /// `sched_process_exec`; where a thread is not its group's first, it has taken that one's id.
    Exec { pid: i32, old_pid: i32 },
    /// `sched_process_fork`.
    Fork { parent: i32, child: i32 },
    /// `sched_process_exit`.
    Exit { pid: i32 },
    /// `sched_process_wait`: for a process or a group, 0 = any child.
    Wait { child: i32 },
    /// `cgroup_attach_task`, in any hierarchy.
    Attach { pid: i32 },
    /// `mm_vmscan_direct_reclaim_*` and `mm_vmscan_memcg_reclaim_*`: begins, else ends.
    Reclaim { begins: bool },
    /// `mm_compaction_*`: begins, else ends.
    Compaction { begins: bool },
    /// `irq_handler_entry`.
    IrqEntry { irq: i32, name: Arc<str> },
    /// `irq_handler_exit`.
    IrqExit { irq: i32 },
    /// `irq_vectors:*_entry`, with the event's name less its ending.
    VectorEntry { vector: Arc<str> },
    /// `irq_vectors:*_exit`.
    VectorExit { vector: Arc<str> },
    /// `softirq_raise`.
    SoftirqRaise { vector: Arc<str> },
    /// `softirq_entry`.
    SoftirqEntry { vector: Arc<str> },
    /// `softirq_exit`.
    SoftirqExit { vector: Arc<str> },
    /// `nmi_handler`, at its end.
    Nmi { duration_ns: u64 },
    /// `hrtimer_expire_entry`: addresses of the timer and of its function, and the time on its clock.
    HrtimerEntry { timer: u64, function: u64, now_ns: i64 },
    /// `hrtimer_expire_exit`.
    HrtimerExit { timer: u64 },
    /// One step in a block request's life.
    Block(Block),
    /// `net_dev_queue`.
    TxQueue { skb: u64, interface: Arc<str>, bytes: u32 },
    /// `net_dev_start_xmit`.
    TxStart { skb: u64, interface: Arc<str> },
    /// `netif_receive_skb`.
    Receive { interface: Arc<str> },
    /// `kfree_skb`, by the kernel's name of the reason in lower case.
    PacketDrop { reason: Arc<str> },
    /// `tcp_retransmit_skb`.
    Retransmit,
    /// `sys_enter`: number of the call, and its first argument.
    CallEntry { number: i64, first: u64 },
    /// `sys_exit`.
    CallExit { number: i64, ret: i64 },
    /// `signal_generate`, to that thread.
    SignalGenerate { signal: i32, pid: i32, group: bool, result: i32 },
    /// `signal_deliver`.
    SignalDeliver { signal: i32 },
    /// `sock_send_length` and `sock_recv_length`.
    SockLength { sends: bool, ret: i32 },
    /// `inet_sock_set_state` of TCP: states, and the ports of both ends.
    SockState { from: i32, to: i32, ports: (u64, u64) },
    /// `sk_data_ready`.
    DataReady,
    /// Text that was written to `trace_marker`.
    Mark { text: Arc<str> },
}

/// How a switch leaves a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It stays on the run queue.
    Runnable,
    /// It sleeps, or is dead.
    Asleep,
    /// It sleeps and no signal wakes it (`D`, but not the idle state of kernel threads).
    Uninterruptible,
}

impl Left {
    /// By the state that `sched_switch` prints.
    fn of(state: i64) -> Self {
        if state == 0 || state & PREEMPTED != 0 {
            Self::Runnable
        } else if state & UNINTERRUPTIBLE != 0 {
            Self::Uninterruptible
        } else {
            Self::Asleep
        }
    }
}

/// A step of a block request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Which step.
    pub step: BlockStep,
    /// `major << 20 | minor`, as inside the kernel.
    pub device: u32,
    /// First sector, 512 bytes each; 0 for a pure flush.
    pub sector: u64,
    /// Sectors of the request; of a completion: the sectors done.
    pub sectors: u64,
    /// The kernel's letters for the operation, such as `WFS`.
    pub letters: Arc<str>,
}

/// The steps that ftrace shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockStep {
    /// Handed to the I/O scheduler.
    Insert,
    /// Handed to the driver.
    Issue,
    /// Some or all of it is done.
    Complete,
    /// Taken back from the driver.
    Requeue,
    /// Merged into another request, and gone.
    Merge,
    /// A bio was put before the request that starts where the bio ends.
    FrontMerge,
}

/// Turns the body of a record into a [`Kind`].
pub type Decode = Box<dyn Fn(&[u8], &mut Names) -> Option<Kind>>;

/// One copy of each text in a trace.
#[derive(Debug, Default)]
pub struct Names(HashMap<String, Arc<str>>);

impl Names {
    /// The shared copy of `text`.
    pub fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(name) = self.0.get(text) {
            return Arc::clone(name);
        }
        let name: Arc<str> = text.into();
        self.0.insert(text.to_owned(), Arc::clone(&name));
        name
    }
}

fn pid(field: Field, record: &[u8]) -> Option<i32> {
    i32::try_from(field.number(record)?).ok()
}

/// The decoder of `system:event`.
/// Errors: if the event is not one of those above, or lacks a field that it needs.
pub fn decoder(system: &str, event: &str, format: &Format) -> Result<Decode> {
    let field = |name: &str| format.field(name).with_context(|| format!("{system}:{event}"));
    Ok(match (system, event) {
        ("sched", "sched_switch") => {
            let (prev, state, next) =
                (field("prev_pid")?, field("prev_state")?, field("next_pid")?);
            Box::new(move |record, _| {
                let left = Left::of(state.number(record)?);
                Some(Kind::Switch { prev: pid(prev, record)?, left, next: pid(next, record)? })
            })
        }
        ("sched", "sched_wakeup" | "sched_wakeup_new") => {
            let task = field("pid")?;
            Box::new(move |record, _| Some(Kind::Wakeup { pid: pid(task, record)? }))
        }
        ("sched", "sched_waking") => {
            let task = field("pid")?;
            Box::new(move |record, _| Some(Kind::Waking { pid: pid(task, record)? }))
        }
        ("sched", "sched_migrate_task") => {
            let (task, to) = (field("pid")?, field("dest_cpu")?);
            Box::new(move |record, _| {
                let to = u32::try_from(to.number(record)?).ok()?;
                Some(Kind::Migrate { pid: pid(task, record)?, to })
            })
        }
        ("sched", "sched_process_exec") => {
            let (new, old) = (field("pid")?, field("old_pid")?);
            Box::new(move |record, _| {
                Some(Kind::Exec { pid: pid(new, record)?, old_pid: pid(old, record)? })
            })
        }
        ("sched", "sched_process_fork") => {
            let (parent, child) = (field("parent_pid")?, field("child_pid")?);
            Box::new(move |record, _| {
                Some(Kind::Fork { parent: pid(parent, record)?, child: pid(child, record)? })
            })
        }
        ("sched", "sched_process_exit") => {
            let task = field("pid")?;
            Box::new(move |record, _| Some(Kind::Exit { pid: pid(task, record)? }))
        }
        ("sched", "sched_process_wait") => {
            let child = field("pid")?;
            Box::new(move |record, _| Some(Kind::Wait { child: pid(child, record)? }))
        }
        ("cgroup", "cgroup_attach_task") => {
            let task = field("pid")?;
            Box::new(move |record, _| Some(Kind::Attach { pid: pid(task, record)? }))
        }
        ("irq", "irq_handler_entry") => {
            let (irq, name) = (field("irq")?, field("name")?);
            Box::new(move |record, names| {
                let name = names.get(name.text(record)?);
                Some(Kind::IrqEntry { irq: pid(irq, record)?, name })
            })
        }
        ("irq", "irq_handler_exit") => {
            let irq = field("irq")?;
            Box::new(move |record, _| Some(Kind::IrqExit { irq: pid(irq, record)? }))
        }
        ("irq", _) => softirq(event, format)?,
        ("irq_vectors", _) => vector(event)?,
        ("nmi", "nmi_handler") => {
            let delta = field("delta_ns")?;
            Box::new(move |record, _| Some(Kind::Nmi { duration_ns: delta.unsigned(record)? }))
        }
        ("timer", "hrtimer_expire_entry") => {
            let (timer, function) = (field("hrtimer")?, field("function")?);
            let now = field("now")?;
            Box::new(move |record, _| {
                Some(Kind::HrtimerEntry {
                    timer: timer.unsigned(record)?,
                    function: function.unsigned(record)?,
                    now_ns: now.number(record)?,
                })
            })
        }
        ("timer", "hrtimer_expire_exit") => {
            let timer = field("hrtimer")?;
            Box::new(move |record, _| Some(Kind::HrtimerExit { timer: timer.unsigned(record)? }))
        }
        ("block", _) => block(event, format)?,
        ("net", _) => net(event, format)?,
        ("skb", "kfree_skb") => {
            // Before 5.17 there is none.
            let Ok(reason) = field("reason") else {
                return Ok(Box::new(|_, names| {
                    Some(Kind::PacketDrop { reason: names.get("unknown") })
                }));
            };
            let symbols = format.symbols.clone();
            Box::new(move |record, names| {
                let number = reason.unsigned(record)?;
                let name = symbols.get(&number).map(|name| name.to_lowercase());
                let name = name.unwrap_or_else(|| number.to_string());
                Some(Kind::PacketDrop { reason: names.get(&name) })
            })
        }
        ("vmscan", "mm_vmscan_direct_reclaim_begin" | "mm_vmscan_memcg_reclaim_begin") => {
            Box::new(|_, _| Some(Kind::Reclaim { begins: true }))
        }
        ("vmscan", "mm_vmscan_direct_reclaim_end" | "mm_vmscan_memcg_reclaim_end") => {
            Box::new(|_, _| Some(Kind::Reclaim { begins: false }))
        }
        ("compaction", "mm_compaction_begin") => {
            Box::new(|_, _| Some(Kind::Compaction { begins: true }))
        }
        ("compaction", "mm_compaction_end") => {
            Box::new(|_, _| Some(Kind::Compaction { begins: false }))
        }
        ("raw_syscalls" | "signal" | "sock", _) => ipc(system, event, format)?,
        ("tcp", "tcp_retransmit_skb") => {
            // Newer kernels report attempts that sent nothing, too.
            let error = field("err").ok();
            Box::new(move |record, _| {
                let error = error.as_ref().map_or(Some(0), |error| error.number(record))?;
                (error == 0).then_some(Kind::Retransmit)
            })
        }
        ("ftrace", "print") => {
            let text = field("buf")?;
            Box::new(move |record, names| {
                Some(Kind::Mark { text: names.get(text.text(record)?.trim_end()) })
            })
        }
        _ => anyhow::bail!("no decoder for {system}:{event}"),
    })
}

fn softirq(event: &str, format: &Format) -> Result<Decode> {
    let make: fn(Arc<str>) -> Kind = match event {
        "softirq_raise" => |vector| Kind::SoftirqRaise { vector },
        "softirq_entry" => |vector| Kind::SoftirqEntry { vector },
        "softirq_exit" => |vector| Kind::SoftirqExit { vector },
        _ => anyhow::bail!("no decoder for irq:{event}"),
    };
    let number = format.field("vec")?;
    let symbols = format.symbols.clone();
    Ok(Box::new(move |record, names| {
        let number = number.unsigned(record)?;
        let name = symbols.get(&number).map(|name| name.to_lowercase());
        Some(make(names.get(&name.unwrap_or_else(|| number.to_string()))))
    }))
}

/// Calls, signals and sockets.
fn ipc(system: &str, event: &str, format: &Format) -> Result<Decode> {
    let field = |name: &str| format.field(name).with_context(|| format!("{system}:{event}"));
    Ok(match event {
        "sys_enter" => {
            let (number, arguments) = (field("id")?, field("args")?.first());
            Box::new(move |record, _| {
                let (number, first) = (number.number(record)?, arguments.unsigned(record)?);
                Some(Kind::CallEntry { number, first })
            })
        }
        "sys_exit" => {
            let (number, ret) = (field("id")?, field("ret")?);
            Box::new(move |record, _| {
                Some(Kind::CallExit { number: number.number(record)?, ret: ret.number(record)? })
            })
        }
        "signal_generate" => {
            let (signal, target) = (field("sig")?, field("pid")?);
            let (group, result) = (field("group")?, field("result")?);
            Box::new(move |record, _| {
                Some(Kind::SignalGenerate {
                    signal: pid(signal, record)?,
                    pid: pid(target, record)?,
                    group: group.number(record)? != 0,
                    result: pid(result, record)?,
                })
            })
        }
        "signal_deliver" => {
            let signal = field("sig")?;
            Box::new(move |record, _| Some(Kind::SignalDeliver { signal: pid(signal, record)? }))
        }
        "sock_send_length" | "sock_recv_length" => {
            let (ret, sends) = (field("ret")?, event == "sock_send_length");
            Box::new(move |record, _| Some(Kind::SockLength { sends, ret: pid(ret, record)? }))
        }
        "inet_sock_set_state" => {
            let (from, to, protocol) = (field("oldstate")?, field("newstate")?, field("protocol")?);
            let (own, other) = (field("sport")?, field("dport")?);
            Box::new(move |record, _| {
                let ports = (own.unsigned(record)?, other.unsigned(record)?);
                let is_tcp = protocol.unsigned(record)? == libc::IPPROTO_TCP as u64;
                let (from, to) = (pid(from, record)?, pid(to, record)?);
                is_tcp.then_some(Kind::SockState { from, to, ports })
            })
        }
        "sk_data_ready" => Box::new(|_, _| Some(Kind::DataReady)),
        _ => anyhow::bail!("no decoder for {system}:{event}"),
    })
}

fn vector(event: &str) -> Result<Decode> {
    if let Some(name) = event.strip_suffix("_entry") {
        let name = name.to_owned();
        return Ok(Box::new(move |_, names| Some(Kind::VectorEntry { vector: names.get(&name) })));
    }
    let name = event.strip_suffix("_exit").with_context(|| format!("no decoder for {event}"))?;
    let name = name.to_owned();
    Ok(Box::new(move |_, names| Some(Kind::VectorExit { vector: names.get(&name) })))
}

fn block(event: &str, format: &Format) -> Result<Decode> {
    let step = match event {
        "block_rq_insert" => BlockStep::Insert,
        "block_rq_issue" => BlockStep::Issue,
        "block_rq_complete" => BlockStep::Complete,
        "block_rq_requeue" => BlockStep::Requeue,
        "block_rq_merge" => BlockStep::Merge,
        "block_bio_frontmerge" => BlockStep::FrontMerge,
        _ => anyhow::bail!("no decoder for block:{event}"),
    };
    let (device, sector) = (format.field("dev")?, format.field("sector")?);
    let (sectors, letters) = (format.field("nr_sector")?, format.field("rwbs")?);
    Ok(Box::new(move |record, names| {
        Some(Kind::Block(Block {
            step,
            device: u32::try_from(device.unsigned(record)?).ok()?,
            sector: sector.unsigned(record)?,
            sectors: sectors.unsigned(record)?,
            letters: names.get(letters.text(record)?),
        }))
    }))
}

fn net(event: &str, format: &Format) -> Result<Decode> {
    let (skb, name) = (format.field("skbaddr")?, format.field("name")?);
    let length = format.field("len")?;
    let make: fn(u64, Arc<str>, u32) -> Kind = match event {
        "net_dev_queue" => |skb, interface, bytes| Kind::TxQueue { skb, interface, bytes },
        "net_dev_start_xmit" => |skb, interface, _| Kind::TxStart { skb, interface },
        "netif_receive_skb" => |_, interface, _| Kind::Receive { interface },
        _ => anyhow::bail!("no decoder for net:{event}"),
    };
    Ok(Box::new(move |record, names| {
        let name = names.get(name.text(record)?);
        let bytes = u32::try_from(length.unsigned(record)?).ok()?;
        Some(make(skb.unsigned(record)?, name, bytes))
    }))
}

#[cfg(test)]
mod tests {
    use super::{Kind, Left, Names, decoder};
    use crate::ftrace::format::Format;

    fn switch(state: i64) -> Option<Kind> {
        let format = Format::parse(
            "ID: 1\n\tfield:pid_t prev_pid;\toffset:0;\tsize:4;\tsigned:1;\n\
             \tfield:long prev_state;\toffset:8;\tsize:8;\tsigned:1;\n\
             \tfield:pid_t next_pid;\toffset:16;\tsize:4;\tsigned:1;\n",
        )
        .unwrap();
        let mut record = 7_u64.to_le_bytes().to_vec();
        record.extend(state.to_le_bytes());
        record.extend(9_u64.to_le_bytes());
        decoder("sched", "sched_switch", &format).unwrap()(&record, &mut Names::default())
    }

    #[test]
    fn a_preempted_task_stays_runnable() {
        let left = |left| Some(Kind::Switch { prev: 7, left, next: 9 });
        assert_eq!(switch(0), left(Left::Runnable));
        assert_eq!(switch(0x100), left(Left::Runnable));
        assert_eq!(switch(2), left(Left::Uninterruptible));
        assert_eq!(switch(0x102), left(Left::Runnable));
        assert_eq!(switch(1), left(Left::Asleep));
        assert_eq!(switch(0x80), left(Left::Asleep));
    }

    #[test]
    fn unknown_events_are_refused() {
        let format = Format::parse("ID: 1\n").unwrap();
        assert!(decoder("sched", "sched_move_numa", &format).is_err());
        assert!(decoder("irq", "softirq_entry", &format).is_err());
    }

    #[test]
    fn names_are_shared() {
        let mut names = Names::default();
        assert!(std::sync::Arc::ptr_eq(&names.get("lo"), &names.get("lo")));
    }
}
