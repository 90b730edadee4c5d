//! What the subjects of signals are, and to which part of the host signals belong.

crate::named! {
    /// A part of the host.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Domain {
        /// Tasks and the CPUs that they wait for.
        Cpu = "cpu",
        Interrupts = "interrupts",
        Disk = "disk",
        Network = "network",
        Memory = "memory",
    }
}

/// What the subjects of a signal are, and with that, what the numbers mean that the kernel side has for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectKind {
    Host,
    /// Kinds of the host's own delays or events: an index into these names.
    Kinds(&'static [&'static str]),
    /// Sources of interrupts that have fixed names: an index into these.
    Vectors(&'static [&'static str]),
    /// Device interrupts: the number of the irq.
    Irq,
    /// Cgroups of tasks: the id.
    Cgroup,
    /// Requests of a block device, by operation: see [`crate::signals::split_block_subject`].
    Request,
    /// Interfaces: the index, or [`crate::signals::OTHER_INTERFACE`].
    Interface,
    /// The kernel's reasons for dropping a packet: the number.
    DropReason,
}

impl SubjectKind {
    /// How many labels a subject has.
    pub const fn labels(self) -> usize {
        match self {
            Self::Host => 0,
            Self::Irq | Self::Request => 2,
            _ => 1,
        }
    }
}

/// What an id is the cgroup of: ids of different hierarchies have nothing to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Of {
    Task,
    Request,
    Socket,
}
