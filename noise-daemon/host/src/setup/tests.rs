//! Fixture trees of both versions of cgroups.

use std::fs;

use noise_model::memory::{LimitKind, LimitReading, Pages};
use noise_model::pressure::Pressure;
use noise_model::setup::{Controller, Manager, Setup};
use noise_text::cpulist::CpuList;

use super::*;

const PSI: &str = "some avg10=12.50 avg60=1.00 avg300=0.10 total=4000\n\
                   full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";

struct Tree(tempfile::TempDir);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        files.iter().for_each(|(path, text)| tree.write(path, text));
        tree
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn reader(&self, mounts: Mounts) -> SetupReader {
        SetupReader::new(mounts, &self.path("proc"), &self.path("sys"))
    }

    fn unified(&self) -> SetupReader {
        self.reader(Mounts { unified: Some(self.path("cg")), ..Mounts::default() })
    }

    fn hybrid(&self) -> SetupReader {
        self.reader(Mounts {
            unified: Some(self.path("cg")),
            cpu: Some(self.path("cpu")),
            ..Mounts::default()
        })
    }
}

/// A host of version 2 with systemd, a service that is held to half a CPU, and another one.
fn host() -> Tree {
    let tree = Tree::new(&[
        ("proc/1/comm", "systemd\n"),
        (
            "proc/42/stat",
            "42 (a) b) R 1 1 1 0 -1 4194304 0 0 0 0 1 1 0 0 20 0 1 0 5 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0",
        ),
        ("proc/42/status", "Name:\ta) b\nCpus_allowed_list:\t1\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("cg/cgroup.controllers", "cpuset cpu io memory pids\n"),
        ("cg/cgroup.subtree_control", "cpu memory pids\n"),
        ("cg/cgroup.procs", ""),
        ("cg/system.slice/cgroup.controllers", "cpu memory pids\n"),
        ("cg/system.slice/cgroup.subtree_control", "cpu memory\n"),
        ("cg/system.slice/cpu.weight", "100\n"),
    ]);
    for (name, weight, max) in [("web", "100", "50000 100000"), ("backup", "50", "max 100000")] {
        let folder = format!("cg/system.slice/{name}.service");
        for (file, text) in [
            ("cpu.weight", weight),
            ("cpu.max", max),
            ("cpu.stat", "usage_usec 7\nnr_periods 20\nnr_throttled 12\nthrottled_usec 700\n"),
            ("cpu.pressure", PSI),
            ("io.pressure", PSI),
            ("memory.pressure", PSI),
            ("memory.high", "max"),
            ("memory.max", "1048576"),
            ("memory.swap.max", "4096"),
            ("memory.events.local", EVENTS),
            ("memory.stat", REFAULTS),
            ("cgroup.procs", "42\n43\n"),
        ] {
            tree.write(&format!("{folder}/{file}"), &format!("{text}\n"));
        }
    }
    tree
}

const EVENTS: &str = "low 0\nhigh 0\nmax 7\noom 0\noom_kill 0\n";
const REFAULTS: &str = "workingset_refault_anon 5\nworkingset_refault_file 20\npgsteal 30\n";

const WEB: &str = "/system.slice/web.service";
const BACKUP: &str = "/system.slice/backup.service";

fn meeting(victim: &'static str, culprit: &'static str) -> Meeting<'static> {
    Meeting {
        victim: Some(Path::new(victim)),
        culprit: Some(Path::new(culprit)),
        ..Meeting::default()
    }
}

