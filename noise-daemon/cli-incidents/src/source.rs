//! Where incidents are read from: a running daemon, or what one left behind.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use noise_analysis::{KeptTrace, Report};
use noise_client::connect::host_socket;
use noise_client::{Fault, SocketLink, too_long};
use noise_command::output;
use noise_keep::state::{DEFAULT_DIRECTORY, Document, read, written};
use noise_keep::{Kept, Unusable, list, open};
use noise_pages::incidents::Listing;
use noise_serve::{API_VERSION, IncidentsDocument, OutliersDocument};
use noise_system::files::rest;
use noise_text::clean::excerpt;
use noise_text::clean::reading::from_json;
use noise_wire::{MAX_FRAME_BYTES, WebClient, agent};
use serde::de::DeserializeOwned;

/// Longer than a daemon on a loaded machine takes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest list of incidents or long waits: a frame has the same, and a daemon makes none that is larger.
const MAX_LIST_BYTES: u64 = MAX_FRAME_BYTES as u64;
/// Longest file with the kernel events of an incident, which the settings may make much longer than usual.
const MAX_TRACE_BYTES: u64 = 256 << 20;
/// Characters of an answer that a sentence quotes.
const MOST_QUOTED: usize = 200;

/// A daemon, by where it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaemonPlace {
    Socket(PathBuf),
    Web(String),
}

impl fmt::Display for DaemonPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(f),
            Self::Web(address) => f.write_str(address),
        }
    }
}

/// Where to look, in this order.
#[derive(Debug)]
pub struct IncidentSource {
    place: Option<DaemonPlace>,
    directory: Option<PathBuf>,
    /// Nothing was said about where to look.
    is_default: bool,
    client: WebClient,
}

/// An address as the daemon takes it, or with a name in front of the port, or all of it behind `http://` or `https://`.
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

impl IncidentSource {
    /// A daemon, a directory, one after the other; or all defaults. Those have no address: any user may listen there
    /// while no daemon does, and root would read what he answers, and have it run by `--exec`.
    pub fn new(place: Option<DaemonPlace>, directory: Option<PathBuf>, client: WebClient) -> Self {
        match (place, directory) {
            (None, None) => Self {
                place: Some(DaemonPlace::Socket(host_socket())),
                directory: Some(DEFAULT_DIRECTORY.into()),
                is_default: true,
                client,
            },
            (place, directory) => Self { place, directory, is_default: false, client },
        }
    }

    /// The same without what a daemon left behind.
    pub fn live(&self) -> Self {
        let Self { place, is_default, client, .. } = self;
        Self {
            place: place.clone(),
            directory: None,
            is_default: *is_default,
            client: client.clone(),
        }
    }

    /// Incidents, what began first is first, with what was kept of them.
    /// Errors: where there are none to be read.
    pub fn incidents(&self) -> anyhow::Result<Listing> {
        let asked = |document: IncidentsDocument| {
            let IncidentsDocument { incidents, traces, trends, .. } = document;
            Listing { incidents, traces, trends }
        };
        let listing = self.get("incidents", asked, |left| {
            let closed = |report| Arc::new(Arc::<Report>::unwrap_or_clone(report).unwatched());
            let incidents: Vec<_> = left.incidents.into_iter().map(closed).collect();
            let of_those = |id| incidents.iter().any(|report: &Arc<Report>| report.id == id);
            let kept = self.directory.as_deref().map(|directory| list(directory, of_those));
            let trace = |kept: Result<Kept, Unusable>| match kept {
                Ok(kept) => kept.trace,
                Err(unusable) => {
                    let why = unusable.sentence();
                    KeptTrace::without(unusable.incident, unusable.written, &why).into()
                }
            };
            let traces = kept.into_iter().flatten().map(trace).collect();
            Listing { incidents, traces, trends: Vec::new() }
        });
        listing.map(|mut listing| {
            listing.incidents.sort_by_key(|report| report.order());
            listing
        })
    }

