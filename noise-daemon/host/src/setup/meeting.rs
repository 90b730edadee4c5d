//! IO: how a victim and its culprit are set up, from the files of their cgroups, of interrupts and of disks.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use noise_model::memory::LimitKind;
use noise_model::setup::{CgroupSetup, Controller, DiskSetup, IrqSetup, Manager, Setup};
use noise_system::procfs;
use noise_text::clean::printable;
use noise_text::cpulist::CpuList;

use super::limits::limit;
use super::task::{Processes, has_thread, task_setup};
use super::{SetupReader, folder};
use crate::resolve::cgroup::{Identity, Runtime, is_of_user, unit_name};
use crate::resolve::irqs_named;

/// Interrupts of one name that are looked at.
const MOST_IRQS: usize = 64;
/// Lines of a file that are looked at.
const MOST_LINES: usize = 64;

/// Who meets, as labels have them.
#[derive(Clone, Debug, Default)]
pub struct Meeting<'a> {
    /// The path of the victim's cgroup, where it is one.
    pub victim: Option<&'a Path>,
    /// That of the main culprit's.
    pub culprit: Option<&'a Path>,
    /// The thread by which the victim is judged; else the first process of its cgroup.
    pub victim_tid: Option<u32>,
    /// That of the main culprit.
    pub culprit_tid: Option<u32>,
    /// The label of the interrupt that is the main culprit.
    pub interrupt: Option<&'a str>,
    /// The label of the cgroup whose CPU quota stops the victim, where that is known.
    pub quota: Option<&'a str>,
    /// The limit of memory that was hit, and the label of the cgroup that has it.
    pub memory: Option<(LimitKind, &'a str)>,
    /// The disk that it is about.
    pub disk: Option<&'a str>,
    /// Whether that is about what is written.
    pub is_write: bool,
}

impl SetupReader {
    /// How they are set up; `idle` says how idle CPUs were.
    pub fn setup(&self, meeting: &Meeting<'_>, idle: Vec<(u32, f64)>) -> Setup {
        let cpus = |which: &str| procfs::text(self.sysfs.join("devices/system/cpu").join(which));
        let (online, isolated) = (cpus("online"), cpus("isolated"));
        let victim = meeting.victim.map(|path| self.party(path, meeting.victim_tid).0);
        let culprit_tid = meeting.culprit.zip(meeting.culprit_tid).and_then(|(path, tid)| {
            // Its number may be that of another one by now.
            self.folders(path).any(|folder| has_thread(&folder, tid)).then_some(tid)
        });
        let culprit = meeting.culprit.map(without_payload);
        let met = meeting.victim.zip(culprit);
        let siblings = met.and_then(|(one, other)| siblings(one, other));
        let party = culprit.map(|path| self.party(path, culprit_tid));
        let is_around = met.is_some_and(|(victim, culprit)| victim.starts_with(culprit));
        let limited = meeting.victim.zip(meeting.quota).and_then(|(victim, of)| {
            let has_quota =
                |path: &&Path| self.quota(path).is_some_and(|(quota, _)| quota.quota_us.is_some());
            let mut around = victim.ancestors().filter(|path| Self::plain_label(path) == of);
            around.find(has_quota).map(|path| self.cgroup(path))
        });
        let memory = meeting.victim.zip(meeting.memory).and_then(|(victim, (kind, of))| {
            let own = victim.ancestors().filter(|path| Self::plain_label(path) == of);
            let mut setups = own.map(|path| self.cgroup(path));
            let has_it = |setup: &CgroupSetup| match kind {
                LimitKind::High => setup.memory_high.flatten().is_some(),
                LimitKind::Max | LimitKind::Old => setup.memory_max.flatten().is_some(),
            };
            Some((kind, setups.find(has_it)?))
        });
        Setup {
            available_bytes: memory.as_ref().and_then(|_| procfs::available_bytes(&self.procfs)),
            memory,
            victim,
            siblings: siblings.map(|(one, other)| (self.cgroup(&one), self.cgroup(&other))),
            is_own: meeting.culprit.is_none(),
            is_around,
            is_culprit_named: party.as_ref().is_some_and(|(_, is_named)| *is_named),
            culprit: party.map(|(culprit, _)| culprit),
            limited,
            interrupt: meeting.interrupt.map(ToOwned::to_owned),
            irqs: meeting.interrupt.map(|name| self.irqs(name)).unwrap_or_default(),
            disk: meeting.disk.and_then(|name| self.disk(name, meeting.is_write)),
            online: CpuList::of_kernel(&online.unwrap_or_default()),
            isolated: CpuList::of_kernel(&isolated.unwrap_or_default()),
            idle,
        }
    }

