//! What becomes of a remedy, and what remedies against several resources share.

use noise_model::setup::Controller;

use super::command::Made;

/// By what a weight is divided that is to be lowered.
const WEIGHT_PART: u64 = 5;
/// The weight that a cgroup has where nothing is set.
pub const USUAL_WEIGHT: u64 = 100;

/// What becomes of a remedy.
pub enum Outcome {
    /// Nothing here decides it.
    Open,
    /// It cannot help here.
    Out,
    Applies {
        now: String,
        made: Made,
    },
}

/// A lower weight, a fifth of what the lower one of both is.
pub fn lower(victim: Option<u64>, culprit: Option<u64>) -> u64 {
    let (victim, culprit) = (victim.unwrap_or(USUAL_WEIGHT), culprit.unwrap_or(USUAL_WEIGHT));
    (victim.min(culprit) / WEIGHT_PART).max(1)
}

/// Whether the culprit has the lower weight already.
pub fn is_lower(victim: Option<u64>, culprit: Option<u64>) -> bool {
    victim.zip(culprit).is_some_and(|(victim, culprit)| culprit < victim)
}

/// Where the files of a controller are.
pub struct Files<'a> {
    pub folder: &'a String,
    /// Version of cgroups: 1 or 2.
    pub version: u8,
    /// The parent that has to hand the controller down first.
    pub hand_down: Option<(&'a String, &'static str)>,
}

impl<'a> Files<'a> {
    /// Those of a controller of that name; `None` where there is none.
    pub fn of(controller: &'a Controller, name: &'static str) -> Option<Self> {
        match controller {
            Controller::On { folder, version } => {
                Some(Self { folder, version: *version, hand_down: None })
            }
            Controller::Off { folder, parent } => {
                Some(Self { folder, version: 2, hand_down: Some((parent, name)) })
            }
            Controller::Missing => None,
        }
    }
}