    /// The file with the kernel events of an incident, from the daemon or where it keeps them; `None` where none are.
    /// Errors: where a daemon cannot answer, or the file cannot be read.
    pub fn trace(&self, id: u64) -> anyhow::Result<Option<Vec<u8>>> {
        // Kernel events are served by the socket alone.
        if let Some(DaemonPlace::Socket(path)) = &self.place
            && let Ok(bytes) = ask(path, &format!("incidents/{id}/trace"), MAX_TRACE_BYTES)?
        {
            // The file went while the daemon ran, which its log says.
            return Ok(bytes.filter(|bytes| !bytes.is_empty()));
        }
        let Some(directory) = &self.directory else {
            bail!(
                "the kernel events of an incident are read by the local socket of the daemon, or where it keeps \
                 its state: use --connect SOCKET or --state.directory on its host"
            );
        };
        let read = open(directory, id).and_then(|file| rest(file, MAX_TRACE_BYTES));
        match read {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| {
                format!("cannot read the kernel events of incident {id} in {}", directory.display())
            }),
        }
    }

    /// Long waits, the oldest first.
    /// Errors: where there are none to be read.
    pub fn outliers(&self) -> anyhow::Result<OutliersDocument> {
        let left = |left: Document| OutliersDocument::new(left.outliers, Vec::new());
        self.get("outliers", |document: OutliersDocument| document, left)
    }

    fn get<D: DeserializeOwned, T>(
        &self,
        route: &str,
        asked: impl Fn(D) -> T,
        left: impl Fn(Document) -> T,
    ) -> anyhow::Result<T> {
        let mut unreachable = None;
        if let Some(place) = &self.place {
            let answer = match place {
                DaemonPlace::Socket(path) => asked_text(path, route)?,
                DaemonPlace::Web(address) => fetch(address, route, &self.client)?,
            };
            match answer {
                Ok(text) => return parse(place, &text).map(asked),
                Err(reason) => unreachable = Some(reason),
            }
        }
        let is_denied = matches!(unreachable, Some(Unreachable::Denied(_)));
        let unreachable = unreachable.map(|reason| reason.to_string());
        let Some(directory) = &self.directory else {
            let unreachable = unreachable.unwrap_or_default();
            match is_denied {
                true => bail!(unreachable),
                false => bail!(
                    "{unreachable}: start one with `noised run`, or say where it answers with \
                     --connect"
                ),
            }
        };
        let found = find(directory, unreachable.as_deref(), self.is_default)?;
        output::complain(&left_behind(directory, unreachable.as_deref(), written(directory)));
        Ok(left(found))
    }
}

/// Says that what is shown is old, and how old.
fn left_behind(directory: &Path, unreachable: Option<&str>, at: Option<SystemTime>) -> String {
    let unreachable = unreachable.map(|reason| format!("{reason}: ")).unwrap_or_default();
    let at = at.and_then(|at| Timestamp::try_from(at).ok());
    let since = at.map(|at| format!(" at {}", at.strftime("%F %T UTC"))).unwrap_or_default();
    let directory = directory.display();
    format!(
        "{unreachable}this is what a noised left in {directory}{since}; nothing later is known there"
    )
}

/// Why a daemon cannot be queried.
#[derive(Debug, thiserror::Error)]
enum Unreachable {
    #[error("no noised answers at {0} ({1})")]
    Absent(String, String),
    /// It takes no connection from us; what to do.
    #[error("{0}")]
    Denied(Fault),
}

/// What a daemon left in a directory.
fn find(directory: &Path, unreachable: Option<&str>, is_default: bool) -> anyhow::Result<Document> {
    let unusable = || {
        let unreachable = unreachable.map(|reason| format!("{reason}, and ")).unwrap_or_default();
        format!("{unreachable}the state file in {} cannot be used", directory.display())
    };
    let found = read(directory).with_context(unusable)?;
    let missing = || {
        let unreachable = unreachable.map(|reason| format!("{reason}, and ")).unwrap_or_default();
        let advice = match is_default {
            true => {
                "start one with `noised run`, or say where it answers with --connect, or where it \
                 kept its state with --state.directory"
            }
            false => "is it the directory that the daemon was given with --state.directory?",
        };
        format!("{unreachable}no state was left in {}: {advice}", directory.display())
    };
    found.with_context(missing)
}

