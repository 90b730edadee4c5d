//! PURE: threads of the kernel that write the journal of a file system: who waits until they are done has asked for what it
//! wrote to be on the disk (`fsync`, `O_SYNC`, a rename), which takes flushes of the disk's cache.

/// How their names begin: of ext4, btrfs, f2fs and ZFS. XFS has work queues do it, whose threads serve others as well.
const NAMES: [&str; 4] = ["jbd2/", "btrfs-transacti", "f2fs_ckpt", "txg_sync"];

/// Whether a thread of the kernel of that name is one.
pub fn is_journal(comm: &str) -> bool {
    NAMES.iter().any(|name| comm.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journals_are_known_by_name() {
        assert!(is_journal("jbd2/vda1-8") && is_journal("btrfs-transacti"));
        assert!(!is_journal("kworker/0:1") && !is_journal("kjbd2"));
    }
}
