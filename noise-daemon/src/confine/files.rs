//! Files, ports and signals, by Landlock.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::Context as _;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath,
    PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};

use super::capabilities::without;
use super::{Extent, Rest};

/// The newest version of Landlock that is used. Files come from 1, truncation from 3, ports from 4,
/// devices from 5, signals and abstract sockets from 6.
const NEWEST: ABI = ABI::V6;
/// The flag with which the kernel returns its version instead of making a ruleset.
const VERSION: u32 = 1;

/// The version of Landlock with which this process can confine itself; 0 = none. A thread of its own tries it, and then
/// ends: a sandbox may allow one of its calls and refuse another.
/// Errors: why it fails though the kernel has it, and what allows it where it is refused.
pub fn landlock() -> Result<u32, String> {
    let version = landlock_abi().map_err(|error| refused(&error))?;
    let least = Rest { list: vec!["/proc".into()], ..Rest::default() };
    let tried = thread::scope(|scope| {
        let trying = thread::Builder::new().spawn_scoped(scope, || confine(&least)).ok()?;
        trying.join().ok()
    });
    match tried {
        Some(Ok(Extent::Refused(why))) => Err(why),
        Some(Ok(Extent::Not(_))) => Ok(0),
        Some(Err(error)) => Err(format!("{error:#}")),
        // Without a thread, what the kernel says has to do.
        Some(Ok(Extent::Whole | Extent::Part)) | None => Ok(version),
    }
}

/// The version of Landlock that this kernel offers; 0 = none.
/// Errors: where something between the kernel and this process refuses to say.
fn landlock_abi() -> io::Result<u32> {
    // SAFETY: with this flag the call takes no memory.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, VERSION)
    };
    match u32::try_from(version) {
        Ok(version) => Ok(version),
        Err(_) => match Errno::last() {
            // The kernel has none, or it is off.
            Errno::ENOSYS | Errno::EOPNOTSUPP => Ok(0),
            error => Err(error.into()),
        },
    }
}

/// Why files are not confined though the kernel could, and what allows it.
fn refused(error: &io::Error) -> String {
    format!(
        "an outer sandbox refuses Landlock ({error}), so that seccomp alone holds: have its filter allow \
         landlock_create_ruleset, landlock_add_rule and landlock_restrict_self"
    )
}

/// Leaves this thread, and those that it starts, no other files than those, no new ports, and no process to
/// signal but this one.
pub fn confine(rest: &Rest) -> anyhow::Result<Extent> {
    match landlock_abi() {
        Ok(0) => return Ok(Extent::Not("this kernel has no Landlock, or it is off".to_owned())),
        Ok(_) => {}
        Err(error) => return Ok(Extent::Refused(refused(&error))),
    }
    let restricted = restrict(rest);
    if let Some(error) = restricted.as_ref().err().and_then(of_sandbox) {
        return Ok(Extent::Refused(refused(error)));
    }
    Ok(match restricted.context("cannot confine files (Landlock)")? {
        RulesetStatus::FullyEnforced => Extent::Whole,
        RulesetStatus::PartiallyEnforced => Extent::Part,
        RulesetStatus::NotEnforced => Extent::Not("Landlock is off".to_owned()),
    })
}

/// What something between the kernel and this process answers: the kernel itself allows all of this to everyone.
fn of_sandbox(error: &anyhow::Error) -> Option<&io::Error> {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    let answers = [Errno::EPERM, Errno::EACCES, Errno::ENOSYS].map(|errno| Some(errno as i32));
    causes.find(|cause| answers.contains(&cause.raw_os_error()))
}

