//! Where the configuration comes from: the usual values, a file, and the flags.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context as _;
use noise_client::connect::DEFAULT_FILE;
use noise_system::files;
use noise_text::clean::brief;

use super::flags::Flags;
use super::keys::{KEYS, REMOVED, get, put};
use super::parse::{Content, check, content};
use super::sections::Config;

#[derive(Clone, Debug, PartialEq)]
pub struct Configured {
    pub config: Config,
    /// Keys that do not exist any more, from the file and the flags.
    removed: Vec<&'static str>,
}

impl Configured {
    /// Names the keys that do not exist any more, if any were given.
    pub fn warning(&self) -> Option<String> {
        let names = self.removed.join(", ");
        let warning =
            "these keys do not exist any more and are ignored; remove them from the configuration";
        (!names.is_empty()).then(|| format!("{warning}: {names}"))
    }
}

/// The configuration: the usual values, the file over them, the flags over that. `None` reads
/// [`DEFAULT_FILE`] if there is one; an empty path reads none.
/// Errors name the file, line, key and what was expected.
pub fn load(file: Option<&Path>, flags: &Flags) -> anyhow::Result<Configured> {
    let Content { mut table, removed } = match file {
        Some(path) if path.as_os_str().is_empty() => Content::default(),
        Some(path) => read(path)?,
        None => match read(DEFAULT_FILE.as_ref()) {
            Ok(content) => content,
            Err(error) if is_missing(&error) => Content::default(),
            Err(error) => return Err(error),
        },
    };
    for key in KEYS {
        if let Some(value) = get(&flags.table, key) {
            put(&mut table, key, value.clone());
        }
    }
    // Its own words have lines.
    let mistaken = |error: toml::de::Error| anyhow::anyhow!(brief(&error.to_string()));
    let config: Config =
        table.try_into().map_err(mistaken).context("the flags do not go with the file")?;
    check(&config).map_err(|mistake| anyhow::anyhow!("{}: {}", mistake.key, mistake.text))?;
    let given = |path: &&&str| removed.contains(path) || flags.removed.contains(path);
    Ok(Configured { config, removed: REMOVED.iter().filter(given).copied().collect() })
}

fn is_missing(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::NotFound)
}

fn read(path: &Path) -> anyhow::Result<Content> {
    let text = files::read_text(path, files::MAX_FILE_BYTES)
        .with_context(|| format!("cannot read the configuration file {}", path.display()))?;
    content(&text, path)
}
