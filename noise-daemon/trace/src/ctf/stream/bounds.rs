//! From when and up to when the CPU of a stream is seen, by the begins and ends of its packets.

use std::collections::VecDeque;

use super::Stream;
use crate::ctf::files::StreamFile;
use crate::ctf::layout::TraceLayout;
use crate::ctf::packet::{PacketContext, PacketHead, open};
use crate::event::LostEvents;
use crate::window::{Content, LEAST_WINDOW_BYTES, Window};

impl<'t> Stream<'t> {
    /// Takes the times of the next packet, and the end of the one before.
    pub(super) fn note_bounds(&mut self, packet: &PacketHead<'_>, ended: Option<u64>) {
        let context = &packet.context;
        let begin_ns = context.begin.map(|begin| self.to_ns(begin));
        match ended.map(|ended| self.to_ns(ended)) {
            None if self.is_cut || self.follows_others(packet) => self.known_from_ns = begin_ns,
            // What lies between them is lost, or else nothing.
            Some(ended_ns) if self.loss.is_none() => {
                let pause_ns = begin_ns.map_or(0, |begin_ns| begin_ns.saturating_sub(ended_ns));
                self.pause_ns = pause_ns.max(self.pause_ns);
            }
            _ => {}
        }
        let is_closed = context.cpu.is_some() && self.is_of_a_tracer(packet);
        self.closed_ns = context.bound().filter(|_| is_closed).map(|end| self.to_ns(end));
        self.is_cut = packet.is_cut;
    }

    /// Says once that a packet of another CPU begins before what was read: see [`apart`](crate::ctf::apart) for where each CPU
    /// is read by itself.
    pub(super) fn note_mixed(&mut self, packet: &PacketHead<'_>, at: u64) {
        let PacketContext { cpu, begin, .. } = packet.context;
        let is_other = self.ended.is_some() && cpu.is_some_and(|cpu| cpu != self.cpu);
        let is_earlier = begin.is_some_and(|begin| self.to_ns(begin) < self.time_ns);
        if self.is_mixed || !is_other || !is_earlier {
            return;
        }
        self.is_mixed = true;
        let (name, byte) = (self.name, self.window.place(at));
        self.damage.note(|| {
            format!(
                "{name}: its packets are of several CPUs, and from byte {byte} on they are not in the order of time, so \
                 that figures are wrong; record again with a file for each CPU, as LTTng, perf and noised write them"
            )
        });
    }

    /// Whether packets came before one that is the first here, on its CPU and since the trace begins. Old tracers of LTTng do
    /// not number them, but begin the first of each CPU with the session, so that one may as well be taken for a later one.
    fn follows_others(&self, packet: &PacketHead<'_>) -> bool {
        // Those are in the chunk before. A ring of files may have lost its oldest in a chunk, too.
        if self.layout.is_chunk && self.parts.len() == 1 {
            return false;
        }
        self.is_of_a_tracer(packet) && packet.context.sequence.is_none_or(|sequence| sequence > 0)
    }

    /// Whether its times are when a tracer began and closed it; perf and others write those of its first and last event.
    fn is_of_a_tracer(&self, packet: &PacketHead<'_>) -> bool {
        packet.context.sequence.is_some() || self.layout.is_lttngs()
    }

    /// What is not seen of its CPU since a time, because its first packet that is here begins later, and is not the first
    /// there was: older ones were overwritten, or are in another chunk of the session.
    pub fn unseen_since(&self, from_ns: u64) -> Option<(u32, LostEvents)> {
        let to_ns = self.known_from_ns.filter(|to_ns| *to_ns > from_ns)?;
        Some((self.cpu, LostEvents { events: 0, packets: 0, from_ns, to_ns }))
    }

    /// Where it has no event at all, up to when its CPU is seen, but behind the first event of others: what is not seen from
    /// then on is no begin that was overwritten.
    pub fn end_behind(&mut self, first_ns: u64) -> Option<u64> {
        self.time_ns = self.time_ns.max(first_ns.saturating_add(1));
        self.end_ns()
    }

    /// Up to when its CPU is seen, nanoseconds since the epoch, once all of it was read; none where nothing says so.
    pub fn end_ns(&self) -> Option<u64> {
        let latest_ns = self.time_ns.max(self.to_ns(self.cycles));
        let is_cut = self.is_cut && self.ended.is_some();
        let end_ns = if is_cut { Some(latest_ns) } else { self.closed_ns };
        end_ns.map(|end_ns| end_ns.max(latest_ns))
    }

    /// The CPUs that events of it are of, as far as that is known.
    pub(super) fn cpus(&self) -> Vec<u32> {
        match self.named_cpus.is_empty() {
            true => vec![self.cpu],
            false => self.named_cpus.iter().copied().collect(),
        }
    }

    /// What is not seen of its CPUs up to the last event of the trace, that one included, once all of it was read. A tracer
    /// that closes packets by a timer has none while a CPU is idle: what is no longer than twice the longest such time before
    /// may be one more.
    pub fn unseen_until(&self, last_ns: u64) -> Option<(Vec<u32>, LostEvents)> {
        let from_ns = self.end_ns()?;
        let unseen_ns = last_ns.saturating_sub(from_ns);
        let least_ns = if self.is_cut { 0 } else { self.pause_ns.saturating_mul(2) };
        let to_ns = last_ns.saturating_add(1);
        let loss = LostEvents { events: 0, packets: 0, from_ns, to_ns };
        (unseen_ns > least_ns).then(|| (self.cpus(), loss))
    }

    /// When its first event happens, nanoseconds since the epoch.
    pub fn first_ns(&self) -> Option<u64> {
        let mut first = Self::new(self.layout, self.parts.clone(), LEAST_WINDOW_BYTES);
        first.advance();
        while first.record()?.loss().is_some() {
            first.advance();
        }
        first.next_ns()
    }

    /// When its last event happens, nanoseconds since the epoch: its last packets are read for that, from the last
    /// one on that has any.
    pub fn last_ns(&self) -> u64 {
        let read = |part: (StreamFile<'t>, u32), at: u64| {
            let mut last = Self::new(self.layout, vec![part], LEAST_WINDOW_BYTES);
            last.next_packet = at;
            last.advance();
            last.next_ns()?;
            while last.next_ns().is_some() {
                last.advance();
            }
            Some(last.time_ns)
        };
        let last = |(number, part): (usize, &(StreamFile<'t>, u32))| {
            let at = if number == self.part { self.packet_at } else { 0 };
            let places = last_with_events(self.layout, part.0.content, at);
            places.into_iter().rev().find_map(|at| read(*part, at))
        };
        let left = self.parts.iter().enumerate().skip(self.part);
        let last_ns = left.filter(|_| self.next_ns().is_some()).filter_map(last).next_back();
        last_ns.unwrap_or(0).max(self.time_ns)
    }
}

/// Packets that are tried for a last event: the file may end within the last one, or some be damaged.
const LAST_PACKETS: usize = 16;

/// Where the last packets with events begin, of those that can be reached from that byte of a file on.
fn last_with_events(layout: &TraceLayout, content: Content<'_>, mut at: u64) -> VecDeque<u64> {
    let mut window = Window::new(content, LEAST_WINDOW_BYTES);
    let mut found = VecDeque::with_capacity(LAST_PACKETS);
    while at < window.length()
        && let Ok(packet) = open(layout, &mut window, at)
    {
        if packet.events_at < packet.end {
            if found.len() == LAST_PACKETS {
                found.pop_front();
            }
            found.push_back(at);
        }
        at = at.saturating_add(packet.length);
    }
    found
}
