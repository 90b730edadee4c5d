//! All streams of a trace, merged by time.
//!
//! Buffers of different CPUs go back differently far where a tracer overwrites the oldest packets (LTTng's snapshots, and
//! its rings of files). What a CPU did before its first packet is not known then, while events of others are there: a
//! loss of that CPU, which comes before all events. A chunk of a session that was rotated begins on all CPUs with the
//! rotation, to some microseconds, whenever its first packet begins: LTTng begins that with the first event of each CPU.
//!
//! Where a stream is cut, or its last packet was closed before the last event of others, its CPU is not known from then on:
//! a loss that lasts up to that event. What is seen of an idle CPU ends with the trace: tracers close its last packet then.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::files::{StreamFile, chains};
use super::layout::TraceLayout;
use super::stream::{CtfRecord, Located, Stream};
use crate::damage::Damage;
use crate::event::LostEvents;
use crate::record::Source;
use crate::window::{LEAST_WINDOW_BYTES, bytes_of_each};

/// Goes over all events of a trace in the order of time. Those of one time come in the order of their files.
pub struct CtfReader<'t> {
    streams: Vec<Stream<'t>>,
    /// CPUs that are not seen, at the begin or behind the end of their streams: these come next.
    unseen: VecDeque<(u32, LostEvents)>,
    /// When the last event of all happens, once that was asked for.
    last_ns: Option<u64>,
    /// The stream whose event is next.
    current: Option<usize>,
    /// Whether that event was handed out: then it is the latest one.
    is_lent: bool,
    /// The others that have events, by the time of the next one, and those that were read, by their ends. Events of one
    /// CPU come in bursts: as long as none of these is earlier, there is nothing to sort.
    others: BinaryHeap<Reverse<StreamMergeKey>>,
}

/// When it is a stream's turn, and its number, which decides where times are the same: as one number, which is
/// compared in two instructions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct StreamMergeKey(u128);

impl StreamMergeKey {
    const fn new(at_ns: u64, stream: usize) -> Self {
        Self((at_ns as u128) << 64 | stream as u128)
    }

    const fn stream(self) -> usize {
        self.0 as usize
    }
}

