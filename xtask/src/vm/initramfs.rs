//! What the guest finds: busybox, noised with its libraries, and the script.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::cargo::on_path;

const INIT: &str = include_str!("init.sh");
/// Folders of the guest that are mounted over, or written to.
const EMPTY: [&str; 5] = ["bin", "proc", "sys", "dev", "tmp"];

/// Packs an archive for the kernel to unpack.
pub fn build(folder: &Path, noised: &Path, script: &str) -> Result<PathBuf> {
    let root = folder.join("root");
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| format!("cannot remove {}", root.display()))?;
    }
    for empty in EMPTY {
        let path = root.join(empty);
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
    }
    let Some(busybox) = on_path("busybox") else {
        bail!(
            "the guest needs busybox and there is none; install it (Debian: apt-get install busybox-static)"
        );
    };
    let libraries = libraries(&busybox)?;
    for library in libraries.iter().chain(&self::libraries(noised)?) {
        copy(library, &root.join(library.strip_prefix("/").unwrap_or(library)))?;
    }
    copy(&busybox, &root.join("bin/busybox"))?;
    strip(noised, &root.join("noised"))?;
    write(&root.join("init"), INIT)?;
    write(&root.join("script"), script)?;
    let archive = folder.join("initramfs");
    pack(&root, &archive)?;
    Ok(archive)
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
