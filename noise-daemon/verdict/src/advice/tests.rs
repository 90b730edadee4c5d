//! Tables of facts, and what is advised.

use noise_model::pressure::Quota;
use noise_model::setup::{DiskSetup, IrqSetup, Manager, TaskSetup};
use noise_text::cpulist::CpuList;

use super::*;

mod harm;

const ALL_OF_CPU: &[Remedy] =
    &[Remedy::CpuWeight, Remedy::CpuAffinity, Remedy::CpuQuota, Remedy::IsolatedCpus];

fn list(text: &str) -> CpuList {
    text.parse().unwrap()
}

fn on(folder: &str) -> Controller {
    Controller::On { folder: format!("/sys/fs/cgroup{folder}"), version: 2 }
}

/// A service of systemd on four CPUs with all controllers, and nothing set.
fn service(name: &str) -> CgroupSetup {
    let folder = format!("/system.slice/{name}");
    CgroupSetup {
        manager: Manager::System(name.to_owned()),
        cpu: on(&folder),
        cpuset: on(&folder),
        io: on(&folder),
        memory: on(&folder),
        weight: Some(100),
        quota: Some(Quota { quota_us: None, period_us: 100_000 }),
        cpus: Some(list("0-3")),
        io_weight: Some(100),
        memory_high: Some(None),
        memory_max: Some(None),
        main: Some(TaskSetup {
            pid: 42,
            process: 42,
            cpus: list("0-3"),
            is_alike: true,
            is_alone: true,
            ..TaskSetup::default()
        }),
        ..CgroupSetup::named(name)
    }
}

fn of(victim: CgroupSetup, culprit: CgroupSetup) -> Setup {
    Setup {
        siblings: Some((victim.clone(), culprit.clone())),
        victim: Some(victim),
        culprit: Some(culprit),
        online: list("0-3"),
        ..Setup::default()
    }
}

fn both() -> Setup {
    of(service("web.service"), service("backup.service"))
}

fn commands(setup: &Setup, remedy: Remedy) -> Vec<String> {
    let advice = advise(&[remedy], setup);
    advice.into_iter().flat_map(|one| one.commands).collect()
}

fn is_left_out(setup: &Setup, remedy: Remedy) -> bool {
    advise(&[remedy], setup).is_empty()
}

#[test]
fn where_nothing_is_known_all_remedies_stay_as_they_are() {
    // A policy is in the way of which that is known.
    let all = Remedy::ALL.iter().filter(|remedy| **remedy != Remedy::SchedulingPolicy);
    let plain: Vec<Advice> = all.map(|remedy| Advice::plain(*remedy)).collect();
    assert_eq!(advise(Remedy::ALL, &Setup::default()), plain);
    assert_eq!(plain[0].lines().count(), 0);
}

/// A cgroup that all others depend on: the root, that of process 1, that of a thread of the kernel.
fn carrying() -> [CgroupSetup; 3] {
    let main = |pid, is_kernel, cpus: &str| {
        let cpus = list(cpus);
        Some(TaskSetup {
            pid,
            process: pid,
            cpus,
            is_alike: true,
            is_alone: true,
            is_kernel,
            ..TaskSetup::default()
        })
    };
    let limits = CgroupSetup {
        quota: Some(Quota { quota_us: Some(50_000), period_us: 100_000 }),
        memory_high: Some(Some(1 << 30)),
        ..service("untouchable")
    };
    [
        CgroupSetup { main: main(43, false, "0-1"), label: "/".to_owned(), ..limits.clone() },
        CgroupSetup { main: main(1, false, "0-1"), ..limits.clone() },
        CgroupSetup { main: main(77, true, "0-1"), ..limits },
    ]
}

