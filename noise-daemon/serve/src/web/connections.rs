//! The connections that are open, and which of them has to go when there are too many: one that
//! is unused before one that is being answered, the longest unused first; then one that takes its
//! answer too slowly. Where all are being answered, newcomers wait.
//!
//! A semaphore says how many there may be. By itself, as with the limits of libraries, it has newcomers wait until an
//! open connection ends: scrapers keep theirs from one scrape to the next, so a crowd of them, or of clients that say
//! nothing, would keep everybody else out. So which connection ends for others is decided here.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use super::hangups::Hangup;
use super::traffic::{ConnectionTraffic, GRACE};

pub const MAX_CONNECTIONS: usize = 256;

/// The connections of one listener.
pub struct Connections {
    free: Arc<Semaphore>,
    known: Mutex<Vec<Weak<ConnectionTraffic>>>,
}

impl Default for Connections {
    fn default() -> Self {
        Self { free: Arc::new(Semaphore::new(MAX_CONNECTIONS)), known: Mutex::default() }
    }
}

impl Connections {
    /// Waits until there is room for one more, and makes some where that is right. The room is free again when what
    /// is returned is dropped.
    /// Errors: never, as long as this exists.
    pub async fn room(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        if let Ok(room) = Arc::clone(&self.free).try_acquire_owned() {
            return Ok(room);
        }
        let mut free = pin!(Arc::clone(&self.free).acquire_owned());
        loop {
            match tokio::time::timeout_at(self.next_end().into(), free.as_mut()).await {
                Ok(room) => return room,
                // What is hung up on ends before another has to.
                Err(_) if self.make_room(Instant::now()) => return free.await,
                Err(_) => {}
            }
        }
    }

    /// When it is to be looked at which one may end.
    fn next_end(&self) -> Instant {
        let first = self.open().iter().map(|one| one.may_end().1).min();
        // One that is answered meanwhile may end sooner than it may now, but not before that.
        let again = Instant::now() + GRACE;
        first.map_or(again, |first| first.min(again))
    }

    /// Ends one, if one may end.
    fn make_room(&self, now: Instant) -> bool {
        let open = self.open();
        let ends = open.iter().map(|one| (one.may_end(), one));
        let ripe = ends.filter(|((_, at), _)| *at <= now);
        let Some(((why, _), one)) = ripe.min_by_key(|(end, _)| *end) else { return false };
        one.hangup.get().map(|hangup| hangup.end(why)).is_some()
    }

    fn open(&self) -> Vec<Arc<ConnectionTraffic>> {
        let is_open = |one: &Arc<ConnectionTraffic>| one.hangup.get().is_some_and(Hangup::is_open);
        self.known().iter().filter_map(Weak::upgrade).filter(is_open).collect()
    }

    /// Keeps one that begins.
    pub fn keep(&self, one: &Arc<ConnectionTraffic>) {
        let mut known = self.known();
        known.retain(|one| one.strong_count() > 0);
        known.push(Arc::downgrade(one));
    }

    fn known(&self) -> MutexGuard<'_, Vec<Weak<ConnectionTraffic>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::hangups::Hangups;
    use crate::web::traffic::{Answering, SLOW, TAKING, Timeouts};
    use tokio::task::JoinSet;

    /// As many as there may be, each since a moment after the one before.
    struct Full {
        connections: Connections,
        hangups: Hangups,
        all: Vec<Arc<ConnectionTraffic>>,
        tasks: JoinSet<()>,
        began: Instant,
    }

    impl Full {
        async fn new() -> Self {
            let mut full = Self {
                connections: Connections::default(),
                hangups: Hangups::default(),
                all: Vec::new(),
                tasks: JoinSet::new(),
                began: Instant::now(),
            };
            for _ in 0..MAX_CONNECTIONS {
                full.add().await;
            }
            full
        }

        async fn add(&mut self) {
            let room = self.connections.room().await.unwrap();
            let traffic = ConnectionTraffic::new(Timeouts::default());
            let connection = self.tasks.spawn(async move {
                let _room = room;
                std::future::pending::<()>().await;
            });
            let hangups = self.hangups.clone();
            traffic.hangup.set(Hangup { connection, hangups }).ok().unwrap();
            self.connections.keep(&traffic);
            self.all.push(traffic);
        }

        /// Makes room, and says which have ended since the beginning.
        async fn ended_at(&mut self, now: Instant) -> Vec<usize> {
            if self.connections.make_room(now) {
                assert!(self.tasks.join_next().await.unwrap().unwrap_err().is_cancelled());
            }
            let is_ended =
                |index: &usize| self.all[*index].hangup.get().unwrap().connection.is_finished();
            (0..self.all.len()).filter(is_ended).collect()
        }

        fn ask(&self, numbers: impl IntoIterator<Item = usize>) -> Vec<Answering> {
            numbers.into_iter().map(|number| self.all[number].asked().0).collect()
        }

        fn counts(&self) -> Vec<u64> {
            self.hangups.counts().map(|(_, count)| count).collect()
        }
    }

    #[tokio::test]
    async fn the_longest_unused_goes_first() {
        let mut full = Full::new().await;
        assert_eq!(full.ended_at(full.began).await, [0; 0]);
        assert_eq!(full.ended_at(Instant::now() + GRACE).await, [0]);
        // There is room now.
        full.add().await;
        assert_eq!(full.ended_at(full.began).await, [0]);
        assert_eq!(full.ended_at(Instant::now() + GRACE).await, [0, 1]);
    }

    #[tokio::test]
    async fn a_newcomer_has_the_room_of_one_that_says_nothing() {
        let mut full = Full::new().await;
        full.add().await;
        assert!(full.began.elapsed() >= GRACE, "{:?}", full.began.elapsed());
        assert_eq!(full.ended_at(full.began).await, [0]);
        assert_eq!(full.counts(), [1, 0, 0]);
    }

    #[tokio::test]
    async fn unused_ones_go_before_slow_ones_and_those_before_none() {
        let mut full = Full::new().await;
        let before = Instant::now();
        let _answering = full.ask((0..MAX_CONNECTIONS).filter(|number| *number != 7));
        let asked = Instant::now();
        assert_eq!(full.ended_at(asked + SLOW).await, [7]);
        assert_eq!(full.counts(), [1, 0, 0]);
        full.add().await;
        let _another = full.ask([MAX_CONNECTIONS]);
        assert_eq!(full.ended_at(before + SLOW / 2).await, [7]);
        assert!(full.connections.next_end() <= Instant::now() + GRACE);
        assert_eq!(full.ended_at(asked + SLOW).await, [0, 7]);
        assert_eq!(full.counts(), [1, 1, 0]);
    }

    #[tokio::test]
    async fn who_has_just_agreed_on_tls_is_new_again() {
        let mut full = Full::new().await;
        full.all[0].begin();
        assert_eq!(full.ended_at(Instant::now() + GRACE).await, [1]);
    }

    #[tokio::test]
    async fn who_was_answered_has_time_to_take_it() {
        let mut full = Full::new().await;
        let before = Instant::now();
        drop(full.ask(0..MAX_CONNECTIONS));
        assert_eq!(full.ended_at(before + GRACE).await, [0; 0]);
        assert_eq!(full.ended_at(Instant::now() + TAKING).await, [0]);
    }
}
