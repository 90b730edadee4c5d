//! The container image, built by buildah from `deploy/container/Containerfile`.
//!
//! Everything that buildah keeps lies below the folder of packages, so that no image of this
//! machine's is touched, and no daemon or root is needed for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::content::NOTICES;
use super::read;
use super::release::{Release, architecture};
use super::run_tool;
use super::stage::{Entry, lay_out};
use crate::cargo::Workspace;

/// Builds it and returns where its archive is.
pub fn build(
    workspace: &Workspace,
    folder: &Path,
    release: &Release,
    entries: &[Entry],
) -> Result<PathBuf> {
    let own = folder.join("container");
    let context = own.join("context");
    let licence = read(&workspace.root.join("LICENSE"))?;
    let mut files: Vec<Entry> = entries.iter().filter(|entry| is_in(entry)).cloned().collect();
    files.push(Entry::new("usr/share/doc/noised/LICENSE", licence));
    lay_out(&context, &files, release.epoch)?;
    let file = folder.join(format!("noised-{}-{}.image.tar", release.version, architecture()));
    // An archive that is there is added to instead of replaced.
    match fs::remove_file(&file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", file.display()));
        }
        _ => {}
    }
    let image = format!("localhost/noised:{}", release.version);
    let label = |name: &str, value: &str| format!("org.opencontainers.image.{name}={value}");
    run_tool(
        buildah(&own)
            .args(["build", "--isolation", "chroot", "--layers=false"])
            .args(["--format", "docker", "--timestamp", &release.epoch.to_string()])
            .args(["--label", &label("version", &release.version)])
            .args(["--label", &label("revision", &release.revision)])
            .args(["--tag", &image, "--file"])
            .arg(workspace.root.join("deploy/container/Containerfile"))
            .arg(&context)
            .stdout(Stdio::null()),
    )?;
    let archive = format!("docker-archive:{}:{image}", file.display());
    run_tool(buildah(&own).args(["push", "--quiet", &image, &archive]).stdout(Stdio::null()))?;
    run_tool(buildah(&own).args(["rmi", "--all", "--force"]).stdout(Stdio::null()))?;
    Ok(file)
}

/// Whether the image has it: the program, and what the licences require.
fn is_in(entry: &Entry) -> bool {
    entry.path == "usr/bin/noised" || entry.path.starts_with(NOTICES)
}

/// A buildah that keeps to a folder.
fn buildah(folder: &Path) -> Command {
    let mut command = Command::new("buildah");
    command.arg("--root").arg(folder.join("storage")).arg("--runroot").arg(folder.join("run"));
    command.args(["--storage-driver", "vfs"]);
    command
}
