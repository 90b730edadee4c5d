//! What a process may still do after it gave everything else up. A process of its own for that: there
//! is no way back.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, io, thread};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use noise_daemon::confine::{
    Extent, Rest, confine, filters_system_calls, landlock, threads_with_capabilities,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// Names the folder to the process that confines itself.
const FOLDER: &str = "NOISED_CONFINED_FOLDER";
/// Names the process that is in a sandbox.
const SANDBOXED: &str = "NOISED_CONFINED_SANDBOX";
/// Where the file that is read again is, and where it leads as a symbolic link.
const CONFIGURATION: &str = "configuration";
const TARGET: &str = "target";
/// A folder whose entries may be listed, and no more.
const LISTED: &str = "listed";

fn main() -> ExitCode {
    if let Some(folder) = env::var_os(FOLDER) {
        return confined(&folder);
    }
    if env::var_os(SANDBOXED).is_some() {
        return sandboxed();
    }
    let trial = Trial::ignorable_test("confine::what_was_given_up_is_gone", || {
        match landlock() {
            Err(refused) => return Ok(Completion::ignored_with(refused)),
            Ok(version) if version == 0 || !filters_system_calls() => {
                return Ok(Completion::ignored_with("this kernel has no Landlock or no seccomp"));
            }
            Ok(_) => {}
        }
        parent().map_err(Failed::from)?;
        Ok(Completion::Completed)
    });
    let outer = Trial::ignorable_test("confine::what_an_outer_sandbox_refuses_is_said", || {
        if !filters_system_calls() {
            return Ok(Completion::ignored_with("this kernel has no seccomp"));
        }
        let own = env::current_exe().map_err(|error| Failed::from(error.to_string()))?;
        let output = Command::new(own).env(SANDBOXED, "1").output();
        let output = output.map_err(|error| Failed::from(error.to_string()))?;
        match output.status.success() {
            true => Ok(Completion::Completed),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
        }
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial, outer]).exit_code()
}

/// A process in a sandbox that answers Landlock with an error, as those of containers and services do, confines
/// itself as far as it can, and says what is in the way. A kernel without Landlock is told apart.
fn sandboxed() -> ExitCode {
    let extent = |call: libc::c_long, errno: libc::c_int| -> anyhow::Result<Extent> {
        let action = SeccompAction::Errno(errno.unsigned_abs());
        let rules = [(call, Vec::new())].into();
        let architecture = TargetArch::try_from(env::consts::ARCH)?;
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, architecture)?;
        seccompiler::apply_filter(&BpfProgram::try_from(filter)?)?;
        let foreseen = landlock().is_err();
        let files = confine(&Rest { list: vec!["/proc".into()], ..Rest::default() })?.files;
        anyhow::ensure!(foreseen == matches!(files, Extent::Refused(_)), "`check` says otherwise");
        Ok(files)
    };
    // Each in a process of its own: a filter stays.
    let mut failed = false;
    let [make, add, restrict] = [
        libc::SYS_landlock_create_ruleset,
        libc::SYS_landlock_add_rule,
        libc::SYS_landlock_restrict_self,
    ];
    let (refused, missing) = (Some("landlock_restrict_self"), Some("no Landlock"));
    let answers = [
        (make, libc::EPERM, refused),
        (make, libc::EACCES, refused),
        (make, libc::ENOSYS, missing),
        (add, libc::EPERM, refused),
        (restrict, libc::EPERM, refused),
        // It is not called.
        (libc::SYS_reboot, libc::EPERM, None),
    ];
    let has_landlock = landlock() != Ok(0);
    let answers = answers.into_iter().filter(|(call, ..)| *call == make || has_landlock);
    for (call, errno, expected) in answers {
        // SAFETY: the child of a process with one thread.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let holds = match extent(call, errno) {
                Ok(Extent::Refused(why) | Extent::Not(why)) => {
                    expected.is_some_and(|text| why.contains(text))
                }
                Ok(Extent::Whole | Extent::Part) => expected.is_none(),
                other => {
                    eprintln!("{errno} of {call}: {other:?}");
                    false
                }
            };
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!holds)) };
        }
        let mut status = 0;
        // SAFETY: the status is valid memory.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        if waited != child || status != 0 {
            eprintln!("with {errno} of {call} it ended otherwise than it should ({status})");
            failed = true;
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn parent() -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let folder = tempfile::tempdir().map_err(text)?;
    for place in ["state", "socket"] {
        fs::create_dir(folder.path().join(place)).map_err(text)?;
    }
    fs::write(folder.path().join("socket").join("file"), "x").map_err(text)?;
    fs::write(folder.path().join("secret"), "x").map_err(text)?;
    for place in [CONFIGURATION, TARGET, LISTED] {
        fs::create_dir(folder.path().join(place)).map_err(text)?;
    }
    for place in [TARGET, LISTED] {
        fs::write(folder.path().join(place).join("file"), "x").map_err(text)?;
    }
    let link = folder.path().join(CONFIGURATION).join("file");
    std::os::unix::fs::symlink(Path::new("..").join(TARGET).join("file"), link).map_err(text)?;
    let output = Command::new(env::current_exe().map_err(text)?)
        .env(FOLDER, folder.path())
        .output()
        .map_err(text)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    print!("{said}");
    if !output.status.success() || !said.ends_with("all as it should be\n") {
        return Err(format!("{}: {complaints}", output.status));
    }
    Ok(())
}

