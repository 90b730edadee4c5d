//! A daemon on this host, over its local socket.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use nix::unistd::{Gid, Group, Uid, User};
use noise_text::clean::excerpt;
use noise_wire::MAX_FRAME_BYTES;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

use super::descriptors::runtime;
use super::remote::{ANSWER_TIMEOUT, Answer, Fault, Link, MOST_QUOTED, Remote, too_long};

/// How often it is looked whether an answer is still wanted.
const LOOK: Duration = Duration::from_millis(100);

/// Whether an answer is still wanted.
pub type IsWanted = Arc<dyn Fn() -> bool + Send + Sync>;

/// Frames from a daemon's local socket.
/// Errors: where there can be no thread. A socket that is not there is trouble, and may come.
pub fn start(path: &Path, interval: Duration) -> io::Result<Remote> {
    let path = path.to_owned();
    Remote::start(path.display().to_string(), interval, move || Box::new(SocketLink::new(path)))
}

/// A connection to a local socket, kept open.
pub struct SocketLink {
    path: PathBuf,
    timeout: Duration,
    /// Longest answer that is taken as a whole, bytes.
    most: usize,
    is_wanted: IsWanted,
    /// For this connection alone; made in the thread that sends the requests.
    runtime: Option<Runtime>,
    open: Option<SendRequest<Empty<Bytes>>>,
}

/// What went wrong on a connection.
enum Failure {
    System(io::Error),
    Http(hyper::Error),
    TooLarge,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<hyper::Error> for Failure {
    fn from(error: hyper::Error) -> Self {
        Self::Http(error)
    }
}

impl SocketLink {
    /// One that is not connected yet.
    pub fn new(path: PathBuf) -> Self {
        Self::with_timeout(path, ANSWER_TIMEOUT)
    }

    /// The same, with another time that an answer may take.
    pub fn with_timeout(path: PathBuf, timeout: Duration) -> Self {
        let (most, is_wanted): (_, IsWanted) = (MAX_FRAME_BYTES, Arc::new(|| true));
        Self { path, timeout, most, is_wanted, runtime: None, open: None }
    }

    /// The same, which refuses longer answers where it takes them as a whole.
    pub fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// The same, which waits for answers and reads them only as long as they are wanted.
    pub fn while_wanted(self, is_wanted: IsWanted) -> Self {
        Self { is_wanted, ..self }
    }

    /// The same, which is of no use any more after that time: an answer may come a byte at a time.
    pub fn for_at_most(self, longest: Duration) -> Self {
        let begin = Instant::now();
        self.while_wanted(Arc::new(move || begin.elapsed() < longest))
    }

    fn fault(&self, failure: Failure) -> Fault {
        let place = self.place();
        match failure {
            Failure::TooLarge => Fault::TooLong { place, most: self.most },
            Failure::Http(error) if error.is_parse() => Fault::Stranger(place),
            Failure::Http(error) => {
                Fault::Absent { place, reason: excerpt(&error.to_string(), MOST_QUOTED) }
            }
            Failure::System(error) => match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    let advice = access_advice(&self.path);
                    Fault::Denied { place, advice }
                }
                // More connections wait than the system keeps.
                io::ErrorKind::WouldBlock => Fault::Hangs { place, waited: self.timeout },
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    let reason = match error.kind() {
                        io::ErrorKind::NotFound => "there is no such socket",
                        _ => "nothing listens there any more",
                    };
                    Fault::Absent { place, reason: reason.to_owned() }
                }
                _ => Fault::Other { place, reason: error.to_string() },
            },
        }
    }
}

/// What this user can do who may not use a socket.
pub fn access_advice(path: &Path) -> String {
    // The folder may hide the socket.
    let group = [Some(path), path.parent()].into_iter().flatten().find_map(group_of);
    let user = User::from_uid(Uid::current()).ok().flatten().map(|user| user.name);
    advice(group.as_ref(), user.as_deref())
}

