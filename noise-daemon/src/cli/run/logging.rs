//! The log: to standard error, at a level that a reload can change.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload::Handle;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use crate::config::LogLevel;

/// The level of the log that was started.
pub struct Log {
    filter: Handle<EnvFilter, Registry>,
    by_environment: bool,
}

impl Log {
    /// Logs to standard error: in colour on a terminal, and with the part that speaks from debug on.
    pub fn start(level: LogLevel) -> Self {
        let said = EnvFilter::try_from_default_env().ok();
        let by_environment = said.is_some();
        let filter = said.unwrap_or_else(|| EnvFilter::new(level.filter()));
        let (filter, handle) = reload::Layer::new(filter);
        let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let lines =
            fmt::layer().with_writer(io::stderr).with_ansi(colour).with_target(level.is_detailed());
        // A second log in one process is none of the daemon's.
        let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
        Self { filter: handle, by_environment }
    }

    /// Goes on at another level, unless the environment names one.
    pub fn set(&self, level: LogLevel) {
        if self.by_environment {
            return;
        }
        if let Err(error) = self.filter.reload(EnvFilter::new(level.filter())) {
            tracing::warn!(%error, "the level of the log stays as it was");
        }
    }
}
