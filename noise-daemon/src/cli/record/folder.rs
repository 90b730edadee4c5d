//! The files of a recording.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use noise_trace::ctf::write::Packets;

use crate::cli::CommandError;

/// Recordings show what everybody on the host does: they are their owner's until the owner says otherwise.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
const METADATA: &str = "metadata";
/// Readers pass over names that begin with a dot.
const NEW_METADATA: &str = ".metadata";
/// Room on the disk for a last packet of each CPU, which says what a full disk lost.
const RESERVE: &str = ".reserve";
const RESERVE_BYTES: u64 = 4096;
const RESERVE_BYTES_PER_CPU: u64 = 1024;

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
    file: Option<File>,
    path: PathBuf,
    bytes: u64,
}

/// Files that were begun together.
#[derive(Default)]
struct Generation {
    streams: Vec<Option<Stream>>,
    bytes: u64,
    events: u64,
}

/// What is left of the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Enough.
    Enough,
    /// Not enough, and the oldest files are kept: the recording is full.
    Full,
    /// Not enough though the oldest files went.
    Scarce,
}

/// The folder `kernel` of a recording.
pub struct Folder {
    path: PathBuf,
    /// Whether the folder above it was not there before.
    is_made: bool,
    most: Option<Most>,
    /// Those that are there, and then the one that is written.
    generations: VecDeque<Generation>,
    /// Number of the one that is written.
    number: u64,
    /// Bytes of all streams, and of the other files.
    bytes: u64,
    others: u64,
    removed: u64,
}

/// How much there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    /// Bytes of all files.
    pub bytes: u64,
    /// Files of each CPU, of which the oldest go; `None`: one, and none goes.
    pub files: Option<u32>,
}

fn create(path: &Path) -> anyhow::Result<File> {
    // A folder that others may write to holds what they put there: a file that exists is refused.
    let options = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path);
    options.with_context(|| format!("cannot create {}", path.display()))
}

fn write_new(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let written = create(path)?.write_all(bytes);
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn remove(path: &Path) -> anyhow::Result<()> {
    fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))
}

