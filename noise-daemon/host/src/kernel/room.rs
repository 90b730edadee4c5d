//! What a process must be allowed to have before programs can be loaded: descriptors, address space
//! and memory. Without them the start would end somewhere in its midst, in words of the allocator or
//! in none: the kernel kills what takes more than its cgroup may have.

use std::fs;
use std::path::Path;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use noise_common::hooks::HOOKS;
use noise_system::procfs;

use super::cgroup_memory::{code_bytes, free_memory};
use super::loader::is_alone;
use super::{KernelBtf, KernelError, RecorderSize, Sizes};

const MIB: u64 = 1 << 20;
/// Descriptors beside those of the programs: maps, sockets, the runtime's own, the standard three, and some clients.
const OTHER_DESCRIPTORS: usize = 48;
/// Address space: the program, its libraries, and what allocators and threads reserve.
const ADDRESS_SPACE: u64 = 72 * MIB;
/// What each further CPU may add.
const ADDRESS_SPACE_PER_CPU: u64 = MIB;
/// Of memory that is written to: the same without files.
const RESERVED: u64 = 16 * MIB;

/// The daemon's own while it loads: heap, the object with its programs, stacks, page tables. 6 MiB were measured.
const OWN: u64 = 7 * MIB;
/// The kernel's while it verifies the largest program, that of `sched_switch`, beside those that it keeps: 13 and 2
/// MiB were measured on Linux 6.18, which charges both to the cgroup. Older ones charge less.
const PROGRAMS: u64 = 16 * MIB;

/// What kernels before 5.11 charge for the loaded programs to the limit on locked memory.
const LOCKED_PROGRAMS: u64 = MIB;

/// A limit and what is needed.
fn ensure(
    what: &'static str,
    allowed: u64,
    needed: u64,
    remedy: &'static str,
) -> Result<(), KernelError> {
    if allowed >= needed {
        return Ok(());
    }
    Err(KernelError::NoRoom { what, allowed, needed, remedy })
}

/// As [`ensure`], for bytes.
fn ensure_mib(
    what: &'static str,
    allowed: u64,
    needed: u64,
    remedy: &'static str,
) -> Result<(), KernelError> {
    ensure(what, allowed / MIB, needed.div_ceil(MIB), remedy)
}

/// What a start takes on this host, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Needed {
    /// The daemon's while it reads the kernel's types.
    reading: u64,
    /// The daemon's while the programs are loaded.
    loading: u64,
    /// The kernel's for the maps, without the event store.
    maps: u64,
    /// The kernel's for the event store.
    store: u64,
    /// Pages of the program's file: half of its code is used at a time, and with less room it is read again and again.
    code: u64,
}

impl Needed {
    /// Where the types are a file of `btf` bytes. Beside other threads aya's loader reads them, too.
    fn of(btf: u64, maps: u64, code: u64, is_alone: bool) -> Self {
        let types = if is_alone { KernelBtf::memory(btf) } else { KernelBtf::memory_in_aya(btf) };
        let loading = OWN + KernelBtf::memory_of_tracepoints(btf);
        Self { reading: OWN + types, loading, maps, store: 0, code: code / 2 }
    }

    fn of_host() -> Self {
        // What cannot be read here stops the start a moment later, in words of its own.
        let btf = fs::metadata(KernelBtf::PATH).map_or(0, |file| file.len());
        let maps = Sizes::of_host().map_or(0, |sizes| sizes.total_bytes(false).0);
        Self::of(btf, maps, code_bytes(), is_alone())
    }

    /// All that a cgroup is charged for.
    fn charged(self) -> u64 {
        self.reading.max(self.loading + self.maps + self.store + PROGRAMS) + self.code
    }

    /// Memory that only this process has.
    fn own(self) -> u64 {
        self.reading.max(self.loading) + RESERVED
    }
}

