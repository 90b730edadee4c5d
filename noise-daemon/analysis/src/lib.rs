//! PURE: what the measured delays mean. No clock, no file, no kernel: time is an argument, and a
//! recorded stream of windows gives the same answer as the live one.
//!
//! Each signal of each subject has a learnt [`Baseline`] of the mean delay of its windows. The
//! latest windows are held against it by the two coarse rules of critical-path anomaly detection
//! ([`Rule`]); what leaves its baseline is an [`Incident`] with start, end, size, ranked culprits
//! and what can be done about them ([`Remedy`]). [`Monitor`] does so for many subjects, [`Feed`]
//! makes their windows from samples, and [`Board`] reports what explains each other as one
//! [`Report`].
//!
//! Not seen: a flood of delays that are as short as ever. It raises the rate and the time lost, but
//! not the mean, which is what both rules look at. And a level that wanders by itself for many
//! windows looks like an incident: allowances for chance are those of independent windows.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
#![cfg_attr(not(test), deny(clippy::disallowed_types))]

mod accused;
mod baseline;
mod beside;
mod board;
#[cfg(test)]
#[path = "../../../tests/src/chance.rs"]
mod chance;
mod charges;
mod culprits;
mod feed;
mod group;
mod headline;
mod incident;
mod interruption;
mod kept;
mod level;
mod monitor;
mod name;
mod parties;
mod pressed;
mod process;
mod processes;
mod relation;
mod remedy;
mod report;
mod rules;
mod settings;
mod stopped;
mod track;
mod usual;
mod verdict;
mod watched;
mod window;
mod wording;

#[cfg(test)]
mod changed;
#[cfg(test)]
mod disks;
#[cfg(any(test, feature = "fixtures"))]
pub mod made;
#[cfg(test)]
mod planted;
#[cfg(test)]
mod planters;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod successors;

pub use baseline::Baseline;
pub use beside::{Beside, IncidentPressure};
pub use board::{Board, LEAST_WINDOWS, Overview};
pub use culprits::{Charge, Culprit, Time};
pub use feed::Feed;
pub use group::GroupChange;
pub use headline::{Figure, Headline};
pub use incident::{Change, Ending, Incident};
pub use kept::KeptTrace;
pub use level::Level;
pub use monitor::{Monitor, UnanalysedCounts};
pub use name::Name;
pub use noise_common::charge::Cause;
pub use noise_common::remedy::Remedy;
pub use parties::{Parties, is_held_up};
pub use pressed::{PRESSURE_HEADING, pressure_lines};
pub use process::{Process, Side, StartCommand};
pub use processes::processes;
pub use report::{Clock, Episode, Report, ReportedOutlier};
pub use rules::Rule;
pub use settings::{Settings, SettingsError};
pub use stopped::{StopCharges, Stopped, Stops};
pub use track::Memory;
pub use usual::Usual;
pub use watched::Watched;
pub use window::Window;
