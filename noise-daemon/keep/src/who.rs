//! IO: who is who at the end of a stretch of events: what these have numbers for only.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use noise_host::resolve::cgroup::{Identity, NodeNames};
use noise_host::resolve::{irq_name, read_host};
use noise_system::procfs;
use noise_trace::capture::{Dump, Interrupt, Look};
use noise_trace::ctf::write::Origin;
use noise_trace::event::{Comm, Dumped};

use noise_record::DumpedHost;

/// Most threads that are named.
const MOST_THREADS: usize = 8192;
/// Most interrupts that are named.
const MOST_INTERRUPTS: usize = 64;

/// Bytes as a text that has the same numbers: names may be any bytes.
fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect()
}

/// So many of the threads: those with the most events.
fn busiest(tids: &BTreeMap<u32, u64>, most: usize) -> BTreeSet<u32> {
    let mut all: Vec<_> = tids.iter().collect();
    all.sort_by_key(|(_, events)| Reverse(**events));
    all.into_iter().take(most).map(|(tid, _)| *tid).collect()
}

/// The path that such a text stands for.
fn path(text: &str) -> PathBuf {
    OsString::from_vec(bytes(text)).into()
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct ThreadInfo {
    tid: i32,
    pid: i32,
    ppid: i32,
    comm: String,
}

/// Threads, cgroups, interrupts, disks and interfaces by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct KeptNumbers {
    hostname: String,
    kernel: String,
    version: String,
    recorder: String,
    threads: Vec<ThreadInfo>,
    cgroups: Vec<(String, Vec<i32>)>,
    interrupts: Vec<(u32, String)>,
    disks: Vec<(u32, String)>,
    interfaces: Vec<(u32, String)>,
    namespace: u64,
    /// Labels of cgroups, by path, where pods and containers have names; an older noised knew none.
    #[serde(default)]
    labels: Vec<(String, String)>,
    /// How many threads have no name because there were too many; an older noised did not say.
    #[serde(default)]
    pub(super) unnamed: usize,
}

impl KeptNumbers {
    /// Those threads (with the number of their events) and interrupts that are still there, and all disks and interfaces.
    pub fn read(tids: &BTreeMap<u32, u64>, irqs: &BTreeSet<u32>) -> Self {
        let dump = DumpedHost::default().dump_of(&busiest(tids, MOST_THREADS));
        let host = read_host(Path::new("/"));
        let version = procfs::text("/proc/sys/kernel/version").unwrap_or_default();
        let named = |&irq: &u32| (irq, irq_name(Path::new("/proc"), irq.into()));
        let (mut nodes, now) = (NodeNames::of_host(), Instant::now());
        let mut label = |bytes: &Vec<u8>| {
            let path = Path::new(OsStr::from_bytes(bytes));
            let label = nodes.identity(path, now).label;
            (label != Identity::of(path).label).then(|| (text(bytes), label))
        };
        Self {
            labels: dump.cgroups.keys().filter_map(&mut label).collect(),
            hostname: host.name,
            kernel: host.kernel,
            version: version.trim().to_owned(),
            recorder: format!("noised {}", host.noised),
            interrupts: irqs.iter().take(MOST_INTERRUPTS).map(named).collect(),
            unnamed: tids.len().saturating_sub(MOST_THREADS),
            ..Self::of(&dump)
        }
    }

    fn of(dump: &Dump) -> Self {
        let thread = |Dumped { tid, pid, ppid, comm }: &Dumped| ThreadInfo {
            tid: *tid,
            pid: *pid,
            ppid: *ppid,
            comm: text(comm.bytes()),
        };
        let named = |(number, name): &(u32, Vec<u8>)| (*number, text(name));
        Self {
            threads: dump.threads.iter().map(thread).collect(),
            cgroups: dump.cgroups.iter().map(|(path, of)| (text(path), of.clone())).collect(),
            disks: dump.disks.iter().map(named).collect(),
            interfaces: dump.interfaces.iter().map(named).collect(),
            namespace: dump.namespace,
            ..Self::default()
        }
    }

