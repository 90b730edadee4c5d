//! What a text says was lost on each CPU: from the CPU's last event before it up to the next one.

use std::collections::BTreeMap;

use super::line::Noted;
use crate::event::Loss;
use crate::threads::MAX_CPUS;

/// Losses that are kept apart; those of one CPU are joined where there are more.
const MAX_LOSSES: usize = 1 << 16;

/// A loss on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Missing {
    cpu: u32,
    /// The time of the event before it; none where there is no such.
    from_ns: Option<u64>,
    to_ns: u64,
    events: u64,
}

/// What is found of them, line by line.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    /// The latest event of each CPU.
    last_ns: Vec<Option<u64>>,
    /// CPUs that lost so many events before their next one. None are counted where a buffer only starts.
    awaited: BTreeMap<u32, u64>,
    /// Events were overwritten in front of the next one, and are counted there.
    is_counted: bool,
    found: Vec<Missing>,
    /// The latest of each CPU.
    latest: BTreeMap<u32, usize>,
}

impl Losses {
    /// Takes a note.
    pub fn note(&mut self, noted: Noted) {
        match noted {
            Noted::Lost(None, _) => self.is_counted = true,
            Noted::Started(cpu) => self.await_event(cpu, 0),
            Noted::Lost(Some(cpu), events) => self.await_event(cpu, events),
            Noted::Nothing => {}
        }
    }

    fn await_event(&mut self, cpu: u32, events: u64) {
        if (cpu as usize) < MAX_CPUS {
            let count = self.awaited.entry(cpu).or_default();
            *count = count.saturating_add(events);
        }
    }

    /// Takes an event.
    #[inline]
    pub fn event(&mut self, cpu: u32, time_ns: u64) {
        if self.is_counted || !self.awaited.is_empty() {
            self.end(cpu, time_ns);
        }
        let place = cpu as usize;
        if place >= self.last_ns.len() && place < MAX_CPUS {
            self.last_ns.resize(place + 1, None);
        }
        if let Some(last_ns) = self.last_ns.get_mut(place) {
            *last_ns = Some(time_ns);
        }
    }

    #[cold]
    fn end(&mut self, cpu: u32, to_ns: u64) {
        let is_counted = std::mem::take(&mut self.is_counted);
        let events = self.awaited.remove(&cpu).or(is_counted.then_some(0));
        let Some(events) = events.filter(|_| (cpu as usize) < MAX_CPUS) else { return };
        let from_ns = self.last_ns.get(cpu as usize).copied().flatten();
        if self.found.len() >= MAX_LOSSES
            && let Some(place) = self.latest.get(&cpu)
            && let Some(latest) = self.found.get_mut(*place)
        {
            latest.to_ns = to_ns.max(latest.to_ns);
            latest.events = latest.events.saturating_add(events);
            return;
        }
        self.latest.insert(cpu, self.found.len());
        self.found.push(Missing { cpu, from_ns, to_ns, events });
    }

    /// All of them, in a text whose events lie between two times: those that nothing comes before on their CPU first, then by
    /// their begin.
    pub fn finish(&self, first_ns: u64, last_ns: u64) -> Vec<(u32, bool, Loss)> {
        let open = self.awaited.iter().filter(|(_, events)| **events > 0);
        let open = open.map(|(cpu, events)| Missing {
            cpu: *cpu,
            from_ns: self.last_ns.get(*cpu as usize).copied().flatten(),
            to_ns: last_ns,
            events: *events,
        });
        let all = self.found.iter().copied().chain(open);
        let mut all: Vec<_> = all
            .map(|Missing { cpu, from_ns, to_ns, events }| {
                let begin_ns = from_ns.unwrap_or(first_ns).min(to_ns);
                (cpu, from_ns.is_some(), Loss { events, packets: 0, from_ns: begin_ns, to_ns })
            })
            .filter(|(_, _, loss)| loss.events > 0 || loss.from_ns < loss.to_ns)
            .collect();
        all.sort_by_key(|(cpu, is_behind, loss)| (*is_behind, loss.from_ns, *cpu));
        all
    }
}
