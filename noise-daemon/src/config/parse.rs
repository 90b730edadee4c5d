//! From text to configuration, with mistakes named by file, line and what was probably meant.

use std::path::Path;

use noise_text::nearest::nearest;
use serde::Deserialize as _;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, Table, Value};

use super::keys::{FlagKind, KEYS, Key, REMOVED, get, put};
use super::mistakes::Mistakes;
use super::sections::Config;

/// Mistakes up to which it is looked for what was meant.
const ADVISED: usize = 200;

/// Longest path that the kernel takes, bytes, without its end.
const LONGEST_PATH: usize = 4095;

/// The configuration that the text of a file stands for; `name` is for messages.
/// Errors name the file, line, key and what was expected.
pub fn parse(text: &str, name: &Path) -> anyhow::Result<Config> {
    Ok(content(text, name)?.table.try_into()?)
}

/// What a file says.
#[derive(Default)]
pub(super) struct Content {
    pub table: Table,
    /// Those of [`REMOVED`] that it has.
    pub removed: Vec<&'static str>,
}

/// What a file says, or all that is wrong with it.
pub(super) fn content(text: &str, name: &Path) -> anyhow::Result<Content> {
    let (document, syntax) = DeTable::parse_recoverable(text);
    let document = document.get_ref();
    let (mut found, mut removed) = (Mistakes::default(), Vec::new());
    unknown(document, "", &mut found, &mut removed);
    let table = values(document, &mut found);
    let unreadable = syntax
        .into_iter()
        .map(|error| (error.span().map_or(0, |span| span.start), error.message().to_owned()));
    found.add_unreadable(text, unreadable);
    if found.is_empty() {
        let config: Config = table.clone().try_into()?;
        if let Err(mistake) = check(&config) {
            let key = KEYS.iter().find(|key| key.path() == mistake.key);
            let place = key.and_then(|key| written(document, key));
            found.add(place.map_or(0, |(at, _)| at), &mistake.text);
        }
    }
    found.end(text, name)?;
    Ok(Content { table, removed })
}

/// The values of all keys that are right.
fn values(document: &DeTable<'_>, found: &mut Mistakes) -> Table {
    let mut table = Table::new();
    for key in KEYS {
        let Some((at, value)) = written(document, key) else { continue };
        let items: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
            DeValue::Array(items) if key.kind == FlagKind::List => items.iter().collect(),
            _ => Vec::new(),
        };
        let right = read_value(value).and_then(|value| judged(key, value));
        let message = match right {
            Ok(value) => {
                put(&mut table, key, value);
                continue;
            }
            Err(message) => message,
        };
        // In a list each wrong item is reported by itself, with its own line.
        let mut wrong = items.into_iter().filter_map(|item| {
            let list = read_value(item).map(|item| Value::Array(vec![item]));
            Some((item.span().start, list.and_then(|list| judged(key, list)).err()?))
        });
        match wrong.next() {
            None => found.add(at, &message),
            Some(first) => {
                std::iter::once(first).chain(wrong).for_each(|(at, why)| found.add(at, &why));
            }
        }
    }
    table
}

fn read_value(value: &Spanned<DeValue<'_>>) -> Result<Value, String> {
    let value = ValueDeserializer::from(value.clone());
    Value::deserialize(value).map_err(|error| error.message().to_owned())
}

/// A value that its key can have.
fn judged(key: &Key, value: Value) -> Result<Value, String> {
    let expected = match (key.kind, &value) {
        (FlagKind::Text, Value::String(_))
        | (FlagKind::Integer, Value::Integer(_))
        | (FlagKind::Number, Value::Integer(_) | Value::Float(_))
        | (FlagKind::Switch, Value::Boolean(_)) => None,
        (FlagKind::List, Value::Array(items)) => {
            let other = items.iter().find(|item| !item.is_str());
            other.map(|item| ("names in quotes", item))
        }
        (FlagKind::Text, other) => Some(("a text in quotes", other)),
        (FlagKind::Integer, other) => Some(("a whole number", other)),
        (FlagKind::Number, other) => Some(("a number", other)),
        (FlagKind::Switch, other) => Some(("true or false, without quotes", other)),
        (FlagKind::List, other) => Some(("a list, as in [\"a\", \"b\"]", other)),
    };
    if let Some((expected, value)) = expected {
        return Err(format!("`{}`: expected {expected}, found {}", key.name, described(value)));
    }
    single(key, value.clone()).map(|()| value).map_err(|error| format!("`{}`: {error}", key.name))
}

