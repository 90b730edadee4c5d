//! Time in interrupts, and waits for softirqs.

use std::collections::BTreeMap;

use noise_common::hooks::VECTORS;
use noise_common::signals::{SOFTIRQ_VECTORS, Signal};

use super::cpu::Cpus;
use super::document::{Handler, Raise, Softirq};
use super::name_of;
use super::sums::Spread;
use super::watch::{Delay, DelaySubject, Watch};
use crate::event::{Event, TraceKind};

/// Interrupt lines that are kept apart.
const MAX_IRQS: usize = 65_536;
const SOFTIRQS: usize = SOFTIRQ_VECTORS.len();

#[derive(Clone, Debug, Default)]
struct Inside {
    name: String,
    whole: Spread,
    net_ns: u64,
}

impl Inside {
    fn add(&mut self, whole_ns: u64, net_ns: u64) {
        self.whole.add(whole_ns);
        self.net_ns = self.net_ns.saturating_add(net_ns);
    }
}

#[derive(Debug, Default)]
pub struct Interrupts {
    irqs: BTreeMap<u32, Inside>,
    vectors: BTreeMap<u32, Inside>,
    softirqs: BTreeMap<u32, Inside>,
    raises: BTreeMap<u32, Spread>,
    /// Times of first raises, by CPU.
    raised: BTreeMap<u32, [Option<u64>; SOFTIRQS]>,
}

impl Interrupts {
    pub fn follow(&mut self, event: &Event<'_>, cpus: &mut Cpus, watch: &mut impl Watch) {
        let now_ns = event.time_ns;
        let mut ended =
            |signal: Signal, subject: DelaySubject<'_>, from_ns: u64, net_ns: Option<u64>| {
                watch.delayed(&Delay {
                    signal,
                    subject,
                    cpu: event.cpu,
                    from_ns,
                    to_ns: now_ns,
                    net_ns,
                });
            };
        let Some(cpu) = cpus.get(event.cpu) else { return };
        let end = cpu.interrupt(event);
        match &event.kind {
            TraceKind::IrqHandlerEntry { irq, name }
                if self.irqs.len() < MAX_IRQS || self.irqs.contains_key(irq) =>
            {
                let inside = self.irqs.entry(*irq).or_default();
                let name = name_of(name);
                if inside.name != name {
                    inside.name = name.into_owned();
                }
            }
            TraceKind::IrqHandlerExit { irq, .. } => {
                if let Some(end) = end
                    && let Some(inside) = self.irqs.get_mut(irq)
                {
                    inside.add(now_ns - end.start_ns, end.net_ns);
                    let subject = DelaySubject::Irq(*irq, &inside.name);
                    ended(Signal::Hardirq, subject, end.start_ns, Some(end.net_ns));
                }
            }
            TraceKind::VectorExit { which, .. } => {
                if let Some(end) = end {
                    let inside = self.vectors.entry(*which as u32).or_default();
                    inside.add(now_ns - end.start_ns, end.net_ns);
                    let subject = DelaySubject::Vector(*which);
                    ended(Signal::Vector, subject, end.start_ns, Some(end.net_ns));
                }
            }
            TraceKind::SoftirqRaise { vec } => {
                let raised = self.raised.entry(event.cpu).or_default();
                if let Some(place) = raised.get_mut(*vec as usize) {
                    place.get_or_insert(now_ns);
                }
            }
            TraceKind::SoftirqEntry { vec } if (*vec as usize) < SOFTIRQS => {
                let raised = self.raised.entry(event.cpu).or_default();
                if let Some(since_ns) = raised.get_mut(*vec as usize).and_then(Option::take) {
                    self.raises.entry(*vec).or_default().add(now_ns.saturating_sub(since_ns));
                    ended(Signal::SoftirqRaiseWait, DelaySubject::Softirq(*vec), since_ns, None);
                }
            }
            TraceKind::SoftirqExit { vec } => {
                if let Some(end) = end {
                    let inside = self.softirqs.entry(*vec).or_default();
                    inside.add(now_ns - end.start_ns, end.net_ns);
                    let subject = DelaySubject::Softirq(*vec);
                    ended(Signal::Softirq, subject, end.start_ns, Some(end.net_ns));
                }
            }
            // None lasts over a switch: its exit is not recorded, or was lost.
            TraceKind::SchedSwitch { .. } if cpu.nesting.in_hardirq() => cpu.forget_interrupts(),
            // What was raised may have run meanwhile.
            TraceKind::Lost(_) => {
                self.raised.remove(&event.cpu);
            }
            _ => {}
        }
    }

    /// Forgets what was counted.
    pub fn begin(&mut self) {
        for inside in self.irqs.values_mut() {
            (inside.whole, inside.net_ns) = (Spread::default(), 0);
        }
        self.vectors.clear();
        self.softirqs.clear();
        self.raises.clear();
    }

    /// Device interrupts, by number.
    pub fn hardirq(&self) -> Vec<Handler> {
        let document = |(irq, inside): (&u32, &Inside)| Handler {
            irq: Some(*irq),
            name: inside.name.clone(),
            whole: inside.whole,
            net_ns: inside.net_ns,
        };
        self.irqs.iter().filter(|(_, inside)| inside.whole.count > 0).map(document).collect()
    }

    pub fn vector(&self) -> Vec<Handler> {
        let document = |(number, inside): (&u32, &Inside)| Handler {
            irq: None,
            name: VECTORS.get(*number as usize).copied().unwrap_or("").to_owned(),
            whole: inside.whole,
            net_ns: inside.net_ns,
        };
        self.vectors.iter().map(document).collect()
    }

    /// Softirqs, by number.
    pub fn softirq(&self) -> Vec<Softirq> {
        let document = |(vector, inside): (&u32, &Inside)| Softirq {
            vector: *vector,
            name: name(*vector),
            whole: inside.whole,
            net_ns: inside.net_ns,
        };
        self.softirqs.iter().map(document).collect()
    }

    pub fn raise(&self) -> Vec<Raise> {
        let document = |(vector, whole): (&u32, &Spread)| Raise {
            vector: *vector,
            name: name(*vector),
            whole: *whole,
        };
        self.raises.iter().map(document).collect()
    }
}

fn name(vector: u32) -> &'static str {
    SOFTIRQ_VECTORS.get(vector as usize).copied().unwrap_or("")
}
