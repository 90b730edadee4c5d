//! Which folder has a recording in CTF: this one, its `kernel`, or which ones below it.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::bail;

use super::foreign::{first_of, is_stream, is_table, recognised};

/// What says how a recording is laid out.
pub const METADATA: &str = "metadata";
/// Where LTTng and we write events of the kernel.
const KERNEL: &str = "kernel";
/// Where LTTng writes those of programs.
const PROGRAMS: &str = "ust";
/// Where LTTng keeps what it rotated out of a session.
const CHUNKS: &str = "archives";
/// How names of these begin, with any digits and either sign.
const CHUNK_NAME: &str = "00000000T000000+0000";

/// Folders that are looked through for recordings, and how deep: `archives/CHUNK/ust/uid/1000/64-bit`.
const MAX_FOLDERS: usize = 10_000;
const MAX_DEPTH: usize = 6;
/// Names in a sentence.
const MAX_NAMES: usize = 20;

/// The folder of the recording with its metadata: this one, its `kernel` (as LTTng and we write), or the
/// one that the file `metadata` lies in.
pub fn folder(path: &Path) -> Option<PathBuf> {
    if path.is_file() && path.file_name().is_some_and(|name| name == METADATA) {
        return path.parent().map(Path::to_path_buf);
    }
    let places = [path.to_path_buf(), path.join(KERNEL)];
    places.into_iter().find(|place| place.join(METADATA).is_file())
}

/// Whether a folder with metadata is a chunk of a session that LTTng rotates: it, or the one above, is named by the time
/// when the chunk began, or has the chunks before beside it. Snapshots have other names, and no chunks.
pub fn is_chunk(folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    let session = folder.parent().filter(|_| folder.ends_with(KERNEL)).unwrap_or(&folder);
    let name = session.file_name().unwrap_or_default().to_string_lossy();
    let digit = |letter: char| if letter.is_ascii_digit() { '0' } else { letter };
    let shape: String = name.chars().map(digit).take(CHUNK_NAME.len()).collect();
    shape.replace('-', "+") == CHUNK_NAME || session.join(CHUNKS).is_dir()
}

/// Sentences about what lies beside the folder that is read for this path, and is not read.
pub fn left_out(path: &Path, folder: &Path) -> Vec<String> {
    let mut sentences = Vec::new();
    if folder != path.join(KERNEL) {
        return sentences;
    }
    let shown = path.display();
    if !below(&path.join(PROGRAMS)).is_empty() {
        sentences.push(format!(
            "{shown}/{PROGRAMS} is left out: noised reads the events of the kernel, in {shown}/{KERNEL}; `babeltrace2 \
             {shown}` shows those of programs beside them"
        ));
    }
    let chunks = chunks(below(&path.join(CHUNKS)));
    if !chunks.is_empty() {
        sentences.push(format!(
            "{shown}/{CHUNKS} is left out: chunks of this session that LTTng rotated out; each is a recording of its \
             own, named by its folder: {}",
            names(&chunks)
        ));
    }
    sentences
}

/// Refuses a folder that is no recording: says which ones below it are, or what it lacks.
pub fn refuse(path: &Path) -> anyhow::Result<()> {
    ensure_open(path)?;
    let shown = path.display();
    let found = chunks(below(path));
    let is_chunk = |found: &PathBuf| {
        found.parent().and_then(Path::file_name).is_some_and(|name| name == CHUNKS)
    };
    if found.is_empty() {
        ensure_whole(path)?;
        bail!(
            "{shown} is no recording: neither it nor its folder `{KERNEL}` has a file `{METADATA}`; name the \
             folder that `noised record`, `lttng` or `perf data convert --to-ctf` wrote, or a text of ftrace"
        );
    }
    if found.iter().all(|folder| is_of_programs(folder)) {
        bail!(
            "{shown} has only events of programs (LTTng's user space), and noised reads those of the kernel: record \
             these as well (`lttng enable-event --kernel`), or print what there is with `babeltrace2 {shown}`"
        );
    }
    if found.iter().all(is_chunk) {
        bail!(
            "{shown} is a session that LTTng rotated: each of its chunks is a recording of its own; name one of \
             them: {}",
            names(&found)
        );
    }
    bail!("{shown} is no recording, but has some below it; name one of them: {}", names(&found))
}

