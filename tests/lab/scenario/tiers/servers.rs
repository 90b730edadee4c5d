//! nginx and redis from Debian's packages, unpacked into a folder of the scenario: nothing is installed, and no service of
//! the host is touched.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::daemon::run;

/// The packages.
const PACKAGES: [&str; 2] = ["nginx", "redis-server"];

/// The two programs.
#[derive(Clone, Debug)]
pub struct Servers {
    root: PathBuf,
}

/// What a command prints.
fn printed(command: Command) -> Result<String> {
    let what = format!("{command:?}");
    let outcome = run(command)?;
    ensure!(outcome.code == 0, "{what} ends with {}: {}", outcome.code, outcome.stderr.trim());
    Ok(outcome.stdout)
}

impl Servers {
    /// Unpacks them, and what they need and the host has not, into a folder.
    /// Errors: where there is no apt, or no network.
    pub fn unpack(folder: &Path) -> Result<Self> {
        let mut plan = Command::new("apt-get");
        plan.args(["install", "--simulate", "-qq", "--no-install-recommends"]).args(PACKAGES);
        let plan = printed(plan).context("planning what to unpack")?;
        let inst = |line: &str| line.strip_prefix("Inst ")?.split(' ').next().map(str::to_owned);
        let mut wanted: Vec<String> = plan.lines().filter_map(inst).collect();
        wanted.extend(PACKAGES.map(str::to_owned));
        wanted.sort_unstable();
        wanted.dedup();
        let mut download = Command::new("apt-get");
        download.current_dir(folder).args(["download", "-qq"]).args(&wanted);
        printed(download).context("downloading packages")?;
        let root = folder.join("root");
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "deb") {
                let mut unpack = Command::new("dpkg-deb");
                unpack.arg("-x").arg(&path).arg(&root);
                printed(unpack)?;
            }
        }
        Ok(Self { root })
    }

    /// A command of one of them, below the folder that it was unpacked into.
    pub fn command(&self, program: &str) -> Result<Command> {
        let path = self.root.join(program);
        ensure!(path.exists(), "the packages have no {program}");
        let mut command = Command::new(path);
        let libraries =
            self.root.join("usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
        command.env("LD_LIBRARY_PATH", libraries);
        Ok(command)
    }
}
