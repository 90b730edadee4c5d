//! Files that benches write beside their results.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use noise_system::output::OutputPlace;

use noise_command::{CommandError, output};

/// The file of one of several CPUs.
pub fn of_cpu(prefix: &Path, cpu: u32) -> PathBuf {
    let mut path = prefix.as_os_str().to_owned();
    path.push(format!(".{cpu}"));
    path.into()
}

/// Whether a file can be written there: what cannot is better known before than behind the
/// measurement.
/// Errors: where its folder is missing, or what has its name cannot be replaced.
pub fn check(path: &Path) -> Result<(), CommandError> {
    let refuse =
        |what: &str| CommandError::misused(format!("cannot write {}: {what}", path.display()));
    if matches!(output::stream(path), Ok(Some(_))) {
        return Ok(());
    }
    match OutputPlace::find(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(refuse("no such folder")),
        Err(error) => Err(refuse(&error.to_string())),
    }
}
