//! What is served over HTTP, and how it is requested.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get};
use jiff::Timestamp;
use noise_analysis::Overview;
use noise_model::{Host, Model};
use noise_text::clean::clean_json;
use noise_wire::{CONTENT_TYPE, Frame, encode};
use tokio::sync::{mpsc, oneshot};

use super::answers::{Answers, Question, SharedDocument};
use super::encoding::takes_gzip;
use super::status::{SCRIPT, STYLE};
use super::web::{Audience, Costs, Hangup, Web};
use super::{Format, IncidentsDocument, OutliersDocument, Process, page, render};

/// What is answered where there is nothing.
const NOT_FOUND: &str = "not found; see /, /metrics, /api/v1/frame, /api/v1/incidents, \
                         /api/v1/incidents/ID/path, /api/v1/outliers, /-/healthy, /-/ready\n";

/// The document with the paths of an incident, where there is one: JSON.
pub type PathSource = Arc<dyn Fn(u64) -> Option<Arc<str>> + Send + Sync>;

/// What there is to show at one time.
#[derive(Clone, Debug, Default)]
pub struct ShownPages {
    pub model: Model,
    /// What is unusual among them.
    pub overview: Overview,
}

/// A request for what there is now.
#[derive(Debug)]
pub struct Viewer {
    pub reply: oneshot::Sender<Arc<ShownPages>>,
    /// When this viewer looked last, ns on the clock of the samples: the longest delays shall be
    /// those since then. `None` where it does not look at them.
    pub since_ns: Option<u64>,
}

/// Gets what there is now from the collector.
#[derive(Clone)]
pub struct Refresh(pub mpsc::Sender<Viewer>);

impl Refresh {
    async fn shown(&self) -> Result<Arc<ShownPages>, StatusCode> {
        self.shown_since(None).await
    }

    async fn shown_since(&self, since_ns: Option<u64>) -> Result<Arc<ShownPages>, StatusCode> {
        let (reply, shown) = oneshot::channel();
        let viewer = Viewer { reply, since_ns };
        self.0.send(viewer).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
        shown.await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)
    }
}

struct AppState {
    refresh: Refresh,
    process: Process,
    host: Arc<Host>,
    answers: Arc<Answers>,
    paths: Option<PathSource>,
}

/// The connection that is to be answered, where one is known.
type Asker = Option<Extension<Hangup>>;

fn hangup(asker: Asker) -> Option<Hangup> {
    asker.map(|Extension(hangup)| hangup)
}

/// What the client may see; not known = what anyone may.
type For = Option<Extension<Audience>>;

fn audience(of: For) -> Audience {
    of.map(|Extension(audience)| audience).unwrap_or_default()
}

/// What there is to see for an audience.
fn visible(overview: &Overview, audience: Audience) -> Overview {
    match audience {
        Audience::Known => overview.clone(),
        Audience::Anyone => overview.clone().without_command_lines(),
    }
}

impl AppState {
    /// A document, once for all requests of the same time.
    async fn document(
        self: Arc<Self>,
        document: SharedDocument,
        headers: &HeaderMap,
        asker: Asker,
    ) -> Result<Response, StatusCode> {
        let question = Question { document, is_packed: takes_gzip(headers) };
        let app = Arc::clone(&self);
        let write = move || async move { app.write(document).await };
        let bytes = self.answers.shared(question, hangup(asker), write).await?;
        let kind = match document {
            SharedDocument::Metrics(format) => format.content_type(),
            SharedDocument::Page(_) => "text/html; charset=utf-8",
            SharedDocument::Incidents(_) | SharedDocument::Outliers(_) => "application/json",
        };
        let depends_on = match document {
            SharedDocument::Metrics(_) => "accept, accept-encoding",
            _ => "accept-encoding",
        };
        let head = [(header::CONTENT_TYPE, kind), (header::VARY, depends_on)];
        let mut response = (head, Body::from(bytes)).into_response();
        if question.is_packed {
            let gzip = header::HeaderValue::from_static("gzip");
            response.headers_mut().insert(header::CONTENT_ENCODING, gzip);
        }
        Ok(response)
    }

    async fn write(&self, document: SharedDocument) -> Result<Vec<u8>, StatusCode> {
        let shown = self.refresh.shown().await?;
        match document {
            SharedDocument::Metrics(format) => {
                Ok(render(format, &shown.model, &shown.overview, Some(&self.process)))
            }
            SharedDocument::Page(audience) => {
                let overview = visible(&shown.overview, audience);
                Ok(page(&self.host, &shown.model, &overview).into_bytes())
            }
            SharedDocument::Incidents(audience) => {
                let Overview { incidents, traces, .. } = visible(&shown.overview, audience);
                let document = IncidentsDocument::new(incidents, traces);
                json(&document.with_trends(&shown.model.trends))
            }
            SharedDocument::Outliers(audience) => {
                let Overview { outliers, commands, .. } = visible(&shown.overview, audience);
                json(&OutliersDocument::new(outliers, commands))
            }
        }
    }
}

/// Answers with what all of an audience see alike.
fn shared(document: fn(Audience) -> SharedDocument) -> MethodRouter<Arc<AppState>> {
    get(
        move |State(app): State<Arc<AppState>>, asker: Asker, of: For, headers: HeaderMap| async move {
            app.document(document(audience(of)), &headers, asker).await
        },
    )
}

/// Answers with the metrics, in the format that the client likes best.
async fn metrics(
    State(app): State<Arc<AppState>>,
    asker: Asker,
    headers: HeaderMap,
) -> Result<Response, StatusCode> {
    app.document(SharedDocument::Metrics(Format::wanted(&headers)), &headers, asker).await
}

