//! The HTTP server. Its memory is bounded whatever clients do: at most [`MAX_CONNECTIONS`] of each
//! listener are open, and a further one ends the oldest; a request must arrive whole within
//! [`HEADER_TIMEOUT`] and its head must fit [`HEAD_BYTES`].

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate as _};

use super::{IncidentsDocument, OutliersDocument, Process, page, render};
use crate::analysis::Overview;
use crate::model::Model;
use crate::wire::{CONTENT_TYPE, Frame, Host, encode};

/// Connections open at once.
const MAX_CONNECTIONS: usize = 256;
/// Time for a request's head to arrive, and of idleness between requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest head of a request.
const HEAD_BYTES: usize = 16 * 1024;
/// Pause after a failed accept (out of descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is answered where there is nothing.
const NOT_FOUND: &str = "not found; see /, /metrics, /api/v1/frame, /api/v1/incidents, \
                         /api/v1/outliers, /-/healthy, /-/ready\n";

/// What there is to show at one time.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// The delays.
    pub model: Model,
    /// What is unusual among them.
    pub overview: Overview,
}

/// Somebody who wants to see what there is now.
#[derive(Debug)]
pub struct Viewer {
    /// Where the answer goes.
    pub reply: oneshot::Sender<Arc<Shown>>,
    /// When this viewer looked last, ns on the clock of the samples: the longest delays shall be
    /// those since then. `None` where it does not look at them.
    pub since_ns: Option<u64>,
}

/// Asks the collector for what there is now.
#[derive(Clone)]
pub struct Refresh(pub mpsc::Sender<Viewer>);

impl Refresh {
    async fn shown(&self) -> Result<Arc<Shown>, StatusCode> {
        self.shown_since(None).await
    }

    async fn shown_since(&self, since_ns: Option<u64>) -> Result<Arc<Shown>, StatusCode> {
        let (reply, shown) = oneshot::channel();
        let viewer = Viewer { reply, since_ns };
        self.0.send(viewer).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
        shown.await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)
    }
}

struct App {
    refresh: Refresh,
    process: Process,
    host: Arc<Host>,
}

async fn metrics(State(app): State<Arc<App>>) -> Result<Response, StatusCode> {
    let shown = app.refresh.shown().await?;
    let text = render(&shown.model, &shown.overview, Some(&app.process)).map_err(|error| {
        tracing::error!(%error, "cannot render the metrics");
        StatusCode::INTERNAL_SERVER_ERROR
    })?;
    Ok(([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response())
}

async fn status(State(app): State<Arc<App>>) -> Result<Html<String>, StatusCode> {
    Ok(Html(page(&app.refresh.shown().await?.model)))
}

async fn incidents(State(app): State<Arc<App>>) -> Result<Response, StatusCode> {
    let incidents = app.refresh.shown().await?.overview.incidents.clone();
    json(&IncidentsDocument::new(incidents))
}

async fn outliers(State(app): State<Arc<App>>) -> Result<Response, StatusCode> {
    let outliers = app.refresh.shown().await?.overview.outliers.clone();
    json(&OutliersDocument::new(outliers))
}

fn json(document: &impl serde::Serialize) -> Result<Response, StatusCode> {
    let text = serde_json::to_vec(document).map_err(|error| {
        tracing::error!(%error, "cannot write JSON");
        StatusCode::INTERNAL_SERVER_ERROR
    })?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// A frame; `?since=NS` names the time of the sample that the viewer had last.
async fn frame(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, StatusCode> {
    let since_ns = match uri.query() {
        None => None,
        Some(query) => {
            let since = query.strip_prefix("since=").and_then(|number| number.parse().ok());
            Some(since.ok_or(StatusCode::BAD_REQUEST)?)
        }
    };
    let shown = app.refresh.shown_since(since_ns).await?;
    let frame = Frame {
        time: Timestamp::now(),
        host: Arc::clone(&app.host),
        sample: Arc::clone(&shown.model.sample),
        overview: shown.overview.clone(),
    };
    let bytes = encode(&frame).map_err(|error| {
        tracing::error!(%error, "cannot show a frame");
        StatusCode::INTERNAL_SERVER_ERROR
    })?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], bytes).into_response())
}

async fn healthy() -> &'static str {
    "noised is healthy\n"
}

async fn ready(State(app): State<Arc<App>>) -> Result<&'static str, StatusCode> {
    app.refresh.shown().await.map(|_| "noised is ready\n")
}

async fn not_found() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, NOT_FOUND)
}

/// What takes connections.
pub trait Listener {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// Waits for the next one.
    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

/// All that is served, the same wherever it is asked for.
pub fn router(refresh: Refresh, host: Host) -> Router {
    let app = Arc::new(App { refresh, process: Process::of_self(), host: Arc::new(host) });
    // Frames are packed already.
    let packs = DefaultPredicate::new().and(NotForContentType::const_new(CONTENT_TYPE));
    Router::new()
        .route("/", get(status))
        .route("/metrics", get(metrics))
        .route("/api/v1/frame", get(frame))
        .route("/api/v1/incidents", get(incidents))
        .route("/api/v1/outliers", get(outliers))
        .route("/-/healthy", get(healthy))
        .route("/-/ready", get(ready))
        .fallback(not_found)
        .layer(CompressionLayer::new().compress_when(packs))
        .with_state(app)
}

/// Serves until the future is dropped.
pub async fn serve(listener: impl Listener, router: Router) {
    let mut open: VecDeque<tokio::task::JoinHandle<()>> = VecDeque::new();
    loop {
        let stream = match listener.next().await {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        open.retain(|connection| !connection.is_finished());
        while open.len() >= MAX_CONNECTIONS {
            if let Some(oldest) = open.pop_front() {
                oldest.abort();
            }
        }
        let service = TowerToHyperService::new(router.clone());
        open.push_back(tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .max_buf_size(HEAD_BYTES)
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        }));
    }
}
