//! A recording to test with.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

/// A folder with a few events of one CPU.
pub fn small() -> TempDir {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz");
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("kernel");
    fs::create_dir(&inside).unwrap();
    fs::copy(fuzz.join("layout.tsdl"), inside.join("metadata")).unwrap();
    fs::copy(fuzz.join("corpus/packets/one"), inside.join("channel0_1")).unwrap();
    fs::write(inside.join(".hidden"), "x").unwrap();
    folder
}
