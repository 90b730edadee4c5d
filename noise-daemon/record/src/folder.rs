//! The files of a recording.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use anyhow::Context as _;
use noise_system::output::{OwnFolder, Spot, explained};
use noise_trace::ctf::write::Packets;

use noise_command::CommandError;

/// The folder of the streams, as LTTng has it.
const KERNEL: &str = "kernel";
const METADATA: &str = "metadata";
/// Readers pass over names that begin with a dot.
const NEW_METADATA: &str = ".metadata";
/// Room on the disk for a last packet of each CPU, which says what a full disk lost.
const RESERVE: &str = ".reserve";
const RESERVE_BYTES: u64 = 4096;
const RESERVE_BYTES_PER_CPU: u64 = 1024;

/// Where a recording is to be: a folder that can be made, or that is empty, the caller's, and nobody else's to write to.
/// Errors: what to do about another one.
pub fn ensure_new(path: &Path) -> Result<Spot, CommandError> {
    let refuse = |what: &str| {
        let shown = path.display();
        CommandError::misused(format!(
            "{shown} {what}: name a folder that does not exist yet, or an empty one of your own that nobody else may \
             write to"
        ))
    };
    let spot = Spot::find(path).map_err(|error| match error.kind() {
        ErrorKind::NotADirectory => refuse("is no folder"),
        _ => refuse(&format!("cannot be used ({error})")),
    })?;
    match spot.found().map_or(Ok(true), OwnFolder::is_empty) {
        Ok(true) => Ok(spot),
        Ok(false) => Err(refuse("has files in it")),
        Err(error) => Err(refuse(&format!("cannot be used ({error})"))),
    }
}

/// The file of one CPU.
struct CpuStreamFile {
    file: Option<File>,
    name: String,
    bytes: u64,
}

/// Files that were begun together.
#[derive(Default)]
struct Generation {
    streams: Vec<Option<CpuStreamFile>>,
    bytes: u64,
    events: u64,
}

/// What is left of the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Enough,
    /// Not enough, and the oldest files are kept: the recording is full.
    Full,
    /// Not enough though the oldest files went.
    Scarce,
}

/// The folders of a recording, each of them opened once.
pub struct Folder {
    whole: OwnFolder,
    kernel: Kernel,
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

/// The folder `kernel`, where the streams are.
struct Kernel(OwnFolder);

impl Kernel {
    /// What cannot be done to a file, for people.
    fn cannot(&self, what: &str, name: &str) -> String {
        format!("cannot {what} {}", self.0.path().join(name).display())
    }

    fn create(&self, name: &str) -> anyhow::Result<File> {
        self.0.create(name).with_context(|| self.cannot("create", name))
    }

    fn write_new(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let written = self.create(name)?.write_all(bytes).map_err(explained);
        written.with_context(|| self.cannot("write", name))
    }

    fn sync(&self, name: &str) -> anyhow::Result<()> {
        let synced = self.0.open_file(name).and_then(|file| file.sync_all());
        synced.with_context(|| self.cannot("write", name))
    }

    fn remove(&self, name: &str) -> anyhow::Result<()> {
        self.0.remove(name).with_context(|| self.cannot("remove", name))
    }

    /// Removes what a recording begins with, and the folder.
    fn discard(self) {
        for name in [METADATA, RESERVE] {
            // What stays is nothing but a recording without events.
            let _ = self.0.remove(name);
        }
        let _ = self.0.discard();
    }
}

impl Folder {
    /// Makes it, with what says how the streams are laid out, for so many CPUs.
    /// Errors: where it cannot be made, or written to.
    pub fn create(
        spot: Spot,
        metadata: &str,
        cpus: u32,
        most: Option<Most>,
    ) -> anyhow::Result<Self> {
        let path = spot.path().to_owned();
        let cannot = || format!("cannot create {}", path.display());
        let whole = spot.make().with_context(cannot)?;
        let kernel = match whole.make(KERNEL) {
            Ok(kernel) => Kernel(kernel),
            Err(error) => {
                let _ = whole.discard();
                return Err(error).with_context(cannot);
            }
        };
        let reserve = RESERVE_BYTES + u64::from(cpus) * RESERVE_BYTES_PER_CPU;
        let begun = kernel
            .write_new(METADATA, metadata.as_bytes())
            // Not a hole: that would have no room on the disk.
            .and_then(|()| kernel.write_new(RESERVE, &vec![1; reserve as usize]));
        if let Err(error) = begun {
            kernel.discard();
            let _ = whole.discard();
            return Err(error);
        }
        Ok(Self {
            whole,
            kernel,
            most,
            generations: [Generation::default()].into(),
            number: 0,
            bytes: 0,
            // There are two of them for a moment at the end.
            others: 2 * metadata.len() as u64 + reserve,
            removed: 0,
        })
    }

    pub fn whole(&self) -> &OwnFolder {
        &self.whole
    }

