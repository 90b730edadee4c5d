//! What moves over a connection, and when its client has taken too long: with the head of a request
//! that it has begun, with an answer of which it takes nothing more, or with the next request; and from when on
//! the connection may end for others.
//!
//! hyper has one time-out, for a head, and it runs from one request to the next as well (hyperium/hyper#1628 and
//! #2355 are open): short enough for a head, it ends the connections of scrapers; as long as they need, it lets
//! a head take minutes. It has none for an answer that is not taken. axum-server adds one for the first request;
//! tower-http's are about bodies and handlers.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::budget::Pace;
use super::hangups::{Hangup, HangupReason};

/// A client whose next request comes before this time has passed does not pause.
const PAUSE: Duration = Duration::from_millis(50);
/// A connection that is new is left alone for so long: it may not have had its turn.
pub const GRACE: Duration = Duration::from_secs(1);
/// One that has an answer to take is left alone for so long: what it has not taken by then is lost. With the wait for its own
/// answer, a newcomer is done before a scraper's usual time-out of 10 s.
pub const TAKING: Duration = Duration::from_secs(2);
/// A request that has waited longer for its answer may be given up for others.
pub const SLOW: Duration = Duration::from_secs(30);

/// How long clients may take.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For TLS to be agreed on.
    pub handshake: Duration,
    /// For a request's head to arrive, from its first byte on; for the first one, from when it may be sent.
    pub head: Duration,
    /// From an answer to the first byte of the next request.
    pub idle: Duration,
    /// Without taking any more of an answer.
    pub stuck: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(10),
            // Longer than from one scrape to the next where those are far between.
            idle: Duration::from_secs(180),
            stuck: Duration::from_secs(30),
        }
    }
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionStage {
    /// The client's next request.
    Idle,
    /// The rest of a request's head.
    Head,
    Answer {
        /// There are bytes that may begin another request.
        is_followed: bool,
    },
}

struct ConnectionProgress {
    stage: ConnectionStage,
    /// Since when the stage is that.
    since: Instant,
    /// Since when the client takes nothing of what there is for it.
    stuck: Option<Instant>,
    /// Since when it has not taken all of that, however much it takes now and then.
    behind: Option<Instant>,
    /// When it was answered last.
    answered: Option<Instant>,
}

impl ConnectionProgress {
    fn new(now: Instant) -> Self {
        Self { stage: ConnectionStage::Head, since: now, stuck: None, behind: None, answered: None }
    }

    fn enter(&mut self, stage: ConnectionStage, now: Instant) {
        self.stage = stage;
        self.since = now;
    }

    fn read(&mut self, now: Instant) {
        match self.stage {
            ConnectionStage::Idle => self.enter(ConnectionStage::Head, now),
            ConnectionStage::Head => {}
            ConnectionStage::Answer { .. } => {
                self.stage = ConnectionStage::Answer { is_followed: true }
            }
        }
    }

    fn asked(&mut self, now: Instant) {
        if self.stuck.is_none() {
            self.behind = None;
        }
        self.enter(ConnectionStage::Answer { is_followed: false }, now);
    }

    fn wrote(&mut self, is_taken: bool, now: Instant) {
        if !is_taken {
            self.stuck.get_or_insert(now);
            self.behind.get_or_insert(now);
            return;
        }
        self.stuck = None;
        if self.stage == ConnectionStage::Idle {
            // The answer was still on its way.
            self.since = now;
        }
    }

    fn answered(&mut self, now: Instant) {
        self.answered = Some(now);
        let is_followed = self.stage == ConnectionStage::Answer { is_followed: true };
        self.enter(if is_followed { ConnectionStage::Head } else { ConnectionStage::Idle }, now);
    }

    /// When it will have taken too long, unless something moves; `None` = it is our turn.
    fn due(&self, timeouts: &Timeouts) -> Option<Instant> {
        if let Some(stuck) = self.stuck {
            return Some(stuck + timeouts.stuck);
        }
        match self.stage {
            ConnectionStage::Idle => Some(self.since + timeouts.idle),
            ConnectionStage::Head => Some(self.since + timeouts.head),
            ConnectionStage::Answer { .. } => None,
        }
    }

