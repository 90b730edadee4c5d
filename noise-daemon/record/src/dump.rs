//! Who and what there is when a recording begins, and names that are asked for later.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use noise_host::resolve::disks;
use noise_system::procfs::{self, ThreadStatus};
use noise_system::unix_sockets::{self, UnixSocket};
use noise_trace::capture::{Dump, Interrupt, Look};
use noise_trace::event::{Comm, Dumped};
use noise_trace::ipc::Connection;

use crate::files;

/// What the kernel puts behind the path of a cgroup that was removed.
const GONE: &[u8] = b" (deleted)";

/// The host, below roots of procfs and sysfs.
pub struct DumpedHost {
    procfs: PathBuf,
    sysfs: PathBuf,
}

/// Names of a folder that are numbers.
fn numbers(folder: &Path) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Without the line break at its end.
fn line(path: &Path) -> Option<Vec<u8>> {
    Some(procfs::bytes(path).ok()?.trim_ascii_end().to_vec())
}

fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    str::from_utf8(&line(path)?).ok()?.parse().ok()
}

/// The parent, from a process's `stat`.
fn parent(stat: &[u8]) -> Option<i32> {
    procfs::stat_fields(stat)?.nth(1)?.parse().ok()
}

/// The path of the cgroup that a thread counts for: that of version 2, or where that is the root, that of
/// version 1's `cpu` controller.
pub fn cgroup(thread: &Path) -> Option<Vec<u8>> {
    let lines = procfs::bytes(thread.join("cgroup")).ok()?;
    let path = |fits: fn(&[u8]) -> bool| {
        procfs::cgroup_path(&lines, fits).map(|path| path.strip_suffix(GONE).unwrap_or(path))
    };
    let unified = path(<[u8]>::is_empty);
    let below_root = unified.filter(|path| *path != b"/");
    Some(below_root.or_else(|| path(procfs::has_cpu)).or(unified)?.to_vec())
}

impl Default for DumpedHost {
    fn default() -> Self {
        Self { procfs: "/proc".into(), sysfs: "/sys".into() }
    }
}

impl DumpedHost {
    /// What is there now.
    pub fn dump(&self) -> Dump {
        let mut dump = Dump {
            interrupts: self.interrupts(),
            disks: self.disks(),
            interfaces: self.interfaces(),
            namespace: self.namespace(),
            ..Dump::default()
        };
        self.add_threads(&mut dump);
        dump
    }

    /// Adds the files of communication that the processes have open which are in it, and the sockets of their network
    /// namespaces; what to know of it, if not all of them are in it.
    pub fn add_files(&self, dump: &mut Dump) -> Option<String> {
        let pids = dump.threads.iter().map(|thread| thread.pid).collect();
        files::add(&self.procfs, &pids, &self.unix_sockets(&pids), dump)
    }

    /// The sockets of the internet in all network namespaces of processes.
    pub fn sockets(&self) -> Vec<Connection> {
        let pids = numbers(&self.procfs).into_iter().collect();
        let mut sockets = Vec::new();
        files::add_sockets(&self.procfs, &pids, &mut sockets);
        sockets
    }

    /// Inodes of the sockets that each of these processes has open, as far as they may be read.
    pub fn sockets_of(&self, pids: &BTreeSet<i32>) -> BTreeMap<i32, BTreeSet<u32>> {
        pids.iter().map(|pid| (*pid, files::inodes(&self.procfs, *pid, "socket"))).collect()
    }

    /// The same of pipes without a name.
    pub fn pipes_of(&self, pids: &BTreeSet<i32>) -> BTreeMap<i32, BTreeSet<u32>> {
        pids.iter().map(|pid| (*pid, files::inodes(&self.procfs, *pid, "pipe"))).collect()
    }

    /// The unix sockets of the network namespaces that these processes are in, as far as these may be entered.
    pub fn unix_sockets(&self, pids: &BTreeSet<i32>) -> Vec<UnixSocket> {
        let own = self.namespace();
        let read = |(namespace, folder): (u64, PathBuf)| match namespace == own {
            true => unix_sockets::read(),
            false => unix_sockets::read_in(&folder.join("ns/net")),
        };
        // What is not said leaves unknown who asks over them.
        let all = files::namespaces(&self.procfs, pids).into_iter();
        all.flat_map(|one| read(one).unwrap_or_default()).collect()
    }

