//! IO: what there is to say of this host.

use std::collections::BTreeSet;
use std::path::Path;

use crate::clean::clean;
use crate::model::Host;
use crate::procfs;

/// Larger than the number of CPUs of any kernel: a range that says more is no range.
const MOST_CPUS: u32 = 1 << 16;

/// Reads what the kernel says of this host, below a root.
pub fn read_host(root: &Path) -> Host {
    let read = |path: &str| procfs::text(root.join(path)).unwrap_or_default();
    let line = |path: &str| clean(read(path).trim()).into_owned();
    let online = cpus(&read("sys/devices/system/cpu/online"));
    let among = |path: &str| {
        let said = cpus(&read(path));
        said.intersection(&online).copied().collect()
    };
    Host {
        name: line("proc/sys/kernel/hostname"),
        kernel: line("proc/sys/kernel/osrelease"),
        noised: env!("CARGO_PKG_VERSION").to_owned(),
        isolated: among("sys/devices/system/cpu/isolated"),
        nohz_full: among("sys/devices/system/cpu/nohz_full"),
        cpus: online.into_iter().collect(),
    }
}

/// A list as the kernel writes it (`0-3,8`); what is none (`(null)`) is empty.
fn cpus(list: &str) -> BTreeSet<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        (last < MOST_CPUS).then_some(first..=last)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_host_is_read_below_a_root() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/sys/kernel/hostname", "box\n");
        write("proc/sys/kernel/osrelease", "6.12.0-rt\n");
        write("sys/devices/system/cpu/online", "0-3,8\n");
        write("sys/devices/system/cpu/isolated", "2-3,9\n");
        write("sys/devices/system/cpu/nohz_full", " (null)\n");
        let host = read_host(root.path());
        assert_eq!((&*host.name, &*host.kernel), ("box", "6.12.0-rt"));
        assert_eq!(host.noised, env!("CARGO_PKG_VERSION"));
        assert_eq!(host.cpus, [0, 1, 2, 3, 8]);
        assert_eq!(host.isolated, [2, 3]);
        assert!(host.nohz_full.is_empty());
        fs::write(root.path().join("proc/sys/kernel/hostname"), b"b\xffx\n").unwrap();
        assert_eq!(read_host(root.path()).name, r"b\xffx");
    }

    #[test]
    fn what_is_not_there_is_empty() {
        let host = read_host(Path::new("/nonexistent"));
        assert_eq!(host, Host { noised: host.noised.clone(), ..Host::default() });
    }

    #[test]
    fn lists_that_make_no_sense_are_empty() {
        for text in ["", "\n", "(null)", "a-b", "3-1", "0-4294967295", "-", ",,"] {
            assert!(cpus(text).is_empty(), "{text}");
        }
        assert_eq!(cpus("1,x,3\n"), BTreeSet::from([1, 3]));
    }
}
