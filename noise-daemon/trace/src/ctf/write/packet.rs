//! Packets of one CPU's stream.

use super::Uuid;
use super::classes::number;
use super::encode::fields;
use crate::ctf::packet::MAGIC;
use crate::event::Kind;

/// Bytes of a packet's head: what it is, then its context.
const HEAD_BYTES: usize = 84;
/// Where in it the end of its time is, its content's size, and the packet's.
const END_AT: usize = 40;
const SIZES_AT: usize = 48;
/// Where the number of lost events is.
const DISCARDED_AT: usize = 72;

/// Bits of the number in the short head of an event; all ones announce the long head.
const NUMBER_BITS: u32 = 5;
const LONG: u32 = (1 << NUMBER_BITS) - 1;
/// Nanoseconds since the event before that the short head has room for.
const SHORT_NS: u64 = 1 << (32 - NUMBER_BITS);

/// Makes packets of events. Memory is bounded by what the caller leaves in [`StreamWriter::take`].
#[derive(Debug)]
pub struct StreamWriter {
    uuid: Uuid,
    cpu: u32,
    most_bytes: usize,
    /// Whole packets.
    whole: Vec<u8>,
    /// The packet that is being filled; empty where none is.
    open: Vec<u8>,
    /// Time of the latest event.
    last_ns: u64,
    /// Number of the next packet.
    sequence: u64,
    /// Events that were lost since the begin.
    discarded: u64,
    /// A loss ends at that time, and so does the packet that counts it.
    loss_until_ns: Option<u64>,
    /// Events that came with an earlier time than the one before.
    late: u64,
}

impl StreamWriter {
    /// The stream of a CPU; a packet is whole when it has `most_bytes` or somewhat more.
    pub fn new(uuid: Uuid, cpu: u32, most_bytes: usize) -> Self {
        Self {
            uuid,
            cpu,
            most_bytes,
            whole: Vec::new(),
            open: Vec::new(),
            last_ns: 0,
            sequence: 0,
            discarded: 0,
            loss_until_ns: None,
            late: 0,
        }
    }

    /// Adds an event. One that is earlier than the one before gets that one's time. Kinds that are not
    /// recorded are passed over; whether it was added.
    #[inline]
    pub fn event(&mut self, time_ns: u64, kind: &Kind<'_>) -> bool {
        let Some(number) = number(kind) else { return false };
        if self.loss_until_ns.is_some_and(|until_ns| until_ns <= time_ns) {
            self.end_loss();
        }
        if time_ns < self.last_ns {
            self.late += 1;
        }
        let time_ns = time_ns.max(self.last_ns);
        if self.open.is_empty() {
            self.begin(time_ns);
        }
        if number < LONG && time_ns - self.last_ns < SHORT_NS {
            let head = number | (time_ns as u32) << NUMBER_BITS;
            self.open.extend_from_slice(&head.to_le_bytes());
        } else {
            self.open.push(LONG as u8);
            self.open.extend_from_slice(&number.to_le_bytes());
            self.open.extend_from_slice(&time_ns.to_le_bytes());
        }
        fields(kind, &mut self.open);
        self.last_ns = time_ns;
        if self.open.len() >= self.most_bytes {
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
        let from_ns = from_ns.max(self.last_ns);
        if self.loss_until_ns.is_none() {
            self.close();
            self.begin(from_ns);
        }
        self.discarded = self.discarded.saturating_add(events);
        let until_ns = until_ns.max(from_ns);
        self.loss_until_ns = Some(self.loss_until_ns.map_or(until_ns, |other| other.max(until_ns)));
        self.put(DISCARDED_AT, self.discarded);
    }

    /// Ends the packet that is being filled, if there is one.
    pub fn flush(&mut self) {
        match self.loss_until_ns {
            Some(_) => self.end_loss(),
            None => self.close(),
        }
    }

    /// Takes the whole packets.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.whole)
    }

    /// The whole packets that were not taken, bytes.
    pub fn whole_bytes(&self) -> usize {
        self.whole.len()
    }

    /// Events that were counted as lost.
    pub fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Events that came later than their time.
    pub fn late(&self) -> u64 {
        self.late
    }

    fn end_loss(&mut self) {
        let until_ns = self.loss_until_ns.take();
        self.last_ns = self.last_ns.max(until_ns.unwrap_or(0));
        self.close();
    }

    fn begin(&mut self, time_ns: u64) {
        self.last_ns = time_ns;
        let open = &mut self.open;
        open.extend_from_slice(&(MAGIC as u32).to_le_bytes());
        open.extend_from_slice(&self.uuid);
        open.extend_from_slice(&0_u32.to_le_bytes());
        open.extend_from_slice(&u64::from(self.cpu).to_le_bytes());
        for number in [time_ns, time_ns, 0, 0, self.sequence, self.discarded] {
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
        self.put(END_AT, self.last_ns);
        let bits = 8 * self.open.len() as u64;
        self.put(SIZES_AT, bits);
        self.put(SIZES_AT + 8, bits);
        self.sequence += 1;
        self.whole.append(&mut self.open);
    }
}

const _: () = assert!(HEAD_BYTES == DISCARDED_AT + 8 + 4);