#[test]
fn pressure_and_quota_of_a_cgroup_of_version_2() {
    let tree = host();
    let pressure = Pressure::of(None, &tree.unified().pressure(Path::new(WEB), 7));
    let cpu = pressure.cpu.unwrap();
    assert_eq!((cpu.some.avg10_percent, cpu.some.stalled_ms), (12.5, None));
    let quota = pressure.quota.unwrap();
    assert_eq!((&*quota.of, quota.quota.cpus()), ("web.service", Some(0.5)));
    assert!(pressure.unavailable.is_empty(), "{:?}", pressure.unavailable);
    // The quota of what is around it counts where it has none.
    tree.write("cg/system.slice/cpu.max", "100000 100000\n");
    tree.write("cg/system.slice/cpu.stat", "nr_periods 2\nnr_throttled 1\nthrottled_usec 3\n");
    let quotas = |path: &str| {
        let quotas = tree.unified().pressure(Path::new(path), 7).quotas.unwrap();
        quotas.into_iter().map(|one| (one.of, one.above)).collect::<Vec<_>>()
    };
    let of_slice = ("system.slice".to_owned(), 1);
    assert_eq!(quotas(BACKUP), std::slice::from_ref(&of_slice));
    assert_eq!(quotas(WEB), [("web.service".to_owned(), 0), of_slice]);
    let backup = tree.unified().pressure(Path::new(BACKUP), 7).quotas.unwrap();
    assert_eq!(backup[0].counted.throttled_ns, 3_000);
    // What is raised is the one that stops it.
    for (quota, expected) in [
        (Some("system.slice"), Some("system.slice")),
        (Some("web.service"), Some("web.service")),
        (None, None),
    ] {
        let about = Meeting { quota, ..meeting(WEB, BACKUP) };
        let limited = tree.unified().setup(&about, Vec::new()).limited;
        assert_eq!(limited.as_ref().map(|one| &*one.label), expected);
    }
}

#[test]
fn what_is_not_there_is_said_and_not_0() {
    let tree = host();
    let reader = tree.unified();
    let why =
        |reader: &SetupReader, path: &str| reader.pressure(Path::new(path), 0).cpu.unwrap_err();
    assert_eq!(why(&reader, "/system.slice/gone.service"), "the cgroup is gone");
    fs::remove_file(tree.path("cg/system.slice/web.service/cpu.pressure")).unwrap();
    assert_eq!(why(&reader, WEB), "this kernel has no pressure files (CONFIG_PSI is off)");
    tree.write("cg/system.slice/web.service/cgroup.pressure", "0\n");
    assert_eq!(why(&reader, WEB), "PSI is off for this cgroup: its cgroup.pressure is 0");
    tree.write("cg/system.slice/web.service/cpu.pressure", "none\n");
    assert_eq!(why(&reader, WEB), "cpu.pressure has another form than is known");
    let error = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
    assert!(why_unread(Path::new("/"), &error).starts_with("PSI is off on this host"));
    // On a hybrid host, a cgroup of version 1 alone has no pressure, but a quota.
    tree.write("cpu/old/cpu.cfs_quota_us", "20000\n");
    tree.write("cpu/old/cpu.cfs_period_us", "100000\n");
    tree.write("cpu/old/cpu.stat", "nr_periods 9\nnr_throttled 3\nthrottled_time 5000\n");
    let reading = tree.hybrid().pressure(Path::new("/old"), 0);
    assert!(reading.cpu.unwrap_err().starts_with("it is a cgroup of version 1"));
    let quota = reading.quotas.unwrap().remove(0);
    assert_eq!((quota.quota.cpus(), quota.counted.throttled_ns), (Some(0.2), 5_000));
    let old = Mounts { cpu: Some(tree.path("cpu")), ..Mounts::default() };
    let reading = tree.reader(old).pressure(Path::new("/old"), 0);
    assert!(reading.io.unwrap_err().ends_with("version 2 is not mounted"));
    let neither = tree.hybrid().pressure(Path::new("/gone"), 0);
    assert_eq!(neither.cpu.unwrap_err(), "the cgroup is gone");
    assert!(neither.quotas.unwrap_err().starts_with("it has no cpu controller"));
}

