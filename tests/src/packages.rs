//! The packages that `cargo xtask package` made.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::needed::{Impossible, missing};

/// What the image is called everywhere: in its archive, the pages and the DaemonSet.
pub const IMAGE: &str = concat!("localhost/noised:", env!("CARGO_PKG_VERSION"));

/// How a daemon in a container is asked whether it works.
pub const HEALTH_COMMAND: [&str; 5] =
    ["/usr/bin/noised", "top", "--once", "--interval=100ms", "--connect=/run/noised/noised.sock"];

/// Where they are: the folder that `NOISED_PACKAGES` names, or the one in the target folder.
fn folder() -> Result<PathBuf> {
    if let Some(folder) = env::var_os("NOISED_PACKAGES") {
        return Ok(folder.into());
    }
    // target/<profile>/deps/<this program>
    let program = env::current_exe()?;
    let target = program.ancestors().nth(3).context("this program lies in no target folder")?;
    Ok(target.join("package"))
}

/// The newest file whose name ends so.
/// Errors: as [`Impossible`] if none is worth a look; another one if the folder is there but cannot be read.
pub fn newest(ending: &str) -> Result<PathBuf> {
    let folder = folder()?;
    let none = || {
        let made = format!("`cargo xtask package` has made no *{ending} in {}", folder.display());
        // Without these it makes none, or not of every kind.
        let tools = missing(&["musl-gcc", "dpkg-deb", "rpmbuild", "buildah"]);
        Impossible(tools.map_or(made.clone(), |tools| format!("{made}: {tools}")))
    };
    ensure!(folder.is_dir(), none());
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().ends_with(ending) {
            found.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    let (_, path) = found.into_iter().max().ok_or_else(none)?;
    let obstacle = match (revision_of(&path), revision_here()) {
        (Some(built), Some(here)) => stale(&built, &here),
        // No revision to compare: it is taken as it is.
        _ => None,
    };
    match obstacle {
        Some(reason) => bail!(Impossible(format!("{} {reason}", path.display()))),
        None => Ok(path),
    }
}

/// Why a package of one revision says nothing about another.
fn stale(built: &str, here: &str) -> Option<String> {
    (built.trim_end_matches("-dirty") != here).then(|| {
        format!(
            "is of revision {built}, but this is {here}: make it anew with `cargo xtask package`"
        )
    })
}

/// The revision that is tested.
fn revision_here() -> Option<String> {
    if let Ok(given) = env::var("NOISED_REVISION") {
        return Some(given);
    }
    let mut git = Command::new("git");
    printed(git.args(["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "HEAD"]))
}

/// The revision that a package says it was built from.
fn revision_of(package: &Path) -> Option<String> {
    const CHANGELOG: &str = "./usr/share/doc/noised/changelog.gz";
    let text = match package.extension()?.to_str()? {
        "deb" => {
            let script = "dpkg-deb --fsys-tarfile \"$1\" | tar -xO \"$2\" | gzip -dc";
            let mut shell = Command::new("sh");
            printed(shell.args(["-c", script, "sh"]).arg(package).arg(CHANGELOG))
        }
        "rpm" => {
            let mut rpm = Command::new("rpm");
            printed(rpm.args(["-qp", "--changelog", "--nosignature"]).arg(package))
        }
        _ => {
            let mut tar = Command::new("tar");
            tar.arg("--file").arg(package);
            printed(tar.args(["--extract", "--to-stdout", "--wildcards", "*.json"]))
        }
    };
    revision_in(&text?)
}

/// As changelogs and labels of images name it.
fn revision_in(text: &str) -> Option<String> {
    let ends = |letter: char| !letter.is_ascii_alphanumeric() && letter != '-';
    let names = ["built from revision ", "org.opencontainers.image.revision\":\""];
    let rest = names.iter().find_map(|name| text.split_once(name))?.1;
    rest.split(ends).next().filter(|found| !found.is_empty()).map(str::to_owned)
}

/// What a command prints, if there is such a command and it succeeds.
fn printed(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_another_revision_are_reported() {
        assert_eq!(stale("abc", "abc"), None);
        assert_eq!(stale("abc-dirty", "abc"), None);
        for old in ["def", "def-dirty", "ab", ""] {
            let reason = stale(old, "abc").unwrap_or_default();
            assert!(reason.contains(old) && reason.contains("cargo xtask package"), "{reason}");
        }
    }

    #[test]
    fn packages_name_the_revision_that_they_are_built_from() {
        let changelog = "  * Package of noised 0.1.0, built from revision 12ab-dirty.\n\n -- x";
        assert_eq!(revision_in(changelog).as_deref(), Some("12ab-dirty"));
        let image = r#"{"a":{"Labels":{"org.opencontainers.image.revision":"12ab","x":"y"}}}"#;
        assert_eq!(revision_in(image).as_deref(), Some("12ab"));
        assert_eq!(revision_in("nothing"), None);
    }
}
