//! A thread of a victim or a culprit as it is reported.

use super::name::Name;

/// What a thread was started as.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Command {
    /// The thread's number.
    pub pid: u32,
    /// Its name.
    pub comm: Name,
    /// Its command line.
    pub command: Name,
}

/// On which side of a wait a thread was.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// It had what was waited for.
    Culprit,
    /// It waited.
    Victim,
}

/// A thread of a victim or a culprit.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Process {
    /// On which side.
    pub side: Side,
    /// The label of its cgroup, or of the kernel thread that it is.
    pub of: Name,
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub comm: Name,
    /// Its command line, where that could be read.
    pub command: Option<Name>,
    /// In how many long waits.
    pub waits: u64,
    /// For how long of them, ns.
    pub ns: u64,
}

impl Process {
    /// `gzip 777: gzip -9 /var/backup.tar`
    pub fn words(&self) -> String {
        let Self { comm, pid, command, .. } = self;
        match command {
            Some(command) => format!("{comm} {pid}: {command}"),
            None => format!("{comm} {pid}"),
        }
    }
}
