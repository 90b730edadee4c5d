//! PURE: of the remedies that help against a cause, those that apply to this host, with what is set there now and
//! commands that change it.
//!
//! What cannot help is left out: a weight that is lower already, a controller that there is not, a limit that is not
//! set. So is what would slow or move process 1, the root cgroup or a thread of the kernel. What is not known decides
//! nothing: then the remedy stays as it is. Values in commands are first ones to try.

use noise_common::remedy::Remedy;
use noise_model::cpulist::CpuList;
use noise_model::setup::{CgroupSetup, Controller, DiskSetup, Setup};
use noise_model::units::share;

mod command;

use command::{Change, echo, taskset};

/// By what a weight is divided that is to be lowered, and a limit multiplied that is to be raised.
const WEIGHT_PART: u64 = 5;
const RAISED: u64 = 2;
/// Part of its time for which a CPU counts as idle.
const IDLE: f64 = 0.5;
/// The weight that a cgroup has where nothing is set.
const USUAL_WEIGHT: u64 = 100;
/// What is tried first as a limit of a disk, MB a second.
const FIRST_LIMIT_MB: u64 = 50;

/// A remedy as it applies to this host.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Advice {
    /// Which one.
    pub remedy: Remedy,
    /// How the host is set up now, a sentence; `None` where that is not known, or says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// Commands for a shell of root that do it, to be run in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

impl Advice {
    /// A remedy of which nothing is known here.
    pub const fn plain(remedy: Remedy) -> Self {
        Self { remedy, now: None, commands: Vec::new() }
    }

    /// The lines that follow what the remedy is: how things are now, and the commands.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let now = self.now.as_ref().map(|now| format!("now: {now}"));
        now.into_iter().chain(self.commands.iter().map(|command| format!("# {command}")))
    }
}

/// What becomes of a remedy.
enum Verdict {
    /// Nothing here decides it.
    Open,
    /// It cannot help here.
    Out,
    /// It applies.
    Applies { now: String, commands: Vec<String> },
}

