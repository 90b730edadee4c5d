//! From the event store to a recording: events of all CPUs in the order of time, with the names of those that
//! they are about, as packets.
//!
//! The caller copies stretches of the store and hands them to [`Capture::add`], then has all events before
//! some time written by [`Capture::advance`], and takes the packets. Nothing is kept but the events that are
//! not written yet, and the names.

mod convert;
mod held;
mod ipc;
mod names;
mod order;

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};

use noise_common::store::reading::PartStretch;
use noise_common::store::{Class, EventKind, PARTS, StoredEvent};

use self::convert::On;
pub use self::held::{HeldEvent, HeldReader};
use self::ipc::Addresses;
pub use self::names::{CapturedNames, Look};
use self::order::{Order, OrderedItem};
use crate::ctf::write::{Packets, StreamWriter, Uuid};
use crate::event::{Comm, Dumped, ProgramMark, Task, TraceKind};
use crate::follow::Processor;
use crate::ipc::{Connection, Object};

/// What an event of the store is in the model, without names; `None` of what is none by itself.
pub fn unnamed(event: &StoredEvent) -> Option<TraceKind<'static>> {
    convert::kind(event, &mut Addresses::default())
}

/// An interrupt that has a handler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interrupt {
    pub irq: u32,
    pub chip: Vec<u8>,
    /// The names that drivers gave to their handlers, joined with commas.
    pub action: Vec<u8>,
}

/// Who and what there is when a recording begins.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    pub threads: Vec<Dumped>,
    pub interrupts: Vec<Interrupt>,
    /// Block devices: number (20 bits minor) and name.
    pub disks: Vec<(u32, Vec<u8>)>,
    /// Interfaces: index and name.
    pub interfaces: Vec<(u32, Vec<u8>)>,
    /// Inode number of the network namespace that they are in.
    pub namespace: u64,
    /// Cgroups by their paths, with the threads in them. One that is in none of them is in that of its
    /// process's first thread.
    pub cgroups: BTreeMap<Vec<u8>, Vec<i32>>,
    /// Files of communication that processes have open, where system calls are recorded.
    pub files: Vec<OpenFile>,
    /// Sockets of the internet, likewise.
    pub sockets: Vec<Connection>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenFile {
    pub pid: i32,
    pub fd: i32,
    /// Flags as `open` has them.
    pub flags: u32,
    /// Its name, as `/proc` shows it.
    pub filename: Vec<u8>,
    /// What it is; a socket of any kind is a socket.
    pub object: Object,
}

/// A begin or an end that a program stated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// When, ns of the clock.
    pub time_ns: u64,
    pub begins: bool,
    pub name: Vec<u8>,
    /// Of which one; may be empty.
    pub key: Vec<u8>,
    /// The process that sent it.
    pub pid: i32,
    /// The thread that it is of; 0: the one of that process that ran then.
    pub tid: i32,
    /// The user who sent it.
    pub uid: u32,
}

struct CpuStream {
    number: u32,
    order: Order,
    writer: StreamWriter,
    /// Bits of the classes of events that are written.
    classes: u32,
    processor: Processor<Task>,
    /// An exec whose name comes next: when, and the thread's new and old id.
    exec: Option<(u64, u32, u32)>,
    /// Addresses whose socket comes next.
    addresses: Addresses,
}

impl CpuStream {
    fn write(&mut self, item: &OrderedItem, names: &mut CapturedNames, look: &mut impl Look) {
        if self.exec.is_some() {
            let named = match item {
                OrderedItem::Event(event) if event.kind() == Some(EventKind::Name) => {
                    Some(Comm::new(&event.text()))
                }
                _ => None,
            };
            self.write_exec(named, names, look);
            if named.is_some() {
                return;
            }
        }
        match item {
            OrderedItem::Event(event) => {
                if event.kind() == Some(EventKind::Exec) {
                    let [tid, old_tid, ..] = event.numbers();
                    self.exec = Some((event.time_ns, tid, old_tid));
                    return;
                }
                let on = On {
                    cpu: self.number,
                    processor: &mut self.processor,
                    addresses: &mut self.addresses,
                };
                let (writer, classes) = (&mut self.writer, self.classes);
                let is_wanted = event.kind().is_some_and(|kind| kind.class().bit() & classes != 0);
                convert::named(event, on, names, look, |kind| {
                    is_wanted && writer.event(event.time_ns, kind)
                });
            }
            OrderedItem::Lost { events, from_ns, until_ns } => {
                self.processor.lose();
                self.writer.lost(*events, *from_ns, *until_ns);
            }
        }
    }

