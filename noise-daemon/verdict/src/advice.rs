//! PURE: of the remedies that help against a cause, those that apply to this host, with what is set there now and
//! commands that change it.
//!
//! What cannot help is left out: a weight that is lower already, a controller that there is not, a limit that is not
//! set. So is what would slow or move process 1, the root cgroup or a thread of the kernel. What is not known decides
//! nothing: then the remedy stays as it is. Values in commands are first ones to try.

use noise_common::remedy::Remedy;
use noise_model::memory::{LimitKind, size};
use noise_model::pressure::Quota;
use noise_model::setup::{CgroupSetup, Controller, Manager, Setup, TaskSetup};

mod affinity;
mod command;
mod disk;
mod outcome;

use affinity::{cpu_affinity, irq_affinity, pinned};
pub use command::argument;
use command::{Change, Made, SettingValue, echo};
use disk::{io_max, io_scheduler, io_weight};
use outcome::{Files, Outcome, USUAL_WEIGHT, is_lower, lower, victim_is_lower};

/// By what a limit is multiplied that is to be raised.
const RAISED: u64 = 2;
/// The period of quotas where none is set, µs.
const USUAL_PERIOD_US: u64 = 100_000;
/// Programs of commands that name a process by its number.
const BY_NUMBER: [&str; 2] = ["chrt", "taskset"];

/// A remedy as it applies to this host.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Advice {
    pub remedy: Remedy,
    /// How the host is set up now, a sentence; `None` where that is not known, or says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// Commands for a shell of root that do it, to be run in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// Commands that take these back; empty where what was set before is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undo: Vec<String>,
}

impl Advice {
    /// A remedy of which nothing is known here.
    pub const fn plain(remedy: Remedy) -> Self {
        Self { remedy, now: None, commands: Vec::new(), undo: Vec::new() }
    }

    /// Whether its commands are about a process by its number.
    pub fn names_process(&self) -> bool {
        let is_by_number = |command: &String| {
            BY_NUMBER.iter().any(|program| command.split(' ').next() == Some(program))
        };
        self.commands.iter().any(is_by_number)
    }

    /// The lines that follow what the remedy is: how things are now, the commands, and how they are taken back.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let now = self.now.as_ref().map(|now| format!("now: {now}"));
        let back = (!self.undo.is_empty()).then(|| "to take it back:".to_owned());
        let shell = |command: &String| format!("# {command}");
        now.into_iter()
            .chain(self.commands.iter().map(shell))
            .chain(back)
            .chain(self.undo.iter().map(shell))
    }
}

/// The remedies that apply, in their order.
pub fn advise(remedies: &[Remedy], setup: &Setup) -> Vec<Advice> {
    let advice = |remedy: &Remedy| match verdict(*remedy, setup) {
        Outcome::Open => Some(Advice::plain(*remedy)),
        Outcome::Out => None,
        Outcome::Applies { now, made: Made { commands, undo, manifest } } => {
            let now = [Some(now), manifest].into_iter().flatten().collect::<Vec<_>>().join("; ");
            Some(Advice { remedy: *remedy, now: Some(now), commands, undo })
        }
    };
    let mut advice: Vec<Advice> = remedies.iter().filter_map(advice).collect();
    // That others are idle meanwhile is the first thing to know.
    if pinned(setup).is_some() {
        advice.sort_by_key(|one| one.remedy != Remedy::CpuAffinity);
    }
    advice
}

/// What a remedy changes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// The cgroup that takes the time: it is slowed, or moved.
    Culprit,
    /// The one that waits, or the one around it that limits it.
    Victim,
    /// The host, or a device.
    Host,
}

