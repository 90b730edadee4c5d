//! What people read: README.md and the pages of `docs/`.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// The texts of all pages, whatever their number.
/// Errors: if the folder or a page cannot be read.
pub fn texts() -> Result<Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths = vec![root.join("README.md")];
    for entry in fs::read_dir(root.join("docs")).context("listing docs")? {
        paths.push(entry.context("listing docs")?.path());
    }
    let pages = paths.iter().filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    let read = |path| fs::read_to_string(path).with_context(|| format!("reading {path:?}"));
    pages.map(read).collect()
}

/// The blocks of code in one language that the pages show.
/// Errors: if a page cannot be read.
pub fn blocks(language: &str) -> Result<Vec<String>> {
    let fence = format!("```{language}\n");
    let texts = texts()?;
    let rest = texts.iter().flat_map(|text| text.split(&fence).skip(1));
    Ok(rest.filter_map(|rest| rest.split_once("```")).map(|(block, _)| block.to_owned()).collect())
}
