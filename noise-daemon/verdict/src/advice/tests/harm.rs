//! Commands that would hurt the victim or a bystander, or could not be taken back.

use noise_common::remedy::Remedy;
use noise_model::memory::LimitKind;
use noise_model::pressure::Quota;
use noise_model::setup::{CgroupSetup, Controller, DiskSetup, IrqSetup, Manager, Setup, TaskSetup};

use super::super::advise;
use super::{both, commands, disk, is_left_out, list, of, service};

fn weighed() -> DiskSetup {
    disk("bfq").unwrap()
}

#[test]
fn what_slows_the_culprit_does_not_slow_the_victim_around_it() {
    let around = Setup { is_around: true, siblings: None, disk: Some(weighed()), ..both() };
    for remedy in [Remedy::CpuAffinity, Remedy::CpuQuota, Remedy::IoWeight, Remedy::IoMax] {
        assert!(is_left_out(&around, remedy), "{remedy:?}");
        assert!(
            !commands(&Setup { disk: Some(weighed()), ..both() }, remedy).is_empty(),
            "{remedy:?}"
        );
    }
}

#[test]
fn who_has_the_lower_weight_by_its_settings_keeps_it() {
    let cpu = [Remedy::CpuWeight, Remedy::CpuAffinity, Remedy::CpuQuota];
    let disk = [Remedy::IoWeight, Remedy::IoMax];
    let with = |cpus: [Option<u64>; 2], disks: [Option<u64>; 2]| {
        let one =
            |name: &str, weight, io_weight| CgroupSetup { weight, io_weight, ..service(name) };
        let victim = one("backup.service", cpus[0], disks[0]);
        let culprit = one("web.service", cpus[1], disks[1]);
        Setup { disk: Some(weighed()), ..of(victim, culprit) }
    };
    let words =
        "backup.service has the lower weight by its settings: 20 against 100 of web.service";
    let is_kept = |setup: &Setup, remedy: Remedy| {
        let advice = advise(&[remedy], setup).remove(0);
        let is_said = advice.now.is_some_and(|now| now.ends_with(&format!("; but {words}")));
        assert_eq!(is_said, advice.commands.is_empty(), "{remedy:?}");
        is_said && advice.undo.is_empty()
    };
    let (equal, lower) = ([Some(100); 2], [Some(20), Some(100)]);
    for (cpus, disks) in [(lower, equal), (equal, lower), ([Some(20), None], [None, Some(100)])] {
        let setup = with(cpus, disks);
        assert!(cpu.iter().all(|remedy| is_kept(&setup, *remedy) == (cpus == lower)));
        assert!(disk.iter().all(|remedy| is_kept(&setup, *remedy) == (disks == lower)));
    }
    // A thread that no weight holds back is one of those.
    let mut setup = with(lower, equal);
    setup.is_culprit_named = true;
    let culprit = setup.culprit.as_mut().unwrap();
    culprit.main = culprit.main.take().map(|main| TaskSetup { policy: 1, priority: 9, ..main });
    assert!(is_kept(&setup, Remedy::SchedulingPolicy));
}

#[test]
fn who_runs_when_nobody_else_does_goes_on_so() {
    let with = |victim, culprit| {
        let one = |name: &str, policy| {
            let mut one = service(name);
            one.main = one.main.map(|main| TaskSetup { policy, ..main });
            one
        };
        let setup = of(one("backup.service", victim), one("web.service", culprit));
        Setup { disk: Some(weighed()), ..setup }
    };
    for remedy in [Remedy::CpuWeight, Remedy::CpuAffinity, Remedy::CpuQuota] {
        let advice = advise(&[remedy], &with(5, 0)).remove(0);
        assert_eq!((advice.commands, advice.undo), (Vec::new(), Vec::new()), "{remedy:?}");
        assert!(advice.now.is_some_and(|now| now.contains("backup.service runs under SCHED_IDLE")));
        assert!(!commands(&with(5, 5), remedy).is_empty(), "{remedy:?}");
        assert!(!commands(&with(0, 5), remedy).is_empty(), "{remedy:?}");
    }
    assert!(!commands(&with(5, 0), Remedy::IoWeight).is_empty());
    let mut setup = with(5, 0);
    setup.culprit.as_mut().unwrap().main = None;
    assert!(!commands(&setup, Remedy::CpuWeight).is_empty(), "it is not known");
}

