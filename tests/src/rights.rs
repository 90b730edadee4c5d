//! What a kernel leaves of BPF to a process that gave up its privileges, and which means of
//! confining itself it offers.
//!
//! Everything is tried, nothing concluded from versions. Maps, a program and its attachment are made
//! as root; a child of that process keeps their descriptors, becomes an unprivileged user, keeps
//! the capabilities of one [`Level`], and tries each operation.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;

use crate::bpf::bpf;

const MAP_CREATE: u32 = 0;
const MAP_LOOKUP: u32 = 1;
const MAP_UPDATE: u32 = 2;
const MAP_DELETE: u32 = 3;
const MAP_NEXT_KEY: u32 = 4;
const PROG_LOAD: u32 = 5;
const PROG_GET_NEXT_ID: u32 = 11;
const OBJ_GET_INFO_BY_FD: u32 = 15;
const RAW_TRACEPOINT_OPEN: u32 = 17;
const MAP_LOOKUP_BATCH: u32 = 24;
const ENABLE_STATS: u32 = 32;

const HASH: u64 = 1;
const ARRAY: u64 = 2;
const PERCPU_HASH: u64 = 5;
const RINGBUF: u64 = 27;
const MMAPABLE: u64 = 1 << 10;
const PAGE: usize = 4096;

/// `r0 = 0; exit`.
const NOTHING: [u64; 2] = [0xb7, 0x95];
const SOCKET_FILTER: u64 = 1;
const RAW_TRACEPOINT: u64 = 17;

const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;
/// User and group of processes without rights of their own, as distributions number them.
pub const UNPRIVILEGED: u32 = 65_534;

/// The switch that bars those without capabilities from BPF.
const SWITCH: &str = "/proc/sys/kernel/unprivileged_bpf_disabled";

/// What the process keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// No capability at all.
    Nothing,
    /// CAP_BPF.
    Bpf,
    /// CAP_BPF and CAP_PERFMON.
    BpfAndPerfmon,
}

impl Level {
    /// Every level.
    pub const ALL: [Self; 3] = [Self::Nothing, Self::Bpf, Self::BpfAndPerfmon];

    fn capabilities(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Bpf => 1 << CAP_BPF,
            Self::BpfAndPerfmon => 1 << CAP_BPF | 1 << CAP_PERFMON,
        }
    }
}

/// What was allowed.
#[derive(Debug, Serialize)]
pub struct Allowed {
    /// Value of `kernel.unprivileged_bpf_disabled`.
    pub unprivileged_bpf_disabled: u8,
    /// What the process kept.
    pub level: Level,
    /// Operation, and `ok` or the kernel's word for its refusal.
    pub operations: BTreeMap<String, String>,
}

/// How a process can confine itself.
#[derive(Debug, Serialize)]
pub struct Confinement {
    /// Version of Landlock's interface, or why there is none.
    pub landlock: std::result::Result<i32, String>,
    /// Whether a seccomp filter can be installed, or why not.
    pub seccomp: std::result::Result<bool, String>,
}

/// What an operation came to, in a word.
fn word(result: &io::Result<i32>) -> String {
    match result {
        Ok(_) => "ok".to_owned(),
        Err(error) => match error.raw_os_error() {
            Some(libc::EPERM) => "EPERM".to_owned(),
            Some(libc::EACCES) => "EACCES".to_owned(),
            Some(libc::EINVAL) => "EINVAL".to_owned(),
            Some(libc::ENOENT) => "ENOENT".to_owned(),
            _ => error.to_string(),
        },
    }
}

