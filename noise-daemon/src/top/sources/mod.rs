//! Where frames come from: a daemon, the kernel itself, or a recording.

mod engine;
#[cfg(test)]
mod fake;
mod http;
mod mailbox;
mod remote;
mod replay;
mod socket;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;

pub use self::engine::EngineSource;
use self::remote::Fault;
pub use self::replay::ReplaySource;
use self::socket::SocketLink;
use super::source::Source;
use crate::config::DEFAULT_SOCKET;
use crate::kernel::KernelError;

/// A daemon that somebody named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connect {
    /// By its local socket.
    Socket(PathBuf),
    /// By its address, `http://` or `https://`.
    Http(String),
}

impl FromStr for Connect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = || {
            "expected the path of a socket, or an address such as http://127.0.0.1:19435".to_owned()
        };
        match text.split_once("://") {
            Some(("http" | "https", host)) if !host.is_empty() && !host.starts_with('/') => {
                let uri = text.parse::<axum::http::Uri>().map_err(|error| error.to_string())?;
                match uri.query() {
                    None => Ok(Self::Http(text.to_owned())),
                    Some(_) => Err(expected()),
                }
            }
            // A host and port without a scheme is more likely than a file of that name.
            None if text.contains('/') => Ok(Self::Socket(text.into())),
            _ => Err(expected()),
        }
    }
}

/// Why there is no source.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No daemon, and no privileges.
    #[error("{0}")]
    NoSource(String),
    /// No daemon, and the kernel side does not work.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Anything else.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
}

/// The daemon that somebody named; else the one of this host; else the kernel itself, where that is
/// allowed.
///
/// # Errors
/// Where there is neither; see [`OpenError`].
pub fn open(connect: Option<&Connect>, interval: Duration) -> Result<Box<dyn Source>, OpenError> {
    match connect {
        Some(Connect::Socket(path)) => over_socket(path, interval),
        Some(Connect::Http(address)) => {
            let source = http::start(address, interval).context("cannot start a thread")?;
            Ok(Box::new(source))
        }
        None => choose(Path::new(DEFAULT_SOCKET), interval, || {
            Ok(Box::new(EngineSource::start(interval)?))
        }),
    }
}

fn over_socket(path: &Path, interval: Duration) -> Result<Box<dyn Source>, OpenError> {
    let source = socket::start(path, interval).context("cannot start a thread")?;
    Ok(Box::new(source))
}

fn choose(
    path: &Path,
    interval: Duration,
    engine: impl FnOnce() -> Result<Box<dyn Source>, OpenError>,
) -> Result<Box<dyn Source>, OpenError> {
    let fault = match remote::ask(&mut SocketLink::new(path.to_owned()), 0) {
        Err(fault @ (Fault::Absent { .. } | Fault::Denied { .. })) => fault,
        // Whoever is there, also one that hangs: to measure beside it would cost twice.
        _ => return over_socket(path, interval),
    };
    match engine() {
        Err(OpenError::Kernel(KernelError::NotPermitted { missing })) => {
            Err(OpenError::NoSource(match fault {
                Fault::Denied { .. } => fault.to_string(),
                _ => format!(
                    "no noised runs here (nobody answers at {}), and measuring without one needs \
                     {missing}: start one with `sudo noised run`, look with `sudo noised top`, or \
                     name one with --connect http://HOST:19435",
                    path.display()
                ),
            }))
        }
        opened => opened,
    }
}
