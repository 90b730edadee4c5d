//! A thread of a victim or a culprit as it is reported.

use super::name::Name;

/// What a thread was started as.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StartCommand {
    pub pid: u32,
    pub comm: Name,
    /// Its command line; empty of a thread of the kernel.
    pub command: Name,
    /// The number of its process; `None` where an older noised did not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// Whether it is a thread of the kernel.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_kernel: bool,
}

impl StartCommand {
    /// What it was started as, for people.
    pub fn words(&self) -> &str {
        if self.is_kernel { "a thread of the kernel" } else { &self.command }
    }
}

/// On which side of a wait a thread was.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// It had what was waited for.
    Culprit,
    Victim,
}

/// A thread of a victim or a culprit.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Process {
    pub side: Side,
    /// The label of its cgroup, or of the kernel thread that it is.
    pub of: Name,
    /// Whose waits these are, the label of a cgroup; `None` where an older noised took those of all victims together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim: Option<Name>,
    /// Its number; 0 of several together, as the root cgroup has them.
    pub pid: u32,
    /// Its name; of several together, what they are.
    pub comm: Name,
    /// The number of its process, where that could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// Its command line, where that could be read.
    pub command: Option<Name>,
    /// In how many long waits.
    pub waits: u64,
    /// For how long of them, ns.
    pub ns: u64,
}

impl Process {
    /// `gzip 777`
    pub fn name(&self) -> String {
        match self.pid {
            0 => self.comm.to_string(),
            pid => format!("{} {pid}", self.comm),
        }
    }

    /// `gzip 777: gzip -9 /var/backup.tar`
    pub fn words(&self) -> String {
        match &self.command {
            Some(command) => format!("{}: {command}", self.name()),
            None => self.name(),
        }
    }
}
