//! Daemons as they are named on the command line.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::anyhow;
use noise_top::sources::Fault;

use super::{CommandError, Exit};

/// A daemon that the user named.
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
            "expected the path of a socket such as ./noised.sock, or an address such as http://127.0.0.1:19435"
                .to_owned()
        };
        if let Some(path) = path_of(text) {
            return Ok(Self::Socket(path));
        }
        match text.split_once("://") {
            Some(("http" | "https", host)) if !host.is_empty() && !host.starts_with('/') => {
                let uri = text.parse::<axum::http::Uri>().map_err(|error| error.to_string())?;
                if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
                    return Err("others can read what is on a command line: a name and a \
                                password belong into the file of --http.config.file"
                        .to_owned());
                }
                match uri.query() {
                    None => Ok(Self::Http(text.to_owned())),
                    Some(_) => Err(expected()),
                }
            }
            _ => Err(expected()),
        }
    }
}

/// Reads the path of a socket, for commands that need a daemon on this host.
///
/// # Errors
/// Says what is expected.
pub fn socket(text: &str) -> Result<PathBuf, String> {
    path_of(text).ok_or_else(|| {
        "expected the path of a socket such as ./noised.sock: events are had of a daemon on this host alone".to_owned()
    })
}

/// What to do where a daemon that the user named by its socket does not answer.
pub fn unanswered(fault: Fault) -> CommandError {
    match fault {
        Fault::Absent { place, reason } => {
            anyhow!("no noised answers at {place} ({reason}): start one, or leave --connect out")
                .into()
        }
        Fault::Denied { .. } => CommandError { exit: Exit::Unsupported, source: fault.into() },
        other => anyhow::Error::from(other).into(),
    }
}

/// A path, which `unix:` may stand before. A host and port without a scheme is more likely than a file of that name.
fn path_of(text: &str) -> Option<PathBuf> {
    if let Some(path) = text.strip_prefix("unix:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        return Some(path.into()).filter(|_| !path.is_empty());
    }
    let is_path = !text.contains("://") && (text.contains('/') || text.ends_with(".sock"));
    is_path.then(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_are_named_by_socket_or_address() {
        let connect = |text: &str| text.parse::<Connect>();
        for (text, path) in [
            ("/run/x.sock", "/run/x.sock"),
            ("./x.sock", "./x.sock"),
            ("x.sock", "x.sock"),
            ("a/x", "a/x"),
            ("unix:x", "x"),
            ("unix:./x.sock", "./x.sock"),
            ("unix:///run/x.sock", "/run/x.sock"),
        ] {
            assert_eq!(connect(text), Ok(Connect::Socket(path.into())), "{text}");
            assert_eq!(socket(text), Ok(path.into()), "{text}");
        }
        for good in ["http://127.0.0.1:19435", "https://host.example/behind/"] {
            assert_eq!(connect(good), Ok(Connect::Http(good.to_owned())));
            assert!(socket(good).unwrap_err().contains("this host"), "{good}");
        }
        for bad in
            ["", "unix:", "host:19435", "ftp://host", "http://", "http:///x", "http://host/?x"]
        {
            let error = connect(bad).unwrap_err();
            assert!(error.contains("path of a socket"), "{error}");
        }
    }
}