pub(crate) const fn target(remedy: Remedy) -> Target {
    match remedy {
        Remedy::CpuAffinity
        | Remedy::CpuWeight
        | Remedy::SchedulingPolicy
        | Remedy::CpuQuota
        | Remedy::IoWeight
        | Remedy::IoMax => Target::Culprit,
        Remedy::RaiseQuota | Remedy::FewerThreads | Remedy::MemoryLimits => Target::Victim,
        Remedy::IsolatedCpus
        | Remedy::WorkqueueCpus
        | Remedy::HugePages
        | Remedy::IrqAffinity
        | Remedy::InterruptCoalescing
        | Remedy::PacketSteering
        | Remedy::NmiSources
        | Remedy::DedicatedHost
        | Remedy::IdleStates
        | Remedy::IoScheduler
        | Remedy::FasterDevice
        | Remedy::EarlierReclaim
        | Remedy::ProactiveCompaction
        | Remedy::TrafficShaping => Target::Host,
    }
}

/// Whether a remedy would slow or move what all others depend on.
fn is_harmful(remedy: Remedy, setup: &Setup) -> bool {
    let siblings = setup.siblings.as_ref();
    let changed = match target(remedy) {
        Target::Culprit => {
            let own = setup.victim.as_ref().filter(|_| setup.is_own);
            let culprit = setup.culprit.as_ref().or(own);
            [culprit, siblings.map(|(_, culprit)| culprit)]
        }
        Target::Victim if remedy == Remedy::MemoryLimits => {
            [setup.victim.as_ref(), setup.memory.as_ref().map(|(_, limited)| limited)]
        }
        Target::Victim => [setup.victim.as_ref(), setup.limited.as_ref()],
        Target::Host => [None, None],
    };
    changed.into_iter().flatten().any(CgroupSetup::carries_host)
}

fn verdict(remedy: Remedy, setup: &Setup) -> Outcome {
    if is_harmful(remedy, setup) {
        return Outcome::Out;
    }
    let is_bound =
        matches!(remedy, Remedy::CpuAffinity | Remedy::CpuQuota | Remedy::IoWeight | Remedy::IoMax);
    if is_bound && setup.is_around {
        return Outcome::Out;
    }
    let found = match remedy {
        Remedy::CpuWeight => cpu_weight(setup),
        Remedy::SchedulingPolicy => Some(scheduling_policy(setup)),
        Remedy::CpuAffinity => cpu_affinity(setup),
        Remedy::CpuQuota => cpu_quota(setup),
        Remedy::RaiseQuota => raise_quota(setup),
        Remedy::IsolatedCpus if setup.online.len() == 1 => Some(Outcome::Out),
        Remedy::IoWeight => io_weight(setup),
        Remedy::IoMax => io_max(setup),
        Remedy::IoScheduler => io_scheduler(setup),
        Remedy::MemoryLimits => memory_limits(setup),
        Remedy::IrqAffinity => irq_affinity(setup),
        _ => None,
    };
    match (found.unwrap_or(Outcome::Open), victim_is_lower(remedy, setup)) {
        (Outcome::Applies { now, .. }, Some(why)) => {
            Outcome::Applies { now: format!("{now}; but {why}"), made: Made::default() }
        }
        (outcome, _) => outcome,
    }
}

/// The culprit's thread, if it is named and has a real-time policy, with that policy. How the first process is scheduled
/// says nothing of the one that has the CPU.
fn real_time(setup: &Setup) -> Option<(&CgroupSetup, &TaskSetup, &'static str)> {
    let culprit = setup.culprit.as_ref().filter(|_| setup.is_culprit_named)?;
    let main = culprit.main.as_ref()?;
    Some((culprit, main, main.real_time()?))
}

/// A thread that is not known to be real-time has no policy that is in the way.
fn scheduling_policy(setup: &Setup) -> Outcome {
    real_time(setup).map_or(Outcome::Out, |(culprit, main, policy)| {
        let now = format!(
            "thread {} of {} runs under {policy}, which no weight holds back",
            main.pid, culprit.label
        );
        Outcome::Applies { now, made: out_of_real_time(main) }
    })
}

