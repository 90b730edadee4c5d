//! Files and ports, by Landlock.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath,
    PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus,
};
use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};

use super::capabilities::without;
use super::{Extent, Rest};

/// The newest that is asked for: files from 1, truncation from 3, ports from 4, devices from 5.
const NEWEST: ABI = ABI::V5;
/// Asks the kernel for its version instead of making a ruleset.
const VERSION: u32 = 1;

/// The version of Landlock that this kernel offers; 0 = none.
pub fn landlock_abi() -> u32 {
    // SAFETY: with this flag the call takes no memory.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, VERSION)
    };
    u32::try_from(version).unwrap_or(0)
}

/// Leaves this thread, and those that it starts, no other files than those, and no new ports.
pub fn confine(rest: &Rest) -> anyhow::Result<Extent> {
    if landlock_abi() == 0 {
        return Ok(Extent::Not("this kernel has no Landlock, or it is off".to_owned()));
    }
    let status = restrict(rest).context("cannot confine files (Landlock)")?;
    Ok(match status {
        RulesetStatus::FullyEnforced => Extent::Whole,
        RulesetStatus::PartiallyEnforced => Extent::Part,
        RulesetStatus::NotEnforced => Extent::Not("Landlock is off".to_owned()),
    })
}

fn restrict(rest: &Rest) -> Result<RulesetStatus, landlock::RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .create()?;
    let (read, write) = (AccessFs::from_read(NEWEST) & !AccessFs::Execute, writing());
    let folders = rest.read_again.iter().flat_map(|file| folders(file));
    let granted = rest.read.iter().cloned().chain(folders).map(|path| (path, read));
    for (path, access) in granted.chain(rest.write.iter().cloned().map(|path| (path, write))) {
        if let Some(rule) = beneath(&path, access) {
            rules = rules.add_rule(rule)?;
        }
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// The folder of a file, and that of the file where it leads as a symbolic link.
fn folders(file: &Path) -> impl Iterator<Item = PathBuf> {
    let target = fs::canonicalize(file).ok();
    [Some(file.to_owned()), target].into_iter().flatten().filter_map(|path| folder_of(&path))
}

/// Which of the files that are there, and of the folders that are written to, could not be reached
/// any more without capabilities.
pub fn out_of_reach(rest: &Rest) -> Vec<PathBuf> {
    let refused = |path: &Path, how: AccessFlags| {
        matches!(access(path, how), Err(Errno::EACCES | Errno::EPERM))
    };
    let read = rest.read_again.iter().map(|path| (path, AccessFlags::R_OK));
    let write = rest.write.iter().map(|path| (path, AccessFlags::W_OK | AccessFlags::X_OK));
    let all: Vec<_> = read.chain(write).filter(|(path, _)| path.exists()).collect();
    without(|| {
        let lost = all.into_iter().filter(|(path, how)| refused(path, *how));
        lost.map(|(path, _)| path.clone()).collect()
    })
    .ok()
    .flatten()
    .unwrap_or_default()
}

/// The folder that holds a file; `None` for the root.
pub fn folder_of(file: &Path) -> Option<PathBuf> {
    match file.parent()? {
        here if here.as_os_str().is_empty() => Some(PathBuf::from(".")),
        folder => Some(folder.to_owned()),
    }
}

/// What is done in the state directory and where the socket lies.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::RemoveFile
}

/// A rule for what is there.
fn beneath(path: &Path, access: BitFlags<AccessFs>) -> Option<PathBeneath<PathFd>> {
    let is_folder = path.is_dir();
    let access = if is_folder { access } else { access & AccessFs::from_file(NEWEST) };
    PathFd::new(path).ok().map(|fd| PathBeneath::new(fd, access))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_own_folder_and_that_of_its_target() {
        let folder = tempfile::tempdir().unwrap();
        let (own, versions) = (folder.path().join("own"), folder.path().join("versions"));
        fs::create_dir(&own).unwrap();
        fs::create_dir(&versions).unwrap();
        fs::write(versions.join("1"), "").unwrap();
        std::os::unix::fs::symlink("../versions/1", own.join("file")).unwrap();
        let found: Vec<PathBuf> = folders(&own.join("file")).collect();
        assert_eq!(found, [own.clone(), fs::canonicalize(versions).unwrap()]);
        assert_eq!(folders(&own.join("missing")).collect::<Vec<_>>(), [own]);
        assert_eq!(folder_of(Path::new("file")), Some(PathBuf::from(".")));
        assert_eq!(folder_of(Path::new("/")), None);
    }
}
