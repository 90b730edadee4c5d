//! IO: victims, culprits and places of charges, by name.
//!
//! What a culprit's number means depends on the cause. Causes that say it all (`nmi`, `throttle`,
//! `steal`, `idle`, `untracked`) are their own culprit: the victim's quota is `throttle`.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use noise_common::charge::{
    Cause, ChargeKey, Resource, TASK_CULPRIT, UNKNOWN, VECTOR_SOURCE, WATCHED_TASK,
};
use noise_common::signals::{
    OTHER_INTERFACE, SOFTIRQ_VECTORS, Signal, VECTORS, block_subject, of_subject,
};
use noise_common::subject::SubjectKind;
use noise_model::Cgroups;
use noise_model::labels::{GONE, UNKNOWN_LABEL, WATCHED_LABEL};
use noise_text::clean::clean;

use super::SubjectNames;
use super::cgroup::{CgroupLook, Of};

/// Width of the minor number in a place.
const MINOR_BITS: u32 = 20;

/// Label values of one charge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Parties {
    /// Where: a device or interface; empty for CPUs.
    pub place: Arc<str>,
    pub victim: Arc<str>,
    pub culprit: Arc<str>,
}

/// Something that a charge is about and that may be gone some day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entity {
    Cgroup(Of, u64),
    Thread(u64),
    /// A block device or interface.
    Place(Signal, u64),
}

/// Equal labels, kept once.
#[derive(Debug, Default)]
pub struct Interner(HashSet<Arc<str>>);

impl Interner {
    /// The one copy of a text, as it may be shown.
    pub fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let shown = clean(text);
        if matches!(shown, Cow::Owned(_)) {
            return self.get(&shown);
        }
        let new: Arc<str> = Arc::from(text);
        self.0.insert(Arc::clone(&new));
        new
    }

    /// Forgets what is not used any more.
    pub fn forget_unused(&mut self) {
        self.0.retain(|text| Arc::strong_count(text) > 1);
    }
}

/// Signal and subject under which a place is known, if the resource has places: the first signal
/// whose subjects are such places.
fn place(resource: Resource, place: u32) -> Option<(Signal, u64)> {
    let kind = resource.place()?;
    let subject = match kind {
        SubjectKind::Request => {
            block_subject(place >> MINOR_BITS, place & ((1 << MINOR_BITS) - 1), 0)
        }
        // Interfaces of other namespaces are one place.
        SubjectKind::Interface if place == u32::MAX => OTHER_INTERFACE,
        _ => u64::from(place),
    };
    Some((of_subject(kind).next()?, subject))
}

/// The pid of a culprit that is a task.
fn task_culprit(key: &ChargeKey) -> Option<u64> {
    let is_task = key.victim == WATCHED_TASK
        && key.culprit & TASK_CULPRIT != 0
        && !matches!(key.culprit, UNKNOWN | WATCHED_TASK);
    is_task.then_some(key.culprit & !TASK_CULPRIT)
}

impl SubjectNames {
    /// Label values of a charge; `None` where they will be known later. A cgroup that cannot be
    /// found is [`GONE`], one that the programs did not know is [`UNKNOWN_LABEL`].
    pub fn parties(
        &mut self,
        key: &ChargeKey,
        resource: Resource,
        cause: Cause,
        now: Instant,
    ) -> Option<Parties> {
        let of = resource.of();
        let victim = self.cgroup(of, key.victim, now)?;
        let culprit = match cause {
            Cause::Foreign | Cause::Own | Cause::Writeback => match task_culprit(key) {
                Some(pid) => self.thread(pid),
                None => self.cgroup(of, key.culprit, now)?,
            },
            Cause::Kthread | Cause::Hardirq | Cause::Softirq if key.culprit == UNKNOWN => {
                self.interner.get(UNKNOWN_LABEL)
            }
            Cause::Kthread => self.thread(key.culprit),
            Cause::Hardirq => self.interrupt(key.culprit, now),
            Cause::Softirq => {
                let name = SOFTIRQ_VECTORS.get(key.culprit as usize);
                self.interner.get(name.copied().unwrap_or(UNKNOWN_LABEL))
            }
            Cause::Nmi
            | Cause::Throttle
            | Cause::Steal
            | Cause::Idle
            | Cause::Iowait
            | Cause::Untracked => self.interner.get(cause.name()),
        };
        let place = match place(resource, key.place) {
            None => self.interner.get(""),
            // No device has these numbers.
            Some(_) if key.place == 0 && resource.place() == Some(SubjectKind::Request) => {
                self.interner.get(UNKNOWN_LABEL)
            }
            Some((signal, subject)) => {
                let labels = self.labels(signal, subject, now)?;
                let name = labels.first().cloned().unwrap_or_default();
                self.interner.get(&name)
            }
        };
        Some(Parties { place, victim, culprit })
    }

