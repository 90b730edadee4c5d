//! What has baselines: delays that a signal measures, and what is taken from running work. Written
//! by name, so that the files outlive the numbers.

use std::borrow::Cow;

use noise_common::signals::{ExportKind, SIGNALS, Signal};
use noise_common::subject::SubjectKind;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Name of what no signal measures.
const INTERRUPTION: &str = "interruption";

/// What a baseline, and an incident, can be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    /// The delays of a signal.
    Signal(Signal),
    /// Time that interrupts and the hypervisor take from a cgroup while it runs. It delays nothing
    /// that a signal measures.
    Interruption,
}

impl Watched {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Signal(signal) => signal.info().name,
            Self::Interruption => INTERRUPTION,
        }
    }

    /// The signal; `None` of what no signal measures.
    pub fn signal(self) -> Option<Signal> {
        match self {
            Self::Signal(signal) => Some(signal),
            Self::Interruption => None,
        }
    }

    /// Whether its subjects are cgroups.
    pub fn is_of_cgroup(self) -> bool {
        match self {
            Self::Signal(signal) => signal.info().subject == SubjectKind::Cgroup,
            Self::Interruption => true,
        }
    }

    /// What it is, in a sentence.
    pub fn help(self) -> &'static str {
        match self {
            Self::Signal(signal) => signal.info().help,
            Self::Interruption => {
                "Time that interrupts and the hypervisor take from a cgroup while it runs, of one \
                 CPU's time."
            }
        }
    }

    /// Every signal that measures delays, and what no signal measures.
    pub fn all() -> impl Iterator<Item = Self> {
        let delays = SIGNALS.iter().filter(|info| matches!(info.kind, ExportKind::Histogram(_)));
        delays.map(|info| Self::Signal(info.signal)).chain([Self::Interruption])
    }
}

impl From<Signal> for Watched {
    fn from(signal: Signal) -> Self {
        Self::Signal(signal)
    }
}

impl PartialEq<Signal> for Watched {
    fn eq(&self, other: &Signal) -> bool {
        *self == Self::Signal(*other)
    }
}

impl Serialize for Watched {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Watched {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<'de, str>::deserialize(deserializer)?;
        Self::all().find(|watched| watched.name() == name).ok_or_else(|| {
            let known: Vec<_> = Self::all().map(Self::name).collect();
            D::Error::custom(format!(
                "unknown signal `{name}`, expected one of {}",
                known.join(", ")
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_survive_being_written() {
        let names: BTreeSet<_> = Watched::all().map(Watched::name).collect();
        assert_eq!(names.len(), Watched::all().count());
        for watched in Watched::all() {
            let text = serde_json::to_string(&watched).unwrap();
            assert_eq!(serde_json::from_str::<Watched>(&text).unwrap(), watched);
        }
        assert!(serde_json::from_str::<Watched>("\"context_switch\"").is_err());
    }
}
