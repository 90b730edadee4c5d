//! The connections that are open, and which of them has to go when there are too many: one that
//! is unused before one that is being answered, the longest unused first; then one that takes its
//! answer too slowly. Where all are being answered, newcomers wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::hangups::{Hangup, Hangups, Why};

/// Connections open at once.
pub const MAX_CONNECTIONS: usize = 256;
/// A connection that is new is left alone for so long: it may not have had its turn.
const GRACE: Duration = Duration::from_secs(1);
/// One that was just answered is left alone for so long: what it has not taken by then is lost.
const TAKING: Duration = Duration::from_secs(2);
/// An answer that takes longer may be given up for others.
const SLOW: Duration = Duration::from_secs(30);

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    New,
    /// It waits for an answer.
    Busy,
    Answered,
}

struct OpenConnection {
    abort: AbortHandle,
    used: Use,
    since: Instant,
}

/// The connections of one listener.
#[derive(Default)]
pub struct Connections {
    known: Mutex<HashMap<tokio::task::Id, OpenConnection>>,
    /// One ended, or is not busy any more.
    changed: Notify,
    hangups: Hangups,
}

impl OpenConnection {
    /// From when on it may be ended for others.
    fn may_end_at(&self) -> Instant {
        let time = match self.used {
            Use::New => GRACE,
            Use::Busy => SLOW,
            Use::Answered => TAKING,
        };
        self.since + time
    }

    fn is_busy(&self) -> bool {
        self.used == Use::Busy
    }
}

impl Connections {
    /// None yet; those that have to go are counted there.
    pub fn new(hangups: Hangups) -> Self {
        Self { hangups, ..Self::default() }
    }

    /// Waits until there is room for one more, and makes some where that is right.
    pub async fn room(&self) {
        loop {
            let changed = self.changed.notified();
            let Some(until) = self.make_room(Instant::now()) else { return };
            // Whatever comes first: then it is looked at anew.
            let _ = tokio::time::timeout_at(until.into(), changed).await;
        }
    }

    /// Ends one where there are too many; or says when one may be ended, if none may be now.
    fn make_room(&self, now: Instant) -> Option<Instant> {
        let mut known = self.known();
        if known.len() < MAX_CONNECTIONS {
            return None;
        }
        let (id, one) = known
            .iter()
            .min_by_key(|(_, one)| (one.may_end_at() > now, one.is_busy(), one.may_end_at()))?;
        let at = one.may_end_at();
        if at > now {
            return known.values().map(OpenConnection::may_end_at).min();
        }
        self.hangups.count(if one.is_busy() { Why::Slow } else { Why::Unused });
        one.abort.abort();
        let id = *id;
        known.remove(&id);
        None
    }

    /// Keeps one that is spawned meanwhile, so that it cannot end before it is known.
    pub fn keep(&self, spawn: impl FnOnce() -> AbortHandle) {
        let mut known = self.known();
        let abort = spawn();
        let id = abort.id();
        known.insert(id, OpenConnection { abort, used: Use::New, since: Instant::now() });
    }

    /// Forgets one that ended.
    pub fn forget(&self, id: tokio::task::Id) {
        self.known().remove(&id);
        self.changed.notify_one();
    }

    /// TLS was agreed on with one: only now requests can come.
    pub fn agreed(&self, id: tokio::task::Id) {
        self.mark(id, Use::New);
    }

    /// One is being answered, until what is returned is dropped.
    pub fn busy(self: &Arc<Self>, id: tokio::task::Id) -> Busy {
        self.mark(id, Use::Busy);
        Busy { connections: Arc::clone(self), id }
    }

    pub fn hangup(&self, id: tokio::task::Id) -> Option<Hangup> {
        let connection = self.known().get(&id)?.abort.clone();
        Some(Hangup { connection, hangups: self.hangups.clone() })
    }

    /// One has taken too long.
    pub fn late(&self) {
        self.hangups.count(Why::Late);
    }

