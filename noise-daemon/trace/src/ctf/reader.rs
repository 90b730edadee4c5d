//! All streams of a trace, merged by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::files::{StreamFile, chains};
use super::layout::Layout;
use super::stream::{Located, Record, Stream};
use crate::damage::Damage;
use crate::record::Source;

/// Goes over all events of a trace in the order of time. Those of one time come in the order of their files.
pub struct Reader<'t> {
    streams: Vec<Stream<'t>>,
    /// Of each file, its stream, and which of that stream's files it is.
    files: Vec<(usize, usize)>,
    /// The stream whose event is next.
    current: Option<usize>,
    /// The others that have events, by the time of the next one. Events of one CPU come in bursts: as long
    /// as none of these is earlier, there is nothing to sort.
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
        let chains = chains(layout, files);
        let mut streams = Vec::with_capacity(chains.len());
        let mut others = BinaryHeap::with_capacity(chains.len());
        let mut of_files = vec![(0, 0); files.len()];
        for (number, chain) in chains.iter().enumerate() {
            for (part, file) in chain.iter().enumerate() {
                if let Some(place) = of_files.get_mut(*file) {
                    *place = (number, part);
                }
            }
            let cpu = |file: usize, name| named_cpu(name).unwrap_or(file as u32);
            let parts = chain.iter().filter_map(|&file| Some((file, *files.get(file)?)));
            let parts = parts.map(|(file, part)| (part, cpu(file, part.name)));
            let mut stream = Stream::new(layout, parts.collect());
            if from_ns > 0 {
                stream.pass_until(from_ns);
            }
            stream.advance();
            if let Some(record) = &stream.head {
                others.push(Reverse((record.time_ns, number)));
            }
            streams.push(stream);
        }
        let current = others.pop().map(|first| first.0.1);
        Self { streams, files: of_files, current, others }
    }

    /// Time of the next event, nanoseconds since the epoch.
    pub fn first_ns(&self) -> Option<u64> {
        let head = self.streams.get(self.current?)?.head.as_ref()?;
        Some(head.time_ns)
    }
}

impl<'t> Iterator for Reader<'t> {
    type Item = Record<'t>;

    #[inline]
    fn next(&mut self) -> Option<Record<'t>> {
        let number = self.current?;
        let stream = self.streams.get_mut(number)?;
        let record = stream.head;
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
            None => self.current = self.others.pop().map(|first| first.0.1),
        }
        record
    }
}

impl<'t> Source<'t> for Reader<'t> {
    type Stored = Located<'t>;

    fn damage(&self) -> Damage {
        let mut damage = Damage::default();
        for stream in &self.streams {
            damage.add(&stream.damage);
        }
        damage
    }

    fn read_bytes(&self, file: usize) -> usize {
        let Some((stream, part)) = self.files.get(file) else { return 0 };
        self.streams.get(*stream).map_or(0, |stream| stream.read_bytes(*part))
    }
}

/// The CPU of `channel0_3`, for packets that name none.
fn named_cpu(name: &str) -> Option<u32> {
    name.rsplit_once('_')?.1.parse().ok()
}
