//! Loads that read files which are not in the page cache any more.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Result, anyhow, ensure};

use super::{Arguments, Session, report};

const PIECE_BYTES: usize = 128 << 10;

/// Opens a file of which the page cache has nothing left.
///
/// For the file alone: dropping all caches of a host would disturb everything else on it.
pub(crate) fn open_dropped(path: &Path) -> Result<File> {
    let file = File::open(path)?;
    // SAFETY: no memory argument.
    let result = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    ensure!(result == 0, "posix_fadvise: {}", io::Error::from_raw_os_error(result));
    // A disk that reads far ahead would have few requests, and these for the memory's sake.
    // SAFETY: no memory argument.
    let result = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
    ensure!(result == 0, "posix_fadvise: {}", io::Error::from_raw_os_error(result));
    Ok(file)
}

/// Reads a file to its end or the session's, and hands on each piece; returns the bytes read.
fn read_through(path: &Path, session: &Session, mut each: impl FnMut(&[u8])) -> Result<u64> {
    let mut file = open_dropped(path)?;
    let mut piece = vec![0_u8; PIECE_BYTES];
    let mut bytes = 0;
    while session.going() {
        let count = file.read(&mut piece)?;
        if count == 0 {
            break;
        }
        each(piece.get(..count).unwrap_or_default());
        bytes += count as u64;
    }
    Ok(bytes)
}

fn files_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            files.append(&mut files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// `file-readers <directory>`: one thread for each file, which reads it from its start again and again.
pub(super) fn file_readers(arguments: &mut Arguments) -> Result<()> {
    let files = files_below(Path::new(&arguments.text()?))?;
    let session = Session::begin()?;
    let readers: Vec<_> = files
        .into_iter()
        .map(|path| {
            let session = session.clone();
            thread::spawn(move || -> Result<u64> {
                let mut bytes = 0;
                while session.going() {
                    bytes += read_through(&path, &session, |_| {})?;
                }
                Ok(bytes)
            })
        })
        .collect();
    let mut bytes = 0;
    for reader in readers {
        bytes += reader.join().map_err(|_| anyhow!("a reader panicked"))??;
    }
    report(&format!("bytes {bytes}"))
}

/// Whether a text has a word. The library's search: what a build without optimisation makes of our own
/// would leave the disk idle.
fn has(text: &[u8], word: &[u8]) -> bool {
    // SAFETY: both pointers go with their lengths.
    let found =
        unsafe { libc::memmem(text.as_ptr().cast(), text.len(), word.as_ptr().cast(), word.len()) };
    !found.is_null()
}

/// `grep <directory> <word>`: looks for a word in every file below, again and again.
pub(super) fn grep(arguments: &mut Arguments) -> Result<()> {
    let directory = PathBuf::from(arguments.text()?);
    let word = arguments.text()?.into_bytes();
    let session = Session::begin()?;
    let (mut bytes, mut found) = (0, 0_u64);
    while session.going() {
        for path in files_below(&directory)? {
            bytes += read_through(&path, &session, |piece| found += u64::from(has(piece, &word)))?;
        }
    }
    report(&format!("bytes {bytes}"))?;
    report(&format!("found {found}"))
}