#[test]
fn a_unit_of_systemd_is_set_up_as_its_files_say() {
    let tree = host();
    let about = Meeting { quota: Some("web.service"), ..meeting(WEB, BACKUP) };
    let setup = tree.unified().setup(&about, vec![(0, 0.9)]);
    let Setup { victim, culprit, siblings, is_around, limited, online, .. } = setup;
    let (victim, culprit) = (victim.unwrap(), culprit.unwrap());
    assert_eq!((victim.weight, culprit.weight), (Some(100), Some(50)));
    assert_eq!(culprit.manager, Manager::System("backup.service".to_owned()));
    assert!(matches!(&victim.cpu, Controller::On { version: 2, .. }));
    // The slice has it of no one, so it cannot hand it down.
    assert_eq!((&victim.cpuset, &victim.io), (&Controller::Missing, &Controller::Missing));
    assert_eq!((victim.memory_high, victim.memory_max), (Some(None), Some(Some(1 << 20))));
    let main = victim.main.unwrap();
    assert_eq!((main.pid, main.nice, main.policy), (42, 0, 0));
    assert_eq!(main.cpus, CpuList::from_iter([1]));
    assert_eq!(siblings.unwrap().1.label, "backup.service");
    assert!(!is_around);
    for (victim, culprit, expected) in [
        ("/a/b", "/a/b", true),
        ("/a/b", "/a", true),
        ("/a", "/a/b", false),
        ("/", "/a", false),
        ("/ab", "/a", false),
    ] {
        let meeting = Meeting {
            victim: Some(Path::new(victim)),
            culprit: Some(Path::new(culprit)),
            ..Meeting::default()
        };
        let setup = tree.unified().setup(&meeting, Vec::new());
        assert_eq!(setup.is_around, expected, "{victim} {culprit}");
    }
    assert_eq!(limited.unwrap().label, "web.service");
    assert_eq!(online, CpuList::from_iter(0..4));
    tree.write("cg/system.slice/cgroup.subtree_control", "memory\n");
    let setup = tree.unified().setup(&meeting(WEB, BACKUP), Vec::new());
    let Some(Controller::Off { parent, .. }) = setup.culprit.map(|one| one.cpu) else { panic!() };
    assert_eq!(Path::new(&parent), tree.path("cg/system.slice"));
    // The root has no settings.
    let root = tree.unified().setup(&meeting("/", BACKUP), Vec::new());
    assert_eq!(root.victim.unwrap().cpu, Controller::Missing);
}

