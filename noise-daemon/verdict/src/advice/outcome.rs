//! What becomes of a remedy, and what remedies against several resources share.

use noise_common::remedy::Remedy;
use noise_model::setup::{CgroupSetup, Controller, Setup};

use super::command::Made;

/// By what a weight is divided that is to be lowered.
const WEIGHT_PART: u64 = 5;
/// The weight that a cgroup has where nothing is set.
pub const USUAL_WEIGHT: u64 = 100;
/// The same in version 1 of cgroups.
pub const USUAL_SHARES: u64 = 1024;
/// The kernel's number of `SCHED_IDLE`.
const IDLE_POLICY: u32 = 5;

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

/// The weight that a cgroup has where nothing is set, in the units of its version.
fn usual_weight(is_cpu: bool, one: &CgroupSetup) -> u64 {
    let is_first = is_cpu && Files::of(&one.cpu).is_some_and(|files| files.version == 1);
    if is_first { USUAL_SHARES } else { USUAL_WEIGHT }
}

/// That the victim was given a lower weight than is usual, and than the culprit has: a command against the culprit would
/// reverse that choice. Weights are compared where both are known.
pub fn victim_is_lower(remedy: Remedy, setup: &Setup) -> Option<String> {
    let is_cpu = match remedy {
        Remedy::CpuWeight | Remedy::SchedulingPolicy | Remedy::CpuAffinity | Remedy::CpuQuota => {
            true
        }
        Remedy::IoWeight | Remedy::IoMax => false,
        _ => return None,
    };
    // An idle cgroup (`cpu.idle`) shows a weight of 0 or 1.
    let weight = |one: &CgroupSetup| if is_cpu { one.weight } else { one.io_weight };
    if let Some((victim, culprit)) = &setup.siblings
        && let Some((of_victim, of_culprit)) = weight(victim).zip(weight(culprit))
        && of_victim < of_culprit.min(usual_weight(is_cpu, culprit))
    {
        return Some(format!(
            "{} has the lower weight by its settings: {of_victim} against {of_culprit} of {}",
            victim.label, culprit.label
        ));
    }
    let (victim, culprit) = setup.victim.as_ref().zip(setup.culprit.as_ref())?;
    let is_idle = |one: &CgroupSetup| Some(one.main.as_ref()?.policy == IDLE_POLICY);
    (is_cpu && is_idle(victim)? && !is_idle(culprit)?).then(|| {
        format!(
            "{} runs under SCHED_IDLE by its settings, and {} does not",
            victim.label, culprit.label
        )
    })
}

/// Where the files of a controller are.
pub struct Files<'a> {
    /// `None` where the parent does not hand the controller down: to have it do so changes all that is in the parent.
    pub folder: Option<&'a String>,
    /// Version of cgroups: 1 or 2.
    pub version: u8,
}

impl<'a> Files<'a> {
    /// Those of a controller; `None` where there is none.
    pub fn of(controller: &'a Controller) -> Option<Self> {
        match controller {
            Controller::On { folder, version } => {
                Some(Self { folder: Some(folder), version: *version })
            }
            Controller::Off { .. } => Some(Self { folder: None, version: 2 }),
            Controller::Missing => None,
        }
    }
}