    fn mark(&self, id: tokio::task::Id, used: Use) {
        if let Some(one) = self.known().get_mut(&id) {
            one.used = used;
            one.since = Instant::now();
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<tokio::task::Id, OpenConnection>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that is being answered.
pub struct Busy {
    connections: Arc<Connections>,
    id: tokio::task::Id,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.connections.mark(self.id, Use::Answered);
        self.connections.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::JoinSet;

    /// As many as there may be, each since a second after the one before.
    fn full(tasks: &mut JoinSet<()>) -> (Arc<Connections>, Vec<tokio::task::Id>, Instant) {
        let connections = Arc::new(Connections::default());
        let start = Instant::now();
        let ids = (0..MAX_CONNECTIONS)
            .map(|second| {
                connections.keep(|| tasks.spawn(std::future::pending()));
                let mut known = connections.known();
                let id = *known.keys().find(|id| known[id].since >= start).unwrap();
                known.get_mut(&id).unwrap().since =
                    start - Duration::from_secs(1000 - second as u64);
                id
            })
            .collect();
        (connections, ids, start)
    }

    fn ended(connections: &Connections, ids: &[tokio::task::Id]) -> Vec<usize> {
        let known = connections.known();
        (0..ids.len()).filter(|index| !known.contains_key(&ids[*index])).collect()
    }

    #[tokio::test]
    async fn the_longest_unused_goes_first() {
        let mut tasks = JoinSet::new();
        let (connections, ids, now) = full(&mut tasks);
        assert_eq!(connections.make_room(now), None);
        assert_eq!(ended(&connections, &ids), [0]);
        // There is room now.
        assert_eq!(connections.make_room(now), None);
        assert_eq!(ended(&connections, &ids), [0]);
    }

    #[tokio::test]
    async fn unused_ones_go_before_slow_ones_and_those_before_none() {
        let mut tasks = JoinSet::new();
        let (connections, ids, now) = full(&mut tasks);
        for one in connections.known().values_mut() {
            one.used = Use::Busy;
        }
        connections.known().get_mut(&ids[7]).unwrap().used = Use::New;
        connections.make_room(now);
        assert_eq!(ended(&connections, &ids), [7]);
        assert_eq!(
            connections.hangups.counts().map(|(_, count)| count).collect::<Vec<_>>(),
            [1, 0, 0]
        );
        connections.keep(|| tasks.spawn(std::future::pending()));
        // The new one is not even looked at yet.
        connections.make_room(now);
        assert_eq!(ended(&connections, &ids), [0, 7]);
        connections.keep(|| tasks.spawn(std::future::pending()));
        for one in connections.known().values_mut() {
            one.since = now - Duration::from_millis(10);
        }
        let until = connections.make_room(now).unwrap();
        assert!(until > now && until < now + GRACE, "{:?}", until - now);
        assert_eq!(ended(&connections, &ids), [0, 7]);
        assert_eq!(
            connections.hangups.counts().map(|(_, count)| count).collect::<Vec<_>>(),
            [1, 1, 0]
        );
    }

    #[tokio::test]
    async fn who_has_just_agreed_on_tls_is_new_again() {
        let mut tasks = JoinSet::new();
        let (connections, ids, now) = full(&mut tasks);
        connections.agreed(ids[0]);
        assert_eq!(connections.make_room(now), None);
        assert_eq!(ended(&connections, &ids), [1]);
    }

    #[tokio::test]
    async fn who_was_answered_has_time_to_take_it() {
        let mut tasks = JoinSet::new();
        let (connections, ids, now) = full(&mut tasks);
        for one in connections.known().values_mut() {
            one.used = Use::Answered;
            one.since = now;
        }
        assert_eq!(connections.make_room(now + GRACE), Some(now + TAKING));
        assert_eq!(ended(&connections, &ids), [0; 0]);
        assert_eq!(connections.make_room(now + TAKING), None);
        assert_eq!(ended(&connections, &ids).len(), 1);
    }
}
