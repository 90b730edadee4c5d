//! IO: ids to names. Rooted at paths, so that tests use fixture trees.

pub mod cgroup;
mod disk;
mod host;
mod kthread;
mod renamed;
mod task;
mod who;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use noise_common::charge::{UNKNOWN, WATCHED_TASK};
use noise_common::signals::{OPERATIONS, OTHER_INTERFACE, Signal, split_block_subject};
use noise_common::subject::SubjectKind;
use noise_model::{Cgroups, Labels};
use noise_text::clean::{clean, printable};

use cgroup::{Hierarchies, NodeNames, Of};
pub use disk::disks;
pub use host::read_host;
use kthread::KernelThreads;
pub use kthread::without_cpu;
use noise_model::labels::OTHER;
use noise_system::procfs;
use renamed::Round;
pub use task::{TaskSubject, task};
use who::Interner;
pub use who::{Entity, Parties};

/// The numbered lines of `interrupts`, each with what its last columns say, where they say something.
fn irq_lines(text: &str) -> impl Iterator<Item = (u64, String)> {
    let cpus = text.lines().next().unwrap_or_default().split_whitespace().count();
    text.lines().filter_map(move |line| {
        let (number, rest) = line.split_once(':')?;
        let words: Vec<&str> = rest.split_whitespace().skip(cpus).collect();
        // Chip, hardware irq (with its trigger), then the actions' names, joined with commas.
        let name = words.get(2..).unwrap_or_default().join(" ");
        let name = if name.is_empty() { "unknown".to_owned() } else { printable(name.as_bytes()) };
        Some((number.trim().parse().ok()?, name))
    })
}

/// What the last columns of `interrupts` below a procfs root say of an irq.
pub fn irq_name(procfs: &Path, irq: u64) -> String {
    let text = procfs::text(procfs.join("interrupts")).unwrap_or_default();
    let found = irq_lines(&text).find(|(number, _)| *number == irq);
    found.map_or_else(|| "unknown".to_owned(), |(_, name)| name)
}

/// The irqs that have a label: at most so many.
pub fn irqs_named(procfs: &Path, label: &str, most: usize) -> Vec<u64> {
    let text = procfs::text(procfs.join("interrupts")).unwrap_or_default();
    let has_it = |irq: u64, name: &str| match name {
        "unknown" => label == format!("irq {irq}"),
        name => clean(name) == label,
    };
    irq_lines(&text)
        .filter(|(irq, name)| has_it(*irq, name))
        .map(|(irq, _)| irq)
        .take(most)
        .collect()
}

/// Bits of a reason for dropping a packet in which a subsystem counts its own reasons.
pub(crate) const OWN_REASON_BITS: u32 = 16;

/// Turns subjects of signals into label values, and remembers them.
#[derive(Debug)]
pub struct SubjectNames {
    procfs: PathBuf,
    sysfs: PathBuf,
    drop_reasons: BTreeMap<u32, String>,
    known: BTreeMap<(Signal, u64), Labels>,
    cgroups: cgroup::HierarchyLabels,
    threads: KernelThreads,
    interner: Interner,
    infos: Arc<Cgroups>,
    /// The interfaces that there were when a sweep first looked; empty where that is not known.
    interfaces: Option<BTreeSet<u64>>,
    round: Round,
}

impl SubjectNames {
    /// Names below `procfs` and `sysfs`, and of the cgroups in these hierarchies; `drop_reasons`
    /// come from the kernel's type information.
    pub fn new(
        procfs: &Path,
        sysfs: &Path,
        drop_reasons: BTreeMap<u32, String>,
        hierarchies: &Hierarchies,
    ) -> Self {
        Self {
            procfs: procfs.to_owned(),
            sysfs: sysfs.to_owned(),
            drop_reasons,
            known: BTreeMap::new(),
            cgroups: cgroup::HierarchyLabels::new(hierarchies, NodeNames::below(None)),
            threads: KernelThreads::new(procfs),
            interner: Interner::default(),
            infos: Arc::default(),
            interfaces: None,
            round: Round::default(),
        }
    }

