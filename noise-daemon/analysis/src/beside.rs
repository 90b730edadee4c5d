//! What the host says beside an incident: pressure of the victim's cgroup, and which remedies apply as it is set up.

use noise_common::charge::Cause;
use noise_common::subject::SubjectKind;
use noise_model::pressure::Pressure;

use super::advice::Advice;
use super::name::Name;
use super::report::{Episode, Report};
use super::watched::Watched;

/// Pressure of the victim's cgroup at both ends of an incident.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct IncidentPressure {
    /// When it opened.
    pub opening: Pressure,
    /// When it closed, or was last looked at while it is open, with what grew since it opened.
    #[serde(default)]
    pub latest: Option<Pressure>,
}

/// What is known beside an incident; an older noised knew none of it.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Beside {
    /// Where the victim is a cgroup that was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure: Option<IncidentPressure>,
    /// The remedies of what it is about that apply to this host; `None` where that was not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<Vec<Advice>>,
}

impl Report {
    /// The remedies as they apply to this host; as they are where that was not looked at.
    pub fn advice(&self) -> Vec<Advice> {
        let plain = || self.main.remedies.iter().map(|remedy| Advice::plain(*remedy)).collect();
        self.beside.advice.clone().unwrap_or_else(plain)
    }
}

/// Who meets in an episode, by their labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parties {
    /// The victim, where it is a cgroup.
    pub victim: Option<Name>,
    /// The first culprit that is another cgroup.
    pub culprit: Option<Name>,
    /// The first culprit that is a device's interrupt.
    pub interrupt: Option<Name>,
    /// The disk that it is about.
    pub disk: Option<String>,
    /// Whether that is about what is written.
    pub is_write: bool,
}

impl Episode {
    /// Who meets in it.
    pub fn parties(&self) -> Parties {
        let kind = match self.signal {
            Watched::Signal(signal) => signal.info().subject,
            Watched::Interruption => SubjectKind::Cgroup,
        };
        let first = |cause: Cause| {
            let mut culprits = self.culprits.iter();
            culprits.find(|one| one.cause == cause).map(|one| Name::clone(&one.culprit))
        };
        let disk =
            matches!(kind, SubjectKind::Request).then(|| self.subject.split_once(' ')).flatten();
        Parties {
            victim: matches!(kind, SubjectKind::Cgroup).then(|| Name::clone(&self.subject)),
            culprit: first(Cause::Foreign),
            interrupt: first(Cause::Hardirq),
            disk: disk.map(|(name, _)| name.to_owned()),
            is_write: disk.is_some_and(|(_, operation)| operation != "read"),
        }
    }
}
