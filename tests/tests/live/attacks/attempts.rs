//! Making the calls, and what they must not have touched.

use std::ffi::CString;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use noise_tests::daemon::Process;
use noise_tests::http;
use noise_tests::inject::Injector;
use noise_tests::namespace::{in_network_of, in_processes_of};
use noise_tests::scratch::{Folder, argument};

use super::Target;
use super::table::{Attack, PARTS, Scene};

/// A file, and what it says.
const PRECIOUS: &str = "precious";

/// A process that is to stay unharmed.
struct Victim {
    whose: &'static str,
    /// As this host and as the daemon count.
    pid: u32,
    inside: i32,
    _process: Process,
}

impl Victim {
    /// A process of this user, in the daemon's namespace of processes: one that the daemon can name.
    fn start(whose: &'static str, user: u32, daemon: u32) -> Result<Self> {
        let mut command = Command::new("sleep");
        command.arg("300").uid(user).gid(user).current_dir("/");
        let process = in_processes_of(daemon, || Process::start(command))?;
        let pid = process.pid();
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let inside = numbers.and_then(|numbers| numbers.split_whitespace().last());
        let inside = inside.context("no NSpid")?.parse()?;
        Ok(Self { whose, pid, inside, _process: process })
    }

    fn is_alive(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        state.is_some_and(|state| state != 'Z')
    }
}

/// What must not be touched.
struct Ground {
    victims: [Victim; 3],
    /// Where no connection may arrive.
    elsewhere: TcpListener,
    /// Of the daemon's standard error.
    mode: u32,
    /// Has one file, of root's.
    folder: Folder,
}

impl Ground {
    fn prepare(target: &Target) -> Result<Self> {
        let owner = of_status(target.pid, "Uid:")?;
        let folder = Folder::new("precious")?;
        let precious = folder.path().join(PRECIOUS);
        fs::write(&precious, PRECIOUS)?;
        fs::set_permissions(&precious, Permissions::from_mode(0o644))?;
        let elsewhere = in_network_of(target.pid, || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })?;
        Ok(Self {
            victims: [
                Victim::start("root's", 0, target.pid)?,
                Victim::start("another user's", 65534, target.pid)?,
                Victim::start("its own user's", owner, target.pid)?,
            ],
            elsewhere,
            mode: mode_of_stderr(target.pid)?,
            folder,
        })
    }

    fn scene(&self, target: &Target, own: u64) -> Result<Scene> {
        let victims = self.victims.iter().map(|victim| Ok(u64::try_from(victim.inside)?));
        Ok(Scene {
            own,
            listener: listener_of(target.pid, target.address)?,
            elsewhere: self.elsewhere.local_addr()?,
            victims: victims.collect::<Result<_>>()?,
            precious: argument(&self.folder.path().join(PRECIOUS))?.to_owned(),
            state: target.state.as_ref().map(|(_, inside)| inside.clone()),
        })
    }

    /// Requires every attack to have been without effect.
    fn ensure_unharmed(&self, target: &Target) -> Result<()> {
        let pid = target.pid;
        for victim in &self.victims {
            ensure!(victim.is_alive(), "{} process {} was ended", victim.whose, victim.pid);
        }
        match self.elsewhere.accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            outcome => bail!("the daemon connected elsewhere: {outcome:?}"),
        }
        ensure!(mode_of_stderr(pid)? == self.mode, "the mode of standard error was changed");
        let files: Vec<_> = fs::read_dir(self.folder.path())?.collect::<Result<_, _>>()?;
        let [file] = &files[..] else { bail!("files of others were made or removed: {files:?}") };
        let mode = file.metadata()?.mode() & 0o7777;
        let text = fs::read_to_string(file.path())?;
        ensure!(
            mode == 0o644 && text == PRECIOUS,
            "a file of others was changed: {mode:o}, {text}"
        );
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let open = maps.lines().find(|line| line.contains(" rwx"));
        ensure!(open.is_none(), "memory is writable and executable: {open:?}");
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            let children = fs::read_to_string(task?.path().join("children"))?;
            ensure!(children.is_empty(), "the daemon has children: {children}");
        }
        Ok(())
    }
}

fn mode_of_stderr(pid: u32) -> Result<u32> {
    Ok(fs::metadata(format!("/proc/{pid}/fd/2"))?.mode())
}

/// The first number of a line of a process's status.
fn of_status(pid: u32, name: &str) -> Result<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|line| line.split_whitespace().next());
    Ok(value.with_context(|| format!("no {name}"))?.parse()?)
}

/// The descriptor of the socket that listens at an address.
fn listener_of(pid: u32, address: SocketAddr) -> Result<u64> {
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp"))?;
    let port = format!(":{:04X}", address.port());
    let listening = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let inode = listening
        .filter(|words| words.get(3) == Some(&"0A"))
        .find(|words| words.get(1).is_some_and(|local| local.ends_with(&port)))
        .and_then(|words| words.get(9).map(|inode| format!("socket:[{inode}]")))
        .context("the daemon's listener is not in /proc/net/tcp")?;
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let entry = entry?;
        if fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == inode.as_str()) {
            return Ok(entry.file_name().to_string_lossy().parse()?);
        }
    }
    bail!("the daemon has no descriptor of {inode}")
}