    /// Whether its files may only have so many bytes in all.
    pub const fn is_bounded(&self) -> bool {
        self.most.is_some()
    }

    /// Makes room for more, where the oldest files may go.
    /// Errors: where these cannot be removed.
    pub fn make_room(&mut self, bytes: u64) -> anyhow::Result<Room> {
        let Some(most) = self.most else { return Ok(Room::Enough) };
        let room = most.bytes.saturating_sub(self.others);
        if self.bytes.saturating_add(bytes) <= room {
            return Ok(Room::Enough);
        }
        if most.files.is_none() {
            return Ok(Room::Full);
        }
        // Where it would not do to remove all others, none is removed.
        let latest = self.generations.back().map_or(0, |latest| latest.bytes);
        if latest.saturating_add(bytes) > room {
            return Ok(Room::Scarce);
        }
        while self.bytes.saturating_add(bytes) > room {
            self.remove_oldest()?;
        }
        Ok(Room::Enough)
    }

    fn remove_oldest(&mut self) -> anyhow::Result<()> {
        let Some(oldest) = self.generations.pop_front() else { return Ok(()) };
        self.bytes = self.bytes.saturating_sub(oldest.bytes);
        self.removed += oldest.events;
        oldest.streams.iter().flatten().try_for_each(|stream| self.kernel.remove(&stream.name))
    }

    /// Whether the files that are written have their share of the room, where there are to be others.
    pub fn has_its_share(&self) -> bool {
        let Some(Most { bytes, files: Some(files) }) = self.most else { return false };
        let share = bytes.saturating_sub(self.others) / u64::from(files.max(1));
        self.generations.back().is_some_and(|last| last.bytes >= share)
    }

    /// Goes on with other files.
    /// Errors: where the oldest cannot be removed.
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
    /// Errors: where they cannot be written; the stream then ends with the packet before.
    pub fn append(&mut self, cpu: u32, packets: &Packets) -> anyhow::Result<()> {
        if packets.is_empty() {
            return Ok(());
        }
        let is_rotating = self.most.is_some_and(|most| most.files.is_some());
        let name = || match is_rotating {
            true => format!("channel0_{cpu}_{}", self.number),
            false => format!("channel0_{cpu}"),
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
                let name = name();
                place.insert(CpuStreamFile {
                    file: Some(self.kernel.create(&name)?),
                    name,
                    bytes: 0,
                })
            }
        };
        let Some(file) = &mut stream.file else { return Ok(()) };
        let written = file.write_all(packets.bytes());
        if written.is_err() {
            // A part of a packet may be there. Where even this fails, readers stop before it.
            let _ =
                file.set_len(stream.bytes).and_then(|()| file.seek(SeekFrom::Start(stream.bytes)));
        }
        written.map_err(explained).with_context(|| self.kernel.cannot("write", &stream.name))?;
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
        let _ = self.kernel.0.remove(RESERVE);
    }

    /// Removes the files, and the folders that were made for them.
    pub fn discard(self) {
        let streams = self.generations.iter().flat_map(|generation| &generation.streams);
        for stream in streams.flatten() {
            let _ = self.kernel.remove(&stream.name);
        }
        self.kernel.discard();
        let _ = self.whole.discard();
    }

    /// Waits until all is on the disk.
    /// Errors: where some of it cannot be written there.
    pub fn sync(&self) -> anyhow::Result<()> {
        let streams = self.generations.iter().flat_map(|generation| &generation.streams);
        streams.flatten().try_for_each(|stream| self.kernel.sync(&stream.name))?;
        self.kernel.sync(METADATA)?;
        // Names outlive a crash only once the folders are written, too.
        for folder in [&self.kernel.0, &self.whole] {
            folder.sync().with_context(|| format!("cannot write {}", folder.path().display()))?;
        }
        Ok(())
    }

