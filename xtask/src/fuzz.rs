//! `cargo xtask fuzz`: all parsers of untrusted input, fuzzed by libFuzzer.
//!
//! The targets are programs of `tests/fuzz`, a crate outside the workspace. libFuzzer and its
//! instrumentation need no other toolchain than the pinned one: the flags are set here. Overflows and
//! debug assertions count as faults, so do 10 seconds for one input and a gigabyte of memory. What is
//! found stays below the target folder, as do the inputs that were grown from the seeds in
//! `tests/fuzz/corpus`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::cargo::Workspace;
use crate::setup;

/// Which target, and for how long.
#[derive(clap::Args)]
pub struct Arguments {
    /// The target [default: all, one after the other]
    target: Option<String>,
    /// How long each is run
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

/// What makes the compiler report to libFuzzer where an input went.
const INSTRUMENTATION: &str = "--cfg=fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";
/// With a target named, build scripts and macros are built without the instrumentation.
const HOST: &str = "x86_64-unknown-linux-gnu";
/// Longest input that is made up, unless a seed is longer, bytes.
const LENGTH: u64 = 8192;

/// Builds the targets and runs one or all of them.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode> {
    setup::ensure(workspace)?;
    let folder = workspace.root.join("tests/fuzz");
    let targets = targets(&folder)?;
    let chosen: Vec<&String> = match &arguments.target {
        None => targets.iter().collect(),
        Some(name) => targets.iter().filter(|target| *target == name).collect(),
    };
    if chosen.is_empty() {
        bail!("no such target; there are {}", targets.join(", "));
    }
    let output = workspace.target.join("fuzz");
    let mut build = workspace.cargo();
    build.current_dir(&folder).args(["build", "--bins", "--target", HOST]);
    build.env("CARGO_TARGET_DIR", &output).env("RUSTFLAGS", INSTRUMENTATION);
    build.env("NOISED_BPF_LINKER_DIR", workspace.tools().join("bin"));
    if !build.status().context("cannot start cargo")?.success() {
        bail!("the fuzz targets cannot be built");
    }
    let mut faults = Vec::new();
    for target in chosen {
        let run = Run { target, seeds: folder.join("corpus").join(target), output: &output };
        if !run.fuzz(arguments.seconds)? {
            faults.push(target.as_str());
        }
    }
    if faults.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let kept = output.join("found");
    bail!("faults in {}; the inputs are below {}", faults.join(", "), kept.display())
}

/// The names of the targets, in order.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let programs = folder.join("src/bin");
    let entries =
        fs::read_dir(&programs).with_context(|| format!("cannot read {}", programs.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", programs.display()))?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// One run of one target.
struct Run<'a> {
    target: &'a str,
    seeds: PathBuf,
    output: &'a Path,
}

impl Run<'_> {
    /// Runs it; false where it found a fault.
    fn fuzz(&self, seconds: u32) -> Result<bool> {
        let (grown, found) = (self.folder("grown")?, self.folder("found")?);
        let program = self.output.join(HOST).join("debug").join(self.target);
        let mut command = std::process::Command::new(&program);
        // The slash makes it a folder.
        command.arg(format!("-artifact_prefix={}/", found.display()));
        command.arg(format!("-max_total_time={seconds}"));
        command.arg(format!("-max_len={}", self.longest_seed()?.max(LENGTH)));
        command.args(["-timeout=10", "-rss_limit_mb=1024", "-print_final_stats=1"]);
        command.arg(&grown).arg(&self.seeds);
        eprintln!("     Fuzzing {} for {seconds} s", self.target);
        let status = command.status();
        let status = status.with_context(|| format!("cannot start {}", program.display()))?;
        Ok(status.success())
    }

    fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.output.join(name).join(self.target);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    }

    fn longest_seed(&self) -> Result<u64> {
        let seeds = &self.seeds;
        let entries =
            fs::read_dir(seeds).with_context(|| format!("no seeds in {}", seeds.display()))?;
        let mut longest = 0;
        for entry in entries {
            let size = entry.and_then(|entry| entry.metadata()).context("a seed cannot be read")?;
            longest = longest.max(size.len());
        }
        Ok(longest)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::targets;

    /// A target has a program, seeds and a line in the list.
    #[test]
    fn every_target_is_whole() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz");
        let functions = std::fs::read_to_string(folder.join("src/targets.rs")).unwrap();
        let targets = targets(&folder).unwrap();
        assert_eq!(functions.matches("    (\"").count(), targets.len());
        for target in &targets {
            assert!(functions.contains(&format!("(\"{target}\", {target})")), "{target}");
            let seeds = std::fs::read_dir(folder.join("corpus").join(target)).unwrap();
            assert!(seeds.count() > 0, "{target}");
        }
    }
}