    /// What a charge is about and may be gone some day.
    pub fn entities(key: &ChargeKey, resource: Resource, cause: Cause) -> Vec<Entity> {
        let of = resource.of();
        let mut entities = Vec::with_capacity(3);
        let is_known = |id| !matches!(id, UNKNOWN | WATCHED_TASK);
        if is_known(key.victim) {
            entities.push(Entity::Cgroup(of, key.victim));
        }
        match cause {
            of_cgroup if of_cgroup.is_of_cgroup() && task_culprit(key).is_some() => {
                entities.extend(task_culprit(key).map(Entity::Thread));
            }
            of_cgroup if of_cgroup.is_of_cgroup() && is_known(key.culprit) => {
                entities.push(Entity::Cgroup(of, key.culprit));
            }
            Cause::Kthread if key.culprit != UNKNOWN => entities.push(Entity::Thread(key.culprit)),
            _ => {}
        }
        let place = place(resource, key.place).filter(|_| key.place != 0);
        entities.extend(place.map(|(signal, subject)| Entity::Place(signal, subject)));
        entities
    }

    /// A label that stands for itself.
    pub fn label(&mut self, text: &str) -> Arc<str> {
        self.interner.get(text)
    }

    /// Whether something is no longer there.
    pub fn is_gone(&mut self, entity: Entity) -> bool {
        match entity {
            Entity::Cgroup(of, id) => self.cgroups.is_gone(of, id),
            Entity::Thread(pid) => self.threads.is_gone(pid),
            Entity::Place(signal, subject) => !self.exists(signal, subject),
        }
    }

    /// Forgets the names of what is gone and no longer used, and which interfaces there were.
    pub fn sweep(&mut self) {
        self.interfaces = None;
        self.round.clear();
        self.threads.forget_gone();
        self.forget_infos();
        self.interner.forget_unused();
    }

    /// What others call the cgroups that have labels.
    pub fn infos(&self) -> Arc<Cgroups> {
        Arc::clone(&self.infos)
    }

    /// Forgets what others call cgroups whose labels nothing bears any more.
    fn forget_infos(&mut self) {
        let series = self
            .known
            .iter()
            .filter(|((signal, _), _)| matches!(signal.info().subject, SubjectKind::Cgroup));
        let series: HashSet<&str> =
            series.flat_map(|(_, labels)| labels.iter().map(String::as_str)).collect();
        // The interner has each label, and so has this map.
        let is_used = |label: &Arc<str>| Arc::strong_count(label) > 2 || series.contains(&**label);
        if !self.infos.keys().all(is_used) {
            Arc::make_mut(&mut self.infos).retain(|label, _| is_used(label));
        }
    }

    /// The label of a cgroup; `None` where it will be known later.
    pub(super) fn cgroup(&mut self, of: Of, id: u64, now: Instant) -> Option<Arc<str>> {
        if id == UNKNOWN {
            return Some(self.interner.get(UNKNOWN_LABEL));
        }
        if id == WATCHED_TASK {
            return Some(self.interner.get(WATCHED_LABEL));
        }
        match self.cgroups.look(of, id, now) {
            CgroupLook::Found(cgroup) => {
                let label = self.interner.get(&cgroup.identity.label);
                if !self.infos.contains_key(&label) {
                    let infos = Arc::make_mut(&mut self.infos);
                    infos.insert(Arc::clone(&label), Arc::new(cgroup.identity.info()));
                }
                Some(label)
            }
            CgroupLook::Waiting => None,
            CgroupLook::Absent => Some(self.interner.get(GONE)),
        }
    }

