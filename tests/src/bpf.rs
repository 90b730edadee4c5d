//! What the kernel itself says about loaded BPF programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

const MAP_UPDATE_ELEM: u32 = 2;
const MAP_GET_NEXT_KEY: u32 = 4;
const PROG_GET_NEXT_ID: u32 = 11;
const PROG_GET_FD_BY_ID: u32 = 13;
const MAP_GET_FD_BY_ID: u32 = 14;
const OBJ_GET_INFO_BY_FD: u32 = 15;
const ENABLE_STATS: u32 = 32;

/// `struct bpf_prog_info` of Linux's `uapi/linux/bpf.h`, up to the statistics.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct RawInfo {
    kind: u32,
    id: u32,
    tag: [u8; 8],
    lengths: [u32; 2],
    instructions: [u64; 2],
    load_time: u64,
    created_by_uid: u32,
    nr_map_ids: u32,
    map_ids: u64,
    name: [u8; 16],
    ifindex: u32,
    flags: u32,
    netns: [u64; 2],
    nr_jited: [u32; 2],
    jited: [u64; 2],
    btf_id: u32,
    func_info_rec_size: u32,
    func_info: u64,
    nr_func_info: u32,
    nr_line_info: u32,
    line_info: [u64; 2],
    nr_jited_line_info: u32,
    line_info_rec_sizes: [u32; 2],
    nr_prog_tags: u32,
    prog_tags: u64,
    run_time_ns: u64,
    run_cnt: u64,
    recursion_misses: u64,
}

const _: () = assert!(size_of::<RawInfo>() == 216);

/// `struct bpf_map_info`, up to the name.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct RawMapInfo {
    kind: u32,
    id: u32,
    sizes: [u32; 3],
    flags: u32,
    name: [u8; 16],
}

/// The types of what noised loads: raw tracepoints, and those that know types. Services and containers
/// that others start have programs of other types, which no process holds.
const TRACING: [u32; 2] = [17, 26];

/// A loaded program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The kernel's number for it.
    pub id: u32,
    /// The kernel's number for its type.
    kind: u32,
    /// Its name, cut at 15 characters.
    pub name: String,
    /// Time spent in it while statistics were on, nanoseconds.
    pub run_time_ns: u64,
    /// Runs while statistics were on.
    pub runs: u64,
    /// Runs that the kernel left out because the program was already running on that CPU.
    pub recursion_misses: u64,
}

/// The system call `bpf`; returns what the kernel returns, a descriptor or 0.
pub(crate) fn bpf(command: u32, attributes: &mut [u64; 16]) -> io::Result<i32> {
    // SAFETY: the attributes are a zero-padded union of 128 bytes; the commands used here write to
    // it and to the memory that `program` names, nowhere else.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of_val(attributes))
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// Lets the kernel measure the run time of BPF programs for as long as the value lives.
#[derive(Debug)]
pub struct Statistics(#[expect(dead_code, reason = "held for its close")] OwnedFd);

impl Statistics {
    /// Turns the statistics on, without touching the sysctl.
    pub fn enable() -> Result<Self> {
        let descriptor = bpf(ENABLE_STATS, &mut [0; 16]).context("BPF_ENABLE_STATS")?;
        // SAFETY: a descriptor that was just opened and that nothing else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }
}

/// The ids of all loaded programs.
pub fn program_ids() -> Result<BTreeSet<u32>> {
    let mut ids = BTreeSet::new();
    let mut last = 0_u32;
    loop {
        let mut attributes = [0_u64; 16];
        attributes[0] = u64::from(last);
        match bpf(PROG_GET_NEXT_ID, &mut attributes) {
            Ok(_) => {
                last = (attributes[0] >> 32) as u32;
                ids.insert(last);
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(ids),
            Err(error) => return Err(error).context("BPF_PROG_GET_NEXT_ID"),
        }
    }
}

/// A descriptor that keeps a program loaded, by its id, if it still exists.
pub fn open_program(id: u32) -> Result<Option<OwnedFd>> {
    let mut attributes = [0_u64; 16];
    attributes[0] = u64::from(id);
    match bpf(PROG_GET_FD_BY_ID, &mut attributes) {
        // SAFETY: a descriptor that was just opened and that nothing else owns.
        Ok(descriptor) => Ok(Some(unsafe { OwnedFd::from_raw_fd(descriptor) })),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error).context("BPF_PROG_GET_FD_BY_ID"),
    }
}

/// What the kernel says of a program or a map.
fn inform<T: Copy>(of: &OwnedFd, info: &mut T) -> Result<()> {
    let mut attributes = [0_u64; 16];
    attributes[0] = of.as_raw_fd() as u64 | (size_of::<T>() as u64) << 32;
    attributes[1] = (&raw mut *info) as u64;
    bpf(OBJ_GET_INFO_BY_FD, &mut attributes).context("BPF_OBJ_GET_INFO_BY_FD")?;
    Ok(())
}

/// A name of the kernel's, which ends with a zero where it is shorter than its place.
fn text(name: &[u8]) -> String {
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(name.get(..end).unwrap_or_default()).into_owned()
}

/// A program by its id, if it still exists.
pub fn program(id: u32) -> Result<Option<Program>> {
    let Some(descriptor) = open_program(id)? else { return Ok(None) };
    let mut info = RawInfo::default();
    inform(&descriptor, &mut info)?;
    Ok(Some(Program {
        id: info.id,
        kind: info.kind,
        name: text(&info.name),
        run_time_ns: info.run_time_ns,
        runs: info.run_cnt,
        recursion_misses: info.recursion_misses,
    }))
}

/// What the kernel says of each descriptor of a process.
fn descriptors(pid: u32) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        // One may be closed meanwhile.
        all.extend(fs::read_to_string(entry?.path()));
    }
    Ok(all)
}

/// The programs that a process holds, by id, as its descriptors tell.
pub fn programs_of(pid: u32) -> Result<BTreeMap<u32, Program>> {
    let mut programs = BTreeMap::new();
    for lines in descriptors(pid)? {
        let id = lines.lines().find_map(|line| line.strip_prefix("prog_id:"));
        let Some(id) = id else { continue };
        if let Some(program) = program(id.trim().parse()?)? {
            programs.insert(program.id, program);
        }
    }
    Ok(programs)
}

/// Map types whose entries come and go: hashes, shared and by CPU.
const HASHES: [u32; 2] = [1, 5];

/// How many hash maps a process holds and how many entries they have together; entries that come
/// and go meanwhile count or not.
pub fn hash_entries_of(pid: u32) -> Result<(usize, usize)> {
    let mut maps = BTreeMap::new();
    for lines in descriptors(pid)? {
        let field = |name: &str| {
            let line = lines.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|number| number.trim().parse::<u32>().ok())
        };
        let (Some(id), Some(kind)) = (field("map_id"), field("map_type")) else { continue };
        if HASHES.contains(&kind) {
            let size = (field("key_size"), field("max_entries"));
            maps.insert(id, (size.0.context("no key_size")?, size.1.context("no max_entries")?));
        }
    }
    let mut entries = 0;
    for (&id, &(key_size, max_entries)) in &maps {
        entries += count_keys(id, key_size as usize, max_entries as usize)?;
    }
    Ok((maps.len(), entries))
}

