//! What the tasks use cargo for: where the workspace is, and builds whose outputs they use.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

/// Names the daemon to try, here and for the programs of `noise-tests`.
pub const DAEMON: &str = "NOISED_BIN";

/// The workspace that the caller stands in.
pub struct Workspace {
    /// Folder of the workspace's manifest.
    pub root: PathBuf,
    /// Where cargo puts its output; `CARGO_TARGET_DIR` and cargo's configuration are honoured.
    pub target: PathBuf,
}

/// A program that cargo built.
#[derive(Debug, PartialEq, Eq)]
pub struct Executable {
    /// Name of the target in its manifest.
    pub name: String,
    /// Folder of the manifest of the package that it belongs to.
    pub package: PathBuf,
    /// The file to start.
    pub path: PathBuf,
    /// The source file of the target.
    pub source: PathBuf,
    /// Whether it is a test program.
    pub tests: bool,
}

impl Workspace {
    /// Asks cargo for the workspace around the current folder.
    pub fn find() -> Result<Self> {
        let output = Command::new(program())
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start cargo")?;
        if !output.status.success() {
            bail!("cargo finds no workspace here; run this task inside the noised repository");
        }
        let metadata: Value =
            serde_json::from_slice(&output.stdout).context("cargo metadata is not JSON")?;
        let folder = |key: &str| {
            metadata[key]
                .as_str()
                .map(PathBuf::from)
                .with_context(|| format!("no {key} in cargo metadata"))
        };
        Ok(Self { root: folder("workspace_root")?, target: folder("target_directory")? })
    }

    /// Folder of the tools that `setup` installs.
    pub fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// A cargo command whose builds find the tools of `setup`.
    ///
    /// The build script looks below the workspace by itself. Naming that folder as well would make
    /// it run anew whenever this and a plain `cargo build` take turns.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(program());
        for (name, _) in env::vars_os().filter(|(name, _)| is_of_this_task(name)) {
            command.env_remove(name);
        }
        if self.target != self.root.join("target") {
            command.env("NOISED_BPF_LINKER_DIR", self.tools().join("bin"));
        }
        command
    }

    /// Runs `cargo <arguments>` and returns the programs that it built. Diagnostics go to the
    /// terminal as usual.
    pub fn build(&self, arguments: &[&str]) -> Result<Vec<Executable>> {
        self.build_with(arguments, &[])
    }

    /// As [`Self::build`], with these environment variables.
    pub fn build_with(
        &self,
        arguments: &[&str],
        environment: &[(&str, String)],
    ) -> Result<Vec<Executable>> {
        let output = self
            .cargo()
            .args(arguments)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .arg("--message-format=json-render-diagnostics")
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start cargo")?;
        if !output.status.success() {
            bail!("`cargo {}` failed", arguments.join(" "));
        }
        Ok(executables(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Builds the optimised `noised` and returns where it is.
    pub fn noised(&self) -> Result<PathBuf> {
        let built = self.build(&["build", "--release", "--package", "noise-daemon"])?;
        named(built, "noised")
    }

    /// The `noised` that tests and loads are started against: the one that [`DAEMON`] names, else as
    /// [`Self::noised`].
    pub fn noised_to_try(&self) -> Result<PathBuf> {
        let Some(given) = env::var_os(DAEMON) else { return self.noised() };
        let given = PathBuf::from(given);
        fs::canonicalize(&given)
            .with_context(|| format!("{DAEMON} names {}, which is not there", given.display()))
    }
}

/// The program of that name among those built.
pub fn named(built: Vec<Executable>, name: &str) -> Result<PathBuf> {
    built
        .into_iter()
        .find(|executable| executable.name == name)
        .map(|executable| executable.path)
        .ok_or_else(|| anyhow!("cargo built no program named {name}"))
}

/// The cargo that started this task, so that both use the same toolchain.
pub fn program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Whether a variable of the environment describes this task's package: `cargo run` sets these. Some build scripts run anew
/// when they change, so whenever this and a plain cargo take turns.
fn is_of_this_task(variable: &OsStr) -> bool {
    let name = variable.to_string_lossy();
    ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|begin| name.starts_with(begin))
}

/// First file of that name on `PATH`.
pub fn on_path(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name.as_ref())).find(|file| file.is_file())
}

/// Programs announced in cargo's JSON messages; other lines are passed over.
fn executables(messages: &str) -> Vec<Executable> {
    messages
        .lines()
        .filter_map(|line| {
            let message: Value = serde_json::from_str(line).ok()?;
            let path = PathBuf::from(message["executable"].as_str()?);
            let package = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
            let name = message["target"]["name"].as_str()?.to_owned();
            let source = PathBuf::from(message["target"]["src_path"].as_str()?);
            let tests = message["profile"]["test"].as_bool()?;
            Some(Executable { name, package, path, source, tests })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Executable, Workspace, executables};

    #[test]
    fn a_build_is_not_given_what_cargo_says_of_this_task() {
        // `cargo test` and the task that runs this program set it.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        let command = Workspace { root: "/w".into(), target: "/w/target".into() }.cargo();
        let removed = command.get_envs().filter(|(_, value)| value.is_none());
        let names: Vec<_> = removed.map(|(name, _)| name.to_string_lossy()).collect();
        assert!(names.iter().any(|name| name == "CARGO_MANIFEST_DIR"), "{names:?}");
        assert!(!names.iter().any(|name| name == "CARGO_HOME" || name == "CARGO"), "{names:?}");
    }

    #[test]
    fn only_programs_are_taken_from_the_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","#,
            r#""target":{"name":"a"},"profile":{"test":false},"executable":null}"#,
            "\nnot a message\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/w/b/Cargo.toml","#,
            r#""target":{"name":"live","src_path":"/w/b/live.rs"},"profile":{"test":true},"#,
            r#""executable":"/w/target/debug/deps/live-1"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        let expected = Executable {
            name: "live".to_owned(),
            package: "/w/b".into(),
            path: "/w/target/debug/deps/live-1".into(),
            source: "/w/b/live.rs".into(),
            tests: true,
        };
        assert_eq!(executables(messages), [expected]);
    }
}