fn cpu_weight(setup: &Setup) -> Option<Outcome> {
    setup.culprit.as_ref()?;
    if real_time(setup).is_some() {
        return Some(Outcome::Out);
    }
    setup.victim.as_ref()?;
    // One of them lies in the other.
    let Some((victim, culprit)) = &setup.siblings else { return Some(Outcome::Out) };
    if is_lower(victim.weight, culprit.weight) {
        return Some(Outcome::Out);
    }
    // It is the one around the culprit that is weighed: all else in it would be slowed as well. Of a pod, that is what its
    // manifest is about.
    let is_pod = matches!(culprit.manager, Manager::Kubernetes(_));
    if !is_pod && setup.culprit.as_ref().is_some_and(|own| own.label != culprit.label) {
        let now = format!(
            "only {} as a whole is weighed against {}, with all that runs in it",
            culprit.label, victim.label
        );
        return Some(Outcome::Applies { now, made: Made::default() });
    }
    let weight = lower(victim.weight, culprit.weight);
    let words = "lower its resources.requests.cpu, which is its weight";
    let value = |weight: u64, property: u64, shares: u64| SettingValue {
        property: format!("CPUWeight={property}"),
        flag: Some(format!("--cpu-shares {shares}")),
        file: weight.to_string(),
    };
    Some(match &culprit.cpu {
        Controller::Missing => Outcome::Out,
        Controller::Off { .. } => {
            let change = Change {
                to: value(weight, weight, shares(weight)),
                back: Some(SettingValue {
                    property: "CPUWeight=".to_owned(),
                    flag: None,
                    ..value(USUAL_WEIGHT, USUAL_WEIGHT, 0)
                }),
                words,
                file: None,
            };
            let now = format!(
                "the cpu controller is off for {} and {}, so that no weight holds between them",
                victim.label, culprit.label
            );
            Outcome::Applies { now, made: change.made(culprit) }
        }
        Controller::On { folder, version } => {
            let file = if *version == 1 { "cpu.shares" } else { "cpu.weight" };
            let of = |weight: u64| match version {
                // Where systemd has version 1, it turns weights into shares: 100 is 1024.
                1 => value(weight, (weight * USUAL_WEIGHT / 1024).max(1), weight.max(2)),
                _ => value(weight, weight, shares(weight)),
            };
            // Engines differ in the weight that they make of shares: it is given back as it was.
            let back = |value: SettingValue| SettingValue {
                flag: value.flag.filter(|_| *version == 1),
                ..value
            };
            let change = Change {
                to: of(weight),
                back: culprit.weight.map(of).map(back),
                words,
                file: Some((folder, file)),
            };
            let mut made = change.made(culprit);
            if let (2, Manager::Docker(_) | Manager::Podman(_), Some(undo)) =
                (version, &culprit.manager, made.undo.first_mut())
            {
                undo.push_str(" # until the container is started again: that sets the new shares");
            }
            let known = |weight: Option<u64>| {
                weight.map_or_else(|| "not known".to_owned(), |w| w.to_string())
            };
            let now = format!(
                "{file} is {} of {} and {} of {}",
                known(culprit.weight),
                culprit.label,
                known(victim.weight),
                victim.label
            );
            Outcome::Applies { now, made }
        }
    })
}

/// What takes a thread's real-time policy away, and gives it back; a deadline takes more than a priority for that.
fn out_of_real_time(main: &TaskSetup) -> Made {
    let option = match main.policy {
        1 => "--fifo",
        2 => "--rr",
        _ => return Made::default(),
    };
    Made {
        commands: vec![format!("chrt --other --pid 0 {}", main.pid)],
        undo: vec![format!("chrt {option} --pid {} {}", main.priority, main.pid)],
        manifest: None,
    }
}

/// The shares that container engines make that weight of. Newer engines make a weight of them that is up to four times as large:
/// a fifth of the victim's weight is less than before in either way.
const fn shares(weight: u64) -> u64 {
    2 + weight.saturating_sub(1) * 262_142 / 9_999
}

