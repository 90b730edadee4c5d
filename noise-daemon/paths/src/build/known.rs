//! What is known of a worker at the moment. It is no stretch of `follow`: a worker may be an idle task or an interrupt, or one
//! that was created and not woken yet, and what it did is decided by the point that ends it.

use noise_trace::event::Task;
use noise_trace::threads::MAX_TID;

use crate::via::{Via, ViaKind};

/// What a worker does from its latest event on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    #[default]
    Unknown,
    Running,
    /// It waits for a CPU.
    Waiting,
    Blocked,
    /// It was created, and no event says since when it wants a CPU.
    Created,
    /// The idle task while others run: it does not wait for them.
    Aside,
    /// It has ended. Who has its id from now on is another one.
    Gone,
}

impl Status {
    /// Whether it is there and has no CPU: where one is not seen, it may run there.
    pub const fn is_off_cpu(self) -> bool {
        matches!(self, Self::Waiting | Self::Blocked | Self::Created)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    pub status: Status,
    /// The CPU of that.
    pub cpu: u32,
    /// What it is in a system call for.
    pub in_call: Option<Via>,
    /// No signal ends its sleep.
    pub is_uninterruptible: bool,
    /// It was woken while it was on its way to sleep, by the number of losses of events up to then: its waker may
    /// have seen it asleep already, and makes it runnable once it is.
    pub woken: Option<u32>,
    /// [`Sight::losses`](noise_trace::sight::Sight::losses) when it began to do that.
    pub losses: u32,
    /// It runs since a sleep whose end was not seen.
    pub is_unseen: bool,
    /// A state dump says of it, while it runs, that it waits.
    pub is_dumped: bool,
}

impl Known {
    /// Whether it is in a call of that kind.
    pub fn is_in(&self, kind: ViaKind) -> bool {
        self.in_call.is_some_and(|via| via.kind == kind)
    }
}

/// Whether a thread leaves its CPU for good. `EXIT_DEAD` and `EXIT_ZOMBIE` are always the same; `TASK_DEAD` is one of
/// two bits by the kernel's version, of which the other one is that of parked threads or part of a sleep's state.
pub const fn is_end(prev_state: i64, has_exited: bool) -> bool {
    const ENDED: i64 = 0x30;
    const DEAD: i64 = 0xc0;
    const SLEEPS: i64 = 0xf;
    prev_state & ENDED != 0 || (has_exited && prev_state & DEAD != 0 && prev_state & SLEEPS == 0)
}

/// Whether the thread that an event names can be one: its id is one that the kernel gives.
pub fn can_be(task: &Task) -> bool {
    (0..MAX_TID).contains(&task.tid)
}
