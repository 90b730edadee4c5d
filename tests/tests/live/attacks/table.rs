//! The calls: what each is, and how it is refused.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use noise_tests::inject::Injector;

/// What the calls are about, as the daemon names it.
pub(super) struct Scene {
    /// The daemon itself.
    pub(super) own: u64,
    /// The descriptor of what it listens on.
    pub(super) listener: u64,
    /// Where else something listens.
    pub(super) elsewhere: SocketAddr,
    /// Processes of others.
    pub(super) victims: Vec<u64>,
    /// A file of the test in a folder of its own.
    pub(super) precious: String,
    /// The state directory.
    pub(super) state: Option<String>,
}

/// One part of the table, with what its arguments point to in the daemon's memory.
type Part = fn(&mut Injector, &Scene) -> Result<Vec<Attack>>;

/// The table.
pub(super) const PARTS: [Part; 6] = [signals, network, files, processes, memory, kernel];

/// What is tried.
pub(super) struct Attack {
    pub(super) what: &'static str,
    pub(super) number: i64,
    pub(super) arguments: [u64; 6],
    /// How the kernel may answer.
    pub(super) refused: &'static [i32],
}

/// By the filter of system calls.
const FORBIDDEN: &[i32] = &[libc::EPERM];
/// As if the kernel were older.
const UNKNOWN: &[i32] = &[libc::ENOSYS];
/// By Landlock; a container has no such file.
const OUT_OF_REACH: &[i32] = &[libc::EACCES, libc::ENOENT];

/// Numbers that the C library has no names for.
const FCHMODAT2: i64 = 452;
const PIDFD_GETFD: i64 = 438;
const PROCESS_MADVISE: i64 = 440;
const LANDLOCK_CREATE_RULESET: i64 = 444;

/// Makes a line of a table.
fn attack(what: &'static str, number: i64, arguments: &[u64]) -> Attack {
    let mut all = [0; 6];
    for (argument, given) in all.iter_mut().zip(arguments) {
        *argument = *given;
    }
    Attack { what, number, arguments: all, refused: FORBIDDEN }
}

fn by(refused: &'static [i32], attack: Attack) -> Attack {
    Attack { refused, ..attack }
}

/// `struct sockaddr_in`.
fn socket_address(address: SocketAddr) -> Vec<u8> {
    let family = u16::try_from(libc::AF_INET).unwrap_or_default().to_ne_bytes();
    let host = Ipv4Addr::LOCALHOST.octets();
    [&family[..], &address.port().to_be_bytes(), &host, &[0; 8]].concat()
}

