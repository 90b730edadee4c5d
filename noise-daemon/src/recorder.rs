//! A stretch of the flight recorder, piece by piece: each is copied when the client has taken the one
//! before, so that a slow client costs no memory. What is overwritten until its turn comes is counted in
//! the answer.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noise_common::store::reading::{Gap, Missing, Piece};
use noise_common::store::{EventKind, Layout, PARTS, StoredEvent};
use noise_host::kernel::{EventStore, RecorderSize, Sizes, both_clocks};
use noise_serve::EventSource;
use noise_wire::events::{AnswerItem, ItemPlace, MOST_EVENTS, StretchHead};

use noise_keep::Latest;

/// What to say where the limits of this process leave less room than was configured.
pub fn shortened(sizes: Sizes, wanted: RecorderSize, layout: Layout) -> Option<String> {
    let (wanted, found) = (sizes.store(wanted), layout);
    if found.events() >= wanted.events() {
        return None;
    }
    let kib = |layout: Layout| u64::from(layout.events()) * size_of::<StoredEvent>() as u64 / 1024;
    let what = match kib(found) {
        0 => "there is no flight recorder".to_owned(),
        kib_found => format!(
            "the flight recorder has {kib_found} KiB for each CPU instead of {}",
            kib(wanted)
        ),
    };
    Some(format!(
        "{what}: the memory limit of this process (of its cgroup; before Linux 5.11 also ulimit -l, \
         LimitMEMLOCK=) leaves no more; raise it, or set a smaller size in [recorder]"
    ))
}

/// What answers requests for a stretch.
pub fn source(store: Arc<Mutex<EventStore>>) -> EventSource {
    // Addresses of one answer can be compared with those of another.
    let key = RandomState::new();
    Arc::new(move |since_ns, until_ns| {
        Box::new(StoreAnswer::new(Arc::clone(&store), key.clone(), since_ns, until_ns))
    })
}

/// What answers with the newest events of a source up to a time: all that the store has, or so many bytes of them.
pub fn latest(store: Arc<Mutex<EventStore>>, source: EventSource, most_bytes: u64) -> Latest {
    let most = most_bytes / size_of::<StoredEvent>() as u64;
    Arc::new(move |until_ns| {
        let since_ns = since(|since_ns| count(&store, since_ns), until_ns, most);
        source(since_ns, until_ns)
    })
}

/// Events of all CPUs that are as late as a time, about. Others wait for one part of it at most.
fn count(store: &Mutex<EventStore>, since_ns: u64) -> u64 {
    let of_part = |cpu: u32, part: usize| {
        let store = lock(store);
        let first = store.first_since(cpu, part, since_ns)?;
        Ok::<_, std::io::Error>(store.next(cpu, part)?.saturating_sub(first))
    };
    let cpus = lock(store).cpus();
    let parts = (0..cpus).flat_map(|cpu| (0..PARTS).map(move |part| (cpu, part)));
    parts.fold(0, |sum, (cpu, part)| sum.saturating_add(of_part(cpu, part).unwrap_or(0)))
}

/// From when on there are no more events than so many, to a part in a thousand of the time back to where twice
/// as far has too many; 0 where all are wanted.
fn since(count: impl Fn(u64) -> u64, until_ns: u64, most: u64) -> u64 {
    if count(0) <= most {
        return 0;
    }
    // At first doubled, as hours of a quiet host are in a recorder as well as milliseconds of a busy one.
    let (mut enough_ns, mut back_ns) = (0, 1_000_000);
    while back_ns < until_ns && count(until_ns - back_ns) <= most {
        (enough_ns, back_ns) = (back_ns, back_ns.saturating_mul(2));
    }
    let mut too_many_ns = back_ns.min(until_ns);
    while too_many_ns - enough_ns > back_ns / 1_000 {
        let middle_ns = enough_ns.midpoint(too_many_ns);
        match count(until_ns - middle_ns) <= most {
            true => enough_ns = middle_ns,
            false => too_many_ns = middle_ns,
        }
    }
    until_ns - enough_ns
}

/// An answer on its way.
struct StoreAnswer {
    store: Arc<Mutex<EventStore>>,
    key: RandomState,
    since_ns: u64,
    until_ns: u64,
    /// Number of the next event of each part when the request came: what is written later is not sent.
    ends: Vec<u64>,
    /// The part whose turn it is, and the number of its event that is next; `None` before its first.
    part: usize,
    from: Option<u64>,
    begun: bool,
    is_done: bool,
    sent: u64,
    missing: u64,
}

