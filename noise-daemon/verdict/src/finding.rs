//! What a victim lost to a cause, and what can be done about that.

use noise_common::charge::Cause;
use serde::{Serialize, Serializer};

use crate::account::Account;
use crate::advice::Advice;

/// What kind of thing a culprit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CulpritKind {
    /// A cgroup: a service, a container, a pod.
    Cgroup,
    /// A process that is in no cgroup of its own.
    Process,
    /// A thread, of the kernel or of no known cgroup.
    Thread,
    /// What interrupts: a device, a timer, a softirq.
    Device,
    /// What the victim asked: a process, or a service, of this host or of another one.
    Tier,
    /// A limit that was set for the victim itself.
    Limit,
    /// Nothing that has a name.
    None,
}

/// Who had what the victim lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Culprit {
    pub kind: CulpritKind,
    /// Its name, as it is shown.
    pub name: String,
    /// The label of its cgroup, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The process of that which had most, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Its thread that had most, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tid: Option<i32>,
    /// Why it was in the way, in the words of the ledger.
    #[serde(skip)]
    pub cause: Cause,
}

impl Culprit {
    /// One of which no more is known than this.
    pub fn named(kind: CulpritKind, name: impl Into<String>, cause: Cause) -> Self {
        Self { kind, name: name.into(), cgroup: None, pid: None, tid: None, cause }
    }
}

/// What the figures of a finding rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Events of all of the time.
    Whole,
    /// Events of a part of it, or with losses.
    Part,
    /// Counters, which do not say when and for whom.
    Counters,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Whose it is, if that is another victim than the one that the verdict is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub victim: Option<String>,
    pub resource: Account,
    pub culprit: Culprit,
    /// For how long, ns.
    pub ns: u64,
    /// The part of the time in which the victim had something to do, 0 to 1; of counters, of the time that is looked at.
    pub share: f64,
    /// How much is usual of the whole resource in such a time, ns; `None` where that is not known.
    pub usual_ns: Option<u64>,
    /// Whether it is more than usual; `None` where what is usual is not known.
    pub unusual: Option<bool>,
    /// Since when it is so, ns since 1970; `None` where that is not known.
    pub since_ns: Option<u64>,
    /// What it rests on.
    pub evidence: Evidence,
    /// What can be done, the least costly first. Commands stand at those of findings that deserve one alone.
    #[serde(rename = "remedy", serialize_with = "first")]
    pub remedies: Vec<Advice>,
    /// What to look at next, a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Finding {
    /// The remedy that this host has commands for.
    pub fn ready(&self) -> Option<&Advice> {
        self.remedies.iter().find(|one| !one.commands.is_empty())
    }
}

/// The one that comes with a command.
#[derive(Serialize)]
struct Remedied<'a> {
    id: noise_common::remedy::Remedy,
    effect: &'static str,
    command: &'a [String],
    undo: &'a [String],
    risk: &'static str,
}

fn first<S: Serializer>(remedies: &[Advice], serializer: S) -> Result<S::Ok, S::Error> {
    let ready = remedies.iter().find(|one| !one.commands.is_empty());
    let remedied = ready.map(|one| {
        let words = one.remedy.advice();
        Remedied {
            id: one.remedy,
            effect: words.effect,
            command: &one.commands,
            undo: &one.undo,
            risk: words.cost,
        }
    });
    remedied.serialize(serializer)
}
