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
use noise_text::cpulist::CpuList;
use noise_text::units::share;

mod command;
mod disk;
mod outcome;

pub use command::argument;
use command::{Change, Made, SettingValue, echo, taskset};
use disk::{io_max, io_scheduler, io_weight};
use outcome::{Files, Outcome, USUAL_WEIGHT, is_lower, lower, victim_is_lower};

/// By what a limit is multiplied that is to be raised.
const RAISED: u64 = 2;
/// The period of quotas where none is set, µs.
const USUAL_PERIOD_US: u64 = 100_000;
/// Programs of commands that name a process by its number.
const BY_NUMBER: [&str; 2] = ["chrt", "taskset"];
/// Part of its time for which a CPU counts as idle.
const IDLE: f64 = 0.5;

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
        Outcome::Applies { now, made: Made { commands, undo } } => {
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

fn cpu_weight(setup: &Setup) -> Option<Outcome> {
    let culprit = setup.culprit.as_ref()?;
    // How the first process is scheduled says nothing of the one that has the CPU.
    let named = culprit.main.as_ref().filter(|_| setup.is_culprit_named);
    if let Some(main) = named
        && let Some(policy) = main.real_time()
    {
        let now = format!(
            "thread {} of {} runs under {policy}, which no weight holds back",
            main.pid, culprit.label
        );
        return Some(Outcome::Applies { now, made: out_of_real_time(main) });
    }
    setup.victim.as_ref()?;
    // One of them lies in the other.
    let Some((victim, culprit)) = &setup.siblings else { return Some(Outcome::Out) };
    if is_lower(victim.weight, culprit.weight) {
        return Some(Outcome::Out);
    }
    // It is the one around the culprit that is weighed: all else in it would be slowed as well.
    if setup.culprit.as_ref().is_some_and(|own| own.label != culprit.label) {
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
                    ..value(USUAL_WEIGHT, USUAL_WEIGHT, shares(USUAL_WEIGHT))
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
            let change = Change {
                to: of(weight),
                back: culprit.weight.map(of),
                words,
                file: Some((folder, file)),
            };
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
            Outcome::Applies { now, made: change.made(culprit) }
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
    }
}

/// The shares that container engines make that weight of.
const fn shares(weight: u64) -> u64 {
    2 + weight.saturating_sub(1) * 262_142 / 9_999
}

/// CPUs that both may run on while they keep away from others, and those of the others that are idle with the least
/// part of time that one of them was.
fn pinned(setup: &Setup) -> Option<(CpuList, CpuList, f64)> {
    let [victim, culprit] = [&setup.victim, &setup.culprit].map(Option::as_ref);
    let [victim, culprit] = [victim?.may_run_on()?, culprit?.may_run_on()?];
    let both: CpuList = victim.iter().filter(|cpu| culprit.contains(*cpu)).collect();
    let used: CpuList = victim.iter().chain(culprit.iter()).collect();
    let idle = |cpu: u32| setup.idle.iter().find(|(one, _)| *one == cpu).map(|(_, part)| *part);
    let others = setup.elsewhere(&used);
    let free: Vec<(u32, f64)> = others
        .iter()
        .filter_map(|cpu| Some((cpu, idle(cpu)?)))
        .filter(|(_, part)| *part >= IDLE)
        .collect();
    let least = free.iter().map(|(_, part)| *part).fold(1.0, f64::min);
    let is_pinned = !both.is_empty() && !free.is_empty();
    is_pinned.then(|| (both, free.iter().map(|(cpu, _)| *cpu).collect(), least))
}

fn cpus(list: &CpuList) -> String {
    format!("CPU{} {list}", if list.len() == 1 { "" } else { "s" })
}

fn cpu_affinity(setup: &Setup) -> Option<Outcome> {
    let culprit = setup.culprit.as_ref()?;
    let victim = setup.victim.as_ref()?;
    if setup.online.len() == 1 {
        return Some(Outcome::Out);
    }
    let (of_victim, of_culprit) = (victim.may_run_on()?, culprit.may_run_on()?);
    if let Some((both, free, least)) = pinned(setup) {
        let (were, part) = (if free.len() == 1 { "was" } else { "were" }, share(least));
        let now = format!(
            "{} and {} are both pinned to {}, while {} {were} idle for {part} of the time or more",
            victim.label,
            culprit.label,
            cpus(&both),
            cpus(&free)
        );
        return Some(Outcome::Applies { now, made: move_to(culprit, &free, &setup.online) });
    }
    if of_victim.iter().all(|cpu| !of_culprit.contains(cpu)) {
        return Some(Outcome::Out);
    }
    // The CPUs that the victim may not run on; else the second half, of which the victim keeps away where it is busy.
    let all: Vec<u32> = of_culprit.iter().collect();
    let half: CpuList = all.iter().skip(all.len().div_ceil(2)).copied().collect();
    let apart = of_culprit.without(of_victim).without(&setup.isolated);
    let half = if apart.is_empty() { half } else { apart };
    let others = setup.elsewhere(of_victim);
    if half.is_empty() && of_victim == of_culprit && !others.is_empty() {
        let (one, other) = (&victim.label, &culprit.label);
        let now = format!("{one} and {other} are both pinned to {}", cpus(of_victim));
        return Some(Outcome::Applies { now, made: move_to(culprit, &others, &setup.online) });
    }
    if half.is_empty() {
        return None;
    }
    let now = format!(
        "{} may run on {}, {} on {}",
        victim.label,
        cpus(of_victim),
        culprit.label,
        cpus(of_culprit)
    );
    Some(Outcome::Applies { now, made: move_to(culprit, &half, &setup.online) })
}

/// What has a cgroup run on these CPUs: by its affinity where that keeps it from them, else by its cpuset.
fn move_to(culprit: &CgroupSetup, to: &CpuList, online: &CpuList) -> Made {
    let allows = |cpus: &CpuList| to.iter().all(|cpu| cpus.contains(cpu));
    let is_kept_by_threads = culprit.main.as_ref().is_some_and(|main| !allows(&main.cpus))
        && culprit.cpus.as_ref().unwrap_or(online).iter().count() >= online.len();
    let by_threads = || {
        let main = culprit.main.as_ref();
        // One command gives all threads the same CPUs: where they had others, that cannot be taken back.
        let main = main.filter(|main| main.is_alike);
        main.map_or_else(Made::default, |main| Made {
            commands: vec![taskset(to, main.pid)],
            undo: vec![taskset(&main.cpus, main.pid)],
        })
    };
    if is_kept_by_threads {
        return by_threads();
    }
    let before = culprit.cpus.as_ref().filter(|cpus| !cpus.is_empty());
    let change = |folder: Option<&String>| {
        Change {
            to: SettingValue {
                property: format!("AllowedCPUs={to}"),
                flag: Some(format!("--cpuset-cpus {to}")),
                file: to.to_string(),
            },
            // An empty one stands for what the cgroup around it has.
            back: Some(SettingValue {
                property: format!("AllowedCPUs={}", culprit.cpus_set),
                flag: before.map(|cpus| format!("--cpuset-cpus {cpus}")),
                file: culprit.cpus_set.to_string(),
            }),
            words: "give the victim whole CPUs of its own (static CPU manager, Guaranteed QoS)",
            file: folder.map(|folder| (folder, "cpuset.cpus")),
        }
        .made(culprit)
    };
    match &culprit.cpuset {
        Controller::On { folder, version: 2 } => change(Some(folder)),
        Controller::Off { .. } => change(None),
        // systemd knows AllowedCPUs= of version 2 alone.
        Controller::On { folder, .. } => Made {
            commands: vec![echo(&to.to_string(), folder, "cpuset.cpus")],
            undo: before
                .map(|cpus| echo(&cpus.to_string(), folder, "cpuset.cpus"))
                .into_iter()
                .collect(),
        },
        Controller::Missing => by_threads(),
    }
}

/// A quota of so many hundredths of a CPU; none lifts it. Docker takes no quota back, and refuses more CPUs than are online:
/// it gets as many as are online instead.
fn quota_value(
    hundredths: Option<u64>,
    version: u8,
    period_us: u64,
    online: usize,
) -> SettingValue {
    let quota_us = hundredths.map(|hundredths| hundredths.saturating_mul(period_us) / 100);
    let property = hundredths.map_or_else(String::new, |hundredths| format!("{hundredths}%"));
    let most = online as f64;
    let cpus = hundredths.map(|hundredths| hundredths as f64 / 100.0);
    let cpus = cpus.filter(|cpus| online == 0 || *cpus <= most).unwrap_or(most);
    SettingValue {
        property: format!("CPUQuota={property}"),
        flag: Some(format!("--cpus {cpus}")),
        file: quota_file(Quota { quota_us, period_us }, version),
    }
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
    hundredths: u64,
    words: &'a str,
    of: &'a CgroupSetup,
    online: usize,
) -> Option<Change<'a>> {
    let Files { folder, version } = Files::of(&of.cpu)?;
    let file = if version == 1 { "cpu.cfs_quota_us" } else { "cpu.max" };
    let period_us = of.quota.map_or(USUAL_PERIOD_US, |quota| quota.period_us);
    let hundredths_of =
        |quota: Quota| quota.cpus().map(|cpus| ((cpus * 100.0).round() as u64).max(1));
    let as_it_was = |quota: Quota| SettingValue {
        file: quota_file(quota, version),
        ..quota_value(hundredths_of(quota), version, period_us, online)
    };
    let is_off = matches!(of.cpu, Controller::Off { .. });
    let none = || quota_value(None, version, period_us, online);
    Some(Change {
        to: quota_value(Some(hundredths), version, period_us, online),
        back: of.quota.map(as_it_was).or_else(|| is_off.then(none)),
        words,
        file: folder.map(|folder| (folder, file)),
    })
}

