//! aya's loader, without the kernel's type information, which it would parse whole for itself.
//!
//! `EbpfLoader::new` reads [`KernelBtf::PATH`] before that can be switched off: three times the size of
//! the file for a moment, the most that a start takes. Without a descriptor to open it with, it goes
//! without.

use std::fs;

use aya::EbpfLoader;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

#[cfg(doc)]
use super::KernelBtf;

/// No descriptor can be opened until this is dropped.
struct NoDescriptors {
    soft: u64,
    hard: u64,
}

impl NoDescriptors {
    fn begin() -> Option<Self> {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
        setrlimit(Resource::RLIMIT_NOFILE, 0, hard).ok()?;
        Some(Self { soft, hard })
    }
}

impl Drop for NoDescriptors {
    fn drop(&mut self) {
        // It was so a moment ago.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, self.soft, self.hard);
    }
}

/// Whether this process has one thread: another would feel it, too, when there are no descriptors.
pub fn is_alone() -> bool {
    fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.take(2).count() == 1)
}

/// A loader that relocates no types: the programs take what differs between kernels from globals.
pub fn loader<'a>() -> EbpfLoader<'a> {
    let no_descriptors = if is_alone() { NoDescriptors::begin() } else { None };
    let mut loader = EbpfLoader::new();
    drop(no_descriptors);
    loader.btf(None);
    loader
}
