//! Packets of one CPU's stream.

use super::Uuid;
use crate::ctf::packet::MAGIC;
use crate::event::TraceKind;
use crate::events;

/// Bytes of a packet's head: what it is, then its context. A packet without events has no more.
pub const HEAD_BYTES: usize = 84;
/// Where in it the begin and the end of its time are, its content's size, and the packet's.
const BEGIN_AT: usize = 32;
const END_AT: usize = 40;
const SIZES_AT: usize = 48;
/// Where its number is, and the number of lost events.
const SEQUENCE_AT: usize = 64;
const DISCARDED_AT: usize = 72;

/// Bits of the number in the short head of an event; all ones announce the long head.
const NUMBER_BITS: u32 = 5;
const LONG: u32 = (1 << NUMBER_BITS) - 1;
/// Nanoseconds since the event before that the short head has room for.
const SHORT_NS: u64 = 1 << (32 - NUMBER_BITS);

/// Whole packets of one stream, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    bytes: Vec<u8>,
    events: u64,
}

fn number_at(bytes: &[u8], at: usize) -> Option<u64> {
    let place = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*place))
}

impl Packets {
    /// As they are written to a file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of them all.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Events in them, without those of state dumps.
    pub fn events(&self) -> u64 {
        self.events
    }

    pub fn append(&mut self, mut next: Self) {
        self.bytes.append(&mut next.bytes);
        self.events += next.events;
    }

    /// What is written in their place where they cannot be: one packet of their time, without events,
    /// that counts theirs as lost.
    fn lost(&self) -> Option<Self> {
        let mut bytes = self.bytes.get(..HEAD_BYTES)?.to_vec();
        let (mut last, mut rest) = PacketView::split(&self.bytes)?;
        while let Some((next, behind)) = PacketView::split(rest) {
            (last, rest) = (next, behind);
        }
        let bits = 8 * HEAD_BYTES as u64;
        let discarded = last.discarded.saturating_add(self.events);
        for (at, number) in [
            (END_AT, last.end_ns),
            (SIZES_AT, bits),
            (SIZES_AT + 8, bits),
            (DISCARDED_AT, discarded),
        ] {
            bytes.get_mut(at..at + 8)?.copy_from_slice(&number.to_le_bytes());
        }
        Some(Self { bytes, events: 0 })
    }
}

#[derive(Clone, Copy, Debug)]
pub struct PacketView<'t> {
    pub begin_ns: u64,
    pub end_ns: u64,
    /// Events that its stream had lost by its end.
    pub discarded: u64,
    pub events: &'t [u8],
}

impl<'t> PacketView<'t> {
    /// The packet that bytes begin with, and what is behind it.
    pub fn split(bytes: &'t [u8]) -> Option<(Self, &'t [u8])> {
        let length = usize::try_from(number_at(bytes, SIZES_AT)? / 8).ok()?;
        let (packet, rest) = bytes.split_at_checked(length)?;
        let view = Self {
            begin_ns: number_at(packet, BEGIN_AT)?,
            end_ns: number_at(packet, END_AT)?,
            discarded: number_at(packet, DISCARDED_AT)?,
            events: packet.get(HEAD_BYTES..)?,
        };
        Some((view, rest))
    }
}

/// The number of the event that bytes begin with, its time, and its fields with what is behind them. `last_ns` is the time of
/// the event before, or the packet's begin.
#[inline]
pub fn split_head(bytes: &[u8], last_ns: u64) -> Option<(u32, u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    let head = u32::from_le_bytes(*number);
    if head & LONG != LONG {
        let low_ns = u64::from(head >> NUMBER_BITS);
        let time_ns = last_ns & !(SHORT_NS - 1) | low_ns;
        return Some((
            head & LONG,
            if time_ns < last_ns { time_ns + SHORT_NS } else { time_ns },
            rest,
        ));
    }
    let (number, rest) = bytes.get(1..)?.split_first_chunk()?;
    let (time_ns, rest) = rest.split_first_chunk()?;
    Some((u32::from_le_bytes(*number), u64::from_le_bytes(*time_ns), rest))
}