#[test]
fn only_a_thread_that_is_named_loses_its_policy() {
    let with = |policy, is_culprit_named| {
        let mut culprit = service("backup.service");
        culprit.main = culprit.main.map(|main| TaskSetup { policy, priority: 9, ..main });
        let setup = Setup { is_culprit_named, ..of(service("web.service"), culprit) };
        advise(&[Remedy::SchedulingPolicy, Remedy::CpuWeight], &setup).remove(0)
    };
    let weight = ["systemctl set-property backup.service CPUWeight=20"];
    for (policy, option) in [(1, "--fifo"), (2, "--rr")] {
        assert_eq!(with(policy, true).commands, ["chrt --other --pid 0 42"]);
        assert_eq!(with(policy, true).undo, [format!("chrt {option} --pid 9 42")]);
        assert_eq!(with(policy, false).commands, weight);
    }
    // Nothing gives a deadline back.
    let deadline = with(6, true);
    assert!(deadline.now.is_some_and(|now| now.contains("runs under SCHED_DEADLINE")));
    assert_eq!((deadline.commands, deadline.undo), (Vec::new(), Vec::new()));
    assert_eq!(with(6, false).commands, weight);
}

#[test]
fn a_culprit_is_not_moved_to_the_victims_cpus() {
    let on = |mut one: CgroupSetup, cpus: &str| {
        one.main = one.main.map(|main| TaskSetup { cpus: list(cpus), ..main });
        one
    };
    let backup = || service("backup.service");
    let victim_high = of(on(service("web.service"), "2-3"), backup());
    let to = |cpus: &str| [format!("systemctl set-property backup.service AllowedCPUs={cpus}")];
    assert_eq!(commands(&victim_high, Remedy::CpuAffinity), to("0,1"));
    let victim_low = of(on(service("web.service"), "0-2"), backup());
    assert_eq!(commands(&victim_low, Remedy::CpuAffinity), to("3"));
    // Nowhere, where CPUs are left alone by the scheduler.
    let apart = Setup {
        isolated: list("2-3"),
        idle: vec![(2, 0.99), (3, 0.99)],
        ..of(on(service("web.service"), "0-1"), on(backup(), "0-1"))
    };
    assert_eq!(commands(&apart, Remedy::CpuAffinity), to("1"));
    let first = advise(&[Remedy::CpuWeight, Remedy::CpuAffinity], &apart);
    assert_eq!(first[0].remedy, Remedy::CpuWeight);
    let irq = IrqSetup { irq: 36, cpus: list("0"), set: list("0-1") };
    let interrupt = Setup { interrupt: Some("eth0".to_owned()), irqs: vec![irq], ..apart };
    assert_eq!(commands(&interrupt, Remedy::IrqAffinity), [""; 0]);
}

#[test]
fn threads_that_have_cpus_of_their_own_keep_them() {
    let moved = |is_alike, is_alone| {
        let mut culprit = service("backup.service");
        culprit.cpuset = Controller::Missing;
        culprit.main = culprit.main.map(|main| TaskSetup { is_alike, is_alone, ..main });
        advise(&[Remedy::CpuAffinity], &of(service("web.service"), culprit)).remove(0)
    };
    let one = moved(true, true);
    assert_eq!(one.commands, ["taskset --all-tasks --cpu-list --pid 2,3 42"]);
    assert_eq!(one.undo, ["taskset --all-tasks --cpu-list --pid 0-3 42"]);
    // One process of several is not the culprit.
    for other in [moved(false, true), moved(true, false)] {
        assert_eq!((other.commands, other.undo), (Vec::new(), Vec::new()));
    }
}

#[test]
fn one_thread_does_not_say_where_the_victim_runs() {
    // Workers on CPUs 0 to 3, each on its own: the one on CPU 3 waits longest.
    let victim = |is_alike| {
        let mut victim = CgroupSetup { cpus: Some(list("0-3")), ..service("nginx.service") };
        victim.main = victim.main.map(|main| TaskSetup { cpus: list("3"), is_alike, ..main });
        victim
    };
    let setup = |is_alike| Setup {
        online: list("0-5"),
        interrupt: Some("eth0".to_owned()),
        irqs: vec![IrqSetup { irq: 36, cpus: list("3"), set: list("0-5") }],
        ..of(victim(is_alike), CgroupSetup { main: None, cpus: None, ..service("hog.service") })
    };
    let irq = |cpus: &str| [format!("echo {cpus} > /proc/irq/36/smp_affinity_list")];
    assert_eq!(commands(&setup(true), Remedy::IrqAffinity), irq("0-2,4,5"));
    assert_eq!(commands(&setup(false), Remedy::IrqAffinity), irq("4,5"));
    let mut hog = setup(false);
    hog.culprit.as_mut().unwrap().cpus = Some(list("0-5"));
    let moved = ["systemctl set-property hog.service AllowedCPUs=4,5"];
    assert_eq!(commands(&hog, Remedy::CpuAffinity), moved);
}

