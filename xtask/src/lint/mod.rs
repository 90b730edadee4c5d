//! `cargo xtask lint`: the rules of this project that no tool of the field knows: files of a crate that need each
//! other in a circle (`circles.rs`), types of one name (`names.rs`), and signals, metrics and pages that drift apart
//! (`drift.rs`, `pages.rs`). What else there is to refuse, clippy refuses: Cargo.toml and clippy.toml say what.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::cargo::Workspace;
use crate::lint::circles::circles;
use crate::lint::drift::Rooms;
use crate::lint::pages::{Pages, metrics_in};
use crate::lint::source::Source;
use crate::package::documents;

mod circles;
mod drift;
mod names;
mod pages;
mod source;

/// One breach of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// File, relative to the workspace, with `/` between folders.
    pub path: String,
    /// Line, counted from 1.
    pub line: usize,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Prints every finding; fails if there is one.
pub fn run(workspace: &Workspace) -> Result<ExitCode> {
    let mut files = Vec::new();
    collect(&workspace.root, &workspace.root, &mut files)?;
    if files.is_empty() {
        bail!("there is no Rust file in {}", workspace.root.display());
    }
    let mut metrics = BTreeSet::new();
    let mut texts = Vec::new();
    for path in &files {
        let text = fs::read_to_string(workspace.root.join(path))
            .with_context(|| format!("cannot read {path}"))?;
        // What is exported is in the crates of both sides of the kernel line, whatever their number.
        if path.starts_with("noise-") {
            metrics.extend(metrics_in(&text));
        }
        texts.push(text);
    }
    let sources = files.iter().zip(&texts).map(|(path, text)| Source::new(path, text));
    let sources = sources.collect::<Result<Vec<_>>>()?;
    let mut findings = circles(&sources);
    let paths = files.iter().map(String::as_str);
    findings.extend(names::findings(paths.zip(texts.iter().map(String::as_str))));
    let pages = Pages::read(&workspace.root)?;
    findings.extend(Rooms::among(&files).findings(pages.text(drift::PAGE)));
    findings.extend(pages.findings(&metrics, &documents(&workspace.root)?));
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("lint: {} files and {} pages keep the rules", files.len(), pages.count());
        return Ok(ExitCode::SUCCESS);
    }
    bail!("the rules of this project are broken ({} findings)", findings.len())
}

/// Rust files below `folder`, relative to `root`, without build output and hidden folders.
fn collect(root: &Path, folder: &Path, files: &mut Vec<String>) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') || name == "target" {
            continue;
        }
        let kind = entry.file_type().with_context(|| format!("cannot read {}", path.display()))?;
        if kind.is_dir() {
            collect(root, &path, files)?;
        } else if name.ends_with(".rs") {
            let relative = path.strip_prefix(root).unwrap_or(&path);
            files.push(relative.to_string_lossy().into_owned());
        }
    }
    files.sort();
    Ok(())
}
