//! PURE: what was taken from each CPU in a step.

use std::borrow::Cow;
use std::cmp::Ordering;

use noise_text::joined::{in_order, joined};

use crate::amount::total;
use crate::changes::{grown, since_boot};
use crate::sample::Sample;

/// Who takes time from a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taker {
    /// Handlers of device interrupts.
    Hardirq,
    Softirq,
    Nmi,
    /// Vectors of x86.
    Vector,
    Steal,
    /// What a newer daemon may name besides.
    Other,
}

/// How many they are.
pub const TAKERS: usize = Taker::Other as usize + 1;

impl Taker {
    /// The one that samples call by this name.
    pub fn of(source: &str) -> Self {
        match source {
            "hardirq" => Self::Hardirq,
            "softirq" => Self::Softirq,
            "nmi" => Self::Nmi,
            "vector" => Self::Vector,
            _ => Self::Other,
        }
    }
}

/// What came of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    pub cpu: u32,
    /// What was taken from it, ns, in the order of [`Taker`].
    pub taken_ns: [u64; TAKERS],
    /// How long tasks waited for it, ns.
    pub waited_ns: u64,
}

impl Cpu {
    /// What one of them took, ns.
    pub fn taken_by(&self, who: Taker) -> u64 {
        self.taken_ns.get(who as usize).copied().unwrap_or_default()
    }

    /// What all of them took, ns.
    pub fn all_taken_ns(&self) -> u64 {
        total(self.taken_ns)
    }

    /// Adds what came in another time.
    pub fn add(&mut self, more: &Self) {
        let sums = self.taken_ns.iter_mut().zip(&more.taken_ns);
        sums.for_each(|(sum, ns)| *sum = sum.saturating_add(*ns));
        self.waited_ns = self.waited_ns.saturating_add(more.waited_ns);
    }
}

/// A CPU, who took it or none for those who waited for it, ns.
type CpuCharge = (u32, Option<Taker>, u64);

/// CPUs of which anything came between two samples, in order.
pub(super) fn between(before: &Sample, now: &Sample) -> Vec<Cpu> {
    let mut came: Vec<CpuCharge> = Vec::new();
    let order =
        |a: &(u32, Cow<'_, str>, u64), b: &(u32, Cow<'_, str>, u64)| (a.0, &a.1).cmp(&(b.0, &b.1));
    let [then, them] = [before, now].map(|sample| in_order(&sample.interrupted, order));
    for (then, (cpu, source, ns)) in joined(then, them, |a, b| order(a, b)) {
        came.push((*cpu, Some(Taker::of(source)), grown(ns, then.map(|(_, _, ns)| ns))));
    }
    let numbers = |of: fn(&Sample) -> &[(u32, u64)]| {
        let [then, them] = [before, now].map(|sample| in_order(of(sample), by_cpu));
        joined(then, them, |a, b| by_cpu(a, b))
    };
    for (then, (cpu, ns)) in numbers(|sample| &sample.stolen) {
        came.push((*cpu, Some(Taker::Steal), since_boot(then.map(|(_, ns)| *ns), *ns)));
    }
    for (then, (cpu, ns)) in numbers(|sample| &sample.waited) {
        came.push((*cpu, None, grown(ns, then.map(|(_, ns)| ns))));
    }
    came.retain(|(_, _, ns)| *ns > 0);
    came.sort_by_key(|(cpu, _, _)| *cpu);
    came.chunk_by(|a, b| a.0 == b.0).map(together).collect()
}

fn by_cpu(a: &(u32, u64), b: &(u32, u64)) -> Ordering {
    a.0.cmp(&b.0)
}

/// All of one CPU.
fn together(came: &[CpuCharge]) -> Cpu {
    let mut sum = Cpu::default();
    for (cpu, who, ns) in came {
        sum.cpu = *cpu;
        match who.and_then(|who| sum.taken_ns.get_mut(who as usize)) {
            Some(taken_ns) => *taken_ns = taken_ns.saturating_add(*ns),
            None => sum.waited_ns = sum.waited_ns.saturating_add(*ns),
        }
    }
    sum
}
