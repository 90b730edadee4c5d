//! The folder of the state file: read, written, and what cannot be used set aside.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use noise_system::files::{open_regular, rest};
use noise_system::output::{HeldFolder, explained};

use super::document::{Document, Unusable};
use super::guard::{FILE_MODE, Guard, Heir, open_folder};
use crate::demand::Demand;

/// Where the state is kept unless configured otherwise.
pub const DEFAULT_DIRECTORY: &str = "/var/lib/noised";

const NAME: &str = "incidents.json";
const TEMPORARY: &str = "incidents.json.new";
const LOCK: &str = "lock";
/// How the names of the files with what is kept of incidents begin.
const KEPT: &str = "incident-";

/// Unusable files that are kept; with one more, the oldest of them goes.
const SET_ASIDE: u32 = 5;

/// Larger than any file that the bounds of the settings allow.
const MAX_STATE_BYTES: u64 = 256 << 20;

/// The folder of the state, which was opened once: all files of the state are in that one, whatever has its name by then.
#[derive(Clone, Debug)]
pub struct StatePlace {
    /// How it was called.
    shown: PathBuf,
    held: Arc<HeldFolder>,
}

impl StatePlace {
    /// The folder at the end of a path, which is made if it is missing.
    /// Errors: where it cannot be made, or is another user's.
    pub fn hold(path: &Path) -> io::Result<Self> {
        Ok(Self { shown: path.to_owned(), held: Arc::new(guard(path).hold()?) })
    }

    /// Where it is, for as long as this lives.
    pub fn path(&self) -> PathBuf {
        self.held.by_descriptor()
    }

    /// How it was called.
    pub fn shown(&self) -> &Path {
        &self.shown
    }
}

/// A folder that is ours while this lives.
#[derive(Debug)]
pub struct Folder {
    place: StatePlace,
    /// Where it is, whatever has its name by now.
    path: PathBuf,
    heir: Heir,
    /// Whether the state that was found could not be used.
    began_anew: AtomicBool,
    _lock: File,
}

/// Reads the state file in a folder; `None` where there is none.
/// Errors: where there is one that cannot be used.
pub fn read(folder: &Path) -> Result<Option<Document>, Unusable> {
    text(folder)?.map(|text| Document::parse(&text)).transpose()
}

/// How fast the flight recorder was filled, as the state file in a folder says; nothing where none can be used.
pub fn demand(folder: &Path) -> Demand {
    text(folder).ok().flatten().map(|text| Document::demand(&text)).unwrap_or_default()
}

fn text(folder: &Path) -> Result<Option<Vec<u8>>, Unusable> {
    let path = folder.join(NAME);
    let kind = match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(Unusable::Unreadable)?.file_type(),
    };
    // Opening a device may start something.
    if !kind.is_file() {
        return Err(Unusable::NoFile("no regular file"));
    }
    open_regular(OpenOptions::new().read(true), &path, libc::O_NOFOLLOW)
        .and_then(|file| rest(file, MAX_STATE_BYTES))
        .map(Some)
        .map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => Unusable::NoFile("too large to be a state file"),
            _ => Unusable::Unreadable(error),
        })
}

/// When the state file in a folder was written last, where that can be seen.
pub fn written(folder: &Path) -> Option<SystemTime> {
    fs::symlink_metadata(folder.join(NAME)).and_then(|found| found.modified()).ok()
}

/// What keeps others out of a folder.
fn guard(folder: &Path) -> Guard<'_> {
    Guard { folder, lock: LOCK, prefixes: &[NAME, KEPT] }
}

/// Refuses a folder in which other users could replace the state.
/// Errors: in a sentence that says what to do.
pub fn ensure_own(folder: &Path) -> io::Result<()> {
    guard(folder).ensure_own()
}

impl Folder {
    /// Takes a folder for this process, and creates it if it is missing. Other users are kept out of
    /// it from now on.
    /// Errors: where it cannot be created or written, or belongs to another process.
    pub fn take(path: &Path) -> io::Result<Self> {
        Self::at(StatePlace::hold(path)?)
    }

    /// The same of one that is held.
    /// Errors: where it cannot be written, or belongs to another process.
    pub fn at(place: StatePlace) -> io::Result<Self> {
        let (lock, heir) = guard(&place.shown).take(&place.held)?;
        let (path, began_anew) = (place.path(), AtomicBool::new(false));
        Ok(Self { place, path, heir, began_anew, _lock: lock })
    }

    /// Where it is, for as long as this lives.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives a new file to the user whom the folder belongs to.
    pub fn hand_on(&self, file: &File) {
        self.heir.give(file);
    }

    /// Whether what an earlier daemon knew is not known, but set aside: who goes back to that daemon uses it again.
    pub fn began_anew(&self) -> bool {
        self.began_anew.load(Ordering::Relaxed)
    }

