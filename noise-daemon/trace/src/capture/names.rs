//! Names of threads, interrupts and interfaces.
//!
//! The events of the store have numbers only. Names come from the state dump; a new thread has its maker's
//! name, until an exec gives it another. A thread may also name itself, which is no event: while it runs its
//! name is looked up again from time to time, soon after it appeared and more and more rarely later.

use std::collections::{BTreeMap, HashMap};

use super::{Dump, idle};
use crate::event::{Comm, Dumped};

pub trait Look {
    /// Of a thread, unless it is gone.
    fn thread(&mut self, tid: u32) -> Option<Comm>;
    /// Of an interrupt's handlers.
    fn interrupt(&mut self, irq: u32) -> Option<Vec<u8>>;
    fn interface(&mut self, index: u32) -> Option<Vec<u8>>;
}

/// What tracers show of a thread whose name was never known.
const UNKNOWN: &[u8] = b"<...>";
/// How long a name is believed at least and at most, ns.
const BELIEVED_NS: (u64, u64) = (1_000_000, 4_000_000_000);
/// Names that are looked up again in one round.
const LOOKS: u32 = 256;
/// Interrupts and interfaces that are kept.
const MOST: usize = 65_536;

#[derive(Clone, Copy, Debug)]
struct ThreadEntry {
    comm: Comm,
    /// Its process, and that one's parent; 0 where that is not known.
    pid: u32,
    ppid: u32,
    /// Place of its cgroup in [`CapturedNames::cgroups`], from 1 on; 0 where that is not known.
    cgroup: u32,
    /// It was created, and is not on a run queue yet.
    is_newborn: bool,
    /// Since when there is this thread, as far as known.
    since_ns: u64,
    /// When its name is looked up again.
    look_at_ns: u64,
}

#[derive(Debug, Default)]
pub struct CapturedNames {
    threads: HashMap<u32, ThreadEntry>,
    /// Paths. A thread that is moved is no event: it stays in the one where it was at the begin, as do those
    /// that it creates.
    cgroups: Vec<Vec<u8>>,
    interrupts: HashMap<u32, Vec<u8>>,
    /// By index, and low bits of the namespace.
    interfaces: HashMap<(u32, u16), Vec<u8>>,
    namespace: u16,
    /// Names that may be looked up again in this round.
    looks: u32,
}

impl CapturedNames {
    /// As they are at the begin.
    pub fn new(dump: &Dump, begin_ns: u64) -> Self {
        let mut names = Self { namespace: dump.namespace as u16, ..Self::default() };
        let mut places = HashMap::new();
        for (path, threads) in &dump.cgroups {
            names.cgroups.push(path.clone());
            places.extend(threads.iter().map(|tid| (*tid, names.cgroups.len() as u32)));
        }
        for thread in &dump.threads {
            let look_at_ns = begin_ns.saturating_add(BELIEVED_NS.1 / 8);
            let since_ns = begin_ns.saturating_sub(BELIEVED_NS.1);
            let pid = thread.pid.cast_unsigned();
            let known = ThreadEntry {
                comm: thread.comm,
                pid,
                ppid: thread.ppid.cast_unsigned(),
                cgroup: [thread.tid, thread.pid]
                    .iter()
                    .find_map(|id| places.get(id).copied())
                    .unwrap_or_default(),
                is_newborn: false,
                since_ns,
                look_at_ns,
            };
            names.threads.insert(thread.tid.cast_unsigned(), known);
        }
        for interrupt in &dump.interrupts {
            names.interrupts.insert(interrupt.irq, interrupt.action.clone());
        }
        for (index, name) in &dump.interfaces {
            names.interfaces.insert((*index, names.namespace), name.clone());
        }
        names
    }

    /// Names may be looked up again.
    pub fn begin_round(&mut self) {
        self.looks = LOOKS;
    }

    /// The name of a thread at a time; of the idle task, that of a CPU's.
    pub fn thread(&mut self, tid: u32, cpu: u32, now_ns: u64, look: &mut impl Look) -> Comm {
        if tid == 0 {
            return idle(cpu);
        }
        let Some(known) = self.threads.get_mut(&tid) else {
            let comm = look.thread(tid).unwrap_or(Comm::new(UNKNOWN));
            self.insert(tid, comm, 0, now_ns);
            return comm;
        };
        if now_ns >= known.look_at_ns && self.looks > 0 {
            self.looks -= 1;
            let age_ns = now_ns.saturating_sub(known.since_ns);
            let believed_ns = age_ns.clamp(BELIEVED_NS.0, BELIEVED_NS.1);
            known.look_at_ns = now_ns.saturating_add(believed_ns);
            // One that is gone keeps its name.
            known.comm = look.thread(tid).unwrap_or(known.comm);
        }
        known.comm
    }

