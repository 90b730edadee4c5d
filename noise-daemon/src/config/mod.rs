//! The configuration: file, then flags over it.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;

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
    }

    #[test]
    fn mistakes_name_file_line_key_and_expectation() {
        for (text, line, words) in [
            ("[web]\n\nlisten-adress = \"x\"\n", "line 3", ["listen-adress", "listen-address"]),
            ("[log]\nlevel = \"loud\"\n", "line 2", ["loud", "debug"]),
            ("[web]\nlisten-address = \"nowhere\"\n", "line 2", ["listen-address", "address"]),
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
