//! Loads whose tasks, cgroups and devices come and go.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::{Arguments, Session, report};
use crate::group;
use crate::namespace::configure;
use crate::task::{child_switches, own_switches, pin, settle};

/// Stack of a thread that does next to nothing.
const STACK_BYTES: usize = 32 * 1024;

/// Says how often this process' tasks, and its children that are gone, were switched away from.
fn report_switches() -> Result<()> {
    let (own, children) = (own_switches()?, child_switches()?);
    report(&format!("switches {}", own.0 + own.1))?;
    report(&format!("child_switches {}", children.0 + children.1))
}

/// `sleepers <threads> <period ms>`: threads that all sleep and wake.
pub(super) fn sleepers(arguments: &mut Arguments) -> Result<()> {
    let count: u64 = arguments.number()?;
    let period = Duration::from_millis(arguments.number()?);
    let going = Arc::new(AtomicBool::new(true));
    let mut threads = Vec::new();
    for _ in 0..count {
        let going = Arc::clone(&going);
        let builder = thread::Builder::new().stack_size(STACK_BYTES);
        threads.push(builder.spawn(move || {
            let mut wakes = 0_u64;
            while going.load(Ordering::Relaxed) {
                thread::sleep(period);
                wakes += 1;
            }
            wakes
        })?);
    }
    let session = Session::begin()?;
    while session.going() {
        thread::sleep(Duration::from_millis(50));
    }
    going.store(false, Ordering::Relaxed);
    let mut wakes = 0;
    for thread in threads {
        wakes += thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
    }
    report(&format!("wakes {wakes}"))?;
    // With the first thread and the one that watches for the end.
    report(&format!("tasks {}", count + 2))?;
    report_switches()
}

/// A child that does `work` and ends. What it does must be safe behind a fork of one thread of many.
pub(super) fn fork(work: impl FnOnce()) -> io::Result<libc::pid_t> {
    // SAFETY: the child calls nothing but what the caller promises to be safe, then ends.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            work();
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(0) }
        }
        child => Ok(child),
    }
}

/// `suspensions <cpu> <ms each> <count>`: sleeps in the kernel until a child ends, as the parent of a
/// `vfork` does. Nothing but that, or `SIGKILL`, wakes it up.
pub(super) fn suspensions(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let each = Duration::from_millis(arguments.number()?);
    let count: u64 = arguments.number()?;
    let _session = Session::begin()?;
    for _ in 0..count {
        let flags = libc::c_long::from(libc::CLONE_VFORK | libc::SIGCHLD);
        // SAFETY: without CLONE_VM it is a fork; the child sleeps and ends.
        match unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) } {
            -1 => return Err(io::Error::last_os_error().into()),
            0 => {
                // SAFETY: no memory argument.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                thread::sleep(each);
                // SAFETY: ends the child without running anything of the parent's.
                unsafe { libc::_exit(0) }
            }
            child => reap(child as libc::pid_t)?,
        }
    }
    report(&format!("sleeps {count}"))
}

pub(super) fn reap(child: libc::pid_t) -> io::Result<()> {
    // SAFETY: no status is asked for.
    let result = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    if result == child { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `forks <cpu, or any> <count>`: so many processes, sixteen at a time, that end at once.
pub(super) fn forks(arguments: &mut Arguments) -> Result<()> {
    const AT_ONCE: u64 = 16;
    settle(&arguments.text()?)?;
    let count: u64 = arguments.number()?;
    report("ready")?;
    let mut done = 0;
    while done < count {
        let batch = AT_ONCE.min(count - done);
        let children = (0..batch).map(|_| fork(|| {})).collect::<io::Result<Vec<_>>>()?;
        for child in children {
            reap(child)?;
        }
        done += batch;
    }
    report(&format!("forks {count}"))?;
    report_switches()
}

/// `group-churn <directory> <count, or 0> <pause us>`: cgroups below a directory that are made, get a
/// process that sleeps once, and are removed; so many, or until stopped.
pub(super) fn group_churn(arguments: &mut Arguments) -> Result<()> {
    let directory = PathBuf::from(arguments.text()?);
    let count: u64 = arguments.number()?;
    let pause = Duration::from_micros(arguments.number()?);
    let session = Session::begin()?;
    let mut made = 0_u64;
    while session.going() && (count == 0 || made < count) {
        let inner = directory.join(format!("churn-{made}"));
        fs::create_dir(&inner).with_context(|| format!("creating {}", inner.display()))?;
        let used = use_group(&inner);
        group::remove(&inner).with_context(|| format!("removing {}", inner.display()))?;
        used?;
        made += 1;
        thread::sleep(pause);
    }
    report(&format!("groups {made}"))?;
    report_switches()
}

fn use_group(directory: &Path) -> Result<()> {
    let door = OpenOptions::new().write(true).open(directory.join("cgroup.procs"))?;
    let child = fork(|| {
        let nap = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };
        let _ = (&door).write_all(b"0");
        // SAFETY: reads the time that it is given; the rest is not asked for.
        unsafe { libc::nanosleep(&raw const nap, std::ptr::null_mut()) };
    })?;
    Ok(reap(child)?)
}

/// A compressed disk in memory, gone when dropped.
struct MemoryDisk(u32);

impl MemoryDisk {
    const CONTROL: &str = "/sys/class/zram-control";

    /// Makes one; `None` where this kernel makes none.
    fn new(bytes: u64) -> Result<Option<Self>> {
        let Ok(number) = fs::read_to_string(format!("{}/hot_add", Self::CONTROL)) else {
            return Ok(None);
        };
        let disk = Self(number.trim().parse()?);
        fs::write(format!("/sys/block/zram{}/disksize", disk.0), bytes.to_string())?;
        Ok(Some(disk))
    }

    fn open(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_SYNC);
        options.open(format!("/dev/zram{}", self.0))
    }
}

impl Drop for MemoryDisk {
    fn drop(&mut self) {
        for _ in 0..100 {
            let _ = fs::write(format!("/sys/block/zram{}/reset", self.0), "1");
            if fs::write(format!("{}/hot_remove", Self::CONTROL), self.0.to_string()).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// `device-churn <pause ms>`: a disk in memory and a pair of interfaces in a network namespace of its
/// own, made, used and removed again and again.
pub(super) fn device_churn(arguments: &mut Arguments) -> Result<()> {
    let pause = Duration::from_millis(arguments.number()?);
    // SAFETY: no memory argument.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    ensure!(result == 0, "unshare: {}", io::Error::last_os_error());
    let session = Session::begin()?;
    let (mut disks, mut pairs) = (0_u64, 0_u64);
    while session.going() {
        if let Some(disk) = MemoryDisk::new(4 << 20)? {
            // The node may appear a little later.
            if let Ok(mut file) = disk.open() {
                let mut block = vec![7_u8; 64 * 1024];
                file.write_all(&block)?;
                file.read_exact(&mut block)?;
                disks += 1;
            }
        }
        configure("ip", &["link", "add", "churn-a", "type", "veth", "peer", "name", "churn-b"])?;
        for end in ["churn-a", "churn-b"] {
            configure("ip", &["link", "set", end, "up"])?;
        }
        super::packets::send_broadcasts("churn-a", 64, 50)?;
        configure("ip", &["link", "delete", "churn-a"])?;
        pairs += 1;
        thread::sleep(pause);
    }
    report(&format!("disks {disks}"))?;
    report(&format!("pairs {pairs}"))
}
