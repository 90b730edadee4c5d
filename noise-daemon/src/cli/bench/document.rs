//! Reports that are read, and documents that are written.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;

use super::BenchError;
use crate::measure::DetourReport;

/// Reads what `noised bench detour --json` wrote.
///
/// # Errors
/// Where there is no such file, or it is something else.
pub fn read(path: &Path) -> anyhow::Result<DetourReport> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| {
        format!("cannot read {name}; `noised bench detour --json > {name}` writes such a report")
    })?;
    DetourReport::parse(&text).with_context(|| format!("cannot use {name}"))
}

/// As JSON, with a line's end.
///
/// # Errors
/// Where it cannot be serialised.
pub fn json(document: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(document)? + "\n")
}

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

/// Writes to standard output; a reader that went away has seen enough.
pub fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::sample;

    #[test]
    fn reports_are_read_or_it_is_said_why_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        let error = |path: &Path| format!("{:#}", read(path).unwrap_err());
        assert!(error(&path).contains("bench detour --json >"));
        std::fs::write(&path, "{}").unwrap();
        let text = error(&path);
        assert!(text.contains("report.json: this is no report of detours"), "{text}");
        let report = sample::report(1, 1_000_000, &[], 1);
        std::fs::write(&path, json(&report).unwrap()).unwrap();
        assert_eq!(read(&path).unwrap(), report);
    }
}
