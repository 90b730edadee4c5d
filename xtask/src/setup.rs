//! `cargo xtask setup`: what the build needs beyond cargo itself.
//!
//! - `rust-src`, because the kernel side is compiled with its own `core` for the BPF target, and
//!   `rustfmt` and `clippy` for the checks.
//! - `bpf-linker`, built against the very LLVM library that this toolchain's rustc carries: no LLVM
//!   of the system is needed, and the linker reads exactly the bitcode that this rustc writes.
//!
//! Each part is looked at first and done only when missing or broken, so running it again costs
//! three short commands.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::cargo::{Workspace, on_path};
use crate::needed;

/// The linker's release, and the LLVM that the pinned toolchain carries.
const LINKER_VERSION: &str = "0.13.0";
const LLVM_MAJOR: &str = "22";

/// Components of the toolchain, each with a file below the sysroot that shows it is there.
const COMPONENTS: [(&str, &str); 3] = [
    ("rust-src", "lib/rustlib/src/rust/library/core/src/lib.rs"),
    ("rustfmt", "bin/rustfmt"),
    ("clippy", "bin/cargo-clippy"),
];

/// What is brought in place.
#[derive(clap::Args)]
pub struct Arguments {
    /// Install what tests use as well: as root on Debian, the packages that tests/needed.txt names
    #[arg(long)]
    tests: bool,
}

/// Brings everything in place and says so.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode> {
    ensure(workspace)?;
    if arguments.tests {
        needed::ensure(true);
    }
    println!(
        "setup: ready, bpf-linker {LINKER_VERSION} is in {}",
        workspace.tools().join("bin").display()
    );
    Ok(ExitCode::SUCCESS)
}

/// Brings everything in place; silent when there is nothing to do.
pub fn ensure(workspace: &Workspace) -> Result<()> {
    let sysroot = sysroot()?;
    add_components(&sysroot)?;
    let linker = workspace.tools().join("bin/bpf-linker");
    match installed(&linker) {
        Installed::Wanted => return Ok(()),
        Installed::Other(found) => {
            eprintln!("setup: replacing {found}, which this build cannot use")
        }
        Installed::Broken(why) => {
            eprintln!("setup: the installed bpf-linker does not start ({why})")
        }
        Installed::Absent => {}
    }
    install_linker(workspace, &sysroot)?;
    match installed(&linker) {
        Installed::Wanted => Ok(()),
        Installed::Other(found) => {
            bail!("installed bpf-linker {LINKER_VERSION}, but it calls itself {found}")
        }
        Installed::Broken(why) => bail!("bpf-linker was installed but does not start: {why}"),
        Installed::Absent => {
            bail!("cargo installed bpf-linker, but {} is missing", linker.display())
        }
    }
}

/// What stands in the place of the linker.
#[derive(Debug, PartialEq, Eq)]
enum Installed {
    Wanted,
    /// A working one of another version; what it calls itself.
    Other(String),
    /// One that does not start, for example because its toolchain has moved.
    Broken(String),
    Absent,
}

fn installed(linker: &Path) -> Installed {
    // Without the loader path that rustup or cargo set for this process: the linker must find its
    // LLVM by itself whoever starts it.
    match Command::new(linker).arg("--version").env_remove("LD_LIBRARY_PATH").output() {
        Err(error) if error.kind() == ErrorKind::NotFound => Installed::Absent,
        Err(error) => Installed::Broken(error.to_string()),
        Ok(output) if output.status.success() => {
            version_answer(String::from_utf8_lossy(&output.stdout).trim())
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Installed::Broken(said.lines().next().unwrap_or("it says nothing").trim().to_owned())
        }
    }
}

fn version_answer(answer: &str) -> Installed {
    match answer.split_whitespace().nth(1) {
        Some(LINKER_VERSION) => Installed::Wanted,
        _ => Installed::Other(answer.to_owned()),
    }
}

/// Root folder of the toolchain in use.
pub fn sysroot() -> Result<PathBuf> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--print", "sysroot"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start rustc")?;
    let path = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || path.trim().is_empty() {
        bail!("rustc does not say where its toolchain is");
    }
    Ok(PathBuf::from(path.trim()))
}