/// The group that a file is for.
fn group_of(path: &Path) -> Option<Group> {
    let gid = std::fs::metadata(path).ok()?.gid();
    Group::from_gid(Gid::from_raw(gid)).ok().flatten().filter(|group| group.name != "root")
}

fn advice(group: Option<&Group>, user: Option<&str>) -> String {
    let Some(group) = group else {
        return "use sudo, or give the daemon a group that you are in ([socket] group)".to_owned();
    };
    let (name, user) = (&group.name, user.unwrap_or("NAME"));
    match group.mem.iter().any(|member| member == user) {
        true => format!(
            "you are in its group `{name}` from your next login on: log in again, or use sudo"
        ),
        false => format!(
            "run `sudo adduser {user} {name}` (where there is no adduser: `sudo usermod -aG {name} {user}`) and log in \
             again, or use sudo"
        ),
    }
}

async fn connect(path: &Path) -> Result<SendRequest<Empty<Bytes>>, Failure> {
    let stream = UnixStream::connect(path).await?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // An error of the connection shows in the request.
    tokio::spawn(connection);
    Ok(sender)
}

async fn request(
    sender: &mut SendRequest<Empty<Bytes>>,
    route: &Uri,
) -> Result<Response<Incoming>, Failure> {
    sender.ready().await?;
    let mut request = Request::new(Empty::new());
    request.uri_mut().clone_from(route);
    let host = HeaderValue::from_static("localhost");
    request.headers_mut().insert(header::HOST, host);
    Ok(sender.send_request(request).await?)
}

async fn whole(answer: Response<Incoming>, most: usize) -> Result<Answer, Failure> {
    // One that says how long it is need not be read for that.
    if answer.body().size_hint().lower() > most as u64 {
        return Err(Failure::TooLarge);
    }
    let status = answer.status().as_u16();
    let content_type = answer.headers().get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = content_type.to_owned();
    let body = Limited::new(answer.into_body(), most).collect().await;
    let body = body.map_err(|error| match error.downcast::<hyper::Error>() {
        Ok(error) => Failure::Http(*error),
        Err(error) if error.is::<LengthLimitError>() => Failure::TooLarge,
        Err(error) => Failure::System(io::Error::other(error)),
    })?;
    Ok(Answer { status, content_type, body: body.to_bytes().into() })
}

async fn ask(
    path: &Path,
    route: &Uri,
    open: Option<SendRequest<Empty<Bytes>>>,
) -> Result<(Response<Incoming>, SendRequest<Empty<Bytes>>), Failure> {
    if let Some(mut sender) = open
        && let Ok(answer) = request(&mut sender, route).await
    {
        return Ok((answer, sender));
    }
    // It was idle for too long, or its daemon was replaced: that is no trouble.
    let mut sender = connect(path).await?;
    let answer = request(&mut sender, route).await?;
    Ok((answer, sender))
}

/// Waits so long for something, if it is wanted for so long; `None` where it does not come.
async fn wanted<T>(
    done: impl Future<Output = T>,
    timeout: Duration,
    is_wanted: &IsWanted,
) -> Option<T> {
    let (mut done, begin) = (pin!(done), Instant::now());
    loop {
        let left = timeout.saturating_sub(begin.elapsed());
        match tokio::time::timeout(left.min(LOOK), done.as_mut()).await {
            Ok(done) => return Some(done),
            Err(_) if left <= LOOK || !is_wanted() => return None,
            Err(_) => {}
        }
    }
}

/// What an answer says behind its head, as it comes: it may be longer than memory should hold. The daemon may take as long
/// as the whole answer of others for each piece.
pub struct AnswerReader<'l> {
    runtime: &'l Runtime,
    timeout: Duration,
    is_wanted: &'l IsWanted,
    body: Incoming,
    piece: Bytes,
}

