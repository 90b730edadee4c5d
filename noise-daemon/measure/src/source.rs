//! What a gap can be filled by.

use std::fmt;

use noise_host::resolve::without_cpu;

noise_common::named! {
    /// Kinds of noise, in the words of the kernel's osnoise tracer.
    #[derive(
        Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
    )]
    #[serde(rename_all = "snake_case")]
    pub enum Class all CLASSES {
        /// No event of the kernel: the hardware (SMI) or the hypervisor.
        Hardware = "hardware",
        Nmi = "nmi",
        /// Device interrupts and interrupt vectors.
        Irq = "irq",
        Softirq = "softirq",
        /// Other threads, the kernel's and users'.
        Thread = "thread",
        /// Page faults of the measuring thread.
        PageFault = "page_fault",
    }
}

impl fmt::Display for Class {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// One source of noise.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct GapSource {
    pub class: Class,
    /// A name that people know: a handler (`virtio0-input.0`), a vector (`local_timer`), a softirq
    /// vector (`net_rx`), a thread's name (`kworker/0:1`). Empty where the class says it all.
    pub name: String,
    /// Number of the irq, of the vector or of the softirq, or the thread's pid; 0 where there is none.
    pub id: u32,
}

impl GapSource {
    /// Its name without the number of a kernel thread: which of several of one kind did the work is chance.
    pub fn kind_name(&self) -> &str {
        if self.class == Class::Thread { without_cpu(&self.name) } else { &self.name }
    }
}

impl fmt::Display for GapSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.class.name())?;
        if !self.name.is_empty() {
            write!(formatter, " {}:{}", self.name, self.id)?;
        }
        Ok(())
    }
}
