//! Kernels from Debian's packages, downloaded and unpacked, never installed.
//!
//! Each suite has apt state of its own below `target/vm`, so that neither the sources of this machine
//! nor the age of its package lists matter; proxies and the like are taken from its configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};

use super::elf;

const ARCHITECTURE: &str = "-amd64";
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Newer kernels come as these two instead of one image with everything.
const PARTS: [&str; 2] = ["linux-binary-", "linux-modules-"];
const IMAGE: &str = "linux-image-";

/// A suite of Debian that has kernels.
struct Suite {
    name: &'static str,
    archive: &'static str,
}

/// Where the kernels of a major version are: 5.10, 6.1 and 6.12, 7 and later.
fn suite_of(kernel: &str) -> Suite {
    let major = kernel.split(['.', '-']).next().and_then(|major| major.parse::<u32>().ok());
    match major.unwrap_or(0) {
        0..=5 => Suite { name: "bullseye-security", archive: "debian-security" },
        6 => Suite { name: "bookworm-security", archive: "debian-security" },
        _ => Suite { name: "trixie-backports", archive: "debian" },
    }
}

/// A kernel that is there to be booted.
#[derive(Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its package.
    pub package: String,
    /// An ELF file, which boots without decompressing itself.
    pub vmlinux: PathBuf,
    /// The folder with its modules.
    pub modules: PathBuf,
}

/// Gets the newest package of a kernel such as `6.12-rt`; one that was got before will do where there
/// is no network.
/// Errors: why it cannot be had.
pub fn obtain(folder: &Path, kernel: &str) -> Result<Kernel> {
    let apt = Apt::new(folder, &suite_of(kernel))?;
    let package = match apt.update().and_then(|()| apt.newest(kernel)) {
        Ok(package) => package,
        Err(error) => {
            let here = unpacked_before(folder);
            let here = newest_of(here.iter().map(String::as_str), kernel).map(str::to_owned);
            here.ok_or(error)?
        }
    };
    let own = folder.join(&package);
    let vmlinux = own.join("vmlinux");
    let unpacked = own.join("unpacked");
    if !vmlinux.exists() {
        fs::create_dir_all(&unpacked)
            .with_context(|| format!("cannot create {}", unpacked.display()))?;
        apt.unpack(&package, &own, &unpacked)?;
        elf::extract(&image_below(&unpacked)?, &vmlinux)?;
    }
    Ok(Kernel { package, vmlinux, modules: modules_below(&unpacked)? })
}

/// The packages whose kernels lie in the folder.
fn unpacked_before(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let complete = entries.filter(|entry| entry.path().join("vmlinux").exists());
    complete.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// apt with the state of one suite.
struct Apt {
    state: PathBuf,
}

impl Apt {
    fn new(folder: &Path, suite: &Suite) -> Result<Self> {
        let state = folder.join("apt").join(suite.name);
        let doing = || format!("cannot prepare {}", state.display());
        for part in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(state.join(part)).with_context(doing)?;
        }
        let sources = format!(
            "Types: deb\nURIs: http://deb.debian.org/{}\nSuites: {}\nComponents: main\n\
             Architectures: amd64\nSigned-By: {KEYS}\n",
            suite.archive, suite.name
        );
        fs::write(state.join("suite.sources"), sources).with_context(doing)?;
        fs::write(state.join("status"), "").with_context(doing)?;
        Ok(Self { state })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let state = self.state.display();
        for option in [
            format!("Dir::State={state}"),
            format!("Dir::State::status={state}/status"),
            format!("Dir::Cache={state}/cache"),
            format!("Dir::Etc::sourceparts={state}"),
            "Dir::Etc::sourcelist=/dev/null".to_owned(),
            // Nothing but the packages, and no waiting for a network that is not there.
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
            "Acquire::http::Timeout=20".to_owned(),
            "Acquire::Retries=1".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
        ] {
            command.args(["-o", &option]);
        }
        command.stdin(Stdio::null());
        command
    }

    fn update(&self) -> Result<()> {
        run(self.command("apt-get").args(["update", "--quiet", "--error-on=any"]))
    }

    fn search(&self, pattern: &str) -> Result<Vec<String>> {
        let output = self
            .command("apt-cache")
            .args(["search", "--names-only", pattern])
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start apt-cache: this task needs Debian's apt")?;
        let found = String::from_utf8_lossy(&output.stdout);
        let names = found.lines().filter_map(|line| line.split_whitespace().next());
        Ok(names.map(str::to_owned).collect())
    }

    fn newest(&self, kernel: &str) -> Result<String> {
        let names = self.search("^linux-image-[0-9]")?;
        let newest = newest_of(names.iter().map(String::as_str), kernel);
        newest.map(str::to_owned).ok_or_else(|| anyhow!("Debian has no package of it"))
    }

    fn unpack(&self, package: &str, own: &Path, unpacked: &Path) -> Result<()> {
        let version = package.strip_prefix(IMAGE).unwrap_or(package);
        let parts: Vec<String> = PARTS.iter().map(|part| format!("{part}{version}")).collect();
        let known = self.search("^linux-(binary|modules)-[0-9]")?;
        let wanted = match parts.iter().all(|part| known.contains(part)) {
            true => parts,
            false => vec![package.to_owned()],
        };
        run(self.command("apt-get").args(["download", "--quiet"]).args(&wanted).current_dir(own))?;
        for file in files(own, |name| name.ends_with(".deb"))? {
            run(Command::new("dpkg").arg("--extract").arg(&file).arg(unpacked))?;
            fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
        }
        Ok(())
    }
}