    /// Replaces what says how the streams are laid out.
    /// Errors: where that cannot be written; the one before is in its place then.
    pub fn replace_metadata(&self, metadata: &str) -> anyhow::Result<()> {
        let written = self.kernel.write_new(NEW_METADATA, metadata.as_bytes());
        // A crash leaves the one before or all of this one.
        let replaced = written.and_then(|()| self.kernel.sync(NEW_METADATA)).and_then(|()| {
            let renamed = self.kernel.0.rename(NEW_METADATA, METADATA);
            renamed.with_context(|| self.kernel.cannot("replace", METADATA))
        });
        if replaced.is_err() {
            // It may not even be there.
            let _ = self.kernel.0.remove(NEW_METADATA);
        }
        replaced
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::PathBuf;

    use noise_trace::ctf::write::StreamWriter;
    use noise_trace::event::TraceKind;

    use super::*;

    /// So many packets of so many events each.
    fn packets(count: u64, events: u64) -> Packets {
        let mut writer = StreamWriter::new([1; 16], 0, 1 << 16, 0);
        for time_ns in 0..count * events {
            writer.event(time_ns, &TraceKind::SoftirqRaise { vec: 3 });
            if time_ns % events == events - 1 {
                writer.flush();
            }
        }
        writer.take()
    }

    fn begin(path: &Path, cpus: u32, most: Option<Most>) -> Folder {
        Folder::create(ensure_new(path).unwrap(), "one", cpus, most).unwrap()
    }

    fn streams(folder: &Folder) -> PathBuf {
        folder.kernel.0.path().to_owned()
    }

    fn names(folder: &Folder) -> Vec<String> {
        let entries = fs::read_dir(streams(folder)).unwrap().map(Result::unwrap);
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_are_their_owners_alone() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        let mut folder = begin(&path, 4, None);
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
        let mut folder = begin(&path, 1, None);
        folder.append(0, &packets(1, 1)).unwrap();
        folder.discard();
        assert!(!path.exists());
        fs::create_dir(&path).unwrap();
        begin(&path, 1, None).discard();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    }

    #[test]
    fn what_is_there_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        ensure_new(root.path()).unwrap();
        fs::write(root.path().join("file"), "x").unwrap();
        for (path, what) in [(".", "has files in it"), ("file", "is no folder")] {
            let error = ensure_new(&root.path().join(path)).unwrap_err();
            assert_eq!(error.exit, noise_command::Exit::Usage);
            assert!(error.to_string().contains(what), "{error}");
        }
        let mut folder = begin(&root.path().join("new"), 1, None);
        fs::write(root.path().join("new/kernel/channel0_0"), "x").unwrap();
        let error = folder.append(0, &packets(1, 1)).unwrap_err();
        assert!(format!("{error:#}").contains("cannot create"), "{error:#}");
    }

    #[test]
    fn a_full_disk_leaves_whole_packets() {
        let root = tempfile::tempdir().unwrap();
        let mut folder = begin(root.path(), 1, None);
        // What writes nothing ever.
        let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let stream = CpuStreamFile { file: Some(file), name: "full".to_owned(), bytes: 0 };
        folder.generations[0].streams.push(Some(stream));
        let error = format!("{:#}", folder.append(0, &packets(1, 1)).unwrap_err());
        assert!(error.contains("kernel/full: No space left"), "{error}");
        assert_eq!((folder.bytes(), folder.events()), (0, (0, 0)));
    }

    #[test]
    fn a_folder_that_is_swapped_meanwhile_leaves_others_alone() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let most = Most { bytes: 1 << 20, files: Some(2) };
        let mut folder = begin(&path("new"), 1, Some(most));
        folder.append(0, &packets(1, 3)).unwrap();
        // What is called `new/kernel` from now on is another's.
        fs::create_dir(path("precious")).unwrap();
        let theirs = ["metadata", ".reserve", "channel0_0_0", "channel0_0_1"];
        for name in theirs {
            fs::write(path("precious").join(name), "old").unwrap();
        }
        fs::rename(path("new/kernel"), path("new/moved")).unwrap();
        symlink("../precious", path("new/kernel")).unwrap();
        for _ in 0..3 {
            folder.rotate().unwrap();
            folder.append(0, &packets(1, 5)).unwrap();
        }
        folder.replace_metadata("two").unwrap();
        folder.free_reserve();
        folder.sync().unwrap();
        for name in theirs {
            assert_eq!(fs::read(path("precious").join(name)).unwrap(), b"old", "{name}");
        }
        assert_eq!(fs::read_dir(path("precious")).unwrap().count(), theirs.len());
        let entries = fs::read_dir(path("new/moved")).unwrap();
        assert_eq!(entries.count(), 3, "the metadata and two files");
        assert_eq!(fs::read(path("new/moved/metadata")).unwrap(), b"two");
        folder.discard();
        assert_eq!(fs::read_dir(path("precious")).unwrap().count(), theirs.len());
    }

    #[test]
    fn a_folder_of_others_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("shared");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o1777)).unwrap();
        let error = ensure_new(&path).unwrap_err();
        assert_eq!(error.exit, noise_command::Exit::Usage);
        assert!(error.to_string().contains("other users may write to it (mode 1777)"), "{error}");
        // A folder in it is made, and nothing is half made.
        begin(&path.join("own"), 1, None).discard();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        let spot = ensure_new(&path.join("own")).unwrap();
        fs::create_dir(path.join("own")).unwrap();
        assert!(Folder::create(spot, "one", 1, None).is_err());
    }

    #[test]
    fn a_recording_is_full_when_it_has_its_size() {
        let root = tempfile::tempdir().unwrap();
        let most = Most { bytes: 20_000, files: None };
        let mut folder = begin(root.path(), 1, Some(most));
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
        let mut folder = begin(root.path(), 2, Some(most));
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
                files.iter().map(|name| fs::metadata(streams(&folder).join(name)).unwrap().len());
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
