//! What is usual for a signal of a subject, as it is answered to those who ask.

use super::baseline::Baseline;
use super::level::Level;
use super::name::Name;
use super::watched::Watched;

/// What is usual for a signal of a subject.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Usual {
    pub signal: Watched,
    /// Whose; of cgroups, the label.
    pub subject: Name,
    /// Windows with events that it was learnt from: of half a second, or while it is calm of a second.
    pub windows: u64,
    /// How the signal is usually.
    #[serde(flatten)]
    pub level: Level,
    /// Since when it is so, ns on the clock of the samples, where a disturbance lasted so long that it was adopted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted_since_ns: Option<u64>,
}

impl Usual {
    /// What a baseline has learnt of it.
    pub fn learnt(signal: Watched, subject: &Name, baseline: &Baseline) -> Self {
        Self {
            signal,
            subject: Name::clone(subject),
            windows: baseline.learnt(),
            level: baseline.level(),
            adopted_since_ns: baseline.adopted_since_ns(),
        }
    }
}
