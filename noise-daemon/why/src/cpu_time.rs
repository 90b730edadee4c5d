//! PURE: who had the CPUs in a stretch of events, and how idle each was, by their switches.

use foldhash::HashMap;
use noise_trace::event::{Event, TraceKind};
use noise_trace::follow::{PerCpu, Processor};

/// Threads that are followed.
const MOST_THREADS: usize = 65_536;

/// Adds up how long CPUs were idle and threads ran, as far as that is certain: not between lost events and the next switch.
/// A CPU without a switch is not known.
#[derive(Debug)]
pub struct CpuTime {
    from_ns: u64,
    to_ns: u64,
    /// With how long each was idle by its latest switch, ns.
    cpus: PerCpu<(Processor, u64)>,
    /// How long each thread ran by the latest switch away from it, ns.
    ran: HashMap<i32, u64>,
}

impl CpuTime {
    /// In this stretch, which events before it may precede.
    pub fn new(from_ns: u64, to_ns: u64) -> Self {
        Self { from_ns, to_ns, cpus: PerCpu::default(), ran: HashMap::default() }
    }

    /// Follows the events in their order.
    pub fn follow(&mut self, event: &Event<'_>) {
        let Some((cpu, idle_ns)) = self.cpus.of(event.cpu) else { return };
        let ran = match &event.kind {
            // The first switch says who ran before it; the first one after a loss does not say since when.
            TraceKind::SchedSwitch { prev, .. } if cpu.latest().is_none() && cpu.losses() == 0 => {
                Some(prev.tid)
            }
            // Where a switch is missing in between, nor is it known who ran.
            TraceKind::SchedSwitch { prev, .. }
                if cpu.unseen(prev.tid).is_some_and(|tid| tid != 0) =>
            {
                None
            }
            TraceKind::SchedSwitch { .. } | TraceKind::Lost(_) => cpu.current(),
            _ => return,
        };
        let begin_ns = cpu.since_ns().max(self.from_ns);
        let ns = event.time_ns.min(self.to_ns).saturating_sub(begin_ns);
        match ran {
            Some(0) => *idle_ns += ns,
            Some(tid) => add(&mut self.ran, tid, ns),
            None => {}
        }
        cpu.follow(event);
    }

    /// How long each thread ran, ns: of those that did first, if there are very many.
    pub fn by_thread(&self) -> HashMap<i32, u64> {
        let mut ran = self.ran.clone();
        for (cpu, _) in self.cpus.all() {
            let Some(tid) = cpu.current().filter(|tid| *tid != 0) else { continue };
            let begin_ns = cpu.since_ns().max(self.from_ns);
            add(&mut ran, tid, self.to_ns.saturating_sub(begin_ns));
        }
        ran
    }

    /// The part of the stretch that each CPU was idle.
    pub fn idle(&self) -> Vec<(u32, f64)> {
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

fn add(ran: &mut HashMap<i32, u64>, tid: i32, ns: u64) {
    if ns > 0 && (ran.len() < MOST_THREADS || ran.contains_key(&tid)) {
        *ran.entry(tid).or_default() += ns;
    }
}

#[cfg(test)]
mod tests {
    use noise_trace::event::LostEvents;
    use noise_trace::fixtures::switch;

    use super::*;

    #[test]
    fn a_cpu_that_lost_events_is_not_idle_up_to_the_next_switch() {
        let mut times = CpuTime::new(1_000, 2_000);
        let lost = || TraceKind::Lost(LostEvents { events: 1, packets: 0, from_ns: 0, to_ns: 0 });
        for (time_ns, kind) in [
            (1_000, switch(7, 0, 0)),
            (1_100, lost()),
            (1_400, switch(0, 0, 9)),
            (1_500, switch(9, 0, 0)),
            (1_600, lost()),
        ] {
            times.follow(&Event { time_ns, cpu: 0, kind });
        }
        assert_eq!(times.idle(), [(0, 0.2)]);
        // 9 ran from 1,400 on; who ran after the first loss is not known.
        assert_eq!(times.by_thread(), [(9, 100)].into_iter().collect());
    }

    #[test]
    fn who_ran_before_a_missing_switch_is_not_known() {
        let mut times = CpuTime::new(1_000, 2_000);
        for (time_ns, kind) in
            [(1_000, switch(0, 0, 7)), (1_300, switch(8, 0, 9)), (1_600, switch(9, 0, 0))]
        {
            times.follow(&Event { time_ns, cpu: 0, kind });
        }
        assert_eq!(times.by_thread(), [(9, 300)].into_iter().collect());
    }

    #[test]
    fn idle_time_lies_between_switches_and_inside_the_stretch() {
        let mut times = CpuTime::new(1_000, 2_000);
        let mut at = |time_ns, cpu, kind| times.follow(&Event { time_ns, cpu, kind });
        // Idle before the begin and until 1,100; busy until 1,500; idle to the end.
        at(500, 0, switch(7, 0, 0));
        at(1_100, 0, switch(0, 0, 7));
        at(1_500, 0, switch(7, 0, 0));
        // The first switch says who ran before it.
        at(1_250, 1, switch(0, 0, 7));
        at(900, 2, switch(7, 0, 8));
        assert_eq!(times.idle(), [(0, 0.6), (1, 0.25), (2, 0.0)]);
        assert_eq!(times.by_thread(), [(7, 400 + 750), (8, 1_000)].into_iter().collect());
    }
}
