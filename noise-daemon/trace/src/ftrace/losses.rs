//! What a text says was lost on each CPU: from the CPU's last event before it up to the next one.

use std::collections::BTreeMap;

use super::line::Noted;
use crate::event::LostEvents;
use crate::follow::{MAX_CPUS, PerCpu};

/// Losses that are kept apart; those of one CPU are joined where there are more.
const MAX_LOSSES: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CpuLoss {
    cpu: u32,
    /// The time of the event before it; none where there is no such.
    from_ns: Option<u64>,
    to_ns: u64,
    events: u64,
}

/// What is known of a CPU up to a line.
#[derive(Clone, Copy, Debug, Default)]
struct CpuSpan {
    /// Its first and its latest event.
    first_ns: Option<u64>,
    last_ns: Option<u64>,
    /// A header in front of its first event says that events were overwritten.
    is_overwritten: bool,
    /// Losses without a CPU before its latest event.
    unnamed: u32,
}

/// What is found of them, line by line.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    cpus: PerCpu<CpuSpan>,
    /// CPUs that lost so many events before their next one. None are counted where a buffer only starts, or an event
    /// cannot be read.
    awaited: BTreeMap<u32, u64>,
    /// Losses without a CPU: any may have lost these events.
    unnamed: u32,
    /// So many were lost there since the latest event.
    unnamed_events: u64,
    /// Events were overwritten in front of the next one, and are counted there.
    is_counted: bool,
    /// Says the latest header.
    is_overwritten: bool,
    /// The text says where the buffers of CPUs start.
    has_starts: bool,
    found: Vec<CpuLoss>,
    /// The latest of each CPU.
    latest: BTreeMap<u32, usize>,
}

impl Losses {
    pub fn note(&mut self, noted: Noted) {
        match noted {
            Noted::Overwritten(events) => {
                self.is_overwritten = events > 0;
                self.is_counted |= self.is_overwritten;
            }
            Noted::Started(cpu) => {
                self.has_starts = true;
                self.await_event(cpu, 0);
            }
            Noted::Lost(Some(cpu), events) => self.await_event(cpu, events),
            Noted::Lost(None, events) => {
                self.unnamed = self.unnamed.saturating_add(1);
                self.unnamed_events = self.unnamed_events.saturating_add(events);
            }
            Noted::Nothing => {}
        }
    }

    /// The latest event of a CPU cannot be read: what happened there is not known until the next one.
    #[cold]
    pub fn misread(&mut self, cpu: u32) {
        self.await_event(cpu, 0);
    }

    fn await_event(&mut self, cpu: u32, events: u64) {
        if (cpu as usize) < MAX_CPUS {
            let count = self.awaited.entry(cpu).or_default();
            *count = count.saturating_add(events);
        }
    }

    #[inline]
    pub fn event(&mut self, cpu: u32, time_ns: u64) {
        if self.is_counted || !self.awaited.is_empty() || self.is_unnamed(cpu) {
            self.end(cpu, time_ns);
        }
        if let Some(span) = self.cpus.of(cpu) {
            if span.first_ns.is_none() {
                (span.first_ns, span.is_overwritten) = (Some(time_ns), self.is_overwritten);
            }
            (span.last_ns, span.unnamed) = (Some(time_ns), self.unnamed);
        }
    }

    /// Whether a CPU may have lost events before its next one that no CPU is named for.
    #[inline]
    fn is_unnamed(&self, cpu: u32) -> bool {
        self.cpus.get(cpu).map_or(0, |span| span.unnamed) != self.unnamed
    }

    fn last_ns(&self, cpu: u32) -> Option<u64> {
        self.cpus.get(cpu)?.last_ns
    }

    #[cold]
    fn end(&mut self, cpu: u32, to_ns: u64) {
        // There is no such CPU: what it says counts on the next one.
        if (cpu as usize) >= MAX_CPUS {
            return;
        }
        let is_counted = std::mem::take(&mut self.is_counted);
        let named = self.awaited.remove(&cpu);
        let unnamed = self.is_unnamed(cpu).then(|| std::mem::take(&mut self.unnamed_events));
        if named.or(unnamed).is_none() && !is_counted {
            return;
        }
        let events = named.unwrap_or(0).saturating_add(unnamed.unwrap_or(0));
        let from_ns = self.last_ns(cpu);
        if self.found.len() >= MAX_LOSSES
            && let Some(place) = self.latest.get(&cpu)
            && let Some(latest) = self.found.get_mut(*place)
        {
            latest.to_ns = to_ns.max(latest.to_ns);
            latest.events = latest.events.saturating_add(events);
            return;
        }
        self.latest.insert(cpu, self.found.len());
        self.found.push(CpuLoss { cpu, from_ns, to_ns, events });
    }

    /// All of them, in a text whose events lie between two times: those that nothing comes before on their CPU first,
    /// then by their begin.
    pub fn finish(&self, first_ns: u64, last_ns: u64) -> Vec<(u32, bool, LostEvents)> {
        let mut open = self.awaited.clone();
        open.retain(|cpu, events| *events > 0 || self.last_ns(*cpu).is_some());
        let mut unnamed_events = self.unnamed_events;
        for (span, cpu) in self.cpus.all().iter().zip(0..) {
            if span.last_ns.is_some() && span.unnamed != self.unnamed {
                let events = open.entry(cpu).or_default();
                *events = events.saturating_add(std::mem::take(&mut unnamed_events));
            }
        }
        if unnamed_events > 0 {
            let events = open.entry(0).or_default();
            *events = events.saturating_add(unnamed_events);
        }
        let open = open.into_iter().map(|(cpu, events)| CpuLoss {
            cpu,
            from_ns: self.last_ns(cpu),
            to_ns: last_ns,
            events,
        });
        let all = self.found.iter().copied().chain(self.unsaid()).chain(open);
        let mut all: Vec<_> = all
            .map(|CpuLoss { cpu, from_ns, to_ns, events }| {
                let begin_ns = from_ns.unwrap_or(first_ns).min(to_ns);
                (
                    cpu,
                    from_ns.is_some(),
                    LostEvents { events, packets: 0, from_ns: begin_ns, to_ns },
                )
            })
            .filter(|(_, is_behind, loss)| {
                *is_behind || loss.events > 0 || loss.from_ns < loss.to_ns
            })
            .collect();
        all.sort_by_key(|(cpu, is_behind, loss)| (*is_behind, loss.from_ns, *cpu));
        all
    }

    /// CPUs whose begin may have been overwritten, where the header alone says that something was.
    fn unsaid(&self) -> impl Iterator<Item = CpuLoss> {
        let spans = self.cpus.all().iter().zip(0..).filter(|_| !self.has_starts);
        spans.filter(|(span, _)| span.is_overwritten).filter_map(|(span, cpu)| {
            let is_said = self.found.iter().any(|loss| loss.cpu == cpu && loss.from_ns.is_none());
            let to_ns = span.first_ns.filter(|_| !is_said)?;
            Some(CpuLoss { cpu, from_ns: None, to_ns, events: 0 })
        })
    }
}
