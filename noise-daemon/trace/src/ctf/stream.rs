//! One stream: its packets one after the other, through all its files, and the events in them.

use std::cmp::Ordering;

use super::bits::mask;
use super::class::EventClass;
use super::cpu::Sought;
use super::files::StreamFile;
use super::layout::{Layout, StreamClass};
use super::node::{SLOTS, Struct};
use super::packet::{MAGIC, Packet, open};
use super::walk::{Bytes, Cut, skip, walk_fields};
use crate::clock::Clock;
use crate::damage::Damage;
use crate::event::{Kind, Loss};
use crate::record::{self, Stored};
use crate::value::Visit;

/// Bits of one event. LTTng's are no longer than its sub-buffers, of 1 MiB unless they were made larger; perf's
/// end at 64 KiB. What is longer is not an event, but costs time and memory where it is shown.
const MAX_EVENT_BITS: u64 = 8 << 20;

/// An event, where it lies in its packet.
#[derive(Clone, Copy)]
pub struct Located<'t> {
    class: &'t EventClass,
    stream: &'t StreamClass,
    bytes: Bytes<'t>,
    /// Where its contexts begin, in bits.
    context_at: u64,
    /// Where its own fields begin, in bits.
    fields_at: u64,
}

/// A record of a trace in CTF.
pub type Record<'t> = record::Record<Located<'t>>;

impl<'t> Stored<'t> for Located<'t> {
    fn name(&self) -> &'t str {
        &self.class.name
    }

    fn number(&self) -> Option<usize> {
        Some(self.class.number)
    }

    #[inline]
    fn kind(&self) -> Kind<'t> {
        self.class.kind(self.bytes, self.fields_at)
    }

    fn visit(&self, visit: &mut impl Visit) {
        // It was skipped over before: all of it is there.
        let _ = show(&self.class.fields, self.bytes, self.fields_at, visit);
    }

    /// First the context of all events of its stream, then that of its kind.
    fn visit_contexts<V: Visit>(&self, visit: &mut V, mut begin: impl FnMut(&mut V)) {
        let mut at = self.context_at;
        for context in [&self.stream.event_context, &self.class.context].into_iter().flatten() {
            begin(visit);
            match show(context, self.bytes, at, visit) {
                Ok(behind) => at = behind,
                Err(Cut) => return,
            }
        }
    }
}

/// Shows fields. Of those that always have the same length none is kept for another one.
fn show(fields: &Struct, bytes: Bytes<'_>, at: u64, visit: &mut impl Visit) -> Result<u64, Cut> {
    match fields.fixed {
        Some(_) => walk_fields(fields, bytes, at, &mut [], visit),
        None => walk_fields(fields, bytes, at, &mut [0; SLOTS], visit),
    }
}

/// The packet that is read.
#[derive(Clone, Copy)]
struct Open<'t> {
    class: &'t StreamClass,
    bytes: Bytes<'t>,
    /// Of the file, where it begins.
    begin: usize,
    /// Whether the file ends in it.
    is_cut: bool,
    /// Whether it does not say of which CPU it is.
    lacks_cpu: bool,
}

/// Goes over one stream.
pub struct Stream<'t> {
    /// The event that it is at, or what was lost before it; none at the end.
    pub head: Option<Record<'t>>,
    layout: &'t Layout,
    /// Its files, each with the CPU of packets that name none.
    parts: Vec<(StreamFile<'t>, u32)>,
    /// The number of the one that is read, its name and its bytes.
    part: usize,
    name: &'t str,
    file: &'t [u8],
    /// Of the file, begin of the packet behind the one that is read.
    next_packet: usize,
    packet: Option<Open<'t>>,
    /// Of the packet, where the next event begins, in bits.
    at: u64,
    cpu: u32,
    /// The latest time, as recorded.
    cycles: u64,
    clock: Option<&'t Clock>,
    clock_number: u8,
    /// Nanoseconds to add where the clock counts such.
    offset_ns: Option<u64>,
    /// Time of the latest event, nanoseconds since the epoch.
    time_ns: u64,
    /// End of the packet before, as recorded.
    ended: Option<u64>,
    /// What that packet said was lost, and its number.
    discarded: Option<u64>,
    sequence: Option<u64>,
    /// Said before the next event.
    loss: Option<Loss>,
    pub damage: Damage,
}

