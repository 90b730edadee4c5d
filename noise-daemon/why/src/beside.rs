//! The host of a victim, as far as it is known beside the events.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use noise_text::clean::as_text;
use noise_trace::threads::Threads;

/// What is known of the host beside the events.
pub struct Known<'a> {
    pub kernel: &'a BTreeSet<i32>,
    /// Whether a thread runs at the moment.
    pub runs: &'a dyn Fn(i32) -> bool,
    /// The path of the cgroup that a thread is in.
    pub cgroup: &'a dyn Fn(i32) -> Option<&'a [u8]>,
    /// The label of a cgroup's path.
    pub label: &'a dyn Fn(&Path) -> String,
}

/// The path of a thread's cgroup: the one that it is in; of one that has ended, the one that it was created in.
pub fn path_of(known: &Known<'_>, threads: &Threads, tid: i32) -> Option<PathBuf> {
    let path = (known.cgroup)(tid).or_else(|| threads.cgroup(tid))?;
    Some(PathBuf::from(as_text(path).into_owned()))
}