    /// The same, with what files below this root call pods and containers.
    pub fn with_nodes(self, root: &Path, hierarchies: &Hierarchies) -> Self {
        Self {
            cgroups: cgroup::HierarchyLabels::new(hierarchies, NodeNames::below(Some(root))),
            ..self
        }
    }

    /// Label values of a subject, in the order of the signal's labels; `None` where they will be
    /// known later. Once known, they stay until the subject is forgotten or [renamed](SubjectNames::renamed).
    pub fn labels(&mut self, signal: Signal, subject: u64, now: Instant) -> Option<Labels> {
        if let Some(labels) = self.known.get(&(signal, subject)) {
            return Some(Arc::clone(labels));
        }
        let labels = self.look_up(signal, subject, now)?;
        // Cgroups and interfaces bear names that their makers chose.
        let labels: Labels = labels.iter().map(|name| clean(name).into_owned()).collect();
        self.known.insert((signal, subject), Arc::clone(&labels));
        Some(labels)
    }

    /// The path of the cgroup with a label, from the root of its hierarchy, where it is known and there.
    pub fn cgroup_path(&mut self, label: &str) -> Option<PathBuf> {
        self.cgroups.path(|own| clean(own) == label)
    }

    /// Forgets a subject that is gone.
    pub fn forget(&mut self, signal: Signal, subject: u64) {
        self.known.remove(&(signal, subject));
    }

    fn look_up(&mut self, signal: Signal, subject: u64, now: Instant) -> Option<Vec<String>> {
        Some(match signal.info().subject {
            SubjectKind::Host => Vec::new(),
            SubjectKind::Kinds(names) | SubjectKind::Vectors(names) => {
                let name = names.get(subject as usize);
                vec![name.map_or_else(|| subject.to_string(), ToString::to_string)]
            }
            SubjectKind::Irq => vec![subject.to_string(), irq_name(&self.procfs, subject)],
            // What found no cell of its own, or no cgroup.
            SubjectKind::Cgroup if subject == UNKNOWN => vec![OTHER.to_owned()],
            SubjectKind::Cgroup => vec![self.cgroup(Of::Task, subject, now)?.to_string()],
            SubjectKind::Request => {
                let (major, minor, operation) = split_block_subject(subject);
                let operation = OPERATIONS.get(operation).copied().unwrap_or("other");
                vec![self.device_name(major, minor), operation.to_owned()]
            }
            SubjectKind::Interface => vec![self.interface_name(subject)],
            SubjectKind::DropReason => {
                vec![self.drop_reason(subject as u32)]
            }
        })
    }

    /// What the kernel calls a reason; those that a subsystem has of its own go by its name and their number.
    fn drop_reason(&self, reason: u32) -> String {
        if let Some(name) = self.drop_reasons.get(&reason) {
            return name.clone();
        }
        let subsystem = reason >> OWN_REASON_BITS << OWN_REASON_BITS;
        match self.drop_reasons.get(&subsystem).filter(|_| subsystem != 0) {
            Some(name) => format!("{name}:{}", reason - subsystem),
            None => "unknown".to_owned(),
        }
    }

    /// Whether a subject that comes and goes still exists, or that cannot be found out. For sweeps:
    /// interfaces are looked at once, and again after [`SubjectNames::sweep`].
    pub fn exists(&mut self, signal: Signal, subject: u64) -> bool {
        match signal.info().subject {
            SubjectKind::Request => {
                let (major, minor, _) = split_block_subject(subject);
                disk::exists(&self.procfs, &self.sysfs, major, minor)
            }
            SubjectKind::Interface => subject == OTHER_INTERFACE || self.has_interface(subject),
            SubjectKind::Cgroup => {
                matches!(subject, UNKNOWN | WATCHED_TASK)
                    || !self.cgroups.is_gone(Of::Task, subject)
            }
            _ => true,
        }
    }

