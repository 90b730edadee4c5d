//! Where the configuration comes from: the usual values, a file, and the flags.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context as _;
use noise_system::files;
use toml::Table;

use super::flags::Flags;
use super::keys::{KEYS, get, put};
use super::parse::{check, table};
use super::sections::Config;

/// The file that is read where none is named; it may be missing.
pub const DEFAULT_FILE: &str = "/etc/noised/noised.toml";

/// The configuration: the usual values, the file over them, the flags over that. `None` reads
/// [`DEFAULT_FILE`] if there is one; an empty path reads none.
///
/// # Errors
/// Names the file, line, key and what was expected.
pub fn load(file: Option<&Path>, flags: &Flags) -> anyhow::Result<Config> {
    let mut table = match file {
        Some(path) if path.as_os_str().is_empty() => Table::new(),
        Some(path) => read(path)?,
        None => match read(DEFAULT_FILE.as_ref()) {
            Ok(table) => table,
            Err(error) if is_missing(&error) => Table::new(),
            Err(error) => return Err(error),
        },
    };
    for key in KEYS {
        if let Some(value) = get(&flags.0, key) {
            put(&mut table, key, value.clone());
        }
    }
    let config: Config = table.try_into().context("the flags do not go with the file")?;
    check(&config).map_err(|mistake| anyhow::anyhow!("{}: {}", mistake.key, mistake.text))?;
    Ok(config)
}

fn is_missing(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::NotFound)
}

fn read(path: &Path) -> anyhow::Result<Table> {
    let text = files::read_text(path, files::MAX_FILE_BYTES)
        .with_context(|| format!("cannot read the configuration file {}", path.display()))?;
    table(&text, path)
}
