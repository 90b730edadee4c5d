//! Which release is packed: its version, where it came from, and the one time that counts.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{binary, output_of};
use crate::cargo::Workspace;

/// A release.
pub struct Release {
    /// Version, as the program says it.
    pub version: String,
    /// The commit that it is built from.
    pub revision: String,
    /// Seconds since 1970: the time of every file, and of the release.
    pub epoch: u64,
}

impl Release {
    /// The one that `program` belongs to.
    pub fn of(workspace: &Workspace, program: &Path) -> Result<Self> {
        let said = output_of(Command::new(program).arg("--version"))?;
        let said = String::from_utf8_lossy(&said);
        let version =
            said.split_whitespace().nth(1).context("`noised --version` prints no version")?;
        Ok(Self {
            version: version.to_owned(),
            revision: binary::revision(&workspace.root)?,
            epoch: epoch(&workspace.root)?,
        })
    }

    /// Puts what is known of the release in the places of its names.
    pub fn fill(&self, template: &str) -> Result<String> {
        Ok(template
            .replace("@VERSION@", &self.version)
            .replace("@REVISION@", &self.revision)
            .replace("@ARCHITECTURE@", architecture())
            .replace("@DATE@", &self.date("+%a, %d %b %Y %H:%M:%S +0000")?)
            .replace("@RPM_DATE@", &self.date("+%a %b %d %Y")?))
    }

    fn date(&self, format: &str) -> Result<String> {
        let mut command = Command::new("date");
        command.args(["--utc", "--date", &format!("@{}", self.epoch), format]).env("LC_ALL", "C");
        Ok(String::from_utf8_lossy(&output_of(&mut command)?).trim().to_owned())
    }
}

/// As Debian names the architecture.
pub fn architecture() -> &'static str {
    match env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// SOURCE_DATE_EPOCH, or the time of the commit.
fn epoch(root: &Path) -> Result<u64> {
    let text = match env::var("SOURCE_DATE_EPOCH") {
        Ok(given) => given,
        Err(_) => {
            let mut command = Command::new("git");
            command.arg("-C").arg(root).args(["log", "-1", "--format=%ct"]);
            let output =
                output_of(&mut command).context("set SOURCE_DATE_EPOCH where this is no clone")?;
            String::from_utf8_lossy(&output).into_owned()
        }
    };
    text.trim().parse().with_context(|| format!("{:?} is no time in seconds", text.trim()))
}
