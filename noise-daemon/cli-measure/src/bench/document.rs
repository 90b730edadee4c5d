//! Reports that are read, and documents that are written.

use std::path::Path;

use anyhow::Context as _;
use noise_measure::DetourReport;
use noise_system::files::read_input;

/// Longer than any report that `noised bench detour` writes: with as many detours as it keeps.
const MAX_REPORT_BYTES: u64 = 1 << 30;

/// Reads what `noised bench detour --json` wrote: a file, or what another command unpacks into a pipe.
/// Errors: where there is no such file, or it is something else.
pub fn read(path: &Path) -> anyhow::Result<DetourReport> {
    let name = path.display();
    let text = read_input(path, MAX_REPORT_BYTES).with_context(|| {
        format!("cannot read {name}; `noised bench detour --json > {name}` writes such a report")
    })?;
    DetourReport::parse(&text).with_context(|| format!("cannot use {name}"))
}

/// As JSON, with a line's end.
/// Errors: where it cannot be serialised.
pub fn json(document: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(document)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use noise_measure::sample;

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