fn open_map(id: u32) -> Result<OwnedFd> {
    let mut attributes = [0_u64; 16];
    attributes[0] = u64::from(id);
    let descriptor = bpf(MAP_GET_FD_BY_ID, &mut attributes).context("BPF_MAP_GET_FD_BY_ID")?;
    // SAFETY: a descriptor that was just opened and that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// An array of 8-byte numbers that a process holds.
#[derive(Debug)]
pub struct Numbers(OwnedFd);

impl Numbers {
    /// The one of that name.
    pub fn of(pid: u32, name: &str) -> Result<Self> {
        for lines in descriptors(pid)? {
            let id = lines.lines().find_map(|line| line.strip_prefix("map_id:"));
            let Some(id) = id else { continue };
            let map = open_map(id.trim().parse()?)?;
            let mut info = RawMapInfo::default();
            inform(&map, &mut info)?;
            if text(&info.name) == name {
                ensure!(info.sizes[..2] == [4, 8], "{name} has sizes of {:?}", info.sizes);
                return Ok(Self(map));
            }
        }
        bail!("{pid} holds no map {name}")
    }

    /// Sets one of them.
    pub fn set(&self, index: u32, value: i64) -> Result<()> {
        let mut attributes = [0_u64; 16];
        attributes[0] = self.0.as_raw_fd() as u64;
        attributes[1] = (&raw const index) as u64;
        attributes[2] = (&raw const value) as u64;
        bpf(MAP_UPDATE_ELEM, &mut attributes).context("BPF_MAP_UPDATE_ELEM")?;
        Ok(())
    }
}

fn count_keys(map: u32, key_size: usize, max_entries: usize) -> Result<usize> {
    let map = open_map(map)?;
    let (mut key, mut next) = (vec![0_u8; key_size], vec![0_u8; key_size]);
    let mut first = true;
    // The walk begins anew behind a key that was removed meanwhile, so that it needs an end.
    for count in 0..max_entries * 2 {
        let mut attributes = [0_u64; 16];
        attributes[0] = map.as_raw_fd() as u64;
        attributes[1] = if first { 0 } else { key.as_ptr() as u64 };
        attributes[2] = next.as_mut_ptr() as u64;
        match bpf(MAP_GET_NEXT_KEY, &mut attributes) {
            Ok(_) => std::mem::swap(&mut key, &mut next),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                return Ok(count.min(max_entries));
            }
            Err(error) => return Err(error).context("BPF_MAP_GET_NEXT_KEY"),
        }
        first = false;
    }
    Ok(max_entries)
}

/// Waits until nothing is loaded that traces and was not before, but for what processes hold: the kernel
/// frees programs some time after their last descriptor is closed.
pub fn ensure_none_left(before: &BTreeSet<u32>) -> Result<()> {
    let mut new = BTreeSet::new();
    for &id in program_ids()?.difference(before) {
        new.extend(program(id)?.filter(|it| TRACING.contains(&it.kind)).map(|it| it.id));
    }
    if new.is_empty() {
        return Ok(());
    }
    for entry in fs::read_dir("/proc")? {
        if let Ok(pid) = entry?.file_name().to_string_lossy().parse()
            // A process that ends holds nothing any more.
            && let Ok(held) = programs_of(pid)
        {
            new.retain(|id| !held.contains_key(id));
        }
    }
    wait_until_gone(new)
}

/// Waits until none of these programs is loaded: the kernel frees them some time after their last
/// descriptor is closed.
pub fn wait_until_gone(ids: impl IntoIterator<Item = u32>) -> Result<()> {
    let mut left: BTreeSet<u32> = ids.into_iter().collect();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let loaded = program_ids()?;
        left.retain(|id| loaded.contains(id));
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            let mut names = Vec::new();
            for &id in &left {
                names.push(program(id)?.map_or_else(|| id.to_string(), |program| program.name));
            }
            bail!("programs left behind: {names:?}");
        }
        thread::sleep(Duration::from_millis(50));
    }
}