/// The process that confines itself, and then tries.
fn confined(folder: &OsString) -> ExitCode {
    let folder = PathBuf::from(folder);
    let state = folder.join("state");
    let rest = Rest {
        read: vec!["/proc".into(), folder.join("missing")],
        list: vec![folder.join(LISTED)],
        read_again: vec![folder.join(CONFIGURATION).join("file")],
        write: vec![state.clone()],
        remove: vec![folder.join("socket")],
        kept: None,
    };
    let manager = UnixDatagram::pair();
    let confined = match confine(&rest) {
        Ok(confined) => confined,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::FAILURE;
        }
    };
    println!("files {}, system calls {}", confined.files, confined.system_calls);
    let mut wrong = 0;
    let sent = manager.and_then(|(own, _manager)| own.send(b"READY=1").map(drop));
    let mut attempts = attempts(&folder, &state);
    attempts.extend(by_arguments(&state));
    attempts.push(("talk to the service manager", true, sent));
    for (what, allowed, outcome) in attempts {
        let (holds, said) = match outcome {
            Ok(()) => (allowed, "done".to_owned()),
            Err(error) => {
                (!allowed && error.kind() == ErrorKind::PermissionDenied, error.to_string())
            }
        };
        println!("{what}: {said}{}", if holds { "" } else { "  <- WRONG" });
        wrong += u32::from(!holds);
    }
    let whole = confined.system_calls == Extent::Whole
        && !matches!(confined.files, Extent::Not(_))
        && threads_with_capabilities(None).is_ok_and(|threads| threads.is_empty());
    if wrong > 0 || !whole {
        eprintln!("{wrong} attempts ended otherwise than they should");
        return ExitCode::FAILURE;
    }
    println!("all as it should be");
    ExitCode::SUCCESS
}