    /// Writes the exec that waits for its name, if there is one; a name that is lost is looked up.
    fn write_exec(&mut self, named: Option<Comm>, names: &mut CapturedNames, look: &mut impl Look) {
        let Some((time_ns, tid, old_tid)) = self.exec.take() else { return };
        let comm = named.unwrap_or_else(|| names.thread(tid, self.number, time_ns, look));
        let on =
            On { cpu: self.number, processor: &mut self.processor, addresses: &mut self.addresses };
        let (writer, is_wanted) = (&mut self.writer, self.classes & Class::Sched.bit() != 0);
        convert::exec((tid, old_tid), comm, time_ns, on, names, |kind| {
            is_wanted && writer.event(time_ns, kind)
        });
    }
}

/// A recording while it is made.
pub struct Capture {
    names: CapturedNames,
    /// What there was at the begin, without threads and their cgroups.
    things: Dump,
    cpus: Vec<CpuStream>,
    /// Marks that are not written yet.
    marks: Vec<Marked>,
    begin_ns: u64,
    /// All events before that time are written.
    advanced_ns: u64,
}

impl Capture {
    /// One of so many CPUs that begins at a time (ns of the clock), with what there is at that time.
    pub fn new(uuid: Uuid, cpus: u32, packet_bytes: usize, begin_ns: u64, dump: &Dump) -> Self {
        let cpu = |number| CpuStream {
            number,
            order: Order::new(begin_ns),
            writer: StreamWriter::new(uuid, number, packet_bytes, begin_ns),
            classes: u32::MAX,
            processor: Processor::default(),
            exec: None,
            addresses: Addresses::default(),
        };
        let mut capture = Self {
            names: CapturedNames::new(dump, begin_ns),
            things: Dump {
                threads: Vec::new(),
                cgroups: BTreeMap::new(),
                // Later, others are open.
                files: Vec::new(),
                sockets: Vec::new(),
                ..dump.clone()
            },
            cpus: (0..cpus).map(cpu).collect(),
            marks: Vec::new(),
            begin_ns,
            advanced_ns: begin_ns,
        };
        if let Some(first) = capture.cpus.first_mut() {
            write_dump(dump, begin_ns, &mut first.writer);
        }
        capture
    }

    /// Writes events of these classes alone. The others are still looked at for who runs where, and for names.
    pub fn only(&mut self, classes: &[Class]) {
        let bits = classes.iter().fold(0, |bits, class| bits | class.bit());
        self.cpus.iter_mut().for_each(|cpu| cpu.classes = bits);
    }

    /// Takes a stretch of a part of the store; from which number on the next one is wanted.
    pub fn add(&mut self, cpu: u32, part: usize, stretch: PartStretch<'_>) -> u64 {
        let next = stretch.resume();
        if let Some(cpu) = self.cpus.get_mut(cpu as usize)
            && part < PARTS
        {
            cpu.order.add(part, stretch, next);
        }
        next
    }

    /// So many events of a part of the store are missing behind those that were added, unless they are added later: where
    /// none come, the CPU is unknown from the latest on up to the end.
    pub fn missing(&mut self, cpu: u32, part: usize, events: u64) {
        if let Some(cpu) = self.cpus.get_mut(cpu as usize) {
            cpu.order.missing(part, events);
        }
    }

    /// Events of a CPU were lost between two times and are in no stretch.
    pub fn lost(&mut self, cpu: u32, events: u64, from_ns: u64, until_ns: u64) {
        if let Some(cpu) = self.cpus.get_mut(cpu as usize) {
            cpu.order.lost(events, from_ns, until_ns);
        }
    }

    /// Events of a part of the store are there from a time on: at least one was overwritten that may be as late as the
    /// begin. Rings of different CPUs go back differently far, and what began on one of them may have ended on another.
    pub fn reaches_back_to(&mut self, cpu: u32, from_ns: u64, end_ns: u64) {
        let until_ns = from_ns.min(end_ns.saturating_add(1));
        if until_ns > self.begin_ns {
            self.lost(cpu, 1, self.begin_ns, until_ns);
        }
    }

