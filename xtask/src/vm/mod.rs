//! `cargo xtask vm`: scenarios on Debian's kernels, in QEMU.
//!
//! The packages are downloaded and unpacked, never installed; the guest is a kernel, busybox, noised
//! with its libraries, and a script. All of it lies below `target/vm`. The processor is emulated:
//! what a scenario may judge are names, counts and order, never times.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::cargo::{Workspace, named};
use crate::setup;

mod boot;
mod debian;
mod elf;
mod initramfs;

/// What runs in the guest.
#[derive(clap::Args)]
pub struct Arguments {
    /// A kernel: 6.1, 6.12, each also with -rt or -cloud; may be given more than once [default: those
    /// of the scenario]
    #[arg(long, value_name = "NAME")]
    kernel: Vec<String>,
    /// A scenario of this task
    #[arg(long, value_name = "NAME", default_value = "osnoise", conflicts_with = "script")]
    scenario: String,
    /// A shell script instead; /noised is the daemon
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
}

/// A script with the kernels that it is made for.
struct Scenario {
    name: &'static str,
    kernels: &'static [&'static str],
    script: &'static str,
}

const SCENARIOS: &[Scenario] = &[Scenario {
    name: "osnoise",
    kernels: &["6.1-rt", "6.12-rt"],
    script: include_str!("scenarios/osnoise.sh"),
}];

/// Boots every kernel in turn; fails if the script fails on one of them.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode> {
    let (script, made_for) = chosen(arguments)?;
    let kernels = match arguments.kernel.as_slice() {
        [] => made_for.iter().map(|name| (*name).to_owned()).collect(),
        asked => asked.to_vec(),
    };
    if kernels.is_empty() {
        bail!("a script of your own runs on the kernels that --kernel names, and there is none");
    }
    let folder = workspace.target.join("vm");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    setup::ensure(workspace)?;
    // Not optimised: times mean nothing there.
    let built = workspace.build(&["build", "--package", "noise-daemon"])?;
    let initramfs = initramfs::build(&folder, &named(built, "noised")?, &script)?;
    let mut failed = Vec::new();
    for name in &kernels {
        if let Err(error) = scenario_on(name, &folder, &initramfs) {
            eprintln!("vm: {name}: {error:#}");
            failed.push(name.as_str());
        }
    }
    println!("\nvm: {} of {} kernels passed", kernels.len() - failed.len(), kernels.len());
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn chosen(arguments: &Arguments) -> Result<(String, &'static [&'static str])> {
    if let Some(file) = &arguments.script {
        let script = fs::read_to_string(file)
            .with_context(|| format!("cannot read the script {}", file.display()))?;
        return Ok((script, &[]));
    }
    let name = arguments.scenario.as_str();
    match SCENARIOS.iter().find(|scenario| scenario.name == name) {
        Some(scenario) => Ok((scenario.script.to_owned(), scenario.kernels)),
        None => {
            let known: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
            bail!("there is no scenario {name}; there are: {}", known.join(", "))
        }
    }
}

fn scenario_on(name: &str, folder: &Path, initramfs: &Path) -> Result<()> {
    let package = debian::newest(name)?;
    println!("\nvm: {name} is {package}");
    let kernel = debian::kernel(folder, &package)?;
    let console = folder.join(format!("console.{name}"));
    boot::boot(&kernel, initramfs, &console)
}