fn owned(result: io::Result<i32>) -> io::Result<OwnedFd> {
    // SAFETY: a descriptor that was just opened and that nothing else owns.
    result.map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn create(kind: u64, key: u64, value: u64, entries: u64, flags: u64) -> io::Result<OwnedFd> {
    let mut attributes = [0_u64; 16];
    attributes[0] = kind | key << 32;
    attributes[1] = value | entries << 32;
    attributes[2] = flags;
    owned(bpf(MAP_CREATE, &mut attributes))
}

fn load(kind: u64) -> io::Result<OwnedFd> {
    let mut attributes = [0_u64; 16];
    attributes[0] = kind | (NOTHING.len() as u64) << 32;
    attributes[1] = NOTHING.as_ptr() as u64;
    attributes[2] = c"GPL".as_ptr() as u64;
    owned(bpf(PROG_LOAD, &mut attributes))
}

fn attach(program: &OwnedFd) -> io::Result<OwnedFd> {
    let mut attributes = [0_u64; 16];
    attributes[0] = c"sched_switch".as_ptr() as u64;
    attributes[1] = program.as_raw_fd() as u64;
    owned(bpf(RAW_TRACEPOINT_OPEN, &mut attributes))
}

/// An operation on one element whose key is 1; the value is large enough for 64 possible CPUs.
fn element(command: u32, map: &OwnedFd) -> io::Result<i32> {
    let (key, mut value) = (1_u32, [1_u64; 64]);
    let mut attributes = [0_u64; 16];
    attributes[0] = map.as_raw_fd() as u64;
    attributes[1] = (&raw const key) as u64;
    if command != MAP_DELETE {
        attributes[2] = value.as_mut_ptr() as u64;
    }
    bpf(command, &mut attributes)
}

fn map_memory(descriptor: RawFd, protection: i32, length: usize, at: i64) -> io::Result<i32> {
    // SAFETY: a fresh mapping, which nothing reads and which is undone at once.
    unsafe {
        let begin =
            libc::mmap(ptr::null_mut(), length, protection, libc::MAP_SHARED, descriptor, at);
        if begin == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        libc::munmap(begin, length);
    }
    Ok(0)
}

/// What a privileged process has made.
struct Made {
    array: OwnedFd,
    shared: OwnedFd,
    hash: OwnedFd,
    percpu: OwnedFd,
    ring: OwnedFd,
    program: OwnedFd,
    link: OwnedFd,
    /// Loaded, not attached.
    spare: OwnedFd,
}

impl Made {
    fn make() -> Result<Self> {
        let array = create(ARRAY, 4, 8, 4, 0).context("creating an array")?;
        let hash = create(HASH, 4, 8, 4, 0).context("creating a hash")?;
        let percpu = create(PERCPU_HASH, 4, 8, 4, 0).context("creating a per-CPU hash")?;
        for map in [&array, &hash, &percpu] {
            element(MAP_UPDATE, map).context("filling a map")?;
        }
        let program = load(RAW_TRACEPOINT).context("loading a program")?;
        Ok(Self {
            shared: create(ARRAY, 4, 8, 512, MMAPABLE).context("creating a shared array")?,
            ring: create(RINGBUF, 0, 0, PAGE as u64, 0).context("creating a ring buffer")?,
            link: attach(&program).context("attaching a program")?,
            spare: load(RAW_TRACEPOINT).context("loading another program")?,
            array,
            hash,
            percpu,
            program,
        })
    }

    /// Tries everything, what takes something away last.
    fn try_all(self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let mut note = |name: &str, result: io::Result<i32>| {
            found.insert(name.to_owned(), word(&result));
        };
        note("look up in an array", element(MAP_LOOKUP, &self.array));
        note("look up in a hash", element(MAP_LOOKUP, &self.hash));
        note("look up in a per-CPU hash", element(MAP_LOOKUP, &self.percpu));
        note("next key of a hash", element(MAP_NEXT_KEY, &self.hash).or_else(end_of_keys));
        note("look up a batch", self.batch());
        note("update a hash", element(MAP_UPDATE, &self.hash));
        note("delete from a hash", element(MAP_DELETE, &self.hash));
        note("info of a map", info(&self.hash));
        note("info of a program", info(&self.program));
        let readable = libc::PROT_READ;
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        note("map an array", map_memory(self.shared.as_raw_fd(), writable, PAGE, 0));
        note("map a ring's consumer page", map_memory(self.ring.as_raw_fd(), writable, PAGE, 0));
        let data = map_memory(self.ring.as_raw_fd(), readable, 3 * PAGE, PAGE as i64);
        note("map a ring's data", data);
        note("wait for a ring", wait_for(&self.ring));
        note("next program id", bpf(PROG_GET_NEXT_ID, &mut [0; 16]));
        note("enable statistics", owned(bpf(ENABLE_STATS, &mut [0; 16])).map(|_| 0));
        note("create a map", create(ARRAY, 4, 8, 1, 0).map(|_| 0));
        note("load a socket filter", load(SOCKET_FILTER).map(|_| 0));
        note("load a raw tracepoint", load(RAW_TRACEPOINT).map(|_| 0));
        note("attach a loaded program", attach(&self.spare).map(|_| 0));
        drop(self.link);
        found
    }

    fn batch(&self) -> io::Result<i32> {
        let (mut next, mut keys, mut values) = (0_u64, [0_u32; 4], [0_u64; 4]);
        let mut attributes = [0_u64; 16];
        attributes[1] = (&raw mut next) as u64;
        attributes[2] = keys.as_mut_ptr() as u64;
        attributes[3] = values.as_mut_ptr() as u64;
        attributes[4] = keys.len() as u64 | (self.hash.as_raw_fd() as u64) << 32;
        bpf(MAP_LOOKUP_BATCH, &mut attributes).or_else(end_of_keys)
    }
}

/// "There are no more" is an answer, too.
fn end_of_keys(error: io::Error) -> io::Result<i32> {
    if error.raw_os_error() == Some(libc::ENOENT) { Ok(0) } else { Err(error) }
}

fn info(descriptor: &OwnedFd) -> io::Result<i32> {
    let mut space = [0_u64; 64];
    let mut attributes = [0_u64; 16];
    attributes[0] = descriptor.as_raw_fd() as u64 | (size_of_val(&space) as u64) << 32;
    attributes[1] = space.as_mut_ptr() as u64;
    bpf(OBJ_GET_INFO_BY_FD, &mut attributes)
}

fn wait_for(ring: &OwnedFd) -> io::Result<i32> {
    // SAFETY: the event is read during the calls only.
    unsafe {
        let epoll = owned(match libc::epoll_create1(libc::EPOLL_CLOEXEC) {
            descriptor if descriptor < 0 => Err(io::Error::last_os_error()),
            descriptor => Ok(descriptor),
        })?;
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        let (add, ring) = (libc::EPOLL_CTL_ADD, ring.as_raw_fd());
        match libc::epoll_ctl(epoll.as_raw_fd(), add, ring, &raw mut event) {
            0 => Ok(0),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Becomes an unprivileged user with the capabilities of a level.
fn become_unprivileged(level: Level) -> Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header { version: VERSION_3, pid: 0 };
    let kept = level.capabilities();
    let (low, high) = (kept as u32, (kept >> 32) as u32);
    // Effective, permitted, inheritable; the lower half, then the upper one.
    let sets = [low, low, 0, high, high, 0];
    // SAFETY: the sets are read during the call only; the other calls have no memory argument.
    unsafe {
        ensure!(libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0, "PR_SET_KEEPCAPS");
        ensure!(libc::setgroups(0, ptr::null()) == 0, "setgroups");
        ensure!(libc::setresgid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED) == 0, "setresgid");
        ensure!(libc::setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED) == 0, "setresuid");
        let result = libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr());
        ensure!(result == 0, "capset: {}", io::Error::last_os_error());
    }
    Ok(())
}