    /// The state that an earlier daemon left. What is no state is set aside, with a sentence that says so.
    /// Errors: a sentence, where what is there cannot be read now, or not be set aside: it must not be overwritten.
    pub fn restore(&self) -> Result<(Document, Option<String>), String> {
        let reason = match read(&self.path) {
            Ok(found) => return Ok((found.unwrap_or_default(), None)),
            Err(reason) => reason,
        };
        let name = self.place.shown.join(NAME);
        let stays = |why: &str| {
            format!(
                "cannot use the state file {}: {reason}{why}; it stays as it is: make it readable or remove it, and \
                 restart noised",
                name.display()
            )
        };
        if matches!(reason, Unusable::Unreadable(_)) {
            return Err(stays(""));
        }
        let (kept, replaced) = self
            .set_aside()
            .map_err(|error| stays(&format!(", and it cannot be set aside ({error})")))?;
        self.began_anew.store(true, Ordering::Relaxed);
        let replaced = if replaced { ", in place of the oldest one there" } else { "" };
        let warning = format!(
            "cannot use the state file {}: {reason}; it is kept as {}{replaced} (until the next start with the kernel \
             events of its incidents), and this daemon starts anew",
            name.display(),
            self.place.shown.join(kept).display()
        );
        Ok((Document::default(), Some(warning)))
    }

    /// Renames the state file. Returns its new name, and whether that replaced an older one.
    fn set_aside(&self) -> io::Result<(String, bool)> {
        let candidates: Vec<String> =
            (1..=SET_ASIDE).map(|number| format!("{NAME}.bad-{number}")).collect();
        let found = |name: &String| fs::symlink_metadata(self.path.join(name));
        let free = candidates.iter().find(|name| found(name).is_err());
        let oldest = || {
            candidates.iter().min_by_key(|name| found(name).and_then(|found| found.modified()).ok())
        };
        let chosen = free.or_else(oldest).ok_or(io::ErrorKind::AlreadyExists)?;
        fs::rename(self.path.join(NAME), self.path.join(chosen))?;
        Ok((chosen.clone(), free.is_none()))
    }

    /// Replaces the state file. After an error the old one is as it was.
    /// Errors: where it cannot be written.
    pub fn write(&self, document: &Document) -> io::Result<()> {
        let temporary = self.path.join(TEMPORARY);
        let written = self.write_temporary(&temporary, document).and_then(|()| {
            fs::rename(&temporary, self.path.join(NAME))?;
            // The new name outlives a crash only once the folder is written too.
            open_folder(&self.path)?.sync_all()
        });
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn write_temporary(&self, temporary: &Path, document: &Document) -> io::Result<()> {
        let text = document.text()?;
        // What a crash or another program left there is not written through.
        match fs::remove_file(temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(FILE_MODE).open(temporary)?;
        self.heir.give(&file);
        file.write_all(&text).map_err(explained)?;
        file.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    use std::thread;

    use nix::unistd::{Uid, setfsuid};
    use noise_analysis::ReportedOutlier;
    use noise_model::OutlierRecord;

    use super::*;
    use crate::fixtures::names;
    use crate::state::Baselines;

    fn document(waits: u32) -> Document {
        let outlier = |pid| ReportedOutlier {
            time: "2026-11-21T09:00:00Z".parse().unwrap(),
            wait: OutlierRecord {
                at_ns: 0,
                wait_ns: 7,
                victim: "/a".into(),
                pid,
                comm: "a".into(),
                cpu: 0,
                made_runnable: "wakeup".into(),
                parts: Vec::new(),
                rest_ns: 7,
            },
        };
        let outliers = (0..waits).map(|pid| Arc::new(outlier(pid))).collect();
        Document::new(Vec::new(), outliers, Baselines::default(), Demand::default())
    }

    #[test]
    fn what_was_written_is_read() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        let folder = Folder::take(&path).unwrap();
        assert_eq!(folder.restore().unwrap(), (Document::default(), None));
        fs::write(path.join(TEMPORARY), "left by a crash").unwrap();
        folder.write(&document(1)).unwrap();
        folder.write(&document(3)).unwrap();
        assert_eq!(folder.restore().unwrap(), (document(3), None));
        assert_eq!(names(&path), [NAME, LOCK]);
    }

    #[test]
    fn what_takes_the_name_of_the_folder_is_not_written_to() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let folder = Folder::take(&path("state")).unwrap();
        fs::create_dir(path("elsewhere")).unwrap();
        fs::write(path("elsewhere").join(TEMPORARY), "precious").unwrap();
        fs::rename(path("state"), path("moved")).unwrap();
        std::os::unix::fs::symlink(path("elsewhere"), path("state")).unwrap();
        folder.write(&document(1)).unwrap();
        assert_eq!(names(&path("elsewhere")), [TEMPORARY]);
        assert_eq!(names(&path("moved")), [NAME, LOCK]);
        assert_eq!(folder.restore().unwrap().0, document(1));
    }

    #[test]
    fn garbage_is_reported_set_aside_and_started_over() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::take(root.path()).unwrap();
        folder.write(&document(3)).unwrap();
        let whole = fs::read(root.path().join(NAME)).unwrap();
        let truncated = &whole[..whole.len() / 2];
        for (number, (text, words)) in [
            (&b"\0\xff\xfegarbage"[..], "damaged"),
            (b"", "damaged"),
            (truncated, "damaged"),
            (b"{\"format\":99,\"incidents\":[{\"new\":1}]}", "newer noised"),
            (b"{\"format\":1,\"incidents\":7,\"outliers\":[]}", "damaged"),
        ]
        .into_iter()
        .enumerate()
        {
            fs::write(root.path().join(NAME), text).unwrap();
            let (found, warning) = folder.restore().unwrap();
            assert_eq!(found, Document::default());
            let warning = warning.unwrap();
            let kept = root.path().join(format!("{NAME}.bad-{}", number + 1));
            assert!(warning.contains(words), "{warning}");
            assert!(warning.contains(kept.to_str().unwrap()), "{warning}");
            assert_eq!(fs::read(kept).unwrap(), text);
            folder.write(&document(1)).unwrap();
            assert_eq!(folder.restore().unwrap(), (document(1), None));
        }
    }