impl Folder {
    /// Makes it, with what says how the streams are laid out, for so many CPUs.
    ///
    /// # Errors
    /// Where it cannot be made, or written to.
    pub fn create(
        path: &Path,
        metadata: &str,
        cpus: u32,
        most: Option<Most>,
    ) -> anyhow::Result<Self> {
        let is_made = !path.exists();
        let path = path.join("kernel");
        DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(&path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        write_new(&path.join(METADATA), metadata.as_bytes())?;
        let reserve = RESERVE_BYTES + u64::from(cpus) * RESERVE_BYTES_PER_CPU;
        // Not a hole: that would have no room on the disk.
        write_new(&path.join(RESERVE), &vec![1; reserve as usize])?;
        Ok(Self {
            path,
            is_made,
            most,
            generations: [Generation::default()].into(),
            number: 0,
            bytes: 0,
            // There are two of them for a moment at the end.
            others: 2 * metadata.len() as u64 + reserve,
            removed: 0,
        })
    }

    /// Makes room for more, where the oldest files may go.
    ///
    /// # Errors
    /// Where these cannot be removed.
    pub fn make_room(&mut self, bytes: u64) -> anyhow::Result<Room> {
        let Some(most) = self.most else { return Ok(Room::Enough) };
        loop {
            if self.bytes.saturating_add(bytes) <= most.bytes.saturating_sub(self.others) {
                return Ok(Room::Enough);
            }
            if most.files.is_none() {
                return Ok(Room::Full);
            }
            if self.generations.len() < 2 {
                return Ok(Room::Scarce);
            }
            self.remove_oldest()?;
        }
    }

    fn remove_oldest(&mut self) -> anyhow::Result<()> {
        let Some(oldest) = self.generations.pop_front() else { return Ok(()) };
        self.bytes = self.bytes.saturating_sub(oldest.bytes);
        self.removed += oldest.events;
        oldest.streams.iter().flatten().try_for_each(|stream| remove(&stream.path))
    }

    /// Whether the files that are written have their share of the room, where there are to be others.
    pub fn has_its_share(&self) -> bool {
        let Some(Most { bytes, files: Some(files) }) = self.most else { return false };
        let share = bytes.saturating_sub(self.others) / u64::from(files.max(1));
        self.generations.back().is_some_and(|last| last.bytes >= share)
    }

    /// Goes on with other files.
    ///
    /// # Errors
    /// Where the oldest cannot be removed.
    pub fn rotate(&mut self) -> anyhow::Result<()> {
        let most = self.most.and_then(|most| most.files).unwrap_or(u32::MAX);
        if let Some(last) = self.generations.back_mut() {
            last.streams.iter_mut().flatten().for_each(|stream| stream.file = None);
        }
        self.generations.push_back(Generation::default());
        self.number += 1;
        while self.generations.len() > most as usize {
            self.remove_oldest()?;
        }
        Ok(())
    }

    /// Appends whole packets to the stream of a CPU.
    ///
    /// # Errors
    /// Where they cannot be written; the stream then ends with the packet before.
    pub fn append(&mut self, cpu: u32, packets: &Packets) -> anyhow::Result<()> {
        if packets.is_empty() {
            return Ok(());
        }
        let is_rotating = self.most.is_some_and(|most| most.files.is_some());
        let path = || match is_rotating {
            true => self.path.join(format!("channel0_{cpu}_{}", self.number)),
            false => self.path.join(format!("channel0_{cpu}")),
        };
        let Some(generation) = self.generations.back_mut() else { return Ok(()) };
        let index = cpu as usize;
        if generation.streams.len() <= index {
            generation.streams.resize_with(index + 1, || None);
        }
        let Some(place) = generation.streams.get_mut(index) else { return Ok(()) };
        let stream = match place {
            Some(stream) => stream,
            None => {
                let path = path();
                place.insert(Stream { file: Some(create(&path)?), path, bytes: 0 })
            }
        };
        let Some(file) = &mut stream.file else { return Ok(()) };
        let written = file.write_all(packets.bytes());
        if written.is_err() {
            // A part of a packet may be there. Where even this fails, readers stop before it.
            let _ =
                file.set_len(stream.bytes).and_then(|()| file.seek(SeekFrom::Start(stream.bytes)));
        }
        written.with_context(|| format!("cannot write {}", stream.path.display()))?;
        let bytes = packets.len() as u64;
        stream.bytes += bytes;
        generation.bytes += bytes;
        generation.events += packets.events();
        self.bytes += bytes;
        Ok(())
    }

    /// Bytes of all streams.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Events in files that were removed, and in those that are there.
    pub fn events(&self) -> (u64, u64) {
        let kept = self.generations.iter().map(|generation| generation.events).sum();
        (self.removed, kept)
    }

    /// Gives back the room that was kept for what has to be said of a full disk.
    pub fn free_reserve(&self) {
        // Where it cannot be removed, nothing can be written either, which is said then.
        let _ = fs::remove_file(self.path.join(RESERVE));
    }

    /// Removes the files, and the folders that were made for them.
    pub fn discard(self) {
        let streams = self.generations.iter().flat_map(|generation| &generation.streams);
        let streams = streams.flatten().map(|stream| stream.path.clone());
        for path in [METADATA, RESERVE].map(|name| self.path.join(name)).into_iter().chain(streams)
        {
            // What stays is nothing but a recording without events.
            let _ = fs::remove_file(path);
        }
        for folder in self.path.ancestors().take(if self.is_made { 2 } else { 1 }) {
            let _ = fs::remove_dir(folder);
        }
    }

    /// Waits until all is on the disk.
    ///
    /// # Errors
    /// Where some of it cannot be written there.
    pub fn sync(&self) -> anyhow::Result<()> {
        let streams = self.generations.iter().flat_map(|generation| &generation.streams);
        for Stream { path, .. } in streams.flatten() {
            let opened = OpenOptions::new().write(true).open(path);
            let synced = opened.and_then(|file| file.sync_data());
            synced.with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// Replaces what says how the streams are laid out.
    ///
    /// # Errors
    /// Where that cannot be written; the one before is in its place then.
    pub fn replace_metadata(&self, metadata: &str) -> anyhow::Result<()> {
        let (new, old) = (self.path.join(NEW_METADATA), self.path.join(METADATA));
        let replaced = write_new(&new, metadata.as_bytes()).and_then(|()| {
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

    use noise_trace::ctf::write::StreamWriter;
    use noise_trace::event::Kind;

    use super::*;

    /// So many packets of so many events each.
    fn packets(count: u64, events: u64) -> Packets {
        let mut writer = StreamWriter::new([1; 16], 0, 1 << 16, 0);
        for time_ns in 0..count * events {
            writer.event(time_ns, &Kind::SoftirqRaise { vec: 3 });
            if time_ns % events == events - 1 {
                writer.flush();
            }
        }
        writer.take()
    }

    fn names(folder: &Folder) -> Vec<String> {
        let entries = fs::read_dir(&folder.path).unwrap().map(Result::unwrap);
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_are_their_owners_alone() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        ensure_new(&path).unwrap();
        let mut folder = Folder::create(&path, "one", 4, None).unwrap();
        let (first, second) = (packets(1, 3), packets(2, 5));
        folder.append(3, &first).unwrap();
        folder.append(3, &second).unwrap();
        folder.append(0, &Packets::default()).unwrap();
        folder.replace_metadata("two").unwrap();
        folder.free_reserve();
        folder.sync().unwrap();
        assert_eq!(folder.bytes(), (first.len() + second.len()) as u64);
        assert_eq!(folder.events(), (0, 13));
        let mode = |name: &str| {
            fs::metadata(path.join("kernel").join(name)).unwrap().permissions().mode() & 0o7777
        };
        assert_eq!([mode("."), mode("metadata"), mode("channel0_3")], [0o700, 0o600, 0o600]);
        let bytes = fs::read(path.join("kernel/channel0_3")).unwrap();
        assert_eq!(bytes, [first.bytes(), second.bytes()].concat());
        assert_eq!(fs::read(path.join("kernel/metadata")).unwrap(), b"two");
        assert_eq!(names(&folder), ["channel0_3", "metadata"]);
    }

    #[test]
    fn what_is_discarded_is_gone() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("new");
        let mut folder = Folder::create(&path, "one", 1, None).unwrap();
        folder.append(0, &packets(1, 1)).unwrap();
        folder.discard();
        assert!(!path.exists());
        fs::create_dir(&path).unwrap();
        Folder::create(&path, "one", 1, None).unwrap().discard();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
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
        let mut folder = Folder::create(&root.path().join("new"), "one", 1, None).unwrap();
        fs::write(root.path().join("new/kernel/channel0_0"), "x").unwrap();
        let error = folder.append(0, &packets(1, 1)).unwrap_err();
        assert!(format!("{error:#}").contains("cannot create"), "{error:#}");
    }

    #[test]
    fn a_full_disk_leaves_whole_packets() {
        let root = tempfile::tempdir().unwrap();
        let mut folder = Folder::create(root.path(), "one", 1, None).unwrap();
        // What writes nothing ever.
        let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let stream = Stream { file: Some(file), path: "/dev/full".into(), bytes: 0 };
        folder.generations[0].streams.push(Some(stream));
        let error = format!("{:#}", folder.append(0, &packets(1, 1)).unwrap_err());
        assert!(error.starts_with("cannot write /dev/full: No space left"), "{error}");
        assert_eq!((folder.bytes(), folder.events()), (0, (0, 0)));
    }

    #[test]
    fn a_recording_is_full_when_it_has_its_size() {
        let root = tempfile::tempdir().unwrap();
        let most = Most { bytes: 20_000, files: None };
        let mut folder = Folder::create(root.path(), "one", 1, Some(most)).unwrap();
        let packets = packets(1, 1_000);
        let bytes = packets.len() as u64;
        assert_eq!(folder.make_room(bytes).unwrap(), Room::Enough);
        folder.append(0, &packets).unwrap();
        assert_eq!(folder.make_room(bytes).unwrap(), Room::Full);
        assert!(!folder.has_its_share());
        assert_eq!(names(&folder), [".reserve", "channel0_0", "metadata"]);
    }

    #[test]
    fn the_oldest_files_go() {
        let root = tempfile::tempdir().unwrap();
        let most = Most { bytes: 100_000, files: Some(3) };
        let mut folder = Folder::create(root.path(), "one", 2, Some(most)).unwrap();
        let round = packets(1, 1_000);
        let bytes = 2 * round.len() as u64;
        let mut rotations = 0;
        for number in 1..=40 {
            assert_eq!(folder.make_room(bytes).unwrap(), Room::Enough);
            folder.append(0, &round).unwrap();
            folder.append(1, &round).unwrap();
            if folder.has_its_share() {
                folder.rotate().unwrap();
                rotations += 1;
            }
            let (removed, kept) = folder.events();
            assert_eq!(removed + kept, number * 2_000);
            let files = names(&folder);
            let sizes =
                files.iter().map(|name| fs::metadata(folder.path.join(name)).unwrap().len());
            assert!(sizes.sum::<u64>() <= most.bytes, "{files:?}");
            assert!(files.len() <= 2 + 2 * 3, "{files:?}");
        }
        assert!(rotations > 10, "{rotations}");
        // Of these, the latest third at least.
        assert!(folder.bytes() > 33_000, "{}", folder.bytes());
        assert!(names(&folder).contains(&format!("channel0_1_{}", folder.number - 1)));
        let too_large = packets(1, 30_000);
        assert_eq!(folder.make_room(too_large.len() as u64).unwrap(), Room::Scarce);
    }
}