    /// Whether the labels of a subject are its own, not what stands for one that cannot be found.
    pub fn is_named(&mut self, signal: Signal, subject: u64) -> bool {
        match signal.info().subject {
            SubjectKind::Interface => {
                let labels = self.known.get(&(signal, subject));
                labels.is_some_and(|labels| labels.first() != Some(&nameless(subject)))
            }
            _ => self.exists(signal, subject),
        }
    }

    fn has_interface(&mut self, ifindex: u64) -> bool {
        if self.interfaces.is_none() {
            let found = interfaces(&self.sysfs);
            self.interfaces = found.map(|found| found.map(|(index, _)| index).collect()).ok();
        }
        self.interfaces.as_ref().is_none_or(|known| known.contains(&ifindex))
    }

    fn device_name(&self, major: u32, minor: u32) -> String {
        disk::disk(&self.procfs, &self.sysfs, major, minor)
            .map_or_else(|| format!("{major}:{minor}"), |name| printable(&name))
    }

    fn interface_name(&self, subject: u64) -> String {
        if subject == OTHER_INTERFACE {
            return OTHER.to_owned();
        }
        self.find_interface(subject).unwrap_or_else(|| nameless(subject))
    }

    fn find_interface(&self, ifindex: u64) -> Option<String> {
        let (_, name) = interfaces(&self.sysfs).ok()?.find(|(index, _)| *index == ifindex)?;
        Some(shown(&name))
    }
}

/// The label of an interface.
fn shown(name: &OsStr) -> String {
    clean(&printable(name.as_bytes())).into_owned()
}

/// The label of an interface that cannot be found.
fn nameless(index: u64) -> String {
    format!("if{index}")
}

/// The number of the interface that has this folder in sysfs.
fn index_of(folder: &Path) -> Option<u64> {
    procfs::text(folder.join("ifindex")).ok()?.trim().parse().ok()
}

/// Index and name of every interface below a sysfs root.
fn interfaces(sysfs: &Path) -> std::io::Result<impl Iterator<Item = (u64, OsString)>> {
    let entries = std::fs::read_dir(sysfs.join("class/net"))?;
    Ok(entries.flatten().filter_map(|entry| Some((index_of(&entry.path())?, entry.file_name()))))
}

#[cfg(test)]
mod tests {
    use noise_common::signals::block_subject;
    use noise_model::labels::GONE;

    use super::*;

    fn fixture() -> (tempfile::TempDir, SubjectNames) {
        let root = tempfile::tempdir().unwrap();
        let interrupts = "           CPU0       CPU1\n \
            36:          0       4970 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n \
            LOC:       5163       5474   Local timer interrupts\n";
        std::fs::write(root.path().join("interrupts"), interrupts).unwrap();
        let net = root.path().join("class/net/eth7");
        std::fs::create_dir_all(&net).unwrap();
        std::fs::write(net.join("ifindex"), "7\n").unwrap();
        std::fs::create_dir_all(root.path().join("dev/block")).unwrap();
        std::os::unix::fs::symlink("../../block/vda", root.path().join("dev/block/254:0")).unwrap();
        let hidden = " 259       2 nvme0c0n1 41 0 328 11 0 0 0 0 0 8 11 0 0 0 0 0 0\n";
        std::fs::write(root.path().join("diskstats"), hidden).unwrap();
        let reasons = [(3, "no_socket"), (3 << OWN_REASON_BITS, "openvswitch")];
        let reasons = reasons.map(|(value, name)| (value, name.to_owned())).into();
        let hierarchies = Hierarchies::default();
        let names = SubjectNames::new(root.path(), root.path(), reasons, &hierarchies);
        (root, names)
    }