    #[test]
    fn what_is_set_aside_is_bounded_and_the_oldest_goes() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::take(root.path()).unwrap();
        for number in 0..8u64 {
            let name = root.path().join(NAME);
            fs::write(&name, format!("garbage {number}")).unwrap();
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000 + number);
            File::options().write(true).open(&name).unwrap().set_modified(time).unwrap();
            let (_, warning) = folder.restore().unwrap();
            assert_eq!(warning.unwrap().contains("in place of the oldest"), number >= 5);
        }
        let kept = |number| fs::read_to_string(root.path().join(format!("{NAME}.bad-{number}")));
        let kept: Vec<_> = (1..=5).map(|number| kept(number).unwrap()).collect();
        assert_eq!(kept, ["garbage 5", "garbage 6", "garbage 7", "garbage 3", "garbage 4"]);
        assert_eq!(names(root.path()).len(), 6);
    }

    #[test]
    fn what_is_no_file_is_set_aside_too() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::take(root.path()).unwrap();
        fs::create_dir(root.path().join(NAME)).unwrap();
        assert!(folder.restore().unwrap().1.unwrap().contains("no regular file"));
        std::os::unix::fs::symlink("/dev/zero", root.path().join(NAME)).unwrap();
        assert!(folder.restore().unwrap().1.unwrap().contains("no regular file"));
        folder.write(&document(1)).unwrap();
        assert_eq!(folder.restore().unwrap().0, document(1));
    }

    #[test]
    fn what_cannot_be_read_now_stays_as_it_is() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::take(root.path()).unwrap();
        folder.write(&document(3)).unwrap();
        let name = root.path().join(NAME);
        let original = fs::read(&name).unwrap();
        fs::set_permissions(&name, Permissions::from_mode(0o000)).unwrap();
        let restore = || {
            // Of this thread alone.
            setfsuid(Uid::from_raw(65_534));
            folder.restore().unwrap_err()
        };
        let said = thread::scope(|scope| scope.spawn(restore).join()).unwrap();
        assert!(said.contains("cannot be read") && said.contains("stays as it is"), "{said}");
        assert_eq!(fs::read(&name).unwrap(), original);
        assert_eq!(names(root.path()), [NAME, LOCK]);
        assert!(!folder.began_anew());
    }

    #[test]
    fn a_folder_that_cannot_be_is_an_error_and_so_is_one_in_use() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(Folder::take(&file.join("below")).is_err());
        assert!(Folder::take(Path::new("/proc/noised")).is_err());
        let first = Folder::take(root.path()).unwrap();
        let error = Folder::take(root.path()).unwrap_err().to_string();
        assert!(error.contains("another noised"), "{error}");
        drop(first);
        Folder::take(root.path()).unwrap();
    }

    #[test]
    fn files_are_for_the_daemon_alone_and_a_pipe_is_no_state() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::take(root.path()).unwrap();
        folder.write(&document(1)).unwrap();
        let mode = fs::metadata(root.path().join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_file(root.path().join(NAME)).unwrap();
        let mode = nix::sys::stat::Mode::S_IRWXU;
        nix::unistd::mkfifo(&root.path().join(NAME), mode).unwrap();
        assert!(folder.restore().unwrap().1.unwrap().contains("no regular file"));
    }

    #[test]
    fn a_failed_write_leaves_what_was_there() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::take(root.path()).unwrap();
        folder.write(&document(2)).unwrap();
        fs::create_dir(root.path().join(TEMPORARY)).unwrap();
        assert!(folder.write(&document(9)).is_err());
        assert_eq!(read(root.path()).unwrap(), Some(document(2)));
    }
}
