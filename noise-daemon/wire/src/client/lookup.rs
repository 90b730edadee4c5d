//! Looking up the addresses of a host, as ureq does it, but for one thing: a thread that cannot be made
//! is an error, not a panic.

use std::net::IpAddr;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::time::Duration;
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};

/// The HTTP client for requests to daemons.
pub fn agent(config: Config) -> ureq::Agent {
    ureq::Agent::with_parts(config, DefaultConnector::new(), Lookup)
}

/// Looks names up in a thread of its own, and gives up in time.
#[derive(Debug)]
struct Lookup;

/// Whether there is nothing to look up.
fn is_address(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
}

impl Resolver for Lookup {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        // Without a limit, ureq looks up in the calling thread.
        let here = move |uri: &Uri, config: &Config| {
            let timeout = NextTimeout { after: Duration::NotHappening, ..timeout };
            DefaultResolver::default().resolve(uri, config, timeout)
        };
        if timeout.after.is_not_happening() || is_address(uri) {
            return here(uri, config);
        }
        let (sender, found) = sync_channel(1);
        let (uri, config) = (uri.clone(), config.clone());
        thread::Builder::new().name("lookup".to_owned()).spawn(move || {
            // The caller may have given up.
            let _ = sender.send(here(&uri, &config));
        })?;
        match found.recv_timeout(*timeout.after) {
            Ok(found) => found,
            Err(RecvTimeoutError::Timeout) => Err(Error::Timeout(timeout.reason)),
            Err(RecvTimeoutError::Disconnected) => Err(Error::HostNotFound),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_distinguished_from_names() {
        for (uri, expected) in [
            ("http://127.0.0.1:9435/x", true),
            ("https://[::1]:9435", true),
            ("http://localhost:9435", false),
            ("http://node7.example", false),
        ] {
            assert_eq!(is_address(&uri.parse().unwrap()), expected, "{uri}");
        }
    }
}