/// Signals to others, straight or through a descriptor that becomes ready.
fn signals(injector: &mut Injector, scene: &Scene) -> Result<Vec<Attack>> {
    const FIOSETOWN: u64 = 0x8901;
    const SIOCSPGRP: u64 = 0x8902;
    const FIOASYNC: u64 = 0x5452;
    const F_SETOWN_EX: u64 = 15;
    let listener = scene.listener;
    let kill = libc::SIGKILL as u64;
    // Not blocking, as it was.
    let asynchronous = (libc::O_ASYNC | libc::O_NONBLOCK) as u64;
    let word = injector.place_words(&[1])?;
    let info = injector.place(&[0; 128])?;
    let mut attacks = vec![
        attack("fcntl F_SETSIG", libc::SYS_fcntl, &[listener, 10, kill]),
        attack("fcntl F_SETFL O_ASYNC", libc::SYS_fcntl, &[listener, 4, asynchronous]),
        attack("fcntl F_SETLEASE", libc::SYS_fcntl, &[2, 1024, 0]),
        attack("fcntl F_NOTIFY", libc::SYS_fcntl, &[2, 1026, 1]),
        attack("ioctl FIOASYNC", libc::SYS_ioctl, &[listener, FIOASYNC, word]),
        attack("kill everybody", libc::SYS_kill, &[u64::MAX, 0]),
        attack("kill its group", libc::SYS_kill, &[0, 0]),
    ];
    for pid in scene.victims.iter().copied() {
        let owner = injector.place_words(&[1 | pid << 32])?;
        let number = injector.place_words(&[pid])?;
        attacks.extend([
            attack("fcntl F_SETOWN", libc::SYS_fcntl, &[listener, 8, pid]),
            attack("fcntl F_SETOWN_EX", libc::SYS_fcntl, &[listener, F_SETOWN_EX, owner]),
            attack("ioctl FIOSETOWN", libc::SYS_ioctl, &[listener, FIOSETOWN, number]),
            attack("ioctl SIOCSPGRP", libc::SYS_ioctl, &[listener, SIOCSPGRP, number]),
            attack("kill", libc::SYS_kill, &[pid, kill]),
            attack("tkill", libc::SYS_tkill, &[pid, kill]),
            attack("tgkill", libc::SYS_tgkill, &[pid, pid, kill]),
            attack("tgkill as itself", libc::SYS_tgkill, &[scene.own + 1, pid, kill]),
            attack("rt_sigqueueinfo", libc::SYS_rt_sigqueueinfo, &[pid, kill, info]),
            attack("rt_tgsigqueueinfo", libc::SYS_rt_tgsigqueueinfo, &[pid, pid, kill, info]),
            attack("pidfd_open", libc::SYS_pidfd_open, &[pid]),
            attack("pidfd_send_signal", libc::SYS_pidfd_send_signal, &[2, kill]),
            attack("ptrace", libc::SYS_ptrace, &[u64::from(libc::PTRACE_ATTACH), pid]),
            attack("process_vm_readv", libc::SYS_process_vm_readv, &[pid, info, 1, info, 1]),
            attack("process_vm_writev", libc::SYS_process_vm_writev, &[pid, info, 1, info, 1]),
            attack("kcmp", libc::SYS_kcmp, &[pid, pid]),
            attack("get_robust_list", libc::SYS_get_robust_list, &[pid, info, info]),
            attack("prlimit64", libc::SYS_prlimit64, &[pid, 0, 0, info]),
            attack("sched_setaffinity", libc::SYS_sched_setaffinity, &[pid, 8, word]),
            attack("sched_setscheduler", libc::SYS_sched_setscheduler, &[pid, 3, info]),
            attack("setpriority", libc::SYS_setpriority, &[0, pid, 19]),
            attack("ioprio_set", libc::SYS_ioprio_set, &[1, pid, 0]),
            attack("migrate_pages", libc::SYS_migrate_pages, &[pid, 64, word, word]),
        ]);
    }
    Ok(attacks)
}

/// Connections and datagrams to others.
fn network(injector: &mut Injector, scene: &Scene) -> Result<Vec<Attack>> {
    const TCP_FASTOPEN_CONNECT: u64 = 30;
    let listener = scene.listener;
    let address = injector.place(&socket_address(scene.elsewhere))?;
    let data = injector.place(b"attack")?;
    let parts = injector.place_words(&[data, 6])?;
    let message = injector.place_words(&[address, 16, parts, 1, 0, 0, 0])?;
    let one = injector.place_words(&[1])?;
    // 224.0.0.99 by any interface.
    let group = injector.place(&[224, 0, 0, 99, 0, 0, 0, 0])?;
    let fast = (libc::MSG_FASTOPEN | libc::MSG_NOSIGNAL) as u64;
    let (internet, stream) = (libc::AF_INET as u64, libc::SOCK_STREAM as u64);
    Ok(vec![
        attack("shutdown of the listener", libc::SYS_shutdown, &[listener, 0]),
        attack("sendto MSG_FASTOPEN", libc::SYS_sendto, &[listener, data, 6, fast, address, 16]),
        attack("sendto MSG_FASTOPEN nowhere", libc::SYS_sendto, &[listener, data, 6, fast]),
        attack("sendto an address", libc::SYS_sendto, &[listener, data, 6, 0, address, 16]),
        attack("sendmsg", libc::SYS_sendmsg, &[listener, message, fast]),
        attack("sendmmsg", libc::SYS_sendmmsg, &[listener, message, 1, fast]),
        attack("recvmsg", libc::SYS_recvmsg, &[listener, message]),
        attack("connect", libc::SYS_connect, &[listener, address, 16]),
        attack("bind", libc::SYS_bind, &[listener, address, 16]),
        attack("listen", libc::SYS_listen, &[listener, 1]),
        attack("socket", libc::SYS_socket, &[internet, stream]),
        attack("a local socket", libc::SYS_socket, &[libc::AF_UNIX as u64, stream]),
        attack("a netlink socket", libc::SYS_socket, &[libc::AF_NETLINK as u64, 3]),
        attack("socketpair", libc::SYS_socketpair, &[libc::AF_UNIX as u64, stream, 0, data]),
        attack(
            "setsockopt TCP_FASTOPEN_CONNECT",
            libc::SYS_setsockopt,
            &[listener, libc::IPPROTO_TCP as u64, TCP_FASTOPEN_CONNECT, one, 4],
        ),
        attack(
            "setsockopt IP_ADD_MEMBERSHIP",
            libc::SYS_setsockopt,
            &[listener, 0, libc::IP_ADD_MEMBERSHIP as u64, group, 8],
        ),
        attack("shutdown of the listener both ways", libc::SYS_shutdown, &[listener, 2]),
        attack("splice", libc::SYS_splice, &[2, 0, listener, 0, 1]),
        attack("sendfile", libc::SYS_sendfile, &[listener, 2, 0, 1]),
    ])
}