#[test]
fn no_remedy_slows_or_moves_what_all_others_depend_on() {
    let managers = [
        Manager::System("untouchable".to_owned()),
        Manager::Docker("untouchable".to_owned()),
        Manager::Kubernetes("untouchable".to_owned()),
        Manager::Files,
    ];
    for (manager, one) in managers.iter().flat_map(|m| carrying().map(|one| (m, one))) {
        let one = CgroupSetup { manager: manager.clone(), ..one };
        let real_time = one.main.clone().map(|main| TaskSetup { policy: 1, priority: 9, ..main });
        let other = || service("web.service");
        let setups = [
            of(other(), one.clone()),
            of(other(), CgroupSetup { main: real_time, ..one.clone() }),
            of(other(), CgroupSetup { cpuset: Controller::Missing, ..one.clone() }),
            // It is the one around the culprit that is weighed.
            Setup { siblings: Some((other(), one.clone())), ..both() },
            of(one.clone(), other()),
            Setup { limited: Some(one.clone()), ..of(one.clone(), other()) },
            Setup { memory: Some((LimitKind::High, one.clone())), ..both() },
        ];
        for (number, setup) in setups.iter().enumerate() {
            let setup = Setup {
                disk: Some(DiskSetup {
                    name: "vda".to_owned(),
                    numbers: "254:0".to_owned(),
                    scheduler: Some("bfq".to_owned()),
                    has_cost: true,
                    is_write: true,
                }),
                is_culprit_named: true,
                ..setup.clone()
            };
            for remedy in Remedy::ALL {
                for advice in advise(&[*remedy], &setup) {
                    for command in &advice.commands {
                        let words: Vec<&str> = command.split([' ', '/']).collect();
                        let is_named = ["1", "43", "77"].contains(words.last().unwrap())
                            || command.contains("untouchable");
                        assert!(!is_named, "{remedy:?} of {number}: {command}");
                    }
                }
            }
        }
        // Not even without a command, nor where it waits behind its own threads.
        let alone = |victim| Setup { victim: Some(victim), is_own: true, ..Setup::default() };
        for remedy in [Remedy::CpuWeight, Remedy::CpuQuota, Remedy::CpuAffinity, Remedy::IoMax] {
            assert!(is_left_out(&setups[0], remedy), "{remedy:?}");
            assert!(is_left_out(&alone(one.clone()), remedy), "{remedy:?}");
            assert!(!is_left_out(&alone(other()), remedy), "{remedy:?}");
            // What holds back somebody else does it no harm.
            let behind = Setup { is_own: false, ..alone(one.clone()) };
            assert!(!is_left_out(&behind, remedy), "{remedy:?}");
        }
    }
}

#[test]
fn a_unit_of_systemd_is_set_by_systemctl() {
    let advice = advise(ALL_OF_CPU, &both());
    let lines: Vec<String> = advice.iter().flat_map(Advice::lines).collect();
    assert_eq!(
        lines,
        [
            "now: cpu.weight is 100 of backup.service and 100 of web.service",
            "# systemctl set-property backup.service CPUWeight=20",
            "to take it back:",
            "# systemctl set-property backup.service CPUWeight=100",
            "now: web.service may run on CPUs 0-3, backup.service on CPUs 0-3",
            "# systemctl set-property backup.service AllowedCPUs=2,3",
            "to take it back:",
            "# systemctl set-property backup.service AllowedCPUs=",
            "now: backup.service has no quota and may use 4 CPUs",
            "# systemctl set-property backup.service CPUQuota=200%",
            "to take it back:",
            "# systemctl set-property backup.service CPUQuota=",
        ]
    );
}

