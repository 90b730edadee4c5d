//! Where results go.

use std::io::{ErrorKind, Write as _};
use std::path::Path;

use anyhow::Context as _;

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
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write the result")
        }
        _ => Ok(()),
    }
}
