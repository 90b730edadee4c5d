//! What threads run, net: what interrupts take meanwhile is no thread's.

use std::collections::HashMap;

use super::interrupts::Stacks;
use super::{Paired, Sample, label};
use crate::ftrace::event::{Event, Kind};

#[derive(Default)]
struct Cpu {
    /// The thread that runs, since when, and what interrupts had taken by then.
    running: Option<(i32, u64, u64)>,
    taken_ns: u64,
}

/// Every run of every thread, from one switch to the next; its labels are empty.
pub fn runs(events: &[Event]) -> Paired {
    let mut stacks = Stacks::default();
    let mut cpus: HashMap<u32, Cpu> = HashMap::new();
    let mut found = Paired::default();
    for event in events {
        let cpu = cpus.entry(event.cpu).or_default();
        if let Some((net_ns, _)) = stacks.step(event).and_then(|left| left.times) {
            cpu.taken_ns += net_ns;
        }
        match event.kind {
            Kind::Nmi { duration_ns } => cpu.taken_ns += duration_ns,
            Kind::LostSwitch { .. } => cpu.running = None,
            Kind::Switch { prev, next, .. } => {
                let before = cpu.running.replace((next, event.time_ns, cpu.taken_ns));
                let before = before.filter(|(pid, ..)| *pid == prev);
                let (value_ns, nested_ns) = before.map_or((0, 0), |(_, start_ns, taken_ns)| {
                    let nested_ns = cpu.taken_ns - taken_ns;
                    let gross_ns = event.time_ns.saturating_sub(start_ns);
                    (gross_ns.saturating_sub(nested_ns), nested_ns)
                });
                let (cpu, end_ns) = (event.cpu, event.time_ns);
                let sample =
                    Sample { labels: label(""), pid: prev, cpu, end_ns, value_ns, nested_ns };
                match before {
                    Some(_) => found.samples.push(sample),
                    None => found.orphans.push(sample),
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::runs;
    use crate::ftrace::event::{Event, Kind, Left};
    use crate::pairing::testing::{at, brief};

    fn switch(time_ns: u64, prev: i32, next: i32) -> Event {
        at(time_ns, 0, Kind::Switch { prev, left: Left::Asleep, next })
    }

    #[test]
    fn what_interrupts_a_thread_is_not_its_own() {
        let events = [
            switch(100, 7, 9),
            at(110, 0, Kind::SoftirqEntry { vector: "rcu".into() }),
            at(120, 0, Kind::VectorEntry { vector: "local_timer".into() }),
            at(125, 0, Kind::Nmi { duration_ns: 3 }),
            at(130, 0, Kind::VectorExit { vector: "local_timer".into() }),
            at(150, 0, Kind::SoftirqExit { vector: "rcu".into() }),
            switch(200, 9, 7),
        ];
        let found = runs(&events);
        assert_eq!(brief(&found.samples), [("", "", 60, 40)]);
        assert_eq!((found.samples[0].pid, found.orphans.len()), (9, 1));
    }

    #[test]
    fn a_run_whose_begin_is_missing_is_an_orphan() {
        let lost = at(150, 0, Kind::LostSwitch { prev: 9, next: 8 });
        let found = runs(&[switch(100, 7, 9), lost, switch(150, 8, 7), switch(170, 7, 0)]);
        assert_eq!((found.samples.len(), found.orphans.len()), (1, 2));
        assert_eq!(found.samples[0].pid, 7);
    }
}
