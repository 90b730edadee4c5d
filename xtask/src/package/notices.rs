//! The licences and notices that packages carry: a program that they are linked into has to bring them along.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::read;

/// How the names of such files begin, in lower case.
const NAMES: [&str; 6] = ["licence", "license", "copying", "copyright", "notice", "unlicense"];

/// What is linked in.
pub struct Package {
    /// Name and version.
    pub name: String,
    /// Under which terms, by the names of SPDX.
    pub licence: String,
    /// Whose it is, where it has no text that says so.
    pub authors: String,
    /// Where its files lie.
    pub folder: PathBuf,
}

/// Every text once, headed by who carries it; `library` is that of the C library.
pub fn page(packages: &[Package], library: &str) -> Result<String> {
    let mut texts = Texts::default();
    let mut without = String::new();
    for package in packages {
        let files = files(&package.folder)?;
        for file in &files {
            let place = file.strip_prefix(&package.folder).unwrap_or(file);
            let text = read(file)?;
            let text = String::from_utf8_lossy(&text);
            texts.add(&text, format!("{}: {}", package.name, place.display()));
        }
        if files.is_empty() {
            let Package { name, licence, authors, .. } = package;
            let _ = writeln!(without, "{name}  {licence}  {authors}");
        }
    }
    texts.add(library, "musl, the C library".to_owned());
    let mut page = String::new();
    if !without.is_empty() {
        page += "Without a text of their own: name, version, licence, authors\n\n";
        page += &without;
    }
    texts.write(&mut page);
    Ok(page)
}

/// Texts in the order in which they were found.
#[derive(Default)]
struct Texts {
    /// Each with its carriers.
    found: Vec<(String, Vec<String>)>,
    /// Where among those found, by the words of the text: lines are broken in many ways.
    places: BTreeMap<String, usize>,
}

impl Texts {
    fn add(&mut self, text: &str, carrier: String) {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let place = *self.places.entry(words).or_insert(self.found.len());
        match self.found.get_mut(place) {
            Some((_, carriers)) => carriers.push(carrier),
            None => self.found.push((text.trim_end().replace('\r', ""), vec![carrier])),
        }
    }

    fn write(&self, page: &mut String) {
        let line = "-".repeat(80);
        for (text, carriers) in &self.found {
            let _ = write!(page, "\n{line}\n{}\n{line}\n\n{text}\n", carriers.join("\n"));
        }
    }
}

/// The files of such names below a folder, in order: code of others that a package has in it, too, has
/// its own.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let failure = || format!("cannot list {}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(failure)? {
        let entry = entry.with_context(failure)?;
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if entry.file_type().with_context(failure)?.is_dir() {
            found.extend(files(&path)?);
        } else if NAMES.iter().any(|begin| name.starts_with(begin)) && !name.ends_with(".rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;
    use crate::package::fresh;

    #[test]
    fn every_text_is_there_once_with_all_who_carry_it() -> Result<()> {
        let root = env::temp_dir().join(format!("noised-xtask-notices-{}", std::process::id()));
        let packages = ["a", "b", "c"].map(|name| Package {
            name: format!("{name} 1.0"),
            licence: "MIT".to_owned(),
            authors: format!("{name}'s authors"),
            folder: root.join(name),
        });
        let made = || -> Result<String> {
            for (file, text) in [
                ("a/LICENSE-MIT", "Copyright A\nall rights"),
                ("a/src/license.rs", "no text"),
                ("b/COPYING", "Copyright A all\r\nrights\r\n"),
                ("b/vendored/deep/Notice.txt", "Copyright D"),
                ("c/README", "nothing"),
            ] {
                let path = root.join(file);
                fs::create_dir_all(path.parent().context("no folder")?)?;
                fs::write(path, text)?;
            }
            page(&packages, "Copyright M")
        };
        fresh(&root)?;
        let page = made();
        fs::remove_dir_all(&root)?;
        let page = page?;
        assert!(page.contains("\na 1.0: LICENSE-MIT\nb 1.0: COPYING\n---"), "{page}");
        assert!(page.contains("\n\nCopyright A\nall rights\n"), "{page}");
        assert_eq!(page.matches("Copyright A").count(), 1, "{page}");
        assert!(page.contains("b 1.0: vendored/deep/Notice.txt\n"), "{page}");
        assert!(page.contains("Copyright D") && page.contains("Copyright M"), "{page}");
        assert!(page.starts_with("Without a text of their own"), "{page}");
        assert!(page.contains("\nc 1.0  MIT  c's authors\n") && !page.contains("a 1.0  MIT"));
        assert!(!page.contains("no text\n"), "{page}");
        Ok(())
    }
}
