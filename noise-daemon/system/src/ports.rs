//! Ports as they are named on the command line.

use std::path::Path;

use crate::files::read_text;

/// Far more than such a list has.
const MOST_BYTES: u64 = 4 << 20;

/// Names of ports on hosts that have no list of them.
const WELL_KNOWN: [(&str, u16); 16] = [
    ("amqp", 5672),
    ("dns", 53),
    ("domain", 53),
    ("ftp", 21),
    ("http", 80),
    ("http-alt", 8080),
    ("https", 443),
    ("imap", 143),
    ("ldap", 389),
    ("memcached", 11211),
    ("mongodb", 27017),
    ("mysql", 3306),
    ("postgresql", 5432),
    ("redis", 6379),
    ("smtp", 25),
    ("ssh", 22),
];

/// Reads a port: its number, or the name of its service as the host has it (`/etc/services`).
/// Errors say what is expected.
pub fn port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().or_else(|| of_service(text)).filter(|port| *port > 0);
    port.ok_or_else(|| {
        "expected a port from 1 to 65535, or the name of its service, such as 8080 or http"
            .to_owned()
    })
}

/// The port of a service of that name, as the host has it, or as it is usual.
pub fn of_service(name: &str) -> Option<u16> {
    let services = read_text(Path::new("/etc/services"), MOST_BYTES).unwrap_or_default();
    listed(name, &services)
}

/// By the lines of a list: `NAME PORT/PROTOCOL ALIAS … # comment`.
fn listed(name: &str, services: &str) -> Option<u16> {
    let own = services.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let (first, place) = (words.next()?, words.next()?);
        let port = place.split('/').next()?.parse().ok()?;
        (first == name || words.any(|alias| alias == name)).then_some(port)
    });
    let known = || WELL_KNOWN.into_iter().find(|(known, _)| *known == name);
    own.or_else(|| known().map(|(_, port)| port)).filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_have_numbers_and_names() {
        assert_eq!(port("8080"), Ok(8080));
        for bad in ["", "0", "65536", "-1", "no such service"] {
            assert!(port(bad).unwrap_err().contains("http"), "{bad}");
        }
        let services = "# a list\nhttp\t\t80/tcp\t\twww # web\nown 4000/udp\nodd\nodd x/tcp\n";
        for (name, expected) in [
            ("http", Some(80)),
            ("www", Some(80)),
            ("own", Some(4000)),
            ("web", None),
            ("odd", None),
        ] {
            assert_eq!(listed(name, services), expected, "{name}");
        }
        assert_eq!(listed("http", ""), Some(80));
    }
}
