//! Privileges and restrictions of this process on this host.

use std::path::Path;

use caps::CapSet;
pub use caps::Capability;

use crate::procfs;

/// The kernel's lockdown mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Lockdown {
    /// Not locked down, or the kernel has no such mode.
    None,
    /// The kernel may not be changed; reading is allowed.
    Integrity,
    /// Kernel memory may not be read either.
    Confidentiality,
}

/// Reads the lockdown mode below a sysfs root.
pub fn lockdown(sysfs: &Path) -> Lockdown {
    let text = procfs::text(sysfs.join("kernel/security/lockdown")).unwrap_or_default();
    if text.contains("[confidentiality]") {
        Lockdown::Confidentiality
    } else if text.contains("[integrity]") {
        Lockdown::Integrity
    } else {
        Lockdown::None
    }
}

/// Capabilities that loading needs and this process does not have. CAP_SYS_ADMIN, which older
/// kernels ask for, stands for both.
pub fn missing_capabilities() -> Vec<Capability> {
    let has = |capability| caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false);
    if has(Capability::CAP_SYS_ADMIN) {
        return Vec::new();
    }
    [Capability::CAP_BPF, Capability::CAP_PERFMON]
        .into_iter()
        .filter(|capability| !has(*capability))
        .collect()
}

/// Now on CLOCK_MONOTONIC, the clock of the programs, ns.
#[inline(always)]
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid, and this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lockdown_is_read_from_its_brackets() {
        for (text, mode) in [
            ("[none] integrity confidentiality\n", Lockdown::None),
            ("none [integrity] confidentiality\n", Lockdown::Integrity),
            ("none integrity [confidentiality]\n", Lockdown::Confidentiality),
        ] {
            let root = tempfile::tempdir().unwrap();
            let folder = root.path().join("kernel/security");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("lockdown"), text).unwrap();
            assert_eq!(lockdown(root.path()), mode);
        }
        assert_eq!(lockdown(Path::new("/nonexistent")), Lockdown::None);
    }
}
