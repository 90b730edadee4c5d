//! What the host says beside an incident: pressure of the victim's cgroup, and which remedies apply as it is set up.

use noise_model::pressure::Pressure;

use noise_verdict::Advice;

use super::name::Name;

/// Pressure of the victim's cgroup at both ends of an incident.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct IncidentPressure {
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
    /// The cgroup whose settings these rest on, as a culprit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advised_culprit: Option<Name>,
    /// The interrupt whose CPUs they rest on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advised_interrupt: Option<Name>,
}