/// Lifts the soft limit on descriptors as far as it goes, and requires that a start fits into what this
/// process may have. Returns the size of a flight recorder that fits as well: measuring comes first.
/// Errors: [`KernelError::NoRoom`] where it does not fit without one.
pub fn ensure_room(recorder: RecorderSize) -> Result<RecorderSize, KernelError> {
    let descriptors = 2 * HOOKS.len() + OTHER_DESCRIPTORS;
    ensure(
        "file descriptors",
        lift_descriptors(),
        descriptors as u64,
        "ulimit -n, or LimitNOFILE= of the unit",
    )?;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    ensure_mib(
        "MiB of address space for its memory",
        soft_limit(Resource::RLIMIT_AS),
        ADDRESS_SPACE + cpus * ADDRESS_SPACE_PER_CPU,
        "ulimit -v, or LimitAS= of the unit",
    )?;
    let needed = Needed::of_host();
    ensure_mib(
        "MiB of data (heap and stacks)",
        soft_limit(Resource::RLIMIT_DATA),
        needed.own(),
        "ulimit -d, or LimitDATA= of the unit",
    )?;
    let groups = procfs::bytes("/proc/self/cgroup").unwrap_or_default();
    let free = free_memory(Path::new("/sys/fs/cgroup"), &groups).unwrap_or(u64::MAX);
    ensure_mib(
        "MiB of memory",
        free,
        needed.charged(),
        "memory.max of its cgroup or of one above it, which all in them share, or MemoryMax= of the \
         unit",
    )?;
    // What cannot be read here stops the start a moment later, in words of its own.
    Ok(Sizes::of_host().map_or(recorder, |sizes| fitting(recorder, sizes, needed, free)))
}

/// The largest size up to that one with which a start takes no more than `free` bytes.
fn fitting(recorder: RecorderSize, sizes: Sizes, needed: Needed, free: u64) -> RecorderSize {
    let mut size = recorder;
    let charged = |size| {
        let store = sizes.store(size).bytes();
        Needed { store, ..needed }.charged()
    };
    while sizes.store(size).events() > 0 && charged(size) > free {
        size = size.halved(sizes.cpus);
    }
    size
}

/// The limit on locked memory, to which kernels before 5.11 charge maps and programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedMemory {
    /// What they may have, bytes; `None` where they are not charged, or there is no limit.
    allowed: Option<u64>,
}

impl LockedMemory {
    /// Lifts the limit, where this process may.
    pub fn lift() -> Self {
        let _ = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY);
        let release = procfs::text("/proc/sys/kernel/osrelease").unwrap_or_default();
        let limit = Some(soft_limit(Resource::RLIMIT_MEMLOCK));
        let is_limit = |limit: &u64| *limit != RLIM_INFINITY && charges_locked_memory(&release);
        Self { allowed: limit.filter(is_limit) }
    }

    /// Whether the kernel may refuse a map because of it.
    pub fn is_limited(self) -> bool {
        self.allowed.is_some()
    }

    /// The largest size of a flight recorder up to that one with which a start takes no more than it allows:
    /// what is measured comes first.
    /// Errors: [`KernelError::NoRoom`] where it does not fit without one.
    pub fn fitting(
        self,
        recorder: RecorderSize,
        sizes: Sizes,
    ) -> Result<RecorderSize, KernelError> {
        let Some(allowed) = self.allowed else { return Ok(recorder) };
        let needed = sizes.total_bytes(false).0 + LOCKED_PROGRAMS;
        let remedy = "ulimit -l, or LimitMEMLOCK= of the unit";
        ensure_mib("MiB of locked memory", allowed, needed, remedy)?;
        let mut size = recorder;
        while sizes.store(size).events() > 0
            && needed.saturating_add(sizes.store(size).bytes()) > allowed
        {
            size = size.halved(sizes.cpus);
        }
        Ok(size)
    }
}

/// Whether a kernel of this release charges maps to the limit on locked memory: those before 5.11.
fn charges_locked_memory(release: &str) -> bool {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    let version = next().zip(next());
    version.is_some_and(|version| version < (5, 11))
}

fn soft_limit(resource: Resource) -> u64 {
    getrlimit(resource).map_or(u64::MAX, |(soft, _)| soft)
}

