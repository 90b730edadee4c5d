//! Trace packets of Perfetto: what `ui.perfetto.dev` and its trace processor read.
//!
//! Events are those of ftrace, in bundles per CPU, as Perfetto itself records them: it draws threads, states,
//! interrupts and softirqs from them. Events that it has no type for are generic ones, with all their fields.
//! Threads and processes are described where the recording names them. Waits for a CPU, block requests and
//! vectors other than the local timer's come on tracks of our own. Files have packets [packed](packed).
//!
//! Times are readings of the recording's clock; one packet says how they relate to real time. Numbers of
//! fields are those of Perfetto's published `perfetto_trace.proto`; those of events are in their rows ([`crate::events`]).

mod generic;
mod ports;
mod sketches;
mod tracks;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use noise_protobuf::Message;
use noise_text::clean::as_text;

use self::generic::Generic;
use self::ports::Ports;
pub use self::sketches::SketchSlice;
use self::sketches::SketchTracks;
pub use self::tracks::PathPart;
use self::tracks::Tracks;
use crate::clock::TraceClock;
use crate::delays::watch::{Delay, RunQueueWait};
use crate::event::{Comm, Dumped, Event, LostEvents, TraceKind};
use crate::events;
use crate::record::{Record, Stored};
use crate::threads::Threads;

/// Perfetto refuses a file with a CPU beyond.
const MAX_CPUS: u32 = 1024;
/// Bytes of events of one CPU that make a packet.
const BUNDLE_BYTES: usize = 16 << 10;
/// Parent of all kernel threads.
const KTHREADD: i32 = 2;

/// Fields of a trace, and of its packets.
mod field {
    pub const PACKET: u32 = 1;
    pub const FTRACE_EVENTS: u32 = 1;
    pub const PROCESS_TREE: u32 = 2;
    pub const CLOCK_SNAPSHOT: u32 = 6;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const FTRACE_STATS: u32 = 34;
    pub const PREVIOUS_DROPPED: u32 = 42;
    pub const COMPRESSED_PACKETS: u32 = 50;
    pub const SYSTEM_INFO: u32 = 45;
    pub const TRACK_DESCRIPTOR: u32 = 60;
}

/// Clocks as Perfetto numbers them.
const REALTIME: u32 = 1;
const MONOTONIC: u32 = 3;
const BOOTTIME: u32 = 6;

/// All packets are of one sequence, whose state begins with the first.
const SEQUENCE: u32 = 1;
const STATE_CLEARED: u32 = 1;
/// `FtraceStats.Phase.END_OF_TRACE`
const END_OF_TRACE: u32 = 2;

/// Events of one CPU that make up the next packet.
#[derive(Debug, Default)]
struct Bundle {
    events: Message,
    /// Events were lost before the first of them.
    is_behind_loss: bool,
    /// Events that were lost in all.
    lost: u64,
}

/// Makes trace packets of events.
#[derive(Debug, Default)]
pub struct Perfetto {
    offset_ns: u64,
    /// What is added to priorities to have the kernel's.
    add_prio: i32,
    system: Option<Message>,
    has_realtime: bool,
    threads: Threads,
    /// Parents of processes, and what ports they listen on.
    parents: HashMap<i32, i32>,
    ports: Ports,
    bundles: BTreeMap<u32, Bundle>,
    tracks: Tracks,
    sketches: SketchTracks,
    packets: Message,
    time_ns: u64,
    left_out: u64,
}

impl Perfetto {
    /// Of a recording with this clock and this environment.
    pub fn new(clock: &TraceClock, environment: &BTreeMap<String, String>) -> Self {
        // LTTng's kernel tracer, whose layout says so, counts priorities from that of normal threads on.
        let is_lttng = environment.get("domain").is_some_and(|domain| domain == "kernel");
        Self {
            offset_ns: clock.offset_ns(),
            add_prio: if is_lttng { 100 } else { 0 },
            system: Some(system(environment)),
            has_realtime: clock.offset_ns() > 0,
            ..Self::default()
        }
    }

    /// What is ready to be written, by [`packed`].
    pub fn packets(&mut self) -> &mut Message {
        &mut self.packets
    }