fn described(value: &Value) -> String {
    match value {
        Value::String(text) => format!("the text \"{text}\""),
        Value::Integer(_) | Value::Float(_) => format!("the number {value}"),
        Value::Boolean(_) => format!("{value}"),
        Value::Datetime(_) => format!("the date {value}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Table(_) => "a section".to_owned(),
    }
}

/// What the library says of a value, in words.
fn in_words(message: &str) -> String {
    let quoted = |begin: &str| {
        let (value, rest) = message.strip_prefix(begin)?.split_once('`')?;
        Some((value.to_owned(), rest.strip_prefix(", expected ")?.to_owned()))
    };
    if let Some((number, expected)) = quoted("invalid value: integer `") {
        let expected = if expected.starts_with('u') { "0 or more" } else { &expected };
        return format!("{number} is not possible: expected {expected}");
    }
    if let Some((name, expected)) = quoted("unknown variant `") {
        return format!("`{name}` is unknown: expected {expected}");
    }
    message.replace('\n', ", ")
}

/// Keys whose values do not go together.
pub(super) struct Mistake {
    pub key: String,
    pub text: String,
}

pub(super) fn check(config: &Config) -> Result<(), Mistake> {
    config.incidents.check().map_err(|error| Mistake {
        key: format!("incidents.{}", error.name),
        text: error.to_string(),
    })?;
    let paths = [
        ("web.config.file", &config.web.config.file),
        ("socket.path", &config.socket.path),
        ("state.directory", &config.state.directory),
    ];
    if let Some((key, _)) = paths.iter().find(|(_, path)| path.as_os_str().len() > LONGEST_PATH) {
        return Err(Mistake {
            key: (*key).to_owned(),
            text: format!("a path has at most {LONGEST_PATH} bytes"),
        });
    }
    let (period, runtime) =
        (config.osnoise.period_milliseconds.get(), config.osnoise.runtime_milliseconds.get());
    if runtime > period {
        return Err(Mistake {
            key: "osnoise.runtime-milliseconds".to_owned(),
            text: format!("a runtime of {runtime} ms does not fit into a period of {period} ms"),
        });
    }
    Ok(())
}

/// Where a key is written, and its value.
fn written<'a, 'b>(table: &'a DeTable<'b>, key: &Key) -> Option<(usize, &'a Spanned<DeValue<'b>>)> {
    let mut table = table;
    let mut parts = key.parts().peekable();
    while let Some(part) = parts.next() {
        let (name, value) = table.iter().find(|(name, _)| name.get_ref() == part)?;
        if parts.peek().is_none() {
            return Some((name.span().start, value));
        }
        table = inner(value)?;
    }
    None
}

/// The keys that do not exist, and what was probably meant, or not any more. `path` leads to the table.
fn unknown(table: &DeTable<'_>, path: &str, found: &mut Mistakes, removed: &mut Vec<&'static str>) {
    for (name, value) in table {
        let own = if path.is_empty() {
            name.get_ref().to_string()
        } else {
            format!("{path}.{}", name.get_ref())
        };
        let begin = format!("{own}.");
        if KEYS.iter().any(|key| key.path() == own) {
            continue;
        }
        if let Some(path) = REMOVED.iter().find(|path| **path == own) {
            removed.push(path);
        } else if !KEYS.iter().any(|key| key.path().starts_with(&begin)) {
            // A file with so many mistakes is no configuration.
            let is_lost = found.count() > ADVISED;
            let message = if is_lost { format!("there is no `{own}`") } else { advice(&own) };
            found.add(name.span().start, &message);
        } else if let Some(inner) = inner(value) {
            unknown(inner, &own, found, removed);
        } else {
            let is_list = matches!(value.get_ref(), DeValue::Array(_));
            let once = if is_list { ", once, in single brackets" } else { "" };
            let text = format!("`{own}` is a section: write [{own}]{once}, and its keys below it");
            found.add(name.span().start, &text);
        }
    }
}

fn inner<'a, 'b>(value: &'a Spanned<DeValue<'b>>) -> Option<&'a DeTable<'b>> {
    match value.get_ref() {
        DeValue::Table(inner) => Some(inner),
        _ => None,
    }
}

/// What to say of a key or section that does not exist.
fn advice(path: &str) -> String {
    let Some((section, name)) = path.split_once('.') else {
        let mut sections: Vec<&str> = KEYS.iter().map(|key| key.section).collect();
        sections.dedup();
        let meant = nearest(path, sections.iter().copied());
        // A key outside of its section is a mistake that is easily made.
        let inside = KEYS.iter().find(|key| key.name == path);
        return match (inside, meant) {
            (Some(key), _) => format!("`{path}` belongs to [{}]", key.section),
            (None, Some(meant)) => format!("there is no [{path}]; did you mean [{meant}]?"),
            (None, None) => format!("there is no [{path}]; there are {}", listed(&sections)),
        };
    };
    let own: Vec<&str> =
        KEYS.iter().filter(|key| key.section == section).map(|key| key.name).collect();
    if let Some(meant) = nearest(name, own.iter().copied()) {
        return format!("there is no `{name}` in [{section}]; did you mean `{meant}`?");
    }
    if let Some(key) = KEYS.iter().find(|key| key.name == name) {
        return format!("there is no `{name}` in [{section}]; it belongs to [{}]", key.section);
    }
    format!("there is no `{name}` in [{section}]; there are {}", listed(&own))
}

fn listed(names: &[&str]) -> String {
    names.join(", ")
}

/// Whether a key can have a value, by itself.
pub(super) fn single(key: &Key, value: Value) -> Result<(), String> {
    let mut table = Table::new();
    put(&mut table, key, value);
    let config: Config =
        table.try_into().map_err(|error: toml::de::Error| in_words(error.message()))?;
    // Everything else in it is as usual.
    config.incidents.check().map_err(|error| error.to_string())
}

pub(super) fn usual(key: &Key) -> Option<Value> {
    let table = Table::try_from(Config::default()).ok()?;
    get(&table, key).cloned()
}

#[cfg(test)]
mod tests {
    use noise_analysis::Settings;
    use noise_model::Limits;

    use super::*;
    use crate::config::{Applies, Flags, LogLevel, load, sample};

    fn parse(text: &str) -> anyhow::Result<Config> {
        super::parse(text, Path::new("noised.toml"))
    }

    #[test]
    fn known_keys_are_read() {
        let config =
            parse("[web]\nlisten-address = \"[::1]:9\"\n[log]\nlevel = \"debug\"\n").unwrap();
        assert_eq!(config.web.listen_address.to_string(), "[::1]:9");
        assert_eq!(config.log.level, LogLevel::Debug);
        assert_eq!(parse("").unwrap(), Config::default());
        let config = parse(
            "[state]\ndirectory = \"/x\"\n[incidents]\nwatch = [\"softirq\"]\nminimum-lost = 3\n",
        );
        let config = config.unwrap();
        assert_eq!(config.state.directory, Path::new("/x"));
        assert_eq!(config.incidents.minimum_lost, 3.0);
        assert_eq!(config.incidents.minimum_taken, Settings::default().minimum_taken);
        let limits = parse("[limits]\ninterference = 7\npreemptions = 10000\n").unwrap().limits;
        let limits = limits.limits();
        assert_eq!((limits.interference, limits.preemptions), (7, 10_000));
        assert_eq!(limits.cgroups, Limits::default().cgroups);
        assert_eq!(Config::default().limits.limits(), Limits::default());
        let measured = Config::default().measured();
        assert_eq!(measured.events, noise_common::store::event::USUAL_CLASSES);
        let quiet = noise_host::kernel::Measured { events: Vec::new(), ..measured };
        assert_eq!(quiet, noise_host::kernel::Measured::default());
        let of_week =
            |bytes_per_second| Some(noise_keep::demand::PeakRate { bytes_per_second, days: 7 });
        let recorder =
            parse("[recorder]\nkibibytes-per-cpu = 8\nclasses = [\"io\"]\n").unwrap().recorder;
        let size = noise_host::kernel::RecorderSize { per_cpu: 8 << 10, all: 64 << 20 };
        // Whatever the host does.
        assert_eq!([recorder.size(None), recorder.size(of_week(1 << 30))], [size; 2]);
        assert!(!recorder.follows_host());
        assert_eq!(recorder.classes.len(), 1);
        let off = parse("[recorder]\nenabled = false\n").unwrap().recorder;
        assert_eq!(off.size(of_week(7)), noise_host::kernel::RecorderSize::default());
        assert!(!off.follows_host());
        let usual = Config::default().recorder;
        assert!(usual.follows_host());
        let of_two = |rate| usual.size(rate).share(2) >> 20;
        let rates = [None, of_week(0), of_week(1_000_000), of_week(10_000_000)];
        assert_eq!(rates.map(of_two), [8, 1, 16, 32]);
        let shorter = parse("[recorder]\nseconds = 2\n").unwrap().recorder;
        assert_eq!(shorter.size(of_week(1_000_000)).per_cpu, 2 << 20);
        let file = parse("[web]\nconfig.file = \"/x\"\n").unwrap().web.config.file;
        assert_eq!(file, Path::new("/x"));
    }

    #[test]
    fn the_socket_can_be_elsewhere_or_nowhere() {
        let socket = |text: &str| parse(text).unwrap().socket.options();
        let usual = socket("").unwrap();
        assert_eq!(
            (usual.path.to_str(), usual.mode),
            (Some(noise_client::connect::DEFAULT_SOCKET), 0o660)
        );
        assert_eq!(usual.group, "noised");
        let text = "[socket]\npath = \"/x\"\nmode = \"0600\"\ngroup = \"ops\"\n";
        let said = socket(text).unwrap();
        assert_eq!((said.path.to_str(), said.mode, &*said.group), (Some("/x"), 0o600, "ops"));
        assert_eq!(socket("[socket]\npath = \"\"\n"), None);
        let marks = |text: &str| parse(text).unwrap().socket.marks();
        let beside = marks("[socket]\npath = \"/x/a.sock\"\nmode = \"0600\"\n").unwrap();
        assert_eq!((beside.path, beside.mode), ("/x/a.marks".into(), 0o600));
        assert_eq!(marks("[socket]\nmarks = false\n"), None);
        assert_eq!(marks("[socket]\npath = \"\"\n"), None);
    }

    #[test]
    fn cpus_are_measured_where_that_is_asked_for() {
        let duty = |text: &str| parse(text).unwrap().osnoise.duty();
        assert_eq!(duty(""), None);
        let some = duty("[osnoise]\ncpus = \"2-3\"\nruntime-milliseconds = 20\n").unwrap();
        assert_eq!((some.cpus.to_string(), some.runtime.as_millis()), ("2,3".to_owned(), 20));
        assert_eq!((some.period.as_millis(), some.threshold_ns), (1000, 5_000));
        assert_eq!(duty("[osnoise]\ncpus = \"\"\n"), None);
        let error = parse("[osnoise]\nruntime-milliseconds = 5\nperiod-milliseconds = 4\n");
        let error = error.unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("a runtime of 5 ms"), "{error}");
        assert!(parse("[osnoise]\ncpus = \"x\"\n").is_err());
    }

    #[test]
    fn the_table_of_keys_is_whole() {
        let table = Table::try_from(Config::default()).unwrap();
        let mut fields = 0;
        for (section, keys) in &table {
            for (name, value) in keys.as_table().unwrap() {
                let own = format!("{section}.{name}");
                let begin = format!("{own}.");
                let known = |key: &&Key| key.path() == own || key.path().starts_with(&begin);
                assert!(KEYS.iter().any(|key| known(&key)), "{own} has no row");
                fields += value.as_table().map_or(1, Table::len);
            }
        }
        assert_eq!(KEYS.len(), fields);
        for key in KEYS {
            assert!(usual(key).is_some(), "{} is no field", key.path());
            assert!(key.help.len() > 10, "{}", key.path());
        }
        assert!(KEYS.is_sorted_by_key(|key| KEYS.iter().position(|of| of.section == key.section)));
        assert!(KEYS.iter().any(|key| key.applies == Applies::AtStart));
    }

    /// Written anew with `NOISED_BLESS=1 cargo test -p noise-daemon config`.
    #[test]
    fn the_sample_is_as_generated_and_says_what_is_usual() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/noised.toml");
        if std::env::var_os("NOISED_BLESS").is_some() {
            std::fs::write(&path, sample()).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, sample());
        assert_eq!(parse(&text).unwrap(), Config::default());
        let is_key = |line: &str| line.starts_with('#') && !line.starts_with("# ") && line != "#";
        assert_eq!(text.lines().filter(|line| is_key(line)).count(), KEYS.len());
        let bare: Vec<&str> =
            text.lines().map(|line| if is_key(line) { &line[1..] } else { line }).collect();
        assert_eq!(parse(&bare.join("\n")).unwrap(), Config::default());
    }

    #[test]
    fn the_pages_show_what_is_usual() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let listed =
            std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
        let pages = listed.chain([root.join("README.md")]);
        let texts = pages.map(|page| std::fs::read_to_string(page).unwrap()).collect::<String>();
        let rest = texts.split("```toml\n").skip(1);
        let shown: Vec<&str> = rest.map(|rest| rest.split_once("```").unwrap().0).collect();
        assert!(!shown.is_empty());
        for shown in shown {
            assert_eq!(parse(shown).unwrap(), Config::default(), "{shown}");
        }
    }

    #[test]
    fn mistakes_name_file_line_key_and_expectation() {
        for (text, line, words) in [
            (
                "[web]\n\nlisten-adress = \"x\"\n",
                "line 3",
                ["listen-adress", "did you mean `listen-address`?"],
            ),
            ("[log]\nlevel = \"loud\"\n", "line 2", ["loud", "debug"]),
            ("[web]\nlisten-address = \"nowhere\"\n", "line 2", ["listen-address", "address"]),
            ("[web]\nconfig.fil = \"/x\"\n", "line 2", ["`config.fil`", "`config.file`"]),
            ("[limits]\ninterference = 0\n", "line 2", ["interference", "1 and 10000"]),
            ("[limits]\ncgroups = -5\n", "line 2", ["-5", "between"]),
            ("[limits]\ncgroups = 10001\n", "line 2", ["10001", "between"]),
            ("[outliers]\nthreshold-microseconds = 0\n", "line 2", ["threshold", "60000000"]),
            (
                "[outliers]\nthreshold = 5\n",
                "line 2",
                ["`threshold`", "did you mean `threshold-microseconds`?"],
            ),
            ("[limits]\npairs = 7\n", "line 2", ["pairs", "preemptions"]),
            ("[limit]\ncgroups = 7\n", "line 1", ["[limit]", "did you mean [limits]?"]),
            ("[colours]\nred = 7\n", "line 1", ["[colours]", "privileges"]),
            ("cgroups = 7\n", "line 1", ["cgroups", "belongs to [limits]"]),
            ("[log]\ncgroups = 7\n", "line 2", ["cgroups", "belongs to [limits]"]),
            ("[signals]\noff = [\"disk\"]\n", "line 2", ["`disk`", "block_device_wait"]),
            ("[socket]\nmode = \"rw\"\n", "line 2", ["rw", "0777"]),
            ("[socket]\nmode = \"1777\"\n", "line 2", ["1777", "0777"]),
            ("[socket]\nmode = 432\n", "line 2", ["the number 432", "text in quotes"]),
            ("[socket]\nfile = \"/x\"\n", "line 2", ["file", "path"]),
            ("[web\n", "line 1", ["web", "noised.toml"]),
            ("[state]\ndir = \"/x\"\n", "line 2", ["dir", "directory"]),
            ("[incidents]\nminimum-lots = 2.0\n", "line 2", ["minimum-lots", "minimum-lost"]),
            ("[incidents]\nenabled = \"no\"\n", "line 2", ["enabled", "expected true or false"]),
            ("[incidents]\nsubjects = -1\n", "line 2", ["subjects", "-1"]),
            ("[incidents]\n\nminimum-lost = -1 # x\n", "line 3", ["minimum-lost", "0 or more"]),
            ("[incidents]\nwarmup-windows = 1\n", "line 2", ["warmup-windows", "2 or more"]),
            (
                "[incidents]\nwatch = [\"runqueue\"]\n",
                "line 2",
                ["`runqueue`", "cgroup_runqueue_wait"],
            ),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(line), "{error}");
            for word in words {
                assert!(error.contains(word), "{error}");
            }
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn all_mistakes_are_reported_at_once_in_words() {
        let text = "[web]\nlisten-adress = \"x\"\n[limits]\ncgroups = \"many\"\npreemptions = 2.5\n\
                    [signals]\noff = [\"nmi\", \"disk\",\n  \"net\"]\n[incidents]\nwatch = \"nmi\"\n\
                    minimum-lost = \"x\"\nsubjects = -1\n[log]\nlevel = \"loud\"\n[[state]]\ndirectory = \"/x\"\n";
        let error = parse(text).unwrap_err().to_string();
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines[0], "10 mistakes in noised.toml:", "{error}");
        for (line, words) in lines[1..].iter().zip([
            "line 2 (`listen-adress = \"x\"`): there is no `listen-adress`",
            "line 4 (`cgroups = \"many\"`): `cgroups`: expected a whole number, found the text \"many\"",
            "line 5 (`preemptions = 2.5`): `preemptions`: expected a whole number, found the number 2.5",
            "line 7 (`off = [\"nmi\", \"disk\",`): `off`: there is no signal `disk`",
            "line 8 (`\"net\"]`): `off`: there is no signal `net`",
            "line 10 (`watch = \"nmi\"`): `watch`: expected a list",
            "line 11 (`minimum-lost = \"x\"`): `minimum-lost`: expected a number",
            "line 12 (`subjects = -1`): `subjects`: -1 is not possible: expected 0 or more",
            "line 14 (`level = \"loud\"`): `level`: `loud` is unknown: expected one of `error`",
            "line 15 (`[[state]]`): `state` is a section: write [state], once",
        ]) {
            assert!(line.starts_with("noised.toml, ") && line.contains(words), "{error}");
        }
        for words in ["i64", "u64", "usize", "f64", "integer", "boolean", "invalid type"] {
            assert!(!error.contains(words), "{words}: {error}");
        }
        // What cannot be read at all is reported beside what is wrong.
        let error = parse("[log]\nlevel = 5\n[limits]\ncgroups =\n").unwrap_err().to_string();
        for words in ["line 2 (`level = 5`): `level`: expected a text in quotes", "line 4"] {
            assert!(error.contains(words), "{error}");
        }
        let error = parse("[[[\n").unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        let many: String = (0..100).map(|number| format!("key{number} = 1\n")).collect();
        let error = parse(&many).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 22, "{error}");
        assert!(error.ends_with("and 80 more"), "{error}");
    }

    #[test]
    fn a_file_of_nothing_but_mistakes_is_refused_soon() {
        let begin = std::time::Instant::now();
        for text in ["\0", "x", "=\n", "[", "a=\n", "[[a]]\n", "\"", "a.", "a=[", "{"] {
            let error = parse(&text.repeat((1 << 16) / text.len())).unwrap_err().to_string();
            assert!(error.lines().count() <= 22, "{text}");
            assert!(error.len() < 20 * 4_000, "{text}: {} bytes", error.len());
        }
        assert!(begin.elapsed().as_secs() < 60, "{:?}", begin.elapsed());
    }

    #[test]
    fn no_content_makes_a_long_message() {
        let long = "x".repeat(1 << 20);
        for text in [
            "\0".repeat(1 << 20),
            format!("[{long}]\n"),
            format!("{long} = 7\n"),
            format!("[web]\n{long} = 7\n"),
            format!("[log]\nlevel = \"{long}\"\n"),
            format!("[log]\nlevel = \"{}\"\n", "`".repeat(1 << 20)),
            format!("[signals]\noff = [\"{long}\"]\n"),
            format!("[limits]\ncgroups = \"{long}\"\n"),
            format!("[socket]\nmode = \"{long}\"\n"),
            format!("[web]\nlisten-address = \"{long}\"\n"),
            format!("[state]\ndirectory = \"/{long}\"\n"),
            format!("{long} = 1\n{long} = 1\n"),
        ] {
            let error = parse(&text).unwrap_err().to_string();
            let begin: String = text.chars().take(40).collect();
            // A line for each mistake, of which there are few.
            assert!(error.lines().count() <= 4, "{begin}");
            for line in error.lines() {
                assert!(line.len() < 1500, "{} bytes for {begin}", line.len());
                assert!(!line.contains(char::is_control), "{line:?}");
            }
        }
    }

    #[test]
    fn what_may_block_or_has_no_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("noised.toml");
        let error = |path: &Path| format!("{:#}", load(Some(path), &Flags::default()).unwrap_err());
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(error(&path).ends_with("noised.toml: it is a FIFO, not a regular file"));
        std::fs::remove_file(&path).unwrap();
        std::fs::File::create(&path).unwrap().set_len(100 << 20).unwrap();
        assert!(error(&path).ends_with("noised.toml: it is longer than 1048576 bytes"));
        assert!(error(Path::new("/dev/zero")).ends_with("it is a device, not a regular file"));
    }

    #[test]
    fn a_missing_file_is_no_mistake_unless_it_was_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("noised.toml");
        let error = load(Some(&missing), &Flags::default()).unwrap_err();
        assert!(error.to_string().contains("cannot read"), "{error}");
        assert_eq!(load(Some(Path::new("")), &Flags::default()).unwrap().config, Config::default());
    }
}