    /// Whether a socket waits on a port for requests, in a network namespace of a process.
    pub fn listens(&self, port: u16) -> bool {
        self.sockets().iter().any(|socket| socket.local.port() == port && socket.remote.port() == 0)
    }

    /// The first process is in the one whose interfaces sysfs shows on a host.
    fn namespace(&self) -> u64 {
        fs::metadata(self.procfs.join("self/ns/net")).map_or(0, |file| file.ino())
    }

    /// Adds threads that are there now and not in it, with their cgroups.
    pub fn add_threads(&self, dump: &mut Dump) {
        let known: HashSet<i32> = dump.threads.iter().map(|thread| thread.tid).collect();
        for pid in numbers(&self.procfs) {
            let folder = self.procfs.join(pid.to_string());
            let mut new = numbers(&folder.join("task"));
            new.retain(|tid| !known.contains(tid));
            if new.is_empty() {
                continue;
            }
            // What ends meanwhile is not there.
            let Ok(stat) = procfs::bytes(folder.join("stat")) else { continue };
            let ppid = parent(&stat).unwrap_or(0);
            let first = cgroup(&folder);
            for tid in new {
                let thread = folder.join(format!("task/{tid}"));
                let Some(comm) = line(&thread.join("comm")) else { continue };
                dump.threads.push(Dumped { tid, pid, ppid, comm: Comm::new(&comm) });
                let own = if tid == pid { first.clone() } else { cgroup(&thread) };
                if let Some(path) = own.filter(|own| tid == pid || first.as_ref() != Some(own)) {
                    dump.cgroups.entry(path).or_default().push(tid);
                }
            }
        }
    }

    /// What is there now, of threads these alone and the first ones of their processes, and no interrupts.
    pub fn dump_of(&self, tids: &BTreeSet<u32>) -> Dump {
        let mut dump = Dump {
            disks: self.disks(),
            interfaces: self.interfaces(),
            namespace: self.namespace(),
            ..Dump::default()
        };
        let mut firsts = BTreeSet::new();
        for &tid in tids {
            if let Some(pid) = self.add_thread(tid, &mut dump) {
                firsts.insert(pid);
            }
        }
        for &pid in firsts.difference(tids) {
            self.add_thread(pid, &mut dump);
        }
        dump
    }

    /// Adds a thread, unless it is gone; its process.
    fn add_thread(&self, tid: u32, dump: &mut Dump) -> Option<u32> {
        // Threads are there by their ids, too, though no list of the folder shows them.
        let folder = self.procfs.join(tid.to_string());
        let comm = line(&folder.join("comm"))?;
        let ThreadStatus { process: pid, parent: ppid, .. } = ThreadStatus::read(&folder).ok()?;
        let of = tid.cast_signed();
        dump.threads.push(Dumped { tid: of, pid, ppid, comm: Comm::new(&comm) });
        if let Some(path) = cgroup(&folder) {
            dump.cgroups.entry(path).or_default().push(of);
        }
        u32::try_from(pid).ok().filter(|pid| *pid > 0)
    }

    fn interrupt_folder(&self, irq: u32) -> PathBuf {
        self.sysfs.join(format!("kernel/irq/{irq}"))
    }

    fn interrupts(&self) -> Vec<Interrupt> {
        let irqs = numbers(&self.sysfs.join("kernel/irq")).into_iter();
        let mut irqs: Vec<u32> = irqs.filter_map(|irq| irq.try_into().ok()).collect();
        irqs.sort_unstable();
        let interrupt = |irq: u32| {
            let folder = self.interrupt_folder(irq);
            let action = line(&folder.join("actions")).filter(|action| !action.is_empty())?;
            let chip = line(&folder.join("chip_name")).unwrap_or_default();
            Some(Interrupt { irq, chip, action })
        };
        irqs.into_iter().filter_map(interrupt).collect()
    }

    fn disks(&self) -> Vec<(u32, Vec<u8>)> {
        disks(&self.procfs, &self.sysfs).into_iter().collect()
    }

    fn interfaces(&self) -> Vec<(u32, Vec<u8>)> {
        let entries = fs::read_dir(self.sysfs.join("class/net")).into_iter().flatten().flatten();
        let interface = |entry: fs::DirEntry| {
            let index = number(&entry.path().join("ifindex"))?;
            Some((index, OsStr::as_bytes(&entry.file_name()).to_vec()))
        };
        let interfaces: BTreeMap<u32, Vec<u8>> = entries.filter_map(interface).collect();
        interfaces.into_iter().collect()
    }
}

