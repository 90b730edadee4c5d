//! Kernels from Debian's packages, downloaded and unpacked, never installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::elf;

const PREFIX: &str = "linux-image-";
const ARCHITECTURE: &str = "-amd64";

/// The newest package of a kernel such as `6.12-rt`, as apt knows it.
pub fn newest(kernel: &str) -> Result<String> {
    let output = Command::new("apt-cache")
        .args(["search", "--names-only", "^linux-image-[0-9]"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start apt-cache: this task needs Debian's apt")?;
    let found = String::from_utf8_lossy(&output.stdout);
    let names = found.lines().filter_map(|line| line.split_whitespace().next());
    match newest_of(names, kernel) {
        Some(name) => Ok(name.to_owned()),
        None => bail!(
            "apt knows no package of a kernel {kernel}; run `apt-get update`, or name another"
        ),
    }
}

/// Among names of packages.
fn newest_of<'a>(names: impl Iterator<Item = &'a str>, kernel: &str) -> Option<&'a str> {
    let (version, flavour) = kernel.split_once('-').unwrap_or((kernel, ""));
    names
        .filter_map(|name| {
            let rest = name.strip_prefix(PREFIX)?.strip_suffix(ARCHITECTURE)?;
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

/// The kernel of a package as an ELF file, which boots without decompressing itself.
pub fn kernel(folder: &Path, package: &str) -> Result<PathBuf> {
    let own = folder.join(package);
    let kernel = own.join("vmlinux");
    if kernel.exists() {
        return Ok(kernel);
    }
    let unpacked = own.join("unpacked");
    fs::create_dir_all(&unpacked)
        .with_context(|| format!("cannot create {}", unpacked.display()))?;
    run(Command::new("apt-get").args(["download", "--quiet", package]).current_dir(&own))?;
    let file = only(&own, |name| name.ends_with(".deb"))?;
    run(Command::new("dpkg").arg("--extract").arg(&file).arg(&unpacked))?;
    fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
    let image = only(&unpacked.join("boot"), |name| name.starts_with("vmlinuz"))?;
    elf::extract(&image, &kernel)?;
    Ok(kernel)
}

fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("cannot start {name}"))?;
    if !status.success() {
        bail!("{name} ended with {status}");
    }
    Ok(())
}

/// The one file of a folder that is meant.
fn only(folder: &Path, meant: impl Fn(&str) -> bool) -> Result<PathBuf> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(&meant))
        .map(|entry| entry.path());
    match (files.next(), files.next()) {
        (Some(file), None) => Ok(file),
        _ => bail!("{} does not hold exactly one file of the kind looked for", folder.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::newest_of;

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
        ];
        let newest = |kernel| newest_of(names.into_iter(), kernel);
        assert_eq!(newest("6.1-rt"), Some("linux-image-6.1.0-56-rt-amd64"));
        assert_eq!(newest("6.1"), Some("linux-image-6.1.0-58-amd64"));
        assert_eq!(newest("6.1-cloud"), Some("linux-image-6.1.0-59-cloud-amd64"));
        assert_eq!(newest("6.12-rt"), Some("linux-image-6.12.117+deb12-rt-amd64"));
        assert_eq!(newest("6.12"), None);
    }
}