impl<'t> Stream<'t> {
    /// One that begins at the begin of the first of its files, each of which comes with the CPU of packets
    /// that name none.
    pub fn new(layout: &'t Layout, parts: Vec<(StreamFile<'t>, u32)>) -> Self {
        let mut stream = Self {
            head: None,
            layout,
            parts,
            part: 0,
            name: "",
            file: &[],
            next_packet: 0,
            packet: None,
            at: 0,
            cpu: 0,
            cycles: 0,
            clock: None,
            clock_number: 0,
            offset_ns: Some(0),
            time_ns: 0,
            ended: None,
            discarded: None,
            sequence: None,
            loss: None,
            damage: Damage::default(),
        };
        stream.set_clock(0);
        stream.enter_part(0);
        stream
    }

    /// Goes to the begin of one of its files; none where it has no such.
    fn enter_part(&mut self, number: usize) -> Option<()> {
        let (StreamFile { name, bytes }, cpu) = *self.parts.get(number)?;
        (self.part, self.name, self.file, self.cpu) = (number, name, bytes, cpu);
        self.next_packet = 0;
        Some(())
    }

    fn set_clock(&mut self, number: u8) {
        self.clock_number = number;
        self.clock = self.layout.clocks.get(usize::from(number));
        let plain = |clock: &&Clock| clock.frequency_hz == 1_000_000_000;
        self.offset_ns = match self.clock {
            None => Some(0),
            Some(clock) => Some(clock).filter(plain).map(Clock::offset_ns),
        };
    }

    #[inline(always)]
    fn to_ns(&self, cycles: u64) -> u64 {
        match (self.offset_ns, self.clock) {
            (Some(offset_ns), _) => offset_ns.saturating_add(cycles),
            (None, Some(clock)) => clock.time_ns(cycles),
            (None, None) => cycles,
        }
    }

    /// Goes on to the next event, or to what was lost before it.
    #[inline]
    pub fn advance(&mut self) {
        loop {
            if let Some(packet) = &self.packet
                && self.loss.is_none()
                && self.at < packet.bytes.end
            {
                match self.event(*packet) {
                    Ok(()) => return,
                    Err(what) => self.give_up(what),
                }
                continue;
            }
            if let Some(loss) = self.loss.take() {
                self.time_ns = self.time_ns.max(loss.from_ns);
                self.head = Some(Record::lost(self.time_ns, self.cpu, loss));
                return;
            }
            if self.open_packet().is_none() {
                self.head = None;
                return;
            }
        }
    }

    /// Goes to the event at the current place.
    #[inline(always)]
    fn event(&mut self, packet: Open<'t>) -> Result<(), &'static str> {
        let most = self.at.saturating_add(MAX_EVENT_BITS);
        let bytes = Bytes { end: packet.bytes.end.min(most), ..packet.bytes };
        let beyond = |_: Cut| match packet.bytes.end > most {
            true => "an event is longer than 1 MiB",
            false => "an event lies beyond the end",
        };
        let (head, context_at) = packet.class.header.read(bytes, self.at).map_err(beyond)?;
        let class =
            packet.class.class(head.kind).ok_or("an event is of a kind that is not known")?;
        let mut at = context_at;
        if packet.class.event_context.is_some() || class.context.is_some() {
            for context in [&packet.class.event_context, &class.context].into_iter().flatten() {
                at = skip_fields(context, bytes, at).map_err(beyond)?;
            }
        }
        let behind = class.skip(bytes, at).map_err(beyond)?;
        if behind == self.at {
            return Err("an event has no size");
        }
        self.at = behind;
        if head.time_bits > 0 {
            self.stamp(head.time, head.time_bits, head.clock);
        }
        let stream = packet.class;
        let located = Located { class, stream, bytes, context_at, fields_at: at };
        if packet.lacks_cpu {
            self.ask_cpu(located);
        }
        self.head = Some(Record::new(self.time_ns, self.cpu, located));
        Ok(())
    }

    /// Takes the CPU from the event itself.
    #[cold]
    fn ask_cpu(&mut self, event: Located<'t>) {
        let mut sought = Sought::default();
        event.visit_contexts(&mut sought, |_| {});
        event.visit(&mut sought);
        if let Some(cpu) = sought.found() {
            self.cpu = cpu;
            return;
        }
        let (name, cpu) = (self.name, self.parts.get(self.part).map_or(0, |(_, cpu)| *cpu));
        self.cpu = cpu;
        if self.damage.without_cpu == 0 {
            self.damage.note(|| {
                format!(
                    "{name}: neither its packets nor its events have a field `cpu_id`, so that no CPU is known; its events \
                     count as those of CPU {cpu}"
                )
            });
        }
        self.damage.without_cpu = self.damage.without_cpu.saturating_add(1);
    }

    /// Takes a time stamp over. One of fewer than 64 bits lacks the upper ones, and counts from zero again
    /// when it is full.
    #[inline(always)]
    fn stamp(&mut self, time: u64, time_bits: u32, clock: Option<u8>) {
        if let Some(number) = clock
            && number != self.clock_number
        {
            self.set_clock(number);
        }
        let mut cycles = time;
        if time_bits < 64 {
            let low = mask(time_bits);
            cycles = (self.cycles & !low) | time;
            if cycles < self.cycles {
                cycles = cycles.wrapping_add(low).wrapping_add(1);
            }
        }
        self.cycles = cycles;
        let time_ns = self.to_ns(cycles);
        if time_ns < self.time_ns {
            self.damage.backwards = self.damage.backwards.saturating_add(1);
        } else {
            self.time_ns = time_ns;
        }
    }

    /// Leaves the rest of a packet out.
    #[cold]
    fn give_up(&mut self, what: &'static str) {
        let Some(packet) = self.packet else { return };
        let left = packet.bytes.end.saturating_sub(self.at).div_ceil(8);
        let at = packet.begin as u64 + self.at / 8;
        let is_cut = packet.is_cut;
        self.at = packet.bytes.end;
        self.damage.unread_bytes = self.damage.unread_bytes.saturating_add(left);
        let name = self.name;
        if !is_cut {
            self.damage.note(|| {
                format!(
                    "{name}: {what}, at byte {at}; the {left} bytes left of its packet are not read"
                )
            });
        }
    }

    /// Goes on to the next packet; none at the end of the last file.
    #[cold]
    fn open_packet(&mut self) -> Option<()> {
        self.packet = None;
        loop {
            let at = self.next_packet;
            let Some(rest) = self.file.get(at..).filter(|rest| !rest.is_empty()) else {
                self.enter_part(self.part + 1)?;
                continue;
            };
            match open(self.layout, rest) {
                Ok(packet) => {
                    self.next_packet = at.saturating_add(packet.length).min(self.file.len());
                    self.enter(packet, at);
                    return Some(());
                }
                Err(what) => self.find_packet(rest, at, what),
            }
        }
    }

    /// When the packet begins that comes behind that byte of the file, as recorded.
    fn begin_behind(&self, at: usize) -> Option<u64> {
        let rest = self.file.get(at..).filter(|rest| !rest.is_empty());
        let rest = rest.or_else(|| Some(self.parts.get(self.part + 1)?.0.bytes))?;
        open(self.layout, rest).ok()?.context.begin
    }

    fn enter(&mut self, packet: Packet<'t>, at: usize) {
        if packet.missing > 0 {
            let (name, missing) = (self.name, packet.missing);
            self.damage.missing_bytes = self.damage.missing_bytes.saturating_add(missing);
            self.damage.note(|| {
                format!("{name}: the file ends within the packet at byte {at}; {missing} bytes are missing")
            });
        }
        if let Some(cpu) = packet.context.cpu {
            self.cpu = cpu;
        }
        let before = self.cycles;
        if let Some(begin) = packet.context.begin {
            self.cycles = begin;
        }
        self.count_lost(&packet, before);
        self.at = packet.events_at;
        let Packet { class, bytes, missing, context, .. } = packet;
        let (is_cut, lacks_cpu) = (missing > 0, context.cpu.is_none());
        self.packet = Some(Open { class, bytes, begin: at, is_cut, lacks_cpu });
    }

    /// What the stream lost between the packet before and the end of this one.
    fn count_lost(&mut self, packet: &Packet<'t>, before: u64) {
        let context = &packet.context;
        let is_first = context.sequence.is_none_or(|sequence| sequence == 0);
        let events = match (self.discarded, context.discarded) {
            // The counter may have 32 bits only, and counts from zero again.
            (Some(last), Some(now)) if now < last => (now as u32).wrapping_sub(last as u32).into(),
            (Some(last), Some(now)) => now - last,
            // What a recording lost before its first packet that is here is known of its begin only.
            (None, Some(now)) if is_first && self.ended.is_none() => now,
            _ => 0,
        };
        let packets = match (self.sequence, context.sequence) {
            (Some(last), Some(now)) => now.saturating_sub(last.saturating_add(1)),
            _ => 0,
        };
        if events > 0 || packets > 0 {
            let from = match self.ended {
                // The end that a packet says may lie before its last event.
                Some(ended) => ended.max(before),
                None => context.begin.unwrap_or(before),
            };
            let to = context.bound().or_else(|| self.begin_behind(self.next_packet));
            let to = to.unwrap_or(from);
            let (from_ns, to_ns) = (self.to_ns(from), self.to_ns(to.max(from)));
            self.loss = Some(Loss { events, packets, from_ns, to_ns });
        }
        self.discarded = context.discarded.or(self.discarded);
        self.sequence = context.sequence.or(self.sequence);
        self.ended = context.bound().or(Some(self.cycles));
    }

    /// Looks for the next place where a packet may begin, by magic and number of the trace.
    fn find_packet(&mut self, rest: &'t [u8], at: usize, what: &'static str) {
        let magic = match self.layout.big {
            true => (MAGIC as u32).to_be_bytes(),
            false => (MAGIC as u32).to_le_bytes(),
        };
        let mut sought = magic.to_vec();
        sought.extend_from_slice(self.layout.uuid.as_ref().map_or(&[], |uuid| &uuid[..]));
        let is_known = self.layout.uuid.is_some() && self.layout.packet_header.is_some();
        let found = rest.get(1..).filter(|_| is_known).and_then(|later| {
            later.windows(sought.len()).position(|window| window == sought.as_slice())
        });
        let left_out = found.map_or(rest.len(), |place| place + 1);
        self.next_packet = at.saturating_add(left_out);
        self.damage.unread_bytes = self.damage.unread_bytes.saturating_add(left_out as u64);
        let name = self.name;
        self.damage.note(|| {
            format!("{name}: no packet at byte {at}: {what}; {left_out} bytes are not read")
        });
    }

    /// How far one of its files was read, in bytes.
    pub fn read_bytes(&self, part: usize) -> usize {
        match part.cmp(&self.part) {
            Ordering::Less => self.parts.get(part).map_or(0, |(file, _)| file.bytes.len()),
            Ordering::Equal => self
                .packet
                .map_or(self.next_packet, |packet| packet.begin.saturating_add(self.event_at())),
            Ordering::Greater => 0,
        }
    }

    /// Where the event that it is at lies behind its header, in bytes of its packet: a packet may be a whole file.
    fn event_at(&self) -> usize {
        let located = self.head.as_ref().and_then(|head| head.stored());
        (located.map_or(self.at, |event| event.context_at) / 8) as usize
    }

    /// Passes over packets whose events all come before that time: what a packet says of its end bounds nothing
    /// where a tracer crashed, or is an old one, so that the next one has to begin before that time, too.
    pub fn pass_until(&mut self, from_ns: u64) {
        while let Some(rest) = self.file.get(self.next_packet..)
            && let Ok(packet) = open(self.layout, rest)
            && packet.missing == 0
        {
            let context = packet.context;
            let behind = self.next_packet.saturating_add(packet.length);
            let is_before = |cycles: u64| self.to_ns(cycles) < from_ns;
            let next = self.begin_behind(behind).filter(|next| context.begin < Some(*next));
            if !next.is_some_and(is_before) || !context.end.is_none_or(is_before) {
                return;
            }
            self.next_packet = behind;
            self.discarded = context.discarded.or(self.discarded);
            self.sequence = context.sequence.or(self.sequence);
            self.ended = context.bound().or(context.begin);
            if behind >= self.file.len() {
                self.enter_part(self.part + 1);
            }
        }
    }
}

fn skip_fields(structure: &Struct, bytes: Bytes<'_>, at: u64) -> Result<u64, Cut> {
    let mut slots = [0; SLOTS];
    let begin = super::bits::aligned(at, structure.align);
    structure.fields.iter().try_fold(begin, |at, (_, node)| skip(node, bytes, at, &mut slots))
}