#[test]
fn commands_are_those_of_who_sets_the_cgroup() {
    let folder = "/sys/fs/cgroup/system.slice/backup.service";
    let id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let cases = [
        (
            Manager::System(r"my\x2dapp@1.service".to_owned()),
            vec![r"systemctl set-property 'my\x2dapp@1.service' CPUWeight=20".to_owned()],
        ),
        (
            Manager::System("user-1000.slice".to_owned()),
            vec!["systemctl set-property user-1000.slice CPUWeight=20".to_owned()],
        ),
        (
            Manager::User { unit: "app.service".to_owned(), uid: "1000".to_owned() },
            vec![
                "sudo -u '#1000' XDG_RUNTIME_DIR=/run/user/1000 systemctl --user set-property \
                 app.service CPUWeight=20"
                    .to_owned(),
            ],
        ),
        (
            Manager::Docker(id.to_owned()),
            vec!["docker update --cpu-shares 500 0123456789ab".to_owned()],
        ),
        (
            Manager::Podman(id.to_owned()),
            vec!["podman update --cpu-shares 500 0123456789ab".to_owned()],
        ),
        (Manager::Files, vec![format!("echo 20 > {folder}/cpu.weight")]),
    ];
    for (manager, expected) in cases {
        let culprit = CgroupSetup { manager, ..service("backup.service") };
        assert_eq!(commands(&of(service("web.service"), culprit), Remedy::CpuWeight), expected);
    }
}

#[test]
fn no_weight_is_advised_where_it_is_lower_or_weighs_nothing() {
    let with = |victim, culprit| {
        let weighed = |name: &str, weight| CgroupSetup { weight: Some(weight), ..service(name) };
        of(weighed("web.service", victim), weighed("backup.service", culprit))
    };
    assert!(is_left_out(&with(100, 20), Remedy::CpuWeight));
    assert!(is_left_out(&with(100, 99), Remedy::CpuWeight));
    let systemd = "systemctl set-property backup.service CPUWeight=";
    for (weight, expected) in [(20, 4), (1, 1), (500, 100)] {
        let command = commands(&with(weight, weight), Remedy::CpuWeight);
        assert_eq!(command, [format!("{systemd}{expected}")]);
    }
    let nested = Setup { siblings: None, ..both() };
    assert!(is_left_out(&nested, Remedy::CpuWeight));
    let none = CgroupSetup { cpu: Controller::Missing, ..service("backup.service") };
    assert!(is_left_out(&of(service("web.service"), none.clone()), Remedy::CpuWeight));
    assert!(is_left_out(&of(service("web.service"), none), Remedy::CpuQuota));
}

#[test]
fn what_lies_around_the_culprit_gets_no_command() {
    let slices = (service("system.slice"), service("user.slice"));
    let setup = Setup { siblings: Some(slices), ..both() };
    let advice = advise(&[Remedy::CpuWeight], &setup);
    let now = advice[0].now.as_ref().unwrap();
    let due =
        "only user.slice as a whole is weighed against system.slice, with all that runs in it";
    assert_eq!((&**now, advice[0].commands.len()), (due, 0));
}

#[test]
fn what_is_changed_can_be_taken_back() {
    let undo = |setup: &Setup, remedy| {
        let advice = advise(&[remedy], setup);
        advice.into_iter().flat_map(|one| one.undo).collect::<Vec<_>>()
    };
    let back = "systemctl set-property backup.service";
    let both = both();
    assert_eq!(undo(&both, Remedy::CpuWeight), [format!("{back} CPUWeight=100")]);
    assert_eq!(undo(&both, Remedy::CpuQuota), [format!("{back} CPUQuota=")]);
    assert_eq!(undo(&both, Remedy::CpuAffinity), [format!("{back} AllowedCPUs=")]);
    let set = CgroupSetup { cpus_set: list("0-1"), ..service("backup.service") };
    let set = of(service("web.service"), set);
    assert_eq!(undo(&set, Remedy::CpuAffinity), [format!("{back} AllowedCPUs=0,1")]);
    // Docker knows no update that takes a quota away.
    let id = "0123456789ab".to_owned();
    let docker = CgroupSetup { manager: Manager::Docker(id), ..service("backup.service") };
    let docker = of(service("web.service"), docker);
    assert_eq!(undo(&docker, Remedy::CpuQuota), ["docker update --cpus 4 0123456789ab"]);
    let unknown = CgroupSetup { weight: None, ..service("backup.service") };
    assert!(undo(&of(service("web.service"), unknown), Remedy::CpuWeight).is_empty());
    let fifo = TaskSetup {
        pid: 42,
        process: 42,
        nice: 0,
        policy: 1,
        priority: 50,
        cpus: list("0-3"),
        is_alike: true,
        is_alone: true,
        is_kernel: false,
    };
    let real_time = CgroupSetup { main: Some(fifo), ..service("backup.service") };
    let setup = Setup { is_culprit_named: true, ..of(service("web.service"), real_time) };
    assert_eq!(undo(&setup, Remedy::SchedulingPolicy), ["chrt --fifo --pid 50 42"]);
    let files = CgroupSetup { manager: Manager::Files, ..service("backup.service") };
    let setup = of(service("web.service"), files);
    let folder = "/sys/fs/cgroup/system.slice/backup.service";
    assert_eq!(undo(&setup, Remedy::CpuQuota), [format!("echo 'max 100000' > {folder}/cpu.max")]);
    assert_eq!(undo(&setup, Remedy::CpuAffinity), [format!("echo '' > {folder}/cpuset.cpus")]);
}

