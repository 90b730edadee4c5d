//! The program: linked with musl, so that it starts on any Linux of its architecture.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{output_of, run_tool};
use crate::cargo::{Workspace, named, on_path};
use crate::setup;

/// The compiler of the C parts of dependencies.
const C_COMPILER: &str = "musl-gcc";

/// Builds it, splits the debug information off, and returns where it is. Beside it lies
/// `noised.debug`, which debuggers find by its name.
pub fn build(workspace: &Workspace, folder: &Path) -> Result<PathBuf> {
    setup::ensure(workspace)?;
    if on_path(C_COMPILER).is_none() {
        bail!(
            "some dependencies have parts in C, which {C_COMPILER} compiles, and it is not there; install it (Debian: apt-get install musl-tools)"
        );
    }
    let target = format!("{}-unknown-linux-musl", env::consts::ARCH);
    setup::add_target(&target)?;
    let name = target.replace('-', "_");
    let rust = format!("CARGO_TARGET_{}_RUSTFLAGS", name.to_uppercase());
    let c = format!("CFLAGS_{name}");
    let prefixes = prefixes(workspace)?;
    let environment = [
        (rust.as_str(), flags("--remap-path-prefix", &prefixes)),
        (c.as_str(), flags("-ffile-prefix-map", &prefixes)),
        ("NOISED_REVISION", revision(&workspace.root)?),
    ];
    let arguments = ["build", "--release", "--package", "noise-daemon", "--target", &target];
    let built = named(workspace.build_with(&arguments, &environment)?, "noised")?;
    split(&built, folder)
}

/// Takes a program that was built elsewhere.
pub fn take(given: &Path, folder: &Path) -> Result<PathBuf> {
    let place = folder.join("noised");
    fs::copy(given, &place)
        .with_context(|| format!("cannot copy {} to {}", given.display(), place.display()))?;
    Ok(place)
}

/// The commit that this is built from.
pub fn revision(root: &Path) -> Result<String> {
    match env::var("NOISED_REVISION") {
        Ok(given) => Ok(given),
        Err(_) => described(root).context("set NOISED_REVISION where this is no clone"),
    }
}

/// A commit by its whole name, because how far git shortens it depends on the clone. It ends in `-dirty`
/// where files differ from it.
fn described(root: &Path) -> Result<String> {
    let mut git = Command::new("git");
    // No tag's name either: which tags there are depends on the clone, too.
    git.arg("-C").arg(root).args(["describe", "--always", "--exclude=*", "--abbrev=40", "--dirty"]);
    let output = output_of(&mut git)?;
    Ok(String::from_utf8_lossy(&output).trim().to_owned())
}

/// Where the sources lie on this machine, and what takes the place of that in the program: those here,
/// those of the dependencies, what is generated, and the standard library's. Where several fit, compilers
/// take the last.
fn prefixes(workspace: &Workspace) -> Result<[(PathBuf, &'static str); 4]> {
    let cargo_home = match env::var_os("CARGO_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env::var_os("HOME").context("there is no HOME")?).join(".cargo"),
    };
    // Where rust-src is installed, the standard library's own paths are those of its files.
    let library = setup::sysroot()?.join("lib/rustlib/src/rust");
    Ok([
        (workspace.root.clone(), "/noised"),
        (cargo_home, "/cargo"),
        (workspace.target.clone(), "/target"),
        (library, "/rust"),
    ])
}

/// The flags by which a compiler puts others in the place of paths.
fn flags(flag: &str, prefixes: &[(PathBuf, &str)]) -> String {
    let flags: Vec<String> =
        prefixes.iter().map(|(from, to)| format!("{flag}={}={to}", from.display())).collect();
    flags.join(" ")
}

fn split(built: &Path, folder: &Path) -> Result<PathBuf> {
    let (stripped, debug) = (folder.join("noised"), folder.join("noised.debug"));
    run_tool(Command::new("objcopy").arg("--only-keep-debug").arg(built).arg(&debug))?;
    run_tool(Command::new("objcopy").arg("--strip-all").arg(built).arg(&stripped))?;
    let link = "--add-gnu-debuglink=noised.debug";
    run_tool(Command::new("objcopy").arg(link).arg("noised").current_dir(folder))?;
    Ok(stripped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::fresh;

    #[test]
    fn what_is_generated_is_named_alike_wherever_the_target_folder_is() -> Result<()> {
        for target in ["/w/target", "/elsewhere"] {
            let workspace = Workspace { root: "/w".into(), target: target.into() };
            let file = Path::new(target).join("build/ring");
            let all = prefixes(&workspace)?;
            let fits = all.iter().rfind(|(from, _)| file.starts_with(from));
            assert_eq!(fits.map(|(_, to)| *to), Some("/target"));
            assert!(flags("-f", &all).starts_with("-f=/w=/noised -f="), "{all:?}");
        }
        Ok(())
    }

    #[test]
    fn a_revision_is_whole_and_says_what_is_not_in_it() -> Result<()> {
        let folder = env::temp_dir().join(format!("noised-xtask-revision-{}", std::process::id()));
        fresh(&folder)?;
        let git = |arguments: &[&str]| {
            let mut command = Command::new("git");
            command.args(["-c", "user.name=a", "-c", "user.email=a@a.invalid"]);
            output_of(command.args(arguments).current_dir(&folder))
        };
        let made = || -> Result<[String; 3]> {
            git(&["init", "--quiet"])?;
            fs::write(folder.join("file"), "one")?;
            git(&["add", "file"])?;
            git(&["commit", "--quiet", "--message", "one"])?;
            git(&["tag", "--annotate", "--message", "one", "v1"])?;
            let head = String::from_utf8(git(&["rev-parse", "HEAD"])?)?.trim().to_owned();
            let clean = described(&folder)?;
            fs::write(folder.join("file"), "two and more")?;
            Ok([head, clean, described(&folder)?])
        };
        let made = made();
        fs::remove_dir_all(&folder)?;
        let [head, clean, dirty] = made?;
        assert_eq!((clean, dirty), (head.clone(), format!("{head}-dirty")));
        Ok(())
    }
}
