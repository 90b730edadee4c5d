//! Where the server listens, as it is written: an address, a name, or nothing for all addresses, and a
//! port.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// Longest name of a host (RFC 1035).
const NAME_BYTES: usize = 253;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ListenAddress {
    /// All addresses of this host, of either version.
    All(u16),
    At(SocketAddr),
    /// The addresses that a name has at the start.
    Named(String, u16),
}

fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    // Digits and dots alone are an address with a mistake in it.
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    (1..=NAME_BYTES).contains(&text.len())
        && text.chars().all(is_plain)
        && !text.chars().all(is_number)
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = || {
            format!(
                "`{text}` is not a host and a port: expected one such as 127.0.0.1:19435, \
                 [::1]:19435, localhost:19435, or :19435 for all addresses"
            )
        };
        if let Ok(address) = text.parse() {
            return Ok(Self::At(address));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(expected)?;
        // A sign would be read as a part of the number.
        let is_number = port.chars().all(|c| c.is_ascii_digit());
        let port = port.parse().ok().filter(|_| is_number).ok_or_else(expected)?;
        match host {
            "" => Ok(Self::All(port)),
            name if is_name(name) => Ok(Self::Named(name.to_owned(), port)),
            _ => Err(expected()),
        }
    }
}

impl TryFrom<String> for ListenAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(port) => write!(f, ":{port}"),
            Self::At(address) => address.fmt(f),
            Self::Named(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

impl From<ListenAddress> for String {
    fn from(address: ListenAddress) -> Self {
        address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::ListenAddress;

    #[test]
    fn addresses_names_and_bare_ports_are_read_as_they_are_written() {
        for (text, expected) in [
            (":19435", ListenAddress::All(19435)),
            ("[::]:0", ListenAddress::At("[::]:0".parse().unwrap())),
            ("127.0.0.1:9", ListenAddress::At("127.0.0.1:9".parse().unwrap())),
            ("localhost:19435", ListenAddress::Named("localhost".to_owned(), 19435)),
            ("node-7.example:1", ListenAddress::Named("node-7.example".to_owned(), 1)),
        ] {
            assert_eq!(text.parse(), Ok(expected.clone()));
            assert_eq!(expected.to_string(), text);
        }
        let long = format!("{}:1", "a".repeat(254));
        for text in [
            "",
            ":",
            "nowhere",
            "19435",
            ":x",
            ":65536",
            ":+1",
            "127.0.0.1",
            "127.0.0:9",
            "::1:9",
            "a b:9",
            "[::1]",
            "http://localhost:9",
            long.as_str(),
        ] {
            let error = text.parse::<ListenAddress>().unwrap_err();
            assert!(error.contains("localhost:19435, or :19435"), "{error}");
        }
    }
}
