//! The server: takes connections, encrypts them where that is configured, and checks who has access.
//! Its memory is bounded whatever clients do: at most `MAX_CONNECTIONS` of each listener are open,
//! clients may take as long as [`Timeouts`] says, and the head of a request must fit [`HEAD_BYTES`].
//!
//! Why connections are accepted here, and not by a library: `axum::serve` does not expose these limits of hyper, and
//! axum-server starts a task for whatever comes, which nothing ends for others, and brings HTTP/2 along. What is
//! checked of a request depends on the web file as it is now, which layers of tower-http, made once, do not know.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use axum::response::IntoResponse as _;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use noise_common::loss::Loss;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::TlsAcceptor;

use super::account::ConnectionAccount;
use super::audience::Audience;
use super::auth::{Admission, Credentials};
use super::budget::{Budget, Pace};
use super::connections::Connections;
use super::hangups::{Hangup, HangupReason, Hangups};
use super::hosts;
use super::listen::Listeners;
use super::peer::Peer;
use super::refusals::Refusals;
use super::reload::{Rules, Web};
use super::secret::Secret;
use super::tls_file::TlsFile;
use super::tls_words::refusal;
use super::traffic::{ConnectionTraffic, NotedStream, Timeouts};

/// Largest head of a request.
const HEAD_BYTES: usize = 16 * 1024;
/// Pause after a failed accept (out of descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Shortest time from one warning of failed accepts to the next.
const WARNING_PERIOD: Duration = Duration::from_secs(60);

pub trait Listener {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// Waits for the next one.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Peer)>>;
    /// Waits for the turn of the next one.
    fn turn(budget: &Budget) -> impl Future<Output = ()> {
        budget.turn_to_accept()
    }
    /// Lets a connection end without what it still has to send, where that would be kept somewhere.
    fn reset(_stream: &Self::Stream) {}
}

impl Listener for Listeners {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, address) = self.accept().await?;
        let peer = self.peer(&stream, address);
        Ok((stream, peer))
    }

    fn reset(stream: &TcpStream) {
        // If it fails, the kernel keeps for some minutes what the client does not take.
        let _ = stream.set_zero_linger();
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = self.accept().await?;
        let user = stream.peer_cred().ok().map(|peer| peer.uid());
        Ok((stream, Peer::User(user)))
    }

    async fn turn(budget: &Budget) {
        // Root waits for no others, and may be next.
        budget.moment_to_accept().await;
    }
}

/// What clients cost, and what became of them, over all listeners that have it.
#[derive(Clone, Default)]
pub struct Costs {
    /// How much of a CPU answering may take.
    pub budget: Budget,
    /// The same of answers with kernel events.
    pub events: Budget,
    pub hangups: Hangups,
    pub marks: Arc<MarkCounts>,
}

/// How many datagrams came to the socket of marks.
#[derive(Debug, Default)]
pub struct MarkCounts {
    /// Marks that were kept.
    pub taken: AtomicU64,
    /// What is no mark, or is not its sender's to set.
    pub refused: AtomicU64,
    /// More than are kept in a second.
    pub dropped: AtomicU64,
}

