//! Incident drills: something is planted that disturbs a service, and what each surface of noised says is held against that.
//!
//! A drill is judged by what it knows: who disturbs whom, by which resource, and which commands hurt no bystander. Its
//! client proves that the service was disturbed; where it was not, the drill proves nothing. Drills that plant nothing are
//! right where noised is silent. The command `noise-drill` plays them, and a live test some of them.

mod cpu;
mod felt;
mod judge;
mod kit;
mod look;
mod quiet;
mod run;
mod services;
mod storage;
mod table;
mod truth;

pub use felt::Felt;
pub use judge::{Ending, Outcome, Seconds};
pub use look::{Look, Shown};
pub use run::{Plan, play};
pub use table::{heading, progress, record, report};

use anyhow::Result;

use kit::Stage;

/// A drill.
#[derive(Clone, Copy, Debug)]
pub struct Drill {
    /// Its name on command lines and in tables.
    pub name: &'static str,
    /// What is planted.
    pub plot: &'static str,
    /// Makes its stage.
    prepare: fn() -> Result<Prepared>,
}

/// What there is to play on.
enum Prepared {
    /// All that it needs.
    Ready(Box<Stage>),
    /// This host cannot do it, for this reason.
    Impossible(String),
}

/// All drills, in the order in which they are played.
pub const DRILLS: &[Drill] = &[
    Drill { name: "cpu", plot: "a hog of another cgroup on all CPUs", prepare: cpu::hog },
    Drill { name: "quota", plot: "a CPU quota that is set too low", prepare: cpu::quota },
    Drill {
        name: "fsync",
        plot: "a hog of the disk, against a service that writes through it",
        prepare: storage::fsync,
    },
    Drill {
        name: "packets",
        plot: "a flood of UDP packets, received by softirqs on the service's only CPU",
        prepare: cpu::packets,
    },
    Drill {
        name: "memory",
        plot: "a memory limit into which the files that are read do not fit",
        prepare: storage::memory,
    },
    Drill {
        name: "lock",
        plot: "a lock that threads of one process hold for too long",
        prepare: services::lock,
    },
    Drill { name: "forks", plot: "a storm of processes that begin and end", prepare: cpu::forks },
    Drill {
        name: "realtime",
        plot: "a SCHED_FIFO hog on the service's only CPU",
        prepare: cpu::realtime,
    },
    Drill { name: "backend", plot: "a backend that answers late", prepare: services::backend },
    Drill {
        name: "remote",
        plot: "a backend on another host that answers late",
        prepare: services::remote,
    },
    Drill {
        name: "names",
        plot: "a name server that does not answer any more",
        prepare: services::names,
    },
    Drill {
        name: "nagle",
        plot: "requests in two small packets, of which the second waits for a delayed acknowledgement",
        prepare: services::nagle,
    },
    Drill {
        name: "writeback",
        plot: "writes to the page cache that have to wait for writeback",
        prepare: storage::writeback,
    },
    Drill {
        name: "swap",
        plot: "a memory limit into which the service's own memory does not fit",
        prepare: storage::swap,
    },
    Drill { name: "neighbour", plot: "a hog in another container", prepare: cpu::neighbour },
    Drill { name: "crowd", plot: "many small services beside one hog", prepare: cpu::crowd },
    Drill { name: "both", plot: "a hog of CPUs and one of the disk", prepare: cpu::both },
    Drill { name: "idle", plot: "nothing, and next to no requests", prepare: quiet::idle },
    Drill { name: "steady", plot: "nothing, under steady load", prepare: quiet::steady },
];

/// The drill of this name.
pub fn find(name: &str) -> Option<&'static Drill> {
    DRILLS.iter().find(|drill| drill.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drills_have_names_of_their_own() {
        for (number, drill) in DRILLS.iter().enumerate() {
            assert!(DRILLS.iter().skip(number + 1).all(|other| other.name != drill.name));
            assert!(find(drill.name).is_some());
        }
        assert!(find("none").is_none());
    }
}
