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

use noise_record::{DumpedHost, cgroup_of};

/// Most threads that are named.
const MOST_THREADS: usize = 8192;
/// Most threads of which it is asked whether they are the victim's, and come first then.
const MOST_LOOKED_AT: usize = 65_536;
/// Most interrupts that are named.
const MOST_INTERRUPTS: usize = 64;

/// Bytes as a text that has the same numbers: names may be any bytes.
fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect()
}

/// So many of the threads: those that come first, and then those with the most events.
fn named(
    tids: &BTreeMap<u32, u64>,
    most: usize,
    mut is_first: impl FnMut(u32) -> bool,
) -> BTreeSet<u32> {
    if tids.len() <= most {
        return tids.keys().copied().collect();
    }
    let mut all: Vec<_> = tids.iter().map(|(tid, events)| (*tid, *events)).collect();
    all.sort_by_key(|(_, events)| Reverse(*events));
    let looked_at = all.iter().take(MOST_LOOKED_AT).map(|(tid, _)| *tid);
    let first: BTreeSet<u32> = looked_at.filter(|tid| is_first(*tid)).collect();
    // The order of equal ones stays.
    all.sort_by_key(|(tid, _)| !first.contains(tid));
    all.into_iter().take(most).map(|(tid, _)| tid).collect()
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
    /// Of too many threads, those of the victim come first, whose cgroup has that label.
    pub fn read(tids: &BTreeMap<u32, u64>, irqs: &BTreeSet<u32>, victim: &str) -> Self {
        let host = read_host(Path::new("/"));
        let version = procfs::text("/proc/sys/kernel/version").unwrap_or_default();
        let interrupt = |&irq: &u32| (irq, irq_name(Path::new("/proc"), irq.into()));
        let (mut nodes, now) = (NodeNames::of_host(), Instant::now());
        let mut labels: HashMap<Vec<u8>, String> = HashMap::new();
        let mut label_of = |bytes: Vec<u8>| {
            let known = labels.entry(bytes);
            let known = known.or_insert_with_key(|bytes| {
                nodes.identity(Path::new(OsStr::from_bytes(bytes)), now).label
            });
            known.clone()
        };
        let is_victims = |tid: u32| {
            let own = cgroup_of(Path::new(&format!("/proc/{tid}")));
            own.is_some_and(|own| label_of(own) == victim)
        };
        let dump = DumpedHost::default().dump_of(&named(tids, MOST_THREADS, is_victims));
        let mut label = |bytes: &Vec<u8>| {
            let label = label_of(bytes.clone());
            let is_own = label == Identity::of(Path::new(OsStr::from_bytes(bytes))).label;
            (!is_own).then(|| (text(bytes), label))
        };
        Self {
            labels: dump.cgroups.keys().filter_map(&mut label).collect(),
            hostname: host.name,
            kernel: host.kernel,
            version: version.trim().to_owned(),
            recorder: format!("noised {}", host.noised),
            interrupts: irqs.iter().take(MOST_INTERRUPTS).map(interrupt).collect(),
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
            buffer_bytes: None,
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
            disks: vec![(8 << 20, b"sda".to_vec())],
            interfaces: vec![(2, b"\xfe".to_vec())],
            namespace: 5,
            cgroups: [(b"/system.slice/\xff.service".to_vec(), vec![7])].into(),
            ..Dump::default()
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
        assert_eq!(named(&tids, 2, |_| false), BTreeSet::from([7, 9]));
        assert_eq!(named(&tids, 9, |_| false).len(), 4);
        // Of those that come first, too, these are the ones with the most events.
        assert_eq!(named(&tids, 2, |tid| tid == 1), BTreeSet::from([1, 7]));
        assert_eq!(named(&tids, 1, |tid| tid != 7), BTreeSet::from([9]));
        // Higher numbers than a thread can have.
        let unnamed = |threads: u32| {
            let tids = (0..threads).map(|at| (1 << 23 | at, 1)).collect();
            KeptNumbers::read(&tids, &BTreeSet::new(), "").unnamed
        };
        assert_eq!([8_192, 8_195].map(unnamed), [0, 3]);
    }

    #[test]
    fn threads_of_the_victim_are_named_first() {
        let own = std::process::id();
        let others = (0..9_000).map(|at| (1 << 23 | at, 5));
        let tids: BTreeMap<u32, u64> = others.chain([(own, 1)]).collect();
        let path = cgroup_of(Path::new("/proc/self")).unwrap();
        let mut nodes = NodeNames::of_host();
        let label = nodes.identity(Path::new(OsStr::from_bytes(&path)), Instant::now()).label;
        let has_own = |victim: &str| {
            let who = KeptNumbers::read(&tids, &BTreeSet::new(), victim);
            who.threads.iter().any(|thread| thread.tid == own.cast_signed())
        };
        assert_eq!((has_own(&label), has_own("another")), (true, false));
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