    /// Events that are not in the file, because Perfetto refuses files with such CPUs.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    const fn stamp(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.offset_ns)
    }

    fn packet(&mut self, time_ns: u64, write: impl FnOnce(&mut Message)) {
        let stamp = self.stamp(time_ns);
        put_packet(&mut self.packets, stamp, write);
    }

    /// What stands before the first event: the clock, and where that was.
    fn begin(&mut self, time_ns: u64) {
        let Some(system) = self.system.take() else { return };
        let (stamp, has_realtime) = (self.stamp(time_ns), self.has_realtime);
        self.packet(time_ns, |packet| {
            packet.unsigned(field::SEQUENCE_FLAGS, STATE_CLEARED);
            packet.message(field::CLOCK_SNAPSHOT, |snapshot| {
                let mut clock = |id: u32, time: u64| {
                    snapshot.message(1, |clock| {
                        clock.unsigned(1, id);
                        clock.unsigned(2, time);
                    });
                };
                // Perfetto's own clock goes on in suspend; of a recording only this one is known.
                clock(BOOTTIME, stamp);
                clock(MONOTONIC, stamp);
                if has_realtime {
                    clock(REALTIME, time_ns);
                }
                snapshot.unsigned(2, BOOTTIME);
            });
        });
        self.packet(time_ns, |packet| packet.raw(field::SYSTEM_INFO, system.bytes()));
    }

    /// Takes the next event, in the order of time.
    pub fn add<'t>(&mut self, record: &Record<impl Stored<'t>>, event: &Event<'t>) {
        self.begin(event.time_ns);
        self.time_ns = event.time_ns;
        if event.cpu >= MAX_CPUS {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        if let TraceKind::Lost(loss) = &event.kind {
            self.lost(event, loss);
            return;
        }
        let pid = match &event.kind {
            TraceKind::SchedSwitch { prev, .. } => Some(prev.tid),
            _ => self.threads.current(event.cpu),
        };
        self.threads.follow(event);
        let (stamp, add_prio) = (self.stamp(event.time_ns), self.add_prio);
        let bundle = self.bundles.entry(event.cpu).or_default();
        bundle.events.message(bundle::EVENT, |message| {
            message.unsigned(bundle::EVENT_TIMESTAMP, stamp);
            // The idle task is 0, and so is what is not known.
            message.unsigned(bundle::EVENT_PID, pid.unwrap_or(0).cast_unsigned());
            if !events::perfetto(&event.kind, message, add_prio) {
                Generic::write(message, record);
            }
        });
        if bundle.events.bytes().len() >= BUNDLE_BYTES {
            self.flush(event.cpu);
        }
        self.mark(event);
        self.describe(event);
    }

    /// Takes an event that is not to be shown: only what it says of threads is, and marks are.
    pub fn pass(&mut self, event: &Event<'_>) {
        self.begin(event.time_ns);
        self.time_ns = event.time_ns;
        self.mark(event);
        self.threads.follow(event);
        self.describe(event);
    }

    fn mark(&mut self, event: &Event<'_>) {
        if let TraceKind::Mark(mark) = &event.kind {
            let stamp = self.stamp(event.time_ns);
            self.tracks.marked(&mut self.packets, stamp, mark);
        }
    }

    /// A thread has ended.
    pub fn forget(&mut self, tid: i32) {
        self.parents.remove(&tid);
    }

    /// A critical path, with the name of its execution.
    pub fn path(&mut self, name: &str, parts: &[PathPart]) {
        let Some(first) = parts.first() else { return };
        self.begin(first.from_ns);
        self.tracks.path(&mut self.packets, self.offset_ns, name, parts);
    }

    /// A slice of a sketch, in the order of when slices begin.
    pub fn sketch_slice(&mut self, slice: &SketchSlice) {
        self.begin(slice.from_ns);
        self.time_ns = slice.to_ns.max(self.time_ns);
        self.sketches.add(&mut self.packets, self.offset_ns, slice);
    }

    fn lost(&mut self, event: &Event<'_>, loss: &LostEvents) {
        self.flush(event.cpu);
        let bundle = self.bundles.entry(event.cpu).or_default();
        bundle.is_behind_loss = true;
        bundle.lost = bundle.lost.saturating_add(loss.events);
        let offset_ns = self.offset_ns;
        self.tracks.lost(&mut self.packets, offset_ns, event, loss);
    }

    /// Describes threads and processes that an event names.
    fn describe(&mut self, event: &Event<'_>) {
        self.ports.follow(event, &self.threads);
        let dumped = match &event.kind {
            TraceKind::StatedumpProcess(dumped) => *dumped,
            TraceKind::SchedProcessExec { filename, tid, .. } => {
                let name = filename.rsplit(|byte| *byte == b'/').next().unwrap_or(filename);
                let ppid = self.parents.get(tid).copied().unwrap_or(0);
                let comm = Comm::new(name.get(..15).unwrap_or(name));
                Dumped { tid: *tid, pid: *tid, ppid, comm }
            }
            TraceKind::SchedProcessFork { parent_pid, child, child_pid, .. } if *child_pid != 0 => {
                Dumped { tid: child.tid, pid: *child_pid, ppid: *parent_pid, comm: child.comm }
            }
            _ => return,
        };
        if dumped.tid <= 0 || dumped.pid <= 0 {
            return;
        }
        if dumped.tid == dumped.pid {
            self.parents.insert(dumped.pid, dumped.ppid);
        }
        let comm = as_text(dumped.comm.bytes());
        self.packet(event.time_ns, |packet| {
            packet.message(field::PROCESS_TREE, |tree| {
                if dumped.tid == dumped.pid {
                    tree.message(1, |process| {
                        process.signed(1, dumped.pid);
                        process.signed(2, dumped.ppid);
                        process.text(3, &comm);
                        process.unsigned(9, true);
                        let is_kernel = dumped.pid == KTHREADD || dumped.ppid == KTHREADD;
                        process.unsigned(8, is_kernel);
                    });
                }
                tree.message(2, |thread| {
                    thread.signed(1, dumped.tid);
                    thread.text(2, &comm);
                    thread.signed(3, dumped.pid);
                });
            });
        });
    }

    /// Makes a packet of a CPU's events.
    fn flush(&mut self, cpu: u32) {
        let Some(bundle) = self.bundles.get_mut(&cpu) else { return };
        if bundle.events.bytes().is_empty() {
            return;
        }
        self.packets.message(field::PACKET, |packet| {
            packet.message(field::FTRACE_EVENTS, |events| {
                events.unsigned(bundle::CPU, cpu);
                if bundle.is_behind_loss {
                    events.unsigned(bundle::LOST_EVENTS, true);
                }
                events.append(&bundle.events);
            });
            packet.unsigned(field::SEQUENCE, SEQUENCE);
            if bundle.is_behind_loss {
                packet.unsigned(field::PREVIOUS_DROPPED, 1_u32);
            }
        });
        bundle.is_behind_loss = false;
        bundle.events.clear();
    }

    pub fn waited(&mut self, wait: &RunQueueWait<'_>) {
        self.begin(wait.from_ns);
        let pid = self.threads.get(wait.tid).map_or(0, |thread| thread.pid);
        let process = (pid > 0).then(|| {
            let first = self.threads.get(pid).map(|first| first.comm).unwrap_or(wait.comm);
            let port = self.ports.of(pid).map_or_else(String::new, |port| format!(" :{port}"));
            (pid, format!("{} {pid}{port}", as_text(first.bytes())))
        });
        self.tracks.waited(&mut self.packets, self.offset_ns, wait, process);
    }

    pub fn delayed(&mut self, delay: &Delay<'_>) {
        self.begin(delay.from_ns);
        self.tracks.delayed(&mut self.packets, self.offset_ns, delay);
    }

    /// Takes what is there at the end of the recording.
    pub fn finish(&mut self) {
        self.begin(self.time_ns);
        let cpus: Vec<u32> = self.bundles.keys().copied().collect();
        for cpu in cpus {
            self.flush(cpu);
        }
        let lost: Vec<(u32, u64)> =
            self.bundles.iter().map(|(cpu, bundle)| (*cpu, bundle.lost)).collect();
        self.packet(self.time_ns, |packet| {
            packet.message(field::FTRACE_STATS, |stats| {
                stats.unsigned(1, END_OF_TRACE);
                for (cpu, lost) in lost {
                    stats.message(2, |cpu_stats| {
                        cpu_stats.unsigned(1, cpu);
                        cpu_stats.unsigned(3, lost);
                    });
                }
            });
        });
    }
}