fn lock(store: &Mutex<EventStore>) -> MutexGuard<'_, EventStore> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StoreAnswer {
    fn new(store: Arc<Mutex<EventStore>>, key: RandomState, since_ns: u64, until_ns: u64) -> Self {
        let ends = {
            let store = lock(&store);
            let parts = (0..store.cpus()).flat_map(|cpu| (0..PARTS).map(move |part| (cpu, part)));
            parts.map(|(cpu, part)| store.next(cpu, part).unwrap_or(0)).collect()
        };
        Self {
            store,
            key,
            since_ns,
            until_ns,
            ends,
            part: 0,
            from: None,
            begun: false,
            is_done: false,
            sent: 0,
            missing: 0,
        }
    }

    /// Copies the next events of the part whose turn it is; goes on to the next part where there are none.
    fn copy(&mut self, end: u64, bytes: &mut Vec<u8>) -> std::io::Result<()> {
        let (cpu, part) = ((self.part / PARTS) as u32, self.part % PARTS);
        let place = ItemPlace { cpu, part: part as u8 };
        let store = Arc::clone(&self.store);
        let mut store = lock(&store);
        let from = match self.from {
            Some(from) => from,
            None => {
                let complete_from_ns = store.complete_from_ns(cpu, part)?;
                let classes = store.classes();
                let store_id = self.key.hash_one("store") as u32;
                AnswerItem::Part { place, complete_from_ns, classes, store: store_id }.write(bytes);
                store.first_since(cpu, part, self.since_ns)?
            }
        };
        let copied = store.copy(cpu, part, from..end, MOST_EVENTS)?;
        drop(store);
        let mut run = EventRun { place, first: 0, events: Vec::new() };
        let mut at = copied.wanted;
        for piece in copied.stretch().pieces() {
            match piece {
                Piece::Event(event) => {
                    if self.is_wanted(event) {
                        self.sent += 1;
                        run.push(at, self.veiled(*event));
                    } else {
                        run.flush(bytes);
                    }
                    at += 1;
                }
                Piece::Gap(Gap { missing, first, count }) => {
                    run.flush(bytes);
                    at += count;
                    // The newest of all may be on its way.
                    if missing == Missing::Overwritten || at != end {
                        self.missing += count;
                        AnswerItem::Missing { place, first, count }.write(bytes);
                    }
                }
            }
        }
        run.flush(bytes);
        let next = copied.first + copied.events.len() as u64;
        self.from = Some(next);
        if next >= end || copied.events.is_empty() {
            (self.part, self.from) = (self.part + 1, None);
        }
        Ok(())
    }

    fn is_wanted(&self, event: &StoredEvent) -> bool {
        (self.since_ns..=self.until_ns).contains(&event.time_ns)
    }

    /// The event with another number in the place of an address, always the same one: where things lie in
    /// the kernel's memory is no concern of those who may use the socket.
    fn veiled(&self, mut event: StoredEvent) -> StoredEvent {
        let has_address = matches!(
            event.kind(),
            Some(
                EventKind::NetQueue
                    | EventKind::NetXmit
                    | EventKind::NetReceive
                    | EventKind::NetDrop
                    | EventKind::TcpRetransmit
            )
        );
        if has_address {
            let [address, other] = event.words;
            event.words = [self.key.hash_one(address), other];
        }
        event
    }
}

/// Events of one part without a gap.
struct EventRun {
    place: ItemPlace,
    first: u64,
    events: Vec<StoredEvent>,
}

impl EventRun {
    fn push(&mut self, number: u64, event: StoredEvent) {
        if self.events.is_empty() {
            self.first = number;
        }
        self.events.push(event);
    }

    fn flush(&mut self, bytes: &mut Vec<u8>) {
        if !self.events.is_empty() {
            let (place, first) = (self.place, self.first);
            AnswerItem::Events { place, first, events: std::mem::take(&mut self.events) }
                .write(bytes);
        }
    }
}

impl Iterator for StoreAnswer {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        if !self.begun {
            self.begun = true;
            let (monotonic_ns, realtime_ns) = both_clocks();
            let head = StretchHead {
                cpus: (self.ends.len() / PARTS) as u32,
                monotonic_ns,
                realtime_ns,
                since_ns: self.since_ns,
                until_ns: self.until_ns,
            };
            head.write(&mut bytes);
            return Some(bytes);
        }
        if self.is_done {
            return None;
        }
        let Some(end) = self.ends.get(self.part).copied() else {
            self.is_done = true;
            AnswerItem::End { events: self.sent, missing: self.missing }.write(&mut bytes);
            return Some(bytes);
        };
        if let Err(error) = self.copy(end, &mut bytes) {
            // Without its end the answer is known to be cut off.
            tracing::error!(%error, "cannot read the flight recorder");
            self.is_done = true;
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_events_are_taken_where_there_are_too_many() {
        // One each microsecond, and so many in all.
        let of = |all: u64| move |since_ns: u64| all.min((1_000_000_000 - since_ns) / 1_000);
        let until_ns = 1_000_000_000;
        assert_eq!(since(of(50_000), until_ns, 50_000), 0);
        for most in [1, 10, 3_000, 49_999] {
            let since_ns = since(of(50_000), until_ns, most);
            let found = of(50_000)(since_ns);
            assert!(found <= most && found + 2 + most / 100 >= most, "{found} of {most}");
        }
        assert_eq!(since(|_| 7, until_ns, 0), until_ns);
        assert_eq!(since(|_| 7, 5, 0), 5);
    }

    #[test]
    fn less_than_was_configured_is_said() {
        let sizes = Sizes { cpus: 2, pids: 32_768, cells: 256 };
        let size = |per_cpu| RecorderSize { per_cpu, all: 64 << 20 };
        let said = |per_cpu| shortened(sizes, size(1 << 20), sizes.store(size(per_cpu)));
        assert_eq!(said(1 << 20), None);
        let less = said(256 << 10).unwrap();
        assert!(
            less.starts_with("the flight recorder has 256 KiB for each CPU instead of 1024:"),
            "{less}"
        );
        let none = said(0).unwrap();
        assert!(none.starts_with("there is no flight recorder: "), "{none}");
    }
}
