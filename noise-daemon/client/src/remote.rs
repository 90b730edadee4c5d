//! Frames of a daemon, over any connection, fetched by a thread of its own.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use noise_model::SharedNames;
use noise_wire::{self as wire, Frame, WireError};

use super::mailbox::Mailbox;
use crate::source::{FrameSource, News};

/// How long an answer may take.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// Characters of a peer's words that a sentence quotes.
pub const MOST_QUOTED: usize = 200;
/// The route of frames.
const ROUTE: &str = "/api/v1/frame";
/// Pauses between attempts while there is trouble: they double.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Why an answer is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// No daemon is there, or it went away.
    #[error("no noised answers at {place} ({reason}); it will be seen here once it runs")]
    Absent { place: String, reason: String },
    /// It takes no connection from us.
    #[error("you are not allowed to use {place}: {advice}")]
    Denied { place: String, advice: String },
    /// It takes connections and is silent.
    #[error("noised at {place} does not answer (waited {} s)", waited.as_secs())]
    Hangs { place: String, waited: Duration },
    /// It answers something else.
    #[error("what answers at {0} is not noised, or a noised that knows no frames")]
    Stranger(String),
    /// It answers that it cannot.
    #[error("noised at {place} cannot answer now (status {status})")]
    Status { place: String, status: u16 },
    /// It answers frames that are none.
    #[error("noised at {place}: {error}")]
    Wire {
        place: String,
        /// What is wrong with them.
        error: WireError,
    },
    /// It answers more than a daemon says there.
    #[error("what answers at {place} is not noised, or another version of it: {}", too_long(*most as u64))]
    TooLong {
        place: String,
        /// Bytes that are taken.
        most: usize,
    },
    /// The connection cannot be made.
    #[error("cannot connect to {place}: {reason}")]
    Other { place: String, reason: String },
}

/// What is wrong with an answer that is longer than that many bytes.
pub fn too_long(most: u64) -> String {
    format!("its answer is longer than {} MiB, and noised sends no more than that", most >> 20)
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    /// What it says that it is.
    pub content_type: String,
    pub body: Vec<u8>,
}

/// A connection to a daemon.
pub trait Link {
    /// Requests a route; waits for [`ANSWER_TIMEOUT`] at most.
    /// Errors: why there is no answer.
    fn ask(&mut self, route: &str) -> Result<Answer, Fault>;
    /// Where it leads, for sentences.
    fn place(&self) -> String;
}

/// Requests one frame with the longest delays since a time, ns on the clock of the samples.
/// Errors: why there is no frame.
pub fn ask(link: &mut dyn Link, since_ns: u64) -> Result<Frame, Fault> {
    let place = link.place();
    let Answer { status, content_type, body } = link.ask(&format!("{ROUTE}?since={since_ns}"))?;
    match status {
        200 if content_type.starts_with(wire::CONTENT_TYPE) => {}
        401 => {
            let advice = "it wants a name and a password, see --http.config.file".to_owned();
            return Err(Fault::Denied { place, advice });
        }
        403 => {
            let advice = format!(
                "it answers with status {status}; if it listens on loopback, connect by address or \
                 as localhost, or add this name to web.allowed-hosts there"
            );
            return Err(Fault::Denied { place, advice });
        }
        429 | 500..=599 => return Err(Fault::Status { place, status }),
        _ => return Err(Fault::Stranger(place)),
    }
    wire::decode(&body).map_err(|error| match error {
        WireError::NotAFrame => Fault::Stranger(place),
        error => Fault::Wire { place, error },
    })
}

/// A daemon as a source of frames.
#[derive(Debug)]
pub struct Remote {
    name: String,
    news: Arc<Mailbox>,
    /// Ends the thread when it is dropped. It is not waited for: it may just be asking a daemon
    /// that hangs, and holds nothing but a connection.
    interval: mpsc::Sender<Duration>,
}

impl Remote {
    /// Starts the thread that requests frames.
    /// Errors: where there can be no thread.
    pub fn start(
        name: String,
        interval: Duration,
        link: impl FnOnce() -> Box<dyn Link> + Send + 'static,
    ) -> std::io::Result<Self> {
        let news = Arc::new(Mailbox::default());
        let (sender, commands) = mpsc::channel();
        let mailbox = Arc::clone(&news);
        thread::Builder::new()
            .name("frames".to_owned())
            .spawn(move || ask_for_ever(&mut *link(), interval, &mailbox, &commands))?;
        Ok(Self { name, news, interval: sender })
    }
}

fn ask_for_ever(
    link: &mut dyn Link,
    mut interval: Duration,
    news: &Mailbox,
    commands: &mpsc::Receiver<Duration>,
) {
    let mut reported: Option<Fault> = None;
    let mut since_ns = 0;
    let mut pause = FIRST_PAUSE;
    let mut names = SharedNames::default();
    loop {
        let begun = Instant::now();
        let answer = ask(link, since_ns);
        let failed = answer.is_err();
        match answer {
            Ok(mut frame) => {
                frame.share_names(&mut names);
                (reported, pause, since_ns) = (None, FIRST_PAUSE, frame.sample.at_ns);
                news.put(News::Frame(Arc::new(frame)));
            }
            Err(fault) => {
                if reported.as_ref() != Some(&fault) {
                    news.put(News::Trouble(fault.to_string()));
                    reported = Some(fault);
                }
            }
        }
        let failed_at = Instant::now();
        loop {
            let next = if failed { failed_at + pause } else { begun + interval };
            match commands.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(other) => interval = other,
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        if failed {
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

impl FrameSource for Remote {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn poll(&mut self, timeout: Duration) -> Option<News> {
        self.news.take(timeout)
    }

    fn set_interval(&mut self, interval: Duration) {
        // A thread that has ended has reported why.
        let _ = self.interval.send(interval);
    }
}