    /// The same as a recording begins with it.
    pub fn dump(&self) -> Dump {
        let thread = |one: &ThreadInfo| Dumped {
            tid: one.tid,
            pid: one.pid,
            ppid: one.ppid,
            comm: Comm::new(&bytes(&one.comm)),
        };
        let named = |(number, name): &(u32, String)| (*number, bytes(name));
        let interrupt = |(irq, action): &(u32, String)| Interrupt {
            irq: *irq,
            chip: Vec::new(),
            action: bytes(action),
        };
        Dump {
            threads: self.threads.iter().map(thread).collect(),
            interrupts: self.interrupts.iter().map(interrupt).collect(),
            disks: self.disks.iter().map(named).collect(),
            interfaces: self.interfaces.iter().map(named).collect(),
            namespace: self.namespace,
            cgroups: self.cgroups.iter().map(|(path, of)| (bytes(path), of.clone())).collect(),
            ..Dump::default()
        }
    }

    /// Where events were recorded, by how much real time is ahead of their clock, ns.
    pub fn origin(&self, offset_ns: u64) -> Origin {
        Origin {
            hostname: self.hostname.clone(),
            kernel_release: self.kernel.clone(),
            kernel_version: self.version.clone(),
            recorder: self.recorder.clone(),
            offset_ns,
            offset_at_end_ns: None,
            has_calls: false,
        }
    }

    /// The threads in the cgroup of that label.
    pub fn of_cgroup(&self, label: &str) -> BTreeSet<u32> {
        let is_named =
            |path: &str| self.labels.iter().any(|(own, named)| own == path && named == label);
        let is_it = |own: &str| Identity::of(path(own)).label == label || is_named(own);
        let own = self.cgroups.iter().filter(|(own, _)| is_it(own));
        own.flat_map(|(_, tids)| tids.iter().map(|tid| tid.cast_unsigned())).collect()
    }

    /// The label of the cgroup that a thread is in.
    pub fn cgroup_of(&self, tid: u32) -> Option<String> {
        let (own, _) = self.cgroups.iter().find(|(_, of)| of.contains(&tid.cast_signed()))?;
        let named = self.labels.iter().find(|(named, _)| named == own);
        Some(named.map_or_else(|| Identity::of(path(own)).label, |(_, label)| label.clone()))
    }

    /// The number of the disk of that name (`vda`), or of that numbers (`254:0`).
    pub fn device(&self, name: &str) -> Option<u32> {
        let is_it = |device: &u32| name == format!("{}:{}", device >> 20, device & 0xf_ffff);
        let named = self.disks.iter().find(|(device, own)| own == name || is_it(device));
        named.map(|(device, _)| *device)
    }

    /// Names, to be looked up.
    pub fn names(&self) -> Names {
        let thread = |one: &ThreadInfo| (one.tid.cast_unsigned(), Comm::new(&bytes(&one.comm)));
        let named = |(number, name): &(u32, String)| (*number, bytes(name));
        Names {
            threads: self.threads.iter().map(thread).collect(),
            interrupts: self.interrupts.iter().map(named).collect(),
            interfaces: self.interfaces.iter().map(named).collect(),
        }
    }
}

/// Names at the end of the stretch.
pub struct Names {
    threads: HashMap<u32, Comm>,
    interrupts: BTreeMap<u32, Vec<u8>>,
    interfaces: BTreeMap<u32, Vec<u8>>,
}

impl Look for Names {
    fn thread(&mut self, tid: u32) -> Option<Comm> {
        self.threads.get(&tid).copied()
    }

    fn interrupt(&mut self, irq: u32) -> Option<Vec<u8>> {
        self.interrupts.get(&irq).cloned()
    }