/// Files of others, and permissions.
fn files(injector: &mut Injector, scene: &Scene) -> Result<Vec<Attack>> {
    let here = libc::AT_FDCWD as u64;
    let writing = (libc::O_WRONLY | libc::O_CREAT) as u64;
    let secret = injector.place(b"/etc/shadow\0")?;
    let precious = injector.place(format!("{}\0", scene.precious).as_bytes())?;
    let file = injector.place(format!("{}-new\0", scene.precious).as_bytes())?;
    let other = injector.place(format!("{}-other\0", scene.precious).as_bytes())?;
    let text = injector.place(b"security.attack\0")?;
    let mut attacks = vec![
        attack("fchmod 04755", libc::SYS_fchmod, &[2, 0o4755]),
        attack("chmod", libc::SYS_chmod, &[precious, 0o4755]),
        attack("fchmodat", libc::SYS_fchmodat, &[here, precious, 0o4755]),
        attack("fchmodat2", FCHMODAT2, &[here, precious, 0o4755]),
        attack("fchown", libc::SYS_fchown, &[2, 0, 0]),
        attack("fchownat", libc::SYS_fchownat, &[here, precious, 0, 0]),
        attack("umask", libc::SYS_umask, &[0]),
        attack("open a new program", libc::SYS_open, &[file, writing, 0o755]),
        attack("openat2", libc::SYS_openat2, &[here, file, text, 24]),
        attack("creat", libc::SYS_creat, &[file, 0o600]),
        attack("mknodat", libc::SYS_mknodat, &[here, file, 0o20600, 0x103]),
        attack("mkdirat", libc::SYS_mkdirat, &[here, file, 0o777]),
        attack("linkat", libc::SYS_linkat, &[here, precious, here, file]),
        attack("symlinkat", libc::SYS_symlinkat, &[secret, here, file]),
        attack("setxattr", libc::SYS_setxattr, &[precious, text, text, 1]),
        attack("fsetxattr", libc::SYS_fsetxattr, &[2, text, text, 1]),
        attack("truncate", libc::SYS_truncate, &[precious, 0]),
        attack("utimensat", libc::SYS_utimensat, &[here, precious]),
        attack("mount", libc::SYS_mount, &[text, file, text]),
        attack("umount2", libc::SYS_umount2, &[file, 0]),
        attack("fsopen", libc::SYS_fsopen, &[text]),
        attack("open_tree", libc::SYS_open_tree, &[here, file, 1]),
        attack("move_mount", libc::SYS_move_mount, &[here, file, here, other]),
        attack("pivot_root", libc::SYS_pivot_root, &[file, other]),
        attack("chroot", libc::SYS_chroot, &[file]),
        attack("chdir", libc::SYS_chdir, &[file]),
        attack("open_by_handle_at", libc::SYS_open_by_handle_at, &[2, text]),
        attack("inotify_init1", libc::SYS_inotify_init1, &[0]),
        attack("fanotify_init", libc::SYS_fanotify_init, &[0]),
    ];
    if !has_landlock() {
        return Ok(attacks);
    }
    for (what, path) in [
        ("read traces", &b"/sys/kernel/tracing/trace\0"[..]),
        ("read debugfs", b"/sys/kernel/debug\0"),
        ("read firmware", b"/sys/firmware\0"),
    ] {
        let path = injector.place(path)?;
        attacks.push(by(OUT_OF_REACH, attack(what, libc::SYS_openat, &[here, path])));
    }
    let public = injector.place(b"/etc/passwd\0")?;
    let setting = injector.place(b"/proc/sys/kernel/core_pattern\0")?;
    let write = libc::O_WRONLY as u64;
    attacks.extend([
        by(OUT_OF_REACH, attack("read what all may read", libc::SYS_openat, &[here, public])),
        by(OUT_OF_REACH, attack("read passwords", libc::SYS_openat, &[here, secret])),
        by(OUT_OF_REACH, attack("create a file", libc::SYS_openat, &[here, file, writing, 0o600])),
        by(OUT_OF_REACH, attack("set a parameter", libc::SYS_openat, &[here, setting, write])),
        by(OUT_OF_REACH, attack("remove a file", libc::SYS_unlinkat, &[here, precious])),
        by(
            OUT_OF_REACH,
            attack("rename a file", libc::SYS_renameat, &[here, precious, here, file]),
        ),
    ]);
    if let Some(inside) = &scene.state {
        let program = injector.place(format!("{inside}/attack\0").as_bytes())?;
        attacks.push(attack("mkdirat in its own", libc::SYS_mkdirat, &[here, program, 0o700]));
        attacks.push(attack("symlinkat in its own", libc::SYS_symlinkat, &[secret, here, program]));
    }
    Ok(attacks)
}

