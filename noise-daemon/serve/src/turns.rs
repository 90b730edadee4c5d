//! Turns of clients at what takes long: answers of the local socket that are large, and passwords. A client has one at
//! a time, so that others have theirs however slow that one is, or however much it wants. Layers of tower limit all
//! requests alike, and know no clients.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::web::{Hangup, Peer};

/// How long a request waits for others.
const WAIT: Duration = Duration::from_secs(5);
/// How long a turn lasts at least: less than other clients wait, so that no reader keeps them out, however fast it is.
const LONG: Duration = Duration::from_secs(4);
/// How long one that was ended may take to go.
const PAUSE: Duration = Duration::from_millis(100);

/// Turns beside those of all, one for root and one for the user of the daemon: whatever others hold, these look at what
/// goes on.
pub const RESERVED: usize = 2;

/// So many turns at once, and one of each client.
#[derive(Debug)]
pub struct Turns {
    all: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    clients: Mutex<TurnClients>,
    /// Those of all that may be ended, the longest first.
    holders: Mutex<Vec<Weak<Holder>>>,
}

/// What those who have a turn or wait for one hold: each place and each turn what is its client's.
#[derive(Debug, Default)]
struct TurnClients {
    each: HashMap<Peer, Weak<Semaphore>>,
    /// Users of this host, with all addresses that each comes from.
    users: HashMap<Option<u32>, Weak<Semaphore>>,
}

/// The part of all places that one user of this host may have: an address costs it nothing.
const PART_OF_USER: usize = 4;

/// A turn, which is over when it is dropped.
#[derive(Debug)]
pub struct Turn(
    #[expect(dead_code, reason = "given back when dropped")] Vec<OwnedSemaphorePermit>,
    #[expect(dead_code, reason = "ends the stretch of the holder when dropped")]
    Option<Arc<Holder>>,
);

/// Who has one of the turns of all, since when, and what ends the connection.
#[derive(Debug)]
struct Holder {
    since: Instant,
    hangup: Option<Hangup>,
}

/// A client that may wait for its turn.
#[derive(Debug)]
pub struct QueuePlace {
    all: Arc<Semaphore>,
    own: Arc<Semaphore>,
    /// That of all addresses of a user of this host.
    of_user: Option<Arc<Semaphore>>,
}

impl QueuePlace {
    /// Waits for the turn, first come first served.
    pub async fn turn(self) -> Option<Turn> {
        // One that waits for itself does not take the place of another.
        let mut held = Vec::new();
        for one in [Some(self.own), self.of_user, Some(self.all)].into_iter().flatten() {
            held.push(one.acquire_owned().await.ok()?);
        }
        Some(Turn(held, None))
    }
}

impl Turns {
    /// So many at once, beside those that are [reserved](RESERVED).
    pub fn new(most: usize) -> Self {
        let [all, reserved] = [most, RESERVED].map(|turns| Arc::new(Semaphore::new(turns)));
        Self { all, reserved, clients: Mutex::default(), holders: Mutex::default() }
    }

    /// Waits for the turn of a client. Once it has had it for long and another waits, `hangup` ends its connection.
    /// Errors: where others take too long.
    pub async fn next(&self, client: Peer, hangup: Option<Hangup>) -> Result<Turn, StatusCode> {
        let place = self.place(client, usize::MAX, usize::MAX);
        let QueuePlace { all, own, of_user } = place.ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
        let turn = async {
            let mut held = Vec::new();
            for one in [Some(own), of_user].into_iter().flatten() {
                held.push(one.acquire_owned().await.ok()?);
            }
            let mut second = pin!(all.acquire_owned());
            let second = loop {
                match tokio::time::timeout_at(self.next_long(), second.as_mut()).await {
                    Ok(second) => break second.ok()?,
                    Err(_) => self.end_longest(),
                }
            };
            let holder = Arc::new(Holder { since: Instant::now(), hangup });
            if !client.is_trusted() {
                self.holders().push(Arc::downgrade(&holder));
            }
            held.push(second);
            Some(Turn(held, Some(holder)))
        };
        let turn = tokio::time::timeout(WAIT, turn).await.ok().flatten();
        turn.ok_or(StatusCode::SERVICE_UNAVAILABLE)
    }

    /// When the one that has had its turn for longest has had it for long.
    fn next_long(&self) -> Instant {
        let (now, oldest) = (Instant::now(), self.holders().iter().find_map(Weak::upgrade));
        // One that was ended has to go first.
        oldest.map_or(now + LONG, |oldest| oldest.since + LONG).max(now + PAUSE)
    }

    /// Ends the connection of the one that has had its turn for longest.
    fn end_longest(&self) {
        let longest = self.holders().iter().find_map(Weak::upgrade);
        let longest = longest.filter(|holder| holder.since.elapsed() >= LONG);
        if let Some(hangup) = longest.as_ref().and_then(|holder| holder.hangup.as_ref()) {
            tracing::debug!("a client took its answer for too long");
            hangup.too_slow();
        }
    }

