//! Where screens show a signal.

/// Title of a table of a signal's subjects, where nothing more is to be said.
pub const RECENT: &str = "In the last seconds";

/// Where a signal is shown besides the overview, which shows every one that is no part of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Overview,
    /// *IRQ*: a row for each subject.
    Source {
        /// What is in the column `kind`.
        kind: &'static str,
    },
    /// *IRQ*: how long the sources of a kind waited before they were served.
    Before {
        /// The kind: that of the signal which measures them being served.
        kind: &'static str,
    },
    /// *Disk and net*: a row for each subject.
    Way {
        way: Way,
        stage: Stage,
    },
}

crate::named! {
    /// What happens at a device or interface. The name is the operation, where that says it all.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Way all WAYS {
        /// Requests to a block device.
        Block = "block",
        /// Packets that an interface sends.
        Send = "send",
        /// Packets that it receives.
        Receive = "receive",
        /// Segments that were sent again.
        Retransmit = "retransmit",
        /// Packets that were thrown away, by reason.
        Drop = "drop",
    }
}

/// A part of a [`Way`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The wait for one's turn.
    Queue,
    /// The delivery to whom it is for: the only stage, in the place of a queue.
    Delivery,
    Device,
    /// What is only counted.
    Events,
}

impl Stage {
    /// What its delays are called.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Queue => "Waits in the queue",
            Self::Delivery => "Waits for delivery",
            Self::Device => "Waits for the device",
            Self::Events => "Events",
        }
    }
}