/// The remedies that apply, in their order.
pub fn advise(remedies: &[Remedy], setup: &Setup) -> Vec<Advice> {
    let advice = |remedy: &Remedy| match verdict(*remedy, setup) {
        Verdict::Open => Some(Advice::plain(*remedy)),
        Verdict::Out => None,
        Verdict::Applies { now, commands } => {
            Some(Advice { remedy: *remedy, now: Some(now), commands })
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
enum Target {
    /// The cgroup that takes the time: it is slowed, or moved.
    Culprit,
    /// The one that waits, or the one around it that limits it.
    Victim,
    /// The host, or a device.
    Host,
}

const fn target(remedy: Remedy) -> Target {
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
        Target::Culprit => [setup.culprit.as_ref(), siblings.map(|(_, culprit)| culprit)],
        Target::Victim => [setup.victim.as_ref(), setup.limited.as_ref()],
        Target::Host => [None, None],
    };
    changed.into_iter().flatten().any(CgroupSetup::carries_host)
}

fn verdict(remedy: Remedy, setup: &Setup) -> Verdict {
    if is_harmful(remedy, setup) {
        return Verdict::Out;
    }
    let found = match remedy {
        Remedy::CpuWeight => cpu_weight(setup),
        Remedy::CpuAffinity => cpu_affinity(setup),
        Remedy::CpuQuota => cpu_quota(setup),
        Remedy::RaiseQuota => raise_quota(setup),
        Remedy::IsolatedCpus if setup.online.len() == 1 => Some(Verdict::Out),
        Remedy::IoWeight => io_weight(setup),
        Remedy::IoMax => io_max(setup),
        Remedy::IoScheduler => io_scheduler(setup),
        Remedy::MemoryLimits => memory_limits(setup),
        Remedy::IrqAffinity => irq_affinity(setup),
        _ => None,
    };
    found.unwrap_or(Verdict::Open)
}

/// A lower weight, a fifth of what the lower one of both is.
fn lower(victim: Option<u64>, culprit: Option<u64>) -> u64 {
    let (victim, culprit) = (victim.unwrap_or(USUAL_WEIGHT), culprit.unwrap_or(USUAL_WEIGHT));
    (victim.min(culprit) / WEIGHT_PART).max(1)
}

/// Whether the culprit has the lower weight already.
fn is_lower(victim: Option<u64>, culprit: Option<u64>) -> bool {
    victim.zip(culprit).is_some_and(|(victim, culprit)| culprit < victim)
}

fn cpu_weight(setup: &Setup) -> Option<Verdict> {
    let culprit = setup.culprit.as_ref()?;
    if let Some(main) = &culprit.main
        && let Some(policy) = main.real_time()
    {
        let now = format!(
            "the main thread of {} runs under {policy}, which no weight holds back",
            culprit.label
        );
        return Some(Verdict::Applies {
            now,
            commands: vec![format!("chrt --other --pid 0 {}", main.pid)],
        });
    }
    setup.victim.as_ref()?;
    // One of them lies in the other.
    let Some((victim, culprit)) = &setup.siblings else { return Some(Verdict::Out) };
    if is_lower(victim.weight, culprit.weight) {
        return Some(Verdict::Out);
    }
    let weight = lower(victim.weight, culprit.weight);
    let property = format!("CPUWeight={weight}");
    Some(match &culprit.cpu {
        Controller::Missing => Verdict::Out,
        Controller::Off { folder, parent } => {
            let change = Change {
                property: &property,
                flag: Some(format!("--cpu-shares {}", shares(weight))),
                words: "lower its resources.requests.cpu, which is its weight",
                file: Some((folder, "cpu.weight".to_owned(), weight.to_string())),
                hand_down: Some((parent, "cpu")),
            };
            let now = format!(
                "the cpu controller is off for {} and {}, so that no weight holds between them",
                victim.label, culprit.label
            );
            Verdict::Applies { now, commands: change.commands(culprit) }
        }
        Controller::On { folder, version } => {
            let (file, of_systemd) = match version {
                // Where systemd has version 1, it turns weights into shares: 100 is 1024.
                1 => ("cpu.shares", (weight * USUAL_WEIGHT / 1024).max(1)),
                _ => ("cpu.weight", weight),
            };
            let shares = if *version == 1 { weight.max(2) } else { shares(weight) };
            let property = format!("CPUWeight={of_systemd}");
            let change = Change {
                property: &property,
                flag: Some(format!("--cpu-shares {shares}")),
                words: "lower its resources.requests.cpu, which is its weight",
                file: Some((folder, file.to_owned(), weight.to_string())),
                hand_down: None,
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
            Verdict::Applies { now, commands: change.commands(culprit) }
        }
    })
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
    let others = setup.online.without(&used);
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

fn cpu_affinity(setup: &Setup) -> Option<Verdict> {
    let culprit = setup.culprit.as_ref()?;
    let victim = setup.victim.as_ref()?;
    if setup.online.len() == 1 {
        return Some(Verdict::Out);
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
        return Some(Verdict::Applies { now, commands: move_to(culprit, &free, &setup.online) });
    }
    if of_victim.iter().all(|cpu| !of_culprit.contains(cpu)) {
        return Some(Verdict::Out);
    }
    // The second half, of which the victim keeps away where it is busy.
    let all: Vec<u32> = of_culprit.iter().collect();
    let half: CpuList = all.iter().skip(all.len().div_ceil(2)).copied().collect();
    let others = setup.online.without(of_victim);
    if half.is_empty() && of_victim == of_culprit && !others.is_empty() {
        let (one, other) = (&victim.label, &culprit.label);
        let now = format!("{one} and {other} are both pinned to {}", cpus(of_victim));
        return Some(Verdict::Applies { now, commands: move_to(culprit, &others, &setup.online) });
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
    Some(Verdict::Applies { now, commands: move_to(culprit, &half, &setup.online) })
}

/// What has a cgroup run on these CPUs: by its affinity where that keeps it from them, else by its cpuset.
fn move_to(culprit: &CgroupSetup, to: &CpuList, online: &CpuList) -> Vec<String> {
    let allows = |cpus: &CpuList| to.iter().all(|cpu| cpus.contains(cpu));
    let is_kept_by_threads = culprit.main.as_ref().is_some_and(|main| !allows(&main.cpus))
        && culprit.cpus.as_ref().unwrap_or(online).iter().count() >= online.len();
    let by_threads =
        || culprit.main.as_ref().map(|main| taskset(to, main.pid)).into_iter().collect();
    if is_kept_by_threads {
        return by_threads();
    }
    let list = to.to_string();
    let change = |folder, parent| {
        Change {
            property: &format!("AllowedCPUs={list}"),
            flag: Some(format!("--cpuset-cpus {list}")),
            words: "give the victim whole CPUs of its own (static CPU manager, Guaranteed QoS)",
            file: Some((folder, "cpuset.cpus".to_owned(), list.clone())),
            hand_down: parent,
        }
        .commands(culprit)
    };
    match &culprit.cpuset {
        Controller::On { folder, version: 2 } => change(folder, None),
        Controller::Off { folder, parent } => change(folder, Some((parent, "cpuset"))),
        // systemd knows AllowedCPUs= of version 2 alone.
        Controller::On { folder, .. } => vec![echo(&list, folder, "cpuset.cpus")],
        Controller::Missing => by_threads(),
    }
}

/// Where the files of a controller are.
struct Files<'a> {
    folder: &'a String,
    version: u8,
    /// The parent that has to hand the controller down first.
    hand_down: Option<(&'a String, &'static str)>,
}

impl<'a> Files<'a> {
    /// Those of a controller of that name; `None` where there is none.
    fn of(controller: &'a Controller, name: &'static str) -> Option<Self> {
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

/// A quota in the ways that it is written.
fn quota_change<'a>(
    cpus_hundredths: u64,
    property: &'a str,
    controller: &'a Controller,
) -> Option<Change<'a>> {
    const PERIOD_US: u64 = 100_000;
    let quota_us = cpus_hundredths * PERIOD_US / 100;
    let Files { folder, version, hand_down } = Files::of(controller, "cpu")?;
    let (file, value) = match version {
        1 => ("cpu.cfs_quota_us", quota_us.to_string()),
        _ => ("cpu.max", format!("{quota_us} {PERIOD_US}")),
    };
    Some(Change {
        property,
        flag: Some(format!("--cpus {}", cpus_hundredths as f64 / 100.0)),
        words: "set its resources.limits.cpu",
        file: Some((folder, file.to_owned(), value)),
        hand_down,
    })
}

fn cpu_quota(setup: &Setup) -> Option<Verdict> {
    let culprit = setup.culprit.as_ref()?;
    let usable = culprit.may_run_on().unwrap_or(&setup.online).len() as u64;
    if usable == 0 {
        return None;
    }
    let many = if usable == 1 { "" } else { "s" };
    // Half of what it may use.
    let hundredths = usable * 50;
    let now = match culprit.quota {
        Some(quota) => match quota.cpus() {
            Some(cpus) if cpus * 100.0 <= hundredths as f64 => return Some(Verdict::Out),
            Some(cpus) => format!("the quota of {} is {cpus:.2} CPUs", culprit.label),
            None => format!("{} has no quota and may use {usable} CPU{many}", culprit.label),
        },
        None => format!("{} may use {usable} CPU{many}", culprit.label),
    };
    let property = format!("CPUQuota={hundredths}%");
    let Some(change) = quota_change(hundredths, &property, &culprit.cpu) else {
        return Some(Verdict::Out);
    };
    Some(Verdict::Applies { now, commands: change.commands(culprit) })
}

fn raise_quota(setup: &Setup) -> Option<Verdict> {
    let Some(limited) = &setup.limited else {
        let victim = setup.victim.as_ref()?;
        // There is one, or none where it could be.
        return matches!(victim.cpu, Controller::On { .. }).then_some(Verdict::Out);
    };
    let cpus = limited.quota.and_then(|quota| quota.cpus())?;
    let hundredths = ((cpus * 100.0).round() as u64).max(1) * RAISED;
    let property = format!("CPUQuota={hundredths}%");
    let change = quota_change(hundredths, &property, &limited.cpu)?;
    let now = format!("the quota of {} is {cpus:.2} CPUs", limited.label);
    let words = "raise its resources.limits.cpu, or leave that out";
    Some(Verdict::Applies { now, commands: Change { words, ..change }.commands(limited) })
}

fn io_weight(setup: &Setup) -> Option<Verdict> {
    let culprit = setup.culprit.as_ref()?;
    let is_weighed = |disk: &DiskSetup| disk.has_cost || disk.scheduler.as_deref() == Some("bfq");
    if setup.disk.as_ref().is_some_and(|disk| !is_weighed(disk)) {
        return Some(Verdict::Out);
    }
    let Some(Files { folder, version, hand_down }) = Files::of(&culprit.io, "io") else {
        return Some(Verdict::Out);
    };
    let other = setup.victim.as_ref().and_then(|victim| victim.io_weight);
    if is_lower(other, culprit.io_weight) {
        return Some(Verdict::Out);
    }
    let weight = lower(other, culprit.io_weight);
    let property = format!("IOWeight={weight}");
    let file = if version == 1 { "blkio.bfq.weight" } else { "io.weight" };
    let change = Change {
        property: &property,
        flag: None,
        words: "",
        file: Some((folder, file.to_owned(), weight.to_string())),
        hand_down,
    };
    let now = match culprit.io_weight {
        Some(weight) => format!("{file} is {weight} of {}", culprit.label),
        None => format!("{file} of {} is as usual", culprit.label),
    };
    Some(Verdict::Applies { now, commands: change.commands(culprit) })
}

fn io_max(setup: &Setup) -> Option<Verdict> {
    let (culprit, disk) = (setup.culprit.as_ref()?, setup.disk.as_ref()?);
    let Some(Files { folder, version, hand_down }) = Files::of(&culprit.io, "io") else {
        return Some(Verdict::Out);
    };
    let is_limited = |line: &String| line.split(' ').next() == Some(&disk.numbers);
    if culprit.io_max.iter().any(is_limited) {
        return Some(Verdict::Out);
    }
    let (property, key, old) = match disk.is_write {
        true => ("IOWriteBandwidthMax", "wbps", "blkio.throttle.write_bps_device"),
        false => ("IOReadBandwidthMax", "rbps", "blkio.throttle.read_bps_device"),
    };
    let bytes = FIRST_LIMIT_MB * 1_000_000;
    let property = format!("{property}=/dev/{} {FIRST_LIMIT_MB}M", disk.name);
    let (file, value) = match version {
        1 => (old, format!("{} {bytes}", disk.numbers)),
        _ => ("io.max", format!("{} {key}={bytes}", disk.numbers)),
    };
    let change = Change {
        property: &property,
        flag: None,
        words: "",
        file: Some((folder, file.to_owned(), value)),
        hand_down,
    };
    let now = format!(
        "{} has no limit for {}; {FIRST_LIMIT_MB} MB/s is a first one to try",
        culprit.label, disk.name
    );
    Some(Verdict::Applies { now, commands: change.commands(culprit) })
}

fn io_scheduler(setup: &Setup) -> Option<Verdict> {
    let disk = setup.disk.as_ref()?;
    match disk.scheduler.as_deref()? {
        "none" => {
            let now = format!("{} has no scheduler", disk.name);
            let folder = format!("/sys/block/{}/queue", disk.name);
            Some(Verdict::Applies {
                now,
                commands: vec![echo("mq-deadline", &folder, "scheduler")],
            })
        }
        _ => Some(Verdict::Out),
    }
}

fn memory_limits(setup: &Setup) -> Option<Verdict> {
    let victim = setup.victim.as_ref()?;
    let Controller::On { folder, version } = &victim.memory else { return Some(Verdict::Out) };
    let (high, most) = (victim.memory_high.flatten(), victim.memory_max.flatten());
    let old = "memory.limit_in_bytes";
    let (file, property, bytes) = match (high, most) {
        (Some(high), _) => ("memory.high", "MemoryHigh", high),
        (None, Some(most)) => (if *version == 1 { old } else { "memory.max" }, "MemoryMax", most),
        // Neither is set: it is the host that lacks memory.
        (None, None) => {
            return (victim.memory_high.is_some() || victim.memory_max.is_some())
                .then_some(Verdict::Out);
        }
    };
    let raised = bytes.saturating_mul(RAISED);
    let property = format!("{property}={raised}");
    let change = Change {
        property: &property,
        flag: (file != "memory.high").then(|| format!("--memory {raised}")),
        words: "raise its resources.limits.memory",
        file: Some((folder, file.to_owned(), raised.to_string())),
        hand_down: None,
    };
    let now = format!("{file} of {} is {} MiB", victim.label, bytes >> 20);
    Some(Verdict::Applies { now, commands: change.commands(victim) })
}

fn irq_affinity(setup: &Setup) -> Option<Verdict> {
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
        return Some(Verdict::Applies { now, commands: Vec::new() });
    };
    if served.iter().all(|cpu| !of_victim.contains(cpu)) {
        return Some(Verdict::Out);
    }
    let to = setup.online.without(of_victim);
    if to.is_empty() {
        // The victim runs everywhere: it has to keep away first.
        let now = format!("{now}; the victim may run on all CPUs, so keep it off some first");
        return Some(Verdict::Applies { now, commands: Vec::new() });
    }
    let hit = setup.irqs.iter().filter(|irq| irq.cpus.iter().any(|cpu| of_victim.contains(cpu)));
    let move_it =
        |irq: u32| echo(&to.to_string(), &format!("/proc/irq/{irq}"), "smp_affinity_list");
    Some(Verdict::Applies {
        now,
        commands: hit.map(|irq| move_it(irq.irq)).take(command::MOST).collect(),
    })
}

#[cfg(test)]
mod tests;
