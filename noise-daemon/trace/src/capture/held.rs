//! Events of the store that are held in memory, as a source of events beside recordings and texts.
//!
//! Names are looked up while events come, and what an event says depends on the switches, forks and exits before it. So an
//! event is converted once, when it comes, and is held as an event of the model. As such it would take 104 bytes, or 40 as
//! an event of the store with its names; packed as recordings have it, it takes 19 on a host that mostly switches and
//! handles timers. So it is held packed, and read by the table of events that packed it: nothing is said in metadata, and
//! nothing is parsed.
//!
//! Times and losses come from the packets, and are what a reader of the recording would say.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::ctf::write::{PacketView, Packets, split_head};
use crate::damage::Damage;
use crate::event::{LostEvents, TraceKind};
use crate::events::{RECORDED_EVENTS, RecordedEvent, unpack};
use crate::record::{Record, Source, Stored};
use crate::value::Visit;

#[derive(Clone, Copy)]
pub struct HeldEvent<'t> {
    number: usize,
    of: &'static RecordedEvent,
    kind: TraceKind<'t>,
    fields: &'t [u8],
}

impl<'t> Stored<'t> for HeldEvent<'t> {
    fn name(&self) -> &'t str {
        &self.of.name
    }

    fn number(&self) -> Option<usize> {
        Some(self.number)
    }

    #[inline]
    fn kind(&self) -> TraceKind<'t> {
        self.kind
    }

    fn visit(&self, visit: &mut impl Visit) {
        let mut fields = self.fields;
        for (name, declared) in &self.of.fields {
            // As the metadata name it.
            visit.name(name);
            fields = declared.show(fields, visit);
        }
    }

    fn visit_contexts<V: Visit>(&self, _: &mut V, _: impl FnMut(&mut V)) {}
}

#[derive(Clone, Copy)]
enum HeldItem<'t> {
    /// The number of an event, and its fields with what is behind them.
    Event(u32, &'t [u8]),
    Lost(LostEvents),
}

/// The events of one CPU.
struct HeldStream<'t> {
    cpu: u32,
    offset_ns: u64,
    packets: &'t [u8],
    /// Those of the packet that is read.
    events: &'t [u8],
    /// Time of the latest event, or of the begin of the packet, on the clock of the packets.
    clock_ns: u64,
    /// When the packet ends, on the same clock.
    end_ns: Option<u64>,
    discarded: u64,
    next: Option<HeldItem<'t>>,
}

impl<'t> HeldStream<'t> {
    fn new(cpu: u32, packets: &'t Packets, offset_ns: u64) -> Self {
        Self {
            cpu,
            offset_ns,
            packets: packets.bytes(),
            events: &[],
            clock_ns: 0,
            end_ns: None,
            discarded: 0,
            next: None,
        }
    }

    /// Goes to the next event or loss; when that is, in real time.
    fn advance(&mut self) -> Option<u64> {
        loop {
            if let Some((number, time_ns, fields)) = split_head(self.events, self.clock_ns) {
                self.clock_ns = time_ns;
                self.next = Some(HeldItem::Event(number, fields));
                return Some(time_ns.saturating_add(self.offset_ns));
            }
            let (packet, rest) = PacketView::split(self.packets)?;
            (self.packets, self.events, self.clock_ns) = (rest, packet.events, packet.begin_ns);
            let from_ns = self.end_ns.replace(packet.end_ns).unwrap_or(packet.begin_ns);
            let before = std::mem::replace(&mut self.discarded, packet.discarded);
            let events = packet.discarded.saturating_sub(before);
            if events > 0 {
                let real_ns = |time_ns: u64| time_ns.saturating_add(self.offset_ns);
                let (from_ns, to_ns) = (real_ns(from_ns), real_ns(packet.end_ns.max(from_ns)));
                self.next = Some(HeldItem::Lost(LostEvents { events, packets: 0, from_ns, to_ns }));
                return Some(from_ns);
            }
        }
    }

    /// The next event or loss, and what is behind it becomes the next.
    fn take(&mut self) -> Option<Record<HeldEvent<'t>>> {
        let (number, fields) = match self.next.take()? {
            HeldItem::Event(number, fields) => (number as usize, fields),
            HeldItem::Lost(loss) => return Some(Record::lost(loss.from_ns, self.cpu, loss)),
        };
        let of = RECORDED_EVENTS.get(number)?;
        let (kind, rest) = unpack(of.what, fields)?;
        self.events = rest;
        let time_ns = self.clock_ns.saturating_add(self.offset_ns);
        Some(Record::new(time_ns, self.cpu, HeldEvent { number, of, kind, fields }))
    }
}

/// Goes over held events in the order of time; those of one time come in the order of their CPUs.
pub struct HeldReader<'t> {
    streams: Vec<HeldStream<'t>>,
    /// Whose turn it is when.
    turns: BinaryHeap<Reverse<(u64, usize)>>,
    /// The bytes of the packets of all CPUs.
    bytes: u64,
}

impl<'t> HeldReader<'t> {
    /// Of what a [`Capture`](super::Capture) wrote, from its begin to its end: the packets of each CPU. Real time is so far
    /// ahead of its clock.
    pub fn new(packets: &'t [Packets], offset_ns: u64) -> Self {
        let stream = |(cpu, packets)| HeldStream::new(cpu, packets, offset_ns);
        let mut streams: Vec<_> = (0..).zip(packets).map(stream).collect();
        let turn = |(place, stream): (usize, &mut HeldStream<'_>)| {
            stream.advance().map(|next_ns| Reverse((next_ns, place)))
        };
        let turns = streams.iter_mut().enumerate().filter_map(turn).collect();
        let bytes = packets.iter().map(|packets| packets.len() as u64).sum();
        Self { streams, turns, bytes }
    }
}

impl Source for HeldReader<'_> {
    type Stored<'r>
        = HeldEvent<'r>
    where
        Self: 'r;

    #[inline]
    fn read(&mut self) -> Option<Record<HeldEvent<'_>>> {
        let mut turn = self.turns.peek_mut()?;
        let Reverse((_, place)) = *turn;
        let stream = self.streams.get_mut(place)?;
        let record = stream.take();
        match stream.advance() {
            Some(next_ns) => *turn = Reverse((next_ns, place)),
            None => {
                PeekMut::pop(turn);
            }
        }
        record
    }

    fn next_ns(&mut self) -> Option<u64> {
        self.turns.peek().map(|turn| turn.0.0)
    }

    fn damage(&self) -> Damage {
        Damage::default()
    }

    fn read_bytes(&self) -> u64 {
        let left = self.streams.iter().map(|stream| stream.packets.len() + stream.events.len());
        self.bytes - left.sum::<usize>() as u64
    }
}
