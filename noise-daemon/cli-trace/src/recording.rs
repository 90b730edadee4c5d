//! Opening a recording: a folder in CTF, or a text of ftrace.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use noise_command::output::complain;
use noise_paths::build::Waker;
use noise_system::files::{open_input, open_regular, read, rest};
use noise_text::clean::quoted;
use noise_trace::ctf::{CtfError, CtfReader, StreamFile, StreamPart, TraceLayout, apart, metadata};
use noise_trace::damage::Damage;
use noise_trace::delays::Begin;
use noise_trace::events::What;
use noise_trace::ftrace::{self, Survey, UnreadLines};
use noise_trace::record::{Record, Source};
use noise_trace::window::{Content, Opened, ReadAt as _, Window};

use super::folders::{METADATA, folder, is_chunk, left_out, refuse};
use super::foreign::{FIRST_BYTES, losses_of_perf, recognised, recognised_text, stray};
use super::reading::Reading;

/// Longest metadata that is read; LTTng's for a kernel of today are below 2 MiB.
const MAX_METADATA_BYTES: u64 = 16 << 20;
/// Files of one recording; one or a few per CPU.
const MAX_FILES: usize = 65_536;
/// What editors put before a text in UTF-8.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";
/// Files that a command has open beside those.
const OTHER_FILES: u64 = 64;
/// Text that comes through a pipe.
const MAX_PIPED_BYTES: u64 = 1 << 30;

pub enum Recording {
    Ctf(Box<Ctf>),
    Text(Box<Text>),
}

const fn begin(has_wakeup: bool) -> Begin {
    if has_wakeup { Begin::Wakeup } else { Begin::Waking }
}

const fn waker(has_waking: bool) -> Waker {
    if has_waking { Waker::Waking } else { Waker::Wakeup }
}

pub struct Ctf {
    pub layout: TraceLayout,
    /// Its files, those of which the CPUs are apart in parts, each with the file's name.
    files: Vec<(String, StreamPart<Opened<File>>)>,
}

impl Ctf {
    /// The event that waits of woken threads begin with.
    pub fn begin(&self) -> Begin {
        begin(self.layout.has(What::SchedWakeup))
    }

    /// The event that says who wakes a thread.
    pub fn waker(&self) -> Waker {
        waker(self.layout.has(What::SchedWaking))
    }

    /// A sentence about files in its folder that are packed, or others'.
    fn strays(&self, folder: &Path) -> Option<String> {
        let of = |(name, file): &(String, StreamPart<Opened<File>>)| {
            stray(&folder.join(name), &first_of(Content::Read(file)))
        };
        let mut strays = self.files.iter().filter_map(of);
        let first = strays.next()?;
        Some(match strays.count() {
            0 => first,
            1 => format!("{first}; 1 more file likewise"),
            more => format!("{first}; {more} more files likewise"),
        })
    }

    pub fn streams(&self) -> Vec<StreamFile<'_>> {
        let all = self.files.iter();
        all.map(|(name, file)| StreamFile { name, content: Content::Read(file) }).collect()
    }
}

/// Where a text comes from.
enum Printed {
    File(Opened<File>),
    /// A pipe, of which all is kept.
    Piped(Vec<u8>),
}

impl Printed {
    fn open(path: &Path) -> io::Result<Self> {
        let file = open_input(path)?;
        let found = file.metadata()?;
        // Files of the kernel, as /sys/kernel/tracing/trace, have no length until they are read.
        if found.is_file() && found.len() > 0 {
            return in_windows(file).map(Self::File);
        }
        rest(file, MAX_PIPED_BYTES).map(Self::Piped)
    }

    fn content(&self) -> Content<'_> {
        match self {
            Self::File(file) => Content::Read(file),
            Self::Piped(bytes) => Content::Held(bytes),
        }
    }
}

/// A text of ftrace, and what one look at it says.
pub struct Text {
    printed: Printed,
    survey: Survey,
}

