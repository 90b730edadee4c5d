//! Who is who among the threads of a dump, and who runs now.

use std::collections::{BTreeSet, HashMap};

use noise_system::procfs;
use noise_trace::capture::Dump;

/// The kernel's own process, whose children are kernel threads.
const KTHREADD: i32 = 2;

/// Threads of the kernel.
pub fn kernel_threads(dump: &Dump) -> BTreeSet<i32> {
    let is_kernel = |ppid: i32, tid: i32| ppid == KTHREADD || tid == KTHREADD;
    let threads = dump.threads.iter().filter(|thread| is_kernel(thread.ppid, thread.tid));
    threads.map(|thread| thread.tid).collect()
}

/// The cgroups of threads and, of those that have the one of their process, of the processes.
pub struct Cgroups<'d> {
    paths: HashMap<i32, &'d [u8]>,
    processes: HashMap<i32, i32>,
}

impl<'d> Cgroups<'d> {
    pub fn of(dump: &'d Dump) -> Self {
        let paths = dump.cgroups.iter();
        let paths = paths.flat_map(|(path, tids)| tids.iter().map(|tid| (*tid, path.as_slice())));
        let processes = dump.threads.iter().map(|thread| (thread.tid, thread.pid));
        Self { paths: paths.collect(), processes: processes.collect() }
    }

    /// That of a thread.
    pub fn get(&self, tid: i32) -> Option<&'d [u8]> {
        let of_process = || self.paths.get(self.processes.get(&tid)?);
        self.paths.get(&tid).or_else(of_process).copied()
    }
}

/// The state of a thread at the moment, by the letter that `/proc` has for it; `None` of one that is not there.
pub fn state(tid: i32) -> Option<u8> {
    // The file of the process adds up what all of its threads did.
    let stat = procfs::bytes(format!("/proc/{tid}/task/{tid}/stat")).ok()?;
    procfs::stat_fields(&stat)?.next()?.bytes().next()
}

/// Whether a thread runs, or wants to, at the moment.
pub fn runs(tid: i32) -> bool {
    state(tid) == Some(b'R')
}

#[cfg(test)]
mod tests {
    use noise_trace::event::{Comm, Dumped};

    use super::*;

    #[test]
    fn threads_have_the_cgroups_of_their_processes() {
        let thread = |tid, pid| Dumped { tid, pid, ppid: 1, comm: Comm::new(b"a") };
        let cgroups = [(b"/a".to_vec(), vec![7]), (b"/b".to_vec(), vec![9])].into();
        let threads = vec![thread(7, 7), thread(8, 7), thread(9, 7), thread(10, 10)];
        let dump = Dump { threads, cgroups, ..Dump::default() };
        let cgroups = Cgroups::of(&dump);
        let found = [7, 8, 9, 10, 11].map(|tid| cgroups.get(tid));
        let [a, b] = [b"/a", b"/b"].map(|path| Some(path.as_slice()));
        assert_eq!(found, [a, a, b, None, None]);
    }

    #[test]
    fn this_thread_runs() {
        assert!(runs(nix::unistd::gettid().as_raw()));
        assert_eq!((runs(0), state(0)), (false, None));
    }
}