fn add_components(sysroot: &Path) -> Result<()> {
    let missing: Vec<&str> = COMPONENTS
        .iter()
        .filter(|(_, proof)| !sysroot.join(proof).exists())
        .map(|(component, _)| *component)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if on_path("rustup").is_none() {
        bail!(
            "this Rust toolchain lacks {list} and there is no rustup to add it; install rustup from https://rustup.rs"
        );
    }
    eprintln!("setup: adding {list} to the Rust toolchain (a small download)");
    let status = Command::new("rustup")
        .args(["component", "add"])
        .args(&missing)
        .status()
        .context("cannot start rustup")?;
    if !status.success() {
        bail!(
            "`rustup component add {list}` failed, and noised cannot be built and checked without it"
        );
    }
    Ok(())
}

/// Adds the standard library of another target to the toolchain, if it is missing.
pub fn add_target(target: &str) -> Result<()> {
    if sysroot()?.join("lib/rustlib").join(target).join("lib").exists() {
        return Ok(());
    }
    if on_path("rustup").is_none() {
        bail!(
            "this Rust toolchain cannot build for {target} and there is no rustup to add that; install rustup from https://rustup.rs"
        );
    }
    eprintln!("setup: adding {target} to the Rust toolchain (a small download)");
    let status = Command::new("rustup")
        .args(["target", "add", target])
        .status()
        .context("cannot start rustup")?;
    if !status.success() {
        bail!("`rustup target add {target}` failed");
    }
    Ok(())
}

fn install_linker(workspace: &Workspace, sysroot: &Path) -> Result<()> {
    if on_path("cc").is_none() {
        bail!(
            "building bpf-linker needs a C compiler and there is no `cc`; install one (Debian: apt-get install gcc libc6-dev)"
        );
    }
    let libraries = sysroot.join("lib");
    let library = llvm_library(&libraries)?;
    let tools = workspace.tools();
    let llvm = tools.join("llvm");
    link(&library, &llvm.join("lib"), "libLLVM.so")?;

    eprintln!(
        "setup: building bpf-linker {LINKER_VERSION}, which links noised's kernel side; \
         once per target folder, one or two minutes"
    );
    let build = tools.join("build");
    let status = workspace
        .cargo()
        .args(["install", "bpf-linker", "--version", LINKER_VERSION, "--locked", "--force"])
        .args(["--no-default-features", "--features", &format!("llvm-{LLVM_MAJOR}")])
        .arg("--root")
        .arg(&tools)
        .arg("--target-dir")
        .arg(&build)
        .env("LLVM_PREFIX", &llvm)
        // Encoded, so that a folder with a space in its name stays one flag.
        .env("CARGO_ENCODED_RUSTFLAGS", format!("-Clink-arg=-Wl,-rpath,{}", libraries.display()))
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!(
            "building bpf-linker failed; its output above says why, and `cargo xtask setup` continues where it stopped"
        );
    }
    fs::remove_dir_all(&build).with_context(|| format!("cannot remove {}", build.display()))
}

/// The toolchain's own LLVM.
fn llvm_library(libraries: &Path) -> Result<PathBuf> {
    let prefix = format!("libLLVM.so.{LLVM_MAJOR}");
    let entries =
        fs::read_dir(libraries).with_context(|| format!("cannot read {}", libraries.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", libraries.display()))?;
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            return Ok(entry.path());
        }
    }
    bail!(
        "the toolchain in use carries no LLVM {LLVM_MAJOR} library ({prefix}*) in {}; use the one that rust-toolchain.toml pins, installed by rustup",
        libraries.display()
    )
}

/// Makes `folder/name` a symbolic link to `original`, whatever it was before.
fn link(original: &Path, folder: &Path, name: &str) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let place = folder.join(name);
    match fs::remove_file(&place) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot replace {}", place.display()));
        }
        _ => {}
    }
    symlink(original, &place).with_context(|| format!("cannot create {}", place.display()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Installed, installed, version_answer};

    #[test]
    fn only_the_pinned_version_is_accepted() {
        assert_eq!(version_answer("bpf-linker 0.13.0"), Installed::Wanted);
        assert_eq!(version_answer("bpf-linker 0.13.0 (abc)"), Installed::Wanted);
        let other = "bpf-linker 0.9.13";
        assert_eq!(version_answer(other), Installed::Other(other.to_owned()));
        assert_eq!(version_answer(""), Installed::Other(String::new()));
    }

    #[test]
    fn a_linker_that_is_missing_or_fails_is_noticed() {
        assert_eq!(installed(Path::new("/nonexistent/bpf-linker")), Installed::Absent);
        assert!(matches!(installed(Path::new("/bin/false")), Installed::Broken(_)));
    }
}