/// Other processes, programs, namespaces and users.
fn processes(injector: &mut Injector, _scene: &Scene) -> Result<Vec<Attack>> {
    let program = injector.place(b"/bin/true\0")?;
    let none = injector.place_words(&[0])?;
    let child = libc::SIGCHLD as u64;
    let user = libc::CLONE_NEWUSER as u64;
    let thread = (libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD) as u64;
    let sets = injector.place(&[0xff; 24])?;
    let header = injector.place_words(&[0x2008_0522])?;
    // Flags, and at the fifth place the signal at the end.
    let clone3 = injector.place_words(&[user, 0, 0, 0, child, 0, 0, 0, 0, 0, 0])?;
    let plain3 = injector.place_words(&[0, 0, 0, 0, child, 0, 0, 0, 0, 0, 0])?;
    Ok(vec![
        attack("clone CLONE_NEWUSER", libc::SYS_clone, &[user | child]),
        attack("clone a process", libc::SYS_clone, &[child]),
        attack("clone a thread that is traced", libc::SYS_clone, &[thread | 0x2000, none]),
        attack("clone a thread in a namespace", libc::SYS_clone, &[thread | 0x4000_0000, none]),
        attack("fork", libc::SYS_fork, &[]),
        attack("vfork", libc::SYS_vfork, &[]),
        by(UNKNOWN, attack("clone3 CLONE_NEWUSER", libc::SYS_clone3, &[clone3, 88])),
        by(UNKNOWN, attack("clone3", libc::SYS_clone3, &[plain3, 88])),
        attack("execve", libc::SYS_execve, &[program, none, none]),
        attack("execveat", libc::SYS_execveat, &[libc::AT_FDCWD as u64, program, none, none]),
        attack("unshare", libc::SYS_unshare, &[user]),
        attack("setns", libc::SYS_setns, &[2, 0]),
        attack("pidfd_getfd", PIDFD_GETFD, &[2, 0]),
        attack("setuid", libc::SYS_setuid, &[0]),
        attack("setresuid", libc::SYS_setresuid, &[0, 0, 0]),
        attack("setgid", libc::SYS_setgid, &[0]),
        attack("setgroups", libc::SYS_setgroups, &[0]),
        attack("capset", libc::SYS_capset, &[header, sets]),
        attack("setsid", libc::SYS_setsid, &[]),
        attack("prctl PR_SET_DUMPABLE", libc::SYS_prctl, &[4, 1]),
        attack("prctl PR_SET_PTRACER", libc::SYS_prctl, &[0x5961_6d61, u64::MAX]),
        attack("prctl PR_SET_CHILD_SUBREAPER", libc::SYS_prctl, &[36, 1]),
        attack("prctl PR_SET_PDEATHSIG", libc::SYS_prctl, &[1, 9]),
        attack("seccomp", libc::SYS_seccomp, &[0, 0]),
        attack("landlock_create_ruleset", LANDLOCK_CREATE_RULESET, &[0, 0, 1]),
        attack("a limit of its own", libc::SYS_prlimit64, &[0, 7, sets]),
        attack("setrlimit", libc::SYS_setrlimit, &[7, sets]),
    ])
}

