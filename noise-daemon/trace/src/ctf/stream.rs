//! One stream: its packets one after the other, through all its files, and the events in them.

mod bounds;
mod cuts;
mod place;

pub use place::{CtfRecord, Located};

use std::collections::BTreeSet;

use self::place::{Missed, RecordPlace, locate};
use super::bits::mask;
use super::cpu::Sought;
use super::files::StreamFile;
use super::layout::{StreamClass, TraceLayout};
use super::packet::{ENDS, PacketHead, open};
use super::walk::Bytes;
use crate::clock::TraceClock;
use crate::damage::{Damage, StreamCut};
use crate::event::LostEvents;
use crate::follow::MAX_CPUS;
use crate::record::Stored as _;
use crate::window::{Content, Window};

/// Bits of one event. LTTng's are no longer than its sub-buffers, of 1 MiB unless they were made larger; perf's
/// end at 64 KiB. What is longer is not an event, but costs time and memory where it is shown.
const MAX_EVENT_BITS: u64 = 8 << 20;

/// Places one after the other that begin as packets do, and are none. Each may take reading a window: who writes
/// nothing else into a file has it read as often as it has such places.
const MAX_FALSE_BEGINS: u32 = 64;

enum StreamItem<'t> {
    Event(RecordPlace<'t>),
    Lost(LostEvents),
    End,
}

#[derive(Clone, Copy)]
struct CurrentPacket<'t> {
    class: &'t StreamClass,
    /// Of the file, the byte that its window begins at: that of the packet, or so many of the widest alignment behind
    /// it. All places in bits are counted from there.
    begin: u64,
    /// Where its content ends, in bits.
    end: u64,
    /// How far the window has it, in bits.
    seen: u64,
    /// Whether the file ends in its content.
    is_cut: bool,
    /// Whether it does not say of which CPU it is.
    lacks_cpu: bool,
}

/// Goes over one stream.
pub struct Stream<'t> {
    /// The event that it is at, or what was lost before it.
    head: StreamItem<'t>,
    layout: &'t TraceLayout,
    /// Its files, each with the CPU of packets that name none.
    parts: Vec<(StreamFile<'t>, u32)>,
    /// The number of the one that is read, its name, and what is looked at of it.
    part: usize,
    name: &'t str,
    window: Window<'t>,
    /// Bytes of the files before.
    passed: u64,
    /// Of the file, begins of the packet that is read and of the one behind it.
    packet_at: u64,
    next_packet: u64,
    /// Places that began as packets do, and were none, since the last that was one.
    false_begins: u32,
    packet: Option<CurrentPacket<'t>>,
    /// Where the next event begins, in bits of the window.
    at: u64,
    cpu: u32,
    /// CPUs that events named themselves.
    named_cpus: BTreeSet<u32>,
    /// Whether it was said that CPUs are not in the order of time.
    is_mixed: bool,
    /// The latest time, as recorded.
    cycles: u64,
    clock: Option<&'t TraceClock>,
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
    /// Said before the next event, of each of these CPUs.
    loss: Option<LostEvents>,
    loss_on: Vec<u32>,
    /// When its first packet begins that is here, nanoseconds since the epoch, where others came before it.
    known_from_ns: Option<u64>,
    /// When its latest packet was closed, nanoseconds since the epoch, where that says how long its CPU was seen.
    closed_ns: Option<u64>,
    /// The longest time between two of its packets, nanoseconds: a CPU without events has none.
    pause_ns: u64,
    /// Whether something was left out since its latest event.
    is_cut: bool,
    /// Where its file ends too early, until what lies before that was read.
    torn: Option<StreamCut>,
    pub damage: Damage,
}

