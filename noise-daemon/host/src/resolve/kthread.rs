//! IO: kernel threads by pid, under the name of what they do, whichever CPU they do it for.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lru::LruCache;
use noise_system::procfs;
use noise_text::clean::printable;

/// Threads that are remembered: workers die, and what they did is reported later.
const REMEMBERED: usize = 2_048;

/// Names of kernel threads, remembered from when each was first looked up.
#[derive(Debug)]
pub struct KernelThreads {
    procfs: PathBuf,
    known: LruCache<u64, Arc<str>>,
}

impl KernelThreads {
    /// Those below a procfs root.
    pub fn new(procfs: &Path) -> Self {
        let most = NonZeroUsize::new(REMEMBERED).unwrap_or(NonZeroUsize::MIN);
        Self { procfs: procfs.to_owned(), known: LruCache::sparse(most) }
    }

    /// The name of a thread; `None` where it is gone and was never looked up. `intern` makes the label.
    pub fn name(&mut self, pid: u64, intern: impl FnOnce(&str) -> Arc<str>) -> Option<Arc<str>> {
        if let Some(name) = self.known.get(&pid) {
            return Some(Arc::clone(name));
        }
        let comm = procfs::bytes(self.procfs.join(format!("{pid}/comm"))).ok()?;
        let name = intern(without_cpu(printable(comm.trim_ascii_end()).as_str()));
        self.known.put(pid, Arc::clone(&name));
        Some(name)
    }

    /// Whether there is no thread of that pid any more.
    pub fn is_gone(&self, pid: u64) -> bool {
        !self.procfs.join(pid.to_string()).exists()
    }

    /// Forgets the threads that are gone: their pids may come again for others.
    pub fn forget_gone(&mut self) {
        let procfs = &self.procfs;
        self.known.retain(|pid, _| procfs.join(pid.to_string()).exists());
    }
}

/// A thread's name without the CPU that it is bound to. Workers take on work of any kind, so the
/// kind that they had when they were looked up says nothing either.
pub fn without_cpu(comm: &str) -> &str {
    match comm.rsplit_once('/') {
        _ if comm.starts_with("kworker/") => "kworker",
        Some((name, cpu)) if !cpu.is_empty() && cpu.bytes().all(|byte| byte.is_ascii_digit()) => {
            name
        }
        _ => comm,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_left_out() {
        for (comm, name) in [
            ("ksoftirqd/1", "ksoftirqd"),
            ("kworker/0:1H-kblockd", "kworker"),
            ("kworker/u8:2-events_unbound", "kworker"),
            ("migration/3", "migration"),
            ("irq/36-virtio1", "irq/36-virtio1"),
            ("jbd2/vda1-8", "jbd2/vda1-8"),
            ("kswapd0", "kswapd0"),
            ("odd/", "odd/"),
            ("", ""),
        ] {
            assert_eq!(without_cpu(comm), name);
        }
    }

    #[test]
    fn a_thread_that_is_gone_keeps_its_name_until_the_next_sweep() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("7")).unwrap();
        std::fs::write(root.path().join("7/comm"), "kworker/1:2-events\n").unwrap();
        let mut threads = KernelThreads::new(root.path());
        let name = |threads: &mut KernelThreads, pid| threads.name(pid, |name| Arc::from(name));
        assert_eq!(name(&mut threads, 7).as_deref(), Some("kworker"));
        assert_eq!(name(&mut threads, 8), None);
        std::fs::create_dir(root.path().join("9")).unwrap();
        std::fs::write(root.path().join("9/comm"), b"irq/5-a\xff\x1b\n").unwrap();
        assert_eq!(name(&mut threads, 9).as_deref(), Some(r"irq/5-a\xff\x1b"));
        assert!(!threads.is_gone(7) && threads.is_gone(8));
        std::fs::remove_dir_all(root.path().join("7")).unwrap();
        assert_eq!(name(&mut threads, 7).as_deref(), Some("kworker"));
        threads.forget_gone();
        assert_eq!(name(&mut threads, 7), None);
    }
}