/// Whether LTTng writes events of programs into this folder: `ust/uid/1000/64-bit`, `ust/pid/NAME-1-TIME`.
fn is_of_programs(folder: &Path) -> bool {
    let names: Vec<_> = folder.iter().filter_map(OsStr::to_str).collect();
    names.windows(2).any(|pair| matches!(pair, [PROGRAMS, "uid" | "pid"]))
}

/// Refuses a folder with files of a recording in CTF that lacks what says how it is laid out, or with our tables.
fn ensure_whole(path: &Path) -> anyhow::Result<()> {
    for place in [path.to_path_buf(), path.join(KERNEL)] {
        let Ok(entries) = fs::read_dir(&place) else { continue };
        let mut files: Vec<_> = entries.flatten().take(MAX_FOLDERS).map(|it| it.path()).collect();
        files.sort();
        for file in files {
            let (first, shown) = (first_of(&file), place.display());
            if is_stream(&first) {
                bail!(
                    "{shown} has no file `{METADATA}`, without which its other files cannot be read: if the session \
                     still runs, end it (`lttng stop`, `lttng destroy`), otherwise copy `{METADATA}` from where it \
                     was recorded"
                );
            }
            if is_table(&first) {
                bail!(
                    "{shown} has tables that `noised trace export --csv` wrote, which noised does not read; name the \
                     recording that they were made of"
                );
            }
            if file.file_stem().is_some_and(|stem| stem == METADATA)
                && let Some(sentence) = recognised(&file, &first)
            {
                bail!(sentence);
            }
        }
    }
    Ok(())
}

/// Refuses a folder of which this user may not even see what it has.
fn ensure_open(path: &Path) -> anyhow::Result<()> {
    for folder in [path.to_path_buf(), path.join(KERNEL)] {
        if let Err(error) = fs::metadata(folder.join(METADATA))
            && error.kind() == ErrorKind::PermissionDenied
        {
            bail!(
                "cannot read the recording {}: {error}; read it as the user who made it, or have that user give \
                 you access (chmod -R go+rX)",
                path.display()
            );
        }
    }
    Ok(())
}

/// Folders with metadata in or below this one, sorted. Links are not followed.
fn below(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![(path.to_path_buf(), 0)];
    let mut seen = 0;
    while let Some((folder, depth)) = left.pop() {
        seen += 1;
        if seen > MAX_FOLDERS {
            break;
        }
        if folder.join(METADATA).is_file() {
            found.push(folder);
            continue;
        }
        // What cannot be read has none that could be named.
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        let folders = entries
            .flatten()
            .filter(|entry| depth < MAX_DEPTH && entry.file_type().is_ok_and(|kind| kind.is_dir()));
        left.extend(folders.take(MAX_FOLDERS).map(|entry| (entry.path(), depth + 1)));
    }
    found.sort();
    found
}

/// What people name: a folder above `kernel`, which has what is beside it, too, instead of that.
fn chunks(found: Vec<PathBuf>) -> Vec<PathBuf> {
    let above = |folder: &PathBuf| match folder.file_name() {
        Some(name) if name == KERNEL => folder.parent().map(Path::to_path_buf),
        _ => None,
    };
    let sessions: Vec<PathBuf> = found.iter().filter_map(above).collect();
    let is_beside = |folder: &PathBuf| sessions.iter().any(|session| folder.starts_with(session));
    let others = found.iter().filter(|folder| !is_beside(folder)).cloned();
    let mut named: Vec<PathBuf> = sessions.iter().cloned().chain(others).collect();
    named.sort();
    named
}

