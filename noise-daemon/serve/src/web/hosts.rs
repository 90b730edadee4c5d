//! PURE: the hosts that requests may name where the daemon listens on loopback without authentication.
//!
//! Such a listener is meant for this host alone. A web page of another site can reach it all the same,
//! from a browser on this host: the site lets its own name resolve to 127.0.0.1 (DNS rebinding), and the
//! browser takes our answers for the site's own. These requests bear the site's name in `Host`: only
//! addresses, `localhost` and the names that the operator allows are accepted. No layer of tower-http looks at `Host`.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::{HeaderMap, Uri, header};

/// The answer to a request for another host.
pub const SENTENCE: &str = "noised listens on loopback without users or TLS here, so the Host of a request must be an \
                            address, localhost or a name in web.allowed-hosts: add the name, or use the address\n";
/// Longest name that DNS has.
const MAX_NAME_BYTES: usize = 253;

/// The name of a host: in lower case, without a dot behind it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostName(String);

impl TryFrom<String> for HostName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let name = bare(&text);
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name = !name.is_empty()
            && name.len() <= MAX_NAME_BYTES
            && name.bytes().all(is_letter)
            && name.split('.').all(|label| !label.is_empty());
        if is_name {
            Ok(Self(name))
        } else {
            Err(format!(
                "`{text}` is no name of a host: expected one such as box.example.org, without a port"
            ))
        }
    }
}

impl From<HostName> for String {
    fn from(name: HostName) -> Self {
        name.0
    }
}

/// The names that requests to a listener may have in `Host`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Hosts {
    #[default]
    Any,
    /// Addresses, `localhost`, and these.
    Known(Vec<HostName>),
}

impl Hosts {
    /// Those of a server that listens at these addresses.
    pub fn at(listening: &[IpAddr], allowed: Vec<HostName>) -> Self {
        let is_local = listening.iter().all(|address| address.to_canonical().is_loopback());
        if is_local { Self::Known(allowed) } else { Self::Any }
    }

    /// Whether a request names none but those. One that names no host (HTTP/1.0) is from no browser.
    pub fn allow(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let Self::Known(allowed) = self else { return true };
        let named = headers.get_all(header::HOST).iter().map(|value| value.to_str().ok());
        let target = uri.authority().map(|authority| Some(authority.as_str()));
        named.chain(target).all(|host| host.is_some_and(|host| is_allowed(host, allowed)))
    }
}

/// A name as names are compared.
fn bare(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Whether a host with or without a port (RFC 9110, 7.2) is an address, `localhost` or one of these.
fn is_allowed(text: &str, allowed: &[HostName]) -> bool {
    let text = text.trim();
    if text.is_empty() {
        return true;
    }
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(rest) = text.strip_prefix('[') {
        return rest.split_once(']').is_some_and(|(address, rest)| {
            let address = address.split_once('%').map_or(address, |(address, _)| address);
            let is_end = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
            is_end && address.parse::<Ipv6Addr>().is_ok()
        });
    }
    let (host, port) = text.split_once(':').unwrap_or((text, ""));
    let host = bare(host);
    let is_local = host == "localhost" || host.ends_with(".localhost");
    let is_named = || allowed.iter().any(|name| name.0 == host);
    is_port(port) && (is_local || host.parse::<IpAddr>().is_ok() || is_named())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn names(texts: &[&str]) -> Vec<HostName> {
        texts.iter().map(|text| HostName::try_from((*text).to_owned()).unwrap()).collect()
    }

    fn allows(hosts: &Hosts, uri: &str, values: &[&[u8]]) -> bool {
        let mut all = HeaderMap::new();
        for value in values {
            all.append(header::HOST, HeaderValue::from_bytes(value).unwrap());
        }
        hosts.allow(&uri.parse().unwrap(), &all)
    }

    #[test]
    fn strangers_are_distinguished_from_this_host() {
        let loopback: IpAddr = "127.0.0.1".parse().unwrap();
        let hosts = Hosts::at(&[loopback], names(&["Box.Example.org.", "prometheus"]));
        for host in [
            "127.0.0.1",
            "127.0.0.1:19435",
            "127.9.9.9:80",
            "10.0.0.1",
            "127.0.0.1.",
            "[::1]",
            "[::1]:19435",
            "[::1%lo]:1",
            "[2001:db8::1]",
            "localhost",
            "LOCALHOST:1",
            "localhost.:19435",
            "a.b.localhost",
            "box.example.org",
            "BOX.example.ORG.:9",
            "prometheus:19435",
            "localhost:",
            "",
            "0.0.0.0",
        ] {
            assert!(allows(&hosts, "/metrics", &[host.as_bytes()]), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:19435",
            "x",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1.nip.io:80",
            "xlocalhost",
            "localhost:80:80",
            "localhost:http",
            "evil@localhost",
            "localhost@evil.example",
            "[::1].evil.example",
            "[::1]evil",
            "[evil]",
            "::1",
            "[::1",
            "example.org",
            "a.box.example.org",
            "box.example.org..",
            "127.1",
            "localhost/evil",
            "..",
            ".",
            "-",
            "\u{ff4c}ocalhost",
        ] {
            assert!(!allows(&hosts, "/metrics", &[host.as_bytes()]), "{host}");
        }
        assert!(!allows(&hosts, "/metrics", &[b"local\xe9host"]));
    }

    #[test]
    fn every_name_that_a_request_bears_counts() {
        let hosts = Hosts::Known(Vec::new());
        assert!(allows(&hosts, "/metrics", &[]));
        assert!(allows(&hosts, "http://127.0.0.1:19435/metrics", &[b"localhost"]));
        for (uri, values) in [
            ("http://evil.example/metrics", &[b"localhost".as_slice()][..]),
            ("http://evil.example/metrics", &[]),
            ("http://localhost/metrics", &[b"evil.example"]),
            ("/metrics", &[b"localhost", b"evil.example"]),
            ("/metrics", &[b"evil.example", b"localhost"]),
        ] {
            assert!(!allows(&hosts, uri, values), "{uri} {values:?}");
        }
    }

    #[test]
    fn the_rule_is_for_loopback() {
        for address in ["127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!(
                matches!(Hosts::at(&[address.parse().unwrap()], Vec::new()), Hosts::Known(_)),
                "{address}"
            );
        }
        for address in ["0.0.0.0", "::", "10.0.0.1", "fe80::1"] {
            assert_eq!(Hosts::at(&[address.parse().unwrap()], Vec::new()), Hosts::Any, "{address}");
        }
        assert!(allows(&Hosts::Any, "/", &[b"evil.example"]));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in [
            "",
            ".",
            "a b",
            "box:19435",
            "http://box",
            "a..b",
            "*",
            "Größe",
            "a/b",
            &"x".repeat(254),
        ] {
            assert!(HostName::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
