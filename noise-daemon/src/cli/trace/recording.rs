//! Opening a recording: a folder in CTF, or a text of ftrace.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use noise_model::clean::quoted;
use noise_system::files::{Mapped, read};
use noise_trace::ctf::{Layout, StreamFile, metadata};

/// Longest metadata that is read; LTTng's for a kernel of today are below 2 MiB.
const MAX_METADATA_BYTES: u64 = 64 << 20;
/// Files of one recording; one or a few per CPU.
const MAX_FILES: usize = 65_536;
/// Text that comes through a pipe.
const MAX_PIPED_BYTES: u64 = 1 << 30;
/// What says how a recording is laid out.
const METADATA: &str = "metadata";

/// A recording, opened.
pub enum Recording {
    /// CTF 1.8.
    Ctf(Box<Ctf>),
    /// A text of ftrace.
    Text(Mapped),
}

/// A folder in CTF.
pub struct Ctf {
    /// What its metadata says.
    pub layout: Layout,
    files: Vec<(String, Mapped)>,
}

impl Ctf {
    /// Its streams.
    pub fn streams(&self) -> Vec<StreamFile<'_>> {
        self.files.iter().map(|(name, bytes)| StreamFile { name, bytes }).collect()
    }
}

/// The folder of the recording with its metadata: this one, its `kernel` (as LTTng and we write), or the
/// one that the file `metadata` lies in.
fn folder(path: &Path) -> Option<PathBuf> {
    if path.is_file() && path.file_name().is_some_and(|name| name == METADATA) {
        return path.parent().map(Path::to_path_buf);
    }
    let places = [path.to_path_buf(), path.join("kernel")];
    places.into_iter().find(|place| place.join(METADATA).is_file())
}

impl Recording {
    /// Opens one.
    ///
    /// # Errors
    /// What it lacks.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        if let Some(folder) = folder(path) {
            let ctf = ctf(&folder).with_context(|| format!("cannot read the recording {shown}"))?;
            return Ok(Self::Ctf(Box::new(ctf)));
        }
        if path.is_dir() {
            bail!(
                "{shown} is no recording: neither it nor its folder `kernel` has a file `metadata`; name the \
                 folder that `noised record`, `lttng` or `perf data convert --to-ctf` wrote, or a text of ftrace"
            );
        }
        let text = Mapped::open_any(path, MAX_PIPED_BYTES);
        Ok(Self::Text(text.with_context(|| format!("cannot read {shown}"))?))
    }
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
        fs::create_dir(folder.path().join("kernel")).unwrap();
        fs::write(folder.path().join("kernel/metadata"), "nonsense").unwrap();
        assert!(error(folder.path()).ends_with("cannot be understood from line 1 on: `nonsense`"));
    }

    #[test]
    fn files_come_in_the_order_of_their_numbers() {
        let mut names = ["channel0_10", "channel0_9", "a", "channel1_0"];
        names.sort_by(|one, other| in_order(one).cmp(&in_order(other)));
        assert_eq!(names, ["a", "channel0_9", "channel0_10", "channel1_0"]);
    }
}
