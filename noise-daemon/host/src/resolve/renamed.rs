//! IO: interfaces that were given another name.
//!
//! Looked up in sysfs, since the kernel announces it on a socket only, which a daemon that gave up its
//! privileges does not have: whether the folder of that name still has that number, of some
//! interfaces at a time.

use std::collections::{BTreeMap, BTreeSet};

use noise_common::signals::{OTHER_INTERFACE, of_subject};
use noise_common::subject::SubjectKind;

use super::{SubjectNames, index_of, interfaces, shown};

/// Interfaces that are looked up at a time.
const AT_ONCE: usize = 16;

/// Which interfaces were looked up.
#[derive(Debug, Default)]
pub struct Round {
    last: u64,
    /// Those that are not there any more; a sweep deals with them.
    gone: BTreeSet<u64>,
}

impl Round {
    pub fn clear(&mut self) {
        self.gone.clear();
    }
}

impl SubjectNames {
    /// Those of some interfaces whose names have changed; from now on they have their new ones.
    pub fn renamed(&mut self) -> BTreeSet<u64> {
        let mut named: BTreeMap<u64, &str> = BTreeMap::new();
        for signal in of_subject(SubjectKind::Interface) {
            for ((_, subject), labels) in self.known.range((signal, 0)..=(signal, u64::MAX)) {
                let name = labels.first().map(String::as_str).unwrap_or_default();
                // What was never found has no name that could change.
                if *subject != OTHER_INTERFACE && name != super::nameless(*subject) {
                    named.insert(*subject, name);
                }
            }
        }
        let asked = named.range(self.round.last + 1..).chain(named.range(..=self.round.last));
        let asked: Vec<_> = asked.take(AT_ONCE).map(|(index, name)| (*index, *name)).collect();
        self.round.last = asked.last().map_or(0, |(index, _)| *index);
        let mut there: Option<BTreeMap<u64, String>> = None;
        let mut renamed = BTreeSet::new();
        for (index, name) in asked {
            if self.round.gone.contains(&index)
                || index_of(&self.sysfs.join("class/net").join(name)) == Some(index)
            {
                continue;
            }
            let there = there.get_or_insert_with(|| {
                interfaces(&self.sysfs)
                    .map(|found| found.map(|(index, name)| (index, shown(&name))).collect())
                    .unwrap_or_default()
            });
            match there.get(&index) {
                // A name that is shown in escapes is no folder's.
                Some(now) if now == name => {}
                Some(_) => {
                    renamed.insert(index);
                }
                None => {
                    self.round.gone.insert(index);
                }
            }
        }
        self.known.retain(|(signal, subject), _| {
            !(signal.info().subject == SubjectKind::Interface && renamed.contains(subject))
        });
        renamed
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Instant;

    use noise_common::signals::Signal;

    use super::*;
    use crate::resolve::cgroup::Hierarchies;

    #[test]
    fn an_interface_that_is_renamed_is_known_by_its_new_name() {
        let root = tempfile::tempdir().unwrap();
        let net = root.path().join("class/net");
        for (name, index) in [("eth0", 2), ("eth1", 3), ("lo", 1)] {
            fs::create_dir_all(net.join(name)).unwrap();
            fs::write(net.join(name).join("ifindex"), format!("{index}\n")).unwrap();
        }
        let hierarchies = Hierarchies::default();
        let mut names = SubjectNames::new(root.path(), root.path(), BTreeMap::new(), &hierarchies);
        let now = Instant::now();
        let show = |names: &mut SubjectNames, index| {
            names.labels(Signal::NetTxWait, index, now).unwrap()[0].clone()
        };
        for (index, name) in [(1, "lo"), (2, "eth0"), (3, "eth1"), (9, "if9")] {
            assert_eq!(show(&mut names, index), name);
        }
        names.labels(Signal::NetRxWait, 2, now).unwrap();
        assert_eq!(names.renamed(), BTreeSet::new());
        // They change places.
        for (from, to) in [("eth0", "x"), ("eth1", "eth0"), ("x", "eth1")] {
            fs::rename(net.join(from), net.join(to)).unwrap();
        }
        assert_eq!(names.renamed(), BTreeSet::from([2, 3]));
        assert_eq!((show(&mut names, 2).as_str(), show(&mut names, 3).as_str()), ("eth1", "eth0"));
        // One that is gone keeps its name until it is swept.
        fs::remove_dir_all(net.join("lo")).unwrap();
        assert_eq!(names.renamed(), BTreeSet::new());
        assert_eq!(show(&mut names, 1), "lo");
    }

    #[test]
    fn all_interfaces_have_their_turn() {
        let root = tempfile::tempdir().unwrap();
        let net = root.path().join("class/net");
        let hierarchies = Hierarchies::default();
        let mut names = SubjectNames::new(root.path(), root.path(), BTreeMap::new(), &hierarchies);
        let count = 2 * AT_ONCE as u64 + 3;
        for index in 1..=count {
            let path = net.join(format!("old{index}"));
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("ifindex"), format!("{index}\n")).unwrap();
        }
        for index in 1..=count {
            names.labels(Signal::NetRxWait, index, Instant::now()).unwrap();
        }
        for index in 1..=count {
            fs::rename(net.join(format!("old{index}")), net.join(format!("new{index}"))).unwrap();
        }
        let mut renamed = 0;
        for _ in 0..3 {
            renamed += names.renamed().len() as u64;
        }
        assert_eq!(renamed, count);
    }
}
