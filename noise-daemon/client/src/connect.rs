//! Daemons as they are named on the command line.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use noise_system::files;

/// Where a daemon listens by default.
pub const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 19435);

/// Where a daemon's local socket is by default.
pub const DEFAULT_SOCKET: &str = "/run/noised/noised.sock";

/// The configuration of a host's daemon, where none is named.
pub const DEFAULT_FILE: &str = "/etc/noised/noised.toml";

/// The local socket of this host's daemon: as its configuration has it, where that can be read.
pub fn host_socket() -> PathBuf {
    socket_in(Path::new(DEFAULT_FILE)).unwrap_or_else(|| DEFAULT_SOCKET.into())
}

/// The path of the socket in a configuration. What is wrong with the file the daemon says.
fn socket_in(file: &Path) -> Option<PathBuf> {
    let table: toml::Table = files::read_text(file, files::MAX_FILE_BYTES).ok()?.parse().ok()?;
    let path = table.get("socket")?.get("path")?.as_str()?;
    Some(path.into()).filter(|_| !path.is_empty())
}

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
                let uri = text.parse::<hyper::Uri>().map_err(|error| error.to_string())?;
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
/// Errors say what is expected.
pub fn socket(text: &str) -> Result<PathBuf, String> {
    path_of(text).ok_or_else(|| {
        "expected the path of a socket such as ./noised.sock: events are had of a daemon on this host alone".to_owned()
    })
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
    fn the_socket_is_where_the_configuration_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("noised.toml");
        let of = |text: &str| {
            std::fs::write(&file, text).unwrap();
            socket_in(&file)
        };
        assert_eq!(of("[socket]\npath = \"/run/x/y.sock\"\n"), Some("/run/x/y.sock".into()));
        for none in ["", "[socket]\nmode = \"0600\"\n", "[socket]\npath = \"\"\n", "[socket\n"] {
            assert_eq!(of(none), None, "{none}");
        }
        assert_eq!(socket_in(&folder.path().join("none")), None);
    }

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
