//! All streams of a trace, merged by time.
//!
//! Buffers of different CPUs go back differently far where a tracer overwrites the oldest packets (LTTng's snapshots, and
//! its rings of files). What a CPU did before its first packet is not known then, while events of others are there: a
//! loss of that CPU, which comes before all events. A chunk of a session that was rotated begins on all CPUs with the
//! rotation, to some microseconds, whenever its first packet begins: LTTng begins that with the first event of each CPU.
//!
//! Where a stream is cut, or its last packet was closed long before those of others, its CPU is not known from then on: a
//! loss that lasts up to the last event. What is seen of an idle CPU ends with the trace: tracers close its last packet
//! then.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::files::{StreamFile, chains};
use super::layout::Layout;
use super::stream::{Located, Record, Stream};
use crate::damage::Damage;
use crate::event::Loss;
use crate::record::Source;
use crate::window::{LEAST_WINDOW_BYTES, bytes_of_each};

/// Goes over all events of a trace in the order of time. Those of one time come in the order of their files.
pub struct Reader<'t> {
    streams: Vec<Stream<'t>>,
    /// What is not seen at the begin, by stream: these come first.
    unseen: std::vec::IntoIter<(u32, Loss)>,
    /// What is not seen behind the end of a stream: it comes next.
    behind: Option<(u32, Loss)>,
    /// When the last event of all happens, once that was asked for.
    last_ns: Option<u64>,
    /// The stream whose event is next.
    current: Option<usize>,
    /// Whether that event was handed out: then it is the latest one.
    is_lent: bool,
    /// The others that have events, by the time of the next one, and those that were read, by their ends. Events of one
    /// CPU come in bursts: as long as none of these is earlier, there is nothing to sort.
    others: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<'t> Reader<'t> {
    /// A reader of files with this layout.
    pub fn new(layout: &'t Layout, files: &[StreamFile<'t>]) -> Self {
        Self::from(layout, files, 0)
    }

    /// The same; packets whose events all come before `from_ns` are passed over unread. Events before that
    /// time may come nevertheless.
    pub fn from(layout: &'t Layout, files: &[StreamFile<'t>], from_ns: u64) -> Self {
        Self::in_windows(layout, files, from_ns, bytes_of_each(files.len()))
    }

    /// The same with windows of so many bytes.
    pub(super) fn in_windows(
        layout: &'t Layout,
        files: &[StreamFile<'t>],
        from_ns: u64,
        window: usize,
    ) -> Self {
        let chains = chains(layout, files, window.min(LEAST_WINDOW_BYTES));
        let mut streams = Vec::with_capacity(chains.len());
        let mut others = BinaryHeap::with_capacity(chains.len());
        for (number, chain) in chains.iter().enumerate() {
            let cpu = |file: usize, name| named_cpu(name).unwrap_or(file as u32);
            let parts = chain.iter().filter_map(|&file| Some((file, *files.get(file)?)));
            let parts = parts.map(|(file, part)| (part, cpu(file, part.name)));
            let mut stream = Stream::new(layout, parts.collect(), window);
            if from_ns > 0 {
                stream.pass_until(from_ns);
            }
            stream.advance();
            if let Some(record) = &stream.head {
                others.push(Reverse((record.time_ns, number)));
            }
            streams.push(stream);
        }
        let first_ns = others.peek().map(|first: &Reverse<(u64, usize)>| first.0.0);
        let unseen = streams.iter().filter_map(|stream| stream.unseen_since(first_ns?));
        let unseen: Vec<_> = unseen.collect();
        let current = others.pop().map(|first| first.0.1);
        let unseen = unseen.into_iter();
        Self { streams, unseen, behind: None, last_ns: None, current, is_lent: false, others }
    }

    /// Goes on to the next event, where this one was handed out, or to what is not seen before it.
    #[inline(always)]
    fn go_on(&mut self) {
        if std::mem::take(&mut self.is_lent) {
            self.advance();
        }
        while self.behind.is_none()
            && let Some(number) = self.current
            && !self.has_event(number)
        {
            self.close(number);
        }
    }

    #[inline(always)]
    fn has_event(&self, number: usize) -> bool {
        self.streams.get(number).is_some_and(|stream| stream.head.is_some())
    }

    /// At the end of a stream that was read.
    #[cold]
    fn close(&mut self, number: usize) {
        self.current = self.others.pop().map(|first| first.0.1);
        let mut others = self.current.into_iter().chain(self.others.iter().map(|other| other.0.1));
        if !others.any(|other| self.has_event(other)) {
            return;
        }
        let last_ns = self.last_ns.or_else(|| self.streams.iter().map(Stream::last_ns).max());
        self.last_ns = last_ns;
        let stream = self.streams.get(number);
        self.behind = stream.and_then(|stream| stream.unseen_until(last_ns?));
    }

    #[inline(always)]
    fn advance(&mut self) {
        let Some(number) = self.current else { return };
        let Some(stream) = self.streams.get_mut(number) else { return };
        stream.advance();
        match &stream.head {
            Some(next) => {
                let key = (next.time_ns, number);
                if let Some(mut earliest) = self.others.peek_mut()
                    && earliest.0 < key
                {
                    self.current = Some(earliest.0.1);
                    *earliest = Reverse(key);
                }
            }
            None => {
                if let Some(end_ns) = stream.end_ns() {
                    self.others.push(Reverse((end_ns, number)));
                }
                self.current = self.others.pop().map(|first| first.0.1);
            }
        }
    }
}

impl Source for Reader<'_> {
    type Stored<'r>
        = Located<'r>
    where
        Self: 'r;

    #[inline]
    fn read(&mut self) -> Option<Record<'_>> {
        if let Some((cpu, loss)) = self.unseen.next() {
            return Some(Record::lost(loss.from_ns, cpu, loss));
        }
        self.go_on();
        if let Some((cpu, loss)) = self.behind.take() {
            return Some(Record::lost(loss.from_ns, cpu, loss));
        }
        let stream = self.streams.get(self.current?)?;
        self.is_lent = true;
        stream.record()
    }

    fn next_ns(&mut self) -> Option<u64> {
        if let Some((_, loss)) = self.unseen.as_slice().first() {
            return Some(loss.from_ns);
        }
        self.go_on();
        if let Some((_, loss)) = &self.behind {
            return Some(loss.from_ns);
        }
        let head = self.streams.get(self.current?)?.head.as_ref()?;
        Some(head.time_ns)
    }

    fn damage(&self) -> Damage {
        let mut damage = Damage::default();
        for stream in &self.streams {
            damage.add(&stream.damage);
        }
        damage
    }

    fn read_bytes(&self) -> u64 {
        self.streams.iter().map(Stream::read_bytes).sum()
    }
}

/// The CPU of `channel0_3`, for packets that name none.
fn named_cpu(name: &str) -> Option<u32> {
    name.rsplit_once('_')?.1.parse().ok()
}