    #[test]
    fn subjects_get_the_names_people_know() {
        let (_root, mut names) = fixture();
        let now = Instant::now();
        let mut labels = |signal, subject| names.labels(signal, subject, now).unwrap().to_vec();
        assert_eq!(labels(Signal::Hardirq, 36), ["36", "virtio1-req.0"]);
        assert_eq!(labels(Signal::Hardirq, 99), ["99", "unknown"]);
        assert_eq!(labels(Signal::BlockQueueWait, block_subject(254, 0, 1)), ["vda", "write"]);
        assert_eq!(labels(Signal::BlockQueueWait, block_subject(7, 3, 0)), ["7:3", "read"]);
        let hidden = block_subject(259, 2, 0);
        assert_eq!(labels(Signal::BlockDeviceWait, hidden), ["nvme0c0n1", "read"]);
        assert_eq!(labels(Signal::NetTxWait, 7), ["eth7"]);
        assert_eq!(labels(Signal::NetTxWait, 9), ["if9"]);
        assert_eq!(labels(Signal::NetTxWait, OTHER_INTERFACE), [OTHER]);
        assert_eq!(labels(Signal::PacketDrop, 3), ["no_socket"]);
        assert_eq!(labels(Signal::PacketDrop, 77), ["unknown"]);
        assert_eq!(labels(Signal::PacketDrop, (3 << OWN_REASON_BITS) + 2), ["openvswitch:2"]);
        assert_eq!(labels(Signal::PacketDrop, (4 << OWN_REASON_BITS) + 2), ["unknown"]);
        assert_eq!(labels(Signal::CgroupRunqueueWait, UNKNOWN), [OTHER]);
        assert_eq!(labels(Signal::CgroupRunqueueWait, 77), [GONE]);
        assert!(names.exists(Signal::NetTxWait, 7) && !names.exists(Signal::NetTxWait, 9));
        assert!(names.exists(Signal::BlockDeviceWait, hidden));
        assert!(!names.exists(Signal::BlockDeviceWait, block_subject(7, 3, 0)));
    }

    #[test]
    fn names_that_are_no_text_are_shown_in_escapes_and_hide_no_other() {
        let (root, mut names) = fixture();
        let path = |bytes: &[u8]| root.path().join(OsStr::from_bytes(bytes));
        let interrupts =
            b"  CPU0\n 35:  0 PCI 1-edge evil\xff\x1b[2J\n 36:  0 PCI 2-edge virtio1\n";
        std::fs::write(path(b"interrupts"), interrupts).unwrap();
        std::fs::create_dir_all(path(b"class/net/we\xff")).unwrap();
        std::fs::write(path(b"class/net/we\xff/ifindex"), "8\n").unwrap();
        std::os::unix::fs::symlink(path(b"block/d\xff"), path(b"dev/block/254:1")).unwrap();
        let now = Instant::now();
        let mut labels = |signal, subject| names.labels(signal, subject, now).unwrap().to_vec();
        assert_eq!(labels(Signal::Hardirq, 35), ["35", r"evil\xff\x1b[2J"]);
        assert_eq!(labels(Signal::Hardirq, 36), ["36", "virtio1"]);
        assert_eq!(labels(Signal::NetTxWait, 8), [r"we\xff"]);
        assert_eq!(labels(Signal::NetTxWait, 7), ["eth7"]);
        assert_eq!(labels(Signal::BlockQueueWait, block_subject(254, 1, 0)), [r"d\xff", "read"]);
    }

    #[test]
    fn interfaces_are_looked_at_once_a_sweep() {
        let (root, mut names) = fixture();
        let net = root.path().join("class/net");
        assert!(names.exists(Signal::NetTxWait, 7));
        std::fs::rename(net.join("eth7"), net.join("eth8")).unwrap();
        std::fs::write(net.join("eth8/ifindex"), "8\n").unwrap();
        assert!(names.exists(Signal::NetTxWait, 7) && !names.exists(Signal::NetRxWait, 8));
        names.sweep();
        assert!(!names.exists(Signal::NetTxWait, 7) && names.exists(Signal::NetRxWait, 8));
        names.sweep();
        std::fs::remove_dir_all(&net).unwrap();
        // What cannot be listed is not gone for that.
        assert!(names.exists(Signal::TcpRetransmit, 7));
    }
}
