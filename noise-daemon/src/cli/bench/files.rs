//! Files that benches write beside their results.

use std::path::Path;

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
