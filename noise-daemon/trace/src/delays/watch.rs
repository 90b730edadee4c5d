//! Delays one by one, as each ends: the same that the sums of a document are made of.

use std::fmt;

use noise_common::charge::{Cause, VECTOR_SOURCE};
use noise_common::hooks::{VECTORS, Vector};
use noise_common::signals::{SOFTIRQ_VECTORS, Signal};

use super::document::Charge;
use super::sums::{Party, Sums};
use crate::event::Comm;

/// Sees each delay when it has ended.
pub trait Watch {
    /// Whether waits are wanted one by one, with who ran meanwhile.
    const EACH: bool = true;

    /// A thread ran, from switch to switch.
    fn ran(&mut self, run: &Run);
    /// A thread got the CPU that it waited for.
    fn waited(&mut self, wait: &RunQueueWait<'_>);
    /// Something else ended: an interrupt, a request, a packet.
    fn delayed(&mut self, delay: &Delay<'_>);
}

/// Nothing is wanted but the sums.
impl Watch for () {
    const EACH: bool = false;

    fn ran(&mut self, _: &Run) {}

    fn waited(&mut self, _: &RunQueueWait<'_>) {}

    fn delayed(&mut self, _: &Delay<'_>) {}
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub tid: i32,
    pub comm: Comm,
    pub cpu: u32,
    /// From then on, nanoseconds since the epoch of the trace's clock.
    pub from_ns: u64,
    pub to_ns: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct RunQueueWait<'a> {
    pub tid: i32,
    pub comm: Comm,
    /// How it began: `wakeup` or `preempt`.
    pub signal: &'static str,
    /// Where the thread runs in the end.
    pub cpu: u32,
    /// From then on, nanoseconds since the epoch of the trace's clock.
    pub from_ns: u64,
    pub to_ns: u64,
    pub(super) culprits: &'a Sums,
    pub(super) following: &'a Sums,
    pub(super) charges: &'a Sums,
}

impl RunQueueWait<'_> {
    /// Who or what took it, divided in the three ways that a document's lists are named after. The parts of
    /// each way sum to the wait. Threads have the name that they had meanwhile.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, Charge)> + '_ {
        let ways = [
            ("culprits", self.culprits),
            ("culprits_following_migrations", self.following),
            ("charges", self.charges),
        ];
        ways.into_iter().flat_map(|(way, sums)| {
            let part =
                move |(party, comm, ns): (_, Comm, _)| (way, charge(party, comm.to_string(), ns));
            sums.sorted().into_iter().map(part)
        })
    }
}

/// A part of a wait with all that is known of who took it.
pub(super) fn charge(party: Party, comm: String, ns: u64) -> Charge {
    let (tid, cause, source) = match party {
        Party::Thread { cause: Cause::Idle, tid } => (Some(tid), "idle", None),
        Party::Thread { tid, .. } => (Some(tid), "thread", None),
        Party::Other { cause: Cause::Hardirq, source } if source & VECTOR_SOURCE != 0 => {
            let name = VECTORS.get((source & !VECTOR_SOURCE) as usize);
            (None, Cause::Hardirq.name(), name.map(|name| (*name).to_owned()))
        }
        Party::Other { cause: cause @ (Cause::Hardirq | Cause::Softirq), source } => {
            let source = Some(source).filter(|source| *source != u64::MAX);
            (None, cause.name(), source.map(|source| source.to_string()))
        }
        Party::Other { cause, .. } => (None, cause.name(), None),
    };
    let tid = tid.filter(|tid| *tid >= 0);
    Charge { tid, comm, cause, source, ns }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelaySubject<'a> {
    /// A device interrupt, by its number and its handler's name.
    Irq(u32, &'a str),
    Vector(Vector),
    Softirq(u32),
    /// A block device, with its name where the recording has it.
    Device(u32, Option<&'a str>),
    Interface(&'a str),
}

impl fmt::Display for DelaySubject<'_> {
    /// As documents name it: the name, else the number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Irq(irq, "") => write!(f, "{irq}"),
            Self::Irq(_, name) | Self::Device(_, Some(name)) | Self::Interface(name) => {
                f.write_str(name)
            }
            Self::Vector(which) => f.write_str(VECTORS.get(*which as usize).unwrap_or(&"")),
            Self::Softirq(vec) => f.write_str(SOFTIRQ_VECTORS.get(*vec as usize).unwrap_or(&"")),
            Self::Device(dev, None) => write!(f, "{}:{}", dev >> 20, dev & 0xf_ffff),
        }
    }
}

impl DelaySubject<'_> {
    /// Its number, where it has one: of the irq, the softirq, the device as the kernel numbers it.
    pub const fn number(&self) -> Option<u32> {
        match self {
            Self::Irq(number, _) | Self::Softirq(number) | Self::Device(number, _) => Some(*number),
            Self::Vector(_) | Self::Interface(_) => None,
        }
    }
}

/// An interrupt, a request or a packet, from its begin to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay<'a> {
    pub signal: Signal,
    pub subject: DelaySubject<'a>,
    pub cpu: u32,
    /// From then on, nanoseconds since the epoch of the trace's clock.
    pub from_ns: u64,
    pub to_ns: u64,
    /// Without what nested inside, where that is known.
    pub net_ns: Option<u64>,
}