#[test]
fn who_sets_a_cgroup_is_read_from_its_path() {
    let id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let pod = "/kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice";
    let tree = host();
    let of = |path: &str| tree.unified().manager(Path::new(path));
    let system = |unit: &str| Manager::System(unit.to_owned());
    for (path, expected) in [
        ("/system.slice/getty.slice/getty@tty1.service", system("getty@tty1.service")),
        (r"/system.slice/my\x2dapp.service", system(r"my\x2dapp.service")),
        (r"/system.slice/my\x2dapp.service/worker", Manager::Files),
        ("/system.slice/slurmstepd.scope/job_7", Manager::Files),
        ("/machine.slice/machine-qemu-1.scope/libvirt/emulator", Manager::Files),
        ("/user.slice/user-1000.slice/session-3.scope", system("session-3.scope")),
        ("/user.slice/user-1000.slice", system("user-1000.slice")),
        ("/user.slice/user-1000.slice/user@1000.service", system("user@1000.service")),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/foo.service",
            Manager::User { unit: "foo.service".to_owned(), uid: "1000".to_owned() },
        ),
        ("/system.slice/_cpu.service", system("cpu.service")),
        ("/batch/job", Manager::Files),
        ("/", Manager::Files),
        (&format!("/system.slice/docker-{id}.scope"), Manager::Docker(id.to_owned())),
        (&format!("/docker/{id}"), Manager::Docker(id.to_owned())),
        (&format!("/docker/{id}/docker/{id}"), Manager::Files),
        (&format!("/docker/{id}/system.slice/nginx.service"), Manager::Files),
        (&format!("/system.slice/docker-{id}.scope/init/worker"), Manager::Files),
        (&format!("/machine.slice/libpod-{id}.scope"), Manager::Podman(id.to_owned())),
        (
            &format!("/user.slice/user-7.slice/user@7.service/user.slice/libpod-{id}.scope"),
            Manager::User { unit: format!("libpod-{id}.scope"), uid: "7".to_owned() },
        ),
        (
            &format!("/user.slice/user-7.slice/user@7.service/docker-{id}.scope"),
            Manager::User { unit: format!("docker-{id}.scope"), uid: "7".to_owned() },
        ),
        (&format!("/user.slice/user-7.slice/user@7.service/docker/{id}"), Manager::Files),
        (
            &format!("/user.slice/user-7.slice/user@7.service{pod}/cri-containerd-{id}.scope"),
            Manager::Files,
        ),
        (
            &format!("/user.slice/user-7.slice/user@7.service/user.slice/libpod-{id}.scope/inner"),
            Manager::Files,
        ),
        (
            &format!("{pod}/cri-containerd-{id}.scope"),
            Manager::Kubernetes(
                "pod:11111111-2222-3333-4444-555555555555/cri-containerd:0123456789ab".to_owned(),
            ),
        ),
        ("/lxc.payload.web/system.slice/nginx.service", Manager::Files),
        (
            "/machine.slice/systemd-nspawn@web.service/payload/system.slice/nginx.service",
            Manager::Files,
        ),
        ("/machine.slice/systemd-nspawn@web.service/payload", Manager::Files),
        ("/machine.slice/systemd-nspawn@web.service", system("systemd-nspawn@web.service")),
        ("/system.slice/foo.service/sshd.service", Manager::Files),
        // The user of a delegated service names cgroups below it as he likes.
        (&format!("/system.slice/foo.service/docker-{id}.scope"), Manager::Files),
        (&format!("/system.slice/foo.service/docker/{id}"), Manager::Files),
        (&format!("/system.slice/foo.service/libpod-{id}.scope"), Manager::Files),
        (&format!("/system.slice/foo.service{pod}/cri-containerd-{id}.scope"), Manager::Files),
        (
            &format!("/user.slice/user-7.slice/user@7.service/a.service/docker-{id}.scope"),
            Manager::Files,
        ),
    ] {
        assert_eq!(of(path), expected, "{path}");
    }
    tree.write("proc/1/comm", "init\n");
    assert_eq!(tree.unified().manager(Path::new(WEB)), Manager::Files);
}

#[test]
fn settings_of_what_is_in_a_unit_are_not_those_of_the_unit() {
    let tree = host();
    let unit = "cg/system.slice/slurmstepd.scope";
    for (folder, max) in [(unit.to_owned(), "max"), (format!("{unit}/job_7"), "1048576")] {
        tree.write(&format!("{folder}/cgroup.subtree_control"), "cpu memory\n");
        tree.write(&format!("{folder}/memory.max"), max);
    }
    let job = "/system.slice/slurmstepd.scope/job_7";
    let label = "slurmstepd.scope/job_7";
    let about = Meeting { memory: Some((LimitKind::Max, label)), ..meeting(job, BACKUP) };
    let (_, limited) = tree.unified().setup(&about, Vec::new()).memory.unwrap();
    assert_eq!((&*limited.label, limited.manager), (label, Manager::Files));
    // What systemd-nspawn runs is the whole container.
    let container = "cg/machine.slice/machine-web.scope";
    tree.write(&format!("{container}/payload/cpu.weight"), "7");
    tree.write(&format!("{container}/cpu.weight"), "200");
    tree.write("cg/machine.slice/cgroup.subtree_control", "cpu");
    let met = meeting(WEB, "/machine.slice/machine-web.scope/payload");
    let culprit = tree.unified().setup(&met, Vec::new()).culprit.unwrap();
    assert_eq!(culprit.manager, Manager::System("machine-web.scope".to_owned()));
    assert_eq!(culprit.weight, Some(200));
}

