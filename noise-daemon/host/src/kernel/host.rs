//! Privileges and restrictions of this process on this host.

use std::path::Path;

use caps::CapSet;
pub use caps::Capability;
use noise_system::procfs;

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
/// kernels require, stands for both. In a user namespace of its own a process has none that count.
pub fn missing_capabilities() -> Vec<Capability> {
    let counts = !has_own_users(Path::new("/proc"));
    let has =
        |capability| counts && caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false);
    if has(Capability::CAP_SYS_ADMIN) {
        return Vec::new();
    }
    [Capability::CAP_BPF, Capability::CAP_PERFMON]
        .into_iter()
        .filter(|capability| !has(*capability))
        .collect()
}

/// The user namespace of the host (`PROC_USER_INIT_INO` of the kernel's `proc_ns.h`).
const HOST_USERS: &str = "user:[4026531837]";

/// Whether this process is in a user namespace of its own, by a procfs root. Whatever capabilities it
/// has there, the kernel requires those of the host's before it loads BPF programs.
pub fn has_own_users(procfs: &Path) -> bool {
    let users = std::fs::read_link(procfs.join("self/ns/user"));
    users.is_ok_and(|users| users != Path::new(HOST_USERS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_user_namespace_than_the_hosts_is_seen() {
        let root = tempfile::tempdir().unwrap();
        // Where the kernel has no such namespaces, there is no link.
        assert!(!has_own_users(root.path()));
        let link = root.path().join("self/ns/user");
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(HOST_USERS, &link).unwrap();
        assert!(!has_own_users(root.path()));
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("user:[4026532001]", &link).unwrap();
        assert!(has_own_users(root.path()));
    }

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