    fn holders(&self) -> MutexGuard<'_, Vec<Weak<Holder>>> {
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        holders.retain(|one| one.strong_count() > 0);
        holders
    }

    /// A place of a client, where it has fewer than `most_of_one`, and all have fewer than `most`: half of them are for
    /// clients that have none. All addresses of a user of this host together have a [part](PART_OF_USER) of that, and take
    /// turns with the others as one.
    pub fn place(&self, client: Peer, most_of_one: usize, most: usize) -> Option<QueuePlace> {
        let mut clients = self.clients();
        let TurnClients { each, users } = &mut *clients;
        let all: usize = each.values().map(Weak::strong_count).sum();
        let known = each.get(&client);
        let most = if known.is_some() { most / 2 } else { most };
        if all >= most || known.map_or(0, Weak::strong_count) >= most_of_one {
            return None;
        }
        let one = |known: Option<&Weak<Semaphore>>| {
            known.and_then(Weak::upgrade).unwrap_or_else(|| Arc::new(Semaphore::new(1)))
        };
        let of_user = match client {
            Peer::Host(user, _) => {
                let known = users.get(&user);
                if known.map_or(0, Weak::strong_count) >= most.div_ceil(PART_OF_USER) {
                    return None;
                }
                let own = one(known);
                users.insert(user, Arc::downgrade(&own));
                Some(own)
            }
            Peer::Address(_) | Peer::User(_) => None,
        };
        let own = one(each.get(&client));
        each.insert(client, Arc::downgrade(&own));
        let of = if client.is_trusted() { &self.reserved } else { &self.all };
        Some(QueuePlace { all: Arc::clone(of), own, of_user })
    }

    fn clients(&self) -> MutexGuard<'_, TurnClients> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.each.retain(|_, own| own.strong_count() > 0);
        clients.users.retain(|_, own| own.strong_count() > 0);
        clients
    }

    /// Those that have a turn or wait for one.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.clients().each.values().map(Weak::strong_count).sum()
    }

    #[cfg(test)]
    pub fn free(&self) -> usize {
        self.all.available_permits()
    }
}

#[cfg(test)]
mod tests {
    use nix::unistd::geteuid;

    use super::*;
    use crate::Hangups;

    #[tokio::test(start_paused = true)]
    async fn root_and_the_daemons_user_have_turns_whatever_others_hold() {
        let turns = Turns::new(2);
        let [one, other] = [1, 2].map(|user| Peer::User(Some(user)));
        let _held = [turns.next(one, None).await.unwrap(), turns.next(other, None).await.unwrap()];
        for user in [0, geteuid().as_raw()] {
            drop(turns.next(Peer::User(Some(user)), None).await.unwrap());
        }
        for other in [Peer::User(Some(3)), Peer::User(None), Peer::at([10, 0, 0, 1].into())] {
            assert_eq!(turns.next(other, None).await.unwrap_err(), StatusCode::SERVICE_UNAVAILABLE);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_its_turn_for_long_yields_to_one_who_waits() {
        let turns = Turns::new(1);
        let [long, other] = [1, 2].map(|user| Peer::User(Some(user)));
        let (hand, handed) = tokio::sync::oneshot::channel::<Turn>();
        let connection = tokio::spawn(async move {
            let _turn = handed.await;
            std::future::pending::<()>().await;
        });
        let hangups = Hangups::default();
        let hangup = Hangup { connection: connection.abort_handle(), hangups: hangups.clone() };
        let turn = turns.next(long, Some(hangup)).await.unwrap();
        hand.send(turn).unwrap();
        // The same one waits for itself.
        assert_eq!(turns.next(long, None).await.unwrap_err(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(!connection.is_finished());
        drop(turns.next(other, None).await.unwrap());
        assert!(connection.await.unwrap_err().is_cancelled());
        assert!(hangups.counts().any(|count| count == ("slow", 1)));
    }

    #[tokio::test(start_paused = true)]
    async fn one_user_does_not_hold_the_turns_of_all() {
        let turns = Arc::new(Turns::new(2));
        let [slow, other, third] = [1, 2, 3].map(|user| Peer::User(Some(user)));
        let held = turns.next(slow, None).await.unwrap();
        // However often that one asks, there is a turn for another.
        assert_eq!(turns.next(slow, None).await.unwrap_err(), StatusCode::SERVICE_UNAVAILABLE);
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let turns = Arc::clone(&turns);
            waiting.spawn(async move { turns.next(slow, None).await.map(drop) });
        }
        tokio::task::yield_now().await;
        let another = turns.next(other, None).await.unwrap();
        waiting.shutdown().await;
        assert_eq!(turns.free(), 0);
        assert_eq!(turns.next(third, None).await.unwrap_err(), StatusCode::SERVICE_UNAVAILABLE);
        drop(another);
        drop(turns.next(third, None).await.unwrap());
        drop(held);
        drop(turns.next(slow, None).await.unwrap());
        assert_eq!(turns.free(), 2);
        let _place = turns.place(third, 1, 1).unwrap();
        assert_eq!(turns.clients().each.len(), 1);
    }

    #[tokio::test]
    async fn a_client_has_few_places_and_its_turns_come_between_those_of_others() {
        let turns = Arc::new(Turns::new(1));
        let [many, other, late] = [1, 2, 3].map(|number| Peer::at([10, 0, 0, number].into()));
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = tokio::task::JoinSet::new();
        let held = turns.place(other, 3, 12).unwrap().turn().await.unwrap();
        for (name, client) in [("a", many), ("b", many), ("c", many), ("d", other), ("e", late)] {
            let place = turns.place(client, 3, 12).unwrap();
            let order = Arc::clone(&order);
            waiting.spawn(async move {
                let _turn = place.turn().await.unwrap();
                order.lock().unwrap().push(name);
            });
            tokio::task::yield_now().await;
            // However many one has, another finds a place.
            assert!(name != "c" || turns.place(many, 3, 12).is_none());
        }
        assert_eq!(turns.waiting(), 6);
        assert!(turns.place(late, 3, 12).is_none());
        let [new, crowded] = [12, 6].map(|most| turns.place(Peer::User(None), 3, most));
        assert!(new.is_some() && crowded.is_none());
        drop(new);
        drop(held);
        waiting.join_all().await;
        assert_eq!(*order.lock().unwrap(), ["a", "e", "d", "b", "c"]);
        assert_eq!(turns.waiting(), 0);
    }
}
