//! Answers, written once for all clients that wait for the same: however many there are, few different
//! ones are in memory at once, and a client that takes an old one too slowly is hung up on when others
//! need the room.
//! Answers for one alone have few places of their own, so that they cannot take those of all.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::Format;
use super::packer::Packer;
use super::web::{Audience, Budget, Hangup};

/// Answers for all clients that are in memory at once.
const MOST_SHARED: usize = 8;
/// Answers for one client, likewise.
const MOST_OWN: usize = 4;
/// An answer is taken by then, or may be given up for others.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Between two looks at those who are slow.
const PAUSE: Duration = Duration::from_millis(10);

/// What is requested, where the answer is the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    pub document: SharedDocument,
    pub is_packed: bool,
}

/// What all of an audience see alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SharedDocument {
    Metrics(Format),
    Page(Audience),
    Incidents(Audience),
    /// Long waits as JSON.
    Outliers(Audience),
}

/// An answer, as long as it is in memory.
#[derive(Debug)]
struct BufferedResponse {
    bytes: Vec<u8>,
    _room: Room,
}

/// A connection has the answer and is to be sent it.
struct ResponseLease {
    written: Arc<BufferedResponse>,
    hangup: Option<Hangup>,
    since: Instant,
}

/// The bytes that the connection holds.
struct HeldBytes(Arc<ResponseLease>);

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0.written.bytes
    }
}

