//! IO: the files of what is kept, in the state directory: `incident-ID.trace` has the events, and
//! `incident-ID.path` what was found in them, which is written last. Files of other names are left alone.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use noise_analysis::KeptTrace;
use noise_system::files::{open_regular, rest};

use super::ties::Ties;
use crate::state::{FILE_MODE, Folder};

const PREFIX: &str = "incident-";
const TRACE: &str = ".trace";
const PATH: &str = ".path";
/// Behind the name of a file that is being written.
const NEW: &str = ".new";
/// Longest file with paths that is read: longer than any that is written.
const MAX_PATH_BYTES: u64 = 1 << 20;

/// What is kept of one incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// What there is to say of it.
    pub trace: Arc<KeptTrace>,
    /// The paths, as JSON.
    pub document: Arc<str>,
    /// Whom the victim works with, where that is known: not of what an earlier daemon kept.
    pub ties: Option<Ties>,
}

/// What is kept of one incident, and cannot be used.
#[derive(Debug)]
pub struct Unusable {
    pub incident: u64,
    pub written: Timestamp,
    pub error: io::Error,
}

impl Unusable {
    /// Whether it is of no use to anyone: else it is there, but out of reach.
    fn is_damaged(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, InvalidData, UnexpectedEof};
        matches!(self.error.kind(), FileTooLarge | InvalidData | UnexpectedEof)
    }

    /// In a sentence, which names no incident.
    pub fn sentence(&self) -> String {
        match self.is_damaged() {
            true => format!("their file is damaged: {}", self.error),
            false => format!("their file cannot be read: {}", self.error),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeptFileKind {
    Trace,
    Path,
    New,
}

/// The incident whose file has that name, and which of its files it is; `None` of other files.
fn of_name(name: &str) -> Option<(u64, KeptFileKind)> {
    let rest = name.strip_prefix(PREFIX)?;
    let (rest, is_new) = match rest.strip_suffix(NEW) {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let (id, kind) = match rest.strip_suffix(TRACE) {
        Some(id) => (id, KeptFileKind::Trace),
        None => (rest.strip_suffix(PATH)?, KeptFileKind::Path),
    };
    let is_plain = id.bytes().all(|byte| byte.is_ascii_digit()) && !id.starts_with('0');
    let id = id.parse().ok().filter(|_| is_plain)?;
    Some((id, if is_new { KeptFileKind::New } else { kind }))
}

fn path(folder: &Path, id: u64, ending: &str) -> PathBuf {
    folder.join(format!("{PREFIX}{id}{ending}"))
}

/// The events that are kept of an incident.
/// Errors: where there are none, or they cannot be read.
pub fn open(folder: &Path, id: u64) -> io::Result<File> {
    open_regular(OpenOptions::new().read(true), &path(folder, id, TRACE), libc::O_NOFOLLOW)
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn read(folder: &Path, id: u64) -> Result<Kept, Unusable> {
    let file = path(folder, id, PATH);
    let kept = || {
        let file = open_regular(OpenOptions::new().read(true), &file, libc::O_NOFOLLOW)?;
        let bytes = rest(file, MAX_PATH_BYTES)?;
        let text = str::from_utf8(&bytes).map_err(|_| damaged("it is no text"))?;
        let (head, document) = text.split_once('\n').ok_or(damaged("it ends early"))?;
        let mut trace: KeptTrace = serde_json::from_str(head)?;
        if trace.incident != id {
            return Err(damaged("it is that of another incident"));
        }
        // What the bounds are about.
        let events = fs::symlink_metadata(path(folder, id, TRACE))?.len();
        trace.bytes = events.saturating_add(bytes.len() as u64);
        Ok(Kept { trace: Arc::new(trace), document: document.into(), ties: None })
    };
    kept().map_err(|error| {
        let written = fs::symlink_metadata(&file).and_then(|data| data.modified()).ok();
        let written = written.and_then(|time| Timestamp::try_from(time).ok());
        Unusable { incident: id, written: written.unwrap_or(Timestamp::UNIX_EPOCH), error }
    })
}

/// Files of ours in a folder: by incident, those that it has, and whether any is half written.
fn found(folder: &Path) -> BTreeMap<u64, Vec<(KeptFileKind, PathBuf)>> {
    let mut found: BTreeMap<u64, Vec<(KeptFileKind, PathBuf)>> = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let of = entry.file_name().to_str().and_then(of_name).filter(|_| is_file);
        if let Some((id, kind)) = of {
            found.entry(id).or_default().push((kind, entry.path()));
        }
    }
    found
}

/// The highest number of an incident that has files.
pub fn highest(folder: &Path) -> Option<u64> {
    found(folder).into_keys().next_back()
}

/// What is kept in a folder of those incidents, in the order of their numbers. What is half written is not.
pub fn list(folder: &Path, is_known: impl Fn(u64) -> bool) -> Vec<Result<Kept, Unusable>> {
    let found = found(folder);
    let whole = found.into_iter().filter(|(id, files)| {
        is_known(*id)
            && files.iter().any(|(kind, _)| *kind == KeptFileKind::Trace)
            && files.iter().any(|(kind, _)| *kind == KeptFileKind::Path)
    });
    whole.map(|(id, _)| read(folder, id)).collect()
}

/// The files of a daemon, whose folder is its own.
#[derive(Clone, Debug)]
pub struct Shelf {
    folder: Arc<Folder>,
}

impl Shelf {
    pub fn new(folder: Arc<Folder>) -> Self {
        Self { folder }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What an earlier daemon kept of incidents that are known. What is half written, or damaged, and what is of
    /// others, is removed; what cannot be reached stays. Where the state that knows them was set aside, all stays.
    pub fn restore(&self, is_known: impl Fn(u64) -> bool) -> Vec<Result<Kept, Unusable>> {
        if self.folder.began_anew() {
            return Vec::new();
        }
        let kept = list(self.folder(), &is_known);
        let stays = |id: u64| {
            kept.iter().any(|one| match one {
                Ok(kept) => kept.trace.incident == id,
                Err(unusable) => unusable.incident == id && !unusable.is_damaged(),
            })
        };
        let (mut forgotten, mut failed) = (0, None);
        for (id, files) in found(self.folder()) {
            forgotten += usize::from(!is_known(id));
            let gone = files.iter().filter(|(kind, _)| *kind == KeptFileKind::New || !stays(id));
            for (_, path) in gone {
                failed = fs::remove_file(path).err().or(failed);
            }
        }
        if forgotten > 0 {
            tracing::info!(
                incidents = forgotten,
                "removed the kernel events of incidents that are no longer kept"
            );
        }
        for unusable in kept.iter().filter_map(|one| one.as_ref().err()) {
            let done = if unusable.is_damaged() { ", and is removed" } else { "" };
            let (id, error) = (unusable.incident, &unusable.error);
            tracing::warn!(id, %error, "what was kept of an incident cannot be read{done}");
        }
        if let Some(error) = failed {
            tracing::warn!(%error, "what was kept of incidents cannot be removed");
        }
        kept
    }

    pub fn remove(&self, id: u64) {
        // What says that there are events goes first.
        for ending in [PATH, TRACE] {
            let _ = fs::remove_file(path(self.folder(), id, ending));
        }
    }

    /// Writes a file of events under another name until it is whole; how long it is.
    /// Errors: where it cannot be written, or what writes it fails; no file is left then.
    pub fn write_trace<T, E: From<io::Error>>(
        &self,
        id: u64,
        write: impl FnOnce(&mut File) -> Result<T, E>,
    ) -> Result<(T, u64), E> {
        self.write(id, TRACE, write)
    }

    /// Writes what was found in the events: with it they are kept.
    /// Errors: where it cannot be written; nothing is kept of that incident then.
    pub fn write_path(&self, kept: &Kept) -> io::Result<()> {
        let id = kept.trace.incident;
        let written = self.write(id, PATH, |file| {
            let mut text = serde_json::to_vec(&*kept.trace)?;
            text.push(b'\n');
            text.extend_from_slice(kept.document.as_bytes());
            file.write_all(&text)
        });
        if written.is_err() {
            self.remove(id);
        }
        written.map(drop)
    }

    fn write<T, E: From<io::Error>>(
        &self,
        id: u64,
        ending: &str,
        write: impl FnOnce(&mut File) -> Result<T, E>,
    ) -> Result<(T, u64), E> {
        let (new, last) =
            (path(self.folder(), id, &format!("{ending}{NEW}")), path(self.folder(), id, ending));
        let attempt = || {
            // What a crash or another program left there is not written through.
            match fs::remove_file(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(FILE_MODE).open(&new)?;
            self.folder.hand_on(&file);
            let value = write(&mut file)?;
            file.sync_data()?;
            let bytes = file.metadata()?.len();
            fs::rename(&new, &last)?;
            Ok((value, bytes))
        };
        let written = attempt();
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fixtures::names;

    fn kept(id: u64) -> Kept {
        let trace = KeptTrace {
            trouble: None,
            bytes: 3,
            ..KeptTrace::without(id, Timestamp::UNIX_EPOCH, "")
        };
        Kept { trace: trace.into(), document: "{\n}\n".into(), ties: None }
    }

    fn shelf(folder: &Path) -> Shelf {
        Shelf::new(Arc::new(Folder::take(folder).unwrap()))
    }

    fn restored(shelf: &Shelf) -> Vec<Kept> {
        shelf.restore(|_| true).into_iter().filter_map(Result::ok).collect()
    }

    /// What is kept, with the bytes that its files have.
    fn measured(id: u64) -> Kept {
        let Kept { trace, document, ties } = kept(id);
        let length = serde_json::to_string(&*trace).unwrap().len() + 1 + document.len();
        let trace = KeptTrace { bytes: 3 + length as u64, ..Arc::unwrap_or_clone(trace) };
        Kept { trace: trace.into(), document, ties }
    }

    fn put(shelf: &Shelf, id: u64) {
        let ((), bytes) =
            shelf.write_trace(id, |file| -> io::Result<()> { file.write_all(b"xyz") }).unwrap();
        assert_eq!(bytes, 3);
        shelf.write_path(&kept(id)).unwrap();
    }

    #[test]
    fn what_is_written_is_found_by_the_next_daemon_for_its_user_alone() {
        let root = tempfile::tempdir().unwrap();
        {
            let shelf = shelf(root.path());
            put(&shelf, 12);
            put(&shelf, 7);
            assert_eq!(restored(&shelf), [measured(7), measured(12)]);
        }
        for name in ["incident-7.trace", "incident-7.path"] {
            let mode = fs::metadata(root.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        let shelf = shelf(root.path());
        assert_eq!(restored(&shelf), [measured(7), measured(12)]);
        let mut bytes = String::new();
        io::Read::read_to_string(&mut open(root.path(), 7).unwrap(), &mut bytes).unwrap();
        assert_eq!(bytes, "xyz");
        shelf.remove(7);
        assert_eq!(names(root.path()), ["incident-12.path", "incident-12.trace", "lock"]);
        assert_eq!(open(root.path(), 7).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_is_half_written_goes_and_what_is_foreign_stays() {
        let root = tempfile::tempdir().unwrap();
        let shelf = shelf(root.path());
        put(&shelf, 7);
        let foreign = [
            "incident-.trace",
            "incident-07.path",
            "incident-7.trace.old",
            "incident-7x.path",
            "incident-8.json",
            "incidents.json",
            "other",
        ];
        for name in foreign {
            fs::write(root.path().join(name), "precious").unwrap();
        }
        for name in [
            "incident-7.path.new",
            "incident-9.trace.new",
            "incident-10.trace",
            "incident-11.path",
            "incident-12.trace",
            "incident-12.path",
        ] {
            fs::write(root.path().join(name), "half").unwrap();
        }
        fs::create_dir(root.path().join("incident-13.trace")).unwrap();
        symlink("other", root.path().join("incident-14.path")).unwrap();
        let usable: Vec<_> =
            list(root.path(), |_| true).into_iter().filter_map(Result::ok).collect();
        assert_eq!(usable, [measured(7)]);
        assert_eq!(restored(&shelf), [measured(7)]);
        let mut expected: Vec<&str> = foreign.to_vec();
        expected.extend(["incident-13.trace", "incident-14.path", "lock"]);
        expected.extend(["incident-7.path", "incident-7.trace"]);
        expected.sort_unstable();
        assert_eq!(names(root.path()), expected);
    }

    #[test]
    fn what_is_damaged_goes_and_says_why_and_what_is_out_of_reach_stays() {
        let root = tempfile::tempdir().unwrap();
        let shelf = shelf(root.path());
        (1..=7).for_each(|id| put(&shelf, id));
        let file = |id: u64| root.path().join(format!("incident-{id}.path"));
        let head = serde_json::to_string(&*kept(2).trace).unwrap();
        fs::write(file(1), "").unwrap();
        fs::write(file(2), &head[..head.len() - 1]).unwrap();
        fs::write(file(3), format!("{head}\n{{}}\n")).unwrap();
        fs::write(file(4), b"\xff\xfe\n").unwrap();
        fs::write(file(5), vec![b' '; MAX_PATH_BYTES as usize + 1]).unwrap();
        fs::remove_file(file(6)).unwrap();
        symlink("/nowhere/at/all", file(6)).unwrap();
        let found = shelf.restore(|id| id != 7);
        let why: Vec<(u64, String)> = found
            .iter()
            .filter_map(|one| one.as_ref().err())
            .map(|unusable| (unusable.incident, unusable.sentence()))
            .collect();
        assert_eq!(why.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        for (at, words) in [(0, "ends early"), (1, "ends early"), (2, "another"), (3, "no text")] {
            assert!(why[at].1.contains("damaged") && why[at].1.contains(words), "{why:?}");
        }
        assert_eq!(found.len(), 5);
        assert_eq!(names(root.path()), ["incident-6.path", "lock"]);
    }

    #[test]
    fn what_belongs_to_a_state_that_was_set_aside_stays_for_it() {
        let root = tempfile::tempdir().unwrap();
        {
            put(&shelf(root.path()), 7);
        }
        fs::write(root.path().join("incidents.json"), "{\"format\":99}").unwrap();
        let folder = Folder::take(root.path()).unwrap();
        folder.restore().unwrap();
        let shelf = Shelf::new(Arc::new(folder));
        assert_eq!(shelf.restore(|_| false).len(), 0);
        // Later incidents do not take their places.
        assert_eq!(highest(root.path()), Some(7));
        let expected = ["incident-7.path", "incident-7.trace", "incidents.json.bad-1", "lock"];
        assert_eq!(names(root.path()), expected);
    }

    #[test]
    fn a_failure_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let shelf = shelf(root.path());
        let failed = shelf.write_trace(7, |file| {
            file.write_all(b"half")?;
            Err::<(), _>(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(names(root.path()), ["lock"]);
        // A folder is in the place of the file.
        fs::create_dir(root.path().join("incident-7.trace.new")).unwrap();
        let failed = shelf.write_trace(7, |_| Ok::<_, io::Error>(()));
        assert!(failed.is_err());
        fs::create_dir(root.path().join("incident-7.path")).unwrap();
        assert!(shelf.write_path(&kept(7)).is_err());
    }
}
