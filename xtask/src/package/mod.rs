//! `cargo xtask package`: what is installed elsewhere, below `target/package`.
//!
//! One statically linked program (musl), and from it a Debian package, an RPM package and a container
//! image. What a package consists of is said once (`content.rs`); each format has its own file. The
//! only time in them is SOURCE_DATE_EPOCH, by default the commit's, and no path of this machine gets in;
//! but buildah writes a random host name into the configuration of an image.
//!
//! cargo-deb, cargo-generate-rpm and cargo-about would do two thirds of it, and have to be built first on each new
//! machine: 104, 293 and 76 s on two CPUs (2026-11-29). A whole check of this repository may take 50 minutes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cargo::Workspace;
use crate::lanes;

mod binary;
mod container;
mod content;
mod deb;
mod licences;
mod notices;
mod release;
mod rpm;
mod stage;

pub use binary::revision;
pub use content::documents;

/// What is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A Debian package
    Deb,
    /// An RPM package; needs rpmbuild (Debian: rpm)
    Rpm,
    /// A container image as an archive that docker and podman load; needs buildah
    Container,
}

impl Format {
    const ALL: [Self; 3] = [Self::Deb, Self::Rpm, Self::Container];

    /// The program that makes it.
    fn tool(self) -> &'static str {
        match self {
            Self::Deb => "dpkg-deb",
            Self::Rpm => "rpmbuild",
            Self::Container => "buildah",
        }
    }
}

/// Arguments of the task.
#[derive(clap::Args)]
pub struct Arguments {
    /// Make only these [default: those whose tools are there]
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Format>,
    /// Pack this program instead of building one; nothing is stripped from it
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// A file that was made.
struct Made {
    path: PathBuf,
    took: Duration,
}

/// Makes everything and says how large it is and how long it took.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode> {
    let (formats, left_out) = chosen(&arguments.only)?;
    let folder = workspace.target.join("package");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut made = Vec::new();
    let begin = Instant::now();
    let program = match &arguments.binary {
        Some(given) => binary::take(given, &folder)?,
        None => binary::build(workspace, &folder)?,
    };
    made.push(Made { path: program.clone(), took: begin.elapsed() });
    let release = release::Release::of(workspace, &program)?;
    let entries = content::entries(workspace, &program, &release)?;
    let packed = lanes::each(&formats, |format| {
        let begin = Instant::now();
        let path = match format {
            Format::Deb => deb::build(workspace, &folder, &release, &entries)?,
            Format::Rpm => rpm::build(workspace, &folder, &release, &entries)?,
            Format::Container => container::build(workspace, &folder, &release, &entries)?,
        };
        Ok(Made { path, took: begin.elapsed() })
    });
    made.extend(packed.into_iter().collect::<Result<Vec<_>>>()?);
    for Made { path, took } in &made {
        let bytes = fs::metadata(path).with_context(|| format!("no {}", path.display()))?.len();
        println!("{:>12} bytes  {:>6.1} s  {}", bytes, took.as_secs_f64(), path.display());
    }
    for format in left_out {
        println!("left out: {format:?}, because there is no {}", format.tool());
    }
    Ok(ExitCode::SUCCESS)
}

/// What is made, and what cannot be.
fn chosen(only: &[Format]) -> Result<(Vec<Format>, Vec<Format>)> {
    let there = |format: &Format| crate::cargo::on_path(format.tool()).is_some();
    if only.is_empty() {
        return Ok(Format::ALL.into_iter().partition(there));
    }
    if let Some(format) = only.iter().find(|format| !there(format)) {
        bail!("there is no {}, and without it no {format:?} can be made", format.tool());
    }
    Ok((Format::ALL.into_iter().filter(|format| only.contains(format)).collect(), Vec::new()))
}

/// Runs a command; what it prints is shown.
fn run_tool(command: &mut Command) -> Result<()> {
    let name = Path::new(command.get_program()).display().to_string();
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("cannot start {name}"))?;
    if !status.success() {
        bail!("{name} ended with {status}");
    }
    Ok(())
}

/// Reads a file whole.
fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Runs a command and returns what it prints.
pub fn output_of(command: &mut Command) -> Result<Vec<u8>> {
    let name = Path::new(command.get_program()).display().to_string();
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        bail!("{name} ended with {}", output.status);
    }
    Ok(output.stdout)
}

/// Removes a folder with all that is in it, if it is there, and makes it anew.
fn fresh(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", folder.display()));
        }
        _ => {}
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}
