//! IO: what keeps other users out of the folder of the state: its mode and that of its files, whatever
//! the umask, and a lock that no other user can hold.
//!
//! All of it is set when a file is made, or at the start: a confined daemon changes no modes.

use std::fs::{self, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::Path;

use nix::unistd::geteuid;
use noise_system::files::open_regular;
use noise_system::output::HeldFolder;

pub const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
/// That of folders on the way to it, which are no secret.
const PARENT_MODE: u32 = 0o755;
/// What others may do.
const OTHERS: u32 = 0o077;
/// What others may change.
const OTHERS_WRITE: u32 = 0o022;

/// Folders that a file system of its own begins with.
const OF_FILE_SYSTEM: &str = "lost+found";

/// How often a lock is looked for that other starts replace meanwhile.
const ATTEMPTS: usize = 5;

/// The folder of the state, with what to call its files.
#[derive(Debug)]
pub struct Guard<'a> {
    pub folder: &'a Path,
    /// The name of the lock.
    pub lock: &'a str,
    /// How the names of all other files begin, each with one of these.
    pub prefixes: &'a [&'a str],
}

impl Guard<'_> {
    /// Takes away what others may do in the folder that is held, and takes the lock, which is held until the file is closed.
    /// Also returns the user that new files are given to.
    /// Errors: where the folder cannot be written, or another daemon has the lock.
    pub fn take(&self, held: &HeldFolder) -> io::Result<(File, Heir)> {
        let place = held.by_descriptor();
        let folder = open_folder(&place)?;
        self.tighten(&folder, &place)?;
        let owner = folder.metadata()?;
        let lock = self.lock(&place, &owner)?;
        self.tighten_files(&place, &owner);
        Ok((lock, Heir::of(&owner)))
    }

    /// The folder, which is made if it is missing.
    /// Errors: where it cannot be made, or is another user's.
    pub fn hold(&self) -> io::Result<HeldFolder> {
        HeldFolder::make(self.folder, PARENT_MODE, FOLDER_MODE)
    }

    fn is_ours(&self, name: &str) -> bool {
        name == self.lock || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }

    /// Refuses a path through a link of another user, a folder of another user, and one that others may write to and that
    /// holds what is not noised's: they could replace what is kept there. One that is noised's alone is closed to them when
    /// it is taken.
    /// Errors: in a sentence that says what to do.
    pub fn ensure_own(&self) -> io::Result<()> {
        let held = match HeldFolder::find(self.folder) {
            Ok(Some(held)) => held,
            // An error of the kernel has a number: it comes up again where the folder is taken.
            Err(error) if error.raw_os_error().is_none() => return Err(error),
            Ok(None) | Err(_) => return Ok(()),
        };
        let place = held.by_descriptor();
        let found = fs::metadata(&place)?;
        if found.mode() & OTHERS_WRITE == 0 || self.is_alone(&place)? {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "other users may write to {} (mode {:o}), and files that are not noised's are in it: name a directory of \
                 noised's own",
                self.folder.display(),
                found.mode() & 0o7777
            ),
        ))
    }

    /// Whether all that is in the folder is noised's.
    fn is_alone(&self, place: &Path) -> io::Result<bool> {
        let mut names = fs::read_dir(place)?.flatten().map(|entry| entry.file_name());
        Ok(names.all(|name| {
            name.to_str().is_some_and(|name| self.is_ours(name) || name == OF_FILE_SYSTEM)
        }))
    }

    /// Keeps others out of the folder, unless it holds what is not noised's: a folder such as `/tmp`,
    /// which is named by mistake, must go on to work for the others.
    /// Errors: where others may write to it still.
    fn tighten(&self, folder: &File, place: &Path) -> io::Result<()> {
        let mode = folder.metadata()?.mode();
        if mode & OTHERS == 0 {
            return Ok(());
        }
        if self.is_alone(place)? {
            // Nothing comes of it where the folder is another user's, or its file system has no modes.
            let _ = folder.set_permissions(Permissions::from_mode(mode & !OTHERS));
        }
        let (path, now) = (self.folder.display(), folder.metadata()?.mode());
        if now & OTHERS == 0 {
            tracing::info!(
                "the state directory {path} is now noised's alone (its mode was {:03o})",
                mode & 0o777
            );
        } else if now & OTHERS_WRITE != 0 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "other users may write to {path} (mode {:o}), and could replace what is kept there",
                    now & 0o7777
                ),
            ));
        }
        Ok(())
    }

    /// The same for files that an earlier daemon made under another umask.
    fn tighten_files(&self, place: &Path, owner: &Metadata) {
        let entries = fs::read_dir(place).into_iter().flatten().flatten();
        for entry in entries {
            let is_ours = entry.file_name().to_str().is_some_and(|name| self.is_ours(name));
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            if !is_ours || !is_file {
                continue;
            }
            let options = OpenOptions::new().read(true).clone();
            let Ok(file) = open_regular(&options, &entry.path(), libc::O_NOFOLLOW) else {
                continue;
            };
            let is_open = |found: Metadata| found.mode() & OTHERS != 0 && is_own(&found, owner);
            if file.metadata().is_ok_and(is_open) {
                let _ = file.set_permissions(Permissions::from_mode(FILE_MODE));
            }
        }
    }

    /// The lock. What is in its place and may be held by other users gives way to a new one: `flock`
    /// requires no more than that a file can be opened.
    fn lock(&self, place: &Path, owner: &Metadata) -> io::Result<File> {
        let path = place.join(self.lock);
        let replaced = |reason: &str| replaced(&path, &self.folder.join(self.lock), reason);
        for _ in 0..ATTEMPTS {
            if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
                replaced("it was no regular file")?;
                continue;
            }
            let mut options = OpenOptions::new();
            options.read(true).write(true).mode(FILE_MODE);
            let lock = match options.clone().create_new(true).open(&path) {
                Ok(made) => {
                    // Nothing else is given away, whatever has its name by now.
                    Heir::of(owner).give(&made);
                    made
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    match open_regular(&options, &path, libc::O_NOFOLLOW) {
                        Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                        opened => opened?,
                    }
                }
                Err(error) => return Err(error),
            };
            if !is_own(&lock.metadata()?, owner) {
                replaced("it belonged to another user, or had a second name")?;
                continue;
            }
            if was_open_to_others(&lock)? {
                replaced("other users could hold it")?;
                continue;
            }
            lock.try_lock().map_err(|error| match error {
                TryLockError::WouldBlock => io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    "another noised keeps its state there",
                ),
                TryLockError::Error(error) => error,
            })?;
            // Another start may have replaced it before it was locked.
            if fs::symlink_metadata(&path).is_ok_and(|found| is_same(&found, &lock)) {
                return Ok(lock);
            }
        }
        Err(io::Error::other("its lock is replaced again and again"))
    }
}