/// Among names of packages.
fn newest_of<'a>(names: impl Iterator<Item = &'a str>, kernel: &str) -> Option<&'a str> {
    let (version, flavour) = kernel.split_once('-').unwrap_or((kernel, ""));
    names
        .filter_map(|name| {
            let rest = name.strip_prefix(IMAGE)?.strip_suffix(ARCHITECTURE)?;
            let rest = rest.strip_prefix(version)?.strip_prefix('.')?;
            let own = ["rt", "cloud"]
                .into_iter()
                .find(|own| rest.strip_suffix(own).is_some_and(|rest| rest.ends_with('-')));
            (own.unwrap_or("") == flavour).then(|| (numbers(rest), name))
        })
        .max()
        .map(|(_, name)| name)
}

/// The numbers in a version.
fn numbers(text: &str) -> Vec<u64> {
    let digits = text.split(|letter: char| !letter.is_ascii_digit());
    digits.filter_map(|number| number.parse().ok()).collect()
}

/// Runs a command; the error has what it printed.
fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().find(|line| line.starts_with("E:")).unwrap_or("no word why");
        bail!("{name} ended with {}: {first}", output.status);
    }
    Ok(())
}

/// The kernel as the package has it.
fn image_below(unpacked: &Path) -> Result<PathBuf> {
    let boot = unpacked.join("boot");
    let folder = if boot.is_dir() { boot } else { modules_below(unpacked)? };
    only(&folder, |name| name.starts_with("vmlinuz"))
}

fn modules_below(unpacked: &Path) -> Result<PathBuf> {
    let merged = unpacked.join("usr/lib/modules");
    let folder = if merged.is_dir() { merged } else { unpacked.join("lib/modules") };
    only(&folder, |_| true)
}

/// The one file of a folder that is meant.
fn only(folder: &Path, meant: impl Fn(&str) -> bool) -> Result<PathBuf> {
    match files(folder, meant)?.as_slice() {
        [file] => Ok(file.clone()),
        _ => bail!("{} does not hold exactly one file of the kind looked for", folder.display()),
    }
}

fn files(folder: &Path, meant: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let meant = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(&meant))
        .map(|entry| entry.path());
    Ok(meant.collect())
}

#[cfg(test)]
mod tests {
    use super::{newest_of, suite_of};

    #[test]
    fn the_newest_of_a_flavour_is_found() {
        let names = [
            "linux-image-6.1.0-9-rt-amd64",
            "linux-image-6.1.0-56-rt-amd64",
            "linux-image-6.1.0-56-rt-amd64-dbg",
            "linux-image-6.1.0-57-rt-amd64-unsigned",
            "linux-image-6.1.0-58-amd64",
            "linux-image-6.1.0-59-cloud-amd64",
            "linux-image-6.12-rt-amd64",
            "linux-image-6.12.9+deb12-rt-amd64",
            "linux-image-6.12.117+deb12-rt-amd64",
            "linux-image-7.2.12+deb13-amd64",
            "linux-image-7.3.4+deb13-amd64",
        ];
        let newest = |kernel| newest_of(names.into_iter(), kernel);
        assert_eq!(newest("6.1-rt"), Some("linux-image-6.1.0-56-rt-amd64"));
        assert_eq!(newest("6.1"), Some("linux-image-6.1.0-58-amd64"));
        assert_eq!(newest("6.1-cloud"), Some("linux-image-6.1.0-59-cloud-amd64"));
        assert_eq!(newest("6.12-rt"), Some("linux-image-6.12.117+deb12-rt-amd64"));
        assert_eq!(newest("6.12"), None);
        assert_eq!(newest("7"), Some("linux-image-7.3.4+deb13-amd64"));
        assert_eq!(newest("7.2"), Some("linux-image-7.2.12+deb13-amd64"));
    }

    #[test]
    fn every_kernel_has_a_suite() {
        let suites =
            ["5.10-cloud", "6.1-rt", "6.12", "7-cloud", "7.3-cloud"].map(|it| suite_of(it).name);
        let expected = ["bullseye-security", "bookworm-security", "bookworm-security"];
        assert_eq!(suites[..3], expected);
        assert_eq!(suites[3..], ["trixie-backports"; 2]);
    }
}