/// The first of them, and how many more there are.
fn names(found: &[PathBuf]) -> String {
    let shown: Vec<String> =
        found.iter().take(MAX_NAMES).map(|path| path.display().to_string()).collect();
    match found.len().saturating_sub(MAX_NAMES) {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(folders: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for folder in folders {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(METADATA), "").unwrap();
        }
        root
    }

    fn refused(path: &Path) -> String {
        refuse(path).unwrap_err().to_string()
    }

    #[test]
    fn chunks_of_a_session_are_named() {
        let root =
            made(&["archives/one/kernel", "archives/one/ust/uid/0/64-bit", "archives/two/kernel"]);
        for path in [root.path().to_path_buf(), root.path().join("archives")] {
            let sentence = refused(&path);
            let named = format!("{0}/archives/one, {0}/archives/two", root.path().display());
            assert!(sentence.contains("LTTng rotated") && sentence.ends_with(&named), "{sentence}");
        }
    }

    #[test]
    fn chunks_are_known_by_their_names() {
        let root = made(&[
            "archives/20260101T000000+0000-20260101T000010+0000-1/kernel",
            "session/kernel",
            "session/archives/20251231T190010-0500-20251231T190020-0500-2/kernel",
            "copied/20251231T190010-0500-20251231T190020-0500-2/kernel",
            "snapshots/snapshot-1-20260101-000000-0/kernel",
            "other/kernel",
        ]);
        let chunks = below(root.path()).into_iter().filter(|folder| is_chunk(folder)).count();
        assert_eq!(chunks, 4);
        assert!(!is_chunk(&root.path().join("snapshots/snapshot-1-20260101-000000-0/kernel")));
        assert!(!is_chunk(&root.path().join("other/kernel")));
    }

    #[test]
    fn recordings_below_a_folder_are_named() {
        let root = made(&["one", "deep/two/kernel", "ust/uid/1000/64-bit"]);
        let sentence = refused(root.path());
        let all = ["deep/two", "one", "ust/uid/1000/64-bit"];
        let named = all.map(|name| root.path().join(name).display().to_string()).join(", ");
        assert!(sentence.ends_with(&format!("name one of them: {named}")), "{sentence}");
        let many: Vec<String> = (0..30).map(|number| format!("n{number}")).collect();
        let root = made(&many.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(refused(root.path()).ends_with("and 10 more"));
    }

    #[test]
    fn what_lies_beside_is_said() {
        let root = made(&["kernel", "ust/uid/1000/64-bit", "archives/one/kernel"]);
        let path = root.path();
        let kernel = folder(path).unwrap();
        let [ust, archives] = left_out(path, &kernel).try_into().unwrap();
        assert!(ust.contains("/ust is left out") && ust.contains("babeltrace2"), "{ust}");
        assert!(archives.ends_with("archives/one"), "{archives}");
        assert!(left_out(&kernel, &kernel).is_empty());
        assert!(left_out(made(&["kernel"]).path(), &kernel).is_empty());
    }

    #[test]
    fn a_folder_with_events_of_programs_alone_is_no_recording() {
        let root = made(&["ust/uid/1000/64-bit", "archives/one/ust/pid/cook-7-20260101-000000"]);
        for path in [root.path().to_path_buf(), root.path().join("ust")] {
            let sentence = refused(&path);
            let begin = format!("{} has only events of programs", path.display());
            assert!(sentence.starts_with(&begin), "{sentence}");
            assert!(sentence.contains("lttng enable-event --kernel"), "{sentence}");
        }
        let root = made(&["ust/uid/1000/64-bit", "other/ust"]);
        assert!(refused(root.path()).contains("name one of them"));
    }

    #[test]
    fn files_without_their_metadata_are_named() {
        const STREAM: &[u8] = &[0xc1, 0x1f, 0xfc, 0xc1];
        for name in [None, Some(KERNEL)] {
            let root = tempfile::tempdir().unwrap();
            let place = name.map_or(root.path().to_path_buf(), |name| root.path().join(name));
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("channel0_0"), STREAM).unwrap();
            let sentence = refused(root.path());
            let begin = format!("{} has no file `metadata`", place.display());
            assert!(sentence.starts_with(&begin), "{sentence}");
            assert!(sentence.contains("`lttng stop`"), "{sentence}");
            fs::remove_file(place.join("channel0_0")).unwrap();
            fs::write(place.join("metadata.gz"), b"\x1f\x8b").unwrap();
            assert!(refused(root.path()).contains("gunzip -k"));
        }
    }

    #[test]
    fn a_folder_with_tables_is_named() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("charges.csv"), "delay,tid,list,cause\n").unwrap();
        assert!(refused(root.path()).contains("`noised trace export --csv`"));
        fs::write(root.path().join("charges.csv"), "a,b\n").unwrap();
        assert!(refused(root.path()).contains("neither it nor its folder"));
    }
}
