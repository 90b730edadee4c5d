//! Where and how tasks run: CPUs, scheduling policies, chosen thread ids.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::mem;
use std::os::fd::FromRawFd as _;
use std::process::{ExitCode, Termination};
use std::ptr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

/// The number of CPUs that are online.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Kernel threads that receive packets in the place of softirqs.
pub fn pollers() -> Result<BTreeSet<i32>> {
    let polls = |thread: &i32| {
        // One that has ended polls nothing.
        let name = fs::read_to_string(format!("/proc/{thread}/comm")).unwrap_or_default();
        name.starts_with("napi/") || name.starts_with("backlog_napi/")
    };
    Ok(kernel_threads()?.into_iter().filter(polls).collect())
}

fn check(result: i32, what: &str) -> Result<()> {
    ensure!(result == 0, "{what}: {}", io::Error::last_os_error());
    Ok(())
}

/// Binds a thread (0: the caller) to one CPU.
pub fn pin(thread: i32, cpu: usize) -> Result<()> {
    confine(thread, &[cpu])
}

/// Binds a thread (0: the caller) to some CPUs.
fn confine(thread: i32, cpus: &[usize]) -> Result<()> {
    // SAFETY: an all-zero set is a valid empty one; CPU_SET checks its bounds.
    let set = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        cpus.iter().for_each(|cpu| libc::CPU_SET(*cpu, &mut set));
        set
    };
    // SAFETY: the set is read during the call only.
    check(unsafe { libc::sched_setaffinity(thread, size_of_val(&set), &set) }, "sched_setaffinity")
}

/// Binds the caller to the CPUs of these numbers (`0,1`), or to none if it is `any`.
pub fn settle(cpus: &str) -> Result<()> {
    if cpus == "any" {
        return Ok(());
    }
    let numbers = cpus.split(',').map(|cpu| cpu.parse().context("not a CPU"));
    confine(0, &numbers.collect::<Result<Vec<usize>>>()?)
}

/// Gives the calling thread another name, of up to 15 bytes; the first thread's is its process's.
pub fn set_name(name: &str) -> Result<()> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: a string with its zero, which outlives the call.
    check(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) }, "prctl")
}

/// Lets a thread go before others, at this nice level.
pub fn set_nice(thread: i32, level: i32) -> Result<()> {
    let thread = u32::try_from(thread).context("not a thread")?;
    // SAFETY: no memory argument.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, thread, level) }, "setpriority")
}

/// Context switches of the caller's process so far, voluntary and not.
pub fn own_switches() -> Result<(u64, u64)> {
    switches_of(libc::RUSAGE_SELF)
}

/// Context switches of those of its children that it has waited for, voluntary and not.
pub fn child_switches() -> Result<(u64, u64)> {
    switches_of(libc::RUSAGE_CHILDREN)
}

fn switches_of(who: i32) -> Result<(u64, u64)> {
    // SAFETY: an all-zero value is valid, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        check(libc::getrusage(who, &raw mut usage), "getrusage")?;
        usage
    };
    Ok((u64::try_from(usage.ru_nvcsw)?, u64::try_from(usage.ru_nivcsw)?))
}

/// A scheduling policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The default.
    Other,
    /// Real-time: runs until it sleeps.
    Fifo,
    /// Runs when nothing else wants to.
    Idle,
}

/// Sets a thread's policy (0: the caller). What it starts has the default.
pub fn set_policy(thread: i32, policy: Policy) -> Result<()> {
    let (policy, priority) = match policy {
        Policy::Other => (libc::SCHED_OTHER, 0),
        Policy::Fifo => (libc::SCHED_FIFO, 10),
        Policy::Idle => (libc::SCHED_IDLE, 0),
    };
    let parameter = libc::sched_param { sched_priority: priority };
    let policy = policy | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the parameter is read during the call only.
    check(unsafe { libc::sched_setscheduler(thread, policy, &parameter) }, "sched_setscheduler")
}

/// The calling thread goes before all that are not real-time, until this is dropped.
#[derive(Debug)]
pub struct GoesFirst(());

impl GoesFirst {
    /// From now on.
    pub fn now() -> Result<Self> {
        set_policy(0, Policy::Fifo)?;
        Ok(Self(()))
    }
}

impl Drop for GoesFirst {
    fn drop(&mut self) {
        let _ = set_policy(0, Policy::Other);
    }
}

/// A timer to read from that expires every `period`.
pub fn periodic_timer(period: Duration) -> Result<File> {
    // SAFETY: no memory argument.
    let descriptor = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
    ensure!(descriptor >= 0, "timerfd_create: {}", io::Error::last_os_error());
    // SAFETY: a descriptor that was just opened and that nothing else owns.
    let timer = unsafe { File::from_raw_fd(descriptor) };
    let every = libc::timespec {
        tv_sec: libc::time_t::try_from(period.as_secs())?,
        tv_nsec: libc::c_long::from(period.subsec_nanos()),
    };
    let times = libc::itimerspec { it_interval: every, it_value: every };
    // SAFETY: the times are read during the call only, and the old ones are not asked for.
    let result = unsafe { libc::timerfd_settime(descriptor, 0, &times, ptr::null_mut()) };
    check(result, "timerfd_settime")?;
    Ok(timer)
}

/// `struct clone_args` of Linux's `uapi/linux/sched.h`.
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

const _: () = assert!(size_of::<CloneArgs>() == 88);

/// A child process with a chosen id that is bound to `cpu`, sleeps and exits.
#[derive(Debug)]
pub struct ChosenChild(i32);

