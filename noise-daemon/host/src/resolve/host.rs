//! IO: what there is to say of this host.

use std::path::Path;

use noise_model::Host;
use noise_system::procfs;
use noise_text::clean::clean;
use noise_text::cpulist::CpuList;

/// Reads what the kernel says of this host, below a root.
pub fn read_host(root: &Path) -> Host {
    let read = |path: &str| procfs::text(root.join(path)).unwrap_or_default();
    let line = |path: &str| clean(read(path).trim()).into_owned();
    let online = CpuList::of_kernel(&read("sys/devices/system/cpu/online"));
    let among = |path: &str| {
        let said = CpuList::of_kernel(&read(path));
        said.iter().filter(|cpu| online.contains(*cpu)).collect()
    };
    Host {
        name: line("proc/sys/kernel/hostname"),
        kernel: line("proc/sys/kernel/osrelease"),
        noised: env!("CARGO_PKG_VERSION").to_owned(),
        isolated: among("sys/devices/system/cpu/isolated"),
        nohz_full: among("sys/devices/system/cpu/nohz_full"),
        cpus: online.iter().collect(),
    }
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
}
