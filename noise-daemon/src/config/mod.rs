//! The configuration: file, then flags over it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use crate::analysis::Settings;
use crate::export::SocketOptions;
use crate::measure::cpus::CpuList;
use crate::measure::osnoise::DutyOptions;
use crate::model::Limits;

/// Where the daemon listens unless told otherwise.
pub const DEFAULT_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 19435);

/// Where the daemon's local socket is unless told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/noised/noised.sock";
/// Who may use it unless told otherwise: its owner and its group.
const DEFAULT_SOCKET_MODE: SocketMode = SocketMode(0o660);
/// Its group unless told otherwise, where there is such a group.
const DEFAULT_SOCKET_GROUP: &str = "noised";

/// The configuration file, as written; every key is optional.
#[derive(Debug, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ConfigFile {
    /// The HTTP server.
    #[serde(default)]
    pub web: WebSection,
    /// The local socket.
    #[serde(default)]
    pub socket: SocketSection,
    /// Logging.
    #[serde(default)]
    pub log: LogSection,
    /// When something is unusual.
    #[serde(default)]
    pub incidents: Settings,
    /// What outlives the daemon.
    #[serde(default)]
    pub state: StateSection,
    /// How much is told apart.
    #[serde(default)]
    pub limits: LimitsSection,
    /// Which single waits are told.
    #[serde(default)]
    pub outliers: OutliersSection,
    /// Which CPUs are measured from the inside.
    #[serde(default)]
    pub osnoise: OsnoiseSection,
}

/// `[osnoise]`.
#[derive(Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OsnoiseSection {
    /// The CPUs, as the kernel writes lists; empty = none.
    pub cpus: Option<Cpus>,
    /// From the begin of one measurement to that of the next.
    pub period_milliseconds: Option<Milliseconds>,
    /// How long each takes.
    pub runtime_milliseconds: Option<Milliseconds>,
    /// A gap of this length is noise.
    pub threshold_microseconds: Option<Threshold>,
}

/// The usual period, runtime and threshold: one percent of a CPU.
const OSNOISE_PERIOD: Milliseconds = Milliseconds(1000);
const OSNOISE_RUNTIME: Milliseconds = Milliseconds(10);
const OSNOISE_THRESHOLD: Threshold = Threshold(5);

impl OsnoiseSection {
    /// What to measure, with the usual where nothing is said; CPUs on the command line come first.
    /// `None` where no CPU is measured.
    ///
    /// # Errors
    /// Where the runtime is longer than the period.
    pub fn resolve(&self, cpus: Option<Cpus>) -> anyhow::Result<Option<DutyOptions>> {
        let period = self.period_milliseconds.unwrap_or(OSNOISE_PERIOD);
        let runtime = self.runtime_milliseconds.unwrap_or(OSNOISE_RUNTIME);
        anyhow::ensure!(
            runtime.0 <= period.0,
            "[osnoise]: a runtime of {} ms does not fit into a period of {} ms",
            runtime.0,
            period.0
        );
        let cpus = cpus.or_else(|| self.cpus.clone()).and_then(|cpus| cpus.0);
        Ok(cpus.map(|cpus| DutyOptions {
            cpus,
            period: Duration::from_millis(u64::from(period.0)),
            runtime: Duration::from_millis(u64::from(runtime.0)),
            threshold_ns: u64::from(self.threshold_microseconds.unwrap_or(OSNOISE_THRESHOLD).0)
                * 1_000,
        }))
    }
}

/// CPUs, or none.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub struct Cpus(Option<CpuList>);

impl TryFrom<String> for Cpus {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl std::str::FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() { Ok(Self(None)) } else { text.parse().map(|cpus| Self(Some(cpus))) }
    }
}

/// A time in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "i64")]
pub struct Milliseconds(u32);

/// Largest [`Milliseconds`]: an hour.
const LARGEST_MILLISECONDS: u32 = 3_600_000;

impl TryFrom<i64> for Milliseconds {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, Self::Error> {
        match u32::try_from(number) {
            Ok(time @ 1..=LARGEST_MILLISECONDS) => Ok(Self(time)),
            _ => Err(format!("{number} is not between 1 and {LARGEST_MILLISECONDS}")),
        }
    }
}

