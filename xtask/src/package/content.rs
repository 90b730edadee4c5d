//! What a package consists of, whatever its format.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::release::Release;
use super::stage::Entry;
use super::{fresh, licences, output_of, read};
use crate::cargo::Workspace;

/// Shells with the file that each looks for.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/noised"),
    ("zsh", "usr/share/zsh/site-functions/_noised"),
    ("fish", "usr/share/fish/vendor_completions.d/noised.fish"),
];

/// Where documentation lies.
pub const DOCUMENTATION: &str = "usr/share/doc/noised";

/// Folders of the repository whose files of that ending come along: the pages, and all that they link to.
const DOCUMENTS: [(&str, &str); 13] = [
    ("", "README.md"),
    ("docs", ".md"),
    ("tests", ".md"),
    ("deploy", ".toml"),
    ("deploy", ".png"),
    ("deploy/systemd", ".service"),
    ("deploy/kubernetes", ".yaml"),
    ("deploy/grafana", ".png"),
    ("deploy/prometheus", ".yml"),
    ("deploy/prometheus/targets", ".yml"),
    ("deploy/grafana/dashboards", ".json"),
    ("deploy/grafana/provisioning/dashboards", ".yml"),
    ("deploy/grafana/provisioning/datasources", ".yml"),
];

/// How the files begin that have the licences and notices of others.
pub const NOTICES: &str = "usr/share/doc/noised/third-party";

/// Every file that all formats have.
pub fn entries(workspace: &Workspace, program: &Path, release: &Release) -> Result<Vec<Entry>> {
    let deploy = |name: &str| read(&workspace.root.join("deploy").join(name));
    let mut entries = vec![
        Entry { mode: 0o755, ..Entry::new("usr/bin/noised", read(program)?) },
        Entry::new("usr/lib/systemd/system/noised.service", deploy("systemd/noised.service")?),
        Entry::new("usr/lib/sysusers.d/noised.conf", deploy("systemd/sysusers.conf")?),
        Entry {
            is_configuration: true,
            ..Entry::new("etc/noised/noised.toml", deploy("noised.toml")?)
        },
    ];
    for (shell, path) in COMPLETIONS {
        entries
            .push(Entry::new(path, output_of(Command::new(program).args(["completions", shell]))?));
    }
    entries.extend(manual(workspace, program)?);
    for path in documents(&workspace.root)? {
        let content = read(&workspace.root.join(&path))?;
        entries.push(Entry::new(format!("{DOCUMENTATION}/{path}"), content));
    }
    let third = licences::of_dependencies(workspace)?;
    entries.push(Entry::new(format!("{NOTICES}.gz"), compressed(third.as_bytes())?));
    let library = compressed(&licences::of_library()?)?;
    entries.push(Entry::new(format!("{NOTICES}-rust.html.gz"), library));
    let changelog = release.fill(&String::from_utf8(deploy("debian/changelog")?)?)?;
    entries
        .push(Entry::new("usr/share/doc/noised/changelog.gz", compressed(changelog.as_bytes())?));
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(entries)
}

/// The documentation, by its paths in the repository. It is installed in the same folders, so that links between
/// files lead somewhere.
pub fn documents(root: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    for (folder, ending) in DOCUMENTS {
        for entry in
            fs::read_dir(root.join(folder)).with_context(|| format!("cannot list {folder}"))?
        {
            let name = entry.with_context(|| format!("cannot list {folder}"))?.file_name();
            let name = name.to_string_lossy();
            if name.ends_with(ending) {
                paths.push(format!("{folder}/{name}").trim_start_matches('/').to_owned());
            }
        }
    }
    Ok(paths)
}

/// The pages that the program writes.
fn manual(workspace: &Workspace, program: &Path) -> Result<Vec<Entry>> {
    let folder = workspace.target.join("package/man");
    fresh(&folder)?;
    output_of(Command::new(program).arg("man").arg("--directory").arg(&folder))?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(&folder).context("cannot list the manual")? {
        let path = entry.context("cannot list the manual")?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = compressed(&read(&path)?)?;
        pages.push(Entry::new(format!("usr/share/man/man1/{name}.gz"), text));
    }
    if pages.is_empty() {
        bail!("noised wrote no manual");
    }
    Ok(pages)
}

/// As `gzip` does it, without a time or a name inside.
fn compressed(text: &[u8]) -> Result<Vec<u8>> {
    let mut child = Command::new("gzip")
        .args(["-9", "--no-name", "--stdout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start gzip")?;
    // Small texts: gzip reads all of them before it writes.
    child.stdin.take().context("gzip takes nothing")?.write_all(text).context("gzip")?;
    let output = child.wait_with_output().context("gzip")?;
    if !output.status.success() {
        bail!("gzip ended with {}", output.status);
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_rules_and_dashboards_come_along() -> Result<()> {
        let paths = documents(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?;
        for path in [
            "README.md",
            "docs/commands.md",
            "deploy/noised.toml",
            "deploy/prometheus/alerts.rules.yml",
            "deploy/prometheus/targets/example.yml",
            "deploy/grafana/dashboards/noised-host.json",
            "deploy/grafana/provisioning/datasources/noised.yml",
        ] {
            assert!(paths.iter().any(|found| found == path), "no {path}");
        }
        Ok(())
    }
}