/// Answers with what is the same as long as this program is: a client that has it need not get it
/// again, but has to check, because another version may have another.
fn fixed(kind: &'static str, text: &'static str) -> MethodRouter<Arc<AppState>> {
    let tag = format!("\"{:08x}\"", crc32fast::hash(text.as_bytes()));
    get(async move |headers: HeaderMap| {
        let is_known = has_tag(&headers, &tag);
        let head = [
            (header::CONTENT_TYPE, kind.to_owned()),
            (header::CACHE_CONTROL, "no-cache".to_owned()),
            (header::ETAG, tag),
        ];
        if is_known {
            (StatusCode::NOT_MODIFIED, head).into_response()
        } else {
            (head, text).into_response()
        }
    })
}

/// Whether a client has what has this tag (RFC 9110, 13.1.2).
fn has_tag(headers: &HeaderMap, tag: &str) -> bool {
    let tags = headers.get_all(header::IF_NONE_MATCH).iter();
    let tags = tags.filter_map(|value| value.to_str().ok()).flat_map(|tags| tags.split(','));
    tags.map(|known| known.trim().trim_start_matches("W/"))
        .any(|known| known == tag || known == "*")
}

fn json(document: &impl serde::Serialize) -> Result<Vec<u8>, StatusCode> {
    let text = serde_json::to_string(document);
    text.map(|text| clean_json(&text).into_owned().into_bytes()).map_err(|error| {
        tracing::error!(%error, "cannot write JSON");
        StatusCode::INTERNAL_SERVER_ERROR
    })
}

/// A frame; `?since=NS` names the time of the sample that the viewer had last. A viewer that had none (0) is also shown what the
/// last minutes were like. It is packed already.
async fn frame(
    State(app): State<Arc<AppState>>,
    asker: Asker,
    of: For,
    uri: Uri,
) -> Result<Response, StatusCode> {
    let since_ns = match uri.query() {
        None => None,
        Some(query) => {
            let since = query.strip_prefix("since=").and_then(|number| number.parse().ok());
            Some(since.ok_or(StatusCode::BAD_REQUEST)?)
        }
    };
    let room = app.answers.room().await?;
    let shown = app.refresh.shown_since(since_ns).await?;
    let frame = Frame {
        time: Timestamp::now(),
        host: Arc::clone(&app.host),
        sample: Arc::clone(&shown.model.sample),
        overview: visible(&shown.overview, audience(of)),
        trends: (since_ns == Some(0)).then(|| Arc::clone(&shown.model.trends)),
    };
    let bytes = encode(&frame).map_err(|error| {
        tracing::error!(%error, "cannot show a frame");
        StatusCode::INTERNAL_SERVER_ERROR
    })?;
    let bytes = app.answers.own(bytes, room, hangup(asker));
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], Body::from(bytes)).into_response())
}

/// The paths that are kept of an incident's begin.
async fn path(
    State(app): State<Arc<AppState>>,
    asker: Asker,
    Path(id): Path<String>,
) -> Result<Response, StatusCode> {
    let id = id.parse().map_err(|_| StatusCode::BAD_REQUEST)?;
    let source = app.paths.as_ref().ok_or(StatusCode::NOT_FOUND)?;
    let room = app.answers.room().await?;
    let document = source(id).ok_or(StatusCode::NOT_FOUND)?;
    let bytes = clean_json(&document).into_owned().into_bytes();
    let bytes = app.answers.own(bytes, room, hangup(asker));
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from(bytes)).into_response())
}

async fn healthy() -> &'static str {
    "noised is healthy\n"
}

async fn ready(State(app): State<Arc<AppState>>) -> Result<&'static str, StatusCode> {
    app.refresh.shown().await.map(|_| "noised is ready\n")
}

async fn not_found() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, NOT_FOUND)
}

/// All routes, the same on every listener. The metrics report `costs`, which all listeners share, and the
/// certificate of `web`; the clock of samples shows `clock_ns`; `paths` has what is kept of incidents.
pub fn router(
    refresh: Refresh,
    host: Host,
    web: Web,
    costs: Costs,
    clock_ns: u64,
    paths: Option<PathSource>,
) -> Router {
    let app = Arc::new(AppState {
        paths,
        refresh,
        host: Arc::new(host),
        answers: Arc::new(Answers::new(costs.budget.clone())),
        process: Process::of_self(web, costs, clock_ns),
    });
    Router::new()
        .route("/", shared(SharedDocument::Page))
        .route("/status.css", fixed("text/css; charset=utf-8", STYLE))
        .route("/status.js", fixed("text/javascript; charset=utf-8", SCRIPT))
        .route("/metrics", get(metrics))
        .route("/api/v1/frame", get(frame))
        .route("/api/v1/incidents", shared(SharedDocument::Incidents))
        .route("/api/v1/incidents/{id}/path", get(path))
        .route("/api/v1/outliers", shared(SharedDocument::Outliers))
        .route("/-/healthy", get(healthy))
        .route("/-/ready", get(ready))
        .fallback(not_found)
        .with_state(app)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_has_is_known_by_its_tag() {
        for (value, expected) in [
            ("\"a1\"", true),
            ("W/\"a1\"", true),
            ("\"b\", \"a1\"", true),
            ("*", true),
            ("\"b\"", false),
            ("a1", false),
            ("", false),
        ] {
            let value_on_wire = header::HeaderValue::from_static(value);
            let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, value_on_wire)]);
            assert_eq!(has_tag(&headers, "\"a1\""), expected, "{value}");
        }
        assert!(!has_tag(&HeaderMap::new(), "\"a1\""));
    }
}