/// `[outliers]`.
#[derive(Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OutliersSection {
    /// Length from which on a wait for a CPU is told with what it consists of.
    pub threshold_microseconds: Option<Threshold>,
}

/// A length of waits, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "i64")]
pub struct Threshold(pub u32);

/// The usual [`Threshold`].
pub const DEFAULT_THRESHOLD: Threshold = Threshold(1000);

/// Largest [`Threshold`]: a minute.
const LARGEST_THRESHOLD: u32 = 60_000_000;

impl TryFrom<i64> for Threshold {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, Self::Error> {
        match u32::try_from(number) {
            Ok(threshold @ 1..=LARGEST_THRESHOLD) => Ok(Self(threshold)),
            _ => Err(format!("{number} is not between 1 and {LARGEST_THRESHOLD}")),
        }
    }
}

/// `[web]`.
#[derive(Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WebSection {
    /// Address and port of the server.
    pub listen_address: Option<SocketAddr>,
}

/// `[socket]`.
#[derive(Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SocketSection {
    /// Where it is; empty = there is none.
    pub path: Option<PathBuf>,
    /// Who may use it.
    pub mode: Option<SocketMode>,
    /// The group it belongs to.
    pub group: Option<String>,
}

impl SocketSection {
    /// The socket, with the usual where nothing is said; a path on the command line comes first.
    /// `None` where there is none.
    pub fn resolve(&self, path: Option<PathBuf>) -> Option<SocketOptions> {
        let path = path.or_else(|| self.path.clone()).unwrap_or_else(|| DEFAULT_SOCKET.into());
        let group = self.group.as_deref().unwrap_or(DEFAULT_SOCKET_GROUP).to_owned();
        let mode = self.mode.unwrap_or(DEFAULT_SOCKET_MODE).0;
        (!path.as_os_str().is_empty()).then_some(SocketOptions { path, mode, group })
    }
}

/// Permissions, written as chmod takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub struct SocketMode(u32);

impl TryFrom<String> for SocketMode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match u32::from_str_radix(&text, 8) {
            Ok(mode @ 0..=0o777) if text.len() >= 3 => Ok(Self(mode)),
            _ => Err(format!("`{text}` is not between \"000\" and \"0777\", as chmod takes it")),
        }
    }
}

/// `[log]`.
#[derive(Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LogSection {
    /// Least severe level that is logged.
    pub level: Option<LogLevel>,
}

/// `[state]`.
#[derive(Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StateSection {
    /// Where past incidents are kept; empty = nowhere.
    pub directory: Option<PathBuf>,
}

/// `[limits]`: how many subjects of a metric have series of their own; the others are `~other`.
#[derive(Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LimitsSection {
    /// Of `noised_interference_seconds_total`: victims with their culprits.
    pub interference: Option<Limit>,
    /// Of `noised_preemptions_total`: victims with their culprits.
    pub preemptions: Option<Limit>,
    /// Of `noised_cgroup_runqueue_wait_seconds`: cgroups.
    pub cgroups: Option<Limit>,
}

impl LimitsSection {
    /// The limits, with the usual ones where nothing is said.
    pub fn resolve(&self) -> Limits {
        let usual = Limits::default();
        let or = |said: Option<Limit>, usual| said.map_or(usual, |limit| usize::from(limit.0));
        Limits {
            interference: or(self.interference, usual.interference),
            preemptions: or(self.preemptions, usual.preemptions),
            cgroups: or(self.cgroups, usual.cgroups),
        }
    }
}

/// A number of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "i64")]
pub struct Limit(u16);

/// Largest [`Limit`]: what a server that scrapes many hosts can bear of each.
const LARGEST_LIMIT: u16 = 10_000;

impl TryFrom<i64> for Limit {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, Self::Error> {
        match u16::try_from(number) {
            Ok(limit @ 1..=LARGEST_LIMIT) => Ok(Self(limit)),
            _ => Err(format!("{number} is not between 1 and {LARGEST_LIMIT}")),
        }
    }
}

/// Severity of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What stops something.
    Error,
    /// What an operator should know.
    Warn,
    /// What happens.
    Info,
    /// How it happens; the BPF programs tell what they could not count, and why.
    Debug,
    /// Everything, of the libraries and the BPF programs as well.
    Trace,
}