    /// Takes a mark, which is written with the events of its time. One that is older than what is written says by how much.
    pub fn mark(&mut self, mark: Marked) {
        self.marks.push(mark);
    }

    /// Writes a mark where its thread runs.
    fn write_mark(&mut self, mark: &Marked) {
        let Marked { time_ns, begins, pid, mut tid, uid, .. } = *mark;
        let (cpus, names) = (&self.cpus, &self.names);
        // Who ran earlier is not known any more.
        let is_known = time_ns >= self.advanced_ns;
        let runs = |cpu: &CpuStream| {
            let running = cpu.processor.current().filter(|_| is_known)?.tid;
            let is_its = match tid {
                0 => names.process(running.cast_unsigned()).cast_signed() == pid,
                tid => running == tid,
            };
            is_its.then_some(running)
        };
        let mut found =
            cpus.iter().enumerate().filter_map(|(place, cpu)| Some((place, runs(cpu)?)));
        let place = match (found.next(), found.next()) {
            (Some((place, running)), None) => {
                tid = running;
                Some(place)
            }
            // Which one of several threads is not known.
            _ => None,
        };
        // An exec is written with the name behind it.
        let place = place.or_else(|| cpus.iter().position(|cpu| cpu.exec.is_none()));
        let Some(cpu) = self.cpus.get_mut(place.unwrap_or(0)) else { return };
        let at_ns = time_ns.max(cpu.writer.last_ns());
        let (name, key, before_ns) = (&mark.name, &mark.key, at_ns - time_ns);
        let mark = ProgramMark { begins, name, key, pid, tid, uid, before_ns };
        cpu.writer.event(at_ns, &TraceKind::Mark(mark));
    }

    /// Writes all events before a time. No event that is added later is to be earlier: it would get the
    /// time of the one before.
    pub fn advance(&mut self, until_ns: u64, look: &mut impl Look) {
        self.marks.sort_by_key(|mark| mark.time_ns);
        let mut marks = std::mem::take(&mut self.marks).into_iter().peekable();
        // The order is that of all CPUs: a thread may be created on one and run on another.
        let mut heads = BinaryHeap::with_capacity(self.cpus.len());
        let mut has_new = false;
        for (index, cpu) in self.cpus.iter_mut().enumerate() {
            has_new |= cpu.order.sort();
            heads.extend(cpu.order.next_before(until_ns).map(|time_ns| Reverse((time_ns, index))));
        }
        if has_new {
            self.names.begin_round();
        }
        while let Some(mut head) = heads.peek_mut() {
            let Reverse((time_ns, index)) = *head;
            if marks.peek().is_some_and(|mark| mark.time_ns <= time_ns) {
                drop(head);
                if let Some(mark) = marks.next() {
                    self.write_mark(&mark);
                }
                continue;
            }
            let Some(cpu) = self.cpus.get_mut(index) else { break };
            if let Some(item) = cpu.order.take() {
                cpu.write(&item, &mut self.names, look);
            }
            match cpu.order.next_before(until_ns) {
                Some(time_ns) => *head = Reverse((time_ns, index)),
                None => {
                    PeekMut::pop(head);
                }
            }
        }
        while let Some(mark) = marks.next_if(|mark| mark.time_ns < until_ns) {
            self.write_mark(&mark);
        }
        self.marks = marks.collect();
        self.advanced_ns = self.advanced_ns.max(until_ns);
        self.cpus.iter_mut().for_each(|cpu| cpu.order.forget_taken());
    }

    /// Ends the packets that are being filled, so that what was written is whole.
    pub fn flush(&mut self) {
        for cpu in &mut self.cpus {
            cpu.writer.flush();
        }
    }

    /// Writes all that is left; the recording ends at that time, or with the last event if that is later.
    pub fn finish(&mut self, end_ns: u64, look: &mut impl Look) {
        for cpu in &mut self.cpus {
            cpu.order.end(end_ns);
        }
        self.advance(u64::MAX, look);
        for cpu in &mut self.cpus {
            cpu.write_exec(None, &mut self.names, look);
        }
        // What was read while the time went on.
        let last_ns = self.cpus.iter().map(|cpu| cpu.writer.last_ns());
        self.end(last_ns.fold(end_ns, u64::max));
    }