impl Text {
    pub fn reader(&self) -> ftrace::FtraceReader<'_> {
        ftrace::FtraceReader::of(self.printed.content(), &self.survey)
    }

    /// The event that waits of woken threads begin with.
    pub fn begin(&self) -> Begin {
        begin(self.survey.has_wakeup)
    }

    /// The event that says who wakes a thread.
    pub fn waker(&self) -> Waker {
        waker(self.survey.has_waking)
    }

    /// Lines that are no events, where they are many.
    pub fn unread_lines(&self) -> Option<UnreadLines> {
        self.survey.unread_lines()
    }
}

/// Events after which progress is shown.
const SHOWN_EVENTS: u32 = 1 << 18;

/// A source that shows how far it is.
pub struct ProgressSource<'r, S> {
    source: S,
    recording: &'r Recording,
    left: u32,
    reading: Reading,
}

impl<S: Source> Source for ProgressSource<'_, S> {
    type Stored<'r>
        = S::Stored<'r>
    where
        Self: 'r;

    #[inline(always)]
    fn read(&mut self) -> Option<Record<S::Stored<'_>>> {
        if self.left == 0 {
            self.left = SHOWN_EVENTS;
            let read_bytes = || self.source.read_bytes();
            self.reading.at(read_bytes, self.recording.length());
        }
        self.left -= 1;
        self.source.read()
    }

    fn next_ns(&mut self) -> Option<u64> {
        self.source.next_ns()
    }

    fn damage(&self) -> Damage {
        self.source.damage()
    }

    fn read_bytes(&self) -> u64 {
        self.source.read_bytes()
    }
}

impl Recording {
    /// A source that reads from this recording, for a command that `prints` what it reads or does not.
    pub fn shown<S: Source>(&self, source: S, prints: bool) -> ProgressSource<'_, S> {
        ProgressSource {
            source,
            recording: self,
            left: SHOWN_EVENTS,
            reading: Reading::new(prints),
        }
    }

    /// The time of its first event, nanoseconds since the epoch; 0 where it has none.
    pub fn first_ns(&self) -> u64 {
        match self {
            Self::Ctf(ctf) => first_ns(CtfReader::new(&ctf.layout, &ctf.streams())),
            Self::Text(text) => first_ns(text.reader()),
        }
    }

    /// Bytes of all its files.
    fn length(&self) -> u64 {
        match self {
            Self::Ctf(ctf) => ctf.files.iter().map(|(_, file)| file.length()).sum(),
            Self::Text(text) => text.printed.content().length(),
        }
    }

    /// Errors: what it lacks.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        if let Some(folder) = folder(path) {
            let ctf = ctf(&folder).with_context(|| format!("cannot read the recording {shown}"))?;
            let mut reader = CtfReader::new(&ctf.layout, &ctf.streams());
            let (is_empty, damage) = (reader.next_ns().is_none(), reader.damage());
            let is_damaged = !damage.is_none();
            let strays = is_damaged.then(|| ctf.strays(&folder)).flatten();
            if is_empty && is_damaged {
                let why = strays.unwrap_or_else(|| damage.to_string());
                bail!("no event of the recording {shown} can be read: {why}");
            }
            let of_perf = ctf.layout.is_perfs().then(|| losses_of_perf(path));
            for sentence in left_out(path, &folder).into_iter().chain(of_perf).chain(strays) {
                complain(&sentence);
            }
            return Ok(Self::Ctf(Box::new(ctf)));
        }
        if path.is_dir() {
            refuse(path)?;
        }
        let printed = Printed::open(path).with_context(|| format!("cannot read {shown}"))?;
        if path.is_file() && printed.content().length() == 0 {
            bail!(
                "{shown} is empty: it is no recording; `noised record` makes one, and `cat /sys/kernel/tracing/trace` \
                 prints a text of ftrace"
            );
        }
        let first = first_of(printed.content());
        if let Some(sentence) = recognised(path, &first) {
            bail!(sentence);
        }
        let survey = Survey::of(printed.content());
        if let Some(refusal) = survey.refusal() {
            bail!(recognised_text(path, &first).unwrap_or_else(|| format!("{shown} {refusal}")));
        }
        Ok(Self::Text(Box::new(Text { printed, survey })))
    }
}