impl Look for DumpedHost {
    fn thread(&mut self, tid: u32) -> Option<Comm> {
        // Threads are there by their ids, too, though no list of the folder shows them.
        let comm = line(&self.procfs.join(format!("{tid}/comm")))?;
        Some(Comm::new(&comm))
    }

    fn interrupt(&mut self, irq: u32) -> Option<Vec<u8>> {
        line(&self.interrupt_folder(irq).join("actions")).filter(|action| !action.is_empty())
    }

    fn interface(&mut self, index: u32) -> Option<Vec<u8>> {
        self.interfaces().into_iter().find(|(of, _)| *of == index).map(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_read_below_its_roots() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: &[u8]| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        write("proc/12/stat", b"12 (a) b) S 7 12 12");
        write("proc/12/task/12/comm", b"a) b\n");
        write("proc/12/task/13/comm", b"w\xff\n");
        write("proc/13/comm", b"w\xff\n");
        write("proc/12/cgroup", b"3:cpuacct,cpu:/v1\n0::/a b (deleted)\n");
        write("proc/12/task/13/cgroup", b"3:cpuacct,cpu:/v1:x\n0::/\n");
        write("proc/12/task/14/cgroup", b"3:cpuacct,cpu:/v1\n0::/a b\n");
        write("proc/net/dev", b"");
        write("proc/self/ns/net", b"");
        write("sys/kernel/irq/9/actions", b"acpi\n");
        write("sys/kernel/irq/9/chip_name", b"IO-APIC\n");
        write("sys/kernel/irq/10/actions", b"\n");
        write("sys/class/net/eth0/ifindex", b"2\n");
        write("proc/diskstats", b" 259       2 nvme0c0n1 41 0 328 11 0 0 0 0 0 8 11\n");
        fs::create_dir_all(root.path().join("sys/dev/block")).unwrap();
        let disk = root.path().join("sys/dev/block/8:16");
        std::os::unix::fs::symlink("../../block/sdb", disk).unwrap();
        let [procfs, sysfs] = ["proc", "sys"].map(|name| root.path().join(name));
        let mut host = DumpedHost { procfs, sysfs };
        let mut dump = host.dump();
        write("proc/12/task/14/comm", b"new\n");
        host.add_threads(&mut dump);
        let cgroups = [(b"/a b".to_vec(), vec![12]), (b"/v1:x".to_vec(), vec![13])];
        assert_eq!(dump.cgroups, cgroups.into());
        let mut threads = dump.threads;
        threads.sort_by_key(|thread| thread.tid);
        let thread = |tid, comm: &[u8]| Dumped { tid, pid: 12, ppid: 7, comm: Comm::new(comm) };
        let expected = [thread(12, b"a) b"), thread(13, b"w\xff"), thread(14, b"new")];
        assert_eq!(threads, expected);
        let acpi = Interrupt { irq: 9, chip: b"IO-APIC".to_vec(), action: b"acpi".to_vec() };
        assert_eq!(dump.interrupts, [acpi]);
        let disks = [(8 << 20 | 16, b"sdb".to_vec()), (259 << 20 | 2, b"nvme0c0n1".to_vec())];
        assert_eq!(dump.disks, disks);
        assert_eq!(dump.interfaces, [(2, b"eth0".to_vec())]);
        write("proc/13/status", b"Name:\tw\nTgid:\t12\nPid:\t13\nPPid:\t7\n");
        write("proc/13/cgroup", b"0::/c\n");
        write("proc/12/status", b"Name:\ta) b\nTgid:\t12\nPid:\t12\nPPid:\t7\n");
        write("proc/12/comm", b"a) b\n");
        let some = host.dump_of(&BTreeSet::from([13, 15]));
        assert_eq!(some.threads, [thread(13, b"w\xff"), thread(12, b"a) b")]);
        assert_eq!(some.cgroups, [(b"/a b".to_vec(), vec![12]), (b"/c".to_vec(), vec![13])].into());
        assert_eq!(host.thread(13), Some(Comm::new(b"w\xff")));
        assert_eq!(host.thread(14), None);
        assert_eq!(host.interface(2), Some(b"eth0".to_vec()));
        assert_eq!((host.interrupt(9), host.interrupt(10)), (Some(b"acpi".to_vec()), None));
    }
}