    /// The folders of a cgroup that list what is in it.
    fn folders(&self, path: &Path) -> impl Iterator<Item = PathBuf> {
        let roots = [self.mounts.unified.as_ref(), self.mounts.cpu.as_ref()];
        roots.into_iter().filter_map(move |root| folder(root, path))
    }

    fn processes(&self, path: &Path) -> Processes {
        let mut found = self.folders(path).map(|folder| Processes::below(&folder));
        found.find(|found| !found.pids.is_empty()).unwrap_or_default()
    }

    /// How a cgroup is set up, with this thread, else with its first process; and whether it is that thread.
    fn party(&self, path: &Path, tid: Option<u32>) -> (CgroupSetup, bool) {
        let processes = self.processes(path);
        let task = |tid: u32| task_setup(&self.procfs, tid, &processes);
        let named = tid.and_then(task);
        let is_named = named.is_some();
        let main = named.or_else(|| task(*processes.pids.first()?));
        (CgroupSetup { main, ..self.cgroup(path) }, is_named)
    }

    /// How a cgroup is set up, whatever its threads are.
    fn cgroup(&self, path: &Path) -> CgroupSetup {
        let label = self.label(path);
        if !is_sayable(path) {
            // No command could name it.
            return CgroupSetup::named(&label);
        }
        let mounts = &self.mounts;
        let of = |old: &Option<PathBuf>, name: &str| self.controller(old.as_ref(), name, path);
        let (cpu, cpuset) = (of(&mounts.cpu, "cpu"), of(&mounts.cpuset, "cpuset"));
        let (io, memory) = (of(&mounts.blkio, "io"), of(&mounts.memory, "memory"));
        let text = |controller: &Controller, old: &str, new: &str| match controller {
            Controller::On { folder, version } => {
                let name = if *version == 1 { old } else { new };
                procfs::text(Path::new(folder).join(name)).ok()
            }
            Controller::Off { .. } | Controller::Missing => None,
        };
        let weight = |text: Option<String>| {
            // `io.weight` has a line for each device, and `default` first.
            let text = text?;
            text.lines().next()?.trim_start_matches("default").trim().parse().ok()
        };
        let memory_max = text(&memory, "memory.limit_in_bytes", "memory.max");
        let memory_max = memory_max.and_then(|text| limit(&text));
        let swap = text(&memory, "memory.memsw.limit_in_bytes", "memory.swap.max");
        let swap_max = swap.and_then(|text| limit(&text)).map(|swap| match &memory {
            Controller::On { version: 1, .. } => {
                swap.map(|both| both.saturating_sub(memory_max.flatten().unwrap_or(both)))
            }
            _ => swap,
        });
        let cpus = text(&cpuset, "cpuset.effective_cpus", "cpuset.cpus.effective");
        let cpus_set = text(&cpuset, "cpuset.cpus", "cpuset.cpus").unwrap_or_default();
        let bfq_weight = weight(text(&io, "", "io.bfq.weight"));
        let pids = self.processes(path).pids;
        let first = pids.first().map(|pid| procfs::bytes(self.procfs.join(format!("{pid}/stat"))));
        let is_kernel = first.and_then(|stat| procfs::is_kernel_thread(&stat.ok()?));
        CgroupSetup {
            manager: self.manager(path),
            weight: weight(text(&cpu, "cpu.shares", "cpu.weight")),
            quota: self.quota(path).map(|(quota, _)| quota),
            cpus: cpus.map(|text| CpuList::of_kernel(text.trim())).filter(|cpus| !cpus.is_empty()),
            cpus_set: CpuList::of_kernel(cpus_set.trim()),
            // A kernel without io.cost has the one of bfq alone.
            io_weight: weight(text(&io, "blkio.bfq.weight", "io.weight")).or(bfq_weight),
            bfq_weight,
            io_max: [
                text(&io, "blkio.throttle.read_bps_device", "io.max"),
                text(&io, "blkio.throttle.write_bps_device", ""),
            ]
            .iter()
            .flatten()
            .flat_map(|text| text.lines().take(MOST_LINES).map(ToOwned::to_owned))
            .collect(),
            memory_high: text(&memory, "", "memory.high").and_then(|text| limit(&text)),
            memory_max,
            swap_max,
            has_host: is_kernel.unwrap_or(false) || pids.contains(&1),
            main: None,
            cpu,
            cpuset,
            io,
            memory,
            label,
        }
    }