impl<'t> CtfReader<'t> {
    pub fn new(layout: &'t TraceLayout, files: &[StreamFile<'t>]) -> Self {
        Self::from(layout, files, 0)
    }

    /// The same; packets whose events all come before `from_ns` are passed over unread. Events before that
    /// time may come nevertheless.
    pub fn from(layout: &'t TraceLayout, files: &[StreamFile<'t>], from_ns: u64) -> Self {
        Self::in_windows(layout, files, from_ns, bytes_of_each(files.len()))
    }

    /// The same with windows of so many bytes.
    pub(super) fn in_windows(
        layout: &'t TraceLayout,
        files: &[StreamFile<'t>],
        from_ns: u64,
        window: usize,
    ) -> Self {
        let chains = chains(layout, files, window.min(LEAST_WINDOW_BYTES));
        let mut streams = Vec::with_capacity(chains.len());
        let mut others = BinaryHeap::with_capacity(chains.len());
        for chain in &chains {
            let cpu = |file: usize, name| named_cpu(name).unwrap_or(file as u32);
            let parts = chain.iter().filter_map(|&file| Some((file, *files.get(file)?)));
            let parts = parts.map(|(file, part)| (part, cpu(file, part.name)));
            let mut stream = Stream::new(layout, parts.collect(), window);
            if from_ns > 0 {
                stream.pass_until(from_ns);
            }
            stream.advance();
            streams.push(stream);
        }
        let first_ns = streams.iter().filter_map(Stream::next_ns).min();
        for (number, stream) in streams.iter_mut().enumerate() {
            let next_ns = stream.next_ns().or_else(|| stream.end_behind(first_ns.unwrap_or(0)));
            others.extend(next_ns.map(|next_ns| Reverse(StreamMergeKey::new(next_ns, number))));
        }
        let unseen = streams.iter().filter_map(|stream| stream.unseen_since(first_ns?));
        let unseen = unseen.collect();
        let current = others.pop().map(|first| first.0.stream());
        Self { streams, unseen, last_ns: None, current, is_lent: false, others }
    }

    /// When the first event of the trace happens, also of one that is read from a later time on; 0 where there is none.
    fn begin_ns(&self) -> u64 {
        self.streams.iter().filter_map(Stream::first_ns).min().unwrap_or(0)
    }

    /// Goes on to the next event, where this one was handed out. False where something that is not seen comes first.
    #[inline(always)]
    fn go_on(&mut self) -> bool {
        let was_lent = std::mem::take(&mut self.is_lent);
        (was_lent && self.stays()) || self.turn(was_lent)
    }

    /// Goes on in the same stream; whether its next event is the next one of all.
    #[inline(always)]
    fn stays(&mut self) -> bool {
        let Some(number) = self.current else { return false };
        let Some(stream) = self.streams.get_mut(number) else { return false };
        stream.advance();
        let Some(next_ns) = stream.next_ns() else { return false };
        self.others.peek().is_none_or(|first| StreamMergeKey::new(next_ns, number) < first.0)
    }

    /// Turns to the stream whose event is next. False where something that is not seen comes first.
    #[inline(never)]
    fn turn(&mut self, was_lent: bool) -> bool {
        if was_lent {
            self.sort();
        }
        while self.unseen.is_empty()
            && let Some(number) = self.current
            && !self.has_event(number)
        {
            self.close(number);
        }
        self.unseen.is_empty()
    }

    fn has_event(&self, number: usize) -> bool {
        self.streams.get(number).is_some_and(|stream| stream.next_ns().is_some())
    }

    /// At the end of a stream that was read.
    #[cold]
    #[inline(never)]
    fn close(&mut self, number: usize) {
        self.current = self.others.pop().map(|first| first.0.stream());
        let others = self.others.iter().map(|other| other.0.stream());
        let mut others = self.current.into_iter().chain(others);
        if !others.any(|other| self.has_event(other)) {
            return;
        }
        let last_ns = self.last_ns.or_else(|| self.streams.iter().map(Stream::last_ns).max());
        self.last_ns = last_ns;
        let stream = self.streams.get(number);
        if let Some((cpus, loss)) = stream.and_then(|stream| stream.unseen_until(last_ns?)) {
            self.unseen.extend(cpus.into_iter().map(|cpu| (cpu, loss)));
        }
    }

    /// Puts the stream of the latest event among the others, where the next event is one of theirs.
    fn sort(&mut self) {
        let Some(number) = self.current else { return };
        let Some(stream) = self.streams.get(number) else { return };
        if let Some(next_ns) = stream.next_ns() {
            let turn = StreamMergeKey::new(next_ns, number);
            if let Some(mut earliest) = self.others.peek_mut()
                && earliest.0 < turn
            {
                self.current = Some(earliest.0.stream());
                *earliest = Reverse(turn);
            }
            return;
        }
        let end_ns = stream.end_ns();
        self.leave(end_ns.map(|end_ns| StreamMergeKey::new(end_ns, number)));
    }

    /// Turns to the next stream from one that was read, whose own turn comes then, if it is known where it ends.
    #[cold]
    #[inline(never)]
    fn leave(&mut self, turn: Option<StreamMergeKey>) {
        self.others.extend(turn.map(Reverse));
        self.current = self.others.pop().map(|first| first.0.stream());
    }
}

impl Source for CtfReader<'_> {
    type Stored<'r>
        = Located<'r>
    where
        Self: 'r;

    #[inline(always)]
    fn read(&mut self) -> Option<CtfRecord<'_>> {
        if !self.go_on()
            && let Some((cpu, loss)) = self.unseen.pop_front()
        {
            return Some(CtfRecord::lost(loss.from_ns, cpu, loss));
        }
        let stream = self.streams.get(self.current?)?;
        self.is_lent = true;
        stream.record()
    }

    fn next_ns(&mut self) -> Option<u64> {
        if !self.go_on()
            && let Some((_, loss)) = self.unseen.front()
        {
            return Some(loss.from_ns);
        }
        self.streams.get(self.current?)?.next_ns()
    }

    fn damage(&self) -> Damage {
        let mut damage = Damage::default();
        for stream in &self.streams {
            damage.add(&stream.damage);
        }
        if !damage.cuts.is_empty() {
            damage.say_cuts(self.begin_ns());
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
