//! IO: what the daemon gives up once it measures: capabilities, other files, other system calls.
//!
//! Everything that needs privileges (loading and attaching, listening, keys) has been done by then.
//! Afterwards an attacker who takes over the daemon cannot load programs, start others, signal them, write
//! elsewhere than in its state directory, or connect to anything. What is left is listed in
//! `docs/privileges.md`, and tried there and then by the live tests.

mod capabilities;
mod files;
mod system_calls;

use std::fmt;
use std::path::PathBuf;

use anyhow::Context as _;
use caps::Capability;

pub use capabilities::{reader, threads_with_capabilities, without};
pub use files::{folder_of, is_root, landlock, out_of_reach, seen_once};
pub use system_calls::filters_system_calls;

#[derive(Clone, Debug, Default)]
pub struct Rest {
    /// Files and folders that are read; those that are missing are left out.
    pub read: Vec<PathBuf>,
    /// Folders whose entries are listed, with those below; no file there is opened.
    pub list: Vec<PathBuf>,
    /// Files that are read again when they are replaced: their folders stay readable, and
    /// those where symbolic links lead now.
    pub read_again: Vec<PathBuf>,
    /// Folders in which files are replaced.
    pub write: Vec<PathBuf>,
    /// Folders from which a file is removed.
    pub remove: Vec<PathBuf>,
    /// The capability that is kept, because reading maps needs it on this kernel.
    pub kept: Option<Capability>,
}

/// How far this kernel confines the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confined {
    pub kept: Option<Capability>,
    /// How far files, ports and signals are.
    pub files: Extent,
    /// Whether system calls are.
    pub system_calls: Extent,
}

/// How far something is confined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// As far as noised knows how.
    Whole,
    /// In part: the kernel does not know all of it.
    Part,
    /// Not at all, as the kernel cannot; why.
    Not(String),
    /// Not at all, though the kernel can: something else refuses it; what, and what to do about it.
    Refused(String),
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("confined"),
            Self::Part => f.write_str("confined as far as this kernel can"),
            Self::Not(reason) | Self::Refused(reason) => write!(f, "not confined: {reason}"),
        }
    }
}

/// Gives up everything but the rest, for the whole process. There is no way back.
///
/// What the kernel cannot do is reported and left out, and so is Landlock where an outer sandbox refuses it; what the
/// kernel can do but refuses is an error.
/// Errors: where a thread keeps what was to be given up.
pub fn confine(rest: &Rest) -> anyhow::Result<Confined> {
    nix::sys::prctl::set_no_new_privs().context("cannot set no_new_privs")?;
    // Another process of the same user could attach, and take the maps and sockets over.
    nix::sys::prctl::set_dumpable(false).context("cannot keep other processes from attaching")?;
    let files = files::confine(rest)?;
    capabilities::drop_all(rest.kept)?;
    let system_calls = system_calls::confine()?;
    let with = threads_with_capabilities(rest.kept);
    let with = with.context("cannot read the capabilities of threads")?;
    anyhow::ensure!(
        with.is_empty(),
        "threads {with:?} still have capabilities: start with --privileges.drop=false and report this"
    );
    Ok(Confined { kept: rest.kept, files, system_calls })
}