#[derive(Clone, Copy, Debug)]
struct StreamPosition {
    /// Time of the latest event, or of the end of the packet before. The next packet begins there, so that
    /// packets cover all the time of a stream …
    last_ns: u64,
    /// … but not before this.
    next_ns: u64,
    /// Number of the next packet.
    sequence: u64,
    /// Events that were lost since the begin.
    discarded: u64,
}

/// Makes packets of events. Memory is bounded by what the caller leaves in [`StreamWriter::take`].
#[derive(Debug)]
pub struct StreamWriter {
    uuid: Uuid,
    cpu: u32,
    most_bytes: usize,
    whole: Packets,
    /// The packet that is being filled; empty where none is.
    open: Vec<u8>,
    /// Events in it, without those of state dumps.
    open_events: u64,
    at: StreamPosition,
    /// Where it went on when packets were taken.
    taken: StreamPosition,
    /// A loss ends at that time, and so does the packet that counts it.
    loss_until_ns: Option<u64>,
    /// Events that came with an earlier time than the one before.
    late: u64,
}

impl StreamWriter {
    /// The stream of a CPU in a recording that begins at a time, as its first packet does; a packet is whole
    /// when it has `most_bytes` or somewhat more.
    pub fn new(uuid: Uuid, cpu: u32, most_bytes: usize, begin_ns: u64) -> Self {
        let at = StreamPosition { last_ns: begin_ns, next_ns: begin_ns, sequence: 0, discarded: 0 };
        Self {
            uuid,
            cpu,
            most_bytes,
            whole: Packets::default(),
            open: Vec::new(),
            open_events: 0,
            at,
            taken: at,
            loss_until_ns: None,
            late: 0,
        }
    }

    /// Adds an event. One that is earlier than the one before gets that one's time; one that would begin a
    /// packet at the time at which the packet before begins is put 1 ns later. Kinds that are not recorded
    /// are passed over; whether it was added.
    #[inline]
    pub fn event(&mut self, time_ns: u64, kind: &TraceKind<'_>) -> bool {
        let Some(number) = events::number(kind) else { return false };
        if self.loss_until_ns.is_some_and(|until_ns| until_ns <= time_ns) {
            self.end_loss();
        }
        // A state dump has one time, and the packets that it fills begin later.
        if time_ns < self.at.last_ns && !events::is_dumped(kind) {
            self.late += 1;
        }
        if self.open.is_empty() {
            self.begin(self.at.last_ns);
        }
        let last_ns = self.at.last_ns;
        let time_ns = time_ns.max(last_ns);
        if number < LONG && time_ns - last_ns < SHORT_NS {
            let head = number | (time_ns as u32) << NUMBER_BITS;
            self.open.extend_from_slice(&head.to_le_bytes());
        } else {
            self.open.push(LONG as u8);
            self.open.extend_from_slice(&number.to_le_bytes());
            self.open.extend_from_slice(&time_ns.to_le_bytes());
        }
        events::write(kind, &mut self.open);
        self.open_events += u64::from(!events::is_dumped(kind));
        self.at.last_ns = time_ns;
        // One that counts a loss ends with that, however long it is: what came behind it would not be said to be unknown.
        if self.open.len() >= self.most_bytes && self.loss_until_ns.is_none() {
            self.close();
        }
        true
    }

    /// Counts events that were lost between two times. What was added before is in a packet that ends
    /// at the begin, and what comes until the end is in one that counts them.
    pub fn lost(&mut self, events: u64, from_ns: u64, until_ns: u64) {
        if events == 0 {
            return;
        }
        let mut from_ns = from_ns.max(self.at.last_ns);
        if self.loss_until_ns.is_none() {
            if self.open.is_empty() && self.at.last_ns < from_ns {
                self.begin(self.at.last_ns);
            }
            from_ns = from_ns.max(self.at.last_ns);
            self.at.last_ns = from_ns;
            self.close();
            self.begin(from_ns);
        }
        self.at.discarded = self.at.discarded.saturating_add(events);
        let until_ns = until_ns.max(from_ns);
        self.loss_until_ns = Some(self.loss_until_ns.map_or(until_ns, |other| other.max(until_ns)));
        self.put(DISCARDED_AT, self.at.discarded);
    }

    /// Ends the packet that is being filled, if there is one.
    pub fn flush(&mut self) {
        match self.loss_until_ns {
            Some(_) => self.end_loss(),
            None => self.close(),
        }
    }

