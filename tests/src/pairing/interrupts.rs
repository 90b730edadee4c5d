//! `hardirq`, `vector`, `softirq` and `nmi`: time taken from whatever ran on a CPU.
//!
//! Each is charged net of what interrupted it in turn, so on one CPU the sources add up to the time
//! that was taken, nothing twice. Events that merely happen inside (a wake-up) cost nothing here.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Paired, Sample, labels};
use crate::ftrace::event::{Event, Kind};

/// The four sources, each with its own samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interrupts {
    /// By irq number and name.
    pub hardirq: Paired,
    /// By vector.
    pub vector: Paired,
    /// By softirq vector.
    pub softirq: Paired,
    /// Without labels.
    pub nmi: Paired,
}

impl Interrupts {
    /// All samples, labelled by CPU and source.
    pub fn by_cpu(&self) -> Paired {
        let mut all = Paired::default();
        let sources = [
            ("hardirq", &self.hardirq),
            ("vector", &self.vector),
            ("softirq", &self.softirq),
            ("nmi", &self.nmi),
        ];
        for (source, paired) in sources {
            for sample in &paired.samples {
                let labels = labels(&sample.cpu.to_string(), source);
                all.samples.push(Sample { labels, ..sample.clone() });
            }
        }
        all
    }
}

/// What runs on a CPU in place of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    Hardirq(i32, Arc<str>),
    Vector(Arc<str>),
    Softirq(Arc<str>),
}

struct Frame {
    context: Context,
    start_ns: u64,
    nested_ns: u64,
}

/// What each CPU is in the middle of, innermost last.
#[derive(Default)]
pub(crate) struct Stacks(HashMap<u32, Vec<Frame>>);

/// An exit, with its frame if the entry is in the trace.
pub(crate) struct Left {
    pub(crate) context: Context,
    pub(crate) times: Option<(u64, u64)>,
}

impl Stacks {
    /// The innermost context of a CPU.
    pub(crate) fn innermost(&self, cpu: u32) -> Option<&Context> {
        self.0.get(&cpu).and_then(|stack| stack.last()).map(|frame| &frame.context)
    }

    /// Takes an event in; returns what it ended.
    pub(crate) fn step(&mut self, event: &Event) -> Option<Left> {
        let stack = self.0.entry(event.cpu).or_default();
        let enter = |stack: &mut Vec<Frame>, context| {
            stack.push(Frame { context, start_ns: event.time_ns, nested_ns: 0 });
            None
        };
        let leave = |stack: &mut Vec<Frame>, context: Context| {
            // The name of an irq is only in its entry.
            let same = |frame: &Frame| match (&frame.context, &context) {
                (Context::Hardirq(entered, _), Context::Hardirq(left, _)) => entered == left,
                (entered, left) => entered == left,
            };
            if !stack.last().is_some_and(same) {
                return Some(Left { context, times: None });
            }
            let frame = stack.pop()?;
            let gross_ns = event.time_ns.saturating_sub(frame.start_ns);
            if let Some(outer) = stack.last_mut() {
                outer.nested_ns += gross_ns;
            }
            let net_ns = gross_ns.saturating_sub(frame.nested_ns);
            Some(Left { context: frame.context, times: Some((net_ns, frame.nested_ns)) })
        };
        match &event.kind {
            Kind::IrqEntry { irq, name } => enter(stack, Context::Hardirq(*irq, Arc::clone(name))),
            Kind::VectorEntry { vector } => enter(stack, Context::Vector(Arc::clone(vector))),
            Kind::SoftirqEntry { vector } => enter(stack, Context::Softirq(Arc::clone(vector))),
            Kind::IrqExit { irq } => leave(stack, Context::Hardirq(*irq, "".into())),
            Kind::VectorExit { vector } => leave(stack, Context::Vector(Arc::clone(vector))),
            Kind::SoftirqExit { vector } => leave(stack, Context::Softirq(Arc::clone(vector))),
            Kind::Nmi { duration_ns } => {
                if let Some(frame) = stack.last_mut() {
                    frame.nested_ns += duration_ns;
                }
                None
            }
            _ => None,
        }
    }
}