impl MarkCounts {
    /// Each with its name.
    pub fn all(&self) -> [(&'static str, u64); 3] {
        let Self { taken, refused, dropped } = self;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [("taken", of(taken)), ("refused", of(refused)), ("dropped", of(dropped))]
    }

    /// Those that became nothing, with why as `noised_dropped_total` has it.
    pub fn lost(&self) -> [(&'static str, u64); 2] {
        let Self { taken: _, refused, dropped } = self;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [("refused", of(refused)), (Loss::RateLimited.name(), of(dropped))]
    }
}

impl Costs {
    /// Those of a listener that is served whatever the load of others is: all but the budgets is counted together.
    pub fn beside(&self) -> Self {
        Self { budget: Budget::default(), events: Budget::default(), ..self.clone() }
    }
}

/// Serves until the future is dropped.
pub async fn serve(listener: impl Listener, router: Router, web: Web, costs: Costs) {
    serve_with(listener, router, web, costs, Timeouts::default()).await;
}

pub(super) async fn serve_with<L: Listener>(
    listener: L,
    router: Router,
    web: Web,
    costs: Costs,
    timeouts: Timeouts,
) {
    let Costs { budget, events, hangups, .. } = costs;
    let connections = Connections::default();
    let refusals = Arc::new(Refusals::default());
    // Ends what is open when this future ends.
    let mut tasks = tokio::task::JoinSet::new();
    if web.rules().file.wants_http2 {
        tracing::info!("HTTP/2 is not offered: clients use HTTP/1.1");
    }
    let mut warned = None;
    loop {
        L::turn(&budget).await;
        let (stream, peer) = match listener.next().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if warned.is_none_or(|warned: Instant| warned.elapsed() >= WARNING_PERIOD) {
                    tracing::warn!(%error, "cannot accept a connection");
                    warned = Some(Instant::now());
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(room) = connections.room().await else { return };
        while tasks.try_join_next().is_some() {}
        let traffic = ConnectionTraffic::new(timeouts);
        let account = Arc::new(ConnectionAccount::new(budget.clone(), events.clone()));
        let server = ConnectionServer {
            router: router.clone(),
            web: web.clone(),
            peer,
            traffic: Arc::clone(&traffic),
            hangups: hangups.clone(),
            refusals: Arc::clone(&refusals),
            account: Arc::clone(&account),
            timeouts,
            _room: room,
        };
        let talk = Box::pin(server.talk(stream, L::reset));
        let connection = tasks.spawn(async move { account.spending(talk).await });
        // Before it is polled for the first time: both are done on the same thread.
        let _ = traffic.hangup.set(Hangup { connection, hangups: hangups.clone() });
        connections.keep(&traffic);
    }
}

struct ConnectionServer {
    router: Router,
    web: Web,
    peer: Peer,
    traffic: Arc<ConnectionTraffic>,
    hangups: Hangups,
    refusals: Arc<Refusals>,
    account: Arc<ConnectionAccount>,
    timeouts: Timeouts,
    _room: OwnedSemaphorePermit,
}

/// The TLS that a connection agreed on.
#[derive(Clone)]
struct Agreed {
    config: Arc<ServerConfig>,
    /// The certificate that the client has shown, and those that lead to its authority.
    chain: Arc<[CertificateDer<'static>]>,
}

impl Agreed {
    /// Whether it is what is in force now.
    fn is_in_force(&self, rules: &Rules) -> bool {
        rules.tls.as_ref().is_some_and(|now| Arc::ptr_eq(&self.config, &now.config))
    }

    /// Whether the client's certificate will do. What it was agreed on with has looked at it.
    fn is_accepted(&self, rules: &Rules) -> bool {
        let clients = rules.tls.as_ref().and_then(|now| now.clients.as_ref());
        self.is_in_force(rules) || clients.is_none_or(|clients| clients.accept(&self.chain))
    }

    /// Whether an accepted client has shown a certificate of a known authority.
    fn is_verified(&self, rules: &Rules) -> bool {
        !self.chain.is_empty() && rules.file.tls.as_ref().is_some_and(TlsFile::verifies)
    }
}

/// The client's certificate will not do any more.
#[derive(Debug, thiserror::Error)]
#[error("the web file changed: the client has to show its certificate again")]
struct Outdated;

impl ConnectionServer {
    async fn talk<S>(self, stream: S, reset: fn(&S))
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = NotedStream::new(stream, Arc::clone(&self.traffic), reset);
        let config = self.web.rules().tls.as_ref().map(|tls| Arc::clone(&tls.config));
        let Some(config) = config else { return self.answer_all(stream, None).await };
        let accept = TlsAcceptor::from(Arc::clone(&config)).accept(stream);
        match tokio::time::timeout(self.timeouts.handshake, accept).await {
            Ok(Ok(stream)) => {
                let (_, session) = stream.get_ref();
                let shown = session.peer_certificates().unwrap_or_default();
                let chain = shown.iter().cloned().map(CertificateDer::into_owned).collect();
                self.answer_all(stream, Some(Agreed { config, chain })).await;
            }
            Ok(Err(error)) => self.say_why(&error),
            Err(_) => self.late("a client did not agree on TLS in time"),
        }
    }

    /// Counts a client that took too long.
    fn late(&self, what: &str) {
        self.hangups.count(HangupReason::Late);
        tracing::debug!("{what}");
    }

    /// Says why TLS was not agreed on.
    fn say_why(&self, error: &io::Error) {
        let reason = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
        match (reason.and_then(refusal), self.peer.address()) {
            (Some(why), Some(address))
                if self.refusals.is_news(self.peer, &why, Instant::now()) =>
            {
                tracing::warn!("a client at {address} was refused: {why}");
            }
            _ => tracing::debug!(%error, "no TLS with a client"),
        }
    }

    async fn answer_all(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        tls: Option<Agreed>,
    ) {
        let server = Arc::new(self);
        server.traffic.begin();
        let serving = Arc::clone(&server);
        let service = service_fn(move |request| {
            let (server, tls) = (Arc::clone(&serving), tls.clone());
            let (answering, pace) = server.traffic.asked();
            async move {
                let response = server.answer(request, tls.as_ref(), pace).await?;
                // Until it is sent, or given up.
                let kept = |body: Body| body.map_err(move |error| (error, &answering).0);
                Ok::<_, Outdated>(response.map(kept))
            }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            // Its time would run between requests, too.
            .header_read_timeout(None)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            biased;
            ended = connection => if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            },
            is_late = server.traffic.overdue() => if is_late {
                server.late("a client took too long");
            },
        }
    }

    /// Errors: where the connection is to end without an answer: its client asks again over a new one.
    async fn answer(
        &self,
        mut request: Request<Incoming>,
        tls: Option<&Agreed>,
        pace: Pace,
    ) -> Result<Response<Body>, Outdated> {
        if let Some(hangup) = self.traffic.hangup.get() {
            request.extensions_mut().insert(hangup.clone());
        }
        request.extensions_mut().insert(self.peer);
        self.account.turn_to_answer(request.uri().path(), self.peer, pace).await;
        let rules = self.web.rules();
        if tls.is_some_and(|agreed| !agreed.is_accepted(&rules)) {
            return Err(Outdated);
        }
        let mut response = match self.may_ask(&rules, &request, tls).await {
            Err(refusal) => refusal,
            Ok(audience) => {
                request.extensions_mut().insert(audience);
                let service = TowerToHyperService::new(self.router.clone());
                match service.call(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                }
            }
        };
        for (name, value) in &rules.file.headers {
            response.headers_mut().insert(name, value.clone());
        }
        if tls.is_some_and(|agreed| !agreed.is_in_force(&rules)) {
            // What was agreed on may have been forbidden since.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    /// Whether a request is answered, and what the client may see.
    async fn may_ask(
        &self,
        rules: &Rules,
        request: &Request<Incoming>,
        tls: Option<&Agreed>,
    ) -> Result<Audience, Response<Body>> {
        if !self.web.is_for(rules, request.uri(), request.headers()) {
            return Err((StatusCode::FORBIDDEN, hosts::SENTENCE).into_response());
        }
        if !self.web.passes() {
            let sentence = "too many requests: see rate_limit in the web file\n";
            return Err((StatusCode::TOO_MANY_REQUESTS, sentence).into_response());
        }
        let Some(auth) = self.web.auth().filter(|_| !rules.file.users.is_empty()) else {
            let is_verified = tls.is_some_and(|tls| tls.is_verified(rules));
            let is_known = is_verified || self.peer.is_local();
            return Ok(if is_known { Audience::Known } else { Audience::Anyone });
        };
        match auth.check(&rules.file.users, credentials(request), self.peer).await {
            Admission::Accepted => Ok(Audience::Known),
            Admission::Refused => Err((
                StatusCode::UNAUTHORIZED,
                [(header::WWW_AUTHENTICATE, "Basic realm=\"noised\", charset=\"UTF-8\"")],
                "a name and a password are needed\n",
            )
                .into_response()),
            Admission::Busy => Err((
                StatusCode::TOO_MANY_REQUESTS,
                [(header::RETRY_AFTER, "1")],
                "too many pending logins\n",
            )
                .into_response()),
        }
    }
}

/// Name and password of a request (RFC 7617).
fn credentials(request: &Request<Incoming>) -> Option<Credentials> {
    let text = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, text) = text.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(BASE64_STANDARD.decode(text.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some(Credentials { user: user.to_owned(), password: Secret(password.to_owned()) })
}
