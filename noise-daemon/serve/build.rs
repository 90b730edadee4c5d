//! Names the revision that the server is built from.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    if let Some(root) = here.ancestors().nth(2) {
        name_revision(root);
    }
}

/// Names the revision that the daemon is built from, for `noised_build_info`: its whole name, because
/// how far git shortens it depends on the clone. Packages also say whether files differ from it; here that
/// would be as old as the last run of this script.
fn name_revision(root: &Path) {
    println!("cargo:rerun-if-env-changed=NOISED_REVISION");
    // A line is added with every commit and every change of branch.
    let log = root.join(".git/logs/HEAD");
    if env::var_os("NOISED_REVISION").is_some() || !log.is_file() {
        return;
    }
    println!("cargo:rerun-if-changed={}", log.display());
    let output = Command::new("git").arg("-C").arg(root).args(["rev-parse", "HEAD"]).output();
    // Without git the revision stays unknown.
    if let Some(output) = output.ok().filter(|output| output.status.success()) {
        let revision = String::from_utf8_lossy(&output.stdout);
        println!("cargo:rustc-env=NOISED_REVISION={}", revision.trim());
    }
}
