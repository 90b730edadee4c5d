//! PURE: how idle each CPU was in a stretch of events, by its switches.

use noise_trace::event::{Event, TraceKind};
use noise_trace::follow::{PerCpu, Processor};

/// Adds up how long CPUs were idle, as far as that is certain: not between lost events and the next switch. One
/// without a switch is not known.
#[derive(Debug)]
pub struct Idle {
    from_ns: u64,
    to_ns: u64,
    /// With how long each was idle by its latest switch, ns.
    cpus: PerCpu<(Processor, u64)>,
}

impl Idle {
    /// In this stretch, which events before it may precede.
    pub fn new(from_ns: u64, to_ns: u64) -> Self {
        Self { from_ns, to_ns, cpus: PerCpu::default() }
    }

    /// Follows the events in their order.
    pub fn follow(&mut self, event: &Event<'_>) {
        let Some((cpu, idle_ns)) = self.cpus.of(event.cpu) else { return };
        let was_idle = match &event.kind {
            // The first switch says who ran before it; the first one after a loss does not say since when.
            TraceKind::SchedSwitch { prev, .. } if cpu.latest().is_none() && cpu.losses() == 0 => {
                prev.tid == 0
            }
            TraceKind::SchedSwitch { .. } | TraceKind::Lost(_) => cpu.current() == Some(0),
            _ => return,
        };
        if was_idle {
            let begin_ns = cpu.since_ns().max(self.from_ns);
            *idle_ns += event.time_ns.min(self.to_ns).saturating_sub(begin_ns);
        }
        cpu.follow(event);
    }

    /// The part of the stretch that each CPU was idle.
    pub fn parts(&self) -> Vec<(u32, f64)> {
        let span_ns = self.to_ns.saturating_sub(self.from_ns).max(1);
        let part = |(number, (cpu, idle_ns)): (u32, &(Processor, u64))| {
            let begin_ns = cpu.since_ns().max(self.from_ns);
            cpu.latest()?;
            let is_idle = cpu.current() == Some(0);
            let rest_ns = if is_idle { self.to_ns.saturating_sub(begin_ns) } else { 0 };
            Some((number, (idle_ns + rest_ns) as f64 / span_ns as f64))
        };
        (0..).zip(self.cpus.all()).filter_map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use noise_trace::event::LostEvents;
    use noise_trace::fixtures::switch;

    use super::*;

    #[test]
    fn a_cpu_that_lost_events_is_not_idle_up_to_the_next_switch() {
        let mut idle = Idle::new(1_000, 2_000);
        let lost = || TraceKind::Lost(LostEvents { events: 1, packets: 0, from_ns: 0, to_ns: 0 });
        for (time_ns, kind) in [
            (1_000, switch(7, 0, 0)),
            (1_100, lost()),
            (1_400, switch(0, 0, 9)),
            (1_500, switch(9, 0, 0)),
            (1_600, lost()),
        ] {
            idle.follow(&Event { time_ns, cpu: 0, kind });
        }
        assert_eq!(idle.parts(), [(0, 0.2)]);
    }

    #[test]
    fn idle_time_lies_between_switches_and_inside_the_stretch() {
        let mut idle = Idle::new(1_000, 2_000);
        let mut at = |time_ns, cpu, kind| idle.follow(&Event { time_ns, cpu, kind });
        // Idle before the begin and until 1,100; busy until 1,500; idle to the end.
        at(500, 0, switch(7, 0, 0));
        at(1_100, 0, switch(0, 0, 7));
        at(1_500, 0, switch(7, 0, 0));
        // The first switch says who ran before it.
        at(1_250, 1, switch(0, 0, 7));
        at(900, 2, switch(7, 0, 8));
        assert_eq!(idle.parts(), [(0, 0.6), (1, 0.25), (2, 0.0)]);
    }
}
