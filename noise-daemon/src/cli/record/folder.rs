//! The files of a recording.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::cli::CommandError;

/// Recordings show what everybody on the host does: they are their owner's until the owner says otherwise.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
const METADATA: &str = "metadata";
/// Readers pass over names that begin with a dot.
const NEW_METADATA: &str = ".metadata";

/// Refuses a folder that has something in it.
///
/// # Errors
/// What to do about it.
pub fn ensure_new(path: &Path) -> Result<(), CommandError> {
    let refuse = |what: &str| {
        let shown = path.display();
        Err(CommandError::misused(format!(
            "{shown} {what}: name a folder that does not exist yet, or an empty one"
        )))
    };
    match fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            Some(_) => refuse("has files in it"),
            None => Ok(()),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => refuse("is no folder"),
        Err(error) => refuse(&format!("cannot be used ({error})")),
    }
}

/// The file of one CPU.
struct Stream {
    file: File,
    path: PathBuf,
    bytes: u64,
}

/// The folder `kernel` of a recording.
pub struct Folder {
    path: PathBuf,
    streams: Vec<Option<Stream>>,
    bytes: u64,
}

fn create(path: &Path) -> anyhow::Result<File> {
    // Also where somebody else may write: nothing that is there already is written to.
    let options = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path);
    options.with_context(|| format!("cannot create {}", path.display()))
}

fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = create(path)?.write_all(text.as_bytes());
    written.with_context(|| format!("cannot write {}", path.display()))
}

impl Folder {
    /// Makes it, with what says how the streams are laid out.
    ///
    /// # Errors
    /// Where it cannot be made, or written to.
    pub fn create(path: &Path, metadata: &str) -> anyhow::Result<Self> {
        let path = path.join("kernel");
        DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(&path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        write_new(&path.join(METADATA), metadata)?;
        Ok(Self { path, streams: Vec::new(), bytes: 0 })
    }

    /// Appends whole packets to the stream of a CPU.
    ///
    /// # Errors
    /// Where they cannot be written; the stream then ends with the packet before.
    pub fn append(&mut self, cpu: u32, packets: &[u8]) -> anyhow::Result<()> {
        if packets.is_empty() {
            return Ok(());
        }
        let index = cpu as usize;
        if self.streams.len() <= index {
            self.streams.resize_with(index + 1, || None);
        }
        let Some(place) = self.streams.get_mut(index) else { return Ok(()) };
        let stream = match place {
            Some(stream) => stream,
            None => {
                let path = self.path.join(format!("channel0_{cpu}"));
                place.insert(Stream { file: create(&path)?, path, bytes: 0 })
            }
        };
        let written = stream.file.write_all(packets);
        if written.is_err() {
            // A part of a packet may be there. Where even this fails, readers stop before it.
            let _ = stream.file.set_len(stream.bytes);
        }
        written.with_context(|| format!("cannot write {}", stream.path.display()))?;
        stream.bytes += packets.len() as u64;
        self.bytes += packets.len() as u64;
        Ok(())
    }

    /// Bytes of all streams.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Replaces what says how the streams are laid out.
    ///
    /// # Errors
    /// Where that cannot be written; the one before is in its place then.
    pub fn replace_metadata(&self, metadata: &str) -> anyhow::Result<()> {
        let (new, old) = (self.path.join(NEW_METADATA), self.path.join(METADATA));
        let replaced = write_new(&new, metadata).and_then(|()| {
            fs::rename(&new, &old).with_context(|| format!("cannot replace {}", old.display()))
        });
        if replaced.is_err() {
            // It may not even be there.
            let _ = fs::remove_file(&new);
        }
        replaced
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn files_are_their_owners_alone() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        ensure_new(&path).unwrap();
        let mut folder = Folder::create(&path, "one").unwrap();
        folder.append(3, b"packet").unwrap();
        folder.append(3, b" two").unwrap();
        folder.append(0, b"").unwrap();
        folder.replace_metadata("two").unwrap();
        assert_eq!(folder.bytes(), 10);
        let mode = |name: &str| {
            fs::metadata(path.join("kernel").join(name)).unwrap().permissions().mode() & 0o7777
        };
        assert_eq!([mode("."), mode("metadata"), mode("channel0_3")], [0o700, 0o600, 0o600]);
        assert_eq!(fs::read(path.join("kernel/channel0_3")).unwrap(), b"packet two");
        assert_eq!(fs::read(path.join("kernel/metadata")).unwrap(), b"two");
        assert_eq!(fs::read_dir(path.join("kernel")).unwrap().count(), 2);
    }

    #[test]
    fn what_is_there_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        ensure_new(root.path()).unwrap();
        fs::write(root.path().join("file"), "x").unwrap();
        for (path, what) in [(".", "has files in it"), ("file", "is no folder")] {
            let error = ensure_new(&root.path().join(path)).unwrap_err();
            assert_eq!(error.exit, crate::cli::Exit::Usage);
            assert!(error.to_string().contains(what), "{error}");
        }
        let mut folder = Folder::create(&root.path().join("new"), "one").unwrap();
        fs::write(root.path().join("new/kernel/channel0_0"), "x").unwrap();
        let error = folder.append(0, b"packet").unwrap_err();
        assert!(format!("{error:#}").contains("cannot create"), "{error:#}");
    }

    #[test]
    fn a_full_disk_leaves_whole_packets() {
        let root = tempfile::tempdir().unwrap();
        let mut folder = Folder::create(root.path(), "one").unwrap();
        // What writes nothing ever.
        let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let stream = Stream { file, path: "/dev/full".into(), bytes: 0 };
        folder.streams.push(Some(stream));
        let error = format!("{:#}", folder.append(0, b"packet").unwrap_err());
        assert!(error.starts_with("cannot write /dev/full: No space left"), "{error}");
        assert_eq!(folder.bytes(), 0);
    }
}