fn cpu_quota(setup: &Setup) -> Option<Outcome> {
    let culprit = setup.culprit.as_ref()?;
    // One thread of several does not say where the whole cgroup may run.
    let of_all = match setup.is_culprit_named {
        true => culprit.cpus.as_ref().filter(|cpus| !cpus.is_empty()),
        false => culprit.may_run_on(),
    };
    let usable = of_all.unwrap_or(&setup.online).len() as u64;
    if usable == 0 {
        return None;
    }
    let many = if usable == 1 { "" } else { "s" };
    // Half of what it may use.
    let hundredths = usable * 50;
    let now = match culprit.quota {
        Some(quota) => match quota.cpus() {
            Some(cpus) if cpus * 100.0 <= hundredths as f64 => return Some(Outcome::Out),
            Some(cpus) => format!("the quota of {} is {cpus:.2} CPUs", culprit.label),
            None => format!("{} has no quota and may use {usable} CPU{many}", culprit.label),
        },
        None => format!("{} may use {usable} CPU{many}", culprit.label),
    };
    let online = setup.online.len();
    let words = "set its resources.limits.cpu";
    let Some(change) = quota_change(hundredths, words, culprit, online) else {
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
    let hundredths = ((cpus * 100.0).round() as u64).max(1) * RAISED;
    let words = "raise its resources.limits.cpu, or leave that out";
    let change = quota_change(hundredths, words, limited, online)?;
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

fn irq_affinity(setup: &Setup) -> Option<Outcome> {
    let name = setup.interrupt.as_ref()?;
    if setup.irqs.is_empty() {
        return None;
    }
    let served: CpuList = setup.irqs.iter().flat_map(|irq| irq.cpus.iter()).collect();
    let now = match setup.irqs.as_slice() {
        [one] => format!("IRQ {} ({name}) is served by {}", one.irq, cpus(&served)),
        several => format!("{} IRQs ({name}) are served by {}", several.len(), cpus(&served)),
    };
    let of_victim = setup.victim.as_ref().and_then(CgroupSetup::may_run_on);
    let Some(of_victim) = of_victim else {
        return Some(Outcome::Applies { now, made: Made::default() });
    };
    if served.iter().all(|cpu| !of_victim.contains(cpu)) {
        return Some(Outcome::Out);
    }
    let to = setup.elsewhere(of_victim);
    if to.is_empty() {
        // The victim runs everywhere: it has to keep away first.
        let now = format!("{now}; the victim may run on all CPUs, so keep it off some first");
        return Some(Outcome::Applies { now, made: Made::default() });
    }
    let hit = setup.irqs.iter().filter(|irq| irq.cpus.iter().any(|cpu| of_victim.contains(cpu)));
    let hit: Vec<_> = hit.take(command::MOST).collect();
    let serve = |irq: u32, cpus: &CpuList| {
        echo(&cpus.to_string(), &format!("/proc/irq/{irq}"), "smp_affinity_list")
    };
    let made = Made {
        commands: hit.iter().map(|irq| serve(irq.irq, &to)).collect(),
        undo: hit
            .iter()
            .filter(|irq| !irq.set.is_empty())
            .map(|irq| serve(irq.irq, &irq.set))
            .collect(),
    };
    Some(Outcome::Applies { now, made })
}

#[cfg(test)]
mod tests;