impl AnswerReader<'_> {
    /// The rest of it as a whole.
    /// Errors: it is longer than that, which an answer may say before it comes, or it does not come.
    pub fn whole(self, most: u64) -> io::Result<Vec<u8>> {
        let too_long = || io::Error::new(io::ErrorKind::FileTooLarge, too_long(most));
        if self.body.size_hint().lower() > most {
            return Err(too_long());
        }
        let mut bytes = Vec::new();
        self.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most { Err(too_long()) } else { Ok(bytes) }
    }
}

impl Read for AnswerReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            // It may come without a pause, and without end.
            let next = (self.is_wanted)().then(|| {
                let next = wanted(self.body.frame(), self.timeout, self.is_wanted);
                self.runtime.block_on(next)
            });
            let late = || io::Error::new(io::ErrorKind::TimedOut, "the answer takes too long");
            let Some(frame) = next.flatten().ok_or_else(late)? else { return Ok(0) };
            self.piece = frame.map_err(io::Error::other)?.into_data().unwrap_or_default();
        }
        let length = self.piece.as_ref().read(buffer)?;
        drop(self.piece.split_to(length));
        Ok(length)
    }
}

impl SocketLink {
    /// Requests a route whose answer is read as it comes; returns the status, too.
    /// Errors: why there is no answer.
    pub fn read(&mut self, route: &str) -> Result<(u16, AnswerReader<'_>), Fault> {
        let (timeout, place) = (self.timeout, self.place());
        let answer = self.begin(route)?;
        let Some(runtime) = &self.runtime else { return Err(Fault::Stranger(place)) };
        let (head, body) = answer.into_parts();
        let is_wanted = &self.is_wanted;
        let reader = AnswerReader { runtime, timeout, is_wanted, body, piece: Bytes::new() };
        Ok((head.status.as_u16(), reader))
    }

    fn begin(&mut self, route: &str) -> Result<Response<Incoming>, Fault> {
        let route = route
            .parse::<Uri>()
            .map_err(|error| Fault::Other { place: self.place(), reason: error.to_string() })?;
        let open = self.open.take();
        let path = self.path.clone();
        let (answer, sender) = self.wait(async move { ask(&path, &route, open).await })?;
        self.open = Some(sender);
        Ok(answer)
    }

    /// Waits for what the daemon does, for as long as an answer may take.
    fn wait<T>(&mut self, done: impl Future<Output = Result<T, Failure>>) -> Result<T, Fault> {
        let runtime = match self.runtime.take() {
            Some(runtime) => runtime,
            None => runtime().map_err(|error| self.fault(Failure::System(error)))?,
        };
        let waited = runtime.block_on(wanted(done, self.timeout, &self.is_wanted));
        self.runtime = Some(runtime);
        let late = || Fault::Hangs { place: self.place(), waited: self.timeout };
        waited.ok_or_else(late)?.map_err(|failure| self.fault(failure))
    }
}

impl Link for SocketLink {
    fn ask(&mut self, route: &str) -> Result<Answer, Fault> {
        let answer = self.begin(route)?;
        let answer = self.wait(whole(answer, self.most));
        if answer.is_err() {
            // The rest of its answer may come yet.
            self.open = None;
        }
        answer
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_use_a_socket_reads_how_to_join_its_group() {
        let group = |members: &[&str]| Group {
            name: "noised".to_owned(),
            passwd: std::ffi::CString::default(),
            gid: Gid::from_raw(990),
            mem: members.iter().map(|member| (*member).to_owned()).collect(),
        };
        let stranger = advice(Some(&group(&["bob"])), Some("alice"));
        assert!(stranger.starts_with("run `sudo adduser alice noised`"), "{stranger}");
        assert!(stranger.contains("log in again"), "{stranger}");
        let joined = advice(Some(&group(&["bob", "alice"])), Some("alice"));
        assert!(joined.contains("log in again") && !joined.contains("adduser"), "{joined}");
        assert!(advice(Some(&group(&[])), None).contains("adduser NAME noised"));
        assert!(advice(None, Some("alice")).contains("[socket] group"));
    }
}
