//! System calls, by a seccomp filter: what the daemon does once it measures, and no more.
//!
//! What is not listed answers EPERM. A call that can do harm by its arguments (start a process, make
//! memory executable, name who gets a signal or a datagram) is allowed with harmless ones only.
//! `docs/privileges.md` says what is still possible.

use anyhow::Context as _;
use aya_obj::generated::bpf_cmd;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::Extent;

/// What an argument has to be. The kernel looks at the lower half only where it takes 32 bits.
#[derive(Clone, Copy, Debug)]
enum Needs {
    /// This argument is this number (32 bits).
    Is(u8, u32),
    /// These bits of this argument (32 bits) are these.
    Bits(u8, u32, u32),
    /// This argument is a null pointer.
    Null(u8),
}

/// Calls that are allowed where one of the alternatives holds, each a list of what it needs.
type Checked = (i64, Vec<Vec<Needs>>);

/// Commands of `bpf()`. All take descriptors that are open already; those that find objects of others by
/// number or path are not among them.
const BPF_COMMANDS: [u32; 6] = [
    bpf_cmd::BPF_MAP_LOOKUP_ELEM as u32,
    bpf_cmd::BPF_MAP_UPDATE_ELEM as u32,
    bpf_cmd::BPF_MAP_DELETE_ELEM as u32,
    bpf_cmd::BPF_MAP_GET_NEXT_KEY as u32,
    bpf_cmd::BPF_OBJ_GET_INFO_BY_FD as u32,
    bpf_cmd::BPF_MAP_LOOKUP_BATCH as u32,
];

/// A thread's name, and names of memory (the allocators).
const PRCTLS: [i32; 3] = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_VMA];

/// A descriptor of a file that is opened (musl) or closed (Rust's own checks), and another for the same.
/// Not who is signalled about it, nor that anyone is.
const FCNTLS: [i32; 3] = [libc::F_GETFD, libc::F_SETFD, libc::F_DUPFD_CLOEXEC];

/// What every thread of a process is started with, and what it may be started with besides. No other bit
/// is allowed: another process, a namespace, a tracer.
const THREAD: i32 = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
const OF_THREADS: i32 = libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_SETTID
    | libc::CLONE_CHILD_CLEARTID
    // Means nothing; musl sets it.
    | libc::CLONE_DETACHED;

/// Permissions that no file is created with: to be executed, or with the rights of its owner.
const EXECUTABLE: u32 = 0o7111;

/// Flags with which an open creates a file, and so looks at the permissions.
const CREATING: i32 = libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY);

/// How data is sent on a connection. Not MSG_FASTOPEN, which makes one.
const SENDING: i32 = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;

/// Whether this kernel can filter system calls.
pub fn filters_system_calls() -> bool {
    // SAFETY: reads the state only; takes no memory.
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
    for (call, alternatives) in checked() {
        let alternatives: Result<_, _> = alternatives.iter().map(|needs| rule(needs)).collect();
        rules.insert(call, alternatives?);
    }
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, refused, SeccompAction::Allow, architecture)?;
    let mut program = without_clone3();
    program.extend(BpfProgram::try_from(filter)?);
    Ok(program)
}

/// clone3() has its flags in memory, where a filter cannot see them. The C libraries make their threads with
/// clone() where it does not exist, and fail on every other answer.
fn without_clone3() -> BpfProgram {
    let statement = |code: u32, k: u32| sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let load_number = statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0);
    let is_clone3 = sock_filter {
        jf: 1,
        ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_clone3 as u32)
    };
    let does_not_exist = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    vec![load_number, is_clone3, statement(libc::BPF_RET | libc::BPF_K, does_not_exist)]
}

fn rule(needs: &[Needs]) -> Result<SeccompRule, seccompiler::BackendError> {
    let condition = |need: &Needs| {
        let (argument, length, how, value) = match *need {
            Needs::Is(argument, value) => {
                (argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
            }
            Needs::Bits(argument, mask, value) => {
                (argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask.into()), value)
            }
            Needs::Null(argument) => (argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0),
        };
        SeccompCondition::new(argument, length, how, value.into())
    };
    SeccompRule::new(needs.iter().map(condition).collect::<Result<_, _>>()?)
}

/// An argument that is one of some numbers.
fn one_of(argument: u8, numbers: impl IntoIterator<Item = u32>) -> Vec<Vec<Needs>> {
    numbers.into_iter().map(|number| vec![Needs::Is(argument, number)]).collect()
}