    /// From when on it may end for others, and as what.
    fn may_end(&self) -> (HangupReason, Instant) {
        match (self.stage, self.answered) {
            (ConnectionStage::Answer { .. }, _) => {
                let slow = self.behind.map_or(self.since + SLOW, |behind| behind + TAKING);
                (HangupReason::Slow, slow)
            }
            (_, Some(answered)) => (HangupReason::Unused, answered + TAKING),
            (_, None) => (HangupReason::Unused, self.since + GRACE),
        }
    }
}

/// What has moved over a connection.
pub struct ConnectionTraffic {
    state: Mutex<ConnectionProgress>,
    timeouts: Timeouts,
    /// Ends the connection, once that has a task.
    pub hangup: OnceLock<Hangup>,
}

impl ConnectionTraffic {
    /// Of a connection that begins now.
    pub fn new(timeouts: Timeouts) -> Arc<Self> {
        let state = Mutex::new(ConnectionProgress::new(Instant::now()));
        Arc::new(Self { state, timeouts, hangup: OnceLock::new() })
    }

    /// The first request may come from now on.
    pub fn begin(&self) {
        self.state().enter(ConnectionStage::Head, Instant::now());
    }

    /// A request's head is there; it is being answered until what is returned is dropped.
    pub fn asked(self: &Arc<Self>) -> (Answering, Pace) {
        let now = Instant::now();
        let mut state = self.state();
        let is_hasty = state.answered.is_some_and(|answered| now.duration_since(answered) < PAUSE);
        state.asked(now);
        (Answering(Arc::clone(self)), if is_hasty { Pace::Hasty } else { Pace::Patient })
    }

    /// Waits until the client has taken too long, and says whether it was with what it has begun: else it
    /// has all that it requested. To be polled by the task that serves the connection, after it: whatever
    /// moves wakes that task, and only then is the time looked at.
    pub async fn overdue(&self) -> bool {
        let mut alarm = pin!(tokio::time::sleep(Duration::ZERO));
        poll_fn(|context| {
            let Some(due) = self.state().due(&self.timeouts) else { return Poll::Pending };
            if alarm.deadline() != due.into() {
                alarm.as_mut().reset(due.into());
            }
            alarm.as_mut().poll(context)
        })
        .await;
        let state = self.state();
        state.stage != ConnectionStage::Idle || state.stuck.is_some()
    }

    /// From when on it may end for others, and as what.
    pub fn may_end(&self) -> (HangupReason, Instant) {
        self.state().may_end()
    }

    fn state(&self) -> MutexGuard<'_, ConnectionProgress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how writing went.
    fn wrote(&self, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.state().wrote(outcome.is_ready(), Instant::now());
        outcome
    }
}

/// A request that is being answered.
pub struct Answering(Arc<ConnectionTraffic>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.state().answered(Instant::now());
    }
}

/// A stream whose traffic is noted: below TLS, where it is seen to move however little it is. One
/// that is hung up on while its client takes nothing leaves nothing behind in the kernel, which
/// otherwise goes on offering the beginning of an answer whose end will never come.
pub struct NotedStream<S> {
    stream: S,
    traffic: Arc<ConnectionTraffic>,
    reset: fn(&S),
}

impl<S> NotedStream<S> {
    /// Notes what moves over `stream`; `reset` lets it end without what it still has to send.
    pub fn new(stream: S, traffic: Arc<ConnectionTraffic>, reset: fn(&S)) -> Self {
        Self { stream, traffic, reset }
    }
}

