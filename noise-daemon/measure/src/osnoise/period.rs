//! One CPU's measurement over one period: what every backend hands on.

use noise_common::watch::{KINDS, NoiseEvent, NoiseKind};

use crate::explain::Explained;
use crate::gaps::Stopped;
use crate::source::{CLASSES, Class};

/// How often each class was seen; of the hardware, samples without any event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; CLASSES.len()]);

impl Counts {
    /// The counts of these samples and events.
    pub fn of(samples: &[Explained], events: &[NoiseEvent]) -> Self {
        let mut counts = Self::default();
        for event in events {
            counts.0[class_of(event) as usize] += 1;
        }
        let hardware = samples.iter().filter(|sample| sample.is_hardware()).count();
        counts.0[Class::Hardware as usize] = hardware as u64;
        counts
    }

    /// Those of one class.
    pub const fn of_class(&self, class: Class) -> u64 {
        self.0[class as usize]
    }

    /// The same with another number for one class.
    pub const fn with(mut self, class: Class, count: u64) -> Self {
        self.0[class as usize] = count;
        self
    }

    pub fn add(&mut self, others: &Self) {
        for (sum, other) in self.0.iter_mut().zip(others.0) {
            *sum += other;
        }
    }
}

/// The class of an event.
pub fn class_of(event: &NoiseEvent) -> Class {
    match KINDS.get(event.kind as usize) {
        Some(NoiseKind::Nmi) => Class::Nmi,
        Some(NoiseKind::Hardirq | NoiseKind::Vector) => Class::Irq,
        Some(NoiseKind::Softirq) => Class::Softirq,
        Some(NoiseKind::Thread | NoiseKind::EndlessThread) => Class::Thread,
        Some(NoiseKind::PageFault) => Class::PageFault,
        None => Class::Hardware,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeriodReport {
    pub cpu: u32,
    /// The thread that measured it.
    pub thread: u32,
    /// First reading of the clock, CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    /// How long it measured, ns.
    pub runtime_ns: u64,
    /// Time of all gaps from the threshold on, ns.
    pub noise_ns: u64,
    /// The longest of them, ns.
    pub longest_ns: u64,
    /// How often each class was seen, lost events included where the backend knows of them.
    pub counts: Counts,
    /// The gaps, explained, in order of time. They and the events are on one clock: CLOCK_MONOTONIC, or
    /// the kernel tracer's own.
    pub samples: Vec<Explained>,
    /// All events of this time, those in gaps below the threshold included, in the order in which they ended.
    pub events: Vec<NoiseEvent>,
    /// Samples for which there was no room; their time is in the noise.
    pub lost_samples: u64,
    /// Events that were lost: samples may lack parts.
    pub lost_events: u64,
    /// Why it ended early.
    pub stopped: Option<Stopped>,
}
