//! IO: the cgroups of this host by id, each looked for in the hierarchy that its id belongs to.

use std::path::PathBuf;
use std::time::Instant;

use noise_common::charge::UNIFIED_CGROUP;
use noise_common::subject::Of;

use super::{CgroupLook, Hierarchies, NodeNames, Tree};

/// The hierarchies that count, each once even where it serves several purposes.
#[derive(Debug)]
pub struct HierarchyLabels {
    trees: Vec<Tree>,
    names: NodeNames,
    tasks: Option<usize>,
    unified_tasks: Option<usize>,
    io: Option<usize>,
    sockets: Option<usize>,
}

impl HierarchyLabels {
    /// Those of a host, with these names of pods and containers.
    pub fn new(hierarchies: &Hierarchies, names: NodeNames) -> Self {
        let mut roots: Vec<PathBuf> = Vec::new();
        let mut place = |root: &Option<PathBuf>| {
            let root = root.as_ref()?;
            let known = roots.iter().position(|other| other == root);
            Some(known.unwrap_or_else(|| {
                roots.push(root.clone());
                roots.len() - 1
            }))
        };
        let (tasks, unified_tasks) = (place(&hierarchies.tasks), place(&hierarchies.unified_tasks));
        let (io, sockets) = (place(&hierarchies.io), place(&hierarchies.sockets));
        let trees = roots.iter().map(|root| Tree::new(root)).collect();
        Self { trees, names, tasks, unified_tasks, io, sockets }
    }

    /// The hierarchy that an id belongs to, and the id as it has it.
    fn tree(&mut self, of: Of, id: u64) -> Option<(&mut Tree, u64)> {
        let (index, id) = match of {
            Of::Task if self.unified_tasks.is_some() && id & UNIFIED_CGROUP != 0 => {
                (self.unified_tasks, id & !UNIFIED_CGROUP)
            }
            Of::Task => (self.tasks, id),
            Of::Request => (self.io, id),
            Of::Socket => (self.sockets, id),
        };
        Some((self.trees.get_mut(index?)?, id))
    }

    /// The cgroup of an id; absent where there is no such hierarchy.
    pub fn look(&mut self, of: Of, id: u64, now: Instant) -> CgroupLook {
        match self.tree(of, id).map_or(CgroupLook::Absent, |(tree, id)| tree.look(id, now)) {
            CgroupLook::Found(cgroup) => self.names.look(&cgroup, now),
            other => other,
        }
    }

    /// The path of a cgroup with such a label, in whichever hierarchy has it first.
    pub fn path(&mut self, is_it: impl Fn(&str) -> bool) -> Option<PathBuf> {
        let named = self.names.path(&is_it);
        named.or_else(|| self.trees.iter_mut().find_map(|tree| tree.path(&is_it)))
    }

    /// Whether a cgroup is no longer there, as far as can be seen.
    pub fn is_gone(&mut self, of: Of, id: u64) -> bool {
        self.tree(of, id).is_none_or(|(tree, id)| tree.is_gone(id))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn ids_are_looked_for_where_they_belong() {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| root.path().join(name);
        for name in ["cpu/a.service", "unified/b.service"] {
            std::fs::create_dir_all(folder(name)).unwrap();
        }
        let mut labels = HierarchyLabels::new(
            &(Hierarchies {
                tasks: Some(folder("cpu")),
                io: Some(folder("unified")),
                sockets: Some(folder("unified")),
                by_cpu: true,
                ..Hierarchies::default()
            }),
            NodeNames::below(None),
        );
        assert_eq!(labels.trees.len(), 2);
        let now = Instant::now();
        let id = |name: &str| folder(name).metadata().unwrap().ino();
        let (a, b) = (id("cpu/a.service"), id("unified/b.service"));
        let label = |look: CgroupLook| match look {
            CgroupLook::Found(cgroup) => cgroup.identity.label.clone(),
            CgroupLook::Waiting | CgroupLook::Absent => String::new(),
        };
        assert_eq!(label(labels.look(Of::Task, a, now)), "a.service");
        assert_eq!(label(labels.look(Of::Request, b, now)), "b.service");
        assert_eq!(label(labels.look(Of::Socket, b, now)), "b.service");
        assert_eq!(labels.look(Of::Socket, a, now), CgroupLook::Waiting);
        assert!(!labels.is_gone(Of::Task, a) && labels.is_gone(Of::Task, b));
        // Nothing marks ids where one hierarchy has all tasks.
        assert_eq!(labels.look(Of::Task, UNIFIED_CGROUP | b, now), CgroupLook::Waiting);
        let mut nowhere = HierarchyLabels::new(&Hierarchies::default(), NodeNames::below(None));
        assert_eq!(nowhere.look(Of::Task, a, now), CgroupLook::Absent);
        assert!(nowhere.is_gone(Of::Task, a));
    }
    #[test]
    fn a_marked_id_is_one_of_version_2() {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| root.path().join(name);
        for name in ["cpu/a.service", "unified"] {
            std::fs::create_dir_all(folder(name)).unwrap();
        }
        let mut labels = HierarchyLabels::new(
            &(Hierarchies {
                tasks: Some(folder("cpu")),
                unified_tasks: Some(folder("unified")),
                io: Some(folder("cpu")),
                sockets: Some(folder("unified")),
                by_cpu: true,
            }),
            NodeNames::below(None),
        );
        assert_eq!(labels.trees.len(), 2);
        let now = Instant::now();
        let id = |name: &str| folder(name).metadata().unwrap().ino();
        let path = |look: CgroupLook| match look {
            CgroupLook::Found(cgroup) => Some(cgroup.path.clone()),
            CgroupLook::Waiting | CgroupLook::Absent => None,
        };
        let a = id("cpu/a.service");
        assert_eq!(path(labels.look(Of::Task, a, now)), Some("/a.service".into()));
        // The first cgroup of version 2 comes after the start.
        std::fs::create_dir(folder("unified/b.service")).unwrap();
        let b = id("unified/b.service");
        let marked = UNIFIED_CGROUP | b;
        assert_eq!(path(labels.look(Of::Task, marked, now)), Some("/b.service".into()));
        assert_eq!(path(labels.look(Of::Socket, b, now)), Some("/b.service".into()));
        assert_eq!(path(labels.look(Of::Task, UNIFIED_CGROUP | a, now)), None);
        assert!(!labels.is_gone(Of::Task, marked) && labels.is_gone(Of::Task, b));
        std::fs::remove_dir(folder("unified/b.service")).unwrap();
        assert!(labels.is_gone(Of::Task, marked) && !labels.is_gone(Of::Task, a));
    }
}