    /// A controller in its hierarchy of version 1, else in version 2. The root cgroup has no settings.
    fn controller(&self, old: Option<&PathBuf>, name: &str, path: &Path) -> Controller {
        let root = old.or(self.mounts.unified.as_ref());
        let Some(own) = folder(root, path).filter(|_| path.parent().is_some()) else {
            return Controller::Missing;
        };
        let Some(parent) = own.parent() else { return Controller::Missing };
        let shown = |folder: &Path| folder.display().to_string();
        let has = |file: &str| {
            let text = procfs::text(parent.join(file)).unwrap_or_default();
            text.split_ascii_whitespace().any(|one| one == name)
        };
        match old {
            Some(_) => Controller::On { folder: shown(&own), version: 1 },
            None if has("cgroup.subtree_control") => {
                Controller::On { folder: shown(&own), version: 2 }
            }
            None if has("cgroup.controllers") => {
                Controller::Off { folder: shown(&own), parent: shown(parent) }
            }
            None => Controller::Missing,
        }
    }

    /// Who makes its settings: of a whole container or of a pod the engine, of a unit its systemd.
    pub(super) fn manager(&self, path: &Path) -> Manager {
        let identity = Identity::of(path);
        let segments: Vec<&str> =
            path.components().filter_map(|one| one.as_os_str().to_str()).collect();
        let user = segments.iter().position(|one| is_of_user(one));
        let at = segments.len().saturating_sub(1);
        let of_user = user.filter(|user| *user < at);
        // What runs in a unit may have units of its own, which the host's systemd does not know; and its user, to whom the
        // cgroups below it may be delegated, may name them as those of somebody else's container or pod.
        let outer = segments.get(..of_user.unwrap_or(at)).unwrap_or_default();
        let inner = of_user.and_then(|user| segments.get(user + 1..at)).unwrap_or_default();
        let mut around = outer.iter().chain(inner).filter(|one| unit_name(one).is_some());
        if identity.pod.is_some() {
            // A node may itself be a container, whose scope is around its pods.
            return match around.any(|one| one.ends_with(".service")) {
                true => Manager::Files,
                false => Manager::Kubernetes(self.label(path)),
            };
        }
        if around.any(|one| !one.ends_with(".slice")) {
            return Manager::Files;
        }
        if let Some(container) = identity.container.filter(|one| !one.monitor) {
            match container.runtime {
                _ if container_around(path) != Some(path) => return Manager::Files,
                Runtime::Docker if user.is_none() => return Manager::Docker(container.id),
                Runtime::Podman if user.is_none() => return Manager::Podman(container.id),
                // A user's own is a unit of the user's systemd.
                Runtime::Docker | Runtime::Podman => {}
                _ => return Manager::Files,
            }
        }
        // The settings of a unit are about all that is in it: they are not those of a cgroup below.
        let unit = segments.split_last().filter(|(unit, _)| unit_name(unit).is_some());
        let Some((unit, _)) = unit.filter(|_| self.has_systemd) else { return Manager::Files };
        let uid = of_user
            .and_then(|user| segments.get(user)?.strip_prefix("user@")?.strip_suffix(".service"));
        // systemd puts an underscore before names that would clash with files such as `cpu.stat`.
        let unit = unit.strip_prefix('_').unwrap_or(unit).to_owned();
        match uid {
            Some(uid) => Manager::User { unit, uid: uid.to_owned() },
            None => Manager::System(unit),
        }
    }

