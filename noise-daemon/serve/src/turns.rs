//! Turns of clients of the local socket whose answers take long to send. A user has one at a time, so that others are
//! answered however slowly that one reads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::web::Peer;

/// How long a request waits for others.
const WAIT: Duration = Duration::from_secs(5);

/// So many turns at once, and one of each client.
#[derive(Debug)]
pub struct Turns {
    all: Arc<Semaphore>,
    /// Of those who have a turn or wait for one.
    clients: Mutex<HashMap<Peer, Weak<Semaphore>>>,
}

/// A turn, which is over when it is dropped.
#[derive(Debug)]
pub struct Turn {
    #[expect(dead_code, reason = "given back when dropped")]
    permits: [OwnedSemaphorePermit; 2],
    #[expect(dead_code, reason = "known to the others as long as it is held")]
    own: Arc<Semaphore>,
}

impl Turns {
    /// So many at once.
    pub fn new(most: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(most)), clients: Mutex::default() }
    }

    /// Waits for the turn of a client.
    /// Errors: where others take too long.
    pub async fn next(&self, client: Peer) -> Result<Turn, StatusCode> {
        let own = self.own(client);
        let both = async {
            // One that waits for itself does not take the place of another.
            let first = Arc::clone(&own).acquire_owned().await.ok()?;
            let second = Arc::clone(&self.all).acquire_owned().await.ok()?;
            Some([first, second])
        };
        let both = tokio::time::timeout(WAIT, both).await.ok().flatten();
        let permits = both.ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
        Ok(Turn { permits, own })
    }

    /// Turns that are free.
    #[cfg(test)]
    pub fn free(&self) -> usize {
        self.all.available_permits()
    }

    fn own(&self, client: Peer) -> Arc<Semaphore> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|_, own| own.strong_count() > 0);
        if let Some(own) = clients.get(&client).and_then(Weak::upgrade) {
            return own;
        }
        let own = Arc::new(Semaphore::new(1));
        clients.insert(client, Arc::downgrade(&own));
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_user_does_not_hold_the_turns_of_all() {
        let turns = Arc::new(Turns::new(2));
        let [slow, other, third] = [1000, 1001, 1002].map(|user| Peer::User(Some(user)));
        let held = turns.next(slow).await.unwrap();
        // However often that one asks, there is a turn for another.
        assert_eq!(turns.next(slow).await.unwrap_err(), StatusCode::SERVICE_UNAVAILABLE);
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let turns = Arc::clone(&turns);
            waiting.spawn(async move { turns.next(slow).await.map(drop) });
        }
        tokio::task::yield_now().await;
        let another = turns.next(other).await.unwrap();
        waiting.shutdown().await;
        assert_eq!(turns.free(), 0);
        assert_eq!(turns.next(third).await.unwrap_err(), StatusCode::SERVICE_UNAVAILABLE);
        drop(another);
        drop(turns.next(third).await.unwrap());
        drop(held);
        drop(turns.next(slow).await.unwrap());
        assert_eq!(turns.free(), 2);
        turns.own(third);
        assert_eq!(turns.clients.lock().unwrap().len(), 1);
    }
}
