//! Events of one CPU's parts of the store in the order of time.

use noise_common::store::reading::{PartStretch, Piece};
use noise_common::store::{EventKind, PARTS, StoredEvent};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderedItem {
    Event(StoredEvent),
    Lost {
        events: u64,
        /// Not before then, ns.
        from_ns: u64,
        /// Not after then, ns.
        until_ns: u64,
    },
}

impl OrderedItem {
    fn time_ns(&self) -> u64 {
        match self {
            Self::Event(event) => event.time_ns,
            Self::Lost { from_ns, .. } => *from_ns,
        }
    }

    fn is_of_a_wait(&self) -> bool {
        matches!(self, Self::Event(event) if event.kind() == Some(EventKind::Throttled))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct PartWatermark {
    /// Time of its latest event.
    last_ns: u64,
    /// Events that are missing behind it.
    missing: u64,
    /// Others that are, unless they come.
    absent: u64,
}

/// The events that are not written yet.
#[derive(Debug)]
pub struct Order {
    parts: [PartWatermark; PARTS],
    items: Vec<OrderedItem>,
    /// Of these, the ones that were taken.
    taken: usize,
    /// Whether others were added since they were put into order.
    has_new: bool,
}

impl Order {
    /// Of a recording that begins at a time.
    pub fn new(begin_ns: u64) -> Self {
        Self {
            parts: [PartWatermark { last_ns: begin_ns, ..PartWatermark::default() }; PARTS],
            items: Vec::new(),
            taken: 0,
            has_new: false,
        }
    }

    /// Takes a stretch, up to the number `next`, with which the part's next stretch begins.
    pub fn add(&mut self, part: usize, stretch: PartStretch<'_>, next: u64) {
        let Some(part) = self.parts.get_mut(part) else { return };
        self.has_new = true;
        part.absent = 0;
        for piece in stretch.pieces() {
            match piece {
                Piece::Event(event) => {
                    if part.missing > 0 {
                        let (from_ns, until_ns) = (part.last_ns, event.time_ns);
                        let events = std::mem::take(&mut part.missing);
                        self.items.push(OrderedItem::Lost { events, from_ns, until_ns });
                    }
                    part.last_ns = part.last_ns.max(event.time_ns);
                    self.items.push(OrderedItem::Event(*event));
                }
                Piece::Gap(gap) => {
                    let end = gap.first.saturating_add(gap.count).min(next);
                    part.missing += end.saturating_sub(gap.first);
                }
            }
        }
    }

    /// Events of a part are missing behind those that were added, unless they are added later.
    pub fn missing(&mut self, part: usize, events: u64) {
        if let Some(part) = self.parts.get_mut(part) {
            part.absent = events;
        }
    }

    /// Events are missing that were in no part.
    pub fn lost(&mut self, events: u64, from_ns: u64, until_ns: u64) {
        if events > 0 {
            self.items.push(OrderedItem::Lost { events, from_ns, until_ns });
            self.has_new = true;
        }
    }

    /// No more stretches come. What is missing behind the latest events is so up to the end, and with it.
    pub fn end(&mut self, end_ns: u64) {
        for part in &mut self.parts {
            let events = std::mem::take(&mut part.missing);
            let events = events.saturating_add(std::mem::take(&mut part.absent));
            if events > 0 {
                let from_ns = part.last_ns;
                self.has_new = true;
                self.items.push(OrderedItem::Lost {
                    events,
                    from_ns,
                    until_ns: end_ns.max(from_ns).saturating_add(1),
                });
            }
        }
    }

    /// Puts them into the order of time. Nearly all are; but what a quota took of a wait is written behind the event that
    /// ends the wait, and comes before it. Whether any were added since.
    pub fn sort(&mut self) -> bool {
        let has_new = std::mem::take(&mut self.has_new);
        if let Some(left) = self.items.get_mut(self.taken..).filter(|_| has_new) {
            left.sort_by_key(|item| (item.time_ns(), !item.is_of_a_wait()));
        }
        has_new
    }

    /// The time of the next one, if it is before another time.
    pub fn next_before(&self, until_ns: u64) -> Option<u64> {
        let time_ns = self.items.get(self.taken)?.time_ns();
        (time_ns < until_ns || until_ns == u64::MAX).then_some(time_ns)
    }

    pub fn take(&mut self) -> Option<OrderedItem> {
        let item = self.items.get(self.taken).copied()?;
        self.taken += 1;
        Some(item)
    }

    /// Gives their memory to those that come, where it is most of it: what is left has to be moved for that.
    pub fn forget_taken(&mut self) {
        if self.taken > self.items.len() / 2 {
            self.items.drain(..self.taken);
            self.taken = 0;
        }
    }
}