/// A quota of so many CPUs; none lifts it. Docker takes no quota back, and refuses more CPUs than are online:
/// it gets as many as are online instead.
fn quota_value(cpus: Option<f64>, version: u8, period_us: u64, online: usize) -> SettingValue {
    let quota_us = cpus.map(|cpus| (cpus * period_us as f64).round() as u64);
    let percent = cpus.map(|cpus| format!("{}%", digits(cpus * 100.0, 2)));
    let most = online as f64;
    let allowed = cpus.filter(|cpus| online == 0 || *cpus <= most).unwrap_or(most);
    SettingValue {
        property: format!("CPUQuota={}", percent.unwrap_or_default()),
        // It counts µs of each 100 ms.
        flag: Some(format!("--cpus {}", digits(allowed, 5))),
        file: quota_file(Quota { quota_us, period_us }, version),
    }
}

/// So many CPUs, or the least that a manager takes as a quota.
const fn at_least(cpus: f64) -> f64 {
    cpus.max(0.01)
}

/// A number with so many digits behind the point, without zeros that say nothing.
fn digits(number: f64, most: usize) -> String {
    let text = format!("{number:.most$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What a file holds that has this quota.
fn quota_file(quota: Quota, version: u8) -> String {
    let unlimited = if version == 1 { "-1" } else { "max" };
    let quota_us = quota.quota_us.map_or_else(|| unlimited.to_owned(), |us| us.to_string());
    // In version 1, the period is a file of its own.
    if version == 1 { quota_us } else { format!("{quota_us} {}", quota.period_us) }
}

/// Sets the quota of a cgroup; `None` where it has no such controller.
fn quota_change<'a>(
    cpus: f64,
    words: &'a str,
    of: &'a CgroupSetup,
    online: usize,
) -> Option<Change<'a>> {
    let Files { folder, version } = Files::of(&of.cpu)?;
    let file = if version == 1 { "cpu.cfs_quota_us" } else { "cpu.max" };
    let period_us = of.quota.map_or(USUAL_PERIOD_US, |quota| quota.period_us);
    let as_it_was = |quota: Quota| SettingValue {
        file: quota_file(quota, version),
        ..quota_value(quota.cpus().map(at_least), version, period_us, online)
    };
    let is_off = matches!(of.cpu, Controller::Off { .. });
    let none = || quota_value(None, version, period_us, online);
    Some(Change {
        to: quota_value(Some(cpus), version, period_us, online),
        back: of.quota.map(as_it_was).or_else(|| is_off.then(none)),
        words,
        file: folder.map(|folder| (folder, file)),
    })
}

fn cpu_quota(setup: &Setup) -> Option<Outcome> {
    let culprit = setup.culprit.as_ref()?;
    let usable = culprit.may_run_on().unwrap_or(&setup.online).len() as u64;
    if usable == 0 {
        return None;
    }
    let many = if usable == 1 { "" } else { "s" };
    let half = usable as f64 / 2.0;
    let now = match culprit.quota {
        Some(quota) => match quota.cpus() {
            Some(cpus) if cpus <= half => return Some(Outcome::Out),
            Some(cpus) => format!("the quota of {} is {cpus:.2} CPUs", culprit.label),
            None => format!("{} has no quota and may use {usable} CPU{many}", culprit.label),
        },
        None => format!("{} may use {usable} CPU{many}", culprit.label),
    };
    let online = setup.online.len();
    let words = "set its resources.limits.cpu";
    let Some(change) = quota_change(half, words, culprit, online) else {
        return Some(Outcome::Out);
    };
    Some(Outcome::Applies { now, made: change.made(culprit) })
}

