//! Opening a recording: a folder in CTF, or a text of ftrace.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use noise_model::clean::quoted;
use noise_paths::build::Waker;
use noise_system::files::{Mapped, read};
use noise_trace::ctf::{Layout, Reader, StreamFile, metadata};
use noise_trace::damage::Damage;
use noise_trace::delays::Begin;
use noise_trace::ftrace::{self, Survey, UnreadLines};
use noise_trace::record::Source;
use noise_trace::what::What;

use super::folders::{METADATA, folder, left_out, refuse};
use super::foreign::recognised;
use super::reading::Reading;
use crate::cli::output::complain;

/// Longest metadata that is read; LTTng's for a kernel of today are below 2 MiB.
const MAX_METADATA_BYTES: u64 = 16 << 20;
/// Files of one recording; one or a few per CPU.
const MAX_FILES: usize = 65_536;
/// Text that comes through a pipe.
const MAX_PIPED_BYTES: u64 = 1 << 30;
/// First bytes of a file, by which those of other programs are known.
const FIRST_BYTES: usize = 512;

/// A recording, opened.
pub enum Recording {
    /// CTF 1.8.
    Ctf(Box<Ctf>),
    /// A text of ftrace.
    Text(Box<Text>),
}

/// A folder in CTF.
pub struct Ctf {
    /// What its metadata says.
    pub layout: Layout,
    files: Vec<(String, Mapped)>,
}

impl Ctf {
    /// The event that waits of woken threads begin with.
    pub fn begin(&self) -> Begin {
        if self.layout.has(What::SchedWakeup) { Begin::Wakeup } else { Begin::Waking }
    }

    /// The event that says who wakes a thread.
    pub fn waker(&self) -> Waker {
        if self.layout.has(What::SchedWaking) { Waker::Waking } else { Waker::Wakeup }
    }

    /// Its streams.
    pub fn streams(&self) -> Vec<StreamFile<'_>> {
        self.files.iter().map(|(name, bytes)| StreamFile { name, bytes }).collect()
    }
}

/// A text of ftrace, and what one look at it says.
pub struct Text {
    bytes: Mapped,
    survey: Survey,
}

impl Text {
    /// A reader of its events.
    pub fn reader(&self) -> ftrace::Reader<'_> {
        ftrace::Reader::of(&self.bytes, &self.survey)
    }

    /// Lines that are no events, where they are many.
    pub fn unread_lines(&self) -> Option<UnreadLines> {
        self.survey.unread_lines()
    }
}

/// Events after which memory of what was read is given back, and progress is shown.
const TIDY_EVENTS: u32 = 1 << 18;

/// A source that keeps in memory only what it reads at the moment, and shows how far it is.
pub struct Tidied<'r, S> {
    source: S,
    recording: &'r Recording,
    left: u32,
    reading: Reading,
}

impl<'t, S: Source<'t>> Iterator for Tidied<'_, S> {
    type Item = S::Item;

    #[inline]
    fn next(&mut self) -> Option<S::Item> {
        if self.left == 0 {
            self.left = TIDY_EVENTS;
            self.recording.forget(&self.source);
            let read_bytes = || self.recording.read_bytes(&self.source);
            self.reading.at(read_bytes, self.recording.length());
        }
        self.left -= 1;
        self.source.next()
    }
}

impl<'t, S: Source<'t>> Source<'t> for Tidied<'_, S> {
    type Stored = S::Stored;

    fn damage(&self) -> Damage {
        self.source.damage()
    }

    fn read_bytes(&self, file: usize) -> usize {
        self.source.read_bytes(file)
    }
}