impl<S> Drop for NotedStream<S> {
    fn drop(&mut self) {
        let is_stuck = self.traffic.state().stuck.is_some();
        if is_stuck {
            (self.reset)(&self.stream);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for NotedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.traffic.state().read(Instant::now());
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for NotedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.traffic.wrote(outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.traffic.wrote(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_head_that_is_begun_has_less_time_than_one_that_is_not() {
        let timeouts = Timeouts::default();
        let start = Instant::now();
        let mut state = ConnectionProgress::new(start);
        assert_eq!(state.due(&timeouts), Some(start + timeouts.head));
        // More of it does not give it more time.
        state.read(start + SECOND);
        assert_eq!(state.due(&timeouts), Some(start + timeouts.head));
        state.enter(ConnectionStage::Answer { is_followed: false }, start + SECOND);
        assert_eq!(state.due(&timeouts), None);
        state.answered(start + 2 * SECOND);
        assert_eq!(state.due(&timeouts), Some(start + 2 * SECOND + timeouts.idle));
        state.read(start + 100 * SECOND);
        assert_eq!(state.due(&timeouts), Some(start + 100 * SECOND + timeouts.head));
        // What comes while one is answered is the next, which had no turn yet.
        state.enter(ConnectionStage::Answer { is_followed: false }, start + 101 * SECOND);
        state.read(start + 102 * SECOND);
        assert_eq!(state.due(&timeouts), None);
        state.answered(start + 103 * SECOND);
        assert_eq!(state.due(&timeouts), Some(start + 103 * SECOND + timeouts.head));
    }

    #[test]
    fn who_takes_an_answer_slowly_has_time_and_who_takes_none_has_not() {
        let traffic = ConnectionTraffic::new(Timeouts::default());
        drop(traffic.asked());
        let due = || traffic.state().due(&traffic.timeouts).unwrap();
        let idle = due();
        assert!(traffic.wrote(Poll::Pending).is_pending());
        let stuck = due();
        assert!(stuck < idle);
        assert!(traffic.wrote(Poll::Pending).is_pending());
        assert_eq!(due(), stuck);
        assert!(traffic.wrote(Poll::Ready(Ok(1))).is_ready());
        assert!(due() > idle);
    }

    #[test]
    fn who_is_new_answered_or_being_answered_has_its_time() {
        let start = Instant::now();
        let mut state = ConnectionProgress::new(start);
        assert_eq!(state.may_end(), (HangupReason::Unused, start + GRACE));
        // TLS was agreed on: only now requests can come.
        state.enter(ConnectionStage::Head, start + 5 * SECOND);
        assert_eq!(state.may_end(), (HangupReason::Unused, start + 5 * SECOND + GRACE));
        state.enter(ConnectionStage::Answer { is_followed: false }, start + 6 * SECOND);
        state.read(start + 7 * SECOND);
        assert_eq!(state.may_end(), (HangupReason::Slow, start + 6 * SECOND + SLOW));
        let answered = start + 8 * SECOND;
        state.answered(answered);
        assert_eq!(state.may_end(), (HangupReason::Unused, answered + TAKING));
        // The beginning of a next request does not make it used.
        state.read(start + 20 * SECOND);
        assert_eq!(state.may_end(), (HangupReason::Unused, answered + TAKING));
    }

    #[test]
    fn who_is_behind_with_an_answer_may_end_soon_whatever_it_takes_of_it() {
        let start = Instant::now();
        let mut state = ConnectionProgress::new(start);
        state.asked(start);
        assert_eq!(state.may_end(), (HangupReason::Slow, start + SLOW));
        let behind = start + SECOND;
        state.wrote(false, behind);
        assert_eq!(state.may_end(), (HangupReason::Slow, behind + TAKING));
        // A little of it now and then, or the next request meanwhile.
        state.wrote(true, behind + SECOND);
        state.wrote(false, behind + SECOND);
        state.answered(behind + SECOND);
        state.asked(behind + SECOND);
        assert_eq!(state.may_end(), (HangupReason::Slow, behind + TAKING));
        // All of it: the next request has its time.
        state.wrote(true, behind + 2 * SECOND);
        let next = behind + 3 * SECOND;
        state.asked(next);
        assert_eq!(state.may_end(), (HangupReason::Slow, next + SLOW));
    }
}