#[test]
fn a_controller_that_is_off_is_handed_down_by_a_manager_alone() {
    let off = Controller::Off { folder: "/cg/a/backup".to_owned(), parent: "/cg/a".to_owned() };
    let culprit = CgroupSetup {
        cpu: off.clone(),
        cpuset: off,
        manager: Manager::Files,
        weight: None,
        ..service("backup")
    };
    let setup = of(service("web.service"), culprit.clone());
    // That would change all that is in the parent, and could not be taken back.
    for remedy in [Remedy::CpuWeight, Remedy::CpuQuota, Remedy::CpuAffinity] {
        let advice = advise(&[remedy], &setup).remove(0);
        assert_eq!((advice.commands, advice.undo), (Vec::new(), Vec::new()), "{remedy:?}");
        assert!(advice.now.is_some(), "{remedy:?}");
    }
    let now = advise(&[Remedy::CpuWeight], &setup)[0].now.clone().unwrap();
    assert!(now.starts_with("the cpu controller is off for web.service and backup"), "{now}");
    // systemd hands it down itself.
    let unit = CgroupSetup { manager: Manager::System("b.service".to_owned()), ..culprit };
    let setup = of(service("web.service"), unit);
    assert_eq!(
        commands(&setup, Remedy::CpuWeight),
        ["systemctl set-property b.service CPUWeight=20"]
    );
}

#[test]
fn a_real_time_thread_is_not_weighed() {
    let mut culprit = service("backup.service");
    culprit.main = culprit.main.map(|main| TaskSetup { policy: 1, priority: 50, ..main });
    let setup = Setup { is_culprit_named: true, ..of(service("web.service"), culprit) };
    let advice = advise(&[Remedy::CpuWeight, Remedy::SchedulingPolicy], &setup);
    let remedies: Vec<Remedy> = advice.iter().map(|one| one.remedy).collect();
    assert_eq!(remedies, [Remedy::SchedulingPolicy]);
    assert_eq!(advice[0].commands, ["chrt --other --pid 0 42"]);
}

#[test]
fn version_1_has_shares_and_a_quota_in_two_files() {
    let old = |name: &str| {
        let cpu = Controller::On { folder: format!("/cg/cpu/{name}"), version: 1 };
        let manager = Manager::Files;
        CgroupSetup {
            cpu,
            manager,
            weight: Some(1024),
            cpuset: Controller::Missing,
            ..service(name)
        }
    };
    let setup = of(old("web"), old("backup"));
    assert_eq!(commands(&setup, Remedy::CpuWeight), ["echo 204 > /cg/cpu/backup/cpu.shares"]);
    assert_eq!(
        commands(&setup, Remedy::CpuQuota),
        ["echo 200000 > /cg/cpu/backup/cpu.cfs_quota_us"]
    );
    // Without a cpuset there are the threads.
    let cpus = ["taskset --all-tasks --cpu-list --pid 2,3 42"];
    assert_eq!(commands(&setup, Remedy::CpuAffinity), cpus);
    let unit = CgroupSetup { manager: Manager::System("b.service".to_owned()), ..old("backup") };
    let command = commands(&of(old("web"), unit), Remedy::CpuWeight);
    assert_eq!(command, ["systemctl set-property b.service CPUWeight=19"]);
}

