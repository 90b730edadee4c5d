//! Remedies that give culprits and interrupts other CPUs.

use noise_model::setup::{CgroupSetup, Controller, Manager, Setup};
use noise_text::cpulist::CpuList;
use noise_text::units::share;

use super::command::{Change, MOST, Made, SettingValue, echo, taskset};
use super::outcome::Outcome;

/// Part of its time for which a CPU counts as idle.
const IDLE: f64 = 0.5;
/// What gives a pod CPUs of its own.
const OWN_CPUS: &str = "give it whole CPUs of its own (static CPU manager, Guaranteed QoS)";

/// CPUs that both may run on while they keep away from others, and those of the others that are idle with the least
/// part of time that one of them was.
pub fn pinned(setup: &Setup) -> Option<(CpuList, CpuList, f64)> {
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

pub fn cpu_affinity(setup: &Setup) -> Option<Outcome> {
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
        return Some(Outcome::Applies {
            now,
            made: move_to(victim, culprit, &free, &setup.online),
        });
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
        return Some(Outcome::Applies {
            now,
            made: move_to(victim, culprit, &others, &setup.online),
        });
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
    Some(Outcome::Applies { now, made: move_to(victim, culprit, &half, &setup.online) })
}

/// What has a cgroup run on these CPUs: by its affinity where that keeps it from them, else by its cpuset.
fn move_to(victim: &CgroupSetup, culprit: &CgroupSetup, to: &CpuList, online: &CpuList) -> Made {
    let allows = |cpus: &CpuList| to.iter().all(|cpu| cpus.contains(cpu));
    let is_kept_by_threads = culprit.main.as_ref().is_some_and(|main| !allows(&main.cpus))
        && culprit.cpus.as_ref().unwrap_or(online).iter().count() >= online.len();
    let by_threads = || {
        let main = culprit.main.as_ref();
        // One command gives all threads of a process the same CPUs: where they had others, that cannot be taken back. Of
        // several processes it would move one.
        let main = main.filter(|main| main.is_alike && main.is_alone);
        main.map_or_else(Made::default, |main| Made {
            commands: vec![taskset(to, main.pid)],
            undo: vec![taskset(&main.cpus, main.pid)],
            manifest: None,
        })
    };
    if is_kept_by_threads {
        return by_threads();
    }
    if let Manager::Kubernetes(_) = culprit.manager {
        // What keeps pods apart is set at the one that is to have CPUs of its own.
        return match &victim.manager {
            Manager::Kubernetes(pod) => Made::in_manifest(pod, OWN_CPUS),
            _ => Made::default(),
        };
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
            words: "",
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
            manifest: None,
        },
        Controller::Missing => by_threads(),
    }
}

pub fn irq_affinity(setup: &Setup) -> Option<Outcome> {
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
    let hit: Vec<_> = hit.take(MOST).collect();
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
        manifest: None,
    };
    Some(Outcome::Applies { now, made })
}
