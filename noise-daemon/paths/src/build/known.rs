//! What is known of a worker at the moment.

/// What a worker does from its latest event on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// It is not known.
    #[default]
    Unknown,
    /// It runs.
    Running,
    /// It waits for a CPU.
    Waiting,
    /// It sleeps.
    Blocked,
    /// It was created, and no event says since when it wants a CPU.
    Created,
    /// The idle task while others run: it does not wait for them.
    Aside,
    /// It has ended. Who has its id from now on is another one.
    Gone,
}

/// What is known of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// What it does.
    pub status: Status,
    /// The CPU of that.
    pub cpu: u32,
    /// It is in the system call of locks.
    pub in_futex: bool,
    /// It was woken while it was on its way to sleep, by the number of losses of events up to then: its waker may
    /// have seen it asleep already, and makes it runnable once it is.
    pub woken: Option<u32>,
    /// The number of losses of events when it began to do that.
    pub losses: u32,
    /// It runs since a sleep whose end was not seen.
    pub is_unseen: bool,
    /// A state dump says of it, while it runs, that it waits.
    pub is_dumped: bool,
}
