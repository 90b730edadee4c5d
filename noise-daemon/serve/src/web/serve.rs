//! The server: takes connections, encrypts them where that is configured, and checks who has access.
//! Its memory is bounded whatever clients do: at most `MAX_CONNECTIONS` of each listener are open,
//! clients may take as long as [`Timeouts`] says, and the head of a request must fit [`HEAD_BYTES`].

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use axum::response::IntoResponse as _;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use noise_common::loss::Loss;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::task::Id;
use tokio_rustls::TlsAcceptor;

use super::audience::Audience;
use super::auth::{Admission, Credentials};
use super::budget::{Budget, Pace};
use super::connections::{Busy, Connections};
use super::hangups::Hangups;
use super::hosts;
use super::listen::Listeners;
use super::peer::Peer;
use super::refusals::Refusals;
use super::reload::{Rules, Web};
use super::secret::Secret;
use super::tls_file::TlsFile;
use super::tls_words::refusal;
use super::traffic::{Answering, NotedStream, Overdue, Timeouts, Traffic};

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
    /// Lets a connection end without what it still has to send, where that would be kept somewhere.
    fn reset(_stream: &Self::Stream) {}
}

impl Listener for Listeners {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Peer)> {
        // A client of version 4 is the same one on a socket of version 6.
        let peer = |address: SocketAddr| Peer::at(address.ip().to_canonical());
        self.accept().await.map(|(stream, address)| (stream, peer(address)))
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
}

/// What clients cost, and what became of them, over all listeners that have it.
#[derive(Clone, Default)]
pub struct Costs {
    /// How much of a CPU answering may take.
    pub budget: Budget,
    /// Who was hung up on.
    pub hangups: Hangups,
    /// What became of marks.
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
    /// Those of a listener that is served whatever the load of others is: all but the budget is counted
    /// together.
    pub fn beside(&self) -> Self {
        Self { budget: Budget::default(), ..self.clone() }
    }
}

/// Serves until the future is dropped.
pub async fn serve(listener: impl Listener, router: Router, web: Web, costs: Costs) {
    serve_with(listener, router, web, costs, Timeouts::default()).await;
}

/// Serves with these timeouts.
pub(super) async fn serve_with<L: Listener>(
    listener: L,
    router: Router,
    web: Web,
    costs: Costs,
    timeouts: Timeouts,
) {
    let Costs { budget, hangups, .. } = costs;
    let connections = Arc::new(Connections::new(hangups));
    let refusals = Arc::new(Refusals::default());
    // Ends what is open when this future ends.
    let mut tasks = tokio::task::JoinSet::new();
    if web.rules().file.wants_http2 {
        tracing::info!("HTTP/2 is not offered: clients use HTTP/1.1");
    }
    let mut warned = None;
    loop {
        budget.turn_to_accept().await;
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
        connections.room().await;
        while tasks.try_join_next().is_some() {}
        let server = Server {
            router: router.clone(),
            web: web.clone(),
            peer,
            connections: Arc::clone(&connections),
            refusals: Arc::clone(&refusals),
            budget: budget.clone(),
            timeouts,
        };
        let talk = budget.spending(server.talk(stream, L::reset));
        connections.keep(|| tasks.spawn(talk));
    }
}

/// What serves one connection.
struct Server {
    router: Router,
    web: Web,
    peer: Peer,
    connections: Arc<Connections>,
    refusals: Arc<Refusals>,
    budget: Budget,
    timeouts: Timeouts,
}

/// The TLS that a connection agreed on.
#[derive(Clone)]
struct Agreed {
    config: Arc<ServerConfig>,
    /// The client has shown a certificate of a known authority.
    is_verified: bool,
}

impl Agreed {
    /// Whether it is what is in force now.
    fn is_in_force(&self, rules: &Rules) -> bool {
        rules.tls.as_ref().is_some_and(|now| Arc::ptr_eq(&self.config, now))
    }
}

/// Forgets a connection when its task ends, however it ends.
struct ConnectionGuard(Arc<Connections>, Id);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}

impl Server {
    async fn talk<S>(self, stream: S, reset: fn(&S))
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let id = tokio::task::id();
        let _open = ConnectionGuard(Arc::clone(&self.connections), id);
        let traffic = Traffic::new(self.timeouts);
        let stream = NotedStream::new(stream, Arc::clone(&traffic), reset);
        let (config, verifies) = {
            let rules = self.web.rules();
            (rules.tls.clone(), rules.file.tls.as_ref().is_some_and(TlsFile::verifies))
        };
        match config {
            None => self.answer_all(stream, None, traffic, id).await,
            Some(config) => {
                let accept = TlsAcceptor::from(Arc::clone(&config)).accept(stream);
                match tokio::time::timeout(self.timeouts.handshake, accept).await {
                    Ok(Ok(stream)) => {
                        self.connections.agreed(id);
                        let (_, session) = stream.get_ref();
                        // One that does not verify ends the handshake.
                        let is_verified = verifies && session.peer_certificates().is_some();
                        let agreed = Agreed { config, is_verified };
                        self.answer_all(stream, Some(agreed), traffic, id).await;
                    }
                    Ok(Err(error)) => self.say_why(&error),
                    Err(_) => {
                        self.connections.late();
                        tracing::debug!("a client did not agree on TLS in time");
                    }
                }
            }
        }
    }

    /// Says why TLS was not agreed on.
    fn say_why(&self, error: &io::Error) {
        let reason = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
        match (reason.and_then(refusal), self.peer) {
            (Some(why), Peer::Address(address))
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
        traffic: Arc<Traffic>,
        id: Id,
    ) {
        let connections = Arc::clone(&self.connections);
        let server = Arc::new(self);
        traffic.begin();
        let noted = Arc::clone(&traffic);
        let service = service_fn(move |request| {
            let server = Arc::clone(&server);
            let tls = tls.clone();
            let (answering, pace) = noted.asked();
            async move {
                let response = server.answer(request, tls.as_ref(), id, pace).await;
                let answered = |(body, busy)| Answered { body, _busy: busy, _answering: answering };
                Ok::<_, Infallible>(response.map(answered))
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
            overdue = traffic.overdue() => if overdue == Overdue::Late {
                connections.late();
                tracing::debug!("a client took too long");
            },
        }
    }

    async fn answer(
        &self,
        mut request: Request<Incoming>,
        tls: Option<&Agreed>,
        id: Id,
        pace: Pace,
    ) -> Response<(Body, Busy)> {
        let busy = self.connections.busy(id);
        if let Some(hangup) = self.connections.hangup(id) {
            request.extensions_mut().insert(hangup);
        }
        request.extensions_mut().insert(self.peer);
        self.budget.turn_to_answer(pace).await;
        let rules = self.web.rules();
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
        response.map(|body| (body, busy))
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
            let is_verified = tls.is_some_and(|tls| tls.is_verified && tls.is_in_force(rules));
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

/// An answer that is being sent.
struct Answered {
    body: Body,
    _busy: Busy,
    _answering: Answering,
}

impl HttpBody for Answered {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