impl ChosenChild {
    /// Forks a child whose process id is `pid`; it sleeps `nap` on `cpu`, `naps` times, and exits.
    /// Errors: if the id is taken, or this process may not choose ids.
    pub fn start(pid: i32, cpu: usize, nap: Duration, naps: u32) -> Result<Self> {
        let wanted = [pid];
        let mut arguments = CloneArgs {
            exit_signal: libc::SIGCHLD as u64,
            set_tid: wanted.as_ptr() as u64,
            set_tid_size: 1,
            ..CloneArgs::default()
        };
        let time = libc::timespec {
            tv_sec: libc::time_t::try_from(nap.as_secs())?,
            tv_nsec: libc::c_long::from(nap.subsec_nanos()),
        };
        // SAFETY: without CLONE_VM this is fork. The child calls nothing but system calls that
        // touch its own stack, and ends by _exit.
        let child = unsafe {
            let child = libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of::<CloneArgs>());
            if child == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                let mut set: libc::cpu_set_t = mem::zeroed();
                libc::CPU_SET(cpu, &mut set);
                libc::sched_setaffinity(0, size_of_val(&set), &set);
                for _ in 0..naps {
                    libc::nanosleep(&time, ptr::null_mut());
                }
                libc::_exit(0);
            }
            child
        };
        ensure!(child == i64::from(pid), "clone3 with id {pid}: {}", io::Error::last_os_error());
        Ok(Self(pid))
    }

    /// Kills it without waiting.
    pub fn kill(&self) -> Result<()> {
        // SAFETY: no memory argument; the child is not reaped yet, so the id is still its own.
        check(unsafe { libc::kill(self.0, libc::SIGKILL) }, "kill")
    }

    /// Waits for its end.
    pub fn wait(self) -> Result<()> {
        let pid = self.reap();
        mem::forget(self);
        pid
    }

    fn reap(&self) -> Result<()> {
        // SAFETY: the status is not asked for.
        let pid = unsafe { libc::waitpid(self.0, ptr::null_mut(), 0) };
        ensure!(pid == self.0, "waitpid: {}", io::Error::last_os_error());
        Ok(())
    }
}

impl Drop for ChosenChild {
    fn drop(&mut self) {
        // Errors mean that it is gone already.
        let _ = self.kill();
        let _ = self.reap();
    }
}

/// A thread id that no thread has now, from the far end of the range.
pub fn unused_pid() -> Result<i32> {
    let limit: i32 = fs::read_to_string("/proc/sys/kernel/pid_max")?.trim().parse()?;
    (limit / 2..limit)
        .rev()
        .find(|pid| !fs::exists(format!("/proc/{pid}")).unwrap_or(true))
        .context("every thread id is taken")
}

/// The number of bytes behind a name in `/proc/PID/status`.
/// Errors: if it is not there.
pub fn status_bytes(status: &str, name: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.with_context(|| format!("no {name}"))?.trim().trim_end_matches(" kB");
    Ok(number.parse::<u64>()? * 1024)
}

/// One line of `/proc/<thread>/schedstat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedStat {
    /// Time on a CPU, nanoseconds.
    pub run_ns: u64,
    /// Time waiting for one, nanoseconds, by the kernel's own account.
    pub wait_ns: u64,
    /// How often it was switched to.
    pub runs: u64,
}

/// What the scheduler itself has charged to a thread.
pub fn sched_stat(thread: i32) -> Result<SchedStat> {
    let text = fs::read_to_string(format!("/proc/{thread}/schedstat"))?;
    let mut numbers = text.split_whitespace().map(str::parse);
    let mut next = || numbers.next().context("a short schedstat")?.context("not a number");
    Ok(SchedStat { run_ns: next()?, wait_ns: next()?, runs: next()? })
}

/// The threads that the kernel runs for itself.
pub fn kernel_threads() -> Result<BTreeSet<i32>> {
    const PF_KTHREAD: u32 = 0x0020_0000;
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(pid) = entry?.file_name().to_string_lossy().parse() else { continue };
        // One that ends meanwhile is no kernel thread that matters.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        // The name, in brackets, may have blanks; the flags are the seventh field behind it.
        let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(6));
        if flags.and_then(|flags| flags.parse::<u32>().ok()).is_some_and(|it| it & PF_KTHREAD != 0)
        {
            found.insert(pid);
        }
    }
    Ok(found)
}

/// `CLOCK_MONOTONIC`, nanoseconds.
pub fn monotonic_ns() -> Result<u64> {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// The CPU time of the calling thread, nanoseconds.
pub fn thread_cpu_ns() -> Result<u64> {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written during the call only.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    ensure!(result == 0, "clock_gettime: {}", io::Error::last_os_error());
    Ok(u64::try_from(time.tv_sec)? * 1_000_000_000 + u64::try_from(time.tv_nsec)?)
}

/// Whether this process is root.
pub fn is_root() -> bool {
    // SAFETY: no memory argument, cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// What a program ends with; standard error says why it failed.
pub fn ended(program: &str, result: Result<impl Termination>) -> ExitCode {
    let failed = |error| {
        eprintln!("{program}: {error:#}");
        ExitCode::FAILURE
    };
    result.map_or_else(failed, Termination::report)
}

/// As [`ended`], of a program that plants what needs root; without, it ends with 3.
pub fn ended_as_root<T: Termination>(
    program: &str,
    planted: &str,
    run: impl FnOnce() -> Result<T>,
) -> ExitCode {
    if !is_root() {
        eprintln!("{program}: {planted} need root; run it as root");
        return ExitCode::from(3);
    }
    ended(program, run())
}

/// Whether the processor is an emulated one, so that times mean nothing: whoever starts the tests says
/// so by `NOISED_EMULATED`.
pub fn is_emulated() -> bool {
    std::env::var_os("NOISED_EMULATED").is_some()
}