/// Opens a folder, and nothing else.
pub fn open_folder(path: &Path) -> io::Result<File> {
    let flags = libc::O_DIRECTORY | libc::O_NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Whom the folder belongs to, where that is another user: root runs by hand what else runs as a user
/// of its own, who has to read what is left.
#[derive(Clone, Copy, Debug)]
pub struct Heir(Option<(u32, u32)>);

impl Heir {
    fn of(folder: &Metadata) -> Self {
        let is_other = folder.uid() != geteuid().as_raw();
        Self(is_other.then(|| (folder.uid(), folder.gid())))
    }

    /// Hands a new file on. A confined daemon cannot.
    pub fn give(self, file: &File) {
        if let Self(Some((user, group))) = self {
            let _ = fchown(file, Some(user), Some(group));
        }
    }
}

/// Whether a file is one that this daemon, another of the same folder, or root made.
fn is_own(found: &Metadata, owner: &Metadata) -> bool {
    found.nlink() == 1 && [geteuid().as_raw(), owner.uid(), 0].contains(&found.uid())
}

/// Whether others could open a lock until now. They cannot from now on, but may hold it. Where the mode
/// cannot be changed (a file system without modes), a new file would be open to them as well.
fn was_open_to_others(lock: &File) -> io::Result<bool> {
    if lock.metadata()?.mode() & OTHERS == 0 {
        return Ok(false);
    }
    let is_changed = lock.set_permissions(Permissions::from_mode(FILE_MODE)).is_ok();
    Ok(is_changed && lock.metadata()?.mode() & OTHERS == 0)
}

fn is_same(found: &Metadata, file: &File) -> bool {
    file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (found.dev(), found.ino()))
}

