//! System calls, by a seccomp filter: what the daemon does once it measures, and no more.

use anyhow::Context as _;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::Extent;

/// Commands of `bpf()` that read and write maps which are open, by number: look-up, update, delete,
/// next key, information, look-up and delete, and the same of many at once.
const BPF_COMMANDS: [u64; 10] = [1, 2, 3, 4, 15, 21, 24, 25, 26, 27];

/// What a terminal or a socket is asked: whether it is one, its size, whether it waits.
#[allow(clippy::unnecessary_cast, reason = "musl has them as ints")]
const IOCTLS: [u64; 5] = [
    libc::TCGETS as u64,
    libc::TIOCGWINSZ as u64,
    libc::FIONBIO as u64,
    libc::FIOCLEX as u64,
    libc::FIONREAD as u64,
];

/// A thread's name, and names of memory (the allocators).
const PRCTLS: [u64; 4] = [
    libc::PR_SET_NAME as u64,
    libc::PR_GET_NAME as u64,
    libc::PR_SET_VMA as u64,
    libc::PR_GET_DUMPABLE as u64,
];

/// Whether this kernel can filter system calls.
pub fn filters_system_calls() -> bool {
    // SAFETY: asks for the state only; takes no memory.
    unsafe { libc::prctl(libc::PR_GET_SECCOMP) >= 0 }
}

/// Leaves this process only what it needs. Everything else fails with EPERM.
pub fn confine() -> anyhow::Result<Extent> {
    if !filters_system_calls() {
        return Ok(Extent::Not("this kernel has no seccomp".to_owned()));
    }
    let Ok(architecture) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(Extent::Not("no filter for this architecture".to_owned()));
    };
    let filter = filter(architecture).context("cannot make the filter of system calls")?;
    seccompiler::apply_filter_all_threads(&filter)
        .context("cannot filter system calls (seccomp)")?;
    Ok(Extent::Whole)
}

fn filter(architecture: TargetArch) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: std::collections::BTreeMap<i64, Vec<SeccompRule>> =
        allowed().map(|call| (call, Vec::new())).collect();
    rules.insert(libc::SYS_bpf, one_of(0, SeccompCmpArgLen::Dword, &BPF_COMMANDS)?);
    rules.insert(libc::SYS_ioctl, one_of(1, SeccompCmpArgLen::Dword, &IOCTLS)?);
    rules.insert(libc::SYS_prctl, one_of(0, SeccompCmpArgLen::Dword, &PRCTLS)?);
    // Of other processes, those of the same user could be signalled, limited and moved.
    let itself = [u64::from(std::process::id())];
    rules.insert(libc::SYS_tgkill, one_of(0, SeccompCmpArgLen::Dword, &itself)?);
    // Has no other way to say whose thread it is: that of the first, with which musl's abort() ends.
    rules.insert(libc::SYS_tkill, one_of(0, SeccompCmpArgLen::Dword, &itself)?);
    rules.insert(libc::SYS_prlimit64, one_of(0, SeccompCmpArgLen::Dword, &[0])?);
    rules.insert(libc::SYS_sched_setaffinity, one_of(0, SeccompCmpArgLen::Dword, &[0])?);
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, refused, SeccompAction::Allow, architecture)?.try_into()
}

/// Rules for an argument that is one of some numbers.
fn one_of(
    argument: u8,
    length: SeccompCmpArgLen,
    numbers: &[u64],
) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let rule = |number: &u64| {
        SeccompRule::new(vec![SeccompCondition::new(
            argument,
            length.clone(),
            SeccompCmpOp::Eq,
            *number,
        )?])
    };
    numbers.iter().map(rule).collect()
}

/// Calls that are allowed whatever their arguments.
fn allowed() -> impl Iterator<Item = i64> {
    FILES.iter().chain(MEMORY).chain(THREADS).chain(SOCKETS).chain(WAITING).chain(OLD).copied()
}

const FILES: &[i64] = &[
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fchmod,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_umask,
    libc::SYS_unlinkat,
    libc::SYS_write,
    libc::SYS_writev,
];

const MEMORY: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
];

const THREADS: &[i64] = &[
    libc::SYS_capget,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_get_robust_list,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpriority,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
    libc::SYS_sysinfo,
    libc::SYS_uname,
];

const SOCKETS: &[i64] = &[
    libc::SYS_accept4,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
];

const WAITING: &[i64] = &[
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
];

/// Calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD: &[i64] = &[
    libc::SYS_accept,
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_getdents,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[i64] = &[libc::SYS_accept];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_compiles_and_names_each_call_once() {
        assert!(!filter(TargetArch::x86_64).unwrap().is_empty());
        let mut calls: Vec<i64> = allowed().collect();
        calls.sort_unstable();
        assert!(calls.windows(2).all(|pair| pair[0] != pair[1]));
        for call in [
            libc::SYS_execve,
            libc::SYS_ptrace,
            libc::SYS_mount,
            libc::SYS_bpf,
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_kill,
        ] {
            assert!(!calls.contains(&call));
        }
    }
}