#[test]
fn both_on_one_cpu_while_others_idle_is_said_first() {
    let on_one = |name: &str| {
        let mut one = service(name);
        one.main = one.main.map(|main| TaskSetup { cpus: list("1"), ..main });
        one
    };
    let mut setup = of(on_one("web.service"), on_one("backup.service"));
    setup.idle = vec![(0, 0.97), (1, 0.0), (2, 0.99), (3, 0.2)];
    let advice = advise(ALL_OF_CPU, &setup);
    assert_eq!(advice[0].remedy, Remedy::CpuAffinity);
    assert_eq!(
        advice[0].now.as_deref(),
        Some(
            "web.service and backup.service are both pinned to CPU 1, while CPUs 0,2 were idle for 97.0 % of the \
             time or more"
        )
    );
    // Their threads are pinned, not their cgroups.
    assert_eq!(advice[0].commands, ["taskset --all-tasks --cpu-list --pid 0,2 42"]);
    for one in [&mut setup.victim, &mut setup.culprit] {
        one.as_mut().unwrap().cpus = Some(list("1"));
    }
    let expected = ["systemctl set-property backup.service AllowedCPUs=0,2"];
    assert_eq!(commands(&setup, Remedy::CpuAffinity), expected);
    // No other is idle, or that is not known: it is not the first thing to know, and no one is said to be idle.
    for idle in [vec![(0, 0.1), (2, 0.2), (3, 0.3)], Vec::new()] {
        let advice = advise(ALL_OF_CPU, &Setup { idle, ..setup.clone() });
        assert_eq!(advice[0].remedy, Remedy::CpuWeight);
        let pinned = advice.iter().find(|one| one.remedy == Remedy::CpuAffinity).unwrap();
        let now = "web.service and backup.service are both pinned to CPU 1";
        assert_eq!(pinned.now.as_deref(), Some(now));
        let expected = ["systemctl set-property backup.service AllowedCPUs=0,2,3"];
        assert_eq!(pinned.commands, expected);
    }
}

#[test]
fn cpus_of_their_own_need_no_advice() {
    let mut setup = both();
    for (one, cpus) in [(&mut setup.victim, "0,1"), (&mut setup.culprit, "2,3")] {
        let main = one.as_mut().unwrap().main.as_mut().unwrap();
        main.cpus = list(cpus);
    }
    assert!(is_left_out(&setup, Remedy::CpuAffinity));
    let single = Setup { online: list("0"), ..both() };
    assert!(
        is_left_out(&single, Remedy::CpuAffinity) && is_left_out(&single, Remedy::IsolatedCpus)
    );
}

#[test]
fn a_quota_is_raised_where_it_is_set() {
    let mut setup = both();
    assert!(is_left_out(&setup, Remedy::RaiseQuota));
    let half = Quota { quota_us: Some(50_000), period_us: 100_000 };
    setup.limited = Some(CgroupSetup { quota: Some(half), ..service("web.service") });
    let advice = advise(&[Remedy::RaiseQuota], &setup);
    assert_eq!(advice[0].now.as_deref(), Some("the quota of web.service is 0.50 CPUs"));
    assert_eq!(advice[0].commands, ["systemctl set-property web.service CPUQuota=100%"]);
    let docker = Manager::Docker("0123456789abcdef".to_owned());
    setup.limited = setup.limited.map(|one| CgroupSetup { manager: docker, ..one });
    assert_eq!(commands(&setup, Remedy::RaiseQuota), ["docker update --cpus 1 0123456789ab"]);
    // Docker refuses more CPUs than are online; of as many, no more can be had.
    let most = |quota_us| {
        let quota = Some(Quota { quota_us: Some(quota_us), period_us: 100_000 });
        let limited = setup.limited.clone().map(|one| CgroupSetup { quota, ..one });
        advise(&[Remedy::RaiseQuota], &Setup { limited, ..setup.clone() })
    };
    assert_eq!(most(300_000)[0].commands, ["docker update --cpus 4 0123456789ab"]);
    assert_eq!(most(300_000)[0].undo, ["docker update --cpus 3 0123456789ab"]);
    assert_eq!(most(400_000), []);
    // A culprit that has a quota already.
    setup.culprit = setup.culprit.map(|one| CgroupSetup { quota: Some(half), ..one });
    assert!(is_left_out(&setup, Remedy::CpuQuota));
}

