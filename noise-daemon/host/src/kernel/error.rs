//! Why the kernel side cannot be used.

use std::path::PathBuf;

/// Why programs cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    #[error(
        "loading BPF programs needs {missing}, which this process does not have; \
         run as root, or grant CAP_BPF and CAP_PERFMON"
    )]
    NotPermitted {
        /// Names of the missing capabilities.
        missing: String,
    },
    /// Capabilities of another user namespace than the host's.
    #[error(
        "this process runs in a user namespace of its own (a rootless container, `unshare --user`, \
         PrivateUsers=), whose capabilities do not count for BPF programs: start noised outside of it, \
         as root or with CAP_BPF and CAP_PERFMON"
    )]
    OwnUsers,
    /// It has the capabilities, and is refused nevertheless.
    #[error(
        "the kernel forbids this process BPF programs although it has CAP_BPF and CAP_PERFMON ({0}): \
         allow bpf(2) in the seccomp filter or security module that it runs under (the profile of a \
         container, SystemCallFilter=, AppArmor, SELinux); before Linux 5.11, also raise the limit on \
         locked memory (ulimit -l, LimitMEMLOCK=)"
    )]
    Forbidden(String),
    /// The kernel's lockdown mode forbids reading kernel memory.
    #[error(
        "the kernel is locked down (mode \"confidentiality\"), which forbids BPF programs to read \
         kernel memory; boot with lockdown=integrity or none"
    )]
    Lockdown,
    #[error(
        "the kernel's type information at {} cannot be used ({reason}); \
         noised needs a kernel built with CONFIG_DEBUG_INFO_BTF", path.display()
    )]
    NoBtf {
        /// Where it should be.
        path: PathBuf,
        reason: String,
    },
    /// A facility is missing that all programs need.
    #[error("this kernel is too old: it has no {missing} (Linux 5.8 and later do)")]
    TooOld { missing: &'static str },
    /// Not one hook could be attached.
    #[error("no hook could be attached; the first refusal was: {first}")]
    NothingAttached {
        /// What the kernel said of the first hook.
        first: String,
    },
    /// A limit on this process leaves no room to start.
    #[error(
        "measuring needs {needed} {what}, and this process may have {allowed}: raise the limit \
         ({remedy})"
    )]
    NoRoom {
        what: &'static str,
        allowed: u64,
        /// What a start takes.
        needed: u64,
        /// Where it is set.
        remedy: &'static str,
    },
    /// The kernel refused the maps or the object.
    #[error("the kernel refused the BPF object: {0}")]
    Refused(String),
}

impl KernelError {
    /// Whether this kernel or these privileges can never do it, as opposed to a failure.
    pub fn is_unsupported(&self) -> bool {
        !matches!(self, Self::Refused(_) | Self::NoRoom { .. })
    }
}