fn raise_quota(setup: &Setup) -> Option<Outcome> {
    let Some(limited) = &setup.limited else {
        let victim = setup.victim.as_ref()?;
        // There is one, or none where it could be.
        return matches!(victim.cpu, Controller::On { .. }).then_some(Outcome::Out);
    };
    let cpus = limited.quota.and_then(|quota| quota.cpus())?;
    let online = setup.online.len();
    if online > 0 && cpus >= online as f64 {
        return Some(Outcome::Out);
    }
    let words = "raise its resources.limits.cpu, or leave that out";
    let change = quota_change(at_least(cpus) * RAISED as f64, words, limited, online)?;
    let now = format!("the quota of {} is {cpus:.2} CPUs", limited.label);
    Some(Outcome::Applies { now, made: change.made(limited) })
}

/// Raises the limit that was hit. That one is set says nothing: what reads much is always at its limit.
fn memory_limits(setup: &Setup) -> Option<Outcome> {
    let Some((kind, limited)) = &setup.memory else {
        let victim = setup.victim.as_ref()?;
        let limits = [victim.memory_high, victim.memory_max];
        let is_limited = limits.iter().any(|limit| limit.flatten().is_some());
        let is_known = limits.iter().any(Option::is_some) || victim.memory == Controller::Missing;
        return (is_known && !is_limited).then_some(Outcome::Out);
    };
    let Controller::On { folder, .. } = &limited.memory else { return Some(Outcome::Out) };
    let (property, bytes) = match kind {
        LimitKind::High => ("MemoryHigh", limited.memory_high.flatten()?),
        LimitKind::Max | LimitKind::Old => ("MemoryMax", limited.memory_max.flatten()?),
    };
    let to = bytes.saturating_mul(RAISED);
    let bound = limited.memory_max.flatten().filter(|_| *kind == LimitKind::High);
    if let Some(bound) = bound.filter(|bound| to >= *bound) {
        // Above that, the kernel kills instead of slowing down.
        let now = format!(
            "{} of {} is {}, and memory.max is {}: raise that first",
            kind.file(),
            limited.label,
            size(bytes),
            size(bound)
        );
        return Some(Outcome::Applies { now, made: Made::default() });
    }
    let now = format!("{} of {} is {}", kind.file(), limited.label, size(bytes));
    if setup.available_bytes.is_some_and(|left| left < to - bytes) {
        let now = format!("{now}, and the host has no more than that left");
        return Some(Outcome::Applies { now, made: Made::default() });
    }
    // Engines count memory and swap together, and refuse a limit above that.
    let swap = limited.swap_max.flatten();
    let with_swap = |bytes: u64| {
        swap.map_or_else(String::new, |swap| {
            format!(" --memory-swap {}", bytes.saturating_add(swap))
        })
    };
    let value = |bytes: u64| SettingValue {
        property: format!("{property}={bytes}"),
        flag: (*kind != LimitKind::High).then(|| format!("--memory {bytes}{}", with_swap(bytes))),
        file: bytes.to_string(),
    };
    let change = Change {
        to: value(to),
        back: Some(value(bytes)),
        words: "raise its resources.limits.memory",
        file: Some((folder, kind.file())),
    };
    let mut made = change.made(limited);
    let used = match kind {
        LimitKind::High => None,
        LimitKind::Max => Some("memory.current"),
        LimitKind::Old => Some("memory.usage_in_bytes"),
    };
    if let (Some(used), Some(undo)) = (used, made.undo.first_mut()) {
        // Below what is used by then, the kernel takes memory away, or kills.
        undo.push_str(&format!(" # only while {used} is below {}", size(bytes)));
    }
    if let (LimitKind::Old, Manager::Files, Some(swap)) = (kind, &limited.manager, swap) {
        // So does version 1: what is above has to be raised first, and lowered last.
        let both = |bytes: u64| {
            echo(&bytes.saturating_add(swap).to_string(), folder, "memory.memsw.limit_in_bytes")
        };
        made.commands.insert(0, both(to));
        made.undo.push(both(bytes));
    }
    Some(Outcome::Applies { now, made })
}

#[cfg(test)]
mod tests;