    fn insert(&mut self, tid: u32, comm: Comm, pid: u32, now_ns: u64) {
        let look_at_ns = now_ns.saturating_add(BELIEVED_NS.0);
        let known = ThreadEntry {
            comm,
            pid,
            ppid: 0,
            cgroup: 0,
            is_newborn: false,
            since_ns: now_ns,
            look_at_ns,
        };
        self.threads.insert(tid, known);
    }

    /// The process of a thread; 0 where that is not known.
    pub fn process(&self, tid: u32) -> u32 {
        self.threads.get(&tid).map_or(0, |known| known.pid)
    }

    /// A thread of a process was created by another one, whose name and cgroup it has.
    pub fn created(&mut self, tid: u32, pid: u32, maker: u32, comm: Comm, now_ns: u64) {
        let maker = self.threads.get(&maker);
        let (maker_pid, maker_ppid, cgroup) =
            maker.map_or((0, 0, 0), |known| (known.pid, known.ppid, known.cgroup));
        self.insert(tid, comm, pid, now_ns);
        if let Some(known) = self.threads.get_mut(&tid) {
            known.ppid = if pid == tid { maker_pid } else { maker_ppid };
            known.cgroup = cgroup;
            known.is_newborn = true;
        }
    }

    /// All threads that are known with their processes, in the order of their ids.
    pub fn threads(&self) -> Vec<Dumped> {
        let dumped = |(tid, known): (&u32, &ThreadEntry)| Dumped {
            tid: tid.cast_signed(),
            pid: known.pid.cast_signed(),
            ppid: known.ppid.cast_signed(),
            comm: known.comm,
        };
        let known = self.threads.iter().filter(|(_, known)| known.pid != 0);
        let mut threads: Vec<_> = known.map(dumped).collect();
        threads.sort_unstable_by_key(|thread| thread.tid);
        threads
    }

    /// Cgroups with their threads, but those that are where their process's first thread is.
    pub fn cgroups(&self) -> BTreeMap<Vec<u8>, Vec<i32>> {
        let mut cgroups: BTreeMap<Vec<u8>, Vec<i32>> = BTreeMap::new();
        for (tid, known) in self.threads.iter().filter(|(_, known)| known.pid != 0) {
            let first = self.threads.get(&known.pid).filter(|_| known.pid != *tid);
            let place = known.cgroup.checked_sub(1).map(|place| place as usize);
            if let Some(path) = place.and_then(|place| self.cgroups.get(place))
                && first.is_none_or(|first| first.cgroup != known.cgroup)
            {
                cgroups.entry(path.clone()).or_default().push(tid.cast_signed());
            }
        }
        cgroups.values_mut().for_each(|threads| threads.sort_unstable());
        cgroups
    }

    /// A new thread is on a run queue; one whose creation was not seen has its maker's name.
    pub fn started(&mut self, tid: u32, comm: Comm, now_ns: u64) {
        match self.threads.get_mut(&tid).filter(|known| known.is_newborn) {
            Some(known) => known.is_newborn = false,
            None => self.insert(tid, comm, 0, now_ns),
        }
    }

    pub fn renamed(&mut self, tid: u32, comm: Comm, now_ns: u64) {
        match self.threads.get_mut(&tid) {
            Some(known) => known.comm = comm,
            None => self.insert(tid, comm, 0, now_ns),
        }
    }

    /// A thread is gone; its number may come again for another.
    pub fn gone(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }

    /// What handles an interrupt.
    pub fn interrupt(&mut self, irq: u32, look: &mut impl Look) -> &[u8] {
        if self.interrupts.len() >= MOST {
            self.interrupts.clear();
        }
        let found = || look.interrupt(irq).unwrap_or_else(|| format!("irq{irq}").into_bytes());
        self.interrupts.entry(irq).or_insert_with(found)
    }

    /// The name of an interface. Those of other network namespaces have names of their own there.
    pub fn interface(&mut self, index: u32, namespace: u16, look: &mut impl Look) -> &[u8] {
        if self.interfaces.len() >= MOST {
            self.interfaces.clear();
        }
        let is_own = namespace == self.namespace;
        let found = || {
            let name = if is_own { look.interface(index) } else { None };
            name.unwrap_or_else(|| match is_own {
                true => format!("if{index}").into_bytes(),
                false => format!("if{index}@{namespace}").into_bytes(),
            })
        };
        self.interfaces.entry((index, namespace)).or_insert_with(found)
    }
}