impl<'t> Stream<'t> {
    /// One that begins at the begin of the first of its files, each of which comes with the CPU of packets
    /// that name none. So many bytes are read at once.
    pub fn new(layout: &'t TraceLayout, parts: Vec<(StreamFile<'t>, u32)>, window: usize) -> Self {
        let mut stream = Self {
            head: StreamItem::End,
            layout,
            parts,
            part: 0,
            name: "",
            window: Window::new(Content::Held(&[]), window),
            passed: 0,
            packet_at: 0,
            next_packet: 0,
            false_begins: 0,
            packet: None,
            at: 0,
            cpu: 0,
            named_cpus: BTreeSet::new(),
            is_mixed: false,
            cycles: 0,
            clock: None,
            clock_number: 0,
            offset_ns: Some(0),
            time_ns: 0,
            ended: None,
            discarded: None,
            sequence: None,
            loss: None,
            loss_on: Vec::new(),
            known_from_ns: None,
            closed_ns: None,
            pause_ns: 0,
            is_cut: false,
            torn: None,
            damage: Damage::default(),
        };
        stream.set_clock(0);
        stream.enter_part(0);
        stream
    }

    /// Goes to the begin of one of its files; none where it has no such.
    fn enter_part(&mut self, number: usize) -> Option<()> {
        self.note_torn();
        let (StreamFile { name, content }, cpu) = *self.parts.get(number)?;
        self.passed = self.passed.saturating_add(self.window.announced());
        self.window.turn_to(content);
        (self.part, self.name, self.cpu) = (number, name, cpu);
        (self.next_packet, self.false_begins) = (0, 0);
        Some(())
    }

    fn set_clock(&mut self, number: u8) {
        self.clock_number = number;
        self.clock = self.layout.clocks.get(usize::from(number));
        let plain = |clock: &&TraceClock| clock.frequency_hz == 1_000_000_000;
        self.offset_ns = match self.clock {
            None => Some(0),
            Some(clock) => Some(clock).filter(plain).map(TraceClock::offset_ns),
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

    /// The event that it is at, or what was lost before it.
    #[inline(always)]
    pub fn record(&self) -> Option<CtfRecord<'_>> {
        match &self.head {
            StreamItem::Event(place) => {
                Some(CtfRecord::new(self.time_ns, self.cpu, Located::new(place, &self.window)))
            }
            StreamItem::Lost(loss) => Some(CtfRecord::lost(self.time_ns, self.cpu, *loss)),
            StreamItem::End => None,
        }
    }

    /// When that is, nanoseconds since the epoch; none at the end.
    #[inline(always)]
    pub const fn next_ns(&self) -> Option<u64> {
        match self.head {
            StreamItem::Event(_) | StreamItem::Lost(_) => Some(self.time_ns),
            StreamItem::End => None,
        }
    }

    /// Goes on to the next event, or to what was lost before it.
    #[inline(always)]
    pub fn advance(&mut self) {
        // Nearly always the window has all of it. Else it is looked at once more, away from this.
        if let Some(packet) = self.packet_with_more()
            && self.event(packet).is_ok()
        {
            return;
        }
        self.advance_beyond();
    }

    /// The packet, where it is not at its end, and nothing was lost before it.
    #[inline(always)]
    fn packet_with_more(&self) -> Option<CurrentPacket<'t>> {
        self.packet.filter(|packet| self.loss.is_none() && self.at < packet.end)
    }

    #[inline(never)]
    fn advance_beyond(&mut self) {
        loop {
            if let Some(packet) = self.packet_with_more() {
                let most = self.at.saturating_add(MAX_EVENT_BITS);
                let what = match self.event(packet) {
                    Ok(()) => return,
                    Err(Missed::Cut) if packet.seen < packet.end.min(most) => {
                        self.read_on();
                        continue;
                    }
                    Err(Missed::Cut) if packet.end > most => "an event is longer than 1 MiB",
                    Err(Missed::Cut) => "an event lies beyond the end",
                    Err(Missed::Empty) => "an event has too many fields without a size",
                    Err(Missed::Kind) => "an event is of a kind that is not known",
                    Err(Missed::Size) => "an event has no size",
                };
                self.give_up(what);
                continue;
            }
            if let Some(loss) = self.next_loss() {
                self.time_ns = self.time_ns.max(loss.from_ns);
                self.head = StreamItem::Lost(loss);
                return;
            }
            if self.open_packet().is_none() {
                self.head = StreamItem::End;
                self.window.close();
                return;
            }
        }
    }

    /// What was lost, as a loss of the next CPU that it is of. How much that was is said of the first one.
    fn next_loss(&mut self) -> Option<LostEvents> {
        let loss = self.loss.take()?;
        self.cpu = self.loss_on.pop().unwrap_or(self.cpu);
        if !self.loss_on.is_empty() {
            self.loss = Some(LostEvents { events: 0, packets: 0, ..loss });
        }
        Some(loss)
    }

    /// Goes to the event at the current place. Where there is none, nothing is changed.
    #[inline(always)]
    fn event(&mut self, packet: CurrentPacket<'t>) -> Result<(), Missed> {
        let most = self.at.saturating_add(MAX_EVENT_BITS);
        let bytes = Bytes { bytes: self.window.seen(), end: packet.seen.min(most) };
        let (head, place, behind) = locate(packet.class, bytes, self.at)?;
        if behind == self.at {
            return Err(Missed::Size);
        }
        self.at = behind;
        if head.time_bits > 0 {
            self.stamp(head.time, head.time_bits, head.clock);
        }
        if packet.lacks_cpu {
            self.ask_cpu(&place, head.cpu);
        }
        self.head = StreamItem::Event(place);
        Ok(())
    }

    /// Reads on, in a window that begins with the event at hand.
    #[cold]
    fn read_on(&mut self) {
        let Some(packet) = &mut self.packet else { return };
        let align = (self.layout.widest / 8).max(1);
        let skipped = self.at / 8 / align * align;
        packet.begin = packet.begin.saturating_add(skipped);
        packet.end = packet.end.saturating_sub(8 * skipped);
        self.at -= 8 * skipped;
        // More than there was, up to what the longest event needs.
        let had = (packet.seen / 8).saturating_sub(skipped);
        let most = (MAX_EVENT_BITS / 8).saturating_add(align).saturating_add(1);
        let least = (self.window.usual() as u64).max(2 * had).min(most);
        let seen = self.window.view(packet.begin, least as usize).len() as u64;
        let there = self.window.length().saturating_sub(packet.begin).saturating_mul(8);
        packet.is_cut |= there < packet.end;
        self.is_cut |= packet.is_cut;
        packet.end = packet.end.min(there);
        packet.seen = packet.end.min(seen.saturating_mul(8));
        self.note_short();
    }

    /// Takes the CPU from the event itself: from its header, or else from a field.
    #[cold]
    fn ask_cpu(&mut self, place: &RecordPlace<'t>, in_header: Option<u32>) {
        let in_field = || {
            let mut sought = Sought::default();
            let event = Located::new(place, &self.window);
            event.visit_contexts(&mut sought, |_| {});
            event.visit(&mut sought);
            sought.found()
        };
        if let Some(cpu) = in_header.or_else(in_field) {
            self.cpu = cpu;
            if (cpu as usize) < MAX_CPUS {
                self.named_cpus.insert(cpu);
            }
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

    /// Goes on to the next packet; none at the end of the last file.
    #[cold]
    fn open_packet(&mut self) -> Option<()> {
        self.packet = None;
        loop {
            let at = self.next_packet;
            if at >= self.window.length() {
                self.enter_part(self.part + 1)?;
                continue;
            }
            let opened = open(self.layout, &mut self.window, at);
            self.note_short();
            match opened {
                Ok(packet) => {
                    self.false_begins = 0;
                    (self.packet_at, self.next_packet) = (at, at.saturating_add(packet.length));
                    self.enter(packet, at);
                    return Some(());
                }
                // That it was cut is said.
                Err(ENDS) if self.window.is_short() => {
                    let left = self.window.length().saturating_sub(at);
                    self.is_cut = true;
                    self.tear(at, left, 0, ENDS);
                    self.next_packet = self.window.length().max(at);
                }
                Err(what) => self.find_packet(at, what),
            }
        }
    }

    /// When the packet begins that comes behind that byte of the file, as recorded.
    fn begin_behind(&mut self, at: u64) -> Option<u64> {
        let packet = if at < self.window.length() {
            open(self.layout, &mut self.window, at)
        } else {
            let (next, _) = self.parts.get(self.part + 1)?;
            open(self.layout, &mut Window::new(next.content, self.window.usual()), 0)
        };
        packet.ok()?.context.begin
    }

    fn enter(&mut self, packet: PacketHead<'t>, at: u64) {
        self.note_mixed(&packet, at);
        if let Some(cpu) = packet.context.cpu {
            self.cpu = cpu;
        }
        if packet.missing > 0 {
            let byte = self.window.place(at);
            let what = format!("the file ends within the packet at byte {byte}");
            self.tear(at, 0, packet.missing, what);
        }
        let before = self.cycles;
        if let Some(begin) = packet.context.begin {
            self.cycles = begin;
        }
        let ended = self.ended;
        self.count_lost(&packet, before);
        if self.loss.is_some() {
            // The lowest comes first.
            self.loss_on = self.cpus();
            self.loss_on.reverse();
        }
        self.note_bounds(&packet, ended);
        self.at = packet.events_at;
        let PacketHead { class, end, is_cut, context, .. } = packet;
        // A look at the packet behind may have moved the window.
        let seen = self.window.view(at, 0).len() as u64;
        let (seen, lacks_cpu) = (end.min(seen.saturating_mul(8)), context.cpu.is_none());
        self.packet = Some(CurrentPacket { class, begin: at, end, seen, is_cut, lacks_cpu });
    }

    /// What the stream lost between the packet before and the end of this one.
    fn count_lost(&mut self, packet: &PacketHead<'t>, before: u64) {
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
        let is_counted = events > 0 || packets > 0;
        let is_left_out = self.is_cut && self.ended.is_some();
        if is_counted || is_left_out {
            let from = match self.ended {
                _ if is_left_out => before,
                // The end that a packet says may lie before its last event, or far behind the next packet.
                Some(ended) => ended.max(before).min(context.begin.unwrap_or(u64::MAX)),
                None => context.begin.unwrap_or(before),
            };
            let to = match is_counted {
                true => context.bound().or_else(|| self.begin_behind(self.next_packet)),
                false => context.begin,
            };
            let to = to.unwrap_or(from);
            let (from_ns, to_ns) = (self.to_ns(from), self.to_ns(to.max(from)));
            self.loss = Some(LostEvents { events, packets, from_ns, to_ns });
        }
        self.discarded = context.discarded.or(self.discarded);
        self.sequence = context.sequence.or(self.sequence);
        self.ended = context.bound().or(Some(self.cycles));
    }

    /// How far its files were read, in bytes.
    pub fn read_bytes(&self) -> u64 {
        let at = match &self.packet {
            Some(packet) => packet.begin.saturating_add(self.at / 8),
            None => self.next_packet,
        };
        self.passed.saturating_add(at.min(self.window.announced()))
    }

    /// Passes over packets whose events all come before that time: what a packet says of its end bounds nothing
    /// where a tracer crashed, or is an old one, so that the next one has to begin before that time, too.
    pub fn pass_until(&mut self, from_ns: u64) {
        while self.next_packet < self.window.length()
            && let Ok(packet) = open(self.layout, &mut self.window, self.next_packet)
            && !packet.is_cut
        {
            let context = packet.context;
            let behind = self.next_packet.saturating_add(packet.length);
            let next = self.begin_behind(behind).filter(|next| context.begin < Some(*next));
            let is_before = |cycles: u64| self.to_ns(cycles) < from_ns;
            if !next.is_some_and(is_before) || !context.end.is_none_or(is_before) {
                return;
            }
            self.next_packet = behind;
            self.discarded = context.discarded.or(self.discarded);
            self.sequence = context.sequence.or(self.sequence);
            self.ended = context.bound().or(context.begin);
            if behind >= self.window.length() {
                self.enter_part(self.part + 1);
            }
        }
    }
}