fn disk(scheduler: &str) -> Option<DiskSetup> {
    Some(DiskSetup {
        name: "vda".to_owned(),
        numbers: "254:0".to_owned(),
        scheduler: Some(scheduler.to_owned()),
        has_cost: false,
        is_write: false,
    })
}

#[test]
fn a_disk_is_weighed_where_something_weighs() {
    let mut setup = both();
    setup.disk = disk("mq-deadline");
    assert!(is_left_out(&setup, Remedy::IoWeight) && is_left_out(&setup, Remedy::IoScheduler));
    let limit = ["systemctl set-property backup.service 'IOReadBandwidthMax=/dev/vda 50M'"];
    assert_eq!(commands(&setup, Remedy::IoMax), limit);
    setup.disk = disk("bfq");
    let weight = ["systemctl set-property backup.service IOWeight=20"];
    assert_eq!(commands(&setup, Remedy::IoWeight), weight);
    setup.disk = disk("none");
    let scheduler = ["echo mq-deadline > /sys/block/vda/queue/scheduler"];
    assert_eq!(commands(&setup, Remedy::IoScheduler), scheduler);
    // No engine sets this of a container that runs.
    let docker = Manager::Docker("0123456789abcdef".to_owned());
    let culprit = CgroupSetup { manager: docker, ..service("backup.service") };
    setup.culprit = Some(culprit.clone());
    let file = "/sys/fs/cgroup/system.slice/backup.service/io.max";
    assert_eq!(commands(&setup, Remedy::IoMax), [format!("echo '254:0 rbps=50000000' > {file}")]);
    setup.culprit = Some(CgroupSetup { io_max: vec!["254:0 rbps=1000".to_owned()], ..culprit });
    assert!(is_left_out(&setup, Remedy::IoMax));
}

#[test]
fn memory_is_advised_where_its_limit_was_hit() {
    let mut setup = both();
    assert!(is_left_out(&setup, Remedy::MemoryLimits));
    let limited = CgroupSetup { memory_max: Some(Some(512 << 20)), ..service("web.service") };
    setup.victim = Some(limited.clone());
    // What reads much is always at its limit.
    assert_eq!(advise(&[Remedy::MemoryLimits], &setup), [Advice::plain(Remedy::MemoryLimits)]);
    setup.memory = Some((LimitKind::Max, limited));
    let advice = advise(&[Remedy::MemoryLimits], &setup);
    assert_eq!(advice[0].now.as_deref(), Some("memory.max of web.service is 512 MiB"));
    assert_eq!(advice[0].commands, ["systemctl set-property web.service MemoryMax=1073741824"]);
    let undo = "systemctl set-property web.service MemoryMax=536870912";
    let only = "only while memory.current is below 512 MiB";
    assert_eq!(advice[0].undo, [format!("{undo} # {only}")]);
    // The one that was hit, wherever it is.
    let slice = CgroupSetup { memory_high: Some(Some(1 << 30)), ..service("web.slice") };
    setup.memory = Some((LimitKind::High, slice));
    let expected = ["systemctl set-property web.slice MemoryHigh=2147483648"];
    assert_eq!(commands(&setup, Remedy::MemoryLimits), expected);
    // The host has to have it.
    setup.available_bytes = Some((1 << 30) - 1);
    let advice = advise(&[Remedy::MemoryLimits], &setup);
    let now = "memory.high of web.slice is 1 GiB, and the host has no more than that left";
    assert_eq!((advice[0].now.as_deref(), advice[0].commands.len()), (Some(now), 0));
    setup.available_bytes = Some(1 << 30);
    assert_eq!(commands(&setup, Remedy::MemoryLimits), expected);
}