    /// Up to when the events were lost that the packet which is being filled counts; `None` where it counts none.
    pub const fn loss_until_ns(&self) -> Option<u64> {
        self.loss_until_ns
    }

    /// Takes the whole packets.
    pub fn take(&mut self) -> Packets {
        self.taken = self.at;
        std::mem::take(&mut self.whole)
    }

    pub fn whole_bytes(&self) -> usize {
        self.whole.len()
    }

    /// Bytes of the packet that is being filled.
    pub const fn open_bytes(&self) -> usize {
        self.open.len()
    }

    /// A packet without events, at a time: a file that begins with it shows what is lost afterwards.
    pub fn mark(&mut self, time_ns: u64) {
        self.flush();
        self.begin(time_ns.max(self.at.last_ns));
        self.close();
    }

    /// A file, or the recording, ends at a time: so does the last packet, which may have no events. A stream
    /// that has no packet so far stays without.
    pub fn end(&mut self, end_ns: u64) {
        if self.loss_until_ns.is_some() {
            self.end_loss();
        }
        if self.open.is_empty() {
            if self.at.sequence == 0 || self.at.last_ns >= end_ns {
                return;
            }
            self.begin(self.at.last_ns);
        }
        self.at.last_ns = self.at.last_ns.max(end_ns);
        self.close();
    }

    /// Forgets all that was added since packets were taken, when none was being filled.
    pub fn withdraw(&mut self) {
        self.whole = Packets::default();
        self.open.clear();
        self.open_events = 0;
        self.loss_until_ns = None;
        self.at = self.taken;
    }

    /// Packets that were just taken are not written: what is to be written in their place.
    pub fn give_up(&mut self, packets: &Packets) -> Packets {
        let Some(lost) = packets.lost() else { return Packets::default() };
        self.at.discarded = self.at.discarded.saturating_add(packets.events);
        self.put(DISCARDED_AT, self.at.discarded);
        // The next packet follows on the one that is written.
        self.at.sequence = number_at(&lost.bytes, SEQUENCE_AT).map_or(0, |number| number + 1);
        self.taken = self.at;
        lost
    }

    /// Time of the latest event, or of the end of the latest packet.
    pub fn last_ns(&self) -> u64 {
        self.at.last_ns
    }

    pub fn discarded(&self) -> u64 {
        self.at.discarded
    }

    /// Events that came later than their time.
    pub fn late(&self) -> u64 {
        self.late
    }

    fn end_loss(&mut self) {
        let until_ns = self.loss_until_ns.take();
        self.at.last_ns = self.at.last_ns.max(until_ns.unwrap_or(0));
        self.close();
    }

    /// Begins a packet later than the one before: babeltrace 2 orders them by that time.
    fn begin(&mut self, time_ns: u64) {
        let time_ns = time_ns.max(self.at.next_ns);
        self.at.next_ns = time_ns + 1;
        self.at.last_ns = time_ns;
        let open = &mut self.open;
        open.extend_from_slice(&(MAGIC as u32).to_le_bytes());
        open.extend_from_slice(&self.uuid);
        open.extend_from_slice(&0_u32.to_le_bytes());
        open.extend_from_slice(&u64::from(self.cpu).to_le_bytes());
        for number in [time_ns, time_ns, 0, 0, self.at.sequence, self.at.discarded] {
            open.extend_from_slice(&number.to_le_bytes());
        }
        open.extend_from_slice(&self.cpu.to_le_bytes());
    }

    fn put(&mut self, at: usize, number: u64) {
        if let Some(place) = self.open.get_mut(at..at + 8) {
            place.copy_from_slice(&number.to_le_bytes());
        }
    }

    fn close(&mut self) {
        if self.open.is_empty() {
            return;
        }
        self.put(END_AT, self.at.last_ns);
        let bits = 8 * self.open.len() as u64;
        self.put(SIZES_AT, bits);
        self.put(SIZES_AT + 8, bits);
        self.at.sequence += 1;
        self.whole.bytes.append(&mut self.open);
        self.whole.events += std::mem::take(&mut self.open_events);
    }
}

const _: () = assert!(HEAD_BYTES == DISCARDED_AT + 8 + 4);