/// Requires whatever the running daemon is made to try to be refused, and to have no effect.
pub(super) fn ensure_refused(target: &Target) -> Result<()> {
    let ground = Ground::prepare(target)?;
    let mut succeeded = Vec::new();
    {
        let mut injector = Injector::attach(target.pid)?;
        // The calls are made, and what is allowed succeeds.
        let own = injector.call(libc::SYS_getpid, [0; 6])?;
        ensure!(own > 0, "getpid answers {own}");
        let scene = ground.scene(target, own.try_into()?)?;
        for part in PARTS {
            injector.clear();
            let attacks = part(&mut injector, &scene)?;
            for Attack { what, number, arguments, refused } in attacks {
                let answer = injector.call(number, arguments).context(what)?;
                if !refused.iter().any(|error| answer == -i64::from(*error)) {
                    succeeded.push(format!("{what}: {answer}"));
                }
            }
        }
        in_state_directory(&mut injector, target, &mut succeeded)?;
    }
    // Whoever was to be signalled about the listener is signalled now; and the daemon is as it was.
    let answered = in_network_of(target.pid, || {
        let answer = http::get(target.address, "/metrics", &[])?;
        ensure!(answer.status == 200, "/metrics answers {} afterwards", answer.status);
        Ok(())
    });
    for outcome in [answered, ground.ensure_unharmed(target), ensure_out_of_reach(target)] {
        succeeded.extend(outcome.err().map(|error| format!("{error:#}")));
    }
    ensure!(succeeded.is_empty(), "not refused as it should be: {succeeded:#?}");
    Ok(())
}

/// A file that the daemon may make where it keeps its state gets no permission to be executed.
fn in_state_directory(
    injector: &mut Injector,
    target: &Target,
    succeeded: &mut Vec<String>,
) -> Result<()> {
    let Some((here, inside)) = &target.state else { return Ok(()) };
    injector.clear();
    let creating = (libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL) as u64;
    let mut create = |mode: u64| {
        let path = injector.place(format!("{inside}/attack-{mode:o}\0").as_bytes())?;
        injector.call(libc::SYS_openat, [libc::AT_FDCWD as u64, path, creating, mode, 0, 0])
    };
    for mode in [0o4600, 0o2600, 0o755] {
        let answer = create(mode)?;
        if answer != -i64::from(libc::EPERM) {
            succeeded.push(format!("create a file with mode {mode:o}: {answer}"));
        }
    }
    let file = create(0o600)?;
    ensure!(file >= 0, "a file cannot be created in {inside}: {file}");
    let changed = injector.call(libc::SYS_fchmod, [file as u64, 0o4755, 0, 0, 0, 0])?;
    if changed != -i64::from(libc::EPERM) {
        succeeded.push(format!("fchmod 04755 in the state directory: {changed}"));
    }
    injector.call(libc::SYS_close, [file as u64, 0, 0, 0, 0, 0])?;
    let host = here.join("attack-600");
    let mode = fs::metadata(&host)?.permissions().mode() & 0o7777;
    fs::remove_file(&host)?;
    if mode != 0o600 {
        succeeded.push(format!("a file in the state directory has mode {mode:o}"));
    }
    Ok(())
}

/// What a process tries just after it was made; -1 where it fails.
type Attempt = Box<dyn Fn() -> libc::c_long + Send + Sync>;

/// Requires another process of the daemon's user to be refused when it attaches to the daemon, or looks at what only
/// those may see who could attach.
fn ensure_out_of_reach(target: &Target) -> Result<()> {
    let user = of_status(target.pid, "Uid:")?;
    let daemon = i32::try_from(target.pid)?;
    let memory = CString::new(format!("/proc/{daemon}/mem"))?;
    // SAFETY: no memory argument.
    let attach = move || unsafe { libc::ptrace(libc::PTRACE_SEIZE, daemon, 0, 0) };
    // SAFETY: the path was made before and outlives the call.
    let read = move || unsafe { libc::open(memory.as_ptr(), libc::O_RDONLY).into() };
    let attempts: [(&str, Attempt); 2] =
        [("attached to", Box::new(attach)), ("read the memory of", Box::new(read))];
    for (what, attempt) in attempts {
        // Before it becomes another program, which would give root all capabilities again.
        let mut command = Command::new("true");
        // SAFETY: only system calls, on a string that was made before the fork.
        unsafe {
            command.pre_exec(move || {
                become_user(user)?;
                match attempt() {
                    -1 => Err(io::Error::last_os_error()),
                    _ => Ok(()),
                }
            });
        }
        let answer = command.status();
        let refused = answer.as_ref().err().and_then(io::Error::raw_os_error);
        ensure!(
            matches!(refused, Some(libc::EPERM | libc::EACCES)),
            "another process of the same user {what} the daemon: {answer:?}"
        );
    }
    Ok(())
}

/// Becomes a user without any capability, in a process that has just been made.
fn become_user(user: u32) -> io::Result<()> {
    let done = |result: i64| match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // Version 3, this process; two times effective, permitted, inheritable.
    let (header, sets) = ([0x2008_0522_u32, 0], [0_u32; 6]);
    // SAFETY: the sets are read during the call only; the other calls have no memory argument.
    unsafe {
        done(libc::setgroups(0, std::ptr::null()).into())?;
        done(libc::setresgid(user, user, user).into())?;
        done(libc::setresuid(user, user, user).into())?;
        done(libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()))
    }
}