/// Interrupt times.
pub fn interrupts(events: &[Event]) -> Interrupts {
    let none: Arc<str> = "".into();
    let mut stacks = Stacks::default();
    let mut found = Interrupts::default();
    for event in events {
        if let Kind::Nmi { duration_ns } = event.kind {
            found.nmi.samples.push(Sample {
                labels: (Arc::clone(&none), Arc::clone(&none)),
                pid: 0,
                cpu: event.cpu,
                end_ns: event.time_ns,
                value_ns: duration_ns,
                nested_ns: 0,
            });
        }
        let Some(left) = stacks.step(event) else { continue };
        let (paired, labels) = match left.context {
            Context::Hardirq(irq, name) => (&mut found.hardirq, (irq.to_string().into(), name)),
            Context::Vector(vector) => (&mut found.vector, (vector, Arc::clone(&none))),
            Context::Softirq(vector) => (&mut found.softirq, (vector, Arc::clone(&none))),
        };
        let (value_ns, nested_ns) = left.times.unwrap_or_default();
        let sample =
            Sample { labels, pid: 0, cpu: event.cpu, end_ns: event.time_ns, value_ns, nested_ns };
        if left.times.is_some() {
            paired.samples.push(sample);
        } else {
            paired.orphans.push(sample);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::interrupts;
    use crate::ftrace::event::Kind;
    use crate::pairing::testing::{at, brief};

    #[test]
    fn nested_time_is_charged_once() {
        let events = [
            at(100, 0, Kind::SoftirqEntry { vector: "net_rx".into() }),
            at(110, 0, Kind::VectorEntry { vector: "local_timer".into() }),
            at(115, 0, Kind::Nmi { duration_ns: 3 }),
            at(120, 0, Kind::VectorExit { vector: "local_timer".into() }),
            at(130, 0, Kind::IrqEntry { irq: 36, name: "vda".into() }),
            at(150, 0, Kind::IrqExit { irq: 36 }),
            at(200, 0, Kind::SoftirqExit { vector: "net_rx".into() }),
        ];
        let found = interrupts(&events);
        assert_eq!(brief(&found.softirq.samples), [("net_rx", "", 70, 30)]);
        assert_eq!(brief(&found.vector.samples), [("local_timer", "", 7, 3)]);
        assert_eq!(brief(&found.hardirq.samples), [("36", "vda", 20, 0)]);
        assert_eq!(brief(&found.nmi.samples), [("", "", 3, 0)]);
    }

    #[test]
    fn cpus_do_not_nest_in_each_other() {
        let events = [
            at(100, 0, Kind::SoftirqEntry { vector: "rcu".into() }),
            at(101, 1, Kind::SoftirqEntry { vector: "rcu".into() }),
            at(105, 0, Kind::SoftirqExit { vector: "rcu".into() }),
            at(109, 1, Kind::SoftirqExit { vector: "rcu".into() }),
        ];
        let found = interrupts(&events);
        assert_eq!(brief(&found.softirq.samples), [("rcu", "", 5, 0), ("rcu", "", 8, 0)]);
    }

    #[test]
    fn an_exit_without_entry_is_an_orphan() {
        let events = [
            at(10, 0, Kind::IrqExit { irq: 4 }),
            at(20, 0, Kind::SoftirqEntry { vector: "rcu".into() }),
            at(30, 0, Kind::SoftirqExit { vector: "sched".into() }),
            at(40, 0, Kind::SoftirqExit { vector: "rcu".into() }),
        ];
        let found = interrupts(&events);
        assert_eq!(found.hardirq.orphans.len(), 1);
        assert_eq!(found.softirq.orphans.len(), 1);
        assert_eq!(brief(&found.softirq.samples), [("rcu", "", 20, 0)]);
    }
}
