//! What a worker does between two points of its time, and how one worker acts on another.

noise_common::named! {
    /// In the order in which documents have them, by the names that they have there. A sleep that nothing explains is
    /// `unknown`, too, and so is the time before a thread's first run where nothing says that it waited for a CPU.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum State all STATES {
        Running = "running",
        /// It was woken or preempted, or is new, and waits for a CPU.
        WaitingCpu = "waiting_cpu",
        /// It sleeps until a disk is done.
        Disk = "disk",
        /// It sleeps until a packet comes.
        Network = "network",
        /// It sleeps until a timer expires.
        Timer = "timer",
        /// It sleeps in a lock's system call until a task wakes it.
        Futex = "futex",
        /// It sleeps, and a task wakes it: the wake-up leads to who does.
        Task = "task",
        /// It sleeps until an interrupt of another kind.
        Interrupt = "interrupt",
        /// It sleeps, and an interrupt from another CPU wakes it; which task caused that is not recorded.
        Ipi = "ipi",
        /// It sleeps, and the trace does not say what ends that.
        Blocked = "unknown",
        /// It was created, and does not run yet. Whether it waits for a CPU the trace does not say: where it has
        /// `sched_wakeup_new`, that begins such a wait.
        Created = "unknown",
        /// The trace does not say what it does.
        Unknown = "unknown",
    }
}

impl State {
    /// Whether what a waker did meanwhile takes its place, where a waker is known.
    pub const fn is_replaced(self) -> bool {
        matches!(self, Self::Blocked | Self::Task | Self::Futex | Self::Network)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    Wakes,
    /// It wakes the thread that waits for it, its child, to end.
    Ends,
    Creates,
    /// It sends it a packet.
    Sends,
    /// A timer that it set wakes it.
    Times,
}

impl Action {
    /// What a worker does that waits for this to reach it.
    pub const fn state(self) -> State {
        match self {
            Self::Wakes | Self::Ends | Self::Creates => State::Task,
            Self::Sends => State::Network,
            Self::Times => State::Timer,
        }
    }
}