impl Recording {
    /// A source that reads from this recording, however long, in little memory, for a command that `prints`
    /// what it reads or does not.
    pub fn tidied<'t, S: Source<'t>>(&self, source: S, prints: bool) -> Tidied<'_, S> {
        Tidied { source, recording: self, left: TIDY_EVENTS, reading: Reading::new(prints) }
    }

    /// The time of its first event, nanoseconds since the epoch; 0 where it has none.
    pub fn first_ns(&self) -> u64 {
        match self {
            Self::Ctf(ctf) => Reader::new(&ctf.layout, &ctf.streams()).first_ns().unwrap_or(0),
            Self::Text(text) => text.reader().next().map_or(0, |first| first.time_ns),
        }
    }

    /// Bytes of all its files.
    fn length(&self) -> u64 {
        match self {
            Self::Ctf(ctf) => ctf.files.iter().map(|(_, file)| file.len() as u64).sum(),
            Self::Text(text) => text.bytes.len() as u64,
        }
    }

    /// Bytes that were read of all its files.
    fn read_bytes<'t>(&self, source: &impl Source<'t>) -> u64 {
        let files = match self {
            Self::Ctf(ctf) => ctf.files.len(),
            Self::Text(_) => 1,
        };
        (0..files).map(|number| source.read_bytes(number) as u64).sum()
    }

    fn forget<'t>(&self, source: &impl Source<'t>) {
        match self {
            Self::Ctf(ctf) => {
                for (number, (_, file)) in ctf.files.iter().enumerate() {
                    file.forget(source.read_bytes(number));
                }
            }
            Self::Text(text) => text.bytes.forget(source.read_bytes(0)),
        }
    }

    /// Opens one.
    ///
    /// # Errors
    /// What it lacks.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        if let Some(folder) = folder(path) {
            let ctf = ctf(&folder).with_context(|| format!("cannot read the recording {shown}"))?;
            let damage = unreadable(Reader::new(&ctf.layout, &ctf.streams()));
            if let Some(damage) = damage {
                bail!("no event of the recording {shown} can be read: {damage}");
            }
            for sentence in left_out(path, &folder) {
                complain(&sentence);
            }
            return Ok(Self::Ctf(Box::new(ctf)));
        }
        if path.is_dir() {
            refuse(path)?;
        }
        let bytes = Mapped::open_any(path, MAX_PIPED_BYTES);
        let bytes = bytes.with_context(|| format!("cannot read {shown}"))?;
        if let Some(sentence) = recognised(path, bytes.get(..FIRST_BYTES).unwrap_or(&bytes)) {
            bail!(sentence);
        }
        let survey = Survey::of(&bytes, |passed| bytes.forget(passed));
        if let Some(refusal) = survey.refusal() {
            bail!("{shown} {refusal}");
        }
        Ok(Self::Text(Box::new(Text { bytes, survey })))
    }
}

/// What is wrong where there is not a single event, but something else.
fn unreadable<'t>(mut source: impl Source<'t>) -> Option<Damage> {
    let is_empty = source.next().is_none();
    Some(source.damage()).filter(|damage| is_empty && !damage.is_none())
}

fn ctf(folder: &Path) -> anyhow::Result<Ctf> {
    let bytes = read(&folder.join(METADATA), MAX_METADATA_BYTES).context(METADATA)?;
    let layout = Layout::parse(&metadata::text(&bytes)?)?;
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_stream = name != METADATA && !name.starts_with('.') && entry.path().is_file();
        if is_stream {
            names.push(name);
        }
        if names.len() > MAX_FILES {
            bail!("it has more than {MAX_FILES} files");
        }
    }
    names.sort_by(|one, other| in_order(one).cmp(&in_order(other)));
    let open = |name: String| {
        let bytes = Mapped::open(&folder.join(&name)).with_context(|| quoted(&name))?;
        Ok((name, bytes))
    };
    let files = names.into_iter().map(open).collect::<anyhow::Result<_>>()?;
    Ok(Ctf { layout, files })
}

/// Numbers at the end of a name count as such: `channel0_10` comes after `channel0_9`.
fn in_order(name: &str) -> (&str, u64, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name.get(stem.len()..).and_then(|digits| digits.parse().ok());
    (stem, number.unwrap_or(0), name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use noise_top::sources::fake::as_unprivileged;

    use super::*;
    use crate::cli::trace::sampled::small;

    #[test]
    fn the_folder_above_the_kernels_is_enough() {
        let folder = small();
        for path in ["", "kernel", "kernel/metadata"] {
            let Recording::Ctf(ctf) = Recording::open(&folder.path().join(path)).unwrap() else {
                panic!("{path} is no folder in CTF");
            };
            assert_eq!(ctf.streams().len(), 1, "{path}");
        }
    }

    #[test]
    fn what_is_no_recording_is_refused_in_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let error = |path: &Path| match Recording::open(path) {
            Ok(_) => panic!("{} was opened", path.display()),
            Err(error) => format!("{error:#}"),
        };
        assert!(error(folder.path()).contains("has a file `metadata`"));
        assert!(error(&folder.path().join("none")).contains("cannot read"));
        let text = folder.path().join("text");
        fs::write(&text, "a\nb\n").unwrap();
        assert!(
            error(&text).contains("is no recording: 2 lines are no events (line 1 is no event)")
        );
        fs::create_dir(folder.path().join("kernel")).unwrap();
        fs::write(folder.path().join("kernel/metadata"), "nonsense").unwrap();
        assert!(error(folder.path()).ends_with("cannot be understood from line 1 on: `nonsense`"));
    }

    #[test]
    fn a_recording_of_another_user_is_one() {
        let folder = small();
        let path = folder.path().join("kernel");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        for path in [folder.path().to_path_buf(), path] {
            let error = as_unprivileged(move || Recording::open(&path).err());
            let error = error.unwrap().to_string();
            assert!(error.contains("Permission denied") && error.contains("chmod"), "{error}");
        }
    }

    #[test]
    fn files_come_in_the_order_of_their_numbers() {
        let mut names = ["channel0_10", "channel0_9", "a", "channel1_0"];
        names.sort_by(|one, other| in_order(one).cmp(&in_order(other)));
        assert_eq!(names, ["a", "channel0_9", "channel0_10", "channel1_0"]);
    }
}
