//! Every key as a flag.

use clap::builder::ValueParser;
use clap::{Arg, ArgMatches, Command};
use toml::{Table, Value};

use super::keys::{FlagKind, KEYS, Key, REMOVED, put};
use super::parse::{single, usual};

/// The keys that were given as flags, as a file would have them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flags {
    pub(super) table: Table,
    /// Those of [`REMOVED`] that were given.
    pub(super) removed: Vec<&'static str>,
}

/// The value that a flag's text stands for.
fn value(kind: FlagKind, text: &str) -> Result<Value, String> {
    let expected = |what: &str| format!("`{text}` is not {what}");
    match kind {
        FlagKind::Text => Ok(Value::String(text.to_owned())),
        FlagKind::Integer => {
            text.parse().map(Value::Integer).map_err(|_| expected("a whole number"))
        }
        FlagKind::Number => text.parse().map(Value::Float).map_err(|_| expected("a number")),
        FlagKind::Switch => text.parse().map(Value::Boolean).map_err(|_| expected("true or false")),
        FlagKind::List => {
            let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
            Ok(Value::Array(names.map(|name| Value::String(name.to_owned())).collect()))
        }
    }
}

/// A value as a flag takes it.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(written).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn parser(key: &'static Key) -> ValueParser {
    ValueParser::from(move |text: &str| -> Result<Value, String> {
        let value = value(key.kind, text)?;
        single(key, value.clone())?;
        Ok(value)
    })
}

fn argument(key: &'static Key) -> Arg {
    let usual = usual(key).map(|value| written(&value)).unwrap_or_default();
    let usual = if usual.is_empty() { "none".to_owned() } else { usual };
    Arg::new(key.path())
        .long(key.path())
        .value_name(key.value)
        .value_parser(parser(key))
        .allow_hyphen_values(matches!(key.kind, FlagKind::Integer | FlagKind::Number))
        .help_heading(format!("[{}]", key.section))
        .help(format!("{} [default: {usual}]", key.help))
}

/// Takes any value: it is ignored.
fn removed(path: &'static str) -> Arg {
    Arg::new(path).long(path).num_args(1).allow_hyphen_values(true).hide(true)
}

impl clap::Args for Flags {
    fn augment_args(command: Command) -> Command {
        command.args(KEYS.iter().map(argument)).args(REMOVED.iter().copied().map(removed))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for key in KEYS {
            if let Some(value) = matches.get_one::<Value>(&key.path()) {
                put(&mut self.table, key, value.clone());
            }
        }
        self.removed.extend(REMOVED.iter().filter(|path| matches.contains_id(path)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::keys::get;
    use crate::config::load;
    use noise_command::fixtures::parsed;

    fn flags(arguments: &[&str]) -> Result<Flags, String> {
        parsed(arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn every_key_is_a_flag_that_takes_its_usual_value() {
        for key in KEYS {
            let value = usual(key).unwrap();
            let flag = format!("--{}={}", key.path(), written(&value));
            let given = flags(&[&flag]).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(get(&given.table, key), Some(&value), "{flag}");
        }
        assert_eq!(flags(&[]).unwrap(), Flags::default());
    }

    #[test]
    fn mistakes_name_the_flag_and_what_is_expected() {
        for (flag, words) in [
            ("--limits.interference=0", "0 is not between 1 and 10000"),
            ("--limits.interference=many", "`many` is not a whole number"),
            ("--limits.interference=-1", "-1 is not between"),
            ("--web.listen-address=nowhere", "a host and a port"),
            ("--socket.mode=rw", "0777"),
            ("--log.level=loud", "`loud` is unknown"),
            ("--signals.off=runqueue_wait,disk", "there is no signal `disk`"),
            ("--incidents.enabled=perhaps", "`perhaps` is not true or false"),
            ("--incidents.recent-windows=2", "recent-windows must be from 4 to 1024"),
            ("--osnoise.cpus=x", "x"),
        ] {
            let error = flags(&[flag]).unwrap_err();
            assert!(error.contains(words), "{error}");
            assert!(error.contains(flag.split_once('=').unwrap().0), "{error}");
        }
        assert!(flags(&["--web.listen-adress=[::1]:1"]).unwrap_err().contains("listen-address"));
    }

    #[test]
    fn keys_of_earlier_versions_are_ignored_and_named_in_one_warning() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("noised.toml");
        // Whatever their values are.
        let values = ["3.0", "-1", "1e999", "\"x\"", "true", "[]", "{ a = 1 }"].into_iter().cycle();
        let lines = REMOVED.iter().zip(values).map(|(path, value)| format!("{path} = {value}\n"));
        std::fs::write(&file, format!("{}limits.cgroups = 7\n", lines.collect::<String>()))
            .unwrap();
        let configured = load(Some(&file), &Flags::default()).unwrap();
        assert_eq!(configured.config.limits.cgroups.get(), 7);
        let warning = configured.warning().unwrap();
        assert!(warning.ends_with(&format!(": {}", REMOVED.join(", "))), "{warning}");
        assert_eq!(warning.lines().count(), 1);
        // The same as flags, and each once where both have it.
        let given: Vec<String> = REMOVED.iter().map(|path| format!("--{path}=-1")).collect();
        let flags = flags(&given.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        assert_eq!(load(Some(Path::new("")), &flags).unwrap().warning(), Some(warning.clone()));
        assert_eq!(load(Some(&file), &flags).unwrap().warning(), Some(warning));
        assert!(REMOVED.iter().all(|path| KEYS.iter().all(|key| key.path() != **path)));
        assert_eq!(load(Some(Path::new("")), &Flags::default()).unwrap().warning(), None);
    }

    #[test]
    fn flags_come_before_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("noised.toml");
        std::fs::write(&file, "[limits]\ncgroups = 7\npreemptions = 8\n").unwrap();
        let flags = flags(&["--limits.cgroups", "9", "--signals.off", "nmi"]).unwrap();
        let config = load(Some(&file), &flags).unwrap().config;
        assert_eq!((config.limits.cgroups.get(), config.limits.preemptions.get()), (9, 8));
        assert!(!config.measured().measures(noise_common::signals::Signal::Nmi));
        assert_eq!(load(None, &Flags::default()).unwrap().config, crate::config::Config::default());
    }
}
