//! All streams of a trace, merged by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::layout::Layout;
use super::stream::{Record, Stream};
use crate::damage::Damage;

/// A file of a trace.
#[derive(Clone, Copy, Debug)]
pub struct StreamFile<'t> {
    /// Its name, without folders.
    pub name: &'t str,
    /// What is in it.
    pub bytes: &'t [u8],
}

/// Goes over all events of a trace in the order of time. Those of one time come in the order of their files.
pub struct Reader<'t> {
    streams: Vec<Stream<'t>>,
    /// The next event of each stream.
    heads: Vec<Option<Record<'t>>>,
    /// Streams that have one, by its time.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<'t> Reader<'t> {
    /// A reader of files with this layout.
    pub fn new(layout: &'t Layout, files: &[StreamFile<'t>]) -> Self {
        Self::from(layout, files, 0)
    }

    /// The same; packets that end before `from_ns` are passed over unread. Events before that time may come
    /// nevertheless.
    pub fn from(layout: &'t Layout, files: &[StreamFile<'t>], from_ns: u64) -> Self {
        let mut streams = Vec::with_capacity(files.len());
        let mut heads = Vec::with_capacity(files.len());
        let mut heap = BinaryHeap::with_capacity(files.len());
        for (number, file) in files.iter().enumerate() {
            let cpu = named_cpu(file.name).unwrap_or(number as u32);
            let mut stream = Stream::new(layout, file.name, file.bytes, cpu);
            if from_ns > 0 {
                stream.pass_until(from_ns);
            }
            let head = stream.next();
            if let Some(record) = &head {
                heap.push(Reverse((record.time_ns, number)));
            }
            heads.push(head);
            streams.push(stream);
        }
        Self { streams, heads, heap }
    }

    /// Time of the next event, nanoseconds since the epoch.
    pub fn first_ns(&self) -> Option<u64> {
        self.heap.peek().map(|head| head.0.0)
    }

    /// What could not be read so far.
    pub fn damage(&self) -> Damage {
        let mut damage = Damage::default();
        for stream in &self.streams {
            damage.add(&stream.damage);
        }
        damage
    }
}

impl<'t> Iterator for Reader<'t> {
    type Item = Record<'t>;

    #[inline]
    fn next(&mut self) -> Option<Record<'t>> {
        let mut top = self.heap.peek_mut()?;
        let number = top.0.1;
        let (stream, head) = (self.streams.get_mut(number)?, self.heads.get_mut(number)?);
        let record = head.take();
        *head = stream.next();
        match head {
            Some(next) => top.0.0 = next.time_ns,
            None => {
                std::collections::binary_heap::PeekMut::pop(top);
            }
        }
        record
    }
}

/// The CPU of `channel0_3`, for packets that name none.
fn named_cpu(name: &str) -> Option<u32> {
    name.rsplit_once('_')?.1.parse().ok()
}
