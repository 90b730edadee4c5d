//! PURE: how idle each CPU was in a stretch of events, by its switches.

use noise_trace::event::{Event, Kind};
use noise_trace::follow::{PerCpu, Processor};

/// Adds up how long CPUs were idle. One without a switch is not known.
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
        let Kind::SchedSwitch { prev, .. } = event.kind else { return };
        let Some((cpu, idle_ns)) = self.cpus.of(event.cpu) else { return };
        if prev.tid == 0 {
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
            let is_idle = cpu.latest()? == 0;
            let rest_ns = if is_idle { self.to_ns.saturating_sub(begin_ns) } else { 0 };
            Some((number, (idle_ns + rest_ns) as f64 / span_ns as f64))
        };
        (0..).zip(self.cpus.all()).filter_map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use noise_trace::event::Task;
    use noise_trace::state::LeftIn;

    use super::*;

    #[test]
    fn idle_time_lies_between_switches_and_inside_the_stretch() {
        let mut idle = Idle::new(1_000, 2_000);
        let task = |tid| Task { tid, ..Task::default() };
        let mut switch = |time_ns, cpu, prev, next| {
            let kind =
                Kind::SchedSwitch { prev: task(prev), prev_state: LeftIn::of(0), next: task(next) };
            idle.follow(&Event { time_ns, cpu, kind });
        };
        // Idle before the begin and until 1,100; busy until 1,500; idle to the end.
        switch(500, 0, 7, 0);
        switch(1_100, 0, 0, 7);
        switch(1_500, 0, 7, 0);
        // The first switch says who ran before it.
        switch(1_250, 1, 0, 7);
        switch(900, 2, 7, 8);
        assert_eq!(idle.parts(), [(0, 0.6), (1, 0.25), (2, 0.0)]);
    }
}