/// What a daemon answers on its local socket, or why none does.
/// Errors: those of [`fetch`].
fn asked_text(socket: &Path, route: &str) -> anyhow::Result<Result<String, Unreachable>> {
    let place = socket.display();
    let bytes = match ask(socket, route, MAX_LIST_BYTES)? {
        Ok(Some(bytes)) => bytes,
        Ok(None) => bail!("{}", unknown(&place)),
        Err(unreachable) => return Ok(Err(unreachable)),
    };
    let text = String::from_utf8(bytes);
    Ok(Ok(text.with_context(|| format!("{place} did not answer as noised does"))?))
}

/// The same as bytes; `None` where there is nothing of that name.
fn ask(
    socket: &Path,
    route: &str,
    most: u64,
) -> anyhow::Result<Result<Option<Vec<u8>>, Unreachable>> {
    let route = format!("/api/v{API_VERSION}/{route}");
    let place = socket.display();
    let link = SocketLink::with_timeout(socket.to_owned(), ANSWER_TIMEOUT);
    let mut link = link.for_at_most(ANSWER_TIMEOUT);
    let (status, body) = match link.read(&route) {
        Ok(answer) => answer,
        Err(Fault::Absent { reason, .. }) => {
            return Ok(Err(Unreachable::Absent(place.to_string(), reason)));
        }
        Err(fault @ Fault::Denied { .. }) => return Ok(Err(Unreachable::Denied(fault))),
        Err(Fault::Hangs { .. }) => {
            bail!("noised at {place} does not answer (waited {} s)", ANSWER_TIMEOUT.as_secs())
        }
        Err(fault) => bail!(fault),
    };
    match status {
        200 => {
            let read = body.whole(most);
            let bytes = read.with_context(|| unread(&place))?;
            Ok(Ok(Some(bytes)))
        }
        404 => Ok(Ok(None)),
        status => bail!("noised at {place} cannot answer now (status {status})"),
    }
}

fn unread(place: &dyn fmt::Display) -> String {
    format!("cannot read what noised at {place} answers")
}

fn unknown(place: &dyn fmt::Display) -> String {
    format!(
        "what answers at {place} knows no incidents: it is another program, or another version of \
         noised"
    )
}

/// What a daemon answers, or why none does.
/// Errors: where one answers, but not with the document.
fn fetch(
    address: &str,
    route: &str,
    client: &WebClient,
) -> anyhow::Result<Result<String, Unreachable>> {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(ANSWER_TIMEOUT))
        // What another address answers is not what the operator asked for.
        .max_redirects(0)
        // The daemon is near; a proxy for the world is not meant for it.
        .proxy(None)
        .tls_config(client.tls.clone())
        .build();
    let agent = agent(config);
    let absent =
        |reason: &dyn fmt::Display| Unreachable::Absent(address.to_owned(), reason.to_string());
    let scheme = if address.contains("://") { "" } else { "http://" };
    let uri = format!("{scheme}{}/api/v{API_VERSION}/{route}", address.trim_end_matches('/'));
    let mut answer = match client.get(&agent, &uri).call() {
        Ok(answer) => answer,
        Err(ureq::Error::StatusCode(404)) => bail!("{}", unknown(&address)),
        Err(ureq::Error::StatusCode(401)) => bail!(
            "noised at {address} wants a name and a password that it knows: give them in the file \
             of --http.config.file"
        ),
        Err(ureq::Error::StatusCode(403)) => bail!(
            "noised at {address} refuses this (status 403): if it listens on loopback, connect by address \
             or as localhost, or add this name to web.allowed-hosts there"
        ),
        Err(error @ ureq::Error::StatusCode(_)) => bail!("noised at {address}: {error}"),
        Err(ureq::Error::Io(error)) => return Ok(Err(absent(&error))),
        // What it quotes of the answer is the peer's.
        Err(error) => return Ok(Err(absent(&excerpt(&error.to_string(), MOST_QUOTED)))),
    };
    let text = answer.body_mut().with_config().limit(MAX_LIST_BYTES).read_to_string();
    let text = text.map_err(|error| match error {
        ureq::Error::BodyExceedsLimit(_) => anyhow::anyhow!(too_long(MAX_LIST_BYTES)),
        error => error.into(),
    });
    Ok(Ok(text.with_context(|| unread(&address))?))
}

fn parse<D: DeserializeOwned>(address: &DaemonPlace, text: &str) -> anyhow::Result<D> {
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
mod tests;
