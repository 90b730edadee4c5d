//! What differs between two configurations, and what becomes of it while the daemon runs.

use anyhow::Context as _;
use toml::Table;

use super::keys::{KEYS, Key, get, put};
use super::sections::Config;

/// The keys whose values differ, in the order of the table.
/// Errors: where a configuration cannot be written as one.
pub fn changes(before: &Config, after: &Config) -> anyhow::Result<Vec<&'static Key>> {
    let (before, after) = (Table::try_from(before)?, Table::try_from(after)?);
    Ok(KEYS.iter().filter(|key| get(&before, key) != get(&after, key)).collect())
}

/// What runs once a reload is done: what is wanted, but for the keys that need a restart.
/// Errors: those of [`changes`].
pub fn applied(running: &Config, wanted: &Config) -> anyhow::Result<Config> {
    let (running, mut table) = (Table::try_from(running)?, Table::try_from(wanted)?);
    for key in KEYS.iter().filter(|key| !key.is_live()) {
        let value = get(&running, key).with_context(|| format!("{} has no value", key.path()))?;
        put(&mut table, key, value.clone());
    }
    Ok(table.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        toml::from_str(text).unwrap()
    }

    const OTHER: &str = "[web]\nlisten-address = \"[::1]:1\"\nconfig.file = \"/x\"\n[signals]\n\
                         off = [\"nmi\"]\n[incidents]\nminimum-lost = 3\n";

    #[test]
    fn every_key_that_differs_is_reported_with_what_becomes_of_it() {
        let before = config("");
        assert_eq!(changes(&before, &before).unwrap(), [] as [&Key; 0]);
        let seen: Vec<(String, bool)> = changes(&before, &config(OTHER))
            .unwrap()
            .into_iter()
            .map(|key| (key.path(), key.is_live()))
            .collect();
        let expected = [
            ("web.listen-address", false),
            ("web.config.file", false),
            ("signals.off", true),
            ("incidents.minimum-lost", true),
        ];
        assert_eq!(seen, expected.map(|(path, live)| (path.to_owned(), live)));
    }

    #[test]
    fn what_needs_a_restart_stays_as_it_runs() {
        let (running, wanted) = (config("[log]\nlevel = \"warn\"\n"), config(OTHER));
        let applied = applied(&running, &wanted).unwrap();
        let live = "[signals]\noff = [\"nmi\"]\n[incidents]\nminimum-lost = 3\n";
        assert_eq!(applied, config(live));
        // It is reported again with the next reload.
        let later: Vec<String> =
            changes(&applied, &wanted).unwrap().iter().map(|key| key.path()).collect();
        assert_eq!(later, ["web.listen-address", "web.config.file"]);
    }
}
