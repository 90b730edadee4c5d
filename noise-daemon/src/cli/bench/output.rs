//! Where the results of benches go.

use std::io::{ErrorKind, Write as _};
use std::path::Path;

use anyhow::Context as _;

use super::BenchError;

/// Whether a file can be written there: what cannot is better known before than behind the
/// measurement.
///
/// # Errors
/// Where its folder is missing.
pub fn check(path: &Path) -> Result<(), BenchError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.is_some_and(|folder| !folder.is_dir()) {
        true => Err(BenchError::Usage(format!("cannot write {}: no such folder", path.display()))),
        false => Ok(()),
    }
}

/// Writes a file.
///
/// # Errors
/// As the system has it.
pub fn save(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Prints a result. A reader that has seen enough is no failure.
///
/// # Errors
/// Where standard output cannot take it.
pub fn print(text: &str) -> Result<(), BenchError> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(anyhow::Error::from(error).context("cannot write the result").into())
        }
        _ => Ok(()),
    }
}