/// Calls whose arguments decide.
fn checked() -> Vec<Checked> {
    let of_int = |value: i32| value as u32;
    let itself = || one_of(0, [std::process::id()]);
    let not_executable = || vec![vec![Needs::Bits(2, of_int(libc::PROT_EXEC), 0)]];
    // A file that is there, or one that is created as data.
    let opening = |flags: u8| {
        vec![
            vec![Needs::Bits(flags, of_int(CREATING), 0)],
            vec![Needs::Bits(flags + 1, EXECUTABLE, 0)],
        ]
    };
    let thread = vec![Needs::Bits(0, !of_int(OF_THREADS), of_int(THREAD))];
    let sending = vec![Needs::Bits(3, !of_int(SENDING), 0), Needs::Null(4)];
    // How a connection ends that is not worth waiting for.
    let linger =
        vec![Needs::Is(1, of_int(libc::SOL_SOCKET)), Needs::Is(2, of_int(libc::SO_LINGER))];
    let own_limits = vec![Needs::Is(0, 0), Needs::Null(2)];
    vec![
        (libc::SYS_bpf, one_of(0, BPF_COMMANDS)),
        (libc::SYS_clone, vec![thread]),
        (libc::SYS_fcntl, one_of(1, FCNTLS.map(of_int))),
        (libc::SYS_mmap, not_executable()),
        (libc::SYS_mprotect, not_executable()),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, opening(1)),
        (libc::SYS_openat, opening(2)),
        (libc::SYS_prctl, one_of(0, PRCTLS.map(of_int))),
        // Reads its own; glibc does for the size of stacks.
        (libc::SYS_prlimit64, vec![own_limits]),
        // [osnoise] moves its threads, each itself.
        (libc::SYS_sched_setaffinity, one_of(0, [0])),
        // Marks, with who sent them; there is no room for descriptors of others.
        (libc::SYS_recvmsg, one_of(2, [of_int(libc::MSG_DONTWAIT)])),
        (libc::SYS_sendto, vec![sending]),
        (libc::SYS_setsockopt, vec![linger]),
        // Of a listener the other ways make a socket that could connect.
        (libc::SYS_shutdown, one_of(1, [of_int(libc::SHUT_WR)])),
        // abort(), with glibc and with musl, which has no other way to say whose thread it is: the first.
        (libc::SYS_tgkill, itself()),
        (libc::SYS_tkill, itself()),
    ]
}

/// Calls that are allowed whatever their arguments.
fn allowed() -> impl Iterator<Item = i64> {
    FILES.iter().chain(MEMORY).chain(THREADS).chain(SOCKETS).chain(WAITING).chain(OLD).copied()
}

/// Reading /proc, /sys and what is configured; replacing the state file; removing the socket. Which files,
/// Landlock decides.
const FILES: &[i64] = &[
    libc::SYS_close,
    libc::SYS_fdatasync,
    libc::SYS_fstat,
    libc::SYS_fsync,
    // Relative paths are made absolute to see where a symbolic link leads.
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_statx,
    libc::SYS_unlinkat,
    libc::SYS_write,
    libc::SYS_writev,
];

const MEMORY: &[i64] = &[libc::SYS_brk, libc::SYS_madvise, libc::SYS_mremap, libc::SYS_munmap];

/// Threads of its own: their start and end, what they wait for, their signals. What it costs, who it is.
const THREADS: &[i64] = &[
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    // glibc's qsort() reads how much memory there is.
    libc::SYS_sysinfo,
];

/// Clients: accepting them, reading their requests, and their addresses. Answers are written like files.
const SOCKETS: &[i64] = &[
    libc::SYS_accept4,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
];

/// The runtime, and [osnoise] between two periods.
const WAITING: &[i64] = &[
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_timerfd_settime,
];

/// The same by calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD: &[i64] = &[
    libc::SYS_epoll_wait,
    libc::SYS_lstat,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_stat,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[i64] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_compiles_and_names_each_call_once() {
        assert!(!filter(TargetArch::x86_64).unwrap().is_empty());
        let mut calls: Vec<i64> =
            allowed().chain(checked().iter().map(|(call, _)| *call)).collect();
        calls.sort_unstable();
        assert!(calls.windows(2).all(|pair| pair[0] != pair[1]));
        for call in [
            libc::SYS_bind,
            libc::SYS_connect,
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_fchmod,
            libc::SYS_io_uring_setup,
            libc::SYS_ioctl,
            libc::SYS_kill,
            libc::SYS_memfd_create,
            libc::SYS_mount,
            libc::SYS_pidfd_open,
            libc::SYS_ptrace,
            libc::SYS_seccomp,
            libc::SYS_sendmmsg,
            libc::SYS_sendmsg,
            libc::SYS_socket,
            libc::SYS_socketpair,
            libc::SYS_userfaultfd,
        ] {
            assert!(!calls.contains(&call), "{call}");
        }
    }
}
