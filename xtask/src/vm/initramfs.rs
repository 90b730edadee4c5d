//! What the guest finds: busybox, programs with their libraries, kernel modules, and the script.
//!
//! Two archives: one of everything but the modules, for all kernels, and one of a kernel's modules.
//! The kernel unpacks both, one behind the other.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::modules::Module;
use crate::cargo::on_path;

const INIT: &str = include_str!("init.sh");
/// Folders of the guest that are mounted over, or written to.
const EMPTY: [&str; 10] =
    ["bin", "busybox", "proc", "sys", "dev", "tmp", "root", "run/netns", "modules", "etc"];
/// Programs that busybox has not, or not well enough for the tests, with their Debian packages.
const PROGRAMS: [(&str, &str); 3] =
    [("ip", "iproute2"), ("tc", "iproute2"), ("setpriv", "util-linux")];
const USERS: &str = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n";
const GROUPS: &str = "root:x:0:\nnogroup:x:65534:\n";

/// What is put into the archive of all kernels.
pub struct Contents<'a> {
    /// Programs of this workspace, each with the path that it gets.
    pub programs: &'a [(PathBuf, &'static str)],
    /// The script.
    pub script: &'a str,
    /// Arguments of the live tests, one a line.
    pub arguments: &'a str,
}

/// Packs the archive of all kernels.
pub fn build(folder: &Path, contents: &Contents) -> Result<PathBuf> {
    let root = fresh(&folder.join("root"))?;
    for empty in EMPTY {
        let path = root.join(empty);
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
    }
    let busybox = found("busybox", "busybox-static")?;
    add(&root, &busybox, "bin/busybox")?;
    for (program, package) in PROGRAMS {
        add(&root, &found(program, package)?, &format!("bin/{program}"))?;
    }
    for (program, path) in contents.programs {
        add(&root, program, path)?;
        strip(program, &root.join(path))?;
    }
    write(&root.join("init"), INIT)?;
    write(&root.join("script"), contents.script)?;
    write(&root.join("arguments"), contents.arguments)?;
    write(&root.join("etc/passwd"), USERS)?;
    write(&root.join("etc/group"), GROUPS)?;
    let archive = folder.join("initramfs");
    pack(&root, &archive)?;
    Ok(archive)
}

/// Packs that archive together with the modules of the kernel `name`, which are loaded in this order.
pub fn with_modules(
    folder: &Path,
    name: &str,
    archive: &Path,
    modules: &[Module],
) -> Result<PathBuf> {
    let root = fresh(&folder.join("modules"))?;
    let inner = root.join("modules");
    fs::create_dir_all(&inner).with_context(|| format!("cannot create {}", inner.display()))?;
    let mut order = String::new();
    for module in modules {
        let path = inner.join(format!("{}.ko", module.name));
        fs::write(&path, &module.bytes)
            .with_context(|| format!("cannot write {}", path.display()))?;
        order.push_str(&format!("{}\n", module.name));
    }
    write(&inner.join("order"), &order)?;
    let own = folder.join("initramfs.modules");
    pack(&root, &own)?;
    let whole = folder.join(format!("initramfs.{name}"));
    let doing = || format!("cannot write {}", whole.display());
    // Archives end at a multiple of 512 bytes, as the kernel wants them to begin at one of four.
    let mut output = File::create(&whole).with_context(doing)?;
    for part in [archive, &own] {
        let mut input = File::open(part).with_context(doing)?;
        std::io::copy(&mut input, &mut output).with_context(doing)?;
    }
    Ok(whole)
}

fn fresh(root: &Path) -> Result<PathBuf> {
    if root.exists() {
        fs::remove_dir_all(root).with_context(|| format!("cannot remove {}", root.display()))?;
    }
    Ok(root.to_owned())
}

fn found(program: &str, package: &str) -> Result<PathBuf> {
    // What only root needs may lie where others do not look.
    let places = ["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).join(program));
    match on_path(program).or_else(|| places.into_iter().find(|path| path.is_file())) {
        Some(path) => Ok(path),
        None => bail!(
            "the guest needs {program} and there is none; install it (Debian: apt-get install {package})"
        ),
    }
}

/// Adds a program with its libraries.
fn add(root: &Path, program: &Path, path: &str) -> Result<()> {
    for library in libraries(program)? {
        let to = root.join(library.strip_prefix("/").unwrap_or(&library));
        if !to.exists() {
            copy(&library, &to)?;
        }
    }
    copy(program, &root.join(path))
}

/// The files that the loader names for a program; none where it is static.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("cannot start ldd")?;
    Ok(paths(&String::from_utf8_lossy(&output.stdout)))
}

/// The paths in what `ldd` prints.
fn paths(text: &str) -> Vec<PathBuf> {
    let words =
        text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    words.map(PathBuf::from).collect()
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let doing = || format!("cannot copy {} to {}", from.display(), to.display());
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(doing)?;
    }
    fs::copy(from, to).map(drop).with_context(doing)
}

/// Without what only debuggers need, which is most of it.
fn strip(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("strip")
        .arg("-o")
        .args([to, from])
        .status()
        .context("cannot start strip (Debian: apt-get install binutils)")?;
    if !status.success() {
        bail!("strip ended with {status}");
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn pack(root: &Path, archive: &Path) -> Result<()> {
    let mut names = Vec::new();
    list(root, root, &mut names)?;
    let output =
        File::create(archive).with_context(|| format!("cannot write {}", archive.display()))?;
    let mut child = Command::new("busybox")
        .args(["cpio", "-o", "-H", "newc"])
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(output)
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start busybox cpio")?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(names.join("\n").as_bytes()).context("cannot write to busybox cpio")?;
    }
    let status = child.wait().context("cannot wait for busybox cpio")?;
    if !status.success() {
        bail!("busybox cpio ended with {status}");
    }
    Ok(())
}

/// Names below a folder, each folder before what is in it.
fn list(root: &Path, folder: &Path, names: &mut Vec<String>) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
        names.push(path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned());
        if path.is_dir() {
            list(root, &path, names)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::paths;

    #[test]
    fn libraries_are_read_from_ldd() {
        let text = "\tlinux-vdso.so.1 (0x00007f)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x0)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x0)\n";
        let names: Vec<String> =
            paths(text).iter().map(|path| path.display().to_string()).collect();
        assert_eq!(names, ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
        assert!(paths("\tnot a dynamic executable\n").is_empty());
    }
}