#[test]
fn what_process_1_is_in_is_not_slowed_by_its_other_threads() {
    let task = service("x").main.unwrap();
    let other_thread = TaskSetup { pid: 345, process: 1, ..task };
    for culprit in [
        CgroupSetup { main: Some(other_thread), ..service("init.scope") },
        CgroupSetup { has_host: true, ..service("init.scope") },
    ] {
        let setup = Setup { is_culprit_named: true, ..of(service("web.service"), culprit) };
        for remedy in [Remedy::CpuWeight, Remedy::CpuQuota, Remedy::CpuAffinity] {
            assert!(is_left_out(&setup, remedy), "{remedy:?}");
        }
    }
}

#[test]
fn a_quota_is_given_back_as_it_was() {
    let folder = "/x".to_owned();
    let quota = |version, quota_us, period_us| {
        let mut limited = service("web");
        limited.manager = Manager::Files;
        limited.cpu = Controller::On { folder: folder.clone(), version };
        limited.quota = Some(Quota { quota_us: Some(quota_us), period_us });
        let setup = Setup { limited: Some(limited), ..both() };
        let mut advice = advise(&[Remedy::RaiseQuota], &setup).remove(0);
        (advice.commands.remove(0), advice.undo.remove(0))
    };
    let old = |us: u64| format!("echo {us} > /x/cpu.cfs_quota_us");
    assert_eq!(quota(1, 25_000, 50_000), (old(50_000), old(25_000)));
    let new = |text: &str| format!("echo '{text}' > /x/cpu.max");
    assert_eq!(quota(2, 12_500, 100_000).1, new("12500 100000"));
    assert_eq!(quota(2, 5_000, 20_000), (new("10000 20000"), new("5000 20000")));
    assert_eq!(quota(2, 100, 100_000).1, new("100 100000"));
}

#[test]
fn managers_take_quotas_with_digits() {
    let back = |manager: &Manager, quota_us| {
        let quota = Some(Quota { quota_us: Some(quota_us), period_us: 100_000 });
        let manager = manager.clone();
        let limited = Some(CgroupSetup { manager, quota, ..service("web.service") });
        let mut advice = advise(&[Remedy::RaiseQuota], &Setup { limited, ..both() }).remove(0);
        (advice.commands.remove(0), advice.undo.remove(0))
    };
    let systemd = Manager::System("web.service".to_owned());
    let set = |percent: &str| format!("systemctl set-property web.service CPUQuota={percent}%");
    assert_eq!(back(&systemd, 12_500), (set("25"), set("12.5")));
    assert_eq!(back(&systemd, 33_333).1, set("33.33"));
    let docker = Manager::Docker("0123456789ab".to_owned());
    let set = |cpus: &str| format!("docker update --cpus {cpus} 0123456789ab");
    assert_eq!(back(&docker, 12_500), (set("0.25"), set("0.125")));
    assert_eq!(back(&docker, 33_333), (set("0.66666"), set("0.33333")));
}

#[test]
fn an_engines_weight_is_given_back_as_it_was() {
    let docker = |cpu| {
        let manager = Manager::Docker("0123456789ab".to_owned());
        let culprit = CgroupSetup { manager, cpu, ..service("backup.service") };
        advise(&[Remedy::CpuWeight], &of(service("web.service"), culprit)).remove(0)
    };
    let folder = || "/x/b".to_owned();
    let on = docker(Controller::On { folder: folder(), version: 2 });
    assert_eq!(on.commands, ["docker update --cpu-shares 500 0123456789ab"]);
    let until = "until the container is started again: that sets the new shares";
    assert_eq!(on.undo, [format!("echo 100 > /x/b/cpu.weight # {until}")]);
    let off = docker(Controller::Off { folder: folder(), parent: "/x".to_owned() });
    assert_eq!((off.commands, off.undo), (on.commands, Vec::new()));
    let old = docker(Controller::On { folder: folder(), version: 1 });
    assert_eq!(old.undo, ["docker update --cpu-shares 100 0123456789ab"]);
}