impl LogLevel {
    /// The filter that shows this level. What the libraries have to say is not for operators.
    pub const fn filter(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "info,noise_daemon=debug,noise_programs=debug",
            Self::Trace => "trace",
        }
    }

    /// Whether this is for those who look for a fault.
    pub const fn is_detailed(self) -> bool {
        matches!(self, Self::Debug | Self::Trace)
    }
}

impl ConfigFile {
    /// Parses the text of a configuration file; `name` is for messages.
    ///
    /// # Errors
    /// Names the file, line, key and what was expected.
    pub fn parse(text: &str, name: &Path) -> anyhow::Result<Self> {
        let wrong = |line: usize, message: &str| {
            let source = text.lines().nth(line - 1).unwrap_or_default().trim();
            anyhow::anyhow!("{}, line {line} (`{source}`): {message}", name.display())
        };
        let file: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| {
                text.get(..span.start).unwrap_or_default().matches('\n').count() + 1
            });
            wrong(line, &error.message().replace('\n', ", "))
        })?;
        file.incidents.check().map_err(|error| {
            // Keys of that section are in no other.
            let is_key = |line: &str| {
                let key = line.trim_start().trim_start_matches("incidents.");
                key.strip_prefix(error.name).is_some_and(|rest| !rest.starts_with('-'))
            };
            let index = text.lines().position(is_key).unwrap_or(0);
            wrong(index + 1, &error.to_string())
        })?;
        Ok(file)
    }

    /// Reads and parses a configuration file.
    ///
    /// # Errors
    /// As [`ConfigFile::parse`], and where the file cannot be read.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the configuration file {}", path.display()))?;
        Self::parse(&text, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> anyhow::Result<ConfigFile> {
        ConfigFile::parse(text, Path::new("noised.toml"))
    }

    #[test]
    fn known_keys_are_read() {
        let config =
            parse("[web]\nlisten-address = \"[::1]:9\"\n[log]\nlevel = \"debug\"\n").unwrap();
        assert_eq!(config.web.listen_address, Some("[::1]:9".parse().unwrap()));
        assert_eq!(config.log.level, Some(LogLevel::Debug));
        assert_eq!(parse("").unwrap(), ConfigFile::default());
        let config = parse(
            "[state]\ndirectory = \"/x\"\n[incidents]\nwatch = [\"softirq\"]\ndeviations = 3.0\n",
        );
        let config = config.unwrap();
        assert_eq!(config.state.directory, Some("/x".into()));
        assert_eq!(config.incidents.deviations, 3.0);
        assert_eq!(config.incidents.chance, Settings::default().chance);
        let limits = parse("[limits]\ninterference = 7\npreemptions = 10000\n").unwrap().limits;
        let resolved = limits.resolve();
        assert_eq!((resolved.interference, resolved.preemptions), (7, 10_000));
        assert_eq!(resolved.cgroups, Limits::default().cgroups);
    }

    #[test]
    fn the_socket_can_be_elsewhere_or_nowhere() {
        let socket = |text: &str, flag: Option<&str>| {
            parse(text).unwrap().socket.resolve(flag.map(PathBuf::from))
        };
        let usual = socket("", None).unwrap();
        assert_eq!((usual.path.to_str(), usual.mode), (Some(DEFAULT_SOCKET), 0o660));
        assert_eq!(usual.group, "noised");
        let text = "[socket]\npath = \"/x\"\nmode = \"0600\"\ngroup = \"ops\"\n";
        let said = socket(text, None).unwrap();
        assert_eq!((said.path.to_str(), said.mode, &*said.group), (Some("/x"), 0o600, "ops"));
        assert_eq!(socket(text, Some("/y")).unwrap().path, Path::new("/y"));
        assert_eq!(socket(text, Some("")), None);
        assert_eq!(socket("[socket]\npath = \"\"\n", None), None);
    }

    #[test]
    fn cpus_are_measured_where_that_is_asked_for() {
        let resolve = |text: &str, flag: Option<&str>| {
            parse(text).unwrap().osnoise.resolve(flag.map(|cpus| cpus.parse().unwrap()))
        };
        assert_eq!(resolve("", None).unwrap(), None);
        let duty = resolve("[osnoise]\ncpus = \"2-3\"\nruntime-milliseconds = 20\n", None);
        let duty = duty.unwrap().unwrap();
        assert_eq!((duty.cpus.to_string(), duty.runtime.as_millis()), ("2,3".to_owned(), 20));
        assert_eq!((duty.period.as_millis(), duty.threshold_ns), (1000, 5_000));
        assert_eq!(resolve("[osnoise]\ncpus = \"2\"\n", Some("")).unwrap(), None);
        let error = resolve("[osnoise]\nperiod-milliseconds = 5\n", None).unwrap_err();
        assert!(error.to_string().contains("a runtime of 10 ms does not fit"), "{error}");
        assert!(parse("[osnoise]\ncpus = \"x\"\n").is_err());
    }

    #[test]
    fn the_readme_shows_the_defaults() {
        let readme = include_str!("../../../README.md");
        let (_, shown) = readme.split_once("```toml\n").unwrap();
        let (shown, _) = shown.split_once("```").unwrap();
        let config = parse(shown).unwrap();
        assert_eq!(config.incidents, Settings::default());
        assert_eq!(config.web.listen_address, Some(DEFAULT_ADDRESS));
        assert_eq!(config.socket.path, Some(DEFAULT_SOCKET.into()));
        assert_eq!(config.socket.mode, Some(DEFAULT_SOCKET_MODE));
        assert_eq!(config.socket.group.as_deref(), Some(DEFAULT_SOCKET_GROUP));
        assert_eq!(config.state.directory, Some(crate::state::DEFAULT_DIRECTORY.into()));
        assert_eq!(config.limits.resolve(), Limits::default());
        assert_eq!(config.outliers.threshold_microseconds, Some(DEFAULT_THRESHOLD));
        let osnoise = &config.osnoise;
        assert_eq!(osnoise.resolve(None).unwrap(), None);
        assert_eq!(osnoise.period_milliseconds, Some(OSNOISE_PERIOD));
        assert_eq!(osnoise.runtime_milliseconds, Some(OSNOISE_RUNTIME));
        assert_eq!(osnoise.threshold_microseconds, Some(OSNOISE_THRESHOLD));
        let keys = toml::to_string(&Settings::default()).unwrap();
        for key in keys.lines().filter_map(|line| line.split_once(" = ")) {
            assert!(shown.contains(&format!("\n{} = ", key.0)), "{}", key.0);
        }
    }

    #[test]
    fn mistakes_name_file_line_key_and_expectation() {
        for (text, line, words) in [
            ("[web]\n\nlisten-adress = \"x\"\n", "line 3", ["listen-adress", "listen-address"]),
            ("[log]\nlevel = \"loud\"\n", "line 2", ["loud", "debug"]),
            ("[web]\nlisten-address = \"nowhere\"\n", "line 2", ["listen-address", "address"]),
            ("[limits]\ninterference = 0\n", "line 2", ["interference", "1 and 10000"]),
            ("[limits]\ncgroups = -5\n", "line 2", ["-5", "between"]),
            ("[limits]\ncgroups = 10001\n", "line 2", ["10001", "between"]),
            ("[outliers]\nthreshold-microseconds = 0\n", "line 2", ["threshold", "60000000"]),
            ("[limits]\npairs = 7\n", "line 2", ["pairs", "preemptions"]),
            ("[socket]\nmode = \"rw\"\n", "line 2", ["rw", "0777"]),
            ("[socket]\nmode = \"1777\"\n", "line 2", ["1777", "0777"]),
            ("[socket]\nmode = 432\n", "line 2", ["432", "string"]),
            ("[socket]\nfile = \"/x\"\n", "line 2", ["file", "path"]),
            ("[web\n", "line 1", ["web", "noised.toml"]),
            ("[state]\ndir = \"/x\"\n", "line 2", ["dir", "directory"]),
            ("[incidents]\ndeviation = 2.0\n", "line 2", ["deviation", "deviations"]),
            ("[incidents]\nenabled = \"no\"\n", "line 2", ["enabled", "boolean"]),
            ("[incidents]\nsubjects = -1\n", "line 2", ["subjects", "-1"]),
            ("[incidents]\n\ndeviations = 0\n", "line 3", ["deviations", "above 0"]),
            ("[incidents]\nchance = 2.0 # x\n", "line 2", ["chance", "between 0 and 1"]),
            (
                "[incidents]\nwarmup-windows = 60\nhalf-life-windows = 30\n",
                "line 3",
                ["half-life-windows", "at least warmup-windows"],
            ),
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
}