/// Runs `work` in a child and returns what it wrote. The caller has to have one thread only.
fn in_a_child(work: impl FnOnce() -> Result<String>) -> Result<String> {
    let (mut reader, mut writer) = io::pipe()?;
    // SAFETY: this process has one thread, so the child may do whatever its parent may.
    let child = unsafe { libc::fork() };
    ensure!(child >= 0, "fork: {}", io::Error::last_os_error());
    if child == 0 {
        let text = work().unwrap_or_else(|error| format!("!{error:#}"));
        let failed = writer.write_all(text.as_bytes()).is_err();
        // SAFETY: no memory argument; nothing of the parent's is run or flushed twice.
        unsafe { libc::_exit(i32::from(failed)) };
    }
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text)?;
    // SAFETY: the status is not asked for.
    unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
    match text.strip_prefix('!') {
        Some(error) => anyhow::bail!("in the child: {error}"),
        None => Ok(text),
    }
}

/// The switch as it stands.
pub fn switch() -> Result<u8> {
    let text = fs::read_to_string(SWITCH).with_context(|| format!("reading {SWITCH}"))?;
    text.trim().parse().context("not a number")
}

/// Sets the switch; the kernel takes no other value after 1.
pub fn set_switch(value: u8) -> Result<()> {
    let mut file = OpenOptions::new().write(true).open(SWITCH)?;
    file.write_all(value.to_string().as_bytes())
        .with_context(|| format!("writing {value} to {SWITCH}"))
}