/// How many descriptors this process may have from now on.
fn lift_descriptors() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return u64::MAX };
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_or(soft, |()| hard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_follows_from_the_host() {
        let here = Needed::of(5_519_912, 2_400_000, 13 * MIB, true);
        // 24 MiB were measured, without pages of the file.
        assert!((28..42).contains(&(here.charged() / MIB)), "{here:?}");
        let larger = Needed::of(5_519_912, 130_000_000, 13 * MIB, true);
        assert_eq!(larger.charged() - here.charged(), 130_000_000 - 2_400_000);
        let types = Needed::of(60_000_000, 2_400_000, 13 * MIB, true);
        assert!(types.charged() > 60_000_000 && types.own() > 60_000_000, "{types:?}");
        let beside = Needed::of(60_000_000, 2_400_000, 13 * MIB, false);
        assert!(beside.charged() > types.charged());
    }

    #[test]
    fn the_flight_recorder_takes_what_is_left() {
        let sizes = Sizes { cpus: 4, pids: 32_768, cells: 256 };
        let needed = Needed::of(5_519_912, 2_400_000, 13 * MIB, true);
        let size = RecorderSize { per_cpu: MIB, all: 64 * MIB };
        let with = |more: u64| sizes.store(fitting(size, sizes, needed, needed.charged() + more));
        assert_eq!(with(64 * MIB), sizes.store(size));
        // Reading the kernel's types takes more than all maps do later.
        let store = with(0).bytes();
        assert!(Needed { store, ..needed }.charged() <= needed.charged(), "{store}");
        let larger = RecorderSize { per_cpu: 64 * MIB, all: 512 * MIB };
        let fits = sizes.store(fitting(larger, sizes, needed, needed.charged() + 64 * MIB));
        assert!((32 * MIB..=80 * MIB).contains(&fits.bytes()), "{fits:?}");
        // Nothing is left at all: nothing is kept.
        assert_eq!(sizes.store(fitting(size, sizes, needed, needed.charged())).bytes(), store);
        let none = Needed { loading: needed.reading, ..needed };
        assert_eq!(sizes.store(fitting(size, sizes, none, none.charged())).bytes(), 0);
    }

    #[test]
    fn kernels_before_5_11_charge_locked_memory() {
        for release in ["5.10.0-46-cloud-amd64\n", "5.4.0", "4.19"] {
            assert!(charges_locked_memory(release), "{release}");
        }
        for release in ["5.11.0-rc1", "5.15.0", "6.18.44-fc", "10.0.1", "", "vendor"] {
            assert!(!charges_locked_memory(release), "{release}");
        }
    }

    #[test]
    fn the_flight_recorder_takes_what_may_be_locked() {
        let sizes = Sizes { cpus: 4, pids: 32_768, cells: 256 };
        let size = RecorderSize { per_cpu: MIB, all: 64 * MIB };
        let needed = sizes.total_bytes(false).0 + LOCKED_PROGRAMS;
        let with = |allowed| {
            let found = LockedMemory { allowed }.fitting(size, sizes);
            found.map(|size| sizes.store(size).bytes())
        };
        let whole = sizes.store(size).bytes();
        assert_eq!(with(None).unwrap(), whole);
        assert_eq!(with(Some(needed + whole)).unwrap(), whole);
        let smaller = with(Some(needed + whole - 1)).unwrap();
        assert!(smaller > whole / 3 && smaller < whole, "{smaller} of {whole}");
        let allowed = needed.next_multiple_of(MIB);
        assert!(with(Some(allowed)).unwrap() <= allowed - needed);
        let error = with(Some(allowed - MIB)).unwrap_err().to_string();
        assert!(error.contains("locked memory") && error.contains("ulimit -l"), "{error}");
    }

    #[test]
    fn too_little_is_said_with_what_helps() {
        assert!(ensure("things", 8, 8, "more things").is_ok());
        let error = ensure("things", 7, 8, "more things").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("needs 8 things") && text.contains("more things"), "{text}");
        assert!(!error.is_unsupported());
        assert!(ensure_mib("MiB", 8 * MIB, 8 * MIB, "more").is_ok());
        assert!(ensure_mib("MiB", 9 * MIB - 1, 8 * MIB + 1, "more").is_err());
    }

    #[test]
    fn tests_have_room() {
        let size = RecorderSize { per_cpu: MIB, all: 64 * MIB };
        ensure_room(size).unwrap();
    }
}
