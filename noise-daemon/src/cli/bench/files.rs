//! Files that benches write beside their results.

use std::path::Path;

use crate::cli::CommandError;

/// Whether a file can be written there: what cannot is better known before than behind the
/// measurement.
///
/// # Errors
/// Where its folder is missing.
pub fn check(path: &Path) -> Result<(), CommandError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.is_some_and(|folder| !folder.is_dir()) {
        true => {
            Err(CommandError::misused(format!("cannot write {}: no such folder", path.display())))
        }
        false => Ok(()),
    }
}