/// What is tried, whether it shall be possible, and how it ended.
fn attempts(folder: &Path, state: &Path) -> Vec<(&'static str, bool, io::Result<()>)> {
    let call = |result: libc::c_long| match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    };
    let in_a_thread = thread::Builder::new().spawn(|| fs::read_to_string("/proc/self/comm"));
    let in_a_thread = in_a_thread.and_then(|thread| {
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread failed"))).map(drop)
    });
    // SAFETY: none of these calls takes memory that is not valid for it.
    let (signal, own_signal, limit, affinity) = unsafe {
        let (parent, own) = (libc::getppid(), libc::getpid());
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut set);
        let size = size_of::<libc::cpu_set_t>();
        let mut old: libc::rlimit64 = std::mem::zeroed();
        let nothing = std::ptr::null::<libc::rlimit64>();
        (
            call(libc::syscall(libc::SYS_tgkill, parent, parent, 0)),
            call(libc::syscall(libc::SYS_tgkill, own, own, 0)),
            call(libc::syscall(
                libc::SYS_prlimit64,
                parent,
                libc::RLIMIT_CORE,
                nothing,
                &raw mut old,
            )),
            call(libc::syscall(libc::SYS_sched_setaffinity, parent, size, &raw const set)),
        )
    };
    // SAFETY: none of these calls takes memory that is not valid for it.
    let (program, trace, mount, uid) = unsafe {
        (
            // BPF_PROG_LOAD.
            call(libc::syscall(libc::SYS_bpf, 5, [0u64; 16].as_ptr(), 128)),
            call(libc::syscall(libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0)),
            call(libc::syscall(libc::SYS_umount2, c"/proc".as_ptr(), libc::MNT_DETACH)),
            call(libc::syscall(libc::SYS_setuid, 0)),
        )
    };
    let again = folder.join(CONFIGURATION).join("file");
    vec![
        ("read the configuration again, through a link", true, fs::read(again).map(drop)),
        ("read what was granted", true, fs::read_to_string("/proc/self/comm").map(drop)),
        ("write where it was granted", true, fs::write(state.join("file"), "x")),
        ("replace there", true, fs::rename(state.join("file"), state.join("other"))),
        ("read there", true, fs::read(state.join("other")).map(drop)),
        ("start a thread", true, in_a_thread),
        ("list a folder", true, fs::read_dir(folder.join(LISTED)).map(drop)),
        ("read what is listed", false, fs::read(folder.join(LISTED).join("file")).map(drop)),
        ("list another folder", false, fs::read_dir(folder).map(drop)),
        ("read another file", false, fs::read(folder.join("secret")).map(drop)),
        ("read a password file", false, fs::read("/etc/shadow").map(drop)),
        ("write elsewhere", false, fs::write(folder.join("file"), "x")),
        ("execute", false, Command::new("/bin/true").status().map(drop)),
        ("listen", false, std::net::TcpListener::bind("127.0.0.1:0").map(drop)),
        ("load a program", false, program),
        ("trace", false, trace),
        ("unmount", false, mount),
        ("become another user", false, uid),
        ("remove where that was granted", true, fs::remove_file(folder.join("socket/file"))),
        ("write where files are removed", false, fs::write(folder.join("socket/file"), "x")),
        ("signal itself", true, own_signal),
        ("signal another", false, signal),
        ("ask for another's limits", false, limit),
        ("move another", false, affinity),
        ("make a local socket", false, UnixDatagram::unbound().map(drop)),
        ("connect", false, std::net::TcpStream::connect("127.0.0.1:9").map(drop)),
    ]
}

/// Calls that are allowed, with arguments that are not.
fn by_arguments(state: &Path) -> Vec<(&'static str, bool, io::Result<()>)> {
    let call = |result: libc::c_long| match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    };
    let create = |name: &str, mode: u32| {
        fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(state.join(name))
    };
    let file = create("data", 0o600);
    let changed = file.and_then(|file| {
        // SAFETY: no memory argument.
        call(unsafe { libc::syscall(libc::SYS_fchmod, file.as_raw_fd(), 0o4755) })
    });
    let executable = libc::PROT_READ | libc::PROT_EXEC;
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let nothing = std::ptr::null::<u8>();
    // SAFETY: fresh memory at most, that nothing uses; a process that is made ends at once.
    let (owner, asynchronous, limit, mapped, process, by_clone3) = unsafe {
        let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0);
        if child == 0 {
            libc::_exit(0);
        }
        let process = call(child);
        (
            call(libc::fcntl(0, libc::F_SETOWN, libc::getppid()).into()),
            call(libc::fcntl(0, libc::F_SETFL, libc::O_ASYNC).into()),
            call(
                libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 })
                    .into(),
            ),
            call(libc::syscall(libc::SYS_mmap, nothing, 4096, executable, private, -1, 0)),
            process,
            call(libc::syscall(libc::SYS_clone3, nothing, 0)),
        )
    };
    // As if the kernel were older: the C libraries go on with clone() then.
    let by_clone3 = match by_clone3.map_err(|error| error.raw_os_error()) {
        Err(Some(libc::ENOSYS)) => Err(ErrorKind::PermissionDenied.into()),
        other => Err(io::Error::other(format!("{other:?}"))),
    };
    // Another way to the same calls; other architectures have no such number.
    // SAFETY: no memory argument.
    let by_x32 = call(unsafe { libc::syscall(0x4000_0000 | libc::SYS_getpid) });
    vec![
        ("make a call of x32", false, by_x32),
        ("give a file the rights of its owner", false, changed),
        ("create a program", false, create("program", 0o700).map(drop)),
        ("create one with the rights of its owner", false, create("owned", 0o4600).map(drop)),
        ("say who is signalled", false, owner),
        ("have signals sent", false, asynchronous),
        ("change a limit of its own", false, limit),
        ("make memory executable", false, mapped),
        ("start a process", false, process),
        ("start one by clone3", false, by_clone3),
    ]
}