#[test]
fn an_engine_sets_its_whole_container_and_nothing_in_it() {
    let id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let container = format!("/docker/{id}");
    let (payload, inner) = (format!("{container}/init"), format!("{container}/inner"));
    let tree = host();
    for (path, max) in [(&container, "200000"), (&payload, "max"), (&inner, "max")] {
        tree.write(&format!("cg{path}/cpu.max"), &format!("{max} 100000\n"));
        tree.write(&format!("cg{path}/cpu.stat"), "nr_periods 2\n");
        tree.write(&format!("cg{path}/memory.max"), "1048576\n");
        tree.write(&format!("cg{path}/cgroup.subtree_control"), "cpu memory\n");
    }
    let meet = |victim: &str, culprit: &str| {
        let label = tree.unified().label(Path::new(victim));
        let meeting = Meeting {
            victim: Some(Path::new(victim)),
            culprit: Some(Path::new(culprit)),
            memory: Some((LimitKind::Max, &*label)),
            quota: Some("docker:0123456789ab"),
            ..Meeting::default()
        };
        tree.unified().setup(&meeting, Vec::new())
    };
    let docker = Manager::Docker(id.to_owned());
    // What is set for the processes of a container is set at the container.
    let setup = meet(WEB, &payload);
    let culprit = setup.culprit.unwrap();
    assert_eq!((&culprit.manager, &*culprit.label), (&docker, "docker:0123456789ab"));
    assert_eq!(culprit.quota.and_then(|quota| quota.cpus()), Some(2.0));
    assert!(!setup.is_around);
    // That would be about the victim as well.
    assert!(meet(&inner, &payload).is_around);
    let culprit = meet(WEB, &inner).culprit.unwrap();
    assert_eq!((culprit.manager, &*culprit.label), (Manager::Files, "docker:0123456789ab/inner"));
    // The nearest limit may be that of the container, or of what is in it.
    let setup = meet(&inner, WEB);
    assert_eq!(setup.limited.map(|one| one.manager), Some(docker));
    assert_eq!(setup.memory.map(|(_, one)| one.manager), Some(Manager::Files));
    tree.write(&format!("cg{inner}/cpu.max"), "50000 100000\n");
    let about = Meeting {
        victim: Some(Path::new(&inner)),
        quota: Some("docker:0123456789ab/inner"),
        ..Meeting::default()
    };
    let limited = tree.unified().setup(&about, Vec::new()).limited;
    assert_eq!(limited.map(|one| one.manager), Some(Manager::Files));
}