/// The time of the first event, behind what was lost before it.
fn first_ns(mut source: impl Source) -> u64 {
    while let Some(record) = source.read() {
        if record.loss().is_none() {
            return record.time_ns;
        }
    }
    0
}

/// How a file begins.
fn first_of(content: Content<'_>) -> Vec<u8> {
    let mut window = Window::new(content, FIRST_BYTES);
    let first = window.view(0, FIRST_BYTES);
    first.get(..FIRST_BYTES).unwrap_or(first).to_vec()
}

/// Opens a file that is read in windows.
fn opened(path: &Path) -> io::Result<Opened<File>> {
    in_windows(open_regular(OpenOptions::new().read(true), path, 0)?)
}

fn in_windows(file: File) -> io::Result<Opened<File>> {
    // More of it is read ahead then, and that is all.
    let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_SEQUENTIAL);
    Ok(Opened { length: file.metadata()?.len(), file })
}

fn ctf(folder: &Path) -> anyhow::Result<Ctf> {
    let bytes = read(&folder.join(METADATA), MAX_METADATA_BYTES).context(METADATA)?;
    let bytes = bytes.strip_prefix(UTF8_MARK).unwrap_or(&bytes);
    match bytes.trim_ascii_start() {
        [] => bail!(
            "its file `{METADATA}` is empty: if the session still runs, end it (`lttng stop`, `lttng destroy`), \
             otherwise copy `{METADATA}` from where it was recorded"
        ),
        // All records of CTF 2 as one list.
        [b'[', ..] => bail!(CtfError::Version2),
        _ => {}
    }
    let mut layout = TraceLayout::parse(&metadata::text(bytes)?)?;
    layout.is_chunk = is_chunk(folder);
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
    if names.is_empty() {
        bail!(
            "it has only `{METADATA}`, and no stream files with events: copy all files of the folder from where \
             it was recorded (`lttng` names them channel0_0 …, `perf data convert` perf_stream_0 …); if those are all, it has no event"
        );
    }
    names.sort_by(|one, other| in_order(one).cmp(&in_order(other)));
    // All of them stay open. What is not allowed is said where one is opened.
    if let Ok((allowed, most)) = getrlimit(Resource::RLIMIT_NOFILE)
        && (names.len() as u64).saturating_add(OTHER_FILES) > allowed
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
    let open = |name: &String| {
        let file = opened(&folder.join(name)).with_context(|| quoted(name))?;
        Ok(Arc::new(file))
    };
    let all = names.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    let streams = names.iter().zip(&all);
    let streams: Vec<_> =
        streams.map(|(name, file)| StreamFile { name, content: Content::Read(&**file) }).collect();
    let part = |(number, stretches): (usize, _)| {
        let file = Arc::clone(all.get(number)?);
        Some((names.get(number)?.clone(), StreamPart::new(file, stretches)))
    };
    let files = apart(&layout, &streams).into_iter().filter_map(part).collect();
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
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::PermissionsExt as _;

    use noise_client::fake::as_unprivileged;
    use noise_keep::export::exported;
    use noise_trace::event::LostEvents;
    use noise_trace::fixtures::{MadeEvent, MadeRecording, switch};

    use super::*;
    use crate::sampled::small;

    #[test]
    fn what_was_kept_of_an_incident_is_a_recording() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("trace");
        let said = exported(&path);
        assert!(said.starts_with("9 events of 0.1 s are in "), "{said}");
        let Recording::Ctf(ctf) = Recording::open(&path).unwrap() else { panic!("no CTF") };
        assert_eq!(ctf.streams().len(), 1);
    }

    #[test]
    fn a_recording_begins_with_its_first_event() {
        let lost = Record::lost(10, 0, LostEvents { events: 1, ..LostEvents::default() });
        let event = Record::new(20, 0, MadeEvent::new("switch", switch(0, 0, 1)));
        let of = |records: Vec<_>| first_ns(MadeRecording(records.into_iter().peekable()));
        assert_eq!((of(vec![lost, event]), of(vec![lost]), of(vec![])), (20, 0, 0));
    }

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

    fn refused(path: &Path) -> String {
        format!("{:#}", Recording::open(path).err().unwrap())
    }

    #[test]
    fn metadata_without_streams_are_refused_with_what_is_missing() {
        let folder = small();
        let kernel = folder.path().join("kernel");
        fs::remove_file(kernel.join("channel0_1")).unwrap();
        for path in [folder.path().to_path_buf(), kernel.join(METADATA)] {
            let error = refused(&path);
            assert!(error.contains("no stream files with events"), "{error}");
        }
        fs::write(kernel.join(METADATA), "\n").unwrap();
        let error = refused(&kernel);
        assert!(error.contains("`metadata` is empty") && error.contains("lttng stop"), "{error}");
    }

    #[test]
    fn metadata_may_be_those_of_ctf_2_in_any_form() {
        let folder = small();
        let path = folder.path().join("kernel/metadata");
        let one = fs::read(&path).unwrap();
        for text in ["[{\"type\": \"preamble\"}]", "{}", "\u{1e}{}"] {
            for mark in ["", "\u{feff}"] {
                fs::write(&path, format!("{mark}\n{text}")).unwrap();
                let error = refused(folder.path());
                assert!(error.contains("CTF 2"), "{error}");
            }
        }
        fs::write(&path, [UTF8_MARK, &one].concat()).unwrap();
        assert!(Recording::open(folder.path()).is_ok());
    }

    #[test]
    fn packed_files_of_a_folder_are_named() {
        let folder = small();
        let kernel = folder.path().join("kernel");
        let gzip = b"\x1f\x8b\x08\0\0\0\0\0";
        fs::write(kernel.join("channel0_1.gz"), gzip).unwrap();
        let strays = || {
            let Recording::Ctf(ctf) = Recording::open(folder.path()).unwrap() else {
                panic!("no CTF")
            };
            ctf.strays(&kernel)
        };
        assert_eq!(strays(), None);
        fs::write(kernel.join("channel0_2.gz"), gzip).unwrap();
        let sentence = strays().unwrap();
        assert!(sentence.ends_with("kernel/channel0_2.gz`"), "{sentence}");
        fs::remove_file(kernel.join("channel0_1")).unwrap();
        let error = refused(folder.path());
        assert!(error.contains("channel0_1.gz is packed with gzip"), "{error}");
        assert!(error.ends_with("; 1 more file likewise"), "{error}");
    }

    #[test]
    fn an_empty_file_is_refused_and_an_empty_pipe_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        fs::write(&path, "").unwrap();
        let error = Recording::open(&path).err().unwrap().to_string();
        let begin = format!("{} is empty: ", path.display());
        assert!(error.starts_with(&begin) && error.lines().count() == 1, "{error}");
        let (end, begin) = nix::unistd::pipe().unwrap();
        drop(begin);
        let pipe = format!("/proc/self/fd/{}", end.as_raw_fd());
        assert!(matches!(Recording::open(Path::new(&pipe)), Ok(Recording::Text(_))));
    }

    #[test]
    fn a_device_is_no_recording() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(refused(&path).ends_with("it is a device, not a regular file"));
    }

    #[test]
    fn a_file_without_a_length_may_have_bytes() {
        // As /sys/kernel/tracing/trace, but everyone may read it, and it is no text of ftrace.
        let error = Recording::open(Path::new("/proc/self/status")).err().unwrap().to_string();
        assert!(error.contains("lines are no events"), "{error}");
    }

    #[test]
    fn what_is_cut_off_a_text_while_it_is_read_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        let line = "a-1 [000] d..2. 1.000001: sched_process_exit: comm=a pid=1 prio=120\n";
        fs::write(&path, line.repeat(3)).unwrap();
        let recording = Recording::open(&path).unwrap();
        let length = line.len() as u64;
        OpenOptions::new().write(true).open(&path).unwrap().set_len(2 * length - 1).unwrap();
        let Recording::Text(text) = &recording else { panic!("it is a text") };
        let mut source = recording.shown(text.reader(), true);
        assert!(source.read().is_some());
        assert!(source.read().is_none());
        let damage = source.damage();
        assert_eq!((damage.unread_bytes, damage.missing_bytes), (length - 1, length + 1));
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
