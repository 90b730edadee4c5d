//! The HTTP server. Its memory is bounded whatever clients do: at most [`MAX_CONNECTIONS`] are
//! open, and a further one ends the oldest; a request must arrive whole within
//! [`HEADER_TIMEOUT`] and its head must fit [`HEAD_BYTES`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tower_http::compression::CompressionLayer;

use super::{IncidentsDocument, OutliersDocument, Process, page, render};
use crate::analysis::Overview;
use crate::model::Model;

/// Connections open at once.
const MAX_CONNECTIONS: usize = 256;
/// Time for a request's head to arrive, and of idleness between requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest head of a request.
const HEAD_BYTES: usize = 16 * 1024;
/// Pause after a failed accept (out of descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is answered where there is nothing.
const NOT_FOUND: &str = "not found; see /, /metrics, /api/v1/incidents, /api/v1/outliers, \
                         /-/healthy, /-/ready\n";

/// What there is to show at one time.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// The delays.
    pub model: Model,
    /// What is unusual among them.
    pub overview: Overview,
}

/// Asks the collector for what there is now.
#[derive(Clone)]
pub struct Refresh(pub mpsc::Sender<oneshot::Sender<Arc<Shown>>>);

impl Refresh {
    async fn shown(&self) -> Result<Arc<Shown>, StatusCode> {
        let (reply, shown) = oneshot::channel();
        self.0.send(reply).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
        shown.await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)
    }
}

struct App {
    refresh: Refresh,
    process: Process,
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

async fn healthy() -> &'static str {
    "noised is healthy\n"
}

async fn ready(State(app): State<Arc<App>>) -> Result<&'static str, StatusCode> {
    app.refresh.shown().await.map(|_| "noised is ready\n")
}

async fn not_found() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, NOT_FOUND)
}

/// Serves until the future is dropped.
pub async fn serve(listener: TcpListener, refresh: Refresh) {
    let app = Arc::new(App { refresh, process: Process::of_self() });
    let router = Router::new()
        .route("/", get(status))
        .route("/metrics", get(metrics))
        .route("/api/v1/incidents", get(incidents))
        .route("/api/v1/outliers", get(outliers))
        .route("/-/healthy", get(healthy))
        .route("/-/ready", get(ready))
        .fallback(not_found)
        .layer(CompressionLayer::new())
        .with_state(app);
    let mut open: VecDeque<tokio::task::JoinHandle<()>> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
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