/// Leave to have one more answer in memory.
#[derive(Debug)]
pub struct Room(#[expect(dead_code, reason = "given back when dropped")] OwnedSemaphorePermit);

type ResponseResult = Option<Result<Arc<BufferedResponse>, StatusCode>>;

/// The answers in memory.
pub struct Answers {
    shared: ResponseSlots,
    own: ResponseSlots,
    /// Those that are not begun, so that they can still serve requests that come now.
    awaited: Mutex<HashMap<Question, watch::Receiver<ResponseResult>>>,
    packer: Mutex<Packer>,
    budget: Budget,
}

/// The room for answers of one kind.
struct ResponseSlots {
    free: Arc<Semaphore>,
    /// Who has one, the first first.
    taken: Mutex<VecDeque<Weak<ResponseLease>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Answers {
    /// None yet; to write them is paid from the budget.
    pub fn new(budget: Budget) -> Self {
        Self {
            shared: ResponseSlots::new(MOST_SHARED),
            own: ResponseSlots::new(MOST_OWN),
            awaited: Mutex::default(),
            packer: Mutex::default(),
            budget,
        }
    }

    /// The answer to a request, made by `write` from what is measured after it came; once for all
    /// that come before `write` begins. `hangup` ends the connection that is to be sent it.
    /// Errors: those of `write`.
    pub async fn shared<W>(
        self: &Arc<Self>,
        question: Question,
        hangup: Option<Hangup>,
        write: impl FnOnce() -> W + Send + 'static,
    ) -> Result<Bytes, StatusCode>
    where
        W: Future<Output = Result<Vec<u8>, StatusCode>> + Send,
    {
        let mut outcome = {
            let mut awaited = lock(&self.awaited);
            match awaited.get(&question) {
                Some(outcome) => outcome.clone(),
                None => {
                    let (done, outcome) = watch::channel(None);
                    awaited.insert(question, outcome.clone());
                    let answers = Arc::clone(self);
                    // Goes on although the first client may go away: others wait, too.
                    tokio::spawn(self.budget.spending(async move {
                        let room = answers.shared.room().await;
                        lock(&answers.awaited).remove(&question);
                        let written = match room {
                            Ok(room) => write()
                                .await
                                .and_then(|bytes| answers.packed(bytes, question))
                                .map(|bytes| Arc::new(BufferedResponse { bytes, _room: room })),
                            Err(status) => Err(status),
                        };
                        // All clients may be gone.
                        let _ = done.send(Some(written));
                    }));
                    outcome
                }
            }
        };
        let outcome = outcome.wait_for(Option::is_some).await;
        match outcome.as_deref() {
            Ok(Some(Ok(written))) => Ok(self.shared.hand_out(Arc::clone(written), hangup)),
            Ok(Some(Err(status))) => Err(*status),
            _ => Err(StatusCode::SERVICE_UNAVAILABLE),
        }
    }

    fn packed(&self, bytes: Vec<u8>, question: Question) -> Result<Vec<u8>, StatusCode> {
        if !question.is_packed {
            return Ok(bytes);
        }
        lock(&self.packer).pack(&bytes).map_err(|error| {
            tracing::error!(%error, "cannot pack an answer");
            StatusCode::INTERNAL_SERVER_ERROR
        })
    }

    /// Waits for room for an answer for one client.
    /// Errors: never, as long as this exists.
    pub async fn room(&self) -> Result<Room, StatusCode> {
        self.own.room().await
    }

    /// An answer for one client, with the room it has waited for.
    pub fn own(&self, bytes: Vec<u8>, room: Room, hangup: Option<Hangup>) -> Bytes {
        self.own.hand_out(Arc::new(BufferedResponse { bytes, _room: room }), hangup)
    }
}

impl ResponseSlots {
    fn new(most: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), taken: Mutex::default() }
    }

    fn hand_out(&self, written: Arc<BufferedResponse>, hangup: Option<Hangup>) -> Bytes {
        let taken = Arc::new(ResponseLease { written, hangup, since: Instant::now() });
        let mut all = lock(&self.taken);
        all.retain(|taken| taken.strong_count() > 0);
        all.push_back(Arc::downgrade(&taken));
        Bytes::from_owner(HeldBytes(taken))
    }

    async fn room(&self) -> Result<Room, StatusCode> {
        // The same one all the time: its place in the queue is kept.
        let mut free = pin!(Arc::clone(&self.free).acquire_owned());
        loop {
            match tokio::time::timeout_at(self.next_slow().into(), free.as_mut()).await {
                Ok(Ok(permit)) => return Ok(Room(permit)),
                Ok(Err(_)) => return Err(StatusCode::SERVICE_UNAVAILABLE),
                Err(_) => self.hang_up_on_the_slowest(),
            }
        }
    }

    /// When the answer that was given out first will have been taken too slowly.
    fn next_slow(&self) -> Instant {
        let oldest = lock(&self.taken).iter().find_map(Weak::upgrade);
        let now = Instant::now();
        let slow = oldest.map_or(now, |oldest| oldest.since) + ANSWER_TIMEOUT;
        // A connection that was hung up on has to end first.
        slow.max(now + PAUSE)
    }

    /// Ends the connections that still hold the answer that was given out first.
    fn hang_up_on_the_slowest(&self) {
        let taken: Vec<_> = lock(&self.taken).iter().filter_map(Weak::upgrade).collect();
        let Some(oldest) = taken.first().filter(|oldest| oldest.since.elapsed() >= ANSWER_TIMEOUT)
        else {
            return;
        };
        for taken in &taken {
            if Arc::ptr_eq(&taken.written, &oldest.written)
                && let Some(hangup) = &taken.hangup
            {
                tracing::debug!("a client took its answer too slowly");
                hangup.too_slow();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hangups;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::task::JoinSet;

    const METRICS: Question =
        Question { document: SharedDocument::Metrics(Format::Text), is_packed: false };

    #[tokio::test]
    async fn who_asks_at_the_same_time_shares_an_answer() {
        let answers = Arc::new(Answers::new(Budget::default()));
        let written = Arc::new(AtomicUsize::new(0));
        let mut askers = JoinSet::new();
        for _ in 0..1000 {
            let (answers, written) = (Arc::clone(&answers), Arc::clone(&written));
            askers.spawn(async move {
                let write = move || async move {
                    written.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    Ok(b"x".repeat(1 << 20))
                };
                answers.shared(METRICS, None, write).await
            });
        }
        // All of them are held: a gigabyte, if they were not shared.
        let held: Vec<Bytes> =
            askers.join_all().await.into_iter().collect::<Result<_, _>>().unwrap();
        assert!(held.len() == 1000 && held.iter().all(|bytes| bytes.len() == 1 << 20));
        assert!(written.load(Ordering::Relaxed) <= MOST_SHARED, "{written:?}");
        // Afterwards it is a new one.
        drop(held);
        let fresh = answers.shared(METRICS, None, || async { Ok(vec![1]) }).await.unwrap();
        assert_eq!(&*fresh, [1]);
    }

    /// Takes all room for answers to one, by tasks that end when they are hung up on.
    async fn crowd(answers: &Arc<Answers>) -> JoinSet<()> {
        let mut slow = JoinSet::new();
        for number in 0..MOST_OWN {
            let room = answers.room().await.unwrap();
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let connection = slow.spawn(async move {
                let _held: Bytes = receiver.await.unwrap();
                std::future::pending::<()>().await;
            });
            let hangup = Hangup { connection, hangups: Hangups::default() };
            let _ = sender.send(answers.own(vec![number as u8], room, Some(hangup)));
            tokio::task::yield_now().await;
        }
        slow
    }

    #[tokio::test]
    async fn who_is_slow_is_hung_up_on_for_others() {
        let answers = Arc::new(Answers::new(Budget::default()));
        let mut slow = crowd(&answers).await;
        let began = Instant::now();
        answers.room().await.unwrap();
        assert!(began.elapsed() >= ANSWER_TIMEOUT / 2, "{:?}", began.elapsed());
        assert!(slow.join_next().await.unwrap().unwrap_err().is_cancelled());
        assert_eq!(slow.len(), MOST_OWN - 1);
    }

    #[tokio::test]
    async fn answers_to_one_do_not_take_the_room_of_those_to_all() {
        let answers = Arc::new(Answers::new(Budget::default()));
        let mut slow = crowd(&answers).await;
        let waiting: Vec<_> = (0..10)
            .map(|_| {
                let answers = Arc::clone(&answers);
                tokio::spawn(async move { answers.room().await })
            })
            .collect();
        let shared = answers.shared(METRICS, None, || async { Ok(vec![1]) });
        let shared = tokio::time::timeout(ANSWER_TIMEOUT / 2, shared).await;
        assert_eq!(&*shared.unwrap().unwrap(), [1]);
        // No connection was hung up on for it.
        assert!(slow.try_join_next().is_none());
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test]
    async fn who_waits_first_is_next() {
        let answers = Arc::new(Answers::new(Budget::default()));
        let mut rooms = Vec::new();
        for _ in 0..MOST_OWN {
            rooms.push(answers.room().await.unwrap());
        }
        let mut waiting = JoinSet::new();
        for number in 0..20 {
            let answers = Arc::clone(&answers);
            waiting.spawn(async move { answers.room().await.map(|room| (number, room)) });
            tokio::time::sleep(PAUSE).await;
        }
        // The first half has looked after the slow meanwhile.
        tokio::time::sleep(ANSWER_TIMEOUT - 10 * PAUSE).await;
        rooms.pop();
        let mut order = Vec::new();
        while let Some(next) = waiting.join_next().await {
            let (number, _room) = next.unwrap().unwrap();
            order.push(number);
        }
        assert_eq!(order, Vec::from_iter(0..20));
    }
}
