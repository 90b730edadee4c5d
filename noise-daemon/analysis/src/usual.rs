//! What is usual for a signal of a subject, as it is answered to those who ask.

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
}