/// Fields of a bundle, and of the events in it.
mod bundle {
    pub const CPU: u32 = 1;
    pub const EVENT: u32 = 2;
    pub const LOST_EVENTS: u32 = 3;
    pub const EVENT_TIMESTAMP: u32 = 1;
    pub const EVENT_PID: u32 = 2;
}

/// Packets as they are written: compressed with zlib, in a packet around them.
/// Errors: none that are known, for what is in memory.
pub fn packed(packets: &Message) -> io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(packets.bytes())?;
    let bytes = encoder.finish()?;
    let mut file = Message::with_capacity(bytes.len() + 16);
    file.message(field::PACKET, |packet| packet.raw(field::COMPRESSED_PACKETS, &bytes));
    Ok(file.into_bytes())
}

/// A packet of that time.
fn put_packet(packets: &mut Message, stamp: u64, write: impl FnOnce(&mut Message)) {
    packets.message(field::PACKET, |packet| {
        packet.unsigned(field::TIMESTAMP, stamp);
        packet.unsigned(field::SEQUENCE, SEQUENCE);
        write(packet);
    });
}

/// Where it was recorded, and by what.
fn system(environment: &BTreeMap<String, String>) -> Message {
    let mut system = Message::default();
    let get = |name: &str| environment.get(name).filter(|text| !text.is_empty());
    system.message(1, |utsname| {
        // The kernel's version says what the bits of a thread's state mean.
        let names = [(1, "sysname"), (2, "kernel_version"), (3, "kernel_release"), (4, "machine")];
        for (field, name) in names {
            if let Some(text) = get(name) {
                utsname.text(field, text);
            }
        }
    });
    if let Some(host) = get("hostname") {
        system.text(17, host);
    }
    system
}

#[cfg(test)]
mod tests;
#[cfg(test)]
#[path = "../../../tests/traces/wire.rs"]
mod wire;