    fn irqs(&self, name: &str) -> Vec<IrqSetup> {
        let served = |irq: u64| {
            let folder = self.procfs.join(format!("irq/{irq}"));
            let list = |file: &str| {
                let text = procfs::text(folder.join(file)).unwrap_or_default();
                CpuList::of_kernel(text.trim())
            };
            let (effective, set) = (list("effective_affinity_list"), list("smp_affinity_list"));
            let cpus = if effective.is_empty() { set.clone() } else { effective };
            let irq = u32::try_from(irq).ok()?;
            (!cpus.is_empty()).then_some(IrqSetup { irq, cpus, set })
        };
        irqs_named(&self.procfs, name, MOST_IRQS).into_iter().filter_map(served).collect()
    }

    fn disk(&self, name: &str, is_write: bool) -> Option<DiskSetup> {
        let is_name =
            matches!(Path::new(name).components().collect::<Vec<_>>()[..], [Component::Normal(_)]);
        let folder = self.sysfs.join("block").join(name);
        let numbers = procfs::text(folder.join("dev")).ok().filter(|_| is_name)?.trim().to_owned();
        let schedulers = procfs::text(folder.join("queue/scheduler")).unwrap_or_default();
        let marked = |one: &str| one.strip_prefix('[')?.strip_suffix(']').map(ToOwned::to_owned);
        // One that is alone is not marked.
        let alone = Some(schedulers.trim()).filter(|one| !one.is_empty() && !one.contains(' '));
        let chosen = schedulers.split_ascii_whitespace().find_map(marked);
        let chosen = chosen.or_else(|| alone.map(ToOwned::to_owned));
        let costs = self.mounts.unified.as_ref().map(|root| root.join("io.cost.qos"));
        let costs = costs.and_then(|file| procfs::text(file).ok()).unwrap_or_default();
        let is_weighed = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            words.next() == Some(&numbers) && words.any(|word| word == "enable=1")
        };
        Some(DiskSetup {
            name: name.to_owned(),
            scheduler: chosen,
            has_cost: costs.lines().any(is_weighed),
            is_write,
            numbers,
        })
    }
}

/// Whether a command can name a path: it is text without characters that are shown as escapes.
fn is_sayable(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text == printable(path.as_os_str().as_bytes()))
}

/// The outermost container around a cgroup, it included.
fn container_around(path: &Path) -> Option<&Path> {
    path.ancestors().take_while(|around| Identity::of(around).container.is_some()).last()
}

/// Where the settings of a cgroup are made: of the one that holds the processes of an engine's or systemd-nspawn's
/// container, at the container.
fn without_payload(path: &Path) -> &Path {
    let Some((parent, name)) = path.parent().zip(path.file_name()) else { return path };
    let is_payload = if name == "payload" {
        parent.file_name().and_then(|unit| unit_name(unit.to_str()?)).is_some()
    } else {
        let container = Identity::of(parent).container.filter(|one| !one.monitor);
        let runtime = container.map(|one| one.runtime);
        (name == "init" || name == "container")
            && container_around(path) == Some(parent)
            && matches!(runtime, Some(Runtime::Docker | Runtime::Podman))
    };
    if is_payload { parent } else { path }
}

/// The two that compete as siblings: below the nearest cgroup around both. `None` where one is around the other.
fn siblings(one: &Path, other: &Path) -> Option<(PathBuf, PathBuf)> {
    let (mut first, mut second) = (one.components(), other.components());
    let mut around = PathBuf::new();
    loop {
        match (first.next()?, second.next()?) {
            (one, other) if one == other => around.push(one),
            (one, other) => return Some((around.join(one), around.join(other))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_found_below_what_is_around_both() {
        let of = |one: &str, other: &str| siblings(Path::new(one), Path::new(other));
        let expect = |one: &str, other: &str| Some((PathBuf::from(one), PathBuf::from(other)));
        assert_eq!(of("/a/x", "/a/y"), expect("/a/x", "/a/y"));
        assert_eq!(of("/a/x/1", "/b/y"), expect("/a", "/b"));
        assert_eq!(of("/a/x/1", "/a/y"), expect("/a/x", "/a/y"));
        for (one, other) in [("/a", "/a/b"), ("/a/b", "/a"), ("/a", "/a"), ("/", "/a")] {
            assert_eq!(of(one, other), None, "{one} {other}");
        }
    }
}
