//! Where incidents are read from: a running daemon, or what one left behind.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::de::DeserializeOwned;

use crate::analysis::{Outlier, Report};
use crate::clean::excerpt;
use crate::clean::reading::from_json;
use crate::cli::output;
use crate::config::DEFAULT_ADDRESS;
use crate::export::{API_VERSION, IncidentsDocument, OutliersDocument, WebClient};
use crate::state::{DEFAULT_DIRECTORY, Document, read};

/// Longer than a daemon on a loaded machine takes.
const PATIENCE: Duration = Duration::from_secs(10);
/// Larger than any answer that the bounds of the settings allow.
const MOST_BYTES: u64 = 256 << 20;
/// Characters of an answer that a sentence quotes.
const MOST_QUOTED: usize = 200;

/// Where to look, in this order.
#[derive(Debug)]
pub struct Source {
    address: Option<String>,
    directory: Option<PathBuf>,
    /// Nothing was said about where to look.
    is_default: bool,
    client: WebClient,
}

/// An address as the daemon takes it, or with a name in front of the port, or all of it behind
/// `http://` or `https://`.
pub fn address(text: &str) -> Result<String, String> {
    let bare = text.strip_prefix("https://").or(text.strip_prefix("http://")).unwrap_or(text);
    match bare.rsplit_once(':') {
        Some((_, _)) if bare.contains('@') => Err("others can read what is on a command line: a \
                                                   name and a password belong into the file of \
                                                   --http.config.file"
            .to_owned()),
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
            Ok(text.to_owned())
        }
        _ => Err("expected a host and a port, such as 127.0.0.1:19435".to_owned()),
    }
}

impl Source {
    /// A daemon, a directory, one after the other; or both defaults.
    pub fn new(address: Option<String>, directory: Option<PathBuf>, client: WebClient) -> Self {
        match (address, directory) {
            (None, None) => Self {
                address: Some(DEFAULT_ADDRESS.to_string()),
                directory: Some(DEFAULT_DIRECTORY.into()),
                is_default: true,
                client,
            },
            (address, directory) => Self { address, directory, is_default: false, client },
        }
    }

    /// Incidents, the oldest first.
    ///
    /// # Errors
    /// Where there are none to be read.
    pub fn incidents(&self) -> anyhow::Result<Vec<Arc<Report>>> {
        let asked = |document: IncidentsDocument| document.incidents;
        self.get("incidents", asked, |left| {
            let closed = |report| Arc::new(Arc::<Report>::unwrap_or_clone(report).unwatched());
            left.incidents.into_iter().map(closed).collect()
        })
    }

    /// Long waits, the oldest first.
    ///
    /// # Errors
    /// Where there are none to be read.
    pub fn outliers(&self) -> anyhow::Result<Vec<Arc<Outlier>>> {
        self.get("outliers", |document: OutliersDocument| document.outliers, |left| left.outliers)
    }

    fn get<D: DeserializeOwned, T>(
        &self,
        route: &str,
        asked: impl Fn(D) -> T,
        left: impl Fn(Document) -> T,
    ) -> anyhow::Result<T> {
        let unreachable = match &self.address {
            None => None,
            Some(address) => match fetch(address, route, &self.client)? {
                Ok(text) => return parse(address, &text).map(asked),
                Err(reason) => Some(format!("no noised answers at {address} ({reason})")),
            },
        };
        let Some(directory) = &self.directory else {
            bail!(
                "{}: start one with `noised run`, or say where it listens with --web.address",
                unreachable.unwrap_or_default()
            );
        };
        let found = find(directory, unreachable.as_deref(), self.is_default)?;
        if let Some(unreachable) = unreachable {
            let left = directory.display();
            output::complain(&format!("{unreachable}: this is what one left in {left}"));
        }
        Ok(left(found))
    }
}

/// What a daemon left in a directory.
fn find(directory: &Path, unreachable: Option<&str>, is_default: bool) -> anyhow::Result<Document> {
    let found = read(directory)
        .with_context(|| format!("cannot use the state file in {}", directory.display()))?;
    let missing = || {
        let unreachable = unreachable.map(|reason| format!("{reason}, and ")).unwrap_or_default();
        let advice = match is_default {
            true => {
                "start one with `noised run`, or say where it listens with --web.address, or where \
                 it kept its state with --state.directory"
            }
            false => "is it the directory that the daemon was given with --state.directory?",
        };
        format!("{unreachable}no state was left in {}: {advice}", directory.display())
    };
    found.with_context(missing)
}