#[test]
fn bfq_has_a_weight_of_its_own() {
    let setup = |has_cost, bfq_weight| {
        let manager = Manager::Files;
        let culprit = CgroupSetup { manager, bfq_weight, ..service("backup.service") };
        let disk = Some(DiskSetup { has_cost, ..weighed() });
        let victim = CgroupSetup { bfq_weight: Some(500), ..service("web.service") };
        advise(&[Remedy::IoWeight], &Setup { disk, ..of(victim, culprit) }).remove(0)
    };
    let echo = |weight: u64, file: &str| {
        [format!("echo {weight} > /sys/fs/cgroup/system.slice/backup.service/{file}")]
    };
    let bfq = setup(false, Some(500));
    let now = "io.bfq.weight is 500 of backup.service";
    assert_eq!(bfq.now.as_deref(), Some(now));
    assert_eq!(
        (&bfq.commands[..], &bfq.undo[..]),
        (&echo(100, "io.bfq.weight")[..], &echo(500, "io.bfq.weight")[..])
    );
    let cost = setup(true, Some(500));
    assert_eq!(
        (&cost.commands[..], &cost.undo[..]),
        (&echo(20, "io.weight")[..], &echo(100, "io.weight")[..])
    );
}

#[test]
fn what_no_controller_did_before_is_taken_back() {
    let off = || Controller::Off { folder: "/x/b".to_owned(), parent: "/x".to_owned() };
    let mut culprit = service("backup.service");
    (culprit.cpu, culprit.quota, culprit.io, culprit.io_weight) = (off(), None, off(), None);
    let setup = Setup { disk: Some(weighed()), ..of(service("web.service"), culprit) };
    for (remedy, property) in [(Remedy::CpuQuota, "CPUQuota="), (Remedy::IoWeight, "IOWeight=")] {
        let advice = advise(&[remedy], &setup).remove(0);
        let undo = format!("systemctl set-property backup.service {property}");
        assert_eq!(advice.undo, [undo], "{remedy:?}");
    }
}

#[test]
fn a_soft_limit_of_memory_stays_below_the_hard_one() {
    let raised = |max: Option<u64>| {
        let mut limited = service("web.service");
        (limited.memory_high, limited.memory_max) = (Some(Some(800 << 20)), Some(max));
        let setup = Setup { memory: Some((LimitKind::High, limited)), ..both() };
        advise(&[Remedy::MemoryLimits], &setup).remove(0)
    };
    let below = raised(Some(1 << 30));
    assert_eq!(below.commands, [""; 0]);
    assert!(below.now.as_ref().is_some_and(|now| now.contains("memory.max is")), "{below:?}");
    for above in [None, Some(4 << 30)] {
        let command = format!("systemctl set-property web.service MemoryHigh={}", 1600_u64 << 20);
        assert_eq!(raised(above).commands, [command]);
    }
}

#[test]
fn a_pod_is_changed_by_words_that_are_no_command() {
    let pod =
        |name: &str| CgroupSetup { manager: Manager::Kubernetes(name.to_owned()), ..service(name) };
    let cpu = [Remedy::CpuWeight, Remedy::CpuAffinity, Remedy::CpuQuota];
    let said = |setup: &Setup| {
        let advice = advise(&cpu, setup);
        assert!(advice.iter().all(|one| one.commands.is_empty() && one.undo.is_empty()));
        let words = |now: String| now.split_once("in the manifest of ").map(|(_, w)| w.to_owned());
        advice.into_iter().map(|one| one.now.and_then(words)).collect::<Vec<_>>()
    };
    let weight = "pod:b: lower its resources.requests.cpu, which is its weight";
    let own = "pod:a/web: give it whole CPUs of its own (static CPU manager, Guaranteed QoS)";
    let quota = "pod:b/gzip: set its resources.limits.cpu";
    // Pods are weighed against each other as a whole.
    let siblings = Some((pod("pod:a"), pod("pod:b")));
    let pods = Setup { siblings: siblings.clone(), ..of(pod("pod:a/web"), pod("pod:b/gzip")) };
    assert_eq!(said(&pods), [weight, own, quota].map(|one| Some(one.to_owned())));
    // No manifest gives a service CPUs of its own.
    let service = Setup { siblings, ..of(service("web.service"), pod("pod:b/gzip")) };
    assert_eq!(said(&service)[1], None);
}