    /// Ends the packets that are being filled, and has the last one of each CPU that has any end at that time:
    /// files end with it.
    pub fn end(&mut self, end_ns: u64) {
        for cpu in &mut self.cpus {
            cpu.writer.end(end_ns);
        }
    }

    /// Leaves out what was written since packets were taken: the recording ends before that, at that time.
    pub fn withdraw(&mut self, end_ns: u64) {
        for cpu in &mut self.cpus {
            cpu.writer.withdraw();
            cpu.writer.end(end_ns);
        }
    }

    /// Begins anew at a time up to which all was written and taken: other files follow that are to be
    /// read without those before. They begin with who and what there is as far as it is known by then.
    pub fn begin_again(&mut self, now_ns: u64) {
        for cpu in &mut self.cpus {
            cpu.writer.mark(now_ns.saturating_sub(1));
        }
        self.things.threads = self.names.threads();
        self.things.cgroups = self.names.cgroups();
        if let Some(first) = self.cpus.first_mut() {
            write_dump(&self.things, now_ns, &mut first.writer);
        }
        self.things.threads = Vec::new();
        self.things.cgroups = BTreeMap::new();
    }

    /// Up to when events were lost that packets count which are not whole yet.
    pub fn loss_until_ns(&self) -> Option<u64> {
        self.cpus.iter().filter_map(|cpu| cpu.writer.loss_until_ns()).max()
    }

    /// Bytes of the whole packets of all CPUs.
    pub fn whole_bytes(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.writer.whole_bytes() as u64).sum()
    }

    /// Bytes of the packets of all CPUs that are not whole yet: those that count losses have any length.
    pub fn open_bytes(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.writer.open_bytes() as u64).sum()
    }

    /// Takes the whole packets of a CPU.
    pub fn packets(&mut self, cpu: u32) -> Packets {
        self.cpus.get_mut(cpu as usize).map(|cpu| cpu.writer.take()).unwrap_or_default()
    }

    /// The packets of a CPU that were just taken are not written: what is to be written in their place.
    pub fn give_up(&mut self, cpu: u32, packets: &Packets) -> Packets {
        let cpu = self.cpus.get_mut(cpu as usize);
        cpu.map(|cpu| cpu.writer.give_up(packets)).unwrap_or_default()
    }

    pub fn discarded(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.writer.discarded()).sum()
    }

    /// Events that came later than their time.
    pub fn late(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.writer.late()).sum()
    }
}

/// Writes who and what there is.
fn write_dump(dump: &Dump, time_ns: u64, writer: &mut StreamWriter) {
    let mut write = |kind: TraceKind<'_>| writer.event(time_ns, &kind);
    write(TraceKind::StatedumpStart);
    for (dev, name) in &dump.disks {
        write(TraceKind::StatedumpBlockDevice { dev: *dev, name });
    }
    for Interrupt { irq, chip, action } in &dump.interrupts {
        write(TraceKind::StatedumpInterrupt { irq: *irq, name: chip, action });
    }
    for (_, name) in &dump.interfaces {
        write(TraceKind::StatedumpInterface { name });
    }
    // Before the threads: who selects by cgroup has these as well then.
    for (path, threads) in &dump.cgroups {
        for tid in threads {
            write(TraceKind::CgroupAttach { tid: *tid, path });
        }
    }
    for thread in &dump.threads {
        write(TraceKind::StatedumpProcess(*thread));
    }
    for OpenFile { pid, fd, flags, filename, object } in &dump.files {
        let (pid, fd, flags, object) = (*pid, *fd, *flags, *object);
        write(TraceKind::StatedumpFile { pid, fd, flags, filename, object });
    }
    for socket in &dump.sockets {
        write(TraceKind::StatedumpSocket(*socket));
    }
    write(TraceKind::StatedumpEnd);
}

fn idle(cpu: u32) -> Comm {
    Comm::new(format!("swapper/{cpu}").as_bytes())
}

#[cfg(test)]
mod tests;