fn restrict(rest: &Rest) -> anyhow::Result<RulesetStatus> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    let read = AccessFs::from_read(NEWEST) & !AccessFs::Execute;
    let folders = rest.read_again.iter().flat_map(|file| folders(file));
    let granted = rest.read.iter().cloned().chain(folders).map(|path| (path, read));
    let listed = rest.list.iter().map(|folder| (folder.clone(), AccessFs::ReadDir.into()));
    let written = rest.write.iter().map(|folder| (folder.clone(), writing()));
    let cleared = rest.remove.iter().map(|folder| (folder.clone(), AccessFs::RemoveFile.into()));
    for (path, access) in granted.chain(listed).chain(written).chain(cleared) {
        // A rule holds for everything below.
        anyhow::ensure!(!is_root(&path), "{} is the root folder", path.display());
        if let Some(rule) = beneath(&path, access) {
            rules = rules.add_rule(rule)?;
        }
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// Whether a path leads to the root folder, by whatever name.
pub fn is_root(path: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    identity(path).is_some_and(|found| Some(found) == identity(Path::new("/")))
}

/// The folder of a file, and that of the file where it leads as a symbolic link. Of a file in the root folder
/// only the file: the folder has everything.
fn folders(file: &Path) -> impl Iterator<Item = PathBuf> {
    let target = fs::canonicalize(file).ok();
    let paths = [Some(file.to_owned()), target].into_iter().flatten();
    paths.filter_map(|path| {
        folder_of(&path).map(|folder| if is_root(&folder) { path } else { folder })
    })
}

/// Which of the files that are read again are not seen any more once another takes their name.
pub fn seen_once(rest: &Rest) -> Vec<PathBuf> {
    let lies_in_root = |file: &&PathBuf| file.exists() && folders(file).any(|path| !path.is_dir());
    rest.read_again.iter().filter(lies_in_root).cloned().collect()
}

/// Which of the files that are there, and of the folders that are written to, could not be reached
/// any more without capabilities.
pub fn out_of_reach(rest: &Rest) -> Vec<PathBuf> {
    let refused = |path: &Path, how: AccessFlags| {
        matches!(access(path, how), Err(Errno::EACCES | Errno::EPERM))
    };
    let read = rest.read_again.iter().map(|path| (path, AccessFlags::R_OK));
    let write = rest.write.iter().chain(&rest.remove);
    let write = write.map(|path| (path, AccessFlags::W_OK | AccessFlags::X_OK));
    let all: Vec<_> = read.chain(write).filter(|(path, _)| path.exists()).collect();
    without(|| {
        let lost = all.into_iter().filter(|(path, how)| refused(path, *how));
        lost.map(|(path, _)| path.clone()).collect()
    })
    .ok()
    .flatten()
    .unwrap_or_default()
}

/// The folder that holds a file; `None` for the root.
pub fn folder_of(file: &Path) -> Option<PathBuf> {
    match file.parent()? {
        here if here.as_os_str().is_empty() => Some(PathBuf::from(".")),
        folder => Some(folder.to_owned()),
    }
}

/// What replacing the state file takes: another beside it that takes its name, and the folder written too.
/// What is kept of incidents is also read.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::ReadDir
        | AccessFs::ReadFile
        | AccessFs::WriteFile
        | AccessFs::MakeReg
        | AccessFs::RemoveFile
}

/// A rule for what is there.
fn beneath(path: &Path, access: BitFlags<AccessFs>) -> Option<PathBeneath<PathFd>> {
    let is_folder = path.is_dir();
    let access = if is_folder { access } else { access & AccessFs::from_file(NEWEST) };
    PathFd::new(path).ok().map(|fd| PathBeneath::new(fd, access))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_own_folder_and_that_of_its_target() {
        let folder = tempfile::tempdir().unwrap();
        let (own, versions) = (folder.path().join("own"), folder.path().join("versions"));
        fs::create_dir(&own).unwrap();
        fs::create_dir(&versions).unwrap();
        fs::write(versions.join("1"), "").unwrap();
        std::os::unix::fs::symlink("../versions/1", own.join("file")).unwrap();
        let found: Vec<PathBuf> = folders(&own.join("file")).collect();
        assert_eq!(found, [own.clone(), fs::canonicalize(versions).unwrap()]);
        assert_eq!(folders(&own.join("missing")).collect::<Vec<_>>(), [own]);
        assert_eq!(folder_of(Path::new("file")), Some(PathBuf::from(".")));
        assert_eq!(folder_of(Path::new("/")), None);
    }

    #[test]
    fn the_root_folder_is_known_by_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/", &link).unwrap();
        for path in ["/", "//", "/.", "/proc/..", "/../..", link.to_str().unwrap()] {
            assert!(is_root(Path::new(path)), "{path}");
        }
        assert!(!is_root(folder.path()) && !is_root(&folder.path().join("missing")));
    }

    #[test]
    fn a_file_in_the_root_folder_does_not_open_that() {
        assert_eq!(folders(Path::new("/missing")).collect::<Vec<_>>(), [Path::new("/missing")]);
        // A link there leads elsewhere, or another elsewhere leads there.
        let root: Vec<PathBuf> = folders(Path::new("/proc/../proc/self")).collect();
        assert!(root.iter().all(|path| !is_root(path)), "{root:?}");
        let own = fs::canonicalize("/proc/self").unwrap();
        let rest = Rest { read_again: vec!["/missing".into(), own], ..Rest::default() };
        assert!(seen_once(&rest).is_empty());
    }

    #[test]
    fn signals_and_abstract_sockets_of_others_are_out_of_reach() {
        use std::os::linux::net::SocketAddrExt as _;
        use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

        let name = format!("noised-test-{}-scope", std::process::id());
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        // SAFETY: no memory argument.
        let signals_parent = || unsafe { libc::kill(libc::getppid(), 0) == 0 };
        let connects = || UnixStream::connect_addr(&address).map(drop);
        if landlock_abi().unwrap_or(0) < 6 || !signals_parent() || connects().is_err() {
            return;
        }
        // Landlock holds for a thread and those that it starts.
        let confined = || (confine(&Rest::default()).unwrap(), signals_parent(), connects());
        let (extent, signalled, connected) =
            thread::scope(|scope| scope.spawn(confined).join().unwrap());
        assert_eq!(extent, Extent::Whole);
        assert!(!signalled);
        assert_eq!(connected.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
