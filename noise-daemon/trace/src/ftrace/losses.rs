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

/// What is found of them, line by line.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    /// The latest event of each CPU.
    last_ns: PerCpu<Option<u64>>,
    /// CPUs that lost so many events before their next one. None are counted where a buffer only starts.
    awaited: BTreeMap<u32, u64>,
    /// Events were overwritten in front of the next one, and are counted there.
    is_counted: bool,
    found: Vec<CpuLoss>,
    /// The latest of each CPU.
    latest: BTreeMap<u32, usize>,
}

impl Losses {
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

    #[inline]
    pub fn event(&mut self, cpu: u32, time_ns: u64) {
        if self.is_counted || !self.awaited.is_empty() {
            self.end(cpu, time_ns);
        }
        if let Some(last_ns) = self.last_ns.of(cpu) {
            *last_ns = Some(time_ns);
        }
    }

    #[cold]
    fn end(&mut self, cpu: u32, to_ns: u64) {
        let is_counted = std::mem::take(&mut self.is_counted);
        let events = self.awaited.remove(&cpu).or(is_counted.then_some(0));
        let Some(events) = events.filter(|_| (cpu as usize) < MAX_CPUS) else { return };
        let from_ns = self.last_ns.get(cpu).copied().flatten();
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
        let open = self.awaited.iter().filter(|(_, events)| **events > 0);
        let open = open.map(|(cpu, events)| CpuLoss {
            cpu: *cpu,
            from_ns: self.last_ns.get(*cpu).copied().flatten(),
            to_ns: last_ns,
            events: *events,
        });
        let all = self.found.iter().copied().chain(open);
        let mut all: Vec<_> = all
            .map(|CpuLoss { cpu, from_ns, to_ns, events }| {
                let begin_ns = from_ns.unwrap_or(first_ns).min(to_ns);
                (
                    cpu,
                    from_ns.is_some(),
                    LostEvents { events, packets: 0, from_ns: begin_ns, to_ns },
                )
            })
            .filter(|(_, _, loss)| loss.events > 0 || loss.from_ns < loss.to_ns)
            .collect();
        all.sort_by_key(|(cpu, is_behind, loss)| (*is_behind, loss.from_ns, *cpu));
        all
    }
}
