//! Capabilities are those of a thread: they are dropped before others start.

use std::{fs, io, thread};

use anyhow::Context as _;
use caps::{CapSet, Capability};
use noise_system::procfs;

/// The capability for reading maps, on kernels where that needs one: CAP_BPF, or CAP_SYS_ADMIN where
/// the daemon was given that in its place.
pub fn reader() -> Capability {
    match caps::has_cap(None, CapSet::Permitted, Capability::CAP_BPF) {
        Ok(false) => Capability::CAP_SYS_ADMIN,
        Ok(true) | Err(_) => Capability::CAP_BPF,
    }
}

/// Drops every capability of this thread but the one that is kept, and for good.
pub fn drop_all(kept: Option<Capability>) -> anyhow::Result<()> {
    let kept = kept.into_iter().collect();
    // Kernels before 4.3 have no ambient ones. Those of the bounding set can only be dropped with
    // CAP_SETPCAP; without it they are out of reach anyway, because nothing is executed any more.
    let _ = caps::clear(None, CapSet::Ambient);
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP).unwrap_or(false) {
        caps::clear(None, CapSet::Bounding).context("cannot drop the bounding capabilities")?;
    }
    caps::clear(None, CapSet::Inheritable).context("cannot drop the inheritable capabilities")?;
    caps::set(None, CapSet::Effective, &kept).context("cannot drop the effective capabilities")?;
    caps::set(None, CapSet::Permitted, &kept).context("cannot drop the permitted capabilities")
}

/// What a thread finds that has no capability; `None` where it cannot get rid of them.
/// Errors: where there can be no further thread.
pub fn without<T: Send>(find: impl FnOnce() -> T + Send) -> io::Result<Option<T>> {
    let finding = move || drop_all(None).ok().map(|()| find());
    thread::scope(|scope| {
        let finding = thread::Builder::new().spawn_scoped(scope, finding)?;
        Ok(finding.join().ok().flatten())
    })
}

/// The threads of this process that have another capability than the one that is kept, or may have it.
/// Errors: where `/proc` cannot be read.
pub fn threads_with_capabilities(kept: Option<Capability>) -> io::Result<Vec<u32>> {
    let mut with = Vec::new();
    for entry in fs::read_dir("/proc/self/task")? {
        let entry = entry?;
        let status = match procfs::text(entry.path().join("status")) {
            Ok(status) => status,
            // It has ended meanwhile.
            Err(_) => continue,
        };
        if has_others(&status, kept) {
            with.extend(entry.file_name().to_str().and_then(|id| id.parse::<u32>().ok()));
        }
    }
    Ok(with)
}

fn has_others(status: &str, kept: Option<Capability>) -> bool {
    let kept = kept.map_or(0, |kept| kept.bitmask());
    let sets = [("CapInh:", 0), ("CapPrm:", kept), ("CapEff:", kept), ("CapAmb:", 0)];
    status.lines().any(|line| {
        let set = sets.iter().find_map(|(set, kept)| Some((line.strip_prefix(set)?, kept)));
        set.is_some_and(|(held, kept)| {
            // What cannot be read may be anything.
            u64::from_str_radix(held.trim(), 16).map_or(true, |held| held & !kept != 0)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_a_status() {
        let status = |inheritable: &str, effective: &str| {
            format!(
                "Name:\tx\nCapInh:\t{inheritable}\nCapPrm:\t0000000000000000\nCapEff:\t{effective}\nCapBnd:\t000001ffffffffff\n"
            )
        };
        let (none, bpf) = ("0000000000000000", "0000008000000000");
        assert!(!has_others(&status(none, none), None));
        assert!(has_others(&status(none, bpf), None));
        assert!(!has_others(&status(none, bpf), Some(Capability::CAP_BPF)));
        assert!(has_others(&status(none, bpf), Some(Capability::CAP_SYS_ADMIN)));
        assert!(has_others(&status(bpf, none), Some(Capability::CAP_BPF)));
        assert!(has_others(&status(none, "many"), None));
        // The name of a thread need not be text.
        let named = [&b"Name:\tx\xff\n"[..], status(none, bpf).as_bytes()].concat();
        assert!(has_others(&noise_text::clean::as_text(&named), None));
    }

    #[test]
    fn a_thread_without_capabilities_does_not_take_them_from_others() {
        let own = || threads_with_capabilities(None).unwrap().contains(&std::process::id());
        let before = own();
        let status = without(|| fs::read_to_string("/proc/thread-self/status").unwrap());
        assert!(!has_others(&status.unwrap().unwrap(), None));
        assert_eq!(own(), before);
    }
}