    fn thread(&mut self, pid: u64) -> Arc<str> {
        let interner = &mut self.interner;
        let name = self.threads.name(pid, |name| interner.get(name));
        name.unwrap_or_else(|| self.interner.get(GONE))
    }

    fn interrupt(&mut self, source: u64, now: Instant) -> Arc<str> {
        if source & VECTOR_SOURCE != 0 {
            let name = VECTORS.get((source & !VECTOR_SOURCE) as usize);
            return self.interner.get(name.copied().unwrap_or(UNKNOWN_LABEL));
        }
        let irqs = of_subject(SubjectKind::Irq).next();
        let labels = irqs.and_then(|signal| self.labels(signal, source, now)).unwrap_or_default();
        match &*labels {
            [_, name] if name != "unknown" => self.interner.get(name),
            _ => self.interner.get(&format!("irq {source}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::resolve::cgroup::Hierarchies;

    fn key(victim: u64, culprit: u64, place: u32, cause: Cause, resource: Resource) -> ChargeKey {
        ChargeKey { victim, culprit, place, cause: cause as u8, resource: resource as u8, used: 1 }
    }

    #[test]
    fn everybody_has_a_name() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        for folder in ["cg/web.service", "cg/db.service", "11", "class/net/eth7"] {
            fs::create_dir_all(path(folder)).unwrap();
        }
        fs::write(path("11/comm"), "ksoftirqd/1\n").unwrap();
        fs::write(path("class/net/eth7/ifindex"), "7\n").unwrap();
        fs::create_dir_all(path("dev/block")).unwrap();
        std::os::unix::fs::symlink("../../block/sdb", path("dev/block/8:16")).unwrap();
        fs::write(path("interrupts"), " CPU0\n 36:  9 PCI 1-edge nvme0q1\n").unwrap();
        let hierarchies = Hierarchies {
            tasks: Some(path("cg")),
            io: Some(path("cg")),
            sockets: Some(path("cg")),
            ..Hierarchies::default()
        };
        let mut names = SubjectNames::new(root.path(), root.path(), BTreeMap::new(), &hierarchies);
        let id = |name: &str| path(name).metadata().unwrap().ino();
        let (web, db) = (id("cg/web.service"), id("cg/db.service"));
        let now = Instant::now();
        let mut named = |key: ChargeKey| {
            let (resource, cause) = (key.resource().unwrap(), key.cause().unwrap());
            let parties = names.parties(&key, resource, cause, now).unwrap();
            [parties.place, parties.victim, parties.culprit].map(|text| text.to_string())
        };
        let cpu = |culprit, cause| key(web, culprit, 0, cause, Resource::Cpu);
        for (culprit, cause, name) in [
            (db, Cause::Foreign, "db.service"),
            (web, Cause::Own, "web.service"),
            (db, Cause::Writeback, "db.service"),
            (11, Cause::Kthread, "ksoftirqd"),
            (12, Cause::Kthread, GONE),
            (UNKNOWN, Cause::Kthread, UNKNOWN_LABEL),
            (36, Cause::Hardirq, "nvme0q1"),
            (37, Cause::Hardirq, "irq 37"),
            (VECTOR_SOURCE, Cause::Hardirq, "local_timer"),
            (UNKNOWN, Cause::Hardirq, UNKNOWN_LABEL),
            (3, Cause::Softirq, SOFTIRQ_VECTORS[3]),
            (0, Cause::Throttle, "throttle"),
            (0, Cause::Untracked, "untracked"),
        ] {
            assert_eq!(named(cpu(culprit, cause)), ["", "web.service", name], "{cause:?}");
        }
        // A process that is counted apart from its cgroup: those that it waits for are tasks.
        let watched = |culprit, cause| key(WATCHED_TASK, culprit, 0, cause, Resource::Cpu);
        let own = named(watched(WATCHED_TASK, Cause::Own));
        assert_eq!(own, ["", WATCHED_LABEL, WATCHED_LABEL]);
        for (pid, name) in [(11, "ksoftirqd"), (12, GONE)] {
            let named = named(watched(TASK_CULPRIT | pid, Cause::Foreign));
            assert_eq!(named, ["", WATCHED_LABEL, name]);
        }
        let disk = key(web, db, 8 << 20 | 16, Cause::Foreign, Resource::BlockQueue);
        assert_eq!(named(disk), ["sdb", "web.service", "db.service"]);
        let net = key(UNKNOWN, db, 7, Cause::Foreign, Resource::NetTx);
        assert_eq!(named(net), ["eth7", UNKNOWN_LABEL, "db.service"]);
        let late = key(u64::MAX - 2, db, 0, Cause::Foreign, Resource::Cpu);
        assert!(names.parties(&late, Resource::Cpu, Cause::Foreign, now).is_none());
        let later = now + std::time::Duration::from_secs(5);
        let parties = names.parties(&late, Resource::Cpu, Cause::Foreign, later).unwrap();
        assert_eq!(&*parties.victim, GONE);
    }

    #[test]
    fn what_others_call_cgroups_is_known_as_long_as_their_labels_are_used() {
        let root = tempfile::tempdir().unwrap();
        let uid = "c0ffee00-1234-5678-9abc-def012345678";
        let id = "0123456789abcdef".repeat(4);
        let path = |name: &str| root.path().join(name);
        let cgroup = path(&format!("cg/kubepods/pod{uid}/{id}"));
        fs::create_dir_all(&cgroup).unwrap();
        fs::create_dir_all(path("cg/web.service")).unwrap();
        fs::create_dir_all(path(&format!("var/log/pods/shop_front_{uid}"))).unwrap();
        fs::create_dir_all(path(&format!("var/log/containers/front_shop_nginx-{id}.log"))).unwrap();
        let hierarchies = Hierarchies { tasks: Some(path("cg")), ..Hierarchies::default() };
        let mut names = SubjectNames::new(root.path(), root.path(), BTreeMap::new(), &hierarchies)
            .with_nodes(root.path(), &hierarchies);
        let (pod, web) =
            (cgroup.metadata().unwrap().ino(), path("cg/web.service").metadata().unwrap().ino());
        let now = Instant::now();
        let label = names.cgroup(Of::Task, pod, now).unwrap();
        assert_eq!(&*label, "pod:shop/front/nginx");
        names.labels(Signal::CgroupRunqueueWait, web, now).unwrap();
        let infos = names.infos();
        let info = &infos["pod:shop/front/nginx"];
        assert_eq!([&*info.namespace, &info.pod, &info.container], ["shop", "front", "nginx"]);
        assert_eq!(infos["web.service"].unit, "web.service");
        names.sweep();
        assert!(Arc::ptr_eq(&names.infos(), &infos), "nothing is gone");
        // A charge has the one label, a series the other; then neither.
        drop((label, infos));
        names.sweep();
        assert_eq!(names.infos().keys().map(|label| &**label).collect::<Vec<_>>(), ["web.service"]);
        names.forget(Signal::CgroupRunqueueWait, web);
        names.sweep();
        assert!(names.infos().is_empty());
    }

    #[test]
    fn what_a_charge_is_about() {
        let entities = |key: ChargeKey| {
            SubjectNames::entities(&key, key.resource().unwrap(), key.cause().unwrap())
        };
        let foreign = key(5, 6, 0, Cause::Foreign, Resource::Cpu);
        let tasks = [5, 6].map(|id| Entity::Cgroup(Of::Task, id));
        assert_eq!(entities(foreign), tasks);
        let thread = key(UNKNOWN, 6, 9, Cause::Kthread, Resource::NetRx);
        assert_eq!(entities(thread), [Entity::Thread(6), Entity::Place(Signal::NetTxWait, 9)]);
        assert!(entities(key(UNKNOWN, 36, 0, Cause::Hardirq, Resource::Running)).is_empty());
    }
}
