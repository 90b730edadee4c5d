//! A daemon on another host, or on this one, over HTTP.

use std::io;
use std::time::Duration;

use noise_text::clean::excerpt;
use noise_wire::{MAX_FRAME_BYTES, WebClient, agent};

use super::remote::{ANSWER_TIMEOUT, Answer, Fault, Link, MOST_QUOTED, Remote};

/// Frames from a daemon's HTTP address, as it is written in front of a route.
/// Errors: where there can be no thread. A daemon that is not there is trouble, and may come.
pub fn start(address: &str, interval: Duration, client: WebClient) -> io::Result<Remote> {
    let address = address.trim_end_matches('/').to_owned();
    Remote::start(address.clone(), interval, move || Box::new(HttpLink::new(address, client)))
}

/// An error's words, which may be the peer's.
fn quoted(error: &dyn std::error::Error) -> String {
    excerpt(&error.to_string(), MOST_QUOTED)
}

/// A connection over HTTP, kept open.
pub struct HttpLink {
    address: String,
    client: WebClient,
    agent: ureq::Agent,
}

impl HttpLink {
    /// One that is not connected yet.
    pub fn new(address: String, client: WebClient) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(ANSWER_TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            // As `noised incidents`: a proxy for the world is not meant for daemons.
            .proxy(None)
            .tls_config(client.tls.clone())
            .build();
        Self { address, client, agent: agent(config) }
    }

    fn fault(&self, error: ureq::Error) -> Fault {
        let place = self.place();
        match error {
            ureq::Error::Timeout(_) => Fault::Hangs { place, waited: ANSWER_TIMEOUT },
            ureq::Error::BodyExceedsLimit(_) => Fault::TooLong { place, most: MAX_FRAME_BYTES },
            ureq::Error::Protocol(_) => Fault::Stranger(place),
            ureq::Error::HostNotFound => {
                Fault::Other { place, reason: "there is no host of that name".to_owned() }
            }
            ureq::Error::Io(error) => match error.kind() {
                io::ErrorKind::TimedOut => Fault::Hangs { place, waited: ANSWER_TIMEOUT },
                io::ErrorKind::ConnectionRefused => {
                    Fault::Absent { place, reason: "nothing listens there".to_owned() }
                }
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof => {
                    Fault::Absent { place, reason: "the connection was closed".to_owned() }
                }
                _ => Fault::Other { place, reason: quoted(&error) },
            },
            error => Fault::Other { place, reason: quoted(&error) },
        }
    }

    fn get(&self, route: &str) -> Result<Answer, ureq::Error> {
        let mut answer =
            self.client.get(&self.agent, &format!("{}{route}", self.address)).call()?;
        let status = answer.status().as_u16();
        let content_type = answer.headers().get("content-type");
        let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let content_type = content_type.to_owned();
        let body = answer.body_mut().with_config().limit(MAX_FRAME_BYTES as u64).read_to_vec()?;
        Ok(Answer { status, content_type, body })
    }
}

impl Link for HttpLink {
    fn ask(&mut self, route: &str) -> Result<Answer, Fault> {
        self.get(route).map_err(|error| self.fault(error))
    }

    fn place(&self) -> String {
        self.address.clone()
    }
}
