//! The clock of the programs, seen from this process.
//!
//! The programs read the host's CLOCK_MONOTONIC. A process in a time namespace (time_namespaces(7))
//! reads another one, which differs from the host's by a number that is fixed before its first process
//! starts. Taking it away puts all times on the programs' scale.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use noise_system::procfs;

/// By how much this process' clock is ahead of the host's, ns.
static AHEAD_NS: LazyLock<i64> = LazyLock::new(|| ahead_ns(Path::new("/proc")));

/// Now on the host's CLOCK_MONOTONIC, the clock of the programs, ns.
#[inline(always)]
pub fn monotonic_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC).saturating_add_signed(-*AHEAD_NS)
}

/// [`monotonic_ns`] and CLOCK_REALTIME (ns since 1970) at one moment.
pub fn both_clocks() -> (u64, u64) {
    let read = |()| (monotonic_ns(), read_ns(libc::CLOCK_REALTIME), monotonic_ns());
    quickest([(); 3].map(read))
}

/// Of readings of one clock before and behind the other: one that was interrupted in between took longer.
fn quickest(readings: [(u64, u64, u64); 3]) -> (u64, u64) {
    let quickest =
        readings.into_iter().min_by_key(|(before, _, after)| after.saturating_sub(*before));
    quickest.map_or((0, 0), |(before, other, after)| (before.midpoint(after), other))
}

#[inline(always)]
fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid, and both clocks that are read always exist.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The same below a procfs root. The file is about the namespace of children, which is our own unless
/// another was made for them.
fn ahead_ns(root: &Path) -> i64 {
    let own = root.join("self");
    let namespace = |name: &str| fs::read_link(own.join("ns").join(name)).ok();
    if namespace("time") != namespace("time_for_children") {
        return 0;
    }
    let text = procfs::text(own.join("timens_offsets")).unwrap_or_default();
    text.lines().find_map(monotonic_offset).unwrap_or(0)
}

/// The offset in ns, of the line that is about CLOCK_MONOTONIC (also written as its number, 1).
fn monotonic_offset(line: &str) -> Option<i64> {
    let mut words = line.split_whitespace();
    if !matches!(words.next()?, "monotonic" | "1") {
        return None;
    }
    let (seconds, ns): (i64, i64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_offset_of_a_time_namespace_is_known() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(ahead_ns(root.path()), 0);
        let namespaces = root.path().join("self/ns");
        fs::create_dir_all(&namespaces).unwrap();
        let put = |text: &str| fs::write(root.path().join("self/timens_offsets"), text).unwrap();
        put("monotonic           0         0\nboottime            0         0\n");
        assert_eq!(ahead_ns(root.path()), 0);
        put("monotonic      100000         5\nboottime       77         0\n");
        assert_eq!(ahead_ns(root.path()), 100_000_000_000_005);
        put("monotonic          -7 500000000\nboottime       77         0\n");
        assert_eq!(ahead_ns(root.path()), -6_500_000_000);
        for text in ["", "boottime 7 0\n", "monotonic\n", "monotonic x 0\n"] {
            put(text);
            assert_eq!(ahead_ns(root.path()), 0, "{text}");
        }
        // Another one was made for children.
        put("monotonic      100000         0\n");
        symlink("time:[4026531834]", namespaces.join("time")).unwrap();
        symlink("time:[4026532000]", namespaces.join("time_for_children")).unwrap();
        assert_eq!(ahead_ns(root.path()), 0);
    }

    #[test]
    fn a_reading_that_was_interrupted_is_not_taken() {
        let readings = [(100, 7_000, 5_100), (6_000, 12_951, 6_002), (6_010, 12_990, 6_050)];
        assert_eq!(quickest(readings), (6_001, 12_951));
    }

    #[test]
    fn the_clock_goes_on() {
        let before = monotonic_ns();
        assert!(before > 0 && monotonic_ns() >= before);
    }
}
