//! The RPM package, put together by rpmbuild from `deploy/rpm/noised.spec`.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::content::{DOCUMENTATION, NOTICES};
use super::read;
use super::release::Release;
use super::stage::{Entry, lay_out};
use super::{fresh, run_tool};
use crate::cargo::Workspace;

/// Builds it and returns where it is.
pub fn build(
    workspace: &Workspace,
    folder: &Path,
    release: &Release,
    entries: &[Entry],
) -> Result<PathBuf> {
    let (top, staged) = (folder.join("rpm"), folder.join("rpm-root"));
    fresh(&top)?;
    let licence = read(&workspace.root.join("LICENSE"))?;
    let mut entries = entries.to_vec();
    entries.push(Entry::new("usr/share/licenses/noised/LICENSE", licence));
    lay_out(&staged, &entries, release.epoch)?;
    let text = String::from_utf8(read(&workspace.root.join("deploy/rpm/noised.spec"))?)?;
    let text = release.fill(&text)?.replace("@FILES@", &listed(&entries));
    let spec = top.join("noised.spec");
    fs::write(&spec, text).with_context(|| format!("cannot write {}", spec.display()))?;
    let architecture = env::consts::ARCH;
    let define = |name: &str, value: &Path| format!("{name} {}", value.display());
    let mut command = Command::new("rpmbuild");
    command
        .args(["-bb", "--quiet", "--target", &format!("{architecture}-linux")])
        .args(["--define", &define("_topdir", &top), "--define", &define("staged", &staged)])
        .arg(&spec)
        .env("SOURCE_DATE_EPOCH", release.epoch.to_string())
        .stdout(Stdio::null());
    run_tool(&mut command)?;
    let name = format!("noised-{}-1.{architecture}.rpm", release.version);
    let (built, file) = (top.join("RPMS").join(architecture).join(&name), folder.join(&name));
    fs::copy(&built, &file).with_context(|| format!("rpmbuild made no {}", built.display()))?;
    Ok(file)
}

/// The list of files as a spec has it.
fn listed(entries: &[Entry]) -> String {
    let line = |entry: &Entry| {
        let kind = match entry.path.as_str() {
            _ if entry.is_configuration => "%config(noreplace) ",
            path if path.starts_with(NOTICES) || path.starts_with("usr/share/licenses/") => {
                "%license "
            }
            path if path.starts_with("usr/share/doc/") => "%doc ",
            _ => "",
        };
        format!("{kind}/{}", entry.path)
    };
    let folders = folders(entries).into_iter().map(|folder| format!("%dir /{folder}"));
    folders.chain(entries.iter().map(line)).collect::<Vec<_>>().join("\n")
}

/// The folders of documentation, which are the package's own.
fn folders(entries: &[Entry]) -> BTreeSet<String> {
    let inside = entries.iter().filter(|entry| entry.path.starts_with(DOCUMENTATION));
    let above = inside.flat_map(|entry| Path::new(&entry.path).ancestors().skip(1));
    let own = above.filter(|folder| folder.starts_with(DOCUMENTATION));
    own.map(|folder| folder.display().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Entry, listed};

    #[test]
    fn configuration_and_licences_are_marked_in_the_list_of_files() {
        let configuration = Entry { is_configuration: true, ..Entry::new("etc/a", "") };
        let others = ["usr/share/doc/b", "usr/c", "usr/share/doc/noised/third-party.gz"];
        let mut entries = vec![configuration];
        entries.extend(others.map(|path| Entry::new(path, "")));
        entries.push(Entry::new("usr/share/doc/noised/docs/a.md", ""));
        let expected = "%dir /usr/share/doc/noised\n%dir /usr/share/doc/noised/docs\n%config(noreplace) /etc/a\n%doc /usr/share/doc/b\n/usr/c\n\
                        %license /usr/share/doc/noised/third-party.gz\n%doc /usr/share/doc/noised/docs/a.md";
        assert_eq!(listed(&entries), expected);
    }
}