#[test]
fn where_memory_and_swap_are_limited_together_both_are_raised() {
    let of = |manager, kind| {
        let limited = CgroupSetup {
            manager,
            memory: Controller::On { folder: "/m".to_owned(), version: 1 },
            memory_max: Some(Some(8 << 20)),
            swap_max: Some(Some(0)),
            ..service("/job")
        };
        let memory = Some((kind, limited.clone()));
        advise(&[Remedy::MemoryLimits], &Setup { memory, victim: Some(limited), ..both() })
    };
    let advice = of(Manager::Files, LimitKind::Old);
    assert_eq!(
        advice[0].commands,
        [
            "echo 16777216 > /m/memory.memsw.limit_in_bytes",
            "echo 16777216 > /m/memory.limit_in_bytes"
        ]
    );
    assert_eq!(
        advice[0].undo,
        [
            "echo 8388608 > /m/memory.limit_in_bytes # only while memory.usage_in_bytes is below 8 MiB",
            "echo 8388608 > /m/memory.memsw.limit_in_bytes"
        ]
    );
    let advice = of(Manager::Docker("0123456789abcdef".to_owned()), LimitKind::Old);
    let expected = ["docker update --memory 16777216 --memory-swap 16777216 0123456789ab"];
    assert_eq!(advice[0].commands, expected);
    let advice = of(Manager::Files, LimitKind::Max);
    assert_eq!(advice[0].commands, ["echo 16777216 > /m/memory.max"]);
}

#[test]
fn interrupts_are_moved_off_the_cpus_of_the_victim() {
    // What serves it now is less than what may.
    let irq = |irq, cpus| IrqSetup { irq, cpus: list(cpus), set: list("0-3") };
    let mut setup = both();
    setup.interrupt = Some("nvme0q1".to_owned());
    assert_eq!(advise(&[Remedy::IrqAffinity], &setup), [Advice::plain(Remedy::IrqAffinity)]);
    setup.irqs = vec![irq(36, "0-3")];
    let advice = advise(&[Remedy::IrqAffinity], &setup);
    assert_eq!(
        advice[0].now.as_deref(),
        Some(
            "IRQ 36 (nvme0q1) is served by CPUs 0-3; the victim may run on all CPUs, so keep it off some first"
        )
    );
    assert!(advice[0].commands.is_empty());
    let main = setup.victim.as_mut().unwrap().main.as_mut().unwrap();
    main.cpus = list("0,1");
    let expected = ["echo 2,3 > /proc/irq/36/smp_affinity_list"];
    assert_eq!(commands(&setup, Remedy::IrqAffinity), expected);
    setup.irqs = vec![irq(36, "1")];
    let undo = |setup: &Setup| advise(&[Remedy::IrqAffinity], setup).remove(0).undo;
    assert_eq!(undo(&setup), ["echo 0-3 > /proc/irq/36/smp_affinity_list"]);
    setup.irqs[0].set = CpuList::default();
    assert!(undo(&setup).is_empty(), "it is not known what was set");
    setup.irqs = vec![irq(36, "3")];
    assert!(is_left_out(&setup, Remedy::IrqAffinity));
}

#[test]
fn it_survives_being_written() {
    for advice in advise(ALL_OF_CPU, &both()).into_iter().chain([Advice::plain(Remedy::HugePages)])
    {
        let text = serde_json::to_string(&advice).unwrap();
        assert_eq!(serde_json::from_str::<Advice>(&text).unwrap(), advice);
    }
}