/// Memory that is executed.
fn memory(injector: &mut Injector, _scene: &Scene) -> Result<Vec<Attack>> {
    const PAGE: u64 = 4096;
    let all = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
    let readable = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let name = injector.place(b"attack\0")?;
    let page = name & !(PAGE - 1);
    let none = u64::MAX;
    Ok(vec![
        attack("mmap writable and executable", libc::SYS_mmap, &[0, PAGE, all, anonymous, none]),
        attack("mmap executable", libc::SYS_mmap, &[0, PAGE, readable, anonymous, none]),
        attack("mprotect executable", libc::SYS_mprotect, &[page, PAGE, readable]),
        attack("mprotect writable and executable", libc::SYS_mprotect, &[page, PAGE, all]),
        attack("pkey_mprotect", libc::SYS_pkey_mprotect, &[page, PAGE, all, none]),
        attack("memfd_create", libc::SYS_memfd_create, &[name, 0]),
        attack("memfd_secret", libc::SYS_memfd_secret, &[0]),
        attack("shmget", libc::SYS_shmget, &[0, PAGE, 0o1700]),
        attack("shmat", libc::SYS_shmat, &[0, 0, 0]),
        attack("remap_file_pages", libc::SYS_remap_file_pages, &[page, PAGE, 0, 0]),
        attack("personality", libc::SYS_personality, &[0x0040_0000]),
        attack("userfaultfd", libc::SYS_userfaultfd, &[1]),
        attack("process_madvise", PROCESS_MADVISE, &[2, page, 1, 4]),
        attack("modify_ldt", libc::SYS_modify_ldt, &[0, page, 16]),
        attack("arch_prctl", libc::SYS_arch_prctl, &[0x1002, page]),
    ])
}

/// The kernel: programs, objects of others, modules, clocks, keys.
fn kernel(injector: &mut Injector, _scene: &Scene) -> Result<Vec<Attack>> {
    let text = injector.place(b"attack\0")?;
    let attributes = injector.place(&[0; 144])?;
    let bpf = |what, command| attack(what, libc::SYS_bpf, &[command, attributes, 144]);
    Ok(vec![
        bpf("bpf MAP_CREATE", 0),
        bpf("bpf PROG_LOAD", 5),
        bpf("bpf OBJ_PIN", 6),
        bpf("bpf OBJ_GET", 7),
        bpf("bpf PROG_ATTACH", 8),
        bpf("bpf PROG_DETACH", 9),
        bpf("bpf PROG_TEST_RUN", 10),
        bpf("bpf PROG_GET_NEXT_ID", 11),
        bpf("bpf PROG_GET_FD_BY_ID", 13),
        bpf("bpf MAP_GET_FD_BY_ID", 14),
        bpf("bpf RAW_TRACEPOINT_OPEN", 17),
        bpf("bpf BTF_LOAD", 18),
        bpf("bpf TASK_FD_QUERY", 20),
        bpf("bpf MAP_LOOKUP_AND_DELETE_ELEM", 21),
        bpf("bpf MAP_FREEZE", 22),
        bpf("bpf MAP_UPDATE_BATCH", 26),
        bpf("bpf MAP_DELETE_BATCH", 27),
        bpf("bpf LINK_CREATE", 28),
        bpf("bpf LINK_UPDATE", 29),
        bpf("bpf LINK_GET_FD_BY_ID", 30),
        bpf("bpf ENABLE_STATS", 32),
        bpf("bpf LINK_DETACH", 34),
        bpf("bpf TOKEN_CREATE", 36),
        attack("perf_event_open", libc::SYS_perf_event_open, &[attributes, 0, 0, u64::MAX]),
        attack("io_uring_setup", libc::SYS_io_uring_setup, &[1, attributes]),
        attack("io_uring_enter", libc::SYS_io_uring_enter, &[2, 0]),
        attack("init_module", libc::SYS_init_module, &[attributes, 0, text]),
        attack("finit_module", libc::SYS_finit_module, &[2, text]),
        attack("kexec_load", libc::SYS_kexec_load, &[]),
        attack("reboot", libc::SYS_reboot, &[]),
        attack("swapoff", libc::SYS_swapoff, &[text]),
        attack("syslog", libc::SYS_syslog, &[2, attributes, 144]),
        attack("keyctl", libc::SYS_keyctl, &[0]),
        attack("add_key", libc::SYS_add_key, &[text, text]),
        attack("request_key", libc::SYS_request_key, &[text, text]),
        attack("clock_settime", libc::SYS_clock_settime, &[0, attributes]),
        attack("adjtimex", libc::SYS_adjtimex, &[attributes]),
        attack("sethostname", libc::SYS_sethostname, &[text, 6]),
        attack("iopl", libc::SYS_iopl, &[3]),
        attack("quotactl", libc::SYS_quotactl, &[0]),
        attack("acct", libc::SYS_acct, &[text]),
        attack("mlockall", libc::SYS_mlockall, &[1]),
        attack("timer_create", libc::SYS_timer_create, &[0, attributes, attributes]),
    ])
}

/// Whether this kernel has Landlock.
fn has_landlock() -> bool {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the call takes no memory.
    unsafe { libc::syscall(LANDLOCK_CREATE_RULESET, std::ptr::null::<u8>(), 0_usize, VERSION) > 0 }
}