/// What a process of this level may do with what it made before.
/// Errors: if the caller is not root, or what is to be tried cannot be made.
pub fn allowed(level: Level) -> Result<Allowed> {
    // Before Linux 5.11 the memory of maps counted against this limit.
    let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is read during the call only.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const unlimited) };
    let made = Made::make()?;
    let text = in_a_child(move || {
        become_unprivileged(level)?;
        Ok(serde_json::to_string(&made.try_all())?)
    })?;
    Ok(Allowed {
        unprivileged_bpf_disabled: switch()?,
        level,
        operations: serde_json::from_str(&text)?,
    })
}

/// Which means of confining itself this kernel offers a process.
pub fn confinement() -> Result<Confinement> {
    const SYS_LANDLOCK_CREATE_RULESET: libc::c_long = 444;
    const VERSION: u32 = 1;
    // SAFETY: with this flag the call takes no memory.
    let abi = unsafe {
        libc::syscall(SYS_LANDLOCK_CREATE_RULESET, ptr::null::<libc::c_void>(), 0_usize, VERSION)
    };
    let landlock = match i32::try_from(abi) {
        Ok(abi) if abi >= 0 => Ok(abi),
        _ => Err(io::Error::last_os_error().to_string()),
    };
    let seccomp = in_a_child(|| {
        become_unprivileged(Level::Nothing)?;
        install_filter()?;
        Ok(String::new())
    });
    Ok(Confinement {
        landlock,
        seccomp: seccomp.map(|_| true).map_err(|error| format!("{error:#}")),
    })
}

/// A filter that refuses `uname`, and a look whether it does.
fn install_filter() -> Result<()> {
    let statement =
        |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EDOM as u32;
    let filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_uname as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, refuse),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the filter is read during the call only; uname fills a value that it is given.
    unsafe {
        ensure!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
        let result =
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program);
        ensure!(result == 0, "seccomp: {}", io::Error::last_os_error());
        let mut names: libc::utsname = std::mem::zeroed();
        let refused = libc::uname(&raw mut names) != 0
            && io::Error::last_os_error().raw_os_error() == Some(libc::EDOM);
        ensure!(refused, "the filter is installed and does nothing");
    }
    Ok(())
}

/// Whether an unprivileged user can read the kernel's type information.
pub fn type_information_is_public() -> Result<bool> {
    let text = in_a_child(|| {
        become_unprivileged(Level::Nothing)?;
        Ok(File::open("/sys/kernel/btf/vmlinux").is_ok().to_string())
    })?;
    Ok(text == "true")
}
