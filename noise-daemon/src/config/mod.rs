//! The configuration: file, then flags over it.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;

use crate::model::Limits;

/// Where the daemon listens unless told otherwise.
pub const DEFAULT_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 19435);

/// The configuration file, as written; every key is optional.
#[derive(Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ConfigFile {
    /// The HTTP server.
    #[serde(default)]
    pub web: WebSection,
    /// Logging.
    #[serde(default)]
    pub log: LogSection,
    /// How much is told apart.
    #[serde(default)]
    pub limits: LimitsSection,
}

/// `[web]`.
#[derive(Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WebSection {
    /// Address and port of the server.
    pub listen_address: Option<SocketAddr>,
}

/// `[log]`.
#[derive(Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LogSection {
    /// Least severe level that is logged.
    pub level: Option<LogLevel>,
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
        toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| {
                text.get(..span.start).unwrap_or_default().matches('\n').count() + 1
            });
            let source = text.lines().nth(line - 1).unwrap_or_default().trim();
            let message = error.message().replace('\n', ", ");
            anyhow::anyhow!("{}, line {line} (`{source}`): {message}", name.display())
        })
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
        let limits = parse("[limits]\ninterference = 7\npreemptions = 10000\n").unwrap().limits;
        let resolved = limits.resolve();
        assert_eq!((resolved.interference, resolved.preemptions), (7, 10_000));
        assert_eq!(resolved.cgroups, Limits::default().cgroups);
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
            ("[limits]\npairs = 7\n", "line 2", ["pairs", "preemptions"]),
            ("[web\n", "line 1", ["web", "noised.toml"]),
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