    fn interface(&mut self, index: u32) -> Option<Vec<u8>> {
        self.interfaces.get(&index).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_survive_being_written() {
        let thread = |tid, comm: &[u8]| Dumped { tid, pid: 7, ppid: 1, comm: Comm::new(comm) };
        let dump = Dump {
            threads: vec![thread(7, b"a\xffb"), thread(8, "ü".as_bytes())],
            interrupts: Vec::new(),
            disks: vec![(8 << 20, b"sda".to_vec())],
            interfaces: vec![(2, b"\xfe".to_vec())],
            namespace: 5,
            cgroups: [(b"/system.slice/\xff.service".to_vec(), vec![7])].into(),
            files: Vec::new(),
            sockets: Vec::new(),
        };
        let who =
            KeptNumbers { interrupts: vec![(36, "virtio1".to_owned())], ..KeptNumbers::of(&dump) };
        let written = serde_json::to_string(&who).unwrap();
        let read: KeptNumbers = serde_json::from_str(&written).unwrap();
        assert_eq!(read, who);
        let again = read.dump();
        assert_eq!((&again.threads, &again.cgroups), (&dump.threads, &dump.cgroups));
        assert_eq!((&again.disks, &again.interfaces), (&dump.disks, &dump.interfaces));
        assert_eq!(again.interrupts[0].action, b"virtio1");
        let mut names = read.names();
        assert_eq!(names.thread(7), Some(Comm::new(b"a\xffb")));
        assert_eq!(
            (names.interrupt(36), names.interface(2)),
            (Some(b"virtio1".to_vec()), Some(vec![0xfe]))
        );
    }

    #[test]
    fn threads_with_the_most_events_are_named() {
        let tids = BTreeMap::from([(1, 1), (2, 3), (7, 5), (9, 4)]);
        assert_eq!(busiest(&tids, 2), BTreeSet::from([7, 9]));
        assert_eq!(busiest(&tids, 9).len(), 4);
        // Higher numbers than a thread can have.
        let unnamed = |threads: u32| {
            let tids = (0..threads).map(|at| (1 << 23 | at, 1)).collect();
            KeptNumbers::read(&tids, &BTreeSet::new()).unnamed
        };
        assert_eq!([8_192, 8_195].map(unnamed), [0, 3]);
    }

    #[test]
    fn labels_of_cgroups_have_any_letters() {
        let paths = [("/bäcker", 3), ("/system.slice/日本.service", 4)];
        let own = paths.map(|(path, tid)| (path.as_bytes().to_vec(), vec![tid]));
        let who = KeptNumbers::of(&Dump { cgroups: own.into(), ..Dump::default() });
        for (path, tid) in paths {
            let label = Identity::of(path).label;
            assert_eq!(who.cgroup_of(tid.cast_unsigned()), Some(label.clone()));
            assert_eq!(who.of_cgroup(&label), BTreeSet::from([tid.cast_unsigned()]), "{label}");
        }
        assert_eq!(who.cgroup_of(3).as_deref(), Some("/bäcker"));
    }

    #[test]
    fn threads_of_a_cgroup_are_found_by_its_label() {
        let cgroups = vec![
            ("/system.slice/web.service".to_owned(), vec![3, 4]),
            ("/system.slice/db.service".to_owned(), vec![5]),
            ("/".to_owned(), vec![6]),
            ("/docker/0123456789ab".to_owned(), vec![8]),
        ];
        let labels = vec![("/docker/0123456789ab".to_owned(), "docker:web".to_owned())];
        let who = KeptNumbers { cgroups, labels, ..KeptNumbers::default() };
        assert_eq!(who.of_cgroup("web.service"), BTreeSet::from([3, 4]));
        assert_eq!(who.of_cgroup("/"), BTreeSet::from([6]));
        for label in ["docker:web", "docker:0123456789ab"] {
            assert_eq!(who.of_cgroup(label), BTreeSet::from([8]), "{label}");
        }
        assert_eq!(who.of_cgroup("vda read"), BTreeSet::new());
        let labels = [3, 6, 8].map(|tid| who.cgroup_of(tid).unwrap());
        assert_eq!(labels, ["web.service", "/", "docker:web"]);
        assert_eq!(who.cgroup_of(9), None);
    }
}