#[test]
fn settings_go_by_the_names_that_sentences_have_and_limits_by_ids() {
    let id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let (docker, web) = (format!("/docker/{id}"), "var/lib/docker/containers");
    let tree = host();
    tree.write(&format!("{web}/{id}/config.v2.json"), r#"{"Name":"/web"}"#);
    tree.write(&format!("cg{docker}/memory.max"), "1048576\n");
    tree.write(&format!("cg{docker}/memory.events.local"), EVENTS);
    tree.write("cg/docker/cgroup.subtree_control", "memory\n");
    let names = RefCell::new(NodeNames::below(Some(tree.0.path())));
    let reader = SetupReader { names, ..tree.unified() };
    let limits = reader.pressure(Path::new(&docker), 0).limits.unwrap();
    // Who compares them may know no names.
    assert_eq!(limits[0].of, "docker:0123456789ab");
    let about = Meeting {
        victim: Some(Path::new(&docker)),
        memory: Some((LimitKind::Max, "docker:0123456789ab")),
        ..Meeting::default()
    };
    let setup = reader.setup(&about, Vec::new());
    assert_eq!(setup.victim.unwrap().label, "docker:web");
    let (_, limited) = setup.memory.unwrap();
    assert_eq!(limited.manager, Manager::Docker(id.to_owned()));
    // A manifest is that of the pod as it is called here.
    let uid = "11111111-2222-3333-4444-555555555555";
    tree.write(&format!("var/log/pods/shop_web-1_{uid}/x"), "");
    let pod = format!("/kubepods.slice/kubepods-pod{}.slice", uid.replace('-', "_"));
    let names = RefCell::new(NodeNames::below(Some(tree.0.path())));
    let reader = SetupReader { names, ..tree.unified() };
    let expected = Manager::Kubernetes("pod:shop/web-1".to_owned());
    assert_eq!(reader.manager(Path::new(&pod)), expected);
}

#[test]
fn a_culprit_is_judged_by_the_thread_that_is_named() {
    let tree = host();
    let stat = "43 (b) R 1 1 1 0 -1 4194304 0 0 0 0 1 1 0 0 20 0 1 0 5 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 17 0 50 1 0";
    tree.write("proc/43/stat", stat);
    tree.write("proc/43/status", "Cpus_allowed_list:\t2\n");
    let judged_by = |tid: u32| {
        let meeting = Meeting { culprit_tid: Some(tid), ..meeting(WEB, BACKUP) };
        let setup = tree.unified().setup(&meeting, Vec::new());
        let main = setup.culprit.unwrap().main.unwrap();
        (main.pid, main.policy, setup.is_culprit_named)
    };
    // It may have ended, and another one may have its number.
    assert_eq!(judged_by(43), (42, 0, false));
    tree.write("cg/system.slice/backup.service/cgroup.threads", "42\n43\n44\n");
    assert_eq!(judged_by(43), (43, 1, true));
    assert_eq!(judged_by(44), (42, 0, false), "there is no such thread");
    let setup = tree.unified().setup(&meeting(WEB, BACKUP), Vec::new());
    assert!(!setup.is_culprit_named);
}

#[test]
fn all_processes_of_a_cgroup_are_looked_at() {
    let tree = host();
    let stat = fs::read_to_string(tree.path("proc/42/stat")).unwrap();
    let main = |tree: &Tree| {
        let about = Meeting { victim_tid: Some(43), ..meeting(WEB, BACKUP) };
        let victim = tree.unified().setup(&about, Vec::new()).victim.unwrap();
        (victim.carries_host(), victim.main.unwrap())
    };
    tree.write("proc/43/stat", &stat);
    for (pid, cpus) in [(42, 1), (43, 2)] {
        let status = format!("Tgid:\t{pid}\nCpus_allowed_list:\t{cpus}\n");
        tree.write(&format!("proc/{pid}/status"), &status);
        tree.write(&format!("proc/{pid}/task/{pid}/status"), &status);
    }
    let (_, worker) = main(&tree);
    assert_eq!((worker.pid, worker.process), (43, 43));
    assert!(!worker.is_alike && !worker.is_alone);
    tree.write("proc/42/task/42/status", "Tgid:\t42\nCpus_allowed_list:\t2\n");
    let (_, worker) = main(&tree);
    assert!(worker.is_alike && !worker.is_alone);
    tree.write("cg/system.slice/web.service/cgroup.procs", "43\n");
    let (carries_host, worker) = main(&tree);
    assert!(worker.is_alike && worker.is_alone && !carries_host);
    // The thread that is named is not process 1, but that is there.
    tree.write("cg/system.slice/web.service/cgroup.procs", "43\n1\n");
    assert!(main(&tree).0);
}

#[test]
fn interrupts_and_disks_are_looked_at() {
    let tree = host();
    let interrupts = " CPU0 CPU1\n 36: 1 2 PCI-MSI 1-edge nvme0q1\n 37: 0 0 PCI-MSI 2-edge nvme0q1\n LOC: 1 2 x\n";
    tree.write("proc/interrupts", interrupts);
    tree.write("proc/irq/36/effective_affinity_list", "2\n");
    tree.write("proc/irq/36/smp_affinity_list", "0-3\n");
    tree.write("proc/irq/37/smp_affinity_list", "0-1\n");
    tree.write("sys/block/vda/dev", "254:0\n");
    tree.write("sys/block/vda/queue/scheduler", "none [bfq] kyber\n");
    let about = Meeting { interrupt: Some("nvme0q1"), disk: Some("vda"), ..Meeting::default() };
    let setup = tree.unified().setup(&about, Vec::new());
    let irqs: Vec<_> = setup.irqs.iter().map(|one| (one.irq, one.cpus.to_string())).collect();
    assert_eq!(irqs, [(36, "2".to_owned()), (37, "0,1".to_owned())]);
    let set: Vec<_> = setup.irqs.iter().map(|one| one.set.to_string()).collect();
    assert_eq!(set, ["0-3", "0,1"]);
    let disk = setup.disk.unwrap();
    assert_eq!((disk.scheduler.as_deref(), disk.has_cost), (Some("bfq"), false));
    tree.write("cg/io.cost.qos", "254:0 enable=1 ctrl=auto\n");
    tree.write("sys/block/vda/queue/scheduler", "none\n");
    let disk = tree.unified().setup(&about, Vec::new()).disk.unwrap();
    assert_eq!((disk.scheduler.as_deref(), disk.has_cost), (Some("none"), true));
    for name in ["..", "a/b", "", "nvme0n1"] {
        let about = Meeting { disk: Some(name), ..Meeting::default() };
        assert_eq!(tree.unified().setup(&about, Vec::new()).disk, None, "{name}");
    }
}

#[test]
fn limits_and_weights_of_disks_are_read() {
    let tree = host();
    let limits = |mounts: Mounts| {
        let setup = tree.reader(mounts).setup(&meeting(WEB, BACKUP), Vec::new());
        setup.culprit.unwrap().io_max
    };
    tree.write("cg/system.slice/cgroup.subtree_control", "io\n");
    tree.write(&format!("cg{BACKUP}/io.max"), "254:0 rbps=max wbps=10000000\n");
    let unified = || Mounts { unified: Some(tree.path("cg")), ..Mounts::default() };
    assert_eq!(limits(unified()), ["254:0 rbps=max wbps=10000000"]);
    let weights = || {
        let culprit = tree.unified().setup(&meeting(WEB, BACKUP), Vec::new()).culprit.unwrap();
        (culprit.io_weight, culprit.bfq_weight)
    };
    tree.write(&format!("cg{BACKUP}/io.bfq.weight"), "default 500\n");
    assert_eq!(weights(), (Some(500), Some(500)));
    tree.write(&format!("cg{BACKUP}/io.weight"), "default 200\n254:0 300\n");
    assert_eq!(weights(), (Some(200), Some(500)));
    tree.write(&format!("blkio{BACKUP}/blkio.throttle.read_bps_device"), "254:0 10000000\n");
    tree.write(&format!("blkio{BACKUP}/blkio.throttle.write_bps_device"), "254:16 5000000\n");
    let old = Mounts { blkio: Some(tree.path("blkio")), ..unified() };
    assert_eq!(limits(old), ["254:0 10000000", "254:16 5000000"]);
}

#[test]
fn what_no_command_can_name_gets_none() {
    let tree = host();
    tree.write("cg/a\u{1b}[2J/cpu.weight", "100\n");
    let setup = tree.unified().setup(&meeting(WEB, "/a\u{1b}[2J"), Vec::new());
    let culprit = setup.culprit.unwrap();
    assert_eq!((culprit.cpu, culprit.manager), (Controller::Missing, Manager::Files));
}

#[test]
fn limits_of_memory_of_a_cgroup_of_version_2_and_of_those_around_it() {
    let tree = host();
    let limits = |path: &str| tree.unified().pressure(Path::new(path), 0).limits;
    let pages =
        Pages { refaulted: Some(25), swapped_in: Some(5), gone: Some(30), ..Pages::default() };
    let own = LimitReading {
        of: "web.service".to_owned(),
        is_own: true,
        kind: LimitKind::Max,
        bytes: 1 << 20,
        hits: 7,
        pages,
    };
    assert_eq!(limits(WEB), Ok(vec![own.clone()]));
    let slice = "cg/system.slice";
    for (file, text) in [("memory.high", "2097152"), ("memory.max", "max")] {
        tree.write(&format!("{slice}/{file}"), text);
    }
    // Of a kernel before 5.2.
    tree.write(&format!("{slice}/memory.events"), "low 0\nhigh 9\nmax 7\n");
    let around = LimitReading {
        of: "system.slice".to_owned(),
        is_own: false,
        kind: LimitKind::High,
        bytes: 2 << 20,
        hits: 9,
        pages: Pages::default(),
    };
    assert_eq!(limits(WEB), Ok(vec![own, around]));
    assert_eq!(limits("/"), Ok(Vec::new()));
    assert_eq!(limits("/gone"), Err("the cgroup is gone".to_owned()));
    // The one that is hit is what a remedy is about.
    let about = Meeting { memory: Some((LimitKind::High, "system.slice")), ..meeting(WEB, BACKUP) };
    tree.write("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    2048 kB\n");
    let setup = tree.unified().setup(&about, Vec::new());
    assert_eq!(setup.available_bytes, Some(2 << 20));
    let (kind, limited) = setup.memory.unwrap();
    assert_eq!((kind, &*limited.label), (LimitKind::High, "system.slice"));
    assert_eq!(limited.memory_high, Some(Some(2 << 20)));
    let gone = Meeting { memory: Some((LimitKind::Max, "system.slice")), ..about };
    assert_eq!(tree.unified().setup(&gone, Vec::new()).memory, None);
    assert_eq!(tree.unified().setup(&gone, Vec::new()).victim.unwrap().swap_max, Some(Some(4096)));
}

#[test]
fn limits_of_memory_of_version_1() {
    let tree = host();
    let reader = tree.reader(Mounts {
        unified: Some(tree.path("cg")),
        memory: Some(tree.path("memory")),
        ..Mounts::default()
    });
    let limits = |path: &str| reader.pressure(Path::new(path), 0).limits;
    let unknown = "the memory controller does not know it by this path";
    for path in [WEB, "/"] {
        tree.write("memory/tasks", "");
        assert_eq!(limits(path), Err(unknown.to_owned()), "{path}");
    }
    for (file, text) in [
        ("memory.limit_in_bytes", "8388608"),
        ("memory.memsw.limit_in_bytes", "12582912"),
        ("memory.failcnt", "30"),
        ("memory.memsw.failcnt", "2"),
        (
            "memory.stat",
            "total_workingset_refault_file 4\ntotal_pgpgin 16\ntotal_pgpgout 6\ntotal_cache 1048576\n",
        ),
    ] {
        tree.write(&format!("memory{WEB}/{file}"), text);
    }
    tree.write("memory/system.slice/memory.limit_in_bytes", "9223372036854771712");
    let [own] = limits(WEB).unwrap().try_into().unwrap();
    assert_eq!((own.kind, own.bytes, own.hits), (LimitKind::Old, 8 << 20, 32));
    assert_eq!((own.pages.refaulted, own.pages.gone), (Some(4), None));
    let folios = own.pages.folios.unwrap();
    assert_eq!((folios.gone, folios.resident), (6, 10));
    assert_eq!(folios.resident_pages, (1 << 20) / crate::kernel::page_bytes());
    let victim = reader.setup(&meeting(WEB, BACKUP), Vec::new()).victim.unwrap();
    assert_eq!((victim.memory_max, victim.swap_max), (Some(Some(8 << 20)), Some(Some(4 << 20))));
}
