//! The Debian package, put together by dpkg-deb.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::read;
use super::release::{Release, architecture};
use super::stage::{Entry, add, lay_out};
use super::{output_of, run_tool};
use crate::cargo::Workspace;

/// What dpkg starts when the package comes and goes.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Builds it and returns where it is.
pub fn build(
    workspace: &Workspace,
    folder: &Path,
    release: &Release,
    entries: &[Entry],
) -> Result<PathBuf> {
    let template = |name: &str| -> Result<String> {
        let path = workspace.root.join("deploy/debian").join(name);
        release.fill(&String::from_utf8(read(&path)?)?)
    };
    let root = folder.join("deb");
    lay_out(&root, entries, release.epoch)?;
    let licence = String::from_utf8(read(&workspace.root.join("LICENSE"))?)?;
    let copyright = template("copyright")?.replace("@LICENSE@", &indented(&licence));
    add(&root, &[Entry::new("usr/share/doc/noised/copyright", copyright)], release.epoch)?;

    let kibibytes: usize = entries.iter().map(|entry| entry.content.len().div_ceil(1024)).sum();
    let control = template("control")?.replace("@INSTALLED_SIZE@", &kibibytes.to_string());
    let configuration = entries.iter().filter(|entry| entry.is_configuration);
    let conffiles: String = configuration.map(|entry| format!("/{}\n", entry.path)).collect();
    let mut own = vec![
        Entry::new("DEBIAN/control", control),
        Entry::new("DEBIAN/conffiles", conffiles),
        Entry::new("DEBIAN/md5sums", checksums(&root, entries)?),
    ];
    for name in SCRIPTS {
        let path = format!("DEBIAN/{name}");
        own.push(Entry { mode: 0o755, ..Entry::new(path, template(name)?) });
    }
    add(&root, &own, release.epoch)?;

    let file = folder.join(format!("noised_{}_{}.deb", release.version, architecture()));
    run_tool(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Zxz", "--build"])
            .args([&root, &file])
            .env("SOURCE_DATE_EPOCH", release.epoch.to_string())
            .stdout(std::process::Stdio::null()),
    )?;
    Ok(file)
}

/// What dpkg checks files against; it knows of configuration by itself.
fn checksums(root: &Path, entries: &[Entry]) -> Result<Vec<u8>> {
    let files = entries.iter().filter(|entry| !entry.is_configuration);
    let files = files.map(|entry| entry.path.as_str()).chain(["usr/share/doc/noised/copyright"]);
    output_of(Command::new("md5sum").args(files).current_dir(root))
}

/// As the file on copyright has texts of several lines: by a space, with a dot where a line is empty.
fn indented(text: &str) -> String {
    let lines = text.trim_end().lines();
    let lines: Vec<String> =
        lines.map(|line| format!(" {}", if line.is_empty() { "." } else { line })).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::indented;

    #[test]
    fn texts_are_indented_as_control_files_want_it() {
        assert_eq!(indented("a\n\nb c\n"), " a\n .\n b c");
    }
}