/// What a daemon answers, or why none does.
///
/// # Errors
/// Where one answers, but not what was asked for.
fn fetch(address: &str, route: &str, client: &WebClient) -> anyhow::Result<Result<String, String>> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        // The daemon is near; a proxy for the world is not meant for it.
        .proxy(None)
        .tls_config(client.tls.clone())
        .build()
        .into();
    let scheme = if address.contains("://") { "" } else { "http://" };
    let uri = format!("{scheme}{address}/api/v{API_VERSION}/{route}");
    let mut answer = match client.get(&agent, &uri).call() {
        Ok(answer) => answer,
        Err(ureq::Error::StatusCode(404)) => bail!(
            "what answers at {address} knows no incidents: it is another program, or another \
             version of noised"
        ),
        Err(ureq::Error::StatusCode(401)) => bail!(
            "noised at {address} wants a name and a password that it knows: give them in the file \
             of --http.config.file"
        ),
        Err(ureq::Error::StatusCode(403)) => bail!(
            "noised at {address} refuses this (status 403): if it listens on loopback, ask by address or \
             as localhost, or add this name to web.allowed-hosts there"
        ),
        Err(error @ ureq::Error::StatusCode(_)) => bail!("noised at {address}: {error}"),
        Err(ureq::Error::Io(error)) => return Ok(Err(error.to_string())),
        // What it quotes of the answer is the peer's.
        Err(error) => return Ok(Err(excerpt(&error.to_string(), MOST_QUOTED))),
    };
    let text = answer.body_mut().with_config().limit(MOST_BYTES).read_to_string();
    Ok(Ok(text.with_context(|| format!("reading the answer of {address}"))?))
}

fn parse<D: DeserializeOwned>(address: &str, text: &str) -> anyhow::Result<D> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        version: u64,
    }
    let read = || {
        let Versioned { version } = from_json(text.as_bytes())?;
        Ok::<_, serde_json::Error>((version, from_json(text.as_bytes())))
    };
    match read().with_context(|| format!("{address} did not answer as noised does"))? {
        (version, _) if version > API_VERSION => bail!(
            "noised at {address} answers in version {version}, this command knows {API_VERSION}: \
             use the `noised` that runs there"
        ),
        (_, document) => {
            document.with_context(|| format!("{address} did not answer as noised does"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    /// Answers one request, and is gone.
    fn answering(status: &str, body: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let length = body.len();
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        address
    }

    fn error(address: &str, directory: Option<&Path>) -> String {
        let source = Source::new(
            Some(address.to_owned()),
            directory.map(Path::to_owned),
            WebClient::default(),
        );
        format!("{:#}", source.incidents().unwrap_err())
    }

    #[test]
    fn a_daemon_is_asked() {
        let address = answering("200 OK", "{\"version\":1,\"incidents\":[]}");
        let source = Source::new(Some(address), None, WebClient::default());
        assert_eq!(source.incidents().unwrap(), []);
    }

    #[test]
    fn what_does_not_answer_as_noised_is_told() {
        for (status, body, words) in [
            ("404 Not Found", "", "another program"),
            ("503 Service Unavailable", "", "503"),
            ("200 OK", "hello", "did not answer as noised does"),
            ("200 OK", "{\"version\":1}", "did not answer as noised does"),
            ("200 OK", "{\"version\":2,\"incidents\":3}", "version 2"),
        ] {
            let text = error(&answering(status, body), None);
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn without_a_daemon_the_directory_is_read() {
        let root = tempfile::tempdir().unwrap();
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let text = error(&nobody, Some(root.path()));
        for words in ["no noised answers", "no state was left", root.path().to_str().unwrap()] {
            assert!(text.contains(words), "{text}");
        }
        assert!(error(&nobody, None).contains("noised run"));
        let folder = crate::state::Folder::take(root.path()).unwrap();
        folder.write(&Document::default()).unwrap();
        let source = Source::new(Some(nobody), Some(root.path().to_owned()), WebClient::default());
        assert_eq!(source.outliers().unwrap(), []);
        std::fs::write(root.path().join("incidents.json"), "garbage").unwrap();
        let source = Source::new(None, Some(root.path().to_owned()), WebClient::default());
        let text = format!("{:#}", source.outliers().unwrap_err());
        assert!(text.contains("damaged"), "{text}");
        // A command that reads sets nothing aside.
        assert!(root.path().join("incidents.json").exists());
    }

    #[test]
    fn addresses_have_a_port() {
        for good in ["127.0.0.1:80", "[::1]:19435", "host.example:1"] {
            assert_eq!(address(good).as_deref(), Ok(good));
        }
        for bad in ["", "host", ":80", "host:", "host:99999"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