fn replaced(path: &Path, shown: &Path, reason: &str) -> io::Result<()> {
    fs::remove_file(path).map_err(|error| {
        let sentence = format!("cannot replace its lock {}: {reason}: {error}", shown.display());
        io::Error::new(error.kind(), sentence)
    })?;
    tracing::warn!("the lock of the state directory, {}, was replaced: {reason}", shown.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{lchown, symlink};
    use std::thread;

    use nix::sched::{CloneFlags, unshare};
    use nix::sys::stat::{Mode, umask};
    use nix::unistd::{Uid, mkfifo, setfsuid};

    use super::*;

    const LOCK: &str = "lock";

    fn take(folder: &Path) -> io::Result<File> {
        let guard = Guard { folder, lock: LOCK, prefixes: &["state"] };
        guard.take(&guard.hold()?).map(|(lock, _)| lock)
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// Runs in a thread with an umask of its own.
    fn with_umask(mask: u32, run: impl FnOnce() + Send) {
        let run = move || {
            unshare(CloneFlags::CLONE_FS).unwrap();
            umask(Mode::from_bits_truncate(mask));
            run();
        };
        thread::scope(|scope| scope.spawn(run).join()).unwrap();
    }

    #[test]
    fn modes_do_not_depend_on_the_umask() {
        for mask in [0, 0o022, 0o077] {
            let root = tempfile::tempdir().unwrap();
            let path = root.path().join("a/b");
            with_umask(mask, || drop(take(&path).unwrap()));
            assert_eq!((mode(&path), mode(&path.join(LOCK))), (0o700, 0o600), "{mask:o}");
            assert_eq!(mode(&root.path().join("a")) & OTHERS_WRITE, 0, "{mask:o}");
        }
    }

    #[test]
    fn what_an_earlier_daemon_left_open_is_closed() {
        let root = tempfile::tempdir().unwrap();
        set_mode(root.path(), 0o2775);
        let path = |name: &str| root.path().join(name);
        for name in ["state.json", "state.json.bad-1", LOCK] {
            fs::write(path(name), "").unwrap();
            set_mode(&path(name), 0o666);
        }
        symlink("state.json", path("state.link")).unwrap();
        take(root.path()).unwrap();
        assert_eq!(mode(root.path()), 0o2700);
        for name in ["state.json", "state.json.bad-1", LOCK] {
            assert_eq!(mode(&path(name)), 0o600, "{name}");
        }
    }

    #[test]
    fn a_link_or_a_folder_of_another_user_is_not_taken() {
        if !geteuid().is_root() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let refused = |folder: &Path| {
            let guard = Guard { folder, lock: LOCK, prefixes: &["state"] };
            let error = guard.ensure_own().unwrap_err().to_string();
            assert_eq!(take(folder).unwrap_err().to_string(), error);
            error
        };
        fs::create_dir_all(path("home/theirs")).unwrap();
        fs::create_dir(path("elsewhere")).unwrap();
        symlink(path("elsewhere"), path("home/link")).unwrap();
        for name in ["home", "home/theirs", "home/link"] {
            lchown(path(name), Some(12_345), None).unwrap();
        }
        let error = refused(&path("home/theirs"));
        assert!(error.contains("it belongs to another user (uid 12345)"), "{error}");
        let error = refused(&path("home/link"));
        assert!(error.contains("a link of another user"), "{error}");
        assert!(!path("elsewhere/lock").exists() && !path("home/theirs/lock").exists());
        // The service's user has its folder from root.
        lchown(path("home"), Some(0), None).unwrap();
        let lock = take(&path("home/theirs")).unwrap();
        assert_eq!(lock.metadata().unwrap().uid(), 12_345);
    }

    #[test]
    fn a_folder_that_others_use_stays_theirs() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        for name in ["other", "state.json"] {
            fs::write(path(name), "").unwrap();
            set_mode(&path(name), 0o644);
        }
        set_mode(root.path(), 0o1777);
        let error = take(root.path()).unwrap_err().to_string();
        assert!(error.contains("other users may write to "), "{error}");
        assert_eq!((mode(root.path()), mode(&path("state.json"))), (0o1777, 0o644));
        set_mode(root.path(), 0o755);
        take(root.path()).unwrap();
        assert_eq!((mode(root.path()), mode(&path("other"))), (0o755, 0o644));
        assert_eq!((mode(&path("state.json")), mode(&path(LOCK))), (0o600, 0o600));
    }

    #[test]
    fn a_folder_that_stays_open_to_others_is_refused() {
        if !geteuid().is_root() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("state.json"), "").unwrap();
        set_mode(root.path(), 0o777);
        let as_nobody = || {
            // Of this thread alone.
            setfsuid(Uid::from_raw(65_534));
            take(root.path()).unwrap_err().to_string()
        };
        let error = thread::scope(|scope| scope.spawn(as_nobody).join()).unwrap();
        assert!(error.contains("(mode 777), and could replace"), "{error}");
        assert!(!root.path().join(LOCK).exists());
    }

    #[test]
    fn a_lock_that_others_may_hold_is_no_obstacle() {
        let root = tempfile::tempdir().unwrap();
        let lock = root.path().join(LOCK);
        fs::write(&lock, "").unwrap();
        set_mode(&lock, 0o644);
        // All that another user needs.
        let foreign = File::open(&lock).unwrap();
        foreign.lock().unwrap();
        let own = take(root.path()).unwrap();
        assert!(take(root.path()).unwrap_err().to_string().contains("another noised"));
        drop(own);
        // One that no other user may hold is respected.
        let other = OpenOptions::new().write(true).open(&lock).unwrap();
        other.lock().unwrap();
        assert!(take(root.path()).unwrap_err().to_string().contains("another noised"));
    }

    #[test]
    fn a_lock_leads_nowhere_and_blocks_nothing() {
        let root = tempfile::tempdir().unwrap();
        let (folder, lock) = (root.path().join("state"), root.path().join("state/lock"));
        fs::create_dir(&folder).unwrap();
        let elsewhere = root.path().join("elsewhere");
        fs::write(&elsewhere, "precious").unwrap();
        set_mode(&elsewhere, 0o644);
        type Place = fn(&Path, &Path);
        let places: [Place; 4] = [
            |elsewhere, lock| symlink(elsewhere, lock).unwrap(),
            |_, lock| symlink("nowhere", lock).unwrap(),
            |elsewhere, lock| fs::hard_link(elsewhere, lock).unwrap(),
            |_, lock| mkfifo(lock, Mode::S_IRWXU).unwrap(),
        ];
        for place in places {
            place(&elsewhere, &lock);
            let held = take(&folder).unwrap();
            assert!(is_same(&fs::symlink_metadata(&lock).unwrap(), &held));
            assert_eq!(mode(&lock), 0o600);
            assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "precious");
            assert_eq!(mode(&elsewhere), 0o644);
            assert!(!folder.join("nowhere").exists());
            fs::remove_file(&lock).unwrap();
        }
        fs::create_dir(&lock).unwrap();
        let error = take(&folder).unwrap_err().to_string();
        assert!(error.contains("cannot replace its lock"), "{error}");
    }
}
